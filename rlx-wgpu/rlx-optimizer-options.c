/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-optimizer-options-private.h"

#include "rlx-enum-types.h"
#include "rlx-node.h"

/**
 * RlxOptimizerOptions:
 *
 * Options of [method@Rlx.Graph.optimize].
 *
 * In Python these are keyword arguments of the method.
 *
 * Since: 1.0
 */
struct _RlxOptimizerOptions
{
  GObject parent_instance;

  RlxNode *rate;
  RlxOptimizerSettings settings;
};

enum
{
  PROP_0,
  PROP_ALGORITHM,
  PROP_LEARNING_RATE,
  PROP_MOMENTUM,
  PROP_NESTEROV,
  PROP_BETA1,
  PROP_BETA2,
  PROP_EPSILON,
  PROP_WEIGHT_DECAY,
  PROP_CLIP_NORM,
  PROP_CLIP_VALUE,
  PROP_SKIP_NOT_FINITE,
  PROP_SCALE_LOSS,
  PROP_RECOMPUTE,
  PROP_ACCUMULATE,
  PROP_RATE,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

G_DEFINE_FINAL_TYPE (RlxOptimizerOptions, rlx_optimizer_options, G_TYPE_OBJECT)

static void
rlx_optimizer_options_dispose (GObject *object)
{
  RlxOptimizerOptions *self = RLX_OPTIMIZER_OPTIONS (object);

  g_clear_object (&self->rate);
  G_OBJECT_CLASS (rlx_optimizer_options_parent_class)->dispose (object);
}

static void
rlx_optimizer_options_get_property (GObject    *object,
                                    guint       id,
                                    GValue     *value,
                                    GParamSpec *pspec)
{
  RlxOptimizerOptions *self = RLX_OPTIMIZER_OPTIONS (object);

  switch (id)
    {
    case PROP_ALGORITHM:
      g_value_set_enum (value, (gint) self->settings.algorithm);
      break;
    case PROP_LEARNING_RATE:
      g_value_set_double (value, self->settings.learning_rate);
      break;
    case PROP_MOMENTUM:
      g_value_set_double (value, self->settings.momentum);
      break;
    case PROP_NESTEROV:
      g_value_set_boolean (value, self->settings.nesterov);
      break;
    case PROP_BETA1:
      g_value_set_double (value, self->settings.beta1);
      break;
    case PROP_BETA2:
      g_value_set_double (value, self->settings.beta2);
      break;
    case PROP_EPSILON:
      g_value_set_double (value, self->settings.epsilon);
      break;
    case PROP_WEIGHT_DECAY:
      g_value_set_double (value, self->settings.weight_decay);
      break;
    case PROP_CLIP_NORM:
      g_value_set_double (value, self->settings.clip_norm);
      break;
    case PROP_CLIP_VALUE:
      g_value_set_double (value, self->settings.clip_value);
      break;
    case PROP_SKIP_NOT_FINITE:
      g_value_set_boolean (value, self->settings.skip_not_finite);
      break;
    case PROP_SCALE_LOSS:
      g_value_set_boolean (value, self->settings.scale_loss);
      break;
    case PROP_RECOMPUTE:
      g_value_set_boolean (value, self->settings.recompute);
      break;
    case PROP_ACCUMULATE:
      g_value_set_uint (value, self->settings.accumulate);
      break;
    case PROP_RATE:
      g_value_set_object (value, self->rate);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
rlx_optimizer_options_set_property (GObject      *object,
                                    guint         id,
                                    const GValue *value,
                                    GParamSpec   *pspec)
{
  RlxOptimizerOptions *self = RLX_OPTIMIZER_OPTIONS (object);

  switch (id)
    {
    case PROP_ALGORITHM:
      rlx_optimizer_options_set_algorithm (self, (RlxOptimizer) g_value_get_enum (value));
      break;
    case PROP_LEARNING_RATE:
      rlx_optimizer_options_set_learning_rate (self, g_value_get_double (value));
      break;
    case PROP_MOMENTUM:
      rlx_optimizer_options_set_momentum (self, g_value_get_double (value));
      break;
    case PROP_NESTEROV:
      rlx_optimizer_options_set_nesterov (self, g_value_get_boolean (value));
      break;
    case PROP_BETA1:
      rlx_optimizer_options_set_beta1 (self, g_value_get_double (value));
      break;
    case PROP_BETA2:
      rlx_optimizer_options_set_beta2 (self, g_value_get_double (value));
      break;
    case PROP_EPSILON:
      rlx_optimizer_options_set_epsilon (self, g_value_get_double (value));
      break;
    case PROP_WEIGHT_DECAY:
      rlx_optimizer_options_set_weight_decay (self, g_value_get_double (value));
      break;
    case PROP_CLIP_NORM:
      rlx_optimizer_options_set_clip_norm (self, g_value_get_double (value));
      break;
    case PROP_CLIP_VALUE:
      rlx_optimizer_options_set_clip_value (self, g_value_get_double (value));
      break;
    case PROP_SKIP_NOT_FINITE:
      rlx_optimizer_options_set_skip_not_finite (self, g_value_get_boolean (value));
      break;
    case PROP_SCALE_LOSS:
      rlx_optimizer_options_set_scale_loss (self, g_value_get_boolean (value));
      break;
    case PROP_RECOMPUTE:
      rlx_optimizer_options_set_recompute (self, g_value_get_boolean (value));
      break;
    case PROP_ACCUMULATE:
      rlx_optimizer_options_set_accumulate (self, g_value_get_uint (value));
      break;
    case PROP_RATE:
      rlx_optimizer_options_set_rate (self, g_value_get_object (value));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
rlx_optimizer_options_class_init (RlxOptimizerOptionsClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->dispose = rlx_optimizer_options_dispose;
  object_class->get_property = rlx_optimizer_options_get_property;
  object_class->set_property = rlx_optimizer_options_set_property;

  /**
   * RlxOptimizerOptions:algorithm:
   *
   * The optimisation algorithm.
   *
   * Since: 1.0
   */
  properties[PROP_ALGORITHM] = g_param_spec_enum ("algorithm", NULL, NULL, RLX_TYPE_OPTIMIZER, RLX_OPTIMIZER_ADAM, flags);

  /**
   * RlxOptimizerOptions:learning-rate:
   *
   * The learning rate, unless [property@Rlx.OptimizerOptions:rate] is set.
   *
   * Since: 1.0
   */
  properties[PROP_LEARNING_RATE] = g_param_spec_double ("learning-rate", NULL, NULL, 0.0, G_MAXDOUBLE, 0.001, flags);

  /**
   * RlxOptimizerOptions:momentum:
   *
   * The momentum of SGD: the fraction of the previous step that is repeated.
   *
   * Since: 1.0
   */
  properties[PROP_MOMENTUM] = g_param_spec_double ("momentum", NULL, NULL, 0.0, 1.0, 0.0, flags);

  /**
   * RlxOptimizerOptions:nesterov:
   *
   * Whether SGD uses Nesterov momentum.
   *
   * Since: 1.0
   */
  properties[PROP_NESTEROV] = g_param_spec_boolean ("nesterov", NULL, NULL, FALSE, flags);

  /**
   * RlxOptimizerOptions:beta1:
   *
   * The decay rate of the running mean of gradients, for Adam, AdamW and Lion.
   *
   * Since: 1.0
   */
  properties[PROP_BETA1] = g_param_spec_double ("beta1", NULL, NULL, 0.0, 1.0, 0.9, flags);

  /**
   * RlxOptimizerOptions:beta2:
   *
   * The decay rate of the running mean of squared gradients; for Lion, of the mean of
   * gradients that it keeps, with 0.99 as the usual value.
   *
   * Since: 1.0
   */
  properties[PROP_BETA2] = g_param_spec_double ("beta2", NULL, NULL, 0.0, 1.0, 0.999, flags);

  /**
   * RlxOptimizerOptions:epsilon:
   *
   * The number that Adam and AdamW add to the root of the mean square.
   *
   * Since: 1.0
   */
  properties[PROP_EPSILON] = g_param_spec_double ("epsilon", NULL, NULL, 0.0, G_MAXDOUBLE, 1e-8, flags);

  /**
   * RlxOptimizerOptions:weight-decay:
   *
   * The weight decay. SGD and Adam add it, times the parameter, to the gradient; the others
   * subtract it, times the learning rate, from the parameter itself.
   *
   * Since: 1.0
   */
  properties[PROP_WEIGHT_DECAY] = g_param_spec_double ("weight-decay", NULL, NULL, 0.0, G_MAXDOUBLE, 0.0, flags);

  /**
   * RlxOptimizerOptions:clip-norm:
   *
   * The limit of the norm of all gradients together; 0 for none.
   *
   * Since: 1.0
   */
  properties[PROP_CLIP_NORM] = g_param_spec_double ("clip-norm", NULL, NULL, 0.0, G_MAXDOUBLE, 0.0, flags);

  /**
   * RlxOptimizerOptions:clip-value:
   *
   * The limit of the absolute value of each element of a gradient; 0 for none. It is
   * applied before [property@Rlx.OptimizerOptions:clip-norm].
   *
   * Since: 1.0
   */
  properties[PROP_CLIP_VALUE] = g_param_spec_double ("clip-value", NULL, NULL, 0.0, G_MAXDOUBLE, 0.0, flags);

  /**
   * RlxOptimizerOptions:skip-not-finite:
   *
   * Whether to skip steps that have an infinity or NaN among their gradients. Such a
   * step changes no parameter and is counted in the state `optimizer.skipped`.
   *
   * Since: 1.0
   */
  properties[PROP_SKIP_NOT_FINITE] = g_param_spec_boolean ("skip-not-finite", NULL, NULL, FALSE, flags);

  /**
   * RlxOptimizerOptions:scale-loss:
   *
   * Whether to scale the loss so that gradients fit `f16`. The scale is the state
   * `optimizer.scale`. A step whose gradients are not all finite is skipped and halves the
   * scale; 2,000 finite steps double it.
   *
   * Since: 1.0
   */
  properties[PROP_SCALE_LOSS] = g_param_spec_boolean ("scale-loss", NULL, NULL, FALSE, flags);

  /**
   * RlxOptimizerOptions:recompute:
   *
   * Whether activations are recomputed instead of kept; see
   * [property@Rlx.GradientOptions:recompute].
   *
   * Since: 1.0
   */
  properties[PROP_RECOMPUTE] = g_param_spec_boolean ("recompute", NULL, NULL, FALSE, flags);

  /**
   * RlxOptimizerOptions:accumulate:
   *
   * The number of runs whose gradients are averaged for one step.
   *
   * Since: 1.0
   */
  properties[PROP_ACCUMULATE] = g_param_spec_uint ("accumulate", NULL, NULL, 1, 65536, 1, flags);

  /**
   * RlxOptimizerOptions:rate:
   *
   * The learning rate as a node with one element, for example an input, so that each
   * run can be given another.
   *
   * Since: 1.0
   */
  properties[PROP_RATE] = g_param_spec_object ("rate", NULL, NULL, RLX_TYPE_NODE, flags);

  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
rlx_optimizer_options_init (RlxOptimizerOptions *self)
{
  self->settings = (RlxOptimizerSettings) {
    .algorithm = RLX_OPTIMIZER_ADAM,
    .learning_rate = 0.001,
    .momentum = 0.0,
    .nesterov = FALSE,
    .beta1 = 0.9,
    .beta2 = 0.999,
    .epsilon = 1e-8,
    .weight_decay = 0.0,
    .clip_norm = 0.0,
    .clip_value = 0.0,
    .skip_not_finite = FALSE,
    .scale_loss = FALSE,
    .accumulate = 1,
  };
}

/**
 * rlx_optimizer_options_new:
 *
 * Creates options with default values.
 *
 * Returns: (transfer full): new options
 *
 * Since: 1.0
 */
RlxOptimizerOptions *
rlx_optimizer_options_new (void)
{
  return g_object_new (RLX_TYPE_OPTIMIZER_OPTIONS, NULL);
}

/**
 * rlx_optimizer_options_get_algorithm: (get-property algorithm)
 * @self: options
 *
 * Gets the value of [property@Rlx.OptimizerOptions:algorithm].
 *
 * Returns: the value
 *
 * Since: 1.0
 */
RlxOptimizer
rlx_optimizer_options_get_algorithm (RlxOptimizerOptions *self)
{
  g_return_val_if_fail (RLX_IS_OPTIMIZER_OPTIONS (self), RLX_OPTIMIZER_SGD);

  return self->settings.algorithm;
}

/**
 * rlx_optimizer_options_set_algorithm: (set-property algorithm)
 * @self: options
 * @algorithm: the value
 *
 * Sets the value of [property@Rlx.OptimizerOptions:algorithm].
 *
 * Since: 1.0
 */
void
rlx_optimizer_options_set_algorithm (RlxOptimizerOptions *self,
                               RlxOptimizer algorithm)
{
  g_return_if_fail (RLX_IS_OPTIMIZER_OPTIONS (self));

  if (self->settings.algorithm == algorithm)
    return;

  self->settings.algorithm = algorithm;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_ALGORITHM]);
}

/**
 * rlx_optimizer_options_get_learning_rate: (get-property learning-rate)
 * @self: options
 *
 * Gets the value of [property@Rlx.OptimizerOptions:learning-rate].
 *
 * Returns: the value
 *
 * Since: 1.0
 */
double
rlx_optimizer_options_get_learning_rate (RlxOptimizerOptions *self)
{
  g_return_val_if_fail (RLX_IS_OPTIMIZER_OPTIONS (self), 0);

  return self->settings.learning_rate;
}

/**
 * rlx_optimizer_options_set_learning_rate: (set-property learning-rate)
 * @self: options
 * @learning_rate: the value
 *
 * Sets the value of [property@Rlx.OptimizerOptions:learning-rate].
 *
 * Since: 1.0
 */
void
rlx_optimizer_options_set_learning_rate (RlxOptimizerOptions *self,
                               double learning_rate)
{
  g_return_if_fail (RLX_IS_OPTIMIZER_OPTIONS (self));

  if (self->settings.learning_rate == learning_rate)
    return;

  self->settings.learning_rate = learning_rate;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_LEARNING_RATE]);
}

/**
 * rlx_optimizer_options_get_momentum: (get-property momentum)
 * @self: options
 *
 * Gets the value of [property@Rlx.OptimizerOptions:momentum].
 *
 * Returns: the value
 *
 * Since: 1.0
 */
double
rlx_optimizer_options_get_momentum (RlxOptimizerOptions *self)
{
  g_return_val_if_fail (RLX_IS_OPTIMIZER_OPTIONS (self), 0);

  return self->settings.momentum;
}

/**
 * rlx_optimizer_options_set_momentum: (set-property momentum)
 * @self: options
 * @momentum: the value
 *
 * Sets the value of [property@Rlx.OptimizerOptions:momentum].
 *
 * Since: 1.0
 */
void
rlx_optimizer_options_set_momentum (RlxOptimizerOptions *self,
                               double momentum)
{
  g_return_if_fail (RLX_IS_OPTIMIZER_OPTIONS (self));

  if (self->settings.momentum == momentum)
    return;

  self->settings.momentum = momentum;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_MOMENTUM]);
}

