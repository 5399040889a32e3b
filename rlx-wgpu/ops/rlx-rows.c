/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "ops/rlx-rows-private.h"

void
rlx_rows_init (RlxRows             *rows,
               const RlxTensorType *type,
               guint                mask)
{
  guint64 stride = 1;

  *rows = (RlxRows) { .n_rows = 1, .n_columns = 1 };

  for (guint i = type->n_dims; i-- > 0;)
    {
      gboolean reduced = mask >> i & 1;
      guint64 dim = (guint64) type->shape[i];
      guint *n = reduced ? &rows->n_reduced : &rows->n_kept;
      guint64 *dims = reduced ? rows->reduced_dims : rows->kept_dims;
      guint64 *strides = reduced ? rows->reduced_strides : rows->kept_strides;

      *(reduced ? &rows->n_columns : &rows->n_rows) *= dim;
      if (dim == 1)
        continue;

      if (*n > 0 && stride == strides[*n - 1] * dims[*n - 1])
        {
          dims[*n - 1] *= dim;
        }
      else
        {
          dims[*n] = dim;
          strides[*n] = stride;
          (*n)++;
        }
      stride *= dim;
    }
}

guint
rlx_axes_get_mask (const RlxInts *axes,
                   guint          n_dims)
{
  guint mask = 0;

  for (guint i = 0; i < axes->n_values; i++)
    mask |= 1u << (axes->values[i] < 0 ? axes->values[i] + n_dims : axes->values[i]);

  return mask;
}

guint
rlx_share_get_lanes (RlxShare         self,
                     const RlxTarget *target)
{
  switch (self)
    {
    case RLX_SHARE_WORKGROUP:
      return MIN (256, target->limits.max_invocations);
    case RLX_SHARE_LANES:
      return target->barriers_are_cheap ? 32 : 8;
    case RLX_SHARE_NONE:
    default:
      return 1;
    }
}

guint
rlx_share_get_workgroup_size (RlxShare         self,
                              const RlxTarget *target,
                              guint64          n_rows)
{
  guint lanes = rlx_share_get_lanes (self, target);

  /* On a CPU, eight rows per subgroup need no barrier. A workgroup runs on one core. */
  if (!target->barriers_are_cheap)
    return MAX (lanes, lanes == 1 && n_rows >= 4096 ? 64 : 8);
  return MAX (lanes, 64);
}

/* Neighbouring invocations should read neighbouring elements. */
RlxFit
rlx_share_fits (RlxShare         self,
                const RlxTarget *target,
                guint64          n_rows,
                guint64          n_columns,
                gboolean         across,
                const char     **why)
{
  gboolean few_rows = n_rows < 16 && n_columns >= 1024;
  gboolean side_by_side = across && n_rows >= 4096;

  if (!target->barriers_are_cheap)
    {
      if (self == RLX_SHARE_WORKGROUP)
        return rlx_variant_poorly ("barriers are slow here", why);
      if (self == RLX_SHARE_LANES)
        return few_rows ? RLX_FIT_WELL : rlx_variant_poorly ("rows are many or short", why);
      return few_rows ? rlx_variant_poorly ("rows are few and long", why) : RLX_FIT_WELL;
    }
  if (self == RLX_SHARE_NONE)
    return n_columns < 32 || side_by_side ? RLX_FIT_WELL : rlx_variant_poorly ("neighbouring lanes would read distant elements", why);
  if (side_by_side)
    return rlx_variant_poorly ("rows lie side by side", why);
  if (self == RLX_SHARE_LANES && n_columns > 512)
    return rlx_variant_poorly ("rows are long", why);
  if (n_columns < 32 || (self == RLX_SHARE_WORKGROUP && n_columns <= 512))
    return rlx_variant_poorly ("rows are short", why);
  return RLX_FIT_WELL;
}

RlxShare
rlx_share_pick (const RlxTarget *target,
                guint64          n_rows,
                guint64          n_columns,
                gboolean         across)
{
  RlxShare share = RLX_SHARE_WORKGROUP;
  const char *why;

  while (share > RLX_SHARE_NONE && rlx_share_fits (share, target, n_rows, n_columns, across, &why) != RLX_FIT_WELL)
    share--;
  return share;
}

guint64
rlx_rows_describe (const RlxRows *rows,
                   RlxKernel     *kernel,
                   guint          lanes,
                   guint          workgroup_size)
{
  guint64 per_group = workgroup_size / lanes;
  guint64 groups = rlx_divide_up (rows->n_rows, per_group);

  rlx_kernel_define (kernel, "WG", workgroup_size);
  rlx_kernel_define (kernel, "LANES", lanes);
  rlx_kernel_define (kernel, "KEPT", rows->n_kept);
  rlx_kernel_define (kernel, "REDUCED", rows->n_reduced);
  rlx_kernel_param_u32 (kernel, "groups", groups);
  rlx_kernel_param_u32 (kernel, "rows", rows->n_rows);
  rlx_kernel_param_u32 (kernel, "columns", rows->n_columns);
  for (guint i = 0; i < rows->n_kept; i++)
    {
      rlx_kernel_param_u32_at (kernel, "row_dim", i, rows->kept_dims[i]);
      rlx_kernel_param_u32_at (kernel, "row_stride", i, rows->kept_strides[i]);
    }
  for (guint i = 0; i < rows->n_reduced; i++)
    {
      rlx_kernel_param_u32_at (kernel, "column_dim", i, rows->reduced_dims[i]);
      rlx_kernel_param_u32_at (kernel, "column_stride", i, rows->reduced_strides[i]);
    }

  return groups;
}
