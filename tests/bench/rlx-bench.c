/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * How long things take. Each workload is measured in several processes, one
 * after the other, so that one lucky or unlucky start does not decide: the
 * figure is the median over the processes of the median over the runs. A
 * result that the reference does not confirm is no result, and fails.
 *
 *   rlx-bench [--list] [--processes N] [--seconds S] [--json FILE] [--only NAME]…
 */
#include "config.h"

#include <glib/gstdio.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rlx-reference.h"
#include "rlx-tool.h"

#define MIN_RUNS 5
#define MAX_RUNS 2000

static int n_processes = 3;
static double seconds = 0.5;

/* ---- what is measured ---------------------------------------------------------- */

static GRand *random_numbers;

static RlxNode *
input (RlxGraph     *graph,
       const char   *name,
       gsize         n_dims,
       const gint64 *shape,
       GError      **error)
{
  return rlx_graph_input (graph, name, RLX_DATA_TYPE_F32, shape, n_dims, error);
}

#define INPUT(graph, name, error, ...) \
  input (graph, name, G_N_ELEMENTS (((const gint64[]) { __VA_ARGS__ })), (const gint64[]) { __VA_ARGS__ }, error)

/* Uniform between -1 and 1. */
static RlxTensor *
random_tensor (const gint64 *shape,
               gsize         n_dims,
               GError      **error)
{
  g_autofree float *values = NULL;
  gsize n = 1;

  for (gsize i = 0; i < n_dims; i++)
    n *= (gsize) shape[i];
  values = g_new (float, n);
  for (gsize i = 0; i < n; i++)
    values[i] = (float) g_rand_double_range (random_numbers, -1, 1);
  return rlx_tensor_new_from_floats (shape, n_dims, values, n, error);
}

static RlxNode *
constant (RlxGraph *graph,
          gint64    rows,
          gint64    columns,
          GError  **error)
{
  const gint64 shape[] = { rows, columns };
  g_autoptr(RlxTensor) tensor = random_tensor (rows > 0 ? shape : &shape[1], rows > 0 ? 2 : 1, error);

  return tensor ? rlx_graph_constant (graph, tensor, error) : NULL;
}

static RlxNode *
build_matmul_512 (RlxGraph *graph,
                  GError  **error)
{
  return rlx_node_matmul (INPUT (graph, "x", error, 512, 512), constant (graph, 512, 512, error), error);
}

static RlxNode *
build_matmul_wide (RlxGraph *graph,
                   GError  **error)
{
  return rlx_node_linear (INPUT (graph, "x", error, 128, 768), constant (graph, 768, 3072, error),
                          constant (graph, 0, 3072, error), error);
}

static RlxNode *
build_softmax (RlxGraph *graph,
               GError  **error)
{
  return rlx_node_softmax (INPUT (graph, "x", error, 1024, 1024), -1, error);
}

static RlxNode *
build_layer_norm (RlxGraph *graph,
                  GError  **error)
{
  return rlx_node_layer_norm (INPUT (graph, "x", error, 1024, 768), constant (graph, 0, 768, error),
                              constant (graph, 0, 768, error), error);
}

static RlxNode *
build_chain (RlxGraph *graph,
             GError  **error)
{
  RlxNode *x = INPUT (graph, "x", error, 1024, 1024);
  RlxNode *y = rlx_node_add (rlx_node_mul (x, constant (graph, 0, 1024, error), error), constant (graph, 0, 1024, error), error);

  y = rlx_node_mul (rlx_node_gelu (y, error), rlx_node_sigmoid (x, error), error);
  return rlx_node_sub (rlx_node_tanh (y, error), rlx_node_abs (x, error), error);
}

static RlxNode *
build_reduce (RlxGraph *graph,
              GError  **error)
{
  return rlx_node_reduce_sum (INPUT (graph, "x", error, 1024, 2048), (gint64[]) { -1 }, 1, error);
}

static RlxNode *
build_transpose (RlxGraph *graph,
                 GError  **error)
{
  return rlx_node_transpose (INPUT (graph, "x", error, 1024, 2048), (gint64[]) { 1, 0 }, 2, error);
}

static RlxNode *
build_gather (RlxGraph *graph,
              GError  **error)
{
  const gint64 n = 512;

  return rlx_node_gather (constant (graph, 30000, 384, error),
                          rlx_graph_input (graph, "indices", RLX_DATA_TYPE_I32, &n, 1, error), 0, error);
}

static RlxNode *
build_attention (RlxGraph *graph,
                 gint64    keys,
                 GError  **error)
{
  return rlx_node_attention (INPUT (graph, "q", error, 1, 12, 128, 64), INPUT (graph, "k", error, 1, 12, keys, 64),
                             INPUT (graph, "v", error, 1, 12, keys, 64), NULL, error);
}

