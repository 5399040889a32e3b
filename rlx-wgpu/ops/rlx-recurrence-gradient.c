/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Gradients of sequences. With S the state after a step and G its gradient,
 *
 *   S = A S₋ + k vᵀ,  y = Sᵀ q,  A = diag(w) + out inᵀ
 *   G = A₊ᵀ G₊ + q dyᵀ, which is a reversed sequence of the same kind, with q for k, dy for v, and in and out swapped
 *   dq = S dy,  dk = G v,  dv = Gᵀ k,  dw = Σ G · S₋,  din = S₋ (Gᵀ out),  dout = G (S₋ᵀ in).
 *
 * All operators are put into that form first. The states of all steps would take too much memory, so long sequences
 * are split into segments, and the states of one segment at a time are recomputed.
 */
#include "config.h"

#include "ops/rlx-gradient-private.h"

#include <math.h>

#include "rlx-tensor-private.h"

/* The limit of states that exist at the same time, in elements, unless a single step has more; and that of
 * segments. */
#define MAX_STATES (1 << 22)
#define MAX_PARTS 128

/* ---- sequences in that form ---------------------------------------------------------------- */

enum { Q, K, V, W, IN, OUT, N_OPERANDS };

typedef struct
{
  RlxBuilder *b;
  gint64 batch, steps, heads, rows, columns;
  gint64 lanes;                          /* batch · heads */
  int inputs[N_OPERANDS];                /* the node's operands, -1 for those it does not have */
  int state;
  RlxIrValue *operands[N_OPERANDS];      /* [steps, lanes, …], f32 */
} Form;

static RlxIrValue *
get_input (const RlxIrNode *node,
           int              index)
{
  return index >= 0 && (guint) index < node->n_inputs ? node->inputs[index] : NULL;
}

/* [batch, steps, heads, n] as [steps, batch · heads, n]. */
static RlxIrValue *
steps_first (Form       *self,
             RlxIrValue *x)
{
  x = rlx_build_swapped (self->b, rlx_build_as (self->b, x, RLX_DATA_TYPE_F32), 0, 1);
  return x != NULL ? rlx_build_shaped (self->b, x, (gint64[]) { self->steps, self->lanes, x->type.shape[3] }, 3) : NULL;
}

/* Back again, from consecutive segments. */
static RlxIrValue *
batch_first (Form        *self,
             RlxIrValue **parts,
             guint        n_parts)
{
  RlxIrValue *x = n_parts > 1 ? rlx_build_concat (self->b, parts, n_parts, RLX_CONCAT_ATTRS (.axis = 0)) : parts[0];

  if (x == NULL)
    return NULL;
  x = rlx_build_shaped (self->b, x, (gint64[]) { self->steps, self->batch, self->heads, (gint64) (rlx_type_n_elements (&x->type) / (guint64) MAX (self->steps * self->lanes, 1)) }, 4);
  return rlx_build_swapped (self->b, x, 0, 1);
}

/* [n, lanes, width] as matrices of one column, or of one row. */
static RlxIrValue *
as_column (Form       *self,
           RlxIrValue *x)
{
  return x != NULL ? rlx_build_shaped (self->b, x, (gint64[]) { x->type.shape[0], self->lanes, x->type.shape[2], 1 }, 4) : NULL;
}

static RlxIrValue *
as_row (Form       *self,
        RlxIrValue *x)
{
  return x != NULL ? rlx_build_shaped (self->b, x, (gint64[]) { x->type.shape[0], self->lanes, 1, x->type.shape[2] }, 4) : NULL;
}

static RlxIrValue *
multiply (Form       *self,
          RlxIrValue *a,
          RlxIrValue *b)
{
  return rlx_build_matmul (self->b, a, b, RLX_MATMUL_ATTRS (.transpose_a = FALSE));
}

/* Column times matrix: aᵀ m, as a row. */
static RlxIrValue *
project (Form       *self,
         RlxIrValue *a,
         RlxIrValue *m)
{
  return multiply (self, as_row (self, a), m);
}

