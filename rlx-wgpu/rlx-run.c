/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Running executables: synchronously, asynchronously, by name, with cancellation.
 */
#include "config.h"

#include "rlx-executable-private.h"
#include "rlx-job-private.h"
#include "rlx-plan-port-private.h"
#include "rlx-run-report-private.h"
#include "rlx-tensor-device-private.h"
#include "rlx-ticker-private.h"
#include "util/rlx-mark-private.h"

/* Runs that nobody waits for hold memory that would otherwise be available, so they are small and few. */
#define LEFT_BYTES ((guint64) 64 << 10)
#define LEFT_QUEUED 16
#define LEFT_SECONDS 0.01

/* Where an input comes from. */
typedef struct
{
  RlxTensor *tensor;          /* only if it is on the device */
  RlxGpuBuffer *buffer;
  GBytes *bytes;              /* otherwise, as the device stores them */
  guint64 serial;
} Input;

typedef struct _RlxRun
{
  RlxJob job;
  RlxExecutable *executable;
  GMainContext *context;      /* the caller's */
  RlxTensor **stay;           /* nullable: outputs that stay on the device */
  gboolean left;              /* the caller already has the outputs */
  Input inputs[];             /* by input of the plan */
} Run;

static gpointer run_execute (RlxJob  *job,
                             GError **error);

void
rlx_run_free (RlxRun *run)
{
  rlx_job_clear (&run->job);
  g_free (run);
}

static void
run_release (RlxJob *job)
{
  Run *run = (Run *) job;
  RlxExecutable *self = g_steal_pointer (&run->executable);

  for (guint i = 0; i < self->shared->plan->inputs->len; i++)
    {
      g_clear_pointer (&run->inputs[i].bytes, g_bytes_unref);
      g_clear_object (&run->inputs[i].tensor);
    }
  g_clear_pointer (&run->stay, rlx_tensors_free);
  run->left = FALSE;
  g_clear_pointer (&run->context, g_main_context_unref);
  if (!g_atomic_pointer_compare_and_exchange (&self->spare, NULL, run))
    rlx_run_free (run);
  g_object_unref (self);
}

/* Runs are executed one after another, so one is kept for reuse. */
static Run *
take_spare (RlxExecutable *self,
            GCancellable  *cancellable)
{
  Run *run = g_atomic_pointer_exchange (&self->spare, NULL);

  if (run == NULL)
    {
      run = g_malloc0 (sizeof (Run) + self->shared->plan->inputs->len * sizeof (Input));
      rlx_job_init (&run->job);
      run->job.work = run_execute;
      run->job.free_result = (GDestroyNotify) rlx_tensors_free;
      run->job.release = run_release;
    }
  rlx_job_prepare (&run->job, self->shared->gpu, cancellable);
  run->executable = g_object_ref (self);
  run->context = g_main_context_ref_thread_default ();
  return run;
}

static void
run_unref (Run *run)
{
  rlx_job_unref (&run->job);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Run, run_unref)

static gboolean
take_input (RlxExecutable *self,
            Input         *input,
            const char    *name,
            RlxTensor     *tensor,
            GError       **error)
{
  if (!rlx_tensor_check_gpu (tensor, self->shared->gpu, name, error))
    return FALSE;
  input->serial = tensor->serial;
  input->buffer = rlx_tensor_get_buffer (tensor, self->shared->gpu);
  if (input->buffer != NULL)
    {
      input->tensor = g_object_ref (tensor);
      return TRUE;
    }
  input->bytes = rlx_tensor_to_device (tensor, name, error);
  return input->bytes != NULL;
}

/* Creates memory for outputs that stay on the device. */
static gboolean
make_stay (RlxExecutable *self,
           Run           *run,
           GError       **error)
{
  const GArray *outputs = self->shared->plan->outputs;

  run->stay = g_new0 (RlxTensor *, outputs->len + 1);
  for (guint i = 0; i < outputs->len; i++)
    {
      const RlxPlanPort *port = &g_array_index (outputs, RlxPlanPort, i);
      RlxTensorMemory *memory = rlx_tensor_memory_new (self->device, port->name, rlx_type_n_device_bytes (&port->type), error);

      if (memory == NULL)
        {
          g_prefix_error (error, "output “%s”: ", port->name);
          return FALSE;
        }
      run->stay[i] = rlx_tensor_new_on_device (port->type.data_type, port->type.shape, port->type.n_dims, memory);
    }
  return TRUE;
}

