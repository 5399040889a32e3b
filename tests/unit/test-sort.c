/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Order and running sums along axes of every length.
 */
#include "config.h"
#include "rlx-test-util.h"

#include <math.h>
#include <string.h>

#include "util/rlx-debug-private.h"

#define U 0x1p-24 /* half a unit in the last place of 1 */

/* ---- the reference ----------------------------------------------------------------- */

typedef struct
{
  double value;
  gsize index;
} Item;

static int
compare_values (double a,
                double b)
{
  if (isnan (a) || isnan (b))
    return (isnan (a) ? 1 : 0) - (isnan (b) ? 1 : 0);
  return a < b ? -1 : a > b ? 1 : 0;
}

static int
compare_items (gconstpointer a,
               gconstpointer b,
               gpointer      data)
{
  const Item *first = a, *second = b;
  int order = compare_values (first->value, second->value) * (data != NULL ? -1 : 1);

  return order != 0 ? order : first->index < second->index ? -1 : 1;
}

static Item *
sort_items (const double *values,
            gsize         n,
            gboolean      descending)
{
  Item *items = g_new (Item, n + 1);

  for (gsize i = 0; i < n; i++)
    items[i] = (Item) { values[i], i };
  g_sort_array (items, n, sizeof (Item), compare_items, descending ? GINT_TO_POINTER (1) : NULL);

  return items;
}

/* Many ties; sporadic infinities, zeros of both signs and NaN. */
static double *
make_values (gsize   n,
             guint32 seed)
{
  static const double special[] = { NAN, INFINITY, -INFINITY, 0, -0.0, 1e-40, -1e-40 };
  g_autoptr (GRand) rand = g_rand_new_with_seed (seed);
  double *values = g_new (double, n + 1);

  for (gsize i = 0; i < n; i++)
    {
      if (g_rand_int_range (rand, 0, 20) == 0)
        values[i] = special[g_rand_int_range (rand, 0, G_N_ELEMENTS (special))];
      else if (g_rand_boolean (rand))
        values[i] = g_rand_int_range (rand, -20, 20);
      else
        values[i] = (float) g_rand_double_range (rand, -100, 100);
    }

  return values;
}

static double
exact (gsize    index G_GNUC_UNUSED,
       double   expected G_GNUC_UNUSED,
       gpointer user_data G_GNUC_UNUSED)
{
  return 0;
}

/* ---- sorting --------------------------------------------------------------------------- */

static RlxTensor **
run_sorts (RlxTensor *x,
           gboolean   descending,
           gint64     k,
           gsize     *n_outputs)
{
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  g_autoptr (GError) error = NULL;
  gsize n_dims, n;
  const gint64 *shape = rlx_tensor_get_shape (x, &n_dims);
  RlxNode *node = rlx_graph_input (graph, "x", rlx_tensor_get_data_type (x), shape, n_dims, &error);
  g_autofree RlxNode **sorted = NULL, **indices = NULL, **top = NULL;

  sorted = rlx_graph_add_op (graph, "sort", &node, 1, g_variant_new_parsed ("{'descending': <%b>}", descending), &n, &error);
  g_assert_no_error (error);
  indices = rlx_graph_add_op (graph, "arg_sort", &node, 1, g_variant_new_parsed ("{'descending': <%b>}", descending), &n, &error);
  g_assert_no_error (error);
  top = rlx_graph_add_op (graph, "top_k", &node, 1, g_variant_new_parsed ("{'largest': <%b>, 'k': <%x>}", descending, k), &n, &error);
  g_assert_no_error (error);
  rlx_graph_output (graph, "sorted", sorted[0], NULL);
  rlx_graph_output (graph, "indices", indices[0], NULL);
  rlx_graph_output (graph, "top", top[0], NULL);
  rlx_graph_output (graph, "top-indices", top[1], NULL);

  return rlx_test_run_graph (g_object_ref (graph), 1, &x, n_outputs);
}

