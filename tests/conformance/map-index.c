/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "map-index.h"

#include <math.h>
#include <string.h>

#include "map-onnx.h"

/* What a word of theirs is called here; the list ends with a NULL. */
typedef struct
{
  const char *theirs;
  const char *ours;
} Word;

/* NULL with an error when there is no such word. */
static const char *
find_word (MapCall    *call,
           const char *name,
           const Word *words,
           const char *fallback,
           GError    **error)
{
  const char *word;

  if (map_arg (call, name) == NULL)
    return fallback;
  word = map_arg_string (call, name, error);
  if (word == NULL)
    return NULL;
  for (; words->theirs != NULL; words++)
    if (g_str_equal (words->theirs, word))
      return words->ours;
  map_refused (error, "%s: “%s” is no %s", call->op->name, word, name);
  return NULL;
}

/* The operator's results, each where the case wants it. */
static gboolean
return_all (MapCall    *call,
            const char *op,
            RlxNode    *input,
            GVariant   *attrs,
            GError    **error)
{
  g_autoptr(GVariant) sunk = g_variant_ref_sink (attrs);
  g_autofree RlxNode **results = NULL;
  gsize n_results = 0;
  guint n_wanted = g_strv_length (call->op->outputs);

  results = rlx_graph_add_op (build_get_graph (call->build), op, &input, 1, sunk, &n_results, error);
  if (results == NULL)
    return FALSE;
  if (n_results < n_wanted)
    return map_refused (error, "%s: there are %" G_GSIZE_FORMAT " results, %u are wanted", call->op->name, n_results, n_wanted);
  for (guint i = 0; i < n_wanted; i++)
    if (!map_return (call, i, results[i]))
      return FALSE;
  return TRUE;
}

static RlxNode *
constant_floats (MapCall      *call,
                 const double *values,
                 gsize         n,
                 GError      **error)
{
  g_autofree float *floats = g_new0 (float, n + 1);
  g_autoptr(RlxTensor) tensor = NULL;

  for (gsize i = 0; i < n; i++)
    floats[i] = (float) values[i];
  tensor = rlx_tensor_new_from_floats ((gint64[]) { (gint64) n }, 1, floats, n, error);
  return tensor != NULL ? map_constant (call, tensor, error) : NULL;
}

/* ---- WebNN ------------------------------------------------------------------------ */

static gboolean
check_index_type (MapCall *call,
                  RlxNode *indices,
                  GError **error)
{
  if (TYPES_INDEX & 1u << rlx_node_get_data_type (indices))
    return TRUE;
  return map_refused (error, "%s: indices of %s are not allowed", call->op->name,
                      rlx_data_type_to_string (rlx_node_get_data_type (indices)));
}

/* Here they may be shorter. */
static gboolean
check_other_axes (MapCall *call,
                  RlxNode *input,
                  RlxNode *indices,
                  gint64   axis,
                  GError **error)
{
  gsize n_dims, n;
  const gint64 *shape = rlx_node_get_shape (input, &n_dims);
  const gint64 *is = rlx_node_get_shape (indices, &n);

  if (axis < 0)
    return map_refused (error, "%s: the axis is %" G_GINT64_FORMAT, call->op->name, axis);
  for (gsize i = 0; n == n_dims && i < n; i++)
    if ((gint64) i != axis && is[i] != shape[i])
      return map_refused (error, "%s: dimension %" G_GSIZE_FORMAT " of the indices is %" G_GINT64_FORMAT ", not %" G_GINT64_FORMAT,
                          call->op->name, i, is[i], shape[i]);
  return TRUE;
}

gboolean
webnn_map_gather_elements (MapCall *call,
                           GError **error)
{
  RlxNode *input = map_operand (call, "input", FALSE, error);
  RlxNode *indices = input != NULL ? map_operand (call, "indices", FALSE, error) : NULL;
  gint64 axis;

  if (indices == NULL || !map_arg_int (call, "axis", 0, &axis, error) ||
      !check_index_type (call, indices, error) || !check_other_axes (call, input, indices, axis, error))
    return FALSE;
  return map_return (call, 0, map_op2 (call, "gather_elements", input, indices,
                                       map_attrs ("axis", g_variant_new_int64 (axis), NULL), error));
}

