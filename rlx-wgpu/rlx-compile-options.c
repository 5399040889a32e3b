/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-compile-options-private.h"

#include "rlx-enum-types.h"

/**
 * RlxCompileOptions:
 *
 * Options of [method@Rlx.Device.compile].
 *
 * ```c
 * g_autoptr(RlxCompileOptions) options = g_object_new (RLX_TYPE_COMPILE_OPTIONS, "tuning", TRUE, NULL);
 * ```
 *
 * ```js
 * const options = new Rlx.CompileOptions({precision: 'reduced', profiling: true});
 * ```
 *
 * In Python they are keyword arguments of the method. The options are read when
 * compiling begins, and not kept.
 *
 * Since: 1.0
 */
struct _RlxCompileOptions
{
  GObject parent_instance;

  RlxCompileSettings settings;
};

enum
{
  PROP_0,
  PROP_AVOIDED_FEATURES,
  PROP_BUFFER_LIMIT,
  PROP_CHECKED,
  PROP_MEMORY_LIMIT,
  PROP_PRECISION,
  PROP_PROFILING,
  PROP_TIMEOUT,
  PROP_TUNING,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

G_DEFINE_FINAL_TYPE (RlxCompileOptions, rlx_compile_options, G_TYPE_OBJECT)

static void
rlx_compile_options_get_property (GObject    *object,
                                  guint       id,
                                  GValue     *value,
                                  GParamSpec *pspec)
{
  const RlxCompileSettings *settings = &RLX_COMPILE_OPTIONS (object)->settings;

  switch (id)
    {
    case PROP_AVOIDED_FEATURES:
      g_value_set_flags (value, settings->avoided_features);
      break;
    case PROP_BUFFER_LIMIT:
      g_value_set_uint64 (value, settings->buffer_limit);
      break;
    case PROP_CHECKED:
      g_value_set_boolean (value, settings->checked);
      break;
    case PROP_MEMORY_LIMIT:
      g_value_set_uint64 (value, settings->memory_limit);
      break;
    case PROP_PRECISION:
      g_value_set_enum (value, settings->precision);
      break;
    case PROP_PROFILING:
      g_value_set_boolean (value, settings->profiling);
      break;
    case PROP_TIMEOUT:
      g_value_set_double (value, settings->timeout);
      break;
    case PROP_TUNING:
      g_value_set_boolean (value, settings->tuning);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
rlx_compile_options_set_property (GObject      *object,
                                  guint         id,
                                  const GValue *value,
                                  GParamSpec   *pspec)
{
  RlxCompileOptions *self = RLX_COMPILE_OPTIONS (object);

  switch (id)
    {
    case PROP_AVOIDED_FEATURES:
      rlx_compile_options_set_avoided_features (self, g_value_get_flags (value));
      break;
    case PROP_BUFFER_LIMIT:
      rlx_compile_options_set_buffer_limit (self, g_value_get_uint64 (value));
      break;
    case PROP_CHECKED:
      rlx_compile_options_set_checked (self, g_value_get_boolean (value));
      break;
    case PROP_MEMORY_LIMIT:
      rlx_compile_options_set_memory_limit (self, g_value_get_uint64 (value));
      break;
    case PROP_PRECISION:
      rlx_compile_options_set_precision (self, g_value_get_enum (value));
      break;
    case PROP_PROFILING:
      rlx_compile_options_set_profiling (self, g_value_get_boolean (value));
      break;
    case PROP_TIMEOUT:
      rlx_compile_options_set_timeout (self, g_value_get_double (value));
      break;
    case PROP_TUNING:
      rlx_compile_options_set_tuning (self, g_value_get_boolean (value));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
rlx_compile_options_class_init (RlxCompileOptionsClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->get_property = rlx_compile_options_get_property;
  object_class->set_property = rlx_compile_options_set_property;

  /**
   * RlxCompileOptions:avoided-features:
   *
   * Features that kernels do not use although the device has them: 16-bit floats,
   * subgroups, cooperative matrices and products of four integers at a time.
   *
   * This shows what lesser devices would get, or avoids what a driver does badly. Such
   * a graph is not tuned.
   *
   * Since: 1.0
   */
  properties[PROP_AVOIDED_FEATURES] = g_param_spec_flags ("avoided-features", NULL, NULL, RLX_TYPE_DEVICE_FEATURES, RLX_DEVICE_FEATURES_NONE, flags);
  /**
   * RlxCompileOptions:buffer-limit:
   *
   * The size limit of buffers and of the parts of them that kernels bind, in bytes; 0
   * for the device's own limits, otherwise at least 1 MiB.
   *
   * A graph with a larger tensor is rejected. A graph with such a limit is not tuned.
   *
   * Since: 1.0
   */
  properties[PROP_BUFFER_LIMIT] = g_param_spec_uint64 ("buffer-limit", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * RlxCompileOptions:checked:
   *
   * Whether a run fails if an index is out of range or an integer result does not fit
   * into 32 bits.
   *
   * Otherwise such an index is clamped and such an integer wraps, as the operators
   * document. A checked run fails with %RLX_GRAPH_ERROR_OUT_OF_RANGE, and the message
   * names the first such node in the graph, its first such element, the value and the
   * limits. States change as in any other run.
   *
   * The device does the checking. It costs time and prevents some fusion, so it is
   * meant for finding mistakes. `RLX_DEBUG=checked` switches it on everywhere.
   *
   * Since: 1.0
   */
  properties[PROP_CHECKED] = g_param_spec_boolean ("checked", NULL, NULL, FALSE, flags);
  /**
   * RlxCompileOptions:memory-limit:
   *
   * How many bytes of device memory the executable may use; 0 for as many as the device
   * allows.
   *
   * A graph that needs more is rejected with %RLX_DEVICE_ERROR_OUT_OF_MEMORY before
   * anything is allocated. [property@Rlx.Device:memory-limit] also applies.
   *
   * Since: 1.0
   */
  properties[PROP_MEMORY_LIMIT] = g_param_spec_uint64 ("memory-limit", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * RlxCompileOptions:precision:
   *
   * How exact matrix products are.
   *
   * Since: 1.0
   */
  properties[PROP_PRECISION] = g_param_spec_enum ("precision", NULL, NULL, RLX_TYPE_PRECISION, RLX_PRECISION_DEFAULT, flags);
  /**
   * RlxCompileOptions:profiling:
   *
   * Whether runs are timed kernel by kernel, from the first one on; see
   * [property@Rlx.Executable:profiling].
   *
   * Since: 1.0
   */
  properties[PROP_PROFILING] = g_param_spec_boolean ("profiling", NULL, NULL, FALSE, flags);
  /**
   * RlxCompileOptions:timeout:
   *
   * How many seconds one job of a run may keep the GPU busy before the device counts as
   * lost; 0 for the default of 60.
   *
   * The environment variable `RLX_TIMEOUT` overrides it.
   *
   * Since: 1.0
   */
  properties[PROP_TIMEOUT] = g_param_spec_double ("timeout", NULL, NULL, 0, RLX_MAX_TIMEOUT, 0, flags);
  /**
   * RlxCompileOptions:tuning:
   *
   * Whether to measure which kernels are fastest for the graph.
   *
   * If so, each operator that accounts for more than 2 % of the graph's estimated time
   * is timed on generated data with every kernel that can compute it. The fastest
   * kernel is then used for operands of these types and shapes. Each operator takes up
   * to 0.15 seconds, plus the time to compile the kernels, and a graph up to about ten
   * seconds. Operators that there is no time for get the same kernels as without
   * tuning, and are measured when the graph is compiled again.
   *
   * Results are stored in the user's cache, for this adapter, driver and build of the
   * library, and only used where this option is set. With the same cache, a graph gives
   * the same bits in every process that sets the option. Processes that do not set it
   * get the same bits as if nothing had ever been tuned.
   *
   * Since: 1.0
   */
  properties[PROP_TUNING] = g_param_spec_boolean ("tuning", NULL, NULL, FALSE, flags);
  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
rlx_compile_options_init (RlxCompileOptions *self)
{
  rlx_compile_options_read (NULL, &self->settings);
}

void
rlx_compile_options_read (RlxCompileOptions  *options,
                          RlxCompileSettings *settings)
{
  if (options != NULL)
    *settings = options->settings;
  else
    *settings = (RlxCompileSettings) { .precision = RLX_PRECISION_DEFAULT };
}

/**
 * rlx_compile_options_new:
 *
 * Creates options with default values.
 *
 * Returns: (transfer full): new options
 *
 * Since: 1.0
 */
RlxCompileOptions *
rlx_compile_options_new (void)
{
  return g_object_new (RLX_TYPE_COMPILE_OPTIONS, NULL);
}

/**
 * rlx_compile_options_get_precision: (get-property precision)
 * @self: options
 *
 * Gets how exact matrix products are.
 *
 * Returns: the precision
 *
 * Since: 1.0
 */
RlxPrecision
rlx_compile_options_get_precision (RlxCompileOptions *self)
{
  g_return_val_if_fail (RLX_IS_COMPILE_OPTIONS (self), RLX_PRECISION_DEFAULT);

  return self->settings.precision;
}

/**
 * rlx_compile_options_set_precision: (set-property precision)
 * @self: options
 * @precision: the precision
 *
 * Sets how exact matrix products are.
 *
 * Since: 1.0
 */
void
rlx_compile_options_set_precision (RlxCompileOptions *self,
                                   RlxPrecision       precision)
{
  g_return_if_fail (RLX_IS_COMPILE_OPTIONS (self));

  /* Other numbers are reported when compiling. */
  if (self->settings.precision == precision)
    return;
  self->settings.precision = precision;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_PRECISION]);
}

/**
 * rlx_compile_options_get_tuning: (get-property tuning)
 * @self: options
 *
 * Gets whether to measure which kernels are fastest for the graph.
 *
 * Returns: %TRUE if they are
 *
 * Since: 1.0
 */
gboolean
rlx_compile_options_get_tuning (RlxCompileOptions *self)
{
  g_return_val_if_fail (RLX_IS_COMPILE_OPTIONS (self), FALSE);

  return self->settings.tuning;
}

/**
 * rlx_compile_options_set_tuning: (set-property tuning)
 * @self: options
 * @tuning: whether to measure
 *
 * Sets whether to measure which kernels are fastest for the graph; see
 * [property@Rlx.CompileOptions:tuning].
 *
 * Since: 1.0
 */
void
rlx_compile_options_set_tuning (RlxCompileOptions *self,
                                gboolean           tuning)
{
  g_return_if_fail (RLX_IS_COMPILE_OPTIONS (self));

  if (self->settings.tuning == (tuning != FALSE))
    return;
  self->settings.tuning = tuning != FALSE;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_TUNING]);
}

/**
 * rlx_compile_options_get_profiling: (get-property profiling)
 * @self: options
 *
 * Gets whether runs are timed from the first one on.
 *
 * Returns: %TRUE if they are
 *
 * Since: 1.0
 */
gboolean
rlx_compile_options_get_profiling (RlxCompileOptions *self)
{
  g_return_val_if_fail (RLX_IS_COMPILE_OPTIONS (self), FALSE);

  return self->settings.profiling;
}

/**
 * rlx_compile_options_set_profiling: (set-property profiling)
 * @self: options
 * @profiling: whether to time runs
 *
 * Sets whether runs are timed from the first one on.
 *
 * Since: 1.0
 */
void
rlx_compile_options_set_profiling (RlxCompileOptions *self,
                                   gboolean           profiling)
{
  g_return_if_fail (RLX_IS_COMPILE_OPTIONS (self));

  if (self->settings.profiling == (profiling != FALSE))
    return;
  self->settings.profiling = profiling != FALSE;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_PROFILING]);
}

/**
 * rlx_compile_options_get_checked: (get-property checked)
 * @self: options
 *
 * Gets whether runs fail if an index or an integer is out of range.
 *
 * Returns: %TRUE if they do
 *
 * Since: 1.0
 */
gboolean
rlx_compile_options_get_checked (RlxCompileOptions *self)
{
  g_return_val_if_fail (RLX_IS_COMPILE_OPTIONS (self), FALSE);

  return self->settings.checked;
}

/**
 * rlx_compile_options_set_checked: (set-property checked)
 * @self: options
 * @checked: whether they fail
 *
 * Sets whether runs fail if an index or an integer is out of range; see
 * [property@Rlx.CompileOptions:checked].
 *
 * Since: 1.0
 */
void
rlx_compile_options_set_checked (RlxCompileOptions *self,
                                 gboolean           checked)
{
  g_return_if_fail (RLX_IS_COMPILE_OPTIONS (self));

  if (self->settings.checked == (checked != FALSE))
    return;
  self->settings.checked = checked != FALSE;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_CHECKED]);
}

