/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Walks the optimised graph in order and lets each operator describe its
 * steps. Nodes that depend on constants and parameters alone go into the
 * prologue, which runs once: that is all there is to constant folding.
 */
#include "config.h"

#include "plan/rlx-plan-private.h"

#include <string.h>

#include "ops/rlx-builder-private.h"
#include "ops/rlx-report-private.h"
#include "ops/rlx-shape-private.h"
#include "passes/rlx-passes-private.h"
#include "util/rlx-debug-private.h"

struct _RlxLower
{
  RlxPlan *plan;
  const RlxTarget *target;
  GHashTable *slots;        /* RlxIrValue → slot + 1 */
  GPtrArray *temporaries;   /* RlxIrValue */
  GPtrArray *main_steps;    /* the prologue goes straight into the plan */
  gboolean prologue;        /* the node being lowered is constant */
  guint n_nodes;            /* of the graph; those that lowerings add come after them */
  const guint *uses;        /* of the graph's values, by id */
  guint f16_weight;             /* condition of the steps being created, as in RlxStep */
  gboolean if_f16;
  guint choice;             /* of the variant that is creating steps, as in RlxStep */
};

const RlxTarget *
rlx_lower_get_target (RlxLower *lower)
{
  return lower->target;
}

RlxPrecision
rlx_lower_get_precision (RlxLower *lower)
{
  /* What runs once need not be fast. */
  return lower->prologue ? RLX_PRECISION_FULL : lower->plan->ir->precision;
}

guint
rlx_lower_begin_choice (RlxLower  *lower,
                        RlxChoice *choice)
{
  guint before = lower->choice;

  choice->once = lower->prologue;
  choice->parent = before;
  g_ptr_array_add (lower->plan->choices, choice);
  lower->choice = lower->plan->choices->len;
  return before;
}

void
rlx_lower_end_choice (RlxLower *lower,
                      guint     before)
{
  lower->choice = before;
}

static guint
add_slot (RlxLower            *lower,
          const RlxTensorType *type,
          RlxSlotKind          kind,
          const RlxIrNode     *leaf)
{
  RlxSlot slot = {
    .kind = kind,
    .type = *type,
    .size = rlx_type_device_size (type),
    .leaf = leaf,
    .first = -1,
    .last = -1,
    .shares = -1,
  };

  g_array_append_val (lower->plan->slots, slot);
  return lower->plan->slots->len - 1;
}

/* Slots are created when a value is first used: constants that end up as numbers in
 * parameter blocks never get one. */
guint
rlx_lower_get_slot (RlxLower         *lower,
                    const RlxIrValue *value)
{
  guint slot = GPOINTER_TO_UINT (g_hash_table_lookup (lower->slots, value));

  if (slot == 0)
    {
      const RlxIrNode *node = value->node;
      RlxSlotKind kind = RLX_SLOT_ACTIVATION;

      if (node != NULL && (node->op->flags & RLX_OP_LEAF))
        kind = rlx_ir_node_is (node, RLX_OP_ID_INPUT) ? RLX_SLOT_INPUT : rlx_ir_node_is (node, RLX_OP_ID_STATE) ? RLX_SLOT_STATE : RLX_SLOT_WEIGHT;
      slot = add_slot (lower, &value->type, kind, kind == RLX_SLOT_ACTIVATION ? NULL : node) + 1;
      g_hash_table_insert (lower->slots, (gpointer) value, GUINT_TO_POINTER (slot));
    }

  return slot - 1;
}

/* By value id: how often it is used, by nodes or as a result. */
static guint *
count_uses (const RlxIr *ir)
{
  guint *uses = g_new0 (guint, ir->n_values + 1);

  for (guint i = 0; i < ir->nodes->len; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);

      for (guint j = 0; j < node->n_inputs; j++)
        if (node->inputs[j] != NULL)
          uses[node->inputs[j]->id]++;
    }
  for (guint i = 0; i < ir->outputs->len; i++)
    uses[g_array_index (ir->outputs, RlxIrOutput, i).value->id]++;
  for (guint i = 0; i < ir->assigns->len; i++)
    uses[g_array_index (ir->assigns, RlxIrAssign, i).value->id]++;
  return uses;
}

/* Whether a weight has a single user, which may choose its layout. */
static gboolean
is_own_weight (RlxLower         *lower,
               const RlxIrValue *value)
{
  return value->node != NULL && (rlx_ir_node_is (value->node, RLX_OP_ID_PARAMETER) || rlx_ir_node_is (value->node, RLX_OP_ID_CONSTANT)) &&
         value->node->id < lower->n_nodes && lower->uses[value->id] == 1;
}

