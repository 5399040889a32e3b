/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * From the bytes of a file to tensors.
 */
#include "config.h"

#include "formats/rlx-weights-private.h"

#include <string.h>

#include "rlx-job-private.h"
#include "rlx-tensor-private.h"
#include "util/rlx-debug-private.h"

/* ---- bytes --------------------------------------------------------------------------- */

static gboolean
check_order (const RlxStorage *storage,
             GError          **error)
{
#if G_BYTE_ORDER == G_LITTLE_ENDIAN
  return TRUE;
#else
  guint numbers, bytes;

  rlx_storage_get_block (storage, &numbers, &bytes);
  if (bytes == 1)
    return TRUE;
  g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_UNSUPPORTED,
               "Numbers of type %s are not in the byte order of this computer", storage->name);
  return FALSE;
#endif
}

static gpointer
try_alloc (guint64  size,
           GError **error)
{
  gpointer memory = size <= G_MAXSIZE ? rlx_try_alloc ((gsize) size, NULL) : NULL;

  if (memory == NULL)
    g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_LIMIT, "There is no memory for its %" G_GUINT64_FORMAT " bytes", size);
  return memory;
}

/* The elements in row-major order. */
static GBytes *
from_fortran_order (RlxManifest     *manifest,
                    const RlxRecord *record,
                    GBytes          *bytes,
                    GError         **error)
{
  const gint64 *shape = rlx_manifest_get_shape (manifest, record);
  const guint8 *from = g_bytes_get_data (bytes, NULL);
  gsize element = rlx_storage_get (record->storage)->bytes, stride = element, offset = 0;
  gsize strides[RLX_MAX_DIMS];
  gint64 index[RLX_MAX_DIMS] = { 0 };
  guint8 *data = try_alloc (record->length, error);

  if (data == NULL)
    return NULL;
  /* No product here exceeds the length. */
  for (guint i = 0; i < record->n_dims; i++)
    {
      strides[i] = stride;
      stride *= (gsize) shape[i];
    }
  for (gsize to = 0; to < record->length; to += element)
    {
      memcpy (data + to, from + offset, element);
      for (guint i = record->n_dims; i-- > 0;)
        {
          offset += strides[i];
          if (++index[i] < shape[i])
            break;
          offset -= strides[i] * (gsize) shape[i];
          index[i] = 0;
        }
    }
  return g_bytes_new_take (data, (gsize) record->length);
}

/* ---- in pieces ------------------------------------------------------------------------- */

struct _RlxRecordReader
{
  const RlxStorage *storage;
  RlxStream *stream;
  RlxWeights *progress;      /* nullable */
  guint8 *narrow;            /* buffer for elements that are stored in a narrower type; nullable */
};

/* The number of bytes that are read before they are widened. */
#define NARROW_BYTES ((gsize) 256 << 10)

gboolean
rlx_record_is_in_order (RlxManifest     *manifest,
                        const RlxRecord *record)
{
  const RlxMember *member = rlx_manifest_get_member (manifest, record);

  return member == NULL || !member->fortran_order;
}

RlxRecordReader *
rlx_record_reader_new (RlxManifest     *manifest,
                       const RlxRecord *record,
                       RlxRecordForm    form,
                       RlxWeights      *progress,
                       GCancellable    *cancellable,
                       GError         **error)
{
  const RlxStorage *storage = rlx_storage_get (record->storage);
  RlxRecordReader *self;
  RlxStream *stream;

  /* NumPy files state their byte order. */
  if (rlx_manifest_get_member (manifest, record) == NULL && !check_order (storage, error))
    return NULL;
  stream = rlx_manifest_open (manifest, record, cancellable, error);
  if (stream == NULL)
    return NULL;
  self = g_new0 (RlxRecordReader, 1);
  *self = (RlxRecordReader) { .storage = storage, .stream = stream, .progress = progress };
  if (form == RLX_RECORD_WIDE && storage->convert != RLX_CONVERT_NONE)
    self->narrow = g_malloc (NARROW_BYTES);
  return self;
}

void
rlx_record_reader_free (RlxRecordReader *self)
{
  rlx_stream_free (self->stream);
  g_free (self->narrow);
  g_free (self);
}

guint64
rlx_record_reader_get_left (RlxRecordReader *self)
{
  guint64 left = rlx_stream_get_left (self->stream);

  return self->narrow != NULL ? left / self->storage->bytes * sizeof (guint32) : left;
}

