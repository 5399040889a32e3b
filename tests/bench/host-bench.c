/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * One process of OpenBLAS, for products of matrices, on all processors; or of
 * the C library, which copies memory. Its arguments are those of rlx-bench.
 */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#ifdef HAVE_OPENBLAS
#include <cblas.h>
#endif

#include "workloads.h"

/* ---- matrices --------------------------------------------------------------------- */

#ifdef HAVE_OPENBLAS
/* f16 weights are converted to f32 first: OpenBLAS does not support f16. */
static float *
load (GArray              *tensors,
      const BenchWorkload *workload,
      const char          *name,
      const char          *folder)
{
  const BenchTensor *tensor = bench_find_tensor (tensors, name);
  g_autofree char *file = bench_file_name (workload, tensor->role), *path = g_build_filename (folder, file, NULL);
  g_autofree char *contents = NULL;
  g_autoptr(GError) error = NULL;
  gsize length, n = bench_tensor_count (tensor);
  float *values;

  if (!g_file_get_contents (path, &contents, &length, &error))
    {
      g_printerr ("rlx-bench-host: %s\n", error->message);
      return NULL;
    }
  g_assert (tensor->offset + bench_tensor_size (tensor) <= length);
  values = g_new (float, n);
  if (tensor->type == BENCH_F32)
    memcpy (values, contents + tensor->offset, n * sizeof (float));
  else
    for (gsize i = 0; i < n; i++)
      {
        guint16 bits = ((const guint16 *) (contents + tensor->offset))[i];
        int exponent = bits >> 10 & 31, mantissa = bits & 1023;
        float value = exponent > 0 ? ldexpf ((float) (mantissa + 1024), exponent - 25) : ldexpf ((float) mantissa, -24);

        values[i] = bits & 0x8000 ? -value : value;
      }
  return values;
}

static void
multiply (const gint64 *size,
          const float  *x,
          const float  *w,
          float        *y)
{
  const int m = (int) size[0], k = (int) size[1], n = (int) size[2];

  if (m == 1)
    cblas_sgemv (CblasRowMajor, CblasTrans, k, n, 1, w, n, x, 1, 0, y, 1);
  else
    cblas_sgemm (CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1, x, k, w, n, 0, y, n);
}

static gboolean
measure_matmul (const BenchWorkload *workload,
                const char          *folder,
                const char          *output,
                double               seconds)
{
  g_autoptr(GArray) tensors = bench_list_tensors (workload);
  g_autofree float *x = load (tensors, workload, "x", folder), *w = load (tensors, workload, "w", folder);
  gsize n_floats = (gsize) (workload->size[0] * workload->size[2]), n = 0;
  g_autofree float *y = g_new (float, n_floats);
  g_autofree double *times = g_new (double, BENCH_MAX_RUNS);
  gint64 begin;

  if (x == NULL || w == NULL)
    return FALSE;
  multiply (workload->size, x, w, y);
  if (!bench_write_floats (output, y, n_floats))
    return FALSE;
  begin = g_get_monotonic_time ();
  for (guint i = 0; bench_warm_up (begin, i); i++)
    multiply (workload->size, x, w, y);
  for (begin = g_get_monotonic_time (); bench_continue (begin, seconds, n);)
    {
      gint64 start = g_get_monotonic_time ();

      multiply (workload->size, x, w, y);
      times[n++] = (double) (g_get_monotonic_time () - start) * 1e-3;
    }
  bench_print_times (times, n, NULL);
  return TRUE;
}
#endif

/* ---- memory ----------------------------------------------------------------------- */

static gboolean
measure_copy (const BenchWorkload *workload,
              double               seconds)
{
  gsize n_floats = (gsize) workload->size[0], n = 0;
  g_autofree float *x = g_new (float, n_floats), *y = g_new0 (float, n_floats);
  g_autofree double *times = g_new (double, BENCH_MAX_RUNS);
  gint64 begin;

  for (gsize i = 0; i < n_floats; i++)
    x[i] = (float) (i & 0xffff);
  bench_copy (y, x, n_floats);
  if (memcmp (x, y, n_floats * sizeof (float)) != 0)
    return FALSE;
  for (begin = g_get_monotonic_time (); bench_continue (begin, seconds, n);)
    {
      gint64 start = g_get_monotonic_time ();

      bench_copy (y, x, n_floats);
      times[n++] = (double) (g_get_monotonic_time () - start) * 1e-3;
    }
  bench_print_times (times, n, NULL);
  return TRUE;
}

int
main (int   argc,
      char *argv[])
{
  g_autofree char *name = NULL, *folder = NULL, *output = NULL;
  double seconds = 0.5;
  const GOptionEntry entries[] = {
    { "workload", 0, 0, G_OPTION_ARG_STRING, &name, "What to measure", "NAME" },
    { "folder", 0, 0, G_OPTION_ARG_FILENAME, &folder, "Where rlx-bench-data has put its data", "FOLDER" },
    { "output", 0, 0, G_OPTION_ARG_FILENAME, &output, "Write the result to this file", "FILE" },
    { "seconds", 0, 0, G_OPTION_ARG_DOUBLE, &seconds, "How long to measure (0.5)", "S" },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GOptionContext) context = g_option_context_new (NULL);
  g_autoptr(GError) error = NULL;
  const BenchWorkload *workload;

  /* the contenders that are available */
  if (argc == 2 && g_str_equal (argv[1], "--list"))
    {
#ifdef HAVE_OPENBLAS
      g_print ("openblas\n");
#endif
      g_print ("memcpy\n");
      return 0;
    }
  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error) || name == NULL || folder == NULL ||
      (workload = bench_find_workload (name)) == NULL)
    {
      g_printerr ("rlx-bench-host: %s\n", error ? error->message : "--workload and --folder are needed");
      return 2;
    }
  if (workload->family == BENCH_COPY)
    return measure_copy (workload, seconds) ? 0 : 1;
#ifdef HAVE_OPENBLAS
  if (workload->family == BENCH_MATMUL)
    return measure_matmul (workload, folder, output, seconds) ? 0 : 1;
#endif
  g_printerr ("rlx-bench-host: %s is not for this program\n", name);
  return 2;
}
