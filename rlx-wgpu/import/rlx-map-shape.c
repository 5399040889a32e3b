/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The operators of ONNX that are about shapes, and values known beforehand.
 */
#include "config.h"

#include "import/rlx-map-private.h"

/* ---- shapes ------------------------------------------------------------------------ */

gboolean
rlx_onnx_map_reshape (RlxMapCall *call,
                      GError    **error)
{
  RlxNode *node = rlx_map_input (call, 0, FALSE, error);
  g_autofree gint64 *shape = NULL;
  const gint64 *is;
  gboolean allow_zero, present;
  gsize rank, n_dims;

  if (node == NULL ||
      !rlx_map_arg_bool (call, "allowzero", FALSE, &allow_zero, error) ||
      !rlx_map_get_ints (call, "shape", 1, &shape, &n_dims, &present, error))
    return FALSE;
  if (!present)
    return rlx_map_refused (error, "Reshape: there is no shape");
  is = rlx_node_get_shape (node, &rank);
  for (gsize i = 0; i < n_dims && !allow_zero; i++)
    if (shape[i] == 0)
      {
        if (i >= rank)
          return rlx_map_refused (error, "Reshape: dimension %" G_GSIZE_FORMAT " is to be kept, but there are %"
                                  G_GSIZE_FORMAT, i, rank);
        shape[i] = is[i];
      }
  return rlx_map_return (call, 0, rlx_map_reshape (call, node, shape, n_dims, error));
}

gboolean
rlx_onnx_map_flatten (RlxMapCall *call,
                      GError    **error)
{
  RlxNode *node = rlx_map_input (call, 0, FALSE, error);
  const gint64 *shape;
  gsize n_dims, place;
  gint64 axis;

  if (node == NULL || !rlx_map_arg_int (call, "axis", 1, &axis, error))
    return FALSE;
  shape = rlx_node_get_shape (node, &n_dims);
  if (!rlx_map_normalise_axis (call, axis, n_dims, n_dims, &place, error))
    return FALSE;
  return rlx_map_return (call, 0, rlx_map_reshape (call, node,
                                                   (gint64[]) { rlx_map_product (shape, 0, place), rlx_map_product (shape, place, n_dims) },
                                                   2, error));
}

gboolean
rlx_onnx_map_squeeze (RlxMapCall *call,
                      GError    **error)
{
  RlxNode *node = rlx_map_input (call, 0, FALSE, error);
  g_autofree gint64 *axes = NULL;
  g_autofree gint64 *result = NULL;
  g_autofree gboolean *drop = NULL;
  const gint64 *shape;
  gsize n_dims, n_axes, n = 0;
  gboolean present;

  if (node == NULL || !rlx_map_get_ints (call, "axes", 1, &axes, &n_axes, &present, error))
    return FALSE;
  shape = rlx_node_get_shape (node, &n_dims);
  drop = g_new0 (gboolean, n_dims + 1);
  for (gsize i = 0; i < n_axes; i++)
    {
      gsize place;

      if (!rlx_map_normalise_axis (call, axes[i], n_dims, n_dims - 1, &place, error))
        return FALSE;
      drop[place] = TRUE;
    }
  result = g_new (gint64, n_dims + 1);
  for (gsize i = 0; i < n_dims; i++)
    if (present ? !drop[i] : shape[i] != 1)
      result[n++] = shape[i];
    else if (shape[i] != 1)
      return rlx_map_refused (error, "Squeeze: dimension %" G_GSIZE_FORMAT " is %" G_GINT64_FORMAT, i, shape[i]);
  return rlx_map_return (call, 0, rlx_map_reshape (call, node, result, n, error));
}

gboolean
rlx_onnx_map_unsqueeze (RlxMapCall *call,
                        GError    **error)
{
  RlxNode *node = rlx_map_input (call, 0, FALSE, error);
  g_autofree gint64 *axes = NULL;
  g_autofree gint64 *result = NULL;
  const gint64 *shape;
  gsize n_dims, n_axes, total, from = 0;
  gboolean present;

  if (node == NULL || !rlx_map_get_ints (call, "axes", 1, &axes, &n_axes, &present, error))
    return FALSE;
  if (!present)
    return rlx_map_refused (error, "Unsqueeze: there are no axes");
  shape = rlx_node_get_shape (node, &n_dims);
  total = n_dims + n_axes;
  result = g_new0 (gint64, total + 1);
  for (gsize i = 0; i < n_axes; i++)
    {
      gsize place;

      if (!rlx_map_normalise_axis (call, axes[i], total, total - 1, &place, error))
        return FALSE;
      if (result[place] != 0)
        return rlx_map_refused (error, "Unsqueeze: the axis %" G_GINT64_FORMAT " comes twice", axes[i]);
      result[place] = 1;
    }
  /* sizes may be 0, so new axes are recognised by what was set above */
  for (gsize i = 0; i < total; i++)
    if (result[i] == 0)
      result[i] = shape[from++];
  return rlx_map_return (call, 0, rlx_map_reshape (call, node, result, total, error));
}