gboolean
rlx_record_reader_read (RlxRecordReader *self,
                        gpointer         to,
                        gsize            size,
                        GCancellable    *cancellable,
                        GError         **error)
{
  guint8 *bytes = to;

  while (size > 0)
    {
      gsize n = self->narrow != NULL ? MIN (size / sizeof (guint32) * self->storage->bytes, NARROW_BYTES) : MIN (size, RLX_PIECE);
      gsize done = self->narrow != NULL ? n / self->storage->bytes * sizeof (guint32) : n;

      if (!rlx_stream_read (self->stream, "its elements", self->narrow != NULL ? self->narrow : bytes, n, cancellable, error))
        return FALSE;
      if (self->narrow != NULL)
        rlx_storage_widen (self->storage, self->narrow, n / self->storage->bytes, bytes);
      if (self->progress != NULL)
        rlx_weights_advance (self->progress, n);
      bytes += done;
      size -= done;
    }
  return TRUE;
}

/* ---- as a whole ------------------------------------------------------------------------ */

/* The bytes as they are in the file. */
static GBytes *
read_bytes (RlxManifest     *manifest,
            const RlxRecord *record,
            RlxWeights      *progress,
            GCancellable    *cancellable,
            GError         **error)
{
  const RlxMember *member = rlx_manifest_get_member (manifest, record);
  g_autoptr(RlxRecordReader) reader = NULL;
  g_autofree guint8 *data = NULL;
  GBytes *shared = NULL;

  if (member == NULL && !check_order (rlx_storage_get (record->storage), error))
    return NULL;
  if (member == NULL || (!member->extent.deflated && !member->extent.has_crc))
    shared = rlx_source_share (g_ptr_array_index (manifest->sources, record->part), record->offset, (gsize) record->length);
  if (shared != NULL)
    {
      if (progress != NULL)
        rlx_weights_advance (progress, (gsize) record->length);
      return shared;
    }
  data = try_alloc (record->length, error);
  if (data == NULL)
    return NULL;
  reader = rlx_record_reader_new (manifest, record, RLX_RECORD_OWN, progress, cancellable, error);
  if (reader == NULL || !rlx_record_reader_read (reader, data, (gsize) record->length, cancellable, error))
    return NULL;
  return g_bytes_new_take (g_steal_pointer (&data), (gsize) record->length);
}

GBytes *
rlx_record_load_bytes (RlxManifest     *manifest,
                       const RlxRecord *record,
                       RlxWeights      *progress,
                       GCancellable    *cancellable,
                       GError         **error)
{
  g_autoptr(GBytes) bytes = read_bytes (manifest, record, progress, cancellable, error);

  if (bytes == NULL || rlx_record_is_in_order (manifest, record))
    return g_steal_pointer (&bytes);
  return from_fortran_order (manifest, record, bytes, error);
}

/* ---- tensors ------------------------------------------------------------------------- */

void
rlx_record_get_packed_shape (RlxManifest     *manifest,
                             const RlxRecord *record,
                             gint64          *dims)
{
  guint numbers, bytes;

  rlx_storage_get_block (rlx_storage_get (record->storage), &numbers, &bytes);
  if (record->n_dims > 0)
    {
      memcpy (dims, rlx_manifest_get_shape (manifest, record), record->n_dims * sizeof (gint64));
      dims[record->n_dims - 1] = dims[record->n_dims - 1] / numbers * bytes;
    }
}

static GBytes *
widen (const RlxStorage *storage,
       GBytes           *bytes,
       GError          **error)
{
  gsize size;
  gconstpointer from = g_bytes_get_data (bytes, &size);
  gsize n = size / storage->bytes;
  gpointer to = try_alloc ((guint64) n * sizeof (guint32), error);

  if (to == NULL)
    return NULL;
  rlx_storage_widen (storage, from, n, to);
  return g_bytes_new_take (to, n * sizeof (guint32));
}

