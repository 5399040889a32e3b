/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Groups element-wise nodes into regions. A node joins the region of its users
 * when all of them are in one region, it has that region's shape, and the
 * region's operands still fit the device's bindings. Views (transpose, slice,
 * expand, reverse, frame) in front of a region are read through with strides, without a copy.
 *
 * A region that is the only user of a matrix product, a convolution, a norm, a softmax
 * or a reduction of its own shape becomes its epilogue: one kernel does both.
 */
#include "config.h"

#include "passes/rlx-passes-private.h"

#include <string.h>

#include "ops/rlx-fused-private.h"
#include "ops/rlx-shape-private.h"
#include "util/rlx-debug-private.h"

/* Beyond this a kernel's compile time costs more than a dispatch. */
#define MAX_INSTRUCTIONS 64
/* An epilogue is compiled into a kernel that is already large. */
#define MAX_EPILOGUE 16

typedef struct
{
  RlxRewrite *base;
  gboolean *constant;     /* by node id */
  guint *region;          /* by node id: id of the region's last node + 1 */
  GArray **members;       /* by region's last node: node ids, last first */
  gboolean *through;      /* by node id: a view that regions read through */
  guint *host;            /* by region's last node: id + 1 of the node whose epilogue it becomes */
  gboolean *hosting;      /* by node id */
} Fuser;

static gboolean
is_elementwise (const RlxIrNode *node)
{
  return (node->op->flags & RLX_OP_ELEMENTWISE) != 0;
}

static gboolean
is_view (const RlxIrNode *node)
{
  return rlx_ir_node_is (node, RLX_OP_ID_TRANSPOSE) || rlx_ir_node_is (node, RLX_OP_ID_SLICE) ||
         rlx_ir_node_is (node, RLX_OP_ID_EXPAND) || rlx_ir_node_is (node, RLX_OP_ID_REVERSE) ||
         rlx_ir_node_is (node, RLX_OP_ID_FRAME);
}

static void
count_inputs (Fuser           *self,
              const RlxIrNode *node,
              guint            root,
              guint            extra,
              GHashTable      *seen,
              guint           *n)
{
  for (guint j = 0; j < node->n_inputs; j++)
    {
      const RlxIrValue *value = node->inputs[j];
      double number;
      gint64 integer;

      if (self->region[value->node->id] == root + 1 || value->node->id == extra ||
          rlx_ir_value_get_immediate (value, &number, &integer) || !g_hash_table_add (seen, (gpointer) value))
        continue;
      *n += rlx_target_get_n_segments (self->base->target, rlx_type_device_size (&value->type));
    }
}

/* Storage bindings the region with last node @root would need if @extra joined
 * it, its result included. */
static guint
count_bindings (Fuser *self,
                guint  root,
                guint  extra)
{
  g_autoptr(GHashTable) seen = g_hash_table_new (NULL, NULL);
  const RlxIrNode *last = g_ptr_array_index (self->base->ir->nodes, root);
  guint n = rlx_target_get_n_segments (self->base->target, rlx_type_device_size (&last->outputs[0].type));

  for (guint i = 0; i < self->members[root]->len; i++)
    count_inputs (self, g_ptr_array_index (self->base->ir->nodes, g_array_index (self->members[root], guint, i)), root, extra, seen, &n);
  count_inputs (self, g_ptr_array_index (self->base->ir->nodes, extra), root, extra, seen, &n);
  return n;
}

