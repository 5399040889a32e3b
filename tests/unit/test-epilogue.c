/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What is done together with a product: operators that follow it, products that
 * share an operand, and the heads of attention.
 */
#include "config.h"

#include "rlx-test-util.h"
#include "util/rlx-debug-private.h"

#include <math.h>

typedef struct
{
  RlxTensor **outputs;
  gsize n_outputs;
  guint dispatches;
} Outcome;

static void
outcome_clear (Outcome *outcome)
{
  for (gsize i = 0; i < outcome->n_outputs; i++)
    g_object_unref (outcome->outputs[i]);
  g_free (outcome->outputs);
}

static Outcome
run_text (const char *text,
          RlxTensor **inputs,
          gsize       n_inputs)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxGraph) graph = rlx_graph_new_from_text (text, &error);
  g_autoptr(RlxExecutable) executable = NULL;
  Outcome outcome = { NULL, 0, 0 };

  g_assert_no_error (error);
  executable = rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error);
  g_assert_no_error (error);
  outcome.outputs = rlx_executable_run (executable, inputs, n_inputs, &outcome.n_outputs, NULL, &error);
  g_assert_no_error (error);
  outcome.dispatches = rlx_executable_get_n_dispatches (executable);
  return outcome;
}

/* With each operator alone, and as optimised by the passes. */
static void
run_both (const char *text,
          RlxTensor **inputs,
          gsize       n_inputs,
          Outcome    *alone,
          Outcome    *together)
{
  RlxDebugFlags flags = rlx_debug_get_flags ();

  rlx_debug_set_flags (flags | RLX_DEBUG_NO_FUSE);
  *alone = run_text (text, inputs, n_inputs);
  rlx_debug_set_flags (flags);
  *together = run_text (text, inputs, n_inputs);
}

/* A region that follows a product runs in the product's kernel, with the same result as
 * on its own. Cases that the rules exclude are left alone. */
static void
test_epilogue (void)
{
  static const struct
  {
    const char *x, *w;
    const char *rest;
    guint dispatches;
  } cases[] = {
    { "f32[33,40]", "f32[40,70]", "%4 = gelu(%3)\n", 1 },
    { "f32[1,600]", "f32[600,170]", "%4 = relu(%3)\n", 1 },
    /* split sums: the second of two kernels has it */
    { "f32[5,2048]", "f32[2048,33]", "%4 = tanh(%3)\n", 2 },
    { "f32[2,700]", "f32[700,3]", "%4 = neg(%3)\n", 1 },
    { "f32[3,16,24]", "f32[24,36]", "%4 = add(%3, %2)\n", 1 },
    { "f32[3,16,24]", "f32[3,24,36]", "%4 = mul(%3, %3)\n", 1 },
    /* two products: the later one gets the region */
    { "f32[20,24]", "f32[24,36]", "%5 = matmul(%0, %0) {transpose_b = true}\n%6 = matmul(%5, %0)\n%7 = matmul(%6, %1)\n"
                                  "%8 = sigmoid(%3)\n%4 = mul(%7, %8)\n", 4 },
    /* a cast, and a comparison, change the type of the result */
    { "f32[20,24]", "f32[24,36]", "%5 = cast(%3) {to = f16}\n%4 = mul(%5, %5)\n", 1 },
    { "f32[20,24]", "f32[24,36]", "%5 = greater(%3, %2)\n%4 = cast(%5) {to = u8}\n", 1 },
    /* another shape; a second user, which gets the region */
    { "f32[20,24]", "f32[24,36]", "%5 = constant f32[2, 1, 1] [1, 2]\n%4 = add(%3, %5)\n", 2 },
    { "f32[20,24]", "f32[24,36]", "%5 = relu(%3)\n%6 = softmax(%3) {axis = 0}\n%4 = add(%5, %6)\n", 2 },
  };

  if (rlx_test_device () == NULL)
    return;

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *text = g_strdup_printf ("rlx 1\n%%0 = input \"x\" %s\n%%1 = input \"w\" %s\n%%2 = input \"v\" f32[36]\n"
                                               "%%3 = matmul(%%0, %%1)\n%soutput \"y\" %%4\n",
                                               cases[i].x, cases[i].w, cases[i].rest);
      g_autoptr(RlxTensor) x = rlx_test_random (cases[i].x, -1, 1, i + 20);
      g_autoptr(RlxTensor) w = rlx_test_random (cases[i].w, -1, 1, i + 40);
      g_autoptr(RlxTensor) v = rlx_test_random ("f32[36]", -1, 1, i + 60);
      Outcome alone, together;
      g_autofree double *want = NULL, *got = NULL;

      run_both (text, (RlxTensor *[]) { x, w, v }, 3, &alone, &together);
      if (!rlx_test_target ()->loads_coalesce)
        g_assert_cmpuint (together.dispatches, ==, cases[i].dispatches);
      want = rlx_test_get_values (alone.outputs[0]);
      got = rlx_test_get_values (together.outputs[0]);
      /* The sums are the same. The rest is one operator or two, which a driver may
       * contract, and in f16 there is one rounding less. */
      for (gint64 j = 0; j < rlx_tensor_get_n_elements (alone.outputs[0]); j++)
        if (fabs (got[j] - want[j]) > rlx_test_rounding (rlx_tensor_get_data_type (alone.outputs[0]), want[j]) + 0x1p-20 * MAX (1, fabs (want[j])))
          g_error ("case %u, element %" G_GINT64_FORMAT ": %g instead of %g", i, j, got[j], want[j]);
      outcome_clear (&alone);
      outcome_clear (&together);
    }
}

