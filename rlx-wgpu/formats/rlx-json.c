/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "formats/rlx-json-private.h"

#include <string.h>

#include "formats/rlx-manifest-private.h"
#include "util/rlx-checked-private.h"
#include "util/rlx-debug-private.h"

#define MAX_DEPTH 32

guint64
rlx_json_get_place (const RlxJson *json)
{
  return json->base + (guint64) (json->p - json->start);
}

gboolean
rlx_json_fail (const RlxJson *json,
               GError       **error,
               const char    *format,
               ...)
{
  g_autofree char *message = NULL;
  va_list args;

  va_start (args, format);
  message = g_strdup_vprintf (format, args);
  va_end (args);
  return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, rlx_json_get_place (json), "%s", message);
}

char
rlx_json_peek (RlxJson *json)
{
  while (json->p < json->end && (*json->p == ' ' || *json->p == '\t' || *json->p == '\n' || *json->p == '\r'))
    json->p++;
  return json->p < json->end ? *json->p : '\0';
}

gboolean
rlx_json_accept (RlxJson *json,
                 char     token)
{
  if (rlx_json_peek (json) != token)
    return FALSE;
  json->p++;
  return TRUE;
}

/* Quotes what was found instead, for an error message. */
static gboolean
unexpected (RlxJson    *json,
            const char *wanted,
            GError    **error)
{
  g_autofree char *found = NULL;

  rlx_json_peek (json);
  if (json->p == json->end)
    return rlx_json_fail (json, error, "%s is missing at the end of the JSON text", wanted);
  found = rlx_quote_text (json->p, MIN (16, json->end - json->p));
  return rlx_json_fail (json, error, "%s is missing before %s", wanted, found);
}

gboolean
rlx_json_expect (RlxJson *json,
                 char     token,
                 GError **error)
{
  const char wanted[] = { '\'', token, '\'', '\0' };

  return rlx_json_accept (json, token) || unexpected (json, wanted, error);
}

gboolean
rlx_json_next (RlxJson  *json,
               char      token,
               gboolean *first,
               gboolean *more,
               GError  **error)
{
  *more = !rlx_json_accept (json, token);
  if (*more && !*first && !rlx_json_expect (json, ',', error))
    return FALSE;
  *first = FALSE;
  return TRUE;
}

/* The four digits after "\u". */
static gboolean
parse_unit (RlxJson  *json,
            gunichar *unit,
            GError  **error)
{
  *unit = 0;
  if (json->end - json->p < 4)
    return rlx_json_fail (json, error, "an escape in a string does not end");
  for (guint i = 0; i < 4; i++, json->p++)
    {
      if (!g_ascii_isxdigit (*json->p))
        return rlx_json_fail (json, error, "an escape in a string has no four hexadecimal digits");
      *unit = *unit << 4 | (gunichar) g_ascii_xdigit_value (*json->p);
    }
  return TRUE;
}

static gboolean
parse_escape (RlxJson *json,
              GString *text,
              GError **error)
{
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  const char *found;
  gunichar unit, low;

  if (json->p == json->end)
    return rlx_json_fail (json, error, "a string does not end");
  if (*json->p != 'u')
    {
      found = *json->p != '\0' ? strchr (from, *json->p) : NULL;
      if (found == NULL)
        return rlx_json_fail (json, error, "a string has an escape that JSON does not have");
      json->p++;
      g_string_append_c (text, to[found - from]);
      return TRUE;
    }
  json->p++;
  if (!parse_unit (json, &unit, error))
    return FALSE;
  if (unit == 0)
    return rlx_json_fail (json, error, "a string has the character U+0000");
  if (unit >= 0xd800 && unit < 0xdc00 && json->end - json->p >= 2 && json->p[0] == '\\' && json->p[1] == 'u')
    {
      json->p += 2;
      if (!parse_unit (json, &low, error))
        return FALSE;
      if (low < 0xdc00 || low > 0xdfff)
        return rlx_json_fail (json, error, "a string has half of a surrogate pair");
      unit = 0x10000 + ((unit & 0x3ff) << 10) + (low & 0x3ff);
    }
  else if (unit >= 0xd800 && unit <= 0xdfff)
    return rlx_json_fail (json, error, "a string has half of a surrogate pair");
  g_string_append_unichar (text, unit);
  return TRUE;
}

