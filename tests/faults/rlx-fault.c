/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-fault.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <webgpu/webgpu.h>

static GMutex lock;
static guint counts[RLX_FAULT_N_POINTS + 1];
static WGPUDevice current;
static WGPUInstance current_instance;
static WGPUQueue current_queue;
static struct
{
  RlxFaultPoint point;
  guint nth;
  RlxFaultKind kind;
  gboolean happened;
} armed;

static struct
{
  GRegex *pattern;
  const char *other;
  guint n_kernels;
} miscompiled;

const char *
rlx_fault_point_name (RlxFaultPoint point)
{
#define NAME(name) #name,
  static const char *const names[] = { RLX_FAULT_POINTS (NAME) "any call" };
#undef NAME

  return names[point];
}

const char *
rlx_fault_kind_name (RlxFaultKind kind)
{
  static const char *const names[] = {
    "nothing", "loss", "a validation error", "no memory", "refusal", "NULL", "silence", "an early end", "a long while",
    "a stopped process",
  };

  return names[kind];
}

void
rlx_fault_arm (RlxFaultPoint point,
               guint         nth,
               RlxFaultKind  kind)
{
  g_mutex_lock (&lock);
  armed.point = point;
  armed.nth = nth;
  armed.kind = kind;
  armed.happened = FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (counts); i++)
    counts[i] = 0;
  g_mutex_unlock (&lock);
}

void
rlx_fault_disarm (void)
{
  g_mutex_lock (&lock);
  armed.kind = RLX_FAULT_NONE;
  g_mutex_unlock (&lock);
}

gboolean
rlx_fault_happened (void)
{
  gboolean happened;

  g_mutex_lock (&lock);
  happened = armed.happened;
  g_mutex_unlock (&lock);
  return happened;
}

guint
rlx_fault_count (RlxFaultPoint point)
{
  guint count;

  g_mutex_lock (&lock);
  count = counts[point];
  g_mutex_unlock (&lock);
  return count;
}

void
rlx_fault_miscompile (const char *pattern,
                      const char *other)
{
  g_mutex_lock (&lock);
  g_clear_pointer (&miscompiled.pattern, g_regex_unref);
  if (pattern != NULL)
    miscompiled.pattern = g_regex_new (pattern, 0, 0, NULL);
  g_assert (pattern == NULL || miscompiled.pattern != NULL);
  miscompiled.other = other;
  miscompiled.n_kernels = 0;
  g_mutex_unlock (&lock);
}

guint
rlx_fault_n_miscompiled (void)
{
  guint n;

  g_mutex_lock (&lock);
  n = miscompiled.n_kernels;
  g_mutex_unlock (&lock);
  return n;
}

/* The kernel that the driver is given in place of @descriptor's, or NULL for the original. */
static char *
miscompile (const WGPUShaderModuleDescriptor *descriptor)
{
  const WGPUShaderSourceWGSL *source = (const WGPUShaderSourceWGSL *) descriptor->nextInChain;
  char *code = NULL;

  g_mutex_lock (&lock);
  if (miscompiled.pattern != NULL && source->chain.sType == WGPUSType_ShaderSourceWGSL)
    {
      gssize length = source->code.length == WGPU_STRLEN ? -1 : (gssize) source->code.length;

      if (g_regex_match_full (miscompiled.pattern, source->code.data, length, 0, 0, NULL, NULL))
        {
          code = g_regex_replace (miscompiled.pattern, source->code.data, length, 0, miscompiled.other, 0, NULL);
          miscompiled.n_kernels++;
        }
    }
  g_mutex_unlock (&lock);
  return code;
}

static WGPUStringView
view (const char *text)
{
  return (WGPUStringView) { text, WGPU_STRLEN };
}

/* Someone else has to be left to continue it. */
static void
stop_process (void)
{
  pid_t pid = getpid (), other = fork ();

  if (other == 0)
    {
      usleep (RLX_FAULT_STOP_MS * 1000);
      kill (pid, SIGCONT);
      _exit (0);
    }
  kill (pid, SIGSTOP);
  waitpid (other, NULL, 0);
}

