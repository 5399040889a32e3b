/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Reduced precision: which weights may be rounded to f16, that the products are
 * within their bounds when they are, and that nothing is rounded that may not.
 *
 * With RLX_DEBUG=target=navi31 lavapipe's matrix units are used; without, or without
 * f16 or the feature, the same graphs give full precision.
 */
#include "config.h"

#include <math.h>
#include <string.h>

#include "ops/rlx-product-private.h"
#include "plan/rlx-plan-private.h"
#include "rlx-device-private.h"
#include "rlx-graph-private.h"
#include "rlx-reference.h"
#include "rlx-test-util.h"
#include "rlx-trial-private.h"
#include "util/rlx-debug-private.h"
#include "util/rlx-half-private.h"

#define MATRIX "matmul-matrix"

/* Whether this device supports reduced products. lavapipe has f16 only. */
static gboolean
expect_matrix (RlxDevice *device)
{
  RlxDeviceFeatures needed = RLX_DEVICE_FEATURES_SUBGROUP_MATRIX | RLX_DEVICE_FEATURES_F16;

  return rlx_gpu_get_info (rlx_device_get_gpu (device))->target.matrices_are_fast && (rlx_device_get_features (device) & needed) == needed;
}

static guint
count_kernel (RlxExecutable *executable,
              const char    *kernel)
{
  g_autoptr(GVariant) plan = rlx_executable_dup_plan (executable);
  g_autoptr(GVariant) kernels = g_variant_lookup_value (plan, "kernels", NULL);
  guint n = 0;

  g_variant_lookup (kernels, kernel, "u", &n);
  return n;
}

/* ---- the property --------------------------------------------------------------------- */

static RlxGraph *
parse (const char *text)
{
  g_autoptr(GError) error = NULL;
  RlxGraph *graph = rlx_graph_new_from_text (text, &error);

  g_assert_no_error (error);
  return graph;
}

