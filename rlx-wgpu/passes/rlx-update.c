/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Makes one node of what changes states: of all regions that belong to one tensor, such as a parameter with its
 * averages, and then of all tensors to which the same is done. It stands at the end, when nobody needs the states as they
 * were, so that it can write them where they are.
 *
 *   m ← 0.9 m + 0.1 g         ┐
 *   v ← 0.99 v + 0.01 g²      ├ one group
 *   p ← p - rate · m / √v     ┘
 */
#include "config.h"

#include "passes/rlx-passes-private.h"

#include <string.h>

#include "ops/rlx-fused-private.h"
#include "util/rlx-debug-private.h"

/* As for regions. */
#define MAX_INSTRUCTIONS 64

/* Regions that are computed together. */
typedef struct
{
  GArray *members;         /* guint: node ids, in order */
  GArray *takers;          /* guint: those assigned to states */
  RlxFused *fused;
  GPtrArray *inputs;       /* RlxIrValue of the old graph */
  gboolean *is_tensor;     /* by input: has an element for each of the results, not one for all */
} Group;

typedef struct
{
  RlxRewrite base;
  RlxIrValue **state_of;   /* by node id: the state that takes the result; NULL: none */
  gboolean *candidate;     /* by node id: a region whose result is only used by states, or by such regions */
  guint *group_of;         /* by node id: index + 1 */
  GPtrArray *groups;       /* Group */
} Updates;

static void
group_free (gpointer data)
{
  Group *self = data;

  g_array_unref (self->members);
  g_array_unref (self->takers);
  g_clear_pointer (&self->fused, rlx_fused_free);
  g_clear_pointer (&self->inputs, g_ptr_array_unref);
  g_free (self->is_tensor);
  g_free (self);
}

static void
updates_clear (Updates *self)
{
  rlx_rewrite_clear (&self->base);
  g_clear_pointer (&self->state_of, g_free);
  g_clear_pointer (&self->candidate, g_free);
  g_clear_pointer (&self->group_of, g_free);
  g_clear_pointer (&self->groups, g_ptr_array_unref);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Updates, updates_clear)

static const RlxIrNode *
get_node (const Updates *self,
          guint          id)
{
  return g_ptr_array_index (self->base.ir->nodes, id);
}

static guint
n_users (const Updates    *self,
         const RlxIrValue *value)
{
  return self->base.users[value->id] != NULL ? self->base.users[value->id]->len : 0;
}

/* Values that may share memory: views that are not copies have the same number of elements. */
static const RlxIrValue *
find_memory (const RlxIrValue *value)
{
  while (value->node->op != &rlx_op_fused && value->node->n_inputs > 0 && value->node->inputs[0] != NULL &&
         rlx_type_n_elements (&value->node->inputs[0]->type) == rlx_type_n_elements (&value->type))
    value = value->node->inputs[0];
  return value;
}

static gboolean
is_state (const RlxIrValue *value)
{
  return rlx_ir_node_is (value->node, RLX_OP_ID_STATE);
}

/* Whether a region reads @value element by element, each for the element it computes. */
static gboolean
reads_plainly (const RlxIrNode  *node,
               const RlxIrValue *value)
{
  const RlxFused *fused = node->payload;

  if (!rlx_type_same_shape (&node->outputs[0].type, &value->type))
    return FALSE;
  for (guint i = 0; i < fused->operands->len; i++)
    {
      const RlxOperand *operand = &g_array_index (fused->operands, RlxOperand, i);

      if (node->inputs[operand->input] == value && !rlx_operand_is_plain (operand, &value->type))
        return FALSE;
    }
  return TRUE;
}

/* ---- which ---------------------------------------------------------------------------------- */

