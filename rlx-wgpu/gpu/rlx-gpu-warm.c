/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Drivers that compute on the host compile a kernel when it is first dispatched,
 * one after the other on a thread of their own, which takes longer than all the
 * rest of a first start. Here that begins as soon as a pipeline is there, while
 * the next ones are made and weights are brought in.
 *
 * Each device has such a thread. When there is much to compile, a second device,
 * the twin, takes some of it; what it compiled the first one then finds in the
 * driver's cache on disk. Nothing depends on that: what is not found there is
 * compiled again, and what the twin fails at is left to the first device.
 */
#include "config.h"

#include "rlx-gpu-internal.h"

#include <string.h>

/* What a binding gets: enough for the elements of any array. Few kernels have more
 * of them. */
#define SLOT 1024
#define N_SLOTS 16

/* Pipelines that are made at a time. */
#define N_AT_ONCE 3

/* Text that is still to be compiled when a twin is worth opening. This much takes
 * the driver several times as long as that. */
#define TWIN_TEXT 40000

#define WAIT_SLICE (50 * G_TIME_SPAN_MILLISECOND)

typedef enum
{
  ITEM_FREE,
  ITEM_HERE,               /* made on the device itself */
  ITEM_THERE,              /* the twin is at it */
  ITEM_READY,              /* the twin has compiled it */
} ItemState;

typedef struct
{
  const RlxGpuPipelineDesc *desc;
  guint index;             /* among all descriptions */
  gsize length;            /* of its text */
  gboolean slow;           /* to compile, for its length */
  ItemState state;
} Item;

typedef struct
{
  RlxGpu *gpu;
  Item *items;             /* those first that take longest */
  guint n_items;

  GMutex lock;             /* the states, and the next two */
  GCond cond;
  gboolean stop;
  gboolean ended;          /* the twin: there is none, or it will do nothing more */

  GThread *thread;
} Work;

/* GPUs compile when a pipeline is made. */
gboolean
rlx_gpu_compiles_late (RlxGpu *gpu)
{
  g_return_val_if_fail (gpu != NULL, FALSE);

  return gpu->info->type == RLX_ADAPTER_TYPE_CPU;
}

/* ---- dispatching nothing ---- */

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

/* Without a workgroup nothing runs, but the driver gets ready for it. */
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

/* ---- the twin ---- */

static Item *
take (Work     *work,
      ItemState from,
      ItemState to)
{
  for (guint i = 0; i < work->n_items; i++)
    if (work->items[i].state == from)
      {
        work->items[i].state = to;
        return &work->items[i];
      }

  return NULL;
}

static Item *
take_there (Work *work)
{
  Item *item;

  g_mutex_lock (&work->lock);
  item = work->stop ? NULL : take (work, ITEM_FREE, ITEM_THERE);
  g_mutex_unlock (&work->lock);

  return item;
}

/* To the end also when the process is ending: a thread of the driver is at work on
 * it, and must not be when libraries go. */
static gboolean
finish_there (Work   *work,
              RlxGpu *twin,
              Item   *item)
{
  gboolean done;

  if (item == NULL)
    return TRUE;
  if (!rlx_gpu_enter (NULL))
    return FALSE;

  done = rlx_gpu_wait_to_end (twin, rlx_gpu_work_done (twin), rlx_gpu_get_timeout (NULL), "a first dispatch", NULL);
  rlx_gpu_leave ();
  if (!done)
    return FALSE;

  g_mutex_lock (&work->lock);
  item->state = ITEM_READY;
  g_cond_signal (&work->cond);
  g_mutex_unlock (&work->lock);

  return TRUE;
}

static void
compile_there (Work   *work,
               RlxGpu *twin)
{
  Item *item, *last = NULL;

  while ((item = take_there (work)) != NULL)
    {
      RlxGpuPipeline *pipeline;

      if (!rlx_gpu_pipelines_new (twin, item->desc, 1, &pipeline, NULL, NULL, NULL) ||
          !finish_there (work, twin, last) ||
          !dispatch_ahead (twin, &pipeline, 1, NULL))
        return;
      last = item;
    }
  finish_there (work, twin, last);
}

static gpointer
run_twin (gpointer data)
{
  Work *work = data;
  RlxGpu *twin = rlx_gpu_open_twin (work->gpu);

  if (twin != NULL)
    compile_there (work, twin);

  g_mutex_lock (&work->lock);
  while (take (work, ITEM_THERE, ITEM_FREE) != NULL)
    ;
  work->ended = TRUE;
  g_cond_signal (&work->cond);
  g_mutex_unlock (&work->lock);

  if (twin != NULL)
    rlx_gpu_unref (twin);
  return NULL;
}

/* Whether one device finds what another has compiled. It is the driver of Mesa that
 * has a cache for that, in the same folder as we have ours. */
static gboolean
shares_code (RlxGpu *gpu)
{
  static const char * const off[] = { "", "0", "n", "no", "f", "false", "off" };
  const char *disabled = rlx_getenv ("MESA_SHADER_CACHE_DISABLE");
  gboolean enabled = disabled == NULL;

  for (gsize i = 0; !enabled && i < G_N_ELEMENTS (off); i++)
    enabled = g_ascii_strcasecmp (disabled, off[i]) == 0;

  return enabled && gpu->cache != NULL && strstr (gpu->info->name, "llvmpipe") != NULL;
}

