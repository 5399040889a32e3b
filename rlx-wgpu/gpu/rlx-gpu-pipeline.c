/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Pipelines, shared by text and bindings for as long as the device lives, and
 * bind groups.
 *
 * Drivers that compute on the host compile a kernel when it is first dispatched,
 * one after the other on a thread of their own, which takes longer than all the
 * rest of a first start. Here that begins as soon as a pipeline is there, while
 * the next ones are made and weights are brought in.
 */
#include "config.h"

#include "rlx-gpu-internal.h"

#include <string.h>

/* Far above what any kernel binds; keeps arrays on the stack small. */
#define MAX_BIND_GROUPS 40000u
#define MAX_BINDINGS 64

/* Bound when dispatching ahead: enough for an element of any array. Few kernels have
 * more bindings. */
#define SLOT 1024
#define N_SLOTS 16

/* How many pipelines are created at a time while the driver compiles others. */
#define N_AT_ONCE 3

/* A pipeline being made. Filled in by Dawn's callback, so on the heap. */
typedef struct
{
  RlxGpuPipeline *pipeline;
  guint first;                 /* the first description it was created for */
  WGPUFuture future;
  gboolean started;
  gboolean done;
  WGPUCreatePipelineAsyncStatus status;
  WGPUComputePipeline handle;
  char *message;
} Request;

/* ---- the tables ---- */

static guint
pipeline_hash (gconstpointer key)
{
  const RlxGpuPipeline *pipeline = key;

  return pipeline->hash;
}

static gboolean
pipeline_equal (gconstpointer a,
                gconstpointer b)
{
  const RlxGpuPipeline *one = a;
  const RlxGpuPipeline *other = b;

  return one->hash == other->hash &&
         one->n_bindings == other->n_bindings &&
         (one->n_bindings == 0 ||
          memcmp (one->bindings, other->bindings,
                  one->n_bindings * sizeof *one->bindings) == 0) &&
         g_str_equal (one->wgsl, other->wgsl);
}

static void
pipeline_free (gpointer data)
{
  RlxGpuPipeline *pipeline = data;

  g_clear_pointer (&pipeline->handle, wgpuComputePipelineRelease);
  g_free (pipeline->label);
  g_free (pipeline->wgsl);
  g_free (pipeline->bindings);
  g_free (pipeline);
}

static void
layout_free (gpointer data)
{
  RlxGpuLayout *layout = data;

  wgpuPipelineLayoutRelease (layout->pipeline);
  wgpuBindGroupLayoutRelease (layout->group);
  g_free (layout);
}

static void
request_free (gpointer data)
{
  Request *request = data;

  g_clear_pointer (&request->pipeline, pipeline_free);
  g_clear_pointer (&request->handle, wgpuComputePipelineRelease);
  g_free (request->message);
  g_free (request);
}

void
rlx_gpu_pipelines_init (RlxGpu *gpu)
{
  gpu->abandoned = g_ptr_array_new_with_free_func (request_free);
  gpu->pipelines = g_hash_table_new_full (pipeline_hash, pipeline_equal, NULL, pipeline_free);
  gpu->layouts = g_hash_table_new_full (g_bytes_hash, g_bytes_equal,
                                        (GDestroyNotify) g_bytes_unref, layout_free);
}

void
rlx_gpu_pipelines_clear (RlxGpu *gpu)
{
  for (guint i = 0; i < G_N_ELEMENTS (gpu->scratch); i++)
    if (gpu->scratch[i] != NULL)
      rlx_gpu_raw_buffer_free (gpu, g_steal_pointer (&gpu->scratch[i]), SLOT * N_SLOTS);
  g_hash_table_remove_all (gpu->pipelines);
  g_hash_table_remove_all (gpu->layouts);
}

static guint
hash_description (const RlxGpuPipelineDesc *desc)
{
  guint hash = g_str_hash (desc->wgsl);

  for (guint i = 0; i < desc->n_bindings; i++)
    hash = hash * 31 + (guint) desc->bindings[i];

  return hash;
}

