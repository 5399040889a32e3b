/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"
#include "rlx-reference-private.h"

#include <math.h>
#include <string.h>

/* Calls @visit for each element with the index of the result it belongs to. */
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
  gboolean axes[RLX_MAX_DIMS];
  gint64 index[RLX_MAX_DIMS] = { 0, };
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
visit_absolute (const RlxReferenceValue *x,
                gsize                    from,
                RlxReferenceValue       *y,
                gsize                    to,
                gpointer                 data)
{
  double *sizes = data;
  double size = fabs (x->values[from]);

  y->values[to] += size;
  sizes[to] += size;
  y->bounds[to] += x->bounds[from];
  if (!rlx_reference_is_float (y->data_type))
    y->values[to] = (double) rlx_reference_wrap (y->data_type, (gint64) y->values[to]);
}

static void
visit_square (const RlxReferenceValue *x,
              gsize                    from,
              RlxReferenceValue       *y,
              gsize                    to,
              gpointer                 data)
{
  double *sizes = data;
  double value = x->values[from], bound = x->bounds[from];

  if (!rlx_reference_is_float (y->data_type))
    {
      gint64 square = rlx_reference_wrap (y->data_type, (gint64) ((guint64) (gint64) value * (guint64) (gint64) value));

      y->values[to] = (double) rlx_reference_wrap (y->data_type, (gint64) y->values[to] + square);
      y->bounds[to] += bound;
      return;
    }

  y->values[to] += value * value;
  sizes[to] += value * value;
  if (bound > 0)
    y->bounds[to] += (2 * fabs (value) + bound) * bound;
  /* underflows f32 */
  if (value * value < 0x1p-126)
    y->bounds[to] += value * value;
}

static void
reduce_norm (RlxReferenceCall *call)
{
  RlxReferenceValue *y = call->output;
  g_autofree double *sizes = g_new0 (double, y->n_elements + 1);
  gboolean square = strcmp (call->op, "reduce_l1") != 0;
  gsize n = visit_all (call, square ? visit_square : visit_absolute, sizes);

  for (gsize i = 0; i < y->n_elements; i++)
    {
      double sum = y->values[i];

      if (!rlx_reference_is_float (y->data_type))
        {
          y->bounds[i] = y->bounds[i] > 0 ? INFINITY : 0;
          continue;
        }
      if (isfinite (sizes[i]) && n > 0)
        y->bounds[i] += (log2 ((double) n) + 16 + square) * RLX_F32_EPSILON * sizes[i];
      if (strcmp (call->op, "reduce_l2") == 0)
        {
          y->values[i] = sqrt (sum);
          if (isfinite (sum))
            {
              /* if it overflows f32, the sum is infinite, and so is its root */
              double most = sum + y->bounds[i], least = fmax (0, sum - y->bounds[i]);

              y->bounds[i] = fmax (sqrt (most) - sqrt (sum), sqrt (sum) - sqrt (least)) + RLX_F32_ULP * sqrt (sum);
              if (least >= 0x1p128)
                {
                  y->values[i] = INFINITY;
                  y->bounds[i] = 0;
                }
              else if (most >= 0x1p127)
                {
                  y->bounds[i] = INFINITY;
                }
            }
        }
    }
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

static void
reduce_log_sum (RlxReferenceCall *call)
{
  RlxReferenceValue *y = call->output;

  reduce_sum (call);
  for (gsize i = 0; i < y->n_elements; i++)
    {
      double sum = y->values[i], bound = y->bounds[i];

      y->values[i] = log (sum);
      if (sum - bound > 0 && isfinite (sum))
        y->bounds[i] = log (sum / (sum - bound)) + 0x1p-20 * fabs (log (sum));
      else if (sum + bound >= 0 && bound > 0)
        y->bounds[i] = INFINITY;
      else
        y->bounds[i] = 0;
      if (sum > 0 && sum < 0x1p-126)
        y->bounds[i] = INFINITY;
    }
}

typedef struct
{
  double *largest;
  double *bound;
} Exponentials;

static void
visit_largest (const RlxReferenceValue *x,
               gsize                    from,
               RlxReferenceValue       *y G_GNUC_UNUSED,
               gsize                    to,
               gpointer                 data)
{
  Exponentials *exponentials = data;

  exponentials->largest[to] = fmax (exponentials->largest[to], x->values[from]);
  exponentials->bound[to] = fmax (exponentials->bound[to], x->bounds[from]);
}

static void
visit_exponential (const RlxReferenceValue *x,
                   gsize                    from,
                   RlxReferenceValue       *y,
                   gsize                    to,
                   gpointer                 data)
{
  Exponentials *exponentials = data;
  double largest = isfinite (exponentials->largest[to]) ? exponentials->largest[to] : 0;

  y->values[to] += exp (x->values[from] - largest);
}

static void
reduce_log_sum_exp (RlxReferenceCall *call)
{
  RlxReferenceValue *y = call->output;
  g_autofree double *largest = g_new0 (double, y->n_elements + 1);
  g_autofree double *bound = g_new0 (double, y->n_elements + 1);
  Exponentials exponentials = { largest, bound };
  gsize n;

  for (gsize i = 0; i < y->n_elements; i++)
    largest[i] = -INFINITY;
  visit_all (call, visit_largest, &exponentials);
  n = visit_all (call, visit_exponential, &exponentials);

  for (gsize i = 0; i < y->n_elements; i++)
    {
      y->values[i] = (isfinite (largest[i]) ? largest[i] : 0) + log (y->values[i]);
      if (isfinite (y->values[i]))
        y->bounds[i] = 0x1p-21 * (fabs (y->values[i]) + log2 ((double) n) + 16) + bound[i];
      else if (isinf (bound[i]))
        y->bounds[i] = INFINITY;
    }
}

/* ---- booleans ------------------------------------------------------------------------- */

static void
visit_truth (const RlxReferenceValue *x,
             gsize                    from,
             RlxReferenceValue       *y,
             gsize                    to,
             gpointer                 data)
{
  const gboolean *all = data;
  gboolean one = x->values[from] != 0;

  /* An uncertain element only matters if no other one decides. */
  y->bounds[to] = fmax (y->bounds[to], x->bounds[from]);
  y->values[to] = *all ? y->values[to] != 0 && one : y->values[to] != 0 || one;
}

static void
reduce_truth (RlxReferenceCall *call)
{
  gboolean all = strcmp (call->op, "reduce_all") == 0;

  fill (call->output, all);
  visit_all (call, visit_truth, &all);
}

/* ---- extremes ------------------------------------------------------------------------ */

/* The lower and upper bound of the result. */
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
  double *up, *down;  /* Σ |log₂ |x|| of factors above and below 1: the possible range of partial products */
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
      y->values[to] = (double) rlx_reference_wrap (y->data_type,
                                                  (gint64) ((guint64) (gint64) y->values[to] * (guint64) (gint64) x->values[from]));
      products->greatest[to] += x->bounds[from] > 0 ? INFINITY : 0;
      return;
    }

  y->values[to] *= x->values[from];
  products->greatest[to] *= size + x->bounds[from];
  if (size > 0 && isfinite (size))
    *(size > 1 ? &products->up[to] : &products->down[to]) += fabs (log2 (size));
}

