/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"
#include "rlx-test-util.h"

#include <math.h>
#include <string.h>

#include "util/rlx-debug-private.h"

#define INVALID RLX_GRAPH_ERROR_INVALID_ARGUMENT
#define SHAPE RLX_GRAPH_ERROR_SHAPE

/* As the operator table states. */
#define SOFTMAX_RELATIVE 3e-6
#define SOFTMAX_ABSOLUTE 1e-7
#define LOG_SOFTMAX_RELATIVE 2e-6
#define LOG_SOFTMAX_ABSOLUTE 3e-6
#define NORM 2e-6

/* The rows of a tensor, as lists of the indices of their elements. */
typedef struct
{
  gsize n_rows;
  gsize n_columns;
  gsize *places;
} Rows;

static void
rows_init (Rows         *rows,
           RlxTensor    *x,
           gsize         n_axes,
           const gint64 *axes)
{
  gsize n_dims;
  const gint64 *shape = rlx_tensor_get_shape (x, &n_dims);
  gsize n = rlx_tensor_get_n_elements (x);
  gsize strides[RLX_MAX_DIMS], stride = 1;
  gsize kept[RLX_MAX_DIMS], n_kept = 0;

  rows->n_rows = 1;
  rows->n_columns = 1;
  for (gsize d = n_dims; d-- > 0;)
    {
      strides[d] = stride;
      stride *= shape[d];
    }
  for (gsize d = 0; d < n_dims; d++)
    {
      gboolean found = FALSE;

      for (gsize i = 0; i < n_axes; i++)
        found |= (gint64) d == (axes[i] < 0 ? axes[i] + (gint64) n_dims : axes[i]);
      if (!found)
        {
          kept[n_kept++] = d;
          rows->n_rows *= shape[d];
        }
    }
  for (gsize i = 0; i < n_axes; i++)
    rows->n_columns *= shape[axes[i] < 0 ? axes[i] + (gint64) n_dims : axes[i]];

  /* Columns in the order of the given axes: that of scale and bias. */
  rows->places = g_new (gsize, MAX (n, 1));
  if (n == 0)
    return;
  for (gsize r = 0; r < rows->n_rows; r++)
    for (gsize c = 0; c < rows->n_columns; c++)
      {
        gsize at = 0, rest = r;

        for (gsize i = n_kept; i-- > 0;)
          {
            at += rest % shape[kept[i]] * strides[kept[i]];
            rest /= shape[kept[i]];
          }
        rest = c;
        for (gsize i = n_axes; i-- > 0;)
          {
            gsize axis = (gsize) (axes[i] < 0 ? axes[i] + (gint64) n_dims : axes[i]);

            at += rest % shape[axis] * strides[axis];
            rest /= shape[axis];
          }
        rows->places[r * rows->n_columns + c] = at;
      }
}

static char *
get_type (RlxTensor *x)
{
  gsize n_dims;
  const gint64 *shape = rlx_tensor_get_shape (x, &n_dims);
  GString *text = g_string_new (rlx_data_type_to_string (rlx_tensor_get_data_type (x)));

  g_string_append_c (text, '[');
  for (gsize i = 0; i < n_dims; i++)
    g_string_append_printf (text, "%" G_GINT64_FORMAT ",", shape[i]);
  g_string_append_c (text, ']');

  return g_string_free (text, FALSE);
}

/* ---- softmax ------------------------------------------------------------------------ */

