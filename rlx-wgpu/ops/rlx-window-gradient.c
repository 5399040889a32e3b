/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Gradients of convolutions and pools.
 */
#include "config.h"

#include "ops/rlx-conv-private.h"
#include "ops/rlx-gradient-private.h"

#include "rlx-tensor-private.h"

/* The same filter with input and output channels exchanged. */
static RlxFilterLayout
swap_layout (RlxFilterLayout layout)
{
  static const RlxFilterLayout swapped[] = {
    [RLX_FILTER_LAYOUT_OIS] = RLX_FILTER_LAYOUT_IOS, [RLX_FILTER_LAYOUT_IOS] = RLX_FILTER_LAYOUT_OIS,
    [RLX_FILTER_LAYOUT_OSI] = RLX_FILTER_LAYOUT_ISO, [RLX_FILTER_LAYOUT_ISO] = RLX_FILTER_LAYOUT_OSI,
    [RLX_FILTER_LAYOUT_SIO] = RLX_FILTER_LAYOUT_SOI, [RLX_FILTER_LAYOUT_SOI] = RLX_FILTER_LAYOUT_SIO,
  };

  return swapped[layout];
}

/* Attributes as lists with one or two numbers per axis. */
typedef struct
{
  gint64 strides[RLX_MAX_SPATIAL], dilations[RLX_MAX_SPATIAL], padding[2 * RLX_MAX_SPATIAL], sizes[RLX_MAX_SPATIAL];
  guint n_axes;
} Lists;

static void
lists_init (Lists           *self,
            const RlxWindow *window)
{
  self->n_axes = window->n_axes;
  for (guint i = 0; i < window->n_axes; i++)
    {
      self->strides[i] = window->axes[i].stride;
      self->dilations[i] = window->axes[i].dilation;
      self->padding[2 * i] = window->axes[i].begin;
      self->padding[2 * i + 1] = window->axes[i].end;
      self->sizes[i] = window->axes[i].in;
    }
}

/* [batch, channels, …] in either layout, with the channels second. */
static RlxIrValue *
channels_first (RlxBuilder *b,
                RlxIrValue *x,
                gboolean    channels_last)
{
  gint64 order[RLX_MAX_DIMS] = { 0 };

  if (x == NULL || !channels_last)
    return x;
  order[1] = x->type.n_dims - 1;
  for (guint i = 2; i < x->type.n_dims; i++)
    order[i] = i - 1;
  return rlx_build_transpose (b, x, RLX_TRANSPOSE_ATTRS (.permutation = RLX_INTS (order, x->type.n_dims)));
}

/* For each element of the filter, [O, C of a group, …], adds up the products of the elements of @x, [N, C, …], and
 * @g, [N, O, …], that it connects: a convolution whose channels are the batch, with strides and dilations exchanged.
 * Groups are split along the batch. */
static RlxIrValue *
correlate (RlxBuilder      *b,
           RlxIrValue      *x,
           RlxIrValue      *g,
           const RlxWindow *window,
           gint64           groups)
{
  gint64 shape[RLX_MAX_DIMS], order[RLX_MAX_DIMS];
  guint n_axes = window->n_axes;
  Lists lists;

  if (x == NULL || g == NULL)
    return NULL;

  if (groups > 1)
    {
      /* [N, G, C, …] becomes [(G, N), C, …]. */
      shape[0] = x->type.shape[0];
      shape[1] = groups;
      shape[2] = x->type.shape[1] / groups;
      for (guint i = 0; i < n_axes; i++)
        shape[3 + i] = x->type.shape[2 + i];
      for (guint i = 0; i < n_axes + 3; i++)
        order[i] = i < 2 ? 1 - i : i;
      x = rlx_build_shaped (b, x, shape, n_axes + 3);
      x = rlx_build_transpose (b, x, RLX_TRANSPOSE_ATTRS (.permutation = RLX_INTS (order, n_axes + 3)));
      shape[0] *= groups;
      memmove (shape + 1, shape + 2, (n_axes + 1) * sizeof (gint64));
      x = rlx_build_shaped (b, x, shape, n_axes + 2);
    }
  lists_init (&lists, window);
  for (guint i = 0; i < n_axes; i++)
    {
      const RlxWindowAxis *axis = &window->axes[i];
      /* Elements that the last window did not reach do not contribute. */
      gint64 end = (axis->out - 1) * axis->stride + axis->reach - axis->begin - axis->in;

      if (end < 0)
        x = rlx_build_part (b, x, 2 + i, 0, axis->in + end);
      lists.padding[2 * i + 1] = MAX (end, 0);
    }
  return rlx_build_conv (b, x, g, NULL,
                         RLX_CONV_ATTRS (.strides = RLX_INTS (lists.dilations, n_axes), .dilations = RLX_INTS (lists.strides, n_axes),
                                         .padding = RLX_INTS (lists.padding, 2 * n_axes), .groups = groups,
                                         .filter_layout = RLX_FILTER_LAYOUT_IOS, .swapped = TRUE));
}

