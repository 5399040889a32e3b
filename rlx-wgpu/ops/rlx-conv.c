/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Convolutions.
 */
#include "config.h"

#include "ops/rlx-conv-private.h"
#include "ops/rlx-fused-private.h"

#include "util/rlx-checked-private.h"

#define WORKGROUP_SIZE 64
/* Up to this many channels a kernel is made for their number: a loop would
 * cost more than what is in it. */
#define MAX_FEW 4
/* The same for elements of a filter along its innermost axis. */
#define MAX_WRITTEN_OUT 8

gboolean rlx_conv_infer           (RlxOpCall *call, GError **error);
gboolean rlx_conv_lower           (RlxLower *lower, const RlxIrNode *node, GError **error);
gboolean rlx_conv_transpose_infer (RlxOpCall *call, GError **error);
gboolean rlx_conv_transpose_lower (RlxLower *lower, const RlxIrNode *node, GError **error);
gboolean rlx_im2col_infer         (RlxOpCall *call, GError **error);
gboolean rlx_im2col_lower         (RlxLower *lower, const RlxIrNode *node, GError **error);

/* ---- rules ---------------------------------------------------------------------- */

typedef RlxConv Conv;

static gboolean
find_filter_axes (Conv            *conv,
                  const RlxOpCall *call,
                  GError         **error)
{
  static const struct { guint8 out, in, spatial; } layouts[] = {
    /* 3 is the last axis, whatever the rank. */
    [RLX_FILTER_LAYOUT_OIS] = { 0, 1, 2 },
    [RLX_FILTER_LAYOUT_IOS] = { 1, 0, 2 },
    [RLX_FILTER_LAYOUT_OSI] = { 0, 3, 1 },
    [RLX_FILTER_LAYOUT_ISO] = { 3, 0, 1 },
    [RLX_FILTER_LAYOUT_SIO] = { 3, 2, 0 },
    [RLX_FILTER_LAYOUT_SOI] = { 2, 3, 0 },
  };
  gint64 layout = rlx_call_attr (call, "filter_layout")->i;
  guint n_axes;
  guint last;

  if (!rlx_window_check_rank (call, &n_axes, error))
    return FALSE;
  if (call->inputs[1]->rank != n_axes + 2)
    {
      g_autofree char *text = rlx_type_to_string (call->inputs[1]);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                             "the filter %s has %u dimensions, the operand has %u",
                             text, call->inputs[1]->rank, n_axes + 2);
    }

  last = n_axes + 1;
  conv->out_axis = layouts[layout].out == 3 ? last : layouts[layout].out == 2 ? last - 1 : layouts[layout].out;
  conv->in_axis = layouts[layout].in == 3 ? last : layouts[layout].in == 2 ? last - 1 : layouts[layout].in;
  conv->first_axis = layouts[layout].spatial;
  return TRUE;
}

static gboolean
conv_init (Conv            *conv,
           const RlxOpCall *call,
           gboolean         transposed,
           GError         **error)
{
  const RlxTensorType *filter = call->inputs[1];
  gint64 filter_in, filter_out;

  *conv = (Conv) { .transposed = transposed };
  if (!find_filter_axes (conv, call, error) ||
      !rlx_window_init (&conv->window, call, filter->dims + conv->first_axis, "the filter", error))
    return FALSE;

  conv->groups = rlx_call_attr (call, "groups")->i;
  if (conv->groups < 1)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "groups is %" G_GINT64_FORMAT ", it must be at least 1", conv->groups);
  /* WebNN does not ask for more than this of a transposed convolution. */
  conv->shared = transposed && conv->window.channels == 1;
  if (conv->window.channels % conv->groups != 0 && !conv->shared)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "the operand has %" G_GINT64_FORMAT " channels, they cannot be divided into %" G_GINT64_FORMAT " groups",
                           conv->window.channels, conv->groups);

  filter_in = filter->dims[conv->in_axis];
  filter_out = filter->dims[conv->out_axis];
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
                               "the filter has %" G_GINT64_FORMAT " output channels, they cannot be divided into %" G_GINT64_FORMAT
                               " groups", filter_out, conv->groups);
      conv->channels_out = filter_out / conv->groups;
    }

  return TRUE;
}