static void
check_softmax (RlxTensor *x,
               gint64     axis)
{
  gsize n = rlx_tensor_get_n_elements (x);
  g_autofree double *values = rlx_test_get_values (x);
  g_autofree double *softmax = g_new (double, MAX (n, 1));
  g_autofree double *logarithm = g_new (double, MAX (n, 1));
  g_autofree char *type = get_type (x);
  g_autofree char *what = g_strdup_printf ("softmax of %s along %" G_GINT64_FORMAT, type, axis);
  g_autofree char *log_what = g_strdup_printf ("log_%s", what);
  g_autoptr (RlxTensor) y = rlx_test_run_op ("softmax", 1, &x, g_variant_new_parsed ("{'axis': <%x>}", axis));
  g_autoptr (RlxTensor) z = rlx_test_run_op ("log_softmax", 1, &x, g_variant_new_parsed ("{'axis': <%x>}", axis));
  Rows rows;

  rows_init (&rows, x, 1, &axis);
  for (gsize r = 0; r < rows.n_rows && rows.n_columns > 0; r++)
    {
      const gsize *places = rows.places + r * rows.n_columns;
      double largest = values[places[0]], sum = 0;

      for (gsize c = 0; c < rows.n_columns; c++)
        largest = fmax (largest, values[places[c]]);
      for (gsize c = 0; c < rows.n_columns; c++)
        sum += exp (values[places[c]] - largest);
      for (gsize c = 0; c < rows.n_columns; c++)
        {
          softmax[places[c]] = exp (values[places[c]] - largest) / sum;
          logarithm[places[c]] = values[places[c]] - largest - log (sum);
          /* out of the range of f32 */
          if (softmax[places[c]] < 1e-37)
            softmax[places[c]] = 0;
          if (logarithm[places[c]] < -3.5e38)
            logarithm[places[c]] = -INFINITY;
        }
    }
  g_free (rows.places);

  rlx_test_compare (what, y, type, softmax, SOFTMAX_ABSOLUTE, SOFTMAX_RELATIVE);
  rlx_test_compare (log_what, z, type, logarithm, LOG_SOFTMAX_ABSOLUTE, LOG_SOFTMAX_RELATIVE);
}

static void
test_softmax_rules (void)
{
  rlx_test_infers ("softmax", "f32[2,3]", g_variant_new_parsed ("{'axis': <int64 -1>}"), "f32[2,3]");
  rlx_test_infers ("log_softmax", "f16[2,0]", g_variant_new_parsed ("{'axis': <int64 0>}"), "f16[2,0]");
  rlx_test_refuses ("softmax", "f32[2,3]", g_variant_new_parsed ("{'axis': <int64 2>}"), INVALID, "axis 2");
  rlx_test_refuses ("softmax", "f32[2,3]", g_variant_new_parsed ("{'axis': <int64 -3>}"), INVALID, "axis -3");
  rlx_test_refuses ("log_softmax", "f32[]", g_variant_new_parsed ("{'axis': <int64 0>}"), INVALID, NULL);
  rlx_test_refuses ("softmax", "i32[2]", g_variant_new_parsed ("{'axis': <int64 0>}"), RLX_GRAPH_ERROR_DATA_TYPE, NULL);
  rlx_test_refuses ("softmax", "f32[2]", NULL, INVALID, "axis");
}

static void
test_softmax_lengths (void)
{
  static const int lengths[] = { 1, 2, 7, 15, 16, 17, 63, 64, 65, 1000, 1024, 4096, 70000 };

  if (rlx_test_device () == NULL)
    return;

  for (gsize i = 0; i < G_N_ELEMENTS (lengths); i++)
    {
      int n = lengths[i];
      g_autofree char *rows = g_strdup_printf ("f32[3,%d]", n);
      g_autofree char *columns = g_strdup_printf ("f32[%d,5]", n);
      g_autofree char *many = g_strdup_printf ("f32[%d,%d]", n > 5000 ? 2 : 100, n);
      g_autofree char *half = g_strdup_printf ("f16[2,%d,3]", n);
      g_autoptr (RlxTensor) a = rlx_test_random (rows, -4, 4, n);
      g_autoptr (RlxTensor) b = rlx_test_random (columns, -40, 40, n);
      g_autoptr (RlxTensor) c = rlx_test_random (many, -4, 4, n);
      g_autoptr (RlxTensor) d = rlx_test_random (half, -4, 4, n);

      check_softmax (a, -1);
      check_softmax (b, 0);
      check_softmax (c, 1);
      check_softmax (d, 1);
    }
}

