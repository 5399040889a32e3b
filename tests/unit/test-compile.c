/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Compiling: options, again and again, what an executable tells of itself, and what
 * there is no room for.
 */
#include "config.h"

#include <string.h>
#include <sys/resource.h>

#include "rlx-test-executable.h"

static void
assert_ports (GListModel *ports,
              const char *expected)
{
  g_autoptr(GString) text = g_string_new (NULL);

  g_assert_true (g_list_model_get_item_type (ports) == RLX_TYPE_PORT);
  for (guint i = 0; i < g_list_model_get_n_items (ports); i++)
    {
      g_autoptr(RlxPort) port = g_list_model_get_item (ports, i);
      g_autofree char *line = rlx_port_to_string (port), *name = NULL;
      g_autoptr(GVariant) shape = NULL;
      RlxDataType data_type;
      gsize n_dims, n_values;
      const gint64 *dims = rlx_port_get_shape (port, &n_dims), *values;

      g_object_get (port, "name", &name, "data-type", &data_type, "shape", &shape, NULL);
      g_assert_cmpstr (name, ==, rlx_port_get_name (port));
      g_assert_cmpint (data_type, ==, rlx_port_get_data_type (port));
      values = g_variant_get_fixed_array (shape, &n_values, sizeof (gint64));
      g_assert_cmpmem (values, n_values * sizeof (gint64), dims, n_dims * sizeof (gint64));
      g_assert_cmpuint (n_dims, ==, rlx_port_get_n_dims (port));
      g_string_append_printf (text, "%s; ", line);
    }
  g_assert_cmpstr (text->str, ==, expected);
  g_assert_null (g_list_model_get_item (ports, g_list_model_get_n_items (ports)));
}

static void
test_ports (void)
{
  g_autoptr(RlxGraph) graph = NULL;
  g_autoptr(RlxExecutable) executable = NULL, fork = NULL;
  g_autoptr(RlxPort) bare = g_object_new (RLX_TYPE_PORT, NULL);
  g_autofree char *text = rlx_port_to_string (bare);
  g_autoptr(GListModel) states = NULL;
  g_autoptr(GError) error = NULL;

  if (rlx_test_device () == NULL)
    return;
  graph = rlx_graph_new_from_text ("rlx 1\n%0 = input \"x\" f32[2, 3]\n%1 = input \"i\" i64[]\n%2 = parameter \"p\" f16[3]\n"
                                   "%3 = state \"s\" f32[2, 0] []\n%4 = cast(%2) {to = f32}\n%5 = add(%0, %4)\n"
                                   "output \"y\" %5\noutput \"i\" %1\nassign %3 %3\n", &error);
  g_assert_no_error (error);
  executable = compile (graph);
  assert_ports (rlx_executable_get_inputs (executable), "x: f32[2, 3]; i: i64[]; ");
  assert_ports (rlx_executable_get_outputs (executable), "y: f32[2, 3]; i: i64[]; ");
  assert_ports (rlx_executable_get_parameters (executable), "p: f16[3]; ");
  g_object_get (executable, "states", &states, NULL);
  assert_ports (states, "s: f32[2, 0]; ");
  fork = rlx_executable_fork (executable, NULL, &error);
  g_assert_no_error (error);
  g_assert_true (rlx_executable_get_states (fork) == states);
}

typedef struct
{
  RlxExecutable *executable;
  GError *error;
  gboolean done;
} Compiled;

static void
compiled (GObject      *source,
          GAsyncResult *result,
          gpointer      data)
{
  Compiled *to = data;

  to->executable = rlx_device_compile_finish (RLX_DEVICE (source), result, &to->error);
  to->done = TRUE;
}

static void
compile_along (RlxGraph     *graph,
               GCancellable *cancellable,
               RlxNode      *late,
               const char   *name,
               Compiled     *to)
{
  *to = (Compiled) { NULL };
  rlx_device_compile_async (rlx_test_device (), graph, NULL, cancellable, compiled, to);
  /* while the compile is in progress */
  rlx_graph_output (graph, name, late, NULL);
  g_assert_true (rlx_graph_check (graph, NULL));
  while (!to->done)
    g_main_context_iteration (NULL, TRUE);
}

/* Neither a failed compile nor a successful one prevents adding to a graph, and none sees
 * later additions. */
