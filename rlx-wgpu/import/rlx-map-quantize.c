/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "import/rlx-map-private.h"

#include "util/rlx-data-type-private.h"

/* Quantises or dequantises; @to is the integer type that quantising results in. */
static RlxNode *
add_op (RlxMapCall   *call,
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

  if (g_str_equal (call->row->op, "quantize_linear"))
    g_variant_dict_insert_value (&attrs, "to", rlx_map_data_type (to));
  if (n_blocks > 0)
    g_variant_dict_insert_value (&attrs, "blocks", rlx_map_ints (blocks, n_blocks));
  return rlx_map_op (call, call->row->op, inputs, zero != NULL ? 3 : 2, g_variant_dict_end (&attrs), error);
}

/* A data type given by an attribute; 0 means that there is none. */
static gboolean
get_data_type (RlxMapCall  *call,
               const char  *name,
               RlxDataType *data_type,
               GError     **error)
{
  gint64 number;

  if (!rlx_map_arg_int (call, name, 0, &number, error))
    return FALSE;
  return number == 0 || rlx_map_arg_data_type (call, name, *data_type, data_type, error);
}

gboolean
rlx_onnx_map_quantize (RlxMapCall *call,
                       GError    **error)
{
  gboolean back = g_str_equal (call->row->op, "dequantize_linear");
  RlxNode *x = rlx_map_input (call, 0, FALSE, error);
  RlxNode *scale = x != NULL ? rlx_map_input (call, 1, FALSE, error) : NULL;
  RlxNode *zero = NULL;
  RlxNode *result;
  g_autofree gint64 *shape = NULL;
  g_autofree gint64 *scale_shape = NULL;
  gint64 blocks[RLX_MAX_DIMS];
  gsize n_dims, scale_rank, n_blocks = 0, at = 0;
  gint64 axis, block_size;
  RlxDataType to, precision;
  gboolean saturates = TRUE;

  if (scale == NULL || (!back && !rlx_map_arg_bool (call, "saturate", TRUE, &saturates, error)))
    return FALSE;
  if (rlx_map_has_input (call, 2))
    {
      zero = rlx_map_input (call, 2, FALSE, error);
      if (zero == NULL)
        return FALSE;
    }
  to = back ? rlx_node_get_data_type (scale) : zero != NULL ? rlx_node_get_data_type (zero) : RLX_DATA_TYPE_U8;
  precision = rlx_node_get_data_type (scale);
  if (!rlx_map_arg_int (call, "axis", 1, &axis, error) ||
      !rlx_map_arg_int (call, "block_size", 0, &block_size, error) ||
      !get_data_type (call, "precision", &precision, error) ||
      !get_data_type (call, "output_dtype", &to, error))
    return FALSE;
  /* The precision of the quotient, which is f32 here. */
  if (precision != rlx_node_get_data_type (scale) && precision != RLX_DATA_TYPE_F32)
    return rlx_map_unsupported (error, "%s with a quotient of type %s", call->node->op, rlx_data_type_to_string (precision));

  shape = rlx_map_copy_shape (x, &n_dims);
  scale_shape = rlx_map_copy_shape (scale, &scale_rank);
  if (rlx_map_product (scale_shape, 0, scale_rank) == 1 && block_size == 0)
    {
      scale = rlx_map_reshape (call, scale, NULL, 0, error);
      if (zero != NULL)
        zero = rlx_map_reshape (call, zero, NULL, 0, error);
    }
  else
    {
      /* a vector has only one axis, whatever the attribute says */
      if (n_dims == 1)
        axis = 0;
      if (!rlx_map_normalise_axis (call, axis, n_dims, n_dims - 1, &at, error))
        return FALSE;
      if (block_size == 0 && scale_rank == 1)
        {
          gint64 along[RLX_MAX_DIMS];

          for (gsize i = 0; i < n_dims; i++)
            along[i] = i == at ? scale_shape[0] : 1;
          if (scale_shape[0] != shape[at])
            return rlx_map_refused (error, "%s: %" G_GINT64_FORMAT " scales for the %" G_GINT64_FORMAT " places of an axis",
                                    call->node->op, scale_shape[0], shape[at]);
          scale = rlx_map_reshape (call, scale, along, n_dims, error);
          if (zero != NULL)
            zero = rlx_map_reshape (call, zero, along, n_dims, error);
        }
      else if (block_size > 0)
        {
          n_blocks = n_dims;
          for (gsize i = 0; i < n_dims; i++)
            blocks[i] = i == at ? block_size : 1;
        }
    }
  if (scale == NULL || (rlx_map_has_input (call, 2) && zero == NULL))
    return FALSE;

  if (rlx_data_type_is_narrow (rlx_node_get_data_type (x)) || rlx_data_type_is_narrow (to))
    return rlx_map_return (call, 0, rlx_map_quantize_narrow (call, x, scale, zero, to, n_blocks > 0 ? (gssize) at : -1, block_size, saturates, error));
  result = add_op (call, x, scale, zero, to, blocks, n_blocks, error);
  if (result != NULL && back && rlx_node_get_data_type (result) != to)
    result = rlx_map_cast (call, result, to, error);
  return rlx_map_return (call, 0, result);
}

