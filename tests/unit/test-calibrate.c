/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Each test has a cache of its own that is empty at the beginning: nothing that
 * is measured here reaches another test.
 */
#include "config.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ops/rlx-product-private.h"
#include "rlx-calibration-private.h"
#include "rlx-device-private.h"
#include "rlx-graph-private.h"
#include "rlx-test-util.h"
#include "rlx-timing-private.h"
#include "rlx-trial-private.h"
#include "util/rlx-debug-private.h"

#define ALL_PRODUCTS ((1u << RLX_N_PRODUCTS) - 1)
/* Families to be measured in tests that are not about them. */
#define FEW (1u << RLX_FAMILY_PRODUCT | 1u << RLX_FAMILY_SCAN)
/* Not every device has matrix units, and rows shared by subgroups. */
#define PLAIN_PRODUCTS (ALL_PRODUCTS & ~(1u << RLX_PRODUCT_MATRIX | 1u << RLX_PRODUCT_ROWS))

static const RlxSpeeds possible = {
  .measured = TRUE,
  .flops = 3e10,
  .flops_f16 = 4e10,
  .bandwidth = 5e9,
  .transfer = 2e9,
  .dispatch_time = 4e-6,
  .round_trip_time = 9e-5,
  .spread = 1.1,
};

/* Rates of the products, and the resulting times for 2 · 512³ operations. */
static const double possible_rates[] = { 7e10, 0.0, 1e10, 2e10, 5e9, 4e9, 1e9, 3e10 };
G_STATIC_ASSERT (G_N_ELEMENTS (possible_rates) == RLX_N_PRODUCTS);

/* 0: not measured. */
static void
set_rate (RlxSpeeds *speeds,
          guint      row,
          double     rate)
{
  speeds->variants[RLX_FAMILY_PRODUCT][row] =
    rate != 0.0 ? (RlxMeasurement) { 2.0 * 512 * 512 * 512 / rate, rate, speeds->flops / rate } : (RlxMeasurement) { 0 };
}

static RlxSpeeds
get_possible (void)
{
  RlxSpeeds speeds = possible;

  for (guint i = 0; i < RLX_N_PRODUCTS; i++)
    set_rate (&speeds, i, possible_rates[i]);
  speeds.variants[RLX_FAMILY_COPY][0] = (RlxMeasurement) { 2e-4, 0.0, 1.5 };
  return speeds;
}

static GBytes *
to_bytes (const RlxSpeeds *speeds)
{
  g_autoptr(RlxCalibration) calibration = rlx_calibration_new (speeds);

  return rlx_calibration_to_bytes (calibration);
}

static gboolean
is_believed (const RlxSpeeds *speeds)
{
  g_autoptr(GBytes) bytes = to_bytes (speeds);
  g_autoptr(RlxCalibration) calibration = rlx_calibration_from_bytes (bytes);

  return calibration != NULL;
}

static gboolean
bytes_are_believed (const guint8 *data,
                    gsize         size)
{
  g_autoptr(GBytes) bytes = g_bytes_new (data, size);
  g_autoptr(RlxCalibration) calibration = rlx_calibration_from_bytes (bytes);

  return calibration != NULL;
}

static void
assert_same (const RlxSpeeds *a,
             const RlxSpeeds *b)
{
  g_autoptr(GBytes) bytes_a = to_bytes (a);
  g_autoptr(GBytes) bytes_b = to_bytes (b);

  g_assert_true (g_bytes_equal (bytes_a, bytes_b));
  g_assert_cmpint (a->measured, ==, b->measured);
}

/* ---- the file --------------------------------------------------------------------- */

/* The names of the kernels for products, either the wrong or the correct ones. */
static char **
list_kernels (RlxCalibration *calibration,
              gboolean        wrong)
{
  g_autoptr(GStrvBuilder) names = g_strv_builder_new ();

  for (guint i = 0; i < g_list_model_get_n_items (G_LIST_MODEL (calibration)); i++)
    {
      g_autoptr(RlxCalibrationKernel) kernel = g_list_model_get_item (G_LIST_MODEL (calibration), i);

      g_assert_true (rlx_calibration_kernel_get_wrong (kernel) == (rlx_calibration_kernel_get_time (kernel) == 0.0));
      if (rlx_calibration_kernel_get_wrong (kernel) == wrong && g_str_equal (rlx_calibration_kernel_get_family (kernel), "product"))
        g_strv_builder_add (names, rlx_calibration_kernel_get_name (kernel));
    }
  return g_strv_builder_end (names);
}

static double
get_rate (RlxCalibration *calibration,
          const char     *name)
{
  for (guint i = 0; i < g_list_model_get_n_items (G_LIST_MODEL (calibration)); i++)
    {
      g_autoptr(RlxCalibrationKernel) kernel = g_list_model_get_item (G_LIST_MODEL (calibration), i);
      g_autofree char *this_name = NULL, *family = NULL;
      gboolean wrong;
      double rate, seconds;

      g_object_get (kernel, "family", &family, "name", &this_name, "flops", &rate, "time", &seconds, "wrong", &wrong, NULL);
      g_assert_true (wrong || seconds > 0.0);
      if (g_str_equal (this_name, name) && g_str_equal (family, "product"))
        {
          g_assert_false (wrong);
          return rate;
        }
    }
  return 0.0;
}

