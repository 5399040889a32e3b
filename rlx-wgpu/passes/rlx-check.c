/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Checked runs. Beside each node that limits indices or lets integers wrap there is a
 * report of the first element that did not fit. The node itself stays as it is: its
 * kernels are those of any other run. What a report reads is one more use of a value, so
 * nothing is fused over that.
 *
 * A row of the op table that has `checked` has a function in the table at the end, unless
 * it says that there is nothing to check.
 */
#include "config.h"

#include "passes/rlx-passes-private.h"

#include "ops/rlx-builder-private.h"
#include "ops/rlx-report-private.h"
#include "ops/rlx-rows-private.h"

typedef struct
{
  RlxRewrite *base;
  RlxBuilder *b;
  const RlxIrNode *node;     /* in the graph that is read */
  RlxIrValue *const *inputs; /* of its copy */
  RlxIrValue *result;        /* of its copy */
} Check;

/* ---- reports ---------------------------------------------------------------------------- */

static RlxIrNode *
append (Check               *self,
        const RlxOp         *op,
        RlxIrValue *const   *inputs,
        guint                n_inputs,
        gconstpointer        attrs,
        const RlxTensorType *type)
{
  RlxIrNode *node = rlx_ir_append (self->base->out, op, attrs != NULL ? rlx_attrs_copy (op, attrs) : NULL, inputs, n_inputs, type, 1);

  node->origin = self->node->origin;
  node->name = g_strdup (self->node->name);
  return node;
}

static void
append_report (Check             *self,
               const RlxOp       *op,
               RlxIrValue *const *inputs,
               guint              n_inputs,
               gconstpointer      attrs)
{
  const RlxTensorType type = { RLX_DATA_TYPE_U32, 1, { RLX_REPORT_WORDS } };

  append (self, op, inputs, n_inputs, attrs, &type);
}

/* Reports elements of an operand that are not from @lowest to @highest; several limits
 * apply to the elements of the last axis in turn. */
static void
check_ranges (Check        *self,
              guint         input,
              const gint64 *lowest,
              const gint64 *highest,
              guint         n)
{
  RlxIrValue *x = input < self->node->n_inputs ? self->inputs[input] : NULL;

  if (x == NULL || rlx_type_n_elements (&x->type) == 0)
    return;
  append_report (self, &rlx_op_check_range, &x, 1,
                 RLX_CHECK_RANGE_ATTRS (.op = self->node->op->id, .input = input, .lowest = RLX_INTS (lowest, n), .highest = RLX_INTS (highest, n)));
}

static void
check_range (Check *self,
             guint  input,
             gint64 lowest,
             gint64 highest)
{
  check_ranges (self, input, &lowest, &highest, 1);
}

/* Negative indices count from the end. */
static void
check_axis (Check *self,
            guint  input,
            gint64 size)
{
  check_range (self, input, -size, size - 1);
}

static gboolean
is_wide_integer (const RlxIrValue *value)
{
  RlxDataType data_type = rlx_data_type_on_device (value->type.data_type);

  return (data_type == RLX_DATA_TYPE_I32 || data_type == RLX_DATA_TYPE_U32) && rlx_type_n_elements (&value->type) > 0;
}

/* Reports results that exceed 32 bits. Both are NULL after an error of the builder. */
static void
report_excess (Check      *self,
               RlxIrValue *result,
               RlxIrValue *excess)
{
  RlxIrValue *inputs[] = { result, excess };

  if (result != NULL && excess != NULL)
    append_report (self, &rlx_op_check_excess, inputs, 2, RLX_CHECK_EXCESS_ATTRS (.op = self->node->op->id));
}

/* Results of an element-wise operator that exceed 32 bits, for a result of @like's shape. */
static RlxIrValue *
build_excess (Check             *self,
              const RlxOp       *op,
              RlxIrValue *const *inputs,
              guint              n_inputs,
              const RlxIrValue  *like)
{
  RlxTensorType type = like->type;

  type.data_type = RLX_DATA_TYPE_I32;
  return &append (self, op, inputs, n_inputs, NULL, &type)->outputs[0];
}

static void
check_elementwise (Check       *self,
                   const RlxOp *excess)
{
  RlxDataType data_type = self->node->inputs[0]->type.data_type;

  if (is_wide_integer (self->result) && (excess->expr_u != NULL || !rlx_data_type_is_unsigned (data_type)))
    report_excess (self, self->result, build_excess (self, excess, self->inputs, self->node->n_inputs, self->result));
}

/* ---- operators -------------------------------------------------------------------------- */