/* Whether all users of a region can be in one step with it. */
static gboolean
is_candidate (const Updates   *self,
              const RlxIrNode *node)
{
  const RlxFused *fused = node->payload;
  const RlxIrValue *value = &node->outputs[0];

  if (node->op != &rlx_op_fused || fused->results != NULL || fused->instructions->len == 0 ||
      value->type.data_type != RLX_DATA_TYPE_F32 || rlx_type_n_elements (&value->type) == 0 ||
      (self->state_of[node->id] == NULL && n_users (self, value) == 0))
    return FALSE;
  for (guint k = 0; k < n_users (self, value); k++)
    {
      guint user = g_array_index (self->base.users[value->id], guint, k);

      if (!self->candidate[user] || !reads_plainly (get_node (self, user), value))
        return FALSE;
    }
  return TRUE;
}

static void
find_candidates (Updates *self)
{
  const RlxIr *ir = self->base.ir;
  g_autofree gboolean *elsewhere = g_new0 (gboolean, ir->n_values + 1);

  for (guint i = 0; i < ir->outputs->len; i++)
    elsewhere[g_array_index (ir->outputs, RlxIrOutput, i).value->id] = TRUE;
  for (guint i = 0; i < ir->assigns->len; i++)
    {
      const RlxIrAssign *assign = &g_array_index (ir->assigns, RlxIrAssign, i);
      guint id = assign->value->node->id;

      /* a value that two states take belongs to neither */
      elsewhere[assign->value->id] |= self->state_of[id] != NULL;
      self->state_of[id] = assign->state;
    }
  for (guint i = ir->nodes->len; i-- > 0;)
    {
      const RlxIrNode *node = get_node (self, i);

      self->candidate[i] = self->base.live[i] && node->n_outputs == 1 && !elsewhere[node->outputs[0].id] && is_candidate (self, node);
    }
}

static void
drop (Updates *self,
      Group   *group)
{
  for (guint i = 0; i < group->members->len; i++)
    self->group_of[g_array_index (group->members, guint, i)] = 0;
  g_array_set_size (group->members, 0);
  g_array_set_size (group->takers, 0);
}

static void
unite (Updates *self,
       guint    a,
       guint    b)
{
  guint to = self->group_of[a], from = self->group_of[b];

  for (guint i = 0; to != from && i < self->base.ir->nodes->len; i++)
    if (self->group_of[i] == from)
      self->group_of[i] = to;
}

/* Whether two candidates read a tensor of their shape, or one the other's result. */
static gboolean
belong_together (const Updates   *self,
                 const RlxIrNode *a,
                 const RlxIrNode *b)
{
  if (!rlx_type_same_shape (&a->outputs[0].type, &b->outputs[0].type))
    return FALSE;
  for (guint i = 0; i < b->n_inputs; i++)
    {
      const RlxIrValue *value = b->inputs[i];

      if (value->node == a)
        return TRUE;
      if (!rlx_type_same_shape (&value->type, &a->outputs[0].type) || (rlx_type_n_elements (&value->type) == 1 && !is_state (value)))
        continue;
      for (guint k = 0; k < a->n_inputs; k++)
        if (a->inputs[k] == value)
          return TRUE;
    }
  return FALSE;
}