static void
test_round_trip (void)
{
  RlxSpeeds speeds = get_possible ();

  for (guint banned = 0; banned <= ALL_PRODUCTS; banned++)
    {
      g_autoptr(GBytes) bytes = NULL;
      g_autoptr(RlxCalibration) calibration = NULL;
      g_auto(GStrv) wrong = NULL, right = NULL;

      speeds.banned[RLX_FAMILY_PRODUCT] = banned;
      for (guint i = 0; i < RLX_N_PRODUCTS; i++)
        set_rate (&speeds, i, banned >> i & 1 ? 0.0 : possible_rates[i]);
      speeds.flops = rlx_speeds_get_best (&speeds);
      bytes = to_bytes (&speeds);
      calibration = rlx_calibration_from_bytes (bytes);
      if ((banned & PLAIN_PRODUCTS) == PLAIN_PRODUCTS)
        {
          g_assert_null (calibration);
          continue;
        }
      g_assert_nonnull (calibration);
      assert_same (rlx_calibration_get_speeds (calibration), &speeds);

      wrong = list_kernels (calibration, TRUE);
      right = list_kernels (calibration, FALSE);
      /* not every device supports rows shared by subgroups */
      g_assert_cmpuint (g_strv_length (wrong) + g_strv_length (right), ==, RLX_N_PRODUCTS - !(banned >> RLX_PRODUCT_ROWS & 1));
    }

  /* a device without matrix units */
  speeds = get_possible ();
  set_rate (&speeds, RLX_PRODUCT_MATRIX, 0.0);
  g_assert_true (is_believed (&speeds));
  set_rate (&speeds, RLX_PRODUCT_MATRIX, NAN);
  g_assert_false (is_believed (&speeds));
}

static void
test_units (void)
{
  RlxSpeeds speeds = get_possible ();
  g_autoptr(RlxCalibration) calibration = rlx_calibration_new (&speeds);
  double dispatch_time;

  g_assert_cmpfloat (rlx_calibration_get_flops (calibration), ==, 30e9);
  g_assert_cmpfloat (rlx_calibration_get_flops_f16 (calibration), ==, 40e9);
  g_assert_cmpfloat (rlx_calibration_get_bandwidth (calibration), ==, 5e9);
  g_assert_cmpfloat (rlx_calibration_get_transfer_rate (calibration), ==, 2e9);
  g_assert_cmpfloat (rlx_calibration_get_round_trip_time (calibration), ==, 9e-5);
  g_object_get (calibration, "dispatch-time", &dispatch_time, NULL);
  g_assert_cmpfloat (dispatch_time, ==, 4e-6);
  g_assert_cmpfloat (rlx_calibration_get_spread (calibration), ==, 1.1);
  g_assert_cmpfloat (get_rate (calibration, "tiles-64"), ==, 20e9);
}

static void
assert_problem (const RlxSpeeds *speeds,
                const char      *words)
{
  g_autofree char *problem = rlx_speeds_find_problem (speeds);

  g_assert_false (is_believed (speeds));
  g_assert_nonnull (problem);
  if (strstr (problem, words) == NULL)
    g_error ("“%s” is not in “%s”", words, problem);
}

static void
test_impossible (void)
{
  static const double bad[] = { NAN, -NAN, INFINITY, -INFINITY, 0.0, -0.0, -1.0, -3e10, 1e300, 1e-300 };
  RlxSpeeds speeds;

  speeds = get_possible ();
  g_assert_true (is_believed (&speeds));
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      double *const places[] = {
        &speeds.flops, &speeds.flops_f16, &speeds.bandwidth, &speeds.transfer,
        &speeds.dispatch_time, &speeds.round_trip_time, &speeds.spread, &speeds.variants[RLX_FAMILY_PRODUCT][RLX_PRODUCT_LANES].flops,
        &speeds.variants[RLX_FAMILY_COPY][0].seconds, &speeds.variants[RLX_FAMILY_COPY][0].factor,
      };

      for (guint j = 0; j < G_N_ELEMENTS (places); j++)
        {
          speeds = get_possible ();
          *places[j] = bad[i];
          g_assert_false (is_believed (&speeds));
        }
    }

  /* measured on a busy machine; each on its own is merely unusual */
  speeds = get_possible ();
  speeds.bandwidth = 1e13;
  speeds.transfer = 8.388608e12;
  assert_problem (&speeds, "a transfer rate of 8388.61 GB/s, where 0.0001 to 2000 are possible");
  speeds.transfer = 9e11;
  g_assert_true (is_believed (&speeds));
  speeds.bandwidth = 5e9;
  assert_problem (&speeds, "a transfer rate of 900 GB/s beside a memory bandwidth of 5 GB/s");
  speeds = get_possible ();
  speeds.dispatch_time = 0.5;
  assert_problem (&speeds, "500000 µs for a dispatch beside 90 µs for a round trip");
  speeds.dispatch_time = 4e-9;
  assert_problem (&speeds, "the time of a dispatch of 0.004 µs");
  /* not the rate of the best product */
  speeds = get_possible ();
  speeds.flops = 2e10;
  g_assert_false (is_believed (&speeds));
  /* wrong, and yet with a rate */
  speeds = get_possible ();
  speeds.banned[RLX_FAMILY_PRODUCT] = 1u << RLX_PRODUCT_TILES_64;
  g_assert_false (is_believed (&speeds));
  /* nothing left */
  speeds = get_possible ();
  speeds.banned[RLX_FAMILY_PRODUCT] = ALL_PRODUCTS;
  memset (speeds.variants, 0, sizeof speeds.variants);
  g_assert_false (is_believed (&speeds));
}

