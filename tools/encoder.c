/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include <math.h>

#include "rlx-tool.h"

typedef struct
{
  RlxGraph *graph;
  GRand *random;
  GError **error;
} Builder;

/* Uniformly distributed with this variance. */
static RlxNode *
weights (Builder *self,
         gint64   rows,
         gint64   columns,
         double   variance)
{
  const gint64 shape[] = { rows, columns };
  gsize n = (gsize) (rows * columns);
  double limit = sqrt (3.0 * variance);
  g_autofree float *values = g_new (float, n);
  g_autoptr(RlxTensor) tensor = NULL;

  for (gsize i = 0; i < n; i++)
    values[i] = (float) g_rand_double_range (self->random, -limit, limit);
  tensor = rlx_tensor_new_from_floats (shape, 2, values, n, self->error);
  return tensor ? rlx_graph_constant (self->graph, tensor, self->error) : NULL;
}

static RlxNode *
vector (Builder *self,
        gint64   size,
        double   center)
{
  g_autofree float *values = g_new (float, (gsize) size);
  g_autoptr(RlxTensor) tensor = NULL;

  for (gint64 i = 0; i < size; i++)
    values[i] = (float) (center + g_rand_double_range (self->random, -0.1, 0.1));
  tensor = rlx_tensor_new_from_floats (&size, 1, values, (gsize) size, self->error);
  return tensor ? rlx_graph_constant (self->graph, tensor, self->error) : NULL;
}

static RlxNode *
linear (Builder *self,
        RlxNode *x,
        gint64   rows,
        gint64   columns)
{
  /* keeps the magnitude of activations */
  RlxNode *w = weights (self, rows, columns, 1.0 / (double) rows);
  RlxNode *b = vector (self, columns, 0);

  return rlx_node_linear (x, w, b, NULL, self->error);
}

/* [sequence, width] to [1, heads, sequence, width / heads] */
static RlxNode *
split_heads (Builder                *self,
             const RlxEncoderConfig *config,
             RlxNode                *x)
{
  const gint64 shape[] = { 1, config->sequence, config->heads, config->width / config->heads };
  const gint64 order[] = { 0, 2, 1, 3 };

  return rlx_node_transpose (rlx_node_reshape (x, shape, 4, self->error), order, 4, self->error);
}

static RlxNode *
layer (Builder                *self,
       const RlxEncoderConfig *config,
       RlxNode                *x)
{
  const gint64 width = config->width, flat[] = { config->sequence, width }, order[] = { 0, 2, 1, 3 };
  GError **error = self->error;
  RlxNode *normal, *q, *k, *v, *attended, *hidden;

  normal = rlx_node_layer_norm (x, vector (self, width, 1), vector (self, width, 0), NULL, error);
  q = split_heads (self, config, linear (self, normal, width, width));
  k = split_heads (self, config, linear (self, normal, width, width));
  v = split_heads (self, config, linear (self, normal, width, width));
  attended = rlx_node_attention (q, k, v, NULL, NULL, NULL, NULL, error);
  attended = rlx_node_reshape (rlx_node_transpose (attended, order, 4, error), flat, 2, error);
  x = rlx_node_add (x, linear (self, attended, width, width), error);

  normal = rlx_node_layer_norm (x, vector (self, width, 1), vector (self, width, 0), NULL, error);
  hidden = rlx_node_gelu (linear (self, normal, width, config->hidden), error);
  return rlx_node_add (x, linear (self, hidden, config->hidden, width), error);
}

RlxGraph *
rlx_encoder_new (const RlxEncoderConfig *config,
                 GError                **error)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(GRand) random = g_rand_new_with_seed (2026);
  g_autoptr(GError) local = NULL;
  Builder self = { graph, random, &local };
  RlxNode *x = rlx_node_gather (weights (&self, config->vocabulary, config->width, 1),
                                rlx_graph_input (graph, "tokens", RLX_DATA_TYPE_I32, &config->sequence, 1, &local), 0, NULL, &local);

  for (guint i = 0; i < config->layers && local == NULL; i++)
    x = layer (&self, config, x);
  if (local == NULL)
    x = rlx_node_layer_norm (x, vector (&self, config->width, 1), vector (&self, config->width, 0), NULL, &local);
  if (local != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local));
      return NULL;
    }
  rlx_graph_output (graph, "y", x, NULL);
  return g_steal_pointer (&graph);
}

RlxTensor *
rlx_encoder_tokens (const RlxEncoderConfig *config,
                    guint                   seed)
{
  g_autoptr(GRand) random = g_rand_new_with_seed (seed);
  g_autofree gint64 *tokens = g_new (gint64, (gsize) config->sequence);

  for (gint64 i = 0; i < config->sequence; i++)
    tokens[i] = g_rand_int_range (random, 0, (gint32) config->vocabulary);
  return rlx_tensor_new_from_ints (RLX_DATA_TYPE_I32, &config->sequence, 1, tokens, (gsize) config->sequence, NULL);
}