/* The region that contains all users of a node; 0 if there is none to join. */
static guint
find_region (Fuser           *self,
             const RlxIrNode *node)
{
  const RlxIrValue *value = &node->outputs[0];
  const GArray *users = self->base->users[value->id];
  const RlxIrNode *root;
  guint region;

  if (RLX_DEBUG_CHECK (NO_FUSE) || self->base->pinned[value->id] || users == NULL || users->len == 0)
    return 0;
  region = self->region[g_array_index (users, guint, 0)];
  if (region == 0)
    return 0;
  for (guint i = 1; i < users->len; i++)
    if (self->region[g_array_index (users, guint, i)] != region)
      {
        RLX_NOTE (FUSE, "%%%u %s stays alone: it has users in several regions", value->id, node->op->name);
        return 0;
      }

  root = g_ptr_array_index (self->base->ir->nodes, region - 1);
  if (!rlx_type_same_shape (&root->outputs[0].type, &value->type))
    {
      RLX_NOTE (FUSE, "%%%u %s stays alone: its shape is not that of %%%u", value->id, node->op->name, root->outputs[0].id);
      return 0;
    }
  if (self->constant[node->id] != self->constant[root->id])
    {
      RLX_NOTE (FUSE, "%%%u %s stays alone: it is computed once", value->id, node->op->name);
      return 0;
    }
  if (self->members[region - 1]->len >= MAX_INSTRUCTIONS)
    {
      RLX_NOTE (FUSE, "%%%u %s stays alone: the region has %u operators already", value->id, node->op->name, MAX_INSTRUCTIONS);
      return 0;
    }
  if (count_bindings (self, region - 1, node->id) > self->base->target->limits.max_storage_buffers)
    {
      RLX_NOTE (FUSE, "%%%u %s stays alone: the region would need more than %u storage bindings",
                value->id, node->op->name, self->base->target->limits.max_storage_buffers);
      return 0;
    }
  return region;
}

/* ---- operands -------------------------------------------------------------- */

/* Whether reading through a view pays off: if another user needs it in memory, it is
 * copied anyway, and reading the copy is better. */
static gboolean
reads_through (Fuser           *self,
               const RlxIrNode *node)
{
  const GArray *users = self->base->users[node->outputs[0].id];

  if (RLX_DEBUG_CHECK (NO_FUSE) || !is_view (node) || users == NULL || rlx_type_n_elements (&node->outputs[0].type) == 0)
    return FALSE;
  if (rlx_ir_node_is (node, RLX_OP_ID_EXPAND))
    return TRUE;
  /* a value that is computed once is better kept separate */
  if (self->base->pinned[node->outputs[0].id] || self->constant[node->id])
    return FALSE;
  for (guint i = 0; i < users->len; i++)
    {
      const RlxIrNode *user = g_ptr_array_index (self->base->ir->nodes, g_array_index (users, guint, i));

      if (!is_elementwise (user) && !self->through[user->id])
        return FALSE;
    }
  return TRUE;
}

/* From strides over a view's input dimensions to strides over its output dimensions.
 * rlx_view_get_strides() returns them for a contiguous input; decomposed by the
 * contiguous strides, they apply to any. */
static void
compose_view (const RlxIrNode *node,
              gint64          *offset,
              gint64          *strides)
{
  const RlxTensorType *in = &node->inputs[0]->type, *out = &node->outputs[0].type;
  gint64 view_offset, view[RLX_MAX_DIMS], plain[RLX_MAX_DIMS], result[RLX_MAX_DIMS] = { 0, };

  rlx_view_get_strides (node, &view_offset, view);
  rlx_type_get_strides (in, plain);

  for (guint d = 0; d < in->n_dims; d++)
    *offset += view_offset / plain[d] % in->shape[d] * strides[d];

  for (guint d = 0; d < out->n_dims; d++)
    {
      guint source = d;

      if (rlx_ir_node_is (node, RLX_OP_ID_TRANSPOSE))
        source = rlx_transpose_get_axis (node, d);
      else if (rlx_ir_node_is (node, RLX_OP_ID_EXPAND))
        {
          if (d < out->n_dims - in->n_dims)
            continue;
          source = d - (out->n_dims - in->n_dims);
        }
      else if (d == in->n_dims)
        source = d - 1;   /* frames turn one axis into two */
      result[d] = view[d] / plain[source] * strides[source];
    }
  memcpy (strides, result, sizeof result);
}

