/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Each test has a cache of its own that is empty at the beginning.
 */
#include "config.h"

#include <string.h>

#include "rlx-adapter.h"
#include "rlx-calibration-private.h"
#include "rlx-device-private.h"
#include "rlx-test-util.h"
#include "rlx-tune-private.h"

#define ALL_PRODUCTS ((1u << RLX_N_PRODUCTS) - 1)

/* Whose tiles can be counted: 64 of 128, 256 of 64, 1024 of 32. */
static const RlxTunedShape large = {
  .m = 1024, .n = 1024, .k = 64, .n_batch = 1, .a_along_k = TRUE, .b_along_n = TRUE, .data_type = RLX_DATA_TYPE_F32,
};

/* ---- the file --------------------------------------------------------------------- */

static RlxTuning *
make_table (guint n_shapes)
{
  g_autoptr(GBytes) none = g_bytes_new ("\1\0\0\0", 4);
  RlxTuning *tuning = rlx_tuning_from_bytes (none);

  g_assert_nonnull (tuning);
  for (guint i = 0; i < n_shapes; i++)
    {
      RlxTunedShape shape = large;

      shape.m = i + 1;
      rlx_tuning_set (tuning, &shape, i % RLX_N_PRODUCTS);
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
  g_autoptr(RlxTuning) tuning = make_table (7);
  g_autoptr(RlxTuning) again = NULL;
  g_autoptr(GBytes) bytes = rlx_tuning_to_bytes (tuning);
  g_autoptr(GBytes) again_bytes = NULL;
  g_autofree char *text = g_strnfill (200, '1');
  GVariantBuilder builder;
  gsize size;
  const guint8 *data = g_bytes_get_data (bytes, &size);
  RlxTunedShape shape = large;

  again = rlx_tuning_from_bytes (bytes);
  g_assert_nonnull (again);
  again_bytes = rlx_tuning_to_bytes (again);
  g_assert_true (g_bytes_equal (bytes, again_bytes));
  g_assert_cmpuint (rlx_tuning_get_n_shapes (again), ==, 7);
  shape.m = 3;
  g_assert_cmpuint (rlx_tuning_look_up (again, &shape), ==, 2 % RLX_N_PRODUCTS);
  g_assert_cmpuint (rlx_tuning_get_missing (again)->len, ==, 0);

  /* Everything that is part of a shape makes another one. */
  for (guint i = 0; i < 7; i++)
    {
      RlxTunedShape other = shape;

      other.m += i == 0 ? 100 : 0;
      other.n += i == 1;
      other.k += i == 2;
      other.n_batch += i == 3;
      other.a_along_k ^= i == 4;
      other.is_weight ^= i == 5;
      other.data_type = i == 6 ? RLX_DATA_TYPE_F16 : other.data_type;
      g_assert_cmpuint (rlx_tuning_look_up (again, &other), ==, RLX_N_PRODUCTS);
      g_assert_cmpuint (rlx_tuning_look_up (again, &other), ==, RLX_N_PRODUCTS);
    }
  g_assert_cmpuint (rlx_tuning_get_missing (again)->len, ==, 7);
  g_assert_cmpfloat (g_array_index (rlx_tuning_get_missing (again), RlxMissingShape, 0).flops, ==, 2 * 2.0 * 103 * 1024 * 64);

  /* cut off, except where that is a table without shapes */
  for (gsize i = 0; i < size; i++)
    {
      g_autoptr(GBytes) part = g_bytes_new (data, i);
      g_autoptr(RlxTuning) read = rlx_tuning_from_bytes (part);

      g_assert_true (read == NULL || (i == 4 && rlx_tuning_get_n_shapes (read) == 0));
    }

  /* forged */
  g_assert_true (is_believed (g_variant_new_parsed ("(uint32 1, [('1x2x3x4 f32 nn', 'lanes')])")));
  g_assert_false (is_believed (g_variant_new_parsed ("(uint32 2, [('1x2x3x4 f32 nn', 'lanes')])")));
  g_assert_false (is_believed (g_variant_new_parsed ("(uint32 1, [('1x2x3x4 f32 nn', 'planes')])")));
  g_assert_false (is_believed (g_variant_new_parsed ("(uint32 1, [('1x2x3x4 f32 nn', '')])")));
  g_assert_false (is_believed (g_variant_new_parsed ("(uint32 1, [('', 'lanes')])")));
  g_assert_false (is_believed (g_variant_new_parsed ("(uint32 1, [('1x2\n', 'lanes')])")));
  g_assert_false (is_believed (g_variant_new_parsed ("(uint32 1, [('1', 'lanes'), ('1', 'lanes')])")));
  g_assert_false (is_believed (g_variant_new_parsed ("(uint32 1, [(%s, 'lanes')])", text)));
  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a(ss)"));
  for (guint i = 0; i <= RLX_TUNING_MAX_SHAPES; i++)
    {
      g_autofree char *key = g_strdup_printf ("%u", i);

      g_variant_builder_add (&builder, "(ss)", key, "lanes");
    }
  g_assert_false (is_believed (g_variant_new ("(ua(ss))", 1, &builder)));
}

static void
test_bounded (void)
{
  g_autoptr(RlxTuning) tuning = make_table (RLX_TUNING_MAX_SHAPES);
  g_autoptr(RlxTuning) read = NULL;
  g_autoptr(GBytes) bytes = rlx_tuning_to_bytes (tuning);
  RlxTunedShape shape = large;

  read = rlx_tuning_from_bytes (bytes);
  g_assert_nonnull (read);
  g_assert_cmpuint (rlx_tuning_get_n_shapes (read), ==, RLX_TUNING_MAX_SHAPES);
  shape.k = 7;
  rlx_tuning_set (read, &shape, 1);
  g_assert_cmpuint (rlx_tuning_get_n_shapes (read), ==, 1);
  g_assert_cmpuint (rlx_tuning_look_up (read, &shape), ==, 1);
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
  g_assert_cmpuint (rlx_tuning_get_n_shapes (same), ==, 3);
  g_assert_cmpuint (rlx_tuning_get_n_shapes (different), ==, 0);
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
make_graph (const RlxTunedShape *shape)
{
  g_autofree char *text = NULL;
  g_autoptr(GError) error = NULL;
  RlxGraph *graph;

  text = g_strdup_printf ("rlx 1\n%%0 = input \"a\" f32[%d, %d]\n%%1 = input \"b\" f32[%d, %d]\n%%2 = matmul(%%0, %%1)\noutput \"y\" %%2\n",
                          (int) shape->m, (int) shape->k, (int) shape->k, (int) shape->n);
  graph = rlx_graph_new_from_text (text, &error);
  g_assert_no_error (error);
  return graph;
}

static guint
count_groups (RlxDevice *device,
              RlxGraph  *graph,
              gboolean   tuning)
{
  g_autoptr(RlxExecutable) executable = compile (device, graph, tuning);
  guint n;
  const RlxGpuDispatch *dispatches;

  dispatches = rlx_executable_peek_dispatches (executable, &n);
  return dispatches[0].grid[0] * dispatches[0].grid[1] * dispatches[0].grid[2];
}

static guint
groups_of (RlxDevice        *device,
           RlxGraph         *graph,
           RlxProductVariant way)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxExecutable) executable = NULL;
  const RlxGpuDispatch *dispatches;
  RlxSpeeds only;
  guint n;

  rlx_speeds_guess (&only, rlx_gpu_get_info (rlx_device_get_gpu (device))->type);
  only.banned[RLX_FAMILY_PRODUCT] = ~(1u << way);
  executable = rlx_device_compile_for (device, graph, &only, NULL, &error);
  g_assert_no_error (error);
  dispatches = rlx_executable_peek_dispatches (executable, &n);
  return dispatches[0].grid[0] * dispatches[0].grid[1] * dispatches[0].grid[2];
}

