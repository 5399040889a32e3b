/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * GGUF files, version 3.
 */
#include "config.h"

#include "formats/rlx-write-private.h"

#include <string.h>

#include "formats/rlx-gguf-private.h"
#include "util/rlx-checked-private.h"
#include "util/rlx-debug-private.h"

static void
put (GByteArray *bytes,
     guint64     value,
     guint       size)
{
  value = GUINT64_TO_LE (value);
  g_byte_array_append (bytes, (const guint8 *) &value, size);
}

static void
put_string (GByteArray *bytes,
            const char *text,
            gsize       length)
{
  put (bytes, length, 8);
  g_byte_array_append (bytes, (const guint8 *) text, (guint) length);
}

/* ---- metadata ------------------------------------------------------------------------ */

/* Readers expect 32-bit floats in these files, so doubles are written as such if that is exact. */
static gboolean
is_single (GVariant *value)
{
  if (g_variant_is_of_type (value, G_VARIANT_TYPE_DOUBLE))
    {
      double number = g_variant_get_double (value);

      return !(number == number) || (double) (float) number == number;
    }
  for (gsize i = 0; i < g_variant_n_children (value); i++)
    {
      g_autoptr(GVariant) child = g_variant_get_child_value (value, i);

      if (!is_single (child))
        return FALSE;
    }
  return TRUE;
}

/* The type of a value that is not an array, or of an array's elements, where byte arrays are strings that are not UTF-8; -1 for
 * others. */
static int
find_type (const char *type,
           gboolean    single)
{
  static const struct
  {
    const char *variant;
    int type;
  } types[] = {
    { "y", RLX_GGUF_U8 }, { "n", RLX_GGUF_I16 }, { "q", RLX_GGUF_U16 }, { "i", RLX_GGUF_I32 }, { "u", RLX_GGUF_U32 }, { "b", RLX_GGUF_BOOL },
    { "s", RLX_GGUF_STRING }, { "ay", RLX_GGUF_STRING }, { "x", RLX_GGUF_I64 }, { "t", RLX_GGUF_U64 }, { "d", RLX_GGUF_F64 },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (types); i++)
    if (strcmp (types[i].variant, type) == 0)
      return types[i].type == RLX_GGUF_F64 && single ? RLX_GGUF_F32 : types[i].type;
  return -1;
}

static void
put_value (GByteArray *bytes,
           GVariant   *value,
           int         type)
{
  gconstpointer data;
  gsize length;
  guint32 bits;
  float single;

  switch (type)
    {
    case RLX_GGUF_STRING:
      if (g_variant_is_of_type (value, G_VARIANT_TYPE_STRING))
        data = g_variant_get_string (value, &length);
      else
        data = g_variant_get_fixed_array (value, &length, 1);
      put_string (bytes, data, length);
      return;
    case RLX_GGUF_F32:
      single = (float) g_variant_get_double (value);
      memcpy (&bits, &single, sizeof single);
      put (bytes, bits, 4);
      return;
    default:
      data = g_variant_get_data (value);
      length = g_variant_get_size (value);
#if G_BYTE_ORDER == G_LITTLE_ENDIAN
      g_byte_array_append (bytes, data, (guint) length);
#else
      for (gsize i = length; i-- > 0;)
        g_byte_array_append (bytes, (const guint8 *) data + i, 1);
#endif
    }
}

static gboolean
put_pair (GByteArray *bytes,
          const char *key,
          GVariant   *value,
          GError    **error)
{
  const char *text = g_variant_get_type_string (value);
  gboolean is_array = text[0] == 'a', is_float = strcmp (text, "d") == 0 || strcmp (text, "ad") == 0;
  int type = find_type (text + is_array, is_float && is_single (value));

  if (type < 0 || key[0] == '\0' || strlen (key) > RLX_GGUF_MAX_KEY)
    {
      g_autofree char *quoted = rlx_quote_text (key, -1);

      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                   type < 0 ? "%s is of type %s, which GGUF files do not have" : "the key %s is empty or too long", quoted, text);
      return FALSE;
    }
  put_string (bytes, key, strlen (key));
  put (bytes, is_array ? RLX_GGUF_ARRAY : (guint64) type, 4);
  if (!is_array)
    {
      put_value (bytes, value, type);
      return TRUE;
    }
  put (bytes, (guint64) type, 4);
  put (bytes, g_variant_n_children (value), 8);
  for (gsize i = 0; i < g_variant_n_children (value); i++)
    {
      g_autoptr(GVariant) child = g_variant_get_child_value (value, i);

      put_value (bytes, child, type);
    }
  return TRUE;
}