static void
reduce_prod (RlxReferenceCall *call)
{
  RlxReferenceValue *y = call->output;
  g_autofree double *greatest = g_new0 (double, y->n_elements + 1);
  g_autofree double *up = g_new0 (double, y->n_elements + 1);
  g_autofree double *down = g_new0 (double, y->n_elements + 1);
  Products products = { greatest, up, down };
  gsize n;

  fill (y, 1);
  for (gsize i = 0; i < y->n_elements; i++)
    greatest[i] = 1;
  n = visit_all (call, visit_product, &products);

  for (gsize i = 0; i < y->n_elements; i++)
    {
      gboolean vanishes = down[i] >= 125;

      if (!rlx_reference_is_float (y->data_type))
        y->bounds[i] = isinf (greatest[i]) ? INFINITY : 0;
      /* Zero times an overflow, or infinity times an underflow, is NaN. */
      else if (up[i] >= 126 || (vanishes && isinf (y->values[i])))
        y->bounds[i] = INFINITY;
      else if (isfinite (y->values[i]))
        y->bounds[i] = (double) n * RLX_F32_ULP * fabs (y->values[i]) + (greatest[i] - fabs (y->values[i])) +
                       /* each partial product may be flushed to zero if subnormal, and the remaining factors
                        * amplify that */
                       (vanishes ? (double) n * exp2 (up[i]) * FLT_MIN : 0);
    }
}

const RlxReferenceRow rlx_reference_reduce[] = {
  { "reduce_sum", reduce_sum },
  { "reduce_mean", reduce_sum },
  { "reduce_max", reduce_extreme },
  { "reduce_min", reduce_extreme },
  { "reduce_prod", reduce_prod },
  { "reduce_l1", reduce_norm },
  { "reduce_l2", reduce_norm },
  { "reduce_sum_square", reduce_norm },
  { "reduce_log_sum", reduce_log_sum },
  { "reduce_log_sum_exp", reduce_log_sum_exp },
  { "reduce_any", reduce_truth },
  { "reduce_all", reduce_truth },
  { NULL, NULL },
};
