/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Runs: synchronous, asynchronous, by name, cancelled.
 */
#include "config.h"

#include "rlx-executable-private.h"
#include "rlx-port-private.h"
#include "util/rlx-mark-private.h"

/* One run on its way through the device's queue. Whoever ends it first, the
 * device thread or a cancellation, gives the caller the answer. */
typedef struct _RlxRun
{
  gatomicrefcount ref_count;
  RlxExecutable *executable;
  GCancellable *cancellable;
  gulong cancel_id;
  int answered;               /* atomic: somebody has the right to answer */

  GTask *task;                /* asynchronous runs */

  GMutex mutex;               /* synchronous runs */
  GCond cond;
  gboolean done;
  RlxTensor **outputs;
  GError *error;

  GBytes *inputs[];           /* as the device stores them, one for each of the plan */
} Run;

static void
free_outputs (gpointer data)
{
  RlxTensor **outputs = data;

  for (gsize i = 0; outputs[i] != NULL; i++)
    g_object_unref (outputs[i]);
  g_free (outputs);
}

void
rlx_run_free (RlxRun *run)
{
  g_mutex_clear (&run->mutex);
  g_cond_clear (&run->cond);
  g_free (run);
}

/* Runs follow each other, so one of them is kept for the next. */
static Run *
take_spare (RlxExecutable *self)
{
  Run *run = g_atomic_pointer_exchange (&self->spare, NULL);

  if (run == NULL)
    {
      run = g_malloc0 (sizeof (Run) + self->shared->plan->inputs->len * sizeof (GBytes *));
      g_mutex_init (&run->mutex);
      g_cond_init (&run->cond);
    }
  g_atomic_ref_count_init (&run->ref_count);
  run->executable = g_object_ref (self);
  return run;
}

static void
run_unref (Run *run)
{
  RlxExecutable *self = run->executable;

  if (!g_atomic_ref_count_dec (&run->ref_count))
    return;
  for (guint i = 0; i < self->shared->plan->inputs->len; i++)
    g_clear_pointer (&run->inputs[i], g_bytes_unref);
  g_clear_object (&run->cancellable);
  g_clear_object (&run->task);
  g_clear_pointer (&run->outputs, free_outputs);
  g_clear_error (&run->error);
  run->executable = NULL;
  run->cancel_id = 0;
  run->answered = FALSE;
  run->done = FALSE;
  if (!g_atomic_pointer_compare_and_exchange (&self->spare, NULL, run))
    rlx_run_free (run);
  g_object_unref (self);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Run, run_unref)

static Run *
run_ref (Run *run)
{
  g_atomic_ref_count_inc (&run->ref_count);
  return run;
}

/* The caller's part of a run, before it is queued: inputs are checked and
 * brought into the form the device stores. */
static Run *
run_new (RlxExecutable *self,
         RlxTensor    **inputs,
         gsize          n_inputs,
         GCancellable  *cancellable,
         GError       **error)
{
  const RlxPlan *plan = self->shared->plan;
  g_autoptr(Run) run = take_spare (self);

  run->cancellable = cancellable ? g_object_ref (cancellable) : NULL;

  if (n_inputs != plan->inputs->len)
    {
      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                   "the graph has %u inputs, %" G_GSIZE_FORMAT " were given", plan->inputs->len, n_inputs);
      return NULL;
    }
  for (gsize i = 0; i < n_inputs; i++)
    {
      const RlxPort *port = &g_array_index (plan->inputs, RlxPort, i);

      if (!RLX_IS_TENSOR (inputs[i]))
        {
          g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "input “%s” is not a tensor", port->name);
          return NULL;
        }
      if (!rlx_port_check (port, "input", inputs[i], error) ||
          (run->inputs[i] = rlx_tensor_to_device (inputs[i], port->name, error)) == NULL)
        return NULL;
    }
  return g_steal_pointer (&run);
}

/* ---- what a run does ------------------------------------------------------------------- */

static void
keep_profile (RlxExecutable *self,
              gboolean       timed,
              gint64         start)
{
  RlxProfile *profile = rlx_profile_new (self->shared->plan, self->shared->steps, self->shared->n_steps, timed ? self->times : NULL,
                                         (double) (g_get_monotonic_time () - start) * 1e-6);

  g_mutex_lock (&self->mutex);
  g_set_object (&self->profile, profile);
  g_mutex_unlock (&self->mutex);
  g_object_unref (profile);
}

