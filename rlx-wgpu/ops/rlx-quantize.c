/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Quantisation: numbers as small integers with a scale and a zero point, which apply to a
 * whole tensor, along an axis or to a block.
 */
#include "config.h"

#include "ops/rlx-quantize-private.h"

#include <math.h>

#include "ops/rlx-gradient-private.h"
#include "rlx-tensor-private.h"

/* The modes of kernels/quantize.wgsl. */
typedef enum
{
  MODE_QUANTIZE,
  MODE_DEQUANTIZE,
  MODE_BOTH,
} Mode;

/* ---- rules -------------------------------------------------------------------- */

static gint64
get_scale_dim (const RlxTensorType *x,
               const RlxTensorType *scale,
               guint                axis)
{
  guint missing;

  /* a single one for all */
  if (scale->n_dims > x->n_dims)
    return 1;
  missing = x->n_dims - scale->n_dims;
  return axis < missing ? 1 : scale->shape[axis - missing];
}

/* Checks the scale against the operand, and the zero point (nullable) against the scale. */
static gboolean
check_blocks (RlxOpCall           *call,
              const RlxTensorType *scale,
              const RlxTensorType *zero,
              const RlxInts       *blocks,
              GError             **error)
{
  const RlxTensorType *x = call->inputs[0];

  if (blocks != NULL && blocks->n_values > 0 && blocks->n_values != x->n_dims)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "there are %u sizes of blocks for the %u dimensions of the operand", blocks->n_values, x->n_dims);
  if (scale->n_dims > x->n_dims && rlx_type_n_elements (scale) != 1)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "the scale has %u dimensions and more than one element or none, the operand has %u dimensions", scale->n_dims, x->n_dims);

  for (guint i = 0; i < x->n_dims; i++)
    {
      gint64 size = x->shape[i], n = get_scale_dim (x, scale, i);

      if (blocks != NULL && blocks->n_values > 0)
        {
          gint64 block = blocks->values[i];

          if (block < 1)
            return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                                   "the size of blocks along axis %u is %" G_GINT64_FORMAT, i, block);
          if (n != size / block + (size % block != 0))
            return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                                   "axis %u of the operand has %" G_GINT64_FORMAT " elements in blocks of %" G_GINT64_FORMAT ", the scale has %" G_GINT64_FORMAT " there",
                                   i, size, block, n);
        }
      else if (n == 0 ? size != 0 : size % n != 0)
        {
          return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                                 "axis %u of the operand has %" G_GINT64_FORMAT " elements, which the %" G_GINT64_FORMAT " of the scale do not divide into blocks",
                                 i, size, n);
        }
    }

  if (zero != NULL && !rlx_type_same_shape (scale, zero))
    {
      g_autofree char *a = rlx_type_to_string (scale);
      g_autofree char *b = rlx_type_to_string (zero);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the scale is %s, but the zero point %s", a, b);
    }
  return TRUE;
}

gboolean
rlx_quantize_linear_infer (RlxOpCall                    *call,
                           const RlxQuantizeLinearAttrs *attrs,
                           GError                      **error)
{
  RlxDataType to = attrs->to;
  const RlxTensorType *zero = call->inputs[RLX_QUANTIZE_LINEAR_ZERO_POINT];
  RlxTensorType type = *call->inputs[0];

  if ((RLX_TYPES_QUANTIZED >> to & 1) == 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_DATA_TYPE,
                           "the result cannot be of type %s; it can be i8, u8, i16, u16, i4, u4, i2, u2 or i32", rlx_data_type_to_string (to));
  if (zero != NULL && zero->data_type != to)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_DATA_TYPE,
                           "the zero point is of type %s, but the result of type %s",
                           rlx_data_type_to_string (zero->data_type), rlx_data_type_to_string (to));
  if (!check_blocks (call, call->inputs[RLX_QUANTIZE_LINEAR_SCALE], zero, &attrs->blocks, error))
    return FALSE;

  type.data_type = to;
  rlx_call_add_output (call, &type);
  return TRUE;
}

