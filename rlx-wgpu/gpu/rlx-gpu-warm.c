/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Drivers that compute on the host compile a kernel when it is first dispatched,
 * one after the other on a thread of their own, which takes longer than all the
 * rest of a first start. Here that begins as soon as a pipeline is there, while
 * the next ones are made and weights are brought in.
 */
#include "config.h"

#include "rlx-gpu-internal.h"

/* What a binding gets: enough for the elements of any array. Few kernels have more
 * of them. */
#define SLOT 1024
#define N_SLOTS 16

/* GPUs compile when a pipeline is made. Without bounds checks a kernel may only
 * see the buffers that it was written for. */
gboolean
rlx_gpu_compiles_late (RlxGpu *gpu)
{
  g_return_val_if_fail (gpu != NULL, FALSE);

  return gpu->info->type == RLX_ADAPTER_TYPE_CPU && !RLX_DEBUG_CHECK (NO_ROBUSTNESS);
}

void
rlx_gpu_warm_clear (RlxGpu *gpu)
{
  for (guint i = 0; i < G_N_ELEMENTS (gpu->scratch); i++)
    if (gpu->scratch[i] != NULL)
      {
        rlx_gpu_raw_buffer_free (gpu, gpu->scratch[i], SLOT * N_SLOTS);
        gpu->scratch[i] = NULL;
      }
}

/* One for kernels to read and one for them to write: WebGPU does not let them do
 * both in one buffer. */
static gboolean
make_scratch (RlxGpu  *gpu,
              GError **error)
{
  gboolean made = TRUE;

  g_mutex_lock (&gpu->pipeline_lock);
  for (guint i = 0; made && i < G_N_ELEMENTS (gpu->scratch); i++)
    {
      if (gpu->scratch[i] == NULL)
        gpu->scratch[i] = rlx_gpu_raw_buffer (gpu, SLOT * N_SLOTS, WGPUBufferUsage_Storage, NULL, "scratch", error);
      made = gpu->scratch[i] != NULL;
    }
  g_mutex_unlock (&gpu->pipeline_lock);

  return made;
}

static WGPUBindGroup
make_group (RlxGpu              *gpu,
            RlxGpuPipeline      *pipeline,
            const RlxGpuBinding *params)
{
  WGPUBindGroupEntry entries[N_SLOTS];
  WGPUBindGroupDescriptor descriptor = WGPU_BIND_GROUP_DESCRIPTOR_INIT;

  for (guint i = 0; i < pipeline->n_bindings; i++)
    {
      entries[i] = (WGPUBindGroupEntry) WGPU_BIND_GROUP_ENTRY_INIT;
      entries[i].binding = i;
      if (pipeline->bindings[i] == RLX_GPU_BINDING_UNIFORM)
        {
          entries[i].buffer = params->buffer->handle;
          entries[i].offset = params->offset;
          entries[i].size = params->size;
        }
      else
        {
          entries[i].buffer = gpu->scratch[pipeline->bindings[i] == RLX_GPU_BINDING_READ_WRITE];
          entries[i].offset = i * SLOT;
          entries[i].size = SLOT;
        }
    }
  descriptor.layout = pipeline->layout->group;
  descriptor.entryCount = pipeline->n_bindings;
  descriptor.entries = entries;

  return wgpuDeviceCreateBindGroup (gpu->device, &descriptor);
}

static void
encode (RlxGpu                *gpu,
        RlxGpuPipeline *const *pipelines,
        const RlxGpuBinding   *params,
        guint                  n_pipelines)
{
  WGPUCommandEncoder encoder = wgpuDeviceCreateCommandEncoder (gpu->device, NULL);
  WGPUComputePassEncoder pass = wgpuCommandEncoderBeginComputePass (encoder, NULL);
  WGPUCommandBuffer commands;

  for (guint i = 0; i < n_pipelines; i++)
    {
      WGPUBindGroup group;

      if (pipelines[i]->n_bindings > N_SLOTS || !g_atomic_int_compare_and_exchange (&pipelines[i]->ahead, FALSE, TRUE))
        continue;
      group = make_group (gpu, pipelines[i], &params[i]);
      wgpuComputePassEncoderSetPipeline (pass, pipelines[i]->handle);
      wgpuComputePassEncoderSetBindGroup (pass, 0, group, 0, NULL);
      wgpuComputePassEncoderDispatchWorkgroups (pass, 1, 1, 1);
      wgpuBindGroupRelease (group);
      atomic_fetch_add (&gpu->n_dispatches, 1);
    }
  wgpuComputePassEncoderEnd (pass);
  wgpuComputePassEncoderRelease (pass);
  commands = wgpuCommandEncoderFinish (encoder, NULL);
  wgpuCommandEncoderRelease (encoder);
  wgpuQueueSubmit (gpu->queue, 1, &commands);
  wgpuCommandBufferRelease (commands);
}

gboolean
rlx_gpu_pipelines_warm (RlxGpu                *gpu,
                        RlxGpuPipeline *const *pipelines,
                        const RlxGpuBinding   *params,
                        guint                  n_pipelines,
                        GError               **error)
{
  gboolean result;

  g_return_val_if_fail (gpu != NULL, FALSE);

  if (!rlx_gpu_check_lost (gpu, error) || !rlx_gpu_enter (error))
    return FALSE;

  result = make_scratch (gpu, error);
  if (result)
    {
      rlx_gpu_scopes_push (gpu);
      encode (gpu, pipelines, params, n_pipelines);
      result = rlx_gpu_scopes_pop (gpu, "a first dispatch", error);
    }
  rlx_gpu_leave ();

  return result;
}
