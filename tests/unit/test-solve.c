/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Systems of equations: larger ones than the property tests have, matrices that
 * have no solution, and what is refused.
 */
#include "config.h"

#include <math.h>

#include "rlx-reference.h"
#include "rlx-test-util.h"

static GVariant *
no_attributes (void)
{
  return g_variant_new ("a{sv}", NULL);
}

/* Random elements with a larger diagonal, symmetric on request. */
static RlxTensor *
make_matrices (const char *type,
               gsize       n,
               gboolean    symmetric,
               guint32     seed)
{
  g_autoptr (RlxTensor) random = rlx_test_random (type, -1, 1, seed);
  g_autofree double *values = rlx_test_get_values (random);
  gsize count = (gsize) rlx_tensor_get_n_elements (random) / (n * n);

  for (gsize s = 0; s < count; s++)
    for (gsize i = 0; i < n; i++)
      {
        double *a = &values[s * n * n];

        for (gsize j = 0; symmetric && j < i; j++)
          a[j * n + i] = a[i * n + j];
        a[i * n + i] += symmetric ? (double) n : a[i * n + i] < 0 ? -2 : 2;
      }
  return rlx_test_tensor (type, values);
}

static void
test_cholesky (void)
{
  static const struct
  {
    const char *type;
    gsize n;
  } cases[] = { { "f32[64,64]", 64 }, { "f32[65,65]", 65 }, { "f32[2,3,3]", 3 }, { "f32[150,150]", 150 }, { "f16[2,20,20]", 20 } };

  if (rlx_test_device () == NULL)
    return;

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (RlxTensor) a = make_matrices (cases[i].type, cases[i].n, TRUE, (guint32) i + 1);

      rlx_test_check_op ("cholesky", 1, &a, i % 2 == 1 ? g_variant_new_parsed ("{'upper': <true>}") : no_attributes ());
    }
}

/* Only one triangle is read, and NaN starts where the factorisation fails. */
static void
test_cholesky_refused (void)
{
  const double bad[] = { 4, NAN, NAN, NAN, 2, 1, NAN, NAN, 0, 0, 9, NAN, 2, 1, 3, 7 };
  const double nan_from_1[] = { 2, 0, 0, 0, 1, NAN, 0, 0, 0, NAN, NAN, 0, 1, NAN, NAN, NAN };
  const double lower[] = { 4, NAN, 2, 2 };
  const double factor[] = { 2, 0, 1, 1 };
  const double upper[] = { 4, 2, NAN, 2 };
  const double factor_upper[] = { 2, 1, 0, 1 };
  g_autoptr (RlxTensor) a = NULL, b = NULL, c = NULL, y = NULL, z = NULL, w = NULL;

  if (rlx_test_device () == NULL)
    return;

  a = rlx_test_tensor ("f32[4,4]", bad);
  y = rlx_test_run_op ("cholesky", 1, &a, NULL);
  rlx_test_compare ("not positive definite", y, "f32[4,4]", nan_from_1, 0, 0);

  b = rlx_test_tensor ("f32[2,2]", lower);
  z = rlx_test_run_op ("cholesky", 1, &b, NULL);
  rlx_test_compare ("lower triangle", z, "f32[2,2]", factor, 0, 0);

  c = rlx_test_tensor ("f32[2,2]", upper);
  w = rlx_test_run_op ("cholesky", 1, &c, g_variant_new_parsed ("{'upper': <true>}"));
  rlx_test_compare ("upper triangle", w, "f32[2,2]", factor_upper, 0, 0);
}

