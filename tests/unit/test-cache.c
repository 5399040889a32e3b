/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Caches that grow from run to run, and what goes into them: how many dispatches it
 * takes, whether a cache is copied, and that results and caches are those of the
 * reference after each of several runs.
 */
#include "config.h"

#include "rlx-reference.h"
#include "rlx-test-util.h"

#include <string.h>

#include "plan/rlx-plan-private.h"
#include "rlx-device-private.h"

/* One node per line. `cache "name" type` is a state of zeros, and `keep` assigns to one;
 * for the reference a cache is an input, and a kept value an output. Inputs get random
 * numbers, but an input named "at" gets positions, which advance with each run. */
typedef struct
{
  const char *name;
  const char *graph;
  guint dispatches;
  guint few_bindings;      /* dispatches if there are only eight storage bindings */
  guint copies;            /* of states, at the end of a run */
  guint once;              /* dispatches before the first run */
} Case;

static const int positions[] = { 0, 3, -1, 100, 2 };

static const Case cases[] = {
  { "rows",
    "%0 = cache \"c\" f32[2, 7, 3]\n"
    "%1 = input \"x\" f32[2, 2, 3]\n"
    "%2 = input \"at\" i32[]\n"
    "%3 = write_at(%0, %1, %2) {axis = 1}\n"
    "keep %0 %3\n"
    "output \"y\" %3\n", 2, 2, 0, 0 },
  { "bytes",
    "%0 = cache \"c\" u8[3, 7, 3]\n"
    "%1 = input \"x\" u8[3, 2, 3]\n"
    "%2 = input \"at\" i32[1]\n"
    "%3 = write_at(%0, %1, %2) {axis = -2}\n"
    "%4 = cast(%3) {to = f32}\n"
    "keep %0 %3\n"
    "output \"y\" %4\n", 2, 2, 0, 0 },
  { "first-axis",
    "%0 = cache \"c\" f16[7, 3]\n"
    "%1 = input \"x\" f16[3, 3]\n"
    "%2 = input \"at\" i32[]\n"
    "%3 = write_at(%0, %1, %2)\n"
    "%4 = neg(%3)\n"
    "keep %0 %3\n"
    "output \"y\" %4\n", 2, 2, 0, 0 },
  { "nothing",
    "%0 = cache \"c\" f32[7, 3]\n"
    "%1 = input \"x\" f32[0, 3]\n"
    "%2 = input \"at\" i32[]\n"
    "%3 = write_at(%0, %1, %2)\n"
    "%4 = neg(%3)\n"
    "keep %0 %3\n"
    "output \"y\" %4\n", 1, 1, 0, 0 },
  /* Keys and values of a layer. */
  { "two",
    "%0 = cache \"k\" f32[2, 7, 3]\n"
    "%1 = cache \"v\" f16[7, 5]\n"
    "%2 = input \"x\" f32[2, 2, 3]\n"
    "%3 = input \"z\" f16[1, 5]\n"
    "%4 = input \"at\" i32[]\n"
    "%5 = write_at(%0, %2, %4) {axis = 1}\n"
    "%6 = write_at(%1, %3, %4) {axis = 0}\n"
    "%7 = exp(%5)\n"
    "%8 = exp(%6)\n"
    "keep %0 %5\n"
    "keep %1 %6\n"
    "output \"y\" %7\n"
    "output \"z\" %8\n", 3, 3, 0, 0 },
  { "two-places",
    "%0 = cache \"k\" f32[7, 3]\n"
    "%1 = cache \"v\" f32[7, 3]\n"
    "%2 = input \"x\" f32[2, 3]\n"
    "%3 = input \"at\" i32[]\n"
    "%4 = neg(%3)\n"
    "%5 = write_at(%0, %2, %3)\n"
    "%6 = write_at(%1, %2, %4)\n"
    "keep %0 %5\n"
    "keep %1 %6\n", 3, 3, 0, 0 },
  { "rotated",
    "%0 = cache \"c\" f32[2, 3, 9, 8]\n"
    "%1 = input \"x\" f32[2, 3, 2, 8]\n"
    "%2 = input \"at\" i32[]\n"
    "%3 = input \"p\" i32[2, 2]\n"
    "%4 = rope(%1, %3)\n"
    "%5 = write_at(%0, %4, %2) {axis = 2}\n"
    "keep %0 %5\n", 1, 1, 0, 0 },
  { "rotated-f16-and-neighbours",
    "%0 = cache \"c\" f16[2, 9, 3, 7]\n"
    "%1 = input \"x\" f16[2, 2, 3, 7]\n"
    "%2 = input \"at\" i32[]\n"
    "%3 = rope(%1) {layout = sequence-first, interleaved = true, rotated = 4, base = 500, scale = 0.5}\n"
    "%4 = write_at(%0, %3, %2) {axis = 1}\n"
    "keep %0 %4\n", 1, 1, 0, 0 },
  { "rotated-by-tables",
    "%0 = cache \"c\" f32[2, 9, 1, 6]\n"
    "%1 = input \"x\" f32[2, 2, 1, 6]\n"
    "%2 = input \"at\" i32[]\n"
    "%3 = input \"cos\" f32[2, 2, 6]\n"
    "%4 = input \"sin\" f32[2, 2, 6]\n"
    "%5 = rope(%1, _, %3, %4) {layout = sequence-first}\n"
    "%6 = write_at(%0, %5, %2) {axis = -3}\n"
    "keep %0 %6\n", 1, 1, 0, 0 },
  { "rotated-in-a-plane",
    "%0 = cache \"c\" f32[1, 2, 9, 8]\n"
    "%1 = input \"x\" f32[1, 2, 3, 8]\n"
    "%2 = input \"at\" i32[]\n"
    "%3 = rope_2d(%1) {columns = 2}\n"
    "%4 = write_at(%0, %3, %2) {axis = 2}\n"
    "keep %0 %4\n", 1, 1, 0, 0 },
  /* Growing along other axes: batches, heads and columns. */
  { "rotated-batches",
    "%0 = cache \"c\" f32[5, 3, 2, 4]\n"
    "%1 = input \"x\" f32[2, 3, 2, 4]\n"
    "%2 = input \"at\" i32[]\n"
    "%3 = rope(%1)\n"
    "%4 = write_at(%0, %3, %2) {axis = 0}\n"
    "keep %0 %4\n", 1, 1, 0, 0 },
  { "rotated-columns",
    "%0 = cache \"c\" f32[2, 3, 2, 9]\n"
    "%1 = input \"x\" f32[2, 3, 2, 4]\n"
    "%2 = input \"at\" i32[]\n"
    "%3 = rope(%1)\n"
    "%4 = write_at(%0, %3, %2) {axis = 3}\n"
    "keep %0 %4\n", 1, 1, 0, 0 },
  /* A step of a decoder in its best form. Where bindings are few, values take a dispatch of
   * their own. */
  { "decoder",
    "%0 = cache \"k\" f32[1, 9, 2, 8]\n"
    "%1 = cache \"v\" f32[1, 9, 2, 8]\n"
    "%2 = input \"q\" f32[1, 2, 4, 8]\n"
    "%3 = input \"new k\" f32[1, 2, 2, 8]\n"
    "%4 = input \"new v\" f32[1, 2, 2, 8]\n"
    "%5 = input \"at\" i32[]\n"
    "%6 = input \"p\" i32[2]\n"
    "%7 = rope(%2, %6) {layout = sequence-first}\n"
    "%8 = rope(%3, %6) {layout = sequence-first}\n"
    "%9 = write_at(%0, %8, %5) {axis = 1}\n"
    "%10 = write_at(%1, %4, %5) {axis = 1}\n"
    "%11 = attention(%7, %9, %10) {layout = sequence-first, causal = true}\n"
    "keep %0 %9\n"
    "keep %1 %10\n"
    "output \"y\" %11\n", 2, 3, 0, 0 },
  /* As in files: heads are moved to the front before anything else, and back at the end. */
  { "decoder-with-transposes",
    "%0 = cache \"k\" f32[1, 2, 9, 8]\n"
    "%1 = cache \"v\" f32[1, 2, 9, 8]\n"
    "%2 = input \"q\" f32[1, 2, 4, 8]\n"
    "%3 = input \"new k\" f32[1, 2, 2, 8]\n"
    "%4 = input \"new v\" f32[1, 3, 2, 8]\n"
    "%5 = input \"at\" i32[]\n"
    "%6 = input \"p\" i32[2]\n"
    "%7 = transpose(%2) {permutation = [0, 2, 1, 3]}\n"
    "%8 = transpose(%3) {permutation = [0, 2, 1, 3]}\n"
    "%9 = transpose(%4) {permutation = [0, 2, 1, 3]}\n"
    "%10 = rope(%7, %6)\n"
    "%11 = rope(%8, %6)\n"
    "%12 = write_at(%0, %11, %5) {axis = 2}\n"
    "%13 = write_at(%1, %9, %5) {axis = -2}\n"
    "%14 = attention(%10, %12, %13) {causal = true}\n"
    "%15 = transpose(%14) {permutation = [0, 2, 1, 3]}\n"
    "keep %0 %12\n"
    "keep %1 %13\n"
    "output \"y\" %15\n", 2, 3, 0, 0 },
  { "transpose-before-the-cache",
    "%0 = cache \"k\" f32[2, 3, 9, 8]\n"
    "%1 = input \"new k\" f32[2, 2, 3, 8]\n"
    "%2 = input \"at\" i32[]\n"
    "%3 = rope(%1) {layout = sequence-first, rotated = 6}\n"
    "%4 = transpose(%3) {permutation = [0, -2, 1, -1]}\n"
    "%5 = write_at(%0, %4, %2) {axis = 2}\n"
    "keep %0 %5\n", 1, 1, 0, 0 },
  { "two-transposes",
    "%0 = cache \"k\" f32[2, 9, 3, 8]\n"
    "%1 = input \"new k\" f32[2, 2, 3, 8]\n"
    "%2 = input \"at\" i32[]\n"
    "%3 = transpose(%1) {permutation = [0, 2, 1, 3]}\n"
    "%4 = rope(%3)\n"
    "%5 = transpose(%4) {permutation = [0, 2, 1, 3]}\n"
    "%6 = write_at(%0, %5, %2) {axis = 1}\n"
    "keep %0 %6\n", 1, 1, 0, 0 },
  /* Different numbers of heads and widths, a single rotation. */
  { "heads-differ",
    "%0 = input \"q\" f32[2, 4, 3, 10]\n"
    "%1 = input \"new k\" f32[2, 1, 3, 8]\n"
    "%2 = input \"p\" i32[3]\n"
    "%3 = rope(%0, %2) {rotated = 8}\n"
    "%4 = rope(%1, %2)\n"
    "output \"q\" %3\n"
    "output \"k\" %4\n", 1, 1, 0, 0 },
  { "not-the-same-angles",
    "%0 = input \"q\" f32[2, 4, 3, 8]\n"
    "%1 = input \"new k\" f32[2, 1, 3, 8]\n"
    "%2 = input \"p\" i32[3]\n"
    "%3 = rope(%0, %2) {base = 100}\n"
    "%4 = rope(%1, %2)\n"
    "%5 = rope(%1, %2) {interleaved = true}\n"
    "output \"q\" %3\n"
    "output \"k\" %4\n"
    "output \"l\" %5\n", 3, 3, 0, 0 },
  { "not-with-what-is-computed-once",
    "%0 = input \"q\" f32[1, 1, 3, 4]\n"
    "%1 = constant f32[1, 1, 3, 4] [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]\n"
    "%2 = rope(%0)\n"
    "%3 = rope(%1)\n"
    "%4 = add(%2, %3)\n"
    "output \"y\" %4\n", 2, 2, 0, 1 },
  { "not-one-after-the-other",
    "%0 = input \"q\" f32[1, 1, 3, 8]\n"
    "%1 = rope(%0)\n"
    "%2 = rope(%1)\n"
    "%3 = exp(%2)\n"
    "%4 = rope(%3)\n"
    "output \"y\" %4\n", 4, 4, 0, 0 },
  { "not-if-the-rotated-is-needed",
    "%0 = cache \"c\" f32[2, 3, 9, 8]\n"
    "%1 = input \"x\" f32[2, 3, 2, 8]\n"
    "%2 = input \"at\" i32[]\n"
    "%3 = rope(%1)\n"
    "%4 = write_at(%0, %3, %2) {axis = 2}\n"
    "keep %0 %4\n"
    "output \"y\" %3\n", 2, 2, 0, 0 },
  /* The old state is used later on, through a view. */
  { "not-if-the-state-is-needed",
    "%0 = cache \"c\" f32[2, 3, 4, 8]\n"
    "%1 = input \"x\" f32[2, 3, 2, 8]\n"
    "%2 = input \"at\" i32[]\n"
    "%3 = reshape(%0) {shape = [24, 8]}\n"
    "%4 = rope(%1)\n"
    "%5 = write_at(%0, %4, %2) {axis = 2}\n"
    "%6 = reshape(%5) {shape = [24, 8]}\n"
    "%7 = sub(%6, %3)\n"
    "keep %0 %5\n"
    "output \"y\" %7\n", 3, 3, 1, 0 },
  { "not-if-another-state-takes-it",
    "%0 = cache \"c\" f32[4, 3]\n"
    "%1 = cache \"d\" f32[4, 3]\n"
    "%2 = input \"x\" f32[2, 3]\n"
    "%3 = input \"at\" i32[]\n"
    "%4 = write_at(%0, %2, %3)\n"
    "keep %1 %4\n"
    "keep %0 %1\n", 2, 2, 2, 0 },
  /* Another state also takes the written value. */
  { "for-two-states",
    "%0 = cache \"c\" f32[4, 3]\n"
    "%1 = cache \"d\" f32[4, 3]\n"
    "%2 = input \"x\" f32[2, 3]\n"
    "%3 = input \"at\" i32[]\n"
    "%4 = write_at(%0, %2, %3)\n"
    "keep %0 %4\n"
    "keep %1 %4\n", 2, 2, 1, 0 },
  { "not-a-state",
    "%0 = input \"c\" f32[2, 3, 9, 8]\n"
    "%1 = input \"x\" f32[2, 3, 2, 8]\n"
    "%2 = input \"at\" i32[]\n"
    "%3 = rope(%1)\n"
    "%4 = write_at(%0, %3, %2) {axis = 2}\n"
    "output \"y\" %4\n", 2, 2, 0, 0 },
  /* The position is a state too, which the step reads while it writes another. */
  { "a-place-that-counts",
    "%0 = cache \"n\" i32[]\n"
    "%1 = cache \"c\" f32[1, 3, 9, 8]\n"
    "%2 = input \"x\" f32[1, 3, 2, 8]\n"
    "%3 = constant i32[] [2]\n"
    "%4 = add(%0, %3)\n"
    "%5 = rope(%2, %0)\n"
    "%6 = write_at(%1, %5, %0) {axis = 2}\n"
    "keep %0 %4\n"
    "keep %1 %6\n"
    "output \"y\" %6\n", 3, 3, 1, 0 },
  /* Values depend on what the rotated keys are needed for. */
  { "not-in-another-order",
    "%0 = cache \"k\" f32[1, 1, 9, 8]\n"
    "%1 = cache \"v\" f32[1, 1, 9, 8]\n"
    "%2 = input \"new k\" f32[1, 1, 2, 8]\n"
    "%3 = input \"at\" i32[]\n"
    "%4 = rope(%2)\n"
    "%5 = write_at(%0, %4, %3) {axis = 2}\n"
    "%6 = slice(%5) {starts = [3], ends = [5], axes = [2]}\n"
    "%7 = write_at(%1, %6, %3) {axis = 2}\n"
    "keep %0 %5\n"
    "keep %1 %7\n", 3, 3, 0, 0 },
};

