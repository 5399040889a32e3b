/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Values between elements. Resizing is done axis by axis.
 */
#include "config.h"

#include "ops/rlx-index-private.h"

#include "util/rlx-checked-private.h"

#define WORKGROUP_SIZE 64

gboolean rlx_resize_infer      (RlxOpCall *call, GError **error);
gboolean rlx_grid_sample_infer (RlxOpCall *call, GError **error);
gboolean rlx_resize_lower      (RlxLower *lower, const RlxIrNode *node, GError **error);
gboolean rlx_grid_sample_lower (RlxLower *lower, const RlxIrNode *node, GError **error);

/* ---- resize --------------------------------------------------------------------- */

static gint64
get_resize_axis (const RlxAttrValue *axes,
                 guint               index,
                 guint               n,
                 guint               rank)
{
  gint64 axis = axes->n_ints > 0 ? axes->ints[index] : (gint64) rank - n + index;

  return axis < 0 ? axis + rank : axis;
}

gboolean
rlx_resize_infer (RlxOpCall *call,
                  GError   **error)
{
  const RlxAttrValue *sizes = rlx_call_attr (call, "sizes");
  const RlxAttrValue *axes = rlx_call_attr (call, "axes");
  const RlxTensorType *scales = call->inputs[1], *region = call->inputs[2];
  gboolean crop = rlx_call_attr (call, "coordinates")->i == RLX_RESIZE_COORDINATES_TF_CROP_AND_RESIZE;
  RlxTensorType type = *call->inputs[0];
  guint mask;

  if (sizes->n_ints > type.rank)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "there are %u sizes, the operand has %u dimensions", sizes->n_ints, type.rank);
  if (axes->n_ints > 0 && axes->n_ints != sizes->n_ints)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "there are %u sizes for %u axes", sizes->n_ints, axes->n_ints);
  if (!rlx_call_axes (call, axes, type.rank, FALSE, &mask, error))
    return FALSE;
  if (!rlx_data_type_is_float (type.dtype) && rlx_call_attr (call, "mode")->i != RLX_INTERPOLATION_NEAREST)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_DATA_TYPE,
                           "the operand is %s: only floats have values in between, others the nearest",
                           rlx_data_type_to_string (type.dtype));
  if (scales != NULL && rlx_type_n_elements (scales) != sizes->n_ints)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "there are %" G_GUINT64_FORMAT " scales for %u sizes", rlx_type_n_elements (scales), sizes->n_ints);
  if (crop && region == NULL)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "there is no region to resize");
  if (region != NULL && rlx_type_n_elements (region) != 2 * (guint64) sizes->n_ints)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "the region has %" G_GUINT64_FORMAT " numbers, a start and an end are needed for each of %u sizes",
                           rlx_type_n_elements (region), sizes->n_ints);

  for (guint i = 0; i < sizes->n_ints; i++)
    {
      gint64 axis = get_resize_axis (axes, i, sizes->n_ints, type.rank);

      if (sizes->ints[i] < 0)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                               "size %u is %" G_GINT64_FORMAT, i, sizes->ints[i]);
      if (type.dims[axis] == 0 && sizes->ints[i] > 0)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                               "dimension %" G_GINT64_FORMAT " is 0, nothing can be made of it", axis);
      type.dims[axis] = sizes->ints[i];
    }

  rlx_call_add_output (call, &type);
  return TRUE;
}

/* Element r of the result is at (a r + b) / d of the operand, exactly; FALSE
 * where that is not so or the numbers are too large. */
static gboolean
get_exact_place (const RlxIrNode *node,
                 gint64           size,
                 gint64           new_size,
                 gint64          *a,
                 gint64          *b,
                 gint64          *d)
{
  gint64 largest;

  if (size > G_MAXINT16 * (gint64) 1024 || new_size > G_MAXINT16 * (gint64) 1024)
    return FALSE;

  *b = 0;
  switch ((RlxResizeCoordinates) rlx_node_attr (node, "coordinates")->i)
    {
    case RLX_RESIZE_COORDINATES_ALIGN_CORNERS:
      *a = new_size > 1 ? size - 1 : 0;
      *d = MAX (new_size - 1, 1);
      break;

    case RLX_RESIZE_COORDINATES_ASYMMETRIC:
      *a = size;
      *d = new_size;
      break;

    case RLX_RESIZE_COORDINATES_TF_HALF_PIXEL_FOR_NN:
      *a = 2 * size;
      *b = size;
      *d = 2 * new_size;
      break;

    case RLX_RESIZE_COORDINATES_PYTORCH_HALF_PIXEL:
      if (new_size == 1)
        {
          *a = 0;
          *d = 1;
          break;
        }
      G_GNUC_FALLTHROUGH;
    case RLX_RESIZE_COORDINATES_HALF_PIXEL:
    case RLX_RESIZE_COORDINATES_HALF_PIXEL_SYMMETRIC:
      *a = 2 * size;
      *b = size - new_size;
      *d = 2 * new_size;
      break;

    case RLX_RESIZE_COORDINATES_TF_CROP_AND_RESIZE:
    default:
      return FALSE;
    }

  /* With scales only this one does not depend on them. */
  if (node->inputs[1] != NULL && rlx_node_attr (node, "coordinates")->i != RLX_RESIZE_COORDINATES_ALIGN_CORNERS)
    return FALSE;

  largest = new_size * *a + ABS (*b) + 2 * *d;
  return largest <= G_MAXINT32;
}

