/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "import/rlx-map-private.h"

#include <math.h>
#include <string.h>


/* An ONNX keyword and its name here; a list ends with NULL. */
typedef struct
{
  const char *theirs;
  const char *ours;
} Word;

/* NULL with an error if there is no such keyword. */
static const char *
find_word (RlxMapCall *call,
           const char *name,
           const Word *words,
           const char *fallback,
           GError    **error)
{
  const char *word;

  if (rlx_map_arg (call, name) == NULL)
    return fallback;
  word = rlx_map_arg_string (call, name, error);
  if (word == NULL)
    return NULL;
  for (; words->theirs != NULL; words++)
    if (g_str_equal (words->theirs, word))
      return words->ours;
  rlx_map_refused (error, "%s: “%s” is no %s", call->node->op, word, name);
  return NULL;
}

/* Adds an operator and returns as many of its results as the node has outputs. */
static gboolean
return_all (RlxMapCall *call,
            const char *op,
            RlxNode    *input,
            GVariant   *attrs,
            GError    **error)
{
  g_autoptr(GVariant) sunk = g_variant_ref_sink (attrs);
  g_autofree RlxNode **results = NULL;
  gsize n_results = 0;
  guint n_wanted = call->node->n_outputs;

  results = rlx_map_add_op (call, op, &input, 1, sunk, &n_results, error);
  if (results == NULL)
    return FALSE;
  if (n_results < n_wanted)
    return rlx_map_refused (error, "%s: there are %" G_GSIZE_FORMAT " results instead of %u", call->node->op, n_results, n_wanted);
  for (guint i = 0; i < n_wanted; i++)
    if (!rlx_map_return (call, i, results[i]))
      return FALSE;
  return TRUE;
}

static RlxNode *
constant_floats (RlxMapCall   *call,
                 const double *values,
                 gsize         n,
                 GError      **error)
{
  g_autofree float *floats = g_new0 (float, n + 1);
  g_autoptr(RlxTensor) tensor = NULL;

  for (gsize i = 0; i < n; i++)
    floats[i] = (float) values[i];
  tensor = rlx_tensor_new_from_floats ((gint64[]) { (gint64) n }, 1, floats, n, error);
  return tensor != NULL ? rlx_map_constant (call, tensor, error) : NULL;
}

/* ---- ONNX -------------------------------------------------------------------------- */

gboolean
rlx_onnx_map_split (RlxMapCall *call,
                    GError    **error)
{
  RlxNode *node = rlx_map_input (call, 0, FALSE, error);
  g_autofree gint64 *sizes = NULL;
  const gint64 *shape;
  gint64 axis, parts;
  gsize n_dims, place, n;
  gboolean present;

  if (node == NULL || !rlx_map_arg_int (call, "axis", 0, &axis, error) ||
      !rlx_map_get_ints (call, "split", 1, &sizes, &n, &present, error))
    return FALSE;
  shape = rlx_node_get_shape (node, &n_dims);
  if (!rlx_map_normalise_axis (call, axis, n_dims, n_dims > 0 ? n_dims - 1 : 0, &place, error))
    return FALSE;
  if (n_dims == 0)
    return rlx_map_refused (error, "Split: the operand has no dimensions");
  if (!present)
    {
      if (!rlx_map_arg_int (call, "num_outputs", (gint64) call->node->n_outputs, &parts, error))
        return FALSE;
      if (parts < 1 || parts > 1024)
        return rlx_map_refused (error, "Split: into %" G_GINT64_FORMAT " parts", parts);
      /* the last part is smaller if the size is not divisible */
      n = (gsize) parts;
      sizes = g_new (gint64, n);
      for (gsize i = 0; i < n; i++)
        {
          gint64 size = (shape[place] + parts - 1) / parts;

          sizes[i] = CLAMP (shape[place] - (gint64) i * size, 0, size);
        }
    }
  return return_all (call, "split", node,
                     rlx_map_attrs ("axis", g_variant_new_int64 (axis), "sizes", rlx_map_ints (sizes, n), NULL), error);
}

