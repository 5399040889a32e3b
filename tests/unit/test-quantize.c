/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include <math.h>
#include <string.h>

#include "rlx-test-util.h"

static GVariant *
to_type (const char *name)
{
  return g_variant_new_parsed ("{'to': <%s>}", name);
}

static void
quantize_known (const char   *type,
                const char   *to,
                double        scale,
                double        zero,
                const double *x,
                const double *expected)
{
  g_autofree char *scalar = g_strdup_printf ("%s[]", to);
  g_autofree char *result = g_strdup_printf ("%s%s", to, strchr (type, '['));
  g_autoptr (RlxTensor) a = rlx_test_tensor (type, x);
  g_autoptr (RlxTensor) b = rlx_test_tensor ("f32[]", &scale);
  g_autoptr (RlxTensor) c = rlx_test_tensor (scalar, &zero);
  g_autoptr (RlxTensor) y = rlx_test_run_op ("quantize_linear", 3, (RlxTensor *[]) { a, b, c }, to_type (to));

  if (y != NULL)
    rlx_test_compare (to, y, result, expected, 0, 0);
}

/* Halves, both ends of the range, and NaN. */
static void
test_known (void)
{
  static const double x[] = { 0, 1, 3, 5, -1, -3, 1e30, -INFINITY, INFINITY, NAN, 2.9, -7.1, 17 };
  static const double i8[] = { 3, 3, 5, 5, 3, 1, 127, -128, 127, 0, 4, -1, 11 };
  static const double u8[] = { 3, 3, 5, 5, 3, 1, 255, 0, 255, 0, 4, 0, 11 };
  static const double i4[] = { -1, -1, 1, 1, -1, -3, 7, -8, 7, 0, 0, -5, 7 };
  static const double u4[] = { 9, 9, 11, 11, 9, 7, 15, 0, 15, 0, 10, 5, 15 };
  static const double i32[] = { 5, 5, 7, 7, 5, 3, G_MAXINT32, G_MININT32 + 5.0, G_MAXINT32, 0, 6, 1, 13 };
  static const double integers[] = { 7, -7, 1 << 24, -(1 << 24), 3 };
  static const double from_i32[] = { 3, -5, 127, -128, 1 };

  if (rlx_test_device () == NULL)
    return;
  quantize_known ("f32[13]", "i8", 2, 3, x, i8);
  quantize_known ("f32[13]", "u8", 2, 3, x, u8);
  quantize_known ("f32[13]", "i4", 2, -1, x, i4);
  quantize_known ("f32[13]", "u4", 2, 9, x, u4);
  quantize_known ("f32[13]", "i32", 2, 5, x, i32);
  quantize_known ("i32[5]", "i8", 2, -1, integers, from_i32);
}

/* A scale of one element applies to all, whatever dimensions it has. */
static void
test_scalar (void)
{
  g_autoptr (RlxTensor) x = rlx_test_tensor ("f32[]", (double[]) { 7 });
  g_autoptr (RlxTensor) scale = rlx_test_tensor ("f32[1]", (double[]) { 2 });
  g_autoptr (RlxTensor) zero = rlx_test_tensor ("i8[1]", (double[]) { 3 });
  g_autoptr (RlxTensor) y = NULL;
  g_autoptr (RlxTensor) back = NULL;

  if (rlx_test_device () == NULL)
    return;
  y = rlx_test_run_op ("quantize_linear", 3, (RlxTensor *[]) { x, scale, zero }, to_type ("i8"));
  g_assert_nonnull (y);
  rlx_test_compare ("quantised", y, "i8[]", (double[]) { 7 }, 0, 0);
  back = rlx_test_run_op ("dequantize_linear", 3, (RlxTensor *[]) { y, scale, zero }, NULL);
  g_assert_nonnull (back);
  rlx_test_compare ("back", back, "f32[]", (double[]) { 8 }, 0, 0);
}

