/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Frames of signals, and their Fourier transforms.
 */
#include "config.h"

#include "ops/rlx-gradient-private.h"
#include "ops/rlx-kernel-private.h"
#include "ops/rlx-signal-private.h"
#include "util/rlx-checked-private.h"

#include <string.h>

#define WORKGROUP_SIZE 64

/* Smaller sums of squared windows are not divided by. */
#define LEAST_ENVELOPE 1e-11

/* ---- frames ----------------------------------------------------------------------------- */

static gboolean
check_hop (const RlxOpCall *call,
           gint64           hop,
           GError         **error)
{
  if (hop < 1)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "the hop is %" G_GINT64_FORMAT "; it must be at least 1", hop);
  return TRUE;
}

static gboolean
check_length (const RlxOpCall *call,
              const char      *name,
              gint64           length,
              GError         **error)
{
  if (length < 1)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "the %s is %" G_GINT64_FORMAT "; it must be at least 1", name, length);
  return TRUE;
}

gboolean
rlx_frames_check_window (const RlxOpCall     *call,
                         const RlxTensorType *window,
                         gint64               length,
                         GError             **error)
{
  g_autofree char *text = NULL;

  if (window == NULL || (window->n_dims == 1 && window->shape[0] > 0 && window->shape[0] <= length))
    return TRUE;

  text = rlx_type_to_string (window);
  return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                         "window is %s; it must have one dimension, of 1 to %" G_GINT64_FORMAT " elements, which is the length of a frame",
                         text, length);
}

gboolean
rlx_frames_count (const RlxOpCall     *call,
                  const RlxFrames     *frames,
                  const RlxTensorType *signal,
                  gint64              *n_frames,
                  GError             **error)
{
  gint64 n;

  if (!check_hop (call, frames->hop, error))
    return FALSE;
  if (signal->n_dims == 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the operand has no dimensions, a signal has one at least");
  n = signal->shape[signal->n_dims - 1];
  if (n == 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the signal has no elements");
  if (frames->center && !rlx_add_i64 (n, frames->length / 2 * 2, &n))
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT, "a frame of %" G_GINT64_FORMAT " elements is too long", frames->length);
  if (n < frames->length)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "a frame has %" G_GINT64_FORMAT " elements, more than the signal, which has %" G_GINT64_FORMAT,
                           frames->length, n);
  *n_frames = 1 + (n - frames->length) / frames->hop;
  return TRUE;
}

RlxIrValue *
rlx_frames_fill_window (RlxBuilder *b,
                        RlxIrValue *window,
                        gint64      length)
{
  gint64 before, after;

  if (window == NULL)
    return NULL;
  window = rlx_build_as (b, window, RLX_DATA_TYPE_F32);
  if (window == NULL || window->type.shape[0] == length)
    return window;
  before = (length - window->type.shape[0]) / 2;
  after = length - window->type.shape[0] - before;
  return rlx_build_pad (b, window, NULL, RLX_PAD_ATTRS (.before = RLX_INTS (&before, 1), .after = RLX_INTS (&after, 1)));
}

RlxIrValue *
rlx_frames_build (RlxBuilder      *b,
                  const RlxFrames *frames,
                  RlxIrValue      *signal,
                  RlxIrValue      *window)
{
  RlxIrValue *x = rlx_build_as (b, signal, RLX_DATA_TYPE_F32);

  if (x != NULL && frames->center && frames->length > 1)
    {
      gint64 beside[RLX_MAX_DIMS] = { 0, };

      beside[x->type.n_dims - 1] = frames->length / 2;
      x = rlx_build_pad (b, x, NULL, RLX_PAD_ATTRS (.before = RLX_INTS (beside, x->type.n_dims),
                                                    .after = RLX_INTS (beside, x->type.n_dims), .mode = frames->pad_mode));
    }
  x = rlx_build_frame (b, x, RLX_FRAME_ATTRS (.length = frames->length, .hop = frames->hop));
  return window != NULL ? rlx_build_mul (b, x, rlx_frames_fill_window (b, window, frames->length)) : x;
}

