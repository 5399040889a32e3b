/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Convolutions of quantised tensors: bytes are multiplied and added as integers.
 */
#include "config.h"

#include "ops/rlx-conv-private.h"
#include "ops/rlx-quantize-private.h"
#include "ops/rlx-variant-private.h"

#define WORKGROUP_SIZE 64
/* The inputs after the operands and their zero points. */
#define FIRST_INPUT RLX_QCONV2D_BIAS
#define MAX_INPUTS (RLX_QCONV2D_ZERO_Y + 1)

static gboolean
check_zero (RlxOpCall  *call,
            guint       index,
            gint64      channels,
            const char *wanted,
            GError    **error)
{
  const RlxTensorType *zero = index < call->n_inputs ? call->inputs[index] : NULL;
  g_autofree char *text = NULL;

  if (zero == NULL || zero->n_dims == 0 || (zero->n_dims == 1 && (zero->shape[0] == 1 || zero->shape[0] == channels)))
    return TRUE;
  text = rlx_type_to_string (zero);
  return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "%s is %s; it must have %s",
                         call->op->inputs[index].name, text, wanted);
}

gboolean
rlx_qconv2d_infer (RlxOpCall          *call,
                   const RlxConvAttrs *attrs,
                   GError            **error)
{
  RlxTensorType type;
  gint64 channels;
  RlxConv conv;

  if (!rlx_conv_read (&conv, call, attrs, error))
    return FALSE;
  channels = conv.channels_out * conv.groups;
  if (!check_zero (call, RLX_QCONV2D_ZERO_X, 1, "one element", error) ||
      !check_zero (call, RLX_QCONV2D_ZERO_W, channels, "one element or one for each output channel", error) ||
      !rlx_requantize_check (call, FIRST_INPUT, channels, attrs->to, attrs->minimum, attrs->maximum, error))
    return FALSE;

  rlx_window_get_type (&conv.window, attrs->to, channels, &type);
  rlx_call_add_output (call, &type);
  return TRUE;
}

/* ---- variants ------------------------------------------------------------------------- */

typedef struct
{
  RlxConv conv;
  const RlxIrValue *x, *filter, *zero_x, *zero_w;   /* zero points are nullable */
  guint64 filter_strides[RLX_MAX_DIMS];
  guint64 sizes_in[RLX_MAX_SPATIAL], sizes_out[RLX_MAX_SPATIAL];   /* innermost first */
  guint64 n_outputs, positions, terms;
  guint64 m;               /* channels of a group in the result */
  guint64 groups;
  gboolean product;        /* there is something to multiply */
} Problem;

static gboolean
problem_init (Problem         *self,
              const RlxIrNode *node,
              GError         **error)
{
  const RlxTensorType *types[MAX_INPUTS];
  gint64 strides[RLX_MAX_DIMS];
  RlxOpCall call;
  guint n_axes;

  *self = (Problem) {
    .x = node->inputs[RLX_QCONV2D_SELF],
    .filter = node->inputs[RLX_QCONV2D_FILTER],
    .zero_x = rlx_ir_node_get_zero (node, RLX_QCONV2D_ZERO_X),
    .zero_w = rlx_ir_node_get_zero (node, RLX_QCONV2D_ZERO_W),
    .n_outputs = rlx_type_n_elements (&node->outputs[0].type),
  };
  rlx_window_make_call (&call, node, types);
  if (!rlx_conv_read (&self->conv, &call, rlx_conv_attrs (node), error))
    return FALSE;
  rlx_type_get_strides (&self->filter->type, strides);
  for (guint i = 0; i < self->filter->type.n_dims; i++)
    self->filter_strides[i] = (guint64) strides[i];

  n_axes = self->conv.window.n_axes;
  self->m = (guint64) self->conv.channels_out;
  self->groups = (guint64) self->conv.groups;
  self->product = rlx_type_n_elements (&self->x->type) > 0 && rlx_type_n_elements (&self->filter->type) > 0;
  self->positions = (guint64) self->conv.window.batch;
  self->terms = (guint64) self->conv.channels_in;
  for (guint d = 0; d < n_axes; d++)
    {
      RlxWindowAxis *axis = &self->conv.window.axes[n_axes - 1 - d];

      self->sizes_in[d] = (guint64) axis->in;
      self->sizes_out[d] = (guint64) axis->out;
      self->positions *= (guint64) axis->out;
      self->terms *= (guint64) axis->window;
      /* A stride that separates nothing may exceed 32 bits. */
      if (axis->out == 1)
        axis->stride = 1;
    }
  return TRUE;
}