gboolean
webnn_map_gather_nd (MapCall *call,
                     GError **error)
{
  RlxNode *input = map_operand (call, "input", FALSE, error);
  RlxNode *indices = input != NULL ? map_operand (call, "indices", FALSE, error) : NULL;

  return indices != NULL && check_index_type (call, indices, error) &&
         map_return (call, 0, map_op2 (call, "gather_nd", input, indices, NULL, error));
}

gboolean
webnn_map_scatter (MapCall *call,
                   GError **error)
{
  RlxNode *input = map_operand (call, "input", FALSE, error);
  RlxNode *indices = input != NULL ? map_operand (call, "indices", FALSE, error) : NULL;
  RlxNode *updates = indices != NULL ? map_operand (call, "updates", FALSE, error) : NULL;
  GVariant *attrs = NULL;

  if (updates == NULL || !check_index_type (call, indices, error))
    return FALSE;
  if (g_str_equal (call->mapping->op, "scatter_elements"))
    {
      gint64 axis;

      if (!map_arg_int (call, "axis", 0, &axis, error) || !check_other_axes (call, input, indices, axis, error))
        return FALSE;
      attrs = map_attrs ("axis", g_variant_new_int64 (axis), NULL);
    }
  return map_return (call, 0, map_op (call, call->mapping->op, (RlxNode *[]) { input, indices, updates }, 3, attrs, error));
}

gboolean
webnn_map_pad (MapCall *call,
               GError **error)
{
  static const Word modes[] = { { "constant", "constant" }, { "edge", "edge" }, { "reflection", "reflect" }, { NULL, NULL } };
  RlxNode *input = map_operand (call, "input", FALSE, error);
  RlxNode *value = NULL;
  g_autofree gint64 *before = NULL;
  g_autofree gint64 *after = NULL;
  const char *mode;
  gsize n_before, n_after;

  if (input == NULL ||
      (before = map_arg_ints (call, "beginningPadding", &n_before, error)) == NULL ||
      (after = map_arg_ints (call, "endingPadding", &n_after, error)) == NULL ||
      (mode = find_word (call, "mode", modes, "constant", error)) == NULL)
    return FALSE;
  for (gsize i = 0; i < MIN (n_before, n_after); i++)
    if (before[i] < 0 || after[i] < 0)
      return map_refused (error, "pad: paddings %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT " of dimension %" G_GSIZE_FORMAT,
                          before[i], after[i], i);
  if (g_str_equal (mode, "reflect"))
    {
      gsize n_dims;
      const gint64 *shape = rlx_node_get_shape (input, &n_dims);

      for (gsize i = 0; i < MIN (n_dims, MIN (n_before, n_after)); i++)
        if (before[i] >= shape[i] || after[i] >= shape[i])
          return map_refused (error, "pad: %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT " reflected elements of %" G_GINT64_FORMAT,
                              before[i], after[i], shape[i]);
    }
  if (map_arg (call, "value") != NULL)
    {
      g_autoptr(RlxTensor) tensor = NULL;
      double number;

      if (!webnn_get_number (call, "value", rlx_node_get_data_type (input), 0, &number, error) ||
          (tensor = rlx_tensor_new_scalar (rlx_node_get_data_type (input), number, error)) == NULL ||
          (value = map_constant (call, tensor, error)) == NULL)
        return FALSE;
    }
  return map_return (call, 0, map_op2 (call, "pad", input, value,
                                       map_attrs ("before", map_ints (before, n_before),
                                                  "after", map_ints (after, n_after),
                                                  "mode", g_variant_new_string (mode), NULL),
                                       error));
}

