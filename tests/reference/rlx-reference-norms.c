/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Norms of images, of sums, and with factors from elsewhere.
 */
#include "config.h"
#include "rlx-reference-private.h"

#include <math.h>
#include <string.h>

/* What is normalised: the operand, or a sum. */
typedef struct
{
  double *values;
  double *bounds;
  gsize *rows;        /* which row each element belongs to */
} Operand;

static void
operand_clear (Operand *self)
{
  g_free (self->values);
  g_free (self->bounds);
  g_free (self->rows);
}

static gsize
get_channel_axis (RlxReferenceCall *call)
{
  const char *layout = NULL;

  g_variant_lookup (call->attributes, "layout", "&s", &layout);
  return g_strcmp0 (layout, "channels-last") == 0 ? call->inputs[0]->n_dims - 1 : 1;
}

/* The position in a tensor whose axes are those of the attribute. */
static gsize
find_factor (RlxReferenceCall *call,
             const gint64     *index)
{
  const RlxReferenceValue *x = call->inputs[0];
  gint64 list[RLX_MAX_RANK];
  gsize n, at = 0;

  rlx_reference_get_ints (call, "axes", list, &n);
  for (gsize i = 0; i < n; i++)
    {
      gint64 axis = list[i] < 0 ? list[i] + (gint64) x->n_dims : list[i];

      at = at * (gsize) x->shape[axis] + (gsize) index[axis];
    }
  return at;
}

/* The number of the row that an element is in. */
static gsize
find_row (RlxReferenceCall *call,
          const gint64     *index)
{
  const RlxReferenceValue *x = call->inputs[0];
  gsize channel = x->n_dims > 1 ? get_channel_axis (call) : 0, row = 0;
  gboolean along[RLX_MAX_RANK] = { FALSE, };
  gint64 place[RLX_MAX_RANK];

  memcpy (place, index, sizeof place);
  if (strcmp (call->op, "lp_norm") == 0)
    {
      gint64 axis = rlx_reference_get_int (call, "axis");

      along[axis < 0 ? axis + (gint64) x->n_dims : axis] = TRUE;
    }
  else if (strcmp (call->op, "layer_norm_2d") == 0)
    {
      along[channel] = TRUE;
    }
  else if (strcmp (call->op, "instance_norm") == 0 || strcmp (call->op, "group_norm") == 0)
    {
      for (gsize i = 1; i < x->n_dims; i++)
        along[i] = i != channel;
      if (strcmp (call->op, "group_norm") == 0)
        place[channel] /= x->shape[channel] / rlx_reference_get_int (call, "groups");
    }
  else
    {
      rlx_reference_get_axes (call, "axes", x->n_dims, along);
    }

  for (gsize i = 0; i < x->n_dims; i++)
    if (!along[i])
      row = row * (gsize) x->shape[i] + (gsize) place[i];
  return row;
}

static gboolean
is_residual (RlxReferenceCall *call)
{
  return strcmp (call->op, "residual_layer_norm") == 0 || strcmp (call->op, "residual_rms_norm") == 0;
}

static void
operand_init (Operand          *self,
              RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0];
  const RlxReferenceValue *addend = NULL;
  gint64 index[RLX_MAX_RANK] = { 0, };
  gsize at = 0;

  self->values = g_memdup2 (x->values, x->n_elements * sizeof (double));
  self->bounds = g_memdup2 (x->bounds, x->n_elements * sizeof (double));
  self->rows = g_new (gsize, x->n_elements);
  if (is_residual (call))
    addend = rlx_reference_get_input (call, strcmp (call->op, "residual_layer_norm") == 0 ? 4 : 3);

  do
    {
      self->rows[at] = find_row (call, index);
      if (is_residual (call))
        {
          gsize place = rlx_reference_position (call->inputs[1], index, x->n_dims);
          double size = fabs (x->values[at]) + fabs (call->inputs[1]->values[place]);

          self->values[at] += call->inputs[1]->values[place];
          self->bounds[at] += call->inputs[1]->bounds[place];
          if (addend != NULL)
            {
              place = find_factor (call, index);
              size += fabs (addend->values[place]);
              self->values[at] += addend->values[place];
              self->bounds[at] += addend->bounds[place];
            }
          if (isfinite (size))
            self->bounds[at] += RLX_F32_ULP * size;
        }
      at++;
    }
  while (rlx_reference_next (index, x->shape, x->n_dims));
}