/* The values of the step after each, with zeros for the last one. */
static RlxIrValue *
shift (Form       *self,
       RlxIrValue *x)
{
  RlxIrValue *parts[2];
  RlxTensorType zeros;

  if (x == NULL)
    return NULL;
  zeros = x->type;
  zeros.shape[0] = 1;
  parts[0] = rlx_build_part (self->b, x, 0, 1, x->type.shape[0]);
  parts[1] = rlx_build_filled (self->b, &zeros, 0.0);
  return x->type.shape[0] > 1 ? rlx_build_concat (self->b, parts, 2, RLX_CONCAT_ATTRS (.axis = 0)) : parts[1];
}

/* The state after the steps from @first to @end, starting from the one before, computed as the node itself
 * does. */
static RlxIrValue *
go_on (Form            *self,
       const RlxIrNode *node,
       RlxIrValue      *state,
       gint64           first,
       gint64           end)
{
  RlxIrValue *inputs[8] = { NULL };
  RlxIrNode *part;

  for (guint i = 0; i < N_OPERANDS; i++)
    if (get_input (node, self->inputs[i]) != NULL)
      inputs[self->inputs[i]] = rlx_build_part (self->b, get_input (node, self->inputs[i]), 1, first, end);
  inputs[self->state] = state;
  part = rlx_builder_append (self->b, node->op, inputs, (guint) self->state + 1, node->attrs);
  return part != NULL ? &part->outputs[1] : NULL;
}

/* @g is the gradient of the state after the last step, and becomes that of the state before @first. */
static void
go_back (Form        *self,
         RlxIrValue  *dy,
         RlxIrValue  *state,
         gint64       first,
         gint64       end,
         RlxIrValue **g,
         RlxIrValue **gradients)
{
  RlxBuilder *b = self->b;
  RlxIrValue *x[N_OPERANDS], *states, *before, *after, *slopes, *decay, *sum;
  const gint64 last = 3;

  for (guint i = 0; i < N_OPERANDS; i++)
    x[i] = self->operands[i] != NULL ? rlx_build_part (b, self->operands[i], 0, first, end) : NULL;
  dy = rlx_build_part (b, dy, 0, first, end);
  states = rlx_build_recurrence_states (b, x[K], x[V], x[W], x[IN], x[OUT], state, RLX_RECURRENCE_STATES_ATTRS (.reverse = FALSE));
  slopes = rlx_build_recurrence_states (b, x[Q], dy, shift (self, x[W]), shift (self, x[OUT]), shift (self, x[IN]), *g,
                                        RLX_RECURRENCE_STATES_ATTRS (.reverse = TRUE));
  if (b->error != NULL)
    return;
  before = rlx_build_part (b, states, 0, 0, end - first);
  after = rlx_build_part (b, states, 0, 1, end - first + 1);
  slopes = rlx_build_part (b, slopes, 0, 0, end - first);

  gradients[Q] = multiply (self, after, as_column (self, dy));
  gradients[K] = multiply (self, slopes, as_column (self, x[V]));
  gradients[V] = project (self, x[K], slopes);
  decay = x[W] != NULL ? rlx_build_exp (b, x[W]) : NULL;
  if (decay != NULL)
    gradients[W] = rlx_build_mul (b, as_column (self, decay),
                                  rlx_build_reduce_sum (b, rlx_build_mul (b, slopes, before), RLX_REDUCE_SUM_ATTRS (.axes = RLX_INTS (&last, 1), .keep_dims = TRUE)));
  if (x[IN] != NULL)
    {
      gradients[IN] = rlx_build_matmul (b, before, project (self, x[OUT], slopes), RLX_MATMUL_ATTRS (.transpose_b = TRUE));
      gradients[OUT] = rlx_build_matmul (b, slopes, project (self, x[IN], before), RLX_MATMUL_ATTRS (.transpose_b = TRUE));
    }

  /* The influence of the state before the first step. */
  slopes = rlx_build_part (b, slopes, 0, 0, 1);
  sum = decay != NULL ? rlx_build_mul (b, as_column (self, rlx_build_part (b, decay, 0, 0, 1)), slopes) : slopes;
  if (x[IN] != NULL)
    sum = rlx_build_add (b, sum, multiply (self, as_column (self, rlx_build_part (b, x[IN], 0, 0, 1)),
                                           project (self, rlx_build_part (b, x[OUT], 0, 0, 1), slopes)));
  *g = rlx_build_shaped (b, sum, (gint64[]) { self->lanes, self->rows, self->columns }, 3);
}

