/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Models whose outputs are as large as the data says.
 */
#include "config.h"

#include <string.h>

#include "onnx-writer.h"
#include "rlx-test-util.h"

#define FLOAT 1
#define INT64 7
#define BOOL 9

static void
add_ints (GByteArray   *graph,
          const char   *name,
          const gint64 *values,
          gint64        n)
{
  onnx_add_tensor (graph, onnx_tensor (name, INT64, &n, 1, values, (gsize) n * sizeof *values));
}

#define INTS(graph, name, ...) \
  add_ints (graph, name, (const gint64[]) { __VA_ARGS__ }, G_N_ELEMENTS (((const gint64[]) { __VA_ARGS__ })))

static RlxModel *
load (GByteArray *graph)
{
  g_autoptr(GBytes) file = onnx_finish (onnx_model (graph, 17));
  g_autoptr(GError) error = NULL;
  RlxModel *model = rlx_model_new_from_bytes (file, &error);

  g_assert_no_error (error);
  return model;
}

/* Checks an output of a run with the input "x". */
static void
check (RlxSession   *session,
       const char   *type,
       const double *values,
       guint         index,
       const char   *want,
       const double *wanted)
{
  g_autoptr(RlxTensor) x = rlx_test_tensor (type, values);
  const char *names[] = { "x", NULL };
  g_auto(RlxTensors) outputs = NULL;
  g_autoptr(GError) error = NULL;

  outputs = rlx_session_run (session, names, &x, 1, NULL, NULL, &error);
  g_assert_no_error (error);
  rlx_test_compare (rlx_session_get_output_names (session)[index], outputs[index], want, wanted, 0, 0);
}

#define NUMBERS(...) ((const double[]) { __VA_ARGS__ })

/* Results of any length from a single executable; and what can be computed from them. */
static void
test_non_zero (void)
{
  GByteArray *graph = g_byte_array_new ();
  g_autoptr(RlxModel) model = NULL;
  g_autoptr(RlxSession) session = NULL;
  g_autoptr(RlxGraph) built = NULL;
  g_autoptr(GError) error = NULL;
  g_auto(GStrv) names = NULL;

  if (rlx_test_device () == NULL)
    return;

  onnx_add_input (graph, "x", FLOAT, "2 3");
  onnx_add_output (graph, "places", INT64, "2 ?");
  onnx_add_output (graph, "values", FLOAT, "?");
  onnx_add_output (graph, "shape", INT64, "2");
  onnx_add_output (graph, "first", INT64, "? 2");
  INTS (graph, "zero", 0);
  INTS (graph, "two", 2);
  onnx_add_node (graph, "NonZero", "x", "places", NULL);
  onnx_add_node (graph, "Transpose", "places", "rows", NULL);
  onnx_add_node (graph, "GatherND", "x rows", "picked", NULL);
  onnx_add_node (graph, "Add", "picked picked", "values", NULL);
  onnx_add_node (graph, "Shape", "rows", "shape", NULL);
  onnx_add_node (graph, "Slice", "rows zero two zero", "first", NULL);
  model = load (graph);
  session = rlx_session_new (model, rlx_test_device (), NULL);

  check (session, "f32[2,3]", NUMBERS (0, 5, 0, 7, 0, 9), 0, "i64[2,3]", NUMBERS (0, 1, 1, 1, 0, 2));
  check (session, "f32[2,3]", NUMBERS (0, 5, 0, 7, 0, 9), 1, "f32[3]", NUMBERS (10, 14, 18));
  check (session, "f32[2,3]", NUMBERS (0, 5, 0, 7, 0, 9), 2, "i64[2]", NUMBERS (3, 2));
  check (session, "f32[2,3]", NUMBERS (0, 5, 0, 7, 0, 9), 3, "i64[2,2]", NUMBERS (0, 1, 1, 0));
  check (session, "f32[2,3]", NUMBERS (0, 0, 4, 0, 0, 0), 0, "i64[2,1]", NUMBERS (0, 2));
  check (session, "f32[2,3]", NUMBERS (0, 0, 4, 0, 0, 0), 3, "i64[1,2]", NUMBERS (0, 2));
  check (session, "f32[2,3]", NUMBERS (1, 2, 3, 4, 5, 6), 1, "f32[6]", NUMBERS (2, 4, 6, 8, 10, 12));
  check (session, "f32[2,3]", NUMBERS (0, 0, 0, 0, 0, 0), 1, "f32[0]", NULL);
  check (session, "f32[2,3]", NUMBERS (0, 0, 0, 0, 0, 0), 2, "i64[2]", NUMBERS (0, 2));
  g_assert_cmpuint (rlx_session_get_n_executables (session), ==, 1);

  /* The graph has the maximum sizes, and outputs the actual ones. */
  built = rlx_model_build (model, NULL, NULL, &error);
  g_assert_no_error (error);
  names = rlx_graph_dup_output_names (built);
  g_assert_cmpstrv (names, ((const char *[]) { "places", "places.1", "values", "values.0", "shape", "first", "first.0", NULL }));
}

