/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What the rest of the library sees of the GPU. No type of webgpu.h crosses
 * this header: a change in Dawn stays in this room.
 */
#pragma once

#include <gio/gio.h>
#include "rlx-types.h"
#include "target/rlx-target-private.h"

G_BEGIN_DECLS

/* ---- adapters ---------------------------------------------------------- */

/* Plain facts about one adapter, refcounted and immutable. */
typedef struct
{
  gatomicrefcount ref_count;
  char *name;              /* "llvmpipe (LLVM 21.1.8, 256 bits)" */
  char *vendor;
  char *architecture;
  char *driver;            /* what the driver says of itself */
  char *backend;           /* "vulkan", "metal", "d3d12", … */
  guint32 vendor_id;
  guint32 device_id;
  RlxAdapterType type;
  guint64 memory_size;     /* bytes of device-local memory, 0 when unknown */
  RlxTarget target;        /* what the compiler sees of it */
} RlxGpuAdapterInfo;

RlxGpuAdapterInfo *rlx_gpu_adapter_info_ref   (RlxGpuAdapterInfo *info);
void               rlx_gpu_adapter_info_unref (RlxGpuAdapterInfo *info);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (RlxGpuAdapterInfo, rlx_gpu_adapter_info_unref)

/* rlx-gpu-traits.c: completes the target of an adapter whose other facts are there. */
void               rlx_gpu_adapter_info_set_traits (RlxGpuAdapterInfo *info);

/* All usable adapters, best first (discrete, integrated, CPU), the Null
 * backend left out. An empty list is the error RLX_DEVICE_ERROR_NO_ADAPTER,
 * whose message says what to install. (element-type RlxGpuAdapterInfo) */
GPtrArray *rlx_gpu_list_adapters (GError **error);

/* One of them. @selector (nullable: the value of RLX_DEVICE, else the best) is
 * an index in the list, "discrete", "integrated", "cpu" or "gpu" (anything but
 * a CPU), or part of the name, vendor or driver in any case.
 * RLX_DEVICE_ERROR_NOT_FOUND names the selector and the adapters there are. */
RlxGpuAdapterInfo *rlx_gpu_select_adapter (const char *selector,
                                           GError    **error);

/* A few bytes about an adapter that outlive the process. They are kept with the
 * compiled shaders, as safely, for this driver and this build of the library:
 * NULL when there are none or when they are not as they were stored. */
GBytes * rlx_gpu_notes_load  (const RlxGpuAdapterInfo *info,
                              const char              *name);
gboolean rlx_gpu_notes_store (const RlxGpuAdapterInfo *info,
                              const char              *name,
                              GBytes                  *bytes);
/* FALSE when they are still there. */
gboolean rlx_gpu_notes_remove (const RlxGpuAdapterInfo *info,
                               const char              *name,
                               GError                 **error);
/* Where they are or would be; NULL where there is no cache. */
char *   rlx_gpu_notes_get_path (const RlxGpuAdapterInfo *info,
                                 const char              *name);

/* ---- an open device ---------------------------------------------------- */

typedef struct _RlxGpu RlxGpu;
typedef struct _RlxGpuBuffer RlxGpuBuffer;
typedef struct _RlxGpuPipeline RlxGpuPipeline;
typedef struct _RlxGpuBindGroup RlxGpuBindGroup;

/* Called at most once, on an unspecified thread, when the device is lost. */
typedef void (*RlxGpuLostFunc) (const char *reason,
                                gpointer    user_data);

RlxGpu *rlx_gpu_open  (RlxGpuAdapterInfo *info,
                       GError           **error);
RlxGpu *rlx_gpu_ref   (RlxGpu *gpu);
void    rlx_gpu_unref (RlxGpu *gpu);   /* safe on every thread, never blocks on a hung device */
G_DEFINE_AUTOPTR_CLEANUP_FUNC (RlxGpu, rlx_gpu_unref)

void                     rlx_gpu_set_lost_func (RlxGpu        *gpu,
                                                RlxGpuLostFunc func,
                                                gpointer       user_data,
                                                GDestroyNotify destroy);
/* What the device was opened with: RLX_DEBUG=no-f16 and friends are already
 * taken out of features here, as are features the known-answer check rejected. */
const RlxGpuAdapterInfo *rlx_gpu_get_info      (RlxGpu *gpu);
gboolean                 rlx_gpu_is_lost       (RlxGpu *gpu);
/* NULL while it is not lost; then it stays. */
const char *             rlx_gpu_get_lost_reason (RlxGpu *gpu);
/* FALSE and RLX_DEVICE_ERROR_LOST with the reason when the device is lost. */
gboolean                 rlx_gpu_check_lost    (RlxGpu  *gpu,
                                                GError **error);
