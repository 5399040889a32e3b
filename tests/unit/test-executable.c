/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Executables: calling them rightly and wrongly, with parameters and states, of
 * all sizes.
 */
#include "config.h"

#include <string.h>

#include "rlx-test-executable.h"
#include "util/rlx-debug-private.h"

static void
test_run (void)
{
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) x = NULL, y = NULL;
  const char *const *inputs, *const *outputs;

  if (rlx_test_device () == NULL)
    return;
  executable = small_executable ();
  inputs = rlx_executable_get_input_names (executable);
  outputs = rlx_executable_get_output_names (executable);
  g_assert_cmpstr (inputs[0], ==, "x");
  g_assert_null (inputs[1]);
  g_assert_cmpstr (outputs[0], ==, "y");
  g_assert_true (rlx_executable_get_device (executable) == rlx_test_device ());
  g_assert_cmpuint (rlx_executable_get_n_dispatches (executable), >, 0);
  g_assert_cmpuint (rlx_executable_get_arena_size (executable), >, 0);
  g_assert_cmpuint (rlx_executable_get_weights_size (executable), >=, 24);

  x = floats ("f32[2,3]", (float[]) { 1, 2, 3, -4, -5, -6 });
  y = run_one (executable, x);
  assert_values (y, "[4, 5, 0, 0]");
}

/* A list of results is NULL-terminated, so callers who know their number need not ask for it. */
static void
test_no_count (void)
{
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) x = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(GAsyncResult) result = NULL;
  RlxTensor *wrong = NULL;

  if (rlx_test_device () == NULL)
    return;
  executable = small_executable ();
  x = floats ("f32[2,3]", (float[]) { 1, 2, 3, -4, -5, -6 });
  rlx_executable_run_async (executable, &x, 1, NULL, rlx_test_keep_result, &result);
  while (result == NULL)
    g_main_context_iteration (NULL, TRUE);

  for (guint i = 0; i < 3; i++)
    {
      g_autofree RlxTensor **outputs = NULL;

      if (i == 0)
        outputs = rlx_executable_run (executable, &x, 1, NULL, NULL, &error);
      else if (i == 1)
        outputs = rlx_executable_run_named (executable, (const char *[]) { "x", NULL }, &x, 1, NULL, NULL, &error);
      else
        outputs = rlx_executable_run_finish (executable, result, NULL, &error);
      g_assert_no_error (error);
      assert_values (outputs[0], "[4, 5, 0, 0]");
      g_assert_null (outputs[1]);
      g_object_unref (outputs[0]);
    }

  g_assert_null (rlx_executable_run (executable, &wrong, 1, NULL, NULL, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT);
}

/* The caller owns the description of a run. */
static void
test_plan (void)
{
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(GVariant) plan = NULL, steps = NULL;

  if (rlx_test_device () == NULL)
    return;
  executable = small_executable ();
  plan = rlx_executable_dup_plan (executable);
  g_assert_false (g_variant_is_floating (plan));
  g_assert_true (g_variant_is_of_type (plan, G_VARIANT_TYPE_VARDICT));
  steps = g_variant_lookup_value (plan, "steps", G_VARIANT_TYPE ("aa{sv}"));
  g_assert_cmpuint (g_variant_n_children (steps), >, 0);
  for (gsize i = 0; i < g_variant_n_children (steps); i++)
    {
      g_autoptr(GVariant) step = g_variant_get_child_value (steps, i), parameters = NULL;
      GVariantIter iter;
      const char *name, *wgsl;
      GVariant *value;
      guint size = 0;

      g_assert_true (g_variant_lookup (step, "wgsl", "&s", &wgsl));
      g_assert_true (g_variant_lookup (step, "workgroup-size", "u", &size));
      g_assert_cmpuint (size, >, 0);
      parameters = g_variant_lookup_value (step, "parameters", G_VARIANT_TYPE_VARDICT);
      g_assert_nonnull (parameters);
      g_assert_cmpuint (g_variant_n_children (parameters), >, 0);
      g_variant_iter_init (&iter, parameters);
      while (g_variant_iter_loop (&iter, "{&sv}", &name, &value))
        {
          g_autofree char *field = g_strdup_printf ("  %s: ", name);

          g_assert_nonnull (strstr (wgsl, field));
        }
    }
}