gboolean
rlx_onnx_map_pad (RlxMapCall *call,
                  GError    **error)
{
  static const Word modes[] = { { "constant", "constant" }, { "edge", "edge" }, { "reflect", "reflect" }, { "wrap", "wrap" }, { NULL, NULL } };
  RlxNode *node = rlx_map_input (call, 0, FALSE, error);
  RlxNode *value = NULL;
  g_autofree gint64 *pads = NULL;
  g_autofree gint64 *axes = NULL;
  g_autofree gint64 *both = NULL;
  const char *mode;
  gsize n_dims, n_pads, n_axes = 0;
  gboolean present;

  if (node == NULL ||
      (mode = find_word (call, "mode", modes, "constant", error)) == NULL ||
      !rlx_map_get_ints (call, rlx_map_arg (call, "paddings") != NULL ? "paddings" : "pads", 1, &pads, &n_pads, &present, error))
    return FALSE;
  if (!present)
    return rlx_map_refused (error, "Pad: there are no pads");
  if (rlx_map_has_input (call, 3) && (axes = rlx_map_input_ints (call, 3, &n_axes, error)) == NULL && n_axes > 0)
    return FALSE;
  rlx_node_get_shape (node, &n_dims);
  if (n_pads != 2 * (axes != NULL ? n_axes : n_dims))
    return rlx_map_refused (error, "Pad: there are %" G_GSIZE_FORMAT " pads for %" G_GSIZE_FORMAT " axes",
                            n_pads, axes != NULL ? n_axes : n_dims);
  both = g_new0 (gint64, 2 * n_dims + 1);
  for (gsize i = 0; i < n_pads / 2; i++)
    {
      gsize place = i;

      if (axes != NULL && !rlx_map_normalise_axis (call, axes[i], n_dims, n_dims - 1, &place, error))
        return FALSE;
      both[place] = pads[i];
      both[n_dims + place] = pads[n_pads / 2 + i];
    }

  if (rlx_map_has_input (call, 2))
    {
      value = rlx_map_input (call, 2, FALSE, error);
      if (value == NULL)
        return FALSE;
    }
  else if (rlx_map_arg (call, "value") != NULL)
    {
      g_autoptr(RlxTensor) tensor = NULL;
      double number;

      if (!rlx_map_arg_double (call, "value", 0, &number, error) ||
          (tensor = rlx_tensor_new_scalar (rlx_node_get_data_type (node), number, error)) == NULL ||
          (value = rlx_map_constant (call, tensor, error)) == NULL)
        return FALSE;
    }
  return rlx_map_return (call, 0, rlx_map_op2 (call, "pad", node, value,
                                               rlx_map_attrs ("before", rlx_map_ints (both, n_dims), "after", rlx_map_ints (both + n_dims, n_dims),
                                                              "mode", g_variant_new_string (mode), NULL),
                                               error));
}

gboolean
rlx_onnx_map_depth (RlxMapCall *call,
                    GError    **error)
{
  static const Word modes[] = { { "DCR", "1" }, { "CRD", "0" }, { NULL, NULL } };
  RlxNode *node = rlx_map_input (call, 0, FALSE, error);
  const char *mode = find_word (call, "mode", modes, "1", error);
  gint64 block;

  if (node == NULL || mode == NULL || !rlx_map_arg_int (call, "blocksize", 0, &block, error))
    return FALSE;
  return rlx_map_return (call, 0, rlx_map_op1 (call, call->row->op, node,
                                               rlx_map_attrs ("block", g_variant_new_int64 (block),
                                                              "blocks_first", g_variant_new_boolean (mode[0] == '1'), NULL),
                                               error));
}

