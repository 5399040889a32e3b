/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Many things at once on one device, things that go away while they are in use,
 * and many of them over time.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rlx-wgpu/rlx-wgpu.h>

#define N_THREADS 6
#define N_ROUNDS 60
#define N 256

static RlxDevice *device;

static void
open_device (void)
{
  g_autoptr(GError) error = NULL;

  if (device == NULL)
    device = rlx_device_get_default (&error);
  g_assert_no_error (error);
}

/* y = (x + p) * p, and then p + p; all elements of the parameter are 1 or 2. */
static RlxExecutable *
make_executable (RlxDevice *here)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  const gint64 shape[] = { N };
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, shape, 1, NULL);
  RlxNode *p = rlx_graph_parameter (graph, "p", RLX_DATA_TYPE_F32, shape, 1, NULL);
  RlxExecutable *executable;

  rlx_graph_output (graph, "y", rlx_node_mul (rlx_node_add (x, p, NULL), p, NULL), NULL);
  rlx_graph_output (graph, "twice", rlx_node_add (p, p, NULL), NULL);
  executable = rlx_device_compile (here, graph, NULL, NULL, &error);
  g_assert_no_error (error);
  return executable;
}

static RlxTensor *
filled (float value)
{
  const gint64 shape[] = { N };
  float values[N];

  for (guint i = 0; i < N; i++)
    values[i] = value;
  return rlx_tensor_new_from_floats (shape, 1, values, N, NULL);
}

static void
set_parameter (RlxExecutable *executable,
               float          value)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxTensor) p = filled (value);

  rlx_executable_set_parameters (executable, (const char *[]) { "p", NULL }, &p, 1, NULL, &error);
  g_assert_no_error (error);
}

/* A run sees the parameter before or after a change, and never a mixture. */
static void
check_outputs (RlxTensor **outputs,
               float       x)
{
  gsize n, n_twice;
  g_autofree float *y = rlx_tensor_to_floats (outputs[0], &n, NULL);
  g_autofree float *twice = rlx_tensor_to_floats (outputs[1], &n_twice, NULL);
  float p = twice[0] / 2;

  g_assert_cmpuint (n, ==, N);
  g_assert_true (p == 1 || p == 2);
  for (guint i = 0; i < N; i++)
    {
      g_assert_cmpfloat (twice[i], ==, 2 * p);
      g_assert_cmpfloat (y[i], ==, (x + p) * p);
    }
  g_object_unref (outputs[0]);
  g_object_unref (outputs[1]);
  g_free (outputs);
}

static void
run_and_check (RlxExecutable *executable,
               float          value)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxTensor) x = filled (value);
  gsize n;
  RlxTensor **outputs = rlx_executable_run (executable, &x, 1, &n, NULL, &error);

  g_assert_no_error (error);
  g_assert_cmpuint (n, ==, 2);
  check_outputs (outputs, value);
}

/* ---- many things at once -------------------------------------------------------- */

static gpointer
cancel_soon (gpointer data)
{
  g_usleep (g_random_int_range (0, 500));
  g_cancellable_cancel (data);
  g_object_unref (data);
  return NULL;
}

static void
run_and_cancel (RlxExecutable *executable)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GCancellable) cancellable = g_cancellable_new ();
  g_autoptr(RlxTensor) x = filled (3);
  GThread *thread = g_thread_new ("cancel", cancel_soon, g_object_ref (cancellable));
  gsize n;
  RlxTensor **outputs = rlx_executable_run (executable, &x, 1, &n, cancellable, &error);

  if (outputs != NULL)
    check_outputs (outputs, 3);
  else
    g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_thread_join (thread);
}

static gpointer
mixed_thread (gpointer data)
{
  RlxExecutable *executable = data;

  for (guint i = 0; i < N_ROUNDS; i++)
    switch (g_random_int_range (0, 8))
      {
      case 0:
        set_parameter (executable, 1);
        break;
      case 1:
        set_parameter (executable, 2);
        break;
      case 2:
        {
          g_autoptr(RlxExecutable) other = make_executable (device);

          set_parameter (other, 1);
          run_and_check (other, 7);
        }
        break;
      case 3:
        {
          g_autoptr(GError) error = NULL;
          g_autoptr(RlxExecutable) fork = rlx_executable_fork (executable, NULL, &error);

          g_assert_no_error (error);
          run_and_check (fork, 5);
        }
        break;
      case 4:
        run_and_cancel (executable);
        break;
      case 5:
        rlx_executable_set_profiling (executable, g_random_boolean ());
        {
          g_autoptr(RlxProfile) profile = rlx_executable_dup_profile (executable);
          g_autofree char *text = profile ? rlx_profile_to_string (profile) : NULL;
          g_autofree char *plan = rlx_executable_describe_plan (executable);

          g_assert_nonnull (plan);
        }
        break;
      default:
        run_and_check (executable, (float) i);
        break;
      }
  return NULL;
}

static void
test_mixed (void)
{
  g_autoptr(RlxExecutable) executable = NULL;
  GThread *threads[N_THREADS];

  open_device ();
  executable = make_executable (device);
  set_parameter (executable, 1);
  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("mixed", mixed_thread, executable);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  run_and_check (executable, 1);
}

