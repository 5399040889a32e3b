/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-device-private.h"

/**
 * RlxProfile:
 *
 * Where the time of a run went: a list of [class@Rlx.ProfileStep], one for each
 * kernel in the order they ran.
 *
 * Set [property@Rlx.Executable:profiling] before a run and ask for
 * [method@Rlx.Executable.get_profile] after it.
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
  double flops;
  double bytes;
};

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
rlx_profile_step_class_init (RlxProfileStepClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = rlx_profile_step_finalize;
}

static void
rlx_profile_step_init (RlxProfileStep *self)
{
}

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
rlx_profile_class_init (RlxProfileClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = rlx_profile_finalize;
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
      item->flops = step->flops;
      item->bytes = step->bytes;
      item->time = times ? (double) times[i] * 1e-9 : 0;
      self->total_time += item->time;
      g_ptr_array_add (self->steps, item);
    }
  return self;
}

/**
 * rlx_profile_get_total_time:
 * @self: a profile
 *
 * Gets the time all kernels took together, by the GPU's clock.
 *
 * Returns: the time in seconds; 0 when the device has no clock
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
 * rlx_profile_get_wall_time:
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
                              step->flops * scale, step->bytes * scale, step->kernel, step->node);
    }
  g_string_append_printf (out, "%10.1f µs in kernels, %.1f µs in all\n", self->total_time * 1e6, self->wall_time * 1e6);
  return g_string_free (out, FALSE);
}

/**
 * rlx_profile_step_get_op:
 * @self: a step
 *
 * Gets the name of the operator; `fused` for a region of element-wise ones.
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
 * rlx_profile_step_get_kernel:
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
 * rlx_profile_step_get_node:
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
 * rlx_profile_step_get_time:
 * @self: a step
 *
 * Gets the time the kernel took, by the GPU's clock.
 *
 * Returns: the time in seconds; 0 when the device has no clock
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
 * rlx_profile_step_get_flops:
 * @self: a step
 *
 * Gets how many floating-point operations the kernel does.
 *
 * Returns: the number
 *
 * Since: 1.0
 */
double
rlx_profile_step_get_flops (RlxProfileStep *self)
{
  g_return_val_if_fail (RLX_IS_PROFILE_STEP (self), 0);

  return self->flops;
}

/**
 * rlx_profile_step_get_bytes:
 * @self: a step
 *
 * Gets how many bytes the kernel has to read and write at least.
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
