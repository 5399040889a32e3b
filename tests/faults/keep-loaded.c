/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * To be preloaded under a leak checker. A driver that is unloaded before the
 * process ends takes the names of its functions with it, and what it still
 * holds in global variables counts as lost.
 */
int dlclose (void *handle);

int
dlclose (void *handle)
{
  (void) handle;

  return 0;
}
