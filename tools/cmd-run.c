/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-tool.h"

/* Loads the tensors of "name=file.npy" arguments. */
static gboolean
load_tensors (char     **arguments,
              GPtrArray *names,
              GPtrArray *tensors,
              GError   **error)
{
  for (char **argument = arguments; argument && *argument; argument++)
    {
      g_autofree char *name = NULL, *path = NULL;
      g_autoptr(GFile) file = NULL;
      RlxTensor *tensor;

      if (!rlx_tool_split (*argument, &name, &path, error))
        return FALSE;
      file = g_file_new_for_commandline_arg (path);
      tensor = rlx_tensor_load_npy (file, NULL, error);
      if (tensor == NULL)
        return FALSE;
      g_ptr_array_add (names, g_steal_pointer (&name));
      g_ptr_array_add (tensors, tensor);
    }
  g_ptr_array_add (names, NULL);
  return TRUE;
}

static GVariant *
describe_tensor (RlxTensor *tensor)
{
  GVariantDict dict;
  gsize n_dims, n;
  const gint64 *shape = rlx_tensor_get_shape (tensor, &n_dims);
  GVariantBuilder values;

  g_variant_builder_init (&values, G_VARIANT_TYPE ("ad"));
  n = (gsize) rlx_tensor_get_n_elements (tensor);
  for (gsize i = 0; i < n; i++)
    g_variant_builder_add (&values, "d", rlx_tensor_get_value (tensor, (gint64) i));
  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "data_type", "s", rlx_data_type_to_string (rlx_tensor_get_data_type (tensor)));
  g_variant_dict_insert_value (&dict, "shape", g_variant_new_fixed_array (G_VARIANT_TYPE_INT64, shape, n_dims, sizeof (gint64)));
  g_variant_dict_insert_value (&dict, "data", g_variant_builder_end (&values));
  return g_variant_dict_end (&dict);
}

static gboolean
save_outputs (char             **arguments,
              const char *const *names,
              GPtrArray         *outputs,
              GError           **error)
{
  for (char **argument = arguments; argument && *argument; argument++)
    {
      g_autofree char *name = NULL, *path = NULL;
      g_autoptr(GFile) file = NULL;
      guint i = 0;

      if (!rlx_tool_split (*argument, &name, &path, error))
        return FALSE;
      while (names[i] && !g_str_equal (names[i], name))
        i++;
      if (names[i] == NULL)
        {
          g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_NOT_FOUND, "the graph has no output “%s”", name);
          return FALSE;
        }
      file = g_file_new_for_commandline_arg (path);
      if (!rlx_tensor_save_npy (g_ptr_array_index (outputs, i), file, NULL, error))
        return FALSE;
    }
  return TRUE;
}

/* Loads all parameters but those given as separate files. */
static gboolean
load_weights (const char    *path,
              RlxExecutable *executable,
              GPtrArray     *names,
              GError       **error)
{
  g_autoptr(GFile) file = NULL;
  g_autoptr(RlxWeights) weights = NULL;
  g_autoptr(GAsyncResult) result = NULL;
  GVariantBuilder others;
  RlxToolWait *wait;

  if (path == NULL)
    return TRUE;
  file = g_file_new_for_commandline_arg (path);
  weights = rlx_weights_open (file, NULL, error);
  if (weights == NULL)
    return FALSE;
  g_variant_builder_init (&others, G_VARIANT_TYPE ("a{ss}"));
  for (guint i = 0; g_ptr_array_index (names, i) != NULL; i++)
    g_variant_builder_add (&others, "{ss}", g_ptr_array_index (names, i), "");
  g_variant_builder_add (&others, "{ss}", "*", "");

  wait = rlx_tool_wait_new ("loading weights", weights);
  rlx_executable_set_parameters_from_async (executable, weights, g_variant_builder_end (&others), NULL, rlx_tool_wait_done, wait);
  result = rlx_tool_wait_end (wait);
  return rlx_executable_set_parameters_from_finish (executable, result, error);
}

gboolean
rlx_tool_set_parameters (RlxExecutable *executable,
                         char         **parameters,
                         const char    *weights,
                         GError       **error)
{
  g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func (g_free), values = g_ptr_array_new_with_free_func (g_object_unref);

  return load_tensors (parameters, names, values, error) &&
         rlx_executable_set_parameters (executable, (const char *const *) names->pdata, (RlxTensor **) values->pdata, values->len, NULL, error) &&
         load_weights (weights, executable, names, error);
}

/* Saves or prints the results. */
static int
finish (const char *const *names,
        GPtrArray         *results,
        char             **outputs,
        gboolean           json,
        RlxExecutable     *profiled,
        GError           **error)
{
  if (!save_outputs (outputs, names, results, error))
    return rlx_tool_fail (*error);

  if (json)
    {
      GVariantDict dict;

      g_variant_dict_init (&dict, NULL);
      for (guint i = 0; i < results->len; i++)
        g_variant_dict_insert_value (&dict, names[i], describe_tensor (g_ptr_array_index (results, i)));
      rlx_tool_print_json (g_variant_dict_end (&dict));
    }
  else if (outputs == NULL)
    {
      for (guint i = 0; i < results->len; i++)
        {
          g_autofree char *text = rlx_tensor_to_string (g_ptr_array_index (results, i));
          g_print ("%s = %s\n", names[i], text);
        }
    }
  if (profiled != NULL)
    {
      g_autoptr(RlxProfile) times = rlx_executable_dup_profile (profiled);
      g_autofree char *text = rlx_profile_to_string (times);

      g_printerr ("%s", text);
    }
  return RLX_TOOL_OK;
}

