/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Places slots in buffers.
 *
 * WebGPU tracks hazards per buffer, and one buffer cannot be read-only and
 * writable in the same dispatch. So activations live in several banks: a
 * step's outputs never share a bank with what the step reads, except where an
 * output takes over the memory of an input that dies there. Steps are walked
 * in order, memory of slots that are no longer needed is reused, best fit
 * first. Weights, folded values and states have buffers of their own.
 */
#include "config.h"

#include "plan/rlx-plan-private.h"

#include <string.h>

#include "passes/rlx-passes-private.h"
#include "util/rlx-checked-private.h"
#include "util/rlx-debug-private.h"

/* Two are enough for a chain; a third and fourth let branches find memory
 * without growing a bank. More are only opened when a step reads from all. */
#define PREFERRED_BANKS 3

typedef struct
{
  guint64 offset;
  guint64 size;
} Gap;

typedef struct
{
  guint buffer;       /* in plan->buffers */
  guint64 size;
  GArray *gaps;       /* Gap, by offset */
} Bank;

typedef struct
{
  RlxPlan *plan;
  const RlxTarget *target;
  guint64 alignment;
  GArray *banks;      /* Bank: activations */
  GArray *folded;     /* Bank: results of the prologue */
  GPtrArray *conflicts; /* by slot, GArray of slots that must be in another buffer */
  gboolean *placed;   /* by slot */
} Planner;

static RlxSlot *
get_slot (RlxPlan *plan,
          guint    index)
{
  return &g_array_index (plan->slots, RlxSlot, index);
}

static Bank *
get_bank (GArray *banks,
          guint   index)
{
  return &g_array_index (banks, Bank, index);
}

static void
clear_bank (gpointer data)
{
  g_array_unref (((Bank *) data)->gaps);
}

static guint
add_buffer (RlxPlan      *plan,
            RlxBufferKind kind)
{
  RlxBuffer buffer = { .kind = kind };

  g_array_append_val (plan->buffers, buffer);
  return plan->buffers->len - 1;
}

static guint
add_bank (Planner      *self,
          GArray       *banks,
          RlxBufferKind kind)
{
  Bank bank = { add_buffer (self->plan, kind), 0, g_array_new (FALSE, FALSE, sizeof (Gap)) };

  g_array_append_val (banks, bank);
  return banks->len - 1;
}

static guint64
align_up (guint64 value,
          guint64 alignment)
{
  return rlx_divide_up (value, alignment) * alignment;
}

/* The smallest gap that holds @size; -1 when there is none. */
static int
find_gap (const Bank *bank,
          guint64     size)
{
  int best = -1;

  for (guint i = 0; i < bank->gaps->len; i++)
    {
      const Gap *gap = &g_array_index (bank->gaps, Gap, i);

      if (gap->size >= size && (best < 0 || gap->size < g_array_index (bank->gaps, Gap, best).size))
        best = (int) i;
    }
  return best;
}

static guint64
bank_growth (const Bank *bank,
             guint64     size)
{
  if (find_gap (bank, size) >= 0)
    return 0;
  if (bank->gaps->len > 0)
    {
      const Gap *end = &g_array_index (bank->gaps, Gap, bank->gaps->len - 1);

      if (end->offset + end->size == bank->size)
        return size - end->size;
    }
  return size;
}

static guint64
bank_take (Bank   *bank,
           guint64 size)
{
  int index = find_gap (bank, size);
  guint64 offset;

  if (index >= 0)
    {
      Gap *gap = &g_array_index (bank->gaps, Gap, index);

      offset = gap->offset;
      gap->offset += size;
      gap->size -= size;
      if (gap->size == 0)
        g_array_remove_index (bank->gaps, index);
      return offset;
    }

  /* Grow; a gap at the end counts. */
  offset = bank->size;
  if (bank->gaps->len > 0)
    {
      const Gap *end = &g_array_index (bank->gaps, Gap, bank->gaps->len - 1);

      if (end->offset + end->size == bank->size)
        {
          offset = end->offset;
          g_array_remove_index (bank->gaps, bank->gaps->len - 1);
        }
    }
  bank->size = offset + size;
  return offset;
}