/**
 * rlx_compile_options_get_memory_limit: (get-property memory-limit)
 * @self: options
 *
 * Gets how much device memory the executable may use.
 *
 * Returns: the number of bytes; 0 for as many as the device allows
 *
 * Since: 1.0
 */
guint64
rlx_compile_options_get_memory_limit (RlxCompileOptions *self)
{
  g_return_val_if_fail (RLX_IS_COMPILE_OPTIONS (self), 0);

  return self->settings.memory_limit;
}

/**
 * rlx_compile_options_set_memory_limit: (set-property memory-limit)
 * @self: options
 * @memory_limit: the number of bytes; 0 for as many as the device allows
 *
 * Sets how much device memory the executable may use.
 *
 * Since: 1.0
 */
void
rlx_compile_options_set_memory_limit (RlxCompileOptions *self,
                                      guint64            memory_limit)
{
  g_return_if_fail (RLX_IS_COMPILE_OPTIONS (self));

  if (self->settings.memory_limit == memory_limit)
    return;
  self->settings.memory_limit = memory_limit;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_MEMORY_LIMIT]);
}

/**
 * rlx_compile_options_get_timeout: (get-property timeout)
 * @self: options
 *
 * Gets how long one job may keep the GPU busy.
 *
 * Returns: seconds; 0 for the default
 *
 * Since: 1.0
 */
