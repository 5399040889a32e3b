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

#include "ops/rlx-conv-private.h"
#include "rlx-tensor-private.h"
#include "util/rlx-debug-private.h"
#include "util/rlx-element-private.h"

#define MAX_TERMS 33025
/* With more products than this, a plain kernel is slower than floats on a CPU. */
#define MAX_PLAIN_WORK (1 << 20)
/* With more than this, convolutions of integers are slower on a CPU than those of levels as floats. */
#define MAX_INTEGER_WORK (1 << 14)
/* With fewer than this, moving the channels costs more than it gains. */
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

  *weights = (Weights) { 0 };
  if (known->value != NULL && !known->levels_only)
    {
      weights->value = known->value;
      weights->n = 1;
      weights->scales = g_memdup2 (&known->scale, sizeof (double));
      weights->zeros = g_memdup2 (&known->zero, sizeof (gint64));
      return TRUE;
    }

  if (!rlx_ir_node_is (node, RLX_OP_ID_DEQUANTIZE_LINEAR) || rlx_dequantize_linear_attrs (node)->blocks.n_values > 0)
    return FALSE;
  scale = &node->inputs[RLX_DEQUANTIZE_LINEAR_SCALE]->type;
  scales = rlx_qdq_get_constant (node->inputs[RLX_DEQUANTIZE_LINEAR_SCALE]);
  if (node->inputs[RLX_DEQUANTIZE_LINEAR_ZERO_POINT] != NULL)
    zeros = rlx_qdq_get_constant (node->inputs[RLX_DEQUANTIZE_LINEAR_ZERO_POINT]);
  if (scales == NULL || (node->inputs[RLX_DEQUANTIZE_LINEAR_ZERO_POINT] != NULL && zeros == NULL) ||
      rlx_data_type_get_bits (node->inputs[0]->type.data_type) != 8)
    return FALSE;
  for (guint i = 0; i < scale->n_dims; i++)
    {
      guint at = type->n_dims - scale->n_dims + i;

      if (scale->shape[i] != (at == axis ? type->shape[axis] : 1))
        return FALSE;
    }

  weights->value = self->base->map[node->inputs[0]->id];
  weights->n = rlx_type_n_elements (scale);
  weights->scales = g_new (double, weights->n + 1);
  weights->zeros = g_new0 (gint64, weights->n + 1);
  for (gsize i = 0; i < weights->n; i++)
    {
      weights->scales[i] = rlx_tensor_get_value (scales, i);
      if (zeros != NULL)
        weights->zeros[i] = rlx_element_get_int (rlx_tensor_get_data_type (zeros), rlx_tensor_peek_data (zeros), i);
      if (!rlx_qdq_is_scale (weights->scales[i], RLX_DATA_TYPE_F32))
        {
          weights_clear (weights);
          return FALSE;
        }
    }
  return weights->n > 0;
}

/* The nodes after a product, up to the levels of its result. */
typedef struct
{
  const RlxIrNode *quantize;   /* NULL: nothing but the number itself */
  double scale;
  gint64 zero;
  gint64 minimum, maximum;     /* levels */
} Ending;

