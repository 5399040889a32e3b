/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * fork(): the child has none of the threads that a device needs. It is told so at
 * once, it ends without waiting for them, and the parent notices nothing.
 */
#include "config.h"

#include <rlx-wgpu/rlx-wgpu.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Seconds after which a hanging child is killed; RLX_TIMEOUT is far larger. */
#define GUARD 20

#define N_FORKS 20

typedef struct
{
  RlxDevice *device;
  RlxGraph *graph;
  RlxExecutable *executable;
  RlxTensor *x;
} Model;

/* y = p · x, and a state that counts. */
static RlxGraph *
make_graph (void)
{
  g_autoptr(GError) error = NULL;
  RlxGraph *graph = rlx_graph_new ();
  const gint64 shape[] = { 4 };
  g_autoptr(RlxTensor) initial = rlx_tensor_new_from_floats (shape, 1, (float[]) { 0, 0, 0, 0 }, 4, NULL);
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, shape, 1, &error);
  RlxNode *p = rlx_graph_parameter (graph, "p", RLX_DATA_TYPE_F32, shape, 1, &error);
  RlxNode *s = rlx_graph_state (graph, "s", initial, &error);

  rlx_graph_output (graph, "y", rlx_node_mul (x, p, &error), &error);
  rlx_graph_assign (graph, s, rlx_node_add (s, x, &error), &error);
  g_assert_no_error (error);
  return graph;
}

static void
model_init (Model *model)
{
  g_autoptr(GError) error = NULL;
  const gint64 shape[] = { 4 };

  model->device = rlx_device_get_default (&error);
  g_assert_no_error (error);
  model->graph = make_graph ();
  model->executable = rlx_device_compile (model->device, model->graph, NULL, NULL, &error);
  g_assert_no_error (error);
  model->x = rlx_tensor_new_from_floats (shape, 1, (float[]) { 1, 2, 3, 4 }, 4, NULL);
  rlx_executable_set_parameters (model->executable, (const char *[]) { "p", NULL }, &model->x, 1, NULL, &error);
  g_assert_no_error (error);
}

static void
model_clear (Model *model)
{
  g_object_unref (model->x);
  g_object_unref (model->executable);
  g_object_unref (model->graph);
}

static gboolean
run (Model   *model,
     GError **error)
{
  gsize n;
  g_autofree RlxTensor **outputs = rlx_executable_run (model->executable, &model->x, 1, &n, NULL, error);
  g_autofree float *y = NULL;

  if (outputs == NULL)
    return FALSE;
  y = rlx_tensor_to_floats (outputs[0], &n, NULL);
  for (guint i = 0; i < 4; i++)
    g_assert_cmpfloat (y[i], ==, (float) ((i + 1) * (i + 1)));
  g_object_unref (outputs[0]);
  return TRUE;
}

static void
check_runs (Model *model)
{
  g_autoptr(GError) error = NULL;

  run (model, &error);
  g_assert_no_error (error);
}

static void
assert_told (GError **error)
{
  g_assert_error (*error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_LOST);
  g_assert_nonnull (strstr ((*error)->message, "fork()"));
  g_assert_nonnull (strstr ((*error)->message, "spawn"));
  g_assert_nonnull (strstr ((*error)->message, "forkserver"));
  g_clear_error (error);
}

static void
keep_result (GObject      *source G_GNUC_UNUSED,
             GAsyncResult *result,
             gpointer      data)
{
  *(GAsyncResult **) data = g_object_ref (result);
}

static GAsyncResult *
wait_result (GAsyncResult **result)
{
  while (*result == NULL)
    g_main_context_iteration (NULL, TRUE);
  return *result;
}

static void
child_async (Model *model)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GAsyncResult) ran = NULL, compiled = NULL, calibrated = NULL;
  g_autoptr(GCancellable) cancellable = g_cancellable_new ();

  rlx_executable_run_async (model->executable, &model->x, 1, cancellable, keep_result, &ran);
  g_assert_null (rlx_executable_run_finish (model->executable, wait_result (&ran), NULL, &error));
  assert_told (&error);
  rlx_device_compile_async (model->device, model->graph, NULL, NULL, keep_result, &compiled);
  g_assert_null (rlx_device_compile_finish (model->device, wait_result (&compiled), &error));
  assert_told (&error);
  rlx_device_calibrate_async (model->device, NULL, keep_result, &calibrated);
  g_assert_null (rlx_device_calibrate_finish (model->device, wait_result (&calibrated), &error));
  assert_told (&error);
}

