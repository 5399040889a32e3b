/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "text/rlx-wordpiece-private.h"

#include <string.h>

#include "rlx-types.h"

/* Text is processed in parts of about this many bytes, which end before white space, to limit memory for long texts. */
#define PART 65536

static gboolean
is_space (gunichar c)
{
  switch (g_unichar_type (c))
    {
    case G_UNICODE_SPACE_SEPARATOR:
    case G_UNICODE_LINE_SEPARATOR:
    case G_UNICODE_PARAGRAPH_SEPARATOR:
      return TRUE;
    default:
      return c == '\t' || c == '\n' || c == '\r';
    }
}

/* Characters that are removed: control, format, private use and unassigned ones. */
static gboolean
is_control (gunichar c)
{
  switch (g_unichar_type (c))
    {
    case G_UNICODE_CONTROL:
    case G_UNICODE_FORMAT:
    case G_UNICODE_PRIVATE_USE:
    case G_UNICODE_SURROGATE:
    case G_UNICODE_UNASSIGNED:
      return TRUE;
    default:
      return c == 0xfffd;
    }
}

static gboolean
is_punctuation (gunichar c)
{
  if (c < 128)
    return g_ascii_ispunct ((char) c);
  switch (g_unichar_type (c))
    {
    case G_UNICODE_CONNECT_PUNCTUATION:
    case G_UNICODE_DASH_PUNCTUATION:
    case G_UNICODE_CLOSE_PUNCTUATION:
    case G_UNICODE_FINAL_PUNCTUATION:
    case G_UNICODE_INITIAL_PUNCTUATION:
    case G_UNICODE_OTHER_PUNCTUATION:
    case G_UNICODE_OPEN_PUNCTUATION:
      return TRUE;
    default:
      return FALSE;
    }
}

/* Unicode's blocks of Chinese characters. Kana and Hangul are written in words like other scripts. */
static gboolean
is_chinese (gunichar c)
{
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
         (c >= 0x2a700 && c <= 0x2ceaf) || (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

/* Appends the pieces of a word, or the unknown token. */
static void
cut_word (const RlxWordpiece *self,
          const char         *word,
          gsize               size,
          GArray             *tokens)
{
  g_autofree char *piece = NULL;
  const guint before = tokens->len;
  gsize start = 0;

  if (g_utf8_strlen (word, (gssize) size) > RLX_WORDPIECE_MAX_CHARACTERS)
    {
      g_array_append_val (tokens, self->unknown);
      return;
    }
  piece = g_malloc (size + 3);
  while (start < size)
    {
      const gsize mark = start > 0 ? 2 : 0;
      gsize end = MIN (size, start + (self->longest > mark ? self->longest - mark : 0));
      gpointer id = NULL;

      /* never in the middle of a character */
      while (end > start && end < size && ((guchar) word[end] & 0xc0) == 0x80)
        end--;
      memcpy (piece, "##", mark);
      memcpy (piece + mark, word + start, end - start);
      for (; end > start; end = (gsize) (g_utf8_find_prev_char (word, word + end) - word))
        {
          piece[mark + end - start] = '\0';
          if (g_hash_table_lookup_extended (self->ids, piece, NULL, &id))
            break;
        }
      if (end <= start)
        {
          g_array_set_size (tokens, before);
          g_array_append_val (tokens, self->unknown);
          return;
        }
      g_array_append_vals (tokens, &(gint) { GPOINTER_TO_INT (id) }, 1);
      start = end;
    }
}

static void
end_word (const RlxWordpiece *self,
          GString            *word,
          GArray             *tokens)
{
  if (word->len > 0)
    cut_word (self, word->str, word->len, tokens);
  g_string_truncate (word, 0);
}

/* Removes control characters from the text from @text to @end, and puts spaces around Chinese ones. */
static char *
clean (const RlxWordpiece *self,
       const char         *text,
       const char         *end)
{
  GString *result = g_string_sized_new ((gsize) (end - text));

  for (; text < end; text = g_utf8_next_char (text))
    {
      gunichar c = g_utf8_get_char (text);

      if (is_space (c))
        g_string_append_c (result, ' ');
      else if (self->split_chinese && is_chinese (c))
        {
          g_string_append_c (result, ' ');
          g_string_append_unichar (result, c);
          g_string_append_c (result, ' ');
        }
      else if (!is_control (c))
        g_string_append_unichar (result, c);
    }
  return g_string_free_and_steal (result);
}

static void
encode_part (const RlxWordpiece *self,
             const char         *text,
             const char         *end,
             GArray             *tokens)
{
  g_autofree char *cleaned = clean (self, text, end);
  g_autoptr(GString) word = g_string_new (NULL);

  if (self->strip_accents)
    {
      char *decomposed = g_utf8_normalize (cleaned, -1, G_NORMALIZE_NFD);

      g_free (cleaned);
      cleaned = decomposed;
    }
  for (const char *p = cleaned; *p != '\0'; p = g_utf8_next_char (p))
    {
      gunichar c = g_utf8_get_char (p);

      if (self->strip_accents && g_unichar_type (c) == G_UNICODE_NON_SPACING_MARK)
        continue;
      if (self->lower_case && c == 0x130)
        {
          /* the only letter whose lower case is two characters in any language */
          g_string_append (word, "i\xcc\x87");
          continue;
        }
      if (self->lower_case)
        c = g_unichar_tolower (c);
      if (is_space (c))
        end_word (self, word, tokens);
      else if (is_punctuation (c))
        {
          end_word (self, word, tokens);
          g_string_append_unichar (word, c);
          end_word (self, word, tokens);
        }
      else
        g_string_append_unichar (word, c);
    }
  end_word (self, word, tokens);
}

gboolean
rlx_wordpiece_encode (const RlxWordpiece *self,
                      const char         *text,
                      GArray             *tokens,
                      gsize               max,
                      GError            **error)
{
  while (*text != '\0')
    {
      const char *end = text;

      while (*end != '\0' && ((gsize) (end - text) < PART || !is_space (g_utf8_get_char (end))))
        end = g_utf8_next_char (end);
      encode_part (self, text, end, tokens);
      if (tokens->len > max)
        {
          g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_LIMIT, "A text has more than %" G_GSIZE_FORMAT " tokens, which is the limit",
                       max);
          return FALSE;
        }
      text = end;
    }
  return TRUE;
}
