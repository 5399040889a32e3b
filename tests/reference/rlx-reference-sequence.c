/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Sequences with a state for each head: one element of the state and one step at a time.
 */
#include "config.h"
#include "rlx-reference-private.h"

#include <math.h>
#include <string.h>

/* A number, the effect of the operands' errors, and its magnitude if nothing cancelled: each rounding costs a
 * fraction of that, in whatever order sums are computed. */
typedef struct
{
  double value;
  double error;
  double size;
} Number;

/* A rounding costs at least 2⁻²⁴ of this, which is what subnormals may lose. */
#define LEAST 0x1p-102

static Number
make (double value,
      double error)
{
  return (Number) { value, error, fabs (value) + error + LEAST };
}

static Number
add (Number a,
     Number b)
{
  return (Number) { a.value + b.value, a.error + b.error, a.size + b.size + LEAST };
}

static Number
negate (Number a)
{
  return (Number) { -a.value, a.error, a.size };
}

static Number
multiply (Number a,
          Number b)
{
  double error = a.error * b.error;

  /* Not 0 times infinity. */
  if (a.error > 0)
    error += a.error * fabs (b.value);
  if (b.error > 0)
    error += b.error * fabs (a.value);
  return (Number) { a.value * b.value, error, a.size * b.size + LEAST };
}

static Number
exponential (Number a)
{
  return make (exp (a.value), exp (a.value) * expm1 (a.error));
}

static Number
get (const RlxReferenceValue *value,
     gsize                    at)
{
  return make (value->values[at], value->bounds[at]);
}

typedef struct
{
  const RlxReferenceValue *q, *k, *v, *delta, *rate, *decay, *beta, *bonus, *in_key, *out_key, *skip, *state;
  gboolean delta_rule, columns_first;
  double scale;
  gsize batch, steps, heads, q_heads, k_heads, v_heads, rows, columns;
} Sequence;

static void
sequence_init (Sequence         *self,
               RlxReferenceCall *call)
{
  gboolean scan = strcmp (call->op, "selective_scan") == 0, mamba = strcmp (call->op, "mamba2") == 0;
  const RlxReferenceValue *inputs[7];

  *self = (Sequence) { .scale = 1, .columns_first = scan || mamba };
  for (gsize i = 0; i < G_N_ELEMENTS (inputs); i++)
    inputs[i] = rlx_reference_get_input (call, i);
  if (scan || mamba)
    {
      self->v = inputs[0];
      self->delta = inputs[1];
      self->rate = inputs[2];
      self->k = inputs[3];
      self->q = inputs[4];
      self->skip = inputs[5];
      self->state = inputs[6];
    }
  else
    {
      self->q = inputs[0];
      self->k = inputs[1];
      self->v = inputs[2];
      self->decay = inputs[3];
      self->state = inputs[5];
      if (strcmp (call->op, "gated_delta_net") == 0)
        {
          self->beta = inputs[4];
          self->delta_rule = rlx_reference_get_bool (call, "delta_rule");
          self->scale = rlx_reference_get_float (call, "scale");
        }
      else if (strcmp (call->op, "rwkv6") == 0)
        {
          self->bonus = inputs[4];
        }
      else
        {
          self->in_key = inputs[4];
          self->out_key = inputs[5];
          self->state = inputs[6];
        }
    }

  self->batch = (gsize) self->v->shape[0];
  self->steps = (gsize) self->v->shape[1];
  self->columns = (gsize) self->v->shape[self->v->n_dims - 1];
  self->rows = (gsize) self->k->shape[self->k->n_dims - 1];
  self->q_heads = scan ? 1 : (gsize) self->q->shape[2];
  self->k_heads = scan ? 1 : (gsize) self->k->shape[2];
  self->v_heads = scan ? 1 : (gsize) self->v->shape[2];
  self->heads = mamba ? self->v_heads : MAX (self->q_heads, self->v_heads);
  if (self->scale == 0 && self->rows > 0)
    self->scale = (float) (1 / sqrt ((double) self->rows));
}

static gsize
state_at (const Sequence *self,
          gsize           head,
          gsize           row,
          gsize           column)
{
  if (self->columns_first)
    return (head * self->columns + column) * self->rows + row;
  return (head * self->rows + row) * self->columns + column;
}