/* Differences that need more than 32 bits. */
static void
test_wide (void)
{
  static const double x[] = { G_MAXINT32, G_MININT32, 0, 5 };
  static const double zero[] = { G_MININT32, G_MAXINT32, G_MININT32, 5 };
  static const double scale[] = { 1, 0.5, 2, 3 };
  double expected[4];
  g_autoptr (RlxTensor) a = rlx_test_tensor ("i32[4]", x);
  g_autoptr (RlxTensor) b = rlx_test_tensor ("f32[4]", scale);
  g_autoptr (RlxTensor) c = rlx_test_tensor ("i32[4]", zero);
  g_autoptr (RlxTensor) y = NULL;

  if (rlx_test_device () == NULL)
    return;
  for (guint i = 0; i < 4; i++)
    expected[i] = (x[i] - zero[i]) * scale[i];
  y = rlx_test_run_op ("dequantize_linear", 3, (RlxTensor *[]) { a, b, c }, NULL);
  if (y != NULL)
    rlx_test_compare ("i32", y, "f32[4]", expected, 0, 0x1p-22);
}

/* An odd number of 4-bit elements, at each position in a word; enough for several
 * workgroups, in blocks of 7 and a remainder. */
static void
test_large (void)
{
  enum { ROWS = 37, COLUMNS = 12345, BLOCK = 7, BLOCKS = (COLUMNS + BLOCK - 1) / BLOCK };
  static const char *const types[] = { "i4", "u4", "i8", "u8" };

  if (rlx_test_device () == NULL)
    return;
  for (guint t = 0; t < G_N_ELEMENTS (types); t++)
    {
      gboolean is_signed = types[t][0] == 'i';
      int levels = types[t][1] == '4' ? 16 : 256, least = is_signed ? -levels / 2 : 0;
      g_autofree char *type = g_strdup_printf ("%s[%d,%d]", types[t], ROWS, COLUMNS);
      g_autofree char *zero_type = g_strdup_printf ("%s[%d,%d]", types[t], ROWS, BLOCKS);
      g_autofree char *scale_type = g_strdup_printf ("f32[%d,%d]", ROWS, BLOCKS);
      g_autofree char *result_type = g_strdup_printf ("f32[%d,%d]", ROWS, COLUMNS);
      g_autoptr (RlxTensor) x = rlx_test_random (type, least, least + levels - 1, 3);
      g_autoptr (RlxTensor) zero = rlx_test_random (zero_type, least, least + levels - 1, 4);
      g_autoptr (RlxTensor) scale = rlx_test_random (scale_type, 0.5, 2, 5);
      g_autofree double *levels_in = rlx_test_get_values (x), *zeros = rlx_test_get_values (zero), *scales = rlx_test_get_values (scale);
      g_autofree double *expected = g_new (double, ROWS * COLUMNS);
      g_autoptr (RlxTensor) y = NULL, back = NULL;

      for (gsize i = 0; i < ROWS * COLUMNS; i++)
        {
          gsize block = i / COLUMNS * BLOCKS + i % COLUMNS / BLOCK;

          expected[i] = (levels_in[i] - zeros[block]) * scales[block];
        }
      y = rlx_test_run_op ("dequantize_linear", 3, (RlxTensor *[]) { x, scale, zero },
                           g_variant_new_parsed ("{'blocks': <[int64 1, %x]>}", (gint64) BLOCK));
      if (y == NULL || !rlx_test_compare (types[t], y, result_type, expected, 0, 0x1p-24))
        return;

      /* The quotient is an integer up to a few roundings. */
      back = rlx_test_run_op ("quantize_linear", 3, (RlxTensor *[]) { y, scale, zero },
                              g_variant_new_parsed ("{'blocks': <[int64 1, %x]>, 'to': <%s>}", (gint64) BLOCK, types[t]));
      if (back != NULL && !rlx_tensor_equal (back, x))
        {
          g_test_message ("%s: not the same when it comes back", types[t]);
          g_test_fail ();
        }
    }
}

