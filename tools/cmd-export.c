/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A graph as a folder for a web page.
 */
#include "config.h"

#include <math.h>

#include "rlx-tool.h"

/* Other devices sum in another order: as for the demo, relative to the largest element. */
#define TOLERANCE 1e-4
/* Half floats have 11 bits, and nearly equal values may be rounded to adjacent ones. */
#define TOLERANCE_F16 0x1p-9

#define DEFAULT_PORT 8000

/* The port on which to serve the folder; -1: do not serve it. */
static int serve_port = -1;

static gboolean
parse_serve (const char *option G_GNUC_UNUSED,
             const char *value,
             gpointer    data G_GNUC_UNUSED,
             GError    **error)
{
  guint64 port = DEFAULT_PORT;

  if (value != NULL && !g_ascii_string_to_unsigned (value, 10, 0, G_MAXUINT16, &port, NULL))
    {
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--serve=%s: a port must be from 0 to %u", value, G_MAXUINT16);
      return FALSE;
    }
  serve_port = (int) port;
  return TRUE;
}

/* Sets parameters given as "name=file.npy", then the others from a weight file. */
static gboolean
set_parameters (RlxWebExport *export,
                char        **arguments,
                const char   *path,
                GError      **error)
{
  GVariantBuilder others;
  g_autoptr(GVariant) names = NULL;
  g_autoptr(GFile) file = NULL;
  g_autoptr(RlxWeights) weights = NULL;

  g_variant_builder_init (&others, G_VARIANT_TYPE ("a{ss}"));
  g_variant_builder_add (&others, "{ss}", "*", "");
  for (char **argument = arguments; argument && *argument; argument++)
    {
      g_autofree char *name = NULL, *value = NULL;
      g_autoptr(GFile) npy = NULL;
      g_autoptr(RlxTensor) tensor = NULL;
      const char *list[2] = { NULL, NULL };

      if (!rlx_tool_split (*argument, &name, &value, error))
        {
          g_variant_builder_clear (&others);
          return FALSE;
        }
      npy = g_file_new_for_commandline_arg (value);
      tensor = rlx_tensor_load_npy (npy, NULL, error);
      list[0] = name;
      if (tensor == NULL || !rlx_web_export_set_parameters (export, list, &tensor, 1, error))
        {
          g_variant_builder_clear (&others);
          return FALSE;
        }
      g_variant_builder_add (&others, "{ss}", name, "");
    }
  names = g_variant_ref_sink (g_variant_builder_end (&others));
  if (path == NULL)
    return TRUE;
  file = g_file_new_for_commandline_arg (path);
  weights = rlx_weights_open (file, NULL, error);
  return weights != NULL && rlx_web_export_set_parameters_from (export, weights, names, NULL, error);
}

/* The tolerance of results, relative to the largest element of each. */
static double
find_tolerance (RlxTensor **outputs,
                gsize       n_outputs)
{
  double tolerance = 0;

  for (gsize i = 0; i < n_outputs; i++)
    {
      RlxDataType data_type = rlx_tensor_get_data_type (outputs[i]);
      double share = data_type == RLX_DATA_TYPE_F32 ? TOLERANCE : data_type == RLX_DATA_TYPE_F16 ? TOLERANCE_F16 : 0, largest = 0;

      for (gint64 j = 0; share > 0 && j < rlx_tensor_get_n_elements (outputs[i]); j++)
        {
          double value = fabs (rlx_tensor_get_value (outputs[i], j));

          if (isfinite (value))
            largest = fmax (largest, value);
        }
      tolerance = fmax (tolerance, share * largest);
    }
  return tolerance;
}

/* Runs the graph on random inputs, to get results for the page to compare with. */
static gboolean
add_check (RlxWebExport      *export,
           RlxGraph          *graph,
           RlxCompileOptions *options,
           char             **parameters,
           const char        *weights,
           GError           **error)
{
  RlxDevice *device = rlx_tool_open (error);
  g_autoptr(RlxExecutable) executable = device != NULL ? rlx_tool_build (device, graph, options, error) : NULL;
  g_autoptr(GPtrArray) inputs = NULL;
  g_auto(RlxTensors) outputs = NULL;
  gsize n_outputs;

  if (executable == NULL || !rlx_tool_set_parameters (executable, parameters, weights, error) ||
      (inputs = rlx_tool_random_inputs (graph, error)) == NULL)
    return FALSE;
  outputs = rlx_executable_run (executable, (RlxTensor **) inputs->pdata, inputs->len, &n_outputs, NULL, error);
  if (outputs == NULL)
    return FALSE;
  rlx_web_export_set_check (export, (RlxTensor **) inputs->pdata, inputs->len, outputs, n_outputs, find_tolerance (outputs, n_outputs));
  return TRUE;
}

