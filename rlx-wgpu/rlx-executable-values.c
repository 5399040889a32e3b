/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Parameters and states: values that stay on the device between runs.
 */
#include "config.h"

#include "rlx-executable-private.h"
#include "rlx-port-private.h"
#include "rlx-upload-private.h"

/* What set_parameters, read_state, write_state and reset_state hand over. */
typedef struct
{
  RlxExecutable *self;
  const RlxPort **ports;
  GPtrArray *bytes;
  guint n;
  gboolean parameters;
  const signed char *narrow;   /* by narrow of the plan: the answer for the new values, -1 for the old ones */
  GCancellable *cancellable;
  GError **error;
  gboolean ok;
} WriteCall;

/* A write that failed half-way may have left anything: nothing is known of it. */
static void
keep_answers (WriteCall *call)
{
  RlxProgram *shared = call->self->shared;

  g_mutex_lock (&shared->mutex);
  for (guint i = 0; i < shared->plan->narrows->len; i++)
    if (call->narrow[i] >= 0)
      shared->is_narrow[i] = call->ok && call->narrow[i];
  rlx_program_choose_steps (shared);
  g_mutex_unlock (&shared->mutex);
}

static void
write_call (RlxGpu  *gpu,
            gpointer data)
{
  WriteCall *call = data;
  RlxExecutable *self = call->self;
  const RlxPlan *plan = self->shared->plan;

  call->ok = !g_cancellable_set_error_if_cancelled (call->cancellable, call->error);
  if (!call->ok)
    return;
  for (guint i = 0; call->ok && i < call->n; i++)
    {
      const RlxSlot *slot = rlx_plan_get_slot (plan, call->ports[i]->slot);

      call->ok = rlx_upload_slot (gpu, rlx_executable_get_buffer (self, slot->buffer), slot, g_ptr_array_index (call->bytes, i), call->error);
      if (call->ok && call->parameters)
        {
          self->shared->is_set[call->ports[i] - &g_array_index (plan->parameters, RlxPort, 0)] = TRUE;
          self->shared->stale = plan->n_prologue > 0;
        }
    }
  if (call->narrow != NULL)
    keep_answers (call);
}

/* Looks at new weights, on the caller's thread: there may be many. */
static signed char *
find_answers (const RlxPlan   *plan,
              const RlxPort  **ports,
              const GPtrArray *bytes)
{
  signed char *answers = g_malloc (plan->narrows->len + 1);

  for (guint i = 0; i < plan->narrows->len; i++)
    {
      const RlxNarrow *narrow = &g_array_index (plan->narrows, RlxNarrow, i);

      answers[i] = -1;
      for (guint j = 0; j < bytes->len; j++)
        if (ports[j]->slot == narrow->slot)
          answers[i] = (signed char) rlx_narrow_decide (narrow, g_ptr_array_index (bytes, j));
    }
  return answers;
}