static void
test_options (void)
{
  g_autoptr(RlxGraph) graph = parse ("rlx 1\nprecision reduced\n%0 = input \"x\" f32[2]\noutput \"y\" %0\n");
  g_autoptr(RlxGraph) plain = rlx_graph_new ();
  g_autoptr(RlxCompileOptions) options = rlx_compile_options_new ();
  g_autoptr(GError) error = NULL;
  RlxPrecision precision;
  guint n_notified = 0;

  g_assert_cmpint (rlx_graph_get_precision (plain), ==, RLX_PRECISION_FULL);
  g_assert_cmpint (rlx_graph_get_precision (graph), ==, RLX_PRECISION_REDUCED);
  g_assert_cmpint (rlx_compile_options_get_precision (options), ==, RLX_PRECISION_DEFAULT);
  g_signal_connect_swapped (options, "notify::precision", G_CALLBACK (g_atomic_int_inc), &n_notified);
  rlx_compile_options_set_precision (options, RLX_PRECISION_DEFAULT);
  g_assert_cmpuint (n_notified, ==, 0);
  rlx_compile_options_set_precision (options, RLX_PRECISION_REDUCED);
  g_assert_cmpuint (n_notified, ==, 1);
  g_object_get (options, "precision", &precision, NULL);
  g_assert_cmpint (precision, ==, RLX_PRECISION_REDUCED);

  if (rlx_test_device () == NULL)
    return;
  rlx_compile_options_set_precision (options, 7);
  g_assert_null (rlx_device_compile (rlx_test_device (), graph, options, NULL, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT);
  g_assert_nonnull (strstr (error->message, "7"));
  g_clear_error (&error);
  rlx_compile_options_set_precision (options, RLX_PRECISION_DEFAULT);
  rlx_compile_options_set_timeout (options, NAN);
  g_assert_null (rlx_device_compile (rlx_test_device (), graph, options, NULL, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT);
}

static void
test_text (void)
{
  static const char *const hostile[] = {
    "precision", "precision 1", "precision half", "precision int", "precision integer full", "precision reducedx", "precision \"reduced\"", "precision reduced full",
    "precision reduced\nprecision reduced", "precision full\nprecision reduced", "precision %0", "precision _",
  };
  g_autoptr(RlxGraph) graph = parse ("rlx 1\n%0 = input \"x\" f32[2]\noutput \"y\" %0\nprecision reduced # anywhere\n");
  g_autoptr(RlxGraph) full = parse ("rlx 1\nprecision full\n%0 = input \"x\" f32[2]\n");
  g_autoptr(RlxGraph) integer = parse ("rlx 1\nprecision integer\n%0 = input \"x\" f32[2]\n");
  g_autofree char *text = rlx_graph_to_text (graph), *full_text = rlx_graph_to_text (full), *again_text = NULL;
  g_autofree char *integer_text = rlx_graph_to_text (integer);
  g_autoptr(RlxGraph) again = parse (text);

  g_assert_cmpint (rlx_graph_get_precision (again), ==, RLX_PRECISION_REDUCED);
  again_text = rlx_graph_to_text (again);
  g_assert_cmpstr (text, ==, again_text);
  g_assert_cmpint (rlx_graph_get_precision (integer), ==, RLX_PRECISION_INTEGER);
  g_assert_nonnull (strstr (integer_text, "precision integer\n"));
  g_assert_cmpint (rlx_graph_get_precision (full), ==, RLX_PRECISION_FULL);
  g_assert_null (strstr (full_text, "precision"));

  for (guint i = 0; i < G_N_ELEMENTS (hostile); i++)
    {
      g_autofree char *bad = g_strconcat ("rlx 1\n", hostile[i], "\n", NULL);
      g_autoptr(GError) error = NULL;

      g_assert_null (rlx_graph_new_from_text (bad, &error));
      g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_PARSE);
      g_assert_nonnull (strchr (error->message, ':'));
    }
}

/* ---- the decision --------------------------------------------------------------------- */

static double
draw_normal (GRand *rand)
{
  return sqrt (-2.0 * log (g_rand_double_range (rand, 1e-9, 1.0))) * cos (2.0 * G_PI * g_rand_double (rand));
}

typedef double (*Fill) (guint64 k, guint64 n, guint64 n_k, guint64 n_n, GRand *rand);

static double fill_normal (guint64 k, guint64 n, guint64 n_k, guint64 n_n, GRand *r) { return 0.02 * draw_normal (r); }
static double fill_uniform (guint64 k, guint64 n, guint64 n_k, guint64 n_n, GRand *r) { return g_rand_double_range (r, -1, 1); }
static double fill_positive (guint64 k, guint64 n, guint64 n_k, guint64 n_n, GRand *r) { return g_rand_double (r); }
static double fill_average (guint64 k, guint64 n, guint64 n_k, guint64 n_n, GRand *r) { return 1.0 / (double) n_k; }
static double fill_zeros (guint64 k, guint64 n, guint64 n_k, guint64 n_n, GRand *r) { return k % 2 ? -0.0 : 0.0; }
static double fill_identity (guint64 k, guint64 n, guint64 n_k, guint64 n_n, GRand *r) { return k == n % n_k; }
static double fill_sparse (guint64 k, guint64 n, guint64 n_k, guint64 n_n, GRand *r)
{
  return g_rand_int_range (r, 0, 8) == 0 && n % 3 != 0 ? draw_normal (r) : 0.0;
}
static double fill_few_small (guint64 k, guint64 n, guint64 n_k, guint64 n_n, GRand *r) { return k % 8 ? draw_normal (r) : 1e-5; }
static double fill_largest (guint64 k, guint64 n, guint64 n_k, guint64 n_n, GRand *r) { return draw_normal (r) > 0 ? 65504 : -60000; }
static double fill_nan (guint64 k, guint64 n, guint64 n_k, guint64 n_n, GRand *r) { return k == 3 && n == 5 ? NAN : draw_normal (r); }
static double fill_infinite (guint64 k, guint64 n, guint64 n_k, guint64 n_n, GRand *r)
{
  return k == n_k - 1 && n == n_n - 1 ? -INFINITY : draw_normal (r);
}
static double fill_huge (guint64 k, guint64 n, guint64 n_k, guint64 n_n, GRand *r) { return k == 0 && n == 0 ? 1e30 : draw_normal (r); }
static double fill_beyond (guint64 k, guint64 n, guint64 n_k, guint64 n_n, GRand *r) { return k + n == 9 ? 65505 : draw_normal (r); }
static double fill_small (guint64 k, guint64 n, guint64 n_k, guint64 n_n, GRand *r) { return 1e-6 * draw_normal (r); }
/* one column in a hundred is enough */
static double fill_one_small (guint64 k, guint64 n, guint64 n_k, guint64 n_n, GRand *r) { return (n == 40 ? 1e-4 : 1.0) * draw_normal (r); }
static double fill_differences (guint64 k, guint64 n, guint64 n_k, guint64 n_n, GRand *r)
{
  return k == n % n_k ? 1.0 : k == (n + 1) % n_k ? -1.0 : 0.0;
}
static double fill_laplacian (guint64 k, guint64 n, guint64 n_k, guint64 n_n, GRand *r)
{
  return k == n % n_k ? -2.0 : k == (n + 1) % n_k || k == (n + n_k - 1) % n_k ? 1.0 : 0.0;
}
static double fill_fourier (guint64 k, guint64 n, guint64 n_k, guint64 n_n, GRand *r)
{
  return n % 2 ? sin (2.0 * G_PI * (double) (k * (n / 2)) / (double) n_k) : cos (2.0 * G_PI * (double) (k * (n / 2)) / (double) n_k);
}
static double fill_cosine (guint64 k, guint64 n, guint64 n_k, guint64 n_n, GRand *r)
{
  return cos (G_PI * ((double) k + 0.5) * (double) n / (double) n_k);
}
/* waves truncated anywhere: they do not sum to zero, but do oscillate */
static double fill_waves (guint64 k, guint64 n, guint64 n_k, guint64 n_n, GRand *r)
{
  return sin (0.05 + ((double) n + 0.37) * 0.11 * (double) k) + 0.05;
}
static double fill_alternating (guint64 k, guint64 n, guint64 n_k, guint64 n_n, GRand *r)
{
  return (k % 2 ? -1.0 : 1.0) * (1.0 + 0.3 * fabs (draw_normal (r))) + 0.15;
}
static double fill_haar (guint64 k, guint64 n, guint64 n_k, guint64 n_n, GRand *r) { return k < n_k / 2 ? 1.0 : -1.0; }

static void
test_decision (void)
{
  static const struct
  {
    const char *name;
    Fill fill;
    guint64 n_k, n_n;
    gboolean fits;
    const char *word;     /* a word of the reason */
  } rows[] = {
    { "normal", fill_normal, 384, 384, TRUE, NULL },
    { "normal, short", fill_normal, 32, 100, TRUE, NULL },
    { "normal, long", fill_normal, 4096, 64, TRUE, NULL },
    { "uniform", fill_uniform, 256, 512, TRUE, NULL },
    { "positive", fill_positive, 256, 100, TRUE, NULL },
    { "average", fill_average, 768, 32, TRUE, NULL },
    { "zeros", fill_zeros, 64, 64, TRUE, NULL },
    { "identity", fill_identity, 128, 128, TRUE, NULL },
    { "sparse", fill_sparse, 512, 200, TRUE, NULL },
    { "a few small ones", fill_few_small, 256, 64, TRUE, NULL },
    { "the largest", fill_largest, 200, 100, TRUE, NULL },
    { "no columns", fill_normal, 64, 0, TRUE, NULL },
    { "nan", fill_nan, 64, 64, FALSE, "nan" },
    { "infinite", fill_infinite, 64, 64, FALSE, "inf" },
    { "huge", fill_huge, 64, 64, FALSE, "1e+30" },
    { "beyond", fill_beyond, 64, 64, FALSE, "65505" },
    { "small", fill_small, 64, 64, FALSE, "lose" },
    { "one small column", fill_one_small, 64, 100, FALSE, "column 40" },
    { "differences", fill_differences, 128, 128, FALSE, "cancel" },
    { "laplacian", fill_laplacian, 64, 64, FALSE, "cancel" },
    { "fourier", fill_fourier, 128, 128, FALSE, "cancel" },
    { "fourier, short", fill_fourier, 32, 32, FALSE, "cancel" },
    { "cosine", fill_cosine, 256, 64, FALSE, "cancel" },
    { "haar", fill_haar, 64, 32, FALSE, "cancel" },
    { "waves", fill_waves, 200, 20, FALSE, "oscillate" },
    { "alternating", fill_alternating, 257, 32, FALSE, "oscillate" },
    { "one column", fill_haar, 64, 1, FALSE, "cancel" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      guint64 n_k = rows[i].n_k, n_n = rows[i].n_n, n = n_k * n_n;
      g_autofree float *data = g_new0 (float, 3 * n + 1);
      g_autofree float *turned = g_new0 (float, n + 1);
      g_autoptr(GRand) rand = g_rand_new_with_seed (42);
      RlxF16Weight weight = { .n_k = n_k, .n_n = n_n, .stride_k = n_n, .stride_n = 1 };
      RlxF16Weight other = { .n_k = n_k, .n_n = n_n, .stride_k = 1, .stride_n = n_k };

      /* first two harmless matrices, for a stack */
      for (guint64 j = 0; j < 2 * n; j++)
        data[j] = (float) draw_normal (rand);
      for (guint64 k = 0; k < n_k; k++)
        for (guint64 j = 0; j < n_n; j++)
          turned[j * n_k + k] = data[2 * n + k * n_n + j] = (float) rows[i].fill (k, j, n_k, n_n, rand);

      for (guint way = 0; way < 3; way++)
        {
          g_autofree char *reason = NULL;
          gboolean got = way == 0 ? rlx_f16_weight_check (&weight, data + 2 * n, n, &reason)
                         : way == 1 ? rlx_f16_weight_check (&other, turned, n, &reason)
                                    : rlx_f16_weight_check (&weight, data, 3 * n, &reason);

          g_test_message ("%s, way %u: %s", rows[i].name, way, reason ? reason : "yes");
          g_assert_cmpint (got, ==, rows[i].fits);
          g_assert_cmpint (reason == NULL, ==, got);
          if (rows[i].word != NULL)
            g_assert_nonnull (strstr (reason, rows[i].word));
        }
    }
}

/* ---- products ------------------------------------------------------------------------- */

typedef enum
{
  AS_PARAMETERS,
  AS_CONSTANTS,
} Weights;

/* Numbers in [-1, 1], without any that a unit might flush. */
static RlxTensor *
make_tensor (RlxNode *node,
             GRand   *rand)
{
  gsize n_dims, n = 1;
  const gint64 *shape = rlx_node_get_shape (node, &n_dims);
  g_autofree float *values = NULL;
  g_autofree guint16 *halves = NULL;
  RlxTensor *tensor;

  for (gsize i = 0; i < n_dims; i++)
    n *= (gsize) shape[i];
  values = g_new (float, n);
  halves = g_new (guint16, n);
  for (gsize i = 0; i < n; i++)
    {
      values[i] = (float) g_rand_double_range (rand, -1, 1);
      if (fabsf (values[i]) < 0x1p-13f)
        values[i] = 0.0f;
      halves[i] = rlx_half_from_float (values[i]);
    }
  if (rlx_node_get_data_type (node) == RLX_DATA_TYPE_F16)
    tensor = rlx_tensor_new_from_data (RLX_DATA_TYPE_F16, shape, n_dims, (const guint8 *) halves, 2 * n, NULL);
  else
    tensor = rlx_tensor_new_from_floats (shape, n_dims, values, n, NULL);
  return tensor;
}

/* How a product rounds an operand of f32. */
static RlxTensor *
round_tensor (RlxTensor *tensor)
{
  gsize n_dims, n;
  const gint64 *shape = rlx_tensor_get_shape (tensor, &n_dims);
  g_autofree float *values = rlx_tensor_to_floats (tensor, &n, NULL);

  if (rlx_tensor_get_data_type (tensor) != RLX_DATA_TYPE_F32)
    return g_object_ref (tensor);
  for (gsize i = 0; i < n; i++)
    values[i] = rlx_half_to_float (rlx_half_from_float (values[i]));
  return rlx_tensor_new_from_floats (shape, n_dims, values, n, NULL);
}

/* The graph with its parameters turned into constants. */
static char *
freeze_parameters (const char       *text,
                   const char *const *names,
                   RlxTensor *const *values,
                   gsize             n)
{
  g_autoptr(GString) out = g_string_new (text);

  for (gsize i = 0; i < n; i++)
    {
      g_autofree char *from = g_strdup_printf ("parameter \"%s\" ", names[i]);
      gsize size;
      gconstpointer data = g_bytes_get_data (rlx_tensor_get_bytes (values[i]), &size);
      g_autofree char *base64 = g_base64_encode (data, size);
      char *at, *end;

      g_string_replace (out, from, "constant ", 1);
      at = out->str;
      /* the first constant that has no data yet */
      while ((at = strstr (at, "constant ")) != NULL && strncmp (strchr (at, ']'), "] base64", 8) == 0)
        at++;
      end = strchr (at, ']') + 1;
      {
        g_autofree char *insert = g_strdup_printf (" base64:\"%s\"", base64);

        g_string_insert (out, end - out->str, insert);
      }
    }
  return g_string_free (g_steal_pointer (&out), FALSE);
}

static void
check_outputs (const char      *what,
               RlxTensor      **outputs,
               gsize            n_outputs,
               const GPtrArray *expected)
{
  g_assert_cmpuint (n_outputs, ==, expected->len);
  for (gsize i = 0; i < n_outputs; i++)
    {
      RlxReferenceCheck check;

      if (!rlx_reference_value_check (g_ptr_array_index (expected, i), outputs[i], &check))
        {
          g_test_message ("%s: output %" G_GSIZE_FORMAT " has %" G_GSIZE_FORMAT " wrong, first %" G_GSIZE_FORMAT ": %g instead of %g ± %g",
                          what, i, check.n_wrong, check.first_wrong, check.got, check.expected, check.bound);
          g_test_fail ();
        }
      g_assert_cmpuint (check.n_unknown, ==, 0);
      if (g_getenv ("RLX_TEST_RATIOS") != NULL)
        g_test_message ("%s: output %" G_GSIZE_FORMAT ", %.3f of the bound", what, i, check.max_ratio);
      g_object_unref (outputs[i]);
    }
}

/* @n_matrix of the products can be reduced. Compares with the graph itself, with the
 * bound for rounded operands; or (@rounded) with the graph whose product operands, “x”
 * and “w”, were rounded before, with the bound of full precision. */
static void
check_products (const char *name,
                const char *body,
                guint       n_matrix,
                Weights     weights,
                gboolean    rounded)
{
  RlxDevice *device = rlx_test_device ();
  g_autofree char *text = g_strconcat ("rlx 1\nprecision reduced\n", body, NULL), *frozen = NULL;
  g_autofree char *what = g_strdup_printf ("%s, %s, %s", name, weights == AS_CONSTANTS ? "constants" : "parameters",
                                           rounded ? "rounded" : "as they are");
  g_autoptr(RlxGraph) graph = parse (text);
  g_autoptr(RlxGraph) to_run = NULL;
  g_autoptr(GPtrArray) inputs = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr(GPtrArray) values = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr(GPtrArray) seen_inputs = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr(GPtrArray) seen_values = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr(GPtrArray) names = g_ptr_array_new ();
  g_autoptr(GPtrArray) expected = NULL;
  g_autoptr(GRand) rand = g_rand_new_with_seed (7);
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree RlxTensor **outputs = NULL;
  gsize n_outputs;

  for (guint i = 0; i < g_list_model_get_n_items (G_LIST_MODEL (graph)); i++)
    {
      g_autoptr(RlxNode) node = g_list_model_get_item (G_LIST_MODEL (graph), i);
      gboolean is_input = g_str_equal (rlx_node_get_op (node), "input");
      const char *its_name = rlx_node_get_name (node);
      RlxTensor *tensor;

      if (!is_input && !g_str_equal (rlx_node_get_op (node), "parameter"))
        continue;
      tensor = make_tensor (node, rand);
      g_ptr_array_add (is_input ? inputs : values, tensor);
      g_ptr_array_add (is_input ? seen_inputs : seen_values,
                       rounded && n_matrix > 0 && expect_matrix (device) && (g_str_equal (its_name, "x") || g_str_equal (its_name, "w"))
                       ? round_tensor (tensor) : g_object_ref (tensor));
      if (!is_input)
        g_ptr_array_add (names, (gpointer) its_name);
    }
  g_ptr_array_add (names, NULL);
  expected = rlx_reference_run (graph, (RlxTensor **) seen_inputs->pdata, seen_inputs->len, (const char *const *) names->pdata,
                                (RlxTensor **) seen_values->pdata, seen_values->len,
                                rounded ? RLX_REFERENCE_NONE : RLX_REFERENCE_NARROW, &error);
  g_assert_no_error (error);

  if (weights == AS_CONSTANTS)
    {
      frozen = freeze_parameters (text, (const char *const *) names->pdata, (RlxTensor **) values->pdata, values->len);
      to_run = parse (frozen);
    }
  else
    to_run = g_object_ref (graph);
  executable = rlx_device_compile (device, to_run, NULL, NULL, &error);
  g_assert_no_error (error);
  if (weights == AS_PARAMETERS)
    {
      rlx_executable_set_parameters (executable, (const char *const *) names->pdata, (RlxTensor **) values->pdata, values->len, NULL, &error);
      g_assert_no_error (error);
    }
  g_test_message ("%s: %u of %u dispatches", what, count_kernel (executable, MATRIX), rlx_executable_get_n_dispatches (executable));
  g_assert_cmpuint (count_kernel (executable, MATRIX), ==, expect_matrix (device) ? n_matrix : 0);
  outputs = rlx_executable_run (executable, (RlxTensor **) inputs->pdata, inputs->len, &n_outputs, NULL, &error);
  g_assert_no_error (error);
  check_outputs (what, outputs, n_outputs, expected);
}

#define LAYER(shape, k, n, attrs) \
  "%0 = input \"x\" f32[" shape ", " #k "]\n" \
  "%1 = parameter \"w\" f32[" #k ", " #n "]\n" \
  "%2 = parameter \"b\" f32[" #n "]\n" \
  "%3 = linear(%0, %1, %2)" attrs "\n" \
  "output \"y\" %3\n"
#define PRODUCT(t, a, b, attrs) \
  "%0 = input \"x\" " t "[" a "]\n" \
  "%1 = parameter \"w\" " t "[" b "]\n" \
  "%2 = matmul(%0, %1)" attrs "\n" \
  "output \"y\" %2\n"

static const struct
{
  const char *name;
  const char *text;
  guint n_matrix;
  gboolean single;      /* a single product, of “x” and “w” */
} products[] = {
  { "a tile", PRODUCT ("f32", "32, 32", "32, 32", ""), 1, TRUE },
  { "edges", PRODUCT ("f32", "45, 61", "61, 59", ""), 1, TRUE },
  { "few rows", PRODUCT ("f32", "17, 64", "64, 62", ""), 1, TRUE },
  { "few columns", PRODUCT ("f32", "90, 33", "33, 29", ""), 1, TRUE },
  { "transposed a", PRODUCT ("f32", "64, 48", "64, 44", " {transpose_a = true}"), 1, TRUE },
  { "transposed a, edges", PRODUCT ("f32", "63, 51", "63, 43", " {transpose_a = true}"), 1, TRUE },
  { "transposed b", PRODUCT ("f32", "48, 64", "44, 64", " {transpose_b = true}"), 1, TRUE },
  { "transposed b, edges", PRODUCT ("f32", "51, 65", "43, 65", " {transpose_b = true}"), 1, TRUE },
  { "both transposed", PRODUCT ("f32", "72, 60", "92, 72", " {transpose_a = true, transpose_b = true}"), 1, TRUE },
  { "stacks", PRODUCT ("f32", "3, 2, 40, 36", "2, 36, 56", ""), 1, TRUE },
  { "stacks, transposed", PRODUCT ("f32", "2, 37, 41", "2, 57, 37", " {transpose_a = true, transpose_b = true}"), 1, TRUE },
  { "one matrix for a stack", PRODUCT ("f32", "5, 13, 40", "40, 64", ""), 1, TRUE },
  { "a weight first", "%0 = input \"x\" f32[3, 40, 50]\n%1 = parameter \"w\" f32[60, 40]\n%2 = matmul(%1, %0)\noutput \"y\" %2\n", 1, TRUE },
  { "tiles of 64", PRODUCT ("f32", "633, 40", "40, 650", ""), 1, TRUE },
  { "tiles of 128", PRODUCT ("f32", "1270, 36", "36, 1236", ""), 1, TRUE },
  { "long sums", PRODUCT ("f32", "60, 4100", "4100, 52", ""), 1, TRUE },
  { "f16", PRODUCT ("f16", "45, 61", "61, 59", ""), 1, TRUE },
  { "f16, vectors", PRODUCT ("f16", "64, 64", "64, 96", ""), 1, TRUE },
  { "f16, long sums", PRODUCT ("f16", "60, 4100", "4100, 52", ""), 1, TRUE },
  { "f16 without weights", "%0 = input \"a\" f16[44, 70]\n%1 = input \"b\" f16[70, 50]\n%2 = matmul(%0, %1)\noutput \"y\" %2\n", 1, TRUE },
  { "no weights", "%0 = input \"a\" f32[40, 70]\n%1 = input \"b\" f32[70, 50]\n%2 = matmul(%0, %1)\noutput \"y\" %2\n", 0, TRUE },
  { "too small", PRODUCT ("f32", "12, 64", "64, 64", ""), 0, TRUE },
  { "too short", PRODUCT ("f32", "64, 24", "24, 64", ""), 0, TRUE },
  { "bias", LAYER ("45", 61, 59, ""), 1, TRUE },
  { "leading dimensions", LAYER ("2, 3, 11", 64, 64, ""), 1, TRUE },
  { "scaled", LAYER ("64", 64, 64, " {alpha = -0.75, beta = 3}"), 1, TRUE },
  { "scaled, long sums", LAYER ("50", 2100, 50, " {alpha = -0.75, beta = 3}"), 1, TRUE },
  { "bias by rows",
    "%0 = input \"x\" f32[2, 30, 40]\n%1 = parameter \"w\" f32[40, 64]\n%2 = input \"b\" f32[30, 1]\n"
    "%3 = linear(%0, %1, %2)\noutput \"y\" %3\n", 1, TRUE },
  { "epilogue",
    "%0 = input \"x\" f32[50, 60]\n%1 = parameter \"w\" f32[60, 70]\n%2 = parameter \"b\" f32[70]\n"
    "%3 = linear(%0, %1, %2)\n%4 = gelu(%3)\noutput \"y\" %4\n", 1, TRUE },
  { "split and epilogue",
    "%0 = input \"x\" f32[64, 2048]\n%1 = parameter \"w\" f32[2048, 64]\n%2 = input \"r\" f32[64, 64]\n"
    "%3 = linear(%0, %1)\n%4 = add(%3, %2)\noutput \"y\" %4\n", 1, TRUE },
  { "residual block",
    "%0 = input \"x\" f32[40, 64]\n%1 = parameter \"w1\" f32[64, 128]\n%2 = parameter \"b1\" f32[128]\n"
    "%3 = parameter \"w2\" f32[128, 64]\n%4 = parameter \"b2\" f32[64]\n"
    "%5 = linear(%0, %1, %2)\n%6 = gelu(%5)\n%7 = linear(%6, %3, %4)\n%8 = add(%7, %0)\n%9 = softmax(%8) {axis = 1}\n"
    "output \"y\" %9\noutput \"z\" %8\n", 2, FALSE },
  { "qkv",
    "%0 = input \"x\" f32[45, 64]\n%1 = parameter \"w\" f32[64, 160]\n%2 = parameter \"b\" f32[160]\n"
    "%3, %4, %5 = qkv_linear(%0, %1, %2) {query_size = 70, key_size = 40}\n"
    "output \"q\" %3\noutput \"k\" %4\noutput \"v\" %5\n", 1, TRUE },
  { "qkv, long sums",
    "%0 = input \"x\" f32[45, 1024]\n%1 = parameter \"w\" f32[160, 1024]\n%2 = parameter \"b\" f32[160]\n"
    "%3, %4, %5 = qkv_linear(%0, %1, %2) {query_size = 70, key_size = 40, transpose_b = true}\n"
    "output \"q\" %3\noutput \"k\" %4\noutput \"v\" %5\n", 1, TRUE },
  { "computed weights",
    "%0 = input \"x\" f32[45, 64]\n%1 = parameter \"w\" f32[64, 64]\n%2 = exp(%1)\n%3 = matmul(%0, %2)\noutput \"y\" %3\n", 0, TRUE },
  { "reshaped weights",
    "%0 = input \"x\" f32[45, 64]\n%1 = parameter \"w\" f32[64, 4, 16]\n%2 = reshape(%1) {shape = [64, 64]}\n%3 = matmul(%0, %2)\noutput \"y\" %3\n",
    1, TRUE },
};

static void
test_products (gconstpointer data)
{
  guint i = GPOINTER_TO_UINT (data);

  if (rlx_test_device () == NULL)
    return;
  for (guint weights = 0; weights < 2; weights++)
    {
      check_products (products[i].name, products[i].text, products[i].n_matrix, weights, FALSE);
      if (products[i].single)
        check_products (products[i].name, products[i].text, products[i].n_matrix, weights, TRUE);
    }
}

/* ---- weights that change -------------------------------------------------------------- */

#define ROWS 48
#define STEPS 128
#define COLUMNS 64

static RlxTensor *
make_weight (Fill fill)
{
  const gint64 shape[] = { STEPS, COLUMNS };
  g_autoptr(GRand) rand = g_rand_new_with_seed (11);
  float values[STEPS * COLUMNS];

  for (guint k = 0; k < STEPS; k++)
    for (guint n = 0; n < COLUMNS; n++)
      values[k * COLUMNS + n] = (float) fill (k, n, STEPS, COLUMNS, rand);
  return rlx_tensor_new_from_floats (shape, 2, values, G_N_ELEMENTS (values), NULL);
}

/* Two products with weights of their own, and a third without. */
static const char two[] =
  "rlx 1\nprecision reduced\n"
  "%0 = input \"x\" f32[48, 128]\n%1 = parameter \"v\" f32[128, 64]\n%2 = parameter \"w\" f32[128, 64]\n"
  "%3 = matmul(%0, %1)\n%4 = relu(%3)\n%5 = matmul(%0, %2)\n%6 = add(%5, %4)\n"
  "output \"y\" %4\noutput \"z\" %6\n";

static void
set_weight (RlxExecutable *executable,
            const char    *name,
            RlxTensor     *weight)
{
  g_autoptr(GError) error = NULL;

  rlx_executable_set_parameters (executable, (const char *const[]) { name, NULL }, &weight, 1, NULL, &error);
  g_assert_no_error (error);
}

/* Whatever the weights are, the results are within the bounds of full precision if they were not
 * reduced, and, with weights that have to be rounded to f16, outside them if they were. */
static void
check_run (RlxExecutable *executable,
           RlxGraph      *graph,
           RlxTensor     *v,
           RlxTensor     *w,
           guint          n_matrix)
{
  g_autoptr(RlxTensor) x = rlx_test_random ("f32[48,128]", 0.5, 1.5, 5);
  g_autoptr(GPtrArray) expected = NULL, exact = NULL;
  g_autoptr(RlxProfile) profile = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree RlxTensor **outputs = NULL;
  RlxGpuCounters before, after;
  RlxGpu *gpu = rlx_device_get_gpu (rlx_executable_get_device (executable));
  guint n_profiled = 0;
  gsize n, n_beyond = 0;

  expected = rlx_reference_run (graph, &x, 1, (const char *const[]) { "v", "w", NULL }, (RlxTensor *[]) { v, w }, 2,
                                n_matrix > 0 ? RLX_REFERENCE_NARROW : RLX_REFERENCE_NONE, &error);
  g_assert_no_error (error);
  exact = rlx_reference_run (graph, &x, 1, (const char *const[]) { "v", "w", NULL }, (RlxTensor *[]) { v, w }, 2,
                             RLX_REFERENCE_NONE, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (count_kernel (executable, MATRIX), ==, n_matrix);
  rlx_gpu_get_counters (gpu, &before);
  rlx_executable_set_profiling (executable, TRUE);
  outputs = rlx_executable_run (executable, &x, 1, &n, NULL, &error);
  g_assert_no_error (error);
  rlx_gpu_get_counters (gpu, &after);
  g_assert_cmpuint (after.dispatches - before.dispatches, ==, rlx_executable_get_n_dispatches (executable));
  g_assert_cmpuint (after.pipelines, ==, before.pipelines);
  g_assert_cmpuint (after.bind_groups, ==, before.bind_groups);

  /* the profile shows what ran */
  profile = rlx_executable_dup_profile (executable);
  g_assert_cmpuint (g_list_model_get_n_items (G_LIST_MODEL (profile)), ==, rlx_executable_get_n_dispatches (executable));
  for (guint i = 0; i < g_list_model_get_n_items (G_LIST_MODEL (profile)); i++)
    {
      g_autoptr(RlxProfileStep) step = g_list_model_get_item (G_LIST_MODEL (profile), i);

      n_profiled += g_str_equal (rlx_profile_step_get_kernel (step), MATRIX);
    }
  g_assert_cmpuint (n_profiled, ==, n_matrix);

  for (gsize i = 0; i < n; i++)
    {
      RlxReferenceCheck check;

      if (!rlx_reference_value_check (g_ptr_array_index (expected, i), outputs[i], &check))
        {
          g_test_message ("output %" G_GSIZE_FORMAT ": %" G_GSIZE_FORMAT " wrong, first %" G_GSIZE_FORMAT ": %g instead of %g ± %g",
                          i, check.n_wrong, check.first_wrong, check.got, check.expected, check.bound);
          g_test_fail ();
        }
      rlx_reference_value_check (g_ptr_array_index (exact, i), outputs[i], &check);
      n_beyond += check.n_wrong;
      g_object_unref (outputs[i]);
    }
  g_assert_cmpint (n_beyond > 0, ==, n_matrix > 0);
}

static void
test_exchange (void)
{
  static const Fill hostile[] = { fill_nan, fill_huge, fill_fourier, fill_differences, fill_small, fill_infinite };
  RlxDevice *device = rlx_test_device ();
  g_autoptr(RlxGraph) graph = parse (two);
  g_autoptr(RlxExecutable) executable = NULL, fork = NULL, late = NULL;
  g_autoptr(RlxTensor) good = make_weight (fill_normal), other = make_weight (fill_uniform);
  g_autoptr(GError) error = NULL;
  g_autofree char *plan = NULL;
  guint one;

  if (device == NULL)
    return;
  one = expect_matrix (device);
  executable = rlx_device_compile (device, graph, NULL, NULL, &error);
  g_assert_no_error (error);
  fork = rlx_executable_fork (executable, NULL, &error);
  g_assert_no_error (error);
  /* the weights are still unknown */
  g_assert_cmpuint (count_kernel (executable, MATRIX), ==, 0);
  set_weight (executable, "v", good);
  g_assert_cmpuint (count_kernel (executable, MATRIX), ==, one);
  set_weight (executable, "w", other);
  check_run (executable, graph, good, other, 2 * one);
  check_run (fork, graph, good, other, 2 * one);

  for (guint i = 0; i < G_N_ELEMENTS (hostile); i++)
    {
      g_autoptr(RlxTensor) bad = make_weight (hostile[i]);

      set_weight (executable, "v", bad);
      check_run (fork, graph, bad, other, one);
      set_weight (fork, "w", bad);
      check_run (executable, graph, bad, bad, 0);
      check_run (fork, graph, bad, bad, 0);
      set_weight (fork, "v", good);
      set_weight (executable, "w", good);
      check_run (fork, graph, good, good, 2 * one);
      check_run (executable, graph, good, good, 2 * one);
      set_weight (executable, "w", other);
    }

  /* both at once, in one call */
  {
    g_autoptr(RlxTensor) bad = make_weight (fill_fourier);
    RlxTensor *both[] = { bad, good };

    rlx_executable_set_parameters (executable, (const char *const[]) { "v", "w", NULL }, both, 2, NULL, &error);
    g_assert_no_error (error);
    check_run (executable, graph, bad, good, one);
  }

  /* what a rejected call leaves behind */
  {
    g_autoptr(RlxTensor) wrong = rlx_test_random ("f32[128,65]", -1, 1, 1);
    RlxTensor *both[] = { good, wrong };

    g_assert_false (rlx_executable_set_parameters (executable, (const char *const[]) { "v", "w", NULL }, both, 2, NULL, &error));
    g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_SHAPE);
    g_clear_error (&error);
    g_assert_cmpuint (count_kernel (executable, MATRIX), ==, one);
  }

  /* forks that are created later, and outlive the original */
  late = rlx_executable_fork (executable, NULL, &error);
  g_assert_no_error (error);
  g_clear_object (&executable);
  set_weight (late, "v", other);
  check_run (late, graph, other, good, 2 * one);
  check_run (fork, graph, other, good, 2 * one);
  plan = rlx_executable_describe_plan (late);
  g_assert_cmpint (strstr (plan, MATRIX) != NULL, ==, one);
}

/* Constants are decided on at compile time: only one version exists then. */
static void
test_constants (void)
{
  RlxDevice *device = rlx_test_device ();

  if (device == NULL)
    return;
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr(RlxTensor) weight = make_weight (i == 0 ? fill_normal : fill_fourier);
      g_autoptr(RlxCompileOptions) options = g_object_new (RLX_TYPE_COMPILE_OPTIONS, "precision", RLX_PRECISION_REDUCED, NULL);
      g_autoptr(RlxGraph) graph = rlx_graph_new ();
      g_autoptr(RlxExecutable) executable = NULL;
      g_autoptr(GError) error = NULL;

      rlx_graph_output (graph, "y",
                        rlx_node_matmul (rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, (const gint64[]) { ROWS, STEPS }, 2, NULL),
                                         rlx_graph_constant (graph, weight, NULL), NULL, NULL), NULL);
      executable = rlx_device_compile (device, graph, options, NULL, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (rlx_executable_peek_plan (executable)->steps->len, ==, 1);
      g_assert_cmpuint (count_kernel (executable, MATRIX), ==, i == 0 && expect_matrix (device));
    }
}

static void
test_full (void)
{
  RlxDevice *device = rlx_test_device ();
  g_autofree char *text = g_strdup (two);
  g_autoptr(RlxCompileOptions) options = g_object_new (RLX_TYPE_COMPILE_OPTIONS, "precision", RLX_PRECISION_FULL, NULL);
  g_autoptr(RlxGraph) graph = NULL;
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) good = make_weight (fill_normal);
  g_autoptr(GError) error = NULL;

  if (device == NULL)
    return;
  graph = parse (two);
  executable = rlx_device_compile (device, graph, options, NULL, &error);
  g_assert_no_error (error);
  set_weight (executable, "v", good);
  set_weight (executable, "w", good);
  check_run (executable, graph, good, good, 0);
}