/* The caller's part of a run, before it is queued: checks the inputs and converts them to the form that the device
 * stores. */
static Run *
run_new (RlxExecutable *self,
         RlxTensor    **inputs,
         gsize          n_inputs,
         gboolean       stay,
         GCancellable  *cancellable,
         GError       **error)
{
  const RlxPlan *plan = self->shared->plan;
  g_autoptr(Run) run = take_spare (self, cancellable);

  if (n_inputs != plan->inputs->len)
    {
      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                   "the graph has %u inputs, %" G_GSIZE_FORMAT " were given", plan->inputs->len, n_inputs);
      return NULL;
    }
  for (gsize i = 0; i < n_inputs; i++)
    {
      const RlxPlanPort *port = &g_array_index (plan->inputs, RlxPlanPort, i);

      if (!RLX_IS_TENSOR (inputs[i]))
        {
          g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "input “%s” is not a tensor", port->name);
          return NULL;
        }
      if (!rlx_plan_port_check (port, "input", inputs[i], error) ||
          !take_input (self, &run->inputs[i], port->name, inputs[i], error))
        return NULL;
    }
  if (stay && !make_stay (self, run, error))
    return NULL;
  return g_steal_pointer (&run);
}

/* Whether the caller can continue while the run is still queued: for a small one, handing it over and waiting for it takes
 * as long as its kernels. Errors of the graph, its parameters or the device show in the first run. */
static gboolean
can_leave (Run *run)
{
  RlxExecutable *self = run->executable;
  const RlxPlan *plan = self->shared->plan;
  guint64 bytes = 0;

  /* If such a run fails, only its outputs say so: a state that lacks a step would go unnoticed. */
  if (run->stay == NULL || run->job.cancellable != NULL || plan->reports->len > 0 || plan->states->len > 0 ||
      g_atomic_int_get (&self->brief) != TRUE || g_atomic_int_get (&self->profiling) != 0 || rlx_executable_is_watched (self) ||
      rlx_gpu_count_queued (self->shared->gpu) >= LEFT_QUEUED)
    return FALSE;
  for (guint i = 0; i < plan->inputs->len; i++)
    bytes += rlx_type_n_device_bytes (&g_array_index (plan->inputs, RlxPlanPort, i).type);
  for (guint i = 0; i < plan->outputs->len; i++)
    bytes += rlx_type_n_device_bytes (&g_array_index (plan->outputs, RlxPlanPort, i).type);
  return bytes <= LEFT_BYTES;
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
                     "parameter “%s” has no value: parameters are set before the first run",
                     g_array_index (plan->parameters, RlxPlanPort, i).name);
        return FALSE;
      }
  return TRUE;
}

/* Inputs may come from runs that nobody waited for. If this is another one, it passes their errors on unchanged. */
static gboolean
check_inputs (Run     *run,
              GError **error)
{
  const GArray *ports = run->executable->shared->plan->inputs;

  for (guint i = 0; i < ports->len; i++)
    if (run->inputs[i].tensor != NULL && !rlx_tensor_check_written (run->inputs[i].tensor, error))
      {
        if (!run->left)
          g_prefix_error (error, "input “%s”: ", g_array_index (ports, RlxPlanPort, i).name);
        return FALSE;
      }
  return TRUE;
}

/* Inputs that are still there from the last run are not uploaded again. */
static void
fill_uploads (Run       *run,
              RlxGpuJob *job)
{
  RlxExecutable *self = run->executable;
  const RlxPlan *plan = self->shared->plan;

  for (guint i = 0; i < plan->inputs->len; i++)
    {
      const RlxPlanPort *port = &g_array_index (plan->inputs, RlxPlanPort, i);
      const RlxSlot *slot = rlx_plan_get_slot (plan, port->slot);
      const Input *input = &run->inputs[i];
      gsize size = rlx_type_n_device_bytes (&port->type);

      if (size == 0 || self->held[i] == input->serial)
        continue;
      /* Set again when everything has succeeded. */
      self->held[i] = 0;
      if (input->buffer != NULL)
        self->copies_in[job->n_copies_in++] = (RlxGpuCopy) { input->buffer, 0, rlx_executable_get_buffer (self, slot->buffer), slot->offset, size };
      else
        self->uploads[job->n_uploads++] = (RlxGpuUpload) {
          rlx_executable_get_buffer (self, slot->buffer), slot->offset, g_bytes_get_data (input->bytes, NULL), size
        };
    }
}

