/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Operators of ONNX of which ONNX has no cases, or none that tell all.
 */
#include "config.h"

#include <math.h>
#include <string.h>

#include "onnx-writer.h"
#include "rlx-test-util.h"

#define FLOAT 1

/* Adds a constant operand to a graph. */
static GByteArray *
add_known (GByteArray   *graph,
           const char   *name,
           const char   *type,
           const double *values)
{
  g_autoptr(RlxTensor) tensor = rlx_test_tensor (type, values);

  onnx_add_tensor (graph, onnx_tensor_from (name, tensor));
  return graph;
}

#define KNOWN(graph, name, type, ...) add_known (graph, name, type, (const double[]) { __VA_ARGS__ })

/* Takes ownership of the graph. Returns NULL with an error, or the outputs. */
static RlxTensor **
run (GByteArray *graph,
     int         opset,
     GError    **error)
{
  g_autoptr(GBytes) file = onnx_finish (onnx_model (graph, opset));
  g_autoptr(RlxModel) model = rlx_model_new_from_bytes (file, error);
  g_autoptr(RlxSession) session = NULL;
  const char *names[] = { NULL };

  if (model == NULL)
    return NULL;
  session = rlx_session_new (model, rlx_test_device (), NULL);
  return rlx_session_run (session, names, NULL, 0, NULL, NULL, error);
}

static void
check_refused (GByteArray *graph,
               int         opset,
               const char *what)
{
  g_autoptr(GError) error = NULL;
  g_auto(RlxTensors) outputs = run (graph, opset, &error);

  g_assert_null (outputs);
  g_assert_nonnull (error);
  if (strstr (error->message, what) == NULL)
    g_error ("“%s” does not say “%s”", error->message, what);
}

static void
test_linear_attention (void)
{
  for (guint gated = 0; gated < 2; gated++)
    {
      GByteArray *graph = g_byte_array_new ();
      g_autoptr(GError) error = NULL;
      g_auto(RlxTensors) outputs = NULL;

      KNOWN (graph, "q", "f32[1,2,1]", 1, 1);
      KNOWN (graph, "k", "f32[1,2,1]", 1, 2);
      KNOWN (graph, "v", "f32[1,2,1]", 3, 4);
      KNOWN (graph, "decay", "f32[1,2,1]", 0, log (0.5));
      KNOWN (graph, "beta", "f32[1,2,1]", 1, 1);
      KNOWN (graph, "past", "f32[1,1,1,1]", 0);
      onnx_add_output (graph, "y", FLOAT, NULL);
      onnx_add_output (graph, "present", FLOAT, NULL);
      onnx_add_node (graph, "LinearAttention", gated ? "q k v past decay beta" : "q k v past", "y present",
                     onnx_attr ("q_num_heads", g_variant_new_int64 (1)), onnx_attr ("kv_num_heads", g_variant_new_int64 (1)),
                     onnx_attr ("scale", g_variant_new_double (1)),
                     onnx_attr ("update_rule", g_variant_new_string (gated ? "gated_delta" : "linear")), NULL);
      outputs = run (graph, 27, &error);
      g_assert_no_error (error);
      /* 3, then 3 + 2 · 4; or halved, minus what the state holds for the key. */
      rlx_test_compare ("y", outputs[0], "f32[1,2,1]", gated ? (double[]) { 3, 3.5 } : (double[]) { 3, 11 }, 0, 1e-6);
      rlx_test_compare ("present", outputs[1], "f32[1,1,1,1]", gated ? (double[]) { 3.5 } : (double[]) { 11 }, 0, 1e-6);
    }
}