static char *
print_problem (gconstpointer data)
{
  const Problem *self = data;

  return g_strdup_printf ("%" G_GUINT64_FORMAT " groups of %" G_GINT64_FORMAT " to %" G_GUINT64_FORMAT " channels, %" G_GUINT64_FORMAT
                          " positions, sums of %" G_GUINT64_FORMAT ", %s and %s%s", self->groups, self->conv.channels_in, self->m,
                          self->positions, self->terms, rlx_data_type_to_string (self->x->type.data_type),
                          rlx_data_type_to_string (self->filter->type.data_type),
                          self->conv.window.channels_last ? ", channels last" : "");
}

static double
get_operations (const Problem *self)
{
  return self->product ? 2.0 * (double) self->n_outputs * (double) self->terms : 0;
}

static double
qconv_cost (const RlxVariant *variant,
            const RlxTarget  *target,
            gconstpointer     data)
{
  const Problem *self = data;

  return rlx_target_get_seconds (target, get_operations (self),
                                 (double) rlx_type_n_bytes (&self->x->type) + (double) rlx_type_n_bytes (&self->filter->type) +
                                 (double) self->n_outputs);
}

/* What distinguishes the variants. */
typedef struct
{
  gboolean packed;      /* four products at once */
  gboolean swap;        /* lanes run along channels, not along positions */
  gboolean across;      /* those of all groups */
} Tiles;

static const Tiles all_tiles[] = {
  { TRUE, TRUE, TRUE }, { TRUE, TRUE, FALSE }, { TRUE, FALSE, FALSE },
  { FALSE, TRUE, TRUE }, { FALSE, TRUE, FALSE }, { FALSE, FALSE, FALSE },
};

/* Whether rows of channels are whole words, in the operand and in the filter. */
static gboolean
is_packable (const Problem *self)
{
  const RlxConv *conv = &self->conv;

  return conv->window.channels_last && conv->channels_in % 4 == 0 && conv->channels_in > 0 &&
         self->filter_strides[conv->in_axis] == 1;
}

static RlxFit
tiles_fits (const RlxVariant *variant,
            const RlxTarget  *target,
            gconstpointer     data,
            const char      **why)
{
  const Problem *self = data;
  const Tiles *tiles = variant->data;
  guint64 channels = self->m * self->groups;
  gboolean swap = (self->positions < target->lanes && channels > self->positions) ||
                  (self->groups > 1 && self->m < 4 && self->conv.window.channels_last && channels >= target->lanes);

  if (tiles->packed && !(target->features & RLX_DEVICE_FEATURES_PACKED_DOT))
    return rlx_variant_cannot ("needs packed dot products", why);
  if (tiles->packed && !(self->product && is_packable (self)))
    return rlx_variant_cannot ("rows of channels are not whole words", why);
  if (tiles->across && self->groups == 1)
    return rlx_variant_cannot ("there is one group", why);
  if (tiles->swap && !swap)
    return rlx_variant_poorly ("there are enough positions", why);
  if (tiles->swap && !tiles->across && self->groups > 1)
    return rlx_variant_poorly ("channels of all groups are neighbours", why);
  return !tiles->swap && swap ? rlx_variant_poorly ("there are too few positions, or channels are neighbours", why) : RLX_FIT_WELL;
}

static void
describe_operands (RlxKernel     *kernel,
                   const Problem *self)
{
  const RlxIrValue *zero_x = self->zero_x, *zero_w = self->zero_w;
  gint64 known_zero = 0;
  double number;
  gboolean known = zero_x != NULL && rlx_ir_value_get_immediate (zero_x, &number, &known_zero);

  rlx_kernel_input (kernel, "x", self->x);
  rlx_kernel_input (kernel, "w", self->filter);
  rlx_kernel_define (kernel, "ZERO_X", zero_x == NULL ? 0 : known ? 2 : 1);
  rlx_kernel_define (kernel, "ZERO_W", zero_w != NULL);
  if (known)
    rlx_kernel_param_i32 (kernel, "zero_x", known_zero);
  else if (zero_x != NULL)
    rlx_kernel_input (kernel, "zero_x", zero_x);
  if (zero_w != NULL)
    {
      rlx_kernel_input (kernel, "zero_w", zero_w);
      rlx_kernel_param_u32 (kernel, "zero_w_step", rlx_type_n_elements (&zero_w->type) > 1 ? 1 : 0);
    }
}

