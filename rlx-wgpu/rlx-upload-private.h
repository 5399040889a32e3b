/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * From tensors to the memory of a plan.
 */
#pragma once

#include "gpu/rlx-gpu-private.h"
#include "plan/rlx-plan-private.h"
#include "rlx-resident-private.h"

G_BEGIN_DECLS

/* @bytes as rlx_tensor_to_device() gives them. Before anything uses @buffer, or
 * on the device thread. */
gboolean    rlx_upload_slot   (RlxGpu        *gpu,
                               RlxGpuBuffer  *buffer,
                               const RlxSlot *slot,
                               GBytes        *bytes,
                               GError       **error);
gboolean    rlx_upload_tensor (RlxGpu        *gpu,
                               RlxGpuBuffer  *buffer,
                               const RlxSlot *slot,
                               const char    *name,
                               RlxTensor     *tensor,
                               GError       **error);

/* Uploads all constants of @plan that are not on the device, in a separate thread if that
 * pays off. Until _finish(), which is always called, nothing may use @buffers (by plan
 * buffer, like @residents). */
typedef struct _RlxUpload RlxUpload;

RlxUpload * rlx_upload_start  (RlxGpu              *gpu,
                               const RlxPlan       *plan,
                               RlxGpuBuffer *const *buffers,
                               RlxResident *const  *residents,
                               GCancellable        *cancellable);
gboolean    rlx_upload_finish (RlxUpload *upload,
                               GError   **error);

G_END_DECLS
