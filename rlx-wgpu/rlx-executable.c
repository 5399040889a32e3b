/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-executable-private.h"

#include <string.h>

#include "rlx-apply-private.h"
#include "rlx-job-private.h"
#include "rlx-run-report-private.h"
#include "rlx-upload-private.h"

/**
 * RlxExecutable:
 *
 * A graph, compiled for a device.
 *
 * All preparation happens in [method@Rlx.Device.compile]: a run only uploads the
 * inputs, dispatches the kernels, waits, and reads the outputs back.
 *
 * An executable is thread-safe. All runs on a device, whether of one executable or of
 * several, are queued and executed one after another. [method@Rlx.Executable.fork]
 * creates a second executable that shares the weights but has its own activation
 * memory.
 *
 * Since: 1.0
 */

enum
{
  PROP_0,
  PROP_ARENA_SIZE,
  PROP_DEVICE,
  PROP_ESTIMATE,
  PROP_INPUTS,
  PROP_N_DISPATCHES,
  PROP_OUTPUTS,
  PROP_PARAMETERS,
  PROP_PROFILE,
  PROP_PROFILING,
  PROP_PROGRESS,
  PROP_STATES,
  PROP_WEIGHTS_SIZE,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

G_DEFINE_FINAL_TYPE (RlxExecutable, rlx_executable, G_TYPE_OBJECT)

/* ---- construction ----------------------------------------------------------------- */

static gboolean
make_bind_groups (RlxExecutable *self,
                  GError       **error)
{
  RlxProgram *shared = self->shared;
  const RlxPlan *plan = shared->plan;
  g_autoptr(GHashTable) known = g_hash_table_new_full (g_bytes_hash, g_bytes_equal, (GDestroyNotify) g_bytes_unref, NULL);

  for (guint i = 0; i < plan->steps->len; i++)
    {
      const RlxStep *step = g_ptr_array_index (plan->steps, i);
      gsize size = (step->bindings->len + 1) * sizeof (RlxGpuBinding);
      g_autofree RlxGpuBinding *bindings = g_malloc0 (size);
      g_autoptr(GBytes) key = NULL;
      RlxGpuBindGroup *group;

      for (guint j = 0; j < step->bindings->len; j++)
        {
          const RlxStepBinding *binding = &g_array_index (step->bindings, RlxStepBinding, j);

          if (binding->slot == G_MAXUINT)
            {
              bindings[j] = (RlxGpuBinding) { shared->params, step->param_offset, binding->size };
              continue;
            }
          bindings[j] = (RlxGpuBinding) {
            rlx_executable_get_buffer (self, rlx_plan_get_slot (plan, binding->slot)->buffer),
            rlx_executable_get_offset (self, rlx_plan_get_slot (plan, binding->slot)) + binding->offset,
            binding->size,
          };
        }
      /* The pipeline is part of the key. */
      memcpy (&bindings[step->bindings->len], &shared->pipelines[i], sizeof (RlxGpuPipeline *));
      key = g_bytes_new (bindings, size);
      group = g_hash_table_lookup (known, key);
      if (group == NULL)
        {
          group = rlx_gpu_bind_group_new (shared->gpu, shared->pipelines[i], bindings, step->bindings->len, step->kernel, error);
          if (group == NULL)
            {
              g_prefix_error (error, "%s “%s”: ", step->op, step->label);
              return FALSE;
            }
          g_ptr_array_add (self->groups, group);
          g_hash_table_insert (known, g_steal_pointer (&key), group);
        }
      self->fork.dispatches[i] = (RlxGpuDispatch) {
        shared->pipelines[i], group,
        { step->grid[0], step->grid[1], step->grid[2] },
        rlx_plan_estimate_step (plan, step, &shared->speeds),
      };
    }

  for (guint i = 0; i < plan->copies->len; i++)
    {
      const RlxSlotCopy *copy = &g_array_index (plan->copies, RlxSlotCopy, i);
      const RlxSlot *source = rlx_plan_get_slot (plan, copy->source), *target = rlx_plan_get_slot (plan, copy->target);

      self->copies[i] = (RlxGpuCopy) {
        rlx_executable_get_buffer (self, source->buffer), source->offset,
        rlx_executable_get_buffer (self, target->buffer), rlx_executable_get_offset (self, target), target->size,
      };
    }
  return TRUE;
}

gboolean
rlx_executable_bind_again (RlxExecutable *self,
                           GError       **error)
{
  const RlxPlan *plan = self->shared->plan;
  GPtrArray *groups = self->groups;
  g_autofree RlxGpuDispatch *dispatches = g_memdup2 (self->fork.dispatches, plan->steps->len * sizeof (RlxGpuDispatch));
  g_autofree RlxGpuCopy *copies = g_memdup2 (self->copies, plan->copies->len * sizeof (RlxGpuCopy));

  self->groups = g_ptr_array_new_with_free_func ((GDestroyNotify) rlx_gpu_bind_group_free);
  if (!make_bind_groups (self, error))
    {
      g_ptr_array_unref (self->groups);
      self->groups = groups;
      if (dispatches != NULL)
        memcpy (self->fork.dispatches, dispatches, plan->steps->len * sizeof (RlxGpuDispatch));
      if (copies != NULL)
        memcpy (self->copies, copies, plan->copies->len * sizeof (RlxGpuCopy));
      return FALSE;
    }
  g_mutex_lock (&self->shared->mutex);
  rlx_program_choose_dispatches (self->shared, &self->fork);
  g_mutex_unlock (&self->shared->mutex);
  g_ptr_array_unref (groups);
  return TRUE;
}

static gboolean
upload_states (RlxExecutable *self,
               GError       **error)
{
  const RlxPlan *plan = self->shared->plan;

  for (guint i = 0; i < plan->states->len; i++)
    {
      const RlxPlanPort *state = &g_array_index (plan->states, RlxPlanPort, i);
      const RlxSlot *slot = rlx_plan_get_slot (plan, state->slot);

      if (!rlx_upload_tensor (self->shared->gpu, rlx_executable_get_buffer (self, slot->buffer), slot, state->name, slot->leaf->data, error))
        return FALSE;
    }
  return TRUE;
}

/* The part that belongs to a single executable. */
static RlxExecutable *
executable_new (RlxDevice  *device,
                RlxProgram *shared,
                GError    **error)
{
  RlxExecutable *self = g_object_new (RLX_TYPE_EXECUTABLE, NULL);
  const RlxPlan *plan = shared->plan;

  self->device = g_object_ref (device);
  self->shared = shared;
  self->own = g_new0 (RlxGpuBuffer *, plan->buffers->len + 1);
  self->memories = g_new0 (RlxStateMemory *, plan->buffers->len + 1);
  self->offsets = g_new0 (guint64, plan->buffers->len + 1);
  self->states = g_new0 (RlxState *, plan->states->len + 1);
  self->groups = g_ptr_array_new_with_free_func ((GDestroyNotify) rlx_gpu_bind_group_free);
  self->fork.dispatches = g_new0 (RlxGpuDispatch, plan->steps->len + 1);
  self->fork.running = g_new0 (RlxGpuDispatch, plan->steps->len + 1);
  self->copies = g_new0 (RlxGpuCopy, plan->copies->len + plan->outputs->len + 1);
  self->times = g_new0 (guint64, plan->steps->len + 1);
  self->uploads = g_new0 (RlxGpuUpload, plan->inputs->len + 1);
  self->copies_in = g_new0 (RlxGpuCopy, plan->inputs->len + 1);
  self->held = g_new0 (guint64, plan->inputs->len + 1);
  self->downloads = g_new0 (RlxGpuDownload, plan->outputs->len + plan->reports->len + 1);
  self->reports = g_malloc0 (rlx_reports_get_size (plan));
  self->results = g_new0 (gpointer, plan->outputs->len + 1);

  for (guint i = 0; i < plan->buffers->len; i++)
    if (rlx_plan_is_own_buffer (plan, i) && (self->own[i] = rlx_program_new_buffer (shared, i, error)) == NULL)
      {
        g_object_unref (self);
        return NULL;
      }
  if (!make_bind_groups (self, error) || !upload_states (self, error))
    {
      g_object_unref (self);
      return NULL;
    }
  g_mutex_lock (&shared->mutex);
  g_ptr_array_add (shared->forks, &self->fork);
  rlx_program_choose_dispatches (shared, &self->fork);
  g_mutex_unlock (&shared->mutex);
  return self;
}

gboolean
rlx_executable_run_prologue (RlxExecutable *self,
                             GCancellable  *cancellable,
                             GError       **error)
{
  RlxGpuJob job = {
    .dispatches = self->fork.dispatches,
    .n_dispatches = self->shared->plan->n_prologue,
    .timeout_us = self->shared->timeout_us,
  };

  if (!self->shared->stale)
    return TRUE;
  /* Its intermediate values use the memory of later inputs. */
  memset (self->held, 0, self->shared->plan->inputs->len * sizeof (guint64));
  if (!rlx_gpu_execute (self->shared->gpu, &job, cancellable, error))
    return FALSE;
  self->shared->stale = FALSE;
  return TRUE;
}

typedef struct
{
  RlxExecutable *self;
  GCancellable *cancellable;
  GError **error;
  gboolean ok;
} PrologueCall;

static void
prologue_call (RlxGpu  *gpu,
               gpointer data)
{
  PrologueCall *call = data;

  call->ok = rlx_executable_run_prologue (call->self, call->cancellable, call->error);
}

RlxExecutable *
rlx_executable_new (RlxDevice                *device,
                    RlxPlan                  *plan,
                    const RlxSpeeds          *speeds,
                    const RlxCompileSettings *settings,
                    GCancellable             *cancellable,
                    GError                  **error)
{
  guint64 needed = rlx_plan_buffer_bytes (plan, TRUE) + rlx_plan_buffer_bytes (plan, FALSE);
  g_autoptr(RlxExecutable) self = NULL;
  RlxProgram *shared;

  if (settings->memory_limit > 0 && needed > settings->memory_limit)
    {
      g_set_error (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_OUT_OF_MEMORY,
                   "the graph needs %" G_GUINT64_FORMAT " bytes of device memory; the limit is %" G_GUINT64_FORMAT,
                   needed, settings->memory_limit);
      rlx_plan_free (plan);
      return NULL;
    }
  shared = rlx_program_new (rlx_device_get_gpu (device), plan, speeds, settings->ticker, cancellable, error);
  if (shared == NULL)
    return NULL;
  shared->timeout_us = (guint64) (settings->timeout * G_USEC_PER_SEC);
  self = executable_new (device, shared, error);
  if (self == NULL)
    return NULL;
  self->profiling = settings->profiling;
  /* With parameters the prologue waits until they have values. */
  if (plan->parameters->len == 0)
    {
      PrologueCall call = { self, cancellable, error, FALSE };

      rlx_gpu_invoke_sync (shared->gpu, prologue_call, &call);
      if (!call.ok)
        return NULL;
    }
  return g_steal_pointer (&self);
}

void
rlx_executable_borrow_device (RlxExecutable *self)
{
  self->borrows_device = TRUE;
  g_object_unref (self->device);
}

static gpointer
make_fork (gpointer      data,
           GCancellable *cancellable,
           GError      **error)
{
  RlxExecutable *self = data;

  if (g_cancellable_set_error_if_cancelled (cancellable, error))
    return NULL;
  g_atomic_ref_count_inc (&self->shared->ref_count);
  return executable_new (self->device, self->shared, error);
}

/**
 * rlx_executable_fork:
 * @self: an executable
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Creates an executable that shares the weights of this one and has its own activation
 * memory and states.
 *
 * States start with their initial values. Parameters are shared: setting one
 * changes it for all.
 *
 * Returns: (transfer full): a new executable
 *
 * Since: 1.0
 */
RlxExecutable *
rlx_executable_fork (RlxExecutable *self,
                     GCancellable  *cancellable,
                     GError       **error)
{
  g_return_val_if_fail (rlx_executable_is_compiled (self), NULL);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  return rlx_thread_wait (make_fork, g_object_unref, g_object_ref (self), g_object_unref, cancellable, error);
}

/**
 * rlx_executable_fork_async:
 * @self: an executable
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the executable has been created
 * @user_data: data for @callback
 *
 * Creates an executable that shares the weights of this one, without blocking; see
 * [method@Rlx.Executable.fork].
 *
 * Since: 1.0
 */
void
rlx_executable_fork_async (RlxExecutable      *self,
                           GCancellable       *cancellable,
                           GAsyncReadyCallback callback,
                           gpointer            user_data)
{
  g_return_if_fail (rlx_executable_is_compiled (self));
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  rlx_thread_start (self, rlx_executable_fork_async, make_fork, g_object_unref, g_object_ref (self), g_object_unref,
                    cancellable, callback, user_data);
}

/**
 * rlx_executable_fork_finish:
 * @self: an executable
 * @result: the result given to the callback
 * @error: return location for an error
 *
 * Finishes an operation started with [method@Rlx.Executable.fork_async].
 *
 * Returns: (transfer full): a new executable
 *
 * Since: 1.0
 */
RlxExecutable *
rlx_executable_fork_finish (RlxExecutable *self,
                            GAsyncResult  *result,
                            GError       **error)
{
  g_return_val_if_fail (rlx_executable_is_compiled (self), NULL);
  g_return_val_if_fail (g_task_is_valid (result, self), NULL);

  return g_task_propagate_pointer (G_TASK (result), error);
}

static void
rlx_executable_finalize (GObject *object)
{
  RlxExecutable *self = RLX_EXECUTABLE (object);

  if (self->shared != NULL)
    {
      g_mutex_lock (&self->shared->mutex);
      g_ptr_array_remove_fast (self->shared->forks, &self->fork);
      g_mutex_unlock (&self->shared->mutex);
      g_clear_pointer (&self->groups, g_ptr_array_unref);
      for (guint i = 0; i < self->shared->plan->states->len; i++)
        g_clear_object (&self->states[i]);
      for (guint i = 0; i < self->shared->plan->buffers->len; i++)
        if (self->memories[i] != NULL)
          rlx_state_memory_unref (self->memories[i]);
        else
          g_clear_pointer (&self->own[i], rlx_gpu_buffer_free);
      rlx_program_unref (self->shared);
    }
  g_free (self->own);
  g_free (self->memories);
  g_free (self->offsets);
  g_free (self->states);
  g_free (self->fork.dispatches);
  g_free (self->fork.running);
  g_free (self->copies);
  g_free (self->times);
  g_free (self->uploads);
  g_free (self->copies_in);
  g_free (self->held);
  g_free (self->downloads);
  g_free (self->results);
  g_free (self->reports);
  g_clear_pointer (&self->spare, rlx_run_free);
  g_clear_object (&self->profile);
  if (!self->borrows_device)
    g_clear_object (&self->device);
  g_mutex_clear (&self->mutex);

  G_OBJECT_CLASS (rlx_executable_parent_class)->finalize (object);
}

static void
rlx_executable_get_property (GObject    *object,
                             guint       id,
                             GValue     *value,
                             GParamSpec *pspec)
{
  RlxExecutable *self = RLX_EXECUTABLE (object);

  switch (id)
    {
    case PROP_ARENA_SIZE:
      g_value_set_uint64 (value, rlx_executable_get_arena_size (self));
      break;
    case PROP_DEVICE:
      g_value_set_object (value, self->device);
      break;
    case PROP_ESTIMATE:
      g_value_set_double (value, rlx_executable_get_estimate (self));
      break;
    case PROP_N_DISPATCHES:
      g_value_set_uint (value, rlx_executable_get_n_dispatches (self));
      break;
    case PROP_PROFILE:
      g_value_take_object (value, rlx_executable_dup_profile (self));
      break;
    case PROP_PROFILING:
      g_value_set_boolean (value, rlx_executable_get_profiling (self));
      break;
    case PROP_PROGRESS:
      g_value_set_double (value, rlx_executable_get_progress (self));
      break;
    case PROP_INPUTS:
      g_value_set_object (value, rlx_executable_get_inputs (self));
      break;
    case PROP_OUTPUTS:
      g_value_set_object (value, rlx_executable_get_outputs (self));
      break;
    case PROP_PARAMETERS:
      g_value_set_object (value, rlx_executable_get_parameters (self));
      break;
    case PROP_STATES:
      g_value_set_object (value, rlx_executable_get_states (self));
      break;
    case PROP_WEIGHTS_SIZE:
      g_value_set_uint64 (value, rlx_executable_get_weights_size (self));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

gboolean
rlx_executable_is_watched (RlxExecutable *self)
{
  return g_signal_has_handler_pending (self, g_signal_lookup ("notify", G_TYPE_OBJECT),
                                       g_quark_from_static_string ("progress"), TRUE);
}

void
rlx_executable_notify_progress (gpointer    self,
                                double      fraction G_GNUC_UNUSED,
                                const char *what G_GNUC_UNUSED)
{
  g_object_notify_by_pspec (self, properties[PROP_PROGRESS]);
}

static void
rlx_executable_set_property (GObject      *object,
                             guint         id,
                             const GValue *value,
                             GParamSpec   *pspec)
{
  switch (id)
    {
    case PROP_PROFILING:
      rlx_executable_set_profiling (RLX_EXECUTABLE (object), g_value_get_boolean (value));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
rlx_executable_class_init (RlxExecutableClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->finalize = rlx_executable_finalize;
  object_class->get_property = rlx_executable_get_property;
  object_class->set_property = rlx_executable_set_property;

  /**
   * RlxExecutable:arena-size:
   *
   * How many bytes of device memory activations use, including inputs.
   *
   * Since: 1.0
   */
  properties[PROP_ARENA_SIZE] = g_param_spec_uint64 ("arena-size", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * RlxExecutable:device:
   *
   * The device it was compiled for.
   *
   * Since: 1.0
   */
  properties[PROP_DEVICE] = g_param_spec_object ("device", NULL, NULL, RLX_TYPE_DEVICE, flags);
  /**
   * RlxExecutable:estimate:
   *
   * The estimated time of a run in seconds; see [method@Rlx.Executable.get_estimate].
   *
   * Since: 1.0
   */
  properties[PROP_ESTIMATE] = g_param_spec_double ("estimate", NULL, NULL, 0, G_MAXDOUBLE, 0, flags);
  /**
   * RlxExecutable:n-dispatches:
   *
   * The number of kernels that a run dispatches.
   *
   * Since: 1.0
   */
  properties[PROP_N_DISPATCHES] = g_param_spec_uint ("n-dispatches", NULL, NULL, 0, G_MAXUINT, 0, flags);
  /**
   * RlxExecutable:profile:
   *
   * The profile of the last run that was timed, or %NULL; no notification is
   * emitted.
   *
   * Since: 1.0
   */
  properties[PROP_PROFILE] = g_param_spec_object ("profile", NULL, NULL, RLX_TYPE_PROFILE, flags);
  /**
   * RlxExecutable:profiling:
   *
   * Whether runs are timed kernel by kernel, which makes them slower.
   *
   * Since: 1.0
   */
  properties[PROP_PROFILING] = g_param_spec_boolean ("profiling", NULL, NULL, FALSE, flags | G_PARAM_WRITABLE);
  /**
   * RlxExecutable:progress: (getter get_progress)
   *
   * The fraction of a run's steps that is done, from 0 to 1; 1 if nothing is running.
   *
   * If a run takes longer than 100 ms, the notification is emitted every 100 ms and
   * once more before the run returns its results, in the thread-default main context of
   * the thread that started the run. With [method@Rlx.Executable.run_async] that is the
   * context that gets the results. Nothing is emitted if the run itself blocks that
   * main loop.
   *
   * If several runs are queued, this is the progress of the one that is being executed.
   * Progress is made in whole steps, so a graph of few large steps has few values between
   * 0 and 1.
   *
   * Since: 1.0
   */
  properties[PROP_PROGRESS] = g_param_spec_double ("progress", NULL, NULL, 0, 1, 1, flags);
  /**
   * RlxExecutable:inputs:
   *
   * The inputs, a list of [class@Rlx.Port] in the order in which a run takes them.
   *
   * Since: 1.0
   */
  properties[PROP_INPUTS] = g_param_spec_object ("inputs", NULL, NULL, G_TYPE_LIST_MODEL, flags);
  /**
   * RlxExecutable:outputs:
   *
   * The outputs, a list of [class@Rlx.Port] in the order in which a run returns them.
   *
   * Since: 1.0
   */
  properties[PROP_OUTPUTS] = g_param_spec_object ("outputs", NULL, NULL, G_TYPE_LIST_MODEL, flags);
  /**
   * RlxExecutable:parameters:
   *
   * The parameters, a list of [class@Rlx.Port].
   *
   * Since: 1.0
   */
  properties[PROP_PARAMETERS] = g_param_spec_object ("parameters", NULL, NULL, G_TYPE_LIST_MODEL, flags);
  /**
   * RlxExecutable:states:
   *
   * The states, a list of [class@Rlx.Port].
   *
   * Since: 1.0
   */
  properties[PROP_STATES] = g_param_spec_object ("states", NULL, NULL, G_TYPE_LIST_MODEL, flags);
  /**
   * RlxExecutable:weights-size:
   *
   * How many bytes of device memory constants, parameters and the values computed from
   * them once use. Constants that several executables of the device share count in each
   * of them, but only once in [property@Rlx.Device:memory-used].
   *
   * Since: 1.0
   */
  properties[PROP_WEIGHTS_SIZE] = g_param_spec_uint64 ("weights-size", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
rlx_executable_init (RlxExecutable *self)
{
  g_mutex_init (&self->mutex);
  self->brief = -1;
}
