/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Each test has a cache of its own that is empty at the beginning.
 */
#include "config.h"

#include <string.h>

#include "ops/rlx-product-private.h"
#include "rlx-adapter.h"
#include "rlx-calibration-private.h"
#include "rlx-test-util.h"
#include "rlx-trial-private.h"
#include "rlx-tune-private.h"

#define ALL_PRODUCTS ((1u << RLX_N_PRODUCTS) - 1)

#define ROWS 256
#define STEPS 64
#define PRODUCT "product: 1 of [256, 64] · [64, 256], f32"

/* ---- the file --------------------------------------------------------------------- */

static RlxTuning *
make_table (guint n_problems)
{
  RlxTuning *tuning = rlx_tuning_new ();

  for (guint i = 0; i < n_problems; i++)
    {
      g_autofree char *problem = g_strdup_printf ("a problem: number %u", i);

      rlx_tuning_set (tuning, problem, i % 2 == 0 ? "even" : "odd");
    }
  return tuning;
}

static gboolean
is_believed (GVariant *variant)
{
  g_autoptr(GVariant) owned = g_variant_ref_sink (variant);
  g_autoptr(GBytes) bytes = g_variant_get_data_as_bytes (owned);
  g_autoptr(RlxTuning) tuning = rlx_tuning_from_bytes (bytes);

  return tuning != NULL;
}

static void
test_bytes (void)
{
  g_autoptr(RlxTuning) tuning = make_table (7), again = NULL, copy = NULL;
  g_autoptr(GBytes) bytes = rlx_tuning_to_bytes (tuning), again_bytes = NULL;
  g_autofree char *text = g_strnfill (300, '1');
  GVariantBuilder builder;
  gsize size;
  const guint8 *data = g_bytes_get_data (bytes, &size);

  again = rlx_tuning_from_bytes (bytes);
  g_assert_nonnull (again);
  again_bytes = rlx_tuning_to_bytes (again);
  g_assert_true (g_bytes_equal (bytes, again_bytes));
  g_assert_cmpuint (rlx_tuning_get_n_problems (again), ==, 7);
  g_assert_cmpstr (rlx_tuning_look_up (again, "a problem: number 3"), ==, "odd");
  g_assert_null (rlx_tuning_look_up (again, "a problem: number 7"));

  /* a copy is independent */
  copy = rlx_tuning_copy (again);
  rlx_tuning_set (copy, "a problem: number 3", NULL);
  g_assert_null (rlx_tuning_look_up (copy, "a problem: number 3"));
  g_assert_cmpuint (rlx_tuning_get_n_problems (copy), ==, 6);
  g_assert_cmpstr (rlx_tuning_look_up (again, "a problem: number 3"), ==, "odd");

  /* what could not be read back is not stored */
  rlx_tuning_set (copy, text, "odd");
  g_assert_cmpuint (rlx_tuning_get_n_problems (copy), ==, 6);

  /* truncated, unless the rest is a table without problems */
  for (gsize i = 0; i < size; i++)
    {
      g_autoptr(GBytes) part = g_bytes_new (data, i);
      g_autoptr(RlxTuning) read = rlx_tuning_from_bytes (part);

      g_assert_true (read == NULL || (i == 4 && rlx_tuning_get_n_problems (read) == 0));
    }

  /* forged */
  g_assert_true (is_believed (g_variant_new_parsed ("(uint32 2, [('product: 1 · 2', 'lanes')])")));
  g_assert_false (is_believed (g_variant_new_parsed ("(uint32 1, [('product: 1 · 2', 'lanes')])")));
  g_assert_false (is_believed (g_variant_new_parsed ("(uint32 2, [('product: 1 · 2', '')])")));
  g_assert_false (is_believed (g_variant_new_parsed ("(uint32 2, [('', 'lanes')])")));
  g_assert_false (is_believed (g_variant_new_parsed ("(uint32 2, [('1x2\n', 'lanes')])")));
  g_assert_false (is_believed (g_variant_new_parsed ("(uint32 2, [('1', 'lanes'), ('1', 'lanes')])")));
  g_assert_false (is_believed (g_variant_new_parsed ("(uint32 2, [(%s, 'lanes')])", text)));
  g_assert_false (is_believed (g_variant_new_parsed ("(uint32 2, [('1', %s)])", text)));
  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a(ss)"));
  for (guint i = 0; i <= RLX_TUNING_MAX_PROBLEMS; i++)
    {
      g_autofree char *key = g_strdup_printf ("%u", i);

      g_variant_builder_add (&builder, "(ss)", key, "lanes");
    }
  g_assert_false (is_believed (g_variant_new ("(ua(ss))", 2, &builder)));
}

