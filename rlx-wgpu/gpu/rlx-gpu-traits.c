/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What is known about devices beyond what they say themselves: the one place for it.
 * All of it only matters until somebody calibrates the device.
 */
#include "config.h"

#include "gpu/rlx-gpu-private.h"

#include <string.h>

#define VENDOR_BROADCOM 0x14e4

static gboolean
names (const char *text,
       const char *word)
{
  g_autofree char *lower = text != NULL ? g_ascii_strdown (text, -1) : NULL;

  return lower != NULL && strstr (lower, word) != NULL;
}

/* The GPU of the Raspberry Pi. */
static gboolean
is_v3d (const RlxGpuAdapterInfo *info)
{
  return info->vendor_id == VENDOR_BROADCOM || names (info->architecture, "v3d") || names (info->name, "v3d");
}

RlxGpuTraits
rlx_gpu_adapter_info_get_traits (const RlxGpuAdapterInfo *info)
{
  /* 128 is what Xe2 has with 16 lanes, and what leaves two workgroups of 256 to a core
   * of the others. Below that a compiler still finds room for what we count as 140. */
  RlxGpuTraits traits = { .workgroup_memory = TRUE, .registers = 140 };

  if (info->type == RLX_ADAPTER_TYPE_CPU)
    traits.workgroup_memory = FALSE;
  else if (is_v3d (info))
    traits = (RlxGpuTraits) { .workgroup_memory = FALSE, .registers = 64 };
  return traits;
}
