/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * safetensors files: the length of the header, the header, the tensors.
 */
#include "config.h"

#include "formats/rlx-write-private.h"

/* The alignment of the data. */
#define ALIGNMENT 8

static void
append_string (GString    *text,
               const char *string)
{
  g_string_append_c (text, '"');
  for (const char *p = string; *p != '\0'; p++)
    {
      if (*p == '"' || *p == '\\')
        g_string_append_printf (text, "\\%c", *p);
      else if ((guchar) *p < ' ')
        g_string_append_printf (text, "\\u%04x", (guchar) *p);
      else
        g_string_append_c (text, *p);
    }
  g_string_append_c (text, '"');
}

static void
append_metadata (GString  *text,
                 GVariant *metadata)
{
  gsize n = metadata != NULL ? g_variant_n_children (metadata) : 0;

  for (gsize i = 0; i < n; i++)
    {
      g_autoptr(GVariant) pair = g_variant_get_child_value (metadata, i);
      const char *key, *value;

      g_variant_get (pair, "{&s&s}", &key, &value);
      g_string_append (text, i == 0 ? "\"__metadata__\":{" : ",");
      append_string (text, key);
      g_string_append_c (text, ':');
      append_string (text, value);
    }
  if (n > 0)
    g_string_append_c (text, '}');
}

/* Tensors with the largest elements come first, so that all are aligned. */
static int
compare_sizes (gconstpointer a,
               gconstpointer b)
{
  const RlxStorage *x = rlx_storage_get ((*(const RlxItem *const *) a)->storage);
  const RlxStorage *y = rlx_storage_get ((*(const RlxItem *const *) b)->storage);
  guint x_bytes = x->numbers == 1 ? x->bytes : 1, y_bytes = y->numbers == 1 ? y->bytes : 1;

  return (int) y_bytes - (int) x_bytes;
}

gboolean
rlx_safetensors_write (RlxSink       *sink,
                       const RlxItem *items,
                       gsize          n_items,
                       GVariant      *metadata,
                       GCancellable  *cancellable,
                       GError       **error)
{
  g_autoptr(GString) header = g_string_new ("{");
  g_autoptr(GPtrArray) sorted = g_ptr_array_new ();
  guint64 length, at = 0;

  for (gsize i = 0; i < n_items; i++)
    g_ptr_array_add (sorted, (gpointer) &items[i]);
  g_ptr_array_sort (sorted, compare_sizes);

  append_metadata (header, metadata);
  for (guint i = 0; i < sorted->len; i++)
    {
      const RlxItem *item = g_ptr_array_index (sorted, i);

      if (header->len > 1)
        g_string_append_c (header, ',');
      append_string (header, item->name);
      g_string_append_printf (header, ":{\"dtype\":\"%s\",\"shape\":[", rlx_storage_get (item->storage)->safetensors);
      for (guint j = 0; j < item->n_dims; j++)
        g_string_append_printf (header, "%s%" G_GINT64_FORMAT, j > 0 ? "," : "", item->shape[j]);
      g_string_append_printf (header, "],\"data_offsets\":[%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT "]}", at, at + item->size);
      at += item->size;
    }
  g_string_append_c (header, '}');
  while (header->len % ALIGNMENT != 0)
    g_string_append_c (header, ' ');
  if (header->len > RLX_SAFETENSORS_MAX_HEADER)
    {
      g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_LIMIT, "the header has %" G_GSIZE_FORMAT " bytes; the limit is %" G_GUINT64_FORMAT,
                   header->len, RLX_SAFETENSORS_MAX_HEADER);
      return FALSE;
    }

  length = GUINT64_TO_LE ((guint64) header->len);
  if (!rlx_sink_write (sink, &length, sizeof length, error) || !rlx_sink_write (sink, header->str, header->len, error))
    return FALSE;
  for (guint i = 0; i < sorted->len; i++)
    if (!rlx_item_copy (g_ptr_array_index (sorted, i), sink, cancellable, error))
      return FALSE;
  return TRUE;
}