/* How long the axes of a transposed convolution become. */
static gboolean
conv_spread (Conv            *conv,
             const RlxOpCall *call,
             GError         **error)
{
  RlxWindow *window = &conv->window;
  const gint64 *output_padding, *output_sizes;
  g_autoptr(GError) local = NULL;

  if ((!rlx_window_get_list (call, "output_padding", window->n_axes, 0, &output_padding, &local) && local != NULL) ||
      (!rlx_window_get_list (call, "output_sizes", window->n_axes, 1, &output_sizes, &local) && local != NULL))
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
                               "output_padding[%u] is %" G_GINT64_FORMAT ", it must be less than the stride %" G_GINT64_FORMAT
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

      /* Paddings are below 2³¹ together. */
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
                                   "output_sizes[%u] is %" G_GINT64_FORMAT ", it must be from %" G_GINT64_FORMAT
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
                               "of %" G_GINT64_FORMAT " elements along spatial axis %u a padding of %" G_GINT64_FORMAT
                               " and %" G_GINT64_FORMAT " leaves none",
                               all, i, axis->begin, axis->end);
    }

  return TRUE;
}

gboolean
rlx_conv_read (RlxConv         *conv,
               const RlxOpCall *call,
               gboolean         transposed,
               GError         **error)
{
  if (!conv_init (conv, call, transposed, error))
    return FALSE;
  return transposed ? conv_spread (conv, call, error) : rlx_window_slide (&conv->window, call, error);
}

static gboolean
conv_infer (RlxOpCall *call,
            gboolean   transposed,
            GError   **error)
{
  const RlxTensorType *bias = call->inputs[2];
  RlxTensorType type;
  gint64 channels;
  Conv conv;

  if (!rlx_conv_read (&conv, call, transposed, error))
    return FALSE;

  if (!rlx_mul_i64 (conv.channels_out, conv.groups, &channels))
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                           "%" G_GINT64_FORMAT " groups of %" G_GINT64_FORMAT " channels are too many",
                           conv.groups, conv.channels_out);
  if (bias != NULL && (bias->rank != 1 || bias->dims[0] != channels))
    {
      g_autofree char *text = rlx_type_to_string (bias);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                             "the bias is %s, it must have one dimension of %" G_GINT64_FORMAT ", the output channels",
                             text, channels);
    }

  rlx_window_get_type (&conv.window, call->inputs[0]->dtype, channels, &type);
  rlx_call_add_output (call, &type);
  return TRUE;
}

gboolean
rlx_conv_infer (RlxOpCall *call,
                GError   **error)
{
  return conv_infer (call, FALSE, error);
}

gboolean
rlx_conv_transpose_infer (RlxOpCall *call,
                          GError   **error)
{
  return conv_infer (call, TRUE, error);
}

/* ---- lowering ---------------------------------------------------------------------- */

typedef enum
{
  PLAN_TILES,
  PLAN_SWAP,    /* tiles with lanes along channels */
  PLAN_ACROSS,  /* tiles with lanes along the channels of all groups */
  PLAN_PANEL,   /* tiles with packed weights, on a CPU */
  PLAN_DEPTH,   /* each channel by itself, on a CPU */
  PLAN_DIRECT,
  PLAN_DOT,     /* a workgroup for each element */
} Plan;

/* The sizes that decide about the work, spatial axes innermost first. */
typedef struct
{
  guint64 n_outputs;
  guint64 n_terms;        /* of each sum */
  gboolean mostly_padding; /* most terms of each sum */
  guint64 positions;      /* in all batches; of a phase */
  guint64 phases;
  guint64 m;              /* channels of a group */
  guint64 groups;
  gboolean channels_last;
  gboolean filter_last;   /* output channels are neighbours in the filter */
  gboolean cpu;
} Work;

