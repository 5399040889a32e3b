/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Gradients of attention and of rotary positions.
 */
#include "config.h"

#include "ops/rlx-attention-private.h"
#include "ops/rlx-gradient-private.h"

#include <math.h>
#include <string.h>

#include "rlx-tensor-private.h"

/* ---- attention --------------------------------------------------------------------- */

/* Query heads that share a key form an axis of their own: [batch, key heads, shared, sequence, width]. */
typedef struct
{
  RlxBuilder *b;
  const RlxAttentionAttrs *attrs;
  RlxIrValue *inputs[6];       /* in attention's layout */
  RlxIrValue *result, *gradient;
  gint64 batch, heads, shared, n_queries, n_keys;
  RlxIrValue *query, *key, *value;
  double scale;
  gboolean wanted[6];
  RlxIrValue *gradients[6];    /* of the inputs */
} Attention;

/* An operand, or the result, in f32; @shared is the number of its heads that belong together. */
static RlxIrValue *
bring_in (Attention  *self,
          RlxIrValue *x,
          gint64      shared)
{
  RlxBuilder *b = self->b;

  x = rlx_build_as (b, x, RLX_DATA_TYPE_F32);
  if (self->attrs->layout != RLX_HEAD_LAYOUT_HEADS_FIRST)
    x = rlx_build_swapped (b, x, 1, 2);
  if (x == NULL)
    return NULL;
  return rlx_build_shaped (b, x, (gint64[]) { x->type.shape[0], x->type.shape[1] / MAX (shared, 1), shared, x->type.shape[2], x->type.shape[3] }, 5);
}

/* Back to the layout and the heads of the operand. */
static RlxIrValue *
bring_out (Attention  *self,
           RlxIrValue *x)
{
  const gint64 *shape;

  if (x == NULL)
    return NULL;
  shape = x->type.shape;
  x = rlx_build_shaped (self->b, x, (gint64[]) { shape[0], shape[1] * shape[2], shape[3], shape[4] }, 4);
  return self->attrs->layout != RLX_HEAD_LAYOUT_HEADS_FIRST ? rlx_build_swapped (self->b, x, 1, 2) : x;
}

/* @first_extra is the index of the mask among the operands; the other optional ones follow it. */
static void
attention_init (Attention         *self,
                RlxBuilder        *b,
                const RlxIrNode   *node,
                RlxIrValue *const *inputs,
                guint              first_extra)
{
  const RlxTensorType *query = &inputs[RLX_ATTENTION_SELF]->type, *key = &inputs[RLX_ATTENTION_KEY]->type;
  guint heads, sequence;

  *self = (Attention) { .b = b, .attrs = rlx_attention_attrs (node) };
  for (guint i = 0; i < G_N_ELEMENTS (self->inputs); i++)
    {
      guint from = i < RLX_ATTENTION_MASK ? i : i - RLX_ATTENTION_MASK + first_extra;

      self->inputs[i] = from < node->n_inputs ? inputs[from] : NULL;
    }
  heads = self->attrs->layout == RLX_HEAD_LAYOUT_HEADS_FIRST ? 1 : 2;
  sequence = 3 - heads;
  self->batch = query->shape[0];
  self->heads = key->shape[heads];
  self->shared = self->heads > 0 ? query->shape[heads] / self->heads : 1;
  self->n_queries = query->shape[sequence];
  self->n_keys = key->shape[sequence];
  self->scale = self->attrs->scale != 0 ? self->attrs->scale : query->shape[3] > 0 ? 1.0 / sqrt ((double) query->shape[3]) : 1.0;
}