static void
start_twin (Work *work)
{
  gsize length = 0;

  for (guint i = 0; i < work->n_items; i++)
    if (work->items[i].state == ITEM_FREE)
      length += work->items[i].length;
  if (length < TWIN_TEXT || g_get_num_processors () < 2 || !shares_code (work->gpu))
    return;

  work->ended = FALSE;
  work->thread = g_thread_try_new ("rlx-twin", run_twin, work, NULL);
  if (work->thread != NULL)
    atomic_fetch_add (&work->gpu->n_twins, 1);
  else
    work->ended = TRUE;
}

/* ---- the device itself ---- */

/* What takes longest to compile goes first. */
static int
compare_items (gconstpointer a,
               gconstpointer b)
{
  const Item *one = a, *other = b;

  if (one->slow != other->slow)
    return one->slow ? -1 : 1;
  if (one->length != other->length)
    return one->length > other->length ? -1 : 1;
  return one->index < other->index ? -1 : one->index > other->index;
}

/* The kernels of attention keep so much in registers that they take longer than
 * texts of three times their length. */
static gboolean
is_slow (const RlxGpuPipelineDesc *desc)
{
  return desc->label != NULL && g_str_has_prefix (desc->label, "attention");
}

static void
list_items (Work                     *work,
            const RlxGpuPipelineDesc *descs,
            guint                     n_descs)
{
  g_autoptr (GHashTable) texts = g_hash_table_new (g_str_hash, g_str_equal);

  work->items = g_new0 (Item, n_descs);
  for (guint i = 0; i < n_descs; i++)
    if (descs[i].wgsl != NULL && !rlx_gpu_has_pipeline (work->gpu, &descs[i]) &&
        g_hash_table_add (texts, (gpointer) descs[i].wgsl))
      work->items[work->n_items++] = (Item) { &descs[i], i, strlen (descs[i].wgsl), is_slow (&descs[i]), ITEM_FREE };
  if (work->n_items > 1)
    qsort (work->items, work->n_items, sizeof *work->items, compare_items);
}

/* Up to @n_free that are to be compiled, and as many as there are that only have to
 * be loaded. 0 when there is nothing more to do. */
static guint
take_here (Work         *work,
           Item        **items,
           guint         n_free,
           GCancellable *cancellable)
{
  guint n = 0;

  g_mutex_lock (&work->lock);
  for (;;)
    {
      while (n < n_free && (items[n] = take (work, ITEM_FREE, ITEM_HERE)) != NULL)
        n++;
      while (n < N_AT_ONCE && (items[n] = take (work, ITEM_READY, ITEM_HERE)) != NULL)
        n++;
      if (n > 0 || work->ended || g_cancellable_is_cancelled (cancellable))
        break;
      g_cond_wait_until (&work->cond, &work->lock, g_get_monotonic_time () + WAIT_SLICE);
    }
  g_mutex_unlock (&work->lock);

  return n;
}

static guint64
count_misses (RlxGpu *gpu)
{
  guint64 hits, misses;

  rlx_gpu_cache_get_stats (gpu->cache, &hits, &misses);
  return misses;
}

static gboolean
compile_here (Work         *work,
              guint        *failed,
              GCancellable *cancellable,
              GError      **error)
{
  /* One first: until there is something for it, the driver has nothing to do. */
  guint n, at_once = 1;
  Item *items[N_AT_ONCE];

  if (atomic_exchange (&work->gpu->cold, false))
    start_twin (work);
  while ((n = take_here (work, items, at_once, cancellable)) > 0)
    {
      RlxGpuPipelineDesc some[N_AT_ONCE];
      RlxGpuPipeline *pipelines[N_AT_ONCE];
      guint64 misses = count_misses (work->gpu);
      guint which = 0;

      for (guint i = 0; i < n; i++)
        some[i] = *items[i]->desc;
      if (!rlx_gpu_pipelines_new (work->gpu, some, n, pipelines, &which, cancellable, error))
        {
          if (failed != NULL)
            *failed = items[which]->index;
          return FALSE;
        }
      if (!dispatch_ahead (work->gpu, pipelines, n, error))
        return FALSE;

      if (work->thread == NULL && count_misses (work->gpu) != misses)
        start_twin (work);
      at_once = work->thread != NULL ? 1 : N_AT_ONCE;
    }

  return !g_cancellable_set_error_if_cancelled (cancellable, error);
}

gboolean
rlx_gpu_pipelines_warm (RlxGpu                   *gpu,
                        const RlxGpuPipelineDesc *descs,
                        guint                     n_descs,
                        guint                    *failed,
                        GCancellable             *cancellable,
                        GError                  **error)
{
  Work work = { .gpu = gpu, .ended = TRUE };
  gboolean result;

  g_return_val_if_fail (gpu != NULL, FALSE);
  g_return_val_if_fail (descs != NULL || n_descs == 0, FALSE);

  list_items (&work, descs, n_descs);
  g_mutex_init (&work.lock);
  g_cond_init (&work.cond);

  result = compile_here (&work, failed, cancellable, error);

  g_mutex_lock (&work.lock);
  work.stop = TRUE;
  g_mutex_unlock (&work.lock);
  g_clear_pointer (&work.thread, g_thread_join);

  g_mutex_clear (&work.lock);
  g_cond_clear (&work.cond);
  g_free (work.items);

  return result;
}
