/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Products of matrices in each of the tiles for a CPU, by weights, which lie in
 * panels, and by inputs, which do not. Operands are -1, 0 and 1, so that all sums are
 * exact, in f16 as well, and right means equal.
 */
#include "config.h"

#include <math.h>

#include "rlx-test-util.h"

static RlxTensor *
make_matrices (const char *data_type,
               guint       batch,
               guint       rows,
               guint       cols,
               guint32     seed,
               gint8     **numbers)
{
  g_autofree char *type = batch > 0 ? g_strdup_printf ("%s[%u,%u,%u]", data_type, batch, rows, cols)
                                    : g_strdup_printf ("%s[%u,%u]", data_type, rows, cols);
  gsize n = (gsize) MAX (batch, 1) * rows * cols;
  g_autofree double *values = g_new (double, n);
  g_autoptr(GRand) rand = g_rand_new_with_seed (seed);

  *numbers = g_new (gint8, n);
  for (gsize i = 0; i < n; i++)
    values[i] = (*numbers)[i] = (gint8) g_rand_int_range (rand, -1, 2);
  return rlx_test_tensor (type, values);
}

/* If @batch is 0, there is none. */
static void
check (const char *data_type,
       guint       batch,
       guint       m,
       guint       n,
       guint       k,
       gboolean    transpose_a,
       gboolean    transpose_b,
       gboolean    weight)
{
  g_autofree char *what = g_strdup_printf ("%s %u · [%u, %u, %u]%s%s%s", data_type, batch, m, n, k, transpose_a ? " aᵀ" : "",
                                           transpose_b ? " bᵀ" : "", weight ? " by a weight" : "");
  g_autofree gint8 *na = NULL, *nb = NULL;
  g_autoptr(RlxTensor) a = make_matrices (data_type, batch, transpose_a ? k : m, transpose_a ? m : k, 1, &na);
  g_autoptr(RlxTensor) b = make_matrices (data_type, batch, transpose_b ? n : k, transpose_b ? k : n, 2, &nb);
  g_autofree double *expected = g_new0 (double, (gsize) MAX (batch, 1) * m * n);
  g_autoptr(RlxTensor) y = NULL;
  RlxTensor *inputs[] = { a, b };

  for (guint s = 0; s < MAX (batch, 1); s++)
    for (guint i = 0; i < m; i++)
      for (guint l = 0; l < k; l++)
        {
          int x = na[(gsize) s * m * k + (transpose_a ? (gsize) l * m + i : (gsize) i * k + l)];

          for (guint j = 0; j < n; j++)
            expected[((gsize) s * m + i) * n + j] += x * nb[(gsize) s * k * n + (transpose_b ? (gsize) j * k + l : (gsize) l * n + j)];
        }

  y = rlx_test_run_op_full ("matmul", 2, inputs, weight ? 2 : 0,
                            g_variant_new_parsed ("{'transpose_a': <%b>, 'transpose_b': <%b>}", transpose_a, transpose_b));
  rlx_test_compare (what, y, NULL, expected, 0, 0);
}

/* Sizes next to each one at which rows, columns or steps are split. */
static void
test_edges (void)
{
  static const guint rows[] = { 1, 2, 5, 8, 9, 15, 17, 33 };
  static const guint cols[] = { 17, 31, 32, 33, 64, 66 };
  static const guint sums[] = { 1, 4, 127, 128, 129, 130, 131, 132, 134, 135, 136, 200 };
  guint t = 0;

  if (rlx_test_device () == NULL)
    return;
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    for (guint j = 0; j < G_N_ELEMENTS (cols); j++)
      for (guint l = (i + j) % 3; l < G_N_ELEMENTS (sums); l += 3, t++)
        check (t % 5 < 2 ? "f16" : "f32", 0, rows[i], cols[j], sums[l], t % 7 == 0, t % 3 == 0, t % 2 == 0);
}