static void
check_gather (Check *self)
{
  const RlxGatherAttrs *attrs = rlx_gather_attrs (self->node);
  const RlxTensorType *x = &self->node->inputs[0]->type;

  /* With it, they may have any value. */
  if (!attrs->clamp)
    check_axis (self, RLX_GATHER_INDICES, x->shape[rlx_type_get_axis (x, attrs->axis)]);
}

static void
check_gather_elements (Check *self)
{
  const RlxTensorType *x = &self->node->inputs[0]->type;

  check_axis (self, RLX_GATHER_ELEMENTS_INDICES, x->shape[rlx_type_get_axis (x, rlx_gather_elements_attrs (self->node)->axis)]);
}

/* Tuples of indices, for axes from @first on. */
static void
check_tuples (Check *self,
              guint  input,
              guint  first)
{
  const RlxTensorType *x = &self->node->inputs[0]->type, *indices = &self->node->inputs[input]->type;
  guint n = (guint) indices->shape[indices->n_dims - 1];
  gint64 lowest[RLX_MAX_DIMS], highest[RLX_MAX_DIMS];

  for (guint i = 0; i < n; i++)
    {
      lowest[i] = -x->shape[first + i];
      highest[i] = x->shape[first + i] - 1;
    }
  check_ranges (self, input, lowest, highest, n);
}

static void
check_gather_nd (Check *self)
{
  check_tuples (self, RLX_GATHER_ND_INDICES, (guint) rlx_gather_nd_attrs (self->node)->batch_dims);
}

static void
check_gather_packed (Check *self)
{
  check_axis (self, RLX_GATHER_PACKED_INDICES, self->node->inputs[0]->type.shape[0]);
}

/* The low and the high half of each element separately: the sums of 32,766 of them fit. */
#define MAX_UPDATES 32766

static RlxIrValue *
get_half (Check      *self,
          RlxIrValue *x,
          gboolean    high)
{
  RlxIrValue *number = rlx_build_constant (self->b, rlx_tensor_new_scalar (x->type.data_type, high ? 16 : 0xffff, NULL));

  return high ? rlx_build_shift_right (self->b, x, number) : rlx_build_bit_and (self->b, x, number);
}

/* exact = high · 2¹⁶ + low */
static void
check_scatter_sum (Check         *self,
                   RlxScatterMode mode)
{
  RlxIrValue *sums[2], *inputs[3];

  if (mode != RLX_SCATTER_MODE_ADD || !is_wide_integer (self->result) ||
      rlx_type_n_elements (&self->node->inputs[RLX_SCATTER_ELEMENTS_INDICES]->type) > MAX_UPDATES)
    return;
  for (guint i = 0; i < 2; i++)
    {
      RlxIrValue *x = get_half (self, self->inputs[RLX_SCATTER_ELEMENTS_SELF], i == 1);
      RlxIrValue *updates = get_half (self, self->inputs[RLX_SCATTER_ELEMENTS_UPDATES], i == 1);
      RlxIrValue *const operands[] = { x, self->inputs[RLX_SCATTER_ELEMENTS_INDICES], updates };

      sums[i] = rlx_builder_append_one (self->b, self->node->op, operands, G_N_ELEMENTS (operands), self->node->attrs);
    }
  inputs[0] = sums[1];
  inputs[1] = rlx_build_constant (self->b, rlx_tensor_new_scalar (self->result->type.data_type, 65536, NULL));
  inputs[2] = sums[0];
  if (self->b->error == NULL)
    report_excess (self, self->result, build_excess (self, &rlx_op_excess_fma, inputs, 3, self->result));
}

static void
check_scatter_elements (Check *self)
{
  const RlxScatterElementsAttrs *attrs = rlx_scatter_elements_attrs (self->node);
  const RlxTensorType *x = &self->node->inputs[0]->type;

  check_axis (self, RLX_SCATTER_ELEMENTS_INDICES, x->shape[rlx_type_get_axis (x, attrs->axis)]);
  check_scatter_sum (self, attrs->mode);
}

static void
check_scatter_nd (Check *self)
{
  check_tuples (self, RLX_SCATTER_ELEMENTS_INDICES, 0);
  check_scatter_sum (self, rlx_scatter_elements_attrs (self->node)->mode);
}

static void
check_write_at (Check *self)
{
  const RlxTensorType *x = &self->node->inputs[RLX_WRITE_AT_SELF]->type, *value = &self->node->inputs[RLX_WRITE_AT_VALUE]->type;
  guint axis = rlx_type_get_axis (x, rlx_write_at_attrs (self->node)->axis);

  check_axis (self, RLX_WRITE_AT_POSITION, x->shape[axis] - value->shape[axis] + 1);
}

