/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The operators of WebNN. Where its rules are narrower than the op table's (no
 * negative axes, ranges that must lie inside, fewer data types), the call is
 * refused here, as a browser in front of the library would.
 */
#include "config.h"

#include "map.h"
#include "map-index.h"
#include "map-norm.h"
#include "map-quantize.h"
#include "map-recurrent.h"
#include "map-window.h"

#include <math.h>

/* Converts a number for a tensor of that type like a WebNN cast: BigInts are for 64-bit
 * integers only, integers truncate and saturate. */
gboolean
webnn_get_number (MapCall    *call,
                  const char *name,
                  RlxDataType data_type,
                  double      fallback,
                  double     *value,
                  GError    **error)
{
  static const struct { double least; double greatest; } ranges[] = {
    [RLX_DATA_TYPE_I32] = { G_MININT32, G_MAXINT32 },
    [RLX_DATA_TYPE_U32] = { 0, G_MAXUINT32 },
    [RLX_DATA_TYPE_I8] = { G_MININT8, G_MAXINT8 },
    [RLX_DATA_TYPE_U8] = { 0, G_MAXUINT8 },
    [RLX_DATA_TYPE_BOOL] = { 0, 1 },
    [RLX_DATA_TYPE_I64] = { -0x1p63, 0x1p63 },
    [RLX_DATA_TYPE_U64] = { 0, 0x1p64 },
    [RLX_DATA_TYPE_I4] = { -8, 7 },
    [RLX_DATA_TYPE_U4] = { 0, 15 },
  };

  if (!map_arg_double (call, name, fallback, value, error))
    return FALSE;
  if (case_number_is_string (map_arg (call, name)) &&
      data_type != RLX_DATA_TYPE_I64 && data_type != RLX_DATA_TYPE_U64)
    return map_refused (error, "%s: argument “%s” is a BigInt, the operand is %s", call->op->name, name,
                        rlx_data_type_to_string (data_type));
  if (map_arg (call, name) != NULL && data_type != RLX_DATA_TYPE_F32 && data_type != RLX_DATA_TYPE_F16 &&
      isfinite (*value))
    *value = CLAMP (trunc (*value), ranges[data_type].least, ranges[data_type].greatest);
  return TRUE;
}

/* A WebIDL double is finite. */
static gboolean
get_finite (MapCall    *call,
            const char *name,
            double      fallback,
            double     *value,
            GError    **error)
{
  if (!map_arg_double (call, name, fallback, value, error))
    return FALSE;
  if (isinf (*value))
    return map_refused (error, "%s: argument “%s” is not finite", call->op->name, name);
  return TRUE;
}

static gboolean
map_clamp (MapCall *call,
           GError **error)
{
  RlxNode *input = map_operand (call, "input", FALSE, error);
  double minimum, maximum;

  if (input == NULL ||
      !webnn_get_number (call, "minValue", rlx_node_get_data_type (input), -INFINITY, &minimum, error) ||
      !webnn_get_number (call, "maxValue", rlx_node_get_data_type (input), INFINITY, &maximum, error))
    return FALSE;

  /* NaN as a bound has no effect */
  if (isnan (minimum))
    minimum = -INFINITY;
  if (isnan (maximum))
    maximum = INFINITY;
  return map_return (call, 0, map_op1 (call, "clamp", input,
                                       map_attrs ("minimum", g_variant_new_double (minimum),
                                                  "maximum", g_variant_new_double (maximum), NULL),
                                       error));
}

