/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"
#include "rlx-test-util.h"

#include <math.h>
#include <string.h>

#include "util/rlx-debug-private.h"

#define U 0x1p-24 /* half a unit in the last place of 1 */

static const char *const ops[] = {
  "reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod",
  "reduce_l1", "reduce_sum_square", "reduce_l2", "reduce_log_sum_exp",
};
enum { SUM, MEAN, MAXIMUM, MINIMUM, PROD, L1, SUM_SQUARE, L2, LOG_SUM_EXP };

static const char *const number_types[] = { "f32", "f16", "i32", "u32", "i8", "u8", "i64", "u64" };

/* The reference: results and elements are computed one at a time. */
typedef struct
{
  double *values;
  double *sizes;   /* Σ|x|, Π|x| or max|x|: what errors are relative to */
  gsize n_outputs;
  gsize n;         /* elements per output */
} Folded;

static double
fold_values (int           op,
             const double *values,
             gsize         n,
             RlxDataType   data_type,
             double       *size)
{
  gboolean is_float = data_type == RLX_DATA_TYPE_F32 || data_type == RLX_DATA_TYPE_F16;
  double result = 0, sizes = 0;
  guint32 bits = op == PROD ? 1 : 0;

  switch (op)
    {
    case SUM:
    case MEAN:
      for (gsize i = 0; i < n; i++)
        {
          result += values[i];
          sizes += fabs (values[i]);
          bits += (guint32) (gint64) values[i];
        }
      break;

    case PROD:
      result = 1;
      for (gsize i = 0; i < n; i++)
        {
          result *= values[i];
          bits *= (guint32) (gint64) values[i];
        }
      sizes = fabs (result);
      break;

    case L1:
      for (gsize i = 0; i < n; i++)
        {
          result += fabs (values[i]);
          bits += (guint32) (gint64) fabs (values[i]);
        }
      sizes = result;
      break;

    case SUM_SQUARE:
    case L2:
      for (gsize i = 0; i < n; i++)
        {
          result += values[i] * values[i];
          bits += (guint32) (gint64) values[i] * (guint32) (gint64) values[i];
        }
      if (op == L2)
        result = sqrt (result);
      sizes = result;
      break;

    case LOG_SUM_EXP:
      {
        double largest = -INFINITY;

        for (gsize i = 0; i < n; i++)
          largest = fmax (largest, values[i]);
        for (gsize i = 0; i < n; i++)
          result += exp (values[i] - (isfinite (largest) ? largest : 0));
        result = (isfinite (largest) ? largest : 0) + log (result);
      }
      break;

    default:
      for (gsize i = 0; i < n; i++)
        {
          if (i == 0 || isnan (values[i]) || (op == MAXIMUM ? values[i] > result : values[i] < result))
            result = isnan (result) && i > 0 ? result : values[i];
        }
      break;
    }

  if (op == MEAN)
    {
      result /= (double) n;
      sizes /= (double) n;
    }
  if (!is_float && op != MAXIMUM && op != MINIMUM)
    switch (data_type)
      {
      case RLX_DATA_TYPE_I8: result = (gint8) bits; break;
      case RLX_DATA_TYPE_U8: result = (guint8) bits; break;
      case RLX_DATA_TYPE_U32:
      case RLX_DATA_TYPE_U64: result = bits; break;
      default: result = (gint32) bits; break;
      }
  *size = sizes;

  return result;
}

static void
fold_axes (int           op,
           RlxTensor    *x,
           const double *values,
           guint         mask,
           Folded       *out)
{
  gsize n_dims;
  const gint64 *shape = rlx_tensor_get_shape (x, &n_dims);
  gsize total = rlx_tensor_get_n_elements (x);
  g_autofree double *sorted = g_new (double, MAX (total, 1));
  g_autofree gsize *fill = NULL;

  out->n = 1;
  out->n_outputs = 1;
  for (gsize d = 0; d < n_dims; d++)
    *(mask >> d & 1 ? &out->n : &out->n_outputs) *= shape[d];

  fill = g_new0 (gsize, MAX (out->n_outputs, 1));
  for (gsize i = 0; i < total; i++)
    {
      gsize rest = i, output = 0, scale = 1;

      for (gsize d = n_dims; d-- > 0;)
        {
          if ((mask >> d & 1) == 0)
            {
              output += rest % shape[d] * scale;
              scale *= shape[d];
            }
          rest /= shape[d];
        }
      sorted[output * out->n + fill[output]++] = values[i];
    }

  out->values = g_new (double, MAX (out->n_outputs, 1));
  out->sizes = g_new (double, MAX (out->n_outputs, 1));
  for (gsize i = 0; i < out->n_outputs; i++)
    out->values[i] = fold_values (op, sorted + i * out->n, out->n, rlx_tensor_get_data_type (x), &out->sizes[i]);
}