/* Which keys a query may see because of its position; NULL for all. Broadcasts to the scores. */
static RlxIrValue *
find_visible (Attention *self)
{
  RlxBuilder *b = self->b;
  RlxIrValue *lengths = self->inputs[RLX_ATTENTION_KEY_LENGTHS], *visible = NULL, *queries, *keys, *first;

  if (lengths == NULL && !self->attrs->causal && self->attrs->window == 0)
    return NULL;

  keys = rlx_build_iota (b, self->n_keys);
  queries = rlx_build_shaped (b, rlx_build_iota (b, self->n_queries), (gint64[]) { self->n_queries, 1 }, 2);
  if (lengths != NULL)
    {
      lengths = rlx_build_clamp (b, lengths, RLX_CLAMP_ATTRS (.minimum = 0, .maximum = (double) self->n_keys));
      lengths = rlx_build_shaped (b, lengths, (gint64[]) { (gint64) rlx_type_n_elements (&lengths->type), 1, 1, 1, 1 }, 5);
      visible = rlx_build_less (b, keys, lengths);
    }
  else
    {
      lengths = rlx_build_constant (b, rlx_tensor_new_scalar (RLX_DATA_TYPE_I32, (double) self->n_keys, NULL));
    }
  first = rlx_build_sub (b, lengths, rlx_build_constant (b, rlx_tensor_new_scalar (RLX_DATA_TYPE_I32, (double) self->n_queries, NULL)));
  queries = rlx_build_add (b, queries, first);
  if (self->attrs->causal)
    {
      RlxIrValue *before = rlx_build_less_equal (b, keys, queries);

      visible = visible != NULL ? rlx_build_logical_and (b, visible, before) : before;
    }
  if (self->attrs->window > 0)
    {
      double window = (double) MIN (self->attrs->window, (gint64) G_MAXINT32);
      RlxIrValue *away = rlx_build_abs (b, rlx_build_sub (b, keys, queries));
      RlxIrValue *near = rlx_build_less (b, away, rlx_build_constant (b, rlx_tensor_new_scalar (RLX_DATA_TYPE_I32, window, NULL)));

      visible = visible != NULL ? rlx_build_logical_and (b, visible, near) : near;
    }
  return visible;
}

/* A mask as [batch, key heads, shared, queries, keys], with dimensions of 1 where it applies to all. */
static RlxIrValue *
get_mask (Attention *self)
{
  RlxIrValue *mask = self->inputs[RLX_ATTENTION_MASK];
  gint64 shape[5] = { 1, 1, 1, 1, 1 };

  if (mask == NULL)
    return NULL;
  for (guint i = 0; i < mask->type.n_dims; i++)
    {
      guint axis = 4 - mask->type.n_dims + i;

      shape[axis < 2 ? axis : axis + 1] = mask->type.shape[i];
    }
  if (shape[1] > 1)
    {
      shape[2] = self->shared;
      shape[1] = self->heads;
    }
  return rlx_build_shaped (self->b, mask, shape, 5);
}

/* With the weights p, recomputed: dv = pᵀ g, ds = p · (g vᵀ - Σ g · y), dq = scale · ds k, dk = scale · dsᵀ q.
 * Grouped keys sum over the queries of their group. */
