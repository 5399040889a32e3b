/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Parameters and states: values that stay on the device between runs.
 */
#include "config.h"

#include "rlx-executable-private.h"
#include "rlx-job-private.h"
#include "rlx-plan-port-private.h"
#include "rlx-upload-private.h"

/* ---- jobs ---------------------------------------------------------------------------- */

/* Common to all of them. */
typedef struct
{
  RlxJob job;
  RlxExecutable *executable;
} Access;

static gpointer
access_new (gsize          size,
            RlxExecutable *self,
            gpointer     (*work) (RlxJob *job, GError **error),
            GDestroyNotify free_result,
            void         (*release) (RlxJob *job),
            GCancellable  *cancellable)
{
  Access *access = g_malloc0 (size);

  rlx_job_init (&access->job);
  access->job.work = work;
  access->job.free_result = free_result;
  access->job.release = release;
  rlx_job_prepare (&access->job, self->shared->gpu, cancellable);
  access->executable = g_object_ref (self);
  return access;
}

static void
access_free (Access *access)
{
  rlx_job_clear (&access->job);
  g_object_unref (access->executable);
  g_free (access);
}

static gpointer
access_finish (RlxExecutable *self,
               GAsyncResult  *result,
               GError       **error)
{
  g_return_val_if_fail (rlx_executable_is_compiled (self), NULL);
  g_return_val_if_fail (g_task_is_valid (result, self), NULL);

  return g_task_propagate_pointer (G_TASK (result), error);
}

/* ---- writing --------------------------------------------------------------------------- */

typedef struct
{
  Access access;
  const RlxPlanPort **ports;
  GPtrArray *bytes;             /* GBytes, one for each port */
  gboolean parameters;
  signed char *f16_answers;     /* by f16_weights of the plan: the answer for the new values, -1 for the old ones; nullable */
} Write;

static void
write_free (RlxJob *job)
{
  Write *write = (Write *) job;

  g_free (write->ports);
  g_ptr_array_unref (write->bytes);
  g_free (write->f16_answers);
  access_free (&write->access);
}

static void
write_unref (Write *write)
{
  rlx_job_unref (&write->access.job);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Write, write_unref)

/* Examines new weights, on the caller's thread, as there may be many. */
static signed char *
find_answers (const RlxPlan   *plan,
              const RlxPlanPort  **ports,
              const GPtrArray *bytes)
{
  signed char *answers = g_malloc (plan->f16_weights->len + 1);

  for (guint i = 0; i < plan->f16_weights->len; i++)
    {
      const RlxF16Weight *weight = &g_array_index (plan->f16_weights, RlxF16Weight, i);

      answers[i] = -1;
      for (guint j = 0; j < bytes->len; j++)
        if (ports[j]->slot == weight->slot)
          answers[i] = (signed char) rlx_f16_weight_decide (weight, g_ptr_array_index (bytes, j));
    }
  return answers;
}

/* A write that failed half-way may have left anything, so its contents are unknown. */
static void
keep_answers (Write   *write,
              gboolean ok)
{
  RlxProgram *shared = write->access.executable->shared;

  g_mutex_lock (&shared->mutex);
  for (guint i = 0; i < shared->plan->f16_weights->len; i++)
    if (write->f16_answers[i] >= 0)
      shared->is_f16[i] = ok && write->f16_answers[i];
  rlx_program_choose_steps (shared);
  g_mutex_unlock (&shared->mutex);
}

static gpointer
write_work (RlxJob  *job,
            GError **error)
{
  Write *write = (Write *) job;
  RlxExecutable *self = write->access.executable;
  const RlxPlan *plan = self->shared->plan;
  gboolean ok = TRUE;

  if (g_cancellable_set_error_if_cancelled (job->cancellable, error))
    return NULL;
  if (write->parameters && plan->f16_weights->len > 0 && write->f16_answers == NULL)
    write->f16_answers = find_answers (plan, write->ports, write->bytes);
  /* Jobs that nobody waited for may still read what is overwritten here. */
  if (!rlx_gpu_settle (self->shared->gpu, error))
    return NULL;
  for (guint i = 0; ok && i < write->bytes->len; i++)
    {
      RlxSlot slot = *rlx_plan_get_slot (plan, write->ports[i]->slot);

      slot.offset = rlx_executable_get_offset (self, &slot);
      ok = rlx_upload_slot (self->shared->gpu, rlx_executable_get_buffer (self, slot.buffer), &slot,
                            g_ptr_array_index (write->bytes, i), error);
      if (ok && write->parameters)
        {
          self->shared->is_set[write->ports[i] - &g_array_index (plan->parameters, RlxPlanPort, 0)] = TRUE;
          self->shared->stale = plan->n_prologue > 0;
        }
    }
  if (write->f16_answers != NULL)
    keep_answers (write, ok);
  return ok ? self : NULL;
}

