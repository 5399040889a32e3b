/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "formats/rlx-npy-private.h"

#include "rlx-tensor-private.h"
#include "util/rlx-checked-private.h"
#include "util/rlx-data-type-private.h"
#include "util/rlx-debug-private.h"

#include <string.h>

/* ---- the prefix --------------------------------------------------------- */

gboolean
rlx_npy_check_present (const char  *what,
                       guint64      needed,
                       guint64      present,
                       GError     **error)
{
  if (present >= needed)
    return TRUE;

  g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_TRUNCATED,
               "The file ends in %s: %" G_GUINT64_FORMAT " bytes are needed, %" G_GUINT64_FORMAT " are there",
               what, needed, present);

  return FALSE;
}

gboolean
rlx_npy_parse_prefix (const guint8  *data,
                      gsize          length,
                      gsize         *prefix_length,
                      gsize         *text_length,
                      GError       **error)
{
  guint8 major, minor;
  guint64 n;

  /* What is there has to be right even when too little is there: a text file of
   * three bytes is not a truncated .npy file. */
  if (memcmp (data, RLX_NPY_MAGIC, MIN (length, RLX_NPY_MAGIC_LENGTH)) != 0)
    {
      g_set_error_literal (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_PARSE,
                           "The file does not start with the magic of .npy files");
      return FALSE;
    }

  if (!rlx_npy_check_present ("the prefix", RLX_NPY_MIN_PREFIX, length, error))
    return FALSE;

  major = data[6];
  minor = data[7];

  if (major < 1 || major > 3 || minor != 0)
    {
      g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_UNSUPPORTED,
                   "Version %u.%u of the .npy format is not one of 1.0, 2.0 and 3.0",
                   major, minor);
      return FALSE;
    }

  if (major == 1)
    {
      *prefix_length = RLX_NPY_MIN_PREFIX;
      n = (guint64) data[8] | (guint64) data[9] << 8;
    }
  else
    {
      if (!rlx_npy_check_present ("the prefix", RLX_NPY_MAX_PREFIX, length, error))
        return FALSE;

      *prefix_length = RLX_NPY_MAX_PREFIX;
      n = (guint64) data[8] | (guint64) data[9] << 8 |
          (guint64) data[10] << 16 | (guint64) data[11] << 24;
    }

  if (n > RLX_NPY_MAX_TEXT)
    {
      g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_LIMIT,
                   "A header of %" G_GUINT64_FORMAT " bytes is beyond the limit of %d",
                   n, RLX_NPY_MAX_TEXT);
      return FALSE;
    }

  *text_length = (gsize) n;

  return TRUE;
}

/* ---- the text ----------------------------------------------------------- */

/* Where the reader is in the dictionary. The text is a Python literal, of which
 * only what numpy writes is understood:
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
} Cursor;

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

  g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_PARSE,
               "At byte %" G_GSIZE_FORMAT " of the header's text: %s",
               (gsize) (cursor->p - cursor->start), message);

  return FALSE;
}

static void
skip_spaces (Cursor *cursor)
{
  while (cursor->p < cursor->end && *cursor->p == ' ')
    cursor->p++;
}

/* The next character that is not a space, or NUL at the end. A NUL in the text
 * is no token either, so the two need not be told apart. */
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
parse_bool (Cursor    *cursor,
            gboolean  *value,
            GError   **error)
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

      g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_LIMIT,
                   "The number %s in “shape” is beyond the limit of %" G_GINT64_FORMAT,
                   quoted, G_MAXINT64);
      return FALSE;
    }

  /* Python 2 wrote long integers so. */
  if (cursor->p < cursor->end && *cursor->p == 'L')
    cursor->p++;

  *value = result;

  return TRUE;
}

static gboolean
parse_shape (Cursor        *cursor,
             RlxNpyHeader  *header,
             GError       **error)
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
        {
          g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_LIMIT,
                       "The array in the file has more dimensions than the limit of %d",
                       RLX_MAX_DIMS);
          return FALSE;
        }

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
parse_descr (Cursor       *cursor,
             RlxDataType  *data_type,
             GError      **error)
{
  g_autofree char *quoted = NULL;
  const char *descr;
  const char *code;
  gsize length;
  char order = '=';
  char token = peek_token (cursor);

  if (token == '[' || token == '(' || token == '{')
    {
      g_set_error_literal (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_UNSUPPORTED,
                           "The array in the file is of a structured type, which is not supported");
      return FALSE;
    }

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

  for (guint i = 0; i < RLX_N_DATA_TYPES; i++)
    {
      const char *npy = rlx_data_types[i].npy;

      if (npy == NULL || length != strlen (npy) || memcmp (code, npy, length) != 0)
        continue;

      /* '=' and '|' mean that there is nothing to say about the order. */
      if (order != RLX_NPY_NATIVE_ORDER && order != '=' && order != '|' && rlx_data_types[i].bits > 8)
        {
          g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_UNSUPPORTED,
                       "The array in the file is of type %s, which is not in the byte order of this computer",
                       quoted);
          return FALSE;
        }

      *data_type = (RlxDataType) i;
      return TRUE;
    }

  g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_UNSUPPORTED,
               "The array in the file is of type %s, which is not supported", quoted);

  return FALSE;
}

static gboolean
parse_entry (Cursor        *cursor,
             RlxNpyHeader  *header,
             guint         *seen,
             GError       **error)
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
    return parse_descr (cursor, &header->data_type, error);
  else if (i == 1)
    return parse_bool (cursor, &header->fortran_order, error);
  else
    return parse_shape (cursor, header, error);
}

gboolean
rlx_npy_parse_text (const char    *text,
                    gsize          length,
                    RlxNpyHeader  *header,
                    GError       **error)
{
  g_autoptr (GError) local_error = NULL;
  Cursor cursor = { text, text, text + length };
  guint seen = 0;

  memset (header, 0, sizeof *header);

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

  /* The same rules as for any shape, reported as what they are here: something
   * that is wrong with a file. */
  if (!rlx_shape_n_bytes (header->data_type, header->shape, header->n_dims,
                          &header->n_elements, &header->n_bytes, &local_error))
    {
      g_set_error_literal (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_LIMIT, local_error->message);
      return FALSE;
    }

  return TRUE;
}
