/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * More operators that move elements: plain copies between regular places go through
 * rlx_lower_copy(), the others have a rule for each element.
 */
#include "config.h"

#include "ops/rlx-index-private.h"

#include <string.h>

#include "ops/rlx-shape-private.h"
#include "util/rlx-checked-private.h"

#define WORKGROUP_SIZE 64
#define MAX_PARTS RLX_MAX_ATTR_INTS

/* ---- helpers -------------------------------------------------------------------- */

void
rlx_kernel_param_indexed (RlxKernel  *self,
                          const char *prefix,
                          guint       index,
                          gint64      value)
{
  char name[32];

  g_snprintf (name, sizeof name, "%s%u", prefix, index);
  rlx_kernel_param_u32 (self, name, (guint32) value);
}

gboolean
rlx_kernel_dispatch_elements (RlxKernel        *self,
                              RlxLower         *lower,
                              const RlxIrValue *y,
                              GError          **error)
{
  guint bits = rlx_data_type_get_bits (rlx_data_type_on_device (y->type.data_type));
  guint pack = 32 / bits;
  guint64 n = rlx_type_n_elements (&y->type);
  guint64 words = rlx_divide_up (n, pack);
  guint64 block = rlx_copy_get_block (lower, words), groups = rlx_divide_up (words, block);

  rlx_kernel_output_raw (self, "y", y);
  rlx_kernel_define (self, "WG", WORKGROUP_SIZE);
  rlx_kernel_define (self, "PACK", pack);
  rlx_kernel_define (self, "BITS", bits);
  rlx_kernel_param_u32 (self, "n", n);
  rlx_kernel_param_u32 (self, "words", words);
  rlx_kernel_param_u32 (self, "block", block);
  rlx_kernel_param_u32 (self, "groups", groups);
  rlx_kernel_set_cost (self, 0, 2.0 * n * bits / 8);

  return rlx_kernel_dispatch (self, groups, error);
}

/* ---- split ------------------------------------------------------------------------ */

gboolean
rlx_split_infer (RlxOpCall           *call,
                 const RlxSplitAttrs *attrs,
                 GError             **error)
{
  const RlxInts *sizes = &attrs->sizes;
  gint64 parts = attrs->parts;
  RlxTensorType type = *call->inputs[0];
  gint64 size, sum = 0;
  guint axis;

  if (!rlx_call_axis (call, attrs->axis, type.n_dims, &axis, error))
    return FALSE;
  size = type.shape[axis];

  if (sizes->n_values > 0)
    {
      if (parts != 0)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                               "there are both %u sizes and a number of parts (%" G_GINT64_FORMAT ")", sizes->n_values, parts);
      for (guint i = 0; i < sizes->n_values; i++)
        {
          if (sizes->values[i] < 0)
            return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                                   "size %u is %" G_GINT64_FORMAT, i, sizes->values[i]);
          if (sizes->values[i] > size - sum)
            return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                                   "the sizes add up to more than the %" G_GINT64_FORMAT " of axis %u", size, axis);
          sum += sizes->values[i];
        }
      if (sum != size)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                               "the sizes add up to %" G_GINT64_FORMAT ", axis %u has %" G_GINT64_FORMAT, sum, axis, size);
      for (guint i = 0; i < sizes->n_values; i++)
        {
          type.shape[axis] = sizes->values[i];
          rlx_call_add_output (call, &type);
        }
      return TRUE;
    }

  if (parts < 1)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "there are no sizes, and the number of parts is %" G_GINT64_FORMAT, parts);
  if (parts > MAX_PARTS)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                           "%" G_GINT64_FORMAT " parts are asked for; the limit is %u", parts, MAX_PARTS);
  if (size % parts != 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "the %" G_GINT64_FORMAT " elements of axis %u do not make %" G_GINT64_FORMAT " equal parts", size, axis, parts);

  type.shape[axis] = size / parts;
  for (gint64 i = 0; i < parts; i++)
    rlx_call_add_output (call, &type);
  return TRUE;
}

