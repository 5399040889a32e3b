/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-tool.h"

#include <unistd.h>

void
rlx_tool_print_calibration (RlxCalibration *calibration)
{
  g_autoptr(GVariant) kernels = rlx_calibration_get_kernels (calibration);
  g_auto(GStrv) wrong = rlx_calibration_get_wrong_kernels (calibration);
  GVariantIter iter;
  const char *name;
  double rate;

  g_print ("   product of f32 matrices  %.1f GFLOPS\n", rlx_calibration_get_gflops (calibration));
  g_variant_iter_init (&iter, kernels);
  while (g_variant_iter_next (&iter, "{&sd}", &name, &rate))
    g_print ("     %-22s %.1f GFLOPS\n", name, rate);
  for (char **item = wrong; *item != NULL; item++)
    g_print ("     %-22s wrong on this driver, not used\n", *item);
  g_print ("   product of f16 matrices  %.1f GFLOPS\n", rlx_calibration_get_gflops_f16 (calibration));
  g_print ("   memory bandwidth         %.2f GB/s\n", rlx_calibration_get_bandwidth (calibration));
  g_print ("   transfer rate            %.2f GB/s\n", rlx_calibration_get_transfer_rate (calibration));
  g_print ("   time of a dispatch       %.2f µs\n", rlx_calibration_get_dispatch_time (calibration));
  g_print ("   time of a round trip     %.1f µs\n", rlx_calibration_get_round_trip_time (calibration));
}

GVariant *
rlx_tool_describe_calibration (RlxCalibration *calibration)
{
  g_autoptr(GVariant) kernels = rlx_calibration_get_kernels (calibration);
  g_auto(GStrv) wrong = rlx_calibration_get_wrong_kernels (calibration);
  GVariantDict dict;

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "gflops", "d", rlx_calibration_get_gflops (calibration));
  g_variant_dict_insert (&dict, "gflops_f16", "d", rlx_calibration_get_gflops_f16 (calibration));
  g_variant_dict_insert (&dict, "bandwidth_gb_s", "d", rlx_calibration_get_bandwidth (calibration));
  g_variant_dict_insert (&dict, "transfer_gb_s", "d", rlx_calibration_get_transfer_rate (calibration));
  g_variant_dict_insert (&dict, "dispatch_us", "d", rlx_calibration_get_dispatch_time (calibration));
  g_variant_dict_insert (&dict, "round_trip_us", "d", rlx_calibration_get_round_trip_time (calibration));
  g_variant_dict_insert_value (&dict, "kernels_gflops", kernels);
  g_variant_dict_insert_value (&dict, "wrong_kernels", g_variant_new_strv ((const char *const *) wrong, -1));
  return g_variant_dict_end (&dict);
}

/* On one line of the terminal, which is empty in the end. */
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

int
rlx_tool_calibrate (int    argc,
                    char **argv)
{
  gboolean json = FALSE;
  const GOptionEntry entries[] = {
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, "Print JSON", NULL },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxDevice) device = NULL;
  g_autoptr(RlxCalibration) calibration = NULL;
  g_autoptr(RlxCalibration) stored = NULL;
  RlxAdapter *adapter;
  int status;

  if (!rlx_tool_parse (NULL, "Measures the adapter and keeps the figures, by which kernels are chosen from then on.", entries, &argc, &argv, 0, 0, &status))
    return status;
  if ((device = rlx_device_get_default (&error)) == NULL ||
      (calibration = calibrate (device, !json && isatty (STDERR_FILENO), &error)) == NULL)
    return rlx_tool_fail (error);
  adapter = rlx_device_get_adapter (device);
  stored = rlx_adapter_load_calibration (adapter);

  if (json)
    {
      GVariantDict dict;

      g_variant_dict_init (&dict, NULL);
      g_variant_dict_insert (&dict, "adapter", "s", rlx_adapter_get_name (adapter));
      g_variant_dict_insert (&dict, "stored", "b", stored != NULL);
      g_variant_dict_insert_value (&dict, "calibration", rlx_tool_describe_calibration (calibration));
      rlx_tool_print_json (g_variant_dict_end (&dict));
    }
  else
    {
      g_print ("%s\n", rlx_adapter_get_name (adapter));
      rlx_tool_print_calibration (calibration);
      if (stored == NULL)
        g_print ("   not stored: the cache cannot be used\n");
    }
  return RLX_TOOL_OK;
}
