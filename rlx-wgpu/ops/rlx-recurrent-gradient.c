/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Gradients of recurrent networks, step by step.
 */
#include "config.h"

#include "ops/rlx-gradient-private.h"

#include <math.h>
#include <string.h>

#include "rlx-tensor-private.h"

/* Each step adds nodes of its own. */
#define MAX_STEPS 2048

typedef struct
{
  RlxBuilder *b;
  const RlxIrNode *node;
  const RlxRecurrentAttrs *attrs;
  gboolean lstm, gru, cell;
  const char *order;             /* the letters of the gates, in order */
  gint64 steps, batch, hidden;
  guint direction;
  /* of the current direction */
  RlxIrValue *weight, *recurrent, *bias, *recurrent_bias, *peephole;
} Network;

/* NULL if the operand is absent, or if the operator does not have it. */
static RlxIrValue *
find_operand (const RlxIrNode *node,
              const char      *name)
{
  for (guint i = 0; i < node->op->n_inputs && i < node->n_inputs; i++)
    if (strcmp (node->op->inputs[i].name, name) == 0)
      return node->inputs[i];
  return NULL;
}

static RlxIrValue *
activate (Network                *self,
          RlxIrValue             *x,
          RlxRecurrentActivation  activation,
          double                  alpha,
          double                  beta)
{
  RlxBuilder *b = self->b;

  if (isfinite (self->attrs->clip))
    x = rlx_build_clamp (b, x, RLX_CLAMP_ATTRS (.minimum = -self->attrs->clip, .maximum = self->attrs->clip));
  switch (activation)
    {
    case RLX_RECURRENT_ACTIVATION_SIGMOID:
      return rlx_build_sigmoid (b, x);
    case RLX_RECURRENT_ACTIVATION_TANH:
      return rlx_build_tanh (b, x);
    case RLX_RECURRENT_ACTIVATION_RELU:
      return rlx_build_relu (b, x);
    case RLX_RECURRENT_ACTIVATION_LEAKY_RELU:
      return rlx_build_leaky_relu (b, x, RLX_LEAKY_RELU_ATTRS (.alpha = alpha));
    case RLX_RECURRENT_ACTIVATION_THRESHOLDED_RELU:
      return rlx_build_thresholded_relu (b, x, RLX_THRESHOLDED_RELU_ATTRS (.alpha = alpha));
    case RLX_RECURRENT_ACTIVATION_HARD_SIGMOID:
      return rlx_build_hard_sigmoid (b, x, RLX_HARD_SIGMOID_ATTRS (.alpha = alpha, .beta = beta));
    case RLX_RECURRENT_ACTIVATION_ELU:
      return rlx_build_elu (b, x, RLX_ELU_ATTRS (.alpha = alpha));
    case RLX_RECURRENT_ACTIVATION_SOFTSIGN:
      return rlx_build_softsign (b, x);
    case RLX_RECURRENT_ACTIVATION_SOFTPLUS:
      return rlx_build_softplus (b, x);
    case RLX_RECURRENT_ACTIVATION_SCALED_TANH:
      x = rlx_build_tanh (b, rlx_build_mul (b, x, rlx_build_number (b, x, beta)));
      return rlx_build_mul (b, x, rlx_build_number (b, x, alpha));
    case RLX_RECURRENT_ACTIVATION_AFFINE:
    default:
      return rlx_build_add (b, rlx_build_mul (b, x, rlx_build_number (b, x, alpha)), rlx_build_number (b, x, beta));
    }
}

/* What belongs to the current direction in an operand, in f32. */
static RlxIrValue *
of_direction (Network    *self,
              RlxIrValue *x)
{
  RlxBuilder *b = self->b;

  x = rlx_build_as (b, x, RLX_DATA_TYPE_F32);
  if (x == NULL || self->cell)
    return x;
  x = rlx_build_part (b, x, 0, self->direction, self->direction + 1);
  return x != NULL ? rlx_build_shaped (b, x, x->type.shape + 1, x->type.n_dims - 1) : NULL;
}

static RlxIrValue *
initial_state (Network    *self,
               const char *name)
{
  RlxBuilder *b = self->b;
  g_autofree char *longer = g_strconcat ("initial_", name, NULL);
  RlxIrValue *x = find_operand (self->node, self->cell ? name : longer);
  const RlxTensorType type = { .data_type = RLX_DATA_TYPE_F32, .n_dims = 2, .shape = { self->batch, self->hidden } };

  if (x == NULL)
    return rlx_build_filled (b, &type, 0.0);
  x = rlx_build_as (b, x, RLX_DATA_TYPE_F32);
  if (!self->cell)
    x = rlx_build_part (b, x, self->attrs->batch_first ? 1 : 0, self->direction, self->direction + 1);
  return rlx_build_shaped (b, x, type.shape, 2);
}

/* The columns of a gate. */
static RlxIrValue *
gate_part (Network    *self,
           RlxIrValue *x,
           char        letter)
{
  gint64 at = strchr (self->order, letter) - self->order;

  return x != NULL ? rlx_build_part (self->b, x, x->type.n_dims - 1, at * self->hidden, (at + 1) * self->hidden) : NULL;
}

