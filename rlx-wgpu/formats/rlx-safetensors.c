/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The header of a safetensors file: its length in 8 bytes, then a JSON object. A
 * member is a tensor, {"dtype": …, "shape": […], "data_offsets": [begin, end]}, or
 * "__metadata__", an object of strings. The tensors fill the rest of the file, with
 * nothing between them and nothing after them.
 *
 * The grammar is that fixed, so a reader of our own is short. json-glib would recurse
 * as deep as a file likes, take the last of several members of one name, and turn
 * sizes into doubles.
 */
#include "config.h"

#include "formats/rlx-manifest-private.h"

#include <string.h>

#include "formats/rlx-json-private.h"
#include "rlx-tensor-private.h"
#include "util/rlx-debug-private.h"

#define PREFIX 8

static gboolean
parse_shape (RlxJson *json,
             gint64  *dims,
             guint   *n_dims,
             GError **error)
{
  gboolean first = TRUE, more;

  if (!rlx_json_expect (json, '[', error))
    return FALSE;
  for (*n_dims = 0;; (*n_dims)++)
    {
      guint64 value;

      if (!rlx_json_next (json, ']', &first, &more, error))
        return FALSE;
      if (!more)
        return TRUE;
      if (*n_dims == RLX_MAX_DIMS)
        return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_LIMIT, rlx_json_get_place (json),
                                 "“shape” has more dimensions than the limit of %d", RLX_MAX_DIMS);
      if (!rlx_json_unsigned (json, "shape", &value, error))
        return FALSE;
      if (value > RLX_MAX_ELEMENTS)
        return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_LIMIT, rlx_json_get_place (json),
                                 "a number in “shape” is %" G_GUINT64_FORMAT ", beyond the limit of %" G_GUINT64_FORMAT, value, RLX_MAX_ELEMENTS);
      dims[*n_dims] = (gint64) value;
    }
}

static gboolean
parse_offsets (RlxJson *json,
               guint64 *begin,
               guint64 *end,
               GError **error)
{
  return rlx_json_expect (json, '[', error) &&
         rlx_json_unsigned (json, "data_offsets", begin, error) &&
         rlx_json_expect (json, ',', error) &&
         rlx_json_unsigned (json, "data_offsets", end, error) &&
         rlx_json_expect (json, ']', error);
}

static gboolean
parse_type (RlxJson *json,
            GString *text,
            guint   *storage,
            GError **error)
{
  g_autofree char *quoted = NULL;
  guint64 at;
  int found;

  rlx_json_peek (json);
  at = rlx_json_get_place (json);
  if (!rlx_json_string (json, text, error))
    return FALSE;
  found = rlx_storage_find_safetensors (text->str);
  if (found >= 0)
    {
      *storage = (guint) found;
      return TRUE;
    }
  quoted = rlx_quote_text (text->str, (gssize) text->len);
  return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_UNSUPPORTED, at, "“dtype” is %s, which is not a known data type", quoted);
}

static gboolean
parse_tensor (RlxJson     *json,
              RlxManifest *manifest,
              const char  *name,
              gsize        name_length,
              guint64      data_start,
              guint64      data_size,
              GString     *text,
              GError     **error)
{
  static const char *const fields[] = { "dtype", "shape", "data_offsets" };
  g_autofree char *quoted = NULL;
  guint64 at = rlx_json_get_place (json), begin = 0, end = 0, length;
  gint64 dims[RLX_MAX_DIMS];
  guint n_dims = 0, storage = 0, seen = 0, i;
  gboolean first = TRUE, more, ok;
  RlxRecord *record;

  if (!rlx_json_expect (json, '{', error))
    return FALSE;
  for (;;)
    {
      if (!rlx_json_next (json, '}', &first, &more, error))
        return FALSE;
      if (!more)
        break;
      if (!rlx_json_string (json, text, error) || !rlx_json_expect (json, ':', error))
        return FALSE;
      for (i = 0; i < G_N_ELEMENTS (fields) && strcmp (fields[i], text->str) != 0; i++)
        ;
      if (i == G_N_ELEMENTS (fields))
        {
          quoted = rlx_quote_text (text->str, (gssize) text->len);
          return rlx_json_fail (json, error, "a tensor has no field %s", quoted);
        }
      if ((seen & 1u << i) != 0)
        return rlx_json_fail (json, error, "the field “%s” comes twice", fields[i]);
      seen |= 1u << i;
      ok = i == 0 ? parse_type (json, text, &storage, error) :
           i == 1 ? parse_shape (json, dims, &n_dims, error) :
                    parse_offsets (json, &begin, &end, error);
      if (!ok)
        return FALSE;
    }
  for (i = 0; i < G_N_ELEMENTS (fields); i++)
    if ((seen & 1u << i) == 0)
      return rlx_json_fail (json, error, "a tensor has no “%s”", fields[i]);

  record = rlx_manifest_add (manifest, at, name, name_length, storage, dims, n_dims, &length, error);
  if (record == NULL)
    return FALSE;
  quoted = rlx_quote_text (name, (gssize) name_length);
  if (begin > end)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, at,
                             "“data_offsets” of %s begin at %" G_GUINT64_FORMAT " and end at %" G_GUINT64_FORMAT ", before that", quoted, begin, end);
  if (end > data_size)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_TRUNCATED, at,
                             "“data_offsets” of %s end at %" G_GUINT64_FORMAT ", but the file has %" G_GUINT64_FORMAT " bytes of data",
                             quoted, end, data_size);
  if (end - begin != length)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, at,
                             "%s has %" G_GUINT64_FORMAT " bytes by “data_offsets”, but %" G_GUINT64_FORMAT " by its shape and type",
                             quoted, end - begin, length);
  record->offset = data_start + begin;
  record->length = length;
  return TRUE;
}

