/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The gradient of grid sampling: that of the equivalent weighted sum of rows that are looked up.
 */
#include "config.h"

#include "ops/rlx-gradient-private.h"

#include "rlx-tensor-private.h"

#define MAX_AXES 3
#define MAX_TAPS 4
#define CUBIC_A -0.75

/* A place along one axis: the elements next to it, as i32, and their weights. */
typedef struct
{
  RlxIrValue *at[MAX_TAPS], *weights[MAX_TAPS];
} Taps;

typedef struct
{
  RlxBuilder *b;
  const RlxGridSampleAttrs *attrs;
  guint n_taps;
} Sampler;

static RlxIrValue *
number (Sampler *self,
        double   value)
{
  static const RlxIrValue like = { .type = { .data_type = RLX_DATA_TYPE_F32 } };

  return rlx_build_number (self->b, &like, value);
}

/* a · x + b */
static RlxIrValue *
affine (Sampler    *self,
        RlxIrValue *x,
        double      a,
        double      b)
{
  return rlx_build_add (self->b, rlx_build_mul (self->b, x, number (self, a)), number (self, b));
}

static RlxIrValue *
limit (Sampler    *self,
       RlxIrValue *x,
       double      low,
       double      high)
{
  return rlx_build_clamp (self->b, x, RLX_CLAMP_ATTRS (.minimum = low, .maximum = high));
}

/* Reflects between @low and @high. */
static RlxIrValue *
reflect (Sampler    *self,
         RlxIrValue *x,
         double      low,
         double      high)
{
  RlxBuilder *b = self->b;
  double range = high - low;
  RlxIrValue *below, *distance, *times, *rest, *even, *from_low, *from_high;

  if (x == NULL)
    return NULL;
  if (range <= 0)
    return rlx_build_filled (b, &x->type, low);
  below = rlx_build_less (b, x, number (self, low));
  distance = rlx_build_where (b, below, affine (self, x, -1, low), affine (self, x, 1, -high));
  times = rlx_build_floor (b, rlx_build_div (b, distance, number (self, range)));
  rest = rlx_build_sub (b, distance, rlx_build_mul (b, times, number (self, range)));
  even = rlx_build_mul (b, rlx_build_floor (b, rlx_build_mul (b, times, number (self, 0.5))), number (self, 2));
  even = rlx_build_equal (b, even, times);
  from_low = affine (self, rest, 1, low);
  from_high = affine (self, rest, -1, high);
  rest = rlx_build_where (b, below, rlx_build_where (b, even, from_low, from_high), rlx_build_where (b, even, from_high, from_low));
  return rlx_build_where (b, rlx_build_less_equal (b, distance, number (self, 0)), x, rest);
}

/* Converts -1 … 1 to element coordinates, moved inside as padding requires. */
static RlxIrValue *
find_place (Sampler    *self,
            RlxIrValue *g,
            double      size)
{
  RlxBuilder *b = self->b;
  gboolean align = self->attrs->align_corners, nearest = self->attrs->mode == RLX_INTERPOLATION_NEAREST;
  RlxIrValue *x = affine (self, g, 1, 1), *lost;

  x = align ? rlx_build_mul (b, x, number (self, 0.5 * (size - 1))) : affine (self, x, 0.5 * size, -0.5);
  lost = rlx_build_logical_or (b, rlx_build_is_nan (b, g), rlx_build_is_nan (b, x));
  x = limit (self, rlx_build_where (b, lost, number (self, -1e9), x), -1e9, 1e9);
  if (nearest)
    x = rlx_build_round_even (b, x);
  if (self->attrs->padding == RLX_GRID_PADDING_BORDER && self->attrs->mode != RLX_INTERPOLATION_CUBIC)
    x = limit (self, x, 0, size - 1);
  else if (self->attrs->padding == RLX_GRID_PADDING_REFLECTION)
    x = reflect (self, x, align ? 0 : -0.5, align ? size - 1 : size - 0.5);
  if (nearest && self->attrs->padding == RLX_GRID_PADDING_REFLECTION)
    x = limit (self, rlx_build_round_even (b, x), 0, size - 1);
  return x;
}