static void
expect_run_error (RlxExecutable *executable,
                  RlxTensor    **inputs,
                  gsize          n_inputs,
                  int            code,
                  const char    *words)
{
  g_autoptr(GError) error = NULL;
  gsize n = 77;
  RlxTensor **outputs = rlx_executable_run (executable, inputs, n_inputs, &n, NULL, &error);

  g_assert_null (outputs);
  g_assert_cmpuint (n, ==, 0);
  g_assert_error (error, RLX_GRAPH_ERROR, code);
  g_assert_nonnull (strstr (error->message, words));
}

static void
test_wrong_inputs (void)
{
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) x = NULL, wide = NULL, half = NULL, y = NULL;
  RlxTensor *two[2];

  if (rlx_test_device () == NULL)
    return;
  executable = small_executable ();
  x = floats ("f32[2,3]", (float[]) { 1, 2, 3, -4, -5, -6 });
  wide = floats ("f32[2,4]", (float[8]) { 0 });
  half = rlx_test_random ("f16[2,3]", 0, 1, 1);

  expect_run_error (executable, NULL, 0, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "1 inputs, 0 were given");
  two[0] = two[1] = x;
  expect_run_error (executable, two, 2, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "1 inputs, 2 were given");
  expect_run_error (executable, &wide, 1, RLX_GRAPH_ERROR_SHAPE, "“x” is f32[2, 4], the graph declares f32[2, 3]");
  expect_run_error (executable, &half, 1, RLX_GRAPH_ERROR_DATA_TYPE, "“x” is f16[2, 3]");
  two[0] = NULL;
  expect_run_error (executable, two, 1, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“x” is not a tensor");

  /* and it still works */
  y = run_one (executable, x);
  assert_values (y, "[4, 5, 0, 0]");
}

static void
expect_named_error (RlxExecutable     *executable,
                    const char *const *names,
                    RlxTensor        **inputs,
                    gsize              n_inputs,
                    int                code,
                    const char        *words)
{
  g_autoptr(GError) error = NULL;
  gsize n;

  g_assert_null (rlx_executable_run_named (executable, names, inputs, n_inputs, &n, NULL, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, code);
  g_assert_nonnull (strstr (error->message, words));
}

static void
test_named (void)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) a = NULL, b = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree RlxTensor **outputs = NULL;
  gsize n;

  if (rlx_test_device () == NULL)
    return;
  rlx_graph_output (graph, "y",
                    rlx_node_sub (rlx_graph_input (graph, "a", RLX_DATA_TYPE_F32, NULL, 0, NULL),
                                  rlx_graph_input (graph, "b", RLX_DATA_TYPE_F32, NULL, 0, NULL), NULL), NULL);
  executable = compile (graph);
  a = floats ("f32[]", (float[]) { 5 });
  b = floats ("f32[]", (float[]) { 3 });

  outputs = rlx_executable_run_named (executable, (const char *[]) { "b", "a", NULL }, (RlxTensor *[]) { b, a }, 2, &n, NULL, &error);
  g_assert_no_error (error);
  assert_values (outputs[0], "2");
  g_object_unref (outputs[0]);

  expect_named_error (executable, (const char *[]) { "a", NULL }, (RlxTensor *[]) { a }, 1, RLX_GRAPH_ERROR_NOT_FOUND, "input “b” was not given");
  expect_named_error (executable, (const char *[]) { "a", "a", NULL }, (RlxTensor *[]) { a, a }, 2, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“a” was given twice");
  expect_named_error (executable, (const char *[]) { "a", "c", NULL }, (RlxTensor *[]) { a, a }, 2, RLX_GRAPH_ERROR_NOT_FOUND, "no input “c”");
  expect_named_error (executable, (const char *[]) { "a", NULL }, (RlxTensor *[]) { a, b }, 2, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "only 1 names");
  expect_named_error (executable, (const char *[]) { "a", "b", NULL }, (RlxTensor *[]) { a }, 1, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "only 1 inputs");
}

