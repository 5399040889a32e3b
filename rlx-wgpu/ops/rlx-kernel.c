/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "ops/rlx-kernel-private.h"

#include <math.h>
#include <string.h>

#include "ops/rlx-fused-private.h"
#include "ops/rlx-step-private.h"

#define DEFAULT_WORKGROUP_SIZE 64

struct _RlxKernel
{
  RlxLower *lower;
  RlxStep *step;
  char *excess;       /* nullable: the first parameter that does not fit 32 bits */
};

static RlxKernel *
kernel_new (RlxLower        *lower,
            const RlxIrNode *node)
{
  RlxKernel *self = g_new0 (RlxKernel, 1);
  RlxStep *step = g_new0 (RlxStep, 1);

  self->lower = lower;
  self->step = step;
  step->op = g_strdup (node->op->name);
  step->label = node->name ? g_strdup (node->name) : g_strdup_printf ("%%%u", node->origin);
  step->template = rlx_template_new ();
  step->workgroup_size = DEFAULT_WORKGROUP_SIZE;
  step->args = g_array_new (FALSE, TRUE, sizeof (RlxArg));
  step->params = g_array_new (FALSE, TRUE, sizeof (RlxParam));
  return self;
}

RlxKernel *
rlx_kernel_new (RlxLower        *lower,
                const RlxIrNode *node,
                const char      *file)
{
  RlxKernel *self = kernel_new (lower, node);

  self->step->file = g_strconcat (file, ".wgsl", NULL);
  self->step->kernel = g_strdup (file);
  return self;
}

RlxKernel *
rlx_kernel_new_generated (RlxLower        *lower,
                          const RlxIrNode *node,
                          const char      *kernel,
                          char            *body)
{
  RlxKernel *self = kernel_new (lower, node);

  self->step->body = body;
  self->step->kernel = g_strdup (kernel);
  return self;
}

static void
kernel_arg (RlxKernel        *self,
            const char       *name,
            const RlxIrValue *value,
            gboolean          is_output,
            gboolean          raw)
{
  RlxArg arg = {
    .name = g_strdup (name),
    .data_type = rlx_data_type_on_device (value->type.data_type),
    .raw = raw,
    .width = 1,
    .is_output = is_output,
    .slot = rlx_lower_get_slot (self->lower, value),
    .n_elements = rlx_type_n_elements (&value->type),
    .in_place = -1,
  };

  g_array_append_val (self->step->args, arg);
}

void
rlx_kernel_input (RlxKernel        *self,
                  const char       *name,
                  const RlxIrValue *value)
{
  kernel_arg (self, name, value, FALSE, FALSE);
}

void
rlx_kernel_input_vector (RlxKernel        *self,
                         const char       *name,
                         const RlxIrValue *value,
                         guint             width)
{
  g_assert (width == 2 || width == 4);
  g_assert (rlx_data_type_is_float (value->type.data_type) || value->type.data_type == RLX_DATA_TYPE_U32);

  kernel_arg (self, name, value, FALSE, FALSE);
  g_array_index (self->step->args, RlxArg, self->step->args->len - 1).width = width;
}

void
rlx_kernel_output (RlxKernel        *self,
                   const char       *name,
                   const RlxIrValue *value)
{
  kernel_arg (self, name, value, TRUE, FALSE);
}

void
rlx_kernel_output_vector (RlxKernel        *self,
                          const char       *name,
                          const RlxIrValue *value)
{
  g_assert (rlx_data_type_is_float (value->type.data_type));

  kernel_arg (self, name, value, TRUE, FALSE);
  g_array_index (self->step->args, RlxArg, self->step->args->len - 1).width = 4;
}

void
rlx_kernel_input_raw (RlxKernel        *self,
                      const char       *name,
                      const RlxIrValue *value)
{
  kernel_arg (self, name, value, FALSE, TRUE);
}

void
rlx_kernel_output_raw (RlxKernel        *self,
                       const char       *name,
                       const RlxIrValue *value)
{
  kernel_arg (self, name, value, TRUE, TRUE);
}

void
rlx_kernel_output_atomic (RlxKernel        *self,
                          const char       *name,
                          const RlxIrValue *value)
{
  kernel_arg (self, name, value, TRUE, TRUE);
  g_array_index (self->step->args, RlxArg, self->step->args->len - 1).atomic = TRUE;
}

/* Sizes and attributes come from outside: rlx_kernel_dispatch() rejects the step. */
static gboolean
check_param (RlxKernel  *self,
             const char *name,
             gboolean    fits,
             gint64      value)
{
  if (!fits && self->excess == NULL)
    self->excess = g_strdup_printf ("%s of %" G_GINT64_FORMAT, name, value);
  return fits;
}

static void
kernel_param (RlxKernel   *self,
              const char  *name,
              RlxParamKind kind,
              guint32      bits)
{
  RlxParam param = { g_strdup (name), kind, bits };

  g_array_append_val (self->step->params, param);
}

void
rlx_kernel_param_u32 (RlxKernel  *self,
                      const char *name,
                      guint64     value)
{
  if (check_param (self, name, value <= G_MAXUINT32, (gint64) value))
    kernel_param (self, name, RLX_PARAM_U32, (guint32) value);
}

