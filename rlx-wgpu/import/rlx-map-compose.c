/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Operators of ONNX that are several of ours.
 */
#include "config.h"

#include "import/rlx-map-private.h"

#include <math.h>
#include <string.h>

#include "rlx-tensor-private.h"

/* The maximum number of elements of a constant that a mapping makes. */
#define MAX_CONSTANT (1 << 24)

/* Checks that all values of a list are in a range. */
static gboolean
check_range (const char   *what,
             const gint64 *values,
             gsize         n_values,
             gint64        least,
             gint64        greatest,
             GError      **error)
{
  for (gsize i = 0; values != NULL && i < n_values; i++)
    if (values[i] < least || values[i] > greatest)
      return rlx_map_refused (error, "number %" G_GSIZE_FORMAT " of the %s is %" G_GINT64_FORMAT ", not from %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT,
                              i, what, values[i], least, greatest);
  return TRUE;
}

/* Checks that a table of @start · @factors elements is not too large; check_range() has checked the factors. */
static gboolean
check_count (const gint64 *factors,
             gsize         n_factors,
             gint64        start,
             GError      **error)
{
  gint64 product = start;

  for (gsize i = 0; i < n_factors; i++)
    {
      if (factors[i] > 0 && product > MAX_CONSTANT / factors[i])
        {
          g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_LIMIT, "it takes a table of more than %d numbers", MAX_CONSTANT);
          return FALSE;
        }
      product *= factors[i];
    }
  return TRUE;
}

static RlxNode *
constant_floats (RlxMapCall   *call,
                 const gint64 *shape,
                 gsize         n_dims,
                 const float  *values,
                 RlxDataType   data_type,
                 GError      **error)
{
  g_autoptr(RlxTensor) tensor = rlx_map_has_failed (error) ? NULL : rlx_tensor_new_from_floats (shape, n_dims, values, (gsize) rlx_map_product (shape, 0, n_dims), error);
  RlxNode *node = tensor != NULL ? rlx_map_constant (call, tensor, error) : NULL;

  return node != NULL ? rlx_map_cast (call, node, data_type, error) : NULL;
}

static RlxNode *
constant_ints (RlxMapCall   *call,
               RlxDataType   data_type,
               const gint64 *shape,
               gsize         n_dims,
               const gint64 *values,
               GError      **error)
{
  g_autoptr(RlxTensor) tensor = rlx_map_has_failed (error) ? NULL : rlx_tensor_new_from_ints (data_type, shape, n_dims, values, (gsize) rlx_map_product (shape, 0, n_dims), error);

  return tensor != NULL ? rlx_map_constant (call, tensor, error) : NULL;
}

/* Returns NULL after an earlier failure as well, so that calls can be written side by side. */
static RlxNode *
constant_number (RlxMapCall *call,
                 RlxDataType data_type,
                 double      value,
                 GError    **error)
{
  g_autoptr(RlxTensor) tensor = rlx_map_has_failed (error) ? NULL : rlx_tensor_new_scalar (data_type, value, error);

  return tensor != NULL ? rlx_map_constant (call, tensor, error) : NULL;
}

/* Returns NULL if an operand is NULL after an earlier failure. */
static RlxNode *
apply (RlxMapCall *call,
       const char *op,
       RlxNode    *a,
       RlxNode    *b,
       GVariant   *attrs,
       GError    **error)
{
  if (a == NULL || b == NULL)
    {
      if (attrs != NULL)
        g_variant_unref (g_variant_ref_sink (attrs));
      return NULL;
    }
  return rlx_map_op2 (call, op, a, b, attrs, error);
}

static RlxNode *
choose (RlxMapCall *call,
        RlxNode    *condition,
        RlxNode    *a,
        RlxNode    *b,
        GError    **error)
{
  if (condition == NULL || a == NULL || b == NULL)
    return NULL;
  return rlx_map_op (call, "where", (RlxNode *[]) { condition, a, b }, 3, NULL, error);
}

static RlxNode *
expand_to (RlxMapCall   *call,
           RlxNode      *node,
           const gint64 *shape,
           gsize         n_dims,
           GError      **error)
{
  return node != NULL ? rlx_map_op1 (call, "expand", node, rlx_map_attrs ("shape", rlx_map_ints (shape, n_dims), NULL), error) : NULL;
}

