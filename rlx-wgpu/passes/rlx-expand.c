/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "ops/rlx-builder-private.h"

#include "passes/rlx-passes-private.h"

/* *@more: what operators have become has operators that become others. */
static RlxIr *
expand (const RlxIr     *ir,
        const RlxTarget *target,
        gboolean        *more,
        GError         **error)
{
  g_auto(RlxRewrite) self = { 0, };
  g_autoptr(GPtrArray) inputs = g_ptr_array_new ();

  rlx_rewrite_init (&self, ir, target);
  for (guint i = 0; i < ir->nodes->len; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);

      if (node->op->expand != NULL)
        {
          g_auto(RlxBuilder) b = RLX_BUILDER (self.out, node);
          guint first = self.out->nodes->len;
          RlxIrValue *value;

          g_ptr_array_set_size (inputs, 0);
          for (guint j = 0; j < node->n_inputs; j++)
            g_ptr_array_add (inputs, node->inputs[j] != NULL ? self.map[node->inputs[j]->id] : NULL);
          value = node->op->expand (&b, node, (RlxIrValue **) inputs->pdata);
          if (b.error != NULL)
            {
              g_propagate_prefixed_error (error, g_steal_pointer (&b.error), "cannot compile %s %%%u: ", node->op->name, node->origin);
              return NULL;
            }
          for (guint j = first; j < self.out->nodes->len; j++)
            {
              const RlxOp *op = ((const RlxIrNode *) g_ptr_array_index (self.out->nodes, j))->op;

              *more = *more || (op->expand != NULL && op->lower == NULL);
            }
          if (value != NULL)
            {
              if (node->n_outputs == 1)
                b.results[0] = value;
              for (guint j = 0; j < node->n_outputs; j++)
                {
                  g_return_val_if_fail (rlx_type_equal (&b.results[j]->type, &node->outputs[j].type), NULL);
                  self.map[node->outputs[j].id] = b.results[j];
                }
              continue;
            }
        }

      rlx_rewrite_copy (&self, node);
    }

  return rlx_rewrite_end (&self);
}

RlxIr *
rlx_pass_expand (const RlxIr     *ir,
                 const RlxTarget *target,
                 GError         **error)
{
  gboolean more = FALSE;
  RlxIr *out = expand (ir, target, &more, error);

  while (out != NULL && more)
    {
      g_autoptr(RlxIr) before = out;

      more = FALSE;
      out = expand (before, target, &more, error);
    }
  return out;
}