static Plan
choose_plan (const Work *work)
{
  guint64 min_lanes = work->cpu ? 8 : 32;

  if (work->n_terms >= 256 && work->n_outputs <= (work->cpu ? 16 : 2048))
    return PLAN_DOT;

  /* Visits what there is and nothing else. */
  if (work->mostly_padding)
    return PLAN_DIRECT;
  /* Few channels per group: those of the next group may be their neighbours. */
  if ((work->positions < min_lanes || work->channels_last) && work->m < min_lanes &&
      work->groups > 1 && work->m * work->groups >= min_lanes)
    return PLAN_ACROSS;
  if (work->positions < min_lanes && work->m < min_lanes)
    return PLAN_DIRECT;

  if (work->positions < min_lanes && work->positions < work->m)
    return PLAN_SWAP;
  if (work->channels_last && work->filter_last && work->m >= min_lanes)
    return PLAN_SWAP;
  return PLAN_TILES;
}

/* How many channels a panel has, on a CPU; 0: panels are not for this work. More
 * take longer to compile. */
static guint64
choose_panel (const Work *work)
{
  guint64 products = work->n_outputs * work->n_terms;

  if (work->groups > 1 || work->m <= 8 || work->positions < 16 || products < 1 << 20)
    return 0;
  return work->m > 16 && products >= 1 << 24 ? 32 : 16;
}

/* Lets the filter lie in panels, and describes tiles of them. Returns the number of
 * workgroups, 0 when it cannot be; @strides become those within a panel. */
static guint64
describe_panels (RlxKernel        *kernel,
                 RlxLower         *lower,
                 const Work       *work,
                 const Conv       *conv,
                 const RlxIrValue *filter,
                 guint64          *strides,
                 guint64           width)
{
  const guint64 lanes = 8;
  guint64 stride_n = strides[conv->out_axis];
  /* Output channels are the outermost or the innermost axis, or elements of a filter are no run. */
  guint64 stride_k = conv->out_axis == 0 ? 1 : stride_n == 1 ? work->m : 0;
  guint64 tiles = (work->m - 1) / width + 1;
  guint64 n_groups = tiles * ((work->positions - 1) / (4 * lanes) + 1);

  if (stride_k == 0 || !rlx_lower_pack_weight (lower, filter, work->n_terms, work->m, stride_k, stride_n, (guint) width))
    return 0;

  for (guint i = 0; i < filter->type.rank; i++)
    if (i != conv->out_axis)
      strides[i] = strides[i] / stride_k * width;
  rlx_kernel_input_vector (kernel, "w", filter, 4);
  rlx_kernel_define (kernel, "WG", (gint64) lanes);
  rlx_kernel_define (kernel, "NC", (gint64) width);
  rlx_kernel_param_u32 (kernel, "tiles_channel", tiles);
  rlx_kernel_param_u32 (kernel, "positions", work->positions);
  rlx_kernel_param_u32 (kernel, "terms", work->n_terms);
  rlx_kernel_param_u32 (kernel, "groups", n_groups);
  return n_groups;
}

/* Whether each channel is one of the operand by itself, with few elements along a line. */
static gboolean
is_depthwise (const Work *work,
              const Conv *conv)
{
  return conv->groups > 1 && conv->channels_in == 1 && work->positions >= 16 && !work->channels_last &&
         conv->window.axes[conv->window.n_axes - 1].window <= MAX_WRITTEN_OUT;
}

/* Describes four positions of a channel for each lane, returns the number of workgroups. */
static guint64
describe_depth (RlxKernel  *kernel,
                const Work *work,
                const Conv *conv)
{
  const guint64 lanes = 8;
  guint64 tiles = (work->positions - 1) / (4 * lanes) + 1;
  guint64 n_groups = tiles * work->m * work->groups;

  rlx_kernel_define (kernel, "WG", (gint64) lanes);
  rlx_kernel_define (kernel, "KX", conv->window.axes[conv->window.n_axes - 1].window);
  rlx_kernel_param_u32 (kernel, "tiles_position", tiles);
  rlx_kernel_param_u32 (kernel, "positions", work->positions);
  rlx_kernel_param_u32 (kernel, "groups", n_groups);
  return n_groups;
}

