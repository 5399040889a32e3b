/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-device-private.h"

/**
 * RlxProfile:
 *
 * Where the time of a run went: a list of [class@Rlx.ProfileStep], one for each kernel,
 * in the order in which they ran.
 *
 * Set [property@Rlx.Executable:profiling] before a run, and call
 * [method@Rlx.Executable.dup_profile] after it.
 *
 * Since: 1.0
 */
struct _RlxProfile
{
  GObject parent_instance;

  GPtrArray *steps;
  double total_time;
  double wall_time;
};

/**
 * RlxProfileStep:
 *
 * One kernel of a [class@Rlx.Profile].
 *
 * Since: 1.0
 */
struct _RlxProfileStep
{
  GObject parent_instance;

  char *op;
  char *kernel;
  char *node;
  double time;
  double operations;
  double bytes;
};

enum
{
  STEP_PROP_0,
  STEP_PROP_BYTES,
  STEP_PROP_KERNEL,
  STEP_PROP_NODE,
  STEP_PROP_OP,
  STEP_PROP_OPERATIONS,
  STEP_PROP_TIME,
  N_STEP_PROPS
};

static GParamSpec *step_properties[N_STEP_PROPS];

G_DEFINE_FINAL_TYPE (RlxProfileStep, rlx_profile_step, G_TYPE_OBJECT)

static void
rlx_profile_step_finalize (GObject *object)
{
  RlxProfileStep *self = RLX_PROFILE_STEP (object);

  g_free (self->op);
  g_free (self->kernel);
  g_free (self->node);
  G_OBJECT_CLASS (rlx_profile_step_parent_class)->finalize (object);
}