/**
 * rlx_optimizer_options_get_nesterov: (get-property nesterov)
 * @self: options
 *
 * Gets the value of [property@Rlx.OptimizerOptions:nesterov].
 *
 * Returns: the value
 *
 * Since: 1.0
 */
gboolean
rlx_optimizer_options_get_nesterov (RlxOptimizerOptions *self)
{
  g_return_val_if_fail (RLX_IS_OPTIMIZER_OPTIONS (self), FALSE);

  return self->settings.nesterov;
}

/**
 * rlx_optimizer_options_set_nesterov: (set-property nesterov)
 * @self: options
 * @nesterov: the value
 *
 * Sets the value of [property@Rlx.OptimizerOptions:nesterov].
 *
 * Since: 1.0
 */
void
rlx_optimizer_options_set_nesterov (RlxOptimizerOptions *self,
                               gboolean nesterov)
{
  g_return_if_fail (RLX_IS_OPTIMIZER_OPTIONS (self));

  nesterov = nesterov != FALSE;
  if (self->settings.nesterov == nesterov)
    return;

  self->settings.nesterov = nesterov;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_NESTEROV]);
}

/**
 * rlx_optimizer_options_get_beta1: (get-property beta1)
 * @self: options
 *
 * Gets the value of [property@Rlx.OptimizerOptions:beta1].
 *
 * Returns: the value
 *
 * Since: 1.0
 */
