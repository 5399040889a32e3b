/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * One process with the bare calls of Dawn: write, dispatch, copy, map, read. It
 * is what any library on top of it can hope for at best. Everything is made
 * beforehand, and it polls for the end, which is quicker than to sleep. Its
 * arguments are those of rlx-bench.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include <webgpu/webgpu.h>

#include "workloads.h"

#define N_ELEMENTS 16
#define SIZE (N_ELEMENTS * sizeof (float))
#define SECOND_NS G_GUINT64_CONSTANT (1000000000)
#define NO_ADAPTER 77

typedef struct
{
  WGPUInstance instance;
  WGPUAdapter adapter;
  WGPUDevice device;
  WGPUQueue queue;
  WGPUBuffer input, output, staging;
  WGPUComputePipeline pipeline;
  WGPUBindGroup group;
  gboolean failed;
} Dawn;

static const char source[] =
  "@group(0) @binding(0) var<storage, read> x: array<f32>;\n"
  "@group(0) @binding(1) var<storage, read_write> y: array<f32>;\n"
  "@compute @workgroup_size(16) fn main(@builtin(global_invocation_id) id: vec3<u32>) { y[id.x] = x[id.x] + x[id.x]; }\n";

static WGPUStringView
view (const char *text)
{
  return (WGPUStringView) { text, strlen (text) };
}

static void
on_adapter (WGPURequestAdapterStatus status,
            WGPUAdapter              adapter,
            WGPUStringView           message G_GNUC_UNUSED,
            void                    *data,
            void                    *unused G_GNUC_UNUSED)
{
  if (status == WGPURequestAdapterStatus_Success)
    ((Dawn *) data)->adapter = adapter;
}

static void
on_device (WGPURequestDeviceStatus status,
           WGPUDevice              device,
           WGPUStringView          message G_GNUC_UNUSED,
           void                   *data,
           void                   *unused G_GNUC_UNUSED)
{
  if (status == WGPURequestDeviceStatus_Success)
    ((Dawn *) data)->device = device;
}

static void
on_error (const WGPUDevice *device G_GNUC_UNUSED,
          WGPUErrorType     type G_GNUC_UNUSED,
          WGPUStringView    message,
          void             *data,
          void             *unused G_GNUC_UNUSED)
{
  g_printerr ("rlx-bench-dawn: %.*s\n", (int) message.length, message.data);
  ((Dawn *) data)->failed = TRUE;
}

static void
on_lost (const WGPUDevice     *device G_GNUC_UNUSED,
         WGPUDeviceLostReason  reason G_GNUC_UNUSED,
         WGPUStringView        message G_GNUC_UNUSED,
         void                 *data G_GNUC_UNUSED,
         void                 *unused G_GNUC_UNUSED)
{
}

static void
on_map (WGPUMapAsyncStatus  status,
        WGPUStringView      message G_GNUC_UNUSED,
        void               *data,
        void               *unused G_GNUC_UNUSED)
{
  if (status != WGPUMapAsyncStatus_Success)
    ((Dawn *) data)->failed = TRUE;
}

static gboolean
wait_for (Dawn       *self,
          WGPUFuture  future,
          guint64     timeout)
{
  WGPUFutureWaitInfo wait = WGPU_FUTURE_WAIT_INFO_INIT;

  wait.future = future;
  return wgpuInstanceWaitAny (self->instance, 1, &wait, timeout) == WGPUWaitStatus_Success && wait.completed;
}

static WGPUBuffer
make_buffer (Dawn            *self,
             WGPUBufferUsage  usage)
{
  WGPUBufferDescriptor descriptor = WGPU_BUFFER_DESCRIPTOR_INIT;

  descriptor.size = SIZE;
  descriptor.usage = usage;
  return wgpuDeviceCreateBuffer (self->device, &descriptor);
}

