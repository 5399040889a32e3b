/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "ir/rlx-ir-lexer-private.h"

#include "util/rlx-debug-private.h"

#include <math.h>
#include <string.h>

/* No meaningful number is longer. */
#define MAX_NUMBER_LENGTH 128

gboolean
rlx_lexer_error (RlxLexer   *self,
                 const char *where,
                 GError    **error,
                 const char *format,
                 ...)
{
  g_autofree char *message = NULL;
  va_list args;

  va_start (args, format);
  message = g_strdup_vprintf (format, args);
  va_end (args);

  g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_PARSE, "line %u, column %ld: %s",
               self->line, g_utf8_pointer_to_offset (self->line_start, where) + 1, message);

  return FALSE;
}

/* What is at the current place, for a message. */
static char *
describe_here (RlxLexer *self)
{
  const char *p = self->p;

  if (*p == '\0')
    return g_strdup ("the end of the text");
  if (*p == '\n')
    return g_strdup ("the end of the line");

  while (*p != '\0' && *p != '\n' && p - self->p < 12)
    p = g_utf8_next_char (p);

  return rlx_quote_text (self->p, p - self->p);
}

gboolean
rlx_lexer_expected (RlxLexer   *self,
                    const char *what,
                    GError    **error)
{
  g_autofree char *here = describe_here (self);

  return rlx_lexer_error (self, self->p, error, "%s is expected instead of %s", what, here);
}

void
rlx_lexer_skip_space (RlxLexer *self)
{
  while (*self->p == ' ' || *self->p == '\t' ||
         (*self->p == '\r' && (self->p[1] == '\n' || self->p[1] == '\0')))
    self->p++;
}

gboolean
rlx_lexer_at_line_end (RlxLexer *self)
{
  rlx_lexer_skip_space (self);
  if (*self->p == '#')
    self->p += strcspn (self->p, "\n");

  return *self->p == '\n' || *self->p == '\0';
}

gboolean
rlx_lexer_next_line (RlxLexer *self)
{
  while (rlx_lexer_at_line_end (self))
    {
      if (*self->p == '\0')
        return FALSE;
      self->p++;
      self->line++;
      self->line_start = self->p;
    }

  return TRUE;
}

gboolean
rlx_lexer_accept (RlxLexer *self,
                  char      c)
{
  rlx_lexer_skip_space (self);
  if (*self->p != c)
    return FALSE;
  self->p++;

  return TRUE;
}

gboolean
rlx_lexer_read_char (RlxLexer *self,
                     char      c,
                     GError  **error)
{
  const char what[] = { '"', c, '"', '\0' };

  return rlx_lexer_accept (self, c) || rlx_lexer_expected (self, what, error);
}

gsize
rlx_lexer_word_length (const char *p)
{
  gsize n = 0;

  if (!g_ascii_isalpha (*p))
    return 0;
  while (g_ascii_isalnum (p[n]) || p[n] == '_' || p[n] == '-')
    n++;

  return n;
}

char *
rlx_lexer_read_word (RlxLexer   *self,
                     const char *what,
                     GError    **error)
{
  gsize n;
  char *word;

  rlx_lexer_skip_space (self);
  n = rlx_lexer_word_length (self->p);
  if (n == 0)
    {
      rlx_lexer_expected (self, what, error);
      return NULL;
    }

  word = g_strndup (self->p, n);
  self->p += n;

  return word;
}

static gboolean
read_hex (const char *p,
          gunichar   *out)
{
  *out = 0;
  for (guint i = 0; i < 4; i++)
    {
      if (!g_ascii_isxdigit (p[i]))
        return FALSE;
      *out = *out << 4 | (gunichar) g_ascii_xdigit_value (p[i]);
    }

  return TRUE;
}

/* The character of the escape at @self, after the backslash. */
static gboolean
read_escape (RlxLexer *self,
             gunichar *out,
             GError  **error)
{
  static const char letters[] = "\"\\/bfnrt";
  static const char meanings[] = "\"\\/\b\f\n\r\t";
  const char *start = self->p - 1;
  const char *letter;
  gunichar low;

  if (*self->p == 'u')
    {
      if (!read_hex (self->p + 1, out))
        return rlx_lexer_error (self, start, error, "\\u is not followed by four hexadecimal digits");
      self->p += 5;

      if (*out >= 0xd800 && *out < 0xdc00)
        {
          if (self->p[0] != '\\' || self->p[1] != 'u' ||
              !read_hex (self->p + 2, &low) || low < 0xdc00 || low > 0xdfff)
            return rlx_lexer_error (self, start, error, "half of a surrogate pair");
          self->p += 6;
          *out = 0x10000 + ((*out - 0xd800) << 10) + (low - 0xdc00);
        }
      else if (*out >= 0xdc00 && *out <= 0xdfff)
        return rlx_lexer_error (self, start, error, "half of a surrogate pair");
      else if (*out == 0)
        return rlx_lexer_error (self, start, error, "a string cannot hold \\u0000");

      return TRUE;
    }

  letter = *self->p != '\0' ? strchr (letters, *self->p) : NULL;
  if (letter == NULL)
    return rlx_lexer_error (self, start, error, "a string has an unknown escape");

  *out = (gunichar) meanings[letter - letters];
  self->p++;

  return TRUE;
}