/* Through a graph that slices and joins 4-bit elements. */
static void
test_moves (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  g_autoptr (RlxTensor) x = rlx_test_random ("i4[5,7]", -8, 7, 9);
  g_autoptr (RlxTensor) places = rlx_test_tensor ("i32[3]", (double[]) { 0, 2, 4 });
  g_autofree double *values = rlx_test_get_values (x);
  double expected[2 * 3 * 5 + 4];
  RlxNode *node = rlx_graph_input (graph, "x", RLX_DATA_TYPE_I4, (gint64[]) { 5, 7 }, 2, &error);
  RlxNode *part, *rest;
  RlxTensor **outputs;
  gsize n_outputs;

  if (rlx_test_device () == NULL)
    return;
  /* columns 1, 3 and 5, transposed and twice; then 4 more from the last row */
  part = rlx_node_slice (node, (gint64[]) { 0, 1 }, 2, (gint64[]) { 5, 7 }, 2, NULL, &error);
  g_assert_no_error (error);
  part = rlx_node_transpose (part, NULL, 0, &error);
  part = rlx_node_gather (part, rlx_graph_constant (graph, places, &error), 0, NULL, &error);
  part = rlx_node_expand (part, (gint64[]) { 2, 3, 5 }, 3, &error);
  part = rlx_node_reshape (part, (gint64[]) { -1 }, 1, &error);
  rest = rlx_node_reshape (node, (gint64[]) { 35 }, 1, &error);
  rest = rlx_node_slice (rest, (gint64[]) { 31 }, 1, (gint64[]) { 35 }, 1, NULL, &error);
  node = rlx_graph_concat (graph, (RlxNode *[]) { rest, part }, 2, 0, &error);
  g_assert_no_error (error);
  rlx_graph_output (graph, "y", node, NULL);

  for (guint i = 0; i < 4; i++)
    expected[i] = values[31 + i];
  for (guint i = 0; i < 30; i++)
    expected[4 + i] = values[i % 5 * 7 + 1 + i / 5 % 3 * 2];
  outputs = rlx_test_run_graph (g_object_ref (graph), 1, &x, &n_outputs);
  if (outputs == NULL)
    return;
  rlx_test_compare ("moves", outputs[0], "i4[34]", expected, 0, 0);
  g_object_unref (outputs[0]);
  g_free (outputs);
}

/* A state with an odd number of 4-bit elements, which changes. */
static void
test_state (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  g_autoptr (RlxTensor) initial = rlx_test_tensor ("u4[3]", (double[]) { 1, 2, 15 });
  g_autoptr (RlxExecutable) executable = NULL;
  g_autoptr (RlxTensor) value = NULL;
  RlxTensor **outputs;
  RlxNode *state = rlx_graph_state (graph, "s", initial, &error);
  RlxNode *next;
  gsize n_outputs;

  if (rlx_test_device () == NULL)
    return;
  g_assert_no_error (error);
  next = rlx_node_reverse (state, (gint64[]) { 0 }, 1, &error);
  g_assert_no_error (error);
  rlx_graph_assign (graph, state, next, &error);
  g_assert_no_error (error);
  rlx_graph_output (graph, "y", state, NULL);
  executable = rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error);
  g_assert_no_error (error);
  outputs = rlx_executable_run (executable, NULL, 0, &n_outputs, NULL, &error);
  g_assert_no_error (error);
  rlx_test_compare ("state before", outputs[0], "u4[3]", (double[]) { 1, 2, 15 }, 0, 0);
  value = rlx_executable_read_state (executable, "s", NULL, &error);
  g_assert_no_error (error);
  rlx_test_compare ("state after", value, "u4[3]", (double[]) { 15, 2, 1 }, 0, 0);
  g_object_unref (outputs[0]);
  g_free (outputs);
}

static void
test_dynamic (void)
{
  static const struct { double x[4]; double scale; double zero; double y[4]; } rows[] = {
    { { 0, 0, 0, 0 }, 1, 0, { 0, 0, 0, 0 } },
    { { 255, 0, 1, 254 }, 1, 0, { 255, 0, 1, 254 } },
    { { -255, -1, 0, -3 }, 1, 255, { 0, 254, 255, 252 } },
    { { -55, 200, 0.5, 1.5 }, 1, 55, { 0, 255, 55, 57 } },
    { { 5, NAN, 7, 1 }, NAN, 0, { 0, 0, 0, 0 } },
  };

  if (rlx_test_device () == NULL)
    return;
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    for (guint half = 0; half < 2; half++)
      {
        g_autoptr (GError) error = NULL;
        g_autoptr (RlxGraph) graph = rlx_graph_new ();
        g_autoptr (RlxTensor) x = rlx_test_tensor (half ? "f16[2,2]" : "f32[2,2]", rows[i].x);
        RlxNode *node = rlx_graph_input (graph, "x", rlx_tensor_get_data_type (x), (gint64[]) { 2, 2 }, 2, &error);
        g_autofree RlxNode **results = NULL;
        RlxTensor **outputs;
        gsize n;

        results = rlx_node_dynamic_quantize (node, &n, &error);
        g_assert_no_error (error);
        g_assert_cmpuint (n, ==, 3);
        rlx_graph_output (graph, "y", results[0], NULL);
        rlx_graph_output (graph, "scale", results[1], NULL);
        rlx_graph_output (graph, "zero", results[2], NULL);
        outputs = rlx_test_run_graph (g_object_ref (graph), 1, &x, &n);
        if (outputs == NULL)
          return;
        rlx_test_compare ("integers", outputs[0], "u8[2,2]", rows[i].y, 0, 0);
        rlx_test_compare ("scale", outputs[1], "f32[]", &rows[i].scale, 0, 0);
        rlx_test_compare ("zero point", outputs[2], "u8[]", &rows[i].zero, 0, 0);
        for (gsize j = 0; j < n; j++)
          g_object_unref (outputs[j]);
        g_free (outputs);
      }
}

