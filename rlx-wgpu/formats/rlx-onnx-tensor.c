/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Tensors in ONNX files, and in files beside them.
 */
#include "config.h"

#include "formats/rlx-onnx-private.h"

#include <string.h>

#include "rlx-tensor-private.h"
#include "util/rlx-checked-private.h"
#include "util/rlx-debug-private.h"
#include "util/rlx-os-private.h"

/* The fields of TensorProto that contain elements. */
enum
{
  FLOAT_DATA = 4,
  INT32_DATA = 5,
  INT64_DATA = 7,
  RAW_DATA = 9,
  DOUBLE_DATA = 10,
  UINT64_DATA = 11,
};

/* ---- checks ------------------------------------------------------------------------------- */

/* Elements that are not raw are in the field for their type. */
static guint
get_typed_field (gint64 type)
{
  switch (type)
    {
    case RLX_ONNX_TYPE_FLOAT:
    case RLX_ONNX_TYPE_COMPLEX64:
      return FLOAT_DATA;
    case RLX_ONNX_TYPE_INT64:
      return INT64_DATA;
    case RLX_ONNX_TYPE_DOUBLE:
    case RLX_ONNX_TYPE_COMPLEX128:
      return DOUBLE_DATA;
    case RLX_ONNX_TYPE_UINT32:
    case RLX_ONNX_TYPE_UINT64:
      return UINT64_DATA;
    default:
      return INT32_DATA;
    }
}

/* The count of numbers in INT32_DATA, INT64_DATA or UINT64_DATA: several elements smaller than a byte are in one number. */
static guint64
count_numbers (const RlxOnnxTensor *tensor)
{
  guint bits = rlx_onnx_type_get_info (tensor->type)->bits;

  return bits < 8 ? rlx_divide_up (tensor->n_elements, 8 / bits) : tensor->n_elements;
}

static guint64
count_bytes (const RlxOnnxTensor *tensor)
{
  /* There are at most 2³² elements of 128 bits. */
  return rlx_divide_up (tensor->n_elements * rlx_onnx_type_get_info (tensor->type)->bits, 8);
}

/* Checks that a path, taken literally, is below the folder. */
static gboolean
check_location (const RlxOnnxTensor *tensor,
                GError             **error)
{
  const char *problem = NULL;
  const char *part = tensor->location;
  g_autofree char *quoted = NULL;

  if (part[0] == '\0')
    problem = "is empty";
  else if (strlen (part) > RLX_ONNX_MAX_LOCATION)
    problem = "is too long";
  for (const char *p = part; *p != '\0' && problem == NULL; p++)
    if ((guchar) *p < ' ' || *p == 0x7f || *p == '\\' || *p == ':')
      problem = "has a character that it may not have";
  while (problem == NULL && part != NULL)
    {
      const char *slash = strchr (part, '/');
      gsize n = slash != NULL ? (gsize) (slash - part) : strlen (part);

      if (n == 0 || (n == 1 && part[0] == '.') || (n == 2 && part[0] == '.' && part[1] == '.'))
        problem = "is not a plain path below the model's folder";
      part = slash != NULL ? slash + 1 : NULL;
    }
  if (problem == NULL)
    return TRUE;
  quoted = rlx_quote_text (tensor->location, -1);
  return rlx_model_fail (error, RLX_MODEL_ERROR_PARSE, tensor->at, "the location of a tensor's elements %s: %s", problem, quoted);
}

static gboolean
parse_count (const RlxOnnxTensor *tensor,
             const char          *key,
             const char          *text,
             guint64             *value,
             GError             **error)
{
  g_autofree char *quoted = NULL;

  if (g_ascii_isdigit (text[0]) && g_ascii_string_to_unsigned (text, 10, 0, G_MAXINT64, value, NULL))
    return TRUE;
  quoted = rlx_quote_text (text, -1);
  return rlx_model_fail (error, RLX_MODEL_ERROR_PARSE, tensor->at, "the %s of a tensor's elements is %s, which is not a number of bytes", key, quoted);
}

static gboolean
get_external (const guint8  *message,
              RlxOnnxTensor *tensor,
              GError       **error)
{
  RlxProtobufValue value, part;
  gboolean has_length = FALSE;

  while (rlx_protobuf_next (&message, &value))
    {
      const char *key = "", *text = "";

      if (value.number != 13)
        continue;
      while (rlx_protobuf_next (&value.message, &part))
        if (part.number == 1)
          key = part.text;
        else
          text = part.text;
      if (g_str_equal (key, "location"))
        tensor->location = text;
      else if (g_str_equal (key, "offset") && !parse_count (tensor, key, text, &tensor->offset, error))
        return FALSE;
      else if (g_str_equal (key, "length"))
        {
          has_length = TRUE;
          if (!parse_count (tensor, key, text, &tensor->length, error))
            return FALSE;
        }
    }
  if (tensor->location == NULL)
    return rlx_model_fail (error, RLX_MODEL_ERROR_PARSE, tensor->at, "the elements of a tensor are in another file, which is not named");
  if (!has_length)
    tensor->length = count_bytes (tensor);
  return check_location (tensor, error);
}

