/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * rlx-verify [--quick] [--from=CASE] [--banned=FAMILY/VARIANT]… [OPERATOR…]
 *
 * What `rlx verify` starts. A case is a variant of an operator, or an operator that has one
 * kernel only: what the generators of the tests draw is computed by it, on the device, and
 * compared with the reference. Then each variant of a family computes an example of a size
 * that tells how fast it is.
 *
 * It is a process of its own since a driver may take the process down with it. Then whoever
 * started this one starts another, from the next case on. For that it tells on its standard
 * output, before a case and before each call, what comes: lines of a kind and a dictionary, as
 * GVariant prints them.
 *
 *   begin    n_cases, clock
 *   case     case, and of these what there is: operator, family, variant
 *   call     call, data_type, number, seed, precision
 *   failure  problem, message; and of a wrong result element, expected, got, bound, wrong, elements
 *   result   calls, time, timed, flops; or instead skipped: why
 *   end
 */
#include "config.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "ops/rlx-variant-private.h"
#include "plan/rlx-plan-private.h"
#include "rlx-device-private.h"
#include "rlx-graph-private.h"
#include "rlx-prop-calls.h"
#include "rlx-trial-private.h"

/* Exit status if the device was lost: the remaining cases need another process. */
#define STATUS_LOST 3

/* A case is stopped after this many failures. */
#define MAX_FAILURES 3
#define N_TIMES 7

typedef struct
{
  const RlxOp *op;            /* NULL for the examples of @table */
  const RlxVariants *table;   /* NULL if there is no choice of variants */
  guint row;
} Case;

typedef struct
{
  RlxDevice *device;
  RlxTarget target;           /* the device's own, including matrix units; bans are those found so far */
  gboolean quick;
  GHashTable *expected;       /* RlxSample → element-type RlxReferenceValue */

  /* of the current case */
  const Case *now;
  RlxTarget only;             /* with all other variants banned */
  guint n_calls;
  guint n_failures;
  char *skipped;              /* why a call was skipped; nullable */
  RlxExecutable *largest;     /* the largest executable with right results, to be timed; nullable */
  GPtrArray *largest_feeds;
  char *largest_text;
  double largest_work;
} Verify;

/* ---- telling ---------------------------------------------------------------------------- */

static void
tell (const char   *kind,
      GVariantDict *dict)
{
  g_autoptr(GVariant) line = g_variant_ref_sink (g_variant_new ("(s@a{sv})", kind, g_variant_dict_end (dict)));
  g_autofree char *text = g_variant_print (line, TRUE);

  puts (text);
  fflush (stdout);
}

static void
fail (Verify       *self,
      const char   *problem,
      const char   *message,
      GVariantDict *more)
{
  g_auto(GVariantDict) own = G_VARIANT_DICT_INIT (NULL);
  GVariantDict *dict = more != NULL ? more : &own;

  g_variant_dict_insert (dict, "problem", "s", problem);
  g_variant_dict_insert (dict, "message", "s", message);
  tell ("failure", dict);
  self->n_failures++;
  if (self->now->table != NULL)
    self->target.speeds.banned[self->now->table->family] |= 1u << self->now->row;
}

/* Later reasons replace earlier ones: they are for a lower precision. */
static void
set_skipped (Verify     *self,
             const char *why)
{
  if (why == NULL)
    return;
  g_free (self->skipped);
  self->skipped = g_strdup (why);
}

/* Errors that the variant is not responsible for are not failures. Ends the process if the device is lost. */
static void
handle_error (Verify       *self,
              const GError *error)
{
  gboolean lost = rlx_device_get_lost (self->device) || g_error_matches (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_LOST) ||
                  g_error_matches (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_TIMEOUT);

  if (!lost && (g_error_matches (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_UNSUPPORTED) ||
                g_error_matches (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_LIMIT) ||
                g_error_matches (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_OUT_OF_MEMORY)))
    {
      set_skipped (self, error->message);
      return;
    }
  fail (self, lost ? "lost" : "error", error->message, NULL);
  /* A hanging driver must not prevent the process from ending. */
  if (lost)
    _Exit (STATUS_LOST);
}

