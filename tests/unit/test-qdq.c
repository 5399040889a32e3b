/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Quantised graphs, computed with integers and, for comparison, as they are
 * written down.
 */
#include "config.h"

#include <math.h>
#include <string.h>

#include "rlx-test-util.h"
#include "util/rlx-debug-private.h"

static RlxGraph *
read_graph (const char *body)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *text = g_strconcat ("rlx 1\n", body, NULL);
  RlxGraph *graph = rlx_graph_new_from_text (text, &error);

  g_assert_no_error (error);
  return graph;
}

static RlxExecutable *
compile (RlxGraph *graph,
         gboolean  fuse)
{
  g_autoptr (GError) error = NULL;
  RlxDebugFlags flags = rlx_debug_get_flags ();
  RlxExecutable *executable;

  rlx_debug_set_flags (fuse ? flags & ~RLX_DEBUG_NO_FUSE : flags | RLX_DEBUG_NO_FUSE);
  executable = rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error);
  rlx_debug_set_flags (flags);
  g_assert_no_error (error);
  return executable;
}

/* The operators or kernels of a run, in order. */
static char *
list_steps (RlxExecutable *executable,
            const char    *what)
{
  g_autoptr (GVariant) plan = rlx_executable_dup_plan (executable);
  g_autoptr (GVariantIter) steps = NULL;
  GString *list = g_string_new (NULL);
  GVariant *step;

  g_variant_lookup (plan, "steps", "aa{sv}", &steps);
  while ((step = g_variant_iter_next_value (steps)) != NULL)
    {
      const char *name = "";
      gboolean prologue = FALSE;

      g_variant_lookup (step, what, "&s", &name);
      g_variant_lookup (step, "prologue", "b", &prologue);
      if (!prologue)
        g_string_append_printf (list, "%s%s", list->len > 0 ? " " : "", name);
      g_variant_unref (step);
    }
  return g_string_free (list, FALSE);
}

/* A tensor for each input: integers of the whole range, floats up to 8. */
static RlxTensor **
make_inputs (RlxGraph      *graph,
             RlxExecutable *executable,
             gsize         *n_inputs)
{
  const char *const *names = rlx_executable_get_input_names (executable);
  GPtrArray *inputs = g_ptr_array_new ();

  for (guint i = 0; names[i] != NULL; i++)
    {
      g_autoptr (GString) type = g_string_new (NULL);
      RlxNode *node = rlx_graph_lookup (graph, names[i]);
      RlxDataType data_type = rlx_node_get_data_type (node);
      const gint64 *shape;
      gsize n_dims;
      double least, most;

      shape = rlx_node_get_shape (node, &n_dims);
      g_string_append_printf (type, "%s[", rlx_data_type_to_string (data_type));
      for (gsize j = 0; j < n_dims; j++)
        g_string_append_printf (type, "%s%" G_GINT64_FORMAT, j > 0 ? "," : "", shape[j]);
      g_string_append (type, "]");
      least = data_type == RLX_DATA_TYPE_U8 || data_type == RLX_DATA_TYPE_U4 ? 0 : data_type == RLX_DATA_TYPE_I8 ? -128 : -8;
      most = data_type == RLX_DATA_TYPE_U8 ? 255 : data_type == RLX_DATA_TYPE_I8 ? 127 : data_type == RLX_DATA_TYPE_U4 ? 15 : 7;
      g_ptr_array_add (inputs, rlx_test_random (type->str, least, most, 77 + i));
    }
  *n_inputs = inputs->len;
  return (RlxTensor **) g_ptr_array_free (inputs, FALSE);
}

static void
free_tensors (RlxTensor **tensors,
              gsize       n)
{
  for (gsize i = 0; i < n; i++)
    g_object_unref (tensors[i]);
  g_free (tensors);
}

typedef struct
{
  const char *name;
  const char *body;
  const char *what;      /* "op" or "kernel" */
  const char *steps;     /* of a run that uses integers; after a bar those on a CPU, if different */
} Case;

/* Scales are powers of two, or the computation is exact in any case: the bits are the
 * same with integers and without. */
