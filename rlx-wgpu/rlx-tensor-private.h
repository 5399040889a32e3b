/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "rlx-tensor.h"

G_BEGIN_DECLS

typedef struct _RlxTensorMemory RlxTensorMemory;

/* Kernels count elements in 32 bits. */
#define RLX_MAX_ELEMENTS G_GUINT64_CONSTANT (0xffffffff)

/* For the files rlx-tensor*.c only. */
struct _RlxTensor
{
  GObject parent_instance;

  RlxDataType data_type;
  guint n_dims;
  gint64 shape[RLX_MAX_DIMS];
  guint64 n_elements;
  gsize size;              /* of the elements, in bytes */
  guint64 serial;          /* never used by another tensor */
  GBytes *bytes;           /* atomic; NULL until they are fetched from @memory */
  gconstpointer data;      /* valid once there are bytes */
  RlxTensorMemory *memory; /* nullable: its memory on a device */

  GSList *residents;       /* its copies on devices; the lock is in rlx-tensor-resident.c */
  gboolean was_resident;   /* there has ever been one */
};

/* FALSE with RLX_GRAPH_ERROR_DATA_TYPE if @data_type is not a data type: scripts pass
 * values of enumerations unchecked. */
gboolean      rlx_data_type_check    (RlxDataType    data_type,
                                      GError       **error);

/* Checks a shape and counts its elements.
 *
 * A negative dimension is RLX_GRAPH_ERROR_SHAPE. More than RLX_MAX_DIMS dimensions or
 * RLX_MAX_ELEMENTS elements are RLX_GRAPH_ERROR_LIMIT, even if one is zero: the product
 * of the other dimensions must stay within the limit, so that strides can be computed
 * without checks. */
gboolean      rlx_shape_n_elements   (const gint64  *shape,
                                      gsize          n_dims,
                                      guint64       *n_elements,
                                      GError       **error);
/* The same, and the size in bytes. */
gboolean      rlx_shape_n_bytes      (RlxDataType    data_type,
                                      const gint64  *shape,
                                      gsize          n_dims,
                                      guint64       *n_elements,
                                      gsize         *n_bytes,
                                      GError       **error);
/* "[2, 3]" */
char *        rlx_shape_to_string    (const gint64  *shape,
                                      gsize          n_dims);

/* Allocates memory whose size comes from outside: fails with RLX_GRAPH_ERROR_LIMIT
 * instead of aborting. Freed with g_free(); never NULL for a size of 0. */
gpointer      rlx_try_alloc          (gsize          size,
                                      GError       **error) G_GNUC_WARN_UNUSED_RESULT;

/* The elements, aligned for their type; never NULL, even if there are none. Only for
 * tensors that were fetched, as all those in graphs are. */
gconstpointer rlx_tensor_peek_data   (RlxTensor     *self);
/* Everything was checked; @bytes (transfer full) are NULL for a tensor with memory. */
RlxTensor *   rlx_tensor_new_unchecked (RlxDataType    data_type,
                                        const gint64  *shape,
                                        gsize          n_dims,
                                        guint64        n_elements,
                                        GBytes        *bytes);

/* rlx-tensor-signal.c: the mel scale, for creating filters. */
double          rlx_mel_scale_from_hertz (RlxMelScale scale,
                                          double      frequency);
double          rlx_mel_scale_to_hertz   (RlxMelScale scale,
                                          double      mels);

G_END_DECLS
