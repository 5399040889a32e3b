/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Systems of linear equations. Elimination computes the exact factors of a matrix
 * that is off by a few roundings; the bounds are what that does to the result, to
 * first order (Higham, Accuracy and Stability of Numerical Algorithms).
 */
#include "config.h"
#include "rlx-reference-private.h"

#include <math.h>
#include <string.h>

static double *
matrix_new (gsize n)
{
  return g_new0 (double, n * n + 1);
}

/* |a| |b|, n by n and n by m. */
static double *
multiply (const double *a,
          const double *b,
          gsize         n,
          gsize         m)
{
  double *y = g_new0 (double, n * m + 1);

  for (gsize i = 0; i < n; i++)
    for (gsize k = 0; k < n; k++)
      for (gsize j = 0; j < m; j++)
        y[i * m + j] += fabs (a[i * n + k]) * fabs (b[k * m + j]);

  return y;
}

/* Solves for a lower or an upper triangle, in place. */
static void
substitute (const double *a,
            double       *x,
            gsize         n,
            gsize         m,
            gboolean      upper,
            gboolean      unit)
{
  for (gsize t = 0; t < n; t++)
    {
      gsize i = upper ? n - 1 - t : t;

      for (gsize j = 0; j < m; j++)
        {
          double v = x[i * m + j];

          for (gsize k = upper ? i + 1 : 0; k < (upper ? n : i); k++)
            v -= a[i * n + k] * x[k * m + j];
          x[i * m + j] = unit ? v : v / a[i * n + i];
        }
    }
}

/* LU factors with rows in @order; returns the sign of the permutation. */
static double
factorise (double *a,
           gsize  *order,
           gsize   n)
{
  double sign = 1;

  for (gsize i = 0; i < n; i++)
    order[i] = i;
  for (gsize j = 0; j < n; j++)
    {
      gsize best = j;

      for (gsize i = j + 1; i < n; i++)
        if (fabs (a[i * n + j]) > fabs (a[best * n + j]))
          best = i;
      if (best != j)
        {
          gsize place = order[j];

          for (gsize c = 0; c < n; c++)
            {
              double v = a[j * n + c];

              a[j * n + c] = a[best * n + c];
              a[best * n + c] = v;
            }
          order[j] = order[best];
          order[best] = place;
          sign = -sign;
        }
      for (gsize i = j + 1; i < n && a[j * n + j] != 0; i++)
        {
          a[i * n + j] /= a[j * n + j];
          for (gsize c = j + 1; c < n; c++)
            a[i * n + c] -= a[i * n + j] * a[j * n + c];
        }
    }

  return sign;
}

/* All that is known about a matrix. */
typedef struct
{
  gsize n;
  double *factors;
  gsize *order;
  double sign;
  double *inverse;
  double *reach;    /* |A⁻¹| (4 (n + 4) ε |L| |U| + the errors of A), where L U has permuted rows */
} Elimination;

static void
elimination_init (Elimination  *self,
                  const double *a,
                  const double *errors,
                  gsize         n)
{
  g_autofree double *lower = matrix_new (n), *upper = matrix_new (n), *product = NULL, *error = matrix_new (n);

  self->n = n;
  self->factors = g_memdup2 (a, MAX (n * n, 1) * sizeof (double));
  self->order = g_new0 (gsize, n + 1);
  self->inverse = matrix_new (n);
  self->sign = factorise (self->factors, self->order, n);
  for (gsize i = 0; i < n; i++)
    {
      self->inverse[i * n + self->order[i]] = 1;
      for (gsize j = 0; j < n; j++)
        if (j < i)
          lower[i * n + j] = self->factors[i * n + j];
        else
          upper[i * n + j] = self->factors[i * n + j];
      lower[i * n + i] = 1;
    }
  substitute (self->factors, self->inverse, n, n, FALSE, TRUE);
  substitute (self->factors, self->inverse, n, n, TRUE, FALSE);

  product = multiply (lower, upper, n, n);
  for (gsize i = 0; i < n; i++)
    for (gsize j = 0; j < n; j++)
      error[self->order[i] * n + j] = 4 * (double) (n + 4) * RLX_F32_EPSILON * product[i * n + j] + errors[self->order[i] * n + j];
  self->reach = multiply (self->inverse, error, n, n);
}

static void
elimination_clear (Elimination *self)
{
  g_free (self->factors);
  g_free (self->order);
  g_free (self->inverse);
  g_free (self->reach);
}