static RlxNode *
sum_over (RlxMapCall   *call,
          RlxNode      *node,
          const gint64 *axes,
          gsize         n_axes,
          GError      **error)
{
  return node != NULL ? rlx_map_op1 (call, "reduce_sum", node, rlx_map_attrs ("axes", rlx_map_ints (axes, n_axes), NULL), error) : NULL;
}

/* 0, 1, 2, … */
static RlxNode *
count_up (RlxMapCall *call,
          RlxDataType data_type,
          gint64      n,
          GError    **error)
{
  g_autofree gint64 *values = NULL;

  if (rlx_map_has_failed (error))
    return NULL;
  if (n > MAX_CONSTANT)
    {
      g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_LIMIT, "it takes a table of %" G_GINT64_FORMAT " numbers, more than %d", n, MAX_CONSTANT);
      return NULL;
    }
  values = g_new (gint64, n + 1);
  for (gint64 i = 0; i < n; i++)
    values[i] = i;
  return constant_ints (call, data_type, &n, 1, values, error);
}

/* ---- element-wise ------------------------------------------------------------------ */

gboolean
rlx_onnx_map_shrink (RlxMapCall *call,
                     GError    **error)
{
  RlxNode *x = rlx_map_input (call, 0, FALSE, error);
  RlxNode *limit, *below, *above, *bias_node, *zero;
  RlxDataType data_type;
  double bias, lambda;

  if (x == NULL || !rlx_map_arg_double (call, "bias", 0, &bias, error) || !rlx_map_arg_double (call, "lambd", 0.5, &lambda, error))
    return FALSE;
  data_type = rlx_node_get_data_type (x);
  bias_node = constant_number (call, data_type, bias, error);
  zero = constant_number (call, data_type, 0, error);
  limit = constant_number (call, data_type, lambda, error);
  above = apply (call, "greater", x, limit, NULL, error);
  limit = constant_number (call, data_type, -lambda, error);
  below = apply (call, "less", x, limit, NULL, error);
  return rlx_map_return (call, 0, choose (call, below, apply (call, "add", x, bias_node, NULL, error),
                                          choose (call, above, apply (call, "sub", x, bias_node, NULL, error), zero, error), error));
}

/* ---- values that follow from shapes --------------------------------------------------- */

gboolean
rlx_onnx_map_eye_like (RlxMapCall *call,
                       GError    **error)
{
  RlxNode *x = rlx_map_input (call, 0, FALSE, error);
  const gint64 *shape;
  RlxNode *rows, *columns, *one, *zero;
  RlxDataType data_type;
  gsize n_dims;
  gint64 k;

  if (x == NULL ||
      !rlx_map_arg_int (call, "k", 0, &k, error) ||
      !rlx_map_arg_data_type (call, "dtype", rlx_node_get_data_type (x), &data_type, error))
    return FALSE;
  shape = rlx_node_get_shape (x, &n_dims);
  if (n_dims != 2)
    return rlx_map_refused (error, "EyeLike: the operand has %" G_GSIZE_FORMAT " dimensions", n_dims);

  rows = count_up (call, RLX_DATA_TYPE_I32, shape[0], error);
  if (rows != NULL)
    rows = rlx_map_reshape (call, rows, (gint64[]) { shape[0], 1 }, 2, error);
  rows = apply (call, "add", rows, constant_number (call, RLX_DATA_TYPE_I32, (double) k, error), NULL, error);
  columns = count_up (call, RLX_DATA_TYPE_I32, shape[1], error);
  one = constant_number (call, data_type, 1, error);
  zero = constant_number (call, data_type, 0, error);
  return rlx_map_return (call, 0, choose (call, apply (call, "equal", rows, columns, NULL, error), one, zero, error));
}

