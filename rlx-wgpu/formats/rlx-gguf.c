/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The header of a GGUF file, versions 2 and 3: "GGUF", the version in 4 bytes, the
 * number of tensors and that of pairs in 8 bytes each; then the pairs, a key, a type
 * and a value; then the tensors, a name, the sizes of the dimensions, innermost first,
 * a type and the place in the data, which follows at the next multiple of the
 * alignment.
 *
 * Nothing tells where the header ends, so it is read in pieces. The pairs are read
 * twice: values become variants only once everything else is right.
 */
#include "config.h"

#include "formats/rlx-cursor-private.h"

#include <string.h>

#include "formats/rlx-gguf-private.h"
#include "formats/rlx-manifest-private.h"
#include "rlx-tensor-private.h"
#include "util/rlx-checked-private.h"
#include "util/rlx-debug-private.h"

/* The minimum size of a pair: a key of one byte and a value of one byte. */
#define MIN_PAIR 14
/* The minimum size of a tensor's record: a name of one byte and one dimension. */
#define MIN_TENSOR 33

/* Sizes of values in bytes; 0 if variable. */
static const guint8 sizes[RLX_GGUF_N_TYPES] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };

/* ---- bytes ---------------------------------------------------------------------------- */

/* A length, then that many bytes, at most @max. */
static gboolean
take_string (RlxCursor  *cursor,
             const char *what,
             guint64     max,
             GString    *text,
             GError    **error)
{
  guint64 at = cursor->at, length;

  if (!rlx_cursor_take_u64 (cursor, what, &length, error))
    return FALSE;
  if (length > max)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_LIMIT, at,
                             "the length of %s is %" G_GUINT64_FORMAT "; the limit is %" G_GUINT64_FORMAT, what, length, max);
  if (!rlx_cursor_check_room (cursor, what, length, error))
    return FALSE;
  g_string_set_size (text, (gsize) length);
  return rlx_cursor_take (cursor, what, text->str, (gsize) length, error);
}

static gboolean
skip_string (RlxCursor *cursor,
             GError   **error)
{
  guint64 length;

  if (!rlx_cursor_take_u64 (cursor, "a string", &length, error) || !rlx_cursor_check_room (cursor, "a string", length, error))
    return FALSE;
  cursor->at += length;
  return TRUE;
}

/* ---- values --------------------------------------------------------------------------- */

static gboolean
check_bool (guint64  at,
            guint8   byte,
            GError **error)
{
  return byte <= 1 || rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, at, "a boolean is %u, neither 0 nor 1", byte);
}

static gboolean
take_type (RlxCursor  *cursor,
           const char *what,
           guint32    *type,
           GError    **error)
{
  guint64 at = cursor->at;

  if (!rlx_cursor_take_u32 (cursor, what, type, error))
    return FALSE;
  return *type < RLX_GGUF_N_TYPES ||
         rlx_weights_fail (error, RLX_WEIGHTS_ERROR_UNSUPPORTED, at, "%s is %u; the limit is %d", what, *type, RLX_GGUF_N_TYPES - 1);
}

/* The header of an array, after checking that its elements are there. */
static gboolean
take_array (RlxCursor *cursor,
            guint32   *type,
            guint64   *n,
            GError   **error)
{
  guint64 at = cursor->at;
  guint min;

  if (!take_type (cursor, "the type of an array's elements", type, error))
    return FALSE;
  if (*type == RLX_GGUF_ARRAY)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_UNSUPPORTED, at, "an array has arrays in it");
  at = cursor->at;
  if (!rlx_cursor_take_u64 (cursor, "the length of an array", n, error))
    return FALSE;
  min = *type == RLX_GGUF_STRING ? 8 : sizes[*type];
  if (*n > (cursor->end - cursor->at) / min)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_TRUNCATED, at,
                             "the length of an array is %" G_GUINT64_FORMAT ", but the file has room for %" G_GUINT64_FORMAT " elements at most",
                             *n, (cursor->end - cursor->at) / min);
  return rlx_cursor_check_room (cursor, "an array", *n * min, error);
}

