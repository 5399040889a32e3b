/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * One process of this library: measures one workload and prints the time as
 * JSON. bench.py starts it.
 *
 *   rlx-bench --workload NAME --folder FOLDER [--output FILE] [--seconds S] [--profile]
 *   rlx-bench --workload NAME --folder FOLDER --export FOLDER    for browsers, without measuring
 */
#include "config.h"

#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>

#include <rlx-wgpu/rlx-wgpu.h>

#include "workloads.h"

/* Exit status if there is no adapter, as for skipped tests. */
#define NO_ADAPTER 77
#define CHAIN 100

typedef struct
{
  const BenchWorkload *workload;
  GArray *tensors;
  GBytes *files[BENCH_OUTPUT];
  RlxGraph *graph;
  GError *error;
} Bench;

/* ---- graphs ---------------------------------------------------------------------- */

static RlxDataType
data_type (const BenchTensor *tensor)
{
  return tensor->type == BENCH_I32 ? RLX_DATA_TYPE_I32 : tensor->type == BENCH_F16 ? RLX_DATA_TYPE_F16 : RLX_DATA_TYPE_F32;
}

static RlxTensor *
load (Bench             *self,
      const BenchTensor *tensor)
{
  g_autoptr(GBytes) bytes = g_bytes_new_from_bytes (self->files[tensor->role], tensor->offset, bench_tensor_size (tensor));

  if (tensor->type == BENCH_Q4_K)
    return rlx_tensor_new_from_bytes (RLX_DATA_TYPE_U8,
                                      RLX_INT_ARRAY (tensor->shape[0], tensor->shape[1] / BENCH_Q4_K_NUMBERS * BENCH_Q4_K_BYTES), bytes,
                                      &self->error);
  return rlx_tensor_new_from_bytes (data_type (tensor), tensor->shape, tensor->n_dims, bytes, &self->error);
}

/* The input or constant of this name. A chain of nodes may continue after an error. */
static RlxNode *
leaf (Bench      *self,
      const char *name)
{
  const BenchTensor *tensor = bench_find_tensor (self->tensors, name);
  g_autoptr(RlxTensor) value = NULL;

  if (self->error != NULL)
    return NULL;
  if (tensor->role == BENCH_INPUT)
    return rlx_graph_input (self->graph, name, data_type (tensor), tensor->shape, tensor->n_dims, &self->error);
  value = load (self, tensor);
  return value ? rlx_graph_constant (self->graph, value, &self->error) : NULL;
}

static RlxNode *
part (Bench      *self,
      const char *prefix,
      const char *name,
      const char *suffix)
{
  g_autofree char *full = g_strconcat (prefix, name, suffix, NULL);

  return leaf (self, full);
}

static RlxNode *
linear (Bench      *self,
        RlxNode    *x,
        const char *prefix,
        const char *name)
{
  RlxNode *weight = part (self, prefix, name, ".weight"), *bias = part (self, prefix, name, ".bias");

  return self->error ? NULL : rlx_node_linear (x, weight, bias, NULL, &self->error);
}

static RlxNode *
norm (Bench      *self,
      RlxNode    *x,
      const char *prefix,
      const char *name)
{
  RlxNode *scale = part (self, prefix, name, ".scale"), *bias = part (self, prefix, name, ".bias");

  return self->error ? NULL : rlx_node_layer_norm (x, scale, bias, NULL, &self->error);
}

/* [batch, sequence, width] to [batch, heads, sequence, width / heads] */
static RlxNode *
split_heads (Bench   *self,
             RlxNode *x)
{
  const gint64 *size = self->workload->size, shape[] = { size[0], size[1], size[3], size[2] / size[3] };

  x = self->error ? NULL : rlx_node_reshape (x, shape, 4, &self->error);
  return x ? rlx_node_transpose (x, (const gint64[]) { 0, 2, 1, 3 }, 4, &self->error) : NULL;
}

