/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Operators that move elements and compute nothing.
 */
#include "config.h"

#include "ops/rlx-shape-private.h"

#include <string.h>

#include "ops/rlx-gradient-private.h"
#include "rlx-tensor-private.h"
#include "util/rlx-checked-private.h"
#include "util/rlx-element-private.h"

#define WORKGROUP_SIZE 64

/* ---- reshape -------------------------------------------------------------------- */

gboolean
rlx_reshape_infer (RlxOpCall             *call,
                   const RlxReshapeAttrs *attrs,
                   GError               **error)
{
  const RlxInts *shape = &attrs->shape;
  const RlxTensorType *x = call->inputs[0];
  RlxTensorType type = { .data_type = x->data_type, .n_dims = shape->n_values };
  guint64 n = rlx_type_n_elements (x);
  guint64 product = 1;
  gboolean fits = TRUE, has_zero = FALSE;
  int inferred = -1;

  if (shape->n_values > RLX_MAX_DIMS)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                           "the shape has %u dimensions; the limit is %d", shape->n_values, RLX_MAX_DIMS);

  for (guint i = 0; i < shape->n_values; i++)
    {
      gint64 dim = shape->values[i];

      type.shape[i] = dim;
      if (dim == -1)
        {
          if (inferred >= 0)
            return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                                   "dimensions %d and %u of the shape are both -1; only one can be inferred", inferred, i);
          inferred = (int) i;
        }
      else if (dim < 0)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                               "dimension %u of the shape is %" G_GINT64_FORMAT, i, dim);
      else if (dim == 0)
        has_zero = TRUE;
      else if (fits)
        fits = rlx_mul_u64 (product, (guint64) dim, &product);
    }

  if (inferred >= 0)
    {
      if (has_zero)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                               "dimension %d of the shape cannot be inferred next to a dimension of 0", inferred);
      if (fits && n % product == 0)
        {
          type.shape[inferred] = (gint64) (n / product);
          product = n;
        }
      else
        fits = FALSE;
    }
  else if (has_zero)
    product = 0;

  /* Next to a 0, dimensions that are too large are left to the check of limits. */
  if (has_zero ? n != 0 : !fits || product != n)
    {
      g_autofree char *from = rlx_type_to_string (x);
      g_autofree char *to = rlx_shape_to_string (shape->values, shape->n_values);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                             "%s has %" G_GUINT64_FORMAT " elements, which do not fit the shape %s", from, n, to);
    }

  rlx_call_add_output (call, &type);
  return TRUE;
}

gboolean
rlx_reshape_lower (RlxLower        *lower,
                   const RlxIrNode *node,
                   GError         **error)
{
  rlx_lower_alias (lower, &node->outputs[0], node->inputs[0]);
  return TRUE;
}

gboolean
rlx_after_infer (RlxOpCall *call,
                 GError   **error G_GNUC_UNUSED)
{
  rlx_call_add_output (call, call->inputs[0]);
  return TRUE;
}

gboolean
rlx_after_lower (RlxLower        *lower,
                 const RlxIrNode *node,
                 GError         **error G_GNUC_UNUSED)
{
  rlx_lower_alias (lower, &node->outputs[0], node->inputs[0]);
  return TRUE;
}

void
rlx_after_gradient (RlxGradient     *self,
                    const RlxIrNode *node)
{
  rlx_gradient_add (self, node, 0, rlx_gradient_get (self, node, 0));
}

void
rlx_reshape_gradient (RlxGradient     *self,
                      const RlxIrNode *node)
{
  const RlxTensorType *x = &node->inputs[0]->type;

  rlx_gradient_add (self, node, 0, rlx_build_shaped (rlx_gradient_get_builder (self), rlx_gradient_get (self, node, 0),
                                                     x->shape, x->n_dims));
}

/* ---- views ------------------------------------------------------------------------ */