gboolean
rlx_dequantize_linear_infer (RlxOpCall                      *call,
                             const RlxDequantizeLinearAttrs *attrs,
                             GError                        **error)
{
  RlxTensorType type = *call->inputs[0];

  if (!check_blocks (call, call->inputs[RLX_DEQUANTIZE_LINEAR_SCALE], call->inputs[RLX_DEQUANTIZE_LINEAR_ZERO_POINT],
                     &attrs->blocks, error))
    return FALSE;

  type.data_type = call->inputs[RLX_DEQUANTIZE_LINEAR_SCALE]->data_type;
  rlx_call_add_output (call, &type);
  return TRUE;
}

gboolean
rlx_dynamic_quantize_infer (RlxOpCall *call,
                            GError   **error G_GNUC_UNUSED)
{
  RlxTensorType type = *call->inputs[0];

  type.data_type = RLX_DATA_TYPE_U8;
  rlx_call_add_output (call, &type);
  rlx_call_add_output (call, &(RlxTensorType) { .data_type = RLX_DATA_TYPE_F32 });
  rlx_call_add_output (call, &(RlxTensorType) { .data_type = RLX_DATA_TYPE_U8 });
  return TRUE;
}

gboolean
rlx_fake_quantize_infer (RlxOpCall                  *call,
                         const RlxFakeQuantizeAttrs *attrs,
                         GError                    **error)
{
  gint64 bits = attrs->bits;
  const RlxTensorType *scale = call->inputs[RLX_FAKE_QUANTIZE_SCALE];
  const RlxTensorType *zero = call->inputs[RLX_FAKE_QUANTIZE_ZERO_POINT];

  if (bits < 2 || bits > 16)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "the number of bits is %" G_GINT64_FORMAT "; it can be 2 to 16", bits);
  if (zero != NULL && scale == NULL)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "there is a zero point, but no scale");
  if (zero != NULL && attrs->symmetric)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "there is a zero point, but levels are symmetric");
  if (scale != NULL && !check_blocks (call, scale, zero, NULL, error))
    return FALSE;

  rlx_call_add_output (call, call->inputs[0]);
  return TRUE;
}

/* ---- lowering ----------------------------------------------------------------- */

/* The operand's elements in dimensions along each of which the scale has one stride: an axis of whole blocks
 * becomes two, the blocks and the elements in them. */
typedef struct
{
  guint n_dims;
  gint64 shape[2 * RLX_MAX_DIMS];
  gint64 strides[2 * RLX_MAX_DIMS];
  gint64 blocks[2 * RLX_MAX_DIMS];   /* 1, except for an axis that is not a multiple of its blocks */
  gboolean ragged;
} Blocks;

static void
add_dim (Blocks *self,
         gint64  dim,
         gint64  stride,
         gint64  block)
{
  guint last = self->n_dims - 1;

  if (dim == 1)
    return;
  if (self->n_dims > 0 && block == 1 && self->blocks[last] == 1 && self->strides[last] == stride * dim)
    {
      self->shape[last] *= dim;
      self->strides[last] = stride;
      return;
    }
  self->shape[self->n_dims] = dim;
  self->strides[self->n_dims] = stride;
  self->blocks[self->n_dims] = block;
  self->ragged |= block > 1;
  self->n_dims++;
}

static void
find_blocks (Blocks              *self,
             const RlxTensorType *x,
             const RlxTensorType *scale,
             const RlxInts       *blocks)
{
  gint64 strides[RLX_MAX_DIMS];

  *self = (Blocks) { 0 };
  rlx_type_get_strides (scale, strides);
  for (guint i = 0; i < x->n_dims; i++)
    {
      gint64 size = x->shape[i], n = get_scale_dim (x, scale, i);
      gint64 stride = n == 1 ? 0 : strides[i - (x->n_dims - scale->n_dims)];
      gint64 block = blocks != NULL && blocks->n_values > 0 ? MIN (blocks->values[i], size) : size / n;

      if (n == 1)
        add_dim (self, size, 0, 1);
      else if (n * block == size)
        {
          add_dim (self, n, stride, 1);
          add_dim (self, block, 0, 1);
        }
      else
        add_dim (self, size, stride, block);
    }

  if (self->n_dims == 1 && self->strides[0] == 0)
    self->n_dims = 0;
}