static void
test_softmax_axes (void)
{
  g_autoptr (RlxTensor) x = NULL;

  if (rlx_test_device () == NULL)
    return;

  x = rlx_test_random ("f32[3,4,2,5,3]", -3, 3, 1);
  for (gint64 axis = -5; axis < 5; axis++)
    check_softmax (x, axis);

  {
    g_autoptr (RlxTensor) none = rlx_test_random ("f32[3,0,2]", 0, 1, 1);
    g_autoptr (RlxTensor) one = rlx_test_random ("f32[1]", 3, 4, 1);

    check_softmax (none, 1);
    check_softmax (none, 0);
    check_softmax (one, 0);
  }
}

static void
test_softmax_large (void)
{
  if (rlx_test_device () == NULL)
    return;

  {
    g_autoptr (RlxTensor) x = rlx_test_random ("f32[1000000]", -10, 10, 1);

    check_softmax (x, 0);
  }
  {
    /* more workgroups than one dimension of the grid has on some devices */
    g_autoptr (RlxTensor) x = rlx_test_random ("f32[300000,3]", -10, 10, 2);

    check_softmax (x, 1);
  }
  {
    g_autoptr (RlxTensor) x = rlx_test_random ("f32[2,3,150001]", -10, 10, 3);

    check_softmax (x, 1);
  }
}

static void
test_softmax_special (void)
{
  if (rlx_test_device () == NULL)
    return;

  {
    /* far from zero, far apart, masked, fully masked, infinite, NaN */
    g_autoptr (RlxTensor) x = rlx_test_tensor ("f32[8,4]", (double[]) {
      1e30, 1e30, 1e30, 1e30,
      3e38, -3e38, 0, 1,
      -1e4, -1e4 + 1, -1e4 + 2, -1e4 + 3,
      1, -INFINITY, 2, -INFINITY,
      -INFINITY, -INFINITY, -INFINITY, -INFINITY,
      1, INFINITY, 2, 3,
      1, NAN, 2, 3,
      0, -88, -100, -1000,
    });
    g_autoptr (RlxTensor) wide = rlx_test_run_op ("transpose", 1, &x, g_variant_new_parsed ("{'permutation': <[int64 1, 0]>}"));

    check_softmax (x, 1);
    check_softmax (wide, 0);
  }
  {
    g_autofree double *values = g_new (double, 4 * 3000);
    g_autoptr (RlxTensor) x = NULL;

    for (int i = 0; i < 3000; i++)
      {
        values[i] = i == 2999 ? 0 : -INFINITY;
        values[3000 + i] = -INFINITY;
        values[6000 + i] = i == 1500 ? NAN : 1;
        values[9000 + i] = i % 7 == 0 ? 500 : -500;
      }
    x = rlx_test_tensor ("f32[4,3000]", values);
    check_softmax (x, 1);
  }
}

/* ---- norms --------------------------------------------------------------------------- */

typedef struct
{
  RlxDataType data_type;
  double *limits;
} NormBound;

static double
norm_bound (gsize    index,
            double   expected,
            gpointer user_data)
{
  NormBound *b = user_data;
  double limit = b->limits[index];

  if (b->data_type == RLX_DATA_TYPE_F16)
    limit += rlx_test_rounding (b->data_type, fabs (expected) + limit);

  return limit;
}