gboolean
rlx_split_lower (RlxLower        *lower,
                 const RlxIrNode *node,
                 GError         **error)
{
  const RlxIrValue *x = node->inputs[0];
  gint64 axis = rlx_split_attrs (node)->axis;
  gint64 start = 0;

  if (axis < 0)
    axis += x->type.n_dims;

  for (guint i = 0; i < node->n_outputs; i++)
    {
      const RlxIrValue *y = &node->outputs[i];
      RlxCopy copy = { .n_dims = y->type.n_dims };

      if (rlx_type_n_elements (&y->type) == rlx_type_n_elements (&x->type))
        {
          rlx_lower_alias (lower, y, x);
          continue;
        }
      memcpy (copy.shape, y->type.shape, sizeof copy.shape);
      rlx_type_get_strides (&x->type, copy.from);
      rlx_type_get_strides (&y->type, copy.to);
      copy.from_offset = start * copy.from[axis];
      if (!rlx_lower_copy (lower, node, x, y, &copy, error))
        return FALSE;
      start += y->type.shape[axis];
    }

  return TRUE;
}

/* ---- pad, tile, roll ------------------------------------------------------------------ */

/* Distances of mirrored elements must fit 32 bits. */
#define MAX_MIRRORED (1 << 30)

/* What an axis of the result has: @before elements, then @size elements of the operand from
 * @start on, then the rest. */
typedef struct
{
  gint64 start;
  gint64 size;
  gint64 before;
} Part;

/* The number of elements after which they repeat. */
static gint64
get_period (RlxPadMode mode,
            gint64     size)
{
  switch (mode)
    {
    case RLX_PAD_MODE_REFLECT: return MAX (2 * (size - 1), 1);
    case RLX_PAD_MODE_SYMMETRIC: return MAX (2 * size, 1);
    case RLX_PAD_MODE_WRAP: return MAX (size, 1);
    case RLX_PAD_MODE_CONSTANT:
    case RLX_PAD_MODE_EDGE:
    default: return 0;
    }
}

static gboolean
lower_parts (RlxLower         *lower,
             const RlxIrNode  *node,
             const RlxIrValue *value,
             const Part       *parts,
             RlxPadMode        mode,
             GError          **error)
{
  const RlxIrValue *x = node->inputs[0], *y = &node->outputs[0];
  gint64 strides[RLX_MAX_DIMS], shape[RLX_MAX_DIMS], offset = 0;
  Part joined[RLX_MAX_DIMS];
  gint64 stride[RLX_MAX_DIMS];
  gboolean plain[RLX_MAX_DIMS], once = TRUE;
  guint n_dims = 0;
  RlxKernel *kernel;

  if (rlx_type_n_elements (&y->type) == 0)
    return TRUE;

  /* Innermost first; neighbouring axes that are taken unchanged are merged. */
  rlx_type_get_strides (&x->type, strides);
  for (guint i = x->type.n_dims; i-- > 0;)
    {
      gboolean whole = parts[i].start == 0 && parts[i].before == 0 &&
                       parts[i].size == x->type.shape[i] && y->type.shape[i] == x->type.shape[i];

      /* finding a place along it takes divisions */
      if (whole && y->type.shape[i] == 1)
        continue;
      if (whole && n_dims > 0 && plain[n_dims - 1])
        {
          shape[n_dims - 1] *= y->type.shape[i];
          joined[n_dims - 1].size *= parts[i].size;
          continue;
        }
      offset += parts[i].start * strides[i];
      shape[n_dims] = y->type.shape[i];
      stride[n_dims] = strides[i];
      joined[n_dims] = parts[i];
      plain[n_dims] = whole;
      n_dims++;
    }
  if (n_dims == 0 || (n_dims == 1 && plain[0]))
    {
      rlx_lower_alias (lower, y, x);
      return TRUE;
    }

  kernel = rlx_kernel_new (lower, node, "pad");
  rlx_kernel_input_raw (kernel, "x", x);
  if (value != NULL)
    rlx_kernel_input_raw (kernel, "value", value);
  rlx_kernel_define (kernel, "VALUE", value != NULL);
  rlx_kernel_define (kernel, "MODE", mode);
  rlx_kernel_define (kernel, "RANK", n_dims);
  rlx_kernel_param_u32 (kernel, "offset", (guint32) offset);
  for (guint i = 0; i < n_dims; i++)
    {
      /* what is taken unchanged never repeats */
      gint64 period = plain[i] ? G_MAXUINT32 : get_period (mode, joined[i].size);

      /* a remainder costs more than everything else */
      once = once && shape[i] <= period;
      rlx_kernel_param_indexed (kernel, "dim", i, shape[i]);
      rlx_kernel_param_indexed (kernel, "before", i, period > 0 ? joined[i].before % period : joined[i].before);
      rlx_kernel_param_indexed (kernel, "period", i, period);
      rlx_kernel_param_indexed (kernel, "size", i, joined[i].size);
      rlx_kernel_param_indexed (kernel, "stride", i, stride[i]);
    }
  rlx_kernel_define (kernel, "ONCE", once || mode == RLX_PAD_MODE_CONSTANT || mode == RLX_PAD_MODE_EDGE);

  return rlx_kernel_dispatch_elements (kernel, lower, y, error);
}

