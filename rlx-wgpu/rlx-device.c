/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-device-private.h"

#include "passes/rlx-passes-private.h"
#include "rlx-adapter-private.h"
#include "rlx-adapter.h"
#include "rlx-calibration-private.h"
#include "rlx-enum-types.h"
#include "rlx-graph-private.h"
#include "rlx-tuning-private.h"
#include "util/rlx-debug-private.h"
#include "util/rlx-mark-private.h"

/**
 * RlxDevice:
 *
 * A GPU, opened for computing.
 *
 * Most programs use [func@Rlx.Device.get_default], which opens the best adapter
 * of the system (a discrete GPU before an integrated one before a driver that
 * computes on the CPU) and is shared by everything in the process. The
 * environment variable `RLX_DEVICE` overrides the choice; see
 * [func@Rlx.Device.open] for what it may say.
 *
 * A device is thread-safe. It never falls back to computing on the host: a
 * graph it cannot run is refused by [method@Rlx.Device.compile].
 *
 * Since: 1.0
 */
struct _RlxDevice
{
  GObject parent_instance;

  RlxGpu *gpu;
  RlxAdapter *adapter;
  GMainContext *context;   /* where signals are emitted */

  GMutex mutex;
  RlxCalibration *calibration;   /* under the mutex, nullable */
  RlxMatrixProbe matrix;

  int tunes;                     /* atomic */
  GMutex tuning_mutex;           /* one tunes at a time */
  RlxTuning *tuning;             /* under the tuning mutex, NULL until it is wanted */
};

enum
{
  PROP_0,
  PROP_ADAPTER,
  PROP_CALIBRATION,
  PROP_FEATURES,
  PROP_LOST,
  PROP_MEMORY_LIMIT,
  PROP_MEMORY_USED,
  PROP_TUNING,
  N_PROPS
};

enum
{
  CALIBRATING,
  LOST,
  N_SIGNALS
};

static GParamSpec *properties[N_PROPS];
static guint signals[N_SIGNALS];

G_DEFINE_FINAL_TYPE (RlxDevice, rlx_device, G_TYPE_OBJECT)

static void
rlx_device_finalize (GObject *object)
{
  RlxDevice *self = RLX_DEVICE (object);

  g_clear_pointer (&self->gpu, rlx_gpu_unref);
  g_clear_object (&self->adapter);
  g_clear_object (&self->calibration);
  g_mutex_clear (&self->mutex);
  g_mutex_clear (&self->matrix.mutex);
  g_clear_pointer (&self->tuning, rlx_tuning_free);
  g_mutex_clear (&self->tuning_mutex);
  g_clear_pointer (&self->context, g_main_context_unref);

  G_OBJECT_CLASS (rlx_device_parent_class)->finalize (object);
}