static void
test_bounded (void)
{
  g_autoptr(RlxTuning) tuning = make_table (RLX_TUNING_MAX_PROBLEMS);
  g_autoptr(RlxTuning) read = NULL;
  g_autoptr(GBytes) bytes = rlx_tuning_to_bytes (tuning);

  read = rlx_tuning_from_bytes (bytes);
  g_assert_nonnull (read);
  g_assert_cmpuint (rlx_tuning_get_n_problems (read), ==, RLX_TUNING_MAX_PROBLEMS);
  rlx_tuning_set (read, "a problem: number 0", "odd");
  g_assert_cmpuint (rlx_tuning_get_n_problems (read), ==, RLX_TUNING_MAX_PROBLEMS);
  rlx_tuning_set (read, "another", "odd");
  g_assert_cmpuint (rlx_tuning_get_n_problems (read), ==, 1);
  g_assert_cmpstr (rlx_tuning_look_up (read, "another"), ==, "odd");
}

static void
test_other_driver (void)
{
  RlxGpuAdapterInfo one = { .name = (char *) "a", .driver = (char *) "1.0", .vendor = (char *) "v", .architecture = (char *) "x", .backend = (char *) "vulkan" };
  RlxGpuAdapterInfo other = one;
  g_autoptr(RlxTuning) tuning = make_table (3);
  g_autoptr(RlxTuning) same = NULL;
  g_autoptr(RlxTuning) different = NULL;

  other.driver = (char *) "1.1";
  g_assert_true (rlx_tuning_store (tuning, &one));
  same = rlx_tuning_load (&one);
  different = rlx_tuning_load (&other);
  g_assert_cmpuint (rlx_tuning_get_n_problems (same), ==, 3);
  g_assert_cmpuint (rlx_tuning_get_n_problems (different), ==, 0);
}

/* ---- devices ------------------------------------------------------------------------ */

static RlxDevice *
open_device (void)
{
  g_autoptr(GError) error = NULL;
  RlxDevice *device;

  if (rlx_test_device () == NULL)
    return NULL;
  device = rlx_device_open (NULL, NULL, &error);
  g_assert_no_error (error);
  return device;
}

static RlxExecutable *
compile (RlxDevice *device,
         RlxGraph  *graph,
         gboolean   tuning)
{
  g_autoptr(RlxCompileOptions) options = g_object_new (RLX_TYPE_COMPILE_OPTIONS, "tuning", tuning, NULL);
  g_autoptr(GError) error = NULL;
  RlxExecutable *executable;

  g_assert_true (rlx_compile_options_get_tuning (options) == tuning);
  executable = rlx_device_compile (device, graph, options, NULL, &error);
  g_assert_no_error (error);
  return executable;
}

static RlxGraph *
make_graph (void)
{
  g_autoptr(GError) error = NULL;
  RlxGraph *graph = rlx_graph_new_from_text ("rlx 1\n%0 = input \"a\" f32[256, 64]\n%1 = input \"b\" f32[64, 256]\n"
                                             "%2 = matmul(%0, %1)\noutput \"y\" %2\n", &error);

  g_assert_no_error (error);
  return graph;
}

/* The variant that computes the product. */
static const char *
get_variant (RlxExecutable *executable)
{
  const RlxChoice *choice = g_ptr_array_index (rlx_executable_peek_plan (executable)->choices, 0);

  g_assert_true (choice->table == &rlx_product_variants);
  return choice->table->variants[choice->row].name;
}

