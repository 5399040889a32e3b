/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Convolutions and products of matrices whose operands are quantised become
 * qconv2d and qmatmul: the sum is one of integers, which is exact, and is scaled
 * once. The bias is added and the result quantised as before.
 *
 * The result is within the bounds of what it replaces. Let s be the exact sum and S
 * the sum of the products' magnitudes, K of them. Before, each factor was off by
 * 2⁻²⁴ of itself and the sum by 2 · K · 2⁻²⁴ · S, all in all (2 · K + 2) · 2⁻²⁴ · S,
 * and 2⁻²³ of the result with the bias. Now the conversion of the sum, the scale and
 * their product each are off by 2⁻²⁴ of |s| <= S, which is less from K = 1 on, and
 * the bias adds 2⁻²⁴ of the result. A sum of up to 33,025 products of at most
 * 255 · 255 fits into 32 bits; longer ones are left alone. What is quantised
 * afterwards is divided by the same scale and rounded in the same way, so it is the
 * same but where the number is, within these bounds, half-way between two levels.
 */
#include "config.h"

#include "passes/rlx-qdq-private.h"

#include <math.h>
#include <string.h>

#include "ops/rlx-conv-private.h"
#include "util/rlx-debug-private.h"

#define MAX_TERMS 33025
/* The operands of both operators. */
enum
{
  INPUT_X,
  INPUT_W,
  INPUT_ZERO_X,
  INPUT_ZERO_W,
  INPUT_BIAS,
  INPUT_SCALE,
  INPUT_SCALE_Y,
  INPUT_ZERO_Y,
  N_INPUTS,
};

/* Above this many products a plain kernel is slower on a CPU than floats are. */
#define MAX_PLAIN_WORK (1 << 20)
/* Below this, moving the channels costs more than it gains. */
#define MIN_MOVED_WORK (1 << 18)

/* The second operand: scale and zero point for each output channel, or one. */
typedef struct
{
  RlxIrValue *value;
  gsize n;
  double *scales;
  gint64 *zeros;
} Weights;

static void
weights_clear (Weights *self)
{
  g_free (self->scales);
  g_free (self->zeros);
}

/* @axis is that of the output channels. */
static gboolean
get_weights (RlxQdq           *self,
             const RlxIrValue *value,
             guint             axis,
             Weights          *weights)
{
  const RlxQuantized *known = &self->quantized[value->id];
  const RlxIrNode *node = value->node;
  const RlxTensorType *scale, *type = &value->type;
  RlxTensor *scales, *zeros = NULL;
  g_autofree gint64 *ints = NULL;
  gsize n_ints = 0;

  *weights = (Weights) { 0 };
  if (known->value != NULL && !known->levels_only)
    {
      weights->value = known->value;
      weights->n = 1;
      weights->scales = g_memdup2 (&known->scale, sizeof (double));
      weights->zeros = g_memdup2 (&known->zero, sizeof (gint64));
      return TRUE;
    }

  if (!rlx_qdq_is (node, "dequantize_linear") || rlx_node_attr (node, "blocks")->n_ints > 0)
    return FALSE;
  scale = &node->inputs[1]->type;
  scales = rlx_qdq_get_constant (node->inputs[1]);
  if (node->inputs[2] != NULL)
    zeros = rlx_qdq_get_constant (node->inputs[2]);
  if (scales == NULL || (node->inputs[2] != NULL && zeros == NULL) || rlx_data_type_get_bits (node->inputs[0]->type.dtype) != 8)
    return FALSE;
  for (guint i = 0; i < scale->rank; i++)
    {
      guint at = type->rank - scale->rank + i;

      if (scale->dims[i] != (at == axis ? type->dims[axis] : 1))
        return FALSE;
    }

  weights->value = self->map[node->inputs[0]->id];
  weights->n = rlx_type_n_elements (scale);
  weights->scales = g_new (double, weights->n + 1);
  weights->zeros = g_new0 (gint64, weights->n + 1);
  if (zeros != NULL)
    ints = rlx_tensor_get_ints (zeros, &n_ints);
  for (gsize i = 0; i < weights->n; i++)
    {
      weights->scales[i] = rlx_tensor_get_value (scales, i);
      if (zeros != NULL)
        weights->zeros[i] = ints[i];
      if (!rlx_qdq_is_scale (weights->scales[i], RLX_DATA_TYPE_F32))
        {
          weights_clear (weights);
          return FALSE;
        }
    }
  return weights->n > 0;
}

