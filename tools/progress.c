/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include <unistd.h>

#include "rlx-tool.h"

/* Nobody wants a bar for less. */
#define DELAY G_USEC_PER_SEC
#define WIDTH 40

struct _RlxToolWait
{
  GMainLoop *loop;
  GObject *object;
  gulong id;
  GAsyncResult *result;
  gint64 start;
  gboolean shown;
};

static void
on_progress (GObject     *object,
             GParamSpec  *pspec,
             RlxToolWait *self)
{
  double progress;
  int filled;

  if (g_get_monotonic_time () - self->start < DELAY)
    return;
  g_object_get (object, pspec->name, &progress, NULL);
  filled = (int) (CLAMP (progress, 0, 1) * WIDTH);
  self->shown = TRUE;
  g_printerr ("\r[%.*s%*s] %3.0f %%", filled, "########################################", WIDTH - filled, "", progress * 100);
}

RlxToolWait *
rlx_tool_wait_new (gpointer object)
{
  RlxToolWait *self = g_new0 (RlxToolWait, 1);

  self->loop = g_main_loop_new (NULL, FALSE);
  self->object = g_object_ref (object);
  self->start = g_get_monotonic_time ();
  if (isatty (STDERR_FILENO))
    self->id = g_signal_connect (object, "notify::progress", G_CALLBACK (on_progress), self);
  return self;
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
  g_clear_signal_handler (&self->id, self->object);
  if (self->shown)
    g_printerr ("\r\033[K");
  result = self->result;
  g_object_unref (self->object);
  g_main_loop_unref (self->loop);
  g_free (self);
  return result;
}
