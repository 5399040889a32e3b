/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-tool.h"

/* Prints the WGSL of each kernel once. */
static void
print_wgsl (GVariant *plan)
{
  g_autoptr(GVariant) steps = g_variant_lookup_value (plan, "steps", G_VARIANT_TYPE ("aa{sv}"));
  g_autoptr(GHashTable) seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);

  for (gsize i = 0; i < g_variant_n_children (steps); i++)
    {
      g_autoptr(GVariant) step = g_variant_get_child_value (steps, i);
      const char *kernel, *wgsl;

      if (!g_variant_lookup (step, "kernel", "&s", &kernel) || !g_variant_lookup (step, "wgsl", "&s", &wgsl) ||
          !g_hash_table_add (seen, g_strdup (wgsl)))
        continue;
      g_print ("// ---- %s\n%s\n", kernel, wgsl);
    }
}

/* Prints the candidates for each step, and why they were rejected. */
static void
print_choices (GVariant *plan)
{
  g_autoptr(GVariant) steps = g_variant_lookup_value (plan, "steps", G_VARIANT_TYPE ("aa{sv}"));

  for (gsize i = 0; i < g_variant_n_children (steps); i++)
    {
      g_autoptr(GVariant) step = g_variant_get_child_value (steps, i);
      const char *kernel, *choice;

      if (g_variant_lookup (step, "kernel", "&s", &kernel) && g_variant_lookup (step, "choice", "&s", &choice))
        g_print ("\n%4u %s\n%s", (guint) i, kernel, choice);
    }
}

/* Does not open a device. */
static int
show_plan_for (RlxGraph          *graph,
               const char        *target,
               RlxCompileOptions *options,
               gboolean           json,
               gboolean           plan,
               gboolean           verbose,
               gboolean           wgsl)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) dict = rlx_graph_plan_for (graph, target, options, &error);

  if (dict == NULL)
    return rlx_tool_fail (error);
  if (json)
    {
      rlx_tool_print_json (dict);
      return RLX_TOOL_OK;
    }
  if (plan)
    {
      g_autofree char *text = rlx_graph_describe_plan_for (graph, target, options, &error);

      if (text == NULL)
        return rlx_tool_fail (error);
      g_print ("%s", text);
    }
  if (verbose)
    print_choices (dict);
  if (wgsl)
    print_wgsl (dict);
  return RLX_TOOL_OK;
}

int
rlx_tool_compile (int    argc,
                  char **argv)
{
  gboolean json = FALSE, plan = FALSE, tune = FALSE, verbose = FALSE, wgsl = FALSE;
  g_autofree char *precision = NULL, *target = NULL;
  const GOptionEntry entries[] = {
    { "plan", 0, 0, G_OPTION_ARG_NONE, &plan, "Print the plan (the default)", NULL },
    { "verbose", 'v', 0, G_OPTION_ARG_NONE, &verbose, "Print the variants each step could have used, and why they lost", NULL },
    { "wgsl", 0, 0, G_OPTION_ARG_NONE, &wgsl, "Print the kernels", NULL },
    { "tune", 0, 0, G_OPTION_ARG_NONE, &tune, RLX_TOOL_TUNE_HELP, NULL },
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, "Print the plan as JSON", NULL },
    { "precision", 0, 0, G_OPTION_ARG_STRING, &precision, "Override the precision of matrix products: full, reduced or integer", "PRECISION" },
    { "target", 0, 0, G_OPTION_ARG_STRING, &target, "Compile for a target that `rlx targets` lists; no device is needed", "NAME" },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxGraph) graph = NULL;
  g_autoptr(RlxCompileOptions) options = NULL;
  RlxDevice *device = NULL;
  g_autoptr(RlxExecutable) executable = NULL;
  int status;

  if (!rlx_tool_parse ("GRAPH", "Compiles a graph and shows its plan or its kernels.", entries, &argc, &argv, 1, 1, &status))
    return status;
  if ((graph = rlx_tool_load_graph (argv[1], &error)) == NULL)
    return rlx_tool_fail (error);
  if ((options = rlx_tool_get_options (tune, precision, &status)) == NULL)
    return status;
  if (target != NULL)
    return show_plan_for (graph, target, options, json, plan || !wgsl, verbose, wgsl);
  if ((device = rlx_tool_open (&error)) == NULL ||
      (executable = rlx_tool_build (device, graph, options, &error)) == NULL)
    return rlx_tool_fail (error);
  /* With reduced precision, which kernels run depends on the weights. */
  if ((rlx_compile_options_get_precision (options) >= RLX_PRECISION_REDUCED ||
       (precision == NULL && rlx_graph_get_precision (graph) >= RLX_PRECISION_REDUCED)) &&
      !rlx_tool_random_parameters (graph, executable, &error))
    return rlx_tool_fail (error);

  if (json)
    {
      g_autoptr(GVariant) dict = rlx_executable_dup_plan (executable);
      rlx_tool_print_json (dict);
      return RLX_TOOL_OK;
    }
  if (plan || !wgsl)
    {
      g_autofree char *text = rlx_executable_describe_plan (executable);
      g_print ("%s", text);
    }
  if (verbose || wgsl)
    {
      g_autoptr(GVariant) dict = rlx_executable_dup_plan (executable);

      if (verbose)
        print_choices (dict);
      if (wgsl)
        print_wgsl (dict);
    }
  return RLX_TOOL_OK;
}

int
rlx_tool_dot (int    argc,
              char **argv)
{
  g_autofree char *path = NULL, *text = NULL;
  const GOptionEntry entries[] = {
    { "output", 'o', 0, G_OPTION_ARG_FILENAME, &path, "Draw it into a file, without graphviz", "FILE.svg" },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxGraph) graph = NULL;
  int status;

  if (!rlx_tool_parse ("GRAPH", "Writes a graph for graphviz, or draws it.", entries, &argc, &argv, 1, 1, &status))
    return status;
  graph = rlx_tool_load_graph (argv[1], &error);
  if (graph == NULL)
    return rlx_tool_fail (error);
  if (path != NULL)
    {
      text = rlx_tool_draw_graph (graph, &error);
      return text && g_file_set_contents (path, text, -1, &error) ? RLX_TOOL_OK : rlx_tool_fail (error);
    }
  text = rlx_graph_to_dot (graph);
  g_print ("%s", text);
  return RLX_TOOL_OK;
}
