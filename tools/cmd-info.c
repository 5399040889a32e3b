/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-tool.h"

/* Longer strings and arrays are truncated: a vocabulary would fill the terminal. */
#define MAX_TEXT 72
#define MAX_ELEMENTS 8

/* The totals of an element type. */
typedef struct
{
  const char *name;
  guint64 n_tensors;
  guint64 bytes;
} Total;

static const char *
get_format_name (RlxWeights *weights)
{
  g_autoptr(GEnumClass) klass = g_type_class_ref (RLX_TYPE_WEIGHTS_FORMAT);

  return g_enum_get_value (klass, (int) rlx_weights_get_format (weights))->value_nick;
}

static GArray *
count (RlxWeights *weights)
{
  GArray *totals = g_array_new (FALSE, TRUE, sizeof (Total));

  for (guint i = 0; i < g_list_model_get_n_items (G_LIST_MODEL (weights)); i++)
    {
      g_autoptr(RlxWeightsEntry) entry = g_list_model_get_item (G_LIST_MODEL (weights), i);
      const char *name = rlx_weights_entry_get_type_name (entry);
      guint j = 0;

      while (j < totals->len && g_array_index (totals, Total, j).name != name)
        j++;
      if (j == totals->len)
        g_array_append_vals (totals, &(Total) { name, 0, 0 }, 1);
      g_array_index (totals, Total, j).n_tensors++;
      g_array_index (totals, Total, j).bytes += rlx_weights_entry_get_size (entry);
    }
  return totals;
}

static char *
describe_shape (RlxWeightsEntry *entry)
{
  gsize n_dims;
  const gint64 *shape = rlx_weights_entry_get_shape (entry, &n_dims);
  GString *text = g_string_new ("[");

  for (gsize i = 0; i < n_dims; i++)
    g_string_append_printf (text, "%s%" G_GINT64_FORMAT, i > 0 ? ", " : "", shape[i]);
  g_string_append_c (text, ']');
  return g_string_free_and_steal (text);
}

/* Escapes text from a file, which must not control the terminal. */
char *
rlx_tool_make_printable (const char *text)
{
  GString *result = g_string_new (NULL);
  guint n = 0;

  for (const char *p = text; *p != '\0'; p = g_utf8_next_char (p), n++)
    {
      gunichar c = g_utf8_get_char (p);

      if (n == MAX_TEXT)
        {
          g_string_append (result, "…");
          break;
        }
      if (g_unichar_isprint (c))
        g_string_append_unichar (result, c);
      else
        g_string_append_printf (result, "\\u%04x", c);
    }
  return g_string_free_and_steal (result);
}

static char *
describe_value (GVariant *value)
{
  g_autofree char *text = NULL;

  if (g_variant_is_of_type (value, G_VARIANT_TYPE_STRING))
    return rlx_tool_make_printable (g_variant_get_string (value, NULL));
  if (g_variant_is_container (value) && g_variant_n_children (value) > MAX_ELEMENTS)
    return g_strdup_printf ("%" G_GSIZE_FORMAT " of type %s", g_variant_n_children (value), g_variant_get_type_string (value) + 1);
  text = g_variant_print (value, FALSE);
  return rlx_tool_make_printable (text);
}

static void
print_text (RlxWeights *weights)
{
  g_autoptr(GArray) totals = count (weights);
  GVariant *metadata = rlx_weights_get_metadata (weights);
  guint n = g_list_model_get_n_items (G_LIST_MODEL (weights));
  guint64 bytes = 0;

  for (guint i = 0; i < totals->len; i++)
    bytes += g_array_index (totals, Total, i).bytes;
  g_print ("format   %s\ntensors  %u\nbytes    %" G_GUINT64_FORMAT "\n", get_format_name (weights), n, bytes);

  if (g_variant_n_children (metadata) > 0)
    g_print ("\nmetadata\n");
  for (gsize i = 0; i < g_variant_n_children (metadata); i++)
    {
      g_autoptr(GVariant) pair = g_variant_get_child_value (metadata, i);
      g_autoptr(GVariant) value = NULL;
      g_autofree char *text = NULL, *key = NULL;
      const char *name;

      g_variant_get (pair, "{&sv}", &name, &value);
      key = rlx_tool_make_printable (name);
      text = describe_value (value);
      g_print ("%-40s %s\n", key, text);
    }

  if (n > 0)
    g_print ("\n%-40s %-8s %-20s %14s %14s\n", "tensor", "type", "shape", "bytes", "offset");
  for (guint i = 0; i < n; i++)
    {
      g_autoptr(RlxWeightsEntry) entry = g_list_model_get_item (G_LIST_MODEL (weights), i);
      g_autofree char *shape = describe_shape (entry);

      g_print ("%-40s %-8s %-20s %14" G_GUINT64_FORMAT " %14" G_GUINT64_FORMAT "\n", rlx_weights_entry_get_name (entry),
               rlx_weights_entry_get_type_name (entry), shape, rlx_weights_entry_get_size (entry), rlx_weights_entry_get_offset (entry));
    }

  if (totals->len > 0)
    g_print ("\n%-40s %8s %35s\n", "type", "tensors", "bytes");
  for (guint i = 0; i < totals->len; i++)
    {
      const Total *total = &g_array_index (totals, Total, i);

      g_print ("%-40s %8" G_GUINT64_FORMAT " %35" G_GUINT64_FORMAT "\n", total->name, total->n_tensors, total->bytes);
    }
}