static void
rlx_device_get_property (GObject    *object,
                         guint       id,
                         GValue     *value,
                         GParamSpec *pspec)
{
  RlxDevice *self = RLX_DEVICE (object);

  switch (id)
    {
    case PROP_ADAPTER:
      g_value_set_object (value, self->adapter);
      break;
    case PROP_CALIBRATION:
      g_value_take_object (value, rlx_device_get_calibration (self));
      break;
    case PROP_FEATURES:
      g_value_set_flags (value, rlx_device_get_features (self));
      break;
    case PROP_LOST:
      g_value_set_boolean (value, rlx_device_get_lost (self));
      break;
    case PROP_MEMORY_LIMIT:
      g_value_set_uint64 (value, rlx_device_get_memory_limit (self));
      break;
    case PROP_MEMORY_USED:
      g_value_set_uint64 (value, rlx_device_get_memory_used (self));
      break;
    case PROP_TUNING:
      g_value_set_boolean (value, rlx_device_get_tuning (self));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
rlx_device_set_property (GObject      *object,
                         guint         id,
                         const GValue *value,
                         GParamSpec   *pspec)
{
  switch (id)
    {
    case PROP_TUNING:
      rlx_device_set_tuning (RLX_DEVICE (object), g_value_get_boolean (value));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
rlx_device_class_init (RlxDeviceClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->finalize = rlx_device_finalize;
  object_class->get_property = rlx_device_get_property;
  object_class->set_property = rlx_device_set_property;

  /**
   * RlxDevice:adapter:
   *
   * The adapter the device was opened on.
   *
   * Since: 1.0
   */
  properties[PROP_ADAPTER] = g_param_spec_object ("adapter", NULL, NULL, RLX_TYPE_ADAPTER, flags);
  /**
   * RlxDevice:calibration:
   *
   * What was measured of the device, or %NULL if nothing was.
   *
   * It is looked up when the device is opened, and new after
   * [method@Rlx.Device.calibrate]. The notification is emitted in the main
   * context that was the thread-default one where the device was opened.
   *
   * Since: 1.0
   */
  properties[PROP_CALIBRATION] = g_param_spec_object ("calibration", NULL, NULL, RLX_TYPE_CALIBRATION, flags);
  /**
   * RlxDevice:features:
   *
   * What the device is used with: features of the adapter that passed the
   * known-answer check and were not switched off.
   *
   * Since: 1.0
   */
  properties[PROP_FEATURES] = g_param_spec_flags ("features", NULL, NULL, RLX_TYPE_DEVICE_FEATURES, 0, flags);
  /**
   * RlxDevice:lost:
   *
   * Whether the device is gone: unplugged, reset by the driver, or hung.
   *
   * Everything that is asked of a lost device fails with
   * %RLX_DEVICE_ERROR_LOST. Open a new one to go on.
   *
   * Since: 1.0
   */
  properties[PROP_LOST] = g_param_spec_boolean ("lost", NULL, NULL, FALSE, flags);
  /**
   * RlxDevice:memory-limit:
   *
   * Bytes of device memory this library allows itself.
   *
   * Since: 1.0
   */
  properties[PROP_MEMORY_LIMIT] = g_param_spec_uint64 ("memory-limit", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * RlxDevice:memory-used:
   *
   * Bytes of device memory in use; no notification is emitted.
   *
   * Since: 1.0
   */
  properties[PROP_MEMORY_USED] = g_param_spec_uint64 ("memory-used", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * RlxDevice:tuning:
   *
   * Whether [method@Rlx.Device.compile] measures which kernels are fastest for the
   * matrices of a graph; see [method@Rlx.Device.set_tuning].
   *
   * Since: 1.0
   */
  properties[PROP_TUNING] = g_param_spec_boolean ("tuning", NULL, NULL, FALSE, flags | G_PARAM_WRITABLE);
  g_object_class_install_properties (object_class, N_PROPS, properties);

  /**
   * RlxDevice::calibrating:
   * @self: the device
   * @fraction: how much of it is done, from 0 to 1
   * @what: what is measured now, in English, for people
   *
   * A calibration of the device goes on.
   *
   * Emitted several times by [method@Rlx.Device.calibrate_async], with 0 first,
   * never with less than before, and with 1 just before its end if it succeeds. As
   * a signal it takes no second callback with data of its own, which not all
   * languages can give to an asynchronous call, and whoever wants to show the
   * progress need not be the one who began it.
   *
   * It is emitted in the main context that was the thread-default one where the
   * device was opened. A main loop that stands still during
   * [method@Rlx.Device.calibrate] gets it late.
   *
   * Since: 1.0
   */
  signals[CALIBRATING] = g_signal_new ("calibrating", RLX_TYPE_DEVICE, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                                       G_TYPE_NONE, 2, G_TYPE_DOUBLE, G_TYPE_STRING);
  /**
   * RlxDevice::lost:
   * @self: the device
   * @reason: what the driver said
   *
   * The device was lost.
   *
   * Emitted at most once, in the main context that was the thread-default one
   * where the device was opened.
   *
   * Since: 1.0
   */
  signals[LOST] = g_signal_new ("lost", RLX_TYPE_DEVICE, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                                G_TYPE_NONE, 1, G_TYPE_STRING);
}

static void
rlx_device_init (RlxDevice *self)
{
  self->context = g_main_context_ref_thread_default ();
  g_mutex_init (&self->mutex);
  g_mutex_init (&self->matrix.mutex);
  g_mutex_init (&self->tuning_mutex);
}

/* ---- told on any thread, emitted in the owner's context --------------------- */

typedef struct
{
  GWeakRef device;         /* nobody may ever run the main context */
  char *text;
  double fraction;
} Notice;

static void
notice_free (gpointer data)
{
  Notice *notice = data;

  g_weak_ref_clear (&notice->device);
  g_free (notice->text);
  g_free (notice);
}

static void
notice_post (RlxDevice  *self,
             GSourceFunc func,
             int         priority,
             const char *text,
             double      fraction)
{
  Notice *notice = g_new0 (Notice, 1);
  g_autoptr(GSource) source = g_idle_source_new ();

  g_weak_ref_init (&notice->device, self);
  notice->text = g_strdup (text);
  notice->fraction = fraction;
  g_source_set_callback (source, func, notice, notice_free);
  g_source_set_priority (source, priority);
  g_source_attach (source, self->context);
}

static gboolean
emit_lost (gpointer data)
{
  Notice *notice = data;
  g_autoptr(RlxDevice) self = g_weak_ref_get (&notice->device);

  if (self != NULL)
    {
      g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_LOST]);
      g_signal_emit (self, signals[LOST], 0, notice->text);
    }
  return G_SOURCE_REMOVE;
}

static void
on_lost (const char *reason,
         gpointer    user_data)
{
  GWeakRef *weak = user_data;
  g_autoptr(RlxDevice) self = g_weak_ref_get (weak);

  if (self != NULL)
    notice_post (self, emit_lost, G_PRIORITY_DEFAULT_IDLE, reason, 0.0);
}

static void
free_weak (gpointer data)
{
  g_weak_ref_clear (data);
  g_free (data);
}

/* ---- opening ------------------------------------------------------------------ */

static RlxDevice *
device_open (RlxGpuAdapterInfo *info,
             GError           **error)
{
  g_autoptr(RlxGpu) gpu = rlx_gpu_open (info, error);
  RlxDevice *self;
  GWeakRef *weak;

  if (gpu == NULL)
    return NULL;
  self = g_object_new (RLX_TYPE_DEVICE, NULL);
  self->gpu = g_steal_pointer (&gpu);
  self->adapter = rlx_adapter_new ((RlxGpuAdapterInfo *) rlx_gpu_get_info (self->gpu));
  self->calibration = rlx_calibration_load (rlx_gpu_get_info (self->gpu));
  weak = g_new0 (GWeakRef, 1);
  g_weak_ref_init (weak, self);
  rlx_gpu_set_lost_func (self->gpu, on_lost, weak, free_weak);
  return self;
}

/**
 * rlx_device_open:
 * @selector: (nullable): which adapter, or %NULL for the default choice
 * @error: return location for an error
 *
 * Opens a device.
 *
 * @selector is a kind (`discrete`, `integrated`, `cpu`, or `gpu` for anything
 * but the CPU), a number in the list of [func@Rlx.Adapter.list], or a part of
 * the adapter's name in any case. With %NULL the environment variable
 * `RLX_DEVICE` is looked at in the same way, and without it the best adapter is
 * taken. `WGPU_BACKEND` (`vulkan`, `metal`, `d3d12`) limits the choice.
 *
 * Every call opens a device of its own; see [func@Rlx.Device.get_default] for
 * the shared one.
 *
 * Returns: (transfer full): a new device
 *
 * Since: 1.0
 */
RlxDevice *
rlx_device_open (const char *selector,
                 GError    **error)
{
  g_autoptr(RlxGpuAdapterInfo) info = NULL;

  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  info = rlx_gpu_select_adapter (selector, error);
  return info ? device_open (info, error) : NULL;
}

/**
 * rlx_device_new_for_adapter:
 * @adapter: an adapter
 * @error: return location for an error
 *
 * Opens a device on an adapter of [func@Rlx.Adapter.list].
 *
 * Returns: (transfer full): a new device
 *
 * Since: 1.0
 */
RlxDevice *
rlx_device_new_for_adapter (RlxAdapter *adapter,
                            GError    **error)
{
  g_return_val_if_fail (RLX_IS_ADAPTER (adapter), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  return device_open (rlx_adapter_get_info (adapter), error);
}

/**
 * rlx_device_get_default:
 * @error: return location for an error
 *
 * Gets the device that everything in this process shares.
 *
 * It is opened by the first call and closed when nobody holds it any more.
 * When it was lost, a new one is opened.
 *
 * Returns: (transfer full): the default device
 *
 * Since: 1.0
 */
RlxDevice *
rlx_device_get_default (GError **error)
{
  static GMutex mutex;
  static GWeakRef shared;
  RlxDevice *self;

  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  g_mutex_lock (&mutex);
  self = g_weak_ref_get (&shared);
  if (self != NULL && rlx_gpu_is_lost (self->gpu))
    g_clear_object (&self);
  if (self == NULL)
    {
      self = rlx_device_open (NULL, error);
      g_weak_ref_set (&shared, self);
    }
  g_mutex_unlock (&mutex);
  return self;
}

/**
 * rlx_device_is_available:
 *
 * Whether there is an adapter that [func@Rlx.Device.get_default] could open.
 *
 * Returns: %TRUE if there is one
 *
 * Since: 1.0
 */
gboolean
rlx_device_is_available (void)
{
  g_autoptr(RlxGpuAdapterInfo) info = rlx_gpu_select_adapter (NULL, NULL);

  return info != NULL;
}

/* ---- compiling ----------------------------------------------------------------- */

static void
get_figures (RlxDevice     *self,
             RlxGpuFigures *figures)
{
  g_autoptr(RlxCalibration) calibration = rlx_device_get_calibration (self);

  if (calibration != NULL)
    *figures = *rlx_calibration_get_figures (calibration);
  else
    rlx_figures_guess (figures, rlx_gpu_get_info (self->gpu)->type);
}

static RlxPlan *
make_plan (const RlxIr             *ir,
           const RlxGpuAdapterInfo *info,
           GCancellable            *cancellable,
           GError                 **error)
{
  RlxIr *fused = rlx_run_passes (ir, info, error);
  g_autoptr(RlxPlan) plan = fused != NULL ? rlx_plan_new (fused, info, cancellable, error) : NULL;

  if (plan == NULL || (RLX_DEBUG_CHECK (VALIDATE) && !rlx_plan_verify (plan, error)))
    return NULL;
  return g_steal_pointer (&plan);
}

/* The plan tells which products there are. Once those that matter were measured it
 * is made again. */
static RlxPlan *
make_tuned_plan (RlxDevice               *self,
                 const RlxIr             *ir,
                 const RlxGpuAdapterInfo *seen,
                 GCancellable            *cancellable,
                 GError                 **error)
{
  RlxGpuAdapterInfo tuned = *seen, *info = &tuned;
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new (&self->tuning_mutex);
  g_autoptr(RlxPlan) plan = NULL;
  double seconds = 0.0;
  guint n_measured = 0;
  gboolean measured;

  if (self->tuning == NULL)
    self->tuning = rlx_tuning_load (info);
  info->tuning = self->tuning;
  plan = make_plan (ir, info, cancellable, error);
  if (plan != NULL)
    for (guint i = plan->n_prologue; i < plan->steps->len; i++)
      seconds += rlx_step_estimate (g_ptr_array_index (plan->steps, i), &info->figures);

  measured = plan != NULL && rlx_tuning_measure (self->tuning, self, &info->figures, seconds, &n_measured, cancellable, error);
  if (n_measured > 0)
    {
      rlx_tuning_store (self->tuning, info);
      g_clear_pointer (&plan, rlx_plan_free);
      if (measured)
        plan = make_plan (ir, info, cancellable, error);
    }
  return measured ? g_steal_pointer (&plan) : NULL;
}

static RlxExecutable *
compile_ir (RlxDevice               *self,
            const RlxIr             *ir,
            const RlxGpuAdapterInfo *info,
            gboolean                 tune,
            GCancellable            *cancellable,
            GError                 **error)
{
  gint64 start = g_get_monotonic_time ();
  RlxExecutable *executable;
  RlxPlan *plan;
  RLX_MARK_BEGIN (compile);

  if (g_cancellable_set_error_if_cancelled (cancellable, error) || !rlx_gpu_check_lost (self->gpu, error))
    return NULL;

  plan = tune ? make_tuned_plan (self, ir, info, cancellable, error) : make_plan (ir, info, cancellable, error);
  if (plan == NULL)
    return NULL;
  RLX_NOTE (COMPILE, "%u nodes, after passes %u, %u steps, planned in %.2f ms",
            ir->nodes->len, plan->ir->nodes->len, plan->steps->len, (double) (g_get_monotonic_time () - start) * 1e-3);
  executable = rlx_executable_new (self, plan, &info->figures, cancellable, error);
  RLX_MARK_END (compile, "%u nodes", ir->nodes->len);
  RLX_NOTE (COMPILE, "compiled in %.2f ms", (double) (g_get_monotonic_time () - start) * 1e-3);
  return executable;
}

/* The graph's own errors, then the things that only a whole graph can lack. */
static const RlxIr *
check_graph (RlxGraph *graph,
             GError  **error)
{
  const RlxIr *ir = rlx_graph_freeze (graph, error);

  if (ir != NULL && ir->outputs->len == 0 && ir->assigns->len == 0)
    {
      g_set_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_INVALID_GRAPH,
                   "the graph has no output: name at least one with rlx_graph_output()");
      return NULL;
    }
  return ir;
}

RlxExecutable *
rlx_device_compile_for (RlxDevice           *self,
                        RlxGraph            *graph,
                        const RlxGpuFigures *figures,
                        GCancellable        *cancellable,
                        GError             **error)
{
  RlxGpuAdapterInfo seen = *rlx_gpu_get_info (self->gpu);
  const RlxIr *ir = check_graph (graph, error);
  RlxGpuMatrixConfig config;
  gboolean has_matrix = FALSE;

  if (ir == NULL)
    return NULL;
  if (ir->precision == RLX_PRECISION_REDUCED && !rlx_device_find_matrix (self, &config, &has_matrix, cancellable, error))
    return NULL;
  seen.matrix_configs = &config;
  seen.n_matrix_configs = has_matrix ? 1 : 0;
  if (figures != NULL)
    seen.figures = *figures;
  else
    get_figures (self, &seen.figures);
  /* Figures that are given are for one way to be measured. */
  return compile_ir (self, ir, &seen, figures == NULL && rlx_device_get_tuning (self), cancellable, error);
}

RlxExecutable *
rlx_device_compile_seen (RlxDevice               *self,
                         RlxGraph                *graph,
                         const RlxGpuAdapterInfo *seen,
                         GCancellable            *cancellable,
                         GError                 **error)
{
  const RlxIr *ir = check_graph (graph, error);

  return ir ? compile_ir (self, ir, seen, FALSE, cancellable, error) : NULL;
}

RlxMatrixProbe *
rlx_device_get_matrix_probe (RlxDevice *self)
{
  return &self->matrix;
}

/**
 * rlx_device_compile:
 * @self: a device
 * @graph: a graph
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Compiles a graph for this device.
 *
 * The first error made while building the graph is reported here if it was
 * not looked at before. A compiled graph can be compiled again, but not changed
 * any more.
 *
 * Returns: (transfer full): the compiled graph
 *
 * Since: 1.0
 */
RlxExecutable *
rlx_device_compile (RlxDevice    *self,
                    RlxGraph     *graph,
                    GCancellable *cancellable,
                    GError      **error)
{
  g_return_val_if_fail (RLX_IS_DEVICE (self) && self->gpu != NULL, NULL);
  g_return_val_if_fail (RLX_IS_GRAPH (graph), NULL);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  return rlx_device_compile_for (self, graph, NULL, cancellable, error);
}

static void
compile_thread (GTask        *task,
                gpointer      source,
                gpointer      data,
                GCancellable *cancellable)
{
  GError *error = NULL;
  /* a frozen graph does not change, so reading it here is safe */
  RlxExecutable *executable = rlx_device_compile_for (RLX_DEVICE (source), RLX_GRAPH (data), NULL, cancellable, &error);

  if (executable != NULL)
    g_task_return_pointer (task, executable, g_object_unref);
  else
    g_task_return_error (task, error);
}

/**
 * rlx_device_compile_async:
 * @self: a device
 * @graph: a graph
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the graph is compiled
 * @user_data: data for @callback
 *
 * Compiles a graph for this device in another thread.
 *
 * The graph cannot be changed from here on.
 *
 * Since: 1.0
 */
void
rlx_device_compile_async (RlxDevice          *self,
                          RlxGraph           *graph,
                          GCancellable       *cancellable,
                          GAsyncReadyCallback callback,
                          gpointer            user_data)
{
  g_autoptr(GTask) task = NULL;
  GError *error = NULL;

  g_return_if_fail (RLX_IS_DEVICE (self) && self->gpu != NULL);
  g_return_if_fail (RLX_IS_GRAPH (graph));
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  task = g_task_new (self, cancellable, callback, user_data);
  g_task_set_source_tag (task, rlx_device_compile_async);
  /* freeze in the thread that owns the graph */
  if (check_graph (graph, &error) == NULL)
    {
      g_task_return_error (task, error);
      return;
    }
  g_task_set_task_data (task, g_object_ref (graph), g_object_unref);
  g_task_run_in_thread (task, compile_thread);
}

/**
 * rlx_device_compile_finish:
 * @self: a device
 * @result: the result given to the callback
 * @error: return location for an error
 *
 * Ends what [method@Rlx.Device.compile_async] began.
 *
 * Returns: (transfer full): the compiled graph
 *
 * Since: 1.0
 */
RlxExecutable *
rlx_device_compile_finish (RlxDevice    *self,
                           GAsyncResult *result,
                           GError      **error)
{
  g_return_val_if_fail (RLX_IS_DEVICE (self), NULL);
  g_return_val_if_fail (g_task_is_valid (result, self), NULL);

  return g_task_propagate_pointer (G_TASK (result), error);
}

/* ---- getters -------------------------------------------------------------------- */

RlxGpu *
rlx_device_get_gpu (RlxDevice *self)
{
  return self->gpu;
}

/**
 * rlx_device_get_adapter: (get-property adapter)
 * @self: a device
 *
 * Gets the adapter the device was opened on.
 *
 * Returns: (transfer none): the adapter
 *
 * Since: 1.0
 */
RlxAdapter *
rlx_device_get_adapter (RlxDevice *self)
{
  g_return_val_if_fail (RLX_IS_DEVICE (self), NULL);

  return self->adapter;
}

/**
 * rlx_device_get_calibration: (get-property calibration)
 * @self: a device
 *
 * Gets what was measured of the device.
 *
 * Returns: (transfer full) (nullable): the calibration, or %NULL if the device
 *   was never calibrated
 *
 * Since: 1.0
 */
RlxCalibration *
rlx_device_get_calibration (RlxDevice *self)
{
  RlxCalibration *calibration;

  g_return_val_if_fail (RLX_IS_DEVICE (self), NULL);

  g_mutex_lock (&self->mutex);
  calibration = self->calibration ? g_object_ref (self->calibration) : NULL;
  g_mutex_unlock (&self->mutex);
  return calibration;
}

static gboolean
notify_calibration (gpointer data)
{
  Notice *notice = data;
  g_autoptr(RlxDevice) self = g_weak_ref_get (&notice->device);

  if (self != NULL)
    g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_CALIBRATION]);
  return G_SOURCE_REMOVE;
}

void
rlx_device_set_calibration (RlxDevice      *self,
                            RlxCalibration *calibration)
{
  g_mutex_lock (&self->mutex);
  g_set_object (&self->calibration, calibration);
  g_mutex_unlock (&self->mutex);

  /* before the answer of an asynchronous call */
  notice_post (self, notify_calibration, G_PRIORITY_DEFAULT, NULL, 0.0);
}

static gboolean
emit_calibrating (gpointer data)
{
  Notice *notice = data;
  g_autoptr(RlxDevice) self = g_weak_ref_get (&notice->device);

  if (self != NULL)
    g_signal_emit (self, signals[CALIBRATING], 0, notice->fraction, notice->text);
  return G_SOURCE_REMOVE;
}

void
rlx_device_tell_calibrating (RlxDevice  *self,
                             double      fraction,
                             const char *what)
{
  notice_post (self, emit_calibrating, G_PRIORITY_DEFAULT, what, fraction);
}

/**
 * rlx_device_get_tuning: (get-property tuning)
 * @self: a device
 *
 * Whether kernels are measured for the matrices of a graph.
 *
 * Returns: %TRUE if they are
 *
 * Since: 1.0
 */
gboolean
rlx_device_get_tuning (RlxDevice *self)
{
  g_return_val_if_fail (RLX_IS_DEVICE (self), FALSE);

  return g_atomic_int_get (&self->tunes) != 0;
}

/**
 * rlx_device_set_tuning: (set-property tuning)
 * @self: a device
 * @tuning: whether to measure
 *
 * Sets whether [method@Rlx.Device.compile] measures which kernels are fastest for
 * the matrices of a graph.
 *
 * Each shape of a product that takes more than 2 % of the estimated time of the
 * graph is then computed in every way there is that is right, on numbers of no
 * meaning, and the fastest way is used for it from then on. That takes up to 0.15
 * seconds for a shape, up to about two for a graph, and the time to compile the
 * kernels on top; shapes that it does not get to are chosen as without tuning.
 *
 * What was found is stored in the user's cache, for this adapter, this driver and
 * this build of the library. It is only used by devices that tune: with the same
 * cache a graph gives the same bits in every process that sets this, and the same
 * bits as if nobody had ever tuned in every process that does not.
 *
 * Since: 1.0
 */
void
rlx_device_set_tuning (RlxDevice *self,
                       gboolean   tuning)
{
  g_return_if_fail (RLX_IS_DEVICE (self));

  if (g_atomic_int_exchange (&self->tunes, tuning != FALSE) != (tuning != FALSE))
    g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_TUNING]);
}