static gboolean
has_setting (const char *name)
{
  const char *debug = g_getenv ("RLX_DEBUG");
  g_auto (GStrv) words = g_strsplit (debug != NULL ? debug : "", ",", -1);

  return g_strv_contains ((const char *const *) words, name);
}

/* The graph of a case, either with states or in the form for the reference. */
static RlxGraph *
read_graph (const Case *test,
            gboolean    states)
{
  g_auto (GStrv) lines = g_strsplit (test->graph, "\n", -1);
  g_autoptr (GString) text = g_string_new ("rlx 1\n");
  g_autoptr (GError) error = NULL;
  RlxGraph *graph;

  for (guint i = 0; lines[i] != NULL; i++)
    {
      const char *cache = strstr (lines[i], "= cache ");

      if (cache != NULL)
        {
          const char *type = strrchr (lines[i], '"') + 1;
          RlxDataType data_type;
          gint64 shape[RLX_MAX_DIMS], n = 1;
          gsize n_dims;
          g_autoptr (GString) compact = g_string_new (type);
          const char *rest;

          g_string_replace (compact, " ", "", 0);
          rest = compact->str;
          g_assert_true (rlx_test_next_type (&rest, &data_type, shape, &n_dims));
          for (gsize d = 0; d < n_dims; d++)
            n *= shape[d];
          g_string_append_len (text, lines[i], cache - lines[i]);
          g_string_append_printf (text, "= %s %s", states ? "state" : "input", cache + strlen ("= cache "));
          for (gint64 j = 0; states && j < n; j++)
            g_string_append (text, j == 0 ? " [0" : ", 0");
          g_string_append (text, states ? "]\n" : "\n");
        }
      else if (g_str_has_prefix (lines[i], "keep "))
        {
          if (states)
            g_string_append_printf (text, "assign %s\n", lines[i] + strlen ("keep "));
          else
            g_string_append_printf (text, "output \"kept %u\" %s\n", i, strrchr (lines[i], ' ') + 1);
        }
      else
        g_string_append_printf (text, "%s\n", lines[i]);
    }
  graph = rlx_graph_new_from_text (text->str, &error);
  g_assert_no_error (error);
  return graph;
}

