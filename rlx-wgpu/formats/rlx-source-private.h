/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Bytes that are read in places: of a file, or in memory. This is what every reader of
 * a format stands on.
 *
 * - Nothing is mapped, so a file that is cut short while it is in use is an error like
 *   any other (RLX_WEIGHTS_ERROR_TRUNCATED).
 * - Only what has an end is opened: no folder, pipe or device, and nobody is waited for.
 * - Reads are in pieces of RLX_PIECE bytes at most, with a look at the GCancellable
 *   before each.
 * - Any thread may read, several at a time.
 *
 * Whoever wants little-endian numbers one after the other has rlx-cursor-private.h;
 * whoever wants a long run of bytes that may be deflated, rlx-stream-private.h.
 */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

/* How much is read, converted or written at a time. */
#define RLX_PIECE ((gsize) 4 << 20)

typedef struct _RlxSource RlxSource;

RlxSource * rlx_source_new_for_bytes (GBytes        *bytes);
/* Keeps a handle of its own. */
RlxSource * rlx_source_new_for_fd    (int            fd,
                                      GError       **error);
/* Files that are not local are read from a stream. One that cannot seek is only read
 * forwards. */
RlxSource * rlx_source_open          (GFile         *file,
                                      GCancellable  *cancellable,
                                      GError       **error);
/* Opens a file that another one names: @name is a plain file name in the folder of
 * @beside. A link is only followed if @beside is a link itself, as in the caches of
 * download tools. If the file has no recognisable contents, an attacker could make it
 * any file: @sole also rejects files with other hard links. */
RlxSource * rlx_source_open_beside   (GFile         *beside,
                                      const char    *name,
                                      gboolean       sole,
                                      GCancellable  *cancellable,
                                      GError       **error);
RlxSource * rlx_source_ref           (RlxSource     *self);
void        rlx_source_unref         (RlxSource     *self);

/* As it was when it was opened. */
guint64     rlx_source_get_size      (RlxSource     *self);
/* Reads exactly @size bytes, which are within the size: fewer are
 * RLX_WEIGHTS_ERROR_TRUNCATED. @what is for the message. */
gboolean    rlx_source_read          (RlxSource     *self,
                                      const char    *what,
                                      guint64        offset,
                                      gpointer       buffer,
                                      gsize          size,
                                      GCancellable  *cancellable,
                                      GError       **error);
/* The same bytes in new memory, with a NUL appended; NULL with RLX_WEIGHTS_ERROR_LIMIT
 * if memory is exhausted. */
char *      rlx_source_read_text     (RlxSource     *self,
                                      const char    *what,
                                      guint64        offset,
                                      gsize          size,
                                      GCancellable  *cancellable,
                                      GError       **error);
/* The same bytes without a copy, if they are already in memory, otherwise NULL. */
GBytes *    rlx_source_share         (RlxSource     *self,
                                      guint64        offset,
                                      gsize          size);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (RlxSource, rlx_source_unref)

G_END_DECLS