/* One polynomial of the distance @t for neighbours up to 1 away, another for those further away. */
static RlxIrValue *
cubic_near (Sampler    *self,
            RlxIrValue *t)
{
  RlxBuilder *b = self->b;
  RlxIrValue *square = rlx_build_mul (b, t, t);

  return affine (self, rlx_build_mul (b, affine (self, t, CUBIC_A + 2, -(CUBIC_A + 3)), square), 1, 1);
}

static RlxIrValue *
cubic_far (Sampler    *self,
           RlxIrValue *t)
{
  RlxBuilder *b = self->b;
  RlxIrValue *sum = affine (self, t, CUBIC_A, -5 * CUBIC_A);

  sum = affine (self, rlx_build_mul (b, sum, t), 1, 8 * CUBIC_A);
  return affine (self, rlx_build_mul (b, sum, t), 1, -4 * CUBIC_A);
}

static void
taps_init (Taps       *taps,
           Sampler    *self,
           RlxIrValue *x,
           double      size)
{
  RlxBuilder *b = self->b;
  RlxIrValue *first = rlx_build_floor (b, x), *part = rlx_build_sub (b, x, first);

  switch (self->attrs->mode)
    {
    case RLX_INTERPOLATION_CUBIC:
      taps->weights[0] = cubic_far (self, affine (self, part, 1, 1));
      taps->weights[1] = cubic_near (self, part);
      taps->weights[2] = cubic_near (self, affine (self, part, -1, 1));
      taps->weights[3] = cubic_far (self, affine (self, part, -1, 2));
      first = affine (self, first, 1, -1);
      break;
    case RLX_INTERPOLATION_LINEAR:
      taps->weights[0] = affine (self, part, -1, 1);
      taps->weights[1] = part;
      break;
    case RLX_INTERPOLATION_NEAREST:
    default:
      taps->weights[0] = x != NULL ? rlx_build_filled (b, &x->type, 1) : NULL;
      break;
    }

  for (guint i = 0; i < self->n_taps; i++)
    {
      RlxIrValue *at = affine (self, first, 1, i);

      if (self->attrs->padding == RLX_GRID_PADDING_ZEROS)
        {
          RlxIrValue *inside = rlx_build_logical_and (b, rlx_build_greater_equal (b, at, number (self, 0)),
                                                      rlx_build_less (b, at, number (self, size)));

          taps->weights[i] = rlx_build_where (b, inside, taps->weights[i], number (self, 0));
        }
      else if (self->attrs->padding == RLX_GRID_PADDING_REFLECTION)
        {
          at = reflect (self, at, self->attrs->align_corners ? 0 : -0.5, self->attrs->align_corners ? size - 1 : size - 0.5);
        }
      taps->at[i] = rlx_build_as (b, limit (self, at, 0, size - 1), RLX_DATA_TYPE_I32);
    }
}

static RlxIrValue *
whole_number (Sampler *self,
              gint64   value)
{
  return rlx_build_constant (self->b, rlx_tensor_new_scalar (RLX_DATA_TYPE_I32, (double) value, NULL));
}

/* The operand with its channels last, one row per element of an image: [batch · elements, channels]. */
static RlxIrValue *
get_rows (RlxBuilder *b,
          RlxIrValue *x,
          gint64      n)
{
  gint64 order[RLX_MAX_DIMS] = { 0 }, channels = x->type.shape[1];

  for (guint i = 2; i < x->type.n_dims; i++)
    order[i - 1] = i;
  order[x->type.n_dims - 1] = 1;
  x = rlx_build_transpose (b, rlx_build_as (b, x, RLX_DATA_TYPE_F32), RLX_TRANSPOSE_ATTRS (.permutation = RLX_INTS (order, x->type.n_dims)));
  return rlx_build_shaped (b, x, (gint64[]) { n, channels }, 2);
}

