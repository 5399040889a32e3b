/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Gradients as nodes of the graph they are of.
 */
#include "config.h"

#include "rlx-graph-private.h"

#include "ops/rlx-gradient-private.h"
#include "rlx-gradient-options-private.h"

static gboolean
add_loss (RlxGraph *self,
          GArray   *losses,
          RlxNode  *loss,
          RlxNode  *seed,
          GError  **error)
{
  RlxLoss added = { NULL };

  if (!rlx_graph_check_owner (self, "gradient", "loss", loss, error) ||
      (seed != NULL && !rlx_graph_check_owner (self, "gradient", "seed", seed, error)))
    return FALSE;

  added.value = rlx_node_get_value (loss);
  added.seed = seed != NULL ? rlx_node_get_value (seed) : NULL;
  g_array_append_val (losses, added);
  return TRUE;
}

/* With the lock. */
static gboolean
graph_gradient (RlxGraph           *self,
                RlxNode            *loss,
                RlxNode           **nodes,
                gsize               n_nodes,
                RlxGradientOptions *options,
                RlxNode           **gradients,
                GError            **error)
{
  g_autoptr(GArray) losses = g_array_new (FALSE, FALSE, sizeof (RlxLoss));
  g_autofree RlxIrValue **values = g_new0 (RlxIrValue *, n_nodes + 1);
  g_autofree RlxIrValue **results = g_new0 (RlxIrValue *, n_nodes + 1);
  guint n_before = self->ir->nodes->len;
  GError *failure = NULL;

  if (!add_loss (self, losses, loss, options != NULL ? rlx_gradient_options_get_seed (options) : NULL, error))
    return FALSE;
  for (guint i = 0; options != NULL && i < rlx_gradient_options_peek_losses (options)->len; i++)
    {
      const RlxMoreLoss *more = &g_array_index (rlx_gradient_options_peek_losses (options), RlxMoreLoss, i);

      if (!add_loss (self, losses, more->loss, more->seed, error))
        return FALSE;
    }
  for (gsize i = 0; i < n_nodes; i++)
    {
      if (!rlx_graph_check_owner (self, "gradient", "node", nodes[i], error))
        return FALSE;
      values[i] = rlx_node_get_value (nodes[i]);
    }

  if (!rlx_ir_add_gradients (self->ir, (const RlxLoss *) losses->data, losses->len, values, (guint) n_nodes,
                             options != NULL && rlx_gradient_options_get_allow_unused (options),
                             options != NULL && rlx_gradient_options_get_recompute (options), results, &failure))
    {
      rlx_graph_fail (self, failure, error);
      return FALSE;
    }
  for (guint i = n_before; i < self->ir->nodes->len; i++)
    rlx_graph_add_nodes (self, g_ptr_array_index (self->ir->nodes, i));
  for (gsize i = 0; i < n_nodes; i++)
    gradients[i] = rlx_graph_get_node (self, results[i]);
  return TRUE;
}

/**
 * rlx_graph_gradient:
 * @self: a graph
 * @loss: the node whose gradient to compute; it has one element unless @options has a
 *   seed
 * @nodes: (array length=n_nodes): the nodes to differentiate with respect to: any that
 *   the loss depends on
 * @n_nodes: the number of @nodes
 * @options: (nullable): options, or %NULL for the defaults
 * @n_gradients: (out) (optional): where to store the number of gradients, which equals
 *   @n_nodes
 * @error: where to store an error
 *
 * Adds nodes that compute the gradient of a loss with respect to other nodes.
 *
 * A gradient has the shape and data type of its node. It is a node like any other: it
 * can be an output, an operand, or part of another loss, so higher derivatives work as
 * well.
 *
 * ```python
 * loss = (x @ w - y).square().mean()
 * dw, = g.gradient(loss, [w])
 * g.assign(w, w - 0.1 * dw)
 * ```
 *
 * Where a function is not differentiable, such as relu at 0, the gradient is that of one
 * side, the same as in PyTorch. No gradient flows through operators with integer
 * results. If an operator between the loss and one of @nodes has no gradient, the call
 * fails with an error that names it; the page of each operator says whether it has one.
 *
 * Returns: (array length=n_gradients) (transfer container) (nullable): the gradients, or
 *   %NULL with an error
 *
 * Since: 1.0
 */
RlxNode **
rlx_graph_gradient (RlxGraph            *self,
                    RlxNode             *loss,
                    RlxNode            **nodes,
                    gsize                n_nodes,
                    RlxGradientOptions  *options,
                    gsize               *n_gradients,
                    GError             **error)
{
  g_autoptr(RlxGraphLock) lock = NULL;
  g_autofree RlxNode **gradients = NULL;

  if (n_gradients != NULL)
    *n_gradients = 0;

  g_return_val_if_fail (RLX_IS_GRAPH (self), NULL);
  g_return_val_if_fail (loss == NULL || RLX_IS_NODE (loss), NULL);
  g_return_val_if_fail (nodes != NULL || n_nodes == 0, NULL);
  g_return_val_if_fail (options == NULL || RLX_IS_GRADIENT_OPTIONS (options), NULL);

  lock = rlx_graph_lock (self);
  for (gsize i = 0; i <= n_nodes; i++)
    {
      RlxNode *node = i < n_nodes ? nodes[i] : loss;

      g_return_val_if_fail (node == NULL || RLX_IS_NODE (node), NULL);
      if (node == NULL)
        {
          rlx_graph_note_null (self, "gradient", i < n_nodes ? "node" : "loss");
          return NULL;
        }
    }

  gradients = g_new0 (RlxNode *, n_nodes + 1);
  if (!graph_gradient (self, loss, nodes, n_nodes, options, gradients, error))
    return NULL;

  if (n_gradients != NULL)
    *n_gradients = n_nodes;
  return g_steal_pointer (&gradients);
}