/* [O, I, …] in the order of a filter layout. */
static RlxIrValue *
to_filter_layout (RlxBuilder    *b,
                  RlxIrValue    *filter,
                  const RlxConv *conv)
{
  gint64 order[RLX_MAX_DIMS];

  order[conv->out_axis] = 0;
  order[conv->in_axis] = 1;
  for (guint i = 0; i < conv->window.n_axes; i++)
    order[conv->first_axis + i] = 2 + i;
  for (guint i = 0; i < conv->window.n_axes + 2; i++)
    if (order[i] != i)
      return rlx_build_transpose (b, filter, RLX_TRANSPOSE_ATTRS (.permutation = RLX_INTS (order, conv->window.n_axes + 2)));
  return filter;
}

static void
add_bias (RlxGradient     *self,
          const RlxIrNode *node,
          RlxIrValue      *g,
          const RlxConv   *conv)
{
  RlxBuilder *b = rlx_gradient_get_builder (self);
  gint64 axes[RLX_MAX_DIMS];
  guint n = 0;

  if (!rlx_gradient_wants (self, node, RLX_CONV_BIAS) || g == NULL)
    return;
  for (guint i = 0; i < g->type.n_dims; i++)
    if (i != (conv->window.channels_last ? g->type.n_dims - 1 : 1))
      axes[n++] = i;
  rlx_gradient_add (self, node, RLX_CONV_BIAS, rlx_build_reduce_sum (b, g, RLX_REDUCE_SUM_ATTRS (.axes = RLX_INTS (axes, n))));
}

static gboolean
read_conv (RlxGradient     *self,
           const RlxIrNode *node,
           RlxConv         *conv)
{
  const RlxTensorType *types[3];
  RlxOpCall call;

  rlx_window_make_call (&call, node, types);
  return rlx_conv_read (conv, &call, rlx_conv_attrs (node), &rlx_gradient_get_builder (self)->error);
}

/* Whether there is nothing to add up. */
static gboolean
is_empty (const RlxIrNode *node)
{
  return rlx_type_n_elements (&node->inputs[0]->type) == 0 || rlx_type_n_elements (&node->inputs[1]->type) == 0 ||
         rlx_type_n_elements (&node->outputs[0].type) == 0;
}

static void
add_zeros (RlxGradient     *self,
           const RlxIrNode *node)
{
  for (guint i = 0; i < 2; i++)
    if (rlx_gradient_wants (self, node, i))
      rlx_gradient_add (self, node, i, rlx_build_filled (rlx_gradient_get_builder (self), &node->inputs[i]->type, 0.0));
}

void
rlx_conv_gradient (RlxGradient     *self,
                   const RlxIrNode *node)
{
  const RlxConvAttrs *attrs = rlx_conv_attrs (node);
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *x = node->inputs[RLX_CONV_SELF], *filter = node->inputs[RLX_CONV_FILTER], *g = rlx_gradient_get (self, node, 0);
  RlxConv conv;
  Lists lists;

  if (!read_conv (self, node, &conv))
    return;
  if (conv.window.swapped)
    {
      RlxConvAttrs plain = *attrs;
      RlxIrValue *y;

      plain.swapped = FALSE;
      y = rlx_build_conv (b, rlx_build_swapped (b, x, 0, 1), filter, node->inputs[RLX_CONV_BIAS], &plain);
      y = rlx_build_swapped (b, y, 0, 1);
      rlx_gradient_through (self, node, &y, 1);
      return;
    }
  add_bias (self, node, g, &conv);
  if (is_empty (node))
    {
      add_zeros (self, node);
      return;
    }

  if (rlx_gradient_wants (self, node, RLX_CONV_SELF))
    {
      guint n = conv.window.n_axes;

      lists_init (&lists, &conv.window);
      /* Padding that the last window does not reach must not crop the result. */
      for (guint i = 0; i < n; i++)
        {
          const RlxWindowAxis *axis = &conv.window.axes[i];

          lists.padding[2 * i + 1] = MAX ((axis->out - 1) * axis->stride + axis->reach - axis->begin - axis->in, 0);
        }
      rlx_gradient_add (self, node, RLX_CONV_SELF,
                        rlx_build_conv_transpose (b, g, filter, NULL,
                                                  RLX_CONV_TRANSPOSE_ATTRS (.strides = RLX_INTS (lists.strides, n),
                                                                            .dilations = RLX_INTS (lists.dilations, n),
                                                                            .padding = RLX_INTS (lists.padding, 2 * n),
                                                                            .output_sizes = RLX_INTS (lists.sizes, n),
                                                                            .groups = conv.groups, .layout = attrs->layout,
                                                                            .filter_layout = swap_layout (attrs->filter_layout))));
    }
  if (rlx_gradient_wants (self, node, RLX_CONV_FILTER))
    {
      RlxIrValue *dw = correlate (b, channels_first (b, x, conv.window.channels_last),
                                  channels_first (b, g, conv.window.channels_last), &conv.window, conv.groups);

      rlx_gradient_add (self, node, RLX_CONV_FILTER, to_filter_layout (b, dw, &conv));
    }
}

