/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Convolutions and pools, from their definitions: a convolution visits the
 * elements under its filter, a transposed one scatters them.
 */
#include "config.h"
#include "rlx-reference-private.h"

#include <math.h>
#include <string.h>

#define MAX_AXES 3

/* How a window moves. */
typedef struct
{
  gsize n_axes;
  gsize first;       /* spatial axis */
  gsize channel;     /* axis */
  gint64 window[MAX_AXES];
  gint64 stride[MAX_AXES];
  gint64 dilation[MAX_AXES];
  gint64 begin[MAX_AXES];
  gint64 end[MAX_AXES];
} Window;

static gboolean
is_word (RlxReferenceCall *call,
         const char       *name,
         const char       *word)
{
  const char *value = "";

  g_variant_lookup (call->attributes, name, "&s", &value);
  return strcmp (value, word) == 0;
}

static void
window_init (Window           *window,
             RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0];
  gboolean last = is_word (call, "layout", "channels-last");
  gint64 values[RLX_MAX_DIMS];
  gsize n;

  window->n_axes = x->n_dims - 2;
  window->first = last ? 1 : 2;
  window->channel = last ? x->n_dims - 1 : 1;
  for (gsize i = 0; i < window->n_axes; i++)
    {
      window->window[i] = x->shape[window->first + i];
      window->stride[i] = window->dilation[i] = 1;
      window->begin[i] = window->end[i] = 0;
    }
  if (rlx_reference_get_ints (call, "window", values, &n) && n > 0)
    memcpy (window->window, values, n * sizeof (gint64));
  if (rlx_reference_get_ints (call, "strides", values, &n) && n > 0)
    memcpy (window->stride, values, n * sizeof (gint64));
  if (rlx_reference_get_ints (call, "dilations", values, &n) && n > 0)
    memcpy (window->dilation, values, n * sizeof (gint64));
  rlx_reference_get_ints (call, "padding", values, &n);
  for (gsize i = 0; i < n; i++)
    (i % 2 == 0 ? window->begin : window->end)[i / 2] = values[i];
}

static gsize
get_position (const RlxReferenceValue *value,
              const gint64            *index)
{
  gsize position = 0;

  for (gsize i = 0; i < value->n_dims; i++)
    position = position * (gsize) value->shape[i] + (gsize) index[i];

  return position;
}

/* ---- convolutions ------------------------------------------------------------------------ */

typedef struct
{
  Window window;
  gsize out_axis;   /* of the filter */
  gsize in_axis;
  gsize first;      /* its first spatial axis */
  gint64 groups;
} Conv;

static void
conv_init (Conv             *conv,
           RlxReferenceCall *call)
{
  const RlxReferenceValue *filter = call->inputs[1];
  const char *layout = "";
  const char *spatial;

  window_init (&conv->window, call);
  if (rlx_reference_get_bool (call, "swapped"))
    conv->window.channel = 0;
  conv->groups = rlx_reference_get_int (call, "groups");
  g_variant_lookup (call->attributes, "filter_layout", "&s", &layout);

  /* 's' stands for all spatial axes. */
  spatial = strchr (layout, 's');
  conv->first = (gsize) (spatial - layout);
  for (gsize i = 0; i < 3; i++)
    {
      gsize axis = layout + i < spatial ? i : i + conv->window.n_axes - 1;

      if (layout[i] == 'o')
        conv->out_axis = axis;
      else if (layout[i] == 'i')
        conv->in_axis = axis;
    }
  for (gsize i = 0; i < conv->window.n_axes; i++)
    conv->window.window[i] = filter->shape[conv->first + i];
}

