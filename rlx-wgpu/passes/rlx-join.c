/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Finds what a transformer's layer is made of:
 *
 * - A product of a matrix with a weight that is split into three along its
 *   columns, by one split or by three slices that nothing else goes with, becomes
 *   one qkv_linear.
 * - Two or three products of one matrix with weights become one joint_linear,
 *   unless what follows one of them can be its epilogue.
 * - Attention between transposes that bring the heads forward and back again
 *   takes its operands as they were.
 */
#include "config.h"

#include "passes/rlx-passes-private.h"

#include <string.h>

#include "ops/rlx-product-private.h"
#include "ops/rlx-shape-private.h"
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
  GHashTable *projections; /* RlxIrValue → Projection */
  GHashTable *joints;      /* RlxIrNode, the first → Joint */
} Joiner;

typedef struct
{
  const RlxIrNode *product;
  const RlxIrValue *parts[3];   /* in the order of the columns */
} Projection;

/* Whether qkv_linear can do what @node does. */
static gboolean
is_projection (const RlxIrNode *node)
{
  const RlxIrValue *bias;

  if (g_str_equal (node->op->name, "matmul"))
    return node->inputs[1]->type.rank == 2 && node->inputs[0]->type.rank >= 1 && rlx_node_attr (node, "transpose_a")->i == 0;
  if (!g_str_equal (node->op->name, "linear"))
    return FALSE;
  bias = node->n_inputs > 2 ? node->inputs[2] : NULL;
  return rlx_node_attr (node, "transpose_a")->i == 0 && rlx_node_attr (node, "alpha")->f == 1.0 &&
         (bias == NULL || (rlx_node_attr (node, "beta")->f == 1.0 && bias->type.rank == 1 &&
                           bias->type.dims[0] == node->outputs[0].type.dims[node->outputs[0].type.rank - 1]));
}

/* The columns that a slice takes: every row, from *@first on. */
static gboolean
is_column_slice (const RlxIrNode *node,
                 gint64          *first)
{
  const RlxTensorType *in = &node->inputs[0]->type, *out = &node->outputs[0].type;
  gint64 offset, strides[RLX_MAX_RANK], stride = 1;

  if (!g_str_equal (node->op->name, "slice"))
    return FALSE;
  rlx_view_get_strides (node, &offset, strides);
  for (guint d = in->rank; d-- > 0; stride *= in->dims[d])
    if (out->dims[d] > 1 && strides[d] != stride)
      return FALSE;
  for (guint d = 0; d + 1 < in->rank; d++)
    if (out->dims[d] != in->dims[d])
      return FALSE;
  *first = offset;
  return TRUE;
}

static gboolean
add_user (Projection      *projection,
          const RlxIrNode *user)
{
  const RlxTensorType *type = &projection->product->outputs[0].type;
  gint64 n = type->dims[type->rank - 1], first;

  if (g_str_equal (user->op->name, "split") && user->n_outputs == 3)
    {
      gint64 axis = rlx_node_attr (user, "axis")->i;

      if ((axis < 0 ? axis + type->rank : axis) != (gint64) type->rank - 1 || projection->parts[0] != NULL)
        return FALSE;
      for (guint i = 0; i < 3; i++)
        projection->parts[i] = &user->outputs[i];
      return TRUE;
    }
  if (!is_column_slice (user, &first))
    return FALSE;
  for (guint i = 0; i < 3; i++)
    {
      gint64 size = user->outputs[0].type.dims[type->rank - 1];

      /* the first part begins, the last one ends with the columns */
      if (projection->parts[i] == NULL && (i == 0 ? first == 0 : i == 2 ? first + size == n && first > 0 : first > 0 && first + size < n))
        {
          projection->parts[i] = &user->outputs[0];
          return TRUE;
        }
    }
  return FALSE;
}

static gboolean
is_whole (const Projection *projection)
{
  const RlxTensorType *type = &projection->product->outputs[0].type;
  guint last = type->rank - 1;
  gint64 sum = 0, first;

  for (guint i = 0; i < 3; i++)
    {
      if (projection->parts[i] == NULL || projection->parts[i]->type.dims[last] == 0)
        return FALSE;
      if (g_str_equal (projection->parts[i]->node->op->name, "slice") &&
          (!is_column_slice (projection->parts[i]->node, &first) || first != sum))
        return FALSE;
      sum += projection->parts[i]->type.dims[last];
    }
  return sum == type->dims[last];
}

/* By value id: the projection that makes it. */
static GHashTable *
find_projections (const RlxIr *ir)
{
  GHashTable *found = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  GHashTableIter iter;
  gpointer value;

  for (guint i = 0; i < ir->nodes->len; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);

      if (is_projection (node) && rlx_type_n_elements (&node->outputs[0].type) > 0)
        {
          Projection *projection = g_new0 (Projection, 1);

          projection->product = node;
          g_hash_table_insert (found, (gpointer) &node->outputs[0], projection);
        }
      for (guint j = 0; j < node->n_inputs; j++)
        {
          Projection *projection = node->inputs[j] ? g_hash_table_lookup (found, node->inputs[j]) : NULL;

          if (projection != NULL && !add_user (projection, node))
            g_hash_table_remove (found, node->inputs[j]);
        }
    }
  for (guint i = 0; i < ir->outputs->len; i++)
    g_hash_table_remove (found, g_array_index (ir->outputs, RlxIrOutput, i).value);
  for (guint i = 0; i < ir->assigns->len; i++)
    g_hash_table_remove (found, g_array_index (ir->assigns, RlxIrAssign, i).value);

  g_hash_table_iter_init (&iter, found);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    if (!is_whole (value))
      g_hash_table_iter_remove (&iter);
  return found;
}