/* Checks a value without storing it. */
static gboolean
check_value (RlxCursor *cursor,
             guint32    type,
             GError   **error)
{
  guint64 n = 1;

  if (type == RLX_GGUF_ARRAY && !take_array (cursor, &type, &n, error))
    return FALSE;
  if (type != RLX_GGUF_STRING && type != RLX_GGUF_BOOL)
    {
      if (!rlx_cursor_check_room (cursor, "a value", n * sizes[type], error))
        return FALSE;
      cursor->at += n * sizes[type];
      return TRUE;
    }
  for (guint64 i = 0; i < n; i++)
    {
      guint64 at = cursor->at;
      guint8 byte;

      if (type == RLX_GGUF_STRING ? !skip_string (cursor, error)
                              : !rlx_cursor_take (cursor, "a boolean", &byte, 1, error) || !check_bool (at, byte, error))
        return FALSE;
    }
  return TRUE;
}

static GVariant *
make_string (const GString *text)
{
  if (memchr (text->str, '\0', text->len) == NULL && g_utf8_validate_len (text->str, text->len, NULL))
    return g_variant_new_string (text->str);
  return g_variant_new_fixed_array (G_VARIANT_TYPE_BYTE, text->str, text->len, 1);
}

/* Variant types for values: GVariant has neither signed 8-bit integers nor 32-bit floats. */
static const struct
{
  const char *type;
  guint8 size;
} numbers[RLX_GGUF_N_TYPES] = {
  [RLX_GGUF_U8] = { "y", 1 }, [RLX_GGUF_I8] = { "n", 2 }, [RLX_GGUF_U16] = { "q", 2 }, [RLX_GGUF_I16] = { "n", 2 }, [RLX_GGUF_U32] = { "u", 4 },
  [RLX_GGUF_I32] = { "i", 4 }, [RLX_GGUF_F32] = { "d", 8 }, [RLX_GGUF_BOOL] = { "b", 1 }, [RLX_GGUF_U64] = { "t", 8 }, [RLX_GGUF_I64] = { "x", 8 },
  [RLX_GGUF_F64] = { "d", 8 },
};

static gboolean
take_number (RlxCursor *cursor,
             guint32    type,
             gpointer   to,
             GError   **error)
{
  union { guint8 bytes[8]; gint8 i8; guint16 u16; guint32 u32; guint64 u64; float f32; } value;
  guint64 at = cursor->at;
  gint16 i16;
  double f64;

  if (!rlx_cursor_take (cursor, "a value", value.bytes, sizes[type], error))
    return FALSE;
  if (type == RLX_GGUF_BOOL && !check_bool (at, value.bytes[0], error))
    return FALSE;
  switch (sizes[type])
    {
    case 2:
      value.u16 = GUINT16_FROM_LE (value.u16);
      break;
    case 4:
      value.u32 = GUINT32_FROM_LE (value.u32);
      break;
    case 8:
      value.u64 = GUINT64_FROM_LE (value.u64);
      break;
    default:
      break;
    }
  if (type == RLX_GGUF_I8)
    {
      i16 = value.i8;
      memcpy (to, &i16, 2);
    }
  else if (type == RLX_GGUF_F32)
    {
      f64 = (double) value.f32;
      memcpy (to, &f64, 8);
    }
  else
    memcpy (to, value.bytes, sizes[type]);
  return TRUE;
}

/* Since there may be millions, an array becomes a single variant of its numbers; otherwise, the number itself. */
static GVariant *
make_numbers (RlxCursor *cursor,
              guint32    type,
              guint64    n,
              gboolean   is_array,
              GError   **error)
{
  guint size = numbers[type].size;
  g_autofree guint8 *data = g_try_malloc (n * size + 1);
  g_autofree char *variant = g_strconcat (is_array ? "a" : "", numbers[type].type, NULL);
  g_autoptr(GBytes) bytes = NULL;

  if (data == NULL)
    {
      rlx_weights_fail (error, RLX_WEIGHTS_ERROR_LIMIT, cursor->at, "there is no memory for an array of %" G_GUINT64_FORMAT " elements", n);
      return NULL;
    }
  for (guint64 i = 0; i < n; i++)
    if (!take_number (cursor, type, data + i * size, error))
      return NULL;
  bytes = g_bytes_new_take (g_steal_pointer (&data), n * size);
  return g_variant_new_from_bytes (G_VARIANT_TYPE (variant), bytes, TRUE);
}