static const char *
choose (RlxDevice *device,
        RlxGraph  *graph,
        gboolean   tuning)
{
  g_autoptr(RlxExecutable) executable = compile (device, graph, tuning);

  return get_variant (executable);
}

/* Whether the variant can compute the product on this target, at full precision. */
static gboolean
can_choose (RlxDevice        *device,
            RlxGraph         *graph,
            RlxProductVariant row)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxExecutable) executable = NULL;
  RlxSpeeds only;

  rlx_speeds_guess (&only, rlx_gpu_get_info (rlx_device_get_gpu (device))->type);
  only.banned[RLX_FAMILY_PRODUCT] = ~(1u << row);
  executable = rlx_device_compile_for (device, graph, &only, NULL, &error);
  g_assert_no_error (error);
  return g_str_equal (get_variant (executable), rlx_product_variants.variants[row].name);
}

/* Stored choices are used by those who tune, and by nobody else. */
static void
test_choice (void)
{
  g_autoptr(RlxDevice) plain = open_device ();
  g_autoptr(RlxGraph) graph = NULL;
  const RlxGpuAdapterInfo *info;
  const char *before;
  guint n_possible = 0;

  if (plain == NULL)
    return;
  graph = make_graph ();
  info = rlx_gpu_get_info (rlx_device_get_gpu (plain));
  before = choose (plain, graph, FALSE);
  for (guint i = 0; i < RLX_N_PRODUCTS; i++)
    {
      const char *expected = before, *name = rlx_product_variants.variants[i].name;
      g_autoptr(RlxTuning) tuning = make_table (0);
      g_autoptr(RlxDevice) device = NULL;

      rlx_tuning_set (tuning, PRODUCT, name);
      g_assert_true (rlx_tuning_store (tuning, info));
      device = open_device ();
      if (can_choose (device, graph, i))
        {
          expected = name;
          n_possible++;
        }
      g_assert_cmpstr (choose (device, graph, TRUE), ==, expected);
      /* the same once more, and with another table in between */
      g_assert_cmpstr (choose (device, graph, TRUE), ==, expected);
      g_assert_cmpstr (choose (plain, graph, FALSE), ==, before);
      g_assert_cmpstr (choose (device, graph, FALSE), ==, before);
    }
  g_assert_cmpuint (n_possible, >=, 4);
}

static GBytes *
multiply (RlxDevice *device,
          RlxGraph  *graph)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxExecutable) executable = compile (device, graph, TRUE);
  g_autofree float *numbers = g_new (float, ROWS * STEPS);
  g_autofree RlxTensor **outputs = NULL;
  g_autoptr(RlxTensor) a = NULL, b = NULL, y = NULL;
  gsize n;

  g_assert_no_error (error);
  for (guint i = 0; i < ROWS * STEPS; i++)
    numbers[i] = (float) (i * 7 % 1013) / 97.0f;
  a = rlx_tensor_new_from_floats ((gint64[]) { ROWS, STEPS }, 2, numbers, ROWS * STEPS, &error);
  b = rlx_tensor_new_from_floats ((gint64[]) { STEPS, ROWS }, 2, numbers, STEPS * ROWS, &error);
  outputs = rlx_executable_run (executable, (RlxTensor *[]) { a, b }, 2, &n, NULL, &error);
  g_assert_no_error (error);
  y = outputs[0];
  return g_bytes_ref (rlx_tensor_get_bytes (y));
}

static guint64
count_dispatches (RlxDevice *device)
{
  RlxGpuCounters counters;

  rlx_gpu_get_counters (rlx_device_get_gpu (device), &counters);
  return counters.dispatches;
}

