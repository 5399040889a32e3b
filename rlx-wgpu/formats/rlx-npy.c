/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "formats/rlx-npy-private.h"

#include "formats/rlx-replace-private.h"
#include "rlx-job-private.h"
#include "rlx-tensor-private.h"
#include "util/rlx-checked-private.h"
#include "util/rlx-element-private.h"

#include <string.h>

/* The elements start at a multiple of this in files written here, as in those
 * of numpy. */
#define ALIGNMENT 64

/* How much is read between two looks at the GCancellable. */
#define CHUNK ((gsize) 4 << 20)

/* ---- the elements ------------------------------------------------------- */

static gboolean
check_data_size (const RlxNpyHeader  *header,
                 guint64              present,
                 GError             **error)
{
  if (!rlx_npy_check_present ("the elements", header->n_bytes, present, error))
    return FALSE;

  if (present > header->n_bytes)
    {
      g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_PARSE,
                   "The elements take %" G_GSIZE_FORMAT " bytes, but %" G_GUINT64_FORMAT " follow the header",
                   header->n_bytes, present);
      return FALSE;
    }

  return TRUE;
}

static gpointer
try_alloc (gsize    size,
           GError **error)
{
  gpointer memory = rlx_try_alloc (size, NULL);

  if (memory == NULL)
    g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_LIMIT,
                 "There is no memory for the %" G_GSIZE_FORMAT " bytes of the array", size);

  return memory;
}

/* The elements in the order of C: the last dimension runs fastest. */
static GBytes *
from_fortran_order (const RlxNpyHeader  *header,
                    GBytes              *bytes,
                    GError             **error)
{
  const guint8 *from = g_bytes_get_data (bytes, NULL);
  gsize element = rlx_data_type_get_size (header->data_type);
  gsize strides[RLX_MAX_DIMS];
  gint64 index[RLX_MAX_DIMS] = { 0 };
  gsize stride = element;
  gsize offset = 0;
  guint8 *data;

  data = try_alloc (header->n_bytes, error);
  if (data == NULL)
    return NULL;

  /* No product here exceeds n_bytes. */
  for (guint i = 0; i < header->n_dims; i++)
    {
      strides[i] = stride;
      stride *= (gsize) header->shape[i];
    }

  for (guint64 n = 0; n < header->n_elements; n++)
    {
      memcpy (data + n * element, from + offset, element);

      for (guint i = header->n_dims; i-- > 0;)
        {
          offset += strides[i];
          if (++index[i] < header->shape[i])
            break;
          offset -= strides[i] * (gsize) header->shape[i];
          index[i] = 0;
        }
    }

  return g_bytes_new_take (data, header->n_bytes);
}

/* @bytes are exactly the elements. */
static RlxTensor *
tensor_from_elements (const RlxNpyHeader  *header,
                      GBytes              *bytes,
                      GError             **error)
{
  g_autoptr (GBytes) ordered = NULL;
  g_autoptr (GError) local_error = NULL;
  RlxTensor *tensor;

  if (header->fortran_order && header->n_dims > 1 && header->n_elements > 1)
    {
      ordered = from_fortran_order (header, bytes, error);
      if (ordered == NULL)
        return NULL;
      bytes = ordered;
    }

  tensor = rlx_tensor_new_from_bytes (header->data_type, header->shape, header->n_dims,
                                      bytes, &local_error);

  /* All that is left to go wrong is a lack of memory. */
  if (tensor == NULL)
    g_set_error_literal (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_LIMIT, local_error->message);

  return tensor;
}

/* ---- reading ------------------------------------------------------------ */

/**
 * rlx_tensor_new_from_npy:
 * @npy: the contents of a `.npy` file
 * @error: where to store an error
 *
 * Makes a tensor from the contents of a `.npy` file, numpy's format for one
 * array.
 *
 * Arrays of all types of [enum@Rlx.DataType] are read, in either order of the
 * dimensions. Others, as well as arrays in a byte order that is not this
 * computer's, are refused with `RLX_WEIGHTS_ERROR_UNSUPPORTED`; nothing that is
 * in a file is ever executed.
 *
 * Returns: (transfer full): a new tensor, or %NULL with an error
 *
 * Since: 1.0
 */