static gboolean
check_length (const RlxOnnxTensor *tensor,
              GError             **error)
{
  const RlxOnnxTypeInfo *info = rlx_onnx_type_get_info (tensor->type);
  g_autofree char *shape = rlx_shape_to_string (tensor->dims, tensor->n_dims);
  guint64 numbers = count_numbers (tensor), bytes = count_bytes (tensor);

  if (tensor->field == RAW_DATA || tensor->location != NULL || tensor->field == 0)
    {
      if (tensor->length != bytes)
        return rlx_model_fail (error, RLX_MODEL_ERROR_PARSE, tensor->at,
                               "a tensor of %s and of shape %s has %" G_GUINT64_FORMAT " bytes of elements instead of %" G_GUINT64_FORMAT,
                               info->name, shape, tensor->length, bytes);
      return TRUE;
    }
  if (tensor->field != get_typed_field (tensor->type))
    return rlx_model_fail (error, RLX_MODEL_ERROR_PARSE, tensor->at,
                           "the elements of a tensor of %s are in field %u, not in field %u", info->name, tensor->field,
                           get_typed_field (tensor->type));
  /* The exact count of variable-length numbers is only known after reading them. */
  if (tensor->field == FLOAT_DATA || tensor->field == DOUBLE_DATA ? tensor->length != bytes
                                                                  : tensor->length < numbers || tensor->length / 10 > numbers)
    return rlx_model_fail (error, RLX_MODEL_ERROR_PARSE, tensor->at,
                           "a tensor of %s and of shape %s cannot have %" G_GUINT64_FORMAT " bytes of elements",
                           info->name, shape, tensor->length);
  return TRUE;
}

/* Only one field may have elements. */
static gboolean
set_field (RlxOnnxTensor          *tensor,
           const RlxProtobufValue *value,
           GError                **error)
{
  if (value->length == 0)
    return TRUE;
  if (tensor->field != 0)
    return rlx_model_fail (error, RLX_MODEL_ERROR_PARSE, tensor->at, "a tensor has elements in field %u and in field %u",
                           tensor->field, value->number);
  tensor->field = value->number;
  tensor->offset = value->offset;
  tensor->length = value->length;
  return TRUE;
}

static gboolean
check_shape (RlxOnnxTensor *tensor,
             GError       **error)
{
  g_autoptr(GError) local_error = NULL;

  if (rlx_shape_n_elements (tensor->dims, tensor->n_dims, &tensor->n_elements, &local_error))
    return TRUE;
  return rlx_model_fail (error, g_error_matches (local_error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_LIMIT) ? RLX_MODEL_ERROR_LIMIT : RLX_MODEL_ERROR_PARSE,
                         tensor->at, "the shape of a tensor: %s", local_error->message);
}

gboolean
rlx_onnx_check_tensor (const RlxOnnx          *self,
                       const RlxProtobufValue *message,
                       RlxOnnxTensor          *tensor,
                       GError                **error)
{
  const guint8 *at = message->message;
  RlxProtobufValue value;
  gint64 location = 0;

  *tensor = (RlxOnnxTensor) { .at = message->offset };
  while (rlx_protobuf_next (&at, &value))
    switch (value.number)
      {
      case 1:
        for (gint64 dim; rlx_protobuf_next_int (&value, &dim);)
          {
            if (tensor->n_dims == RLX_MAX_DIMS)
              return rlx_model_fail (error, RLX_MODEL_ERROR_LIMIT, tensor->at, "a tensor has more than %d dimensions", RLX_MAX_DIMS);
            tensor->dims[tensor->n_dims++] = dim;
          }
        break;
      case 2:
        tensor->type = value.integer;
        break;
      case 3:
        return rlx_model_fail (error, RLX_MODEL_ERROR_UNSUPPORTED, tensor->at, "a tensor comes in segments");
      case FLOAT_DATA:
      case INT32_DATA:
      case INT64_DATA:
      case RAW_DATA:
      case DOUBLE_DATA:
      case UINT64_DATA:
        if (!set_field (tensor, &value, error))
          return FALSE;
        break;
      case 8:
        tensor->name = value.text;
        break;
      case 14:
        location = value.integer;
        break;
      default:
        break;
      }

  if (tensor->type <= RLX_ONNX_TYPE_UNDEFINED || tensor->type >= RLX_ONNX_N_TYPES)
    return rlx_model_fail (error, RLX_MODEL_ERROR_PARSE, tensor->at, "the data_type of a tensor is %" G_GINT64_FORMAT ", which is not a type of elements",
                           tensor->type);
  if (!check_shape (tensor, error))
    return FALSE;
  if (location == 1)
    {
      if (tensor->field != 0)
        return rlx_model_fail (error, RLX_MODEL_ERROR_PARSE, tensor->at, "the elements of a tensor are here and in another file");
      tensor->length = tensor->offset = 0;
      if (!get_external (message->message, tensor, error))
        return FALSE;
    }
  else if (location != 0)
    {
      return rlx_model_fail (error, RLX_MODEL_ERROR_PARSE, tensor->at, "the data_location of a tensor is %" G_GINT64_FORMAT, location);
    }
  /* Strings are not supported on devices, and are left in place. */
  return tensor->type == RLX_ONNX_TYPE_STRING || check_length (tensor, error);
}

