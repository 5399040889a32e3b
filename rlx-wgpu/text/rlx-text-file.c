/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "text/rlx-text-file-private.h"

#include <math.h>
#include <string.h>

#include "formats/rlx-json-private.h"
#include "formats/rlx-source-private.h"
#include "rlx-types.h"

#define MAX_MEMBERS 16

GBytes *
rlx_text_file_load (GFile        *folder,
                    const char   *name,
                    gboolean      optional,
                    GCancellable *cancellable,
                    GError      **error)
{
  g_autoptr(GFile) file = g_file_get_child (folder, name);
  g_autoptr(GError) local = NULL;
  g_autoptr(RlxSource) source = rlx_source_open (file, cancellable, &local);
  guint64 size;
  char *text;

  if (source == NULL)
    {
      if (!optional || !g_error_matches (local, G_IO_ERROR, G_IO_ERROR_NOT_FOUND))
        g_propagate_prefixed_error (error, g_steal_pointer (&local), "%s: ", name);
      return NULL;
    }
  size = rlx_source_get_size (source);
  if (size > RLX_MAX_TEXT_FILE)
    {
      g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_LIMIT, "%s has %" G_GUINT64_FORMAT " bytes; the limit is %" G_GSIZE_FORMAT,
                   name, size, RLX_MAX_TEXT_FILE);
      return NULL;
    }
  text = rlx_source_read_text (source, name, 0, (gsize) size, cancellable, error);
  return text != NULL ? g_bytes_new_take (text, (gsize) size) : NULL;
}

/* Reads a number, true, false or null, up to the maximum length of a number. */
static gboolean
read_word (RlxJson *json,
           char    *word,
           gsize    size,
           GError **error)
{
  const char *start;
  gsize length;

  rlx_json_peek (json);
  start = json->p;
  if (!rlx_json_skip (json, error))
    return FALSE;
  length = (gsize) (json->p - start);
  if (length >= size)
    return rlx_json_fail (json, error, "a value of %" G_GSIZE_FORMAT " bytes is not a number", length);
  memcpy (word, start, length);
  word[length] = '\0';
  return TRUE;
}

static gboolean
read_member (RlxJson         *json,
             const RlxTextMember *member,
             GString         *text,
             GError         **error)
{
  char word[64], *end;

  if (member->string != NULL && rlx_json_peek (json) == '"')
    {
      if (!rlx_json_string (json, text, error))
        return FALSE;
      g_free (*member->string);
      *member->string = g_strdup (text->str);
      return TRUE;
    }
  if (member->number != NULL)
    {
      if (!rlx_json_unsigned (json, member->name, member->number, error))
        return FALSE;
      if (*member->number <= member->max)
        return TRUE;
      g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_LIMIT, "At byte %" G_GUINT64_FORMAT ": “%s” is %" G_GUINT64_FORMAT
                   "; the limit is %" G_GUINT64_FORMAT, rlx_json_get_place (json), member->name, *member->number, member->max);
      return FALSE;
    }
  if (!read_word (json, word, sizeof word, error))
    return FALSE;
  if (member->real == NULL && strcmp (word, "null") == 0)
    return TRUE;
  if (member->boolean != NULL && (strcmp (word, "true") == 0 || strcmp (word, "false") == 0))
    {
      *member->boolean = word[0] == 't';
      return TRUE;
    }
  if (member->real != NULL)
    {
      *member->real = g_ascii_strtod (word, &end);
      if (end != word && *end == '\0' && isfinite (*member->real))
        return TRUE;
    }
  return rlx_json_fail (json, error, "“%s” is not %s", member->name,
                        member->string != NULL ? "a string" : member->boolean != NULL ? "true or false" : "a number");
}

static gboolean
read_object (RlxJson         *json,
             const RlxTextMember *members,
             gsize            n_members,
             GError         **error)
{
  g_autoptr(GString) text = g_string_new (NULL);
  gboolean first = TRUE, more, seen[MAX_MEMBERS] = { FALSE };

  g_assert (n_members <= MAX_MEMBERS);
  if (!rlx_json_expect (json, '{', error))
    return FALSE;
  for (;;)
    {
      gsize i = 0;

      if (!rlx_json_next (json, '}', &first, &more, error))
        return FALSE;
      if (!more)
        return rlx_json_end (json, error);
      if (!rlx_json_string (json, text, error) || !rlx_json_expect (json, ':', error))
        return FALSE;
      while (i < n_members && strcmp (members[i].name, text->str) != 0)
        i++;
      if (i == n_members ? !rlx_json_skip (json, error) : !seen[i] && !read_member (json, &members[i], text, error))
        return FALSE;
      if (i < n_members && seen[i])
        return rlx_json_fail (json, error, "“%s” is there twice", members[i].name);
      if (i < n_members)
        seen[i] = TRUE;
    }
}

gboolean
rlx_text_members_read (GBytes          *text,
                  const char      *title,
                  const RlxTextMember *members,
                  gsize            n_members,
                  GError         **error)
{
  gsize size;
  const char *start = g_bytes_get_data (text, &size);
  RlxJson json = { start, start, start + size, 0 };

  if (read_object (&json, members, n_members, error))
    return TRUE;
  g_prefix_error (error, "%s: ", title);
  return FALSE;
}