gboolean
rlx_frame_infer (RlxOpCall           *call,
                 const RlxFrameAttrs *attrs,
                 GError             **error)
{
  const RlxFrames frames = { .length = attrs->length, .hop = attrs->hop };
  RlxTensorType type = *call->inputs[0];
  gint64 n_frames;

  if (!check_length (call, "length", attrs->length, error) || !rlx_frames_count (call, &frames, &type, &n_frames, error))
    return FALSE;
  if (type.n_dims == RLX_MAX_DIMS)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                           "the operand has %u dimensions, with one more for frames that is beyond the limit of %u",
                           type.n_dims, RLX_MAX_DIMS);
  type.shape[type.n_dims - 1] = n_frames;
  type.shape[type.n_dims++] = attrs->length;
  rlx_call_add_output (call, &type);
  return TRUE;
}

void
rlx_frame_gradient (RlxGradient     *self,
                    const RlxIrNode *node)
{
  RlxBuilder *b = rlx_gradient_get_builder (self);
  const RlxTensorType *x = &node->inputs[0]->type;
  gint64 before[RLX_MAX_DIMS] = { 0, }, after[RLX_MAX_DIMS] = { 0, };
  RlxIrValue *g;

  g = rlx_build_overlap_add (b, rlx_gradient_get (self, node, 0), RLX_OVERLAP_ADD_ATTRS (.hop = rlx_frame_attrs (node)->hop));
  if (g == NULL)
    return;
  /* samples that did not fill a frame */
  after[x->n_dims - 1] = x->shape[x->n_dims - 1] - g->type.shape[x->n_dims - 1];
  if (after[x->n_dims - 1] > 0)
    g = rlx_build_pad (b, g, NULL, RLX_PAD_ATTRS (.before = RLX_INTS (before, x->n_dims), .after = RLX_INTS (after, x->n_dims)));
  rlx_gradient_add (self, node, 0, g);
}

/* ---- adding frames ------------------------------------------------------------------------ */

/* The length of a signal that is assembled from frames. */
static gboolean
count_samples (const RlxOpCall *call,
               gint64           n_frames,
               gint64           length,
               gint64           hop,
               gint64          *n,
               GError         **error)
{
  if (!check_hop (call, hop, error))
    return FALSE;
  if (n_frames == 0 || length == 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "there are %" G_GINT64_FORMAT " frames of %" G_GINT64_FORMAT " elements; there must be at least 1 of each",
                           n_frames, length);
  if (!rlx_mul_i64 (n_frames - 1, hop, n) || !rlx_add_i64 (*n, length, n))
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                           "%" G_GINT64_FORMAT " frames that begin %" G_GINT64_FORMAT " elements apart are too long a signal",
                           n_frames, hop);
  return TRUE;
}

gboolean
rlx_overlap_add_infer (RlxOpCall                *call,
                       const RlxOverlapAddAttrs *attrs,
                       GError                  **error)
{
  RlxTensorType type = *call->inputs[0];
  gint64 n;

  if (type.n_dims < 2)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the operand has %u dimensions, frames of signals have two at least",
                           type.n_dims);
  if (!count_samples (call, type.shape[type.n_dims - 2], type.shape[type.n_dims - 1], attrs->hop, &n, error))
    return FALSE;
  type.n_dims--;
  type.shape[type.n_dims - 1] = n;
  rlx_call_add_output (call, &type);
  return TRUE;
}

