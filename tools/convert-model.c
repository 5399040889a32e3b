/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A model's file as a graph in the text form, and a file of its weights.
 */
#include "config.h"

#include <string.h>

#include "rlx-tool.h"

/* Smaller constants stay in the text. */
#define MIN_BYTES 256

/* Converts "%3 = constant f32[2, 3] base64:"…"" to a tensor; NULL without an error for any other line. @rest is the text after
 * the elements. */
static RlxTensor *
read_constant (const char  *line,
               char       **name,
               char       **type,
               const char **rest,
               GError     **error)
{
  static const char middle[] = " = constant ", start[] = " base64:\"";
  const char *word, *bracket, *data, *end;
  gint64 shape[RLX_MAX_DIMS];
  g_autofree char *kind = NULL, *text = NULL;
  g_autofree guint8 *bytes = NULL;
  gsize n_dims = 0, size;
  RlxDataType data_type;

  word = line[0] == '%' ? strstr (line, middle) : NULL;
  if (word == NULL)
    return NULL;
  *name = g_strdup_printf ("w%.*s", (int) (word - line - 1), line + 1);
  word += strlen (middle);
  bracket = strchr (word, '[');
  data = bracket != NULL ? strchr (bracket, ']') : NULL;
  if (data == NULL || !g_str_has_prefix (data + 1, start) || (end = strchr (data + 1 + strlen (start), '"')) == NULL)
    return NULL;
  kind = g_strndup (word, (gsize) (bracket - word));
  /* Weight files store these types unchanged. */
  if (!rlx_data_type_from_string (kind, &data_type, NULL) || data_type > RLX_DATA_TYPE_U64)
    return NULL;
  for (const char *p = bracket + 1; p < data && n_dims < RLX_MAX_DIMS;)
    {
      char *after;

      shape[n_dims++] = g_ascii_strtoll (p, &after, 10);
      p = after + strspn (after, ", ");
    }
  data += 1 + strlen (start);
  text = g_strndup (data, (gsize) (end - data));
  bytes = g_base64_decode (text, &size);
  if (size < MIN_BYTES)
    return NULL;
  *type = g_strndup (word, (gsize) (strchr (word, ']') + 1 - word));
  *rest = end + 1;
  return rlx_tensor_new_from_data (data_type, shape, n_dims, bytes, size, error);
}

gboolean
rlx_tool_convert_model (const char *path,
                        char      **dimensions,
                        const char *weights,
                        GFile      *output,
                        GError    **error)
{
  g_autoptr(RlxGraph) graph = rlx_tool_build_model (path, dimensions, error);
  g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  g_autoptr(GPtrArray) tensors = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr(GString) out = g_string_new (NULL);
  g_autoptr(GFile) file = NULL;
  g_autofree char *text = NULL;

  if (graph == NULL)
    return FALSE;
  text = rlx_graph_to_text (graph);
  for (char *line = text, *next; *line != '\0'; line = next)
    {
      g_autofree char *name = NULL, *type = NULL;
      g_autoptr(RlxTensor) tensor = NULL;
      GError *local = NULL;
      const char *rest = NULL;

      next = line + strcspn (line, "\n");
      if (*next != '\0')
        *next++ = '\0';
      tensor = weights != NULL ? read_constant (line, &name, &type, &rest, &local) : NULL;
      if (local != NULL)
        {
          g_propagate_error (error, local);
          return FALSE;
        }
      if (tensor == NULL)
        {
          g_string_append_printf (out, "%s\n", line);
          continue;
        }
      /* A parameter has a name instead of a label. */
      g_string_append_printf (out, "%.*s = parameter \"%s\" %s\n", (int) (strchr (line, ' ') - line), line, name, type);
      g_ptr_array_add (names, g_steal_pointer (&name));
      g_ptr_array_add (tensors, g_steal_pointer (&tensor));
    }
  if (!g_file_replace_contents (output, out->str, out->len, NULL, FALSE, G_FILE_CREATE_NONE, NULL, NULL, error))
    return FALSE;
  if (weights == NULL)
    return TRUE;
  g_ptr_array_add (names, NULL);
  file = g_file_new_for_commandline_arg (weights);
  return rlx_weights_write_safetensors (file, (const char *const *) names->pdata, (RlxTensor **) tensors->pdata, tensors->len, NULL, NULL, error);
}