/* The factor and the shift of an element, and how wrong they may be. */
static void
get_factors (RlxReferenceCall *call,
             const gint64     *index,
             double            factors[2],
             double            bounds[2])
{
  const RlxReferenceValue *x = call->inputs[0];
  gboolean ada = strcmp (call->op, "ada_layer_norm") == 0;
  gsize first = is_residual (call) ? 2 : 1;
  gsize n = strcmp (call->op, "residual_rms_norm") == 0 ? 1 : 2;

  factors[0] = 1;
  factors[1] = bounds[0] = bounds[1] = 0;
  for (gsize i = 0; i < n; i++)
    {
      const RlxReferenceValue *factor = rlx_reference_get_input (call, first + i);
      gsize at;

      if (factor == NULL)
        continue;
      if (ada)
        {
          at = rlx_reference_position (factor, index, x->n_dims);
        }
      else if (is_residual (call))
        {
          at = find_factor (call, index);
        }
      else
        {
          gsize axis = get_channel_axis (call);

          at = (gsize) (index[axis] * factor->shape[0] / x->shape[axis]);
        }
      factors[i] = factor->values[at] + (ada && i == 0 ? 1 : 0);
      bounds[i] = factor->bounds[at];
    }
}

typedef struct
{
  gsize n;
  double mean;
  double square;        /* the mean one; of lp_norm the sum */
  double size;
  double mean_error;
  double mean_turn;
} Row;

static Row *
find_moments (RlxReferenceCall *call,
              const Operand    *operand,
              gboolean          centred)
{
  gsize n = call->inputs[0]->n_elements;
  gboolean lp = strcmp (call->op, "lp_norm") == 0;
  gint64 p = lp ? rlx_reference_get_int (call, "p") : 2;
  Row *rows = g_new0 (Row, n);

  for (gsize i = 0; i < n; i++)
    rows[operand->rows[i]].n++;
  for (gsize i = 0; centred && i < n; i++)
    rows[operand->rows[i]].mean += operand->values[i] / (double) rows[operand->rows[i]].n;
  for (gsize i = 0; i < n; i++)
    {
      Row *row = &rows[operand->rows[i]];

      row->square += pow (fabs (operand->values[i] - row->mean), (double) p) / (lp ? 1 : (double) row->n);
    }
  for (gsize i = 0; i < n; i++)
    {
      Row *row = &rows[i];

      if (lp)
        row->size = p == 1 ? row->square : sqrt (row->square);
      else
        row->size = sqrt (row->square + rlx_reference_get_float (call, "epsilon"));
    }
  for (gsize i = 0; i < n; i++)
    if (operand->bounds[i] > 0)
      {
        Row *row = &rows[operand->rows[i]];

        row->mean_error += operand->bounds[i] / (lp ? 1 : (double) row->n);
        row->mean_turn += p == 1 ? operand->bounds[i]
                                 : fabs (operand->values[i] - row->mean) / row->size * operand->bounds[i] / (lp ? 1 : (double) row->n);
      }
  /* Beyond this the first order says nothing. */
  for (gsize i = 0; i < n; i++)
    if (rows[i].mean_error > rows[i].size / 4)
      rows[i].mean_error = INFINITY;
  return rows;
}

/* With z the row of mean 0 and size 1, and d the errors, z changes by
 * (d - mean d - z · mean z d) / size. */