static gboolean
dispatch (RlxLower         *lower,
          const RlxIrNode  *node,
          Mode              mode,
          const RlxIrValue *x,
          const RlxIrValue *scale,
          const RlxIrValue *zero,
          const RlxIrValue *y,
          const RlxInts    *block_sizes,
          double            lowest,
          double            highest,
          GError          **error)
{
  RlxDataType integers = mode == MODE_DEQUANTIZE ? x->type.data_type : y->type.data_type;
  RlxKernel *kernel;
  Blocks blocks;

  if (rlx_type_n_elements (&y->type) == 0)
    return TRUE;

  find_blocks (&blocks, &x->type, &scale->type, block_sizes);
  kernel = rlx_kernel_new (lower, node, "quantize");
  rlx_kernel_input (kernel, "x", x);
  rlx_kernel_input (kernel, "scale", scale);
  if (zero != NULL)
    rlx_kernel_input (kernel, "zero", zero);
  rlx_kernel_define (kernel, "MODE", mode);
  rlx_kernel_define (kernel, "RANK", blocks.n_dims);
  rlx_kernel_define (kernel, "RAGGED", blocks.ragged);
  rlx_kernel_define (kernel, "ZERO", zero != NULL);
  rlx_kernel_define (kernel, "WIDE", integers == RLX_DATA_TYPE_I32);
  rlx_kernel_define (kernel, "HALF", y->type.data_type == RLX_DATA_TYPE_F16);
  rlx_kernel_define (kernel, "MASK", rlx_data_type_get_bits (integers) < 32 ? (1 << rlx_data_type_get_bits (integers)) - 1 : 0);
  if (mode != MODE_DEQUANTIZE)
    {
      rlx_kernel_param_f32 (kernel, "lowest", lowest);
      rlx_kernel_param_f32 (kernel, "highest", highest);
    }
  for (guint i = 0; i < blocks.n_dims; i++)
    {
      guint d = blocks.n_dims - 1 - i;

      rlx_kernel_param_indexed (kernel, "dim", i, blocks.shape[d]);
      rlx_kernel_param_indexed (kernel, "stride", i, blocks.strides[d]);
      if (blocks.ragged)
        rlx_kernel_param_indexed (kernel, "block", i, blocks.blocks[d]);
    }
  return rlx_kernel_dispatch_elements (kernel, lower, y, error);
}

void
rlx_quantize_get_levels (RlxDataType  data_type,
                         double      *lowest,
                         double      *highest)
{
  guint bits = rlx_data_type_get_bits (data_type);

  *lowest = rlx_data_type_is_unsigned (data_type) ? 0 : -ldexp (1, (int) bits - 1);
  *highest = *lowest + ldexp (1, (int) bits) - 1;
}

gboolean
rlx_quantize_step (RlxLower         *lower,
                   const RlxIrNode  *node,
                   const RlxIrValue *x,
                   const RlxIrValue *scale,
                   const RlxIrValue *zero,
                   const RlxIrValue *y,
                   double            lowest,
                   double            highest,
                   GError          **error)
{
  return dispatch (lower, node, MODE_QUANTIZE, x, scale, zero, y, NULL, lowest, highest, error);
}

gboolean
rlx_quantize_linear_lower (RlxLower        *lower,
                           const RlxIrNode *node,
                           GError         **error)
{
  double lowest, highest;

  rlx_quantize_get_levels (node->outputs[0].type.data_type, &lowest, &highest);
  return dispatch (lower, node, MODE_QUANTIZE, node->inputs[RLX_QUANTIZE_LINEAR_SELF], node->inputs[RLX_QUANTIZE_LINEAR_SCALE],
                   node->inputs[RLX_QUANTIZE_LINEAR_ZERO_POINT], &node->outputs[0],
                   &rlx_quantize_linear_attrs (node)->blocks, lowest, highest, error);
}