static void
test_bad_graphs (void)
{
  g_autoptr(RlxGraph) empty = rlx_graph_new (), broken = rlx_graph_new (), done = rlx_graph_new ();
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(GError) error = NULL;
  RlxNode *x, *y;

  if (rlx_test_device () == NULL)
    return;
  g_assert_null (rlx_device_compile (rlx_test_device (), empty, NULL, NULL, &error));
  g_assert_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_INVALID_GRAPH);
  g_clear_error (&error);

  /* nobody checked the error where it happened */
  x = rlx_graph_input (broken, "x", RLX_DATA_TYPE_F32, (gint64[]) { 2, 3 }, 2, NULL);
  y = rlx_graph_input (broken, "y", RLX_DATA_TYPE_F32, (gint64[]) { 2, 3 }, 2, NULL);
  rlx_graph_output (broken, "z", rlx_node_relu (rlx_node_matmul (x, y, NULL, NULL), NULL), NULL);
  g_assert_null (rlx_device_compile (rlx_test_device (), broken, NULL, NULL, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_SHAPE);
  g_assert_nonnull (strstr (error->message, "matmul"));
  g_clear_error (&error);

  x = rlx_graph_input (done, "x", RLX_DATA_TYPE_F32, (gint64[]) { 2 }, 1, NULL);
  rlx_graph_output (done, "y", x, NULL);
  executable = compile (done);
}

/* Outputs that no kernel computes: inputs, constants, parameters, views, and a node under
 * two names. */
static void
test_direct_outputs (void)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) constant = NULL, value = NULL, input = NULL;
  g_autoptr(GError) error = NULL;
  const gint64 shape[] = { 2, 3 };
  RlxNode *x, *c, *p;
  RlxTensor **outputs;
  gsize n;

  if (rlx_test_device () == NULL)
    return;
  constant = floats ("f32[3]", (float[]) { 7, 8, 9 });
  value = floats ("f32[2]", (float[]) { 5, 6 });
  input = floats ("f32[2,3]", (float[]) { 0, 1, 2, 3, 4, 5 });
  x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, shape, 2, NULL);
  c = rlx_graph_constant (graph, constant, NULL);
  p = rlx_graph_parameter (graph, "p", RLX_DATA_TYPE_F32, (gint64[]) { 2 }, 1, NULL);
  rlx_graph_output (graph, "x", x, NULL);
  rlx_graph_output (graph, "again", x, NULL);
  rlx_graph_output (graph, "c", c, NULL);
  rlx_graph_output (graph, "p", p, NULL);
  rlx_graph_output (graph, "view", rlx_node_reshape (x, (gint64[]) { 3, 2 }, 2, NULL), NULL);
  rlx_graph_output (graph, "transposed", rlx_node_transpose (x, (gint64[]) { 1, 0 }, 2, NULL), NULL);
  executable = compile (graph);

  expect_run_error (executable, &input, 1, RLX_GRAPH_ERROR_NOT_FOUND, "parameter “p” has no value");
  g_assert_true (rlx_executable_set_parameters (executable, (const char *[]) { "p", NULL }, &value, 1, NULL, &error));
  g_assert_no_error (error);
  outputs = rlx_executable_run (executable, &input, 1, &n, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (n, ==, 6);
  assert_values (outputs[0], "[0, 1, 2, 3, 4, 5]");
  assert_values (outputs[1], "[0, 1, 2, 3, 4, 5]");
  assert_values (outputs[2], "[7, 8, 9]");
  assert_values (outputs[3], "[5, 6]");
  assert_values (outputs[4], "[0, 1, 2, 3, 4, 5]");
  assert_values (outputs[5], "[0, 3, 1, 4, 2, 5]");
  for (gsize i = 0; i < n; i++)
    g_object_unref (outputs[i]);
  g_free (outputs);
}