/* Along an axis, with fewer conditions than elements. */
static void
test_compress (void)
{
  GByteArray *graph = g_byte_array_new ();
  g_autoptr(RlxModel) model = NULL;
  g_autoptr(RlxSession) session = NULL;

  if (rlx_test_device () == NULL)
    return;

  onnx_add_input (graph, "x", FLOAT, "2 3");
  onnx_add_output (graph, "y", FLOAT, "2 ?");
  INTS (graph, "zero", 0);
  INTS (graph, "axes", 0);
  INTS (graph, "starts", 0);
  INTS (graph, "ends", 2);
  INTS (graph, "last", 1);
  onnx_add_node (graph, "Gather", "x zero", "row", onnx_attr ("axis", g_variant_new_int64 (0)), NULL);
  onnx_add_node (graph, "Squeeze", "row axes", "flat", NULL);
  onnx_add_node (graph, "Slice", "flat starts ends", "few", NULL);
  onnx_add_node (graph, "Cast", "few", "conditions", onnx_attr ("to", g_variant_new_int64 (BOOL)), NULL);
  onnx_add_node (graph, "Compress", "x conditions", "kept", onnx_attr ("axis", g_variant_new_int64 (-1)), NULL);
  onnx_add_node (graph, "Neg", "kept", "y", NULL);
  model = load (graph);
  session = rlx_session_new (model, rlx_test_device (), NULL);
  check (session, "f32[2,3]", NUMBERS (0, 5, 7, 1, 2, 3), 0, "f32[2,1]", NUMBERS (-5, -2));
  check (session, "f32[2,3]", NUMBERS (8, 5, 7, 1, 2, 3), 0, "f32[2,2]", NUMBERS (-8, -5, -1, -2));
  check (session, "f32[2,3]", NUMBERS (0, 0, 7, 1, 2, 3), 0, "f32[2,0]", NULL);
  g_assert_cmpuint (rlx_session_get_n_executables (session), ==, 1);
}

