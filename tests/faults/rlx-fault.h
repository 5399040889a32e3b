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

/* Every call the library makes that can fail or start something. */
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
  RLX_FAULT_VALIDATION,  /* the call works, and a validation error is reported with it */
  RLX_FAULT_MEMORY,      /* the call works, and exhausted memory is reported with it */
  RLX_FAULT_REFUSED,     /* the call is made with something wrong: an error object comes back */
  RLX_FAULT_NULL,        /* NULL comes back */
  RLX_FAULT_DROPPED,     /* nothing happens, and nobody says so */
  RLX_FAULT_LATE,        /* a wait ends before its time */
  RLX_FAULT_SLOW,        /* the call takes a long while */
  RLX_FAULT_STOPPED,     /* the process is stopped for a long while, and a wait ends with it */
} RlxFaultKind;

#define RLX_FAULT_STOP_MS 2500

const char * rlx_fault_point_name (RlxFaultPoint point);
const char * rlx_fault_kind_name  (RlxFaultKind  kind);

/* Counts anew; the @nth call (from 1) at @point goes wrong. */
void         rlx_fault_arm        (RlxFaultPoint point,
                                   guint         nth,
                                   RlxFaultKind  kind);
void         rlx_fault_disarm     (void);
/* Whether it happened. */
gboolean     rlx_fault_happened   (void);
/* Calls at @point since the last rlx_fault_arm(). */
guint        rlx_fault_count      (RlxFaultPoint point);

/* Whether the device that was opened last has work to do. */
gboolean     rlx_fault_is_busy    (void);

/* From now on the driver takes every kernel for one in which what matches @pattern, a regular
 * expression, is replaced by @other: results are wrong, and nobody says so. NULL ends that. */
void         rlx_fault_miscompile (const char *pattern,
                                   const char *other);
/* In how many kernels there was something to replace since then. */
guint        rlx_fault_n_miscompiled (void);

G_END_DECLS