gboolean
rlx_transpose_infer (RlxOpCall               *call,
                     const RlxTransposeAttrs *attrs,
                     GError                 **error)
{
  const RlxInts *permutation = &attrs->permutation;
  const RlxTensorType *x = call->inputs[0];
  RlxTensorType type = *x;
  guint seen = 0;

  if (permutation->n_values == 0)
    {
      for (guint i = 0; i < x->n_dims; i++)
        type.shape[i] = x->shape[x->n_dims - 1 - i];
    }
  else
    {
      if (permutation->n_values != x->n_dims)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                               "the permutation has %u entries, the operand %u dimensions", permutation->n_values, x->n_dims);
      for (guint i = 0; i < x->n_dims; i++)
        {
          guint axis;

          if (!rlx_call_axis (call, permutation->values[i], x->n_dims, &axis, error))
            return FALSE;
          if (seen & (1u << axis))
            return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                                   "dimension %u is in the permutation twice", axis);
          seen |= 1u << axis;
          type.shape[i] = x->shape[axis];
        }
    }

  rlx_call_add_output (call, &type);
  return TRUE;
}

guint
rlx_transpose_get_axis (const RlxIrNode *node,
                        guint            axis)
{
  const RlxInts *permutation = &rlx_transpose_attrs (node)->permutation;
  const RlxTensorType *x = &node->inputs[0]->type;

  return rlx_type_get_axis (x, permutation->n_values == 0 ? (gint64) x->n_dims - 1 - axis : permutation->values[axis]);
}

static void
transpose_get_strides (const RlxIrNode *node,
                       gint64           strides[RLX_MAX_DIMS])
{
  const RlxTensorType *x = &node->inputs[0]->type;
  gint64 from[RLX_MAX_DIMS];

  rlx_type_get_strides (x, from);
  for (guint i = 0; i < x->n_dims; i++)
    strides[i] = from[rlx_transpose_get_axis (node, i)];
}

void
rlx_transpose_gradient (RlxGradient     *self,
                        const RlxIrNode *node)
{
  guint n_dims = node->inputs[0]->type.n_dims;
  gint64 back[RLX_MAX_DIMS];

  for (guint i = 0; i < n_dims; i++)
    back[rlx_transpose_get_axis (node, i)] = i;
  rlx_gradient_add (self, node, 0,
                    rlx_build_transpose (rlx_gradient_get_builder (self), rlx_gradient_get (self, node, 0),
                                         RLX_TRANSPOSE_ATTRS (.permutation = RLX_INTS (back, n_dims))));
}

/* The elements taken along one axis. */
typedef struct
{
  gint64 start;
  gint64 step;
  gint64 length;
} Range;

/* @size is that of the axis, and not 0. Nothing here can overflow: bounds are clamped to
 * the axis before they are subtracted. */
static Range
get_range (gint64 start,
           gint64 end,
           gint64 step,
           gint64 size)
{
  gint64 least = step > 0 ? 0 : -1;
  gint64 most = step > 0 ? size : size - 1;
  Range range = { 0, step, 0 };
  guint64 distance = step > 0 ? (guint64) step : -(guint64) step;

  if (start < 0)
    start += size;
  if (end < 0)
    end += size;
  /* With a negative step, the end can be before the first element, but the start cannot. */
  start = CLAMP (start, 0, most);
  end = CLAMP (end, least, most);

  range.start = start;
  if (step > 0 ? end > start : end < start)
    range.length = (gint64) (((guint64) ABS (end - start) - 1) / distance + 1);
  if (range.length <= 1)
    range.step = 0;

  return range;
}

/* The range of every axis; the numbers have been checked. */
static void
get_ranges (const RlxTensorType *x,
            const RlxSliceAttrs *attrs,
            Range                ranges[RLX_MAX_DIMS])
{
  for (guint i = 0; i < x->n_dims; i++)
    ranges[i] = (Range) { 0, 1, x->shape[i] };

  for (guint i = 0; i < attrs->starts.n_values; i++)
    {
      gint64 axis = attrs->axes.n_values > 0 ? attrs->axes.values[i] : i;

      if (axis < 0)
        axis += x->n_dims;
      if (x->shape[axis] > 0)
        ranges[axis] = get_range (attrs->starts.values[i], attrs->ends.values[i],
                                  attrs->steps.n_values > 0 ? attrs->steps.values[i] : 1, x->shape[axis]);
    }
}

