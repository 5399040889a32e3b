/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "formats/rlx-npy-private.h"

#include <string.h>

#include "util/rlx-checked-private.h"
#include "util/rlx-debug-private.h"

/* Like NumPy, align the elements to this. */
#define ALIGNMENT 64

/* The magic, the version and a length of two bytes. */
#define MIN_PREFIX 10
/* The same with a length of four bytes. */
#define MAX_PREFIX 12

typedef struct
{
  guint storage;
  gboolean fortran_order;
  guint n_dims;
  gint64 shape[RLX_MAX_DIMS];
} Header;

/* ---- the text ----------------------------------------------------------- */

/* The position in the dictionary. The text is a Python literal, of which only
 * the subset that NumPy writes is accepted:
 *
 *   header := '{' entry (',' entry)* ','? '}' ' '* '\n'
 *   entry  := "'descr'" ':' string | "'fortran_order'" ':' bool | "'shape'" ':' tuple
 *   tuple  := '(' ')' | '(' int ',' ')' | '(' int (',' int)+ ','? ')'
 *
 * with spaces between the tokens, each entry exactly once, and strings in
 * either kind of quotes, without escapes.
 */
typedef struct
{
  const char *start;
  const char *p;
  const char *end;
  guint64 base;              /* where the text begins in the file */
} Cursor;

static guint64
get_place (const Cursor *cursor)
{
  return cursor->base + (guint64) (cursor->p - cursor->start);
}

G_GNUC_PRINTF (3, 4)
static gboolean
parse_error (Cursor      *cursor,
             GError     **error,
             const char  *format,
             ...)
{
  g_autofree char *message = NULL;
  va_list args;

  va_start (args, format);
  message = g_strdup_vprintf (format, args);
  va_end (args);

  return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, get_place (cursor), "%s", message);
}

static void
skip_spaces (Cursor *cursor)
{
  while (cursor->p < cursor->end && *cursor->p == ' ')
    cursor->p++;
}

/* The next character that is not a space, or NUL at the end. A NUL in the text is not a valid token either, so both are treated
 * alike. */
static char
peek_token (Cursor *cursor)
{
  skip_spaces (cursor);

  return cursor->p < cursor->end ? *cursor->p : '\0';
}

static gboolean
accept_token (Cursor *cursor,
              char    token)
{
  if (peek_token (cursor) != token)
    return FALSE;

  cursor->p++;

  return TRUE;
}

static gboolean
expect_token (Cursor  *cursor,
              char     token,
              GError **error)
{
  if (accept_token (cursor, token))
    return TRUE;

  return parse_error (cursor, error, "“%c” is missing", token);
}

static gboolean
parse_string (Cursor      *cursor,
              const char **string,
              gsize       *length,
              GError     **error)
{
  char quote = peek_token (cursor);
  const char *p;

  if (quote != '\'' && quote != '"')
    return parse_error (cursor, error, "a string is missing");

  for (p = cursor->p + 1; p < cursor->end && *p != quote; p++)
    {
      if (*p == '\\' || (guchar) *p < ' ')
        {
          cursor->p = p;
          return parse_error (cursor, error, "a string has the character 0x%02x, which is not allowed", (guchar) *p);
        }
    }

  if (p == cursor->end)
    return parse_error (cursor, error, "a string does not end");

  *string = cursor->p + 1;
  *length = (gsize) (p - *string);
  cursor->p = p + 1;

  return TRUE;
}

static gboolean
parse_word (Cursor     *cursor,
            const char *word)
{
  gsize length = strlen (word);

  if ((gsize) (cursor->end - cursor->p) < length || memcmp (cursor->p, word, length) != 0)
    return FALSE;

  cursor->p += length;

  return TRUE;
}

static gboolean
parse_bool (Cursor   *cursor,
            gboolean *value,
            GError  **error)
{
  skip_spaces (cursor);

  if (parse_word (cursor, "True"))
    *value = TRUE;
  else if (parse_word (cursor, "False"))
    *value = FALSE;
  else
    return parse_error (cursor, error, "“fortran_order” is neither True nor False");

  return TRUE;
}

static gboolean
parse_int (Cursor  *cursor,
           gint64  *value,
           GError **error)
{
  const char *start;
  gboolean fits = TRUE;
  gint64 result = 0;

  skip_spaces (cursor);
  start = cursor->p;

  for (; cursor->p < cursor->end && g_ascii_isdigit (*cursor->p); cursor->p++)
    {
      fits = fits &&
             rlx_mul_i64 (result, 10, &result) &&
             rlx_add_i64 (result, *cursor->p - '0', &result);
    }

  if (cursor->p == start)
    return parse_error (cursor, error, "a number is missing in “shape”");
  if (*start == '0' && cursor->p - start > 1)
    return parse_error (cursor, error, "a number in “shape” starts with 0");

  if (!fits)
    {
      g_autofree char *quoted = rlx_quote_text (start, cursor->p - start);

      return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_LIMIT, get_place (cursor),
                               "the number %s in “shape” is beyond the limit of %" G_GINT64_FORMAT, quoted, G_MAXINT64);
    }

  /* Python 2 wrote long integers like this. */
  if (cursor->p < cursor->end && *cursor->p == 'L')
    cursor->p++;

  *value = result;

  return TRUE;
}