static RlxNode *
join_heads (Bench   *self,
            RlxNode *x)
{
  x = self->error ? NULL : rlx_node_transpose (x, (const gint64[]) { 0, 2, 1, 3 }, 4, &self->error);
  return x ? rlx_node_reshape (x, self->workload->size, 3, &self->error) : NULL;
}

static RlxNode *
add (Bench   *self,
     RlxNode *x,
     RlxNode *y)
{
  return self->error ? NULL : rlx_node_add (x, y, &self->error);
}

/* Without any of the optional operands. */
static RlxNode *
attend (Bench   *self,
        RlxNode *q,
        RlxNode *k,
        RlxNode *v)
{
  RlxNode *operands[] = { q, k, v };
  g_autofree RlxNode **results = NULL;

  if (self->error == NULL)
    results = rlx_graph_add_op (self->graph, "attention", operands, 3, NULL, NULL, &self->error);
  return results ? results[0] : NULL;
}

static RlxNode *
build_encoder (Bench *self)
{
  RlxNode *words = leaf (self, "words"), *tokens = leaf (self, "tokens"), *positions = leaf (self, "positions");
  RlxNode *x = self->error ? NULL : rlx_node_gather (words, tokens, 0, NULL, &self->error);

  x = norm (self, add (self, x, positions), "", "norm");
  for (int i = 0; i < (int) self->workload->size[5] && self->error == NULL; i++)
    {
      g_autofree char *prefix = g_strdup_printf ("%d.", i);
      RlxNode *q = split_heads (self, linear (self, x, prefix, "query"));
      RlxNode *k = split_heads (self, linear (self, x, prefix, "key"));
      RlxNode *v = split_heads (self, linear (self, x, prefix, "value"));
      RlxNode *y = attend (self, q, k, v);

      y = linear (self, join_heads (self, y), prefix, "out");
      x = norm (self, add (self, x, y), prefix, "norm1");
      y = linear (self, x, prefix, "up");
      y = self->error ? NULL : rlx_node_gelu (y, &self->error);
      y = linear (self, y, prefix, "down");
      x = norm (self, add (self, x, y), prefix, "norm2");
    }
  return x;
}

static RlxNode *
convolve (Bench      *self,
          RlxNode    *x,
          const char *filter,
          const char *bias)
{
  RlxNode *f = leaf (self, filter), *b = leaf (self, bias);
  g_autoptr(RlxConvOptions) options = rlx_conv_options_new ();

  rlx_conv_options_set_padding (options, (const gint64[]) { 1, 1, 1, 1 }, 4);
  return self->error ? NULL : rlx_node_conv (x, f, b, options, &self->error);
}

static RlxNode *
build_resnet_block (Bench *self)
{
  RlxNode *x = leaf (self, "x"), *y = convolve (self, x, "filter", "bias");

  y = self->error ? NULL : rlx_node_relu (y, &self->error);
  y = add (self, convolve (self, y, "filter2", "bias2"), x);
  return self->error ? NULL : rlx_node_relu (y, &self->error);
}

static RlxNode *
build_elementwise (Bench *self)
{
  RlxNode *x = leaf (self, "x"), *scale = leaf (self, "scale"), *bias = leaf (self, "bias"), *y;
  GError **error = &self->error;

  if (*error != NULL)
    return NULL;
  y = rlx_node_add (rlx_node_mul (x, scale, error), bias, error);
  y = rlx_node_mul (rlx_node_gelu (y, error), rlx_node_sigmoid (x, error), error);
  return rlx_node_sub (rlx_node_tanh (y, error), rlx_node_abs (x, error), error);
}

static RlxTensor *
make_filters (Bench *self)
{
  return rlx_tensor_new_mel_filters (RLX_MEL_SCALE_SLANEY, self->workload->size[1], 400, 16000, 0, 8000, TRUE, &self->error);
}