static void
test_causal_conv (void)
{
  GByteArray *graph = g_byte_array_new ();
  g_autoptr(GError) error = NULL;
  g_auto(RlxTensors) outputs = NULL;

  KNOWN (graph, "x", "f32[1,1,3]", 1, 2, 3);
  KNOWN (graph, "w", "f32[1,1,2]", 10, 1);
  KNOWN (graph, "past", "f32[1,1,1]", 5);
  onnx_add_output (graph, "y", FLOAT, NULL);
  onnx_add_output (graph, "present", FLOAT, NULL);
  onnx_add_node (graph, "CausalConvWithState", "x w - past", "y present", NULL);
  outputs = run (graph, 27, &error);
  g_assert_no_error (error);
  rlx_test_compare ("y", outputs[0], "f32[1,1,3]", (double[]) { 51, 12, 23 }, 0, 1e-6);
  rlx_test_compare ("present", outputs[1], "f32[1,1,1]", (double[]) { 3 }, 0, 0);

  graph = g_byte_array_new ();
  KNOWN (graph, "x", "f32[1,1,3]", 1, 2, 3);
  KNOWN (graph, "w", "f32[1,1,2]", 10, 1);
  onnx_add_output (graph, "y", FLOAT, NULL);
  onnx_add_node (graph, "CausalConvWithState", "x w", "y", onnx_attr ("activation", g_variant_new_string ("tanh")), NULL);
  check_refused (graph, 27, "activation “tanh”");
}

static void
test_random (void)
{
  GByteArray *graph = g_byte_array_new ();
  g_autoptr(GError) error = NULL;
  g_auto(RlxTensors) outputs = NULL;
  const gint64 shape[] = { 40, 25 };
  double sum = 0, squares = 0;

  {
    static const double zeros[1000];

    add_known (graph, "like", "f32[40,25]", zeros);
  }
  KNOWN (graph, "p", "f32[4]", 0, 1, 0, 1);
  KNOWN (graph, "logits", "f32[2,3]", -100, 0, -100, 0, -100, -100);
  for (guint i = 0; i < 6; i++)
    onnx_add_output (graph, ((const char *[]) { "a", "b", "c", "d", "e", "f" })[i], FLOAT, NULL);
  onnx_add_node (graph, "RandomUniform", "", "a", onnx_attr ("shape", g_variant_new_fixed_array (G_VARIANT_TYPE_INT64, shape, 2, 8)),
                 onnx_attr ("low", g_variant_new_double (2)), onnx_attr ("high", g_variant_new_double (3)), NULL);
  onnx_add_node (graph, "RandomNormalLike", "like", "b", onnx_attr ("mean", g_variant_new_double (10)), NULL);
  onnx_add_node (graph, "RandomUniformLike", "like", "c", onnx_attr ("seed", g_variant_new_double (7)), NULL);
  onnx_add_node (graph, "RandomUniformLike", "like", "d", onnx_attr ("seed", g_variant_new_double (7)), NULL);
  onnx_add_node (graph, "Bernoulli", "p", "e", NULL);
  onnx_add_node (graph, "Multinomial", "logits", "f", onnx_attr ("sample_size", g_variant_new_int64 (4)), NULL);
  outputs = run (graph, 22, &error);
  g_assert_no_error (error);
  for (gint64 i = 0; i < 1000; i++)
    {
      double a = rlx_tensor_get_value (outputs[0], i), b = rlx_tensor_get_value (outputs[1], i) - 10;

      g_assert_true (a >= 2 && a <= 3);
      sum += b;
      squares += b * b;
    }
  /* Five standard deviations of the moments of a thousand numbers. */
  g_assert_true (fabs (sum / 1000) < 0.16);
  g_assert_true (fabs (squares / 1000 - 1) < 0.23);
  g_assert_true (rlx_tensor_equal (outputs[2], outputs[3]));
  rlx_test_compare ("Bernoulli", outputs[4], "f32[4]", (double[]) { 0, 1, 0, 1 }, 0, 0);
  rlx_test_compare ("Multinomial", outputs[5], "i32[2,4]", (double[]) { 1, 1, 1, 1, 0, 0, 0, 0 }, 0, 0);
}

