/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Norms and gates.
 */
#include "config.h"

#include "import/rlx-map-private.h"

#include <math.h>
#include <string.h>


static gboolean
is_channels_last (RlxMapCall *call)
{
  return g_str_has_prefix (call->row->name, "com.ms.internal.nhwc:");
}

static GVariant *
layout_attr (gboolean last)
{
  return g_variant_new_string (last ? "channels-last" : "channels-first");
}

/* ---- ONNX ------------------------------------------------------------------------------ */

/* Inputs from @first on; NULL for those left out. */
static gboolean
get_inputs (RlxMapCall *call,
            guint       first,
            guint       n,
            RlxNode   **inputs,
            GError    **error)
{
  for (guint i = 0; i < n; i++)
    {
      inputs[i] = NULL;
      if (rlx_map_has_input (call, first + i) && (inputs[i] = rlx_map_input (call, first + i, FALSE, error)) == NULL)
        return FALSE;
    }
  return TRUE;
}

static RlxNode *
scale_by (RlxMapCall *call,
          RlxNode    *node,
          double      factor,
          GError    **error)
{
  return node != NULL ? rlx_map_op1 (call, "affine", node, rlx_map_attrs ("alpha", g_variant_new_double (factor), NULL), error) : NULL;
}

/* Replaces @moments by the mean and variance of the batch itself, and returns the updated running ones. */
static gboolean
use_batch_statistics (RlxMapCall *call,
                      RlxNode    *x,
                      RlxNode   **moments,
                      gint64      axis,
                      GError    **error)
{
  RlxNode *running[2] = { moments[0], moments[1] };
  gint64 axes[RLX_MAX_DIMS];
  gsize n = 0, n_dims = rlx_node_get_n_dims (x);
  RlxDataType data_type = rlx_node_get_data_type (moments[0]);
  g_autoptr(GVariant) flat = NULL;
  g_autoptr(GVariant) kept = NULL;
  RlxNode *apart;
  double momentum;

  if (!rlx_map_arg_double (call, "momentum", 0.9, &momentum, error))
    return FALSE;
  for (gsize i = 0; i < n_dims; i++)
    if ((gint64) i != axis)
      axes[n++] = (gint64) i;
  flat = g_variant_ref_sink (rlx_map_attrs ("axes", rlx_map_ints (axes, n), NULL));
  kept = g_variant_ref_sink (rlx_map_attrs ("axes", rlx_map_ints (axes, n), "keep_dims", g_variant_new_boolean (TRUE), NULL));

  x = rlx_map_cast (call, x, RLX_DATA_TYPE_F32, error);
  if (x == NULL ||
      (moments[0] = rlx_map_op1 (call, "reduce_mean", x, flat, error)) == NULL ||
      (apart = rlx_map_op1 (call, "reduce_mean", x, kept, error)) == NULL ||
      (apart = rlx_map_op2 (call, "sub", x, apart, NULL, error)) == NULL ||
      (apart = rlx_map_op2 (call, "mul", apart, apart, NULL, error)) == NULL ||
      (moments[1] = rlx_map_op1 (call, "reduce_mean", apart, flat, error)) == NULL)
    return FALSE;

  for (guint i = 0; i < 2; i++)
    {
      RlxNode *old, *young;

      if (!rlx_map_wants_output (call, 1 + i))
        continue;
      running[i] = rlx_map_cast (call, running[i], RLX_DATA_TYPE_F32, error);
      old = scale_by (call, running[i], momentum, error);
      young = old != NULL ? scale_by (call, moments[i], 1 - momentum, error) : NULL;
      old = young != NULL ? rlx_map_op2 (call, "add", old, young, NULL, error) : NULL;
      if (old == NULL || !rlx_map_return (call, 1 + i, rlx_map_cast (call, old, data_type, error)))
        return FALSE;
    }
  return TRUE;
}

