/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Whose turn it is on a device: all calls are made on its own thread, and never
 * beside another or before their time.
 */
#include "config.h"

#include "rlx-test-gpu.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#define N_THREADS 4
#define N_CALLS 200

static void
note_thread (RlxGpu  *gpu G_GNUC_UNUSED,
             gpointer user_data)
{
  g_atomic_pointer_set ((GThread **) user_data, g_thread_self ());
}

static GThread *
find_thread (RlxGpu *gpu)
{
  GThread *thread = NULL;

  rlx_gpu_invoke_sync (gpu, note_thread, &thread);
  g_assert_nonnull (thread);
  return thread;
}

static void
note_threads (RlxGpu  *gpu,
              gpointer user_data)
{
  GThread **threads = user_data;

  threads[0] = g_thread_self ();
  threads[1] = find_thread (gpu);
}

static void
test_idle (void)
{
  RlxGpu *gpu = open_device ();
  GThread *own = find_thread (gpu), *threads[2];

  g_assert_true (own != g_thread_self ());
  g_assert_true (find_thread (gpu) == own);
  /* a nested call */
  rlx_gpu_invoke_sync (gpu, note_threads, threads);
  g_assert_true (threads[0] == own);
  g_assert_true (threads[1] == own);
  rlx_gpu_unref (gpu);
}

typedef struct
{
  atomic_bool entered;
  atomic_bool open;
} Gate;

static void
pass_gate (RlxGpu  *gpu G_GNUC_UNUSED,
           gpointer user_data)
{
  Gate *gate = user_data;

  atomic_store (&gate->entered, true);
  while (!atomic_load (&gate->open))
    g_usleep (100);
}

static gpointer
open_soon (gpointer data)
{
  Gate *gate = data;

  g_usleep (5000);
  atomic_store (&gate->open, true);
  return NULL;
}

static gpointer
pass_gate_here (gpointer data)
{
  gpointer *arguments = data;

  rlx_gpu_invoke_sync (arguments[0], pass_gate, arguments[1]);
  return NULL;
}

/* Something is ahead: in the device's thread, in the queue, or of another caller that
 * waits for it. */
static void
test_busy (void)
{
  RlxGpu *gpu = open_device ();
  GThread *own = find_thread (gpu);

  for (guint round = 0; round < 3; round++)
    {
      Gate gate = { 0 };
      gpointer arguments[] = { gpu, &gate };
      GThread *opener, *other = NULL;

      if (round == 2)
        other = g_thread_new ("caller", pass_gate_here, arguments);
      else
        rlx_gpu_invoke (gpu, pass_gate, &gate);
      while (round != 1 && !atomic_load (&gate.entered))
        g_usleep (100);
      opener = g_thread_new ("open", open_soon, &gate);
      g_assert_true (find_thread (gpu) == own);
      g_assert_true (atomic_load (&gate.open));
      g_thread_join (opener);
      if (other != NULL)
        g_thread_join (other);
    }
  rlx_gpu_unref (gpu);
}

typedef struct
{
  GMutex lock;               /* held while posting, so that the order is known */
  guint n_posted;
  guint n_done;
  int n_inside;
} Turns;

typedef struct
{
  Turns *turns;
  guint number;
} Turn;

static void
take_turn (RlxGpu  *gpu G_GNUC_UNUSED,
           gpointer user_data)
{
  Turn *turn = user_data;

  g_assert_cmpint (g_atomic_int_add (&turn->turns->n_inside, 1), ==, 0);
  /* deliberately not atomic: calls are guaranteed not to overlap */
  g_assert_cmpuint (turn->turns->n_done, ==, turn->number);
  turn->turns->n_done++;
  g_atomic_int_add (&turn->turns->n_inside, -1);
}

static void
take_turn_and_free (RlxGpu  *gpu,
                    gpointer user_data)
{
  take_turn (gpu, user_data);
  g_free (user_data);
}

static Turn *
turn_new (Turns *turns)
{
  Turn *turn = g_new (Turn, 1);

  *turn = (Turn) { turns, turns->n_posted++ };
  return turn;
}