double
rlx_optimizer_options_get_beta1 (RlxOptimizerOptions *self)
{
  g_return_val_if_fail (RLX_IS_OPTIMIZER_OPTIONS (self), 0);

  return self->settings.beta1;
}

/**
 * rlx_optimizer_options_set_beta1: (set-property beta1)
 * @self: options
 * @beta1: the value
 *
 * Sets the value of [property@Rlx.OptimizerOptions:beta1].
 *
 * Since: 1.0
 */
void
rlx_optimizer_options_set_beta1 (RlxOptimizerOptions *self,
                               double beta1)
{
  g_return_if_fail (RLX_IS_OPTIMIZER_OPTIONS (self));

  if (self->settings.beta1 == beta1)
    return;

  self->settings.beta1 = beta1;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_BETA1]);
}

/**
 * rlx_optimizer_options_get_beta2: (get-property beta2)
 * @self: options
 *
 * Gets the value of [property@Rlx.OptimizerOptions:beta2].
 *
 * Returns: the value
 *
 * Since: 1.0
 */
double
rlx_optimizer_options_get_beta2 (RlxOptimizerOptions *self)
{
  g_return_val_if_fail (RLX_IS_OPTIMIZER_OPTIONS (self), 0);

  return self->settings.beta2;
}

/**
 * rlx_optimizer_options_set_beta2: (set-property beta2)
 * @self: options
 * @beta2: the value
 *
 * Sets the value of [property@Rlx.OptimizerOptions:beta2].
 *
 * Since: 1.0
 */