/* Adds the strides and sizes with which elements are found. */
static void
describe_places (RlxKernel     *kernel,
                 const Problem *self)
{
  const RlxConv *conv = &self->conv;
  guint n_axes = conv->window.n_axes;
  RlxWindowStrides x_strides, y_strides;

  rlx_window_get_strides (&conv->window, (guint64) conv->window.channels, self->sizes_in, &x_strides);
  rlx_window_get_strides (&conv->window, self->m * self->groups, self->sizes_out, &y_strides);
  rlx_kernel_param_u32 (kernel, "m", self->m);
  rlx_kernel_param_u32 (kernel, "c", (guint64) conv->channels_in);
  rlx_kernel_param_u32 (kernel, "x_batch", x_strides.batch);
  rlx_kernel_param_u32 (kernel, "x_channel", x_strides.channel);
  rlx_kernel_param_u32 (kernel, "y_batch", y_strides.batch);
  rlx_kernel_param_u32 (kernel, "y_channel", y_strides.channel);
  rlx_kernel_param_u32 (kernel, "w_out", self->filter_strides[conv->out_axis]);
  rlx_kernel_param_u32 (kernel, "w_in", self->filter_strides[conv->in_axis]);
  for (guint d = 0; d < n_axes; d++)
    {
      const RlxWindowAxis *axis = &conv->window.axes[n_axes - 1 - d];

      rlx_window_param (kernel, "in", d, self->sizes_in[d]);
      rlx_window_param (kernel, "out", d, self->sizes_out[d]);
      rlx_window_param (kernel, "k", d, (guint64) axis->window);
      rlx_window_param (kernel, "stride", d, (guint64) axis->stride);
      rlx_window_param (kernel, "dilation", d, (guint64) axis->dilation);
      rlx_window_param (kernel, "begin", d, (guint64) axis->begin);
      rlx_window_param (kernel, "x_axis", d, x_strides.axes[d]);
      rlx_window_param (kernel, "y_axis", d, y_strides.axes[d]);
      rlx_window_param (kernel, "w_axis", d, self->filter_strides[conv->first_axis + n_axes - 1 - d]);
    }
}

static gboolean
tiles_describe (const RlxVariant *variant,
                RlxLower         *lower,
                const RlxIrNode  *node,
                gconstpointer     data,
                GError          **error)
{
  const Problem *self = data;
  const Tiles *tiles = variant->data;
  guint64 min_lanes = rlx_lower_get_target (lower)->lanes, lanes = WORKGROUP_SIZE;
  guint64 channels = tiles->across ? self->m * self->groups : self->m, along = tiles->swap ? channels : self->positions;
  guint64 tile, tiles_channel, tiles_position, n_groups;
  RlxKernel *kernel = rlx_kernel_new (lower, node, "qconv");
  const RlxIrValue *y;
  RlxPackedDot dot;

  while (lanes > min_lanes && lanes / 2 >= along)
    lanes /= 2;
  if (tiles->swap)
    tile = !tiles->across && self->m > lanes ? 2 : 1;
  else
    tile = self->m == 1 ? 1 : self->m <= 4 || self->n_outputs * self->terms < 1 << 22 ? 4 : 8;
  tiles_channel = rlx_divide_up (channels, tile * (tiles->swap ? lanes : 1));
  tiles_position = tiles->swap ? self->positions : rlx_divide_up (self->positions, lanes);
  n_groups = tiles_channel * tiles_position * (tiles->across ? 1 : self->groups);

  rlx_packed_dot_init (&dot, self->x->type.data_type, self->filter->type.data_type);
  rlx_requantize_describe (kernel, lower, node, FIRST_INPUT, &y);
  rlx_kernel_define (kernel, "RANK", self->conv.window.n_axes);
  rlx_kernel_define (kernel, "PRODUCT", self->product);
  rlx_kernel_define (kernel, "PACKED", tiles->packed);
  rlx_kernel_define (kernel, "SWAP", tiles->swap);
  rlx_kernel_define (kernel, "ACROSS", tiles->across);
  rlx_kernel_define (kernel, "NC", (gint64) tile);
  rlx_kernel_define (kernel, "WG", (gint64) lanes);
  rlx_kernel_define (kernel, "WORDS", !tiles->swap && tile % 4 == 0 && rlx_data_type_get_bits (y->type.data_type) == 8 &&
                                        self->conv.window.channels_last && self->m % 4 == 0);
  rlx_kernel_define_text (kernel, "DOT", dot.function);
  rlx_kernel_define (kernel, "FLIP_X", tiles->packed && dot.flip_a);
  rlx_kernel_define (kernel, "FLIP_W", tiles->packed && dot.flip_b);
  rlx_kernel_define (kernel, "OFFSET_X", self->zero_x != NULL || dot.flip_a);
  rlx_kernel_define (kernel, "OFFSET_W", self->zero_w != NULL || dot.flip_b);
  if (self->product)
    describe_operands (kernel, self);
  rlx_kernel_param_u32 (kernel, "groups", n_groups);
  rlx_kernel_param_u32 (kernel, "positions", self->positions);
  rlx_kernel_param_u32 (kernel, "tiles_channel", tiles_channel);
  rlx_kernel_param_u32 (kernel, "tiles_position", tiles_position);
  rlx_kernel_param_u32 (kernel, "tile_channels", channels);
  describe_places (kernel, self);
  rlx_kernel_set_cost (kernel, get_operations (self),
                       (double) rlx_type_n_bytes (&self->x->type) + (double) rlx_type_n_bytes (&self->filter->type) +
                       (double) rlx_type_n_bytes (&y->type));
  return rlx_kernel_dispatch (kernel, n_groups, error) &&
         rlx_requantize_finish (lower, node, FIRST_INPUT, y, error);
}

