/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "ops/rlx-sort-private.h"

#include <math.h>
#include <string.h>

gboolean
rlx_scan_infer (RlxOpCall          *call,
                const RlxScanAttrs *attrs,
                GError            **error)
{
  return rlx_axis_infer (call, attrs->axis, error);
}

/* The bits of the value that changes nothing, as the kernel's 32-bit type. */
static guint32
get_identity (RlxScanKind kind,
              RlxDataType data_type)
{
  if (rlx_data_type_is_float (data_type))
    {
      static const float values[] = { 0, 1, -INFINITY, INFINITY };
      guint32 bits;

      memcpy (&bits, &values[kind], sizeof bits);
      return bits;
    }

  switch (kind)
    {
    case RLX_SCAN_PROD:
      return 1;
    case RLX_SCAN_MAX:
      if (rlx_data_type_is_unsigned (data_type))
        return 0;
      return data_type == RLX_DATA_TYPE_I8 ? (guint32) G_MININT8 : (guint32) G_MININT32;
    case RLX_SCAN_MIN:
      if (rlx_data_type_is_unsigned (data_type))
        return data_type == RLX_DATA_TYPE_U8 ? G_MAXUINT8 : G_MAXUINT32;
      return data_type == RLX_DATA_TYPE_I8 ? G_MAXINT8 : G_MAXINT32;
    case RLX_SCAN_SUM:
    default:
      return 0;
    }
}

/* How rows are cut into blocks. */
typedef struct
{
  guint lanes;
  guint items;
  guint64 blocks;
} Cut;

static Cut
choose_cut (RlxLower      *lower,
            const RlxAxis *axis)
{
  Cut cut = { 1, 32, 1 };

  /* A barrier costs much on a CPU. Neighbouring invocations should read
   * neighbouring elements. */
  if (rlx_lower_get_target (lower)->barriers_are_cheap &&
      axis->length > 64 && !(axis->inner > 1 && axis->n_rows >= 4096))
    cut = (Cut) { 64, 16, 1 };
  cut.blocks = (axis->length + cut.lanes * cut.items - 1) / (cut.lanes * cut.items);

  return cut;
}

static gboolean
lower_step (RlxLower         *lower,
            const RlxIrNode  *node,
            const RlxIrValue *x,
            const RlxAxis    *axis,
            const Cut        *cut,
            RlxScanKind       kind,
            gboolean          totals,
            const RlxIrValue *carry,
            gboolean          exclusive,
            gboolean          reverse,
            const RlxIrValue *y,
            GError          **error)
{
  RlxKernel *kernel = rlx_kernel_new (lower, node, "scan");
  guint64 items = axis->n_rows * cut->blocks;
  const guint workgroup_size = 64;
  guint64 per_group = workgroup_size / cut->lanes;
  guint64 groups = (items + per_group - 1) / per_group;

  rlx_kernel_input (kernel, "x", x);
  if (carry != NULL)
    rlx_kernel_input (kernel, "carry", carry);
  rlx_kernel_output (kernel, "y", y);
  rlx_kernel_define (kernel, "WG", workgroup_size);
  rlx_kernel_define (kernel, "LANES", cut->lanes);
  rlx_kernel_define (kernel, "FLOAT", rlx_data_type_is_float (x->type.data_type));
  rlx_kernel_define (kernel, "SUM", kind == RLX_SCAN_SUM);
  rlx_kernel_define (kernel, "PROD", kind == RLX_SCAN_PROD);
  rlx_kernel_define (kernel, "MAX", kind == RLX_SCAN_MAX);
  rlx_kernel_define (kernel, "MIN", kind == RLX_SCAN_MIN);
  rlx_kernel_define (kernel, "TOTALS", totals);
  rlx_kernel_define (kernel, "CARRY", carry != NULL);
  rlx_kernel_param_u32 (kernel, "lane_items", cut->items);
  rlx_kernel_param_u32 (kernel, "exclusive", exclusive);
  rlx_kernel_param_u32 (kernel, "reverse", reverse);
  rlx_kernel_param_u32 (kernel, "groups", groups);
  rlx_kernel_param_u32 (kernel, "items", items);
  rlx_kernel_param_u32 (kernel, "blocks", cut->blocks);
  rlx_kernel_param_u32 (kernel, "columns", axis->length);
  rlx_kernel_param_u32 (kernel, "inner", axis->inner);
  rlx_kernel_param_u32 (kernel, "identity", get_identity (kind, x->type.data_type));
  rlx_kernel_set_cost (kernel, (double) axis->n_rows * axis->length, 8.0 * axis->n_rows * axis->length);

  return rlx_kernel_dispatch (kernel, groups, error);
}

gboolean
rlx_lower_scan (RlxLower         *lower,
                const RlxIrNode  *node,
                const RlxIrValue *x,
                const RlxAxis    *axis,
                RlxScanKind       kind,
                gboolean          exclusive,
                gboolean          reverse,
                const RlxIrValue *y,
                GError          **error)
{
  Cut cut = choose_cut (lower, axis);
  const RlxIrValue *carry = NULL;

  if (axis->n_rows == 0 || axis->length == 0)
    return TRUE;

  if (cut.blocks > 1)
    {
      RlxDataType data_type = rlx_data_type_is_float (x->type.data_type) ? RLX_DATA_TYPE_F32
                          : rlx_data_type_is_unsigned (x->type.data_type) ? RLX_DATA_TYPE_U32 : RLX_DATA_TYPE_I32;
      RlxAxis block_axis = { axis->n_rows, cut.blocks, 1 };
      const RlxIrValue *totals = rlx_axis_temporary (lower, data_type, axis, cut.blocks);

      carry = rlx_axis_temporary (lower, data_type, axis, cut.blocks);
      if (!lower_step (lower, node, x, axis, &cut, kind, TRUE, NULL, FALSE, reverse, totals, error) ||
          !rlx_lower_scan (lower, node, totals, &block_axis, kind, TRUE, FALSE, carry, error))
        return FALSE;
    }

  return lower_step (lower, node, x, axis, &cut, kind, FALSE, carry, exclusive, reverse, y, error);
}

gboolean
rlx_scan_lower (RlxLower        *lower,
                const RlxIrNode *node,
                GError         **error)
{
  const RlxScanAttrs *attrs = rlx_scan_attrs (node);
  const RlxIrValue *x = node->inputs[0];
  RlxScanKind kind;
  RlxAxis axis;

  switch (node->op->id)
    {
    case RLX_OP_ID_CUMPROD:
      kind = RLX_SCAN_PROD;
      break;
    case RLX_OP_ID_CUMMAX:
      kind = RLX_SCAN_MAX;
      break;
    case RLX_OP_ID_CUMMIN:
      kind = RLX_SCAN_MIN;
      break;
    case RLX_OP_ID_CUMSUM:
    default:
      kind = RLX_SCAN_SUM;
      break;
    }

  rlx_axis_init (&axis, &x->type, rlx_axis_of (attrs->axis, &x->type));

  return rlx_lower_scan (lower, node, x, &axis, kind, attrs->exclusive,
                         attrs->reverse, &node->outputs[0], error);
}
