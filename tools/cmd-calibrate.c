/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-tool.h"
#include "rlx-wgpu/rlx-private.h"

#include <unistd.h>

/* As in the documentation of the spread. */
#define STEADY 1.5

void
rlx_tool_print_calibration (RlxCalibration *calibration)
{
  GListModel *kernels = G_LIST_MODEL (calibration);

  g_print ("   product of f32 matrices  %.1f GFLOPS\n", rlx_calibration_get_flops (calibration) * 1e-9);
  g_print ("   product of f16 matrices  %.1f GFLOPS\n", rlx_calibration_get_flops_f16 (calibration) * 1e-9);
  g_print ("   memory bandwidth         %.2f GB/s\n", rlx_calibration_get_bandwidth (calibration) * 1e-9);
  g_print ("   transfer rate            %.2f GB/s\n", rlx_calibration_get_transfer_rate (calibration) * 1e-9);
  g_print ("   time of a dispatch       %.2f µs\n", rlx_calibration_get_dispatch_time (calibration) * 1e6);
  g_print ("   time of a round trip     %.1f µs\n", rlx_calibration_get_round_trip_time (calibration) * 1e6);
  g_print ("   spread of the times      %.2f\n", rlx_calibration_get_spread (calibration));
  g_print ("   kernels, each on a typical problem of its family\n");
  for (guint i = 0; i < g_list_model_get_n_items (kernels); i++)
    {
      g_autoptr(RlxCalibrationKernel) kernel = g_list_model_get_item (kernels, i);

      g_print ("     %-14s %-13s", rlx_calibration_kernel_get_family (kernel), rlx_calibration_kernel_get_name (kernel));
      if (rlx_calibration_kernel_get_wrong (kernel))
        g_print (" wrong on this driver, not used");
      else
        g_print (" %10.1f µs", rlx_calibration_kernel_get_time (kernel) * 1e6);
      if (rlx_calibration_kernel_get_flops (kernel) > 0.0)
        g_print (" %8.1f GFLOPS", rlx_calibration_kernel_get_flops (kernel) * 1e-9);
      g_print ("\n");
    }
}

GVariant *
rlx_tool_describe_calibration (RlxCalibration *calibration)
{
  GListModel *kernels = G_LIST_MODEL (calibration);
  GVariantBuilder list;
  GVariantDict dict;

  g_variant_builder_init (&list, G_VARIANT_TYPE ("aa{sv}"));
  for (guint i = 0; i < g_list_model_get_n_items (kernels); i++)
    {
      g_autoptr(RlxCalibrationKernel) kernel = g_list_model_get_item (kernels, i);

      g_variant_dict_init (&dict, NULL);
      g_variant_dict_insert (&dict, "family", "s", rlx_calibration_kernel_get_family (kernel));
      g_variant_dict_insert (&dict, "name", "s", rlx_calibration_kernel_get_name (kernel));
      g_variant_dict_insert (&dict, "time", "d", rlx_calibration_kernel_get_time (kernel));
      g_variant_dict_insert (&dict, "flops", "d", rlx_calibration_kernel_get_flops (kernel));
      g_variant_dict_insert (&dict, "wrong", "b", rlx_calibration_kernel_get_wrong (kernel));
      g_variant_builder_add_value (&list, g_variant_dict_end (&dict));
    }

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "flops", "d", rlx_calibration_get_flops (calibration));
  g_variant_dict_insert (&dict, "flops_f16", "d", rlx_calibration_get_flops_f16 (calibration));
  g_variant_dict_insert (&dict, "bandwidth", "d", rlx_calibration_get_bandwidth (calibration));
  g_variant_dict_insert (&dict, "transfer_rate", "d", rlx_calibration_get_transfer_rate (calibration));
  g_variant_dict_insert (&dict, "dispatch_time", "d", rlx_calibration_get_dispatch_time (calibration));
  g_variant_dict_insert (&dict, "round_trip_time", "d", rlx_calibration_get_round_trip_time (calibration));
  g_variant_dict_insert (&dict, "spread", "d", rlx_calibration_get_spread (calibration));
  g_variant_dict_insert_value (&dict, "kernels", g_variant_builder_end (&list));
  return g_variant_dict_end (&dict);
}

/* Shows progress in a line of the terminal, which is cleared at the end. */
static void
show_progress (RlxDevice  *device G_GNUC_UNUSED,
               double      fraction,
               const char *what,
               gpointer    data G_GNUC_UNUSED)
{
  if (fraction < 1.0)
    g_printerr ("\r\033[K%3.0f %%  %s", fraction * 100.0, what);
  else
    g_printerr ("\r\033[K");
}

