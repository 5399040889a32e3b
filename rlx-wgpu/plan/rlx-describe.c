/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A plan for people and for programs.
 */
#include "config.h"

#include "plan/rlx-plan-private.h"

#include <string.h>

static guint
count_pipelines (const GPtrArray *steps,
                 GHashTable      *kernels)
{
  g_autoptr(GHashTable) texts = g_hash_table_new (g_str_hash, g_str_equal);

  for (guint i = 0; i < steps->len; i++)
    {
      const RlxStep *step = g_ptr_array_index (steps, i);
      guint n = GPOINTER_TO_UINT (g_hash_table_lookup (kernels, step->kernel));

      g_hash_table_add (texts, step->wgsl);
      g_hash_table_insert (kernels, step->kernel, GUINT_TO_POINTER (n + 1));
    }
  return g_hash_table_size (texts);
}

static guint
count_buffers (const RlxPlan *plan,
               RlxBufferKind  kind)
{
  guint n = 0;

  for (guint i = 0; i < plan->buffers->len; i++)
    n += g_array_index (plan->buffers, RlxBuffer, i).kind == kind;
  return n;
}

static int
compare_names (gconstpointer a,
               gconstpointer b)
{
  return g_strcmp0 (*(const char *const *) a, *(const char *const *) b);
}

/* The kernels, in a fixed order. */
static GPtrArray *
sorted_keys (GHashTable *table)
{
  GPtrArray *keys = g_hash_table_get_keys_as_ptr_array (table);

  g_ptr_array_sort (keys, compare_names);
  return keys;
}

/* The numeric parameters of a kernel, by name. */
static GVariant *
parameters_to_variant (const RlxStep *step)
{
  GVariantDict dict;

  g_variant_dict_init (&dict, NULL);
  for (guint i = 0; i < step->params->len; i++)
    {
      const RlxParam *param = &g_array_index (step->params, RlxParam, i);
      float value;

      memcpy (&value, &param->bits, sizeof value);
      if (param->kind == RLX_PARAM_F32)
        g_variant_dict_insert (&dict, param->name, "d", (double) value);
      else if (param->kind == RLX_PARAM_I32)
        g_variant_dict_insert (&dict, param->name, "i", (gint32) param->bits);
      else
        g_variant_dict_insert (&dict, param->name, "u", param->bits);
    }
  return g_variant_dict_end (&dict);
}

double
rlx_plan_estimate_step (const RlxPlan   *plan,
                        const RlxStep   *step,
                        const RlxSpeeds *speeds)
{
  double seconds = MAX (step->flops / speeds->flops, step->bytes / speeds->bandwidth);

  if (step->choice > 0)
    {
      const RlxChoice *choice = g_ptr_array_index (plan->choices, step->choice - 1);
      double factor = speeds->variants[choice->table->family][choice->row].factor;

      seconds *= factor > 0.0 ? factor : 1.0;
    }
  return speeds->dispatch_time + seconds;
}

/* A variant may have led to further choices for parts of its work: the outermost comes first. */
char *
rlx_plan_dup_choice (const RlxPlan *plan,
                     const RlxStep *step)
{
  g_autoptr(GString) all = g_string_new (NULL);

  for (guint i = step->choice; i > 0;)
    {
      const RlxChoice *choice = g_ptr_array_index (plan->choices, i - 1);
      g_autoptr(GString) text = g_string_new (NULL);

      rlx_choice_append_text (choice, text);
      g_string_prepend_len (all, text->str, (gssize) text->len);
      i = choice->parent;
    }
  return all->len > 0 ? g_strdup (all->str) : NULL;
}