static void
check_norm (const char   *op,
            RlxTensor    *x,
            gsize         n_axes,
            const gint64 *axes,
            double        epsilon,
            RlxTensor    *scale,
            RlxTensor    *bias)
{
  gboolean rms = strcmp (op, "rms_norm") == 0;
  gsize n = rlx_tensor_get_n_elements (x);
  g_autofree double *values = rlx_test_get_values (x);
  g_autofree double *scales = scale != NULL ? rlx_test_get_values (scale) : NULL;
  g_autofree double *biases = bias != NULL ? rlx_test_get_values (bias) : NULL;
  g_autofree double *expected = g_new (double, MAX (n, 1));
  g_autofree double *limits = g_new (double, MAX (n, 1));
  g_autofree char *type = get_type (x);
  g_autofree char *what = g_strdup_printf ("%s of %s over %" G_GSIZE_FORMAT " axes%s%s", op, type, n_axes,
                                           scale != NULL ? " with scale" : "", bias != NULL ? " with bias" : "");
  g_autoptr (RlxTensor) y = NULL;
  NormBound b = { rlx_tensor_get_data_type (x), limits };
  GVariantDict dict;
  Rows rows;

  rows_init (&rows, x, n_axes, axes);
  for (gsize r = 0; r < rows.n_rows && n > 0; r++)
    {
      const gsize *places = rows.places + r * rows.n_columns;
      double mean = 0, square = 0, sigma;

      for (gsize c = 0; c < rows.n_columns && !rms; c++)
        mean += values[places[c]] / (double) rows.n_columns;
      for (gsize c = 0; c < rows.n_columns; c++)
        square += (values[places[c]] - mean) * (values[places[c]] - mean) / (double) rows.n_columns;
      sigma = sqrt (square + epsilon);
      for (gsize c = 0; c < rows.n_columns; c++)
        {
          double normal = (values[places[c]] - mean) / sigma;
          double s = scales != NULL ? scales[c] : 1, t = biases != NULL ? biases[c] : 0;

          expected[places[c]] = normal * s + t;
          limits[places[c]] = NORM * (rms ? fabs (normal * s) : (fabs (normal) + 1) * fabs (s) + fabs (t));
        }
    }
  g_free (rows.places);

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert_value (&dict, "axes", rlx_test_ints (n_axes, axes));
  g_variant_dict_insert (&dict, "epsilon", "d", epsilon);
  y = rlx_test_run_op_full (op, rms ? 2 : 3, (RlxTensor *[]) { x, scale, bias }, 6, g_variant_dict_end (&dict));
  rlx_test_compare_full (what, y, type, expected, norm_bound, &b);
}

/* With and without scale and bias. */
static void
check_norms (RlxTensor    *x,
             gsize         n_axes,
             const gint64 *axes)
{
  gsize n_dims;
  const gint64 *shape = rlx_tensor_get_shape (x, &n_dims);
  g_autoptr (GString) type = g_string_new (rlx_data_type_to_string (rlx_tensor_get_data_type (x)));
  g_autoptr (RlxTensor) scale = NULL;
  g_autoptr (RlxTensor) bias = NULL;

  g_string_append_c (type, '[');
  for (gsize i = 0; i < n_axes; i++)
    g_string_append_printf (type, "%" G_GINT64_FORMAT ",", shape[axes[i] < 0 ? axes[i] + (gint64) n_dims : axes[i]]);
  g_string_append_c (type, ']');
  scale = rlx_test_random (type->str, -2, 2, 21);
  bias = rlx_test_random (type->str, -1, 1, 22);

  check_norm ("layer_norm", x, n_axes, axes, 1e-5, scale, bias);
  check_norm ("layer_norm", x, n_axes, axes, 1e-5, NULL, NULL);
  check_norm ("rms_norm", x, n_axes, axes, 1e-6, scale, NULL);
}