static void
test_damaged_bytes (void)
{
  RlxSpeeds speeds = get_possible ();
  g_autoptr(GBytes) bytes = to_bytes (&speeds);
  g_autoptr(GRand) random = g_rand_new_with_seed (5);
  gsize size;
  const guint8 *data = g_bytes_get_data (bytes, &size);
  g_autofree guint8 *copy = g_malloc0 (size * 100);

  memcpy (copy, data, size);
  for (gsize i = 0; i < size; i++)
    g_assert_false (bytes_are_believed (copy, i));
  for (gsize i = 1; i < 20; i++)
    g_assert_false (bytes_are_believed (copy, size + i));
  g_assert_false (bytes_are_believed (copy, size * 100));

  /* another version */
  copy[0] ^= 2;
  g_assert_false (bytes_are_believed (copy, size));
  copy[0] ^= 2;
  /* another name */
  for (gsize i = 0; i + 5 < size; i++)
    if (memcmp (copy + i, "lanes", 5) == 0)
      {
        copy[i] = 'p';
        g_assert_false (bytes_are_believed (copy, size));
        copy[i] = 'l';
      }
  g_assert_true (bytes_are_believed (copy, size));

  /* Plausible numbers may pass here, but nothing else. */
  for (guint i = 0; i < 3000; i++)
    {
      g_autoptr(GBytes) wild = NULL;
      g_autoptr(RlxCalibration) calibration = NULL;

      memcpy (copy, data, size);
      for (guint j = 0; j < 1 + i % 40; j++)
        copy[g_rand_int_range (random, 0, (gint32) size)] = (guint8) g_rand_int (random);
      wild = g_bytes_new (copy, size);
      calibration = rlx_calibration_from_bytes (wild);
      if (calibration != NULL)
        g_assert_true (is_believed (rlx_calibration_get_speeds (calibration)));
    }
}

/* ---- in the cache ------------------------------------------------------------------ */

static RlxGpuAdapterInfo
fake_adapter (const char *driver)
{
  return (RlxGpuAdapterInfo) {
    .name = (char *) "an adapter", .vendor = (char *) "a vendor", .architecture = (char *) "",
    .driver = (char *) driver, .backend = (char *) "vulkan", .vendor_id = 1, .device_id = 2,
  };
}

/* The only file of the cache. */
static char *
find_file (void)
{
  g_autofree char *versions = g_build_filename (g_get_user_cache_dir (), "rlx-wgpu", "v1", NULL);
  g_autoptr(GDir) dir = g_dir_open (versions, 0, NULL);
  char *found = NULL;
  const char *folder, *name;

  while ((folder = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *path = g_build_filename (versions, folder, NULL);
      g_autoptr(GDir) files = g_dir_open (path, 0, NULL);

      while ((name = g_dir_read_name (files)) != NULL)
        {
          g_assert_null (found);
          found = g_build_filename (path, name, NULL);
        }
    }
  return found;
}

static gboolean
is_stored (const RlxGpuAdapterInfo *info)
{
  g_autoptr(RlxCalibration) calibration = rlx_calibration_load (info);

  return calibration != NULL;
}

static void
test_damaged_file (void)
{
  RlxGpuAdapterInfo info = fake_adapter ("1.0");
  RlxSpeeds speeds = get_possible ();
  g_autoptr(RlxCalibration) calibration = rlx_calibration_new (&speeds);
  g_autoptr(RlxCalibration) loaded = NULL;
  g_autofree char *path = NULL;
  g_autofree char *data = NULL;
  gsize size;

  /* A lookup creates nothing. */
  g_assert_false (is_stored (&info));
  path = g_build_filename (g_get_user_cache_dir (), "rlx-wgpu", NULL);
  g_assert_false (g_file_test (path, G_FILE_TEST_EXISTS));

  g_assert_true (rlx_calibration_store (calibration, &info));
  loaded = rlx_calibration_load (&info);
  g_assert_nonnull (loaded);
  assert_same (rlx_calibration_get_speeds (loaded), &speeds);
  g_free (path);
  path = find_file ();
  g_assert_true (g_file_get_contents (path, &data, &size, NULL));

  for (gsize i = 0; i < size; i += 5)
    {
      data[i] ^= (char) (1 << i % 8);
      g_assert_true (g_file_set_contents_full (path, data, (gssize) size, G_FILE_SET_CONTENTS_NONE, 0600, NULL));
      g_assert_false (is_stored (&info));
      data[i] ^= (char) (1 << i % 8);
    }
  for (gsize i = 0; i < size; i += 61)
    {
      g_assert_true (g_file_set_contents_full (path, data, (gssize) i, G_FILE_SET_CONTENTS_NONE, 0600, NULL));
      g_assert_false (is_stored (&info));
    }

  /* a link, a folder, a FIFO */
  {
    g_autofree char *elsewhere = g_build_filename (g_get_user_cache_dir (), "elsewhere", NULL);

    g_assert_true (g_file_set_contents_full (elsewhere, data, (gssize) size, G_FILE_SET_CONTENTS_NONE, 0600, NULL));
    g_assert_cmpint (g_unlink (path), ==, 0);
    g_assert_cmpint (symlink (elsewhere, path), ==, 0);
    g_assert_false (is_stored (&info));
    g_assert_cmpint (g_unlink (path), ==, 0);
    g_assert_cmpint (mkfifo (path, 0600), ==, 0);
    g_assert_false (is_stored (&info));
    g_assert_cmpint (g_unlink (path), ==, 0);
    g_assert_cmpint (g_mkdir (path, 0700), ==, 0);
    g_assert_false (is_stored (&info));
    g_assert_false (rlx_calibration_store (calibration, &info));
    g_assert_cmpint (g_rmdir (path), ==, 0);
  }

  /* and intact again */
  g_assert_true (rlx_calibration_store (calibration, &info));
  g_assert_true (is_stored (&info));
}

/* Valid checksums, but numbers that were never measured. */
static void
test_forged_file (void)
{
  RlxGpuAdapterInfo info = fake_adapter ("1.0");
  RlxSpeeds forged = get_possible ();
  g_autoptr(RlxCalibration) calibration = NULL;

  forged.bandwidth = NAN;
  calibration = rlx_calibration_new (&forged);
  g_assert_true (rlx_calibration_store (calibration, &info));
  g_assert_false (is_stored (&info));
}

static void
test_other_driver (void)
{
  RlxGpuAdapterInfo one = fake_adapter ("1.0");
  RlxGpuAdapterInfo other = fake_adapter ("1.1");
  RlxSpeeds speeds = get_possible ();
  g_autoptr(RlxCalibration) calibration = rlx_calibration_new (&speeds);
  g_autofree char *from = NULL, *to = NULL, *data = NULL;
  gsize size;

  g_assert_true (rlx_calibration_store (calibration, &one));
  g_assert_false (is_stored (&other));
  from = find_file ();
  g_assert_true (g_file_get_contents (from, &data, &size, NULL));
  g_assert_cmpint (g_unlink (from), ==, 0);

  /* in place of the other driver's file */
  g_assert_true (rlx_calibration_store (calibration, &other));
  to = find_file ();
  g_assert_cmpstr (from, !=, to);
  g_assert_true (is_stored (&other));
  g_assert_true (g_file_set_contents_full (to, data, (gssize) size, G_FILE_SET_CONTENTS_NONE, 0600, NULL));
  g_assert_false (is_stored (&other));
}

/* ---- measuring ---------------------------------------------------------------------- */

/* Tests of times use these: those of the machine are unpredictable. */
static double
calm (guint    n_dispatches,
      gboolean is_run)
{
  return 2e-5 + 1e-3 * n_dispatches + (is_run ? 2e-3 : 0.0);
}

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

static RlxGraph *
matmul_graph (gint64 m,
              gint64 k,
              gint64 n)
{
  g_autofree char *text = g_strdup_printf ("rlx 1\n%%0 = input \"a\" f32[%d, %d]\n%%1 = input \"b\" f32[%d, %d]\n%%2 = matmul(%%0, %%1)\noutput \"y\" %%2\n",
                                           (int) m, (int) k, (int) k, (int) n);
  g_autoptr(GError) error = NULL;
  RlxGraph *graph = rlx_graph_new_from_text (text, &error);

  g_assert_no_error (error);
  return graph;
}

/* Integers, so that the correct result is the same for every kernel. */
static GBytes *
multiply (RlxDevice *device)
{
  g_autoptr(RlxGraph) graph = matmul_graph (70, 36, 100);
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxExecutable) executable = rlx_device_compile (device, graph, NULL, NULL, &error);
  g_autofree float *a = g_new (float, 70 * 36), *b = g_new (float, 36 * 100);
  g_autofree float *expected = g_new0 (float, 70 * 100);
  g_autofree RlxTensor **outputs = NULL;
  g_autoptr(RlxTensor) x = NULL, w = NULL, y = NULL;
  GBytes *bytes;
  gsize n;

  g_assert_no_error (error);
  for (int i = 0; i < 70 * 36; i++)
    a[i] = (float) (i * 7 % 31 - 15);
  for (int i = 0; i < 36 * 100; i++)
    b[i] = (float) (i * 5 % 23 - 11);
  for (int i = 0; i < 70; i++)
    for (int j = 0; j < 100; j++)
      for (int k = 0; k < 36; k++)
        expected[i * 100 + j] += a[i * 36 + k] * b[k * 100 + j];

  x = rlx_tensor_new_from_floats ((gint64[]) { 70, 36 }, 2, a, 70 * 36, NULL);
  w = rlx_tensor_new_from_floats ((gint64[]) { 36, 100 }, 2, b, 36 * 100, NULL);
  outputs = rlx_executable_run (executable, (RlxTensor *[]) { x, w }, 2, &n, NULL, &error);
  g_assert_no_error (error);
  y = outputs[0];
  bytes = g_bytes_ref (rlx_tensor_get_bytes (y));
  g_assert_cmpmem (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes), expected, 70 * 100 * sizeof (float));
  return bytes;
}