static void
attention_differentiate (Attention *self)
{
  RlxBuilder *b = self->b;
  RlxIrValue *mask, *visible, *scores, *cap = NULL, *shares, *most, *sum, *sink, *zero, *g, *y, *inner, *ds;
  const gint64 last = 4;

  /* There are no keys, or they have no columns. */
  if (rlx_type_n_elements (&self->gradient->type) == 0 || rlx_type_n_elements (&self->inputs[RLX_ATTENTION_VALUE]->type) == 0)
    {
      for (guint i = 0; i < G_N_ELEMENTS (self->inputs); i++)
        if (self->wanted[i])
          self->gradients[i] = rlx_build_filled (b, &self->inputs[i]->type, 0.0);
      return;
    }

  self->query = bring_in (self, self->inputs[RLX_ATTENTION_SELF], self->shared);
  self->key = bring_in (self, self->inputs[RLX_ATTENTION_KEY], 1);
  self->value = bring_in (self, self->inputs[RLX_ATTENTION_VALUE], 1);
  mask = get_mask (self);
  visible = find_visible (self);
  sink = self->inputs[RLX_ATTENTION_SINK];
  scores = rlx_build_matmul (b, self->query, self->key, RLX_MATMUL_ATTRS (.transpose_b = TRUE));
  scores = rlx_build_mul (b, scores, rlx_build_number (b, scores, self->scale));
  zero = rlx_build_number (b, scores, 0.0);
  if (self->attrs->softcap > 0)
    {
      RlxIrValue *limit = rlx_build_number (b, scores, self->attrs->softcap);

      cap = rlx_build_tanh (b, rlx_build_div (b, scores, limit));
      scores = rlx_build_mul (b, cap, limit);
    }
  if (mask != NULL && mask->type.data_type == RLX_DATA_TYPE_BOOL)
    visible = visible != NULL ? rlx_build_logical_and (b, visible, mask) : mask;
  else if (mask != NULL)
    scores = rlx_build_add (b, scores, rlx_build_as (b, mask, RLX_DATA_TYPE_F32));
  if (visible != NULL)
    scores = rlx_build_where (b, visible, scores, rlx_build_number (b, scores, -INFINITY));

  most = rlx_build_reduce_max (b, scores, RLX_REDUCE_MAX_ATTRS (.axes = RLX_INTS (&last, 1), .keep_dims = TRUE));
  if (sink != NULL)
    {
      sink = rlx_build_as (b, rlx_build_shaped (b, sink, (gint64[]) { self->heads, self->shared, 1, 1 }, 4), RLX_DATA_TYPE_F32);
      most = rlx_build_max (b, most, sink);
    }
  /* A common offset cancels out. A query that sees nothing has no largest score. */
  most = rlx_build_stop_gradient (b, rlx_build_where (b, rlx_build_is_inf (b, most, NULL), zero, most));
  shares = rlx_build_exp (b, rlx_build_sub (b, scores, most));
  sum = rlx_build_sum_along (b, shares, last);
  if (sink != NULL)
    {
      sink = rlx_build_exp (b, rlx_build_sub (b, sink, most));
      sum = rlx_build_add (b, sum, sink);
    }
  sum = rlx_build_where (b, rlx_build_equal (b, sum, zero), rlx_build_number (b, sum, 1.0), sum);
  shares = rlx_build_div (b, shares, sum);

  g = bring_in (self, self->gradient, self->shared);
  y = bring_in (self, self->result, self->shared);
  inner = rlx_build_sum_along (b, rlx_build_mul (b, g, y), last);
  if (self->wanted[RLX_ATTENTION_VALUE])
    {
      RlxIrValue *dv = rlx_build_matmul (b, shares, g, RLX_MATMUL_ATTRS (.transpose_a = TRUE));

      self->gradients[RLX_ATTENTION_VALUE] = bring_out (self, rlx_build_sum_to (b, dv, &self->value->type));
    }
  if (self->wanted[RLX_ATTENTION_SINK])
    {
      RlxTensorType heads = { .data_type = RLX_DATA_TYPE_F32, .n_dims = 5, .shape = { 1, self->heads, self->shared, 1, 1 } };
      RlxIrValue *ds_sink = rlx_build_neg (b, rlx_build_mul (b, rlx_build_div (b, sink, sum), inner));

      self->gradients[RLX_ATTENTION_SINK] = rlx_build_shaped (b, rlx_build_sum_to (b, ds_sink, &heads), self->inputs[RLX_ATTENTION_SINK]->type.shape,
                                                              self->inputs[RLX_ATTENTION_SINK]->type.n_dims);
    }
  if (!self->wanted[RLX_ATTENTION_SELF] && !self->wanted[RLX_ATTENTION_KEY] && !self->wanted[RLX_ATTENTION_MASK])
    return;

  ds = rlx_build_matmul (b, g, self->value, RLX_MATMUL_ATTRS (.transpose_b = TRUE));
  ds = rlx_build_mul (b, shares, rlx_build_sub (b, ds, inner));
  if (self->wanted[RLX_ATTENTION_MASK])
    self->gradients[RLX_ATTENTION_MASK] = rlx_build_shaped (b, rlx_build_sum_to (b, ds, &mask->type), self->inputs[RLX_ATTENTION_MASK]->type.shape,
                                                            self->inputs[RLX_ATTENTION_MASK]->type.n_dims);
  if (cap != NULL)
    ds = rlx_build_mul (b, ds, rlx_build_sub (b, rlx_build_number (b, ds, 1.0), rlx_build_mul (b, cap, cap)));
  ds = rlx_build_mul (b, ds, rlx_build_number (b, ds, self->scale));
  if (self->wanted[RLX_ATTENTION_SELF])
    self->gradients[RLX_ATTENTION_SELF] = bring_out (self, rlx_build_matmul (b, ds, self->key, NULL));
  if (self->wanted[RLX_ATTENTION_KEY])
    {
      RlxIrValue *dk = rlx_build_matmul (b, ds, self->query, RLX_MATMUL_ATTRS (.transpose_a = TRUE));

      self->gradients[RLX_ATTENTION_KEY] = bring_out (self, rlx_build_sum_to (b, dk, &self->key->type));
    }
}