/* Known conditions tell the size; a session asks for them, and for nothing else, if an operator needs it. */
static void
test_known_conditions (void)
{
  for (guint given = 0; given < 2; given++)
    {
      GByteArray *graph = g_byte_array_new ();
      g_autoptr(RlxModel) model = NULL;
      g_autoptr(RlxSession) session = NULL;
      g_autoptr(RlxGraph) built = NULL;
      g_autoptr(GError) error = NULL;
      g_auto(GStrv) names = NULL;
      const gint64 n = 3;

      onnx_add_input (graph, "x", FLOAT, "3");
      if (given)
        onnx_add_input (graph, "conditions", BOOL, "3");
      else
        onnx_add_tensor (graph, onnx_tensor ("conditions", BOOL, &n, 1, (const guint8[]) { 1, 0, 1 }, 3));
      onnx_add_output (graph, "y", FLOAT, "?");
      INTS (graph, "zero", 0);
      onnx_add_node (graph, "Compress", "x conditions", "kept", onnx_attr ("axis", g_variant_new_int64 (0)), NULL);
      onnx_add_node (graph, "CumSum", "kept zero", "y", NULL);
      model = load (graph);
      if (!given)
        {
          built = rlx_model_build (model, NULL, NULL, &error);
          g_assert_no_error (error);
          names = rlx_graph_dup_output_names (built);
          g_assert_cmpstrv (names, ((const char *[]) { "y", NULL }));
        }
      if (rlx_test_device () == NULL)
        continue;
      session = rlx_session_new (model, rlx_test_device (), NULL);
      for (guint i = 0; i < 2; i++)
        {
          g_autoptr(RlxTensor) x = rlx_test_tensor ("f32[3]", i == 0 ? NUMBERS (1, 2, 4) : NUMBERS (8, 2, 16));
          g_autoptr(RlxTensor) conditions = rlx_test_tensor ("bool[3]", NUMBERS (1, 0, 1));
          RlxTensor *inputs[] = { x, conditions };
          const char *given_names[] = { "x", given ? "conditions" : NULL, NULL };
          g_auto(RlxTensors) outputs = rlx_session_run (session, given_names, inputs, 1 + given, NULL, NULL, &error);

          g_assert_no_error (error);
          rlx_test_compare ("y", outputs[0], "f32[2]", i == 0 ? NUMBERS (1, 5) : NUMBERS (8, 24), 0, 0);
        }
      g_assert_cmpuint (rlx_session_get_n_executables (session), ==, 1);
    }
}

/* What a session keeps for its next run has no padding either. */
static void
test_state (void)
{
  GByteArray *graph = g_byte_array_new ();
  g_autoptr(RlxModel) model = NULL;
  g_autoptr(RlxSession) session = NULL;
  g_autoptr(GError) error = NULL;

  if (rlx_test_device () == NULL)
    return;

  onnx_add_input (graph, "x", FLOAT, "4");
  onnx_add_input (graph, "before", FLOAT, "n");
  onnx_add_output (graph, "y", FLOAT, "n");
  onnx_add_output (graph, "kept", FLOAT, "?");
  onnx_add_node (graph, "Neg", "before", "y", NULL);
  onnx_add_node (graph, "Cast", "x", "conditions", onnx_attr ("to", g_variant_new_int64 (BOOL)), NULL);
  onnx_add_node (graph, "Compress", "x conditions", "kept", onnx_attr ("axis", g_variant_new_int64 (0)), NULL);
  model = load (graph);
  session = rlx_session_new (model, rlx_test_device (), NULL);
  rlx_session_set_max_rows (session, 0);
  rlx_session_add_state (session, "before", "kept", &error);
  g_assert_no_error (error);
  check (session, "f32[4]", NUMBERS (0, 5, 0, 7), 0, "f32[0]", NULL);
  check (session, "f32[4]", NUMBERS (1, 2, 0, 3), 0, "f32[2]", NUMBERS (-5, -7));
  check (session, "f32[4]", NUMBERS (1, 2, 3, 4), 0, "f32[3]", NUMBERS (-1, -2, -3));
}

