/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * safetensors files from tensors.
 */
#include "config.h"

#include "formats/rlx-weights-private.h"

#include <string.h>

#include "formats/rlx-replace-private.h"
#include "rlx-job-private.h"
#include "rlx-tensor-private.h"
#include "util/rlx-debug-private.h"

/* The data begins at a multiple of this. */
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

static int
find_storage (RlxDataType data_type)
{
  for (int i = 0; i < (int) rlx_storage_get_n (); i++)
    {
      const RlxStorage *storage = rlx_storage_get ((guint) i);

      if (storage->safetensors != NULL && storage->convert == RLX_CONVERT_NONE && storage->data_type == data_type)
        return i;
    }
  return -1;
}

/* What the reader would refuse is not written. */
static RlxManifest *
make_manifest (const char *const *names,
               RlxTensor        **tensors,
               gsize              n_tensors,
               GError           **error)
{
  g_autoptr(RlxManifest) manifest = rlx_manifest_new ();

  for (gsize i = 0; i < n_tensors; i++)
    {
      int storage;
      gsize n_dims;
      const gint64 *shape;

      if (!RLX_IS_TENSOR (tensors[i]) || strcmp (names[i], "__metadata__") == 0)
        {
          g_autofree char *quoted = rlx_quote_text (names[i], -1);

          g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                       RLX_IS_TENSOR (tensors[i]) ? "no tensor can be called %s" : "%s is not a tensor", quoted);
          return NULL;
        }
      storage = find_storage (rlx_tensor_get_data_type (tensors[i]));
      shape = rlx_tensor_get_shape (tensors[i], &n_dims);
      if (storage < 0)
        {
          g_autofree char *quoted = rlx_quote_text (names[i], -1);

          g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_DATA_TYPE, "%s is of type %s, which safetensors files do not have",
                       quoted, rlx_data_type_to_string (rlx_tensor_get_data_type (tensors[i])));
          return NULL;
        }
      if (rlx_manifest_add (manifest, 0, names[i], strlen (names[i]), (guint) storage, shape, (guint) n_dims, NULL, error) == NULL)
        return NULL;
    }
  return rlx_manifest_seal (manifest, error) ? g_steal_pointer (&manifest) : NULL;
}

/* The tensors with the largest elements come first, so that all are aligned.
 * @order (out) has so many indices. */
static void
sort_tensors (RlxTensor **tensors,
              gsize       n_tensors,
              gsize      *order)
{
  gsize n = 0;

  for (gsize size = 8; size > 0; size /= 2)
    for (gsize i = 0; i < n_tensors; i++)
      if (rlx_data_type_get_size (rlx_tensor_get_data_type (tensors[i])) == size)
        order[n++] = i;
}

static gboolean
append_metadata (GString  *text,
                 GVariant *metadata,
                 GError  **error)
{
  gsize n = metadata != NULL ? g_variant_n_children (metadata) : 0;

  if (n > RLX_WEIGHTS_MAX_PAIRS)
    {
      g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_LIMIT,
                   "there are %" G_GSIZE_FORMAT " pairs of metadata, the limit is %d", n, RLX_WEIGHTS_MAX_PAIRS);
      return FALSE;
    }
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
  return TRUE;
}

static gboolean
write_file (GFile             *file,
            const char *const *names,
            RlxTensor        **tensors,
            gsize              n_tensors,
            GVariant          *metadata,
            GCancellable      *cancellable,
            GError           **error)
{
  g_autoptr(RlxManifest) manifest = make_manifest (names, tensors, n_tensors, error);
  g_autoptr(GString) header = g_string_new ("{");
  g_autofree gsize *order = g_new (gsize, n_tensors + 1);
  g_autofree RlxBlock *blocks = g_new (RlxBlock, n_tensors + 2);
  guint64 length, at = 0;

  if (manifest == NULL || !append_metadata (header, metadata, error))
    return FALSE;
  sort_tensors (tensors, n_tensors, order);
  for (gsize i = 0; i < n_tensors; i++)
    {
      const RlxRecord *record = rlx_manifest_get (manifest, (guint) order[i]);
      RlxTensor *tensor = tensors[order[i]];
      gsize n_dims, size = rlx_tensor_get_size (tensor);
      const gint64 *shape = rlx_tensor_get_shape (tensor, &n_dims);

      if (header->len > 1)
        g_string_append_c (header, ',');
      append_string (header, record->name);
      g_string_append_printf (header, ":{\"dtype\":\"%s\",\"shape\":[", rlx_storage_get (record->storage)->safetensors);
      for (gsize j = 0; j < n_dims; j++)
        g_string_append_printf (header, "%s%" G_GINT64_FORMAT, j > 0 ? "," : "", shape[j]);
      g_string_append_printf (header, "],\"data_offsets\":[%" G_GUINT64_FORMAT ",%" G_GUINT64_FORMAT "]}", at, at + size);
      at += size;
      blocks[i + 2] = (RlxBlock) { rlx_tensor_peek_data (tensor), size };
    }
  g_string_append_c (header, '}');
  while (header->len % ALIGNMENT != 0)
    g_string_append_c (header, ' ');
  if (header->len > RLX_SAFETENSORS_MAX_HEADER)
    {
      g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_LIMIT, "the header has %" G_GSIZE_FORMAT " bytes, the limit is %" G_GUINT64_FORMAT,
                   header->len, RLX_SAFETENSORS_MAX_HEADER);
      return FALSE;
    }
  length = GUINT64_TO_LE ((guint64) header->len);
  blocks[0] = (RlxBlock) { &length, sizeof length };
  blocks[1] = (RlxBlock) { header->str, header->len };
  return rlx_replace_file (file, blocks, n_tensors + 2, cancellable, error);
}

