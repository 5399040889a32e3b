/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The operators of ONNX, and those ONNX Runtime adds. What is an input there
 * but an attribute here (axes, shapes, bounds) is read from the case.
 */
#include "config.h"

#include "import/rlx-map-private.h"

#include <math.h>
#include <string.h>

gint64
rlx_map_product (const gint64 *values,
                 gsize         first,
                 gsize         end)
{
  gint64 result = 1;

  for (gsize i = first; i < end; i++)
    result *= values[i];
  return result;
}

gint64 *
rlx_map_copy_shape (RlxNode *node,
                    gsize   *n_dims)
{
  const gint64 *shape = rlx_node_get_shape (node, n_dims);
  gint64 *copy = g_new0 (gint64, *n_dims + 1);

  for (gsize i = 0; i < *n_dims; i++)
    copy[i] = shape[i];
  return copy;
}

gboolean
rlx_map_normalise_axis (RlxMapCall *call,
                        gint64      axis,
                        gsize       n_dims,
                        gsize       limit,
                        gsize      *out,
                        GError    **error)
{
  gint64 value = axis < 0 ? axis + (gint64) n_dims : axis;

  *out = 0;
  if (value < 0 || value > (gint64) limit)
    return rlx_map_refused (error, "%s: the axis %" G_GINT64_FORMAT " is beyond %" G_GSIZE_FORMAT " dimensions",
                            call->node->op, axis, n_dims);
  *out = (gsize) value;
  return TRUE;
}

gboolean
rlx_map_get_ints (RlxMapCall *call,
                  const char *name,
                  guint       index,
                  gint64    **values,
                  gsize      *n_values,
                  gboolean   *present,
                  GError    **error)
{
  *n_values = 0;
  *values = NULL;
  *present = TRUE;
  if (rlx_map_arg (call, name) != NULL)
    *values = rlx_map_arg_ints (call, name, n_values, error);
  else if (rlx_map_has_input (call, index))
    *values = rlx_map_input_ints (call, index, n_values, error);
  else
    {
      *present = FALSE;
      return TRUE;
    }
  return *values != NULL;
}

/* ---- element-wise --------------------------------------------------------------- */

/* Before opset 7, operands only broadcast if an attribute said so. */
static gboolean
check_broadcast (RlxMapCall *call,
                 gboolean    same,
                 GError    **error)
{
  gboolean broadcast;

  if (call->opset >= 7)
    return TRUE;
  if (!rlx_map_arg_bool (call, "broadcast", FALSE, &broadcast, error))
    return FALSE;
  if (!same && !broadcast)
    return rlx_map_refused (error, "%s: the operands differ in shape, and do not broadcast before opset 7", call->node->op);
  return TRUE;
}

/* Before opset 7, an attribute gave the axis at which the second operand starts. */
static RlxNode *
align_second (RlxMapCall *call,
              RlxNode    *a,
              RlxNode    *b,
              GError    **error)
{
  g_autofree gint64 *shape = NULL;
  const gint64 *b_shape;
  gsize rank_b, rank_a = rlx_node_get_n_dims (a), axis;
  gint64 argument;

  if (call->opset >= 7)
    return b;
  if (!check_broadcast (call, rlx_map_same_shape (a, b), error))
    return NULL;
  if (rlx_map_arg (call, "axis") == NULL)
    return b;
  b_shape = rlx_node_get_shape (b, &rank_b);
  if (!rlx_map_arg_int (call, "axis", 0, &argument, error) ||
      !rlx_map_normalise_axis (call, argument, rank_a, rank_a, &axis, error))
    return NULL;
  if (axis + rank_b > rank_a)
    {
      rlx_map_refused (error, "%s: the second operand does not fit at axis %" G_GSIZE_FORMAT, call->node->op, axis);
      return NULL;
    }
  shape = g_new (gint64, rank_a + 1);
  for (gsize i = 0; i < rank_a - axis; i++)
    shape[i] = i < rank_b ? b_shape[i] : 1;
  return rlx_map_reshape (call, b, shape, rank_a - axis, error);
}

static gboolean
map_binary (RlxMapCall *call,
            GError    **error)
{
  RlxNode *a = rlx_map_input (call, 0, FALSE, error);
  RlxNode *b = a != NULL ? rlx_map_input (call, 1, FALSE, error) : NULL;

  if (b != NULL)
    b = align_second (call, a, b, error);
  if (b == NULL)
    return FALSE;
  return rlx_map_return (call, 0, call->opset < 7 ? rlx_map_op2_onto (call, call->row->op, a, b, error)
                                              : rlx_map_op2 (call, call->row->op, a, b, NULL, error));
}

/* The slope broadcasts to x; before opset 7, it was a scalar or one number for each channel. */
static gboolean
map_prelu (RlxMapCall *call,
           GError    **error)
{
  RlxNode *x = rlx_map_input (call, 0, FALSE, error);
  RlxNode *slope = x != NULL ? rlx_map_input (call, 1, FALSE, error) : NULL;
  gint64 shape[RLX_MAX_DIMS];
  gsize n_dims = x != NULL ? rlx_node_get_n_dims (x) : 0;

  if (slope != NULL && call->opset < 7 && n_dims > 2 && rlx_node_get_n_dims (slope) == 1)
    {
      for (gsize i = 0; i < n_dims - 1; i++)
        shape[i] = 1;
      shape[0] = rlx_node_get_shape (slope, NULL)[0];
      slope = rlx_map_reshape (call, slope, shape, n_dims - 1, error);
    }
  return slope != NULL && rlx_map_return (call, 0, rlx_map_op2_onto (call, "prelu", x, slope, error));
}

