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

/* How long the end of the process waits for others to come to a safe place. A
 * kernel that takes longer to compile is cut off there. */
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

/* How many calls are inside Dawn, on any thread, and how many of them belong
 * to this one. */
static atomic_uint n_inside;
static _Thread_local guint n_inside_here;
static atomic_bool exiting;

/* When the process ends, the libraries below take themselves apart while our
 * threads may still be calling them. This keeps everybody out and waits for
 * those inside to come to a place where they hold nothing of theirs. */
static void
on_exit_process (void)
{
  gint64 until = g_get_monotonic_time () + EXIT_TIMEOUT;
  guint here = n_inside_here;

  /* Calls that this thread was in do not return. */
  n_inside_here = 0;
  atomic_store (&exiting, true);
  while (atomic_load (&n_inside) > here && g_get_monotonic_time () < until)
    g_usleep (500);
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

/* Around everything that calls Dawn and is not on the device thread anyway.
 * FALSE at the end of the process, and then nothing may be called any more,
 * except by who is inside already and is waited for: a device that is being taken
 * apart is taken apart to its end. */
gboolean
rlx_gpu_enter (GError **error)
{
  count_in ();

  if (G_LIKELY (!atomic_load (&exiting)) || n_inside_here > 1)
    return TRUE;

  rlx_gpu_leave ();
  g_set_error_literal (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_LOST,
                       "The device was lost: the process is ending");
  return FALSE;
}

/* Called while waiting. At the end of the process the device thread stops here
 * for good; other threads are told to give up. */
gboolean
rlx_gpu_exit_point (RlxGpu  *gpu,
                    GError **error)
{
  if (G_LIKELY (!atomic_load (&exiting)))
    return TRUE;

  if (rlx_gpu_on_thread (gpu))
    {
      while (n_inside_here > 0)
        rlx_gpu_leave ();
      for (;;)
        g_usleep (G_USEC_PER_SEC);
    }

  g_set_error_literal (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_LOST,
                       "The device was lost: the process is ending");
  return FALSE;
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

      count_in ();
      rlx_gpu_exit_point (gpu, NULL);
      item->func (gpu, item->user_data);
      g_free (item);
      rlx_gpu_leave ();
      rlx_gpu_unref (gpu);
    }

  count_in ();
  rlx_gpu_exit_point (gpu, NULL);
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
