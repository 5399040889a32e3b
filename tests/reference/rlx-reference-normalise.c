/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Operators that scale rows: the elements along some axes.
 */
#include "config.h"
#include "rlx-reference-private.h"

#include <math.h>
#include <string.h>

typedef void (*RowFunc) (RlxReferenceCall *call,
                         const gsize      *positions,  /* of the row's elements */
                         const gsize      *factors,    /* of scale and bias for each */
                         gsize             n);

/* The position of column @column in scale and bias, which have the axes in the given order. */
static gsize
find_factor (RlxReferenceCall *call,
             const gint64     *index)
{
  const RlxReferenceValue *x = call->inputs[0];
  gint64 list[RLX_MAX_DIMS];
  gsize n, at = 0;

  if (!rlx_reference_get_ints (call, "axes", list, &n))
    return 0;
  for (gsize i = 0; i < n; i++)
    {
      gint64 axis = list[i] < 0 ? list[i] + (gint64) x->n_dims : list[i];

      at = at * (gsize) x->shape[axis] + (gsize) index[axis];
    }

  return at;
}

static void
for_each_row (RlxReferenceCall *call,
              const gboolean   *axes,
              RowFunc           func)
{
  const RlxReferenceValue *x = call->inputs[0];
  gint64 outer_shape[RLX_MAX_DIMS], inner_shape[RLX_MAX_DIMS], outer[RLX_MAX_DIMS] = { 0, };
  g_autofree gsize *positions = NULL;
  g_autofree gsize *factors = NULL;
  gsize n = 1;

  if (x->n_elements == 0)
    return;
  for (gsize i = 0; i < x->n_dims; i++)
    {
      outer_shape[i] = axes[i] ? 1 : x->shape[i];
      inner_shape[i] = axes[i] ? x->shape[i] : 1;
      n *= (gsize) inner_shape[i];
    }
  positions = g_new (gsize, n);
  factors = g_new (gsize, n);

  do
    {
      gint64 inner[RLX_MAX_DIMS] = { 0, };
      gsize i = 0;

      do
        {
          gint64 index[RLX_MAX_DIMS];

          for (gsize d = 0; d < x->n_dims; d++)
            index[d] = outer[d] + inner[d];
          positions[i] = rlx_reference_position (x, index, x->n_dims);
          factors[i] = find_factor (call, inner);
          i++;
        }
      while (rlx_reference_next (inner, inner_shape, x->n_dims));
      func (call, positions, factors, n);
    }
  while (rlx_reference_next (outer, outer_shape, x->n_dims));
}

/* ---- softmax --------------------------------------------------------------------- */

static void
softmax_row (RlxReferenceCall               *call,
             const gsize                    *positions,
             const gsize *factors G_GNUC_UNUSED,
             gsize                           n)
{
  const RlxReferenceValue *x = call->inputs[0];
  RlxReferenceValue *y = call->output;
  gboolean logarithm = strcmp (call->op, "log_softmax") == 0;
  double largest = -INFINITY, sum = 0, mean_error = 0;

  for (gsize i = 0; i < n; i++)
    {
      double value = x->values[positions[i]];

      largest = isnan (value) || isnan (largest) ? (double) NAN : fmax (largest, value);
    }
  for (gsize i = 0; i < n; i++)
    sum += exp (x->values[positions[i]] - largest);
  for (gsize i = 0; i < n; i++)
    if (x->bounds[positions[i]] > 0)
      mean_error += exp (x->values[positions[i]] - largest) / sum * x->bounds[positions[i]];

  for (gsize i = 0; i < n; i++)
    {
      gsize at = positions[i];
      double value = x->values[at] - largest;
      double error = x->bounds[at] + mean_error;

      if (logarithm)
        {
          y->values[at] = value - log (sum);
          y->bounds[at] = isfinite (y->values[at]) ? 2e-6 * fabs (y->values[at]) + 2e-6 : 0;
          y->bounds[at] += 2 * error;
        }
      else
        {
          y->values[at] = exp (value) / sum;
          y->bounds[at] = isfinite (y->values[at]) ? 2e-6 * y->values[at] + 1e-7 : 0;
          if (error > 0)
            y->bounds[at] += y->values[at] * expm1 (2 * error);
          /* It is always between 0 and 1. */
          if (y->bounds[at] > 1 && isfinite (error))
            y->bounds[at] = 1;
        }
    }
}

