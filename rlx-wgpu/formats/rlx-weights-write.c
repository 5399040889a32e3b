/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Files of weights from tensors, or from other files.
 */
#include "config.h"

#include "formats/rlx-write-private.h"

#include <string.h>

#include "rlx-job-private.h"
#include "rlx-tensor-private.h"
#include "util/rlx-debug-private.h"

/* ---- files ------------------------------------------------------------------------------- */

/* Arguments of a write in another thread. */
typedef struct
{
  GFile *file;
  RlxWeightsFormat format;
  gboolean deflated;
  GVariant *metadata;        /* nullable */
  char **names;              /* with these, write @tensors, otherwise @weights */
  GPtrArray *tensors;        /* with NULL for names without a tensor */
  RlxWeights *weights;
} Writing;

static void
unref_tensor (gpointer tensor)
{
  if (tensor != NULL)
    g_object_unref (tensor);
}

static void
writing_free (gpointer data)
{
  Writing *writing = data;

  g_object_unref (writing->file);
  g_clear_pointer (&writing->metadata, g_variant_unref);
  g_strfreev (writing->names);
  g_clear_pointer (&writing->tensors, g_ptr_array_unref);
  g_clear_object (&writing->weights);
  g_free (writing);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Writing, writing_free)

/* Takes ownership of a floating @metadata. */
static Writing *
writing_new (GFile           *file,
             RlxWeightsFormat format,
             GVariant        *metadata)
{
  Writing *writing = g_new0 (Writing, 1);

  writing->file = g_object_ref (file);
  writing->format = format;
  writing->metadata = metadata != NULL ? g_variant_ref_sink (metadata) : NULL;
  return writing;
}

static Writing *
writing_new_for_tensors (GFile             *file,
                         RlxWeightsFormat   format,
                         const char *const *names,
                         RlxTensor        **tensors,
                         gsize              n_tensors,
                         GVariant          *metadata)
{
  Writing *writing = writing_new (file, format, metadata);

  writing->names = g_strdupv ((char **) names);
  writing->tensors = g_ptr_array_new_with_free_func (unref_tensor);
  for (gsize i = 0; i < n_tensors; i++)
    g_ptr_array_add (writing->tensors, RLX_IS_TENSOR (tensors[i]) ? g_object_ref (tensors[i]) : NULL);
  return writing;
}

static gboolean
add_tensor (Writing     *writing,
            guint        index,
            RlxItem     *item,
            RlxManifest *checked,
            GError     **error)
{
  const char *name = writing->names[index];
  RlxTensor *tensor = g_ptr_array_index (writing->tensors, index);
  g_autofree char *quoted = rlx_quote_text (name, -1);
  gsize n_dims;
  int storage;

  if (tensor == NULL || (writing->format == RLX_WEIGHTS_FORMAT_SAFETENSORS && strcmp (name, "__metadata__") == 0))
    {
      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                   tensor != NULL ? "a tensor cannot be named %s" : "%s is not a tensor", quoted);
      return FALSE;
    }
  if (writing->format == RLX_WEIGHTS_FORMAT_NPZ)
    {
      tensor = rlx_npy_widen (tensor, error);
      if (tensor == NULL)
        return FALSE;
      g_object_unref (writing->tensors->pdata[index]);
      writing->tensors->pdata[index] = tensor;
    }
  storage = rlx_storage_find_data_type (rlx_tensor_get_data_type (tensor));
  if (storage < 0)
    {
      g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_DATA_TYPE, "%s is of type %s, which %s files do not have",
                   quoted, rlx_data_type_to_string (rlx_tensor_get_data_type (tensor)), rlx_weights_format_get_title (writing->format));
      return FALSE;
    }
  item->name = name;
  item->tensor = tensor;
  item->shape = rlx_tensor_get_shape (tensor, &n_dims);
  item->n_dims = (guint) n_dims;
  return rlx_item_check (item, writing->format, (guint) storage, checked, error);
}

static gboolean
add_record (Writing     *writing,
            guint        index,
            RlxItem     *item,
            RlxManifest *checked,
            GError     **error)
{
  RlxManifest *manifest = writing->weights->manifest;
  const RlxRecord *record = rlx_manifest_get (manifest, index);

  item->name = record->name;
  item->weights = writing->weights;
  item->record = record;
  item->shape = rlx_manifest_get_shape (manifest, record);
  item->n_dims = record->n_dims;
  return rlx_item_check (item, writing->format, record->storage, checked, error);
}

