/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Operators that move, pick, change and resize, where the property tests do not
 * reach: many collisions, many slots, known results, and what is refused.
 */
#include "config.h"
#include "rlx-test-util.h"

#include <math.h>
#include <string.h>

#define ATTRS(...) g_variant_new_parsed (__VA_ARGS__)

/* ---- scattering -------------------------------------------------------------------- */

typedef struct
{
  const char *type;
  const char *mode;
  gint64 n;           /* updates */
  gint64 slots;
  gint64 inner;
  guint seed;
} Collisions;

/* The result in slot @slot for @x and the updates in order. */
static void
combine (const Collisions *c,
         const double     *x,
         const double     *updates,
         const gint64     *indices,
         double           *expected,
         double           *sizes,
         gsize            *counts)
{
  gint64 n = c->slots * c->inner;

  for (gint64 i = 0; i < n; i++)
    {
      expected[i] = x[i];
      sizes[i] = fabs (x[i]);
      counts[i] = 0;
    }
  for (gint64 i = 0; i < c->n * c->inner; i++)
    {
      gint64 at = indices[i / c->inner] * c->inner + i % c->inner;
      double value = updates[i];

      counts[at]++;
      if (g_str_equal (c->mode, "replace"))
        expected[at] = value;
      else if (g_str_equal (c->mode, "max"))
        expected[at] = MAX (expected[at], value);
      else if (g_str_equal (c->mode, "min"))
        expected[at] = MIN (expected[at], value);
      else if (g_str_equal (c->mode, "add"))
        expected[at] += value;
      else if (c->type[0] == 'f')
        expected[at] *= value;
      else
        expected[at] = (double) (gint32) ((guint32) (gint64) expected[at] * (guint32) (gint64) value);
      sizes[at] += fabs (value);
    }
}

typedef struct
{
  const Collisions *c;
  const double *sizes;
  const gsize *counts;
} Bound;

/* As the operator specifies: one rounding per update, and one to the type. */
static double
scatter_bound (gsize    index,
               double   expected,
               gpointer user_data)
{
  const Bound *b = user_data;
  double k = (double) b->counts[index];

  if (b->c->type[0] != 'f' || k == 0 || (!g_str_equal (b->c->mode, "add") && !g_str_equal (b->c->mode, "mul")))
    return 0;
  return 1.01 * k * 0x1p-24 * (b->c->mode[0] == 'a' ? b->sizes[index] : fabs (expected)) +
         rlx_test_rounding (g_str_equal (b->c->type, "f16") ? RLX_DATA_TYPE_F16 : RLX_DATA_TYPE_F32, expected);
}

static void
check_collisions (const Collisions *c)
{
  g_autofree char *x_type = g_strdup_printf ("%s[%d,%d]", c->type, (int) c->slots, (int) c->inner);
  g_autofree char *indices_type = g_strdup_printf ("i32[%d,1]", (int) c->n);
  g_autofree char *updates_type = g_strdup_printf ("%s[%d,%d]", c->type, (int) c->n, (int) c->inner);
  g_autofree char *what = g_strdup_printf ("%s %s: %d updates of %d to %d slots", c->type, c->mode, (int) c->n, (int) c->inner, (int) c->slots);
  gboolean product = g_str_equal (c->mode, "mul");
  gboolean integer = c->type[0] != 'f';
  g_autoptr(RlxTensor) x = rlx_test_random (x_type, integer ? -9 : product ? 0.9 : -1, integer ? 9 : product ? 1.1 : 1, c->seed);
  g_autoptr(RlxTensor) updates = rlx_test_random (updates_type, integer ? -9 : product ? 0.99 : -1, integer ? 9 : product ? 1.01 : 1, c->seed + 1);
  g_autofree double *x_values = rlx_test_get_values (x);
  g_autofree double *update_values = rlx_test_get_values (updates);
  g_autofree double *places = g_new (double, c->n);
  g_autofree gint64 *indices = g_new (gint64, c->n);
  g_autofree double *expected = g_new (double, c->slots * c->inner);
  g_autofree double *sizes = g_new (double, c->slots * c->inner);
  g_autofree gsize *counts = g_new (gsize, c->slots * c->inner);
  g_autoptr(RlxTensor) index_tensor = NULL;
  g_autoptr(RlxTensor) first = NULL;
  g_autoptr(GRand) rand = g_rand_new_with_seed (c->seed);
  Bound bound = { c, sizes, counts };

  for (gint64 i = 0; i < c->n; i++)
    {
      indices[i] = g_rand_int_range (rand, 0, (gint32) c->slots);
      places[i] = (double) indices[i] - (g_rand_boolean (rand) ? (double) c->slots : 0);
    }
  index_tensor = rlx_test_tensor (indices_type, places);
  combine (c, x_values, update_values, indices, expected, sizes, counts);

  for (guint i = 0; i < 3; i++)
    {
      g_autoptr(RlxTensor) y = rlx_test_run_op ("scatter_nd", 3, (RlxTensor *[]) { x, index_tensor, updates },
                                                ATTRS ("{'mode': <%s>}", c->mode));

      if (y == NULL)
        return;
      if (i == 0)
        {
          rlx_test_compare_full (what, y, x_type, expected, scatter_bound, &bound);
          first = g_steal_pointer (&y);
        }
      else if (!g_bytes_equal (rlx_tensor_get_bytes (first), rlx_tensor_get_bytes (y)))
        {
          g_test_message ("%s: other bits in run %u", what, i + 1);
          g_test_fail ();
        }
    }
}