gboolean
rlx_onnx_map_scatter (RlxMapCall *call,
                      GError    **error)
{
  static const Word modes[] = { { "none", "replace" }, { "add", "add" }, { "mul", "mul" }, { "max", "max" }, { "min", "min" }, { NULL, NULL } };
  RlxNode *input = rlx_map_input (call, 0, FALSE, error);
  RlxNode *indices = input != NULL ? rlx_map_input (call, 1, FALSE, error) : NULL;
  RlxNode *updates = indices != NULL ? rlx_map_input (call, 2, FALSE, error) : NULL;
  const char *mode = find_word (call, "reduction", modes, "replace", error);
  gboolean elements = g_str_equal (call->row->op, "scatter_elements");
  gint64 axis;

  if (updates == NULL || mode == NULL || !rlx_map_arg_int (call, "axis", 0, &axis, error))
    return FALSE;
  return rlx_map_return (call, 0, rlx_map_op (call, call->row->op, (RlxNode *[]) { input, indices, updates }, 3,
                                              elements ? rlx_map_attrs ("axis", g_variant_new_int64 (axis), "mode", g_variant_new_string (mode), NULL)
                                               : rlx_map_attrs ("mode", g_variant_new_string (mode), NULL),
                                              error));
}

gboolean
rlx_onnx_map_one_hot (RlxMapCall *call,
                      GError    **error)
{
  RlxNode *indices = rlx_map_input (call, 0, FALSE, error);
  RlxNode *values = indices != NULL ? rlx_map_input (call, 2, FALSE, error) : NULL;
  g_autoptr(RlxTensor) depth = NULL;
  gint64 axis;

  if (values == NULL || (depth = rlx_map_input_value (call, 1, error)) == NULL || !rlx_map_arg_int (call, "axis", -1, &axis, error))
    return FALSE;
  if (rlx_tensor_get_n_elements (depth) != 1)
    return rlx_map_refused (error, "OneHot: the depth is not one number");
  if (TYPES_FLOAT & 1u << rlx_node_get_data_type (indices))
    indices = rlx_map_cast (call, indices, RLX_DATA_TYPE_I32, error);
  if (indices == NULL)
    return FALSE;
  return rlx_map_return (call, 0, rlx_map_op2 (call, "one_hot", indices, values,
                                               rlx_map_attrs ("depth", g_variant_new_int64 ((gint64) rlx_tensor_get_value (depth, 0)),
                                                              "axis", g_variant_new_int64 (axis), NULL),
                                               error));
}

gboolean
rlx_onnx_map_range (RlxMapCall *call,
                    GError    **error)
{
  g_autoptr(RlxTensor) start = rlx_map_input_value (call, 0, error);
  g_autoptr(RlxTensor) limit = start != NULL ? rlx_map_input_value (call, 1, error) : NULL;
  g_autoptr(RlxTensor) delta = limit != NULL ? rlx_map_input_value (call, 2, error) : NULL;
  g_autoptr(RlxTensor) tensor = NULL;
  double first, step, n;
  RlxDataType type;

  if (delta == NULL)
    return FALSE;
  if (rlx_tensor_get_n_elements (start) != 1 || rlx_tensor_get_n_elements (limit) != 1 || rlx_tensor_get_n_elements (delta) != 1)
    return rlx_map_refused (error, "Range: start, limit and delta are not one number each");
  type = rlx_tensor_get_data_type (start);
  first = rlx_tensor_get_value (start, 0);
  step = rlx_tensor_get_value (delta, 0);
  n = ceil ((rlx_tensor_get_value (limit, 0) - first) / step);
  if (!(n <= 0x1p24))
    return rlx_map_refused (error, "Range: %g elements", n);
  n = MAX (n, 0);

  if (type == RLX_DATA_TYPE_F32 || type == RLX_DATA_TYPE_F16)
    {
      g_autofree double *values = g_new0 (double, (gsize) n + 1);
      RlxNode *node;

      for (gsize i = 0; i < (gsize) n; i++)
        values[i] = first + (double) i * step;
      node = constant_floats (call, values, (gsize) n, error);
      return node != NULL && rlx_map_return (call, 0, rlx_map_cast (call, node, type, error));
    }
  else
    {
      g_autofree gint64 *values = g_new0 (gint64, (gsize) n + 1);

      for (gsize i = 0; i < (gsize) n; i++)
        values[i] = (gint64) first + (gint64) i * (gint64) step;
      tensor = rlx_tensor_new_from_ints (type, (gint64[]) { (gint64) n }, 1, values, (gsize) n, error);
      return rlx_map_return_tensor (call, 0, tensor);
    }
}