void
rlx_conv_transpose_gradient (RlxGradient     *self,
                             const RlxIrNode *node)
{
  const RlxConvAttrs *attrs = rlx_conv_attrs (node);
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *x = node->inputs[RLX_CONV_SELF], *filter = node->inputs[RLX_CONV_FILTER], *g = rlx_gradient_get (self, node, 0);
  RlxWindow other;
  RlxConv conv;
  guint n;

  if (!read_conv (self, node, &conv))
    return;
  add_bias (self, node, g, &conv);
  if (is_empty (node))
    {
      add_zeros (self, node);
      return;
    }

  /* Here the window slides over the result. */
  n = conv.window.n_axes;
  other = conv.window;
  g = channels_first (b, g, conv.window.channels_last);
  x = channels_first (b, x, conv.window.channels_last);
  for (guint i = 0; i < n; i++)
    {
      other.axes[i].in = conv.window.axes[i].out;
      other.axes[i].out = conv.window.axes[i].in;
    }
  if (conv.shared && conv.groups > 1 && g != NULL)
    {
      /* All groups have the same channel and filter: add up their gradients. */
      gint64 shape[RLX_MAX_DIMS] = { g->type.shape[0], conv.groups, conv.channels_out };
      const gint64 one = 1;

      memcpy (shape + 3, g->type.shape + 2, n * sizeof (gint64));
      g = rlx_build_reduce_sum (b, rlx_build_shaped (b, g, shape, n + 3), RLX_REDUCE_SUM_ATTRS (.axes = RLX_INTS (&one, 1)));
      conv.groups = 1;
    }
  if (rlx_gradient_wants (self, node, RLX_CONV_SELF))
    {
      RlxIrValue *dx = g;
      Lists lists;

      lists_init (&lists, &other);
      for (guint i = 0; i < n; i++)
        {
          const RlxWindowAxis *axis = &other.axes[i];
          gint64 end = (axis->out - 1) * axis->stride + axis->reach - axis->begin - axis->in;

          if (end < 0)
            dx = rlx_build_part (b, dx, 2 + i, 0, axis->in + end);
          lists.padding[2 * i + 1] = MAX (end, 0);
        }
      dx = rlx_build_conv (b, dx, filter, NULL,
                           RLX_CONV_ATTRS (.strides = RLX_INTS (lists.strides, n), .dilations = RLX_INTS (lists.dilations, n),
                                           .padding = RLX_INTS (lists.padding, 2 * n), .groups = conv.groups,
                                           .filter_layout = swap_layout (attrs->filter_layout)));
      if (conv.window.channels_last && dx != NULL)
        {
          gint64 order[RLX_MAX_DIMS] = { 0 };

          for (guint i = 0; i < n; i++)
            order[1 + i] = 2 + i;
          order[n + 1] = 1;
          dx = rlx_build_transpose (b, dx, RLX_TRANSPOSE_ATTRS (.permutation = RLX_INTS (order, n + 2)));
        }
      rlx_gradient_add (self, node, RLX_CONV_SELF, dx);
    }
  if (rlx_gradient_wants (self, node, RLX_CONV_FILTER))
    {
      /* Seen as a convolution, the operand's channels are the output channels of the filter. */
      RlxIrValue *dw = rlx_build_swapped (b, correlate (b, g, x, &other, conv.groups), 0, 1);

      rlx_gradient_add (self, node, RLX_CONV_FILTER, to_filter_layout (b, dw, &conv));
    }
}

