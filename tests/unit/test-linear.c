/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * matmul and linear against sums in doubles.
 */
#include "config.h"

#include "rlx-test-util.h"
#include "util/rlx-debug-private.h"

#include <math.h>
#include <string.h>

#include "rlx-device-private.h"

/* Half the distance between 1 and the next float. */
#define UNIT 0x1p-24

/* ---- the reference ---------------------------------------------------------- */

typedef struct
{
  gsize n_dims;
  gint64 shape[RLX_MAX_DIMS];
  double *values;
} Array;

static void
array_init (Array     *array,
            RlxTensor *tensor)
{
  const gint64 *shape = rlx_tensor_get_shape (tensor, &array->n_dims);

  memset (array->shape, 0, sizeof array->shape);
  for (gsize i = 0; i < array->n_dims; i++)
    array->shape[i] = shape[i];
  array->values = rlx_test_get_values (tensor);
}

/* The element of @array at @index of a shape that it broadcasts to. */
static double
array_at (const Array  *array,
          gsize         n_dims,
          const gint64 *index)
{
  gint64 at = 0;

  for (gsize i = 0; i < array->n_dims; i++)
    {
      gint64 dim = array->shape[i];

      at = at * dim + (dim == 1 ? 0 : index[n_dims - array->n_dims + i]);
    }

  return array->values[at];
}

/* Inserts a dimension of size 1: vectors become matrices. */
static void
array_insert (Array *array,
              gsize  axis)
{
  for (gsize i = array->n_dims++; i > axis; i--)
    array->shape[i] = array->shape[i - 1];
  array->shape[axis] = 1;
}

static void
array_transpose (Array *array)
{
  gint64 rows = array->shape[array->n_dims - 2];
  gint64 cols = array->shape[array->n_dims - 1];
  gsize n = 1;
  double *values;

  for (gsize i = 0; i < array->n_dims; i++)
    n *= array->shape[i];
  values = g_new (double, MAX (n, 1));
  for (gsize first = 0; first < n; first += rows * cols)
    for (gint64 i = 0; i < rows; i++)
      for (gint64 j = 0; j < cols; j++)
        values[first + j * rows + i] = array->values[first + i * cols + j];
  g_free (array->values);
  array->values = values;
  array->shape[array->n_dims - 2] = cols;
  array->shape[array->n_dims - 1] = rows;
}

static double
no_bound (gsize    index,
          double   expected,
          gpointer user_data)
{
  return 0;
}

/* alpha · a b + beta · bias with the bound of the operator table. */
static void
reference (RlxTestExpected *expectation,
           RlxTensor   *ta,
           RlxTensor   *tb,
           RlxTensor   *tbias,
           gboolean     transpose_a,
           gboolean     transpose_b,
           double       alpha,
           double       beta)
{
  gboolean scaled = tbias != NULL || alpha != 1 || beta != 1;
  Array a, b, bias = { 0 };
  gint64 shape[RLX_MAX_DIMS + 2] = { 0 };
  gint64 index[RLX_MAX_DIMS + 2];
  gsize n_dims, n = 1;
  gint64 k;

  array_init (&a, ta);
  array_init (&b, tb);
  if (tbias != NULL)
    array_init (&bias, tbias);
  if (a.n_dims == 1)
    array_insert (&a, 0);
  if (b.n_dims == 1)
    array_insert (&b, 1);
  if (transpose_a)
    array_transpose (&a);
  if (transpose_b)
    array_transpose (&b);

  n_dims = MAX (a.n_dims, b.n_dims);
  k = a.shape[a.n_dims - 1];
  for (gsize i = 0; i < n_dims; i++)
    {
      gint64 da = i + a.n_dims >= n_dims ? a.shape[i + a.n_dims - n_dims] : 1;
      gint64 db = i + b.n_dims >= n_dims ? b.shape[i + b.n_dims - n_dims] : 1;

      shape[i] = i == n_dims - 2 ? da : i == n_dims - 1 ? db : da == 1 ? db : da;
      n *= shape[i];
    }

  expectation->data_type = rlx_tensor_get_data_type (ta);
  expectation->expected = g_new (double, MAX (n, 1));
  expectation->bounds = g_new (double, MAX (n, 1));
  for (gsize i = 0; i < n; i++)
    {
      gint64 at_a[RLX_MAX_DIMS + 2], at_b[RLX_MAX_DIMS + 2];
      double sum = 0, magnitude = 0;
      gsize rest = i;

      for (gsize d = n_dims; d-- > 0;)
        {
          index[d] = rest % shape[d];
          rest /= shape[d];
        }
      memcpy (at_a, index, sizeof index);
      memcpy (at_b, index, sizeof index);
      for (gint64 j = 0; j < k; j++)
        {
          double product;

          at_a[n_dims - 1] = at_b[n_dims - 2] = j;
          product = array_at (&a, n_dims, at_a) * array_at (&b, n_dims, at_b);
          sum += product;
          magnitude += fabs (product);
        }
      expectation->expected[i] = sum;
      expectation->bounds[i] = 2 * k * UNIT * magnitude;
      if (scaled)
        {
          double offset = tbias != NULL ? beta * array_at (&bias, n_dims, index) : 0;

          expectation->expected[i] = alpha * sum + offset;
          expectation->bounds[i] = 2 * (k + 2) * UNIT * fabs (alpha) * magnitude + 4 * UNIT * fabs (offset);
        }
    }

  g_free (a.values);
  g_free (b.values);
  g_free (bias.values);
}

