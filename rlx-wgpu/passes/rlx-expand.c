/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "ops/rlx-builder-private.h"

#include "passes/rlx-passes-private.h"

RlxIr *
rlx_pass_expand (const RlxIr     *ir,
                 const RlxTarget *target,
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
          if (value != NULL)
            {
              g_return_val_if_fail (rlx_type_equal (&value->type, &node->outputs[0].type), NULL);
              self.map[node->outputs[0].id] = value;
              continue;
            }
        }

      rlx_rewrite_copy (&self, node);
    }

  return rlx_rewrite_end (&self);
}
