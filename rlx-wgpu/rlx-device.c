/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-apply-private.h"
#include "rlx-device-private.h"

#include "passes/rlx-passes-private.h"
#include "rlx-adapter-private.h"
#include "rlx-adapter.h"
#include "rlx-bans-private.h"
#include "rlx-calibration-private.h"
#include "rlx-enum-types.h"
#include "rlx-graph-private.h"
#include "rlx-tune-private.h"
#include "util/rlx-debug-private.h"
#include "util/rlx-mark-private.h"

/**
 * RlxDevice:
 *
 * A GPU, opened for computing.
 *
 * Most programs use [func@Rlx.Device.get_default], which opens the best adapter of the
 * system and is shared by the whole process. A discrete GPU is preferred to an
 * integrated one, and that to a driver that computes on the CPU. The environment
 * variable `RLX_DEVICE` overrides the choice; see [func@Rlx.Device.open] for its
 * values.
 *
 * A device is thread-safe. It never falls back to computing on the host:
 * [method@Rlx.Device.compile] rejects a graph that it cannot run.
 *
 * Since: 1.0
 */
struct _RlxDevice
{
  GObject parent_instance;

  RlxGpu *gpu;             /* NULL until it is open */
  RlxAdapter *adapter;
  char *selector;          /* nullable */
  guint32 banned[RLX_N_FAMILIES];   /* bits, by row: bans stored when it was opened */
  GMainContext *context;   /* where signals are emitted */

  GMutex mutex;
  GPtrArray *calibrations;       /* under the mutex; the last one is current, earlier ones may be in use */
  RlxMatrixProbe matrix;
  RlxApplyCache *apply;

  GMutex tuning_mutex;           /* one tunes at a time */
  RlxTuning *tuning;             /* under the tuning mutex, NULL until needed */
};

enum
{
  PROP_0,
  PROP_ADAPTER,
  PROP_CALIBRATION,
  PROP_FEATURES,
  PROP_LOST,
  PROP_LOST_REASON,
  PROP_MEMORY_LIMIT,
  PROP_MEMORY_USED,
  PROP_SELECTOR,
  N_PROPS
};

enum
{
  CALIBRATING,
  COMPILING,
  OPENING,
  N_SIGNALS
};

static GParamSpec *properties[N_PROPS];
static guint signals[N_SIGNALS];

G_DEFINE_FINAL_TYPE_WITH_CODE (RlxDevice, rlx_device, G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (G_TYPE_INITABLE, rlx_device_initable_iface_init)
                               G_IMPLEMENT_INTERFACE (G_TYPE_ASYNC_INITABLE, rlx_device_async_initable_iface_init))