/* One axis: @type is that of @x but for the new size. */
static gboolean
lower_axis (RlxLower         *lower,
            const RlxIrNode  *node,
            const RlxIrValue *x,
            const RlxIrValue *y,
            guint             index,
            gint64            axis,
            GError          **error)
{
  gint64 mode = rlx_node_attr (node, "mode")->i;
  gint64 coordinates = rlx_node_attr (node, "coordinates")->i;
  gboolean raw = mode == RLX_INTERPOLATION_NEAREST && coordinates != RLX_RESIZE_COORDINATES_TF_CROP_AND_RESIZE;
  guint64 n = rlx_type_n_elements (&y->type);
  guint64 groups;
  gint64 size = x->type.dims[axis], new_size = y->type.dims[axis], a = 0, b = 0, d = 1;
  gboolean exact = get_exact_place (node, size, new_size, &a, &b, &d);
  gboolean crop = coordinates == RLX_RESIZE_COORDINATES_TF_CROP_AND_RESIZE;
  gboolean antialias = mode != RLX_INTERPOLATION_NEAREST && rlx_node_attr (node, "antialias")->i != 0 &&
                       (new_size < size || node->inputs[1] != NULL);
  gboolean scales = (!exact || antialias) && !crop && node->inputs[1] != NULL;
  /* Where many elements become one, a workgroup shares them. */
  guint lanes = antialias && size / 16 > new_size ? WORKGROUP_SIZE : 1;
  guint64 inner = 1;
  RlxKernel *kernel = rlx_kernel_new (lower, node, "resize");

  groups = (n + WORKGROUP_SIZE / lanes - 1) / (WORKGROUP_SIZE / lanes);
  for (guint i = (guint) axis + 1; i < x->type.rank; i++)
    inner *= x->type.dims[i];

  if (raw)
    {
      rlx_kernel_input_raw (kernel, "x", x);
      rlx_kernel_output_raw (kernel, "y", y);
    }
  else
    {
      rlx_kernel_input (kernel, "x", x);
      rlx_kernel_output (kernel, "y", y);
    }
  if (scales)
    rlx_kernel_input (kernel, "scales", node->inputs[1]);
  if (crop)
    rlx_kernel_input (kernel, "region", node->inputs[2]);

  rlx_kernel_define (kernel, "WG", WORKGROUP_SIZE);
  rlx_kernel_define (kernel, "MODE", mode);
  rlx_kernel_define (kernel, "COORDINATES", coordinates);
  rlx_kernel_define (kernel, "ROUNDING", rlx_node_attr (node, "rounding")->i);
  rlx_kernel_define (kernel, "OUTSIDE", mode != RLX_INTERPOLATION_NEAREST && rlx_node_attr (node, "exclude_outside")->i != 0);
  rlx_kernel_define (kernel, "EXACT", exact);
  rlx_kernel_define (kernel, "ANTIALIAS", antialias);
  rlx_kernel_define (kernel, "LANES", lanes);
  rlx_kernel_define (kernel, "SCALES", scales);
  rlx_kernel_define (kernel, "AXIS", index);
  rlx_kernel_define (kernel, "AXES", rlx_node_attr (node, "sizes")->n_ints);
  rlx_kernel_param_u32 (kernel, "n", n);
  rlx_kernel_param_u32 (kernel, "groups", groups);
  rlx_kernel_param_u32 (kernel, "size", size);
  rlx_kernel_param_u32 (kernel, "new_size", new_size);
  rlx_kernel_param_u32 (kernel, "inner", inner);
  rlx_kernel_param_i32 (kernel, "a", a);
  rlx_kernel_param_i32 (kernel, "b", b);
  rlx_kernel_param_i32 (kernel, "d", d);
  rlx_kernel_param_f32 (kernel, "cubic_a", rlx_node_attr (node, "cubic_a")->f);
  rlx_kernel_param_f32 (kernel, "extrapolation", rlx_node_attr (node, "extrapolation")->f);
  rlx_kernel_set_cost (kernel, 8.0 * n * (antialias ? 1.0 + 2.0 * (double) size / (double) new_size : 1.0), 12.0 * n);

  return rlx_kernel_dispatch (kernel, groups, error);
}

