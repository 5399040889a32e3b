/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Updates of states, such as a step of an optimiser: one kernel reads gradients and states, and writes the states.
 *
 * If many tensors are updated in the same way, they are stored contiguously, those of each operand in a buffer of their
 * own, and the kernel processes all of them at once. It also processes the gaps between them, whose contents do not
 * matter.
 */
#include "config.h"

#include "ops/rlx-fused-private.h"

/* A temporary node with one group of operands. */
typedef struct
{
  RlxIrNode node;
  RlxFused fused;
  GArray *operands;
  RlxIrValue **inputs;
  RlxIrValue loop;               /* only its type counts */
  const RlxIrValue **results;    /* values whose memory receives the results */
} Call;

static void
call_clear (Call *self)
{
  g_clear_pointer (&self->operands, g_array_unref);
  g_clear_pointer (&self->inputs, g_free);
  g_clear_pointer (&self->results, g_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Call, call_clear)

typedef struct
{
  RlxLower *lower;
  const RlxIrNode *node;
  const RlxFused *fused;
  guint n_inputs;          /* per group */
  guint n_results;
  gboolean *varies;        /* by input: whether each group has a tensor of its own */
} Update;

static void
update_clear (Update *self)
{
  g_clear_pointer (&self->varies, g_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Update, update_clear)

static RlxIrValue *
get_input (const Update *self,
           guint         group,
           guint         input)
{
  return self->node->inputs[group * self->n_inputs + input];
}

static RlxIrValue *
get_output (const Update *self,
            guint         group,
            guint         result)
{
  return &self->node->outputs[group * self->n_results + result];
}

static void
update_init (Update          *self,
             RlxLower        *lower,
             const RlxIrNode *node)
{
  const RlxFused *fused = node->payload;

  *self = (Update) { lower, node, fused, node->n_inputs / fused->n_groups, fused->results->len, NULL };
  self->varies = g_new0 (gboolean, self->n_inputs + 1);
  for (guint i = 0; i < self->n_inputs; i++)
    {
      double number;
      gint64 integer;
      /* Equal numbers may be separate constants. */
      gboolean is_number = rlx_ir_value_get_immediate (get_input (self, 0, i), &number, &integer);

      for (guint g = 1; g < fused->n_groups; g++)
        self->varies[i] |= !is_number && get_input (self, g, i) != get_input (self, 0, i);
    }
}

/* Dispatches a group. @joined, if not NULL, has for each operand that varies the value that contains it for all
 * groups. */
static gboolean
dispatch (const Update            *self,
          guint                    group,
          const RlxIrValue *const *joined,
          GError                 **error)
{
  g_auto(Call) call = { .node = *self->node, .fused = *self->fused };

  call.operands = g_array_copy (self->fused->operands);
  call.inputs = g_new (RlxIrValue *, self->n_inputs + 1);
  call.results = g_new (const RlxIrValue *, self->n_results + 1);
  call.loop = *get_output (self, group, 0);
  for (guint i = 0; i < self->n_inputs; i++)
    call.inputs[i] = get_input (self, group, i);
  for (guint r = 0; r < self->n_results; r++)
    {
      const RlxIrValue *state = rlx_lower_take_state (self->lower, get_output (self, group, r));

      call.results[r] = state;
      for (guint i = 0; joined != NULL && i < self->n_inputs; i++)
        if (call.inputs[i] == state)
          call.results[r] = joined[i];
    }
  if (joined != NULL)
    {
      call.loop.type = call.results[0]->type;
      for (guint i = 0; i < self->n_inputs; i++)
        if (joined[i] != NULL)
          call.inputs[i] = (RlxIrValue *) joined[i];
      for (guint i = 0; i < call.operands->len; i++)
        {
          RlxOperand *operand = &g_array_index (call.operands, RlxOperand, i);

          *operand = (RlxOperand) { .input = operand->input, .offset = operand->offset, .strides = { joined[operand->input] != NULL } };
        }
    }
  call.fused.operands = call.operands;
  call.fused.n_groups = 1;
  call.node.payload = &call.fused;
  call.node.inputs = call.inputs;
  call.node.n_inputs = self->n_inputs;
  call.node.outputs = &call.loop;
  call.node.n_outputs = 1;
  return rlx_fused_dispatch (self->lower, &call.node, &call.fused, call.results, error);
}

/* A single dispatch for @groups. */
static gboolean
dispatch_joined (const Update *self,
                 const GArray *groups,
                 GError      **error)
{
  g_autofree const RlxIrValue **joined = g_new0 (const RlxIrValue *, self->n_inputs + 1);
  g_autofree const RlxIrValue **parts = g_new0 (const RlxIrValue *, groups->len + 1);

  if (groups->len == 0)
    return TRUE;
  if (groups->len == 1)
    return dispatch (self, g_array_index (groups, guint, 0), NULL, error);
  for (guint i = 0; i < self->n_inputs; i++)
    {
      if (!self->varies[i])
        continue;
      for (guint g = 0; g < groups->len; g++)
        parts[g] = get_input (self, g_array_index (groups, guint, g), i);
      joined[i] = rlx_lower_join_values (self->lower, parts, groups->len);
    }
  for (guint g = 1; g < groups->len; g++)
    for (guint r = 0; r < self->n_results; r++)
      rlx_lower_take_state (self->lower, get_output (self, g_array_index (groups, guint, g), r));
  return dispatch (self, g_array_index (groups, guint, 0), joined, error);
}

static void
find_joinable (const Update *self,
               gboolean     *joinable)
{
  guint n_groups = self->fused->n_groups, n_roles = 0;
  g_autofree const RlxIrValue **values = g_new0 (const RlxIrValue *, n_groups * self->n_inputs + 1);
  gboolean apart = n_groups > 1;

  for (guint i = 0; i < self->n_inputs; i++)
    {
      n_roles += self->varies[i];
      /* Joined groups cannot index a tensor that they all share, unless they read only one element of it. */
      apart = apart && (self->varies[i] || rlx_fused_reads_one (self->fused, i, &get_input (self, 0, i)->type));
    }
  for (guint g = 0; g < n_groups; g++)
    {
      guint role = 0;

      joinable[g] = apart;
      for (guint i = 0; i < self->n_inputs; i++)
        if (self->varies[i])
          values[g * n_roles + role++] = get_input (self, g, i);
    }
  rlx_lower_find_joinable (self->lower, values, n_roles, n_groups, joinable);
}

gboolean
rlx_update_lower (RlxLower        *lower,
                  const RlxIrNode *node,
                  GError         **error)
{
  const RlxFused *fused = node->payload;
  const RlxTarget *target = rlx_lower_get_target (lower);
  guint64 limit = MIN (target->limits.max_storage_binding_size, target->limits.max_buffer_size), size = 0;
  g_autofree gboolean *joinable = g_new0 (gboolean, fused->n_groups + 1);
  g_autoptr(GArray) groups = g_array_new (FALSE, FALSE, sizeof (guint));
  g_auto(Update) self = { 0 };

  update_init (&self, lower, node);
  find_joinable (&self, joinable);
  for (guint g = 0; g < fused->n_groups; g++)
    {
      guint64 more = rlx_lower_get_joined_size (lower, get_output (&self, g, 0));

      if (!joinable[g] || more > limit)
        {
          if (!dispatch (&self, g, NULL, error))
            return FALSE;
          continue;
        }
      if (size + more > limit)
        {
          if (!dispatch_joined (&self, groups, error))
            return FALSE;
          g_array_set_size (groups, 0);
          size = 0;
        }
      g_array_append_val (groups, g);
      size += more;
    }
  return dispatch_joined (&self, groups, error);
}
