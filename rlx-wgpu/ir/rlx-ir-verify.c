/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What holds of every graph, whichever pass made it.
 */
#include "config.h"

#include "ir/rlx-ir-private.h"

#include "ir/rlx-op-private.h"

static gboolean
fail (const RlxIrNode *node,
      GError         **error,
      const char      *what)
{
  g_set_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_INTERNAL,
               "%s %%%u: %s", node->op->name, node->id, what);
  return FALSE;
}

/* Whether @value is a result of a node of @ir before number @end. */
static gboolean
is_known (const RlxIr      *ir,
          const RlxIrValue *value,
          guint             end)
{
  const RlxIrNode *node = value->node;

  return node != NULL && node->id < end && node->id < ir->nodes->len &&
         g_ptr_array_index (ir->nodes, node->id) == node &&
         value->index < node->n_outputs && value == &node->outputs[value->index];
}

/* The operator's rule must agree with the node. */
static gboolean
check_types (const RlxIrNode *node,
             GError         **error)
{
  g_autoptr(GArray) types = g_array_new (FALSE, FALSE, sizeof (RlxTensorType));
  g_autofree const RlxTensorType **inputs = g_new0 (const RlxTensorType *, node->n_inputs + 1);
  g_autoptr(GError) local = NULL;
  RlxOpCall call = {
    .op = node->op,
    .name = node->name,
    .attrs = node->attrs,
    .inputs = inputs,
    .n_inputs = node->n_inputs,
    .outputs = types,
  };

  for (guint i = 0; i < node->n_inputs; i++)
    if (node->inputs[i] != NULL)
      inputs[i] = &node->inputs[i]->type;
  if (!rlx_op_infer (&call, &local))
    return fail (node, error, local->message);
  if (types->len != node->n_outputs)
    return fail (node, error, "it does not have as many results as its rule says");
  for (guint i = 0; i < types->len; i++)
    if (!rlx_type_equal (&g_array_index (types, RlxTensorType, i), &node->outputs[i].type))
      {
        g_autofree char *is = rlx_type_to_string (&node->outputs[i].type);
        g_autofree char *should = rlx_type_to_string (&g_array_index (types, RlxTensorType, i));
        g_autofree char *text = g_strdup_printf ("result %u is %s, its rule says %s", i, is, should);

        return fail (node, error, text);
      }
  return TRUE;
}

gboolean
rlx_ir_verify (const RlxIr *ir,
               GError     **error)
{
  g_autofree gboolean *seen = g_new0 (gboolean, ir->n_values + 1);

  for (guint i = 0; i < ir->nodes->len; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);

      if (node->id != i)
        return fail (node, error, "its number is not its place");
      for (guint j = 0; j < node->n_inputs; j++)
        if (node->inputs[j] != NULL && !is_known (ir, node->inputs[j], i))
          return fail (node, error, "an input is not the result of an earlier node");
      for (guint j = 0; j < node->n_outputs; j++)
        {
          const RlxIrValue *value = &node->outputs[j];

          if (value->node != node || value->index != j || value->id >= ir->n_values || seen[value->id])
            return fail (node, error, "a result is not its own, or has no number of its own");
          seen[value->id] = TRUE;
        }
      /* The rule does not know about an epilogue, its inputs and its result type. */
      if (node->op->infer != NULL && node->payload == NULL &&
          !(node->op->flags & (RLX_OP_LEAF | RLX_OP_INTERNAL)) && !check_types (node, error))
        return FALSE;
      if (node->op == &rlx_op_constant && node->data == NULL)
        return fail (node, error, "it has no value");
    }

  for (guint i = 0; i < ir->outputs->len; i++)
    if (!is_known (ir, g_array_index (ir->outputs, RlxIrOutput, i).value, ir->nodes->len))
      {
        g_set_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_INTERNAL, "output %u is not a value of the graph", i);
        return FALSE;
      }
  for (guint i = 0; i < ir->assigns->len; i++)
    {
      const RlxIrAssign *assign = &g_array_index (ir->assigns, RlxIrAssign, i);

      if (!is_known (ir, assign->state, ir->nodes->len) || !is_known (ir, assign->value, ir->nodes->len) ||
          !rlx_type_equal (&assign->state->type, &assign->value->type))
        {
          g_set_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_INTERNAL,
                       "assignment %u does not refer to a value of the graph, or to one of another type", i);
          return FALSE;
        }
    }
  return TRUE;
}