void
rlx_grid_sample_gradient (RlxGradient     *self,
                          const RlxIrNode *node)
{
  static const guint taps_of[] = {
    [RLX_INTERPOLATION_NEAREST] = 1, [RLX_INTERPOLATION_LINEAR] = 2, [RLX_INTERPOLATION_CUBIC] = 4,
  };
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *x = node->inputs[RLX_GRID_SAMPLE_SELF], *grid = node->inputs[RLX_GRID_SAMPLE_GRID], *rows, *y;
  RlxIrValue *at[MAX_TAPS * MAX_TAPS], *weights[MAX_TAPS * MAX_TAPS], *all_at, *all_weights;
  const RlxTensorType *type = &node->outputs[0].type;
  Sampler sampler = { .b = b, .attrs = rlx_grid_sample_attrs (node), .n_taps = taps_of[rlx_grid_sample_attrs (node)->mode] };
  guint n_axes = x->type.n_dims - 2, n_combinations = 1;
  gint64 batch = x->type.shape[0], channels = x->type.shape[1], places = 1, elements = 1, n;
  const gint64 second = 1;
  Taps taps[MAX_AXES];

  if (rlx_type_n_elements (type) == 0)
    {
      for (guint i = 0; i < 2; i++)
        if (rlx_gradient_wants (self, node, i))
          rlx_gradient_add (self, node, i, rlx_build_filled (b, &node->inputs[i]->type, 0.0));
      return;
    }
  for (guint i = 0; i < n_axes; i++)
    {
      places *= type->shape[2 + i];
      elements *= x->type.shape[2 + i];
      n_combinations *= sampler.n_taps;
    }
  n = batch * elements;
  if (n > G_MAXINT32)
    {
      rlx_gradient_refuse (self, node, "its images have more than 2³¹ elements");
      return;
    }

  grid = rlx_build_as (b, grid, RLX_DATA_TYPE_F32);
  for (guint i = 0; i < n_axes; i++)
    {
      RlxIrValue *part = grid != NULL ? rlx_build_part (b, grid, n_axes + 1, i, i + 1) : NULL;
      double size = (double) x->type.shape[n_axes + 1 - i];

      part = rlx_build_shaped (b, part, (gint64[]) { batch, 1, places }, 3);
      taps_init (&taps[i], &sampler, find_place (&sampler, part, size), size);
    }
  for (guint k = 0; k < n_combinations; k++)
    {
      guint rest = k;

      at[k] = weights[k] = NULL;
      for (guint i = n_axes; i-- > 0;)
        {
          RlxIrValue *here = taps[i].at[rest % sampler.n_taps], *weight = taps[i].weights[rest % sampler.n_taps];

          rest /= sampler.n_taps;
          if (at[k] != NULL)
            here = rlx_build_add (b, rlx_build_mul (b, at[k], whole_number (&sampler, x->type.shape[n_axes + 1 - i])), here);
          at[k] = here;
          weights[k] = weights[k] != NULL ? rlx_build_mul (b, weights[k], weight) : weight;
        }
    }
  all_at = n_combinations > 1 ? rlx_build_concat (b, at, n_combinations, RLX_CONCAT_ATTRS (.axis = 1)) : at[0];
  all_weights = n_combinations > 1 ? rlx_build_concat (b, weights, n_combinations, RLX_CONCAT_ATTRS (.axis = 1)) : weights[0];
  all_weights = rlx_build_shaped (b, all_weights, (gint64[]) { batch, n_combinations, places, 1 }, 4);
  if (batch > 1)
    {
      RlxIrValue *first = rlx_build_mul (b, rlx_build_iota (b, batch), whole_number (&sampler, elements));

      all_at = rlx_build_add (b, all_at, rlx_build_shaped (b, first, (gint64[]) { batch, 1, 1 }, 3));
    }

  rows = rlx_build_gather (b, get_rows (b, x, n), all_at, RLX_GATHER_ATTRS (.axis = 0));
  /* Only elements outside have no weight wherever the place is: gradients end there. */
  rows = rlx_build_mul (b, rows, all_weights);
  y = rlx_build_reduce_sum (b, rows, RLX_REDUCE_SUM_ATTRS (.axes = RLX_INTS (&second, 1)));
  y = rlx_build_shaped (b, rlx_build_swapped (b, y, 1, 2), (gint64[]) { batch, channels, places }, 3);
  y = rlx_build_as (b, rlx_build_shaped (b, y, type->shape, type->n_dims), type->data_type);
  rlx_gradient_through (self, node, &y, 1);
}