static RlxGpuPipeline *
pipeline_new (const RlxGpuPipelineDesc *desc)
{
  RlxGpuPipeline *pipeline = g_new0 (RlxGpuPipeline, 1);

  pipeline->label = g_utf8_make_valid (desc->label != NULL ? desc->label : "kernel", -1);
  pipeline->wgsl = g_strdup (desc->wgsl);
  pipeline->bindings = g_memdup2 (desc->bindings, desc->n_bindings * sizeof *desc->bindings);
  pipeline->n_bindings = desc->n_bindings;
  pipeline->hash = hash_description (desc);

  return pipeline;
}

static RlxGpuPipeline *
lookup (RlxGpu                   *gpu,
        const RlxGpuPipelineDesc *desc)
{
  RlxGpuPipeline key = {
    .wgsl = (char *) desc->wgsl,
    .bindings = (RlxGpuBindingKind *) desc->bindings,
    .n_bindings = desc->n_bindings,
    .hash = hash_description (desc),
  };

  return g_hash_table_lookup (gpu->pipelines, &key);
}

/* ---- layouts ---- */

static RlxGpuLayout *
make_layout (RlxGpu                  *gpu,
             const RlxGpuBindingKind *bindings,
             guint                    n_bindings,
             GError                 **error)
{
  WGPUBindGroupLayoutEntry entries[MAX_BINDINGS];
  WGPUBindGroupLayoutDescriptor group = WGPU_BIND_GROUP_LAYOUT_DESCRIPTOR_INIT;
  WGPUPipelineLayoutDescriptor pipeline = WGPU_PIPELINE_LAYOUT_DESCRIPTOR_INIT;
  RlxGpuLayout *layout;

  for (guint i = 0; i < n_bindings; i++)
    {
      entries[i] = (WGPUBindGroupLayoutEntry) WGPU_BIND_GROUP_LAYOUT_ENTRY_INIT;
      entries[i].binding = i;
      entries[i].visibility = WGPUShaderStage_Compute;
      switch (bindings[i])
        {
        case RLX_GPU_BINDING_READ:
          entries[i].buffer.type = WGPUBufferBindingType_ReadOnlyStorage;
          break;
        case RLX_GPU_BINDING_READ_WRITE:
          entries[i].buffer.type = WGPUBufferBindingType_Storage;
          break;
        case RLX_GPU_BINDING_UNIFORM:
        default:
          entries[i].buffer.type = WGPUBufferBindingType_Uniform;
          break;
        }
    }

  group.entryCount = n_bindings;
  group.entries = entries;

  layout = g_new0 (RlxGpuLayout, 1);
  rlx_gpu_scopes_push (gpu);
  layout->group = wgpuDeviceCreateBindGroupLayout (gpu->device, &group);
  pipeline.bindGroupLayoutCount = 1;
  pipeline.bindGroupLayouts = &layout->group;
  layout->pipeline = wgpuDeviceCreatePipelineLayout (gpu->device, &pipeline);
  if (!rlx_gpu_scopes_pop (gpu, "a pipeline layout", error))
    {
      layout_free (layout);
      return NULL;
    }

  return layout;
}

static RlxGpuLayout *
get_layout (RlxGpu                  *gpu,
            const RlxGpuBindingKind *bindings,
            guint                    n_bindings,
            GError                 **error)
{
  g_autoptr (GBytes) key = g_bytes_new (bindings, n_bindings * sizeof *bindings);
  RlxGpuLayout *layout, *other;

  g_mutex_lock (&gpu->pipeline_lock);
  layout = g_hash_table_lookup (gpu->layouts, key);
  g_mutex_unlock (&gpu->pipeline_lock);
  if (layout != NULL)
    return layout;

  layout = make_layout (gpu, bindings, n_bindings, error);
  if (layout == NULL)
    return NULL;

  /* Another thread may have been faster. */
  g_mutex_lock (&gpu->pipeline_lock);
  other = g_hash_table_lookup (gpu->layouts, key);
  if (other == NULL)
    g_hash_table_insert (gpu->layouts, g_steal_pointer (&key), layout);
  g_mutex_unlock (&gpu->pipeline_lock);

  if (other == NULL)
    return layout;

  layout_free (layout);
  return other;
}