static void
norm (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0];
  RlxReferenceValue *y = call->output;
  gboolean lp = strcmp (call->op, "lp_norm") == 0;
  gboolean centred = !lp && strcmp (call->op, "residual_rms_norm") != 0;
  gint64 index[RLX_MAX_RANK] = { 0, };
  g_autofree Row *rows = NULL;
  Operand operand;
  gsize at = 0;

  if (x->n_elements == 0)
    return;

  operand_init (&operand, call);
  if (call->result == 1)
    {
      memcpy (y->values, operand.values, x->n_elements * sizeof (double));
      memcpy (y->bounds, operand.bounds, x->n_elements * sizeof (double));
      operand_clear (&operand);
      return;
    }

  rows = find_moments (call, &operand, centred);
  do
    {
      const Row *row = &rows[operand.rows[at]];
      double z = (operand.values[at] - row->mean) / row->size;
      double factors[2] = { 1, 0 }, bounds[2] = { 0, 0 }, error = 0;

      if (lp && row->size == 0)
        z = 0;
      if (!lp)
        get_factors (call, index, factors, bounds);
      y->values[at] = z * factors[0] + factors[1];
      if (isfinite (y->values[at]))
        y->bounds[at] = 2e-6 * (fabs (z * factors[0]) + fabs (factors[1]));
      if (isfinite (y->values[at]) && centred)
        y->bounds[at] += 2e-6 * fabs (factors[0]);
      if (row->mean_error > 0)
        error = (operand.bounds[at] + (centred ? row->mean_error : 0) + fabs (z) * row->mean_turn) / row->size;
      if (isinf (row->mean_error))
        error = INFINITY;
      if (error > 0)
        y->bounds[at] += 2 * error * fabs (factors[0]);
      if (bounds[0] > 0)
        y->bounds[at] += bounds[0] * (fabs (z) + error);
      y->bounds[at] += bounds[1];
      at++;
    }
  while (rlx_reference_next (index, x->shape, x->n_dims));
  operand_clear (&operand);
}

static void
batch_norm (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0], *mean = call->inputs[1], *variance = call->inputs[2];
  const RlxReferenceValue *scale = rlx_reference_get_input (call, 3), *bias = rlx_reference_get_input (call, 4);
  RlxReferenceValue *y = call->output;
  gint64 axis = rlx_reference_get_int (call, "axis");
  gint64 index[RLX_MAX_RANK] = { 0, };
  gsize at = 0;

  if (x->n_elements == 0)
    return;
  if (axis < 0)
    axis += (gint64) x->n_dims;

  do
    {
      gsize c = (gsize) index[axis];
      double square = variance->values[c] + rlx_reference_get_float (call, "epsilon");
      double factor = (scale != NULL ? scale->values[c] : 1) / sqrt (square);
      double apart = x->values[at] - mean->values[c];
      double shift = bias != NULL ? bias->values[c] : 0;
      double wrong = 0;

      y->values[at] = apart * factor + shift;
      if (isfinite (y->values[at]))
        y->bounds[at] = 1e-6 * fabs (apart * factor) + 1e-7 * fabs (shift);
      if (variance->bounds[c] > 0)
        wrong = variance->bounds[c] < square / 4 ? variance->bounds[c] / square * fabs (factor) : INFINITY;
      if (scale != NULL)
        wrong += scale->bounds[c] / sqrt (square);
      if (x->bounds[at] + mean->bounds[c] > 0)
        y->bounds[at] += (x->bounds[at] + mean->bounds[c]) * (fabs (factor) + wrong);
      if (wrong > 0)
        y->bounds[at] += fabs (apart) * wrong;
      if (bias != NULL)
        y->bounds[at] += bias->bounds[c];
      at++;
    }
  while (rlx_reference_next (index, x->shape, x->n_dims));
}

const RlxReferenceRow rlx_reference_norms[] = {
  { "batch_norm", batch_norm },
  { "instance_norm", norm },
  { "group_norm", norm },
  { "layer_norm_2d", norm },
  { "ada_layer_norm", norm },
  { "lp_norm", norm },
  { "residual_layer_norm", norm },
  { "residual_rms_norm", norm },
  { NULL, NULL },
};