static RlxTensorType
packed_type (const RlxIrValue *value,
             guint64           n_k,
             guint64           n_n,
             guint             width)
{
  return (RlxTensorType) { value->type.data_type, 3, { (gint64) rlx_divide_up (n_n, width), (gint64) n_k, width } };
}

gboolean
rlx_lower_can_pack_weight (RlxLower         *lower,
                           const RlxIrValue *value,
                           guint64           n_k,
                           guint64           n_n,
                           guint             width)
{
  RlxTensorType type = packed_type (value, n_k, n_n, width);

  return is_own_weight (lower, value) && rlx_type_check (&type, NULL);
}

gboolean
rlx_lower_pack_weight (RlxLower         *lower,
                       const RlxIrValue *value,
                       guint64           n_k,
                       guint64           n_n,
                       guint64           stride_k,
                       guint64           stride_n,
                       guint             width)
{
  RlxTensorType type = packed_type (value, n_k, n_n, width);
  RlxSlot *slot;
  guint index;

  if (!rlx_lower_can_pack_weight (lower, value, n_k, n_n, width))
    return FALSE;

  /* getting the slot may move all of them */
  index = rlx_lower_get_slot (lower, value);
  slot = &g_array_index (lower->plan->slots, RlxSlot, index);
  slot->packing = (RlxPacking) { width, n_k, n_n, stride_k, stride_n };
  slot->size = rlx_type_device_size (&type);
  return TRUE;
}

static RlxTensorType
joined_type (const RlxIrValue *first,
             guint             n_values,
             guint64           n_k,
             const guint64    *n_n,
             guint             width)
{
  RlxTensorType type = { first->type.data_type, 3, { 0, (gint64) n_k, width } };

  for (guint i = 0; i < n_values; i++)
    type.shape[0] += (gint64) (n_n[i] / width);
  return type;
}

gboolean
rlx_lower_can_join_weights (RlxLower                *lower,
                            const RlxIrValue *const *values,
                            guint                    n_values,
                            guint64                  n_k,
                            const guint64           *n_n,
                            guint                    width)
{
  RlxTensorType type = joined_type (values[0], n_values, n_k, n_n, width);

  for (guint i = 0; i < n_values; i++)
    if (n_n[i] % width != 0 || values[i]->type.data_type != type.data_type || !is_own_weight (lower, values[i]))
      return FALSE;
  return rlx_type_check (&type, NULL);
}

const RlxIrValue *
rlx_lower_join_weights (RlxLower                *lower,
                        const RlxIrValue *const *values,
                        guint                    n_values,
                        guint64                  n_k,
                        const guint64           *n_n,
                        gboolean                 columns_first,
                        guint                    width)
{
  RlxTensorType type = joined_type (values[0], n_values, n_k, n_n, width);
  RlxIrValue *joined;
  guint64 first = 0;
  guint parent;

  joined = rlx_lower_temporary (lower, &type);
  parent = add_slot (lower, &type, RLX_SLOT_WEIGHT, NULL);
  g_hash_table_insert (lower->slots, joined, GUINT_TO_POINTER (parent + 1));
  for (guint i = 0; i < n_values; i++)
    {
      guint index = rlx_lower_get_slot (lower, values[i]);
      RlxSlot *slot = &g_array_index (lower->plan->slots, RlxSlot, index);

      slot->packing = (RlxPacking) { width, n_k, n_n[i], columns_first ? 1 : n_n[i], columns_first ? n_k : 1 };
      slot->joined = parent + 1;
      slot->part_offset = first * n_k * rlx_data_type_get_size (type.data_type);
      first += n_n[i];
    }
  return joined;
}

void
rlx_lower_alias (RlxLower         *lower,
                 const RlxIrValue *view,
                 const RlxIrValue *base)
{
  guint slot = rlx_lower_get_slot (lower, base);

  g_hash_table_insert (lower->slots, (gpointer) view, GUINT_TO_POINTER (slot + 1));
}

/* Other readers of the state may read it later, and through a view that is unknown
 * here, so there must be none. */