static void
add_gradients (Form            *self,
               RlxGradient     *gradient,
               const RlxIrNode *node)
{
  RlxBuilder *b = self->b;
  RlxIrValue *g = rlx_gradient_get (gradient, node, 1), *dy = rlx_gradient_get_or_zeros (gradient, node, 0), *state;
  const gint64 shape[] = { self->batch, self->heads, self->rows, self->columns }, *flat = (gint64[]) { self->lanes, self->rows, self->columns };
  guint64 all = (guint64) MAX (self->steps, 1) * (guint64) self->lanes * (guint64) self->rows * (guint64) self->columns;
  gint64 length = self->steps;
  guint n_parts;
  g_autofree RlxIrValue **starts = NULL, **parts = NULL;

  if (all > MAX_STATES)
    length = MAX ((gint64) ceil (sqrt ((double) self->steps)), (self->steps + MAX_PARTS - 1) / MAX_PARTS);
  n_parts = (guint) ((self->steps + length - 1) / length);
  starts = g_new0 (RlxIrValue *, n_parts);
  parts = g_new0 (RlxIrValue *, N_OPERANDS * n_parts);

  for (guint i = 0; i < N_OPERANDS; i++)
    if (get_input (node, self->inputs[i]) != NULL)
      self->operands[i] = steps_first (self, get_input (node, self->inputs[i]));
  state = get_input (node, self->state);
  for (guint i = 0; i < n_parts; i++)
    {
      starts[i] = state != NULL ? rlx_build_shaped (b, state, flat, 3) : NULL;
      if (i + 1 < n_parts)
        state = go_on (self, node, state, i * length, (i + 1) * length);
    }

  dy = steps_first (self, dy);
  g = g != NULL ? rlx_build_shaped (b, g, flat, 3) : NULL;
  for (guint i = n_parts; i-- > 0 && b->error == NULL;)
    {
      RlxIrValue *here[N_OPERANDS] = { NULL };

      go_back (self, dy, starts[i], i * length, MIN ((i + 1) * length, self->steps), &g, here);
      for (guint k = 0; k < N_OPERANDS; k++)
        parts[k * n_parts + i] = here[k];
    }
  if (b->error != NULL)
    return;
  for (guint k = 0; k < N_OPERANDS; k++)
    if (self->inputs[k] >= 0 && rlx_gradient_wants (gradient, node, (guint) self->inputs[k]))
      rlx_gradient_add (gradient, node, (guint) self->inputs[k], batch_first (self, &parts[k * n_parts], n_parts));
  if (rlx_gradient_wants (gradient, node, (guint) self->state))
    rlx_gradient_add (gradient, node, (guint) self->state, rlx_build_shaped (b, g, shape, 4));
}

/* ---- the others as one of these ------------------------------------------------------------- */

static RlxIrValue *
expanded (RlxBuilder   *b,
          RlxIrValue   *x,
          const gint64 *shape,
          guint         n_dims)
{
  if (x == NULL)
    return NULL;
  for (guint i = 0; i < n_dims; i++)
    if (x->type.shape[i] != shape[i])
      return rlx_build_expand (b, x, RLX_EXPAND_ATTRS (.shape = RLX_INTS (shape, n_dims)));
  return x;
}

/* @x with so many heads along @axis, each repeated equally often. */
static RlxIrValue *
repeat_heads (RlxBuilder *b,
              RlxIrValue *x,
              guint       axis,
              gint64      heads)
{
  gint64 shape[RLX_MAX_DIMS], before;
  guint n_dims;

  if (x == NULL || x->type.shape[axis] == heads)
    return x;
  n_dims = x->type.n_dims;
  before = x->type.shape[axis];
  memcpy (shape, x->type.shape, (axis + 1) * sizeof (gint64));
  shape[axis + 1] = 1;
  memcpy (shape + axis + 2, x->type.shape + axis + 1, (n_dims - axis - 1) * sizeof (gint64));
  x = rlx_build_shaped (b, x, shape, n_dims + 1);
  shape[axis + 1] = heads / before;
  x = expanded (b, x, shape, n_dims + 1);
  shape[axis] = heads;
  memmove (shape + axis + 1, shape + axis + 2, (n_dims - axis - 1) * sizeof (gint64));
  return rlx_build_shaped (b, x, shape, n_dims);
}

