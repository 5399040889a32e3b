/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What is known about devices beyond what they say themselves: the one place for it.
 * All of it only matters until somebody calibrates the device.
 */
#include "config.h"

#include "gpu/rlx-gpu-private.h"

#include <string.h>

#define VENDOR_AMD 0x1002
#define VENDOR_BROADCOM 0x14e4
#define VENDOR_INTEL 0x8086
#define VENDOR_NVIDIA 0x10de

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

/* If the driver may choose: what Dawn requires of Intel's, and what others choose. From Xe2 on
 * the smallest size is 16, and Dawn requires 32. */
static guint
get_subgroup_size (const RlxGpuAdapterInfo *info)
{
  const RlxTarget *target = &info->target;

  if (info->vendor_id == VENDOR_INTEL && target->subgroup_min <= 8 && target->subgroup_max >= 16)
    return 16;
  return target->subgroup_max;
}

void
rlx_gpu_adapter_info_set_traits (RlxGpuAdapterInfo *info)
{
  RlxTarget *target = &info->target;

  rlx_target_set_class (target, info->type);
  target->subgroup_size = get_subgroup_size (info);
  if (info->vendor_id == VENDOR_AMD || info->vendor_id == VENDOR_NVIDIA)
    target->registers = 255;
  /* 128 registers of a thread, as wide as the smallest subgroup. */
  if (info->vendor_id == VENDOR_INTEL && info->type != RLX_ADAPTER_TYPE_CPU && target->subgroup_size > 0)
    {
      target->registers = 128 * target->subgroup_min / target->subgroup_size;
      target->registers_are_shared = TRUE;
      target->max_subgroups = RLX_MAX_SHARED_SUBGROUPS;
    }
  if (info->type != RLX_ADAPTER_TYPE_CPU && is_v3d (info))
    {
      target->workgroup_memory_is_fast = FALSE;
      target->registers = 64;
    }
}