void
rlx_optimizer_options_set_beta2 (RlxOptimizerOptions *self,
                               double beta2)
{
  g_return_if_fail (RLX_IS_OPTIMIZER_OPTIONS (self));

  if (self->settings.beta2 == beta2)
    return;

  self->settings.beta2 = beta2;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_BETA2]);
}

/**
 * rlx_optimizer_options_get_epsilon: (get-property epsilon)
 * @self: options
 *
 * Gets the value of [property@Rlx.OptimizerOptions:epsilon].
 *
 * Returns: the value
 *
 * Since: 1.0
 */
double
rlx_optimizer_options_get_epsilon (RlxOptimizerOptions *self)
{
  g_return_val_if_fail (RLX_IS_OPTIMIZER_OPTIONS (self), 0);

  return self->settings.epsilon;
}

/**
 * rlx_optimizer_options_set_epsilon: (set-property epsilon)
 * @self: options
 * @epsilon: the value
 *
 * Sets the value of [property@Rlx.OptimizerOptions:epsilon].
 *
 * Since: 1.0
 */
void
rlx_optimizer_options_set_epsilon (RlxOptimizerOptions *self,
                               double epsilon)
{
  g_return_if_fail (RLX_IS_OPTIMIZER_OPTIONS (self));

  if (self->settings.epsilon == epsilon)
    return;

  self->settings.epsilon = epsilon;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_EPSILON]);
}

