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
#include "ops/rlx-builder-private.h"
#include "ops/rlx-product-private.h"
#include "util/rlx-debug-private.h"

/* A joint node is built at the position of the first of its parts. */
#define MAX_JOINT 3

typedef struct
{
  const RlxIrNode *nodes[MAX_JOINT];
  guint n;
} Joint;

typedef struct
{
  RlxRewrite *base;
  GHashTable *joints;      /* RlxIrNode, the first → Joint */
} Joiner;

/* ---- products that share an operand ------------------------------------------------ */

static gboolean
is_own_leaf (Joiner           *self,
             const RlxIrValue *value)
{
  return (rlx_ir_node_is (value->node, RLX_OP_ID_PARAMETER) || rlx_ir_node_is (value->node, RLX_OP_ID_CONSTANT)) &&
         rlx_rewrite_get_only_user (self->base, value) != NULL;
}

/* Whether @node may be joined with others. An element-wise user had better become its
 * epilogue. */
static gboolean
can_join (Joiner          *self,
          const RlxIrNode *node)
{
  const RlxIrValue *value = &node->outputs[0];
  const GArray *users = self->base->users[value->id];

  if (!rlx_ir_node_is_projection (node) || rlx_type_n_elements (&value->type) == 0 || node->inputs[0]->type.n_dims < 2 ||
      self->base->pinned[value->id] || users == NULL ||
      !is_own_leaf (self, node->inputs[1]) || (rlx_ir_node_get_bias (node) != NULL && !is_own_leaf (self, rlx_ir_node_get_bias (node))))
    return FALSE;
  for (guint i = 0; i < users->len; i++)
    {
      const RlxIrNode *user = g_ptr_array_index (self->base->ir->nodes, g_array_index (users, guint, i));

      if (user->op->flags & RLX_OP_ELEMENTWISE)
        return FALSE;
    }
  return TRUE;
}

static gboolean
fit_together (const RlxIrNode *a,
              const RlxIrNode *b)
{
  return a->inputs[1]->type.data_type == b->inputs[1]->type.data_type && (rlx_ir_node_get_bias (a) == NULL) == (rlx_ir_node_get_bias (b) == NULL) &&
         rlx_ir_node_as_linear (a).transpose_b == rlx_ir_node_as_linear (b).transpose_b;
}