static RlxOperand
make_operand (Fuser               *self,
              const RlxIrValue    *value,
              const RlxTensorType *loop,
              const RlxIrValue   **base)
{
  RlxOperand operand = { 0, };
  gint64 strides[RLX_MAX_DIMS];
  g_autoptr(GPtrArray) chain = g_ptr_array_new ();
  const RlxTensorType *seen = &value->type;

  while (self->through[value->node->id])
    {
      g_ptr_array_add (chain, value->node);
      value = value->node->inputs[0];
    }
  *base = value;

  /* From the base outwards: strides over each view's own dimensions. */
  rlx_type_get_strides (&value->type, strides);
  for (guint i = chain->len; i-- > 0;)
    compose_view (g_ptr_array_index (chain, i), &operand.offset, strides);

  /* Broadcast to the loop. */
  for (guint d = 0; d < seen->n_dims; d++)
    operand.strides[loop->n_dims - seen->n_dims + d] = seen->shape[d] == 1 ? 0 : strides[d];
  return operand;
}

static guint
add_operand (RlxFused            *fused,
             GPtrArray           *inputs,
             const RlxOperand    *operand,
             RlxIrValue          *value,
             guint                result)
{
  RlxOperand copy = *operand;
  guint input;

  if (!g_ptr_array_find (inputs, value, &input))
    {
      input = inputs->len;
      g_ptr_array_add (inputs, value);
    }
  copy.input = input;
  for (guint i = 0; i < fused->operands->len; i++)
    if (i != result && memcmp (&g_array_index (fused->operands, RlxOperand, i), &copy, sizeof copy) == 0)
      return i;
  g_array_append_val (fused->operands, copy);
  return fused->operands->len - 1;
}

/* ---- epilogues -------------------------------------------------------------- */

static gboolean
can_host (Fuser           *self,
          const RlxIrNode *node,
          guint            root)
{
  const RlxIrNode *last = g_ptr_array_index (self->base->ir->nodes, root);
  const RlxIrValue *value;
  const GArray *users;
  guint n;

  if (node->n_outputs != 1 || !(node->op->flags & RLX_OP_EPILOGUE))
    return FALSE;
  value = &node->outputs[0];
  users = self->base->users[value->id];
  if (self->base->pinned[value->id] || self->constant[node->id] != self->constant[root])
    return FALSE;
  for (guint i = 0; i < users->len; i++)
    if (self->region[g_array_index (users, guint, i)] != root + 1)
      return FALSE;
  if (!rlx_type_same_shape (&value->type, &last->outputs[0].type))
    {
      RLX_NOTE (FUSE, "%%%u %s takes no epilogue: its shape is not that of %%%u", value->id, node->op->name, last->outputs[0].id);
      return FALSE;
    }
  if (!rlx_data_type_is_float (value->type.data_type))
    {
      RLX_NOTE (FUSE, "%%%u %s takes no epilogue: its result is %s, not a float", value->id, node->op->name,
                rlx_data_type_to_string (value->type.data_type));
      return FALSE;
    }
  if (self->members[root]->len > MAX_EPILOGUE)
    {
      RLX_NOTE (FUSE, "%%%u %s takes no epilogue: %u operators are more than %u", value->id, node->op->name,
                self->members[root]->len, MAX_EPILOGUE);
      return FALSE;
    }

  /* its own result is counted as an input, but needs no binding; the partial results of
   * long rows need one */
  n = count_bindings (self, root, root) - rlx_target_get_n_segments (self->base->target, rlx_type_device_size (&value->type)) +
      ((node->op->flags & RLX_OP_NORM) != 0);
  for (guint i = 0; i < node->n_inputs; i++)
    if (node->inputs[i] != NULL)
      n += rlx_target_get_n_segments (self->base->target, rlx_type_device_size (&node->inputs[i]->type));
  if (n > self->base->target->limits.max_storage_buffers)
    {
      RLX_NOTE (FUSE, "%%%u %s takes no epilogue: it would need %u storage bindings, there are %u",
                value->id, node->op->name, n, self->base->target->limits.max_storage_buffers);
      return FALSE;
    }
  return TRUE;
}

