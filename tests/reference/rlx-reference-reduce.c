/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"
#include "rlx-reference-private.h"

#include <math.h>
#include <string.h>

/* Calls @visit for each element with the number of the result it belongs to. */
typedef void (*Visit) (const RlxReferenceValue *x,
                       gsize                    from,
                       RlxReferenceValue       *y,
                       gsize                    to,
                       gpointer                 data);

static gsize
visit_all (RlxReferenceCall *call,
           Visit             visit,
           gpointer          data)
{
  const RlxReferenceValue *x = call->inputs[0];
  RlxReferenceValue *y = call->output;
  gboolean axes[RLX_MAX_RANK];
  gint64 index[RLX_MAX_RANK] = { 0, };
  gsize from = 0, n = 1;

  rlx_reference_get_axes (call, "axes", x->n_dims, axes);
  for (gsize i = 0; i < x->n_dims; i++)
    n *= axes[i] ? (gsize) x->shape[i] : 1;
  if (x->n_elements == 0)
    return n;

  do
    {
      gsize to = 0;

      for (gsize i = 0; i < x->n_dims; i++)
        if (!axes[i])
          to = to * (gsize) x->shape[i] + (gsize) index[i];
      visit (x, from, y, to, data);
      from++;
    }
  while (rlx_reference_next (index, x->shape, x->n_dims));

  return n;
}

static void
fill (RlxReferenceValue *y,
      double             value)
{
  for (gsize i = 0; i < y->n_elements; i++)
    y->values[i] = value;
}

/* ---- sums -------------------------------------------------------------------------- */

static void
visit_sum (const RlxReferenceValue *x,
           gsize                    from,
           RlxReferenceValue       *y,
           gsize                    to,
           gpointer                 data)
{
  double *sizes = data;

  y->values[to] += x->values[from];
  sizes[to] += fabs (x->values[from]);
  y->bounds[to] += x->bounds[from];
  if (!rlx_reference_is_float (y->data_type))
    y->values[to] = (double) rlx_reference_wrap (y->data_type, (gint64) y->values[to]);
}

static void
reduce_sum (RlxReferenceCall *call)
{
  RlxReferenceValue *y = call->output;
  g_autofree double *sizes = g_new0 (double, y->n_elements + 1);
  gsize n = visit_all (call, visit_sum, sizes);
  gboolean mean = strcmp (call->op, "reduce_mean") == 0;

  for (gsize i = 0; i < y->n_elements; i++)
    {
      if (!rlx_reference_is_float (y->data_type))
        {
          y->bounds[i] = y->bounds[i] > 0 ? INFINITY : 0;
          continue;
        }
      if (isfinite (sizes[i]) && n > 0)
        y->bounds[i] += sizes[i] >= 0x1p127 ? INFINITY : (log2 ((double) n) + 16) * RLX_F32_EPSILON * sizes[i];
      if (mean)
        {
          y->values[i] /= (double) n;
          y->bounds[i] = n > 0 ? y->bounds[i] / (double) n : 0;
        }
    }
}

/* ---- extremes ------------------------------------------------------------------------ */

/* What the result may be at least and at most. */
typedef struct
{
  double sign;
  double *least;
  double *greatest;
} Extremes;

static double
larger (double a,
        double b)
{
  return isnan (a) || isnan (b) ? (double) NAN : fmax (a, b);
}

static void
visit_extreme (const RlxReferenceValue *x,
               gsize                    from,
               RlxReferenceValue       *y,
               gsize                    to,
               gpointer                 data)
{
  Extremes *extremes = data;
  double value = extremes->sign * x->values[from], bound = x->bounds[from];

  y->values[to] = extremes->sign * larger (extremes->sign * y->values[to], value);
  extremes->least[to] = larger (extremes->least[to], bound > 0 ? value - bound : value);
  extremes->greatest[to] = larger (extremes->greatest[to], bound > 0 ? value + bound : value);
  if (isinf (bound))
    extremes->greatest[to] = NAN;
}

static void
reduce_extreme (RlxReferenceCall *call)
{
  RlxReferenceValue *y = call->output;
  g_autofree double *least = g_new0 (double, y->n_elements + 1);
  g_autofree double *greatest = g_new0 (double, y->n_elements + 1);
  Extremes extremes = { strcmp (call->op, "reduce_max") == 0 ? 1 : -1, least, greatest };
  double worst = -INFINITY;

  if (!rlx_reference_is_float (y->data_type))
    {
      gint64 lowest, highest;

      rlx_reference_get_range (y->data_type, &lowest, &highest);
      worst = extremes.sign > 0 ? (double) lowest : -(double) highest;
    }
  for (gsize i = 0; i < y->n_elements; i++)
    {
      least[i] = greatest[i] = worst;
      y->values[i] = extremes.sign * worst;
    }

  visit_all (call, visit_extreme, &extremes);
  for (gsize i = 0; i < y->n_elements; i++)
    {
      double value = extremes.sign * y->values[i];

      if (isnan (greatest[i]) && !isnan (value))
        y->bounds[i] = INFINITY;
      else if (isfinite (value))
        y->bounds[i] = fmax (greatest[i] - value, value - least[i]);
    }
}

/* ---- products -------------------------------------------------------------------------- */

typedef struct
{
  double *greatest;   /* Π (|x| + error) */
  double *range;      /* Σ |log₂ |x||: how far a part of the product may get */
} Products;

static void
visit_product (const RlxReferenceValue *x,
               gsize                    from,
               RlxReferenceValue       *y,
               gsize                    to,
               gpointer                 data)
{
  Products *products = data;
  double size = fabs (x->values[from]);

  if (!rlx_reference_is_float (y->data_type))
    {
      y->values[to] = (double) rlx_reference_wrap (y->data_type, (gint64) y->values[to] * (gint64) x->values[from]);
      products->greatest[to] += x->bounds[from] > 0 ? INFINITY : 0;
      return;
    }

  y->values[to] *= x->values[from];
  products->greatest[to] *= size + x->bounds[from];
  if (size > 0 && isfinite (size))
    products->range[to] += fabs (log2 (size));
}

static void
reduce_prod (RlxReferenceCall *call)
{
  RlxReferenceValue *y = call->output;
  g_autofree double *greatest = g_new0 (double, y->n_elements + 1);
  g_autofree double *range = g_new0 (double, y->n_elements + 1);
  Products products = { greatest, range };
  gsize n;

  fill (y, 1);
  for (gsize i = 0; i < y->n_elements; i++)
    greatest[i] = 1;
  n = visit_all (call, visit_product, &products);

  for (gsize i = 0; i < y->n_elements; i++)
    {
      if (!rlx_reference_is_float (y->data_type))
        y->bounds[i] = isinf (greatest[i]) ? INFINITY : 0;
      else if (range[i] >= 125)
        y->bounds[i] = INFINITY;
      else if (isfinite (y->values[i]))
        y->bounds[i] = (double) n * RLX_F32_ULP * fabs (y->values[i]) + (greatest[i] - fabs (y->values[i]));
    }
}

const RlxReferenceRow rlx_reference_reduce[] = {
  { "reduce_sum", reduce_sum },
  { "reduce_mean", reduce_sum },
  { "reduce_max", reduce_extreme },
  { "reduce_min", reduce_extreme },
  { "reduce_prod", reduce_prod },
  { NULL, NULL },
};