/* -1 is for rows without an expert. */
static void
check_expert (Check *self,
              guint  input,
              guint  weight)
{
  check_range (self, input, -1, self->node->inputs[weight]->type.shape[0] - 1);
}

static void
check_grouped_matmul (Check *self)
{
  check_expert (self, RLX_GROUPED_MATMUL_EXPERT, RLX_GROUPED_MATMUL_WEIGHT);
}

static void
check_dequant_matmul (Check *self)
{
  check_expert (self, RLX_DEQUANT_MATMUL_EXPERT, RLX_DEQUANT_MATMUL_WEIGHT);
}

static void
check_key_lengths (Check *self,
                   guint  key_lengths)
{
  const RlxTensorType *key = &self->node->inputs[RLX_ATTENTION_KEY]->type;
  gboolean heads_first = rlx_attention_attrs (self->node)->layout == RLX_HEAD_LAYOUT_HEADS_FIRST;

  check_range (self, key_lengths, 0, key->shape[heads_first ? 2 : 1]);
}

static void
check_attention (Check *self)
{
  check_key_lengths (self, RLX_ATTENTION_KEY_LENGTHS);
}

static void
check_attention_backward (Check *self)
{
  check_key_lengths (self, RLX_ATTENTION_BACKWARD_KEY_LENGTHS);
}

/* Without a table a position can be anything. */
static void
check_rope (Check *self)
{
  const RlxIrValue *table = self->node->n_inputs > RLX_ROPE_COSINES ? self->node->inputs[RLX_ROPE_COSINES] : NULL;

  if (table != NULL)
    check_range (self, RLX_ROPE_POSITIONS, 0, table->type.shape[0] - 1);
}

static void
check_recurrent (Check *self)
{
  const RlxOp *op = self->node->op;

  for (guint i = 0; i < op->n_inputs; i++)
    if (g_str_equal (op->inputs[i].name, "sequence_lengths"))
      check_range (self, i, 0, self->node->inputs[0]->type.shape[rlx_recurrent_attrs (self->node)->batch_first ? 1 : 0]);
}

static void
check_cast (Check *self)
{
  const RlxIrValue *x = self->node->inputs[0];
  RlxDataType from = rlx_data_type_on_device (x->type.data_type), to = rlx_data_type_on_device (self->result->type.data_type);
  gboolean is_unsigned = rlx_data_type_is_unsigned (to);

  /* Values that the source cannot have need no check. */
  if (!is_wide_integer (self->result) || from == to || from == RLX_DATA_TYPE_BOOL ||
      (rlx_data_type_is_int (from) && rlx_data_type_get_bits (from) < 32 && (!is_unsigned || rlx_data_type_is_unsigned (from))))
    return;
  check_range (self, 0, is_unsigned ? 0 : G_MININT32, is_unsigned ? G_MAXUINT32 : G_MAXINT32);
}

/* The operand with the axes of @mask moved to the end, as rows. @order is set to the permutation. */
static RlxIrValue *
build_rows (Check  *self,
            guint   mask,
            gint64 *order,
            gint64 *rows)
{
  const RlxTensorType *type = &self->node->inputs[0]->type;
  gint64 shape[2] = { 1, 1 };
  guint n = 0;

  for (guint last = 0; last < 2; last++)
    for (guint i = 0; i < type->n_dims; i++)
      if (((mask >> i) & 1) == last)
        {
          order[n++] = i;
          shape[last] *= type->shape[i];
        }
  rows[0] = shape[0];
  rows[1] = shape[1];
  return rlx_build_reshape (self->b, rlx_build_transpose (self->b, self->inputs[0], RLX_TRANSPOSE_ATTRS (.permutation = RLX_INTS (order, n))),
                            RLX_RESHAPE_ATTRS (.shape = RLX_INTS (shape, 2)));
}

static void
check_reduce (Check *self)
{
  const RlxTensorType *x = &self->node->inputs[0]->type;
  RlxTensorType type = self->result->type;
  gint64 order[RLX_MAX_DIMS], shape[2];
  RlxIrValue *rows;

  if (!is_wide_integer (self->result) || rlx_type_n_elements (x) == 0)
    return;
  rows = build_rows (self, rlx_axes_get_mask (&rlx_reduce_attrs (self->node)->axes, x->n_dims), order, shape);
  /* In the order of the result, whose axes are those that remain. */
  type.data_type = RLX_DATA_TYPE_I32;
  if (rows != NULL)
    report_excess (self, self->result,
                   &append (self, &rlx_op_excess_rows, &rows, 1, RLX_EXCESS_ROWS_ATTRS (.op = self->node->op->id), &type)->outputs[0]);
}

