/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What a program does with the library, for tests that change the world around
 * it: opens a device, compiles, runs, and runs again without blocking.
 *
 *   probe [--runs N] [--encoder] [--stack KIB] [--wait]
 *
 * Prints the result's checksum, which is the same in every run, and ends with 0;
 * or prints the error and ends with 3. With --wait it reads a line before it
 * compiles, so that several can be let go at once.
 */
#include "config.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <rlx-wgpu/rlx-wgpu.h>

#include "rlx-tool.h"

#define FAILED 3

static int n_runs = 2, stack_kib;
static gboolean encoder, wait_for_line;

static RlxGraph *
make_graph (GError **error)
{
  g_autoptr(RlxTensor) weights = NULL;
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  const gint64 shape[] = { 4, 6 }, weights_shape[] = { 6, 5 };
  float values[30];
  RlxNode *x, *y;

  for (guint i = 0; i < G_N_ELEMENTS (values); i++)
    values[i] = (float) ((int) (i * 7 % 11) - 5) / 8;
  weights = rlx_tensor_new_from_floats (weights_shape, 2, values, G_N_ELEMENTS (values), error);
  x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, shape, 2, error);
  y = rlx_node_matmul (x, rlx_graph_constant (graph, weights, error), NULL, error);
  y = rlx_node_softmax (rlx_node_gelu (y, error), -1, error);
  rlx_graph_output (graph, "y", y, NULL);
  return g_steal_pointer (&graph);
}

/* Adds to the checksum; FALSE if it differs from the previous one. */
static gboolean
compare (RlxTensor  *tensor,
         char      **seen,
         GError    **error)
{
  g_autofree char *sum = g_compute_checksum_for_bytes (G_CHECKSUM_SHA256, rlx_tensor_get_bytes (tensor));

  if (*seen == NULL)
    *seen = g_steal_pointer (&sum);
  else if (!g_str_equal (*seen, sum))
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "two runs gave different results");
      return FALSE;
    }
  return TRUE;
}

static void
on_ready (GObject      *source G_GNUC_UNUSED,
          GAsyncResult *result,
          gpointer      user_data)
{
  GAsyncResult **out = user_data;

  *out = g_object_ref (result);
}

static char *
compute (GError **error)
{
  const RlxEncoderConfig config = { .vocabulary = 100, .sequence = 24, .width = 64, .heads = 4, .hidden = 128, .layers = 2 };
  g_autoptr(GMainContext) context = g_main_context_new ();
  RlxDevice *device = rlx_device_get_default (error);
  g_autoptr(RlxGraph) graph = NULL;
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) input = NULL;
  g_autoptr(GAsyncResult) result = NULL;
  g_autofree char *sum = NULL;
  g_autofree RlxTensor **outputs = NULL;
  g_autoptr(RlxTensor) last = NULL;
  const gint64 shape[] = { 4, 6 };
  float values[24];
  gsize n;

  if (device == NULL)
    return NULL;
  graph = encoder ? rlx_encoder_new (&config, error) : make_graph (error);
  if (graph == NULL)
    return NULL;
  if (wait_for_line && getchar () == EOF)
    return NULL;
  executable = rlx_device_compile (device, graph, NULL, NULL, error);
  if (executable == NULL)
    return NULL;
  for (guint i = 0; i < G_N_ELEMENTS (values); i++)
    values[i] = (float) (i * 5 % 13) / 4;
  input = encoder ? rlx_encoder_tokens (&config, 7) : rlx_tensor_new_from_floats (shape, 2, values, G_N_ELEMENTS (values), error);

  for (int i = 1; i < n_runs; i++)
    {
      g_autoptr(RlxTensor) y = NULL;

      g_clear_pointer (&outputs, g_free);
      outputs = rlx_executable_run (executable, &input, 1, &n, NULL, error);
      if (outputs == NULL)
        return NULL;
      y = outputs[0];
      if (!compare (y, &sum, error))
        return NULL;
    }

  g_main_context_push_thread_default (context);
  rlx_executable_run_async (executable, &input, 1, NULL, on_ready, &result);
  while (result == NULL)
    g_main_context_iteration (context, TRUE);
  g_main_context_pop_thread_default (context);
  g_clear_pointer (&outputs, g_free);
  outputs = rlx_executable_run_finish (executable, result, &n, error);
  if (outputs == NULL)
    return NULL;
  last = outputs[0];
  return compare (last, &sum, error) ? g_steal_pointer (&sum) : NULL;
}

static void *
work (void *data)
{
  g_autoptr(GError) error = NULL;
  g_autofree char *sum = compute (&error);
  int *status = data;

  if (sum != NULL)
    g_print ("%s\n", sum);
  else
    g_print ("%s %d: %s\n", g_quark_to_string (error->domain), error->code, error->message);
  *status = sum != NULL ? EXIT_SUCCESS : FAILED;
  return NULL;
}

int
main (int   argc,
      char *argv[])
{
  const GOptionEntry entries[] = {
    { "runs", 0, 0, G_OPTION_ARG_INT, &n_runs, "How often to run", "N" },
    { "encoder", 0, 0, G_OPTION_ARG_NONE, &encoder, "Run a transformer instead of a few operators", NULL },
    { "stack", 0, 0, G_OPTION_ARG_INT, &stack_kib, "Do it on a thread with this stack", "KIB" },
    { "wait", 0, 0, G_OPTION_ARG_NONE, &wait_for_line, "Wait for a line on the standard input before compiling", NULL },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GOptionContext) options = g_option_context_new (NULL);
  int status = FAILED;

  g_option_context_add_main_entries (options, entries, NULL);
  if (!g_option_context_parse (options, &argc, &argv, NULL))
    return 2;

  if (stack_kib > 0)
    {
      pthread_attr_t attributes;
      pthread_t thread;

      pthread_attr_init (&attributes);
      if (pthread_attr_setstacksize (&attributes, (size_t) stack_kib * 1024) != 0 ||
          pthread_create (&thread, &attributes, work, &status) != 0)
        return 2;
      pthread_join (thread, NULL);
      pthread_attr_destroy (&attributes);
    }
  else
    {
      work (&status);
    }
  return status;
}