gboolean
rlx_overlap_add_lower (RlxLower        *lower,
                       const RlxIrNode *node,
                       GError         **error)
{
  const RlxTensorType *x = &node->inputs[0]->type, *y = &node->outputs[0].type;
  guint64 n = rlx_type_n_elements (y), n_frames = (guint64) x->shape[x->n_dims - 2], length = (guint64) x->shape[x->n_dims - 1];
  guint64 hop = (guint64) rlx_overlap_add_attrs (node)->hop;
  RlxKernel *kernel;

  if (n == 0)
    return TRUE;

  kernel = rlx_kernel_new (lower, node, "overlap-add");
  rlx_kernel_input (kernel, "x", node->inputs[0]);
  rlx_kernel_output (kernel, "y", &node->outputs[0]);
  rlx_kernel_define (kernel, "WG", WORKGROUP_SIZE);
  rlx_kernel_param_u32 (kernel, "n", n);
  rlx_kernel_param_u32 (kernel, "samples", (guint64) y->shape[y->n_dims - 1]);
  rlx_kernel_param_u32 (kernel, "frames", n_frames);
  rlx_kernel_param_u32 (kernel, "length", length);
  /* a single frame needs no hop, which may be too large for a parameter */
  rlx_kernel_param_u32 (kernel, "hop", n_frames == 1 ? length : hop);
  rlx_kernel_set_cost (kernel, (double) rlx_type_n_elements (x), 4.0 * ((double) rlx_type_n_elements (x) + (double) n));
  return rlx_kernel_dispatch (kernel, rlx_divide_up (n, WORKGROUP_SIZE), error);
}

void
rlx_overlap_add_gradient (RlxGradient     *self,
                          const RlxIrNode *node)
{
  const RlxTensorType *x = &node->inputs[0]->type;

  rlx_gradient_add (self, node, 0,
                    rlx_build_frame (rlx_gradient_get_builder (self), rlx_gradient_get (self, node, 0),
                                     RLX_FRAME_ATTRS (.length = x->shape[x->n_dims - 1], .hop = rlx_overlap_add_attrs (node)->hop)));
}

/* ---- short-time transforms ------------------------------------------------------------------ */

static RlxFrames
get_frames (const RlxStftAttrs *attrs)
{
  return (RlxFrames) { attrs->fft_length, attrs->hop, attrs->center, attrs->pad_mode };
}

gboolean
rlx_stft_infer (RlxOpCall          *call,
                const RlxStftAttrs *attrs,
                GError            **error)
{
  const RlxTensorType *window = call->n_inputs > 1 ? call->inputs[1] : NULL;
  const RlxFrames frames = get_frames (attrs);
  RlxTensorType type = *call->inputs[0], result;
  gint64 n_frames;
  guint n = type.n_dims;

  if (!check_length (call, "fft_length", attrs->fft_length, error) ||
      !rlx_frames_check_window (call, window, attrs->fft_length, error) ||
      !rlx_frames_count (call, &frames, &type, &n_frames, error))
    return FALSE;
  if (n + 2 > RLX_MAX_DIMS)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                           "the operand has %u dimensions, with two more for frames and parts that is beyond the limit of %u",
                           n, RLX_MAX_DIMS);

  result = type;
  if (attrs->layout == RLX_COMPLEX_LAYOUT_PLANAR)
    {
      memmove (result.shape + 1, type.shape, n * sizeof *type.shape);
      result.shape[0] = 2;
      result.n_dims++;
    }
  result.shape[result.n_dims - 1] = n_frames;
  result.shape[result.n_dims++] = attrs->one_sided ? attrs->fft_length / 2 + 1 : attrs->fft_length;
  if (attrs->layout == RLX_COMPLEX_LAYOUT_PAIRS)
    result.shape[result.n_dims++] = 2;
  rlx_call_add_output (call, &result);
  return TRUE;
}

RlxIrValue *
rlx_stft_expand (RlxBuilder        *b,
                 const RlxIrNode   *node,
                 RlxIrValue *const *inputs)
{
  const RlxStftAttrs *attrs = rlx_stft_attrs (node);
  const RlxFrames frames = get_frames (attrs);
  const RlxFftAttrs fft = { .norm = attrs->norm, .layout = attrs->layout };
  RlxIrValue *x = rlx_frames_build (b, &frames, inputs[0], node->n_inputs > 1 ? inputs[1] : NULL);

  if (attrs->one_sided)
    x = rlx_build_rfft (b, x, &fft);
  else if (x != NULL)
    {
      /* append imaginary parts of zero */
      gboolean planar = attrs->layout == RLX_COMPLEX_LAYOUT_PLANAR;
      gint64 shape[RLX_MAX_DIMS], before[RLX_MAX_DIMS] = { 0, }, after[RLX_MAX_DIMS] = { 0, };
      guint n = x->type.n_dims, at = planar ? 0 : n;

      for (guint i = 0; i < n; i++)
        shape[i + planar] = x->type.shape[i];
      shape[at] = 1;
      after[at] = 1;
      x = rlx_build_reshape (b, x, RLX_RESHAPE_ATTRS (.shape = RLX_INTS (shape, n + 1)));
      x = rlx_build_pad (b, x, NULL, RLX_PAD_ATTRS (.before = RLX_INTS (before, n + 1), .after = RLX_INTS (after, n + 1)));
      x = rlx_build_fft (b, x, &fft);
    }
  return rlx_build_as (b, x, node->outputs[0].type.data_type);
}

