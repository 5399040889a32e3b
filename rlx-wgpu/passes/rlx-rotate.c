/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Makes one node of what a decoder does between its projections and its attention:
 *
 * - Rotary positions whose result only goes to a write_at are written where that
 *   would have put them, if it updates a state.
 * - Rotary positions of several tensors by the same angles, and write_at of rows at
 *   the same position, become one joint_rope. Nobody may need the first of them before
 *   the last can be made.
 * - An exchange of the two middle axes, before the rotation or between it and the
 *   cache, is a way to read or to write.
 */
#include "config.h"

#include "passes/rlx-passes-private.h"

#include "ops/rlx-rope-private.h"
#include "ops/rlx-shape-private.h"
#include "plan/rlx-plan-private.h"
#include "util/rlx-debug-private.h"

/* The operands of rope, rope_2d and write_at. */
enum { X, POSITIONS, COSINES, SINES };
enum { CACHE, ROWS, INDEX };

typedef struct
{
  const RlxIrNode *rope;      /* nullable */
  const RlxIrNode *write;     /* nullable */
  const RlxIrValue *x;        /* what is read in the end */
  const RlxIrValue *y;        /* what others see */
  RlxRopePart how;
} Part;

typedef struct
{
  GPtrArray *parts;           /* Part, in the order of the graph */
  guint last;                 /* the node where all can be made */
} Group;

typedef struct
{
  const RlxIr *ir;
  const RlxGpuAdapterInfo *adapter;
  RlxIr *out;
  gboolean *live;
  gboolean *constant;
  GArray **users;
  gboolean *pinned;
  RlxIrValue **map;
  GPtrArray *groups;          /* Group */
} Rotator;

static const RlxIrValue *
get_input (const RlxIrNode *node,
           guint            index)
{
  return node != NULL && index < node->n_inputs ? node->inputs[index] : NULL;
}

/* The node that alone reads a value which nothing else needs. */
static const RlxIrNode *
get_only_user (Rotator          *self,
               const RlxIrValue *value)
{
  const GArray *users = self->users[value->id];

  if (self->pinned[value->id] || users == NULL || users->len != 1)
    return NULL;
  return g_ptr_array_index (self->ir->nodes, g_array_index (users, guint, 0));
}

/* Whether a write_at makes the next value of the state that it alone reads, so that
 * it need not copy it. */
static gboolean
updates_state (Rotator         *self,
               const RlxIrNode *node)
{
  const RlxIrValue *state;

  if (!rlx_node_is (node, "write_at") || RLX_DEBUG_CHECK (NO_ALIAS))
    return FALSE;
  state = node->inputs[CACHE];
  if (!rlx_node_is (state->node, "state"))
    {
      RLX_NOTE (FUSE, "%%%u write_at copies its operand: that is no state", node->outputs[0].id);
      return FALSE;
    }
  if (!rlx_data_type_is_float (state->type.dtype) || rlx_type_n_elements (&node->inputs[ROWS]->type) == 0)
    return FALSE;
  if (get_only_user (self, state) != node)
    {
      RLX_NOTE (FUSE, "%%%u write_at copies its state: something else needs that", node->outputs[0].id);
      return FALSE;
    }
  for (guint i = 0; i < self->ir->assigns->len; i++)
    {
      const RlxIrAssign *assign = &g_array_index (self->ir->assigns, RlxIrAssign, i);

      if (assign->state == state && assign->value == &node->outputs[0])
        return TRUE;
    }
  RLX_NOTE (FUSE, "%%%u write_at copies its state: that becomes something else", node->outputs[0].id);
  return FALSE;
}

/* ---- parts -------------------------------------------------------------------------- */