static void
note_held (Run *run)
{
  const RlxPlan *plan = run->executable->shared->plan;

  for (guint i = 0; i < plan->inputs->len; i++)
    if (rlx_plan_get_slot (plan, g_array_index (plan->inputs, RlxPlanPort, i).slot)->last == G_MAXINT)
      run->executable->held[i] = run->inputs[i].serial;
}

/* Copies from where outputs are computed to where they stay. */
static void
fill_stay (Run       *run,
           RlxGpuJob *job)
{
  RlxExecutable *self = run->executable;
  const RlxPlan *plan = self->shared->plan;

  for (guint i = 0; i < plan->outputs->len; i++)
    {
      const RlxPlanPort *port = &g_array_index (plan->outputs, RlxPlanPort, i);
      const RlxSlot *slot = rlx_plan_get_slot (plan, port->slot);
      gsize size = rlx_type_n_device_bytes (&port->type);

      if (size > 0)
        self->copies[job->n_copies++] = (RlxGpuCopy) {
          rlx_executable_get_buffer (self, slot->buffer), slot->offset, rlx_tensor_get_buffer (run->stay[i], self->shared->gpu), 0, size
        };
    }
}

/* Creates memory for the outputs, which they keep. */
static gboolean
fill_downloads (RlxExecutable *self,
                RlxGpuJob     *job,
                GError       **error)
{
  const RlxPlan *plan = self->shared->plan;

  for (guint i = 0; i < plan->outputs->len; i++)
    {
      const RlxPlanPort *port = &g_array_index (plan->outputs, RlxPlanPort, i);
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
      const RlxPlanPort *port = &g_array_index (plan->outputs, RlxPlanPort, i);

      outputs[i] = rlx_tensor_new_from_device (port->type.data_type, port->type.shape, port->type.n_dims,
                                               g_steal_pointer (&self->results[i]), error);
      if (outputs[i] == NULL)
        {
          rlx_tensors_free (outputs);
          return NULL;
        }
    }
  return outputs;
}

static RlxTensor **
execute_on_device (Run     *run,
                   gboolean watched,
                   GError **error)
{
  RlxExecutable *self = run->executable;
  GCancellable *cancellable = run->job.cancellable;
  const RlxPlan *plan = self->shared->plan;
  gboolean profiling = g_atomic_int_get (&self->profiling) != 0;
  gboolean timed = profiling && (rlx_gpu_get_info (self->shared->gpu)->target.features & RLX_DEVICE_FEATURES_TIMESTAMPS);
  gint64 start = profiling ? g_get_monotonic_time () : 0;
  RlxTensor **outputs = NULL;
  RlxGpuJob job = {
    .uploads = self->uploads,
    .copies_in = self->copies_in,
    .dispatches = self->fork.running,
    .n_dispatches = self->shared->n_steps,
    .copies = self->copies,
    .n_copies = plan->copies->len,
    .downloads = self->downloads,
    .dispatch_ns = timed ? self->times : NULL,
    .timeout_us = self->shared->timeout_us,
    .n_done = &self->n_done,
    .watched = watched,
  };

  if (g_cancellable_set_error_if_cancelled (cancellable, error) || !check_parameters (self, error) || !check_inputs (run, error) ||
      !rlx_executable_run_prologue (self, cancellable, error))
    return NULL;

  fill_uploads (run, &job);
  rlx_reports_fill_downloads (self, &job);
  /* Reports and times require waiting. */
  job.leave = run->stay != NULL && job.n_downloads == 0 && job.dispatch_ns == NULL;
  if (run->stay != NULL)
    fill_stay (run, &job);
  if (run->stay != NULL || fill_downloads (self, &job, error))
    {
      RLX_MARK_BEGIN (run);
      gboolean executed = rlx_gpu_execute (self->shared->gpu, &job, cancellable, error);

      RLX_MARK_END (run, "%u dispatches", job.n_dispatches);
      if (executed)
        note_held (run);
      if (executed && rlx_reports_read (self, error))
        outputs = run->stay != NULL ? g_steal_pointer (&run->stay) : make_outputs (self, error);
    }
  for (guint i = 0; i < plan->outputs->len; i++)
    g_clear_pointer (&self->results[i], g_free);

  if (outputs != NULL && profiling)
    keep_profile (self, timed, start);
  return outputs;
}