/* ---- creation ------- */

static void
on_pipeline (WGPUCreatePipelineAsyncStatus status,
             WGPUComputePipeline           pipeline,
             WGPUStringView                message,
             void                         *userdata1,
             void                         *userdata2 G_GNUC_UNUSED)
{
  Request *request = userdata1;

  request->status = status;
  request->handle = pipeline;
  request->message = rlx_gpu_string (message);
  request->done = TRUE;
}

/* Puts the kernel's name in front, so that the reader knows which one failed. */
static void
name_error (GError    **error,
            GError     *cause,
            const char *label)
{
  if (g_error_matches (cause, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_INTERNAL))
    g_set_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_INTERNAL,
                 "The driver rejected the kernel “%s”: %s", label, cause->message);
  else
    g_set_error (error, cause->domain, cause->code, "%s: %s", label, cause->message);
  g_error_free (cause);
}

static gboolean
request_start (RlxGpu  *gpu,
               Request *request,
               GError **error)
{
  RlxGpuPipeline *pipeline = request->pipeline;
  WGPUShaderSourceWGSL source = WGPU_SHADER_SOURCE_WGSL_INIT;
  WGPUShaderModuleDescriptor module_descriptor = WGPU_SHADER_MODULE_DESCRIPTOR_INIT;
  WGPUComputePipelineDescriptor descriptor = WGPU_COMPUTE_PIPELINE_DESCRIPTOR_INIT;
  WGPUCreateComputePipelineAsyncCallbackInfo callback = WGPU_CREATE_COMPUTE_PIPELINE_ASYNC_CALLBACK_INFO_INIT;
  WGPUShaderModule module;
  GError *cause = NULL;

  pipeline->layout = get_layout (gpu, pipeline->bindings, pipeline->n_bindings, &cause);
  if (pipeline->layout == NULL)
    {
      name_error (error, cause, pipeline->label);
      return FALSE;
    }

  source.code = rlx_gpu_view (pipeline->wgsl);
  module_descriptor.nextInChain = &source.chain;
  module_descriptor.label = rlx_gpu_view (pipeline->label);

  rlx_gpu_scopes_push (gpu);
  module = wgpuDeviceCreateShaderModule (gpu->device, &module_descriptor);
  if (!rlx_gpu_scopes_pop (gpu, "its text", &cause))
    {
      g_clear_pointer (&module, wgpuShaderModuleRelease);
      name_error (error, cause, pipeline->label);
      return FALSE;
    }
  atomic_fetch_add (&gpu->n_shader_modules, 1);

  descriptor.label = rlx_gpu_view (pipeline->label);
  descriptor.layout = pipeline->layout->pipeline;
  descriptor.compute.module = module;
  descriptor.compute.entryPoint = rlx_gpu_view ("main");

  callback.mode = WGPUCallbackMode_WaitAnyOnly;
  callback.callback = on_pipeline;
  callback.userdata1 = request;
  request->future = wgpuDeviceCreateComputePipelineAsync (gpu->device, &descriptor, callback);
  request->started = TRUE;
  wgpuShaderModuleRelease (module);

  return TRUE;
}

/* @abandoned: Dawn has not answered and may still write to the request. */
static gboolean
request_finish (RlxGpu   *gpu,
                Request  *request,
                gboolean *abandoned,
                GError  **error)
{
  GError *cause = NULL;

  /* Waits to the end even if the device is lost or the process is ending: Dawn's
   * threads are working on it, and must not be when libraries are unloaded. */
  if (!rlx_gpu_wait_to_end (gpu, request->future, rlx_gpu_get_timeout (NULL), "compiling a kernel", &cause))
    {
      *abandoned = !request->done;
      name_error (error, cause, request->pipeline->label);
      return FALSE;
    }

  if (request->status != WGPUCreatePipelineAsyncStatus_Success || request->handle == NULL)
    {
      if (strstr (request->message, "_OUT_OF_") != NULL)
        g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_OUT_OF_MEMORY,
                     "The device has no memory left for the kernel “%s”: %s",
                     request->pipeline->label, request->message);
      else
        g_set_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_INTERNAL,
                     "The driver rejected the kernel “%s”: %s",
                     request->pipeline->label, request->message);
      return FALSE;
    }

  request->pipeline->handle = g_steal_pointer (&request->handle);
  atomic_fetch_add (&gpu->n_pipelines, 1);
  return TRUE;
}

