/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rlx-tool.h"

static const RlxToolCommand commands[] = {
  { "devices", "[--json]", "List the adapters of this system", rlx_tool_devices },
  { "targets", "[--json]", "List the devices that graphs can be compiled for", rlx_tool_targets },
  { "calibrate", "[--forget] [--json]", "Measure the adapter, to choose the fastest kernels", rlx_tool_calibrate },
  { "verify", "[--quick] [--only OPERATOR]…", "Try every kernel on the adapter, and report", rlx_tool_verify },
  { "ops", "[--json] [NAME]", "List the operators, or describe one", rlx_tool_ops },
  { "demo", "[--json]", "Run a small transformer and check it against a reference", rlx_tool_demo },
  { "info", "[--json] FILE", "List the tensors of a weight file", rlx_tool_info },
  { "convert", "FILE… OUTPUT", "Convert files of tensors to another format", rlx_tool_convert },
  { "embed", "FOLDER [TEXT…]", "Turn texts into vectors, and compare them", rlx_tool_embed },
  { "run", "GRAPH [--input NAME=FILE.npy]…", "Run a graph on .npy files", rlx_tool_run },
  { "bench", "GRAPH", "Time a graph on random inputs", rlx_tool_bench },
  { "compile", "[--plan] [--wgsl] [--target NAME] GRAPH", "Compile a graph and show its plan or its kernels", rlx_tool_compile },
  { "export", "--web DIR GRAPH", "Write a graph as a folder that runs in a browser", rlx_tool_export },
  { "profile", "GRAPH [-o FILE.svg]", "Show where the time of a graph goes, or draw it", rlx_tool_profile },
  { "spectrum", "FILE.wav [-o FILE.png]", "Compute the spectrogram of a sound, or draw it", rlx_tool_spectrum },
  { "dot", "GRAPH [-o FILE.svg]", "Write a graph for graphviz, or draw it", rlx_tool_dot },
};

static void
print_help (void)
{
  g_print ("Usage: rlx COMMAND [ARGUMENTS]\n\nTensor graphs on the GPU.\n\nCommands:\n");
  for (gsize i = 0; i < G_N_ELEMENTS (commands); i++)
    g_print ("  %-9s %-32s %s\n", commands[i].name, commands[i].arguments, commands[i].summary);
  g_print ("\n`rlx COMMAND --help` describes a command. GRAPH is a file in the text form, or - for\nstandard input. RLX_DEVICE selects the adapter, RLX_DEBUG=help lists debug keys.\n");
}

/* For shell completion: lists commands, operators or targets. */
static int
complete (int    argc,
          char **argv)
{
  if (argc > 0 && (g_str_equal (argv[0], "ops") || g_str_equal (argv[0], "targets")))
    {
      g_auto(GStrv) names = argv[0][0] == 'o' ? rlx_operators_list () : rlx_targets_list ();

      for (char **name = names; *name; name++)
        g_print ("%s\n", *name);
    }
  else if (argc == 0)
    {
      for (gsize i = 0; i < G_N_ELEMENTS (commands); i++)
        g_print ("%s\n", commands[i].name);
    }
  return RLX_TOOL_OK;
}

int
main (int   argc,
      char *argv[])
{
  setlocale (LC_ALL, "");

  if (argc < 2)
    {
      print_help ();
      return RLX_TOOL_USAGE;
    }
  if (g_str_equal (argv[1], "--help") || g_str_equal (argv[1], "-h") || g_str_equal (argv[1], "help"))
    {
      print_help ();
      return RLX_TOOL_OK;
    }
  if (g_str_equal (argv[1], "--version"))
    {
      g_print ("rlx " RLX_VERSION "\n");
      return RLX_TOOL_OK;
    }
  if (g_str_equal (argv[1], "--complete"))
    return complete (argc - 2, argv + 2);

  for (gsize i = 0; i < G_N_ELEMENTS (commands); i++)
    if (g_str_equal (argv[1], commands[i].name))
      return commands[i].run (argc - 1, argv + 1);

  g_printerr ("rlx: there is no command “%s”; see rlx --help\n", argv[1]);
  return RLX_TOOL_USAGE;
}

/* ---- shared by the commands -------------------------------------------------------- */

/* Set by --dim. */
static char **dimensions;

gboolean
rlx_tool_has_dimensions (void)
{
  return dimensions != NULL;
}

static const GOptionEntry model_entries[] = {
  { "dim", 0, 0, G_OPTION_ARG_STRING_ARRAY, &dimensions, "The size of a dimension, if GRAPH is a model", "NAME=SIZE" },
  G_OPTION_ENTRY_NULL
};

