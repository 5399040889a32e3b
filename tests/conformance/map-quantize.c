/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "map-quantize.h"
#include "map-onnx.h"

/* Either direction; @to is the type of the integers that quantising gives. */
static RlxNode *
add_op (MapCall      *call,
        RlxNode      *x,
        RlxNode      *scale,
        RlxNode      *zero,
        RlxDataType   to,
        const gint64 *blocks,
        gsize         n_blocks,
        GError      **error)
{
  RlxNode *inputs[] = { x, scale, zero };
  g_auto(GVariantDict) attrs = G_VARIANT_DICT_INIT (NULL);

  if (g_str_equal (call->mapping->op, "quantize_linear"))
    g_variant_dict_insert_value (&attrs, "to", map_data_type (to));
  if (n_blocks > 0)
    g_variant_dict_insert_value (&attrs, "blocks", map_ints (blocks, n_blocks));
  return map_op (call, call->mapping->op, inputs, zero != NULL ? 3 : 2, g_variant_dict_end (&attrs), error);
}

gboolean
webnn_map_quantize (MapCall *call,
                    GError **error)
{
  RlxNode *x = map_operand (call, "input", FALSE, error);
  RlxNode *scale = x != NULL ? map_operand (call, "scale", FALSE, error) : NULL;
  RlxNode *zero = scale != NULL ? map_operand (call, "zeroPoint", FALSE, error) : NULL;
  RlxDataType type;

  if (zero == NULL)
    return FALSE;
  type = rlx_node_get_data_type (x);
  if (rlx_node_get_n_dims (scale) != rlx_node_get_n_dims (x))
    return map_refused (error, "%s: the scale has %u dimensions, the input %u", call->op->name,
                        rlx_node_get_n_dims (scale), rlx_node_get_n_dims (x));
  if (g_str_equal (call->mapping->op, "quantize_linear") &&
      (!(TYPES_FLOAT >> type & 1) || rlx_node_get_data_type (scale) != type))
    return map_refused (error, "%s: the input is of type %s, the scale of type %s", call->op->name,
                        rlx_data_type_to_string (type), rlx_data_type_to_string (rlx_node_get_data_type (scale)));
  return map_return (call, 0, add_op (call, x, scale, zero, rlx_node_get_data_type (zero), NULL, 0, error));
}

/* A type that is an attribute; 0 means that there is none. */
static gboolean
get_data_type (MapCall     *call,
               const char  *name,
               RlxDataType *data_type,
               GError     **error)
{
  static const struct { gint64 number; RlxDataType data_type; } types[] = {
    { 1, RLX_DATA_TYPE_F32 }, { 10, RLX_DATA_TYPE_F16 }, { 2, RLX_DATA_TYPE_U8 }, { 3, RLX_DATA_TYPE_I8 },
    { 6, RLX_DATA_TYPE_I32 }, { 21, RLX_DATA_TYPE_U4 }, { 22, RLX_DATA_TYPE_I4 },
  };
  gint64 number;

  if (!map_arg_int (call, name, 0, &number, error))
    return FALSE;
  if (number == 0)
    return TRUE;
  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    if (types[i].number == number)
      {
        *data_type = types[i].data_type;
        return TRUE;
      }
  return map_unsupported (error, "%s: ONNX data type %" G_GINT64_FORMAT, call->op->name, number);
}