static void
bank_give (Bank   *bank,
           guint64 offset,
           guint64 size)
{
  GArray *gaps = bank->gaps;
  guint at = 0;
  Gap gap = { offset, size };

  while (at < gaps->len && g_array_index (gaps, Gap, at).offset < offset)
    at++;
  g_array_insert_val (gaps, at, gap);

  if (at + 1 < gaps->len && offset + size == g_array_index (gaps, Gap, at + 1).offset)
    {
      g_array_index (gaps, Gap, at).size += g_array_index (gaps, Gap, at + 1).size;
      g_array_remove_index (gaps, at + 1);
    }
  if (at > 0 && g_array_index (gaps, Gap, at - 1).offset + g_array_index (gaps, Gap, at - 1).size == offset)
    {
      g_array_index (gaps, Gap, at - 1).size += g_array_index (gaps, Gap, at).size;
      g_array_remove_index (gaps, at);
    }
}

/* The slot that is placed, if this one is part of it. */
static guint
get_whole (Planner *self,
           guint    index)
{
  guint joined = get_slot (self->plan, index)->joined;

  return joined > 0 ? joined - 1 : index;
}

/* For each slot the slots that some step reads while it writes this one, or
 * writes while it reads this one. */
static void
find_conflicts (Planner *self)
{
  self->conflicts = g_ptr_array_new_with_free_func ((GDestroyNotify) g_array_unref);
  for (guint i = 0; i < self->plan->slots->len; i++)
    g_ptr_array_add (self->conflicts, g_array_new (FALSE, FALSE, sizeof (guint)));

  for (guint s = 0; s < self->plan->steps->len; s++)
    {
      const RlxStep *step = g_ptr_array_index (self->plan->steps, s);

      for (guint i = 0; i < step->args->len; i++)
        {
          const RlxArg *written = &g_array_index (step->args, RlxArg, i);

          for (guint j = 0; written->is_output && j < step->args->len; j++)
            {
              const RlxArg *read = &g_array_index (step->args, RlxArg, j);

              guint from = get_whole (self, read->slot), to = get_whole (self, written->slot);

              if (read->is_output || read->merged)
                continue;
              g_array_append_val ((GArray *) g_ptr_array_index (self->conflicts, to), from);
              g_array_append_val ((GArray *) g_ptr_array_index (self->conflicts, from), to);
            }
        }
    }
}

/* Whether slot @index may not be in @buffer, for the sake of a slot that
 * already is (other than @except). */
static gboolean
has_conflict (Planner *self,
              guint    index,
              guint    buffer,
              guint    except)
{
  const GArray *conflicts = g_ptr_array_index (self->conflicts, index);

  for (guint i = 0; i < conflicts->len; i++)
    {
      guint other = g_array_index (conflicts, guint, i);

      if (other != except && self->placed[other] && get_slot (self->plan, other)->buffer == buffer)
        return TRUE;
    }
  return FALSE;
}

static void
place (Planner *self,
       guint    index)
{
  RlxSlot *slot = get_slot (self->plan, index);
  gboolean is_folded = slot->kind == RLX_SLOT_FOLDED;
  GArray *banks = is_folded ? self->folded : self->banks;
  guint64 size = align_up (slot->size, self->alignment);
  guint64 limit = self->target->limits.max_buffer_size;
  int best = -1;
  guint64 best_growth = G_MAXUINT64;

  for (guint i = 0; i < banks->len; i++)
    {
      const Bank *bank = get_bank (banks, i);
      guint64 growth;

      if (has_conflict (self, index, bank->buffer, index))
        continue;
      growth = bank_growth (bank, size);
      if (growth > 0 && bank->size + growth > limit)
        continue;
      /* Equal growth: the smaller bank, so that the banks stay balanced. */
      if (growth < best_growth || (growth == best_growth && bank->size < get_bank (banks, best)->size))
        {
          best = (int) i;
          best_growth = growth;
        }
    }
  if (best < 0 || (!is_folded && banks->len < PREFERRED_BANKS && best_growth == size))
    best = (int) add_bank (self, banks, is_folded ? RLX_BUFFER_FOLDED : RLX_BUFFER_BANK);

  slot->buffer = get_bank (banks, best)->buffer;
  slot->offset = bank_take (get_bank (banks, best), size);
  self->placed[index] = TRUE;
}