/* Calls are executed in the order of posting, whether anybody waits for them or not. */
static void
test_order (void)
{
  RlxGpu *gpu = open_device ();
  Turns turns = { 0 };

  for (guint i = 0; i < N_CALLS; i++)
    {
      for (guint j = g_test_rand_int_range (0, 3); j > 0; j--)
        rlx_gpu_invoke (gpu, take_turn_and_free, turn_new (&turns));
      if (g_test_rand_bit ())
        g_usleep (g_test_rand_int_range (0, 200));
      rlx_gpu_invoke_sync (gpu, take_turn_and_free, turn_new (&turns));
      g_assert_cmpuint (turns.n_done, ==, turns.n_posted);
    }
  rlx_gpu_unref (gpu);
}

static void
count_alone (RlxGpu  *gpu G_GNUC_UNUSED,
             gpointer user_data)
{
  Turns *turns = user_data;

  g_assert_cmpint (g_atomic_int_add (&turns->n_inside, 1), ==, 0);
  turns->n_done++;
  g_atomic_int_add (&turns->n_inside, -1);
}

static gpointer
count_thread (gpointer data)
{
  gpointer *arguments = data;

  for (guint i = 0; i < N_CALLS; i++)
    if (i % 4 == 0)
      rlx_gpu_invoke (arguments[0], count_alone, arguments[1]);
    else
      rlx_gpu_invoke_sync (arguments[0], count_alone, arguments[1]);
  return NULL;
}

/* One at a time, and none is lost. */
static void
test_alone (void)
{
  RlxGpu *gpu = open_device ();
  Turns turns = { 0 };
  gpointer arguments[] = { gpu, &turns };
  GThread *threads[N_THREADS];

  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("count", count_thread, arguments);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  /* after the calls that nobody waited for */
  find_thread (gpu);
  g_assert_cmpuint (turns.n_done, ==, N_THREADS * N_CALLS);
  rlx_gpu_unref (gpu);
}

static void
drop_reference (RlxGpu  *gpu,
                gpointer user_data)
{
  rlx_gpu_unref (gpu);
  *(gboolean *) user_data = TRUE;
}

/* The last reference is dropped in a call. */
static void
test_last_reference (void)
{
  for (guint i = 0; i < 5; i++)
    {
      RlxGpu *gpu = open_device ();
      gboolean dropped = FALSE;

      rlx_gpu_invoke_sync (gpu, drop_reference, &dropped);
      g_assert_true (dropped);
    }
}

typedef struct
{
  Kernel kernel;
  RlxGpuDispatch dispatch;
  RlxGpuJob job;
} Work;

static gpointer
run_until_error (gpointer data)
{
  Work *work = data;
  g_autoptr (GError) error = NULL;

  while (execute (work->kernel.gpu, &work->job, NULL, &error))
    continue;
  if (!g_error_matches (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_LOST) ||
      strstr (error->message, "the process is ending") == NULL)
    abort ();
  return NULL;
}

/* The process ends while a caller waits for the device. The caller gets an error, or
 * waits for ever. */
static void
test_exit (void)
{
  if (g_test_subprocess ())
    {
      /* Used until the very end, and always reachable for a leak checker. */
      static Work work;

      kernel_init (&work.kernel, open_device (), twice_wgsl, 100000);
      work.dispatch = kernel_dispatch (&work.kernel);
      work.job = (RlxGpuJob) { .dispatches = &work.dispatch, .n_dispatches = 1 };
      g_thread_unref (g_thread_new ("caller", run_until_error, &work));
      g_usleep (g_test_rand_int_range (0, 20) * 1000);
      exit (0);
    }

  check_exits ();
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/gpu-turns/idle", test_idle);
  g_test_add_func ("/gpu-turns/busy", test_busy);
  g_test_add_func ("/gpu-turns/order", test_order);
  g_test_add_func ("/gpu-turns/alone", test_alone);
  g_test_add_func ("/gpu-turns/last-reference", test_last_reference);
  g_test_add_func ("/gpu-turns/exit", test_exit);

  return g_test_run ();
}