/* Whether a region updates a state that it also reads: it can do so in place, in one step with others. */
static gboolean
updates_state (Fuser *self,
               guint  root)
{
  const RlxIr *ir = self->base->ir;
  const RlxIrNode *last = g_ptr_array_index (ir->nodes, root);

  if (!self->base->pinned[last->outputs[0].id] || RLX_DEBUG_CHECK (NO_ALIAS))
    return FALSE;
  for (guint i = 0; i < ir->assigns->len; i++)
    {
      const RlxIrAssign *assign = &g_array_index (ir->assigns, RlxIrAssign, i);

      for (guint k = 0; assign->value == &last->outputs[0] && k < self->members[root]->len; k++)
        {
          const RlxIrNode *member = g_ptr_array_index (ir->nodes, g_array_index (self->members[root], guint, k));

          for (guint j = 0; j < member->n_inputs; j++)
            if (member->inputs[j] == assign->state)
              return TRUE;
        }
    }
  return FALSE;
}

/* Of several hosts the last is chosen: the others have run by then. */
static void
find_host (Fuser *self,
           guint  root)
{
  const RlxIrNode *host = NULL;

  if (updates_state (self, root))
    return;

  for (guint i = 0; i < self->members[root]->len; i++)
    {
      const RlxIrNode *member = g_ptr_array_index (self->base->ir->nodes, g_array_index (self->members[root], guint, i));

      for (guint j = 0; j < member->n_inputs; j++)
        {
          const RlxIrNode *node = member->inputs[j]->node;

          if ((host == NULL || node->id > host->id) && can_host (self, node, root))
            host = node;
        }
    }
  if (host == NULL)
    return;
  self->host[root] = host->id + 1;
  self->hosting[host->id] = TRUE;
}

/* Turns the fused node that was just built into an epilogue of its host. */
static RlxIrNode *
build_epilogue (Fuser           *self,
                const RlxIrNode *host,
                const RlxIrNode *last,
                RlxFused        *fused,
                GPtrArray       *region_inputs,
                guint            result)
{
  RlxEpilogue *epilogue = g_new0 (RlxEpilogue, 1);
  g_autoptr(GPtrArray) inputs = g_ptr_array_new ();
  RlxIrNode *node;

  for (guint i = 0; i < host->n_inputs; i++)
    g_ptr_array_add (inputs, host->inputs[i] ? self->base->map[host->inputs[i]->id] : NULL);
  g_ptr_array_extend (inputs, region_inputs, NULL, NULL);
  for (guint i = 0; i < fused->operands->len; i++)
    g_array_index (fused->operands, RlxOperand, i).input += host->n_inputs;

  epilogue->fused = fused;
  epilogue->n_own_inputs = host->n_inputs;
  epilogue->result = result;
  node = rlx_ir_append (self->base->out, host->op, rlx_attrs_copy (host->op, host->attrs), (RlxIrValue **) inputs->pdata,
                        inputs->len, &last->outputs[0].type, 1);
  node->origin = last->origin;
  node->name = g_strdup (host->name ? host->name : last->name);
  node->payload = epilogue;
  node->payload_free = rlx_epilogue_free;
  RLX_NOTE (FUSE, "%%%u: %s with an epilogue of %u operators", last->outputs[0].id, host->op->name, fused->instructions->len);
  return node;
}

