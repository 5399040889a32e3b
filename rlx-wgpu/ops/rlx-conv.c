/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Convolutions.
 */
#include "config.h"

#include "ops/rlx-conv-private.h"
#include "ops/rlx-fused-private.h"
#include "ops/rlx-shape-private.h"
#include "ops/rlx-variant-private.h"

#include "util/rlx-checked-private.h"

#define WORKGROUP_SIZE 64
/* Up to this many channels, a kernel is specialised for their number: a loop would cost more than its body. */
#define MAX_FEW 4
/* The same for elements of a filter along its innermost axis. */
#define MAX_WRITTEN_OUT 9
/* The most channels of a panel. */
#define MAX_PANEL 32
/* Unless each element of a filter is used this often, copying it costs more than it saves. */
#define MIN_POSITIONS_TO_COPY 24

/* ---- rules ---------------------------------------------------------------------- */

typedef RlxConv Conv;

static gboolean
find_filter_axes (Conv            *conv,
                  const RlxOpCall *call,
                  RlxFilterLayout  layout,
                  GError         **error)
{
  static const struct { guint8 out, in, spatial; } layouts[] = {
    /* 3 stands for the last axis, whatever the rank. */
    [RLX_FILTER_LAYOUT_OIS] = { 0, 1, 2 },
    [RLX_FILTER_LAYOUT_IOS] = { 1, 0, 2 },
    [RLX_FILTER_LAYOUT_OSI] = { 0, 3, 1 },
    [RLX_FILTER_LAYOUT_ISO] = { 3, 0, 1 },
    [RLX_FILTER_LAYOUT_SIO] = { 3, 2, 0 },
    [RLX_FILTER_LAYOUT_SOI] = { 2, 3, 0 },
  };
  guint n_axes;
  guint last;

  if (!rlx_window_check_rank (call, &n_axes, error))
    return FALSE;
  if (call->inputs[1]->n_dims != n_axes + 2)
    {
      g_autofree char *text = rlx_type_to_string (call->inputs[1]);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                             "the filter %s has %u dimensions, the operand has %u",
                             text, call->inputs[1]->n_dims, n_axes + 2);
    }

  last = n_axes + 1;
  conv->out_axis = layouts[layout].out == 3 ? last : layouts[layout].out == 2 ? last - 1 : layouts[layout].out;
  conv->in_axis = layouts[layout].in == 3 ? last : layouts[layout].in == 2 ? last - 1 : layouts[layout].in;
  conv->first_axis = layouts[layout].spatial;
  return TRUE;
}

static gboolean
conv_init (Conv               *conv,
           const RlxOpCall    *call,
           const RlxConvAttrs *attrs,
           GError            **error)
{
  const RlxWindowSteps steps = { attrs->strides, attrs->dilations, attrs->padding, attrs->layout, attrs->swapped };
  gboolean transposed = call->op->id == RLX_OP_ID_CONV_TRANSPOSE;
  const RlxTensorType *filter = call->inputs[RLX_CONV_FILTER];
  gint64 filter_in, filter_out;

  *conv = (Conv) { .transposed = transposed };
  if (!find_filter_axes (conv, call, attrs->filter_layout, error) ||
      !rlx_window_init (&conv->window, call, &steps, filter->shape + conv->first_axis, "the filter", error))
    return FALSE;

  conv->groups = attrs->groups;
  if (conv->groups < 1)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "groups is %" G_GINT64_FORMAT "; it must be at least 1", conv->groups);
  /* WebNN requires no more than this of a transposed convolution. */
  conv->shared = transposed && conv->window.channels == 1;
  if (conv->window.channels % conv->groups != 0 && !conv->shared)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "the operand has %" G_GINT64_FORMAT " channels; they cannot be divided into %" G_GINT64_FORMAT " groups",
                           conv->window.channels, conv->groups);

  filter_in = filter->shape[conv->in_axis];
  filter_out = filter->shape[conv->out_axis];
  conv->channels_in = conv->shared ? 1 : conv->window.channels / conv->groups;
  if (transposed)
    {
      if (filter_in != conv->window.channels)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                               "the filter has %" G_GINT64_FORMAT " input channels, the operand has %" G_GINT64_FORMAT,
                               filter_in, conv->window.channels);
      conv->channels_out = filter_out;
    }
  else
    {
      if (filter_in != conv->channels_in)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                               "the filter has %" G_GINT64_FORMAT " input channels, the operand has %" G_GINT64_FORMAT
                               " in each of %" G_GINT64_FORMAT " groups",
                               filter_in, conv->channels_in, conv->groups);
      if (filter_out % conv->groups != 0)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                               "the filter has %" G_GINT64_FORMAT " output channels; they cannot be divided into %" G_GINT64_FORMAT
                               " groups", filter_out, conv->groups);
      conv->channels_out = filter_out / conv->groups;
    }

  return TRUE;
}