static gboolean
map_concat (MapCall *call,
            GError **error)
{
  JsonNode *list = map_arg (call, "inputs");
  g_autoptr(GPtrArray) inputs = g_ptr_array_new ();
  gint64 axis;

  if (list == NULL || !JSON_NODE_HOLDS_ARRAY (list))
    return map_refused (error, "concat: argument “inputs” is not a list");
  for (guint i = 0; i < json_array_get_length (json_node_get_array (list)); i++)
    {
      RlxNode *node = map_operand_node (call, json_array_get_element (json_node_get_array (list), i), "inputs", error);

      if (node == NULL)
        return FALSE;
      g_ptr_array_add (inputs, node);
    }
  if (!map_arg_int (call, "axis", -1, &axis, error))
    return FALSE;
  if (axis < 0)
    return map_refused (error, "concat: the axis is %" G_GINT64_FORMAT, axis);
  return map_return (call, 0, map_op (call, "concat", (RlxNode **) inputs->pdata, inputs->len,
                                      map_attrs ("axis", g_variant_new_int64 (axis), NULL), error));
}

static gboolean
map_gather (MapCall *call,
            GError **error)
{
  RlxNode *input = map_operand (call, "input", FALSE, error);
  RlxNode *indices = input != NULL ? map_operand (call, "indices", FALSE, error) : NULL;
  gint64 axis;

  if (indices == NULL || !map_arg_int (call, "axis", 0, &axis, error))
    return FALSE;
  if (!(TYPES_INDEX & 1u << rlx_node_get_data_type (indices)))
    return map_refused (error, "%s: indices of %s are not allowed", call->op->name,
                        rlx_data_type_to_string (rlx_node_get_data_type (indices)));
  if (axis < 0)
    return map_refused (error, "%s: the axis is %" G_GINT64_FORMAT, call->op->name, axis);
  /* WebNN wants indices out of range to be clamped to the axis, constant or not. */
  return map_return (call, 0, map_op2 (call, call->mapping->op, input, indices,
                                       map_attrs ("axis", g_variant_new_int64 (axis), "clamp", g_variant_new_boolean (TRUE), NULL), error));
}

static gboolean
map_matmul (MapCall *call,
            GError **error)
{
  RlxNode *a = map_operand (call, "a", FALSE, error);
  RlxNode *b = a != NULL ? map_operand (call, "b", FALSE, error) : NULL;

  if (b == NULL)
    return FALSE;
  if (rlx_node_get_n_dims (a) < 2 || rlx_node_get_n_dims (b) < 2)
    return map_refused (error, "matmul: the operands have %u and %u dimensions, at least 2 are needed",
                        rlx_node_get_n_dims (a), rlx_node_get_n_dims (b));
  return map_return (call, 0, map_op2 (call, "matmul", a, b, NULL, error));
}

static gboolean
map_gemm (MapCall *call,
          GError **error)
{
  RlxNode *a = map_operand (call, "a", FALSE, error);
  RlxNode *b = a != NULL ? map_operand (call, "b", FALSE, error) : NULL;
  RlxNode *c = NULL;
  gboolean transpose_a, transpose_b;
  double alpha, beta;

  if (b == NULL)
    return FALSE;
  if (map_arg (call, "c") != NULL)
    {
      c = map_operand (call, "c", FALSE, error);
      if (c == NULL)
        return FALSE;
    }
  if (rlx_node_get_n_dims (a) != 2 || rlx_node_get_n_dims (b) != 2)
    return map_refused (error, "gemm: the operands have %u and %u dimensions, not 2",
                        rlx_node_get_n_dims (a), rlx_node_get_n_dims (b));
  if (!map_arg_bool (call, "aTranspose", FALSE, &transpose_a, error) ||
      !map_arg_bool (call, "bTranspose", FALSE, &transpose_b, error) ||
      !get_finite (call, "alpha", 1, &alpha, error) ||
      !get_finite (call, "beta", 1, &beta, error))
    return FALSE;
  return map_return (call, 0, map_op (call, "linear", (RlxNode *[]) { a, b, c }, 3,
                                      map_attrs ("transpose_a", g_variant_new_boolean (transpose_a),
                                                 "transpose_b", g_variant_new_boolean (transpose_b),
                                                 "alpha", g_variant_new_double (alpha),
                                                 "beta", g_variant_new_double (beta), NULL),
                                      error));
}