/* Input @index; with @rows, a vector becomes a column. NULL without an error if it is absent. */
static RlxNode *
get_factor (RlxMapCall *call,
            guint       index,
            gboolean    rows,
            GError    **error)
{
  RlxNode *node = rlx_map_has_input (call, index) ? rlx_map_input (call, index, FALSE, error) : NULL;
  const gint64 *shape;
  gsize n_dims;

  if (node == NULL)
    return NULL;
  shape = rlx_node_get_shape (node, &n_dims);
  if (n_dims == 1 && shape[0] == 1)
    return rlx_map_reshape (call, node, NULL, 0, error);
  if (n_dims == 1 && rows)
    return rlx_map_reshape (call, node, (gint64[]) { shape[0], 1 }, 2, error);
  return node;
}

/* As above, but for a required input. */
static RlxNode *
get_needed (RlxMapCall *call,
            guint       index,
            gboolean    rows,
            GError    **error)
{
  if (!rlx_map_has_input (call, index))
    {
      rlx_map_refused (error, "%s: input %u is missing", call->node->op, index);
      return NULL;
    }
  return get_factor (call, index, rows, error);
}

/* As above, but for a scale: it is multiplied as f32 even if it is f16. */
static RlxNode *
get_scale (RlxMapCall *call,
           guint       index,
           gboolean    rows,
           GError    **error)
{
  return rlx_map_cast (call, get_needed (call, index, rows, error), RLX_DATA_TYPE_F32, error);
}

/* Optional inputs that are absent are NULL; FALSE on error. */
static gboolean
get_optional (RlxMapCall *call,
              guint       index,
              gboolean    rows,
              RlxNode   **node,
              GError    **error)
{
  *node = NULL;
  if (!rlx_map_has_input (call, index))
    return TRUE;
  *node = get_factor (call, index, rows, error);
  return *node != NULL;
}

/* A vector is a row as the first operand and a column as the second. */
static RlxNode *
get_matrix (RlxMapCall *call,
            guint       index,
            gboolean    second,
            gboolean   *vector,
            GError    **error)
{
  RlxNode *node = rlx_map_input (call, index, FALSE, error);
  const gint64 *shape;
  gsize n_dims;

  if (node == NULL)
    return NULL;
  shape = rlx_node_get_shape (node, &n_dims);
  *vector = n_dims == 1;
  if (n_dims != 1)
    return node;
  return rlx_map_reshape (call, node, (gint64[]) { second ? shape[0] : 1, second ? 1 : shape[0] }, 2, error);
}

/* Removes the dimensions that were added to vectors. */
static RlxNode *
drop_vectors (RlxMapCall *call,
              RlxNode    *node,
              gboolean    first,
              gboolean    second,
              GError    **error)
{
  g_autofree gint64 *shape = NULL;
  gsize n_dims, n = 0;

  if (node == NULL || (!first && !second))
    return node;
  shape = rlx_map_copy_shape (node, &n_dims);
  for (gsize i = 0; i < n_dims; i++)
    if (!(first && i == n_dims - 2) && !(second && i == n_dims - 1))
      shape[n++] = shape[i];
  return rlx_map_reshape (call, node, shape, n, error);
}

/* What follows a product of integers. */
typedef struct
{
  RlxNode *bias, *scale, *scale_y, *zero_y;
  gboolean transpose_b;
} Product;

/* @inputs are the operands and their zero points. */
static RlxNode *
add_product (RlxMapCall    *call,
             RlxNode      **inputs,
             const Product *product,
             GError       **error)
{
  RlxNode *all[8] = { inputs[0], inputs[1], inputs[2], inputs[3], product->bias, product->scale, product->scale_y, product->zero_y };
  RlxDataType to = product->scale == NULL ? RLX_DATA_TYPE_I32 : product->scale_y == NULL ? RLX_DATA_TYPE_F32
                   : product->zero_y != NULL ? rlx_node_get_data_type (product->zero_y) : RLX_DATA_TYPE_U8;

  return rlx_map_op (call, "qmatmul", all, 8,
                     rlx_map_attrs ("to", rlx_map_data_type (to), "transpose_b", g_variant_new_boolean (product->transpose_b), NULL), error);
}

