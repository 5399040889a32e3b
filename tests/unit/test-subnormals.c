/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Operators whose rows say that they keep subnormal numbers do so, alone and
 * fused with others, though the hardware may take them for zero.
 */
#include "config.h"
#include "rlx-test-util.h"

#include "ir/rlx-op-private.h"

#include <float.h>
#include <math.h>

#define N 8
#define ATTRS(text) g_variant_new_parsed (text)

static const double numbers[N] = { 1e-39f, -1e-39f, 1e-45f, -1e-45f, 1.17e-38f, -1.17e-38f, 0, -0.0 };

static const struct
{
  const char *op;
  const char *attributes;
  const char *type;        /* of the result */
  double expected[N];
  double relative;
} cases[] = {
  { "ceil", NULL, "f32[8]", { 1, 0, 1, 0, 1, 0, 0, 0 }, 0 },
  { "floor", NULL, "f32[8]", { 0, -1, 0, -1, 0, -1, 0, 0 }, 0 },
  { "round_even", NULL, "f32[8]", { 0, }, 0 },
  { "sign", NULL, "f32[8]", { 1, -1, 1, -1, 1, -1, 0, 0 }, 0 },
  { "abs", NULL, "f32[8]", { 1e-39f, 1e-39f, 1e-45f, 1e-45f, 1.17e-38f, 1.17e-38f, 0, 0 }, 0 },
  { "neg", NULL, "f32[8]", { -1e-39f, 1e-39f, -1e-45f, 1e-45f, -1.17e-38f, 1.17e-38f, 0, 0 }, 0 },
  { "relu", NULL, "f32[8]", { 1e-39f, 0, 1e-45f, 0, 1.17e-38f, 0, 0, 0 }, 0 },
  { "thresholded_relu", "{'alpha': <0.0>}", "f32[8]", { 1e-39f, 0, 1e-45f, 0, 1.17e-38f, 0, 0, 0 }, 0 },
  { "clamp", "{'minimum': <0.0>}", "f32[8]", { 1e-39f, 0, 1e-45f, 0, 1.17e-38f, 0, 0, 0 }, 0 },
  { "cast", "{'to': <'bool'>}", "bool[8]", { 1, 1, 1, 1, 1, 1, 0, 0 }, 0 },
  { "conj", NULL, "f32[8]", { 1e-39f, 1e-39f, 1e-45f, 1e-45f, 1.17e-38f, 1.17e-38f, 0, 0 }, 0 },
  { "sqrt", NULL, "f32[8]", { 3.1622775e-20, NAN, 3.7433921e-23, NAN, 1.0816654e-19, NAN, 0, 0 }, 3e-7 },
  { "log", NULL, "f32[8]", { -89.80082, NAN, -103.27893, NAN, -87.341228, NAN, -INFINITY, -INFINITY }, 2e-6 },
  { "arg_max_pool", "{'window': <[int64 2]>, 'strides': <[int64 2]>, 'padding': <[int64 1, 1]>}", "i32[1,1,5]", { 0, 2, 4, 6, 7 }, 0 },
  { "arg_min", "{'axis': <int64 -1>}", "i32[1,1]", { 5 }, 0 },
};

static void
test_op (gconstpointer data)
{
  gsize at = GPOINTER_TO_SIZE (data);
  gboolean pairs = g_str_equal (cases[at].op, "conj"), image = strchr (cases[at].type, ',') != NULL;
  g_autoptr(RlxTensor) x = rlx_test_tensor (pairs ? "f32[4,2]" : image ? "f32[1,1,8]" : "f32[8]", numbers);
  g_autoptr(RlxTensor) y = NULL;

  if (rlx_test_device () == NULL)
    return;
  g_assert_cmpstr (rlx_op_lookup (cases[at].op)->subnormals, ==, "kept");
  y = rlx_test_run_op (cases[at].op, 1, &x, cases[at].attributes ? ATTRS (cases[at].attributes) : NULL);
  g_assert_nonnull (y);
  rlx_test_compare (cases[at].op, y, pairs ? "f32[4,2]" : cases[at].type, cases[at].expected, 0, cases[at].relative);
}

/* A remainder of any size, and the excess of the divisor over it. */
static void
test_mod (void)
{
  const double a[N] = { 7e-45f, -7e-45f, -1e-40f, -1e-40f, 1.2e-38f, -1.2e-38f, -1e-45f, 100 };
  const double b[N] = { 3e-45f, 3e-45f, 1.2e-38f, 1, 1e-40f, 1.1e-38f, -1e-45f, 1e-40f };
  double expected[2][N];
  g_autoptr(RlxTensor) x = rlx_test_tensor ("f32[8]", a);
  g_autoptr(RlxTensor) y = rlx_test_tensor ("f32[8]", b);

  if (rlx_test_device () == NULL)
    return;
  g_assert_cmpstr (rlx_op_lookup ("mod")->subnormals, ==, "kept");
  for (gsize i = 0; i < N; i++)
    {
      double rest = fmod (a[i], b[i]);

      expected[0][i] = rest;
      expected[1][i] = (float) (rest != 0 && (rest < 0) != (b[i] < 0) ? rest + b[i] : rest);
    }
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr(RlxTensor) z = rlx_test_run_op ("mod", 2, (RlxTensor *[]) { x, y }, ATTRS (i == 0 ? "{'floor': <false>}" : "{'floor': <true>}"));

      g_assert_nonnull (z);
      rlx_test_compare ("mod", z, "f32[8]", expected[i], 0, 0);
    }
}