/* Values out of the range of f16 become infinite, which is not hidden. */
static void
test_overflow (void)
{
  RlxDevice *device = rlx_test_device ();
  g_autoptr(RlxGraph) graph = parse ("rlx 1\nprecision reduced\n%0 = input \"x\" f32[32, 64]\n%1 = parameter \"w\" f32[64, 32]\n"
                                     "%2 = matmul(%0, %1)\noutput \"y\" %2\n");
  g_autoptr(RlxTensor) weight = rlx_test_random ("f32[64,32]", 0.5, 1, 3);
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(GError) error = NULL;
  float values[32 * 64];
  static const float large[] = { 65504.0f, 65519.0f, 65520.0f, 1e5f, 1e30f, -1e6f, INFINITY, NAN, -INFINITY, 0x1p-149f };
  g_autofree RlxTensor **outputs = NULL;
  g_autoptr(RlxTensor) x = NULL;
  g_autofree float *y = NULL;
  guint32 bits = 0x7fffffffu;
  gsize n;

  if (device == NULL)
    return;
  /* one of them in each row; the last has a NaN with all bits set */
  for (guint i = 0; i < G_N_ELEMENTS (values); i++)
    values[i] = i % 64 == 0 && i / 64 < G_N_ELEMENTS (large) ? large[i / 64] : 0.0f;
  memcpy (&values[31 * 64 + 5], &bits, sizeof bits);
  x = rlx_tensor_new_from_floats ((const gint64[]) { 32, 64 }, 2, values, G_N_ELEMENTS (values), NULL);
  executable = rlx_device_compile (device, graph, NULL, NULL, &error);
  g_assert_no_error (error);
  set_weight (executable, "w", weight);
  outputs = rlx_executable_run (executable, &x, 1, &n, NULL, &error);
  g_assert_no_error (error);
  y = rlx_tensor_to_floats (outputs[0], &n, NULL);
  g_object_unref (outputs[0]);

  for (guint i = 0; i < G_N_ELEMENTS (large); i++)
    for (guint j = 0; j < 32; j++)
      {
        float got = y[i * 32 + j];

        if (isnan (large[i]))
          g_assert_true (isnan (got));
        else if (isinf (large[i]) || (expect_matrix (device) && fabsf (large[i]) >= 65520.0f))
          g_assert_true (isinf (got) && (got > 0) == (large[i] > 0));
        else
          g_assert_true (isfinite (got));
      }
  for (guint j = 0; j < 32; j++)
    g_assert_true (isnan (y[31 * 32 + j]));
}