/* The sizes of the results of a transposed convolution. */
static gboolean
conv_spread (Conv               *conv,
             const RlxOpCall    *call,
             const RlxConvAttrs *attrs,
             GError            **error)
{
  RlxWindow *window = &conv->window;
  const gint64 *output_padding, *output_sizes;
  g_autoptr(GError) local = NULL;

  if ((!rlx_window_get_list (call, "output_padding", &attrs->output_padding, window->n_axes, 0, &output_padding, &local) && local != NULL) ||
      (!rlx_window_get_list (call, "output_sizes", &attrs->output_sizes, window->n_axes, 1, &output_sizes, &local) && local != NULL))
    {
      g_propagate_error (error, g_steal_pointer (&local));
      return FALSE;
    }

  for (guint i = 0; i < window->n_axes; i++)
    {
      RlxWindowAxis *axis = &window->axes[i];
      gint64 most = MAX (axis->stride, axis->dilation) - 1;
      gint64 all, least;

      if (axis->in < 1)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                               "the operand has no elements along spatial axis %u", i);
      if (output_padding != NULL && output_sizes == NULL && output_padding[i] > most)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                               "output_padding[%u] is %" G_GINT64_FORMAT "; it must be less than the stride %" G_GINT64_FORMAT
                               " or the dilation %" G_GINT64_FORMAT,
                               i, output_padding[i], axis->stride, axis->dilation);
      if (!rlx_mul_i64 (axis->in - 1, axis->stride, &all) ||
          !rlx_add_i64 (all, axis->reach, &all) ||
          !rlx_add_i64 (all, output_sizes == NULL && output_padding != NULL ? output_padding[i] : 0, &all) ||
          all > G_MAXINT32)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                               "%" G_GINT64_FORMAT " elements at a distance of %" G_GINT64_FORMAT
                               " make spatial axis %u longer than %d",
                               axis->in, axis->stride, i, G_MAXINT32);

      /* The sum of the paddings is below 2³¹. */
      least = all - axis->begin - axis->end;
      if (output_sizes == NULL)
        {
          axis->out = least;
        }
      else
        {
          gint64 greatest = MIN (most, G_MAXINT32) + least;

          if (output_sizes[i] < least || output_sizes[i] > greatest)
            return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                                   "output_sizes[%u] is %" G_GINT64_FORMAT "; it must be from %" G_GINT64_FORMAT
                                   " to %" G_GINT64_FORMAT,
                                   i, output_sizes[i], least, greatest);
          if (output_sizes[i] > G_MAXINT32 - axis->begin)
            return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                                   "output_sizes[%u] is %" G_GINT64_FORMAT ", with the padding of %" G_GINT64_FORMAT
                                   " before it that is more than %d",
                                   i, output_sizes[i], axis->begin, G_MAXINT32);
          axis->out = output_sizes[i];
        }
      if (axis->out < 1)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                               "spatial axis %u has %" G_GINT64_FORMAT " elements, and a padding of %" G_GINT64_FORMAT
                               " and %" G_GINT64_FORMAT " removes all of them",
                               i, all, axis->begin, axis->end);
    }

  return TRUE;
}

gboolean
rlx_conv_read (RlxConv            *conv,
               const RlxOpCall    *call,
               const RlxConvAttrs *attrs,
               GError            **error)
{
  if (!conv_init (conv, call, attrs, error))
    return FALSE;
  return conv->transposed ? conv_spread (conv, call, attrs, error) : rlx_window_slide (&conv->window, call, error);
}

gboolean
rlx_conv_infer (RlxOpCall          *call,
                const RlxConvAttrs *attrs,
                GError            **error)
{
  const RlxTensorType *bias = call->inputs[RLX_CONV_BIAS];
  RlxTensorType type;
  gint64 channels;
  Conv conv;

  if (!rlx_conv_read (&conv, call, attrs, error))
    return FALSE;

  if (!rlx_mul_i64 (conv.channels_out, conv.groups, &channels))
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                           "%" G_GINT64_FORMAT " groups of %" G_GINT64_FORMAT " channels are too many",
                           conv.groups, conv.channels_out);
  if (bias != NULL && (bias->n_dims != 1 || bias->shape[0] != channels))
    {
      g_autofree char *text = rlx_type_to_string (bias);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                             "the bias is %s; it must have one dimension of %" G_GINT64_FORMAT ", the output channels",
                             text, channels);
    }

  rlx_window_get_type (&conv.window, call->inputs[0]->data_type, channels, &type);
  rlx_call_add_output (call, &type);
  return TRUE;
}

gboolean
rlx_conv_transpose_infer (RlxOpCall          *call,
                          const RlxConvAttrs *attrs,
                          GError            **error)
{
  return rlx_conv_infer (call, attrs, error);
}

/* ---- the problem --------------------------------------------------------------------- */

/* The problem, from which a variant is chosen and the steps are described. Spatial axes
 * are numbered from the innermost one. */
typedef struct
{
  const RlxIrNode *node;
  const RlxIrValue *x, *filter, *bias, *y;
  Conv conv;
  gboolean product;       /* there is something to add up */
  guint64 n_outputs;
  guint64 n_terms;        /* per sum */
  gboolean mostly_padding; /* most terms of each sum */
  guint64 positions;      /* in all batches; per phase */
  guint64 phases;
  guint64 m;              /* channels per group */
  guint64 groups;
  gboolean filter_last;   /* output channels are adjacent in the filter */
  gboolean own_filter;    /* its layout can be changed for a kernel */
  guint64 filter_strides[RLX_MAX_DIMS];
  guint64 sizes_in[RLX_MAX_SPATIAL], sizes_out[RLX_MAX_SPATIAL];
  gboolean is_spread;     /* each position of the operand has a block of the result to itself */
  guint64 columns;        /* of the filter as a matrix: channels or, if it is spread, channels at all places */
  guint64 spread[RLX_MAX_SPATIAL];   /* places along each axis */
} Problem;

/* Whether it is a transposed convolution whose windows neither overlap nor leave gaps, with whole rows in the
 * filter. */