/* Adds an element of the operand times one of the filter to the result. */
static void
add_product (RlxReferenceCall *call,
             gsize             at,
             RlxReferenceSize *sizes,
             gsize             at_x,
             gsize             at_w)
{
  const RlxReferenceValue *x = call->inputs[0], *filter = call->inputs[1];
  RlxReferenceValue *y = call->output;
  double product = x->values[at_x] * filter->values[at_w];

  y->values[at] += product;
  rlx_reference_size_add (&sizes[at], product);
  if (x->bounds[at_x] > 0)
    y->bounds[at] += x->bounds[at_x] * (fabs (filter->values[at_w]) + filter->bounds[at_w]);
  if (filter->bounds[at_w] > 0)
    y->bounds[at] += filter->bounds[at_w] * fabs (x->values[at_x]);
}

/* The bound of a sum of @k products, and the bias. */
static void
finish (RlxReferenceCall       *call,
        const Conv             *conv,
        const RlxReferenceSize *sizes,
        double                  k)
{
  const RlxReferenceValue *bias = rlx_reference_get_input (call, 2);
  RlxReferenceValue *y = call->output;
  gint64 index[RLX_MAX_DIMS] = { 0, };
  gsize at = 0;

  do
    {
      y->bounds[at] = rlx_reference_sum_bound (&sizes[at], y->bounds[at], k);

      if (bias != NULL)
        {
          gsize channel = (gsize) index[conv->window.channel];

          y->values[at] += bias->values[channel];
          y->bounds[at] += bias->bounds[channel];
          if (isfinite (y->values[at]))
            y->bounds[at] += RLX_F32_ULP * fabs (y->values[at]) + 0x1p-126;
        }
      at++;
    }
  while (rlx_reference_next (index, y->shape, y->n_dims));
}

static double
count_terms (const Conv *conv,
             gint64      channels)
{
  double n = (double) channels;

  for (gsize i = 0; i < conv->window.n_axes; i++)
    n *= (double) conv->window.window[i];

  return n;
}

static void
conv_forward (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0], *filter = call->inputs[1];
  RlxReferenceValue *y = call->output;
  g_autofree RlxReferenceSize *sizes = g_new0 (RlxReferenceSize, y->n_elements + 1);
  gint64 index[RLX_MAX_DIMS] = { 0, };
  gint64 channels, outputs;
  Conv conv = { 0, };
  Window *window = &conv.window;
  gsize at = 0;

  if (y->n_elements == 0)
    return;
  conv_init (&conv, call);
  channels = x->shape[window->channel] / conv.groups;
  outputs = y->shape[window->channel] / conv.groups;

  do
    {
      gint64 from[RLX_MAX_DIMS] = { index[0], index[1], }, tap[RLX_MAX_DIMS] = { 0, };
      gint64 group = index[window->channel] / outputs;

      tap[conv.out_axis] = index[window->channel];
      for (gint64 c = 0; c < channels; c++)
        {
          gint64 k[MAX_AXES] = { 0, };

          from[window->channel] = group * channels + c;
          tap[conv.in_axis] = c;
          do
            {
              gboolean inside = TRUE;
              gsize at_w;

              for (gsize i = 0; i < window->n_axes; i++)
                {
                  gint64 place = index[window->first + i] * window->stride[i] + k[i] * window->dilation[i] - window->begin[i];

                  inside = inside && place >= 0 && place < x->shape[window->first + i];
                  from[window->first + i] = place;
                  tap[conv.first + i] = k[i];
                }
              at_w = get_position (filter, tap);
              if (inside)
                add_product (call, at, sizes, get_position (x, from), at_w);
              else if (!isfinite (filter->values[at_w]))
                y->bounds[at] = INFINITY;
            }
          while (rlx_reference_next (k, window->window, window->n_axes));
        }
      at++;
    }
  while (rlx_reference_next (index, y->shape, y->n_dims));

  finish (call, &conv, sizes, count_terms (&conv, channels));
}

/* @value minus its zero point, of which there is one for each of @channels indices along
 * @axis, or a single one. */
