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
  char *driver;            /* as the driver reports it */
  char *backend;           /* "vulkan", "metal", "d3d12", … */
  guint32 vendor_id;
  guint32 device_id;
  RlxAdapterType type;
  guint64 memory_size;     /* bytes of device-local memory, 0 when unknown */
  RlxTarget target;        /* the adapter as the compiler sees it */
} RlxGpuAdapterInfo;

RlxGpuAdapterInfo *rlx_gpu_adapter_info_ref   (RlxGpuAdapterInfo *info);
void               rlx_gpu_adapter_info_unref (RlxGpuAdapterInfo *info);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (RlxGpuAdapterInfo, rlx_gpu_adapter_info_unref)

/* rlx-gpu-traits.c: completes the target of an adapter once its other facts are known. */
void               rlx_gpu_adapter_info_set_traits (RlxGpuAdapterInfo *info);

/* All usable adapters, best first (discrete, integrated, CPU), the Null backend left
 * out. If there are none, the error is RLX_DEVICE_ERROR_NO_ADAPTER, whose message says
 * what to install. (element-type RlxGpuAdapterInfo) */
GPtrArray *rlx_gpu_list_adapters (GError **error);

/* One of them. @selector (nullable: the value of RLX_DEVICE, else the best) is
 * an index in the list, "discrete", "integrated", "cpu" or "gpu" (anything but
 * a CPU), or part of the name, vendor or driver in any case.
 * RLX_DEVICE_ERROR_NOT_FOUND names the selector and the adapters there are. */
RlxGpuAdapterInfo *rlx_gpu_select_adapter (const char *selector,
                                           GError    **error);

/* A few bytes about an adapter that persist across processes. They are stored as safely
 * as compiled shaders, for this driver and this build of the library: NULL if there are
 * none, or if they are damaged. */
GBytes * rlx_gpu_notes_load  (const RlxGpuAdapterInfo *info,
                              const char              *name);
gboolean rlx_gpu_notes_store (const RlxGpuAdapterInfo *info,
                              const char              *name,
                              GBytes                  *bytes);
/* FALSE if they are still there. */
gboolean rlx_gpu_notes_remove (const RlxGpuAdapterInfo *info,
                               const char              *name,
                               GError                 **error);
/* Their path, whether they exist or not; NULL if there is no cache. */
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
/* The target of the device, without features that RLX_DEBUG=no-f16 and similar keys
 * switched off, or that failed the self-test. */
const RlxGpuAdapterInfo *rlx_gpu_get_info      (RlxGpu *gpu);
gboolean                 rlx_gpu_is_lost       (RlxGpu *gpu);
/* NULL while it is not lost; does not change afterwards. */
const char *             rlx_gpu_get_lost_reason (RlxGpu *gpu);
/* FALSE and RLX_DEVICE_ERROR_LOST with the reason if the device is lost. */
gboolean                 rlx_gpu_check_lost    (RlxGpu  *gpu,
                                                GError **error);
guint64                  rlx_gpu_get_memory_used  (RlxGpu *gpu);
guint64                  rlx_gpu_get_memory_limit (RlxGpu *gpu);
/* FALSE and the same error in a process created by fork() after a device had been used.
 * All devices are lost there, and no other can be opened. Locks may be held for ever,
 * so this is checked before taking them. */
gboolean                 rlx_gpu_check_forked  (GError **error);
/* For tests of the loss path. */
void                     rlx_gpu_force_loss    (RlxGpu *gpu, const char *message);

/* How many objects were ever created on this device: a test compares them before and
 * after `run`. */
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

/* ---- objects: may be created and released on any thread --------------------- */

typedef enum
{
  RLX_GPU_BUFFER_STORAGE = 1 << 0,   /* storage + copy source + copy destination */
  RLX_GPU_BUFFER_UNIFORM = 1 << 1,   /* uniform + copy destination */
} RlxGpuBufferUsage;

/* RLX_DEVICE_ERROR_OUT_OF_MEMORY (bytes wanted, used, limit) before anything is
 * allocated if the limit does not allow it; contents are zero at first. */
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

/* Memory for a tensor, possibly reused: the caller must overwrite all of it in a job. When
 * released, it is kept for the next tensor: 4 MiB of small buffers and 32 MiB of large
 * ones, which count as free. */
RlxGpuBuffer *rlx_gpu_pool_take    (RlxGpu        *gpu,
                                    guint64        size,
                                    GError       **error);
void          rlx_gpu_pool_give    (RlxGpuBuffer  *buffer);

/* For writing to host memory that a device uses, without a job. */
void          rlx_gpu_count_upload (RlxGpu        *gpu,
                                    guint64        size);

/* The memory of a storage buffer on a device that works in host memory, otherwise NULL.
 * Read and write it on the device thread after rlx_gpu_settle(), while no job runs, or
 * before anything uses the buffer. */
guint8 *      rlx_gpu_buffer_get_host (RlxGpuBuffer *buffer);
typedef enum
{
  RLX_GPU_WHOLE,
  RLX_GPU_FIRST_HALF,
  RLX_GPU_SECOND_HALF,
} RlxGpuPart;

/* Announces that all of that part is about to be overwritten; two threads can do so for a half each. */
void          rlx_gpu_buffer_populate (RlxGpuBuffer *buffer,
                                       RlxGpuPart    part);

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
  int *n_made;                    /* nullable, atomic: the number that are ready */
} RlxGpuPipelineDesc;

/* Creates all of them, in parallel if Dawn allows, and shares equal ones (same text and
 * bindings) with those the device already has; pipelines[i] is borrowed and lives as
 * long as the device. On failure the error (RLX_COMPILE_ERROR_INTERNAL with the label
 * and Dawn's message, or a device error) names the first bad one in *failed (nullable). */
gboolean rlx_gpu_pipelines_new (RlxGpu                   *gpu,
                                const RlxGpuPipelineDesc *descs,
                                guint                     n_descs,
                                RlxGpuPipeline          **pipelines,
                                guint                    *failed,
                                GCancellable             *cancellable,
                                GError                  **error);

/* Whether the driver compiles a kernel only when it is first dispatched. */
gboolean rlx_gpu_compiles_late  (RlxGpu *gpu);
/* Creates them, and dispatches each as soon as it exists, so that the driver compiles
 * some while the next ones are created. */
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
  double estimate;        /* seconds, for splitting submits; 0 = unknown, small */
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
  /* how long one submit may take, in microseconds; 0: the default */
  guint64 timeout_us;
  int *n_done;                     /* nullable, atomic: receives how many dispatches have ended */
  gboolean watched;                /* submits are kept small, so that this moves */
  /* do not wait for the GPU, which receives the work within moments, unless it takes
   * long; nothing is read back then. If it fails later, the device counts as lost. */
  gboolean leave;
} RlxGpuJob;

/* Encodes, submits in chunks, waits, reads back. Creates no buffer (staging is pooled:
 * a new one is only created if none of the pool fits), bind group or pipeline.
 * @cancellable is checked between submits: after waiting for the work already
 * submitted, the error is G_IO_ERROR_CANCELLED. Before returning TRUE the lost flag,
 * the error scopes and a canary word written by the GPU at the end of the job were
 * checked. */
gboolean rlx_gpu_execute (RlxGpu          *gpu,
                          const RlxGpuJob *job,
                          GCancellable    *cancellable,
                          GError         **error);
/* Waits for all jobs that nobody waited for. */
gboolean rlx_gpu_settle  (RlxGpu          *gpu,
                          GError         **error);

G_END_DECLS