/* ---- windows ----------------------------------------------------------------------- */

/* Adds each element of @g, [N, channels, …], times @filter, [channels, 1, …], to the elements that its window
 * covered. */
static RlxIrValue *
spread (RlxBuilder      *b,
        RlxIrValue      *g,
        RlxIrValue      *filter,
        const RlxWindow *window,
        gint64           groups)
{
  guint n = window->n_axes;
  Lists lists;

  lists_init (&lists, window);
  for (guint i = 0; i < n; i++)
    {
      const RlxWindowAxis *axis = &window->axes[i];

      lists.padding[2 * i + 1] = MAX ((axis->out - 1) * axis->stride + axis->reach - axis->begin - axis->in, 0);
    }
  return rlx_build_conv_transpose (b, g, filter, NULL,
                                   RLX_CONV_TRANSPOSE_ATTRS (.strides = RLX_INTS (lists.strides, n),
                                                             .dilations = RLX_INTS (lists.dilations, n),
                                                             .padding = RLX_INTS (lists.padding, 2 * n),
                                                             .output_sizes = RLX_INTS (lists.sizes, n), .groups = groups,
                                                             .layout = window->channels_last ? RLX_LAYOUT_CHANNELS_LAST
                                                                                             : RLX_LAYOUT_CHANNELS_FIRST));
}

void
rlx_im2col_gradient (RlxGradient     *self,
                     const RlxIrNode *node)
{
  const RlxIm2colAttrs *attrs = rlx_im2col_attrs (node);
  const RlxWindowSteps steps = { attrs->strides, attrs->dilations, attrs->padding, RLX_LAYOUT_CHANNELS_FIRST, FALSE };
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *g = rlx_gradient_get (self, node, 0), *filter;
  const RlxTensorType *types[1];
  gint64 shape[RLX_MAX_DIMS], order[RLX_MAX_DIMS], n_window = 1;
  RlxWindow window;
  RlxOpCall call;

  rlx_window_make_call (&call, node, types);
  if (!rlx_window_init (&window, &call, &steps, attrs->window.values, "the window", &b->error) ||
      !rlx_window_slide (&window, &call, &b->error))
    return;
  if (rlx_type_n_elements (&node->inputs[0]->type) == 0 || rlx_type_n_elements (&node->outputs[0].type) == 0)
    {
      rlx_gradient_add (self, node, 0, rlx_build_filled (b, &node->inputs[0]->type, 0.0));
      return;
    }

  /* One filter for each element of the window, 1 there and 0 elsewhere. */
  shape[1] = 1;
  for (guint i = 0; i < window.n_axes; i++)
    {
      n_window *= window.axes[i].window;
      shape[2 + i] = window.axes[i].window;
    }
  shape[0] = n_window * window.channels;
  filter = rlx_build_constant (b, rlx_tensor_new_from_floats ((gint64[]) { 2 }, 1, (const float[]) { 0, 1 }, 2, NULL));
  filter = rlx_build_one_hot (b, rlx_build_iota (b, n_window), rlx_build_as (b, filter, g->type.data_type), RLX_ONE_HOT_ATTRS (.depth = n_window));
  filter = rlx_build_tile (b, filter, RLX_TILE_ATTRS (.repetitions = RLX_INTS (((gint64[]) { window.channels, 1 }), 2)));
  filter = rlx_build_shaped (b, filter, shape, window.n_axes + 2);

  shape[0] = window.batch;
  order[0] = 0;
  order[1] = window.n_axes + 1;
  for (guint i = 0; i < window.n_axes; i++)
    {
      shape[1 + i] = window.axes[i].out;
      order[2 + i] = 1 + i;
    }
  shape[window.n_axes + 1] = n_window * window.channels;
  g = rlx_build_shaped (b, g, shape, window.n_axes + 2);
  g = rlx_build_transpose (b, g, RLX_TRANSPOSE_ATTRS (.permutation = RLX_INTS (order, window.n_axes + 2)));
  rlx_gradient_add (self, node, 0, spread (b, g, filter, &window, window.channels));
}

