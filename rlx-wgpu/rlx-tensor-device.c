/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Tensors in the memory of a device: fetched when somebody asks, and put there.
 */
#include "config.h"

#include "rlx-device-private.h"
#include "rlx-job-private.h"
#include "rlx-plan-port-private.h"
#include "rlx-tensor-device-private.h"

#include <string.h>

/* Shared by a tensor and its reshaped versions. */
struct _RlxTensorMemory
{
  gatomicrefcount ref_count;
  RlxDevice *device;
  RlxGpuBuffer *buffer;      /* nullable: there are no elements */
  char *name;                /* for messages; nullable */
  GError *error;             /* on the device thread: why there is nothing in it; nullable */
};

RlxTensorMemory *
rlx_tensor_memory_new (RlxDevice  *device,
                       const char *name,
                       guint64     size,
                       GError    **error)
{
  RlxTensorMemory *memory;
  RlxGpuBuffer *buffer = NULL;

  if (!rlx_gpu_check_forked (error) ||
      (size > 0 && (buffer = rlx_gpu_pool_take (rlx_device_get_gpu (device), size, error)) == NULL))
    return NULL;
  memory = g_new0 (RlxTensorMemory, 1);
  g_atomic_ref_count_init (&memory->ref_count);
  memory->device = g_object_ref (device);
  memory->buffer = buffer;
  memory->name = g_strdup (name);
  return memory;
}

RlxTensorMemory *
rlx_tensor_memory_ref (RlxTensorMemory *memory)
{
  g_atomic_ref_count_inc (&memory->ref_count);
  return memory;
}

void
rlx_tensor_memory_unref (RlxTensorMemory *memory)
{
  if (!g_atomic_ref_count_dec (&memory->ref_count))
    return;
  rlx_gpu_pool_give (memory->buffer);
  g_object_unref (memory->device);
  g_clear_error (&memory->error);
  g_free (memory->name);
  g_free (memory);
}

RlxTensor *
rlx_tensor_new_on_device (RlxDataType      data_type,
                          const gint64    *shape,
                          gsize            n_dims,
                          RlxTensorMemory *memory)
{
  guint64 n_elements = 1;
  RlxTensor *self;

  for (gsize i = 0; i < n_dims; i++)
    n_elements *= (guint64) shape[i];
  self = rlx_tensor_new_unchecked (data_type, shape, n_dims, n_elements, n_elements == 0 ? g_bytes_new (NULL, 0) : NULL);
  self->memory = memory;
  return self;
}

RlxGpuBuffer *
rlx_tensor_get_buffer (RlxTensor *self,
                       RlxGpu    *gpu)
{
  return self->memory != NULL && rlx_device_get_gpu (self->memory->device) == gpu ? self->memory->buffer : NULL;
}

void
rlx_tensor_set_failed (RlxTensor    *self,
                       const GError *error)
{
  if (self->memory->error == NULL)
    self->memory->error = g_error_copy (error);
}

gboolean
rlx_tensor_check_written (RlxTensor *self,
                          GError   **error)
{
  if (G_LIKELY (self->memory->error == NULL))
    return TRUE;
  g_propagate_error (error, g_error_copy (self->memory->error));
  return FALSE;
}

static gboolean
is_fetched (RlxTensor *self)
{
  return g_atomic_pointer_get (&self->bytes) != NULL;
}

gboolean
rlx_tensor_check_gpu (RlxTensor  *self,
                      RlxGpu     *gpu,
                      const char *name,
                      GError    **error)
{
  RlxGpu *other;

  if (is_fetched (self) || self->memory == NULL)
    return TRUE;
  other = rlx_device_get_gpu (self->memory->device);
  if (other == gpu)
    {
      if (rlx_gpu_check_lost (gpu, error))
        return TRUE;
      g_prefix_error (error, "input “%s” is on a device: ", name);
      return FALSE;
    }
  g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
               "input “%s” is on another device, “%s”, and not on “%s”: fetch it first", name,
               rlx_gpu_get_info (other)->name, rlx_gpu_get_info (gpu)->name);
  return FALSE;
}

/**
 * rlx_tensor_get_device: (get-property device)
 * @self: a tensor
 *
 * Gets the device whose memory holds the tensor.
 *
 * The tensor stays there as long as it exists, even after its elements were fetched.
 *
 * Returns: (transfer none) (nullable): the device, or %NULL for a tensor in the computer's
 *   memory
 *
 * Since: 1.0
 */
RlxDevice *
rlx_tensor_get_device (RlxTensor *self)
{
  g_return_val_if_fail (RLX_IS_TENSOR (self), NULL);

  return self->memory != NULL ? self->memory->device : NULL;
}

/* ---- fetching ---------------------------------------------------------------------------- */

typedef struct
{
  RlxJob job;
  RlxTensor *tensor;
} Fetch;

static void
fetch_free (RlxJob *job)
{
  rlx_job_clear (job);
  g_object_unref (((Fetch *) job)->tensor);
  g_free (job);
}

