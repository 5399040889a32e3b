/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * ONNX's operators on signals and sequences.
 */
#include "config.h"

#include "import/rlx-map-private.h"

#include <math.h>

#include "rlx-tensor-private.h"

/* Adds or removes a last dimension of size 1. */
static RlxNode *
change_last (RlxMapCall *call,
             RlxNode    *node,
             gboolean    add,
             GError    **error)
{
  gint64 shape[RLX_MAX_DIMS + 1];
  gsize n_dims;
  const gint64 *old = rlx_node_get_shape (node, &n_dims);

  for (gsize i = 0; i < n_dims; i++)
    shape[i] = old[i];
  shape[n_dims] = 1;
  return rlx_map_reshape (call, node, shape, add ? n_dims + 1 : n_dims - 1, error);
}

static gboolean
get_number (RlxMapCall *call,
            guint       index,
            const char *what,
            gint64     *number,
            GError    **error)
{
  gsize n;
  g_autofree gint64 *values = rlx_map_input_ints (call, index, &n, error);

  if (values == NULL)
    return FALSE;
  if (n != 1)
    return rlx_map_refused (error, "%s is not one number", what);
  *number = values[0];
  return TRUE;
}

static gboolean
get_double (RlxMapCall *call,
            guint       index,
            const char *what,
            double     *number,
            GError    **error)
{
  g_autoptr(RlxTensor) tensor = rlx_map_input_value (call, index, error);

  if (tensor == NULL)
    return FALSE;
  if (rlx_tensor_get_n_elements (tensor) != 1)
    return rlx_map_refused (error, "%s is not one number", what);
  *number = rlx_tensor_get_value (tensor, 0);
  return TRUE;
}

/* ---- Fourier transforms ---------------------------------------------------------------- */

gboolean
rlx_onnx_map_dft (RlxMapCall *call,
                  GError    **error)
{
  RlxNode *x = rlx_map_input (call, 0, FALSE, error);
  gint64 zeros[RLX_MAX_DIMS] = { 0, }, after[RLX_MAX_DIMS] = { 0, }, axis, length;
  gsize n_dims, found;
  gboolean inverse, onesided, real, has_length = rlx_map_has_input (call, 1);
  const gint64 *shape;
  GVariant *attrs;

  if (x == NULL ||
      (call->opset < 20 && !rlx_map_arg_int (call, "axis", 1, &axis, error)) ||
      !rlx_map_arg_bool (call, "inverse", FALSE, &inverse, error) ||
      !rlx_map_arg_bool (call, "onesided", FALSE, &onesided, error) ||
      (has_length && !get_number (call, 1, "the length", &length, error)))
    return FALSE;
  if (call->opset >= 20)
    {
      axis = -2;
      if (rlx_map_has_input (call, 2) && !get_number (call, 2, "the axis", &axis, error))
        return FALSE;
    }
  shape = rlx_node_get_shape (x, &n_dims);
  if (n_dims < 2 || (shape[n_dims - 1] != 1 && shape[n_dims - 1] != 2))
    return rlx_map_refused (error, "the last dimension of the operand is not 1 or 2, for real or complex numbers");
  real = shape[n_dims - 1] == 1;
  if (!rlx_map_normalise_axis (call, axis, n_dims, n_dims - 2, &found, error))
    return FALSE;

  axis = (gint64) found;
  if (real && onesided && !inverse)
    {
      x = change_last (call, x, FALSE, error);
    }
  else if (real)
    {
      after[n_dims - 1] = 1;
      x = rlx_map_op1 (call, "pad", x, rlx_map_attrs ("before", rlx_map_ints (zeros, n_dims), "after", rlx_map_ints (after, n_dims), NULL), error);
    }
  if (x == NULL)
    return FALSE;
  attrs = rlx_map_attrs ("axes", rlx_map_ints (&axis, 1), "lengths", rlx_map_ints (&length, has_length ? 1 : 0), NULL);
  if (!inverse && onesided && !real)
    {
      /* Compute the whole spectrum and take its first half. */
      gint64 start = 0, end;
      RlxNode *whole = rlx_map_op1 (call, "fft", x, attrs, error);

      if (whole == NULL)
        return FALSE;
      end = rlx_node_get_shape (whole, &n_dims)[found] / 2 + 1;
      return rlx_map_return (call, 0, rlx_map_op1 (call, "slice", whole, rlx_map_attrs ("starts", rlx_map_ints (&start, 1), "ends", rlx_map_ints (&end, 1),
                                                                                        "axes", rlx_map_ints (&axis, 1), NULL), error));
    }
  x = rlx_map_op1 (call, inverse ? (onesided ? "irfft" : "ifft") : real && onesided ? "rfft" : "fft", x, attrs, error);
  if (x != NULL && inverse && onesided)
    x = change_last (call, x, TRUE, error);
  return rlx_map_return (call, 0, x);
}