void
rlx_attention_gradient (RlxGradient     *self,
                        const RlxIrNode *node)
{
  static const guint kernels[] = { RLX_ATTENTION_SELF, RLX_ATTENTION_KEY, RLX_ATTENTION_VALUE };
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *const *in = node->inputs;
  RlxIrValue *extras[3] = { NULL, };
  RlxIrNode *made;
  Attention a;

  attention_init (&a, b, node, node->inputs, RLX_ATTENTION_MASK);
  a.gradient = rlx_gradient_get (self, node, 0);
  a.result = &node->outputs[0];
  for (guint i = 0; i < G_N_ELEMENTS (a.wanted); i++)
    a.wanted[i] = rlx_gradient_wants (self, node, i);
  if (a.wanted[RLX_ATTENTION_MASK] || a.wanted[RLX_ATTENTION_SINK] || !rlx_attention_backward_fits (node))
    {
      attention_differentiate (&a);
      for (guint i = 0; i < G_N_ELEMENTS (a.wanted); i++)
        rlx_gradient_add (self, node, i, a.gradients[i]);
      return;
    }

  for (guint i = RLX_ATTENTION_MASK; i < node->n_inputs; i++)
    extras[i - RLX_ATTENTION_MASK] = in[i];
  made = rlx_build_attention_backward (b, rlx_build_as (b, in[0], RLX_DATA_TYPE_F32), rlx_build_as (b, in[1], RLX_DATA_TYPE_F32),
                                       rlx_build_as (b, in[2], RLX_DATA_TYPE_F32), rlx_build_as (b, a.result, RLX_DATA_TYPE_F32),
                                       rlx_build_as (b, a.gradient, RLX_DATA_TYPE_F32), extras[0], extras[1], extras[2], a.attrs);
  for (guint i = 0; made != NULL && i < G_N_ELEMENTS (kernels); i++)
    rlx_gradient_add (self, node, kernels[i], &made->outputs[i]);
}

/* The equivalent of attention_backward, composed of other operators. */
static void
backward_differentiate (RlxBuilder        *b,
                        const RlxIrNode   *node,
                        RlxIrValue *const *inputs,
                        RlxIrValue       **results)
{
  Attention a;

  attention_init (&a, b, node, inputs, RLX_ATTENTION_BACKWARD_MASK);
  a.result = inputs[RLX_ATTENTION_BACKWARD_RESULT];
  a.gradient = inputs[RLX_ATTENTION_BACKWARD_GRADIENT];
  a.wanted[RLX_ATTENTION_SELF] = a.wanted[RLX_ATTENTION_KEY] = a.wanted[RLX_ATTENTION_VALUE] = TRUE;
  attention_differentiate (&a);
  memcpy (results, a.gradients, 3 * sizeof (RlxIrValue *));
}