static gboolean
find_part (Rotator         *self,
           const RlxIrNode *node,
           Part            *part)
{
  gboolean rope = rlx_node_is (node, "rope") || rlx_node_is (node, "rope_2d");
  const RlxIrNode *user;
  gint64 axis;

  *part = (Part) { 0, };
  if (rlx_type_n_elements (&node->outputs[0].type) == 0 || (!rope && !updates_state (self, node)))
    return FALSE;
  if (rope)
    {
      part->rope = node;
      part->how.turns = TRUE;
      part->y = &node->outputs[0];
      user = get_only_user (self, part->y);
      if (user != NULL && rlx_node_swaps_middle (user))
        {
          user = get_only_user (self, &user->outputs[0]);
          part->how.swap_y = user != NULL;
        }
      if (user != NULL && rlx_node_is (user, "write_at") && user->inputs[ROWS] != user->inputs[CACHE] &&
          user->inputs[ROWS] == (part->how.swap_y ? &get_only_user (self, part->y)->outputs[0] : part->y) && updates_state (self, user))
        part->write = user;
      else
        part->how.swap_y = FALSE;
    }
  else
    {
      part->write = node;
    }

  part->x = rlx_value_skip_reshapes (node->inputs[rope ? X : ROWS]);
  if (rlx_node_swaps_middle (part->x->node))
    {
      part->how.swap_x = TRUE;
      part->x = part->x->node->inputs[0];
    }
  if (part->write != NULL)
    {
      part->y = &part->write->outputs[0];
      part->how.writes = TRUE;
      axis = rlx_node_attr (part->write, "axis")->i;
      part->how.axis = (guint) (axis < 0 ? axis + part->y->type.rank : axis);
    }
  return TRUE;
}

static guint
get_last_node (const Part *part)
{
  return part->write != NULL ? part->write->id : part->rope->id;
}

/* ---- groups ------------------------------------------------------------------------- */

static gboolean
same_float (const RlxIrNode *a,
            const RlxIrNode *b,
            const char      *name)
{
  return rlx_node_attr (a, name)->f == rlx_node_attr (b, name)->f;
}

static gboolean
same_int (const RlxIrNode *a,
          const RlxIrNode *b,
          const char      *name)
{
  return rlx_node_attr (a, name)->i == rlx_node_attr (b, name)->i;
}

/* Whether two nodes turn their tokens by the same angles. Heads may differ in number. */
static gboolean
turn_alike (const RlxIrNode *a,
            const RlxIrNode *b)
{
  const RlxTensorType *type_a = &a->inputs[X]->type, *type_b = &b->inputs[X]->type;
  guint sequence;

  if (a->op != b->op || !same_int (a, b, "layout") || !same_int (a, b, "interleaved") || !same_float (a, b, "base") || !same_float (a, b, "scale"))
    return FALSE;
  for (guint i = POSITIONS; i <= SINES; i++)
    if (get_input (a, i) != get_input (b, i))
      return FALSE;
  if (rlx_node_is (a, "rope_2d") ? !same_int (a, b, "columns") || type_a->dims[3] != type_b->dims[3]
                           : (rlx_node_attr (a, "rotated")->i ? rlx_node_attr (a, "rotated")->i : type_a->dims[3]) !=
                               (rlx_node_attr (b, "rotated")->i ? rlx_node_attr (b, "rotated")->i : type_b->dims[3]))
    return FALSE;
  sequence = rlx_node_attr (a, "layout")->i == RLX_HEAD_LAYOUT_HEADS_FIRST ? 2 : 1;
  return type_a->dims[0] == type_b->dims[0] && type_a->dims[sequence] == type_b->dims[sequence];
}

static guint
count_segments (Rotator          *self,
                const RlxIrValue *value)
{
  return value != NULL ? rlx_n_segments (rlx_type_device_size (&value->type), self->adapter) : 0;
}

/* The storage bindings that parts need, with what they share. */
static guint
count_bindings (Rotator         *self,
                const GPtrArray *parts,
                const Part      *more)
{
  const RlxIrNode *rope = NULL, *write = NULL;
  guint n = 0;

  for (guint i = 0; i <= parts->len; i++)
    {
      const Part *part = i < parts->len ? g_ptr_array_index (parts, i) : more;

      rope = part->rope != NULL ? part->rope : rope;
      write = part->write != NULL ? part->write : write;
      n += count_segments (self, part->x) + count_segments (self, part->y);
    }
  if (rope != NULL)
    n += count_segments (self, get_input (rope, POSITIONS)) +
         (get_input (rope, COSINES) != NULL ? count_segments (self, get_input (rope, COSINES)) + count_segments (self, get_input (rope, SINES)) : 1);
  return n + (write != NULL);
}