RlxTensor *
rlx_record_load_tensor (RlxManifest     *manifest,
                        const RlxRecord *record,
                        RlxRecordForm    form,
                        RlxWeights      *progress,
                        GCancellable    *cancellable,
                        GError         **error)
{
  const RlxStorage *storage = rlx_storage_get (record->storage);
  RlxDataType data_type = form == RLX_RECORD_PACKED ? RLX_DATA_TYPE_U8 : form == RLX_RECORD_OWN ? storage->own_type : storage->data_type;
  g_autoptr(GBytes) bytes = NULL;
  g_autoptr(GError) local_error = NULL;
  gint64 dims[RLX_MAX_DIMS] = { 0 };
  RlxTensor *tensor;

  if (storage->convert == RLX_CONVERT_IMPOSSIBLE)
    {
      g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_UNSUPPORTED,
                   "Numbers of type %s cannot become a tensor without loss; their bytes can be loaded", storage->name);
      return NULL;
    }
  bytes = rlx_record_load_bytes (manifest, record, progress, cancellable, error);
  if (bytes == NULL)
    return NULL;

  if (form == RLX_RECORD_PACKED || storage->numbers == 0)
    rlx_record_get_packed_shape (manifest, record, dims);
  else if (record->n_dims > 0)
    memcpy (dims, rlx_manifest_get_shape (manifest, record), record->n_dims * sizeof (gint64));
  if (form == RLX_RECORD_WIDE && storage->convert != RLX_CONVERT_NONE)
    {
      GBytes *wide = widen (storage, bytes, error);

      if (wide == NULL)
        return NULL;
      g_bytes_unref (bytes);
      bytes = wide;
    }
  tensor = rlx_tensor_new_from_bytes (data_type, dims, record->n_dims, bytes, &local_error);
  /* The shape was checked when the file was opened, so either memory is exhausted, or the packed rows have too many bytes to
   * count. */
  if (tensor == NULL)
    g_set_error_literal (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_LIMIT, local_error->message);
  return tensor;
}

/* ---- by name -------------------------------------------------------------------------- */

/* Prefixes an error with the names of the file and the tensor. */
static void
prefix (RlxWeights *self,
        const char *name,
        GError    **error)
{
  g_autofree char *quoted = rlx_quote_text (name, -1);

  g_prefix_error (error, "%s%s%s: ", self->title != NULL ? self->title : "", self->title != NULL ? ": " : "", quoted);
}

static gpointer
load (RlxWeights   *self,
      const char   *name,
      gboolean      as_bytes,
      GCancellable *cancellable,
      GError      **error)
{
  gint64 index = self->manifest != NULL ? rlx_manifest_find (self->manifest, name) : -1;
  const RlxRecord *record;
  gpointer result;

  if (index < 0)
    {
      g_set_error_literal (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_NOT_FOUND, "There is no tensor of this name");
      prefix (self, name, error);
      return NULL;
    }
  record = rlx_manifest_get (self->manifest, (guint) index);
  rlx_weights_begin (self, record->length);
  result = as_bytes ? (gpointer) rlx_record_load_bytes (self->manifest, record, self, cancellable, error)
                    : (gpointer) rlx_record_load_tensor (self->manifest, record, RLX_RECORD_WIDE, self, cancellable, error);
  rlx_weights_end (self);
  if (result == NULL)
    prefix (self, name, error);
  return result;
}

/**
 * rlx_weights_load_tensor:
 * @self: weights
 * @name: the name of a tensor
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Reads a tensor from the file.
 *
 * Types that the library computes with are kept. Narrower ones are widened without
 * loss: `bf16` and 8-bit floats become `f32`, 16-bit integers become `i32` or `u32`.
 * Others, such as `f64`, fail with %RLX_WEIGHTS_ERROR_UNSUPPORTED. Blocks of GGUF files
 * stay packed: the tensor has type `u8`, and its last dimension is the number of bytes
 * per row, as [method@Rlx.Node.dequant_matmul] expects it.
 *
 * If the file has become shorter since it was opened, this fails with
 * %RLX_WEIGHTS_ERROR_TRUNCATED.
 *
 * Returns: (transfer full): a new tensor
 *
 * Since: 1.0
 */