static void
test_embed (void)
{
  GByteArray *graph = g_byte_array_new ();
  g_autoptr(GError) error = NULL;
  g_auto(RlxTensors) outputs = NULL;

  KNOWN (graph, "ids", "i32[1,2]", 1, 0);
  KNOWN (graph, "segments", "i32[1,2]", 0, 1);
  KNOWN (graph, "words", "f32[2,2]", 1, 2, 3, 5);
  KNOWN (graph, "places", "f32[3,2]", 10, 20, 30, 40, 50, 60);
  KNOWN (graph, "kinds", "f32[2,2]", 100, 200, 300, 500);
  KNOWN (graph, "scale", "f32[2]", 1, 2);
  KNOWN (graph, "bias", "f32[2]", 0, 1);
  KNOWN (graph, "mask", "i32[1,2]", 1, 1);
  onnx_add_output (graph, "y", FLOAT, NULL);
  onnx_add_output (graph, "n", 6, NULL);
  onnx_add_output (graph, "sum", FLOAT, NULL);
  onnx_add_node (graph, "com.microsoft:EmbedLayerNormalization", "ids segments words places kinds scale bias mask", "y n sum", NULL);
  outputs = run (graph, 17, &error);
  g_assert_no_error (error);
  /* Two elements are one deviation below and above their mean. */
  rlx_test_compare ("y", outputs[0], "f32[1,2,2]", (double[]) { -1, 3, -1, 3 }, 1e-5, 0);
  rlx_test_compare ("n", outputs[1], "i32[1]", (double[]) { 2 }, 0, 0);
  rlx_test_compare ("sum", outputs[2], "f32[1,2,2]", (double[]) { 113, 225, 331, 542 }, 0, 0);
}

static void
test_old (void)
{
  GByteArray *graph = g_byte_array_new ();
  g_autoptr(GError) error = NULL;
  g_auto(RlxTensors) outputs = NULL;
  const gint64 border[] = { 1, 0, 0, 1 };

  KNOWN (graph, "x", "f32[1,1,2,3]", 1, 2, 3, 4, 5, 6);
  onnx_add_output (graph, "crop", FLOAT, NULL);
  onnx_add_output (graph, "affine", FLOAT, NULL);
  onnx_add_output (graph, "tanh", FLOAT, NULL);
  onnx_add_node (graph, "Crop", "x", "crop", onnx_attr ("border", g_variant_new_fixed_array (G_VARIANT_TYPE_INT64, border, 4, 8)), NULL);
  onnx_add_node (graph, "Affine", "crop", "affine", onnx_attr ("alpha", g_variant_new_double (2)), onnx_attr ("beta", g_variant_new_double (-3)), NULL);
  onnx_add_node (graph, "ScaledTanh", "affine", "tanh", onnx_attr ("alpha", g_variant_new_double (2)), onnx_attr ("beta", g_variant_new_double (0.5)), NULL);
  outputs = run (graph, 7, &error);
  g_assert_no_error (error);
  /* without the first column and the last row */
  rlx_test_compare ("crop", outputs[0], "f32[1,1,1,2]", (double[]) { 2, 3 }, 0, 0);
  rlx_test_compare ("affine", outputs[1], "f32[1,1,1,2]", (double[]) { 1, 3 }, 0, 0);
  rlx_test_compare ("tanh", outputs[2], "f32[1,1,1,2]", (double[]) { 2 * tanh (0.5), 2 * tanh (1.5) }, 1e-5, 0);
}

