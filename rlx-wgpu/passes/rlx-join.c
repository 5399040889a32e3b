/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Finds what a transformer's layer is made of:
 *
 * - Two or three products of one matrix with weights become one joint_linear,
 *   unless what follows one of them can be its epilogue.
 * - Attention takes each of its operands as it was before a transpose that brings the
 *   heads forward, and leaves its result as it is after one that brings them back.
 */
#include "config.h"

#include "passes/rlx-passes-private.h"

#include "ops/rlx-attention-private.h"
#include "ops/rlx-product-private.h"
#include "util/rlx-debug-private.h"

/* The node that is built for several is built where the first of them stands. */
#define MAX_JOINT 3

typedef struct
{
  const RlxIrNode *nodes[MAX_JOINT];
  guint n;
} Joint;

typedef struct
{
  const RlxIr *ir;
  RlxIr *out;
  gboolean *live;
  GArray **users;          /* by value id: ids of live nodes that read it */
  gboolean *pinned;        /* by value id: an output or an assigned value */
  RlxIrValue **map;        /* by value id: what stands for it in @out */
  GHashTable *joints;      /* RlxIrNode, the first → Joint */
} Joiner;

/* ---- products that share an operand ------------------------------------------------ */

static const RlxIrValue *
get_bias (const RlxIrNode *node)
{
  return rlx_node_is (node, "linear") && node->n_inputs > 2 ? node->inputs[2] : NULL;
}

static gboolean
is_own_leaf (Joiner           *self,
             const RlxIrValue *value)
{
  return (rlx_node_is (value->node, "parameter") || rlx_node_is (value->node, "constant")) &&
         self->users[value->id]->len == 1 && !self->pinned[value->id];
}

/* Whether @node may be one of several. An element-wise user would rather be its
 * epilogue. */
static gboolean
can_join (Joiner          *self,
          const RlxIrNode *node)
{
  const RlxIrValue *value = &node->outputs[0];
  const GArray *users = self->users[value->id];

  if (!rlx_node_is_projection (node) || rlx_type_n_elements (&value->type) == 0 || node->inputs[0]->type.rank < 2 ||
      self->pinned[value->id] || users == NULL ||
      !is_own_leaf (self, node->inputs[1]) || (get_bias (node) != NULL && !is_own_leaf (self, get_bias (node))))
    return FALSE;
  for (guint i = 0; i < users->len; i++)
    {
      const RlxIrNode *user = g_ptr_array_index (self->ir->nodes, g_array_index (users, guint, i));

      if (user->op->flags & RLX_OP_ELEMENTWISE)
        return FALSE;
    }
  return TRUE;
}

static gboolean
fit_together (const RlxIrNode *a,
              const RlxIrNode *b)
{
  return a->inputs[1]->type.dtype == b->inputs[1]->type.dtype && (get_bias (a) == NULL) == (get_bias (b) == NULL) &&
         rlx_node_attr (a, "transpose_b")->i == rlx_node_attr (b, "transpose_b")->i;
}

static void
find_joints (Joiner *self)
{
  for (guint i = 0; i < self->ir->n_values; i++)
    {
      const GArray *users = self->users[i];
      Joint joint = { { NULL, }, 0 };

      for (guint j = 0; users != NULL && j < users->len && joint.n < MAX_JOINT; j++)
        {
          const RlxIrNode *user = g_ptr_array_index (self->ir->nodes, g_array_index (users, guint, j));

          if (user->n_inputs >= 2 && user->inputs[0] != NULL && user->inputs[0]->id == i && can_join (self, user) &&
              (joint.n == 0 || fit_together (joint.nodes[0], user)))
            joint.nodes[joint.n++] = user;
        }
      if (joint.n > 1)
        g_hash_table_insert (self->joints, (gpointer) joint.nodes[0], g_memdup2 (&joint, sizeof joint));
    }
}

static void
append_joint (Joiner      *self,
              const Joint *joint)
{
  const RlxIrNode *first = joint->nodes[0];
  RlxIrValue *inputs[1 + 2 * MAX_JOINT] = { self->map[first->inputs[0]->id], };
  RlxTensorType types[MAX_JOINT];
  guint n = joint->n;
  RlxIrNode *node;

  for (guint i = 0; i < n; i++)
    {
      inputs[1 + i] = self->map[joint->nodes[i]->inputs[1]->id];
      if (get_bias (first) != NULL)
        inputs[1 + n + i] = self->map[get_bias (joint->nodes[i])->id];
      types[i] = joint->nodes[i]->outputs[0].type;
    }
  node = rlx_ir_append (self->out,
                        rlx_node_attr (first, "transpose_b")->i != 0 ? &rlx_op_joint_linear_transposed : &rlx_op_joint_linear,
                        NULL, inputs, get_bias (first) ? 1 + 2 * n : 1 + n, types, n);
  node->origin = first->origin;
  node->name = g_strdup (first->name);
  for (guint i = 0; i < n; i++)
    self->map[joint->nodes[i]->outputs[0].id] = &node->outputs[i];
  RLX_NOTE (FUSE, "%%%u: %u products share their first operand", first->outputs[0].id, n);
}