static void
get_pad_part (gint64 size,
              gint64 before,
              gint64 after,
              Part  *part)
{
  part->start = MAX (-before, 0);
  part->size = size - part->start - MAX (-after, 0);
  part->before = MAX (before, 0);
}

gboolean
rlx_pad_infer (RlxOpCall         *call,
               const RlxPadAttrs *attrs,
               GError           **error)
{
  const RlxInts *before = &attrs->before;
  const RlxInts *after = &attrs->after;
  RlxPadMode mode = attrs->mode;
  const RlxTensorType *value = call->inputs[1];
  RlxTensorType type = *call->inputs[0];

  if (before->n_values != type.n_dims || after->n_values != type.n_dims)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "there are %u and %u numbers of elements for %u dimensions",
                           before->n_values, after->n_values, type.n_dims);
  if (value != NULL && rlx_type_n_elements (value) != 1)
    {
      g_autofree char *text = rlx_type_to_string (value);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the value is %s; it must have one element", text);
    }

  for (guint i = 0; i < type.n_dims; i++)
    {
      gint64 size = type.shape[i], b = before->values[i], a = after->values[i];
      Part part;

      if (b > G_MAXUINT32 || a > G_MAXUINT32)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                               "%" G_GINT64_FORMAT " elements are to be added to dimension %u; the limit is %u",
                               MAX (a, b), i, G_MAXUINT32);
      if (b < -size || a < -size || MIN (b, 0) + MIN (a, 0) < -size)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                               "%" G_GINT64_FORMAT " and %" G_GINT64_FORMAT " elements cannot be taken from the %" G_GINT64_FORMAT " of dimension %u",
                               b, a, size, i);
      get_pad_part (size, b, a, &part);
      if (mode != RLX_PAD_MODE_CONSTANT && part.size == 0 && (a > 0 || b > 0))
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                               "%" G_GINT64_FORMAT " elements are to be added to dimension %u, but there are none to repeat",
                               MAX (a, b), i);
      if ((mode == RLX_PAD_MODE_REFLECT || mode == RLX_PAD_MODE_SYMMETRIC) && part.size > MAX_MIRRORED)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                               "%" G_GINT64_FORMAT " elements of dimension %u are to be mirrored; the limit is %d",
                               part.size, i, MAX_MIRRORED);
      type.shape[i] = size + b + a;
    }

  rlx_call_add_output (call, &type);
  return TRUE;
}

gboolean
rlx_pad_lower (RlxLower        *lower,
               const RlxIrNode *node,
               GError         **error)
{
  const RlxPadAttrs *attrs = rlx_pad_attrs (node);
  const RlxInts *before = &attrs->before;
  const RlxInts *after = &attrs->after;
  RlxPadMode mode = attrs->mode;
  const RlxTensorType *x = &node->inputs[0]->type;
  Part parts[RLX_MAX_DIMS];

  for (guint i = 0; i < x->n_dims; i++)
    get_pad_part (x->shape[i], before->values[i], after->values[i], &parts[i]);

  return lower_parts (lower, node, mode == RLX_PAD_MODE_CONSTANT ? node->inputs[1] : NULL, parts, mode, error);
}