gboolean
webnn_map_split (MapCall *call,
                 GError **error)
{
  RlxNode *input = map_operand (call, "input", FALSE, error);
  JsonNode *splits = map_arg (call, "splits");
  gint64 axis, parts;

  if (input == NULL || !map_arg_int (call, "axis", 0, &axis, error))
    return FALSE;
  if (axis < 0)
    return map_refused (error, "split: the axis is %" G_GINT64_FORMAT, axis);
  if (splits != NULL && JSON_NODE_HOLDS_ARRAY (splits))
    {
      g_autofree gint64 *sizes = NULL;
      gsize n;

      sizes = map_arg_ints (call, "splits", &n, error);
      if (sizes == NULL)
        return FALSE;
      for (gsize i = 0; i < n; i++)
        if (sizes[i] < 1)
          return map_refused (error, "split: size %" G_GSIZE_FORMAT " is %" G_GINT64_FORMAT, i, sizes[i]);
      return return_all (call, "split", input,
                         map_attrs ("axis", g_variant_new_int64 (axis), "sizes", map_ints (sizes, n), NULL), error);
    }
  if (!map_arg_int (call, "splits", 0, &parts, error))
    return FALSE;
  return return_all (call, "split", input,
                     map_attrs ("axis", g_variant_new_int64 (axis), "parts", g_variant_new_int64 (parts), NULL), error);
}

gboolean
webnn_map_tile (MapCall *call,
                GError **error)
{
  RlxNode *input = map_operand (call, "input", FALSE, error);
  g_autofree gint64 *repetitions = NULL;
  gsize n;

  if (input == NULL)
    return FALSE;
  if (map_arg (call, "repetitions") == NULL)
    return map_refused (error, "tile: there are no repetitions");
  repetitions = map_arg_ints (call, "repetitions", &n, error);
  if (repetitions == NULL)
    return FALSE;
  for (gsize i = 0; i < n; i++)
    if (repetitions[i] < 1)
      return map_refused (error, "tile: repetition %" G_GSIZE_FORMAT " is %" G_GINT64_FORMAT, i, repetitions[i]);
  return map_return (call, 0, map_op1 (call, "tile", input,
                                       map_attrs ("repetitions", map_ints (repetitions, n), NULL), error));
}

static gboolean
get_doubles (MapCall    *call,
             const char *name,
             double     *values,
             gsize       n,
             GError    **error)
{
  JsonNode *node = map_arg (call, name);
  JsonArray *array = node != NULL && JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;

  if (array == NULL || json_array_get_length (array) != n)
    return map_refused (error, "%s: argument “%s” is not a list of %" G_GSIZE_FORMAT " numbers", call->op->name, name, n);
  for (gsize i = 0; i < n; i++)
    if (!case_number_to_double (json_array_get_element (array, (guint) i), &values[i]))
      return map_refused (error, "%s: number %" G_GSIZE_FORMAT " of “%s” is none", call->op->name, i, name);
  return TRUE;
}

