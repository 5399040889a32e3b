/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-gradient-options-private.h"

#include "rlx-node.h"

/**
 * RlxGradientOptions:
 *
 * Options of [method@Rlx.Graph.gradient].
 *
 * In Python these are keyword arguments of the method.
 *
 * Since: 1.0
 */
struct _RlxGradientOptions
{
  GObject parent_instance;

  RlxNode *seed;
  GArray *losses;            /* RlxMoreLoss */
  gboolean allow_unused;
  gboolean recompute;
};

enum
{
  PROP_0,
  PROP_ALLOW_UNUSED,
  PROP_RECOMPUTE,
  PROP_SEED,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

G_DEFINE_FINAL_TYPE (RlxGradientOptions, rlx_gradient_options, G_TYPE_OBJECT)

static void
more_loss_clear (gpointer data)
{
  RlxMoreLoss *more = data;

  g_clear_object (&more->loss);
  g_clear_object (&more->seed);
}

static void
rlx_gradient_options_dispose (GObject *object)
{
  RlxGradientOptions *self = RLX_GRADIENT_OPTIONS (object);

  g_clear_object (&self->seed);
  g_clear_pointer (&self->losses, g_array_unref);
  G_OBJECT_CLASS (rlx_gradient_options_parent_class)->dispose (object);
}

static void
rlx_gradient_options_get_property (GObject    *object,
                                   guint       id,
                                   GValue     *value,
                                   GParamSpec *pspec)
{
  RlxGradientOptions *self = RLX_GRADIENT_OPTIONS (object);

  switch (id)
    {
    case PROP_ALLOW_UNUSED:
      g_value_set_boolean (value, self->allow_unused);
      break;
    case PROP_RECOMPUTE:
      g_value_set_boolean (value, self->recompute);
      break;
    case PROP_SEED:
      g_value_set_object (value, self->seed);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
rlx_gradient_options_set_property (GObject      *object,
                                   guint         id,
                                   const GValue *value,
                                   GParamSpec   *pspec)
{
  RlxGradientOptions *self = RLX_GRADIENT_OPTIONS (object);

  switch (id)
    {
    case PROP_ALLOW_UNUSED:
      rlx_gradient_options_set_allow_unused (self, g_value_get_boolean (value));
      break;
    case PROP_RECOMPUTE:
      rlx_gradient_options_set_recompute (self, g_value_get_boolean (value));
      break;
    case PROP_SEED:
      rlx_gradient_options_set_seed (self, g_value_get_object (value));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
rlx_gradient_options_class_init (RlxGradientOptionsClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->dispose = rlx_gradient_options_dispose;
  object_class->get_property = rlx_gradient_options_get_property;
  object_class->set_property = rlx_gradient_options_set_property;

  /**
   * RlxGradientOptions:allow-unused:
   *
   * Whether the gradient with respect to a node that the loss does not depend on is
   * zero instead of an error.
   *
   * Since: 1.0
   */
  properties[PROP_ALLOW_UNUSED] = g_param_spec_boolean ("allow-unused", NULL, NULL, FALSE, flags);

  /**
   * RlxGradientOptions:recompute:
   *
   * Whether activations are recomputed when gradients need them, instead of kept.
   *
   * The graph is cut where little data passes from one segment to the next, and only
   * the activations of one segment are kept at a time. This takes up to a third more
   * time, and the memory of a deep network grows with the square root of its depth
   * instead of with its depth. [method@Rlx.Executable.get_arena_size] tells how much
   * memory is used.
   *
   * Since: 1.0
   */
  properties[PROP_RECOMPUTE] = g_param_spec_boolean ("recompute", NULL, NULL, FALSE, flags);

  /**
   * RlxGradientOptions:seed:
   *
   * The weights of the loss: it is multiplied by them, element by element, before its
   * elements are added up. All are 1 if there is no seed.
   *
   * The seed has the shape and data type of the loss, which may then have any number of
   * elements. The result is the vector-Jacobian product.
   *
   * Since: 1.0
   */
  properties[PROP_SEED] = g_param_spec_object ("seed", NULL, NULL, RLX_TYPE_NODE, flags);

  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
rlx_gradient_options_init (RlxGradientOptions *self)
{
  self->losses = g_array_new (FALSE, FALSE, sizeof (RlxMoreLoss));
  g_array_set_clear_func (self->losses, more_loss_clear);
}

/**
 * rlx_gradient_options_new:
 *
 * Creates options with default values.
 *
 * Returns: (transfer full): new options
 *
 * Since: 1.0
 */
RlxGradientOptions *
rlx_gradient_options_new (void)
{
  return g_object_new (RLX_TYPE_GRADIENT_OPTIONS, NULL);
}

/**
 * rlx_gradient_options_get_seed: (get-property seed)
 * @self: options
 *
 * Gets the value of [property@Rlx.GradientOptions:seed].
 *
 * Returns: (transfer none) (nullable): the seed
 *
 * Since: 1.0
 */
RlxNode *
rlx_gradient_options_get_seed (RlxGradientOptions *self)
{
  g_return_val_if_fail (RLX_IS_GRADIENT_OPTIONS (self), NULL);

  return self->seed;
}

/**
 * rlx_gradient_options_set_seed: (set-property seed)
 * @self: options
 * @seed: (nullable): the seed
 *
 * Sets the value of [property@Rlx.GradientOptions:seed].
 *
 * Since: 1.0
 */
void
rlx_gradient_options_set_seed (RlxGradientOptions *self,
                               RlxNode            *seed)
{
  g_return_if_fail (RLX_IS_GRADIENT_OPTIONS (self));
  g_return_if_fail (seed == NULL || RLX_IS_NODE (seed));

  if (g_set_object (&self->seed, seed))
    g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_SEED]);
}

/**
 * rlx_gradient_options_get_allow_unused: (get-property allow-unused)
 * @self: options
 *
 * Gets the value of [property@Rlx.GradientOptions:allow-unused].
 *
 * Returns: the value
 *
 * Since: 1.0
 */
gboolean
rlx_gradient_options_get_allow_unused (RlxGradientOptions *self)
{
  g_return_val_if_fail (RLX_IS_GRADIENT_OPTIONS (self), FALSE);

  return self->allow_unused;
}

/**
 * rlx_gradient_options_set_allow_unused: (set-property allow-unused)
 * @self: options
 * @allow_unused: whether the gradient with respect to a node that the loss does not
 *   depend on is zero
 *
 * Sets the value of [property@Rlx.GradientOptions:allow-unused].
 *
 * Since: 1.0
 */
void
rlx_gradient_options_set_allow_unused (RlxGradientOptions *self,
                                       gboolean            allow_unused)
{
  g_return_if_fail (RLX_IS_GRADIENT_OPTIONS (self));

  allow_unused = allow_unused != FALSE;
  if (self->allow_unused == allow_unused)
    return;

  self->allow_unused = allow_unused;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_ALLOW_UNUSED]);
}

/**
 * rlx_gradient_options_get_recompute: (get-property recompute)
 * @self: options
 *
 * Gets the value of [property@Rlx.GradientOptions:recompute].
 *
 * Returns: the value
 *
 * Since: 1.0
 */
gboolean
rlx_gradient_options_get_recompute (RlxGradientOptions *self)
{
  g_return_val_if_fail (RLX_IS_GRADIENT_OPTIONS (self), FALSE);

  return self->recompute;
}

/**
 * rlx_gradient_options_set_recompute: (set-property recompute)
 * @self: options
 * @recompute: whether activations are recomputed instead of kept
 *
 * Sets the value of [property@Rlx.GradientOptions:recompute].
 *
 * Since: 1.0
 */
void
rlx_gradient_options_set_recompute (RlxGradientOptions *self,
                                    gboolean            recompute)
{
  g_return_if_fail (RLX_IS_GRADIENT_OPTIONS (self));

  recompute = recompute != FALSE;
  if (self->recompute == recompute)
    return;

  self->recompute = recompute;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_RECOMPUTE]);
}

/**
 * rlx_gradient_options_add_loss:
 * @self: options
 * @loss: another loss
 * @seed: (nullable): its weights, as for [property@Rlx.GradientOptions:seed]
 *
 * Adds another loss. Gradients are those of the sum of all losses.
 *
 * Since: 1.0
 */
void
rlx_gradient_options_add_loss (RlxGradientOptions *self,
                               RlxNode            *loss,
                               RlxNode            *seed)
{
  RlxMoreLoss more = { NULL };

  g_return_if_fail (RLX_IS_GRADIENT_OPTIONS (self));
  g_return_if_fail (RLX_IS_NODE (loss));
  g_return_if_fail (seed == NULL || RLX_IS_NODE (seed));

  g_set_object (&more.loss, loss);
  g_set_object (&more.seed, seed);
  g_array_append_val (self->losses, more);
}

const GArray *
rlx_gradient_options_peek_losses (RlxGradientOptions *self)
{
  return self->losses;
}