double
rlx_compile_options_get_timeout (RlxCompileOptions *self)
{
  g_return_val_if_fail (RLX_IS_COMPILE_OPTIONS (self), 0.0);

  return self->settings.timeout;
}

/**
 * rlx_compile_options_set_timeout: (set-property timeout)
 * @self: options
 * @timeout: seconds; 0 for the default
 *
 * Sets how long one job may keep the GPU busy.
 *
 * Since: 1.0
 */
void
rlx_compile_options_set_timeout (RlxCompileOptions *self,
                                 double             timeout)
{
  g_return_if_fail (RLX_IS_COMPILE_OPTIONS (self));

  /* Other numbers are reported when compiling. */
  if (self->settings.timeout == timeout)
    return;
  self->settings.timeout = timeout;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_TIMEOUT]);
}

/**
 * rlx_compile_options_get_avoided_features: (get-property avoided-features)
 * @self: options
 *
 * Gets the features that kernels do not use.
 *
 * Returns: the features to avoid
 *
 * Since: 1.0
 */
RlxDeviceFeatures
rlx_compile_options_get_avoided_features (RlxCompileOptions *self)
{
  g_return_val_if_fail (RLX_IS_COMPILE_OPTIONS (self), RLX_DEVICE_FEATURES_NONE);

  return self->settings.avoided_features;
}