gboolean
rlx_slice_infer (RlxOpCall           *call,
                 const RlxSliceAttrs *attrs,
                 GError             **error)
{
  const RlxInts *starts = &attrs->starts;
  const RlxInts *ends = &attrs->ends;
  const RlxInts *axes = &attrs->axes;
  const RlxInts *steps = &attrs->steps;
  const RlxTensorType *x = call->inputs[0];
  RlxTensorType type = *x;
  Range ranges[RLX_MAX_DIMS];
  guint mask;

  if (ends->n_values != starts->n_values)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "there are %u starts and %u ends", starts->n_values, ends->n_values);
  if (axes->n_values > 0 && axes->n_values != starts->n_values)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "there are %u starts and %u axes", starts->n_values, axes->n_values);
  if (steps->n_values > 0 && steps->n_values != starts->n_values)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "there are %u starts and %u steps", starts->n_values, steps->n_values);
  if (starts->n_values > x->n_dims)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "there are %u starts, the operand has %u dimensions", starts->n_values, x->n_dims);
  if (axes->n_values > 0 && !rlx_call_axes (call, axes, x->n_dims, FALSE, &mask, error))
    return FALSE;
  for (guint i = 0; i < steps->n_values; i++)
    if (steps->values[i] == 0)
      return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "step %u is 0", i);

  get_ranges (x, attrs, ranges);
  for (guint i = 0; i < x->n_dims; i++)
    type.shape[i] = ranges[i].length;

  rlx_call_add_output (call, &type);
  return TRUE;
}

/* Inserts zeros between the elements along @axis, so that they are @step apart. */
static RlxIrValue *
spread (RlxBuilder *b,
        RlxIrValue *x,
        guint       axis,
        gint64      step)
{
  gint64 split[RLX_MAX_DIMS + 1], joined[RLX_MAX_DIMS], after[3] = { 0, 0, step - 1 };
  const gint64 zeros[3] = { 0, 0, 0 };
  gint64 n = x->type.shape[axis], first = axis, inner = 1, length = (n - 1) * step + 1;
  RlxIrValue *y;

  split[0] = 1;
  for (guint i = 0; i < axis; i++)
    split[0] *= x->type.shape[i];
  for (guint i = axis + 1; i < x->type.n_dims; i++)
    inner *= x->type.shape[i];
  split[1] = n;
  split[2] = inner;
  after[2] = (step - 1) * inner;
  y = rlx_build_shaped (b, x, split, 3);
  y = rlx_build_pad (b, y, NULL, RLX_PAD_ATTRS (.before = RLX_INTS (zeros, 3), .after = RLX_INTS (after, 3)));
  memcpy (joined, x->type.shape, sizeof joined);
  joined[axis] = n * step;
  y = rlx_build_shaped (b, y, joined, x->type.n_dims);
  return rlx_build_slice (b, y, RLX_SLICE_ATTRS (.starts = RLX_INTS (zeros, 1), .ends = RLX_INTS (&length, 1),
                                                 .axes = RLX_INTS (&first, 1)));
}

