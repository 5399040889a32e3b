/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The operators of ONNX that are about shapes, and values known beforehand.
 */
#include "config.h"

#include "map-onnx.h"

/* ---- shapes ------------------------------------------------------------------------ */

gboolean
onnx_map_reshape (MapCall *call,
                  GError **error)
{
  RlxNode *node = map_input (call, 0, FALSE, error);
  g_autofree gint64 *shape = NULL;
  const gint64 *is;
  gboolean allow_zero, present;
  gsize rank, n_dims;

  if (node == NULL ||
      !map_arg_bool (call, "allowzero", FALSE, &allow_zero, error) ||
      !onnx_get_ints (call, "shape", 1, &shape, &n_dims, &present, error))
    return FALSE;
  if (!present)
    return map_refused (error, "Reshape: there is no shape");
  is = rlx_node_get_shape (node, &rank);
  for (gsize i = 0; i < n_dims && !allow_zero; i++)
    if (shape[i] == 0)
      {
        if (i >= rank)
          return map_refused (error, "Reshape: dimension %" G_GSIZE_FORMAT " is to be kept, but there are %"
                              G_GSIZE_FORMAT, i, rank);
        shape[i] = is[i];
      }
  return map_return (call, 0, map_reshape (call, node, shape, n_dims, error));
}

gboolean
onnx_map_flatten (MapCall *call,
                  GError **error)
{
  RlxNode *node = map_input (call, 0, FALSE, error);
  const gint64 *shape;
  gsize n_dims, place;
  gint64 axis;

  if (node == NULL || !map_arg_int (call, "axis", 1, &axis, error))
    return FALSE;
  shape = rlx_node_get_shape (node, &n_dims);
  if (!onnx_normalise_axis (call, axis, n_dims, n_dims, &place, error))
    return FALSE;
  return map_return (call, 0, map_reshape (call, node,
                                           (gint64[]) { onnx_product (shape, 0, place), onnx_product (shape, place, n_dims) },
                                           2, error));
}

gboolean
onnx_map_squeeze (MapCall *call,
                  GError **error)
{
  RlxNode *node = map_input (call, 0, FALSE, error);
  g_autofree gint64 *axes = NULL;
  g_autofree gint64 *result = NULL;
  g_autofree gboolean *drop = NULL;
  const gint64 *shape;
  gsize n_dims, n_axes, n = 0;
  gboolean present;

  if (node == NULL || !onnx_get_ints (call, "axes", 1, &axes, &n_axes, &present, error))
    return FALSE;
  shape = rlx_node_get_shape (node, &n_dims);
  drop = g_new0 (gboolean, n_dims + 1);
  for (gsize i = 0; i < n_axes; i++)
    {
      gsize place;

      if (!onnx_normalise_axis (call, axes[i], n_dims, n_dims - 1, &place, error))
        return FALSE;
      drop[place] = TRUE;
    }
  result = g_new (gint64, n_dims + 1);
  for (gsize i = 0; i < n_dims; i++)
    if (present ? !drop[i] : shape[i] != 1)
      result[n++] = shape[i];
    else if (shape[i] != 1)
      return map_refused (error, "Squeeze: dimension %" G_GSIZE_FORMAT " is %" G_GINT64_FORMAT, i, shape[i]);
  return map_return (call, 0, map_reshape (call, node, result, n, error));
}

gboolean
onnx_map_unsqueeze (MapCall *call,
                    GError **error)
{
  RlxNode *node = map_input (call, 0, FALSE, error);
  g_autofree gint64 *axes = NULL;
  g_autofree gint64 *result = NULL;
  const gint64 *shape;
  gsize n_dims, n_axes, total, from = 0;
  gboolean present;

  if (node == NULL || !onnx_get_ints (call, "axes", 1, &axes, &n_axes, &present, error))
    return FALSE;
  if (!present)
    return map_refused (error, "Unsqueeze: there are no axes");
  shape = rlx_node_get_shape (node, &n_dims);
  total = n_dims + n_axes;
  result = g_new0 (gint64, total + 1);
  for (gsize i = 0; i < n_axes; i++)
    {
      gsize place;

      if (!onnx_normalise_axis (call, axes[i], total, total - 1, &place, error))
        return FALSE;
      if (result[place] != 0)
        return map_refused (error, "Unsqueeze: the axis %" G_GINT64_FORMAT " comes twice", axes[i]);
      result[place] = 1;
    }
  /* a size may be 0 as well, so the new places are told by their being set */
  for (gsize i = 0; i < total; i++)
    if (result[i] == 0)
      result[i] = shape[from++];
  return map_return (call, 0, map_reshape (call, node, result, total, error));
}