static const Case cases[] = {
  { "moves",
    "%0 = input \"x\" i8[4, 6]\n"
    "%1 = constant f32[] [0.07]\n"
    "%2 = constant i8[] [-5]\n"
    "%3 = dequantize_linear(%0, %1, %2)\n"
    "%4 = reshape(%3) {shape = [2, 2, 6]}\n"
    "%5 = transpose(%4) {permutation = [2, 0, 1]}\n"
    "%6 = slice(%5) {starts = [1, 0, 0], ends = [6, 2, 2], steps = [2, 1, 1]}\n"
    "%7 = quantize_linear(%6, %1, %2) {to = i8}\n"
    "output \"y\" %7\n",
    "op", "transpose slice" },
  { "moves of halves",
    "%0 = input \"x\" u8[4, 6]\n"
    "%1 = constant f16[] [0.07]\n"
    "%2 = constant u8[] [130]\n"
    "%3 = dequantize_linear(%0, %1, %2)\n"
    "%4 = transpose(%3) {permutation = [1, 0]}\n"
    "%5 = quantize_linear(%4, %1, %2) {to = u8}\n"
    "output \"y\" %5\n",
    "op", "transpose" },
  { "moves of nibbles",
    "%0 = input \"x\" i4[4, 6]\n"
    "%1 = constant f32[] [0.3]\n"
    "%3 = dequantize_linear(%0, %1)\n"
    "%4 = transpose(%3) {permutation = [1, 0]}\n"
    "%5 = quantize_linear(%4, %1) {to = i4}\n"
    "output \"y\" %5\n",
    "op", "transpose" },
  { "several results and users",
    "%0 = input \"x\" u8[4, 6]\n"
    "%1 = constant f32[1, 1] [0.3]\n"
    "%2 = constant u8[1, 1] [9]\n"
    "%3 = dequantize_linear(%0, %1, %2)\n"
    "%4, %5, %6 = split(%3) {axis = 1, parts = 3}\n"
    "%7 = quantize_linear(%4, %1, %2) {to = u8}\n"
    "%8 = quantize_linear(%5, %1, %2) {to = u8}\n"
    "%9 = concat(%6, %4) {axis = 0}\n"
    "%10 = quantize_linear(%9, %1, %2) {to = u8}\n"
    "output \"a\" %7\noutput \"b\" %8\noutput \"c\" %10\noutput \"d\" %6\n",
    NULL, NULL },
  { "other scales",
    "%0 = input \"x\" i8[4, 6]\n"
    "%1 = constant f32[] [0.25]\n"
    "%2 = constant f32[] [0.5]\n"
    "%3 = dequantize_linear(%0, %1)\n"
    "%4 = transpose(%3) {permutation = [1, 0]}\n"
    "%5 = quantize_linear(%4, %2) {to = i8}\n"
    "output \"y\" %5\n",
    "op", "dequantize_linear transpose quantize_linear" },
  { "a scale that is not known",
    "%0 = input \"x\" i8[4, 6]\n"
    "%1 = input \"s\" f32[]\n"
    "%3 = dequantize_linear(%0, %1)\n"
    "%4 = transpose(%3) {permutation = [1, 0]}\n"
    "%5 = quantize_linear(%4, %1) {to = i8}\n"
    "output \"y\" %5\n",
    "op", "dequantize_linear transpose quantize_linear" },
  { "a scale that is too small",
    "%0 = input \"x\" i8[4, 6]\n"
    "%1 = constant f32[] [1e-44]\n"
    "%3 = dequantize_linear(%0, %1)\n"
    "%4 = transpose(%3) {permutation = [1, 0]}\n"
    "%5 = quantize_linear(%4, %1) {to = i8}\n"
    "output \"y\" %5\n",
    "op", "dequantize_linear transpose quantize_linear" },
  { "gathers",
    "%0 = input \"x\" u8[5, 7]\n"
    "%1 = constant f32[] [0.3]\n"
    "%2 = constant u8[] [9]\n"
    "%3 = constant i32[3] [4, -5, 1]\n"
    "%4 = dequantize_linear(%0, %1, %2)\n"
    "%5 = gather(%4, %3) {axis = 0}\n"
    "%6 = reverse(%5) {axes = [1]}\n"
    "%7 = quantize_linear(%6, %1, %2) {to = u8}\n"
    "output \"y\" %7\n",
    "op", "gather reverse" },
  { "pads",
    "%0 = input \"x\" i8[4, 6]\n"
    "%1 = constant f32[] [0.3]\n"
    "%2 = constant i8[] [3]\n"
    "%3 = constant f32[] [1.9]\n"
    "%4 = dequantize_linear(%0, %1, %2)\n"
    "%5 = pad(%4) {before = [1, 0], after = [0, 2], mode = reflect}\n"
    "%6 = pad(%5, %3) {before = [1, 2], after = [0, 1]}\n"
    "%7 = pad(%6) {before = [0, 2], after = [0, 1]}\n"
    "%8 = quantize_linear(%7, %1, %2) {to = i8}\n"
    "output \"y\" %8\n",
    "op", "pad pad pad" },
  { "limits",
    "%0 = input \"x\" i8[300]\n"
    "%1 = constant f32[] [0.3]\n"
    "%2 = constant i8[] [3]\n"
    "%4 = dequantize_linear(%0, %1, %2)\n"
    "%5 = clamp(%4) {minimum = -20, maximum = 7.77}\n"
    "%6 = quantize_linear(%5, %1, %2) {to = i8}\n"
    "%7 = relu(%4)\n"
    "%8 = quantize_linear(%7, %1, %2) {to = i8}\n"
    "output \"y\" %6\noutput \"z\" %8\n",
    "kernel", "clamp clamp" },
  { "a limit between two levels",
    "%0 = input \"x\" i8[300]\n"
    "%1 = constant f32[] [0.5]\n"
    "%4 = dequantize_linear(%0, %1)\n"
    "%5 = clamp(%4) {minimum = -2.25, maximum = 7.75}\n"
    "%6 = quantize_linear(%5, %1) {to = i8}\n"
    "output \"y\" %6\n",
    "kernel", "cast+mul+clamp+div+round_even+cast" },
  { "picks",
    "%0 = input \"x\" i8[1, 2, 9, 8]\n"
    "%1 = input \"b\" i8[1, 2, 1, 1]\n"
    "%2 = constant f32[] [0.3]\n"
    "%3 = constant i8[] [3]\n"
    "%4 = dequantize_linear(%0, %2, %3)\n"
    "%5 = dequantize_linear(%1, %2, %3)\n"
    "%6 = max_pool(%4) {window = [3, 2], strides = [2, 1], padding = [1, 2, 1, 0]}\n"
    "%7 = max(%6, %5)\n"
    "%8 = reduce_min(%7) {axes = [2]}\n"
    "%9 = quantize_linear(%8, %2, %3) {to = i8}\n"
    "output \"y\" %9\n",
    "op", "max_pool fused reduce_min" },
  { "windows that may be of padding alone",
    "%0 = input \"x\" i8[1, 2, 9, 8]\n"
    "%2 = constant f32[] [0.3]\n"
    "%4 = dequantize_linear(%0, %2)\n"
    "%6 = max_pool(%4) {window = [2, 2], dilations = [4, 1], padding = [1, 1, 1, 0]}\n"
    "%9 = quantize_linear(%6, %2) {to = i8}\n"
    "output \"y\" %9\n",
    "op", "dequantize_linear max_pool quantize_linear" },
  { "comparisons",
    "%0 = input \"x\" u8[300]\n"
    "%1 = input \"b\" u8[300]\n"
    "%2 = constant f32[] [0.3]\n"
    "%3 = constant u8[] [3]\n"
    "%4 = dequantize_linear(%0, %2, %3)\n"
    "%5 = dequantize_linear(%1, %2, %3)\n"
    "%6 = less(%4, %5)\n"
    "%7 = equal(%4, %5)\n"
    "%8 = arg_max(%4) {axis = 0}\n"
    "output \"y\" %6\noutput \"z\" %7\noutput \"w\" %8\n",
    "kernel", "less equal arg" },
  { "element-wise operators",
    "%0 = input \"x\" u8[3, 50]\n"
    "%1 = input \"b\" i8[3, 1]\n"
    "%2 = constant f32[] [0.031]\n"
    "%3 = constant u8[] [3]\n"
    "%4 = constant f32[3, 1] [0.031, 0.5, 0.1]\n"
    "%5 = constant i8[3, 1] [5, -6, 0]\n"
    "%6 = constant f32[] [0.22]\n"
    "%7 = constant i8[] [-9]\n"
    "%8 = dequantize_linear(%0, %2, %3)\n"
    "%9 = dequantize_linear(%1, %4, %5)\n"
    "%10 = sub(%8, %9)\n"
    "%11 = leaky_relu(%10) {alpha = 0.2}\n"
    "%12 = quantize_linear(%11, %6, %7) {to = i8}\n"
    "output \"y\" %12\n",
    "kernel", "cast+sub+mul cast+sub+mul+sub+leaky_relu+div+3 more" },
  { "element-wise operators and 4 bits",
    "%0 = input \"x\" u4[3, 50]\n"
    "%2 = constant f32[50] [" "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50" "]\n"
    "%6 = constant f32[] [22]\n"
    "%8 = dequantize_linear(%0, %2)\n"
    "%11 = abs(%8)\n"
    "%12 = quantize_linear(%11, %6) {to = u4}\n"
    "output \"y\" %12\n",
    "kernel", "cast+mul+abs+div+round_even+cast" },
  { "a scalar with a scale that is a vector",
    "%0 = input \"x\" i8[]\n"
    "%1 = input \"s\" f32[1]\n"
    "%2 = dequantize_linear(%0, %1)\n"
    "%3 = exp(%2)\n"
    "%4 = quantize_linear(%3, %1) {to = i8}\n"
    "output \"y\" %4\n",
    "op", "dequantize_linear fused quantize_linear" },
  { "a product of matrices",
    "%0 = input \"x\" u8[2, 9, 64]\n"
    "%1 = input \"w\" i8[12, 64]\n"
    "%2 = constant f32[] [0.125]\n"
    "%3 = constant u8[] [120]\n"
    "%4 = constant f32[12, 1] [1, 2, 4, 8, 0.5, 0.25, 1, 2, 4, 8, 1, 1]\n"
    "%5 = constant i8[12, 1] [1, -2, 3, 4, 5, 6, 7, 8, 9, 10, -128, 127]\n"
    "%6 = input \"b\" f32[12]\n"
    "%7 = constant f32[] [256]\n"
    "%8 = constant i8[] [-20]\n"
    "%9 = dequantize_linear(%0, %2, %3)\n"
    "%10 = dequantize_linear(%1, %4, %5)\n"
    "%11 = linear(%9, %10, %6) {transpose_b = true}\n"
    "%12 = relu(%11)\n"
    "%13 = clamp(%12) {minimum = -1, maximum = 20000}\n"
    "%14 = quantize_linear(%13, %7, %8) {to = i8}\n"
    "output \"y\" %14\n",
    "op", "qmatmul" },
  { "a product whose result is used twice",
    "%0 = input \"x\" i8[9, 7]\n"
    "%1 = input \"w\" u8[7, 5]\n"
    "%2 = constant f32[] [0.125]\n"
    "%3 = constant u8[] [120]\n"
    "%4 = constant f32[] [8]\n"
    "%9 = dequantize_linear(%0, %2)\n"
    "%10 = dequantize_linear(%1, %2, %3)\n"
    "%11 = matmul(%9, %10)\n"
    "%14 = quantize_linear(%11, %4) {to = i8}\n"
    "output \"y\" %14\noutput \"z\" %11\n",
    "op", "qmatmul quantize_linear" },
  { "convolutions with channels first",
    "%0 = input \"x\" u8[1, 8, 24, 24]\n"
    "%1 = input \"w\" i8[16, 8, 3, 3]\n"
    "%2 = input \"v\" i8[8, 16, 3, 3]\n"
    "%3 = constant f32[] [0.5]\n"
    "%4 = constant u8[] [100]\n"
    "%5 = constant f32[16, 1, 1, 1] [1, 2, 4, 8, 0.5, 0.25, 1, 2, 4, 8, 1, 1, 1, 1, 1, 1]\n"
    "%6 = input \"b\" f32[16]\n"
    "%7 = constant f32[] [512]\n"
    "%8 = constant u8[] [77]\n"
    "%9 = dequantize_linear(%0, %3, %4)\n"
    "%10 = dequantize_linear(%1, %5)\n"
    "%11 = conv(%9, %10, %6) {padding = [1, 1, 1, 1]}\n"
    "%12 = relu(%11)\n"
    "%13 = quantize_linear(%12, %7, %8) {to = u8}\n"
    "%14 = dequantize_linear(%13, %7, %8)\n"
    "%15 = dequantize_linear(%2, %3)\n"
    "%16 = conv(%14, %15) {padding = [1, 1, 0, 2], strides = [2, 1]}\n"
    "%17 = quantize_linear(%16, %7) {to = i8}\n"
    "output \"y\" %17\n",
    "op", "transpose transpose qconv2d transpose qconv2d transpose|fused fused conv fused conv" },
  { "a convolution of a constant filter",
    "%0 = input \"x\" f32[1, 4, 16, 16]\n"
    "%1 = constant i8[4, 4, 3, 3] [-127, -90, -53, -16, 21, 58, 95, -123, -86, -49, -12, 25, 62, 99, -119, -82, -45, -8, 29, 66, 103, -115, -78, -41, -4, 33, 70, 107, -111, -74, -37, 0, 37, 74, 111, -107, -70, -33, 4, 41, 78, 115, -103, -66, -29, 8, 45, 82, 119, -99, -62, -25, 12, 49, 86, 123, -95, -58, -21, 16, 53, 90, 127, -91, -54, -17, 20, 57, 94, -124, -87, -50, -13, 24, 61, 98, -120, -83, -46, -9, 28, 65, 102, -116, -79, -42, -5, 32, 69, 106, -112, -75, -38, -1, 36, 73, 110, -108, -71, -34, 3, 40, 77, 114, -104, -67, -30, 7, 44, 81, 118, -100, -63, -26, 11, 48, 85, 122, -96, -59, -22, 15, 52, 89, 126, -92, -55, -18, 19, 56, 93, -125, -88, -51, -14, 23, 60, 97, -121, -84, -47, -10, 27, 64]\n"
    "%2 = constant f32[4, 1, 1, 1] [1, 2, 0.5, 4]\n"
    "%3 = constant f32[] [0.25]\n"
    "%4 = constant u8[] [100]\n"
    "%5 = constant f32[] [256]\n"
    "%6 = quantize_linear(%0, %3, %4) {to = u8}\n"
    "%7 = dequantize_linear(%6, %3, %4)\n"
    "%8 = dequantize_linear(%1, %2)\n"
    "%9 = conv(%7, %8)\n"
    "%10 = quantize_linear(%9, %5, %4) {to = u8}\n"
    "%11 = dequantize_linear(%10, %5, %4)\n"
    "%12 = conv(%11, %8)\n"
    "output \"y\" %12\n",
    "op", "quantize_linear qconv2d qconv2d|quantize_linear fused conv conv" },
  { "a small convolution",
    "%0 = input \"x\" u8[1, 6, 6, 3]\n"
    "%1 = input \"w\" u8[2, 2, 3, 4]\n"
    "%3 = constant f32[] [0.5]\n"
    "%4 = constant u8[] [100]\n"
    "%9 = dequantize_linear(%0, %3, %4)\n"
    "%10 = dequantize_linear(%1, %3, %4)\n"
    "%11 = conv(%9, %10) {layout = channels-last, filter_layout = sio}\n"
    "output \"y\" %11\n",
    "op", "qconv2d" },
  { "a filter with scales along the sum",
    "%0 = input \"x\" u8[1, 3, 6, 6]\n"
    "%1 = input \"w\" i8[4, 3, 2, 2]\n"
    "%3 = constant f32[] [0.5]\n"
    "%4 = constant f32[1, 3, 1, 1] [0.5, 1, 2]\n"
    "%9 = dequantize_linear(%0, %3)\n"
    "%10 = dequantize_linear(%1, %4)\n"
    "%11 = conv(%9, %10)\n"
    "output \"y\" %11\n",
    "op", "dequantize_linear dequantize_linear conv" },
};