static void
find_groups (Updates *self)
{
  const RlxIr *ir = self->base.ir;
  g_autoptr(GArray) nodes = g_array_new (FALSE, FALSE, sizeof (guint));
  g_autofree guint *number = g_new0 (guint, ir->nodes->len + 1);

  for (guint i = 0; i < ir->nodes->len; i++)
    if (self->candidate[i])
      {
        self->group_of[i] = i + 1;
        g_array_append_val (nodes, i);
      }
  /* Regions that belong together read the same values, so searching the users of these finds them. */
  for (guint n = 0; n < nodes->len; n++)
    {
      const RlxIrNode *node = get_node (self, g_array_index (nodes, guint, n));

      for (guint i = 0; i < node->n_inputs; i++)
        {
          const GArray *users = self->base.users[node->inputs[i]->id];

          if (self->group_of[node->inputs[i]->node->id] != 0)
            unite (self, node->id, node->inputs[i]->node->id);
          for (guint k = 0; k < users->len && rlx_type_same_shape (&node->inputs[i]->type, &node->outputs[0].type); k++)
            {
              guint user = g_array_index (users, guint, k);

              if (user > node->id && self->group_of[user] != 0 && belong_together (self, node, get_node (self, user)))
                unite (self, node->id, user);
            }
        }
    }
  for (guint n = 0; n < nodes->len; n++)
    {
      guint id = g_array_index (nodes, guint, n), root = self->group_of[id] - 1;
      Group *group;

      if (number[root] == 0)
        {
          group = g_new0 (Group, 1);
          group->members = g_array_new (FALSE, FALSE, sizeof (guint));
          group->takers = g_array_new (FALSE, FALSE, sizeof (guint));
          g_ptr_array_add (self->groups, group);
          number[root] = self->groups->len;
        }
      group = g_ptr_array_index (self->groups, number[root] - 1);
      g_array_append_val (group->members, id);
      if (self->state_of[id] != NULL)
        g_array_append_val (group->takers, id);
    }
  for (guint n = 0; n < nodes->len; n++)
    {
      guint id = g_array_index (nodes, guint, n);

      self->group_of[id] = number[self->group_of[id] - 1];
    }
}

/* The group that updates @state; 0: none. */
static guint
find_group_of_state (const Updates    *self,
                     const RlxIrValue *state)
{
  for (guint i = 0; i < self->groups->len; i++)
    {
      const Group *group = g_ptr_array_index (self->groups, i);

      for (guint k = 0; k < group->takers->len; k++)
        if (self->state_of[g_array_index (group->takers, guint, k)] == state)
          return i + 1;
    }
  return 0;
}

/* Groups come after everything else, in any order, so none may read what another one updates, nor its own states in
 * another order than its own. Outputs keep the old values. */
static void
drop_unsafe (Updates *self)
{
  const RlxIr *ir = self->base.ir;

  for (guint i = 0; i < self->groups->len; i++)
    {
      const Group *group = g_ptr_array_index (self->groups, i);

      for (guint k = 0; k < group->members->len; k++)
        {
          const RlxIrNode *node = get_node (self, g_array_index (group->members, guint, k));

          for (guint j = 0; j < node->n_inputs; j++)
            {
              const RlxIrValue *memory = find_memory (node->inputs[j]);
              guint owner = is_state (memory) ? find_group_of_state (self, memory) : 0;

              if (owner != 0 && (owner != i + 1 || memory != node->inputs[j] || !reads_plainly (node, memory)))
                drop (self, g_ptr_array_index (self->groups, owner - 1));
              if (group->members->len == 0)
                break;
            }
        }
    }
  for (guint i = 0; i < ir->outputs->len + ir->assigns->len; i++)
    {
      const RlxIrValue *value = i < ir->outputs->len ? g_array_index (ir->outputs, RlxIrOutput, i).value
                                                     : g_array_index (ir->assigns, RlxIrAssign, i - ir->outputs->len).value;
      const RlxIrValue *memory = find_memory (value);
      guint owner = is_state (memory) ? find_group_of_state (self, memory) : 0;

      if (owner != 0)
        drop (self, g_ptr_array_index (self->groups, owner - 1));
    }
}

/* ---- how ------------------------------------------------------------------------------------ */

static guint
add_input (Group      *self,
           RlxIrValue *value)
{
  guint index;

  if (!g_ptr_array_find (self->inputs, value, &index))
    {
      index = self->inputs->len;
      g_ptr_array_add (self->inputs, value);
    }
  return index;
}

static int
add_operand (Group            *self,
             const RlxOperand *operand,
             RlxIrValue       *value)
{
  GArray *operands = self->fused->operands;
  RlxOperand copy = *operand;

  copy.input = add_input (self, value);
  for (guint i = 0; i < operands->len; i++)
    if (memcmp (&g_array_index (operands, RlxOperand, i), &copy, sizeof copy) == 0)
      return -1 - (int) i;
  g_array_append_val (operands, copy);
  return -(int) operands->len;
}