static RlxIrValue *
gate (Network    *self,
      RlxIrValue *x)
{
  return activate (self, x, self->attrs->gate_activation, self->attrs->gate_alpha, self->attrs->gate_beta);
}

static RlxIrValue *
last (Network    *self,
      RlxIrValue *x)
{
  return activate (self, x, self->attrs->hidden_activation, self->attrs->hidden_alpha, self->attrs->hidden_beta);
}

/* Adds the peephole contribution of the cell state to gate @index. */
static RlxIrValue *
peep (Network    *self,
      RlxIrValue *x,
      gint64      index,
      RlxIrValue *c)
{
  RlxBuilder *b = self->b;

  if (self->peephole == NULL)
    return x;
  return rlx_build_add (b, x, rlx_build_mul (b, rlx_build_part (b, self->peephole, 0, index * self->hidden, (index + 1) * self->hidden), c));
}

/* @x is the contribution of the input to all gates, including the bias. */
static void
step (Network     *self,
      RlxIrValue  *x,
      RlxIrValue **h,
      RlxIrValue **c)
{
  RlxBuilder *b = self->b;
  RlxIrValue *seen = rlx_build_matmul (b, *h, self->recurrent, RLX_MATMUL_ATTRS (.transpose_b = TRUE));
  RlxIrValue *sum;

  if (self->recurrent_bias != NULL)
    seen = rlx_build_add (b, seen, self->recurrent_bias);
  sum = rlx_build_add (b, x, seen);
  if (self->lstm)
    {
      RlxIrValue *i = gate (self, peep (self, gate_part (self, sum, 'i'), 0, *c));
      RlxIrValue *f = self->attrs->input_forget ? rlx_build_sub (b, rlx_build_number (b, i, 1.0), i)
                                                : gate (self, peep (self, gate_part (self, sum, 'f'), 2, *c));
      RlxIrValue *g = activate (self, gate_part (self, sum, 'g'), self->attrs->cell_activation, self->attrs->cell_alpha,
                                self->attrs->cell_beta);
      RlxIrValue *o;

      *c = rlx_build_add (b, rlx_build_mul (b, f, *c), rlx_build_mul (b, i, g));
      o = gate (self, peep (self, gate_part (self, sum, 'o'), 1, *c));
      *h = rlx_build_mul (b, o, last (self, *c));
    }
  else if (self->gru)
    {
      RlxIrValue *z = gate (self, gate_part (self, sum, 'z')), *r = gate (self, gate_part (self, sum, 'r')), *n;

      if (self->attrs->reset_after)
        n = rlx_build_add (b, gate_part (self, x, 'n'), rlx_build_mul (b, r, gate_part (self, seen, 'n')));
      else
        {
          RlxIrValue *weight = rlx_build_part (b, self->recurrent, 0, (strchr (self->order, 'n') - self->order) * self->hidden,
                                               (strchr (self->order, 'n') - self->order + 1) * self->hidden);

          n = rlx_build_matmul (b, rlx_build_mul (b, r, *h), weight, RLX_MATMUL_ATTRS (.transpose_b = TRUE));
          if (self->recurrent_bias != NULL)
            n = rlx_build_add (b, n, gate_part (self, self->recurrent_bias, 'n'));
          n = rlx_build_add (b, gate_part (self, x, 'n'), n);
        }
      n = last (self, n);
      *h = rlx_build_add (b, n, rlx_build_mul (b, z, rlx_build_sub (b, *h, n)));
    }
  else
    {
      *h = last (self, sum);
    }
}

/* Turns [batch, hidden] into a state like those of the results, with an axis for the
 * direction. */
static RlxIrValue *
as_state (Network    *self,
          RlxIrValue *x)
{
  if (self->cell)
    return x;
  return rlx_build_shaped (self->b, x, self->attrs->batch_first ? (gint64[]) { self->batch, 1, self->hidden }
                                                                : (gint64[]) { 1, self->batch, self->hidden }, 3);
}

/* Runs all steps of a direction; @all receives the hidden states, with an axis for the
 * steps. */