gboolean
rlx_tile_infer (RlxOpCall          *call,
                const RlxTileAttrs *attrs,
                GError            **error)
{
  const RlxInts *repetitions = &attrs->repetitions;
  RlxTensorType type = *call->inputs[0];

  if (repetitions->n_values != type.n_dims)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "there are %u repetitions for %u dimensions", repetitions->n_values, type.n_dims);
  for (guint i = 0; i < type.n_dims; i++)
    {
      if (repetitions->values[i] < 0)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                               "repetition %u is %" G_GINT64_FORMAT, i, repetitions->values[i]);
      if (!rlx_mul_i64 (type.shape[i], repetitions->values[i], &type.shape[i]))
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                               "dimension %u would have %" G_GINT64_FORMAT " times %" G_GINT64_FORMAT " elements",
                               i, repetitions->values[i], type.shape[i]);
    }

  rlx_call_add_output (call, &type);
  return TRUE;
}

gboolean
rlx_tile_lower (RlxLower        *lower,
                const RlxIrNode *node,
                GError         **error)
{
  const RlxTensorType *x = &node->inputs[0]->type;
  Part parts[RLX_MAX_DIMS];

  for (guint i = 0; i < x->n_dims; i++)
    parts[i] = (Part) { 0, x->shape[i], 0 };

  return lower_parts (lower, node, NULL, parts, RLX_PAD_MODE_WRAP, error);
}

gboolean
rlx_roll_infer (RlxOpCall          *call,
                const RlxRollAttrs *attrs,
                GError            **error)
{
  const RlxInts *shifts = &attrs->shifts;
  const RlxInts *axes = &attrs->axes;
  guint mask;

  if (shifts->n_values != axes->n_values)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "there are %u shifts for %u axes", shifts->n_values, axes->n_values);
  if (!rlx_call_axes (call, axes, call->inputs[0]->n_dims, FALSE, &mask, error))
    return FALSE;

  rlx_call_add_output (call, call->inputs[0]);
  return TRUE;
}

gboolean
rlx_roll_lower (RlxLower        *lower,
                const RlxIrNode *node,
                GError         **error)
{
  const RlxRollAttrs *attrs = rlx_roll_attrs (node);
  const RlxInts *shifts = &attrs->shifts;
  const RlxInts *axes = &attrs->axes;
  const RlxTensorType *x = &node->inputs[0]->type;
  Part parts[RLX_MAX_DIMS];

  for (guint i = 0; i < x->n_dims; i++)
    parts[i] = (Part) { 0, x->shape[i], 0 };
  for (guint i = 0; i < axes->n_values; i++)
    {
      gint64 axis = axes->values[i] < 0 ? axes->values[i] + x->n_dims : axes->values[i];
      gint64 size = x->shape[axis];

      if (size > 0)
        {
          gint64 shift = shifts->values[i] % size;

          parts[axis].before = shift < 0 ? shift + size : shift;
        }
    }

  return lower_parts (lower, node, NULL, parts, RLX_PAD_MODE_WRAP, error);
}

/* ---- squeeze, unsqueeze --------------------------------------------------------------- */

gboolean
rlx_squeeze_infer (RlxOpCall             *call,
                   const RlxSqueezeAttrs *attrs,
                   GError               **error)
{
  const RlxInts *axes = &attrs->axes;
  const RlxTensorType *x = call->inputs[0];
  RlxTensorType type = { .data_type = x->data_type };
  guint mask = 0;

  if (!rlx_call_axes (call, axes, x->n_dims, FALSE, &mask, error))
    return FALSE;
  for (guint i = 0; i < x->n_dims; i++)
    {
      gboolean drop = axes->n_values > 0 ? (mask & 1u << i) != 0 : x->shape[i] == 1;

      if (drop && x->shape[i] != 1)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                               "dimension %u cannot be left out: its size is %" G_GINT64_FORMAT, i, x->shape[i]);
      if (!drop)
        type.shape[type.n_dims++] = x->shape[i];
    }

  rlx_call_add_output (call, &type);
  return TRUE;
}

void
rlx_squeeze_gradient (RlxGradient     *self,
                      const RlxIrNode *node)
{
  rlx_reshape_gradient (self, node);
}