/* The instructions of all members, one after another. */
static void
build_region (Updates *self,
              Group   *group)
{
  g_autofree int *result_of = g_new (int, self->base.ir->nodes->len + 1);

  group->fused = rlx_fused_new ();
  group->fused->results = g_array_new (FALSE, FALSE, sizeof (guint));
  group->inputs = g_ptr_array_new ();
  memset (result_of, -1, self->base.ir->nodes->len * sizeof (int));
  for (guint i = 0; i < group->members->len; i++)
    {
      const RlxIrNode *node = get_node (self, g_array_index (group->members, guint, i));
      const RlxFused *fused = node->payload;
      int first = (int) group->fused->instructions->len;
      guint result;

      for (guint k = 0; k < fused->instructions->len; k++)
        {
          RlxInstruction instruction = g_array_index (fused->instructions, RlxInstruction, k);

          instruction.attrs = rlx_attrs_copy (instruction.op, instruction.attrs);
          for (guint j = 0; j < instruction.n_args; j++)
            {
              const RlxOperand *operand;
              RlxIrValue *value;

              if (instruction.args[j] >= 0)
                {
                  instruction.args[j] += first;
                  continue;
                }
              operand = &g_array_index (fused->operands, RlxOperand, -1 - instruction.args[j]);
              value = node->inputs[operand->input];
              instruction.args[j] = result_of[value->node->id] >= 0 ? result_of[value->node->id] : add_operand (group, operand, value);
            }
          g_array_append_val (group->fused->instructions, instruction);
        }
      result = group->fused->instructions->len - 1;
      result_of[node->id] = (int) result;
      if (self->state_of[node->id] != NULL)
        g_array_append_val (group->fused->results, result);
    }
}

static gboolean
is_own_state (const Updates    *self,
              const Group      *group,
              const RlxIrValue *value)
{
  for (guint i = 0; i < group->takers->len; i++)
    if (self->state_of[g_array_index (group->takers, guint, i)] == value)
      return TRUE;
  return FALSE;
}

/* Determines which inputs have an element for each result, and whether all of them fit into one kernel. */
static gboolean
check_region (Updates *self,
              Group   *group)
{
  const RlxTarget *target = self->base.target;
  const RlxTensorType *type = &get_node (self, g_array_index (group->members, guint, 0))->outputs[0].type;
  guint n = 0;

  group->is_tensor = g_new0 (gboolean, group->inputs->len + 1);
  for (guint i = 0; i < group->inputs->len; i++)
    {
      const RlxIrValue *value = g_ptr_array_index (group->inputs, i);
      double number;
      gint64 integer;

      if (rlx_ir_value_get_immediate (value, &number, &integer))
        continue;
      n += rlx_target_get_n_segments (target, rlx_type_device_size (&value->type));
      /* Inputs of one element that other groups also read are the same for all. */
      group->is_tensor[i] = rlx_type_n_elements (type) > 1 ? !rlx_fused_reads_one (group->fused, i, &value->type) : TRUE;
      for (guint k = 0; rlx_type_n_elements (type) == 1 && k < n_users (self, value); k++)
        {
          guint user = self->group_of[g_array_index (self->base.users[value->id], guint, k)];

          group->is_tensor[i] &= user == 0 || user == self->group_of[g_array_index (group->members, guint, 0)];
        }
    }
  /* A state that only takes a value has a binding without an operand. */
  for (guint i = 0; i < group->takers->len; i++)
    {
      const RlxIrValue *state = self->state_of[g_array_index (group->takers, guint, i)];

      if (!g_ptr_array_find (group->inputs, state, NULL))
        return FALSE;
    }
  return n <= target->limits.max_storage_buffers && group->fused->instructions->len <= MAX_INSTRUCTIONS;
}