static void
test_norm_rules (void)
{
  static const char *const ops[] = { "layer_norm", "rms_norm" };

  for (gsize i = 0; i < G_N_ELEMENTS (ops); i++)
    {
      const char *op = ops[i];

      rlx_test_infers (op, "f32[2,3]", NULL, "f32[2,3]");
      rlx_test_infers (op, "f32[2,3] f32[3]", NULL, "f32[2,3]");
      rlx_test_infers (op, "f16[2,3,4] f16[4,2]", g_variant_new_parsed ("{'axes': <[int64 2, 0]>}"), "f16[2,3,4]");
      rlx_test_infers (op, "f32[2,3] f32[]", g_variant_new_parsed ("{'axes': <@ax []>}"), "f32[2,3]");
      rlx_test_infers (op, "f32[2,0] f32[0]", NULL, "f32[2,0]");
      rlx_test_infers (op, "f32[2,3]", g_variant_new_parsed ("{'epsilon': <0.0>}"), "f32[2,3]");

      rlx_test_refuses (op, "f32[2,3] f32[2]", NULL, SHAPE, "scale");
      rlx_test_refuses (op, "f32[2,3] f32[1,3]", NULL, SHAPE, "scale");
      rlx_test_refuses (op, "f32[2,3,4] f32[2,4]", g_variant_new_parsed ("{'axes': <[int64 2, 0]>}"), SHAPE, "f32[4, 2]");
      rlx_test_refuses (op, "f32[2,3] f16[3]", NULL, RLX_GRAPH_ERROR_DATA_TYPE, NULL);
      rlx_test_refuses (op, "i32[2,3]", NULL, RLX_GRAPH_ERROR_DATA_TYPE, NULL);
      rlx_test_refuses (op, "f32[]", NULL, INVALID, NULL);
      rlx_test_refuses (op, "f32[2,3]", g_variant_new_parsed ("{'axes': <[int64 2]>}"), INVALID, "axis 2");
      rlx_test_refuses (op, "f32[2,3]", g_variant_new_parsed ("{'axes': <[int64 1, -1]>}"), INVALID, NULL);
      rlx_test_refuses (op, "f32[2,3]", g_variant_new_parsed ("{'epsilon': <-1.0>}"), INVALID, "epsilon");
      rlx_test_refuses (op, "f32[2,3]", g_variant_new_parsed ("{'epsilon': <%d>}", NAN), INVALID, "epsilon");
      rlx_test_refuses (op, "f32[2,3]", g_variant_new_parsed ("{'epsilon': <%d>}", INFINITY), INVALID, "epsilon");
    }
  rlx_test_infers ("layer_norm", "f32[2,3] - f32[3]", NULL, "f32[2,3]");
  rlx_test_refuses ("layer_norm", "f32[2,3] f32[3] f32[2]", NULL, SHAPE, "bias");
  rlx_test_refuses ("layer_norm", "f32[2,3] - f32[2]", NULL, SHAPE, "bias");
}

static void
test_norm_lengths (void)
{
  static const int lengths[] = { 1, 2, 7, 63, 64, 65, 384, 1000, 1024, 70000 };

  if (rlx_test_device () == NULL)
    return;

  for (gsize i = 0; i < G_N_ELEMENTS (lengths); i++)
    {
      int n = lengths[i];
      g_autofree char *rows = g_strdup_printf ("f32[3,%d]", n);
      g_autofree char *columns = g_strdup_printf ("f32[%d,5]", n);
      g_autofree char *many = g_strdup_printf ("f32[%d,%d]", n > 5000 ? 2 : 100, n);
      g_autofree char *half = g_strdup_printf ("f16[2,%d,3]", n);
      g_autoptr (RlxTensor) a = rlx_test_random (rows, -1, 3, n);
      g_autoptr (RlxTensor) b = rlx_test_random (columns, -1, 3, n);
      g_autoptr (RlxTensor) c = rlx_test_random (many, -1, 3, n);
      g_autoptr (RlxTensor) d = rlx_test_random (half, -1, 3, n);

      check_norms (a, 1, (gint64[]) { -1 });
      check_norms (b, 1, (gint64[]) { 0 });
      check_norms (c, 1, (gint64[]) { 1 });
      check_norms (d, 1, (gint64[]) { 1 });
    }
}