/* a0 - a1 cos (2πn / N) + a2 cos (4πn / N) */
gboolean
rlx_onnx_map_window (RlxMapCall *call,
                     GError    **error)
{
  static const struct
  {
    const char *name;
    double a[3];
  } windows[] = {
    { "HannWindow", { 0.5, 0.5, 0 } },
    { "HammingWindow", { 25.0 / 46.0, 21.0 / 46.0, 0 } },
    { "BlackmanWindow", { 0.42, 0.5, 0.08 } },
  };
  g_autofree gint64 *size = NULL;
  RlxDataType data_type;
  RlxNode *n, *sum = NULL;
  gboolean periodic;
  gsize n_values;

  size = rlx_map_input_ints (call, 0, &n_values, error);
  if (size == NULL ||
      !rlx_map_arg_bool (call, "periodic", TRUE, &periodic, error) ||
      !rlx_map_arg_data_type (call, "output_datatype", RLX_DATA_TYPE_F32, &data_type, error))
    return FALSE;
  if (n_values != 1 || size[0] < 0 || size[0] > 1 << 24)
    return rlx_map_refused (error, "%s: the size is not one number from 0 to %d", call->node->op, 1 << 24);

  n = count_up (call, RLX_DATA_TYPE_I32, size[0], error);
  if (n != NULL)
    n = rlx_map_cast (call, n, RLX_DATA_TYPE_F32, error);
  for (guint i = 0; i < G_N_ELEMENTS (windows); i++)
    {
      double step = 2 * G_PI / (double) MAX (periodic ? size[0] : size[0] - 1, 1);

      if (!g_str_equal (windows[i].name, call->node->op))
        continue;
      for (guint k = 1; n != NULL && k < 3 && windows[i].a[k] != 0; k++)
        {
          RlxNode *wave = rlx_map_op1 (call, "affine", n, rlx_map_attrs ("alpha", g_variant_new_double (k * step), NULL), error);

          if (wave != NULL)
            wave = rlx_map_op1 (call, "cos", wave, NULL, error);
          if (wave != NULL)
            wave = rlx_map_op1 (call, "affine", wave,
                                rlx_map_attrs ("alpha", g_variant_new_double (k == 1 ? -windows[i].a[1] : windows[i].a[2]),
                                               "beta", g_variant_new_double (k == 1 ? windows[i].a[0] : 0), NULL), error);
          sum = k == 1 ? wave : apply (call, "add", sum, wave, NULL, error);
          if (sum == NULL)
            return FALSE;
        }
    }
  return sum != NULL && rlx_map_return (call, 0, rlx_map_cast (call, sum, data_type, error));
}

/* ---- images ------------------------------------------------------------------------- */

gboolean
rlx_onnx_map_affine_grid (RlxMapCall *call,
                          GError    **error)
{
  RlxNode *theta = rlx_map_input (call, 0, FALSE, error);
  g_autofree gint64 *size = NULL;
  g_autofree float *base = NULL;
  gboolean corners;
  gsize n, spatial;
  gint64 points, result[5];
  RlxNode *grid;

  if (theta == NULL || (size = rlx_map_input_ints (call, 1, &n, error)) == NULL ||
      !rlx_map_arg_bool (call, "align_corners", FALSE, &corners, error))
    return FALSE;
  if (n != 4 && n != 5)
    return rlx_map_refused (error, "AffineGrid: the size has %" G_GSIZE_FORMAT " numbers", n);
  if (!check_range ("size", size, n, 1, G_MAXINT32, error) || !check_count (size + 2, n - 2, (gint64) n - 1, error))
    return FALSE;

  /* the coordinates of all points, from the last axis to the first, then 1 */
  spatial = n - 2;
  points = rlx_map_product (size, 2, n);
  base = g_new (float, (gsize) points * (spatial + 1) + 1);
  for (gint64 i = 0; i < points; i++)
    {
      gint64 rest = i;

      for (gsize a = 0; a < spatial; a++)
        {
          gint64 dim = size[n - 1 - a], place = rest % dim;

          rest /= dim;
          base[(gsize) i * (spatial + 1) + a] = (float) (corners ? (dim > 1 ? 2.0 * (double) place / (double) (dim - 1) - 1 : -1)
                                                                 : (2.0 * (double) place + 1) / (double) dim - 1);
        }
      base[(gsize) i * (spatial + 1) + spatial] = 1;
    }
  grid = constant_floats (call, (gint64[]) { points, (gint64) spatial + 1 }, 2, base, rlx_node_get_data_type (theta), error);
  grid = apply (call, "matmul", grid, theta, rlx_map_attrs ("transpose_b", g_variant_new_boolean (TRUE), NULL), error);
  if (grid == NULL)
    return FALSE;
  result[0] = size[0];
  memcpy (result + 1, size + 2, spatial * sizeof (gint64));
  result[spatial + 1] = (gint64) spatial;
  return rlx_map_return (call, 0, rlx_map_reshape (call, grid, result, n, error));
}