gboolean
rlx_onnx_map_grid_sample (RlxMapCall *call,
                          GError    **error)
{
  static const Word modes[] = {
    { "bilinear", "linear" }, { "linear", "linear" }, { "nearest", "nearest" },
    { "bicubic", "cubic" }, { "cubic", "cubic" }, { NULL, NULL },
  };
  static const Word paddings[] = { { "zeros", "zeros" }, { "border", "border" }, { "reflection", "reflection" }, { NULL, NULL } };
  RlxNode *input = rlx_map_input (call, 0, FALSE, error);
  RlxNode *grid = input != NULL ? rlx_map_input (call, 1, FALSE, error) : NULL;
  const char *mode = find_word (call, "mode", modes, "linear", error);
  const char *padding = mode != NULL ? find_word (call, "padding_mode", paddings, "zeros", error) : NULL;
  gboolean align;

  if (grid == NULL || padding == NULL || !rlx_map_arg_bool (call, "align_corners", FALSE, &align, error))
    return FALSE;
  return rlx_map_return (call, 0, rlx_map_op2 (call, "grid_sample", input, grid,
                                               rlx_map_attrs ("mode", g_variant_new_string (mode), "padding", g_variant_new_string (padding),
                                                              "align_corners", g_variant_new_boolean (align), NULL),
                                               error));
}

/* ---- Resize -------------------------------------------------------------------------- */

/* An input that is present and not empty, as numbers; FALSE on error. */
static gboolean
get_numbers (RlxMapCall *call,
             guint       index,
             double    **values,
             gsize      *n,
             GError    **error)
{
  g_autoptr(RlxTensor) tensor = NULL;

  *values = NULL;
  *n = 0;
  if (!rlx_map_has_input (call, index))
    return TRUE;
  tensor = rlx_map_input_value (call, index, error);
  if (tensor == NULL)
    return FALSE;
  *n = (gsize) rlx_tensor_get_n_elements (tensor);
  if (*n == 0)
    return TRUE;
  *values = g_new0 (double, *n);
  for (gsize i = 0; i < *n; i++)
    (*values)[i] = rlx_tensor_get_value (tensor, (gint64) i);
  return TRUE;
}

typedef struct
{
  gint64 axes[RLX_MAX_DIMS];
  gsize n_axes;
  gint64 sizes[RLX_MAX_DIMS];
  double scales[RLX_MAX_DIMS];
  gboolean has_scales;
} Resize;