/* Arithmetic on storage-only types: in wider ones, and back. */
static void
test_stored (void)
{
  GByteArray *graph = g_byte_array_new ();
  g_autoptr(GError) error = NULL;
  g_auto(RlxTensors) outputs = NULL;

  KNOWN (graph, "a", "i16[2]", 32767, -5);
  KNOWN (graph, "b", "i16[2]", 1, 2);
  KNOWN (graph, "c", "bf16[2]", 1.5, 256);
  KNOWN (graph, "d", "bf16[2]", 1.0078125, 1);
  onnx_add_output (graph, "sum", 5, NULL);
  onnx_add_output (graph, "less", 9, NULL);
  onnx_add_output (graph, "product", 16, NULL);
  onnx_add_output (graph, "bytes", 17, NULL);
  KNOWN (graph, "n", "i64[1]", 3);
  onnx_add_output (graph, "known", FLOAT, NULL);
  onnx_add_node (graph, "Cast", "n", "known", onnx_attr ("to", g_variant_new_int64 (1)), onnx_attr ("saturate", g_variant_new_int64 (1)), NULL);
  onnx_add_node (graph, "Add", "a b", "sum", NULL);
  onnx_add_node (graph, "Less", "a b", "less", NULL);
  onnx_add_node (graph, "Mul", "c d", "product", NULL);
  onnx_add_node (graph, "Cast", "a", "bytes", onnx_attr ("to", g_variant_new_int64 (17)), onnx_attr ("saturate", g_variant_new_int64 (0)), NULL);
  outputs = run (graph, 25, &error);
  g_assert_no_error (error);
  rlx_test_compare ("sum", outputs[0], "i16[2]", (double[]) { -32768, -3 }, 0, 0);
  rlx_test_compare ("less", outputs[1], "bool[2]", (double[]) { 0, 1 }, 0, 0);
  /* 1.51171875 is half-way between two numbers, of which 1.515625 is even */
  rlx_test_compare ("product", outputs[2], "bf16[2]", (double[]) { 1.515625, 256 }, 0, 0);
  g_assert_true (isnan (rlx_tensor_get_value (outputs[3], 0)));
  g_assert_cmpfloat (rlx_tensor_get_value (outputs[3], 1), ==, -5);
  rlx_test_compare ("known", outputs[4], "f32[1]", (double[]) { 3 }, 0, 0);

  graph = g_byte_array_new ();
  KNOWN (graph, "x", "f32[2]", 1, 2);
  onnx_add_output (graph, "y", 24, NULL);
  onnx_add_node (graph, "Cast", "x", "y", onnx_attr ("to", g_variant_new_int64 (24)), onnx_attr ("round_mode", g_variant_new_string ("down")), NULL);
  check_refused (graph, 25, "rounds up");
}

static void
test_bits (void)
{
  GByteArray *graph = g_byte_array_new ();
  g_autoptr(GError) error = NULL;
  g_auto(RlxTensors) outputs = NULL;

  KNOWN (graph, "x", "f32[2]", 1, -2);
  KNOWN (graph, "y", "i8[2]", -1, 5);
  KNOWN (graph, "z", "i8[2]", 0, 0);
  onnx_add_output (graph, "a", 6, NULL);
  onnx_add_output (graph, "b", 2, NULL);
  onnx_add_node (graph, "BitCast", "x", "a", onnx_attr ("to", g_variant_new_int64 (6)), NULL);
  onnx_add_node (graph, "BitwiseOr", "y z", "computed", NULL);
  onnx_add_node (graph, "BitCast", "computed", "b", onnx_attr ("to", g_variant_new_int64 (2)), NULL);
  outputs = run (graph, 26, &error);
  g_assert_no_error (error);
  rlx_test_compare ("floats", outputs[0], "i32[2]", (double[]) { 0x3f800000, -0x40000000 }, 0, 0);
  rlx_test_compare ("bytes", outputs[1], "u8[2]", (double[]) { 255, 5 }, 0, 0);

  graph = g_byte_array_new ();
  KNOWN (graph, "x", "f32[2]", 1, -2);
  onnx_add_output (graph, "y", 6, NULL);
  onnx_add_node (graph, "Sin", "x", "computed", NULL);
  onnx_add_node (graph, "BitCast", "computed", "y", onnx_attr ("to", g_variant_new_int64 (6)), NULL);
  check_refused (graph, 26, "the bits of f32 as i32");
}