/* With another axis of one element at the end. */
static RlxIrValue *
longer (RlxBuilder *b,
        RlxIrValue *x)
{
  gint64 shape[RLX_MAX_DIMS];

  if (x == NULL)
    return NULL;
  memcpy (shape, x->type.shape, x->type.n_dims * sizeof (gint64));
  shape[x->type.n_dims] = 1;
  return rlx_build_shaped (b, x, shape, x->type.n_dims + 1);
}

/* With a step of zeros before all others, or after them. */
static RlxIrValue *
with_zeros (RlxBuilder *b,
            RlxIrValue *x,
            gboolean    before)
{
  RlxIrValue *parts[2] = { x, x };
  RlxTensorType zeros;

  if (x == NULL)
    return NULL;
  zeros = x->type;
  zeros.shape[1] = 1;
  parts[before ? 0 : 1] = rlx_build_filled (b, &zeros, 0.0);
  return rlx_build_concat (b, parts, 2, RLX_CONCAT_ATTRS (.axis = 1));
}

static void
set_results (RlxIrNode   *node,
             RlxIrValue **results)
{
  results[0] = node != NULL ? &node->outputs[0] : NULL;
  results[1] = node != NULL ? &node->outputs[1] : NULL;
}

static RlxIrNode *
plain (RlxBuilder *b,
       RlxIrValue *q,
       RlxIrValue *k,
       RlxIrValue *v,
       RlxIrValue *decay,
       RlxIrValue *state)
{
  return rlx_build_gated_delta_net (b, q, k, v, decay, NULL, state, RLX_GATED_DELTA_NET_ATTRS (.scale = 1, .delta_rule = FALSE));
}

/* State-space models: a channel of a selective scan is a head with one column. */
static void
put_scan (RlxBuilder      *b,
          const RlxIrNode *node,
          RlxIrValue     **x,
          RlxIrValue     **results)
{
  gboolean scan = node->op->id == RLX_OP_ID_SELECTIVE_SCAN;
  const gint64 *values = node->inputs[0]->type.shape;
  gint64 states = node->inputs[3]->type.shape[node->inputs[3]->type.n_dims - 1];
  const gint64 keys[] = { values[0], values[1], values[2], states };
  RlxIrValue *v, *decay, *k, *q, *state = x[6], *y;
  const gint64 *rate = x[2] != NULL ? x[2]->type.shape : NULL;

  if (b->error != NULL)
    return;
  if (scan)
    {
      v = longer (b, rlx_build_mul (b, x[0], x[1]));
      decay = rlx_build_mul (b, longer (b, x[1]), x[2]);
      k = rlx_build_shaped (b, x[3], (gint64[]) { values[0], values[1], 1, states }, 4);
      q = rlx_build_shaped (b, x[4], (gint64[]) { values[0], values[1], 1, states }, 4);
      state = state != NULL ? longer (b, state) : NULL;
    }
  else
    {
      v = rlx_build_mul (b, x[0], longer (b, x[1]));
      decay = longer (b, rlx_build_mul (b, x[1], rlx_build_shaped (b, x[2], rate, 1)));
      k = repeat_heads (b, x[3], 2, values[2]);
      q = repeat_heads (b, x[4], 2, values[2]);
      state = state != NULL ? rlx_build_swapped (b, state, 2, 3) : NULL;
    }
  set_results (plain (b, expanded (b, q, keys, 4), expanded (b, k, keys, 4), v, expanded (b, decay, keys, 4), state), results);
  y = rlx_build_shaped (b, results[0], values, node->inputs[0]->type.n_dims);
  if (x[5] != NULL)
    y = rlx_build_add (b, y, rlx_build_mul (b, x[0], scan ? x[5] : longer (b, x[5])));
  results[0] = y;
  results[1] = scan ? rlx_build_shaped (b, results[1], node->outputs[1].type.shape, 3) : rlx_build_swapped (b, results[1], 2, 3);
}

