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
 * The memory of a state, which executables on one device can share.
 *
 * An executable creates one for each state of its graph. [method@Rlx.Executable.dup_state] returns it,
 * and [method@Rlx.Executable.bind_state] makes another executable use it instead of its own: what a
 * run of one writes, the next run of the other reads, and nothing is copied.
 *
 * ```python
 * for name in 'keys', 'values':
 *     decode.bind_state(name, prefill.dup_state(name))
 * ```
 *
 * The memory is freed when no executable uses it any longer and the last reference to the object
 * is gone.
 *
 * Since: 1.0
 */
struct _RlxState
{
  GObject parent_instance;

  RlxStateMemory *memory;
  guint64 offset;            /* there */
  RlxTensorType type;
  guint64 size;              /* bytes on the device */
};

G_DEFINE_FINAL_TYPE (RlxState, rlx_state, G_TYPE_OBJECT)

static RlxStateMemory *
memory_ref (RlxStateMemory *self)
{
  g_atomic_ref_count_inc (&self->ref_count);
  return self;
}

void
rlx_state_memory_unref (RlxStateMemory *self)
{
  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;
  rlx_gpu_buffer_free (self->buffer);
  g_object_unref (self->device);
  g_free (self);
}

static void
rlx_state_finalize (GObject *object)
{
  RlxState *self = RLX_STATE (object);

  g_clear_pointer (&self->memory, rlx_state_memory_unref);
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
 * Gets the device that holds the state.
 *
 * Returns: (transfer none): the device
 *
 * Since: 1.0
 */
RlxDevice *
rlx_state_get_device (RlxState *self)
{
  g_return_val_if_fail (RLX_IS_STATE (self), NULL);

  return self->memory->device;
}

/**
 * rlx_executable_dup_state:
 * @self: an executable
 * @name: the name of a state of the graph
 * @error: return location for an error
 *
 * Gets a state, so that another executable on the device can use it.
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
  const RlxPlan *plan;
  const RlxPlanPort *port;
  const RlxSlot *slot;
  RlxState **state;

  g_return_val_if_fail (rlx_executable_is_compiled (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  plan = self->shared->plan;
  port = rlx_plan_port_find (plan->states, "state", name, NULL, error);
  if (port == NULL)
    return NULL;
  slot = rlx_plan_get_slot (plan, port->slot);
  state = &self->states[port - (const RlxPlanPort *) plan->states->data];
  g_mutex_lock (&self->mutex);
  if (self->memories[slot->buffer] == NULL)
    {
      RlxStateMemory *memory = self->memories[slot->buffer] = g_new0 (RlxStateMemory, 1);

      g_atomic_ref_count_init (&memory->ref_count);
      memory->device = g_object_ref (self->device);
      memory->buffer = self->own[slot->buffer];
      memory->size = g_array_index (plan->buffers, RlxBuffer, slot->buffer).size;
    }
  if (*state == NULL)
    {
      *state = g_object_new (RLX_TYPE_STATE, NULL);
      (*state)->memory = memory_ref (self->memories[slot->buffer]);
      (*state)->offset = rlx_executable_get_offset (self, slot);
      (*state)->type = port->type;
      (*state)->size = slot->size;
    }
  g_object_ref (*state);
  g_mutex_unlock (&self->mutex);
  return *state;
}

/* ---- binding ------------------------------------------------------------------------------------- */

typedef struct
{
  RlxJob job;
  RlxExecutable *executable;
  guint port;                /* of the plan's states */
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

/* Whether memory from @offset on already belongs to another state. */
static gboolean
is_in_use (RlxExecutable        *self,
           guint                 buffer,
           const RlxStateMemory *memory,
           guint64               offset,
           guint64               size)
{
  const RlxPlan *plan = self->shared->plan;

  for (guint i = 0; i < plan->buffers->len; i++)
    if (i != buffer && self->own[i] == memory->buffer && self->offsets[i] < offset + size &&
        offset < self->offsets[i] + g_array_index (plan->buffers, RlxBuffer, i).size)
      return TRUE;
  return FALSE;
}

/* The first step that would write to memory which it also reads as another state: WebGPU does not allow both in
   one buffer. */
static const RlxStep *
find_clash (RlxExecutable *self)
{
  const RlxPlan *plan = self->shared->plan;

  for (guint i = 0; i < plan->steps->len; i++)
    {
      const RlxStep *step = g_ptr_array_index (plan->steps, i);

      for (guint k = 0; k < step->args->len; k++)
        for (guint j = 0; j < step->args->len; j++)
          {
            const RlxArg *written = &g_array_index (step->args, RlxArg, k), *read = &g_array_index (step->args, RlxArg, j);
            guint to = rlx_plan_get_slot (plan, written->slot)->buffer, from = rlx_plan_get_slot (plan, read->slot)->buffer;

            if (written->is_output && !read->is_output && !read->merged && to != from && self->own[to] != NULL && self->own[to] == self->own[from])
              return step;
          }
    }
  return NULL;
}

/* What was known about the states in a replaced buffer is no longer valid. */
static void
forget_states (RlxExecutable *self,
               guint          buffer)
{
  const RlxPlan *plan = self->shared->plan;

  for (guint i = 0; i < plan->states->len; i++)
    if (rlx_plan_get_slot (plan, g_array_index (plan->states, RlxPlanPort, i).slot)->buffer == buffer)
      g_clear_object (&self->states[i]);
}

/* On the device thread, between runs. */
static gpointer
bind_work (RlxJob  *job,
           GError **error)
{
  Bind *bind = (Bind *) job;
  RlxExecutable *self = bind->executable;
  const RlxPlan *plan = self->shared->plan;
  const RlxSlot *slot = rlx_plan_get_slot (plan, g_array_index (plan->states, RlxPlanPort, bind->port).slot);
  guint buffer = slot->buffer;
  RlxStateMemory *memory = bind->state->memory, *before;
  RlxGpuBuffer *previous = self->own[buffer];
  guint64 offset = bind->state->offset - slot->offset, previous_offset = self->offsets[buffer];
  const RlxStep *clash;

  if (g_cancellable_set_error_if_cancelled (job->cancellable, error))
    return NULL;
  if (previous == memory->buffer && previous_offset == offset)
    return self;
  /* Checked here, and not when the job was created, as others may have come first. */
  if (is_in_use (self, buffer, memory, offset, g_array_index (plan->buffers, RlxBuffer, buffer).size))
    {
      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "The executable uses this state under another name already");
      return NULL;
    }
  /* Jobs that nobody waited for may still use what is replaced. */
  if (!rlx_gpu_settle (self->shared->gpu, error))
    return NULL;
  self->own[buffer] = memory->buffer;
  self->offsets[buffer] = offset;
  clash = find_clash (self);
  if (clash != NULL)
    g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                 "%s “%s” would write to memory that it reads as another state: both share memory in the executable they come from", clash->op, clash->label);
  if (clash != NULL || !rlx_executable_bind_again (self, error))
    {
      self->own[buffer] = previous;
      self->offsets[buffer] = previous_offset;
      return NULL;
    }
  g_mutex_lock (&self->mutex);
  before = self->memories[buffer];
  self->memories[buffer] = memory_ref (memory);
  forget_states (self, buffer);
  self->states[bind->port] = g_object_ref (bind->state);
  g_mutex_unlock (&self->mutex);
  if (before != NULL)
    rlx_state_memory_unref (before);
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
  if (rlx_device_get_gpu (state->memory->device) != self->shared->gpu)
    {
      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "State “%s” is on another device than the executable", name);
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
  if (slot->joined > 0 && (state->offset != slot->offset ||
                           state->memory->size != g_array_index (self->shared->plan->buffers, RlxBuffer, slot->buffer).size))
    {
      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                   "State “%s” is stored together with others that the graph updates in one step, so it can only be bound to a state "
                   "of an executable that updates the same ones; alternatively, bind the other executable's state to this one's", name);
      return NULL;
    }
  bind = g_new0 (Bind, 1);
  rlx_job_init (&bind->job);
  bind->job.work = bind_work;
  bind->job.release = bind_free;
  rlx_job_prepare (&bind->job, self->shared->gpu, cancellable);
  bind->executable = g_object_ref (self);
  bind->state = g_object_ref (state);
  bind->port = (guint) (port - (const RlxPlanPort *) self->shared->plan->states->data);
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
 * Makes the executable use a state of another one instead of its own, from the next run on.
 *
 * Runs of executables that share a state are executed in the order in which they were
 * started, like all runs on a device. The value of the executable's own state is lost.
 *
 * States that a graph updates in one step, such as the parameters of [method@Rlx.Graph.optimize], are stored together,
 * and so are their averages. If both executables train the same parameters, binding one of them binds all. An
 * executable that only reads parameters can bind each of them to one that is trained by another executable; the reverse
 * is an error.
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
  g_return_val_if_fail (RLX_IS_STATE (state) && state->memory != NULL, FALSE);
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
 * @callback: (scope async) (nullable): called when the state has been bound
 * @user_data: data for @callback
 *
 * Makes the executable use a state of another one instead of its own, without blocking.
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
  g_return_if_fail (RLX_IS_STATE (state) && state->memory != NULL);
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
 * Finishes an operation started with [method@Rlx.Executable.bind_state_async].
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