gboolean
rlx_onnx_map_batch_norm (RlxMapCall *call,
                         GError    **error)
{
  RlxNode *x = rlx_map_input (call, 0, FALSE, error);
  RlxNode *factors[4], *moments[2], *result;
  g_autofree gint64 *shape = NULL;
  gboolean spatial, training, test;
  gint64 axis;
  double epsilon;
  gsize n_dims;

  if (x == NULL ||
      !rlx_map_arg_bool (call, "is_test", FALSE, &test, error) ||
      !get_inputs (call, 1, 4, factors, error) ||
      !rlx_map_arg_double (call, "epsilon", 1e-5, &epsilon, error) ||
      !rlx_map_arg_bool (call, "spatial", TRUE, &spatial, error) ||
      !rlx_map_arg_bool (call, "training_mode", FALSE, &training, error))
    return FALSE;
  if (call->opset < 7 && !test)
    return rlx_map_unsupported (error, "BatchNormalization in training before opset 7");
  for (guint i = 0; i < 4; i++)
    if (factors[i] == NULL)
      return rlx_map_refused (error, "BatchNormalization: input %u is missing", i + 1);

  shape = rlx_map_copy_shape (x, &n_dims);
  if (n_dims == 0)
    return rlx_map_refused (error, "BatchNormalization: the input is a number");
  axis = is_channels_last (call) ? (gint64) n_dims - 1 : 1;
  if (n_dims == 1 || !spatial)
    {
      /* one channel, or one for each element */
      gint64 n = n_dims == 1 ? 1 : rlx_map_product (shape, 1, n_dims);

      axis = 1;
      x = rlx_map_reshape (call, x, (gint64[]) { shape[0], n }, 2, error);
      for (guint i = 0; i < 4; i++)
        if ((factors[i] = rlx_map_reshape (call, factors[i], &n, 1, error)) == NULL)
          return FALSE;
    }
  if (x == NULL)
    return FALSE;
  if (!training && spatial && n_dims > 1 && (result = rlx_map_scale_filter (call, x, factors, epsilon, axis, error)) != NULL)
    return rlx_map_return (call, 0, result);
  if (rlx_map_has_failed (error))
    return FALSE;

  moments[0] = factors[2];
  moments[1] = factors[3];
  if (training && !use_batch_statistics (call, x, moments, axis, error))
    return FALSE;
  result = rlx_map_op (call, "batch_norm", (RlxNode *[]) { x, moments[0], moments[1], factors[0], factors[1] }, 5,
                       rlx_map_attrs ("axis", g_variant_new_int64 (axis), "epsilon", g_variant_new_double (epsilon), NULL), error);
  return result != NULL && rlx_map_return (call, 0, rlx_map_reshape (call, result, shape, n_dims, error));
}

gboolean
rlx_onnx_map_instance_norm (RlxMapCall *call,
                            GError    **error)
{
  RlxNode *inputs[3];
  double epsilon;

  if (!get_inputs (call, 0, 3, inputs, error) || !rlx_map_arg_double (call, "epsilon", 1e-5, &epsilon, error))
    return FALSE;
  return rlx_map_return (call, 0, rlx_map_op (call, "instance_norm", inputs, 3,
                                              rlx_map_attrs ("epsilon", g_variant_new_double (epsilon),
                                                             "layout", layout_attr (is_channels_last (call)), NULL),
                                              error));
}

/* The scale is per group up to opset 20, per channel from 21 on. */
gboolean
rlx_onnx_map_group_norm (RlxMapCall *call,
                         GError    **error)
{
  RlxNode *inputs[3];
  double epsilon;
  gint64 groups;

  if (!get_inputs (call, 0, 3, inputs, error) ||
      !rlx_map_arg_double (call, "epsilon", 1e-5, &epsilon, error) ||
      !rlx_map_arg_int (call, "num_groups", 0, &groups, error))
    return FALSE;
  return rlx_map_return (call, 0, rlx_map_op (call, "group_norm", inputs, 3,
                                              rlx_map_attrs ("groups", g_variant_new_int64 (groups),
                                                             "epsilon", g_variant_new_double (epsilon), NULL),
                                              error));
}

/* ONNX Runtime's operators: the inputs are X, gamma and beta, then skip and bias, which are added to X. */
gboolean
rlx_onnx_map_ms_group_norm (RlxMapCall *call,
                            GError    **error)
{
  RlxNode *inputs[5], *node;
  gboolean last, swish;
  double epsilon;
  gint64 groups;
  RlxDataType data_type;

  if (!get_inputs (call, 0, 5, inputs, error) ||
      !rlx_map_arg_double (call, "epsilon", 1e-5, &epsilon, error) ||
      !rlx_map_arg_int (call, "groups", 0, &groups, error) ||
      !rlx_map_arg_bool (call, "activation", FALSE, &swish, error) ||
      !rlx_map_arg_bool (call, "channels_last", TRUE, &last, error))
    return FALSE;
  if (inputs[0] == NULL)
    return rlx_map_refused (error, "%s: input 0 is missing", call->node->op);

  data_type = rlx_node_get_data_type (inputs[0]);
  node = inputs[0];
  for (guint i = 3; i < 5; i++)
    if (inputs[i] != NULL)
      {
        gsize n_dims, n;
        const gint64 *shape = rlx_node_get_shape (inputs[i], &n);

        /* [N, C] applies to all positions */
        n_dims = rlx_node_get_n_dims (node);
        if (n == 2 && n_dims == 4)
          inputs[i] = rlx_map_reshape (call, inputs[i],
                                       last ? (gint64[]) { shape[0], 1, 1, shape[1] } : (gint64[]) { shape[0], shape[1], 1, 1 },
                                       4, error);
        else if (n == 1 && !last)
          inputs[i] = rlx_map_reshape (call, inputs[i], (gint64[]) { shape[0], 1, 1 }, 3, error);
        node = inputs[i] != NULL ? rlx_map_op2 (call, "add", node, inputs[i], NULL, error) : NULL;
        if (node == NULL)
          return FALSE;
      }
  if (rlx_map_wants_output (call, 1) && !rlx_map_return (call, 1, node))
    return FALSE;

  /* the factors are always f32 */
  for (guint i = 1; i < 3; i++)
    if (inputs[i] != NULL && (inputs[i] = rlx_map_cast (call, inputs[i], data_type, error)) == NULL)
      return FALSE;
  node = rlx_map_op (call, "group_norm", (RlxNode *[]) { node, inputs[1], inputs[2] }, 3,
                     rlx_map_attrs ("groups", g_variant_new_int64 (groups),
                                    "epsilon", g_variant_new_double (epsilon),
                                    "layout", layout_attr (last), NULL),
                     error);
  if (node != NULL && swish)
    node = rlx_map_op1 (call, "silu", node, NULL, error);
  return rlx_map_return (call, 0, node);
}

