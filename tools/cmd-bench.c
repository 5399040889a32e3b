/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-tool.h"

#define MAX_RUNS 100000

/* Times @n_runs runs. Each input has two tensors that alternate, because the same one would not be uploaded again. The first
 * run includes compilation in the driver. */
static gboolean
time_runs (RlxExecutable *executable,
           RlxGraph      *graph,
           int            n_runs,
           double        *first,
           double        *times,
           GError       **error)
{
  g_autoptr(GPtrArray) inputs = rlx_tool_random_inputs (graph, error), others = NULL;

  if (inputs == NULL || (others = rlx_tool_random_inputs (graph, error)) == NULL)
    return FALSE;
  for (int i = -1; i < n_runs; i++)
    {
      GPtrArray *given = i % 2 == 0 ? inputs : others;
      gint64 start = g_get_monotonic_time ();
      g_auto(RlxTensors) outputs = rlx_executable_run (executable, (RlxTensor **) given->pdata, given->len, NULL, NULL, error);

      if (outputs == NULL)
        return FALSE;
      *(i < 0 ? first : &times[i]) = (double) (g_get_monotonic_time () - start) * 1e-3;
    }
  return TRUE;
}

/* The same with inputs and outputs that stay on the device. Only the end of the last run is visible, so each run is assigned an
 * equal share. */
static gboolean
time_without_fetching (RlxDevice     *device,
                       RlxExecutable *executable,
                       RlxGraph      *graph,
                       int            n_runs,
                       double        *first,
                       double        *times,
                       GError       **error)
{
  g_autoptr(GPtrArray) inputs = rlx_tool_random_inputs (graph, error);
  gint64 start = 0;
  double share;

  for (guint i = 0; inputs != NULL && i < inputs->len; i++)
    {
      RlxTensor *tensor = rlx_device_upload (device, inputs->pdata[i], NULL, error);

      if (tensor == NULL)
        return FALSE;
      g_object_unref (inputs->pdata[i]);
      inputs->pdata[i] = tensor;
    }
  for (int i = -1; inputs != NULL && i < n_runs; i++)
    {
      g_auto(RlxTensors) outputs = NULL;

      if (i <= 0)
        start = g_get_monotonic_time ();
      outputs = rlx_executable_run_on_device (executable, (RlxTensor **) inputs->pdata, inputs->len, NULL, NULL, error);
      if (outputs == NULL || ((i < 0 || i == n_runs - 1) && !rlx_tensor_fetch (outputs[0], NULL, error)))
        return FALSE;
      if (i < 0)
        *first = (double) (g_get_monotonic_time () - start) * 1e-3;
    }
  share = (double) (g_get_monotonic_time () - start) * 1e-3 / n_runs;
  for (int i = 0; i < n_runs; i++)
    times[i] = share;
  return inputs != NULL;
}

int
rlx_tool_bench (int    argc,
                char **argv)
{
  gboolean json = FALSE, tune = FALSE, no_fetch = FALSE;
  int n_runs = 20;
  g_autofree char *precision = NULL;
  const GOptionEntry entries[] = {
    { "runs", 'n', 0, G_OPTION_ARG_INT, &n_runs, "How many runs to time (20)", "N" },
    { "precision", 0, 0, G_OPTION_ARG_STRING, &precision, "Override the precision of matrix products: full, reduced or integer", "PRECISION" },
    { "tune", 0, 0, G_OPTION_ARG_NONE, &tune, RLX_TOOL_TUNE_HELP, NULL },
    { "no-fetch", 0, 0, G_OPTION_ARG_NONE, &no_fetch, "Leave inputs and outputs on the device", NULL },
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, "Print JSON", NULL },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxGraph) graph = NULL;
  g_autoptr(RlxCompileOptions) options = NULL;
  RlxDevice *device = NULL;
  g_autoptr(RlxExecutable) executable = NULL;
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
  if (executable == NULL || !rlx_tool_random_parameters (graph, executable, &error))
    return rlx_tool_fail (error);

  times = g_new0 (double, n_runs);
  if (!(no_fetch ? time_without_fetching (device, executable, graph, n_runs, &first, times, &error)
                 : time_runs (executable, graph, n_runs, &first, times, &error)))
    return rlx_tool_fail (error);
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
  else if (no_fetch)
    {
      g_print ("%s: compile %.2f ms, first run %.2f ms, then %.3f ms each (%d runs that stay on the device), %u dispatches\n",
               rlx_adapter_get_name (rlx_device_get_adapter (device)), compile_time, first, median, n_runs,
               rlx_executable_get_n_dispatches (executable));
    }
  else
    {
      g_print ("%s: compile %.2f ms, first run %.2f ms, then median %.3f ms (%.3f to %.3f, %d runs), %u dispatches\n",
               rlx_adapter_get_name (rlx_device_get_adapter (device)), compile_time, first, median, times[0], times[n_runs - 1],
               n_runs, rlx_executable_get_n_dispatches (executable));
    }
  return RLX_TOOL_OK;
}