/* ---- elements -------------------------------------------------------------------------------- */

static GBytes *
read_bytes (RlxSource    *source,
            guint64       offset,
            guint64       length,
            GCancellable *cancellable,
            GError      **error)
{
  g_autofree guint8 *data = NULL;
  GBytes *shared;
  gsize size;

  if (offset > rlx_source_get_size (source) || length > rlx_source_get_size (source) - offset)
    {
      g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_TRUNCATED,
                   "%" G_GUINT64_FORMAT " bytes from byte %" G_GUINT64_FORMAT " on are beyond the %" G_GUINT64_FORMAT " bytes of the file",
                   length, offset, rlx_source_get_size (source));
      return NULL;
    }
  shared = rlx_source_share (source, offset, (gsize) length);
  if (shared != NULL)
    return shared;
  data = rlx_u64_to_size (length, &size) ? rlx_try_alloc (size, NULL) : NULL;
  if (data == NULL)
    {
      g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_LIMIT, "There is no memory for %" G_GUINT64_FORMAT " bytes", length);
      return NULL;
    }
  if (!rlx_source_read (source, "the elements of a tensor", offset, data, size, cancellable, error))
    {
      rlx_model_adopt_error (error);
      return NULL;
    }
  return g_bytes_new_take (g_steal_pointer (&data), size);
}

static GBytes *
read_external (const RlxOnnx       *self,
               const RlxOnnxTensor *tensor,
               GCancellable        *cancellable,
               GError             **error)
{
  g_autoptr(RlxSource) source = NULL;
  g_autoptr(GBytes) bytes = NULL;
  g_autofree char *quoted = rlx_quote_text (tensor->location, -1);

  if (self->file != NULL && strchr (tensor->location, '/') == NULL)
    {
      source = rlx_source_open_beside (self->file, tensor->location, TRUE, cancellable, error);
      rlx_model_adopt_error (error);
    }
  else if (self->folder == NULL)
    {
      g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_UNSUPPORTED,
                   "Its elements are in the file %s, but the model was opened without a folder to look for it in", quoted);
      return NULL;
    }
  else
    {
      int file = rlx_os_file_open_below (self->folder, tensor->location, error);

      if (file != RLX_OS_NO_FILE)
        {
          source = rlx_source_new_for_fd (file, error);
          rlx_os_file_close (file);
        }
    }
  if (source != NULL)
    bytes = read_bytes (source, tensor->offset, tensor->length, cancellable, error);
  if (bytes == NULL)
    g_prefix_error (error, "Its elements are in the file %s: ", quoted);
  return g_steal_pointer (&bytes);
}

/* Converts variable-length numbers to @size bytes each. */
static GBytes *
unpack_numbers (const RlxOnnxTensor *tensor,
                GBytes              *packed,
                gsize                size,
                GError             **error)
{
  gsize n_packed;
  const guint8 *at = g_bytes_get_data (packed, &n_packed);
  guint64 n = count_numbers (tensor), value;
  g_autofree guint8 *numbers = rlx_try_alloc ((gsize) n * size, error);

  if (numbers == NULL)
    return NULL;
  for (guint64 i = 0; i < n; i++)
    {
      gsize read = rlx_varint_read (at, n_packed, &value);

      if (read == 0)
        {
          rlx_model_fail (error, RLX_MODEL_ERROR_PARSE, tensor->at, "a tensor has %" G_GUINT64_FORMAT " elements instead of %" G_GUINT64_FORMAT, i, n);
          return NULL;
        }
      at += read;
      n_packed -= read;
      value = GUINT64_TO_LE (value);
      memcpy (numbers + i * size, &value, size);
    }
  if (n_packed > 0)
    {
      rlx_model_fail (error, RLX_MODEL_ERROR_PARSE, tensor->at, "a tensor has more than its %" G_GUINT64_FORMAT " elements", n);
      return NULL;
    }
  return g_bytes_new_take (g_steal_pointer (&numbers), (gsize) n * size);
}