static gboolean
is_spread (const Problem *self)
{
  const RlxWindow *window = &self->conv.window;
  gboolean spread = self->product && self->conv.transposed && self->groups == 1 && self->conv.in_axis == 0;

  for (guint i = 0; spread && i < window->n_axes; i++)
    {
      const RlxWindowAxis *axis = &window->axes[i];

      spread = axis->window == axis->stride && axis->dilation == 1 && axis->begin == 0 && axis->out == axis->in * axis->stride;
    }
  return spread;
}

static gboolean
problem_init (Problem         *self,
              RlxLower        *lower,
              const RlxIrNode *node,
              GError         **error)
{
  const RlxIrValue *filter = node->inputs[RLX_CONV_FILTER];
  const RlxTensorType *types[3];
  guint64 stride = 1, n_there = 1;
  RlxOpCall call;
  guint n_dims;

  *self = (Problem) {
    .node = node,
    .x = node->inputs[RLX_CONV_SELF],
    .filter = filter,
    .bias = node->inputs[RLX_CONV_BIAS],
    .y = &node->outputs[0],
    .n_outputs = rlx_type_n_elements (&node->outputs[0].type),
    .phases = 1,
  };
  rlx_window_make_call (&call, node, types);
  if (!rlx_conv_read (&self->conv, &call, rlx_conv_attrs (node), error))
    return FALSE;

  for (guint i = filter->type.n_dims; i-- > 0;)
    {
      self->filter_strides[i] = stride;
      stride *= (guint64) filter->type.shape[i];
    }
  n_dims = self->conv.window.n_axes;
  self->product = rlx_type_n_elements (&self->x->type) > 0 && rlx_type_n_elements (&filter->type) > 0;
  self->m = (guint64) self->conv.channels_out;
  self->groups = (guint64) self->conv.groups;
  self->filter_last = self->filter_strides[self->conv.out_axis] == 1;
  self->positions = (guint64) self->conv.window.batch;
  self->n_terms = (guint64) self->conv.channels_in;
  for (guint d = 0; d < n_dims; d++)
    {
      RlxWindowAxis *axis = &self->conv.window.axes[n_dims - 1 - d];
      gboolean transposed = self->conv.transposed;
      gint64 phases;

      self->sizes_in[d] = (guint64) axis->in;
      self->sizes_out[d] = (guint64) axis->out;
      self->n_terms *= (guint64) axis->window;
      n_there *= (guint64) MIN (axis->window, transposed ? axis->in : (axis->in - 1) / axis->dilation + 1);
      /* A stride that separates nothing may exceed 32 bits. */
      if ((transposed ? axis->in : axis->out) == 1)
        axis->stride = 1;
      phases = transposed ? MIN (axis->stride, axis->out) : 1;
      self->phases *= (guint64) phases;
      self->positions *= (guint64) ((axis->out - 1) / phases + 1);
    }
  if (!self->product)
    self->n_terms = 0;
  self->mostly_padding = self->n_terms / 8 >= n_there * (guint64) self->conv.channels_in && self->product;
  self->own_filter = rlx_lower_can_pack_weight (lower, filter, self->n_terms, self->m, MAX_PANEL);
  self->columns = self->m;
  if (is_spread (self))
    {
      guint64 terms = (guint64) self->conv.channels_in, columns = self->n_terms / terms * self->m;

      self->is_spread = rlx_lower_can_pack_weight (lower, filter, terms, columns, MAX_PANEL);
      self->columns = self->is_spread ? columns : self->m;
    }
  return TRUE;
}

static char *
print_problem (gconstpointer data)
{
  const Problem *self = data;

  return g_strdup_printf ("%" G_GUINT64_FORMAT " groups of %" G_GINT64_FORMAT " to %" G_GUINT64_FORMAT " channels, %" G_GUINT64_FORMAT
                          " positions, sums of %" G_GUINT64_FORMAT ", %s%s%s",
                          self->groups, self->conv.channels_in, self->m, self->positions * self->phases, self->n_terms,
                          rlx_data_type_to_string (self->x->type.data_type), self->conv.window.channels_last ? ", channels last" : "",
                          self->conv.transposed ? ", transposed" : "");
}

/* ---- fits and costs ------------------------------------------------------------------ */

static RlxFit
fit (const char  *cannot,
     const char  *poorly,
     const char **why)
{
  *why = cannot != NULL ? cannot : poorly;
  return cannot != NULL ? RLX_FIT_NO : poorly != NULL ? RLX_FIT_POORLY : RLX_FIT_WELL;
}

static double
get_operations (const Problem *self)
{
  return 2.0 * (double) self->n_outputs * (double) self->n_terms / (double) self->phases;
}

static double
get_bytes (const Problem *self)
{
  return (double) rlx_type_n_bytes (&self->x->type) + (double) rlx_type_n_bytes (&self->filter->type) +
         (double) rlx_type_n_bytes (&self->y->type);
}

/* If several fit well, earlier ones are known to be better. */
static double
conv_cost (const RlxVariant *self,
           const RlxTarget  *target,
           gconstpointer     data)
{
  return rlx_target_get_seconds (target, get_operations (data), get_bytes (data));
}

static gboolean
is_small (const RlxTarget *target,
          const Problem   *problem)
{
  return problem->positions < target->lanes && problem->m < target->lanes;
}

static const char too_sparse[] = "most of the window is padding, which it reads as well";