static RlxIrNode *
build_region (Fuser *self,
              guint  root)
{
  const RlxIrNode *last = g_ptr_array_index (self->base->ir->nodes, root);
  RlxFused *fused = rlx_fused_new ();
  g_autoptr(GPtrArray) inputs = g_ptr_array_new ();
  const GArray *members = self->members[root];
  g_autoptr(GHashTable) numbers = g_hash_table_new (NULL, NULL);
  const RlxIrNode *host = self->host[root] ? g_ptr_array_index (self->base->ir->nodes, self->host[root] - 1) : NULL;
  int result = -1;
  RlxIrNode *node;

  for (guint i = 0; i < members->len; i++)
    {
      const RlxIrNode *member = g_ptr_array_index (self->base->ir->nodes, g_array_index (members, guint, members->len - 1 - i));
      RlxInstruction instruction = {
        .op = member->op,
        .attrs = rlx_attrs_copy (member->op, member->attrs),
        .type = member->outputs[0].type.data_type,
        .operand_type = member->inputs[member->n_inputs - 1]->type.data_type,
        .n_args = member->n_inputs,
      };

      for (guint j = 0; j < member->n_inputs; j++)
        {
          const RlxIrValue *value = member->inputs[j], *base;
          RlxOperand operand;

          if (self->region[value->node->id] == root + 1)
            {
              instruction.args[j] = GPOINTER_TO_INT (g_hash_table_lookup (numbers, value)) - 1;
              continue;
            }
          if (host != NULL && value == &host->outputs[0])
            {
              if (result < 0)
                {
                  /* it is not an input of any node */
                  operand = (RlxOperand) { .input = 0 };
                  rlx_type_get_strides (&value->type, operand.strides);
                  g_array_append_val (fused->operands, operand);
                  result = (int) fused->operands->len - 1;
                }
              instruction.args[j] = -1 - result;
              continue;
            }
          operand = make_operand (self, value, &last->outputs[0].type, &base);
          instruction.args[j] = -1 - (int) add_operand (fused, inputs, &operand, self->base->map[base->id], (guint) result);
        }
      g_array_append_val (fused->instructions, instruction);
      g_hash_table_insert (numbers, (gpointer) &member->outputs[0], GINT_TO_POINTER ((int) i + 1));
    }

  if (host != NULL)
    return build_epilogue (self, host, last, fused, inputs, (guint) result);

  node = rlx_ir_append (self->base->out, &rlx_op_fused, NULL, (RlxIrValue **) inputs->pdata, inputs->len, &last->outputs[0].type, 1);
  node->origin = last->origin;
  node->name = g_strdup (last->name);
  node->payload = fused;
  node->payload_free = rlx_fused_free;
  if (members->len > 1)
    RLX_NOTE (FUSE, "%%%u: one kernel of %u operators, %u operands", last->outputs[0].id, members->len, fused->operands->len);
  return node;
}

RlxIr *
rlx_pass_fuse (const RlxIr     *ir,
               const RlxTarget *target,
               GError         **error)
{
  g_auto(RlxRewrite) base = { 0, };
  g_autofree gboolean *constant = rlx_ir_find_constant_nodes (ir);
  g_autofree guint *region = g_new0 (guint, ir->nodes->len + 1);
  g_autofree GArray **members = g_new0 (GArray *, ir->nodes->len + 1);
  g_autofree gboolean *through = g_new0 (gboolean, ir->nodes->len + 1);
  g_autofree guint *host = g_new0 (guint, ir->nodes->len + 1);
  g_autofree gboolean *hosting = g_new0 (gboolean, ir->nodes->len + 1);
  Fuser self = { &base, constant, region, members, through, host, hosting };
  RlxIr *fused;

  rlx_rewrite_init (&base, ir, target);
  /* Users come after their operands, so in reverse order every node finds its users'
   * regions. */
  for (guint i = ir->nodes->len; i-- > 0;)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);

      if (!base.live[i])
        continue;
      through[i] = node->n_outputs == 1 && reads_through (&self, node);
      if (!is_elementwise (node))
        continue;
      region[i] = find_region (&self, node);
      if (region[i] == 0)
        {
          region[i] = i + 1;
          members[i] = g_array_new (FALSE, FALSE, sizeof (guint));
        }
      g_array_append_val (members[region[i] - 1], i);
    }

  for (guint i = 0; !RLX_DEBUG_CHECK (NO_FUSE) && i < ir->nodes->len; i++)
    if (region[i] == i + 1)
      find_host (&self, i);

  for (guint i = 0; i < ir->nodes->len; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);

      if (!base.live[i] || hosting[i])
        continue;
      if (region[i] != 0)
        {
          if (region[i] == i + 1)
            base.map[node->outputs[0].id] = &build_region (&self, i)->outputs[0];
          continue;
        }
      rlx_rewrite_copy (&base, node);
    }

  for (guint i = 0; i < ir->nodes->len; i++)
    g_clear_pointer (&members[i], g_array_unref);
  fused = rlx_rewrite_end (&base);
  if (!RLX_DEBUG_CHECK (NO_FUSE) && !RLX_DEBUG_CHECK (NO_ALIAS))
    rlx_ir_join_updates (fused, target);
  return fused;
}
