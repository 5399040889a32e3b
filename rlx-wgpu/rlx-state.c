/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-state.h"

#include <string.h>

#include "rlx-executable-private.h"
#include "rlx-job-private.h"
#include "rlx-plan-port-private.h"

/**
 * RlxState:
 *
 * The memory of a state, which executables of one device can share.
 *
 * An executable makes one for each state of its graph. [method@Rlx.Executable.dup_state]
 * gives it, and [method@Rlx.Executable.bind_state] lets another executable use it in place of its own:
 * what a run of one writes is what the next run of the other reads, and nothing is copied.
 *
 * ```python
 * for name in 'keys', 'values':
 *     decode.bind_state(name, prefill.dup_state(name))
 * ```
 *
 * The memory is freed with the last executable that uses it and the last reference to the object.
 *
 * Since: 1.0
 */
struct _RlxState
{
  GObject parent_instance;

  RlxDevice *device;
  RlxTensorType type;
  guint64 size;              /* bytes on the device */
  RlxGpuBuffer *buffer;
};

G_DEFINE_FINAL_TYPE (RlxState, rlx_state, G_TYPE_OBJECT)

static void
rlx_state_finalize (GObject *object)
{
  RlxState *self = RLX_STATE (object);

  g_clear_pointer (&self->buffer, rlx_gpu_buffer_free);
  g_clear_object (&self->device);
  G_OBJECT_CLASS (rlx_state_parent_class)->finalize (object);
}

static void
rlx_state_class_init (RlxStateClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = rlx_state_finalize;
}

static void
rlx_state_init (RlxState *self G_GNUC_UNUSED)
{
}

/**
 * rlx_state_get_data_type:
 * @self: a state
 *
 * Gets the type of the elements.
 *
 * Returns: the type
 *
 * Since: 1.0
 */
RlxDataType
rlx_state_get_data_type (RlxState *self)
{
  g_return_val_if_fail (RLX_IS_STATE (self), RLX_DATA_TYPE_F32);

  return self->type.data_type;
}

/**
 * rlx_state_get_shape:
 * @self: a state
 * @n_dims: (out) (optional): the number of dimensions
 *
 * Gets the shape.
 *
 * Returns: (array length=n_dims) (transfer none): the dimensions
 *
 * Since: 1.0
 */
const gint64 *
rlx_state_get_shape (RlxState *self,
                     gsize    *n_dims)
{
  g_return_val_if_fail (RLX_IS_STATE (self), NULL);

  if (n_dims != NULL)
    *n_dims = self->type.n_dims;
  return self->type.shape;
}

/**
 * rlx_state_get_device:
 * @self: a state
 *
 * Gets the device where the state lies.
 *
 * Returns: (transfer none): the device
 *
 * Since: 1.0
 */
RlxDevice *
rlx_state_get_device (RlxState *self)
{
  g_return_val_if_fail (RLX_IS_STATE (self), NULL);

  return self->device;
}

/**
 * rlx_executable_dup_state:
 * @self: an executable
 * @name: the name of a state of the graph
 * @error: return location for an error
 *
 * Gets a state, for another executable of the device to use.
 *
 * Returns: (transfer full): the state
 *
 * Since: 1.0
 */
