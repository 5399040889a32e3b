/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * How weights get from a file to the device, and what memory that takes: parameters that are read from a safetensors file
 * and from a GGUF file, and constants that two executables share. `./dev bench --weights` starts it.
 *
 * Beside each, the file is copied into new memory of the same kind: memory that is new has to be made by the system first,
 * which takes most of the time, and a device that works in memory of the host needs that, too. Both take turns to be the first,
 * since the system gives some pages faster than others.
 *
 *   rlx-bench-weights [--megabytes N] [--rounds N] [--folder FOLDER]
 */
#include "config.h"

#include <gio/gio.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <rlx-wgpu/rlx-wgpu.h>

#include "workloads.h"

/* Exit status if there is no adapter, as for skipped tests. */
#define NO_ADAPTER 77
/* Rows and columns of a matrix. */
#define SIDE 1024
#define MATRIX_BYTES ((gsize) SIDE * SIDE * 4)
#define MAX_ROUNDS 100

typedef struct
{
  RlxDevice *device;
  GPtrArray *names;          /* of matrices, NULL-terminated */
  RlxTensor *matrix;         /* they are all equal */
  gsize n_matrices;
  guint n_rounds;
  GError *error;
} Bench;

/* The process's peak memory usage, in bytes. */
static guint64
get_peak (void)
{
  g_autofree char *text = NULL;
  const char *line;

  if (!g_file_get_contents ("/proc/self/status", &text, NULL, NULL) || (line = strstr (text, "VmHWM:")) == NULL)
    return 0;
  return g_ascii_strtoull (line + strlen ("VmHWM:"), NULL, 10) * 1024;
}

/* Resets the peak to the current usage. */
static guint64
reset_peak (void)
{
  FILE *file = g_fopen ("/proc/self/clear_refs", "w");

  if (file != NULL)
    {
      fputs ("5", file);
      fclose (file);
    }
  return get_peak ();
}

static gboolean
make_matrix (Bench *self)
{
  g_autofree float *values = g_new (float, (gsize) SIDE * SIDE);

  for (gsize i = 0; i < (gsize) SIDE * SIDE; i++)
    values[i] = (float) (i * 7919 % 127) / 127.0f - 0.5f;
  self->matrix = rlx_tensor_new_from_floats ((const gint64[]) { SIDE, SIDE }, 2, values, (gsize) SIDE * SIDE, &self->error);
  return self->matrix != NULL;
}

static GFile *
write_file (Bench           *self,
            RlxWeightsFormat format,
            const char      *folder)
{
  g_autofree char *path = g_build_filename (folder, format == RLX_WEIGHTS_FORMAT_GGUF ? "weights.gguf" : "weights.safetensors", NULL);
  g_autoptr(GFile) file = g_file_new_for_path (path);
  g_autofree RlxTensor **tensors = g_new (RlxTensor *, self->n_matrices);
  const char *const *names = (const char *const *) self->names->pdata;
  gboolean ok;

  for (gsize i = 0; i < self->n_matrices; i++)
    tensors[i] = self->matrix;
  if (format == RLX_WEIGHTS_FORMAT_GGUF)
    ok = rlx_weights_write_gguf (file, names, tensors, self->n_matrices, NULL, NULL, &self->error);
  else
    ok = rlx_weights_write_safetensors (file, names, tensors, self->n_matrices, NULL, NULL, &self->error);
  return ok ? g_steal_pointer (&file) : NULL;
}

/* A sequence of products, with parameters, or constants from @weights. */
static RlxExecutable *
compile (Bench      *self,
         gint64      n_rows,
         RlxTensor **constants)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(RlxMatmulOptions) options = rlx_matmul_options_new ();
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, (const gint64[]) { n_rows, SIDE }, 2, &self->error);

  rlx_matmul_options_set_transpose_b (options, TRUE);
  for (gsize i = 0; i < self->n_matrices && self->error == NULL; i++)
    {
      RlxNode *w = constants != NULL ? rlx_graph_constant (graph, constants[i], &self->error)
                                     : rlx_graph_parameter (graph, self->names->pdata[i], RLX_DATA_TYPE_F32,
                                                            (const gint64[]) { SIDE, SIDE }, 2, &self->error);

      x = w != NULL ? rlx_node_matmul (x, w, options, &self->error) : NULL;
    }
  if (self->error != NULL || !rlx_graph_output (graph, "y", x, &self->error))
    return NULL;
  return rlx_device_compile (self->device, graph, NULL, NULL, &self->error);
}