static gboolean
write_items (Writing       *writing,
             const RlxItem *items,
             gsize          n_items,
             GCancellable  *cancellable,
             GError       **error)
{
  g_autoptr(RlxSink) sink = rlx_sink_open (writing->file, cancellable, error);
  gboolean ok = FALSE;

  if (sink == NULL)
    return FALSE;
  switch (writing->format)
    {
    case RLX_WEIGHTS_FORMAT_SAFETENSORS:
      ok = rlx_safetensors_write (sink, items, n_items, writing->metadata, cancellable, error);
      break;
    case RLX_WEIGHTS_FORMAT_GGUF:
      ok = rlx_gguf_write (sink, items, n_items, writing->metadata, cancellable, error);
      break;
    case RLX_WEIGHTS_FORMAT_NPZ:
      ok = rlx_npz_write (sink, items, n_items, writing->deflated, cancellable, error);
      break;
    case RLX_WEIGHTS_FORMAT_NPY:
      ok = rlx_npy_write (sink, items, cancellable, error);
      break;
    }
  return ok && rlx_sink_close (sink, error);
}

static gboolean
check_arguments (Writing *writing,
                 gsize    n,
                 GError **error)
{
  const char *wanted = writing->format == RLX_WEIGHTS_FORMAT_GGUF ? "a{sv}" : "a{ss}";
  gsize n_names = writing->names != NULL ? g_strv_length (writing->names) : n;

  if (n_names != n)
    g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                 "%" G_GSIZE_FORMAT " names and %" G_GSIZE_FORMAT " tensors were given", n_names, n);
  else if (writing->metadata != NULL && !g_variant_is_of_type (writing->metadata, G_VARIANT_TYPE (wanted)))
    g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                 "the metadata is of type %s, not %s", g_variant_get_type_string (writing->metadata), wanted);
  else if (writing->metadata != NULL && g_variant_n_children (writing->metadata) > RLX_WEIGHTS_MAX_PAIRS)
    g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_LIMIT,
                 "there are %" G_GSIZE_FORMAT " pairs of metadata; the limit is %d", g_variant_n_children (writing->metadata), RLX_WEIGHTS_MAX_PAIRS);
  else if (writing->format == RLX_WEIGHTS_FORMAT_NPY && n != 1)
    g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_UNSUPPORTED,
                 "a .npy file has one tensor, not %" G_GSIZE_FORMAT, n);
  else if (G_BYTE_ORDER != G_LITTLE_ENDIAN && writing->format <= RLX_WEIGHTS_FORMAT_GGUF)
    g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_UNSUPPORTED,
                 "%s files are little-endian, which this computer is not", rlx_weights_format_get_title (writing->format));
  else
    return TRUE;
  return FALSE;
}

static gboolean
write_file (Writing      *writing,
            GCancellable *cancellable,
            GError      **error)
{
  RlxManifest *manifest = writing->weights != NULL ? writing->weights->manifest : NULL;
  gsize n = manifest != NULL ? manifest->records->len : writing->tensors->len;
  g_autoptr(RlxManifest) checked = rlx_manifest_new ();
  g_autofree RlxItem *items = g_new0 (RlxItem, n + 1);
  guint64 total = 0;
  gboolean ok;

  if (!check_arguments (writing, n, error))
    return FALSE;
  for (gsize i = 0; i < n; i++)
    {
      if (manifest != NULL ? !add_record (writing, (guint) i, &items[i], checked, error)
                           : !add_tensor (writing, (guint) i, &items[i], checked, error))
        return FALSE;
      total += manifest != NULL ? items[i].record->length : 0;
    }
  if (!rlx_manifest_seal (checked, error))
    return FALSE;
  if (manifest == NULL)
    return write_items (writing, items, n, cancellable, error);
  rlx_weights_begin (writing->weights, total);
  ok = write_items (writing, items, n, cancellable, error);
  rlx_weights_end (writing->weights);
  return ok;
}

static gpointer
write_in_thread (gpointer      writing,
                 GCancellable *cancellable,
                 GError      **error)
{
  return write_file (writing, cancellable, error) ? writing : NULL;
}

static void
start (Writing            *writing,
       gpointer            source,
       gpointer            tag,
       GCancellable       *cancellable,
       GAsyncReadyCallback callback,
       gpointer            user_data)
{
  rlx_thread_start (source, tag, write_in_thread, NULL, writing, writing_free, cancellable, callback, user_data);
}

static gboolean
finish (GAsyncResult *result,
        gpointer      source,
        GError      **error)
{
  g_return_val_if_fail (g_task_is_valid (result, source), FALSE);

  return g_task_propagate_pointer (G_TASK (result), error) != NULL;
}

