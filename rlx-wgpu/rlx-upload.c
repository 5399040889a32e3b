/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-upload-private.h"

#include "rlx-plan-port-private.h"

/* Uploading less than this takes less time than starting a thread. */
#define THREAD_BYTES (G_GUINT64_CONSTANT (1) << 20)

struct _RlxUpload
{
  RlxGpu *gpu;
  const RlxPlan *plan;
  RlxGpuBuffer *const *buffers;
  GCancellable *cancellable;
  GThread *thread;               /* nullable */
  GError *error;
};

gboolean
rlx_upload_slot (RlxGpu        *gpu,
                 RlxGpuBuffer  *buffer,
                 const RlxSlot *slot,
                 GBytes        *bytes,
                 GError       **error)
{
  guint8 *host = rlx_gpu_buffer_get_host (buffer);
  g_autoptr(GBytes) packed = NULL;
  gsize size;
  gconstpointer data;

  if (host != NULL)
    {
      rlx_slot_pack_to (slot, bytes, host + slot->offset);
      return TRUE;
    }
  packed = rlx_slot_pack (slot, bytes);
  data = g_bytes_get_data (packed, &size);
  return size == 0 || rlx_gpu_buffer_write (gpu, buffer, slot->offset, data, size, error);
}

gboolean
rlx_upload_tensor (RlxGpu        *gpu,
                   RlxGpuBuffer  *buffer,
                   const RlxSlot *slot,
                   const char    *name,
                   RlxTensor     *tensor,
                   GError       **error)
{
  g_autoptr(GBytes) bytes = rlx_tensor_to_device (tensor, name, error);

  return bytes != NULL && rlx_upload_slot (gpu, buffer, slot, bytes, error);
}

static gboolean
is_constant (const RlxSlot *slot)
{
  return slot->kind == RLX_SLOT_WEIGHT && slot->leaf != NULL && slot->leaf->data != NULL;
}

static gpointer
upload_constants (gpointer data)
{
  RlxUpload *self = data;

  for (guint i = 0; i < self->plan->buffers->len; i++)
    if (g_array_index (self->plan->buffers, RlxBuffer, i).kind == RLX_BUFFER_WEIGHTS)
      rlx_gpu_buffer_populate (self->buffers[i]);

  for (guint i = 0; i < self->plan->slots->len && self->error == NULL; i++)
    {
      const RlxSlot *slot = &g_array_index (self->plan->slots, RlxSlot, i);

      if (is_constant (slot) && !g_cancellable_set_error_if_cancelled (self->cancellable, &self->error))
        rlx_upload_tensor (self->gpu, self->buffers[slot->buffer], slot, "a constant", slot->leaf->data, &self->error);
    }
  return NULL;
}

RlxUpload *
rlx_upload_start (RlxGpu              *gpu,
                  const RlxPlan       *plan,
                  RlxGpuBuffer *const *buffers,
                  GCancellable        *cancellable)
{
  RlxUpload *self = g_new0 (RlxUpload, 1);
  guint64 size = 0;

  *self = (RlxUpload) { .gpu = gpu, .plan = plan, .buffers = buffers, .cancellable = cancellable };
  for (guint i = 0; i < plan->slots->len; i++)
    if (is_constant (&g_array_index (plan->slots, RlxSlot, i)))
      size += g_array_index (plan->slots, RlxSlot, i).size;

  if (size >= THREAD_BYTES)
    self->thread = g_thread_try_new ("rlx-upload", upload_constants, self, NULL);
  if (self->thread == NULL)
    upload_constants (self);
  return self;
}

gboolean
rlx_upload_finish (RlxUpload *self,
                   GError   **error)
{
  gboolean ok;

  if (self->thread != NULL)
    g_thread_join (self->thread);
  ok = self->error == NULL;
  if (!ok)
    g_propagate_error (error, self->error);
  g_free (self);
  return ok;
}
