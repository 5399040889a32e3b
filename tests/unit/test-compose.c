/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Arithmetic that spells operators out, as exporters write it: how many dispatches are
 * left of it, and that the results are those of the graph as it stands.
 */
#include "config.h"

#include <math.h>

#include "rlx-test-util.h"
#include "util/rlx-debug-private.h"

typedef struct
{
  const char *name;
  const char *graph;       /* one node per line */
  guint dispatches;
  double tolerance;        /* relative to the largest element; twice the bound of the operator at a few σ, as both sides have
                            * errors */
} Case;

#define X "%0 = input \"x\" f32[2, 7, 24]\n%1 = parameter \"scale\" f32[24]\n%2 = parameter \"bias\" f32[24]\n%3 = constant f32[] [1e-5]\n" \
          "%4 = constant f32[] [2]\n"
#define MEAN "%5 = reduce_mean(%0) {axes = [-1], keep_dims = true}\n%6 = sub(%0, %5)\n"

#define ROPE "%0 = input \"x\" f32[2, 3, 7, 8]\n%1 = input \"cos\" f32[1, 1, 7, 8]\n%2 = input \"sin\" f32[1, 1, 7, 8]\n"

static const Case cases[] = {
  { "layer-norm",
    X MEAN
    "%7 = pow(%6, %4)\n"
    "%8 = reduce_mean(%7) {axes = [2], keep_dims = true}\n"
    "%9 = add(%8, %3)\n"
    "%10 = sqrt(%9)\n"
    "%11 = div(%6, %10)\n"
    "%12 = mul(%11, %1)\n"
    "%13 = add(%12, %2)\n"
    "output \"y\" %13\n", 1, 1e-5 },
  /* a product as the square, rsqrt, and three-dimensional factors on the left */
  { "layer-norm/rsqrt",
    "%0 = input \"x\" f32[2, 7, 24]\n%1 = parameter \"scale\" f32[1, 1, 24]\n%2 = parameter \"bias\" f32[1, 24]\n%3 = constant f32[] [1e-5]\n"
    "%4 = constant f32[] [2]\n"
    MEAN
    "%7 = mul(%6, %6)\n"
    "%8 = reduce_mean(%7) {axes = [2], keep_dims = true}\n"
    "%9 = add(%3, %8)\n"
    "%10 = rsqrt(%9)\n"
    "%11 = mul(%10, %6)\n"
    "%12 = mul(%1, %11)\n"
    "%13 = add(%2, %12)\n"
    "output \"y\" %13\n", 1, 1e-5 },
  /* the sum of two operands is fused */
  { "layer-norm/of-a-sum",
    "%0 = input \"a\" f32[2, 7, 24]\n%1 = input \"b\" f32[2, 7, 24]\n%2 = constant f32[] [1e-5]\n%3 = constant f32[] [2]\n"
    "%4 = add(%0, %1)\n"
    "%5 = reduce_mean(%4) {axes = [-1], keep_dims = true}\n"
    "%6 = sub(%4, %5)\n"
    "%7 = pow(%6, %3)\n"
    "%8 = reduce_mean(%7) {axes = [-1], keep_dims = true}\n"
    "%9 = add(%8, %2)\n"
    "%10 = sqrt(%9)\n"
    "%11 = div(%6, %10)\n"
    "output \"y\" %11\n", 1, 1e-5 },
  /* as in TensorFlow, with the mean of squares */
  { "layer-norm/mean-of-squares",
    X
    "%5 = reduce_mean(%0) {axes = [2], keep_dims = true}\n"
    "%6 = mul(%0, %0)\n"
    "%7 = reduce_mean(%6) {axes = [2], keep_dims = true}\n"
    "%8 = mul(%5, %5)\n"
    "%9 = sub(%7, %8)\n"
    "%10 = add(%9, %3)\n"
    "%11 = rsqrt(%10)\n"
    "%12 = mul(%11, %1)\n"
    "%13 = mul(%0, %12)\n"
    "%14 = mul(%5, %12)\n"
    "%15 = sub(%2, %14)\n"
    "%16 = add(%13, %15)\n"
    "output \"y\" %16\n", 1, 1e-5 },
  { "rms-norm",
    X
    "%5 = pow(%0, %4)\n"
    "%6 = reduce_mean(%5) {axes = [-1], keep_dims = true}\n"
    "%7 = add(%6, %3)\n"
    "%8 = sqrt(%7)\n"
    "%9 = reciprocal(%8)\n"
    "%10 = mul(%0, %9)\n"
    "%11 = mul(%1, %10)\n"
    "output \"y\" %11\n", 1, 1e-5 },
  { "rms-norm/one-divided",
    X
    "%5 = constant f32[] [1]\n"
    "%6 = mul(%0, %0)\n"
    "%7 = reduce_mean(%6) {axes = [-1], keep_dims = true}\n"
    "%8 = add(%7, %3)\n"
    "%9 = sqrt(%8)\n"
    "%10 = div(%5, %9)\n"
    "%11 = mul(%0, %10)\n"
    "output \"y\" %11\n", 1, 1e-5 },
  /* the subtracted mean, the mean of squares and the rest are over different axes */
  { "layer-norm/not-over-other-axes",
    X
    "%5 = reduce_mean(%0) {axes = [1], keep_dims = true}\n"
    "%6 = sub(%0, %5)\n"
    "%7 = mul(%6, %6)\n"
    "%8 = reduce_mean(%7) {axes = [2], keep_dims = true}\n"
    "%9 = add(%8, %3)\n"
    "%10 = rsqrt(%9)\n"
    "%11 = mul(%10, %0)\n"
    "output \"y\" %11\n", 4, 1e-5 },
  { "power",
    "%0 = input \"x\" f32[40]\n%1 = constant f32[] [3]\n%2 = constant f32[] [2]\n"
    "%3 = pow(%0, %1)\n%4 = pow(%0, %2)\n%5 = add(%3, %4)\noutput \"y\" %5\n", 1, 1e-6 },
  /* few elements, so that their range is found in the same kernel: quantise, product */
  { "product/scale-and-bias",
    "%0 = input \"x\" f32[5, 24]\n"
    "%1 = constant i8[24, 4] [$96]\n"
    "%2 = parameter \"bias\" f32[4]\n"
    "%3, %4, %5 = dynamic_quantize(%0)\n"
    "%6 = qmatmul(%3, %1, %5)\n"
    "%7 = cast(%6) {to = f32}\n"
    "%8 = mul(%7, %4)\n"
    "%9 = add(%8, %2)\n"
    "output \"y\" %9\n", 2, 1e-6 },
  /* as ONNX Runtime's tools write it, with scales of both, for each column: range, quantise, product */
  { "product/two-scales",
    "%0 = input \"x\" f32[700, 24]\n"
    "%1 = constant i8[24, 4] [$96]\n"
    "%2 = parameter \"bias\" f32[4]\n"
    "%3, %4, %5 = dynamic_quantize(%0)\n"
    "%6 = qmatmul(%3, %1, %5)\n"
    "%7 = cast(%6) {to = f32}\n"
    "%8 = parameter \"scales\" f32[4]\n"
    "%9 = mul(%4, %8)\n"
    "%10 = mul(%7, %9)\n"
    "%11 = add(%10, %2)\n"
    "output \"y\" %11\n", 3, 1e-6 },
  /* an exact i32 and a bias per channel */
  { "product/convolution",
    "%0 = input \"x\" f32[1, 3, 9, 8]\n"
    "%1 = constant i8[8, 3, 2, 2] [$96]\n"
    "%2 = parameter \"bias\" f32[8, 1, 1]\n"
    "%3 = parameter \"scale\" f32[1]\n"
    "%4, %5, %6 = dynamic_quantize(%0)\n"
    "%7 = qconv2d(%4, %1, %6)\n"
    "%8 = cast(%7) {to = f32}\n"
    "%9 = mul(%5, %3)\n"
    "%10 = mul(%8, %9)\n"
    "%11 = add(%10, %2)\n"
    "output \"y\" %11\n", 2, 1e-6 },
  /* a weight of bytes: plain, through a transpose, and with scales per column */
  { "product/bytes",
    "%0 = input \"x\" f32[3, 24]\n"
    "%1 = constant i8[24, 4] [$96]\n"
    "%2 = constant f32[] [0.0625]\n"
    "%3 = constant i8[] [7]\n"
    "%4 = dequantize_linear(%1, %2, %3)\n"
    "%5 = matmul(%0, %4)\n"
    "output \"y\" %5\n", 1, 1e-5 },
  { "product/transposed-bytes",
    "%0 = input \"x\" f32[3, 24]\n"
    "%1 = constant i8[4, 24] [$96]\n"
    "%2 = parameter \"scales\" f32[4]\n"
    "%3 = transpose(%1) {permutation = [1, 0]}\n"
    "%4 = dequantize_linear(%3, %2)\n"
    "%5 = matmul(%0, %4)\n"
    "output \"y\" %5\n", 1, 1e-5 },
  { "product/transposed-floats",
    "%0 = input \"x\" f32[3, 24]\n"
    "%1 = constant i8[4, 24] [$96]\n"
    "%2 = parameter \"scales\" f32[4, 1]\n"
    "%3 = constant i8[4, 1] [1, 2, 3, 4]\n"
    "%4 = dequantize_linear(%1, %2, %3)\n"
    "%5 = transpose(%4) {permutation = [1, 0]}\n"
    "%6 = matmul(%0, %5)\n"
    "output \"y\" %6\n", 1, 1e-5 },
  { "attention/guarded",
    "%0 = input \"q\" f32[2, 3, 7, 8]\n%1 = input \"k\" f32[2, 3, 9, 8]\n%2 = input \"v\" f32[2, 3, 9, 5]\n"
    "%3 = constant f32[] [0.59]\n%4 = constant f32[] [0]\n"
    "%5 = mul(%0, %3)\n"
    "%6 = transpose(%1) {permutation = [0, 1, 3, 2]}\n"
    "%7 = mul(%6, %3)\n"
    "%8 = matmul(%5, %7)\n"
    "%9 = softmax(%8) {axis = -1}\n"
    "%10 = is_nan(%9)\n"
    "%11 = where(%10, %4, %9)\n"
    "%12 = matmul(%11, %2)\n"
    "output \"y\" %12\n", 1, 1e-5 },
  /* The heads of the keys are repeated for those of the queries, as in Llama. */
  { "attention/repeated-heads",
    "%0 = input \"q\" f32[2, 6, 7, 8]\n%1 = input \"k\" f32[2, 2, 9, 8]\n%2 = input \"v\" f32[2, 2, 9, 5]\n"
    "%3 = reshape(%1) {shape = [2, 2, 1, 9, 8]}\n"
    "%4 = expand(%3) {shape = [2, 2, 3, 9, 8]}\n"
    "%5 = reshape(%4) {shape = [2, 6, 9, 8]}\n"
    "%6 = unsqueeze(%2) {axes = [2]}\n"
    "%7 = expand(%6) {shape = [2, 2, 3, 9, 5]}\n"
    "%8 = reshape(%7) {shape = [2, 6, 9, 5]}\n"
    "%9 = transpose(%5) {permutation = [0, 1, 3, 2]}\n"
    "%10 = matmul(%0, %9)\n"
    "%11 = softmax(%10) {axis = -1}\n"
    "%12 = matmul(%11, %8)\n"
    "output \"y\" %12\n", 1, 1e-5 },
  /* Interleaved heads: query head h uses key head h modulo 2, which attention does not support. */
  { "attention/heads-in-turn",
    "%0 = input \"q\" f32[2, 6, 7, 8]\n%1 = input \"k\" f32[2, 2, 9, 8]\n%2 = input \"v\" f32[2, 6, 9, 5]\n"
    "%3 = reshape(%1) {shape = [2, 1, 2, 9, 8]}\n"
    "%4 = expand(%3) {shape = [2, 3, 2, 9, 8]}\n"
    "%5 = reshape(%4) {shape = [2, 6, 9, 8]}\n"
    "%6 = matmul(%0, %5) {transpose_b = true}\n"
    "%7 = softmax(%6) {axis = -1}\n"
    "%8 = matmul(%7, %2)\n"
    "output \"y\" %8\n", 2, 1e-5 },
  { "rope/halves",
    ROPE
    "%3 = slice(%0) {starts = [4], ends = [8], axes = [3]}\n"
    "%4 = neg(%3)\n"
    "%5 = slice(%0) {starts = [0], ends = [4], axes = [3]}\n"
    "%6 = concat(%4, %5) {axis = -1}\n"
    "%7 = mul(%0, %1)\n"
    "%8 = mul(%6, %2)\n"
    "%9 = add(%7, %8)\n"
    "output \"y\" %9\n", 1, 1e-6 },
  /* interleaved pairs, a split, and the sine on the left */
  { "rope/neighbours",
    ROPE
    "%3 = slice(%0) {starts = [1], ends = [8], axes = [3], steps = [2]}\n"
    "%4 = unsqueeze(%3) {axes = [4]}\n"
    "%5 = neg(%4)\n"
    "%6 = slice(%0) {starts = [0], ends = [8], axes = [3], steps = [2]}\n"
    "%7 = unsqueeze(%6) {axes = [4]}\n"
    "%8 = concat(%5, %7) {axis = -1}\n"
    "%9 = reshape(%8) {shape = [2, 3, 7, 8]}\n"
    "%10 = mul(%2, %9)\n"
    "%11 = mul(%1, %0)\n"
    "%12 = add(%10, %11)\n"
    "output \"y\" %12\n", 1, 1e-6 },
  /* halves, with tables for half the width */
  { "rope/sides",
    "%0 = input \"x\" f32[2, 7, 3, 8]\n%1 = input \"cos\" f32[7, 1, 4]\n%2 = input \"sin\" f32[7, 1, 4]\n"
    "%3, %4 = split(%0) {axis = 3, parts = 2}\n"
    "%5 = mul(%3, %1)\n"
    "%6 = mul(%4, %2)\n"
    "%7 = sub(%5, %6)\n"
    "%8 = mul(%4, %1)\n"
    "%9 = mul(%3, %2)\n"
    "%10 = add(%8, %9)\n"
    "%11 = concat(%7, %10) {axis = 3}\n"
    "output \"y\" %11\n", 1, 1e-6 },
  { "rope/partial",
    "%0 = input \"x\" f32[2, 3, 7, 11]\n%1 = input \"cos\" f32[1, 1, 7, 8]\n%2 = input \"sin\" f32[1, 1, 7, 8]\n"
    "%3 = slice(%0) {starts = [0], ends = [8], axes = [3]}\n"
    "%4 = slice(%0) {starts = [8], ends = [11], axes = [3]}\n"
    "%5 = slice(%3) {starts = [4], ends = [8], axes = [3]}\n"
    "%6 = neg(%5)\n"
    "%7 = slice(%3) {starts = [0], ends = [4], axes = [3]}\n"
    "%8 = concat(%6, %7) {axis = -1}\n"
    "%9 = mul(%3, %1)\n"
    "%10 = mul(%8, %2)\n"
    "%11 = add(%9, %10)\n"
    "%12 = concat(%11, %4) {axis = -1}\n"
    "output \"y\" %12\n", 1, 1e-6 },
  /* Queries and keys with the same tables, reshaped for each of them: one dispatch, and one for the sum. */
  { "rope/together",
    "%0 = input \"q\" f32[1, 2, 7, 4]\n%1 = input \"k\" f32[1, 2, 7, 4]\n%2 = input \"cos\" f32[7, 4]\n%3 = input \"sin\" f32[7, 4]\n"
    "%4 = slice(%0) {starts = [2], ends = [4], axes = [3]}\n"
    "%5 = neg(%4)\n"
    "%6 = slice(%0) {starts = [0], ends = [2], axes = [3]}\n"
    "%7 = concat(%5, %6) {axis = -1}\n"
    "%8 = mul(%0, %2)\n"
    "%9 = mul(%7, %3)\n"
    "%10 = add(%8, %9)\n"
    "%11 = slice(%1) {starts = [2], ends = [4], axes = [3]}\n"
    "%12 = neg(%11)\n"
    "%13 = slice(%1) {starts = [0], ends = [2], axes = [3]}\n"
    "%14 = concat(%12, %13) {axis = -1}\n"
    "%15 = mul(%1, %2)\n"
    "%16 = mul(%14, %3)\n"
    "%17 = add(%15, %16)\n"
    "%18 = sub(%10, %17)\n"
    "output \"y\" %18\n", 2, 1e-6 },
  /* elements are repeated along both axes */
  { "resize/repeats",
    "%0 = input \"x\" f32[2, 3, 5, 4]\n"
    "%1 = resize(%0) {sizes = [10, 12], axes = [2, 3], coordinates = asymmetric, rounding = floor}\n"
    "output \"y\" %1\n", 1, 0 },
  { "resize/repeats-from-the-middle",
    "%0 = input \"x\" f32[2, 3, 5, 4]\n"
    "%1 = resize(%0) {sizes = [15, 4], axes = [2, 3]}\n"
    "output \"y\" %1\n", 1, 0 },
  /* Others repeat as well, but not evenly. */
  { "resize/repeats-unevenly",
    "%0 = input \"x\" f32[2, 3, 5, 4]\n"
    "%1 = resize(%0) {sizes = [10, 12], axes = [2, 3], coordinates = asymmetric, rounding = ceil}\n"
    "output \"y\" %1\n", 2, 0 },
  /* Both signs are kept: two copied slices and the sum. */
  { "rope/not-with-the-other-sign",
    ROPE
    "%3 = slice(%0) {starts = [4], ends = [8], axes = [3]}\n"
    "%5 = slice(%0) {starts = [0], ends = [4], axes = [3]}\n"
    "%6 = concat(%3, %5) {axis = -1}\n"
    "%7 = mul(%0, %1)\n"
    "%8 = mul(%6, %2)\n"
    "%9 = add(%7, %8)\n"
    "output \"y\" %9\n", 5, 1e-6 },
  { "attention/not-if-guarded-by-one",
    "%0 = input \"q\" f32[7, 8]\n%1 = input \"k\" f32[9, 8]\n%2 = input \"v\" f32[9, 5]\n%3 = constant f32[] [1]\n"
    "%4 = matmul(%0, %1) {transpose_b = true}\n"
    "%5 = softmax(%4) {axis = -1}\n"
    "%6 = is_nan(%5)\n"
    "%7 = where(%6, %3, %5)\n"
    "%8 = matmul(%7, %2)\n"
    "output \"y\" %8\n", 3, 1e-5 },
};

