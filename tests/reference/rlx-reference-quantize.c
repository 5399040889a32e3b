/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Quantisation. A quotient that is almost half-way between two integers may be
 * rounded to either: what is near is found by rounding the ends of the interval
 * that the device's quotient is in.
 */
#include "config.h"
#include "rlx-reference-private.h"

#include <math.h>

/* The error of a division is at most 2.5 ulp. */
#define DIVISION (2.5 * RLX_F32_ULP)

/* A number that is only known to be within an interval. */
typedef struct
{
  double value, least, most;
} Interval;

static Interval
interval (double value,
          double bound)
{
  return (Interval) { value, value - bound, value + bound };
}

static Interval
get_interval (const RlxReferenceValue *x,
              gsize                    at)
{
  return interval (x->values[at], x->bounds[at]);
}

/* The index of the scale that applies to the operand's element at @index. */
static gsize
scale_position (RlxReferenceCall        *call,
                const RlxReferenceValue *x,
                const RlxReferenceValue *scale,
                const gint64            *index)
{
  gint64 blocks[RLX_MAX_DIMS];
  gsize n, position = 0;

  if (scale->n_elements == 1)
    return 0;
  rlx_reference_get_ints (call, "blocks", blocks, &n);
  for (gsize i = 0; i < scale->n_dims; i++)
    {
      gsize axis = x->n_dims - scale->n_dims + i;
      gint64 block = n > 0 ? blocks[axis] : x->shape[axis] / scale->shape[i];

      position = position * (gsize) scale->shape[i] + (gsize) (index[axis] / block);
    }

  return position;
}

static double
limit (double quotient,
       double zero,
       double lowest,
       double highest)
{
  if (isnan (quotient))
    return 0;
  /* nearbyint() takes ties to even. */
  return fmin (fmax (nearbyint (quotient) + zero, lowest), highest);
}

/* The level to which x / scale + zero is rounded. */
static Interval
get_level (Interval x,
           Interval scale,
           Interval zero,
           double   lowest,
           double   highest)
{
  const double xs[] = { x.least, x.most }, scales[] = { scale.least, scale.most }, zeros[] = { zero.least, zero.most };
  double level = limit (x.value / scale.value, zero.value, lowest, highest);
  Interval result = interval (level, 0);

  if (isnan (x.least) || isnan (scale.least) || x.value / scale.value != x.value / scale.value)
    return result;
  for (int i = 0; i < 8; i++)
    {
      double quotient = xs[i & 1] / scales[i >> 1 & 1];

      for (int j = -1; j <= 1; j += 2)
        {
          double end = limit (quotient * (1 + j * DIVISION), zeros[i >> 2], lowest, highest);

          result.least = fmin (result.least, end);
          result.most = fmax (result.most, end);
        }
    }

  return result;
}

static double
get_bound (Interval x)
{
  if (isnan (x.value))
    return 0;
  /* The difference of two infinities is NaN. */
  return fmax (x.most == x.value ? 0 : x.most - x.value, x.value == x.least ? 0 : x.value - x.least);
}

static void
quantize_linear (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0], *scale = call->inputs[1], *zero = rlx_reference_get_input (call, 2);
  RlxReferenceValue *y = call->output;
  gint64 index[RLX_MAX_DIMS] = { 0, }, least, greatest;
  gsize at = 0;

  rlx_reference_get_range (y->data_type, &least, &greatest);
  if (y->n_elements == 0)
    return;
  do
    {
      gsize from = scale_position (call, x, scale, index);
      Interval number = get_interval (x, at), level;
      double wide = fabs (number.value) > 0x1p24 && !rlx_reference_is_float (x->data_type) ? RLX_F32_ULP * fabs (number.value) : 0;

      number.least -= wide;
      number.most += wide;
      level = get_level (number, get_interval (scale, from), interval (0, 0), (double) least, (double) greatest);
      if (zero != NULL && y->data_type == RLX_DATA_TYPE_I32)
        {
          double end = zero->values[from];

          level.value = fmin (fmax (level.value + end, (double) least), (double) greatest);
          level.least = fmin (fmax (level.least + end, (double) least), (double) greatest);
          level.most = fmin (fmax (level.most + end, (double) least), (double) greatest);
        }
      else if (zero != NULL)
        {
          level = get_level (number, get_interval (scale, from), get_interval (zero, from), (double) least, (double) greatest);
        }
      if (isnan (number.value / scale->values[from]))
        level = interval (0, 0);
      y->values[at] = level.value;
      y->bounds[at] = isfinite (x->bounds[at]) && isfinite (scale->bounds[from]) ? get_bound (level) : INFINITY;
      at++;
    }
  while (rlx_reference_next (index, x->shape, x->n_dims));
}

