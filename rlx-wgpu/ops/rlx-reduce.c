/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "ops/rlx-rows-private.h"

#include <math.h>
#include <string.h>

#include "ops/rlx-fused-private.h"
#include "ops/rlx-gradient-private.h"

/* An invocation adds at most this many elements, which bounds the rounding error
 * (kernels/common/sum.wgsl); longer rows are split. */
#define MAX_COLUMNS_PER_LANE 4096

/* ---- rule ------------------------------------------------------------------------ */

gboolean
rlx_reduce_infer (RlxOpCall            *call,
                  const RlxReduceAttrs *attrs,
                  GError              **error)
{
  const RlxTensorType *x = call->inputs[0];
  gboolean keep_dims = attrs->keep_dims;
  RlxTensorType type = { .data_type = x->data_type };
  guint mask;

  if (!rlx_call_axes (call, &attrs->axes, x->n_dims, FALSE, &mask, error))
    return FALSE;

  for (guint i = 0; i < x->n_dims; i++)
    {
      if ((mask >> i & 1) == 0)
        type.shape[type.n_dims++] = x->shape[i];
      else if (keep_dims)
        type.shape[type.n_dims++] = 1;
    }

  rlx_call_add_output (call, &type);
  return TRUE;
}

/* ---- gradient ---------------------------------------------------------------------- */

/* For each element, the product of all others in its row, also if some are zero. */
static RlxIrValue *
multiply_others (RlxBuilder          *b,
                 RlxIrValue          *x,
                 guint                mask)
{
  gint64 order[RLX_MAX_DIMS], back[RLX_MAX_DIMS], rows[2] = { 1, 1 };
  RlxIrValue *moved, *flat, *before, *after, *others;
  guint n = 0;

  for (guint reduced = 0; reduced < 2; reduced++)
    for (guint i = 0; i < x->type.n_dims; i++)
      if ((mask >> i & 1) == reduced)
        {
          rows[reduced] *= x->type.shape[i];
          back[i] = n;
          order[n++] = i;
        }
  moved = rlx_build_transpose (b, x, RLX_TRANSPOSE_ATTRS (.permutation = RLX_INTS (order, n)));
  flat = rlx_build_shaped (b, moved, rows, 2);
  before = rlx_build_cumprod (b, flat, RLX_CUMPROD_ATTRS (.axis = 1, .exclusive = TRUE));
  after = rlx_build_cumprod (b, flat, RLX_CUMPROD_ATTRS (.axis = 1, .exclusive = TRUE, .reverse = TRUE));
  others = rlx_build_mul (b, before, after);
  if (others == NULL)
    return NULL;
  others = rlx_build_shaped (b, others, moved->type.shape, moved->type.n_dims);
  return rlx_build_transpose (b, others, RLX_TRANSPOSE_ATTRS (.permutation = RLX_INTS (back, n)));
}