/* Runs @graph both ways on the same inputs. */
static void
check_graph (RlxGraph   *graph,
             const char *name,
             const Case *expect)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxExecutable) with = compile (graph, TRUE), without = compile (graph, FALSE);
  RlxTensor **inputs, **results, **expected;
  gsize n_inputs, n;

  if (expect != NULL && expect->steps != NULL)
    {
      g_autofree char *steps = list_steps (with, expect->what);

      g_auto (GStrv) wanted = g_strsplit (expect->steps, "|", 2);

      g_assert_cmpstr (steps, ==, wanted[wanted[1] != NULL && !rlx_test_target ()->loads_coalesce ? 1 : 0]);
    }

  inputs = make_inputs (graph, with, &n_inputs);
  results = rlx_executable_run (with, inputs, n_inputs, &n, NULL, &error);
  g_assert_no_error (error);
  expected = rlx_executable_run (without, inputs, n_inputs, &n, NULL, &error);
  g_assert_no_error (error);
  for (gsize i = 0; i < n; i++)
    {
      g_autofree double *got = rlx_test_get_values (results[i]), *wanted = rlx_test_get_values (expected[i]);

      for (gint64 j = 0; j < rlx_tensor_get_n_elements (expected[i]); j++)
        if (got[j] != wanted[j])
          {
            g_autofree char *text = rlx_graph_to_text (graph);

            g_test_message ("%s: element %" G_GINT64_FORMAT " of result %" G_GSIZE_FORMAT " is %g instead of %g, of\n%s",
                            name, j, i, got[j], wanted[j], text);
            g_test_fail ();
            break;
          }
    }
  free_tensors (inputs, n_inputs);
  free_tensors (results, n);
  free_tensors (expected, n);
}