static RlxFit
product_fits (const RlxVariant *self,
              const RlxTarget  *target,
              gconstpointer     data,
              const char      **why)
{
  const Problem *problem = data;
  const char *cannot = NULL, *poorly = NULL;

  if (!problem->product)
    cannot = "there is nothing to multiply";
  else if (problem->conv.window.swapped)
    cannot = "channels come before the batch";
  else
    rlx_conv_check_product (&problem->conv, target, &cannot, &poorly);
  return fit (cannot, poorly, why);
}

static gboolean
product_describe (const RlxVariant *self,
                  RlxLower         *lower,
                  const RlxIrNode  *node,
                  gconstpointer     data,
                  GError          **error)
{
  return rlx_conv_lower_product (lower, node, &((const Problem *) data)->conv, error);
}

/* Unless channels are too few. Wider panels take longer to compile. */
static RlxWeightLayout
panel_layout (const RlxVariant *self,
              const RlxTarget  *target,
              gconstpointer     data)
{
  const Problem *problem = data;
  guint64 products = problem->n_outputs * problem->n_terms;

  guint64 columns = problem->columns;

  if (problem->positions < 16 || (columns <= 8 && !problem->is_spread) || products < 1 << 20)
    return rlx_weight_in_panels (0);
  if (columns <= 16 || products < 1 << 24)
    return rlx_weight_in_panels (columns <= 4 ? 4 : columns <= 8 ? 8 : 16);
  /* Loading positions and the loop take as long as 10 columns. */
  return rlx_weight_in_panels (rlx_divide_up (columns, 24) * (24 + 10) < rlx_divide_up (columns, MAX_PANEL) * (MAX_PANEL + 10)
                               ? 24 : MAX_PANEL);
}

/* The stride between consecutive elements of the filter in a sum; 0 if there is no single
 * stride, because output channels are neither the outermost nor the innermost axis. */
static guint64
get_panel_stride (const Problem *problem)
{
  return problem->conv.out_axis == 0 ? 1 : problem->filter_last ? problem->m : 0;
}

/* Whether the kernel can read the filter in its layout. Otherwise each run makes a copy. */
static gboolean
lies_in_panels (const Problem *problem)
{
  return problem->is_spread || (problem->own_filter && get_panel_stride (problem) != 0 && !problem->conv.transposed);
}

/* Whether a transposed convolution is a plain one with a reversed filter. */
static gboolean
is_turned (const Problem *problem)
{
  const RlxWindow *window = &problem->conv.window;

  for (guint i = 0; i < window->n_axes; i++)
    if (window->axes[i].stride != 1 || window->axes[i].begin > (window->axes[i].window - 1) * window->axes[i].dilation)
      return FALSE;
  return TRUE;
}

static RlxFit
panel_fits (const RlxVariant *self,
            const RlxTarget  *target,
            gconstpointer     data,
            const char      **why)
{
  const Problem *problem = data;
  const char *cannot = NULL, *poorly = NULL;

  if (!problem->product || problem->groups > 1)
    cannot = "for one group";
  else if (problem->conv.transposed && !is_turned (problem) && !problem->is_spread)
    cannot = "transposed, with strides or padding that no other convolution has";
  else if (panel_layout (self, target, problem).order != RLX_WEIGHT_IN_PANELS)
    cannot = "too few channels, positions or products";
  else if (target->loads_coalesce)
    poorly = "made for the eight lanes of a CPU";
  else if (problem->mostly_padding)
    poorly = too_sparse;
  else if (!lies_in_panels (problem) && problem->positions < MIN_POSITIONS_TO_COPY)
    poorly = "too few positions for a copy of the filter";
  return fit (cannot, poorly, why);
}

/* How many neighbouring results a lane computes, and how many channels of each. */
static guint64
get_line (const Problem *problem)
{
  return problem->sizes_out[0] > 4 ? 8 : 4;
}

static guint64
get_line_channels (const Problem *problem)
{
  return MIN (problem->m, 4);
}

static RlxFit
line_fits (const RlxVariant *self,
           const RlxTarget  *target,
           gconstpointer     data,
           const char      **why)
{
  const Problem *problem = data;
  const Conv *conv = &problem->conv;
  const RlxWindowAxis *axis = &conv->window.axes[conv->window.n_axes - 1];
  const char *cannot = NULL, *poorly = NULL;

  if (!problem->product || conv->transposed)
    cannot = "it is transposed, or there is nothing to multiply";
  else if (axis->window > MAX_WRITTEN_OUT || axis->stride > 4 || axis->dilation > 4)
    cannot = "the filter has too many elements along a line, or they are too far apart";
  else if (target->loads_coalesce)
    poorly = "made for the eight lanes of a CPU";
  else if (problem->m > 4)
    poorly = "enough channels for tiles";
  else if (axis->window == 1)
    poorly = "neighbours share no elements";
  else if (problem->positions < 16)
    poorly = "too few positions";
  else if (conv->window.channels_last && problem->groups >= target->lanes)
    poorly = "channels lie side by side";
  else if (problem->mostly_padding)
    poorly = too_sparse;
  return fit (cannot, poorly, why);
}

static RlxFit
dot_fits (const RlxVariant *self,
          const RlxTarget  *target,
          gconstpointer     data,
          const char      **why)
{
  const Problem *problem = data;

  return fit (problem->product ? NULL : "there is nothing to add up",
              problem->n_terms < 256 || problem->n_outputs > target->busy_invocations
                ? "too many results, or too short sums, for a workgroup each" : NULL, why);
}

