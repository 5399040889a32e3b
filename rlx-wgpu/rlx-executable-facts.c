/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What an executable tells of itself: names, sizes, estimates and profiles.
 */
#include "config.h"

#include "rlx-executable-private.h"
#include "rlx-port-private.h"

gboolean
rlx_executable_is_compiled (RlxExecutable *self)
{
  return RLX_IS_EXECUTABLE (self) && self->shared != NULL;
}

const RlxPlan *
rlx_executable_peek_plan (RlxExecutable *self)
{
  return self->shared->plan;
}

const RlxGpuDispatch *
rlx_executable_peek_dispatches (RlxExecutable *self,
                                guint         *n_dispatches)
{
  *n_dispatches = self->shared->n_steps;
  return self->fork.running;
}

GPtrArray *
rlx_executable_get_steps (RlxExecutable *self)
{
  RlxProgram *shared = self->shared;
  GPtrArray *steps = g_ptr_array_sized_new (shared->plan->steps->len);

  for (guint i = 0; i < shared->plan->n_prologue; i++)
    g_ptr_array_add (steps, g_ptr_array_index (shared->plan->steps, i));
  g_mutex_lock (&shared->mutex);
  for (guint i = 0; i < shared->n_steps; i++)
    g_ptr_array_add (steps, g_ptr_array_index (shared->plan->steps, shared->steps[i]));
  g_mutex_unlock (&shared->mutex);
  return steps;
}

/**
 * rlx_executable_get_device: (get-property device)
 * @self: an executable
 *
 * Gets the device it was compiled for.
 *
 * Returns: (transfer none): the device
 *
 * Since: 1.0
 */
RlxDevice *
rlx_executable_get_device (RlxExecutable *self)
{
  g_return_val_if_fail (rlx_executable_is_compiled (self), NULL);

  return self->device;
}

/**
 * rlx_executable_get_input_names:
 * @self: an executable
 *
 * Gets the names of the inputs, in the order in which a run takes them.
 *
 * Returns: (transfer none) (array zero-terminated=1): the names
 *
 * Since: 1.0
 */
const char * const *
rlx_executable_get_input_names (RlxExecutable *self)
{
  g_return_val_if_fail (rlx_executable_is_compiled (self), NULL);

  return self->shared->input_names;
}

/**
 * rlx_executable_get_output_names:
 * @self: an executable
 *
 * Gets the names of the outputs, in the order in which a run returns them.
 *
 * Returns: (transfer none) (array zero-terminated=1): the names
 *
 * Since: 1.0
 */
const char * const *
rlx_executable_get_output_names (RlxExecutable *self)
{
  g_return_val_if_fail (rlx_executable_is_compiled (self), NULL);

  return self->shared->output_names;
}

/* Created on demand: they are rarely used, and there may be hundreds of parameters. */
static GListModel *
get_ports (RlxProgram   *shared,
           guint         index,
           const GArray *ports)
{
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new (&shared->mutex);

  if (shared->ports[index] == NULL)
    shared->ports[index] = rlx_port_list_new (ports);
  return shared->ports[index];
}

/**
 * rlx_executable_get_inputs: (get-property inputs)
 * @self: an executable
 *
 * Gets the inputs, in the order in which a run takes them.
 *
 * Returns: (transfer none): a list of [class@Rlx.Port], which never changes
 *
 * Since: 1.0
 */
GListModel *
rlx_executable_get_inputs (RlxExecutable *self)
{
  g_return_val_if_fail (rlx_executable_is_compiled (self), NULL);

  return get_ports (self->shared, 0, self->shared->plan->inputs);
}

/**
 * rlx_executable_get_outputs: (get-property outputs)
 * @self: an executable
 *
 * Gets the outputs, in the order in which a run returns them.
 *
 * Returns: (transfer none): a list of [class@Rlx.Port], which never changes
 *
 * Since: 1.0
 */
GListModel *
rlx_executable_get_outputs (RlxExecutable *self)
{
  g_return_val_if_fail (rlx_executable_is_compiled (self), NULL);

  return get_ports (self->shared, 1, self->shared->plan->outputs);
}

/**
 * rlx_executable_get_parameters: (get-property parameters)
 * @self: an executable
 *
 * Gets the parameters.
 *
 * Returns: (transfer none): a list of [class@Rlx.Port], which never changes
 *
 * Since: 1.0
 */
GListModel *
rlx_executable_get_parameters (RlxExecutable *self)
{
  g_return_val_if_fail (rlx_executable_is_compiled (self), NULL);

  return get_ports (self->shared, 2, self->shared->plan->parameters);
}