/* ---- comparing -------------------------------------------------------------------------- */

static void
tell_wrong (Verify                  *self,
            const RlxReferenceValue *value,
            const RlxReferenceCheck *check,
            const char              *which)
{
  g_autofree char *message = g_strdup_printf ("%s: %" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT " elements are wrong; element %" G_GSIZE_FORMAT
                                              " should be %.9g within %.3g and is %.9g",
                                              which, check->n_wrong, value->n_elements, check->first_wrong, check->expected, check->bound, check->got);
  g_auto(GVariantDict) dict = G_VARIANT_DICT_INIT (NULL);

  g_variant_dict_insert (&dict, "element", "t", (guint64) check->first_wrong);
  g_variant_dict_insert (&dict, "expected", "d", check->expected);
  g_variant_dict_insert (&dict, "got", "d", check->got);
  g_variant_dict_insert (&dict, "bound", "d", check->bound);
  g_variant_dict_insert (&dict, "wrong", "t", (guint64) check->n_wrong);
  g_variant_dict_insert (&dict, "elements", "t", (guint64) value->n_elements);
  fail (self, "wrong", message, &dict);
}

static void
free_tensors (RlxTensor **tensors,
              gsize       n)
{
  for (gsize i = 0; i < n; i++)
    g_object_unref (tensors[i]);
  g_free (tensors);
}

/* Both runs must be right, and the second one must give the same bits. */
static gboolean
check_outputs (Verify     *self,
               GPtrArray  *expected,
               RlxTensor **outputs,
               RlxTensor **again,
               gsize       n_outputs)
{
  for (gsize i = 0; i < n_outputs; i++)
    {
      const RlxReferenceValue *value = g_ptr_array_index (expected, i);
      g_autofree char *which = g_strdup_printf ("result %" G_GSIZE_FORMAT, i);
      RlxReferenceCheck check;

      if (!rlx_reference_value_check (value, outputs[i], &check))
        {
          tell_wrong (self, value, &check, which);
          return FALSE;
        }
      if (!g_bytes_equal (rlx_tensor_get_bytes (outputs[i]), rlx_tensor_get_bytes (again[i])))
        {
          fail (self, "unsteady", "the second run gave other bits", NULL);
          return FALSE;
        }
    }
  return TRUE;
}

static gboolean
is_right (GPtrArray  *expected,
          RlxTensor **outputs)
{
  for (guint i = 0; i < expected->len; i++)
    {
      RlxReferenceCheck check;

      if (!rlx_reference_value_check (g_ptr_array_index (expected, i), outputs[i], &check))
        return FALSE;
    }
  return TRUE;
}

/* NULL if the reference cannot compute the call, which is then skipped. */
static GPtrArray *
compute_reference (Verify           *self,
                   RlxGraph         *graph,
                   GPtrArray        *feeds,
                   RlxReferenceFlags flags)
{
  g_autoptr(GError) error = NULL;
  GPtrArray *expected = rlx_reference_run (graph, (RlxTensor **) feeds->pdata, feeds->len, NULL, NULL, 0, flags, &error);

  if (expected == NULL)
    set_skipped (self, error->message);
  return expected;
}

static RlxReferenceFlags
get_flags (RlxPrecision precision)
{
  switch (precision)
    {
    case RLX_PRECISION_REDUCED:
      return RLX_REFERENCE_NARROW;
    case RLX_PRECISION_INTEGER:
      return RLX_REFERENCE_BYTES;
    default:
      return RLX_REFERENCE_NONE;
    }
}