gboolean
rlx_onnx_map_center_crop_pad (RlxMapCall *call,
                              GError    **error)
{
  RlxNode *node = rlx_map_input (call, 0, FALSE, error);
  g_autofree gint64 *sizes = NULL, *axes = NULL, *shape = NULL, *starts = NULL, *ends = NULL, *before = NULL, *after = NULL;
  gsize n_sizes, n_axes = 0, n_dims;

  if (node == NULL || (sizes = rlx_map_input_ints (call, 1, &n_sizes, error)) == NULL)
    return FALSE;
  if (rlx_map_arg (call, "axes") != NULL && (axes = rlx_map_arg_ints (call, "axes", &n_axes, error)) == NULL)
    return FALSE;
  shape = rlx_map_copy_shape (node, &n_dims);
  if (n_sizes != (axes != NULL ? n_axes : n_dims))
    return rlx_map_refused (error, "CenterCropPad: there are %" G_GSIZE_FORMAT " sizes", n_sizes);

  starts = g_new0 (gint64, n_dims + 1);
  ends = g_memdup2 (shape, (n_dims + 1) * sizeof (gint64));
  before = g_new0 (gint64, n_dims + 1);
  after = g_new0 (gint64, n_dims + 1);
  for (gsize i = 0; i < n_sizes; i++)
    {
      gsize axis;

      if (n_dims == 0 || !rlx_map_normalise_axis (call, axes != NULL ? axes[i] : (gint64) i, n_dims, n_dims - 1, &axis, error))
        return FALSE;
      /* an odd element goes to the end */
      if (sizes[i] < shape[axis])
        {
          starts[axis] = (shape[axis] - sizes[i]) / 2;
          ends[axis] = starts[axis] + sizes[i];
        }
      else
        {
          before[axis] = (sizes[i] - shape[axis]) / 2;
          after[axis] = sizes[i] - shape[axis] - before[axis];
        }
    }
  node = rlx_map_op1 (call, "slice", node, rlx_map_attrs ("starts", rlx_map_ints (starts, n_dims), "ends", rlx_map_ints (ends, n_dims), NULL), error);
  return node != NULL && rlx_map_return (call, 0, rlx_map_op1 (call, "pad", node,
                                                               rlx_map_attrs ("before", rlx_map_ints (before, n_dims), "after", rlx_map_ints (after, n_dims), NULL),
                                                               error));
}