/* The end of a detector: indices, and the boxes that they select. */
static void
test_detector (void)
{
  GByteArray *graph = g_byte_array_new ();
  g_autoptr(RlxModel) model = NULL;
  g_autoptr(RlxSession) session = NULL;
  g_autoptr(RlxTensor) boxes = rlx_test_tensor ("f32[1,3,4]", NUMBERS (0, 0, 2, 2, 0, 0, 2, 1.5, 5, 5, 6, 6));
  g_autoptr(RlxTensor) overlap = rlx_test_tensor ("f32[1]", NUMBERS (0.5));
  g_autoptr(RlxTensor) score = rlx_test_tensor ("f32[1]", NUMBERS (0.125));

  if (rlx_test_device () == NULL)
    return;

  onnx_add_input (graph, "x", FLOAT, "1 2 3");
  onnx_add_output (graph, "found", INT64, "? 3");
  onnx_add_output (graph, "corners", FLOAT, "? 4");
  onnx_add_tensor (graph, onnx_tensor_from ("boxes", boxes));
  onnx_add_tensor (graph, onnx_tensor_from ("overlap", overlap));
  onnx_add_tensor (graph, onnx_tensor_from ("score", score));
  INTS (graph, "most", 2);
  INTS (graph, "column", 2);
  INTS (graph, "axis", 1);
  INTS (graph, "to", -1, 4);
  onnx_add_node (graph, "NonMaxSuppression", "boxes x most overlap score", "found", NULL);
  onnx_add_node (graph, "Gather", "found column", "which", onnx_attr ("axis", g_variant_new_int64 (1)), NULL);
  onnx_add_node (graph, "Squeeze", "which axis", "indices", NULL);
  onnx_add_node (graph, "Gather", "boxes indices", "picked", onnx_attr ("axis", g_variant_new_int64 (1)), NULL);
  onnx_add_node (graph, "Transpose", "picked", "rows", onnx_attr ("perm", g_variant_new_parsed ("[int64 1, 0, 2]")), NULL);
  onnx_add_node (graph, "Reshape", "rows to", "corners", NULL);
  model = load (graph);
  session = rlx_session_new (model, rlx_test_device (), NULL);
  check (session, "f32[1,2,3]", NUMBERS (0.5, 0.75, 0.25, 0, 0.5, 0), 0, "i64[3,3]", NUMBERS (0, 0, 1, 0, 0, 2, 0, 1, 1));
  check (session, "f32[1,2,3]", NUMBERS (0.5, 0.75, 0.25, 0, 0.5, 0), 1, "f32[3,4]", NUMBERS (0, 0, 2, 1.5, 5, 5, 6, 6, 0, 0, 2, 1.5));
  check (session, "f32[1,2,3]", NUMBERS (0, 0, 0, 0, 0, 0.125), 1, "f32[0,4]", NULL);
  check (session, "f32[1,2,3]", NUMBERS (0, 0, 0, 0, 0, 1), 0, "i64[1,3]", NUMBERS (0, 1, 2));
  g_assert_cmpuint (rlx_session_get_n_executables (session), ==, 1);
}

/* Doubles x until its sum is above 20, at most six times. */
static GByteArray *
loop_graph (gboolean grows)
{
  GByteArray *graph = g_byte_array_new (), *body = g_byte_array_new ();
  const float limit = 20;

  onnx_add_input (body, "i", INT64, "");
  onnx_add_input (body, "going", BOOL, "");
  onnx_add_input (body, "before", FLOAT, "?");
  onnx_add_output (body, "again", BOOL, "");
  onnx_add_output (body, "after", FLOAT, "?");
  onnx_add_output (body, "seen", FLOAT, "?");
  onnx_add_node (body, grows ? "Concat" : "Add", "before before", "after", grows ? onnx_attr ("axis", g_variant_new_int64 (0)) : NULL, NULL);
  onnx_add_node (body, "ReduceSum", "after", "sum", onnx_attr ("keepdims", g_variant_new_int64 (0)), NULL);
  onnx_add_node (body, "Less", "sum most", "again", NULL);
  onnx_add_node (body, "Identity", "before", "seen", NULL);

  onnx_add_input (graph, "x", FLOAT, "2");
  onnx_add_output (graph, "y", FLOAT, "?");
  onnx_add_output (graph, "all", FLOAT, "? 2");
  onnx_add_tensor (graph, onnx_tensor ("steps", INT64, NULL, 0, (const gint64[]) { 6 }, sizeof (gint64)));
  onnx_add_tensor (graph, onnx_tensor ("most", FLOAT, NULL, 0, &limit, sizeof limit));
  onnx_add_node (graph, "Loop", "steps - x", "y all", onnx_attr_graph ("body", body), NULL);
  return graph;
}