static gboolean
is_vector (RlxNode *node)
{
  return node == NULL || rlx_node_get_n_dims (node) <= 1;
}

/* Requantises step by step, for operators with scales per row or per matrix of a stack. */
static RlxNode *
requantize (RlxMapCall *call,
            RlxNode    *sum,
            RlxNode    *scale,
            RlxNode    *scale_y,
            RlxNode    *zero_y,
            GError    **error)
{
  RlxDataType to = zero_y != NULL ? rlx_node_get_data_type (zero_y) : RLX_DATA_TYPE_U8;
  RlxNode *node = rlx_map_op2 (call, "dequantize_linear", sum, scale, NULL, error);

  if (node == NULL || scale_y == NULL)
    return node;
  return rlx_map_op (call, "quantize_linear", (RlxNode *[]) { node, scale_y, zero_y }, zero_y != NULL ? 3 : 2,
                     rlx_map_attrs ("to", rlx_map_data_type (to), NULL), error);
}

/* MatMulInteger and QLinearMatMul. */
gboolean
rlx_onnx_map_qmatmul (RlxMapCall *call,
                      GError    **error)
{
  gboolean rescaled = g_str_equal (call->node->op, "QLinearMatMul"), first, second;
  RlxNode *inputs[4], *scale_a, *scale_b, *node;
  Product product = { NULL, };

  inputs[0] = get_matrix (call, 0, FALSE, &first, error);
  inputs[1] = inputs[0] != NULL ? get_matrix (call, rescaled ? 3 : 1, TRUE, &second, error) : NULL;
  if (inputs[1] == NULL ||
      !get_optional (call, 2, TRUE, &inputs[2], error) ||
      !get_optional (call, rescaled ? 5 : 3, FALSE, &inputs[3], error))
    return FALSE;
  if (!rescaled)
    return rlx_map_return (call, 0, drop_vectors (call, add_product (call, inputs, &product, error), first, second, error));

  scale_a = get_scale (call, 1, TRUE, error);
  scale_b = scale_a != NULL ? get_scale (call, 4, FALSE, error) : NULL;
  product.scale_y = scale_b != NULL ? get_scale (call, 6, TRUE, error) : NULL;
  product.zero_y = product.scale_y != NULL ? get_needed (call, 7, TRUE, error) : NULL;
  product.scale = product.zero_y != NULL ? rlx_map_op2 (call, "mul", scale_a, scale_b, NULL, error) : NULL;
  if (product.scale == NULL)
    return FALSE;
  if (is_vector (product.scale) && rlx_node_get_n_dims (product.scale_y) == 0 && rlx_node_get_n_dims (product.zero_y) == 0)
    {
      node = add_product (call, inputs, &product, error);
    }
  else
    {
      node = add_product (call, inputs, &(Product) { NULL, }, error);
      if (node != NULL)
        node = requantize (call, node, product.scale, product.scale_y, product.zero_y, error);
    }
  return rlx_map_return (call, 0, drop_vectors (call, node, first, second, error));
}

