/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Executables from several threads, without blocking, cancelled, and run many
 * times.
 */
#include "config.h"

#include "rlx-test-executable.h"

#define N_THREADS 8
#define N_RUNS 200

typedef struct
{
  RlxExecutable *executable;
  RlxTensor **inputs;
  RlxTensor **expected;   /* two per input */
} ThreadData;

static gpointer
thread_main (gpointer user_data)
{
  const ThreadData *data = user_data;

  for (guint i = 0; i < N_RUNS; i++)
    {
      g_autoptr(GError) error = NULL;
      gsize n;
      g_autofree RlxTensor **outputs = rlx_executable_run (data->executable, &data->inputs[i % 4], 1, &n, NULL, &error);

      g_assert_no_error (error);
      for (guint j = 0; j < 2; j++)
        {
          g_assert_true (rlx_tensor_equal (outputs[j], data->expected[i % 4 * 2 + j]));
          g_object_unref (outputs[j]);
        }
    }
  return NULL;
}

static void
test_threads (void)
{
  g_autoptr(RlxExecutable) executable = NULL;
  RlxTensor *inputs[4], *expected[8];
  GThread *threads[N_THREADS];
  ThreadData data;

  if (rlx_test_device () == NULL)
    return;
  executable = busy_executable ();
  for (guint i = 0; i < 4; i++)
    {
      gsize n;
      g_autofree RlxTensor **outputs = NULL;

      inputs[i] = rlx_test_random ("f32[17,33]", -2, 2, 10 + i);
      outputs = rlx_executable_run (executable, &inputs[i], 1, &n, NULL, NULL);
      g_assert_nonnull (outputs);
      expected[2 * i] = outputs[0];
      expected[2 * i + 1] = outputs[1];
    }
  data = (ThreadData) { executable, inputs, expected };
  for (guint i = 0; i < N_THREADS; i++)
    threads[i] = g_thread_new ("runner", thread_main, &data);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (threads[i]);
  for (guint i = 0; i < 4; i++)
    g_object_unref (inputs[i]);
  for (guint i = 0; i < 8; i++)
    g_object_unref (expected[i]);
}

/* 2,000 runs: no GPU object is created, and memory does not grow. */
static void
test_steady (void)
{
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) x = NULL;
  RlxGpu *gpu;
  RlxGpuCounters before = { 0, }, after;
  gsize resident = 0;

  if (rlx_test_device () == NULL)
    return;
  executable = busy_executable ();
  gpu = rlx_device_get_gpu (rlx_test_device ());
  x = rlx_test_random ("f32[17,33]", -2, 2, 5);
  for (guint i = 0; i < 2100; i++)
    {
      gsize n;
      g_autofree RlxTensor **outputs = rlx_executable_run (executable, &x, 1, &n, NULL, NULL);

      g_assert_nonnull (outputs);
      g_object_unref (outputs[0]);
      g_object_unref (outputs[1]);
      if (i == 99)
        {
          rlx_gpu_get_counters (gpu, &before);
          resident = rlx_test_resident_bytes ();
        }
    }
  rlx_gpu_get_counters (gpu, &after);
  g_assert_cmpuint (after.buffers, ==, before.buffers);
  g_assert_cmpuint (after.bind_groups, ==, before.bind_groups);
  g_assert_cmpuint (after.pipelines, ==, before.pipelines);
  g_assert_cmpuint (after.shader_modules, ==, before.shader_modules);
  g_assert_cmpuint (after.dispatches, >=, before.dispatches + 2000 * rlx_executable_get_n_dispatches (executable));
  g_assert_cmpuint (resident, >, 0);
#ifndef __SANITIZE_ADDRESS__
  /* which holds on to freed memory to detect uses of it */
  g_assert_cmpuint (rlx_test_resident_bytes (), <=, resident + 512 * 1024);
#endif
}

typedef struct
{
  GMainLoop *loop;
  guint left;
  guint done;
  GThread *thread;
  GError *error;
  RlxTensor *first;
} AsyncData;