/* Adds the elements of each column at their positions: a transposed convolution with one-hot filters. */
gboolean
rlx_onnx_map_col2im (RlxMapCall *call,
                     GError    **error)
{
  RlxNode *x = rlx_map_input (call, 0, FALSE, error), *filter;
  g_autofree gint64 *image = NULL, *block = NULL, *strides = NULL, *dilations = NULL, *pads = NULL;
  g_autofree gint64 *shape = NULL, *padding = NULL, *split = NULL, *filter_shape = NULL;
  g_autofree float *ones = NULL;
  gsize n, n_block, n_given, n_dims;
  gint64 volume, channels;

  if (x == NULL || (image = rlx_map_input_ints (call, 1, &n, error)) == NULL ||
      (block = rlx_map_input_ints (call, 2, &n_block, error)) == NULL)
    return FALSE;
  if (rlx_map_arg (call, "strides") != NULL && ((strides = rlx_map_arg_ints (call, "strides", &n_given, error)) == NULL || n_given != n))
    return FALSE;
  if (rlx_map_arg (call, "dilations") != NULL && ((dilations = rlx_map_arg_ints (call, "dilations", &n_given, error)) == NULL || n_given != n))
    return FALSE;
  if (rlx_map_arg (call, "pads") != NULL && ((pads = rlx_map_arg_ints (call, "pads", &n_given, error)) == NULL || n_given != 2 * n))
    return FALSE;
  shape = rlx_map_copy_shape (x, &n_dims);
  if (n_dims != 3 || n != n_block || n < 1 || !check_range ("block", block, n_block, 1, 1 << 16, error) ||
      !check_count (block, n_block, MAX (shape[1], 1), error))
    return rlx_map_has_failed (error) ? FALSE : rlx_map_refused (error, "Col2Im: the operand does not fit the block");
  volume = rlx_map_product (block, 0, n_block);
  if ( shape[1] % volume != 0)
    return rlx_map_refused (error, "Col2Im: the operand does not fit the block");
  if (!check_range ("block", block, n, 1, 1 << 16, error) || !check_range ("size", image, n, 1, 1 << 24, error) ||
      !check_range ("strides", strides, n, 1, 1 << 16, error) || !check_range ("dilations", dilations, n, 1, 1 << 16, error) ||
      !check_range ("pads", pads, 2 * n, 0, 1 << 24, error))
    return FALSE;
  if (n > 3)
    return rlx_map_unsupported (error, "Col2Im with %" G_GSIZE_FORMAT " axes", n);

  channels = shape[1] / volume;
  split = g_new (gint64, n + 2);
  filter_shape = g_new (gint64, n + 2);
  padding = g_new (gint64, 2 * n);
  split[0] = shape[0];
  split[1] = shape[1];
  filter_shape[0] = shape[1];
  filter_shape[1] = 1;
  if (strides == NULL || dilations == NULL)
    {
      gint64 *list = g_new (gint64, n);

      for (gsize i = 0; i < n; i++)
        list[i] = 1;
      if (strides == NULL)
        strides = g_memdup2 (list, n * sizeof (gint64));
      if (dilations == NULL)
        dilations = g_memdup2 (list, n * sizeof (gint64));
      g_free (list);
    }
  for (gsize i = 0; i < n; i++)
    {
      padding[2 * i] = pads != NULL ? pads[i] : 0;
      padding[2 * i + 1] = pads != NULL ? pads[n + i] : 0;
      filter_shape[2 + i] = block[i];
      split[2 + i] = (image[i] + padding[2 * i] + padding[2 * i + 1] - dilations[i] * (block[i] - 1) - 1) / strides[i] + 1;
    }
  ones = g_new0 (float, (gsize) (shape[1] * volume) + 1);
  for (gint64 i = 0; i < shape[1]; i++)
    ones[i * volume + i % volume] = 1;
  filter = constant_floats (call, filter_shape, n + 2, ones, rlx_node_get_data_type (x), error);
  x = rlx_map_reshape (call, x, split, n + 2, error);
  return rlx_map_return (call, 0, apply (call, "conv_transpose", x, filter,
                                         rlx_map_attrs ("groups", g_variant_new_int64 (channels),
                                                        "strides", rlx_map_ints (strides, n),
                                                        "dilations", rlx_map_ints (dilations, n),
                                                        "padding", rlx_map_ints (padding, 2 * n),
                                                        "output_sizes", rlx_map_ints (image, n), NULL),
                                         error));
}