static void
rlx_device_finalize (GObject *object)
{
  RlxDevice *self = RLX_DEVICE (object);

  g_clear_pointer (&self->apply, rlx_apply_cache_free);
  g_clear_pointer (&self->gpu, rlx_gpu_unref);
  g_clear_object (&self->adapter);
  g_free (self->selector);
  g_ptr_array_unref (self->calibrations);
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
      g_value_set_object (value, rlx_device_get_calibration (self));
      break;
    case PROP_FEATURES:
      g_value_set_flags (value, self->gpu ? rlx_device_get_features (self) : 0);
      break;
    case PROP_LOST:
      g_value_set_boolean (value, rlx_device_get_lost (self));
      break;
    case PROP_LOST_REASON:
      g_value_set_string (value, rlx_device_get_lost_reason (self));
      break;
    case PROP_MEMORY_LIMIT:
      g_value_set_uint64 (value, rlx_device_get_memory_limit (self));
      break;
    case PROP_MEMORY_USED:
      g_value_set_uint64 (value, rlx_device_get_memory_used (self));
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
  RlxDevice *self = RLX_DEVICE (object);

  switch (id)
    {
    case PROP_ADAPTER:
      self->adapter = g_value_dup_object (value);
      break;
    case PROP_SELECTOR:
      self->selector = g_value_dup_string (value);
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
  const GParamFlags construct = G_PARAM_WRITABLE | G_PARAM_CONSTRUCT_ONLY;

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
  properties[PROP_ADAPTER] = g_param_spec_object ("adapter", NULL, NULL, RLX_TYPE_ADAPTER, flags | construct);
  /**
   * RlxDevice:calibration:
   *
   * The measured speeds of the device, or %NULL if it was never calibrated.
   *
   * It is looked up when the device is opened, and replaced by
   * [method@Rlx.Device.calibrate]. The notification is emitted in the thread-default
   * main context of the thread that opened the device.
   *
   * Since: 1.0
   */
  properties[PROP_CALIBRATION] = g_param_spec_object ("calibration", NULL, NULL, RLX_TYPE_CALIBRATION, flags);
  /**
   * RlxDevice:features:
   *
   * The features in use: those of the adapter that passed the self-test and were not
   * switched off.
   *
   * Since: 1.0
   */
  properties[PROP_FEATURES] = g_param_spec_flags ("features", NULL, NULL, RLX_TYPE_DEVICE_FEATURES, 0, flags);
  /**
   * RlxDevice:lost:
   *
   * Whether the device is gone: unplugged, reset by the driver, or hung.
   *
   * Every operation on a lost device fails with %RLX_DEVICE_ERROR_LOST. Open a new one
   * to continue.
   *
   * The notification is emitted at most once, in the thread-default main context of the
   * thread that opened the device.
   *
   * Since: 1.0
   */
  properties[PROP_LOST] = g_param_spec_boolean ("lost", NULL, NULL, FALSE, flags);
  /**
   * RlxDevice:lost-reason:
   *
   * Why the device was lost, as the driver reported it, for display; %NULL if it is not
   * lost.
   *
   * Since: 1.0
   */
  properties[PROP_LOST_REASON] = g_param_spec_string ("lost-reason", NULL, NULL, NULL, flags);
  /**
   * RlxDevice:memory-limit:
   *
   * How many bytes of device memory the library may use.
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
   * RlxDevice:selector:
   *
   * Which adapter to open if [property@Rlx.Device:adapter] is not set; see
   * [func@Rlx.Device.open].
   *
   * Since: 1.0
   */
  properties[PROP_SELECTOR] = g_param_spec_string ("selector", NULL, NULL, NULL,
                                                   (flags & ~G_PARAM_READABLE) | construct);
  g_object_class_install_properties (object_class, N_PROPS, properties);

  /**
   * RlxDevice::calibrating:
   * @self: the device
   * @fraction: the fraction that is done, from 0 to 1
   * @what: what is being measured, in English, for display
   *
   * Reports the progress of a calibration.
   *
   * Emitted several times by [method@Rlx.Device.calibrate_async]: first with 0, never
   * with less than before, and, on success, with 1 just before the end. Any part of a
   * program can show the progress, not just the one that started the calibration.
   *
   * It is emitted in the thread-default main context of the thread that opened the
   * device. If [method@Rlx.Device.calibrate] blocks the main loop there, it arrives
   * late.
   *
   * Since: 1.0
   */
  signals[CALIBRATING] = g_signal_new ("calibrating", RLX_TYPE_DEVICE, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                                       G_TYPE_NONE, 2, G_TYPE_DOUBLE, G_TYPE_STRING);
  /**
   * RlxDevice::compiling:
   * @self: the device
   * @fraction: the fraction that is done, from 0 to 1
   * @what: what is being done, in English, for display
   *
   * Reports the progress of [method@Rlx.Device.compile_async] if it takes longer than 100
   * ms, as it does when kernels are compiled for the first time.
   *
   * Emitted every 100 ms, never with less than before, and, on success, with 1 just
   * before the end, in the thread-default main context of the thread that opened the
   * device. If [method@Rlx.Device.compile] blocks the main loop there, nothing is
   * emitted.
   *
   * Since: 1.0
   */
  signals[COMPILING] = g_signal_new ("compiling", RLX_TYPE_DEVICE, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                                     G_TYPE_NONE, 2, G_TYPE_DOUBLE, G_TYPE_STRING);
  /**
   * RlxDevice::opening:
   * @self: the device
   * @fraction: the fraction that is done, from 0 to 1
   * @what: what is being done, in English, for display
   *
   * Reports the progress of opening the device if it takes longer than 100 ms, as it does
   * when drivers are loaded for the first time.
   *
   * To receive it, create the device with `g_object_new()` and the property
   * [property@Rlx.Device:selector] or [property@Rlx.Device:adapter], connect to the
   * signal, and open the device with [method@Gio.AsyncInitable.init_async]. It is emitted
   * in the same way as [signal@Rlx.Device::compiling].
   *
   * Since: 1.0
   */
  signals[OPENING] = g_signal_new ("opening", RLX_TYPE_DEVICE, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                                   G_TYPE_NONE, 2, G_TYPE_DOUBLE, G_TYPE_STRING);
}

static void
rlx_device_init (RlxDevice *self)
{
  self->apply = rlx_apply_cache_new ();
  self->context = g_main_context_ref_thread_default ();
  self->calibrations = g_ptr_array_new_with_free_func (g_object_unref);
  g_mutex_init (&self->mutex);
  g_mutex_init (&self->matrix.mutex);
  g_mutex_init (&self->tuning_mutex);
}

/* ---- raised on any thread, emitted in the owner's context ------------------- */

typedef struct
{
  GWeakRef device;         /* the main context may never run */
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
notify_lost (gpointer data)
{
  Notice *notice = data;
  g_autoptr(RlxDevice) self = g_weak_ref_get (&notice->device);

  if (self != NULL)
    {
      g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_LOST_REASON]);
      g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_LOST]);
    }
  return G_SOURCE_REMOVE;
}