/* Whether all parameters have a value, which a run requires. */
static gboolean
has_all_parameters (RlxGraph   *graph,
                    char      **parameters,
                    const char *weights)
{
  guint n = 0;

  for (guint i = 0; i < g_list_model_get_n_items (G_LIST_MODEL (graph)); i++)
    {
      g_autoptr(RlxNode) node = g_list_model_get_item (G_LIST_MODEL (graph), i);

      n += g_str_equal (rlx_node_get_op (node), "parameter");
    }
  return weights != NULL || n == (parameters != NULL ? g_strv_length (parameters) : 0);
}

int
rlx_tool_export (int    argc,
                 char **argv)
{
  gboolean f16 = FALSE, no_check = FALSE;
  g_autofree char *web = NULL, *weights = NULL, *precision = NULL;
  g_auto(GStrv) parameters = NULL, targets = NULL;
  const GOptionEntry entries[] = {
    { "web", 0, 0, G_OPTION_ARG_FILENAME, &web, "Write a folder of files for a web page", "DIR" },
    { "parameter", 'p', 0, G_OPTION_ARG_FILENAME_ARRAY, &parameters, "A value for a parameter", "NAME=FILE.npy" },
    { "weights", 'w', 0, G_OPTION_ARG_FILENAME, &weights, "A file with the other parameters", "FILE" },
    { "target", 0, 0, G_OPTION_ARG_STRING_ARRAY, &targets, "Add a plan for a target that `rlx targets` lists, for devices that fit", "NAME" },
    { "f16", 0, 0, G_OPTION_ARG_NONE, &f16, "Add a plan for devices with 16-bit floats", NULL },
    { "precision", 0, 0, G_OPTION_ARG_STRING, &precision, "Override the precision of matrix products: full, reduced or integer", "PRECISION" },
    { "no-check", 0, 0, G_OPTION_ARG_NONE, &no_check, "Do not run the graph here; the page then has no result to compare with", NULL },
    { "serve", 0, G_OPTION_FLAG_OPTIONAL_ARG, G_OPTION_ARG_CALLBACK, parse_serve, "Then serve the folder, to this machine only (8000)", "PORT" },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxGraph) graph = NULL;
  g_autoptr(RlxCompileOptions) options = NULL;
  g_autoptr(RlxWebExport) export = NULL;
  g_autoptr(GStrvBuilder) names = g_strv_builder_new ();
  g_auto(GStrv) list = NULL;
  g_autoptr(GFile) folder = NULL;
  g_autoptr(GAsyncResult) result = NULL;
  RlxToolWait *wait;
  int status;

  if (!rlx_tool_parse ("GRAPH", "Compiles a graph and writes it as a folder that runs in a browser. There is always a\n"
                       "plan that suits every device; devices that fit another target use the first of those.",
                       entries, &argc, &argv, 1, 1, &status))
    return status;
  if (web == NULL)
    {
      g_printerr ("%s: --web DIR is missing; see %s --help\n", g_get_prgname (), g_get_prgname ());
      return RLX_TOOL_USAGE;
    }
  if ((graph = rlx_tool_load_graph (argv[1], &error)) == NULL)
    return rlx_tool_fail (error);
  if ((options = rlx_tool_get_options (FALSE, precision, &status)) == NULL)
    return status;

  export = rlx_web_export_new (graph);
  rlx_web_export_set_options (export, options);
  if (targets != NULL)
    g_strv_builder_addv (names, (const char **) targets);
  if (f16)
    g_strv_builder_add (names, "minimum-f16");
  if (targets == NULL || !g_strv_contains ((const char *const *) targets, "minimum"))
    g_strv_builder_add (names, "minimum");
  list = g_strv_builder_end (names);
  rlx_web_export_set_targets (export, (const char *const *) list);
  if (!set_parameters (export, parameters, weights, &error))
    return rlx_tool_fail (error);
  /* Without an adapter, export without a check. */
  if (!no_check && has_all_parameters (graph, parameters, weights) &&
      !add_check (export, graph, options, parameters, weights, &error))
    {
      if (!g_error_matches (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_NO_ADAPTER))
        return rlx_tool_fail (error);
      g_clear_error (&error);
    }

  folder = g_file_new_for_commandline_arg (web);
  wait = rlx_tool_wait_new ("writing", export);
  rlx_web_export_write_async (export, folder, NULL, rlx_tool_wait_done, wait);
  result = rlx_tool_wait_end (wait);
  if (!rlx_web_export_write_finish (export, result, &error))
    return rlx_tool_fail (error);
  if (serve_port >= 0 && !rlx_tool_serve (folder, (guint16) serve_port, &error))
    return rlx_tool_fail (error);
  return RLX_TOOL_OK;
}
