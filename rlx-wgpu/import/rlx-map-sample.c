/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Operators of ONNX that read pictures, or tables, at places that are computed.
 */
#include "config.h"

#include "import/rlx-map-private.h"

#include <string.h>

static RlxNode *
constant_floats (RlxMapCall   *call,
                 const gint64 *shape,
                 gsize         n_dims,
                 const float  *values,
                 GError      **error)
{
  g_autoptr(RlxTensor) tensor = rlx_map_has_failed (error) ? NULL : rlx_tensor_new_from_floats (shape, n_dims, values, (gsize) rlx_map_product (shape, 0, n_dims), error);

  return tensor != NULL ? rlx_map_constant (call, tensor, error) : NULL;
}

static RlxNode *
reshape (RlxMapCall   *call,
         RlxNode      *node,
         const gint64 *shape,
         gsize         n_dims,
         GError      **error)
{
  return node != NULL ? rlx_map_reshape (call, node, shape, n_dims, error) : NULL;
}

static RlxNode *
transpose (RlxMapCall   *call,
           RlxNode      *node,
           const gint64 *order,
           gsize         n_dims,
           GError      **error)
{
  return node != NULL ? rlx_map_op1 (call, "transpose", node, rlx_map_attrs ("permutation", rlx_map_ints (order, n_dims), NULL), error) : NULL;
}

static RlxNode *
binary (RlxMapCall *call,
        const char *op,
        RlxNode    *a,
        RlxNode    *b,
        GError    **error)
{
  return a != NULL && b != NULL ? rlx_map_op2 (call, op, a, b, NULL, error) : NULL;
}

static RlxNode *
affine (RlxMapCall *call,
        RlxNode    *node,
        double      alpha,
        double      beta,
        GError    **error)
{
  if (node == NULL)
    return NULL;
  return rlx_map_op1 (call, "affine", node, rlx_map_attrs ("alpha", g_variant_new_double (alpha), "beta", g_variant_new_double (beta), NULL), error);
}

/* One column of the last dimension, which is kept with size 1. */
static RlxNode *
column (RlxMapCall *call,
        RlxNode    *node,
        gint64      index,
        GError    **error)
{
  gint64 end = index + 1, axis = -1;

  return node != NULL ? rlx_map_op1 (call, "slice", node, rlx_map_attrs ("starts", rlx_map_ints (&index, 1), "ends", rlx_map_ints (&end, 1),
                                                                         "axes", rlx_map_ints (&axis, 1), NULL), error) : NULL;
}

/* ---- RoiAlign ---------------------------------------------------------------------------- */

/* The positions of the samples along an axis, [regions, bins · samples], in elements of the image. */
static RlxNode *
get_places (RlxMapCall *call,
            RlxNode    *from,
            RlxNode    *to,
            gint64      n_bins,
            gint64      n_samples,
            double      scale,
            gboolean    half,
            GError    **error)
{
  gint64 n = n_bins * n_samples;
  g_autofree float *steps = g_new (float, (gsize) n + 1);
  RlxNode *size = binary (call, "sub", to, from, error);

  for (gint64 i = 0; i < n; i++)
    steps[i] = (float) (((double) i + 0.5) / (double) n);
  size = affine (call, size, scale, 0, error);
  if (!half && size != NULL)
    size = rlx_map_op1 (call, "clamp", size, rlx_map_attrs ("minimum", g_variant_new_double (1), NULL), error);
  return binary (call, "add", affine (call, from, scale, half ? -0.5 : 0, error),
                 binary (call, "mul", size, constant_floats (call, (gint64[]) { 1, n }, 2, steps, error), error), error);
}

/* 1 if a position is less than one element outside the image, else 0. */
static RlxNode *
is_inside (RlxMapCall *call,
           RlxNode    *places,
           gint64      size,
           GError    **error)
{
  float limits[] = { -1, (float) size };
  RlxNode *low, *high;

  if (places == NULL)
    return NULL;
  low = constant_floats (call, NULL, 0, &limits[0], error);
  high = constant_floats (call, NULL, 0, &limits[1], error);
  low = binary (call, "logical_and", binary (call, "greater_equal", places, low, error), binary (call, "less_equal", places, high, error), error);
  return low != NULL ? rlx_map_cast (call, low, RLX_DATA_TYPE_F32, error) : NULL;
}