gboolean
rlx_onnx_map_expand (RlxMapCall *call,
                     GError    **error)
{
  RlxNode *node = rlx_map_input (call, 0, FALSE, error);
  g_autofree gint64 *shape = NULL;
  g_autofree gint64 *result = NULL;
  const gint64 *is;
  gsize rank, n_dims, n;

  if (node == NULL || (shape = rlx_map_input_ints (call, 1, &n_dims, error)) == NULL)
    return FALSE;

  /* both broadcast in ONNX: a 1 in the shape keeps the size */
  is = rlx_node_get_shape (node, &rank);
  n = MAX (rank, n_dims);
  result = g_new (gint64, n + 1);
  for (gsize i = 0; i < n; i++)
    {
      gint64 a = i + rank >= n ? is[i + rank - n] : 1;
      gint64 b = i + n_dims >= n ? shape[i + n_dims - n] : 1;

      result[i] = b == 1 ? a : b;
    }
  return rlx_map_return (call, 0, rlx_map_op1 (call, "expand", node,
                                               rlx_map_attrs ("shape", rlx_map_ints (result, n), NULL), error));
}

gboolean
rlx_onnx_map_slice (RlxMapCall *call,
                    GError    **error)
{
  static const char *const names[] = { "starts", "ends", "axes", "steps" };
  RlxNode *node = rlx_map_input (call, 0, FALSE, error);
  g_auto(GVariantDict) attrs = G_VARIANT_DICT_INIT (NULL);

  if (node == NULL)
    return FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autofree gint64 *values = NULL;
      gboolean present;
      gsize n;

      if (!rlx_map_get_ints (call, names[i], i + 1, &values, &n, &present, error))
        return FALSE;
      if (present)
        g_variant_dict_insert_value (&attrs, names[i], rlx_map_ints (values, n));
    }
  return rlx_map_return (call, 0, rlx_map_op1 (call, "slice", node, g_variant_dict_end (&attrs), error));
}

gboolean
rlx_onnx_map_concat (RlxMapCall *call,
                     GError    **error)
{
  g_autoptr(GPtrArray) inputs = g_ptr_array_new ();
  gint64 axis;

  for (guint i = 0; i < rlx_map_n_inputs (call); i++)
    {
      RlxNode *node = rlx_map_input (call, i, FALSE, error);

      if (node == NULL)
        return FALSE;
      g_ptr_array_add (inputs, node);
    }
  if (!rlx_map_arg_int (call, "axis", 1, &axis, error))
    return FALSE;
  return rlx_map_return (call, 0, rlx_map_op (call, "concat", (RlxNode **) inputs->pdata, inputs->len,
                                              rlx_map_attrs ("axis", g_variant_new_int64 (axis), NULL), error));
}

gboolean
rlx_onnx_map_tile (RlxMapCall *call,
                   GError    **error)
{
  RlxNode *node = rlx_map_input (call, 0, FALSE, error);
  g_autofree gint64 *repeats = NULL;
  gsize n;

  if (node == NULL || (repeats = rlx_map_input_ints (call, 1, &n, error)) == NULL)
    return FALSE;
  return rlx_map_return (call, 0, rlx_map_op1 (call, "tile", node,
                                               rlx_map_attrs ("repetitions", rlx_map_ints (repeats, n), NULL), error));
}

gboolean
rlx_onnx_map_trilu (RlxMapCall *call,
                    GError    **error)
{
  RlxNode *node = rlx_map_input (call, 0, FALSE, error);
  g_autofree gint64 *diagonal = NULL;
  gboolean upper;
  gsize n = 0;

  if (node == NULL || !rlx_map_arg_bool (call, "upper", TRUE, &upper, error))
    return FALSE;
  if (rlx_map_has_input (call, 1) && (diagonal = rlx_map_input_ints (call, 1, &n, error)) == NULL)
    return FALSE;
  return rlx_map_return (call, 0, rlx_map_op1 (call, "triangular", node,
                                               rlx_map_attrs ("upper", g_variant_new_boolean (upper),
                                                              "diagonal", g_variant_new_int64 (n > 0 ? diagonal[0] : 0), NULL),
                                               error));
}