static void
run_direction (Network     *self,
               gboolean     backward,
               RlxIrValue **h,
               RlxIrValue **c,
               RlxIrValue **all)
{
  RlxBuilder *b = self->b;
  gboolean batch_first = !self->cell && self->attrs->batch_first;
  RlxIrValue *x = rlx_build_as (b, self->node->inputs[0], RLX_DATA_TYPE_F32), *lengths = find_operand (self->node, "sequence_lengths");
  g_autofree RlxIrValue **states = g_new0 (RlxIrValue *, self->steps + 1);
  gint64 axis = batch_first ? 1 : 0;

  self->weight = of_direction (self, self->node->inputs[1]);
  self->recurrent = of_direction (self, self->node->inputs[2]);
  self->bias = of_direction (self, find_operand (self->node, "bias"));
  self->recurrent_bias = of_direction (self, find_operand (self->node, "recurrent_bias"));
  self->peephole = of_direction (self, find_operand (self->node, "peephole_weight"));
  *h = initial_state (self, "hidden_state");
  *c = self->lstm ? initial_state (self, "cell_state") : NULL;
  x = rlx_build_matmul (b, x, self->weight, RLX_MATMUL_ATTRS (.transpose_b = TRUE));
  if (self->bias != NULL)
    x = rlx_build_add (b, x, self->bias);
  if (lengths != NULL)
    lengths = rlx_build_shaped (b, rlx_build_as (b, lengths, RLX_DATA_TYPE_I32), (gint64[]) { self->batch, 1 }, 2);

  for (gint64 i = 0; i < self->steps && b->error == NULL; i++)
    {
      gint64 t = backward ? self->steps - 1 - i : i;
      RlxIrValue *part = self->cell ? x : rlx_build_part (b, x, axis, t, t + 1);
      RlxIrValue *old_h = *h, *old_c = *c;

      if (part != NULL)
        part = rlx_build_shaped (b, part, (gint64[]) { self->batch, part->type.shape[part->type.n_dims - 1] }, 2);
      step (self, part, h, c);
      states[t] = *h;
      if (lengths != NULL)
        {
          RlxIrValue *counts = rlx_build_less (b, rlx_build_constant (b, rlx_tensor_new_scalar (RLX_DATA_TYPE_I32, (double) t, NULL)), lengths);

          states[t] = rlx_build_where (b, counts, *h, rlx_build_number (b, *h, 0.0));
          *h = rlx_build_where (b, counts, *h, old_h);
          if (self->lstm)
            *c = rlx_build_where (b, counts, *c, old_c);
        }
      if (!self->cell)
        states[t] = rlx_build_shaped (b, states[t], batch_first ? (gint64[]) { self->batch, 1, 1, self->hidden }
                                                                : (gint64[]) { 1, 1, self->batch, self->hidden }, 4);
    }
  *all = NULL;
  if (!self->cell && self->attrs->return_sequence && self->steps > 0)
    *all = rlx_build_concat (b, states, (guint) self->steps, RLX_CONCAT_ATTRS (.axis = axis));
  *h = as_state (self, *h);
  *c = *c != NULL ? as_state (self, *c) : NULL;
}

void
rlx_recurrent_gradient (RlxGradient     *self,
                        const RlxIrNode *node)
{
  Network network = { .b = rlx_gradient_get_builder (self), .node = node, .attrs = rlx_recurrent_attrs (node), .steps = 1 };
  const RlxTensorType *x = &node->inputs[0]->type, *recurrent = &node->inputs[2]->type;
  RlxIrValue *parts[3][2] = { { NULL } }, *results[3] = { NULL };
  guint n_directions = 1, n_results = 0;

  network.lstm = node->op->id == RLX_OP_ID_LSTM || node->op->id == RLX_OP_ID_LSTM_CELL;
  network.gru = node->op->id == RLX_OP_ID_GRU || node->op->id == RLX_OP_ID_GRU_CELL;
  network.cell = x->n_dims == 2;
  network.order = network.lstm ? (network.attrs->lstm_gates == RLX_LSTM_GATES_IOFG ? "iofg" : "ifgo")
                  : network.gru ? (network.attrs->gru_gates == RLX_GRU_GATES_ZRN ? "zrn" : "rzn") : "n";
  network.batch = x->shape[0];
  network.hidden = recurrent->shape[recurrent->n_dims - 1];
  if (!network.cell)
    {
      network.batch = x->shape[network.attrs->batch_first ? 0 : 1];
      network.steps = x->shape[network.attrs->batch_first ? 1 : 0];
      n_directions = network.attrs->direction == RLX_RECURRENT_DIRECTION_BOTH ? 2 : 1;
    }
  if (network.steps > MAX_STEPS)
    {
      g_autofree char *why = g_strdup_printf ("its %" G_GINT64_FORMAT " steps are more than the %d it is unrolled for", network.steps, MAX_STEPS);

      rlx_gradient_refuse (self, node, why);
      return;
    }

  for (network.direction = 0; network.direction < n_directions; network.direction++)
    run_direction (&network, network.direction == 1 || (!network.cell && network.attrs->direction == RLX_RECURRENT_DIRECTION_BACKWARD),
                   &parts[0][network.direction], &parts[1][network.direction], &parts[2][network.direction]);
  for (guint i = 0; i < 3; i++)
    {
      RlxIrValue *result = parts[i][0];

      if (result == NULL)
        continue;
      if (n_directions == 2)
        {
          /* The axis for the directions in a state, or in the sequence of states. */
          gint64 axis = i == 2 ? (network.attrs->batch_first ? 2 : 1) : network.attrs->batch_first ? 1 : 0;

          result = rlx_build_concat (network.b, parts[i], 2, RLX_CONCAT_ATTRS (.axis = axis));
        }
      results[n_results++] = rlx_build_as (network.b, result, x->data_type);
    }
  rlx_gradient_through (self, node, results, n_results);
}
