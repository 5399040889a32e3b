/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Losses.
 */
#include "config.h"
#include "rlx-reference-private.h"

#include <math.h>
#include <string.h>

/* The contribution of an element, or of a row. */
typedef struct
{
  double value;
  double error;
  double size;     /* sum of the magnitudes added up */
} Part;

static Part
of_element (RlxReferenceCall *call,
            double            x,
            double            ex,
            double            t,
            double            et)
{
  double d = x - t, e = ex + et + 2 * RLX_F32_EPSILON * fabs (d), delta, f, least;
  Part part = { 0 };

  if (strcmp (call->op, "mse_loss") == 0)
    {
      part.value = d * d;
      part.error = 2 * fabs (d) * e + e * e + 4 * RLX_F32_EPSILON * part.value;
    }
  else if (strcmp (call->op, "l1_loss") == 0)
    {
      part.value = fabs (d);
      part.error = e;
    }
  else if (strcmp (call->op, "huber_loss") == 0)
    {
      delta = (float) rlx_reference_get_float (call, "delta");
      f = fmin (fabs (d), delta);
      /* fmin() ignores NaN. */
      part.value = isnan (d) ? d : f * (fabs (d) - f / 2);
      part.error = fmin (fabs (d) + e, delta) * e + 8 * RLX_F32_EPSILON * f * fabs (d);
    }
  else if (strcmp (call->op, "binary_cross_entropy") == 0)
    {
      f = x > 0 ? x + log1p (exp (-x)) : log1p (exp (x));
      part.value = f - x * t;
      part.size = f + fabs (x * t);
      part.error = 1e-5 * part.size + ex + fabs (t) * ex + fabs (x) * et + ex * et;
    }
  else
    {
      f = t == 0 ? 0 : t * (log (t) - x);
      part.value = f;
      part.size = t == 0 ? 0 : fabs (t) * (fabs (log (t)) + fabs (x) + 1);
      part.error = 1e-5 * part.size + (fabs (t) + et) * ex;
      if (et > 0)
        {
          /* Convex in t, with the minimum at e ^ (x - 1). */
          least = CLAMP (exp (x - 1), t - et, t + et);
          for (guint i = 0; i < 3; i++)
            {
              double at = i == 0 ? t - et : i == 1 ? t + et : least;

              part.error += at > 0 ? fabs (at * (log (at) - x) - f) : at == 0 ? fabs (f) : INFINITY;
            }
        }
    }
  if (part.size == 0)
    part.size = fabs (part.value);
  part.error += 0x1p-126;
  return part;
}

/* Adds up all of them, and divides by @count, if that is more than one. */
static void
finish (RlxReferenceCall *call,
        const Part       *parts,
        gsize             n,
        double            count)
{
  RlxReferenceValue *y = call->output;
  const char *reduction = "";
  double sum = 0, error = 0, size = 0;

  g_variant_lookup (call->attributes, "reduction", "&s", &reduction);
  if (strcmp (reduction, "none") == 0)
    {
      for (gsize i = 0; i < n; i++)
        {
          y->values[i] = parts[i].value;
          y->bounds[i] = parts[i].error;
        }
      return;
    }
  for (gsize i = 0; i < n; i++)
    {
      sum += parts[i].value;
      error += parts[i].error;
      size += parts[i].size + parts[i].error;
    }
  if (strcmp (reduction, "mean") != 0)
    count = 1;
  y->values[0] = sum / fmax (count, 1);
  y->bounds[0] = (error + (log2 ((double) n + 1) + 32) * RLX_F32_EPSILON * size) / fmax (count, 1);
  /* Such sums overflow f32. */
  if (size >= 0x1p126)
    y->bounds[0] = INFINITY;
}

static void
elements (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0], *t = call->inputs[1];
  g_autofree Part *parts = g_new0 (Part, x->n_elements + 1);

  for (gsize i = 0; i < x->n_elements; i++)
    parts[i] = of_element (call, x->values[i], x->bounds[i], t->values[i], t->bounds[i]);
  finish (call, parts, x->n_elements, (double) x->n_elements);
}