gboolean
rlx_onnx_map_stft (RlxMapCall *call,
                   GError    **error)
{
  RlxNode *x = rlx_map_input (call, 0, FALSE, error);
  RlxNode *window = rlx_map_has_input (call, 2) ? rlx_map_input (call, 2, FALSE, error) : NULL;
  gint64 hop, length;
  gboolean onesided;
  const gint64 *shape;
  gsize n_dims;

  if (x == NULL || (window == NULL && rlx_map_has_input (call, 2)) || !get_number (call, 1, "the step", &hop, error) ||
      !rlx_map_arg_bool (call, "onesided", TRUE, &onesided, error))
    return FALSE;
  shape = rlx_node_get_shape (x, &n_dims);
  if (n_dims == 3 && shape[2] == 2)
    return rlx_map_unsupported (error, "a signal of complex numbers");
  if (n_dims == 3 && shape[2] == 1)
    x = change_last (call, x, FALSE, error);
  else if (n_dims != 2)
    return rlx_map_refused (error, "a signal has %" G_GSIZE_FORMAT " dimensions instead of 2 or 3", n_dims);
  if (rlx_map_has_input (call, 3))
    {
      if (!get_number (call, 3, "the length of frames", &length, error))
        return FALSE;
    }
  else if (window != NULL && rlx_node_get_n_dims (window) == 1)
    {
      length = rlx_node_get_shape (window, &n_dims)[0];
    }
  else
    {
      return rlx_map_refused (error, "there is neither a window nor a length of frames");
    }
  if (x == NULL)
    return FALSE;
  return rlx_map_return (call, 0, rlx_map_op2 (call, "stft", x, window,
                                               rlx_map_attrs ("fft_length", g_variant_new_int64 (length), "hop", g_variant_new_int64 (hop),
                                                              "center", g_variant_new_boolean (FALSE), "one_sided", g_variant_new_boolean (onesided), NULL),
                                               error));
}

/* ---- filters ------------------------------------------------------------------------------ */

/* Triangles over the bins of a spectrum, one for each band, with edges evenly spaced on the mel scale. Unlike in
 * rlx_tensor_new_mel_filters(), ONNX rounds the edges down to bins, and spaces them as if there were one more. */
gboolean
rlx_onnx_map_mel_weights (RlxMapCall *call,
                          GError    **error)
{
  gint64 n_bands, length, rate, n_bins;
  double low, high;
  RlxDataType data_type;
  g_autofree gint64 *edges = NULL;
  g_autofree float *weights = NULL;
  g_autoptr(RlxTensor) tensor = NULL;

  if (!get_number (call, 0, "the number of bands", &n_bands, error) || !get_number (call, 1, "the length of the transform", &length, error) ||
      !get_number (call, 2, "the sample rate", &rate, error) || !get_double (call, 3, "the lower edge", &low, error) ||
      !get_double (call, 4, "the upper edge", &high, error) ||
      !rlx_map_arg_data_type (call, "output_datatype", RLX_DATA_TYPE_F32, &data_type, error))
    return FALSE;
  n_bins = length / 2 + 1;
  if (n_bands < 1 || n_bands > 1 << 16 || length < 1 || length > 1 << 20 || rate < 1 || rate > G_MAXINT32 ||
      !(low >= 0 && low <= high && high <= rate) || n_bands * n_bins > 1 << 24)
    return rlx_map_refused (error, "%" G_GINT64_FORMAT " bands from %g to %g Hz of a transform of %" G_GINT64_FORMAT " at %" G_GINT64_FORMAT " Hz cannot be",
                            n_bands, low, high, length, rate);

  edges = g_new (gint64, n_bands + 2);
  low = rlx_mel_scale_from_hertz (RLX_MEL_SCALE_HTK, low);
  high = rlx_mel_scale_from_hertz (RLX_MEL_SCALE_HTK, high);
  for (gint64 i = 0; i < n_bands + 2; i++)
    {
      double mel = (double) i * (high - low) / (double) (n_bands + 2) + low;

      edges[i] = (gint64) floor ((double) (length + 1) * rlx_mel_scale_to_hertz (RLX_MEL_SCALE_HTK, mel) / (double) rate);
    }
  weights = g_new0 (float, (gsize) (n_bins * n_bands));
  for (gint64 i = 0; i < n_bands; i++)
    {
      gint64 from = edges[i], top = edges[i + 1], to = edges[i + 2];

      for (gint64 j = from; j <= top && j < n_bins; j++)
        weights[j * n_bands + i] = top == from ? 1 : (float) ((double) (j - from) / (double) (top - from));
      for (gint64 j = top; j < to && j < n_bins; j++)
        weights[j * n_bands + i] = to == top ? weights[j * n_bands + i] : (float) ((double) (to - j) / (double) (to - top));
    }
  tensor = rlx_tensor_new_from_floats ((gint64[]) { n_bins, n_bands }, 2, weights, (gsize) (n_bins * n_bands), error);
  if (tensor == NULL)
    return FALSE;
  if (data_type == RLX_DATA_TYPE_F32)
    return rlx_map_return_tensor (call, 0, tensor);
  return rlx_map_return (call, 0, rlx_map_cast (call, rlx_map_constant (call, tensor, error), data_type, error));
}