/**
 * rlx_compile_options_set_avoided_features: (set-property avoided-features)
 * @self: options
 * @avoided_features: the features to avoid
 *
 * Sets the features that kernels do not use.
 *
 * Since: 1.0
 */
void
rlx_compile_options_set_avoided_features (RlxCompileOptions *self,
                                          RlxDeviceFeatures avoided_features)
{
  g_return_if_fail (RLX_IS_COMPILE_OPTIONS (self));

  /* Invalid values are reported when compiling. */
  if (self->settings.avoided_features == avoided_features)
    return;
  self->settings.avoided_features = avoided_features;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_AVOIDED_FEATURES]);
}

/**
 * rlx_compile_options_get_buffer_limit: (get-property buffer-limit)
 * @self: options
 *
 * Gets how large a buffer may be.
 *
 * Returns: the number of bytes; 0 for as many as the device allows
 *
 * Since: 1.0
 */
guint64
rlx_compile_options_get_buffer_limit (RlxCompileOptions *self)
{
  g_return_val_if_fail (RLX_IS_COMPILE_OPTIONS (self), 0);

  return self->settings.buffer_limit;
}

/**
 * rlx_compile_options_set_buffer_limit: (set-property buffer-limit)
 * @self: options
 * @buffer_limit: the number of bytes; 0 for as many as the device allows
 *
 * Sets how large a buffer may be.
 *
 * Since: 1.0
 */
void
rlx_compile_options_set_buffer_limit (RlxCompileOptions *self,
                                      guint64           buffer_limit)
{
  g_return_if_fail (RLX_IS_COMPILE_OPTIONS (self));

  /* Invalid values are reported when compiling. */
  if (self->settings.buffer_limit == buffer_limit)
    return;
  self->settings.buffer_limit = buffer_limit;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_BUFFER_LIMIT]);
}