static void
release (Planner *self,
         guint    index)
{
  RlxSlot *slot = get_slot (self->plan, index);

  for (guint i = 0; i < self->banks->len; i++)
    {
      Bank *bank = get_bank (self->banks, i);

      if (bank->buffer == slot->buffer)
        bank_give (bank, slot->offset, align_up (slot->size, self->alignment));
    }
}

/* Parts are placed after the slot that contains them. */
static void
place_parts (RlxPlan    *plan,
             RlxSlotKind kind)
{
  for (guint i = 0; i < plan->slots->len; i++)
    {
      RlxSlot *slot = get_slot (plan, i);

      if (slot->kind == kind && slot->joined > 0)
        {
          slot->buffer = get_slot (plan, slot->joined - 1)->buffer;
          slot->offset = get_slot (plan, slot->joined - 1)->offset + slot->part_offset;
        }
    }
}

/* Lets an output reuse the memory of an input that dies at this step. */
static gboolean
place_in_place (Planner *self,
                RlxStep *step,
                guint    at,
                guint    output)
{
  RlxPlan *plan = self->plan;
  const RlxArg *out = &g_array_index (step->args, RlxArg, output);
  RlxSlot *target = get_slot (plan, out->slot);

  if (RLX_DEBUG_CHECK (NO_ALIAS) || target->kind != RLX_SLOT_ACTIVATION || target->first != (int) at || target->joined > 0)
    return FALSE;

  for (guint i = 0; i < step->args->len; i++)
    {
      RlxArg *arg = &g_array_index (step->args, RlxArg, i);
      RlxSlot *source = get_slot (plan, arg->slot);
      guint uses = 0;

      if (arg->is_output || arg->merged || arg->in_place != (int) output || arg->data_type != out->data_type || arg->raw != out->raw || arg->width != out->width ||
          (source->kind != RLX_SLOT_ACTIVATION && source->kind != RLX_SLOT_INPUT) || source->joined > 0 ||
          source->last != (int) at || source->size != target->size)
        continue;
      for (guint j = 0; j < step->args->len; j++)
        uses += g_array_index (step->args, RlxArg, j).slot == arg->slot;
      if (uses > 1 || has_conflict (self, out->slot, source->buffer, arg->slot))
        continue;

      target->buffer = source->buffer;
      target->offset = source->offset;
      target->shares = (int) arg->slot;
      arg->merged = TRUE;
      self->placed[out->slot] = TRUE;
      return TRUE;
    }
  return FALSE;
}

static int
compare_last (gconstpointer a,
              gconstpointer b,
              gpointer      data)
{
  GArray *slots = data;
  int la = g_array_index (slots, RlxSlot, *(const guint *) a).last;
  int lb = g_array_index (slots, RlxSlot, *(const guint *) b).last;

  return la < lb ? -1 : la > lb;
}

/* The most bytes of activations that are alive at one step. */
static guint64
find_live_bytes (RlxPlan *plan)
{
  guint n = plan->steps->len + 2;
  g_autofree gint64 *change = g_new0 (gint64, n);
  g_autofree gboolean *is_whole = g_new0 (gboolean, plan->slots->len + 1);
  gint64 now = 0, most = 0;

  for (guint i = 0; i < plan->slots->len; i++)
    if (get_slot (plan, i)->joined > 0)
      is_whole[get_slot (plan, i)->joined - 1] = TRUE;
  for (guint i = 0; i < plan->slots->len; i++)
    {
      const RlxSlot *slot = get_slot (plan, i);
      guint first = slot->first < 0 ? plan->n_prologue : (guint) slot->first;
      guint last = slot->last == G_MAXINT ? n - 2 : (guint) MAX (slot->last, (int) first);

      if ((slot->kind != RLX_SLOT_ACTIVATION && slot->kind != RLX_SLOT_INPUT) || is_whole[i])
        continue;
      if (slot->shares >= 0)
        first++;
      change[first] += (gint64) slot->size;
      change[MIN (last + 1, n - 1)] -= (gint64) slot->size;
    }
  for (guint i = 0; i < n; i++)
    {
      now += change[i];
      most = MAX (most, now);
    }
  return (guint64) most;
}

