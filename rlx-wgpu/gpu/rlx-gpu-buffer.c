/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-gpu-internal.h"
#include "util/rlx-os-private.h"

#include <string.h>

/* Uploads use Dawn's staging memory, which is only released after the GPU has read it,
 * so long ones are split and waited for piece by piece. */
#define WRITE_CHUNK (G_GUINT64_CONSTANT (4) << 20)
#define WRITE_IN_FLIGHT (G_GUINT64_CONSTANT (64) << 20)

/* The smallest buffer that can be bound to anything. */
#define MIN_CAPACITY 16

/* Smaller ones are not worth separate pages. */
#define HOST_MIN (G_GUINT64_CONSTANT (16) << 10)

/* ---- memory of the host ---- */

typedef struct
{
  void *pages;
  gsize size;
} HostMemory;

/* A driver that computes on the host reads and writes the memory of the process itself,
 * and nothing needs to be copied to it or from it. Whether that pays off on a GPU
 * depends on its caches and on its other kinds of memory. */
void
rlx_gpu_find_host_page (RlxGpu *gpu)
{
  WGPULimits limits = WGPU_LIMITS_INIT;
  WGPUDawnHostMappedPointerLimits host = WGPU_DAWN_HOST_MAPPED_POINTER_LIMITS_INIT;

  limits.nextInChain = &host.chain;
  if ((gpu->info->target.features & RLX_DEVICE_FEATURES_MAPPED_STORAGE) &&
      gpu->info->type == RLX_ADAPTER_TYPE_CPU &&
      wgpuDeviceGetLimits (gpu->device, &limits) == WGPUStatus_Success &&
      host.hostMappedPointerAlignment >= 4 && host.hostMappedPointerAlignment <= HOST_MIN)
    gpu->host_page = host.hostMappedPointerAlignment;
}

static HostMemory *
host_memory_new (gsize size)
{
  HostMemory *memory;
  gpointer pages = rlx_os_pages_new (size);

  if (pages == NULL)
    return NULL;

  memory = g_new (HostMemory, 1);
  *memory = (HostMemory) { pages, size };
  return memory;
}

/* Called by Dawn when nothing uses the memory any more: at the next submit that
 * ends, or with the device. */
static void
host_memory_free (void *data)
{
  HostMemory *memory = data;

  rlx_os_pages_free (memory->pages, memory->size);
  g_free (memory);
}

/* ---- buffers ---- */

/* A buffer within the memory limit; its errors are those of the device. @size is the
 * reserved size, to be released later. With @host it is in host memory if the device
 * supports that and the size is large enough. */
WGPUBuffer
rlx_gpu_raw_buffer (RlxGpu         *gpu,
                    guint64         size,
                    WGPUBufferUsage usage,
                    guint8        **host,
                    const char     *label,
                    GError        **error)
{
  WGPUBufferDescriptor descriptor = WGPU_BUFFER_DESCRIPTOR_INIT;
  WGPUBufferHostMappedPointer mapped = WGPU_BUFFER_HOST_MAPPED_POINTER_INIT;
  HostMemory *memory = NULL;
  WGPUBuffer handle;

  if (!rlx_gpu_check_lost (gpu, error) ||
      !rlx_gpu_reserve (gpu, size, label, error))
    return NULL;

  if (!rlx_gpu_enter (error))
    {
      rlx_gpu_release_memory (gpu, size);
      return NULL;
    }

  descriptor.label = rlx_gpu_view (label);
  descriptor.usage = usage;
  descriptor.size = size;

  if (host != NULL && gpu->host_page > 0 && size >= HOST_MIN && size % gpu->host_page == 0)
    memory = host_memory_new ((gsize) size);
  if (memory != NULL)
    {
      mapped.pointer = memory->pages;
      mapped.disposeCallback = host_memory_free;
      mapped.userdata = memory;
      descriptor.nextInChain = &mapped.chain;
    }
  if (host != NULL)
    *host = memory != NULL ? memory->pages : NULL;

  rlx_gpu_scopes_push (gpu);
  handle = wgpuDeviceCreateBuffer (gpu->device, &descriptor);
  if (!rlx_gpu_scopes_pop (gpu, label, error))
    {
      g_clear_pointer (&handle, wgpuBufferRelease);
    }
  else if (handle == NULL)
    {
      g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_OUT_OF_MEMORY,
                   "The device has no memory left for %" G_GUINT64_FORMAT " bytes of “%s”",
                   size, label);
    }
  rlx_gpu_leave ();

  if (handle == NULL)
    {
      /* Dawn does not free it for a buffer that it rejects, but might for one that
       * fails later, so the mapping is left alone. */
      if (memory != NULL)
        rlx_os_pages_drop (memory->pages, memory->size);
      rlx_gpu_release_memory (gpu, size);
      return NULL;
    }

  atomic_fetch_add (&gpu->n_buffers, 1);
  return handle;
}