static void
print_json (RlxWeights *weights)
{
  g_autoptr(GArray) totals = count (weights);
  GVariantBuilder tensors;
  GVariantDict dict, by_type;

  g_variant_builder_init (&tensors, G_VARIANT_TYPE ("aa{sv}"));
  for (guint i = 0; i < g_list_model_get_n_items (G_LIST_MODEL (weights)); i++)
    {
      g_autoptr(RlxWeightsEntry) entry = g_list_model_get_item (G_LIST_MODEL (weights), i);
      GVariantDict row;
      gsize n_dims;
      const gint64 *shape = rlx_weights_entry_get_shape (entry, &n_dims);

      g_variant_dict_init (&row, NULL);
      g_variant_dict_insert (&row, "name", "s", rlx_weights_entry_get_name (entry));
      g_variant_dict_insert (&row, "type", "s", rlx_weights_entry_get_type_name (entry));
      g_variant_dict_insert_value (&row, "shape", g_variant_new_fixed_array (G_VARIANT_TYPE_INT64, shape, n_dims, sizeof (gint64)));
      g_variant_dict_insert (&row, "bytes", "t", rlx_weights_entry_get_size (entry));
      g_variant_dict_insert (&row, "offset", "t", rlx_weights_entry_get_offset (entry));
      g_variant_builder_add_value (&tensors, g_variant_dict_end (&row));
    }
  g_variant_dict_init (&by_type, NULL);
  for (guint i = 0; i < totals->len; i++)
    {
      const Total *total = &g_array_index (totals, Total, i);

      g_variant_dict_insert (&by_type, total->name, "a{st}", NULL);
      g_variant_dict_insert_value (&by_type, total->name,
                                   g_variant_new_parsed ("{'tensors': %t, 'bytes': %t}", total->n_tensors, total->bytes));
    }
  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "format", "s", get_format_name (weights));
  g_variant_dict_insert_value (&dict, "metadata", rlx_weights_get_metadata (weights));
  g_variant_dict_insert_value (&dict, "tensors", g_variant_builder_end (&tensors));
  g_variant_dict_insert_value (&dict, "totals", g_variant_dict_end (&by_type));
  rlx_tool_print_json (g_variant_dict_end (&dict));
}

int
rlx_tool_info (int    argc,
               char **argv)
{
  gboolean json = FALSE;
  g_auto(GStrv) dimensions = NULL;
  const GOptionEntry entries[] = {
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, "Print JSON", NULL },
    { "dim", 0, 0, G_OPTION_ARG_STRING_ARRAY, &dimensions, "The size of a dimension of an ONNX model, else 1; may come several times", "NAME=SIZE" },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GError) error = NULL;
  g_autoptr(GFile) file = NULL;
  g_autoptr(RlxWeights) weights = NULL;
  int status;

  if (!rlx_tool_parse ("FILE", "Lists the tensors and metadata of a weight file, or the contents of an ONNX model.", entries, &argc, &argv, 1, 1, &status))
    return status;

  if (rlx_tool_is_model (argv[1]))
    return rlx_tool_info_model (argv[1], dimensions, json);
  file = g_file_new_for_commandline_arg (argv[1]);
  weights = rlx_weights_open (file, NULL, &error);
  if (weights == NULL)
    return rlx_tool_fail (error);
  if (json)
    print_json (weights);
  else
    print_text (weights);
  return RLX_TOOL_OK;
}