static void
place_activations (Planner *self)
{
  RlxPlan *plan = self->plan;
  g_autoptr(GArray) dying = g_array_new (FALSE, FALSE, sizeof (guint));
  guint next = 0;
  g_autofree gboolean *taken_over = g_new0 (gboolean, plan->slots->len);

  for (guint i = 0; i < plan->slots->len; i++)
    if (get_slot (plan, i)->kind == RLX_SLOT_ACTIVATION || get_slot (plan, i)->kind == RLX_SLOT_INPUT)
      g_array_append_val (dying, i);
  g_array_sort_with_data (dying, compare_last, plan->slots);

  for (guint s = 0; s <= plan->steps->len; s++)
    {
      RlxStep *step = s < plan->steps->len ? g_ptr_array_index (plan->steps, s) : NULL;

      /* slots last used by an earlier step */
      while (next < dying->len)
        {
          guint index = g_array_index (dying, guint, next);

          if (get_slot (plan, index)->last >= (int) s)
            break;
          if (self->placed[index] && !taken_over[index] && get_slot (plan, index)->joined == 0 && !RLX_DEBUG_CHECK (NO_ALIAS))
            release (self, index);
          next++;
        }

      if (s == plan->n_prologue)
        {
          for (guint i = 0; i < plan->slots->len; i++)
            {
              if (get_slot (plan, i)->kind != RLX_SLOT_INPUT)
                continue;
              place (self, i);
            }
        }
      if (step == NULL)
        break;

      for (guint i = 0; i < step->args->len; i++)
        {
          const RlxArg *arg = &g_array_index (step->args, RlxArg, i);

          if (!arg->is_output || self->placed[get_whole (self, arg->slot)])
            continue;
          if (place_in_place (self, step, s, i))
            taken_over[get_slot (plan, arg->slot)->shares] = TRUE;
          else
            place (self, get_whole (self, arg->slot));
        }
    }
  place_parts (plan, RLX_SLOT_ACTIVATION);
}

/* The first buffer of @kind from @first on that slot @index fits into; -1 for none. */
static int
find_static (Planner      *self,
             guint         index,
             RlxBufferKind kind,
             guint         first)
{
  const GArray *buffers = self->plan->buffers;
  guint64 size = align_up (get_slot (self->plan, index)->size, self->alignment);

  for (guint i = first; i < buffers->len; i++)
    {
      const RlxBuffer *buffer = &g_array_index (buffers, RlxBuffer, i);

      if (buffer->kind == kind && buffer->size + size <= self->target->limits.max_buffer_size && !has_conflict (self, index, i, index))
        return (int) i;
    }
  return -1;
}

static gboolean
is_constant (const RlxSlot *slot)
{
  return slot->kind == RLX_SLOT_WEIGHT && slot->leaf != NULL && slot->leaf->data != NULL;
}

/* By slot: whether it is a constant, or joined from nothing else. */
static gboolean *
find_constants (const RlxPlan *plan)
{
  gboolean *constant = g_new0 (gboolean, plan->slots->len + 1);

  for (guint i = 0; i < plan->slots->len; i++)
    {
      const RlxSlot *slot = &g_array_index (plan->slots, RlxSlot, i);

      if (is_constant (slot))
        constant[slot->joined > 0 ? slot->joined - 1 : i] = TRUE;
    }
  for (guint i = 0; i < plan->slots->len; i++)
    {
      const RlxSlot *slot = &g_array_index (plan->slots, RlxSlot, i);

      if (slot->joined > 0 && !is_constant (slot))
        constant[slot->joined - 1] = FALSE;
    }
  return constant;
}

/* Slots that never move: one after another, with a new buffer whenever one is full.
 * States have separate buffers, since other executables may share them. */
