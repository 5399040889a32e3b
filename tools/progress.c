/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include <unistd.h>

#include "rlx-tool.h"

/* Nobody wants a bar for less. */
#define DELAY G_USEC_PER_SEC
#define WIDTH 40

typedef struct
{
  GMainLoop *loop;
  GAsyncResult *result;
  gint64 start;
  gboolean shown;
} Wait;

static void
on_progress (RlxWeights *weights,
             GParamSpec *pspec G_GNUC_UNUSED,
             Wait       *wait)
{
  double progress = rlx_weights_get_progress (weights);
  int filled = (int) (progress * WIDTH);

  if (g_get_monotonic_time () - wait->start < DELAY)
    return;
  wait->shown = TRUE;
  g_printerr ("\r[%.*s%*s] %3.0f %%", filled, "########################################", WIDTH - filled, "", progress * 100);
}

static void
on_done (GObject      *source G_GNUC_UNUSED,
         GAsyncResult *result,
         gpointer      data)
{
  Wait *wait = data;

  wait->result = g_object_ref (result);
  g_main_loop_quit (wait->loop);
}

gboolean
rlx_tool_set_parameters_from (RlxExecutable *executable,
                              RlxWeights    *weights,
                              GVariant      *names,
                              GError       **error)
{
  g_autoptr(GMainLoop) loop = g_main_loop_new (NULL, FALSE);
  Wait wait = { loop, NULL, g_get_monotonic_time (), FALSE };
  g_autoptr(GAsyncResult) result = NULL;
  gulong id = 0;

  if (isatty (STDERR_FILENO))
    id = g_signal_connect (weights, "notify::progress", G_CALLBACK (on_progress), &wait);
  rlx_executable_set_parameters_from_async (executable, weights, names, NULL, on_done, &wait);
  g_main_loop_run (loop);
  g_clear_signal_handler (&id, weights);
  if (wait.shown)
    g_printerr ("\r%*s\r", WIDTH + 8, "");
  result = wait.result;
  return rlx_executable_set_parameters_from_finish (executable, result, error);
}