/* Rows of @n elements, in both directions; a k for each of the algorithms. */
static void
check_length (const char *name,
              gsize       n_rows,
              gsize       n,
              gint64      k)
{
  for (int descending = 0; descending < 2; descending++)
    {
      g_autofree char *type = g_strdup_printf ("%s[%" G_GSIZE_FORMAT ",%" G_GSIZE_FORMAT "]", name, n_rows, n);
      g_autofree double *values = make_values (n_rows * n, (guint32) n);
      g_autofree double *sorted = g_new (double, n_rows * n + 1), *indices = g_new (double, n_rows * n + 1);
      g_autofree double *top = g_new (double, n_rows * n + 1), *top_indices = g_new (double, n_rows * n + 1);
      g_autofree char *index_type = g_strdup_printf ("i32[%" G_GSIZE_FORMAT ",%" G_GSIZE_FORMAT "]", n_rows, n);
      g_autofree char *top_type = g_strdup_printf ("%s[%" G_GSIZE_FORMAT ",%" G_GINT64_FORMAT "]", name, n_rows, k);
      g_autofree char *top_index_type = g_strdup_printf ("i32[%" G_GSIZE_FORMAT ",%" G_GINT64_FORMAT "]", n_rows, k);
      g_autofree char *what = g_strdup_printf ("%s %s, k %" G_GINT64_FORMAT, type, descending ? "falling" : "rising", k);
      g_autoptr (RlxTensor) x = NULL;
      g_autofree double *real = NULL;
      g_autofree RlxTensor **outputs = NULL;
      gsize n_outputs;

      /* Integers have no NaN. */
      if (name[0] != 'f')
        for (gsize i = 0; i < n_rows * n; i++)
          values[i] = isfinite (values[i]) ? trunc (values[i]) + (name[0] == 'u' ? 100 : 0) : 0;
      x = rlx_test_tensor (type, values);
      real = rlx_test_get_values (x);
      for (gsize row = 0; row < n_rows; row++)
        {
          g_autofree Item *items = sort_items (real + row * n, n, descending);

          for (gsize i = 0; i < n; i++)
            {
              sorted[row * n + i] = items[i].value;
              indices[row * n + i] = (double) items[i].index;
              if ((gint64) i < k)
                {
                  top[(gint64) row * k + (gint64) i] = items[i].value;
                  top_indices[(gint64) row * k + (gint64) i] = (double) items[i].index;
                }
            }
        }

      outputs = run_sorts (x, descending, k, &n_outputs);
      if (outputs == NULL)
        return;
      rlx_test_compare_full (what, outputs[0], type, sorted, exact, NULL);
      rlx_test_compare_full (what, outputs[1], index_type, indices, exact, NULL);
      rlx_test_compare_full (what, outputs[2], top_type, top, exact, NULL);
      rlx_test_compare_full (what, outputs[3], top_index_type, top_indices, exact, NULL);
      for (gsize i = 0; i < n_outputs; i++)
        g_object_unref (outputs[i]);
    }
}

static void
test_lengths (void)
{
  static const gsize lengths[] = { 1, 2, 7, 63, 64, 65, 256, 257, 1000, 1023, 1024, 1025, 2048, 2049, 5000 };

  if (rlx_test_device () == NULL)
    return;

  for (gsize i = 0; i < G_N_ELEMENTS (lengths); i++)
    {
      check_length ("f32", 1, lengths[i], (gint64) MIN (lengths[i], 5));
      check_length ("f32", 3, lengths[i], (gint64) (lengths[i] + 1) / 2);
    }
  check_length ("f32", 700, 7, 7);
  check_length ("f32", 90, 65, 0);
}

/* Few of long rows, which are scanned once. */
static void
test_few (void)
{
  if (rlx_test_device () == NULL)
    return;

  check_length ("f32", 1, 20000, 40);
  check_length ("f32", 40, 1100, 15);
  check_length ("f16", 9, 1300, 64);
  check_length ("u8", 3, 3000, 20);
  check_length ("i32", 2, 5001, 3);
}

/* Only NaN: there are no other indices. */
static void
test_nothing_but_nan (void)
{
  float values[40];
  g_autoptr (RlxTensor) x = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (values); i++)
    values[i] = NAN;
  x = rlx_tensor_new_from_floats ((const gint64[]) { 2, 20 }, 2, values, G_N_ELEMENTS (values), NULL);
  for (int descending = 0; descending < 2; descending++)
    {
      gsize n_outputs;
      g_autofree RlxTensor **outputs = run_sorts (x, descending, 3, &n_outputs);

      if (outputs == NULL)
        return;
      rlx_test_compare_full ("indices of NaN", outputs[3], "i32[2,3]", (const double[]) { 0, 1, 2, 0, 1, 2 }, exact, NULL);
      for (gsize i = 0; i < n_outputs; i++)
        g_object_unref (outputs[i]);
    }
}

