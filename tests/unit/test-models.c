/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * ONNX models as graphs: what is computed on the way, what is refused, and sessions.
 */
#include "config.h"

#include <string.h>

#include "onnx-writer.h"
#include "rlx-test-util.h"
#include "rlx-test-weights.h"

#define FLOAT 1
#define INT64 7

/* Takes ownership of the graph. */
static RlxModel *
make_model (GByteArray *graph)
{
  g_autoptr(GBytes) file = onnx_finish (onnx_model (graph, 17));
  g_autoptr(GError) error = NULL;
  RlxModel *model = rlx_model_new_from_bytes (file, &error);

  g_assert_no_error (error);
  return model;
}

static GByteArray *
known_ints (const char   *name,
            const gint64 *values,
            gsize         n)
{
  return onnx_tensor (name, INT64, (gint64[]) { (gint64) n }, 1, values, n * sizeof *values);
}

/* y = reshape (x, [shape (x)[0] · 2, -1]) + 1, where the shape is computed */
static GByteArray *
shape_graph (void)
{
  GByteArray *graph = g_byte_array_new ();

  onnx_add_input (graph, "x", FLOAT, "batch 4");
  onnx_add_output (graph, "y", FLOAT, NULL);
  onnx_add_tensor (graph, known_ints ("zero", (gint64[]) { 0 }, 1));
  onnx_add_tensor (graph, known_ints ("two", (gint64[]) { 2 }, 1));
  onnx_add_tensor (graph, known_ints ("rest", (gint64[]) { -1 }, 1));
  onnx_add_node (graph, "Shape", "x", "shape", NULL);
  onnx_add_node (graph, "Gather", "shape zero", "batch_size", NULL);
  onnx_add_node (graph, "Mul", "batch_size two", "rows", NULL);
  onnx_add_node (graph, "Concat", "rows rest", "to", onnx_attr ("axis", g_variant_new_int64 (0)), NULL);
  onnx_add_node (graph, "Reshape", "x to", "flat", NULL);
  onnx_add_node (graph, "Relu", "flat", "y", NULL);
  return graph;
}

static void
test_build (void)
{
  g_autoptr(RlxModel) model = make_model (shape_graph ());
  g_autoptr(RlxModelPort) port = g_list_model_get_item (rlx_model_get_inputs (model), 0);
  g_autofree char *described = rlx_model_port_to_string (port);
  g_autoptr(RlxGraph) graph = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *text = NULL;
  const gint64 *shape;
  gsize n_dims;

  g_assert_cmpstr (described, ==, "x: float[batch, 4]");
  g_assert_cmpint (rlx_model_get_opset (model), ==, 17);
  graph = rlx_model_build (model, g_variant_new_parsed ("{'batch': @x 3}"), NULL, &error);
  g_assert_no_error (error);
  shape = rlx_node_get_shape (rlx_graph_get_output (graph, "y"), &n_dims);
  g_assert_cmpuint (n_dims, ==, 2);
  g_assert_cmpint (shape[0], ==, 6);
  g_assert_cmpint (shape[1], ==, 2);
  /* Nothing that computed the shape remains. */
  text = rlx_graph_to_text (graph);
  g_assert_null (strstr (text, "gather"));
  g_assert_null (strstr (text, "concat"));
  g_assert_null (strstr (text, "mul"));
  g_clear_object (&graph);

  graph = rlx_model_build (model, NULL, NULL, &error);
  g_assert_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_SHAPE);
  g_assert_nonnull (strstr (error->message, "batch"));
  g_clear_error (&error);
  graph = rlx_model_build (model, g_variant_new_parsed ("{'other': @x 3}"), NULL, &error);
  g_assert_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_NOT_FOUND);
}

/* All reasons are reported, and nodes that depend on a rejected one add none. */
static void
test_refused (void)
{
  GByteArray *body = g_byte_array_new ();
  g_autoptr(RlxModel) model = NULL;
  g_autoptr(RlxGraph) graph = NULL;
  g_autoptr(GError) error = NULL;

  onnx_add_input (body, "x", FLOAT, "4");
  onnx_add_output (body, "y", FLOAT, NULL);
  onnx_add_node (body, "Frobnicate", "x", "a", NULL);
  onnx_add_node (body, "Relu", "a", "b", NULL);
  onnx_add_node (body, "LeakyRelu", "x", "c", onnx_attr ("slope", g_variant_new_double (1)), NULL);
  onnx_add_node (body, "LeakyRelu", "x", "d", onnx_attr ("alpha", g_variant_new_int64 (1)), NULL);
  onnx_add_node (body, "Sum", "b c d", "y", NULL);
  model = make_model (body);
  graph = rlx_model_build (model, NULL, NULL, &error);
  g_assert_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_UNSUPPORTED);
  g_assert_nonnull (strstr (error->message, "3 reasons"));
  g_assert_nonnull (strstr (error->message, "Frobnicate"));
  g_assert_nonnull (strstr (error->message, "slope"));
  g_assert_nonnull (strstr (error->message, "alpha"));
  g_assert_null (strstr (error->message, "“Relu”"));
}