void
rlx_reduce_gradient (RlxGradient     *self,
                     const RlxIrNode *node)
{
  const RlxReduceAttrs *attrs = rlx_reduce_attrs (node);
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *x = node->inputs[0], *y = &node->outputs[0], *g = rlx_gradient_get (self, node, 0);
  RlxTensorType kept = x->type;
  RlxIrValue *slope = NULL;
  double n = 1;
  guint mask = 0;

  for (guint i = 0; i < attrs->axes.n_values; i++)
    mask |= 1u << rlx_type_get_axis (&x->type, attrs->axes.values[i]);
  for (guint i = 0; i < kept.n_dims; i++)
    if (mask >> i & 1)
      {
        n *= (double) kept.shape[i];
        kept.shape[i] = 1;
      }
  g = rlx_build_shaped (b, g, kept.shape, kept.n_dims);
  y = rlx_build_shaped (b, y, kept.shape, kept.n_dims);

  switch (node->op->id)
    {
    case RLX_OP_ID_REDUCE_SUM:
      break;
    case RLX_OP_ID_REDUCE_MEAN:
      slope = rlx_build_number (b, x, 1.0 / n);
      break;
    case RLX_OP_ID_REDUCE_MAX:
    case RLX_OP_ID_REDUCE_MIN:
      {
        /* Tied elements share the gradient equally. */
        RlxIrValue *is_it = rlx_build_as (b, rlx_build_equal (b, x, y), x->type.data_type);

        g = rlx_build_div (b, g, rlx_build_sum_to (b, is_it, &kept));
        slope = is_it;
        break;
      }
    case RLX_OP_ID_REDUCE_PROD:
      slope = multiply_others (b, x, mask);
      break;
    case RLX_OP_ID_REDUCE_L1:
      slope = rlx_build_sign (b, x);
      break;
    case RLX_OP_ID_REDUCE_L2:
      {
        RlxIrValue *zero = rlx_build_number (b, x, 0.0);

        slope = rlx_build_where (b, rlx_build_equal (b, y, zero), zero, rlx_build_div (b, x, y));
        break;
      }
    case RLX_OP_ID_REDUCE_SUM_SQUARE:
      slope = rlx_build_mul (b, x, rlx_build_number (b, x, 2.0));
      break;
    case RLX_OP_ID_REDUCE_LOG_SUM:
      slope = rlx_build_exp (b, rlx_build_neg (b, y));
      break;
    case RLX_OP_ID_REDUCE_LOG_SUM_EXP:
      {
        /* If all elements are -∞, none of them has any influence. */
        RlxIrValue *finite = rlx_build_where (b, rlx_build_is_inf (b, y, NULL), rlx_build_number (b, x, 0.0), y);

        slope = rlx_build_exp (b, rlx_build_sub (b, x, finite));
        break;
      }
    default:
      g_assert_not_reached ();
    }
  if (slope != NULL)
    g = rlx_build_mul (b, g, slope);
  rlx_gradient_add (self, node, 0, g);
}

/* ---- lowering ---------------------------------------------------------------------- */

typedef enum
{
  FOLD_SUM,
  FOLD_PROD,
  FOLD_MAX,
  FOLD_MIN,
  FOLD_LOG_SUM_EXP,
} Fold;

typedef enum
{
  BEFORE_NOTHING,
  BEFORE_ABS,
  BEFORE_SQUARE,
} Before;

typedef enum
{
  AFTER_NOTHING,
  AFTER_DIVIDE,
  AFTER_ROOT,
  AFTER_LOG,
} After;

typedef struct
{
  guint op;
  Fold fold;
  Before before;   /* applied to each element by the first step */
  After after;     /* applied to the result by the last step */
} Reduction;

static const Reduction *
get_reduction (const RlxOp *op)
{
  static const Reduction reductions[] = {
    { RLX_OP_ID_REDUCE_SUM, FOLD_SUM, BEFORE_NOTHING, AFTER_NOTHING },
    { RLX_OP_ID_REDUCE_MEAN, FOLD_SUM, BEFORE_NOTHING, AFTER_DIVIDE },
    { RLX_OP_ID_REDUCE_MAX, FOLD_MAX, BEFORE_NOTHING, AFTER_NOTHING },
    { RLX_OP_ID_REDUCE_MIN, FOLD_MIN, BEFORE_NOTHING, AFTER_NOTHING },
    { RLX_OP_ID_REDUCE_PROD, FOLD_PROD, BEFORE_NOTHING, AFTER_NOTHING },
    { RLX_OP_ID_REDUCE_L1, FOLD_SUM, BEFORE_ABS, AFTER_NOTHING },
    { RLX_OP_ID_REDUCE_L2, FOLD_SUM, BEFORE_SQUARE, AFTER_ROOT },
    { RLX_OP_ID_REDUCE_SUM_SQUARE, FOLD_SUM, BEFORE_SQUARE, AFTER_NOTHING },
    { RLX_OP_ID_REDUCE_LOG_SUM, FOLD_SUM, BEFORE_NOTHING, AFTER_LOG },
    { RLX_OP_ID_REDUCE_LOG_SUM_EXP, FOLD_LOG_SUM_EXP, BEFORE_NOTHING, AFTER_NOTHING },
    { RLX_OP_ID_REDUCE_ANY, FOLD_MAX, BEFORE_NOTHING, AFTER_NOTHING },
    { RLX_OP_ID_REDUCE_ALL, FOLD_MIN, BEFORE_NOTHING, AFTER_NOTHING },
  };

  for (guint i = 0; i < G_N_ELEMENTS (reductions); i++)
    if (op->id == reductions[i].op)
      return &reductions[i];

  g_assert_not_reached ();
}