/* A data-dependent number of steps, up to a limit. */
static void
test_loop (void)
{
  g_autoptr(RlxModel) model = load (loop_graph (FALSE));
  g_autoptr(RlxModel) growing = load (loop_graph (TRUE));
  g_autoptr(RlxSession) session = NULL;
  g_autoptr(RlxGraph) built = NULL;
  g_autoptr(GError) error = NULL;

  built = rlx_model_build (growing, NULL, NULL, &error);
  g_assert_null (built);
  g_assert_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_UNSUPPORTED);
  g_assert_nonnull (strstr (error->message, "number of steps is computed from data"));
  if (rlx_test_device () == NULL)
    return;

  session = rlx_session_new (model, rlx_test_device (), NULL);
  check (session, "f32[2]", NUMBERS (1, 2), 0, "f32[2]", NUMBERS (8, 16));
  check (session, "f32[2]", NUMBERS (1, 2), 1, "f32[3,2]", NUMBERS (1, 2, 2, 4, 4, 8));
  /* the first step is always executed, and the sixth is the last */
  check (session, "f32[2]", NUMBERS (50, 0), 0, "f32[2]", NUMBERS (100, 0));
  check (session, "f32[2]", NUMBERS (50, 0), 1, "f32[1,2]", NUMBERS (50, 0));
  check (session, "f32[2]", NUMBERS (0, 0.125), 0, "f32[2]", NUMBERS (0, 8));
  check (session, "f32[2]", NUMBERS (0, 0.125), 1, "f32[6,2]", NUMBERS (0, 0.125, 0, 0.25, 0, 0.5, 0, 1, 0, 2, 0, 4));
  g_assert_cmpuint (rlx_session_get_n_executables (session), ==, 1);
}

/* Operators that need the size report an error that names the node. */
static void
test_refused (void)
{
  static const char *const ends[][2] = { { "CumSum", "places zero" }, { "Expand", "zero shape" }, { "Add", "places other" }, { "Concat", "places other" } };

  if (rlx_test_device () == NULL)
    return;

  for (guint i = 0; i < G_N_ELEMENTS (ends); i++)
    {
      GByteArray *graph = g_byte_array_new ();
      g_autoptr(RlxModel) model = NULL;
      g_autoptr(RlxGraph) built = NULL;
      g_autoptr(GError) error = NULL;

      onnx_add_input (graph, "x", FLOAT, "6");
      onnx_add_input (graph, "z", FLOAT, "6");
      onnx_add_output (graph, "y", INT64, "?");
      INTS (graph, "zero", 0);
      onnx_add_node (graph, "NonZero", "x", "places", NULL);
      onnx_add_node (graph, "NonZero", "z", "other", NULL);
      onnx_add_node (graph, "Shape", "places", "shape", NULL);
      onnx_add_node (graph, ends[i][0], ends[i][1], "y", g_str_equal (ends[i][0], "Concat") ? onnx_attr ("axis", g_variant_new_int64 (0)) : NULL, NULL);
      model = load (graph);
      built = rlx_model_build (model, NULL, NULL, &error);
      g_assert_null (built);
      g_assert_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_UNSUPPORTED);
      g_assert_nonnull (strstr (error->message, ends[i][0]));
      g_assert_nonnull (strstr (error->message, i == 1 ? "computed from data" : "depends on data"));
    }
}