gboolean
rlx_squeeze_lower (RlxLower        *lower,
                   const RlxIrNode *node,
                   GError         **error)
{
  rlx_lower_alias (lower, &node->outputs[0], node->inputs[0]);
  return TRUE;
}

gboolean
rlx_unsqueeze_infer (RlxOpCall               *call,
                     const RlxUnsqueezeAttrs *attrs,
                     GError                 **error)
{
  const RlxInts *axes = &attrs->axes;
  const RlxTensorType *x = call->inputs[0];
  RlxTensorType type = { .data_type = x->data_type };
  guint mask = 0, from = 0;

  if (axes->n_values > RLX_MAX_DIMS - x->n_dims)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                           "%u dimensions and %u more are above the limit of %d", x->n_dims, axes->n_values, RLX_MAX_DIMS);
  type.n_dims = x->n_dims + axes->n_values;
  if (!rlx_call_axes (call, axes, type.n_dims, FALSE, &mask, error))
    return FALSE;
  for (guint i = 0; i < type.n_dims; i++)
    type.shape[i] = mask & 1u << i ? 1 : x->shape[from++];

  rlx_call_add_output (call, &type);
  return TRUE;
}

void
rlx_unsqueeze_gradient (RlxGradient     *self,
                        const RlxIrNode *node)
{
  rlx_reshape_gradient (self, node);
}

gboolean
rlx_unsqueeze_lower (RlxLower        *lower,
                     const RlxIrNode *node,
                     GError         **error)
{
  rlx_lower_alias (lower, &node->outputs[0], node->inputs[0]);
  return TRUE;
}

/* ---- triangular -------------------------------------------------------------------------- */

gboolean
rlx_triangular_infer (RlxOpCall                *call,
                      const RlxTriangularAttrs *attrs,
                      GError                  **error)
{
  const RlxTensorType *x = call->inputs[0];

  if (x->n_dims < 2)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "a matrix is needed, the operand has %u dimensions", x->n_dims);

  rlx_call_add_output (call, x);
  return TRUE;
}

gboolean
rlx_triangular_lower (RlxLower        *lower,
                      const RlxIrNode *node,
                      GError         **error)
{
  const RlxTriangularAttrs *attrs = rlx_triangular_attrs (node);
  const RlxTensorType *x = &node->inputs[0]->type;
  gint64 diagonal = attrs->diagonal;
  guint64 distance = diagonal < 0 ? -(guint64) diagonal : (guint64) diagonal;
  RlxKernel *kernel;

  if (rlx_type_n_elements (x) == 0)
    return TRUE;

  kernel = rlx_kernel_new (lower, node, "triangular");
  rlx_kernel_input_raw (kernel, "x", node->inputs[0]);
  rlx_kernel_define (kernel, "UPPER", attrs->upper);
  rlx_kernel_define (kernel, "BELOW", diagonal < 0);
  rlx_kernel_param_u32 (kernel, "rows", x->shape[x->n_dims - 2]);
  rlx_kernel_param_u32 (kernel, "columns", x->shape[x->n_dims - 1]);
  rlx_kernel_param_u32 (kernel, "distance", MIN (distance, G_MAXUINT32));

  return rlx_kernel_dispatch_elements (kernel, lower, &node->outputs[0], error);
}

/* ---- depth and space ----------------------------------------------------------------------- */

static gboolean
check_block (RlxOpCall *call,
             gint64     block,
             GError   **error)
{
  const RlxTensorType *x = call->inputs[0];

  if (x->n_dims != 4)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "the operand has %u dimensions, not batch, channels, height and width", x->n_dims);
  if (block < 1)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "the block is %" G_GINT64_FORMAT, block);
  if (block > G_MAXUINT16)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                           "the block is %" G_GINT64_FORMAT "; the limit is %u", block, G_MAXUINT16);
  return TRUE;
}