static gboolean
write_ports (RlxExecutable     *self,
             const GArray      *ports,
             const char        *what,
             const char *const *names,
             RlxTensor        **values,
             gsize              n_values,
             GCancellable      *cancellable,
             GError           **error)
{
  g_autofree const RlxPort **found = g_new0 (const RlxPort *, n_values + 1);
  g_autoptr(GPtrArray) bytes = g_ptr_array_new_with_free_func ((GDestroyNotify) g_bytes_unref);
  g_autofree signed char *answers = NULL;
  WriteCall call = { self, found, bytes, (guint) n_values, ports == self->shared->plan->parameters, NULL, cancellable, error, FALSE };

  /* everything is checked before anything is written */
  for (gsize i = 0; i < n_values; i++)
    {
      GBytes *converted;

      found[i] = rlx_port_find (ports, what, names[i], NULL, error);
      if (found[i] == NULL)
        return FALSE;
      if (!RLX_IS_TENSOR (values[i]))
        {
          g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "the value of %s “%s” is not a tensor", what, names[i]);
          return FALSE;
        }
      if (!rlx_port_check (found[i], what, values[i], error) ||
          (converted = rlx_tensor_to_device (values[i], names[i], error)) == NULL)
        return FALSE;
      g_ptr_array_add (bytes, converted);
    }
  if (call.parameters && self->shared->plan->narrows->len > 0)
    call.narrow = answers = find_answers (self->shared->plan, found, bytes);
  rlx_gpu_invoke_sync (self->shared->gpu, write_call, &call);
  return call.ok;
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
 * Gives parameters their values.
 *
 * All parameters need a value before the first run. Runs that are queued
 * already still use the old values. On failure no parameter has changed, unless
 * the device itself failed.
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
  g_return_val_if_fail (rlx_executable_is_compiled (self), FALSE);
  g_return_val_if_fail (names != NULL && (values != NULL || n_values == 0), FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  if (g_strv_length ((char **) names) != n_values)
    {
      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                   "%u names and %" G_GSIZE_FORMAT " values were given", g_strv_length ((char **) names), n_values);
      return FALSE;
    }
  return write_ports (self, self->shared->plan->parameters, "parameter", names, values, n_values, cancellable, error);
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
  g_return_val_if_fail (rlx_executable_is_compiled (self), FALSE);
  g_return_val_if_fail (name != NULL, FALSE);
  g_return_val_if_fail (RLX_IS_TENSOR (value), FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  return write_ports (self, self->shared->plan->states, "state", &name, &value, 1, cancellable, error);
}

/**
 * rlx_executable_reset_state:
 * @self: an executable
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Gives every state its initial value again.
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
  const GArray *states;
  g_autofree const char **names = NULL;
  g_autofree RlxTensor **values = NULL;

  g_return_val_if_fail (rlx_executable_is_compiled (self), FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  states = self->shared->plan->states;
  names = g_new0 (const char *, states->len + 1);
  values = g_new0 (RlxTensor *, states->len + 1);
  for (guint i = 0; i < states->len; i++)
    {
      names[i] = g_array_index (states, RlxPort, i).name;
      values[i] = rlx_plan_get_slot (self->shared->plan, g_array_index (states, RlxPort, i).slot)->leaf->data;
    }
  return write_ports (self, states, "state", names, values, states->len, cancellable, error);
}

typedef struct
{
  RlxExecutable *self;
  RlxGpuDownload download;
  GCancellable *cancellable;
  GError **error;
  gboolean ok;
} ReadCall;

static void
read_call (RlxGpu  *gpu,
           gpointer data)
{
  ReadCall *call = data;
  RlxGpuJob job = { .downloads = &call->download, .n_downloads = 1 };

  call->ok = rlx_gpu_execute (gpu, &job, call->cancellable, call->error);
}

/**
 * rlx_executable_read_state:
 * @self: an executable
 * @name: the name of a state of the graph
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Gets the value a state has after the runs that are queued now.
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
  const RlxPort *port;
  const RlxSlot *slot;
  g_autofree gpointer bytes = NULL;
  gsize size;
  ReadCall call;

  g_return_val_if_fail (rlx_executable_is_compiled (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  port = rlx_port_find (self->shared->plan->states, "state", name, NULL, error);
  if (port == NULL)
    return NULL;
  slot = rlx_plan_get_slot (self->shared->plan, port->slot);
  size = rlx_type_n_device_bytes (&port->type);
  if (size > 0)
    {
      bytes = g_try_malloc (size);
      if (bytes == NULL)
        {
          g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_LIMIT,
                       "no memory for state “%s” of %" G_GSIZE_FORMAT " bytes", name, size);
          return NULL;
        }
      call = (ReadCall) { self, { rlx_executable_get_buffer (self, slot->buffer), slot->offset, size, bytes }, cancellable, error, FALSE };
      rlx_gpu_invoke_sync (self->shared->gpu, read_call, &call);
      if (!call.ok)
        return NULL;
    }
  return rlx_tensor_new_from_device (port->type.dtype, port->type.dims, port->type.rank, g_steal_pointer (&bytes), error);
}