static GVariant *
qkv_attributes (gint64 query,
                gint64 key)
{
  return g_variant_new_parsed ("{'query_size': <%x>, 'key_size': <%x>}", query, key);
}

static void
test_qkv_rule (void)
{
  rlx_test_refuses ("qkv_linear", "f32[2,3] f32[3,4]", qkv_attributes (0, 1), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "query_size 0");
  rlx_test_refuses ("qkv_linear", "f32[2,3] f32[3,4]", qkv_attributes (2, 2), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "key_size 2");
  rlx_test_refuses ("qkv_linear", "f32[2,3] f32[3,4]", qkv_attributes (G_MAXINT64, 2), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "4 columns");
  rlx_test_refuses ("qkv_linear", "f32[2,3] f32[3,4]", qkv_attributes (1, G_MAXINT64), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "4 columns");
  rlx_test_refuses ("qkv_linear", "f32[2,3] f32[4,4]", qkv_attributes (1, 1), RLX_GRAPH_ERROR_SHAPE, "differ: 3 and 4");
  rlx_test_refuses ("qkv_linear", "f32[2,3] f32[3,4] f32[3]", qkv_attributes (1, 1), RLX_GRAPH_ERROR_SHAPE, "bias");
  rlx_test_refuses ("qkv_linear", "f32[2,3] f32[3]", qkv_attributes (1, 1), RLX_GRAPH_ERROR_SHAPE, "2 dimensions");
  rlx_test_refuses ("qkv_linear", "f32[] f32[3,4]", qkv_attributes (1, 1), RLX_GRAPH_ERROR_SHAPE, "scalar");
}