/* The unavoidable minimum: copying the file's bytes to new memory, in large pages. */
static gboolean
copy_file (Bench  *self,
           GFile  *file,
           gsize   size,
           double *time)
{
  gint64 start = g_get_monotonic_time ();
  g_autoptr(GFileInputStream) stream = g_file_read (file, NULL, &self->error);
  void *pages = mmap (NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  gboolean ok = stream != NULL && pages != MAP_FAILED;

  if (ok)
    {
      madvise (pages, size, MADV_HUGEPAGE);
      ok = g_input_stream_read_all (G_INPUT_STREAM (stream), pages, size, NULL, NULL, &self->error);
    }
  *time = (double) (g_get_monotonic_time () - start) * 1e-3;
  if (pages != MAP_FAILED)
    munmap (pages, size);
  else if (self->error == NULL)
    g_set_error_literal (&self->error, G_IO_ERROR, G_IO_ERROR_FAILED, "there is no memory to copy the file to");
  return ok;
}

/* Sets all parameters from the file. */
static gboolean
load_file (Bench   *self,
           GFile   *file,
           double  *time,
           guint64 *used)
{
  guint64 before = rlx_device_get_memory_used (self->device);
  g_autoptr(RlxExecutable) executable = compile (self, 1, NULL);
  g_autoptr(RlxWeights) weights = NULL;
  gint64 start = g_get_monotonic_time ();
  gboolean ok;

  weights = executable != NULL ? rlx_weights_open (file, NULL, &self->error) : NULL;
  ok = weights != NULL && rlx_executable_set_parameters_from (executable, weights, NULL, NULL, &self->error);
  *time = (double) (g_get_monotonic_time () - start) * 1e-3;
  *used = MAX (*used, rlx_device_get_memory_used (self->device) - before);
  return ok;
}

/* Reads the file repeatedly, and each time also copies as many bytes, from the file and within memory. */
static gboolean
measure_file (Bench           *self,
              RlxWeightsFormat format,
              const char      *folder)
{
  g_autoptr(GFile) file = write_file (self, format, folder);
  gsize size = self->n_matrices * MATRIX_BYTES;
  g_autofree float *from = g_new (float, size / 4), *to = g_new0 (float, size / 4);
  double times[MAX_ROUNDS], reads[MAX_ROUNDS], copies[MAX_ROUNDS], ratios[MAX_ROUNDS];
  guint64 used = 0, grown = 0;
  gboolean ok = file != NULL;

  for (gsize i = 0; ok && i < size / 4; i++)
    from[i] = (float) (i & 0xffff);
  bench_copy (to, from, size / 4);
  /* An additional one, which does not count: memory that a virtual machine has never used takes far longer. */
  for (guint round = 0; ok && round <= self->n_rounds; round++)
    {
      guint i = MAX (round, 1) - 1;
      gint64 start = g_get_monotonic_time ();
      guint64 peak, end;

      bench_copy (to, from, size / 4);
      copies[i] = (double) (g_get_monotonic_time () - start) * 1e-3;
      ok = round % 2 == 1 || copy_file (self, file, size, &reads[i]);
      peak = reset_peak ();
      ok = ok && load_file (self, file, &times[i], &used);
      /* The system counts coarsely, so the value may also have decreased. */
      end = get_peak ();
      grown = MAX (grown, end - MIN (end, peak));
      ok = ok && (round % 2 == 0 || copy_file (self, file, size, &reads[i]));
      ratios[i] = ok ? reads[i] / times[i] : 0;
    }
  if (ok)
    {
      double time = bench_median (times, self->n_rounds), read = bench_median (reads, self->n_rounds);
      double copy = bench_median (copies, self->n_rounds);

      g_print ("%-11s of %.1f MB: %.1f ms, %.2f GB/s, %.2f of the rate of copying it into new memory (%.2f GB/s; median of the "
               "ratios), %.2f of that of copying memory (%.2f GB/s)\n%-11s device memory %.3f of the file, all memory %.1f MB more\n",
               format == RLX_WEIGHTS_FORMAT_GGUF ? "GGUF" : "safetensors", (double) size * 1e-6, time, (double) size * 1e-6 / time,
               bench_median (ratios, self->n_rounds), (double) size * 1e-6 / read, copy / time, (double) size * 1e-6 / copy, "",
               (double) used / (double) size, ((double) grown - (double) used) * 1e-6);
    }
  if (file != NULL)
    g_file_delete (file, NULL, NULL);
  return ok;
}

static gboolean
measure_sharing (Bench      *self,
                 const char *folder)
{
  g_autoptr(GFile) file = write_file (self, RLX_WEIGHTS_FORMAT_SAFETENSORS, folder);
  g_autoptr(RlxWeights) weights = file != NULL ? rlx_weights_open (file, NULL, &self->error) : NULL;
  g_autoptr(GPtrArray) constants = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr(RlxExecutable) one = NULL, two = NULL;
  guint64 before = rlx_device_get_memory_used (self->device), first = 0, second;

  for (gsize i = 0; weights != NULL && i < self->n_matrices; i++)
    {
      RlxTensor *tensor = rlx_weights_load_tensor (weights, self->names->pdata[i], NULL, &self->error);

      if (tensor == NULL)
        break;
      g_ptr_array_add (constants, tensor);
    }
  if (self->error == NULL)
    one = compile (self, 1, (RlxTensor **) constants->pdata);
  if (one != NULL)
    {
      first = rlx_device_get_memory_used (self->device) - before;
      two = compile (self, 8, (RlxTensor **) constants->pdata);
    }
  second = rlx_device_get_memory_used (self->device) - before;
  if (two != NULL)
    g_print ("two executables of the same weights, for 1 row and for 8, take %.3f of the device memory of one: %.1f MB\n",
             (double) second / (double) first, (double) second * 1e-6);
  if (file != NULL)
    g_file_delete (file, NULL, NULL);
  return two != NULL;
}

int
main (int   argc,
      char *argv[])
{
  g_autofree char *folder = NULL;
  int megabytes = 1024, rounds = 5;
  const GOptionEntry entries[] = {
    { "megabytes", 0, 0, G_OPTION_ARG_INT, &megabytes, "The size of the file (1024)", "N" },
    { "rounds", 0, 0, G_OPTION_ARG_INT, &rounds, "How often it is read (5)", "N" },
    { "folder", 0, 0, G_OPTION_ARG_FILENAME, &folder, "Where it is made (that for temporary files)", "FOLDER" },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GOptionContext) context = g_option_context_new (NULL);
  Bench self = { .names = g_ptr_array_new_with_free_func (g_free) };
  gboolean ok;

  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &self.error) || megabytes < 4 || megabytes > 65536 || rounds < 1 || rounds > MAX_ROUNDS)
    {
      g_printerr ("rlx-bench-weights: %s\n", self.error ? self.error->message : "--megabytes can be 4 to 65536, --rounds 1 to 100");
      return 2;
    }
  self.n_matrices = (gsize) megabytes * 1024 * 1024 / MATRIX_BYTES;
  self.n_rounds = (guint) rounds;
  for (gsize i = 0; i < self.n_matrices; i++)
    g_ptr_array_add (self.names, g_strdup_printf ("w%" G_GSIZE_FORMAT, i));
  g_ptr_array_add (self.names, NULL);
  self.device = rlx_device_get_default (&self.error);
  ok = self.device != NULL && make_matrix (&self) &&
       measure_file (&self, RLX_WEIGHTS_FORMAT_SAFETENSORS, folder ? folder : g_get_tmp_dir ()) &&
       measure_file (&self, RLX_WEIGHTS_FORMAT_GGUF, folder ? folder : g_get_tmp_dir ()) &&
       measure_sharing (&self, folder ? folder : g_get_tmp_dir ());
  if (!ok)
    g_printerr ("rlx-bench-weights: %s\n", self.error->message);
  g_clear_object (&self.matrix);
  g_ptr_array_unref (self.names);
  if (ok)
    return 0;
  return g_error_matches (self.error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_NO_ADAPTER) ? NO_ADAPTER : 1;
}