/* The fault for this call, unless it is one that happens before the call and has been done here. */
static RlxFaultKind
reach (RlxFaultPoint point)
{
  RlxFaultKind kind = RLX_FAULT_NONE;
  WGPUDevice device;

  g_mutex_lock (&lock);
  counts[point]++;
  counts[RLX_FAULT_ANYWHERE]++;
  if ((armed.point == point || armed.point == RLX_FAULT_ANYWHERE) && counts[armed.point] == armed.nth)
    {
      kind = armed.kind;
      armed.happened = kind != RLX_FAULT_NONE;
    }
  device = current;
  g_mutex_unlock (&lock);

  switch (kind)
    {
    case RLX_FAULT_LOSS:
      if (device != NULL)
        wgpuDeviceForceLoss (device, WGPUDeviceLostReason_Unknown, view ("a test took it away"));
      return RLX_FAULT_NONE;
    case RLX_FAULT_VALIDATION:
    case RLX_FAULT_MEMORY:
      if (device != NULL)
        wgpuDeviceInjectError (device, kind == RLX_FAULT_MEMORY ? WGPUErrorType_OutOfMemory : WGPUErrorType_Validation,
                               view ("a test said so"));
      return RLX_FAULT_NONE;
    case RLX_FAULT_SLOW:
      g_usleep (50 * 1000);
      return RLX_FAULT_NONE;
    case RLX_FAULT_STOPPED:
      stop_process ();
      return RLX_FAULT_LATE;
    case RLX_FAULT_NONE:
    case RLX_FAULT_REFUSED:
    case RLX_FAULT_NULL:
    case RLX_FAULT_DROPPED:
    case RLX_FAULT_LATE:
    default:
      return kind;
    }
}

