/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Exports random graphs of all operators, those of test-prop-graphs.c, with what the library computes for them in several
 * runs.
 *
 *   write-graphs FOLDER N SEED
 *
 * Graph number i goes to FOLDER/i, with the inputs and outputs of run R as files in-R-J.bin and out-R-J.bin. Prints the
 * number of runs of each.
 */
#include "config.h"

#include <stdlib.h>

#include "rlx-prop-maker.h"

#define N_RUNS 3
#define NO_ADAPTER 77

/* The inputs of a run, as in test-prop-graphs.c. */
static GPtrArray *
get_feeds (Maker *self,
           guint  run)
{
  return self->feeds[run == (self->states->len > 0 ? 1 : 2)];
}

static void
write_tensors (const char *folder,
               const char *kind,
               guint       run,
               RlxTensor **tensors,
               gsize       n_tensors)
{
  for (gsize i = 0; i < n_tensors; i++)
    {
      g_autofree char *name = g_strdup_printf ("%s-%u-%" G_GSIZE_FORMAT ".bin", kind, run, i);
      g_autofree char *path = g_build_filename (folder, name, NULL);
      g_autoptr(GError) error = NULL;
      gsize size;
      gconstpointer data = g_bytes_get_data (rlx_tensor_get_bytes (tensors[i]), &size);

      if (!g_file_set_contents (path, size > 0 ? data : "", (gssize) size, &error))
        g_error ("%s", error->message);
    }
}

static void
write_graph (Maker      *self,
             const char *path)
{
  /* The target of the adapter here, so that the same kernels are compared. */
  static const char *const targets[] = { "lavapipe", "minimum", NULL };
  g_autoptr(GError) error = NULL;
  g_autoptr(GFile) folder = g_file_new_for_path (path);
  g_autoptr(RlxExecutable) executable = rlx_device_compile (rlx_test_device (), self->graph, NULL, NULL, &error);
  g_autoptr(RlxWebExport) export = rlx_web_export_new (self->graph);

  rlx_web_export_set_targets (export, targets);
  if (executable == NULL ||
      (self->names->len > 0 &&
       (!rlx_executable_set_parameters (executable, (const char *const *) self->names->pdata, (RlxTensor **) self->parameters->pdata,
                                        self->names->len, NULL, &error) ||
        !rlx_web_export_set_parameters (export, (const char *const *) self->names->pdata, (RlxTensor **) self->parameters->pdata,
                                        self->names->len, &error))) ||
      !rlx_web_export_write (export, folder, NULL, &error))
    g_error ("%s: %s", path, error->message);
  for (guint run = 0; run < N_RUNS; run++)
    {
      GPtrArray *feeds = get_feeds (self, run);
      gsize n_outputs;
      g_auto(RlxTensors) outputs = rlx_executable_run (executable, (RlxTensor **) feeds->pdata, feeds->len, &n_outputs, NULL, &error);

      if (outputs == NULL)
        g_error ("%s: %s", path, error->message);
      write_tensors (path, "in", run, (RlxTensor **) feeds->pdata, feeds->len);
      write_tensors (path, "out", run, outputs, n_outputs);
    }
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  if (argc != 4)
    g_error ("needs a folder, how many graphs, and a seed");
  if (rlx_test_device () == NULL)
    return NO_ADAPTER;
  for (int i = 0; i < atoi (argv[2]); i++)
    {
      g_autofree char *name = g_strdup_printf ("%d", i), *path = g_build_filename (argv[1], name, NULL);
      Maker maker;

      maker_init (&maker, (guint32) (atoi (argv[3]) + i));
      make_graph (&maker);
      write_graph (&maker, path);
      maker_clear (&maker);
    }
  g_print ("%u\n", N_RUNS);
  return 0;
}