/* If groups have few channels, neighbouring lanes take those of the next group as well. */
static RlxFit
across_fits (const RlxVariant *self,
             const RlxTarget  *target,
             gconstpointer     data,
             const char      **why)
{
  const Problem *problem = data;
  const char *poorly = NULL;

  if (problem->mostly_padding)
    poorly = too_sparse;
  else if (problem->positions >= target->lanes && !problem->conv.window.channels_last)
    poorly = "positions lie side by side";
  else if (problem->m >= target->lanes || problem->m * problem->groups < target->lanes)
    poorly = "the channels of one group are enough, or those of all too few";
  return fit (problem->groups > 1 ? NULL : "there is one group", poorly, why);
}

static RlxFit
swap_fits (const RlxVariant *self,
           const RlxTarget  *target,
           gconstpointer     data,
           const char      **why)
{
  const Problem *problem = data;
  const char *poorly = NULL;

  if (problem->mostly_padding)
    poorly = too_sparse;
  else if (is_small (target, problem))
    poorly = "too few channels and positions";
  else if (!(problem->positions < target->lanes && problem->positions < problem->m) &&
           !(problem->conv.window.channels_last && problem->filter_last && problem->m >= target->lanes))
    poorly = "channels do not lie side by side, and there are enough positions";
  return fit (NULL, poorly, why);
}

static RlxFit
tiles_fits (const RlxVariant *self,
            const RlxTarget  *target,
            gconstpointer     data,
            const char      **why)
{
  const Problem *problem = data;

  return fit (NULL, problem->mostly_padding ? too_sparse : is_small (target, problem) ? "too few channels and positions" : NULL, why);
}

/* Visits only existing elements. */
static RlxFit
direct_fits (const RlxVariant *self,
             const RlxTarget  *target,
             gconstpointer     data,
             const char      **why)
{
  const Problem *problem = data;

  return fit (NULL, problem->mostly_padding || is_small (target, problem) ? NULL : "loads operands again for each element", why);
}

/* ---- steps -------------------------------------------------------------------------- */

/* Common to all kernels except the product. @filter_strides are those of the filter on
 * the device. */
static gboolean
describe (RlxKernel     *kernel,
          const Problem *self,
          const guint64 *filter_strides,
          gboolean       direct,
          gboolean       panel,
          gboolean       line,
          GError       **error)
{
  const Conv *conv = &self->conv;
  guint n_dims = conv->window.n_axes;
  guint64 channels = self->m * self->groups;
  RlxWindowStrides x_strides, y_strides;

  rlx_kernel_define (kernel, "RANK", n_dims);
  rlx_kernel_define (kernel, "TRANSPOSED", conv->transposed);
  rlx_kernel_define (kernel, "PRODUCT", self->product);
  rlx_kernel_define (kernel, "BIAS", self->bias != NULL);
  rlx_kernel_define (kernel, "DIRECT", direct);
  rlx_kernel_define (kernel, "PANEL", panel);
  rlx_kernel_define (kernel, "LINE", line);
  rlx_kernel_define (kernel, "SPREAD", panel && self->is_spread);
  if (self->product)
    rlx_kernel_input (kernel, "x", self->x);
  if (self->product && !panel)
    rlx_kernel_input (kernel, "w", self->filter);
  if (self->bias != NULL)
    rlx_kernel_input (kernel, "bias", self->bias);
  rlx_kernel_epilogue (kernel, self->node);
  rlx_kernel_output (kernel, "y", self->y);

  rlx_window_get_strides (&conv->window, (guint64) conv->window.channels, self->sizes_in, &x_strides);
  rlx_window_get_strides (&conv->window, channels, self->sizes_out, &y_strides);
  rlx_kernel_param_u32 (kernel, "m", panel ? self->columns : self->m);
  rlx_kernel_param_u32 (kernel, "c", (guint64) conv->channels_in);
  rlx_kernel_param_u32 (kernel, "x_batch", x_strides.batch);
  rlx_kernel_param_u32 (kernel, "x_channel", conv->shared ? 0 : x_strides.channel);
  rlx_kernel_param_u32 (kernel, "y_batch", y_strides.batch);
  rlx_kernel_param_u32 (kernel, "y_channel", y_strides.channel);
  rlx_kernel_param_u32 (kernel, "w_out", filter_strides[conv->out_axis]);
  rlx_kernel_param_u32 (kernel, "w_in", filter_strides[conv->in_axis]);
  /* One of the two channels of the filter runs through all groups. */
  rlx_kernel_param_u32 (kernel, "w_group",
                        conv->shared ? 0
                        : conv->transposed ? (guint64) conv->channels_in * filter_strides[conv->in_axis]
                                     : self->m * filter_strides[conv->out_axis]);
  for (guint d = 0; d < n_dims; d++)
    {
      const RlxWindowAxis *axis = &conv->window.axes[n_dims - 1 - d];
      gint64 phases = conv->transposed ? MIN (axis->stride, axis->out) : 1;

      rlx_window_param (kernel, "in", d, self->sizes_in[d]);
      rlx_window_param (kernel, "out", d, self->sizes_out[d] / (panel ? self->spread[d] : 1));
      rlx_window_param (kernel, "k", d, (guint64) axis->window);
      rlx_window_param (kernel, "stride", d, (guint64) axis->stride);
      rlx_window_param (kernel, "dilation", d, (guint64) axis->dilation);
      rlx_window_param (kernel, "begin", d, (guint64) axis->begin);
      rlx_window_param (kernel, "x_axis", d, x_strides.axes[d]);
      rlx_window_param (kernel, "y_axis", d, y_strides.axes[d] * (panel ? self->spread[d] : 1));
      rlx_window_param (kernel, "w_axis", d, filter_strides[conv->first_axis + n_dims - 1 - d]);
      if (panel && self->is_spread)
        {
          rlx_window_param (kernel, "spread_k", d, self->spread[d]);
          rlx_window_param (kernel, "spread_w", d, self->filter_strides[conv->first_axis + n_dims - 1 - d]);
          rlx_window_param (kernel, "spread_y", d, y_strides.axes[d]);
        }
      if (!direct)
        {
          rlx_window_param (kernel, "phases", d, (guint64) phases);
          rlx_window_param (kernel, "places", d, (guint64) ((axis->out - 1) / phases + 1));
        }
    }
  if (!direct)
    rlx_kernel_define (kernel, "FEW", conv->channels_in <= MAX_FEW ? conv->channels_in : 0);
  rlx_kernel_set_cost (kernel, get_operations (self), get_bytes (self));
  return TRUE;
}

