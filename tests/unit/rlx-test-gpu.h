/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What the tests of the GPU room share: a device, a kernel with its buffers,
 * and jobs from any thread.
 */
#pragma once

#include "gpu/rlx-gpu-private.h"
#include "util/rlx-debug-private.h"

#include <string.h>

/* For kernels with two buffers, the first of which is read-only. */
extern const RlxGpuBindingKind read_write_pair[2];
/* Such a kernel, for 32-bit integers. */
extern const char twice_wgsl[];

RlxGpu *open_device (void);

/* A kernel with its two buffers. */
typedef struct
{
  RlxGpu *gpu;
  RlxGpuPipeline *pipeline;
  RlxGpuBuffer *a;
  RlxGpuBuffer *b;
  RlxGpuBindGroup *group;
  guint n;
  guint64 timeout_us;      /* of the jobs */
} Kernel;

void kernel_init (Kernel *kernel, RlxGpu *gpu, const char *wgsl, guint n);
void kernel_clear (Kernel *kernel);
RlxGpuDispatch kernel_dispatch (const Kernel *kernel);

/* Arguments for rlx_gpu_execute() in any thread. */
typedef struct
{
  const RlxGpuJob *job;
  GCancellable *cancellable;
  gboolean result;
  GError *error;
} Call;

void call_run (RlxGpu *gpu, gpointer user_data);
gboolean execute (RlxGpu *gpu, const RlxGpuJob *job, GCancellable *cancellable, GError **error);
gboolean run_kernel (Kernel *kernel, const guint32 *input, guint32 *output, GError **error);
guint32 *make_input (guint n, guint seed);
void check_twice (Kernel *kernel, guint seed);
/* Runs the test again in a few subprocesses, all of which must exit cleanly and silently. */
void check_exits (void);