/* Nothing is wrong here, and every variant supports one of the samples on one device or another. */
static void
assert_all_measured (RlxCalibration *calibration)
{
  const RlxSpeeds *speeds = rlx_calibration_get_speeds (calibration);
  guint n = 0;

  for (RlxFamily i = 0; i < RLX_N_FAMILIES; i++)
    {
      g_assert_cmpuint (speeds->banned[i], ==, 0);
      for (guint j = 0; j < rlx_variants_get (i)->n_variants; j++)
        if (speeds->variants[i][j].seconds > 0.0)
          n++;
        else
          g_test_message ("not measured: %s %s", rlx_variants_get (i)->name, rlx_variants_get (i)->variants[j].name);
      g_assert_cmpfloat (speeds->variants[i][rlx_variants_get (i)->n_variants - 1].seconds, >, 0.0);
    }
  g_assert_cmpuint (g_list_model_get_n_items (G_LIST_MODEL (calibration)), ==, n);
}

static void
assert_measured (RlxCalibration *calibration)
{
  g_auto(GStrv) right = list_kernels (calibration, FALSE), wrong = list_kernels (calibration, TRUE);
  guint n_special = g_strv_contains ((const char *const *) right, "matrix") + g_strv_contains ((const char *const *) right, "rows");

  g_assert_cmpuint (g_strv_length (right), ==, RLX_N_PRODUCTS - 2 + n_special);
  g_assert_cmpuint (g_strv_length (wrong), ==, 0);
  /* Within a factor of 1,000 of any computing device. */
  g_assert_cmpfloat (rlx_calibration_get_flops (calibration), >, 1e6);
  g_assert_cmpfloat (rlx_calibration_get_flops_f16 (calibration), >, 1e6);
  g_assert_cmpfloat (rlx_calibration_get_bandwidth (calibration), >, 1e6);
  g_assert_cmpfloat (rlx_calibration_get_transfer_rate (calibration), >, 1e6);
  g_assert_cmpfloat (rlx_calibration_get_dispatch_time (calibration), >, 0.0);
  g_assert_cmpfloat (rlx_calibration_get_round_trip_time (calibration), >, rlx_calibration_get_dispatch_time (calibration) / 100);
}

