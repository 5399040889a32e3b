/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Runs: synchronous, asynchronous, by name, cancelled.
 */
#include "config.h"

#include "rlx-run-private.h"

#include <string.h>

/* ---- tensors, as the device stores them ------------------------------------------ */

GBytes *
rlx_tensor_to_device (RlxTensor  *tensor,
                      const char *name,
                      GError    **error)
{
  RlxDataType dtype = rlx_tensor_get_data_type (tensor);
  g_autoptr(GBytes) bytes = g_bytes_ref (rlx_tensor_get_bytes (tensor));
  gsize size;
  const gint64 *wide;
  gint32 *narrow;

  if (dtype != RLX_DATA_TYPE_I64 && dtype != RLX_DATA_TYPE_U64)
    return g_steal_pointer (&bytes);

  wide = g_bytes_get_data (bytes, &size);
  narrow = g_try_malloc (MAX (size / 2, 4));
  if (narrow == NULL)
    {
      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_LIMIT, "no memory for %" G_GSIZE_FORMAT " bytes of “%s”", size / 2, name);
      return NULL;
    }
  for (gsize i = 0; i < size / 8; i++)
    {
      gboolean fits = dtype == RLX_DATA_TYPE_I64 ? wide[i] >= G_MININT32 && wide[i] <= G_MAXINT32
                                                 : wide[i] >= 0 && wide[i] <= G_MAXUINT32;

      if (!fits)
        {
          g_autofree char *value = dtype == RLX_DATA_TYPE_I64 ? g_strdup_printf ("%" G_GINT64_FORMAT, wide[i])
                                                              : g_strdup_printf ("%" G_GUINT64_FORMAT, (guint64) wide[i]);

          g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_LIMIT,
                       "element %" G_GSIZE_FORMAT " of “%s” is %s, which does not fit the device's 32-bit integers", i, name, value);
          g_free (narrow);
          return NULL;
        }
      narrow[i] = (gint32) (guint32) wide[i];
    }
  return g_bytes_new_take (narrow, size / 2);
}

RlxTensor *
rlx_tensor_new_from_device (RlxDataType   dtype,
                            const gint64 *dims,
                            guint         rank,
                            gpointer      data,
                            GError      **error)
{
  RlxTensorType type = { .dtype = dtype, .rank = rank };
  g_autoptr(GBytes) bytes = NULL;
  guint64 n;

  memcpy (type.dims, dims, rank * sizeof (gint64));
  n = rlx_type_n_elements (&type);
  if (dtype == RLX_DATA_TYPE_I64 || dtype == RLX_DATA_TYPE_U64)
    {
      gint64 *wide = g_try_malloc (MAX (n * 8, 8));

      if (wide == NULL)
        {
          g_free (data);
          g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_LIMIT, "no memory for an output of %" G_GUINT64_FORMAT " bytes", n * 8);
          return NULL;
        }
      for (guint64 i = 0; i < n; i++)
        wide[i] = dtype == RLX_DATA_TYPE_I64 ? (gint64) ((gint32 *) data)[i] : (gint64) ((guint32 *) data)[i];
      g_free (data);
      bytes = g_bytes_new_take (wide, n * 8);
    }
  else
    {
      bytes = g_bytes_new_take (data, rlx_type_n_bytes (&type));
    }
  return rlx_tensor_new_from_bytes (dtype, dims, rank, bytes, error);
}

/* ---- one run -------------------------------------------------------------------------- */

void
rlx_run_unref (RlxRun *run)
{
  if (!g_atomic_ref_count_dec (&run->ref_count))
    return;
  g_clear_object (&run->executable);
  g_clear_pointer (&run->inputs, g_ptr_array_unref);
  g_clear_object (&run->cancellable);
  g_clear_object (&run->task);
  g_clear_pointer (&run->outputs, g_ptr_array_unref);
  g_clear_error (&run->error);
  g_mutex_clear (&run->mutex);
  g_cond_clear (&run->cond);
  g_free (run);
}

static RlxRun *
run_ref (RlxRun *run)
{
  g_atomic_ref_count_inc (&run->ref_count);
  return run;
}