static void
on_ran (GObject      *source,
        GAsyncResult *result,
        gpointer      user_data)
{
  AsyncData *data = user_data;
  g_autoptr(GError) error = NULL;
  gsize n;
  g_autofree RlxTensor **outputs = rlx_executable_run_finish (RLX_EXECUTABLE (source), result, &n, &error);

  g_assert_true (g_thread_self () == data->thread);
  if (outputs != NULL)
    {
      data->done++;
      for (gsize i = 0; i < n; i++)
        {
          if (i == 0 && data->first == NULL)
            data->first = outputs[0];
          else
            g_object_unref (outputs[i]);
        }
    }
  else
    {
      g_assert_cmpuint (n, ==, 0);
      g_clear_error (&data->error);
      data->error = g_steal_pointer (&error);
    }
  if (--data->left == 0)
    g_main_loop_quit (data->loop);
}

static void
test_async (void)
{
  g_autoptr(GMainContext) context = g_main_context_new ();
  g_autoptr(GMainLoop) loop = g_main_loop_new (context, FALSE);
  g_autoptr(RlxTensor) x = NULL;
  AsyncData data = { loop, 50, 0, g_thread_self (), NULL, NULL };

  if (rlx_test_device () == NULL)
    return;
  g_main_context_push_thread_default (context);
  {
    g_autoptr(RlxExecutable) executable = small_executable ();

    x = floats ("f32[2,3]", (float[]) { 1, 2, 3, -4, -5, -6 });
    for (guint i = 0; i < 50; i++)
      rlx_executable_run_async (executable, &x, 1, NULL, on_ran, &data);
    /* the last reference is dropped while runs are queued */
  }
  g_main_loop_run (loop);
  g_assert_cmpuint (data.done, ==, 50);
  assert_values (data.first, "[4, 5, 0, 0]");
  g_clear_object (&data.first);

  /* an invalid call is an error in the callback */
  {
    g_autoptr(RlxExecutable) executable = small_executable ();

    data.left = 1;
    rlx_executable_run_async (executable, NULL, 0, NULL, on_ran, &data);
    g_main_loop_run (loop);
    g_assert_error (data.error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT);
    g_clear_error (&data.error);
  }
  g_main_context_pop_thread_default (context);
}