/* ---- sequences ------------------------------------------------------------------------------ */

/* Splits [batch, steps, heads · width] into heads. */
static RlxNode *
split_heads (RlxMapCall *call,
             RlxNode    *node,
             gint64      heads,
             const char *what,
             GError    **error)
{
  gsize n_dims;
  const gint64 *shape;

  if (node == NULL)
    return NULL;
  shape = rlx_node_get_shape (node, &n_dims);
  if (n_dims != 3 || heads < 1 || shape[2] % heads != 0)
    {
      rlx_map_refused (error, "%s is not [batch, steps, %" G_GINT64_FORMAT " heads · width]", what, heads);
      return NULL;
    }
  return rlx_map_reshape (call, node, (gint64[]) { shape[0], shape[1], heads, shape[2] / heads }, 4, error);
}

gboolean
rlx_onnx_map_linear_attention (RlxMapCall *call,
                               GError    **error)
{
  static const char *const rules[] = { "linear", "gated", "delta", "gated_delta", NULL };
  const char *rule = rlx_map_arg_string (call, "update_rule", NULL);
  RlxNode *inputs[6] = { NULL, };
  g_autofree RlxNode **results = NULL;
  g_autoptr(GVariant) attrs = NULL;
  gint64 q_heads, heads;
  const gint64 *shape;
  double scale;
  gboolean decays, learns;
  gsize n, n_dims;

  if (!rlx_map_arg_int (call, "q_num_heads", 0, &q_heads, error) || !rlx_map_arg_int (call, "kv_num_heads", 0, &heads, error) ||
      !rlx_map_arg_double (call, "scale", 0, &scale, error))
    return FALSE;
  if (rule == NULL)
    rule = "gated_delta";
  if (!g_strv_contains (rules, rule))
    return rlx_map_unsupported (error, "the update rule “%s”", rule);
  decays = g_str_has_prefix (rule, "gated");
  learns = g_str_has_suffix (rule, "delta");
  if (decays != rlx_map_has_input (call, 4) || learns != rlx_map_has_input (call, 5))
    return rlx_map_refused (error, "the update rule “%s” needs %s decay and %s beta", rule, decays ? "a" : "no", learns ? "a" : "no");

  inputs[0] = split_heads (call, rlx_map_input (call, 0, FALSE, error), q_heads, "the query", error);
  inputs[1] = inputs[0] != NULL ? split_heads (call, rlx_map_input (call, 1, FALSE, error), heads, "the key", error) : NULL;
  inputs[2] = inputs[1] != NULL ? split_heads (call, rlx_map_input (call, 2, FALSE, error), heads, "the value", error) : NULL;
  if (inputs[2] == NULL)
    return FALSE;
  if (decays)
    {
      RlxNode *decay = rlx_map_input (call, 4, FALSE, error);

      if (decay == NULL)
        return FALSE;
      shape = rlx_node_get_shape (decay, &n_dims);
      /* One for each head, or for each row of a head's state. */
      inputs[3] = n_dims == 3 && shape[2] == heads ? decay : split_heads (call, decay, heads, "the decay", error);
      if (inputs[3] == NULL)
        return FALSE;
    }
  if (learns)
    {
      RlxNode *beta = rlx_map_input (call, 5, FALSE, error);

      if (beta == NULL)
        return FALSE;
      shape = rlx_node_get_shape (beta, &n_dims);
      if (n_dims != 3 || (shape[2] != heads && shape[2] != 1))
        return rlx_map_refused (error, "beta has no number for each head");
      inputs[4] = shape[2] == heads ? beta : rlx_map_op1 (call, "expand", beta, rlx_map_attrs ("shape", rlx_map_ints ((gint64[]) { shape[0], shape[1], heads }, 3), NULL), error);
      if (inputs[4] == NULL)
        return FALSE;
    }
  if (rlx_map_has_input (call, 3) &&
      (inputs[5] = rlx_map_cast (call, rlx_map_input (call, 3, FALSE, error), RLX_DATA_TYPE_F32, error)) == NULL)
    return FALSE;

  attrs = g_variant_ref_sink (rlx_map_attrs ("scale", g_variant_new_double (scale), "delta_rule", g_variant_new_boolean (learns), NULL));
  results = rlx_map_add_op (call, "gated_delta_net", inputs, inputs[5] != NULL ? 6 : inputs[4] != NULL ? 5 : inputs[3] != NULL ? 4 : 3, attrs, &n, error);
  if (results == NULL || n < 2)
    return FALSE;
  if (rlx_map_wants_output (call, 1))
    {
      RlxNode *state = results[1];

      if (rlx_map_has_input (call, 3))
        state = rlx_map_cast (call, state, rlx_node_get_data_type (rlx_map_input (call, 3, FALSE, NULL)), error);
      else
        state = rlx_map_cast (call, state, rlx_node_get_data_type (results[0]), error);
      if (!rlx_map_return (call, 1, state))
        return FALSE;
    }
  shape = rlx_node_get_shape (results[0], &n_dims);
  return rlx_map_return (call, 0, rlx_map_reshape (call, results[0], (gint64[]) { shape[0], shape[1], shape[2] * shape[3] }, 3, error));
}