static guint32
float_bits (float value)
{
  guint32 bits;

  memcpy (&bits, &value, sizeof bits);
  return bits;
}

/* The bits of the fold's identity element, as the kernel's 32-bit type. */
static guint32
get_identity (Fold        fold,
              RlxDataType data_type)
{
  gboolean is_float = rlx_data_type_is_float (data_type);

  switch (fold)
    {
    case FOLD_SUM:
    default:
      return 0;

    case FOLD_LOG_SUM_EXP:
      return float_bits (-INFINITY);

    case FOLD_PROD:
      return is_float ? float_bits (1.0f) : 1;

    case FOLD_MAX:
      if (is_float)
        return float_bits (-INFINITY);
      if (rlx_data_type_is_unsigned (data_type))
        return 0;
      if (data_type == RLX_DATA_TYPE_BOOL)
        return 0;
      return data_type == RLX_DATA_TYPE_I8 ? (guint32) G_MININT8 : (guint32) G_MININT32;

    case FOLD_MIN:
      if (is_float)
        return float_bits (INFINITY);
      if (rlx_data_type_is_unsigned (data_type))
        return data_type == RLX_DATA_TYPE_U8 ? G_MAXUINT8 : G_MAXUINT32;
      if (data_type == RLX_DATA_TYPE_BOOL)
        return 1;
      return data_type == RLX_DATA_TYPE_I8 ? G_MAXINT8 : G_MAXINT32;
    }
}

/* Booleans are folded as the numbers 0 and 1. */
static void
add_args (RlxKernel        *kernel,
          RlxDataType       data_type,
          const RlxIrValue *x,
          const RlxIrValue *y)
{
  if (data_type == RLX_DATA_TYPE_BOOL)
    {
      if (x != NULL)
        rlx_kernel_input_raw (kernel, "x", x);
      rlx_kernel_output_raw (kernel, "y", y);
    }
  else
    {
      if (x != NULL)
        rlx_kernel_input (kernel, "x", x);
      rlx_kernel_output (kernel, "y", y);
    }
}

static gboolean
lower_empty (RlxLower        *lower,
             const RlxIrNode *node,
             GError         **error)
{
  const Reduction *reduction = get_reduction (node->op);
  const RlxIrValue *y = &node->outputs[0];
  RlxDataType data_type = node->inputs[0]->type.data_type;
  RlxRows rows = { .n_rows = rlx_type_n_elements (&y->type) };
  RlxKernel *kernel = rlx_kernel_new (lower, node, "reduce");
  guint32 value = get_identity (reduction->fold, data_type);
  guint64 groups;

  if (reduction->after == AFTER_DIVIDE)
    value = float_bits (NAN);
  else if (reduction->after == AFTER_LOG)
    value = float_bits (-INFINITY);

  add_args (kernel, data_type, NULL, y);
  rlx_kernel_epilogue (kernel, node);
  rlx_kernel_define (kernel, "EMPTY", 1);
  rlx_kernel_param_u32 (kernel, "identity", value);
  groups = rlx_rows_describe (&rows, kernel, 1, 64);

  return rlx_kernel_dispatch (kernel, groups, error);
}