gboolean
webnn_map_resample (MapCall *call,
                    GError **error)
{
  static const Word modes[] = { { "nearest-neighbor", "nearest" }, { "linear", "linear" }, { NULL, NULL } };
  RlxNode *input = map_operand (call, "input", FALSE, error);
  g_autofree gint64 *axes = NULL;
  g_autofree gint64 *sizes = NULL;
  RlxNode *scales = NULL;
  const gint64 *shape;
  const char *mode;
  gsize n_dims, n = 2;

  if (input == NULL || (mode = find_word (call, "mode", modes, "nearest", error)) == NULL)
    return FALSE;
  if (!(TYPES_FLOAT & 1u << rlx_node_get_data_type (input)))
    return map_refused (error, "resample2d: the input is %s", rlx_data_type_to_string (rlx_node_get_data_type (input)));
  shape = rlx_node_get_shape (input, &n_dims);
  if (n_dims != 4)
    return map_refused (error, "resample2d: the input has %" G_GSIZE_FORMAT " dimensions, not 4", n_dims);
  if (map_arg (call, "axes") != NULL)
    axes = map_arg_ints (call, "axes", &n, error);
  else
    axes = g_memdup2 ((gint64[]) { 2, 3 }, 2 * sizeof (gint64));
  if (axes == NULL)
    return FALSE;
  if (n != 2 || axes[0] < 0 || axes[1] < 0 || axes[0] >= 4 || axes[1] >= 4 || axes[0] == axes[1])
    return map_refused (error, "resample2d: these are not two axes of 4");

  if (map_arg (call, "sizes") != NULL)
    {
      /* these say all there is to say */
      map_arg (call, "scales");
      sizes = map_arg_ints (call, "sizes", &n, error);
      if (sizes == NULL)
        return FALSE;
      if (n != 2)
        return map_refused (error, "resample2d: there are %" G_GSIZE_FORMAT " sizes, not 2", n);
    }
  else
    {
      double factors[2] = { 1, 1 };

      if (map_arg (call, "scales") != NULL && !get_doubles (call, "scales", factors, 2, error))
        return FALSE;
      sizes = g_new0 (gint64, 2);
      for (guint i = 0; i < 2; i++)
        {
          double size = floor (shape[axes[i]] * factors[i]);

          if (!(factors[i] > 0) || !(size >= 1 && size <= G_MAXUINT32))
            return map_refused (error, "resample2d: %g times %" G_GINT64_FORMAT " elements is no size", factors[i], shape[axes[i]]);
          sizes[i] = (gint64) size;
        }
      scales = constant_floats (call, factors, 2, error);
      if (scales == NULL)
        return FALSE;
    }
  for (guint i = 0; i < 2; i++)
    if (sizes[i] < 1)
      return map_refused (error, "resample2d: size %u is %" G_GINT64_FORMAT, i, sizes[i]);

  return map_return (call, 0, map_op2 (call, "resize", input, scales,
                                       map_attrs ("sizes", map_ints (sizes, 2), "axes", map_ints (axes, 2),
                                                  "mode", g_variant_new_string (mode), NULL),
                                       error));
}

/* ---- ONNX -------------------------------------------------------------------------- */

gboolean
onnx_map_split (MapCall *call,
                GError **error)
{
  RlxNode *node = map_input (call, 0, FALSE, error);
  g_autofree gint64 *sizes = NULL;
  const gint64 *shape;
  gint64 axis, parts;
  gsize n_dims, place, n;
  gboolean present;

  if (node == NULL || !map_arg_int (call, "axis", 0, &axis, error) ||
      !onnx_get_ints (call, "split", 1, &sizes, &n, &present, error))
    return FALSE;
  shape = rlx_node_get_shape (node, &n_dims);
  if (!onnx_normalise_axis (call, axis, n_dims, n_dims > 0 ? n_dims - 1 : 0, &place, error))
    return FALSE;
  if (n_dims == 0)
    return map_refused (error, "Split: the operand has no dimensions");
  if (!present)
    {
      if (!map_arg_int (call, "num_outputs", (gint64) g_strv_length (call->op->outputs), &parts, error))
        return FALSE;
      if (parts < 1 || parts > 1024)
        return map_refused (error, "Split: into %" G_GINT64_FORMAT " parts", parts);
      /* the last one is smaller when it does not come out even */
      n = (gsize) parts;
      sizes = g_new (gint64, n);
      for (gsize i = 0; i < n; i++)
        {
          gint64 size = (shape[place] + parts - 1) / parts;

          sizes[i] = CLAMP (shape[place] - (gint64) i * size, 0, size);
        }
    }
  return return_all (call, "split", node,
                     map_attrs ("axis", g_variant_new_int64 (axis), "sizes", map_ints (sizes, n), NULL), error);
}