/* Only nodes that nothing else needs are included. */
static void
find_ending (RlxQdq          *self,
             const RlxIrNode *node,
             Ending          *ending)
{
  double least = -INFINITY, greatest = INFINITY;

  *ending = (Ending) { 0 };
  while ((node = rlx_rewrite_get_only_user (self->base, &node->outputs[0])) != NULL)
    {
      RlxDataType to = node->outputs[0].type.data_type;

      if (rlx_ir_node_is (node, RLX_OP_ID_RELU))
        {
          least = MAX (least, 0);
          greatest = MAX (greatest, 0);
        }
      else if (rlx_ir_node_is (node, RLX_OP_ID_CLAMP))
        {
          double low = rlx_clamp_attrs (node)->minimum, high = rlx_clamp_attrs (node)->maximum;

          least = CLAMP (least, low, high);
          greatest = CLAMP (greatest, low, high);
        }
      else
        {
          if (!rlx_ir_node_is (node, RLX_OP_ID_QUANTIZE_LINEAR))
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
new_vector (RlxDataType   data_type,
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
  return rlx_tensor_new_from_ints (data_type, shape, 1, ints, n, NULL);
}

/* The attributes that qmatmul and qconv2d have in common. */
typedef struct
{
  RlxIrValue *zero_x, *zero_w, *scale, *scale_y, *zero_y;   /* all but scale are nullable */
  RlxDataType to;
  gint64 minimum, maximum;
} Levels;

static RlxIrValue *
build_scalar (RlxQdq      *self,
              RlxDataType  data_type,
              double       value)
{
  return rlx_build_constant (&self->b, rlx_tensor_new_scalar (data_type, value, NULL));
}

static Levels
build_levels (RlxQdq             *self,
              const RlxQuantized *x,
              const Weights      *weights,
              const Ending       *ending)
{
  /* Limits are for integers only. */
  Levels levels = { .to = RLX_DATA_TYPE_F32, .minimum = RLX_QMATMUL_ATTRS ()->minimum, .maximum = RLX_QMATMUL_ATTRS ()->maximum };
  g_autofree double *scales = g_new (double, weights->n);
  gboolean any = FALSE;

  if (x->zero != 0)
    levels.zero_x = build_scalar (self, x->value->type.data_type, (double) x->zero);
  for (gsize i = 0; i < weights->n; i++)
    {
      any |= weights->zeros[i] != 0;
      scales[i] = x->scale * weights->scales[i];
    }
  if (any)
    levels.zero_w = rlx_build_constant (&self->b, new_vector (weights->value->type.data_type, NULL, weights->zeros, weights->n));
  levels.scale = rlx_build_constant (&self->b, new_vector (RLX_DATA_TYPE_F32, scales, NULL, weights->n));

  if (ending->quantize == NULL)
    return levels;
  levels.to = ending->quantize->outputs[0].type.data_type;
  levels.minimum = ending->minimum;
  levels.maximum = ending->maximum;
  levels.scale_y = build_scalar (self, RLX_DATA_TYPE_F32, ending->scale);
  if (ending->zero != 0)
    levels.zero_y = build_scalar (self, levels.to, (double) ending->zero);
  return levels;
}

/* @result replaces the result of the product or its ending. */
static void
set_result (RlxQdq          *self,
            const RlxIrNode *node,
            const Ending    *ending,
            RlxIrValue      *result)
{
  const RlxIrNode *end = ending->quantize != NULL ? ending->quantize : node;

  self->base->map[end->outputs[0].id] = result;
  RLX_NOTE (FUSE, "%%%u %s: integers are multiplied%s", node->outputs[0].id, node->op->name,
            ending->quantize != NULL ? " and the sums quantised" : "");
  while (node != end)
    {
      self->done[node->id] = TRUE;
      node = rlx_rewrite_get_only_user (self->base, &node->outputs[0]);
    }
  self->done[end->id] = TRUE;
}

/* ---- products of matrices ------------------------------------------------------------- */

/* A bias of N elements or one, in one dimension or none; FALSE for another. */
static gboolean
get_bias (RlxQdq           *self,
          const RlxIrValue *bias,
          gint64            columns,
          RlxIrValue      **result)
{
  gint64 n = (gint64) rlx_type_n_elements (&bias->type);

  if (n != 1 && (n != columns || bias->type.shape[bias->type.n_dims - 1] != columns))
    return FALSE;
  *result = self->base->map[bias->id];
  if (bias->type.n_dims > 1)
    *result = rlx_build_reshape (&self->b, *result, RLX_RESHAPE_ATTRS (.shape = RLX_INTS (&n, 1)));
  return TRUE;
}

static gboolean
multiply_matrices (RlxQdq          *self,
                   const RlxIrNode *node)
{
  const RlxIrValue *a = node->inputs[RLX_LINEAR_SELF], *b = node->inputs[RLX_LINEAR_WEIGHT];
  const RlxIrValue *bias = rlx_ir_node_get_bias (node);
  const RlxLinearAttrs attrs = rlx_ir_node_as_linear (node);
  const RlxTensorType *type = &node->outputs[0].type;
  const RlxQuantized *x = &self->quantized[a->id];
  RlxIrValue *addend = NULL, *result;
  gint64 k, n;
  Weights weights;
  Ending ending;
  Levels levels;

  if (x->value == NULL || x->levels_only)
    return FALSE;
  if (b->type.n_dims < 2 || !get_weights (self, b, b->type.n_dims - (attrs.transpose_b ? 2 : 1), &weights))
    {
      RLX_NOTE (FUSE, "%%%u %s stays one of floats: the second operand is not quantised, or not for each column with scales that are known",
                node->outputs[0].id, node->op->name);
      return FALSE;
    }
  k = a->type.shape[a->type.n_dims - 1];
  n = type->shape[type->n_dims - 1];
  if (a->type.n_dims < 2 || attrs.transpose_a || a->type.data_type != RLX_DATA_TYPE_F32 ||
      rlx_data_type_get_bits (x->value->type.data_type) != 8 || rlx_data_type_get_bits (weights.value->type.data_type) != 8 ||
      k > MAX_TERMS ||
      attrs.alpha != 1 || (bias != NULL && attrs.beta != 1) ||
      (!self->base->target->loads_coalesce && (k % 4 != 0 || (n % 4 != 0 && !attrs.transpose_b)) &&
       rlx_type_n_elements (type) * (guint64) k > MAX_PLAIN_WORK) ||
      (bias != NULL && !get_bias (self, bias, n, &addend)))
    {
      RLX_NOTE (FUSE, "%%%u %s of integers stays one of floats: the first operand is transposed or a vector, elements are not 8-bit integers, there are factors or a whole matrix to add, sums have more than %d products, or rows are not whole words",
                node->outputs[0].id, node->op->name, MAX_TERMS);
      weights_clear (&weights);
      return FALSE;
    }

  find_ending (self, node, &ending);
  levels = build_levels (self, x, &weights, &ending);
  /* zero points of columns lie as the columns do */
  if (levels.zero_w != NULL && weights.n > 1 && attrs.transpose_b)
    levels.zero_w = rlx_build_reshape (&self->b, levels.zero_w,
                                       RLX_RESHAPE_ATTRS (.shape = RLX_INTS (((gint64[]) { (gint64) weights.n, 1 }), 2)));
  result = rlx_build_qmatmul (&self->b, x->value, weights.value, levels.zero_x, levels.zero_w, addend, levels.scale,
                              levels.scale_y, levels.zero_y,
                              RLX_QMATMUL_ATTRS (.to = levels.to, .transpose_b = attrs.transpose_b,
                                                 .minimum = levels.minimum, .maximum = levels.maximum));
  weights_clear (&weights);
  if (result == NULL)
    return FALSE;
  set_result (self, node, &ending, result);
  return TRUE;
}

/* ---- convolutions ---------------------------------------------------------------------- */

static RlxIrValue *
build_transpose (RlxQdq       *self,
                 RlxIrValue   *x,
                 const gint64 *permutation)
{
  return rlx_build_transpose (&self->b, x, RLX_TRANSPOSE_ATTRS (.permutation = RLX_INTS (permutation, x->type.n_dims)));
}

/* From channels first to channels last. Undoing an earlier conversion is free. */
static RlxIrValue *
move_channels (RlxQdq     *self,
               RlxIrValue *x)
{
  RlxIrValue *moved = g_hash_table_lookup (self->last, x);
  gint64 permutation[RLX_MAX_DIMS];
  guint n_dims = x->type.n_dims;

  if (moved != NULL)
    return moved;
  permutation[0] = 0;
  for (guint i = 2; i < n_dims; i++)
    permutation[i - 1] = i;
  permutation[n_dims - 1] = 1;
  moved = build_transpose (self, x, permutation);
  g_hash_table_insert (self->last, x, moved);
  return moved;
}

static RlxIrValue *
move_channels_back (RlxQdq     *self,
                    RlxIrValue *y)
{
  gint64 permutation[RLX_MAX_DIMS];
  guint n_dims = y->type.n_dims;
  RlxIrValue *moved;

  permutation[0] = 0;
  permutation[1] = n_dims - 1;
  for (guint i = 2; i < n_dims; i++)
    permutation[i] = i - 1;
  moved = build_transpose (self, y, permutation);
  g_hash_table_insert (self->last, moved, y);
  return moved;
}

/* A filter with output channels first and input channels last; constant ones are
 * rearranged once. */
static RlxIrValue *
move_filter (RlxQdq        *self,
             const RlxConv *conv,
             RlxIrValue    *filter)
{
  gint64 permutation[RLX_MAX_DIMS];
  guint n_dims = filter->type.n_dims;

  if (conv->out_axis == 0 && conv->in_axis == n_dims - 1)
    return filter;
  permutation[0] = conv->out_axis;
  for (guint i = 0; i + 2 < n_dims; i++)
    permutation[i + 1] = conv->first_axis + i;
  permutation[n_dims - 1] = conv->in_axis;
  return build_transpose (self, filter, permutation);
}

/* The levels of a filter as floats, without their zero points. Constant ones are computed here, so that they are packed
   like others. */
static RlxIrValue *
build_filter_levels (RlxQdq        *self,
                     const Weights *weights,
                     guint          out_axis)
{
  RlxTensor *tensor = rlx_qdq_get_constant (weights->value);
  const RlxTensorType *type = &weights->value->type;
  guint64 n = rlx_type_n_elements (type);
  gint64 strides[RLX_MAX_DIMS];
  g_autofree float *levels = NULL;

  if (tensor == NULL)
    {
      g_autofree double *zeros = g_new (double, weights->n);
      gint64 shape[RLX_MAX_DIMS];

      for (gsize i = 0; i < weights->n; i++)
        zeros[i] = (double) weights->zeros[i];
      for (guint i = 0; i < type->n_dims; i++)
        shape[i] = i == out_axis ? (gint64) weights->n : 1;
      return rlx_build_sub (&self->b, rlx_build_cast (&self->b, weights->value, RLX_CAST_ATTRS (.to = RLX_DATA_TYPE_F32)),
                            rlx_build_reshape (&self->b, rlx_build_constant (&self->b, new_vector (RLX_DATA_TYPE_F32, zeros, NULL, weights->n)),
                                               RLX_RESHAPE_ATTRS (.shape = RLX_INTS (shape, type->n_dims))));
    }
  rlx_type_get_strides (type, strides);
  levels = g_new (float, n + 1);
  for (guint64 i = 0; i < n; i++)
    {
      gint64 channel = (gint64) i / strides[out_axis] % type->shape[out_axis];

      levels[i] = (float) (rlx_element_get_int (type->data_type, rlx_tensor_peek_data (tensor), i) - weights->zeros[weights->n > 1 ? channel : 0]);
    }
  return rlx_build_constant (&self->b, rlx_tensor_new_from_floats (type->shape, type->n_dims, levels, n, NULL));
}

/* A convolution of levels that are floats. Sums of them below 2²⁴ are exact, and larger ones as accurate as those of
 * the floats that they represent. */
static gboolean
convolve_levels (RlxQdq             *self,
                 const RlxIrNode    *node,
                 const RlxConv      *conv,
                 const RlxQuantized *x,
                 const Weights      *weights)
{
  const RlxIrValue *bias = node->inputs[RLX_CONV_BIAS];
  g_autofree double *scales = g_new (double, weights->n);
  gint64 shape[RLX_MAX_DIMS], n = (gint64) weights->n;
  guint n_dims = node->outputs[0].type.n_dims, at = conv->window.channels_last ? n_dims - 1 : 1;
  RlxIrValue *filter = build_filter_levels (self, weights, conv->out_axis), *result;

  for (gsize i = 0; i < weights->n; i++)
    scales[i] = x->scale * weights->scales[i];
  for (guint i = 0; i < n_dims; i++)
    shape[i] = i == at ? n : 1;
  if (filter == NULL)
    return FALSE;
  result = rlx_build_conv (&self->b, rlx_qdq_build_levels (self, x->value, x->zero), filter, NULL, rlx_conv_attrs (node));
  if (weights->n == 1)
    result = rlx_build_mul (&self->b, result, build_scalar (self, RLX_DATA_TYPE_F32, scales[0]));
  else
    result = rlx_build_mul (&self->b, result,
                            rlx_build_reshape (&self->b, rlx_build_constant (&self->b, new_vector (RLX_DATA_TYPE_F32, scales, NULL, weights->n)),
                                               RLX_RESHAPE_ATTRS (.shape = RLX_INTS (shape, n_dims))));
  if (bias != NULL)
    {
      shape[at] = (gint64) rlx_type_n_elements (&bias->type);
      result = rlx_build_add (&self->b, result, rlx_build_reshape (&self->b, self->base->map[bias->id], RLX_RESHAPE_ATTRS (.shape = RLX_INTS (shape, n_dims))));
    }
  if (result == NULL)
    return FALSE;
  self->base->map[node->outputs[0].id] = result;
  RLX_NOTE (FUSE, "%%%u conv: levels are multiplied as floats", node->outputs[0].id);
  return TRUE;
}

static gboolean
convolve (RlxQdq          *self,
          const RlxIrNode *node)
{
  const RlxQuantized *x = &self->quantized[node->inputs[RLX_CONV_SELF]->id];
  const RlxIrValue *bias = node->inputs[RLX_CONV_BIAS];
  RlxConvAttrs attrs = *rlx_conv_attrs (node);
  RlxIrValue *input, *filter, *result;
  const RlxTensorType *types[3];
  gboolean packable, moved = FALSE;
  double terms, work;
  RlxOpCall call;
  RlxConv conv;
  Weights weights;
  Ending ending;
  Levels levels;

  if (x->value == NULL || x->levels_only || node->inputs[0]->type.data_type != RLX_DATA_TYPE_F32 || attrs.swapped)
    return FALSE;
  rlx_window_make_call (&call, node, types);
  if (!rlx_conv_read (&conv, &call, &attrs, NULL) || !get_weights (self, node->inputs[RLX_CONV_FILTER], conv.out_axis, &weights))
    {
      RLX_NOTE (FUSE, "%%%u conv stays one of floats: the filter is not quantised, or not for each output channel with scales that are known",
                node->outputs[0].id);
      return FALSE;
    }

  terms = (double) conv.channels_in;
  for (guint i = 0; i < conv.window.n_axes; i++)
    terms *= (double) conv.window.axes[i].window;
  work = terms * (double) rlx_type_n_elements (&node->outputs[0].type);
  packable = conv.channels_in % 4 == 0;
  if (terms > MAX_TERMS || rlx_data_type_get_bits (x->value->type.data_type) != 8 ||
      rlx_data_type_get_bits (weights.value->type.data_type) != 8)
    {
      RLX_NOTE (FUSE, "%%%u conv of integers stays one of floats: sums have more than %d products, or elements are not 8-bit integers",
                node->outputs[0].id, MAX_TERMS);
      weights_clear (&weights);
      return FALSE;
    }
  if (!self->base->target->loads_coalesce && work > MAX_INTEGER_WORK)
    {
      gboolean done = convolve_levels (self, node, &conv, x, &weights);

      weights_clear (&weights);
      return done;
    }

  find_ending (self, node, &ending);
  levels = build_levels (self, x, &weights, &ending);
  attrs.to = levels.to;
  attrs.minimum = levels.minimum;
  attrs.maximum = levels.maximum;
  input = x->value;
  filter = weights.value;
  if (packable && work >= MIN_MOVED_WORK)
    {
      filter = move_filter (self, &conv, filter);
      attrs.filter_layout = RLX_FILTER_LAYOUT_OSI;
      if (!conv.window.channels_last)
        {
          moved = TRUE;
          input = move_channels (self, input);
          attrs.layout = RLX_LAYOUT_CHANNELS_LAST;
        }
    }
  weights_clear (&weights);
  result = rlx_build_qconv2d (&self->b, input, filter, levels.zero_x, levels.zero_w, bias != NULL ? self->base->map[bias->id] : NULL,
                              levels.scale, levels.scale_y, levels.zero_y, &attrs);
  if (result != NULL && moved)
    result = move_channels_back (self, result);
  if (result == NULL)
    return FALSE;
  set_result (self, node, &ending, result);
  return TRUE;
}

gboolean
rlx_qdq_multiply (RlxQdq          *self,
                  const RlxIrNode *node)
{
  if (rlx_ir_node_is (node, RLX_OP_ID_CONV))
    return convolve (self, node);
  if (rlx_ir_node_is (node, RLX_OP_ID_MATMUL) || rlx_ir_node_is (node, RLX_OP_ID_LINEAR))
    return multiply_matrices (self, node);
  return FALSE;
}