static void
dequantize_linear (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0], *scale = call->inputs[1], *zero = rlx_reference_get_input (call, 2);
  RlxReferenceValue *y = call->output;
  gint64 index[RLX_MAX_DIMS] = { 0, };
  gsize at = 0;
  double relative = x->data_type == RLX_DATA_TYPE_I32 ? 0x1p-22 : RLX_F32_EPSILON;

  if (y->n_elements == 0)
    return;
  do
    {
      gsize from = scale_position (call, x, scale, index);
      double difference = x->values[at] - (zero != NULL ? zero->values[from] : 0);

      y->values[at] = difference * scale->values[from];
      y->bounds[at] = isfinite (y->values[at]) ? relative * fabs (y->values[at]) : 0;
      if (scale->bounds[from] > 0)
        y->bounds[at] += fabs (difference) * scale->bounds[from];
      if (x->bounds[at] > 0)
        y->bounds[at] += x->bounds[at] * (fabs (scale->values[from]) + scale->bounds[from]);
      at++;
    }
  while (rlx_reference_next (index, x->shape, x->n_dims));
}

/* The scale that covers all values, and the zero point. */
static void
find_range (const RlxReferenceValue *x,
            gboolean                 symmetric,
            double                   levels,
            Interval                *scale,
            Interval                *zero)
{
  double least = 0, most = 0, error = 0, range;

  for (gsize i = 0; i < x->n_elements; i++)
    {
      if (isnan (x->values[i]))
        least = most = NAN;
      if (x->values[i] < least)
        least = x->values[i];
      if (x->values[i] > most)
        most = x->values[i];
      error = fmax (error, x->bounds[i]);
    }

  range = symmetric ? fmax (-least, most) : most - least;
  if (isnan (least))
    range = NAN;
  if (range == 0)
    {
      /* If values may be flushed to 0, either case is possible. */
      *scale = interval (1, error > 0 ? INFINITY : 0);
      *zero = interval (0, 0);
      return;
    }
  *scale = interval (range / levels, isfinite (range) ? 4 * RLX_F32_ULP * range / levels + 2 * error / levels : 0);
  *zero = interval (0, 0);
  if (!symmetric && !isnan (range))
    *zero = get_level (interval (-least, error), *scale, *zero, 0, levels);
}

static void
dynamic_quantize (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0];
  RlxReferenceValue *y = call->output;
  Interval scale, zero;

  find_range (x, FALSE, 255, &scale, &zero);
  if (call->result == 1)
    {
      y->values[0] = scale.value;
      y->bounds[0] = get_bound (scale);
    }
  else if (call->result == 2)
    {
      y->values[0] = zero.value;
      y->bounds[0] = get_bound (zero);
    }
  else
    {
      for (gsize i = 0; i < y->n_elements; i++)
        {
          Interval level = get_level (get_interval (x, i), scale, zero, 0, 255);

          y->values[i] = level.value;
          y->bounds[i] = isfinite (x->bounds[i]) ? get_bound (level) : INFINITY;
        }
    }
}

static void
fake_quantize (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0];
  const RlxReferenceValue *scales = rlx_reference_get_input (call, 1), *zeros = rlx_reference_get_input (call, 2);
  RlxReferenceValue *y = call->output;
  gboolean symmetric = rlx_reference_get_bool (call, "symmetric");
  int bits = (int) rlx_reference_get_int (call, "bits");
  double highest = pow (2, symmetric ? bits - 1 : bits) - 1;
  gint64 index[RLX_MAX_DIMS] = { 0, };
  Interval scale = { 0, }, zero = { 0, };
  gsize at = 0;

  if (y->n_elements == 0)
    return;
  if (scales == NULL)
    find_range (x, symmetric, highest, &scale, &zero);
  do
    {
      Interval level;

      if (scales != NULL)
        {
          gsize from = scale_position (call, x, scales, index);

          scale = get_interval (scales, from);
          if (zeros != NULL)
            zero = get_interval (zeros, from);
        }
      level = get_level (get_interval (x, at), scale, zero, symmetric ? -highest : 0, highest);
      if (isnan (x->values[at]) || isnan (scale.value))
        {
          y->values[at] = NAN;
        }
      else
        {
          double steps = level.value - zero.value;

          y->values[at] = scale.value == 0 && x->values[at] == 0 ? 0 : isnan (x->values[at] / scale.value) ? (double) NAN : steps * scale.value;
          if (isfinite (y->values[at]))
            y->bounds[at] = RLX_F32_EPSILON * fabs (y->values[at]) + fabs (steps) * get_bound (scale) +
                            (get_bound (level) + get_bound (zero)) * (fabs (scale.value) + get_bound (scale));
        }
      if (!isfinite (x->bounds[at]))
        y->bounds[at] = INFINITY;
      at++;
    }
  while (rlx_reference_next (index, x->shape, x->n_dims));
}

