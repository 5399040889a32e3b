/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Recurrent networks, one unit of one sequence at a time.
 */
#include "config.h"
#include "rlx-reference-private.h"

#include <math.h>
#include <string.h>

/* A number and the error of the device's. */
typedef struct
{
  double value;
  double error;
} Number;

static Number
round_number (double value,
              double error)
{
  return (Number) { value, error + 2 * RLX_F32_EPSILON * (fabs (value) + error) + 0x1p-126 };
}

static Number
add (Number a,
     Number b)
{
  return round_number (a.value + b.value, a.error + b.error);
}

static Number
multiply (Number a,
          Number b)
{
  double error = a.error * b.error;

  if (a.error > 0)
    error += a.error * fabs (b.value);
  if (b.error > 0)
    error += b.error * fabs (a.value);
  return round_number (a.value * b.value, error);
}

/* ---- activations ------------------------------------------------------------------ */

typedef struct
{
  const char *name;
  double alpha;
  double beta;
} Activation;

static Activation
get_activation (RlxReferenceCall *call,
                const char       *place)
{
  g_autofree char *name = g_strconcat (place, "_activation", NULL);
  g_autofree char *alpha = g_strconcat (place, "_alpha", NULL);
  g_autofree char *beta = g_strconcat (place, "_beta", NULL);
  Activation self = { "", rlx_reference_get_float (call, alpha), rlx_reference_get_float (call, beta) };

  g_variant_lookup (call->attributes, name, "&s", &self.name);
  return self;
}

static double
activate (const Activation *self,
          double            x)
{
  const char *name = self->name;

  if (strcmp (name, "sigmoid") == 0)
    return 1 / (1 + exp (-x));
  if (strcmp (name, "tanh") == 0)
    return tanh (x);
  if (strcmp (name, "relu") == 0)
    return x < 0 ? 0 : x;
  if (strcmp (name, "leaky-relu") == 0)
    return x < 0 ? self->alpha * x : x;
  if (strcmp (name, "thresholded-relu") == 0)
    return x > self->alpha ? x : 0;
  if (strcmp (name, "hard-sigmoid") == 0)
    return isnan (x) ? x : fmin (fmax (self->alpha * x + self->beta, 0), 1);
  if (strcmp (name, "elu") == 0)
    return x < 0 ? self->alpha * expm1 (x) : x;
  if (strcmp (name, "softsign") == 0)
    return x / (1 + fabs (x));
  if (strcmp (name, "softplus") == 0)
    return x > 0 ? x + log1p (exp (-x)) : log1p (exp (x));
  if (strcmp (name, "affine") == 0)
    return self->alpha * x + self->beta;
  if (strcmp (name, "scaled-tanh") == 0)
    return self->alpha * tanh (self->beta * x);

  g_assert_not_reached ();
}

/* The stated bound of the operator of the same name, plus that of a product before or after it. */
static double
stated_error (const Activation *self,
              double            x,
              double            y)
{
  if (strcmp (self->name, "affine") == 0 || strcmp (self->name, "hard-sigmoid") == 0)
    return 4 * RLX_F32_EPSILON * (fabs (self->alpha * x) + fabs (self->beta));
  if (strcmp (self->name, "scaled-tanh") == 0)
    return 3e-6 * fabs (y) + 2 * RLX_F32_EPSILON * fabs (self->alpha * self->beta * x);
  return 4e-6 * fabs (y);
}

