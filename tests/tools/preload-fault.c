/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Loaded before Dawn into a program that knows nothing of it: a driver that takes
 * RLX_TEST_PATTERN in each kernel for RLX_TEST_OTHER, or loses the device when it is given
 * work for the time RLX_TEST_LOSS.
 */
#include "config.h"

#include "rlx-fault.h"

__attribute__ ((constructor)) static void
set_fault (void)
{
  const char *pattern = g_getenv ("RLX_TEST_PATTERN"), *loss = g_getenv ("RLX_TEST_LOSS");

  if (pattern != NULL)
    rlx_fault_miscompile (pattern, g_getenv ("RLX_TEST_OTHER"));
  if (loss != NULL)
    rlx_fault_arm (RLX_FAULT_AT_QueueSubmit, (guint) g_ascii_strtoull (loss, NULL, 10), RLX_FAULT_LOSS);
}