/* Whether nobody reads @part before @last is there. */
static gboolean
is_needed_after (Rotator    *self,
                 const Part *part,
                 guint       last)
{
  const GArray *users = self->users[part->y->id];

  for (guint i = 0; users != NULL && i < users->len; i++)
    if (g_array_index (users, guint, i) <= last)
      return FALSE;
  return TRUE;
}

static gboolean
fits (Rotator     *self,
      const Group *group,
      const Part  *part)
{
  guint last = MAX (group->last, get_last_node (part)), n;

  for (guint i = 0; i < group->parts->len; i++)
    {
      const Part *other = g_ptr_array_index (group->parts, i);

      /* what is computed once is better computed once */
      if (self->constant[get_last_node (part)] != self->constant[get_last_node (other)] ||
          (part->rope != NULL && other->rope != NULL && !turn_alike (part->rope, other->rope)) ||
          (part->write != NULL && other->write != NULL && part->write->inputs[INDEX] != other->write->inputs[INDEX]))
        return FALSE;
      if (!is_needed_after (self, other, last))
        {
          RLX_NOTE (FUSE, "%%%u is not made with %%%u: that is needed before", part->y->id, other->y->id);
          return FALSE;
        }
    }
  if (!is_needed_after (self, part, last) || group->parts->len == RLX_JOINT_ROPE_MAX_PARTS)
    return FALSE;
  n = count_bindings (self, group->parts, part);
  if (n > self->adapter->limits.max_storage_buffers)
    {
      RLX_NOTE (FUSE, "%%%u is not made with others: they would need %u storage bindings, there are %u", part->y->id, n,
                self->adapter->limits.max_storage_buffers);
      return FALSE;
    }
  return TRUE;
}

static void
free_group (gpointer data)
{
  Group *group = data;

  g_ptr_array_unref (group->parts);
  g_free (group);
}

/* Looks at the latest groups only: those before are of another layer. */
static void
add_to_group (Rotator    *self,
              const Part *part)
{
  Group *group = NULL;

  for (guint i = self->groups->len; group == NULL && i-- > 0 && i + 2 >= self->groups->len;)
    if (fits (self, g_ptr_array_index (self->groups, i), part))
      group = g_ptr_array_index (self->groups, i);
  if (group == NULL)
    {
      group = g_new0 (Group, 1);
      group->parts = g_ptr_array_new_with_free_func (g_free);
      g_ptr_array_add (self->groups, group);
    }
  g_ptr_array_add (group->parts, g_memdup2 (part, sizeof *part));
  group->last = MAX (group->last, get_last_node (part));
}

static void
find_groups (Rotator *self)
{
  g_autofree gboolean *seen = g_new0 (gboolean, self->ir->nodes->len + 1);

  for (guint i = 0; i < self->ir->nodes->len; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (self->ir->nodes, i);
      Part part;

      if (!self->live[i] || seen[i] || !find_part (self, node, &part))
        continue;
      if (part.write != NULL)
        seen[part.write->id] = TRUE;
      add_to_group (self, &part);
    }
}

/* One of a kind is what it is already, unless it would be written, or read, at once. */
static gboolean
is_worthwhile (const Group *group)
{
  const Part *first = g_ptr_array_index (group->parts, 0);

  return group->parts->len > 1 || first->how.swap_x || (first->rope != NULL && first->write != NULL);
}

static int
compare_parts (gconstpointer a,
               gconstpointer b)
{
  const Part *part_a = *(const Part *const *) a, *part_b = *(const Part *const *) b;
  int rank_a = part_a->how.writes + (part_a->how.turns ? 0 : 2), rank_b = part_b->how.writes + (part_b->how.turns ? 0 : 2);

  return rank_a != rank_b ? rank_a - rank_b : (int) get_last_node (part_a) - (int) get_last_node (part_b);
}

static RlxIrValue *
find_mapped (Rotator          *self,
             const RlxIrValue *value)
{
  return value != NULL ? self->map[value->id] : NULL;
}