RlxState *
rlx_executable_dup_state (RlxExecutable *self,
                          const char    *name,
                          GError       **error)
{
  const RlxPlanPort *port;
  const RlxSlot *slot;
  RlxState *state;

  g_return_val_if_fail (rlx_executable_is_compiled (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  port = rlx_plan_port_find (self->shared->plan->states, "state", name, NULL, error);
  if (port == NULL)
    return NULL;
  slot = rlx_plan_get_slot (self->shared->plan, port->slot);
  g_mutex_lock (&self->mutex);
  state = self->states[slot->buffer];
  if (state == NULL)
    {
      /* takes the memory over */
      state = self->states[slot->buffer] = g_object_new (RLX_TYPE_STATE, NULL);
      state->device = g_object_ref (self->device);
      state->type = port->type;
      state->size = slot->size;
      state->buffer = self->own[slot->buffer];
    }
  g_object_ref (state);
  g_mutex_unlock (&self->mutex);
  return state;
}

/* ---- binding ------------------------------------------------------------------------------------- */

typedef struct
{
  RlxJob job;
  RlxExecutable *executable;
  guint buffer;              /* of the plan */
  RlxState *state;
} Bind;

static void
bind_free (RlxJob *job)
{
  Bind *bind = (Bind *) job;

  rlx_job_clear (job);
  g_object_unref (bind->executable);
  g_object_unref (bind->state);
  g_free (bind);
}

/* On the device thread, between runs. */
static gpointer
bind_work (RlxJob  *job,
           GError **error)
{
  Bind *bind = (Bind *) job;
  RlxExecutable *self = bind->executable;
  RlxGpuBuffer *previous = self->own[bind->buffer];
  RlxState *before;

  if (g_cancellable_set_error_if_cancelled (job->cancellable, error))
    return NULL;
  if (previous == bind->state->buffer)
    return self;
  /* Here, and not when the job was made: others may have come first. */
  for (guint i = 0; i < self->shared->plan->buffers->len; i++)
    if (self->own[i] == bind->state->buffer)
      {
        g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "The executable uses this state under another name already");
        return NULL;
      }
  /* Jobs that were left may still use what is replaced. */
  if (!rlx_gpu_settle (self->shared->gpu, error))
    return NULL;
  self->own[bind->buffer] = bind->state->buffer;
  if (!rlx_executable_bind_again (self, error))
    {
      self->own[bind->buffer] = previous;
      return NULL;
    }
  g_mutex_lock (&self->mutex);
  before = self->states[bind->buffer];
  self->states[bind->buffer] = g_object_ref (bind->state);
  g_mutex_unlock (&self->mutex);
  if (before != NULL)
    g_object_unref (before);
  else
    rlx_gpu_buffer_free (previous);
  return self;
}

static RlxJob *
bind_new (RlxExecutable *self,
          const char    *name,
          RlxState      *state,
          GCancellable  *cancellable,
          GError       **error)
{
  const RlxPlanPort *port = rlx_plan_port_find (self->shared->plan->states, "state", name, NULL, error);
  const RlxSlot *slot;
  Bind *bind;

  if (port == NULL)
    return NULL;
  if (rlx_device_get_gpu (state->device) != self->shared->gpu)
    {
      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "State “%s” lies on another device than the executable", name);
      return NULL;
    }
  slot = rlx_plan_get_slot (self->shared->plan, port->slot);
  if (state->type.data_type != port->type.data_type || state->type.n_dims != port->type.n_dims ||
      memcmp (state->type.shape, port->type.shape, port->type.n_dims * sizeof (gint64)) != 0 || state->size != slot->size)
    {
      g_autofree char *given = rlx_type_to_string (&state->type), *wanted = rlx_type_to_string (&port->type);

      g_set_error (error, RLX_GRAPH_ERROR, state->type.data_type != port->type.data_type ? RLX_GRAPH_ERROR_DATA_TYPE : RLX_GRAPH_ERROR_SHAPE,
                   "State “%s” of the graph is %s; the one that was given is %s", name, wanted, given);
      return NULL;
    }
  bind = g_new0 (Bind, 1);
  rlx_job_init (&bind->job);
  bind->job.work = bind_work;
  bind->job.release = bind_free;
  rlx_job_prepare (&bind->job, self->shared->gpu, cancellable);
  bind->executable = g_object_ref (self);
  bind->state = g_object_ref (state);
  bind->buffer = slot->buffer;
  return &bind->job;
}

/**
 * rlx_executable_bind_state:
 * @self: an executable
 * @name: the name of a state of the graph
 * @state: a state of an executable of the same device, of the same type and shape
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Lets the executable use a state of another one in place of its own, from the next run on.
 *
 * Runs of executables that share a state follow each other in the order they were started in,
 * like all runs of a device. What the executable's own state held is gone.
 *
 * Returns: %TRUE on success
 *
 * Since: 1.0
 */
gboolean
rlx_executable_bind_state (RlxExecutable *self,
                           const char    *name,
                           RlxState      *state,
                           GCancellable  *cancellable,
                           GError       **error)
{
  RlxJob *job;

  g_return_val_if_fail (rlx_executable_is_compiled (self), FALSE);
  g_return_val_if_fail (name != NULL, FALSE);
  g_return_val_if_fail (RLX_IS_STATE (state) && state->buffer != NULL, FALSE);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  job = bind_new (self, name, state, cancellable, error);
  return job != NULL && rlx_job_wait (job, error) != NULL;
}

/**
 * rlx_executable_bind_state_async:
 * @self: an executable
 * @name: the name of a state of the graph
 * @state: a state of an executable of the same device, of the same type and shape
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the state is bound
 * @user_data: data for @callback
 *
 * Lets the executable use a state of another one in place of its own, without blocking.
 *
 * Since: 1.0
 */
void
rlx_executable_bind_state_async (RlxExecutable      *self,
                                 const char         *name,
                                 RlxState           *state,
                                 GCancellable       *cancellable,
                                 GAsyncReadyCallback callback,
                                 gpointer            user_data)
{
  GError *error = NULL;
  RlxJob *job;

  g_return_if_fail (rlx_executable_is_compiled (self));
  g_return_if_fail (name != NULL);
  g_return_if_fail (RLX_IS_STATE (state) && state->buffer != NULL);
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  job = bind_new (self, name, state, cancellable, &error);
  rlx_job_start (job, error, self, rlx_executable_bind_state_async, cancellable, callback, user_data);
}

/**
 * rlx_executable_bind_state_finish:
 * @self: an executable
 * @result: the result given to the callback
 * @error: return location for an error
 *
 * Ends what [method@Rlx.Executable.bind_state_async] began.
 *
 * Returns: %TRUE on success
 *
 * Since: 1.0
 */
gboolean
rlx_executable_bind_state_finish (RlxExecutable *self,
                                  GAsyncResult  *result,
                                  GError       **error)
{
  g_return_val_if_fail (rlx_executable_is_compiled (self), FALSE);
  g_return_val_if_fail (g_task_is_valid (result, self), FALSE);

  return g_task_propagate_pointer (G_TASK (result), error) != NULL;
}
