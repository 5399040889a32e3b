/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * One process of this library: measures a model file and prints the time as JSON.
 * bench.py starts it.
 *
 *   rlx-bench-model --model FILE.onnx --inputs FILE.npz --result NAME [--output FILE] [--seconds S] [--start]
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include <rlx-wgpu/rlx-wgpu.h>

#include "workloads.h"

#define NO_ADAPTER 77

typedef struct
{
  RlxSession *session;
  GPtrArray *names;     /* of inputs, NULL-terminated */
  GPtrArray *inputs;
  GPtrArray *others;    /* copies of them: a tensor is not uploaded twice */
  gsize result;         /* its index among the outputs */
} Bench;

static GPtrArray *
read_inputs (RlxWeights *file,
             GPtrArray  *names,
             GError    **error)
{
  g_autoptr(GPtrArray) tensors = g_ptr_array_new_with_free_func (g_object_unref);

  for (guint i = 0; i + 1 < names->len; i++)
    {
      RlxTensor *tensor = rlx_weights_load_tensor (file, names->pdata[i], NULL, error);

      if (tensor == NULL)
        return NULL;
      g_ptr_array_add (tensors, tensor);
    }
  return g_steal_pointer (&tensors);
}

static gboolean
open_model (Bench      *self,
            const char *model,
            const char *inputs,
            const char *result,
            GError    **error)
{
  g_autoptr(GFile) model_file = g_file_new_for_path (model);
  g_autoptr(GFile) inputs_file = g_file_new_for_path (inputs);
  g_autoptr(RlxWeights) weights = NULL;
  const char *const *outputs;

  self->session = rlx_session_open (model_file, NULL, NULL, error);
  weights = self->session != NULL ? rlx_weights_open (inputs_file, NULL, error) : NULL;
  if (weights == NULL)
    return FALSE;
  self->names = g_ptr_array_new_with_free_func (g_free);
  for (guint i = 0; i < g_list_model_get_n_items (G_LIST_MODEL (weights)); i++)
    {
      g_autoptr(RlxWeightsEntry) entry = g_list_model_get_item (G_LIST_MODEL (weights), i);

      g_ptr_array_add (self->names, g_strdup (rlx_weights_entry_get_name (entry)));
    }
  g_ptr_array_add (self->names, NULL);
  self->inputs = read_inputs (weights, self->names, error);
  self->others = self->inputs != NULL ? read_inputs (weights, self->names, error) : NULL;
  outputs = rlx_session_get_output_names (self->session);
  while (outputs[self->result] != NULL && !g_str_equal (outputs[self->result], result))
    self->result++;
  if (self->others != NULL && outputs[self->result] == NULL)
    g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "the model has no output %s", result);
  return self->others != NULL && outputs[self->result] != NULL;
}

static RlxTensor *
run (Bench     *self,
     gboolean   other,
     GError   **error)
{
  GPtrArray *inputs = other ? self->others : self->inputs;
  g_auto(RlxTensors) outputs = rlx_session_run (self->session, (const char *const *) self->names->pdata, (RlxTensor **) inputs->pdata, inputs->len,
                                                NULL, NULL, error);

  return outputs != NULL ? g_object_ref (outputs[self->result]) : NULL;
}

static gboolean
measure (Bench      *self,
         gint64      begin,
         gboolean    start_only,
         const char *output,
         double      seconds,
         GError    **error)
{
  g_autoptr(RlxTensor) first = run (self, FALSE, error);
  g_autofree double *times = g_new (double, BENCH_MAX_RUNS);
  g_autofree float *floats = NULL;
  gsize n = 0, n_floats;

  if (first == NULL)
    return FALSE;
  times[n++] = (double) (g_get_monotonic_time () - begin) * 1e-3;
  floats = rlx_tensor_to_floats (first, &n_floats, NULL);
  if (!bench_write_floats (output, floats, n_floats))
    return FALSE;
  if (!start_only)
    {
      begin = g_get_monotonic_time ();
      for (guint i = 0; bench_warm_up (begin, i); i++)
        {
          g_autoptr(RlxTensor) y = run (self, i % 2 == 0, error);

          if (y == NULL)
            return FALSE;
        }
      begin = g_get_monotonic_time ();
      for (n = 0; bench_continue (begin, seconds, n);)
        {
          gint64 start = g_get_monotonic_time ();
          g_autoptr(RlxTensor) y = run (self, n % 2 == 0, error);

          times[n++] = (double) (g_get_monotonic_time () - start) * 1e-3;
          if (y == NULL)
            return FALSE;
        }
    }
  bench_print_times (times, n, NULL);
  return TRUE;
}

int
main (int   argc,
      char *argv[])
{
  gint64 begin = g_get_monotonic_time ();
  g_autofree char *model = NULL, *inputs = NULL, *result = NULL, *output = NULL;
  double seconds = 0.5;
  gboolean start_only = FALSE;
  const GOptionEntry entries[] = {
    { "model", 0, 0, G_OPTION_ARG_FILENAME, &model, "What to measure", "FILE" },
    { "inputs", 0, 0, G_OPTION_ARG_FILENAME, &inputs, "Its inputs, by name", "FILE.npz" },
    { "result", 0, 0, G_OPTION_ARG_STRING, &result, "The output to write", "NAME" },
    { "output", 0, 0, G_OPTION_ARG_FILENAME, &output, "Write it to this file", "FILE" },
    { "seconds", 0, 0, G_OPTION_ARG_DOUBLE, &seconds, "How long to measure (0.5)", "S" },
    { "start", 0, 0, G_OPTION_ARG_NONE, &start_only, "Measure the time to the first result instead", NULL },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GOptionContext) context = g_option_context_new (NULL);
  g_autoptr(GError) error = NULL;
  Bench self = { 0 };
  int status = 0;

  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error) || model == NULL || inputs == NULL || result == NULL)
    {
      g_printerr ("rlx-bench-model: %s\n", error ? error->message : "--model, --inputs and --result are needed");
      return 2;
    }
  if (!open_model (&self, model, inputs, result, &error) || !measure (&self, begin, start_only, output, seconds, &error))
    {
      status = g_error_matches (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_NO_ADAPTER) ? NO_ADAPTER : 1;
      g_printerr ("rlx-bench-model: %s: %s\n", model, error ? error->message : "the result could not be written");
    }
  g_clear_object (&self.session);
  g_clear_pointer (&self.names, g_ptr_array_unref);
  g_clear_pointer (&self.inputs, g_ptr_array_unref);
  g_clear_pointer (&self.others, g_ptr_array_unref);
  return status;
}