/* Skips the alignment, which the writer chooses. */
static gboolean
put_pairs (GByteArray *bytes,
           GVariant   *metadata,
           guint64    *n,
           GError    **error)
{
  gsize total = metadata != NULL ? g_variant_n_children (metadata) : 0;

  *n = 0;
  for (gsize i = 0; i < total; i++)
    {
      g_autoptr(GVariant) pair = g_variant_get_child_value (metadata, i), value = NULL;
      const char *key;

      g_variant_get (pair, "{&sv}", &key, &value);
      if (strcmp (key, RLX_GGUF_ALIGNMENT_KEY) == 0)
        continue;
      if (!put_pair (bytes, key, value, error))
        return FALSE;
      (*n)++;
    }
  return TRUE;
}

/* ---- tensors ------------------------------------------------------------------------- */

static gboolean
put_tensor (GByteArray    *bytes,
            const RlxItem *item,
            guint64        offset,
            GError       **error)
{
  gsize length = strlen (item->name);
  guint n_dims = MAX (item->n_dims, 1);

  if (length > RLX_GGUF_MAX_NAME || item->n_dims > RLX_GGUF_MAX_DIMS)
    {
      g_autofree char *quoted = rlx_quote_text (item->name, -1);

      g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_LIMIT,
                   "%s has a name of %" G_GSIZE_FORMAT " bytes and %u dimensions; the limits of GGUF files are %d and %d",
                   quoted, length, item->n_dims, RLX_GGUF_MAX_NAME, RLX_GGUF_MAX_DIMS);
      return FALSE;
    }
  put_string (bytes, item->name, length);
  put (bytes, n_dims, 4);
  /* Innermost dimension first; a scalar is written as a vector. */
  for (guint i = n_dims; i-- > 0;)
    put (bytes, i < item->n_dims ? (guint64) item->shape[i] : 1, 8);
  put (bytes, (guint64) rlx_storage_get (item->storage)->gguf, 4);
  put (bytes, offset, 8);
  return TRUE;
}

static gboolean
pad (RlxSink *sink,
     GError **error)
{
  static const guint8 zeros[RLX_GGUF_ALIGNMENT];

  return rlx_sink_write (sink, zeros, (gsize) (-rlx_sink_get_position (sink) % RLX_GGUF_ALIGNMENT), error);
}

gboolean
rlx_gguf_write (RlxSink       *sink,
                const RlxItem *items,
                gsize          n_items,
                GVariant      *metadata,
                GCancellable  *cancellable,
                GError       **error)
{
  g_autoptr(GByteArray) head = g_byte_array_new (), pairs = g_byte_array_new (), tensors = g_byte_array_new ();
  guint64 n_pairs, offset = 0;

  /* Far below the limit of a GByteArray. */
  if (metadata != NULL && g_variant_get_size (metadata) > RLX_GGUF_MAX_METADATA)
    {
      g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_LIMIT, "the metadata has %" G_GSIZE_FORMAT " bytes; the limit is %" G_GUINT64_FORMAT,
                   g_variant_get_size (metadata), RLX_GGUF_MAX_METADATA);
      return FALSE;
    }
  if (!put_pairs (pairs, metadata, &n_pairs, error))
    return FALSE;
  for (gsize i = 0; i < n_items; i++)
    {
      if (!put_tensor (tensors, &items[i], offset, error))
        return FALSE;
      offset += items[i].size;
      offset += -offset % RLX_GGUF_ALIGNMENT;
    }
  g_byte_array_append (head, (const guint8 *) RLX_GGUF_MAGIC, 4);
  put (head, RLX_GGUF_VERSION, 4);
  put (head, n_items, 8);
  put (head, n_pairs, 8);
  if (head->len + pairs->len + tensors->len > RLX_GGUF_MAX_METADATA)
    {
      g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_LIMIT, "the header has %u bytes; the limit is %" G_GUINT64_FORMAT,
                   head->len + pairs->len + tensors->len, RLX_GGUF_MAX_METADATA);
      return FALSE;
    }
  if (!rlx_sink_write (sink, head->data, head->len, error) || !rlx_sink_write (sink, pairs->data, pairs->len, error) ||
      !rlx_sink_write (sink, tensors->data, tensors->len, error) || !pad (sink, error))
    return FALSE;
  for (gsize i = 0; i < n_items; i++)
    if (!rlx_item_copy (&items[i], sink, cancellable, error) || !pad (sink, error))
      return FALSE;
  return TRUE;
}