/* 1 / the number of elements that count, along one axis. */
static RlxIrValue *
get_shares (RlxBuilder          *b,
            const RlxWindowAxis *axis,
            gboolean             with_padding)
{
  g_autofree float *shares = g_new0 (float, axis->out + 1);

  for (gint64 p = 0; p < axis->out; p++)
    {
      gint64 n = 0;

      for (gint64 k = 0; k < axis->window; k++)
        {
          gint64 at = p * axis->stride + k * axis->dilation - axis->begin;

          n += with_padding ? at < axis->in + axis->end : at >= 0 && at < axis->in;
        }
      shares[p] = n > 0 ? 1.0f / (float) n : 0.0f;
    }
  return rlx_build_constant (b, rlx_tensor_new_from_floats (&axis->out, 1, shares, (gsize) axis->out, NULL));
}

/* The operator selects elements of the gradient; small changes of the operand do not change which. */
void
rlx_max_pool_backward_gradient (RlxGradient     *self,
                                const RlxIrNode *node)
{
  const RlxPoolAttrs *attrs = rlx_pool_attrs (node);
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *x = node->inputs[0], *g = node->inputs[1], *places, *y;
  const gint64 n_in = (gint64) rlx_type_n_elements (&x->type), n_out = (gint64) rlx_type_n_elements (&g->type);

  if (rlx_gradient_wants (self, node, 0))
    rlx_gradient_add (self, node, 0, rlx_build_filled (b, &x->type, 0.0));
  if (!rlx_gradient_wants (self, node, 1))
    return;
  if (n_in == 0 || n_out == 0)
    {
      rlx_gradient_add (self, node, 1, rlx_build_filled (b, &g->type, 0.0));
      return;
    }
  places = rlx_build_shaped (b, rlx_build_arg_max_pool (b, x, attrs), &n_out, 1);
  places = rlx_build_gather (b, rlx_build_shaped (b, rlx_gradient_get (self, node, 0), &n_in, 1), places, RLX_GATHER_ATTRS (.axis = 0));
  places = rlx_build_shaped (b, places, g->type.shape, g->type.n_dims);
  /* A window of padding alone has no valid index. */
  y = rlx_build_is_inf (b, rlx_build_max_pool (b, x, attrs), RLX_IS_INF_ATTRS (.detect_positive = FALSE));
  rlx_gradient_add (self, node, 1, rlx_build_where (b, y, rlx_build_number (b, g, 0.0), places));
}

void
rlx_pool_gradient (RlxGradient     *self,
                   const RlxIrNode *node)
{
  const RlxPoolAttrs *attrs = rlx_pool_attrs (node);
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *x = node->inputs[0], *y = &node->outputs[0], *g = rlx_gradient_get (self, node, 0), *ones;
  const RlxTensorType *types[1];
  RlxTensorType filter = { .data_type = x->type.data_type, .n_dims = x->type.n_dims };
  RlxWindow window;
  RlxOpCall call;

  rlx_window_make_call (&call, node, types);
  if (!rlx_pool_read (&window, &call, attrs, &b->error))
    return;
  if (rlx_type_n_elements (&x->type) == 0 || rlx_type_n_elements (&y->type) == 0)
    {
      rlx_gradient_add (self, node, 0, rlx_build_filled (b, &x->type, 0.0));
      return;
    }

  if (node->op->id == RLX_OP_ID_MAX_POOL)
    {
      rlx_gradient_add (self, node, 0, rlx_build_max_pool_backward (b, x, g, attrs));
      return;
    }

  if (node->op->id == RLX_OP_ID_AVERAGE_POOL)
    for (guint i = 0; i < window.n_axes; i++)
      {
        RlxIrValue *shares = get_shares (b, &window.axes[i], attrs->count_include_pad);
        gint64 shape[RLX_MAX_DIMS];

        for (guint k = 0; k < x->type.n_dims; k++)
          shape[k] = 1;
        shape[(window.channels_last ? 1 : 2) + i] = window.axes[i].out;
        shares = rlx_build_as (b, rlx_build_shaped (b, shares, shape, x->type.n_dims), x->type.data_type);
        g = rlx_build_mul (b, g, shares);
      }
  else
    {
      RlxIrValue *zero = rlx_build_number (b, g, 0.0);

      g = rlx_build_where (b, rlx_build_equal (b, y, zero), zero, rlx_build_div (b, g, y));
    }

  filter.shape[0] = window.channels;
  filter.shape[1] = 1;
  for (guint i = 0; i < window.n_axes; i++)
    filter.shape[2 + i] = window.axes[i].window;
  ones = rlx_build_filled (b, &filter, 1.0);
  g = spread (b, g, ones, &window, window.channels);
  if (node->op->id == RLX_OP_ID_L2_POOL)
    g = rlx_build_mul (b, g, x);
  rlx_gradient_add (self, node, 0, g);
}