/* ---- callers that work with the device themselves ------------------------------------- */

typedef struct
{
  RlxExecutable *executable;
  float p;
  gint n_left;               /* atomic: number of callers that are not done */
  guint n_started;
  guint n_ended;
  guint n_cancelled;
} Callers;

/* The parameter does not change here, so the result is known to the bit. */
static void
check_exactly (RlxTensor **outputs,
               float       x,
               float       p)
{
  gsize n;
  g_autofree float *y = rlx_tensor_to_floats (outputs[0], &n, NULL);

  for (guint i = 0; i < N; i++)
    g_assert_cmpfloat (y[i], ==, (x + p) * p);
  check_outputs (outputs, x);
}

static gpointer
caller_thread (gpointer data)
{
  Callers *callers = data;
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxExecutable) fork = rlx_executable_fork (callers->executable, NULL, &error);

  g_assert_no_error (error);
  for (guint i = 0; i < 5 * N_ROUNDS; i++)
    {
      g_autoptr(RlxTensor) x = filled ((float) i);
      RlxTensor **outputs;
      gsize n;

      if (i % 16 == 15)
        {
          run_and_cancel (fork);
          continue;
        }
      /* sometimes the others are idle for a while */
      if (i % 32 == 0)
        g_usleep (g_random_int_range (0, 2000));
      outputs = rlx_executable_run (i % 2 ? fork : callers->executable, &x, 1, &n, NULL, &error);
      g_assert_no_error (error);
      check_exactly (outputs, (float) i, callers->p);
    }
  g_atomic_int_add (&callers->n_left, -1);
  return NULL;
}

static void
on_between (GObject      *source,
            GAsyncResult *result,
            gpointer      user_data)
{
  g_autoptr(GError) error = NULL;
  Callers *callers = user_data;
  gsize n;
  RlxTensor **outputs = rlx_executable_run_finish (RLX_EXECUTABLE (source), result, &n, &error);

  if (outputs != NULL)
    check_exactly (outputs, 9, callers->p);
  else
    g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  callers->n_cancelled += outputs == NULL;
  callers->n_ended++;
}

/* Blocking runs in several threads, and asynchronous ones, all on the same device. Each
 * gets its own result. */
static void
test_callers (void)
{
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) x = filled (9);
  Callers callers = { .p = 2, .n_left = N_THREADS };
  GThread *threads[N_THREADS];

  open_device ();
  executable = make_executable (device);
  set_parameter (executable, callers.p);
  callers.executable = executable;
  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("caller", caller_thread, &callers);
  while (g_atomic_int_get (&callers.n_left) > 0 || callers.n_ended < callers.n_started)
    {
      if (g_atomic_int_get (&callers.n_left) > 0 && callers.n_started < callers.n_ended + 3)
        {
          g_autoptr(GCancellable) cancellable = callers.n_started % 5 == 4 ? g_cancellable_new () : NULL;

          rlx_executable_run_async (executable, &x, 1, cancellable, on_between, &callers);
          callers.n_started++;
          if (cancellable != NULL)
            g_cancellable_cancel (cancellable);
        }
      g_main_context_iteration (NULL, callers.n_ended < callers.n_started);
    }
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  g_test_message ("%u runs between those of the callers, %u of them cancelled", callers.n_ended, callers.n_cancelled);
  g_assert_cmpuint (callers.n_ended, >, callers.n_cancelled);
}

typedef struct
{
  RlxExecutable *executable;
  gint running;              /* atomic */
} Owner;

static gpointer
owner_thread (gpointer data)
{
  Owner *owner = data;
  RlxTensor *x = filled (6);
  RlxTensor **outputs;
  gsize n;

  g_atomic_int_set (&owner->running, TRUE);
  outputs = rlx_executable_run (owner->executable, &x, 1, &n, NULL, NULL);
  /* the last one, unless the other thread has it */
  g_object_unref (owner->executable);
  check_outputs (outputs, 6);
  g_object_unref (x);
  return NULL;
}

/* Everything but the run itself is released during a caller's run. */
static void
test_caller_last_reference (void)
{
  for (guint i = 0; i < 20; i++)
    {
      RlxDevice *own = rlx_device_open (NULL, NULL, NULL);
      Owner owner = { make_executable (own), FALSE };
      GThread *thread;

      set_parameter (owner.executable, 1);
      thread = g_thread_new ("owner", owner_thread, &owner);
      while (!g_atomic_int_get (&owner.running))
        continue;
      g_object_unref (own);
      g_thread_join (thread);
    }
}

/* ---- early release ---------------------------------------------------------------- */

typedef struct
{
  guint left;
  guint done;
} Chain;

static void
on_done (GObject      *source,
         GAsyncResult *result,
         gpointer      user_data)
{
  g_autoptr(GError) error = NULL;
  guint *done = user_data;
  gsize n;
  RlxTensor **outputs = rlx_executable_run_finish (RLX_EXECUTABLE (source), result, &n, &error);

  g_assert_no_error (error);
  check_outputs (outputs, 4);
  (*done)++;
}

