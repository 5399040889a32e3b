/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "formats/rlx-cursor-private.h"

#include <string.h>

#include "formats/rlx-manifest-private.h"

RlxCursor *
rlx_cursor_new (RlxSource    *source,
                guint64       limit,
                GCancellable *cancellable)
{
  RlxCursor *self = g_new0 (RlxCursor, 1);

  self->source = source;
  self->cancellable = cancellable;
  self->end = rlx_source_get_size (source);
  self->limit = limit;
  return self;
}

gboolean
rlx_cursor_check_room (RlxCursor  *self,
                       const char *what,
                       guint64     n,
                       GError    **error)
{
  if (n > self->end - self->at)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_TRUNCATED, self->at,
                             "the file ends in %s: %" G_GUINT64_FORMAT " bytes are needed, %" G_GUINT64_FORMAT " are there",
                             what, n, self->end - self->at);
  if (n > self->limit || self->at > self->limit - n)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_LIMIT, self->at,
                             "with the %" G_GUINT64_FORMAT " bytes of %s the header is beyond the limit of %" G_GUINT64_FORMAT " bytes",
                             n, what, self->limit);
  return TRUE;
}

gboolean
rlx_cursor_take (RlxCursor  *self,
                 const char *what,
                 gpointer    to,
                 gsize       n,
                 GError    **error)
{
  guint8 *bytes = to;

  if (!rlx_cursor_check_room (self, what, n, error))
    return FALSE;
  while (n > 0)
    {
      gsize part;

      if (self->at < self->start || self->at >= self->start + self->filled)
        {
          self->start = self->at;
          self->filled = 0;
          part = (gsize) MIN (RLX_CURSOR_PIECE, self->end - self->at);
          if (!rlx_source_read (self->source, what, self->at, self->piece, part, self->cancellable, error))
            return FALSE;
          self->filled = part;
        }
      part = (gsize) MIN (n, self->start + self->filled - self->at);
      memcpy (bytes, self->piece + (self->at - self->start), part);
      self->at += part;
      bytes += part;
      n -= part;
    }
  return TRUE;
}

gboolean
rlx_cursor_take_u32 (RlxCursor  *self,
                     const char *what,
                     guint32    *value,
                     GError    **error)
{
  if (!rlx_cursor_take (self, what, value, 4, error))
    return FALSE;
  *value = GUINT32_FROM_LE (*value);
  return TRUE;
}

gboolean
rlx_cursor_take_u64 (RlxCursor  *self,
                     const char *what,
                     guint64    *value,
                     GError    **error)
{
  if (!rlx_cursor_take (self, what, value, 8, error))
    return FALSE;
  *value = GUINT64_FROM_LE (*value);
  return TRUE;
}
