/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "ops/rlx-sort-private.h"

#include <math.h>
#include <string.h>

#include "ops/rlx-variant-private.h"

gboolean
rlx_scan_infer (RlxOpCall          *call,
                const RlxScanAttrs *attrs,
                GError            **error)
{
  return rlx_axis_infer (call, attrs->axis, error);
}

/* The bits of the scan's identity element, as the kernel's 32-bit type. */
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

/* ---- variants ------------------------------------------------------------------------- */

typedef struct
{
  const RlxIrValue *x;
  const RlxAxis *axis;
  RlxScanKind kind;
  gboolean exclusive, reverse;
  const RlxIrValue *y;
} Problem;

static char *
print_problem (gconstpointer data)
{
  const Problem *self = data;

  return g_strdup_printf ("%" G_GUINT64_FORMAT " rows of %" G_GUINT64_FORMAT ", %s", self->axis->n_rows, self->axis->length,
                          rlx_data_type_to_string (self->x->type.data_type));
}

static double
scan_cost (const RlxVariant *variant,
           const RlxTarget  *target,
           gconstpointer     data)
{
  const RlxAxis *axis = ((const Problem *) data)->axis;
  double n = (double) axis->n_rows * (double) axis->length;

  return rlx_target_get_seconds (target, n, 8.0 * n);
}

/* How rows are split into blocks. */
typedef struct
{
  guint lanes;
  guint items;            /* per lane */
} Cut;

static const Cut shared_cut = { 64, 16 }, own_cut = { 1, 32 };

/* Scans blocks, starting from @carry if that is not NULL, or only writes their @totals. */
static gboolean
lower_step (RlxLower         *lower,
            const RlxIrNode  *node,
            const Problem    *self,
            const Cut        *cut,
            const RlxIrValue *totals,
            const RlxIrValue *carry,
            GError          **error)
{
  const guint workgroup_size = 64;
  const RlxAxis *axis = self->axis;
  RlxKernel *kernel = rlx_kernel_new (lower, node, "scan");
  guint64 blocks = rlx_divide_up (axis->length, cut->lanes * cut->items), items = axis->n_rows * blocks;
  guint64 groups = rlx_divide_up (items, workgroup_size / cut->lanes);

  rlx_kernel_input (kernel, "x", self->x);
  if (carry != NULL)
    rlx_kernel_input (kernel, "carry", carry);
  rlx_kernel_output (kernel, "y", totals != NULL ? totals : self->y);
  rlx_kernel_define (kernel, "WG", workgroup_size);
  rlx_kernel_define (kernel, "LANES", cut->lanes);
  rlx_kernel_define (kernel, "FLOAT", rlx_data_type_is_float (self->x->type.data_type));
  rlx_kernel_define (kernel, "SUM", self->kind == RLX_SCAN_SUM);
  rlx_kernel_define (kernel, "PROD", self->kind == RLX_SCAN_PROD);
  rlx_kernel_define (kernel, "MAX", self->kind == RLX_SCAN_MAX);
  rlx_kernel_define (kernel, "MIN", self->kind == RLX_SCAN_MIN);
  rlx_kernel_define (kernel, "TOTALS", totals != NULL);
  rlx_kernel_define (kernel, "CARRY", carry != NULL);
  rlx_kernel_param_u32 (kernel, "lane_items", cut->items);
  rlx_kernel_param_u32 (kernel, "exclusive", totals == NULL && self->exclusive);
  rlx_kernel_param_u32 (kernel, "reverse", self->reverse);
  rlx_kernel_param_u32 (kernel, "groups", groups);
  rlx_kernel_param_u32 (kernel, "items", items);
  rlx_kernel_param_u32 (kernel, "blocks", blocks);
  rlx_kernel_param_u32 (kernel, "columns", axis->length);
  rlx_kernel_param_u32 (kernel, "inner", axis->inner);
  rlx_kernel_param_u32 (kernel, "identity", get_identity (self->kind, self->x->type.data_type));
  rlx_kernel_set_cost (kernel, (double) axis->n_rows * axis->length, 8.0 * axis->n_rows * axis->length);

  return rlx_kernel_dispatch (kernel, groups, error);
}

/* Neighbouring invocations should read neighbouring elements. */
static RlxFit
shared_fits (const RlxVariant *variant,
             const RlxTarget  *target,
             gconstpointer     data,
             const char      **why)
{
  const RlxAxis *axis = ((const Problem *) data)->axis;

  if (!target->barriers_are_cheap)
    return rlx_variant_poorly ("barriers are slow here", why);
  if (axis->length <= 64)
    return rlx_variant_poorly ("rows are short", why);
  return axis->inner > 1 && axis->n_rows >= 4096 ? rlx_variant_poorly ("rows lie side by side", why) : RLX_FIT_WELL;
}

static RlxFit
own_fits (const RlxVariant *variant,
          const RlxTarget  *target,
          gconstpointer     data,
          const char      **why)
{
  return RLX_FIT_WELL;
}

static gboolean
scan_describe (const RlxVariant *variant,
               RlxLower         *lower,
               const RlxIrNode  *node,
               gconstpointer     data,
               GError          **error)
{
  const Problem *self = data;
  const Cut *cut = variant->data;
  guint64 blocks = rlx_divide_up (self->axis->length, cut->lanes * cut->items);
  const RlxIrValue *carry = NULL;

  if (blocks > 1)
    {
      RlxDataType data_type = rlx_data_type_is_float (self->x->type.data_type) ? RLX_DATA_TYPE_F32
                              : rlx_data_type_is_unsigned (self->x->type.data_type) ? RLX_DATA_TYPE_U32 : RLX_DATA_TYPE_I32;
      RlxAxis block_axis = { self->axis->n_rows, blocks, 1 };
      const RlxIrValue *totals = rlx_axis_temporary (lower, data_type, self->axis, blocks);

      carry = rlx_axis_temporary (lower, data_type, self->axis, blocks);
      if (!lower_step (lower, node, self, cut, totals, NULL, error) ||
          !rlx_lower_scan (lower, node, totals, &block_axis, self->kind, TRUE, FALSE, carry, error))
        return FALSE;
    }
  return lower_step (lower, node, self, cut, NULL, carry, error);
}

static const RlxVariant variants[] = {
  { "workgroup", shared_fits, scan_cost, NULL, scan_describe, &shared_cut },
  { "rows", own_fits, scan_cost, NULL, scan_describe, &own_cut },
};

static const RlxSample samples[] = {
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "f32[256, 1024]")
    "%1 = cumsum(%0) {axis = 1}\n" RLX_SAMPLE_OUTPUT (1), 255 },
  { NULL, 0 },
};

const RlxVariants rlx_scan_variants = {
  RLX_FAMILY_SCAN, "scan", variants, G_N_ELEMENTS (variants), print_problem, samples,
};

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
  const Problem problem = { x, axis, kind, exclusive, reverse, y };

  if (axis->n_rows == 0 || axis->length == 0)
    return TRUE;
  return rlx_lower_choose (lower, node, &rlx_scan_variants, &problem, error);
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

  rlx_axis_init (&axis, &x->type, rlx_type_get_axis (&x->type, attrs->axis));

  return rlx_lower_scan (lower, node, x, &axis, kind, attrs->exclusive,
                         attrs->reverse, &node->outputs[0], error);
}