/* What is stored is used by who tunes, and by nobody else. */
static void
test_choice (void)
{
  g_autoptr(RlxDevice) plain = open_device ();
  g_autoptr(RlxGraph) graph = NULL;
  const RlxGpuAdapterInfo *info;
  guint before;

  if (plain == NULL)
    return;
  graph = make_graph (&large);
  info = rlx_gpu_get_info (rlx_device_get_gpu (plain));
  before = count_groups (plain, graph, FALSE);
  for (guint i = 0; i < RLX_N_PRODUCTS; i++)
    {
      g_autoptr(RlxTuning) tuning = make_table (0);
      g_autoptr(RlxDevice) device = NULL;
      guint expected;

      rlx_tuning_set (tuning, &large, i);
      g_assert_true (rlx_tuning_store (tuning, info));
      device = open_device ();
      /* Matrix units are of no use to a graph of full precision, whatever the table says. */
      expected = i == RLX_PRODUCT_MATRIX ? before : groups_of (device, graph, i);
      g_assert_cmpuint (count_groups (device, graph, TRUE), ==, expected);
      /* the same again, and with another table that came in between */
      g_assert_cmpuint (count_groups (device, graph, TRUE), ==, expected);
      g_assert_cmpuint (count_groups (plain, graph, FALSE), ==, before);
      g_assert_cmpuint (count_groups (device, graph, FALSE), ==, before);
    }
}