/* What follows a product, up to the levels of its result. */
typedef struct
{
  const RlxIrNode *quantize;   /* NULL: nothing but the number itself */
  double scale;
  gint64 zero;
  gint64 minimum, maximum;     /* levels */
} Ending;

/* Only nodes that nobody else needs are taken. */
static void
find_ending (RlxQdq          *self,
             const RlxIrNode *node,
             Ending          *ending)
{
  double least = -INFINITY, greatest = INFINITY;

  *ending = (Ending) { 0 };
  while ((node = rlx_qdq_get_user (self, &node->outputs[0])) != NULL)
    {
      RlxDataType to = node->outputs[0].type.dtype;

      if (rlx_qdq_is (node, "relu"))
        {
          least = MAX (least, 0);
          greatest = MAX (greatest, 0);
        }
      else if (rlx_qdq_is (node, "clamp"))
        {
          double low = rlx_node_attr (node, "minimum")->f, high = rlx_node_attr (node, "maximum")->f;

          least = CLAMP (least, low, high);
          greatest = CLAMP (greatest, low, high);
        }
      else
        {
          if (!rlx_qdq_is (node, "quantize_linear"))
            return;
          if ((to != RLX_DATA_TYPE_I8 && to != RLX_DATA_TYPE_U8) ||
              !rlx_qdq_get_levels (node, &ending->scale, &ending->zero) ||
              !rlx_qdq_get_level (least, ending->scale, ending->zero, to, &ending->minimum) ||
              !rlx_qdq_get_level (greatest, ending->scale, ending->zero, to, &ending->maximum))
            {
              RLX_NOTE (FUSE, "%%%u quantize_linear is not part of the product before it: its scale is not one that is known, or a limit is half-way between two levels",
                        node->outputs[0].id);
              return;
            }
          ending->quantize = node;
          return;
        }
    }
}

static RlxTensor *
new_vector (RlxDataType   dtype,
            const double *floats,
            const gint64 *ints,
            gsize         n)
{
  gint64 shape[] = { (gint64) n };

  if (floats != NULL)
    {
      g_autofree float *values = g_new (float, n);

      for (gsize i = 0; i < n; i++)
        values[i] = (float) floats[i];
      return rlx_tensor_new_from_floats (shape, 1, values, n, NULL);
    }
  return rlx_tensor_new_from_ints (dtype, shape, 1, ints, n, NULL);
}

/* The inputs from the zero points on, and the type and the limits of the result. */
static void
set_inputs (RlxQdq             *self,
            const RlxIrNode    *node,
            const RlxQuantized *x,
            const Weights      *weights,
            RlxIrValue         *bias,
            const Ending       *ending,
            RlxIrValue        **inputs,
            RlxAttrValue       *attrs,
            const char         *op)
{
  g_autofree double *scales = g_new (double, weights->n);
  gboolean any = FALSE;

  inputs[INPUT_X] = x->value;
  inputs[INPUT_W] = weights->value;
  inputs[INPUT_BIAS] = bias;
  if (x->zero != 0)
    inputs[INPUT_ZERO_X] = rlx_qdq_append_constant (self, node, rlx_tensor_new_scalar (x->value->type.dtype, (double) x->zero, NULL));
  for (gsize i = 0; i < weights->n; i++)
    {
      any |= weights->zeros[i] != 0;
      scales[i] = x->scale * weights->scales[i];
    }
  if (any)
    inputs[INPUT_ZERO_W] = rlx_qdq_append_constant (self, node, new_vector (weights->value->type.dtype, NULL, weights->zeros, weights->n));
  inputs[INPUT_SCALE] = rlx_qdq_append_constant (self, node, new_vector (RLX_DATA_TYPE_F32, scales, NULL, weights->n));

  if (ending->quantize == NULL)
    {
      rlx_qdq_set_int (attrs, op, "to", RLX_DATA_TYPE_F32);
      return;
    }
  inputs[INPUT_SCALE_Y] = rlx_qdq_append_constant (self, node, rlx_tensor_new_scalar (RLX_DATA_TYPE_F32, ending->scale, NULL));
  if (ending->zero != 0)
    inputs[INPUT_ZERO_Y] = rlx_qdq_append_constant (self, node, rlx_tensor_new_scalar (ending->quantize->outputs[0].type.dtype, (double) ending->zero, NULL));
  rlx_qdq_set_int (attrs, op, "to", ending->quantize->outputs[0].type.dtype);
  rlx_qdq_set_int (attrs, op, "minimum", ending->minimum);
  rlx_qdq_set_int (attrs, op, "maximum", ending->maximum);
}

