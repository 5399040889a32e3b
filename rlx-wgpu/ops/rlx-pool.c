/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Pooling: each window becomes one element.
 */
#include "config.h"

#include "ops/rlx-fused-private.h"
#include "ops/rlx-variant-private.h"
#include "ops/rlx-window-private.h"

#include <math.h>

#define WORKGROUP_SIZE 64

/* An invocation visits at most this many elements, if there is an alternative. */
#define MAX_WINDOW 1024
/* The loop over a window of up to this many elements is unrolled. */
#define MAX_WRITTEN_OUT 16
/* Parts of a window are not shorter, and a workgroup shares no window that is. */
#define MIN_SHARED 64

/* ---- rule --------------------------------------------------------------------------- */

gboolean
rlx_pool_read (RlxWindow          *window,
               const RlxOpCall    *call,
               const RlxPoolAttrs *attrs,
               GError            **error)
{
  const RlxWindowSteps steps = { attrs->strides, attrs->dilations, attrs->padding, attrs->layout, FALSE };
  const gint64 *sizes, *output_sizes;
  g_autoptr(GError) local = NULL;
  guint n_axes;

  if (!rlx_window_check_rank (call, &n_axes, error))
    return FALSE;
  if ((!rlx_window_get_list (call, "window", &attrs->window, n_axes, 1, &sizes, &local) && local != NULL) ||
      (!rlx_window_get_list (call, "output_sizes", &attrs->output_sizes, n_axes, 1, &output_sizes, &local) && local != NULL))
    {
      g_propagate_error (error, g_steal_pointer (&local));
      return FALSE;
    }
  if (!rlx_window_init (window, call, &steps, sizes, "the window", error) ||
      !rlx_window_slide (window, call, error))
    return FALSE;

  for (guint i = 0; i < n_axes; i++)
    {
      RlxWindowAxis *axis = &window->axes[i];
      gint64 padded = axis->in + axis->begin + axis->end;
      gboolean more = (padded - axis->reach) % axis->stride != 0;

      if (output_sizes != NULL)
        {
          if (output_sizes[i] < axis->out || output_sizes[i] > axis->out + more)
            return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                                   "output_sizes[%u] is %" G_GINT64_FORMAT "; it must be %" G_GINT64_FORMAT
                                   " or, with a last window that is not all inside, %" G_GINT64_FORMAT,
                                   i, output_sizes[i], axis->out, axis->out + more);
          axis->out = output_sizes[i];
        }
      else if (attrs->ceil_mode && more)
        {
          /* out · stride is at most padded. */
          axis->out += axis->stride < axis->in + axis->begin &&
                       axis->out * axis->stride < axis->in + axis->begin;
        }
    }

  return TRUE;
}

static gboolean
is_arg (const RlxOp *op)
{
  return op->id == RLX_OP_ID_ARG_MAX_POOL;
}

gboolean
rlx_pool_infer (RlxOpCall          *call,
                const RlxPoolAttrs *attrs,
                GError            **error)
{
  const RlxTensorType *x = call->inputs[0];
  RlxTensorType type;
  RlxWindow window;

  if (!rlx_pool_read (&window, call, attrs, error))
    return FALSE;
  if (is_arg (call->op) && rlx_type_n_elements (x) > G_MAXINT32)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                           "the operand has %" G_GUINT64_FORMAT " elements, positions go up to %d only",
                           rlx_type_n_elements (x), G_MAXINT32);

  rlx_window_get_type (&window, is_arg (call->op) ? RLX_DATA_TYPE_I32 : x->data_type, window.channels, &type);
  rlx_call_add_output (call, &type);
  return TRUE;
}

/* ---- lowering ----------------------------------------------------------------------------- */

/* How the result is made from a sum; see kernels/pool.wgsl. */
typedef enum
{
  DIVIDE_NOT,
  DIVIDE_COUNT,
  DIVIDE_PADDED,
  DIVIDE_NUMBER,
} Divide;