gboolean
rlx_lower_update_state (RlxLower         *lower,
                        const RlxIrValue *state,
                        const RlxIrValue *value)
{
  const RlxIr *ir = lower->plan->ir;
  guint slot;

  if (RLX_DEBUG_CHECK (NO_ALIAS) || !rlx_ir_node_is (state->node, RLX_OP_ID_STATE) || lower->uses[state->id] != 1)
    return FALSE;
  for (guint i = 0; i < ir->assigns->len; i++)
    {
      const RlxIrAssign *assign = &g_array_index (ir->assigns, RlxIrAssign, i);

      if (assign->state != state || assign->value != value)
        continue;
      rlx_lower_alias (lower, value, state);
      slot = rlx_lower_get_slot (lower, state);
      g_array_index (lower->plan->slots, RlxSlot, slot).updated = TRUE;
      return TRUE;
    }
  return FALSE;
}

const RlxIrValue *
rlx_lower_take_state (RlxLower         *lower,
                      const RlxIrValue *value)
{
  const RlxIr *ir = lower->plan->ir;

  for (guint i = 0; i < ir->assigns->len; i++)
    {
      const RlxIrAssign *assign = &g_array_index (ir->assigns, RlxIrAssign, i);
      guint slot;

      if (assign->value != value)
        continue;
      rlx_lower_alias (lower, value, assign->state);
      slot = rlx_lower_get_slot (lower, value);
      g_array_index (lower->plan->slots, RlxSlot, slot).updated = TRUE;
      return assign->state;
    }
  g_assert_not_reached ();
}

/* ---- values that are stored contiguously -------------------------------------------- */

/* Excludes those that a step reads while it writes another one of the same role: they would be in one buffer. */
static void
drop_conflicts (const RlxStep *step,
                const guint   *roles,
                const guint   *groups,
                gboolean      *joinable)
{
  for (guint i = 0; i < step->args->len; i++)
    {
      const RlxArg *written = &g_array_index (step->args, RlxArg, i);

      for (guint j = 0; written->is_output && roles[written->slot] != 0 && j < step->args->len; j++)
        {
          const RlxArg *read = &g_array_index (step->args, RlxArg, j);

          if (!read->is_output && roles[read->slot] == roles[written->slot])
            joinable[groups[read->slot]] = FALSE;
        }
    }
}

void
rlx_lower_find_joinable (RlxLower                *lower,
                         const RlxIrValue *const *values,
                         guint                    n_roles,
                         guint                    n_groups,
                         gboolean                *joinable)
{
  g_autofree guint *roles = NULL, *groups = NULL;   /* by slot */
  guint n_slots;

  for (guint i = 0; i < n_roles * n_groups; i++)
    rlx_lower_get_slot (lower, values[i]);
  n_slots = lower->plan->slots->len;
  roles = g_new0 (guint, n_slots);
  groups = g_new0 (guint, n_slots);
  for (guint i = 0; i < n_roles * n_groups; i++)
    {
      guint index = rlx_lower_get_slot (lower, values[i]), group = i / n_roles;
      const RlxSlot *slot = &g_array_index (lower->plan->slots, RlxSlot, index);

      if ((slot->kind != RLX_SLOT_ACTIVATION && slot->kind != RLX_SLOT_STATE) || slot->joined != 0 || roles[index] != 0)
        joinable[group] = FALSE;
      else
        {
          roles[index] = i % n_roles + 1;
          groups[index] = group;
        }
    }
  /* Values that are computed once are stored together. */
  for (guint i = 0; i < lower->plan->steps->len; i++)
    {
      const RlxStep *step = g_ptr_array_index (lower->plan->steps, i);

      for (guint k = 0; k < step->args->len; k++)
        {
          guint index = g_array_index (step->args, RlxArg, k).slot;

          if (roles[index] != 0 && g_array_index (lower->plan->slots, RlxSlot, index).kind == RLX_SLOT_ACTIVATION)
            joinable[groups[index]] = FALSE;
        }
    }
  for (guint i = 0; i < lower->main_steps->len; i++)
    drop_conflicts (g_ptr_array_index (lower->main_steps, i), roles, groups, joinable);
}

guint64
rlx_lower_get_joined_size (RlxLower         *lower,
                           const RlxIrValue *value)
{
  guint64 alignment = MAX (16, lower->target->limits.storage_offset_alignment);

  return rlx_divide_up (rlx_type_device_size (&value->type), alignment) * alignment;
}