/* Values that depend only on parameters are computed once, and again when these change. */
static void
test_parameters (void)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(RlxExecutable) executable = NULL, fork = NULL;
  g_autoptr(RlxTensor) one = NULL, two = NULL, wrong = NULL, x = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) plan = NULL;
  const char *names[] = { "p", NULL };
  const gint64 shape[] = { 3 };
  guint prologue;
  RlxTensor *y;

  if (rlx_test_device () == NULL)
    return;
  {
    RlxNode *p = rlx_graph_parameter (graph, "p", RLX_DATA_TYPE_F32, shape, 1, NULL);
    RlxNode *squared = rlx_node_mul (rlx_node_exp (p, NULL), p, NULL);

    rlx_graph_output (graph, "y", rlx_node_add (rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, shape, 1, NULL),
                                                rlx_node_sub (squared, squared, NULL), NULL), NULL);
  }
  executable = compile (graph);
  plan = rlx_executable_dup_plan (executable);
  g_assert_true (g_variant_lookup (plan, "prologue", "u", &prologue));
  if (!RLX_DEBUG_CHECK (NO_FOLD))
    g_assert_cmpuint (prologue, >, 0);

  one = floats ("f32[3]", (float[]) { 1, 1, 1 });
  two = floats ("f32[3]", (float[]) { 2, 2, 2 });
  wrong = floats ("f32[4]", (float[]) { 2, 2, 2, 2 });
  x = floats ("f32[3]", (float[]) { 4, 5, 6 });

  g_assert_false (rlx_executable_set_parameters (executable, (const char *[]) { "q", NULL }, &one, 1, NULL, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_NOT_FOUND);
  g_clear_error (&error);
  g_assert_false (rlx_executable_set_parameters (executable, names, &wrong, 1, NULL, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_SHAPE);
  g_clear_error (&error);
  g_assert_false (rlx_executable_set_parameters (executable, names, &one, 0, NULL, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT);
  g_clear_error (&error);

  g_assert_true (rlx_executable_set_parameters (executable, names, &one, 1, NULL, &error));
  y = run_one (executable, x);
  assert_values (y, "[4, 5, 6]");
  g_object_unref (y);
  g_assert_true (rlx_executable_set_parameters (executable, names, &two, 1, NULL, &error));
  y = run_one (executable, x);
  assert_values (y, "[4, 5, 6]");
  g_object_unref (y);

  /* a fork sees the same parameters, even after the original is gone */
  fork = rlx_executable_fork (executable, NULL, &error);
  g_assert_no_error (error);
  g_clear_object (&executable);
  g_assert_true (rlx_executable_set_parameters (fork, names, &one, 1, NULL, &error));
  y = run_one (fork, x);
  assert_values (y, "[4, 5, 6]");
  g_object_unref (y);
}

static void
test_parameter_values (void)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(RlxExecutable) executable = NULL;
  const gint64 shape[] = { 2 };

  if (rlx_test_device () == NULL)
    return;
  {
    RlxNode *p = rlx_graph_parameter (graph, "p", RLX_DATA_TYPE_F32, shape, 1, NULL);

    rlx_graph_output (graph, "y", rlx_node_add (rlx_node_add (p, p, NULL),
                                                rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, shape, 1, NULL), NULL), NULL);
  }
  executable = compile (graph);
  for (int i = 0; i < 3; i++)
    {
      g_autoptr(RlxTensor) p = floats ("f32[2]", (float[]) { (float) i, 10 });
      g_autoptr(RlxTensor) x = floats ("f32[2]", (float[]) { 0.5f, 0 });
      g_autoptr(RlxTensor) y = NULL;
      g_autofree char *expected = g_strdup_printf ("[%d.5, 20]", 2 * i);

      g_assert_true (rlx_executable_set_parameters (executable, (const char *[]) { "p", NULL }, (RlxTensor *[]) { p }, 1, NULL, NULL));
      y = run_one (executable, x);
      assert_values (y, expected);
    }
}