/* ---- attention ----------------------------------------------------------------------- */

/* The value in front of an exchange of heads and sequence; NULL when there is none. */
static const RlxIrValue *
find_unswapped (const RlxIrValue *value)
{
  const RlxIrNode *node = rlx_value_skip_reshapes (value)->node;

  return rlx_node_swaps_middle (node) ? node->inputs[0] : NULL;
}

static gboolean
append_attention (Joiner          *self,
                  const RlxIrNode *node)
{
  const RlxIrValue *result = &node->outputs[0];
  const GArray *users = self->users[result->id];
  g_autoptr(GPtrArray) inputs = NULL;
  guint swapped = 0;
  RlxIrNode *copy;

  if (!rlx_node_is (node, "attention"))
    return FALSE;

  inputs = g_ptr_array_new ();
  for (guint i = 0; i < node->n_inputs; i++)
    {
      const RlxIrValue *value = node->inputs[i], *unswapped = i < 3 ? find_unswapped (value) : NULL;

      if (unswapped != NULL)
        {
          swapped |= 1u << i;
          value = unswapped;
        }
      g_ptr_array_add (inputs, value == NULL ? NULL : self->map[value->id]);
    }
  if (!self->pinned[result->id] && users != NULL && users->len == 1)
    {
      const RlxIrNode *user = g_ptr_array_index (self->ir->nodes, g_array_index (users, guint, 0));

      if (rlx_node_swaps_middle (user))
        {
          swapped |= RLX_ATTENTION_SWAPPED_RESULT;
          result = &user->outputs[0];
        }
    }
  if (swapped == 0)
    return FALSE;

  if (swapped == RLX_ATTENTION_SWAPPED_ALL)
    {
      int layout = rlx_op_find_attr (node->op, "layout");

      copy = rlx_ir_append_copy (self->out, node, (RlxIrValue **) inputs->pdata);
      copy->outputs[0].type = result->type;
      rlx_attr_set_int (&copy->attrs[layout], copy->attrs[layout].i == RLX_HEAD_LAYOUT_HEADS_FIRST ? RLX_HEAD_LAYOUT_SEQUENCE_FIRST
                                                                                               : RLX_HEAD_LAYOUT_HEADS_FIRST);
    }
  else
    {
      copy = rlx_ir_append (self->out, &rlx_op_mixed_attention, rlx_mixed_attention_attrs (node, swapped),
                            (RlxIrValue **) inputs->pdata, inputs->len, &result->type, 1);
      copy->origin = node->origin;
      copy->name = g_strdup (node->name);
    }
  self->map[result->id] = &copy->outputs[0];
  RLX_NOTE (FUSE, "%%%u: attention does without the transposes of%s%s%s%s", node->outputs[0].id,
            swapped & RLX_ATTENTION_SWAPPED_QUERY ? " query" : "", swapped & RLX_ATTENTION_SWAPPED_KEY ? " key" : "",
            swapped & RLX_ATTENTION_SWAPPED_VALUE ? " value" : "", swapped & RLX_ATTENTION_SWAPPED_RESULT ? " result" : "");
  return TRUE;
}

/* ---- the pass ------------------------------------------------------------------------- */

RlxIr *
rlx_pass_join (const RlxIr *ir)
{
  RlxIr *out = rlx_ir_new ();
  g_autofree gboolean *live = rlx_ir_find_live_nodes (ir);
  GArray **users = rlx_ir_find_users (ir, live);
  g_autofree gboolean *pinned = rlx_ir_find_pinned_values (ir);
  g_autofree RlxIrValue **map = g_new0 (RlxIrValue *, ir->n_values + 1);
  g_autoptr(GHashTable) joints = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  gboolean fuse = !RLX_DEBUG_CHECK (NO_FUSE);
  Joiner self = { ir, out, live, users, pinned, map, joints };

  if (fuse)
    find_joints (&self);

  /* Leaves first: what is built for several nodes needs the weights of all. */
  for (guint leaves = 2; leaves-- > 0;)
    for (guint i = 0; i < ir->nodes->len; i++)
      {
        const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);
        const Joint *joint;

        /* some were made already, together with others */
        if (!live[i] || ((node->op->flags & RLX_OP_LEAF) != 0) != (leaves == 1) || map[node->outputs[0].id] != NULL)
          continue;
        joint = g_hash_table_lookup (joints, node);
        if (joint != NULL)
          append_joint (&self, joint);
        else if (!fuse || !append_attention (&self, node))
          rlx_ir_copy_node (out, node, map);
      }

  rlx_ir_copy_results (out, ir, map);
  rlx_ir_free_users (ir, users);
  return out;
}