/* ---- packed weights --------------------------------------------------------------------- */

#define PACKED(weight, rest) \
  "rlx 1\nprecision reduced\n%0 = input \"x\" f32[48, 128]\n%1 = parameter \"w\" " weight "\n" rest "output \"y\" %2\n"

/* Whatever their range is, results are within the bounds of the precision in use. */
static void
check_packed (const char *text,
              const char *name,
              RlxTensor  *weight,
              RlxTensor  *good,
              RlxTensor  *bad)
{
  RlxDevice *device = rlx_test_device ();
  g_autoptr(RlxGraph) graph = parse (text);
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) x = rlx_test_random ("f32[48,128]", 0.5, 1.5, 5);
  g_autoptr(GError) error = NULL;

  executable = rlx_device_compile (device, graph, NULL, NULL, &error);
  g_assert_no_error (error);
  if (weight != NULL)
    set_weight (executable, "w", weight);
  g_assert_cmpuint (count_kernel (executable, MATRIX), ==, 0);
  for (guint i = 0; i < 3; i++)
    {
      RlxTensor *value = i == 1 ? bad : good, *both[] = { value, weight };
      guint n_matrix = i != 1 && expect_matrix (device);
      g_autoptr(GPtrArray) expected = NULL;
      g_autofree RlxTensor **outputs = NULL;
      gsize n;

      set_weight (executable, name, value);
      g_assert_cmpuint (count_kernel (executable, MATRIX), ==, n_matrix);
      expected = rlx_reference_run (graph, &x, 1, (const char *const[]) { name, weight != NULL ? "w" : NULL, NULL }, both, weight != NULL ? 2 : 1,
                                    n_matrix > 0 ? RLX_REFERENCE_NARROW : RLX_REFERENCE_NONE, &error);
      g_assert_no_error (error);
      outputs = rlx_executable_run (executable, &x, 1, &n, NULL, &error);
      g_assert_no_error (error);
      check_outputs (i == 1 ? "out of range" : "in range", outputs, n, expected);
    }
}