static void
on_lost (const char *reason G_GNUC_UNUSED,
         gpointer    user_data)
{
  GWeakRef *weak = user_data;
  g_autoptr(RlxDevice) self = g_weak_ref_get (weak);

  if (self != NULL)
    notice_post (self, notify_lost, G_PRIORITY_DEFAULT_IDLE, NULL, 0.0);
}

static void
free_weak (gpointer data)
{
  g_weak_ref_clear (data);
  g_free (data);
}

void
rlx_device_take_gpu (RlxDevice *self,
                     RlxGpu    *gpu)
{
  RlxCalibration *calibration = rlx_calibration_load (rlx_gpu_get_info (gpu));
  GWeakRef *weak = g_new0 (GWeakRef, 1);

  self->gpu = gpu;
  g_clear_object (&self->adapter);
  self->adapter = rlx_adapter_new ((RlxGpuAdapterInfo *) rlx_gpu_get_info (gpu));
  if (calibration != NULL)
    g_ptr_array_add (self->calibrations, calibration);
  rlx_bans_load (rlx_gpu_get_info (gpu), self->banned);
  g_weak_ref_init (weak, self);
  rlx_gpu_set_lost_func (gpu, on_lost, weak, free_weak);
}

const char *
rlx_device_get_selector (RlxDevice *self)
{
  return self->selector;
}

/* ---- progress of long calls ----------------------------------------------------- */

static void
tell_compiling (gpointer    self,
                double      fraction,
                const char *what)
{
  g_signal_emit (self, signals[COMPILING], 0, fraction, what);
}

static void
tell_opening (gpointer    self,
              double      fraction,
              const char *what)
{
  g_signal_emit (self, signals[OPENING], 0, fraction, what);
}

/* NULL if nobody listens. */
static RlxTicker *
start_ticker (RlxDevice    *self,
              guint         signal,
              RlxTickerFunc func)
{
  return g_signal_has_handler_pending (self, signals[signal], 0, TRUE) ? rlx_ticker_start (self->context, G_OBJECT (self), func) : NULL;
}

RlxTicker *
rlx_device_start_opening (RlxDevice *self)
{
  return start_ticker (self, OPENING, tell_opening);
}

/* ---- compiling ----------------------------------------------------------------- */

RlxTarget
rlx_device_get_target (RlxDevice *self)
{
  RlxCalibration *calibration = rlx_device_get_calibration (self);
  RlxTarget target = rlx_gpu_get_info (self->gpu)->target;

  if (calibration != NULL)
    target.speeds = *rlx_calibration_get_speeds (calibration);
  for (RlxFamily i = 0; i < RLX_N_FAMILIES; i++)
    target.speeds.banned[i] |= self->banned[i];
  return target;
}

/* The plan tells which problems there are. Once those that matter have been measured,
 * it is made again. */