static RlxReferenceValue
take_off (const RlxReferenceValue *value,
          const RlxReferenceValue *zero,
          gsize                    axis,
          gboolean                *known)
{
  RlxReferenceValue result = *value;
  gint64 index[RLX_MAX_DIMS] = { 0, };
  gsize at = 0;

  result.values = g_new (double, value->n_elements + 1);
  if (value->n_elements == 0)
    return result;
  do
    {
      gsize from = zero == NULL || zero->n_elements == 1 ? 0 : (gsize) index[axis];

      result.values[at] = value->values[at] - (zero != NULL ? zero->values[from] : 0);
      *known = *known && value->bounds[at] == 0;
      at++;
    }
  while (rlx_reference_next (index, value->shape, value->n_dims));
  return result;
}

static void
qconv (RlxReferenceCall *call)
{
  RlxReferenceCall inner = *call;
  RlxReferenceValue *y = call->output;
  gint64 index[RLX_MAX_DIMS] = { 0, };
  gboolean known = TRUE;
  Conv conv = { 0, };
  gsize at = 0;

  if (y->n_elements == 0)
    return;
  conv_init (&conv, call);
  {
    RlxReferenceValue x = take_off (call->inputs[0], rlx_reference_get_input (call, 2), conv.window.channel, &known);
    RlxReferenceValue filter = take_off (call->inputs[1], rlx_reference_get_input (call, 3), conv.out_axis, &known);

    inner.inputs = (const RlxReferenceValue *const[]) { &x, &filter };
    inner.n_inputs = 2;
    conv_forward (&inner);
    g_free (x.values);
    g_free (filter.values);
  }
  /* 64-bit floats hold every sum, and integers are not rounded on the device */
  do
    {
      rlx_reference_requantize (call, 4, (gsize) index[conv.window.channel], at, y->values[at], known ? 0 : y->bounds[at]);
      /* A zero that a compiler knows about may be multiplied by infinity, too. */
      if (call->inputs[0]->n_elements == 0 && isnan (y->values[at]))
        y->bounds[at] = INFINITY;
      at++;
    }
  while (rlx_reference_next (index, y->shape, y->n_dims));
}

static void
conv_transpose (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0], *filter = call->inputs[1];
  RlxReferenceValue *y = call->output;
  g_autofree RlxReferenceSize *sizes = g_new0 (RlxReferenceSize, y->n_elements + 1);
  gint64 index[RLX_MAX_DIMS] = { 0, };
  gint64 channels, outputs;
  Conv conv = { 0, };
  Window *window = &conv.window;
  gboolean shared;
  gsize at = 0;

  if (y->n_elements == 0)
    return;
  conv_init (&conv, call);
  /* A single channel is shared by all groups. */
  shared = x->shape[window->channel] == 1;
  channels = shared ? 1 : x->shape[window->channel] / conv.groups;
  outputs = y->shape[window->channel] / conv.groups;

  while (x->n_elements > 0)
    {
      gint64 group = index[window->channel] / channels;

      for (gint64 o = 0; o < (shared ? y->shape[window->channel] : outputs); o++)
        {
          gint64 k[MAX_AXES] = { 0, }, to[RLX_MAX_DIMS] = { index[0], }, tap[RLX_MAX_DIMS] = { 0, };

          to[window->channel] = group * outputs + o;
          tap[conv.in_axis] = index[window->channel];
          tap[conv.out_axis] = o % outputs;
          do
            {
              gboolean inside = TRUE;

              for (gsize i = 0; i < window->n_axes; i++)
                {
                  gint64 place = index[window->first + i] * window->stride[i] + k[i] * window->dilation[i] - window->begin[i];

                  inside = inside && place >= 0 && place < y->shape[window->first + i];
                  to[window->first + i] = place;
                  tap[conv.first + i] = k[i];
                }
              if (inside)
                add_product (call, get_position (y, to), sizes, at, get_position (filter, tap));
            }
          while (rlx_reference_next (k, window->window, window->n_axes));
        }
      at++;
      if (!rlx_reference_next (index, x->shape, x->n_dims))
        break;
    }

  finish (call, &conv, sizes, count_terms (&conv, channels));
}

