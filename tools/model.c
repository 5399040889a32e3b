/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Files of models in place of graphs.
 */
#include "config.h"

#include "rlx-tool.h"

gboolean
rlx_tool_is_model (const char *path)
{
  return g_str_has_suffix (path, ".onnx");
}

/* "name=3" as a dictionary. */
GVariant *
rlx_tool_parse_dimensions (char  **arguments,
                           GError **error)
{
  GVariantBuilder sizes = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE ("a{sx}"));

  for (char **argument = arguments; argument != NULL && *argument != NULL; argument++)
    {
      g_autofree char *name = NULL, *value = NULL;
      gint64 size;

      if (!rlx_tool_split (*argument, &name, &value, error) || !g_ascii_string_to_signed (value, 10, 0, G_MAXUINT32, &size, error))
        {
          g_variant_builder_clear (&sizes);
          return NULL;
        }
      g_variant_builder_add (&sizes, "{sx}", name, size);
    }
  return g_variant_ref_sink (g_variant_builder_end (&sizes));
}

RlxGraph *
rlx_tool_build_model (const char *path,
                      char      **dimensions,
                      GError    **error)
{
  g_autoptr(GFile) file = g_file_new_for_commandline_arg (path);
  g_autoptr(RlxModel) model = rlx_model_open (file, NULL, error);
  g_autoptr(GVariant) sizes = model != NULL ? rlx_tool_parse_dimensions (dimensions, error) : NULL;

  return sizes != NULL ? rlx_model_build (model, sizes, NULL, error) : NULL;
}

/* ---- rlx info --------------------------------------------------------------------------- */

/* The given sizes, and 1 for all other dynamic ones. */
static GVariant *
get_sizes (RlxModel *model,
           GVariant *given)
{
  GListModel *inputs = rlx_model_get_inputs (model);
  g_autoptr(GHashTable) names = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  GVariantBuilder sizes = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE ("a{sx}"));
  GHashTableIter iter;
  gpointer key;

  for (guint i = 0; i < g_list_model_get_n_items (inputs); i++)
    {
      g_autoptr(RlxModelPort) port = g_list_model_get_item (inputs, i);
      gsize n_dims;
      const gint64 *shape = rlx_model_port_get_shape (port, &n_dims);

      for (guint j = 0; j < n_dims; j++)
        {
          const char *name = rlx_model_port_get_dimension_name (port, j);

          if (shape[j] < 0)
            g_hash_table_add (names, name != NULL ? g_strdup (name) : g_strdup_printf ("%s.%u", rlx_model_port_get_name (port), j));
        }
    }
  g_hash_table_iter_init (&iter, names);
  while (g_hash_table_iter_next (&iter, &key, NULL))
    {
      gint64 size = 1;

      g_variant_lookup (given, key, "x", &size);
      g_variant_builder_add (&sizes, "{sx}", key, size);
    }
  return g_variant_builder_end (&sizes);
}

static GVariant *
describe_ports (GListModel *ports)
{
  GVariantBuilder rows = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE ("aa{sv}"));

  for (guint i = 0; i < g_list_model_get_n_items (ports); i++)
    {
      g_autoptr(RlxModelPort) port = g_list_model_get_item (ports, i);
      GVariantBuilder dims = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE ("av"));
      GVariantDict row;
      gsize n_dims;
      const gint64 *shape = rlx_model_port_get_shape (port, &n_dims);

      for (guint j = 0; j < n_dims; j++)
        {
          const char *name = rlx_model_port_get_dimension_name (port, j);

          g_variant_builder_add (&dims, "v", shape[j] >= 0 ? g_variant_new_int64 (shape[j]) : g_variant_new_string (name != NULL ? name : "?"));
        }
      g_variant_dict_init (&row, NULL);
      g_variant_dict_insert (&row, "name", "s", rlx_model_port_get_name (port));
      g_variant_dict_insert (&row, "type", "s", rlx_model_port_get_type_name (port));
      g_variant_dict_insert_value (&row, "shape", g_variant_builder_end (&dims));
      g_variant_builder_add_value (&rows, g_variant_dict_end (&row));
    }
  return g_variant_builder_end (&rows);
}