static GBytes *
multiply (RlxDevice *device,
          RlxGraph  *graph)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxExecutable) executable = compile (device, graph, TRUE);
  g_autofree float *numbers = g_new (float, large.m * large.k);
  g_autofree RlxTensor **outputs = NULL;
  g_autoptr(RlxTensor) a = NULL, b = NULL, y = NULL;
  gsize n;

  g_assert_no_error (error);
  for (guint i = 0; i < large.m * large.k; i++)
    numbers[i] = (float) (i * 7 % 1013) / 97.0f;
  a = rlx_tensor_new_from_floats ((gint64[]) { large.m, large.k }, 2, numbers, large.m * large.k, &error);
  b = rlx_tensor_new_from_floats ((gint64[]) { large.k, large.n }, 2, numbers, large.k * large.n, &error);
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

/* A file that is of no use is replaced; what was measured is the same for all. */
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
  graph = make_graph (&large);
  adapter = rlx_device_get_adapter (device);
  g_assert_true (rlx_gpu_notes_store (rlx_gpu_get_info (rlx_device_get_gpu (device)), RLX_TUNING_NOTES, junk));
  g_assert_cmpuint (rlx_adapter_count_tuned_shapes (adapter), ==, 0);

  first = multiply (device, graph);
  g_assert_cmpuint (rlx_adapter_count_tuned_shapes (adapter), ==, 1);
  /* Once is enough, here and in any other process. */
  before = count_dispatches (device);
  second = multiply (device, graph);
  g_assert_cmpuint (count_dispatches (device) - before, <=, 4);
  again = open_device ();
  before = count_dispatches (again);
  third = multiply (again, graph);
  g_assert_cmpuint (count_dispatches (again) - before, <=, 8);
  g_assert_true (g_bytes_equal (first, second));
  g_assert_true (g_bytes_equal (first, third));
  g_assert_cmpuint (rlx_adapter_count_tuned_shapes (adapter), ==, 1);
}

/* What a way that is wrong takes does not matter. */
static void
test_wrong (void)
{
  g_autoptr(RlxDevice) device = open_device ();
  g_autoptr(RlxDevice) plain = open_device ();
  g_autoptr(RlxGraph) graph = NULL;

  if (device == NULL)
    return;
  graph = make_graph (&large);
  rlx_calibrate_set_test (ALL_PRODUCTS, TRUE);
  g_assert_cmpuint (count_groups (device, graph, TRUE), ==, count_groups (plain, graph, FALSE));
  g_assert_cmpuint (rlx_adapter_count_tuned_shapes (rlx_device_get_adapter (device)), ==, 0);
  rlx_calibrate_set_test (ALL_PRODUCTS & ~(1u << RLX_PRODUCT_TILES_64), TRUE);
  g_assert_cmpuint (count_groups (device, graph, TRUE), ==, groups_of (device, graph, RLX_PRODUCT_TILES_64));
  rlx_calibrate_set_test (0, TRUE);
  g_assert_cmpuint (rlx_adapter_count_tuned_shapes (rlx_device_get_adapter (device)), ==, 1);
}

/* Transposed, batched and constant operands, and f16, are measured as they are; what
 * takes little of the time, and whole numbers, are not. */