static void
softmax (RlxReferenceCall *call)
{
  gboolean axes[RLX_MAX_DIMS] = { FALSE, };
  gint64 axis = rlx_reference_get_int (call, "axis");

  axes[axis < 0 ? axis + (gint64) call->inputs[0]->n_dims : axis] = TRUE;
  for_each_row (call, axes, softmax_row);
}

/* ---- norms -------------------------------------------------------------------------- */

/* The errors of scale and bias, and of the row: with z the row normalised to mean 0 and
 * size 1, and d the errors, z changes by (d - mean d - z · mean z d) / size. */
static void
norm_row (RlxReferenceCall *call,
          const gsize      *positions,
          const gsize      *factors,
          gsize             n)
{
  const RlxReferenceValue *x = call->inputs[0];
  const RlxReferenceValue *scale = rlx_reference_get_input (call, 1);
  const RlxReferenceValue *bias = rlx_reference_get_input (call, 2);
  RlxReferenceValue *y = call->output;
  gboolean rms = strcmp (call->op, "rms_norm") == 0;
  double epsilon = rlx_reference_get_float (call, "epsilon");
  double mean = 0, square = 0, size, mean_error = 0, mean_turn = 0;

  for (gsize i = 0; !rms && i < n; i++)
    mean += x->values[positions[i]] / (double) n;
  for (gsize i = 0; i < n; i++)
    square += (x->values[positions[i]] - mean) * (x->values[positions[i]] - mean) / (double) n;
  size = sqrt (square + epsilon);
  for (gsize i = 0; i < n; i++)
    if (x->bounds[positions[i]] > 0)
      {
        mean_error += x->bounds[positions[i]] / (double) n;
        mean_turn += fabs (x->values[positions[i]] - mean) / size * x->bounds[positions[i]] / (double) n;
      }
  /* Beyond this the first order is meaningless. */
  if (mean_error > size / 4)
    mean_error = INFINITY;

  for (gsize i = 0; i < n; i++)
    {
      gsize at = positions[i];
      double z = (x->values[at] - mean) / size;
      double weight = scale != NULL ? scale->values[factors[i]] : 1;
      double shift = bias != NULL ? bias->values[factors[i]] : 0;
      double error = 0;

      y->values[at] = z * weight + shift;
      if (isfinite (y->values[at]))
        y->bounds[at] = rms ? 2e-6 * fabs (y->values[at])
                            : 2e-6 * (fabs (z * weight) + fabs (shift) + 1);
      if (mean_error > 0)
        error = (x->bounds[at] + (rms ? 0 : mean_error) + fabs (z) * mean_turn) / size;
      if (isinf (mean_error))
        error = INFINITY;
      if (error > 0)
        y->bounds[at] += 2 * error * fabs (weight);
      if (scale != NULL && scale->bounds[factors[i]] > 0)
        y->bounds[at] += scale->bounds[factors[i]] * (fabs (z) + error);
      if (bias != NULL)
        y->bounds[at] += bias->bounds[factors[i]];
    }
}

static void
norm (RlxReferenceCall *call)
{
  gboolean axes[RLX_MAX_DIMS];

  rlx_reference_get_axes (call, "axes", call->inputs[0]->n_dims, axes);
  for_each_row (call, axes, norm_row);
}

const RlxReferenceRow rlx_reference_normalise[] = {
  { "softmax", softmax },
  { "log_softmax", softmax },
  { "layer_norm", norm },
  { "rms_norm", norm },
  { NULL, NULL },
};