gboolean
onnx_map_pad (MapCall *call,
              GError **error)
{
  static const Word modes[] = { { "constant", "constant" }, { "edge", "edge" }, { "reflect", "reflect" }, { "wrap", "wrap" }, { NULL, NULL } };
  RlxNode *node = map_input (call, 0, FALSE, error);
  RlxNode *value = NULL;
  g_autofree gint64 *pads = NULL;
  g_autofree gint64 *axes = NULL;
  g_autofree gint64 *both = NULL;
  const char *mode;
  gsize n_dims, n_pads, n_axes = 0;
  gboolean present;

  if (node == NULL ||
      (mode = find_word (call, "mode", modes, "constant", error)) == NULL ||
      !onnx_get_ints (call, map_arg (call, "paddings") != NULL ? "paddings" : "pads", 1, &pads, &n_pads, &present, error))
    return FALSE;
  if (!present)
    return map_refused (error, "Pad: there are no pads");
  if (map_has_input (call, 3) && (axes = map_input_ints (call, 3, &n_axes, error)) == NULL && n_axes > 0)
    return FALSE;
  rlx_node_get_shape (node, &n_dims);
  if (n_pads != 2 * (axes != NULL ? n_axes : n_dims))
    return map_refused (error, "Pad: there are %" G_GSIZE_FORMAT " pads for %" G_GSIZE_FORMAT " axes",
                        n_pads, axes != NULL ? n_axes : n_dims);
  both = g_new0 (gint64, 2 * n_dims + 1);
  for (gsize i = 0; i < n_pads / 2; i++)
    {
      gsize place = i;

      if (axes != NULL && !onnx_normalise_axis (call, axes[i], n_dims, n_dims - 1, &place, error))
        return FALSE;
      both[place] = pads[i];
      both[n_dims + place] = pads[n_pads / 2 + i];
    }

  if (map_has_input (call, 2))
    {
      value = map_input (call, 2, FALSE, error);
      if (value == NULL)
        return FALSE;
    }
  else if (map_arg (call, "value") != NULL)
    {
      g_autoptr(RlxTensor) tensor = NULL;
      double number;

      if (!map_arg_double (call, "value", 0, &number, error) ||
          (tensor = rlx_tensor_new_scalar (rlx_node_get_data_type (node), number, error)) == NULL ||
          (value = map_constant (call, tensor, error)) == NULL)
        return FALSE;
    }
  return map_return (call, 0, map_op2 (call, "pad", node, value,
                                       map_attrs ("before", map_ints (both, n_dims), "after", map_ints (both + n_dims, n_dims),
                                                  "mode", g_variant_new_string (mode), NULL),
                                       error));
}

gboolean
onnx_map_depth (MapCall *call,
                GError **error)
{
  static const Word modes[] = { { "DCR", "1" }, { "CRD", "0" }, { NULL, NULL } };
  RlxNode *node = map_input (call, 0, FALSE, error);
  const char *mode = find_word (call, "mode", modes, "1", error);
  gint64 block;

  if (node == NULL || mode == NULL || !map_arg_int (call, "blocksize", 0, &block, error))
    return FALSE;
  return map_return (call, 0, map_op1 (call, call->mapping->op, node,
                                       map_attrs ("block", g_variant_new_int64 (block),
                                                  "blocks_first", g_variant_new_boolean (mode[0] == '1'), NULL),
                                       error));
}

gboolean
onnx_map_scatter (MapCall *call,
                  GError **error)
{
  static const Word modes[] = { { "none", "replace" }, { "add", "add" }, { "mul", "mul" }, { "max", "max" }, { "min", "min" }, { NULL, NULL } };
  RlxNode *input = map_input (call, 0, FALSE, error);
  RlxNode *indices = input != NULL ? map_input (call, 1, FALSE, error) : NULL;
  RlxNode *updates = indices != NULL ? map_input (call, 2, FALSE, error) : NULL;
  const char *mode = find_word (call, "reduction", modes, "replace", error);
  gboolean elements = g_str_equal (call->mapping->op, "scatter_elements");
  gint64 axis;

  if (updates == NULL || mode == NULL || !map_arg_int (call, "axis", 0, &axis, error))
    return FALSE;
  return map_return (call, 0, map_op (call, call->mapping->op, (RlxNode *[]) { input, indices, updates }, 3,
                                      elements ? map_attrs ("axis", g_variant_new_int64 (axis), "mode", g_variant_new_string (mode), NULL)
                                               : map_attrs ("mode", g_variant_new_string (mode), NULL),
                                      error));
}