static void
expectation_clear (RlxTestExpected *expectation)
{
  g_clear_pointer (&expectation->expected, g_free);
  g_clear_pointer (&expectation->bounds, g_free);
}

/* ---- matmul ------------------------------------------------------------------- */

static GVariant *
transposes (gboolean transpose_a,
            gboolean transpose_b)
{
  return g_variant_new_parsed ("{'transpose_a': <%b>, 'transpose_b': <%b>}", transpose_a, transpose_b);
}

static void
check_matmul (const char *type_a,
              const char *type_b,
              gboolean    transpose_a,
              gboolean    transpose_b,
              const char *type)
{
  g_autofree char *what = g_strdup_printf ("matmul of %s%s and %s%s", type_a, transpose_a ? "ᵀ" : "",
                                           type_b, transpose_b ? "ᵀ" : "");
  g_autoptr(RlxTensor) a = rlx_test_random (type_a, -1, 1, 1);
  g_autoptr(RlxTensor) b = rlx_test_random (type_b, -1, 1, 2);
  g_autoptr(RlxTensor) y = NULL;
  RlxTensor *inputs[] = { a, b };
  RlxTestExpected expectation;

  if (rlx_test_device () == NULL)
    return;

  y = rlx_test_run_op ("matmul", 2, inputs, transposes (transpose_a, transpose_b));
  reference (&expectation, a, b, NULL, transpose_a, transpose_b, 1, 1);
  rlx_test_compare_full (what, y, type, expectation.expected, rlx_test_get_bound, &expectation);
  expectation_clear (&expectation);
}

static void
check_product (const char *data_type,
               int         m,
               int         n,
               int         k,
               gboolean    transpose_a,
               gboolean    transpose_b)
{
  g_autofree char *a = g_strdup_printf ("%s[%d,%d]", data_type, transpose_a ? k : m, transpose_a ? m : k);
  g_autofree char *b = g_strdup_printf ("%s[%d,%d]", data_type, transpose_b ? n : k, transpose_b ? k : n);
  g_autofree char *y = g_strdup_printf ("%s[%d,%d]", data_type, m, n);

  check_matmul (a, b, transpose_a, transpose_b, y);
}

/* Sizes next to each one at which the kernel splits rows, columns or sums. */
static void
test_matmul_edges (void)
{
  static const int rows[] = { 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 25 };
  static const int cols[] = { 1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 257 };
  static const int sums[] = { 1, 2, 3, 4, 5, 8, 11, 64, 129, 255 };
  g_autoptr(GRand) rand = g_rand_new_with_seed (5);

  for (guint i = 0; i < G_N_ELEMENTS (rows) * 2; i++)
    for (guint j = 0; j < G_N_ELEMENTS (cols); j += 1 + g_rand_int_range (rand, 0, 4))
      check_product ("f32", rows[i % G_N_ELEMENTS (rows)], cols[j],
                     sums[g_rand_int_range (rand, 0, G_N_ELEMENTS (sums))],
                     g_rand_boolean (rand), g_rand_boolean (rand));
}