/* Indices are flat positions in the result before it is enlarged to the requested shape. */
gboolean
rlx_onnx_map_max_unpool (RlxMapCall *call,
                         GError    **error)
{
  RlxNode *x = rlx_map_input (call, 0, FALSE, error), *indices = x != NULL ? rlx_map_input (call, 1, FALSE, error) : NULL;
  g_autofree gint64 *shape = NULL, *kernel = NULL, *strides = NULL, *pads = NULL, *wanted = NULL, *after = NULL, *before = NULL;
  gsize n_dims, n = 0, n_strides = 0, n_pads = 0, n_wanted = 0;
  gint64 n_from, n_to;
  guint64 n_elements;
  RlxNode *y;

  if (indices == NULL || (kernel = rlx_map_arg_ints (call, "kernel_shape", &n, error)) == NULL)
    return FALSE;
  if ((rlx_map_arg (call, "strides") != NULL && (strides = rlx_map_arg_ints (call, "strides", &n_strides, error)) == NULL) ||
      (rlx_map_arg (call, "pads") != NULL && (pads = rlx_map_arg_ints (call, "pads", &n_pads, error)) == NULL) ||
      (rlx_map_has_input (call, 2) && (wanted = rlx_map_input_ints (call, 2, &n_wanted, error)) == NULL))
    return FALSE;
  shape = rlx_map_copy_shape (x, &n_dims);
  if (n_dims != n + 2 || (strides != NULL && n_strides != n) || (pads != NULL && n_pads != 2 * n) || (wanted != NULL && n_wanted != n_dims))
    return rlx_map_refused (error, "MaxUnpool: the attributes do not fit %" G_GSIZE_FORMAT " dimensions", n_dims);

  if (!check_range ("strides", strides, n, 1, 1 << 16, error) || !check_range ("kernel_shape", kernel, n, 1, 1 << 16, error) ||
      !check_range ("pads", pads, 2 * n, 0, 1 << 16, error) || !check_range ("shape", wanted, n_dims, 0, G_MAXUINT32, error))
    return FALSE;
  n_from = rlx_map_product (shape, 0, n_dims);
  for (gsize i = 0; i < n; i++)
    shape[i + 2] = (shape[i + 2] - 1) * (strides != NULL ? strides[i] : 1) + kernel[i] - (pads != NULL ? pads[i] + pads[n + i] : 0);
  if (!rlx_shape_n_elements (shape, n_dims, &n_elements, error))
    return FALSE;
  n_to = (gint64) n_elements;
  x = rlx_map_reshape (call, x, &n_from, 1, error);
  indices = x != NULL ? rlx_map_reshape (call, indices, &n_from, 1, error) : NULL;
  y = indices != NULL ? expand_to (call, constant_number (call, rlx_node_get_data_type (x), 0, error), &n_to, 1, error) : NULL;
  if (y != NULL)
    y = rlx_map_op (call, "scatter_elements", (RlxNode *[]) { y, indices, x }, 3, rlx_map_attrs ("axis", g_variant_new_int64 (0), NULL), error);
  if (y != NULL)
    y = rlx_map_reshape (call, y, shape, n_dims, error);
  if (y == NULL || wanted == NULL)
    return rlx_map_return (call, 0, y);

  before = g_new0 (gint64, n_dims);
  after = g_new0 (gint64, n_dims);
  for (gsize i = 0; i < n_dims; i++)
    after[i] = wanted[i] - shape[i];
  return rlx_map_return (call, 0, rlx_map_op1 (call, "pad", y,
                                               rlx_map_attrs ("before", rlx_map_ints (before, n_dims), "after", rlx_map_ints (after, n_dims), NULL), error));
}

/* ---- sequences ------------------------------------------------------------------------ */

/* A vector along one of @rank axes. */
static RlxNode *
lay_along (RlxMapCall *call,
           RlxNode    *vector,
           gsize       axis,
           gsize       n_dims,
           GError    **error)
{
  g_autofree gint64 *shape = g_new (gint64, n_dims + 1);
  gsize n;

  if (vector == NULL)
    return NULL;
  for (gsize i = 0; i < n_dims; i++)
    shape[i] = i == axis ? rlx_node_get_shape (vector, &n)[0] : 1;
  return rlx_map_reshape (call, vector, shape, n_dims, error);
}

gboolean
rlx_onnx_map_reverse_sequence (RlxMapCall *call,
                               GError    **error)
{
  RlxNode *x = rlx_map_input (call, 0, FALSE, error), *lengths = x != NULL ? rlx_map_input (call, 1, FALSE, error) : NULL;
  g_autofree gint64 *shape = NULL;
  RlxNode *times, *last, *turned, *indices;
  gint64 batch_argument, time_argument;
  gsize n_dims, batch, time;

  if (lengths == NULL ||
      !rlx_map_arg_int (call, "batch_axis", 1, &batch_argument, error) ||
      !rlx_map_arg_int (call, "time_axis", 0, &time_argument, error))
    return FALSE;
  shape = rlx_map_copy_shape (x, &n_dims);
  if (n_dims < 2 ||
      !rlx_map_normalise_axis (call, batch_argument, n_dims, n_dims - 1, &batch, error) ||
      !rlx_map_normalise_axis (call, time_argument, n_dims, n_dims - 1, &time, error))
    return FALSE;

  times = lay_along (call, count_up (call, RLX_DATA_TYPE_I32, shape[time], error), time, n_dims, error);
  lengths = rlx_map_cast (call, lengths, RLX_DATA_TYPE_I32, error);
  lengths = lay_along (call, lengths, batch, n_dims, error);
  last = apply (call, "sub", lengths, constant_number (call, RLX_DATA_TYPE_I32, 1, error), NULL, error);
  turned = apply (call, "sub", last, times, NULL, error);
  indices = choose (call, apply (call, "less", times, lengths, NULL, error), turned, times, error);
  indices = expand_to (call, indices, shape, n_dims, error);
  return rlx_map_return (call, 0, apply (call, "gather_elements", x, indices,
                                         rlx_map_attrs ("axis", g_variant_new_int64 ((gint64) time), NULL), error));
}