gboolean
rlx_depth_to_space_infer (RlxOpCall                  *call,
                          const RlxDepthToSpaceAttrs *attrs,
                          GError                    **error)
{
  RlxTensorType type = *call->inputs[0];
  gint64 block = attrs->block;

  if (!check_block (call, block, error))
    return FALSE;
  if (type.shape[1] % (block * block) != 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "%" G_GINT64_FORMAT " channels do not make blocks of %" G_GINT64_FORMAT " · %" G_GINT64_FORMAT,
                           type.shape[1], block, block);
  type.shape[1] /= block * block;
  for (guint i = 2; i < 4; i++)
    if (!rlx_mul_i64 (type.shape[i], block, &type.shape[i]))
      return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                             "dimension %u would have %" G_GINT64_FORMAT " times %" G_GINT64_FORMAT " elements",
                             i, block, type.shape[i]);

  rlx_call_add_output (call, &type);
  return TRUE;
}

gboolean
rlx_space_to_depth_infer (RlxOpCall                  *call,
                          const RlxSpaceToDepthAttrs *attrs,
                          GError                    **error)
{
  RlxTensorType type = *call->inputs[0];
  gint64 block = attrs->block;

  if (!check_block (call, block, error))
    return FALSE;
  if (type.shape[2] % block != 0 || type.shape[3] % block != 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "a plane of %" G_GINT64_FORMAT " · %" G_GINT64_FORMAT " does not make blocks of %" G_GINT64_FORMAT,
                           type.shape[2], type.shape[3], block);
  type.shape[2] /= block;
  type.shape[3] /= block;
  if (!rlx_mul_i64 (type.shape[1], block * block, &type.shape[1]))
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                           "there would be %" G_GINT64_FORMAT " · %" G_GINT64_FORMAT " times %" G_GINT64_FORMAT " channels",
                           block, block, type.shape[1]);

  rlx_call_add_output (call, &type);
  return TRUE;
}

/* A copy with the result in order. */
static gboolean
lower_in_order (RlxLower        *lower,
                const RlxIrNode *node,
                RlxCopy         *copy,
                GError         **error)
{
  gint64 stride = 1;

  for (guint i = copy->n_dims; i-- > 0;)
    {
      copy->to[i] = stride;
      stride *= copy->shape[i];
    }

  return rlx_lower_copy (lower, node, node->inputs[0], &node->outputs[0], copy, error);
}

gboolean
rlx_depth_to_space_lower (RlxLower        *lower,
                          const RlxIrNode *node,
                          GError         **error)
{
  const RlxDepthToSpaceAttrs *attrs = rlx_depth_to_space_attrs (node);
  const RlxTensorType *x = &node->inputs[0]->type;
  gint64 block = attrs->block;
  gboolean first = attrs->blocks_first;
  gint64 channels = x->shape[1] / (block * block);
  gint64 plane = x->shape[2] * x->shape[3];
  RlxCopy copy = {
    .n_dims = 6,
    .shape = { x->shape[0], channels, x->shape[2], block, x->shape[3], block },
    .from = {
      x->shape[1] * plane, first ? plane : plane * block * block,
      x->shape[3], first ? plane * channels * block : plane * block,
      1, first ? plane * channels : plane,
    },
  };

  return lower_in_order (lower, node, &copy, error);
}

gboolean
rlx_space_to_depth_lower (RlxLower        *lower,
                          const RlxIrNode *node,
                          GError         **error)
{
  const RlxSpaceToDepthAttrs *attrs = rlx_space_to_depth_attrs (node);
  const RlxTensorType *x = &node->inputs[0]->type;
  gint64 block = attrs->block;
  guint channel = attrs->blocks_first ? 3 : 1;
  guint row = channel == 3 ? 1 : 2;
  RlxCopy copy = { .n_dims = 6 };

  copy.shape[0] = x->shape[0];
  copy.from[0] = x->shape[1] * x->shape[2] * x->shape[3];
  copy.shape[channel] = x->shape[1];
  copy.from[channel] = x->shape[2] * x->shape[3];
  copy.shape[row] = copy.shape[row + 1] = block;
  copy.from[row] = x->shape[3];
  copy.from[row + 1] = 1;
  copy.shape[4] = x->shape[2] / block;
  copy.from[4] = block * x->shape[3];
  copy.shape[5] = x->shape[3] / block;
  copy.from[5] = block;

  return lower_in_order (lower, node, &copy, error);
}