static gboolean
open_device (Dawn *self)
{
  static const WGPUInstanceFeatureName features[] = { WGPUInstanceFeatureName_TimedWaitAny };
  WGPUInstanceDescriptor instance = WGPU_INSTANCE_DESCRIPTOR_INIT;
  WGPURequestAdapterOptions options = WGPU_REQUEST_ADAPTER_OPTIONS_INIT;
  WGPURequestAdapterCallbackInfo adapter_callback = WGPU_REQUEST_ADAPTER_CALLBACK_INFO_INIT;
  WGPUDeviceDescriptor device = WGPU_DEVICE_DESCRIPTOR_INIT;
  WGPURequestDeviceCallbackInfo device_callback = WGPU_REQUEST_DEVICE_CALLBACK_INFO_INIT;

  instance.requiredFeatureCount = G_N_ELEMENTS (features);
  instance.requiredFeatures = features;
  self->instance = wgpuCreateInstance (&instance);
  if (self->instance == NULL)
    return FALSE;
  options.backendType = WGPUBackendType_Vulkan;
  adapter_callback.mode = WGPUCallbackMode_WaitAnyOnly;
  adapter_callback.callback = on_adapter;
  adapter_callback.userdata1 = self;
  wait_for (self, wgpuInstanceRequestAdapter (self->instance, &options, adapter_callback), 30 * SECOND_NS);
  if (self->adapter == NULL)
    return FALSE;
  device.uncapturedErrorCallbackInfo.callback = on_error;
  device.uncapturedErrorCallbackInfo.userdata1 = self;
  device.deviceLostCallbackInfo.mode = WGPUCallbackMode_AllowSpontaneous;
  device.deviceLostCallbackInfo.callback = on_lost;
  device_callback.mode = WGPUCallbackMode_WaitAnyOnly;
  device_callback.callback = on_device;
  device_callback.userdata1 = self;
  wait_for (self, wgpuAdapterRequestDevice (self->adapter, &device, device_callback), 30 * SECOND_NS);
  return self->device != NULL;
}

static void
prepare (Dawn *self)
{
  WGPUShaderSourceWGSL wgsl = WGPU_SHADER_SOURCE_WGSL_INIT;
  WGPUShaderModuleDescriptor module_descriptor = WGPU_SHADER_MODULE_DESCRIPTOR_INIT;
  WGPUComputePipelineDescriptor pipeline = WGPU_COMPUTE_PIPELINE_DESCRIPTOR_INIT;
  WGPUBindGroupEntry entries[2] = { WGPU_BIND_GROUP_ENTRY_INIT, WGPU_BIND_GROUP_ENTRY_INIT };
  WGPUBindGroupDescriptor group = WGPU_BIND_GROUP_DESCRIPTOR_INIT;
  WGPUBindGroupLayout layout;
  WGPUShaderModule module;

  self->queue = wgpuDeviceGetQueue (self->device);
  self->input = make_buffer (self, WGPUBufferUsage_Storage | WGPUBufferUsage_CopyDst);
  self->output = make_buffer (self, WGPUBufferUsage_Storage | WGPUBufferUsage_CopySrc);
  self->staging = make_buffer (self, WGPUBufferUsage_MapRead | WGPUBufferUsage_CopyDst);

  wgsl.code = view (source);
  module_descriptor.nextInChain = &wgsl.chain;
  module = wgpuDeviceCreateShaderModule (self->device, &module_descriptor);
  pipeline.compute.module = module;
  pipeline.compute.entryPoint = view ("main");
  self->pipeline = wgpuDeviceCreateComputePipeline (self->device, &pipeline);
  wgpuShaderModuleRelease (module);

  layout = wgpuComputePipelineGetBindGroupLayout (self->pipeline, 0);
  for (guint i = 0; i < G_N_ELEMENTS (entries); i++)
    {
      entries[i].binding = i;
      entries[i].buffer = i == 0 ? self->input : self->output;
      entries[i].size = SIZE;
    }
  group.layout = layout;
  group.entryCount = G_N_ELEMENTS (entries);
  group.entries = entries;
  self->group = wgpuDeviceCreateBindGroup (self->device, &group);
  wgpuBindGroupLayoutRelease (layout);
}

static gboolean
run (Dawn        *self,
     const float *x,
     float       *y)
{
  WGPUBufferMapCallbackInfo callback = WGPU_BUFFER_MAP_CALLBACK_INFO_INIT;
  WGPUCommandEncoder encoder;
  WGPUComputePassEncoder pass;
  WGPUCommandBuffer commands;
  WGPUFuture future;
  const void *mapped;
  gint64 start = g_get_monotonic_time ();

  wgpuQueueWriteBuffer (self->queue, self->input, 0, x, SIZE);
  encoder = wgpuDeviceCreateCommandEncoder (self->device, NULL);
  pass = wgpuCommandEncoderBeginComputePass (encoder, NULL);
  wgpuComputePassEncoderSetPipeline (pass, self->pipeline);
  wgpuComputePassEncoderSetBindGroup (pass, 0, self->group, 0, NULL);
  wgpuComputePassEncoderDispatchWorkgroups (pass, 1, 1, 1);
  wgpuComputePassEncoderEnd (pass);
  wgpuComputePassEncoderRelease (pass);
  wgpuCommandEncoderCopyBufferToBuffer (encoder, self->output, 0, self->staging, 0, SIZE);
  commands = wgpuCommandEncoderFinish (encoder, NULL);
  wgpuCommandEncoderRelease (encoder);
  wgpuQueueSubmit (self->queue, 1, &commands);
  wgpuCommandBufferRelease (commands);

  callback.mode = WGPUCallbackMode_WaitAnyOnly;
  callback.callback = on_map;
  callback.userdata1 = self;
  future = wgpuBufferMapAsync (self->staging, WGPUMapMode_Read, 0, SIZE, callback);
  while (!wait_for (self, future, 0))
    if (self->failed || g_get_monotonic_time () - start > 30 * G_USEC_PER_SEC)
      return FALSE;
  mapped = self->failed ? NULL : wgpuBufferGetConstMappedRange (self->staging, 0, SIZE);
  if (mapped == NULL)
    return FALSE;
  memcpy (y, mapped, SIZE);
  wgpuBufferUnmap (self->staging);
  return TRUE;
}