/* One of many blocks that can exceed f16 suffices. */
static void
test_packed_range (void)
{
  double blocks[64 * 72], integers[64 * 64], scales[64 * 4];
  g_autoptr(RlxTensor) good = NULL, bad = NULL, packed = NULL, small = NULL, large = NULL;

  if (rlx_test_device () == NULL)
    return;
  for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
    blocks[i] = i % 18 == 0 ? 0x00 : i % 18 == 1 ? 0x2c : i * 37 % 256;
  good = rlx_test_tensor ("u8[64,72]", blocks);
  /* 0x7000 is 8192 and scales the numbers of a block to -65536. */
  blocks[41 * 72 + 2 * 18 + 1] = 0x70;
  bad = rlx_test_tensor ("u8[64,72]", blocks);
  check_packed (PACKED ("u8[64, 72]", "%2 = dequant_matmul(%0, %1) {type = q4-0}\n"), "w", NULL, good, bad);

  for (guint i = 0; i < G_N_ELEMENTS (integers); i++)
    integers[i] = i * 37 % 256;
  packed = rlx_test_tensor ("u8[64,64]", integers);
  for (guint i = 0; i < G_N_ELEMENTS (scales); i++)
    scales[i] = 4366;
  small = rlx_test_tensor ("f32[64,4]", scales);
  scales[77] = -4368;
  large = rlx_test_tensor ("f32[64,4]", scales);
  check_packed (PACKED ("u8[64, 64]", "%3 = parameter \"s\" f32[64, 4]\n%2 = dequant_matmul(%0, %1, %3) {block_size = 32, type = int4}\n"),
                "s", packed, small, large);
}