typedef struct
{
  gboolean max;
  gboolean indices;
  gboolean square;
  gboolean root;
  Divide divide;
  guint64 divisor;
} Fold;

/* The bits of the fold's identity element, as the kernel's 32-bit type. */
static guint32
get_identity (const Fold *fold,
              RlxDataType data_type)
{
  const float least = -INFINITY;
  guint32 bits;

  if (!fold->max || rlx_data_type_is_unsigned (data_type))
    return 0;
  if (!rlx_data_type_is_float (data_type))
    return data_type == RLX_DATA_TYPE_I8 ? (guint32) G_MININT8 : (guint32) G_MININT32;

  memcpy (&bits, &least, sizeof bits);
  return bits;
}

typedef struct
{
  const RlxWindow *window;
  Fold fold;
  guint64 length;             /* elements of a window that can be inside the operand */
  gboolean global;            /* each channel has one window, which contains everything */
  const RlxIrValue *x, *y;
} Problem;

static void
problem_init (Problem          *self,
              const RlxWindow  *window,
              const Fold       *fold,
              const RlxIrValue *x,
              const RlxIrValue *y)
{
  *self = (Problem) { .window = window, .fold = *fold, .length = 1, .global = TRUE, .x = x, .y = y };
  for (guint i = 0; i < window->n_axes; i++)
    {
      const RlxWindowAxis *axis = &window->axes[i];

      self->length *= (guint64) MIN (axis->window, axis->in);
      self->global &= axis->window == axis->in && axis->dilation == 1 && axis->begin == 0 && axis->end == 0 && axis->out == 1;
    }
}

/* Defines the elements of an unrolled window, unless there are too many. Returns their number. */
static gint64
write_out (RlxKernel       *kernel,
           const RlxWindow *window)
{
  static const char *const names[RLX_MAX_SPATIAL] = { "K0", "K1", "K2" };
  gint64 n_taps = 1;

  for (guint i = 0; i < window->n_axes && n_taps <= MAX_WRITTEN_OUT; i++)
    n_taps *= MIN (window->axes[i].window, MAX_WRITTEN_OUT + 1);
  if (n_taps > MAX_WRITTEN_OUT)
    n_taps = 0;
  rlx_kernel_define (kernel, "TAPS", n_taps);
  for (guint d = 0; d < RLX_MAX_SPATIAL && n_taps > 0; d++)
    rlx_kernel_define (kernel, names[d], d < window->n_axes ? window->axes[window->n_axes - 1 - d].window : 1);
  return n_taps;
}