static gboolean
map_layer_normalization (MapCall *call,
                         GError **error)
{
  RlxNode *input = map_operand (call, "input", FALSE, error);
  RlxNode *scale = NULL;
  RlxNode *bias = NULL;
  g_autofree gint64 *axes = NULL;
  gsize n_axes = 0;
  double epsilon;

  if (input == NULL || !get_finite (call, "epsilon", 1e-5, &epsilon, error))
    return FALSE;
  if (map_arg (call, "scale") != NULL && (scale = map_operand (call, "scale", FALSE, error)) == NULL)
    return FALSE;
  if (map_arg (call, "bias") != NULL && (bias = map_operand (call, "bias", FALSE, error)) == NULL)
    return FALSE;

  if (map_arg (call, "axes") != NULL)
    {
      axes = map_arg_ints (call, "axes", &n_axes, error);
      if (axes == NULL)
        return FALSE;
      for (gsize i = 0; i < n_axes; i++)
        if (axes[i] < 0)
          return map_refused (error, "layerNormalization: the axis %" G_GINT64_FORMAT " is negative", axes[i]);
    }
  else
    {
      guint n_dims = rlx_node_get_n_dims (input);

      axes = g_new0 (gint64, n_dims + 1);
      for (guint i = 1; i < n_dims; i++)
        axes[n_axes++] = i;
    }
  return map_return (call, 0, map_op (call, "layer_norm", (RlxNode *[]) { input, scale, bias }, 3,
                                      map_attrs ("axes", map_ints (axes, n_axes),
                                                 "epsilon", g_variant_new_double (epsilon), NULL),
                                      error));
}

static gboolean
map_prelu (MapCall *call,
           GError **error)
{
  RlxNode *input = map_operand (call, "input", FALSE, error);
  RlxNode *slope = input != NULL ? map_operand (call, "slope", FALSE, error) : NULL;

  return slope != NULL && map_return (call, 0, map_op2_onto (call, "prelu", input, slope, error));
}

static gboolean
map_slice (MapCall *call,
           GError **error)
{
  RlxNode *input = map_operand (call, "input", FALSE, error);
  g_autofree gint64 *starts = NULL;
  g_autofree gint64 *sizes = NULL;
  g_autofree gint64 *strides = NULL;
  const gint64 *shape;
  gsize n_dims, n_starts, n_sizes, n_strides = 0;

  if (input == NULL)
    return FALSE;
  shape = rlx_node_get_shape (input, &n_dims);
  starts = map_arg_ints (call, "starts", &n_starts, error);
  if (starts == NULL)
    return FALSE;
  sizes = map_arg_ints (call, "sizes", &n_sizes, error);
  if (sizes == NULL)
    return FALSE;
  if (map_arg (call, "strides") != NULL)
    {
      strides = map_arg_ints (call, "strides", &n_strides, error);
      if (strides == NULL)
        return FALSE;
    }
  else
    {
      n_strides = n_dims;
      strides = g_new (gint64, n_dims + 1);
      for (gsize i = 0; i < n_dims; i++)
        strides[i] = 1;
    }

  if (n_starts != n_dims || n_sizes != n_dims || n_strides != n_dims)
    return map_refused (error, "slice: there are %" G_GSIZE_FORMAT " starts, %" G_GSIZE_FORMAT " sizes and %"
                        G_GSIZE_FORMAT " strides for %" G_GSIZE_FORMAT " dimensions",
                        n_starts, n_sizes, n_strides, n_dims);
  for (gsize i = 0; i < n_dims; i++)
    {
      if (starts[i] < 0 || sizes[i] < 1 || starts[i] > shape[i] || sizes[i] > shape[i] - starts[i])
        return map_refused (error, "slice: %" G_GINT64_FORMAT " elements from %" G_GINT64_FORMAT
                            " are not within the %" G_GINT64_FORMAT " of dimension %" G_GSIZE_FORMAT,
                            sizes[i], starts[i], shape[i], i);
      /* The draft requires at least 1, browsers also a step within the window. */
      if (strides[i] < 1 || strides[i] > sizes[i])
        return map_refused (error, "slice: the stride %" G_GINT64_FORMAT " of dimension %" G_GSIZE_FORMAT
                            " is not within the %" G_GINT64_FORMAT " elements", strides[i], i, sizes[i]);
      sizes[i] += starts[i];
    }
  return map_return (call, 0, map_op1 (call, "slice", input,
                                       map_attrs ("starts", map_ints (starts, n_dims),
                                                  "ends", map_ints (sizes, n_dims),
                                                  "steps", map_ints (strides, n_dims), NULL),
                                       error));
}