/* The filter as [m / width][spatial axes][channels][width], the order in which the kernel reads it. */
static const RlxIrValue *
copy_filter (RlxLower        *lower,
             const RlxIrNode *node,
             const Problem   *problem,
             guint64          width,
             guint64         *strides,
             GError         **error)
{
  const RlxConv *conv = &problem->conv;
  const RlxIrValue *filter = problem->filter;
  guint n_axes = conv->window.n_axes, last = n_axes + 2;
  guint64 n_tiles = (problem->m - 1) / width + 1, step = width;
  RlxTensorType type = { filter->type.data_type, 3, { (gint64) n_tiles, (gint64) problem->n_terms, (gint64) width } };
  RlxCopy copy = { .n_dims = last + 1 };
  const RlxIrValue *panels;

  if (!rlx_type_check (&type, error))
    return NULL;
  panels = rlx_lower_temporary (lower, &type);
  copy.shape[0] = (gint64) (problem->m / width);
  copy.from[0] = (gint64) (width * problem->filter_strides[conv->out_axis]);
  copy.to[0] = (gint64) (problem->n_terms * width);
  copy.shape[last] = (gint64) width;
  copy.from[last] = (gint64) problem->filter_strides[conv->out_axis];
  copy.to[last] = 1;
  copy.shape[last - 1] = conv->channels_in;
  copy.from[last - 1] = (gint64) problem->filter_strides[conv->in_axis];
  copy.to[last - 1] = (gint64) step;
  strides[conv->out_axis] = problem->n_terms;
  strides[conv->in_axis] = step;
  step *= (guint64) conv->channels_in;
  for (guint i = n_axes; i-- > 0;)
    {
      gint64 window = conv->window.axes[i].window, stride = (gint64) problem->filter_strides[conv->first_axis + i];

      copy.shape[1 + i] = window;
      copy.from[1 + i] = conv->transposed ? -stride : stride;
      copy.from_offset += conv->transposed ? (window - 1) * stride : 0;
      copy.to[1 + i] = (gint64) step;
      strides[conv->first_axis + i] = step;
      step *= (guint64) window;
    }
  if (problem->m >= width && !rlx_lower_copy (lower, node, filter, panels, &copy, error))
    return NULL;
  /* the last panel may not be full */
  if (problem->m % width != 0)
    {
      copy.from_offset += copy.shape[0] * copy.from[0];
      copy.to_offset = copy.shape[0] * copy.to[0];
      copy.shape[0] = 1;
      copy.shape[last] = (gint64) (problem->m % width);
      if (!rlx_lower_copy (lower, node, filter, panels, &copy, error))
        return NULL;
    }
  return panels;
}

/* Tiles of packed weights, on a CPU. */
static gboolean
panel_describe (const RlxVariant *self,
                RlxLower         *lower,
                const RlxIrNode  *node,
                gconstpointer     data,
                GError          **error)
{
  const guint64 lanes = 8;
  Problem problem = *(const Problem *) data;
  RlxWindow *window = &problem.conv.window;
  guint64 width = self->layout (self, rlx_lower_get_target (lower), &problem).width, stride_k = get_panel_stride (&problem);
  guint64 tiles = rlx_divide_up (problem.columns, width);
  guint64 n_groups = tiles * ((problem.positions - 1) / (4 * lanes) + 1);
  guint64 strides[RLX_MAX_DIMS];
  RlxKernel *kernel;

  for (guint d = 0; d < window->n_axes; d++)
    problem.spread[d] = 1;
  if (problem.is_spread)
    {
      problem.n_terms = (guint64) problem.conv.channels_in;
      problem.phases = 1;
      rlx_lower_pack_weight (lower, problem.filter, problem.n_terms, problem.columns, problem.columns, 1, (guint) width);
      memset (strides, 0, sizeof strides);
      strides[problem.conv.in_axis] = width;
      for (guint d = 0; d < window->n_axes; d++)
        {
          RlxWindowAxis *axis = &window->axes[window->n_axes - 1 - d];

          problem.spread[d] = (guint64) axis->stride;
          axis->window = axis->stride = 1;
        }
    }
  else if (lies_in_panels (&problem))
    {
      guint out_axis = problem.conv.out_axis;

      rlx_lower_pack_weight (lower, problem.filter, problem.n_terms, problem.m, stride_k, problem.filter_strides[out_axis], (guint) width);
      for (guint i = 0; i < problem.filter->type.n_dims; i++)
        strides[i] = i == out_axis ? problem.filter_strides[i] : problem.filter_strides[i] / stride_k * width;
    }
  else
    {
      problem.filter = copy_filter (lower, node, &problem, width, strides, error);
      if (problem.filter == NULL)
        return FALSE;
    }
  for (guint i = 0; problem.conv.transposed && !problem.is_spread && i < window->n_axes; i++)
    window->axes[i].begin = (window->axes[i].window - 1) * window->axes[i].dilation - window->axes[i].begin;
  problem.conv.transposed = FALSE;
  kernel = rlx_kernel_new (lower, node, "conv");
  rlx_kernel_input_vector (kernel, "w", problem.filter, 4);
  rlx_kernel_define (kernel, "WG", (gint64) lanes);
  rlx_kernel_define (kernel, "NC", (gint64) width);
  if (problem.is_spread)
    {
      rlx_kernel_param_u32 (kernel, "channels", problem.m);
      rlx_kernel_param_u32 (kernel, "spread_out", problem.filter_strides[problem.conv.out_axis]);
    }
  rlx_kernel_param_u32 (kernel, "tiles_channel", tiles);
  rlx_kernel_param_u32 (kernel, "positions", problem.positions);
  rlx_kernel_param_u32 (kernel, "terms", problem.n_terms);
  rlx_kernel_param_u32 (kernel, "groups", n_groups);
  return describe (kernel, &problem, strides, FALSE, TRUE, FALSE, error) && rlx_kernel_dispatch (kernel, n_groups, error);
}