/**
 * rlx_executable_get_states: (get-property states)
 * @self: an executable
 *
 * Gets the states.
 *
 * Returns: (transfer none): a list of [class@Rlx.Port], which never changes
 *
 * Since: 1.0
 */
GListModel *
rlx_executable_get_states (RlxExecutable *self)
{
  g_return_val_if_fail (rlx_executable_is_compiled (self), NULL);

  return get_ports (self->shared, 3, self->shared->plan->states);
}

/**
 * rlx_executable_get_n_dispatches: (get-property n-dispatches)
 * @self: an executable
 *
 * Gets the number of kernels that a run dispatches.
 *
 * With %RLX_PRECISION_REDUCED it can change when parameters are set.
 *
 * Returns: the number
 *
 * Since: 1.0
 */
guint
rlx_executable_get_n_dispatches (RlxExecutable *self)
{
  guint n;

  g_return_val_if_fail (rlx_executable_is_compiled (self), 0);

  g_mutex_lock (&self->shared->mutex);
  n = self->shared->n_steps;
  g_mutex_unlock (&self->shared->mutex);
  return n;
}

/**
 * rlx_executable_get_estimate: (get-property estimate)
 * @self: an executable
 *
 * Estimates how long a run takes.
 *
 * The estimate tells which of two devices, or of two graphs on one device, is likely to
 * be faster; it is not a promise. Each kernel counts with the time for its arithmetic
 * or for its memory accesses, whichever is longer, plus the time to dispatch it; the
 * transfer of inputs and outputs is added. The speeds are those of the
 * [property@Rlx.Device:calibration] at the time the graph was compiled. Without one,
 * they are typical of the [enum@Rlx.AdapterType], and the estimate may well be wrong by
 * a factor of ten.
 *
 * Returns: seconds
 *
 * Since: 1.0
 */
double
rlx_executable_get_estimate (RlxExecutable *self)
{
  g_autoptr(GPtrArray) steps = NULL;
  const RlxSpeeds *speeds;
  const RlxPlan *plan;
  double seconds, moved = 0.0;

  g_return_val_if_fail (rlx_executable_is_compiled (self), 0.0);

  speeds = &self->shared->speeds;
  plan = self->shared->plan;
  seconds = speeds->round_trip_time;
  steps = rlx_executable_get_steps (self);
  for (guint i = plan->n_prologue; i < steps->len; i++)
    seconds += rlx_plan_estimate_step (plan, g_ptr_array_index (steps, i), speeds);
  for (guint i = 0; i < plan->copies->len; i++)
    seconds += 2.0 * (double) rlx_plan_get_slot (plan, g_array_index (plan->copies, RlxSlotCopy, i).target)->size / speeds->bandwidth;
  for (guint i = 0; i < plan->inputs->len; i++)
    moved += (double) rlx_type_n_device_bytes (&g_array_index (plan->inputs, RlxPlanPort, i).type);
  for (guint i = 0; i < plan->outputs->len; i++)
    moved += (double) rlx_type_n_device_bytes (&g_array_index (plan->outputs, RlxPlanPort, i).type);

  return seconds + moved / speeds->transfer;
}

/**
 * rlx_executable_get_arena_size: (get-property arena-size)
 * @self: an executable
 *
 * Gets how much device memory activations use.
 *
 * Returns: the number of bytes
 *
 * Since: 1.0
 */
guint64
rlx_executable_get_arena_size (RlxExecutable *self)
{
  g_return_val_if_fail (rlx_executable_is_compiled (self), 0);

  return rlx_plan_buffer_bytes (self->shared->plan, TRUE);
}

/**
 * rlx_executable_get_weights_size: (get-property weights-size)
 * @self: an executable
 *
 * Gets how much device memory weights use.
 *
 * Returns: the number of bytes
 *
 * Since: 1.0
 */
guint64
rlx_executable_get_weights_size (RlxExecutable *self)
{
  g_return_val_if_fail (rlx_executable_is_compiled (self), 0);

  return rlx_plan_buffer_bytes (self->shared->plan, FALSE);
}

/**
 * rlx_executable_get_progress: (get-property progress)
 * @self: an executable
 *
 * Gets which fraction of the steps of a run is done.
 *
 * Returns: the fraction, from 0 to 1; 1 if nothing is running
 *
 * Since: 1.0
 */
double
rlx_executable_get_progress (RlxExecutable *self)
{
  int n_done, n_steps;

  g_return_val_if_fail (RLX_IS_EXECUTABLE (self), 1.0);

  n_done = g_atomic_int_get (&self->n_done);
  n_steps = g_atomic_int_get (&self->n_running);
  return n_steps > 0 ? MIN ((double) n_done / n_steps, 1.0) : 1.0;
}