/* Combines [n, rows] and [n, columns] into a grid for an image of that size. */
static RlxNode *
make_grid (RlxMapCall *call,
           RlxNode    *y,
           RlxNode    *x,
           gint64      n,
           gint64      rows,
           gint64      columns,
           gint64      height,
           gint64      width,
           GError    **error)
{
  const gint64 shape[] = { n, rows, columns, 1 };
  RlxNode *parts[2];

  parts[0] = reshape (call, affine (call, x, 2.0 / (double) width, 1.0 / (double) width - 1, error), (gint64[]) { n, 1, columns, 1 }, 4, error);
  parts[1] = reshape (call, affine (call, y, 2.0 / (double) height, 1.0 / (double) height - 1, error), (gint64[]) { n, rows, 1, 1 }, 4, error);
  for (guint i = 0; i < 2; i++)
    if (parts[i] == NULL || (parts[i] = rlx_map_op1 (call, "expand", parts[i], rlx_map_attrs ("shape", rlx_map_ints (shape, 4), NULL), error)) == NULL)
      return NULL;
  return rlx_map_op (call, "concat", parts, 2, rlx_map_attrs ("axis", g_variant_new_int64 (3), NULL), error);
}

gboolean
rlx_onnx_map_roi_align (RlxMapCall *call,
                        GError    **error)
{
  RlxNode *x = rlx_map_input (call, 0, FALSE, error), *rois, *which, *y, *ys, *xs, *grid, *mask;
  const char *mode = rlx_map_arg_string (call, "mode", NULL), *transform = rlx_map_arg_string (call, "coordinate_transformation_mode", NULL);
  gint64 rows, columns, n_samples, n, height, width, window[2];
  gboolean half = call->opset >= 16;
  const gint64 *shape;
  RlxDataType type;
  gsize n_dims;
  double scale;

  if (x == NULL || (rois = rlx_map_input (call, 1, FALSE, error)) == NULL || (which = rlx_map_input (call, 2, FALSE, error)) == NULL ||
      !rlx_map_arg_int (call, "output_height", 1, &rows, error) || !rlx_map_arg_int (call, "output_width", 1, &columns, error) ||
      !rlx_map_arg_int (call, "sampling_ratio", 0, &n_samples, error) || !rlx_map_arg_double (call, "spatial_scale", 1, &scale, error))
    return FALSE;
  if (mode != NULL && !g_str_equal (mode, "avg"))
    return rlx_map_unsupported (error, "the mode “%s”: only means of samples are taken", mode);
  if (transform != NULL)
    {
      if (!g_str_equal (transform, "half_pixel") && !g_str_equal (transform, "output_half_pixel"))
        return rlx_map_refused (error, "the coordinate transformation “%s”", transform);
      half = g_str_equal (transform, "half_pixel");
    }
  /* The number would depend on the size of each region. */
  if (n_samples == 0)
    return rlx_map_unsupported (error, "a sampling_ratio of 0, with which the number of samples depends on data");
  shape = rlx_node_get_shape (x, &n_dims);
  if (n_dims != 4 || shape[2] < 1 || shape[3] < 1)
    return rlx_map_refused (error, "the operand is not [batch, channels, height, width]");
  if (rows < 1 || columns < 1 || n_samples < 0 || rows > 4096 || columns > 4096 || n_samples > 64)
    return rlx_map_refused (error, "%" G_GINT64_FORMAT " · %" G_GINT64_FORMAT " bins of %" G_GINT64_FORMAT "² samples", rows, columns, n_samples);
  height = shape[2];
  width = shape[3];
  type = rlx_node_get_data_type (x);
  shape = rlx_node_get_shape (rois, &n_dims);
  if (n_dims != 2 || shape[1] != 4)
    return rlx_map_refused (error, "regions are not [regions, 4]");
  n = shape[0];

  rois = rlx_map_cast (call, rois, RLX_DATA_TYPE_F32, error);
  xs = get_places (call, column (call, rois, 0, error), column (call, rois, 2, error), columns, n_samples, scale, half, error);
  ys = get_places (call, column (call, rois, 1, error), column (call, rois, 3, error), rows, n_samples, scale, half, error);
  grid = make_grid (call, ys, xs, n, rows * n_samples, columns * n_samples, height, width, error);
  x = rlx_map_op2 (call, "gather", x, which, rlx_map_attrs ("axis", g_variant_new_int64 (0), NULL), error);
  if (grid == NULL || x == NULL)
    return FALSE;
  y = rlx_map_op2 (call, "grid_sample", x, grid, rlx_map_attrs ("padding", g_variant_new_string ("border"), NULL), error);
  mask = binary (call, "mul", reshape (call, is_inside (call, ys, height, error), (gint64[]) { n, 1, rows * n_samples, 1 }, 4, error),
                 reshape (call, is_inside (call, xs, width, error), (gint64[]) { n, 1, 1, columns * n_samples }, 4, error), error);
  y = binary (call, "mul", y, mask != NULL ? rlx_map_cast (call, mask, type, error) : NULL, error);
  if (y == NULL)
    return FALSE;
  window[0] = window[1] = n_samples;
  return rlx_map_return (call, 0, rlx_map_op1 (call, "average_pool", y, rlx_map_attrs ("window", rlx_map_ints (window, 2), "strides", rlx_map_ints (window, 2), NULL), error));
}

