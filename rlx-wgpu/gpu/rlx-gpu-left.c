/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Jobs that nobody waits for.
 *
 * They are collected, since a submit costs more than a small job: what the device thread
 * finds in its queue in succession is submitted together, at the latest when nothing has
 * arrived for a moment. Each submit writes a number when it is finished, and the next job
 * that is waited for reads the numbers of all. If one of them has failed, there is nobody to
 * tell, so the device is given up.
 */
#include "config.h"

#include "rlx-gpu-internal.h"

#define WORDS_SIZE (RLX_GPU_LEFT_MAX * sizeof (guint32))

/* The limits of what is left to the GPU at a time: a later wait would be long, and the memory of
 * uploads is only released then. */
#define LEFT_SECONDS 0.2
#define LEFT_BYTES (G_GUINT64_CONSTANT (64) << 20)
/* Limits of what is collected before a submit. They start low, so that the GPU soon has something
 * to do, and double with each submit, since more can be collected while it is busy. */
#define OPEN_SECONDS 1e-3
#define OPEN_JOBS 16
#define OPEN_DOUBLINGS 3

gboolean
rlx_gpu_has_left (RlxGpu *gpu)
{
  return atomic_load (&gpu->left_any);
}

gboolean
rlx_gpu_left_is_open (RlxGpu *gpu)
{
  return gpu->left_encoder != NULL;
}

/* Whether another job may be left before waiting for the others. A single one may have any size. */
gboolean
rlx_gpu_left_has_room (RlxGpu *gpu,
                       double  seconds,
                       guint64 bytes)
{
  return !rlx_gpu_has_left (gpu) ||
         (gpu->n_left + 1 < RLX_GPU_LEFT_MAX && gpu->left_seconds + seconds <= LEFT_SECONDS && gpu->left_bytes + bytes <= LEFT_BYTES);
}

/* Something went wrong while left jobs were running. */
void
rlx_gpu_left_fail (RlxGpu       *gpu,
                   const GError *error)
{
  if (rlx_gpu_has_left (gpu))
    rlx_gpu_mark_lost (gpu, error->message, FALSE);
}

/* Submits the jobs that were collected. */
gboolean
rlx_gpu_left_flush (RlxGpu  *gpu,
                    GError **error)
{
  WGPUCommandEncoder encoder = g_steal_pointer (&gpu->left_encoder);
  g_autoptr (GError) stray = NULL;

  if (encoder == NULL)
    return TRUE;
  gpu->left[gpu->n_left] = rlx_gpu_encode_canary (gpu, encoder, gpu->left_words, rlx_gpu_left_get_size (gpu));
  gpu->n_left++;
  gpu->open_jobs = 0;
  gpu->open_seconds = 0.0;
  rlx_gpu_submit (gpu, encoder);
  wgpuCommandEncoderRelease (encoder);
  if (!rlx_gpu_check_uncaptured (gpu, "a job", &stray))
    rlx_gpu_left_fail (gpu, stray);
  return rlx_gpu_check_lost (gpu, error);
}

/* Adds a job that has been checked, and for which there is room. */
gboolean
rlx_gpu_left_add (RlxGpu          *gpu,
                  const RlxGpuJob *job,
                  guint64          allowance,
                  double           seconds,
                  guint64          bytes,
                  GError         **error)
{
  WGPUCommandEncoder encoder;

  if (gpu->left_words == NULL)
    gpu->left_words = rlx_gpu_raw_buffer (gpu, WORDS_SIZE, WGPUBufferUsage_CopySrc | WGPUBufferUsage_CopyDst,
                                          NULL, "job numbers", error);
  if (gpu->left_words == NULL)
    return FALSE;
  /* Uploads happen before anything that is submitted after them, so earlier jobs must be submitted
   * first. */
  if (job->n_uploads > 0 && (!rlx_gpu_left_flush (gpu, error) || !rlx_gpu_write_uploads (gpu, job, error)))
    return FALSE;

  if (gpu->left_encoder == NULL)
    gpu->left_encoder = wgpuDeviceCreateCommandEncoder (gpu->device, NULL);
  encoder = gpu->left_encoder;
  atomic_store (&gpu->left_any, true);
  gpu->left_allowance += allowance;
  gpu->left_seconds += seconds;
  gpu->left_bytes += bytes;
  gpu->open_seconds += seconds;
  gpu->open_jobs++;
  if (!rlx_gpu_encode_copies (encoder, job->copies_in, job->n_copies_in, error))
    return FALSE;
  rlx_gpu_encode_dispatches (encoder, job->dispatches, job->n_dispatches);
  if (!rlx_gpu_encode_copies (encoder, job->copies, job->n_copies, error))
    return FALSE;
  atomic_fetch_add (&gpu->n_dispatches, job->n_dispatches);
  /* Nobody waited for this job, so the next one is likely to come soon. */
  rlx_gpu_set_waited (gpu, 0);
  if (gpu->open_jobs >> gpu->open_doublings < OPEN_JOBS && gpu->open_seconds < OPEN_SECONDS * (1u << gpu->open_doublings))
    return TRUE;
  gpu->open_doublings = MIN (gpu->open_doublings + 1, OPEN_DOUBLINGS);
  return rlx_gpu_left_flush (gpu, error);
}

/* The size of the jobs' numbers in bytes. */
guint64
rlx_gpu_left_get_size (RlxGpu *gpu)
{
  return gpu->n_left * sizeof (guint32);
}

/* @words are the numbers that the jobs wrote. */
gboolean
rlx_gpu_left_check (RlxGpu        *gpu,
                    const guint32 *words,
                    GError       **error)
{
  for (guint i = 0; i < gpu->n_left; i++)
    if (words[i] != gpu->left[i])
      {
        g_autofree char *reason = g_strdup_printf ("the GPU did not finish job %u: its last word is %u", gpu->left[i], words[i]);

        rlx_gpu_mark_lost (gpu, reason, FALSE);
        return rlx_gpu_check_lost (gpu, error);
      }
  gpu->n_left = 0;
  gpu->left_allowance = 0;
  gpu->left_seconds = 0.0;
  gpu->left_bytes = 0;
  gpu->open_doublings = 0;
  atomic_store (&gpu->left_any, false);
  return TRUE;
}

void
rlx_gpu_left_clear (RlxGpu *gpu)
{
  g_clear_pointer (&gpu->left_encoder, wgpuCommandEncoderRelease);
  if (gpu->left_words != NULL)
    rlx_gpu_raw_buffer_free (gpu, gpu->left_words, WORDS_SIZE);
  gpu->left_words = NULL;
}

gboolean
rlx_gpu_settle (RlxGpu  *gpu,
                GError **error)
{
  const RlxGpuJob nothing = { .n_dispatches = 0 };

  g_return_val_if_fail (gpu != NULL, FALSE);

  return !rlx_gpu_has_left (gpu) || rlx_gpu_execute (gpu, &nothing, NULL, error);
}