static void
place_static (Planner      *self,
              RlxSlotKind   kind,
              RlxBufferKind buffer_kind)
{
  RlxPlan *plan = self->plan;
  g_autofree gboolean *constant = find_constants (plan);
  guint first = plan->buffers->len;

  for (guint i = 0; i < plan->slots->len; i++)
    {
      RlxSlot *slot = get_slot (plan, i);
      guint64 size = align_up (slot->size, self->alignment);
      RlxBuffer *buffer;
      int current;

      if (slot->kind != kind || slot->joined > 0)
        continue;
      if (constant[i] && slot->size >= RLX_CONSTANT_MIN)
        {
          slot->buffer = add_buffer (plan, RLX_BUFFER_CONSTANT);
          slot->offset = 0;
          g_array_index (plan->buffers, RlxBuffer, slot->buffer).size = size;
          continue;
        }
      current = kind == RLX_SLOT_STATE ? -1 : find_static (self, i, buffer_kind, first);
      if (current < 0)
        current = (int) add_buffer (plan, buffer_kind);
      else if (kind != RLX_SLOT_STATE)
        first = (guint) current;
      self->placed[i] = kind == RLX_SLOT_STATE;
      buffer = &g_array_index (plan->buffers, RlxBuffer, current);
      slot->buffer = (guint) current;
      slot->offset = buffer->size;
      buffer->size += size;
    }
  place_parts (plan, kind);
}

/* The slots of constants, by buffer. */
static void
list_constants (RlxPlan *plan)
{
  guint next = 0;

  for (guint i = 0; i < plan->slots->len; i++)
    if (is_constant (get_slot (plan, i)))
      g_array_index (plan->buffers, RlxBuffer, get_slot (plan, i)->buffer).n_constants++;
  for (guint i = 0; i < plan->buffers->len; i++)
    {
      RlxBuffer *buffer = &g_array_index (plan->buffers, RlxBuffer, i);

      buffer->first_constant = next;
      next += buffer->n_constants;
      buffer->n_constants = 0;
    }
  g_array_set_size (plan->constants, next);
  for (guint i = 0; i < plan->slots->len; i++)
    if (is_constant (get_slot (plan, i)))
      {
        RlxBuffer *buffer = &g_array_index (plan->buffers, RlxBuffer, get_slot (plan, i)->buffer);

        g_array_index (plan->constants, guint, buffer->first_constant + buffer->n_constants++) = i;
      }
}

static gboolean
check_slots (Planner *self,
             GError **error)
{
  for (guint i = 0; i < self->plan->slots->len; i++)
    {
      const RlxSlot *slot = get_slot (self->plan, i);

      if (align_up (slot->size, self->alignment) > self->target->limits.max_buffer_size)
        {
          g_autofree char *type = rlx_type_to_string (&slot->type);

          g_set_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_LIMIT,
                       "a tensor %s%s%s%s needs %" G_GUINT64_FORMAT " bytes, the device's buffers have at most %" G_GUINT64_FORMAT " (maxBufferSize)",
                       type, slot->leaf && slot->leaf->name ? " “" : "", slot->leaf && slot->leaf->name ? slot->leaf->name : "",
                       slot->leaf && slot->leaf->name ? "”" : "", slot->size, self->target->limits.max_buffer_size);
          return FALSE;
        }
    }
  return TRUE;
}

/* Steps with the same parameters share a block, and so may share bind groups:
 * a driver has room for tens of thousands of these, not for more. */
static void
place_params (RlxPlan    *plan,
              RlxStep    *step,
              GHashTable *blocks,
              guint64     alignment)
{
  g_autofree guint32 *words = g_new0 (guint32, step->params->len + 1);
  g_autoptr(GBytes) key = NULL;
  gpointer offset;

  for (guint i = 0; i < step->params->len; i++)
    words[i] = g_array_index (step->params, RlxParam, i).bits;
  key = g_bytes_new (words, step->params->len * 4);
  if (g_hash_table_lookup_extended (blocks, key, NULL, &offset))
    {
      step->param_offset = GPOINTER_TO_SIZE (offset);
      return;
    }
  step->param_offset = plan->params_size;
  plan->params_size += align_up (step->params->len * 4, alignment);
  g_hash_table_insert (blocks, g_steal_pointer (&key), GSIZE_TO_POINTER (step->param_offset));
}