/* The offset of an operand's matrix for index @index of the result. */
static gsize
find_matrix (const RlxReferenceValue *value,
             gsize                    index,
             const gint64            *stack,
             gsize                    n_stack)
{
  gsize at = 0, step = 1, n_own = value->n_dims > 2 ? value->n_dims - 2 : 0;

  for (gsize i = 0; i < n_own; i++)
    {
      gsize place = index % (gsize) stack[n_stack - 1 - i], size = (gsize) value->shape[n_own - 1 - i];

      index /= (gsize) stack[n_stack - 1 - i];
      at += (size == 1 ? 0 : place) * step;
      step *= size;
    }

  return at;
}

static void
solve (RlxReferenceCall *call)
{
  const RlxReferenceValue *a = call->inputs[0], *b = call->inputs[1];
  RlxReferenceValue *y = call->output;
  gsize n = (gsize) a->shape[a->n_dims - 1];
  gsize m = b->n_dims == 1 ? 1 : (gsize) b->shape[b->n_dims - 1];
  gsize n_stack = y->n_dims - MIN (b->n_dims, 2);

  for (gsize s = 0; y->n_elements > 0 && s < y->n_elements / (n * m); s++)
    {
      gsize at_a = find_matrix (a, s, y->shape, n_stack) * n * n, at_b = find_matrix (b, s, y->shape, n_stack) * n * m;
      g_autofree double *error = NULL, *error_b = NULL;
      double *x = &y->values[s * n * m];
      Elimination elimination;

      elimination_init (&elimination, &a->values[at_a], &a->bounds[at_a], n);
      for (gsize i = 0; i < n; i++)
        memcpy (&x[i * m], &b->values[at_b + elimination.order[i] * m], m * sizeof (double));
      substitute (elimination.factors, x, n, m, FALSE, TRUE);
      substitute (elimination.factors, x, n, m, TRUE, FALSE);
      error = multiply (elimination.reach, x, n, m);
      error_b = multiply (elimination.inverse, &b->bounds[at_b], n, m);
      for (gsize i = 0; i < n * m; i++)
        y->bounds[s * n * m + i] = error[i] + error_b[i];
      elimination_clear (&elimination);
    }
}

static void
inverse (RlxReferenceCall *call)
{
  const RlxReferenceValue *a = call->inputs[0];
  RlxReferenceValue *y = call->output;
  gsize n = (gsize) a->shape[a->n_dims - 1];

  for (gsize at = 0; at < y->n_elements; at += n * n)
    {
      g_autofree double *error = NULL;
      Elimination elimination;

      elimination_init (&elimination, &a->values[at], &a->bounds[at], n);
      memcpy (&y->values[at], elimination.inverse, n * n * sizeof (double));
      error = multiply (elimination.reach, elimination.inverse, n, n);
      memcpy (&y->bounds[at], error, n * n * sizeof (double));
      elimination_clear (&elimination);
    }
}

static void
determinant (RlxReferenceCall *call)
{
  const RlxReferenceValue *a = call->inputs[0];
  RlxReferenceValue *y = call->output;
  gsize n = (gsize) a->shape[a->n_dims - 1];

  for (gsize s = 0; s < y->n_elements; s++)
    {
      double product, trace = 0;
      Elimination elimination;

      elimination_init (&elimination, &a->values[s * n * n], &a->bounds[s * n * n], n);
      product = elimination.sign;
      for (gsize i = 0; i < n; i++)
        {
          product *= elimination.factors[i * n + i];
          trace += elimination.reach[i * n + i];
        }
      y->values[s] = product;
      y->bounds[s] = product == 0 ? 0 : fabs (product) * trace;
      elimination_clear (&elimination);
    }
}

