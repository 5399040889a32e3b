/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Stands between the library and Dawn: the functions of webgpu.h that are
 * listed here are defined in the test program, so that the linker prefers them,
 * and call Dawn's own, or let the n-th call go wrong in a way that Dawn has.
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Every call of the library that can fail or start something. */
#define RLX_FAULT_POINTS(point)            \
  point (InstanceRequestAdapter)           \
  point (InstanceWaitAny)                  \
  point (AdapterRequestDevice)             \
  point (DeviceGetQueue)                   \
  point (DevicePushErrorScope)             \
  point (DevicePopErrorScope)              \
  point (DeviceCreateBuffer)               \
  point (DeviceCreateBindGroupLayout)      \
  point (DeviceCreatePipelineLayout)       \
  point (DeviceCreateShaderModule)         \
  point (DeviceCreateComputePipelineAsync) \
  point (DeviceCreateBindGroup)            \
  point (DeviceCreateCommandEncoder)       \
  point (DeviceCreateQuerySet)             \
  point (CommandEncoderBeginComputePass)   \
  point (CommandEncoderCopyBufferToBuffer) \
  point (CommandEncoderResolveQuerySet)    \
  point (CommandEncoderFinish)             \
  point (ComputePassEncoderSetPipeline)    \
  point (ComputePassEncoderSetBindGroup)   \
  point (ComputePassEncoderDispatchWorkgroups) \
  point (ComputePassEncoderEnd)            \
  point (QueueWriteBuffer)                 \
  point (QueueSubmit)                      \
  point (QueueOnSubmittedWorkDone)         \
  point (BufferMapAsync)                   \
  point (BufferGetConstMappedRange)        \
  point (BufferUnmap)                      \
  point (BufferRelease)

#define RLX_FAULT_ENUM(name) RLX_FAULT_AT_##name,
typedef enum
{
  RLX_FAULT_POINTS (RLX_FAULT_ENUM)
  RLX_FAULT_N_POINTS,
  RLX_FAULT_ANYWHERE = RLX_FAULT_N_POINTS,
} RlxFaultPoint;
#undef RLX_FAULT_ENUM

typedef enum
{
  RLX_FAULT_NONE,
  RLX_FAULT_LOSS,        /* the device is lost just before the call */
  RLX_FAULT_VALIDATION,  /* the call works, and a validation error is reported in addition */
  RLX_FAULT_MEMORY,      /* the call works, and exhausted memory is reported in addition */
  RLX_FAULT_REFUSED,     /* the call is made with invalid arguments: an error object is returned */
  RLX_FAULT_NULL,        /* NULL is returned */
  RLX_FAULT_DROPPED,     /* nothing happens, and no error is reported */
  RLX_FAULT_LATE,        /* a wait returns early */
  RLX_FAULT_SLOW,        /* the call takes very long */
  RLX_FAULT_STOPPED,     /* the process is stopped for long, and a wait returns afterwards */
} RlxFaultKind;

#define RLX_FAULT_STOP_MS 2500

const char * rlx_fault_point_name (RlxFaultPoint point);
const char * rlx_fault_kind_name  (RlxFaultKind  kind);

/* Resets the counters; the @nth call (from 1) at @point fails. */
void         rlx_fault_arm        (RlxFaultPoint point,
                                   guint         nth,
                                   RlxFaultKind  kind);
void         rlx_fault_disarm     (void);
/* Whether the fault was injected. */
gboolean     rlx_fault_happened   (void);
/* Calls at @point since the last rlx_fault_arm(). */
guint        rlx_fault_count      (RlxFaultPoint point);

/* Whether the most recently opened device has work to do. */
gboolean     rlx_fault_is_busy    (void);

/* From now on the driver compiles every kernel with matches of @pattern, a regular expression,
 * replaced by @other: results are wrong, and no error is reported. NULL ends that. */
void         rlx_fault_miscompile (const char *pattern,
                                   const char *other);
/* The number of kernels since then that contained a match. */
guint        rlx_fault_n_miscompiled (void);

G_END_DECLS