static void
test_matmul_large (void)
{
  /* sixteen rows at a time: enough workgroups and products */
  check_product ("f32", 130, 520, 70, FALSE, FALSE);
  check_product ("f32", 520, 129, 67, TRUE, TRUE);
  check_product ("f16", 144, 512, 65, FALSE, TRUE);
  /* rows and columns are swapped */
  check_product ("f32", 1000, 3, 70, FALSE, FALSE);
  check_product ("f32", 1000, 5, 70, TRUE, TRUE);
  check_product ("f32", 513, 1, 40, FALSE, FALSE);
  check_product ("f32", 1, 1000, 70, FALSE, FALSE);
  check_product ("f32", 1, 1000, 70, TRUE, TRUE);
  /* long sums */
  check_product ("f32", 20, 24, 4096, FALSE, FALSE);
  check_product ("f32", 5, 65, 4099, TRUE, FALSE);
}

/* Operands and results above a megabyte, which need several bindings with
 * RLX_DEBUG=target=small. */
static void
test_matmul_bindings (void)
{
  check_product ("f32", 600, 8, 450, FALSE, FALSE);
  check_product ("f32", 8, 600, 450, FALSE, FALSE);
  check_product ("f32", 520, 520, 5, FALSE, TRUE);
  check_product ("f16", 740, 740, 3, TRUE, FALSE);
}

static void
test_matmul_dot (void)
{
  check_matmul ("f32[100000]", "f32[100000]", FALSE, FALSE, "f32[]");
  check_matmul ("f16[20001]", "f16[20001]", FALSE, FALSE, "f16[]");
  check_product ("f32", 1, 1, 256, FALSE, FALSE);
  check_product ("f32", 1, 1, 4095, FALSE, FALSE);
  check_product ("f32", 1, 1, 4097, TRUE, TRUE);
  check_product ("f32", 3, 5, 300, FALSE, FALSE);
  check_product ("f32", 3, 5, 300, TRUE, FALSE);
  check_product ("f32", 5, 3, 300, FALSE, TRUE);
  check_matmul ("f32[2,1,300]", "f32[3,1,300,2]", FALSE, FALSE, "f32[3,2,1,2]");
}

static void
test_matmul_shapes (void)
{
  if (rlx_test_device () == NULL)
    return;

  check_product ("f32", 40, 40, 300, FALSE, TRUE);
  check_product ("f32", 40, 40, 300, TRUE, FALSE);
  check_product ("f32", 1, 3000, 70, FALSE, TRUE);
  check_product ("f32", 3000, 1, 70, FALSE, FALSE);
  check_product ("f32", 300, 31, 7, FALSE, FALSE);
  check_product ("f32", 33, 20, 7, FALSE, FALSE);
  check_product ("f32", 9, 33, 7, FALSE, FALSE);
  check_matmul ("f32[2,1,3,300]", "f32[5,300,7]", FALSE, FALSE, "f32[2,5,3,7]");
  check_matmul ("f16[2,1,3,300]", "f16[5,7,300]", FALSE, TRUE, "f16[2,5,3,7]");
}

static void
test_matmul_transposes (void)
{
  for (guint i = 0; i < 4; i++)
    {
      check_product ("f32", 37, 70, 45, i & 1, i >> 1);
      check_product ("f16", 19, 66, 33, i & 1, i >> 1);
    }
  check_matmul ("f32[3,5,4]", "f32[3,7,5]", TRUE, TRUE, "f32[3,4,7]");
  check_matmul ("f32[2,3,5,4]", "f32[7,5]", TRUE, TRUE, "f32[2,3,4,7]");
}

static void
test_matmul_batches (void)
{
  check_matmul ("f32[3,4,5]", "f32[5,6]", FALSE, FALSE, "f32[3,4,6]");
  check_matmul ("f32[4,5]", "f32[3,5,6]", FALSE, FALSE, "f32[3,4,6]");
  check_matmul ("f32[3,4,5]", "f32[3,5,6]", FALSE, FALSE, "f32[3,4,6]");
  check_matmul ("f32[1,4,5]", "f32[3,5,6]", FALSE, FALSE, "f32[3,4,6]");
  check_matmul ("f32[3,4,5]", "f32[1,5,6]", FALSE, FALSE, "f32[3,4,6]");
  check_matmul ("f32[2,1,4,5]", "f32[1,3,5,6]", FALSE, FALSE, "f32[2,3,4,6]");
  check_matmul ("f32[2,3,4,5]", "f32[3,5,6]", FALSE, FALSE, "f32[2,3,4,6]");
  check_matmul ("f32[2,3,4,5]", "f32[2,1,5,6]", FALSE, FALSE, "f32[2,3,4,6]");
  check_matmul ("f32[2,3,4,5]", "f32[5,6]", FALSE, FALSE, "f32[2,3,4,6]");
  check_matmul ("f32[7,1,1,40]", "f32[7,2,40,9]", FALSE, FALSE, "f32[7,2,1,9]");
  check_matmul ("f32[2,3,40,2]", "f32[3,2,1]", FALSE, FALSE, "f32[2,3,40,1]");
  check_matmul ("f32[2,1,3,1,2,1,3,4]", "f32[1,2,1,3,1,2,4,5]", FALSE, FALSE, "f32[2,2,3,3,2,2,3,5]");
  check_matmul ("f16[2,1,3,5]", "f16[3,5,7]", FALSE, FALSE, "f16[2,3,3,7]");
}