/* One step, which writes @parts results for each row to @y. @divisor is that of a mean. */
static gboolean
lower_step (RlxLower         *lower,
            const RlxIrNode  *node,
            const RlxRows    *kept,
            guint64           parts,
            guint             lanes,
            guint             workgroup_size,
            guint64           divisor,
            const RlxIrValue *x,
            const RlxIrValue *y,
            GError          **error)
{
  const Reduction *reduction = get_reduction (node->op);
  RlxDataType data_type = node->inputs[0]->type.data_type;
  Before before = x == node->inputs[0] ? reduction->before : BEFORE_NOTHING;
  After after = y == &node->outputs[0] ? reduction->after : AFTER_NOTHING;
  RlxKernel *kernel = rlx_kernel_new (lower, node, "reduce");
  RlxRows rows = *kept;
  guint64 groups;

  add_args (kernel, data_type, x, y);
  /* Only the last step has an epilogue. */
  if (y != &node->outputs[0])
    {
      rlx_kernel_define (kernel, "EPILOGUE", 0);
      rlx_kernel_define_text (kernel, "EPILOGUE_TEXT", "");
      rlx_kernel_define_text (kernel, "EPILOGUE_USES", "");
    }
  else
    {
      rlx_kernel_epilogue (kernel, node);
    }
  rlx_kernel_define (kernel, "EMPTY", 0);
  rlx_kernel_define (kernel, "FLOAT", rlx_data_type_is_float (data_type));
  rlx_kernel_define (kernel, "BOOLEAN", data_type == RLX_DATA_TYPE_BOOL);
  rlx_kernel_define (kernel, "SUM", reduction->fold == FOLD_SUM || reduction->fold == FOLD_LOG_SUM_EXP);
  rlx_kernel_define (kernel, "PROD", reduction->fold == FOLD_PROD);
  rlx_kernel_define (kernel, "MAX", reduction->fold == FOLD_MAX);
  rlx_kernel_define (kernel, "MIN", reduction->fold == FOLD_MIN);
  rlx_kernel_define (kernel, "LOG_SUM_EXP", reduction->fold == FOLD_LOG_SUM_EXP);
  rlx_kernel_define (kernel, "ABS", before == BEFORE_ABS);
  rlx_kernel_define (kernel, "SQUARE", before == BEFORE_SQUARE);
  rlx_kernel_define (kernel, "DIVIDE", after == AFTER_DIVIDE);
  rlx_kernel_define (kernel, "ROOT", after == AFTER_ROOT);
  rlx_kernel_define (kernel, "LOG", after == AFTER_LOG);
  rlx_kernel_param_u32 (kernel, "identity", get_identity (reduction->fold, x->type.data_type));
  if (after == AFTER_DIVIDE)
    rlx_kernel_param_f32 (kernel, "divisor", (double) divisor);

  /* The partial results of a row are adjacent if its first elements are. */
  rlx_kernel_define (kernel, "SPLIT", parts == 1 ? 0 : kept->reduced_strides[0] == 1 ? 1 : 2);
  if (parts > 1)
    {
      rlx_kernel_param_u32 (kernel, "parts", parts);
      rlx_kernel_param_u32 (kernel, "kept_rows", kept->n_rows);
    }
  rows.n_rows *= parts;
  groups = rlx_rows_describe (&rows, kernel, lanes, workgroup_size);
  rlx_kernel_set_cost (kernel, (double) kept->n_rows * kept->n_columns,
                       (double) kept->n_rows * kept->n_columns * rlx_data_type_get_size (rlx_data_type_on_device (x->type.data_type)));

  return rlx_kernel_dispatch (kernel, groups, error);
}

/* The same tensor with neighbouring axes merged, where both are kept or both are reduced. */
static void
join_axes (RlxTensorType *type,
           guint         *mask)
{
  RlxTensorType joined = { .data_type = type->data_type };
  guint joined_mask = 0;

  for (guint i = 0; i < type->n_dims; i++)
    {
      guint bit = *mask >> i & 1;

      if (type->shape[i] == 1)
        continue;
      if (joined.n_dims > 0 && (joined_mask >> (joined.n_dims - 1) & 1) == bit)
        {
          joined.shape[joined.n_dims - 1] *= type->shape[i];
          continue;
        }
      joined_mask |= bit << joined.n_dims;
      joined.shape[joined.n_dims++] = type->shape[i];
    }
  *type = joined;
  *mask = joined_mask;
}