static void
test_long (void)
{
  if (rlx_test_device () == NULL)
    return;

  check_length ("f32", 1, 70000, 8);
  check_length ("f32", 1, 100000, 300);
  check_length ("f16", 2, 30000, 20000);
}

static void
test_million (void)
{
  g_autoptr (RlxTensor) x = NULL, y = NULL;
  g_autofree double *values = NULL, *sorted = NULL;
  g_autofree Item *items = NULL;

  if (rlx_test_device () == NULL)
    return;
  if (rlx_test_has_small_bindings ())
    {
      g_test_skip ("needs more bindings than there are");
      return;
    }

  values = make_values (1000000, 9);
  x = rlx_test_tensor ("f32[1000000]", values);
  items = sort_items (values, 1000000, FALSE);
  sorted = g_new (double, 1000000);
  for (gsize i = 0; i < 1000000; i++)
    sorted[i] = (double) items[i].index;
  y = rlx_test_run_op ("arg_sort", 1, &x, NULL);
  rlx_test_compare_full ("arg_sort of a million", y, "i32[1000000]", sorted, exact, NULL);
}

static void
test_types (void)
{
  static const char *const names[] = { "f16", "i32", "u32", "i8", "u8", "i64", "u64" };

  if (rlx_test_device () == NULL)
    return;

  for (gsize i = 0; i < G_N_ELEMENTS (names); i++)
    {
      check_length (names[i], 5, 40, 3);
      check_length (names[i], 2, 1500, 1400);
    }
}

/* Every axis of a tensor, including the largest and smallest numbers of the type. */
static void
test_axes (void)
{
  static const gint64 shape[] = { 3, 70, 2, 5 };
  g_autofree double *values = NULL;
  g_autoptr (RlxTensor) x = NULL;

  if (rlx_test_device () == NULL)
    return;

  values = make_values (2100, 77);
  x = rlx_test_tensor ("f32[3,70,2,5]", values);
  for (gint64 axis = -4; axis < 4; axis++)
    {
      gsize index = (gsize) (axis < 0 ? axis + 4 : axis), length = (gsize) shape[index], inner = 1;
      g_autofree double *expected = g_new (double, 2100);
      g_autofree char *what = g_strdup_printf ("sort along axis %" G_GINT64_FORMAT, axis);
      g_autoptr (RlxTensor) y = rlx_test_run_op ("sort", 1, &x, g_variant_new_parsed ("{'axis': <%x>}", axis));

      for (gsize d = index + 1; d < 4; d++)
        inner *= (gsize) shape[d];
      for (gsize row = 0; row < 2100 / length; row++)
        {
          gsize start = row / inner * length * inner + row % inner;
          double along[70];
          g_autofree Item *items = NULL;

          for (gsize i = 0; i < length; i++)
            along[i] = values[start + i * inner];
          items = sort_items (along, length, FALSE);
          for (gsize i = 0; i < length; i++)
            expected[start + i * inner] = (float) items[i].value;
        }
      rlx_test_compare_full (what, y, "f32[3,70,2,5]", expected, exact, NULL);
    }
}

static void
test_extremes (void)
{
  g_autoptr (RlxTensor) x = NULL, u = NULL, a = NULL, b = NULL;

  if (rlx_test_device () == NULL)
    return;

  x = rlx_test_tensor ("i32[5]", (double[]) { G_MAXINT32, -1, G_MININT32, 0, G_MAXINT32 });
  u = rlx_test_tensor ("u32[4]", (double[]) { G_MAXUINT32, 0, 2147483648.0, G_MAXUINT32 });
  a = rlx_test_run_op ("arg_sort", 1, &x, NULL);
  b = rlx_test_run_op ("arg_sort", 1, &u, g_variant_new_parsed ("{'descending': <true>}"));
  rlx_test_compare ("extremes of i32", a, "i32[5]", (double[]) { 2, 1, 3, 0, 4 }, 0, 0);
  rlx_test_compare ("extremes of u32", b, "i32[4]", (double[]) { 0, 3, 2, 1 }, 0, 0);
}