gboolean
onnx_map_one_hot (MapCall *call,
                  GError **error)
{
  RlxNode *indices = map_input (call, 0, FALSE, error);
  RlxNode *values = indices != NULL ? map_input (call, 2, FALSE, error) : NULL;
  g_autoptr(RlxTensor) depth = NULL;
  gint64 axis;

  if (values == NULL || (depth = map_input_value (call, 1, error)) == NULL || !map_arg_int (call, "axis", -1, &axis, error))
    return FALSE;
  if (rlx_tensor_get_n_elements (depth) != 1)
    return map_refused (error, "OneHot: the depth is not one number");
  if (TYPES_FLOAT & 1u << rlx_node_get_data_type (indices))
    indices = map_cast (call, indices, RLX_DATA_TYPE_I32, error);
  if (indices == NULL)
    return FALSE;
  return map_return (call, 0, map_op2 (call, "one_hot", indices, values,
                                       map_attrs ("depth", g_variant_new_int64 ((gint64) rlx_tensor_get_value (depth, 0)),
                                                  "axis", g_variant_new_int64 (axis), NULL),
                                       error));
}

gboolean
onnx_map_range (MapCall *call,
                GError **error)
{
  g_autoptr(RlxTensor) start = map_input_value (call, 0, error);
  g_autoptr(RlxTensor) limit = start != NULL ? map_input_value (call, 1, error) : NULL;
  g_autoptr(RlxTensor) delta = limit != NULL ? map_input_value (call, 2, error) : NULL;
  g_autoptr(RlxTensor) tensor = NULL;
  double first, step, n;
  RlxDataType type;

  if (delta == NULL)
    return FALSE;
  if (rlx_tensor_get_n_elements (start) != 1 || rlx_tensor_get_n_elements (limit) != 1 || rlx_tensor_get_n_elements (delta) != 1)
    return map_refused (error, "Range: start, limit and delta are not one number each");
  type = rlx_tensor_get_data_type (start);
  first = rlx_tensor_get_value (start, 0);
  step = rlx_tensor_get_value (delta, 0);
  n = ceil ((rlx_tensor_get_value (limit, 0) - first) / step);
  if (!(n <= 0x1p24))
    return map_refused (error, "Range: %g elements", n);
  n = MAX (n, 0);

  if (type == RLX_DATA_TYPE_F32 || type == RLX_DATA_TYPE_F16)
    {
      g_autofree double *values = g_new0 (double, (gsize) n + 1);
      RlxNode *node;

      for (gsize i = 0; i < (gsize) n; i++)
        values[i] = first + (double) i * step;
      node = constant_floats (call, values, (gsize) n, error);
      return node != NULL && map_return (call, 0, map_cast (call, node, type, error));
    }
  else
    {
      g_autofree gint64 *values = g_new0 (gint64, (gsize) n + 1);

      for (gsize i = 0; i < (gsize) n; i++)
        values[i] = (gint64) first + (gint64) i * (gint64) step;
      tensor = rlx_tensor_new_from_ints (type, (gint64[]) { (gint64) n }, 1, values, (gsize) n, error);
      return tensor != NULL && map_return (call, 0, map_constant (call, tensor, error));
    }
}

