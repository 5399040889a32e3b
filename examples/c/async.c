/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Compiles and runs without blocking the main loop, and cancels a run.
 */
#include <rlx-wgpu/rlx-wgpu.h>

typedef struct
{
  GMainLoop *loop;
  RlxTensor *x;
  RlxExecutable *executable;
  GCancellable *cancellable;
  GError *error;
} App;

static void
cancelled_run_ready_cb (GObject      *source,
                        GAsyncResult *result,
                        gpointer      data)
{
  App *app = data;
  g_auto(RlxTensors) outputs = rlx_executable_run_finish (RLX_EXECUTABLE (source), result, NULL, &app->error);

  if (g_error_matches (app->error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
    {
      g_print ("cancelled\n");
      g_clear_error (&app->error);
    }

  g_main_loop_quit (app->loop);
}

static void
run_ready_cb (GObject      *source,
              GAsyncResult *result,
              gpointer      data)
{
  App *app = data;
  g_auto(RlxTensors) outputs = rlx_executable_run_finish (RLX_EXECUTABLE (source), result, NULL, &app->error);
  g_autofree char *text = NULL;

  if (outputs == NULL)
    {
      g_main_loop_quit (app->loop);
      return;
    }

  text = rlx_tensor_to_string (outputs[0]);
  g_print ("%s\n", text);

  rlx_executable_run_async (app->executable, &app->x, 1, app->cancellable, cancelled_run_ready_cb, app);
  g_cancellable_cancel (app->cancellable);
}

static void
compile_ready_cb (GObject      *source,
                  GAsyncResult *result,
                  gpointer      data)
{
  App *app = data;

  app->executable = rlx_device_compile_finish (RLX_DEVICE (source), result, &app->error);
  if (app->executable == NULL)
    g_main_loop_quit (app->loop);
  else
    rlx_executable_run_async (app->executable, &app->x, 1, NULL, run_ready_cb, app);
}

int
main (void)
{
  App app = { NULL, };
  RlxDevice *device = rlx_device_get_default (&app.error);
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  const gint64 shape[] = { 4 };
  int status;

  if (device != NULL)
    {
      RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, shape, 1, NULL);

      rlx_graph_output (graph, "y", rlx_node_sqrt (x, NULL), NULL);
      app.loop = g_main_loop_new (NULL, FALSE);
      app.cancellable = g_cancellable_new ();
      app.x = rlx_tensor_new_from_floats (shape, 1, (float[]) { 1, 4, 9, 16 }, 4, NULL);
      rlx_device_compile_async (device, graph, NULL, NULL, compile_ready_cb, &app);
      g_main_loop_run (app.loop);
    }

  status = app.error != NULL;
  if (app.error != NULL)
    g_printerr ("%s\n", app.error->message);

  g_clear_error (&app.error);
  g_clear_object (&app.executable);
  g_clear_object (&app.cancellable);
  g_clear_object (&app.x);
  g_clear_pointer (&app.loop, g_main_loop_unref);
  return status;
}