static gboolean
map_pow (RlxMapCall *call,
         GError    **error)
{
  RlxNode *a = rlx_map_input (call, 0, FALSE, error);
  RlxNode *b = a != NULL ? rlx_map_input (call, 1, FALSE, error) : NULL;
  RlxDataType data_type;

  if (b == NULL || (b = align_second (call, a, b, error)) == NULL)
    return FALSE;

  /* in ONNX, the exponent has its own type, and the result the base's */
  data_type = rlx_node_get_data_type (a);
  if (rlx_node_get_data_type (b) != data_type)
    {
      gboolean floats = TYPES_FLOAT & (1u << data_type | 1u << rlx_node_get_data_type (b));

      a = rlx_map_cast (call, a, floats ? RLX_DATA_TYPE_F32 : data_type, error);
      b = a != NULL ? rlx_map_cast (call, b, floats ? RLX_DATA_TYPE_F32 : data_type, error) : NULL;
      if (b == NULL)
        return FALSE;
    }
  return rlx_map_return (call, 0, rlx_map_cast (call, rlx_map_op2 (call, "pow", a, b, NULL, error), data_type, error));
}

static gboolean
map_mod (RlxMapCall *call,
         GError    **error)
{
  RlxNode *a = rlx_map_input (call, 0, FALSE, error);
  RlxNode *b = a != NULL ? rlx_map_input (call, 1, FALSE, error) : NULL;
  gboolean fmod;

  if (b == NULL || !rlx_map_arg_bool (call, "fmod", FALSE, &fmod, error))
    return FALSE;
  return rlx_map_return (call, 0, rlx_map_op2 (call, "mod", a, b,
                                               rlx_map_attrs ("floor", g_variant_new_boolean (!fmod), NULL), error));
}

static gboolean
map_bit_shift (RlxMapCall *call,
               GError    **error)
{
  RlxNode *a = rlx_map_input (call, 0, FALSE, error);
  RlxNode *b = a != NULL ? rlx_map_input (call, 1, FALSE, error) : NULL;
  const char *direction = rlx_map_arg_string (call, "direction", NULL);

  if (b == NULL)
    return FALSE;
  if (g_strcmp0 (direction, "LEFT") != 0 && g_strcmp0 (direction, "RIGHT") != 0)
    return rlx_map_refused (error, "BitShift: the direction is neither LEFT nor RIGHT");
  return rlx_map_return (call, 0, rlx_map_op2 (call, *direction == 'L' ? "shift_left" : "shift_right", a, b, NULL, error));
}

static gboolean
map_mean (RlxMapCall *call,
          GError    **error)
{
  guint n = rlx_map_n_inputs (call);
  RlxNode *sum = rlx_map_input (call, 0, FALSE, error);

  for (guint i = 1; i < n && sum != NULL; i++)
    {
      RlxNode *next = rlx_map_input (call, i, FALSE, error);

      sum = next != NULL ? rlx_map_op2 (call, "add", sum, next, NULL, error) : NULL;
    }
  if (sum == NULL)
    return FALSE;
  return rlx_map_return (call, 0, rlx_map_op1 (call, "affine", sum,
                                               rlx_map_attrs ("alpha", g_variant_new_double (1.0 / n), NULL), error));
}

static gboolean
map_clip (RlxMapCall *call,
          GError    **error)
{
  RlxNode *node = rlx_map_input (call, 0, FALSE, error);
  RlxNode *bound;

  if (node == NULL)
    return FALSE;

  if (rlx_map_arg (call, "min") != NULL || rlx_map_arg (call, "max") != NULL)
    {
      double minimum, maximum;

      if (!rlx_map_arg_double (call, "min", -INFINITY, &minimum, error) ||
          !rlx_map_arg_double (call, "max", INFINITY, &maximum, error))
        return FALSE;
      return rlx_map_return (call, 0, rlx_map_op1 (call, "clamp", node,
                                                   rlx_map_attrs ("minimum", g_variant_new_double (minimum),
                                                                  "maximum", g_variant_new_double (maximum), NULL),
                                                   error));
    }

  /* in ONNX, the bounds are tensors, and may be in the wrong order */
  for (guint i = 1; i <= 2; i++)
    if (rlx_map_has_input (call, i))
      {
        bound = rlx_map_input (call, i, FALSE, error);
        node = bound != NULL ? rlx_map_op2 (call, i == 1 ? "max" : "min", node, bound, NULL, error) : NULL;
        if (node == NULL)
          return FALSE;
      }
  if (!rlx_map_has_input (call, 1) && !rlx_map_has_input (call, 2))
    node = rlx_map_op1 (call, "identity", node, NULL, error);
  return rlx_map_return (call, 0, node);
}

static gboolean
map_gelu (RlxMapCall *call,
          GError    **error)
{
  RlxNode *node = rlx_map_input (call, 0, FALSE, error);
  const char *approximate = rlx_map_arg_string (call, "approximate", NULL);

  if (node == NULL)
    return FALSE;
  return rlx_map_return (call, 0, rlx_map_op1 (call, g_strcmp0 (approximate, "tanh") == 0 ? "gelu_tanh" : "gelu",
                                               node, NULL, error));
}

/* The bias of ONNX Runtime's element-wise operators repeats over all elements, even if it does not match the last dimension. */
static RlxNode *
repeat_bias (RlxMapCall *call,
             RlxNode    *bias,
             RlxNode    *node,
             GError    **error)
{
  g_autofree gint64 *shape = NULL;
  g_autofree gint64 *indices = NULL;
  g_autoptr(RlxTensor) tensor = NULL;
  RlxNode *positions;
  const gint64 *bias_shape;
  gsize n_dims, bias_rank;
  gint64 n;

  shape = rlx_map_copy_shape (node, &n_dims);
  bias_shape = rlx_node_get_shape (bias, &bias_rank);
  if (bias_rank != 1 || bias_shape[0] < 1 || (n_dims > 0 && shape[n_dims - 1] == bias_shape[0]))
    return bias;

  n = rlx_map_product (shape, 0, n_dims);
  if (n > G_MAXUINT16)
    {
      rlx_map_unsupported (error, "%s with a bias that does not fit, on a large tensor", call->node->op);
      return NULL;
    }
  indices = g_new (gint64, n + 1);
  for (gint64 i = 0; i < n; i++)
    indices[i] = i % bias_shape[0];
  tensor = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I32, shape, n_dims, indices, (gsize) n, error);
  if (tensor == NULL || (positions = rlx_map_constant (call, tensor, error)) == NULL)
    return NULL;
  return rlx_map_op2 (call, "gather", bias, positions, rlx_map_attrs ("axis", g_variant_new_int64 (0), NULL), error);
}