static RlxTensor *
make_value (RlxNode *node,
            guint    seed)
{
  gsize n_dims, n = 1;
  const gint64 *shape = rlx_node_get_shape (node, &n_dims);
  g_autofree float *values = NULL;
  g_autoptr(GBytes) bytes = NULL;

  for (gsize i = 0; i < n_dims; i++)
    n *= (gsize) shape[i];
  values = g_new (float, n);
  for (gsize i = 0; i < n; i++)
    {
      seed = seed * 1103515245u + 12345u;
      values[i] = 3.0f * (float) (seed >> 8) / (float) (1 << 24) - 1.0f;
    }
  bytes = g_bytes_new (values, n * sizeof (float));
  return rlx_tensor_new_from_bytes (RLX_DATA_TYPE_F32, shape, n_dims, bytes, NULL);
}

/* The result of the graph with these flags; the number of dispatches in @n. */
static RlxTensor *
run (RlxGraph     *graph,
     RlxDebugFlags flags,
     guint        *n)
{
  RlxDebugFlags before = rlx_debug_get_flags ();
  g_autoptr(GPtrArray) inputs = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(GError) error = NULL;
  RlxTensor **outputs;
  RlxTensor *result;

  rlx_debug_set_flags (before | flags);
  executable = rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error);
  rlx_debug_set_flags (before);
  g_assert_no_error (error);
  *n = rlx_executable_get_n_dispatches (executable);
  for (guint i = 0; i < g_list_model_get_n_items (G_LIST_MODEL (graph)); i++)
    {
      g_autoptr(RlxNode) node = g_list_model_get_item (G_LIST_MODEL (graph), i);

      if (g_str_equal (rlx_node_get_op (node), "input"))
        {
          g_ptr_array_add (inputs, make_value (node, i + 1));
        }
      else if (g_str_equal (rlx_node_get_op (node), "parameter"))
        {
          const char *names[] = { rlx_node_get_name (node), NULL };
          g_autoptr(RlxTensor) value = make_value (node, 100 + i);

          rlx_executable_set_parameters (executable, names, &value, 1, NULL, &error);
          g_assert_no_error (error);
        }
    }
  outputs = rlx_executable_run (executable, (RlxTensor **) inputs->pdata, inputs->len, NULL, NULL, &error);
  g_assert_no_error (error);
  result = g_object_ref (outputs[0]);
  rlx_tensors_free (outputs);
  return result;
}