static RlxTensor *
make_input (RlxNode *node,
            guint    run,
            guint    seed)
{
  const char *data_type = rlx_data_type_to_string (rlx_node_get_data_type (node));
  g_autoptr (GString) type = g_string_new (data_type);
  const gint64 *shape;
  gsize n_dims;

  shape = rlx_node_get_shape (node, &n_dims);
  g_string_append_c (type, '[');
  for (gsize i = 0; i < n_dims; i++)
    g_string_append_printf (type, "%s%" G_GINT64_FORMAT, i > 0 ? "," : "", shape[i]);
  g_string_append_c (type, ']');
  if (g_str_equal (rlx_node_get_name (node), "at"))
    return rlx_test_tensor (type->str, (double[]) { positions[run] });
  if (g_str_equal (data_type, "u8"))
    return rlx_test_random (type->str, 0, 255, seed);
  if (g_str_equal (data_type, "i32"))
    return rlx_test_random (type->str, 0, 1000, seed);
  return rlx_test_random (type->str, -2, 2, seed);
}

static void
check (const Case              *test,
       guint                    run,
       const char              *what,
       const RlxReferenceValue *expected,
       RlxTensor               *got)
{
  RlxReferenceCheck result;

  if (rlx_reference_value_check (expected, got, &result))
    return;
  g_test_message ("run %u, %s: element %" G_GSIZE_FORMAT " is %.9g instead of %.9g (bound %.3g)", run, what,
                  result.first_wrong, result.got, result.expected, result.bound);
  g_test_fail ();
}