/* ---- DeformConv -------------------------------------------------------------------------- */

/* A convolution with sampling positions of its own: first the samples are gathered, those of all filter taps below each other,
 * then a convolution reads them a column at a time. */
gboolean
rlx_onnx_map_deform_conv (RlxMapCall *call,
                          GError    **error)
{
  RlxNode *inputs[5] = { NULL, }, *grid, *columns, *parts[2], *y;
  g_autofree gint64 *kernel = NULL, *strides = NULL, *dilations = NULL, *pads = NULL;
  g_autofree float *places = NULL;
  gint64 x[4], w[4], out[2], groups, offset_groups, n_places, n;
  gsize n_dims, n_given;
  const gint64 *shape;
  RlxDataType type;

  for (guint i = 0; i < 5; i++)
    if ((i < 3 || rlx_map_has_input (call, i)) && (inputs[i] = rlx_map_input (call, i, FALSE, error)) == NULL)
      return FALSE;
  if (!rlx_map_arg_int (call, "group", 1, &groups, error) || !rlx_map_arg_int (call, "offset_group", 1, &offset_groups, error))
    return FALSE;
  shape = rlx_node_get_shape (inputs[0], &n_dims);
  if (n_dims != 4)
    return rlx_map_unsupported (error, "an operand with %" G_GSIZE_FORMAT " dimensions instead of 4", n_dims);
  memcpy (x, shape, sizeof x);
  shape = rlx_node_get_shape (inputs[1], &n_dims);
  if (n_dims != 4 || shape[2] < 1 || shape[3] < 1)
    return rlx_map_refused (error, "the filters are not [filters, channels, height, width]");
  memcpy (w, shape, sizeof w);
  if ((rlx_map_arg (call, "kernel_shape") != NULL && ((kernel = rlx_map_arg_ints (call, "kernel_shape", &n_given, error)) == NULL || n_given != 2 || kernel[0] != w[2] || kernel[1] != w[3])) ||
      (rlx_map_arg (call, "strides") != NULL && ((strides = rlx_map_arg_ints (call, "strides", &n_given, error)) == NULL || n_given != 2)) ||
      (rlx_map_arg (call, "dilations") != NULL && ((dilations = rlx_map_arg_ints (call, "dilations", &n_given, error)) == NULL || n_given != 2)) ||
      (rlx_map_arg (call, "pads") != NULL && ((pads = rlx_map_arg_ints (call, "pads", &n_given, error)) == NULL || n_given != 4)))
    return rlx_map_has_failed (error) ? FALSE : rlx_map_refused (error, "the kernel, strides, dilations or pads do not fit");
  if (offset_groups < 1 || x[1] % offset_groups != 0 || x[2] < 1 || x[3] < 1)
    return rlx_map_refused (error, "%" G_GINT64_FORMAT " groups of offsets for %" G_GINT64_FORMAT " channels", offset_groups, x[1]);
  shape = rlx_node_get_shape (inputs[2], &n_dims);
  n_places = w[2] * w[3];
  if (n_dims != 4 || shape[0] != x[0] || shape[1] != 2 * offset_groups * n_places)
    return rlx_map_refused (error, "the offsets are not [batch, %" G_GINT64_FORMAT ", height, width]", 2 * offset_groups * n_places);
  for (guint i = 0; i < 2; i++)
    {
      gint64 stride = strides != NULL ? strides[i] : 1, dilation = dilations != NULL ? dilations[i] : 1;
      gint64 padding = pads != NULL ? pads[i] + pads[2 + i] : 0, room;

      if (stride < 1 || dilation < 1 || dilation > 4096 || stride > 4096 || (pads != NULL && (pads[i] < 0 || pads[2 + i] < 0 || padding > 1 << 20)))
        return rlx_map_refused (error, "a stride or dilation is below 1, or a pad below 0");
      room = x[2 + i] + padding - dilation * (w[2 + i] - 1) - 1;
      out[i] = room < 0 ? 0 : room / stride + 1;
      if (out[i] < 1 || shape[2 + i] != out[i])
        return rlx_map_refused (error, "the offsets have %" G_GINT64_FORMAT " places along spatial axis %u, the result has %" G_GINT64_FORMAT, shape[2 + i], i, out[i]);
    }
  n = out[0] * out[1];
  if (n_places * n > 1 << 26)
    {
      g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_LIMIT, "there are more than %d places to read", 1 << 26);
      return FALSE;
    }

  /* The sampling positions without offsets: rows, then columns. */
  places = g_new (float, (gsize) (2 * n_places * n));
  for (gint64 k = 0; k < n_places; k++)
    for (gint64 i = 0; i < n; i++)
      for (guint a = 0; a < 2; a++)
        {
          gint64 at = a == 0 ? i / out[1] : i % out[1], tap = a == 0 ? k / w[3] : k % w[3];

          places[(k * 2 + a) * n + i] = (float) (at * (strides != NULL ? strides[a] : 1) - (pads != NULL ? pads[a] : 0) + tap * (dilations != NULL ? dilations[a] : 1));
        }
  type = rlx_node_get_data_type (inputs[0]);
  n = n_places * n;
  grid = rlx_map_cast (call, inputs[2], RLX_DATA_TYPE_F32, error);
  grid = reshape (call, grid, (gint64[]) { x[0] * offset_groups, n_places, 2, out[0] * out[1] }, 4, error);
  grid = binary (call, "add", grid, constant_floats (call, (gint64[]) { 1, n_places, 2, out[0] * out[1] }, 4, places, error), error);
  grid = transpose (call, grid, (gint64[]) { 0, 1, 3, 2 }, 4, error);
  for (guint a = 0; a < 2; a++)
    if ((parts[a] = affine (call, column (call, grid, 1 - (gint64) a, error), 2.0 / (double) x[3 - a], 1.0 / (double) x[3 - a] - 1, error)) == NULL)
      return FALSE;
  grid = rlx_map_op (call, "concat", parts, 2, rlx_map_attrs ("axis", g_variant_new_int64 (3), NULL), error);
  columns = reshape (call, inputs[0], (gint64[]) { x[0] * offset_groups, x[1] / offset_groups, x[2], x[3] }, 4, error);
  columns = binary (call, "grid_sample", columns, grid, error);
  if (inputs[4] != NULL)
    {
      columns = reshape (call, columns, (gint64[]) { x[0] * offset_groups, x[1] / offset_groups, n }, 3, error);
      columns = binary (call, "mul", columns, reshape (call, inputs[4], (gint64[]) { x[0] * offset_groups, 1, n }, 3, error), error);
    }
  columns = reshape (call, columns, (gint64[]) { x[0], x[1], n_places, out[0] * out[1] }, 4, error);
  parts[1] = reshape (call, inputs[1], (gint64[]) { w[0], w[1], n_places, 1 }, 4, error);
  if (columns == NULL || parts[1] == NULL)
    return FALSE;
  if (rlx_node_get_data_type (columns) != type && (columns = rlx_map_cast (call, columns, type, error)) == NULL)
    return FALSE;
  y = rlx_map_op (call, "conv", (RlxNode *[]) { columns, parts[1], inputs[3] }, inputs[3] != NULL ? 3 : 2,
                  rlx_map_attrs ("groups", g_variant_new_int64 (groups), NULL), error);
  return rlx_map_return (call, 0, reshape (call, y, (gint64[]) { x[0], w[0], out[0], out[1] }, 4, error));
}