static gboolean
check_description (const RlxGpuPipelineDesc *desc,
                   GError                  **error)
{
  const char *label = desc->label != NULL ? desc->label : "kernel";

  if (desc->wgsl == NULL || (desc->bindings == NULL && desc->n_bindings > 0))
    {
      g_set_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_INTERNAL,
                   "The kernel “%s” has no text", label);
      return FALSE;
    }

  if (desc->n_bindings > MAX_BINDINGS)
    {
      g_set_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_LIMIT,
                   "The kernel “%s” binds %u buffers; the limit is %d",
                   label, desc->n_bindings, MAX_BINDINGS);
      return FALSE;
    }

  return TRUE;
}

static void
count (const RlxGpuPipelineDesc *desc)
{
  if (desc->n_made != NULL)
    g_atomic_int_inc (desc->n_made);
}

static gboolean
make_all (RlxGpu                   *gpu,
          const RlxGpuPipelineDesc *descs,
          guint                     n_descs,
          RlxGpuPipeline          **pipelines,
          guint                    *failed,
          GCancellable             *cancellable,
          GError                  **error)
{
  g_autoptr (GPtrArray) requests = NULL;
  g_autoptr (GHashTable) batch = NULL;
  g_autofree Request **made = NULL;
  GError *first_error = NULL;
  guint first_failed = 0;

  requests = g_ptr_array_new ();
  batch = g_hash_table_new (pipeline_hash, pipeline_equal);
  made = g_new0 (Request *, n_descs);

  for (guint i = 0; i < n_descs && first_error == NULL; i++)
    {
      Request *request;

      first_failed = i;
      if (!check_description (&descs[i], &first_error) ||
          !rlx_gpu_exit_point (gpu, &first_error) ||
          g_cancellable_set_error_if_cancelled (cancellable, &first_error))
        break;

      g_mutex_lock (&gpu->pipeline_lock);
      pipelines[i] = lookup (gpu, &descs[i]);
      g_mutex_unlock (&gpu->pipeline_lock);
      if (pipelines[i] != NULL)
        {
          count (&descs[i]);
          continue;
        }

      request = g_new0 (Request, 1);
      request->pipeline = pipeline_new (&descs[i]);
      request->first = i;

      made[i] = g_hash_table_lookup (batch, request->pipeline);
      if (made[i] != NULL)
        {
          request_free (request);
          count (&descs[i]);
          continue;
        }

      g_ptr_array_add (requests, request);
      g_hash_table_insert (batch, request->pipeline, request);
      made[i] = request;
      request_start (gpu, request, &first_error);
    }

  g_hash_table_remove_all (batch);

  /* Waits for all that were started, even after an error, since Dawn writes to them. */
  for (guint i = 0; i < requests->len; i++)
    {
      Request *request = g_ptr_array_index (requests, i);
      GError *local_error = NULL;
      gboolean abandoned = FALSE;

      if (!request->started)
        continue;

      if (request_finish (gpu, request, &abandoned, &local_error))
        count (&descs[request->first]);
      else
        {
          if (first_error == NULL || request->first < first_failed)
            {
              g_clear_error (&first_error);
              first_error = g_steal_pointer (&local_error);
              first_failed = request->first;
            }
          g_clear_error (&local_error);
          if (abandoned)
            {
              g_mutex_lock (&gpu->pipeline_lock);
              g_ptr_array_add (gpu->abandoned, request);
              g_mutex_unlock (&gpu->pipeline_lock);
              requests->pdata[i] = NULL;
            }
        }
    }

  /* What succeeded is kept even if something else failed. */
  g_mutex_lock (&gpu->pipeline_lock);
  for (guint i = 0; i < requests->len; i++)
    {
      Request *request = g_ptr_array_index (requests, i);
      RlxGpuPipeline *other;

      if (request == NULL || request->pipeline->handle == NULL)
        continue;

      other = g_hash_table_lookup (gpu->pipelines, request->pipeline);
      if (other == NULL)
        {
          other = g_steal_pointer (&request->pipeline);
          g_hash_table_insert (gpu->pipelines, other, other);
        }
      for (guint d = request->first; d < n_descs; d++)
        if (made[d] == request)
          pipelines[d] = other;
    }
  g_mutex_unlock (&gpu->pipeline_lock);

  for (guint i = 0; i < requests->len; i++)
    if (g_ptr_array_index (requests, i) != NULL)
      request_free (g_ptr_array_index (requests, i));

  if (first_error != NULL)
    {
      if (failed != NULL)
        *failed = first_failed;
      g_propagate_error (error, first_error);
      return FALSE;
    }

  return TRUE;
}