static void
put_delta_net (RlxBuilder      *b,
               const RlxIrNode *node,
               RlxIrValue     **x,
               RlxIrValue     **results)
{
  const RlxRecurrenceAttrs *attrs = rlx_recurrence_attrs (node);
  const gint64 *values = node->inputs[2]->type.shape, width = node->inputs[1]->type.shape[3];
  gint64 heads = node->outputs[0].type.shape[2], v_heads = values[2];
  const gint64 keys[] = { values[0], values[1], heads, width };
  double scale = attrs->scale != 0 ? attrs->scale : width > 0 ? 1.0 / sqrt ((double) width) : 1.0;
  RlxIrValue *q = repeat_heads (b, x[0], 2, heads), *k = repeat_heads (b, x[1], 2, heads), *v = repeat_heads (b, x[2], 2, heads);
  RlxIrValue *decay = x[3] != NULL && x[3]->type.n_dims == 3 ? longer (b, x[3]) : x[3], *beta = x[4], *state = x[5];

  if (b->error != NULL)
    return;
  q = rlx_build_mul (b, q, rlx_build_number (b, q, scale));
  decay = decay != NULL ? expanded (b, repeat_heads (b, decay, 2, heads), keys, 4) : NULL;
  state = state != NULL ? repeat_heads (b, state, 1, heads) : NULL;
  if (attrs->delta_rule)
    {
      const RlxTensorType type = { .data_type = RLX_DATA_TYPE_F32, .n_dims = 4, .shape = { keys[0], keys[1], keys[2], keys[3] } };
      RlxIrValue *in = decay != NULL ? rlx_build_mul (b, k, rlx_build_exp (b, decay)) : k;
      RlxIrValue *learnt = beta != NULL ? rlx_build_mul (b, k, longer (b, repeat_heads (b, beta, 2, heads))) : k;

      if (decay == NULL)
        decay = rlx_build_filled (b, &type, 0.0);
      set_results (rlx_build_rwkv7 (b, q, learnt, v, decay, in, rlx_build_neg (b, learnt), state), results);
    }
  else
    {
      set_results (plain (b, q, k, v, decay, state), results);
    }
  /* Heads that share a state have the same one. */
  if (heads != v_heads && results[1] != NULL)
    {
      state = rlx_build_shaped (b, results[1], (gint64[]) { values[0], v_heads, heads / v_heads, width, values[3] }, 5);
      results[1] = rlx_build_shaped (b, rlx_build_part (b, state, 2, 0, 1), node->outputs[1].type.shape, 4);
    }
}

/* A result comes before the step that it belongs to, so everything but the queries is a step late. */
static void
put_rwkv6 (RlxBuilder      *b,
           const RlxIrNode *node,
           RlxIrValue     **x,
           RlxIrValue     **results)
{
  gint64 steps = node->inputs[0]->type.shape[1];
  RlxIrValue *own;

  set_results (plain (b, with_zeros (b, x[0], FALSE), with_zeros (b, x[1], TRUE), with_zeros (b, x[2], TRUE), with_zeros (b, x[3], TRUE),
                      x[5]), results);
  if (b->error != NULL)
    return;
  own = rlx_build_sum_along (b, rlx_build_mul (b, rlx_build_mul (b, x[0], x[1]), x[4]), 3);
  results[0] = rlx_build_add (b, rlx_build_part (b, results[0], 1, 0, steps), rlx_build_mul (b, x[2], own));
}

/* ---- rules ------------------------------------------------------------------------------------- */

static gboolean
is_plain (const RlxIrNode *node)
{
  const RlxRecurrenceAttrs *attrs = rlx_recurrence_attrs (node);
  const RlxIrValue *decay = get_input (node, 3);
  const gint64 *v = node->inputs[2]->type.shape;

  return !attrs->delta_rule && attrs->scale == 1 && get_input (node, 4) == NULL && (decay == NULL || decay->type.n_dims == 4) &&
         node->inputs[0]->type.shape[2] == v[2] && node->inputs[1]->type.shape[2] == v[2];
}

