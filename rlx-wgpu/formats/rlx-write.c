/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "formats/rlx-write-private.h"

#include <string.h>

#include "rlx-tensor-private.h"
#include "util/rlx-debug-private.h"

static gboolean
write_record (const RlxItem *item,
              RlxItemFunc    func,
              gpointer       data,
              GCancellable  *cancellable,
              GError       **error)
{
  RlxManifest *manifest = item->weights->manifest;
  RlxRecordForm form = item->storage != item->record->storage ? RLX_RECORD_WIDE : RLX_RECORD_OWN;
  g_autoptr(RlxRecordReader) reader = NULL;
  g_autofree guint8 *piece = NULL;

  if (!rlx_record_is_in_order (manifest, item->record))
    {
      g_autoptr(RlxTensor) tensor = NULL;
      g_autoptr(GBytes) bytes = NULL;

      if (form == RLX_RECORD_WIDE)
        tensor = rlx_record_load_tensor (manifest, item->record, form, item->weights, cancellable, error);
      else
        bytes = rlx_record_load_bytes (manifest, item->record, item->weights, cancellable, error);
      if (tensor != NULL)
        bytes = g_bytes_ref (rlx_tensor_get_bytes (tensor));
      return bytes != NULL && func (data, g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes), error);
    }

  reader = rlx_record_reader_new (manifest, item->record, form, item->weights, cancellable, error);
  if (reader == NULL)
    return FALSE;
  piece = g_malloc (RLX_PIECE);
  while (rlx_record_reader_get_left (reader) > 0)
    {
      gsize n = (gsize) MIN (rlx_record_reader_get_left (reader), RLX_PIECE);

      if (!rlx_record_reader_read (reader, piece, n, cancellable, error) || !func (data, piece, n, error))
        return FALSE;
    }
  return TRUE;
}

gboolean
rlx_item_write (const RlxItem *item,
                RlxItemFunc    func,
                gpointer       data,
                GCancellable  *cancellable,
                GError       **error)
{
  if (item->tensor == NULL)
    return write_record (item, func, data, cancellable, error);
  if (!rlx_tensor_fetch (item->tensor, cancellable, error))
    return FALSE;
  return func (data, rlx_tensor_peek_data (item->tensor), rlx_tensor_get_size (item->tensor), error);
}

static gboolean
write_to_sink (gpointer      sink,
               gconstpointer bytes,
               gsize         size,
               GError      **error)
{
  return rlx_sink_write (sink, bytes, size, error);
}

gboolean
rlx_item_copy (const RlxItem *item,
               RlxSink       *sink,
               GCancellable  *cancellable,
               GError       **error)
{
  return rlx_item_write (item, write_to_sink, sink, cancellable, error);
}

/* ---- types -------------------------------------------------------------------------- */

static gboolean
has_storage (RlxWeightsFormat  format,
             const RlxStorage *storage)
{
  switch (format)
    {
    case RLX_WEIGHTS_FORMAT_SAFETENSORS:
      return storage->safetensors != NULL;
    case RLX_WEIGHTS_FORMAT_GGUF:
      return storage->gguf >= 0;
    default:
      return storage->npy != NULL;
    }
}

const char *
rlx_weights_format_get_title (RlxWeightsFormat format)
{
  static const char *const names[] = { "safetensors", "GGUF", ".npz", ".npy" };

  return names[format];
}

/* The type of elements in a file of that format: their own, or one that holds them without loss. */
static gboolean
choose_storage (RlxWeightsFormat format,
                const char      *name,
                guint            from,
                gboolean         can_widen,
                guint           *to,
                GError         **error)
{
  const RlxStorage *storage = rlx_storage_get (from);
  int wide = can_widen && storage->convert != RLX_CONVERT_NONE && storage->convert != RLX_CONVERT_IMPOSSIBLE ?
             rlx_storage_find_data_type (storage->data_type) : -1;

  *to = from;
  if (has_storage (format, storage))
    return TRUE;
  if (wide >= 0 && has_storage (format, rlx_storage_get ((guint) wide)))
    {
      *to = (guint) wide;
      return TRUE;
    }
  g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_DATA_TYPE, "%s is of type %s, which %s files do not have",
               name, storage->name, rlx_weights_format_get_title (format));
  return FALSE;
}

gboolean
rlx_item_check (RlxItem         *item,
                RlxWeightsFormat format,
                guint            storage,
                RlxManifest     *checked,
                GError         **error)
{
  g_autofree char *quoted = rlx_quote_text (item->name, -1);

  return choose_storage (format, quoted, storage, item->tensor == NULL, &item->storage, error) &&
         rlx_manifest_add (checked, 0, item->name, strlen (item->name), item->storage, item->shape, item->n_dims, &item->size, error) != NULL;
}