/* @result stands for what the product or its ending gave. */
static void
set_result (RlxQdq          *self,
            const RlxIrNode *node,
            const Ending    *ending,
            RlxIrValue      *result)
{
  const RlxIrNode *end = ending->quantize != NULL ? ending->quantize : node;

  self->map[end->outputs[0].id] = result;
  RLX_NOTE (FUSE, "%%%u %s: integers are multiplied%s", node->outputs[0].id, node->op->name,
            ending->quantize != NULL ? " and the sums quantised" : "");
  while (node != end)
    {
      self->done[node->id] = TRUE;
      node = rlx_qdq_get_user (self, &node->outputs[0]);
    }
  self->done[end->id] = TRUE;
}

static gboolean
is_cpu (RlxQdq *self)
{
  return self->adapter->type == RLX_ADAPTER_TYPE_CPU;
}

/* ---- products of matrices ------------------------------------------------------------- */

/* A bias of N elements or one, in one dimension or none; FALSE for another. */
static gboolean
get_bias (RlxQdq           *self,
          const RlxIrNode  *node,
          const RlxIrValue *bias,
          gint64            columns,
          RlxIrValue      **result)
{
  RlxTensorType type = { .dtype = RLX_DATA_TYPE_F32 };
  guint64 n = rlx_type_n_elements (&bias->type);
  RlxAttrValue *attrs;

  if (n != 1 && (n != (guint64) columns || bias->type.dims[bias->type.rank - 1] != columns))
    return FALSE;
  *result = self->map[bias->id];
  if (bias->type.rank <= 1)
    return TRUE;
  type.rank = 1;
  type.dims[0] = (gint64) n;
  attrs = rlx_attrs_new (rlx_op_lookup ("reshape"));
  rlx_attr_set_ints (&attrs[rlx_op_find_attr (rlx_op_lookup ("reshape"), "shape")], type.dims, 1);
  *result = rlx_qdq_append (self, node, "reshape", attrs, result, 1, &type);
  return TRUE;
}

static gboolean
multiply_matrices (RlxQdq          *self,
                   const RlxIrNode *node)
{
  const RlxIrValue *a = node->inputs[0], *b = node->inputs[1];
  const RlxIrValue *bias = rlx_qdq_is (node, "linear") && node->n_inputs > 2 ? node->inputs[2] : NULL;
  gboolean transpose_b = rlx_node_attr (node, "transpose_b")->i != 0;
  const RlxQuantized *x = &self->quantized[a->id];
  RlxIrValue *inputs[N_INPUTS] = { NULL, }, *addend = NULL;
  RlxTensorType type = node->outputs[0].type;
  RlxAttrValue *attrs;
  gint64 k, n;
  Weights weights;
  Ending ending;

  if (x->value == NULL || x->levels_only)
    return FALSE;
  if (b->type.rank < 2 || !get_weights (self, b, b->type.rank - (transpose_b ? 2 : 1), &weights))
    {
      RLX_NOTE (FUSE, "%%%u %s stays one of floats: the second operand is not quantised, or not for each column with scales that are known",
                node->outputs[0].id, node->op->name);
      return FALSE;
    }
  k = a->type.dims[a->type.rank - 1];
  n = type.dims[type.rank - 1];
  if (a->type.rank < 2 || rlx_node_attr (node, "transpose_a")->i != 0 || a->type.dtype != RLX_DATA_TYPE_F32 ||
      rlx_data_type_get_bits (x->value->type.dtype) != 8 || rlx_data_type_get_bits (weights.value->type.dtype) != 8 ||
      k > MAX_TERMS ||
      (rlx_qdq_is (node, "linear") && (rlx_node_attr (node, "alpha")->f != 1 || (bias != NULL && rlx_node_attr (node, "beta")->f != 1))) ||
      (is_cpu (self) && (k % 4 != 0 || (n % 4 != 0 && !transpose_b)) &&
       rlx_type_n_elements (&type) * (guint64) k > MAX_PLAIN_WORK) ||
      (bias != NULL && !get_bias (self, node, bias, n, &addend)))
    {
      RLX_NOTE (FUSE, "%%%u %s of integers stays one of floats: the first operand is transposed or a vector, elements are not 8-bit integers, there are factors or a whole matrix to add, sums have more than %d products, or rows are not whole words",
                node->outputs[0].id, node->op->name, MAX_TERMS);
      weights_clear (&weights);
      return FALSE;
    }

  find_ending (self, node, &ending);
  attrs = rlx_attrs_new (rlx_op_lookup ("qmatmul"));
  set_inputs (self, node, x, &weights, addend, &ending, inputs, attrs, "qmatmul");
  /* zero points of columns lie as the columns do */
  if (inputs[INPUT_ZERO_W] != NULL && weights.n > 1 && transpose_b)
    {
      RlxAttrValue *shape = rlx_attrs_new (rlx_op_lookup ("reshape"));
      RlxTensorType column = { .dtype = weights.value->type.dtype, .rank = 2, .dims = { (gint64) weights.n, 1 } };

      rlx_attr_set_ints (&shape[rlx_op_find_attr (rlx_op_lookup ("reshape"), "shape")], column.dims, 2);
      inputs[INPUT_ZERO_W] = rlx_qdq_append (self, node, "reshape", shape, &inputs[INPUT_ZERO_W], 1, &column);
    }
  rlx_qdq_set_int (attrs, "qmatmul", "transpose_b", transpose_b);
  if (ending.quantize != NULL)
    type.dtype = ending.quantize->outputs[0].type.dtype;
  set_result (self, node, &ending, rlx_qdq_append (self, node, "qmatmul", attrs, inputs, N_INPUTS, &type));
  weights_clear (&weights);
  return TRUE;
}