/* A run of both, starting with the states of the device. */
static void
compare_run (const Case    *test,
             guint          run,
             RlxExecutable *executable,
             RlxGraph      *graph,
             RlxGraph      *model)
{
  g_autoptr (GPtrArray) inputs = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (GPtrArray) model_inputs = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (GPtrArray) expected = NULL;
  g_autoptr (GError) error = NULL;
  g_auto (GStrv) names = rlx_graph_dup_input_names (graph);
  g_auto (GStrv) model_names = rlx_graph_dup_input_names (model);
  g_auto (GStrv) lines = g_strsplit (test->graph, "\n", -1);
  g_auto (GStrv) output_names = rlx_graph_dup_output_names (model);
  g_autofree RlxTensor **outputs = NULL;
  gsize n_outputs, next = 0;

  for (guint i = 0; names[i] != NULL; i++)
    g_ptr_array_add (inputs, make_input (rlx_graph_lookup (graph, names[i]), run, run * 100 + i + 1));
  for (guint i = 0, j = 0; model_names[i] != NULL; i++)
    {
      RlxNode *node = rlx_graph_lookup (graph, model_names[i]);

      if (g_str_equal (rlx_node_get_op (node), "state"))
        g_ptr_array_add (model_inputs, rlx_executable_read_state (executable, model_names[i], NULL, &error));
      else
        g_ptr_array_add (model_inputs, g_object_ref (g_ptr_array_index (inputs, j++)));
      g_assert_no_error (error);
    }

  outputs = rlx_executable_run (executable, (RlxTensor **) inputs->pdata, inputs->len, &n_outputs, NULL, &error);
  g_assert_no_error (error);
  expected = rlx_reference_run (model, (RlxTensor **) model_inputs->pdata, model_inputs->len, NULL, NULL, 0, RLX_REFERENCE_NONE, &error);
  g_assert_no_error (error);
  for (guint i = 0; output_names[i] != NULL; i++)
    {
      g_autoptr (RlxTensor) got = NULL;

      if (g_str_has_prefix (output_names[i], "kept "))
        {
          const char *line = lines[g_ascii_strtoull (output_names[i] + strlen ("kept "), NULL, 10)];
          g_auto (GStrv) words = g_strsplit (line, " ", -1);
          g_autofree char *start = g_strconcat (words[1], " = cache \"", NULL);

          for (guint j = 0; got == NULL && lines[j] != NULL; j++)
            if (g_str_has_prefix (lines[j], start))
              {
                g_auto (GStrv) parts = g_strsplit (lines[j], "\"", -1);

                got = rlx_executable_read_state (executable, parts[1], NULL, &error);
                g_assert_no_error (error);
              }
        }
      else
        got = outputs[next++];
      check (test, run, output_names[i], g_ptr_array_index (expected, i), got);
    }
  g_assert_cmpuint (next, ==, n_outputs);
}