static void
child_calls (Model *model)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GCancellable) cancellable = g_cancellable_new ();
  gsize n;

  g_assert_true (rlx_device_get_lost (model->device));
  g_assert_nonnull (rlx_device_get_lost_reason (model->device));
  g_assert_false (run (model, &error));
  assert_told (&error);
  g_assert_null (rlx_executable_run (model->executable, &model->x, 1, &n, cancellable, &error));
  assert_told (&error);
  g_assert_false (rlx_executable_set_parameters (model->executable, (const char *[]) { "p", NULL }, &model->x, 1, NULL, &error));
  assert_told (&error);
  g_assert_null (rlx_executable_read_state (model->executable, "s", NULL, &error));
  assert_told (&error);
  g_assert_false (rlx_executable_write_state (model->executable, "s", model->x, NULL, &error));
  assert_told (&error);
  g_assert_null (rlx_executable_fork (model->executable, NULL, &error));
  assert_told (&error);
  g_assert_null (rlx_device_compile (model->device, model->graph, NULL, NULL, &error));
  assert_told (&error);
  g_assert_null (rlx_device_calibrate (model->device, NULL, &error));
  assert_told (&error);
  g_assert_null (rlx_device_get_default (&error));
  assert_told (&error);
  g_assert_null (rlx_device_open (NULL, NULL, &error));
  assert_told (&error);
  child_async (model);
}

/* Runs @func in a child; returns how it ended. */
static int
in_child (void  (*func) (Model *),
          Model *model)
{
  int status = 0;
  pid_t pid = fork ();

  g_assert_cmpint (pid, >=, 0);
  if (pid == 0)
    {
      alarm (GUARD);
      func (model);
      exit (3);
    }
  g_assert_cmpint (waitpid (pid, &status, 0), ==, pid);
  return status;
}

static void
assert_ended (int status)
{
  if (WIFSIGNALED (status))
    g_error ("the child was ended by signal %d", WTERMSIG (status));
  g_assert_true (WIFEXITED (status));
  g_assert_cmpint (WEXITSTATUS (status), ==, 3);
}

static void
child_clears (Model *model)
{
  child_calls (model);
  model_clear (model);
}

static void
test_refused (void)
{
  Model model;

  model_init (&model);
  check_runs (&model);
  assert_ended (in_child (child_calls, &model));
  check_runs (&model);
  assert_ended (in_child (child_clears, &model));
  check_runs (&model);
  g_assert_false (rlx_device_get_lost (model.device));
  model_clear (&model);
}

static void
child_runs (Model *model)
{
  g_autoptr(GError) error = NULL;

  g_assert_false (run (model, &error));
  assert_told (&error);
}

static gpointer
run_on (gpointer data)
{
  gpointer *arguments = data;

  while (!g_atomic_int_get ((int *) arguments[1]))
    check_runs (arguments[0]);
  return NULL;
}

/* At the moment of the fork the device is busy, and locks are held. */
static void
test_busy (void)
{
  Model model;
  int stop = FALSE;
  gpointer arguments[] = { &model, &stop };
  GThread *thread;

  model_init (&model);
  thread = g_thread_new ("run", run_on, arguments);
  for (guint i = 0; i < N_FORKS; i++)
    {
      assert_ended (in_child (child_runs, &model));
      g_usleep (50 * i);
    }
  g_atomic_int_set (&stop, TRUE);
  g_thread_join (thread);
  check_runs (&model);
  model_clear (&model);
}

static int pipe_ends[2];

static void
child_writes (Model *model G_GNUC_UNUSED)
{
  FILE *file = fdopen (pipe_ends[1], "w");

  fputs ("written", file);
}

/* Buffered output is not lost in an early exit. */
static void
test_flushed (void)
{
  Model model;
  char text[16] = "";

  model_init (&model);
  check_runs (&model);
  g_assert_cmpint (pipe (pipe_ends), ==, 0);
  assert_ended (in_child (child_writes, &model));
  close (pipe_ends[1]);
  g_assert_cmpint (read (pipe_ends[0], text, sizeof text - 1), ==, 7);
  g_assert_cmpstr (text, ==, "written");
  close (pipe_ends[0]);
  model_clear (&model);
}

static void
child_opens (Model *model)
{
  model_init (model);
  check_runs (model);
  model_clear (model);
}

/* Nothing was opened before the fork: a child works like its parent. */
static void
test_before (void)
{
  Model model;

  if (g_test_subprocess ())
    {
      g_autoptr(GListModel) adapters = rlx_adapter_list (NULL, NULL);

      g_assert_nonnull (adapters);
      assert_ended (in_child (child_opens, &model));
      child_opens (&model);
      return;
    }
  g_test_trap_subprocess (NULL, 0, G_TEST_SUBPROCESS_DEFAULT);
  g_test_trap_assert_passed ();
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/fork/before", test_before);
  g_test_add_func ("/fork/refused", test_refused);
  g_test_add_func ("/fork/busy", test_busy);
  g_test_add_func ("/fork/flushed", test_flushed);

  return g_test_run ();
}