/* a, b = b, a + b + x: two states that read each other. */
static void
test_states (void)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(RlxExecutable) executable = NULL, fork = NULL;
  g_autoptr(RlxTensor) zero = NULL, one = NULL, x = NULL, seen = NULL, wide = NULL;
  g_autoptr(GError) error = NULL;
  const int expected[] = { 1, 2, 3, 5, 8, 13 };
  RlxNode *a, *b, *sum;

  if (rlx_test_device () == NULL)
    return;
  zero = floats ("f32[]", (float[]) { 0 });
  one = floats ("f32[]", (float[]) { 1 });
  wide = floats ("f32[2]", (float[]) { 1, 2 });
  x = floats ("f32[]", (float[]) { 0 });
  a = rlx_graph_state (graph, "a", zero, NULL);
  b = rlx_graph_state (graph, "b", one, NULL);
  sum = rlx_node_add (rlx_node_add (a, b, NULL), rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, NULL, 0, NULL), NULL);
  g_assert_true (rlx_graph_assign (graph, a, b, NULL));
  g_assert_true (rlx_graph_assign (graph, b, sum, NULL));
  rlx_graph_output (graph, "sum", sum, NULL);
  executable = compile (graph);
  fork = rlx_executable_fork (executable, NULL, NULL);

  for (gsize i = 0; i < G_N_ELEMENTS (expected); i++)
    {
      g_autoptr(RlxTensor) y = run_one (executable, x);
      g_assert_cmpfloat (rlx_tensor_get_value (y, 0), ==, expected[i]);
    }
  seen = rlx_executable_read_state (executable, "a", NULL, &error);
  g_assert_no_error (error);
  assert_values (seen, "8");
  g_clear_object (&seen);
  seen = rlx_executable_read_state (fork, "b", NULL, &error);
  assert_values (seen, "1");
  g_clear_object (&seen);

  g_assert_true (rlx_executable_write_state (executable, "a", one, NULL, &error));
  g_assert_false (rlx_executable_write_state (executable, "a", wide, NULL, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_SHAPE);
  g_clear_error (&error);
  g_assert_null (rlx_executable_read_state (executable, "c", NULL, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_NOT_FOUND);
  g_clear_error (&error);
  g_assert_true (rlx_executable_reset_state (executable, NULL, &error));
  {
    g_autoptr(RlxTensor) y = run_one (executable, x);
    assert_values (y, "1");
  }
}

static void
test_swapped_states (void)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) one = NULL, two = NULL;
  RlxNode *a, *b;

  if (rlx_test_device () == NULL)
    return;
  one = floats ("f32[2]", (float[]) { 1, 1 });
  two = floats ("f32[2]", (float[]) { 2, 2 });
  a = rlx_graph_state (graph, "a", one, NULL);
  b = rlx_graph_state (graph, "b", two, NULL);
  g_assert_true (rlx_graph_assign (graph, a, b, NULL));
  g_assert_true (rlx_graph_assign (graph, b, a, NULL));
  rlx_graph_output (graph, "a", a, NULL);
  executable = compile (graph);
  for (int i = 0; i < 4; i++)
    {
      g_autoptr(RlxTensor) y = run_one (executable, NULL);
      assert_values (y, i % 2 ? "[2, 2]" : "[1, 1]");
    }
}

/* The device stores 64-bit integers in 32 bits: values that do not fit are rejected, and
 * results wrap. */
static void
test_wide_integers (void)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) good = NULL, bad = NULL, y = NULL;
  const gint64 shape[] = { 3 };

  if (rlx_test_device () == NULL)
    return;
  {
    RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_I64, shape, 1, NULL);
    rlx_graph_output (graph, "y", rlx_node_add (x, x, NULL), NULL);
  }
  executable = compile (graph);
  good = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I64, shape, 1, (gint64[]) { -5, G_MAXINT32, 1000000000 }, 3, NULL);
  bad = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I64, shape, 1, (gint64[]) { 0, 1, (gint64) 1 << 31 }, 3, NULL);
  y = run_one (executable, good);
  g_assert_cmpint (rlx_tensor_get_data_type (y), ==, RLX_DATA_TYPE_I64);
  assert_values (y, "[-10, -2, 2000000000]");
  expect_run_error (executable, &bad, 1, RLX_GRAPH_ERROR_LIMIT, "element 2 of “x” is 2147483648");
}