gboolean
onnx_map_quantize (MapCall *call,
                   GError **error)
{
  gboolean back = g_str_equal (call->mapping->op, "dequantize_linear");
  RlxNode *x = map_input (call, 0, FALSE, error);
  RlxNode *scale = x != NULL ? map_input (call, 1, FALSE, error) : NULL;
  RlxNode *zero = NULL;
  RlxNode *result;
  g_autofree gint64 *shape = NULL;
  g_autofree gint64 *scale_shape = NULL;
  gint64 blocks[RLX_MAX_RANK];
  gsize rank, scale_rank, n_blocks = 0, at = 0;
  gint64 axis, block_size;
  RlxDataType to;

  if (scale == NULL)
    return FALSE;
  if (map_has_input (call, 2))
    {
      zero = map_input (call, 2, FALSE, error);
      if (zero == NULL)
        return FALSE;
    }
  to = back ? rlx_node_get_data_type (scale) : zero != NULL ? rlx_node_get_data_type (zero) : RLX_DATA_TYPE_U8;
  if (!map_arg_int (call, "axis", 1, &axis, error) ||
      !map_arg_int (call, "block_size", 0, &block_size, error) ||
      !get_data_type (call, "output_dtype", &to, error))
    return FALSE;

  shape = onnx_copy_shape (x, &rank);
  scale_shape = onnx_copy_shape (scale, &scale_rank);
  if (onnx_product (scale_shape, 0, scale_rank) == 1 && block_size == 0)
    {
      scale = map_reshape (call, scale, NULL, 0, error);
      if (zero != NULL)
        zero = map_reshape (call, zero, NULL, 0, error);
    }
  else
    {
      /* a vector has one axis, whatever its number is said to be */
      if (rank == 1)
        axis = 0;
      if (!onnx_normalise_axis (call, axis, rank, rank - 1, &at, error))
        return FALSE;
      if (block_size == 0 && scale_rank == 1)
        {
          gint64 along[RLX_MAX_RANK];

          for (gsize i = 0; i < rank; i++)
            along[i] = i == at ? scale_shape[0] : 1;
          if (scale_shape[0] != shape[at])
            return map_refused (error, "%s: %" G_GINT64_FORMAT " scales for the %" G_GINT64_FORMAT " places of an axis",
                                call->op->name, scale_shape[0], shape[at]);
          scale = map_reshape (call, scale, along, rank, error);
          if (zero != NULL)
            zero = map_reshape (call, zero, along, rank, error);
        }
      else if (block_size > 0)
        {
          n_blocks = rank;
          for (gsize i = 0; i < rank; i++)
            blocks[i] = i == at ? block_size : 1;
        }
    }
  if (scale == NULL || (map_has_input (call, 2) && zero == NULL))
    return FALSE;

  result = add_op (call, x, scale, zero, to, blocks, n_blocks, error);
  if (result != NULL && back && rlx_node_get_data_type (result) != to)
    result = map_cast (call, result, to, error);
  return map_return (call, 0, result);
}

/* Input @index; a list of several numbers is a column when @rows. NULL without an
 * error when it is absent. */
static RlxNode *
get_factor (MapCall *call,
            guint    index,
            gboolean rows,
            GError **error)
{
  RlxNode *node = map_has_input (call, index) ? map_input (call, index, FALSE, error) : NULL;
  const gint64 *shape;
  gsize rank;

  if (node == NULL)
    return NULL;
  shape = rlx_node_get_shape (node, &rank);
  if (rank == 1 && shape[0] == 1)
    return map_reshape (call, node, NULL, 0, error);
  if (rank == 1 && rows)
    return map_reshape (call, node, (gint64[]) { shape[0], 1 }, 2, error);
  return node;
}

gboolean
onnx_map_qmatmul (MapCall *call,
                  GError **error)
{
  gboolean rescaled = g_str_equal (call->op->name, "QLinearMatMul");
  RlxNode *inputs[4], *scale_a, *scale_b, *scale_y, *zero_y, *node;
  GError *local = NULL;

  inputs[0] = map_input (call, 0, FALSE, &local);
  inputs[1] = local == NULL ? map_input (call, rescaled ? 3 : 1, FALSE, &local) : NULL;
  inputs[2] = local == NULL ? get_factor (call, 2, TRUE, &local) : NULL;
  inputs[3] = local == NULL ? get_factor (call, rescaled ? 5 : 3, FALSE, &local) : NULL;
  if (local != NULL)
    {
      g_propagate_error (error, local);
      return FALSE;
    }
  node = map_op (call, "qmatmul", inputs, 4, NULL, error);
  if (node == NULL || !rescaled)
    return map_return (call, 0, node);

  scale_a = get_factor (call, 1, TRUE, error);
  scale_b = scale_a != NULL ? get_factor (call, 4, FALSE, error) : NULL;
  scale_y = scale_b != NULL ? get_factor (call, 6, TRUE, error) : NULL;
  zero_y = scale_y != NULL ? get_factor (call, 7, TRUE, error) : NULL;
  if (zero_y == NULL)
    return FALSE;
  scale_a = map_op2 (call, "mul", scale_a, scale_b, NULL, error);
  if (scale_a != NULL)
    node = map_op2 (call, "dequantize_linear", node, scale_a, NULL, error);
  if (scale_a == NULL || node == NULL)
    return FALSE;
  return map_return (call, 0, map_op (call, "quantize_linear", (RlxNode *[]) { node, scale_y, zero_y }, 3,
                                      map_attrs ("to", map_data_type (rlx_node_get_data_type (zero_y)), NULL), error));
}