gboolean
rlx_tool_parse (const char         *arguments,
                const char         *summary,
                const GOptionEntry *entries,
                int                *argc,
                char             ***argv,
                int                 min_operands,
                int                 max_operands,
                int                *status)
{
  g_autofree char *program = g_strconcat ("rlx ", (*argv)[0], NULL);
  g_autoptr(GOptionContext) context = g_option_context_new (arguments);
  g_autoptr(GError) error = NULL;

  g_set_prgname (program);
  g_option_context_set_summary (context, summary);
  g_option_context_add_main_entries (context, entries, NULL);
  if (arguments != NULL && g_str_has_prefix (arguments, "GRAPH"))
    g_option_context_add_main_entries (context, model_entries, NULL);
  *status = RLX_TOOL_USAGE;
  if (!g_option_context_parse (context, argc, argv, &error))
    {
      g_printerr ("%s: %s\n", program, error->message);
      return FALSE;
    }
  if (*argc - 1 < min_operands || *argc - 1 > max_operands)
    {
      g_printerr ("%s: %s; see %s --help\n", program, *argc - 1 < min_operands ? "an argument is missing" : "too many arguments", program);
      return FALSE;
    }
  return TRUE;
}

int
rlx_tool_fail (const GError *error)
{
  g_printerr ("%s: %s\n", g_get_prgname (), error->message);
  return g_error_matches (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_NO_ADAPTER) ? RLX_TOOL_NO_ADAPTER : RLX_TOOL_FAILED;
}

static void quote_special_numbers (JsonNode *node);

static void
quote_in_array (JsonArray *array G_GNUC_UNUSED,
                guint      index G_GNUC_UNUSED,
                JsonNode  *node,
                gpointer   user_data G_GNUC_UNUSED)
{
  quote_special_numbers (node);
}

static void
quote_in_object (JsonObject *object G_GNUC_UNUSED,
                 const char *name G_GNUC_UNUSED,
                 JsonNode   *node,
                 gpointer    user_data G_GNUC_UNUSED)
{
  quote_special_numbers (node);
}

/* JSON cannot represent infinity and NaN, so these become strings. */
static void
quote_special_numbers (JsonNode *node)
{
  if (JSON_NODE_HOLDS_ARRAY (node))
    json_array_foreach_element (json_node_get_array (node), quote_in_array, NULL);
  else if (JSON_NODE_HOLDS_OBJECT (node))
    json_object_foreach_member (json_node_get_object (node), quote_in_object, NULL);
  else if (JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_DOUBLE)
    {
      double value = json_node_get_double (node);

      if (!isfinite (value))
        json_node_init_string (node, isnan (value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity");
    }
}

char *
rlx_tool_to_json (GVariant *value)
{
  g_autoptr(GVariant) owned = g_variant_ref_sink (value);
  g_autoptr(JsonNode) node = json_gvariant_serialize (owned);

  quote_special_numbers (node);
  return json_to_string (node, TRUE);
}

void
rlx_tool_print_json (GVariant *value)
{
  g_autofree char *text = rlx_tool_to_json (value);

  g_print ("%s\n", text);
}

RlxGraph *
rlx_tool_load_graph (const char *path,
                     GError    **error)
{
  g_autoptr(GFile) file = NULL;
  g_autoptr(GBytes) bytes = NULL;
  g_autofree char *text = NULL;
  gsize size;

  if (rlx_tool_is_model (path))
    return rlx_tool_build_model (path, dimensions, error);
  if (g_str_equal (path, "-"))
    {
      g_autoptr(GIOChannel) channel = g_io_channel_unix_new (0);

      g_io_channel_set_encoding (channel, NULL, NULL);
      if (g_io_channel_read_to_end (channel, &text, &size, error) != G_IO_STATUS_NORMAL)
        return NULL;
    }
  else
    {
      gconstpointer data;

      file = g_file_new_for_commandline_arg (path);
      bytes = g_file_load_bytes (file, NULL, NULL, error);
      if (bytes == NULL)
        return NULL;
      data = g_bytes_get_data (bytes, &size);
      text = g_strndup (data, size);
    }
  if (strlen (text) != size)
    {
      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_PARSE, "%s has a NUL byte at %" G_GSIZE_FORMAT ": it is not a text graph", path, strlen (text));
      return NULL;
    }
  return rlx_graph_new_from_text (text, error);
}

RlxCompileOptions *
rlx_tool_get_options (gboolean    tune,
                      const char *precision,
                      int        *status)
{
  g_autoptr(GEnumClass) klass = g_type_class_ref (RLX_TYPE_PRECISION);
  const GEnumValue *value = precision != NULL ? g_enum_get_value_by_nick (klass, precision) : NULL;

  if (precision != NULL && (value == NULL || value->value == RLX_PRECISION_DEFAULT))
    {
      g_printerr ("%s: --precision is “%s”; it can be full, reduced or integer\n", g_get_prgname (), precision);
      *status = RLX_TOOL_USAGE;
      return NULL;
    }
  return g_object_new (RLX_TYPE_COMPILE_OPTIONS, "tuning", tune,
                       "precision", value != NULL ? value->value : RLX_PRECISION_DEFAULT, NULL);
}

gboolean
rlx_tool_split (const char *text,
                char      **name,
                char      **value,
                GError    **error)
{
  /* the last one: names in a graph may contain one, file names rarely do */
  const char *mark = strrchr (text, '=');

  if (mark == NULL || mark == text || mark[1] == '\0')
    {
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "“%s” is not NAME=FILE", text);
      return FALSE;
    }
  *name = g_strndup (text, (gsize) (mark - text));
  *value = g_strdup (mark + 1);
  return TRUE;
}