/* Larger tiles are used for products large enough for them. */
static void
test_large (void)
{
  if (rlx_test_device () == NULL)
    return;
  for (guint weight = 0; weight < 2; weight++)
    {
      /* sixteen rows, where half of a tile of thirty-two would be empty */
      check ("f32", 0, 48, 330, 320, FALSE, FALSE, weight);
      check ("f16", 0, 100, 264, 201, FALSE, TRUE, weight);
      /* thirty-two rows */
      check ("f32", 0, 130, 345, 384, FALSE, FALSE, weight);
      check ("f32", 0, 62, 515, 547, TRUE, TRUE, weight);
      check ("f16", 0, 128, 420, 384, FALSE, FALSE, weight);
      /* and sixty-four columns, with few in the last tile: the others have no panel */
      check ("f32", 0, 257, 520, 1024, FALSE, FALSE, weight);
      check ("f16", 0, 256, 538, 1000, FALSE, TRUE, weight);
      /* one row, sixty-four columns */
      check ("f16", 0, 1, 1028, 2048, FALSE, FALSE, weight);
      check ("f32", 0, 1, 1028, 1030, FALSE, FALSE, weight);
    }
}

/* All tiles are full, so that stores have no guards; and split long sums. */
static void
test_full (void)
{
  if (rlx_test_device () == NULL)
    return;
  for (guint weight = 0; weight < 2; weight++)
    {
      check ("f32", 0, 48, 320, 320, FALSE, FALSE, weight);
      check ("f32", 0, 64, 256, 1026, FALSE, FALSE, weight);
      check ("f16", 0, 64, 256, 1024, FALSE, FALSE, weight);
      check ("f16", 0, 256, 512, 1024, FALSE, FALSE, weight);
      check ("f32", 0, 16, 64, 8192, FALSE, FALSE, weight);
      /* rows, or columns, with partial tiles */
      check ("f32", 0, 40, 320, 400, FALSE, FALSE, weight);
      check ("f32", 0, 48, 328, 320, FALSE, FALSE, weight);
    }
  check ("f32", 2, 32, 256, 1024, FALSE, FALSE, FALSE);
}

/* Three results of a product, with boundaries between tiles or within one. In f16 the small
 * ones, whose lanes have pairs of columns, once lost elements of the third result. */
static void
test_three (void)
{
  static const struct
  {
    const char *data_type;
    guint m, k;
    guint widths[3];
  } cases[] = {
    { "f32", 64, 400, { 192, 96, 352 } }, { "f32", 64, 400, { 192, 64, 64 } }, { "f32", 64, 400, { 200, 88, 352 } },
    { "f32", 64, 400, { 8, 312, 1 } }, { "f32", 40, 24, { 11, 1, 30 } }, { "f16", 13, 13, { 6, 9, 4 } },
    { "f16", 216, 6, { 9, 9, 8 } }, { "f16", 300, 30, { 1, 40, 23 } }, { "f16", 64, 400, { 192, 96, 352 } },
    { "f16", 61, 400, { 200, 88, 350 } },
  };

  if (rlx_test_device () == NULL)
    return;
  for (guint t = 0; t < G_N_ELEMENTS (cases); t++)
    {
      const char *type = cases[t].data_type;
      const guint m = cases[t].m, k = cases[t].k, *widths = cases[t].widths;
      guint n = widths[0] + widths[1] + widths[2];
      g_autofree char *text = g_strdup_printf ("rlx 1\n%%0 = input \"x\" %s[%u, %u]\n%%1 = input \"w\" %s[%u, %u]\n"
                                               "%%2 = input \"b\" %s[1, %u]\n%%3 = reshape(%%2) {shape = [%u]}\n"
                                               "%%4, %%5, %%6 = qkv_linear(%%0, %%1, %%3) {query_size = %u, key_size = %u}\n"
                                               "output \"q\" %%4\noutput \"k\" %%5\noutput \"v\" %%6\n",
                                               type, m, k, type, k, n, type, n, n, widths[0], widths[1]);
      g_autofree gint8 *nx = NULL, *nw = NULL, *nb = NULL;
      g_autoptr(RlxTensor) x = make_matrices (type, 0, m, k, 3, &nx);
      g_autoptr(RlxTensor) w = make_matrices (type, 0, k, n, 4, &nw);
      g_autoptr(RlxTensor) b = make_matrices (type, 0, 1, n, 5, &nb);
      g_autofree double *expected = g_new (double, (gsize) m * n);
      g_autoptr(GError) error = NULL;
      RlxGraph *graph = rlx_graph_new_from_text (text, &error);
      g_autofree RlxTensor **y = NULL;
      guint first = 0;
      gsize n_outputs;

      g_assert_no_error (error);
      y = rlx_test_run_graph (graph, 3, (RlxTensor *[]) { x, w, b }, &n_outputs);
      g_assert_cmpuint (n_outputs, ==, 3);
      for (guint o = 0; o < 3; o++)
        {
          guint width = widths[o];

          for (guint i = 0; i < m; i++)
            for (guint j = 0; j < width; j++)
              {
                double sum = nb[first + j];

                for (guint l = 0; l < k; l++)
                  sum += nx[i * k + l] * nw[l * n + first + j];
                expected[i * width + j] = sum;
              }
          rlx_test_compare ("three", y[o], NULL, expected, 0, 0);
          first += width;
          g_object_unref (y[o]);
        }
    }
}