static RlxPlan *
make_tuned_plan (RlxDevice       *self,
                 const RlxIr     *ir,
                 const RlxTarget *untuned,
                 GCancellable    *cancellable,
                 GError         **error)
{
  const RlxGpuAdapterInfo *info = rlx_gpu_get_info (self->gpu);
  RlxTarget target = *untuned;
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new (&self->tuning_mutex);
  g_autoptr(RlxPlan) plan = NULL;
  guint n_measured = 0;
  gboolean measured;

  if (self->tuning == NULL)
    self->tuning = rlx_tuning_load (info);
  target.tuning = self->tuning;
  plan = rlx_plan_make (ir, &target, cancellable, error);
  measured = plan != NULL && rlx_tuning_measure (self->tuning, self, &target, plan, &n_measured, cancellable, error);
  if (n_measured > 0)
    {
      rlx_tuning_store (self->tuning, info);
      g_clear_pointer (&plan, rlx_plan_free);
      if (measured)
        plan = rlx_plan_make (ir, &target, cancellable, error);
    }
  return measured ? g_steal_pointer (&plan) : NULL;
}

static RlxExecutable *
compile_ir (RlxDevice                *self,
            const RlxIr              *ir,
            const RlxTarget          *target,
            const RlxCompileSettings *settings,
            GCancellable             *cancellable,
            GError                  **error)
{
  gint64 start = g_get_monotonic_time ();
  RlxExecutable *executable;
  RlxPlan *plan;
  RLX_MARK_BEGIN (compile);

  if (g_cancellable_set_error_if_cancelled (cancellable, error) || !rlx_gpu_check_lost (self->gpu, error))
    return NULL;

  plan = settings->tuning ? make_tuned_plan (self, ir, target, cancellable, error) : rlx_plan_make (ir, target, cancellable, error);
  if (plan == NULL)
    return NULL;
  RLX_NOTE (COMPILE, "%u nodes, after passes %u, %u steps, planned in %.2f ms",
            ir->nodes->len, plan->ir->nodes->len, plan->steps->len, (double) (g_get_monotonic_time () - start) * 1e-3);
  executable = rlx_executable_new (self, plan, &target->speeds, settings, cancellable, error);
  RLX_MARK_END (compile, "%u nodes", ir->nodes->len);
  RLX_NOTE (COMPILE, "compiled in %.2f ms", (double) (g_get_monotonic_time () - start) * 1e-3);
  return executable;
}

/* Compiles a copy, so that the owner can keep using the graph. The graph's own errors
 * come first, then those that only concern whole graphs. */
static RlxIr *
take_graph (RlxGraph *graph,
            GError  **error)
{
  g_autoptr(RlxIr) ir = rlx_graph_copy_ir (graph, error);

  if (ir != NULL && ir->outputs->len == 0 && ir->assigns->len == 0)
    {
      g_set_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_INVALID_GRAPH,
                   "the graph has no output: at least one node must be made an output");
      return NULL;
    }
  return g_steal_pointer (&ir);
}

/* Scripts can pass any number. */
static gboolean
check_settings (const RlxCompileSettings *settings,
                GError                  **error)
{
  if ((guint) settings->precision > RLX_PRECISION_INTEGER)
    {
      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "there is no precision %d", (int) settings->precision);
      return FALSE;
    }
  /* Written so that NaN fails. */
  if (!(settings->timeout >= 0.0 && settings->timeout <= RLX_MAX_TIMEOUT))
    {
      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                   "the time-out is %g seconds; it must be from 0 to %g", settings->timeout, RLX_MAX_TIMEOUT);
      return FALSE;
    }
  return TRUE;
}

/* Whether matrix units may be useful. Attention of half floats uses them at any precision, whether it is one operator
 * or composed of several, including a softmax. */
static gboolean
wants_matrix (const RlxIr *ir)
{
  if (ir->precision >= RLX_PRECISION_REDUCED)
    return TRUE;
  for (guint i = 0; i < ir->nodes->len; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);

      if ((node->op->id == RLX_OP_ID_ATTENTION || node->op->id == RLX_OP_ID_SOFTMAX) && node->outputs[0].type.data_type == RLX_DATA_TYPE_F16)
        return TRUE;
    }
  return FALSE;
}