static void
test_norm_axes (void)
{
  static const struct { gsize n; gint64 axes[4]; } cases[] = {
    { 0, { 0 } }, { 1, { 0 } }, { 1, { 1 } }, { 1, { 2 } }, { 1, { -1 } },
    { 2, { 2, 3 } }, { 2, { 3, 2 } }, { 2, { 0, 2 } }, { 2, { 2, 0 } }, { 2, { 1, 3 } }, { 2, { -1, 1 } },
    { 3, { 1, 2, 3 } }, { 3, { 3, 2, 1 } }, { 3, { 2, 3, 1 } }, { 3, { 0, 1, 3 } }, { 3, { 3, 0, 1 } },
    { 4, { 0, 1, 2, 3 } }, { 4, { 3, 2, 1, 0 } }, { 4, { 1, 0, 3, 2 } },
  };

  if (rlx_test_device () == NULL)
    return;

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (RlxTensor) x = rlx_test_random (i % 4 == 3 ? "f16[3,4,5,6]" : "f32[3,4,5,6]", -2, 2, i);

      check_norms (x, cases[i].n, cases[i].axes);
    }

  {
    g_autoptr (RlxTensor) none = rlx_test_random ("f32[3,0,2]", 0, 1, 1);
    g_autoptr (RlxTensor) one = rlx_test_tensor ("f32[]", (double[]) { 3 });

    check_norms (none, 1, (gint64[]) { 1 });
    check_norms (none, 1, (gint64[]) { 0 });
    check_norms (one, 0, NULL);
  }
}

/* A common offset of a row must not swamp its variance. */
static void
test_norm_offset (void)
{
  static const double offsets[] = { 0, 1e3, -1e3, 1e4, 1e6 };

  if (rlx_test_device () == NULL)
    return;

  for (gsize i = 0; i < G_N_ELEMENTS (offsets); i++)
    {
      g_autoptr (RlxTensor) few = rlx_test_random ("f32[2,2000]", offsets[i] - 1, offsets[i] + 1, i);
      g_autoptr (RlxTensor) many = rlx_test_random ("f32[40,300]", offsets[i] - 1, offsets[i] + 1, i);

      check_norms (few, 1, (gint64[]) { 1 });
      check_norms (many, 1, (gint64[]) { 1 });
    }

  {
    /* The first element of a row is far from the others. */
    g_autofree double *values = g_new (double, 20 * 500);
    g_autoptr (RlxTensor) x = NULL;

    for (int i = 0; i < 20 * 500; i++)
      values[i] = i % 500 == 0 ? 1e4 : 10 + (i * 7919 % 1000) * 1e-3;
    x = rlx_test_tensor ("f32[20,500]", values);
    check_norms (x, 1, (gint64[]) { 1 });
  }
}

static void
test_norm_special (void)
{
  if (rlx_test_device () == NULL)
    return;

  {
    g_autoptr (RlxTensor) x = rlx_test_tensor ("f32[4,3]", (double[]) { 5, 5, 5, 1, NAN, 2, INFINITY, 1, 2, 0, 0, 0 });
    g_autoptr (RlxTensor) bias = rlx_test_tensor ("f32[3]", (double[]) { 1, 2, 3 });

    check_norm ("layer_norm", x, 1, (gint64[]) { 1 }, 1e-5, NULL, bias);
    check_norm ("layer_norm", x, 1, (gint64[]) { 1 }, 0.0, NULL, NULL);
    check_norm ("rms_norm", x, 1, (gint64[]) { 1 }, 0.0, NULL, NULL);
  }
  {
    /* epsilon dominates */
    g_autoptr (RlxTensor) x = rlx_test_random ("f32[20,64]", -1e-4, 1e-4, 1);

    check_norm ("layer_norm", x, 1, (gint64[]) { 1 }, 1e-2, NULL, NULL);
    check_norm ("rms_norm", x, 1, (gint64[]) { 1 }, 1e-2, NULL, NULL);
  }
  {
    /* one operand in two roles */
    g_autoptr (RlxTensor) x = rlx_test_random ("f32[40]", -1, 1, 5);
    g_autofree double *values = rlx_test_get_values (x);
    g_autofree double *expected = g_new (double, 40);
    g_autoptr (RlxGraph) graph = rlx_graph_new ();
    g_autoptr (GError) error = NULL;
    g_autofree RlxTensor **outputs = NULL;
    RlxNode *node = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, (gint64[]) { 40 }, 1, &error);
    double square = 0;
    gsize n;

    for (int i = 0; i < 2; i++)
      {
        g_autofree RlxNode **results = rlx_graph_add_op (graph, "rms_norm", (RlxNode *[]) { node, node }, 2, NULL, &n, &error);

        g_assert_no_error (error);
        node = results[0];
      }
    rlx_graph_output (graph, "y", node, NULL);
    for (int turn = 0; turn < 2; turn++)
      {
        square = 0;
        for (int i = 0; i < 40; i++)
          square += values[i] * values[i] / 40;
        for (int i = 0; i < 40; i++)
          expected[i] = values[i] = values[i] * values[i] / sqrt (square + 1e-6);
      }
    outputs = rlx_test_run_graph (g_object_ref (graph), 1, &x, &n);
    if (outputs != NULL)
      {
        /* The first result's error counts twice in the second's. */
        rlx_test_compare ("rms_norm by itself", outputs[0], "f32[40]", expected, 0, 4 * NORM);
        g_object_unref (outputs[0]);
      }
  }
}