gboolean
rlx_gpu_pipelines_new (RlxGpu                   *gpu,
                       const RlxGpuPipelineDesc *descs,
                       guint                     n_descs,
                       RlxGpuPipeline          **pipelines,
                       guint                    *failed,
                       GCancellable             *cancellable,
                       GError                  **error)
{
  gboolean result;

  g_return_val_if_fail (gpu != NULL, FALSE);
  g_return_val_if_fail (descs != NULL || n_descs == 0, FALSE);
  g_return_val_if_fail (pipelines != NULL || n_descs == 0, FALSE);

  if (failed != NULL)
    *failed = 0;
  if (!rlx_gpu_check_lost (gpu, error) || !rlx_gpu_enter (error))
    return FALSE;

  result = make_all (gpu, descs, n_descs, pipelines, failed, cancellable, error);
  rlx_gpu_leave ();

  return result;
}

/* ---- compiling them ahead ---- */

/* GPUs compile when a pipeline is made. */
gboolean
rlx_gpu_compiles_late (RlxGpu *gpu)
{
  g_return_val_if_fail (gpu != NULL, FALSE);

  return gpu->info->type == RLX_ADAPTER_TYPE_CPU;
}

/* One for kernels to read and one for them to write: WebGPU does not let them do
 * both in one buffer. */
static gboolean
make_scratch (RlxGpu  *gpu,
              GError **error)
{
  static const WGPUBufferUsage usages[] = { WGPUBufferUsage_Storage | WGPUBufferUsage_Uniform, WGPUBufferUsage_Storage };
  gboolean made = TRUE;

  g_mutex_lock (&gpu->pipeline_lock);
  for (guint i = 0; made && i < G_N_ELEMENTS (gpu->scratch); i++)
    {
      if (gpu->scratch[i] == NULL)
        gpu->scratch[i] = rlx_gpu_raw_buffer (gpu, SLOT * N_SLOTS, usages[i], NULL, "scratch", error);
      made = gpu->scratch[i] != NULL;
    }
  g_mutex_unlock (&gpu->pipeline_lock);

  return made;
}

static WGPUBindGroup
make_group (RlxGpu         *gpu,
            RlxGpuPipeline *pipeline)
{
  WGPUBindGroupEntry entries[N_SLOTS];
  WGPUBindGroupDescriptor descriptor = WGPU_BIND_GROUP_DESCRIPTOR_INIT;

  for (guint i = 0; i < pipeline->n_bindings; i++)
    {
      gboolean is_params = pipeline->bindings[i] == RLX_GPU_BINDING_UNIFORM;

      entries[i] = (WGPUBindGroupEntry) WGPU_BIND_GROUP_ENTRY_INIT;
      entries[i].binding = i;
      entries[i].buffer = gpu->scratch[pipeline->bindings[i] == RLX_GPU_BINDING_READ_WRITE];
      entries[i].offset = is_params ? 0 : i * SLOT;
      entries[i].size = is_params ? SLOT * N_SLOTS : SLOT;
    }
  descriptor.layout = pipeline->layout->group;
  descriptor.entryCount = pipeline->n_bindings;
  descriptor.entries = entries;

  return wgpuDeviceCreateBindGroup (gpu->device, &descriptor);
}