static void
find_joints (Joiner *self)
{
  for (guint i = 0; i < self->base->ir->n_values; i++)
    {
      const GArray *users = self->base->users[i];
      Joint joint = { { NULL, }, 0 };

      for (guint j = 0; users != NULL && j < users->len && joint.n < MAX_JOINT; j++)
        {
          const RlxIrNode *user = g_ptr_array_index (self->base->ir->nodes, g_array_index (users, guint, j));

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
  RlxIrValue *inputs[1 + 2 * MAX_JOINT] = { self->base->map[first->inputs[0]->id], };
  RlxTensorType types[MAX_JOINT];
  guint n = joint->n;
  RlxIrNode *node;

  for (guint i = 0; i < n; i++)
    {
      inputs[1 + i] = self->base->map[joint->nodes[i]->inputs[1]->id];
      if (rlx_ir_node_get_bias (first) != NULL)
        inputs[1 + n + i] = self->base->map[rlx_ir_node_get_bias (joint->nodes[i])->id];
      types[i] = joint->nodes[i]->outputs[0].type;
    }
  node = rlx_ir_append (self->base->out,
                        rlx_ir_node_as_linear (first).transpose_b ? &rlx_op_joint_linear_transposed : &rlx_op_joint_linear,
                        NULL, inputs, rlx_ir_node_get_bias (first) ? 1 + 2 * n : 1 + n, types, n);
  node->origin = first->origin;
  node->name = g_strdup (first->name);
  for (guint i = 0; i < n; i++)
    self->base->map[joint->nodes[i]->outputs[0].id] = &node->outputs[i];
  RLX_NOTE (FUSE, "%%%u: %u products share their first operand", first->outputs[0].id, n);
}

/* ---- attention ----------------------------------------------------------------------- */

/* The value before heads and sequence are swapped; NULL if they are not. */
static const RlxIrValue *
find_unswapped (const RlxIrValue *value)
{
  const RlxIrNode *node = rlx_value_skip_reshapes (value)->node;

  return rlx_ir_node_swaps_middle (node) ? node->inputs[0] : NULL;
}

static gboolean
append_attention (Joiner          *self,
                  const RlxIrNode *node)
{
  const RlxIrValue *result = &node->outputs[0];
  const RlxIrNode *user = rlx_rewrite_get_only_user (self->base, result);
  g_autoptr(GPtrArray) inputs = NULL;
  g_auto(RlxBuilder) b = RLX_BUILDER (self->base->out, node);
  RlxAttentionAttrs attrs;
  guint swapped = 0;
  RlxIrNode *copy;

  if (!rlx_ir_node_is (node, RLX_OP_ID_ATTENTION))
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
      g_ptr_array_add (inputs, value == NULL ? NULL : self->base->map[value->id]);
    }
  if (user != NULL && rlx_ir_node_swaps_middle (user))
    {
      swapped |= RLX_ATTENTION_SWAPPED_RESULT;
      result = &user->outputs[0];
    }
  if (swapped == 0)
    return FALSE;

  attrs = *rlx_attention_attrs (node);
  if (swapped == RLX_ATTENTION_SWAPPED_ALL)
    {
      attrs.layout = attrs.layout == RLX_HEAD_LAYOUT_HEADS_FIRST ? RLX_HEAD_LAYOUT_SEQUENCE_FIRST : RLX_HEAD_LAYOUT_HEADS_FIRST;
      copy = rlx_builder_append (&b, &rlx_op_attention, (RlxIrValue **) inputs->pdata, inputs->len, &attrs);
      if (copy == NULL)
        return FALSE;
    }
  else
    {
      attrs.swapped = swapped;
      copy = rlx_ir_append (self->base->out, &rlx_op_mixed_attention, rlx_attrs_copy (&rlx_op_mixed_attention, &attrs),
                            (RlxIrValue **) inputs->pdata, inputs->len, &result->type, 1);
      copy->origin = node->origin;
    }
  copy->name = g_strdup (node->name);
  self->base->map[result->id] = &copy->outputs[0];
  RLX_NOTE (FUSE, "%%%u: attention does without the transposes of%s%s%s%s", node->outputs[0].id,
            swapped & RLX_ATTENTION_SWAPPED_QUERY ? " query" : "", swapped & RLX_ATTENTION_SWAPPED_KEY ? " key" : "",
            swapped & RLX_ATTENTION_SWAPPED_VALUE ? " value" : "", swapped & RLX_ATTENTION_SWAPPED_RESULT ? " result" : "");
  return TRUE;
}

/* ---- the pass ------------------------------------------------------------------------- */

RlxIr *
rlx_pass_join (const RlxIr     *ir,
               const RlxTarget *target,
               GError         **error)
{
  g_auto(RlxRewrite) base = { 0, };
  g_autoptr(GHashTable) joints = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  Joiner self;

  rlx_rewrite_init (&base, ir, target);
  self = (Joiner) { &base, joints };
  find_joints (&self);

  /* Leaves first: a joint node needs the weights of all. */
  for (guint leaves = 2; leaves-- > 0;)
    for (guint i = 0; i < ir->nodes->len; i++)
      {
        const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);
        const Joint *joint;

        /* some have already been created, joined with others */
        if (!base.live[i] || ((node->op->flags & RLX_OP_LEAF) != 0) != (leaves == 1) || base.map[node->outputs[0].id] != NULL)
          continue;
        joint = g_hash_table_lookup (joints, node);
        if (joint != NULL)
          append_joint (&self, joint);
        else if (!append_attention (&self, node))
          rlx_rewrite_copy (&base, node);
      }

  return rlx_rewrite_end (&base);
}
