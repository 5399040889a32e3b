/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Finite impulse response filters.
 */
#include "config.h"

#include "ops/rlx-fft-private.h"
#include "ops/rlx-gradient-private.h"
#include "util/rlx-checked-private.h"

/* Blocks are transforms of at least that many elements, */
#define LEAST_BLOCK 1024
/* and that many times the filter. */
#define BLOCK_FILTERS 4

static gboolean
check_filter (const RlxOpCall *call,
              GError         **error)
{
  const RlxTensorType *x = call->inputs[0], *filter = call->inputs[1];
  g_autofree char *text = NULL;

  if (x->n_dims == 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the operand has no dimensions, a signal has one at least");
  if (filter->n_dims == 1 && filter->shape[0] > 0)
    return TRUE;
  text = rlx_type_to_string (filter);
  return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "%s is %s; it must have one dimension, of at least 1 element",
                         call->op->inputs[1].name, text);
}

/* ---- fir ---------------------------------------------------------------------------------- */

gboolean
rlx_fir_infer (RlxOpCall *call,
               GError   **error)
{
  if (!check_filter (call, error))
    return FALSE;
  rlx_call_add_output (call, call->inputs[0]);
  return TRUE;
}

RlxIrValue *
rlx_fir_expand (RlxBuilder        *b,
                const RlxIrNode   *node,
                RlxIrValue *const *inputs)
{
  const RlxTensorType *type = &node->outputs[0].type;
  gint64 n = type->shape[type->n_dims - 1], n_taps = inputs[1]->type.shape[0], axis = 0;
  gint64 padding[] = { n_taps - 1, 0 }, signals[] = { 0, 1, n }, filter[] = { 1, 1, n_taps };
  RlxIrValue *x, *taps;

  if (rlx_type_n_elements (type) == 0)
    return inputs[0];

  signals[0] = (gint64) rlx_type_n_elements (type) / n;
  x = rlx_build_shaped (b, inputs[0], signals, 3);
  taps = rlx_build_reverse (b, inputs[1], RLX_REVERSE_ATTRS (.axes = RLX_INTS (&axis, 1)));
  if (x == NULL || taps == NULL)
    return NULL;
  x = rlx_build_conv (b, x, rlx_build_shaped (b, taps, filter, 3), NULL, RLX_CONV_ATTRS (.padding = RLX_INTS (padding, 2)));
  return x != NULL ? rlx_build_shaped (b, x, type->shape, type->n_dims) : NULL;
}

/* ---- fft_conv ------------------------------------------------------------------------------- */

/* The length of the transforms for a convolution of @n elements in total. */
static gint64
find_block (gint64 n,
            gint64 n_taps)
{
  gint64 block = 1;

  while (block < n && (block < LEAST_BLOCK || block < BLOCK_FILTERS * n_taps) && block < RLX_FFT_LENGTH)
    block *= 2;
  return block;
}

/* Which elements of the convolution are needed. */
static gint64
find_part (RlxConvolution mode,
           gint64         n,
           gint64         n_taps,
           gint64        *first)
{
  switch (mode)
    {
    case RLX_CONVOLUTION_SAME:
      *first = (n_taps - 1) / 2;
      return n;
    case RLX_CONVOLUTION_VALID:
      *first = MIN (n, n_taps) - 1;
      return MAX (n, n_taps) - MIN (n, n_taps) + 1;
    case RLX_CONVOLUTION_CAUSAL:
      *first = 0;
      return n;
    case RLX_CONVOLUTION_FULL:
    default:
      *first = 0;
      return n + n_taps - 1;
    }
}

gboolean
rlx_fft_conv_infer (RlxOpCall             *call,
                    const RlxFftConvAttrs *attrs,
                    GError               **error)
{
  RlxTensorType type = *call->inputs[0];
  gint64 n, n_taps, all, first;

  if (!check_filter (call, error))
    return FALSE;
  n = type.shape[type.n_dims - 1];
  n_taps = call->inputs[1]->shape[0];
  if (n == 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the signal has no elements");
  if (!rlx_add_i64 (n, n_taps - 1, &all) || 2 * n_taps > MAX (find_block (all, n_taps), 2) * 2)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                           "the filter has %" G_GINT64_FORMAT " elements, too many for transforms of %d", n_taps, RLX_FFT_LENGTH);
  if (all > RLX_FFT_LENGTH && n_taps > RLX_FFT_LENGTH / 2)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                           "the filter has %" G_GINT64_FORMAT " elements, beyond the limit of %d for a signal of %" G_GINT64_FORMAT,
                           n_taps, RLX_FFT_LENGTH / 2, n);
  type.shape[type.n_dims - 1] = find_part (attrs->mode, n, n_taps, &first);
  if (type.n_dims == RLX_MAX_DIMS - 1 || type.n_dims == RLX_MAX_DIMS)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                           "the operand has %u dimensions, with two more for blocks and parts that is beyond the limit of %u",
                           type.n_dims, RLX_MAX_DIMS);
  rlx_call_add_output (call, &type);
  return TRUE;
}

RlxIrValue *
rlx_fft_conv_expand (RlxBuilder        *b,
                     const RlxIrNode   *node,
                     RlxIrValue *const *inputs)
{
  const RlxTensorType *type = &node->outputs[0].type;
  guint last = type->n_dims - 1;
  gint64 n = inputs[0]->type.shape[last], n_taps = inputs[1]->type.shape[0], all = n + n_taps - 1, first;
  gint64 wanted = find_part (rlx_fft_conv_attrs (node)->mode, n, n_taps, &first), block = find_block (all, n_taps);
  gint64 step = block - n_taps + 1, n_blocks = (all + step - 1) / step;
  gboolean whole = block >= all;
  const RlxFftAttrs fft = { .lengths = RLX_INTS (&block, 1) };
  RlxIrValue *x = rlx_build_as (b, inputs[0], RLX_DATA_TYPE_F32), *filter = rlx_build_as (b, inputs[1], RLX_DATA_TYPE_F32);

  if (!whole)
    {
      gint64 before[RLX_MAX_DIMS] = { 0, }, after[RLX_MAX_DIMS] = { 0, };

      /* each block without its first elements, which belong to the previous one */
      before[last] = n_taps - 1;
      after[last] = (n_blocks - 1) * step + block - (n_taps - 1) - n;
      x = rlx_build_pad (b, x, NULL, RLX_PAD_ATTRS (.before = RLX_INTS (before, last + 1), .after = RLX_INTS (after, last + 1)));
      x = rlx_build_frame (b, x, RLX_FRAME_ATTRS (.length = block, .hop = step));
    }
  x = rlx_build_complex_mul (b, rlx_build_rfft (b, x, &fft), rlx_build_rfft (b, filter, &fft));
  x = rlx_build_irfft (b, x, &fft);
  if (!whole && x != NULL)
    {
      gint64 shape[RLX_MAX_DIMS];

      x = rlx_build_part (b, x, -1, n_taps - 1, block);
      for (guint i = 0; i < last; i++)
        shape[i] = type->shape[i];
      shape[last] = n_blocks * step;
      x = x != NULL ? rlx_build_shaped (b, x, shape, last + 1) : NULL;
    }
  if (x == NULL)
    return NULL;
  return rlx_build_as (b, rlx_build_part (b, x, -1, first, first + wanted), type->data_type);
}