void
rlx_gpu_raw_buffer_free (RlxGpu    *gpu,
                         WGPUBuffer buffer,
                         guint64    size)
{
  /* Destroyed, not just released: bind groups also hold it, and the memory is needed
   * now. Dawn itself waits for work in flight, but jobs that nobody waits for may not
   * have been submitted yet. */
  if (!atomic_load (&gpu->hung) && rlx_gpu_enter (NULL))
    {
      if (!rlx_gpu_has_left (gpu))
        wgpuBufferDestroy (buffer);
      wgpuBufferRelease (buffer);
      rlx_gpu_leave ();
    }
  rlx_gpu_release_memory (gpu, size);
}

RlxGpuBuffer *
rlx_gpu_buffer_new (RlxGpu           *gpu,
                    guint64           size,
                    RlxGpuBufferUsage usage,
                    const char       *label,
                    GError          **error)
{
  WGPUBufferUsage wanted = WGPUBufferUsage_CopyDst;
  RlxGpuBuffer *buffer;
  WGPUBuffer handle;
  guint64 capacity;
  guint8 *host = NULL;

  g_return_val_if_fail (gpu != NULL, NULL);
  g_return_val_if_fail (usage != 0, NULL);

  if (label == NULL)
    label = "a buffer";

  if (size > (gpu->info->target.limits.max_buffer_size & ~G_GUINT64_CONSTANT (3)))
    {
      g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_OUT_OF_MEMORY,
                   "“%s” needs %" G_GUINT64_FORMAT " bytes; the largest buffer of the device “%s” has %"
                   G_GUINT64_FORMAT, label, size, gpu->info->name, gpu->info->target.limits.max_buffer_size);
      return NULL;
    }

  if (usage & RLX_GPU_BUFFER_STORAGE)
    wanted |= WGPUBufferUsage_Storage | WGPUBufferUsage_CopySrc;
  if (usage & RLX_GPU_BUFFER_UNIFORM)
    wanted |= WGPUBufferUsage_Uniform;

  capacity = MAX ((size + 3) & ~G_GUINT64_CONSTANT (3), MIN_CAPACITY);
  if ((usage & RLX_GPU_BUFFER_STORAGE) && gpu->host_page > 0 && size >= HOST_MIN)
    {
      guint64 pages = rlx_divide_up (capacity, gpu->host_page) * gpu->host_page;

      if (pages <= gpu->info->target.limits.max_buffer_size)
        capacity = pages;
    }
  handle = rlx_gpu_raw_buffer (gpu, capacity, wanted, (usage & RLX_GPU_BUFFER_STORAGE) ? &host : NULL, label, error);
  if (handle == NULL)
    return NULL;

  buffer = g_new0 (RlxGpuBuffer, 1);
  buffer->gpu = rlx_gpu_ref (gpu);
  buffer->handle = handle;
  buffer->size = size;
  buffer->capacity = capacity;
  buffer->usage = usage;
  buffer->host = host;

  return buffer;
}

void
rlx_gpu_buffer_free (RlxGpuBuffer *buffer)
{
  if (buffer == NULL)
    return;

  /* Dawn keeps the pages as long as a job uses them. */
  if (buffer->host != NULL && !atomic_load (&buffer->gpu->hung) && !rlx_gpu_has_left (buffer->gpu))
    rlx_os_pages_drop (buffer->host, (gsize) buffer->capacity);
  rlx_gpu_raw_buffer_free (buffer->gpu, buffer->handle, buffer->capacity);
  rlx_gpu_unref (buffer->gpu);
  g_free (buffer);
}