/**
 * rlx_optimizer_options_get_weight_decay: (get-property weight-decay)
 * @self: options
 *
 * Gets the value of [property@Rlx.OptimizerOptions:weight-decay].
 *
 * Returns: the value
 *
 * Since: 1.0
 */
double
rlx_optimizer_options_get_weight_decay (RlxOptimizerOptions *self)
{
  g_return_val_if_fail (RLX_IS_OPTIMIZER_OPTIONS (self), 0);

  return self->settings.weight_decay;
}

/**
 * rlx_optimizer_options_set_weight_decay: (set-property weight-decay)
 * @self: options
 * @weight_decay: the value
 *
 * Sets the value of [property@Rlx.OptimizerOptions:weight-decay].
 *
 * Since: 1.0
 */
void
rlx_optimizer_options_set_weight_decay (RlxOptimizerOptions *self,
                               double weight_decay)
{
  g_return_if_fail (RLX_IS_OPTIMIZER_OPTIONS (self));

  if (self->settings.weight_decay == weight_decay)
    return;

  self->settings.weight_decay = weight_decay;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_WEIGHT_DECAY]);
}

/**
 * rlx_optimizer_options_get_clip_norm: (get-property clip-norm)
 * @self: options
 *
 * Gets the value of [property@Rlx.OptimizerOptions:clip-norm].
 *
 * Returns: the value
 *
 * Since: 1.0
 */