/* The same for strings. GVariant serialises an array of strings or byte arrays as its elements, strings with a NUL, followed by
 * the offsets of their ends, of the smallest integer size that fits. */
static GVariant *
make_strings (RlxCursor *cursor,
              guint64    n,
              GError   **error)
{
  g_autoptr(GString) text = g_string_new (NULL);
  g_autoptr(GByteArray) data = g_byte_array_new ();
  g_autoptr(GArray) ends = g_array_new (FALSE, FALSE, sizeof (guint32));
  g_autoptr(GBytes) bytes = NULL;
  gboolean are_texts = TRUE;
  guint size = 1;

  for (guint64 i = 0; i < n; i++)
    {
      guint32 end;

      if (!take_string (cursor, "a string", RLX_GGUF_MAX_METADATA, text, error))
        return NULL;
      are_texts = are_texts && memchr (text->str, '\0', text->len) == NULL && g_utf8_validate_len (text->str, text->len, NULL);
      g_byte_array_append (data, (const guint8 *) text->str, (guint) text->len + 1);
      end = data->len;
      g_array_append_val (ends, end);
    }
  if (!are_texts)
    {
      guint32 start = 0, to = 0;

      for (guint i = 0; i < ends->len; i++)
        {
          guint32 *end = &g_array_index (ends, guint32, i);
          guint32 length = *end - start - 1;

          memmove (data->data + to, data->data + start, length);
          start = *end;
          to += length;
          *end = to;
        }
      g_byte_array_set_size (data, to);
    }
  while (size < 8 && data->len + n * size > (G_GUINT64_CONSTANT (1) << 8 * size) - 1)
    size *= 2;
  for (guint i = 0; i < ends->len; i++)
    {
      guint64 end = GUINT64_TO_LE ((guint64) g_array_index (ends, guint32, i));

      g_byte_array_append (data, (const guint8 *) &end, size);
    }
  bytes = g_byte_array_free_to_bytes (g_steal_pointer (&data));
  return g_variant_new_from_bytes (are_texts ? G_VARIANT_TYPE ("as") : G_VARIANT_TYPE ("aay"), bytes, TRUE);
}

static GVariant *
make_value (RlxCursor *cursor,
            guint32    type,
            GError   **error)
{
  gboolean is_array = type == RLX_GGUF_ARRAY;
  g_autoptr(GString) text = NULL;
  guint64 n = 1;

  if (is_array && !take_array (cursor, &type, &n, error))
    return NULL;
  if (type != RLX_GGUF_STRING)
    return make_numbers (cursor, type, n, is_array, error);
  if (is_array)
    return make_strings (cursor, n, error);
  text = g_string_new (NULL);
  return take_string (cursor, "a string", RLX_GGUF_MAX_METADATA, text, error) ? make_string (text) : NULL;
}

/* ---- pairs ---------------------------------------------------------------------------- */

static gboolean
take_key (RlxCursor *cursor,
          GString   *key,
          GError   **error)
{
  guint64 at = cursor->at;

  if (!take_string (cursor, "a key", RLX_GGUF_MAX_KEY, key, error))
    return FALSE;
  if (key->len == 0)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, at, "a key is empty");
  if (memchr (key->str, '\0', key->len) == NULL && g_utf8_validate_len (key->str, key->len, NULL))
    return TRUE;
  return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, at, "a key is not UTF-8, or has a NUL byte");
}

static gboolean
take_alignment (RlxCursor *cursor,
                guint32    type,
                guint32   *alignment,
                GError   **error)
{
  guint64 at = cursor->at;

  if (type != RLX_GGUF_U32)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, at, "“general.alignment” is of type %u, not %d", type, RLX_GGUF_U32);
  if (!rlx_cursor_take_u32 (cursor, "“general.alignment”", alignment, error))
    return FALSE;
  if (*alignment == 0 || *alignment > RLX_GGUF_MAX_ALIGNMENT || (*alignment & (*alignment - 1)) != 0)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, at,
                             "“general.alignment” is %u, not a power of two from 1 to %d", *alignment, RLX_GGUF_MAX_ALIGNMENT);
  return TRUE;
}