/* @lanes invocations share a window. */
static gboolean
lower_step (RlxLower        *lower,
            const RlxIrNode *node,
            const Problem   *self,
            guint            lanes,
            GError         **error)
{
  RlxKernel *kernel = rlx_kernel_new (lower, node, "pool");
  const RlxWindow *window = self->window;
  const Fold *fold = &self->fold;
  guint64 n_elements = rlx_type_n_elements (&self->y->type);
  guint64 n_groups = lanes > 1 ? n_elements : rlx_divide_up (n_elements, WORKGROUP_SIZE);
  guint64 sizes[RLX_MAX_SPATIAL];
  RlxWindowStrides strides;

  for (guint d = 0; d < window->n_axes; d++)
    sizes[d] = (guint64) window->axes[window->n_axes - 1 - d].in;

  rlx_kernel_input (kernel, "x", self->x);
  rlx_kernel_output (kernel, "y", self->y);
  rlx_kernel_define (kernel, "WG", MAX (lanes, WORKGROUP_SIZE));
  rlx_kernel_define (kernel, "LANES", lanes);
  /* An empty operand has nothing to load. */
  if (lanes > 1 || rlx_type_n_elements (&self->x->type) == 0)
    rlx_kernel_define (kernel, "TAPS", 0);
  else
    write_out (kernel, window);
  rlx_kernel_define (kernel, "RANK", window->n_axes);
  rlx_kernel_define (kernel, "LAST", window->channels_last);
  rlx_kernel_define (kernel, "FLOAT", rlx_data_type_is_float (self->x->type.data_type));
  rlx_kernel_define (kernel, "MAX", fold->max);
  rlx_kernel_define (kernel, "INDICES", fold->indices);
  rlx_kernel_define (kernel, "SUM", !fold->max);
  rlx_kernel_define (kernel, "SQUARE", fold->square);
  rlx_kernel_define (kernel, "DIVIDE", fold->divide);
  rlx_kernel_define (kernel, "ROOT", fold->root);
  rlx_kernel_param_u32 (kernel, "identity", get_identity (fold, self->x->type.data_type));
  if (fold->divide == DIVIDE_NUMBER)
    rlx_kernel_param_f32 (kernel, "divisor", (double) fold->divisor);

  rlx_window_get_strides (window, (guint64) window->channels, sizes, &strides);
  rlx_kernel_param_u32 (kernel, "groups", n_groups);
  rlx_kernel_param_u32 (kernel, "elements", n_elements);
  rlx_kernel_param_u32 (kernel, "channels", (guint64) window->channels);
  rlx_kernel_param_u32 (kernel, "x_batch", strides.batch);
  rlx_kernel_param_u32 (kernel, "x_channel", strides.channel);
  for (guint d = 0; d < window->n_axes; d++)
    {
      const RlxWindowAxis *axis = &window->axes[window->n_axes - 1 - d];
      gint64 padded = axis->in + axis->begin + axis->end;

      rlx_window_param (kernel, "in", d, sizes[d]);
      rlx_kernel_param_divisor (kernel, "out", d, (guint64) axis->out);
      rlx_window_param (kernel, "k", d, (guint64) axis->window);
      /* A longer stride leaves the operand as well. */
      rlx_window_param (kernel, "stride", d, (guint64) MIN (axis->stride, padded));
      rlx_window_param (kernel, "dilation", d, (guint64) axis->dilation);
      rlx_window_param (kernel, "begin", d, (guint64) axis->begin);
      rlx_window_param (kernel, "padded", d, (guint64) padded);
      rlx_window_param (kernel, "x_axis", d, strides.axes[d]);
    }

  rlx_kernel_set_cost (kernel, (double) n_elements * (double) self->length,
                       (double) rlx_type_n_bytes (&self->x->type) + (double) rlx_type_n_bytes (&self->y->type));
  return rlx_kernel_dispatch (kernel, n_groups, error);
}

/* A window over one axis, without padding. */
static void
window_flatten (RlxWindow       *flat,
                const RlxWindow *window,
                guint64          length,
                guint64          size)
{
  *flat = (RlxWindow) {
    .n_axes = 1,
    .channels_last = window->channels_last,
    .batch = window->batch,
    .channels = window->channels,
  };
  flat->axes[0] = (RlxWindowAxis) {
    .in = (gint64) length,
    .window = (gint64) size,
    .stride = (gint64) size,
    .dilation = 1,
    .out = (gint64) ((length - 1) / size + 1),
  };
}

/* ---- variants ----------------------------------------------------------------------------- */

static char *
print_problem (gconstpointer data)
{
  const Problem *self = data;

  return g_strdup_printf ("%" G_GUINT64_FORMAT " windows of %" G_GUINT64_FORMAT "%s%s, %s", rlx_type_n_elements (&self->y->type), self->length,
                          self->global ? ", covering everything" : "", self->fold.indices ? ", positions" : "",
                          rlx_data_type_to_string (self->x->type.data_type));
}

/* With @lanes invocations per window, which find each element in @operations. */
static double
get_seconds (const Problem   *self,
             const RlxTarget *target,
             guint            lanes,
             double           operations)
{
  double n = (double) rlx_type_n_elements (&self->y->type);
  double idle = MAX (1.0, (double) target->busy_invocations / (n * lanes));

  return idle * rlx_target_get_seconds (target, operations * n * (double) self->length,
                                        (double) rlx_type_n_bytes (&self->x->type) + (double) rlx_type_n_bytes (&self->y->type));
}