static RlxNode *
build_attention_128 (RlxGraph *graph,
                     GError  **error)
{
  return build_attention (graph, 128, error);
}

static RlxNode *
build_attention_1024 (RlxGraph *graph,
                      GError  **error)
{
  return build_attention (graph, 1024, error);
}

static RlxNode *
build_tiny (RlxGraph *graph,
            GError  **error)
{
  RlxNode *x = INPUT (graph, "x", error, 16);

  return rlx_node_add (x, x, error);
}

static const RlxEncoderConfig minilm = {
  .vocabulary = 30522, .sequence = 128, .width = 384, .heads = 12, .hidden = 1536, .layers = 6,
};
static const RlxEncoderConfig small = {
  .vocabulary = 1000, .sequence = 48, .width = 128, .heads = 4, .hidden = 512, .layers = 2,
};

typedef enum
{
  RUN,       /* of a graph */
  COMPILE,   /* of a small transformer */
  OPEN,      /* of the device */
} Kind;

typedef struct
{
  const char *name;
  Kind kind;
  gboolean cold;                    /* nothing is in the caches */
  RlxNode *(*build) (RlxGraph *graph, GError **error);
  const RlxEncoderConfig *encoder;  /* instead of build */
  const char *what;
} Workload;

static const Workload workloads[] = {
  { "tiny-roundtrip", RUN, FALSE, build_tiny, NULL, "16 numbers there and back" },
  { "matmul-512", RUN, FALSE, build_matmul_512, NULL, "[512, 512] × [512, 512]" },
  { "matmul-128x768x3072", RUN, FALSE, build_matmul_wide, NULL, "[128, 768] × [768, 3072] with a bias" },
  { "softmax", RUN, FALSE, build_softmax, NULL, "of 1024 rows of 1024" },
  { "layer-norm", RUN, FALSE, build_layer_norm, NULL, "of 1024 rows of 768" },
  { "elementwise-chain", RUN, FALSE, build_chain, NULL, "8 operators on 1024 × 1024" },
  { "reduce", RUN, FALSE, build_reduce, NULL, "sums of 1024 rows of 2048" },
  { "transpose", RUN, FALSE, build_transpose, NULL, "of 1024 × 2048" },
  { "gather", RUN, FALSE, build_gather, NULL, "512 of 30000 rows of 384" },
  { "attention-128", RUN, FALSE, build_attention_128, NULL, "12 heads of 64, 128 queries, 128 keys" },
  { "attention-1024", RUN, FALSE, build_attention_1024, NULL, "12 heads of 64, 128 queries, 1024 keys" },
  { "encoder-minilm", RUN, FALSE, NULL, &minilm, "6 layers of width 384, 128 tokens" },
  { "compile-cold", COMPILE, TRUE, NULL, &small, "2 layers of width 128, nothing cached" },
  { "compile-warm", COMPILE, FALSE, NULL, &small, "the same, from the cache" },
  { "open-cold", OPEN, TRUE, NULL, NULL, "the device, nothing cached" },
  { "open-warm", OPEN, FALSE, NULL, NULL, "the same, from the cache" },
};

static const Workload *
find_workload (const char *name)
{
  for (gsize i = 0; i < G_N_ELEMENTS (workloads); i++)
    if (g_str_equal (workloads[i].name, name))
      return &workloads[i];
  return NULL;
}

/* ---- one process --------------------------------------------------------------- */

static int
compare_doubles (const void *a,
                 const void *b)
{
  double x = *(const double *) a, y = *(const double *) b;

  return x < y ? -1 : x > y;
}