/* ---- sizes ------------------------------------------------------------------------ */

static void
test_empty (void)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) x = NULL;
  g_autoptr(GError) error = NULL;
  const gint64 shape[] = { 0, 3 };
  RlxTensor **outputs;
  gsize n;

  if (rlx_test_device () == NULL)
    return;
  {
    RlxNode *in = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, shape, 2, NULL);
    RlxNode *y = rlx_node_exp (in, NULL);

    rlx_graph_output (graph, "y", y, NULL);
    rlx_graph_output (graph, "sum", rlx_node_reduce_sum (y, (gint64[]) { 0 }, 1, NULL, NULL), NULL);
    rlx_graph_output (graph, "joined", rlx_graph_concat (graph, (RlxNode *[]) { y, y }, 2, 0, NULL), NULL);
  }
  executable = compile (graph);
  x = rlx_tensor_new_from_floats (shape, 2, NULL, 0, &error);
  g_assert_no_error (error);
  outputs = rlx_executable_run (executable, &x, 1, &n, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpint (rlx_tensor_get_n_elements (outputs[0]), ==, 0);
  assert_values (outputs[1], "[0, 0, 0]");
  g_assert_cmpint (rlx_tensor_get_n_elements (outputs[2]), ==, 0);
  for (gsize i = 0; i < n; i++)
    g_object_unref (outputs[i]);
  g_free (outputs);
}

/* More elements than one dispatch dimension has workgroups, and a tensor above the 128
 * MiB limit that bindings have on many devices. */
static void
test_large (void)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) x = NULL, y = NULL;
  g_autoptr(GBytes) bytes = NULL;
  g_autoptr(GError) error = NULL;
  const gint64 shape[] = { 36, 1000, 1001 };
  const gsize n = 36 * 1000 * 1001;
  float *values;
  gsize size;
  const float *result;

  if (rlx_test_device () == NULL)
    return;
  if (rlx_test_has_small_bindings ())
    {
      g_test_skip ("more bindings of 1 MiB than a device has; a smaller tensor is tested below");
      return;
    }
  {
    RlxNode *in = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, shape, 3, NULL);
    RlxNode *one = rlx_graph_scalar (graph, RLX_DATA_TYPE_F32, 1, NULL);

    rlx_graph_output (graph, "y", rlx_node_add (rlx_node_neg (in, NULL), one, NULL), NULL);
  }
  executable = compile (graph);
  values = g_new (float, n);
  for (gsize i = 0; i < n; i++)
    values[i] = (float) (i % 1000003);
  bytes = g_bytes_new_take (values, n * sizeof (float));
  x = rlx_tensor_new_from_bytes (RLX_DATA_TYPE_F32, shape, 3, bytes, &error);
  g_assert_no_error (error);
  y = run_one (executable, x);
  g_clear_pointer (&bytes, g_bytes_unref);
  bytes = g_bytes_ref (rlx_tensor_get_bytes (y));
  result = g_bytes_get_data (bytes, &size);
  g_assert_cmpuint (size, ==, n * sizeof (float));
  for (gsize i = 0; i < n; i++)
    if (result[i] != 1.0f - (float) (i % 1000003))
      g_error ("element %" G_GSIZE_FORMAT " is %g", i, result[i]);
}

/* The same for every element width, with the small limits. */
static void
test_segments (void)
{
  const char *types[] = { "f32[700001]", "f16[1500001]", "i8[3000001]", "u8[2500003]" };

  if (rlx_test_device () == NULL)
    return;
  for (gsize t = 0; t < G_N_ELEMENTS (types); t++)
    {
      g_autoptr(RlxTensor) x = rlx_test_random (types[t], 0, 100, 5), y = NULL;
      g_autofree double *in = rlx_test_get_values (x), *out = NULL;
      RlxTensor *operands[] = { x, x };

      y = rlx_test_run_op ("max", 2, operands, NULL);
      out = rlx_test_get_values (y);
      for (gint64 i = 0; i < rlx_tensor_get_n_elements (x); i++)
        if (in[i] != out[i])
          g_error ("%s: element %" G_GINT64_FORMAT " is %g, not %g", types[t], i, out[i], in[i]);
    }
}