static gboolean
can_be_cut (const Problem *self)
{
  return self->global && !self->fold.indices && self->length > MIN_SHARED;
}

static RlxFit
parts_fits (const RlxVariant *variant,
            const RlxTarget  *target,
            gconstpointer     data,
            const char      **why)
{
  const Problem *self = data;

  if (!can_be_cut (self))
    return rlx_variant_cannot ("windows are short or do not cover everything, or their positions are needed", why);
  return self->length > MAX_WINDOW ? RLX_FIT_WELL : rlx_variant_poorly ("windows are short", why);
}

static double
parts_cost (const RlxVariant *variant,
            const RlxTarget  *target,
            gconstpointer     data)
{
  const Problem *self = data;
  double lanes = sqrt ((double) self->length);

  return get_seconds (self, target, (guint) MIN (lanes, 1e6), 1.0) + target->speeds.dispatch_time;
}

/* First parts of windows, then the parts of these parts. */
static gboolean
parts_describe (const RlxVariant *variant,
                RlxLower         *lower,
                const RlxIrNode  *node,
                gconstpointer     data,
                GError          **error)
{
  const Problem *self = data;
  const Fold part_fold = { .max = self->fold.max, .square = self->fold.square };
  RlxDataType data_type = rlx_data_type_on_device (self->x->type.data_type);
  guint64 size = CLAMP ((guint64) sqrt ((double) self->length), MIN_SHARED, MAX_WINDOW);
  Fold fold = self->fold;
  const RlxIrValue *parts;
  Problem part, rest;
  RlxTensorType type;
  RlxWindow flat, all;

  if (data_type == RLX_DATA_TYPE_F16)
    data_type = RLX_DATA_TYPE_F32;
  else if (data_type == RLX_DATA_TYPE_I8)
    data_type = RLX_DATA_TYPE_I32;
  else if (data_type == RLX_DATA_TYPE_U8)
    data_type = RLX_DATA_TYPE_U32;

  if (fold.divide == DIVIDE_COUNT || fold.divide == DIVIDE_PADDED)
    {
      fold.divide = DIVIDE_NUMBER;
      fold.divisor = self->length;
    }
  fold.square = FALSE;

  window_flatten (&flat, self->window, self->length, size);
  rlx_window_get_type (&flat, data_type, self->window->channels, &type);
  parts = rlx_lower_temporary (lower, &type);
  problem_init (&part, &flat, &part_fold, self->x, parts);
  window_flatten (&all, self->window, rlx_divide_up (self->length, size), rlx_divide_up (self->length, size));
  problem_init (&rest, &all, &fold, parts, self->y);

  return rlx_lower_choose (lower, node, &rlx_pool_variants, &part, error) &&
         rlx_lower_choose (lower, node, &rlx_pool_variants, &rest, error);
}

static guint
get_lanes (const RlxVariant *variant)
{
  return GPOINTER_TO_UINT (variant->data);
}

static RlxFit
shared_fits (const RlxVariant *variant,
             const RlxTarget  *target,
             gconstpointer     data,
             const char      **why)
{
  const Problem *self = data;

  if (!target->barriers_are_cheap && (self->length <= MAX_WINDOW || can_be_cut (self)))
    return rlx_variant_poorly ("barriers are slow here", why);
  if (self->length < get_lanes (variant) * (get_lanes (variant) > MIN_SHARED ? 64 : 1))
    return rlx_variant_poorly ("windows are short", why);
  return RLX_FIT_WELL;
}

static double
shared_cost (const RlxVariant *variant,
             const RlxTarget  *target,
             gconstpointer     data)
{
  const Problem *self = data;

  /* finding an element takes a division for each axis */
  return get_seconds (self, target, get_lanes (variant), 8.0 * self->window->n_axes);
}

static RlxFit
own_fits (const RlxVariant *variant,
          const RlxTarget  *target,
          gconstpointer     data,
          const char      **why)
{
  const Problem *self = data;

  return self->length <= MAX_WINDOW ? RLX_FIT_WELL : rlx_variant_poorly ("windows are long", why);
}