/* An operator whose operands are the inputs, as far as they are named. */
static RlxNode *
call (Bench      *self,
      const char *op,
      GVariant   *attributes,
      guint       result)
{
  g_autofree RlxNode **results = NULL;
  RlxNode *operands[8];
  gsize n = 0;

  for (guint i = 0; i < self->tensors->len; i++)
    {
      const BenchTensor *tensor = &g_array_index (self->tensors, BenchTensor, i);

      if (tensor->role == BENCH_INPUT)
        operands[n++] = leaf (self, tensor->name);
    }
  if (self->workload->family == BENCH_LOG_MEL)
    {
      g_autoptr(RlxTensor) filters = make_filters (self);

      operands[n++] = filters ? rlx_graph_constant (self->graph, filters, &self->error) : NULL;
    }
  if (self->error == NULL)
    results = rlx_graph_add_op (self->graph, op, operands, n, attributes, NULL, &self->error);
  return results ? results[result] : NULL;
}

static RlxNode *
build (Bench *self)
{
  const gint64 k = self->workload->size[2];
  RlxNode *a, *b, *c;
  GError **error = &self->error;

  switch (self->workload->family)
    {
    case BENCH_MATMUL:
      a = leaf (self, "x"), b = leaf (self, "w");
      return *error ? NULL : rlx_node_matmul (a, b, NULL, error);
    case BENCH_PACKED:
      a = leaf (self, "x"), b = leaf (self, "w");
      return *error ? NULL : rlx_node_dequant_matmul (a, b, NULL, NULL, NULL, NULL, RLX_PACKED_TYPE_Q4_K, NULL, error);
    case BENCH_ENCODER:
      return build_encoder (self);
    case BENCH_ATTENTION:
      a = leaf (self, "q"), b = leaf (self, "k"), c = leaf (self, "v");
      return attend (self, a, b, c);
    case BENCH_SOFTMAX:
      a = leaf (self, "x");
      return a ? rlx_node_softmax (a, -1, error) : NULL;
    case BENCH_LAYER_NORM:
      return norm (self, leaf (self, "x"), "", "norm");
    case BENCH_ELEMENTWISE:
      return build_elementwise (self);
    case BENCH_TRANSPOSE:
      a = leaf (self, "x");
      return a ? rlx_node_transpose (a, (const gint64[]) { 1, 0 }, 2, error) : NULL;
    case BENCH_REDUCE:
      a = leaf (self, "x");
      return a ? rlx_node_reduce_sum (a, (const gint64[]) { -1 }, 1, NULL, error) : NULL;
    case BENCH_GATHER:
      a = leaf (self, "table"), b = leaf (self, "indices");
      return *error ? NULL : rlx_node_gather (a, b, 0, NULL, error);
    case BENCH_CONV:
      return convolve (self, leaf (self, "x"), "filter", "bias");
    case BENCH_RESNET_BLOCK:
      return build_resnet_block (self);
    case BENCH_FFT:
      return call (self, "fft", NULL, 0);
    case BENCH_LOG_MEL:
      return call (self, "log_mel", NULL, 0);
    case BENCH_SCAN:
      return call (self, "selective_scan", NULL, 0);
    case BENCH_DELTA_NET:
      return call (self, "gated_delta_net", NULL, 0);
    case BENCH_KNN:
      return call (self, "knn", g_variant_new_parsed ("{'k': <%x>, 'exclude_self': <true>}", k), 1);
    case BENCH_TOP_K:
      return call (self, "top_k", g_variant_new_parsed ("{'k': <%x>}", k), 0);
    case BENCH_TINY:
      a = leaf (self, "x");
      return add (self, a, a);
    case BENCH_COPY:
    default:
      g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_NOT_SUPPORTED, "this is no graph");
      return NULL;
    }
}

static gboolean
make_graph (Bench *self)
{
  RlxNode *y;

  self->graph = rlx_graph_new ();
  y = build (self);
  if (y != NULL)
    rlx_graph_output (self->graph, "y", y, NULL);
  return y != NULL;
}

/* ---- measuring --------------------------------------------------------------------- */