static guint
find_input (const Group      *group,
            const RlxIrValue *value)
{
  guint index = G_MAXUINT;

  g_ptr_array_find (group->inputs, value, &index);
  return index;
}

/* Whether two values that are not read element by element are the same. */
static gboolean
is_equal (const RlxIrValue *x,
          const RlxIrValue *y)
{
  double number[2];
  gint64 integer[2];

  return x == y || (rlx_ir_value_get_immediate (x, &number[0], &integer[0]) && rlx_ir_value_get_immediate (y, &number[1], &integer[1]) &&
                    memcmp (&number[0], &number[1], sizeof number[0]) == 0 && integer[0] == integer[1]);
}

/* Whether both do the same, with the same numbers. */
static gboolean
do_the_same (const Updates *self,
             const Group   *a,
             const Group   *b)
{
  if (a->takers->len != b->takers->len || a->inputs->len != b->inputs->len ||
      a->fused->instructions->len != b->fused->instructions->len || a->fused->operands->len != b->fused->operands->len)
    return FALSE;
  for (guint i = 0; i < a->inputs->len; i++)
    {
      const RlxIrValue *x = g_ptr_array_index (a->inputs, i), *y = g_ptr_array_index (b->inputs, i);

      if (a->is_tensor[i] != b->is_tensor[i] || x->type.data_type != y->type.data_type || (!a->is_tensor[i] && !is_equal (x, y)))
        return FALSE;
      if (a->is_tensor[i] && (x->type.data_type != RLX_DATA_TYPE_F32 || is_state (x) != is_state (y) || is_state (x) != is_own_state (self, a, x)))
        return FALSE;
    }
  for (guint i = 0; i < a->takers->len; i++)
    if (g_array_index (a->fused->results, guint, i) != g_array_index (b->fused->results, guint, i) ||
        find_input (a, self->state_of[g_array_index (a->takers, guint, i)]) != find_input (b, self->state_of[g_array_index (b->takers, guint, i)]))
      return FALSE;
  for (guint i = 0; i < a->fused->operands->len; i++)
    {
      const RlxOperand *x = &g_array_index (a->fused->operands, RlxOperand, i), *y = &g_array_index (b->fused->operands, RlxOperand, i);

      if (x->input != y->input || (!a->is_tensor[x->input] && x->offset != y->offset) ||
          (a->is_tensor[x->input] &&
           (!rlx_operand_is_plain (x, &((const RlxIrValue *) g_ptr_array_index (a->inputs, x->input))->type) ||
            !rlx_operand_is_plain (y, &((const RlxIrValue *) g_ptr_array_index (b->inputs, y->input))->type) ||
            rlx_type_n_elements (&((const RlxIrValue *) g_ptr_array_index (a->inputs, x->input))->type) !=
              rlx_type_n_elements (&get_node (self, g_array_index (a->members, guint, 0))->outputs[0].type) ||
            rlx_type_n_elements (&((const RlxIrValue *) g_ptr_array_index (b->inputs, y->input))->type) !=
              rlx_type_n_elements (&get_node (self, g_array_index (b->members, guint, 0))->outputs[0].type))))
        return FALSE;
    }
  for (guint i = 0; i < a->fused->instructions->len; i++)
    {
      const RlxInstruction *x = &g_array_index (a->fused->instructions, RlxInstruction, i), *y = &g_array_index (b->fused->instructions, RlxInstruction, i);

      if (x->op != y->op || x->type != y->type || x->operand_type != y->operand_type || x->n_args != y->n_args ||
          memcmp (x->args, y->args, x->n_args * sizeof x->args[0]) != 0 || !rlx_attrs_equal (x->op, x->attrs, y->attrs))
        return FALSE;
    }
  return TRUE;
}