static void
test_fake (void)
{
  static const double x[] = { 3, -7, 0.4, 1.5, -0.5 };
  static const double symmetric[] = { 3, -7, 0, 2, 0 };
  static const double two_bits[] = { 0, -7, 0, 0, 0 };
  static const double zeros[] = { 0, 0, 0 };
  double scale = 1, zero = 2;
  static const double limited[] = { 1, -2, 0, 1, 0 };
  g_autoptr (RlxTensor) a = rlx_test_tensor ("f32[5]", x);
  g_autoptr (RlxTensor) none = rlx_test_tensor ("f32[3]", zeros);
  g_autoptr (RlxTensor) s = rlx_test_tensor ("f32[]", &scale);
  g_autoptr (RlxTensor) z = rlx_test_tensor ("i32[]", &zero);
  g_autoptr (RlxTensor) first = NULL, second = NULL, third = NULL, fourth = NULL;

  if (rlx_test_device () == NULL)
    return;
  /* seven levels on either side of 0: the scale is 1 */
  first = rlx_test_run_op ("fake_quantize", 1, &a, g_variant_new_parsed ("{'bits': <int64 4>}"));
  second = rlx_test_run_op ("fake_quantize", 1, &a, g_variant_new_parsed ("{'bits': <int64 2>}"));
  third = rlx_test_run_op ("fake_quantize", 3, (RlxTensor *[]) { a, s, z },
                           g_variant_new_parsed ("{'bits': <int64 2>, 'symmetric': <false>}"));
  fourth = rlx_test_run_op ("fake_quantize", 1, &none, NULL);
  if (first == NULL || second == NULL || third == NULL || fourth == NULL)
    return;
  rlx_test_compare ("4 bits", first, "f32[5]", symmetric, 0, 0x1p-22);
  rlx_test_compare ("2 bits", second, "f32[5]", two_bits, 0, 0x1p-22);
  rlx_test_compare ("zero point", third, "f32[5]", limited, 0, 0);
  rlx_test_compare ("nothing but 0", fourth, "f32[3]", zeros, 0, 0);
}

/* ---- products of integers -------------------------------------------------------------- */

/* The largest possible sums, for every pair of types and with zero points at the ends of
 * their ranges: packed and plain, tiled and split. */