int
rlx_tool_run (int    argc,
              char **argv)
{
  gboolean json = FALSE, profile = FALSE, tune = FALSE, values = FALSE, checked = FALSE;
  g_auto(GStrv) inputs = NULL, parameters = NULL, outputs = NULL;
  g_autofree char *path = NULL;
  const GOptionEntry entries[] = {
    { "input", 'i', 0, G_OPTION_ARG_FILENAME_ARRAY, &inputs, "A value for an input", "NAME=FILE.npy" },
    { "parameter", 'p', 0, G_OPTION_ARG_FILENAME_ARRAY, &parameters, "A value for a parameter", "NAME=FILE.npy" },
    { "weights", 'w', 0, G_OPTION_ARG_FILENAME, &path, "A file with the other parameters", "FILE" },
    { "output", 'o', 0, G_OPTION_ARG_FILENAME_ARRAY, &outputs, "Where to write an output", "NAME=FILE.npy" },
    { "profile", 0, 0, G_OPTION_ARG_NONE, &profile, "Print the time of each kernel", NULL },
    { "tune", 0, 0, G_OPTION_ARG_NONE, &tune, RLX_TOOL_TUNE_HELP, NULL },
    { "values", 0, 0, G_OPTION_ARG_NONE, &values, "Print how large the values of each node are, and the first that is not finite", NULL },
    { "checked", 0, 0, G_OPTION_ARG_NONE, &checked, "Fail if an index is out of range or an integer does not fit into 32 bits", NULL },
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, "Print JSON", NULL },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GError) error = NULL;
  g_autoptr(GPtrArray) input_names = g_ptr_array_new_with_free_func (g_free), input_values = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr(GPtrArray) results = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr(RlxGraph) graph = NULL;
  g_autoptr(RlxCompileOptions) options = rlx_compile_options_new ();
  RlxDevice *device = NULL;
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(GAsyncResult) result = NULL;
  g_autofree RlxTensor **tensors = NULL;
  RlxToolWait *wait;
  g_autoptr(RlxModel) model = NULL;
  g_autoptr(RlxSession) session = NULL;
  gsize n, n_values = 0;
  int status;

  if (!rlx_tool_parse ("GRAPH", "Runs a graph or an ONNX model on .npy files. Outputs without a file are printed.", entries, &argc, &argv, 1, 1, &status))
    return status;

  rlx_compile_options_set_tuning (options, tune);
  rlx_compile_options_set_profiling (options, profile);
  rlx_compile_options_set_checked (options, checked);
  /* A session takes the sizes from the inputs. Options that concern the graph require one. */
  if (rlx_tool_is_model (argv[1]) && !values && parameters == NULL && path == NULL && !rlx_tool_has_dimensions ())
    {
      g_autoptr(GFile) file = g_file_new_for_commandline_arg (argv[1]);

      model = rlx_model_open (file, NULL, &error);
      if (model == NULL || !load_tensors (inputs, input_names, input_values, &error) || (device = rlx_device_get_default (&error)) == NULL)
        return rlx_tool_fail (error);
      session = rlx_session_new (model, device, options);
      tensors = rlx_session_run (session, (const char *const *) input_names->pdata, (RlxTensor **) input_values->pdata, input_values->len, &n, NULL, &error);
      if (tensors == NULL || (profile && (executable = rlx_session_prepare (session, (const char *const *) input_names->pdata, (RlxTensor **) input_values->pdata, input_values->len, NULL, &error)) == NULL))
        return rlx_tool_fail (error);
      for (gsize i = 0; i < n; i++)
        g_ptr_array_add (results, tensors[i]);
      return finish (rlx_session_get_output_names (session), results, outputs, json, executable, &error);
    }
  if ((graph = rlx_tool_load_graph (argv[1], &error)) == NULL ||
      (values && (n_values = rlx_tool_add_values (graph, &error)) == 0) ||
      !load_tensors (inputs, input_names, input_values, &error) ||
      (device = rlx_tool_open (&error)) == NULL ||
      (executable = rlx_tool_build (device, graph, options, &error)) == NULL ||
      !rlx_tool_set_parameters (executable, parameters, path, &error))
    return rlx_tool_fail (error);

  wait = rlx_tool_wait_new ("running", executable);
  rlx_executable_run_named_async (executable, (const char *const *) input_names->pdata, (RlxTensor **) input_values->pdata,
                                  input_values->len, NULL, rlx_tool_wait_done, wait);
  result = rlx_tool_wait_end (wait);
  tensors = rlx_executable_run_named_finish (executable, result, &n, &error);
  if (tensors == NULL)
    return rlx_tool_fail (error);
  for (gsize i = 0; i < n; i++)
    g_ptr_array_add (results, tensors[i]);
  if (values)
    {
      rlx_tool_print_values (graph, tensors + n - n_values, n_values);
      g_ptr_array_set_size (results, (int) (n - n_values));
    }

  return finish (rlx_executable_get_output_names (executable), results, outputs, json, profile ? executable : NULL, &error);
}