static gboolean
get_resize (RlxMapCall *call,
            RlxNode    *node,
            Resize     *resize,
            GError    **error)
{
  static const Word policies[] = { { "stretch", "stretch" }, { "not_larger", "least" }, { "not_smaller", "most" }, { NULL, NULL } };
  gboolean old = call->opset < 11 || g_str_equal (call->node->op, "Upsample");
  g_autofree double *scales = NULL;
  g_autofree double *sizes = NULL;
  g_autofree gint64 *axes = NULL;
  const char *policy = find_word (call, "keep_aspect_ratio_policy", policies, "stretch", error);
  gsize n_dims, n_scales = 0, n_sizes = 0;
  const gint64 *shape = rlx_node_get_shape (node, &n_dims);

  if (policy == NULL)
    return FALSE;
  resize->n_axes = n_dims;
  for (gsize i = 0; i < n_dims; i++)
    resize->axes[i] = (gint64) i;
  if (rlx_map_arg (call, "axes") != NULL)
    {
      gsize place;

      axes = rlx_map_arg_ints (call, "axes", &resize->n_axes, error);
      if (axes == NULL || resize->n_axes > n_dims)
        return axes != NULL && rlx_map_refused (error, "Resize: there are %" G_GSIZE_FORMAT " axes", resize->n_axes);
      for (gsize i = 0; i < resize->n_axes; i++)
        {
          if (!rlx_map_normalise_axis (call, axes[i], n_dims, n_dims - 1, &place, error))
            return FALSE;
          resize->axes[i] = (gint64) place;
        }
    }

  if (rlx_map_arg (call, "scales") != NULL)
    {
      g_autofree float *given = rlx_map_arg_floats (call, "scales", &n_scales, error);

      if (given == NULL)
        return FALSE;
      scales = g_new0 (double, n_scales + 1);
      for (gsize i = 0; i < n_scales; i++)
        scales[i] = (double) given[i];
    }
  else if (!get_numbers (call, old ? 1 : 2, &scales, &n_scales, error) ||
           (!old && !get_numbers (call, 3, &sizes, &n_sizes, error)))
    {
      return FALSE;
    }
  if ((n_scales > 0) == (n_sizes > 0) || MAX (n_scales, n_sizes) != resize->n_axes)
    return rlx_map_refused (error, "%s: there are %" G_GSIZE_FORMAT " scales and %" G_GSIZE_FORMAT " sizes for %" G_GSIZE_FORMAT " axes",
                            call->node->op, n_scales, n_sizes, resize->n_axes);

  resize->has_scales = n_scales > 0;
  if (n_sizes > 0 && policy[0] != 's')
    {
      double common = sizes[0] / (double) shape[resize->axes[0]];

      for (gsize i = 1; i < n_sizes; i++)
        {
          double scale = sizes[i] / (double) shape[resize->axes[i]];

          common = policy[0] == 'l' ? MIN (common, scale) : MAX (common, scale);
        }
      resize->has_scales = TRUE;
      for (gsize i = 0; i < n_sizes; i++)
        {
          resize->scales[i] = common;
          resize->sizes[i] = (gint64) floor (common * (double) shape[resize->axes[i]] + 0.5);
        }
      return TRUE;
    }
  for (gsize i = 0; i < resize->n_axes; i++)
    {
      double size = n_sizes > 0 ? sizes[i] : floor ((double) shape[resize->axes[i]] * scales[i]);

      if (!(size >= 0 && size <= G_MAXUINT32))
        return rlx_map_refused (error, "%s: size %g of axis %" G_GINT64_FORMAT, call->node->op, size, resize->axes[i]);
      resize->sizes[i] = (gint64) size;
      resize->scales[i] = n_scales > 0 ? scales[i] : 1;
    }
  return TRUE;
}

/* Whether the scales are the ratios of the sizes. */
static gboolean
follow_from_sizes (RlxNode      *node,
                   const Resize *resize)
{
  const gint64 *shape = rlx_node_get_shape (node, NULL);

  for (gsize i = 0; i < resize->n_axes; i++)
    if (resize->scales[i] * (double) shape[resize->axes[i]] != (double) resize->sizes[i])
      return FALSE;
  return TRUE;
}