static RlxTensor *
random_tensor (RlxNode *node,
               GRand   *random,
               GError **error)
{
  gsize n_dims, n = 1;
  const gint64 *shape = rlx_node_get_shape (node, &n_dims);
  RlxDataType data_type = rlx_node_get_data_type (node);

  for (gsize i = 0; i < n_dims; i++)
    n *= (gsize) shape[i];
  if (data_type == RLX_DATA_TYPE_F32)
    {
      g_autofree float *values = g_new (float, n + 1);

      for (gsize i = 0; i < n; i++)
        values[i] = (float) g_rand_double_range (random, -1, 1);
      return rlx_tensor_new_from_floats (shape, n_dims, values, n, error);
    }
  else
    {
      g_autofree gint64 *values = g_new (gint64, n + 1);
      gint64 high = data_type == RLX_DATA_TYPE_BOOL ? 2 : 8;

      for (gsize i = 0; i < n; i++)
        values[i] = g_rand_int_range (random, 0, (gint32) high);
      return rlx_tensor_new_from_ints (data_type, shape, n_dims, values, n, error);
    }
}

/* All nodes that are leaves of one kind, in order. */
static GPtrArray *
find_leaves (RlxGraph   *graph,
             const char *op)
{
  GPtrArray *nodes = g_ptr_array_new_with_free_func (g_object_unref);

  for (guint i = 0; i < g_list_model_get_n_items (G_LIST_MODEL (graph)); i++)
    {
      g_autoptr(RlxNode) node = g_list_model_get_item (G_LIST_MODEL (graph), i);

      if (g_str_equal (rlx_node_get_op (node), op))
        g_ptr_array_add (nodes, g_steal_pointer (&node));
    }
  return nodes;
}

static GPtrArray *
random_leaves (RlxGraph   *graph,
               const char *op,
               GError    **error)
{
  g_autoptr(GPtrArray) nodes = find_leaves (graph, op);
  g_autoptr(GPtrArray) tensors = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr(GRand) random = g_rand_new_with_seed (1);

  for (guint i = 0; i < nodes->len; i++)
    {
      RlxTensor *tensor = random_tensor (g_ptr_array_index (nodes, i), random, error);

      if (tensor == NULL)
        return NULL;
      g_ptr_array_add (tensors, tensor);
    }
  return g_steal_pointer (&tensors);
}

GPtrArray *
rlx_tool_random_inputs (RlxGraph *graph,
                        GError  **error)
{
  return random_leaves (graph, "input", error);
}

gboolean
rlx_tool_random_parameters (RlxGraph      *graph,
                            RlxExecutable *executable,
                            GError       **error)
{
  g_autoptr(GPtrArray) nodes = find_leaves (graph, "parameter");
  g_autoptr(GPtrArray) tensors = random_leaves (graph, "parameter", error);
  g_autoptr(GPtrArray) names = g_ptr_array_new ();

  if (tensors == NULL)
    return FALSE;
  for (guint i = 0; i < nodes->len; i++)
    g_ptr_array_add (names, (gpointer) rlx_node_get_name (g_ptr_array_index (nodes, i)));
  g_ptr_array_add (names, NULL);
  return rlx_executable_set_parameters (executable, (const char *const *) names->pdata, (RlxTensor **) tensors->pdata, tensors->len, NULL, error);
}

static int
compare_doubles (const void *a,
                 const void *b)
{
  double x = *(const double *) a, y = *(const double *) b;

  return x < y ? -1 : x > y;
}

double
rlx_tool_median (double *values,
                 guint   n_values)
{
  qsort (values, n_values, sizeof (double), compare_doubles);
  return n_values % 2 ? values[n_values / 2] : (values[n_values / 2 - 1] + values[n_values / 2]) / 2;
}