static void
test_scatter_collisions (void)
{
  static const Collisions cases[] = {
    { "f32", "add", 100000, 10, 1, 1 },
    { "f32", "mul", 100000, 10, 1, 2 },
    { "f32", "max", 100000, 10, 1, 3 },
    { "f32", "replace", 100000, 10, 1, 4 },
    { "i32", "add", 100000, 10, 1, 5 },
    { "i32", "mul", 3000, 10, 1, 6 },
    { "f16", "min", 20000, 3, 1, 7 },
    { "f16", "add", 700, 10, 1, 8 },
    { "f32", "add", 5000, 7, 33, 9 },       /* slices wider than a row of the workgroup */
    { "f32", "add", 1100, 1, 5, 10 },       /* a single slot: nothing to sort */
    { "f32", "add", 5000, 70001, 1, 11 },   /* more slots than updates: five digits */
    { "f32", "replace", 5000, 70001, 1, 12 },
    { "f32", "add", 1040, 16, 3, 13 },      /* some just long enough for a workgroup each, some not */
    { "f32", "add", 1024, 1000, 3, 14 },    /* few enough for pairwise comparison */
    { "i32", "mul", 61, 1000, 2, 15 },      /* most slots get none */
  };

  if (rlx_test_device () == NULL)
    return;
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    check_collisions (&cases[i]);
}

static void
test_scatter_elements (void)
{
  g_autoptr(RlxTensor) x = rlx_test_tensor ("u8[2,3]", (double[]) { 1, 2, 3, 4, 5, 6 });
  g_autoptr(RlxTensor) indices = rlx_test_tensor ("i64[2,2]", (double[]) { 0, -1, 100, -100 });
  g_autoptr(RlxTensor) updates = rlx_test_tensor ("u8[2,2]", (double[]) { 10, 20, 250, 40 });
  g_autoptr(RlxTensor) replaced = NULL;
  g_autoptr(RlxTensor) added = NULL;
  g_autoptr(RlxTensor) nothing = NULL;
  g_autoptr(RlxTensor) no_indices = rlx_test_tensor ("i64[2,0]", NULL);
  g_autoptr(RlxTensor) no_updates = rlx_test_tensor ("u8[2,0]", NULL);

  if (rlx_test_device () == NULL)
    return;

  replaced = rlx_test_run_op ("scatter_elements", 3, (RlxTensor *[]) { x, indices, updates }, ATTRS ("{'axis': <int64 1>}"));
  rlx_test_compare ("replace", replaced, "u8[2,3]", (double[]) { 10, 2, 20, 40, 5, 250 }, 0, 0);
  added = rlx_test_run_op ("scatter_elements", 3, (RlxTensor *[]) { x, indices, updates }, ATTRS ("{'axis': <int64 -1>, 'mode': <'add'>}"));
  rlx_test_compare ("add", added, "u8[2,3]", (double[]) { 11, 2, 23, 44, 5, 0 }, 0, 0);
  nothing = rlx_test_run_op ("scatter_elements", 3, (RlxTensor *[]) { x, no_indices, no_updates }, ATTRS ("{'axis': <int64 1>, 'mode': <'add'>}"));
  rlx_test_compare ("nothing", nothing, "u8[2,3]", (double[]) { 1, 2, 3, 4, 5, 6 }, 0, 0);
}

static void
test_scatter_nan (void)
{
  g_autoptr(RlxTensor) x = rlx_test_tensor ("f32[3]", (double[]) { 1, NAN, 3 });
  g_autoptr(RlxTensor) indices = rlx_test_tensor ("i32[4,1]", (double[]) { 0, 1, 2, 0 });
  g_autoptr(RlxTensor) updates = rlx_test_tensor ("f32[4]", (double[]) { NAN, 9, INFINITY, 5 });
  g_autoptr(RlxTensor) largest = NULL;
  g_autoptr(RlxTensor) smallest = NULL;

  if (rlx_test_device () == NULL)
    return;

  largest = rlx_test_run_op ("scatter_nd", 3, (RlxTensor *[]) { x, indices, updates }, ATTRS ("{'mode': <'max'>}"));
  rlx_test_compare ("max", largest, "f32[3]", (double[]) { NAN, NAN, INFINITY }, 0, 0);
  smallest = rlx_test_run_op ("scatter_nd", 3, (RlxTensor *[]) { x, indices, updates }, ATTRS ("{'mode': <'min'>}"));
  rlx_test_compare ("min", smallest, "f32[3]", (double[]) { NAN, NAN, 3 }, 0, 0);
}

/* ---- gathering ------------------------------------------------------------------------- */