gboolean
rlx_onnx_map_skip_norm (RlxMapCall *call,
                        GError    **error)
{
  gboolean rms = g_str_equal (call->row->op, "residual_rms_norm");
  guint n_inputs = rms ? 4 : 5;
  RlxNode *inputs[5];
  g_autofree RlxNode **results = NULL;
  g_autoptr(GVariant) attrs = NULL;
  gboolean statistics = rlx_map_wants_output (call, 1) || rlx_map_wants_output (call, 2);
  gboolean keep_sum = rlx_map_wants_output (call, 3) || statistics;
  gint64 axis;
  double epsilon;
  gsize n;

  if (!get_inputs (call, 0, n_inputs, inputs, error) || !rlx_map_arg_double (call, "epsilon", 1e-12, &epsilon, error))
    return FALSE;
  if (inputs[0] == NULL || inputs[1] == NULL)
    return rlx_map_refused (error, "%s: there are not two inputs", call->node->op);

  attrs = g_variant_ref_sink (rlx_map_attrs ("epsilon", g_variant_new_double (epsilon),
                                             "keep_sum", g_variant_new_boolean (keep_sum), NULL));
  results = rlx_map_add_op (call, call->row->op, inputs, n_inputs, attrs, &n, error);
  if (results == NULL)
    return FALSE;
  axis = (gint64) rlx_node_get_n_dims (inputs[0]) - 1;
  if (statistics && !rlx_map_add_statistics (call, results[1], &axis, 1, epsilon, rms, error))
    return FALSE;
  if (rlx_map_wants_output (call, 3) && !rlx_map_return (call, 3, results[1]))
    return FALSE;
  return rlx_map_return (call, 0, results[0]);
}

/* ---- gates ------------------------------------------------------------------------------ */

/* The first half of x + bias, times the gelu of the second. */
gboolean
rlx_onnx_map_bias_split_gelu (RlxMapCall *call,
                              GError    **error)
{
  RlxNode *inputs[2], *node, *halves[2];
  const gint64 *shape;
  gsize n_dims;

  if (!get_inputs (call, 0, 2, inputs, error))
    return FALSE;
  if (inputs[0] == NULL || inputs[1] == NULL)
    return rlx_map_refused (error, "BiasSplitGelu: there are not two inputs");
  node = rlx_map_op2 (call, "add", inputs[0], inputs[1], NULL, error);
  if (node == NULL)
    return FALSE;
  shape = rlx_node_get_shape (node, &n_dims);
  if (n_dims == 0 || shape[n_dims - 1] % 2 != 0)
    return rlx_map_refused (error, "BiasSplitGelu: the last dimension has no halves");

  for (gint64 i = 0; i < 2; i++)
    {
      gint64 axis = -1, start = i * (shape[n_dims - 1] / 2), end = (i + 1) * (shape[n_dims - 1] / 2);

      halves[i] = rlx_map_op1 (call, "slice", node,
                               rlx_map_attrs ("starts", rlx_map_ints (&start, 1), "ends", rlx_map_ints (&end, 1),
                                              "axes", rlx_map_ints (&axis, 1), NULL),
                               error);
      if (halves[i] == NULL)
        return FALSE;
    }
  return rlx_map_return (call, 0, rlx_map_op2 (call, "geglu", halves[1], halves[0], NULL, error));
}

/* ---- made of others ------------------------------------------------------------------------ */