char *
rlx_lexer_read_string (RlxLexer   *self,
                       const char *what,
                       GError    **error)
{
  g_autoptr(GString) string = NULL;
  const char *start;

  rlx_lexer_skip_space (self);
  start = self->p;
  if (*self->p != '"')
    {
      rlx_lexer_expected (self, what, error);
      return NULL;
    }
  self->p++;

  string = g_string_new (NULL);
  while (*self->p != '"')
    {
      const char *plain = self->p;
      gunichar c;

      while ((guchar) *self->p >= 0x20 && *self->p != '"' && *self->p != '\\')
        self->p++;
      g_string_append_len (string, plain, self->p - plain);

      if (*self->p == '"')
        break;

      if (*self->p != '\\')
        {
          if (*self->p == '\0' || *self->p == '\n')
            rlx_lexer_error (self, start, error, "the string does not end on its line");
          else
            rlx_lexer_error (self, self->p, error, "a control character in a string has to be escaped");
          return NULL;
        }

      self->p++;
      if (!read_escape (self, &c, error))
        return NULL;
      g_string_append_unichar (string, c);
    }
  self->p++;

  return g_string_free (g_steal_pointer (&string), FALSE);
}

/* The length of the decimal number at @p as JSON has it; 0 when there is none. "007"
 * has the length 1, and what follows violates the grammar. */
static gsize
number_length (const char *p,
               gboolean   *is_integer)
{
  gsize n = 0;

  *is_integer = TRUE;

  if (p[n] == '-')
    n++;
  if (!g_ascii_isdigit (p[n]))
    return 0;
  if (p[n] == '0')
    n++;
  else
    while (g_ascii_isdigit (p[n]))
      n++;

  if (p[n] == '.' && g_ascii_isdigit (p[n + 1]))
    {
      *is_integer = FALSE;
      for (n++; g_ascii_isdigit (p[n]);)
        n++;
    }

  if (p[n] == 'e' || p[n] == 'E')
    {
      gsize m = n + 1;

      if (p[m] == '+' || p[m] == '-')
        m++;
      if (g_ascii_isdigit (p[m]))
        {
          *is_integer = FALSE;
          while (g_ascii_isdigit (p[m]))
            m++;
          n = m;
        }
    }

  return n;
}

gboolean
rlx_lexer_read_number (RlxLexer       *self,
                       RlxLexerNumber *number,
                       const char     *what,
                       GError        **error)
{
  static const struct
  {
    const char *word;
    double value;
    gboolean is_bool;
  } words[] = {
    { "nan", NAN, FALSE },
    { "inf", INFINITY, FALSE },
    { "-inf", -INFINITY, FALSE },
    { "true", 1, TRUE },
    { "false", 0, TRUE },
  };
  char buffer[MAX_NUMBER_LENGTH + 1];
  gboolean is_integer;
  gsize n;

  rlx_lexer_skip_space (self);
  *number = (RlxLexerNumber) { .start = self->p };

  n = (*self->p == '-') + rlx_lexer_word_length (self->p + (*self->p == '-'));
  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    {
      if (n != strlen (words[i].word) || strncmp (self->p, words[i].word, n) != 0)
        continue;

      self->p += n;
      number->kind = words[i].is_bool ? RLX_LEXER_BOOL : RLX_LEXER_FLOAT;
      number->f = words[i].value;
      return TRUE;
    }

  n = number_length (self->p, &is_integer);
  if (n == 0)
    return rlx_lexer_expected (self, what, error);
  if (n > MAX_NUMBER_LENGTH)
    return rlx_lexer_error (self, self->p, error, "a number of %" G_GSIZE_FORMAT " characters; the limit is %d",
                            n, MAX_NUMBER_LENGTH);

  memcpy (buffer, self->p, n);
  buffer[n] = '\0';
  self->p += n;

  number->f = g_ascii_strtod (buffer, NULL);
  number->overflow = isinf (number->f);
  number->kind = RLX_LEXER_FLOAT;

  if (is_integer && g_ascii_string_to_signed (buffer, 10, G_MININT64, G_MAXINT64, &number->i, NULL))
    /* A float has a negative zero, an integer does not. */
    number->kind = number->i == 0 && buffer[0] == '-' ? RLX_LEXER_FLOAT : RLX_LEXER_SIGNED;
  else if (is_integer && g_ascii_string_to_unsigned (buffer, 10, 0, G_MAXUINT64, &number->u, NULL))
    number->kind = RLX_LEXER_UNSIGNED;

  return TRUE;
}

gboolean
rlx_lexer_read_next (RlxLexer *self,
                     char      close,
                     gboolean *first,
                     gboolean *more,
                     GError  **error)
{
  const char what[] = { '"', ',', '"', ' ', 'o', 'r', ' ', '"', close, '"', '\0' };

  if (rlx_lexer_accept (self, close))
    {
      *more = FALSE;
      return TRUE;
    }

  if (!*first && !rlx_lexer_accept (self, ','))
    return rlx_lexer_expected (self, what, error);

  *first = FALSE;
  *more = TRUE;

  return TRUE;
}