static void
test_cancel (void)
{
  g_autoptr(GMainLoop) loop = g_main_loop_new (NULL, FALSE);
  g_autoptr(GCancellable) cancellable = g_cancellable_new ();
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) x = NULL, y = NULL;
  g_autoptr(GError) error = NULL;
  AsyncData data = { loop, 100, 0, g_thread_self (), NULL, NULL };
  gsize n;

  if (rlx_test_device () == NULL)
    return;
  executable = small_executable ();
  x = floats ("f32[2,3]", (float[]) { 1, 2, 3, -4, -5, -6 });

  /* while runs are queued */
  for (guint i = 0; i < 100; i++)
    rlx_executable_run_async (executable, &x, 1, cancellable, on_ran, &data);
  g_idle_add_full (G_PRIORITY_HIGH, rlx_test_cancel, cancellable, NULL);
  g_main_loop_run (loop);
  g_assert_cmpuint (data.done, <, 100);
  g_assert_error (data.error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_assert_cmpstr (data.error->message, ==, "Operation was cancelled");
  g_clear_error (&data.error);
  g_clear_object (&data.first);

  /* before */
  g_assert_null (rlx_executable_run (executable, &x, 1, &n, cancellable, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_assert_cmpstr (error->message, ==, "Operation was cancelled");
  g_clear_error (&error);

  /* and it still works */
  y = run_one (executable, x);
  assert_values (y, "[4, 5, 0, 0]");
}

typedef struct
{
  RlxExecutable *executable;
  RlxTensor *x;
  GAsyncResult *result;
  guint n_calls;
} Handler;

/* This handler runs everything successfully with a cancellable of its own, and everything
 * is cancelled with the one given. */
static void
on_cancelled (GCancellable *cancellable,
              gpointer      user_data)
{
  Handler *handler = user_data;
  g_autoptr(GCancellable) other = g_cancellable_new ();
  g_autoptr(RlxExecutable) compiled = small_executable ();
  g_autoptr(RlxTensor) y = run_one (compiled, handler->x);
  g_autoptr(GError) error = NULL;
  RlxTensor **outputs;

  assert_values (y, "[4, 5, 0, 0]");
  outputs = rlx_executable_run (handler->executable, &handler->x, 1, NULL, other, &error);
  g_assert_no_error (error);
  g_object_unref (outputs[0]);
  g_free (outputs);
  g_assert_null (rlx_executable_run (handler->executable, &handler->x, 1, NULL, cancellable, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  if (handler->n_calls++ == 0)
    rlx_executable_run_async (handler->executable, &handler->x, 1, cancellable, rlx_test_keep_result, &handler->result);
}

/* Runs in handlers of the signal, connected before and after those of the cancelled runs. */
static void
test_cancelled_handler (void)
{
  g_autoptr(GMainLoop) loop = g_main_loop_new (NULL, FALSE);
  g_autoptr(GCancellable) cancellable = g_cancellable_new ();
  g_autoptr(GError) error = NULL;
  AsyncData data = { loop, 100, 0, g_thread_self (), NULL, NULL };
  Handler handler = { 0 };

  if (!g_test_subprocess ())
    {
      g_test_trap_subprocess (NULL, 60 * G_USEC_PER_SEC, G_TEST_SUBPROCESS_INHERIT_STDERR);
      g_test_trap_assert_passed ();
      return;
    }
  if (rlx_test_device () == NULL)
    return;
  handler.executable = small_executable ();
  handler.x = floats ("f32[2,3]", (float[]) { 1, 2, 3, -4, -5, -6 });
  g_cancellable_connect (cancellable, G_CALLBACK (on_cancelled), &handler, NULL);
  for (guint i = 0; i < 100; i++)
    rlx_executable_run_async (handler.executable, &handler.x, 1, cancellable, on_ran, &data);
  g_signal_connect (cancellable, "cancelled", G_CALLBACK (on_cancelled), &handler);
  g_cancellable_cancel (cancellable);
  g_assert_cmpuint (handler.n_calls, ==, 2);
  g_main_loop_run (loop);
  g_assert_error (data.error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  while (handler.result == NULL)
    g_main_context_iteration (NULL, TRUE);
  g_assert_null (rlx_executable_run_finish (handler.executable, handler.result, NULL, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_clear_error (&data.error);
  g_clear_object (&data.first);
  g_object_unref (handler.result);
  g_object_unref (handler.executable);
  g_object_unref (handler.x);
}

static void
test_compile_async (void)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(GCancellable) cancellable = g_cancellable_new ();
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) x = NULL, y = NULL;
  g_autoptr(GError) error = NULL;

  if (rlx_test_device () == NULL)
    return;
  rlx_graph_output (graph, "y", rlx_node_neg (rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, (gint64[]) { 2 }, 1, NULL), NULL), NULL);
  rlx_device_compile_async (rlx_test_device (), graph, NULL, NULL, rlx_test_keep_result, &result);
  while (result == NULL)
    g_main_context_iteration (NULL, TRUE);
  executable = rlx_device_compile_finish (rlx_test_device (), result, &error);
  g_assert_no_error (error);
  x = floats ("f32[2]", (float[]) { 1, -2 });
  y = run_one (executable, x);
  assert_values (y, "[-1, 2]");

  g_clear_object (&result);
  g_cancellable_cancel (cancellable);
  rlx_device_compile_async (rlx_test_device (), graph, NULL, cancellable, rlx_test_keep_result, &result);
  while (result == NULL)
    g_main_context_iteration (NULL, TRUE);
  g_assert_null (rlx_device_compile_finish (rlx_test_device (), result, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/executable/threads", test_threads);
  g_test_add_func ("/executable/steady", test_steady);
  g_test_add_func ("/executable/async", test_async);
  g_test_add_func ("/executable/cancel", test_cancel);
  g_test_add_func ("/executable/cancelled-handler", test_cancelled_handler);
  g_test_add_func ("/executable/compile-async", test_compile_async);

  return g_test_run ();
}