static void
test_product_ends (void)
{
  static const char *const types[] = { "i8", "u8" };
  static const struct { int m, k, n; gboolean transposed; } sizes[] = {
    { 9, 64, 12, FALSE }, { 9, 64, 13, TRUE },
    /* eight lanes share the same rows, four or eight of them */
    { 5, 64, 36, FALSE }, { 13, 64, 37, TRUE }, { 21, 512, 420, FALSE }, { 21, 512, 419, TRUE },
    { 9, 64, 13, FALSE }, { 5, 63, 12, FALSE }, { 1, 33025, 1, FALSE },
  };

  if (rlx_test_device () == NULL)
    return;
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    for (guint t = 0; t < (i < 6 ? 4 : 2); t++)
      {
        int m = sizes[i].m, k = sizes[i].k, n = sizes[i].n;
        const char *type_a = types[t % 2], *type_b = types[(t + 1) / 2 % 2];
        double least_a = t % 2 ? 0 : -128, least_b = (t + 1) / 2 % 2 ? 0 : -128;
        g_autofree char *shape_a = g_strdup_printf ("%s[%d,%d]", type_a, m, k);
        g_autofree char *shape_b = g_strdup_printf ("%s[%d,%d]", type_b, sizes[i].transposed ? n : k, sizes[i].transposed ? k : n);
        g_autofree char *zero_a_shape = g_strdup_printf ("%s[]", type_a);
        g_autofree char *zero_b_shape = g_strdup_printf ("%s[]", type_b);
        g_autofree char *shape_y = g_strdup_printf ("i32[%d,%d]", m, n);
        g_autofree double *values_a = g_new (double, m * k), *values_b = g_new (double, k * n), *expected = g_new (double, m * n);
        double zero_a = least_a + 255, zero_b = least_b;
        g_autoptr (RlxTensor) a = NULL, b = NULL, za = rlx_test_tensor (zero_a_shape, &zero_a), zb = rlx_test_tensor (zero_b_shape, &zero_b);
        g_autoptr (RlxTensor) y = NULL;

        /* the first row and the first column are farthest from their zero points */
        for (int j = 0; j < m * k; j++)
          values_a[j] = j < k ? least_a : least_a + (j * 37 + j / k) % 256;
        for (int e = 0; e < k; e++)
          for (int j = 0; j < n; j++)
            values_b[sizes[i].transposed ? j * k + e : e * n + j] = j == 0 ? least_b + 255 : least_b + (e * 91 + j * 5) % 256;
        for (int r = 0; r < m; r++)
          for (int c = 0; c < n; c++)
            {
              double sum = 0;

              for (int e = 0; e < k; e++)
                sum += (values_a[r * k + e] - zero_a) * (values_b[sizes[i].transposed ? c * k + e : e * n + c] - zero_b);
              expected[r * n + c] = sum;
            }
        a = rlx_test_tensor (shape_a, values_a);
        b = rlx_test_tensor (shape_b, values_b);
        y = rlx_test_run_op_full ("qmatmul", 4, (RlxTensor *[]) { a, b, za, zb }, t % 2 ? 12 : 0,
                                  g_variant_new_parsed ("{'transpose_b': <%b>}", sizes[i].transposed));
        if (y == NULL || !rlx_test_compare (shape_a, y, shape_y, expected, 0, 0))
          return;
      }
}

/* The convolution of @x with @filter, with channels last and @channels per group, at a
 * stride of 2 with a padding of 1 and 2. */
static double *
convolve (const double *x,
          const double *filter,
          int           size,
          int           groups,
          int           channels,
          int           outputs,
          double        zero_x,
          double        zero_w,
          int          *side)
{
  int n = (size + 3 - 3) / 2 + 1, all = groups * outputs;
  double *y = g_new0 (double, n * n * all);

  for (int i = 0; i < n * n * all; i++)
    {
      int o = i % all, column = i / all % n * 2 - 1, row = i / all / n * 2 - 1;

      for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++)
          for (int c = 0; c < channels; c++)
            if (row + a >= 0 && row + a < size && column + b >= 0 && column + b < size)
              y[i] += (x[((row + a) * size + column + b) * groups * channels + o / outputs * channels + c] - zero_x) *
                      (filter[((o * 3 + a) * 3 + b) * channels + c] - zero_w);
    }
  *side = n;
  return y;
}