gboolean
rlx_dequantize_linear_lower (RlxLower        *lower,
                             const RlxIrNode *node,
                             GError         **error)
{
  return dispatch (lower, node, MODE_DEQUANTIZE, node->inputs[RLX_DEQUANTIZE_LINEAR_SELF], node->inputs[RLX_DEQUANTIZE_LINEAR_SCALE],
                   node->inputs[RLX_DEQUANTIZE_LINEAR_ZERO_POINT], &node->outputs[0],
                   &rlx_dequantize_linear_attrs (node)->blocks, 0, 0, error);
}

#define ENDS_WG 64
/* The most elements that a single workgroup processes alone, and how many each processes if there are several. */
#define MAX_ALONE 16384
#define SHARE 4096
#define MAX_PARTS 64

/* The smallest and the largest element of each of several parts of @x, including 0. */
static gboolean
find_ends (RlxLower          *lower,
           const RlxIrNode   *node,
           const RlxIrValue  *x,
           guint64           *n_parts,
           const RlxIrValue **low,
           const RlxIrValue **high,
           GError           **error)
{
  guint64 n = rlx_type_n_elements (&x->type);
  RlxTensorType parts = { .data_type = RLX_DATA_TYPE_F32, .n_dims = 1 };
  RlxKernel *kernel;

  *n_parts = CLAMP (n / SHARE, 1, MAX_PARTS);
  parts.shape[0] = (gint64) *n_parts;
  *low = rlx_lower_temporary (lower, &parts);
  *high = rlx_lower_temporary (lower, &parts);
  kernel = rlx_kernel_new (lower, node, "quantize-ends");
  rlx_kernel_input (kernel, "x", x);
  rlx_kernel_output (kernel, "low", *low);
  rlx_kernel_output (kernel, "high", *high);
  rlx_kernel_define (kernel, "WG", ENDS_WG);
  rlx_kernel_param_u32 (kernel, "n", n);
  rlx_kernel_param_u32 (kernel, "parts", *n_parts);
  return rlx_kernel_dispatch (kernel, *n_parts, error);
}

/* Finds the scale and the zero point (nullable if levels are symmetric) that fit @x. */
static gboolean
find_range (RlxLower         *lower,
            const RlxIrNode  *node,
            const RlxIrValue *x,
            double            levels,
            const RlxIrValue *scale,
            const RlxIrValue *zero,
            GError          **error)
{
  const RlxIrValue *low, *high;
  guint64 n_parts;
  RlxKernel *kernel;

  if (!find_ends (lower, node, x, &n_parts, &low, &high, error))
    return FALSE;
  kernel = rlx_kernel_new (lower, node, "quantize-range");
  rlx_kernel_input (kernel, "low", low);
  rlx_kernel_input (kernel, "high", high);
  rlx_kernel_output (kernel, "scale", scale);
  if (zero != NULL)
    rlx_kernel_output (kernel, "zero", zero);
  rlx_kernel_define (kernel, "WG", 1);
  rlx_kernel_define (kernel, "SYMMETRIC", zero == NULL);
  rlx_kernel_param_u32 (kernel, "parts", n_parts);
  rlx_kernel_param_f32 (kernel, "levels", levels);
  return rlx_kernel_dispatch (kernel, 1, error);
}