typedef struct
{
  const Folded *folded;
  int op;
  RlxDataType data_type;
} Bound;

/* As the operator table states it; the rounding of f16 results comes on top. */
static double
bound (gsize    index,
       double   expected,
       gpointer user_data)
{
  const Bound *b = user_data;
  double size = b->folded->sizes[index];
  double n = (double) b->folded->n;
  double limit = 0;

  if (b->data_type != RLX_DATA_TYPE_F32 && b->data_type != RLX_DATA_TYPE_F16)
    return 0;
  if (b->op == SUM || b->op == MEAN)
    limit = (log2 (n) + 24) * U * size;
  else if (b->op == PROD)
    limit = n * 2 * U * size;
  else if (b->op == L1 || b->op == SUM_SQUARE)
    limit = (log2 (n) + 25) * U * size;
  else if (b->op == L2)
    limit = (log2 (n) + 28) * U / 2 * size + 1e-18;
  else if (b->op == LOG_SUM_EXP && isfinite (expected))
    limit = 8 * U * (fabs (expected) + log2 (n) + 16);
  if (b->data_type == RLX_DATA_TYPE_F16)
    limit += rlx_test_rounding (b->data_type, fabs (expected) + limit);

  return limit;
}

static GVariant *
make_attributes (guint    mask,
                 gsize    n_dims,
                 gboolean keep_dims)
{
  gint64 axes[RLX_MAX_DIMS];
  gsize n = 0;
  GVariantDict dict;

  /* The order and sign of axes make no difference. */
  for (gsize d = n_dims; d-- > 0;)
    if (mask >> d & 1)
      axes[n++] = d % 2 ? (gint64) d : (gint64) d - (gint64) n_dims;

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert_value (&dict, "axes", rlx_test_ints (n, axes));
  if (keep_dims)
    g_variant_dict_insert (&dict, "keep_dims", "b", TRUE);

  return g_variant_ref_sink (g_variant_dict_end (&dict));
}

/* All operators that support the type, over the same axes, in one graph. */
static void
check_all (RlxTensor *x,
           guint      mask,
           gboolean   keep_dims,
           guint      which)
{
  RlxDataType data_type = rlx_tensor_get_data_type (x);
  gboolean is_float = data_type == RLX_DATA_TYPE_F32 || data_type == RLX_DATA_TYPE_F16;
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) attributes = NULL;
  g_autofree double *values = rlx_test_get_values (x);
  g_autofree RlxTensor **outputs = NULL;
  gsize n_dims, n_outputs, output = 0;
  const gint64 *shape = rlx_tensor_get_shape (x, &n_dims);
  g_autoptr (GString) type = g_string_new (rlx_data_type_to_string (data_type));
  g_autofree char *from = rlx_tensor_to_string (x);
  RlxNode *node;

  if (!is_float)
    which &= ~(1u << MEAN | 1u << L2 | 1u << LOG_SUM_EXP);
  attributes = make_attributes (mask, n_dims, keep_dims);
  g_string_append_c (type, '[');
  for (gsize d = 0; d < n_dims; d++)
    if ((mask >> d & 1) == 0)
      g_string_append_printf (type, "%" G_GINT64_FORMAT ",", shape[d]);
    else if (keep_dims)
      g_string_append (type, "1,");
  g_string_append_c (type, ']');

  node = rlx_graph_input (graph, "x", data_type, shape, n_dims, &error);
  g_assert_no_error (error);
  for (gsize op = 0; op < G_N_ELEMENTS (ops); op++)
    if (which >> op & 1)
      {
        gsize n;
        g_autofree RlxNode **results = rlx_graph_add_op (graph, ops[op], &node, 1, attributes, &n, &error);

        g_assert_no_error (error);
        rlx_graph_output (graph, ops[op], results[0], NULL);
      }

  outputs = rlx_test_run_graph (g_object_ref (graph), 1, &x, &n_outputs);
  if (outputs == NULL)
    return;

  for (gsize op = 0; op < G_N_ELEMENTS (ops); op++)
    if (which >> op & 1)
      {
        Folded folded;
        Bound b = { &folded, (int) op, data_type };
        g_autofree char *what = g_strdup_printf ("%s of %.60s over axes of mask 0x%x", ops[op], from, mask);

        fold_axes ((int) op, x, values, mask, &folded);
        rlx_test_compare_full (what, outputs[output], type->str, folded.values, bound, &b);
        g_free (folded.values);
        g_free (folded.sizes);
        g_object_unref (outputs[output++]);
      }
}