/* ---- EmbedLayerNormalization ---------------------------------------------------------------- */

gboolean
rlx_ort_map_embed_layer_norm (RlxMapCall *call,
                              GError    **error)
{
  RlxNode *ids = rlx_map_input (call, 0, FALSE, error), *sum, *node;
  RlxNode *scale, *bias;
  const gint64 *shape;
  gint64 batch, steps, mask_type, axis = -1;
  gsize n_dims;
  double epsilon;

  if (ids == NULL || !rlx_map_arg_double (call, "epsilon", 1e-12, &epsilon, error) ||
      !rlx_map_arg_int (call, "mask_index_type", 0, &mask_type, error))
    return FALSE;
  shape = rlx_node_get_shape (ids, &n_dims);
  if (n_dims != 2)
    return rlx_map_refused (error, "the tokens are not [batch, steps]");
  if (mask_type != 0)
    return rlx_map_unsupported (error, "a mask_index_type of %" G_GINT64_FORMAT, mask_type);
  batch = shape[0];
  steps = shape[1];
  if ((node = rlx_map_input (call, 2, FALSE, error)) == NULL)
    return FALSE;
  sum = rlx_map_op2 (call, "gather", node, ids, rlx_map_attrs ("axis", g_variant_new_int64 (0), NULL), error);
  if (sum == NULL || (node = rlx_map_input (call, 3, FALSE, error)) == NULL)
    return FALSE;
  if (rlx_map_has_input (call, 8))
    {
      RlxNode *positions = rlx_map_input (call, 8, FALSE, error);

      node = positions != NULL ? rlx_map_op2 (call, "gather", node, positions, rlx_map_attrs ("axis", g_variant_new_int64 (0), NULL), error) : NULL;
    }
  else
    {
      gint64 start = 0, first = 0;

      node = rlx_map_op1 (call, "slice", node, rlx_map_attrs ("starts", rlx_map_ints (&start, 1), "ends", rlx_map_ints (&steps, 1),
                                                              "axes", rlx_map_ints (&first, 1), NULL), error);
    }
  sum = binary (call, "add", sum, node, error);
  if (sum == NULL)
    return FALSE;
  if (rlx_map_has_input (call, 4) && rlx_map_has_input (call, 1))
    {
      RlxNode *table = rlx_map_input (call, 4, FALSE, error), *segments = table != NULL ? rlx_map_input (call, 1, FALSE, error) : NULL;

      node = segments != NULL ? rlx_map_op2 (call, "gather", table, segments, rlx_map_attrs ("axis", g_variant_new_int64 (0), NULL), error) : NULL;
      if ((sum = binary (call, "add", sum, node, error)) == NULL)
        return FALSE;
    }
  if ((scale = rlx_map_input (call, 5, FALSE, error)) == NULL || (bias = rlx_map_input (call, 6, FALSE, error)) == NULL)
    return FALSE;
  node = rlx_map_op (call, "layer_norm", (RlxNode *[]) { sum, scale, bias }, 3,
                     rlx_map_attrs ("axes", rlx_map_ints (&axis, 1), "epsilon", g_variant_new_double (epsilon), NULL), error);
  if (!rlx_map_return (call, 0, node) || (rlx_map_wants_output (call, 2) && !rlx_map_return (call, 2, sum)))
    return FALSE;
  /* The number of valid tokens in each row. */
  if (rlx_map_has_input (call, 7))
    {
      RlxNode *mask = rlx_map_cast (call, rlx_map_input (call, 7, FALSE, error), RLX_DATA_TYPE_I32, error);

      node = mask != NULL ? rlx_map_op1 (call, "reduce_sum", mask, rlx_map_attrs ("axes", rlx_map_ints (&axis, 1), NULL), error) : NULL;
      return rlx_map_return (call, 1, node);
    }
  if (rlx_map_wants_output (call, 1))
    {
      g_autofree gint64 *zeros = g_new0 (gint64, (gsize) batch + 1);
      g_autoptr(RlxTensor) tensor = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I32, &batch, 1, zeros, (gsize) batch, error);

      return rlx_map_return_tensor (call, 1, tensor);
    }
  return TRUE;
}