double
rlx_optimizer_options_get_clip_norm (RlxOptimizerOptions *self)
{
  g_return_val_if_fail (RLX_IS_OPTIMIZER_OPTIONS (self), 0);

  return self->settings.clip_norm;
}

/**
 * rlx_optimizer_options_set_clip_norm: (set-property clip-norm)
 * @self: options
 * @clip_norm: the value
 *
 * Sets the value of [property@Rlx.OptimizerOptions:clip-norm].
 *
 * Since: 1.0
 */
void
rlx_optimizer_options_set_clip_norm (RlxOptimizerOptions *self,
                               double clip_norm)
{
  g_return_if_fail (RLX_IS_OPTIMIZER_OPTIONS (self));

  if (self->settings.clip_norm == clip_norm)
    return;

  self->settings.clip_norm = clip_norm;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_CLIP_NORM]);
}

/**
 * rlx_optimizer_options_get_clip_value: (get-property clip-value)
 * @self: options
 *
 * Gets the value of [property@Rlx.OptimizerOptions:clip-value].
 *
 * Returns: the value
 *
 * Since: 1.0
 */
double
rlx_optimizer_options_get_clip_value (RlxOptimizerOptions *self)
{
  g_return_val_if_fail (RLX_IS_OPTIMIZER_OPTIONS (self), 0);

  return self->settings.clip_value;
}

/**
 * rlx_optimizer_options_set_clip_value: (set-property clip-value)
 * @self: options
 * @clip_value: the value
 *
 * Sets the value of [property@Rlx.OptimizerOptions:clip-value].
 *
 * Since: 1.0
 */
void
rlx_optimizer_options_set_clip_value (RlxOptimizerOptions *self,
                               double clip_value)
{
  g_return_if_fail (RLX_IS_OPTIMIZER_OPTIONS (self));

  if (self->settings.clip_value == clip_value)
    return;

  self->settings.clip_value = clip_value;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_CLIP_VALUE]);
}

/**
 * rlx_optimizer_options_get_skip_not_finite: (get-property skip-not-finite)
 * @self: options
 *
 * Gets the value of [property@Rlx.OptimizerOptions:skip-not-finite].
 *
 * Returns: the value
 *
 * Since: 1.0
 */
gboolean
rlx_optimizer_options_get_skip_not_finite (RlxOptimizerOptions *self)
{
  g_return_val_if_fail (RLX_IS_OPTIMIZER_OPTIONS (self), FALSE);

  return self->settings.skip_not_finite;
}

/**
 * rlx_optimizer_options_set_skip_not_finite: (set-property skip-not-finite)
 * @self: options
 * @skip_not_finite: the value
 *
 * Sets the value of [property@Rlx.OptimizerOptions:skip-not-finite].
 *
 * Since: 1.0
 */
void
rlx_optimizer_options_set_skip_not_finite (RlxOptimizerOptions *self,
                               gboolean skip_not_finite)
{
  g_return_if_fail (RLX_IS_OPTIMIZER_OPTIONS (self));

  skip_not_finite = skip_not_finite != FALSE;
  if (self->settings.skip_not_finite == skip_not_finite)
    return;

  self->settings.skip_not_finite = skip_not_finite;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_SKIP_NOT_FINITE]);
}

/**
 * rlx_optimizer_options_get_scale_loss: (get-property scale-loss)
 * @self: options
 *
 * Gets the value of [property@Rlx.OptimizerOptions:scale-loss].
 *
 * Returns: the value
 *
 * Since: 1.0
 */
gboolean
rlx_optimizer_options_get_scale_loss (RlxOptimizerOptions *self)
{
  g_return_val_if_fail (RLX_IS_OPTIMIZER_OPTIONS (self), FALSE);

  return self->settings.scale_loss;
}

