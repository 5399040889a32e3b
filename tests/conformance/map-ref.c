/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The operators of the reference vectors: the op table's own names, but for a
 * few attributes.
 */
#include "config.h"

#include "map.h"
#include "map-fourier.h"
#include "map-index.h"
#include "map-window.h"

#define SAME(name) ROW (name, name)

static gboolean
ref_map_rope (MapCall *call,
              GError **error)
{
  RlxNode *operands[4] = { NULL, };   /* the second holds positions, which the tables are ordered by */
  const char *style;

  for (guint i = 0; i < 3; i++)
    {
      RlxNode *operand = map_input (call, i, FALSE, error);

      if (operand == NULL)
        return FALSE;
      operands[i == 0 ? 0 : i + 1] = operand;
    }
  style = map_arg_string (call, "style", error);
  if (style == NULL && *error != NULL)
    return FALSE;
  return map_return (call, 0,
                     map_op (call, "rope", operands, 4,
                             map_attrs ("interleaved", g_variant_new_boolean (style != NULL && !g_str_equal (style, "half")), NULL),
                             error));
}

const Mapping mappings_ref[] = {
  SAME ("abs"),
  SAME ("acos"),
  SAME ("acosh"),
  SAME ("add"),
  SAME ("asin"),
  SAME ("asinh"),
  SAME ("atan"),
  SAME ("atan2"),
  SAME ("atanh"),
  SAME ("ceil"),
  SAME ("cos"),
  SAME ("cosh"),
  SAME ("div"),
  SAME ("erf"),
  SAME ("exp"),
  SAME ("floor"),
  SAME ("gelu"),
  SAME ("gelu_tanh"),
  SAME ("log"),
  SAME ("log_sigmoid"),
  SAME ("max"),
  SAME ("min"),
  SAME ("mish"),
  SAME ("mul"),
  SAME ("neg"),
  SAME ("pow"),
  SAME ("reciprocal"),
  SAME ("relu"),
  SAME ("rsqrt"),
  SAME ("sigmoid"),
  SAME ("sign"),
  SAME ("silu"),
  SAME ("sin"),
  SAME ("sinh"),
  SAME ("softplus"),
  SAME ("softsign"),
  SAME ("sqrt"),
  SAME ("sub"),
  SAME ("tan"),
  SAME ("tanh"),
  SAME ("where"),
  ROW ("elu", "elu", .attrs = "alpha/f=1"),
  ROW ("celu", "celu", .attrs = "alpha/f=1"),
  ROW ("leaky_relu", "leaky_relu", .attrs = "alpha/f=0.01"),
  ROW ("hardsigmoid", "hard_sigmoid", .attrs = "alpha/f=0.16666666666666666 beta/f=0.5"),
  ROW ("hardswish", "hard_swish"),
  ROW ("quick_gelu", "quick_gelu"),
  ROW ("round", "round_even"),

  ROW ("matmul", "matmul", .attrs = "transpose_a/b=0 transpose_b/b=0"),
  ROW ("grouped_matmul", "grouped_matmul"),
  ROW ("attention", "attention", .attrs = "scale/f causal/b window/i softcap/f"),
  ROW ("rope", "rope", .func = ref_map_rope),
  ROW ("conv1d", "conv", .func = ref_map_conv),
  ROW ("conv2d", "conv", .func = ref_map_conv),
  ROW ("conv3d", "conv", .func = ref_map_conv),
  ROW ("conv_transpose2d", "conv_transpose", .func = ref_map_conv),
  ROW ("avg_pool2d", "average_pool", .func = ref_map_pool),
  ROW ("max_pool2d", "max_pool", .func = ref_map_pool),
  ROW ("softmax", "softmax", .attrs = "axis/i=-1"),
  ROW ("log_softmax", "log_softmax", .attrs = "axis/i=-1"),
  ROW ("layer_norm", "layer_norm", .attrs = "axis:axes/A=-1 eps:epsilon/f=1e-5"),
  ROW ("rms_norm", "rms_norm", .attrs = "axis:axes/A=-1 eps:epsilon/f=1e-6"),
  ROW ("group_norm", "group_norm", .attrs = "groups/i eps:epsilon/f=1e-5"),
  /* The norm is always the default of the table. */
  ROW ("fft", "fft", .ignored = "norm"),
  ROW ("ifft", "ifft", .ignored = "norm"),
  ROW ("rfft", "rfft", .ignored = "norm"),
  ROW ("irfft", "irfft", .attrs = "n:lengths/A", .ignored = "norm"),
  ROW ("stft", "stft", .func = ref_map_stft),
  ROW ("mel_spectrogram", "mel_spectrogram", .func = ref_map_mel_spectrogram, .ignored = "sample_rate"),
  ROW ("log_mel", "log_mel", .func = ref_map_log_mel, .ignored = "sample_rate"),
  ROW ("softmax_cross_entropy", "softmax_cross_entropy", .attrs = "reduction/s"),
  ROW ("gather_rows", "gather", .attrs = "axis/i=0"),
  ROW ("scatter_add_rows", "scatter_nd", .func = ref_map_scatter_add_rows),
  ROW ("cumsum", "cumsum", .attrs = "axis/i=-1"),
  /* Sorted order is valid where any order is. */
  ROW ("selective_scan", "selective_scan"),
  ROW ("gated_delta_net", "gated_delta_net", .attrs = "q_scale:scale/f", .ignored = "layout gate"),
  ROW ("topk", "top_k", .attrs = "k/i axis/i=-1 largest/b=1", .ignored = "sorted"),
  { .name = NULL }
};
