/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Power spectra of signals.
 */
#include "config.h"

#include "ops/rlx-gradient-private.h"
#include "ops/rlx-signal-private.h"

#include <math.h>

/* The power that log_mel assumes for silence. */
#define LEAST_POWER 1e-10
/* How far below the loudest value it still resolves levels, in powers of ten. */
#define RANGE 8.0

static RlxIrValue *
get_input (const RlxIrNode   *node,
           RlxIrValue *const *inputs,
           guint              index)
{
  return index < node->n_inputs ? inputs[index] : NULL;
}

static const RlxTensorType *
get_type (const RlxOpCall *call,
          guint            index)
{
  return index < call->n_inputs ? call->inputs[index] : NULL;
}

/* The given window, or a Hann window. */
static RlxIrValue *
get_window (RlxBuilder *b,
            RlxIrValue *given,
            gint64      length)
{
  return given != NULL ? given : rlx_build_constant (b, rlx_tensor_new_window (RLX_WINDOW_SHAPE_HANN, length, TRUE, 0, NULL));
}

static gboolean
check_length (const RlxOpCall *call,
              gint64           length,
              GError         **error)
{
  if (length < 1 || length > 1 << 24)
    return rlx_call_error (call, error, length < 1 ? RLX_GRAPH_ERROR_INVALID_ARGUMENT : RLX_GRAPH_ERROR_LIMIT,
                           "a transform has %" G_GINT64_FORMAT " elements; it must have 1 to 16777216", length);
  return TRUE;
}

/* ---- power_spectrum --------------------------------------------------------------------- */

static gint64
get_length (const RlxPowerSpectrumAttrs *attrs,
            const RlxTensorType         *type)
{
  return attrs->fft_length != 0 ? attrs->fft_length : type->shape[type->n_dims - 1];
}

gboolean
rlx_power_spectrum_infer (RlxOpCall                   *call,
                          const RlxPowerSpectrumAttrs *attrs,
                          GError                     **error)
{
  RlxTensorType type = *call->inputs[0];
  gint64 length;

  if (type.n_dims == 0 || type.shape[type.n_dims - 1] == 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the signal has no elements");
  length = get_length (attrs, &type);
  if (!check_length (call, length, error) || !rlx_frames_check_window (call, get_type (call, 1), length, error))
    return FALSE;
  type.shape[type.n_dims - 1] = length / 2 + 1;
  rlx_call_add_output (call, &type);
  return TRUE;
}

RlxIrValue *
rlx_power_spectrum_expand (RlxBuilder        *b,
                           const RlxIrNode   *node,
                           RlxIrValue *const *inputs)
{
  const RlxPowerSpectrumAttrs *attrs = rlx_power_spectrum_attrs (node);
  RlxIrValue *x = rlx_build_as (b, inputs[0], RLX_DATA_TYPE_F32), *window = get_input (node, inputs, 1);
  gint64 length = get_length (attrs, &inputs[0]->type);

  if (window != NULL && x != NULL)
    {
      gint64 n = x->type.shape[x->type.n_dims - 1], size = MIN (n, length);

      window = rlx_frames_fill_window (b, window, length);
      if (size < n)
        x = rlx_build_part (b, x, -1, 0, size);
      if (size < length)
        {
          /* the padding is 0 whatever the window has there, unless that is NaN */
          gint64 before[RLX_MAX_DIMS] = { 0, }, after[RLX_MAX_DIMS] = { 0, };

          after[inputs[0]->type.n_dims - 1] = length - size;
          x = rlx_build_pad (b, x, NULL, RLX_PAD_ATTRS (.before = RLX_INTS (before, inputs[0]->type.n_dims),
                                                        .after = RLX_INTS (after, inputs[0]->type.n_dims)));
        }
      x = rlx_build_mul (b, x, window);
    }
  x = rlx_build_rfft (b, x, RLX_RFFT_ATTRS (.lengths = RLX_INTS (&length, 1), .norm = attrs->norm));
  return rlx_build_as (b, rlx_build_abs_squared (b, x), node->outputs[0].type.data_type);
}

/* ---- mel spectrograms --------------------------------------------------------------------- */

static gboolean
infer_mels (RlxOpCall       *call,
            const RlxFrames *frames,
            gint64           n_left_out,
            GError         **error)
{
  const RlxTensorType *filters = call->inputs[1];
  RlxTensorType type = *call->inputs[0];
  gint64 n_frames;

  if (!check_length (call, frames->length, error) ||
      !rlx_frames_check_window (call, get_type (call, 2), frames->length, error) ||
      !rlx_frames_count (call, frames, &type, &n_frames, error))
    return FALSE;
  if (filters->n_dims != 2 || filters->shape[0] != frames->length / 2 + 1)
    {
      g_autofree char *text = rlx_type_to_string (filters);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                             "filters is %s; it must be [%" G_GINT64_FORMAT ", mels] for transforms of %" G_GINT64_FORMAT " elements",
                             text, frames->length / 2 + 1, frames->length);
    }
  if (type.n_dims == RLX_MAX_DIMS)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                           "the operand has %u dimensions, with one more for frames that is beyond the limit of %u",
                           type.n_dims, RLX_MAX_DIMS);
  if (n_frames <= n_left_out)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "the signal has %" G_GINT64_FORMAT " frame, and the last one is left out", n_frames);
  type.shape[type.n_dims - 1] = filters->shape[1];
  type.shape[type.n_dims++] = n_frames - n_left_out;
  rlx_call_add_output (call, &type);
  return TRUE;
}