/* Whether a negative number is flushed to zero or not, an infinite slope does not make it NaN. */
static void
test_slope (void)
{
  const double slopes[N] = { INFINITY, INFINITY, -INFINITY, -INFINITY, INFINITY, INFINITY, INFINITY, -INFINITY };
  const double expected[N] = { 0, -INFINITY, 0, INFINITY, 0, -INFINITY, 0, 0 };
  g_autoptr(RlxTensor) x = rlx_test_tensor ("f32[8]", numbers);
  g_autoptr(RlxTensor) slope = rlx_test_tensor ("f32[8]", slopes);
  g_autoptr(RlxTensor) y = NULL;

  if (rlx_test_device () == NULL)
    return;
  y = rlx_test_run_op ("prelu", 2, (RlxTensor *[]) { x, slope }, NULL);
  g_assert_nonnull (y);
  rlx_test_compare ("prelu", y, "f32[8]", expected, FLT_MIN, 0);
}

/* Intermediate results may be subnormal even if operands and results are not. */
static void
test_between (void)
{
  const double x[N] = { -1.2e-38f, -1.6e-38f, -3e-38f, 1.6e-38f, -1e-7f, -1e-6f, -2e-6f, -1 };
  double expected[N];
  g_autoptr(RlxTensor) tensor = rlx_test_tensor ("f32[8]", x);

  if (rlx_test_device () == NULL)
    return;
  for (guint i = 0; i < 2; i++)
    {
      double alpha = i == 0 ? -1.5 : 4;
      g_autoptr(RlxTensor) y = rlx_test_run_op ("celu", 1, &tensor, ATTRS (i == 0 ? "{'alpha': <-1.5>}" : "{'alpha': <4.0>}"));

      g_assert_nonnull (y);
      for (gsize j = 0; j < N; j++)
        expected[j] = x[j] > 0 ? x[j] : alpha * expm1 (x[j] / alpha);
      rlx_test_compare ("celu", y, "f32[8]", expected, 0, 8e-6);
    }
}

/* Comparisons with zero that other operators are lowered to. */
static void
test_fused (void)
{
  static const char text[] =
    "rlx 1\n"
    "%0 = input \"x\" f32[8]\n"
    "%1 = constant f32[] [0]\n"
    "%2 = neg(%0)\n"
    "%3 = sqrt(%2)\n"
    "%4 = is_nan(%3)\n"
    "%5 = equal(%2, %1)\n"
    "%6 = less(%2, %1)\n"
    "%7 = sign(%2)\n"
    "%8 = ceil(%7)\n"
    "output \"nan\" %4\n"
    "output \"zero\" %5\n"
    "output \"negative\" %6\n"
    "output \"sign\" %8\n";
  static const double expected[][N] = {
    { 1, 0, 1, 0, 1, 0, 0, 0 }, { 0, 0, 0, 0, 0, 0, 1, 1 }, { 1, 0, 1, 0, 1, 0, 0, 0 }, { -1, 1, -1, 1, -1, 1, 0, 0 },
  };
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxGraph) graph = rlx_graph_new_from_text (text, &error);
  g_autoptr(RlxTensor) x = rlx_test_tensor ("f32[8]", numbers);
  g_autoptr(RlxExecutable) executable = NULL;
  RlxTensor **outputs;
  gsize n_outputs;

  g_assert_no_error (error);
  if (rlx_test_device () == NULL)
    return;
  executable = rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error);
  g_assert_no_error (error);
  outputs = rlx_executable_run (executable, &x, 1, &n_outputs, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (n_outputs, ==, G_N_ELEMENTS (expected));
  for (gsize i = 0; i < n_outputs; i++)
    {
      rlx_test_compare ("fused", outputs[i], i < 3 ? "bool[8]" : "f32[8]", expected[i], 0, 0);
      g_object_unref (outputs[i]);
    }
  g_free (outputs);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *path = g_strdup_printf ("/subnormals/%s", cases[i].op);

      g_test_add_data_func (path, GSIZE_TO_POINTER (i), test_op);
    }
  g_test_add_func ("/subnormals/mod", test_mod);
  g_test_add_func ("/subnormals/slope", test_slope);
  g_test_add_func ("/subnormals/between", test_between);
  g_test_add_func ("/subnormals/fused", test_fused);

  return g_test_run ();
}
