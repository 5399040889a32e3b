/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Convolutions as products of matrices, on a GPU: kernels/conv-tile.wgsl.
 */
#include "config.h"

#include "ops/rlx-conv-private.h"
#include "ops/rlx-product-private.h"

/* With fewer channels of a group, positions or steps most of a tile is empty. */
#define MIN_SIDE 16

/* Whether there is a window for each element, and nothing else in it. */
static gboolean
is_plain (const RlxWindow *window)
{
  for (guint i = 0; i < window->n_axes; i++)
    {
      const RlxWindowAxis *axis = &window->axes[i];

      if (axis->window != 1 || axis->begin != 0 || axis->end != 0 || (axis->stride != 1 && axis->in != 1))
        return FALSE;
    }
  return TRUE;
}

/* Whether most of each window is outside of the operand, wherever it is. */
static gboolean
is_mostly_padding (const RlxWindow *window)
{
  guint64 n_taps = 1, n_there = 1;

  for (guint i = 0; i < window->n_axes; i++)
    {
      const RlxWindowAxis *axis = &window->axes[i];

      n_taps *= (guint64) axis->window;
      n_there *= (guint64) MIN (axis->window, (axis->in - 1) / axis->dilation + 1);
    }
  return n_taps / 8 >= n_there;
}

gboolean
rlx_conv_lower_tiles (RlxLower        *lower,
                      const RlxIrNode *node,
                      const RlxConv   *conv,
                      gboolean        *done,
                      GError         **error)
{
  const RlxWindow *window = &conv->window;
  const RlxIrValue *filter = node->inputs[1];
  gboolean last = window->channels_last;
  guint rank = window->n_axes;
  guint64 m = (guint64) conv->channels_out, c = (guint64) conv->channels_in, groups = (guint64) conv->groups;
  guint64 n_taps = 1, n_positions = 1, w_in = 1, w_out = 1, w_tap = 1;
  guint64 sizes[RLX_MAX_SPATIAL];
  RlxWindowStrides strides;
  RlxProductWindow x = { .rank = rank, .x = node->inputs[0], .c = c };
  RlxProduct product = {
    .y = { &node->outputs[0] },
    .bias = rlx_node_n_own_inputs (node) > 2 ? node->inputs[2] : NULL,
    .alpha = 1.0,
    .beta = 1.0,
  };
  guint64 w_k, w_group;

  *done = FALSE;
  for (guint d = 0; d < rank; d++)
    {
      const RlxWindowAxis *axis = &window->axes[rank - 1 - d];

      sizes[d] = x.in[d] = (guint64) axis->in;
      x.out[d] = (guint64) axis->out;
      x.taps[d] = (guint64) axis->window;
      /* Where a stride has nothing to part it may be beyond 32 bits. */
      x.strides[d] = axis->out == 1 ? 1 : (guint64) axis->stride;
      x.dilations[d] = (guint64) axis->dilation;
      x.begins[d] = (guint64) axis->begin;
      n_taps *= x.taps[d];
      n_positions *= x.out[d];
    }
  if (last)
    n_positions *= (guint64) window->batch;
  if (rlx_type_n_elements (&node->inputs[0]->type) == 0 || rlx_type_n_elements (&filter->type) == 0 || conv->transposed ||
      is_mostly_padding (window) || !rlx_product_takes_windows (rlx_lower_get_adapter (lower)) || (last && groups > 1) ||
      m < MIN_SIDE || n_positions < MIN_SIDE || c * n_taps < MIN_SIDE)
    return TRUE;

  for (guint i = filter->type.rank - 1; i > conv->out_axis; i--)
    w_out *= (guint64) filter->type.dims[i];
  for (guint i = filter->type.rank - 1; i > conv->in_axis; i--)
    w_in *= (guint64) filter->type.dims[i];
  for (guint i = filter->type.rank - 1; i > conv->first_axis + rank - 1; i--)
    w_tap *= (guint64) filter->type.dims[i];
  w_group = m * w_out;

  rlx_window_get_strides (window, (guint64) window->channels, sizes, &strides);
  x.x_channel = strides.channel;
  x.x_image = last ? strides.batch : 0;
  for (guint d = 0; d < rank; d++)
    x.x_axes[d] = strides.axes[d];
  x.vectors = last && c % 4 == 0;
  x.c_inner = x.vectors || n_taps == 1 || w_in < w_tap;

  /* Steps are one dimension of the filter, unless its output channels lie between the
   * two parts of a step. */
  w_k = x.c_inner ? w_in : w_tap;
  x.split = x.c_inner ? c : n_taps;
  x.split_stride = x.c_inner ? w_tap : w_in;
  if (x.split_stride == x.split * w_k || x.split == c * n_taps)
    x.split = 0;

  product.k = c * n_taps;
  if (last)
    {
      product.m = n_positions;
      product.n = m;
      product.a = x.x;
      product.a_k = strides.channel;
      product.a_m = strides.axes[0];
      product.b = filter;
      product.b_k = w_k;
      product.b_n = w_out;
      product.bias_n = 1;
    }
  else
    {
      product.m = m;
      product.n = n_positions;
      product.a = filter;
      product.a_m = w_out;
      product.a_k = w_k;
      product.b = x.x;
      product.b_k = strides.channel;
      product.b_n = 1;
      rlx_product_loop_add (&product.batch, groups, w_group, c * strides.channel);
      rlx_product_loop_add (&product.batch, (guint64) window->batch, 0, strides.batch);
      rlx_product_loop_add (&product.rows, m, 1, 0);
      product.bias_groups = groups;
      product.bias_group = m;
    }
  if (!is_plain (window))
    product.window = &x;

  *done = TRUE;
  return rlx_lower_product (lower, node, &product, error);
}