/* No recursion over the graph, and equal kernels share a pipeline. */
static void
test_long_chain (void)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) x = NULL, y = NULL;
  g_autoptr(GVariant) plan = NULL;
  guint pipelines;
  RlxNode *node;

  if (rlx_test_device () == NULL)
    return;
  node = rlx_graph_input (graph, "x", RLX_DATA_TYPE_I32, (gint64[]) { 3 }, 1, NULL);
  for (guint i = 0; i < 100000; i++)
    node = rlx_node_bit_not (node, NULL);
  rlx_graph_output (graph, "y", node, NULL);
  executable = compile (graph);
  x = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I32, (gint64[]) { 3 }, 1, (gint64[]) { 1, -2, 3 }, 3, NULL);
  y = run_one (executable, x);
  assert_values (y, "[1, -2, 3]");
  plan = rlx_executable_dup_plan (executable);
  g_assert_true (g_variant_lookup (plan, "pipelines", "u", &pipelines));
  g_assert_cmpuint (pipelines, <=, 4);
}

/* ---- seeing inside, and losing the device ------------------------------------------- */

static void
test_profile (void)
{
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) x = NULL;
  g_autoptr(RlxProfile) profile = NULL;
  g_autofree RlxTensor **outputs = NULL;
  g_autofree char *text = NULL, *plan = NULL;
  gsize n;

  if (rlx_test_device () == NULL)
    return;
  executable = busy_executable ();
  x = rlx_test_random ("f32[17,33]", -2, 2, 5);
  g_assert_null (rlx_executable_dup_profile (executable));
  rlx_executable_set_profiling (executable, TRUE);
  outputs = rlx_executable_run (executable, &x, 1, &n, NULL, NULL);
  g_assert_nonnull (outputs);
  g_object_unref (outputs[0]);
  g_object_unref (outputs[1]);
  profile = rlx_executable_dup_profile (executable);
  g_assert_nonnull (profile);
  g_assert_cmpuint (g_list_model_get_n_items (G_LIST_MODEL (profile)), ==, rlx_executable_get_n_dispatches (executable));
  g_assert_cmpfloat (rlx_profile_get_wall_time (profile), >, 0);
  if (rlx_device_get_features (rlx_test_device ()) & RLX_DEVICE_FEATURES_TIMESTAMPS)
    g_assert_cmpfloat (rlx_profile_get_total_time (profile), >, 0);
  for (guint i = 0; i < g_list_model_get_n_items (G_LIST_MODEL (profile)); i++)
    {
      g_autoptr(RlxProfileStep) step = g_list_model_get_item (G_LIST_MODEL (profile), i);

      g_assert_nonnull (rlx_profile_step_get_kernel (step));
      g_assert_nonnull (rlx_profile_step_get_op (step));
      g_assert_nonnull (rlx_profile_step_get_node (step));
      g_assert_cmpfloat (rlx_profile_step_get_bytes (step), >, 0);
      {
        g_autofree char *op = NULL, *kernel = NULL, *node = NULL;
        double seconds, operations, bytes;

        g_object_get (step, "op", &op, "kernel", &kernel, "node", &node, "time", &seconds, "operations", &operations,
                      "bytes", &bytes, NULL);
        g_assert_cmpstr (op, ==, rlx_profile_step_get_op (step));
        g_assert_cmpstr (kernel, ==, rlx_profile_step_get_kernel (step));
        g_assert_cmpstr (node, ==, rlx_profile_step_get_node (step));
        g_assert_cmpfloat (seconds, ==, rlx_profile_step_get_time (step));
        g_assert_cmpfloat (operations, ==, rlx_profile_step_get_operations (step));
        g_assert_cmpfloat (bytes, ==, rlx_profile_step_get_bytes (step));
      }
    }
  text = rlx_profile_to_string (profile);
  g_assert_nonnull (strstr (text, "matmul"));
  plan = rlx_executable_describe_plan (executable);
  g_assert_nonnull (strstr (plan, "dispatches"));
}