/* Applies an operator to the sum of x and an optional bias. */
static gboolean
map_biased (RlxMapCall *call,
            GError    **error)
{
  RlxNode *node = rlx_map_input (call, 0, FALSE, error);

  if (node != NULL && rlx_map_has_input (call, 1))
    {
      RlxNode *bias = rlx_map_input (call, 1, FALSE, error);

      if (bias != NULL)
        bias = repeat_bias (call, bias, node, error);
      node = bias != NULL ? rlx_map_op2 (call, "add", node, bias, NULL, error) : NULL;
    }
  return node != NULL && rlx_map_return (call, 0, rlx_map_op1 (call, call->row->op, node, NULL, error));
}

/* ---- linear algebra and normalisation ------------------------------------------------ */

static gboolean
map_gemm (RlxMapCall *call,
          GError    **error)
{
  RlxNode *a = rlx_map_input (call, 0, FALSE, error);
  RlxNode *b = a != NULL ? rlx_map_input (call, 1, FALSE, error) : NULL;
  RlxNode *c = NULL, *result;
  gboolean transpose_a, transpose_b;
  double alpha, beta;

  if (b == NULL)
    return FALSE;
  if (rlx_map_has_input (call, 2) && (c = rlx_map_input (call, 2, FALSE, error)) == NULL)
    return FALSE;
  if (!rlx_map_arg_bool (call, "transA", FALSE, &transpose_a, error) ||
      !rlx_map_arg_bool (call, "transB", FALSE, &transpose_b, error) ||
      !rlx_map_arg_double (call, "alpha", 1, &alpha, error) ||
      !rlx_map_arg_double (call, "beta", 1, &beta, error))
    return FALSE;
  result = rlx_map_op (call, "linear", (RlxNode *[]) { a, b, c }, 3,
                       rlx_map_attrs ("transpose_a", g_variant_new_boolean (transpose_a),
                                      "transpose_b", g_variant_new_boolean (transpose_b),
                                      "alpha", g_variant_new_double (alpha),
                                      "beta", g_variant_new_double (beta), NULL),
                       error);
  return result != NULL && check_broadcast (call, c == NULL || rlx_map_same_shape (result, c), error) &&
         rlx_map_return (call, 0, result);
}

static gboolean
map_softmax (RlxMapCall *call,
             GError    **error)
{
  RlxNode *node = rlx_map_input (call, 0, FALSE, error);
  g_autofree gint64 *shape = NULL;
  gsize n_dims, place;
  gint64 axis;

  if (node == NULL || !rlx_map_arg_int (call, "axis", call->opset < 13 ? 1 : -1, &axis, error))
    return FALSE;
  if (call->opset >= 13)
    return rlx_map_return (call, 0, rlx_map_op1 (call, call->row->op, node,
                                                 rlx_map_attrs ("axis", g_variant_new_int64 (axis), NULL), error));

  /* over all dimensions from the axis on */
  shape = rlx_map_copy_shape (node, &n_dims);
  if (!rlx_map_normalise_axis (call, axis, n_dims, n_dims, &place, error))
    return FALSE;
  node = rlx_map_reshape (call, node, (gint64[]) { rlx_map_product (shape, 0, place), rlx_map_product (shape, place, n_dims) }, 2, error);
  if (node != NULL)
    node = rlx_map_op1 (call, call->row->op, node, rlx_map_attrs ("axis", g_variant_new_int64 (1), NULL), error);
  return node != NULL && rlx_map_return (call, 0, rlx_map_reshape (call, node, shape, n_dims, error));
}

/* In ONNX, a scale or bias may broadcast to the axes; here it must have their shape. */
static RlxNode *
expand_to (RlxMapCall   *call,
           RlxNode      *node,
           const gint64 *shape,
           gsize         n_dims,
           GError      **error)
{
  gsize n;
  const gint64 *is = rlx_node_get_shape (node, &n);

  if (n == n_dims && (n == 0 || memcmp (is, shape, n * sizeof *shape) == 0))
    return node;
  if (n > n_dims)
    {
      for (gsize i = 0; i < n - n_dims; i++)
        if (is[i] != 1)
          {
            rlx_map_unsupported (error, "%s with a scale of more dimensions than the axes", call->node->op);
            return NULL;
          }
      node = rlx_map_reshape (call, node, is + (n - n_dims), n_dims, error);
      if (node == NULL)
        return NULL;
    }
  return rlx_map_op1 (call, "expand", node, rlx_map_attrs ("shape", rlx_map_ints (shape, n_dims), NULL), error);
}

gboolean
rlx_map_add_statistics (RlxMapCall   *call,
                        RlxNode      *node,
                        const gint64 *axes,
                        gsize         n_axes,
                        double        epsilon,
                        gboolean      rms,
                        GError      **error)
{
  g_autoptr(GVariant) attrs = g_variant_ref_sink (rlx_map_attrs ("axes", rlx_map_ints (axes, n_axes),
                                                                 "keep_dims", g_variant_new_boolean (TRUE), NULL));
  RlxNode *mean, *variance;

  node = rlx_map_cast (call, node, RLX_DATA_TYPE_F32, error);
  mean = node != NULL ? rlx_map_op1 (call, "reduce_mean", node, attrs, error) : NULL;
  if (mean != NULL && !rms)
    node = rlx_map_op2 (call, "sub", node, mean, NULL, error);
  variance = mean != NULL && node != NULL ? rlx_map_op2 (call, "mul", node, node, NULL, error) : NULL;
  if (variance != NULL)
    variance = rlx_map_op1 (call, "reduce_mean", variance, attrs, error);
  if (variance != NULL)
    variance = rlx_map_op1 (call, "affine", variance, rlx_map_attrs ("beta", g_variant_new_double (epsilon), NULL), error);
  return variance != NULL &&
         rlx_map_return (call, 1, mean) &&
         rlx_map_return (call, 2, rlx_map_op1 (call, "rsqrt", variance, NULL, error));
}