static void
describe (const RlxPlan *plan)
{
  for (guint i = 0; i < plan->slots->len; i++)
    {
      const RlxSlot *slot = &g_array_index (plan->slots, RlxSlot, i);
      g_autofree char *type = rlx_type_to_string (&slot->type);

      RLX_NOTE (PLAN, "slot %u: %s kind %d steps %d..%d buffer %u offset %" G_GUINT64_FORMAT " size %" G_GUINT64_FORMAT "%s",
                i, type, slot->kind, slot->first, slot->last, slot->buffer, slot->offset, slot->size, slot->shares >= 0 ? " in place" : "");
    }
}

static void
clear_port (gpointer data)
{
  g_free (((RlxPlanPort *) data)->name);
}

static GArray *
new_ports (void)
{
  GArray *ports = g_array_new (FALSE, TRUE, sizeof (RlxPlanPort));

  g_array_set_clear_func (ports, clear_port);
  return ports;
}

static void
clear_f16_weight (gpointer data)
{
  g_free (((RlxF16Weight *) data)->label);
}

RlxPlan *
rlx_plan_new (RlxIr           *ir,
              const RlxTarget *target,
              GCancellable    *cancellable,
              GError         **error)
{
  g_autoptr(GHashTable) bodies = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  g_autoptr(RlxPlan) plan = g_new0 (RlxPlan, 1);
  g_autoptr(GArray) banks = g_array_new (FALSE, TRUE, sizeof (Bank));
  g_autoptr(GArray) folded = g_array_new (FALSE, TRUE, sizeof (Bank));
  g_autoptr(GPtrArray) conflicts = NULL;
  g_autofree gboolean *placed = NULL;
  Planner planner = { plan, target, MAX (16, target->limits.storage_offset_alignment), banks, folded, NULL, NULL };
  guint64 alignment = MAX (16, target->limits.uniform_offset_alignment);
  g_autoptr(GHashTable) blocks = g_hash_table_new_full (g_bytes_hash, g_bytes_equal, (GDestroyNotify) g_bytes_unref, NULL);

  g_array_set_clear_func (banks, clear_bank);
  g_array_set_clear_func (folded, clear_bank);
  plan->ir = ir;
  plan->steps = g_ptr_array_new_with_free_func ((GDestroyNotify) rlx_step_free);
  plan->choices = g_ptr_array_new_with_free_func ((GDestroyNotify) rlx_choice_free);
  plan->slots = g_array_new (FALSE, TRUE, sizeof (RlxSlot));
  plan->buffers = g_array_new (FALSE, TRUE, sizeof (RlxBuffer));
  plan->constants = g_array_new (FALSE, TRUE, sizeof (guint));
  plan->inputs = new_ports ();
  plan->parameters = new_ports ();
  plan->states = new_ports ();
  plan->outputs = new_ports ();
  plan->copies = g_array_new (FALSE, TRUE, sizeof (RlxSlotCopy));
  plan->reports = g_array_new (FALSE, TRUE, sizeof (RlxPlanReport));
  plan->f16_weights = g_array_new (FALSE, TRUE, sizeof (RlxF16Weight));
  g_array_set_clear_func (plan->f16_weights, clear_f16_weight);

  if (!rlx_lower_ir (plan, target, cancellable, error) || !check_slots (&planner, error))
    return NULL;

  find_conflicts (&planner);
  conflicts = planner.conflicts;
  placed = planner.placed = g_new0 (gboolean, plan->slots->len);
  place_static (&planner, RLX_SLOT_WEIGHT, RLX_BUFFER_WEIGHTS);
  list_constants (plan);
  place_static (&planner, RLX_SLOT_STATE, RLX_BUFFER_STATE);
  place_activations (&planner);
  for (guint i = 0; i < banks->len; i++)
    g_array_index (plan->buffers, RlxBuffer, get_bank (banks, i)->buffer).size = get_bank (banks, i)->size;
  for (guint i = 0; i < folded->len; i++)
    g_array_index (plan->buffers, RlxBuffer, get_bank (folded, i)->buffer).size = get_bank (folded, i)->size;
  plan->live_bytes = find_live_bytes (plan);
  if (RLX_DEBUG_CHECK (PLAN))
    describe (plan);

  for (guint i = 0; i < plan->steps->len; i++)
    {
      RlxStep *step = g_ptr_array_index (plan->steps, i);

      if (!rlx_step_build_source (plan, step, target, bodies, error))
        return NULL;
      place_params (plan, step, blocks, alignment);
    }

  return g_steal_pointer (&plan);
}