/* ---- the probe ------------------------------------------------------------------------ */

/* A device whose units seem wrong does not use them; another one is tested afresh. */
static void
test_probe (void)
{
  g_autoptr(RlxGraph) graph = parse (two);
  g_autoptr(RlxTensor) good = make_weight (fill_normal);
  g_autoptr(GError) error = NULL;

  if (rlx_test_device () == NULL)
    return;
  for (guint wrong = 2; wrong-- > 0;)
    {
      g_autoptr(RlxDevice) device = rlx_device_open (NULL, NULL, &error);
      g_autoptr(RlxExecutable) executable = NULL, again = NULL;
      g_autoptr(GCancellable) cancellable = g_cancellable_new ();
      RlxGpuCounters before, after;

      g_assert_no_error (error);
      /* a cancelled one decides nothing */
      g_cancellable_cancel (cancellable);
      g_assert_null (rlx_device_compile (device, graph, NULL, cancellable, &error));
      g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
      g_clear_error (&error);

      rlx_trial_set_test (RLX_FAMILY_PRODUCT, wrong ? 1u << RLX_PRODUCT_MATRIX : 0);
      executable = rlx_device_compile (device, graph, NULL, NULL, &error);
      rlx_trial_set_test (RLX_FAMILY_PRODUCT, 0);
      g_assert_no_error (error);
      set_weight (executable, "v", good);
      set_weight (executable, "w", good);
      check_run (executable, graph, good, good, !wrong && expect_matrix (device) ? 2 : 0);

      /* once per device */
      rlx_gpu_get_counters (rlx_device_get_gpu (device), &before);
      again = rlx_device_compile (device, graph, NULL, NULL, &error);
      g_assert_no_error (error);
      rlx_gpu_get_counters (rlx_device_get_gpu (device), &after);
      g_assert_cmpuint (after.dispatches, ==, before.dispatches);
      set_weight (again, "v", good);
      g_assert_cmpuint (count_kernel (again, MATRIX), ==, !wrong && expect_matrix (device) ? 1 : 0);
    }
}