gboolean
onnx_map_expand (MapCall *call,
                 GError **error)
{
  RlxNode *node = map_input (call, 0, FALSE, error);
  g_autofree gint64 *shape = NULL;
  g_autofree gint64 *result = NULL;
  const gint64 *is;
  gsize rank, n_dims, n;

  if (node == NULL || (shape = map_input_ints (call, 1, &n_dims, error)) == NULL)
    return FALSE;

  /* both broadcast there: a 1 in the shape keeps the size */
  is = rlx_node_get_shape (node, &rank);
  n = MAX (rank, n_dims);
  result = g_new (gint64, n + 1);
  for (gsize i = 0; i < n; i++)
    {
      gint64 a = i + rank >= n ? is[i + rank - n] : 1;
      gint64 b = i + n_dims >= n ? shape[i + n_dims - n] : 1;

      result[i] = b == 1 ? a : b;
    }
  return map_return (call, 0, map_op1 (call, "expand", node,
                                       map_attrs ("shape", map_ints (result, n), NULL), error));
}

gboolean
onnx_map_slice (MapCall *call,
                GError **error)
{
  static const char *const names[] = { "starts", "ends", "axes", "steps" };
  RlxNode *node = map_input (call, 0, FALSE, error);
  g_auto(GVariantDict) attrs = G_VARIANT_DICT_INIT (NULL);

  if (node == NULL)
    return FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autofree gint64 *values = NULL;
      gboolean present;
      gsize n;

      if (!onnx_get_ints (call, names[i], i + 1, &values, &n, &present, error))
        return FALSE;
      if (present)
        g_variant_dict_insert_value (&attrs, names[i], map_ints (values, n));
    }
  return map_return (call, 0, map_op1 (call, "slice", node, g_variant_dict_end (&attrs), error));
}

gboolean
onnx_map_concat (MapCall *call,
                 GError **error)
{
  g_autoptr(GPtrArray) inputs = g_ptr_array_new ();
  gint64 axis;

  for (guint i = 0; i < map_n_inputs (call); i++)
    {
      RlxNode *node = map_input (call, i, FALSE, error);

      if (node == NULL)
        return FALSE;
      g_ptr_array_add (inputs, node);
    }
  if (!map_arg_int (call, "axis", 1, &axis, error))
    return FALSE;
  return map_return (call, 0, map_op (call, "concat", (RlxNode **) inputs->pdata, inputs->len,
                                      map_attrs ("axis", g_variant_new_int64 (axis), NULL), error));
}

gboolean
onnx_map_tile (MapCall *call,
               GError **error)
{
  RlxNode *node = map_input (call, 0, FALSE, error);
  g_autofree gint64 *repeats = NULL;
  gsize n;

  if (node == NULL || (repeats = map_input_ints (call, 1, &n, error)) == NULL)
    return FALSE;
  return map_return (call, 0, map_op1 (call, "tile", node,
                                       map_attrs ("repetitions", map_ints (repeats, n), NULL), error));
}

gboolean
onnx_map_trilu (MapCall *call,
                GError **error)
{
  RlxNode *node = map_input (call, 0, FALSE, error);
  g_autofree gint64 *diagonal = NULL;
  gboolean upper;
  gsize n = 0;

  if (node == NULL || !map_arg_bool (call, "upper", TRUE, &upper, error))
    return FALSE;
  if (map_has_input (call, 1) && (diagonal = map_input_ints (call, 1, &n, error)) == NULL)
    return FALSE;
  return map_return (call, 0, map_op1 (call, "triangular", node,
                                       map_attrs ("upper", g_variant_new_boolean (upper),
                                                  "diagonal", g_variant_new_int64 (n > 0 ? diagonal[0] : 0), NULL),
                                       error));
}

/* ---- values known beforehand ------------------------------------------------------------- */

static gboolean
return_ints (MapCall      *call,
             const gint64 *shape,
             gsize         n_dims,
             const gint64 *values,
             gsize         n_values,
             GError      **error)
{
  g_autoptr(RlxTensor) tensor = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I64, shape, n_dims, values, n_values, error);

  return tensor != NULL && map_return (call, 0, map_constant (call, tensor, error));
}

gboolean
onnx_map_shape (MapCall *call,
                GError **error)
{
  RlxNode *node = map_input (call, 0, FALSE, error);
  g_autofree gint64 *shape = NULL;
  gint64 start, end, n_dims;
  gsize rank;

  if (node == NULL)
    return FALSE;
  shape = onnx_copy_shape (node, &rank);
  n_dims = (gint64) rank;
  if (!map_arg_int (call, "start", 0, &start, error) ||
      !map_arg_int (call, "end", n_dims, &end, error))
    return FALSE;
  start = CLAMP (start < 0 ? start + n_dims : start, 0, n_dims);
  end = CLAMP (end < 0 ? end + n_dims : end, start, n_dims);
  return return_ints (call, (gint64[]) { end - start }, 1, shape + start, (gsize) (end - start), error);
}

gboolean
onnx_map_size (MapCall *call,
               GError **error)
{
  RlxNode *node = map_input (call, 0, FALSE, error);
  const gint64 *shape;
  gsize n_dims;

  if (node == NULL)
    return FALSE;
  shape = rlx_node_get_shape (node, &n_dims);
  return return_ints (call, NULL, 0, (gint64[]) { onnx_product (shape, 0, n_dims) }, 1, error);
}