GVariant *
rlx_plan_to_variant (const RlxPlan *plan,
                     GPtrArray     *steps)
{
  g_autoptr(GHashTable) kernels = g_hash_table_new (g_str_hash, g_str_equal);
  guint pipelines = count_pipelines (steps, kernels);
  g_autoptr(GPtrArray) names = sorted_keys (kernels);
  GVariantDict dict;
  GVariantBuilder entries, counts;

  g_variant_builder_init (&counts, G_VARIANT_TYPE ("a{su}"));
  for (guint i = 0; i < names->len; i++)
    g_variant_builder_add (&counts, "{su}", g_ptr_array_index (names, i),
                           GPOINTER_TO_UINT (g_hash_table_lookup (kernels, g_ptr_array_index (names, i))));

  g_variant_builder_init (&entries, G_VARIANT_TYPE ("aa{sv}"));
  for (guint i = 0; i < steps->len; i++)
    {
      const RlxStep *step = g_ptr_array_index (steps, i);
      g_autofree char *choice = NULL;
      GVariantDict entry;
      gboolean in_place = FALSE;

      for (guint j = 0; j < step->args->len; j++)
        in_place |= g_array_index (step->args, RlxArg, j).merged;
      g_variant_dict_init (&entry, NULL);
      g_variant_dict_insert (&entry, "op", "s", step->op);
      g_variant_dict_insert (&entry, "node", "s", step->label);
      g_variant_dict_insert (&entry, "kernel", "s", step->kernel);
      g_variant_dict_insert (&entry, "grid", "(uuu)", step->grid[0], step->grid[1], step->grid[2]);
      g_variant_dict_insert (&entry, "prologue", "b", step->prologue);
      g_variant_dict_insert (&entry, "in-place", "b", in_place);
      g_variant_dict_insert (&entry, "operations", "d", step->flops);
      g_variant_dict_insert (&entry, "bytes", "d", step->bytes);
      g_variant_dict_insert (&entry, "workgroup-size", "u", step->workgroup_size);
      g_variant_dict_insert_value (&entry, "parameters", parameters_to_variant (step));
      g_variant_dict_insert (&entry, "wgsl", "s", step->wgsl);
      choice = rlx_plan_dup_choice (plan, step);
      if (choice != NULL)
        g_variant_dict_insert (&entry, "choice", "s", choice);
      g_variant_builder_add_value (&entries, g_variant_dict_end (&entry));
    }

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "dispatches", "u", steps->len - plan->n_prologue);
  g_variant_dict_insert (&dict, "prologue", "u", plan->n_prologue);
  g_variant_dict_insert (&dict, "pipelines", "u", pipelines);
  g_variant_dict_insert (&dict, "banks", "u", count_buffers (plan, RLX_BUFFER_BANK));
  g_variant_dict_insert (&dict, "arena-bytes", "t", rlx_plan_buffer_bytes (plan, TRUE));
  g_variant_dict_insert (&dict, "live-bytes", "t", plan->live_bytes);
  if (plan->kept_bytes > 0)
    g_variant_dict_insert (&dict, "kept-bytes", "t", plan->kept_bytes);
  g_variant_dict_insert (&dict, "weight-bytes", "t", rlx_plan_buffer_bytes (plan, FALSE));
  g_variant_dict_insert_value (&dict, "kernels", g_variant_builder_end (&counts));
  g_variant_dict_insert_value (&dict, "steps", g_variant_builder_end (&entries));
  return g_variant_ref_sink (g_variant_dict_end (&dict));
}

char *
rlx_plan_to_text (const RlxPlan *plan,
                  GPtrArray     *steps)
{
  g_autoptr(GHashTable) kernels = g_hash_table_new (g_str_hash, g_str_equal);
  guint pipelines = count_pipelines (steps, kernels);
  GString *out = g_string_new (NULL);

  g_string_append_printf (out,
                          "%u dispatches, %u computed once, %u pipelines, %u banks\n"
                          "arena %" G_GUINT64_FORMAT " bytes (%" G_GUINT64_FORMAT " alive at most",
                          steps->len - plan->n_prologue, plan->n_prologue, pipelines, count_buffers (plan, RLX_BUFFER_BANK),
                          rlx_plan_buffer_bytes (plan, TRUE), plan->live_bytes);
  if (plan->kept_bytes > 0)
    g_string_append_printf (out, ", %" G_GUINT64_FORMAT " if nothing were computed again", plan->kept_bytes);
  g_string_append_printf (out, "), weights %" G_GUINT64_FORMAT " bytes\n", rlx_plan_buffer_bytes (plan, FALSE));

  for (guint i = 0; i < steps->len; i++)
    {
      const RlxStep *step = g_ptr_array_index (steps, i);

      g_string_append_printf (out, "%4u %-9s %-16s %-28s grid %u x %u\n", i, step->prologue ? "once" : "", step->label,
                              step->kernel, step->grid[0], step->grid[1]);
      for (guint j = 0; j < step->args->len; j++)
        {
          const RlxArg *arg = &g_array_index (step->args, RlxArg, j);
          const RlxSlot *slot = &g_array_index (plan->slots, RlxSlot, arg->slot);
          g_autofree char *type = rlx_type_to_string (&slot->type);

          g_string_append_printf (out, "       %s %-4s %s at %u+%" G_GUINT64_FORMAT "%s\n", arg->is_output ? "→" : "←", arg->name, type,
                                  slot->buffer, slot->offset, arg->merged ? ", overwritten" : "");
        }
    }
  return g_string_free (out, FALSE);
}