static RlxPlan *
make_plan (const RlxIr     *ir,
           const RlxTarget *target,
           GCancellable    *cancellable,
           GError         **error)
{
  RlxIr *fused = rlx_run_passes (ir, target, error);

  return fused != NULL ? rlx_plan_new (fused, target, cancellable, error) : NULL;
}

/* The most bytes of activations that would be alive at once if nothing were computed again: without “after”, copies of
 * nodes are duplicates. 0: nothing is, or there is no such plan. */
static guint64
find_kept_bytes (const RlxIr     *ir,
                 const RlxTarget *target,
                 GCancellable    *cancellable)
{
  g_auto(RlxRewrite) rewrite = { 0 };
  g_autoptr(RlxIr) kept = NULL;
  g_autoptr(RlxPlan) plan = NULL;
  gboolean found = FALSE;

  for (guint i = 0; i < ir->nodes->len && !found; i++)
    found = rlx_ir_node_is (g_ptr_array_index (ir->nodes, i), RLX_OP_ID_AFTER);
  if (!found)
    return 0;

  rlx_rewrite_init (&rewrite, ir, target);
  for (guint i = 0; i < ir->nodes->len; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);

      if (rlx_ir_node_is (node, RLX_OP_ID_AFTER))
        rewrite.map[node->outputs[0].id] = rewrite.map[node->inputs[0]->id];
      else
        rlx_rewrite_copy (&rewrite, node);
    }
  kept = rlx_rewrite_end (&rewrite);
  plan = make_plan (kept, target, cancellable, NULL);
  return plan != NULL ? plan->live_bytes : 0;
}

RlxPlan *
rlx_plan_make (const RlxIr     *ir,
               const RlxTarget *target,
               GCancellable    *cancellable,
               GError         **error)
{
  g_autoptr(RlxPlan) plan = make_plan (ir, target, cancellable, error);

  if (plan == NULL || (RLX_DEBUG_CHECK (VALIDATE) && !rlx_plan_verify (plan, error)))
    return NULL;
  plan->kept_bytes = find_kept_bytes (ir, target, cancellable);
  return g_steal_pointer (&plan);
}

void
rlx_plan_free (RlxPlan *plan)
{
  g_clear_pointer (&plan->steps, g_ptr_array_unref);
  g_clear_pointer (&plan->choices, g_ptr_array_unref);
  g_clear_pointer (&plan->slots, g_array_unref);
  g_clear_pointer (&plan->buffers, g_array_unref);
  g_clear_pointer (&plan->constants, g_array_unref);
  g_clear_pointer (&plan->inputs, g_array_unref);
  g_clear_pointer (&plan->parameters, g_array_unref);
  g_clear_pointer (&plan->states, g_array_unref);
  g_clear_pointer (&plan->outputs, g_array_unref);
  g_clear_pointer (&plan->copies, g_array_unref);
  g_clear_pointer (&plan->f16_weights, g_array_unref);
  g_clear_pointer (&plan->reports, g_array_unref);
  g_clear_pointer (&plan->ir, rlx_ir_free);
  g_free (plan);
}

guint64
rlx_plan_buffer_bytes (const RlxPlan *plan,
                       gboolean       own)
{
  guint64 size = 0;

  for (guint i = 0; i < plan->buffers->len; i++)
    if (rlx_plan_is_own_buffer (plan, i) == own)
      size += g_array_index (plan->buffers, RlxBuffer, i).size;
  return size;
}
