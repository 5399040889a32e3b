/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What a program gets where there is no driver; see test-programs.py.
 */
#include <rlx-wgpu/rlx-wgpu.h>

int
main (void)
{
  g_autoptr(GError) error = NULL;
  RlxDevice *device = rlx_device_get_default (&error);

  if (device != NULL || !g_error_matches (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_NO_ADAPTER))
    return 1;

  g_print ("NO_ADAPTER: %s\n", error->message);
  return 0;
}