gboolean
onnx_map_grid_sample (MapCall *call,
                      GError **error)
{
  static const Word modes[] = {
    { "bilinear", "linear" }, { "linear", "linear" }, { "nearest", "nearest" },
    { "bicubic", "cubic" }, { "cubic", "cubic" }, { NULL, NULL },
  };
  static const Word paddings[] = { { "zeros", "zeros" }, { "border", "border" }, { "reflection", "reflection" }, { NULL, NULL } };
  RlxNode *input = map_input (call, 0, FALSE, error);
  RlxNode *grid = input != NULL ? map_input (call, 1, FALSE, error) : NULL;
  const char *mode = find_word (call, "mode", modes, "linear", error);
  const char *padding = mode != NULL ? find_word (call, "padding_mode", paddings, "zeros", error) : NULL;
  gboolean align;

  if (grid == NULL || padding == NULL || !map_arg_bool (call, "align_corners", FALSE, &align, error))
    return FALSE;
  return map_return (call, 0, map_op2 (call, "grid_sample", input, grid,
                                       map_attrs ("mode", g_variant_new_string (mode), "padding", g_variant_new_string (padding),
                                                  "align_corners", g_variant_new_boolean (align), NULL),
                                       error));
}

/* ---- Resize -------------------------------------------------------------------------- */

/* An input that is there and not empty, as numbers; FALSE with an error. */
static gboolean
get_numbers (MapCall  *call,
             guint     index,
             double  **values,
             gsize    *n,
             GError  **error)
{
  g_autoptr(RlxTensor) tensor = NULL;

  *values = NULL;
  *n = 0;
  if (!map_has_input (call, index))
    return TRUE;
  tensor = map_input_value (call, index, error);
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
get_resize (MapCall *call,
            RlxNode *node,
            Resize  *resize,
            GError **error)
{
  static const Word policies[] = { { "stretch", "stretch" }, { "not_larger", "least" }, { "not_smaller", "most" }, { NULL, NULL } };
  gboolean old = call->opset < 11 || g_str_equal (call->op->name, "Upsample");
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
  if (map_arg (call, "axes") != NULL)
    {
      gsize place;

      axes = map_arg_ints (call, "axes", &resize->n_axes, error);
      if (axes == NULL || resize->n_axes > n_dims)
        return axes != NULL && map_refused (error, "Resize: there are %" G_GSIZE_FORMAT " axes", resize->n_axes);
      for (gsize i = 0; i < resize->n_axes; i++)
        {
          if (!onnx_normalise_axis (call, axes[i], n_dims, n_dims - 1, &place, error))
            return FALSE;
          resize->axes[i] = (gint64) place;
        }
    }

  if (map_arg (call, "scales") != NULL)
    {
      n_scales = resize->n_axes;
      scales = g_new0 (double, n_scales + 1);
      if (!get_doubles (call, "scales", scales, n_scales, error))
        return FALSE;
    }
  else if (!get_numbers (call, old ? 1 : 2, &scales, &n_scales, error) ||
           (!old && !get_numbers (call, 3, &sizes, &n_sizes, error)))
    {
      return FALSE;
    }
  if ((n_scales > 0) == (n_sizes > 0) || MAX (n_scales, n_sizes) != resize->n_axes)
    return map_refused (error, "%s: there are %" G_GSIZE_FORMAT " scales and %" G_GSIZE_FORMAT " sizes for %" G_GSIZE_FORMAT " axes",
                        call->op->name, n_scales, n_sizes, resize->n_axes);

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
        return map_refused (error, "%s: size %g of axis %" G_GINT64_FORMAT, call->op->name, size, resize->axes[i]);
      resize->sizes[i] = (gint64) size;
      resize->scales[i] = n_scales > 0 ? scales[i] : 1;
    }
  return TRUE;
}

