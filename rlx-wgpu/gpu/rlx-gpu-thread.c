/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Each device has a thread of its own, and nobody else works with the device: it
 * runs the jobs one after the other, tells of a loss, and takes the device apart
 * when the last reference is gone.
 */
#include "config.h"

#include "rlx-gpu-internal.h"

#include "util/rlx-os-private.h"

/* Waking a sleeping thread costs as much as a small job, so all sides stay awake
 * for a moment first. */
#define SPIN_US 200
/* How long jobs that nobody waits for are held back, to be submitted together with others. */
#define COLLECT_US 50

/* How long the end of the process waits for other threads to reach a safe point. */
#define EXIT_TIMEOUT (10 * G_USEC_PER_SEC)
#define EXIT_SLICE 500

typedef struct
{
  GList link;
  RlxGpuFunc func;
  gpointer user_data;
} Item;

typedef struct
{
  RlxGpuFunc func;
  gpointer user_data;
  GMutex lock;
  GCond cond;
  gboolean done;
  atomic_bool nearly_done;
} SyncCall;

/* How many calls are inside Dawn, on any thread, and how many of them belong
 * to this one. */
static atomic_uint n_inside;
static _Thread_local guint n_inside_here;

/* Why calls are no longer allowed. */
typedef enum
{
  SHUT_NOT,
  SHUT_EXITING,            /* the process is ending */
  SHUT_FORKED,             /* this is the child of a process that used a device */
} Shut;

static atomic_int shut;
static atomic_bool used;     /* for a device, now or before */

/* Those that have a thread. */
static GMutex devices_lock;
static GPtrArray *devices;

static void
set_shut_error (GError **error)
{
  if (rlx_gpu_is_forked ())
    g_set_error_literal (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_LOST,
                         "The device was lost: this process was created by fork() after a device had been opened, and "
                         "the threads that serve it do not exist here. Start a new process: with exec(), or in Python "
                         "with the start method “spawn” or “forkserver” of multiprocessing");
  else
    g_set_error_literal (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_LOST,
                         "The device was lost: the process is ending");
}

/* ---- fork() ---- */

/* In the child none of the threads exist, and their locks stay locked. If there was no
 * device yet, and none was being opened, nothing is lost. */
static void
on_forked (void)
{
  if (atomic_load (&used) || atomic_load (&n_inside) > n_inside_here)
    atomic_store (&shut, SHUT_FORKED);
  atomic_store (&n_inside, n_inside_here);
}

/* Called once, before any call of Dawn. */
void
rlx_gpu_watch_fork (void)
{
  rlx_os_watch_fork (on_forked);
}

/* Before a device is made: Dawn and the driver start threads for it. */
void
rlx_gpu_set_used (void)
{
  atomic_store (&used, true);
}

gboolean
rlx_gpu_is_forked (void)
{
  return atomic_load (&shut) == SHUT_FORKED;
}

gboolean
rlx_gpu_check_forked (GError **error)
{
  if (G_LIKELY (!rlx_gpu_is_forked ()))
    return TRUE;

  set_shut_error (error);
  return FALSE;
}

/* ---- the end of the process ---- */

/* A driver that computes on the host compiles kernels that nobody waits for on a
 * separate thread, with a compiler that is also destroyed at exit. Kernels that are
 * only running are left alone: they do not need the compiler, and may run for long.
 * FALSE if it takes too long. */
static gboolean
wait_for_compilers (guint64 elapsed)
{
  WGPUInstance instance = rlx_gpu_get_instance (NULL);
  gint64 last = g_get_monotonic_time ();

  g_mutex_lock (&devices_lock);
  for (guint i = 0; devices != NULL && i < devices->len; i++)
    {
      RlxGpu *gpu = g_ptr_array_index (devices, i);
      WGPUFutureWaitInfo wait = WGPU_FUTURE_WAIT_INFO_INIT;

      if (atomic_load (&gpu->n_cold) == atomic_load (&gpu->n_cold_done) || atomic_load (&gpu->hung))
        continue;
      wait.future = rlx_gpu_work_done (gpu);
      while (elapsed < EXIT_TIMEOUT &&
             wgpuInstanceWaitAny (instance, 1, &wait, EXIT_SLICE * 1000) == WGPUWaitStatus_TimedOut)
        elapsed += rlx_gpu_count_look (&last, EXIT_SLICE);
    }
  g_mutex_unlock (&devices_lock);

  return elapsed < EXIT_TIMEOUT;
}

/* When the process exits, the libraries below us clean up while our threads may still
 * be calling them. This keeps all threads out, and waits for those inside to reach a
 * point where they hold none of the libraries' locks. If they do not, the process ends
 * here. The handlers that are skipped then were registered before there was a device. */