static void
check_scan (Check *self)
{
  const RlxScanAttrs *attrs = rlx_scan_attrs (self->node);
  const RlxTensorType *x = &self->node->inputs[0]->type;
  RlxTensorType type = { RLX_DATA_TYPE_I32, 2, { 0, } };
  gint64 order[RLX_MAX_DIMS], back[RLX_MAX_DIMS], moved[RLX_MAX_DIMS];
  RlxIrValue *rows, *excess;

  if (!is_wide_integer (self->result))
    return;
  rows = build_rows (self, 1u << rlx_type_get_axis (x, attrs->axis), order, type.shape);
  if (rows == NULL)
    return;
  excess = &append (self, &rlx_op_excess_rows, &rows, 1,
                    RLX_EXCESS_ROWS_ATTRS (.op = self->node->op->id, .scan = TRUE, .exclusive = attrs->exclusive, .reverse = attrs->reverse),
                    &type)->outputs[0];
  for (guint i = 0; i < x->n_dims; i++)
    {
      moved[i] = x->shape[order[i]];
      back[order[i]] = i;
    }
  excess = rlx_build_reshape (self->b, excess, RLX_RESHAPE_ATTRS (.shape = RLX_INTS (moved, x->n_dims)));
  report_excess (self, self->result, rlx_build_transpose (self->b, excess, RLX_TRANSPOSE_ATTRS (.permutation = RLX_INTS (back, x->n_dims))));
}

/* Up to 33,025 products of bytes add up to a number that fits 32 bits: only adding the bias can overflow. @shape
 * makes the bias broadcast. */
static void
check_bias (Check        *self,
            RlxIrValue   *sum,
            RlxIrValue   *bias,
            const gint64 *shape,
            guint         n_dims)
{
  RlxIrValue *inputs[2];

  inputs[0] = sum;
  inputs[1] = rlx_build_reshape (self->b, bias, RLX_RESHAPE_ATTRS (.shape = RLX_INTS (shape, n_dims)));
  if (self->b->error == NULL)
    report_excess (self, rlx_build_add (self->b, inputs[0], inputs[1]), build_excess (self, &rlx_op_excess_add, inputs, 2, sum));
}

static void
check_qmatmul (Check *self)
{
  RlxIrValue *const *inputs = self->inputs;
  RlxIrValue *bias = self->node->n_inputs > RLX_QMATMUL_BIAS ? inputs[RLX_QMATMUL_BIAS] : NULL;
  RlxQmatmulAttrs attrs = *rlx_qmatmul_attrs (self->node);
  gint64 shape[1];

  if (bias == NULL || bias->type.data_type != RLX_DATA_TYPE_I32 || rlx_type_n_elements (&self->result->type) == 0)
    return;
  attrs.to = RLX_DATA_TYPE_I32;
  attrs.minimum = G_MININT32;
  attrs.maximum = G_MAXINT32;
  shape[0] = (gint64) rlx_type_n_elements (&bias->type);
  check_bias (self,
              rlx_build_qmatmul (self->b, inputs[RLX_QMATMUL_SELF], inputs[RLX_QMATMUL_OTHER], inputs[RLX_QMATMUL_ZERO_A],
                                 inputs[RLX_QMATMUL_ZERO_B], NULL, NULL, NULL, NULL, &attrs),
              bias, shape, 1);
}

static void
check_qconv2d (Check *self)
{
  RlxIrValue *const *inputs = self->inputs;
  RlxIrValue *bias = self->node->n_inputs > RLX_QCONV2D_BIAS ? inputs[RLX_QCONV2D_BIAS] : NULL;
  RlxConvAttrs attrs = *rlx_conv_attrs (self->node);
  gint64 shape[RLX_MAX_DIMS];
  guint n_dims = self->result->type.n_dims;

  if (bias == NULL || bias->type.data_type != RLX_DATA_TYPE_I32 || rlx_type_n_elements (&self->result->type) == 0)
    return;
  attrs.to = RLX_DATA_TYPE_I32;
  attrs.minimum = G_MININT32;
  attrs.maximum = G_MAXINT32;
  for (guint i = 0; i < n_dims; i++)
    shape[i] = 1;
  shape[attrs.layout == RLX_LAYOUT_CHANNELS_FIRST ? 1 : n_dims - 1] = (gint64) rlx_type_n_elements (&bias->type);
  check_bias (self,
              rlx_build_qconv2d (self->b, inputs[RLX_QCONV2D_SELF], inputs[RLX_QCONV2D_FILTER], inputs[RLX_QCONV2D_ZERO_X],
                                 inputs[RLX_QCONV2D_ZERO_W], NULL, NULL, NULL, NULL, &attrs),
              bias, shape, n_dims);
}