static void
test_gather_limits (void)
{
  static const char *const types[] = { "i32[2,4]", "i64[2,4]", "i8[2,4]" };
  g_autoptr(RlxTensor) x = rlx_test_tensor ("f32[2,3]", (double[]) { 0, 1, 2, 3, 4, 5 });
  g_autoptr(RlxTensor) positive = rlx_test_tensor ("u8[2,2]", (double[]) { 2, 255, 3, 1 });
  g_autoptr(RlxTensor) pairs = rlx_test_tensor ("i32[3,2]", (double[]) { -1, -1, -100, 100, 1, 0 });
  g_autoptr(RlxTensor) unsigned_result = NULL;
  g_autoptr(RlxTensor) pair_result = NULL;

  if (rlx_test_device () == NULL)
    return;

  for (gsize i = 0; i < G_N_ELEMENTS (types); i++)
    {
      g_autoptr(RlxTensor) indices = rlx_test_tensor (types[i], (double[]) { -1, -3, -4, 3, 127, -128, 2, 0 });
      g_autoptr(RlxTensor) y = rlx_test_run_op ("gather_elements", 2, (RlxTensor *[]) { x, indices }, ATTRS ("{'axis': <int64 1>}"));

      rlx_test_compare (types[i], y, "f32[2,4]", (double[]) { 2, 0, 0, 2, 5, 3, 5, 3 }, 0, 0);
    }
  unsigned_result = rlx_test_run_op ("gather_elements", 2, (RlxTensor *[]) { x, positive }, ATTRS ("{'axis': <int64 1>}"));
  rlx_test_compare ("u8", unsigned_result, "f32[2,2]", (double[]) { 2, 2, 5, 4 }, 0, 0);
  pair_result = rlx_test_run_op ("gather_nd", 2, (RlxTensor *[]) { x, pairs }, NULL);
  rlx_test_compare ("pairs", pair_result, "f32[3]", (double[]) { 5, 2, 3 }, 0, 0);
}

/* A cache: each run adds rows after the existing ones. */
static void
test_write_at (void)
{
  static const char text[] =
    "rlx 1\n"
    "%0 = state \"cache\" i8[2, 4] [0, 0, 0, 0, 0, 0, 0, 0]\n"
    "%1 = input \"row\" i8[2, 1]\n"
    "%2 = input \"position\" i64[]\n"
    "%3 = write_at(%0, %1, %2) {axis = 1}\n"
    "assign %0 %3\n"
    "output \"y\" %3\n";
  static const double expected[][8] = {
    { 1, 0, 0, 0, 2, 0, 0, 0 },
    { 1, 3, 0, 0, 2, 4, 0, 0 },
    { 1, 3, 0, 5, 2, 4, 0, 6 },   /* -1: the last row */
    { 1, 3, 0, 7, 2, 4, 0, 8 },   /* 100: out of range, so the last one */
    { 9, 3, 0, 7, 10, 4, 0, 8 },
  };
  static const double positions[] = { 0, 1, -1, 100, -100 };
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxGraph) graph = NULL;
  g_autoptr(RlxExecutable) executable = NULL;

  rlx_test_infers ("write_at", "f32[2,3] f32[1,3] i32[]", NULL, "f32[2,3]");
  rlx_test_infers ("write_at", "f32[2,3] f32[0,3] u8[1,1]", NULL, "f32[2,3]");
  rlx_test_refuses ("write_at", "f32[2,3] f32[3,3] i32[]", NULL, RLX_GRAPH_ERROR_SHAPE, "dimension 0 of the value is 3; it must be at most 2");
  rlx_test_refuses ("write_at", "f32[2,3] f32[1,2] i32[]", NULL, RLX_GRAPH_ERROR_SHAPE, "it must be 3");
  rlx_test_refuses ("write_at", "f32[2,3] f32[3] i32[]", NULL, RLX_GRAPH_ERROR_SHAPE, "1 dimensions");
  rlx_test_refuses ("write_at", "f32[2,3] f32[1,3] i32[2]", NULL, RLX_GRAPH_ERROR_SHAPE, "i32[2]");
  rlx_test_refuses ("write_at", "f32[] f32[] i32[]", NULL, RLX_GRAPH_ERROR_INVALID_ARGUMENT, NULL);
  rlx_test_refuses ("write_at", "f32[2] f32[1] f32[]", NULL, RLX_GRAPH_ERROR_DATA_TYPE, NULL);

  if (rlx_test_device () == NULL)
    return;

  graph = rlx_graph_new_from_text (text, &error);
  g_assert_no_error (error);
  executable = rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error);
  g_assert_no_error (error);
  for (gsize i = 0; i < G_N_ELEMENTS (expected); i++)
    {
      g_autoptr(RlxTensor) row = rlx_test_tensor ("i8[2,1]", (double[]) { 2 * (double) i + 1, 2 * (double) i + 2 });
      g_autoptr(RlxTensor) position = rlx_test_tensor ("i64[]", &positions[i]);
      gsize n_outputs;
      g_autofree RlxTensor **outputs = rlx_executable_run (executable, (RlxTensor *[]) { row, position }, 2, &n_outputs, NULL, &error);
      g_autoptr(RlxTensor) y = NULL;

      g_assert_no_error (error);
      y = outputs[0];
      rlx_test_compare ("cache", y, "i8[2,4]", expected[i], 0, 0);
    }
}

/* ---- moves ------------------------------------------------------------------------------- */