static void
im2col (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0];
  RlxReferenceValue *y = call->output;
  gint64 outer[RLX_MAX_DIMS] = { 0, }, outer_shape[RLX_MAX_DIMS];
  gint64 inner[RLX_MAX_DIMS] = { 0, }, inner_shape[RLX_MAX_DIMS];
  Window window;
  gsize at = 0;

  if (y->n_elements == 0)
    return;
  window_init (&window, call);
  outer_shape[0] = x->shape[0];
  inner_shape[0] = x->shape[1];
  for (gsize i = 0; i < window.n_axes; i++)
    {
      gint64 padded = x->shape[2 + i] + window.begin[i] + window.end[i];

      outer_shape[1 + i] = (padded - (window.window[i] - 1) * window.dilation[i] - 1) / window.stride[i] + 1;
      inner_shape[1 + i] = window.window[i];
    }

  do
    {
      do
        {
          gint64 from[RLX_MAX_DIMS] = { outer[0], inner[0], };
          gboolean inside = TRUE;

          for (gsize i = 0; i < window.n_axes; i++)
            {
              gint64 place = outer[1 + i] * window.stride[i] + inner[1 + i] * window.dilation[i] - window.begin[i];

              inside = inside && place >= 0 && place < x->shape[2 + i];
              from[2 + i] = place;
            }
          y->values[at] = inside ? x->values[get_position (x, from)] : 0;
          y->bounds[at] = inside ? x->bounds[get_position (x, from)] : 0;
          at++;
        }
      while (rlx_reference_next (inner, inner_shape, 1 + window.n_axes));
    }
  while (rlx_reference_next (outer, outer_shape, 1 + window.n_axes));
}

/* ---- pools ----------------------------------------------------------------------------------- */

typedef struct
{
  gsize n;          /* elements */
  gsize n_padded;   /* including the padding */
  gsize best;       /* position of the largest */
  gboolean unsure;  /* whether it may be a different one */
  double max;
  double max_bound;
  double sum;
  double sum_bound;
  double size;      /* Σ |x| */
  double squares;
  double bound_squares;
} Pool;

static void
pool_visit (Pool                    *pool,
            const RlxReferenceValue *x,
            gsize                    at)
{
  double value = x->values[at], bound = x->bounds[at];

  if (pool->n == 0 || (isnan (value) && !isnan (pool->max)) || value > pool->max)
    {
      pool->max = value;
      pool->best = at;
    }
  pool->unsure = pool->unsure || bound > 0;
  pool->max_bound = fmax (pool->max_bound, bound);
  pool->sum += value;
  pool->sum_bound += bound;
  pool->size += fabs (value);
  pool->squares += value * value;
  pool->bound_squares += bound * bound;
  pool->n++;
}

static Pool
pool_window (const Window            *window,
             const RlxReferenceValue *x,
             const gint64            *index)
{
  Pool pool = { 0, };
  gint64 k[MAX_AXES] = { 0, };

  do
    {
      gint64 from[RLX_MAX_DIMS] = { 0, };
      gboolean inside = TRUE, padded = TRUE;

      from[0] = index[0];
      from[window->channel] = index[window->channel];
      for (gsize i = 0; i < window->n_axes; i++)
        {
          gint64 place = index[window->first + i] * window->stride[i] + k[i] * window->dilation[i] - window->begin[i];
          gint64 size = x->shape[window->first + i];

          inside = inside && place >= 0 && place < size;
          padded = padded && place < size + window->end[i];
          from[window->first + i] = place;
        }
      pool.n_padded += padded;
      if (inside)
        pool_visit (&pool, x, get_position (x, from));
    }
  while (rlx_reference_next (k, window->window, window->n_axes));

  return pool;
}

/* The bound of a sum of that size. Infinities and NaNs are exact, unless they are due to
 * an inexact number; if it may overflow f32, nothing is known. */
