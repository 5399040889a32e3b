/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A run of bytes of a source, one after the other: as they are there, or inflated.
 */
#pragma once

#include "formats/rlx-source-private.h"

G_BEGIN_DECLS

/* A run of bytes, possibly compressed, and its expected contents. */
typedef struct
{
  guint64 offset;            /* in the source */
  guint64 stored;            /* bytes there */
  guint64 size;              /* uncompressed size */
  guint32 crc;               /* of the uncompressed bytes */
  guint8 deflated;
  guint8 has_crc;
} RlxExtent;

typedef struct _RlxStream RlxStream;

RlxStream * rlx_stream_new      (RlxSource       *source,
                                 const RlxExtent *extent);
void        rlx_stream_free     (RlxStream       *self);
/* How many bytes are left. */
guint64     rlx_stream_get_left (RlxStream       *self);
/* Reads exactly @size bytes, no more than are left; a NULL @buffer skips them. After the
 * last one, everything that the extent states is checked. @what is for the message. */
gboolean    rlx_stream_read     (RlxStream       *self,
                                 const char      *what,
                                 gpointer         buffer,
                                 gsize            size,
                                 GCancellable    *cancellable,
                                 GError         **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (RlxStream, rlx_stream_free)

G_END_DECLS
