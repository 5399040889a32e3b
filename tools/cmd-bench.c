/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-tool.h"

#define MAX_RUNS 100000

int
rlx_tool_bench (int    argc,
                char **argv)
{
  gboolean json = FALSE, tune = FALSE;
  int n_runs = 20;
  g_autofree char *precision = NULL;
  const GOptionEntry entries[] = {
    { "runs", 'n', 0, G_OPTION_ARG_INT, &n_runs, "How many runs to time (20)", "N" },
    { "precision", 0, 0, G_OPTION_ARG_STRING, &precision, "Override the precision of products: full or reduced", "PRECISION" },
    { "tune", 0, 0, G_OPTION_ARG_NONE, &tune, RLX_TOOL_TUNE_HELP, NULL },
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, "Print JSON", NULL },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxGraph) graph = NULL;
  g_autoptr(RlxCompileOptions) options = NULL;
  RlxDevice *device = NULL;
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(GPtrArray) inputs = NULL;
  g_autofree double *times = NULL;
  double compile_time, first = 0, median;
  gint64 start;
  int status;

  if (!rlx_tool_parse ("GRAPH", "Times a graph on random inputs and parameters.", entries, &argc, &argv, 1, 1, &status))
    return status;
  if (n_runs < 1 || n_runs > MAX_RUNS)
    {
      g_printerr ("%s: --runs is %d; it can be 1 to %d\n", g_get_prgname (), n_runs, MAX_RUNS);
      return RLX_TOOL_USAGE;
    }
  if ((graph = rlx_tool_load_graph (argv[1], &error)) == NULL)
    return rlx_tool_fail (error);
  if ((options = rlx_tool_get_options (tune, precision, &status)) == NULL)
    return status;
  if ((device = rlx_tool_open (&error)) == NULL)
    return rlx_tool_fail (error);

  start = g_get_monotonic_time ();
  executable = rlx_tool_build (device, graph, options, &error);
  compile_time = (double) (g_get_monotonic_time () - start) * 1e-3;
  if (executable == NULL || (inputs = rlx_tool_random_inputs (graph, &error)) == NULL ||
      !rlx_tool_random_parameters (graph, executable, &error))
    return rlx_tool_fail (error);

  times = g_new0 (double, n_runs);
  for (int i = -1; i < n_runs; i++)
    {
      g_autofree RlxTensor **outputs = NULL;
      gsize n;

      start = g_get_monotonic_time ();
      outputs = rlx_executable_run (executable, (RlxTensor **) inputs->pdata, inputs->len, &n, NULL, &error);
      if (outputs == NULL)
        return rlx_tool_fail (error);
      /* the first run still compiles in the driver */
      *(i < 0 ? &first : &times[i]) = (double) (g_get_monotonic_time () - start) * 1e-3;
      for (gsize j = 0; j < n; j++)
        g_object_unref (outputs[j]);
    }
  median = rlx_tool_median (times, (guint) n_runs);

  if (json)
    {
      GVariantDict dict;

      g_variant_dict_init (&dict, NULL);
      g_variant_dict_insert (&dict, "adapter", "s", rlx_adapter_get_name (rlx_device_get_adapter (device)));
      g_variant_dict_insert (&dict, "compile_ms", "d", compile_time);
      g_variant_dict_insert (&dict, "first_ms", "d", first);
      g_variant_dict_insert (&dict, "median_ms", "d", median);
      g_variant_dict_insert (&dict, "min_ms", "d", times[0]);
      g_variant_dict_insert (&dict, "max_ms", "d", times[n_runs - 1]);
      g_variant_dict_insert (&dict, "runs", "i", n_runs);
      g_variant_dict_insert (&dict, "dispatches", "u", rlx_executable_get_n_dispatches (executable));
      rlx_tool_print_json (g_variant_dict_end (&dict));
    }
  else
    {
      g_print ("%s: compile %.2f ms, first run %.2f ms, then median %.3f ms (%.3f to %.3f, %d runs), %u dispatches\n",
               rlx_adapter_get_name (rlx_device_get_adapter (device)), compile_time, first, median, times[0], times[n_runs - 1],
               n_runs, rlx_executable_get_n_dispatches (executable));
    }
  return RLX_TOOL_OK;
}