/* [..., mels, frames], in f32. */
static RlxIrValue *
build_mels (RlxBuilder        *b,
            const RlxFrames   *frames,
            const RlxIrNode   *node,
            RlxIrValue *const *inputs,
            gboolean           magnitude)
{
  RlxIrValue *window = get_window (b, get_input (node, inputs, 2), frames->length);
  RlxIrValue *x = rlx_frames_build (b, frames, inputs[0], window);

  x = rlx_build_abs_squared (b, rlx_build_rfft (b, x, NULL));
  if (magnitude)
    x = rlx_build_sqrt (b, x);
  return rlx_build_matmul (b, rlx_build_as (b, inputs[1], RLX_DATA_TYPE_F32), x,
                           RLX_MATMUL_ATTRS (.transpose_a = TRUE, .transpose_b = TRUE));
}

static RlxFrames
get_frames (const RlxMelSpectrogramAttrs *attrs)
{
  return (RlxFrames) { attrs->fft_length, attrs->hop, attrs->center, attrs->pad_mode };
}

gboolean
rlx_mel_spectrogram_infer (RlxOpCall                    *call,
                           const RlxMelSpectrogramAttrs *attrs,
                           GError                      **error)
{
  const RlxFrames frames = get_frames (attrs);

  return infer_mels (call, &frames, 0, error);
}

RlxIrValue *
rlx_mel_spectrogram_expand (RlxBuilder        *b,
                            const RlxIrNode   *node,
                            RlxIrValue *const *inputs)
{
  const RlxMelSpectrogramAttrs *attrs = rlx_mel_spectrogram_attrs (node);
  const RlxFrames frames = get_frames (attrs);

  return rlx_build_as (b, build_mels (b, &frames, node, inputs, attrs->magnitude), node->outputs[0].type.data_type);
}

gboolean
rlx_log_mel_infer (RlxOpCall            *call,
                   const RlxLogMelAttrs *attrs,
                   GError              **error)
{
  const RlxFrames frames = { attrs->fft_length, attrs->hop, attrs->center, attrs->pad_mode };

  return infer_mels (call, &frames, 1, error);
}