void
rlx_slice_gradient (RlxGradient     *self,
                    const RlxIrNode *node)
{
  RlxBuilder *b = rlx_gradient_get_builder (self);
  const RlxTensorType *x = &node->inputs[0]->type;
  RlxIrValue *g = rlx_gradient_get (self, node, 0);
  gint64 before[RLX_MAX_DIMS], after[RLX_MAX_DIMS];
  Range ranges[RLX_MAX_DIMS];
  gboolean any = FALSE;

  get_ranges (x, rlx_slice_attrs (node), ranges);
  for (guint i = 0; i < x->n_dims && g != NULL; i++)
    {
      gint64 axis = i, covered;

      if (ranges[i].step < 0)
        {
          g = rlx_build_reverse (b, g, RLX_REVERSE_ATTRS (.axes = RLX_INTS (&axis, 1)));
          ranges[i].start += (ranges[i].length - 1) * ranges[i].step;
          ranges[i].step = -ranges[i].step;
        }
      if (ranges[i].step > 1 && g != NULL)
        g = spread (b, g, i, ranges[i].step);
      covered = ranges[i].length == 0 ? 0 : (ranges[i].length - 1) * ranges[i].step + 1;
      before[i] = ranges[i].start;
      after[i] = x->shape[i] - ranges[i].start - covered;
      any = any || before[i] > 0 || after[i] > 0;
    }
  if (any)
    g = rlx_build_pad (b, g, NULL, RLX_PAD_ATTRS (.before = RLX_INTS (before, x->n_dims), .after = RLX_INTS (after, x->n_dims)));
  rlx_gradient_add (self, node, 0, g);
}

static void
slice_get_strides (const RlxIrNode *node,
                   gint64          *offset,
                   gint64           strides[RLX_MAX_DIMS])
{
  const RlxTensorType *x = &node->inputs[0]->type;
  gint64 from[RLX_MAX_DIMS];
  Range ranges[RLX_MAX_DIMS];

  rlx_type_get_strides (x, from);
  get_ranges (x, rlx_slice_attrs (node), ranges);

  *offset = 0;
  for (guint i = 0; i < x->n_dims; i++)
    {
      *offset += ranges[i].start * from[i];
      strides[i] = ranges[i].step * from[i];
    }
}

gboolean
rlx_expand_infer (RlxOpCall            *call,
                  const RlxExpandAttrs *attrs,
                  GError              **error)
{
  const RlxInts *shape = &attrs->shape;
  const RlxTensorType *x = call->inputs[0];
  RlxTensorType type = { .data_type = x->data_type, .n_dims = shape->n_values };
  gboolean fits = shape->n_values >= x->n_dims;

  if (shape->n_values > RLX_MAX_DIMS)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                           "the shape has %u dimensions; the limit is %d", shape->n_values, RLX_MAX_DIMS);

  for (guint i = 0; i < shape->n_values; i++)
    {
      if (shape->values[i] < 0)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                               "dimension %u of the shape is %" G_GINT64_FORMAT, i, shape->values[i]);
      type.shape[i] = shape->values[i];
    }
  for (guint i = 0; fits && i < x->n_dims; i++)
    {
      gint64 dim = type.shape[type.n_dims - x->n_dims + i];

      fits = x->shape[i] == dim || x->shape[i] == 1;
    }
  if (!fits)
    {
      g_autofree char *from = rlx_type_to_string (x);
      g_autofree char *to = rlx_shape_to_string (shape->values, shape->n_values);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "%s does not broadcast to the shape %s", from, to);
    }

  rlx_call_add_output (call, &type);
  return TRUE;
}

void
rlx_expand_gradient (RlxGradient     *self,
                     const RlxIrNode *node)
{
  rlx_gradient_add (self, node, 0, rlx_gradient_get (self, node, 0));
}

static void
expand_get_strides (const RlxIrNode *node,
                    gint64           strides[RLX_MAX_DIMS])
{
  const RlxTensorType *x = &node->inputs[0]->type;
  const RlxTensorType *y = &node->outputs[0].type;
  guint missing = y->n_dims - x->n_dims;
  gint64 from[RLX_MAX_DIMS];

  rlx_type_get_strides (x, from);
  for (guint i = 0; i < y->n_dims; i++)
    strides[i] = i < missing || x->shape[i - missing] == 1 ? 0 : from[i - missing];
}

gboolean
rlx_reverse_infer (RlxOpCall             *call,
                   const RlxReverseAttrs *attrs,
                   GError               **error)
{
  guint mask;

  if (!rlx_call_axes (call, &attrs->axes, call->inputs[0]->n_dims, FALSE, &mask, error))
    return FALSE;

  rlx_call_add_output (call, call->inputs[0]);
  return TRUE;
}