/* ---- safetensors ------------------------------------------------------------------------ */

/**
 * rlx_weights_write_safetensors:
 * @file: the file to write
 * @names: (array zero-terminated=1): the names of the tensors
 * @tensors: (array length=n_tensors): a tensor for each name
 * @n_tensors: the number of @tensors
 * @metadata: (nullable): pairs of strings, of type `a{ss}`
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Writes tensors to a safetensors file.
 *
 * An existing file is replaced once everything has been written; on failure it stays as
 * it was. Names and shapes that this library would reject when reading are not written,
 * and neither are types that the format does not have, such as 4-bit integers.
 *
 * Returns: %TRUE on success
 *
 * Since: 1.0
 */
gboolean
rlx_weights_write_safetensors (GFile             *file,
                               const char *const *names,
                               RlxTensor        **tensors,
                               gsize              n_tensors,
                               GVariant          *metadata,
                               GCancellable      *cancellable,
                               GError           **error)
{
  g_autoptr(Writing) writing = NULL;

  g_return_val_if_fail (G_IS_FILE (file), FALSE);
  g_return_val_if_fail (names != NULL && (tensors != NULL || n_tensors == 0), FALSE);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  writing = writing_new_for_tensors (file, RLX_WEIGHTS_FORMAT_SAFETENSORS, names, tensors, n_tensors, metadata);
  return write_file (writing, cancellable, error);
}

/**
 * rlx_weights_write_safetensors_async:
 * @file: the file to write
 * @names: (array zero-terminated=1): the names of the tensors
 * @tensors: (array length=n_tensors): a tensor for each name
 * @n_tensors: the number of @tensors
 * @metadata: (nullable): pairs of strings, of type `a{ss}`
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the file has been written
 * @user_data: data for @callback
 *
 * Writes tensors to a safetensors file, without blocking.
 *
 * Since: 1.0
 */
void
rlx_weights_write_safetensors_async (GFile              *file,
                                     const char *const  *names,
                                     RlxTensor         **tensors,
                                     gsize               n_tensors,
                                     GVariant           *metadata,
                                     GCancellable       *cancellable,
                                     GAsyncReadyCallback callback,
                                     gpointer            user_data)
{
  Writing *writing;

  g_return_if_fail (G_IS_FILE (file));
  g_return_if_fail (names != NULL && (tensors != NULL || n_tensors == 0));
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  writing = writing_new_for_tensors (file, RLX_WEIGHTS_FORMAT_SAFETENSORS, names, tensors, n_tensors, metadata);
  start (writing, NULL, rlx_weights_write_safetensors_async, cancellable, callback, user_data);
}

/**
 * rlx_weights_write_safetensors_finish:
 * @result: the result given to the callback
 * @error: return location for an error
 *
 * Finishes an operation started with [func@Rlx.Weights.write_safetensors_async].
 *
 * Returns: %TRUE on success
 *
 * Since: 1.0
 */
gboolean
rlx_weights_write_safetensors_finish (GAsyncResult *result,
                                      GError      **error)
{
  return finish (result, NULL, error);
}

/* ---- GGUF ------------------------------------------------------------------------------ */

/**
 * rlx_weights_write_gguf:
 * @file: the file to write
 * @names: (array zero-terminated=1): the names of the tensors
 * @tensors: (array length=n_tensors): a tensor for each name
 * @n_tensors: the number of @tensors
 * @metadata: (nullable): keys and values, of type `a{sv}`
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Writes tensors to a GGUF file.
 *
 * The file is replaced as by [func@Rlx.Weights.write_safetensors]. Tensors can have the
 * types `f32`, `f16`, `i8`, `i32` and `i64`, and at most four dimensions.
 *
 * Values of @metadata are booleans, numbers, strings and arrays of these. A `d` is
 * written as `f32` if that is exact, as programs that read such files expect, and as
 * `f64` otherwise. `general.alignment` is left out.
 *
 * Returns: %TRUE on success
 *
 * Since: 1.0
 */
gboolean
rlx_weights_write_gguf (GFile             *file,
                        const char *const *names,
                        RlxTensor        **tensors,
                        gsize              n_tensors,
                        GVariant          *metadata,
                        GCancellable      *cancellable,
                        GError           **error)
{
  g_autoptr(Writing) writing = NULL;

  g_return_val_if_fail (G_IS_FILE (file), FALSE);
  g_return_val_if_fail (names != NULL && (tensors != NULL || n_tensors == 0), FALSE);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  writing = writing_new_for_tensors (file, RLX_WEIGHTS_FORMAT_GGUF, names, tensors, n_tensors, metadata);
  return write_file (writing, cancellable, error);
}