static void
cross_entropy (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0], *t = call->inputs[1];
  gint64 axis = rlx_reference_get_int (call, "axis");
  gboolean labels = !rlx_reference_is_float (t->data_type);
  double smoothing = rlx_reference_get_float (call, "smoothing"), ignored = (double) rlx_reference_get_int (call, "ignored"), count = 0;
  gsize inner = 1, n, rows;
  g_autofree Part *parts = NULL;

  axis = axis < 0 ? axis + (gint64) x->n_dims : axis;
  for (gsize i = (gsize) axis + 1; i < x->n_dims; i++)
    inner *= (gsize) x->shape[i];
  n = (gsize) x->shape[axis];
  rows = x->n_elements / n;
  parts = g_new0 (Part, rows + 1);
  for (gsize r = 0; r < rows; r++)
    {
      gsize first = r / inner * n * inner + r % inner;
      double most = -INFINITY, sum = 0, worst = 0;
      Part *part = &parts[r];

      if (labels && !(t->values[r] >= 0 && t->values[r] < (double) n && t->values[r] != ignored))
        continue;
      count++;
      for (gsize k = 0; k < n; k++)
        {
          most = x->values[first + k * inner] > most ? x->values[first + k * inner] : most;
          worst = fmax (worst, x->bounds[first + k * inner]);
        }
      for (gsize k = 0; k < n; k++)
        sum += exp (x->values[first + k * inner] - most);
      for (gsize k = 0; k < n; k++)
        {
          double minus = most + log (sum) - x->values[first + k * inner], bound = 2e-6 * fabs (minus) + 3e-6 + 2 * worst;
          double share = labels ? (t->values[r] == (double) k) : t->values[first + k * inner];
          double eshare = labels ? 0 : t->bounds[first + k * inner];

          share = (1 - smoothing) * share + smoothing / (double) n;
          if (share != 0 || eshare > 0)
            {
              part->value += share * minus;
              part->size += fabs (share * minus);
              part->error += (fabs (share) + eshare) * bound + eshare * fabs (minus);
            }
        }
      part->error += (log2 ((double) n) + 32) * RLX_F32_EPSILON * part->size + 3e-6 + 1e-6 * part->size;
    }
  finish (call, parts, rows, labels ? count : (double) rows);
}

/* softmax (x) - target, times the weight of a row. */
static void
cross_entropy_backward (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0], *t = call->inputs[1], *g = call->inputs[2];
  RlxReferenceValue *y = call->output;
  gint64 axis = rlx_reference_get_int (call, "axis");
  double smoothing = rlx_reference_get_float (call, "smoothing"), ignored = (double) rlx_reference_get_int (call, "ignored"), count = 0;
  const char *reduction = "";
  gsize inner = 1, n, rows;

  g_variant_lookup (call->attributes, "reduction", "&s", &reduction);
  axis = axis < 0 ? axis + (gint64) x->n_dims : axis;
  for (gsize i = (gsize) axis + 1; i < x->n_dims; i++)
    inner *= (gsize) x->shape[i];
  n = (gsize) x->shape[axis];
  rows = x->n_elements / n;
  for (gsize r = 0; r < rows; r++)
    count += t->values[r] >= 0 && t->values[r] < (double) n && t->values[r] != ignored;
  if (strcmp (reduction, "mean") != 0)
    count = 1;
  for (gsize r = 0; r < rows; r++)
    {
      gsize first = r / inner * n * inner + r % inner, at = strcmp (reduction, "none") == 0 ? r : 0;
      double most = -INFINITY, sum = 0, worst = 0;

      if (!(t->values[r] >= 0 && t->values[r] < (double) n && t->values[r] != ignored))
        continue;
      for (gsize k = 0; k < n; k++)
        {
          most = x->values[first + k * inner] > most ? x->values[first + k * inner] : most;
          worst = fmax (worst, x->bounds[first + k * inner]);
        }
      for (gsize k = 0; k < n; k++)
        sum += exp (x->values[first + k * inner] - most);
      for (gsize k = 0; k < n; k++)
        {
          double p = exp (x->values[first + k * inner] - most) / sum, share = smoothing / (double) n;
          /* The bound of softmax, and the effect of the operand's errors. */
          double error = 3e-6 * p + 1e-7 + (worst > 0 ? p * expm1 (2 * worst) : 0);

          share += t->values[r] == (double) k ? 1 - smoothing : 0;
          error += 4 * RLX_F32_EPSILON * (p + share);
          y->values[first + k * inner] = (p - share) * g->values[at] / fmax (count, 1);
          y->bounds[first + k * inner] = (error * (fabs (g->values[at]) + g->bounds[at]) + fabs (p - share) * g->bounds[at]) / fmax (count, 1);
          y->bounds[first + k * inner] += 4 * RLX_F32_EPSILON * fabs (y->values[first + k * inner]) + 0x1p-126;
        }
    }
}

const RlxReferenceRow rlx_reference_loss[] = {
  { "softmax_cross_entropy", cross_entropy },
  { "softmax_cross_entropy_backward", cross_entropy_backward },
  { "mse_loss", elements },
  { "l1_loss", elements },
  { "huber_loss", elements },
  { "binary_cross_entropy", elements },
  { "kl_loss", elements },
  { NULL, NULL }
};