static gboolean
open_files (Bench      *self,
            const char *folder)
{
  for (guint i = 0; i < self->tensors->len; i++)
    {
      BenchRole role = g_array_index (self->tensors, BenchTensor, i).role;
      g_autofree char *name = bench_file_name (self->workload, role), *path = g_build_filename (folder, name, NULL);
      g_autoptr(GMappedFile) file = NULL;

      if (role >= BENCH_OUTPUT || self->files[role] != NULL)
        continue;
      file = g_mapped_file_new (path, FALSE, &self->error);
      if (file == NULL)
        return FALSE;
      self->files[role] = g_mapped_file_get_bytes (file);
    }
  return TRUE;
}

/* In the order of the graph's inputs, which is that of the nodes above. */
static GPtrArray *
make_inputs (Bench         *self,
             RlxExecutable *executable)
{
  g_autoptr(GPtrArray) inputs = g_ptr_array_new_with_free_func (g_object_unref);
  const char *const *names = rlx_executable_get_input_names (executable);

  for (const char *const *name = names; *name; name++)
    {
      RlxTensor *tensor = load (self, bench_find_tensor (self->tensors, *name));

      if (tensor == NULL)
        return NULL;
      g_ptr_array_add (inputs, tensor);
    }
  return g_steal_pointer (&inputs);
}

/* From host memory to host memory. */
static RlxTensor *
run (RlxExecutable *executable,
     GPtrArray     *inputs,
     GError       **error)
{
  gsize n;
  g_autofree RlxTensor **outputs = rlx_executable_run (executable, (RlxTensor **) inputs->pdata, inputs->len, &n, NULL, error);

  if (outputs != NULL)
    g_assert (g_bytes_get_size (rlx_tensor_get_bytes (outputs[0])) > 0);
  return outputs ? outputs[0] : NULL;
}

/* Several runs in sequence with data on the device, until the last result has been read back. */
static gboolean
measure_stay (Bench         *self,
              RlxExecutable *executable,
              GPtrArray     *inputs,
              double         seconds,
              double        *times,
              gsize         *n)
{
  gint64 begin = g_get_monotonic_time ();

  bench_set_runs_together (BENCH_RUNS_THAT_STAY);
  for (guint i = 0; bench_warm_up (begin, i); i++)
    {
      g_autoptr(RlxTensor) y = run (executable, inputs, &self->error);

      if (y == NULL)
        return FALSE;
    }
  begin = g_get_monotonic_time ();
  for (*n = 0; bench_continue (begin, seconds, *n);)
    {
      gint64 start = g_get_monotonic_time ();

      for (guint i = 0; i < BENCH_RUNS_THAT_STAY; i++)
        {
          g_auto(RlxTensors) y = rlx_executable_run_on_device (executable, (RlxTensor **) inputs->pdata, inputs->len, NULL, NULL, &self->error);

          if (y == NULL || (i + 1 == BENCH_RUNS_THAT_STAY && !rlx_tensor_fetch (y[0], NULL, &self->error)))
            return FALSE;
        }
      times[(*n)++] = (double) (g_get_monotonic_time () - start) * 1e-3 / BENCH_RUNS_THAT_STAY;
    }
  return TRUE;
}

/* Doubles its numbers @n times: on the device, or through the host. */
static RlxTensor *
run_chain (RlxExecutable *executable,
           RlxTensor     *x,
           guint          n,
           gboolean       stay,
           GError       **error)
{
  g_autoptr(RlxTensor) y = g_object_ref (x);

  for (guint i = 0; i < n; i++)
    {
      g_auto(RlxTensors) outputs = stay ? rlx_executable_run_on_device (executable, &y, 1, NULL, NULL, error)
                                        : rlx_executable_run (executable, &y, 1, NULL, NULL, error);

      if (outputs == NULL)
        return NULL;
      g_set_object (&y, outputs[0]);
    }
  return rlx_tensor_fetch (y, NULL, error) ? g_steal_pointer (&y) : NULL;
}