/* From no calibration to a device that calibrates itself, and another that is given the result. */
static void
test_device (void)
{
  g_autoptr(RlxDevice) device = open_device ();
  g_autoptr(RlxDevice) again = NULL;
  g_autoptr(RlxCalibration) none = NULL, calibration = NULL, own = NULL, of_adapter = NULL;
  g_autoptr(GBytes) before = NULL, after = NULL, elsewhere = NULL;
  g_autoptr(GError) error = NULL;
  guint n_notified = 0;

  if (device == NULL)
    return;
  rlx_calibrate_set_test (TRUE, rlx_test_is_thorough () ? G_MAXUINT32 : FEW);
  g_assert_null (rlx_device_get_calibration (device));
  g_assert_null (rlx_adapter_load_calibration (rlx_device_get_adapter (device)));
  before = multiply (device);

  g_signal_connect (device, "notify::calibration", G_CALLBACK (rlx_test_count_notify), &n_notified);
  calibration = rlx_device_calibrate (device, NULL, &error);
  g_assert_no_error (error);
  assert_measured (calibration);
  if (rlx_test_is_thorough ())
    assert_all_measured (calibration);
  g_object_get (device, "calibration", &own, NULL);
  g_assert_true (own == calibration);
  while (n_notified == 0)
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpuint (n_notified, ==, 1);

  of_adapter = rlx_adapter_load_calibration (rlx_device_get_adapter (device));
  g_assert_nonnull (of_adapter);
  assert_same (rlx_calibration_get_speeds (of_adapter), rlx_calibration_get_speeds (calibration));
  again = open_device ();
  g_assert_nonnull (rlx_device_get_calibration (again));
  assert_same (rlx_calibration_get_speeds (rlx_device_get_calibration (again)), rlx_calibration_get_speeds (calibration));

  after = multiply (device);
  elsewhere = multiply (again);
  g_assert_true (g_bytes_equal (before, after));
  g_assert_true (g_bytes_equal (after, elsewhere));
}

/* Times on a busy machine, where everything takes equally long and nothing remains after
 * subtracting the overhead, and how many of them come before it is idle. */
static int n_busy;

static double
busy_for_a_while (guint    n_dispatches,
                  gboolean is_run)
{
  return g_atomic_int_add (&n_busy, -1) > 0 ? 5e-3 : calm (n_dispatches, is_run);
}

static void
test_busy (void)
{
  g_autoptr(RlxDevice) device = open_device ();
  RlxSpeeds speeds = get_possible ();
  g_autoptr(RlxCalibration) before = rlx_calibration_new (&speeds);
  g_autoptr(RlxCalibration) refused = NULL, kept = NULL, calibration = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *path = NULL;
  RlxAdapter *adapter;

  if (device == NULL)
    return;
  adapter = rlx_device_get_adapter (device);
  g_assert_true (rlx_calibration_store (before, rlx_gpu_get_info (rlx_device_get_gpu (device))));
  rlx_calibrate_set_test (FALSE, FEW);

  g_atomic_int_set (&n_busy, G_MAXINT);
  rlx_timing_set_test_model (busy_for_a_while);
  refused = rlx_device_calibrate (device, NULL, &error);
  g_assert_null (refused);
  g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_FAILED);
  g_assert_nonnull (strstr (error->message, "busy"));
  g_clear_error (&error);
  g_assert_null (rlx_device_get_calibration (device));
  kept = rlx_adapter_load_calibration (adapter);
  assert_same (rlx_calibration_get_speeds (kept), &speeds);

  /* Only temporarily: long enough for the empty job. */
  g_atomic_int_set (&n_busy, 20);
  calibration = rlx_device_calibrate (device, NULL, &error);
  rlx_timing_set_test_model (calm);
  g_assert_no_error (error);
  g_assert_cmpint (g_atomic_int_get (&n_busy), <, 0);
  assert_measured (calibration);
  g_clear_object (&kept);
  kept = rlx_adapter_load_calibration (adapter);
  assert_same (rlx_calibration_get_speeds (kept), rlx_calibration_get_speeds (calibration));

  path = rlx_adapter_dup_calibration_path (adapter);
  g_assert_true (g_file_test (path, G_FILE_TEST_IS_REGULAR));
  for (guint i = 0; i < 2; i++)
    {
      g_assert_true (rlx_adapter_forget_calibration (adapter, &error));
      g_assert_no_error (error);
      g_assert_false (g_file_test (path, G_FILE_TEST_EXISTS));
      g_assert_null (rlx_adapter_load_calibration (adapter));
    }
  g_assert_true (rlx_device_get_calibration (device) == calibration);
  g_assert_cmpint (g_mkdir (path, 0700), ==, 0);
  g_assert_false (rlx_adapter_forget_calibration (adapter, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_IS_DIRECTORY);
  g_assert_cmpint (g_rmdir (path), ==, 0);
}

static void
test_times (void)
{
  double values[] = { 9, 2, 3, 100, 4, 2.5, 8, 1 }, alone = 7, rest, spread;

  g_assert_cmpfloat (rlx_timing_get_low (values, G_N_ELEMENTS (values), &spread), ==, 2.5);
  g_assert_cmpfloat_with_epsilon (spread, 4 / 2.5, 1e-12);
  g_assert_cmpfloat (rlx_timing_get_low (&alone, 1, &spread), ==, 7);
  g_assert_cmpfloat (spread, ==, 1);

  g_assert_true (rlx_timing_subtract (10e-3, 7e-3, &rest));
  g_assert_cmpfloat_with_epsilon (rest, 3e-3, 1e-12);
  g_assert_false (rlx_timing_subtract (10e-3, 9e-3, &rest));
  g_assert_cmpfloat_with_epsilon (rest, 2e-3, 1e-12);
  g_assert_false (rlx_timing_subtract (10e-3, 40e-3, &rest));
  g_assert_cmpfloat_with_epsilon (rest, 2e-3, 1e-12);
  g_assert_false (rlx_timing_subtract (0, 0, &rest));
  g_assert_cmpfloat (rest, >, 0);
}

