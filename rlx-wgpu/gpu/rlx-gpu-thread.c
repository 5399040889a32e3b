/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Whose turn it is. One thread at a time works with a device. Mostly it is the
 * device's own: it runs the jobs one after the other, tells of a loss, and takes
 * the device apart when the last reference is gone. A thread that would only wait
 * for its job does it itself when nothing is in front of it, which saves waking
 * two threads.
 */
#include "config.h"

#include "rlx-gpu-internal.h"

#include <stdlib.h>
#ifdef G_OS_UNIX
#include <pthread.h>
#include <sched.h>
#endif

/* Waking a sleeping thread costs as much as a small job, so all sides stay awake
 * for a moment first. */
#define SPIN_US 200

/* How long the end of the process waits for others to come to a safe place. A
 * kernel that takes longer to compile is cut off there. */
#define EXIT_TIMEOUT (1 * G_USEC_PER_SEC)

/* With lavapipe a job takes 10 KiB of a stack, and 250 KiB when it is the first and
 * the driver loads what it needs. Other drivers may take more. */
#define STACK_NEEDED (512 * 1024)

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

static gboolean
is_own_thread (RlxGpu *gpu)
{
  return g_thread_self () == gpu->thread;
}

/* Called while waiting. At the end of the process the device thread stops here
 * for good; other threads are told to give up. */
gboolean
rlx_gpu_exit_point (RlxGpu  *gpu,
                    GError **error)
{
  if (G_LIKELY (!atomic_load (&exiting)))
    return TRUE;

  if (is_own_thread (gpu))
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

/* How long to look again and again before going to sleep: not at all when the last
 * job was a long one, since it takes the time from a driver that computes on the
 * same processors. */
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

gboolean
rlx_gpu_on_thread (RlxGpu *gpu)
{
  return g_thread_self () == atomic_load (&gpu->holder);
}

/* ---- the device's own thread ---- */

/* Waits for the next item, and for whoever has the device. NULL in the end. */
static Item *
take_item (RlxGpu *gpu)
{
  Item *item;

  g_mutex_lock (&gpu->queue_lock);
  while (!gpu->quit && (g_queue_is_empty (&gpu->items) || atomic_load (&gpu->holder) != NULL))
    g_cond_wait (&gpu->queue_cond, &gpu->queue_lock);
  item = g_queue_pop_head (&gpu->items);
  if (item != NULL)
    {
      atomic_fetch_sub (&gpu->n_items, 1);
      atomic_store (&gpu->holder, gpu->thread);
    }
  g_mutex_unlock (&gpu->queue_lock);

  return item;
}

static gpointer
device_thread (gpointer data)
{
  RlxGpu *gpu = data;
  Item *item;

  /* Items hold references, and so do threads that have the device: there are
   * none left when the last one is dropped. */
  while ((item = take_item (gpu)) != NULL)
    {
      gint64 until;

      count_in ();
      rlx_gpu_exit_point (gpu, NULL);
      item->func (gpu, item->user_data);
      g_free (item);
      gpu->started = TRUE;
      atomic_store (&gpu->holder, NULL);
      rlx_gpu_leave ();

      until = g_get_monotonic_time () + (gint64) rlx_gpu_get_spin (gpu);
      rlx_gpu_unref (gpu);
      while (atomic_load (&gpu->n_items) == 0 && g_get_monotonic_time () < until)
        rlx_gpu_pause ();
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
  /* Otherwise whoever has the device looks for it, or tells. */
  if (atomic_load (&gpu->holder) == NULL)
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

/* ---- waiting for a call, or making it ---- */

/* Whether Dawn and the driver below it have the room that they may need on the
 * stack of this thread. How much there is nobody knows of a thread that switches
 * between stacks of its own. */
static gboolean
has_room (void)
{
#ifdef HAVE_PTHREAD_GETATTR_NP
  static _Thread_local gboolean known;
  static _Thread_local guintptr lowest, highest;
  guintptr here = (guintptr) __builtin_frame_address (0);

  if (G_UNLIKELY (!known))
    {
      pthread_attr_t attributes;
      void *address;
      size_t size;

      known = TRUE;
      if (pthread_getattr_np (pthread_self (), &attributes) == 0)
        {
          if (pthread_attr_getstack (&attributes, &address, &size) == 0)
            {
              lowest = (guintptr) address;
              highest = lowest + size;
            }
          pthread_attr_destroy (&attributes);
        }
    }

  return here > lowest && here < highest && here - lowest >= STACK_NEEDED;
#else
  return FALSE;
#endif
}

/* Takes the device if nobody has it and nobody is in front. The first call is left
 * to the device's own thread: it needs most of a stack. */
static gboolean
take_device (RlxGpu *gpu)
{
  gboolean free;

  g_mutex_lock (&gpu->queue_lock);
  free = g_queue_is_empty (&gpu->items) && atomic_load (&gpu->holder) == NULL && gpu->started;
  if (free)
    atomic_store (&gpu->holder, g_thread_self ());
  g_mutex_unlock (&gpu->queue_lock);

  return free;
}

static void
give_device_back (RlxGpu *gpu)
{
  g_mutex_lock (&gpu->queue_lock);
  atomic_store (&gpu->holder, NULL);
  if (!g_queue_is_empty (&gpu->items))
    g_cond_signal (&gpu->queue_cond);
  g_mutex_unlock (&gpu->queue_lock);
}

/* Calls @func on this thread, if it may. At the end of the process it is left to
 * the device thread, which goes no further. */
static gboolean
call_here (RlxGpu    *gpu,
           RlxGpuFunc func,
           gpointer   user_data)
{
  gboolean taken;

  if (!has_room () || !rlx_gpu_enter (NULL))
    return FALSE;

  taken = take_device (gpu);
  if (taken)
    {
      rlx_gpu_ref (gpu);
      func (gpu, user_data);
      give_device_back (gpu);
    }
  rlx_gpu_leave ();
  if (taken)
    rlx_gpu_unref (gpu);

  return taken;
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
  if (call_here (gpu, func, user_data))
    return;

  g_mutex_init (&call.lock);
  g_cond_init (&call.cond);

  rlx_gpu_invoke (gpu, sync_call_run, &call);

  until = g_get_monotonic_time () + (gint64) rlx_gpu_get_spin (gpu);
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