/* The logarithm of a row's factor. */
static Number
get_decay (const Sequence *self,
           gsize           gate,
           gsize           v_head,
           gsize           row,
           gsize           column)
{
  if (self->decay != NULL)
    return get (self->decay, self->decay->n_dims == 3 ? gate : gate * self->rows + row);
  if (self->rate != NULL && self->rate->n_dims == 2)
    return multiply (get (self->delta, gate * self->columns + column), get (self->rate, column * self->rows + row));
  if (self->rate != NULL)
    return multiply (get (self->delta, gate), get (self->rate, v_head));
  return make (0, 0);
}

/* Sets a result: @wear is the number of roundings that led to it. */
static void
set (RlxReferenceValue *y,
     gsize              at,
     Number             x,
     double             wear)
{
  y->values[at] = x.value;
  y->bounds[at] = x.error + 0x1p-23 * wear * x.size;
  if (!isfinite (x.value) || !isfinite (y->bounds[at]) || x.size >= 0x1p126)
    y->bounds[at] = INFINITY;
}

static void
run_column (const Sequence   *self,
            RlxReferenceCall *call,
            gsize             batch,
            gsize             head,
            gsize             column)
{
  gsize rows = self->rows, columns = self->columns;
  gsize q_head = head * self->q_heads / self->heads, v_head = head * self->v_heads / self->heads;
  gsize k_head = head * self->k_heads / self->heads, state_head = batch * self->v_heads + v_head;
  g_autofree Number *s = g_new0 (Number, rows + 1), *old = g_new0 (Number, rows + 1);
  double wear = 1;

  for (gsize j = 0; j < rows; j++)
    s[j] = self->state != NULL ? get (self->state, state_at (self, state_head, j, column)) : make (0, 0);

  for (gsize t = 0; t < self->steps; t++)
    {
      gsize token = batch * self->steps + t, gate = token * self->v_heads + v_head;
      gsize q_at = (token * self->q_heads + q_head) * rows, k_at = (token * self->k_heads + k_head) * rows;
      Number given = get (self->v, gate * columns + column), v = given, had = make (0, 0), y = make (0, 0);
      double most = 0;

      if (self->delta != NULL)
        v = multiply (v, get (self->delta, self->rate->n_dims == 2 ? gate * columns + column : gate));
      for (gsize j = 0; j < rows; j++)
        {
          Number decay = get_decay (self, gate, v_head, j, column);

          most = fmax (most, fabs (decay.value) + decay.error);
          old[j] = s[j];
          if (self->in_key != NULL)
            had = add (had, multiply (get (self->in_key, k_at + j), s[j]));
          s[j] = multiply (s[j], exponential (decay));
          if (self->delta_rule)
            had = add (had, multiply (get (self->k, k_at + j), s[j]));
        }
      if (self->delta_rule)
        {
          v = add (v, negate (had));
          if (self->beta != NULL)
            v = multiply (v, get (self->beta, gate));
        }
      for (gsize j = 0; j < rows; j++)
        {
          Number k = get (self->k, k_at + j), q = get (self->q, q_at + j);

          if (self->bonus != NULL)
            y = add (y, multiply (q, add (old[j], multiply (multiply (get (self->bonus, v_head * rows + j), k), v))));
          if (self->out_key != NULL)
            s[j] = add (s[j], multiply (get (self->out_key, k_at + j), had));
          s[j] = add (s[j], multiply (k, v));
          if (self->bonus == NULL)
            y = add (y, multiply (q, s[j]));
        }
      y = multiply (y, make (self->scale, 0));
      if (self->skip != NULL)
        y = add (y, multiply (given, get (self->skip, self->skip->n_elements == columns && self->columns_first &&
                                                      self->v->n_dims == 3 ? column : v_head)));
      wear += (double) rows + 16 + most;
      if (call->result == 0)
        set (call->output, (token * self->heads + head) * columns + column, y, wear);
    }

  for (gsize j = 0; call->result == 1 && j < rows; j++)
    set (call->output, state_at (self, state_head, j, column), s[j], self->steps > 0 ? wear : 0);
}

static void
sequence (RlxReferenceCall *call)
{
  Sequence self;

  sequence_init (&self, call);
  for (gsize batch = 0; batch < self.batch; batch++)
    for (gsize head = 0; head < self.heads; head++)
      for (gsize column = 0; column < self.columns; column++)
        run_column (&self, call, batch, head, column);
}