/* The element of a scalar, or of a value per channel. */
static Interval
get_for_channel (const RlxReferenceValue *value,
                 gsize                    channel)
{
  if (value == NULL)
    return interval (0, 0);
  return get_interval (value, value->n_elements > 1 ? channel : 0);
}

void
rlx_reference_requantize (RlxReferenceCall *call,
                          gsize             first,
                          gsize             channel,
                          gsize             at,
                          double            sum,
                          double            bound)
{
  const RlxReferenceValue *bias_value = rlx_reference_get_input (call, first);
  gboolean whole = bias_value != NULL && bias_value->data_type == RLX_DATA_TYPE_I32;
  Interval bias = get_for_channel (bias_value, channel);
  Interval scale = get_for_channel (rlx_reference_get_input (call, first + 1), channel);
  Interval scale_y = get_for_channel (rlx_reference_get_input (call, first + 2), 0);
  Interval zero_y = get_for_channel (rlx_reference_get_input (call, first + 3), 0);
  RlxReferenceValue *y = call->output;
  double number, error;

  if (whole)
    {
      sum += bias.value;
      bound += get_bound (bias);
    }
  sum = (double) rlx_reference_wrap (RLX_DATA_TYPE_I32, (gint64) sum);
  if (y->data_type == RLX_DATA_TYPE_I32)
    {
      y->values[at] = sum;
      y->bounds[at] = bound;
      return;
    }

  number = sum * scale.value + (whole ? 0 : bias.value);
  error = 0x1p-22 * (fabs (sum * scale.value) + fabs (bias.value)) + fabs (sum) * get_bound (scale) +
          bound * (fabs (scale.value) + get_bound (scale)) + (whole ? 0 : get_bound (bias));
  if (!isfinite (number) && get_bound (scale) + bound + get_bound (bias) == 0)
    error = 0;
  if (rlx_reference_is_float (y->data_type))
    {
      y->values[at] = number;
      y->bounds[at] = error;
    }
  else
    {
      gint64 least, greatest;
      Interval level;

      rlx_reference_get_range (y->data_type, &least, &greatest);
      least = CLAMP (rlx_reference_get_int (call, "minimum"), least, greatest);
      greatest = CLAMP (rlx_reference_get_int (call, "maximum"), least, greatest);
      level = get_level (interval (number, error), scale_y, zero_y, (double) least, (double) greatest);
      if (isnan (number / scale_y.value))
        level = interval (0, 0);
      y->values[at] = level.value;
      y->bounds[at] = isfinite (error) ? get_bound (level) : INFINITY;
    }
}

/* The matrix element of @value for @index of the result's stack. */
static double
get_element (const RlxReferenceValue *value,
             const gint64            *index,
             gsize                    n_dims,
             gint64                   row,
             gint64                   column)
{
  gint64 at[RLX_MAX_DIMS];

  for (gsize i = 0; i + 2 < n_dims; i++)
    at[i] = index[i];
  at[n_dims - 2] = row;
  at[n_dims - 1] = column;

  return value->values[rlx_reference_position (value, at, n_dims)];
}

static void
qmatmul (RlxReferenceCall *call)
{
  const RlxReferenceValue *a = call->inputs[0], *b = call->inputs[1];
  const RlxReferenceValue *zero_a = rlx_reference_get_input (call, 2), *zero_b = rlx_reference_get_input (call, 3);
  RlxReferenceValue *y = call->output;
  gboolean transposed = rlx_reference_get_bool (call, "transpose_b");
  gint64 index[RLX_MAX_DIMS] = { 0, };
  gsize at = 0, n = y->n_dims;

  if (y->n_elements == 0)
    return;
  do
    {
      gint64 row = index[n - 2], column = index[n - 1], sum = 0;
      double less_a = zero_a != NULL ? get_element (zero_a, index, n, row, 0) : 0;
      double less_b = 0;

      if (zero_b != NULL)
        less_b = transposed ? get_element (zero_b, index, n, column, 0) : get_element (zero_b, index, n, 0, column);
      for (gint64 k = 0; k < a->shape[a->n_dims - 1]; k++)
        sum += (gint64) ((get_element (a, index, n, row, k) - less_a) *
                         ((transposed ? get_element (b, index, n, column, k) : get_element (b, index, n, k, column)) - less_b));
      rlx_reference_requantize (call, 4, (gsize) column, at++, (double) sum, 0);
    }
  while (rlx_reference_next (index, y->shape, n));
}

const RlxReferenceRow rlx_reference_quantize[] = {
  { "qmatmul", qmatmul },
  { "quantize_linear", quantize_linear },
  { "dequantize_linear", dequantize_linear },
  { "dynamic_quantize", dynamic_quantize },
  { "fake_quantize", fake_quantize },
  { NULL, NULL },
};