static void
test_case (gconstpointer data)
{
  const Case *self = data;
  g_autoptr (RlxGraph) graph = NULL;

  if (rlx_test_device () == NULL)
    return;
  graph = read_graph (self->body);
  check_graph (graph, self->name, self);
}

static RlxNode *
add (RlxGraph   *graph,
     const char *op,
     GVariant   *attributes,
     RlxNode    *a,
     RlxNode    *b,
     RlxNode    *c)
{
  g_autoptr (GError) error = NULL;
  g_autofree RlxNode **results = NULL;
  RlxNode *inputs[] = { a, b, c };
  gsize n;

  results = rlx_graph_add_op (graph, op, inputs, c != NULL ? 3 : b != NULL ? 2 : 1, attributes, &n, &error);
  g_assert_no_error (error);
  return results[0];
}

static RlxNode *
scalar (RlxGraph   *graph,
        RlxDataType data_type,
        double      value)
{
  g_autoptr (GError) error = NULL;
  RlxNode *node = rlx_graph_scalar (graph, data_type, value, &error);

  g_assert_no_error (error);
  return node;
}

/* Chains of operators, with quantising and dequantising in between. */
static void
test_chains (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (20);

  if (rlx_test_device () == NULL)
    return;
  for (guint i = 0; i < 12; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (RlxGraph) graph = rlx_graph_new ();
      g_autofree char *name = g_strdup_printf ("chain %u", i);
      RlxDataType data_type = i % 2 ? RLX_DATA_TYPE_U8 : RLX_DATA_TYPE_I8;
      GVariant *to;
      RlxNode *x = rlx_graph_input (graph, "x", data_type, (gint64[]) { 1, 4, 7, 6 }, 4, &error);
      RlxNode *scale = scalar (graph, RLX_DATA_TYPE_F32, 0.5), *zero = scalar (graph, data_type, i % 2 ? 100 : -7);

      g_assert_no_error (error);
      to = g_variant_ref_sink (g_variant_new_parsed ("{'to': <%s>}", rlx_data_type_to_string (data_type)));
      x = add (graph, "dequantize_linear", NULL, x, scale, zero);
      for (guint step = 0; step < 7; step++)
        {
          gsize n_dims;
          const gint64 *shape = rlx_node_get_shape (x, &n_dims);
          double limit = g_rand_double_range (rand, -20, 20);

          switch (g_rand_int_range (rand, 0, 10))
            {
            case 0:
              x = add (graph, "transpose", g_variant_new_parsed ("{'permutation': <[int64 0, 1, 3, 2]>}"), x, NULL, NULL);
              break;
            case 1:
              if (shape[3] > 3)
                x = add (graph, "slice", g_variant_new_parsed ("{'starts': <[int64 1]>, 'ends': <[int64 9]>, 'axes': <[int64 3]>}"), x, NULL, NULL);
              break;
            case 2:
              x = add (graph, "relu", NULL, x, NULL, NULL);
              break;
            case 3:
              x = add (graph, "clamp", g_variant_new_parsed ("{'minimum': <%d>, 'maximum': <%d>}", limit, limit + 30), x, NULL, NULL);
              break;
            case 4:
              if (shape[2] > 3 && shape[3] > 3)
                x = add (graph, "max_pool", g_variant_new_parsed ("{'window': <[int64 2, 3]>, 'padding': <[int64 1, 0, 1, 1]>}"), x, NULL, NULL);
              break;
            case 5:
              if (shape[1] <= 8)
                x = add (graph, "concat", g_variant_new_parsed ("{'axis': <int64 1>}"), x, x, NULL);
              break;
            case 6:
              x = add (graph, "pad", g_variant_new_parsed ("{'before': <[int64 0, 0, 1, 0]>, 'after': <[int64 0, 0, 0, 1]>, 'mode': <%s>}",
                                                           step % 2 ? "reflect" : "constant"), x, NULL, NULL);
              break;
            case 7:
              x = add (graph, "dequantize_linear", NULL, add (graph, "quantize_linear", to, x, scale, zero), scale, zero);
              break;
            case 8:
              /* other levels; halves are exact */
              x = add (graph, "add", NULL, x, add (graph, "abs", NULL, x, NULL, NULL), NULL);
              x = add (graph, "quantize_linear", to, x, scalar (graph, RLX_DATA_TYPE_F32, 1), zero);
              x = add (graph, "dequantize_linear", NULL, x, scale, zero);
              break;
            default:
              {
                g_autofree char *filter = g_strdup_printf ("w%u", step);
                RlxNode *w = rlx_graph_input (graph, filter, RLX_DATA_TYPE_I8, (gint64[]) { 4, shape[1], 2, 2 }, 4, &error);

                g_assert_no_error (error);
                w = add (graph, "dequantize_linear", NULL, w, scale, NULL);
                x = add (graph, "conv", g_variant_new_parsed ("{'padding': <[int64 1, 0, 0, 1]>}"), x, w, NULL);
                if (step % 2)
                  x = add (graph, "relu", NULL, x, NULL, NULL);
                x = add (graph, "quantize_linear", to, x, scalar (graph, RLX_DATA_TYPE_F32, 64), zero);
                x = add (graph, "dequantize_linear", NULL, x, scale, zero);
              }
              break;
            }
        }
      x = add (graph, "quantize_linear", to, x, scale, zero);
      rlx_graph_output (graph, "y", x, NULL);
      g_variant_unref (to);
      check_graph (graph, name, NULL);
    }
}