/* A cache with new elements from a given position for each batch, possibly wrapping around at its end. */
gboolean
rlx_onnx_map_tensor_scatter (RlxMapCall *call,
                             GError    **error)
{
  RlxNode *cache = rlx_map_input (call, 0, FALSE, error), *update = cache != NULL ? rlx_map_input (call, 1, FALSE, error) : NULL;
  const char *mode = rlx_map_arg_string (call, "mode", NULL);
  g_autofree gint64 *shape = NULL, *new_shape = NULL;
  RlxNode *places, *starts;
  gint64 argument;
  gsize n_dims, axis;

  if (update == NULL || !rlx_map_arg_int (call, "axis", -2, &argument, error))
    return FALSE;
  shape = rlx_map_copy_shape (cache, &n_dims);
  new_shape = rlx_map_copy_shape (update, &n_dims);
  if (n_dims < 2 || !rlx_map_normalise_axis (call, argument, n_dims, n_dims - 1, &axis, error))
    return FALSE;

  places = lay_along (call, count_up (call, RLX_DATA_TYPE_I32, new_shape[axis], error), axis, n_dims, error);
  if (rlx_map_has_input (call, 2))
    {
      starts = rlx_map_input (call, 2, FALSE, error);
      starts = starts != NULL ? rlx_map_cast (call, starts, RLX_DATA_TYPE_I32, error) : NULL;
      places = apply (call, "add", lay_along (call, starts, 0, n_dims, error), places, NULL, error);
    }
  if (g_strcmp0 (mode, "circular") == 0)
    places = apply (call, "mod", places, constant_number (call, RLX_DATA_TYPE_I32, (double) shape[axis], error), NULL, error);
  places = expand_to (call, places, new_shape, n_dims, error);
  if (places == NULL)
    return FALSE;
  return rlx_map_return (call, 0, rlx_map_op (call, "scatter_elements", (RlxNode *[]) { cache, places, update }, 3,
                                              rlx_map_attrs ("axis", g_variant_new_int64 ((gint64) axis), NULL), error));
}

/* ---- losses -------------------------------------------------------------------------- */

/* -w[t] · x[n, t, …], summed or divided by the sum of the weights. */
static RlxNode *
negative_log_likelihood (RlxMapCall *call,
                         RlxNode    *x,
                         RlxNode    *target,
                         RlxNode    *weight,
                         GError    **error)
{
  const char *reduction = rlx_map_arg_string (call, "reduction", NULL);
  RlxDataType data_type = rlx_node_get_data_type (x);
  g_autofree gint64 *shape = NULL, *picked_shape = NULL, *axes = NULL;
  RlxNode *picked, *loss, *weights, *ignored = NULL;
  gsize n_dims, n;
  gint64 ignore = 0;

  shape = rlx_map_copy_shape (target, &n_dims);
  picked_shape = rlx_map_copy_shape (x, &n);
  if (n != n_dims + 1 || n < 2)
    {
      rlx_map_refused (error, "%s: the operands do not fit together", call->node->op);
      return NULL;
    }
  picked_shape[1] = 1;
  axes = g_new (gint64, n_dims + 1);
  for (gsize i = 0; i < n_dims; i++)
    axes[i] = (gint64) i;

  target = rlx_map_cast (call, target, RLX_DATA_TYPE_I32, error);
  if (rlx_map_arg (call, "ignore_index") != NULL)
    {
      RlxNode *zero = constant_number (call, RLX_DATA_TYPE_I32, 0, error);

      if (!rlx_map_arg_int (call, "ignore_index", 0, &ignore, error))
        return NULL;
      ignored = apply (call, "equal", target, constant_number (call, RLX_DATA_TYPE_I32, (double) ignore, error), NULL, error);
      target = choose (call, ignored, zero, target, error);
    }
  picked = target != NULL ? rlx_map_reshape (call, target, picked_shape, n, error) : NULL;
  picked = apply (call, "gather_elements", x, picked, rlx_map_attrs ("axis", g_variant_new_int64 (1), NULL), error);
  loss = picked != NULL ? rlx_map_reshape (call, picked, shape, n_dims, error) : NULL;
  loss = loss != NULL ? rlx_map_op1 (call, "neg", loss, NULL, error) : NULL;

  if (weight != NULL)
    weights = apply (call, "gather", weight, target, rlx_map_attrs ("axis", g_variant_new_int64 (0), NULL), error);
  else
    weights = expand_to (call, constant_number (call, data_type, 1, error), shape, n_dims, error);
  if (ignored != NULL)
    weights = choose (call, ignored, constant_number (call, data_type, 0, error), weights, error);
  /* an ignored loss is 0 even if it is infinite */
  if (ignored != NULL)
    loss = choose (call, ignored, constant_number (call, data_type, 0, error), loss, error);
  loss = apply (call, "mul", loss, weights, NULL, error);
  if (loss == NULL || g_strcmp0 (reduction, "none") == 0)
    return loss;

  loss = sum_over (call, loss, axes, n_dims, error);
  if (g_strcmp0 (reduction, "sum") == 0)
    return loss;
  return apply (call, "div", loss, sum_over (call, weights, axes, n_dims, error), NULL, error);
}