static void
test_triangular (void)
{
  static const char *const attributes[] = {
    "{'upper': <false>}",
    "{'upper': <true>}",
    "{'upper': <true>, 'transpose': <true>}",
    "{'left': <false>}",
    "{'left': <false>, 'upper': <true>, 'transpose': <true>}",
  };
  g_autoptr (RlxTensor) a = NULL, small = NULL, wide = NULL, tall = NULL, one = NULL;

  if (rlx_test_device () == NULL)
    return;

  a = make_matrices ("f32[40,40]", 40, FALSE, 1);
  wide = rlx_test_random ("f32[2,40,70]", -1, 1, 2);
  tall = rlx_test_random ("f32[2,70,40]", -1, 1, 3);
  for (gsize i = 0; i < G_N_ELEMENTS (attributes); i++)
    rlx_test_check_op ("triangular_solve", 2, (RlxTensor *[]) { a, i < 3 ? wide : tall }, g_variant_new_parsed (attributes[i]));

  /* The other triangle, and the diagonal if it is implied, are not read. */
  {
    const double values[] = { NAN, NAN, NAN, 0.5, NAN, NAN, -1, 2, NAN };
    const double right[] = { 2, 3, 4 };
    const double expected[] = { 2, 2, 2 };
    g_autoptr (RlxTensor) y = NULL;

    small = rlx_test_tensor ("f32[3,3]", values);
    one = rlx_test_tensor ("f32[3]", right);
    y = rlx_test_run_op ("triangular_solve", 2, (RlxTensor *[]) { small, one }, g_variant_new_parsed ("{'unit_diagonal': <true>}"));
    rlx_test_compare ("unit diagonal", y, "f32[3]", expected, 0, 0);
  }
}

static void
test_solve (void)
{
  static const struct
  {
    const char *a, *b;
    gsize n;
  } cases[] = {
    { "f32[1000,3,3]", "f32[1000,3,1]", 3 },
    { "f32[64,64]", "f32[5,64,33]", 64 },
    { "f32[150,150]", "f32[150]", 150 },
    { "f32[4,5,5]", "f32[5]", 5 },
    { "f32[3,1,2,5,5]", "f32[4,1,5,2]", 5 },
    { "f32[2,1,1,3,1,7,7]", "f32[1,3,2,1,2,7,1]", 7 },
    { "f16[2,9,9]", "f16[2,9,4]", 9 },
  };

  if (rlx_test_device () == NULL)
    return;

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (RlxTensor) a = make_matrices (cases[i].a, cases[i].n, FALSE, (guint32) i + 1);
      g_autoptr (RlxTensor) b = rlx_test_random (cases[i].b, -1, 1, (guint32) i + 50);

      rlx_test_check_op ("solve", 2, (RlxTensor *[]) { a, b }, no_attributes ());
    }
}

/* Zero pivots at first, and rows that are all exchanged. */
static void
test_pivots (void)
{
  g_autofree double *values = g_new0 (double, 20 * 20), *back = g_new0 (double, 20 * 20);
  const double hidden[] = { 0, 1, 1, 0 }, minus_one = -1;
  g_autoptr (RlxTensor) a = NULL, x = NULL, d = NULL, two = NULL, e = NULL;

  if (rlx_test_device () == NULL)
    return;

  /* A cycle of length 20: an odd number of exchanges. */
  for (gsize i = 0; i < 20; i++)
    {
      values[i * 20 + (i + 7) % 20] = 2;
      back[(i + 7) % 20 * 20 + i] = 0.5;
    }
  a = rlx_test_tensor ("f32[20,20]", values);
  x = rlx_test_run_op ("inverse", 1, &a, NULL);
  rlx_test_compare ("permutation", x, "f32[20,20]", back, 0, 0);
  d = rlx_test_run_op ("determinant", 1, &a, NULL);
  rlx_test_compare ("sign", d, "f32[]", (double[]) { -1048576 }, 0, 0);

  two = rlx_test_tensor ("f32[2,2]", hidden);
  e = rlx_test_run_op ("determinant", 1, &two, NULL);
  rlx_test_compare ("exchange", e, "f32[]", &minus_one, 0, 0);
}

