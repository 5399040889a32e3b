/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Bytes that are read in places: of a file, or in memory. Nothing is mapped, so a
 * file that is cut short while it is in use is an error like any other.
 */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef struct _RlxSource RlxSource;

/* Called after each piece, on the thread that reads. */
typedef void (*RlxSourceFunc) (gsize    n_bytes,
                               gpointer data);

RlxSource * rlx_source_new_for_bytes (GBytes        *bytes);
/* Keeps a handle of its own. */
RlxSource * rlx_source_new_for_fd    (int            fd,
                                      GError       **error);
RlxSource * rlx_source_open          (GFile         *file,
                                      GCancellable  *cancellable,
                                      GError       **error);
void        rlx_source_free          (RlxSource     *self);

guint64     rlx_source_get_size      (RlxSource     *self);
/* Reads exactly @size bytes, which are within the size: fewer are
 * RLX_WEIGHTS_ERROR_TRUNCATED. @what is for the message; @func is nullable. Any
 * thread may call it. */
gboolean    rlx_source_read          (RlxSource     *self,
                                      const char    *what,
                                      guint64        offset,
                                      gpointer       buffer,
                                      gsize          size,
                                      RlxSourceFunc  func,
                                      gpointer       data,
                                      GCancellable  *cancellable,
                                      GError       **error);
/* The same bytes without a copy, where they are in memory already, else NULL. */
GBytes *    rlx_source_share         (RlxSource     *self,
                                      guint64        offset,
                                      gsize          size);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (RlxSource, rlx_source_free)

G_END_DECLS