/* ---- convolutions ---------------------------------------------------------------------- */

static RlxIrValue *
append_transpose (RlxQdq          *self,
                  const RlxIrNode *node,
                  RlxIrValue      *x,
                  const gint64    *permutation)
{
  RlxAttrValue *attrs = rlx_attrs_new (rlx_op_lookup ("transpose"));
  RlxTensorType type = x->type;

  for (guint i = 0; i < type.rank; i++)
    type.dims[i] = x->type.dims[permutation[i]];
  rlx_attr_set_ints (&attrs[rlx_op_find_attr (rlx_op_lookup ("transpose"), "permutation")], permutation, type.rank);
  return rlx_qdq_append (self, node, "transpose", attrs, &x, 1, &type);
}

/* Channels first, channels last. A tensor that came from there goes back for free. */
static RlxIrValue *
move_channels (RlxQdq          *self,
               const RlxIrNode *node,
               RlxIrValue      *x)
{
  RlxIrValue *moved = g_hash_table_lookup (self->last, x);
  gint64 permutation[RLX_MAX_RANK];
  guint rank = x->type.rank;

  if (moved != NULL)
    return moved;
  permutation[0] = 0;
  for (guint i = 2; i < rank; i++)
    permutation[i - 1] = i;
  permutation[rank - 1] = 1;
  moved = append_transpose (self, node, x, permutation);
  g_hash_table_insert (self->last, x, moved);
  return moved;
}

static RlxIrValue *
move_channels_back (RlxQdq          *self,
                    const RlxIrNode *node,
                    RlxIrValue      *y)
{
  gint64 permutation[RLX_MAX_RANK];
  guint rank = y->type.rank;
  RlxIrValue *moved;

  permutation[0] = 0;
  permutation[1] = rank - 1;
  for (guint i = 2; i < rank; i++)
    permutation[i] = i - 1;
  moved = append_transpose (self, node, y, permutation);
  g_hash_table_insert (self->last, moved, y);
  return moved;
}

/* A filter with output channels first and input channels last; constant ones are
 * moved once. */
static RlxIrValue *
move_filter (RlxQdq          *self,
             const RlxIrNode *node,
             const RlxConv   *conv,
             RlxIrValue      *filter)
{
  gint64 permutation[RLX_MAX_RANK];
  guint rank = filter->type.rank;

  if (conv->out_axis == 0 && conv->in_axis == rank - 1)
    return filter;
  permutation[0] = conv->out_axis;
  for (guint i = 0; i + 2 < rank; i++)
    permutation[i + 1] = conv->first_axis + i;
  permutation[rank - 1] = conv->in_axis;
  return append_transpose (self, node, filter, permutation);
}

