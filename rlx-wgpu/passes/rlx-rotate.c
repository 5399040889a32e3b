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
#include "util/rlx-debug-private.h"

/* The operands of rope, rope_2d and write_at. */
enum { X = RLX_ROPE_SELF, POSITIONS = RLX_ROPE_POSITIONS, COSINES = RLX_ROPE_COSINES, SINES = RLX_ROPE_SINES };
enum { CACHE = RLX_WRITE_AT_SELF, ROWS = RLX_WRITE_AT_VALUE, INDEX = RLX_WRITE_AT_POSITION };

typedef struct
{
  const RlxIrNode *rope;      /* nullable */
  const RlxIrNode *write;     /* nullable */
  const RlxIrValue *x;        /* the value that is read */
  const RlxIrValue *y;        /* the value that others see */
  RlxRopePart how;
} Part;

typedef struct
{
  GPtrArray *parts;           /* Part, in the order of the graph */
  guint last;                 /* the node at which all can be created */
} Group;

typedef struct
{
  RlxRewrite *base;
  gboolean *constant;         /* by node id */
  GPtrArray *groups;          /* Group */
} Rotator;

static const RlxIrValue *
get_input (const RlxIrNode *node,
           guint            index)
{
  return node != NULL && index < node->n_inputs ? node->inputs[index] : NULL;
}

/* Whether a write_at computes the next value of a state that only it reads, so that it
 * need not copy the state. */
static gboolean
updates_state (Rotator         *self,
               const RlxIrNode *node)
{
  const RlxIrValue *state;

  if (!rlx_ir_node_is (node, RLX_OP_ID_WRITE_AT) || RLX_DEBUG_CHECK (NO_ALIAS))
    return FALSE;
  state = node->inputs[CACHE];
  if (!rlx_ir_node_is (state->node, RLX_OP_ID_STATE))
    {
      RLX_NOTE (FUSE, "%%%u write_at copies its operand: that is no state", node->outputs[0].id);
      return FALSE;
    }
  if (!rlx_data_type_is_float (state->type.data_type) || rlx_type_n_elements (&node->inputs[ROWS]->type) == 0)
    return FALSE;
  if (rlx_rewrite_get_only_user (self->base, state) != node)
    {
      RLX_NOTE (FUSE, "%%%u write_at copies its state: something else needs that", node->outputs[0].id);
      return FALSE;
    }
  for (guint i = 0; i < self->base->ir->assigns->len; i++)
    {
      const RlxIrAssign *assign = &g_array_index (self->base->ir->assigns, RlxIrAssign, i);

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
  gboolean rope = rlx_ir_node_is (node, RLX_OP_ID_ROPE) || rlx_ir_node_is (node, RLX_OP_ID_ROPE_2D);
  const RlxIrNode *user;

  *part = (Part) { 0, };
  if (rlx_type_n_elements (&node->outputs[0].type) == 0 || (!rope && !updates_state (self, node)))
    return FALSE;
  if (rope)
    {
      part->rope = node;
      part->how.rotates = TRUE;
      part->y = &node->outputs[0];
      user = rlx_rewrite_get_only_user (self->base, part->y);
      if (user != NULL && rlx_ir_node_swaps_middle (user))
        {
          user = rlx_rewrite_get_only_user (self->base, &user->outputs[0]);
          part->how.swap_y = user != NULL;
        }
      if (user != NULL && rlx_ir_node_is (user, RLX_OP_ID_WRITE_AT) && user->inputs[ROWS] != user->inputs[CACHE] &&
          user->inputs[ROWS] == (part->how.swap_y ? &rlx_rewrite_get_only_user (self->base, part->y)->outputs[0] : part->y) && updates_state (self, user))
        part->write = user;
      else
        part->how.swap_y = FALSE;
    }
  else
    {
      part->write = node;
    }

  part->x = rlx_value_skip_reshapes (node->inputs[rope ? X : ROWS]);
  if (rlx_ir_node_swaps_middle (part->x->node))
    {
      part->how.swap_x = TRUE;
      part->x = part->x->node->inputs[0];
    }
  if (part->write != NULL)
    {
      part->y = &part->write->outputs[0];
      part->how.writes = TRUE;
      part->how.axis = rlx_type_get_axis (&part->y->type, rlx_write_at_attrs (part->write)->axis);
    }
  return TRUE;
}

static guint
get_last_node (const Part *part)
{
  return part->write != NULL ? part->write->id : part->rope->id;
}

/* ---- groups ------------------------------------------------------------------------- */

/* How many elements of the width are rotated. */
static gint64
get_rotated (const RlxIrNode *rope)
{
  gint64 rotated = rlx_rope_attrs (rope)->rotated;

  return rotated != 0 ? rotated : rope->inputs[X]->type.shape[3];
}

/* Whether two operands (nullable) are the same numbers in the same shape. */
static gboolean
is_same_operand (const RlxIrValue *a,
                 const RlxIrValue *b)
{
  while (a != b)
    {
      if (a == NULL || b == NULL || !rlx_ir_node_is (a->node, RLX_OP_ID_RESHAPE) || !rlx_ir_node_is (b->node, RLX_OP_ID_RESHAPE) ||
          !rlx_type_equal (&a->type, &b->type))
        return FALSE;
      a = a->node->inputs[0];
      b = b->node->inputs[0];
    }
  return TRUE;
}

/* Whether two nodes rotate their tokens by the same angles. The number of heads may differ. */
static gboolean
rotate_alike (const RlxIrNode *a,
            const RlxIrNode *b)
{
  const RlxTensorType *type_a = &a->inputs[X]->type, *type_b = &b->inputs[X]->type;
  const RlxRopeAttrs *attrs_a, *attrs_b;
  guint sequence;

  if (a->op != b->op)
    return FALSE;
  attrs_a = rlx_rope_attrs (a);
  attrs_b = rlx_rope_attrs (b);
  if (attrs_a->layout != attrs_b->layout || attrs_a->interleaved != attrs_b->interleaved || attrs_a->base != attrs_b->base ||
      attrs_a->scale != attrs_b->scale || attrs_a->columns != attrs_b->columns || get_rotated (a) != get_rotated (b))
    return FALSE;
  for (guint i = POSITIONS; i <= SINES; i++)
    if (!is_same_operand (get_input (a, i), get_input (b, i)))
      return FALSE;
  sequence = attrs_a->layout == RLX_HEAD_LAYOUT_HEADS_FIRST ? 2 : 1;
  return type_a->shape[0] == type_b->shape[0] && type_a->shape[sequence] == type_b->shape[sequence];
}

static guint
count_segments (Rotator          *self,
                const RlxIrValue *value)
{
  return value != NULL ? rlx_target_get_n_segments (self->base->target, rlx_type_device_size (&value->type)) : 0;
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

/* Whether nothing reads @part before @last. */
static gboolean
is_needed_after (Rotator    *self,
                 const Part *part,
                 guint       last)
{
  const GArray *users = self->base->users[part->y->id];

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
          (part->rope != NULL && other->rope != NULL && !rotate_alike (part->rope, other->rope)) ||
          (part->write != NULL && other->write != NULL && part->write->inputs[INDEX] != other->write->inputs[INDEX]))
        return FALSE;
      if (!is_needed_after (self, other, last))
        {
          RLX_NOTE (FUSE, "%%%u is not merged with %%%u: that is needed earlier", part->y->id, other->y->id);
          return FALSE;
        }
    }
  if (!is_needed_after (self, part, last) || group->parts->len == RLX_JOINT_ROPE_MAX_PARTS)
    return FALSE;
  n = count_bindings (self, group->parts, part);
  if (n > self->base->target->limits.max_storage_buffers)
    {
      RLX_NOTE (FUSE, "%%%u is not merged with others: they would need %u storage bindings, there are %u", part->y->id, n,
                self->base->target->limits.max_storage_buffers);
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

/* Only searches the latest groups: earlier ones belong to another layer. */
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
  g_autofree gboolean *seen = g_new0 (gboolean, self->base->ir->nodes->len + 1);

  for (guint i = 0; i < self->base->ir->nodes->len; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (self->base->ir->nodes, i);
      Part part;

      if (!self->base->live[i] || seen[i] || !find_part (self, node, &part))
        continue;
      if (part.write != NULL)
        seen[part.write->id] = TRUE;
      add_to_group (self, &part);
    }
}

/* A group of one changes nothing, unless it can be written or read directly. */
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
  int rank_a = part_a->how.writes + (part_a->how.rotates ? 0 : 2), rank_b = part_b->how.writes + (part_b->how.rotates ? 0 : 2);

  return rank_a != rank_b ? rank_a - rank_b : (int) get_last_node (part_a) - (int) get_last_node (part_b);
}