/* All states: those of a column in sequence. */
static void
states (RlxReferenceCall *call)
{
  const RlxReferenceValue *k = call->inputs[0], *v = call->inputs[1], *decay = rlx_reference_get_input (call, 2);
  const RlxReferenceValue *in_key = rlx_reference_get_input (call, 3), *out_key = rlx_reference_get_input (call, 4);
  const RlxReferenceValue *initial = rlx_reference_get_input (call, 5);
  gboolean reverse = rlx_reference_get_bool (call, "reverse");
  gsize steps = (gsize) k->shape[0], heads = (gsize) k->shape[1], rows = (gsize) k->shape[2], columns = (gsize) v->shape[2];
  g_autofree Number *s = g_new0 (Number, rows + 1);

  for (gsize i = 0; i < heads * columns; i++)
    {
      gsize head = i / columns, column = i % columns;
      double wear = 0;

      for (gsize n = 0; n <= steps; n++)
        {
          gsize t = reverse ? steps - n : n, step = reverse ? t : t - 1;
          Number had = make (0, 0);
          double most = 0;

          for (gsize j = 0; n == 0 && j < rows; j++)
            s[j] = initial != NULL ? get (initial, (head * rows + j) * columns + column) : make (0, 0);
          for (gsize j = 0; n > 0 && in_key != NULL && j < rows; j++)
            had = add (had, multiply (get (in_key, (step * heads + head) * rows + j), s[j]));
          for (gsize j = 0; n > 0 && j < rows; j++)
            {
              gsize at = (step * heads + head) * rows + j;

              if (decay != NULL)
                {
                  most = fmax (most, fabs (decay->values[at]) + decay->bounds[at]);
                  s[j] = multiply (s[j], exponential (get (decay, at)));
                }
              if (out_key != NULL)
                s[j] = add (s[j], multiply (get (out_key, at), had));
              s[j] = add (s[j], multiply (get (k, at), get (v, (step * heads + head) * columns + column)));
            }
          wear += n > 0 ? (double) rows + 16 + most : 0;
          for (gsize j = 0; j < rows; j++)
            set (call->output, ((t * heads + head) * rows + j) * columns + column, s[j], wear);
        }
    }
}

/* ---- convolutions ------------------------------------------------------------------------ */

static void
causal_conv1d (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0], *weight = call->inputs[1];
  const RlxReferenceValue *bias = rlx_reference_get_input (call, 2), *state = rlx_reference_get_input (call, 3);
  RlxReferenceValue *y = call->output;
  const char *layout = "";
  gboolean last;
  gsize batch = (gsize) x->shape[0], channels, steps, width = (gsize) weight->shape[1];

  g_variant_lookup (call->attributes, "layout", "&s", &layout);
  last = strcmp (layout, "channels-last") == 0;
  channels = (gsize) x->shape[last ? 2 : 1];
  steps = (gsize) x->shape[last ? 1 : 2];

#define AT(t, n) (last ? (b * (n) + (t)) * channels + c : (b * channels + c) * (n) + (t))
  for (gsize b = 0; b < batch; b++)
    for (gsize c = 0; c < channels; c++)
      {
        g_autofree Number *all = g_new0 (Number, width + steps);

        for (gsize t = 0; t + 1 < width; t++)
          all[t] = state != NULL ? get (state, AT (t, width - 1)) : make (0, 0);
        for (gsize t = 0; t < steps; t++)
          all[width - 1 + t] = get (x, AT (t, steps));
        for (gsize t = 0; call->result == 0 && t < steps; t++)
          {
            Number sum = bias != NULL ? get (bias, c) : make (0, 0);

            for (gsize j = 0; j < width; j++)
              sum = add (sum, multiply (get (weight, c * width + j), all[t + j]));
            set (y, AT (t, steps), sum, (double) width + 1);
          }
        for (gsize t = 0; call->result == 1 && t + 1 < width; t++)
          {
            y->values[AT (t, width - 1)] = all[steps + t].value;
            y->bounds[AT (t, width - 1)] = all[steps + t].error;
          }
      }
#undef AT
}

const RlxReferenceRow rlx_reference_sequence[] = {
  { "causal_conv1d", causal_conv1d },
  { "selective_scan", sequence },
  { "mamba2", sequence },
  { "gated_delta_net", sequence },
  { "rwkv6", sequence },
  { "rwkv7", sequence },
  { "recurrence_states", states },
  { NULL, NULL },
};