static double
median (double *values,
        gsize   n)
{
  qsort (values, n, sizeof (double), compare_doubles);
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static double
milliseconds_since (gint64 start)
{
  return (double) (g_get_monotonic_time () - start) * 1e-3;
}

static RlxGraph *
make_graph (const Workload *workload,
            GError        **error)
{
  g_autoptr(RlxGraph) graph = NULL;
  RlxNode *y;

  if (workload->encoder != NULL)
    return rlx_encoder_new (workload->encoder, error);
  graph = rlx_graph_new ();
  y = workload->build (graph, error);
  if (y == NULL)
    return NULL;
  rlx_graph_output (graph, "y", y);
  return g_steal_pointer (&graph);
}

/* Integers are indices, of which the smallest table here has 1000. */
static GPtrArray *
make_inputs (RlxGraph *graph,
             GError  **error)
{
  g_autoptr(GPtrArray) inputs = g_ptr_array_new_with_free_func (g_object_unref);
  g_auto(GStrv) names = rlx_graph_get_input_names (graph);

  for (char **name = names; *name; name++)
    {
      RlxNode *node = rlx_graph_lookup (graph, *name);
      gsize n_dims;
      const gint64 *shape = rlx_node_get_shape (node, &n_dims);
      RlxTensor *tensor;

      if (rlx_node_get_data_type (node) == RLX_DATA_TYPE_I32)
        {
          g_autofree gint64 *values = g_new (gint64, (gsize) shape[0]);

          for (gint64 i = 0; i < shape[0]; i++)
            values[i] = g_rand_int_range (random_numbers, 0, 1000);
          tensor = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I32, shape, n_dims, values, (gsize) shape[0], error);
        }
      else
        {
          tensor = random_tensor (shape, n_dims, error);
        }
      if (tensor == NULL)
        return NULL;
      g_ptr_array_add (inputs, tensor);
    }
  return g_steal_pointer (&inputs);
}

static RlxTensor *
run_once (RlxExecutable *executable,
          GPtrArray     *inputs,
          GError       **error)
{
  gsize n;
  g_autofree RlxTensor **outputs = rlx_executable_run (executable, (RlxTensor **) inputs->pdata, inputs->len, &n, NULL, error);

  return outputs ? outputs[0] : NULL;
}

/* The bounds that the reference carries through many layers say nothing any
 * more, so a whole network has one of its own: see `rlx demo`. */
static gboolean
check_result (const Workload *workload,
              RlxGraph       *graph,
              GPtrArray      *inputs,
              RlxTensor      *got,
              GError        **error)
{
  g_autoptr(GPtrArray) expected = rlx_reference_run (graph, (RlxTensor *const *) inputs->pdata, inputs->len, NULL, NULL, 0,
                                                     RLX_REFERENCE_NONE, error);
  const RlxReferenceValue *value;
  RlxReferenceCheck check = { 0 };
  gboolean right;

  if (expected == NULL)
    return FALSE;
  value = g_ptr_array_index (expected, 0);
  right = rlx_reference_value_check (value, got, &check);
  if (workload->encoder != NULL)
    {
      gsize n;
      g_autofree double *values = rlx_reference_decode (got, &n);

      for (gsize i = 0; i < n && right; i++)
        right = fabs (values[i] - value->values[i]) <= 1e-4;
    }
  if (!right)
    g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "%s: %" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT " elements are wrong, the first is %g, not %g",
                 workload->name, check.n_wrong, value->n_elements, check.got, check.expected);
  return right;
}

/* Prints the time, the time on the GPU, and whether the result was checked. */
static gboolean
measure_runs (const Workload *workload,
              gboolean        check,
              GError        **error)
{
  g_autoptr(RlxDevice) device = rlx_device_get_default (error);
  g_autoptr(RlxGraph) graph = device ? make_graph (workload, error) : NULL;
  g_autoptr(RlxExecutable) executable = graph ? rlx_device_compile (device, graph, NULL, error) : NULL;
  g_autoptr(GPtrArray) inputs = executable ? make_inputs (graph, error) : NULL;
  g_autoptr(RlxTensor) first = inputs ? run_once (executable, inputs, error) : NULL;
  g_autofree double *times = g_new (double, MAX_RUNS);
  g_autoptr(RlxProfile) profile = NULL;
  gint64 start, until;
  gsize n = 0;

  if (first == NULL || (check && !check_result (workload, graph, inputs, first, error)))
    return FALSE;

  /* the driver gets faster over its first few runs */
  for (guint i = 0; i < 2; i++)
    {
      RlxTensor *output = run_once (executable, inputs, error);

      if (output == NULL)
        return FALSE;
      g_object_unref (output);
    }
  until = g_get_monotonic_time () + (gint64) (seconds * G_USEC_PER_SEC);
  while (n < MAX_RUNS && (n < MIN_RUNS || g_get_monotonic_time () < until))
    {
      RlxTensor *output;

      start = g_get_monotonic_time ();
      output = run_once (executable, inputs, error);
      if (output == NULL)
        return FALSE;
      times[n++] = milliseconds_since (start);
      g_object_unref (output);
    }

  rlx_executable_set_profiling (executable, TRUE);
  g_clear_object (&first);
  first = run_once (executable, inputs, error);
  profile = first ? rlx_executable_get_profile (executable) : NULL;
  if (first == NULL)
    return FALSE;
  g_print ("%.6f %.6f %d\n", median (times, n), profile ? rlx_profile_get_total_time (profile) * 1e3 : 0.0, check);
  return TRUE;
}