guint64
rlx_gpu_buffer_get_size (RlxGpuBuffer *buffer)
{
  g_return_val_if_fail (buffer != NULL, 0);

  return buffer->size;
}

guint8 *
rlx_gpu_buffer_get_host (RlxGpuBuffer *buffer)
{
  g_return_val_if_fail (buffer != NULL, NULL);

  return buffer->host;
}

void
rlx_gpu_buffer_populate (RlxGpuBuffer *buffer,
                         RlxGpuPart    part)
{
  gsize middle, start, end;

  g_return_if_fail (buffer != NULL);

  if (buffer->host == NULL)
    return;
  middle = rlx_os_pages_find_middle ((gsize) buffer->capacity);
  start = part == RLX_GPU_SECOND_HALF ? middle : 0;
  end = part == RLX_GPU_FIRST_HALF ? middle : (gsize) buffer->capacity;
  rlx_os_pages_populate (buffer->host + start, end - start);
}

void
rlx_gpu_count_upload (RlxGpu *gpu,
                      guint64 size)
{
  g_return_if_fail (gpu != NULL);

  atomic_fetch_add (&gpu->n_uploads, 1);
  atomic_fetch_add (&gpu->uploaded_bytes, size);
}

/* Without error scopes and waiting, which the caller handles. */
gboolean
rlx_gpu_write (RlxGpu       *gpu,
               RlxGpuBuffer *buffer,
               guint64       offset,
               const void   *data,
               gsize         size,
               GError      **error)
{
  const guint8 *bytes = data;
  gsize whole = size & ~(gsize) 3;

  if (offset % 4 != 0 || offset > buffer->capacity || size > buffer->capacity - offset)
    {
      g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_INTERNAL,
                   "A write of %" G_GSIZE_FORMAT " bytes at %" G_GUINT64_FORMAT
                   " does not fit a buffer of %" G_GUINT64_FORMAT " bytes",
                   size, offset, buffer->capacity);
      return FALSE;
    }

  /* A job that nobody waited for may still read the contents; the queue waits for it. */
  if (buffer->host != NULL && !rlx_gpu_has_left (gpu))
    {
      memcpy (buffer->host + offset, bytes, size);
      memset (buffer->host + offset + size, 0, -size & 3);
      return TRUE;
    }

  if (whole > 0)
    wgpuQueueWriteBuffer (gpu->queue, buffer->handle, offset, bytes, whole);

  if (whole < size)
    {
      guint8 word[4] = { 0 };

      memcpy (word, bytes + whole, size - whole);
      wgpuQueueWriteBuffer (gpu->queue, buffer->handle, offset + whole, word, sizeof word);
    }

  return TRUE;
}

gboolean
rlx_gpu_buffer_write (RlxGpu       *gpu,
                      RlxGpuBuffer *buffer,
                      guint64       offset,
                      const void   *data,
                      gsize         size,
                      GError      **error)
{
  const guint8 *bytes = data;
  guint64 in_flight = 0;
  gsize done = 0;
  gboolean result = TRUE;
  g_autoptr (GError) local_error = NULL;

  g_return_val_if_fail (gpu != NULL, FALSE);
  g_return_val_if_fail (buffer != NULL, FALSE);
  g_return_val_if_fail (data != NULL || size == 0, FALSE);

  if (!rlx_gpu_check_lost (gpu, error) || !rlx_gpu_enter (error))
    return FALSE;

  rlx_gpu_scopes_push (gpu);

  while (result && done < size)
    {
      gsize length = (gsize) MIN (size - done, WRITE_CHUNK);

      result = rlx_gpu_write (gpu, buffer, offset + done, bytes + done, length, &local_error);
      done += length;
      in_flight += length;

      if (result && in_flight >= WRITE_IN_FLIGHT && done < size)
        {
          result = rlx_gpu_wait (gpu, rlx_gpu_work_done (gpu), rlx_gpu_get_timeout (NULL),
                                 "an upload", &local_error);
          in_flight = 0;
        }
    }

  rlx_gpu_count_upload (gpu, size);
  if (!rlx_gpu_scopes_pop (gpu, "an upload", result ? &local_error : NULL))
    result = FALSE;
  rlx_gpu_leave ();

  if (!result)
    g_propagate_error (error, g_steal_pointer (&local_error));

  return result;
}