/**
 * rlx_device_get_features: (get-property features)
 * @self: a device
 *
 * Gets the features the device is used with.
 *
 * Returns: the features
 *
 * Since: 1.0
 */
RlxDeviceFeatures
rlx_device_get_features (RlxDevice *self)
{
  g_return_val_if_fail (RLX_IS_DEVICE (self) && self->gpu != NULL, RLX_DEVICE_FEATURES_NONE);

  return rlx_gpu_get_info (self->gpu)->features;
}

/**
 * rlx_device_get_lost: (get-property lost)
 * @self: a device
 *
 * Whether the device was lost.
 *
 * Returns: %TRUE once it was
 *
 * Since: 1.0
 */
gboolean
rlx_device_get_lost (RlxDevice *self)
{
  g_return_val_if_fail (RLX_IS_DEVICE (self) && self->gpu != NULL, FALSE);

  return rlx_gpu_is_lost (self->gpu);
}

/**
 * rlx_device_get_memory_used: (get-property memory-used)
 * @self: a device
 *
 * Gets how much device memory this library uses now.
 *
 * Returns: the number of bytes
 *
 * Since: 1.0
 */
guint64
rlx_device_get_memory_used (RlxDevice *self)
{
  g_return_val_if_fail (RLX_IS_DEVICE (self) && self->gpu != NULL, 0);

  return rlx_gpu_get_memory_used (self->gpu);
}

/**
 * rlx_device_get_memory_limit: (get-property memory-limit)
 * @self: a device
 *
 * Gets how much device memory this library allows itself.
 *
 * What does not fit is refused with %RLX_DEVICE_ERROR_OUT_OF_MEMORY before
 * anything is allocated. The environment variable `RLX_MEMORY_LIMIT` sets it,
 * in bytes or with a suffix K, M or G.
 *
 * Returns: the number of bytes
 *
 * Since: 1.0
 */
guint64
rlx_device_get_memory_limit (RlxDevice *self)
{
  g_return_val_if_fail (RLX_IS_DEVICE (self) && self->gpu != NULL, 0);

  return rlx_gpu_get_memory_limit (self->gpu);
}