static void
test_matmul_vectors (void)
{
  check_matmul ("f32[5]", "f32[5]", FALSE, FALSE, "f32[]");
  check_matmul ("f32[5]", "f32[5,7]", FALSE, FALSE, "f32[7]");
  check_matmul ("f32[5]", "f32[7,5]", FALSE, TRUE, "f32[7]");
  check_matmul ("f32[7,5]", "f32[5]", FALSE, FALSE, "f32[7]");
  check_matmul ("f32[5,7]", "f32[5]", TRUE, FALSE, "f32[7]");
  check_matmul ("f32[5]", "f32[2,3,5,7]", FALSE, FALSE, "f32[2,3,7]");
  check_matmul ("f32[2,3,7,5]", "f32[5]", FALSE, FALSE, "f32[2,3,7]");
  check_matmul ("f32[2,3,5,7]", "f32[5]", TRUE, FALSE, "f32[2,3,7]");
}

static void
test_matmul_empty (void)
{
  check_matmul ("f32[0,3]", "f32[3,4]", FALSE, FALSE, "f32[0,4]");
  check_matmul ("f32[2,3]", "f32[3,0]", FALSE, FALSE, "f32[2,0]");
  check_matmul ("f32[2,0]", "f32[0,3]", FALSE, FALSE, "f32[2,3]");
  check_matmul ("f16[2,0]", "f16[0,3]", FALSE, FALSE, "f16[2,3]");
  check_matmul ("f32[0]", "f32[0]", FALSE, FALSE, "f32[]");
  check_matmul ("f32[0,2,3]", "f32[3,4]", FALSE, FALSE, "f32[0,2,4]");
  check_matmul ("f32[0,2,3]", "f32[1,3,4]", FALSE, FALSE, "f32[0,2,4]");
  check_matmul ("f32[5,2,0]", "f32[5,0,70]", FALSE, FALSE, "f32[5,2,70]");
}

/* Infinities and NaN stay in their row or column. */
static void
test_matmul_special (void)
{
  g_autofree double *a = g_new (double, 9 * 5);
  g_autofree double *b = g_new (double, 5 * 70);
  g_autofree double *y = g_new (double, 9 * 70);
  g_autoptr(RlxTensor) ta = NULL;
  g_autoptr(RlxTensor) tb = NULL;
  g_autoptr(RlxTensor) got = NULL;

  if (rlx_test_device () == NULL)
    return;

  for (int i = 0; i < 9 * 5; i++)
    a[i] = i % 7 + 1;
  for (int i = 0; i < 5 * 70; i++)
    b[i] = i % 3 + 1;
  a[8 * 5 + 4] = NAN;
  a[3 * 5 + 1] = INFINITY;
  b[2 * 70 + 69] = NAN;
  b[1 * 70 + 5] = -INFINITY;
  for (int m = 0; m < 9; m++)
    for (int n = 0; n < 70; n++)
      {
        y[m * 70 + n] = 0;
        for (int k = 0; k < 5; k++)
          y[m * 70 + n] += a[m * 5 + k] * b[k * 70 + n];
      }

  ta = rlx_test_tensor ("f32[9,5]", a);
  tb = rlx_test_tensor ("f32[5,70]", b);
  got = rlx_test_run_op ("matmul", 2, (RlxTensor *[]) { ta, tb }, NULL);
  rlx_test_compare ("NaN and Inf", got, "f32[9,70]", y, 0, 0);
}

/* Partial sums that overflow f16, but are exact integers in f32: 512 · 1024 - 511 · 1024
 * - 1023 is exactly 1. */