/* Describes tiles, returns the number of workgroups. */
static guint64
describe_tiles (RlxKernel  *kernel,
                const Work *work,
                Plan        plan)
{
  gboolean swap = plan != PLAN_TILES;
  guint64 min_lanes = work->cpu ? 8 : 32;
  guint64 groups = plan == PLAN_ACROSS ? 1 : work->groups;
  guint64 channels = plan == PLAN_ACROSS ? work->m * work->groups : work->m;
  guint64 along = swap ? channels : work->positions;
  guint64 across = swap ? work->positions : channels;
  guint64 lanes = 64, tile, tile_lane, tiles_along, tiles_across, n_groups;

  while (lanes > min_lanes && lanes / 2 >= along)
    lanes /= 2;
  tile_lane = along > lanes ? 2 : 1;
  tiles_along = (along - 1) / (lanes * tile_lane) + 1;

  if (across == 1)
    tile = 1;
  else if (across <= 4)
    tile = 4;
  else
    tile = 8;
  /* More rows per load, as long as every core has work and the longer
   * compilation pays. */
  if (!swap && across >= 16 && work->n_outputs * work->n_terms >= 1 << 22 &&
      ((across - 1) / 16 + 1) * tiles_along * work->phases * groups >= 32)
    tile = 16;
  tiles_across = (across - 1) / tile + 1;

  rlx_kernel_define (kernel, "WG", (gint64) lanes);
  rlx_kernel_define (kernel, "SWAP", swap);
  rlx_kernel_define (kernel, "ACROSS", plan == PLAN_ACROSS);
  rlx_kernel_define (kernel, "NP", (gint64) (swap ? tile : tile_lane));
  rlx_kernel_define (kernel, "NC", (gint64) (swap ? tile_lane : tile));
  rlx_kernel_param_u32 (kernel, "tiles_channel", swap ? tiles_along : tiles_across);
  rlx_kernel_param_u32 (kernel, "tiles_position", swap ? tiles_across : tiles_along);
  rlx_kernel_param_u32 (kernel, "tile_channels", channels);
  rlx_kernel_param_u32 (kernel, "positions", work->positions);

  n_groups = tiles_along * tiles_across * work->phases * groups;
  rlx_kernel_param_u32 (kernel, "groups", n_groups);
  return n_groups;
}