/* Everything is checked before anything is written. */
static RlxJob *
write_new (RlxExecutable     *self,
           const GArray      *ports,
           const char        *what,
           const char *const *names,
           RlxTensor        **values,
           gsize              n_values,
           GCancellable      *cancellable,
           GError           **error)
{
  g_autoptr(Write) write = access_new (sizeof (Write), self, write_work, NULL, write_free, cancellable);

  write->ports = g_new0 (const RlxPlanPort *, n_values + 1);
  write->bytes = g_ptr_array_new_with_free_func ((GDestroyNotify) g_bytes_unref);
  write->parameters = ports == self->shared->plan->parameters;
  for (gsize i = 0; i < n_values; i++)
    {
      GBytes *converted;

      write->ports[i] = rlx_plan_port_find (ports, what, names[i], NULL, error);
      if (write->ports[i] == NULL)
        return NULL;
      if (!RLX_IS_TENSOR (values[i]))
        {
          g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "the value of %s “%s” is not a tensor", what, names[i]);
          return NULL;
        }
      if (!rlx_plan_port_check (write->ports[i], what, values[i], error) ||
          (converted = rlx_tensor_to_device (values[i], names[i], error)) == NULL)
        return NULL;
      g_ptr_array_add (write->bytes, converted);
    }
  for (gsize i = 0; write->parameters && i < n_values; i++)
    g_atomic_int_set (&self->shared->given[write->ports[i] - &g_array_index (ports, RlxPlanPort, 0)], TRUE);
  return &g_steal_pointer (&write)->access.job;
}

static RlxJob *
parameters_new (RlxExecutable     *self,
                const char *const *names,
                RlxTensor        **values,
                gsize              n_values,
                GCancellable      *cancellable,
                GError           **error)
{
  if (g_strv_length ((char **) names) != n_values)
    {
      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                   "%u names and %" G_GSIZE_FORMAT " values were given", g_strv_length ((char **) names), n_values);
      return NULL;
    }
  return write_new (self, self->shared->plan->parameters, "parameter", names, values, n_values, cancellable, error);
}

/**
 * rlx_executable_set_parameters:
 * @self: an executable
 * @names: (array zero-terminated=1): the names of parameters of the graph
 * @values: (array length=n_values): a tensor for each name
 * @n_values: the number of @values
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Sets the values of parameters.
 *
 * All parameters need a value before the first run. Runs that are already queued use
 * the old values. On failure no parameter has changed, unless the device itself failed;
 * if the call was cancelled, either all have changed or none.
 *
 * Returns: %TRUE on success
 *
 * Since: 1.0
 */
gboolean
rlx_executable_set_parameters (RlxExecutable     *self,
                               const char *const *names,
                               RlxTensor        **values,
                               gsize              n_values,
                               GCancellable      *cancellable,
                               GError           **error)
{
  const RlxPlan *plan;
  RlxJob *job;

  g_return_val_if_fail (rlx_executable_is_compiled (self), FALSE);
  g_return_val_if_fail (names != NULL && (values != NULL || n_values == 0), FALSE);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  plan = self->shared->plan;
  job = parameters_new (self, names, values, n_values, cancellable, error);
  if (job == NULL)
    return FALSE;
  /* Done here, where no other thread has to wait. */
  if (plan->f16_weights->len > 0)
    ((Write *) job)->f16_answers = find_answers (plan, ((Write *) job)->ports, ((Write *) job)->bytes);
  return rlx_job_wait (job, error) != NULL;
}

/**
 * rlx_executable_set_parameters_async:
 * @self: an executable
 * @names: (array zero-terminated=1): the names of parameters of the graph
 * @values: (array length=n_values): a tensor for each name
 * @n_values: the number of @values
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the parameters have been set
 * @user_data: data for @callback
 *
 * Sets the values of parameters, without blocking.
 *
 * Runs that are started after this call use the new values; there is no need to wait
 * for @callback.
 *
 * Since: 1.0
 */
void
rlx_executable_set_parameters_async (RlxExecutable      *self,
                                     const char *const  *names,
                                     RlxTensor         **values,
                                     gsize               n_values,
                                     GCancellable       *cancellable,
                                     GAsyncReadyCallback callback,
                                     gpointer            user_data)
{
  GError *error = NULL;
  RlxJob *job;

  g_return_if_fail (rlx_executable_is_compiled (self));
  g_return_if_fail (names != NULL && (values != NULL || n_values == 0));
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  job = parameters_new (self, names, values, n_values, cancellable, &error);
  rlx_job_start (job, error, self, rlx_executable_set_parameters_async, cancellable, callback, user_data);
}