static const RlxVariant variants[] = {
  { "packed-across", tiles_fits, qconv_cost, NULL, tiles_describe, &all_tiles[0] },
  { "packed-swap", tiles_fits, qconv_cost, NULL, tiles_describe, &all_tiles[1] },
  { "packed", tiles_fits, qconv_cost, NULL, tiles_describe, &all_tiles[2] },
  { "across", tiles_fits, qconv_cost, NULL, tiles_describe, &all_tiles[3] },
  { "swap", tiles_fits, qconv_cost, NULL, tiles_describe, &all_tiles[4] },
  { "tiles", tiles_fits, qconv_cost, NULL, tiles_describe, &all_tiles[5] },
};

static const RlxSample samples[] = {
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "u8[1, 28, 28, 32]") RLX_SAMPLE_WEIGHT (1, "i8[32, 3, 3, 32]")
    "%2 = qconv2d(%0, %1) {padding = [1, 1, 1, 1], layout = channels-last, filter_layout = osi}\n" RLX_SAMPLE_OUTPUT (2), 255 },
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "u8[1, 28, 28, 64]") RLX_SAMPLE_WEIGHT (1, "i8[64, 3, 3, 1]")
    "%2 = qconv2d(%0, %1) {padding = [1, 1, 1, 1], groups = 64, layout = channels-last, filter_layout = osi}\n" RLX_SAMPLE_OUTPUT (2), 255 },
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "u8[1, 28, 28, 64]") RLX_SAMPLE_WEIGHT (1, "i8[64, 3, 3, 4]")
    "%2 = qconv2d(%0, %1) {padding = [1, 1, 1, 1], groups = 16, layout = channels-last, filter_layout = osi}\n" RLX_SAMPLE_OUTPUT (2), 255 },
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "u8[1, 2, 2, 64]") RLX_SAMPLE_WEIGHT (1, "i8[128, 1, 1, 64]")
    "%2 = qconv2d(%0, %1) {layout = channels-last, filter_layout = osi}\n" RLX_SAMPLE_OUTPUT (2), 255 },
  { NULL, 0 },
};

const RlxVariants rlx_qconv_variants = {
  RLX_FAMILY_QCONV, "qconv2d", variants, G_N_ELEMENTS (variants), print_problem, samples,
};

gboolean
rlx_qconv2d_lower (RlxLower        *lower,
                   const RlxIrNode *node,
                   GError         **error)
{
  Problem problem;

  if (rlx_type_n_elements (&node->outputs[0].type) == 0)
    return TRUE;
  return problem_init (&problem, node, error) && rlx_lower_choose (lower, node, &rlx_qconv_variants, &problem, error);
}