static gboolean
check_parameters (RlxExecutable *self,
                  GError       **error)
{
  const RlxPlan *plan = self->shared->plan;

  for (guint i = 0; i < plan->parameters->len; i++)
    if (!self->shared->is_set[i])
      {
        g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_NOT_FOUND,
                     "parameter “%s” has no value: give it one with rlx_executable_set_parameters()",
                     g_array_index (plan->parameters, RlxPort, i).name);
        return FALSE;
      }
  return TRUE;
}

static void
fill_uploads (Run       *run,
              RlxGpuJob *job)
{
  RlxExecutable *self = run->executable;
  const RlxPlan *plan = self->shared->plan;

  for (guint i = 0; i < plan->inputs->len; i++)
    {
      const RlxSlot *slot = rlx_plan_get_slot (plan, g_array_index (plan->inputs, RlxPort, i).slot);
      gsize size;
      gconstpointer bytes = g_bytes_get_data (run->inputs[i], &size);

      if (size > 0)
        self->uploads[job->n_uploads++] = (RlxGpuUpload) { rlx_executable_get_buffer (self, slot->buffer), slot->offset, bytes, size };
    }
}

/* Memory for the outputs, which they keep. */
static gboolean
fill_downloads (RlxExecutable *self,
                RlxGpuJob     *job,
                GError       **error)
{
  const RlxPlan *plan = self->shared->plan;

  for (guint i = 0; i < plan->outputs->len; i++)
    {
      const RlxPort *port = &g_array_index (plan->outputs, RlxPort, i);
      const RlxSlot *slot = rlx_plan_get_slot (plan, port->slot);
      gsize size = rlx_type_n_device_bytes (&port->type);

      if (size == 0)
        continue;
      self->results[i] = g_try_malloc (size);
      if (self->results[i] == NULL)
        {
          g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_LIMIT,
                       "no memory for output “%s” of %" G_GSIZE_FORMAT " bytes", port->name, size);
          return FALSE;
        }
      self->downloads[job->n_downloads++] = (RlxGpuDownload) { rlx_executable_get_buffer (self, slot->buffer), slot->offset, size, self->results[i] };
    }
  return TRUE;
}

static RlxTensor **
make_outputs (RlxExecutable *self,
              GError       **error)
{
  const RlxPlan *plan = self->shared->plan;
  RlxTensor **outputs = g_new0 (RlxTensor *, plan->outputs->len + 1);

  for (guint i = 0; i < plan->outputs->len; i++)
    {
      const RlxPort *port = &g_array_index (plan->outputs, RlxPort, i);

      outputs[i] = rlx_tensor_new_from_device (port->type.dtype, port->type.dims, port->type.rank,
                                               g_steal_pointer (&self->results[i]), error);
      if (outputs[i] == NULL)
        {
          free_outputs (outputs);
          return NULL;
        }
    }
  return outputs;
}

/* On the device thread. */
static RlxTensor **
run_execute (Run     *run,
             GError **error)
{
  RlxExecutable *self = run->executable;
  const RlxPlan *plan = self->shared->plan;
  gboolean profiling = g_atomic_int_get (&self->profiling) != 0;
  gboolean timed = profiling && (rlx_gpu_get_info (self->shared->gpu)->features & RLX_DEVICE_FEATURES_TIMESTAMPS);
  gint64 start = profiling ? g_get_monotonic_time () : 0;
  RlxTensor **outputs = NULL;
  RlxGpuJob job = {
    .uploads = self->uploads,
    .dispatches = self->fork.running,
    .n_dispatches = self->shared->n_steps,
    .copies = self->copies,
    .n_copies = plan->copies->len,
    .downloads = self->downloads,
    .dispatch_ns = timed ? self->times : NULL,
  };

  if (g_cancellable_set_error_if_cancelled (run->cancellable, error) || !check_parameters (self, error) ||
      !rlx_executable_run_prologue (self, run->cancellable, error))
    return NULL;

  fill_uploads (run, &job);
  if (fill_downloads (self, &job, error))
    {
      RLX_MARK_BEGIN (run);
      gboolean executed = rlx_gpu_execute (self->shared->gpu, &job, run->cancellable, error);

      RLX_MARK_END (run, "%u dispatches", job.n_dispatches);
      if (executed)
        outputs = make_outputs (self, error);
    }
  for (guint i = 0; i < plan->outputs->len; i++)
    g_clear_pointer (&self->results[i], g_free);

  if (outputs != NULL && profiling)
    keep_profile (self, timed, start);
  return outputs;
}

/* ---- who gets the answer --------------------------------------------------------------- */