static void
test_pad_values (void)
{
  g_autoptr(RlxTensor) x = rlx_test_tensor ("f16[3]", (double[]) { 1, 2, 3 });
  g_autoptr(RlxTensor) nan = rlx_test_tensor ("f16[]", (double[]) { NAN });
  g_autoptr(RlxTensor) empty = rlx_test_tensor ("f32[0,2]", NULL);
  g_autoptr(RlxTensor) filled = NULL;
  g_autoptr(RlxTensor) reflected = NULL;
  g_autoptr(RlxTensor) symmetric = NULL;
  g_autoptr(RlxTensor) wrapped = NULL;
  g_autoptr(RlxTensor) cropped = NULL;
  g_autoptr(RlxTensor) made = NULL;

  if (rlx_test_device () == NULL)
    return;

  filled = rlx_test_run_op ("pad", 2, (RlxTensor *[]) { x, nan }, ATTRS ("{'before': <[int64 1]>, 'after': <[int64 2]>}"));
  rlx_test_compare ("NaN", filled, "f16[6]", (double[]) { NAN, 1, 2, 3, NAN, NAN }, 0, 0);
  reflected = rlx_test_run_op ("pad", 1, &x, ATTRS ("{'before': <[int64 5]>, 'after': <[int64 7]>, 'mode': <'reflect'>}"));
  rlx_test_compare ("reflect", reflected, "f16[15]", (double[]) { 2, 1, 2, 3, 2, 1, 2, 3, 2, 1, 2, 3, 2, 1, 2 }, 0, 0);
  symmetric = rlx_test_run_op ("pad", 1, &x, ATTRS ("{'before': <[int64 4]>, 'after': <[int64 4]>, 'mode': <'symmetric'>}"));
  rlx_test_compare ("symmetric", symmetric, "f16[11]", (double[]) { 3, 3, 2, 1, 1, 2, 3, 3, 2, 1, 1 }, 0, 0);
  wrapped = rlx_test_run_op ("pad", 1, &x, ATTRS ("{'before': <[int64 4]>, 'after': <[int64 1]>, 'mode': <'wrap'>}"));
  rlx_test_compare ("wrap", wrapped, "f16[8]", (double[]) { 3, 1, 2, 3, 1, 2, 3, 1 }, 0, 0);
  /* cropped first, then mirrored: the 1 is gone */
  cropped = rlx_test_run_op ("pad", 1, &x, ATTRS ("{'before': <[int64 -1]>, 'after': <[int64 2]>, 'mode': <'reflect'>}"));
  rlx_test_compare ("crop", cropped, "f16[4]", (double[]) { 2, 3, 2, 3 }, 0, 0);
  made = rlx_test_run_op ("pad", 1, &empty, ATTRS ("{'before': <[int64 1, 0]>, 'after': <[int64 0, 1]>}"));
  rlx_test_compare ("of nothing", made, "f32[1,3]", (double[]) { 0, 0, 0 }, 0, 0);
}

static void
test_split_results (void)
{
  const gint64 shape[] = { 100, 3 };
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxTensor) x = rlx_test_random ("i8[100,3]", -100, 100, 3);
  g_autofree double *values = rlx_test_get_values (x);
  g_autoptr(RlxSplitOptions) options = rlx_split_options_new ();
  g_autofree RlxNode **parts = NULL;
  RlxTensor **outputs;
  RlxNode *node;
  gsize n_parts, n_outputs;

  if (rlx_test_device () == NULL)
    return;

  node = rlx_graph_input (graph, "x", RLX_DATA_TYPE_I8, shape, 2, &error);
  rlx_split_options_set_parts (options, 100);
  parts = rlx_node_split (node, 0, options, &n_parts, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (n_parts, ==, 100);
  for (gsize i = 0; i < n_parts; i++)
    {
      g_autofree char *name = g_strdup_printf ("y%" G_GSIZE_FORMAT, i);

      g_assert_cmpuint (rlx_node_get_result (parts[i]), ==, i);
      rlx_graph_output (graph, name, parts[i], NULL);
    }
  outputs = rlx_test_run_graph (g_steal_pointer (&graph), 1, &x, &n_outputs);
  g_assert_nonnull (outputs);
  g_assert_cmpuint (n_outputs, ==, 100);
  for (gsize i = 0; i < n_outputs; i++)
    {
      rlx_test_compare ("part", outputs[i], "i8[1,3]", values + 3 * i, 0, 0);
      g_object_unref (outputs[i]);
    }
  g_free (outputs);
}

/* A reversed operand is read backwards by its user, without a copy. */
static void
test_reverse_view (void)
{
  const gint64 shape[] = { 3, 2 }, axes[] = { 0, 1 }, one[] = { 0 };
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxTensor) x = rlx_test_tensor ("f32[3,2]", (double[]) { 1, 2, 3, 4, 5, 6 });
  g_autoptr(RlxTensor) y = NULL;
  g_autofree RlxTensor **outputs = NULL;
  RlxNode *node, *reversed;
  gsize n_outputs;

  if (rlx_test_device () == NULL)
    return;

  node = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, shape, 2, &error);
  reversed = rlx_node_reverse (rlx_node_transpose (rlx_node_reverse (node, axes, 2, &error), (gint64[]) { 1, 0 }, 2, &error), one, 1, &error);
  reversed = rlx_node_transpose (reversed, (gint64[]) { 1, 0 }, 2, &error);
  rlx_graph_output (graph, "y", rlx_node_add (node, rlx_node_neg (reversed, &error), &error), &error);
  g_assert_no_error (error);
  outputs = rlx_test_run_graph (g_steal_pointer (&graph), 1, &x, &n_outputs);
  g_assert_nonnull (outputs);
  y = outputs[0];
  /* both axes, then the second one again */
  rlx_test_compare ("reverse", y, "f32[3,2]", (double[]) { 1 - 5, 2 - 6, 0, 0, 5 - 1, 6 - 2 }, 0, 0);
}