static void
cholesky (RlxReferenceCall *call)
{
  const RlxReferenceValue *a = call->inputs[0];
  RlxReferenceValue *y = call->output;
  gsize n = (gsize) a->shape[a->n_dims - 1];
  gboolean upper = rlx_reference_get_bool (call, "upper");

  for (gsize at = 0; at < y->n_elements; at += n * n)
    {
      g_autofree double *l = matrix_new (n), *t = matrix_new (n), *inverse = matrix_new (n), *inverse_t = matrix_new (n);
      g_autofree double *size = NULL, *left = NULL, *both = NULL, *error = NULL;

      for (gsize j = 0; j < n; j++)
        for (gsize i = j; i < n; i++)
          {
            double v = a->values[at + (upper ? j * n + i : i * n + j)];

            for (gsize k = 0; k < j; k++)
              v -= l[i * n + k] * l[j * n + k];
            if (i == j)
              l[i * n + j] = v > 0 ? sqrt (v) : NAN;
            else
              l[i * n + j] = v / l[j * n + j];
          }
      for (gsize i = 0; i < n; i++)
        {
          inverse[i * n + i] = 1;
          for (gsize j = 0; j < n; j++)
            t[j * n + i] = l[i * n + j];
        }
      substitute (l, inverse, n, n, FALSE, FALSE);
      for (gsize i = 0; i < n * n; i++)
        inverse_t[i % n * n + i / n] = inverse[i];

      size = multiply (l, t, n, n);
      for (gsize i = 0; i < n * n; i++)
        size[i] = 4 * (double) (n + 4) * RLX_F32_EPSILON * size[i] + fmax (a->bounds[at + i], a->bounds[at + i % n * n + i / n]);
      left = multiply (inverse, size, n, n);
      both = multiply (left, inverse_t, n, n);
      for (gsize i = 0; i < n * n; i++)
        if (i % n > i / n)
          both[i] = 0;
      error = multiply (l, both, n, n);
      for (gsize i = 0; i < n; i++)
        for (gsize j = 0; j < n; j++)
          {
            gsize to = at + (upper ? j * n + i : i * n + j);

            y->values[to] = l[i * n + j];
            y->bounds[to] = j > i || isnan (l[i * n + j]) ? 0 : error[i * n + j];
          }
    }
}

static void
triangular_solve (RlxReferenceCall *call)
{
  const RlxReferenceValue *a = call->inputs[0], *b = call->inputs[1];
  RlxReferenceValue *y = call->output;
  gboolean upper = rlx_reference_get_bool (call, "upper"), transpose = rlx_reference_get_bool (call, "transpose");
  gboolean unit = rlx_reference_get_bool (call, "unit_diagonal"), left = rlx_reference_get_bool (call, "left");
  gboolean turned = transpose != !left;
  gsize n = (gsize) a->shape[a->n_dims - 1];
  gsize m = b->n_dims == 1 ? 1 : (gsize) b->shape[b->n_dims - (left ? 1 : 2)];
  gsize n_stack = y->n_dims - MIN (b->n_dims, 2);

  for (gsize s = 0; y->n_elements > 0 && s < y->n_elements / (n * m); s++)
    {
      gsize at_a = find_matrix (a, s, y->shape, n_stack) * n * n, at_b = find_matrix (b, s, y->shape, n_stack) * n * m;
      g_autofree double *matrix = matrix_new (n), *errors = matrix_new (n), *reverse = matrix_new (n);
      g_autofree double *x = g_new0 (double, n * m), *errors_b = g_new0 (double, n * m);
      g_autofree double *reach = NULL, *error = NULL, *error_b = NULL;

      for (gsize i = 0; i < n; i++)
        {
          reverse[i * n + i] = 1;
          for (gsize j = 0; j < n; j++)
            {
              gsize from = turned ? j * n + i : i * n + j;
              gboolean inside = upper ? from % n > from / n : from % n < from / n;

              if (i == j)
                matrix[i * n + j] = unit ? 1 : a->values[at_a + from];
              else if (inside)
                matrix[i * n + j] = a->values[at_a + from];
              errors[i * n + j] = 2 * (double) (n + 4) * RLX_F32_EPSILON * fabs (matrix[i * n + j]);
              if (inside || (i == j && !unit))
                errors[i * n + j] += a->bounds[at_a + from];
            }
        }
      for (gsize i = 0; i < n; i++)
        for (gsize j = 0; j < m; j++)
          {
            gsize from = at_b + (left ? i * m + j : j * n + i);

            x[i * m + j] = b->values[from];
            errors_b[i * m + j] = b->bounds[from];
          }

      substitute (matrix, x, n, m, upper != turned, FALSE);
      substitute (matrix, reverse, n, n, upper != turned, FALSE);
      reach = multiply (reverse, errors, n, n);
      error = multiply (reach, x, n, m);
      error_b = multiply (reverse, errors_b, n, m);
      for (gsize i = 0; i < n; i++)
        for (gsize j = 0; j < m; j++)
          {
            gsize to = s * n * m + (left ? i * m + j : j * n + i);

            y->values[to] = x[i * m + j];
            y->bounds[to] = error[i * m + j] + error_b[i * m + j];
          }
    }
}

const RlxReferenceRow rlx_reference_solve[] = {
  { "cholesky", cholesky },
  { "triangular_solve", triangular_solve },
  { "solve", solve },
  { "inverse", inverse },
  { "determinant", determinant },
  { NULL, NULL },
};