/**
 * rlx_executable_set_parameters_finish:
 * @self: an executable
 * @result: the result given to the callback
 * @error: return location for an error
 *
 * Finishes an operation started with [method@Rlx.Executable.set_parameters_async].
 *
 * Returns: %TRUE on success
 *
 * Since: 1.0
 */
gboolean
rlx_executable_set_parameters_finish (RlxExecutable *self,
                                      GAsyncResult  *result,
                                      GError       **error)
{
  return access_finish (self, result, error) != NULL;
}

/**
 * rlx_executable_write_state:
 * @self: an executable
 * @name: the name of a state of the graph
 * @value: its new value
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Replaces the value of a state.
 *
 * Returns: %TRUE on success
 *
 * Since: 1.0
 */
gboolean
rlx_executable_write_state (RlxExecutable *self,
                            const char    *name,
                            RlxTensor     *value,
                            GCancellable  *cancellable,
                            GError       **error)
{
  RlxJob *job;

  g_return_val_if_fail (rlx_executable_is_compiled (self), FALSE);
  g_return_val_if_fail (name != NULL, FALSE);
  g_return_val_if_fail (RLX_IS_TENSOR (value), FALSE);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  job = write_new (self, self->shared->plan->states, "state", &name, &value, 1, cancellable, error);
  return job != NULL && rlx_job_wait (job, error) != NULL;
}

/**
 * rlx_executable_write_state_async:
 * @self: an executable
 * @name: the name of a state of the graph
 * @value: its new value
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the state has been replaced
 * @user_data: data for @callback
 *
 * Replaces the value of a state, without blocking.
 *
 * Since: 1.0
 */
void
rlx_executable_write_state_async (RlxExecutable      *self,
                                  const char         *name,
                                  RlxTensor          *value,
                                  GCancellable       *cancellable,
                                  GAsyncReadyCallback callback,
                                  gpointer            user_data)
{
  GError *error = NULL;
  RlxJob *job;

  g_return_if_fail (rlx_executable_is_compiled (self));
  g_return_if_fail (name != NULL);
  g_return_if_fail (RLX_IS_TENSOR (value));
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  job = write_new (self, self->shared->plan->states, "state", &name, &value, 1, cancellable, &error);
  rlx_job_start (job, error, self, rlx_executable_write_state_async, cancellable, callback, user_data);
}

/**
 * rlx_executable_write_state_finish:
 * @self: an executable
 * @result: the result given to the callback
 * @error: return location for an error
 *
 * Finishes an operation started with [method@Rlx.Executable.write_state_async].
 *
 * Returns: %TRUE on success
 *
 * Since: 1.0
 */
gboolean
rlx_executable_write_state_finish (RlxExecutable *self,
                                   GAsyncResult  *result,
                                   GError       **error)
{
  return access_finish (self, result, error) != NULL;
}

static RlxJob *
reset_new (RlxExecutable *self,
           GCancellable  *cancellable,
           GError       **error)
{
  const GArray *states = self->shared->plan->states;
  g_autofree const char **names = g_new0 (const char *, states->len + 1);
  g_autofree RlxTensor **values = g_new0 (RlxTensor *, states->len + 1);

  for (guint i = 0; i < states->len; i++)
    {
      names[i] = g_array_index (states, RlxPlanPort, i).name;
      values[i] = rlx_plan_get_slot (self->shared->plan, g_array_index (states, RlxPlanPort, i).slot)->leaf->data;
    }
  return write_new (self, states, "state", names, values, states->len, cancellable, error);
}

/**
 * rlx_executable_reset_state:
 * @self: an executable
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Resets every state to its initial value.
 *
 * Returns: %TRUE on success
 *
 * Since: 1.0
 */
gboolean
rlx_executable_reset_state (RlxExecutable *self,
                            GCancellable  *cancellable,
                            GError       **error)
{
  RlxJob *job;

  g_return_val_if_fail (rlx_executable_is_compiled (self), FALSE);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  job = reset_new (self, cancellable, error);
  return job != NULL && rlx_job_wait (job, error) != NULL;
}

/**
 * rlx_executable_reset_state_async:
 * @self: an executable
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the states have been reset
 * @user_data: data for @callback
 *
 * Resets every state to its initial value, without blocking.
 *
 * Since: 1.0
 */