/* @keep tells for each output whether subnormal numbers are preserved; NULL if that is unknown. */
static gboolean
check_executable (Verify        *self,
                  RlxExecutable *executable,
                  RlxGraph      *graph,
                  GPtrArray     *feeds,
                  GPtrArray     *expected,
                  GArray        *keep,
                  RlxPrecision   precision)
{
  RlxTensor **inputs = (RlxTensor **) feeds->pdata;
  g_autoptr(GError) error = NULL;
  RlxTensor **outputs, **again;
  gsize n_outputs, n_again;
  gboolean right;

  outputs = rlx_executable_run (executable, inputs, feeds->len, &n_outputs, NULL, &error);
  if (outputs == NULL)
    {
      handle_error (self, error);
      return FALSE;
    }
  again = rlx_executable_run (executable, inputs, feeds->len, &n_again, NULL, &error);
  if (again == NULL)
    {
      free_tensors (outputs, n_outputs);
      handle_error (self, error);
      return FALSE;
    }
  if (keep != NULL && !is_right (expected, outputs))
    {
      g_autoptr(GPtrArray) flushed = compute_reference (self, graph, feeds, get_flags (precision) | RLX_REFERENCE_FLUSH);

      for (guint i = 0; flushed != NULL && i < expected->len; i++)
        if (!g_array_index (keep, gboolean, i))
          rlx_reference_value_relent (g_ptr_array_index (expected, i), g_ptr_array_index (flushed, i), outputs[i]);
    }
  right = check_outputs (self, expected, outputs, again, n_outputs);
  free_tensors (outputs, n_outputs);
  free_tensors (again, n_again);
  return right;
}

/* ---- timing ------------------------------------------------------------------------------ */

static gboolean
has_clock (Verify *self)
{
  return (rlx_device_get_features (self->device) & RLX_DEVICE_FEATURES_TIMESTAMPS) != 0;
}

static int
compare_times (gconstpointer a,
               gconstpointer b)
{
  double x = *(const double *) a, y = *(const double *) b;

  return x < y ? -1 : x > y;
}

/* The median time of several runs in seconds: of the kernels according to the device's timestamps, or of whole runs according
 * to the host's clock. 0 on failure. */
static double
measure (Verify        *self,
         RlxExecutable *executable,
         GPtrArray     *feeds)
{
  double times[N_TIMES];
  guint n = self->quick ? 3 : N_TIMES;

  rlx_executable_set_profiling (executable, TRUE);
  for (guint i = 0; i < n; i++)
    {
      g_autoptr(GError) error = NULL;
      g_autoptr(RlxProfile) profile = NULL;
      gsize n_outputs;
      RlxTensor **outputs = rlx_executable_run (executable, (RlxTensor **) feeds->pdata, feeds->len, &n_outputs, NULL, &error);

      if (outputs == NULL)
        {
          handle_error (self, error);
          return 0.0;
        }
      free_tensors (outputs, n_outputs);
      profile = rlx_executable_dup_profile (executable);
      times[i] = has_clock (self) ? rlx_profile_get_total_time (profile) : rlx_profile_get_wall_time (profile);
    }
  qsort (times, n, sizeof times[0], compare_times);
  return times[n / 2];
}

/* The number of operations in a run; @bytes is nullable. */
static double
count_work (RlxExecutable *executable,
            double        *bytes)
{
  const RlxPlan *plan = rlx_executable_peek_plan (executable);
  double operations = 0.0, sum = 0.0;

  for (guint i = plan->n_prologue; i < plan->steps->len; i++)
    {
      const RlxStep *step = g_ptr_array_index (plan->steps, i);

      operations += step->flops;
      sum += step->bytes;
    }
  if (bytes != NULL)
    *bytes = sum;
  return operations;
}

/* ---- calls that are drawn ---------------------------------------------------------------- */