static gboolean
conv_lower (RlxLower        *lower,
            const RlxIrNode *node,
            gboolean         transposed,
            GError         **error)
{
  const RlxIrValue *x = node->inputs[0];
  const RlxIrValue *filter = node->inputs[1];
  const RlxIrValue *bias = rlx_node_n_own_inputs (node) > 2 ? node->inputs[2] : NULL;
  const RlxIrValue *y = &node->outputs[0];
  const RlxTensorType *types[3];
  guint64 filter_strides[RLX_MAX_RANK], stride = 1;
  guint64 sizes_in[RLX_MAX_SPATIAL], sizes_out[RLX_MAX_SPATIAL];
  RlxWindowStrides x_strides, y_strides;
  guint64 n_groups = 0, channels, n_there = 1;
  gboolean product, direct, done;
  RlxOpCall call;
  RlxKernel *kernel;
  Conv conv;
  Plan plan;
  guint rank;
  Work work = {
    .n_outputs = rlx_type_n_elements (&y->type),
    .cpu = rlx_lower_get_adapter (lower)->type == RLX_ADAPTER_TYPE_CPU,
    .phases = 1,
  };

  if (work.n_outputs == 0)
    return TRUE;

  rlx_window_make_call (&call, node, types);
  if (!rlx_conv_read (&conv, &call, transposed, error))
    return FALSE;
  if (!rlx_conv_lower_tiles (lower, node, &conv, &done, error))
    return FALSE;
  if (done)
    return TRUE;
  rank = conv.window.n_axes;
  channels = (guint64) (conv.channels_out * conv.groups);
  product = rlx_type_n_elements (&x->type) > 0 && rlx_type_n_elements (&filter->type) > 0;

  for (guint i = filter->type.rank; i-- > 0;)
    {
      filter_strides[i] = stride;
      stride *= (guint64) filter->type.dims[i];
    }

  work.m = (guint64) conv.channels_out;
  work.groups = (guint64) conv.groups;
  work.channels_last = conv.window.channels_last;
  work.filter_last = filter_strides[conv.out_axis] == 1;
  work.positions = (guint64) conv.window.batch;
  work.n_terms = (guint64) conv.channels_in;
  for (guint d = 0; d < rank; d++)
    {
      RlxWindowAxis *axis = &conv.window.axes[rank - 1 - d];

      sizes_in[d] = (guint64) axis->in;
      sizes_out[d] = (guint64) axis->out;
      work.n_terms *= (guint64) axis->window;
      n_there *= (guint64) MIN (axis->window, transposed ? axis->in : (axis->in - 1) / axis->dilation + 1);
      /* Where a stride has nothing to part it may be beyond 32 bits. */
      if ((transposed ? axis->in : axis->out) == 1)
        axis->stride = 1;
      if (transposed)
        {
          gint64 phases = MIN (axis->stride, axis->out);

          work.phases *= (guint64) phases;
          work.positions *= (guint64) ((axis->out - 1) / phases + 1);
        }
      else
        {
          work.positions *= (guint64) axis->out;
        }
    }
  if (!product)
    work.n_terms = 0;
  work.mostly_padding = work.n_terms / 8 >= n_there * (guint64) conv.channels_in && product;

  plan = choose_plan (&work);
  direct = plan == PLAN_DIRECT || plan == PLAN_DOT;

  kernel = rlx_kernel_new (lower, node, "conv");
  if (work.cpu && product && !direct && !transposed && choose_panel (&work) > 0)
    {
      n_groups = describe_panels (kernel, lower, &work, &conv, filter, filter_strides, choose_panel (&work));
      if (n_groups > 0)
        plan = PLAN_PANEL;
    }
  else if (work.cpu && product && !direct && !transposed && is_depthwise (&work, &conv))
    {
      n_groups = describe_depth (kernel, &work, &conv);
      plan = PLAN_DEPTH;
    }
  rlx_kernel_define (kernel, "RANK", rank);
  rlx_kernel_define (kernel, "TRANSPOSED", transposed);
  rlx_kernel_define (kernel, "PRODUCT", product);
  rlx_kernel_define (kernel, "BIAS", bias != NULL);
  rlx_kernel_define (kernel, "DIRECT", direct);
  rlx_kernel_define (kernel, "PANEL", plan == PLAN_PANEL);
  rlx_kernel_define (kernel, "DEPTH", plan == PLAN_DEPTH);
  if (product)
    rlx_kernel_input (kernel, "x", x);
  if (product && plan != PLAN_PANEL)
    rlx_kernel_input (kernel, "w", filter);
  if (bias != NULL)
    rlx_kernel_input (kernel, "bias", bias);
  if (!rlx_kernel_epilogue (kernel, node, error))
    {
      rlx_kernel_free (kernel);
      return FALSE;
    }
  rlx_kernel_output (kernel, "y", y);

  rlx_window_get_strides (&conv.window, (guint64) conv.window.channels, sizes_in, &x_strides);
  rlx_window_get_strides (&conv.window, channels, sizes_out, &y_strides);
  rlx_kernel_param_u32 (kernel, "m", work.m);
  rlx_kernel_param_u32 (kernel, "c", (guint64) conv.channels_in);
  rlx_kernel_param_u32 (kernel, "x_batch", x_strides.batch);
  rlx_kernel_param_u32 (kernel, "x_channel", conv.shared ? 0 : x_strides.channel);
  rlx_kernel_param_u32 (kernel, "y_batch", y_strides.batch);
  rlx_kernel_param_u32 (kernel, "y_channel", y_strides.channel);
  rlx_kernel_param_u32 (kernel, "w_out", filter_strides[conv.out_axis]);
  rlx_kernel_param_u32 (kernel, "w_in", filter_strides[conv.in_axis]);
  /* One of the two channels of the filter runs through all groups. */
  rlx_kernel_param_u32 (kernel, "w_group",
                        conv.shared ? 0
                        : transposed ? (guint64) conv.channels_in * filter_strides[conv.in_axis]
                                     : work.m * filter_strides[conv.out_axis]);
  for (guint d = 0; d < rank; d++)
    {
      const RlxWindowAxis *axis = &conv.window.axes[rank - 1 - d];

      rlx_window_param (kernel, "in", d, sizes_in[d]);
      rlx_window_param (kernel, "out", d, sizes_out[d]);
      rlx_window_param (kernel, "k", d, (guint64) axis->window);
      rlx_window_param (kernel, "stride", d, (guint64) axis->stride);
      rlx_window_param (kernel, "dilation", d, (guint64) axis->dilation);
      rlx_window_param (kernel, "begin", d, (guint64) axis->begin);
      rlx_window_param (kernel, "x_axis", d, x_strides.axes[d]);
      rlx_window_param (kernel, "y_axis", d, y_strides.axes[d]);
      rlx_window_param (kernel, "w_axis", d, filter_strides[conv.first_axis + rank - 1 - d]);
      if (!direct)
        {
          gint64 phases = transposed ? MIN (axis->stride, axis->out) : 1;

          rlx_window_param (kernel, "phases", d, (guint64) phases);
          rlx_window_param (kernel, "places", d, (guint64) ((axis->out - 1) / phases + 1));
        }
    }

  if (direct)
    {
      guint lanes = plan == PLAN_DIRECT ? 1 : work.n_terms >= 4096 ? 256 : WORKGROUP_SIZE;

      rlx_kernel_define (kernel, "LAST", conv.window.channels_last);
      rlx_kernel_define (kernel, "LANES", lanes);
      rlx_kernel_define (kernel, "WG", MAX (lanes, WORKGROUP_SIZE));
      rlx_kernel_param_u32 (kernel, "channels", channels);
      rlx_kernel_param_u32 (kernel, "elements", work.n_outputs);
      rlx_kernel_param_u32 (kernel, "terms", work.n_terms);
      n_groups = lanes > 1 ? work.n_outputs : (work.n_outputs - 1) / WORKGROUP_SIZE + 1;
      rlx_kernel_param_u32 (kernel, "groups", n_groups);
    }
  else
    {
      rlx_kernel_define (kernel, "FEW", conv.channels_in <= MAX_FEW ? conv.channels_in : 0);
      if (plan != PLAN_PANEL && plan != PLAN_DEPTH)
        n_groups = describe_tiles (kernel, &work, plan);
    }

  rlx_kernel_set_cost (kernel, 2.0 * (double) work.n_outputs * (double) work.n_terms / (double) work.phases,
                       (double) rlx_type_n_bytes (&x->type) + (double) rlx_type_n_bytes (&filter->type) +
                       (double) rlx_type_n_bytes (&y->type));
  return rlx_kernel_dispatch (kernel, n_groups, error);
}