static gboolean
check_arguments (const char *const *names,
                 gsize              n_tensors,
                 GVariant          *metadata,
                 GError           **error)
{
  guint n_names = g_strv_length ((char **) names);

  if (n_names != n_tensors)
    g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                 "%u names and %" G_GSIZE_FORMAT " tensors were given", n_names, n_tensors);
  else if (metadata != NULL && !g_variant_is_of_type (metadata, G_VARIANT_TYPE ("a{ss}")))
    g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                 "the metadata is of type %s, not a{ss}", g_variant_get_type_string (metadata));
  else if (G_BYTE_ORDER != G_LITTLE_ENDIAN)
    g_set_error_literal (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_UNSUPPORTED,
                         "safetensors files are little-endian, which this computer is not");
  else
    return TRUE;
  return FALSE;
}

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
 * A file that is there already is replaced once everything has been written; if
 * something goes wrong it stays as it was. What this library would refuse to read is
 * not written, and neither are integers of 4 bits, for which the format has no type.
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
  g_autoptr(GVariant) owned = metadata != NULL ? g_variant_ref_sink (metadata) : NULL;

  g_return_val_if_fail (G_IS_FILE (file), FALSE);
  g_return_val_if_fail (names != NULL && (tensors != NULL || n_tensors == 0), FALSE);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  return check_arguments (names, n_tensors, owned, error) &&
         write_file (file, names, tensors, n_tensors, owned, cancellable, error);
}

typedef struct
{
  GFile *file;
  char **names;
  GPtrArray *tensors;
  GVariant *metadata;        /* nullable */
} Writing;

static void
writing_free (gpointer data)
{
  Writing *writing = data;

  g_object_unref (writing->file);
  g_strfreev (writing->names);
  g_ptr_array_unref (writing->tensors);
  g_clear_pointer (&writing->metadata, g_variant_unref);
  g_free (writing);
}

static gpointer
write_in_thread (gpointer      data,
                 GCancellable *cancellable,
                 GError      **error)
{
  Writing *writing = data;

  return rlx_weights_write_safetensors (writing->file, (const char *const *) writing->names, (RlxTensor **) writing->tensors->pdata,
                                        writing->tensors->len, writing->metadata, cancellable, error) ? writing : NULL;
}

static void
unref_tensor (gpointer tensor)
{
  if (tensor != NULL)
    g_object_unref (tensor);
}

/**
 * rlx_weights_write_safetensors_async:
 * @file: the file to write
 * @names: (array zero-terminated=1): the names of the tensors
 * @tensors: (array length=n_tensors): a tensor for each name
 * @n_tensors: the number of @tensors
 * @metadata: (nullable): pairs of strings, of type `a{ss}`
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the file is written
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
  g_autoptr(GVariant) owned = metadata != NULL ? g_variant_ref_sink (metadata) : NULL;
  Writing *writing;

  g_return_if_fail (G_IS_FILE (file));
  g_return_if_fail (names != NULL && (tensors != NULL || n_tensors == 0));
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  writing = g_new0 (Writing, 1);
  writing->file = g_object_ref (file);
  writing->names = g_strdupv ((char **) names);
  writing->tensors = g_ptr_array_new_with_free_func (unref_tensor);
  for (gsize i = 0; i < n_tensors; i++)
    g_ptr_array_add (writing->tensors, RLX_IS_TENSOR (tensors[i]) ? g_object_ref (tensors[i]) : NULL);
  writing->metadata = g_steal_pointer (&owned);
  rlx_thread_start (NULL, rlx_weights_write_safetensors_async, write_in_thread, NULL, writing, writing_free,
                    cancellable, callback, user_data);
}

/**
 * rlx_weights_write_safetensors_finish:
 * @result: the result given to the callback
 * @error: return location for an error
 *
 * Ends what [func@Rlx.Weights.write_safetensors_async] began.
 *
 * Returns: %TRUE on success
 *
 * Since: 1.0
 */
gboolean
rlx_weights_write_safetensors_finish (GAsyncResult *result,
                                      GError      **error)
{
  g_return_val_if_fail (g_task_is_valid (result, NULL), FALSE);

  return g_task_propagate_pointer (G_TASK (result), error) != NULL;
}