/* Removes @axis from @type. */
static void
drop_axis (RlxTensorType *type,
           guint         *mask,
           guint          axis)
{
  guint low = (1u << axis) - 1;

  for (guint i = axis + 1; i < type->n_dims; i++)
    type->shape[i - 1] = type->shape[i];
  type->n_dims--;
  *mask = (*mask & low) | (*mask >> 1 & ~low);
}

/* ---- variants ------------------------------------------------------------------------ */

/* One step of a reduction. */
typedef struct
{
  const RlxIrValue *x;      /* the operand, or partial results in 32 bits */
  RlxTensorType type;       /* its shape, neighbouring axes joined */
  guint mask;               /* of axes that are reduced */
  RlxRows rows;
  guint64 n_columns;        /* of the operand */
} Problem;

static void
problem_init (Problem             *self,
              const RlxIrValue    *x,
              const RlxTensorType *type,
              guint                mask,
              guint64              n_columns)
{
  *self = (Problem) { .x = x, .type = *type, .mask = mask, .n_columns = n_columns };
  join_axes (&self->type, &self->mask);
  rlx_rows_init (&self->rows, &self->type, self->mask);
}

static char *
print_problem (gconstpointer data)
{
  const Problem *self = data;

  return g_strdup_printf ("%" G_GUINT64_FORMAT " rows of %" G_GUINT64_FORMAT ", %s", self->rows.n_rows, self->rows.n_columns,
                          rlx_data_type_to_string (self->type.data_type));
}

static double
reduce_cost (const RlxVariant *variant,
             const RlxTarget  *target,
             gconstpointer     data)
{
  const Problem *self = data;
  double n = (double) self->rows.n_rows * (double) self->rows.n_columns;

  return rlx_target_get_seconds (target, n, n * rlx_data_type_get_size (rlx_data_type_on_device (self->type.data_type)));
}

static gboolean
is_across (const RlxRows *rows)
{
  return rows->n_kept > 0 && rows->kept_strides[0] == 1;
}

/* How rows are split. */
typedef struct
{
  guint lanes;
  guint workgroup_size;
  guint64 n_parts;
} Cut;

static Cut
choose_cut (const RlxRows   *rows,
            const RlxTarget *target)
{
  RlxShare share = rlx_share_pick (target, rows->n_rows, rows->n_columns, is_across (rows));
  guint64 n = rows->n_columns;
  Cut cut = {
    .lanes = rlx_share_get_lanes (share, target),
    .workgroup_size = rlx_share_get_workgroup_size (share, target, rows->n_rows),
  };

  cut.n_parts = rlx_divide_up (n, MAX_COLUMNS_PER_LANE * cut.lanes);
  /* A few long rows would leave most of the device idle. */
  if (!target->barriers_are_cheap)
    {
      if (rows->n_rows < 16 && n >= 8192)
        {
          cut.lanes = 1;
          cut.n_parts = MAX (128, rlx_divide_up (n, MAX_COLUMNS_PER_LANE));
        }
    }
  else if (rows->n_rows < 64 && n >= 16384)
    {
      cut.n_parts = MAX (cut.n_parts, MIN (n / (cut.lanes * 16), 1024));
    }
  return cut;
}

/* Reduces what a step has left. */
static gboolean
lower_rest (RlxLower            *lower,
            const RlxIrNode     *node,
            const Problem       *problem,
            const RlxIrValue    *partial,
            const RlxTensorType *type,
            guint                mask,
            GError             **error)
{
  Problem rest;

  problem_init (&rest, partial, type, mask, problem->n_columns);
  return rlx_lower_choose (lower, node, &rlx_reduce_variants, &rest, error);
}

