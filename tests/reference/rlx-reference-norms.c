/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Norms of images, of sums, and with factors from elsewhere.
 */
#include "config.h"
#include "rlx-reference-private.h"

#include <math.h>
#include <string.h>

/* What is normalised: the operand, or a sum, and over which axes. */
typedef struct
{
  double *values;
  double *bounds;
  gsize *rows;        /* the row of each element */

  gboolean lp;
  gboolean residual;
  gboolean ada;
  gsize channel;
  gint64 per_group;   /* channels per group */
  gboolean along[RLX_MAX_DIMS];
  gint64 axes[RLX_MAX_DIMS];
  gsize n_axes;       /* of scale and bias, where they have any */
} Operand;

static void
operand_clear (Operand *self)
{
  g_free (self->values);
  g_free (self->bounds);
  g_free (self->rows);
}

static void
find_axes (Operand          *self,
           RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0];
  const char *layout = NULL;

  self->per_group = 1;
  if (g_variant_lookup (call->attributes, "layout", "&s", &layout))
    self->channel = strcmp (layout, "channels-last") == 0 ? x->n_dims - 1 : 1;
  if (self->lp)
    {
      gint64 axis = rlx_reference_get_int (call, "axis");

      self->along[axis < 0 ? axis + (gint64) x->n_dims : axis] = TRUE;
    }
  else if (strcmp (call->op, "layer_norm_2d") == 0)
    {
      self->along[self->channel] = TRUE;
    }
  else if (layout != NULL)
    {
      for (gsize i = 1; i < x->n_dims; i++)
        self->along[i] = i != self->channel;
      if (strcmp (call->op, "group_norm") == 0)
        self->per_group = x->shape[self->channel] / rlx_reference_get_int (call, "groups");
    }
  else
    {
      rlx_reference_get_axes (call, "axes", x->n_dims, self->along);
      rlx_reference_get_ints (call, "axes", self->axes, &self->n_axes);
      for (gsize i = 0; i < self->n_axes; i++)
        if (self->axes[i] < 0)
          self->axes[i] += (gint64) x->n_dims;
    }
}

/* The position in a tensor whose axes are those of the attribute. */
static gsize
find_factor (const Operand           *self,
             const RlxReferenceValue *x,
             const gint64            *index)
{
  gsize at = 0;

  for (gsize i = 0; i < self->n_axes; i++)
    at = at * (gsize) x->shape[self->axes[i]] + (gsize) index[self->axes[i]];
  return at;
}

/* The index of the row that contains an element. */
static gsize
find_row (const Operand           *self,
          const RlxReferenceValue *x,
          const gint64            *index)
{
  gsize row = 0;

  for (gsize i = 0; i < x->n_dims; i++)
    if (!self->along[i])
      row = row * (gsize) x->shape[i] + (gsize) (i == self->channel ? index[i] / self->per_group : index[i]);
  return row;
}