/* On the device thread: nothing else sets the bytes. */
static gpointer
fetch_work (RlxJob  *job,
            GError **error)
{
  RlxTensor *self = ((Fetch *) job)->tensor;
  RlxGpuDownload download = { .buffer = self->memory->buffer };
  RlxGpuJob work = { .downloads = &download, .n_downloads = 1 };
  RlxTensorType type = { .data_type = self->data_type, .n_dims = self->n_dims };
  g_autoptr(RlxTensor) fetched = NULL;

  if (is_fetched (self))
    return self;
  memcpy (type.shape, self->shape, sizeof type.shape);
  download.size = (gsize) rlx_type_n_device_bytes (&type);
  download.data = rlx_try_alloc (download.size, error);
  if (download.data == NULL)
    return NULL;
  if (!rlx_tensor_check_written (self, error) || !rlx_gpu_execute (job->gpu, &work, job->cancellable, error))
    {
      g_free (download.data);
      if (self->memory->name != NULL)
        g_prefix_error (error, "“%s” could not be fetched from the device: ", self->memory->name);
      else
        g_prefix_error_literal (error, "a tensor could not be fetched from the device: ");
      return NULL;
    }
  fetched = rlx_tensor_new_from_device (self->data_type, self->shape, self->n_dims, download.data, error);
  if (fetched == NULL)
    return NULL;
  self->data = fetched->data;
  g_atomic_pointer_set (&self->bytes, g_bytes_ref (fetched->bytes));
  return self;
}

static RlxJob *
fetch_new (RlxTensor    *self,
           GCancellable *cancellable)
{
  Fetch *fetch = g_new0 (Fetch, 1);

  rlx_job_init (&fetch->job);
  fetch->job.work = fetch_work;
  fetch->job.release = fetch_free;
  fetch->tensor = g_object_ref (self);
  rlx_job_prepare (&fetch->job, rlx_device_get_gpu (self->memory->device), cancellable);
  return &fetch->job;
}

/**
 * rlx_tensor_fetch:
 * @self: a tensor
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Copies the elements of a tensor from its device to the computer's memory, and waits
 * for that.
 *
 * This waits for the run that computes the tensor. If the elements are already in the
 * computer's memory, nothing happens. The tensor also stays on the device.
 *
 * If the device was lost in the meantime, so are the elements, and this fails with
 * %RLX_DEVICE_ERROR_LOST.
 *
 * Returns: %TRUE if the elements are now in the computer's memory
 *
 * Since: 1.0
 */
gboolean
rlx_tensor_fetch (RlxTensor    *self,
                  GCancellable *cancellable,
                  GError      **error)
{
  g_return_val_if_fail (RLX_IS_TENSOR (self), FALSE);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  if (G_LIKELY (is_fetched (self)))
    return TRUE;
  return rlx_gpu_check_forked (error) && rlx_job_wait (fetch_new (self, cancellable), error) != NULL;
}

/**
 * rlx_tensor_fetch_async:
 * @self: a tensor
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the elements have been fetched
 * @user_data: data for @callback
 *
 * Copies the elements of a tensor from its device to the computer's memory, without
 * blocking; see [method@Rlx.Tensor.fetch].
 *
 * Since: 1.0
 */
void
rlx_tensor_fetch_async (RlxTensor          *self,
                        GCancellable       *cancellable,
                        GAsyncReadyCallback callback,
                        gpointer            user_data)
{
  g_autoptr(GTask) task = NULL;
  GError *error = NULL;

  g_return_if_fail (RLX_IS_TENSOR (self));
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  if (!is_fetched (self))
    {
      RlxJob *job = rlx_gpu_check_forked (&error) ? fetch_new (self, cancellable) : NULL;

      rlx_job_start (job, error, self, rlx_tensor_fetch_async, cancellable, callback, user_data);
      return;
    }
  task = g_task_new (self, cancellable, callback, user_data);
  g_task_set_source_tag (task, rlx_tensor_fetch_async);
  g_task_return_pointer (task, self, NULL);
}

/**
 * rlx_tensor_fetch_finish:
 * @self: a tensor
 * @result: the result given to the callback
 * @error: return location for an error
 *
 * Finishes an operation started with [method@Rlx.Tensor.fetch_async].
 *
 * Returns: %TRUE if the elements are now in the computer's memory
 *
 * Since: 1.0
 */
gboolean
rlx_tensor_fetch_finish (RlxTensor    *self,
                         GAsyncResult *result,
                         GError      **error)
{
  g_return_val_if_fail (RLX_IS_TENSOR (self), FALSE);
  g_return_val_if_fail (g_task_is_valid (result, self), FALSE);

  return g_task_propagate_pointer (G_TASK (result), error) != NULL;
}

/* ---- uploading --------------------------------------------------------------------------- */

typedef struct
{
  RlxJob job;
  RlxTensor *made;
  GBytes *bytes;             /* as the device stores them; nullable: there are none */
} Upload;

