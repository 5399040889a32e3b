/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A run of bytes of a source, one after the other: as they are there, or inflated.
 */
#pragma once

#include "formats/rlx-source-private.h"

G_BEGIN_DECLS

/* Where a run is, and what has to come out of it. */
typedef struct
{
  guint64 offset;            /* in the source */
  guint64 stored;            /* bytes there */
  guint64 size;              /* bytes that come out: the same, unless they are deflated */
  guint32 crc;               /* of what comes out */
  guint8 deflated;
  guint8 has_crc;
} RlxExtent;

typedef struct _RlxStream RlxStream;

RlxStream * rlx_stream_new      (RlxSource       *source,
                                 const RlxExtent *extent);
void        rlx_stream_free     (RlxStream       *self);
/* How many bytes are still to come. */
guint64     rlx_stream_get_left (RlxStream       *self);
/* Reads exactly @size bytes, no more than are left; NULL as @buffer skips them. With the
 * last one, everything that the extent says is checked. @what is for the message. */
gboolean    rlx_stream_read     (RlxStream       *self,
                                 const char      *what,
                                 gpointer         buffer,
                                 gsize            size,
                                 GCancellable    *cancellable,
                                 GError         **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (RlxStream, rlx_stream_free)

G_END_DECLS