/* ---- images -------------------------------------------------------------------------------- */

/* Averages of source elements, split over a workgroup if there are many. */
static void
test_resize_antialias (void)
{
  g_autofree double *values = g_new (double, 2 * 3000);
  g_autoptr(RlxTensor) x = NULL;
  g_autoptr(RlxTensor) few = NULL;
  g_autoptr(RlxTensor) y = NULL;
  g_autoptr(RlxTensor) z = NULL;

  if (rlx_test_device () == NULL)
    return;

  for (guint i = 0; i < 3000; i++)
    {
      values[i] = i;
      values[3000 + i] = 3000.0 - i;
    }
  /* Weights that are symmetric around an inner position preserve a straight line. */
  x = rlx_test_tensor ("f32[2,3000]", values);
  y = rlx_test_run_op ("resize", 1, &x, ATTRS ("{'sizes': <[int64 5]>, 'mode': <'linear'>, 'antialias': <true>}"));
  g_assert_cmpfloat_with_epsilon (rlx_tensor_get_value (y, 2), 1499.5, 0.05);
  g_assert_cmpfloat_with_epsilon (rlx_tensor_get_value (y, 1), 899.5, 0.05);
  g_assert_cmpfloat_with_epsilon (rlx_tensor_get_value (y, 7), 1500.5, 0.05);

  /* Weights 1 3 3 1, of which the first and the last are outside. */
  few = rlx_test_tensor ("f32[4]", (double[]) { 1, 2, 3, 8 });
  z = rlx_test_run_op ("resize", 1, &few, ATTRS ("{'sizes': <[int64 2]>, 'mode': <'linear'>, 'antialias': <true>}"));
  rlx_test_compare ("antialias", z, "f32[2]", (double[]) { (1 + 3 + 6 + 3) / 8.0, (2 + 9 + 24 + 8) / 8.0 }, 1e-6, 1e-6);
}

static void
test_resize_values (void)
{
  g_autoptr(RlxTensor) x = rlx_test_tensor ("f32[3]", (double[]) { 0, 10, 20 });
  g_autoptr(RlxTensor) bytes = rlx_test_tensor ("u8[2,3]", (double[]) { 1, 2, 3, 4, 5, 6 });
  g_autoptr(RlxTensor) inf = rlx_test_tensor ("f32[2]", (double[]) { 1, INFINITY });
  g_autoptr(RlxTensor) linear = NULL;
  g_autoptr(RlxTensor) nearest = NULL;
  g_autoptr(RlxTensor) corners = NULL;
  g_autoptr(RlxTensor) finite = NULL;

  if (rlx_test_device () == NULL)
    return;

  linear = rlx_test_run_op ("resize", 1, &x, ATTRS ("{'sizes': <[int64 7]>, 'mode': <'linear'>}"));
  rlx_test_compare ("linear", linear, "f32[7]",
                    (double[]) { 0, 10 * (4.5 / 7 - 0.5), 10 * (7.5 / 7 - 0.5), 10, 10 * (13.5 / 7 - 0.5), 10 * (16.5 / 7 - 0.5), 20 }, 0x1p-19 * 20, 0);
  nearest = rlx_test_run_op ("resize", 1, &bytes, ATTRS ("{'sizes': <[int64 3, 7]>, 'coordinates': <'asymmetric'>, 'rounding': <'floor'>}"));
  rlx_test_compare ("nearest", nearest, "u8[3,7]", (double[]) { 1, 1, 1, 2, 2, 3, 3, 1, 1, 1, 2, 2, 3, 3, 4, 4, 4, 5, 5, 6, 6 }, 0, 0);
  corners = rlx_test_run_op ("resize", 1, &x, ATTRS ("{'sizes': <[int64 5]>, 'mode': <'linear'>, 'coordinates': <'align-corners'>}"));
  rlx_test_compare ("corners", corners, "f32[5]", (double[]) { 0, 5, 10, 15, 20 }, 0x1p-19 * 20, 0);
  /* elements with a weight of zero are left out */
  finite = rlx_test_run_op ("resize", 1, &inf, ATTRS ("{'sizes': <[int64 3]>, 'mode': <'linear'>, 'coordinates': <'align-corners'>}"));
  rlx_test_compare ("infinity", finite, "f32[3]", (double[]) { 1, INFINITY, INFINITY }, 0, 0);
}