/* Chains, alternating with as many round trips, so that both have the same conditions. */
static gboolean
measure_chain (Bench         *self,
               RlxExecutable *executable,
               RlxTensor     *x,
               double         seconds,
               double        *times,
               gsize         *n,
               double        *round_trips)
{
  g_autofree double *others = g_new (double, BENCH_MAX_RUNS);
  gint64 begin = g_get_monotonic_time ();

  for (*n = 0; *n < BENCH_MAX_RUNS && (*n < 3 || (double) (g_get_monotonic_time () - begin) * 1e-6 < seconds); (*n)++)
    {
      gint64 start = g_get_monotonic_time (), middle;
      g_autoptr(RlxTensor) y = run_chain (executable, x, CHAIN, TRUE, &self->error), z = NULL;

      if (y == NULL)
        return FALSE;
      middle = g_get_monotonic_time ();
      z = run_chain (executable, x, CHAIN, FALSE, &self->error);
      if (z == NULL)
        return FALSE;
      times[*n] = (double) (middle - start) * 1e-3;
      others[*n] = (double) (g_get_monotonic_time () - middle) * 1e-3;
      g_assert (rlx_tensor_equal (y, z));
    }
  *round_trips = bench_median (others, *n);
  return TRUE;
}

/* The executable that rlx_device_apply() keeps for add(x, y). */
static RlxExecutable *
compile_add (RlxDevice *device,
             RlxTensor *x,
             GError   **error)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  gsize n_dims;
  const gint64 *shape = rlx_tensor_get_shape (x, &n_dims);
  RlxNode *a = rlx_graph_input (graph, "a", RLX_DATA_TYPE_F32, shape, n_dims, error);
  RlxNode *b = rlx_graph_input (graph, "b", RLX_DATA_TYPE_F32, shape, n_dims, error);
  RlxNode *y = a != NULL && b != NULL ? rlx_node_add (a, b, error) : NULL;

  if (y == NULL || !rlx_graph_output (graph, "y", y, error))
    return NULL;
  return rlx_device_compile (device, graph, NULL, NULL, error);
}

/* Calls of apply, each from host memory to host memory, alternating with runs. */
static gboolean
measure_apply (Bench     *self,
               RlxDevice *device,
               RlxTensor *x,
               double     seconds,
               double    *times,
               gsize     *n,
               double    *runs)
{
  g_autoptr(RlxExecutable) executable = compile_add (device, x, &self->error);
  g_autofree double *others = g_new (double, BENCH_MAX_RUNS);
  gint64 begin = g_get_monotonic_time ();
  gsize n_dims;
  const gint64 *shape = rlx_tensor_get_shape (x, &n_dims);

  for (gsize i = 0; executable != NULL && i < BENCH_MAX_RUNS && (i < 100 || (double) (g_get_monotonic_time () - begin) * 1e-6 < seconds); i++)
    {
      /* existing tensors would not be uploaded again */
      g_autoptr(RlxTensor) a = rlx_tensor_new_from_bytes (RLX_DATA_TYPE_F32, shape, n_dims, rlx_tensor_get_bytes (x), NULL);
      g_autoptr(RlxTensor) b = rlx_tensor_new_from_bytes (RLX_DATA_TYPE_F32, shape, n_dims, rlx_tensor_get_bytes (x), NULL);
      g_auto(RlxTensors) y = NULL, z = NULL;
      RlxTensor *const inputs[] = { a, b };
      gint64 start = g_get_monotonic_time (), middle;

      y = rlx_device_apply (device, "add", (RlxTensor **) inputs, 2, NULL, NULL, NULL, &self->error);
      if (y == NULL || !rlx_tensor_fetch (y[0], NULL, &self->error))
        return FALSE;
      middle = g_get_monotonic_time ();
      z = rlx_executable_run_on_device (executable, (RlxTensor **) inputs, 2, NULL, NULL, &self->error);
      if (z == NULL || !rlx_tensor_fetch (z[0], NULL, &self->error))
        return FALSE;
      times[i] = (double) (middle - start) * 1e-3;
      others[i] = (double) (g_get_monotonic_time () - middle) * 1e-3;
      *n = i + 1;
      g_assert (rlx_tensor_equal (y[0], z[0]));
    }
  *runs = bench_median (others, *n);
  return executable != NULL;
}