static gpointer
run_execute (RlxJob  *job,
             GError **error)
{
  Run *run = (Run *) job;
  RlxExecutable *self = run->executable;
  gboolean stays = run->stay != NULL;
  RlxTicker *ticker = NULL;
  RlxTensor **outputs;

  if (rlx_executable_is_watched (self))
    ticker = rlx_ticker_start (run->context, G_OBJECT (self), rlx_executable_notify_progress);
  g_atomic_int_set (&self->n_done, 0);
  g_atomic_int_set (&self->n_running, (int) self->shared->n_steps);
  outputs = execute_on_device (run, ticker != NULL, error);
  g_atomic_int_set (&self->n_running, 0);
  rlx_ticker_stop (ticker, TRUE);
  if (outputs != NULL && stays && g_atomic_int_get (&self->brief) < 0)
    g_atomic_int_set (&self->brief, rlx_executable_get_estimate (self) <= LEFT_SECONDS);
  for (guint i = 0; outputs == NULL && run->left && i < self->shared->plan->outputs->len; i++)
    rlx_tensor_set_failed (run->stay[i], *error);
  return outputs;
}

/* ---- calls ------------------------------------------------------------------------------ */

static RlxTensor **
copy_stay (Run *run)
{
  guint n = run->executable->shared->plan->outputs->len;
  RlxTensor **outputs = g_new0 (RlxTensor *, n + 1);

  for (guint i = 0; i < n; i++)
    outputs[i] = g_object_ref (run->stay[i]);
  return outputs;
}

static RlxTensor **
run_and_wait (RlxExecutable *self,
              RlxTensor    **inputs,
              gsize          n_inputs,
              gboolean       stay,
              gsize         *n_outputs,
              GCancellable  *cancellable,
              GError       **error)
{
  Run *run = run_new (self, inputs, n_inputs, stay, cancellable, error);
  RlxTensor **outputs = NULL;

  if (run != NULL && can_leave (run))
    {
      outputs = copy_stay (run);
      run->left = TRUE;
      rlx_job_leave (&run->job);
    }
  else if (run != NULL)
    outputs = rlx_job_wait (&run->job, error);

  if (n_outputs != NULL)
    *n_outputs = outputs != NULL ? self->shared->plan->outputs->len : 0;
  return outputs;
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
 * Runs the graph and waits for the outputs.
 *
 * This blocks; in a program with a main loop, use [method@Rlx.Executable.run_async].
 *
 * Returns: (array length=n_outputs) (transfer full): the outputs, in the order
 *   of the graph; in C %NULL follows, so that `g_auto(RlxTensors)` can free them
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
  if (n_outputs != NULL)
    *n_outputs = 0;

  g_return_val_if_fail (rlx_executable_is_compiled (self), NULL);
  g_return_val_if_fail (inputs != NULL || n_inputs == 0, NULL);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  return run_and_wait (self, inputs, n_inputs, FALSE, n_outputs, cancellable, error);
}

/**
 * rlx_executable_run_on_device:
 * @self: an executable
 * @inputs: (array length=n_inputs): a tensor for each input, in the order of
 *   the graph
 * @n_inputs: the number of @inputs
 * @n_outputs: (out) (optional): the number of tensors returned
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Runs the graph and leaves the outputs on the device.
 *
 * This returns without waiting for the GPU. The outputs can be inputs of other runs on the
 * same device, and [method@Rlx.Tensor.fetch] copies them to the computer's memory, so a
 * sequence of runs needs to wait only once. The memory of the outputs counts in
 * [property@Rlx.Device:memory-used] until the last reference is gone; a run in the queue
 * holds one.
 *
 * If a run fails after this has returned, fetching its outputs reports that, and so does a
 * run that takes them as inputs. If the GPU fails, the device is lost. For checked or
 * profiled runs this waits for the GPU.
 *
 * Returns: (array length=n_outputs) (transfer full): the outputs, in the order
 *   of the graph; in C %NULL follows, so that `g_auto(RlxTensors)` can free them
 *
 * Since: 1.0
 */
