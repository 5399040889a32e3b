/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Memory of tensors. Making a small buffer takes as long as a small job, and the pages of a large one are made and cleared when
 * they are first written, so both go from one tensor to the next. The queue of the device keeps their users apart.
 */
#include "config.h"

#include "rlx-gpu-internal.h"

#define SMALL_MIN 256
#define SMALL_MAX (G_GUINT64_CONSTANT (64) << 10)
#define SMALL_POOL (G_GUINT64_CONSTANT (4) << 20)
#define LARGE_POOL (G_GUINT64_CONSTANT (32) << 20)

/* Small buffers fit several sizes. */
static guint64
round_up (guint64 size)
{
  guint64 rounded = SMALL_MIN;

  if (size > SMALL_MAX)
    return size;
  while (rounded < size)
    rounded *= 2;
  return rounded;
}

static RlxGpuPool *
find_pool (RlxGpu  *gpu,
           guint64  size)
{
  return size > SMALL_MAX ? &gpu->large : &gpu->small;
}

static guint64
get_most (RlxGpu           *gpu,
          const RlxGpuPool *pool)
{
  return pool == &gpu->large ? MIN (LARGE_POOL, gpu->memory_limit / 16) : SMALL_POOL;
}

void
rlx_gpu_pool_init (RlxGpu *gpu)
{
  g_mutex_init (&gpu->pool_lock);
  gpu->small.buffers = g_ptr_array_new ();
  gpu->large.buffers = g_ptr_array_new ();
}

/* Memory in the pool does not count as reserved. */
static void
free_pooled (RlxGpu       *gpu,
             RlxGpuBuffer *buffer)
{
  rlx_gpu_raw_buffer_free (gpu, buffer->handle, 0);
  g_free (buffer);
}

/* Frees the oldest until no more than @most bytes are left. */
static void
shrink (RlxGpu     *gpu,
        RlxGpuPool *pool,
        guint64     most)
{
  while (pool->size > most)
    {
      RlxGpuBuffer *oldest = g_ptr_array_steal_index (pool->buffers, 0);

      pool->size -= oldest->capacity;
      free_pooled (gpu, oldest);
    }
}

void
rlx_gpu_pool_clear (RlxGpu *gpu)
{
  shrink (gpu, &gpu->small, 0);
  shrink (gpu, &gpu->large, 0);
}

RlxGpuBuffer *
rlx_gpu_pool_take (RlxGpu  *gpu,
                   guint64  size,
                   GError **error)
{
  RlxGpuBuffer *found = NULL;
  RlxGpuPool *pool;

  g_return_val_if_fail (gpu != NULL, NULL);

  size = round_up (size);
  pool = find_pool (gpu, size);

  if (!rlx_gpu_check_lost (gpu, error))
    return NULL;
  g_mutex_lock (&gpu->pool_lock);
  for (guint i = pool->buffers->len; found == NULL && i > 0; i--)
    {
      RlxGpuBuffer *buffer = g_ptr_array_index (pool->buffers, i - 1);

      if (buffer->size != size)
        continue;
      found = g_ptr_array_steal_index (pool->buffers, i - 1);
      pool->size -= found->capacity;
    }
  /* What is kept in vain must not be what a new one lacks. */
  if (found == NULL && pool == &gpu->large)
    shrink (gpu, pool, size > get_most (gpu, pool) ? 0 : get_most (gpu, pool) - size);
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
  RlxGpuPool *pool;
  gboolean kept;

  if (buffer == NULL)
    return;
  gpu = buffer->gpu;

  pool = find_pool (gpu, buffer->size);

  /* A lock may be held for ever. */
  if (rlx_gpu_is_forked ())
    {
      rlx_gpu_buffer_free (buffer);
      return;
    }
  g_mutex_lock (&gpu->pool_lock);
  kept = buffer->capacity <= get_most (gpu, pool);
  if (kept)
    {
      shrink (gpu, pool, get_most (gpu, pool) - buffer->capacity);
      pool->size += buffer->capacity;
      g_ptr_array_add (pool->buffers, buffer);
      rlx_gpu_release_memory (gpu, buffer->capacity);
    }
  g_mutex_unlock (&gpu->pool_lock);
  if (kept)
    rlx_gpu_unref (gpu);
  else
    rlx_gpu_buffer_free (buffer);
}
