/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "formats/rlx-npy-private.h"

#include <string.h>

#include "formats/rlx-write-private.h"
#include "rlx-job-private.h"
#include "rlx-tensor-private.h"
#include "util/rlx-checked-private.h"
#include "util/rlx-data-type-private.h"
#include "util/rlx-element-private.h"

/* ---- reading ------------------------------------------------------------ */

/* Takes ownership of @source, which is NULL after an error. */
static RlxTensor *
load (RlxSource    *source,
      GCancellable *cancellable,
      GError      **error)
{
  g_autoptr(RlxSource) owned = source;
  g_autoptr(RlxManifest) manifest = rlx_manifest_new ();

  if (source == NULL)
    return NULL;
  rlx_manifest_add_source (manifest, source);
  return rlx_npy_read (source, "array", manifest, cancellable, error)
           ? rlx_record_load_tensor (manifest, rlx_manifest_get (manifest, 0), RLX_RECORD_WIDE, NULL, cancellable, error) : NULL;
}

/**
 * rlx_tensor_new_from_npy:
 * @npy: the contents of a `.npy` file
 * @error: where to store an error
 *
 * Creates a tensor from the contents of a `.npy` file, NumPy's format for one array.
 *
 * Arrays of all types that NumPy and [enum@Rlx.DataType] share can be read, in C or
 * Fortran order; 16-bit integers become `i32` or `u32`. Arrays of other types or in
 * another computer's byte order are rejected with %RLX_WEIGHTS_ERROR_UNSUPPORTED.
 * Nothing in a file is ever executed.
 *
 * Returns: (transfer full): a new tensor, or %NULL with an error
 *
 * Since: 1.0
 */