/* Stacks of matrices, at even and odd offsets. */
static void
test_stacks (void)
{
  if (rlx_test_device () == NULL)
    return;
  for (guint t = 0; t < 8; t++)
    {
      const char *type = t & 4 ? "f16" : "f32";

      check (type, 3, 17, 34, 132, t & 1, t & 2, FALSE);
      check (type, 3, 17, 33, 133, t & 1, t & 2, FALSE);
      check (type, 6, 64, 96, 512, t & 1, t & 2, FALSE);
    }
}

/* Infinities and NaN stay in their row and column. */
static void
test_special (void)
{
  static const double bad[] = { NAN, INFINITY };
  const guint m = 33, n = 40, k = 130;

  if (rlx_test_device () == NULL)
    return;
  for (guint t = 0; t < 4; t++)
    {
      g_autofree double *va = g_new (double, m * k), *vb = g_new (double, k * n), *expected = g_new (double, m * n);
      g_autoptr(RlxTensor) a = NULL, b = NULL, y = NULL;
      RlxTensor *inputs[2];

      for (guint i = 0; i < m * k; i++)
        va[i] = 1;
      for (guint i = 0; i < k * n; i++)
        vb[i] = 1;
      for (guint i = 0; i < m * n; i++)
        expected[i] = k;
      if (t & 2)
        {
          va[20 * k + 129] = bad[t & 1];
          for (guint j = 0; j < n; j++)
            expected[20 * n + j] = bad[t & 1];
        }
      else
        {
          vb[5 * n + 37] = bad[t & 1];
          for (guint i = 0; i < m; i++)
            expected[i * n + 37] = bad[t & 1];
        }
      inputs[0] = a = rlx_test_tensor ("f32[33,130]", va);
      inputs[1] = b = rlx_test_tensor ("f32[130,40]", vb);
      y = rlx_test_run_op_full ("matmul", 2, inputs, 2, NULL);
      rlx_test_compare ("special", y, NULL, expected, 0, 0);
    }
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/lanes/edges", test_edges);
  g_test_add_func ("/lanes/large", test_large);
  g_test_add_func ("/lanes/full", test_full);
  g_test_add_func ("/lanes/three", test_three);
  g_test_add_func ("/lanes/stacks", test_stacks);
  g_test_add_func ("/lanes/special", test_special);

  return g_test_run ();
}
