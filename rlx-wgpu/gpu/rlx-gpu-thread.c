/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The device's own thread. It runs the jobs one after the other, tells of a
 * loss, and takes the device apart when the last reference is gone, so that
 * none of this ever happens on a thread of the program.
 */
#include "config.h"

#include "rlx-gpu-internal.h"

#include <stdlib.h>
#ifdef G_OS_UNIX
#include <sched.h>
#endif

/* Waking a sleeping thread costs as much as a small job, so both sides stay
 * awake for a moment first. */
#define SPIN_US 100

/* How long the end of the process waits for device threads to come to a safe
 * place. A job that takes longer is cut off there. */
#define EXIT_TIMEOUT (1 * G_USEC_PER_SEC)

typedef struct
{
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

static GMutex exit_lock;
static GCond exit_cond;
static guint n_busy;             /* device threads that may be inside Dawn */
static atomic_bool exiting;

/* When the process ends, the libraries below take themselves apart while our
 * threads may still be calling them. This stops every device thread at the
 * next place where it holds nothing of theirs. */
static void
on_exit_process (void)
{
  gint64 until = g_get_monotonic_time () + EXIT_TIMEOUT;

  g_mutex_lock (&exit_lock);
  atomic_store (&exiting, true);
  while (n_busy > 0)
    if (!g_cond_wait_until (&exit_cond, &exit_lock, until))
      break;
  g_mutex_unlock (&exit_lock);
}

static void
thread_enter (void)
{
  g_mutex_lock (&exit_lock);
  n_busy++;
  g_mutex_unlock (&exit_lock);
}

static void
thread_leave (void)
{
  g_mutex_lock (&exit_lock);
  n_busy--;
  g_cond_broadcast (&exit_cond);
  g_mutex_unlock (&exit_lock);
}

/* Lets another thread have the processor. Not g_thread_yield(), which sleeps
 * for longer than it takes to be told. */
void
rlx_gpu_pause (void)
{
#ifdef G_OS_UNIX
  sched_yield ();
#else
  g_thread_yield ();
#endif
}

gboolean
rlx_gpu_on_thread (RlxGpu *gpu)
{
  return g_thread_self () == gpu->thread;
}

/* Called on the device thread where it can be stopped for good. */
void
rlx_gpu_exit_point (RlxGpu *gpu)
{
  if (G_LIKELY (!atomic_load (&exiting)) || !rlx_gpu_on_thread (gpu))
    return;

  thread_leave ();
  for (;;)
    g_usleep (G_USEC_PER_SEC);
}

static gpointer
device_thread (gpointer data)
{
  RlxGpu *gpu = data;

  for (;;)
    {
      gint64 until = g_get_monotonic_time () + SPIN_US;
      Item *item;

      while (atomic_load (&gpu->n_items) == 0 && g_get_monotonic_time () < until)
        rlx_gpu_pause ();

      g_mutex_lock (&gpu->queue_lock);
      while (g_queue_is_empty (&gpu->items) && !gpu->quit)
        g_cond_wait (&gpu->queue_cond, &gpu->queue_lock);
      item = g_queue_pop_head (&gpu->items);
      if (item != NULL)
        atomic_fetch_sub (&gpu->n_items, 1);
      g_mutex_unlock (&gpu->queue_lock);

      /* Items hold references, so there are none left when the last one is
       * dropped. */
      if (item == NULL)
        break;

      thread_enter ();
      rlx_gpu_exit_point (gpu);
      item->func (gpu, item->user_data);
      g_free (item);
      thread_leave ();
      rlx_gpu_unref (gpu);
    }

  thread_enter ();
  rlx_gpu_exit_point (gpu);
  rlx_gpu_teardown (gpu);
  thread_leave ();

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
  return TRUE;
}

void
rlx_gpu_thread_quit (RlxGpu *gpu)
{
  g_mutex_lock (&gpu->queue_lock);
  gpu->quit = TRUE;
  g_cond_signal (&gpu->queue_cond);
  g_mutex_unlock (&gpu->queue_lock);
}

/* Takes over the caller's reference. */
void
rlx_gpu_post (RlxGpu    *gpu,
              RlxGpuFunc func,
              gpointer   user_data)
{
  Item *item = g_new (Item, 1);

  item->func = func;
  item->user_data = user_data;

  g_mutex_lock (&gpu->queue_lock);
  g_queue_push_tail (&gpu->items, item);
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

  until = g_get_monotonic_time () + SPIN_US;
  while (!atomic_load (&call.nearly_done) && g_get_monotonic_time () < until)
    rlx_gpu_pause ();

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
  static gsize watched = 0;

  if (g_once_init_enter (&watched))
    {
      atexit (on_exit_process);
      g_once_init_leave (&watched, 1);
    }
}