gboolean
onnx_map_resize (MapCall *call,
                 GError **error)
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
  gboolean old = call->opset < 11 || g_str_equal (call->op->name, "Upsample");
  RlxNode *node = map_input (call, 0, FALSE, error);
  const char *mode = find_word (call, "mode", modes, "nearest", error);
  const char *where = mode != NULL ? find_word (call, "coordinate_transformation_mode", coordinates, old ? "asymmetric" : "half-pixel", error) : NULL;
  const char *rounding = where != NULL ? find_word (call, "nearest_mode", roundings, old ? "floor" : "round-prefer-floor", error) : NULL;
  RlxNode *scales = NULL, *region = NULL;
  gboolean antialias, exclude;
  double cubic_a, extrapolation;
  Resize resize = { 0, };

  if (node == NULL || rounding == NULL ||
      !map_arg_bool (call, "antialias", FALSE, &antialias, error) ||
      !map_arg_bool (call, "exclude_outside", FALSE, &exclude, error) ||
      !map_arg_double (call, "cubic_coeff_a", -0.75, &cubic_a, error) ||
      !map_arg_double (call, "extrapolation_value", 0, &extrapolation, error) ||
      !get_resize (call, node, &resize, error))
    return FALSE;
  if (resize.has_scales && (scales = constant_floats (call, resize.scales, resize.n_axes, error)) == NULL)
    return FALSE;
  if (g_str_equal (where, "tf-crop-and-resize"))
    {
      g_autofree double *roi = NULL;
      gsize n, kept = 0;

      if (!get_numbers (call, 1, &roi, &n, error))
        return FALSE;
      if (n != 2 * resize.n_axes)
        return map_refused (error, "Resize: the region has %" G_GSIZE_FORMAT " numbers for %" G_GSIZE_FORMAT " axes", n, resize.n_axes);
      /* nothing is cropped along an axis whose scale is 1 */
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
        return map_return (call, 0, node);
      region = constant_floats (call, roi, 2 * kept, error);
      if (region == NULL)
        return FALSE;
    }
  else if (!old)
    {
      /* the region, which is for that mode alone */
      map_ignore_input (call, 1);
    }
  return map_return (call, 0, map_op (call, "resize", (RlxNode *[]) { node, scales, region }, 3,
                                      map_attrs ("sizes", map_ints (resize.sizes, resize.n_axes),
                                                 "axes", map_ints (resize.axes, resize.n_axes),
                                                 "mode", g_variant_new_string (mode),
                                                 "coordinates", g_variant_new_string (where),
                                                 "rounding", g_variant_new_string (rounding),
                                                 "cubic_a", g_variant_new_double (cubic_a),
                                                 "exclude_outside", g_variant_new_boolean (exclude),
                                                 "extrapolation", g_variant_new_double (extrapolation),
                                                 "antialias", g_variant_new_boolean (antialias), NULL),
                                      error));
}

/* ---- reference vectors --------------------------------------------------------------- */

gboolean
ref_map_scatter_add_rows (MapCall *call,
                          GError **error)
{
  RlxNode *updates = map_input (call, 0, FALSE, error);
  RlxNode *indices = updates != NULL ? map_input (call, 1, FALSE, error) : NULL;
  g_autoptr(RlxTensor) zero = NULL;
  g_autofree gint64 *shape = NULL;
  RlxNode *node;
  gsize n_dims;
  gint64 rows, n;

  if (indices == NULL || !map_arg_int (call, "rows", 0, &rows, error) ||
      (zero = rlx_tensor_new_scalar (rlx_node_get_data_type (updates), 0, error)) == NULL ||
      (node = map_constant (call, zero, error)) == NULL)
    return FALSE;
  shape = onnx_copy_shape (updates, &n_dims);
  if (n_dims == 0)
    return map_refused (error, "scatter_add_rows: there are no rows");
  n = shape[0];
  shape[0] = rows;
  node = map_op1 (call, "expand", node, map_attrs ("shape", map_ints (shape, n_dims), NULL), error);
  indices = node != NULL ? map_reshape (call, indices, (gint64[]) { n, 1 }, 2, error) : NULL;
  if (indices == NULL)
    return FALSE;
  return map_return (call, 0, map_op (call, "scatter_nd", (RlxNode *[]) { node, indices, updates }, 3,
                                      map_attrs ("mode", g_variant_new_string ("add"), NULL), error));
}