/* An unusable file is replaced; measurements are shared by all. */
static void
test_measure (void)
{
  g_autoptr(RlxDevice) device = open_device ();
  g_autoptr(RlxDevice) again = NULL;
  g_autoptr(RlxGraph) graph = NULL;
  g_autoptr(GBytes) junk = g_bytes_new ("not a table", 11);
  g_autoptr(GBytes) first = NULL, second = NULL, third = NULL;
  RlxAdapter *adapter;
  guint64 before;

  if (device == NULL)
    return;
  graph = make_graph ();
  adapter = rlx_device_get_adapter (device);
  g_assert_true (rlx_gpu_notes_store (rlx_gpu_get_info (rlx_device_get_gpu (device)), RLX_TUNING_NOTES, junk));
  g_assert_cmpuint (rlx_adapter_count_tuned_problems (adapter), ==, 0);

  first = multiply (device, graph);
  g_assert_cmpuint (rlx_adapter_count_tuned_problems (adapter), ==, 1);
  /* Measured once, here and in any other process. */
  before = count_dispatches (device);
  second = multiply (device, graph);
  g_assert_cmpuint (count_dispatches (device) - before, <=, 4);
  again = open_device ();
  before = count_dispatches (again);
  third = multiply (again, graph);
  g_assert_cmpuint (count_dispatches (again) - before, <=, 8);
  g_assert_true (g_bytes_equal (first, second));
  g_assert_true (g_bytes_equal (first, third));
  g_assert_cmpuint (rlx_adapter_count_tuned_problems (adapter), ==, 1);
}

/* The time of an incorrect variant does not matter. */
static void
test_wrong (void)
{
  g_autoptr(RlxDevice) device = open_device ();
  g_autoptr(RlxGraph) graph = NULL;
  const char *choice;

  if (device == NULL)
    return;
  graph = make_graph ();
  /* all but two, so that two of them agree */
  rlx_trial_set_test (RLX_FAMILY_PRODUCT, ALL_PRODUCTS & ~(1u << RLX_PRODUCT_TILES_64 | 1u << RLX_PRODUCT_DOT));
  choice = choose (device, graph, TRUE);
  g_assert_true (g_str_equal (choice, "tiles-64") || g_str_equal (choice, "dot"));
  rlx_trial_set_test (RLX_FAMILY_PRODUCT, 0);
  g_assert_cmpuint (rlx_adapter_count_tuned_problems (rlx_device_get_adapter (device)), ==, 1);
}

/* Operators of every family are measured, with the actual layout of the operands; those
 * that take little time, or that have a single kernel, are not. */
