/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Copies that run along one dimension in the operand and along another in the
 * result, on a GPU: kernels/turn.wgsl.
 */
#include "config.h"

#include "ops/rlx-shape-private.h"

#define WORKGROUP_SIZE 256
#define TILE 32
/* With less of either dimension most of a tile is empty. */
#define MIN_SIDE 8

static gboolean
is_multiple (const RlxCopy *copy,
             guint          pack)
{
  if (copy->to_offset % pack != 0 || copy->shape[copy->n_dims - 1] % pack != 0)
    return FALSE;
  for (guint i = 0; i + 1 < copy->n_dims; i++)
    if (copy->to[i] % pack != 0)
      return FALSE;
  return TRUE;
}

/* The dimension along which the operand runs, if it is worth turning. */
static gboolean
find_near (const RlxCopy *copy,
           guint          pack,
           guint         *near)
{
  guint far = copy->n_dims - 1;

  if (copy->n_dims < 2 || copy->to[far] != 1 || ABS (copy->from[far]) < MIN_SIDE || copy->shape[far] < MIN_SIDE ||
      !is_multiple (copy, pack))
    return FALSE;
  for (guint i = 0; i < far; i++)
    if (ABS (copy->from[i]) == 1 && copy->shape[i] >= MIN_SIDE)
      {
        *near = i;
        return TRUE;
      }
  return FALSE;
}

static void
param (RlxKernel  *kernel,
       const char *name,
       gint64      value)
{
  /* negative distances count on arithmetic modulo 2³² */
  rlx_kernel_param_u32 (kernel, name, (guint32) value);
}

gboolean
rlx_lower_turn (RlxLower         *lower,
                const RlxIrNode  *node,
                const RlxIrValue *from,
                const RlxIrValue *to,
                const RlxCopy    *copy,
                gboolean         *done,
                GError          **error)
{
  guint bits = rlx_data_type_get_bits (rlx_data_type_on_device (to->type.data_type));
  guint pack = 32 / bits;
  guint far = copy->n_dims - 1, near, n_others = 0;
  guint64 n_groups, n = 1, tiles_near, tiles_far;
  RlxKernel *kernel;

  *done = rlx_lower_get_target (lower)->barriers_are_cheap && find_near (copy, pack, &near);
  if (!*done)
    return TRUE;

  tiles_near = ((guint64) copy->shape[near] + TILE - 1) / TILE;
  tiles_far = ((guint64) copy->shape[far] + TILE - 1) / TILE;
  n_groups = tiles_near * tiles_far;

  kernel = rlx_kernel_new (lower, node, "turn");
  rlx_kernel_input_raw (kernel, "x", from);
  rlx_kernel_output_raw (kernel, "y", to);
  rlx_kernel_define (kernel, "WG", WORKGROUP_SIZE);
  rlx_kernel_define (kernel, "PACK", pack);
  rlx_kernel_define (kernel, "BITS", bits);
  for (guint i = copy->n_dims; i-- > 0;)
    {
      char name[16];

      n *= (guint64) copy->shape[i];
      if (i == near || i == far)
        continue;
      g_snprintf (name, sizeof name, "dim%u", n_others);
      param (kernel, name, copy->shape[i]);
      g_snprintf (name, sizeof name, "from%u", n_others);
      param (kernel, name, copy->from[i]);
      g_snprintf (name, sizeof name, "to%u", n_others);
      param (kernel, name, copy->to[i]);
      n_groups *= (guint64) copy->shape[i];
      n_others++;
    }
  rlx_kernel_define (kernel, "OTHERS", n_others);
  rlx_kernel_param_u32 (kernel, "groups", n_groups);
  rlx_kernel_param_u32 (kernel, "tiles_near", tiles_near);
  rlx_kernel_param_u32 (kernel, "tiles_far", tiles_far);
  param (kernel, "near", copy->shape[near]);
  param (kernel, "far", copy->shape[far]);
  param (kernel, "from_offset", copy->from_offset);
  param (kernel, "from_near", copy->from[near]);
  param (kernel, "from_far", copy->from[far]);
  param (kernel, "to_offset", copy->to_offset);
  param (kernel, "to_near", copy->to[near]);
  rlx_kernel_set_cost (kernel, 0, 2.0 * (double) n * bits / 8);
  return rlx_kernel_dispatch (kernel, n_groups, error);
}