static void
test_compile_again (void)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(GCancellable) cancellable = g_cancellable_new ();
  g_autoptr(RlxExecutable) first = NULL, second = NULL;
  g_autoptr(GError) error = NULL;
  RlxNode *x;
  Compiled to;

  if (rlx_test_device () == NULL)
    return;
  x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, (gint64[]) { 2 }, 1, NULL);
  g_assert_null (rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error));
  g_assert_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_INVALID_GRAPH);
  g_clear_error (&error);

  compile_along (graph, NULL, rlx_node_relu (x, NULL), "a", &to);
  g_assert_error (to.error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_INVALID_GRAPH);
  g_clear_error (&to.error);

  g_cancellable_cancel (cancellable);
  g_assert_null (rlx_device_compile (rlx_test_device (), graph, NULL, cancellable, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_clear_error (&error);
  compile_along (graph, cancellable, rlx_node_neg (x, NULL), "b", &to);
  g_assert_error (to.error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_clear_error (&to.error);

  first = compile (graph);
  compile_along (graph, NULL, rlx_node_exp (x, NULL), "c", &to);
  g_assert_no_error (to.error);
  second = compile (graph);
  for (guint i = 0; i < 3; i++)
    {
      RlxExecutable *executable = i == 0 ? first : i == 1 ? to.executable : second;
      const char *const *names = rlx_executable_get_output_names (executable);
      g_autoptr(RlxTensor) input = rlx_tensor_new_from_floats ((gint64[]) { 2 }, 1, (float[]) { -1, 0 }, 2, NULL);
      gsize n;
      g_auto(RlxTensors) outputs = rlx_executable_run (executable, &input, 1, &n, NULL, &error);

      g_assert_true (outputs != NULL);
      g_assert_null (outputs[n]);
      g_assert_cmpuint (n, ==, i < 2 ? 2 : 3);
      g_assert_cmpstr (names[n - 1], ==, i < 2 ? "b" : "c");
      g_assert_cmpfloat (rlx_tensor_get_value (outputs[0], 0), ==, 0);
      g_assert_cmpfloat (rlx_tensor_get_value (outputs[1], 0), ==, 1);
      if (n > 2)
        g_assert_cmpfloat (rlx_tensor_get_value (outputs[2], 1), ==, 1);
    }
  g_object_unref (to.executable);
}

static void
test_compile_options (void)
{
  g_autoptr(RlxCompileOptions) options = g_object_new (RLX_TYPE_COMPILE_OPTIONS, "profiling", TRUE, "timeout", 30.0, NULL);
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) x = NULL, y = NULL;
  g_autoptr(RlxProfile) profile = NULL;
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(GError) error = NULL;
  guint64 needed;

  if (rlx_test_device () == NULL)
    return;
  rlx_graph_output (graph, "y", rlx_node_neg (rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, (gint64[]) { 2 }, 1, NULL), NULL), NULL);
  executable = rlx_device_compile (rlx_test_device (), graph, options, NULL, &error);
  g_assert_no_error (error);
  g_assert_true (rlx_executable_get_profiling (executable));
  x = floats ("f32[2]", (float[]) { 1, -2 });
  y = run_one (executable, x);
  profile = rlx_executable_dup_profile (executable);
  g_assert_nonnull (profile);

  /* The stated amount suffices, and a byte less does not. */
  needed = rlx_executable_get_arena_size (executable) + rlx_executable_get_weights_size (executable);
  g_clear_object (&executable);
  rlx_compile_options_set_memory_limit (options, needed);
  executable = rlx_device_compile (rlx_test_device (), graph, options, NULL, &error);
  g_assert_no_error (error);
  rlx_compile_options_set_memory_limit (options, needed - 1);
  g_assert_null (rlx_device_compile (rlx_test_device (), graph, options, NULL, &error));
  g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_OUT_OF_MEMORY);
}

static gboolean
plan_mentions (RlxGraph          *graph,
               RlxCompileOptions *options,
               const char        *text)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) plan = rlx_graph_plan_for (graph, "lavapipe", options, &error);
  g_autofree char *all = plan != NULL ? g_variant_print (plan, FALSE) : NULL;

  g_assert_no_error (error);
  return strstr (all, text) != NULL;
}