static void
append_group (Rotator *self,
              Group   *group)
{
  g_autoptr(GPtrArray) inputs = g_ptr_array_new ();
  RlxRopePart parts[RLX_JOINT_ROPE_MAX_PARTS];
  RlxTensorType types[RLX_JOINT_ROPE_MAX_PARTS];
  const RlxIrNode *rope = NULL, *write = NULL, *first;
  guint n = group->parts->len;
  RlxIrNode *node;

  g_ptr_array_sort (group->parts, compare_parts);
  for (guint i = 0; i < n; i++)
    {
      const Part *part = g_ptr_array_index (group->parts, i);

      rope = part->rope != NULL ? part->rope : rope;
      write = part->write != NULL ? part->write : write;
      parts[i] = part->how;
      types[i] = part->y->type;
    }
  for (guint i = POSITIONS; i <= SINES; i++)
    g_ptr_array_add (inputs, find_mapped (self, get_input (rope, i)));
  g_ptr_array_add (inputs, find_mapped (self, get_input (write, INDEX)));
  for (guint i = 0; i < n; i++)
    g_ptr_array_add (inputs, find_mapped (self, ((const Part *) g_ptr_array_index (group->parts, i))->x));
  for (guint i = 0; i < n; i++)
    {
      const Part *part = g_ptr_array_index (group->parts, i);

      if (part->write != NULL)
        g_ptr_array_add (inputs, find_mapped (self, part->write->inputs[CACHE]));
    }

  node = rlx_ir_append (self->out, &rlx_op_joint_rope, rlx_joint_rope_attrs (rope, parts, n), (RlxIrValue **) inputs->pdata, inputs->len, types, n);
  first = rope != NULL ? rope : write;
  node->origin = first->origin;
  node->name = g_strdup (first->name);
  for (guint i = 0; i < n; i++)
    {
      const Part *part = g_ptr_array_index (group->parts, i);

      self->map[part->y->id] = &node->outputs[i];
      RLX_NOTE (FUSE, "%%%u: %s%s%s%s", part->y->id, part->rope != NULL ? "positions are turned" : "rows are moved",
                part->how.swap_x ? " as they are before the transpose" : "", part->write != NULL ? " into their state" : "",
                n > 1 ? ", with others" : "");
    }
}

/* ---- the pass ------------------------------------------------------------------------- */

RlxIr *
rlx_pass_rotate (const RlxIr             *ir,
                 const RlxGpuAdapterInfo *adapter)
{
  RlxIr *out = rlx_ir_new ();
  g_autofree gboolean *live = rlx_ir_find_live_nodes (ir);
  g_autofree gboolean *constant = rlx_ir_find_constant_nodes (ir);
  GArray **users = rlx_ir_find_users (ir, live);
  g_autofree gboolean *pinned = rlx_ir_find_pinned_values (ir);
  g_autofree RlxIrValue **map = g_new0 (RlxIrValue *, ir->n_values + 1);
  g_autofree gboolean *taken = g_new0 (gboolean, ir->nodes->len + 1);
  g_autofree Group **at = g_new0 (Group *, ir->nodes->len + 1);
  g_autoptr(GPtrArray) groups = g_ptr_array_new_with_free_func (free_group);
  Rotator self = { ir, adapter, out, live, constant, users, pinned, map, groups };

  if (!RLX_DEBUG_CHECK (NO_FUSE))
    find_groups (&self);
  for (guint i = 0; i < groups->len; i++)
    {
      Group *group = g_ptr_array_index (groups, i);

      if (!is_worthwhile (group))
        continue;
      at[group->last] = group;
      for (guint j = 0; j < group->parts->len; j++)
        {
          const Part *part = g_ptr_array_index (group->parts, j);

          if (part->rope != NULL)
            taken[part->rope->id] = TRUE;
          if (part->write != NULL)
            taken[part->write->id] = TRUE;
        }
    }

  for (guint i = 0; i < ir->nodes->len; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);

      if (at[i] != NULL)
        append_group (&self, at[i]);
      /* An exchange between rotation and cache is left without its operand. */
      if (!live[i] || taken[i] || (rlx_node_swaps_middle (node) && map[node->inputs[0]->id] == NULL))
        continue;
      rlx_ir_copy_node (out, node, map);
    }

  rlx_ir_copy_results (out, ir, map);
  rlx_ir_free_users (ir, users);
  return out;
}