static void
append_projection (Joiner           *self,
                   const Projection *projection)
{
  const RlxIrNode *product = projection->product;
  const RlxOp *op = rlx_op_lookup ("qkv_linear");
  guint last = product->outputs[0].type.rank - 1;
  g_autoptr(GVariant) options = NULL;
  g_autoptr(GError) error = NULL;
  GVariantDict dict;
  RlxIrValue *inputs[3] = { NULL, };
  RlxTensorType types[3];
  RlxIrNode *node;

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "query_size", "x", projection->parts[0]->type.dims[last]);
  g_variant_dict_insert (&dict, "key_size", "x", projection->parts[1]->type.dims[last]);
  g_variant_dict_insert (&dict, "transpose_b", "b", rlx_node_attr (product, "transpose_b")->i != 0);
  options = g_variant_ref_sink (g_variant_dict_end (&dict));

  for (guint i = 0; i < product->n_inputs; i++)
    inputs[i] = product->inputs[i] ? self->map[product->inputs[i]->id] : NULL;
  for (guint i = 0; i < 3; i++)
    types[i] = projection->parts[i]->type;
  node = rlx_ir_append (self->out, op, rlx_attrs_new_from_variant (op, options, &error), inputs,
                        inputs[2] ? 3 : 2, types, 3);
  g_assert_no_error (error);
  node->origin = product->origin;
  node->name = g_strdup (product->name);
  for (guint i = 0; i < 3; i++)
    self->map[projection->parts[i]->id] = &node->outputs[i];
  RLX_NOTE (FUSE, "%%%u: %s and its three parts become one qkv_linear", product->outputs[0].id, product->op->name);
}

/* ---- products that share an operand ------------------------------------------------ */

static const RlxIrValue *
get_bias (const RlxIrNode *node)
{
  return g_str_equal (node->op->name, "linear") && node->n_inputs > 2 ? node->inputs[2] : NULL;
}

static gboolean
is_own_leaf (Joiner           *self,
             const RlxIrValue *value)
{
  return (g_str_equal (value->node->op->name, "parameter") || g_str_equal (value->node->op->name, "constant")) &&
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

  if (!is_projection (node) || rlx_type_n_elements (&value->type) == 0 || node->inputs[0]->type.rank < 2 ||
      g_hash_table_contains (self->projections, value) || self->pinned[value->id] || users == NULL ||
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

static gboolean
append_attention (Joiner          *self,
                  const RlxIrNode *node)
{
  const GArray *users = self->users[node->outputs[0].id];
  g_autoptr(GPtrArray) inputs = NULL;
  const RlxIrNode *user;
  RlxIrNode *copy;
  int layout;

  if (!g_str_equal (node->op->name, "attention") || self->pinned[node->outputs[0].id] || users == NULL || users->len != 1 ||
      rlx_node_attr (node, "layout")->i != RLX_HEAD_LAYOUT_HEADS_FIRST)
    return FALSE;
  user = g_ptr_array_index (self->ir->nodes, g_array_index (users, guint, 0));
  if (!rlx_node_swaps_middle (user))
    return FALSE;
  for (guint i = 0; i < 3; i++)
    if (!rlx_node_swaps_middle (node->inputs[i]->node))
      {
        RLX_NOTE (FUSE, "%%%u attention is transposed afterwards, but not each of its operands before", node->outputs[0].id);
        return FALSE;
      }

  inputs = g_ptr_array_new ();
  for (guint i = 0; i < node->n_inputs; i++)
    {
      const RlxIrValue *value = node->inputs[i];

      g_ptr_array_add (inputs, value == NULL ? NULL : self->map[i < 3 ? value->node->inputs[0]->id : value->id]);
    }
  copy = rlx_ir_append_copy (self->out, node, (RlxIrValue **) inputs->pdata);
  layout = rlx_op_find_attr (node->op, "layout");
  copy->attrs[layout].i = RLX_HEAD_LAYOUT_SEQUENCE_FIRST;
  copy->attrs[layout].is_set = TRUE;
  copy->outputs[0].type = user->outputs[0].type;
  self->map[user->outputs[0].id] = &copy->outputs[0];
  RLX_NOTE (FUSE, "%%%u: attention takes its operands without the transposes", node->outputs[0].id);
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
  g_autoptr(GHashTable) projections = find_projections (ir);
  g_autoptr(GHashTable) joints = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  gboolean fuse = !RLX_DEBUG_CHECK (NO_FUSE);
  Joiner self = { ir, out, live, users, pinned, map, projections, joints };

  if (fuse)
    find_joints (&self);
  else
    g_hash_table_remove_all (projections);

  /* Leaves first: what is built for several nodes needs the weights of all. */
  for (guint leaves = 2; leaves-- > 0;)
    for (guint i = 0; i < ir->nodes->len; i++)
      {
        const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);
        const Projection *projection;
        const Joint *joint;

        /* some were made already, together with others */
        if (!live[i] || ((node->op->flags & RLX_OP_LEAF) != 0) != (leaves == 1) || map[node->outputs[0].id] != NULL)
          continue;
        projection = g_hash_table_lookup (projections, &node->outputs[0]);
        joint = g_hash_table_lookup (joints, node);
        if (projection != NULL)
          append_projection (&self, projection);
        else if (joint != NULL)
          append_joint (&self, joint);
        else if (!fuse || !append_attention (&self, node))
          rlx_ir_copy_node (out, node, map);
      }

  rlx_ir_copy_results (out, ir, map);
  rlx_ir_free_users (ir, users);
  return out;
}