/* Whether one of the steps was made by the variant; if not, sets the reason. */
static gboolean
is_used (Verify        *self,
         const RlxPlan *plan)
{
  const Case *now = self->now;

  for (guint i = 0; i < plan->steps->len; i++)
    {
      const RlxStep *step = g_ptr_array_index (plan->steps, i);
      const RlxChoice *choice;

      for (guint at = step->choice; at > 0; at = choice->parent)
        {
          choice = g_ptr_array_index (plan->choices, at - 1);
          if (choice->table != now->table)
            continue;
          if (choice->row == (int) now->row)
            return TRUE;
          set_skipped (self, choice->verdicts[now->row].why);
        }
    }
  return FALSE;
}

/* Sets the highest precision at which the variant is used for the graph; FALSE if there is none. */
static gboolean
find_precision (Verify       *self,
                RlxGraph     *graph,
                RlxPrecision *precision)
{
  RlxPrecision most = self->now->table != NULL ? RLX_PRECISION_INTEGER : RLX_PRECISION_FULL;

  for (*precision = RLX_PRECISION_FULL; *precision <= most; (*precision)++)
    {
      g_autoptr(GError) error = NULL;
      g_autoptr(RlxIr) ir = rlx_graph_copy_ir (graph, &error);
      g_autoptr(RlxPlan) plan = NULL;

      if (ir != NULL)
        {
          ir->precision = *precision;
          plan = rlx_plan_make (ir, &self->only, NULL, &error);
        }
      if (plan == NULL)
        {
          handle_error (self, error);
          return FALSE;
        }
      if (self->now->table == NULL || is_used (self, plan))
        {
          rlx_graph_set_default_precision (graph, *precision);
          return TRUE;
        }
    }
  return FALSE;
}

static void
keep_largest (Verify        *self,
              RlxExecutable *executable,
              GPtrArray     *feeds,
              const char    *text)
{
  double bytes, work = count_work (executable, &bytes) + bytes;

  if (self->largest != NULL && work <= self->largest_work)
    return;
  g_set_object (&self->largest, executable);
  g_clear_pointer (&self->largest_feeds, g_ptr_array_unref);
  self->largest_feeds = g_ptr_array_ref (feeds);
  g_free (self->largest_text);
  self->largest_text = g_strdup (text);
  self->largest_work = work;
}

static void
run_call (Verify      *self,
          Build       *build,
          RlxDataType  data_type,
          guint        number,
          guint32      seed)
{
  const char *text = g_ptr_array_index (build->texts, 0);
  g_autoptr(GEnumClass) precisions = g_type_class_ref (RLX_TYPE_PRECISION);
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(GPtrArray) expected = NULL;
  g_autoptr(GError) error = NULL;
  g_auto(GVariantDict) dict = G_VARIANT_DICT_INIT (NULL);
  RlxPrecision precision;

  if (!find_precision (self, build->graph, &precision))
    return;
  g_variant_dict_insert (&dict, "call", "s", text);
  g_variant_dict_insert (&dict, "data_type", "s", rlx_data_type_to_string (data_type));
  g_variant_dict_insert (&dict, "number", "u", number);
  g_variant_dict_insert (&dict, "seed", "u", seed);
  g_variant_dict_insert (&dict, "precision", "s", g_enum_get_value (precisions, precision)->value_nick);
  tell ("call", &dict);

  executable = rlx_device_compile_for_target (self->device, build->graph, &self->only, NULL, &error);
  if (executable == NULL)
    {
      handle_error (self, error);
      return;
    }
  expected = compute_reference (self, build->graph, build->feeds, get_flags (precision) | RLX_REFERENCE_KEEP);
  if (expected == NULL)
    return;
  self->n_calls++;
  if (check_executable (self, executable, build->graph, build->feeds, expected, build->keep, precision))
    keep_largest (self, executable, build->feeds, text);
}