#define REAL(function)                                                    \
  ({                                                                      \
    static gpointer real;                                                 \
    if (g_atomic_pointer_get (&real) == NULL)                             \
      g_atomic_pointer_set (&real, dlsym (RTLD_NEXT, #function));         \
    (__typeof__ (&function)) g_atomic_pointer_get (&real);                \
  })

static void
on_idle (WGPUQueueWorkDoneStatus status G_GNUC_UNUSED,
         WGPUStringView          message G_GNUC_UNUSED,
         void                   *userdata1 G_GNUC_UNUSED,
         void                   *userdata2 G_GNUC_UNUSED)
{
}

gboolean
rlx_fault_is_busy (void)
{
  WGPUQueueWorkDoneCallbackInfo callback = WGPU_QUEUE_WORK_DONE_CALLBACK_INFO_INIT;
  WGPUFutureWaitInfo wait = WGPU_FUTURE_WAIT_INFO_INIT;

  callback.mode = WGPUCallbackMode_WaitAnyOnly;
  callback.callback = on_idle;
  wait.future = REAL (wgpuQueueOnSubmittedWorkDone) (current_queue, callback);
  return REAL (wgpuInstanceWaitAny) (current_instance, 1, &wait, 0) == WGPUWaitStatus_TimedOut;
}

/* ---- opening ---- */

WGPUFuture
wgpuInstanceRequestAdapter (WGPUInstance                     instance,
                            const WGPURequestAdapterOptions *options,
                            WGPURequestAdapterCallbackInfo   callback)
{
  WGPURequestAdapterOptions other = *options;

  g_mutex_lock (&lock);
  current_instance = instance;
  g_mutex_unlock (&lock);
  /* no such adapters exist on this system */
  if (reach (RLX_FAULT_AT_InstanceRequestAdapter) == RLX_FAULT_REFUSED)
    other.backendType = WGPUBackendType_D3D11;
  return REAL (wgpuInstanceRequestAdapter) (instance, &other, callback);
}

WGPUWaitStatus
wgpuInstanceWaitAny (WGPUInstance        instance,
                     size_t              n_futures,
                     WGPUFutureWaitInfo *futures,
                     uint64_t            timeout)
{
  switch (reach (RLX_FAULT_AT_InstanceWaitAny))
    {
    case RLX_FAULT_LATE:
      return WGPUWaitStatus_TimedOut;
    case RLX_FAULT_REFUSED:
      return WGPUWaitStatus_Error;
    default:
      return REAL (wgpuInstanceWaitAny) (instance, n_futures, futures, timeout);
    }
}

WGPUFuture
wgpuAdapterRequestDevice (WGPUAdapter                   adapter,
                          const WGPUDeviceDescriptor   *descriptor,
                          WGPURequestDeviceCallbackInfo callback)
{
  WGPUDawnFakeDeviceInitializeErrorForTesting fake = WGPU_DAWN_FAKE_DEVICE_INITIALIZE_ERROR_FOR_TESTING_INIT;
  WGPUDeviceDescriptor other = *descriptor;

  if (reach (RLX_FAULT_AT_AdapterRequestDevice) == RLX_FAULT_REFUSED)
    {
      fake.chain.next = other.nextInChain;
      other.nextInChain = &fake.chain;
    }
  return REAL (wgpuAdapterRequestDevice) (adapter, &other, callback);
}

WGPUQueue
wgpuDeviceGetQueue (WGPUDevice device)
{
  WGPUQueue queue;

  reach (RLX_FAULT_AT_DeviceGetQueue);
  queue = REAL (wgpuDeviceGetQueue) (device);
  g_mutex_lock (&lock);
  current = device;
  current_queue = queue;
  g_mutex_unlock (&lock);
  return queue;
}

void
wgpuDeviceDestroy (WGPUDevice device)
{
  g_mutex_lock (&lock);
  if (current == device)
    current = NULL;
  g_mutex_unlock (&lock);
  REAL (wgpuDeviceDestroy) (device);
}

/* ---- objects ---- */

void
wgpuDevicePushErrorScope (WGPUDevice      device,
                          WGPUErrorFilter filter)
{
  reach (RLX_FAULT_AT_DevicePushErrorScope);
  REAL (wgpuDevicePushErrorScope) (device, filter);
}

WGPUFuture
wgpuDevicePopErrorScope (WGPUDevice                    device,
                         WGPUPopErrorScopeCallbackInfo callback)
{
  reach (RLX_FAULT_AT_DevicePopErrorScope);
  return REAL (wgpuDevicePopErrorScope) (device, callback);
}

WGPUBuffer
wgpuDeviceCreateBuffer (WGPUDevice                  device,
                        const WGPUBufferDescriptor *descriptor)
{
  WGPUDawnFakeBufferOOMForTesting fake = WGPU_DAWN_FAKE_BUFFER_OOM_FOR_TESTING_INIT;
  WGPUBufferDescriptor other = *descriptor;

  switch (reach (RLX_FAULT_AT_DeviceCreateBuffer))
    {
    case RLX_FAULT_NULL:
      return NULL;
    case RLX_FAULT_REFUSED:
      fake.fakeOOMAtDevice = TRUE;
      fake.chain.next = other.nextInChain;
      other.nextInChain = &fake.chain;
      break;
    default:
      break;
    }
  return REAL (wgpuDeviceCreateBuffer) (device, &other);
}

WGPUBindGroupLayout
wgpuDeviceCreateBindGroupLayout (WGPUDevice                           device,
                                 const WGPUBindGroupLayoutDescriptor *descriptor)
{
  WGPUBindGroupLayoutDescriptor other = *descriptor;
  WGPUBindGroupLayoutEntry twice[2];

  if (reach (RLX_FAULT_AT_DeviceCreateBindGroupLayout) == RLX_FAULT_REFUSED && other.entryCount > 0)
    {
      twice[0] = twice[1] = other.entries[0];
      other.entries = twice;
      other.entryCount = 2;
    }
  return REAL (wgpuDeviceCreateBindGroupLayout) (device, &other);
}

WGPUPipelineLayout
wgpuDeviceCreatePipelineLayout (WGPUDevice                          device,
                                const WGPUPipelineLayoutDescriptor *descriptor)
{
  WGPUPipelineLayoutDescriptor other = *descriptor;

  if (reach (RLX_FAULT_AT_DeviceCreatePipelineLayout) == RLX_FAULT_REFUSED)
    other.immediateSize = 1u << 30;
  return REAL (wgpuDeviceCreatePipelineLayout) (device, &other);
}

WGPUShaderModule
wgpuDeviceCreateShaderModule (WGPUDevice                        device,
                              const WGPUShaderModuleDescriptor *descriptor)
{
  WGPUShaderSourceWGSL source = WGPU_SHADER_SOURCE_WGSL_INIT;
  WGPUShaderModuleDescriptor other = *descriptor;
  g_autofree char *code = miscompile (descriptor);

  if (reach (RLX_FAULT_AT_DeviceCreateShaderModule) == RLX_FAULT_REFUSED)
    source.code = view ("this is not WGSL");
  else if (code != NULL)
    source.code = view (code);
  if (source.code.data != NULL)
    other.nextInChain = &source.chain;
  return REAL (wgpuDeviceCreateShaderModule) (device, &other);
}

WGPUFuture
wgpuDeviceCreateComputePipelineAsync (WGPUDevice                                 device,
                                      const WGPUComputePipelineDescriptor       *descriptor,
                                      WGPUCreateComputePipelineAsyncCallbackInfo callback)
{
  WGPUComputePipelineDescriptor other = *descriptor;

  if (reach (RLX_FAULT_AT_DeviceCreateComputePipelineAsync) == RLX_FAULT_REFUSED)
    other.compute.entryPoint = view ("nowhere");
  return REAL (wgpuDeviceCreateComputePipelineAsync) (device, &other, callback);
}

WGPUBindGroup
wgpuDeviceCreateBindGroup (WGPUDevice                     device,
                           const WGPUBindGroupDescriptor *descriptor)
{
  WGPUBindGroupDescriptor other = *descriptor;

  if (reach (RLX_FAULT_AT_DeviceCreateBindGroup) == RLX_FAULT_REFUSED)
    other.entryCount--;
  return REAL (wgpuDeviceCreateBindGroup) (device, &other);
}

WGPUQuerySet
wgpuDeviceCreateQuerySet (WGPUDevice                    device,
                          const WGPUQuerySetDescriptor *descriptor)
{
  WGPUQuerySetDescriptor other = *descriptor;

  if (reach (RLX_FAULT_AT_DeviceCreateQuerySet) == RLX_FAULT_REFUSED)
    other.count = 1u << 30;
  return REAL (wgpuDeviceCreateQuerySet) (device, &other);
}

/* ---- running ---- */

WGPUCommandEncoder
wgpuDeviceCreateCommandEncoder (WGPUDevice                          device,
                                const WGPUCommandEncoderDescriptor *descriptor)
{
  reach (RLX_FAULT_AT_DeviceCreateCommandEncoder);
  return REAL (wgpuDeviceCreateCommandEncoder) (device, descriptor);
}

WGPUComputePassEncoder
wgpuCommandEncoderBeginComputePass (WGPUCommandEncoder               encoder,
                                    const WGPUComputePassDescriptor *descriptor)
{
  reach (RLX_FAULT_AT_CommandEncoderBeginComputePass);
  return REAL (wgpuCommandEncoderBeginComputePass) (encoder, descriptor);
}

void
wgpuCommandEncoderCopyBufferToBuffer (WGPUCommandEncoder encoder,
                                      WGPUBuffer         source,
                                      uint64_t           source_offset,
                                      WGPUBuffer         target,
                                      uint64_t           target_offset,
                                      uint64_t           size)
{
  /* beyond the end */
  if (reach (RLX_FAULT_AT_CommandEncoderCopyBufferToBuffer) == RLX_FAULT_REFUSED)
    target_offset = G_GUINT64_CONSTANT (1) << 40;
  REAL (wgpuCommandEncoderCopyBufferToBuffer) (encoder, source, source_offset, target, target_offset, size);
}

void
wgpuCommandEncoderResolveQuerySet (WGPUCommandEncoder encoder,
                                   WGPUQuerySet       queries,
                                   uint32_t           first,
                                   uint32_t           n_queries,
                                   WGPUBuffer         target,
                                   uint64_t           offset)
{
  if (reach (RLX_FAULT_AT_CommandEncoderResolveQuerySet) == RLX_FAULT_REFUSED)
    offset += 4;
  REAL (wgpuCommandEncoderResolveQuerySet) (encoder, queries, first, n_queries, target, offset);
}

WGPUCommandBuffer
wgpuCommandEncoderFinish (WGPUCommandEncoder                 encoder,
                          const WGPUCommandBufferDescriptor *descriptor)
{
  reach (RLX_FAULT_AT_CommandEncoderFinish);
  return REAL (wgpuCommandEncoderFinish) (encoder, descriptor);
}

void
wgpuComputePassEncoderSetPipeline (WGPUComputePassEncoder pass,
                                   WGPUComputePipeline    pipeline)
{
  if (reach (RLX_FAULT_AT_ComputePassEncoderSetPipeline) != RLX_FAULT_REFUSED)
    REAL (wgpuComputePassEncoderSetPipeline) (pass, pipeline);
}

void
wgpuComputePassEncoderSetBindGroup (WGPUComputePassEncoder pass,
                                    uint32_t               index,
                                    WGPUBindGroup          group,
                                    size_t                 n_offsets,
                                    const uint32_t        *offsets)
{
  if (reach (RLX_FAULT_AT_ComputePassEncoderSetBindGroup) == RLX_FAULT_REFUSED)
    index = 1000;
  REAL (wgpuComputePassEncoderSetBindGroup) (pass, index, group, n_offsets, offsets);
}

void
wgpuComputePassEncoderDispatchWorkgroups (WGPUComputePassEncoder pass,
                                          uint32_t               x,
                                          uint32_t               y,
                                          uint32_t               z)
{
  if (reach (RLX_FAULT_AT_ComputePassEncoderDispatchWorkgroups) == RLX_FAULT_REFUSED)
    x = G_MAXUINT32;
  REAL (wgpuComputePassEncoderDispatchWorkgroups) (pass, x, y, z);
}

void
wgpuComputePassEncoderEnd (WGPUComputePassEncoder pass)
{
  /* the encoder cannot be finished then */
  if (reach (RLX_FAULT_AT_ComputePassEncoderEnd) != RLX_FAULT_REFUSED)
    REAL (wgpuComputePassEncoderEnd) (pass);
}

void
wgpuQueueWriteBuffer (WGPUQueue   queue,
                      WGPUBuffer  buffer,
                      uint64_t    offset,
                      const void *data,
                      size_t      size)
{
  if (reach (RLX_FAULT_AT_QueueWriteBuffer) == RLX_FAULT_REFUSED)
    offset = G_GUINT64_CONSTANT (1) << 40;
  REAL (wgpuQueueWriteBuffer) (queue, buffer, offset, data, size);
}

void
wgpuQueueSubmit (WGPUQueue                queue,
                 size_t                   n_commands,
                 const WGPUCommandBuffer *commands)
{
  if (reach (RLX_FAULT_AT_QueueSubmit) != RLX_FAULT_DROPPED)
    REAL (wgpuQueueSubmit) (queue, n_commands, commands);
}

WGPUFuture
wgpuQueueOnSubmittedWorkDone (WGPUQueue                     queue,
                              WGPUQueueWorkDoneCallbackInfo callback)
{
  reach (RLX_FAULT_AT_QueueOnSubmittedWorkDone);
  return REAL (wgpuQueueOnSubmittedWorkDone) (queue, callback);
}

WGPUFuture
wgpuBufferMapAsync (WGPUBuffer                buffer,
                    WGPUMapMode               mode,
                    size_t                    offset,
                    size_t                    size,
                    WGPUBufferMapCallbackInfo callback)
{
  if (reach (RLX_FAULT_AT_BufferMapAsync) == RLX_FAULT_REFUSED)
    mode = WGPUMapMode_Write;
  return REAL (wgpuBufferMapAsync) (buffer, mode, offset, size, callback);
}

const void *
wgpuBufferGetConstMappedRange (WGPUBuffer buffer,
                               size_t     offset,
                               size_t     size)
{
  if (reach (RLX_FAULT_AT_BufferGetConstMappedRange) == RLX_FAULT_NULL)
    return NULL;
  return REAL (wgpuBufferGetConstMappedRange) (buffer, offset, size);
}

void
wgpuBufferUnmap (WGPUBuffer buffer)
{
  reach (RLX_FAULT_AT_BufferUnmap);
  REAL (wgpuBufferUnmap) (buffer);
}

void
wgpuBufferRelease (WGPUBuffer buffer)
{
  reach (RLX_FAULT_AT_BufferRelease);
  REAL (wgpuBufferRelease) (buffer);
}