/* The kernel for CPUs, the largest tiles and one of two scans are wrong; the previous file
 * was damaged. */
static void
test_wrong (void)
{
  g_autoptr(RlxDevice) device = open_device ();
  g_autoptr(RlxDevice) again = NULL;
  g_autoptr(RlxCalibration) bad = NULL, calibration = NULL;
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(GBytes) bytes = NULL, again_bytes = NULL;
  g_auto(GStrv) wrong = NULL;
  RlxSpeeds forged = get_possible ();

  if (device == NULL)
    return;
  forged.flops = INFINITY;
  bad = rlx_calibration_new (&forged);
  g_assert_true (rlx_calibration_store (bad, rlx_gpu_get_info (rlx_device_get_gpu (device))));
  again = open_device ();
  g_assert_null (rlx_device_get_calibration (again));
  g_clear_object (&again);

  rlx_calibrate_set_test (TRUE, FEW);
  rlx_trial_set_test (RLX_FAMILY_PRODUCT, 1u << RLX_PRODUCT_LANES | 1u << RLX_PRODUCT_TILES_128);
  rlx_trial_set_test (RLX_FAMILY_SCAN, 1u << 0);
  rlx_device_calibrate_async (device, NULL, rlx_test_keep_result, &result);
  while (result == NULL)
    g_main_context_iteration (NULL, TRUE);
  calibration = rlx_device_calibrate_finish (device, result, &error);
  rlx_trial_set_test (RLX_FAMILY_PRODUCT, 0);
  rlx_trial_set_test (RLX_FAMILY_SCAN, 0);
  g_assert_no_error (error);
  wrong = list_kernels (calibration, TRUE);
  g_assert_cmpstrv (wrong, ((const char *const[]) { "tiles-128", "lanes", NULL }));

  again = open_device ();
  g_assert_nonnull (rlx_device_get_calibration (again));
  g_assert_cmpuint (rlx_calibration_get_speeds (rlx_device_get_calibration (again))->banned[RLX_FAMILY_PRODUCT], ==,
                    1u << RLX_PRODUCT_LANES | 1u << RLX_PRODUCT_TILES_128);
  for (RlxFamily i = RLX_FAMILY_PRODUCT + 1; i < RLX_N_FAMILIES; i++)
    g_assert_cmpuint (rlx_calibration_get_speeds (rlx_device_get_calibration (again))->banned[i], ==, i == RLX_FAMILY_SCAN ? 1u : 0u);
  bytes = multiply (device);
  again_bytes = multiply (again);
  g_assert_true (g_bytes_equal (bytes, again_bytes));
}

typedef struct
{
  GThread *thread;
  double last;
  guint n;
  gboolean finished;
} Progress;

static void
on_calibrating (RlxDevice  *device,
                double      fraction,
                const char *what,
                gpointer    data)
{
  Progress *progress = data;

  g_assert_true (RLX_IS_DEVICE (device));
  g_assert_true (g_thread_self () == progress->thread);
  g_assert_false (progress->finished);
  g_assert_nonnull (what);
  g_assert_cmpuint (strlen (what), >, 0);
  g_assert_cmpfloat (fraction, >=, 0.0);
  g_assert_cmpfloat (fraction, <=, 1.0);
  g_assert_true (progress->n == 0 ? fraction == 0.0 : fraction > progress->last);
  progress->last = fraction;
  progress->n++;
}

static void
on_calibrated (GObject      *source,
               GAsyncResult *result,
               gpointer      data)
{
  Progress *progress = data;
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxCalibration) calibration = rlx_device_calibrate_finish (RLX_DEVICE (source), result, &error);

  g_assert_no_error (error);
  g_assert_cmpfloat (progress->last, ==, 1.0);
  progress->finished = TRUE;
}

static void
test_progress (void)
{
  g_autoptr(RlxDevice) device = open_device ();
  g_autoptr(GCancellable) cancellable = g_cancellable_new ();
  g_autoptr(RlxCalibration) calibration = NULL;
  g_autoptr(GError) error = NULL;
  Progress progress = { .thread = g_thread_self () };

  if (device == NULL)
    return;
  rlx_calibrate_set_test (TRUE, FEW);
  g_signal_connect (device, "calibrating", G_CALLBACK (on_calibrating), &progress);
  rlx_device_calibrate_async (device, NULL, on_calibrated, &progress);
  while (!progress.finished)
    g_main_context_iteration (NULL, TRUE);
  /* more than start and end, with one for each family */
  g_assert_cmpuint (progress.n, >=, 2 + 2);

  /* What has not begun is not reported either. */
  progress = (Progress) { .thread = g_thread_self () };
  g_cancellable_cancel (cancellable);
  calibration = rlx_device_calibrate (device, cancellable, &error);
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  while (g_main_context_iteration (NULL, FALSE))
    ;
  g_assert_cmpuint (progress.n, ==, 0);
}

static void
test_all_wrong (void)
{
  g_autoptr(RlxDevice) device = open_device ();
  g_autoptr(RlxCalibration) calibration = NULL;
  g_autoptr(GError) error = NULL;

  if (device == NULL)
    return;
  rlx_calibrate_set_test (TRUE, FEW);
  rlx_trial_set_test (RLX_FAMILY_PRODUCT, ALL_PRODUCTS);
  calibration = rlx_device_calibrate (device, NULL, &error);
  rlx_trial_set_test (RLX_FAMILY_PRODUCT, 0);
  g_assert_null (calibration);
  g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_FAILED);
  g_assert_nonnull (strstr (error->message, "wrong"));
  g_assert_null (rlx_device_get_calibration (device));
  g_assert_null (rlx_adapter_load_calibration (rlx_device_get_adapter (device)));
}