/* Makes all random calls for a data type, or a quarter of them if time is short. */
static void
run_calls (Verify     *self,
           RlxDataType data_type)
{
  const RlxOp *op = self->now->op;
  g_autofree char *what = g_strdup_printf ("%s %s", op->name, rlx_data_type_to_string (data_type));
  guint32 seed = prop_seed (what);
  g_autoptr(GRand) rand = g_rand_new_with_seed (seed);
  gboolean more = TRUE;

  for (guint number = 0; more && self->n_failures < MAX_FAILURES; number++)
    {
      g_autoptr(RlxGraph) graph = rlx_graph_new ();
      g_autoptr(GPtrArray) feeds = g_ptr_array_new_with_free_func (g_object_unref);
      g_autoptr(GPtrArray) texts = g_ptr_array_new_with_free_func (g_free);
      g_autoptr(GArray) keep = g_array_new (FALSE, FALSE, sizeof (gboolean));
      Build build = { .graph = graph, .feeds = feeds, .texts = texts, .keep = keep };

      more = add_next_call (&build, op, find_generator (op), data_type, number, rand);
      if (texts->len > 0 && (!self->quick || number % 4 == 0))
        run_call (self, &build, data_type, number, seed);
    }
}

static void
run_op (Verify *self)
{
  guint types = get_types (self->now->op);

  for (RlxDataType i = 0; i <= RLX_DATA_TYPE_U2; i++)
    if (types >> i & 1)
      {
        run_calls (self, i);
        if (self->quick || self->n_failures >= MAX_FAILURES)
          break;
      }
}

/* ---- examples ---------------------------------------------------------------------------- */

/* The operands of a trial in order, including those that became parameters. */
static GPtrArray *
list_operands (const RlxTrial *trial)
{
  GPtrArray *operands = g_ptr_array_new_with_free_func (g_object_unref);
  guint n_inputs = 0;

  for (guint i = 0; i < trial->ir->nodes->len; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (trial->ir->nodes, i);

      if (rlx_ir_node_is (node, RLX_OP_ID_INPUT))
        g_ptr_array_add (operands, g_object_ref (g_ptr_array_index (trial->inputs, n_inputs++)));
      else if (rlx_ir_node_is (node, RLX_OP_ID_CONSTANT))
        g_ptr_array_add (operands, g_object_ref (node->data));
    }
  return operands;
}

/* The expected results of an example; cached, because every variant needs them. */
static GPtrArray *
get_expected (Verify          *self,
              const RlxSample *sample,
              const RlxTrial  *trial)
{
  GPtrArray *expected = g_hash_table_lookup (self->expected, sample);

  if (expected == NULL)
    {
      GString *text = g_string_new (sample->text);
      g_autoptr(GPtrArray) operands = list_operands (trial);
      g_autoptr(RlxGraph) graph = NULL;
      g_autoptr(GError) error = NULL;

      g_string_replace (text, "= parameter ", "= input ", 0);
      graph = rlx_graph_new_from_text (text->str, &error);
      g_string_free (text, TRUE);
      if (graph == NULL)
        set_skipped (self, error->message);
      else
        expected = compute_reference (self, graph, operands, get_flags (trial->ir->precision));
      if (expected != NULL)
        g_hash_table_insert (self->expected, (gpointer) sample, expected);
    }
  return expected;
}

/* The trial for which the variant is best suited; NULL if it supports none. */
static const RlxSample *
find_sample (Verify   *self,
             RlxTrial *best)
{
  const Case *now = self->now;
  const RlxSample *found = NULL;
  RlxFit fit = RLX_FIT_NO;

  for (const RlxSample *sample = now->table->samples; sample->text != NULL; sample++)
    {
      g_auto(RlxTrial) trial = { 0 };
      g_autoptr(GError) error = NULL;

      if (!rlx_trial_init_for_sample (&trial, self->device, &self->only, now->table, sample, NULL, &error))
        {
          handle_error (self, error);
          continue;
        }
      if (trial.key == NULL)
        continue;
      if (trial.verdicts[now->row].fit <= fit)
        {
          set_skipped (self, trial.verdicts[now->row].why);
          continue;
        }
      fit = trial.verdicts[now->row].fit;
      found = sample;
      rlx_trial_clear (best);
      *best = trial;
      trial = (RlxTrial) { 0 };
    }
  return found;
}