static gboolean
map_softmax (MapCall *call,
             GError **error)
{
  RlxNode *input = map_operand (call, "input", FALSE, error);
  gint64 axis;

  if (input == NULL || !map_arg_int (call, "axis", 1, &axis, error))
    return FALSE;
  if (map_arg (call, "axis") == NULL && rlx_node_get_n_dims (input) != 2)
    return map_refused (error, "softmax: without an axis the input has %u dimensions, not 2",
                        rlx_node_get_n_dims (input));
  if (axis < 0)
    return map_refused (error, "softmax: the axis is %" G_GINT64_FORMAT, axis);
  return map_return (call, 0, map_op1 (call, "softmax", input,
                                       map_attrs ("axis", g_variant_new_int64 (axis), NULL), error));
}

static gboolean
map_transpose (MapCall *call,
               GError **error)
{
  RlxNode *input = map_operand (call, "input", FALSE, error);
  g_autofree gint64 *permutation = NULL;
  gsize n_values = 0;

  if (input == NULL)
    return FALSE;
  if (map_arg (call, "permutation") != NULL)
    {
      permutation = map_arg_ints (call, "permutation", &n_values, error);
      if (permutation == NULL)
        return FALSE;
      if (n_values != rlx_node_get_n_dims (input))
        return map_refused (error, "transpose: the permutation has %" G_GSIZE_FORMAT " values for %u dimensions",
                            n_values, rlx_node_get_n_dims (input));
      for (gsize i = 0; i < n_values; i++)
        if (permutation[i] < 0)
          return map_refused (error, "transpose: %" G_GINT64_FORMAT " in the permutation is negative", permutation[i]);
    }
  /* none: both the operator table and WebNN reverse the axes */
  return map_return (call, 0, map_op1 (call, "transpose", input,
                                       map_attrs ("permutation", map_ints (permutation, n_values), NULL), error));
}

static gboolean
map_where (MapCall *call,
           GError **error)
{
  RlxNode *condition = map_operand (call, "condition", FALSE, error);
  RlxNode *if_true = condition != NULL ? map_operand (call, "trueValue", FALSE, error) : NULL;
  RlxNode *if_false = if_true != NULL ? map_operand (call, "falseValue", FALSE, error) : NULL;

  if (if_false == NULL)
    return FALSE;
  /* others are left for the library to reject */
  if (rlx_node_get_data_type (condition) == RLX_DATA_TYPE_U8)
    condition = map_cast (call, condition, RLX_DATA_TYPE_BOOL, error);
  if (condition == NULL)
    return FALSE;
  return map_return (call, 0, map_op (call, "where", (RlxNode *[]) { condition, if_true, if_false }, 3, NULL, error));
}

static gboolean
map_arg_extreme (MapCall *call,
                 GError **error)
{
  RlxNode *input = map_operand (call, "input", FALSE, error);
  const char *type;
  gboolean keep_dims;
  gint64 axis;
  RlxNode *result;

  if (input == NULL ||
      !map_arg_int (call, "axis", -1, &axis, error) ||
      !map_arg_bool (call, "keepDimensions", FALSE, &keep_dims, error))
    return FALSE;
  if (axis < 0)
    return map_refused (error, "%s: the axis is %" G_GINT64_FORMAT, call->op->name, axis);
  type = map_arg_string (call, "outputDataType", error);
  if (map_arg (call, "outputDataType") != NULL && type == NULL)
    return FALSE;
  result = map_op1 (call, call->mapping->op, input,
                    map_attrs ("axis", g_variant_new_int64 (axis),
                               "keep_dims", g_variant_new_boolean (keep_dims), NULL),
                    error);
  return map_return (call, 0, map_cast (call, result,
                                        g_strcmp0 (type, "int64") == 0 ? RLX_DATA_TYPE_I64 : RLX_DATA_TYPE_I32,
                                        error));
}

