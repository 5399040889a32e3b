/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "map-index.h"

#include <math.h>
#include <string.h>

/* The foreign word and its equivalent; the list ends with a NULL. */
typedef struct
{
  const char *theirs;
  const char *ours;
} Word;

/* NULL with an error if there is no such word. */
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

/* Returns the operator's results that the case wants. */
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
      /* these already determine the result */
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

/* ---- reference vectors --------------------------------------------------------------- */

gboolean
ref_map_scatter_add_rows (MapCall *call,
                          GError **error)
{
  RlxNode *updates = map_input (call, 0, FALSE, error);
  RlxNode *indices = updates != NULL ? map_input (call, 1, FALSE, error) : NULL;
  g_autoptr(RlxTensor) zero = NULL;
  gint64 shape[RLX_MAX_DIMS];
  const gint64 *given;
  RlxNode *node;
  gsize n_dims;
  gint64 rows, n;

  if (indices == NULL || !map_arg_int (call, "rows", 0, &rows, error) ||
      (zero = rlx_tensor_new_scalar (rlx_node_get_data_type (updates), 0, error)) == NULL ||
      (node = map_constant (call, zero, error)) == NULL)
    return FALSE;
  given = rlx_node_get_shape (updates, &n_dims);
  if (n_dims == 0)
    return map_refused (error, "scatter_add_rows: there are no rows");
  memcpy (shape, given, n_dims * sizeof *shape);
  n = shape[0];
  shape[0] = rows;
  node = map_op1 (call, "expand", node, map_attrs ("shape", map_ints (shape, n_dims), NULL), error);
  indices = node != NULL ? map_reshape (call, indices, (gint64[]) { n, 1 }, 2, error) : NULL;
  if (indices == NULL)
    return FALSE;
  return map_return (call, 0, map_op (call, "scatter_nd", (RlxNode *[]) { node, indices, updates }, 3,
                                      map_attrs ("mode", g_variant_new_string ("add"), NULL), error));
}