/* A run keeps what it needs alive. */
static void
test_last_reference (void)
{
  guint done = 0;

  open_device ();
  for (guint i = 0; i < 20; i++)
    {
      RlxDevice *own = rlx_device_open (NULL, NULL, NULL);
      RlxExecutable *executable = make_executable (own);
      RlxTensor *x = filled (4);

      set_parameter (executable, 2);
      rlx_executable_run_async (executable, &x, 1, NULL, on_done, &done);
      g_object_unref (x);
      g_object_unref (executable);
      g_object_unref (own);
      while (done == i)
        g_main_context_iteration (NULL, TRUE);
    }
  g_assert_cmpuint (done, ==, 20);
}

static void
on_chain (GObject      *source,
          GAsyncResult *result,
          gpointer      user_data)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxTensor) x = filled (4);
  RlxExecutable *executable = RLX_EXECUTABLE (source);
  Chain *chain = user_data;
  gsize n;
  RlxTensor **outputs = rlx_executable_run_finish (executable, result, &n, &error);

  g_assert_no_error (error);
  check_outputs (outputs, 4);
  chain->done++;
  /* a blocking run, and the next one */
  run_and_check (executable, 8);
  set_parameter (executable, chain->left % 2 ? 1 : 2);
  if (--chain->left > 0)
    rlx_executable_run_async (executable, &x, 1, NULL, on_chain, chain);
}

/* Runs from inside the callback of a run. */
static void
test_from_callback (void)
{
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) x = filled (4);
  Chain chain = { 50, 0 };

  open_device ();
  executable = make_executable (device);
  set_parameter (executable, 1);
  rlx_executable_run_async (executable, &x, 1, NULL, on_chain, &chain);
  while (chain.left > 0)
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpuint (chain.done, ==, 50);
}

/* ---- many of them ------------------------------------------------------------------ */

static gsize
resident_bytes (void)
{
  g_autofree char *text = NULL;
  unsigned long size = 0, resident = 0;

  if (!g_file_get_contents ("/proc/self/statm", &text, NULL, NULL) || sscanf (text, "%lu %lu", &size, &resident) != 2)
    return 0;
  return resident * (gsize) sysconf (_SC_PAGESIZE);
}

/* Device memory is released with the executable. */
static void
test_many_executables (void)
{
  g_autoptr(GPtrArray) all = g_ptr_array_new_with_free_func (g_object_unref);
  guint64 before, during;

  open_device ();
  {
    g_autoptr(RlxExecutable) first = make_executable (device);

    set_parameter (first, 1);
    run_and_check (first, 1);
  }
  before = rlx_device_get_memory_used (device);
  for (guint i = 0; i < 200; i++)
    {
      g_ptr_array_add (all, make_executable (device));
      set_parameter (g_ptr_array_index (all, i), 1);
    }
  during = rlx_device_get_memory_used (device);
  g_assert_cmpuint (during, >=, before + 200 * N * sizeof (float));
  for (guint i = 0; i < all->len; i += 10)
    run_and_check (g_ptr_array_index (all, i), (float) i);
  g_ptr_array_set_size (all, 0);
  /* released in the device's own thread */
  for (guint i = 0; i < 5000 && rlx_device_get_memory_used (device) > before; i++)
    g_usleep (1000);
  g_assert_cmpuint (rlx_device_get_memory_used (device), ==, before);
}

/* Devices come and go, and memory usage is constant. */
static void
test_many_devices (void)
{
  gsize settled = 0;
  const guint rounds = 60;

  for (guint i = 0; i < rounds; i++)
    {
      g_autoptr(GError) error = NULL;
      g_autoptr(RlxDevice) own = rlx_device_open (NULL, NULL, &error);
      g_autoptr(RlxExecutable) executable = NULL;

      g_assert_no_error (error);
      executable = make_executable (own);
      set_parameter (executable, 1);
      run_and_check (executable, (float) i);
      if (i == rounds / 2)
        settled = resident_bytes ();
    }
  g_assert_cmpuint (settled, >, 0);
  g_test_message ("%" G_GSIZE_FORMAT " KiB after half of it, %" G_GSIZE_FORMAT " KiB in the end", settled / 1024, resident_bytes () / 1024);
#ifndef __SANITIZE_ADDRESS__
  /* which holds on to freed memory; without it, a leak of a device's objects would be many megabytes */
  g_assert_cmpuint (resident_bytes (), <=, settled + 4 * 1024 * 1024);
#endif
}

int
main (int   argc,
      char *argv[])
{
  int status;

  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/stress/mixed", test_mixed);
  g_test_add_func ("/stress/callers", test_callers);
  g_test_add_func ("/stress/caller-last-reference", test_caller_last_reference);
  g_test_add_func ("/stress/last-reference", test_last_reference);
  g_test_add_func ("/stress/from-callback", test_from_callback);
  g_test_add_func ("/stress/many-executables", test_many_executables);
  g_test_add_func ("/stress/many-devices", test_many_devices);

  status = g_test_run ();
  return status;
}