/* @ir is owned by the caller, and modified. */
static RlxExecutable *
compile_taken (RlxDevice                *self,
               RlxIr                    *ir,
               const RlxCompileSettings *settings,
               const RlxSpeeds          *speeds,
               GCancellable             *cancellable,
               GError                  **error)
{
  RlxCompileSettings own = *settings;
  RlxTarget target = rlx_device_get_target (self);
  RlxExecutable *executable;
  gboolean has_matrix = FALSE;

  if (!rlx_gpu_check_forked (error) || !check_settings (settings, error))
    return NULL;
  if (settings->precision != RLX_PRECISION_DEFAULT)
    ir->precision = settings->precision;
  /* Speeds are given where kernels are measured. */
  ir->checked = settings->checked || (RLX_DEBUG_CHECK (CHECKED) && speeds == NULL);
  ir->surveyed = RLX_DEBUG_CHECK (VALUES) && speeds == NULL;
  if (wants_matrix (ir) && !rlx_device_find_matrix (self, &target.matrices[0], &has_matrix, cancellable, error))
    return NULL;
  target.n_matrices = has_matrix ? 1 : 0;
  if (!rlx_target_restrict (&target, settings->avoided_features, settings->buffer_limit, error))
    return NULL;
  if (speeds != NULL)
    target.speeds = *speeds;
  /* Given speeds are for measuring one variant, while measurements apply to the whole
   * device. */
  own.tuning = own.tuning && speeds == NULL && settings->avoided_features == 0 && settings->buffer_limit == 0;
  if (speeds == NULL)
    own.ticker = start_ticker (self, COMPILING, tell_compiling);
  rlx_ticker_set (own.ticker, own.tuning ? "measuring kernels" : "planning", 0, 0);
  executable = compile_ir (self, ir, &target, &own, cancellable, error);
  rlx_ticker_stop (own.ticker, executable != NULL);
  return executable;
}

RlxExecutable *
rlx_device_compile_for (RlxDevice       *self,
                        RlxGraph        *graph,
                        const RlxSpeeds *speeds,
                        GCancellable    *cancellable,
                        GError         **error)
{
  g_autoptr(RlxIr) ir = take_graph (graph, error);
  RlxCompileSettings settings;

  rlx_compile_options_read (NULL, &settings);
  return ir ? compile_taken (self, ir, &settings, speeds, cancellable, error) : NULL;
}

RlxExecutable *
rlx_device_compile_for_target (RlxDevice       *self,
                               RlxGraph        *graph,
                               const RlxTarget *target,
                               GCancellable    *cancellable,
                               GError         **error)
{
  g_autoptr(RlxIr) ir = take_graph (graph, error);

  return ir ? rlx_device_compile_ir (self, ir, target, cancellable, error) : NULL;
}