/* Neighbours along the innermost axis, on a CPU. */
static gboolean
line_describe (const RlxVariant *self,
               RlxLower         *lower,
               const RlxIrNode  *node,
               gconstpointer     data,
               GError          **error)
{
  const guint64 lanes = 8;
  const Problem *problem = data;
  const RlxWindow *window = &problem->conv.window;
  const RlxWindowAxis *axis = &window->axes[window->n_axes - 1];
  guint64 line = get_line (problem), channels = get_line_channels (problem);
  guint64 tiles_line = rlx_divide_up (problem->sizes_out[0], line), pieces = problem->positions / problem->sizes_out[0] * tiles_line;
  guint64 tiles_position = rlx_divide_up (pieces, lanes), tiles_channel = rlx_divide_up (problem->m, channels);
  guint64 n_groups = tiles_position * tiles_channel * problem->groups;
  RlxKernel *kernel = rlx_kernel_new (lower, node, "conv");

  rlx_kernel_define (kernel, "WG", (gint64) lanes);
  rlx_kernel_define (kernel, "NX", (gint64) line);
  rlx_kernel_define (kernel, "NC", (gint64) channels);
  rlx_kernel_define (kernel, "KX", axis->window);
  rlx_kernel_define (kernel, "STRIDE", axis->stride);
  rlx_kernel_define (kernel, "DILATION", axis->dilation);
  rlx_kernel_define (kernel, "SPAN", ((gint64) line - 1) * axis->stride + (axis->window - 1) * axis->dilation + 1);
  rlx_kernel_define (kernel, "EVEN", problem->sizes_out[0] % line == 0 && pieces % lanes == 0 && problem->m % channels == 0);
  rlx_kernel_param_u32 (kernel, "tiles_position", tiles_position);
  rlx_kernel_param_u32 (kernel, "tiles_channel", tiles_channel);
  rlx_kernel_param_u32 (kernel, "tiles_line", tiles_line);
  rlx_kernel_param_u32 (kernel, "pieces", pieces);
  rlx_kernel_param_u32 (kernel, "groups", n_groups);
  return describe (kernel, problem, problem->filter_strides, FALSE, FALSE, TRUE, error) && rlx_kernel_dispatch (kernel, n_groups, error);
}

typedef struct
{
  gboolean swap;      /* lanes run along channels */
  gboolean across;    /* those of all groups */
} Tiles;

static const Tiles plain_tiles = { FALSE, FALSE }, swap_tiles = { TRUE, FALSE }, across_tiles = { TRUE, TRUE };

static gboolean
tiles_describe (const RlxVariant *self,
                RlxLower         *lower,
                const RlxIrNode  *node,
                gconstpointer     data,
                GError          **error)
{
  const Problem *problem = data;
  const Tiles *how = self->data;
  guint64 min_lanes = rlx_lower_get_target (lower)->lanes;
  guint64 groups = how->across ? 1 : problem->groups;
  guint64 channels = how->across ? problem->m * problem->groups : problem->m;
  guint64 along = how->swap ? channels : problem->positions;
  guint64 across = how->swap ? problem->positions : channels;
  guint64 lanes = 64, tile, tile_lane, tiles_along, tiles_across, n_groups;
  RlxKernel *kernel = rlx_kernel_new (lower, node, "conv");

  if (!describe (kernel, problem, problem->filter_strides, FALSE, FALSE, FALSE, error))
    return FALSE;
  while (lanes > min_lanes && lanes / 2 >= along)
    lanes /= 2;
  tile_lane = along > lanes ? 2 : 1;
  tiles_along = (along - 1) / (lanes * tile_lane) + 1;
  tile = across == 1 ? 1 : across <= 4 ? 4 : 8;
  /* More rows per load, as long as every core has work and the longer
   * compilation pays. */
  if (!how->swap && across >= 16 && problem->n_outputs * problem->n_terms >= 1 << 22 &&
      ((across - 1) / 16 + 1) * tiles_along * problem->phases * groups >= 32)
    tile = 16;
  tiles_across = (across - 1) / tile + 1;
  n_groups = tiles_along * tiles_across * problem->phases * groups;

  rlx_kernel_define (kernel, "WG", (gint64) lanes);
  rlx_kernel_define (kernel, "SWAP", how->swap);
  rlx_kernel_define (kernel, "ACROSS", how->across);
  rlx_kernel_define (kernel, "NP", (gint64) (how->swap ? tile : tile_lane));
  rlx_kernel_define (kernel, "NC", (gint64) (how->swap ? tile_lane : tile));
  rlx_kernel_param_u32 (kernel, "tiles_channel", how->swap ? tiles_along : tiles_across);
  rlx_kernel_param_u32 (kernel, "tiles_position", how->swap ? tiles_across : tiles_along);
  rlx_kernel_param_u32 (kernel, "tile_channels", channels);
  rlx_kernel_param_u32 (kernel, "positions", problem->positions);
  rlx_kernel_param_u32 (kernel, "groups", n_groups);
  return rlx_kernel_dispatch (kernel, n_groups, error);
}