gboolean
rlx_json_string (RlxJson *json,
                 GString *text,
                 GError **error)
{
  const char *start;

  g_string_truncate (text, 0);
  if (rlx_json_peek (json) != '"')
    return unexpected (json, "a string", error);
  json->p++;
  for (;;)
    {
      start = json->p;
      while (json->p < json->end && *json->p != '"' && *json->p != '\\' && (guchar) *json->p >= ' ')
        json->p++;
      if (!g_utf8_validate_len (start, (gsize) (json->p - start), NULL))
        return rlx_json_fail (json, error, "a string is not UTF-8");
      g_string_append_len (text, start, json->p - start);
      if (json->p == json->end)
        return rlx_json_fail (json, error, "a string does not end");
      if ((guchar) *json->p < ' ')
        return rlx_json_fail (json, error, "a string has the character 0x%02x, which is not allowed", (guchar) *json->p);
      if (*json->p++ == '"')
        return TRUE;
      if (!parse_escape (json, text, error))
        return FALSE;
    }
}

gboolean
rlx_json_unsigned (RlxJson    *json,
                   const char *field,
                   guint64    *value,
                   GError    **error)
{
  const char *start;
  gboolean fits = TRUE;
  guint64 result = 0;

  rlx_json_peek (json);
  start = json->p;
  for (; json->p < json->end && g_ascii_isdigit (*json->p); json->p++)
    fits = fits && rlx_mul_u64 (result, 10, &result) && rlx_add_u64 (result, (guint64) (*json->p - '0'), &result);
  if (json->p == start || (*start == '0' && json->p - start > 1) ||
      (json->p < json->end && (*json->p == '.' || *json->p == 'e' || *json->p == 'E')))
    {
      g_autofree char *found = NULL;

      json->p = start;
      while (json->p < json->end && strchr (",]} \n", *json->p) == NULL)
        json->p++;
      found = rlx_quote_text (start, json->p - start);
      json->p = start;
      return rlx_json_fail (json, error, "a number in “%s” is %s, not a whole number from 0 on", field, found);
    }
  if (!fits)
    {
      g_autofree char *found = rlx_quote_text (start, json->p - start);

      return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_LIMIT, json->base + (guint64) (start - json->start),
                               "a number in “%s” is %s, beyond the limit of %" G_GUINT64_FORMAT, field, found, G_MAXUINT64);
    }
  *value = result;
  return TRUE;
}

/* A number, true, false or null. */
static gboolean
skip_plain (RlxJson *json,
            GError **error)
{
  static const char *const words[] = { "true", "false", "null" };
  const char *p = json->p;

  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    if ((gsize) (json->end - p) >= strlen (words[i]) && memcmp (p, words[i], strlen (words[i])) == 0)
      {
        json->p += strlen (words[i]);
        return TRUE;
      }
  while (p < json->end && *p != '\0' && (g_ascii_isdigit (*p) || strchr ("+-.eE", *p) != NULL))
    p++;
  if (p == json->p)
    return unexpected (json, "a value", error);
  json->p = p;
  return TRUE;
}

gboolean
rlx_json_skip (RlxJson *json,
               GError **error)
{
  g_autoptr(GString) text = g_string_new (NULL);
  char close[MAX_DEPTH];
  gboolean first = TRUE, more;
  guint depth = 0;

  do
    {
      if (depth > 0)
        {
          if (!rlx_json_next (json, close[depth - 1], &first, &more, error))
            return FALSE;
          if (!more)
            {
              depth--;
              continue;
            }
          if (close[depth - 1] == '}' && (!rlx_json_string (json, text, error) || !rlx_json_expect (json, ':', error)))
            return FALSE;
        }
      switch (rlx_json_peek (json))
        {
        case '{':
        case '[':
          if (depth == MAX_DEPTH)
            return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_LIMIT, rlx_json_get_place (json),
                                     "values are nested deeper than the limit of %d", MAX_DEPTH);
          close[depth++] = *json->p == '{' ? '}' : ']';
          json->p++;
          first = TRUE;
          break;
        case '"':
          if (!rlx_json_string (json, text, error))
            return FALSE;
          break;
        default:
          if (!skip_plain (json, error))
            return FALSE;
        }
    }
  while (depth > 0);
  return TRUE;
}

gboolean
rlx_json_end (RlxJson *json,
              GError **error)
{
  rlx_json_peek (json);
  return json->p == json->end || rlx_json_fail (json, error, "there is something after the end of the JSON text");
}