/* With no workgroups nothing runs, but the driver compiles the kernel. */
static void
encode (RlxGpu                *gpu,
        RlxGpuPipeline *const *pipelines,
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
      group = make_group (gpu, pipelines[i]);
      wgpuComputePassEncoderSetPipeline (pass, pipelines[i]->handle);
      wgpuComputePassEncoderSetBindGroup (pass, 0, group, 0, NULL);
      wgpuComputePassEncoderDispatchWorkgroups (pass, 0, 1, 1);
      wgpuBindGroupRelease (group);
      atomic_fetch_add (&gpu->n_dispatches, 1);
    }
  wgpuComputePassEncoderEnd (pass);
  wgpuComputePassEncoderRelease (pass);
  commands = wgpuCommandEncoderFinish (encoder, NULL);
  wgpuCommandEncoderRelease (encoder);
  atomic_fetch_add (&gpu->n_cold, 1);
  wgpuQueueSubmit (gpu->queue, 1, &commands);
  wgpuCommandBufferRelease (commands);
}

/* Does not wait. */
static gboolean
dispatch_ahead (RlxGpu                *gpu,
                RlxGpuPipeline *const *pipelines,
                guint                  n_pipelines,
                GError               **error)
{
  gboolean result;

  if (!rlx_gpu_check_lost (gpu, error) || !rlx_gpu_enter (error))
    return FALSE;

  result = make_scratch (gpu, error);
  if (result)
    {
      rlx_gpu_scopes_push (gpu);
      encode (gpu, pipelines, n_pipelines);
      result = rlx_gpu_scopes_pop (gpu, "a first dispatch", error);
    }
  rlx_gpu_leave ();

  return result;
}

/* Lists up to @max descriptions, from *@next on, that have no pipeline yet. */
static guint
list_missing (RlxGpu                   *gpu,
              const RlxGpuPipelineDesc *descs,
              guint                     n_descs,
              guint                    *next,
              guint                     max,
              guint                    *missing)
{
  guint n = 0;

  g_mutex_lock (&gpu->pipeline_lock);
  for (; n < max && *next < n_descs; (*next)++)
    if (descs[*next].wgsl == NULL || lookup (gpu, &descs[*next]) == NULL)
      missing[n++] = *next;
    else
      count (&descs[*next]);
  g_mutex_unlock (&gpu->pipeline_lock);

  return n;
}

gboolean
rlx_gpu_pipelines_warm (RlxGpu                   *gpu,
                        const RlxGpuPipelineDesc *descs,
                        guint                     n_descs,
                        guint                    *failed,
                        GCancellable             *cancellable,
                        GError                  **error)
{
  /* One first, since the driver is idle until it has something to compile. */
  guint missing[N_AT_ONCE], n, next = 0, at_once = 1;

  g_return_val_if_fail (gpu != NULL, FALSE);
  g_return_val_if_fail (descs != NULL || n_descs == 0, FALSE);

  for (; (n = list_missing (gpu, descs, n_descs, &next, at_once, missing)) > 0; at_once = N_AT_ONCE)
    {
      RlxGpuPipelineDesc some[N_AT_ONCE];
      RlxGpuPipeline *pipelines[N_AT_ONCE];
      guint which = 0;

      for (guint i = 0; i < n; i++)
        some[i] = descs[missing[i]];
      if (!rlx_gpu_pipelines_new (gpu, some, n, pipelines, &which, cancellable, error))
        {
          if (failed != NULL)
            *failed = missing[which];
          return FALSE;
        }
      if (!dispatch_ahead (gpu, pipelines, n, error))
        return FALSE;
    }

  return !g_cancellable_set_error_if_cancelled (cancellable, error);
}

/* ---- bind groups ---- */

