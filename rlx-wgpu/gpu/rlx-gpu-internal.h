/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What the files of this room share. Only they include it, and with it
 * webgpu.h.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include <webgpu/webgpu.h>

#include "gpu/rlx-gpu-private.h"
#include "util/rlx-debug-private.h"

G_BEGIN_DECLS

typedef struct _RlxGpuCache RlxGpuCache;

/* Dawn has no f16 on NVIDIA's cards without it, and so no matrices of f16, since conformance tests fail there. What is
 * computed with f16 here is checked when a device is opened (rlx-gpu-post.c), and matrices before they are used. */
#define RLX_GPU_TOGGLE_F16 "vulkan_enable_f16_on_nvidia"

/* How many submits may be left to the GPU before somebody waits for them. */
#define RLX_GPU_LEFT_MAX 128

/* Memory that tensors gave back. */
typedef struct
{
  GPtrArray *buffers;      /* RlxGpuBuffer without a reference to the device, the oldest first */
  guint64 size;
} RlxGpuPool;

/* A MapRead buffer of the pool. */
typedef struct
{
  WGPUBuffer handle;
  guint64 size;
  guint64 last_used;       /* job sequence, the oldest is dropped first */
} RlxGpuStaging;

struct _RlxGpu
{
  int ref_count;
  RlxGpuAdapterInfo *info;
  WGPUDevice device;
  WGPUQueue queue;

  /* Dawn reports success for nearly everything after a loss, so this flag and
   * not a status is what decides whether a result may be handed out. */
  atomic_bool lost;
  /* The GPU never came back from a job. Releasing the device or anything of
   * it could block for ever, so all handles are left where they are. */
  atomic_bool hung;
  atomic_bool closing;

  GMutex lock;             /* the strings and the lost func */
  char *lost_reason;
  char *uncaptured;
  WGPUErrorType uncaptured_type;
  char *last_log;
  RlxGpuLostFunc lost_func;
  gpointer lost_data;
  GDestroyNotify lost_destroy;
  gboolean lost_called;
  GRecMutex lost_func_lock;

  GThread *thread;
  GMutex queue_lock;
  GCond queue_cond;
  GQueue items;
  GQueue spare_items;      /* what held items before and will again */
  gboolean quit;
  atomic_uint n_items;     /* what a thread that has not slept yet looks at */
  atomic_bool slow;        /* the last wait for the GPU was a long one */

  /* What buffers in the host's memory are a multiple of; 0: there are none. */
  guint32 host_page;

  atomic_ullong memory_used;
  guint64 memory_limit;

  atomic_ullong n_buffers;
  atomic_ullong n_bind_groups;       /* ever made */
  atomic_ullong n_live_bind_groups;
  atomic_ullong n_pipelines;
  atomic_ullong n_shader_modules;
  atomic_ullong n_submits;
  atomic_ullong n_dispatches;
  atomic_ullong n_waits;
  atomic_ullong n_uploads;
  atomic_ullong uploaded_bytes;
  atomic_ullong n_downloads;
  atomic_ullong downloaded_bytes;

  GMutex pool_lock;
  RlxGpuPool small, large;

  /* Submits with kernels that the driver may have to compile first, and how many of
   * them are known to have ended. */
  atomic_uint n_cold;
  atomic_uint n_cold_done;

  GMutex pipeline_lock;
  GHashTable *pipelines;   /* (element-type RlxGpuPipeline RlxGpuPipeline) */
  GHashTable *layouts;     /* (element-type GBytes RlxGpuLayout) */
  GPtrArray *abandoned;    /* requests Dawn may still write to */

  WGPUBuffer scratch[2];   /* under pipeline_lock while they are made */

  RlxGpuCache *cache;

  /* Only touched by the device thread. */
  guint32 sequence;
  WGPUMapAsyncStatus map_status;
  char *map_message;
  WGPUBuffer canary;
  guint n_canaries;        /* numbers left in it */
  atomic_bool left_any;    /* there are jobs that nobody has waited for; other threads read it */
  WGPUCommandEncoder left_encoder;  /* of those that are not submitted yet; nullable */
  guint open_jobs;         /* in it */
  double open_seconds;
  guint open_doublings;    /* of what is collected at most */
  guint n_left;            /* submits of others */
  guint32 left[RLX_GPU_LEFT_MAX];  /* the number of each */
  guint64 left_allowance;  /* microseconds that a wait for them may take longer */
  double left_seconds;     /* what they may take */
  guint64 left_bytes;      /* uploaded for them */
  WGPUBuffer left_words;   /* where they write their numbers */
  GArray *chunks;          /* of the job that runs; see rlx-gpu-execute.c */
  GArray *segments;
  GArray *staging;         /* RlxGpuStaging */
  guint64 staging_size;
  WGPUQuerySet queries;
  WGPUBuffer resolve;
  guint64 resolve_size;
};