/* Large enough for whole tiles and a remainder; packed if groups have a multiple of 4 channels. */
static void
test_conv (void)
{
  static const struct { int size, groups, channels, outputs; gboolean constant; } sizes[] = {
    { 40, 1, 16, 36, TRUE }, { 25, 3, 4, 8, FALSE }, { 25, 2, 5, 7, TRUE }, { 23, 40, 1, 1, FALSE }, { 3, 2, 8, 50, TRUE },
  };

  if (rlx_test_device () == NULL)
    return;
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      int size = sizes[i].size, groups = sizes[i].groups, channels = sizes[i].channels, outputs = sizes[i].outputs, side;
      g_autofree char *shape_x = g_strdup_printf ("u8[1,%d,%d,%d]", size, size, groups * channels);
      g_autofree char *shape_w = g_strdup_printf ("i8[%d,3,3,%d]", groups * outputs, channels);
      g_autoptr (RlxTensor) x = rlx_test_random (shape_x, 0, 255, 1), w = rlx_test_random (shape_w, -128, 127, 2);
      g_autoptr (RlxTensor) zero_x = rlx_test_tensor ("u8[]", (double[]) { 131 }), zero_w = rlx_test_tensor ("i8[]", (double[]) { -3 });
      g_autoptr (RlxTensor) scale = rlx_test_tensor ("f32[]", (double[]) { 0x1p-10 }), scale_y = rlx_test_tensor ("f32[]", (double[]) { 4 });
      g_autoptr (RlxTensor) zero_y = rlx_test_tensor ("u8[]", (double[]) { 77 });
      g_autofree double *values_x = rlx_test_get_values (x), *values_w = rlx_test_get_values (w);
      g_autofree double *sums = convolve (values_x, values_w, size, groups, channels, outputs, 131, -3, &side);
      g_autofree char *shape_y = g_strdup_printf ("i32[1,%d,%d,%d]", side, side, groups * outputs);
      g_autofree char *shape_level = g_strdup_printf ("u8[1,%d,%d,%d]", side, side, groups * outputs);
      g_autoptr (RlxTensor) y = NULL, levels = NULL;

      y = rlx_test_run_op_full ("qconv2d", 4, (RlxTensor *[]) { x, w, zero_x, zero_w }, sizes[i].constant ? 12 : 0,
                                g_variant_new_parsed ("{'layout': <'channels-last'>, 'filter_layout': <'osi'>, 'strides': <[int64 2, 2]>, "
                                                      "'padding': <[int64 1, 2, 1, 2]>, 'groups': <%x>}", (gint64) groups));
      if (y == NULL || !rlx_test_compare (shape_x, y, shape_y, sums, 0, 0))
        return;

      /* scales are powers of two: only the level is rounded */
      levels = rlx_test_run_op_full ("qconv2d", 8, (RlxTensor *[]) { x, w, zero_x, zero_w, NULL, scale, scale_y, zero_y },
                                     sizes[i].constant ? 236 : 0,
                                     g_variant_new_parsed ("{'layout': <'channels-last'>, 'filter_layout': <'osi'>, 'strides': <[int64 2, 2]>, "
                                                           "'padding': <[int64 1, 2, 1, 2]>, 'groups': <%x>, 'to': <'u8'>, 'maximum': <int64 200>}",
                                                           (gint64) groups));
      for (int j = 0; j < side * side * groups * outputs; j++)
        sums[j] = CLAMP (nearbyint (sums[j] * 0x1p-12) + 77, 0, 200);
      if (levels == NULL || !rlx_test_compare (shape_x, levels, shape_level, sums, 0, 0))
        return;
    }
}