void
rlx_reverse_gradient (RlxGradient     *self,
                      const RlxIrNode *node)
{
  rlx_gradient_add (self, node, 0, rlx_build_reverse (rlx_gradient_get_builder (self), rlx_gradient_get (self, node, 0),
                                                      rlx_reverse_attrs (node)));
}

static void
reverse_get_strides (const RlxIrNode *node,
                     gint64          *offset,
                     gint64           strides[RLX_MAX_DIMS])
{
  const RlxInts *axes = &rlx_reverse_attrs (node)->axes;
  const RlxTensorType *x = &node->inputs[0]->type;

  rlx_type_get_strides (x, strides);
  for (guint i = 0; i < axes->n_values; i++)
    {
      gint64 axis = axes->values[i] < 0 ? axes->values[i] + x->n_dims : axes->values[i];

      *offset += (x->shape[axis] - 1) * strides[axis];
      strides[axis] = -strides[axis];
    }
}

static void
frame_get_strides (const RlxIrNode *node,
                   gint64           strides[RLX_MAX_DIMS])
{
  const RlxTensorType *x = &node->inputs[0]->type;

  rlx_type_get_strides (x, strides);
  strides[x->n_dims] = 1;
  strides[x->n_dims - 1] = rlx_frame_attrs (node)->hop;
}

gboolean
rlx_view_get_strides (const RlxIrNode *node,
                      gint64          *offset,
                      gint64           strides[RLX_MAX_DIMS])
{
  *offset = 0;
  switch (node->op->id)
    {
    case RLX_OP_ID_TRANSPOSE:
      transpose_get_strides (node, strides);
      return TRUE;
    case RLX_OP_ID_SLICE:
      slice_get_strides (node, offset, strides);
      return TRUE;
    case RLX_OP_ID_EXPAND:
      expand_get_strides (node, strides);
      return TRUE;
    case RLX_OP_ID_REVERSE:
      reverse_get_strides (node, offset, strides);
      return TRUE;
    case RLX_OP_ID_FRAME:
      frame_get_strides (node, strides);
      return TRUE;
    default:
      return FALSE;
    }
}

static gboolean
lower_view (RlxLower        *lower,
            const RlxIrNode *node,
            GError         **error)
{
  const RlxTensorType *x = &node->inputs[0]->type;
  const RlxTensorType *y = &node->outputs[0].type;
  RlxCopy copy = { .n_dims = y->n_dims };

  rlx_view_get_strides (node, &copy.from_offset, copy.from);
  memcpy (copy.shape, y->shape, sizeof copy.shape);
  rlx_type_get_strides (y, copy.to);

  /* If all elements keep their order, a reshape is enough. */
  if (rlx_type_n_elements (x) == rlx_type_n_elements (y))
    {
      RlxCopy simple = copy;

      if (!rlx_copy_simplify (&simple) || (simple.n_dims == 1 && (simple.from[0] == 1 || simple.shape[0] == 1)))
        {
          rlx_lower_alias (lower, &node->outputs[0], node->inputs[0]);
          return TRUE;
        }
    }

  return rlx_lower_copy (lower, node, node->inputs[0], &node->outputs[0], &copy, error);
}

gboolean
rlx_transpose_lower (RlxLower        *lower,
                     const RlxIrNode *node,
                     GError         **error)
{
  return lower_view (lower, node, error);
}

gboolean
rlx_slice_lower (RlxLower        *lower,
                 const RlxIrNode *node,
                 GError         **error)
{
  return lower_view (lower, node, error);
}

gboolean
rlx_expand_lower (RlxLower        *lower,
                  const RlxIrNode *node,
                  GError         **error)
{
  return lower_view (lower, node, error);
}

gboolean
rlx_reverse_lower (RlxLower        *lower,
                   const RlxIrNode *node,
                   GError         **error)
{
  return lower_view (lower, node, error);
}

gboolean
rlx_frame_lower (RlxLower        *lower,
                 const RlxIrNode *node,
                 GError         **error)
{
  return lower_view (lower, node, error);
}

/* ---- concat ----------------------------------------------------------------------- */