RlxTensor *
rlx_tensor_new_from_npy (GBytes  *npy,
                         GError **error)
{
  g_return_val_if_fail (npy != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  return load (rlx_source_new_for_bytes (npy), NULL, error);
}

/**
 * rlx_tensor_load_npy:
 * @file: a `.npy` file
 * @cancellable: (nullable): a [class@Gio.Cancellable]
 * @error: where to store an error
 *
 * Creates a tensor from a `.npy` file, NumPy's format for one array.
 *
 * The file must be a regular file, and exactly as long as its header says. It is not
 * needed after the call. See [ctor@Rlx.Tensor.new_from_npy] for what it can contain.
 *
 * Returns: (transfer full): a new tensor, or %NULL with an error
 *
 * Since: 1.0
 */
RlxTensor *
rlx_tensor_load_npy (GFile        *file,
                     GCancellable *cancellable,
                     GError      **error)
{
  RlxTensor *tensor;

  g_return_val_if_fail (G_IS_FILE (file), NULL);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  tensor = load (rlx_source_open (file, cancellable, error), cancellable, error);

  if (tensor == NULL && error != NULL)
    {
      g_autofree char *name = g_file_get_parse_name (file);

      g_prefix_error (error, "%s: ", name);
    }

  return tensor;
}

/* ---- writing ------------------------------------------------------------ */

RlxTensor *
rlx_npy_widen (RlxTensor *self,
               GError   **error)
{
  RlxDataType data_type = rlx_tensor_get_data_type (self), in_files = rlx_data_type_get_info (data_type)->in_files;
  gsize n = (gsize) rlx_tensor_get_n_elements (self), n_dims, width = rlx_data_type_get_size (in_files), size;
  const gint64 *shape = rlx_tensor_get_shape (self, &n_dims);
  g_autoptr (GBytes) bytes = NULL;
  guint8 *data;

  if (!rlx_tensor_fetch (self, NULL, error))
    return NULL;
  if (in_files == data_type)
    return g_object_ref (self);

  if (!rlx_mul_size (n, width, &size))
    size = G_MAXSIZE;
  data = rlx_try_alloc (size, error);
  if (data == NULL)
    return NULL;
  for (gsize i = 0; i < n; i++)
    if (in_files == RLX_DATA_TYPE_F32)
      ((float *) (gpointer) data)[i] = rlx_element_get_float (data_type, rlx_tensor_peek_data (self), i);
    else
      rlx_element_set_int (in_files, data, i, rlx_element_get_int (data_type, rlx_tensor_peek_data (self), i));
  bytes = g_bytes_new_take (data, size);

  return rlx_tensor_new_from_bytes (in_files, shape, n_dims, bytes, error);
}

static GByteArray *
make_header (RlxTensor *self)
{
  gsize n_dims;
  const gint64 *shape = rlx_tensor_get_shape (self, &n_dims);

  return rlx_npy_make_header ((guint) rlx_storage_find_data_type (rlx_tensor_get_data_type (self)), shape, n_dims);
}

gboolean
rlx_npy_write (RlxSink       *sink,
               const RlxItem *item,
               GCancellable  *cancellable,
               GError       **error)
{
  g_autoptr (GByteArray) header = rlx_npy_make_header (item->storage, item->shape, item->n_dims);

  return rlx_sink_write (sink, header->data, header->len, error) && rlx_item_copy (item, sink, cancellable, error);
}

/**
 * rlx_tensor_to_npy:
 * @self: a tensor
 * @error: where to store an error
 *
 * Creates the contents of a `.npy` file, NumPy's format for one array.
 *
 * Types that NumPy does not have are widened: floats to `f32`, and 4-bit and 2-bit integers to
 * `i8` or `u8`. 16-bit integers become `i32` or `u32`, as they do when they are read.
 *
 * Returns: (transfer full): the contents of the file, or %NULL with an error if
 *   there is not enough memory for another copy of the elements
 *
 * Since: 1.0
 */
GBytes *
rlx_tensor_to_npy (RlxTensor *self,
                   GError   **error)
{
  g_autoptr (GByteArray) header = NULL;
  g_autoptr (RlxTensor) whole = NULL;
  guint8 *data;
  gsize size, total;

  g_return_val_if_fail (RLX_IS_TENSOR (self), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  whole = rlx_npy_widen (self, error);
  if (whole == NULL)
    return NULL;

  header = make_header (whole);
  size = rlx_tensor_get_size (whole);
  if (!rlx_add_size (header->len, size, &total))
    total = G_MAXSIZE;

  data = rlx_try_alloc (total, error);
  if (data == NULL)
    return NULL;

  memcpy (data, header->data, header->len);
  memcpy (data + header->len, rlx_tensor_peek_data (whole), size);

  return g_bytes_new_take (data, total);
}

/**
 * rlx_tensor_save_npy:
 * @self: a tensor
 * @file: the file to write
 * @cancellable: (nullable): a [class@Gio.Cancellable]
 * @error: where to store an error
 *
 * Writes a `.npy` file, NumPy's format for one array.
 *
 * An existing file is replaced once everything has been written; on failure it stays as
 * it was.
 *
 * Types that NumPy does not have are widened: floats to `f32`, and 4-bit and 2-bit integers to
 * `i8` or `u8`. 16-bit integers become `i32` or `u32`, as they do when they are read.
 *
 * Returns: %TRUE if the file was written, %FALSE with an error if it was not
 *
 * Since: 1.0
 */
gboolean
rlx_tensor_save_npy (RlxTensor    *self,
                     GFile        *file,
                     GCancellable *cancellable,
                     GError      **error)
{
  g_autoptr (GByteArray) header = NULL;
  g_autoptr (RlxTensor) whole = NULL;
  g_autoptr (RlxSink) sink = NULL;

  g_return_val_if_fail (RLX_IS_TENSOR (self), FALSE);
  g_return_val_if_fail (G_IS_FILE (file), FALSE);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  whole = rlx_npy_widen (self, error);
  sink = whole != NULL ? rlx_sink_open (file, cancellable, error) : NULL;
  if (sink == NULL)
    return FALSE;
  header = make_header (whole);
  return rlx_sink_write (sink, header->data, header->len, error) &&
         rlx_sink_write (sink, rlx_tensor_peek_data (whole), rlx_tensor_get_size (whole), error) &&
         rlx_sink_close (sink, error);
}

/* ---- without blocking ------------------------------------------------------------------ */

static gpointer
load_in_thread (gpointer      data,
                GCancellable *cancellable,
                GError      **error)
{
  return rlx_tensor_load_npy (data, cancellable, error);
}

/**
 * rlx_tensor_load_npy_async:
 * @file: a `.npy` file
 * @cancellable: (nullable): a [class@Gio.Cancellable]
 * @callback: (scope async) (nullable): called when the tensor has been loaded
 * @user_data: data for @callback
 *
 * Creates a tensor from a `.npy` file, without blocking.
 *
 * Since: 1.0
 */
void
rlx_tensor_load_npy_async (GFile              *file,
                           GCancellable       *cancellable,
                           GAsyncReadyCallback callback,
                           gpointer            user_data)
{
  g_return_if_fail (G_IS_FILE (file));
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  rlx_thread_start (NULL, rlx_tensor_load_npy_async, load_in_thread, g_object_unref, g_object_ref (file), g_object_unref,
                    cancellable, callback, user_data);
}

/**
 * rlx_tensor_load_npy_finish:
 * @result: the result given to the callback
 * @error: where to store an error
 *
 * Finishes an operation started with [func@Rlx.Tensor.load_npy_async].
 *
 * Returns: (transfer full): a new tensor, or %NULL with an error
 *
 * Since: 1.0
 */
RlxTensor *
rlx_tensor_load_npy_finish (GAsyncResult *result,
                            GError      **error)
{
  g_return_val_if_fail (g_task_is_valid (result, NULL), NULL);

  return g_task_propagate_pointer (G_TASK (result), error);
}

typedef struct
{
  RlxTensor *tensor;
  GFile *file;
} Saving;

static void
saving_free (gpointer data)
{
  Saving *saving = data;

  g_object_unref (saving->tensor);
  g_object_unref (saving->file);
  g_free (saving);
}

static gpointer
save_in_thread (gpointer      data,
                GCancellable *cancellable,
                GError      **error)
{
  Saving *saving = data;

  return rlx_tensor_save_npy (saving->tensor, saving->file, cancellable, error) ? saving : NULL;
}

/**
 * rlx_tensor_save_npy_async:
 * @self: a tensor
 * @file: the file to write
 * @cancellable: (nullable): a [class@Gio.Cancellable]
 * @callback: (scope async) (nullable): called when the file has been written
 * @user_data: data for @callback
 *
 * Writes a `.npy` file, without blocking.
 *
 * Since: 1.0
 */
void
rlx_tensor_save_npy_async (RlxTensor          *self,
                           GFile              *file,
                           GCancellable       *cancellable,
                           GAsyncReadyCallback callback,
                           gpointer            user_data)
{
  Saving *saving;

  g_return_if_fail (RLX_IS_TENSOR (self));
  g_return_if_fail (G_IS_FILE (file));
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  saving = g_new0 (Saving, 1);
  saving->tensor = g_object_ref (self);
  saving->file = g_object_ref (file);
  rlx_thread_start (self, rlx_tensor_save_npy_async, save_in_thread, NULL, saving, saving_free, cancellable, callback, user_data);
}

/**
 * rlx_tensor_save_npy_finish:
 * @self: a tensor
 * @result: the result given to the callback
 * @error: where to store an error
 *
 * Finishes an operation started with [method@Rlx.Tensor.save_npy_async].
 *
 * Returns: %TRUE if the file was written, %FALSE with an error if it was not
 *
 * Since: 1.0
 */
gboolean
rlx_tensor_save_npy_finish (RlxTensor    *self,
                            GAsyncResult *result,
                            GError      **error)
{
  g_return_val_if_fail (RLX_IS_TENSOR (self), FALSE);
  g_return_val_if_fail (g_task_is_valid (result, self), FALSE);

  return g_task_propagate_pointer (G_TASK (result), error) != NULL;
}