gboolean
rlx_onnx_map_resize (RlxMapCall *call,
                     GError    **error)
{
  static const Word modes[] = { { "nearest", "nearest" }, { "linear", "linear" }, { "bilinear", "linear" }, { "cubic", "cubic" }, { NULL, NULL } };
  static const Word coordinates[] = {
    { "half_pixel", "half-pixel" }, { "half_pixel_symmetric", "half-pixel-symmetric" },
    { "pytorch_half_pixel", "pytorch-half-pixel" }, { "align_corners", "align-corners" }, { "asymmetric", "asymmetric" },
    { "tf_half_pixel_for_nn", "tf-half-pixel-for-nn" }, { "tf_crop_and_resize", "tf-crop-and-resize" }, { NULL, NULL },
  };
  static const Word roundings[] = {
    { "round_prefer_floor", "round-prefer-floor" }, { "round_prefer_ceil", "round-prefer-ceil" },
    { "floor", "floor" }, { "ceil", "ceil" }, { NULL, NULL },
  };
  gboolean old = call->opset < 11 || g_str_equal (call->node->op, "Upsample");
  RlxNode *node = rlx_map_input (call, 0, FALSE, error);
  const char *mode = find_word (call, "mode", modes, "nearest", error);
  const char *where = mode != NULL ? find_word (call, "coordinate_transformation_mode", coordinates, old ? "asymmetric" : "half-pixel", error) : NULL;
  const char *rounding = where != NULL ? find_word (call, "nearest_mode", roundings, old ? "floor" : "round-prefer-floor", error) : NULL;
  RlxNode *scales = NULL, *region = NULL;
  gboolean antialias, exclude;
  double cubic_a, extrapolation;
  Resize resize = { 0, };

  if (node == NULL || rounding == NULL ||
      !rlx_map_arg_bool (call, "antialias", FALSE, &antialias, error) ||
      !rlx_map_arg_bool (call, "exclude_outside", FALSE, &exclude, error) ||
      !rlx_map_arg_double (call, "cubic_coeff_a", -0.75, &cubic_a, error) ||
      !rlx_map_arg_double (call, "extrapolation_value", 0, &extrapolation, error) ||
      !get_resize (call, node, &resize, error))
    return FALSE;
  if (resize.has_scales && !follow_from_sizes (node, &resize) && (scales = constant_floats (call, resize.scales, resize.n_axes, error)) == NULL)
    return FALSE;
  if (g_str_equal (where, "tf-crop-and-resize"))
    {
      g_autofree double *roi = NULL;
      gsize n, kept = 0;

      if (!get_numbers (call, 1, &roi, &n, error))
        return FALSE;
      if (n != 2 * resize.n_axes)
        return rlx_map_refused (error, "Resize: the region has %" G_GSIZE_FORMAT " numbers for %" G_GSIZE_FORMAT " axes", n, resize.n_axes);
      /* an axis with scale 1 is not cropped */
      for (gsize i = 0; i < resize.n_axes; i++)
        if (!resize.has_scales || resize.scales[i] != 1)
          {
            resize.axes[kept] = resize.axes[i];
            resize.sizes[kept] = resize.sizes[i];
            roi[kept] = roi[i];
            roi[resize.n_axes + kept] = roi[resize.n_axes + i];
            kept++;
          }
      memmove (roi + kept, roi + resize.n_axes, kept * sizeof (double));
      scales = NULL;
      resize.n_axes = kept;
      if (kept == 0)
        return rlx_map_return (call, 0, node);
      region = constant_floats (call, roi, 2 * kept, error);
      if (region == NULL)
        return FALSE;
    }
  else if (!old)
    {
      /* the region only matters in that mode */
      rlx_map_ignore_input (call, 1);
    }
  return rlx_map_return (call, 0, rlx_map_op (call, "resize", (RlxNode *[]) { node, scales, region }, 3,
                                              rlx_map_attrs ("sizes", rlx_map_ints (resize.sizes, resize.n_axes),
                                                             "axes", rlx_map_ints (resize.axes, resize.n_axes),
                                                             "mode", g_variant_new_string (mode),
                                                             "coordinates", g_variant_new_string (where),
                                                             "rounding", g_variant_new_string (rounding),
                                                             "cubic_a", g_variant_new_double (cubic_a),
                                                             "exclude_outside", g_variant_new_boolean (exclude),
                                                             "extrapolation", g_variant_new_double (extrapolation),
                                                             "antialias", g_variant_new_boolean (antialias), NULL),
                                              error));
}