static void
test_product_rules (void)
{
#define TO(type) g_variant_new_parsed ("{'to': <" type ">}")
  rlx_test_infers ("qmatmul", "u8[2,3] i8[3,4] - - i32[4] f32[4] f32[] u8[]", TO ("'u8'"), "u8[2,4]");
  rlx_test_infers ("qmatmul", "u8[2,3] i8[3,4] - - f32[] f32[1]", TO ("'f16'"), "f16[2,4]");
  rlx_test_infers ("qmatmul", "u8[7,2,3] i8[4,3] - i8[4,1]", g_variant_new_parsed ("{'transpose_b': <true>}"), "i32[7,2,4]");
  rlx_test_refuses ("qmatmul", "i8[2,3] i8[3,4]", g_variant_new_parsed ("{'transpose_b': <true>}"), RLX_GRAPH_ERROR_SHAPE, "transposed");
  rlx_test_refuses ("qmatmul", "i8[2,3] i8[3,4] - - i32[3]", NULL, RLX_GRAPH_ERROR_SHAPE, "bias");
  rlx_test_refuses ("qmatmul", "i8[2,3] i8[3,4] - - f32[4]", NULL, RLX_GRAPH_ERROR_DATA_TYPE, "bias");
  rlx_test_refuses ("qmatmul", "i8[2,3] i8[3,4] - - - f32[]", NULL, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "scale");
  rlx_test_refuses ("qmatmul", "i8[2,3] i8[3,4]", TO ("'f32'"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "no scale");
  rlx_test_refuses ("qmatmul", "i8[2,3] i8[3,4] - - - f32[]", TO ("'i8'"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "no scale_y");
  rlx_test_refuses ("qmatmul", "i8[2,3] i8[3,4] - - - f32[] f32[4]", TO ("'i8'"), RLX_GRAPH_ERROR_SHAPE, "scale_y");
  rlx_test_refuses ("qmatmul", "i8[2,3] i8[3,4] - - - f32[] f32[] u8[]", TO ("'i8'"), RLX_GRAPH_ERROR_DATA_TYPE, "zero_y");
  rlx_test_refuses ("qmatmul", "i8[2,3] i8[3,4] - - - f32[] f32[]", TO ("'f32'"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "scale_y");
  rlx_test_refuses ("qmatmul", "i8[2,3] i8[3,4] - - - f32[]", TO ("'u32'"), RLX_GRAPH_ERROR_DATA_TYPE, "u32");
  rlx_test_refuses ("qmatmul", "i8[2,3] i8[3,4] - - - f32[] f32[]", g_variant_new_parsed ("{'to': <'i8'>, 'minimum': <int64 5>, 'maximum': <int64 4>}"),
                    RLX_GRAPH_ERROR_INVALID_ARGUMENT, "minimum 5");
  rlx_test_refuses ("qmatmul", "i8[2,3] i8[3,4]", g_variant_new_parsed ("{'minimum': <int64 5>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "limits");

  rlx_test_infers ("qconv2d", "u8[1,2,5,5] i8[4,2,3,3]", NULL, "i32[1,4,3,3]");
  rlx_test_infers ("qconv2d", "u8[2,5,8] i8[4,3,4] u8[1] i8[4] i32[4] f32[4] f32[] i8[]",
                   g_variant_new_parsed ("{'to': <'i8'>, 'groups': <int64 2>, 'layout': <'channels-last'>, 'filter_layout': <'osi'>}"), "i8[2,3,4]");
  rlx_test_infers ("qconv2d", "u8[0,2,5,5] i8[4,2,3,3]", NULL, "i32[0,4,3,3]");
  rlx_test_refuses ("qconv2d", "u8[1,2,5,5] i8[4,3,3,3]", NULL, RLX_GRAPH_ERROR_SHAPE, "channels");
  rlx_test_refuses ("qconv2d", "u8[1,2,5,5] i8[4,2,3,3] u8[2]", NULL, RLX_GRAPH_ERROR_SHAPE, "zero_x");
  rlx_test_refuses ("qconv2d", "u8[1,2,5,5] i8[4,2,3,3] - i8[2]", NULL, RLX_GRAPH_ERROR_SHAPE, "zero_w");
  rlx_test_refuses ("qconv2d", "u8[1,2,5,5] i8[4,2,3,3] - u8[]", NULL, RLX_GRAPH_ERROR_DATA_TYPE, "u8");
  rlx_test_refuses ("qconv2d", "u8[1,2,5,5] i8[4,2,3,3] - - i32[1,4]", NULL, RLX_GRAPH_ERROR_SHAPE, "bias");
  rlx_test_refuses ("qconv2d", "f32[1,2,5,5] i8[4,2,3,3]", NULL, RLX_GRAPH_ERROR_DATA_TYPE, "f32");
  rlx_test_refuses ("qconv2d", "u8[1,2,5,5] i8[4,2,7,7]", NULL, RLX_GRAPH_ERROR_SHAPE, "7");
  rlx_test_refuses ("qconv2d", "u8[2,5] i8[4,2]", NULL, RLX_GRAPH_ERROR_SHAPE, "2 dimensions");
#undef TO
}

static void
test_rules (void)
{
  rlx_test_infers ("quantize_linear", "f32[6,4] f32[3,2] i4[3,2]", to_type ("i4"), "i4[6,4]");
  rlx_test_infers ("quantize_linear", "f16[2,3] f32[3]", to_type ("u8"), "u8[2,3]");
  rlx_test_infers ("quantize_linear", "i32[0,3] f32[0,1]", to_type ("u8"), "u8[0,3]");
  rlx_test_infers ("quantize_linear", "f32[] f32[1] i8[1]", to_type ("i8"), "i8[]");
  rlx_test_infers ("dequantize_linear", "u4[5] f16[]", NULL, "f16[5]");
  rlx_test_infers ("dequantize_linear", "i8[] f32[1,1] i8[1,1]", NULL, "f32[]");
  rlx_test_infers ("dequantize_linear", "i8[5] f32[2]", g_variant_new_parsed ("{'blocks': <[int64 4]>}"), "f32[5]");

  rlx_test_refuses ("quantize_linear", "f32[4] f32[]", to_type ("f32"), RLX_GRAPH_ERROR_DATA_TYPE, "f32");
  rlx_test_refuses ("quantize_linear", "f32[4] f32[] u8[]", to_type ("i8"), RLX_GRAPH_ERROR_DATA_TYPE, "u8");
  rlx_test_refuses ("quantize_linear", "f32[4] i32[]", to_type ("i8"), RLX_GRAPH_ERROR_DATA_TYPE, "scale");
  rlx_test_refuses ("quantize_linear", "f32[4] f32[1,4]", to_type ("i8"), RLX_GRAPH_ERROR_SHAPE, "2 dimensions");
  rlx_test_refuses ("quantize_linear", "f32[4,6] f32[4,4]", to_type ("i8"), RLX_GRAPH_ERROR_SHAPE, "axis 1");
  rlx_test_refuses ("quantize_linear", "f32[4] f32[0]", to_type ("i8"), RLX_GRAPH_ERROR_SHAPE, "axis 0");
  rlx_test_refuses ("quantize_linear", "f32[4] f32[4] i8[]", to_type ("i8"), RLX_GRAPH_ERROR_SHAPE, "zero point");
  rlx_test_refuses ("dequantize_linear", "f32[4] f32[]", NULL, RLX_GRAPH_ERROR_DATA_TYPE, "f32");
  rlx_test_refuses ("dequantize_linear", "i8[4] f32[] u8[]", NULL, RLX_GRAPH_ERROR_DATA_TYPE, "u8");
  rlx_test_refuses ("dequantize_linear", "i8[5] f32[2]", g_variant_new_parsed ("{'blocks': <[int64 2]>}"), RLX_GRAPH_ERROR_SHAPE, "blocks of 2");
  rlx_test_refuses ("dequantize_linear", "i8[5] f32[2]", g_variant_new_parsed ("{'blocks': <[int64 0]>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "is 0");
  rlx_test_refuses ("dequantize_linear", "i8[5] f32[2]", g_variant_new_parsed ("{'blocks': <[int64 1, 3]>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "2 sizes");
  rlx_test_refuses ("fake_quantize", "f32[4]", g_variant_new_parsed ("{'bits': <int64 1>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "1");
  rlx_test_refuses ("fake_quantize", "f32[4] - i32[]", g_variant_new_parsed ("{'symmetric': <false>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "no scale");
  rlx_test_refuses ("fake_quantize", "f32[4] f32[] i32[]", NULL, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "symmetric");
  rlx_test_infers ("qmatmul", "u8[5,2,3] i8[3,4] u8[2,1] i8[4]", NULL, "i32[5,2,4]");
  rlx_test_infers ("qmatmul", "i8[0,3] i8[3,4] - -", NULL, "i32[0,4]");
  rlx_test_refuses ("qmatmul", "i8[3] i8[3,4]", NULL, RLX_GRAPH_ERROR_SHAPE, "1 and 2 dimensions");
  rlx_test_refuses ("qmatmul", "i8[2,3] i8[2,3]", NULL, RLX_GRAPH_ERROR_SHAPE, "differ");
  rlx_test_refuses ("qmatmul", "i8[2,2,3] i8[3,3,4]", NULL, RLX_GRAPH_ERROR_SHAPE, "broadcast");
  rlx_test_refuses ("qmatmul", "i8[2,3] i8[3,4] i8[3]", NULL, RLX_GRAPH_ERROR_SHAPE, "zero point");
  rlx_test_refuses ("qmatmul", "i8[2,3] i8[3,4] u8[]", NULL, RLX_GRAPH_ERROR_DATA_TYPE, "u8");
  rlx_test_refuses ("qmatmul", "i32[2,3] i8[3,4]", NULL, RLX_GRAPH_ERROR_DATA_TYPE, "i32");
  rlx_test_refuses ("add", "i4[4] i4[4]", NULL, RLX_GRAPH_ERROR_DATA_TYPE, "i4");
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/quantize/rules", test_rules);
  g_test_add_func ("/quantize/product/rules", test_product_rules);
  g_test_add_func ("/quantize/product/ends", test_product_ends);
  g_test_add_func ("/quantize/product/conv", test_conv);
  g_test_add_func ("/quantize/known", test_known);
  g_test_add_func ("/quantize/scalar", test_scalar);
  g_test_add_func ("/quantize/wide", test_wide);
  g_test_add_func ("/quantize/large", test_large);
  g_test_add_func ("/quantize/moves", test_moves);
  g_test_add_func ("/quantize/state", test_state);
  g_test_add_func ("/quantize/dynamic", test_dynamic);
  g_test_add_func ("/quantize/fake", test_fake);

  return g_test_run ();
}
