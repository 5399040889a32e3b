/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Tables of variants: the chooser, and every row of every table. Each operator that
 * names a table is computed by each of its rows, the others being banned, and compared
 * with the reference.
 */
#include "config.h"

#include <string.h>

#include "ops/rlx-variant-private.h"
#include "plan/rlx-plan-private.h"
#include "rlx-device-private.h"
#include "rlx-graph-private.h"
#include "rlx-prop-calls.h"
#include "util/rlx-debug-private.h"

/* ---- the chooser --------------------------------------------------------------------- */

/* The answers of each row of a table of three. */
typedef struct
{
  RlxFit fits[3];
  double costs[3];
} Answers;

static guint
get_row (const RlxVariant *self)
{
  return (guint) (self->name[0] - 'a');
}

static RlxFit
answer_fits (const RlxVariant *self,
             const RlxTarget  *target G_GNUC_UNUSED,
             gconstpointer     problem,
             const char      **why)
{
  *why = "so it is";
  return ((const Answers *) problem)->fits[get_row (self)];
}

static double
answer_cost (const RlxVariant *self,
             const RlxTarget  *target G_GNUC_UNUSED,
             gconstpointer     problem)
{
  return ((const Answers *) problem)->costs[get_row (self)];
}

static RlxWeightLayout
answer_layout (const RlxVariant *self,
               const RlxTarget  *target G_GNUC_UNUSED,
               gconstpointer     problem G_GNUC_UNUSED)
{
  return rlx_weight_in_panels (8 * get_row (self));
}