RlxTensor *
rlx_tensor_new_from_npy (GBytes  *npy,
                         GError **error)
{
  g_autoptr (GBytes) elements = NULL;
  const guint8 *data;
  gsize length, prefix_length, text_length, data_offset;
  RlxNpyHeader header;

  g_return_val_if_fail (npy != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  data = g_bytes_get_data (npy, &length);

  /* An empty GBytes has no data to look at. */
  if (length == 0)
    {
      rlx_npy_check_present ("the prefix", RLX_NPY_MIN_PREFIX, 0, error);
      return NULL;
    }

  if (!rlx_npy_parse_prefix (data, length, &prefix_length, &text_length, error) ||
      !rlx_npy_check_present ("the header", text_length, length - prefix_length, error) ||
      !rlx_npy_parse_text ((const char *) data + prefix_length, text_length, &header, error))
    return NULL;

  data_offset = prefix_length + text_length;
  if (!check_data_size (&header, length - data_offset, error))
    return NULL;

  elements = g_bytes_new_from_bytes (npy, data_offset, header.n_bytes);

  return tensor_from_elements (&header, elements, error);
}

/* Reads exactly @size bytes; fewer are RLX_WEIGHTS_ERROR_TRUNCATED, since the
 * file was long enough when its size was asked for. */
static gboolean
read_exactly (GInputStream  *stream,
              const char    *what,
              guint8        *buffer,
              gsize          size,
              GCancellable  *cancellable,
              GError       **error)
{
  gsize done = 0;

  while (done < size)
    {
      gssize n;

      /* Not every kind of stream looks itself. */
      if (g_cancellable_set_error_if_cancelled (cancellable, error))
        return FALSE;

      n = g_input_stream_read (stream, buffer + done, MIN (size - done, CHUNK), cancellable, error);
      if (n < 0)
        return FALSE;
      if (n == 0)
        return rlx_npy_check_present (what, size, done, error);
      done += (gsize) n;
    }

  return TRUE;
}

/* Opens a file if it is one that has an end. */
static GInputStream *
open_regular (GFile         *file,
              guint64       *size,
              GCancellable  *cancellable,
              GError       **error)
{
  g_autoptr (GFileInfo) info = NULL;
  g_autoptr (GFileInfo) stream_info = NULL;
  g_autoptr (GFileInputStream) stream = NULL;
  GFileType type;

  /* Before it is opened, because opening a pipe waits for a writer. */
  info = g_file_query_info (file,
                            G_FILE_ATTRIBUTE_STANDARD_TYPE "," G_FILE_ATTRIBUTE_STANDARD_SIZE,
                            G_FILE_QUERY_INFO_NONE, cancellable, error);
  if (info == NULL)
    return NULL;

  type = (GFileType) g_file_info_get_attribute_uint32 (info, G_FILE_ATTRIBUTE_STANDARD_TYPE);
  if (type == G_FILE_TYPE_DIRECTORY)
    {
      g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_IS_DIRECTORY, "It is a directory");
      return NULL;
    }
  if (type == G_FILE_TYPE_SYMBOLIC_LINK)
    {
      /* Links are followed, so there was nothing at the end of this one. */
      g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND, "It is a link to a file that does not exist");
      return NULL;
    }
  if (type != G_FILE_TYPE_REGULAR)
    {
      g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_NOT_REGULAR_FILE, "It is not a regular file");
      return NULL;
    }

  stream = g_file_read (file, cancellable, error);
  if (stream == NULL)
    return NULL;

  /* The size of what was opened, where that can be told; the name may mean
   * another file by now. */
  stream_info = g_file_input_stream_query_info (stream, G_FILE_ATTRIBUTE_STANDARD_SIZE, cancellable, NULL);
  if (stream_info != NULL && g_file_info_has_attribute (stream_info, G_FILE_ATTRIBUTE_STANDARD_SIZE))
    g_set_object (&info, stream_info);

  if (!g_file_info_has_attribute (info, G_FILE_ATTRIBUTE_STANDARD_SIZE))
    {
      g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_NOT_SUPPORTED,
                           "The size of the file cannot be determined");
      return NULL;
    }

  *size = g_file_info_get_attribute_uint64 (info, G_FILE_ATTRIBUTE_STANDARD_SIZE);

  return G_INPUT_STREAM (g_steal_pointer (&stream));
}