/* Converts 64-bit floats to 32 bits. */
static GBytes *
narrow_doubles (GBytes  *bytes,
                GError **error)
{
  gsize size;
  const guint8 *from = g_bytes_get_data (bytes, &size);
  g_autofree float *to = rlx_try_alloc (size / 2, error);

  if (to == NULL)
    return NULL;
  for (gsize i = 0; i < size / 8; i++)
    {
      double number;

      memcpy (&number, from + 8 * i, 8);
      to[i] = (float) number;
    }
  return g_bytes_new_take (g_steal_pointer (&to), size / 2);
}

/* Anything but 0 is true, and stored as 1. */
static GBytes *
clean_booleans (GBytes  *bytes,
                GError **error)
{
  gsize size;
  const guint8 *from = g_bytes_get_data (bytes, &size);
  g_autofree guint8 *to = NULL;
  gsize i = 0;

  while (i < size && from[i] <= 1)
    i++;
  if (i == size)
    return g_bytes_ref (bytes);
  to = rlx_try_alloc (size, error);
  if (to == NULL)
    return NULL;
  for (i = 0; i < size; i++)
    to[i] = from[i] != 0;
  return g_bytes_new_take (g_steal_pointer (&to), size);
}

RlxTensor *
rlx_onnx_load_tensor (const RlxOnnx       *self,
                      const RlxOnnxTensor *tensor,
                      GCancellable        *cancellable,
                      GError             **error)
{
  const RlxOnnxTypeInfo *info = rlx_onnx_type_get_info (tensor->type);
  g_autoptr(GBytes) bytes = NULL;
  g_autoptr(GBytes) elements = NULL;
  GError *local_error = NULL;
  RlxTensor *result;

  if (info->data_type < 0)
    {
      g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_UNSUPPORTED, "Tensors of %s are not supported on devices", info->name);
      return NULL;
    }
  if (G_BYTE_ORDER != G_LITTLE_ENDIAN && info->bits > 8)
    {
      g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_UNSUPPORTED, "Elements of %s are not in the byte order of this computer", info->name);
      return NULL;
    }
  bytes = tensor->location != NULL ? read_external (self, tensor, cancellable, error)
                                   : read_bytes (self->source, tensor->offset, tensor->length, cancellable, error);
  if (bytes == NULL)
    return NULL;

  if (tensor->field == INT32_DATA || tensor->field == INT64_DATA || tensor->field == UINT64_DATA)
    elements = unpack_numbers (tensor, bytes, MAX (info->bits, 8) / 8, &local_error);
  else
    elements = g_bytes_ref (bytes);
  if (elements != NULL && (tensor->type == RLX_ONNX_TYPE_DOUBLE || tensor->type == RLX_ONNX_TYPE_BOOL))
    {
      g_bytes_unref (bytes);
      bytes = g_steal_pointer (&elements);
      elements = tensor->type == RLX_ONNX_TYPE_DOUBLE ? narrow_doubles (bytes, &local_error) : clean_booleans (bytes, &local_error);
    }
  result = elements != NULL ? rlx_tensor_new_from_bytes ((RlxDataType) info->data_type, tensor->dims, tensor->n_dims, elements, &local_error) : NULL;
  if (result == NULL && local_error->domain != RLX_MODEL_ERROR)
    {
      g_set_error_literal (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_LIMIT, local_error->message);
      g_error_free (local_error);
    }
  else if (result == NULL)
    {
      g_propagate_error (error, local_error);
    }
  return result;
}

RlxTensor *
rlx_onnx_read_tensor (RlxSource    *source,
                      GCancellable *cancellable,
                      GError      **error)
{
  static const RlxProtobufLimits limits = { RLX_ONNX_MAX_TEXT, RLX_ONNX_MAX_TEXT };
  g_autoptr(RlxProtobuf) tape = rlx_protobuf_read (source, &rlx_onnx_tensor_schema, &limits, cancellable, error);
  RlxOnnx onnx = { .source = source };
  RlxProtobufValue message = { .kind = RLX_PROTOBUF_MESSAGE };
  RlxOnnxTensor tensor;

  if (tape == NULL)
    return NULL;
  message.message = tape->bytes;
  return rlx_onnx_check_tensor (&onnx, &message, &tensor, error) ? rlx_onnx_load_tensor (&onnx, &tensor, cancellable, error) : NULL;
}