static void
upload_free (RlxJob *job)
{
  Upload *upload = (Upload *) job;

  rlx_job_clear (job);
  g_clear_object (&upload->made);
  g_clear_pointer (&upload->bytes, g_bytes_unref);
  g_free (upload);
}

static gpointer
upload_work (RlxJob  *job,
             GError **error)
{
  Upload *upload = (Upload *) job;
  RlxGpuUpload part = { .buffer = upload->made->memory->buffer };
  RlxGpuJob work = { .uploads = &part, .n_uploads = 1, .leave = TRUE };

  part.data = g_bytes_get_data (upload->bytes, &part.size);
  if (part.size > 0 && !rlx_gpu_execute (job->gpu, &work, job->cancellable, error))
    return NULL;
  return g_steal_pointer (&upload->made);
}

static RlxJob *
upload_new (RlxDevice    *self,
            RlxTensor    *tensor,
            GCancellable *cancellable,
            GError      **error)
{
  g_autoptr(GBytes) bytes = rlx_tensor_to_device (tensor, "the tensor", error);
  RlxTensorMemory *memory;
  Upload *upload;

  if (bytes == NULL)
    return NULL;
  memory = rlx_tensor_memory_new (self, NULL, g_bytes_get_size (bytes), error);
  if (memory == NULL)
    return NULL;
  upload = g_new0 (Upload, 1);
  rlx_job_init (&upload->job);
  upload->job.work = upload_work;
  upload->job.free_result = g_object_unref;
  upload->job.release = upload_free;
  /* The bytes are already here, and cost nothing. */
  upload->made = rlx_tensor_new_unchecked (tensor->data_type, tensor->shape, tensor->n_dims, tensor->n_elements, g_bytes_ref (tensor->bytes));
  upload->made->memory = memory;
  upload->bytes = g_steal_pointer (&bytes);
  rlx_job_prepare (&upload->job, rlx_device_get_gpu (self), cancellable);
  return &upload->job;
}

/**
 * rlx_device_upload:
 * @self: a device
 * @tensor: a tensor
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Copies a tensor to the memory of the device.
 *
 * The result has the same elements and is stored on the device, so executables on the
 * device can use it as an input without uploading it again. Its memory counts in
 * [property@Rlx.Device:memory-used] until the last reference is gone.
 *
 * A tensor that is already on this device is returned as it is; one on another device
 * is fetched first.
 *
 * Returns: (transfer full): the tensor on the device
 *
 * Since: 1.0
 */
RlxTensor *
rlx_device_upload (RlxDevice    *self,
                   RlxTensor    *tensor,
                   GCancellable *cancellable,
                   GError      **error)
{
  RlxJob *job;

  g_return_val_if_fail (RLX_IS_DEVICE (self) && rlx_device_get_gpu (self) != NULL, NULL);
  g_return_val_if_fail (RLX_IS_TENSOR (tensor), NULL);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (rlx_tensor_get_device (tensor) == self)
    return g_object_ref (tensor);
  job = upload_new (self, tensor, cancellable, error);
  return job != NULL ? rlx_job_wait (job, error) : NULL;
}

/**
 * rlx_device_upload_async:
 * @self: a device
 * @tensor: a tensor
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the tensor has been uploaded
 * @user_data: data for @callback
 *
 * Copies a tensor to the memory of the device, without blocking; see
 * [method@Rlx.Device.upload].
 *
 * Since: 1.0
 */
void
rlx_device_upload_async (RlxDevice          *self,
                         RlxTensor          *tensor,
                         GCancellable       *cancellable,
                         GAsyncReadyCallback callback,
                         gpointer            user_data)
{
  GError *error = NULL;
  RlxJob *job;

  g_return_if_fail (RLX_IS_DEVICE (self) && rlx_device_get_gpu (self) != NULL);
  g_return_if_fail (RLX_IS_TENSOR (tensor));
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  if (rlx_tensor_get_device (tensor) == self)
    {
      g_autoptr(GTask) task = g_task_new (self, cancellable, callback, user_data);

      g_task_set_source_tag (task, rlx_device_upload_async);
      g_task_return_pointer (task, g_object_ref (tensor), g_object_unref);
      return;
    }
  job = upload_new (self, tensor, cancellable, &error);
  rlx_job_start (job, error, self, rlx_device_upload_async, cancellable, callback, user_data);
}

/**
 * rlx_device_upload_finish:
 * @self: a device
 * @result: the result given to the callback
 * @error: return location for an error
 *
 * Finishes an operation started with [method@Rlx.Device.upload_async].
 *
 * Returns: (transfer full): the tensor on the device
 *
 * Since: 1.0
 */
RlxTensor *
rlx_device_upload_finish (RlxDevice    *self,
                          GAsyncResult *result,
                          GError      **error)
{
  g_return_val_if_fail (RLX_IS_DEVICE (self), NULL);
  g_return_val_if_fail (g_task_is_valid (result, self), NULL);

  return g_task_propagate_pointer (G_TASK (result), error);
}