#define UNARY(foreign, ours, set) ROW (foreign, ours, .operands = "input", .types = set)
#define BINARY(foreign, ours) ROW (foreign, ours, .operands = "a b")
#define COMPARE(foreign, ours) ROW (foreign, ours, .operands = "a b", .flags = MAP_TO_U8)
#define REDUCE(foreign, ours, set) \
  ROW (foreign, ours, .operands = "input", .attrs = "axes/X keepDimensions:keep_dims/b=0", .types = set)

const Mapping mappings_webnn[] = {
  BINARY ("add", "add"),
  BINARY ("sub", "sub"),
  BINARY ("mul", "mul"),
  BINARY ("div", "div"),
  BINARY ("max", "max"),
  BINARY ("min", "min"),
  BINARY ("pow", "pow"),

  COMPARE ("equal", "equal"),
  COMPARE ("notEqual", "not_equal"),
  COMPARE ("greater", "greater"),
  COMPARE ("greaterOrEqual", "greater_equal"),
  COMPARE ("lesser", "less"),
  COMPARE ("lesserOrEqual", "less_equal"),
  ROW ("logicalNot", "logical_not", .operands = "a", .flags = MAP_FROM_U8 | MAP_TO_U8),
  ROW ("logicalAnd", "logical_and", .operands = "a b", .flags = MAP_FROM_U8 | MAP_TO_U8),
  ROW ("logicalOr", "logical_or", .operands = "a b", .flags = MAP_FROM_U8 | MAP_TO_U8),
  ROW ("logicalXor", "logical_xor", .operands = "a b", .flags = MAP_FROM_U8 | MAP_TO_U8),
  ROW ("isNaN", "is_nan", .operands = "input", .flags = MAP_TO_U8),
  ROW ("isInfinite", "is_inf", .operands = "input", .flags = MAP_TO_U8),

  UNARY ("abs", "abs", TYPES_SIGNED),
  UNARY ("ceil", "ceil", 0),
  UNARY ("cos", "cos", 0),
  UNARY ("erf", "erf", 0),
  UNARY ("exp", "exp", 0),
  UNARY ("floor", "floor", 0),
  UNARY ("identity", "identity", 0),
  UNARY ("log", "log", 0),
  UNARY ("neg", "neg", TYPES_SIGNED),
  UNARY ("reciprocal", "reciprocal", 0),
  UNARY ("roundEven", "round_even", 0),
  UNARY ("sign", "sign", TYPES_SIGNED),
  UNARY ("sin", "sin", 0),
  UNARY ("sqrt", "sqrt", 0),
  UNARY ("tan", "tan", 0),
  UNARY ("tanh", "tanh", 0),
  UNARY ("sigmoid", "sigmoid", 0),
  UNARY ("relu", "relu", TYPES_SIGNED),
  UNARY ("gelu", "gelu", 0),
  UNARY ("hardSwish", "hard_swish", 0),
  UNARY ("softplus", "softplus", 0),
  UNARY ("softsign", "softsign", 0),
  ROW ("elu", "elu", .operands = "input", .attrs = "alpha/d=1"),
  ROW ("leakyRelu", "leaky_relu", .operands = "input", .attrs = "alpha/d=0.01"),
  ROW ("hardSigmoid", "hard_sigmoid", .operands = "input", .attrs = "alpha/d=0.2 beta/d=0.5"),
  ROW ("linear", "affine", .operands = "input", .attrs = "alpha/d=1 beta/d=0"),
  ROW ("prelu", "prelu", .func = map_prelu),
  ROW ("clamp", "clamp", .func = map_clamp),
  ROW ("cast", "cast", .operands = "input", .attrs = "type:to/t"),
  ROW ("where", "where", .func = map_where),
  ROW ("quantizeLinear", "quantize_linear", .func = webnn_map_quantize),
  ROW ("dequantizeLinear", "dequantize_linear", .func = webnn_map_quantize),

  ROW ("matmul", "matmul", .func = map_matmul),
  ROW ("gemm", "linear", .func = map_gemm),
  ROW ("conv2d", "conv", .func = webnn_map_conv),
  ROW ("convTranspose2d", "conv_transpose", .func = webnn_map_conv_transpose),
  ROW ("averagePool2d", "average_pool", .func = webnn_map_pool),
  ROW ("l2Pool2d", "l2_pool", .func = webnn_map_pool),
  ROW ("maxPool2d", "max_pool", .func = webnn_map_pool),
  ROW ("lstm", "lstm", .func = webnn_map_recurrent),
  ROW ("lstmCell", "lstm_cell", .func = webnn_map_recurrent),
  ROW ("gru", "gru", .func = webnn_map_recurrent),
  ROW ("gruCell", "gru_cell", .func = webnn_map_recurrent),
  ROW ("softmax", "softmax", .func = map_softmax),
  ROW ("layerNormalization", "layer_norm", .func = map_layer_normalization),
  ROW ("batchNormalization", "batch_norm", .func = webnn_map_batch_norm),
  ROW ("instanceNormalization", "instance_norm", .func = webnn_map_instance_norm),

  REDUCE ("reduceSum", "reduce_sum", TYPES_WIDE),
  REDUCE ("reduceMean", "reduce_mean", 0),
  REDUCE ("reduceMax", "reduce_max", 0),
  REDUCE ("reduceMin", "reduce_min", 0),
  REDUCE ("reduceProduct", "reduce_prod", TYPES_WIDE),
  REDUCE ("reduceL1", "reduce_l1", TYPES_WIDE),
  REDUCE ("reduceL2", "reduce_l2", TYPES_FLOAT),
  REDUCE ("reduceLogSum", "reduce_log_sum", TYPES_FLOAT),
  REDUCE ("reduceLogSumExp", "reduce_log_sum_exp", TYPES_FLOAT),
  REDUCE ("reduceSumSquare", "reduce_sum_square", TYPES_WIDE),
  ROW ("argMax", "arg_max", .func = map_arg_extreme),
  ROW ("argMin", "arg_min", .func = map_arg_extreme),
  ROW ("cumulativeSum", "cumsum", .operands = "input", .attrs = "axis/u exclusive/b=0 reversed:reverse/b=0", .types = TYPES_WIDE),

  ROW ("reshape", "reshape", .operands = "input", .attrs = "newShape:shape/U"),
  ROW ("expand", "expand", .operands = "input", .attrs = "newShape:shape/U"),
  ROW ("transpose", "transpose", .func = map_transpose),
  ROW ("slice", "slice", .func = map_slice),
  ROW ("concat", "concat", .func = map_concat),
  ROW ("tile", "tile", .func = webnn_map_tile),
  ROW ("pad", "pad", .func = webnn_map_pad),
  ROW ("split", "split", .func = webnn_map_split),
  ROW ("resample2d", "resize", .func = webnn_map_resample),
  ROW ("reverse", "reverse", .operands = "input", .attrs = "axes/X"),
  ROW ("triangular", "triangular", .operands = "input", .attrs = "upper/b=1 diagonal/i=0"),
  ROW ("gather", "gather", .func = map_gather),
  ROW ("gatherElements", "gather_elements", .func = webnn_map_gather_elements),
  ROW ("gatherND", "gather_nd", .func = webnn_map_gather_nd),
  ROW ("scatterElements", "scatter_elements", .func = webnn_map_scatter),
  ROW ("scatterND", "scatter_nd", .func = webnn_map_scatter),
  { .name = NULL }
};