gboolean
rlx_concat_infer (RlxOpCall            *call,
                  const RlxConcatAttrs *attrs,
                  GError              **error)
{
  RlxTensorType type = *call->inputs[0];
  guint axis;

  if (!rlx_call_axis (call, attrs->axis, type.n_dims, &axis, error))
    return FALSE;

  for (guint i = 1; i < call->n_inputs; i++)
    {
      const RlxTensorType *x = call->inputs[i];
      gboolean fits = x->n_dims == type.n_dims;

      if (x->data_type != type.data_type)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_DATA_TYPE,
                               "input %u is %s, input 0 is %s", i,
                               rlx_data_type_to_string (x->data_type), rlx_data_type_to_string (type.data_type));
      for (guint d = 0; fits && d < type.n_dims; d++)
        fits = d == axis || x->shape[d] == type.shape[d];
      if (!fits)
        {
          g_autofree char *a = rlx_type_to_string (call->inputs[0]);
          g_autofree char *b = rlx_type_to_string (x);

          return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                                 "input %u is %s, input 0 is %s: only dimension %u may differ", i, b, a, axis);
        }
      if (!rlx_add_i64 (type.shape[axis], x->shape[axis], &type.shape[axis]))
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT, "the sizes of dimension %u have too large a sum", axis);
    }

  rlx_call_add_output (call, &type);
  return TRUE;
}

void
rlx_concat_gradient (RlxGradient     *self,
                     const RlxIrNode *node)
{
  RlxIrValue *g = rlx_gradient_get (self, node, 0);
  gint64 axis = rlx_type_get_axis (&node->outputs[0].type, rlx_concat_attrs (node)->axis);
  gint64 start = 0;

  for (guint i = 0; i < node->n_inputs; i++)
    {
      gint64 end = start + node->inputs[i]->type.shape[axis];

      if (rlx_gradient_wants (self, node, i))
        rlx_gradient_add (self, node, i,
                          rlx_build_slice (rlx_gradient_get_builder (self), g,
                                           RLX_SLICE_ATTRS (.starts = RLX_INTS (&start, 1), .ends = RLX_INTS (&end, 1),
                                                            .axes = RLX_INTS (&axis, 1))));
      start = end;
    }
}

gboolean
rlx_concat_lower (RlxLower        *lower,
                  const RlxIrNode *node,
                  GError         **error)
{
  const RlxIrValue *y = &node->outputs[0];
  gint64 axis = rlx_concat_attrs (node)->axis;
  gint64 to[RLX_MAX_DIMS];
  gint64 start = 0;

  if (axis < 0)
    axis += y->type.n_dims;
  rlx_type_get_strides (&y->type, to);

  for (guint i = 0; i < node->n_inputs; i++)
    {
      const RlxIrValue *x = node->inputs[i];
      RlxCopy copy = { .n_dims = y->type.n_dims, .to_offset = start * to[axis] };

      /* This operand has all elements of the result. */
      if (rlx_type_n_elements (&x->type) == rlx_type_n_elements (&y->type))
        {
          rlx_lower_alias (lower, y, x);
          return TRUE;
        }

      memcpy (copy.shape, x->type.shape, sizeof copy.shape);
      memcpy (copy.to, to, sizeof copy.to);
      rlx_type_get_strides (&x->type, copy.from);
      if (!rlx_lower_copy (lower, node, x, y, &copy, error))
        return FALSE;
      start += x->type.shape[axis];
    }

  return TRUE;
}

/* ---- gather ------------------------------------------------------------------------- */