static double
own_cost (const RlxVariant *variant,
          const RlxTarget  *target,
          gconstpointer     data)
{
  return get_seconds (data, target, 1, 1.0);
}

static gboolean
pool_describe (const RlxVariant *variant,
               RlxLower         *lower,
               const RlxIrNode  *node,
               gconstpointer     data,
               GError          **error)
{
  return lower_step (lower, node, data, get_lanes (variant), error);
}

static const RlxVariant variants[] = {
  { "parts", parts_fits, parts_cost, NULL, parts_describe, NULL },
  { "workgroup", shared_fits, shared_cost, NULL, pool_describe, GUINT_TO_POINTER (256) },
  { "lanes", shared_fits, shared_cost, NULL, pool_describe, GUINT_TO_POINTER (64) },
  { "windows", own_fits, own_cost, NULL, pool_describe, GUINT_TO_POINTER (1) },
};

static const RlxSample samples[] = {
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "f32[1, 32, 128, 128]")
    "%1 = max_pool(%0) {window = [2, 2], strides = [2, 2]}\n" RLX_SAMPLE_OUTPUT (1), 255 },
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "f32[1, 16, 256, 256]")
    "%1 = max_pool(%0)\n" RLX_SAMPLE_OUTPUT (1), 255 },
  { NULL, 0 },
};

const RlxVariants rlx_pool_variants = {
  RLX_FAMILY_POOL, "pool", variants, G_N_ELEMENTS (variants), print_problem, samples,
};

gboolean
rlx_pool_lower (RlxLower        *lower,
                const RlxIrNode *node,
                GError         **error)
{
  const RlxIrValue *y = &node->outputs[0];
  const RlxTensorType *types[1];
  RlxWindow window;
  RlxOpCall call;
  Fold fold = { 0, };
  Problem problem;

  if (rlx_type_n_elements (&y->type) == 0)
    return TRUE;

  rlx_window_make_call (&call, node, types);
  if (!rlx_pool_read (&window, &call, rlx_pool_attrs (node), error))
    return FALSE;

  if (rlx_ir_node_is (node, RLX_OP_ID_AVERAGE_POOL))
    {
      fold.divide = rlx_pool_attrs (node)->count_include_pad ? DIVIDE_PADDED : DIVIDE_COUNT;
    }
  else if (rlx_ir_node_is (node, RLX_OP_ID_L2_POOL))
    {
      fold.square = TRUE;
      fold.root = TRUE;
    }
  else
    {
      fold.max = TRUE;
      fold.indices = is_arg (node->op);
    }

  problem_init (&problem, &window, &fold, node->inputs[0], y);
  return rlx_lower_choose (lower, node, &rlx_pool_variants, &problem, error);
}

/* ---- the gradient of max_pool ---------------------------------------------------------------- */

gboolean
rlx_max_pool_backward_infer (RlxOpCall          *call,
                             const RlxPoolAttrs *attrs,
                             GError            **error)
{
  RlxTensorType type;
  RlxWindow window;

  if (!rlx_pool_read (&window, call, attrs, error))
    return FALSE;
  rlx_window_get_type (&window, call->inputs[0]->data_type, window.channels, &type);
  if (!rlx_type_same_shape (call->inputs[1], &type))
    {
      g_autofree char *got = rlx_type_to_string (call->inputs[1]), *text = rlx_type_to_string (&type);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the gradient is %s, and the result of the pool %s", got, text);
    }
  rlx_call_add_output (call, call->inputs[0]);
  return TRUE;
}

/* Whether each element is in exactly one window, or after the last one. */
static gboolean
lies_side_by_side (const RlxWindow *window)
{
  for (guint i = 0; i < window->n_axes; i++)
    if (window->axes[i].stride != window->axes[i].window || window->axes[i].dilation != 1)
      return FALSE;
  return TRUE;
}