/* If scales are rounded, either version is within the stated bounds of the exact result:
 * levels differ only if the number is as close to the midpoint between two. */
static void
test_bounds (void)
{
  enum { M = 40, K = 96, N = 44 };
  static const char body[] =
    "%0 = input \"x\" u8[40, 96]\n"
    "%1 = input \"w\" i8[96, 44]\n"
    "%2 = constant f32[] [0.0131]\n"
    "%3 = constant u8[] [119]\n"
    "%4 = constant f32[] [0.00373]\n"
    "%5 = constant i8[] [4]\n"
    "%6 = input \"b\" f32[44]\n"
    "%7 = constant f32[] [0.171]\n"
    "%8 = constant i8[] [-20]\n"
    "%9 = dequantize_linear(%0, %2, %3)\n"
    "%10 = dequantize_linear(%1, %4, %5)\n"
    "%11 = linear(%9, %10, %6)\n"
    "%12 = quantize_linear(%11, %7, %8) {to = i8}\n"
    "output \"y\" %12\n";
  g_autoptr (RlxGraph) graph = NULL;

  if (rlx_test_device () == NULL)
    return;
  graph = read_graph (body);
  for (guint way = 0; way < 2; way++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (RlxExecutable) executable = compile (graph, way == 0);
      gsize n_inputs, n, n_near = 0;
      RlxTensor **inputs = make_inputs (graph, executable, &n_inputs);
      RlxTensor **results = rlx_executable_run (executable, inputs, n_inputs, &n, NULL, &error);
      g_autofree double *x = rlx_test_get_values (inputs[0]), *w = rlx_test_get_values (inputs[1]), *b = rlx_test_get_values (inputs[2]);
      g_autofree double *y = NULL;

      g_assert_no_error (error);
      y = rlx_test_get_values (results[0]);
      for (guint i = 0; i < M * N; i++)
        {
          double scale = (double) 0.0131f * (double) 0.00373f, sum = 0, size = 0, number, quotient, bound, low, high;

          for (guint k = 0; k < K; k++)
            {
              double product = (x[i / N * K + k] - 119) * (w[k * N + i % N] - 4);

              sum += product;
              size += fabs (product);
            }
          number = sum * scale + b[i % N];
          quotient = number / (double) 0.171f;
          bound = ((2.0 * K + 2) * 0x1p-24 * size * scale + 0x1p-23 * fabs (number)) / (double) 0.171f + 2.5 * 0x1p-23 * fabs (quotient);
          low = CLAMP (nearbyint (quotient - bound) - 20, -128, 127);
          high = CLAMP (nearbyint (quotient + bound) - 20, -128, 127);
          n_near += low != high;
          g_assert_cmpfloat (y[i], >=, low);
          g_assert_cmpfloat (y[i], <=, high);
        }
      /* otherwise this would test nothing */
      g_assert_cmpuint (n_near, <, M * N / 50);
      free_tensors (inputs, n_inputs);
      free_tensors (results, n);
    }
}