static void
test_regions (void)
{
  GByteArray *graph = g_byte_array_new ();

  KNOWN (graph, "x", "f32[1,1,2,2]", 1, 2, 3, 4);
  KNOWN (graph, "rois", "f32[1,4]", 0, 0, 1, 1);
  KNOWN (graph, "which", "i64[1]", 0);
  onnx_add_output (graph, "y", FLOAT, NULL);
  onnx_add_node (graph, "RoiAlign", "x rois which", "y", NULL);
  check_refused (graph, 16, "sampling_ratio of 0");
}

/* ---- norms behind filters ------------------------------------------------------------------------ */

/* A convolution in two groups of 2 channels each, and a norm. With @twice its result has another user. */
static GByteArray *
norm_graph (const char *op,
            gboolean    twice,
            double      variance)
{
  GByteArray *graph = g_byte_array_new ();

  onnx_add_input (graph, "x", FLOAT, "1 2 1 2");
  onnx_add_output (graph, "y", FLOAT, "1 4 1 2");
  onnx_add_output (graph, "z", FLOAT, "1 4 1 2");
  if (g_str_equal (op, "Conv"))
    KNOWN (graph, "w", "f32[4,1,1,1]", 1, 2, 3, 4);
  else
    KNOWN (graph, "w", "f32[2,2,1,1]", 1, 2, 3, 4);
  KNOWN (graph, "b", "f32[4]", 1, 0, -1, 0);
  KNOWN (graph, "scale", "f32[4]", 2, 4, -2, 1);
  KNOWN (graph, "shift", "f32[4]", 0, 1, 2, 3);
  KNOWN (graph, "mean", "f32[4]", 1, 1, -1, 2);
  KNOWN (graph, "variance", "f32[4]", variance, 0.75, 3.75, 0);
  onnx_add_node (graph, op, "x w b", "c", onnx_attr ("group", g_variant_new_int64 (2)), NULL);
  onnx_add_node (graph, "BatchNormalization", "c scale shift mean variance", "y", onnx_attr ("epsilon", g_variant_new_double (0.25)), NULL);
  onnx_add_node (graph, "Neg", twice ? "c" : "y", "z", NULL);
  return graph;
}

static guint
count_norms (RlxModel *model)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxGraph) graph = rlx_model_build (model, NULL, NULL, &error);
  g_autofree char *text = NULL;

  g_assert_no_error (error);
  text = rlx_graph_to_text (graph);
  return strstr (text, "batch_norm") != NULL;
}

static void
test_norms (void)
{
  static const char *const ops[] = { "Conv", "ConvTranspose" };
  const char *names[] = { "x", NULL };

  if (rlx_test_device () == NULL)
    return;

  /* c = 1·x + 1, 2·x, 3·z - 1, 4·z, with factors of 4, 4, -1 and 2 */
  for (guint i = 0; i < 6; i++)
    {
      gboolean twice = i / 2 == 1;
      double variance = i / 2 == 2 ? -0.25 + 0x1p-126 : 0;
      g_autoptr(GBytes) file = onnx_finish (onnx_model (norm_graph (ops[i % 2], twice, variance), 15));
      g_autoptr(GError) error = NULL;
      g_autoptr(RlxModel) model = rlx_model_new_from_bytes (file, &error);
      g_autoptr(RlxSession) session = NULL;
      g_autoptr(RlxTensor) x = rlx_test_tensor ("f32[1,2,1,2]", (double[]) { 1, 3, 5, -1 });
      g_auto(RlxTensors) outputs = NULL;

      g_assert_no_error (error);
      g_assert_cmpuint (count_norms (model), ==, twice || variance != 0);
      if (variance != 0)
        continue;
      session = rlx_session_new (model, rlx_test_device (), NULL);
      outputs = rlx_session_run (session, names, &x, 1, NULL, NULL, &error);
      g_assert_no_error (error);
      rlx_test_compare (ops[i % 2], outputs[0], "f32[1,4,1,2]", (double[]) { 4, 12, 5, 21, -13, 5, 39, -9 }, 1e-4, 1e-6);
    }
}