gboolean
rlx_gather_infer (RlxOpCall            *call,
                  const RlxGatherAttrs *attrs,
                  GError              **error)
{
  const RlxTensorType *x = call->inputs[0];
  const RlxTensorType *indices = call->inputs[1];
  RlxTensorType type = { .data_type = x->data_type };
  guint axis, n_dims;
  gint64 size;
  guint64 n = rlx_type_n_elements (indices);

  if (!rlx_call_axis (call, attrs->axis, x->n_dims, &axis, error))
    return FALSE;

  n_dims = x->n_dims - 1 + indices->n_dims;
  if (n_dims > RLX_MAX_DIMS)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                           "the result would have %u dimensions; the limit is %d", n_dims, RLX_MAX_DIMS);

  size = x->shape[axis];
  if (size == 0 && n > 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "there is nothing to pick: dimension %u of the operand is 0 and there are %" G_GUINT64_FORMAT " indices", axis, n);

  if (call->constants != NULL && call->constants[1] != NULL && !attrs->clamp)
    {
      gconstpointer data = rlx_tensor_peek_data (call->constants[1]);

      for (guint64 i = 0; i < n; i++)
        {
          gint64 index = rlx_element_get_int (indices->data_type, data, i);

          if (index < -size || index >= size)
            return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                                   "index %" G_GINT64_FORMAT " at position %" G_GUINT64_FORMAT " is outside of dimension %u, whose size is %" G_GINT64_FORMAT,
                                   index, i, axis, size);
        }
    }

  for (guint i = 0; i < axis; i++)
    type.shape[type.n_dims++] = x->shape[i];
  for (guint i = 0; i < indices->n_dims; i++)
    type.shape[type.n_dims++] = indices->shape[i];
  for (guint i = axis + 1; i < x->n_dims; i++)
    type.shape[type.n_dims++] = x->shape[i];

  rlx_call_add_output (call, &type);
  return TRUE;
}

gboolean
rlx_gather_lower (RlxLower        *lower,
                  const RlxIrNode *node,
                  GError         **error)
{
  const RlxIrValue *x = node->inputs[0];
  const RlxIrValue *indices = node->inputs[1];
  const RlxIrValue *y = &node->outputs[0];
  guint64 n = rlx_type_n_elements (&y->type);
  guint64 n_indices = rlx_type_n_elements (&indices->type);
  guint bits = rlx_data_type_get_bits (rlx_data_type_on_device (x->type.data_type));
  guint pack = 32 / bits;
  gint64 axis = rlx_gather_attrs (node)->axis;
  guint64 inner = 1, next, block, groups;
  RlxKernel *kernel;

  if (n == 0)
    return TRUE;

  if (axis < 0)
    axis += x->type.n_dims;
  for (guint i = axis + 1; i < x->type.n_dims; i++)
    inner *= x->type.shape[i];

  kernel = rlx_kernel_new (lower, node, "gather");
  rlx_kernel_input_raw (kernel, "x", x);
  rlx_kernel_input (kernel, "indices", indices);
  rlx_kernel_output_raw (kernel, "y", y);
  rlx_kernel_define (kernel, "WG", WORKGROUP_SIZE);
  rlx_kernel_define (kernel, "PACK", pack);
  rlx_kernel_define (kernel, "BITS", bits);
  rlx_kernel_define (kernel, "SIGNED", !rlx_data_type_is_unsigned (indices->type.data_type));

  block = rlx_copy_get_block (lower, rlx_divide_up (n, pack)) * pack;
  groups = (n + block - 1) / block;
  next = (guint64) WORKGROUP_SIZE * pack;
  groups = (n + block - 1) / block;
  rlx_kernel_param_u32 (kernel, "n", n);
  rlx_kernel_param_u32 (kernel, "block", block);
  rlx_kernel_param_u32 (kernel, "groups", groups);
  rlx_kernel_param_u32 (kernel, "size", x->type.shape[axis]);
  rlx_kernel_param_u32 (kernel, "inner", inner);
  rlx_kernel_param_u32 (kernel, "n_indices", n_indices);
  rlx_kernel_param_u32 (kernel, "next_inner", next % inner);
  rlx_kernel_param_u32 (kernel, "next_index", next / inner % n_indices);
  rlx_kernel_param_u32 (kernel, "next_outer", next / inner / n_indices);
  rlx_kernel_set_cost (kernel, 0, 2.0 * n * bits / 8 + 4.0 * n_indices);

  return rlx_kernel_dispatch (kernel, groups, error);
}