static void
test_grid_sample_values (void)
{
  g_autoptr(RlxTensor) x = rlx_test_tensor ("f32[1,1,2,2]", (double[]) { 1, 2, 3, 4 });
  g_autoptr(RlxTensor) grid = rlx_test_tensor ("f32[1,1,5,2]", (double[]) { 0, 0, -0.5, -0.5, NAN, 0, 1e30, -1e30, 3, -0.5 });
  g_autoptr(RlxTensor) zeros = NULL;
  g_autoptr(RlxTensor) border = NULL;
  g_autoptr(RlxTensor) mirrored = NULL;
  g_autofree double *values = NULL;

  if (rlx_test_device () == NULL)
    return;

  zeros = rlx_test_run_op ("grid_sample", 2, (RlxTensor *[]) { x, grid }, NULL);
  rlx_test_compare ("zeros", zeros, "f32[1,1,1,5]", (double[]) { 2.5, 1, 0, 0, 0 }, 0x1p-20 * 16, 0);
  border = rlx_test_run_op ("grid_sample", 2, (RlxTensor *[]) { x, grid }, ATTRS ("{'padding': <'border'>}"));
  rlx_test_compare ("border", border, "f32[1,1,1,5]", (double[]) { 2.5, 1, 2, 2, 2 }, 0x1p-20 * 16, 0);
  /* It is not defined where the far ones end up, but it is inside the image; the last one
   * is 4, mirrored at 1.5 and at -0.5. */
  mirrored = rlx_test_run_op ("grid_sample", 2, (RlxTensor *[]) { x, grid }, ATTRS ("{'padding': <'reflection'>, 'mode': <'nearest'>}"));
  g_assert_nonnull (mirrored);
  values = rlx_test_get_values (mirrored);
  g_assert_cmpfloat (values[0], ==, 1);
  g_assert_cmpfloat (values[1], ==, 1);
  for (guint i = 2; i < 4; i++)
    g_assert_true (values[i] >= 1 && values[i] <= 4);
  g_assert_cmpfloat (values[4], ==, 1);
}

/* ---- shapes and errors ----------------------------------------------------------------------- */

static void
test_shapes (void)
{
  rlx_test_infers ("tile", "f32[2,0,3]", ATTRS ("{'repetitions': <[int64 2, 9, 0]>}"), "f32[4,0,0]");
  rlx_test_infers ("pad", "i8[4,2]", ATTRS ("{'before': <[int64 -1, 3]>, 'after': <[int64 -3, 0]>}"), "i8[0,5]");
  rlx_test_infers ("squeeze", "f32[1,2,1]", NULL, "f32[2]");
  rlx_test_infers ("squeeze", "f32[1,2,1]", ATTRS ("{'axes': <[int64 -1]>}"), "f32[1,2]");
  rlx_test_infers ("unsqueeze", "f32[2]", ATTRS ("{'axes': <[int64 -1, 0]>}"), "f32[1,2,1]");
  rlx_test_infers ("depth_to_space", "f32[1,8,2,3]", ATTRS ("{'block': <int64 2>}"), "f32[1,2,4,6]");
  rlx_test_infers ("space_to_depth", "f32[1,2,4,6]", ATTRS ("{'block': <int64 2>}"), "f32[1,8,2,3]");
  rlx_test_infers ("gather_nd", "f32[2,3,4] i32[2,5,1]", ATTRS ("{'batch_dims': <int64 1>}"), "f32[2,5,4]");
  rlx_test_infers ("gather_nd", "f32[2,3] i32[5,0]", NULL, "f32[5,2,3]");
  rlx_test_infers ("one_hot", "i32[2,3] u8[2]", ATTRS ("{'depth': <int64 7>, 'axis': <int64 1>}"), "u8[2,7,3]");
  rlx_test_infers ("resize", "f32[1,3,4,5]", ATTRS ("{'sizes': <[int64 8, 9]>}"), "f32[1,3,8,9]");
  rlx_test_infers ("resize", "f32[0,3]", ATTRS ("{'sizes': <[int64 0, 9]>}"), "f32[0,9]");
  rlx_test_infers ("grid_sample", "f32[2,3,4,5] f16[2,7,8,2]", NULL, "f32[2,3,7,8]");
}