/* Additional information besides the time. */
static char *
describe (RlxExecutable *executable,
          double         gpu_time,
          double         round_trips,
          double         runs)
{
  char number[G_ASCII_DTOSTR_BUF_SIZE];
  GString *text = g_string_new (NULL);

  g_string_printf (text, "\"dispatches\": %u, \"arena_bytes\": %" G_GUINT64_FORMAT ", \"weights_bytes\": %" G_GUINT64_FORMAT,
                   rlx_executable_get_n_dispatches (executable), rlx_executable_get_arena_size (executable),
                   rlx_executable_get_weights_size (executable));
  if (round_trips > 0)
    g_string_append_printf (text, ", \"round_trips_ms\": %s", g_ascii_formatd (number, sizeof number, "%.6f", round_trips));
  if (runs > 0)
    g_string_append_printf (text, ", \"executable_ms\": %s", g_ascii_formatd (number, sizeof number, "%.6f", runs));
  if (gpu_time > 0)
    g_string_append_printf (text, ", \"gpu_ms\": %s", g_ascii_formatd (number, sizeof number, "%.6f", gpu_time * 1e3));
  return g_string_free (text, FALSE);
}

static gboolean
measure (Bench      *self,
         const char *output,
         double      seconds,
         gboolean    show_profile)
{
  gint64 begin = g_get_monotonic_time (), start;
  RlxDevice *device = rlx_device_get_default (&self->error);
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(GPtrArray) inputs = NULL, others = NULL;
  g_autoptr(RlxTensor) first = NULL;
  g_autoptr(RlxProfile) profile = NULL;
  g_autofree float *floats = NULL;
  g_autofree double *times = g_new (double, BENCH_MAX_RUNS);
  g_autofree char *more = NULL;
  double compile_time, round_trips = 0, runs = 0;
  gsize n = 0, n_floats;

  if (device == NULL || !make_graph (self))
    return FALSE;
  start = g_get_monotonic_time ();
  executable = rlx_device_compile (device, self->graph, NULL, NULL, &self->error);
  compile_time = (double) (g_get_monotonic_time () - start) * 1e-3;
  inputs = executable ? make_inputs (self, executable) : NULL;
  first = inputs ? run (executable, inputs, &self->error) : NULL;
  /* The same tensor would not be uploaded again. */
  others = first ? make_inputs (self, executable) : NULL;
  if (others == NULL)
    return FALSE;
  times[n++] = self->workload->kind == BENCH_COMPILE ? compile_time : (double) (g_get_monotonic_time () - begin) * 1e-3;

  if (self->workload->kind == BENCH_START)
    {
      /* for a clock that was started before this process */
      puts ("started");
      fflush (stdout);
    }
  floats = rlx_tensor_to_floats (first, &n_floats, NULL);
  if (!bench_write_floats (output, floats, n_floats))
    return FALSE;

  if (self->workload->kind == BENCH_RUN || self->workload->kind == BENCH_WEB)
    {
      begin = g_get_monotonic_time ();
      for (guint i = 0; bench_warm_up (begin, i); i++)
        {
          g_autoptr(RlxTensor) y = run (executable, i % 2 == 0 ? others : inputs, &self->error);

          if (y == NULL)
            return FALSE;
        }
      begin = g_get_monotonic_time ();
      for (n = 0; bench_continue (begin, seconds, n);)
        {
          RlxTensor *y;

          start = g_get_monotonic_time ();
          y = run (executable, n % 2 == 0 ? others : inputs, &self->error);
          times[n++] = (double) (g_get_monotonic_time () - start) * 1e-3;
          if (y == NULL)
            return FALSE;
          g_object_unref (y);
        }
    }
  if (self->workload->kind == BENCH_STAY && !measure_stay (self, executable, inputs, seconds, times, &n))
    return FALSE;
  if (self->workload->kind == BENCH_RUN || self->workload->kind == BENCH_WEB || self->workload->kind == BENCH_STAY)
    {
      rlx_executable_set_profiling (executable, TRUE);
      g_clear_object (&first);
      first = run (executable, inputs, &self->error);
      if (first == NULL)
        return FALSE;
      profile = rlx_executable_dup_profile (executable);
      if (show_profile && profile != NULL)
        {
          g_autofree char *text = rlx_profile_to_string (profile);

          g_printerr ("%s", text);
        }
    }
  if (self->workload->kind == BENCH_CHAIN && !measure_chain (self, executable, inputs->pdata[0], seconds, times, &n, &round_trips))
    return FALSE;
  if (self->workload->kind == BENCH_APPLY && !measure_apply (self, device, inputs->pdata[0], seconds, times, &n, &runs))
    return FALSE;
  more = describe (executable, profile ? rlx_profile_get_total_time (profile) : 0, round_trips, runs);
  bench_print_times (times, n, more);
  return TRUE;
}

