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
  RlxResident *const *residents;
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
      rlx_gpu_count_upload (gpu, g_bytes_get_size (bytes));
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

/* The constants in one buffer. */
static gboolean
upload_buffer (RlxUpload *self,
               guint      index,
               GError   **error)
{
  const RlxPlan *plan = self->plan;
  const RlxBuffer *buffer = &g_array_index (plan->buffers, RlxBuffer, index);

  if (buffer->n_constants > 0)
    rlx_gpu_buffer_populate (self->buffers[index], RLX_GPU_WHOLE);
  for (guint i = 0; i < buffer->n_constants; i++)
    {
      guint at = g_array_index (plan->constants, guint, buffer->first_constant + i);
      const RlxSlot *slot = &g_array_index (plan->slots, RlxSlot, at);

      if (g_cancellable_set_error_if_cancelled (self->cancellable, error) ||
          !rlx_upload_tensor (self->gpu, self->buffers[index], slot, "a constant", slot->leaf->data, error))
        return FALSE;
    }
  return TRUE;
}

/* One that other executables may already have, or be about to upload. */
static gboolean
upload_resident (RlxUpload *self,
                 guint      index,
                 GError   **error)
{
  gboolean upload, ok;

  if (!rlx_resident_begin (self->residents[index], &upload, self->cancellable, error))
    return FALSE;
  if (!upload)
    return TRUE;
  ok = upload_buffer (self, index, error);
  rlx_resident_end (self->residents[index], ok);
  return ok;
}

static gpointer
upload_constants (gpointer data)
{
  RlxUpload *self = data;
  gboolean ok = TRUE;

  for (guint i = 0; ok && i < self->plan->buffers->len; i++)
    {
      if (self->residents[i] != NULL)
        ok = upload_resident (self, i, &self->error);
      else
        ok = upload_buffer (self, i, &self->error);
    }
  return NULL;
}

RlxUpload *
rlx_upload_start (RlxGpu              *gpu,
                  const RlxPlan       *plan,
                  RlxGpuBuffer *const *buffers,
                  RlxResident *const  *residents,
                  GCancellable        *cancellable)
{
  RlxUpload *self = g_new0 (RlxUpload, 1);
  guint64 size = 0;

  *self = (RlxUpload) { .gpu = gpu, .plan = plan, .buffers = buffers, .residents = residents, .cancellable = cancellable };
  for (guint i = 0; i < plan->buffers->len; i++)
    {
      const RlxBuffer *buffer = &g_array_index (plan->buffers, RlxBuffer, i);

      if (buffer->n_constants > 0 && (residents[i] == NULL || !rlx_resident_is_loaded (residents[i])))
        size += buffer->size;
    }

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