/* A projection that a split or slices divide into three is a single kernel. */
static void
test_qkv (void)
{
  static const struct
  {
    const char *product;
    const char *parts;
    guint dispatches;
  } cases[] = {
    { "%3 = linear(%0, %1, %2)\n", "%4, %5, %6 = split(%3) {axis = 2, sizes = [16, 8, 40]}\n", 1 },
    { "%3 = matmul(%0, %1)\n", "%6 = slice(%3) {starts = [0, 0, 24], ends = [2, 5, 64]}\n"
                               "%4 = slice(%3) {starts = [0, 0, 0], ends = [2, 5, 16]}\n"
                               "%5 = slice(%3) {starts = [0, 0, 16], ends = [2, 5, 24]}\n", 1 },
    { "", "%4, %5, %6 = qkv_linear(%0, %1, %2) {query_size = 16, key_size = 8}\n", 1 },
    /* overlapping slices */
    { "%3 = matmul(%0, %1)\n", "%6 = slice(%3) {starts = [0, 0, 24], ends = [2, 5, 64]}\n"
                               "%4 = slice(%3) {starts = [0, 0, 0], ends = [2, 5, 17]}\n"
                               "%5 = slice(%3) {starts = [0, 0, 16], ends = [2, 5, 24]}\n", 4 },
  };

  if (rlx_test_device () == NULL)
    return;

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *text = g_strconcat ("rlx 1\n%0 = input \"x\" f32[2, 5, 32]\n%1 = input \"w\" f32[32, 64]\n"
                                           "%2 = input \"b\" f32[64]\n", cases[i].product, cases[i].parts,
                                           "output \"q\" %4\noutput \"k\" %5\noutput \"v\" %6\n", NULL);
      g_autoptr(RlxTensor) x = rlx_test_random ("f32[2,5,32]", -1, 1, 1);
      g_autoptr(RlxTensor) w = rlx_test_random ("f32[32,64]", -1, 1, 2);
      g_autoptr(RlxTensor) b = rlx_test_random ("f32[64]", -1, 1, 3);
      Outcome alone, together;

      run_both (text, (RlxTensor *[]) { x, w, b }, 3, &alone, &together);
      g_assert_cmpuint (together.dispatches, ==, cases[i].dispatches);
      for (gsize j = 0; j < 3; j++)
        g_assert_true (rlx_tensor_equal (alone.outputs[j], together.outputs[j]));
      outcome_clear (&alone);
      outcome_clear (&together);
    }
}

/* Products of a matrix with several weights are a single kernel if the weights can be
 * concatenated, and give the same bits in any case. */
static void
test_joint (void)
{
  static const struct
  {
    gint64 widths[3];
    guint n;
    gboolean transpose_b, bias;
    guint dispatches;
    gint64 rows;
  } cases[] = {
    { { 64, 32, 96 }, 3, FALSE, TRUE, 1, 7 },
    { { 64, 32, 96 }, 3, TRUE, TRUE, 1, 7 },
    { { 64, 32, 96 }, 3, TRUE, TRUE, 1, 2 },
    { { 32, 64 }, 2, TRUE, FALSE, 1, 7 },
    { { 64, 40 }, 2, FALSE, TRUE, 2, 7 },
  };
  RlxDebugFlags flags = rlx_debug_get_flags ();

  if (rlx_test_device () == NULL)
    return;

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      Outcome outcomes[2];

      for (guint j = 0; j < 2; j++)
        {
          g_autoptr(GError) error = NULL;
          g_autoptr(RlxGraph) graph = rlx_graph_new ();
          g_autoptr(RlxLinearOptions) options = rlx_linear_options_new ();
          g_autoptr(RlxExecutable) executable = NULL;
          g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
          g_autoptr(GPtrArray) values = g_ptr_array_new_with_free_func (g_object_unref);
          g_autoptr(RlxTensor) x = rlx_test_random (cases[i].rows == 7 ? "f32[3,7,20]" : "f32[3,2,20]", -1, 1, 5);
          RlxNode *input = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, (gint64[]) { 3, cases[i].rows, 20 }, 3, NULL);

          rlx_linear_options_set_transpose_b (options, cases[i].transpose_b);
          for (guint k = 0; k < cases[i].n; k++)
            {
              gint64 n = cases[i].widths[k];
              const gint64 shape[] = { cases[i].transpose_b ? n : 20, cases[i].transpose_b ? 20 : n };
              g_autofree char *weight = g_strdup_printf ("w%u", k), *bias = g_strdup_printf ("b%u", k), *output = g_strdup_printf ("y%u", k);
              g_autofree char *weight_type = g_strdup_printf ("f32[%d,%d]", (int) shape[0], (int) shape[1]), *bias_type = g_strdup_printf ("f32[%d]", (int) n);
              RlxNode *w = rlx_graph_parameter (graph, weight, RLX_DATA_TYPE_F32, shape, 2, NULL);
              RlxNode *b = cases[i].bias ? rlx_graph_parameter (graph, bias, RLX_DATA_TYPE_F32, &n, 1, NULL) : NULL;

              g_ptr_array_add (names, g_steal_pointer (&weight));
              g_ptr_array_add (values, rlx_test_random (weight_type, -1, 1, k + 10));
              if (b != NULL)
                {
                  g_ptr_array_add (names, g_steal_pointer (&bias));
                  g_ptr_array_add (values, rlx_test_random (bias_type, -1, 1, k + 20));
                }
              /* a user that cannot be an epilogue */
              rlx_graph_output (graph, output, rlx_node_softmax (rlx_node_linear (input, w, b, options, &error), -1, &error), &error);
              g_assert_no_error (error);
            }

          rlx_debug_set_flags (j == 0 ? flags | RLX_DEBUG_NO_FUSE : flags);
          executable = rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error);
          rlx_debug_set_flags (flags);
          g_assert_no_error (error);
          g_ptr_array_add (names, NULL);
          rlx_executable_set_parameters (executable, (const char *const *) names->pdata, (RlxTensor **) values->pdata, values->len, NULL, &error);
          g_assert_no_error (error);
          outcomes[j].outputs = rlx_executable_run (executable, &x, 1, &outcomes[j].n_outputs, NULL, &error);
          g_assert_no_error (error);
          outcomes[j].dispatches = rlx_executable_get_n_dispatches (executable);
        }

      g_assert_cmpuint (outcomes[1].dispatches, ==, cases[i].dispatches + cases[i].n);
      for (guint k = 0; k < cases[i].n; k++)
        g_assert_true (rlx_tensor_equal (outcomes[0].outputs[k], outcomes[1].outputs[k]));
      outcome_clear (&outcomes[0]);
      outcome_clear (&outcomes[1]);
    }
}

