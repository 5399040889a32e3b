/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The memory that results are copied to and read from, kept from job to job.
 */
#include "config.h"

#include "rlx-gpu-internal.h"

#define STAGING_MIN (G_GUINT64_CONSTANT (64) << 10)
/* Large staging that was not used for a while is released. */
#define STAGING_LARGE (G_GUINT64_CONSTANT (16) << 20)
#define STAGING_POOL_MAX (G_GUINT64_CONSTANT (512) << 20)
#define STAGING_IDLE (30 * G_USEC_PER_SEC)

static void
staging_drop (RlxGpu *gpu,
              guint   index)
{
  RlxGpuStaging *staging = &g_array_index (gpu->staging, RlxGpuStaging, index);

  gpu->staging_size -= staging->size;
  rlx_gpu_raw_buffer_free (gpu, staging->handle, staging->size);
  g_array_remove_index_fast (gpu->staging, index);
}

/* Releases the excess, the oldest first. */
void
rlx_gpu_staging_trim (RlxGpu  *gpu,
                      guint64  keep)
{
  guint64 now = (guint64) g_get_monotonic_time ();

  for (guint i = gpu->staging->len; i > 0; i--)
    {
      const RlxGpuStaging *staging = &g_array_index (gpu->staging, RlxGpuStaging, i - 1);

      if (staging->size > STAGING_LARGE && now - staging->last_used > STAGING_IDLE)
        staging_drop (gpu, i - 1);
    }

  while (gpu->staging_size > keep)
    {
      guint oldest = 0;

      for (guint i = 1; i < gpu->staging->len; i++)
        if (g_array_index (gpu->staging, RlxGpuStaging, i).last_used <
            g_array_index (gpu->staging, RlxGpuStaging, oldest).last_used)
          oldest = i;
      staging_drop (gpu, oldest);
    }
}

gboolean
rlx_gpu_staging_take (RlxGpu        *gpu,
                      guint64        size,
                      RlxGpuStaging *staging,
                      GError       **error)
{
  guint best = G_MAXUINT;
  guint64 class_size = STAGING_MIN;

  for (guint i = 0; i < gpu->staging->len; i++)
    {
      guint64 other = g_array_index (gpu->staging, RlxGpuStaging, i).size;

      if (other >= size &&
          (best == G_MAXUINT || other < g_array_index (gpu->staging, RlxGpuStaging, best).size))
        best = i;
    }

  if (best != G_MAXUINT)
    {
      *staging = g_array_index (gpu->staging, RlxGpuStaging, best);
      gpu->staging_size -= staging->size;
      g_array_remove_index_fast (gpu->staging, best);
      return TRUE;
    }

  while (class_size < size)
    class_size *= 2;

  staging->size = class_size;
  staging->handle = rlx_gpu_raw_buffer (gpu, class_size,
                                        WGPUBufferUsage_MapRead | WGPUBufferUsage_CopyDst,
                                        NULL, "staging", error);
  return staging->handle != NULL;
}

void
rlx_gpu_staging_give_back (RlxGpu        *gpu,
                           RlxGpuStaging *staging)
{
  if (staging->handle == NULL)
    return;

  staging->last_used = (guint64) g_get_monotonic_time ();
  g_array_append_val (gpu->staging, *staging);
  gpu->staging_size += staging->size;
  staging->handle = NULL;

  rlx_gpu_staging_trim (gpu, STAGING_POOL_MAX);
}