static void
test_pick (void)
{
  static const RlxVariant rows[] = {
    { .name = "a", .fits = answer_fits, .cost = answer_cost },
    { .name = "b", .fits = answer_fits, .cost = answer_cost, .layout = answer_layout },
    { .name = "c", .fits = answer_fits, .cost = answer_cost, .layout = answer_layout },
  };
  static const RlxVariants table = { .family = RLX_FAMILY_CONV, .variants = rows, .n_variants = 3 };
  static const struct
  {
    Answers answers;
    guint32 banned;
    int expected;
  } cases[] = {
    /* the cheapest, and the first among equals */
    { { { RLX_FIT_WELL, RLX_FIT_WELL, RLX_FIT_WELL }, { 3, 1, 2 } }, 0, 1 },
    { { { RLX_FIT_WELL, RLX_FIT_WELL, RLX_FIT_WELL }, { 2, 1, 1 } }, 0, 1 },
    { { { RLX_FIT_WELL, RLX_FIT_WELL, RLX_FIT_WELL }, { 1, 0.99, 0.98 } }, 0, 0 },
    /* well before poorly, however cheap; poorly before nothing */
    { { { RLX_FIT_POORLY, RLX_FIT_WELL, RLX_FIT_WELL }, { 1, 9, 8 } }, 0, 2 },
    { { { RLX_FIT_POORLY, RLX_FIT_NO, RLX_FIT_POORLY }, { 2, 0, 1 } }, 0, 2 },
    /* not a banned one, unless there is no other: then the last */
    { { { RLX_FIT_WELL, RLX_FIT_WELL, RLX_FIT_WELL }, { 1, 2, 3 } }, 1, 1 },
    { { { RLX_FIT_WELL, RLX_FIT_POORLY, RLX_FIT_NO }, { 1, 2, 3 } }, 1, 1 },
    { { { RLX_FIT_WELL, RLX_FIT_POORLY, RLX_FIT_NO }, { 1, 2, 3 } }, 7, 1 },
    { { { RLX_FIT_NO, RLX_FIT_NO, RLX_FIT_NO }, { 0, 0, 0 } }, 0, -1 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      RlxTarget target = *rlx_target_lookup ("minimum");
      RlxVerdict verdicts[3];

      target.speeds.banned[RLX_FAMILY_CONV] = cases[i].banned;
      g_assert_cmpint (rlx_variants_pick (&table, &target, &cases[i].answers, -1, verdicts), ==, cases[i].expected);
      g_assert_cmpint (rlx_variants_pick (&table, &target, &cases[i].answers, -1, NULL), ==, cases[i].expected);
      for (guint j = 0; j < 3; j++)
        {
          g_assert_cmpint (verdicts[j].fit, ==, cases[i].answers.fits[j]);
          g_assert_cmpint (verdicts[j].banned, ==, cases[i].banned >> j & 1);
          /* the layout of the weight is known for all that fit, and for no others */
          g_assert_cmpuint (verdicts[j].layout.width, ==, verdicts[j].fit != RLX_FIT_NO ? 8 * j : 0);
          g_assert_cmpint (verdicts[j].layout.order, ==, verdicts[j].layout.width > 0 ? RLX_WEIGHT_IN_PANELS : RLX_WEIGHT_AS_GIVEN);
        }
    }
}

/* ---- every row ------------------------------------------------------------------------- */

typedef struct
{
  const RlxOp *op;
  guint row;
} Case;

/* Whether one of the steps is computed by the row. */
static gboolean
is_used (const RlxPlan     *plan,
         const RlxVariants *table,
         guint              row)
{
  for (guint i = 0; i < plan->steps->len; i++)
    {
      const RlxStep *step = g_ptr_array_index (plan->steps, i);
      const RlxChoice *choice;

      for (guint at = step->choice; at > 0; at = choice->parent)
        {
          choice = g_ptr_array_index (plan->choices, at - 1);
          if (choice->table == table && choice->row == (int) row)
            return TRUE;
        }
    }
  return FALSE;
}

/* The index of the device, among those of the tests, that this one poses as. */
static guint
get_place (void)
{
  const char *target = rlx_debug_get_target ();

  return target == NULL ? 0 : g_str_equal (target, "navi31") ? 1 : 2;
}

static void
run_call (RlxDevice       *device,
          const Build     *build,
          const RlxTarget *only)
{
  RlxTensor **feeds = (RlxTensor **) build->feeds->pdata;
  g_autoptr (RlxExecutable) executable = NULL;
  g_autoptr (GPtrArray) expected = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree RlxTensor **outputs = NULL;
  gsize n;

  executable = rlx_device_compile_for_target (device, build->graph, only, NULL, &error);
  g_assert_no_error (error);
  expected = rlx_reference_run (build->graph, feeds, build->feeds->len, NULL, NULL, 0, RLX_REFERENCE_NONE, &error);
  g_assert_no_error (error);
  outputs = rlx_executable_run (executable, feeds, build->feeds->len, &n, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (n, ==, expected->len);
  for (gsize i = 0; i < n; i++)
    {
      RlxReferenceCheck check;

      if (!rlx_reference_value_check (g_ptr_array_index (expected, i), outputs[i], &check))
        {
          g_test_message ("%s: element %" G_GSIZE_FORMAT ": expected %.9g, got %.9g (bound %.3g)",
                          (char *) g_ptr_array_index (build->texts, i), check.first_wrong, check.expected, check.got, check.bound);
          g_test_fail ();
        }
      g_object_unref (outputs[i]);
    }
}

/* Computes every @step-th call, from @first on, of the property test's calls that the row supports: others would be
 * computed by another row, which has a test of its own. Returns the total number of supported calls. */
static guint
run_calls (const Case *self,
           guint       first,
           guint       step)
{
  const RlxOp *op = self->op;
  RlxDevice *device = rlx_test_device ();
  RlxDataType data_type = RLX_DATA_TYPE_F32;
  g_autoptr (GRand) rand = g_rand_new_with_seed (prop_seed (op->name));
  RlxTarget only = rlx_device_get_target (device);
  gboolean more = TRUE;
  guint n_used = 0;

  only.n_matrices = 0;
  only.speeds.banned[op->variants->family] = ~(1u << self->row);
  while (!(get_types (op) >> data_type & 1))
    data_type++;
  for (guint variant = 0; more; variant++)
    {
      g_autoptr (RlxGraph) graph = rlx_graph_new ();
      g_autoptr (GPtrArray) feeds = g_ptr_array_new_with_free_func (g_object_unref);
      g_autoptr (GPtrArray) texts = g_ptr_array_new_with_free_func (g_free);
      g_autoptr (RlxIr) ir = NULL;
      g_autoptr (RlxPlan) plan = NULL;
      g_autoptr (GError) error = NULL;
      Build build = { .graph = graph, .feeds = feeds, .texts = texts };

      more = add_next_call (&build, op, find_generator (op), data_type, variant, rand);
      if (texts->len == 0)
        continue;
      ir = rlx_graph_copy_ir (graph, &error);
      g_assert_no_error (error);
      plan = rlx_plan_make (ir, &only, NULL, &error);
      g_assert_no_error (error);
      if (is_used (plan, op->variants, self->row) && n_used++ % step == first)
        run_call (device, &build, &only);
    }
  return n_used;
}

/* Every other call is computed on a CPU and on one GPU, and those in between on the other GPU; a single one is computed
 * on all. */
static void
test_row (gconstpointer data)
{
  guint first = g_test_slow () ? 0 : get_place () / 2, n_used;

  if (rlx_test_device () == NULL)
    return;
  n_used = run_calls (data, first, g_test_slow () ? 1 : 2);
  if (n_used == 0)
    g_test_skip ("it fits none of the calls on this device");
  else if (n_used == first)
    run_calls (data, 0, 1);
}

/* Operators that share a table mostly share the kernels, too: of many, a third takes each row in turn, another
 * third on each device that this one poses as. */
static gboolean
takes_row (const RlxOp *op,
           guint        row)
{
  guint n_ops = 0, place = get_place ();

  for (guint i = 0; i < rlx_n_ops; i++)
    if (rlx_op_table[i]->variants == op->variants)
      {
        if (rlx_op_table[i] == op)
          place += n_ops;
        n_ops++;
      }
  return n_ops < 3 || (place + row) % 3 == 0;
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/variants/pick", test_pick);
  for (guint i = 0; i < rlx_n_ops; i++)
    {
      const RlxOp *op = rlx_op_table[i];

      for (guint row = 0; op->variants != NULL && row < op->variants->n_variants; row++)
        {
          g_autofree char *path = g_strdup_printf ("/variants/%s/%s", op->name, op->variants->variants[row].name);
          Case *one;

          if (!g_test_slow () && !takes_row (op, row))
            continue;
          one = g_new (Case, 1);
          *one = (Case) { op, row };
          g_test_add_data_func_full (path, one, test_row, g_free);
        }
    }
  return g_test_run ();
}