static RlxTensor *
load_npy (GFile         *file,
          GCancellable  *cancellable,
          GError       **error)
{
  g_autoptr (GInputStream) stream = NULL;
  g_autoptr (GBytes) elements = NULL;
  g_autofree char *text = NULL;
  g_autofree guint8 *data = NULL;
  guint8 prefix[RLX_NPY_MAX_PREFIX];
  guint64 size;
  gsize length, prefix_length, text_length;
  RlxNpyHeader header;

  stream = open_regular (file, &size, cancellable, error);
  if (stream == NULL)
    return NULL;

  /* Nothing is allocated for what the file's size rules out. The longer of the
   * two prefixes is read at once; with the shorter one that takes the start of
   * the text with it, never of the elements, as no text is that short. */
  length = (gsize) MIN (size, RLX_NPY_MAX_PREFIX);
  if (!read_exactly (stream, "the prefix", prefix, length, cancellable, error) ||
      !rlx_npy_parse_prefix (prefix, length, &prefix_length, &text_length, error) ||
      !rlx_npy_check_present ("the header", text_length, size - prefix_length, error))
    return NULL;

  text = g_malloc (text_length + RLX_NPY_MAX_PREFIX);
  length -= prefix_length;
  memcpy (text, prefix + prefix_length, length);
  if (text_length > length &&
      !read_exactly (stream, "the header", (guint8 *) text + length, text_length - length, cancellable, error))
    return NULL;

  if (!rlx_npy_parse_text (text, text_length, &header, error) ||
      !check_data_size (&header, size - prefix_length - text_length, error))
    return NULL;

  data = try_alloc (header.n_bytes, error);
  if (data == NULL)
    return NULL;

  if (!read_exactly (stream, "the elements", data, header.n_bytes, cancellable, error))
    return NULL;

  elements = g_bytes_new_take (g_steal_pointer (&data), header.n_bytes);

  return tensor_from_elements (&header, elements, error);
}

/**
 * rlx_tensor_load_npy:
 * @file: a `.npy` file
 * @cancellable: (nullable): a [class@Gio.Cancellable]
 * @error: where to store an error
 *
 * Makes a tensor from a `.npy` file, numpy's format for one array.
 *
 * The file must be a regular file, and exactly as long as its header says. It
 * is read while the function runs, and is not needed afterwards. See
 * [ctor@Rlx.Tensor.new_from_npy] for what can be in it.
 *
 * Returns: (transfer full): a new tensor, or %NULL with an error
 *
 * Since: 1.0
 */
RlxTensor *
rlx_tensor_load_npy (GFile         *file,
                     GCancellable  *cancellable,
                     GError       **error)
{
  RlxTensor *tensor;

  g_return_val_if_fail (G_IS_FILE (file), NULL);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  tensor = load_npy (file, cancellable, error);

  if (tensor == NULL && error != NULL)
    {
      g_autofree char *name = g_file_get_parse_name (file);

      g_prefix_error (error, "%s: ", name);
    }

  return tensor;
}

/* ---- writing ------------------------------------------------------------ */

/* numpy has no elements of 4 bits: they get a byte each. */
static RlxTensor *
widen (RlxTensor  *self,
       GError    **error)
{
  RlxDataType data_type = rlx_tensor_get_data_type (self);
  gsize n = (gsize) rlx_tensor_get_n_elements (self), n_dims;
  const gint64 *shape = rlx_tensor_get_shape (self, &n_dims);
  g_autoptr (GBytes) bytes = NULL;
  guint8 *data;

  if (rlx_data_types[data_type].in_files == data_type)
    return g_object_ref (self);

  data = rlx_try_alloc (n, error);
  if (data == NULL)
    return NULL;
  for (gsize i = 0; i < n; i++)
    data[i] = (guint8) rlx_element_get_int (data_type, rlx_tensor_peek_data (self), i);
  bytes = g_bytes_new_take (data, n);

  return rlx_tensor_new_from_bytes (rlx_data_types[data_type].in_files, shape, n_dims, bytes, error);
}

/* Everything before the elements. */
static GByteArray *
format_header (RlxTensor *self)
{
  RlxDataType data_type = rlx_tensor_get_data_type (self);
  g_autoptr (GString) text = g_string_new (NULL);
  GByteArray *header = g_byte_array_new ();
  const gint64 *shape;
  gsize n_dims, padding;
  guint8 length[2];

  g_string_append_printf (text, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                          rlx_data_type_get_size (data_type) > 1 ? RLX_NPY_NATIVE_ORDER : '|',
                          rlx_data_types[data_type].npy);
  shape = rlx_tensor_get_shape (self, &n_dims);
  for (gsize i = 0; i < n_dims; i++)
    g_string_append_printf (text, "%s%" G_GINT64_FORMAT, i > 0 ? ", " : "", shape[i]);
  g_string_append (text, n_dims == 1 ? ",), }" : "), }");

  /* At most a few hundred bytes with eight dimensions, so neither this nor the
   * length can overflow. */
  padding = (ALIGNMENT - (RLX_NPY_MIN_PREFIX + text->len + 1) % ALIGNMENT) % ALIGNMENT;
  for (gsize i = 0; i < padding; i++)
    g_string_append_c (text, ' ');
  g_string_append_c (text, '\n');

  length[0] = (guint8) (text->len & 0xff);
  length[1] = (guint8) (text->len >> 8);

  g_byte_array_append (header, (const guint8 *) RLX_NPY_MAGIC "\x01\x00", RLX_NPY_MAGIC_LENGTH + 2);
  g_byte_array_append (header, length, sizeof length);
  g_byte_array_append (header, (const guint8 *) text->str, (guint) text->len);

  return header;
}