RlxTensor *
rlx_weights_load_tensor (RlxWeights   *self,
                         const char   *name,
                         GCancellable *cancellable,
                         GError      **error)
{
  g_return_val_if_fail (RLX_IS_WEIGHTS (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  return load (self, name, FALSE, cancellable, error);
}

/**
 * rlx_weights_load_bytes:
 * @self: weights
 * @name: the name of a tensor
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Reads the elements of a tensor as the file stores them, whatever their type, in
 * row-major order.
 *
 * Returns: (transfer full): the bytes
 *
 * Since: 1.0
 */
GBytes *
rlx_weights_load_bytes (RlxWeights   *self,
                        const char   *name,
                        GCancellable *cancellable,
                        GError      **error)
{
  g_return_val_if_fail (RLX_IS_WEIGHTS (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  return load (self, name, TRUE, cancellable, error);
}

/* ---- without blocking ------------------------------------------------------------------ */

typedef struct
{
  RlxWeights *weights;
  char *name;
  gboolean as_bytes;
} Loading;

static void
loading_free (gpointer data)
{
  Loading *loading = data;

  g_object_unref (loading->weights);
  g_free (loading->name);
  g_free (loading);
}

static gpointer
load_in_thread (gpointer      data,
                GCancellable *cancellable,
                GError      **error)
{
  Loading *loading = data;

  return load (loading->weights, loading->name, loading->as_bytes, cancellable, error);
}

static void
start (RlxWeights         *self,
       const char         *name,
       gboolean            as_bytes,
       gpointer            tag,
       GCancellable       *cancellable,
       GAsyncReadyCallback callback,
       gpointer            user_data)
{
  Loading *loading = g_new0 (Loading, 1);

  loading->weights = g_object_ref (self);
  loading->name = g_strdup (name);
  loading->as_bytes = as_bytes;
  rlx_thread_start (self, tag, load_in_thread, as_bytes ? (GDestroyNotify) g_bytes_unref : g_object_unref,
                    loading, loading_free, cancellable, callback, user_data);
}

/**
 * rlx_weights_load_tensor_async:
 * @self: weights
 * @name: the name of a tensor
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the tensor has been read
 * @user_data: data for @callback
 *
 * Reads a tensor from the file, without blocking.
 *
 * Since: 1.0
 */
void
rlx_weights_load_tensor_async (RlxWeights         *self,
                               const char         *name,
                               GCancellable       *cancellable,
                               GAsyncReadyCallback callback,
                               gpointer            user_data)
{
  g_return_if_fail (RLX_IS_WEIGHTS (self));
  g_return_if_fail (name != NULL);
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  start (self, name, FALSE, rlx_weights_load_tensor_async, cancellable, callback, user_data);
}

/**
 * rlx_weights_load_tensor_finish:
 * @self: weights
 * @result: the result given to the callback
 * @error: return location for an error
 *
 * Finishes an operation started with [method@Rlx.Weights.load_tensor_async].
 *
 * Returns: (transfer full): a new tensor
 *
 * Since: 1.0
 */
RlxTensor *
rlx_weights_load_tensor_finish (RlxWeights   *self,
                                GAsyncResult *result,
                                GError      **error)
{
  g_return_val_if_fail (RLX_IS_WEIGHTS (self), NULL);
  g_return_val_if_fail (g_task_is_valid (result, self), NULL);

  return g_task_propagate_pointer (G_TASK (result), error);
}

/**
 * rlx_weights_load_bytes_async:
 * @self: weights
 * @name: the name of a tensor
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the bytes have been read
 * @user_data: data for @callback
 *
 * Reads the elements of a tensor as they are in the file, without blocking.
 *
 * Since: 1.0
 */
void
rlx_weights_load_bytes_async (RlxWeights         *self,
                              const char         *name,
                              GCancellable       *cancellable,
                              GAsyncReadyCallback callback,
                              gpointer            user_data)
{
  g_return_if_fail (RLX_IS_WEIGHTS (self));
  g_return_if_fail (name != NULL);
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  start (self, name, TRUE, rlx_weights_load_bytes_async, cancellable, callback, user_data);
}

/**
 * rlx_weights_load_bytes_finish:
 * @self: weights
 * @result: the result given to the callback
 * @error: return location for an error
 *
 * Finishes an operation started with [method@Rlx.Weights.load_bytes_async].
 *
 * Returns: (transfer full): the bytes
 *
 * Since: 1.0
 */
GBytes *
rlx_weights_load_bytes_finish (RlxWeights   *self,
                               GAsyncResult *result,
                               GError      **error)
{
  g_return_val_if_fail (RLX_IS_WEIGHTS (self), NULL);
  g_return_val_if_fail (g_task_is_valid (result, self), NULL);

  return g_task_propagate_pointer (G_TASK (result), error);
}