/**
 * rlx_weights_write_gguf_async:
 * @file: the file to write
 * @names: (array zero-terminated=1): the names of the tensors
 * @tensors: (array length=n_tensors): a tensor for each name
 * @n_tensors: the number of @tensors
 * @metadata: (nullable): keys and values, of type `a{sv}`
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the file has been written
 * @user_data: data for @callback
 *
 * Writes tensors to a GGUF file, without blocking.
 *
 * Since: 1.0
 */
void
rlx_weights_write_gguf_async (GFile              *file,
                              const char *const  *names,
                              RlxTensor         **tensors,
                              gsize               n_tensors,
                              GVariant           *metadata,
                              GCancellable       *cancellable,
                              GAsyncReadyCallback callback,
                              gpointer            user_data)
{
  Writing *writing;

  g_return_if_fail (G_IS_FILE (file));
  g_return_if_fail (names != NULL && (tensors != NULL || n_tensors == 0));
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  writing = writing_new_for_tensors (file, RLX_WEIGHTS_FORMAT_GGUF, names, tensors, n_tensors, metadata);
  start (writing, NULL, rlx_weights_write_gguf_async, cancellable, callback, user_data);
}

/**
 * rlx_weights_write_gguf_finish:
 * @result: the result given to the callback
 * @error: return location for an error
 *
 * Finishes an operation started with [func@Rlx.Weights.write_gguf_async].
 *
 * Returns: %TRUE on success
 *
 * Since: 1.0
 */
gboolean
rlx_weights_write_gguf_finish (GAsyncResult *result,
                               GError      **error)
{
  return finish (result, NULL, error);
}

/* ---- .npz ------------------------------------------------------------------------------ */

/**
 * rlx_weights_write_npz:
 * @file: the file to write
 * @names: (array zero-terminated=1): the names of the tensors
 * @tensors: (array length=n_tensors): a tensor for each name
 * @n_tensors: the number of @tensors
 * @deflated: whether to compress them, which takes time and makes weights only slightly
 *   smaller
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Writes tensors to an `.npz` file.
 *
 * The file is replaced as by [func@Rlx.Weights.write_safetensors]. Types that NumPy does
 * not have are widened as by [method@Rlx.Tensor.to_npy].
 *
 * Returns: %TRUE on success
 *
 * Since: 1.0
 */
gboolean
rlx_weights_write_npz (GFile             *file,
                       const char *const *names,
                       RlxTensor        **tensors,
                       gsize              n_tensors,
                       gboolean           deflated,
                       GCancellable      *cancellable,
                       GError           **error)
{
  g_autoptr(Writing) writing = NULL;

  g_return_val_if_fail (G_IS_FILE (file), FALSE);
  g_return_val_if_fail (names != NULL && (tensors != NULL || n_tensors == 0), FALSE);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  writing = writing_new_for_tensors (file, RLX_WEIGHTS_FORMAT_NPZ, names, tensors, n_tensors, NULL);
  writing->deflated = deflated;
  return write_file (writing, cancellable, error);
}

/**
 * rlx_weights_write_npz_async:
 * @file: the file to write
 * @names: (array zero-terminated=1): the names of the tensors
 * @tensors: (array length=n_tensors): a tensor for each name
 * @n_tensors: the number of @tensors
 * @deflated: whether to compress them, which takes time and makes weights only slightly
 *   smaller
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the file has been written
 * @user_data: data for @callback
 *
 * Writes tensors to an `.npz` file, without blocking.
 *
 * Since: 1.0
 */
void
rlx_weights_write_npz_async (GFile              *file,
                             const char *const  *names,
                             RlxTensor         **tensors,
                             gsize               n_tensors,
                             gboolean            deflated,
                             GCancellable       *cancellable,
                             GAsyncReadyCallback callback,
                             gpointer            user_data)
{
  Writing *writing;

  g_return_if_fail (G_IS_FILE (file));
  g_return_if_fail (names != NULL && (tensors != NULL || n_tensors == 0));
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  writing = writing_new_for_tensors (file, RLX_WEIGHTS_FORMAT_NPZ, names, tensors, n_tensors, NULL);
  writing->deflated = deflated;
  start (writing, NULL, rlx_weights_write_npz_async, cancellable, callback, user_data);
}

/**
 * rlx_weights_write_npz_finish:
 * @result: the result given to the callback
 * @error: return location for an error
 *
 * Finishes an operation started with [func@Rlx.Weights.write_npz_async].
 *
 * Returns: %TRUE on success
 *
 * Since: 1.0
 */