static void
run_sample (Verify *self)
{
  const Case *now = self->now;
  g_auto(RlxTrial) trial = { 0 };
  const RlxSample *sample = find_sample (self, &trial);
  g_auto(GVariantDict) dict = G_VARIANT_DICT_INIT (NULL);
  g_autoptr(GError) error = NULL;
  RlxExecutable *executable;
  GPtrArray *expected;

  if (sample == NULL)
    return;
  g_variant_dict_insert (&dict, "call", "s", trial.key);
  tell ("call", &dict);
  if (!rlx_trial_run (&trial, 1u << now->row, NULL, &error))
    {
      handle_error (self, error);
      return;
    }
  executable = trial.executables[now->row];
  if (executable == NULL)
    {
      /* The trial does not tell why. */
      g_autoptr(RlxExecutable) other = rlx_device_compile_ir (self->device, trial.ir, &self->only, NULL, &error);

      if (other == NULL)
        handle_error (self, error);
      else
        set_skipped (self, "another kernel was chosen for its example");
      return;
    }
  expected = get_expected (self, sample, &trial);
  if (expected == NULL)
    return;
  self->n_calls++;
  if (check_executable (self, executable, NULL, trial.inputs, expected, NULL, trial.ir->precision))
    keep_largest (self, executable, trial.inputs, trial.key);
}

/* ---- cases -------------------------------------------------------------------------------- */

static void
tell_result (Verify *self)
{
  g_auto(GVariantDict) dict = G_VARIANT_DICT_INIT (NULL);
  double time = 0.0;

  if (self->largest != NULL)
    {
      time = measure (self, self->largest, self->largest_feeds);
      g_variant_dict_insert (&dict, "timed", "s", self->largest_text);
    }
  g_variant_dict_insert (&dict, "calls", "u", self->n_calls);
  if (time > 0.0)
    {
      g_variant_dict_insert (&dict, "time", "d", time);
      g_variant_dict_insert (&dict, "flops", "d", count_work (self->largest, NULL) / time);
    }
  if (self->n_calls == 0)
    g_variant_dict_insert (&dict, "skipped", "s", self->skipped != NULL ? self->skipped : "nothing that is drawn is computed by it");
  /* A driver may crash while it frees these, which is a failure of this case. */
  g_clear_object (&self->largest);
  g_clear_pointer (&self->largest_feeds, g_ptr_array_unref);
  g_clear_pointer (&self->largest_text, g_free);
  tell ("result", &dict);
}

static void
run_case (Verify     *self,
          const Case *now,
          guint       number)
{
  g_auto(GVariantDict) dict = G_VARIANT_DICT_INIT (NULL);

  g_variant_dict_insert (&dict, "case", "u", number);
  if (now->op != NULL)
    g_variant_dict_insert (&dict, "operator", "s", now->op->name);
  self->only = self->target;
  if (now->table != NULL)
    {
      g_variant_dict_insert (&dict, "family", "s", now->table->name);
      g_variant_dict_insert (&dict, "variant", "s", now->table->variants[now->row].name);
      self->only.speeds.banned[now->table->family] = ~(1u << now->row);
    }
  tell ("case", &dict);

  self->now = now;
  self->n_calls = self->n_failures = 0;
  if (now->op != NULL)
    run_op (self);
  else
    run_sample (self);
  tell_result (self);
  g_clear_pointer (&self->skipped, g_free);
}

static void
add_cases (GArray            *cases,
           const RlxOp       *op,
           const RlxVariants *table)
{
  for (guint row = 0; row < (table != NULL ? table->n_variants : 1); row++)
    g_array_append_val (cases, ((Case) { op, table, row }));
}

/* Cases without a choice of variants come first, then the families in order, so that the building blocks of a family are
 * verified before it, and it is not blamed for their faults. */