/* A loop that adds 1, @steps times; endless if negative. */
static RlxModel *
make_loop (gint64 steps)
{
  GByteArray *graph = g_byte_array_new (), *body = g_byte_array_new ();
  float one = 1;

  onnx_add_input (body, "i", INT64, "");
  onnx_add_input (body, "go", 9, "");
  onnx_add_input (body, "in", FLOAT, NULL);
  onnx_add_output (body, "go_on", 9, "");
  onnx_add_output (body, "out", FLOAT, NULL);
  onnx_add_output (body, "each", FLOAT, NULL);
  onnx_add_node (body, "Identity", "go", "go_on", NULL);
  onnx_add_node (body, "Add", "in one", "out", NULL);
  onnx_add_node (body, "Identity", "out", "each", NULL);

  onnx_add_input (graph, "x", FLOAT, "2");
  onnx_add_output (graph, "y", FLOAT, NULL);
  onnx_add_output (graph, "all", FLOAT, NULL);
  onnx_add_tensor (graph, onnx_tensor ("one", FLOAT, NULL, 0, &one, sizeof one));
  onnx_add_tensor (graph, onnx_tensor ("n", INT64, NULL, 0, &steps, sizeof steps));
  onnx_add_node (graph, "Loop", steps < 0 ? "- - x" : "n - x", "y all", onnx_attr_graph ("body", body), NULL);
  return make_model (graph);
}

static void
test_loop (void)
{
  g_autoptr(RlxModel) model = make_loop (3);
  g_autoptr(RlxModel) endless = make_loop (-1);
  g_autoptr(RlxSession) session = NULL;
  g_autoptr(RlxTensor) x = rlx_tensor_new_from_floats ((gint64[]) { 2 }, 1, (float[]) { 10, 20 }, 2, NULL);
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxGraph) none = rlx_model_build (endless, NULL, NULL, &error);
  g_auto(RlxTensors) outputs = NULL;
  const char *names[] = { "x", NULL };

  g_assert_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_LIMIT);
  g_assert_nonnull (strstr (error->message, "steps"));
  g_clear_error (&error);

  if (rlx_test_device () == NULL)
    return;
  session = rlx_session_new (model, rlx_test_device (), NULL);
  outputs = rlx_session_run (session, names, &x, 1, NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (rlx_tensor_get_value (outputs[0], 1), ==, 23);
  g_assert_cmpint (rlx_tensor_get_shape (outputs[1], NULL)[0], ==, 3);
  g_assert_cmpfloat (rlx_tensor_get_value (outputs[1], 2), ==, 12);
}

static void
test_session (void)
{
  g_autoptr(RlxModel) model = make_model (shape_graph ());
  g_autoptr(RlxSession) session = NULL;
  g_autoptr(GError) error = NULL;
  const char *names[] = { "x", NULL };

  if (rlx_test_device () == NULL)
    return;
  session = rlx_session_new (model, rlx_test_device (), NULL);
  rlx_session_set_capacity (session, 2);
  for (gint64 batch = 1; batch <= 3; batch++)
    for (guint again = 0; again < 2; again++)
      {
        g_autofree float *values = g_new0 (float, batch * 4);
        g_autoptr(RlxTensor) x = NULL;
        g_auto(RlxTensors) outputs = NULL;

        for (gint64 i = 0; i < batch * 4; i++)
          values[i] = (float) i - 1;
        x = rlx_tensor_new_from_floats ((gint64[]) { batch, 4 }, 2, values, (gsize) batch * 4, NULL);
        outputs = rlx_session_run (session, names, &x, 1, NULL, NULL, &error);
        g_assert_no_error (error);
        g_assert_cmpint (rlx_tensor_get_shape (outputs[0], NULL)[0], ==, 2 * batch);
        g_assert_cmpfloat (rlx_tensor_get_value (outputs[0], 0), ==, 0);
        g_assert_cmpfloat (rlx_tensor_get_value (outputs[0], 4 * batch - 1), ==, 4 * batch - 2);
        g_assert_cmpuint (rlx_session_get_n_executables (session), ==, MIN (batch, 2));
      }

  {
    g_autoptr(RlxTensor) wrong = rlx_tensor_new_from_floats ((gint64[]) { 5 }, 1, (float[]) { 1, 2, 3, 4, 5 }, 5, NULL);
    g_auto(RlxTensors) outputs = rlx_session_run (session, names, &wrong, 1, NULL, NULL, &error);

    g_assert_null (outputs);
    g_assert_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_SHAPE);
  }
}