static gboolean
map_norm (RlxMapCall *call,
          GError    **error)
{
  RlxNode *inputs[3] = { rlx_map_input (call, 0, FALSE, error), NULL, NULL };
  guint n_inputs = g_str_equal (call->row->op, "rms_norm") ? 2 : 3;
  g_autofree gint64 *shape = NULL;
  g_autofree gint64 *axes = NULL;
  gsize n_dims, place;
  gint64 axis;
  double epsilon;

  if (inputs[0] == NULL ||
      !rlx_map_arg_int (call, "axis", -1, &axis, error) ||
      !rlx_map_arg_double (call, "epsilon", 1e-5, &epsilon, error))
    return FALSE;
  shape = rlx_map_copy_shape (inputs[0], &n_dims);
  if (!rlx_map_normalise_axis (call, axis, n_dims, n_dims, &place, error))
    return FALSE;
  axes = g_new (gint64, n_dims + 1);
  for (gsize i = place; i < n_dims; i++)
    axes[i - place] = (gint64) i;

  for (guint i = 1; i < n_inputs; i++)
    if (rlx_map_has_input (call, i))
      {
        inputs[i] = rlx_map_input (call, i, FALSE, error);
        if (inputs[i] != NULL)
          inputs[i] = expand_to (call, inputs[i], shape + place, n_dims - place, error);
        if (inputs[i] == NULL)
          return FALSE;
      }
  if ((rlx_map_wants_output (call, 1) || rlx_map_wants_output (call, 2)) &&
      !rlx_map_add_statistics (call, inputs[0], axes, n_dims - place, epsilon, FALSE, error))
    return FALSE;
  return rlx_map_return (call, 0, rlx_map_op (call, call->row->op, inputs, n_inputs,
                                              rlx_map_attrs ("axes", rlx_map_ints (axes, n_dims - place),
                                                             "epsilon", g_variant_new_double (epsilon), NULL),
                                              error));
}

/* ---- reductions ------------------------------------------------------------------ */

static gboolean
map_reduce (RlxMapCall *call,
            GError    **error)
{
  RlxNode *node = rlx_map_input (call, 0, FALSE, error);
  g_autofree gint64 *axes = NULL;
  gboolean keep_dims, noop, present, is_bool;
  gsize n_axes;

  if (node == NULL ||
      !rlx_map_arg_bool (call, "keepdims", TRUE, &keep_dims, error) ||
      !rlx_map_arg_bool (call, "noop_with_empty_axes", FALSE, &noop, error) ||
      !rlx_map_get_ints (call, "axes", 1, &axes, &n_axes, &present, error))
    return FALSE;
  if (n_axes == 0 && !noop)
    {
      n_axes = rlx_node_get_n_dims (node);
      g_free (axes);
      axes = g_new (gint64, n_axes + 1);
      for (gsize i = 0; i < n_axes; i++)
        axes[i] = (gint64) i;
    }

  /* minimum and maximum of booleans are computed with 0 and 1 */
  is_bool = rlx_node_get_data_type (node) == RLX_DATA_TYPE_BOOL;
  if (is_bool)
    node = rlx_map_cast (call, node, RLX_DATA_TYPE_U8, error);
  if (node != NULL)
    node = rlx_map_op1 (call, call->row->op, node,
                        rlx_map_attrs ("axes", rlx_map_ints (axes, n_axes),
                                       "keep_dims", g_variant_new_boolean (keep_dims), NULL),
                        error);
  if (node != NULL && is_bool)
    node = rlx_map_cast (call, node, RLX_DATA_TYPE_BOOL, error);
  return rlx_map_return (call, 0, node);
}

static gboolean
map_arg_extreme (RlxMapCall *call,
                 GError    **error)
{
  RlxNode *node = rlx_map_input (call, 0, FALSE, error);
  gboolean keep_dims, last;
  gint64 axis;

  if (node == NULL ||
      !rlx_map_arg_int (call, "axis", 0, &axis, error) ||
      !rlx_map_arg_bool (call, "keepdims", TRUE, &keep_dims, error) ||
      !rlx_map_arg_bool (call, "select_last_index", FALSE, &last, error))
    return FALSE;
  node = rlx_map_op1 (call, call->row->op, node,
                      rlx_map_attrs ("axis", g_variant_new_int64 (axis),
                                     "keep_dims", g_variant_new_boolean (keep_dims),
                                     "select_last_index", g_variant_new_boolean (last),
                                     "index_type", rlx_map_data_type (RLX_DATA_TYPE_I64), NULL),
                      error);
  return rlx_map_return (call, 0, node);
}

static gboolean
map_cumsum (RlxMapCall *call,
            GError    **error)
{
  RlxNode *node = rlx_map_input (call, 0, FALSE, error);
  g_autofree gint64 *axis = NULL;
  gboolean exclusive, reverse;
  gsize n;

  if (node == NULL ||
      !rlx_map_arg_bool (call, "exclusive", FALSE, &exclusive, error) ||
      !rlx_map_arg_bool (call, "reverse", FALSE, &reverse, error) ||
      (axis = rlx_map_input_ints (call, 1, &n, error)) == NULL)
    return FALSE;
  if (n != 1)
    return rlx_map_refused (error, "%s: the axis is not a single number", call->node->op);
  return rlx_map_return (call, 0, rlx_map_op1 (call, call->row->op, node,
                                               rlx_map_attrs ("axis", g_variant_new_int64 (axis[0]),
                                                              "exclusive", g_variant_new_boolean (exclusive),
                                                              "reverse", g_variant_new_boolean (reverse), NULL),
                                               error));
}