/* Sums that might overflow 32 bits are computed in floats. */
static void
test_long_sums (void)
{
  static const struct { int k; const char *op; } rows[] = { { 33024, "qmatmul" }, { 33028, "matmul" } };

  if (rlx_test_device () == NULL)
    return;
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree char *body = g_strdup_printf ("%%0 = input \"x\" u8[2, %d]\n%%1 = input \"w\" i8[%d, 4]\n%%2 = constant f32[] [0.5]\n"
                                               "%%3 = dequantize_linear(%%0, %%2)\n%%4 = dequantize_linear(%%1, %%2)\n"
                                               "%%5 = matmul(%%3, %%4)\noutput \"y\" %%5\n", rows[i].k, rows[i].k);
      g_autoptr (RlxGraph) graph = read_graph (body);
      g_autoptr (RlxExecutable) executable = compile (graph, TRUE);
      g_autofree char *steps = list_steps (executable, "op");

      g_assert_true (g_str_has_suffix (steps, rows[i].op));
      g_assert_true ((strchr (steps, ' ') == NULL) == (i == 0));
    }
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *path = g_strdup_printf ("/qdq/%s", cases[i].name);

      g_strdelimit (path, " ", '-');
      g_test_add_data_func (path, &cases[i], test_case);
    }
  g_test_add_func ("/qdq/chains", test_chains);
  g_test_add_func ("/qdq/bounds", test_bounds);
  g_test_add_func ("/qdq/long-sums", test_long_sums);

  return g_test_run ();
}
