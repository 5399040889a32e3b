/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-device-private.h"
#include "rlx-program-private.h"
#include "rlx-run-private.h"

#include <string.h>

#include "rlx-tensor-private.h"
#include "rlx-upload-private.h"
#include "util/rlx-debug-private.h"
#include "util/rlx-mark-private.h"

/**
 * RlxExecutable:
 *
 * A graph, compiled for a device.
 *
 * All preparation happened in [method@Rlx.Device.compile]: running uploads the
 * inputs, starts the kernels, waits, and brings back the outputs.
 *
 * An executable is thread-safe. Runs of one executable, and of all executables
 * of a device, queue up one behind the other. [method@Rlx.Executable.fork]
 * gives a second executable with memory of its own that shares the weights.
 *
 * Since: 1.0
 */

struct _RlxExecutable
{
  GObject parent_instance;

  RlxDevice *device;
  RlxProgram *shared;
  RlxGpuBuffer **own;            /* by plan buffer; NULL where shared */
  GPtrArray *groups;             /* RlxGpuBindGroup: steps that bind the same share one */
  RlxProgramFork fork;
  RlxGpuCopy *copies;
  guint64 *times;                /* by main step, while profiling */

  int profiling;                 /* atomic */
  GMutex mutex;
  RlxProfile *profile;           /* under the mutex */
};

enum
{
  PROP_0,
  PROP_ARENA_SIZE,
  PROP_DEVICE,
  PROP_ESTIMATE,
  PROP_N_DISPATCHES,
  PROP_PROFILING,
  PROP_WEIGHTS_SIZE,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

G_DEFINE_FINAL_TYPE (RlxExecutable, rlx_executable, G_TYPE_OBJECT)

static RlxGpuBuffer *
get_buffer (RlxExecutable *self,
            guint          index)
{
  return self->own[index] ? self->own[index] : self->shared->buffers[index];
}

/* ---- construction ----------------------------------------------------------------- */

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
            get_buffer (self, rlx_plan_get_slot (plan, binding->slot)->buffer),
            rlx_plan_get_slot (plan, binding->slot)->offset + binding->offset,
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
        rlx_step_estimate (step, &shared->figures),
      };
    }

  for (guint i = 0; i < plan->copies->len; i++)
    {
      const RlxSlotCopy *copy = &g_array_index (plan->copies, RlxSlotCopy, i);
      const RlxSlot *source = rlx_plan_get_slot (plan, copy->source), *target = rlx_plan_get_slot (plan, copy->target);

      self->copies[i] = (RlxGpuCopy) {
        get_buffer (self, source->buffer), source->offset,
        get_buffer (self, target->buffer), target->offset, target->size,
      };
    }
  return TRUE;
}

static gboolean
upload_states (RlxExecutable *self,
               GError       **error)
{
  const RlxPlan *plan = self->shared->plan;

  for (guint i = 0; i < plan->states->len; i++)
    {
      const RlxPort *state = &g_array_index (plan->states, RlxPort, i);
      const RlxSlot *slot = rlx_plan_get_slot (plan, state->slot);

      if (!rlx_upload_tensor (self->shared->gpu, get_buffer (self, slot->buffer), slot, state->name, slot->leaf->data, error))
        return FALSE;
    }
  return TRUE;
}

/* The part that belongs to one executable alone. */
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
  self->groups = g_ptr_array_new_with_free_func ((GDestroyNotify) rlx_gpu_bind_group_free);
  self->fork.dispatches = g_new0 (RlxGpuDispatch, plan->steps->len + 1);
  self->fork.running = g_new0 (RlxGpuDispatch, plan->steps->len + 1);
  self->copies = g_new0 (RlxGpuCopy, plan->copies->len + 1);
  self->times = g_new0 (guint64, plan->steps->len + 1);

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

/* Computes what depends on constants and parameters alone, when one of these is
 * new. On the device thread. */
static gboolean
run_prologue (RlxExecutable *self,
              GCancellable  *cancellable,
              GError       **error)
{
  RlxGpuJob job = {
    .dispatches = self->fork.dispatches,
    .n_dispatches = self->shared->plan->n_prologue,
  };

  if (!self->shared->stale)
    return TRUE;
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

  call->ok = run_prologue (call->self, call->cancellable, call->error);
}