/* 1 above a threshold, else 0 */
static gboolean
map_binarizer (RlxMapCall *call,
               GError    **error)
{
  RlxNode *node = rlx_map_input (call, 0, FALSE, error), *limit;
  g_autoptr(RlxTensor) tensor = NULL;
  RlxDataType data_type;
  double threshold;

  if (node == NULL || !rlx_map_arg_double (call, "threshold", 0, &threshold, error))
    return FALSE;
  data_type = rlx_node_get_data_type (node);
  tensor = rlx_tensor_new_scalar (data_type, threshold, error);
  limit = tensor != NULL ? rlx_map_constant (call, tensor, error) : NULL;
  node = limit != NULL ? rlx_map_op2 (call, "greater", node, limit, NULL, error) : NULL;
  return rlx_map_return (call, 0, rlx_map_cast (call, node, data_type, error));
}

/* Selects columns by index, whatever the shape of the indices. */
static gboolean
map_extract (RlxMapCall *call,
             GError    **error)
{
  RlxNode *node = rlx_map_input (call, 0, FALSE, error);
  RlxNode *indices = node != NULL ? rlx_map_input (call, 1, FALSE, error) : NULL;
  gsize n_dims;
  const gint64 *shape;

  if (indices == NULL)
    return FALSE;
  shape = rlx_node_get_shape (indices, &n_dims);
  indices = rlx_map_reshape (call, indices, (gint64[]) { rlx_map_product (shape, 0, n_dims) }, 1, error);
  /* A vector is treated as a single row. */
  if (rlx_node_get_n_dims (node) == 1)
    node = rlx_map_reshape (call, node, (gint64[]) { 1, rlx_node_get_shape (node, NULL)[0] }, 2, error);
  return node != NULL && indices != NULL &&
         rlx_map_return (call, 0, rlx_map_op2 (call, "gather", node, indices, rlx_map_attrs ("axis", g_variant_new_int64 (-1), NULL), error));
}

#define REFUSED(foreign, why) ROW (foreign, NULL, .reason = why)
#define TEXT "it processes text, which devices cannot"
#define TREES "it evaluates decision trees, for which there is no kernel"
#define TRAINING "it is a training step, which is added to a graph and not read from a file"
#define REDUCE(foreign, ours) ROW (foreign, ours, .func = map_reduce)