void
rlx_executable_reset_state_async (RlxExecutable      *self,
                                  GCancellable       *cancellable,
                                  GAsyncReadyCallback callback,
                                  gpointer            user_data)
{
  GError *error = NULL;
  RlxJob *job;

  g_return_if_fail (rlx_executable_is_compiled (self));
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  job = reset_new (self, cancellable, &error);
  rlx_job_start (job, error, self, rlx_executable_reset_state_async, cancellable, callback, user_data);
}

/**
 * rlx_executable_reset_state_finish:
 * @self: an executable
 * @result: the result given to the callback
 * @error: return location for an error
 *
 * Finishes an operation started with [method@Rlx.Executable.reset_state_async].
 *
 * Returns: %TRUE on success
 *
 * Since: 1.0
 */
gboolean
rlx_executable_reset_state_finish (RlxExecutable *self,
                                   GAsyncResult  *result,
                                   GError       **error)
{
  return access_finish (self, result, error) != NULL;
}

/* ---- reading --------------------------------------------------------------------------- */

typedef struct
{
  Access access;
  const RlxPlanPort *port;
} Read;

static void
read_free (RlxJob *job)
{
  access_free (&((Read *) job)->access);
}

static gpointer
read_work (RlxJob  *job,
           GError **error)
{
  RlxExecutable *self = ((Read *) job)->access.executable;
  const RlxPlanPort *port = ((Read *) job)->port;
  const RlxSlot *slot = rlx_plan_get_slot (self->shared->plan, port->slot);
  gsize size = rlx_type_n_device_bytes (&port->type);
  g_autofree gpointer bytes = NULL;

  if (size > 0)
    {
      RlxGpuDownload download = { rlx_executable_get_buffer (self, slot->buffer), rlx_executable_get_offset (self, slot), size, NULL };
      RlxGpuJob work = { .downloads = &download, .n_downloads = 1, .timeout_us = self->shared->timeout_us };

      download.data = bytes = g_try_malloc (size);
      if (bytes == NULL)
        {
          g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_LIMIT,
                       "no memory for state “%s” of %" G_GSIZE_FORMAT " bytes", port->name, size);
          return NULL;
        }
      if (!rlx_gpu_execute (self->shared->gpu, &work, job->cancellable, error))
        return NULL;
    }
  return rlx_tensor_new_from_device (port->type.data_type, port->type.shape, port->type.n_dims, g_steal_pointer (&bytes), error);
}

static RlxJob *
read_new (RlxExecutable *self,
          const char    *name,
          GCancellable  *cancellable,
          GError       **error)
{
  const RlxPlanPort *port = rlx_plan_port_find (self->shared->plan->states, "state", name, NULL, error);
  Read *read;

  if (port == NULL)
    return NULL;
  read = access_new (sizeof (Read), self, read_work, g_object_unref, read_free, cancellable);
  read->port = port;
  return &read->access.job;
}

/**
 * rlx_executable_read_state:
 * @self: an executable
 * @name: the name of a state of the graph
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Gets the value that a state has after the runs that are now queued.
 *
 * Returns: (transfer full): the value
 *
 * Since: 1.0
 */
RlxTensor *
rlx_executable_read_state (RlxExecutable *self,
                           const char    *name,
                           GCancellable  *cancellable,
                           GError       **error)
{
  RlxJob *job;

  g_return_val_if_fail (rlx_executable_is_compiled (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  job = read_new (self, name, cancellable, error);
  return job != NULL ? rlx_job_wait (job, error) : NULL;
}

/**
 * rlx_executable_read_state_async:
 * @self: an executable
 * @name: the name of a state of the graph
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the value has been read
 * @user_data: data for @callback
 *
 * Gets the value that a state has after the runs that are now queued, without blocking.
 *
 * Since: 1.0
 */
void
rlx_executable_read_state_async (RlxExecutable      *self,
                                 const char         *name,
                                 GCancellable       *cancellable,
                                 GAsyncReadyCallback callback,
                                 gpointer            user_data)
{
  GError *error = NULL;
  RlxJob *job;

  g_return_if_fail (rlx_executable_is_compiled (self));
  g_return_if_fail (name != NULL);
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  job = read_new (self, name, cancellable, &error);
  rlx_job_start (job, error, self, rlx_executable_read_state_async, cancellable, callback, user_data);
}

/**
 * rlx_executable_read_state_finish:
 * @self: an executable
 * @result: the result given to the callback
 * @error: return location for an error
 *
 * Finishes an operation started with [method@Rlx.Executable.read_state_async].
 *
 * Returns: (transfer full): the value
 *
 * Since: 1.0
 */
RlxTensor *
rlx_executable_read_state_finish (RlxExecutable *self,
                                  GAsyncResult  *result,
                                  GError       **error)
{
  return access_finish (self, result, error);
}