static gboolean
measure_compile (const Workload *workload,
                 GError        **error)
{
  g_autoptr(RlxDevice) device = rlx_device_get_default (error);
  g_autoptr(RlxGraph) graph = device ? make_graph (workload, error) : NULL;
  g_autoptr(RlxExecutable) executable = NULL;
  gint64 start = g_get_monotonic_time ();

  if (graph == NULL)
    return FALSE;
  executable = rlx_device_compile (device, graph, NULL, error);
  if (executable == NULL)
    return FALSE;
  g_print ("%.6f 0 0\n", milliseconds_since (start));
  return TRUE;
}

static gboolean
measure_open (GError **error)
{
  gint64 start = g_get_monotonic_time ();
  g_autoptr(RlxDevice) device = rlx_device_get_default (error);

  if (device == NULL)
    return FALSE;
  g_print ("%.6f 0 0\n", milliseconds_since (start));
  return TRUE;
}

static int
measure (const char *name,
         gboolean    check)
{
  const Workload *workload = find_workload (name);
  g_autoptr(GError) error = NULL;
  gboolean good = FALSE;

  switch (workload->kind)
    {
    case RUN:
      good = measure_runs (workload, check, &error);
      break;
    case COMPILE:
      good = measure_compile (workload, &error);
      break;
    case OPEN:
    default:
      good = measure_open (&error);
      break;
    }
  if (!good)
    g_printerr ("rlx-bench: %s: %s\n", name, error->message);
  if (g_error_matches (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_NO_ADAPTER))
    return RLX_TOOL_NO_ADAPTER;
  return good ? RLX_TOOL_OK : RLX_TOOL_FAILED;
}

/* ---- all of them ---------------------------------------------------------------- */

static void
delete_folder (const char *path)
{
  g_autoptr(GDir) dir = g_dir_open (path, 0, NULL);
  const char *name;

  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *inside = g_build_filename (path, name, NULL);

      if (g_file_test (inside, G_FILE_TEST_IS_DIR) && !g_file_test (inside, G_FILE_TEST_IS_SYMLINK))
        delete_folder (inside);
      else
        g_unlink (inside);
    }
  g_rmdir (path);
}

/* Starts this program again for one measurement. */
static int
start_process (const char     *program,
               const Workload *workload,
               gboolean        check,
               double         *time,
               double         *gpu_time)
{
  g_autofree char *folder = workload->cold ? g_dir_make_tmp ("rlx-bench-XXXXXX", NULL) : NULL;
  g_autofree char *limit = g_strdup_printf ("--seconds=%g", seconds);
  g_auto(GStrv) env = g_get_environ ();
  g_autofree char *output = NULL;
  g_autoptr(GError) error = NULL;
  const char *argv[] = { program, "--measure", workload->name, limit, check ? "--check" : NULL, NULL };
  int status = 0, checked;

  if (folder != NULL)
    env = g_environ_setenv (env, "XDG_CACHE_HOME", folder, TRUE);
  if (!g_spawn_sync (NULL, (char **) argv, env, G_SPAWN_DEFAULT, NULL, NULL, &output, NULL, &status, &error))
    {
      g_printerr ("rlx-bench: %s\n", error->message);
      return RLX_TOOL_FAILED;
    }
  if (folder != NULL)
    delete_folder (folder);
  if (!g_spawn_check_wait_status (status, &error))
    {
      if (error->domain == G_SPAWN_EXIT_ERROR)
        return error->code;
      g_printerr ("rlx-bench: %s: %s\n", workload->name, error->message);
      return RLX_TOOL_FAILED;
    }
  return sscanf (output, "%lf %lf %d", time, gpu_time, &checked) == 3 ? RLX_TOOL_OK : RLX_TOOL_FAILED;
}