static void
test_cancel (void)
{
  g_autoptr(RlxDevice) device = open_device ();
  g_autoptr(GCancellable) cancellable = g_cancellable_new ();
  g_autoptr(RlxCalibration) calibration = NULL;
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GBytes) bytes = NULL;
  g_autoptr(GError) error = NULL;

  if (device == NULL)
    return;
  rlx_calibrate_set_test (FALSE, FEW);
  g_timeout_add (30, rlx_test_cancel, cancellable);
  rlx_device_calibrate_async (device, cancellable, rlx_test_keep_result, &result);
  while (result == NULL)
    g_main_context_iteration (NULL, TRUE);
  calibration = rlx_device_calibrate_finish (device, result, &error);
  g_assert_null (calibration);
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_clear_error (&error);

  calibration = rlx_device_calibrate (device, cancellable, &error);
  g_assert_null (calibration);
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_assert_null (rlx_device_get_calibration (device));
  g_assert_null (rlx_adapter_load_calibration (rlx_device_get_adapter (device)));

  /* The device still works. */
  bytes = multiply (device);
}

/* ---- effects --------------------------------------------------------------------------- */

static RlxExecutable *
compile_for (RlxDevice       *device,
             RlxGraph        *graph,
             const RlxSpeeds *speeds)
{
  g_autoptr(GError) error = NULL;
  RlxExecutable *executable = rlx_device_compile_for (device, graph, speeds, NULL, &error);

  g_assert_no_error (error);
  return executable;
}

static void
test_estimate (void)
{
  g_autoptr(RlxDevice) device = open_device ();
  RlxSpeeds known = get_possible (), slow = known, far = known;
  double last = 0.0, estimate;

  if (device == NULL)
    return;
  for (gint64 size = 16; size <= 512; size *= 2)
    {
      g_autoptr(RlxGraph) graph = matmul_graph (size, size, size);
      g_autoptr(RlxExecutable) executable = compile_for (device, graph, NULL);

      estimate = rlx_executable_get_estimate (executable);
      g_assert_cmpfloat (estimate, >, last);
      g_assert_true (isfinite (estimate));
      last = estimate;
    }

  /* By the formula: 2 · 512³ operations, 3 · 512² · 4 bytes moved. */
  {
    g_autoptr(RlxGraph) graph = matmul_graph (512, 512, 512);
    g_autoptr(RlxExecutable) executable = compile_for (device, graph, &known);
    g_autoptr(RlxExecutable) slowly = NULL, from_afar = NULL, fork = NULL;
    double expected = 9e-5 + 2.0 * 512 * 512 * 512 / 3e10 + 3.0 * 512 * 512 * 4 / 2e9 + 4e-6 * rlx_executable_get_n_dispatches (executable);

    g_object_get (executable, "estimate", &estimate, NULL);
    g_assert_cmpfloat_with_epsilon (estimate, expected, expected * 1e-6);
    fork = rlx_executable_fork (executable, NULL, NULL);
    g_assert_cmpfloat (rlx_executable_get_estimate (fork), ==, estimate);

    slow.flops /= 10;
    slowly = compile_for (device, graph, &slow);
    g_assert_cmpfloat (rlx_executable_get_estimate (slowly), >, 5 * estimate);
    far.round_trip_time = 1.0;
    from_afar = compile_for (device, graph, &far);
    g_assert_cmpfloat (rlx_executable_get_estimate (from_afar), >, 1.0);
  }

  /* More kernels, more time. */
  {
    g_autoptr(RlxGraph) one = rlx_graph_new_from_text ("rlx 1\n%0 = input \"x\" f32[8, 8]\n%1 = softmax(%0) {axis = 1}\noutput \"y\" %1\n", NULL);
    g_autoptr(RlxGraph) two = rlx_graph_new_from_text ("rlx 1\n%0 = input \"x\" f32[8, 8]\n%1 = softmax(%0) {axis = 1}\n%2 = softmax(%1) {axis = 1}\noutput \"y\" %2\n", NULL);
    g_autoptr(RlxExecutable) short_one = compile_for (device, one, &known);
    g_autoptr(RlxExecutable) long_one = compile_for (device, two, &known);

    g_assert_cmpfloat (rlx_executable_get_estimate (long_one), >=, rlx_executable_get_estimate (short_one) + known.dispatch_time);
  }
}

static guint
count_groups (RlxDevice       *device,
              RlxGraph        *graph,
              const RlxSpeeds *speeds)
{
  g_autoptr(RlxExecutable) executable = compile_for (device, graph, speeds);
  guint n;
  const RlxGpuDispatch *dispatches = rlx_executable_peek_dispatches (executable, &n);

  return dispatches[0].grid[0] * dispatches[0].grid[1] * dispatches[0].grid[2];
}

/* If speeds differ clearly, the fastest is chosen. The kinds of tiles differ in their number. */
static void
test_choice (void)
{
  g_autoptr(RlxDevice) device = open_device ();
  g_autoptr(RlxGraph) graph = NULL;
  RlxSpeeds speeds = get_possible ();
  guint expected = 0;

  if (device == NULL)
    return;
  graph = matmul_graph (1024, 64, 1024);
  for (guint i = RLX_PRODUCT_TILES_128; i <= RLX_PRODUCT_TILES_32; i++)
    {
      guint before = expected;

      /* as the only one left, however slow */
      speeds.measured = FALSE;
      speeds.banned[RLX_FAMILY_PRODUCT] = ~(1u << i);
      expected = count_groups (device, graph, &speeds);
      g_assert_cmpuint (expected, >, before);
      speeds.measured = TRUE;
      speeds.banned[RLX_FAMILY_PRODUCT] = 0;
      speeds.flops = 1e12;
      for (guint j = 0; j < RLX_N_PRODUCTS; j++)
        set_rate (&speeds, j, j == i ? 1e12 : j == RLX_PRODUCT_ROWS ? 0.0 : 1e9);
      g_assert_cmpuint (count_groups (device, graph, &speeds), ==, expected);
      /* the same once more */
      g_assert_cmpuint (count_groups (device, graph, &speeds), ==, expected);
    }
}

