/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Reads a header of little-endian numbers, one after the other, without knowing how long
 * it is: in pieces, never beyond the end of the file, and never beyond a limit.
 */
#pragma once

#include "formats/rlx-source-private.h"

G_BEGIN_DECLS

#define RLX_CURSOR_PIECE 16384

typedef struct
{
  RlxSource *source;         /* not a reference */
  GCancellable *cancellable;
  guint64 at;                /* may be moved to any place up to the end */
  guint64 end;               /* of the file; more is RLX_WEIGHTS_ERROR_TRUNCATED */
  guint64 limit;             /* more is RLX_WEIGHTS_ERROR_LIMIT */
  guint64 start;             /* offset of the piece's contents */
  gsize filled;
  guint8 piece[RLX_CURSOR_PIECE];
} RlxCursor;

/* At the first byte; freed with g_free(). */
RlxCursor * rlx_cursor_new        (RlxSource    *source,
                                   guint64       limit,
                                   GCancellable *cancellable);

/* In all of these, @what is for the message. */

/* Whether @n more bytes exist, and may be accessed. */
gboolean    rlx_cursor_check_room (RlxCursor    *self,
                                   const char   *what,
                                   guint64       n,
                                   GError      **error);
gboolean    rlx_cursor_take       (RlxCursor    *self,
                                   const char   *what,
                                   gpointer      to,
                                   gsize         n,
                                   GError      **error);
gboolean    rlx_cursor_take_u32   (RlxCursor    *self,
                                   const char   *what,
                                   guint32      *value,
                                   GError      **error);
gboolean    rlx_cursor_take_u64   (RlxCursor    *self,
                                   const char   *what,
                                   guint64      *value,
                                   GError      **error);

G_END_DECLS