gboolean
rlx_onnx_map_image_scaler (RlxMapCall *call,
                           GError    **error)
{
  RlxNode *x = rlx_map_input (call, 0, FALSE, error), *bias;
  gsize n_values;
  g_autofree float *values = rlx_map_arg_floats (call, "bias", &n_values, NULL);
  g_autoptr(RlxTensor) tensor = NULL;
  const gint64 *shape;
  double scale;
  gsize n_dims;

  if (x == NULL || !rlx_map_arg_double (call, "scale", 1, &scale, error))
    return FALSE;
  shape = rlx_node_get_shape (x, &n_dims);
  if (n_dims < 2)
    return rlx_map_refused (error, "ImageScaler: the input has no channels");
  if (values == NULL || (gint64) n_values < shape[1])
    return rlx_map_refused (error, "ImageScaler: there is not a bias for each channel");

  {
    gint64 place[RLX_MAX_DIMS] = { shape[1], 1, 1, 1, 1, 1, 1 };

    tensor = rlx_tensor_new_from_floats (place, n_dims - 1, values, (gsize) shape[1], error);
  }
  if (tensor == NULL || (bias = rlx_map_constant (call, tensor, error)) == NULL ||
      (bias = rlx_map_cast (call, bias, rlx_node_get_data_type (x), error)) == NULL)
    return FALSE;
  x = scale_by (call, x, scale, error);
  return x != NULL && rlx_map_return (call, 0, rlx_map_op2 (call, "add", x, bias, NULL, error));
}

/* ONNX adds a small number to the standard deviation; adding its square to the variance is equivalent unless the deviation is
 * of that order. */
gboolean
rlx_onnx_map_mean_variance (RlxMapCall *call,
                            GError    **error)
{
  RlxNode *x = rlx_map_input (call, 0, FALSE, error);
  g_autofree gint64 *axes = NULL;
  gsize n_axes = 3;

  if (x == NULL)
    return FALSE;
  if (rlx_map_arg (call, "axes") != NULL)
    axes = rlx_map_arg_ints (call, "axes", &n_axes, error);
  else
    axes = g_memdup2 ((gint64[]) { 0, 2, 3 }, 3 * sizeof (gint64));
  if (axes == NULL)
    return FALSE;
  return rlx_map_return (call, 0, rlx_map_op1 (call, "layer_norm", x,
                                               rlx_map_attrs ("axes", rlx_map_ints (axes, n_axes),
                                                              "epsilon", g_variant_new_double (1e-18), NULL),
                                               error));
}

/* x / (bias + alpha · mean x² of neighbouring channels)^beta; channels outside the range count as zeros. */
gboolean
rlx_onnx_map_local_response (RlxMapCall *call,
                             GError    **error)
{
  RlxNode *x = rlx_map_input (call, 0, FALSE, error), *node;
  g_autofree gint64 *shape = NULL;
  double alpha, beta, bias;
  gint64 size;
  gsize n_dims;

  if (x == NULL ||
      !rlx_map_arg_double (call, "alpha", 1e-4, &alpha, error) ||
      !rlx_map_arg_double (call, "beta", 0.75, &beta, error) ||
      !rlx_map_arg_double (call, "bias", 1, &bias, error) ||
      !rlx_map_arg_int (call, "size", 0, &size, error))
    return FALSE;
  shape = rlx_map_copy_shape (x, &n_dims);
  if (n_dims < 2 || size < 1)
    return rlx_map_refused (error, "LRN: %" G_GINT64_FORMAT " channels of %" G_GSIZE_FORMAT " dimensions", size, n_dims);

  node = rlx_map_op2 (call, "mul", x, x, NULL, error);
  if (node != NULL)
    node = rlx_map_reshape (call, node, (gint64[]) { shape[0], 1, shape[1], rlx_map_product (shape, 2, n_dims) }, 4, error);
  if (node != NULL)
    node = rlx_map_op1 (call, "average_pool", node,
                        rlx_map_attrs ("window", rlx_map_ints ((gint64[]) { size, 1 }, 2),
                                       "padding", rlx_map_ints ((gint64[]) { (size - 1) / 2, size / 2, 0, 0 }, 4),
                                       "count_include_pad", g_variant_new_boolean (TRUE), NULL),
                        error);
  if (node != NULL)
    node = rlx_map_reshape (call, node, shape, n_dims, error);
  if (node != NULL)
    node = rlx_map_op1 (call, "affine", node, rlx_map_attrs ("alpha", g_variant_new_double (alpha),
                                                             "beta", g_variant_new_double (bias), NULL), error);
  if (node != NULL)
    {
      g_autoptr(RlxTensor) power = rlx_tensor_new_from_floats (NULL, 0, (float[]) { (float) beta }, 1, error);
      RlxNode *constant = power != NULL ? rlx_map_constant (call, power, error) : NULL;

      if (constant != NULL)
        constant = rlx_map_cast (call, constant, rlx_node_get_data_type (x), error);
      node = constant != NULL ? rlx_map_op2 (call, "pow", node, constant, NULL, error) : NULL;
    }
  return node != NULL && rlx_map_return (call, 0, rlx_map_op2 (call, "div", x, node, NULL, error));
}