RlxTensor **
rlx_executable_run_on_device (RlxExecutable *self,
                              RlxTensor    **inputs,
                              gsize          n_inputs,
                              gsize         *n_outputs,
                              GCancellable  *cancellable,
                              GError       **error)
{
  if (n_outputs != NULL)
    *n_outputs = 0;

  g_return_val_if_fail (rlx_executable_is_compiled (self), NULL);
  g_return_val_if_fail (inputs != NULL || n_inputs == 0, NULL);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  return run_and_wait (self, inputs, n_inputs, TRUE, n_outputs, cancellable, error);
}

/**
 * rlx_executable_run_on_device_async:
 * @self: an executable
 * @inputs: (array length=n_inputs): a tensor for each input, in the order of
 *   the graph
 * @n_inputs: the number of @inputs
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the work has been submitted
 * @user_data: data for @callback
 *
 * Runs the graph without blocking and leaves the outputs on the device; see
 * [method@Rlx.Executable.run_on_device].
 *
 * Since: 1.0
 */
void
rlx_executable_run_on_device_async (RlxExecutable      *self,
                                    RlxTensor         **inputs,
                                    gsize               n_inputs,
                                    GCancellable       *cancellable,
                                    GAsyncReadyCallback callback,
                                    gpointer            user_data)
{
  GError *error = NULL;
  Run *run;

  g_return_if_fail (rlx_executable_is_compiled (self));
  g_return_if_fail (inputs != NULL || n_inputs == 0);
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  run = run_new (self, inputs, n_inputs, TRUE, cancellable, &error);
  rlx_job_start (run != NULL ? &run->job : NULL, error, self, rlx_executable_run_on_device_async, cancellable, callback, user_data);
}

/**
 * rlx_executable_run_on_device_finish:
 * @self: an executable
 * @result: the result given to the callback
 * @n_outputs: (out) (optional): the number of tensors returned
 * @error: return location for an error
 *
 * Finishes an operation started with [method@Rlx.Executable.run_on_device_async].
 *
 * Returns: (array length=n_outputs) (transfer full): the outputs, in the order
 *   of the graph; in C %NULL follows, so that `g_auto(RlxTensors)` can free them
 *
 * Since: 1.0
 */
RlxTensor **
rlx_executable_run_on_device_finish (RlxExecutable *self,
                                     GAsyncResult  *result,
                                     gsize         *n_outputs,
                                     GError       **error)
{
  return rlx_executable_run_finish (self, result, n_outputs, error);
}

/* The inputs in the order of the graph. */
static RlxTensor **
order_inputs (RlxExecutable     *self,
              const char *const *names,
              RlxTensor        **inputs,
              gsize              n_inputs,
              GError           **error)
{
  const GArray *ports = self->shared->plan->inputs;
  g_autofree RlxTensor **ordered = g_new0 (RlxTensor *, ports->len + 1);

  if (g_strv_length ((char **) names) > n_inputs)
    {
      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                   "%u names were given, but only %" G_GSIZE_FORMAT " inputs", g_strv_length ((char **) names), n_inputs);
      return NULL;
    }

  for (gsize i = 0; i < n_inputs; i++)
    {
      guint index;

      if (names[i] == NULL)
        {
          g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                       "%" G_GSIZE_FORMAT " inputs were given, but only %" G_GSIZE_FORMAT " names", n_inputs, i);
          return NULL;
        }
      if (rlx_plan_port_find (ports, "input", names[i], &index, error) == NULL)
        return NULL;
      if (ordered[index] != NULL)
        {
          g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "input “%s” was given twice", names[i]);
          return NULL;
        }
      ordered[index] = inputs[i];
    }
  for (guint i = 0; i < ports->len; i++)
    if (ordered[i] == NULL)
      {
        g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_NOT_FOUND, "input “%s” was not given",
                     g_array_index (ports, RlxPlanPort, i).name);
        return NULL;
      }
  return g_steal_pointer (&ordered);
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
 * Runs the graph with inputs given by name, and waits for the outputs.
 *
 * Returns: (array length=n_outputs) (transfer full): the outputs, in the order
 *   of the graph; in C %NULL follows, so that `g_auto(RlxTensors)` can free them
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

  g_return_val_if_fail (rlx_executable_is_compiled (self), NULL);
  g_return_val_if_fail (names != NULL && (inputs != NULL || n_inputs == 0), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (n_outputs != NULL)
    *n_outputs = 0;
  ordered = order_inputs (self, names, inputs, n_inputs, error);
  if (ordered == NULL)
    return NULL;
  return rlx_executable_run (self, ordered, self->shared->plan->inputs->len, n_outputs, cancellable, error);
}

