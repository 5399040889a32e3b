/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Memory of tensors. Making a buffer takes as long as a small job, so small ones go
 * from one tensor to the next. The queue of the device keeps their users apart.
 */
#include "config.h"

#include "rlx-gpu-internal.h"

#define POOLED_MIN 256
#define POOLED_MAX (G_GUINT64_CONSTANT (64) << 10)
#define POOL_MAX (G_GUINT64_CONSTANT (4) << 20)

static guint64
round_up (guint64 size)
{
  guint64 rounded = POOLED_MIN;

  while (rounded < size)
    rounded *= 2;
  return rounded;
}

void
rlx_gpu_pool_init (RlxGpu *gpu)
{
  g_mutex_init (&gpu->pool_lock);
  gpu->pool = g_ptr_array_new ();
}

/* The memory of what is in the pool is not reserved. */
static void
free_pooled (RlxGpu       *gpu,
             RlxGpuBuffer *buffer)
{
  rlx_gpu_raw_buffer_free (gpu, buffer->handle, 0);
  g_free (buffer);
}

void
rlx_gpu_pool_clear (RlxGpu *gpu)
{
  for (guint i = 0; i < gpu->pool->len; i++)
    free_pooled (gpu, g_ptr_array_index (gpu->pool, i));
  g_ptr_array_set_size (gpu->pool, 0);
  gpu->pool_size = 0;
}

RlxGpuBuffer *
rlx_gpu_pool_take (RlxGpu  *gpu,
                   guint64  size,
                   GError **error)
{
  RlxGpuBuffer *found = NULL;

  g_return_val_if_fail (gpu != NULL, NULL);

  if (size > POOLED_MAX)
    return rlx_gpu_buffer_new (gpu, size, RLX_GPU_BUFFER_STORAGE, "a tensor", error);
  size = round_up (size);

  if (!rlx_gpu_check_lost (gpu, error))
    return NULL;
  g_mutex_lock (&gpu->pool_lock);
  for (guint i = gpu->pool->len; found == NULL && i > 0; i--)
    {
      RlxGpuBuffer *buffer = g_ptr_array_index (gpu->pool, i - 1);

      if (buffer->size != size)
        continue;
      found = g_ptr_array_remove_index_fast (gpu->pool, i - 1);
      gpu->pool_size -= found->capacity;
    }
  g_mutex_unlock (&gpu->pool_lock);
  if (found == NULL)
    return rlx_gpu_buffer_new (gpu, size, RLX_GPU_BUFFER_STORAGE, "a tensor", error);

  found->gpu = rlx_gpu_ref (gpu);
  if (!rlx_gpu_reserve (gpu, found->capacity, "a tensor", error))
    {
      free_pooled (gpu, found);
      rlx_gpu_unref (gpu);
      return NULL;
    }
  return found;
}

void
rlx_gpu_pool_give (RlxGpuBuffer *buffer)
{
  RlxGpu *gpu;
  gboolean kept;

  if (buffer == NULL)
    return;
  gpu = buffer->gpu;

  /* A lock may be held for ever. */
  if (buffer->size > POOLED_MAX || rlx_gpu_is_forked ())
    {
      rlx_gpu_buffer_free (buffer);
      return;
    }
  g_mutex_lock (&gpu->pool_lock);
  kept = gpu->pool_size + buffer->capacity <= POOL_MAX;
  if (kept)
    {
      gpu->pool_size += buffer->capacity;
      g_ptr_array_add (gpu->pool, buffer);
      rlx_gpu_release_memory (gpu, buffer->capacity);
    }
  g_mutex_unlock (&gpu->pool_lock);
  if (kept)
    rlx_gpu_unref (gpu);
  else
    rlx_gpu_buffer_free (buffer);
}
