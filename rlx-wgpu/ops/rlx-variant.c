/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "ops/rlx-variant-private.h"

#define MAX_VARIANTS 32

static gboolean
is_banned (const RlxVariants *self,
           const RlxTarget   *target,
           guint              row)
{
  return (target->speeds.banned[self->family] >> row & 1) != 0;
}

/* Of the rows that fit as well as @fit. */
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
                   RlxVerdict        *verdicts)
{
  RlxVerdict own[MAX_VARIANTS];
  int tuned = self->tuned != NULL ? self->tuned (target, problem) : -1;
  int best;

  g_assert (self->n_variants <= MAX_VARIANTS);
  if (verdicts == NULL)
    verdicts = own;
  for (guint i = 0; i < self->n_variants; i++)
    {
      const RlxVariant *variant = &self->variants[i];
      RlxVerdict *verdict = &verdicts[i];

      *verdict = (RlxVerdict) { .banned = is_banned (self, target, i) };
      verdict->fit = variant->fits (variant, target, problem, &verdict->why);
      if (verdict->fit == RLX_FIT_NO)
        continue;
      verdict->cost = variant->cost (variant, target, problem);
      if (variant->layout != NULL)
        verdict->layout = variant->layout (variant, target, problem);
    }

  if (tuned >= 0 && verdicts[tuned].fit != RLX_FIT_NO && !verdicts[tuned].banned)
    return tuned;
  best = find_cheapest (self, verdicts, RLX_FIT_WELL);
  if (best < 0)
    best = find_cheapest (self, verdicts, RLX_FIT_POORLY);
  /* Where everything is banned, a wrong result may still be better than none. */
  for (guint i = self->n_variants; best < 0 && i-- > 0;)
    if (verdicts[i].fit != RLX_FIT_NO)
      best = (int) i;
  return best;
}

static void
print_choice (GString           *to,
              const RlxVariants *table,
              gconstpointer      problem,
              const RlxVerdict  *verdicts,
              int                chosen)
{
  g_autofree char *text = table->print (problem);

  g_string_append_printf (to, "%s: %s\n", table->name, text);
  for (guint i = 0; i < table->n_variants; i++)
    {
      const RlxVerdict *verdict = &verdicts[i];

      g_string_append_printf (to, "  %c %-12s", (int) i == chosen ? '*' : '-', table->variants[i].name);
      if (verdict->fit != RLX_FIT_NO)
        g_string_append_printf (to, " %.4g µs", verdict->cost * 1e6);
      else
        g_string_append (to, " cannot");
      if (verdict->layout.order == RLX_WEIGHT_IN_PANELS)
        g_string_append_printf (to, ", weight in panels of %u", verdict->layout.width);
      if (verdict->banned)
        g_string_append (to, ", banned: gave a wrong result here");
      if (verdict->why != NULL)
        g_string_append_printf (to, ": %s", verdict->why);
      g_string_append_c (to, '\n');
    }
}

gboolean
rlx_lower_choose (RlxLower          *lower,
                  const RlxIrNode   *node,
                  const RlxVariants *table,
                  gconstpointer      problem,
                  GError           **error)
{
  GString *choice = rlx_lower_get_choice (lower);
  gsize before = choice->len;
  RlxVerdict verdicts[MAX_VARIANTS];
  int chosen = rlx_variants_pick (table, rlx_lower_get_target (lower), problem, verdicts);
  gboolean ok;

  if (chosen < 0)
    {
      g_autofree char *text = table->print (problem);

      g_set_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_UNSUPPORTED, "there is no kernel for %s: %s", table->name, text);
      return FALSE;
    }
  /* A variant may choose again, for a part of its work. */
  print_choice (choice, table, problem, verdicts, chosen);
  ok = table->variants[chosen].describe (&table->variants[chosen], lower, node, problem, error);
  g_string_truncate (choice, before);
  return ok;
}