/* Also for scaled_quantize, which multiplies numbers by the scale. */
gboolean
rlx_dynamic_quantize_lower (RlxLower        *lower,
                            const RlxIrNode *node,
                            GError         **error)
{
  const RlxIrValue *x = node->inputs[0], *low, *high;
  guint64 n = rlx_type_n_elements (&x->type), words = rlx_divide_up (n, 4), block = MAX (words, 1), n_parts = 0;
  const RlxTarget *target = rlx_lower_get_target (lower);
  gboolean alone = n <= MAX_ALONE;
  RlxKernel *kernel;

  /* A large operand may take too many bindings to do all of it in one step. */
  if (!alone && node->n_outputs == 3 &&
      rlx_target_get_n_segments (target, rlx_type_device_size (&x->type)) +
      rlx_target_get_n_segments (target, rlx_type_device_size (&node->outputs[0].type)) + 4 > target->limits.max_storage_buffers)
    return find_range (lower, node, x, 255, &node->outputs[1], &node->outputs[2], error) &&
           dispatch (lower, node, MODE_QUANTIZE, x, &node->outputs[1], &node->outputs[2], &node->outputs[0], NULL, 0, 255, error);
  if (!alone)
    {
      if (!find_ends (lower, node, x, &n_parts, &low, &high, error))
        return FALSE;
      block = rlx_copy_get_block (lower, words);
    }
  kernel = rlx_kernel_new (lower, node, "quantize-dynamic");
  rlx_kernel_input (kernel, "x", x);
  if (!alone)
    {
      rlx_kernel_input (kernel, "low", low);
      rlx_kernel_input (kernel, "high", high);
      rlx_kernel_param_u32 (kernel, "parts", n_parts);
    }
  rlx_kernel_output_raw (kernel, "y", &node->outputs[0]);
  rlx_kernel_output (kernel, "scale", &node->outputs[1]);
  rlx_kernel_output (kernel, "zero", &node->outputs[2]);
  if (node->n_outputs > 3)
    {
      rlx_kernel_input (kernel, "factor", node->inputs[1]);
      rlx_kernel_output (kernel, "scaled", &node->outputs[3]);
      rlx_kernel_param_u32 (kernel, "factors", rlx_type_n_elements (&node->outputs[3].type));
    }
  rlx_kernel_define (kernel, "WG", ENDS_WG);
  rlx_kernel_define (kernel, "PARTS", !alone);
  rlx_kernel_define (kernel, "FACTORS", node->n_outputs > 3);
  rlx_kernel_param_u32 (kernel, "n", n);
  rlx_kernel_param_u32 (kernel, "words", words);
  rlx_kernel_param_u32 (kernel, "block", block);
  rlx_kernel_param_u32 (kernel, "groups", alone ? 1 : rlx_divide_up (words, block));
  rlx_kernel_set_cost (kernel, 0, 5.0 * (double) n);
  return rlx_kernel_dispatch (kernel, alone ? 1 : rlx_divide_up (words, block), error);
}

gboolean
rlx_fake_quantize_lower (RlxLower        *lower,
                         const RlxIrNode *node,
                         GError         **error)
{
  const RlxFakeQuantizeAttrs *attrs = rlx_fake_quantize_attrs (node);
  const RlxIrValue *x = node->inputs[0];
  const RlxIrValue *scale = node->inputs[RLX_FAKE_QUANTIZE_SCALE];
  const RlxIrValue *zero = node->inputs[RLX_FAKE_QUANTIZE_ZERO_POINT];
  gboolean symmetric = attrs->symmetric;
  int bits = (int) attrs->bits;
  double highest = ldexp (1, symmetric ? bits - 1 : bits) - 1;

  if (rlx_type_n_elements (&x->type) == 0)
    return TRUE;
  if (scale == NULL)
    {
      scale = rlx_lower_temporary (lower, &(RlxTensorType) { .data_type = RLX_DATA_TYPE_F32 });
      if (!symmetric)
        zero = rlx_lower_temporary (lower, &(RlxTensorType) { .data_type = RLX_DATA_TYPE_I32 });
      if (!find_range (lower, node, x, highest, scale, zero, error))
        return FALSE;
    }
  return dispatch (lower, node, MODE_BOTH, x, scale, zero, &node->outputs[0], NULL,
                   symmetric ? -highest : 0, highest, error);
}

/* ---- gradients ----------------------------------------------------------------- */

