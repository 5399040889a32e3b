/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * On a terminal, calls that take long say what they do and how far they are.
 */
#include "config.h"

#include <unistd.h>

#include "rlx-tool.h"

/* Shorter operations show no progress. */
#define DELAY_MS 100
#define WIDTH 40

struct _RlxToolWait
{
  GMainLoop *loop;
  GObject *object;
  gulong id;
  guint timeout;
  const char *what;
  GAsyncResult *result;
  gint64 start;
  gboolean shown;
};

static gboolean
is_terminal (void)
{
  return isatty (STDERR_FILENO) != 0;
}

void
rlx_tool_show_progress (double      fraction,
                        const char *what)
{
  int filled = (int) (CLAMP (fraction, 0, 1) * WIDTH);

  g_printerr ("\r\033[K[%.*s%*s] %3.0f %%  %s", filled, "########################################", WIDTH - filled, "",
              fraction * 100, what);
}

/* Shows progress in a line of the terminal, which is cleared at the end. */
static void
show (RlxToolWait *self,
      double       fraction,
      const char  *what)
{
  if (g_get_monotonic_time () - self->start < DELAY_MS * G_TIME_SPAN_MILLISECOND)
    return;
  self->shown = TRUE;
  g_clear_handle_id (&self->timeout, g_source_remove);
  rlx_tool_show_progress (fraction, what);
}

static void
on_progress (GObject     *object,
             GParamSpec  *pspec,
             RlxToolWait *self)
{
  double progress;

  g_object_get (object, pspec->name, &progress, NULL);
  show (self, progress, self->what);
}

static void
on_compiling (RlxDevice   *device G_GNUC_UNUSED,
              double       fraction,
              const char  *what,
              RlxToolWait *self)
{
  show (self, fraction, what);
}

/* For operations that do not report progress. */
static gboolean
on_timeout (gpointer data)
{
  RlxToolWait *self = data;

  self->timeout = 0;
  self->shown = TRUE;
  g_printerr ("\r\033[K%s…", self->what);
  return G_SOURCE_REMOVE;
}

static RlxToolWait *
wait_new (const char *what,
          gpointer    object,
          const char *signal,
          GCallback   callback)
{
  RlxToolWait *self = g_new0 (RlxToolWait, 1);

  self->loop = g_main_loop_new (NULL, FALSE);
  self->what = what;
  self->start = g_get_monotonic_time ();
  if (object != NULL)
    self->object = g_object_ref (object);
  if (is_terminal ())
    self->timeout = g_timeout_add (DELAY_MS, on_timeout, self);
  if (is_terminal () && object != NULL)
    self->id = g_signal_connect (object, signal, callback, self);
  return self;
}

RlxToolWait *
rlx_tool_wait_new (const char *what,
                   gpointer    object)
{
  return wait_new (what, object, "notify::progress", G_CALLBACK (on_progress));
}

void
rlx_tool_wait_done (GObject      *source G_GNUC_UNUSED,
                    GAsyncResult *result,
                    gpointer      wait)
{
  RlxToolWait *self = wait;

  self->result = g_object_ref (result);
  g_main_loop_quit (self->loop);
}

GAsyncResult *
rlx_tool_wait_end (RlxToolWait *self)
{
  GAsyncResult *result;

  if (self->result == NULL)
    g_main_loop_run (self->loop);
  if (self->object != NULL)
    g_clear_signal_handler (&self->id, self->object);
  g_clear_handle_id (&self->timeout, g_source_remove);
  if (self->shown)
    g_printerr ("\r\033[K");
  result = self->result;
  g_clear_object (&self->object);
  g_main_loop_unref (self->loop);
  g_free (self);
  return result;
}

/* ---- calls that tell how far they are ---------------------------------------------- */

RlxDevice *
rlx_tool_open (GError **error)
{
  g_autoptr(GAsyncResult) result = NULL;
  RlxToolWait *wait;

  if (!is_terminal ())
    return rlx_device_get_default (error);
  wait = wait_new ("opening the device", NULL, NULL, NULL);
  rlx_device_get_default_async (NULL, rlx_tool_wait_done, wait);
  result = rlx_tool_wait_end (wait);
  return rlx_device_get_default_finish (result, error);
}

RlxExecutable *
rlx_tool_build (RlxDevice         *device,
                RlxGraph          *graph,
                RlxCompileOptions *options,
                GError           **error)
{
  g_autoptr(GAsyncResult) result = NULL;
  RlxToolWait *wait;

  if (!is_terminal ())
    return rlx_device_compile (device, graph, options, NULL, error);
  wait = wait_new ("compiling", device, "compiling", G_CALLBACK (on_compiling));
  rlx_device_compile_async (device, graph, options, NULL, rlx_tool_wait_done, wait);
  result = rlx_tool_wait_end (wait);
  return rlx_device_compile_finish (device, result, error);
}