static double
limit_bound (double bound,
             double operand_bound,
             double size)
{
  if (!isfinite (size))
    return operand_bound > 0 ? INFINITY : 0;
  return size >= 0x1p127 ? INFINITY : bound + operand_bound;
}

static void
pool (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0];
  RlxReferenceValue *y = call->output;
  gint64 index[RLX_MAX_DIMS] = { 0, };
  gboolean is_float = rlx_reference_is_float (x->data_type);
  double least = -INFINITY, n_window = 1;
  Window window;
  gsize at = 0;

  if (y->n_elements == 0)
    return;
  window_init (&window, call);
  for (gsize i = 0; i < window.n_axes; i++)
    n_window *= (double) window.window[i];
  if (!is_float)
    {
      gint64 smallest, greatest;

      rlx_reference_get_range (x->data_type, &smallest, &greatest);
      least = (double) smallest;
    }

  do
    {
      Pool here = pool_window (&window, x, index);

      if (strcmp (call->op, "max_pool") == 0)
        {
          y->values[at] = here.n > 0 ? here.max : least;
          y->bounds[at] = here.max_bound;
        }
      else if (strcmp (call->op, "arg_max_pool") == 0)
        {
          y->values[at] = (double) here.best;
          y->bounds[at] = here.unsure ? INFINITY : 0;
        }
      else if (strcmp (call->op, "average_pool") == 0)
        {
          gsize n = rlx_reference_get_bool (call, "count_include_pad") ? here.n_padded : here.n;
          double count = (double) MAX (n, 1);

          y->values[at] = here.sum / count;
          y->bounds[at] = limit_bound ((n_window + 6) * RLX_F32_EPSILON * here.size / count +
                                       (here.size > 0 ? n_window * 0x1p-126 : 0),
                                       here.sum_bound / count, here.size);
        }
      else
        {
          double norm = sqrt (here.squares);

          y->values[at] = norm;
          y->bounds[at] = limit_bound ((n_window / 2 + 4) * RLX_F32_EPSILON * norm + sqrt (n_window) * 0x1p-63,
                                       sqrt (here.bound_squares), here.squares);
          if (here.n == 0)
            y->bounds[at] = 0;
        }
      at++;
    }
  while (rlx_reference_next (index, y->shape, y->n_dims));
}

static void
max_pool_backward (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0], *g = call->inputs[1];
  RlxReferenceValue *y = call->output;
  gint64 index[RLX_MAX_DIMS] = { 0, };
  g_autofree double *sizes = g_new0 (double, x->n_elements + 1), *counts = g_new0 (double, x->n_elements + 1);
  gboolean unsure = FALSE;
  Window window;
  gsize at = 0;

  if (x->n_elements == 0 || g->n_elements == 0)
    return;
  window_init (&window, call);
  do
    {
      Pool here = pool_window (&window, x, index);

      unsure = unsure || here.unsure;
      if (here.n > 0)
        {
          y->values[here.best] += g->values[at];
          y->bounds[here.best] += g->bounds[at];
          sizes[here.best] += fabs (g->values[at]);
          counts[here.best]++;
        }
      at++;
    }
  while (rlx_reference_next (index, g->shape, g->n_dims));
  for (gsize i = 0; i < x->n_elements; i++)
    {
      if (counts[i] > 1)
        y->bounds[i] += counts[i] * (RLX_F32_EPSILON * sizes[i] + 0x1p-126);
      /* A partial sum may overflow f32. */
      if (unsure || sizes[i] > 0x1p127)
        y->bounds[i] = INFINITY;
    }
}

const RlxReferenceRow rlx_reference_window[] = {
  { "conv", conv_forward },
  { "conv_transpose", conv_transpose },
  { "qconv2d", qconv },
  { "im2col", im2col },
  { "max_pool", pool },
  { "max_pool_backward", max_pool_backward },
  { "arg_max_pool", pool },
  { "average_pool", pool },
  { "l2_pool", pool },
  { NULL, NULL }
};