const RlxIrValue *
rlx_lower_join_values (RlxLower                *lower,
                       const RlxIrValue *const *values,
                       guint                    n_values)
{
  RlxTensorType type = { .data_type = values[0]->type.data_type, .n_dims = 1 };
  guint parent, first = rlx_lower_get_slot (lower, values[0]);
  guint64 offset = 0;
  RlxIrValue *joined;

  for (guint i = 0; i < n_values; i++)
    type.shape[0] += (gint64) (rlx_lower_get_joined_size (lower, values[i]) / rlx_data_type_get_size (type.data_type));
  joined = rlx_lower_temporary (lower, &type);
  parent = add_slot (lower, &type, g_array_index (lower->plan->slots, RlxSlot, first).kind, NULL);
  g_hash_table_insert (lower->slots, joined, GUINT_TO_POINTER (parent + 1));
  for (guint i = 0; i < n_values; i++)
    {
      guint index = rlx_lower_get_slot (lower, values[i]);
      RlxSlot *slot = &g_array_index (lower->plan->slots, RlxSlot, index);

      slot->joined = parent + 1;
      slot->part_offset = offset;
      offset += rlx_lower_get_joined_size (lower, values[i]);
    }
  return joined;
}

RlxIrValue *
rlx_lower_temporary (RlxLower            *lower,
                     const RlxTensorType *type)
{
  RlxIrValue *value = g_new0 (RlxIrValue, 1);

  value->type = *type;
  g_ptr_array_add (lower->temporaries, value);
  return value;
}

const RlxIrValue *
rlx_lower_constant (RlxLower  *lower,
                    RlxTensor *tensor)
{
  RlxIr *ir = lower->plan->ir;
  RlxBuilder b = { .ir = ir, .origin = ir->n_values };

  for (guint i = lower->n_nodes; i < ir->nodes->len; i++)
    {
      RlxIrNode *node = g_ptr_array_index (ir->nodes, i);

      if (node->data == tensor)
        return &node->outputs[0];
    }
  return rlx_build_constant (&b, g_object_ref (tensor));
}

gboolean
rlx_lower_is_weight (RlxLower         *lower,
                     const RlxIrValue *value)
{
  /* getting the slot may move all of them */
  guint index = rlx_lower_get_slot (lower, value);
  const RlxSlot *slot = &g_array_index (lower->plan->slots, RlxSlot, index);

  return slot->kind == RLX_SLOT_WEIGHT && slot->leaf != NULL && slot->packing.width == 0;
}

/* Has @weight's slot of @value, and either answers now or makes a condition. */
static gboolean
ask_f16_weight (RlxLower         *lower,
                const RlxIrNode  *node,
                const RlxIrValue *value,
                RlxF16Weight      weight,
                guint            *condition)
{
  GArray *f16_weights = lower->plan->f16_weights;
  const RlxSlot *slot;

  weight.slot = rlx_lower_get_slot (lower, value);
  slot = &g_array_index (lower->plan->slots, RlxSlot, weight.slot);

  weight.label = node->name ? g_strdup (node->name) : g_strdup_printf ("%%%u", node->origin);
  if (slot->leaf->data != NULL)
    {
      gboolean can = rlx_f16_weight_decide (&weight, rlx_tensor_get_bytes (slot->leaf->data));

      g_free (weight.label);
      *condition = 0;
      return can;
    }
  g_array_append_val (f16_weights, weight);
  *condition = f16_weights->len;
  return TRUE;
}

gboolean
rlx_lower_can_cast_f16 (RlxLower         *lower,
                        const RlxIrNode  *node,
                        const RlxIrValue *value,
                        guint64           n_k,
                        guint64           n_n,
                        guint64           stride_k,
                        guint64           stride_n,
                        guint            *condition)
{
  RlxF16Weight weight = { .n_k = n_k, .n_n = n_n, .stride_k = stride_k, .stride_n = stride_n };

  return ask_f16_weight (lower, node, value, weight, condition);
}

gboolean
rlx_lower_can_unpack_f16 (RlxLower         *lower,
                          const RlxIrNode  *node,
                          const RlxIrValue *value,
                          RlxPackedType     type,
                          guint            *condition)
{
  RlxF16Weight weight = { .is_packed = TRUE, .packed_type = type, .data_type = value->type.data_type };

  return ask_f16_weight (lower, node, value, weight, condition);
}

void
rlx_lower_set_condition (RlxLower *lower,
                         guint     condition,
                         gboolean  if_f16)
{
  lower->f16_weight = condition;
  lower->if_f16 = if_f16;
}