static int
run_workload (const char     *program,
              const Workload *workload,
              GString        *rows)
{
  g_autofree double *times = g_new0 (double, (gsize) n_processes), *gpu_times = g_new0 (double, (gsize) n_processes);
  char number[5][G_ASCII_DTOSTR_BUF_SIZE];
  double middle, gpu;
  gboolean checked = workload->kind == RUN;

  /* so that there is something in the caches */
  if (!workload->cold && workload->kind != RUN)
    {
      double ignored;
      int status = start_process (program, workload, FALSE, &ignored, &ignored);

      if (status != RLX_TOOL_OK)
        return status;
    }
  for (int i = 0; i < n_processes; i++)
    {
      int status = start_process (program, workload, checked && i == 0, &times[i], &gpu_times[i]);

      if (status != RLX_TOOL_OK)
        return status;
    }
  middle = median (times, (gsize) n_processes);
  gpu = median (gpu_times, (gsize) n_processes);

  g_print ("%-20s %10.3f   %10.3f … %-10.3f", workload->name, middle, times[0], times[n_processes - 1]);
  if (gpu > 0)
    g_print (" %10.3f   ", gpu);
  else
    g_print (" %10s   ", "");
  g_print ("%-7s  %s\n", checked ? "yes" : "", workload->what);
  fflush (stdout);

  g_ascii_formatd (number[0], sizeof number[0], "%.6g", middle);
  g_ascii_formatd (number[1], sizeof number[1], "%.6g", times[0]);
  g_ascii_formatd (number[2], sizeof number[2], "%.6g", times[n_processes - 1]);
  g_ascii_formatd (number[3], sizeof number[3], "%.6g", gpu);
  g_string_append_printf (rows, "%s\n  {\"workload\": \"%s\", \"contender\": \"rlx\", \"median_ms\": %s, \"min_ms\": %s, \"max_ms\": %s, "
                          "\"gpu_ms\": %s, \"processes\": %d, \"checked\": %s}",
                          rows->len > 1 ? "," : "", workload->name, number[0], number[1], number[2], number[3], n_processes,
                          checked ? "true" : "false");
  return RLX_TOOL_OK;
}

int
main (int   argc,
      char *argv[])
{
  gboolean list = FALSE, check = FALSE;
  g_autofree char *json = NULL, *measured = NULL, *program = g_file_read_link ("/proc/self/exe", NULL);
  g_auto(GStrv) only = NULL;
  const GOptionEntry entries[] = {
    { "list", 0, 0, G_OPTION_ARG_NONE, &list, "List the workloads", NULL },
    { "only", 0, 0, G_OPTION_ARG_STRING_ARRAY, &only, "Measure this one (may be given again)", "NAME" },
    { "processes", 0, 0, G_OPTION_ARG_INT, &n_processes, "How many processes measure each of them (3)", "N" },
    { "seconds", 0, 0, G_OPTION_ARG_DOUBLE, &seconds, "How long each process measures (0.5)", "S" },
    { "json", 0, 0, G_OPTION_ARG_FILENAME, &json, "Write the results to this file", "FILE" },
    { "measure", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_STRING, &measured, NULL, NULL },
    { "check", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_NONE, &check, NULL, NULL },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GOptionContext) context = g_option_context_new (NULL);
  g_autoptr(GError) error = NULL;
  g_autoptr(GString) rows = g_string_new ("[");

  g_option_context_set_summary (context, "Measures how long typical work takes. Times of runs include the way to the device and back;\n"
                                         "\"GPU\" is what the kernels take of it.");
  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error) || argc > 1)
    {
      g_printerr ("rlx-bench: %s\n", error ? error->message : "too many arguments");
      return RLX_TOOL_USAGE;
    }
  if (n_processes < 1 || n_processes > 1000 || !(seconds >= 0 && seconds <= 3600))
    {
      g_printerr ("rlx-bench: --processes can be 1 to 1000, --seconds 0 to 3600\n");
      return RLX_TOOL_USAGE;
    }
  for (char **name = only; name && *name; name++)
    if (find_workload (*name) == NULL)
      {
        g_printerr ("rlx-bench: there is no workload “%s”; --list lists them\n", *name);
        return RLX_TOOL_USAGE;
      }

  random_numbers = g_rand_new_with_seed (11);
  if (measured != NULL)
    {
      int status = find_workload (measured) ? measure (measured, check) : RLX_TOOL_USAGE;

      g_rand_free (random_numbers);
      return status;
    }

  if (!list)
    g_print ("%-20s %10s   %23s %10s   %-7s\n", "workload", "median/ms", "range/ms", "GPU/ms", "checked");
  for (gsize i = 0; i < G_N_ELEMENTS (workloads); i++)
    {
      int status = RLX_TOOL_OK;

      if (only != NULL && !g_strv_contains ((const char *const *) only, workloads[i].name))
        continue;
      if (list)
        g_print ("%-20s %s\n", workloads[i].name, workloads[i].what);
      else
        status = run_workload (program ? program : argv[0], &workloads[i], rows);
      if (status != RLX_TOOL_OK)
        return status;
    }
  g_rand_free (random_numbers);
  g_string_append (rows, "\n]\n");
  if (json != NULL && !list && !g_file_set_contents (json, rows->str, (gssize) rows->len, &error))
    {
      g_printerr ("rlx-bench: %s\n", error->message);
      return RLX_TOOL_FAILED;
    }
  return RLX_TOOL_OK;
}