/* Checks the pairs and, with @build, converts them to variants. */
static gboolean
read_pairs (RlxCursor   *cursor,
            RlxManifest *manifest,
            gboolean     build,
            guint64      n_pairs,
            guint32     *alignment,
            GError     **error)
{
  g_autoptr(GString) key = g_string_new (NULL);

  for (guint64 i = 0; i < n_pairs; i++)
    {
      guint64 at = cursor->at;
      GVariant *value;
      guint32 type;

      if (!take_key (cursor, key, error) || !take_type (cursor, "the type of a value", &type, error))
        return FALSE;
      if (build)
        {
          value = make_value (cursor, type, error);
          if (value == NULL)
            return FALSE;
          g_variant_builder_add (&manifest->metadata, "{sv}", key->str, value);
          continue;
        }
      if (!rlx_manifest_add_key (manifest, at, key->str, key->len, error) ||
          !(strcmp (key->str, RLX_GGUF_ALIGNMENT_KEY) == 0 ? take_alignment (cursor, type, alignment, error)
                                                        : check_value (cursor, type, error)))
        return FALSE;
    }
  return TRUE;
}

/* ---- tensors -------------------------------------------------------------------------- */

static gboolean
read_shape (RlxCursor *cursor,
            gint64    *shape,
            guint32   *n_dims,
            GError   **error)
{
  guint64 at = cursor->at;

  if (!rlx_cursor_take_u32 (cursor, "the number of dimensions", n_dims, error))
    return FALSE;
  if (*n_dims == 0)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, at, "the number of dimensions is 0");
  if (*n_dims > RLX_GGUF_MAX_DIMS)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_LIMIT, at,
                             "the number of dimensions is %u; the limit is %d", *n_dims, RLX_GGUF_MAX_DIMS);
  for (guint i = *n_dims; i-- > 0;)
    {
      guint64 size;

      at = cursor->at;
      if (!rlx_cursor_take_u64 (cursor, "a dimension", &size, error))
        return FALSE;
      if (size > RLX_MAX_ELEMENTS)
        return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_LIMIT, at,
                                 "a dimension is %" G_GUINT64_FORMAT "; the limit is %" G_GUINT64_FORMAT, size, RLX_MAX_ELEMENTS);
      shape[i] = (gint64) size;
    }
  return TRUE;
}

static gboolean
read_tensor (RlxCursor   *cursor,
             RlxManifest *manifest,
             guint32      alignment,
             GString     *name,
             GError     **error)
{
  guint64 at = cursor->at, type_at, offset_at, offset, length;
  gint64 shape[RLX_GGUF_MAX_DIMS];
  guint32 n_dims, type;
  RlxRecord *record;
  int storage;

  if (!take_string (cursor, "the name of a tensor", RLX_GGUF_MAX_NAME, name, error) ||
      !read_shape (cursor, shape, &n_dims, error))
    return FALSE;
  type_at = cursor->at;
  if (!rlx_cursor_take_u32 (cursor, "the type of a tensor", &type, error))
    return FALSE;
  storage = rlx_storage_find_gguf (type);
  if (storage < 0)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_UNSUPPORTED, type_at, "the type of a tensor is %u, which is not a known one", type);
  offset_at = cursor->at;
  if (!rlx_cursor_take_u64 (cursor, "the offset of a tensor", &offset, error))
    return FALSE;
  record = rlx_manifest_add (manifest, at, name->str, name->len, (guint) storage, shape, n_dims, &length, error);
  if (record == NULL)
    return FALSE;
  if (offset % alignment != 0)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, offset_at,
                             "the offset of a tensor is %" G_GUINT64_FORMAT ", not a multiple of the alignment, %u", offset, alignment);
  /* Relative to the data section, until place_tensors() adds where that begins. */
  record->offset = offset;
  record->length = length;
  return TRUE;
}