static Number
apply (const Activation *self,
       double            clip,
       Number            x)
{
  double ends[5];
  Number y;

  x.value = x.value > clip ? clip : x.value < -clip ? -clip : x.value;
  y.value = activate (self, x.value);
  y.error = 0;
  /* An unknown operand times 0 has an error that is NaN. */
  if (!isfinite (x.error) || isnan (y.value))
    return (Number) { y.value, isnan (x.value) ? 0 : INFINITY };

  /* All are monotonic except at a kink. */
  ends[0] = x.value - x.error;
  ends[1] = x.value + x.error;
  ends[2] = fabs (x.value) <= x.error ? 0 : x.value;
  ends[3] = fabs (x.value - self->alpha) <= x.error ? self->alpha : x.value;
  ends[4] = fabs (x.value - self->alpha) <= x.error ? nextafter (self->alpha, INFINITY) : x.value;
  for (guint i = 0; i < G_N_ELEMENTS (ends); i++)
    y.error = fmax (y.error, fabs (activate (self, ends[i]) - y.value));
  y.error += stated_error (self, fabs (x.value) + x.error, fabs (y.value) + y.error) + 0x1p-126;
  return y;
}

/* ---- the network -------------------------------------------------------------------- */

typedef struct
{
  const RlxReferenceValue *x;
  const RlxReferenceValue *weight;
  const RlxReferenceValue *recurrent;
  const RlxReferenceValue *bias;
  const RlxReferenceValue *recurrent_bias;
  const RlxReferenceValue *peephole;
  const RlxReferenceValue *hidden_state;
  const RlxReferenceValue *cell_state;
  const RlxReferenceValue *lengths;
  gboolean lstm;
  gboolean gru;
  gboolean batch_first;
  gboolean reset_after;
  gboolean input_forget;
  const char *order;
  gsize gates;
  gsize directions;
  gsize steps;
  gsize batch;
  gsize inputs;
  gsize hidden;
  double clip;
  Activation gate;
  Activation cell;
  Activation last;
} Network;

static const RlxReferenceValue *
get_input (RlxReferenceCall *call,
           gsize             index)
{
  return index < call->n_inputs ? call->inputs[index] : NULL;
}

static Number
get_element (const RlxReferenceValue *value,
             gsize                    at)
{
  return value != NULL ? (Number) { value->values[at], value->bounds[at] } : (Number) { 0, 0 };
}

static void
network_init (Network          *self,
              RlxReferenceCall *call)
{
  gboolean cell = g_str_has_suffix (call->op, "_cell");
  const gint64 *shape;
  gsize next = 3;

  *self = (Network) { .order = "n", .directions = 1, .steps = 1 };
  self->lstm = g_str_has_prefix (call->op, "lstm");
  self->gru = g_str_has_prefix (call->op, "gru");
  self->x = get_input (call, 0);
  self->weight = get_input (call, 1);
  self->recurrent = get_input (call, 2);
  if (cell)
    {
      self->hidden_state = get_input (call, next++);
      if (self->lstm)
        self->cell_state = get_input (call, next++);
    }
  self->bias = get_input (call, next++);
  self->recurrent_bias = get_input (call, next++);
  if (self->lstm)
    self->peephole = get_input (call, next++);
  if (!cell)
    {
      const char *direction = "";

      self->hidden_state = get_input (call, next++);
      if (self->lstm)
        self->cell_state = get_input (call, next++);
      self->lengths = get_input (call, next++);
      self->batch_first = rlx_reference_get_bool (call, "batch_first");
      g_variant_lookup (call->attributes, "direction", "&s", &direction);
      self->directions = strcmp (direction, "both") == 0 ? 2 : 1;
    }

  shape = self->x->shape;
  self->steps = cell ? 1 : (gsize) shape[self->batch_first ? 1 : 0];
  self->batch = (gsize) shape[cell || self->batch_first ? 0 : 1];
  self->inputs = (gsize) shape[self->x->n_dims - 1];
  self->hidden = (gsize) self->recurrent->shape[self->recurrent->n_dims - 1];
  g_variant_lookup (call->attributes, "gate_order", "&s", &self->order);
  self->gates = strlen (self->order);
  self->reset_after = rlx_reference_get_bool (call, "reset_after");
  self->input_forget = rlx_reference_get_bool (call, "input_forget");
  self->clip = rlx_reference_get_float (call, "clip");
  if (self->lstm || self->gru)
    self->gate = get_activation (call, "gate");
  if (self->lstm)
    self->cell = get_activation (call, "cell");
  self->last = get_activation (call, "hidden");
}

