/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Complex numbers, as pairs along the last dimension.
 */
#include "config.h"
#include "rlx-reference-private.h"

#include <math.h>
#include <string.h>

typedef struct
{
  double value;
  double error;
} Number;

static Number
get_number (const RlxReferenceValue *x,
            gsize                    at)
{
  return (Number) { x->values[at], x->bounds[at] };
}

static void
set_number (RlxReferenceValue *y,
            gsize              at,
            Number             number)
{
  y->values[at] = number.value;
  y->bounds[at] = number.error;
}

/* What is finite here may overflow on the device. */
static gboolean
is_large (double size)
{
  return isfinite (size) && size >= 0x1p127;
}

/* a b + sign · c d */
static Number
sum_two (Number a,
         Number b,
         Number c,
         Number d,
         double sign)
{
  double first = fabs (a.value * b.value), second = fabs (c.value * d.value), size = first + second;
  Number y = { a.value * b.value + sign * c.value * d.value, 0 };

  if (a.error > 0)
    y.error += a.error * (fabs (b.value) + b.error);
  if (b.error > 0)
    y.error += b.error * fabs (a.value);
  if (c.error > 0)
    y.error += c.error * (fabs (d.value) + d.error);
  if (d.error > 0)
    y.error += d.error * fabs (c.value);
  if (isfinite (size))
    y.error += 4 * RLX_F32_EPSILON * size + (size > 0 ? 0x1p-125 : 0);
  /* Even with an infinity, as it may have the other sign. */
  if (!isnan (y.value) && (is_large (first) || is_large (second) || is_large (size)))
    y.error = INFINITY;
  return y;
}

/* The position of the pair that broadcasts to @index, which lacks the last dimension. */
static gsize
find_pair (const RlxReferenceValue *x,
           const gint64            *index,
           gsize                    n_dims)
{
  RlxReferenceValue pairs = *x;

  pairs.n_dims--;
  return 2 * rlx_reference_position (&pairs, index, n_dims);
}

static void
join (RlxReferenceCall *call)
{
  RlxReferenceValue *y = call->output;
  gint64 index[RLX_MAX_DIMS] = { 0, };
  gsize at = 0;

  if (y->n_elements == 0)
    return;
  do
    {
      set_number (y, at, get_number (call->inputs[0], rlx_reference_position (call->inputs[0], index, y->n_dims - 1)));
      set_number (y, at + 1, get_number (call->inputs[1], rlx_reference_position (call->inputs[1], index, y->n_dims - 1)));
      at += 2;
    }
  while (rlx_reference_next (index, y->shape, y->n_dims - 1));
}

static void
take (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0];
  RlxReferenceValue *y = call->output;

  for (gsize i = 0; i < y->n_elements; i++)
    {
      Number re = get_number (x, 2 * i), im = get_number (x, 2 * i + 1);

      if (strcmp (call->op, "real") == 0)
        set_number (y, i, re);
      else if (strcmp (call->op, "imag") == 0)
        set_number (y, i, im);
      else
        set_number (y, i, sum_two (re, re, im, im, 1));
    }
}

static void
conjugate (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0];

  for (gsize i = 0; i < x->n_elements; i++)
    {
      Number number = get_number (x, i);

      if (i % 2 == 1)
        number.value = -number.value;
      set_number (call->output, i, number);
    }
}

static void
multiply (RlxReferenceCall *call)
{
  RlxReferenceValue *y = call->output;
  gint64 index[RLX_MAX_DIMS] = { 0, };
  gsize at = 0;

  if (y->n_elements == 0)
    return;
  do
    {
      gsize i = find_pair (call->inputs[0], index, y->n_dims - 1), j = find_pair (call->inputs[1], index, y->n_dims - 1);
      Number a0 = get_number (call->inputs[0], i), a1 = get_number (call->inputs[0], i + 1);
      Number b0 = get_number (call->inputs[1], j), b1 = get_number (call->inputs[1], j + 1);

      set_number (y, at, sum_two (a0, b0, a1, b1, -1));
      set_number (y, at + 1, sum_two (a0, b1, a1, b0, 1));
      at += 2;
    }
  while (rlx_reference_next (index, y->shape, y->n_dims - 1));
}

const RlxReferenceRow rlx_reference_complex[] = {
  { "complex", join },
  { "real", take },
  { "imag", take },
  { "abs_squared", take },
  { "conj", conjugate },
  { "complex_mul", multiply },
  { NULL, NULL }
};
