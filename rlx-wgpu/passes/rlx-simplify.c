/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "passes/rlx-passes-private.h"

#include <string.h>

#include "ir/rlx-op-private.h"
#include "util/rlx-debug-private.h"

gboolean *
rlx_ir_find_live_nodes (const RlxIr *ir)
{
  gboolean *live = g_new0 (gboolean, ir->nodes->len + 1);

  for (guint i = 0; i < ir->outputs->len; i++)
    live[g_array_index (ir->outputs, RlxIrOutput, i).value->node->id] = TRUE;
  for (guint i = 0; i < ir->assigns->len; i++)
    live[g_array_index (ir->assigns, RlxIrAssign, i).value->node->id] = TRUE;

  for (guint i = ir->nodes->len; i-- > 0;)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);

      /* callers bind these by position or name */
      if ((node->op->flags & RLX_OP_LEAF) && !rlx_ir_node_is (node, RLX_OP_ID_CONSTANT))
        live[i] = TRUE;
      if (node->op->flags & RLX_OP_REPORT)
        live[i] = TRUE;
      for (guint j = 0; live[i] && j < node->n_inputs; j++)
        if (node->inputs[j] != NULL)
          live[node->inputs[j]->node->id] = TRUE;
    }
  return live;
}

gboolean *
rlx_ir_find_constant_nodes (const RlxIr *ir)
{
  gboolean *constant = g_new0 (gboolean, ir->nodes->len + 1);

  for (guint i = 0; i < ir->nodes->len; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);

      if (node->op->flags & RLX_OP_LEAF)
        {
          constant[i] = rlx_ir_node_is (node, RLX_OP_ID_CONSTANT) || rlx_ir_node_is (node, RLX_OP_ID_PARAMETER);
          continue;
        }
      /* An expand would only fill memory, so it is left to its users. Each run creates its own report. */
      constant[i] = !RLX_DEBUG_CHECK (NO_FOLD) && !rlx_ir_node_is (node, RLX_OP_ID_EXPAND) && !(node->op->flags & RLX_OP_REPORT);
      for (guint j = 0; constant[i] && j < node->n_inputs; j++)
        if (node->inputs[j] != NULL)
          constant[i] = constant[node->inputs[j]->node->id];
    }
  return constant;
}

/* A node that returns its first input unchanged. */
static gboolean
is_no_op (const RlxIrNode *node)
{
  const RlxIrValue *input = node->n_inputs > 0 ? node->inputs[0] : NULL;

  if (rlx_ir_node_is (node, RLX_OP_ID_IDENTITY) || rlx_ir_node_is (node, RLX_OP_ID_STOP_GRADIENT))
    return TRUE;
  if (input == NULL || node->n_outputs != 1 || !rlx_type_equal (&input->type, &node->outputs[0].type))
    return FALSE;
  if (rlx_ir_node_is (node, RLX_OP_ID_CAST) || rlx_ir_node_is (node, RLX_OP_ID_RESHAPE) || rlx_ir_node_is (node, RLX_OP_ID_EXPAND))
    return TRUE;
  if (rlx_ir_node_is (node, RLX_OP_ID_CONCAT))
    return node->n_inputs == 1;
  if (rlx_ir_node_is (node, RLX_OP_ID_TRANSPOSE))
    {
      for (guint i = 0; i < input->type.n_dims; i++)
        if (rlx_transpose_get_axis (node, i) != i)
          return FALSE;
      return TRUE;
    }
  if (rlx_ir_node_is (node, RLX_OP_ID_SLICE))
    {
      const RlxInts *steps = &rlx_slice_attrs (node)->steps;

      /* whole axes: forwards only when nothing is reversed */
      for (guint i = 0; i < steps->n_values; i++)
        if (steps->values[i] < 0)
          return FALSE;
      return TRUE;
    }
  return FALSE;
}

/* Gradients add the same numbers many times. Zeros of both signs are distinct. */
static gboolean
get_number (const RlxIrNode *node,
            double          *number,
            gint64          *integer)
{
  return rlx_ir_node_is (node, RLX_OP_ID_CONSTANT) && rlx_ir_value_get_immediate (&node->outputs[0], number, integer);
}

static gboolean
has_same_data (const RlxIrNode *m,
               const RlxIrNode *n)
{
  double number[2] = { 0 };
  gint64 integer[2] = { 0 };

  if (m->data == n->data)
    return TRUE;
  return m->data != NULL && n->data != NULL && rlx_type_equal (&m->outputs[0].type, &n->outputs[0].type) &&
         get_number (m, &number[0], &integer[0]) && get_number (n, &number[1], &integer[1]) &&
         memcmp (&number[0], &number[1], sizeof (double)) == 0 && integer[0] == integer[1];
}

static guint
node_hash (gconstpointer key)
{
  const RlxIrNode *node = key;
  double number;
  gint64 integer;
  guint hash = g_direct_hash (node->op) ^ (get_number (node, &number, &integer) ? g_double_hash (&number) ^ g_int64_hash (&integer)
                                                                                : g_direct_hash (node->data));

  for (guint i = 0; i < node->n_inputs; i++)
    hash = hash * 31 + (node->inputs[i] ? node->inputs[i]->id + 1 : 0);
  return hash * 31 + rlx_attrs_hash (node->op, node->attrs);
}

static gboolean
node_equal (gconstpointer a,
            gconstpointer b)
{
  const RlxIrNode *m = a, *n = b;

  return m->op == n->op && m->n_inputs == n->n_inputs && has_same_data (m, n) &&
         memcmp (m->inputs, n->inputs, m->n_inputs * sizeof (RlxIrValue *)) == 0 &&
         rlx_attrs_equal (m->op, m->attrs, n->attrs);
}

static gboolean
may_share (const RlxIrNode *node)
{
  return !(node->op->flags & RLX_OP_INTERNAL) && (rlx_ir_node_is (node, RLX_OP_ID_CONSTANT) || !(node->op->flags & RLX_OP_LEAF));
}

RlxIr *
rlx_pass_simplify (const RlxIr     *ir,
                   const RlxTarget *target,
                   GError         **error)
{
  g_auto(RlxRewrite) self = { 0, };
  g_autoptr(GHashTable) seen = g_hash_table_new (node_hash, node_equal);

  rlx_rewrite_init (&self, ir, target);
  for (guint i = 0; i < ir->nodes->len; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);
      RlxIrNode *copy, *same;

      if (!self.live[i])
        continue;
      if (is_no_op (node))
        {
          self.map[node->outputs[0].id] = self.map[node->inputs[0]->id];
          continue;
        }

      copy = rlx_rewrite_copy (&self, node);
      same = may_share (node) ? g_hash_table_lookup (seen, copy) : NULL;
      if (same == NULL && may_share (node))
        g_hash_table_add (seen, copy);
      /* A copy that turns out to be a duplicate remains without users; the next pass
       * over the graph removes it. */
      for (guint j = 0; same != NULL && j < node->n_outputs; j++)
        self.map[node->outputs[j].id] = &same->outputs[j];
    }

  return rlx_rewrite_end (&self);
}