guint64                  rlx_gpu_get_memory_used  (RlxGpu *gpu);
guint64                  rlx_gpu_get_memory_limit (RlxGpu *gpu);
/* FALSE and the same error in a process that was made by fork() from one that had
 * used a device. All devices are lost there, and no other can be opened. Locks may
 * be held for ever, so this is asked before they are taken. */
gboolean                 rlx_gpu_check_forked  (GError **error);
/* For tests of the loss path. */
void                     rlx_gpu_force_loss    (RlxGpu *gpu, const char *message);

/* How many objects were ever made on this device: a test reads them before
 * and after `run`. */
typedef struct
{
  guint64 buffers;
  guint64 bind_groups;
  guint64 pipelines;
  guint64 shader_modules;
  guint64 submits;
  guint64 dispatches;
  guint64 waits;           /* for the GPU, by jobs */
  guint64 uploads;         /* from the host; copies on the device are neither */
  guint64 uploaded_bytes;
  guint64 downloads;
  guint64 downloaded_bytes;
  guint64 cache_hits;
  guint64 cache_misses;
} RlxGpuCounters;
void rlx_gpu_get_counters (RlxGpu         *gpu,
                           RlxGpuCounters *counters);

/* ---- the device thread ------------------------------------------------- */

/* Runs @func on the device's own thread after everything queued before it.
 * _invoke returns at once; _invoke_sync waits for @func to return, and calls it
 * directly when already on that thread. @func holds a reference on gpu. */
typedef void (*RlxGpuFunc) (RlxGpu  *gpu,
                            gpointer user_data);
void rlx_gpu_invoke      (RlxGpu *gpu, RlxGpuFunc func, gpointer user_data);
void rlx_gpu_invoke_sync (RlxGpu *gpu, RlxGpuFunc func, gpointer user_data);
/* How many calls the thread has not begun. */
guint rlx_gpu_count_queued (RlxGpu *gpu);

/* ---- objects: may be made and released on any thread --------------------- */

typedef enum
{
  RLX_GPU_BUFFER_STORAGE = 1 << 0,   /* storage + copy source + copy destination */
  RLX_GPU_BUFFER_UNIFORM = 1 << 1,   /* uniform + copy destination */
} RlxGpuBufferUsage;

/* RLX_DEVICE_ERROR_OUT_OF_MEMORY (bytes wanted, used, limit) before anything
 * is allocated when the budget does not allow it; contents start as zeros. */
RlxGpuBuffer *rlx_gpu_buffer_new   (RlxGpu            *gpu,
                                    guint64            size,
                                    RlxGpuBufferUsage  usage,
                                    const char        *label,
                                    GError           **error);
void          rlx_gpu_buffer_free  (RlxGpuBuffer *buffer);
guint64       rlx_gpu_buffer_get_size (RlxGpuBuffer *buffer);
/* Upload outside a run (weights, parameters); any size, chunked. offset and
 * size need only be multiples of 4 on the device: the last word of an odd
 * size is padded with zeros by the callee. */
gboolean      rlx_gpu_buffer_write (RlxGpu       *gpu,
                                    RlxGpuBuffer *buffer,
                                    guint64       offset,
                                    const void   *data,
                                    gsize         size,
                                    GError      **error);

/* Memory for a tensor, which may have held another before: whoever takes it writes all of it
 * in a job. Given back, it is kept for the next tensor: 4 MiB of small buffers and 32 MiB
 * of large ones, which count as free. */
RlxGpuBuffer *rlx_gpu_pool_take    (RlxGpu        *gpu,
                                    guint64        size,
                                    GError       **error);
void          rlx_gpu_pool_give    (RlxGpuBuffer  *buffer);

/* For who writes to the host's memory of a device without a job. */
void          rlx_gpu_count_upload (RlxGpu        *gpu,
                                    guint64        size);

/* The memory of a storage buffer on a device that works in the host's own, else
 * NULL. Read and write it on the device thread after rlx_gpu_settle(), when no job
 * runs, or before anything uses the buffer. */
guint8 *      rlx_gpu_buffer_get_host (RlxGpuBuffer *buffer);
/* All of it is about to be written there. */
void          rlx_gpu_buffer_populate (RlxGpuBuffer *buffer);

typedef enum
{
  RLX_GPU_BINDING_READ,        /* var<storage, read> */
  RLX_GPU_BINDING_READ_WRITE,  /* var<storage, read_write> */
  RLX_GPU_BINDING_UNIFORM,
} RlxGpuBindingKind;