/* The number of invocations of a subgroup is a guess: too many leave some idle, too few
 * loop, and neither changes a bit. */
static void
test_subgroups (void)
{
  static const guint sizes[] = { 4, 8, 32 };
  RlxDevice *device = rlx_test_device ();
  g_autoptr(RlxTensor) x = rlx_test_random ("f32[90,70]", -1, 1, 1), weight = rlx_test_random ("f32[70,60]", -1, 1, 2);
  g_autoptr(RlxTensor) first = NULL;
  g_autoptr(GError) error = NULL;

  if (device == NULL)
    return;
  if (!expect_matrix (device))
    {
      g_test_skip ("there are no matrix units here");
      return;
    }
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      RlxTarget target = rlx_gpu_get_info (rlx_device_get_gpu (device))->target;
      g_autoptr(RlxGraph) graph = parse ("rlx 1\nprecision reduced\n%0 = input \"x\" f32[90, 70]\n%1 = parameter \"w\" f32[70, 60]\n"
                                         "%2 = matmul(%0, %1)\noutput \"y\" %2\n");
      g_autoptr(RlxExecutable) executable = NULL;
      g_autofree RlxTensor **outputs = NULL;
      g_autoptr(RlxTensor) y = NULL;
      gsize n;

      /* which no kernel may request, as the device has only one size */
      target.subgroup_sizes_can_be_set = FALSE;
      target.subgroup_min = target.subgroup_max = target.subgroup_size = sizes[i];
      executable = rlx_device_compile_for_target (device, graph, &target, NULL, &error);
      g_assert_no_error (error);
      set_weight (executable, "w", weight);
      g_assert_cmpuint (count_kernel (executable, MATRIX), ==, 1);
      outputs = rlx_executable_run (executable, &x, 1, &n, NULL, &error);
      g_assert_no_error (error);
      y = outputs[0];
      if (first == NULL)
        first = g_object_ref (y);
      g_test_message ("subgroups of %u: workgroups of %u", sizes[i],
                      ((const RlxStep *) g_ptr_array_index (rlx_executable_peek_plan (executable)->steps, 0))->workgroup_size);
      g_assert_true (g_bytes_equal (rlx_tensor_get_bytes (first), rlx_tensor_get_bytes (y)));
    }

  /* the right one is among them */
  {
    g_autoptr(RlxGraph) graph = parse ("rlx 1\n%0 = input \"x\" f32[90, 70]\n%1 = input \"w\" f32[70, 60]\n"
                                       "%2 = matmul(%0, %1)\noutput \"y\" %2\n");
    g_autoptr(GPtrArray) expected = rlx_reference_run (graph, (RlxTensor *[]) { x, weight }, 2, NULL, NULL, 0, RLX_REFERENCE_NARROW, &error);

    g_assert_no_error (error);
    g_object_ref (first);
    check_outputs ("subgroups", &first, 1, expected);
  }
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/precision/options", test_options);
  g_test_add_func ("/precision/text", test_text);
  g_test_add_func ("/precision/decision", test_decision);
  for (guint i = 0; i < G_N_ELEMENTS (products); i++)
    {
      g_autofree char *path = g_strdup_printf ("/precision/products/%s", products[i].name);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_products);
    }
  g_test_add_func ("/precision/exchange", test_exchange);
  g_test_add_func ("/precision/constants", test_constants);
  g_test_add_func ("/precision/full", test_full);
  g_test_add_func ("/precision/overflow", test_overflow);
  g_test_add_func ("/precision/packed", test_packed_range);
  g_test_add_func ("/precision/probe", test_probe);
  g_test_add_func ("/precision/subgroups", test_subgroups);

  return g_test_run ();
}
