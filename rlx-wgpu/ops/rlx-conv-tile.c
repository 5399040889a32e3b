/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Convolutions as matrix products, on a GPU: kernels/conv-tile.wgsl.
 */
#include "config.h"

#include "ops/rlx-conv-private.h"
#include "ops/rlx-product-private.h"

/* With fewer channels in a group, positions or steps, most of a tile is empty. */
#define MIN_SIDE 16

/* Whether windows are single elements without gaps or padding, so that the operand is a
 * plain matrix. */
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

/* Whether most of each window lies outside of the operand, wherever the window is. */
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

void
rlx_conv_check_product (const RlxConv   *conv,
                        const RlxTarget *target,
                        const char     **cannot,
                        const char     **poorly)
{
  const RlxWindow *window = &conv->window;
  guint64 n_taps = 1, n_positions = window->channels_last ? (guint64) window->batch : 1;

  for (guint i = 0; i < window->n_axes; i++)
    {
      n_taps *= (guint64) window->axes[i].window;
      n_positions *= (guint64) window->axes[i].out;
    }
  if (conv->transposed)
    *cannot = "it is transposed";
  else if (window->channels_last && conv->groups > 1)
    *cannot = "groups lie side by side";
  else if (!is_plain (window) && rlx_product_has_no_tiles (target))
    *cannot = "all tiles are banned";
  else if (!target->barriers_are_cheap || rlx_product_has_no_tiles (target))
    *poorly = "barriers are slow here";
  else if (is_mostly_padding (window))
    *poorly = "most of the window is padding, which it reads as well";
  else if (conv->channels_out < MIN_SIDE || n_positions < MIN_SIDE || (guint64) conv->channels_in * n_taps < MIN_SIDE)
    *poorly = "too few channels, positions or steps to fill a tile";
}

gboolean
rlx_conv_lower_product (RlxLower        *lower,
                        const RlxIrNode *node,
                        const RlxConv   *conv,
                        GError         **error)
{
  const RlxWindow *window = &conv->window;
  const RlxIrValue *filter = node->inputs[1];
  gboolean last = window->channels_last;
  guint n_dims = window->n_axes;
  guint64 m = (guint64) conv->channels_out, c = (guint64) conv->channels_in, groups = (guint64) conv->groups;
  guint64 n_taps = 1, n_positions = 1, w_in = 1, w_out = 1, w_tap = 1;
  guint64 sizes[RLX_MAX_SPATIAL];
  RlxWindowStrides strides;
  RlxProductWindow x = { .n_dims = n_dims, .x = node->inputs[0], .c = c };
  RlxProduct product = {
    .y = { &node->outputs[0] },
    .bias = node->inputs[RLX_CONV_BIAS],
    .alpha = 1.0,
    .beta = 1.0,
  };
  guint64 w_k, w_group;

  for (guint d = 0; d < n_dims; d++)
    {
      const RlxWindowAxis *axis = &window->axes[n_dims - 1 - d];

      sizes[d] = x.in[d] = (guint64) axis->in;
      x.out[d] = (guint64) axis->out;
      x.taps[d] = (guint64) axis->window;
      /* A stride that separates nothing may exceed 32 bits. */
      x.strides[d] = axis->out == 1 ? 1 : (guint64) axis->stride;
      x.dilations[d] = (guint64) axis->dilation;
      x.begins[d] = (guint64) axis->begin;
      n_taps *= x.taps[d];
      n_positions *= x.out[d];
    }
  if (last)
    n_positions *= (guint64) window->batch;

  for (guint i = filter->type.n_dims - 1; i > conv->out_axis; i--)
    w_out *= (guint64) filter->type.shape[i];
  for (guint i = filter->type.n_dims - 1; i > conv->in_axis; i--)
    w_in *= (guint64) filter->type.shape[i];
  for (guint i = filter->type.n_dims - 1; i > conv->first_axis + n_dims - 1; i--)
    w_tap *= (guint64) filter->type.shape[i];
  w_group = m * w_out;

  rlx_window_get_strides (window, (guint64) window->channels, sizes, &strides);
  x.x_channel = strides.channel;
  x.x_image = last ? strides.batch : 0;
  for (guint d = 0; d < n_dims; d++)
    x.x_axes[d] = strides.axes[d];
  x.vectors = last && c % 4 == 0;
  x.c_inner = x.vectors || n_taps == 1 || w_in < w_tap;

  /* Steps are one dimension of the filter, unless its output channels are between the two
   * parts of a step. */
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

  return rlx_lower_product (lower, node, &product, error);
}
