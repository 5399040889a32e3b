/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Times the variants that fit, for each problem of a graph.
 */
#include "config.h"

#include "rlx-tune-private.h"

#include "rlx-timing-private.h"
#include "rlx-trial-private.h"
#include "util/rlx-debug-private.h"

/* Below this fraction of a graph's time there is nothing to gain. */
#define WORTHWHILE 0.02
/* Seconds for sampling each problem, and for everything in one graph. The rest is chosen
 * as without tuning, until the graph is compiled again. */
#define PROBLEM_SECONDS 0.15
#define GRAPH_SECONDS 10.0

/* A problem of the graph, with the number of its occurrences. */
typedef struct
{
  const RlxChoice *choice;
  double seconds;
} Problem;

static guint
count_fitting (const RlxChoice *choice)
{
  guint n = 0;

  for (guint i = 0; i < choice->table->n_variants; i++)
    n += choice->verdicts[i].fit != RLX_FIT_NO && !choice->verdicts[i].banned;
  return n;
}

/* Longest time first; a choice that leads to another one takes at least as long, and
 * came first. */
static int
compare_problems (gconstpointer a,
                  gconstpointer b)
{
  const Problem *x = a, *y = b;

  return x->seconds > y->seconds ? -1 : x->seconds < y->seconds;
}

static GArray *
list_missing (RlxTuning       *self,
              const RlxPlan   *plan,
              const RlxSpeeds *speeds)
{
  GArray *problems = g_array_new (FALSE, FALSE, sizeof (Problem));
  g_autoptr(GHashTable) known = g_hash_table_new (g_str_hash, g_str_equal);
  double all = 0.0;

  for (guint i = plan->n_prologue; i < plan->steps->len; i++)
    all += rlx_plan_estimate_step (plan, g_ptr_array_index (plan->steps, i), speeds);
  for (guint i = 0; i < plan->choices->len; i++)
    {
      const RlxChoice *choice = g_ptr_array_index (plan->choices, i);
      Problem problem = { choice, choice->verdicts[choice->row].cost };
      guint index;

      if (choice->once || count_fitting (choice) < 2 || rlx_tuning_look_up (self, choice->key) != NULL)
        continue;
      index = GPOINTER_TO_UINT (g_hash_table_lookup (known, choice->key));
      if (index > 0)
        {
          g_array_index (problems, Problem, index - 1).seconds += problem.seconds;
          continue;
        }
      g_array_append_val (problems, problem);
      g_hash_table_insert (known, choice->key, GUINT_TO_POINTER (problems->len));
    }
  for (guint i = problems->len; i-- > 0;)
    if (g_array_index (problems, Problem, i).seconds < WORTHWHILE * all)
      g_array_remove_index (problems, i);
  g_array_sort (problems, compare_problems);
  return problems;
}

/* All variants together must leave most of the free memory unused. */
static gboolean
fits_memory (RlxDevice       *device,
             const RlxChoice *choice)
{
  guint64 limit = rlx_device_get_memory_limit (device);
  double left = (double) (limit - MIN (rlx_device_get_memory_used (device), limit)), bytes = 0.0;

  for (guint i = 0; i < choice->node->n_inputs; i++)
    if (choice->node->inputs[i] != NULL)
      bytes += (double) rlx_type_device_size (&choice->node->inputs[i]->type);
  for (guint i = 0; i < choice->node->n_outputs; i++)
    bytes += (double) rlx_type_device_size (&choice->node->outputs[i].type);
  return bytes * count_fitting (choice) <= left / 4;
}

/* -1 in *@best: none is right. */
static gboolean
find_best (RlxTrial  *trial,
           int       *best,
           GError   **error)
{
  double seconds[RLX_MAX_VARIANTS];
  RlxTiming timing;

  *best = -1;
  if (trial->key == NULL)
    return TRUE;
  /* Only the fastest matters, not the rates. */
  if (!rlx_trial_run (trial, ~trial->target.speeds.banned[trial->table->family], NULL, error) ||
      !rlx_timing_init (&timing, trial->device, FALSE, trial->cancellable, error) ||
      !rlx_timing_time_kernels (&timing, trial->executables, trial->table->n_variants, PROBLEM_SECONDS, seconds, error))
    return FALSE;
  for (guint i = 0; i < trial->table->n_variants; i++)
    if (trial->executables[i] != NULL && (*best < 0 || seconds[i] * RLX_CLEARLY < seconds[*best]))
      *best = (int) i;
  if (*best >= 0)
    RLX_NOTE (COMPILE, "tuned %s: “%s”, %.1f µs", trial->key, trial->table->variants[*best].name, seconds[*best] * 1e6);
  return TRUE;
}

gboolean
rlx_tuning_measure (RlxTuning       *self,
                    RlxDevice       *device,
                    const RlxTarget *target,
                    const RlxPlan   *plan,
                    guint           *n_measured,
                    GCancellable    *cancellable,
                    GError         **error)
{
  g_autoptr(GArray) missing = list_missing (self, plan, &target->speeds);
  gint64 late = g_get_monotonic_time () + (gint64) (GRAPH_SECONDS * G_USEC_PER_SEC);

  *n_measured = 0;
  for (guint i = 0; i < missing->len && g_get_monotonic_time () < late; i++)
    {
      const RlxChoice *choice = g_array_index (missing, Problem, i).choice;
      g_auto(RlxTrial) trial = { 0 };
      int best;

      if (!fits_memory (device, choice))
        continue;
      if (!rlx_trial_init_for_choice (&trial, device, target, choice, plan->ir->precision, cancellable, error) ||
          !find_best (&trial, &best, error))
        return FALSE;
      if (best >= 0)
        {
          rlx_tuning_set (self, choice->key, choice->table->variants[best].name);
          ++*n_measured;
        }
    }
  return TRUE;
}

/* ---- storage ------------------------------------------------------------------ */

RlxTuning *
rlx_tuning_load (const RlxGpuAdapterInfo *info)
{
  g_autoptr(GBytes) bytes = rlx_gpu_notes_load (info, RLX_TUNING_NOTES);
  RlxTuning *self = bytes != NULL ? rlx_tuning_from_bytes (bytes) : NULL;

  return self != NULL ? self : rlx_tuning_new ();
}

gboolean
rlx_tuning_store (RlxTuning               *self,
                  const RlxGpuAdapterInfo *info)
{
  g_autoptr(GBytes) bytes = rlx_tuning_to_bytes (self);

  return rlx_gpu_notes_store (info, RLX_TUNING_NOTES, bytes);
}