void
rlx_lower_add_step (RlxLower *lower,
                    RlxStep  *step)
{
  step->prologue = lower->prologue;
  step->f16_weight = lower->f16_weight;
  step->if_f16 = lower->if_f16;
  step->choice = lower->choice;
  g_ptr_array_add (lower->prologue ? lower->plan->steps : lower->main_steps, step);
}

void
rlx_lower_add_report (RlxLower        *lower,
                      const RlxIrNode *node)
{
  RlxPlanReport report = { rlx_lower_get_slot (lower, &node->outputs[0]), node };

  g_array_append_val (lower->plan->reports, report);
}

static void
add_port (GArray           *ports,
          const char       *name,
          const RlxIrValue *value,
          guint             slot)
{
  RlxPlanPort port = { g_strdup (name), slot, value->type };

  g_array_append_val (ports, port);
}

/* The slot of a value that is needed after states take their new values: a state is
 * copied first. */
static gboolean
get_lasting_slot (RlxLower         *lower,
                  const RlxIrValue *value,
                  guint            *slot,
                  GError          **error)
{
  RlxIrValue *copy;

  *slot = rlx_lower_get_slot (lower, value);
  if (g_array_index (lower->plan->slots, RlxSlot, *slot).kind != RLX_SLOT_STATE)
    return TRUE;
  copy = rlx_lower_temporary (lower, &value->type);
  *slot = rlx_lower_get_slot (lower, copy);
  return rlx_lower_copy_all (lower, value->node, value, copy, error);
}

/* States take their new values by copies at the end of the run. */
static gboolean
lower_assigns (RlxLower *lower,
               GError  **error)
{
  RlxPlan *plan = lower->plan;

  for (guint i = 0; i < plan->ir->assigns->len; i++)
    {
      const RlxIrAssign *assign = &g_array_index (plan->ir->assigns, RlxIrAssign, i);
      RlxSlotCopy copy = { 0, rlx_lower_get_slot (lower, assign->state) };

      if (rlx_lower_get_slot (lower, assign->value) == copy.target)
        continue;
      if (!get_lasting_slot (lower, assign->value, &copy.source, error))
        return FALSE;
      g_array_append_val (plan->copies, copy);
    }
  return TRUE;
}

static gboolean
lower_outputs (RlxLower *lower,
               GError  **error)
{
  RlxPlan *plan = lower->plan;

  for (guint i = 0; i < plan->ir->outputs->len; i++)
    {
      const RlxIrOutput *output = &g_array_index (plan->ir->outputs, RlxIrOutput, i);
      guint slot;

      if (!get_lasting_slot (lower, output->value, &slot, error))
        return FALSE;
      add_port (plan->outputs, output->name, output->value, slot);
    }
  return TRUE;
}

static void
note_use (RlxPlan *plan,
          guint    slot,
          int      step)
{
  RlxSlot *s = &g_array_index (plan->slots, RlxSlot, slot);

  s->last = MAX (s->last, step);
  if (s->joined > 0)
    note_use (plan, s->joined - 1, step);
}

/* A joint slot lives from the first step that writes a part, and its parts live until the last step that reads all. */
static void
join_lifetimes (RlxPlan *plan,
                guint    index)
{
  RlxSlot *slot = &g_array_index (plan->slots, RlxSlot, index), *whole;

  if (slot->kind != RLX_SLOT_ACTIVATION || slot->joined == 0)
    return;
  whole = &g_array_index (plan->slots, RlxSlot, slot->joined - 1);
  if (whole->first < 0 || slot->first < whole->first)
    whole->first = slot->first;
  slot->last = MAX (slot->last, whole->last);
  whole->last = MAX (slot->last, whole->last);
}

