/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Tensors on their way into a file. They come from memory or from another file, and in
 * the latter case one piece at a time.
 */
#pragma once

#include "formats/rlx-sink-private.h"
#include "formats/rlx-weights-private.h"

G_BEGIN_DECLS

typedef struct
{
  const char *name;
  guint storage;             /* what is written */
  const gint64 *shape;
  guint n_dims;
  guint64 size;              /* bytes that are written */
  RlxTensor *tensor;         /* where they come from: this… */
  RlxWeights *weights;       /* …or these two */
  const RlxRecord *record;
} RlxItem;

typedef gboolean (*RlxItemFunc) (gpointer      data,
                                 gconstpointer bytes,
                                 gsize         size,
                                 GError      **error);

/* Passes all bytes of an item to @func, in order. */
gboolean rlx_item_write        (const RlxItem *item,
                                RlxItemFunc    func,
                                gpointer       data,
                                GCancellable  *cancellable,
                                GError       **error);

/* The same into a file. */
gboolean rlx_item_copy         (const RlxItem *item,
                                RlxSink       *sink,
                                GCancellable  *cancellable,
                                GError       **error);
/* Determines how elements of type @storage are written, and how many bytes that takes.
 * Anything that a reader would reject is not written: @checked is what it would see. */
gboolean rlx_item_check        (RlxItem         *item,
                                RlxWeightsFormat format,
                                guint            storage,
                                RlxManifest     *checked,
                                GError         **error);
/* For messages. */
const char * rlx_weights_format_get_title (RlxWeightsFormat format);

/* ---- writers: each writes a whole file ---- */

/* Strings only, or NULL. */
gboolean rlx_safetensors_write (RlxSink       *sink,
                                const RlxItem *items,
                                gsize          n_items,
                                GVariant      *metadata,
                                GCancellable  *cancellable,
                                GError       **error);
gboolean rlx_gguf_write        (RlxSink       *sink,
                                const RlxItem *items,
                                gsize          n_items,
                                GVariant      *metadata,
                                GCancellable  *cancellable,
                                GError       **error);
gboolean rlx_npz_write         (RlxSink       *sink,
                                const RlxItem *items,
                                gsize          n_items,
                                gboolean       deflated,
                                GCancellable  *cancellable,
                                GError       **error);
gboolean rlx_npy_write         (RlxSink       *sink,
                                const RlxItem *item,
                                GCancellable  *cancellable,
                                GError       **error);

/* Converts 4-bit elements to bytes, for files that have none; others are unchanged. */
RlxTensor * rlx_npy_widen      (RlxTensor     *tensor,
                                GError       **error);

G_END_DECLS
