/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What an executable tells of itself: names, sizes, estimates and profiles.
 */
#include "config.h"

#include "rlx-executable-private.h"

/* Seconds a step may take: for people, and to cut submits before a driver's
 * watchdog does. */
double
rlx_step_estimate (const RlxStep       *step,
                   const RlxGpuFigures *figures)
{
  double by_units = figures->product_flops[RLX_GPU_PRODUCT_MATRIX];
  double flops = by_units > 0.0 && g_str_equal (step->kernel, "matmul-matrix") ? by_units : figures->flops;

  return figures->dispatch_time + MAX (step->flops / flops, step->bytes / figures->bandwidth);
}

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

static char **
port_names (const GArray *ports)
{
  char **names = g_new0 (char *, ports->len + 1);

  for (guint i = 0; i < ports->len; i++)
    names[i] = g_strdup (g_array_index (ports, RlxPort, i).name);
  return names;
}

/**
 * rlx_executable_get_input_names:
 * @self: an executable
 *
 * Gets the names of the inputs, in the order a run takes them.
 *
 * Returns: (transfer full) (array zero-terminated=1): the names
 *
 * Since: 1.0
 */
char **
rlx_executable_get_input_names (RlxExecutable *self)
{
  g_return_val_if_fail (rlx_executable_is_compiled (self), NULL);

  return port_names (self->shared->plan->inputs);
}

/**
 * rlx_executable_get_output_names:
 * @self: an executable
 *
 * Gets the names of the outputs, in the order a run gives them.
 *
 * Returns: (transfer full) (array zero-terminated=1): the names
 *
 * Since: 1.0
 */
char **
rlx_executable_get_output_names (RlxExecutable *self)
{
  g_return_val_if_fail (rlx_executable_is_compiled (self), NULL);

  return port_names (self->shared->plan->outputs);
}

/**
 * rlx_executable_get_n_dispatches: (get-property n-dispatches)
 * @self: an executable
 *
 * Gets the number of kernels a run starts.
 *
 * With %RLX_PRECISION_REDUCED it can change when parameters get values.
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
 * The estimate says which of two devices, or of two graphs on one device, is
 * likely faster; it is not a promise. For each kernel it has the longer of the
 * time for the arithmetic and the time for the memory, then the time to start
 * it, and at the end the time that inputs and outputs take on their way. The
 * speeds are those of the [property@Rlx.Device:calibration] at the time the graph was
 * compiled. Without one they are typical for the [enum@Rlx.AdapterType], and
 * the estimate may well be wrong by a factor of ten.
 *
 * Returns: seconds
 *
 * Since: 1.0
 */
double
rlx_executable_get_estimate (RlxExecutable *self)
{
  g_autoptr(GPtrArray) steps = NULL;
  const RlxGpuFigures *figures;
  const RlxPlan *plan;
  double seconds, moved = 0.0;

  g_return_val_if_fail (rlx_executable_is_compiled (self), 0.0);

  figures = &self->shared->figures;
  plan = self->shared->plan;
  seconds = figures->round_trip_time;
  steps = rlx_executable_get_steps (self);
  for (guint i = plan->n_prologue; i < steps->len; i++)
    seconds += rlx_step_estimate (g_ptr_array_index (steps, i), figures);
  for (guint i = 0; i < plan->copies->len; i++)
    seconds += 2.0 * (double) rlx_plan_get_slot (plan, g_array_index (plan->copies, RlxSlotCopy, i).target)->size / figures->bandwidth;
  for (guint i = 0; i < plan->inputs->len; i++)
    moved += (double) rlx_type_n_device_bytes (&g_array_index (plan->inputs, RlxPort, i).type);
  for (guint i = 0; i < plan->outputs->len; i++)
    moved += (double) rlx_type_n_device_bytes (&g_array_index (plan->outputs, RlxPort, i).type);

  return seconds + moved / figures->transfer;
}

guint64
rlx_plan_buffer_bytes (const RlxPlan *plan,
                       gboolean       own)
{
  guint64 size = 0;

  for (guint i = 0; i < plan->buffers->len; i++)
    if (rlx_plan_is_own_buffer (plan, i) == own)
      size += g_array_index (plan->buffers, RlxBuffer, i).size;
  return size;
}

/**
 * rlx_executable_get_arena_size: (get-property arena-size)
 * @self: an executable
 *
 * Gets how much device memory activations take.
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
 * Gets how much device memory weights take.
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
 * rlx_executable_get_profiling: (get-property profiling)
 * @self: an executable
 *
 * Whether runs are timed kernel by kernel.
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
 * [method@Rlx.Executable.get_profile].
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
 * rlx_executable_get_profile:
 * @self: an executable
 *
 * Gets the profile of the last run that was timed.
 *
 * Returns: (transfer full) (nullable): the profile, or %NULL when no run was
 *   timed yet
 *
 * Since: 1.0
 */
RlxProfile *
rlx_executable_get_profile (RlxExecutable *self)
{
  RlxProfile *profile;

  g_return_val_if_fail (rlx_executable_is_compiled (self), NULL);

  g_mutex_lock (&self->mutex);
  profile = self->profile ? g_object_ref (self->profile) : NULL;
  g_mutex_unlock (&self->mutex);
  return profile;
}
