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
  guint64 serial;          /* no other tensor ever has it */
  GBytes *bytes;           /* atomic; NULL until they are fetched from @memory */
  gconstpointer data;      /* once there are bytes */
  RlxTensorMemory *memory; /* nullable: where it lies on a device */

  GSList *residents;       /* what devices have of it; rlx-tensor-resident.c has the lock */
  gboolean was_resident;   /* there ever was one */
};

/* FALSE with RLX_GRAPH_ERROR_DATA_TYPE when @data_type is no data type: values
 * of enumerations arrive from scripts unchecked. */
gboolean      rlx_data_type_check    (RlxDataType    data_type,
                                      GError       **error);

/* Checks a shape and counts its elements.
 *
 * A negative dimension is RLX_GRAPH_ERROR_SHAPE. More than RLX_MAX_DIMS
 * dimensions or RLX_MAX_ELEMENTS elements are RLX_GRAPH_ERROR_LIMIT, and a zero
 * does not excuse its neighbours: the product of the other dimensions has to
 * stay within the limit too, so that strides can be computed without care. */
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

/* Memory whose size somebody else decided: RLX_GRAPH_ERROR_LIMIT instead of the
 * end of the process. Freed with g_free(); never NULL for a size of 0. */
gpointer      rlx_try_alloc          (gsize          size,
                                      GError       **error) G_GNUC_WARN_UNUSED_RESULT;

/* The elements, aligned for their type; never NULL, also when there are none. Only for a
 * tensor that was fetched, as are all that a graph keeps. */
gconstpointer rlx_tensor_peek_data   (RlxTensor     *self);
/* Everything was checked; @bytes (transfer full) are NULL for a tensor with memory. */
RlxTensor *   rlx_tensor_new_unchecked (RlxDataType    data_type,
                                        const gint64  *shape,
                                        gsize          n_dims,
                                        guint64        n_elements,
                                        GBytes        *bytes);

/* rlx-tensor-signal.c: the mel scale, for whoever makes filters. */
double          rlx_mel_scale_from_hertz (RlxMelScale scale,
                                          double      frequency);
double          rlx_mel_scale_to_hertz   (RlxMelScale scale,
                                          double      mels);

G_END_DECLS