/* Checks the pairs and, with @build, converts them to variants. */
static gboolean
parse_metadata (RlxJson     *json,
                RlxManifest *manifest,
                gboolean     build,
                GString     *key,
                GString     *value,
                GError     **error)
{
  gboolean first = TRUE, more;

  if (!rlx_json_expect (json, '{', error))
    return FALSE;
  for (;;)
    {
      if (!rlx_json_next (json, '}', &first, &more, error))
        return FALSE;
      if (!more)
        return TRUE;
      if (!rlx_json_string (json, key, error) || !rlx_json_expect (json, ':', error) ||
          !rlx_json_string (json, value, error))
        {
          g_prefix_error_literal (error, "In “__metadata__”, which has strings only: ");
          return FALSE;
        }
      if (build)
        g_variant_builder_add (&manifest->metadata, "{sv}", key->str, g_variant_new_string (value->str));
      else if (!rlx_manifest_add_key (manifest, rlx_json_get_place (json), key->str, key->len, error))
        return FALSE;
    }
}

gboolean
rlx_safetensors_read (RlxSource    *source,
                      RlxManifest  *manifest,
                      GCancellable *cancellable,
                      GError      **error)
{
  guint64 size = rlx_source_get_size (source), length;
  g_autoptr(GString) name = g_string_new (NULL);
  g_autoptr(GString) word = g_string_new (NULL);
  g_autofree char *text = NULL;
  guint8 prefix[PREFIX];
  gboolean first = TRUE, more;
  const char *metadata = NULL;
  RlxJson json;

  if (size < PREFIX)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_TRUNCATED, size,
                             "the file ends in the length of the header, which takes %d bytes", PREFIX);
  if (!rlx_source_read (source, "the length of the header", 0, prefix, PREFIX, cancellable, error))
    return FALSE;
  memcpy (&length, prefix, PREFIX);
  length = GUINT64_FROM_LE (length);
  if (length > RLX_SAFETENSORS_MAX_HEADER)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_LIMIT, 0,
                             "the length of the header is %" G_GUINT64_FORMAT "; the limit is %" G_GUINT64_FORMAT, length, RLX_SAFETENSORS_MAX_HEADER);
  if (length > size - PREFIX)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_TRUNCATED, 0,
                             "the length of the header is %" G_GUINT64_FORMAT ", but only %" G_GUINT64_FORMAT " bytes follow", length, size - PREFIX);
  if (length < 2)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, 0,
                             "the length of the header is %" G_GUINT64_FORMAT ", too short for an object", length);
  text = rlx_source_read_text (source, "the header", PREFIX, (gsize) length, cancellable, error);
  if (text == NULL)
    return FALSE;

  json = (RlxJson) { text, text, text + length, PREFIX };
  if (text[0] != '{')
    return rlx_json_fail (&json, error, "the header does not begin with “{”");
  json.p++;
  for (;;)
    {
      if (!rlx_json_next (&json, '}', &first, &more, error))
        return FALSE;
      if (!more)
        break;
      if (!rlx_json_string (&json, name, error) || !rlx_json_expect (&json, ':', error))
        return FALSE;
      if (strcmp (name->str, "__metadata__") == 0)
        {
          if (metadata != NULL)
            return rlx_json_fail (&json, error, "“__metadata__” comes twice");
          metadata = json.p;
          if (!parse_metadata (&json, manifest, FALSE, name, word, error))
            return FALSE;
        }
      else if (!parse_tensor (&json, manifest, name->str, name->len, PREFIX + length, size - PREFIX - length, word, error))
        return FALSE;
    }
  if (!rlx_json_end (&json, error) ||
      !rlx_manifest_check_places (manifest, TRUE, PREFIX + length, size, error) ||
      !rlx_manifest_seal (manifest, error))
    return FALSE;
  json.p = metadata;
  return metadata == NULL || parse_metadata (&json, manifest, TRUE, name, word, error);
}