gboolean
rlx_onnx_map_causal_conv (RlxMapCall *call,
                          GError    **error)
{
  const char *activation = rlx_map_arg_string (call, "activation", NULL);
  RlxNode *inputs[4] = { NULL, };
  g_autofree RlxNode **results = NULL;
  const gint64 *shape;
  gint64 n_axes;
  gsize n, n_dims;

  if (!rlx_map_arg_int (call, "ndim", 1, &n_axes, error))
    return FALSE;
  if (n_axes != 1)
    return rlx_map_unsupported (error, "%" G_GINT64_FORMAT " spatial axes", n_axes);
  if (activation != NULL && !g_str_equal (activation, "none") && !g_str_equal (activation, "silu") && !g_str_equal (activation, "swish"))
    return rlx_map_unsupported (error, "the activation “%s”", activation);
  for (guint i = 0; i < 4; i++)
    if ((i < 2 || rlx_map_has_input (call, i)) && (inputs[i] = rlx_map_input (call, i, FALSE, error)) == NULL)
      return FALSE;
  shape = rlx_node_get_shape (inputs[1], &n_dims);
  if (n_dims != 3 || shape[1] != 1)
    return rlx_map_refused (error, "the weight is not [channels, 1, width]");
  inputs[1] = rlx_map_reshape (call, inputs[1], (gint64[]) { shape[0], shape[2] }, 2, error);
  if (inputs[1] == NULL)
    return FALSE;
  results = rlx_map_add_op (call, "causal_conv1d", inputs, inputs[3] != NULL ? 4 : inputs[2] != NULL ? 3 : 2, NULL, &n, error);
  if (results == NULL || n < 2)
    return FALSE;
  if (rlx_map_wants_output (call, 1) && !rlx_map_return (call, 1, results[1]))
    return FALSE;
  if (activation != NULL && !g_str_equal (activation, "none"))
    results[0] = rlx_map_op1 (call, "silu", results[0], NULL, error);
  return rlx_map_return (call, 0, results[0]);
}

/* ---- random numbers ------------------------------------------------------------------------------ */

/* The same numbers in each run, since a file only has a seed, if anything. Each node of a model has its own numbers. */
static RlxNode *
get_key (RlxMapCall *call,
         GError    **error)
{
  g_autoptr(RlxTensor) tensor = NULL;
  double seed = 0;
  gint64 words[2];

  if (!rlx_map_arg_double (call, "seed", 0, &seed, error))
    return NULL;
  words[0] = isfinite (seed) ? (gint64) fmod (fabs (trunc (seed)), 0x1p32) : 0;
  words[1] = rlx_map_arg (call, "seed") != NULL ? 0 : (gint64) (call->node->at % 0x7fffffff) + 1;
  tensor = rlx_tensor_new_from_ints (RLX_DATA_TYPE_U32, (gint64[]) { 2 }, 1, words, 2, error);
  return tensor != NULL ? rlx_map_constant (call, tensor, error) : NULL;
}