gboolean
rlx_max_pool_backward_lower (RlxLower        *lower,
                             const RlxIrNode *node,
                             GError         **error)
{
  const RlxIrValue *x = node->inputs[0], *g = node->inputs[1], *dx = &node->outputs[0];
  guint64 n_elements = rlx_type_n_elements (&x->type), length = 1;
  guint64 sizes[RLX_MAX_SPATIAL], out_sizes[RLX_MAX_SPATIAL];
  RlxWindowStrides strides, out_strides;
  const RlxTensorType *types[2];
  guint64 n_invocations;
  gboolean whole;
  RlxKernel *kernel;
  RlxWindow window;
  RlxOpCall call;

  if (n_elements == 0)
    return TRUE;

  rlx_window_make_call (&call, node, types);
  if (!rlx_pool_read (&window, &call, rlx_pool_attrs (node), error))
    return FALSE;
  kernel = rlx_kernel_new (lower, node, "pool-backward");
  rlx_kernel_input (kernel, "x", x);
  rlx_kernel_input (kernel, "g", g);
  rlx_kernel_epilogue (kernel, node);
  rlx_kernel_output (kernel, "dx", dx);
  rlx_kernel_define (kernel, "WG", WORKGROUP_SIZE);
  rlx_kernel_define (kernel, "RANK", window.n_axes);
  rlx_kernel_define (kernel, "LAST", window.channels_last);
  whole = lies_side_by_side (&window) && write_out (kernel, &window) > 0 && rlx_type_n_elements (&g->type) > 0;
  rlx_kernel_define (kernel, "WHOLE", whole);
  n_invocations = (guint64) window.batch * (guint64) window.channels;
  for (guint d = 0; d < window.n_axes; d++)
    {
      const RlxWindowAxis *axis = &window.axes[window.n_axes - 1 - d];
      guint64 n_cells = whole ? rlx_divide_up ((guint64) (axis->in + axis->begin), (guint64) axis->stride) : (guint64) axis->in;

      rlx_kernel_param_divisor (kernel, "cells", d, n_cells);
      n_invocations *= n_cells;
      sizes[d] = (guint64) axis->in;
      out_sizes[d] = (guint64) axis->out;
      length *= (guint64) MIN (axis->window, axis->in);
    }
  rlx_window_get_strides (&window, (guint64) window.channels, sizes, &strides);
  rlx_window_get_strides (&window, (guint64) window.channels, out_sizes, &out_strides);
  rlx_kernel_param_u32 (kernel, "elements", n_invocations);
  rlx_kernel_param_u32 (kernel, "channels", (guint64) window.channels);
  rlx_kernel_param_u32 (kernel, "x_batch", strides.batch);
  rlx_kernel_param_u32 (kernel, "x_channel", strides.channel);
  rlx_kernel_param_u32 (kernel, "g_batch", out_strides.batch);
  rlx_kernel_param_u32 (kernel, "g_channel", out_strides.channel);
  for (guint d = 0; d < window.n_axes; d++)
    {
      const RlxWindowAxis *axis = &window.axes[window.n_axes - 1 - d];

      rlx_window_param (kernel, "in", d, sizes[d]);
      rlx_window_param (kernel, "out", d, (guint64) axis->out);
      rlx_window_param (kernel, "k", d, (guint64) axis->window);
      rlx_window_param (kernel, "stride", d, (guint64) MIN (axis->stride, axis->in + axis->begin + axis->end));
      rlx_window_param (kernel, "dilation", d, (guint64) axis->dilation);
      rlx_window_param (kernel, "begin", d, (guint64) axis->begin);
      rlx_window_param (kernel, "x_axis", d, strides.axes[d]);
      rlx_window_param (kernel, "g_axis", d, out_strides.axes[d]);
    }
  rlx_kernel_set_cost (kernel, (double) n_elements * (double) length, 2.0 * (double) rlx_type_n_bytes (&x->type) + (double) rlx_type_n_bytes (&g->type));
  return rlx_kernel_dispatch (kernel, rlx_divide_up (n_invocations, WORKGROUP_SIZE), error);
}