/* The type without the dimension for real and imaginary parts. */
static RlxTensorType
get_numbers (const RlxTensorType *type,
             RlxComplexLayout     layout)
{
  RlxTensorType numbers = *type;

  if (layout == RLX_COMPLEX_LAYOUT_PLANAR)
    memmove (numbers.shape, numbers.shape + 1, (numbers.n_dims - 1) * sizeof *numbers.shape);
  numbers.n_dims--;
  return numbers;
}

static gint64
get_transform (const RlxIstftAttrs *attrs,
               gint64               n_bins)
{
  if (attrs->fft_length > 0)
    return attrs->fft_length;
  return attrs->one_sided ? 2 * (n_bins - 1) : n_bins;
}

gboolean
rlx_istft_infer (RlxOpCall           *call,
                 const RlxIstftAttrs *attrs,
                 GError             **error)
{
  const RlxTensorType *x = call->inputs[0], *window = call->n_inputs > 1 ? call->inputs[1] : NULL;
  gboolean planar = attrs->layout == RLX_COMPLEX_LAYOUT_PLANAR;
  g_autofree char *text = rlx_type_to_string (x);
  RlxTensorType type;
  gint64 n, n_bins, length;

  if (x->n_dims < 3 || x->shape[planar ? 0 : x->n_dims - 1] != 2)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "the operand is %s; it must have three dimensions at least: %s", text,
                           planar ? "[2, …, frames, bins]" : "[…, frames, bins, 2]");
  type = get_numbers (x, attrs->layout);
  n_bins = type.shape[type.n_dims - 1];
  length = get_transform (attrs, n_bins);
  if (attrs->fft_length < 0 || length < 1)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "the transform has %" G_GINT64_FORMAT " elements; it must have at least 1", attrs->fft_length < 0 ? attrs->fft_length : length);
  if (n_bins != (attrs->one_sided ? length / 2 + 1 : length))
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "there are %" G_GINT64_FORMAT " bins, a transform of %" G_GINT64_FORMAT " elements has %" G_GINT64_FORMAT,
                           n_bins, length, attrs->one_sided ? length / 2 + 1 : length);
  if (!rlx_frames_check_window (call, window, length, error) ||
      !count_samples (call, type.shape[type.n_dims - 2], length, attrs->hop, &n, error))
    return FALSE;
  if (attrs->center)
    n -= length / 2 * 2;
  if (attrs->length < 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "the length is %" G_GINT64_FORMAT "; it must be at least 1, or 0 for everything", attrs->length);
  if (attrs->length > 0)
    n = attrs->length;
  if (n < 1)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "%" G_GINT64_FORMAT " frames around their samples leave a signal of %" G_GINT64_FORMAT " elements; it must have at least 1",
                           type.shape[type.n_dims - 2], n);
  type.n_dims--;
  type.shape[type.n_dims - 1] = n;
  if (!attrs->one_sided)
    {
      if (planar)
        memmove (type.shape + 1, type.shape, type.n_dims * sizeof *type.shape);
      type.shape[planar ? 0 : type.n_dims] = 2;
      type.n_dims++;
    }
  rlx_call_add_output (call, &type);
  return TRUE;
}