static void
test_norm_large (void)
{
  if (rlx_test_device () == NULL)
    return;

  {
    g_autoptr (RlxTensor) x = rlx_test_random ("f32[1000000]", 4, 6, 1);

    check_norm ("layer_norm", x, 1, (gint64[]) { 0 }, 1e-5, NULL, NULL);
    check_norm ("rms_norm", x, 1, (gint64[]) { 0 }, 1e-6, NULL, NULL);
  }
  {
    g_autoptr (RlxTensor) x = rlx_test_random ("f32[70000,9]", -1, 1, 2);

    check_norms (x, 1, (gint64[]) { 1 });
  }
}

/* Results that reuse the memory of their operands. */
static void
test_in_place (void)
{
  static const char *const types[] = { "f32[50,33]", "f16[50,33]", "f32[2,3000]", "f16[2,3000]" };

  if (rlx_test_device () == NULL)
    return;

  for (gsize i = 0; i < G_N_ELEMENTS (types); i++)
    {
      g_autoptr (RlxTensor) x = rlx_test_random (types[i], -3, 3, i);
      g_autoptr (RlxTensor) first = rlx_test_run_op ("softmax", 1, &x, g_variant_new_parsed ("{'axis': <int64 1>}"));
      g_autoptr (RlxTensor) second = rlx_test_run_op ("layer_norm", 1, &first, NULL);
      g_autoptr (RlxTensor) third = rlx_test_run_op ("softmax", 1, &second, g_variant_new_parsed ("{'axis': <int64 0>}"));
      g_autoptr (RlxGraph) graph = rlx_graph_new ();
      g_autoptr (GError) error = NULL;
      g_autofree RlxTensor **outputs = NULL;
      gsize n_dims, n;
      const gint64 *shape = rlx_tensor_get_shape (x, &n_dims);
      RlxNode *node = rlx_graph_input (graph, "x", rlx_tensor_get_data_type (x), shape, n_dims, &error);

      node = rlx_node_softmax (node, 1, &error);
      node = rlx_node_layer_norm (node, NULL, NULL, NULL, &error);
      node = rlx_node_softmax (node, 0, &error);
      g_assert_no_error (error);
      rlx_graph_output (graph, "y", node, NULL);
      outputs = rlx_test_run_graph (g_object_ref (graph), 1, &x, &n);
      if (outputs == NULL)
        continue;
      g_assert_true (third != NULL && rlx_tensor_equal (outputs[0], third));
      g_object_unref (outputs[0]);
    }
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/softmax/rules", test_softmax_rules);
  g_test_add_func ("/softmax/lengths", test_softmax_lengths);
  g_test_add_func ("/softmax/axes", test_softmax_axes);
  g_test_add_func ("/softmax/large", test_softmax_large);
  g_test_add_func ("/softmax/special", test_softmax_special);
  g_test_add_func ("/norm/rules", test_norm_rules);
  g_test_add_func ("/norm/lengths", test_norm_lengths);
  g_test_add_func ("/norm/axes", test_norm_axes);
  g_test_add_func ("/norm/offset", test_norm_offset);
  g_test_add_func ("/norm/special", test_norm_special);
  g_test_add_func ("/norm/large", test_norm_large);
  g_test_add_func ("/norm/in-place", test_in_place);

  return g_test_run ();
}