static void
test_matmul_wide_sums (void)
{
  enum { K = 1024, N = 20 };
  g_autofree double *a = g_new (double, N * K);
  g_autofree double *b = g_new (double, N * K);
  g_autoptr(RlxTensor) wide_a = NULL;
  g_autoptr(RlxTensor) wide_b = NULL;
  g_autoptr(RlxTensor) y = NULL;
  g_autoptr(RlxTensor) short_a = NULL;
  g_autoptr(RlxTensor) short_b = NULL;
  g_autoptr(RlxTensor) z = NULL;
  double ones[N * N];

  if (rlx_test_device () == NULL)
    return;

  for (int i = 0; i < N; i++)
    for (int k = 0; k < K; k++)
      {
        a[i * K + k] = 32;
        b[i * K + k] = k < K / 2 ? 32 : k < K - 1 ? -32 : -1023.0 / 32;
      }
  for (int i = 0; i < N * N; i++)
    ones[i] = 1;

  wide_a = rlx_test_tensor ("f16[20,1024]", a);
  wide_b = rlx_test_tensor ("f16[20,1024]", b);
  y = rlx_test_run_op ("matmul", 2, (RlxTensor *[]) { wide_a, wide_b }, transposes (FALSE, TRUE));
  rlx_test_compare_full ("wide sums in tiles", y, "f16[20,20]", ones, no_bound, NULL);

  short_a = rlx_test_tensor ("f16[1024]", a);
  short_b = rlx_test_tensor ("f16[1024]", b);
  z = rlx_test_run_op ("matmul", 2, (RlxTensor *[]) { short_a, short_b }, NULL);
  rlx_test_compare_full ("wide sum of one output", z, "f16[]", ones, no_bound, NULL);
}

static void
test_matmul_same_operand (void)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxTensor) x = rlx_test_random ("f32[21,34]", -1, 1, 9);
  g_autoptr(RlxMatmulOptions) options = rlx_matmul_options_new ();
  g_autofree RlxTensor **outputs = NULL;
  g_autoptr(RlxTensor) y = NULL;
  RlxTestExpected expectation;
  RlxNode *node;
  gsize n_outputs;

  if (rlx_test_device () == NULL)
    return;

  rlx_matmul_options_set_transpose_b (options, TRUE);
  node = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, (gint64[]) { 21, 34 }, 2, &error);
  rlx_graph_output (graph, "y", rlx_node_matmul (node, node, options, &error), &error);
  g_assert_no_error (error);
  outputs = rlx_test_run_graph (g_object_ref (graph), 1, &x, &n_outputs);
  if (outputs == NULL)
    return;
  g_assert_cmpuint (n_outputs, ==, 1);
  y = outputs[0];

  reference (&expectation, x, x, NULL, FALSE, TRUE, 1, 1);
  rlx_test_compare_full ("x xᵀ", y, "f32[21,21]", expectation.expected, rlx_test_get_bound, &expectation);
  expectation_clear (&expectation);
}

/* The same bits every time, with inputs and with constants. */
static void
test_matmul_repeatable (void)
{
  static const char *const types[][2] = {
    { "f32[33,500]", "f32[500,129]" },
    { "f32[2,5000]", "f32[5000,3]" },
  };

  if (rlx_test_device () == NULL)
    return;

  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    {
      g_autoptr(RlxTensor) a = rlx_test_random (types[i][0], -1, 1, 11);
      g_autoptr(RlxTensor) b = rlx_test_random (types[i][1], -1, 1, 12);
      g_autoptr(RlxTensor) first = NULL;

      for (guint constants = 0; constants < 4; constants++)
        {
          g_autoptr(RlxTensor) y = rlx_test_run_op_full ("matmul", 2, (RlxTensor *[]) { a, b }, constants, NULL);

          g_assert_nonnull (y);
          if (first == NULL)
            first = g_object_ref (y);
          g_assert_true (rlx_tensor_equal (first, y));
        }
    }
}