static void
form_init (Form            *self,
           RlxBuilder      *b,
           const RlxIrNode *node,
           gboolean         seven)
{
  const gint64 *v = node->inputs[2]->type.shape;

  *self = (Form) {
    .b = b, .batch = v[0], .steps = v[1], .heads = v[2], .columns = v[3], .rows = node->inputs[1]->type.shape[3],
    .inputs = { 0, 1, 2, 3, seven ? 4 : -1, seven ? 5 : -1 }, .state = seven ? 6 : 5,
  };
  self->lanes = self->batch * self->heads;
}

/* The state, if there is one, does not change. */
static void
add_nothing (RlxGradient     *self,
             const RlxIrNode *node)
{
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *g = rlx_gradient_get (self, node, 1);

  for (guint i = 0; i < node->n_inputs; i++)
    if (rlx_gradient_wants (self, node, i))
      rlx_gradient_add (self, node, i, g != NULL && i + 1 == node->op->n_inputs ? g : rlx_build_filled (b, &node->inputs[i]->type, 0.0));
}

void
rlx_recurrence_gradient (RlxGradient     *self,
                         const RlxIrNode *node)
{
  RlxBuilder *b = rlx_gradient_get_builder (self);
  gboolean seven = node->op->id == RLX_OP_ID_RWKV7;
  RlxIrValue *x[8] = { NULL }, *results[2] = { NULL };
  Form form;

  if (rlx_type_n_elements (&node->outputs[0].type) == 0 || rlx_type_n_elements (&node->outputs[1].type) == 0)
    {
      add_nothing (self, node);
      return;
    }
  if (seven || (node->op->id == RLX_OP_ID_GATED_DELTA_NET && is_plain (node)))
    {
      form_init (&form, b, node, seven);
      add_gradients (&form, self, node);
      return;
    }

  for (guint i = 0; i < node->n_inputs; i++)
    x[i] = node->inputs[i] != NULL ? rlx_build_as (b, node->inputs[i], RLX_DATA_TYPE_F32) : NULL;
  switch (node->op->id)
    {
    case RLX_OP_ID_SELECTIVE_SCAN:
    case RLX_OP_ID_MAMBA2:
      put_scan (b, node, x, results);
      break;
    case RLX_OP_ID_RWKV6:
      put_rwkv6 (b, node, x, results);
      break;
    case RLX_OP_ID_GATED_DELTA_NET:
    default:
      put_delta_net (b, node, x, results);
      break;
    }
  results[0] = rlx_build_as (b, results[0], node->outputs[0].type.data_type);
  rlx_gradient_through (self, node, results, 2);
}

/* ---- causal_conv1d ------------------------------------------------------------------------------- */

void
rlx_causal_conv1d_gradient (RlxGradient     *self,
                            const RlxIrNode *node)
{
  RlxBuilder *b = rlx_gradient_get_builder (self);
  gboolean last = rlx_causal_conv1d_attrs (node)->layout == RLX_LAYOUT_CHANNELS_LAST;
  RlxIrValue *x = node->inputs[0], *weight = node->inputs[1], *results[2] = { NULL }, *whole;
  RlxIrValue *bias = get_input (node, 2), *state = get_input (node, 3), *parts[2];
  gint64 channels = weight->type.shape[0], width = weight->type.shape[1], steps = x->type.shape[last ? 1 : 2];

  parts[0] = state != NULL ? state : rlx_build_filled (b, &node->outputs[1].type, 0.0);
  parts[1] = x;
  if (last)
    for (guint i = 0; i < 2; i++)
      parts[i] = rlx_build_swapped (b, parts[i], 1, 2);
  whole = rlx_build_concat (b, parts, 2, RLX_CONCAT_ATTRS (.axis = 2));
  if (rlx_type_n_elements (&node->outputs[0].type) > 0)
    results[0] = rlx_build_conv (b, whole, rlx_build_shaped (b, weight, (gint64[]) { channels, 1, width }, 3), bias,
                                 RLX_CONV_ATTRS (.groups = channels));
  if (whole != NULL)
    results[1] = rlx_build_part (b, whole, 2, steps, steps + width - 1);
  if (last)
    for (guint i = 0; i < 2; i++)
      results[i] = rlx_build_swapped (b, results[i], 1, 2);
  rlx_gradient_through (self, node, results, 2);
}
