/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Pieces that the commands of a job are made of. All on the device thread.
 */
#include "config.h"

#include "rlx-gpu-internal.h"

#define CANARIES 256
#define CANARIES_SIZE (CANARIES * sizeof (guint32))

void
rlx_gpu_encode_dispatch (WGPUComputePassEncoder pass,
                         const RlxGpuDispatch  *dispatch,
                         const RlxGpuDispatch  *previous)
{
  RLX_NOTE (DISPATCH, "%s, %u x %u x %u workgroups", dispatch->pipeline->label,
            dispatch->grid[0], dispatch->grid[1], dispatch->grid[2]);
  if (previous == NULL || previous->pipeline != dispatch->pipeline)
    wgpuComputePassEncoderSetPipeline (pass, dispatch->pipeline->handle);
  if (previous == NULL || previous->group != dispatch->group)
    wgpuComputePassEncoderSetBindGroup (pass, 0, dispatch->group->handle, 0, NULL);
  wgpuComputePassEncoderDispatchWorkgroups (pass, dispatch->grid[0], dispatch->grid[1], dispatch->grid[2]);
}

void
rlx_gpu_encode_dispatches (WGPUCommandEncoder    encoder,
                           const RlxGpuDispatch *dispatches,
                           guint                 n_dispatches)
{
  const RlxGpuDispatch *previous = NULL;
  WGPUComputePassEncoder pass = NULL;

  for (guint i = 0; i < n_dispatches; i++)
    {
      if (rlx_gpu_dispatch_is_empty (&dispatches[i]))
        continue;
      if (pass == NULL)
        pass = wgpuCommandEncoderBeginComputePass (encoder, NULL);
      rlx_gpu_encode_dispatch (pass, &dispatches[i], previous);
      previous = &dispatches[i];
    }

  if (pass != NULL)
    {
      wgpuComputePassEncoderEnd (pass);
      wgpuComputePassEncoderRelease (pass);
    }
}

/* Encodes nothing if one of them does not fit. */
gboolean
rlx_gpu_encode_copies (WGPUCommandEncoder encoder,
                       const RlxGpuCopy  *copies,
                       guint              n_copies,
                       GError           **error)
{
  for (guint i = 0; i < n_copies; i++)
    {
      const RlxGpuCopy *copy = &copies[i];
      guint64 size = (copy->size + 3) & ~G_GUINT64_CONSTANT (3);

      if (copy->size > size ||
          copy->source_offset > copy->source->capacity ||
          size > copy->source->capacity - copy->source_offset ||
          copy->target_offset > copy->target->capacity ||
          size > copy->target->capacity - copy->target_offset)
        {
          g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_INTERNAL,
                       "A copy of %" G_GUINT64_FORMAT " bytes from %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT
                       " to %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " does not fit",
                       copy->size, copy->source_offset, copy->source->capacity,
                       copy->target_offset, copy->target->capacity);
          return FALSE;
        }
    }

  for (guint i = 0; i < n_copies; i++)
    if (copies[i].size > 0)
      wgpuCommandEncoderCopyBufferToBuffer (encoder, copies[i].source->handle, copies[i].source_offset,
                                            copies[i].target->handle, copies[i].target_offset,
                                            (copies[i].size + 3) & ~G_GUINT64_CONSTANT (3));

  return TRUE;
}

gboolean
rlx_gpu_prepare_canary (RlxGpu  *gpu,
                        GError **error)
{
  if (gpu->canary == NULL)
    gpu->canary = rlx_gpu_raw_buffer (gpu, CANARIES_SIZE, WGPUBufferUsage_CopySrc | WGPUBufferUsage_CopyDst,
                                      NULL, "canary", error);
  return gpu->canary != NULL;
}

void
rlx_gpu_clear_canary (RlxGpu *gpu)
{
  if (gpu->canary != NULL)
    rlx_gpu_raw_buffer_free (gpu, gpu->canary, CANARIES_SIZE);
  gpu->canary = NULL;
}

/* Copies a number that was never used before over the previous one. The GPU only
 * reaches the copy after everything before it, so a job that a driver silently dropped
 * shows in the stale number. A kernel that writes the number would prove little more,
 * as it depends no more on the kernels before it than the copy does, and on a CPU
 * driver it costs as much as a small job. The numbers are uploaded ahead, many at a
 * time, so what is encoded has to be submitted before the next upload. */
guint32
rlx_gpu_encode_canary (RlxGpu            *gpu,
                       WGPUCommandEncoder encoder,
                       WGPUBuffer         target,
                       guint64            offset)
{
  if (gpu->n_canaries == 0)
    {
      guint32 numbers[CANARIES];

      for (guint i = 0; i < CANARIES; i++)
        numbers[i] = gpu->sequence + 1 + i;
      wgpuQueueWriteBuffer (gpu->queue, gpu->canary, 0, numbers, sizeof numbers);
      gpu->n_canaries = CANARIES;
    }

  wgpuCommandEncoderCopyBufferToBuffer (encoder, gpu->canary, (CANARIES - gpu->n_canaries) * sizeof gpu->sequence,
                                        target, offset, sizeof gpu->sequence);
  gpu->n_canaries--;
  return ++gpu->sequence;
}

void
rlx_gpu_submit (RlxGpu            *gpu,
                WGPUCommandEncoder encoder)
{
  WGPUCommandBuffer commands = wgpuCommandEncoderFinish (encoder, NULL);

  wgpuQueueSubmit (gpu->queue, 1, &commands);
  wgpuCommandBufferRelease (commands);
  atomic_fetch_add (&gpu->n_submits, 1);
}