/* The norm of a product [1, 2, 2] by known columns. */
static GByteArray *
product_norm_graph (const char *scale_type)
{
  GByteArray *graph = g_byte_array_new ();

  onnx_add_input (graph, "x", FLOAT, "1 2 2");
  onnx_add_output (graph, "y", FLOAT, "1 2 2");
  KNOWN (graph, "w", "f32[2,2]", 1, 0, 0, 1);
  KNOWN (graph, "scale", scale_type, 2, 3);
  KNOWN (graph, "shift", "f32[2]", 0, 0);
  KNOWN (graph, "variance", "f32[2]", 0.75, 0.75);
  onnx_add_node (graph, "MatMul", "x w", "c", NULL);
  onnx_add_node (graph, "BatchNormalization", "c scale shift shift variance", "y", onnx_attr ("epsilon", g_variant_new_double (0.25)), NULL);
  return graph;
}

/* The channels of a norm are rows of a product, not its columns, which the filter could be scaled by. */
static void
test_norm_of_rows (void)
{
  const char *names[] = { "x", NULL };
  g_autoptr(GBytes) file = onnx_finish (onnx_model (product_norm_graph ("f32[2]"), 15));
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxModel) model = rlx_model_new_from_bytes (file, &error);
  g_autoptr(RlxSession) session = NULL;
  g_autoptr(RlxTensor) x = rlx_test_tensor ("f32[1,2,2]", (double[]) { 1, 1, 1, 1 });
  g_auto(RlxTensors) outputs = NULL;

  if (rlx_test_device () == NULL)
    return;
  g_assert_no_error (error);
  session = rlx_session_new (model, rlx_test_device (), NULL);
  outputs = rlx_session_run (session, names, &x, 1, NULL, NULL, &error);
  g_assert_no_error (error);
  rlx_test_compare ("y", outputs[0], "f32[1,2,2]", (double[]) { 2, 2, 3, 3 }, 1e-4, 1e-6);
}

/* Fewer factors than channels are not read beyond their end. */
static void
test_norm_of_few (void)
{
  g_autoptr(GBytes) file = onnx_finish (onnx_model (product_norm_graph ("f32[1,2]"), 15));
  GByteArray *graph = g_byte_array_new ();
  g_autoptr(GBytes) small = NULL;

  onnx_add_input (graph, "x", FLOAT, "1 1 1 1");
  onnx_add_output (graph, "y", FLOAT, NULL);
  KNOWN (graph, "w", "f32[8,1,1,1]", 1, 2, 3, 4, 5, 6, 7, 8);
  KNOWN (graph, "scale", "f32[2]", 2, 3);
  onnx_add_node (graph, "Conv", "x w", "c", NULL);
  onnx_add_node (graph, "BatchNormalization", "c scale scale scale scale", "y", NULL);
  small = onnx_finish (onnx_model (graph, 15));
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr(GError) error = NULL;
      g_autoptr(RlxModel) model = rlx_model_new_from_bytes (i == 0 ? file : small, &error);
      g_autoptr(RlxGraph) built = NULL;

      g_assert_no_error (error);
      built = rlx_model_build (model, NULL, NULL, &error);
      g_assert_null (built);
      g_assert_nonnull (strstr (error->message, "BatchNormalization"));
    }
}