/* Nothing is finite then, except the determinant, which is 0; NaN stays in its matrix. */
static void
test_singular (void)
{
  const double values[] = { 1, 2, 2, 4, 1, 0, 0, 1, 0, 0, 0, 0, NAN, 1, 1, 1 };
  const double determinants[] = { 0, 1, 0, NAN };
  g_autoptr (RlxTensor) a = NULL, y = NULL, d = NULL, empty = NULL, one = NULL;
  g_autofree double *inverse = NULL;

  if (rlx_test_device () == NULL)
    return;

  a = rlx_test_tensor ("f32[4,2,2]", values);
  y = rlx_test_run_op ("inverse", 1, &a, NULL);
  inverse = rlx_test_get_values (y);
  for (gsize i = 0; i < 16; i++)
    {
      if (i / 4 == 1)
        g_assert_cmpfloat (inverse[i], ==, i % 4 == 0 || i % 4 == 3 ? 1 : 0);
      else if (isfinite (inverse[i]))
        {
          g_test_message ("element %" G_GSIZE_FORMAT " of the inverse is %g", i, inverse[i]);
          g_test_fail ();
        }
    }
  d = rlx_test_run_op ("determinant", 1, &a, NULL);
  rlx_test_compare ("determinant", d, "f32[4]", determinants, 0, 0);

  empty = rlx_test_tensor ("f32[3,0,0]", NULL);
  one = rlx_test_run_op ("determinant", 1, &empty, NULL);
  rlx_test_compare ("no rows", one, "f32[3]", (double[]) { 1, 1, 1 }, 0, 0);
}

static void
test_rules (void)
{
  rlx_test_infers ("cholesky", "f16[2,3,3]", no_attributes (), "f16[2,3,3]");
  rlx_test_infers ("determinant", "f32[2,3,3]", no_attributes (), "f32[2]");
  rlx_test_infers ("inverse", "f32[0,0]", no_attributes (), "f32[0,0]");
  rlx_test_infers ("solve", "f32[2,1,3,3] f32[5,3,4]", no_attributes (), "f32[2,5,3,4]");
  rlx_test_infers ("solve", "f32[2,3,3] f32[3]", no_attributes (), "f32[2,3]");
  rlx_test_infers ("triangular_solve", "f32[3,3] f32[5,4,3]", g_variant_new_parsed ("{'left': <false>}"), "f32[5,4,3]");

  rlx_test_refuses ("cholesky", "f32[3]", no_attributes (), RLX_GRAPH_ERROR_SHAPE, "f32[3]");
  rlx_test_refuses ("inverse", "f32[3,4]", no_attributes (), RLX_GRAPH_ERROR_SHAPE, "f32[3, 4]");
  rlx_test_refuses ("determinant", "f32[2,4,3]", no_attributes (), RLX_GRAPH_ERROR_SHAPE, "f32[2, 4, 3]");
  rlx_test_refuses ("determinant", "i32[3,3]", no_attributes (), RLX_GRAPH_ERROR_DATA_TYPE, NULL);
  rlx_test_refuses ("solve", "f32[3,3] f32[]", no_attributes (), RLX_GRAPH_ERROR_SHAPE, "scalar");
  rlx_test_refuses ("solve", "f32[3,3] f32[4]", no_attributes (), RLX_GRAPH_ERROR_SHAPE, "4 and 3");
  rlx_test_refuses ("solve", "f32[2,3,3] f32[2,4,3]", no_attributes (), RLX_GRAPH_ERROR_SHAPE, "the rows of f32[2, 4, 3]");
  rlx_test_refuses ("triangular_solve", "f32[3,3] f32[3,4]", g_variant_new_parsed ("{'left': <false>}"),
                    RLX_GRAPH_ERROR_SHAPE, "the columns of f32[3, 4]");
  rlx_test_refuses ("solve", "f32[2,3,3] f32[4,3,1]", no_attributes (), RLX_GRAPH_ERROR_SHAPE, "broadcast");
  rlx_test_refuses ("solve", "f32[65536,1,1,1] f32[65537,1,1]", no_attributes (), RLX_GRAPH_ERROR_LIMIT, NULL);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/solve/cholesky", test_cholesky);
  g_test_add_func ("/solve/cholesky/refused", test_cholesky_refused);
  g_test_add_func ("/solve/triangular", test_triangular);
  g_test_add_func ("/solve/solve", test_solve);
  g_test_add_func ("/solve/pivots", test_pivots);
  g_test_add_func ("/solve/singular", test_singular);
  g_test_add_func ("/solve/rules", test_rules);

  return g_test_run ();
}