static GArray *
list_cases (char **names)
{
  GArray *cases = g_array_new (FALSE, FALSE, sizeof (Case));
  gboolean any[RLX_N_FAMILIES] = { FALSE };

  for (int family = -1; family < RLX_N_FAMILIES; family++)
    {
      const RlxVariants *table = family < 0 ? NULL : rlx_variants_get ((RlxFamily) family);

      for (guint i = 0; i < rlx_n_ops; i++)
        {
          const RlxOp *op = rlx_op_table[i];

          if (op->variants != table || find_generator (op) == NULL || !rlx_reference_has_op (op->name) ||
              (names != NULL && !g_strv_contains ((const char *const *) names, op->name)))
            continue;
          add_cases (cases, op, table);
          if (family >= 0)
            any[family] = TRUE;
        }
    }
  for (RlxFamily i = 0; i < RLX_N_FAMILIES; i++)
    if (any[i])
      add_cases (cases, NULL, rlx_variants_get (i));
  return cases;
}

/* Adds a ban of FAMILY/VARIANT, given by the parent process. */
static void
add_ban (RlxSpeeds  *speeds,
         const char *name)
{
  for (RlxFamily i = 0; i < RLX_N_FAMILIES; i++)
    for (guint j = 0; j < rlx_variants_get (i)->n_variants; j++)
      {
        g_autofree char *full = g_strdup_printf ("%s/%s", rlx_variants_get (i)->name, rlx_variants_get (i)->variants[j].name);

        if (g_str_equal (full, name))
          speeds->banned[i] |= 1u << j;
      }
}

static gboolean
open_device (Verify  *self,
             GError **error)
{
  gboolean has_matrix;

  self->device = rlx_device_get_default (error);
  if (self->device == NULL)
    return FALSE;
  self->target = rlx_device_get_target (self->device);
  if (!rlx_device_find_matrix (self->device, &self->target.matrices[0], &has_matrix, NULL, error))
    return FALSE;
  self->target.n_matrices = has_matrix ? 1 : 0;
  return TRUE;
}

int
main (int   argc,
      char *argv[])
{
  int from = 0;
  Verify self = { 0 };
  g_auto(GStrv) banned = NULL, names = NULL;
  const GOptionEntry entries[] = {
    { "quick", 0, 0, G_OPTION_ARG_NONE, &self.quick, "A quarter of the calls, and one data type of each operator", NULL },
    { "from", 0, 0, G_OPTION_ARG_INT, &from, "The first case", "CASE" },
    { "banned", 0, 0, G_OPTION_ARG_STRING_ARRAY, &banned, "Known to be wrong, so not to be used by others", "FAMILY/VARIANT" },
    { G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_STRING_ARRAY, &names, NULL, NULL },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GOptionContext) context = g_option_context_new ("[OPERATOR…]");
  g_autoptr(GError) error = NULL;
  g_autoptr(GArray) cases = NULL;
  g_auto(GVariantDict) begin = G_VARIANT_DICT_INIT (NULL), end = G_VARIANT_DICT_INIT (NULL);

  /* The parent process is interrupted as well, and ends this one. */
  signal (SIGINT, SIG_IGN);
  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error) || !open_device (&self, &error))
    {
      g_printerr ("%s: %s\n", g_get_prgname (), error->message);
      return EXIT_FAILURE;
    }
  for (char **name = banned; name != NULL && *name != NULL; name++)
    add_ban (&self.target.speeds, *name);
  self.expected = g_hash_table_new_full (NULL, NULL, NULL, (GDestroyNotify) g_ptr_array_unref);
  cases = list_cases (names);
  g_variant_dict_insert (&begin, "n_cases", "u", cases->len);
  g_variant_dict_insert (&begin, "clock", "s", has_clock (&self) ? "device" : "host");
  tell ("begin", &begin);
  for (guint i = (guint) MAX (from, 0); i < cases->len; i++)
    run_case (&self, &g_array_index (cases, Case, i), i);
  tell ("end", &end);
  g_hash_table_unref (self.expected);
  return EXIT_SUCCESS;
}