static gboolean
parse_shape (Cursor  *cursor,
             Header  *header,
             GError **error)
{
  guint n = 0;
  gboolean comma = FALSE;

  if (!expect_token (cursor, '(', error))
    return FALSE;

  while (!accept_token (cursor, ')'))
    {
      if (n > 0 && !comma)
        return parse_error (cursor, error, "“,” is missing in “shape”");

      if (n == RLX_MAX_DIMS)
        return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_LIMIT, get_place (cursor),
                                 "the array has more dimensions than the limit of %d", RLX_MAX_DIMS);

      if (!parse_int (cursor, &header->shape[n], error))
        return FALSE;
      n++;

      comma = accept_token (cursor, ',');
    }

  /* "(3)" is a number in Python, not a tuple. */
  if (n == 1 && !comma)
    return parse_error (cursor, error, "“shape” is not a tuple");

  header->n_dims = n;

  return TRUE;
}

static gboolean
parse_descr (Cursor  *cursor,
             guint   *storage,
             GError **error)
{
  g_autofree char *quoted = NULL;
  const char *descr, *code;
  gsize length;
  guint numbers, bytes;
  char order = '=', token = peek_token (cursor);
  guint64 at = get_place (cursor);
  int found;

  if (token == '[' || token == '(' || token == '{')
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_UNSUPPORTED, at,
                             "the array is of a structured type, which is not supported");
  if (!parse_string (cursor, &descr, &length, error))
    return FALSE;

  quoted = rlx_quote_text (descr, (gssize) length);
  code = descr;
  if (length > 0 && strchr ("<>=|", *code) != NULL)
    {
      order = *code++;
      length--;
    }
  if (length == 0 || !(g_ascii_isalpha (*code) || *code == '?'))
    return parse_error (cursor, error, "“descr” is %s, which is not a data type", quoted);

  found = rlx_storage_find_npy (code, length);
  if (found < 0)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_UNSUPPORTED, at, "the array is of type %s, which is not supported", quoted);
  *storage = (guint) found;
  rlx_storage_get_block (rlx_storage_get (*storage), &numbers, &bytes);
  /* '=' and '|' mean native or irrelevant byte order. */
  if (order != RLX_NPY_NATIVE_ORDER && order != '=' && order != '|' && bytes > 1)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_UNSUPPORTED, at,
                             "the array is of type %s, which is not in the byte order of this computer", quoted);
  return TRUE;
}

static gboolean
parse_entry (Cursor  *cursor,
             Header  *header,
             guint   *seen,
             GError **error)
{
  static const char * const keys[] = { "descr", "fortran_order", "shape" };
  const char *key;
  gsize length;
  guint i;

  if (!parse_string (cursor, &key, &length, error))
    return FALSE;

  for (i = 0; i < G_N_ELEMENTS (keys); i++)
    if (length == strlen (keys[i]) && memcmp (key, keys[i], length) == 0)
      break;

  if (i == G_N_ELEMENTS (keys))
    {
      g_autofree char *quoted = rlx_quote_text (key, (gssize) length);

      return parse_error (cursor, error, "there is no key %s", quoted);
    }

  if ((*seen & 1u << i) != 0)
    return parse_error (cursor, error, "the key “%s” comes twice", keys[i]);
  *seen |= 1u << i;

  if (!expect_token (cursor, ':', error))
    return FALSE;

  if (i == 0)
    return parse_descr (cursor, &header->storage, error);
  else if (i == 1)
    return parse_bool (cursor, &header->fortran_order, error);
  else
    return parse_shape (cursor, header, error);
}

static gboolean
parse_text (const char *text,
            gsize       length,
            guint64     base,
            Header     *header,
            GError    **error)
{
  Cursor cursor = { text, text, text + length, base };
  guint seen = 0;

  if (!expect_token (&cursor, '{', error))
    return FALSE;

  while (!accept_token (&cursor, '}'))
    {
      if (!parse_entry (&cursor, header, &seen, error))
        return FALSE;

      if (!accept_token (&cursor, ',') && peek_token (&cursor) != '}')
        return parse_error (&cursor, error, "“,” or “}” is missing");
    }

  if (seen != 7)
    return parse_error (&cursor, error, "one of “descr”, “fortran_order” and “shape” is missing");

  if (!accept_token (&cursor, '\n') || cursor.p != cursor.end)
    return parse_error (&cursor, error, "there is something other than spaces and a newline after the “}”");

  return TRUE;
}

/* ---- the array -------------------------------------------------------------- */

/* FALSE if fewer than @needed bytes are left. */
static gboolean
check_left (RlxStream  *stream,
            const char *what,
            guint64     needed,
            guint64     at,
            GError    **error)
{
  guint64 left = rlx_stream_get_left (stream);

  return left >= needed ||
         rlx_weights_fail (error, RLX_WEIGHTS_ERROR_TRUNCATED, at,
                           "the array ends in %s: %" G_GUINT64_FORMAT " bytes are needed, %" G_GUINT64_FORMAT " are there", what, needed, left);
}