static void
copy_attrs (const RlxIrNode *node,
            RlxAttrValue    *attrs)
{
  static const char *const names[] = { "strides", "dilations", "padding", "groups", "layout", "filter_layout" };
  const RlxOp *op = rlx_op_lookup ("qconv2d");

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      RlxAttrValue *to = &attrs[rlx_op_find_attr (op, names[i])];
      const RlxAttrValue *from = rlx_node_attr (node, names[i]);

      if (i < 3)
        rlx_attr_set_ints (to, from->ints, from->n_ints);
      else
        rlx_attr_set_int (to, from->i);
    }
}

static gboolean
convolve (RlxQdq          *self,
          const RlxIrNode *node)
{
  const RlxQuantized *x = &self->quantized[node->inputs[0]->id];
  const RlxIrValue *bias = node->n_inputs > 2 ? node->inputs[2] : NULL;
  RlxIrValue *inputs[N_INPUTS] = { NULL, }, *result;
  RlxTensorType type = node->outputs[0].type;
  const RlxTensorType *types[3];
  gboolean last, packable, moved = FALSE;
  double terms, work;
  RlxAttrValue *attrs;
  RlxOpCall call;
  RlxConv conv;
  Weights weights;
  Ending ending;

  if (x->value == NULL || x->levels_only || node->inputs[0]->type.dtype != RLX_DATA_TYPE_F32)
    return FALSE;
  rlx_window_make_call (&call, node, types);
  if (!rlx_conv_read (&conv, &call, FALSE, NULL) || !get_weights (self, node->inputs[1], conv.out_axis, &weights))
    {
      RLX_NOTE (FUSE, "%%%u conv stays one of floats: the filter is not quantised, or not for each output channel with scales that are known",
                node->outputs[0].id);
      return FALSE;
    }

  terms = (double) conv.channels_in;
  for (guint i = 0; i < conv.window.n_axes; i++)
    terms *= (double) conv.window.axes[i].window;
  work = terms * (double) rlx_type_n_elements (&type);
  last = conv.window.channels_last;
  packable = conv.channels_in % 4 == 0;
  if (terms > MAX_TERMS || rlx_data_type_get_bits (x->value->type.dtype) != 8 ||
      rlx_data_type_get_bits (weights.value->type.dtype) != 8 ||
      (is_cpu (self) && !packable && work > MAX_PLAIN_WORK))
    {
      RLX_NOTE (FUSE, "%%%u conv of integers stays one of floats: sums have more than %d products, elements are not 8-bit integers, or channels are not whole words",
                node->outputs[0].id, MAX_TERMS);
      weights_clear (&weights);
      return FALSE;
    }

  find_ending (self, node, &ending);
  attrs = rlx_attrs_new (rlx_op_lookup ("qconv2d"));
  copy_attrs (node, attrs);
  set_inputs (self, node, x, &weights, bias != NULL ? self->map[bias->id] : NULL, &ending, inputs, attrs, "qconv2d");
  if (ending.quantize != NULL)
    type.dtype = ending.quantize->outputs[0].type.dtype;
  if (packable && work >= MIN_MOVED_WORK)
    {
      inputs[INPUT_W] = move_filter (self, node, &conv, inputs[INPUT_W]);
      rlx_qdq_set_int (attrs, "qconv2d", "filter_layout", RLX_FILTER_LAYOUT_OSI);
      if (!last)
        {
          gint64 channels = type.dims[1];

          moved = TRUE;
          inputs[INPUT_X] = move_channels (self, node, inputs[INPUT_X]);
          rlx_qdq_set_int (attrs, "qconv2d", "layout", RLX_LAYOUT_CHANNELS_LAST);
          memmove (type.dims + 1, type.dims + 2, (type.rank - 2) * sizeof (gint64));
          type.dims[type.rank - 1] = channels;
        }
    }
  result = rlx_qdq_append (self, node, "qconv2d", attrs, inputs, N_INPUTS, &type);
  if (moved)
    result = move_channels_back (self, node, result);
  set_result (self, node, &ending, result);
  weights_clear (&weights);
  return TRUE;
}

gboolean
rlx_qdq_multiply (RlxQdq          *self,
                  const RlxIrNode *node)
{
  if (rlx_qdq_is (node, "conv"))
    return convolve (self, node);
  if (rlx_qdq_is (node, "matmul") || rlx_qdq_is (node, "linear"))
    return multiply_matrices (self, node);
  return FALSE;
}