/* The shape is an input: its elements are constants of the compiled graph. */
static void
test_known_input (void)
{
  GByteArray *graph = g_byte_array_new ();
  g_autoptr(RlxModel) model = NULL;
  g_autoptr(RlxSession) session = NULL;
  g_autoptr(RlxTensor) x = rlx_tensor_new_from_floats ((gint64[]) { 4 }, 1, (float[]) { 1, 2, 3, 4 }, 4, NULL);
  const char *names[] = { "x", "shape", NULL };

  if (rlx_test_device () == NULL)
    {
      g_byte_array_unref (graph);
      return;
    }
  onnx_add_input (graph, "x", FLOAT, "4");
  onnx_add_input (graph, "shape", INT64, "2");
  onnx_add_output (graph, "y", FLOAT, NULL);
  onnx_add_node (graph, "Reshape", "x shape", "y", NULL);
  model = make_model (graph);
  session = rlx_session_new (model, rlx_test_device (), NULL);
  for (gint64 rows = 1; rows <= 4; rows *= 2)
    {
      g_autoptr(RlxTensor) shape = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I64, (gint64[]) { 2 }, 1, (gint64[]) { rows, -1 }, 2, NULL);
      RlxTensor *inputs[] = { x, shape };
      g_autoptr(GError) error = NULL;
      g_auto(RlxTensors) outputs = rlx_session_run (session, names, inputs, 2, NULL, NULL, &error);

      g_assert_no_error (error);
      g_assert_cmpint (rlx_tensor_get_shape (outputs[0], NULL)[0], ==, rows);
      g_assert_cmpint (rlx_tensor_get_shape (outputs[0], NULL)[1], ==, 4 / rows);
    }
  g_assert_cmpuint (rlx_session_get_n_executables (session), ==, 3);
}

/* A model with a branch for each value of an input. */
static void
test_fixed_input (void)
{
  GByteArray *graph = g_byte_array_new (), *branches[2] = { g_byte_array_new (), g_byte_array_new () };
  g_autoptr(RlxModel) model = NULL;
  g_autoptr(RlxTensor) yes = rlx_tensor_new_scalar (RLX_DATA_TYPE_BOOL, 1, NULL);
  g_autoptr(RlxGraph) built = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *text = NULL;

  onnx_add_output (branches[0], "a", FLOAT, NULL);
  onnx_add_node (branches[0], "Relu", "x", "a", NULL);
  onnx_add_output (branches[1], "b", FLOAT, NULL);
  onnx_add_node (branches[1], "Sigmoid", "x", "b", NULL);
  onnx_add_input (graph, "x", FLOAT, "4");
  onnx_add_input (graph, "flag", 9, "");
  onnx_add_output (graph, "y", FLOAT, NULL);
  onnx_add_node (graph, "If", "flag", "y", onnx_attr_graph ("then_branch", branches[0]), onnx_attr_graph ("else_branch", branches[1]), NULL);
  model = make_model (graph);

  built = rlx_model_build (model, NULL, NULL, &error);
  g_assert_no_error (error);
  text = rlx_graph_to_text (built);
  g_assert_nonnull (strstr (text, "where"));
  g_clear_object (&built);
  g_clear_pointer (&text, g_free);

  g_assert_true (rlx_model_fix_input (model, "flag", yes, &error));
  built = rlx_model_build (model, NULL, NULL, &error);
  g_assert_no_error (error);
  text = rlx_graph_to_text (built);
  g_assert_nonnull (strstr (text, "relu"));
  g_assert_null (strstr (text, "sigmoid"));

  g_assert_false (rlx_model_fix_input (model, "x", yes, &error));
  g_assert_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_DATA_TYPE);
}