gboolean
rlx_onnx_map_loss (RlxMapCall *call,
                   GError    **error)
{
  RlxNode *x = rlx_map_input (call, 0, FALSE, error), *target = x != NULL ? rlx_map_input (call, 1, FALSE, error) : NULL;
  RlxNode *weight = NULL;

  if (target == NULL || (rlx_map_has_input (call, 2) && (weight = rlx_map_input (call, 2, FALSE, error)) == NULL))
    return FALSE;
  if (g_str_equal (call->node->op, "SoftmaxCrossEntropyLoss"))
    {
      x = rlx_map_op1 (call, "log_softmax", x, rlx_map_attrs ("axis", g_variant_new_int64 (1), NULL), error);
      if (x == NULL || (rlx_map_wants_output (call, 1) && !rlx_map_return (call, 1, x)))
        return FALSE;
    }
  return rlx_map_return (call, 0, negative_log_likelihood (call, x, target, weight, error));
}

/* ---- products -------------------------------------------------------------------------- */

/* “transBatchA” and “transBatchB” move the first dimension behind the other batch dimensions. */
static RlxNode *
turn_batch (RlxMapCall *call,
            RlxNode    *node,
            GError    **error)
{
  gint64 permutation[RLX_MAX_DIMS];
  gsize n_dims = rlx_node_get_n_dims (node);

  if (n_dims < 2)
    return node;
  for (gsize i = 0; i + 2 < n_dims; i++)
    permutation[i] = (gint64) i + 1;
  permutation[n_dims - 2] = 0;
  permutation[n_dims - 1] = (gint64) n_dims - 1;
  return rlx_map_op1 (call, "transpose", node, rlx_map_attrs ("permutation", rlx_map_ints (permutation, n_dims), NULL), error);
}

gboolean
rlx_onnx_map_fused_matmul (RlxMapCall *call,
                           GError    **error)
{
  RlxNode *a = rlx_map_input (call, 0, FALSE, error), *b = a != NULL ? rlx_map_input (call, 1, FALSE, error) : NULL, *y;
  gboolean trans_a, trans_b, batch_a, batch_b;
  double alpha;

  if (b == NULL ||
      !rlx_map_arg_bool (call, "transA", FALSE, &trans_a, error) ||
      !rlx_map_arg_bool (call, "transB", FALSE, &trans_b, error) ||
      !rlx_map_arg_bool (call, "transBatchA", FALSE, &batch_a, error) ||
      !rlx_map_arg_bool (call, "transBatchB", FALSE, &batch_b, error) ||
      !rlx_map_arg_double (call, "alpha", 1, &alpha, error))
    return FALSE;
  if (batch_a)
    a = turn_batch (call, a, error);
  if (batch_b && a != NULL)
    b = turn_batch (call, b, error);
  /* vectors have nothing to transpose */
  trans_a = trans_a && a != NULL && rlx_node_get_n_dims (a) > 1;
  trans_b = trans_b && b != NULL && rlx_node_get_n_dims (b) > 1;
  y = apply (call, "matmul", a, b, rlx_map_attrs ("transpose_a", g_variant_new_boolean (trans_a),
                                                  "transpose_b", g_variant_new_boolean (trans_b), NULL), error);
  if (y != NULL && alpha != 1)
    y = rlx_map_op1 (call, "affine", y, rlx_map_attrs ("alpha", g_variant_new_double (alpha), NULL), error);
  return rlx_map_return (call, 0, y);
}