/* Element by element; @self->data tells whether a workgroup shares each sum. */
static gboolean
direct_describe (const RlxVariant *self,
                 RlxLower         *lower,
                 const RlxIrNode  *node,
                 gconstpointer     data,
                 GError          **error)
{
  const Problem *problem = data;
  guint lanes = self->data == NULL ? 1 : problem->n_terms >= 4096 ? 256 : WORKGROUP_SIZE;
  guint64 n_groups = lanes > 1 ? problem->n_outputs : (problem->n_outputs - 1) / WORKGROUP_SIZE + 1;
  RlxKernel *kernel = rlx_kernel_new (lower, node, "conv");

  if (!describe (kernel, problem, problem->filter_strides, TRUE, FALSE, FALSE, error))
    return FALSE;
  rlx_kernel_define (kernel, "LAST", problem->conv.window.channels_last);
  rlx_kernel_define (kernel, "LANES", lanes);
  rlx_kernel_define (kernel, "WG", MAX (lanes, WORKGROUP_SIZE));
  rlx_kernel_param_u32 (kernel, "channels", problem->m * problem->groups);
  rlx_kernel_param_u32 (kernel, "elements", problem->n_outputs);
  rlx_kernel_param_u32 (kernel, "terms", problem->n_terms);
  rlx_kernel_param_u32 (kernel, "groups", n_groups);
  return rlx_kernel_dispatch (kernel, n_groups, error);
}

static const RlxVariant variants[] = {
  { "product", product_fits, conv_cost, NULL, product_describe, NULL },
  { "line", line_fits, conv_cost, NULL, line_describe, NULL },
  { "panel", panel_fits, conv_cost, panel_layout, panel_describe, NULL },
  { "dot", dot_fits, conv_cost, NULL, direct_describe, variants },
  { "across", across_fits, conv_cost, NULL, tiles_describe, &across_tiles },
  { "swap", swap_fits, conv_cost, NULL, tiles_describe, &swap_tiles },
  { "tiles", tiles_fits, conv_cost, NULL, tiles_describe, &plain_tiles },
  { "direct", direct_fits, conv_cost, NULL, direct_describe, NULL },
};

static const RlxSample samples[] = {
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "f32[1, 32, 28, 28]") RLX_SAMPLE_WEIGHT (1, "f32[32, 32, 3, 3]")
    "%2 = conv(%0, %1) {padding = [1, 1, 1, 1]}\n" RLX_SAMPLE_OUTPUT (2), 255 },
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "f32[1, 64, 28, 28]") RLX_SAMPLE_WEIGHT (1, "f32[64, 1, 3, 3]")
    "%2 = conv(%0, %1) {padding = [1, 1, 1, 1], groups = 64}\n" RLX_SAMPLE_OUTPUT (2), 4095 },
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "f32[1, 28, 28, 64]") RLX_SAMPLE_WEIGHT (1, "f32[64, 1, 3, 3]")
    "%2 = conv(%0, %1) {padding = [1, 1, 1, 1], groups = 64, layout = channels-last}\n" RLX_SAMPLE_OUTPUT (2), 4095 },
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "f32[1, 64, 3, 3]") RLX_SAMPLE_WEIGHT (1, "f32[4, 64, 3, 3]")
    "%2 = conv(%0, %1)\n" RLX_SAMPLE_OUTPUT (2), 255 },
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "f32[1, 64, 2, 2]") RLX_SAMPLE_WEIGHT (1, "f32[128, 64, 1, 1]")
    "%2 = conv(%0, %1)\n" RLX_SAMPLE_OUTPUT (2), 255 },
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "f32[1, 3, 4, 4]") RLX_SAMPLE_WEIGHT (1, "f32[2, 3, 3, 3]")
    "%2 = conv(%0, %1)\n" RLX_SAMPLE_OUTPUT (2), 255 },
  { NULL, 0 },
};

const RlxVariants rlx_conv_variants = {
  RLX_FAMILY_CONV, "conv", variants, G_N_ELEMENTS (variants), print_problem, samples,
};

gboolean
rlx_conv_lower (RlxLower        *lower,
                const RlxIrNode *node,
                GError         **error)
{
  Problem problem;

  if (rlx_type_n_elements (&node->outputs[0].type) == 0)
    return TRUE;
  return problem_init (&problem, lower, node, error) && rlx_lower_choose (lower, node, &rlx_conv_variants, &problem, error);
}

gboolean
rlx_conv_transpose_lower (RlxLower        *lower,
                          const RlxIrNode *node,
                          GError         **error)
{
  return rlx_conv_lower (lower, node, error);
}