/**
 * rlx_executable_get_profiling: (get-property profiling)
 * @self: an executable
 *
 * Gets whether runs are timed kernel by kernel.
 *
 * Returns: %TRUE if they are
 *
 * Since: 1.0
 */
gboolean
rlx_executable_get_profiling (RlxExecutable *self)
{
  g_return_val_if_fail (rlx_executable_is_compiled (self), FALSE);

  return g_atomic_int_get (&self->profiling) != 0;
}

/**
 * rlx_executable_set_profiling: (set-property profiling)
 * @self: an executable
 * @profiling: whether to time runs
 *
 * Sets whether runs are timed kernel by kernel; see
 * [method@Rlx.Executable.dup_profile].
 *
 * Since: 1.0
 */
void
rlx_executable_set_profiling (RlxExecutable *self,
                              gboolean       profiling)
{
  g_return_if_fail (rlx_executable_is_compiled (self));

  if (g_atomic_int_exchange (&self->profiling, profiling != FALSE) != (profiling != FALSE))
    g_object_notify (G_OBJECT (self), "profiling");
}

/**
 * rlx_executable_dup_profile: (get-property profile)
 * @self: an executable
 *
 * Gets the profile of the last run that was timed.
 *
 * Returns: (transfer full) (nullable): the profile, or %NULL if no run has been timed
 *
 * Since: 1.0
 */
RlxProfile *
rlx_executable_dup_profile (RlxExecutable *self)
{
  RlxProfile *profile;

  g_return_val_if_fail (rlx_executable_is_compiled (self), NULL);

  g_mutex_lock (&self->mutex);
  profile = self->profile ? g_object_ref (self->profile) : NULL;
  g_mutex_unlock (&self->mutex);
  return profile;
}

/**
 * rlx_executable_dup_plan:
 * @self: an executable
 *
 * Gets a machine-readable description of what a run does. With %RLX_PRECISION_REDUCED
 * it can change when parameters are set.
 *
 * The dictionary has `dispatches`, `prologue`, `pipelines`, `banks`, `arena-bytes`,
 * `live-bytes` (the most that is alive at any one time: no plan needs less),
 * `kept-bytes` (the same if recomputed values were kept, where there are any),
 * `weight-bytes`, of which `found-bytes` (already on the device because of other
 * executables) and `relaid-bytes` (tensors that are also on the device in another
 * layout), `kernels` (name to number of dispatches) and `steps`, an array of
 * dictionaries with `op`, `node`, `kernel`, `grid`, `prologue`, `in-place`,
 * `operations`, `bytes`, `workgroup-size`, `parameters` (its numeric parameters, by
 * name), `wgsl` and, where there was a choice between kernels, `choice`: a text on each
 * of them.
 *
 * Returns: (transfer full): a dictionary `a{sv}`
 *
 * Since: 1.0
 */
GVariant *
rlx_executable_dup_plan (RlxExecutable *self)
{
  g_autoptr(GPtrArray) steps = NULL;
  g_autoptr(GVariant) plan = NULL;
  GVariantDict dict;

  g_return_val_if_fail (rlx_executable_is_compiled (self), NULL);

  steps = rlx_executable_get_steps (self);
  plan = rlx_plan_to_variant (rlx_executable_peek_plan (self), steps);
  g_variant_dict_init (&dict, plan);
  g_variant_dict_insert (&dict, "found-bytes", "t", self->shared->found_bytes);
  g_variant_dict_insert (&dict, "relaid-bytes", "t", self->shared->relaid_bytes);
  return g_variant_ref_sink (g_variant_dict_end (&dict));
}

/**
 * rlx_executable_describe_plan:
 * @self: an executable
 *
 * Describes what a run does, as text: a summary and a line per kernel; then which
 * weights were already on the device because of other executables, and which are also
 * there in another layout.
 *
 * Returns: (transfer full): the text
 *
 * Since: 1.0
 */
char *
rlx_executable_describe_plan (RlxExecutable *self)
{
  g_autoptr(GPtrArray) steps = NULL;
  g_autofree char *text = NULL, *weights = NULL;

  g_return_val_if_fail (rlx_executable_is_compiled (self), NULL);

  steps = rlx_executable_get_steps (self);
  text = rlx_plan_to_text (rlx_executable_peek_plan (self), steps);
  weights = rlx_program_describe_weights (self->shared);
  return g_strconcat (text, weights, NULL);
}