/* Two norms of one filter, each with its own factors. */
static void
test_norms_share (void)
{
  const char *names[] = { "x", NULL };
  GByteArray *graph = g_byte_array_new ();
  g_autoptr(GBytes) file = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxModel) model = NULL;
  g_autoptr(RlxSession) session = NULL;
  g_autoptr(RlxTensor) x = rlx_test_tensor ("f32[1,1,1,1]", (double[]) { 1 });
  g_auto(RlxTensors) outputs = NULL;

  if (rlx_test_device () == NULL)
    return;
  onnx_add_input (graph, "x", FLOAT, "1 1 1 1");
  onnx_add_output (graph, "y", FLOAT, "1 2 1 1");
  onnx_add_output (graph, "z", FLOAT, "1 2 1 1");
  KNOWN (graph, "w", "f32[2,1,1,1]", 1, 2);
  KNOWN (graph, "zeros", "f32[2]", 0, 0);
  KNOWN (graph, "variance", "f32[2]", 0.75, 0.75);
  KNOWN (graph, "first", "f32[2]", 2, 3);
  KNOWN (graph, "second", "f32[2]", 5, 7);
  onnx_add_node (graph, "Conv", "x w", "c", NULL);
  onnx_add_node (graph, "Conv", "x w", "d", NULL);
  onnx_add_node (graph, "BatchNormalization", "c first zeros zeros variance", "y", onnx_attr ("epsilon", g_variant_new_double (0.25)), NULL);
  onnx_add_node (graph, "BatchNormalization", "d second zeros zeros variance", "z", onnx_attr ("epsilon", g_variant_new_double (0.25)), NULL);
  file = onnx_finish (onnx_model (graph, 15));
  model = rlx_model_new_from_bytes (file, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (count_norms (model), ==, 0);
  session = rlx_session_new (model, rlx_test_device (), NULL);
  outputs = rlx_session_run (session, names, &x, 1, NULL, NULL, &error);
  g_assert_no_error (error);
  rlx_test_compare ("y", outputs[0], "f32[1,2,1,1]", (double[]) { 2, 6 }, 1e-4, 1e-6);
  rlx_test_compare ("z", outputs[1], "f32[1,2,1,1]", (double[]) { 5, 14 }, 1e-4, 1e-6);
}

/* ---- arguments that nobody can mean ------------------------------------------------------------------ */

/* A node on x, f32[1, 6, 1], followed by a constant operand of i64. */
static GByteArray *
hostile_graph (const char   *op,
               const gint64 *values,
               gsize         n_values,
               GByteArray   *attribute)
{
  GByteArray *graph = g_byte_array_new ();
  const gint64 n = (gint64) n_values, zero = 0;

  KNOWN (graph, "x", "f32[1,6,1]", 1, 2, 3, 4, 5, 6);
  KNOWN (graph, "w", "f32[4,6,1]", 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6);
  onnx_add_tensor (graph, onnx_tensor ("n", 7, &n, 1, values, n_values * sizeof *values));
  onnx_add_tensor (graph, onnx_tensor ("i", 7, (const gint64[]) { 1 }, 1, values, sizeof *values));
  onnx_add_tensor (graph, onnx_tensor ("scalar", 7, NULL, 0, values, sizeof *values));
  onnx_add_tensor (graph, onnx_tensor ("zero", 7, NULL, 0, &zero, sizeof zero));
  onnx_add_tensor (graph, onnx_tensor ("one", 7, NULL, 0, (const gint64[]) { 1 }, sizeof zero));
  onnx_add_output (graph, "y", FLOAT, NULL);
  onnx_add_node (graph, op,
                 g_str_equal (op, "Conv") ? "x w" : g_str_equal (op, "ConstantOfShape") ? "n" : g_str_equal (op, "Range") ? "zero scalar one"
                 : g_str_equal (op, "Slice") ? "x i i i i" : g_str_equal (op, "Add") ? "x" : "x n",
                 "y", attribute, NULL);
  return graph;
}

#define HOSTILE(what, op, attribute, ...) \
  check_refused (hostile_graph (op, (const gint64[]) { __VA_ARGS__ }, G_N_ELEMENTS (((const gint64[]) { __VA_ARGS__ })), attribute), 17, what)
#define LIST(name, ...) onnx_attr (name, g_variant_new_parsed ("[" #__VA_ARGS__ "]"))