/**
 * rlx_optimizer_options_set_scale_loss: (set-property scale-loss)
 * @self: options
 * @scale_loss: the value
 *
 * Sets the value of [property@Rlx.OptimizerOptions:scale-loss].
 *
 * Since: 1.0
 */
void
rlx_optimizer_options_set_scale_loss (RlxOptimizerOptions *self,
                               gboolean scale_loss)
{
  g_return_if_fail (RLX_IS_OPTIMIZER_OPTIONS (self));

  scale_loss = scale_loss != FALSE;
  if (self->settings.scale_loss == scale_loss)
    return;

  self->settings.scale_loss = scale_loss;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_SCALE_LOSS]);
}

/**
 * rlx_optimizer_options_get_recompute: (get-property recompute)
 * @self: options
 *
 * Gets the value of [property@Rlx.OptimizerOptions:recompute].
 *
 * Returns: the value
 *
 * Since: 1.0
 */
gboolean
rlx_optimizer_options_get_recompute (RlxOptimizerOptions *self)
{
  g_return_val_if_fail (RLX_IS_OPTIMIZER_OPTIONS (self), FALSE);

  return self->settings.recompute;
}

/**
 * rlx_optimizer_options_set_recompute: (set-property recompute)
 * @self: options
 * @recompute: the value
 *
 * Sets the value of [property@Rlx.OptimizerOptions:recompute].
 *
 * Since: 1.0
 */
void
rlx_optimizer_options_set_recompute (RlxOptimizerOptions *self,
                               gboolean recompute)
{
  g_return_if_fail (RLX_IS_OPTIMIZER_OPTIONS (self));

  recompute = recompute != FALSE;
  if (self->settings.recompute == recompute)
    return;

  self->settings.recompute = recompute;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_RECOMPUTE]);
}

/**
 * rlx_optimizer_options_get_accumulate: (get-property accumulate)
 * @self: options
 *
 * Gets the value of [property@Rlx.OptimizerOptions:accumulate].
 *
 * Returns: the value
 *
 * Since: 1.0
 */
guint
rlx_optimizer_options_get_accumulate (RlxOptimizerOptions *self)
{
  g_return_val_if_fail (RLX_IS_OPTIMIZER_OPTIONS (self), 0);

  return self->settings.accumulate;
}

/**
 * rlx_optimizer_options_set_accumulate: (set-property accumulate)
 * @self: options
 * @accumulate: the value
 *
 * Sets the value of [property@Rlx.OptimizerOptions:accumulate].
 *
 * Since: 1.0
 */
void
rlx_optimizer_options_set_accumulate (RlxOptimizerOptions *self,
                               guint accumulate)
{
  g_return_if_fail (RLX_IS_OPTIMIZER_OPTIONS (self));

  if (self->settings.accumulate == accumulate)
    return;

  self->settings.accumulate = accumulate;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_ACCUMULATE]);
}

/**
 * rlx_optimizer_options_get_rate: (get-property rate)
 * @self: options
 *
 * Gets the value of [property@Rlx.OptimizerOptions:rate].
 *
 * Returns: (transfer none) (nullable): the node
 *
 * Since: 1.0
 */
RlxNode *
rlx_optimizer_options_get_rate (RlxOptimizerOptions *self)
{
  g_return_val_if_fail (RLX_IS_OPTIMIZER_OPTIONS (self), NULL);

  return self->rate;
}

/**
 * rlx_optimizer_options_set_rate: (set-property rate)
 * @self: options
 * @rate: (nullable): the node
 *
 * Sets the value of [property@Rlx.OptimizerOptions:rate].
 *
 * Since: 1.0
 */
void
rlx_optimizer_options_set_rate (RlxOptimizerOptions *self,
                                RlxNode             *rate)
{
  g_return_if_fail (RLX_IS_OPTIMIZER_OPTIONS (self));
  g_return_if_fail (rate == NULL || RLX_IS_NODE (rate));

  if (g_set_object (&self->rate, rate))
    g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_RATE]);
}

const RlxOptimizerSettings *
rlx_optimizer_options_peek (RlxOptimizerOptions *self)
{
  return &self->settings;
}