/* The scale for each element of the operand, or something that broadcasts to that. */
static RlxIrValue *
spread_scale (RlxBuilder          *b,
              RlxIrValue          *scale,
              const RlxTensorType *x,
              const RlxInts       *blocks)
{
  RlxTensorType type = scale->type;

  if (rlx_type_n_elements (&type) == 1)
    return rlx_build_shaped (b, scale, NULL, 0);
  for (guint i = 0; i < type.n_dims; i++)
    {
      guint axis = x->n_dims - type.n_dims + i;
      gint64 size = x->shape[axis], n = type.shape[i];
      gint64 block = blocks != NULL && blocks->n_values > 0 ? blocks->values[axis] : n > 0 ? size / n : 1;
      g_autofree gint64 *indices = NULL;

      if (n == size || n == 1)
        continue;
      indices = g_new (gint64, size + 1);
      for (gint64 k = 0; k < size; k++)
        indices[k] = k / block;
      scale = rlx_build_gather (b, scale, rlx_build_constant (b, rlx_tensor_new_from_ints (RLX_DATA_TYPE_I32, &size, 1, indices, (gsize) size, NULL)),
                                RLX_GATHER_ATTRS (.axis = i));
    }
  return scale;
}

void
rlx_dequantize_linear_gradient (RlxGradient     *self,
                                const RlxIrNode *node)
{
  const RlxDequantizeLinearAttrs *attrs = rlx_dequantize_linear_attrs (node);
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *scale = node->inputs[RLX_DEQUANTIZE_LINEAR_SCALE];
  RlxIrValue *levels = rlx_build_dequantize_linear (b, node->inputs[0], rlx_build_filled (b, &scale->type, 1.0),
                                                    node->inputs[RLX_DEQUANTIZE_LINEAR_ZERO_POINT], attrs);
  RlxIrValue *y = rlx_build_mul (b, levels, spread_scale (b, scale, &node->inputs[0]->type, &attrs->blocks));

  rlx_gradient_through (self, node, &y, 1);
}

/* Rounding is ignored (straight-through); the step size is learned from the errors of rounding and clamping. */
void
rlx_fake_quantize_gradient (RlxGradient     *self,
                            const RlxIrNode *node)
{
  const RlxFakeQuantizeAttrs *attrs = rlx_fake_quantize_attrs (node);
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *x = node->inputs[0], *scale = node->inputs[RLX_FAKE_QUANTIZE_SCALE], *zero = node->inputs[RLX_FAKE_QUANTIZE_ZERO_POINT];
  double highest = attrs->symmetric ? ldexp (1, (int) attrs->bits - 1) - 1 : ldexp (1, (int) attrs->bits) - 1;
  double lowest = attrs->symmetric ? -highest : 0;
  RlxIrValue *steps, *level, *low, *high, *inside, *y;

  if (scale == NULL)
    {
      rlx_gradient_add (self, node, 0, rlx_gradient_get (self, node, 0));
      return;
    }

  x = rlx_build_as (b, x, RLX_DATA_TYPE_F32);
  scale = rlx_build_as (b, spread_scale (b, scale, &node->inputs[0]->type, NULL), RLX_DATA_TYPE_F32);
  steps = rlx_build_div (b, x, scale);
  level = rlx_build_round_even (b, steps);
  low = rlx_build_number (b, steps, lowest);
  high = rlx_build_number (b, steps, highest);
  if (zero != NULL)
    {
      zero = rlx_build_as (b, spread_scale (b, zero, &node->inputs[0]->type, NULL), RLX_DATA_TYPE_F32);
      low = rlx_build_sub (b, low, zero);
      high = rlx_build_sub (b, high, zero);
    }
  inside = rlx_build_logical_and (b, rlx_build_greater_equal (b, level, low), rlx_build_less_equal (b, level, high));
  level = rlx_build_min (b, rlx_build_max (b, level, low), high);
  /* The value of the level; within the limits, the slope is that of the unrounded number. */
  y = rlx_build_where (b, inside, rlx_build_add (b, steps, rlx_build_stop_gradient (b, rlx_build_sub (b, level, steps))),
                       rlx_build_stop_gradient (b, level));
  y = rlx_build_as (b, rlx_build_mul (b, y, scale), node->outputs[0].type.data_type);
  rlx_gradient_through (self, node, &y, 1);
}