static void
test_case (gconstpointer data)
{
  const Case *test = data;
  g_autoptr(GString) text = g_string_new ("rlx 1\n");
  g_autoptr(GString) numbers = g_string_new (NULL);
  g_autoptr(RlxGraph) graph = NULL;
  g_autoptr(RlxTensor) composed = NULL;
  g_autoptr(RlxTensor) plain = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree float *a = NULL;
  g_autofree float *b = NULL;
  guint n_composed, n_plain;
  gsize n, n_b;
  float largest = 0;

  if (rlx_test_device () == NULL)
    return;

  g_string_append (text, test->graph);
  for (gint i = 0; i < 96; i++)
    g_string_append_printf (numbers, "%s%d", i > 0 ? ", " : "", i * 37 % 255 - 127);
  g_string_replace (text, "$96", numbers->str, 0);
  graph = rlx_graph_new_from_text (text->str, &error);
  g_assert_no_error (error);
  composed = run (graph, 0, &n_composed);
  plain = run (graph, RLX_DEBUG_NO_RECOGNISE, &n_plain);
  g_assert_cmpuint (n_composed, ==, test->dispatches);

  a = rlx_tensor_to_floats (composed, &n, &error);
  g_assert_no_error (error);
  b = rlx_tensor_to_floats (plain, &n_b, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (n, ==, n_b);
  for (gsize i = 0; i < n; i++)
    largest = MAX (largest, fabsf (b[i]));
  g_assert_cmpfloat (largest, >, 0.1f);
  for (gsize i = 0; i < n; i++)
    g_assert_cmpfloat (fabsf (a[i] - b[i]), <=, (float) test->tolerance * largest);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *path = g_strconcat ("/compose/", cases[i].name, NULL);

      g_test_add_data_func (path, &cases[i], test_case);
    }

  return g_test_run ();
}