static void
test_hostile (void)
{
  const gint64 huge = G_GINT64_CONSTANT (1) << 40, most = G_MAXINT64;

  if (rlx_test_device () == NULL)
    return;

  HOSTILE ("Reshape", "Reshape", NULL, -1, -1);
  HOSTILE ("Reshape", "Reshape", NULL, 1, 6, 1, 0);
  HOSTILE ("Reshape", "Reshape", NULL, 5);
  HOSTILE ("Reshape", "Reshape", NULL, huge, huge);
  HOSTILE ("Gather", "Gather", onnx_attr ("axis", g_variant_new_int64 (1)), 6);
  HOSTILE ("Gather", "Gather", onnx_attr ("axis", g_variant_new_int64 (1)), -7);
  HOSTILE ("Gather", "Gather", onnx_attr ("axis", g_variant_new_int64 (3)), 0);
  HOSTILE ("Split", "Split", onnx_attr ("axis", g_variant_new_int64 (1)), 2, 2);
  HOSTILE ("Slice", "Slice", NULL, 0);
  HOSTILE ("Tile", "Tile", NULL, huge, huge, 1);
  HOSTILE ("Tile", "Tile", NULL, -1, 1, 1);
  HOSTILE ("Expand", "Expand", NULL, huge, 6, 1);
  HOSTILE ("Expand", "Expand", NULL, most, most, most);
  HOSTILE ("Pad", "Pad", NULL, 0, 0, 0, 0, 0, huge);
  HOSTILE ("Pad", "Pad", NULL, 0, most, 0, 0, most, 0);
  HOSTILE ("Pad", "Pad", NULL, 0, -7, 0, 0, 0, 0);
  HOSTILE ("ConstantOfShape", "ConstantOfShape", NULL, huge);
  HOSTILE ("ConstantOfShape", "ConstantOfShape", NULL, most, 2);
  HOSTILE ("ConstantOfShape", "ConstantOfShape", NULL, -1);
  HOSTILE ("Range", "Range", NULL, most);
  HOSTILE ("Relu", "Relu", NULL, 1);
  HOSTILE ("Add", "Add", NULL, 1);
  HOSTILE ("Conv", "Conv", LIST ("strides", int64 0), 1);
  HOSTILE ("Conv", "Conv", LIST ("strides", int64 -1), 1);
  HOSTILE ("Conv", "Conv", LIST ("dilations", int64 0), 1);
  HOSTILE ("Conv", "Conv", LIST ("pads", int64 -1, 0), 1);
  HOSTILE ("Conv", "Conv", LIST ("pads", int64 9223372036854775807, 9223372036854775807), 1);
  HOSTILE ("Conv", "Conv", LIST ("kernel_shape", int64 2), 1);
  HOSTILE ("Conv", "Conv", onnx_attr ("group", g_variant_new_int64 (0)), 1);
  HOSTILE ("Conv", "Conv", onnx_attr ("group", g_variant_new_int64 (4)), 1);
  HOSTILE ("Conv", "Conv", onnx_attr ("group", g_variant_new_int64 (G_MININT64)), 1);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  if (rlx_test_device () == NULL)
    return 77;
  g_test_add_func ("/onnx-rows/linear-attention", test_linear_attention);
  g_test_add_func ("/onnx-rows/causal-conv", test_causal_conv);
  g_test_add_func ("/onnx-rows/random", test_random);
  g_test_add_func ("/onnx-rows/embed", test_embed);
  g_test_add_func ("/onnx-rows/old", test_old);
  g_test_add_func ("/onnx-rows/stored", test_stored);
  g_test_add_func ("/onnx-rows/bits", test_bits);
  g_test_add_func ("/onnx-rows/regions", test_regions);
  g_test_add_func ("/onnx-rows/hostile", test_hostile);
  g_test_add_func ("/onnx-rows/norms", test_norms);
  g_test_add_func ("/onnx-rows/norms/rows", test_norm_of_rows);
  g_test_add_func ("/onnx-rows/norms/few", test_norm_of_few);
  g_test_add_func ("/onnx-rows/norms/share", test_norms_share);
  return g_test_run ();
}