static void
test_matmul_rule (void)
{
  rlx_test_infers ("matmul", "f32[2,3] f32[3,4]", NULL, "f32[2,4]");
  rlx_test_infers ("matmul", "f16[9,1,2,3] f16[5,3,4]", NULL, "f16[9,5,2,4]");
  rlx_test_infers ("matmul", "f32[3] f32[3]", NULL, "f32[]");
  rlx_test_infers ("matmul", "f32[3] f32[5,3,4]", NULL, "f32[5,4]");
  rlx_test_infers ("matmul", "f32[5,4,3] f32[3]", NULL, "f32[5,4]");
  rlx_test_infers ("matmul", "f32[3,2] f32[4,3]", transposes (TRUE, TRUE), "f32[2,4]");
  rlx_test_infers ("matmul", "f32[0,3] f32[3,0]", NULL, "f32[0,0]");

  rlx_test_refuses ("matmul", "f32[2,3] f32[4,5]", NULL, RLX_GRAPH_ERROR_SHAPE, "f32[2, 3]");
  rlx_test_refuses ("matmul", "f32[2,3] f32[4,5]", NULL, RLX_GRAPH_ERROR_SHAPE, "f32[4, 5]");
  rlx_test_refuses ("matmul", "f32[2,3] f32[4,5]", NULL, RLX_GRAPH_ERROR_SHAPE, "differ: 3 and 4");
  rlx_test_refuses ("matmul", "f32[2,3] f32[3,5]", transposes (TRUE, FALSE), RLX_GRAPH_ERROR_SHAPE, "(transposed)");
  rlx_test_refuses ("matmul", "f32[3] f32[4]", NULL, RLX_GRAPH_ERROR_SHAPE, "differ");
  rlx_test_refuses ("matmul", "f32[2,3] f32[1]", NULL, RLX_GRAPH_ERROR_SHAPE, "differ");
  rlx_test_refuses ("matmul", "f32[2,2,3] f32[3,3,5]", NULL, RLX_GRAPH_ERROR_SHAPE, "do not broadcast");
  rlx_test_refuses ("matmul", "f32[] f32[3]", NULL, RLX_GRAPH_ERROR_SHAPE, "first operand is a scalar");
  rlx_test_refuses ("matmul", "f32[3] f32[]", NULL, RLX_GRAPH_ERROR_SHAPE, "second operand is a scalar");
  rlx_test_refuses ("matmul", "f32[3] f32[3,3]", transposes (TRUE, FALSE), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "transpose_a");
  rlx_test_refuses ("matmul", "f32[3,3] f32[3]", transposes (FALSE, TRUE), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "transpose_b");
  rlx_test_refuses ("matmul", "f32[2,3] f16[3,4]", NULL, RLX_GRAPH_ERROR_DATA_TYPE, NULL);
  rlx_test_refuses ("matmul", "i32[2,3] i32[3,4]", NULL, RLX_GRAPH_ERROR_DATA_TYPE, NULL);
  /* the operands are within the limits, the result is not */
  rlx_test_refuses ("matmul", "f32[100000,1] f32[1,100000]", NULL, RLX_GRAPH_ERROR_LIMIT, NULL);
}

/* ---- linear --------------------------------------------------------------------- */

static GVariant *
linear_attributes (gboolean transpose_a,
                   gboolean transpose_b,
                   double   alpha,
                   double   beta)
{
  return g_variant_new_parsed ("{'transpose_a': <%b>, 'transpose_b': <%b>, 'alpha': <%d>, 'beta': <%d>}",
                               transpose_a, transpose_b, alpha, beta);
}

static void
check_linear (const char *type_a,
              const char *type_b,
              const char *type_bias,
              gboolean    transpose_a,
              gboolean    transpose_b,
              double      alpha,
              double      beta,
              const char *type)
{
  g_autofree char *what = g_strdup_printf ("linear of %s%s, %s%s and %s, alpha %g, beta %g",
                                           type_a, transpose_a ? "ᵀ" : "", type_b, transpose_b ? "ᵀ" : "",
                                           type_bias ? type_bias : "no bias", alpha, beta);
  g_autoptr(RlxTensor) a = rlx_test_random (type_a, -1, 1, 21);
  g_autoptr(RlxTensor) b = rlx_test_random (type_b, -1, 1, 22);
  g_autoptr(RlxTensor) bias = type_bias ? rlx_test_random (type_bias, -10, 10, 23) : NULL;
  g_autoptr(RlxTensor) y = NULL;
  RlxTensor *inputs[] = { a, b, bias };
  RlxTestExpected expectation;

  if (rlx_test_device () == NULL)
    return;

  y = rlx_test_run_op ("linear", bias != NULL ? 3 : 2, inputs,
                       linear_attributes (transpose_a, transpose_b, alpha, beta));
  reference (&expectation, a, b, bias, transpose_a, transpose_b, alpha, beta);
  rlx_test_compare_full (what, y, type, expectation.expected, rlx_test_get_bound, &expectation);
  expectation_clear (&expectation);
}