/* First and last use of each slot over all steps, prologue first. */
static void
find_lifetimes (RlxPlan         *plan,
                const RlxTarget *target)
{
  for (guint i = 0; i < plan->steps->len; i++)
    {
      const RlxStep *step = g_ptr_array_index (plan->steps, i);

      for (guint j = 0; j < step->args->len; j++)
        {
          const RlxArg *arg = &g_array_index (step->args, RlxArg, j);
          RlxSlot *slot = &g_array_index (plan->slots, RlxSlot, arg->slot);

          if (arg->is_output && slot->first < 0)
            slot->first = (int) i;
          slot->last = MAX (slot->last, (int) i);
        }
    }
  for (guint i = 0; i < plan->slots->len; i++)
    join_lifetimes (plan, i);
  for (guint i = 0; i < plan->outputs->len; i++)
    note_use (plan, g_array_index (plan->outputs, RlxPlanPort, i).slot, G_MAXINT);
  for (guint i = 0; i < plan->copies->len; i++)
    note_use (plan, g_array_index (plan->copies, RlxSlotCopy, i).source, G_MAXINT);
  for (guint i = 0; i < plan->reports->len; i++)
    note_use (plan, g_array_index (plan->reports, RlxPlanReport, i).slot, G_MAXINT);

  /* Values that the prologue computes and a run reads must survive from run to run. */
  for (guint i = 0; i < plan->slots->len; i++)
    {
      RlxSlot *slot = &g_array_index (plan->slots, RlxSlot, i);

      /* A tensor that is passed again is not uploaded again. One that needs several bindings
       * had better be overwritten by its only reader, or that step may run out of bindings. */
      if (slot->kind == RLX_SLOT_INPUT && slot->size <= target->limits.max_storage_binding_size)
        slot->last = G_MAXINT;
      /* Only tensors of no elements are never written; they still get bound. */
      if (slot->kind == RLX_SLOT_ACTIVATION && slot->first < 0)
        slot->kind = RLX_SLOT_WEIGHT;
      if (slot->kind == RLX_SLOT_ACTIVATION &&
          slot->first < (int) plan->n_prologue && slot->last >= (int) plan->n_prologue)
        {
          slot->kind = RLX_SLOT_FOLDED;
          slot->last = G_MAXINT;
        }
    }
}

/* By the node's number in the owner's graph; those of one node in the order of creation. */
static int
compare_reports (gconstpointer a,
                 gconstpointer b)
{
  const RlxIrNode *m = ((const RlxPlanReport *) a)->node, *n = ((const RlxPlanReport *) b)->node;

  return m->origin != n->origin ? (m->origin > n->origin) - (m->origin < n->origin) : (m->id > n->id) - (m->id < n->id);
}

gboolean
rlx_lower_ir (RlxPlan         *plan,
              const RlxTarget *target,
              GCancellable    *cancellable,
              GError         **error)
{
  g_autoptr(GHashTable) slots = g_hash_table_new (NULL, NULL);
  g_autoptr(GPtrArray) temporaries = g_ptr_array_new_with_free_func (g_free);
  g_autoptr(GPtrArray) main_steps = g_ptr_array_new_with_free_func ((GDestroyNotify) rlx_step_free);
  g_autofree gboolean *constant = rlx_ir_find_constant_nodes (plan->ir);
  g_autofree gboolean *live = rlx_ir_find_live_nodes (plan->ir);
  g_autofree guint *uses = count_uses (plan->ir);
  RlxLower lower = { plan, target, slots, temporaries, main_steps, FALSE, plan->ir->nodes->len, uses, 0, FALSE, 0 };
  const RlxIr *ir = plan->ir;

  for (guint i = 0; i < lower.n_nodes; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);

      if (g_cancellable_set_error_if_cancelled (cancellable, error))
        return FALSE;
      if (!live[i])
        continue;
      if (node->op->flags & RLX_OP_LEAF)
        {
          const RlxIrValue *value = &node->outputs[0];

          /* Inputs keep their position in the list even if nothing uses them. */
          if (rlx_ir_node_is (node, RLX_OP_ID_INPUT))
            add_port (plan->inputs, node->name, value, rlx_lower_get_slot (&lower, value));
          else if (rlx_ir_node_is (node, RLX_OP_ID_PARAMETER))
            add_port (plan->parameters, node->name, value, rlx_lower_get_slot (&lower, value));
          else if (rlx_ir_node_is (node, RLX_OP_ID_STATE))
            add_port (plan->states, node->name, value, rlx_lower_get_slot (&lower, value));
          continue;
        }
      lower.prologue = constant[i];
      if (!node->op->lower (&lower, node, error))
        {
          g_prefix_error (error, "cannot compile %s %%%u: ", node->op->name, node->origin);
          return FALSE;
        }
    }

  lower.prologue = FALSE;
  if (!lower_assigns (&lower, error) || !lower_outputs (&lower, error))
    return FALSE;

  plan->n_prologue = plan->steps->len;
  for (guint i = 0; i < main_steps->len; i++)
    g_ptr_array_add (plan->steps, g_ptr_array_index (main_steps, i));
  g_ptr_array_set_free_func (main_steps, NULL);

  g_array_sort (plan->reports, compare_reports);
  find_lifetimes (plan, target);
  return TRUE;
}