static RlxIrValue *
find_mapped (Rotator          *self,
             const RlxIrValue *value)
{
  return value != NULL ? self->base->map[value->id] : NULL;
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

  node = rlx_ir_append (self->base->out, &rlx_op_joint_rope, rlx_joint_rope_attrs_new (rope, parts, n), (RlxIrValue **) inputs->pdata, inputs->len, types, n);
  first = rope != NULL ? rope : write;
  node->origin = first->origin;
  node->name = g_strdup (first->name);
  for (guint i = 0; i < n; i++)
    {
      const Part *part = g_ptr_array_index (group->parts, i);

      self->base->map[part->y->id] = &node->outputs[i];
      RLX_NOTE (FUSE, "%%%u: %s%s%s%s", part->y->id, part->rope != NULL ? "rows are rotated" : "rows are moved",
                part->how.swap_x ? " as they are before the transpose" : "", part->write != NULL ? " into their state" : "",
                n > 1 ? ", with others" : "");
    }
}

/* ---- the pass ------------------------------------------------------------------------- */

RlxIr *
rlx_pass_rotate (const RlxIr     *ir,
                 const RlxTarget *target,
                 GError         **error)
{
  g_auto(RlxRewrite) base = { 0, };
  g_autofree gboolean *constant = rlx_ir_find_constant_nodes (ir);
  g_autofree gboolean *taken = g_new0 (gboolean, ir->nodes->len + 1);
  g_autofree Group **at = g_new0 (Group *, ir->nodes->len + 1);
  g_autoptr(GPtrArray) groups = g_ptr_array_new_with_free_func (free_group);
  Rotator self = { &base, constant, groups };

  rlx_rewrite_init (&base, ir, target);
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
      /* A swap between rotation and cache loses its operand. */
      if (!base.live[i] || taken[i] || (rlx_ir_node_swaps_middle (node) && base.map[node->inputs[0]->id] == NULL))
        continue;
      rlx_rewrite_copy (&base, node);
    }

  return rlx_rewrite_end (&base);
}