/* Y = alpha · scale_a · scale_b · (A · B + C), quantised or not. */
gboolean
rlx_onnx_map_qgemm (RlxMapCall *call,
                    GError    **error)
{
  RlxNode *inputs[4], *scale_a, *scale_b, *bias, *node;
  Product product = { NULL, };
  gboolean transpose_a, transpose_b;
  double alpha;

  if (!rlx_map_arg_bool (call, "transA", FALSE, &transpose_a, error) ||
      !rlx_map_arg_bool (call, "transB", FALSE, &transpose_b, error) ||
      !rlx_map_arg_double (call, "alpha", 1, &alpha, error))
    return FALSE;
  inputs[0] = rlx_map_input (call, 0, FALSE, error);
  inputs[1] = inputs[0] != NULL ? rlx_map_input (call, 3, FALSE, error) : NULL;
  if (inputs[1] != NULL && transpose_a)
    inputs[0] = rlx_map_op1 (call, "transpose", inputs[0], rlx_map_attrs ("permutation", rlx_map_ints ((gint64[]) { 1, 0 }, 2), NULL), error);
  if (inputs[1] == NULL || inputs[0] == NULL ||
      !get_optional (call, 2, FALSE, &inputs[2], error) ||
      !get_optional (call, 5, transpose_b, &inputs[3], error) ||
      !get_optional (call, 6, FALSE, &bias, error) ||
      !get_optional (call, 7, FALSE, &product.scale_y, error) ||
      !get_optional (call, 8, FALSE, &product.zero_y, error))
    return FALSE;
  scale_a = get_scale (call, 1, FALSE, error);
  scale_b = scale_a != NULL ? get_scale (call, 4, FALSE, error) : NULL;
  product.scale = scale_b != NULL ? rlx_map_op2 (call, "mul", scale_a, scale_b, NULL, error) : NULL;
  if (product.scale != NULL && alpha != 1)
    {
      float value = (float) alpha;
      g_autoptr(GBytes) bytes = g_bytes_new (&value, sizeof value);
      g_autoptr(RlxTensor) tensor = rlx_tensor_new_from_bytes (RLX_DATA_TYPE_F32, NULL, 0, bytes, error);
      RlxNode *factor = tensor != NULL ? rlx_map_constant (call, tensor, error) : NULL;

      product.scale = factor != NULL ? rlx_map_op2 (call, "mul", product.scale, factor, NULL, error) : NULL;
    }
  if (product.scale == NULL)
    return FALSE;
  product.transpose_b = transpose_b;
  if (is_vector (bias))
    {
      product.bias = bias;
      return rlx_map_return (call, 0, add_product (call, inputs, &product, error));
    }
  node = add_product (call, inputs, &(Product) { .transpose_b = transpose_b }, error);
  if (node != NULL)
    node = rlx_map_op2 (call, "add", node, bias, NULL, error);
  return node != NULL &&
         rlx_map_return (call, 0, requantize (call, node, product.scale, product.scale_y, product.zero_y, error));
}

/* MatMulIntegerToFloat, and DynamicQuantizeMatMul, which quantises its first
 * operand itself. */
gboolean
rlx_onnx_map_qmatmul_float (RlxMapCall *call,
                            GError    **error)
{
  gboolean dynamic = g_str_equal (call->node->op, "DynamicQuantizeMatMul");
  RlxNode *inputs[4], *scale_a = NULL, *scale_b, *bias, *node;
  Product product = { NULL, };
  RlxDataType to = RLX_DATA_TYPE_F32;

  inputs[0] = rlx_map_input (call, 0, FALSE, error);
  inputs[1] = inputs[0] != NULL ? rlx_map_input (call, 1, FALSE, error) : NULL;
  if (inputs[1] == NULL)
    return FALSE;
  if (dynamic)
    {
      g_autofree RlxNode **results = NULL;
      gsize n;

      results = rlx_map_add_op (call, "dynamic_quantize", inputs, 1, NULL, &n, error);
      if (results == NULL)
        return FALSE;
      inputs[0] = results[0];
      scale_a = results[1];
      inputs[2] = results[2];
    }
  else
    {
      scale_a = get_needed (call, 2, TRUE, error);
      if (scale_a != NULL)
        to = rlx_node_get_data_type (scale_a);
      scale_a = rlx_map_cast (call, scale_a, RLX_DATA_TYPE_F32, error);
    }
  scale_b = scale_a != NULL ? get_scale (call, dynamic ? 2 : 3, FALSE, error) : NULL;
  product.scale = scale_b != NULL ? rlx_map_op2 (call, "mul", scale_a, scale_b, NULL, error) : NULL;
  if (product.scale == NULL ||
      (!dynamic && !get_optional (call, 4, TRUE, &inputs[2], error)) ||
      !get_optional (call, dynamic ? 3 : 5, FALSE, &inputs[3], error) ||
      !get_optional (call, dynamic ? 4 : 6, FALSE, &bias, error) ||
      (bias != NULL && (bias = rlx_map_cast (call, bias, RLX_DATA_TYPE_F32, error)) == NULL))
    return FALSE;
  if (is_vector (product.scale) && is_vector (bias))
    {
      product.bias = bias;
      return rlx_map_return (call, 0, rlx_map_cast (call, add_product (call, inputs, &product, error), to, error));
    }
  node = add_product (call, inputs, &(Product) { NULL, }, error);
  if (node != NULL)
    node = requantize (call, node, product.scale, NULL, NULL, error);
  if (node != NULL && bias != NULL)
    node = rlx_map_op2 (call, "add", node, bias, NULL, error);
  return rlx_map_return (call, 0, rlx_map_cast (call, node, to, error));
}