gboolean
rlx_onnx_map_random (RlxMapCall *call,
                     GError    **error)
{
  gboolean normal = g_str_has_prefix (call->node->op, "RandomNormal"), like = g_str_has_suffix (call->node->op, "Like");
  RlxNode *key = get_key (call, error), *x = NULL;
  g_autofree gint64 *shape = NULL;
  double a, b;
  RlxDataType to = RLX_DATA_TYPE_F32;
  gsize n_dims;

  if (key == NULL ||
      !rlx_map_arg_double (call, normal ? "mean" : "low", 0, &a, error) ||
      !rlx_map_arg_double (call, normal ? "scale" : "high", 1, &b, error))
    return FALSE;
  if (like)
    {
      RlxMapValue *value = rlx_map_get_value (call, 0, error);

      /* Only its shape and type matter. */
      x = value != NULL ? rlx_map_input (call, 0, FALSE, error) : NULL;
      if (x == NULL)
        return FALSE;
      shape = rlx_map_copy_shape (x, &n_dims);
      to = rlx_node_get_data_type (x);
    }
  else if ((shape = rlx_map_arg_ints (call, "shape", &n_dims, error)) == NULL)
    {
      return FALSE;
    }
  if (!rlx_map_arg_data_type (call, "dtype", to, &to, error))
    return FALSE;
  x = rlx_map_op1 (call, normal ? "random_normal" : "random_uniform", key,
                   rlx_map_attrs ("shape", rlx_map_ints (shape, n_dims), normal ? "mean" : "low", g_variant_new_double (a),
                                  normal ? "scale" : "high", g_variant_new_double (b), NULL), error);
  return rlx_map_return (call, 0, rlx_map_cast (call, x, to, error));
}

gboolean
rlx_onnx_map_bernoulli (RlxMapCall *call,
                        GError    **error)
{
  RlxNode *p = rlx_map_input (call, 0, FALSE, error);
  RlxNode *key = p != NULL ? get_key (call, error) : NULL, *x;
  g_autofree gint64 *shape = NULL;
  RlxDataType to;
  gsize n_dims;

  if (key == NULL)
    return FALSE;
  to = rlx_node_get_data_type (p);
  if (!rlx_map_arg_data_type (call, "dtype", to, &to, error))
    return FALSE;
  shape = rlx_map_copy_shape (p, &n_dims);
  x = rlx_map_op1 (call, "random_uniform", key, rlx_map_attrs ("shape", rlx_map_ints (shape, n_dims), NULL), error);
  p = rlx_map_cast (call, p, RLX_DATA_TYPE_F32, error);
  x = x != NULL && p != NULL ? rlx_map_op2 (call, "less", x, p, NULL, error) : NULL;
  return rlx_map_return (call, 0, rlx_map_cast (call, x, to, error));
}

/* Rows of log probabilities; several numbers are drawn from each. */
gboolean
rlx_onnx_map_multinomial (RlxMapCall *call,
                          GError    **error)
{
  RlxNode *x = rlx_map_input (call, 0, FALSE, error);
  RlxNode *key = x != NULL ? get_key (call, error) : NULL;
  const gint64 *shape;
  gint64 n, rows, columns;
  RlxDataType to;
  gsize n_dims;

  if (key == NULL || !rlx_map_arg_int (call, "sample_size", 1, &n, error) || !rlx_map_arg_data_type (call, "dtype", RLX_DATA_TYPE_I32, &to, error))
    return FALSE;
  shape = rlx_node_get_shape (x, &n_dims);
  if (n_dims != 2 || n < 1)
    return rlx_map_refused (error, "%" G_GINT64_FORMAT " numbers of an operand with %" G_GSIZE_FORMAT " dimensions", n, n_dims);
  rows = shape[0];
  columns = shape[1];
  x = rlx_map_reshape (call, x, (gint64[]) { rows, 1, columns }, 3, error);
  if (x != NULL)
    x = rlx_map_op1 (call, "expand", x, rlx_map_attrs ("shape", rlx_map_ints ((gint64[]) { rows, n, columns }, 3), NULL), error);
  x = x != NULL ? rlx_map_op2 (call, "sample", x, key, NULL, error) : NULL;
  return rlx_map_return (call, 0, rlx_map_cast (call, x, to, error));
}
