/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Kernels that are known to be wrong: stored, no longer chosen by devices that are opened
 * afterwards, calibrated or not, and forgotten.
 */
#include "config.h"

#include <string.h>

#include "rlx-bans-private.h"
#include "rlx-calibration-private.h"
#include "rlx-device-private.h"
#include "rlx-private.h"
#include "rlx-test-util.h"

/* The kernel that a new device uses for a product. */
static char *
get_kernel (void)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxDevice) device = rlx_device_open (NULL, NULL, &error);
  g_autoptr(RlxGraph) graph = rlx_graph_new_from_text ("rlx 1\n%0 = input \"a\" f32[64, 64]\n%1 = input \"b\" f32[64, 64]\n"
                                                       "%2 = matmul(%0, %1)\noutput \"y\" %2\n", NULL);
  g_autoptr(RlxExecutable) executable = NULL;
  const RlxPlan *plan;
  const RlxChoice *choice;

  g_assert_no_error (error);
  executable = rlx_device_compile (device, graph, NULL, NULL, &error);
  g_assert_no_error (error);
  plan = rlx_executable_peek_plan (executable);
  g_assert_cmpuint (plan->choices->len, ==, 1);
  choice = g_ptr_array_index (plan->choices, 0);
  return g_strdup (choice->table->variants[choice->row].name);
}

static void
test_bans (void)
{
  RlxDevice *device = rlx_test_device ();
  RlxAdapter *adapter;
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxCalibration) calibration = NULL;
  g_autofree char *first = NULL, *second = NULL, *third = NULL, *again = NULL;
  guint32 banned[RLX_N_FAMILIES];

  if (device == NULL)
    return;
  adapter = rlx_device_get_adapter (device);
  first = get_kernel ();
  g_assert_true (rlx_private_adapter_ban (adapter, "product", first, &error));
  second = get_kernel ();
  g_assert_cmpstr (second, !=, first);
  {
    g_auto(GStrv) names = rlx_private_adapter_list_bans (adapter);
    g_autofree char *name = g_strconcat ("product/", first, NULL);

    g_assert_cmpstrv (names, ((const char *const[]) { name, NULL }));
  }
  /* in addition to the earlier one, also when it is stored twice */
  for (guint i = 0; i < 2; i++)
    g_assert_true (rlx_private_adapter_ban (adapter, "product", second, &error));
  g_assert_no_error (error);
  third = get_kernel ();
  g_assert_cmpstr (third, !=, first);
  g_assert_cmpstr (third, !=, second);

  /* A calibration neither measures nor re-enables them. */
  {
    g_autoptr(RlxDevice) other = rlx_device_open (NULL, NULL, &error);
    g_autoptr(GListModel) kernels = NULL;
    guint n_wrong = 0;

    g_assert_no_error (error);
    g_assert_null (rlx_device_get_calibration (other));
    rlx_calibrate_set_test (TRUE, 1u << RLX_FAMILY_PRODUCT);
    calibration = rlx_device_calibrate (other, NULL, &error);
    g_assert_no_error (error);
    kernels = g_object_ref (G_LIST_MODEL (calibration));
    for (guint i = 0; i < g_list_model_get_n_items (kernels); i++)
      {
        g_autoptr(RlxCalibrationKernel) kernel = g_list_model_get_item (kernels, i);
        const char *name = rlx_calibration_kernel_get_name (kernel);

        if (!rlx_calibration_kernel_get_wrong (kernel))
          continue;
        g_assert_true (g_str_equal (name, first) || g_str_equal (name, second));
        g_assert_cmpfloat (rlx_calibration_kernel_get_time (kernel), ==, 0);
        n_wrong++;
      }
    g_assert_cmpuint (n_wrong, ==, 2);
  }

  g_assert_true (rlx_adapter_forget_calibration (adapter, &error));
  g_assert_no_error (error);
  rlx_bans_load (rlx_gpu_get_info (rlx_device_get_gpu (device)), banned);
  for (guint i = 0; i < RLX_N_FAMILIES; i++)
    g_assert_cmphex (banned[i], ==, 0);
  again = get_kernel ();
  g_assert_cmpstr (again, ==, first);
}

static void
test_refused (void)
{
  static const char *const names[][2] = { { "product", "none" }, { "none", "lanes" }, { "", "" }, { "conv", "lanes" } };
  RlxDevice *device = rlx_test_device ();

  for (guint i = 0; device != NULL && i < G_N_ELEMENTS (names); i++)
    {
      g_autoptr(GError) error = NULL;

      g_assert_false (rlx_private_adapter_ban (rlx_device_get_adapter (device), names[i][0], names[i][1], &error));
      g_assert_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_FAILED);
      g_assert_nonnull (strstr (error->message, names[i][1]));
    }
}

/* Files that were not written by this build are ignored. */
static void
test_damaged (void)
{
  RlxDevice *device = rlx_test_device ();
  g_autofree char *large = NULL;
  const RlxGpuAdapterInfo *info;
  guint32 banned[RLX_N_FAMILIES];

  if (device == NULL)
    return;
  info = rlx_gpu_get_info (rlx_device_get_gpu (device));
  large = g_strnfill (20000, 'x');
  for (guint i = 0; i < 3; i++)
    {
      g_autoptr(GVariant) variant = g_variant_ref_sink (i == 0 ? g_variant_new_parsed ("[('product', 'lanes'), ('product', 'nothing')]")
                                                        : i == 1 ? g_variant_new_parsed ("[(%s, 'lanes')]", large)
                                                                 : g_variant_new_parsed ("('product', 'lanes')"));
      g_autoptr(GBytes) bytes = g_variant_get_data_as_bytes (variant);

      g_assert_true (rlx_gpu_notes_store (info, "bans", bytes));
      memset (banned, 0xff, sizeof banned);
      rlx_bans_load (info, banned);
      for (guint j = 0; j < RLX_N_FAMILIES; j++)
        g_assert_cmphex (banned[j], ==, 0);
    }
}

int
main (int   argc,
      char *argv[])
{
  g_autofree char *folder = rlx_test_use_own_cache ();
  int status;

  g_test_init (&argc, &argv, NULL);

  rlx_test_add_with_empty_cache ("/bans/stored", test_bans);
  rlx_test_add_with_empty_cache ("/bans/refused", test_refused);
  rlx_test_add_with_empty_cache ("/bans/damaged", test_damaged);

  status = g_test_run ();
  rlx_test_remove_tree (folder);
  return status;
}