/**
 * rlx_executable_run_named_async:
 * @self: an executable
 * @names: (array zero-terminated=1): the names of the inputs, in any order
 * @inputs: (array length=n_inputs): a tensor for each name
 * @n_inputs: the number of @inputs
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the outputs are available
 * @user_data: data for @callback
 *
 * Runs the graph with inputs given by name, without blocking.
 *
 * @callback is called in the thread-default main context of the calling thread.
 * Cancelling ends the wait at once.
 *
 * Since: 1.0
 */
void
rlx_executable_run_named_async (RlxExecutable      *self,
                                const char *const  *names,
                                RlxTensor         **inputs,
                                gsize               n_inputs,
                                GCancellable       *cancellable,
                                GAsyncReadyCallback callback,
                                gpointer            user_data)
{
  g_autofree RlxTensor **ordered = NULL;
  GError *error = NULL;
  Run *run = NULL;

  g_return_if_fail (rlx_executable_is_compiled (self));
  g_return_if_fail (names != NULL && (inputs != NULL || n_inputs == 0));
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  ordered = order_inputs (self, names, inputs, n_inputs, &error);
  if (ordered != NULL)
    run = run_new (self, ordered, self->shared->plan->inputs->len, FALSE, cancellable, &error);
  rlx_job_start (run != NULL ? &run->job : NULL, error, self, rlx_executable_run_named_async, cancellable, callback, user_data);
}

/**
 * rlx_executable_run_named_finish:
 * @self: an executable
 * @result: the result given to the callback
 * @n_outputs: (out) (optional): the number of tensors returned
 * @error: return location for an error
 *
 * Finishes an operation started with [method@Rlx.Executable.run_named_async].
 *
 * Returns: (array length=n_outputs) (transfer full): the outputs, in the order
 *   of the graph; in C %NULL follows, so that `g_auto(RlxTensors)` can free them
 *
 * Since: 1.0
 */
RlxTensor **
rlx_executable_run_named_finish (RlxExecutable *self,
                                 GAsyncResult  *result,
                                 gsize         *n_outputs,
                                 GError       **error)
{
  return rlx_executable_run_finish (self, result, n_outputs, error);
}

/**
 * rlx_executable_run_async:
 * @self: an executable
 * @inputs: (array length=n_inputs): a tensor for each input, in the order of
 *   the graph
 * @n_inputs: the number of @inputs
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the outputs are available
 * @user_data: data for @callback
 *
 * Runs the graph without blocking.
 *
 * @callback is called in the thread-default main context of the calling thread.
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
  GError *error = NULL;
  Run *run;

  g_return_if_fail (rlx_executable_is_compiled (self));
  g_return_if_fail (inputs != NULL || n_inputs == 0);
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  run = run_new (self, inputs, n_inputs, FALSE, cancellable, &error);
  rlx_job_start (run != NULL ? &run->job : NULL, error, self, rlx_executable_run_async, cancellable, callback, user_data);
}

/**
 * rlx_executable_run_finish:
 * @self: an executable
 * @result: the result given to the callback
 * @n_outputs: (out) (optional): the number of tensors returned
 * @error: return location for an error
 *
 * Finishes an operation started with [method@Rlx.Executable.run_async].
 *
 * Returns: (array length=n_outputs) (transfer full): the outputs, in the order
 *   of the graph; in C %NULL follows, so that `g_auto(RlxTensors)` can free them
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