static void
on_exit_process (const int *status)
{
  gint64 last = g_get_monotonic_time ();
  guint64 elapsed = 0;
  guint here = n_inside_here;
  gboolean safe;

  /* The driver's exit handlers wait for its threads, which do not exist here. */
  if (rlx_gpu_is_forked ())
    {
      if (status != NULL)
        rlx_os_exit (*status);
      return;
    }

  /* Calls in progress on this thread do not return. */
  n_inside_here = 0;
  atomic_store (&shut, SHUT_EXITING);
  while (atomic_load (&n_inside) > here && elapsed < EXIT_TIMEOUT)
    {
      g_usleep (EXIT_SLICE);
      elapsed += rlx_gpu_count_look (&last, EXIT_SLICE);
    }
  safe = elapsed < EXIT_TIMEOUT;
  /* Calls in progress on this thread may hold locks that Dawn would wait for. */
  if (safe && here == 0)
    safe = wait_for_compilers (elapsed);
  if (!safe && status != NULL)
    rlx_os_exit (*status);
}

static void
count_in (void)
{
  atomic_fetch_add (&n_inside, 1);
  n_inside_here++;
}

void
rlx_gpu_leave (void)
{
  n_inside_here--;
  atomic_fetch_sub (&n_inside, 1);
}

/* Surrounds all calls of Dawn outside the device thread. FALSE at the end of the
 * process, when no calls are allowed any more, except by threads that are already
 * inside and waited for: a device that is being destroyed is destroyed completely. Also
 * FALSE, without exception, in a process created by fork(). */
gboolean
rlx_gpu_enter (GError **error)
{
  count_in ();

  if (G_LIKELY (atomic_load (&shut) == SHUT_NOT) || (n_inside_here > 1 && !rlx_gpu_is_forked ()))
    return TRUE;

  rlx_gpu_leave ();
  set_shut_error (error);
  return FALSE;
}

static gboolean
is_own_thread (RlxGpu *gpu)
{
  return g_thread_self () == gpu->thread;
}

/* Called while waiting. At the end of the process the device thread stops here for
 * good; other threads have to give up. */
gboolean
rlx_gpu_exit_point (RlxGpu  *gpu,
                    GError **error)
{
  if (G_LIKELY (atomic_load (&shut) == SHUT_NOT))
    return TRUE;

  if (is_own_thread (gpu))
    {
      while (n_inside_here > 0)
        rlx_gpu_leave ();
      for (;;)
        g_usleep (G_USEC_PER_SEC);
    }

  set_shut_error (error);
  return FALSE;
}

/* How long to spin before going to sleep: not at all if the last job was long, since
 * spinning takes time from a driver that computes on the same processors. */
guint64
rlx_gpu_get_spin (RlxGpu *gpu)
{
  return atomic_load (&gpu->slow) ? 0 : SPIN_US;
}

void
rlx_gpu_set_waited (RlxGpu *gpu,
                    guint64 microseconds)
{
  gboolean slow = microseconds >= SPIN_US;

  if (atomic_load (&gpu->slow) != slow)
    atomic_store (&gpu->slow, slow);
}

/* After fork() any thread counts as the device thread: all calls fail early. */
gboolean
rlx_gpu_on_thread (RlxGpu *gpu)
{
  return is_own_thread (gpu) || rlx_gpu_is_forked ();
}

/* ---- the device's own thread ---- */

/* Waits for the next item. FALSE at the end. The list link is kept for the next call,
 * so that a run does not allocate. */
static gboolean
take_item (RlxGpu *gpu,
           Item   *taken)
{
  GList *link;

  g_mutex_lock (&gpu->queue_lock);
  while (!gpu->quit && g_queue_is_empty (&gpu->items))
    g_cond_wait (&gpu->queue_cond, &gpu->queue_lock);
  link = g_queue_pop_head_link (&gpu->items);
  if (link != NULL)
    {
      *taken = *(Item *) link->data;
      g_queue_push_head_link (&gpu->spare_items, link);
      atomic_fetch_sub (&gpu->n_items, 1);
    }
  g_mutex_unlock (&gpu->queue_lock);

  return link != NULL;
}

static void
free_spare_items (RlxGpu *gpu)
{
  GList *link;

  while ((link = g_queue_pop_head_link (&gpu->spare_items)) != NULL)
    g_free (link->data);
}

/* Submits jobs that nobody waits for, unless more come soon. */
static void
flush_left (RlxGpu *gpu)
{
  gint64 until = g_get_monotonic_time () + COLLECT_US;

  while (atomic_load (&gpu->n_items) == 0)
    {
      if (g_get_monotonic_time () >= until)
        {
          rlx_gpu_left_flush (gpu, NULL);
          return;
        }
      rlx_os_yield ();
    }
}

static gpointer
device_thread (gpointer data)
{
  RlxGpu *gpu = data;
  Item item;

  /* Items hold references: there are none left when the last one is dropped. */
  while (take_item (gpu, &item))
    {
      gint64 until;

      count_in ();
      rlx_gpu_exit_point (gpu, NULL);
      item.func (gpu, item.user_data);
      if (rlx_gpu_left_is_open (gpu))
        flush_left (gpu);
      rlx_gpu_leave ();

      until = g_get_monotonic_time () + (gint64) rlx_gpu_get_spin (gpu);
      rlx_gpu_unref (gpu);
      while (atomic_load (&gpu->n_items) == 0 && g_get_monotonic_time () < until)
        rlx_os_yield ();
    }

  count_in ();
  rlx_gpu_exit_point (gpu, NULL);
  g_mutex_lock (&devices_lock);
  g_ptr_array_remove_fast (devices, gpu);
  if (devices->len == 0)
    g_clear_pointer (&devices, g_ptr_array_unref);
  g_mutex_unlock (&devices_lock);
  free_spare_items (gpu);
  rlx_gpu_teardown (gpu);
  rlx_gpu_leave ();

  return NULL;
}