static void
test_errors (void)
{
  rlx_test_refuses ("split", "f32[6]", ATTRS ("{'axis': <int64 0>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "no sizes");
  rlx_test_refuses ("split", "f32[6]", ATTRS ("{'axis': <int64 1>, 'parts': <int64 2>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, NULL);
  rlx_test_refuses ("split", "f32[6]", ATTRS ("{'axis': <int64 0>, 'parts': <int64 4>}"), RLX_GRAPH_ERROR_SHAPE, "equal parts");
  rlx_test_refuses ("split", "f32[6]", ATTRS ("{'axis': <int64 0>, 'parts': <int64 2>, 'sizes': <[int64 6]>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "both");
  rlx_test_refuses ("split", "f32[6]", ATTRS ("{'axis': <int64 0>, 'sizes': <[int64 2, 3]>}"), RLX_GRAPH_ERROR_SHAPE, "5");
  rlx_test_refuses ("split", "f32[6]", ATTRS ("{'axis': <int64 0>, 'sizes': <[int64 9223372036854775807, 9223372036854775807]>}"), RLX_GRAPH_ERROR_SHAPE, "more");
  rlx_test_refuses ("split", "f32[6]", ATTRS ("{'axis': <int64 0>, 'sizes': <[int64 7, -1]>}"), RLX_GRAPH_ERROR_SHAPE, NULL);
  rlx_test_refuses ("split", "f32[1000000]", ATTRS ("{'axis': <int64 0>, 'parts': <int64 1000000>}"), RLX_GRAPH_ERROR_LIMIT, "65536");

  rlx_test_refuses ("tile", "f32[2]", ATTRS ("{'repetitions': <[int64 -1]>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "-1");
  rlx_test_refuses ("tile", "f32[2]", ATTRS ("{'repetitions': <[int64 1, 1]>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, NULL);
  rlx_test_refuses ("tile", "f32[100,100]", ATTRS ("{'repetitions': <[int64 100000, 100000]>}"), RLX_GRAPH_ERROR_LIMIT, NULL);
  rlx_test_refuses ("tile", "f32[2]", ATTRS ("{'repetitions': <[int64 9223372036854775807]>}"), RLX_GRAPH_ERROR_LIMIT, NULL);

  rlx_test_refuses ("pad", "f32[3]", ATTRS ("{'before': <[int64 -2]>, 'after': <[int64 -2]>}"), RLX_GRAPH_ERROR_SHAPE, "taken");
  rlx_test_refuses ("pad", "f32[3]", ATTRS ("{'before': <[int64 -9223372036854775807]>, 'after': <[int64 9]>}"), RLX_GRAPH_ERROR_SHAPE, NULL);
  rlx_test_refuses ("pad", "f32[3]", ATTRS ("{'before': <[int64 9223372036854775807]>, 'after': <[int64 9]>}"), RLX_GRAPH_ERROR_LIMIT, NULL);
  rlx_test_refuses ("pad", "f32[3,3]", ATTRS ("{'before': <[int64 4000000000, 0]>, 'after': <[int64 4000000000, 4000000000]>}"), RLX_GRAPH_ERROR_LIMIT, NULL);
  rlx_test_refuses ("pad", "f32[0]", ATTRS ("{'before': <[int64 1]>, 'after': <[int64 0]>, 'mode': <'edge'>}"), RLX_GRAPH_ERROR_SHAPE, "none");
  rlx_test_refuses ("pad", "f32[2]", ATTRS ("{'before': <[int64 -2]>, 'after': <[int64 1]>, 'mode': <'reflect'>}"), RLX_GRAPH_ERROR_SHAPE, "none");
  rlx_test_refuses ("pad", "f32[3] f32[2]", ATTRS ("{'before': <[int64 1]>, 'after': <[int64 0]>}"), RLX_GRAPH_ERROR_SHAPE, "one element");
  rlx_test_refuses ("pad", "f32[3] i32[]", ATTRS ("{'before': <[int64 1]>, 'after': <[int64 0]>}"), RLX_GRAPH_ERROR_DATA_TYPE, NULL);
  rlx_test_refuses ("pad", "f32[3]", ATTRS ("{'before': <[int64 1]>, 'after': <[int64 0]>, 'mode': <'mirror'>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, NULL);

  rlx_test_refuses ("reverse", "f32[3,3]", ATTRS ("{'axes': <[int64 0, -2]>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "twice");
  rlx_test_refuses ("roll", "f32[3,3]", ATTRS ("{'axes': <[int64 0]>, 'shifts': <[int64 1, 1]>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, NULL);
  rlx_test_refuses ("squeeze", "f32[3,1]", ATTRS ("{'axes': <[int64 0]>}"), RLX_GRAPH_ERROR_SHAPE, "3");
  rlx_test_refuses ("unsqueeze", "f32[1,1,1,1,1,1,1]", ATTRS ("{'axes': <[int64 0, 1]>}"), RLX_GRAPH_ERROR_LIMIT, "8");
  rlx_test_refuses ("triangular", "f32[3]", NULL, RLX_GRAPH_ERROR_SHAPE, "matrix");
  rlx_test_refuses ("depth_to_space", "f32[1,6,2,2]", ATTRS ("{'block': <int64 2>}"), RLX_GRAPH_ERROR_SHAPE, "6");
  rlx_test_refuses ("depth_to_space", "f32[1,4,2,2]", ATTRS ("{'block': <int64 0>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "0");
  rlx_test_refuses ("depth_to_space", "f32[1,4,2,2]", ATTRS ("{'block': <int64 9223372036854775807>}"), RLX_GRAPH_ERROR_LIMIT, NULL);
  rlx_test_refuses ("space_to_depth", "f32[1,4,2,3]", ATTRS ("{'block': <int64 2>}"), RLX_GRAPH_ERROR_SHAPE, "3");

  rlx_test_refuses ("gather_elements", "f32[2,3] i32[3,3]", ATTRS ("{'axis': <int64 1>}"), RLX_GRAPH_ERROR_SHAPE, NULL);
  rlx_test_refuses ("gather_elements", "f32[2,0] i32[2,1]", ATTRS ("{'axis': <int64 1>}"), RLX_GRAPH_ERROR_SHAPE, "0");
  rlx_test_refuses ("gather_elements", "f32[2] f32[2]", ATTRS ("{'axis': <int64 0>}"), RLX_GRAPH_ERROR_DATA_TYPE, NULL);
  rlx_test_refuses ("gather_nd", "f32[2,3] i32[2,3]", NULL, RLX_GRAPH_ERROR_SHAPE, "3");
  rlx_test_refuses ("gather_nd", "f32[2,3] i32[3,1]", ATTRS ("{'batch_dims': <int64 1>}"), RLX_GRAPH_ERROR_SHAPE, NULL);
  rlx_test_refuses ("gather_nd", "f32[2,3] i32[2,1]", ATTRS ("{'batch_dims': <int64 -1>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, NULL);
  rlx_test_refuses ("gather_nd", "f32[1,1,1,1,1,1] i32[1,1,1,1,1]", NULL, RLX_GRAPH_ERROR_LIMIT, "9");
  rlx_test_refuses ("one_hot", "i32[2] f32[3]", ATTRS ("{'depth': <int64 4>}"), RLX_GRAPH_ERROR_SHAPE, "two");
  rlx_test_refuses ("one_hot", "i32[2] f32[2]", ATTRS ("{'depth': <int64 -4>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "-4");
  rlx_test_refuses ("one_hot", "i32[100000] f32[2]", ATTRS ("{'depth': <int64 100000>}"), RLX_GRAPH_ERROR_LIMIT, NULL);
  rlx_test_refuses ("one_hot", "i32[2] f32[2]", ATTRS ("{'depth': <int64 9223372036854775807>}"), RLX_GRAPH_ERROR_LIMIT, NULL);
  rlx_test_refuses ("scatter_elements", "f32[3] i32[2] f32[3]", ATTRS ("{'axis': <int64 0>}"), RLX_GRAPH_ERROR_SHAPE, "updates");
  rlx_test_refuses ("scatter_elements", "f32[3] i32[2] f16[2]", ATTRS ("{'axis': <int64 0>}"), RLX_GRAPH_ERROR_DATA_TYPE, NULL);
  rlx_test_refuses ("scatter_elements", "bool[3] i32[2] bool[2]", ATTRS ("{'axis': <int64 0>, 'mode': <'add'>}"), RLX_GRAPH_ERROR_DATA_TYPE, "bool");
  rlx_test_refuses ("scatter_nd", "f32[3,2] i32[4,1] f32[4]", NULL, RLX_GRAPH_ERROR_SHAPE, "[4, 2]");
  rlx_test_refuses ("scatter_nd", "f32[] i32[4,1] f32[4]", NULL, RLX_GRAPH_ERROR_SHAPE, NULL);

  rlx_test_refuses ("resize", "i32[3]", ATTRS ("{'sizes': <[int64 4]>, 'mode': <'linear'>}"), RLX_GRAPH_ERROR_DATA_TYPE, "i32");
  rlx_test_refuses ("resize", "f32[3]", ATTRS ("{'sizes': <[int64 4, 4]>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, NULL);
  rlx_test_refuses ("resize", "f32[3,3]", ATTRS ("{'sizes': <[int64 4, 4]>, 'axes': <[int64 0, 0]>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "twice");
  rlx_test_refuses ("resize", "f32[3]", ATTRS ("{'sizes': <[int64 -4]>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "-4");
  rlx_test_refuses ("resize", "f32[0]", ATTRS ("{'sizes': <[int64 4]>}"), RLX_GRAPH_ERROR_SHAPE, "0");
  rlx_test_refuses ("resize", "f32[3,3]", ATTRS ("{'sizes': <[int64 100000, 100000]>}"), RLX_GRAPH_ERROR_LIMIT, NULL);
  rlx_test_refuses ("resize", "f32[3] f32[2]", ATTRS ("{'sizes': <[int64 4]>}"), RLX_GRAPH_ERROR_SHAPE, "scales");
  rlx_test_refuses ("resize", "f32[3]", ATTRS ("{'sizes': <[int64 4]>, 'coordinates': <'tf-crop-and-resize'>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "region");
  rlx_test_refuses ("grid_sample", "f32[1,1,2,2] f32[2,1,1,2]", NULL, RLX_GRAPH_ERROR_SHAPE, "grid");
  rlx_test_refuses ("grid_sample", "f32[1,1,2,2,2] f32[1,1,1,1,3]", ATTRS ("{'mode': <'cubic'>}"), RLX_GRAPH_ERROR_UNSUPPORTED, "planes");
  rlx_test_refuses ("grid_sample", "f32[1,1,0,2] f32[1,1,1,2]", NULL, RLX_GRAPH_ERROR_SHAPE, "0");
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/index/shapes", test_shapes);
  g_test_add_func ("/index/errors", test_errors);
  rlx_test_add_kernels ("/index/scatter/collisions", test_scatter_collisions);
  g_test_add_func ("/index/scatter/elements", test_scatter_elements);
  g_test_add_func ("/index/scatter/nan", test_scatter_nan);
  g_test_add_func ("/index/write-at", test_write_at);
  g_test_add_func ("/index/gather/limits", test_gather_limits);
  g_test_add_func ("/index/pad/values", test_pad_values);
  g_test_add_func ("/index/split/results", test_split_results);
  g_test_add_func ("/index/reverse/view", test_reverse_view);
  g_test_add_func ("/index/resize/values", test_resize_values);
  g_test_add_func ("/index/resize/antialias", test_resize_antialias);
  g_test_add_func ("/index/grid-sample/values", test_grid_sample_values);

  return g_test_run ();
}