/* With plans for the measured adapters: Mesa's lavapipe, and Chromium's SwiftShader. */
static gboolean
export (Bench      *self,
        const char *path)
{
  static const char *const targets[] = { "lavapipe", "swiftshader", "minimum", NULL };
  g_autoptr(GFile) folder = g_file_new_for_path (path);
  g_autoptr(RlxWebExport) export = NULL;

  if (!make_graph (self))
    return FALSE;
  export = rlx_web_export_new (self->graph);
  rlx_web_export_set_targets (export, targets);
  return rlx_web_export_write (export, folder, NULL, &self->error);
}

int
main (int   argc,
      char *argv[])
{
  g_autofree char *name = NULL, *folder = NULL, *output = NULL, *web = NULL;
  double seconds = 0.5;
  gboolean show_profile = FALSE;
  const GOptionEntry entries[] = {
    { "workload", 0, 0, G_OPTION_ARG_STRING, &name, "What to measure", "NAME" },
    { "folder", 0, 0, G_OPTION_ARG_FILENAME, &folder, "Where rlx-bench-data has put its data", "FOLDER" },
    { "output", 0, 0, G_OPTION_ARG_FILENAME, &output, "Write the result to this file", "FILE" },
    { "seconds", 0, 0, G_OPTION_ARG_DOUBLE, &seconds, "How long to measure (0.5)", "S" },
    { "profile", 0, 0, G_OPTION_ARG_NONE, &show_profile, "Tell how long each kernel takes", NULL },
    { "export", 0, 0, G_OPTION_ARG_FILENAME, &web, "Only write the graph as a folder for browsers", "FOLDER" },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GOptionContext) context = g_option_context_new (NULL);
  Bench self = { 0 };
  int status = 0;

  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &self.error) || name == NULL || folder == NULL ||
      (self.workload = bench_find_workload (name)) == NULL)
    {
      g_printerr ("rlx-bench: %s\n", self.error ? self.error->message : "--workload and --folder are needed");
      return 2;
    }
  self.tensors = bench_list_tensors (self.workload);
  if (!open_files (&self, folder) || !(web ? export (&self, web) : measure (&self, output, seconds, show_profile)))
    {
      status = g_error_matches (self.error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_NO_ADAPTER) ? NO_ADAPTER : 1;
      if (self.error != NULL)
        g_printerr ("rlx-bench: %s: %s\n", name, self.error->message);
    }
  g_clear_object (&self.graph);
  for (guint i = 0; i < BENCH_OUTPUT; i++)
    g_clear_pointer (&self.files[i], g_bytes_unref);
  g_array_unref (self.tensors);
  g_clear_error (&self.error);
  return status;
}