struct _RlxGpuBuffer
{
  RlxGpu *gpu;
  WGPUBuffer handle;
  guint64 size;            /* what was asked for */
  guint64 capacity;        /* what there is, a multiple of a word */
  RlxGpuBufferUsage usage;
  guint8 *host;            /* nullable: its memory */
};

typedef struct
{
  WGPUBindGroupLayout group;
  WGPUPipelineLayout pipeline;
} RlxGpuLayout;

struct _RlxGpuPipeline
{
  char *label;
  char *wgsl;
  RlxGpuBindingKind *bindings;
  guint n_bindings;
  guint hash;
  RlxGpuLayout *layout;    /* borrowed from the device */
  WGPUComputePipeline handle;
  gboolean warm;           /* device thread: dispatched before */
  int ahead;               /* atomic: was dispatched in order to be compiled */
};

struct _RlxGpuBindGroup
{
  RlxGpu *gpu;
  WGPUBindGroup handle;
};

/* rlx-gpu-adapter.c */
WGPUInstance       rlx_gpu_get_instance    (GError **error);
WGPUAdapter        rlx_gpu_request_adapter (RlxGpuAdapterInfo *info,
                                            GError           **error);
void               rlx_gpu_limits_init     (RlxLimits        *limits,
                                            const WGPULimits *from);
RlxGpuAdapterInfo *rlx_gpu_adapter_describe (WGPUAdapter adapter);
RlxGpuAdapterInfo *rlx_gpu_adapter_info_copy (const RlxGpuAdapterInfo *info);
gboolean           rlx_gpu_check_secure    (GError **error);

/* rlx-gpu-vulkan.c */
const char *       rlx_gpu_vulkan_problem  (void);
void               rlx_gpu_vulkan_done     (void);

/* rlx-gpu-device.c */
char *             rlx_gpu_string          (WGPUStringView view);
WGPUStringView     rlx_gpu_view            (const char *string);
void               rlx_gpu_mark_lost       (RlxGpu     *gpu,
                                            const char *reason,
                                            gboolean    hung);
gboolean           rlx_gpu_reserve         (RlxGpu     *gpu,
                                            guint64     size,
                                            const char *label,
                                            GError    **error);
void               rlx_gpu_release_memory  (RlxGpu  *gpu,
                                            guint64  size);
char *             rlx_gpu_steal_uncaptured (RlxGpu        *gpu,
                                            WGPUErrorType *type);
void               rlx_gpu_teardown        (RlxGpu *gpu);

/* rlx-gpu-post.c: FALSE when the device computes nonsense; features that do
 * are taken out of @features. */
gboolean           rlx_gpu_known_answers   (RlxGpu            *gpu,
                                            RlxDeviceFeatures *features,
                                            GError           **error);

/* rlx-gpu-thread.c */
gboolean           rlx_gpu_thread_start    (RlxGpu  *gpu,
                                            GError **error);
gboolean           rlx_gpu_on_thread       (RlxGpu *gpu);
void               rlx_gpu_post            (RlxGpu    *gpu,
                                            RlxGpuFunc func,
                                            gpointer   user_data);
void               rlx_gpu_thread_quit     (RlxGpu *gpu);
gboolean           rlx_gpu_enter           (GError **error);
void               rlx_gpu_leave           (void);
gboolean           rlx_gpu_exit_point      (RlxGpu  *gpu,
                                            GError **error);
void               rlx_gpu_watch_exit      (void);
void               rlx_gpu_watch_fork      (void);
void               rlx_gpu_set_used        (void);
gboolean           rlx_gpu_is_forked       (void);
guint64            rlx_gpu_get_spin        (RlxGpu *gpu);
void               rlx_gpu_set_waited      (RlxGpu *gpu,
                                            guint64 microseconds);

/* rlx-gpu-wait.c */
guint64            rlx_gpu_get_timeout     (gboolean *given);
guint64            rlx_gpu_count_look      (gint64 *last,
                                            guint64 meant);
gboolean           rlx_gpu_wait            (RlxGpu     *gpu,
                                            WGPUFuture  future,
                                            guint64     timeout_us,
                                            const char *what,
                                            GError    **error);
/* Does not give up when the device is lost. */
gboolean           rlx_gpu_wait_to_end     (RlxGpu     *gpu,
                                            WGPUFuture  future,
                                            guint64     timeout_us,
                                            const char *what,
                                            GError    **error);
WGPUFuture         rlx_gpu_work_done       (RlxGpu *gpu);

/* Errors of calls between _push and _pop on the same thread land here instead
 * of in the device's catch-all callback. */
void               rlx_gpu_scopes_push     (RlxGpu *gpu);
gboolean           rlx_gpu_scopes_pop      (RlxGpu     *gpu,
                                            const char *what,
                                            GError    **error);

/* FALSE when there was an error outside all scopes since the last time. Jobs have
 * no scopes: these cost a twentieth of a small one. One job runs at a time and
 * everything else has scopes, so it is known whose error it is. */
gboolean           rlx_gpu_check_uncaptured (RlxGpu     *gpu,
                                            const char *what,
                                            GError    **error);

