/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Tensors in the memory of a device.
 */
#pragma once

#include "gpu/rlx-gpu-private.h"
#include "rlx-tensor-private.h"

G_BEGIN_DECLS

/* The buffer contains the elements as the device stores them. */
RlxTensorMemory * rlx_tensor_memory_new    (RlxDevice   *device,
                                            const char  *name,
                                            guint64      size,
                                            GError     **error);
RlxTensorMemory * rlx_tensor_memory_ref    (RlxTensorMemory *memory);
void              rlx_tensor_memory_unref  (RlxTensorMemory *memory);
/* Takes ownership of @memory, all of which a job of the caller writes. */
RlxTensor *       rlx_tensor_new_on_device (RlxDataType      data_type,
                                            const gint64    *shape,
                                            gsize            n_dims,
                                            RlxTensorMemory *memory);
/* The buffer, if the tensor is on @gpu; nullable. */
RlxGpuBuffer *    rlx_tensor_get_buffer    (RlxTensor   *self,
                                            RlxGpu      *gpu);
/* If the job that was to write the tensor failed, keeps the error for those who wait for it later.
 * Both on the device thread. */
void              rlx_tensor_set_failed    (RlxTensor    *self,
                                            const GError *error);
gboolean          rlx_tensor_check_written (RlxTensor    *self,
                                            GError      **error);
/* Fails if the tensor is only on another device; the error calls it @name. */
gboolean          rlx_tensor_check_gpu     (RlxTensor   *self,
                                            RlxGpu      *gpu,
                                            const char  *name,
                                            GError     **error);

G_END_DECLS