const RlxMapRow rlx_map_rows[] = {
  ROW ("Abs", "abs"),
  ROW ("Acos", "acos"),
  ROW ("Acosh", "acosh"),
  ROW ("Asin", "asin"),
  ROW ("Asinh", "asinh"),
  ROW ("Atan", "atan"),
  ROW ("Atanh", "atanh"),
  ROW ("BitwiseNot", "bit_not"),
  ROW ("Ceil", "ceil"),
  ROW ("Cos", "cos"),
  ROW ("Cosh", "cosh"),
  ROW ("Erf", "erf"),
  ROW ("Exp", "exp"),
  ROW ("Floor", "floor"),
  ROW ("Identity", "identity"),
  ROW ("IsInf", "is_inf", .attrs = "detect_negative/b=1 detect_positive/b=1"),
  ROW ("IsNaN", "is_nan"),
  ROW ("Log", "log"),
  ROW ("Neg", "neg"),
  ROW ("Not", "logical_not"),
  ROW ("Reciprocal", "reciprocal"),
  ROW ("Round", "round_even"),
  ROW ("Sigmoid", "sigmoid"),
  ROW ("Sign", "sign"),
  ROW ("Sin", "sin"),
  ROW ("Sinh", "sinh"),
  ROW ("Sqrt", "sqrt"),
  ROW ("Tan", "tan"),
  ROW ("Tanh", "tanh"),

  ROW ("Celu", "celu", .attrs = "alpha/f=1"),
  ROW ("Elu", "elu", .attrs = "alpha/f=1"),
  ROW ("Gelu", "gelu", .func = map_gelu),
  ROW ("HardSigmoid", "hard_sigmoid", .attrs = "alpha/f=0.2 beta/f=0.5"),
  ROW ("HardSwish", "hard_swish"),
  ROW ("LeakyRelu", "leaky_relu", .attrs = "alpha/f=0.01"),
  ROW ("Mish", "mish"),
  ROW ("PRelu", "prelu", .func = map_prelu),
  ROW ("Relu", "relu"),
  ROW ("Selu", "selu", .attrs = "alpha/f=1.67326319217681884765625 gamma/f=1.05070102214813232421875"),
  ROW ("Softplus", "softplus"),
  ROW ("Softsign", "softsign"),
  ROW ("Swish", "quick_gelu", .attrs = "alpha/f=1"),
  ROW ("ThresholdedRelu", "thresholded_relu", .attrs = "alpha/f=1"),
  ROW ("com.microsoft:BiasGelu", "gelu", .func = map_biased),
  ROW ("com.microsoft:BiasSplitGelu", "geglu", .func = rlx_onnx_map_bias_split_gelu),
  ROW ("com.microsoft:FastGelu", "gelu_tanh", .func = map_biased),
  ROW ("com.microsoft:Gelu", "gelu", .func = map_gelu),
  ROW ("com.microsoft:QuickGelu", "quick_gelu", .attrs = "alpha/f=1.702"),

  ROW ("Add", "add", .func = map_binary),
  ROW ("And", "logical_and", .func = map_binary),
  ROW ("BitShift", "shift_left", .func = map_bit_shift),
  ROW ("BitwiseAnd", "bit_and"),
  ROW ("BitwiseOr", "bit_or"),
  ROW ("BitwiseXor", "bit_xor"),
  ROW ("Div", "div", .func = map_binary),
  ROW ("Equal", "equal", .func = map_binary),
  ROW ("Greater", "greater", .func = map_binary),
  ROW ("GreaterOrEqual", "greater_equal"),
  ROW ("Less", "less", .func = map_binary),
  ROW ("LessOrEqual", "less_equal"),
  ROW ("Max", "max", .flags = MAP_FOLD),
  ROW ("Mean", "add", .func = map_mean),
  ROW ("Min", "min", .flags = MAP_FOLD),
  ROW ("Mod", "mod", .func = map_mod),
  ROW ("Mul", "mul", .func = map_binary),
  ROW ("Or", "logical_or", .func = map_binary),
  ROW ("Pow", "pow", .func = map_pow),
  ROW ("Sub", "sub", .func = map_binary),
  ROW ("Sum", "add", .flags = MAP_FOLD),
  ROW ("Xor", "logical_xor", .func = map_binary),
  ROW ("com.microsoft:BiasAdd", "add", .flags = MAP_FOLD),

  ROW ("Cast", "cast", .func = rlx_onnx_map_cast),
  ROW ("CastLike", "cast", .func = rlx_onnx_map_cast),
  ROW ("Clip", "clamp", .func = map_clip),
  ROW ("Dropout", "identity", .func = rlx_onnx_map_dropout, .ignored = "ratio seed"),
  ROW ("DequantizeLinear", "dequantize_linear", .func = rlx_onnx_map_quantize),
  ROW ("DynamicQuantizeLinear", "dynamic_quantize"),
  ROW ("QuantizeLinear", "quantize_linear", .func = rlx_onnx_map_quantize),
  ROW ("Where", "where"),
  ROW ("Shrink", "where", .func = rlx_onnx_map_shrink),
  ROW ("NegativeLogLikelihoodLoss", "gather_elements", .func = rlx_onnx_map_loss),
  ROW ("SoftmaxCrossEntropyLoss", "log_softmax", .func = rlx_onnx_map_loss),

  /* Here and in the norms, sums are in f32 anyway. */
  ROW ("Attention", "attention", .func = rlx_onnx_map_attention, .ignored = "softmax_precision"),
  ROW ("RotaryEmbedding", "rope", .func = rlx_onnx_map_rotary_embedding),
  ROW ("com.microsoft:Attention", "attention", .func = rlx_ort_map_attention),
  ROW ("com.microsoft:GroupQueryAttention", "attention", .func = rlx_ort_map_group_query_attention),
  ROW ("com.microsoft:MultiHeadAttention", "attention", .func = rlx_ort_map_multi_head_attention),
  ROW ("com.microsoft:RotaryEmbedding", "rope", .func = rlx_ort_map_rotary_embedding),

  ROW ("AveragePool", "average_pool", .func = rlx_onnx_map_pool),
  ROW ("Conv", "conv", .func = rlx_onnx_map_conv),
  ROW ("ConvTranspose", "conv_transpose", .func = rlx_onnx_map_conv_transpose),
  ROW ("Det", "determinant"),
  ROW ("com.microsoft:FusedMatMul", "matmul", .func = rlx_onnx_map_fused_matmul),
  ROW ("com.microsoft:TransposeMatMul", "matmul", .func = rlx_onnx_map_fused_matmul),
  ROW ("Einsum", "einsum", .attrs = "equation/s"),
  ROW ("Gemm", "linear", .func = map_gemm),
  ROW ("GlobalAveragePool", "average_pool", .func = rlx_onnx_map_pool),
  ROW ("GlobalLpPool", "l2_pool", .func = rlx_onnx_map_lp_pool),
  ROW ("GlobalMaxPool", "max_pool", .func = rlx_onnx_map_pool),
  ROW ("LpPool", "l2_pool", .func = rlx_onnx_map_lp_pool),
  ROW ("MaxPool", "max_pool", .func = rlx_onnx_map_pool),
  ROW ("com.microsoft:MatMulNBits", "dequant_matmul", .func = rlx_onnx_map_matmul_nbits, .ignored = "accuracy_level"),
  ROW ("com.microsoft:Inverse", "inverse"),
  ROW ("com.microsoft:FusedConv", "conv", .func = rlx_onnx_map_conv),
  ROW ("com.ms.internal.nhwc:AveragePool", "average_pool", .func = rlx_onnx_map_pool),
  ROW ("com.ms.internal.nhwc:Conv", "conv", .func = rlx_onnx_map_conv),
  ROW ("com.ms.internal.nhwc:ConvTranspose", "conv_transpose", .func = rlx_onnx_map_conv_transpose),
  ROW ("com.ms.internal.nhwc:GlobalAveragePool", "average_pool", .func = rlx_onnx_map_pool),
  ROW ("com.ms.internal.nhwc:GlobalMaxPool", "max_pool", .func = rlx_onnx_map_pool),
  ROW ("com.ms.internal.nhwc:MaxPool", "max_pool", .func = rlx_onnx_map_pool),
  ROW ("LayerNormalization", "layer_norm", .func = map_norm, .ignored = "stash_type"),
  ROW ("BatchNormalization", "batch_norm", .func = rlx_onnx_map_batch_norm, .ignored = "momentum"),
  ROW ("com.ms.internal.nhwc:BatchNormalization", "batch_norm", .func = rlx_onnx_map_batch_norm, .ignored = "momentum"),
  ROW ("GroupNormalization", "group_norm", .func = rlx_onnx_map_group_norm, .ignored = "stash_type"),
  ROW ("ImageScaler", "affine", .func = rlx_onnx_map_image_scaler),
  ROW ("InstanceNormalization", "instance_norm", .func = rlx_onnx_map_instance_norm),
  ROW ("com.ms.internal.nhwc:InstanceNormalization", "instance_norm", .func = rlx_onnx_map_instance_norm),
  ROW ("LRN", "average_pool", .func = rlx_onnx_map_local_response),
  ROW ("LpNormalization", "lp_norm", .attrs = "axis/i=-1 p/i=2"),
  ROW ("MeanVarianceNormalization", "layer_norm", .func = rlx_onnx_map_mean_variance),
  ROW ("com.microsoft:GroupNorm", "group_norm", .func = rlx_onnx_map_ms_group_norm),
  ROW ("com.microsoft:SkipGroupNorm", "group_norm", .func = rlx_onnx_map_ms_group_norm),
  ROW ("com.microsoft:SkipLayerNormalization", "residual_layer_norm", .func = rlx_onnx_map_skip_norm),
  ROW ("com.microsoft:SkipSimplifiedLayerNormalization", "residual_rms_norm", .func = rlx_onnx_map_skip_norm),
  ROW ("LogSoftmax", "log_softmax", .func = map_softmax),
  ROW ("MatMul", "matmul"),
  ROW ("MatMulInteger", "qmatmul", .func = rlx_onnx_map_qmatmul),
  ROW ("QLinearMatMul", "qmatmul", .func = rlx_onnx_map_qmatmul),
  ROW ("com.microsoft:DynamicQuantizeMatMul", "qmatmul", .func = rlx_onnx_map_qmatmul_float),
  ROW ("com.microsoft:MatMulIntegerToFloat", "qmatmul", .func = rlx_onnx_map_qmatmul_float),
  ROW ("com.microsoft:QGemm", "qmatmul", .func = rlx_onnx_map_qgemm),
  ROW ("ConvInteger", "qconv2d", .func = rlx_onnx_map_qconv),
  ROW ("QLinearConv", "qconv2d", .func = rlx_onnx_map_qconv),
  ROW ("RMSNormalization", "rms_norm", .func = map_norm, .ignored = "stash_type"),
  ROW ("SimplifiedLayerNormalization", "rms_norm", .func = map_norm, .ignored = "stash_type"),
  ROW ("Softmax", "softmax", .func = map_softmax),

  REDUCE ("ReduceL1", "reduce_l1"),
  REDUCE ("ReduceL2", "reduce_l2"),
  REDUCE ("ReduceLogSum", "reduce_log_sum"),
  REDUCE ("ReduceLogSumExp", "reduce_log_sum_exp"),
  REDUCE ("ReduceMax", "reduce_max"),
  REDUCE ("ReduceMean", "reduce_mean"),
  REDUCE ("ReduceMin", "reduce_min"),
  REDUCE ("ReduceProd", "reduce_prod"),
  REDUCE ("ReduceSum", "reduce_sum"),
  REDUCE ("ReduceSumSquare", "reduce_sum_square"),
  ROW ("ArgMax", "arg_max", .func = map_arg_extreme),
  ROW ("ArgMin", "arg_min", .func = map_arg_extreme),
  ROW ("CumProd", "cumprod", .func = map_cumsum),
  ROW ("CumSum", "cumsum", .func = map_cumsum),
  ROW ("Hardmax", "hardmax", .func = map_softmax),
  /* Sorted order is also valid where any order would do. */
  ROW ("TopK", "top_k", .func = rlx_onnx_map_top_k, .ignored = "sorted"),

  ROW ("Compress", "gather", .func = rlx_onnx_map_compress),
  ROW ("NonMaxSuppression", "non_max_suppression", .func = rlx_onnx_map_non_max_suppression),
  ROW ("NonZero", "scatter_elements", .func = rlx_onnx_map_non_zero),
  ROW ("Unique", "arg_sort", .func = rlx_onnx_map_unique),
  ROW ("Concat", "concat", .func = rlx_onnx_map_concat),
  ROW ("Expand", "expand", .func = rlx_onnx_map_expand),
  ROW ("Flatten", "reshape", .func = rlx_onnx_map_flatten),
  ROW ("Gather", "gather", .attrs = "axis/i=0"),
  ROW ("com.microsoft:GatherBlockQuantized", "gather_packed", .func = rlx_onnx_map_gather_quantized),
  ROW ("GatherElements", "gather_elements", .attrs = "axis/i=0"),
  ROW ("GatherND", "gather_nd", .attrs = "batch_dims/i=0"),
  ROW ("GridSample", "grid_sample", .func = rlx_onnx_map_grid_sample),
  ROW ("com.microsoft:GridSample", "grid_sample", .func = rlx_onnx_map_grid_sample),
  ROW ("OneHot", "one_hot", .func = rlx_onnx_map_one_hot),
  ROW ("Pad", "pad", .func = rlx_onnx_map_pad),
  ROW ("com.microsoft:Pad", "pad", .func = rlx_onnx_map_pad),
  ROW ("Resize", "resize", .func = rlx_onnx_map_resize),
  ROW ("Scatter", "scatter_elements", .func = rlx_onnx_map_scatter),
  ROW ("ScatterElements", "scatter_elements", .func = rlx_onnx_map_scatter),
  ROW ("ScatterND", "scatter_nd", .func = rlx_onnx_map_scatter),
  ROW ("SpaceToDepth", "space_to_depth", .func = rlx_onnx_map_depth),
  ROW ("DepthToSpace", "depth_to_space", .func = rlx_onnx_map_depth),
  ROW ("Split", "split", .func = rlx_onnx_map_split),
  ROW ("Upsample", "resize", .func = rlx_onnx_map_resize),
  ROW ("Reshape", "reshape", .func = rlx_onnx_map_reshape),
  ROW ("Slice", "slice", .func = rlx_onnx_map_slice),
  ROW ("Squeeze", "reshape", .func = rlx_onnx_map_squeeze),
  ROW ("Tile", "tile", .func = rlx_onnx_map_tile),
  ROW ("Transpose", "transpose", .attrs = "perm:permutation/I="),
  ROW ("Trilu", "triangular", .func = rlx_onnx_map_trilu),
  ROW ("com.microsoft:Trilu", "triangular", .func = rlx_onnx_map_trilu),
  ROW ("com.microsoft:ExpandDims", "reshape", .func = rlx_onnx_map_unsqueeze),
  ROW ("Unsqueeze", "reshape", .func = rlx_onnx_map_unsqueeze),

  ROW ("Affine", "affine", .attrs = "alpha/f=1 beta/f=0"),
  ROW ("Crop", "slice", .func = rlx_onnx_map_crop),
  ROW ("DeformConv", "conv", .func = rlx_onnx_map_deform_conv),
  ROW ("ParametricSoftplus", "softplus", .func = rlx_onnx_map_scaled),
  ROW ("RoiAlign", "grid_sample", .func = rlx_onnx_map_roi_align),
  ROW ("ScaledTanh", "tanh", .func = rlx_onnx_map_scaled),
  ROW ("com.microsoft:EmbedLayerNormalization", "layer_norm", .func = rlx_ort_map_embed_layer_norm),

  ROW ("AffineGrid", "matmul", .func = rlx_onnx_map_affine_grid),
  ROW ("BlackmanWindow", "cos", .func = rlx_onnx_map_window),
  ROW ("CenterCropPad", "pad", .func = rlx_onnx_map_center_crop_pad),
  ROW ("Col2Im", "conv_transpose", .func = rlx_onnx_map_col2im),
  ROW ("EyeLike", "where", .func = rlx_onnx_map_eye_like),
  ROW ("HammingWindow", "cos", .func = rlx_onnx_map_window),
  ROW ("HannWindow", "cos", .func = rlx_onnx_map_window),
  ROW ("MaxUnpool", "scatter_elements", .func = rlx_onnx_map_max_unpool),
  ROW ("ReverseSequence", "gather_elements", .func = rlx_onnx_map_reverse_sequence),
  ROW ("TensorScatter", "scatter_elements", .func = rlx_onnx_map_tensor_scatter),

  ROW ("ai.onnx.ml:ArrayFeatureExtractor", "gather", .func = map_extract),
  ROW ("ai.onnx.ml:Binarizer", "greater", .func = map_binarizer),
  ROW ("BitCast", "cast", .func = rlx_onnx_map_bit_cast),
  ROW ("Bernoulli", "random_uniform", .func = rlx_onnx_map_bernoulli),
  ROW ("CausalConvWithState", "causal_conv1d", .func = rlx_onnx_map_causal_conv),
  ROW ("com.microsoft:CausalConvWithState", "causal_conv1d", .func = rlx_onnx_map_causal_conv),
  ROW ("DFT", "fft", .func = rlx_onnx_map_dft),
  /* The chunk size only affects how the result is computed, which is up to the implementation. */
  ROW ("LinearAttention", "gated_delta_net", .func = rlx_onnx_map_linear_attention, .ignored = "chunk_size"),
  ROW ("com.microsoft:LinearAttention", "gated_delta_net", .func = rlx_onnx_map_linear_attention, .ignored = "chunk_size"),
  ROW ("MelWeightMatrix", NULL, .func = rlx_onnx_map_mel_weights),
  ROW ("Multinomial", "sample", .func = rlx_onnx_map_multinomial),
  ROW ("RandomNormal", "random_normal", .func = rlx_onnx_map_random),
  ROW ("RandomNormalLike", "random_normal", .func = rlx_onnx_map_random),
  ROW ("RandomUniform", "random_uniform", .func = rlx_onnx_map_random),
  ROW ("RandomUniformLike", "random_uniform", .func = rlx_onnx_map_random),
  ROW ("STFT", "stft", .func = rlx_onnx_map_stft),
  ROW ("SwiGLU", "swiglu", .attrs = "alpha/f=1"),

  ROW ("Constant", NULL, .func = rlx_onnx_map_constant),
  ROW ("ConstantOfShape", "expand", .func = rlx_onnx_map_constant_of_shape),
  ROW ("Range", NULL, .func = rlx_onnx_map_range),
  ROW ("com.microsoft:Range", NULL, .func = rlx_onnx_map_range),
  /* These are known whenever their inputs have shapes, so they have been folded. */
  ROW ("Shape", NULL, .func = rlx_onnx_map_unknown),
  ROW ("Size", NULL, .func = rlx_onnx_map_unknown),

  ROW ("ConcatFromSequence", NULL, .func = rlx_onnx_map_concat_from_sequence),
  ROW ("If", NULL, .func = rlx_onnx_map_if),
  ROW ("Loop", NULL, .func = rlx_onnx_map_loop),
  ROW ("Optional", NULL, .func = rlx_onnx_map_optional),
  ROW ("OptionalGetElement", NULL, .func = rlx_onnx_map_optional),
  ROW ("OptionalHasElement", NULL, .func = rlx_onnx_map_optional),
  ROW ("Scan", NULL, .func = rlx_onnx_map_scan),
  ROW ("SequenceAt", NULL, .func = rlx_onnx_map_sequence),
  ROW ("SequenceConstruct", NULL, .func = rlx_onnx_map_sequence),
  ROW ("SequenceEmpty", NULL, .func = rlx_onnx_map_sequence, .ignored = "dtype"),
  ROW ("SequenceErase", NULL, .func = rlx_onnx_map_sequence),
  ROW ("SequenceInsert", NULL, .func = rlx_onnx_map_sequence),
  ROW ("SequenceLength", NULL, .func = rlx_onnx_map_sequence),
  ROW ("SplitToSequence", NULL, .func = rlx_onnx_map_split_to_sequence),

  ROW ("GRU", "gru", .func = rlx_onnx_map_recurrent, .ignored = "output_sequence"),
  ROW ("LSTM", "lstm", .func = rlx_onnx_map_recurrent, .ignored = "output_sequence"),
  ROW ("RNN", "rnn", .func = rlx_onnx_map_recurrent, .ignored = "output_sequence"),

  REFUSED ("ImageDecoder", "it decodes an image file, which devices cannot"),
  REFUSED ("RegexFullMatch", TEXT),
  REFUSED ("StringConcat", TEXT),
  REFUSED ("StringNormalizer", TEXT),
  REFUSED ("StringSplit", TEXT),
  REFUSED ("TfIdfVectorizer", TEXT),
  REFUSED ("ai.onnx.ml:CastMap", TEXT),
  REFUSED ("ai.onnx.ml:CategoryMapper", TEXT),
  REFUSED ("ai.onnx.ml:DictVectorizer", TEXT),
  REFUSED ("ai.onnx.ml:LabelEncoder", TEXT),
  REFUSED ("ai.onnx.ml:ZipMap", TEXT),
  REFUSED ("ai.onnx.ml:TreeEnsemble", TREES),
  REFUSED ("ai.onnx.ml:TreeEnsembleClassifier", TREES),
  REFUSED ("ai.onnx.ml:TreeEnsembleRegressor", TREES),
  REFUSED ("ai.onnx.preview.training:Adagrad", TRAINING),
  REFUSED ("ai.onnx.preview.training:Adam", TRAINING),
  REFUSED ("ai.onnx.preview.training:Gradient", TRAINING),
  REFUSED ("ai.onnx.preview.training:Momentum", TRAINING),
  { .name = NULL }
};