/* rlx-gpu-buffer.c */
gboolean           rlx_gpu_write           (RlxGpu       *gpu,
                                            RlxGpuBuffer *buffer,
                                            guint64       offset,
                                            const void   *data,
                                            gsize         size,
                                            GError      **error);
void               rlx_gpu_find_host_page  (RlxGpu *gpu);
WGPUBuffer         rlx_gpu_raw_buffer      (RlxGpu          *gpu,
                                            guint64          size,
                                            WGPUBufferUsage  usage,
                                            guint8         **host,
                                            const char      *label,
                                            GError         **error);
void               rlx_gpu_raw_buffer_free (RlxGpu     *gpu,
                                            WGPUBuffer  buffer,
                                            guint64     size);

/* rlx-gpu-pipeline.c */
void               rlx_gpu_pipelines_init  (RlxGpu *gpu);
void               rlx_gpu_pipelines_clear (RlxGpu *gpu);

/* rlx-gpu-staging.c: on the device thread. */
gboolean           rlx_gpu_staging_take    (RlxGpu        *gpu,
                                            guint64        size,
                                            RlxGpuStaging *staging,
                                            GError       **error);
void               rlx_gpu_staging_give_back (RlxGpu        *gpu,
                                              RlxGpuStaging *staging);
void               rlx_gpu_staging_trim    (RlxGpu  *gpu,
                                            guint64  keep);

/* rlx-gpu-encode.c */
static inline gboolean
rlx_gpu_dispatch_is_empty (const RlxGpuDispatch *dispatch)
{
  return dispatch->grid[0] == 0 || dispatch->grid[1] == 0 || dispatch->grid[2] == 0;
}

void               rlx_gpu_encode_dispatch (WGPUComputePassEncoder pass,
                                            const RlxGpuDispatch  *dispatch,
                                            const RlxGpuDispatch  *previous);
void               rlx_gpu_encode_dispatches (WGPUCommandEncoder    encoder,
                                              const RlxGpuDispatch *dispatches,
                                              guint                 n_dispatches);
gboolean           rlx_gpu_encode_copies   (WGPUCommandEncoder encoder,
                                            const RlxGpuCopy  *copies,
                                            guint              n_copies,
                                            GError           **error);
gboolean           rlx_gpu_prepare_canary  (RlxGpu  *gpu,
                                            GError **error);
void               rlx_gpu_clear_canary    (RlxGpu  *gpu);
guint32            rlx_gpu_encode_canary   (RlxGpu            *gpu,
                                            WGPUCommandEncoder encoder,
                                            WGPUBuffer         target,
                                            guint64            offset);
void               rlx_gpu_submit          (RlxGpu            *gpu,
                                            WGPUCommandEncoder encoder);

/* rlx-gpu-execute.c */
gboolean           rlx_gpu_write_uploads   (RlxGpu          *gpu,
                                            const RlxGpuJob *job,
                                            GError         **error);
void               rlx_gpu_execute_clear   (RlxGpu *gpu);

/* rlx-gpu-left.c: jobs that nobody waits for; on the device thread. */
gboolean           rlx_gpu_left_has_room   (RlxGpu  *gpu,
                                            double   seconds,
                                            guint64  bytes);
gboolean           rlx_gpu_has_left        (RlxGpu  *gpu);   /* on any thread */
gboolean           rlx_gpu_left_is_open    (RlxGpu  *gpu);
gboolean           rlx_gpu_left_flush      (RlxGpu  *gpu,
                                            GError **error);
void               rlx_gpu_left_fail       (RlxGpu       *gpu,
                                            const GError *error);
gboolean           rlx_gpu_left_add        (RlxGpu          *gpu,
                                            const RlxGpuJob *job,
                                            guint64          allowance,
                                            double           seconds,
                                            guint64          bytes,
                                            GError         **error);
guint64            rlx_gpu_left_get_size   (RlxGpu  *gpu);
gboolean           rlx_gpu_left_check      (RlxGpu        *gpu,
                                            const guint32 *words,
                                            GError       **error);
void               rlx_gpu_left_clear      (RlxGpu  *gpu);

/* rlx-gpu-pool.c */
void               rlx_gpu_pool_init       (RlxGpu  *gpu);
void               rlx_gpu_pool_clear      (RlxGpu  *gpu);

/* rlx-gpu-cache.c */
RlxGpuCache *      rlx_gpu_cache_open      (const RlxGpuAdapterInfo *info);
void               rlx_gpu_cache_free      (RlxGpuCache *cache);
gsize              rlx_gpu_cache_load      (RlxGpuCache  *cache,
                                            const guint8 *key,
                                            gsize         key_size,
                                            guint8       *value,
                                            gsize         value_size);
void               rlx_gpu_cache_store     (RlxGpuCache  *cache,
                                            const guint8 *key,
                                            gsize         key_size,
                                            const guint8 *value,
                                            gsize         value_size);
void               rlx_gpu_cache_get_stats (RlxGpuCache *cache,
                                            guint64     *hits,
                                            guint64     *misses);

G_END_DECLS