static gsize
state_at (const Network *self,
          gsize          direction,
          gsize          row,
          gsize          unit)
{
  if (self->batch_first)
    return (row * self->directions + direction) * self->hidden + unit;
  return (direction * self->batch + row) * self->hidden + unit;
}

/* Σ of weights times values, and its error. */
static Number
sum_products (const RlxReferenceValue *weight,
              gsize                    first,
              const Number            *operand,
              gsize                    n)
{
  Number sum = { 0, 0 };
  double size = 0;

  for (gsize k = 0; k < n; k++)
    {
      double w = weight->values[first + k];

      sum.value += w * operand[k].value;
      size += fabs (w) * (fabs (operand[k].value) + operand[k].error);
      if (operand[k].error > 0)
        sum.error += operand[k].error * fabs (w);
      if (weight->bounds[first + k] > 0)
        sum.error += weight->bounds[first + k] * (fabs (operand[k].value) + operand[k].error);
    }
  sum.error += 2 * (double) (n + 4) * (RLX_F32_EPSILON * size + (size > 0 ? 0x1p-126 : 0));
  if (size >= 0x1p127)
    sum.error = INFINITY;
  return sum;
}

/* The row of the weights for a gate, by its letter. */
static gsize
gate_row (const Network *self,
          gsize          direction,
          char           letter,
          gsize          unit)
{
  gsize gate = (gsize) (strchr (self->order, letter) - self->order);

  return (direction * self->gates + gate) * self->hidden + unit;
}

typedef struct
{
  const Number *x;
  const Number *h;       /* of all units */
  const Number *reset;   /* the same, after the reset gate */
  Number c;
  gsize direction;
  gsize unit;
} Place;

/* The pre-activation value, without peepholes. */
static Number
before_gate (const Network *self,
             const Place   *place,
             char           letter,
             const Number  *state)
{
  gsize row = gate_row (self, place->direction, letter, place->unit);
  Number sum = add (sum_products (self->weight, row * self->inputs, place->x, self->inputs),
                    sum_products (self->recurrent, row * self->hidden, state, self->hidden));

  return add (add (sum, get_element (self->bias, row)), get_element (self->recurrent_bias, row));
}

static Number
peep (const Network *self,
      const Place   *place,
      gsize          gate,
      Number         c)
{
  if (self->peephole == NULL)
    return (Number) { 0, 0 };
  return multiply (get_element (self->peephole, (place->direction * 3 + gate) * self->hidden + place->unit), c);
}

static Number
step_gate (const Network *self,
           const Place   *place,
           char           letter)
{
  return apply (&self->gate, self->clip, before_gate (self, place, letter, place->h));
}

static void
step_unit (const Network *self,
           const Place   *place,
           Number        *h,
           Number        *c)
{
  Number one = { 1, 0 };

  if (self->lstm)
    {
      Number i = apply (&self->gate, self->clip,
                        add (before_gate (self, place, 'i', place->h), peep (self, place, 0, place->c)));
      Number f = apply (&self->gate, self->clip,
                        add (before_gate (self, place, 'f', place->h), peep (self, place, 2, place->c)));
      Number g = apply (&self->cell, self->clip, before_gate (self, place, 'g', place->h));
      Number o;

      if (self->input_forget)
        f = add (one, (Number) { -i.value, i.error });
      *c = add (multiply (f, place->c), multiply (i, g));
      o = apply (&self->gate, self->clip, add (before_gate (self, place, 'o', place->h), peep (self, place, 1, *c)));
      *h = multiply (o, apply (&self->last, self->clip, *c));
    }
  else if (self->gru)
    {
      Number z = step_gate (self, place, 'z');
      Number n;

      if (self->reset_after)
        {
          gsize row = gate_row (self, place->direction, 'n', place->unit);
          Number r = step_gate (self, place, 'r');
          Number product = add (sum_products (self->recurrent, row * self->hidden, place->h, self->hidden),
                                get_element (self->recurrent_bias, row));
          Number sum = add (sum_products (self->weight, row * self->inputs, place->x, self->inputs),
                            get_element (self->bias, row));

          n = apply (&self->last, self->clip, add (sum, multiply (r, product)));
        }
      else
        {
          n = apply (&self->last, self->clip, before_gate (self, place, 'n', place->reset));
        }
      *h = add (multiply (add (one, (Number) { -z.value, z.error }), n), multiply (z, place->h[place->unit]));
    }
  else
    {
      *h = apply (&self->last, self->clip, before_gate (self, place, 'n', place->h));
    }
}