static void
rlx_profile_step_get_property (GObject    *object,
                               guint       id,
                               GValue     *value,
                               GParamSpec *pspec)
{
  RlxProfileStep *self = RLX_PROFILE_STEP (object);

  switch (id)
    {
    case STEP_PROP_BYTES:
      g_value_set_double (value, self->bytes);
      break;
    case STEP_PROP_KERNEL:
      g_value_set_string (value, self->kernel);
      break;
    case STEP_PROP_NODE:
      g_value_set_string (value, self->node);
      break;
    case STEP_PROP_OP:
      g_value_set_string (value, self->op);
      break;
    case STEP_PROP_OPERATIONS:
      g_value_set_double (value, self->operations);
      break;
    case STEP_PROP_TIME:
      g_value_set_double (value, self->time);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
rlx_profile_step_class_init (RlxProfileStepClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->finalize = rlx_profile_step_finalize;
  object_class->get_property = rlx_profile_step_get_property;

  /**
   * RlxProfileStep:bytes:
   *
   * The least number of bytes that the kernel has to read and write.
   *
   * Since: 1.0
   */
  step_properties[STEP_PROP_BYTES] = g_param_spec_double ("bytes", NULL, NULL, 0, G_MAXDOUBLE, 0, flags);
  /**
   * RlxProfileStep:kernel:
   *
   * The name of the kernel.
   *
   * Since: 1.0
   */
  step_properties[STEP_PROP_KERNEL] = g_param_spec_string ("kernel", NULL, NULL, NULL, flags);
  /**
   * RlxProfileStep:node:
   *
   * The name of the node, or its number in the graph's text form.
   *
   * Since: 1.0
   */
  step_properties[STEP_PROP_NODE] = g_param_spec_string ("node", NULL, NULL, NULL, flags);
  /**
   * RlxProfileStep:op:
   *
   * The name of the operator; `fused` for several element-wise operators in one kernel.
   *
   * Since: 1.0
   */
  step_properties[STEP_PROP_OP] = g_param_spec_string ("op", NULL, NULL, NULL, flags);
  /**
   * RlxProfileStep:operations:
   *
   * How many floating-point operations the kernel does.
   *
   * Since: 1.0
   */
  step_properties[STEP_PROP_OPERATIONS] = g_param_spec_double ("operations", NULL, NULL, 0, G_MAXDOUBLE, 0, flags);
  /**
   * RlxProfileStep:time:
   *
   * The seconds that the kernel took, by the GPU's clock; 0 if the device has none.
   *
   * Since: 1.0
   */
  step_properties[STEP_PROP_TIME] = g_param_spec_double ("time", NULL, NULL, 0, G_MAXDOUBLE, 0, flags);
  g_object_class_install_properties (object_class, N_STEP_PROPS, step_properties);
}

static void
rlx_profile_step_init (RlxProfileStep *self)
{
}

/* ---- the list ------------------------------------------------------------------- */

enum
{
  PROP_0,
  PROP_TOTAL_TIME,
  PROP_WALL_TIME,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

static GType
rlx_profile_get_item_type (GListModel *model)
{
  return RLX_TYPE_PROFILE_STEP;
}

static guint
rlx_profile_get_n_items (GListModel *model)
{
  return RLX_PROFILE (model)->steps->len;
}

static gpointer
rlx_profile_get_item (GListModel *model,
                      guint       position)
{
  RlxProfile *self = RLX_PROFILE (model);

  return position < self->steps->len ? g_object_ref (g_ptr_array_index (self->steps, position)) : NULL;
}

static void
rlx_profile_list_model_init (GListModelInterface *iface)
{
  iface->get_item_type = rlx_profile_get_item_type;
  iface->get_n_items = rlx_profile_get_n_items;
  iface->get_item = rlx_profile_get_item;
}

G_DEFINE_FINAL_TYPE_WITH_CODE (RlxProfile, rlx_profile, G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (G_TYPE_LIST_MODEL, rlx_profile_list_model_init))

static void
rlx_profile_finalize (GObject *object)
{
  g_ptr_array_unref (RLX_PROFILE (object)->steps);
  G_OBJECT_CLASS (rlx_profile_parent_class)->finalize (object);
}

static void
rlx_profile_get_property (GObject    *object,
                          guint       id,
                          GValue     *value,
                          GParamSpec *pspec)
{
  RlxProfile *self = RLX_PROFILE (object);

  switch (id)
    {
    case PROP_TOTAL_TIME:
      g_value_set_double (value, self->total_time);
      break;
    case PROP_WALL_TIME:
      g_value_set_double (value, self->wall_time);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
rlx_profile_class_init (RlxProfileClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->finalize = rlx_profile_finalize;
  object_class->get_property = rlx_profile_get_property;

  /**
   * RlxProfile:total-time:
   *
   * The seconds that all kernels took together, by the GPU's clock; 0 if the device has
   * none.
   *
   * Since: 1.0
   */
  properties[PROP_TOTAL_TIME] = g_param_spec_double ("total-time", NULL, NULL, 0, G_MAXDOUBLE, 0, flags);
  /**
   * RlxProfile:wall-time:
   *
   * The seconds from the start of the upload to the end of the download.
   *
   * Since: 1.0
   */
  properties[PROP_WALL_TIME] = g_param_spec_double ("wall-time", NULL, NULL, 0, G_MAXDOUBLE, 0, flags);
  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
rlx_profile_init (RlxProfile *self)
{
  self->steps = g_ptr_array_new_with_free_func (g_object_unref);
}

RlxProfile *
rlx_profile_new (const RlxPlan *plan,
                 const guint   *steps,
                 guint          n_steps,
                 const guint64 *times,
                 double         wall_time)
{
  RlxProfile *self = g_object_new (RLX_TYPE_PROFILE, NULL);

  self->wall_time = wall_time;
  for (guint i = 0; i < n_steps; i++)
    {
      const RlxStep *step = g_ptr_array_index (plan->steps, steps[i]);
      RlxProfileStep *item = g_object_new (RLX_TYPE_PROFILE_STEP, NULL);

      item->op = g_strdup (step->op);
      item->kernel = g_strdup (step->kernel);
      item->node = g_strdup (step->label);
      item->operations = step->flops;
      item->bytes = step->bytes;
      item->time = times ? (double) times[i] * 1e-9 : 0;
      self->total_time += item->time;
      g_ptr_array_add (self->steps, item);
    }
  return self;
}

/**
 * rlx_profile_get_total_time: (get-property total-time)
 * @self: a profile
 *
 * Gets the time that all kernels took together, by the GPU's clock.
 *
 * Returns: the time in seconds; 0 if the device has no clock
 *
 * Since: 1.0
 */
double
rlx_profile_get_total_time (RlxProfile *self)
{
  g_return_val_if_fail (RLX_IS_PROFILE (self), 0);

  return self->total_time;
}

/**
 * rlx_profile_get_wall_time: (get-property wall-time)
 * @self: a profile
 *
 * Gets the time from the start of the upload to the end of the download.
 *
 * Returns: the time in seconds
 *
 * Since: 1.0
 */
double
rlx_profile_get_wall_time (RlxProfile *self)
{
  g_return_val_if_fail (RLX_IS_PROFILE (self), 0);

  return self->wall_time;
}

/**
 * rlx_profile_to_string:
 * @self: a profile
 *
 * Writes the profile as a table.
 *
 * Returns: (transfer full): the text
 *
 * Since: 1.0
 */
char *
rlx_profile_to_string (RlxProfile *self)
{
  GString *out;

  g_return_val_if_fail (RLX_IS_PROFILE (self), NULL);

  out = g_string_new (NULL);
  g_string_append_printf (out, "%10s %9s %9s  %-28s %s\n", "µs", "GFLOPS", "GB/s", "kernel", "node");
  for (guint i = 0; i < self->steps->len; i++)
    {
      const RlxProfileStep *step = g_ptr_array_index (self->steps, i);
      double scale = step->time > 0 ? 1e-9 / step->time : 0;

      g_string_append_printf (out, "%10.1f %9.2f %9.2f  %-28s %s\n", step->time * 1e6,
                              step->operations * scale, step->bytes * scale, step->kernel, step->node);
    }
  g_string_append_printf (out, "%10.1f µs in kernels, %.1f µs in all\n", self->total_time * 1e6, self->wall_time * 1e6);
  return g_string_free (out, FALSE);
}

/**
 * rlx_profile_step_get_op: (get-property op)
 * @self: a step
 *
 * Gets the name of the operator; `fused` for several element-wise operators in one
 * kernel.
 *
 * Returns: (transfer none): the name
 *
 * Since: 1.0
 */
const char *
rlx_profile_step_get_op (RlxProfileStep *self)
{
  g_return_val_if_fail (RLX_IS_PROFILE_STEP (self), NULL);

  return self->op;
}

/**
 * rlx_profile_step_get_kernel: (get-property kernel)
 * @self: a step
 *
 * Gets the name of the kernel.
 *
 * Returns: (transfer none): the name
 *
 * Since: 1.0
 */
const char *
rlx_profile_step_get_kernel (RlxProfileStep *self)
{
  g_return_val_if_fail (RLX_IS_PROFILE_STEP (self), NULL);

  return self->kernel;
}

/**
 * rlx_profile_step_get_node: (get-property node)
 * @self: a step
 *
 * Gets the name of the node, or its number in the graph's text form.
 *
 * Returns: (transfer none): the name
 *
 * Since: 1.0
 */
const char *
rlx_profile_step_get_node (RlxProfileStep *self)
{
  g_return_val_if_fail (RLX_IS_PROFILE_STEP (self), NULL);

  return self->node;
}

/**
 * rlx_profile_step_get_time: (get-property time)
 * @self: a step
 *
 * Gets the time that the kernel took, by the GPU's clock.
 *
 * Returns: the time in seconds; 0 if the device has no clock
 *
 * Since: 1.0
 */
double
rlx_profile_step_get_time (RlxProfileStep *self)
{
  g_return_val_if_fail (RLX_IS_PROFILE_STEP (self), 0);

  return self->time;
}

/**
 * rlx_profile_step_get_operations: (get-property operations)
 * @self: a step
 *
 * Gets how many floating-point operations the kernel does.
 *
 * Returns: the number
 *
 * Since: 1.0
 */
double
rlx_profile_step_get_operations (RlxProfileStep *self)
{
  g_return_val_if_fail (RLX_IS_PROFILE_STEP (self), 0);

  return self->operations;
}

/**
 * rlx_profile_step_get_bytes: (get-property bytes)
 * @self: a step
 *
 * Gets the least number of bytes that the kernel has to read and write.
 *
 * Returns: the number
 *
 * Since: 1.0
 */
double
rlx_profile_step_get_bytes (RlxProfileStep *self)
{
  g_return_val_if_fail (RLX_IS_PROFILE_STEP (self), 0);

  return self->bytes;
}