RlxIrValue *
rlx_log_mel_expand (RlxBuilder        *b,
                    const RlxIrNode   *node,
                    RlxIrValue *const *inputs)
{
  const RlxLogMelAttrs *attrs = rlx_log_mel_attrs (node);
  const RlxFrames frames = { attrs->fft_length, attrs->hop, attrs->center, attrs->pad_mode };
  RlxIrValue *x = build_mels (b, &frames, node, inputs, FALSE), *top;
  const gint64 axes[] = { -2, -1 };

  if (x == NULL)
    return NULL;
  x = rlx_build_part (b, x, -1, 0, x->type.shape[x->type.n_dims - 1] - 1);
  x = rlx_build_log (b, rlx_build_clamp (b, x, RLX_CLAMP_ATTRS (.minimum = LEAST_POWER)));
  if (x == NULL)
    return NULL;
  x = rlx_build_mul (b, x, rlx_build_number (b, x, 1 / log (10)));
  if (rlx_type_n_elements (&node->outputs[0].type) == 0)
    return rlx_build_as (b, x, node->outputs[0].type.data_type);
  top = rlx_build_reduce_max (b, x, RLX_REDUCE_MAX_ATTRS (.axes = RLX_INTS (axes, 2), .keep_dims = TRUE));
  if (top == NULL)
    return NULL;
  x = rlx_build_max (b, x, rlx_build_sub (b, top, rlx_build_number (b, top, RANGE)));
  if (x == NULL)
    return NULL;
  x = rlx_build_mul (b, rlx_build_add (b, x, rlx_build_number (b, x, 4)), rlx_build_number (b, x, 0.25));
  return rlx_build_as (b, x, node->outputs[0].type.data_type);
}

/* ---- welch_peaks ---------------------------------------------------------------------------- */

static RlxFrames
get_segments (const RlxWelchPeaksAttrs *attrs)
{
  return (RlxFrames) { .length = attrs->length, .hop = attrs->hop != 0 ? attrs->hop : MAX (attrs->length / 2, 1) };
}

gboolean
rlx_welch_peaks_infer (RlxOpCall                *call,
                       const RlxWelchPeaksAttrs *attrs,
                       GError                  **error)
{
  const RlxFrames segments = get_segments (attrs);
  RlxTensorType type = *call->inputs[0];
  gint64 n_segments;

  if (!check_length (call, attrs->length, error) || !rlx_frames_check_window (call, get_type (call, 1), attrs->length, error) ||
      !rlx_frames_count (call, &segments, &type, &n_segments, error))
    return FALSE;
  if (attrs->k < 0 || attrs->k > attrs->length / 2 + 1)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "k is %" G_GINT64_FORMAT "; it must be from 0 to %" G_GINT64_FORMAT ", the number of frequencies",
                           attrs->k, attrs->length / 2 + 1);
  if (type.n_dims == RLX_MAX_DIMS)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                           "the operand has %u dimensions, with one more for segments that is beyond the limit of %u",
                           type.n_dims, RLX_MAX_DIMS);
  type.shape[type.n_dims - 1] = attrs->k;
  type.data_type = RLX_DATA_TYPE_I32;
  rlx_call_add_output (call, &type);
  type.data_type = call->inputs[0]->data_type;
  rlx_call_add_output (call, &type);
  return TRUE;
}

RlxIrValue *
rlx_welch_peaks_expand (RlxBuilder        *b,
                        const RlxIrNode   *node,
                        RlxIrValue *const *inputs)
{
  const RlxWelchPeaksAttrs *attrs = rlx_welch_peaks_attrs (node);
  const RlxFrames segments = get_segments (attrs);
  RlxIrValue *x = rlx_frames_build (b, &segments, inputs[0], get_window (b, get_input (node, inputs, 1), attrs->length));
  const gint64 axis = -2;
  RlxIrNode *peaks;

  x = rlx_build_abs_squared (b, rlx_build_rfft (b, x, RLX_RFFT_ATTRS (.norm = attrs->norm)));
  x = rlx_build_reduce_mean (b, x, RLX_REDUCE_MEAN_ATTRS (.axes = RLX_INTS (&axis, 1)));
  peaks = rlx_build_top_k (b, x, RLX_TOP_K_ATTRS (.k = attrs->k));
  if (peaks == NULL)
    return NULL;
  b->results[0] = &peaks->outputs[1];
  b->results[1] = rlx_build_as (b, &peaks->outputs[0], node->outputs[1].type.data_type);
  return b->results[0];
}