gboolean
rlx_resize_lower (RlxLower        *lower,
                  const RlxIrNode *node,
                  GError         **error)
{
  const RlxAttrValue *sizes = rlx_node_attr (node, "sizes");
  const RlxAttrValue *axes = rlx_node_attr (node, "axes");
  gint64 coordinates = rlx_node_attr (node, "coordinates")->i;
  gboolean nearest = rlx_node_attr (node, "mode")->i == RLX_INTERPOLATION_NEAREST;
  const RlxIrValue *x = node->inputs[0], *y = &node->outputs[0];
  guint todo[RLX_MAX_RANK], n = 0;

  if (rlx_type_n_elements (&y->type) == 0)
    return TRUE;

  for (guint i = 0; i < sizes->n_ints; i++)
    {
      gint64 axis = get_resize_axis (axes, i, sizes->n_ints, x->type.rank);
      gint64 a, b, d;

      /* An axis whose elements stay where they are needs nothing done. */
      if (x->type.dims[axis] == sizes->ints[i] && coordinates != RLX_RESIZE_COORDINATES_TF_HALF_PIXEL_FOR_NN &&
          get_exact_place (node, x->type.dims[axis], sizes->ints[i], &a, &b, &d))
        continue;
      todo[n++] = i;
    }
  if (n == 0)
    {
      rlx_lower_alias (lower, y, x);
      return TRUE;
    }

  for (guint i = 0; i < n; i++)
    {
      gint64 axis = get_resize_axis (axes, todo[i], sizes->n_ints, x->type.rank);
      const RlxIrValue *next = y;

      if (i + 1 < n)
        {
          RlxTensorType type = x->type;

          /* what is in between is rounded at the end only */
          type.dtype = nearest ? type.dtype : RLX_DATA_TYPE_F32;
          type.dims[axis] = sizes->ints[todo[i]];
          if (!rlx_type_check (&type, error))
            return FALSE;
          next = rlx_lower_temporary (lower, &type);
        }
      if (!lower_axis (lower, node, x, next, todo[i], axis, error))
        return FALSE;
      x = next;
    }

  return TRUE;
}

/* ---- grid_sample ------------------------------------------------------------------- */

gboolean
rlx_grid_sample_infer (RlxOpCall *call,
                       GError   **error)
{
  const RlxTensorType *x = call->inputs[0], *grid = call->inputs[1];
  RlxTensorType type = *x;

  if (x->rank != 4 && x->rank != 5)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "the operand has %u dimensions, not batch, channels and 2 or 3 of a picture", x->rank);
  if (grid->rank != x->rank || grid->dims[grid->rank - 1] != x->rank - 2 || grid->dims[0] != x->dims[0])
    {
      g_autofree char *a = rlx_type_to_string (x);
      g_autofree char *b = rlx_type_to_string (grid);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                             "the grid %s does not fit the operand %s: it must have as many dimensions, the same batch and %u numbers for each place",
                             b, a, x->rank - 2);
    }
  if (x->rank == 5 && rlx_call_attr (call, "mode")->i == RLX_INTERPOLATION_CUBIC)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_UNSUPPORTED, "cubic interpolation is for planes only");
  for (guint i = 2; i < x->rank; i++)
    {
      if (x->dims[i] == 0)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "dimension %u is 0, there is nothing to sample", i);
      if (x->dims[i] > 1 << 24)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                               "dimension %u is %" G_GINT64_FORMAT ", the limit is %d", i, x->dims[i], 1 << 24);
      type.dims[i] = grid->dims[i - 1];
    }

  rlx_call_add_output (call, &type);
  return TRUE;
}

gboolean
rlx_grid_sample_lower (RlxLower        *lower,
                       const RlxIrNode *node,
                       GError         **error)
{
  const RlxTensorType *x = &node->inputs[0]->type, *y = &node->outputs[0].type;
  guint64 n = rlx_type_n_elements (y);
  guint64 groups = (n + WORKGROUP_SIZE - 1) / WORKGROUP_SIZE;
  guint64 places = 1;
  RlxKernel *kernel;

  if (n == 0)
    return TRUE;
  for (guint i = 2; i < y->rank; i++)
    places *= y->dims[i];

  kernel = rlx_kernel_new (lower, node, "grid-sample");
  rlx_kernel_input (kernel, "x", node->inputs[0]);
  rlx_kernel_input (kernel, "grid", node->inputs[1]);
  rlx_kernel_output (kernel, "y", &node->outputs[0]);
  rlx_kernel_define (kernel, "WG", WORKGROUP_SIZE);
  rlx_kernel_define (kernel, "DIMS", x->rank - 2);
  rlx_kernel_define (kernel, "MODE", rlx_node_attr (node, "mode")->i);
  rlx_kernel_define (kernel, "PADDING", rlx_node_attr (node, "padding")->i);
  rlx_kernel_define (kernel, "ALIGN", rlx_node_attr (node, "align_corners")->i != 0);
  rlx_kernel_param_u32 (kernel, "n", n);
  rlx_kernel_param_u32 (kernel, "groups", groups);
  rlx_kernel_param_u32 (kernel, "places", places);
  rlx_kernel_param_u32 (kernel, "channels", x->dims[1]);
  for (guint i = 0; i < x->rank - 2; i++)
    rlx_kernel_param_indexed (kernel, "size", i, x->dims[x->rank - 1 - i]);
  rlx_kernel_set_cost (kernel, 16.0 * n, 16.0 * n);

  return rlx_kernel_dispatch (kernel, groups, error);
}