gboolean
rlx_conv_lower (RlxLower        *lower,
                const RlxIrNode *node,
                GError         **error)
{
  return conv_lower (lower, node, FALSE, error);
}

gboolean
rlx_conv_transpose_lower (RlxLower        *lower,
                          const RlxIrNode *node,
                          GError         **error)
{
  return conv_lower (lower, node, TRUE, error);
}

/* ---- im2col ------------------------------------------------------------------------- */

static gboolean
im2col_read (RlxWindow       *window,
             const RlxOpCall *call,
             GError         **error)
{
  const gint64 *sizes;
  guint n_axes;
  g_autoptr(GError) local = NULL;

  if (!rlx_window_check_rank (call, &n_axes, error))
    return FALSE;
  if (!rlx_window_get_list (call, "window", n_axes, 1, &sizes, &local))
    {
      if (local == NULL)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                               "window has no values, it must have %u", n_axes);
      g_propagate_error (error, g_steal_pointer (&local));
      return FALSE;
    }

  return rlx_window_init (window, call, sizes, "the window", error) &&
         rlx_window_slide (window, call, error);
}

gboolean
rlx_im2col_infer (RlxOpCall *call,
                  GError   **error)
{
  RlxTensorType type = { .dtype = call->inputs[0]->dtype, .rank = 2 };
  RlxWindow window;
  gboolean fits = TRUE;

  if (!im2col_read (&window, call, error))
    return FALSE;

  type.dims[0] = window.batch;
  type.dims[1] = window.channels;
  for (guint i = 0; i < window.n_axes; i++)
    fits = fits && rlx_mul_i64 (type.dims[0], window.axes[i].out, &type.dims[0]) &&
           rlx_mul_i64 (type.dims[1], window.axes[i].window, &type.dims[1]);
  if (!fits)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT, "the result has more rows or columns than 2⁶³");

  rlx_call_add_output (call, &type);
  return TRUE;
}