static void
keep_result (GObject      *source G_GNUC_UNUSED,
             GAsyncResult *result,
             gpointer      data)
{
  *(GAsyncResult **) data = g_object_ref (result);
}

static RlxCalibration *
calibrate (RlxDevice *device,
           gboolean   show,
           GError   **error)
{
  g_autoptr(GAsyncResult) result = NULL;
  RlxCalibration *calibration;

  if (show)
    g_signal_connect (device, "calibrating", G_CALLBACK (show_progress), NULL);
  rlx_device_calibrate_async (device, NULL, keep_result, &result);
  while (result == NULL)
    g_main_context_iteration (NULL, TRUE);
  calibration = rlx_device_calibrate_finish (device, result, error);
  if (show && calibration == NULL)
    g_printerr ("\r\033[K");
  return calibration;
}

static int
forget (RlxAdapter *adapter,
        gboolean    json)
{
  g_autoptr(RlxCalibration) stored = rlx_adapter_load_calibration (adapter);
  g_auto(GStrv) bans = rlx_private_adapter_list_bans (adapter);
  g_autofree char *banned = g_strjoinv (", ", bans);
  g_autoptr(GError) error = NULL;

  if (!rlx_adapter_forget_calibration (adapter, &error))
    return rlx_tool_fail (error);
  if (json)
    {
      GVariantDict dict;

      g_variant_dict_init (&dict, NULL);
      g_variant_dict_insert (&dict, "adapter", "s", rlx_adapter_get_name (adapter));
      g_variant_dict_insert (&dict, "forgotten", "b", stored != NULL || bans[0] != NULL);
      rlx_tool_print_json (g_variant_dict_end (&dict));
    }
  else
    {
      g_print ("%s\n   %s\n", rlx_adapter_get_name (adapter), stored != NULL ? "its measurements were deleted" : "there were no measurements");
      if (bans[0] != NULL)
        g_print ("   used again, though found to be wrong: %s\n", banned);
    }
  return RLX_TOOL_OK;
}

static void
print_result (RlxAdapter     *adapter,
              RlxCalibration *calibration,
              const char     *path,
              gboolean        json)
{
  if (json)
    {
      GVariantDict dict;

      g_variant_dict_init (&dict, NULL);
      g_variant_dict_insert (&dict, "adapter", "s", rlx_adapter_get_name (adapter));
      g_variant_dict_insert (&dict, "stored", "b", path != NULL);
      if (path != NULL)
        g_variant_dict_insert_value (&dict, "file", g_variant_new_take_string (g_filename_display_name (path)));
      g_variant_dict_insert_value (&dict, "calibration", rlx_tool_describe_calibration (calibration));
      rlx_tool_print_json (g_variant_dict_end (&dict));
      return;
    }
  g_print ("%s\n", rlx_adapter_get_name (adapter));
  rlx_tool_print_calibration (calibration);
  if (rlx_calibration_get_spread (calibration) > STEADY)
    g_print ("   the machine was busy: measure again when it is idle\n");
  if (path != NULL)
    {
      g_autofree char *shown = g_filename_display_name (path);

      g_print ("   stored in %s\n   until rlx calibrate --forget\n", shown);
    }
  else
    {
      g_print ("   not stored: the cache cannot be used\n");
    }
}

int
rlx_tool_calibrate (int    argc,
                    char **argv)
{
  gboolean json = FALSE, forgets = FALSE;
  const GOptionEntry entries[] = {
    { "forget", 0, 0, G_OPTION_ARG_NONE, &forgets, "Measure nothing; delete what is stored", NULL },
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, "Print JSON", NULL },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GError) error = NULL;
  RlxDevice *device = NULL;
  g_autoptr(RlxCalibration) calibration = NULL;
  g_autoptr(RlxCalibration) stored = NULL;
  g_autofree char *path = NULL;
  RlxAdapter *adapter;
  int status;

  if (!rlx_tool_parse (NULL, "Measures the speed of the adapter and stores it: from then on, kernels are chosen by it.", entries, &argc, &argv, 0, 0, &status))
    return status;
  if ((device = rlx_tool_open (&error)) == NULL)
    return rlx_tool_fail (error);
  adapter = rlx_device_get_adapter (device);
  if (forgets)
    return forget (adapter, json);
  if ((calibration = calibrate (device, !json && isatty (STDERR_FILENO), &error)) == NULL)
    return rlx_tool_fail (error);
  stored = rlx_adapter_load_calibration (adapter);
  path = stored != NULL ? rlx_adapter_dup_calibration_path (adapter) : NULL;
  print_result (adapter, calibration, path, json);
  return RLX_TOOL_OK;
}