RlxIrValue *
rlx_attention_backward_expand (RlxBuilder        *b,
                               const RlxIrNode   *node,
                               RlxIrValue *const *inputs)
{
  if (rlx_attention_backward_fits (node) && rlx_type_n_elements (&inputs[RLX_ATTENTION_BACKWARD_GRADIENT]->type) > 0 &&
      rlx_type_n_elements (&inputs[RLX_ATTENTION_BACKWARD_VALUE]->type) > 0)
    return NULL;

  backward_differentiate (b, node, inputs, b->results);
  return b->results[0];
}

void
rlx_attention_backward_gradient (RlxGradient     *self,
                                 const RlxIrNode *node)
{
  RlxIrValue *results[3] = { NULL, };

  backward_differentiate (rlx_gradient_get_builder (self), node, node->inputs, results);
  rlx_gradient_through (self, node, results, 3);
}

/* ---- rotary positions ---------------------------------------------------------------- */

/* A rotation's gradient rotates backwards. */
void
rlx_rope_gradient (RlxGradient     *self,
                   const RlxIrNode *node)
{
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxRopeAttrs attrs = *rlx_rope_attrs (node);
  RlxIrValue *g = rlx_gradient_get (self, node, 0), *sines = node->inputs[RLX_ROPE_SINES];

  if (rlx_gradient_wants (self, node, RLX_ROPE_COSINES) || rlx_gradient_wants (self, node, RLX_ROPE_SINES))
    {
      rlx_gradient_refuse (self, node, "tables of angles have no gradient");
      return;
    }

  attrs.scale = -attrs.scale;
  if (sines != NULL)
    {
      guint last = sines->type.n_dims - 1;
      gint64 width = node->inputs[0]->type.shape[3], axis = last;
      gint64 rotated = attrs.rotated > 0 ? attrs.rotated : width;

      /* If both elements of a pair have their own sine, these are swapped. */
      if (sines->type.shape[last] == rotated && rotated > 0)
        {
          gint64 shape[RLX_MAX_DIMS], half = rotated / 2, pairs = last + (attrs.interleaved ? 1 : 0);

          memcpy (shape, sines->type.shape, sizeof shape);
          shape[last] = half;
          shape[last + 1] = 2;
          if (attrs.interleaved)
            {
              sines = rlx_build_shaped (b, sines, shape, last + 2);
              sines = rlx_build_reverse (b, sines, RLX_REVERSE_ATTRS (.axes = RLX_INTS (&pairs, 1)));
              sines = rlx_build_shaped (b, sines, node->inputs[RLX_ROPE_SINES]->type.shape, last + 1);
            }
          else
            {
              sines = rlx_build_roll (b, sines, RLX_ROLL_ATTRS (.shifts = RLX_INTS (&half, 1), .axes = RLX_INTS (&axis, 1)));
            }
        }
      sines = rlx_build_neg (b, sines);
    }
  rlx_gradient_add (self, node, 0, rlx_build_rope (b, g, node->inputs[RLX_ROPE_POSITIONS], node->inputs[RLX_ROPE_COSINES], sines, &attrs));
}

void
rlx_rope_2d_gradient (RlxGradient     *self,
                      const RlxIrNode *node)
{
  RlxRopeAttrs attrs = *rlx_rope_attrs (node);

  attrs.scale = -attrs.scale;
  rlx_gradient_add (self, node, 0, rlx_build_rope_2d (rlx_gradient_get_builder (self), rlx_gradient_get (self, node, 0),
                                                      node->inputs[RLX_ROPE_2D_POSITIONS], &attrs));
}