static void
operand_init (Operand          *self,
              RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0];
  const RlxReferenceValue *addend = NULL;
  gint64 index[RLX_MAX_DIMS] = { 0, };
  gsize at = 0;

  *self = (Operand) {
    .values = g_memdup2 (x->values, x->n_elements * sizeof (double)),
    .bounds = g_memdup2 (x->bounds, x->n_elements * sizeof (double)),
    .rows = g_new (gsize, x->n_elements),
    .lp = strcmp (call->op, "lp_norm") == 0,
    .ada = strcmp (call->op, "ada_layer_norm") == 0,
    .residual = g_str_has_prefix (call->op, "residual_"),
  };
  find_axes (self, call);
  if (self->residual)
    addend = rlx_reference_get_input (call, strcmp (call->op, "residual_layer_norm") == 0 ? 4 : 3);

  do
    {
      self->rows[at] = find_row (self, x, index);
      if (self->residual)
        {
          gsize place = rlx_reference_position (call->inputs[1], index, x->n_dims);
          double size = fabs (x->values[at]) + fabs (call->inputs[1]->values[place]);

          self->values[at] += call->inputs[1]->values[place];
          self->bounds[at] += call->inputs[1]->bounds[place];
          if (addend != NULL)
            {
              place = find_factor (self, x, index);
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

/* The scale and the bias of an element, and their errors. */
static void
get_factors (const Operand    *self,
             RlxReferenceCall *call,
             const gint64     *index,
             gsize             n,
             double            factors[2],
             double            bounds[2])
{
  const RlxReferenceValue *x = call->inputs[0];

  for (gsize i = 0; i < n; i++)
    {
      const RlxReferenceValue *factor = rlx_reference_get_input (call, (self->residual ? 2 : 1) + i);
      gsize at;

      if (factor == NULL)
        continue;
      if (self->ada)
        at = rlx_reference_position (factor, index, x->n_dims);
      else if (self->residual)
        at = find_factor (self, x, index);
      else
        at = (gsize) (index[self->channel] * factor->shape[0] / x->shape[self->channel]);
      factors[i] = factor->values[at] + (self->ada && i == 0 ? 1 : 0);
      bounds[i] = factor->bounds[at];
    }
}

typedef struct
{
  gsize n;
  double mean;
  double square;        /* the mean square; for lp_norm the sum */
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
  gboolean lp = operand->lp;
  double epsilon = lp ? 0 : rlx_reference_get_float (call, "epsilon");
  gint64 p = lp ? rlx_reference_get_int (call, "p") : 2;
  Row *rows = g_new0 (Row, n);

  for (gsize i = 0; i < n; i++)
    rows[operand->rows[i]].n++;
  for (gsize i = 0; centred && i < n; i++)
    rows[operand->rows[i]].mean += operand->values[i] / (double) rows[operand->rows[i]].n;
  for (gsize i = 0; i < n; i++)
    {
      Row *row = &rows[operand->rows[i]];

      row->square += (p == 1 ? fabs (operand->values[i]) : (operand->values[i] - row->mean) * (operand->values[i] - row->mean)) /
                     (lp ? 1 : (double) row->n);
    }
  for (gsize i = 0; i < n; i++)
    {
      Row *row = &rows[i];

      if (lp)
        row->size = p == 1 ? row->square : sqrt (row->square);
      else
        row->size = sqrt (row->square + epsilon);
    }
  for (gsize i = 0; i < n; i++)
    if (operand->bounds[i] > 0)
      {
        Row *row = &rows[operand->rows[i]];

        row->mean_error += operand->bounds[i] / (lp ? 1 : (double) row->n);
        row->mean_turn += p == 1 ? operand->bounds[i]
                                 : fabs (operand->values[i] - row->mean) / row->size * operand->bounds[i] / (lp ? 1 : (double) row->n);
      }
  /* Beyond this the first order is meaningless. */
  for (gsize i = 0; i < n; i++)
    if (rows[i].mean_error > rows[i].size / 4)
      rows[i].mean_error = INFINITY;
  return rows;
}

/* With z the row normalised to mean 0 and size 1, and d the errors, z changes by (d -
 * mean d - z · mean z d) / size. */
static void
norm (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0];
  RlxReferenceValue *y = call->output;
  gboolean rms = strcmp (call->op, "residual_rms_norm") == 0;
  gboolean centred = !rms && strcmp (call->op, "lp_norm") != 0;
  gint64 index[RLX_MAX_DIMS] = { 0, };
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

      if (operand.lp && row->size == 0)
        z = 0;
      if (!operand.lp)
        get_factors (&operand, call, index, rms ? 1 : 2, factors, bounds);
      y->values[at] = z * factors[0] + factors[1];
      if (isfinite (y->values[at]))
        y->bounds[at] = 2e-6 * (fabs (z * factors[0]) + fabs (factors[1]));
      if (isfinite (y->values[at]) && centred)
        y->bounds[at] += 2e-6 * fabs (factors[0]);
      if (row->mean_error > 0)
        error = (operand.bounds[at] + (centred ? row->mean_error : 0) + fabs (z) * row->mean_turn) / row->size;
      if (isinf (row->mean_error))
        error = INFINITY;
      /* squares may underflow f32 */
      if (operand.lp && rlx_reference_get_int (call, "p") == 2 && row->size > 0 && row->size < 0x1p-50)
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
  double epsilon = rlx_reference_get_float (call, "epsilon");
  gint64 index[RLX_MAX_DIMS] = { 0, };
  gsize at = 0;

  if (x->n_elements == 0)
    return;
  if (axis < 0)
    axis += (gint64) x->n_dims;

  do
    {
      gsize c = (gsize) index[axis];
      double square = variance->values[c] + epsilon;
      double factor = (scale != NULL ? scale->values[c] : 1) / sqrt (square);
      double apart = x->values[at] - mean->values[c];
      double shift = bias != NULL ? bias->values[c] : 0;
      double wrong = 0;

      y->values[at] = apart * factor + shift;
      if (isfinite (y->values[at]))
        y->bounds[at] = 1e-6 * fabs (apart * factor) + 1e-7 * fabs (shift);
      /* A compiler may replace a difference of equal terms by 0, and its product by 0 for any factor. */
      else if (isnan (y->values[at]) && !(fabs (apart) > 0) && (x == mean || !x->leaf || !mean->leaf))
        y->bounds[at] = INFINITY;
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

/* The error of sums with some tens of roundings, relative to the sum of magnitudes. */
#define SUM_ERROR 3e-6

/* A row in layer_norm_backward. */
typedef struct
{
  double u, h, eu, eh;         /* normalised, and its gradient; their errors */
} Column;

typedef struct
{
  double rate, error;          /* 1 / σ; relative */
  gboolean lost;               /* nothing is known about it */
} Deviation;

static Deviation
find_columns (RlxReferenceCall *call,
              gsize             row,
              gsize             n,
              Column           *columns)
{
  const RlxReferenceValue *x = call->inputs[0], *g = call->inputs[1], *scale = rlx_reference_get_input (call, 2);
  gboolean centred = rlx_reference_get_bool (call, "centred");
  double mean = 0, square = 0, largest = 0, wrong = 0, apart = 0, turn = 0;
  Deviation self = { 0 };

  for (gsize k = 0; k < n; k++)
    {
      mean += centred ? x->values[row + k] / (double) n : 0;
      wrong += x->bounds[row + k] / (double) n;
      largest = fmax (largest, fabs (x->values[row + k]));
      self.lost |= !isfinite (x->values[row + k]) || !isfinite (g->values[row + k]);
    }
  for (gsize k = 0; k < n; k++)
    {
      double d = x->values[row + k] - mean;

      square += d * d / (double) n;
      apart += fabs (d) / (double) n;
      turn += fabs (d) * (x->bounds[row + k] + wrong) / (double) n;
    }
  square += rlx_reference_get_float (call, "epsilon");
  self.rate = 1 / sqrt (square);
  self.error = turn * self.rate * self.rate + 2 * SUM_ERROR;
  /* Beyond this first orders are meaningless, and squares may underflow f32. */
  self.lost |= largest > 1e15 || !(square > 1e-30) || !(self.error < 0.1);
  for (gsize k = 0; k < n; k++)
    {
      Column *column = &columns[k];
      double factor = scale != NULL ? scale->values[k] : 1, d = x->values[row + k] - mean;

      column->u = d * self.rate;
      column->h = g->values[row + k] * factor;
      column->eu = (x->bounds[row + k] + (centred ? wrong + SUM_ERROR * apart : 0)) * self.rate * (1 + self.error) + fabs (column->u) * 2 * self.error;
      column->eh = g->bounds[row + k] * fabs (factor) + RLX_F32_ULP * fabs (column->h);
      if (scale != NULL)
        column->eh += scale->bounds[k] * (fabs (g->values[row + k]) + g->bounds[row + k]);
      self.lost |= !(fabs (column->h) < 1e15);
    }
  return self;
}

static void
layer_norm_backward (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0], *g = call->inputs[1], *addend = rlx_reference_get_input (call, 3);
  gboolean centred = rlx_reference_get_bool (call, "centred");
  RlxReferenceValue *y = call->output;
  gsize n = (gsize) x->shape[x->n_dims - 1];
  g_autofree Column *columns = g_new0 (Column, n + 1);
  g_autofree double *sizes = g_new0 (double, n + 1);

  for (gsize row = 0; n > 0 && row < x->n_elements; row += n)
    {
      Deviation deviation = find_columns (call, row, n, columns);
      double level = 0, tilt = 0, elevel = 0, etilt = 0;

      for (gsize k = 0; k < n; k++)
        {
          const Column *c = &columns[k];

          level += centred ? c->h / (double) n : 0;
          elevel += centred ? (c->eh + SUM_ERROR * fabs (c->h)) / (double) n : 0;
          tilt += c->h * c->u / (double) n;
          etilt += (fabs (c->h) * c->eu + (fabs (c->u) + c->eu) * c->eh + SUM_ERROR * fabs (c->h) * (fabs (c->u) + 1)) / (double) n;
        }
      for (gsize k = 0; k < n; k++)
        {
          const Column *c = &columns[k];
          double seed = g->values[row + k], eseed = g->bounds[row + k];
          double inner = c->h - level - c->u * tilt;
          double error = c->eh + elevel + fabs (c->u) * etilt + (fabs (tilt) + etilt) * c->eu;

          if (call->result == 0)
            {
              error += 2 * RLX_F32_ULP * (fabs (c->h) + fabs (level) + fabs (c->u * tilt));
              y->values[row + k] = inner * deviation.rate;
              y->bounds[row + k] = (error * (1 + 2 * deviation.error) + fabs (inner) * 2 * deviation.error) * deviation.rate + 0x1p-120;
              if (addend != NULL)
                {
                  y->values[row + k] += addend->values[row + k];
                  y->bounds[row + k] += addend->bounds[row + k] + RLX_F32_ULP * (fabs (addend->values[row + k]) + fabs (y->values[row + k]));
                }
              if (deviation.lost || (addend != NULL && !isfinite (addend->values[row + k])))
                y->bounds[row + k] = INFINITY;
              continue;
            }
          y->values[k] += call->result == 1 ? seed * c->u : seed;
          y->bounds[k] += call->result == 1 ? (fabs (seed) + eseed) * c->eu + eseed * fabs (c->u) : eseed;
          sizes[k] += call->result == 1 ? (fabs (seed) + eseed) * (fabs (c->u) + 1) : fabs (seed) + eseed;
          if (deviation.lost)
            sizes[k] = INFINITY;
        }
    }
  for (gsize k = 0; call->result > 0 && k < n; k++)
    if (sizes[k] > 0)
      y->bounds[k] += SUM_ERROR * sizes[k] + 0x1p-120;
}

const RlxReferenceRow rlx_reference_norms[] = {
  { "batch_norm", batch_norm },
  { "instance_norm", norm },
  { "group_norm", norm },
  { "layer_norm_2d", norm },
  { "ada_layer_norm", norm },
  { "layer_norm_backward", layer_norm_backward },
  { "lp_norm", norm },
  { "residual_layer_norm", norm },
  { "residual_rms_norm", norm },
  { NULL, NULL },
};