static void
test_problems (void)
{
  static const struct
  {
    const char *text;
    const char *problem;   /* the added problem, or NULL */
  } cases[] = {
    { "%0 = input \"a\" f32[64, 96]\n%1 = input \"b\" f32[128, 64]\n%2 = matmul(%0, %1) {transpose_a = true, transpose_b = true}\noutput \"y\" %2\n",
      "product: 1 of [96, 64] · [64, 128], f32, transposed on the left, transposed on the right" },
    { "%0 = input \"a\" f32[5, 96, 64]\n%1 = input \"b\" f32[5, 64, 128]\n%2 = matmul(%0, %1)\noutput \"y\" %2\n",
      "product: 5 of [96, 64] · [64, 128], f32" },
    { "%0 = input \"a\" f16[96, 64]\n%1 = parameter \"b\" f16[64, 128]\n%2 = matmul(%0, %1)\noutput \"y\" %2\n",
      "product: 1 of [96, 64] · [64, 128], f16, a weight" },
    { "%0 = input \"a\" f32[96, 64]\n%1 = parameter \"b\" f32[64, 128]\n%2 = parameter \"c\" f32[128]\n%3 = linear(%0, %1, %2)\n%4 = gelu(%3)\noutput \"y\" %4\n",
      "product: 1 of [96, 64] · [64, 128], f32, a weight" },
    { "%0 = input \"x\" f32[40, 3000]\n%1 = softmax(%0) {axis = 1}\n%2 = exp(%1)\noutput \"y\" %2\n", "norm: softmax of 40 rows of 3000, f32" },
    { "%0 = input \"x\" f32[40, 3000]\n%1 = cumsum(%0) {axis = 1}\noutput \"y\" %1\n", "scan: 40 rows of 3000, f32" },
    /* the same once more */
    { "%0 = input \"x\" f32[40, 3000]\n%1 = cumsum(%0) {axis = 1}\n%2 = exp(%1)\noutput \"y\" %2\n", NULL },
    { "%0 = input \"a\" f32[40, 8]\n%1 = input \"b\" f32[8, 9]\n%2 = matmul(%0, %1)\n%3 = input \"x\" f32[16000000]\n%4 = exp(%3)\noutput \"y\" %2\noutput \"z\" %4\n", NULL },
    { "%0 = input \"x\" f32[4000]\n%1 = exp(%0)\noutput \"y\" %1\n", NULL },
  };
  g_autoptr(RlxDevice) device = open_device ();
  guint n = 0;

  if (device == NULL)
    return;
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *text = g_strconcat ("rlx 1\n", cases[i].text, NULL);
      g_autoptr(GError) error = NULL;
      g_autoptr(RlxGraph) graph = rlx_graph_new_from_text (text, &error);
      g_autoptr(RlxExecutable) executable = NULL;
      g_autoptr(RlxTuning) tuning = NULL;

      g_assert_no_error (error);
      executable = compile (device, graph, TRUE);
      tuning = rlx_tuning_load (rlx_gpu_get_info (rlx_device_get_gpu (device)));
      n += cases[i].problem != NULL;
      g_assert_cmpuint (rlx_tuning_get_n_problems (tuning), ==, n);
      if (cases[i].problem != NULL)
        g_assert_nonnull (rlx_tuning_look_up (tuning, cases[i].problem));
    }
}

static void
test_cancel (void)
{
  g_autoptr(RlxDevice) device = open_device ();
  g_autoptr(RlxCompileOptions) options = g_object_new (RLX_TYPE_COMPILE_OPTIONS, "tuning", TRUE, NULL);
  g_autoptr(GCancellable) cancellable = g_cancellable_new ();
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(RlxGraph) graph = NULL;
  g_autoptr(GError) error = NULL;

  if (device == NULL)
    return;
  graph = make_graph ();
  g_timeout_add (10, rlx_test_cancel, cancellable);
  rlx_device_compile_async (device, graph, options, cancellable, rlx_test_keep_result, &result);
  while (result == NULL)
    g_main_context_iteration (NULL, TRUE);
  executable = rlx_device_compile_finish (device, result, &error);
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_assert_null (executable);
  g_assert_cmpuint (rlx_adapter_count_tuned_problems (rlx_device_get_adapter (device)), ==, 0);

  /* The next one is not blocked. */
  g_clear_object (&result);
  g_clear_error (&error);
  rlx_device_compile_async (device, graph, options, NULL, rlx_test_keep_result, &result);
  while (result == NULL)
    g_main_context_iteration (NULL, TRUE);
  executable = rlx_device_compile_finish (device, result, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (rlx_adapter_count_tuned_problems (rlx_device_get_adapter (device)), ==, 1);
}

int
main (int   argc,
      char *argv[])
{
  g_autofree char *folder = rlx_test_use_own_cache ();
  int status;

  g_test_init (&argc, &argv, NULL);

  rlx_test_add_with_empty_cache ("/tuning/bytes", test_bytes);
  rlx_test_add_with_empty_cache ("/tuning/bounded", test_bounded);
  rlx_test_add_with_empty_cache ("/tuning/other-driver", test_other_driver);
  rlx_test_add_with_empty_cache ("/tuning/choice", test_choice);
  rlx_test_add_with_empty_cache ("/tuning/measure", test_measure);
  rlx_test_add_with_empty_cache ("/tuning/wrong", test_wrong);
  rlx_test_add_with_empty_cache ("/tuning/problems", test_problems);
  rlx_test_add_with_empty_cache ("/tuning/cancel", test_cancel);

  status = g_test_run ();
  rlx_test_remove_tree (folder);
  return status;
}