/* Attention reads each operand from before a transpose, and writes its result as after one. */
static void
test_heads (void)
{
  static const struct
  {
    const char *value, *result;
    guint dispatches;
  } cases[] = {
    { "%5 = transpose(%2) {permutation = [0, 2, 1, -1]}\n", "%7 = transpose(%6) {permutation = [0, 2, 1, 3]}\n", 1 },
    { "%5 = reshape(%2) {shape = [2, 4, 6, 8]}\n", "%7 = transpose(%6) {permutation = [0, 2, 1, 3]}\n", 1 },
    { "%5 = transpose(%2) {permutation = [0, 2, 1, 3]}\n", "%7 = softmax(%6) {axis = 1}\n", 2 },
  };

  if (rlx_test_device () == NULL)
    return;

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *text = g_strconcat ("rlx 1\n%0 = input \"q\" f32[2, 5, 4, 8]\n%1 = input \"k\" f32[2, 6, 4, 8]\n"
                                           "%2 = input \"v\" f32[2, 6, 4, 8]\n%3 = transpose(%0) {permutation = [0, 2, 1, 3]}\n"
                                           "%4 = transpose(%1) {permutation = [0, 2, 1, 3]}\n", cases[i].value,
                                           "%6 = attention(%3, %4, %5)\n", cases[i].result, "output \"y\" %7\n", NULL);
      g_autoptr(RlxTensor) q = rlx_test_random ("f32[2,5,4,8]", -1, 1, 1);
      g_autoptr(RlxTensor) k = rlx_test_random ("f32[2,6,4,8]", -1, 1, 2);
      g_autoptr(RlxTensor) v = rlx_test_random ("f32[2,6,4,8]", -1, 1, 3);
      Outcome alone, together;

      run_both (text, (RlxTensor *[]) { q, k, v }, 3, &alone, &together);
      g_assert_cmpuint (together.dispatches, ==, cases[i].dispatches);
      g_assert_true (rlx_tensor_equal (alone.outputs[0], together.outputs[0]));
      outcome_clear (&alone);
      outcome_clear (&together);
    }
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/linear/epilogue", test_epilogue);
  g_test_add_func ("/linear/qkv-rule", test_qkv_rule);
  g_test_add_func ("/linear/qkv", test_qkv);
  g_test_add_func ("/linear/joint", test_joint);
  g_test_add_func ("/linear/heads", test_heads);

  return g_test_run ();
}