/* ---- values known beforehand ------------------------------------------------------------- */

gboolean
rlx_onnx_map_constant (RlxMapCall *call,
                       GError    **error)
{
  g_autoptr(RlxTensor) tensor = NULL;

  if (rlx_map_arg (call, "value") != NULL)
    {
      tensor = rlx_map_arg_tensor (call, "value", error);
    }
  else if (rlx_map_arg (call, "value_int") != NULL)
    {
      gint64 value;

      if (!rlx_map_arg_int (call, "value_int", 0, &value, error))
        return FALSE;
      tensor = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I64, NULL, 0, &value, 1, error);
    }
  else if (rlx_map_arg (call, "value_ints") != NULL)
    {
      gsize n;
      g_autofree gint64 *values = rlx_map_arg_ints (call, "value_ints", &n, error);

      if (values == NULL)
        return FALSE;
      tensor = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I64, (gint64[]) { (gint64) n }, 1, values, n, error);
    }
  else if (rlx_map_arg (call, "value_float") != NULL)
    {
      double value;

      if (!rlx_map_arg_double (call, "value_float", 0, &value, error))
        return FALSE;
      tensor = rlx_tensor_new_scalar (RLX_DATA_TYPE_F32, value, error);
    }
  else if (rlx_map_arg (call, "value_floats") != NULL)
    {
      gsize n;
      g_autofree float *values = rlx_map_arg_floats (call, "value_floats", &n, error);

      if (values == NULL)
        return FALSE;
      tensor = rlx_tensor_new_from_floats ((gint64[]) { (gint64) n }, 1, values, n, error);
    }
  else
    {
      return rlx_map_unsupported (error, "its value is not a tensor of numbers");
    }
  return rlx_map_return_tensor (call, 0, tensor);
}

gboolean
rlx_onnx_map_constant_of_shape (RlxMapCall *call,
                                GError    **error)
{
  g_autofree gint64 *shape = NULL;
  g_autoptr(RlxTensor) value = NULL;
  g_autoptr(RlxTensor) scalar = NULL;
  RlxNode *node;
  gsize n_dims;

  shape = rlx_map_input_ints (call, 0, &n_dims, error);
  if (shape == NULL)
    return FALSE;
  if (rlx_map_arg (call, "value") != NULL)
    value = rlx_map_arg_tensor (call, "value", error);
  else
    value = rlx_tensor_new_scalar (RLX_DATA_TYPE_F32, 0, error);
  if (value == NULL || (scalar = rlx_tensor_reshape (value, NULL, 0, error)) == NULL)
    return FALSE;
  node = rlx_map_constant (call, scalar, error);
  return node != NULL && rlx_map_return (call, 0, rlx_map_op1 (call, "expand", node,
                                                               rlx_map_attrs ("shape", rlx_map_ints (shape, n_dims), NULL), error));
}

gboolean
rlx_onnx_map_dropout (RlxMapCall *call,
                      GError    **error)
{
  RlxNode *node = rlx_map_input (call, 0, FALSE, error);
  g_autofree gint64 *training = NULL;
  g_autoptr(RlxTensor) ratio = NULL;
  gboolean test;
  gsize n = 0;

  if (node == NULL || !rlx_map_arg_bool (call, "is_test", FALSE, &test, error))
    return FALSE;
  if ((rlx_map_has_input (call, 2) && (training = rlx_map_input_ints (call, 2, &n, error)) == NULL) ||
      (rlx_map_has_input (call, 1) && (ratio = rlx_map_input_value (call, 1, error)) == NULL))
    return FALSE;
  if ((call->opset < 7 && !test) ||
      (n > 0 && training[0] != 0 &&
       (ratio == NULL || rlx_tensor_get_n_elements (ratio) != 1 || rlx_tensor_get_value (ratio, 0) != 0)))
    return rlx_map_unsupported (error, "Dropout in training");

  /* inference drops nothing */
  if (rlx_map_wants_output (call, 1))
    {
      g_autoptr(RlxTensor) kept = rlx_tensor_new_scalar (RLX_DATA_TYPE_BOOL, 1, error);
      RlxNode *mask = kept != NULL ? rlx_map_constant (call, kept, error) : NULL;
      gsize n_dims;
      const gint64 *shape = rlx_node_get_shape (node, &n_dims);

      if (mask == NULL ||
          !rlx_map_return (call, 1, rlx_map_op1 (call, "expand", mask, rlx_map_attrs ("shape", rlx_map_ints (shape, n_dims), NULL), error)))
        return FALSE;
    }
  return rlx_map_return (call, 0, rlx_map_op1 (call, "identity", node, NULL, error));
}