/* One sequence in one direction. */
static void
run_sequence (const Network    *self,
              RlxReferenceCall *call,
              gsize             direction,
              gsize             row)
{
  gsize hidden = self->hidden;
  g_autofree Number *x = g_new0 (Number, self->inputs + 1);
  g_autofree Number *h = g_new0 (Number, hidden + 1), *new_h = g_new0 (Number, hidden + 1);
  g_autofree Number *c = g_new0 (Number, hidden + 1), *reset = g_new0 (Number, hidden + 1);
  RlxReferenceValue *y = call->output;
  gsize which = call->result == 0 ? 0 : self->lstm ? call->result : call->result + 1;
  gsize length = self->steps;
  gboolean backward = direction == 1;
  const char *word = "";

  if (g_variant_lookup (call->attributes, "direction", "&s", &word) && strcmp (word, "backward") == 0)
    backward = TRUE;
  if (self->lengths != NULL)
    length = (gsize) CLAMP (self->lengths->values[row], 0, (double) self->steps);

  for (gsize j = 0; j < hidden; j++)
    {
      h[j] = get_element (self->hidden_state, state_at (self, direction, row, j));
      c[j] = get_element (self->cell_state, state_at (self, direction, row, j));
    }

  for (gsize s = 0; s < length; s++)
    {
      gsize t = backward ? length - 1 - s : s;
      Place place = { x, h, reset, { 0, 0 }, direction, 0 };

      for (gsize k = 0; k < self->inputs; k++)
        x[k] = get_element (self->x, (self->batch_first ? row * self->steps + t : t * self->batch + row) * self->inputs + k);
      for (place.unit = 0; self->gru && !self->reset_after && place.unit < hidden; place.unit++)
        reset[place.unit] = multiply (step_gate (self, &place, 'r'), h[place.unit]);
      for (place.unit = 0; place.unit < hidden; place.unit++)
        {
          place.c = c[place.unit];
          step_unit (self, &place, &new_h[place.unit], &c[place.unit]);
        }
      memcpy (h, new_h, hidden * sizeof (Number));

      for (gsize j = 0; which == 2 && j < hidden; j++)
        {
          gsize at = self->batch_first ? ((row * self->steps + t) * self->directions + direction) * hidden + j
                                       : ((t * self->directions + direction) * self->batch + row) * hidden + j;

          y->values[at] = h[j].value;
          y->bounds[at] = h[j].error;
        }
    }

  for (gsize j = 0; which < 2 && j < hidden; j++)
    {
      gsize at = state_at (self, direction, row, j);

      y->values[at] = which == 0 ? h[j].value : c[j].value;
      y->bounds[at] = which == 0 ? h[j].error : c[j].error;
    }
}

static void
recurrent (RlxReferenceCall *call)
{
  Network self;

  network_init (&self, call);
  for (gsize direction = 0; direction < self.directions; direction++)
    for (gsize row = 0; row < self.batch; row++)
      run_sequence (&self, call, direction, row);
}

const RlxReferenceRow rlx_reference_recurrent[] = {
  { "lstm", recurrent },
  { "gru", recurrent },
  { "rnn", recurrent },
  { "lstm_cell", recurrent },
  { "gru_cell", recurrent },
  { "rnn_cell", recurrent },
  { NULL, NULL }
};