static void
test_linear_bias (void)
{
  static const char *const biases[] = {
    "f32[11]", "f32[1,11]", "f32[9,1]", "f32[9,11]", "f32[1,1]", "f32[1]", "f32[]", NULL,
  };

  for (guint i = 0; i < G_N_ELEMENTS (biases); i++)
    {
      check_linear ("f32[9,30]", "f32[30,11]", biases[i], FALSE, FALSE, 1, 1, "f32[9,11]");
      check_linear ("f32[30,9]", "f32[11,30]", biases[i], TRUE, TRUE, 0.3, -1.7, "f32[9,11]");
    }
  check_linear ("f16[9,30]", "f16[30,11]", "f16[11]", FALSE, FALSE, 1, 1, "f16[9,11]");
  check_linear ("f16[9,30]", "f16[11,30]", "f16[9,1]", FALSE, TRUE, 2, 0.5, "f16[9,11]");
}

static void
test_linear_leading (void)
{
  static const char *const biases[] = {
    "f32[5]", "f32[4,5]", "f32[4,1]", "f32[3,1,5]", "f32[3,1,1]", "f32[3,4,5]",
    "f32[2,1,4,1]", "f32[2,1,4,5]", "f32[2,1,1,5]", "f32[2,3,4,5]", "f32[1,3,1,5]",
  };

  for (guint i = 0; i < G_N_ELEMENTS (biases); i++)
    check_linear ("f32[2,3,4,6]", "f32[6,5]", biases[i], FALSE, FALSE, 1, 1, "f32[2,3,4,5]");
  check_linear ("f32[6]", "f32[6,5]", "f32[5]", FALSE, FALSE, 1, 1, "f32[5]");
  check_linear ("f32[6]", "f32[6,5]", NULL, FALSE, FALSE, -1, 1, "f32[5]");
  check_linear ("f32[2,3,2,3,2,3,2,6]", "f32[6,5]", "f32[2,1,2,1,2,1,2,1]", FALSE, FALSE, 1, 1, "f32[2,3,2,3,2,3,2,5]");
}

static void
test_linear_shapes (void)
{
  /* rows and columns are swapped, also in the bias */
  check_linear ("f32[300,20]", "f32[20,3]", "f32[3]", FALSE, FALSE, 1, 1, "f32[300,3]");
  check_linear ("f32[300,20]", "f32[3,20]", "f32[300,1]", FALSE, TRUE, 1, 2, "f32[300,3]");
  check_linear ("f32[3,100,20]", "f32[20,1]", "f32[3,1,1]", FALSE, FALSE, 1, 1, "f32[3,100,1]");
  /* one workgroup per output */
  check_linear ("f32[2,3000]", "f32[3000,3]", "f32[2,3]", FALSE, FALSE, 2, 3, "f32[2,3]");
  check_linear ("f32[2,3000]", "f32[3,3000]", "f32[3]", FALSE, TRUE, 1, 1, "f32[2,3]");
  /* sixteen rows at a time */
  check_linear ("f32[4,33,70]", "f32[70,515]", "f32[515]", FALSE, FALSE, 1, 1, "f32[4,33,515]");
  check_linear ("f16[132,70]", "f16[515,70]", "f16[515]", FALSE, TRUE, 1, 1, "f16[132,515]");
  check_linear ("f32[1,64]", "f32[64,200]", "f32[200]", FALSE, FALSE, 1, 1, "f32[1,200]");
}

static void
test_linear_empty (void)
{
  check_linear ("f32[0,3]", "f32[3,4]", "f32[4]", FALSE, FALSE, 1, 1, "f32[0,4]");
  check_linear ("f32[2,0]", "f32[0,4]", "f32[4]", FALSE, FALSE, 1, 1, "f32[2,4]");
  check_linear ("f32[2,0]", "f32[4,0]", "f32[2,1]", FALSE, TRUE, 3, 2, "f32[2,4]");
  check_linear ("f32[2,0]", "f32[0,4]", NULL, FALSE, FALSE, 1, 1, "f32[2,4]");
  check_linear ("f32[2,3]", "f32[3,0]", "f32[1]", FALSE, FALSE, 1, 1, "f32[2,0]");
  check_linear ("f32[40,0]", "f32[0,2]", "f32[40,2]", FALSE, FALSE, 1, 0.5, "f32[40,2]");
}