RlxExecutable *
rlx_device_compile_ir (RlxDevice       *self,
                       const RlxIr     *ir,
                       const RlxTarget *target,
                       GCancellable    *cancellable,
                       GError         **error)
{
  RlxCompileSettings settings;

  rlx_compile_options_read (NULL, &settings);
  return compile_ir (self, ir, target, &settings, cancellable, error);
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
 * @options: (nullable): options, or %NULL for the defaults
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Compiles a graph for this device.
 *
 * If an error occurred while the graph was built and was not reported then, it is
 * reported here. Later changes to the graph have no effect on the executable; the graph
 * can be extended and compiled again.
 *
 * Returns: (transfer full): the compiled graph
 *
 * Since: 1.0
 */
RlxExecutable *
rlx_device_compile (RlxDevice         *self,
                    RlxGraph          *graph,
                    RlxCompileOptions *options,
                    GCancellable      *cancellable,
                    GError           **error)
{
  g_autoptr(RlxIr) ir = NULL;
  RlxCompileSettings settings;

  g_return_val_if_fail (RLX_IS_DEVICE (self) && self->gpu != NULL, NULL);
  g_return_val_if_fail (RLX_IS_GRAPH (graph), NULL);
  g_return_val_if_fail (options == NULL || RLX_IS_COMPILE_OPTIONS (options), NULL);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  rlx_compile_options_read (options, &settings);
  ir = take_graph (graph, error);
  return ir ? compile_taken (self, ir, &settings, NULL, cancellable, error) : NULL;
}

typedef struct
{
  RlxIr *ir;
  RlxCompileSettings settings;
} CompileCall;

static void
compile_call_free (gpointer data)
{
  CompileCall *call = data;

  rlx_ir_free (call->ir);
  g_free (call);
}

static void
compile_thread (GTask        *task,
                gpointer      source,
                gpointer      data,
                GCancellable *cancellable)
{
  CompileCall *call = data;
  GError *error = NULL;
  RlxExecutable *executable = compile_taken (RLX_DEVICE (source), call->ir, &call->settings, NULL, cancellable, &error);

  if (executable != NULL)
    g_task_return_pointer (task, executable, g_object_unref);
  else
    g_task_return_error (task, error);
}

/**
 * rlx_device_compile_async:
 * @self: a device
 * @graph: a graph
 * @options: (nullable): options, or %NULL for the defaults
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the graph has been compiled
 * @user_data: data for @callback
 *
 * Compiles a graph for this device in another thread.
 *
 * Changes made to the graph or the options after this call have no effect.
 *
 * Since: 1.0
 */
void
rlx_device_compile_async (RlxDevice          *self,
                          RlxGraph           *graph,
                          RlxCompileOptions  *options,
                          GCancellable       *cancellable,
                          GAsyncReadyCallback callback,
                          gpointer            user_data)
{
  g_autoptr(GTask) task = NULL;
  GError *error = NULL;
  CompileCall *call;
  RlxIr *ir;

  g_return_if_fail (RLX_IS_DEVICE (self) && self->gpu != NULL);
  g_return_if_fail (RLX_IS_GRAPH (graph));
  g_return_if_fail (options == NULL || RLX_IS_COMPILE_OPTIONS (options));
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  task = g_task_new (self, cancellable, callback, user_data);
  g_task_set_source_tag (task, rlx_device_compile_async);
  if (!rlx_gpu_check_forked (&error) || (ir = take_graph (graph, &error)) == NULL)
    {
      g_task_return_error (task, error);
      return;
    }
  call = g_new0 (CompileCall, 1);
  call->ir = ir;
  rlx_compile_options_read (options, &call->settings);
  g_task_set_task_data (task, call, compile_call_free);
  g_task_run_in_thread (task, compile_thread);
}

/**
 * rlx_device_compile_finish:
 * @self: a device
 * @result: the result given to the callback
 * @error: return location for an error
 *
 * Finishes an operation started with [method@Rlx.Device.compile_async].
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

RlxApplyCache *
rlx_device_get_apply_cache (RlxDevice *self)
{
  return self->apply;
}

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
 * Gets the measured speeds of the device.
 *
 * Calibrating again creates another one. The device keeps a reference to both, so the
 * result stays valid.
 *
 * Returns: (transfer none) (nullable): the calibration, or %NULL if the device
 *   was never calibrated
 *
 * Since: 1.0
 */
RlxCalibration *
rlx_device_get_calibration (RlxDevice *self)
{
  g_autoptr(GMutexLocker) locker = NULL;

  g_return_val_if_fail (RLX_IS_DEVICE (self), NULL);

  locker = g_mutex_locker_new (&self->mutex);
  return self->calibrations->len > 0 ? g_ptr_array_index (self->calibrations, self->calibrations->len - 1) : NULL;
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
  g_ptr_array_add (self->calibrations, g_object_ref (calibration));
  g_mutex_unlock (&self->mutex);

  /* before the callback of an asynchronous call */
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
 * rlx_device_get_features: (get-property features)
 * @self: a device
 *
 * Gets the features that are in use.
 *
 * Returns: the features
 *
 * Since: 1.0
 */
RlxDeviceFeatures
rlx_device_get_features (RlxDevice *self)
{
  g_return_val_if_fail (RLX_IS_DEVICE (self) && self->gpu != NULL, RLX_DEVICE_FEATURES_NONE);

  return rlx_gpu_get_info (self->gpu)->target.features;
}

/**
 * rlx_device_get_lost: (get-property lost)
 * @self: a device
 *
 * Gets whether the device was lost.
 *
 * Returns: %TRUE if it was
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
 * rlx_device_get_lost_reason: (get-property lost-reason)
 * @self: a device
 *
 * Gets why the device was lost.
 *
 * Returns: (transfer none) (nullable): the reason, as the driver reported it, or %NULL
 *   if the device is not lost
 *
 * Since: 1.0
 */
const char *
rlx_device_get_lost_reason (RlxDevice *self)
{
  g_return_val_if_fail (RLX_IS_DEVICE (self) && self->gpu != NULL, NULL);

  return rlx_gpu_get_lost_reason (self->gpu);
}

/**
 * rlx_device_get_memory_used: (get-property memory-used)
 * @self: a device
 *
 * Gets how much device memory the library currently uses.
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
 * Gets how much device memory the library may use.
 *
 * Anything that does not fit is rejected with %RLX_DEVICE_ERROR_OUT_OF_MEMORY before it
 * is allocated. The environment variable `RLX_MEMORY_LIMIT` sets it, in bytes or with a
 * suffix K, M or G.
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