/* Takes @outputs and @error over. The second answer is dropped. */
static void
answer (Run        *run,
        RlxTensor **outputs,
        GError     *error)
{
  if (!g_atomic_int_compare_and_exchange (&run->answered, FALSE, TRUE))
    {
      g_clear_pointer (&outputs, free_outputs);
      g_clear_error (&error);
      return;
    }
  if (run->task != NULL)
    {
      if (outputs != NULL)
        g_task_return_pointer (run->task, outputs, free_outputs);
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
  g_autoptr(Run) run = data;
  GError *error = NULL;
  RlxTensor **outputs = NULL;

  if (!g_atomic_int_get (&run->answered))
    outputs = run_execute (run, &error);
  else
    error = g_error_new_literal (G_IO_ERROR, G_IO_ERROR_CANCELLED, "the run was cancelled");
  g_cancellable_disconnect (run->cancellable, run->cancel_id);
  answer (run, outputs, error);
}

/* Takes a reference of its own. */
static void
enqueue (Run *run)
{
  if (run->cancellable != NULL)
    run->cancel_id = g_cancellable_connect (run->cancellable, G_CALLBACK (on_cancelled),
                                            run_ref (run), (GDestroyNotify) run_unref);
  rlx_gpu_invoke (run->executable->shared->gpu, execute, run_ref (run));
}

/* Without a cancellable the device thread alone can end the wait, and its own
 * way of waking us is the quickest. */
static void
execute_and_wait (Run *run)
{
  if (run->cancellable == NULL)
    {
      rlx_gpu_invoke_sync (run->executable->shared->gpu, execute, run_ref (run));
      return;
    }
  enqueue (run);
  g_mutex_lock (&run->mutex);
  while (!run->done)
    g_cond_wait (&run->cond, &run->mutex);
  g_mutex_unlock (&run->mutex);
}

/* ---- calls ------------------------------------------------------------------------------ */

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
  g_autoptr(Run) run = NULL;

  g_return_val_if_fail (rlx_executable_is_compiled (self), NULL);
  g_return_val_if_fail (inputs != NULL || n_inputs == 0, NULL);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (n_outputs != NULL)
    *n_outputs = 0;
  run = run_new (self, inputs, n_inputs, cancellable, error);
  if (run == NULL)
    return NULL;
  execute_and_wait (run);

  if (run->outputs == NULL)
    {
      g_propagate_error (error, g_steal_pointer (&run->error));
      return NULL;
    }
  if (n_outputs != NULL)
    *n_outputs = self->shared->plan->outputs->len;
  return g_steal_pointer (&run->outputs);
}

static gboolean
order_inputs (RlxExecutable     *self,
              const char *const *names,
              RlxTensor        **inputs,
              gsize              n_inputs,
              RlxTensor        **ordered,
              GError           **error)
{
  const GArray *ports = self->shared->plan->inputs;

  for (gsize i = 0; i < n_inputs; i++)
    {
      guint index;

      if (names[i] == NULL)
        {
          g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                       "%" G_GSIZE_FORMAT " inputs were given, but only %" G_GSIZE_FORMAT " names", n_inputs, i);
          return FALSE;
        }
      if (rlx_port_find (ports, "input", names[i], &index, error) == NULL)
        return FALSE;
      if (ordered[index] != NULL)
        {
          g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "input “%s” was given twice", names[i]);
          return FALSE;
        }
      ordered[index] = inputs[i];
    }
  for (guint i = 0; i < ports->len; i++)
    if (ordered[i] == NULL)
      {
        g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_NOT_FOUND, "input “%s” was not given",
                     g_array_index (ports, RlxPort, i).name);
        return FALSE;
      }
  return TRUE;
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
  if (!order_inputs (self, names, inputs, n_inputs, ordered, error))
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
  g_autoptr(Run) run = NULL;
  GError *error = NULL;

  g_return_if_fail (rlx_executable_is_compiled (self));
  g_return_if_fail (inputs != NULL || n_inputs == 0);
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  task = g_task_new (self, cancellable, callback, user_data);
  g_task_set_source_tag (task, rlx_executable_run_async);
  run = run_new (self, inputs, n_inputs, cancellable, &error);
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
  RlxTensor **outputs;

  g_return_val_if_fail (rlx_executable_is_compiled (self), NULL);
  g_return_val_if_fail (g_task_is_valid (result, self), NULL);

  if (n_outputs != NULL)
    *n_outputs = 0;
  outputs = g_task_propagate_pointer (G_TASK (result), error);
  if (outputs != NULL && n_outputs != NULL)
    *n_outputs = self->shared->plan->outputs->len;
  return outputs;
}