/* Nodes without operands or results, for operators that are evaluated if the operands are known. */
static void
test_operands (void)
{
  static const struct { const char *op, *inputs, *outputs; } nodes[] = {
    { "Transpose", "", "y" }, { "Equal", "a", "y" }, { "Add", "a -", "y" }, { "Where", "b - a", "y" }, { "Gather", "a -", "y" },
    { "Range", "a a", "y" }, { "Split", "a", "" }, { "Abs", "a a", "y" }, { "Concat", "", "y" }, { "Max", "a -", "y" }, { "Tile", "a", "y" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (nodes); i++)
    {
      GByteArray *graph = g_byte_array_new ();
      g_autoptr(GBytes) file = NULL;
      g_autoptr(RlxModel) model = NULL;
      g_autoptr(RlxGraph) built = NULL;
      g_autoptr(GError) error = NULL;

      onnx_add_output (graph, "y", INT64, NULL);
      onnx_add_tensor (graph, known_ints ("a", (gint64[]) { 1, 2 }, 2));
      onnx_add_tensor (graph, known_ints ("b", (gint64[]) { 1 }, 1));
      onnx_add_node (graph, nodes[i].op, nodes[i].inputs, nodes[i].outputs, NULL);
      file = onnx_finish (onnx_model (graph, 17));
      model = rlx_model_new_from_bytes (file, &error);
      if (model != NULL)
        built = rlx_model_build (model, NULL, NULL, &error);
      if (built != NULL)
        g_error ("%s of “%s” was accepted", nodes[i].op, nodes[i].inputs);
      g_assert_nonnull (error);
    }
}

/* From a file on disk to the result, without a blocking call. */
static void
test_async (void)
{
  g_autoptr(GBytes) bytes = onnx_finish (onnx_model (shape_graph (), 17));
  g_autofree char *folder = g_dir_make_tmp ("rlx-models-XXXXXX", NULL);
  g_autoptr(GFile) file = g_file_new_build_filename (folder, "model.onnx", NULL);
  g_autoptr(RlxTensor) x = rlx_tensor_new_from_floats ((gint64[]) { 1, 4 }, 2, (float[]) { -1, 2, 3, 4 }, 4, NULL);
  g_autoptr(GVariant) dimensions = g_variant_ref_sink (g_variant_new_parsed ("{'batch': <int64 3>}"));
  g_autoptr(GVariant) sizes = g_variant_ref_sink (g_variant_new_parsed ("{'batch': int64 3}"));
  g_autoptr(GCancellable) cancelled = g_cancellable_new ();
  g_autoptr(RlxSession) session = NULL;
  g_autoptr(RlxGraph) graph = NULL;
  g_autoptr(RlxExecutable) executable = NULL;
  g_auto(RlxTensors) outputs = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(GAsyncResult) opened = NULL, built = NULL, refused = NULL, prepared = NULL, run = NULL, late = NULL;
  GAsyncResult *result = NULL;
  const char *names[] = { "x", NULL };
  gsize n_outputs = 0;

  if (rlx_test_device () == NULL)
    return;
  g_assert_true (g_file_replace_contents (file, g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes), NULL, FALSE,
                                          G_FILE_CREATE_NONE, NULL, NULL, &error));
  rlx_session_open_async (file, rlx_test_device (), NULL, rlx_test_keep_result, &result);
  opened = rlx_test_wait_for (&result);
  session = rlx_session_open_finish (opened, &error);
  g_assert_no_error (error);
  rlx_test_remove_tree (folder);

  rlx_model_build_async (rlx_session_get_model (session), sizes, NULL, rlx_test_keep_result, &result);
  built = rlx_test_wait_for (&result);
  graph = rlx_model_build_finish (rlx_session_get_model (session), built, &error);
  g_assert_no_error (error);
  g_assert_nonnull (graph);
  rlx_model_build_async (rlx_session_get_model (session), dimensions, NULL, rlx_test_keep_result, &result);
  refused = rlx_test_wait_for (&result);
  g_assert_null (rlx_model_build_finish (rlx_session_get_model (session), refused, &error));
  g_assert_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_INVALID);
  g_clear_error (&error);

  rlx_session_prepare_async (session, names, &x, 1, NULL, rlx_test_keep_result, &result);
  prepared = rlx_test_wait_for (&result);
  executable = rlx_session_prepare_finish (session, prepared, &error);
  g_assert_no_error (error);
  g_assert_nonnull (executable);
  rlx_session_run_async (session, names, &x, 1, NULL, rlx_test_keep_result, &result);
  run = rlx_test_wait_for (&result);
  outputs = rlx_session_run_finish (session, run, &n_outputs, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (n_outputs, ==, 1);
  g_assert_cmpfloat (rlx_tensor_get_value (outputs[0], 3), ==, 4);
  g_assert_cmpuint (rlx_session_get_n_executables (session), ==, 1);

  g_cancellable_cancel (cancelled);
  rlx_session_run_async (session, names, &x, 1, cancelled, rlx_test_keep_result, &result);
  late = rlx_test_wait_for (&result);
  g_assert_null (rlx_session_run_finish (session, late, &n_outputs, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_assert_cmpuint (n_outputs, ==, 0);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/models/build", test_build);
  g_test_add_func ("/models/refused", test_refused);
  g_test_add_func ("/models/loop", test_loop);
  g_test_add_func ("/models/session", test_session);
  g_test_add_func ("/models/known-input", test_known_input);
  g_test_add_func ("/models/fixed-input", test_fixed_input);
  g_test_add_func ("/models/operands", test_operands);
  g_test_add_func ("/models/async", test_async);
  return g_test_run ();
}