static void
print_ports (const char *title,
             GListModel *ports)
{
  g_print ("\n%s\n", title);
  for (guint i = 0; i < g_list_model_get_n_items (ports); i++)
    {
      g_autoptr(RlxModelPort) port = g_list_model_get_item (ports, i);
      g_autofree char *text = rlx_model_port_to_string (port);
      g_autofree char *safe = rlx_tool_make_printable (text);

      g_print ("  %s\n", safe);
    }
}

int
rlx_tool_info_model (const char *path,
                     char      **dimensions,
                     gboolean    json)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GError) refused = NULL;
  g_autoptr(GFile) file = g_file_new_for_commandline_arg (path);
  g_autoptr(RlxModel) model = rlx_model_open (file, NULL, &error);
  g_autoptr(GVariant) sizes = model != NULL ? rlx_tool_parse_dimensions (dimensions, &error) : NULL;
  g_autoptr(RlxGraph) graph = NULL;
  g_autoptr(GVariant) operators = NULL;
  GVariant *metadata;
  g_autofree char *name = NULL, *producer = NULL;
  GVariantIter iter;
  const char *key, *value;
  guint32 count;

  if (sizes == NULL)
    return rlx_tool_fail (error);
  name = rlx_tool_make_printable (rlx_model_get_name (model));
  producer = rlx_tool_make_printable (rlx_model_get_producer (model));
  graph = rlx_model_build (model, get_sizes (model, sizes), NULL, &refused);
  operators = rlx_model_count_operators (model);
  metadata = rlx_model_get_metadata (model);
  if (json)
    {
      GVariantDict dict;

      g_variant_dict_init (&dict, NULL);
      g_variant_dict_insert (&dict, "format", "s", "onnx");
      g_variant_dict_insert (&dict, "name", "s", rlx_model_get_name (model));
      g_variant_dict_insert (&dict, "producer", "s", rlx_model_get_producer (model));
      g_variant_dict_insert (&dict, "opset", "x", rlx_model_get_opset (model));
      g_variant_dict_insert (&dict, "nodes", "u", rlx_model_get_n_nodes (model));
      g_variant_dict_insert (&dict, "tensors", "u", rlx_model_get_n_tensors (model));
      g_variant_dict_insert (&dict, "bytes", "t", rlx_model_get_tensors_size (model));
      g_variant_dict_insert_value (&dict, "metadata", metadata);
      g_variant_dict_insert_value (&dict, "inputs", describe_ports (rlx_model_get_inputs (model)));
      g_variant_dict_insert_value (&dict, "outputs", describe_ports (rlx_model_get_outputs (model)));
      g_variant_dict_insert_value (&dict, "operators", operators);
      if (refused != NULL)
        g_variant_dict_insert (&dict, "refused", "s", refused->message);
      rlx_tool_print_json (g_variant_dict_end (&dict));
      return RLX_TOOL_OK;
    }

  g_print ("format    onnx\nname      %s\nproducer  %s\nopset     %" G_GINT64_FORMAT "\nnodes     %u\ntensors   %u\nbytes     %" G_GUINT64_FORMAT "\n",
           name, producer, rlx_model_get_opset (model), rlx_model_get_n_nodes (model),
           rlx_model_get_n_tensors (model), rlx_model_get_tensors_size (model));
  if (g_variant_n_children (metadata) > 0)
    g_print ("\nmetadata\n");
  g_variant_iter_init (&iter, metadata);
  while (g_variant_iter_next (&iter, "{&s&s}", &key, &value))
    {
      g_autofree char *safe_key = rlx_tool_make_printable (key);
      g_autofree char *safe = rlx_tool_make_printable (value);

      g_print ("  %-38s %s\n", safe_key, safe);
    }
  print_ports ("inputs", rlx_model_get_inputs (model));
  print_ports ("outputs", rlx_model_get_outputs (model));
  g_print ("\noperators\n");
  g_variant_iter_init (&iter, operators);
  while (g_variant_iter_next (&iter, "{&su}", &key, &count))
    g_print ("  %-38s %6u\n", key, count);
  if (refused != NULL)
    g_print ("\nrejected, with a size of 1 for each dimension that --dim does not set\n%s\n", refused->message);
  return RLX_TOOL_OK;
}