RlxExecutable *
rlx_executable_new (RlxDevice           *device,
                    RlxPlan             *plan,
                    const RlxGpuFigures *figures,
                    GCancellable        *cancellable,
                    GError             **error)
{
  RlxProgram *shared = rlx_program_new (rlx_device_get_gpu (device), plan, figures, cancellable, error);
  g_autoptr(RlxExecutable) self = shared ? executable_new (device, shared, error) : NULL;

  if (self == NULL)
    return NULL;
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

/**
 * rlx_executable_fork:
 * @self: an executable
 * @error: return location for an error
 *
 * Makes an executable that shares the weights of this one and has activation
 * memory and states of its own.
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
                     GError       **error)
{
  g_return_val_if_fail (rlx_executable_is_compiled (self), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  g_atomic_ref_count_inc (&self->shared->ref_count);
  return executable_new (self->device, self->shared, error);
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
      for (guint i = 0; i < self->shared->plan->buffers->len; i++)
        g_clear_pointer (&self->own[i], rlx_gpu_buffer_free);
      rlx_program_unref (self->shared);
    }
  g_free (self->own);
  g_free (self->fork.dispatches);
  g_free (self->fork.running);
  g_free (self->copies);
  g_free (self->times);
  g_clear_object (&self->profile);
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
    case PROP_PROFILING:
      g_value_set_boolean (value, rlx_executable_get_profiling (self));
      break;
    case PROP_WEIGHTS_SIZE:
      g_value_set_uint64 (value, rlx_executable_get_weights_size (self));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
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
   * Bytes of device memory for activations, inputs included.
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
   * How many seconds a run may take, from the size of the work and what is
   * known of the device.
   *
   * Since: 1.0
   */
  properties[PROP_ESTIMATE] = g_param_spec_double ("estimate", NULL, NULL, 0, G_MAXDOUBLE, 0, flags);
  /**
   * RlxExecutable:n-dispatches:
   *
   * The number of kernels a run starts.
   *
   * Since: 1.0
   */
  properties[PROP_N_DISPATCHES] = g_param_spec_uint ("n-dispatches", NULL, NULL, 0, G_MAXUINT, 0, flags);
  /**
   * RlxExecutable:profiling:
   *
   * Whether runs are timed kernel by kernel; slower.
   *
   * Since: 1.0
   */
  properties[PROP_PROFILING] = g_param_spec_boolean ("profiling", NULL, NULL, FALSE, flags | G_PARAM_WRITABLE);
  /**
   * RlxExecutable:weights-size:
   *
   * Bytes of device memory for constants, parameters and what is computed from
   * them once.
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
}

/* ---- running ------------------------------------------------------------------------ */

static gboolean
check_port (const RlxPort *port,
            const char    *what,
            RlxTensor     *tensor,
            GError       **error)
{
  RlxTensorType type = { .dtype = rlx_tensor_get_data_type (tensor) };
  gsize n_dims;
  const gint64 *shape = rlx_tensor_get_shape (tensor, &n_dims);
  g_autofree char *got = NULL, *want = NULL;

  type.rank = (guint) n_dims;
  memcpy (type.dims, shape, n_dims * sizeof (gint64));
  if (rlx_type_equal (&type, &port->type))
    return TRUE;

  got = rlx_type_to_string (&type);
  want = rlx_type_to_string (&port->type);
  g_set_error (error, RLX_GRAPH_ERROR,
               type.dtype != port->type.dtype ? RLX_GRAPH_ERROR_DATA_TYPE : RLX_GRAPH_ERROR_SHAPE,
               "%s “%s” is %s, the graph declares %s", what, port->name, got, want);
  return FALSE;
}

/* The caller's part of a run, before it is queued: inputs are checked and
 * brought into the form the device stores. */
RlxRun *
rlx_run_new (RlxExecutable *self,
             RlxTensor    **inputs,
             gsize          n_inputs,
             GCancellable  *cancellable,
             GError       **error)
{
  const RlxPlan *plan = self->shared->plan;
  g_autoptr(RlxRun) run = g_new0 (RlxRun, 1);

  g_atomic_ref_count_init (&run->ref_count);
  run->executable = g_object_ref (self);
  run->cancellable = cancellable ? g_object_ref (cancellable) : NULL;
  run->inputs = g_ptr_array_new_with_free_func ((GDestroyNotify) g_bytes_unref);
  g_mutex_init (&run->mutex);
  g_cond_init (&run->cond);

  if (n_inputs != plan->inputs->len)
    {
      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                   "the graph has %u inputs, %" G_GSIZE_FORMAT " were given", plan->inputs->len, n_inputs);
      return NULL;
    }
  for (gsize i = 0; i < n_inputs; i++)
    {
      const RlxPort *port = &g_array_index (plan->inputs, RlxPort, i);
      GBytes *bytes;

      if (!RLX_IS_TENSOR (inputs[i]))
        {
          g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "input “%s” is not a tensor", port->name);
          return NULL;
        }
      if (!check_port (port, "input", inputs[i], error) ||
          (bytes = rlx_tensor_to_device (inputs[i], port->name, error)) == NULL)
        return NULL;
      g_ptr_array_add (run->inputs, bytes);
    }
  return g_steal_pointer (&run);
}

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