static void
test_linear_rule (void)
{
  rlx_test_infers ("linear", "f32[2,3] f32[3,4]", NULL, "f32[2,4]");
  rlx_test_infers ("linear", "f32[2,3] f32[3,4] f32[4]", NULL, "f32[2,4]");
  rlx_test_infers ("linear", "f32[3] f32[3,4] f32[]", NULL, "f32[4]");
  rlx_test_infers ("linear", "f16[7,2,3] f16[4,3] -", linear_attributes (FALSE, TRUE, 1, 1), "f16[7,2,4]");
  rlx_test_infers ("linear", "f32[3,2] f32[3,4] f32[2,1]", linear_attributes (TRUE, FALSE, 1, 1), "f32[2,4]");

  rlx_test_refuses ("linear", "f32[2,3] f32[4,5]", NULL, RLX_GRAPH_ERROR_SHAPE, "f32[2, 3] and the rows of f32[4, 5] differ: 3 and 4");
  rlx_test_refuses ("linear", "f32[2,3] f32[2,3,4]", NULL, RLX_GRAPH_ERROR_SHAPE, "weight");
  rlx_test_refuses ("linear", "f32[2,3] f32[3]", NULL, RLX_GRAPH_ERROR_SHAPE, "weight");
  rlx_test_refuses ("linear", "f32[] f32[3,4]", NULL, RLX_GRAPH_ERROR_SHAPE, "scalar");
  rlx_test_refuses ("linear", "f32[2,3] f32[3,4] f32[3]", NULL, RLX_GRAPH_ERROR_SHAPE, "bias f32[3]");
  rlx_test_refuses ("linear", "f32[2,3] f32[3,4] f32[1,2,4]", NULL, RLX_GRAPH_ERROR_SHAPE, "f32[2, 4]");
  rlx_test_refuses ("linear", "f32[2,3] f32[3,1] f32[4]", NULL, RLX_GRAPH_ERROR_SHAPE, "bias");
  rlx_test_refuses ("linear", "f32[2,3] f32[3,4] f32[0]", NULL, RLX_GRAPH_ERROR_SHAPE, "bias");
  rlx_test_refuses ("linear", "f32[2,3] f32[3,4] f16[4]", NULL, RLX_GRAPH_ERROR_DATA_TYPE, NULL);
  rlx_test_refuses ("linear", "f32[5,2,3] f32[2,4]", linear_attributes (TRUE, FALSE, 1, 1), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "3 dimensions");
  rlx_test_refuses ("linear", "f32[3] f32[3,4]", linear_attributes (TRUE, FALSE, 1, 1), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "transpose_a");
  rlx_test_refuses ("linear", "f32[2,3] f32[3,4]", linear_attributes (FALSE, FALSE, NAN, 1), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "alpha");
  rlx_test_refuses ("linear", "f32[2,3] f32[3,4]", linear_attributes (FALSE, FALSE, 1e39, 1), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "alpha");
  rlx_test_refuses ("linear", "f32[2,3] f32[3,4]", linear_attributes (FALSE, FALSE, 1, -INFINITY), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "beta");
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/matmul/rule", test_matmul_rule);
  g_test_add_func ("/matmul/edges", test_matmul_edges);
  g_test_add_func ("/matmul/large", test_matmul_large);
  g_test_add_func ("/matmul/bindings", test_matmul_bindings);
  g_test_add_func ("/matmul/dot", test_matmul_dot);
  g_test_add_func ("/matmul/shapes", test_matmul_shapes);
  g_test_add_func ("/matmul/transposes", test_matmul_transposes);
  g_test_add_func ("/matmul/batches", test_matmul_batches);
  g_test_add_func ("/matmul/vectors", test_matmul_vectors);
  g_test_add_func ("/matmul/empty", test_matmul_empty);
  g_test_add_func ("/matmul/special", test_matmul_special);
  g_test_add_func ("/matmul/wide-sums", test_matmul_wide_sums);
  g_test_add_func ("/matmul/same-operand", test_matmul_same_operand);
  g_test_add_func ("/matmul/repeatable", test_matmul_repeatable);
  g_test_add_func ("/linear/rule", test_linear_rule);
  g_test_add_func ("/linear/bias", test_linear_bias);
  g_test_add_func ("/linear/leading", test_linear_leading);
  g_test_add_func ("/linear/shapes", test_linear_shapes);
  g_test_add_func ("/linear/empty", test_linear_empty);

  return g_test_run ();
}
