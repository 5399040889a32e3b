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
  const RlxStorage *storage = rlx_storage_get (item->record->storage);
  const RlxMember *member = rlx_manifest_get_member (manifest, item->record);
  gboolean wide = item->storage != item->record->storage;
  g_autofree guint8 *piece = NULL, *widened = NULL;
  g_autoptr(RlxStream) stream = NULL;

  /* There is no order to take pieces in. */
  if (member != NULL && member->fortran_order)
    {
      g_autoptr(RlxTensor) tensor = NULL;
      g_autoptr(GBytes) bytes = NULL;

      if (wide)
        tensor = rlx_record_load_tensor (manifest, item->record, FALSE, item->weights, cancellable, error);
      else
        bytes = rlx_record_load_bytes (manifest, item->record, item->weights, cancellable, error);
      if (tensor != NULL)
        bytes = g_bytes_ref (rlx_tensor_get_bytes (tensor));
      return bytes != NULL && func (data, g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes), error);
    }

  stream = rlx_manifest_open (manifest, item->record, cancellable, error);
  if (stream == NULL)
    return FALSE;
  piece = g_malloc (RLX_PIECE);
  widened = wide ? g_malloc (RLX_PIECE / storage->bytes * 4) : NULL;
  while (rlx_stream_get_left (stream) > 0)
    {
      gsize n = (gsize) MIN (rlx_stream_get_left (stream), RLX_PIECE);

      if (!rlx_stream_read (stream, "its elements", piece, n, cancellable, error))
        return FALSE;
      if (wide)
        rlx_storage_widen (storage, piece, n / storage->bytes, widened);
      if (!func (data, wide ? widened : piece, wide ? n / storage->bytes * 4 : n, error))
        return FALSE;
      rlx_weights_advance (item->weights, n);
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

/* What elements become in a file of that format: themselves, or what holds them without
 * loss. */
static gboolean
choose_storage (RlxWeightsFormat format,
                const char      *name,
                guint            from,
                guint           *to,
                GError         **error)
{
  const RlxStorage *storage = rlx_storage_get (from);
  int wide = storage->convert != RLX_CONVERT_NONE && storage->convert != RLX_CONVERT_IMPOSSIBLE ?
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

  return choose_storage (format, quoted, storage, &item->storage, error) &&
         rlx_manifest_add (checked, 0, item->name, strlen (item->name), item->storage, item->shape, item->n_dims, &item->size, error) != NULL;
}