void
rlx_kernel_param_u32_at (RlxKernel  *self,
                         const char *prefix,
                         guint       index,
                         guint64     value)
{
  char name[32];

  g_snprintf (name, sizeof name, "%s%u", prefix, index);
  rlx_kernel_param_u32 (self, name, value);
}

void
rlx_kernel_param_divisor (RlxKernel  *self,
                          const char *prefix,
                          guint       index,
                          guint64     value)
{
  g_autofree char *multiplier = g_strconcat (prefix, "m", NULL), *log = g_strconcat (prefix, "l", NULL);
  guint l = value > 1 ? g_bit_storage (value - 1) : 0;

  rlx_kernel_param_u32_at (self, prefix, index, value);
  rlx_kernel_param_u32_at (self, multiplier, index, ((((guint64) 1 << l) - value) << 32) / value + 1);
  rlx_kernel_param_u32_at (self, log, index, l);
}

void
rlx_kernel_param_i32 (RlxKernel  *self,
                      const char *name,
                      gint64      value)
{
  if (check_param (self, name, value >= G_MININT32 && value <= G_MAXINT32, value))
    kernel_param (self, name, RLX_PARAM_I32, (guint32) (gint32) value);
}

void
rlx_kernel_param_f32 (RlxKernel  *self,
                      const char *name,
                      double      value)
{
  float f = (float) value;
  guint32 bits;

  memcpy (&bits, &f, sizeof bits);
  kernel_param (self, name, RLX_PARAM_F32, bits);
}

void
rlx_kernel_define (RlxKernel  *self,
                   const char *name,
                   gint64      value)
{
  if (g_str_equal (name, "WG"))
    self->step->workgroup_size = (guint) value;
  else
    rlx_template_set_int (self->step->template, name, value);
}

void
rlx_kernel_define_text (RlxKernel  *self,
                        const char *name,
                        const char *text)
{
  rlx_template_set_text (self->step->template, name, text);
}

void
rlx_kernel_enable (RlxKernel  *self,
                   const char *directive)
{
  RlxStep *step = self->step;
  g_autofree char *before = step->enables;

  step->enables = g_strconcat (before ? before : "", directive, "\n", NULL);
}

void
rlx_kernel_set_subgroup_size (RlxKernel *self,
                              guint      size)
{
  self->step->subgroup_size = size;
}

void
rlx_kernel_set_cost (RlxKernel *self,
                     double     flops,
                     double     bytes)
{
  self->step->flops = flops;
  self->step->bytes = bytes;
}

static int
find_arg (RlxStep    *step,
          const char *name)
{
  for (guint i = 0; i < step->args->len; i++)
    if (g_str_equal (g_array_index (step->args, RlxArg, i).name, name))
      return (int) i;
  g_assert_not_reached ();
}

void
rlx_kernel_allow_in_place (RlxKernel  *self,
                           const char *input,
                           const char *output)
{
  int i = find_arg (self->step, input);

  g_array_index (self->step->args, RlxArg, i).in_place = find_arg (self->step, output);
}

void
rlx_kernel_merge (RlxKernel  *self,
                  const char *input)
{
  RlxStep *step = self->step;
  RlxArg *arg = &g_array_index (step->args, RlxArg, find_arg (step, input));

  for (guint i = 0; i < step->args->len; i++)
    {
      const RlxArg *output = &g_array_index (step->args, RlxArg, i);

      if (output->is_output && output->slot == arg->slot)
        {
          g_assert (output->width == arg->width && output->data_type == arg->data_type);
          arg->in_place = (int) i;
          arg->merged = TRUE;
        }
    }
}

void
rlx_kernel_free (RlxKernel *self)
{
  rlx_step_free (self->step);
  g_free (self->excess);
  g_free (self);
}

gboolean
rlx_kernel_dispatch (RlxKernel *self,
                     guint64    n_workgroups,
                     GError   **error)
{
  RlxStep *step = self->step;
  RlxLower *lower = self->lower;
  guint64 width = rlx_lower_get_target (lower)->limits.max_workgroups;
  guint64 height = 1;

  if (self->excess != NULL)
    {
      g_set_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_LIMIT,
                   "%s “%s”: the kernel “%s” takes numbers of 32 bits, which is too little for its parameter %s",
                   step->op, step->label, step->kernel, self->excess);
      rlx_kernel_free (self);
      return FALSE;
    }
  g_free (self);
  if (n_workgroups == 0)
    {
      rlx_step_free (step);
      return TRUE;
    }

  /* Nearly square, so that few workgroups are started in vain. */
  if (n_workgroups > width)
    {
      height = (n_workgroups + width - 1) / width;
      width = (n_workgroups + height - 1) / height;
    }
  else
    {
      width = n_workgroups;
    }
  if (height > rlx_lower_get_target (lower)->limits.max_workgroups)
    {
      g_set_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_LIMIT,
                   "%s “%s” needs %" G_GUINT64_FORMAT " workgroups, the device allows %u squared (maxComputeWorkgroupsPerDimension)",
                   step->op, step->label, n_workgroups, rlx_lower_get_target (lower)->limits.max_workgroups);
      rlx_step_free (step);
      return FALSE;
    }

  step->grid[0] = (guint32) width;
  step->grid[1] = (guint32) height;
  step->grid[2] = 1;
  RlxParam param = { g_strdup ("grid_x"), RLX_PARAM_U32, (guint32) width };
  g_array_append_val (step->params, param);
  rlx_lower_add_step (lower, step);
  return TRUE;
}