/* ---- the pass ----------------------------------------------------------------------------- */

static const struct
{
  RlxOpId op;
  void (*check) (Check *self);
  const RlxOp *excess;       /* of element-wise operators */
} checks[] = {
  { RLX_OP_ID_ABS, NULL, &rlx_op_excess_neg },
  { RLX_OP_ID_ADD, NULL, &rlx_op_excess_add },
  { RLX_OP_ID_ATTENTION, check_attention, NULL },
  { RLX_OP_ID_ATTENTION_BACKWARD, check_attention_backward, NULL },
  { RLX_OP_ID_CAST, check_cast, NULL },
  { RLX_OP_ID_CUMPROD, check_scan, NULL },
  { RLX_OP_ID_CUMSUM, check_scan, NULL },
  { RLX_OP_ID_DEQUANT_MATMUL, check_dequant_matmul, NULL },
  { RLX_OP_ID_DIV, NULL, &rlx_op_excess_div },
  { RLX_OP_ID_FMA, NULL, &rlx_op_excess_fma },
  { RLX_OP_ID_GATHER, check_gather, NULL },
  { RLX_OP_ID_GATHER_ELEMENTS, check_gather_elements, NULL },
  { RLX_OP_ID_GATHER_ND, check_gather_nd, NULL },
  { RLX_OP_ID_GATHER_PACKED, check_gather_packed, NULL },
  { RLX_OP_ID_GROUPED_MATMUL, check_grouped_matmul, NULL },
  { RLX_OP_ID_GRU, check_recurrent, NULL },
  { RLX_OP_ID_LSTM, check_recurrent, NULL },
  { RLX_OP_ID_MUL, NULL, &rlx_op_excess_mul },
  { RLX_OP_ID_NEG, NULL, &rlx_op_excess_neg },
  { RLX_OP_ID_POW, NULL, &rlx_op_excess_pow },
  { RLX_OP_ID_PRELU, NULL, &rlx_op_excess_prelu },
  { RLX_OP_ID_QCONV2D, check_qconv2d, NULL },
  { RLX_OP_ID_QMATMUL, check_qmatmul, NULL },
  { RLX_OP_ID_REDUCE_L1, check_reduce, NULL },
  { RLX_OP_ID_REDUCE_PROD, check_reduce, NULL },
  { RLX_OP_ID_REDUCE_SUM, check_reduce, NULL },
  { RLX_OP_ID_REDUCE_SUM_SQUARE, check_reduce, NULL },
  { RLX_OP_ID_RNN, check_recurrent, NULL },
  { RLX_OP_ID_ROPE, check_rope, NULL },
  { RLX_OP_ID_SCATTER_ELEMENTS, check_scatter_elements, NULL },
  { RLX_OP_ID_SCATTER_ND, check_scatter_nd, NULL },
  { RLX_OP_ID_SHIFT_LEFT, NULL, &rlx_op_excess_shift_left },
  { RLX_OP_ID_SUB, NULL, &rlx_op_excess_sub },
  { RLX_OP_ID_WRITE_AT, check_write_at, NULL },
};

static void
check_node (Check *self)
{
  for (guint i = 0; i < G_N_ELEMENTS (checks); i++)
    if (rlx_ir_node_is (self->node, checks[i].op))
      {
        if (checks[i].excess != NULL)
          check_elementwise (self, checks[i].excess);
        else
          checks[i].check (self);
        return;
      }
}

gboolean
rlx_op_has_check (const RlxOp *op)
{
  for (guint i = 0; i < G_N_ELEMENTS (checks); i++)
    if (op->id == checks[i].op)
      return TRUE;
  return FALSE;
}

RlxIr *
rlx_pass_check (const RlxIr     *ir,
                const RlxTarget *target,
                GError         **error)
{
  g_auto(RlxRewrite) base = { 0, };

  if (!ir->checked)
    return NULL;
  rlx_rewrite_init (&base, ir, target);
  for (guint i = 0; i < ir->nodes->len; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);
      g_auto(RlxBuilder) b = RLX_BUILDER (base.out, node);
      RlxIrNode *copy;

      if (!base.live[i])
        continue;
      copy = rlx_rewrite_copy (&base, node);
      check_node (&(Check) { &base, &b, node, copy->inputs, copy->outputs });
      if (b.error != NULL)
        {
          g_propagate_prefixed_error (error, g_steal_pointer (&b.error), "cannot check %s %%%u: ", node->op->name, node->origin);
          return NULL;
        }
    }
  return rlx_rewrite_end (&base);
}