gboolean
rlx_weights_write_npz_finish (GAsyncResult *result,
                              GError      **error)
{
  return finish (result, NULL, error);
}

/* ---- one file from another -------------------------------------------------------------- */

/* The metadata that the new format can represent. */
static GVariant *
convert_metadata (GVariant        *metadata,
                  RlxWeightsFormat format)
{
  GVariantBuilder builder;

  if (format == RLX_WEIGHTS_FORMAT_GGUF)
    return metadata;
  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a{ss}"));
  for (gsize i = 0; i < g_variant_n_children (metadata); i++)
    {
      g_autoptr(GVariant) pair = g_variant_get_child_value (metadata, i), value = NULL;
      const char *key;

      g_variant_get (pair, "{&sv}", &key, &value);
      if (format == RLX_WEIGHTS_FORMAT_SAFETENSORS && g_variant_is_of_type (value, G_VARIANT_TYPE_STRING))
        g_variant_builder_add (&builder, "{ss}", key, g_variant_get_string (value, NULL));
    }
  return g_variant_builder_end (&builder);
}

static Writing *
writing_new_for_weights (RlxWeights      *weights,
                         GFile           *file,
                         RlxWeightsFormat format,
                         gboolean         deflated)
{
  Writing *writing = writing_new (file, format, convert_metadata (weights->metadata, format));

  writing->weights = g_object_ref (weights);
  writing->deflated = deflated;
  return writing;
}

/**
 * rlx_weights_save:
 * @self: weights
 * @file: the file to write; not the one that @self was opened from
 * @format: its format
 * @deflated: whether to compress the tensors of an `.npz` file
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Converts the file to another format.
 *
 * Tensors are read and written piece by piece, so they need not fit into memory.
 * [property@Rlx.Weights:progress] reports the progress. An existing file is replaced as
 * by [func@Rlx.Weights.write_safetensors].
 *
 * A type that the format does not have is widened without loss, as by
 * [method@Rlx.Weights.load_tensor]; if that is impossible, the call fails with
 * %RLX_WEIGHTS_ERROR_DATA_TYPE. Metadata that the format cannot store is left out:
 * safetensors files only have strings, and NumPy's files no metadata at all.
 *
 * Returns: %TRUE on success
 *
 * Since: 1.0
 */
gboolean
rlx_weights_save (RlxWeights      *self,
                  GFile           *file,
                  RlxWeightsFormat format,
                  gboolean         deflated,
                  GCancellable    *cancellable,
                  GError         **error)
{
  g_autoptr(Writing) writing = NULL;

  g_return_val_if_fail (RLX_IS_WEIGHTS (self) && self->manifest != NULL, FALSE);
  g_return_val_if_fail (G_IS_FILE (file), FALSE);
  g_return_val_if_fail ((guint) format <= RLX_WEIGHTS_FORMAT_NPY, FALSE);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  writing = writing_new_for_weights (self, file, format, deflated);
  return write_file (writing, cancellable, error);
}

/**
 * rlx_weights_save_async:
 * @self: weights
 * @file: the file to write; not the one that @self was opened from
 * @format: its format
 * @deflated: whether to compress the tensors of an `.npz` file
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the file has been written
 * @user_data: data for @callback
 *
 * Converts the file to another format, without blocking.
 *
 * Since: 1.0
 */
void
rlx_weights_save_async (RlxWeights         *self,
                        GFile              *file,
                        RlxWeightsFormat    format,
                        gboolean            deflated,
                        GCancellable       *cancellable,
                        GAsyncReadyCallback callback,
                        gpointer            user_data)
{
  g_return_if_fail (RLX_IS_WEIGHTS (self) && self->manifest != NULL);
  g_return_if_fail (G_IS_FILE (file));
  g_return_if_fail ((guint) format <= RLX_WEIGHTS_FORMAT_NPY);
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  start (writing_new_for_weights (self, file, format, deflated), self, rlx_weights_save_async, cancellable, callback, user_data);
}

/**
 * rlx_weights_save_finish:
 * @self: weights
 * @result: the result given to the callback
 * @error: return location for an error
 *
 * Finishes an operation started with [method@Rlx.Weights.save_async].
 *
 * Returns: %TRUE on success
 *
 * Since: 1.0
 */
gboolean
rlx_weights_save_finish (RlxWeights   *self,
                         GAsyncResult *result,
                         GError      **error)
{
  g_return_val_if_fail (RLX_IS_WEIGHTS (self), FALSE);

  return finish (result, self, error);
}