static void
test_sort_rules (void)
{
  rlx_test_infers ("sort", "f32[2,3]", NULL, "f32[2,3]");
  rlx_test_infers ("sort", "i8[2,0]", NULL, "i8[2,0]");
  rlx_test_infers ("arg_sort", "f16[2,3]", g_variant_new_parsed ("{'index_type': <'i64'>, 'axis': <int64 0>}"), "i64[2,3]");
  rlx_test_infers ("top_k", "f32[2,9]", g_variant_new_parsed ("{'k': <int64 4>}"), "f32[2,4]");
  rlx_test_infers ("top_k", "f32[2,9]", g_variant_new_parsed ("{'k': <int64 0>, 'axis': <int64 0>}"), "f32[0,9]");
  rlx_test_infers ("arg_max", "f32[2,9]", g_variant_new_parsed ("{'axis': <int64 0>}"), "i32[9]");
  rlx_test_infers ("arg_min", "u8[2,9]", g_variant_new_parsed ("{'axis': <int64 -1>, 'keep_dims': <true>, 'index_type': <'i64'>}"), "i64[2,1]");
  rlx_test_infers ("hardmax", "f16[2,9]", g_variant_new_parsed ("{'axis': <int64 0>}"), "f16[2,9]");
  rlx_test_infers ("cumsum", "i64[2,9]", g_variant_new_parsed ("{'axis': <int64 0>}"), "i64[2,9]");

  rlx_test_refuses ("top_k", "f32[2,9]", g_variant_new_parsed ("{'k': <int64 10>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "k is 10; axis 1 has 9");
  rlx_test_refuses ("top_k", "f32[2,9]", g_variant_new_parsed ("{'k': <int64 -1>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "k is -1");
  rlx_test_refuses ("top_k", "f32[2,9]", g_variant_new_parsed ("{'k': <int64 1>, 'axis': <int64 2>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "axis 2");
  rlx_test_refuses ("top_k", "f32[2,9]", NULL, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "k");
  rlx_test_refuses ("top_k", "bool[4]", g_variant_new_parsed ("{'k': <int64 1>}"), RLX_GRAPH_ERROR_DATA_TYPE, NULL);
  rlx_test_refuses ("top_k", "f32[4]", g_variant_new_parsed ("{'k': <int64 1>, 'index_type': <'f32'>}"), RLX_GRAPH_ERROR_DATA_TYPE, "f32");
  rlx_test_refuses ("top_k", "u8[4294967295]", g_variant_new_parsed ("{'k': <int64 1>}"), RLX_GRAPH_ERROR_LIMIT, "2147483647");
  rlx_test_refuses ("sort", "f32[]", NULL, RLX_GRAPH_ERROR_INVALID_ARGUMENT, NULL);
  rlx_test_refuses ("sort", "f32[3]", g_variant_new_parsed ("{'axis': <int64 -2>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "axis -2");
  rlx_test_refuses ("arg_max", "f32[3,0]", g_variant_new_parsed ("{'axis': <int64 1>}"), RLX_GRAPH_ERROR_SHAPE, "axis 1");
  rlx_test_refuses ("arg_max", "f32[3]", g_variant_new_parsed ("{'axis': <int64 1>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "axis 1");
  rlx_test_refuses ("hardmax", "i32[3]", g_variant_new_parsed ("{'axis': <int64 0>}"), RLX_GRAPH_ERROR_DATA_TYPE, NULL);
  rlx_test_refuses ("cumsum", "f32[3]", g_variant_new_parsed ("{'axis': <int64 3>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "axis 3");
  rlx_test_refuses ("cumsum", "bool[3]", g_variant_new_parsed ("{'axis': <int64 0>}"), RLX_GRAPH_ERROR_DATA_TYPE, NULL);
}

/* ---- places of extremes --------------------------------------------------------------------- */

static void
check_arg (gsize n_rows,
           gsize n)
{
  g_autofree double *values = make_values (n_rows * n, (guint32) (n + n_rows));
  g_autofree char *type = g_strdup_printf ("f32[%" G_GSIZE_FORMAT ",%" G_GSIZE_FORMAT "]", n_rows, n);
  g_autofree char *to = g_strdup_printf ("i32[%" G_GSIZE_FORMAT "]", n_rows);
  g_autoptr (RlxTensor) x = NULL;

  /* NaN only in the second row, or else it would always win. */
  for (gsize i = 0; i < n_rows * n; i++)
    if (isnan (values[i]) && i / n != 1)
      values[i] = 3;
  x = rlx_test_tensor (type, values);
  for (int way = 0; way < 4; way++)
    {
      gboolean smallest = way & 1, last = way & 2;
      g_autofree double *expected = g_new (double, n_rows);
      g_autofree char *what = g_strdup_printf ("%s of %s, way %d", smallest ? "arg_min" : "arg_max", type, way);
      g_autoptr (RlxTensor) y = rlx_test_run_op (smallest ? "arg_min" : "arg_max", 1, &x,
                                                 g_variant_new_parsed ("{'axis': <int64 1>, 'select_last_index': <%b>}", last));

      for (gsize row = 0; row < n_rows; row++)
        {
          const double *v = values + row * n;
          gsize best = 0;

          for (gsize i = 1; i < n; i++)
            {
              int order = compare_values (v[i], v[best]);

              if (smallest && !isnan (v[i]) && !isnan (v[best]))
                order = -order;
              if (order > 0 || (order == 0 && last))
                best = i;
            }
          expected[row] = (double) best;
        }
      rlx_test_compare (what, y, to, expected, 0, 0);
    }
}

static void
test_arg (void)
{
  static const gsize lengths[] = { 1, 7, 63, 64, 65, 1000, 2049, 70000 };

  if (rlx_test_device () == NULL)
    return;

  for (gsize i = 0; i < G_N_ELEMENTS (lengths); i++)
    check_arg (3, lengths[i]);
  check_arg (5000, 20);
  check_arg (1, 1000000);
}

/* ---- running sums ---------------------------------------------------------------------------- */

typedef struct
{
  const double *sizes;
  const double *counts;
} Sums;

static double
sum_bound (gsize    index,
           double   expected G_GNUC_UNUSED,
           gpointer user_data)
{
  const Sums *sums = user_data;

  return sums->counts[index] < 2 ? 0 : (7 * log2 (sums->counts[index]) + 40) * U * sums->sizes[index];
}

static void
check_cumsum (gsize    n_rows,
              gsize    n,
              gsize    inner,
              gboolean exclusive,
              gboolean reverse)
{
  g_autofree char *type = g_strdup_printf ("f32[%" G_GSIZE_FORMAT ",%" G_GSIZE_FORMAT ",%" G_GSIZE_FORMAT "]", n_rows, n, inner);
  g_autoptr (RlxTensor) x = rlx_test_random (type, -1, 3, (guint32) n);
  g_autofree double *values = rlx_test_get_values (x);
  gsize total = n_rows * n * inner;
  g_autofree double *expected = g_new (double, total), *sizes = g_new (double, total), *counts = g_new (double, total);
  Sums sums = { sizes, counts };
  g_autoptr (RlxTensor) y = rlx_test_run_op ("cumsum", 1, &x,
                                             g_variant_new_parsed ("{'axis': <int64 1>, 'exclusive': <%b>, 'reverse': <%b>}", exclusive, reverse));
  g_autofree char *what = g_strdup_printf ("cumsum of %s%s%s", type, exclusive ? " exclusive" : "", reverse ? " reverse" : "");

  for (gsize row = 0; row < n_rows * inner; row++)
    {
      double sum = 0, size = 0;

      for (gsize k = 0; k < n; k++)
        {
          gsize at = (row / inner * n + (reverse ? n - 1 - k : k)) * inner + row % inner;

          if (exclusive)
            {
              expected[at] = sum;
              sizes[at] = size;
              counts[at] = (double) k;
            }
          sum += values[at];
          size += fabs (values[at]);
          if (!exclusive)
            {
              expected[at] = sum;
              sizes[at] = size;
              counts[at] = (double) k + 1;
            }
        }
    }
  rlx_test_compare_full (what, y, type, expected, sum_bound, &sums);
}

static void
test_cumsum (void)
{
  static const gsize lengths[] = { 1, 7, 31, 32, 33, 63, 64, 65, 1000, 1024, 1025, 32769, 70000 };

  if (rlx_test_device () == NULL)
    return;

  for (gsize i = 0; i < G_N_ELEMENTS (lengths); i++)
    check_cumsum (2, lengths[i], i % 2 + 1, i & 1, i & 2);
  /* These need more bindings than small limits allow. */
  if (rlx_test_has_small_bindings ())
    return;
  check_cumsum (1, 1000000, 1, FALSE, FALSE);
  check_cumsum (1, 1000000, 1, TRUE, TRUE);
  check_cumsum (1, 300, 5000, FALSE, TRUE);
}

/* Integers wrap, in whatever order they are added. */
static void
test_scan_integers (void)
{
  g_autoptr (RlxTensor) x = NULL, y = NULL, z = NULL;
  g_autofree double *values = NULL, *expected = NULL, *largest = NULL;
  guint32 sum = 0;

  if (rlx_test_device () == NULL)
    return;

  x = rlx_test_random ("i32[100000]", G_MININT32, G_MAXINT32, 5);
  values = rlx_test_get_values (x);
  expected = g_new (double, 100000);
  largest = g_new (double, 100000);
  for (gsize i = 0; i < 100000; i++)
    {
      sum += (guint32) (gint32) values[i];
      expected[i] = (gint32) sum;
      largest[i] = i > 0 ? MAX (largest[i - 1], values[i]) : values[i];
    }
  y = rlx_test_run_op ("cumsum", 1, &x, g_variant_new_parsed ("{'axis': <int64 0>}"));
  rlx_test_compare ("cumsum of i32", y, "i32[100000]", expected, 0, 0);
  z = rlx_test_run_op ("cummax", 1, &x, g_variant_new_parsed ("{'axis': <int64 0>}"));
  rlx_test_compare ("cummax of i32", z, "i32[100000]", largest, 0, 0);
}

static void
test_scan_special (void)
{
  g_autoptr (RlxTensor) x = NULL, a = NULL, b = NULL, c = NULL;

  if (rlx_test_device () == NULL)
    return;

  x = rlx_test_tensor ("f32[5]", (double[]) { 1, INFINITY, 2, -INFINITY, 3 });
  a = rlx_test_run_op ("cumsum", 1, &x, g_variant_new_parsed ("{'axis': <int64 0>}"));
  rlx_test_compare ("infinities", a, "f32[5]", (double[]) { 1, INFINITY, INFINITY, NAN, NAN }, 0, 0);
  b = rlx_test_run_op ("cummin", 1, &x, g_variant_new_parsed ("{'axis': <int64 0>, 'exclusive': <true>}"));
  rlx_test_compare ("cummin", b, "f32[5]", (double[]) { INFINITY, 1, 1, 1, -INFINITY }, 0, 0);
  c = rlx_test_run_op ("cumprod", 1, &x, g_variant_new_parsed ("{'axis': <int64 0>, 'exclusive': <true>, 'reverse': <true>}"));
  rlx_test_compare ("cumprod", c, "f32[5]", (double[]) { -INFINITY, -INFINITY, -INFINITY, 3, 1 }, 0, 0);
}

static void
test_same_bits (void)
{
  rlx_test_check_same_bits ("cumsum", "f32[7,30000]", "{'axis': <int64 1>}");
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/sort/rules", test_sort_rules);
  rlx_test_add_kernels ("/sort/lengths", test_lengths);
  rlx_test_add_kernels ("/sort/few", test_few);
  rlx_test_add_kernels ("/sort/nothing-but-nan", test_nothing_but_nan);
  rlx_test_add_kernels ("/sort/long", test_long);
  g_test_add_func ("/sort/million", test_million);
  g_test_add_func ("/sort/types", test_types);
  g_test_add_func ("/sort/axes", test_axes);
  g_test_add_func ("/sort/extremes", test_extremes);
  rlx_test_add_kernels ("/arg/lengths", test_arg);
  rlx_test_add_kernels ("/scan/cumsum", test_cumsum);
  rlx_test_add_kernels ("/scan/integers", test_scan_integers);
  g_test_add_func ("/scan/special", test_scan_special);
  g_test_add_func ("/scan/same-bits", test_same_bits);

  return g_test_run ();
}