static const char *
get_kernel (RlxDevice       *device,
            const RlxSpeeds *speeds,
            double          *estimate)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(RlxTensor) weight = rlx_test_random ("f32[128,256]", -1, 1, 3);
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(GPtrArray) steps = NULL;

  rlx_graph_set_default_precision (graph, RLX_PRECISION_REDUCED);
  rlx_graph_output (graph, "y",
                    rlx_node_matmul (rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, (const gint64[]) { 256, 128 }, 2, NULL),
                                     rlx_graph_constant (graph, weight, NULL), NULL, NULL), NULL);
  executable = compile_for (device, graph, speeds);
  steps = rlx_executable_get_steps (executable);
  if (estimate != NULL)
    *estimate = rlx_executable_get_estimate (executable);
  return g_intern_string (((const RlxStep *) g_ptr_array_index (steps, 0))->kernel);
}

/* When a CPU is treated as a GPU, so are its matrix units: they are measured, checked and
 * chosen like the other kernels. */
static void
test_matrix (void)
{
  const char *before = rlx_debug_get_target ();
  g_autoptr(RlxDevice) device = NULL;
  g_autoptr(RlxCalibration) calibration = NULL, bad = NULL;
  g_autoptr(GError) error = NULL;
  g_auto(GStrv) wrong = NULL;
  RlxSpeeds speeds = get_possible ();
  double seconds, slower;

  rlx_debug_set_target ("navi31");
  device = open_device ();
  if (device != NULL && (rlx_device_get_features (device) & RLX_DEVICE_FEATURES_SUBGROUP_MATRIX) == 0)
    g_test_skip ("the device has no matrix units");
  else if (!rlx_test_is_thorough ())
    g_test_skip ("matrix units that are emulated take long");
  else if (device != NULL)
    {
      rlx_calibrate_set_test (TRUE, FEW);
      calibration = rlx_device_calibrate (device, NULL, &error);
      g_assert_no_error (error);
      g_assert_cmpfloat (get_rate (calibration, "matrix"), >, 1e6);

      rlx_calibrate_set_test (TRUE, 1u << RLX_FAMILY_PRODUCT);
      rlx_trial_set_test (RLX_FAMILY_PRODUCT, 1u << RLX_PRODUCT_MATRIX);
      bad = rlx_device_calibrate (device, NULL, &error);
      rlx_trial_set_test (RLX_FAMILY_PRODUCT, 0);
      g_assert_no_error (error);
      wrong = list_kernels (bad, TRUE);
      g_assert_cmpstrv (wrong, ((const char *const[]) { "matrix", NULL }));
      g_assert_cmpstr (get_kernel (device, rlx_calibration_get_speeds (bad), NULL), !=, "matmul-matrix");

      g_assert_cmpstr (get_kernel (device, &speeds, &seconds), ==, "matmul-matrix");
      /* the estimate uses their rate */
      set_rate (&speeds, RLX_PRODUCT_MATRIX, 3.5e10);
      g_assert_cmpstr (get_kernel (device, &speeds, &slower), ==, "matmul-matrix");
      g_assert_cmpfloat_with_epsilon (slower - seconds, 2.0 * 256 * 128 * 256 * (1 / 3.5e10 - 1 / 7e10), 1e-9);
      set_rate (&speeds, RLX_PRODUCT_MATRIX, 2e10);
      g_assert_cmpstr (get_kernel (device, &speeds, NULL), !=, "matmul-matrix");
    }
  rlx_debug_set_target (before);
}

int
main (int   argc,
      char *argv[])
{
  g_autofree char *folder = rlx_test_use_own_cache ();
  int status;

  g_test_init (&argc, &argv, NULL);
  rlx_timing_set_test_model (calm);

  rlx_test_add_with_empty_cache ("/calibrate/round-trip", test_round_trip);
  rlx_test_add_with_empty_cache ("/calibrate/units", test_units);
  rlx_test_add_with_empty_cache ("/calibrate/impossible", test_impossible);
  rlx_test_add_with_empty_cache ("/calibrate/damaged-bytes", test_damaged_bytes);
  rlx_test_add_with_empty_cache ("/calibrate/damaged-file", test_damaged_file);
  rlx_test_add_with_empty_cache ("/calibrate/forged-file", test_forged_file);
  rlx_test_add_with_empty_cache ("/calibrate/other-driver", test_other_driver);
  rlx_test_add_with_empty_cache ("/calibrate/device", test_device);
  rlx_test_add_with_empty_cache ("/calibrate/times", test_times);
  /* The others take the same paths; with sanitizers the correct results, which are computed here, take long. */
  if (rlx_test_is_thorough ())
    {
      rlx_test_add_with_empty_cache ("/calibrate/busy", test_busy);
      rlx_test_add_with_empty_cache ("/calibrate/wrong", test_wrong);
      rlx_test_add_with_empty_cache ("/calibrate/progress", test_progress);
    }
  rlx_test_add_with_empty_cache ("/calibrate/all-wrong", test_all_wrong);
  rlx_test_add_with_empty_cache ("/calibrate/cancel", test_cancel);
  rlx_test_add_with_empty_cache ("/calibrate/estimate", test_estimate);
  rlx_test_add_with_empty_cache ("/calibrate/choice", test_choice);
  rlx_test_add_with_empty_cache ("/calibrate/matrix", test_matrix);

  status = g_test_run ();
  rlx_test_remove_tree (folder);
  return status;
}