static RlxTensorType
get_partial_type (const Problem *problem)
{
  RlxDataType data_type = rlx_data_type_on_device (problem->type.data_type);
  RlxTensorType type = problem->type;

  if (data_type == RLX_DATA_TYPE_F16)
    data_type = RLX_DATA_TYPE_F32;
  else if (data_type == RLX_DATA_TYPE_I8)
    data_type = RLX_DATA_TYPE_I32;
  else if (data_type == RLX_DATA_TYPE_U8 || data_type == RLX_DATA_TYPE_BOOL)
    data_type = RLX_DATA_TYPE_U32;
  type.data_type = data_type;
  return type;
}

/* Invocations that share columns in several groups of axes would need divisions for every
 * element: reduce one group after the other instead. */
static RlxFit
axes_fits (const RlxVariant *variant,
           const RlxTarget  *target,
           gconstpointer     data,
           const char      **why)
{
  const RlxRows *rows = &((const Problem *) data)->rows;
  Cut cut = choose_cut (rows, target);

  if (rows->n_reduced < 2)
    return rlx_variant_cannot ("columns are one group of axes", why);
  if (cut.n_parts == 1 && cut.lanes == 1)
    return rlx_variant_poorly ("invocations share no row", why);
  return rows->n_columns >= 8192 ? RLX_FIT_WELL : rlx_variant_poorly ("rows are short", why);
}

static gboolean
axes_describe (const RlxVariant *variant,
               RlxLower         *lower,
               const RlxIrNode  *node,
               gconstpointer     data,
               GError          **error)
{
  const Problem *self = data;
  RlxTensorType next = get_partial_type (self);
  const RlxIrValue *partial;
  guint next_mask = self->mask, axis = 0;
  gint64 longest = 0;
  RlxRows rows;
  Cut cut;

  for (guint i = 0; i < self->type.n_dims; i++)
    if ((self->mask >> i & 1) && self->type.shape[i] > longest)
      {
        axis = i;
        longest = self->type.shape[i];
      }
  rlx_rows_init (&rows, &self->type, 1u << axis);
  cut = choose_cut (&rows, rlx_lower_get_target (lower));
  drop_axis (&next, &next_mask, axis);
  if (cut.n_parts > 1)
    {
      gboolean inner = rows.reduced_strides[0] == 1;
      guint at = inner ? next.n_dims : 0;

      /* The parts become an axis of their own, in the place that SPLIT gives them. */
      memmove (next.shape + at + 1, next.shape + at, (next.n_dims - at) * sizeof (gint64));
      next.shape[at] = (gint64) cut.n_parts;
      next.n_dims++;
      next_mask = inner ? next_mask | 1u << at : next_mask << 1 | 1u;
    }
  partial = rlx_lower_temporary (lower, &next);
  return lower_step (lower, node, &rows, cut.n_parts, cut.lanes, cut.workgroup_size, 0, self->x, partial, error) &&
         lower_rest (lower, node, self, partial, &next, next_mask, error);
}

static RlxFit
split_fits (const RlxVariant *variant,
            const RlxTarget  *target,
            gconstpointer     data,
            const char      **why)
{
  const RlxRows *rows = &((const Problem *) data)->rows;

  if (rows->n_columns < 4)
    return rlx_variant_cannot ("rows are too short to split", why);
  return choose_cut (rows, target).n_parts > 1 ? RLX_FIT_WELL : rlx_variant_poorly ("rows are short, or there are enough of them", why);
}

static gboolean
split_describe (const RlxVariant *variant,
                RlxLower         *lower,
                const RlxIrNode  *node,
                gconstpointer     data,
                GError          **error)
{
  const Problem *self = data;
  const RlxRows *rows = &self->rows;
  Cut cut = choose_cut (rows, rlx_lower_get_target (lower));
  guint64 n_parts = MAX (cut.n_parts, 2);
  gboolean inner = rows->reduced_strides[0] == 1;
  RlxTensorType next = get_partial_type (self);
  const RlxIrValue *partial;

  next.n_dims = 2;
  next.shape[inner ? 0 : 1] = (gint64) rows->n_rows;
  next.shape[inner ? 1 : 0] = (gint64) n_parts;
  partial = rlx_lower_temporary (lower, &next);
  return lower_step (lower, node, rows, n_parts, cut.lanes, cut.workgroup_size, 0, self->x, partial, error) &&
         lower_rest (lower, node, self, partial, &next, inner ? 2 : 1, error);
}