/* Finds the lengths of the prefix and of the text. */
static gboolean
read_prefix (RlxStream    *stream,
             gsize        *prefix_length,
             gsize        *text_length,
             GCancellable *cancellable,
             GError      **error)
{
  guint8 data[MAX_PREFIX] = { 0 };
  gsize n = (gsize) MIN (rlx_stream_get_left (stream), MIN_PREFIX);
  guint32 length;

  if (!rlx_stream_read (stream, "the prefix", data, n, cancellable, error))
    return FALSE;
  /* Check what is there even if it is too short: a text file of three bytes is not a truncated .npy file. */
  if (memcmp (data, RLX_NPY_MAGIC, MIN (n, RLX_NPY_MAGIC_LENGTH)) != 0)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, 0, "the magic of .npy files is missing");
  if (n < MIN_PREFIX)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_TRUNCATED, n,
                             "the array ends in the prefix: %d bytes are needed, %" G_GSIZE_FORMAT " are there", MIN_PREFIX, n);
  if (data[6] < 1 || data[6] > 3 || data[7] != 0)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_UNSUPPORTED, 6,
                             "version %u.%u of the .npy format is not one of 1.0, 2.0 and 3.0", data[6], data[7]);

  *prefix_length = data[6] == 1 ? MIN_PREFIX : MAX_PREFIX;
  if (!check_left (stream, "the prefix", *prefix_length - n, n, error) ||
      !rlx_stream_read (stream, "the prefix", data + n, *prefix_length - n, cancellable, error))
    return FALSE;
  memcpy (&length, data + 8, 4);
  length = GUINT32_FROM_LE (length);
  if (length > RLX_NPY_MAX_TEXT)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_LIMIT, 8, "a header of %u bytes is beyond the limit of %d", length, RLX_NPY_MAX_TEXT);
  *text_length = length;
  return check_left (stream, "the header", length, *prefix_length, error);
}

gboolean
rlx_npy_add_array (RlxManifest     *manifest,
                   const char      *name,
                   const RlxExtent *extent,
                   GCancellable    *cancellable,
                   GError         **error)
{
  g_autoptr(RlxStream) stream = rlx_stream_new (g_ptr_array_index (manifest->sources, 0), extent);
  RlxMember member = { .extent = *extent };
  g_autofree char *text = NULL;
  gsize prefix_length = 0, text_length = 0;
  Header header = { 0 };
  guint64 length, start, left;
  RlxRecord *record;

  if (!read_prefix (stream, &prefix_length, &text_length, cancellable, error))
    return FALSE;
  text = g_malloc (text_length + 1);
  start = prefix_length + text_length;
  if (!rlx_stream_read (stream, "the header", text, text_length, cancellable, error) ||
      !parse_text (text, text_length, prefix_length, &header, error))
    return FALSE;
  record = rlx_manifest_add (manifest, prefix_length, name, strlen (name), header.storage, header.shape, header.n_dims, &length, error);
  left = rlx_stream_get_left (stream);
  if (record == NULL || !check_left (stream, "the elements", length, start, error))
    return FALSE;
  if (left > length)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, start + length,
                             "the elements take %" G_GUINT64_FORMAT " bytes, but %" G_GUINT64_FORMAT " follow the header", length, left);
  record->offset = extent->offset + (extent->deflated ? 0 : start);
  record->length = length;
  member.fortran_order = header.fortran_order && header.n_dims > 1;
  g_array_append_val (manifest->members, member);
  return TRUE;
}

gboolean
rlx_npy_read (RlxSource    *source,
              const char   *name,
              RlxManifest  *manifest,
              GCancellable *cancellable,
              GError      **error)
{
  guint64 size = rlx_source_get_size (source);
  const RlxExtent extent = { .stored = size, .size = size };

  return rlx_npy_add_array (manifest, name, &extent, cancellable, error) && rlx_manifest_seal (manifest, error);
}

/* ---- writing --------------------------------------------------------------------- */

GByteArray *
rlx_npy_make_header (guint         storage,
                     const gint64 *shape,
                     gsize         n_dims)
{
  g_autoptr(GString) text = g_string_new (NULL);
  GByteArray *header = g_byte_array_new ();
  guint numbers, bytes;
  gsize padding;
  guint8 length[2];

  rlx_storage_get_block (rlx_storage_get (storage), &numbers, &bytes);
  g_string_append_printf (text, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                          bytes > 1 ? RLX_NPY_NATIVE_ORDER : '|', rlx_storage_get (storage)->npy);
  for (gsize i = 0; i < n_dims; i++)
    g_string_append_printf (text, "%s%" G_GINT64_FORMAT, i > 0 ? ", " : "", shape[i]);
  g_string_append (text, n_dims == 1 ? ",), }" : "), }");

  /* At most a few hundred bytes for eight dimensions, so neither this nor the length can overflow. */
  padding = (ALIGNMENT - (MIN_PREFIX + text->len + 1) % ALIGNMENT) % ALIGNMENT;
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