static void
test_shapes (void)
{
  static const char *const texts[] = {
    "rlx 1\n%0 = input \"a\" f32[64, 96]\n%1 = input \"b\" f32[128, 64]\n%2 = matmul(%0, %1) {transpose_a = true, transpose_b = true}\noutput \"y\" %2\n",
    "rlx 1\n%0 = input \"a\" f32[5, 96, 64]\n%1 = input \"b\" f32[5, 64, 128]\n%2 = matmul(%0, %1)\noutput \"y\" %2\n",
    "rlx 1\n%0 = input \"a\" f16[96, 64]\n%1 = parameter \"b\" f16[64, 128]\n%2 = matmul(%0, %1)\noutput \"y\" %2\n",
    "rlx 1\n%0 = input \"a\" f32[96, 64]\n%1 = parameter \"b\" f32[64, 128]\n%2 = parameter \"c\" f32[128]\n%3 = linear(%0, %1, %2)\n%4 = gelu(%3)\noutput \"y\" %4\n",
  };
  g_autoptr(RlxDevice) device = open_device ();
  g_autoptr(RlxGraph) small = NULL;
  g_autoptr(GError) error = NULL;

  if (device == NULL)
    return;
  rlx_calibrate_set_test (0, TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      g_autoptr(RlxGraph) graph = rlx_graph_new_from_text (texts[i], &error);

      g_assert_no_error (error);
      count_groups (device, graph, TRUE);
      g_assert_cmpuint (rlx_adapter_count_tuned_shapes (rlx_device_get_adapter (device)), ==, i + 1);
    }

  small = rlx_graph_new_from_text ("rlx 1\n%0 = input \"a\" f32[40, 8]\n%1 = input \"b\" f32[8, 9]\n%2 = matmul(%0, %1)\n"
                                   "%3 = input \"x\" f32[4000000]\n%4 = exp(%3)\noutput \"y\" %2\noutput \"z\" %4\n", &error);
  g_assert_no_error (error);
  count_groups (device, small, TRUE);
  g_assert_cmpuint (rlx_adapter_count_tuned_shapes (rlx_device_get_adapter (device)), ==, G_N_ELEMENTS (texts));
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
  rlx_calibrate_set_test (0, FALSE);
  graph = make_graph (&large);
  g_timeout_add (10, rlx_test_cancel, cancellable);
  rlx_device_compile_async (device, graph, options, cancellable, rlx_test_keep_result, &result);
  while (result == NULL)
    g_main_context_iteration (NULL, TRUE);
  executable = rlx_device_compile_finish (device, result, &error);
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_assert_null (executable);
  g_assert_cmpuint (rlx_adapter_count_tuned_shapes (rlx_device_get_adapter (device)), ==, 0);

  /* Nothing is in the way of the next one. */
  rlx_calibrate_set_test (0, TRUE);
  g_clear_object (&result);
  g_clear_error (&error);
  rlx_device_compile_async (device, graph, options, NULL, rlx_test_keep_result, &result);
  while (result == NULL)
    g_main_context_iteration (NULL, TRUE);
  executable = rlx_device_compile_finish (device, result, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (rlx_adapter_count_tuned_shapes (rlx_device_get_adapter (device)), ==, 1);
}

int
main (int   argc,
      char *argv[])
{
  g_autofree char *folder = rlx_test_use_own_cache ();
  int status;

  g_test_init (&argc, &argv, NULL);
  rlx_calibrate_set_test (0, TRUE);

  rlx_test_add_with_empty_cache ("/tuning/bytes", test_bytes);
  rlx_test_add_with_empty_cache ("/tuning/bounded", test_bounded);
  rlx_test_add_with_empty_cache ("/tuning/other-driver", test_other_driver);
  rlx_test_add_with_empty_cache ("/tuning/choice", test_choice);
  rlx_test_add_with_empty_cache ("/tuning/measure", test_measure);
  rlx_test_add_with_empty_cache ("/tuning/wrong", test_wrong);
  rlx_test_add_with_empty_cache ("/tuning/shapes", test_shapes);
  rlx_test_add_with_empty_cache ("/tuning/cancel", test_cancel);

  status = g_test_run ();
  rlx_test_remove_tree (folder);
  return status;
}