static void
finish (Dawn *self)
{
  g_clear_pointer (&self->group, wgpuBindGroupRelease);
  g_clear_pointer (&self->pipeline, wgpuComputePipelineRelease);
  g_clear_pointer (&self->input, wgpuBufferRelease);
  g_clear_pointer (&self->output, wgpuBufferRelease);
  g_clear_pointer (&self->staging, wgpuBufferRelease);
  g_clear_pointer (&self->queue, wgpuQueueRelease);
  g_clear_pointer (&self->device, wgpuDeviceRelease);
  g_clear_pointer (&self->adapter, wgpuAdapterRelease);
  g_clear_pointer (&self->instance, wgpuInstanceRelease);
}

static gboolean
measure (Dawn       *self,
         const char *folder,
         const char *output,
         double      seconds)
{
  const BenchWorkload *workload = bench_find_workload ("tiny-roundtrip");
  g_autofree char *name = bench_file_name (workload, BENCH_INPUT), *path = g_build_filename (folder, name, NULL), *x = NULL;
  g_autofree double *times = g_new (double, BENCH_MAX_RUNS);
  g_autoptr(GError) error = NULL;
  float y[N_ELEMENTS];
  gsize length, n = 0;
  gint64 begin;

  g_assert (workload->size[0] == N_ELEMENTS);
  if (!g_file_get_contents (path, &x, &length, &error))
    {
      g_printerr ("rlx-bench-dawn: %s\n", error->message);
      return FALSE;
    }
  g_assert (length >= SIZE);
  prepare (self);
  if (!run (self, (const float *) x, y) || !bench_write_floats (output, y, N_ELEMENTS))
    return FALSE;
  begin = g_get_monotonic_time ();
  for (guint i = 0; bench_warm_up (begin, i); i++)
    if (!run (self, (const float *) x, y))
      return FALSE;
  for (begin = g_get_monotonic_time (); bench_continue (begin, seconds, n);)
    {
      gint64 start = g_get_monotonic_time ();

      if (!run (self, (const float *) x, y))
        return FALSE;
      times[n++] = (double) (g_get_monotonic_time () - start) * 1e-3;
    }
  bench_print_times (times, n, NULL);
  return TRUE;
}

int
main (int   argc,
      char *argv[])
{
  g_autofree char *name = NULL, *folder = NULL, *output = NULL;
  double seconds = 0.5;
  const GOptionEntry entries[] = {
    { "workload", 0, 0, G_OPTION_ARG_STRING, &name, "What to measure", "NAME" },
    { "folder", 0, 0, G_OPTION_ARG_FILENAME, &folder, "Where rlx-bench-data has put its data", "FOLDER" },
    { "output", 0, 0, G_OPTION_ARG_FILENAME, &output, "Write the result to this file", "FILE" },
    { "seconds", 0, 0, G_OPTION_ARG_DOUBLE, &seconds, "How long to measure (0.5)", "S" },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GOptionContext) context = g_option_context_new (NULL);
  g_autoptr(GError) error = NULL;
  Dawn self = { 0 };
  int status;

  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error) || folder == NULL || g_strcmp0 (name, "tiny-roundtrip") != 0)
    {
      g_printerr ("rlx-bench-dawn: %s\n", error ? error->message : "--workload tiny-roundtrip and --folder are needed");
      return 2;
    }
  if (open_device (&self))
    status = measure (&self, folder, output, seconds) ? 0 : 1;
  else
    status = NO_ADAPTER;
  finish (&self);
  return status;
}