typedef struct
{
  const char *label;              /* op name, for messages and captures */
  const char *wgsl;               /* whole module, entry point "main" */
  const RlxGpuBindingKind *bindings;   /* group 0, @binding(0) … */
  guint n_bindings;
  int *n_made;                    /* nullable, atomic: counts those that are ready */
} RlxGpuPipelineDesc;

/* Makes all of them, in parallel where Dawn allows, sharing equal ones (same
 * text and bindings) with those the device already has; pipelines[i] is
 * borrowed: it lives as long as the device. On failure the error
 * (RLX_COMPILE_ERROR_INTERNAL with the label and Dawn's message, or a device
 * error) names the first bad one in *failed (nullable). */
gboolean rlx_gpu_pipelines_new (RlxGpu                   *gpu,
                                const RlxGpuPipelineDesc *descs,
                                guint                     n_descs,
                                RlxGpuPipeline          **pipelines,
                                guint                    *failed,
                                GCancellable             *cancellable,
                                GError                  **error);

/* Whether the driver compiles a kernel only when it is first dispatched. */
gboolean rlx_gpu_compiles_late  (RlxGpu *gpu);
/* Makes them, and begins that for each, so that the driver is busy with some when
 * the next ones are made. */
gboolean rlx_gpu_pipelines_warm (RlxGpu                   *gpu,
                                 const RlxGpuPipelineDesc *descs,
                                 guint                     n_descs,
                                 guint                    *failed,
                                 GCancellable             *cancellable,
                                 GError                  **error);

typedef struct
{
  RlxGpuBuffer *buffer;
  guint64 offset;
  guint64 size;
} RlxGpuBinding;

RlxGpuBindGroup *rlx_gpu_bind_group_new  (RlxGpu              *gpu,
                                          RlxGpuPipeline      *pipeline,
                                          const RlxGpuBinding *bindings,
                                          guint                n_bindings,
                                          const char          *label,
                                          GError             **error);
void             rlx_gpu_bind_group_free (RlxGpuBindGroup *group);

/* ---- running: only on the device thread ---------------------------------- */

typedef struct
{
  RlxGpuBuffer *buffer;
  guint64 offset;
  const void *data;
  gsize size;
} RlxGpuUpload;

typedef struct
{
  RlxGpuPipeline *pipeline;
  RlxGpuBindGroup *group;
  guint32 grid[3];
  double estimate;        /* seconds, for cutting submits; 0 = unknown, small */
} RlxGpuDispatch;

typedef struct
{
  RlxGpuBuffer *buffer;   /* copied from: [offset, offset + size) */
  guint64 offset;
  gsize size;             /* any size; read rounded up to a word internally */
  void *data;             /* receives size bytes */
} RlxGpuDownload;

typedef struct
{
  RlxGpuBuffer *source;
  guint64 source_offset;
  RlxGpuBuffer *target;
  guint64 target_offset;
  guint64 size;
} RlxGpuCopy;

typedef struct
{
  const RlxGpuUpload *uploads;
  guint n_uploads;
  const RlxGpuCopy *copies_in;     /* buffer to buffer, before the dispatches */
  guint n_copies_in;
  const RlxGpuDispatch *dispatches;
  guint n_dispatches;
  const RlxGpuCopy *copies;        /* buffer to buffer, after the dispatches */
  guint n_copies;
  const RlxGpuDownload *downloads; /* after the copies; one staging copy, one map */
  guint n_downloads;
  /* when not NULL and the device has timestamps: n_dispatches values, GPU
   * nanoseconds of each dispatch (one pass per dispatch then) */
  guint64 *dispatch_ns;
  /* how long one submit may take, in microseconds; 0: as long as usual */
  guint64 timeout_us;
  int *n_done;                     /* nullable, atomic: receives how many dispatches have ended */
  gboolean watched;                /* submits are kept small, so that this moves */
  /* do not wait for the GPU, which gets it within moments, unless it takes long;
   * there is nothing to read then. Should it fail later, the device counts as lost. */
  gboolean leave;
} RlxGpuJob;

/* Encodes, submits in chunks, waits, reads back. Makes no buffer (staging is
 * pooled: a new one only when none of the pool fits), bind group or pipeline.
 * @cancellable is looked at between submits: the work already submitted is
 * waited for, then G_IO_ERROR_CANCELLED. Before returning TRUE the lost flag,
 * the error scopes and a canary word written by the GPU at the end of the job
 * were checked. */
gboolean rlx_gpu_execute (RlxGpu          *gpu,
                          const RlxGpuJob *job,
                          GCancellable    *cancellable,
                          GError         **error);
/* Waits for all jobs that were left. */
gboolean rlx_gpu_settle  (RlxGpu          *gpu,
                          GError         **error);

G_END_DECLS