/* Padding would be part of the result, or the size of another operand depends on it. */
static void
test_padding (void)
{
  static const struct
  {
    const char *op;
    const char *inputs;
    const char *attribute;
    gint64 value;
    gint64 opset;
    gboolean ok;
  } ends[] = {
    { "BatchNormalization", "floats ones ones ones ones", "training_mode", 1, 17, FALSE },
    { "BatchNormalization", "floats ones ones ones ones", "training_mode", 0, 17, TRUE },
    { "Gemm", "floats one many", "transB", 0, 17, FALSE },
    { "Gemm", "floats one one", "transB", 0, 17, TRUE },
    { "Add", "floats ones", "axis", 0, 6, FALSE },
    { "Reshape", "floats huge", NULL, 0, 17, FALSE },
  };
  const gint64 sizes[] = { 6, 1, 1 };
  const float numbers[6] = { 1, 1, 1, 1, 1, 1 };

  for (guint i = 0; i < G_N_ELEMENTS (ends); i++)
    {
      GByteArray *graph = g_byte_array_new ();
      g_autoptr(GBytes) file = NULL;
      g_autoptr(RlxModel) model = NULL;
      g_autoptr(RlxGraph) built = NULL;
      g_autoptr(GError) error = NULL;

      onnx_add_input (graph, "x", FLOAT, "6");
      onnx_add_output (graph, "y", FLOAT, "?");
      onnx_add_tensor (graph, onnx_tensor ("many", FLOAT, sizes, 2, numbers, sizeof numbers));
      onnx_add_tensor (graph, onnx_tensor ("one", FLOAT, sizes + 1, 2, numbers, sizeof (float)));
      onnx_add_tensor (graph, onnx_tensor ("ones", FLOAT, sizes + 1, 1, numbers, sizeof (float)));
      INTS (graph, "huge", -1, G_GINT64_CONSTANT (1) << 32, G_GINT64_CONSTANT (1) << 32);
      onnx_add_node (graph, "NonZero", "x", "places", NULL);
      onnx_add_node (graph, "Transpose", "places", "rows", NULL);
      onnx_add_node (graph, "Cast", "rows", "floats", onnx_attr ("to", g_variant_new_int64 (FLOAT)), NULL);
      onnx_add_node (graph, ends[i].op, ends[i].inputs, "y",
                     ends[i].attribute != NULL ? onnx_attr (ends[i].attribute, g_variant_new_int64 (ends[i].value)) : NULL, NULL);
      file = onnx_finish (onnx_model (graph, ends[i].opset));
      model = rlx_model_new_from_bytes (file, &error);
      g_assert_no_error (error);
      built = rlx_model_build (model, NULL, NULL, &error);
      if (ends[i].ok)
        {
          g_assert_no_error (error);
          continue;
        }
      g_assert_null (built);
      g_assert_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_UNSUPPORTED);
      g_assert_nonnull (strstr (error->message, "depends on data"));
    }
}

/* What is allocated does not depend on how large a file says its inputs are. */
static void
test_limit (void)
{
  static const char *const ops[] = { "NonZero", "Unique" };

  for (guint i = 0; i < G_N_ELEMENTS (ops); i++)
    {
      GByteArray *graph = g_byte_array_new ();
      g_autoptr(RlxModel) model = NULL;
      g_autoptr(RlxGraph) built = NULL;
      g_autoptr(GError) error = NULL;

      onnx_add_input (graph, "x", FLOAT, "16777217");
      onnx_add_output (graph, "y", i == 0 ? INT64 : FLOAT, "?");
      onnx_add_node (graph, ops[i], "x", "y", NULL);
      model = load (graph);
      built = rlx_model_build (model, NULL, NULL, &error);
      g_assert_null (built);
      g_assert_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_LIMIT);
      g_assert_nonnull (strstr (error->message, "“y” depends on which of 16777217 elements data selects, more than 16777216"));
    }
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/open/non-zero", test_non_zero);
  g_test_add_func ("/open/compress", test_compress);
  g_test_add_func ("/open/known-conditions", test_known_conditions);
  g_test_add_func ("/open/state", test_state);
  g_test_add_func ("/open/detector", test_detector);
  g_test_add_func ("/open/loop", test_loop);
  g_test_add_func ("/open/refused", test_refused);
  g_test_add_func ("/open/padding", test_padding);
  g_test_add_func ("/open/limit", test_limit);

  return g_test_run ();
}