/**
 * rlx_tensor_to_npy:
 * @self: a tensor
 * @error: where to store an error
 *
 * Makes the contents of a `.npy` file, numpy's format for one array.
 *
 * numpy has no types of 4 bits: `i4` is written as `i8`, and `u4` as `u8`.
 *
 * Returns: (transfer full): the contents of the file, or %NULL with an error if
 *   there is not enough memory for another copy of the elements
 *
 * Since: 1.0
 */
GBytes *
rlx_tensor_to_npy (RlxTensor  *self,
                   GError    **error)
{
  g_autoptr (GByteArray) header = NULL;
  g_autoptr (RlxTensor) whole = NULL;
  guint8 *data;
  gsize size, total;

  g_return_val_if_fail (RLX_IS_TENSOR (self), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  whole = widen (self, error);
  if (whole == NULL)
    return NULL;

  header = format_header (whole);
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
 * Writes a `.npy` file, numpy's format for one array.
 *
 * A file that is there already is replaced once everything has been written; if
 * something goes wrong it stays as it was.
 *
 * numpy has no types of 4 bits: `i4` is written as `i8`, and `u4` as `u8`.
 *
 * Returns: true if the file was written, false with an error if it was not
 *
 * Since: 1.0
 */
gboolean
rlx_tensor_save_npy (RlxTensor     *self,
                     GFile         *file,
                     GCancellable  *cancellable,
                     GError       **error)
{
  g_autoptr (GByteArray) header = NULL;
  g_autoptr (RlxTensor) whole = NULL;
  RlxBlock blocks[2];

  g_return_val_if_fail (RLX_IS_TENSOR (self), FALSE);
  g_return_val_if_fail (G_IS_FILE (file), FALSE);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  whole = widen (self, error);
  if (whole == NULL)
    return FALSE;

  header = format_header (whole);
  blocks[0] = (RlxBlock) { header->data, header->len };
  blocks[1] = (RlxBlock) { rlx_tensor_peek_data (whole), rlx_tensor_get_size (whole) };

  return rlx_replace_file (file, blocks, G_N_ELEMENTS (blocks), cancellable, error);
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
 * @callback: (scope async) (nullable): called when the tensor is there
 * @user_data: data for @callback
 *
 * Makes a tensor from a `.npy` file, without blocking.
 *
 * Since: 1.0
 */
void
rlx_tensor_load_npy_async (GFile               *file,
                           GCancellable        *cancellable,
                           GAsyncReadyCallback  callback,
                           gpointer             user_data)
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
 * Ends what [func@Rlx.Tensor.load_npy_async] began.
 *
 * Returns: (transfer full): a new tensor, or %NULL with an error
 *
 * Since: 1.0
 */
RlxTensor *
rlx_tensor_load_npy_finish (GAsyncResult  *result,
                            GError       **error)
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
 * @callback: (scope async) (nullable): called when the file is written
 * @user_data: data for @callback
 *
 * Writes a `.npy` file, without blocking.
 *
 * Since: 1.0
 */
void
rlx_tensor_save_npy_async (RlxTensor           *self,
                           GFile               *file,
                           GCancellable        *cancellable,
                           GAsyncReadyCallback  callback,
                           gpointer             user_data)
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
 * Ends what [method@Rlx.Tensor.save_npy_async] began.
 *
 * Returns: true if the file was written, false with an error if it was not
 *
 * Since: 1.0
 */
gboolean
rlx_tensor_save_npy_finish (RlxTensor     *self,
                            GAsyncResult  *result,
                            GError       **error)
{
  g_return_val_if_fail (RLX_IS_TENSOR (self), FALSE);
  g_return_val_if_fail (g_task_is_valid (result, self), FALSE);

  return g_task_propagate_pointer (G_TASK (result), error) != NULL;
}
