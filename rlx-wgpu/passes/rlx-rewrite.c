/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What every pass does: look up who uses what, and copy what stays.
 */
#include "config.h"

#include "passes/rlx-passes-private.h"

#include "ops/rlx-op-private.h"

GArray **
rlx_ir_find_users (const RlxIr    *ir,
                   const gboolean *live)
{
  GArray **users = g_new0 (GArray *, ir->n_values + 1);

  for (guint i = 0; i < ir->nodes->len; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);

      for (guint j = 0; live[i] && j < node->n_inputs; j++)
        if (node->inputs[j] != NULL)
          {
            GArray **at = &users[node->inputs[j]->id];

            if (*at == NULL)
              *at = g_array_new (FALSE, FALSE, sizeof (guint));
            g_array_append_val (*at, i);
          }
    }
  return users;
}

void
rlx_ir_free_users (const RlxIr *ir,
                   GArray     **users)
{
  for (guint i = 0; i < ir->n_values; i++)
    g_clear_pointer (&users[i], g_array_unref);
  g_free (users);
}

gboolean *
rlx_ir_find_pinned_values (const RlxIr *ir)
{
  gboolean *pinned = g_new0 (gboolean, ir->n_values + 1);

  for (guint i = 0; i < ir->outputs->len; i++)
    pinned[g_array_index (ir->outputs, RlxIrOutput, i).value->id] = TRUE;
  for (guint i = 0; i < ir->assigns->len; i++)
    pinned[g_array_index (ir->assigns, RlxIrAssign, i).value->id] = TRUE;
  return pinned;
}

RlxIrNode *
rlx_ir_copy_node (RlxIr           *out,
                  const RlxIrNode *node,
                  RlxIrValue     **map)
{
  g_autofree RlxIrValue **inputs = g_new0 (RlxIrValue *, node->n_inputs + 1);
  RlxIrNode *copy;

  for (guint i = 0; i < node->n_inputs; i++)
    inputs[i] = node->inputs[i] ? map[node->inputs[i]->id] : NULL;
  copy = rlx_ir_append_copy (out, node, inputs);
  for (guint i = 0; i < node->n_outputs; i++)
    map[node->outputs[i].id] = &copy->outputs[i];
  return copy;
}

void
rlx_ir_copy_results (RlxIr             *out,
                     const RlxIr       *ir,
                     RlxIrValue *const *map)
{
  out->precision = ir->precision;
  for (guint i = 0; i < ir->outputs->len; i++)
    {
      const RlxIrOutput *output = &g_array_index (ir->outputs, RlxIrOutput, i);

      rlx_ir_add_output (out, output->name, map[output->value->id]);
    }
  for (guint i = 0; i < ir->assigns->len; i++)
    {
      const RlxIrAssign *assign = &g_array_index (ir->assigns, RlxIrAssign, i);

      rlx_ir_add_assign (out, map[assign->state->id], map[assign->value->id]);
    }
}

gboolean
rlx_node_is (const RlxIrNode *node,
             const char      *op)
{
  return g_str_equal (node->op->name, op);
}

gboolean
rlx_node_swaps_middle (const RlxIrNode *node)
{
  static const gint64 order[] = { 0, 2, 1, 3 };
  const RlxAttrValue *permutation;

  if (!rlx_node_is (node, "transpose") || node->outputs[0].type.rank != 4)
    return FALSE;
  permutation = rlx_node_attr (node, "permutation");
  for (guint i = 0; i < 4; i++)
    if (permutation->n_ints != 4 || (permutation->ints[i] + 4) % 4 != order[i])
      return FALSE;
  return TRUE;
}

gboolean
rlx_node_is_projection (const RlxIrNode *node)
{
  const RlxIrValue *bias;

  if (rlx_node_is (node, "matmul"))
    return node->inputs[1]->type.rank == 2 && node->inputs[0]->type.rank >= 1 && rlx_node_attr (node, "transpose_a")->i == 0;
  if (!rlx_node_is (node, "linear"))
    return FALSE;
  bias = node->n_inputs > 2 ? node->inputs[2] : NULL;
  return rlx_node_attr (node, "transpose_a")->i == 0 && rlx_node_attr (node, "alpha")->f == 1.0 &&
         (bias == NULL || (rlx_node_attr (node, "beta")->f == 1.0 && bias->type.rank == 1 &&
                           bias->type.dims[0] == node->outputs[0].type.dims[node->outputs[0].type.rank - 1]));
}

const RlxIrValue *
rlx_value_skip_reshapes (const RlxIrValue *value)
{
  const RlxIrValue *found = value, *next = value;

  while (rlx_node_is (next->node, "reshape") || rlx_node_is (next->node, "squeeze") ||
         rlx_node_is (next->node, "unsqueeze"))
    {
      next = next->node->inputs[0];
      if (rlx_type_same_shape (&next->type, &value->type))
        found = next;
    }
  return found;
}