/* Takes @outputs and @error over. The second answer is dropped. */
static void
answer (RlxRun    *run,
        GPtrArray *outputs,
        GError    *error)
{
  if (!g_atomic_int_compare_and_exchange (&run->answered, FALSE, TRUE))
    {
      g_clear_pointer (&outputs, g_ptr_array_unref);
      g_clear_error (&error);
      return;
    }
  if (run->task != NULL)
    {
      if (outputs != NULL)
        g_task_return_pointer (run->task, outputs, (GDestroyNotify) g_ptr_array_unref);
      else
        g_task_return_error (run->task, error);
      return;
    }
  g_mutex_lock (&run->mutex);
  run->outputs = outputs;
  run->error = error;
  run->done = TRUE;
  g_cond_signal (&run->cond);
  g_mutex_unlock (&run->mutex);
}

/* The caller gets its answer at once; what the GPU has begun runs to its end,
 * and its result is dropped. */
static void
on_cancelled (GCancellable *cancellable,
              gpointer      data)
{
  answer (data, NULL, g_error_new_literal (G_IO_ERROR, G_IO_ERROR_CANCELLED, "the run was cancelled"));
}

static void
execute (RlxGpu  *gpu,
         gpointer data)
{
  g_autoptr(RlxRun) run = data;
  GError *error = NULL;
  GPtrArray *outputs = NULL;

  if (!g_atomic_int_get (&run->answered))
    outputs = rlx_run_execute (run, &error);
  else
    error = g_error_new_literal (G_IO_ERROR, G_IO_ERROR_CANCELLED, "the run was cancelled");
  g_cancellable_disconnect (run->cancellable, run->cancel_id);
  answer (run, outputs, error);
}

/* Takes a reference of its own. */
static void
enqueue (RlxRun *run)
{
  if (run->cancellable != NULL)
    run->cancel_id = g_cancellable_connect (run->cancellable, G_CALLBACK (on_cancelled),
                                            run_ref (run), (GDestroyNotify) rlx_run_unref);
  rlx_gpu_invoke (rlx_run_get_gpu (run), execute, run_ref (run));
}

/* Without a cancellable the device thread alone can end the wait, and its own
 * way of waking us is the quickest. */
static void
execute_and_wait (RlxRun *run)
{
  if (run->cancellable == NULL)
    {
      rlx_gpu_invoke_sync (rlx_run_get_gpu (run), execute, run_ref (run));
      return;
    }
  enqueue (run);
  g_mutex_lock (&run->mutex);
  while (!run->done)
    g_cond_wait (&run->cond, &run->mutex);
  g_mutex_unlock (&run->mutex);
}

static RlxTensor **
steal_outputs (GPtrArray *outputs,
               gsize     *n_outputs)
{
  gsize n = 0;
  RlxTensor **tensors;

  g_ptr_array_set_free_func (outputs, NULL);
  g_ptr_array_add (outputs, NULL);
  tensors = (RlxTensor **) g_ptr_array_steal (outputs, &n);
  g_ptr_array_unref (outputs);
  if (n_outputs != NULL)
    *n_outputs = n - 1;
  return tensors;
}

/**
 * rlx_executable_run:
 * @self: an executable
 * @inputs: (array length=n_inputs): a tensor for each input, in the order of
 *   the graph
 * @n_inputs: the number of @inputs
 * @n_outputs: (out) (optional): the number of tensors returned
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Runs the graph and waits for the result.
 *
 * This blocks; in a program with a main loop use
 * [method@Rlx.Executable.run_async].
 *
 * Returns: (array length=n_outputs) (transfer full): the outputs, in the order
 *   of the graph
 *
 * Since: 1.0
 */
RlxTensor **
rlx_executable_run (RlxExecutable *self,
                    RlxTensor    **inputs,
                    gsize          n_inputs,
                    gsize         *n_outputs,
                    GCancellable  *cancellable,
                    GError       **error)
{
  g_autoptr(RlxRun) run = NULL;

  g_return_val_if_fail (rlx_executable_is_compiled (self), NULL);
  g_return_val_if_fail (inputs != NULL || n_inputs == 0, NULL);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (n_outputs != NULL)
    *n_outputs = 0;
  run = rlx_run_new (self, inputs, n_inputs, cancellable, error);
  if (run == NULL)
    return NULL;
  execute_and_wait (run);

  if (run->outputs == NULL)
    {
      g_propagate_error (error, g_steal_pointer (&run->error));
      return NULL;
    }
  return steal_outputs (g_steal_pointer (&run->outputs), n_outputs);
}

