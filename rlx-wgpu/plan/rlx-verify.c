/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Checks a memory plan without knowing how it was made: nothing is read before it
 * is written, nothing overwritten while it is needed, and no step writes to a
 * buffer that it reads.
 */
#include "config.h"

#include "plan/rlx-plan-private.h"

static const RlxSlot *
get_slot (const RlxPlan *plan,
          guint          index)
{
  return &g_array_index (plan->slots, RlxSlot, index);
}

G_GNUC_PRINTF (2, 3)
static gboolean
fail (GError    **error,
      const char *format,
      ...)
{
  g_autofree char *text = NULL;
  va_list args;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_INTERNAL, "the memory plan is wrong: %s", text);
  return FALSE;
}

/* The steps during which a slot's memory is its own. */
static void
get_lifetime (const RlxPlan *plan,
              const RlxSlot *slot,
              int           *first,
              int           *last)
{
  *first = slot->first;
  *last = slot->last;
  if (slot->kind == RLX_SLOT_INPUT)
    *first = (int) plan->n_prologue;
  else if (slot->kind != RLX_SLOT_ACTIVATION)
    {
      *first = -1;
      *last = G_MAXINT;
    }
}

static gboolean
check_pair (const RlxPlan *plan,
            guint          i,
            guint          j,
            GError       **error)
{
  const RlxSlot *a = get_slot (plan, i), *b = get_slot (plan, j);
  int first_a, last_a, first_b, last_b;

  /* weights may be parts of others, as they are never written */
  if (a->kind == RLX_SLOT_WEIGHT && b->kind == RLX_SLOT_WEIGHT)
    return TRUE;
  if (a->joined == j + 1 || b->joined == i + 1)
    return TRUE;
  if (a->buffer != b->buffer || a->offset + a->size <= b->offset || b->offset + b->size <= a->offset)
    return TRUE;
  get_lifetime (plan, a, &first_a, &last_a);
  get_lifetime (plan, b, &first_b, &last_b);
  /* A slot that reuses memory may start in the step in which the other ends. */
  if (a->shares == (int) j)
    last_b--;
  if (b->shares == (int) i)
    last_a--;
  if (last_a < first_b || last_b < first_a)
    return TRUE;
  return fail (error, "slots %u and %u share memory at %" G_GUINT64_FORMAT " of buffer %u, but are needed in steps %d to %d and %d to %d",
               i, j, MAX (a->offset, b->offset), a->buffer, first_a, last_a, first_b, last_b);
}

static gboolean
check_step (const RlxPlan *plan,
            guint          index,
            GError       **error)
{
  const RlxStep *step = g_ptr_array_index (plan->steps, index);

  for (guint i = 0; i < step->args->len; i++)
    {
      const RlxArg *arg = &g_array_index (step->args, RlxArg, i);
      const RlxSlot *slot = get_slot (plan, arg->slot);

      if (!arg->is_output && slot->kind == RLX_SLOT_ACTIVATION && (slot->first < 0 || slot->first >= (int) index))
        return fail (error, "step %u (%s) reads slot %u, which step %d writes", index, step->op, arg->slot, slot->first);
      if (arg->is_output && (slot->kind == RLX_SLOT_WEIGHT || (slot->kind == RLX_SLOT_STATE && !slot->updated) || slot->kind == RLX_SLOT_INPUT) &&
          slot->first >= 0 && slot->leaf != NULL)
        return fail (error, "step %u (%s) writes slot %u, which is not for steps to write", index, step->op, arg->slot);
      for (guint j = 0; arg->is_output && j < step->args->len; j++)
        {
          const RlxArg *read = &g_array_index (step->args, RlxArg, j);

          if (!read->is_output && !read->merged && get_slot (plan, read->slot)->buffer == slot->buffer)
            return fail (error, "step %u (%s) reads and writes buffer %u", index, step->op, slot->buffer);
        }
    }
  return TRUE;
}

gboolean
rlx_plan_verify (const RlxPlan *plan,
                 GError       **error)
{
  for (guint i = 0; i < plan->slots->len; i++)
    {
      const RlxSlot *slot = get_slot (plan, i);

      if (slot->buffer >= plan->buffers->len ||
          slot->offset + slot->size > g_array_index (plan->buffers, RlxBuffer, slot->buffer).size)
        return fail (error, "slot %u of %" G_GUINT64_FORMAT " bytes is not inside buffer %u", i, slot->size, slot->buffer);
      for (guint j = 0; j < i; j++)
        if (!check_pair (plan, i, j, error))
          return FALSE;
    }
  for (guint i = 0; i < plan->steps->len; i++)
    if (!check_step (plan, i, error))
      return FALSE;
  return TRUE;
}