gboolean
rlx_im2col_lower (RlxLower        *lower,
                  const RlxIrNode *node,
                  GError         **error)
{
  const RlxIrValue *x = node->inputs[0];
  const RlxIrValue *y = &node->outputs[0];
  guint64 n_elements = rlx_type_n_elements (&y->type);
  gboolean padding = rlx_type_n_elements (&x->type) == 0;
  const RlxTensorType *types[1];
  guint64 sizes[RLX_MAX_SPATIAL];
  RlxWindowStrides strides;
  guint64 n_groups;
  RlxWindow window;
  RlxOpCall call;
  RlxKernel *kernel;

  if (n_elements == 0)
    return TRUE;

  rlx_window_make_call (&call, node, types);
  if (!im2col_read (&window, &call, error))
    return FALSE;

  n_groups = (n_elements - 1) / WORKGROUP_SIZE + 1;
  kernel = rlx_kernel_new (lower, node, "im2col");
  rlx_kernel_define (kernel, "WG", WORKGROUP_SIZE);
  rlx_kernel_define (kernel, "RANK", window.n_axes);
  rlx_kernel_define (kernel, "PADDING", padding);
  rlx_kernel_output_raw (kernel, "y", y);
  rlx_kernel_param_u32 (kernel, "elements", n_elements);
  rlx_kernel_param_u32 (kernel, "groups", n_groups);
  if (!padding)
    {
      rlx_kernel_input_raw (kernel, "x", x);
      for (guint d = 0; d < window.n_axes; d++)
        sizes[d] = (guint64) window.axes[window.n_axes - 1 - d].in;
      rlx_window_get_strides (&window, (guint64) window.channels, sizes, &strides);
      rlx_kernel_param_u32 (kernel, "c", (guint64) window.channels);
      rlx_kernel_param_u32 (kernel, "x_batch", strides.batch);
      rlx_kernel_param_u32 (kernel, "x_channel", strides.channel);
      for (guint d = 0; d < window.n_axes; d++)
        {
          const RlxWindowAxis *axis = &window.axes[window.n_axes - 1 - d];

          rlx_window_param (kernel, "in", d, sizes[d]);
          rlx_window_param (kernel, "out", d, (guint64) axis->out);
          rlx_window_param (kernel, "k", d, (guint64) axis->window);
          rlx_window_param (kernel, "stride", d, (guint64) (axis->out == 1 ? 1 : axis->stride));
          rlx_window_param (kernel, "dilation", d, (guint64) axis->dilation);
          rlx_window_param (kernel, "begin", d, (guint64) axis->begin);
          rlx_window_param (kernel, "x_axis", d, strides.axes[d]);
        }
    }
  rlx_kernel_set_cost (kernel, 0, 2.0 * (double) rlx_type_n_bytes (&y->type));
  return rlx_kernel_dispatch (kernel, n_groups, error);
}