/* On the device thread. */
GPtrArray *
rlx_run_execute (RlxRun  *run,
                 GError **error)
{
  RlxExecutable *self = run->executable;
  const RlxPlan *plan = self->shared->plan;
  g_autofree RlxGpuUpload *uploads = g_new0 (RlxGpuUpload, plan->inputs->len + 1);
  g_autofree RlxGpuDownload *downloads = g_new0 (RlxGpuDownload, plan->outputs->len + 1);
  g_autoptr(GPtrArray) data = g_ptr_array_new_with_free_func (g_free);
  g_autoptr(GPtrArray) outputs = g_ptr_array_new_with_free_func (g_object_unref);
  gboolean profiling = g_atomic_int_get (&self->profiling) != 0;
  gboolean timed = profiling && (rlx_gpu_get_info (self->shared->gpu)->features & RLX_DEVICE_FEATURES_TIMESTAMPS);
  gint64 start = g_get_monotonic_time ();
  RlxGpuJob job = {
    .uploads = uploads,
    .dispatches = self->fork.running,
    .n_dispatches = self->shared->n_steps,
    .copies = self->copies,
    .n_copies = plan->copies->len,
    .downloads = downloads,
    .dispatch_ns = timed ? self->times : NULL,
  };

  if (g_cancellable_set_error_if_cancelled (run->cancellable, error) || !check_parameters (self, error) ||
      !run_prologue (self, run->cancellable, error))
    return NULL;

  for (guint i = 0; i < plan->inputs->len; i++)
    {
      const RlxSlot *slot = rlx_plan_get_slot (plan, g_array_index (plan->inputs, RlxPort, i).slot);
      gsize size;
      gconstpointer bytes = g_bytes_get_data (g_ptr_array_index (run->inputs, i), &size);

      if (size > 0)
        uploads[job.n_uploads++] = (RlxGpuUpload) { get_buffer (self, slot->buffer), slot->offset, bytes, size };
    }
  for (guint i = 0; i < plan->outputs->len; i++)
    {
      const RlxPort *port = &g_array_index (plan->outputs, RlxPort, i);
      const RlxSlot *slot = rlx_plan_get_slot (plan, port->slot);
      gsize size = rlx_type_n_device_bytes (&port->type);
      gpointer bytes = size > 0 ? g_try_malloc (size) : NULL;

      if (size > 0 && bytes == NULL)
        {
          g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_LIMIT,
                       "no memory for output “%s” of %" G_GSIZE_FORMAT " bytes", port->name, size);
          return NULL;
        }
      g_ptr_array_add (data, bytes);
      if (size > 0)
        downloads[job.n_downloads++] = (RlxGpuDownload) { get_buffer (self, slot->buffer), slot->offset, size, bytes };
    }

  {
    RLX_MARK_BEGIN (run);
    gboolean executed = rlx_gpu_execute (self->shared->gpu, &job, run->cancellable, error);

    RLX_MARK_END (run, "%u dispatches", job.n_dispatches);
    if (!executed)
      return NULL;
  }

  for (guint i = 0; i < plan->outputs->len; i++)
    {
      const RlxPort *port = &g_array_index (plan->outputs, RlxPort, i);
      RlxTensor *tensor = rlx_tensor_new_from_device (port->type.dtype, port->type.dims, port->type.rank,
                                                      g_steal_pointer (&g_ptr_array_index (data, i)), error);

      if (tensor == NULL)
        return NULL;
      g_ptr_array_add (outputs, tensor);
    }
  if (profiling)
    keep_profile (self, timed, start);
  return g_steal_pointer (&outputs);
}

RlxGpu *
rlx_run_get_gpu (RlxRun *run)
{
  return run->executable->shared->gpu;
}

/* ---- parameters and states ------------------------------------------------------------ */

static const RlxPort *
find_port (const GArray *ports,
           const char   *what,
           const char   *name,
           guint        *index,
           GError      **error)
{
  g_autofree char *quoted = NULL;

  for (guint i = 0; i < ports->len; i++)
    if (g_strcmp0 (g_array_index (ports, RlxPort, i).name, name) == 0)
      {
        if (index != NULL)
          *index = i;
        return &g_array_index (ports, RlxPort, i);
      }
  quoted = rlx_quote_text (name ? name : "(null)", -1);
  g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_NOT_FOUND, "the graph has no %s %s", what, quoted);
  return NULL;
}

gboolean
rlx_executable_order_inputs (RlxExecutable      *self,
                             const char *const  *names,
                             RlxTensor         **inputs,
                             gsize               n_inputs,
                             RlxTensor         **ordered,
                             GError            **error)
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
      if (find_port (ports, "input", names[i], &index, error) == NULL)
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

      call->ok = rlx_upload_slot (gpu, get_buffer (self, slot->buffer), slot, g_ptr_array_index (call->bytes, i), call->error);
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

      found[i] = find_port (ports, what, names[i], NULL, error);
      if (found[i] == NULL)
        return FALSE;
      if (!RLX_IS_TENSOR (values[i]))
        {
          g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "the value of %s “%s” is not a tensor", what, names[i]);
          return FALSE;
        }
      if (!check_port (found[i], what, values[i], error) ||
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

  port = find_port (self->shared->plan->states, "state", name, NULL, error);
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
      call = (ReadCall) { self, { get_buffer (self, slot->buffer), slot->offset, size, bytes }, cancellable, error, FALSE };
      rlx_gpu_invoke_sync (self->shared->gpu, read_call, &call);
      if (!call.ok)
        return NULL;
    }
  return rlx_tensor_new_from_device (port->type.dtype, port->type.dims, port->type.rank, g_steal_pointer (&bytes), error);
}

/* ---- looking inside ------------------------------------------------------------------- */

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
    g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_PROFILING]);
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