/* A program may forgo features of the device. */
static void
test_restrictions (void)
{
  g_autoptr(RlxCompileOptions) options = g_object_new (RLX_TYPE_COMPILE_OPTIONS, "avoided-features", RLX_DEVICE_FEATURES_F16, NULL);
  g_autoptr(RlxGraph) graph = rlx_graph_new (), large = rlx_graph_new ();
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) x = floats ("f32[2]", (float[]) { 1, -2 }), y = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) plan = NULL;
  g_autofree char *text = NULL;
  RlxNode *half;

  half = rlx_node_cast (rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, (gint64[]) { 2 }, 1, NULL), RLX_DATA_TYPE_F16, NULL);
  rlx_graph_output (graph, "y", rlx_node_neg (half, NULL), NULL);
  rlx_graph_output (large, "y", rlx_node_neg (rlx_graph_input (large, "x", RLX_DATA_TYPE_F32, (gint64[]) { 1 << 19 }, 1, NULL), NULL), NULL);

  g_assert_true (plan_mentions (graph, NULL, "enable f16"));
  g_assert_false (plan_mentions (graph, options, "enable f16"));
  rlx_compile_options_set_avoided_features (options, RLX_DEVICE_FEATURES_SUBGROUPS);
  g_assert_true (plan_mentions (graph, options, "enable f16"));

  rlx_compile_options_set_avoided_features (options, RLX_DEVICE_FEATURES_TIMESTAMPS | RLX_DEVICE_FEATURES_F16);
  g_assert_null (rlx_graph_plan_for (graph, "lavapipe", options, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT);
  g_assert_nonnull (strstr (error->message, "features to avoid"));
  g_clear_error (&error);

  /* The tensors take 2 MiB. */
  rlx_compile_options_set_avoided_features (options, RLX_DEVICE_FEATURES_NONE);
  rlx_compile_options_set_buffer_limit (options, 4 << 20);
  g_assert_true (plan_mentions (large, options, "neg"));
  rlx_compile_options_set_buffer_limit (options, 1 << 20);
  g_assert_null (rlx_graph_plan_for (large, "lavapipe", options, &error));
  g_assert_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_LIMIT);
  g_clear_error (&error);
  rlx_compile_options_set_buffer_limit (options, (1 << 20) - 1);
  g_assert_null (rlx_graph_plan_for (large, "lavapipe", options, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT);
  g_assert_nonnull (strstr (error->message, "1048575 bytes"));
  g_clear_error (&error);

  if (rlx_test_device () == NULL)
    return;
  rlx_compile_options_set_buffer_limit (options, 1 << 20);
  g_assert_null (rlx_device_compile (rlx_test_device (), large, options, NULL, &error));
  g_assert_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_LIMIT);
  g_clear_error (&error);
  rlx_compile_options_set_avoided_features (options, RLX_DEVICE_FEATURES_F16 | RLX_DEVICE_FEATURES_SUBGROUPS |
                                                     RLX_DEVICE_FEATURES_SUBGROUP_MATRIX | RLX_DEVICE_FEATURES_PACKED_DOT);
  rlx_compile_options_set_tuning (options, TRUE);
  executable = rlx_device_compile (rlx_test_device (), graph, options, NULL, &error);
  g_assert_no_error (error);
  plan = rlx_executable_dup_plan (executable);
  text = g_variant_print (plan, FALSE);
  g_assert_null (strstr (text, "enable f16"));
  y = run_one (executable, x);
  g_assert_cmpfloat (rlx_tensor_get_value (y, 0), ==, -1);
  g_assert_cmpfloat (rlx_tensor_get_value (y, 1), ==, 2);
}

#define LARGE ((gint64) 1 << 26)

/* Runs with a small address space. */
static void
test_no_memory_child (void)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) x = floats ("f32[1]", (float[]) { 3 }), y = NULL, again = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *status = NULL;
  struct rlimit limit;

  if (rlx_test_device () == NULL)
    return;
  rlx_graph_output (graph, "y",
                    rlx_node_expand (rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, (gint64[]) { 1 }, 1, NULL),
                                     (gint64[]) { LARGE }, 1, NULL), NULL);
  executable = compile (graph);
  y = run_one (executable, x);
  g_clear_object (&y);

  g_assert_true (g_file_get_contents ("/proc/self/statm", &status, NULL, NULL));
  g_assert_cmpint (getrlimit (RLIMIT_AS, &limit), ==, 0);
  limit.rlim_cur = g_ascii_strtoull (status, NULL, 10) * 4096 + (LARGE * 4) / 2;
  g_assert_cmpint (setrlimit (RLIMIT_AS, &limit), ==, 0);
  g_assert_null (rlx_executable_run (executable, &x, 1, NULL, NULL, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_LIMIT);
  g_assert_nonnull (strstr (error->message, "“y”"));
  g_clear_error (&error);

  /* Once there is enough, it works. */
  limit.rlim_cur = limit.rlim_max;
  g_assert_cmpint (setrlimit (RLIMIT_AS, &limit), ==, 0);
  again = run_one (executable, x);
  g_assert_true (rlx_tensor_get_value (again, LARGE - 1) == 3.0);
}

static void
test_no_memory (void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  g_test_skip ("The sanitizer needs the address space");
#else
  g_test_trap_subprocess ("/compile/subprocess/no-memory", 0, G_TEST_SUBPROCESS_DEFAULT);
  g_test_trap_assert_passed ();
#endif
}

/* Sizes beyond what a kernel can compute with are rejected without a crash. */
static void
test_long_axis (void)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxGraph) graph =
    rlx_graph_new_from_text ("rlx 1\n%0 = input \"x\" u8[1, 1, 1200000000]\n"
                             "%1 = resize(%0, _, _) {sizes = [4], mode = nearest}\noutput \"y\" %1\n", &error);
  g_autoptr(RlxExecutable) executable = NULL;

  g_assert_no_error (error);
  if (rlx_test_device () == NULL)
    return;
  executable = rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error);
  if (executable == NULL)
    g_assert_nonnull (error);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/compile/ports", test_ports);
  g_test_add_func ("/compile/no-memory", test_no_memory);
  g_test_add_func ("/compile/subprocess/no-memory", test_no_memory_child);
  g_test_add_func ("/compile/long-axis", test_long_axis);
  g_test_add_func ("/compile/compile-again", test_compile_again);
  g_test_add_func ("/compile/compile-options", test_compile_options);
  g_test_add_func ("/compile/restrictions", test_restrictions);

  return g_test_run ();
}