RlxGpuBindGroup *
rlx_gpu_bind_group_new (RlxGpu              *gpu,
                        RlxGpuPipeline      *pipeline,
                        const RlxGpuBinding *bindings,
                        guint                n_bindings,
                        const char          *label,
                        GError             **error)
{
  WGPUBindGroupEntry entries[MAX_BINDINGS];
  WGPUBindGroupDescriptor descriptor = WGPU_BIND_GROUP_DESCRIPTOR_INIT;
  RlxGpuBindGroup *group;
  WGPUBindGroup handle;

  g_return_val_if_fail (gpu != NULL, NULL);
  g_return_val_if_fail (pipeline != NULL, NULL);
  g_return_val_if_fail (bindings != NULL || n_bindings == 0, NULL);

  if (label == NULL)
    label = pipeline->label;

  if (!rlx_gpu_check_lost (gpu, error))
    return NULL;

  if (n_bindings != pipeline->n_bindings)
    {
      g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_INTERNAL,
                   "“%s” binds %u buffers; the kernel “%s” has %u",
                   label, n_bindings, pipeline->label, pipeline->n_bindings);
      return NULL;
    }

  for (guint i = 0; i < n_bindings; i++)
    {
      const RlxGpuBinding *binding = &bindings[i];
      guint64 size = binding->size;

      if (binding->buffer == NULL || binding->size == 0 ||
          binding->offset > binding->buffer->capacity ||
          binding->size > binding->buffer->capacity - binding->offset)
        {
          g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_INTERNAL,
                       "Binding %u of “%s” is %" G_GUINT64_FORMAT " bytes at %" G_GUINT64_FORMAT
                       " of a buffer of %" G_GUINT64_FORMAT " bytes",
                       i, label, binding->size, binding->offset,
                       binding->buffer != NULL ? binding->buffer->capacity : 0);
          return NULL;
        }

      /* Storage is bound in words; the capacity is a whole number of them. */
      size = MIN ((size + 3) & ~G_GUINT64_CONSTANT (3), binding->buffer->capacity - binding->offset);

      entries[i] = (WGPUBindGroupEntry) WGPU_BIND_GROUP_ENTRY_INIT;
      entries[i].binding = i;
      entries[i].buffer = binding->buffer->handle;
      entries[i].offset = binding->offset;
      entries[i].size = size;
    }

  /* Some drivers crash instead of failing when the process runs out of memory
   * mappings, and bind groups cost one every now and then. */
  if (atomic_load (&gpu->n_live_bind_groups) >= MAX_BIND_GROUPS)
    {
      g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_OUT_OF_MEMORY,
                   "The executables of this device have %u bind groups, which is the limit",
                   MAX_BIND_GROUPS);
      return NULL;
    }

  descriptor.label = rlx_gpu_view (label);
  descriptor.layout = pipeline->layout->group;
  descriptor.entryCount = n_bindings;
  descriptor.entries = entries;

  if (!rlx_gpu_enter (error))
    return NULL;

  rlx_gpu_scopes_push (gpu);
  handle = wgpuDeviceCreateBindGroup (gpu->device, &descriptor);
  if (!rlx_gpu_scopes_pop (gpu, label, error))
    g_clear_pointer (&handle, wgpuBindGroupRelease);
  rlx_gpu_leave ();

  if (handle == NULL)
    return NULL;

  atomic_fetch_add (&gpu->n_bind_groups, 1);
  atomic_fetch_add (&gpu->n_live_bind_groups, 1);

  group = g_new0 (RlxGpuBindGroup, 1);
  group->gpu = rlx_gpu_ref (gpu);
  group->handle = handle;
  return group;
}

void
rlx_gpu_bind_group_free (RlxGpuBindGroup *group)
{
  if (group == NULL)
    return;

  if (!atomic_load (&group->gpu->hung) && rlx_gpu_enter (NULL))
    {
      wgpuBindGroupRelease (group->handle);
      rlx_gpu_leave ();
    }
  atomic_fetch_sub (&group->gpu->n_live_bind_groups, 1);
  rlx_gpu_unref (group->gpu);
  g_free (group);
}