/* @n elements of the last axis from @start on, padded with zeros if there are fewer. */
static RlxIrValue *
cut_signal (RlxBuilder *b,
            RlxIrValue *x,
            gint64      start,
            gint64      n)
{
  gint64 before[RLX_MAX_DIMS] = { 0, }, after[RLX_MAX_DIMS] = { 0, };
  gint64 size, end;
  guint last;

  if (x == NULL)
    return NULL;
  last = x->type.n_dims - 1;
  size = x->type.shape[last];
  end = MIN (start + MIN (n, size), size);
  if (start > 0 || end < size)
    x = rlx_build_part (b, x, last, start, end);
  after[last] = n - (end - start);
  if (after[last] > 0)
    x = rlx_build_pad (b, x, NULL, RLX_PAD_ATTRS (.before = RLX_INTS (before, last + 1), .after = RLX_INTS (after, last + 1)));
  return x;
}

RlxIrValue *
rlx_istft_expand (RlxBuilder        *b,
                  const RlxIrNode   *node,
                  RlxIrValue *const *inputs)
{
  const RlxIstftAttrs *attrs = rlx_istft_attrs (node);
  const RlxTensorType *type = &node->outputs[0].type;
  gboolean planar = attrs->layout == RLX_COMPLEX_LAYOUT_PLANAR;
  RlxTensorType numbers = get_numbers (&inputs[0]->type, attrs->layout);
  gint64 n_frames = numbers.shape[numbers.n_dims - 2], length = get_transform (attrs, numbers.shape[numbers.n_dims - 1]);
  gint64 skip = attrs->center ? length / 2 : 0, whole[] = { n_frames, length }, n;
  const RlxFftAttrs fft = { .lengths = RLX_INTS (&length, 1), .norm = attrs->norm, .layout = attrs->layout };
  const RlxOverlapAddAttrs add = { .hop = attrs->hop };
  RlxIrValue *x = rlx_build_as (b, inputs[0], RLX_DATA_TYPE_F32), *window, *envelope, *parts = NULL, *enough;
  gint64 order[RLX_MAX_DIMS];

  window = rlx_frames_fill_window (b, node->n_inputs > 1 ? inputs[1] : NULL, length);
  if (attrs->one_sided)
    {
      x = rlx_build_irfft (b, x, &fft);
      n = type->shape[type->n_dims - 1];
    }
  else
    {
      x = rlx_build_ifft (b, x, &fft);
      n = type->shape[type->n_dims - (planar ? 1 : 2)];
      if (!planar && x != NULL)
        {
          /* real and imaginary parts come first, so that signals are along the last axis */
          guint n_dims = x->type.n_dims;

          order[0] = n_dims - 1;
          for (guint i = 1; i < n_dims; i++)
            order[i] = i - 1;
          x = parts = rlx_build_transpose (b, x, RLX_TRANSPOSE_ATTRS (.permutation = RLX_INTS (order, n_dims)));
        }
    }

  if (window != NULL)
    {
      x = rlx_build_mul (b, x, window);
      envelope = rlx_build_expand (b, rlx_build_mul (b, window, window), RLX_EXPAND_ATTRS (.shape = RLX_INTS (whole, 2)));
    }
  else
    envelope = rlx_build_filled (b, &(RlxTensorType) { RLX_DATA_TYPE_F32, 2, { n_frames, length } }, 1.0);
  x = cut_signal (b, rlx_build_overlap_add (b, x, &add), skip, n);
  envelope = cut_signal (b, rlx_build_overlap_add (b, envelope, &add), skip, n);
  if (envelope == NULL)
    return NULL;
  enough = rlx_build_greater (b, envelope, rlx_build_number (b, envelope, LEAST_ENVELOPE));
  x = rlx_build_where (b, enough, rlx_build_div (b, x, rlx_build_where (b, enough, envelope, rlx_build_number (b, envelope, 1.0))),
                       rlx_build_number (b, envelope, 0.0));
  if (parts != NULL && x != NULL)
    {
      guint n_dims = x->type.n_dims;

      for (guint i = 0; i + 1 < n_dims; i++)
        order[i] = i + 1;
      order[n_dims - 1] = 0;
      x = rlx_build_transpose (b, x, RLX_TRANSPOSE_ATTRS (.permutation = RLX_INTS (order, n_dims)));
    }
  return rlx_build_as (b, x, type->data_type);
}