#define ALL_OPS 0x1ff
#define NO_PROD 0x1ef

/* What all operators have in common, such as the iteration over axes, need not be checked for each: every third
 * from @first on, with all types. */
static guint
third_of_ops (gsize first)
{
  return 0x49u << first % 3 & ALL_OPS;
}

/* ---- tests ----------------------------------------------------------------------- */

static void
test_rules (void)
{
  rlx_test_infers ("reduce_sum", "f32[2,3,4]", g_variant_new_parsed ("{'axes': <[int64 1]>}"), "f32[2,4]");
  rlx_test_infers ("reduce_sum", "i8[2,3,4]", g_variant_new_parsed ("{'axes': <[int64 -1, 0]>, 'keep_dims': <true>}"), "i8[1,3,1]");
  rlx_test_infers ("reduce_max", "u8[2,3]", g_variant_new_parsed ("{'axes': <[int64 0, 1]>}"), "u8[]");
  rlx_test_infers ("reduce_max", "f16[2,3]", g_variant_new_parsed ("{'axes': <@ax []>}"), "f16[2,3]");
  rlx_test_infers ("reduce_prod", "f32[]", g_variant_new_parsed ("{'axes': <@ax []>}"), "f32[]");
  rlx_test_infers ("reduce_min", "f32[2,0,4]", g_variant_new_parsed ("{'axes': <[int64 1]>}"), "f32[2,4]");

  rlx_test_refuses ("reduce_sum", "f32[2,3]", g_variant_new_parsed ("{'axes': <[int64 2]>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "axis 2");
  rlx_test_refuses ("reduce_sum", "f32[2,3]", g_variant_new_parsed ("{'axes': <[int64 -3]>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "axis -3");
  rlx_test_refuses ("reduce_sum", "f32[2,3]", g_variant_new_parsed ("{'axes': <[int64 1, -1]>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, NULL);
  rlx_test_refuses ("reduce_sum", "f32[]", g_variant_new_parsed ("{'axes': <[int64 0]>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, NULL);
  rlx_test_refuses ("reduce_sum", "f32[2]", NULL, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "axes");
  rlx_test_refuses ("reduce_sum", "bool[2]", g_variant_new_parsed ("{'axes': <[int64 0]>}"), RLX_GRAPH_ERROR_DATA_TYPE, NULL);
  rlx_test_refuses ("reduce_mean", "i32[2]", g_variant_new_parsed ("{'axes': <[int64 0]>}"), RLX_GRAPH_ERROR_DATA_TYPE, NULL);
  rlx_test_refuses ("reduce_sum", "", g_variant_new_parsed ("{'axes': <[int64 0]>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, NULL);
}

/* Every subset of five axes, cycling through the types. */
static void
test_axes (void)
{
  if (rlx_test_device () == NULL)
    return;

  for (guint mask = 0; mask < 32; mask++)
    for (gsize i = 0; i < 2; i++)
      {
        const char *name = i == 0 ? "f32" : number_types[1 + mask % (G_N_ELEMENTS (number_types) - 1)];
        g_autofree char *type = g_strdup_printf ("%s[3,4,2,5,3]", name);
        gboolean has_sign = name[0] != 'u';
        g_autoptr (RlxTensor) x = name[0] == 'f' ? rlx_test_random (type, 0.5, 1.5, mask) : rlx_test_random (type, has_sign ? -30 : 0, 30, mask);

        check_all (x, mask, mask % 2 == i % 2, third_of_ops (mask + i));
      }
}

static void
test_types (void)
{
  if (rlx_test_device () == NULL)
    return;

  for (gsize i = 0; i < G_N_ELEMENTS (number_types); i++)
    {
      const char *name = number_types[i];
      g_autofree char *type = g_strdup_printf ("%s[9,70]", name);
      g_autofree char *long_type = g_strdup_printf ("%s[2,9000]", name);
      gboolean has_sign = name[0] != 'u';
      double low = name[0] == 'f' ? 0.9 : has_sign ? -100 : 0, high = name[0] == 'f' ? 1.1 : 100;
      g_autoptr (RlxTensor) x = rlx_test_random (type, low, high, 3);
      g_autoptr (RlxTensor) y = rlx_test_random (long_type, low, high, 3);

      check_all (x, 1, FALSE, ALL_OPS);
      check_all (x, 2, FALSE, ALL_OPS);
      check_all (x, 3, FALSE, ALL_OPS);
      /* Integers wrap at the end, not in between. */
      check_all (y, 2, FALSE, name[0] == 'f' ? NO_PROD : ALL_OPS);
    }
}

/* Rows of all lengths, contiguous and not, few and many of them. */
static void
test_lengths (void)
{
  static const int lengths[] = { 1, 2, 7, 15, 16, 17, 31, 63, 64, 65, 257, 1000, 4097, 8192, 70000 };

  if (rlx_test_device () == NULL)
    return;

  for (gsize i = 0; i < G_N_ELEMENTS (lengths); i++)
    {
      int n = lengths[i];
      guint which = third_of_ops (i) & NO_PROD;
      g_autofree char *rows = g_strdup_printf ("f32[3,%d]", n);
      g_autofree char *columns = g_strdup_printf ("f32[%d,3]", n);
      g_autofree char *many = g_strdup_printf ("f32[%d,%d]", n > 1000 ? 20 : 200, n);
      g_autofree char *middle = g_strdup_printf ("f32[2,%d,5]", n);
      g_autofree char *apart = g_strdup_printf ("f32[4,2,%d]", n);
      g_autoptr (RlxTensor) a = rlx_test_random (rows, -1, 3, n);
      g_autoptr (RlxTensor) b = rlx_test_random (columns, -1, 3, n);
      g_autoptr (RlxTensor) c = rlx_test_random (many, -1, 3, n);
      g_autoptr (RlxTensor) d = rlx_test_random (middle, -1, 3, n);
      g_autoptr (RlxTensor) e = rlx_test_random (apart, -1, 3, n);

      check_all (a, 2, FALSE, which);
      check_all (b, 1, FALSE, which);
      if (n <= 8192 || !rlx_test_has_small_bindings ())
        check_all (c, 2, FALSE, which);
      check_all (d, 2, FALSE, which);
      /* two groups of columns */
      check_all (e, 5, FALSE, which);
    }
}

static void
test_million (void)
{
  if (rlx_test_device () == NULL)
    return;

  {
    g_autoptr (RlxTensor) x = rlx_test_random ("f32[1000000]", 0, 1, 1);

    check_all (x, 1, FALSE, NO_PROD);
  }
  {
    g_autoptr (RlxTensor) x = rlx_test_random ("f32[100,10,1000]", -1, 1, 2);

    check_all (x, 5, FALSE, NO_PROD);
    check_all (x, 3, FALSE, NO_PROD);
    check_all (x, 2, FALSE, NO_PROD);
  }
  {
    g_autoptr (RlxTensor) x = rlx_test_random ("i32[1000003]", G_MININT32, G_MAXINT32, 3);

    check_all (x, 1, FALSE, ALL_OPS);
  }
  {
    /* the same number repeated: the worst case for a running sum */
    g_autoptr (RlxTensor) x = rlx_test_random ("f16[1000000]", 0.1, 0.1, 1);
    g_autoptr (RlxTensor) y = rlx_test_random ("f32[1000000]", 0.1, 0.1, 1);
    g_autoptr (RlxTensor) z = rlx_test_random ("f32[20,40000]", 0.1, 0.1, 1);

    check_all (x, 1, FALSE, 1u << MEAN);
    check_all (y, 1, FALSE, 1u << SUM);
    check_all (z, 2, FALSE, 1u << SUM);
    check_all (z, 1, FALSE, 1u << SUM);
  }
}

/* More workgroups than one dimension of the grid can have. */
static void
test_many_rows (void)
{
  if (rlx_test_device () == NULL)
    return;

  {
    g_autoptr (RlxTensor) x = rlx_test_random ("u8[1100000,2]", 0, 255, 1);

    check_all (x, 2, FALSE, 1u << MAXIMUM);
  }
  {
    g_autoptr (RlxTensor) x = rlx_test_random ("f32[70000,9]", 0, 1, 1);

    check_all (x, 2, FALSE, 1u << SUM);
    check_all (x, 1, FALSE, 1u << SUM);
  }
}

static void
check_empty (const char *op,
             const char *name,
             double      expected)
{
  g_autofree char *from = g_strdup_printf ("%s[2,0,3]", name);
  g_autofree char *to = g_strdup_printf ("%s[2,3]", name);
  g_autofree char *to_one = g_strdup_printf ("%s[]", name);
  g_autofree char *to_none = g_strdup_printf ("%s[0,3]", name);
  g_autofree char *what = g_strdup_printf ("%s of nothing in %s", op, name);
  double values[6] = { expected, expected, expected, expected, expected, expected };
  g_autoptr (RlxTensor) x = rlx_test_tensor (from, values);
  g_autoptr (RlxTensor) a = rlx_test_run_op (op, 1, &x, g_variant_new_parsed ("{'axes': <[int64 1]>}"));
  g_autoptr (RlxTensor) b = rlx_test_run_op (op, 1, &x, g_variant_new_parsed ("{'axes': <[int64 0, 1, 2]>}"));
  g_autoptr (RlxTensor) c = rlx_test_run_op (op, 1, &x, g_variant_new_parsed ("{'axes': <[int64 0]>}"));
  g_autoptr (RlxTensor) d = rlx_test_run_op (op, 1, &x, g_variant_new_parsed ("{'axes': <@ax []>}"));

  rlx_test_compare (what, a, to, values, 0, 0);
  rlx_test_compare (what, b, to_one, values, 0, 0);
  rlx_test_compare (what, c, to_none, values, 0, 0);
  rlx_test_compare (what, d, from, values, 0, 0);
}

static void
test_empty (void)
{
  if (rlx_test_device () == NULL)
    return;

  for (gsize i = 0; i < G_N_ELEMENTS (number_types); i++)
    {
      check_empty ("reduce_sum", number_types[i], 0);
      check_empty ("reduce_prod", number_types[i], 1);
      check_empty ("reduce_l1", number_types[i], 0);
      check_empty ("reduce_sum_square", number_types[i], 0);
    }
  check_empty ("reduce_mean", "f32", NAN);
  check_empty ("reduce_mean", "f16", NAN);
  check_empty ("reduce_l2", "f32", 0);
  check_empty ("reduce_log_sum", "f16", -INFINITY);
  check_empty ("reduce_log_sum_exp", "f32", -INFINITY);
  check_empty ("reduce_any", "bool", 0);
  check_empty ("reduce_all", "bool", 1);
  check_empty ("reduce_max", "f32", -INFINITY);
  check_empty ("reduce_min", "f32", INFINITY);
  check_empty ("reduce_max", "f16", -INFINITY);
  check_empty ("reduce_min", "f16", INFINITY);
  check_empty ("reduce_max", "i32", G_MININT32);
  check_empty ("reduce_min", "i32", G_MAXINT32);
  check_empty ("reduce_max", "u32", 0);
  check_empty ("reduce_min", "u32", G_MAXUINT32);
  check_empty ("reduce_max", "i8", G_MININT8);
  check_empty ("reduce_min", "i8", G_MAXINT8);
  check_empty ("reduce_max", "u8", 0);
  check_empty ("reduce_min", "u8", G_MAXUINT8);
}

static void
test_special (void)
{
  if (rlx_test_device () == NULL)
    return;

  {
    g_autoptr (RlxTensor) x = rlx_test_tensor ("f32[]", (double[]) { 3.5 });

    check_all (x, 0, FALSE, ALL_OPS);
  }
  {
    g_autoptr (RlxTensor) x = rlx_test_tensor ("f32[4,3]", (double[]) { 1, NAN, 2, -INFINITY, 5, 3, INFINITY, 1, 2, NAN, NAN, NAN });

    check_all (x, 2, FALSE, ALL_OPS & ~(1u << MEAN));
    check_all (x, 1, FALSE, ALL_OPS & ~(1u << MEAN));
  }
  {
    /* rows that consist of infinities; a NaN at the end of a long row */
    g_autofree double *values = g_new (double, 3 * 20000);
    g_autoptr (RlxTensor) x = NULL;

    for (int i = 0; i < 20000; i++)
      {
        values[i] = -INFINITY;
        values[20000 + i] = INFINITY;
        values[40000 + i] = i == 19999 ? NAN : 1;
      }
    x = rlx_test_tensor ("f32[3,20000]", values);
    check_all (x, 2, FALSE, NO_PROD & ~(1u << MEAN));
  }
  {
    /* exponentials that would overflow, or underflow, on their own */
    g_autoptr (RlxTensor) x = rlx_test_random ("f32[2,9000]", 900, 1000, 8);
    g_autoptr (RlxTensor) y = rlx_test_random ("f32[2,9000]", -1000, -900, 8);

    check_all (x, 2, FALSE, 1u << LOG_SUM_EXP);
    check_all (y, 2, FALSE, 1u << LOG_SUM_EXP);
  }
  {
    /* out of the range of f16 in between, within it at the end */
    g_autoptr (RlxTensor) x = rlx_test_random ("f16[5,3000]", 60, 64, 8);

    check_all (x, 2, FALSE, 1u << MEAN);
  }
}

static void
test_booleans (void)
{
  static const gsize lengths[] = { 1, 65, 1000, 70001 };

  if (rlx_test_device () == NULL)
    return;

  /* Rows with none, all, one and all but one. */
  for (gsize i = 0; i < G_N_ELEMENTS (lengths); i++)
    {
      gsize n = lengths[i];
      g_autofree char *type = g_strdup_printf ("bool[4,%" G_GSIZE_FORMAT "]", n);
      g_autofree double *values = g_new (double, 4 * n);
      g_autoptr (RlxTensor) x = NULL, any = NULL, all = NULL;

      for (gsize k = 0; k < n; k++)
        {
          values[k] = 0;
          values[n + k] = 1;
          values[2 * n + k] = k == n - 1;
          values[3 * n + k] = k != n / 2;
        }
      x = rlx_test_tensor (type, values);
      any = rlx_test_run_op ("reduce_any", 1, &x, g_variant_new_parsed ("{'axes': <[int64 1]>}"));
      all = rlx_test_run_op ("reduce_all", 1, &x, g_variant_new_parsed ("{'axes': <[int64 1]>}"));
      rlx_test_compare ("any", any, "bool[4]", (double[]) { 0, 1, 1, n > 1 }, 0, 0);
      rlx_test_compare ("all", all, "bool[4]", (double[]) { 0, 1, n == 1, 0 }, 0, 0);
    }
}

static void
test_same_bits (void)
{
  rlx_test_check_same_bits ("reduce_sum", "f32[7,30000]", "{'axes': <[int64 1]>}");
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/reduce/rules", test_rules);
  g_test_add_func ("/reduce/axes", test_axes);
  g_test_add_func ("/reduce/types", test_types);
  g_test_add_func ("/reduce/lengths", test_lengths);
  g_test_add_func ("/reduce/million", test_million);
  g_test_add_func ("/reduce/many-rows", test_many_rows);
  g_test_add_func ("/reduce/empty", test_empty);
  g_test_add_func ("/reduce/special", test_special);
  g_test_add_func ("/reduce/booleans", test_booleans);
  g_test_add_func ("/reduce/same-bits", test_same_bits);

  return g_test_run ();
}