gboolean
rlx_gpu_thread_start (RlxGpu  *gpu,
                      GError **error)
{
  g_autoptr (GError) local_error = NULL;
  GThread *thread;

  /* The thread looks at gpu->thread only after the lock. */
  g_mutex_lock (&gpu->queue_lock);
  thread = g_thread_try_new ("rlx-gpu", device_thread, gpu, &local_error);
  gpu->thread = thread;
  g_mutex_unlock (&gpu->queue_lock);

  if (thread == NULL)
    {
      g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_FAILED,
                   "The device's thread could not be started: %s", local_error->message);
      return FALSE;
    }

  /* Nobody joins it. */
  g_thread_unref (thread);

  g_mutex_lock (&devices_lock);
  if (devices == NULL)
    devices = g_ptr_array_new ();
  g_ptr_array_add (devices, gpu);
  g_mutex_unlock (&devices_lock);
  return TRUE;
}

void
rlx_gpu_thread_quit (RlxGpu *gpu)
{
  /* There is no thread to destroy it, and it belongs to another process. */
  if (rlx_gpu_is_forked ())
    return;

  g_mutex_lock (&gpu->queue_lock);
  gpu->quit = TRUE;
  g_cond_signal (&gpu->queue_cond);
  g_mutex_unlock (&gpu->queue_lock);
}

/* Takes ownership of the caller's reference. */
void
rlx_gpu_post (RlxGpu    *gpu,
              RlxGpuFunc func,
              gpointer   user_data)
{
  GList *link;
  Item *item;

  if (rlx_gpu_is_forked ())
    {
      func (gpu, user_data);
      rlx_gpu_unref (gpu);
      return;
    }

  g_mutex_lock (&gpu->queue_lock);
  link = g_queue_pop_head_link (&gpu->spare_items);
  item = link != NULL ? link->data : g_new0 (Item, 1);
  item->link.data = item;
  item->func = func;
  item->user_data = user_data;
  g_queue_push_tail_link (&gpu->items, &item->link);
  atomic_fetch_add (&gpu->n_items, 1);
  g_cond_signal (&gpu->queue_cond);
  g_mutex_unlock (&gpu->queue_lock);
}

void
rlx_gpu_invoke (RlxGpu    *gpu,
                RlxGpuFunc func,
                gpointer   user_data)
{
  g_return_if_fail (gpu != NULL);
  g_return_if_fail (func != NULL);

  rlx_gpu_post (rlx_gpu_ref (gpu), func, user_data);
}

guint
rlx_gpu_count_queued (RlxGpu *gpu)
{
  g_return_val_if_fail (gpu != NULL, 0);

  return atomic_load (&gpu->n_items);
}

/* ---- waiting for a call ---- */

static void
sync_call_run (RlxGpu  *gpu,
               gpointer user_data)
{
  SyncCall *call = user_data;

  call->func (gpu, call->user_data);

  g_mutex_lock (&call->lock);
  call->done = TRUE;
  atomic_store (&call->nearly_done, true);
  g_cond_signal (&call->cond);
  g_mutex_unlock (&call->lock);
}

void
rlx_gpu_invoke_sync (RlxGpu    *gpu,
                     RlxGpuFunc func,
                     gpointer   user_data)
{
  SyncCall call = { .func = func, .user_data = user_data };
  gint64 until;

  g_return_if_fail (gpu != NULL);
  g_return_if_fail (func != NULL);

  if (rlx_gpu_on_thread (gpu))
    {
      func (gpu, user_data);
      return;
    }

  g_mutex_init (&call.lock);
  g_cond_init (&call.cond);

  rlx_gpu_invoke (gpu, sync_call_run, &call);

  until = g_get_monotonic_time () + (gint64) rlx_gpu_get_spin (gpu);
  while (!atomic_load (&call.nearly_done) && g_get_monotonic_time () < until)
    rlx_os_yield ();

  g_mutex_lock (&call.lock);
  while (!call.done)
    g_cond_wait (&call.cond, &call.lock);
  g_mutex_unlock (&call.lock);

  g_cond_clear (&call.cond);
  g_mutex_clear (&call.lock);
}

/* Called when a device has run its first job. Handlers run in reverse order,
 * so this one must be registered after the driver, which the first job loads
 * to the last piece, has registered its own. */
void
rlx_gpu_watch_exit (void)
{
  static gsize done = 0;

  if (g_once_init_enter (&done))
    {
      rlx_os_watch_exit (on_exit_process);
      g_once_init_leave (&done, 1);
    }
}