/* ---- of the first opsets -------------------------------------------------------------------- */

gboolean
rlx_onnx_map_crop (RlxMapCall *call,
                   GError    **error)
{
  RlxNode *node = rlx_map_input (call, 0, FALSE, error);
  gsize n_border = 0, n_scale = 0, n_dims;
  g_autofree gint64 *border = NULL, *scale = NULL;
  gint64 starts[2], ends[2], axes[] = { 2, 3 };
  const gint64 *shape;

  if (node == NULL || (border = rlx_map_arg_ints (call, "border", &n_border, error)) == NULL ||
      (rlx_map_arg (call, "scale") != NULL && (scale = rlx_map_arg_ints (call, "scale", &n_scale, error)) == NULL))
    return FALSE;
  shape = rlx_node_get_shape (node, &n_dims);
  if (n_dims != 4 || n_border != 4 || (scale != NULL && n_scale != 2))
    return rlx_map_refused (error, "the operand is not an image, or its border not four numbers");
  /* left, top, right, bottom */
  for (guint i = 0; i < 2; i++)
    {
      gint64 first = border[1 - i], last = border[3 - i];

      if (first < 0 || last < 0 || first > shape[2 + i] || last > shape[2 + i] - first || (scale != NULL && (scale[i] < 0 || scale[i] > shape[2 + i] - first)))
        return rlx_map_refused (error, "the border is wider than the image");
      starts[i] = first;
      ends[i] = scale != NULL ? first + scale[i] : shape[2 + i] - last;
    }
  return rlx_map_return (call, 0, rlx_map_op1 (call, "slice", node, rlx_map_attrs ("starts", rlx_map_ints (starts, 2), "ends", rlx_map_ints (ends, 2),
                                                                                   "axes", rlx_map_ints (axes, 2), NULL), error));
}

/* alpha · tanh (beta · x), or alpha · log (1 + exp (beta · x)) */
gboolean
rlx_onnx_map_scaled (RlxMapCall *call,
                     GError    **error)
{
  RlxNode *node = rlx_map_input (call, 0, FALSE, error);
  double alpha, beta;

  if (node == NULL || !rlx_map_arg_double (call, "alpha", 1, &alpha, error) || !rlx_map_arg_double (call, "beta", 1, &beta, error))
    return FALSE;
  node = affine (call, node, beta, 0, error);
  node = node != NULL ? rlx_map_op1 (call, call->row->op, node, NULL, error) : NULL;
  return rlx_map_return (call, 0, affine (call, node, alpha, 0, error));
}