static void
test_case (gconstpointer data)
{
  const Case *test = data;
  g_autoptr (RlxGraph) graph = NULL;
  g_autoptr (RlxGraph) model = NULL;
  g_autoptr (RlxExecutable) executable = NULL;
  g_autoptr (GError) error = NULL;

  if (rlx_test_device () == NULL)
    return;

  graph = read_graph (test, TRUE);
  model = read_graph (test, FALSE);
  executable = rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_true (rlx_plan_verify (rlx_executable_peek_plan (executable), &error));
  g_assert_no_error (error);
  if (!has_setting ("no-fuse") && !has_setting ("no-alias"))
    {
      g_assert_cmpuint (rlx_executable_get_n_dispatches (executable), ==,
                        rlx_test_has_small_bindings () ? test->few_bindings : test->dispatches);
      g_assert_cmpuint (rlx_executable_peek_plan (executable)->copies->len, ==, test->copies);
      g_assert_cmpuint (rlx_executable_peek_plan (executable)->n_prologue, ==, test->once);
    }
  for (guint i = 0; i < G_N_ELEMENTS (positions); i++)
    compare_run (test, i, executable, graph, model);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *path = g_strconcat ("/cache/", cases[i].name, NULL);

      g_test_add_data_func (path, &cases[i], test_case);
    }

  return g_test_run ();
}