static void
on_device_lost (RlxDevice  *device,
                GParamSpec *pspec,
                gpointer    user_data)
{
  guint *count = user_data;

  g_assert_nonnull (strstr (rlx_device_get_lost_reason (device), "taken away by a test"));
  g_assert_true (rlx_device_get_lost (device));
  (*count)++;
}

static void
test_loss (void)
{
  g_autoptr(RlxDevice) device = NULL;
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(RlxExecutable) executable = NULL, again = NULL;
  g_autoptr(RlxTensor) x = NULL;
  g_autoptr(GError) error = NULL;
  guint lost = 0;
  gsize n;

  if (rlx_test_device () == NULL)
    return;
  device = rlx_device_open (NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_null (rlx_device_get_lost_reason (device));
  g_signal_connect (device, "notify::lost", G_CALLBACK (on_device_lost), &lost);
  rlx_graph_output (graph, "y", rlx_node_neg (rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, (gint64[]) { 2 }, 1, NULL), NULL), NULL);
  executable = rlx_device_compile (device, graph, NULL, NULL, &error);
  g_assert_no_error (error);
  x = floats ("f32[2]", (float[]) { 1, -2 });

  rlx_gpu_force_loss (rlx_device_get_gpu (device), "taken away by a test");
  g_assert_null (rlx_executable_run (executable, &x, 1, &n, NULL, &error));
  g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_LOST);
  g_clear_error (&error);
  again = rlx_device_compile (device, graph, NULL, NULL, &error);
  g_assert_null (again);
  g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_LOST);
  while (lost == 0)
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpuint (lost, ==, 1);
  g_assert_true (rlx_device_get_lost (device));
  g_assert_false (rlx_device_get_lost (rlx_test_device ()));
}

static void
test_budget (void)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(GError) error = NULL;
  RlxNode *node;

  if (rlx_test_device () == NULL)
    return;
  /* 200 inputs of 1 GiB each, alive together */
  node = rlx_graph_input (graph, "x", RLX_DATA_TYPE_U8, (gint64[]) { 1 << 30 }, 1, NULL);
  for (guint i = 0; i < 200; i++)
    {
      g_autofree char *name = g_strdup_printf ("x%u", i);
      node = rlx_node_max (node, rlx_graph_input (graph, name, RLX_DATA_TYPE_U8, (gint64[]) { 1 << 30 }, 1, NULL), NULL);
    }
  rlx_graph_output (graph, "y", node, NULL);
  g_assert_null (rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error));
  /* too many bindings for one kernel if bindings are small, otherwise the budget */
  if (!g_error_matches (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_LIMIT))
    g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_OUT_OF_MEMORY);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/executable/run", test_run);
  g_test_add_func ("/executable/no-count", test_no_count);
  g_test_add_func ("/executable/plan", test_plan);
  g_test_add_func ("/executable/wrong-inputs", test_wrong_inputs);
  g_test_add_func ("/executable/named", test_named);
  g_test_add_func ("/executable/bad-graphs", test_bad_graphs);
  g_test_add_func ("/executable/direct-outputs", test_direct_outputs);
  g_test_add_func ("/executable/parameters", test_parameters);
  g_test_add_func ("/executable/parameter-values", test_parameter_values);
  g_test_add_func ("/executable/states", test_states);
  g_test_add_func ("/executable/swapped-states", test_swapped_states);
  g_test_add_func ("/executable/wide-integers", test_wide_integers);
  g_test_add_func ("/executable/empty", test_empty);
  g_test_add_func ("/executable/large", test_large);
  g_test_add_func ("/executable/segments", test_segments);
  g_test_add_func ("/executable/long-chain", test_long_chain);
  g_test_add_func ("/executable/profile", test_profile);
  g_test_add_func ("/executable/loss", test_loss);
  g_test_add_func ("/executable/budget", test_budget);

  return g_test_run ();
}