/**
 * rlx_executable_run_named:
 * @self: an executable
 * @names: (array zero-terminated=1): the names of the inputs, in any order
 * @inputs: (array length=n_inputs): a tensor for each name
 * @n_inputs: the number of @inputs
 * @n_outputs: (out) (optional): the number of tensors returned
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Runs the graph with inputs given by name, and waits for the result.
 *
 * Returns: (array length=n_outputs) (transfer full): the outputs, in the order
 *   of the graph
 *
 * Since: 1.0
 */
RlxTensor **
rlx_executable_run_named (RlxExecutable     *self,
                          const char *const *names,
                          RlxTensor        **inputs,
                          gsize              n_inputs,
                          gsize             *n_outputs,
                          GCancellable      *cancellable,
                          GError           **error)
{
  g_autofree RlxTensor **ordered = NULL;
  gsize n;

  g_return_val_if_fail (rlx_executable_is_compiled (self), NULL);
  g_return_val_if_fail (names != NULL && (inputs != NULL || n_inputs == 0), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (n_outputs != NULL)
    *n_outputs = 0;
  n = rlx_executable_peek_plan (self)->inputs->len;
  ordered = g_new0 (RlxTensor *, n + 1);
  if (g_strv_length ((char **) names) > n_inputs)
    {
      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                   "%u names were given, but only %" G_GSIZE_FORMAT " inputs", g_strv_length ((char **) names), n_inputs);
      return NULL;
    }
  if (!rlx_executable_order_inputs (self, names, inputs, n_inputs, ordered, error))
    return NULL;
  return rlx_executable_run (self, ordered, n, n_outputs, cancellable, error);
}

/**
 * rlx_executable_run_async:
 * @self: an executable
 * @inputs: (array length=n_inputs): a tensor for each input, in the order of
 *   the graph
 * @n_inputs: the number of @inputs
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the outputs are there
 * @user_data: data for @callback
 *
 * Runs the graph without blocking.
 *
 * @callback is called in the main context that is the thread-default one here.
 * Cancelling ends the wait at once.
 *
 * Since: 1.0
 */
void
rlx_executable_run_async (RlxExecutable      *self,
                          RlxTensor         **inputs,
                          gsize               n_inputs,
                          GCancellable       *cancellable,
                          GAsyncReadyCallback callback,
                          gpointer            user_data)
{
  g_autoptr(GTask) task = NULL;
  g_autoptr(RlxRun) run = NULL;
  GError *error = NULL;

  g_return_if_fail (rlx_executable_is_compiled (self));
  g_return_if_fail (inputs != NULL || n_inputs == 0);
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  task = g_task_new (self, cancellable, callback, user_data);
  g_task_set_source_tag (task, rlx_executable_run_async);
  run = rlx_run_new (self, inputs, n_inputs, cancellable, &error);
  if (run == NULL)
    {
      g_task_return_error (task, error);
      return;
    }
  run->task = g_steal_pointer (&task);
  enqueue (run);
}

/**
 * rlx_executable_run_finish:
 * @self: an executable
 * @result: the result given to the callback
 * @n_outputs: (out) (optional): the number of tensors returned
 * @error: return location for an error
 *
 * Ends what [method@Rlx.Executable.run_async] began.
 *
 * Returns: (array length=n_outputs) (transfer full): the outputs, in the order
 *   of the graph
 *
 * Since: 1.0
 */
RlxTensor **
rlx_executable_run_finish (RlxExecutable *self,
                           GAsyncResult  *result,
                           gsize         *n_outputs,
                           GError       **error)
{
  GPtrArray *outputs;

  g_return_val_if_fail (rlx_executable_is_compiled (self), NULL);
  g_return_val_if_fail (g_task_is_valid (result, self), NULL);

  if (n_outputs != NULL)
    *n_outputs = 0;
  outputs = g_task_propagate_pointer (G_TASK (result), error);
  return outputs ? steal_outputs (outputs, n_outputs) : NULL;
}