/* One node for the group @first and all later ones that do the same. */
static void
build_update (Updates  *self,
              RlxIr    *ir,
              guint     first,
              gboolean *done)
{
  Group *model = g_ptr_array_index (self->groups, first);
  g_autoptr(GPtrArray) inputs = g_ptr_array_new ();
  g_autoptr(GArray) takers = g_array_new (FALSE, FALSE, sizeof (guint));
  g_autoptr(GArray) types = g_array_new (FALSE, FALSE, sizeof (RlxTensorType));
  const RlxIrNode *last;
  RlxIrNode *node;
  guint n = 0;

  for (guint g = first; g < self->groups->len; g++)
    {
      const Group *group = g_ptr_array_index (self->groups, g);

      if (done[g] || group->members->len == 0 || (g != first && !do_the_same (self, model, group)))
        continue;
      done[g] = TRUE;
      n++;
      for (guint i = 0; i < group->inputs->len; i++)
        g_ptr_array_add (inputs, g_ptr_array_index (group->inputs, i));
      for (guint i = 0; i < group->takers->len; i++)
        {
          guint id = g_array_index (group->takers, guint, i);

          g_array_append_val (takers, id);
          g_array_append_val (types, get_node (self, id)->outputs[0].type);
        }
    }
  last = get_node (self, g_array_index (model->takers, guint, model->takers->len - 1));
  node = rlx_ir_append (ir, &rlx_op_fused, NULL, (RlxIrValue **) inputs->pdata, inputs->len, (RlxTensorType *) types->data, types->len);
  node->origin = last->origin;
  node->name = g_strdup (last->name);
  node->payload = g_steal_pointer (&model->fused);
  node->payload_free = rlx_fused_free;
  ((RlxFused *) node->payload)->n_groups = n;
  for (guint i = 0; i < takers->len; i++)
    for (guint k = 0; k < ir->assigns->len; k++)
      {
        RlxIrAssign *assign = &g_array_index (ir->assigns, RlxIrAssign, k);

        if (assign->value == &get_node (self, g_array_index (takers, guint, i))->outputs[0])
          assign->value = &node->outputs[i];
      }
  RLX_NOTE (FUSE, "%%%u: one update of %u states for %u tensors", last->outputs[0].id, model->takers->len, n);
}

/* Removes the nodes that groups replace. */
static void
remove_members (Updates *self,
                RlxIr   *ir,
                guint    n_nodes)
{
  GPtrArray *nodes = ir->nodes;

  for (guint i = n_nodes; i-- > 0;)
    if (self->group_of[i] != 0)
      g_ptr_array_remove_index (nodes, i);
  for (guint i = 0; i < nodes->len; i++)
    ((RlxIrNode *) g_ptr_array_index (nodes, i))->id = i;
}

void
rlx_ir_join_updates (RlxIr           *ir,
                     const RlxTarget *target)
{
  g_auto(Updates) self = { 0 };
  g_autofree gboolean *done = NULL;
  guint n_nodes = ir->nodes->len;

  if (ir->assigns->len == 0)
    return;
  rlx_rewrite_init (&self.base, ir, target);
  self.state_of = g_new0 (RlxIrValue *, n_nodes + 1);
  self.candidate = g_new0 (gboolean, n_nodes + 1);
  self.group_of = g_new0 (guint, n_nodes + 1);
  self.groups = g_ptr_array_new_with_free_func (group_free);
  find_candidates (&self);
  find_groups (&self);
  drop_unsafe (&self);
  for (guint i = 0; i < self.groups->len; i++)
    {
      Group *group = g_ptr_array_index (self.groups, i);

      if (group->members->len == 0)
        continue;
      build_region (&self, group);
      if (!check_region (&self, group))
        drop (&self, group);
    }

  /* Its facts describe the graph as it is. */
  rlx_rewrite_clear (&self.base);
  done = g_new0 (gboolean, self.groups->len + 1);
  for (guint i = 0; i < self.groups->len; i++)
    {
      done[i] |= ((const Group *) g_ptr_array_index (self.groups, i))->members->len == 0;
      if (!done[i])
        build_update (&self, ir, i, done);
    }
  remove_members (&self, ir, n_nodes);
}
