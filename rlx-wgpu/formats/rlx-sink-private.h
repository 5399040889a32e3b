/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A file that is written where another one may be: all of it or nothing. What was there
 * stays until rlx_sink_close().
 */
#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef struct _RlxSink RlxSink;

/* Errors begin with the name of the file. */

RlxSink * rlx_sink_open         (GFile         *file,
                                 GCancellable  *cancellable,
                                 GError       **error);
/* Without rlx_sink_close() before it, nothing is written. */
void      rlx_sink_free         (RlxSink       *self);
/* How many bytes have been written. */
guint64   rlx_sink_get_position (RlxSink       *self);
gboolean  rlx_sink_write        (RlxSink       *self,
                                 gconstpointer  data,
                                 gsize          size,
                                 GError       **error);
/* Overwrites bytes that were written before; the position does not change. */
gboolean  rlx_sink_patch        (RlxSink       *self,
                                 guint64        offset,
                                 gconstpointer  data,
                                 gsize          size,
                                 GError       **error);
gboolean  rlx_sink_close        (RlxSink       *self,
                                 GError       **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (RlxSink, rlx_sink_free)

G_END_DECLS
