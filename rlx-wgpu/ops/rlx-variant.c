/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "ops/rlx-variant-private.h"

#include "target/rlx-tuning-private.h"

const RlxVariants *
rlx_variants_get (RlxFamily family)
{
  static const RlxVariants *const tables[RLX_N_FAMILIES] = {
    [RLX_FAMILY_PRODUCT] = &rlx_product_variants,
    [RLX_FAMILY_CONV] = &rlx_conv_variants,
    [RLX_FAMILY_ATTENTION] = &rlx_attention_variants,
    [RLX_FAMILY_PACKED] = &rlx_packed_variants,
    [RLX_FAMILY_REDUCE] = &rlx_reduce_variants,
    [RLX_FAMILY_NORM] = &rlx_norm_variants,
    [RLX_FAMILY_ARG] = &rlx_arg_variants,
    [RLX_FAMILY_SCAN] = &rlx_scan_variants,
    [RLX_FAMILY_SORT] = &rlx_sort_variants,
    [RLX_FAMILY_COPY] = &rlx_copy_variants,
    [RLX_FAMILY_QMATMUL] = &rlx_qmatmul_variants,
    [RLX_FAMILY_QCONV] = &rlx_qconv_variants,
    [RLX_FAMILY_RECURRENT] = &rlx_recurrent_variants,
    [RLX_FAMILY_FFT] = &rlx_fft_variants,
    [RLX_FAMILY_RECURRENCE] = &rlx_recurrence_variants,
    [RLX_FAMILY_POOL] = &rlx_pool_variants,
    [RLX_FAMILY_RESIZE] = &rlx_resize_variants,
    [RLX_FAMILY_SOLVE] = &rlx_solve_variants,
    [RLX_FAMILY_KNN] = &rlx_knn_variants,
    [RLX_FAMILY_GROUPED] = &rlx_grouped_variants,
  };

  return tables[family];
}

/* The cheapest of the rows that fit at least as well as @fit and are not banned. */
static int
find_cheapest (const RlxVariants *self,
               const RlxVerdict  *verdicts,
               RlxFit             fit)
{
  int best = -1;

  for (guint i = 0; i < self->n_variants; i++)
    if (verdicts[i].fit >= fit && !verdicts[i].banned &&
        (best < 0 || verdicts[i].cost * RLX_CLEARLY <= verdicts[best].cost))
      best = (int) i;
  return best;
}

int
rlx_variants_pick (const RlxVariants *self,
                   const RlxTarget   *target,
                   gconstpointer      problem,
                   int                tuned,
                   RlxVerdict        *verdicts)
{
  RlxVerdict own[RLX_MAX_VARIANTS];
  int best;

  g_assert (self->n_variants <= RLX_MAX_VARIANTS);
  if (verdicts == NULL)
    verdicts = own;
  for (guint i = 0; i < self->n_variants; i++)
    {
      const RlxVariant *variant = &self->variants[i];
      double factor = target->speeds.variants[self->family][i].factor;
      RlxVerdict *verdict = &verdicts[i];

      *verdict = (RlxVerdict) { .banned = rlx_speeds_is_banned (&target->speeds, self->family, i) };
      verdict->fit = variant->fits (variant, target, problem, &verdict->why);
      if (verdict->fit == RLX_FIT_NO)
        continue;
      verdict->cost = variant->cost (variant, target, problem) * (factor > 0.0 ? factor : 1.0);
      if (variant->layout != NULL)
        verdict->layout = variant->layout (variant, target, problem);
    }

  if (tuned >= 0 && verdicts[tuned].fit != RLX_FIT_NO && !verdicts[tuned].banned)
    return tuned;
  best = find_cheapest (self, verdicts, RLX_FIT_WELL);
  if (best < 0)
    best = find_cheapest (self, verdicts, RLX_FIT_POORLY);
  /* If everything is banned, a wrong result may still be better than none. */
  for (guint i = self->n_variants; best < 0 && i-- > 0;)
    if (verdicts[i].fit != RLX_FIT_NO)
      best = (int) i;
  return best;
}

void
rlx_choice_free (RlxChoice *self)
{
  g_free (self->key);
  g_free (self);
}

void
rlx_choice_append_text (const RlxChoice *self,
                        GString         *text)
{
  g_string_append_printf (text, "%s\n", self->key);
  for (guint i = 0; i < self->table->n_variants; i++)
    {
      const RlxVerdict *verdict = &self->verdicts[i];

      g_string_append_printf (text, "  %c %-12s", (int) i == self->row ? '*' : '-', self->table->variants[i].name);
      if (verdict->fit != RLX_FIT_NO)
        g_string_append_printf (text, " %.4g µs", verdict->cost * 1e6);
      else
        g_string_append (text, " cannot");
      if (verdict->layout.order == RLX_WEIGHT_IN_PANELS)
        g_string_append_printf (text, ", weight in panels of %u", verdict->layout.width);
      if (verdict->banned)
        g_string_append (text, ", banned: gave a wrong result here");
      if (verdict->why != NULL)
        g_string_append_printf (text, ": %s", verdict->why);
      g_string_append_c (text, '\n');
    }
}

/* The row that was measured to be the fastest for the problem; -1: not measured. */
static int
find_tuned (const RlxVariants *table,
            const RlxTarget   *target,
            const char        *key)
{
  const char *name = target->tuning != NULL ? rlx_tuning_look_up (target->tuning, key) : NULL;

  for (guint i = 0; name != NULL && i < table->n_variants; i++)
    if (g_str_equal (table->variants[i].name, name))
      return (int) i;
  return -1;
}

gboolean
rlx_lower_choose (RlxLower          *lower,
                  const RlxIrNode   *node,
                  const RlxVariants *table,
                  gconstpointer      problem,
                  GError           **error)
{
  const RlxTarget *target = rlx_lower_get_target (lower);
  g_autofree char *text = table->print (problem);
  RlxChoice *choice = g_new0 (RlxChoice, 1);
  const RlxVariant *variant;
  gboolean ok;
  guint before;

  choice->table = table;
  choice->node = node;
  choice->key = g_strdup_printf ("%s: %s", table->name, text);
  choice->row = rlx_variants_pick (table, target, problem, find_tuned (table, target, choice->key), choice->verdicts);
  if (choice->row < 0)
    {
      g_set_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_UNSUPPORTED, "there is no kernel for %s", choice->key);
      rlx_choice_free (choice);
      return FALSE;
    }
  /* A variant may choose again, for a part of its work. */
  variant = &table->variants[choice->row];
  before = rlx_lower_begin_choice (lower, choice);
  ok = variant->describe (variant, lower, node, problem, error);
  rlx_lower_end_choice (lower, before);
  return ok;
}