/* The tensor of an attribute {"tensor": TENSOR}; NULL without an error when absent. */
static RlxTensor *
get_tensor (MapCall    *call,
            const char *name,
            GError    **error)
{
  JsonNode *node = map_arg (call, name);
  g_autoptr(CaseTensor) tensor = NULL;

  if (node == NULL)
    return NULL;
  if (JSON_NODE_HOLDS_OBJECT (node))
    node = json_object_get_member (json_node_get_object (node), "tensor");
  if (node == NULL || (tensor = case_tensor_parse (name, node, error)) == NULL)
    {
      if (node == NULL)
        map_refused (error, "%s: attribute “%s” is not a tensor", call->op->name, name);
      return NULL;
    }
  return case_tensor_to_rlx (tensor, error);
}

gboolean
onnx_map_constant (MapCall *call,
                   GError **error)
{
  g_autoptr(RlxTensor) tensor = NULL;
  JsonNode *node;

  if (map_arg (call, "value") != NULL)
    {
      tensor = get_tensor (call, "value", error);
      return tensor != NULL && map_return (call, 0, map_constant (call, tensor, error));
    }
  if ((node = map_arg (call, "value_int")) != NULL || (node = map_arg (call, "value_ints")) != NULL)
    {
      g_autofree gint64 *values = NULL;
      gsize n = 1;

      if (JSON_NODE_HOLDS_ARRAY (node))
        {
          values = map_arg_ints (call, "value_ints", &n, error);
          return values != NULL && return_ints (call, (gint64[]) { (gint64) n }, 1, values, n, error);
        }
      values = g_new0 (gint64, 1);
      return map_arg_int (call, "value_int", 0, values, error) &&
             return_ints (call, NULL, 0, values, 1, error);
    }
  if ((node = map_arg (call, "value_float")) != NULL || (node = map_arg (call, "value_floats")) != NULL)
    {
      JsonArray *array = JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;
      gint64 n = array != NULL ? json_array_get_length (array) : 1;
      g_autofree float *values = g_new0 (float, n + 1);

      for (gint64 i = 0; i < n; i++)
        {
          double value;

          if (!case_number_to_double (array != NULL ? json_array_get_element (array, (guint) i) : node, &value))
            return map_refused (error, "Constant: value %" G_GINT64_FORMAT " is not a number", i);
          values[i] = (float) value;
        }
      tensor = rlx_tensor_new_from_floats (&n, array != NULL ? 1 : 0, values, (gsize) n, error);
      return tensor != NULL && map_return (call, 0, map_constant (call, tensor, error));
    }
  return map_unsupported (error, "a Constant that is not a tensor of numbers");
}

gboolean
onnx_map_constant_of_shape (MapCall *call,
                            GError **error)
{
  g_autofree gint64 *shape = NULL;
  g_autoptr(RlxTensor) value = NULL;
  g_autoptr(RlxTensor) scalar = NULL;
  RlxNode *node;
  gsize n_dims;

  shape = map_input_ints (call, 0, &n_dims, error);
  if (shape == NULL)
    return FALSE;
  if (map_arg (call, "value") != NULL)
    value = get_tensor (call, "value", error);
  else
    value = rlx_tensor_new_scalar (RLX_DATA_TYPE_F32, 0, error);
  if (value == NULL || (scalar = rlx_tensor_reshape (value, NULL, 0, error)) == NULL)
    return FALSE;
  node = map_constant (call, scalar, error);
  return node != NULL && map_return (call, 0, map_op1 (call, "expand", node,
                                                       map_attrs ("shape", map_ints (shape, n_dims), NULL), error));
}

gboolean
onnx_map_dropout (MapCall *call,
                  GError **error)
{
  RlxNode *node = map_input (call, 0, FALSE, error);
  g_autofree gint64 *training = NULL;
  g_autoptr(RlxTensor) ratio = NULL;
  gboolean test;
  gsize n = 0;

  if (node == NULL || !map_arg_bool (call, "is_test", FALSE, &test, error))
    return FALSE;
  if ((map_has_input (call, 2) && (training = map_input_ints (call, 2, &n, error)) == NULL) ||
      (map_has_input (call, 1) && (ratio = map_input_value (call, 1, error)) == NULL))
    return FALSE;
  if ((call->opset < 7 && !test) ||
      (n > 0 && training[0] != 0 &&
       (ratio == NULL || rlx_tensor_get_n_elements (ratio) != 1 || rlx_tensor_get_value (ratio, 0) != 0)))
    return map_unsupported (error, "Dropout in training");

  /* nothing is dropped */
  if (map_wants_output (call, 1))
    {
      g_autoptr(RlxTensor) kept = rlx_tensor_new_scalar (RLX_DATA_TYPE_BOOL, 1, error);
      RlxNode *mask = kept != NULL ? map_constant (call, kept, error) : NULL;
      gsize n_dims;
      const gint64 *shape = rlx_node_get_shape (node, &n_dims);

      if (mask == NULL ||
          !map_return (call, 1, map_op1 (call, "expand", mask, map_attrs ("shape", map_ints (shape, n_dims), NULL), error)))
        return FALSE;
    }
  return map_return (call, 0, map_op1 (call, "identity", node, NULL, error));
}