static RlxFit
whole_fits (const RlxVariant *variant,
            const RlxTarget  *target,
            gconstpointer     data,
            const char      **why)
{
  const RlxRows *rows = &((const Problem *) data)->rows;
  RlxShare share = GPOINTER_TO_UINT (variant->data);

  if (rows->n_columns > (guint64) MAX_COLUMNS_PER_LANE * rlx_share_get_lanes (share, target))
    return rlx_variant_cannot ("sums would be longer than the error bound allows", why);
  return rlx_share_fits (share, target, rows->n_rows, rows->n_columns, is_across (rows), why);
}

static gboolean
whole_describe (const RlxVariant *variant,
                RlxLower         *lower,
                const RlxIrNode  *node,
                gconstpointer     data,
                GError          **error)
{
  const RlxTarget *target = rlx_lower_get_target (lower);
  const Problem *self = data;
  RlxShare share = GPOINTER_TO_UINT (variant->data);

  return lower_step (lower, node, &self->rows, 1, rlx_share_get_lanes (share, target),
                     rlx_share_get_workgroup_size (share, target, self->rows.n_rows), self->n_columns, self->x,
                     &node->outputs[0], error);
}

static const RlxVariant variants[] = {
  { "axes", axes_fits, reduce_cost, NULL, axes_describe, NULL },
  { "split", split_fits, reduce_cost, NULL, split_describe, NULL },
  { "workgroup", whole_fits, reduce_cost, NULL, whole_describe, GUINT_TO_POINTER (RLX_SHARE_WORKGROUP) },
  { "lanes", whole_fits, reduce_cost, NULL, whole_describe, GUINT_TO_POINTER (RLX_SHARE_LANES) },
  { "rows", whole_fits, reduce_cost, NULL, whole_describe, GUINT_TO_POINTER (RLX_SHARE_NONE) },
};

static const RlxSample samples[] = {
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "f32[1024, 256]")
    "%1 = reduce_sum(%0) {axes = [1]}\n" RLX_SAMPLE_OUTPUT (1), 255 },
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "f32[8, 16384]")
    "%1 = reduce_sum(%0) {axes = [1]}\n" RLX_SAMPLE_OUTPUT (1), 255 },
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "f32[32, 8, 512]")
    "%1 = reduce_sum(%0) {axes = [0, 2]}\n" RLX_SAMPLE_OUTPUT (1), 255 },
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "f32[4096, 24]")
    "%1 = reduce_sum(%0) {axes = [1]}\n" RLX_SAMPLE_OUTPUT (1), 255 },
  { NULL, 0 },
};

const RlxVariants rlx_reduce_variants = {
  RLX_FAMILY_REDUCE, "reduction", variants, G_N_ELEMENTS (variants), print_problem, samples,
};

gboolean
rlx_reduce_lower (RlxLower        *lower,
                  const RlxIrNode *node,
                  GError         **error)
{
  const RlxIrValue *x = node->inputs[0];
  const RlxIrValue *y = &node->outputs[0];
  const Reduction *reduction = get_reduction (node->op);
  guint mask = rlx_axes_get_mask (&rlx_reduce_attrs (node)->axes, x->type.n_dims);
  guint64 n = 1;
  Problem problem;

  if (rlx_type_n_elements (&y->type) == 0)
    return TRUE;
  for (guint i = 0; i < x->type.n_dims; i++)
    if (mask >> i & 1)
      n *= (guint64) x->type.shape[i];
  if (n == 0)
    return lower_empty (lower, node, error);
  if (n == 1 && reduction->before == BEFORE_NOTHING && reduction->after != AFTER_LOG && node->payload == NULL)
    {
      rlx_lower_alias (lower, y, x);
      return TRUE;
    }
  problem_init (&problem, x, &x->type, mask, n);
  return rlx_lower_choose (lower, node, &rlx_reduce_variants, &problem, error);
}