static gboolean
place_tensors (RlxManifest *manifest,
               guint64      header,
               guint32      alignment,
               guint64      size,
               GError     **error)
{
  guint64 start;

  if (!rlx_round_up_u64 (header, alignment, &start))
    start = G_MAXUINT64;
  for (guint i = 0; i < manifest->records->len; i++)
    {
      RlxRecord *record = &g_array_index (manifest->records, RlxRecord, i);
      guint64 room = size > start ? size - start : 0;

      if (record->offset > room || record->length > room - record->offset)
        {
          g_autofree char *quoted = rlx_quote_text (record->name, -1);

          return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_TRUNCATED, MIN (start, size),
                                   "%s is %" G_GUINT64_FORMAT " bytes at %" G_GUINT64_FORMAT " in the data, of which there are %" G_GUINT64_FORMAT " bytes",
                                   quoted, record->length, record->offset, room);
        }
      /* An empty tensor may start beyond the end if the padding before the data is missing. */
      record->offset = MIN (record->offset + start, size);
    }
  return rlx_manifest_check_places (manifest, FALSE, 0, size, error);
}

/* ---- the file ------------------------------------------------------------------------- */

static gboolean
take_count (RlxCursor  *cursor,
            const char *what,
            guint64     limit,
            guint       min,
            guint64    *n,
            GError    **error)
{
  guint64 at = cursor->at;

  if (!rlx_cursor_take_u64 (cursor, what, n, error))
    return FALSE;
  if (*n > limit)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_LIMIT, at, "%s is %" G_GUINT64_FORMAT "; the limit is %" G_GUINT64_FORMAT, what, *n, limit);
  if (*n > (cursor->end - cursor->at) / min)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_TRUNCATED, at, "%s is %" G_GUINT64_FORMAT ", but the file has room for %" G_GUINT64_FORMAT " at most",
                             what, *n, (cursor->end - cursor->at) / min);
  return TRUE;
}

static gboolean
check_version (guint32  version,
               GError **error)
{
  if (version == 2 || version == 3)
    return TRUE;
  if (GUINT32_SWAP_LE_BE (version) <= 3 && version != 0)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_UNSUPPORTED, 4, "the file has its bytes in the other order (big-endian)");
  return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_UNSUPPORTED, 4, "the version is %u, not 2 or 3", version);
}

gboolean
rlx_gguf_read (RlxSource    *source,
               RlxManifest  *manifest,
               GCancellable *cancellable,
               GError      **error)
{
  g_autofree RlxCursor *cursor = rlx_cursor_new (source, RLX_GGUF_MAX_METADATA, cancellable);
  g_autoptr(GString) name = g_string_new (NULL);
  guint64 n_tensors, n_pairs, pairs;
  guint32 version, alignment = RLX_GGUF_ALIGNMENT;
  char magic[4];

  if (!rlx_cursor_take (cursor, "the magic", magic, 4, error))
    return FALSE;
  if (memcmp (magic, RLX_GGUF_MAGIC, 4) != 0)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, 0, "the file does not begin with “GGUF”");
  if (!rlx_cursor_take_u32 (cursor, "the version", &version, error) || !check_version (version, error) ||
      !take_count (cursor, "the number of tensors", RLX_WEIGHTS_MAX_ENTRIES, MIN_TENSOR, &n_tensors, error) ||
      !take_count (cursor, "the number of pairs", RLX_WEIGHTS_MAX_PAIRS, MIN_PAIR, &n_pairs, error))
    return FALSE;
  pairs = cursor->at;
  if (!read_pairs (cursor, manifest, FALSE, n_pairs, &alignment, error))
    return FALSE;
  for (guint64 i = 0; i < n_tensors; i++)
    if (!read_tensor (cursor, manifest, alignment, name, error))
      return FALSE;
  if (!place_tensors (manifest, cursor->at, alignment, cursor->end, error) ||
      !rlx_manifest_seal (manifest, error))
    return FALSE;
  cursor->at = pairs;
  return read_pairs (cursor, manifest, TRUE, n_pairs, &alignment, error);
}
