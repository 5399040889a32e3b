/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Convolutions of quantised tensors: bytes are multiplied and added as integers.
 */
#include "config.h"

#include "ops/rlx-conv-private.h"
#include "ops/rlx-quantize-private.h"


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

/* How the work is divided. */
typedef struct
{
  gboolean swap;      /* lanes along channels */
  gboolean across;    /* those of all groups */
  guint lanes;
  guint tile;         /* channels of an invocation */
} Plan;

static Plan
choose_plan (guint64  positions,
             guint64  m,
             guint64  groups,
             guint64  work,
             gboolean channels_last,
             guint64  min_lanes)
{
  guint64 along;
  Plan plan = { .lanes = WORKGROUP_SIZE };

  plan.swap = (positions < min_lanes && m * groups > positions) ||
              (groups > 1 && m < 4 && channels_last && m * groups >= min_lanes);
  plan.across = plan.swap && groups > 1;
  along = plan.across ? m * groups : plan.swap ? m : positions;
  while (plan.lanes > min_lanes && plan.lanes / 2 >= along)
    plan.lanes /= 2;
  if (plan.swap)
    plan.tile = !plan.across && m > plan.lanes ? 2 : 1;
  else
    plan.tile = m == 1 ? 1 : m <= 4 || work < 1 << 22 ? 4 : 8;
  return plan;
}

/* Whether rows of channels are whole words, in the operand and in the filter. */
static gboolean
is_packable (const RlxConv *conv,
             const guint64 *filter_strides)
{
  return conv->window.channels_last && conv->channels_in % 4 == 0 && conv->channels_in > 0 &&
         filter_strides[conv->in_axis] == 1;
}

gboolean
rlx_qconv2d_lower (RlxLower        *lower,
                   const RlxIrNode *node,
                   GError         **error)
{
  const RlxTarget *target = rlx_lower_get_target (lower);
  const RlxIrValue *x = node->inputs[RLX_QCONV2D_SELF], *filter = node->inputs[RLX_QCONV2D_FILTER];
  const RlxIrValue *zero_x = rlx_ir_node_get_zero (node, RLX_QCONV2D_ZERO_X), *zero_w = rlx_ir_node_get_zero (node, RLX_QCONV2D_ZERO_W);
  const RlxTensorType *types[MAX_INPUTS];
  guint64 filter_strides[RLX_MAX_DIMS], stride = 1;
  guint64 sizes_in[RLX_MAX_SPATIAL], sizes_out[RLX_MAX_SPATIAL];
  guint64 n_outputs = rlx_type_n_elements (&node->outputs[0].type);
  guint64 positions, terms, m, channels, tile_channels, tiles_channel, tiles_position, n_groups;
  RlxWindowStrides x_strides, y_strides;
  gboolean product, packed, words;
  gint64 known_zero = 0;
  double number;
  RlxPackedDot dot;
  const RlxIrValue *y;
  RlxKernel *kernel;
  RlxOpCall call;
  RlxConv conv;
  Plan plan;
  guint n_dims;

  if (n_outputs == 0)
    return TRUE;

  rlx_window_make_call (&call, node, types);
  if (!rlx_conv_read (&conv, &call, rlx_conv_attrs (node), error))
    return FALSE;
  n_dims = conv.window.n_axes;
  m = (guint64) conv.channels_out;
  channels = m * (guint64) conv.groups;
  product = rlx_type_n_elements (&x->type) > 0 && rlx_type_n_elements (&filter->type) > 0;
  for (guint i = filter->type.n_dims; i-- > 0;)
    {
      filter_strides[i] = stride;
      stride *= (guint64) filter->type.shape[i];
    }

  positions = (guint64) conv.window.batch;
  terms = (guint64) conv.channels_in;
  for (guint d = 0; d < n_dims; d++)
    {
      RlxWindowAxis *axis = &conv.window.axes[n_dims - 1 - d];

      sizes_in[d] = (guint64) axis->in;
      sizes_out[d] = (guint64) axis->out;
      positions *= (guint64) axis->out;
      terms *= (guint64) axis->window;
      /* Where a stride has nothing to part it may be beyond 32 bits. */
      if (axis->out == 1)
        axis->stride = 1;
    }
  rlx_window_get_strides (&conv.window, (guint64) conv.window.channels, sizes_in, &x_strides);
  rlx_window_get_strides (&conv.window, channels, sizes_out, &y_strides);

  plan = choose_plan (positions, m, (guint64) conv.groups, n_outputs * terms, conv.window.channels_last, target->lanes);
  packed = product && (target->features & RLX_DEVICE_FEATURES_PACKED_DOT) && is_packable (&conv, filter_strides);
  rlx_packed_dot_init (&dot, x->type.data_type, filter->type.data_type);

  kernel = rlx_kernel_new (lower, node, "qconv");
  rlx_requantize_describe (kernel, lower, node, FIRST_INPUT, &y);
  words = !plan.swap && plan.tile % 4 == 0 && rlx_data_type_get_bits (y->type.data_type) == 8 &&
          conv.window.channels_last && m % 4 == 0;
  rlx_kernel_define (kernel, "RANK", n_dims);
  rlx_kernel_define (kernel, "PRODUCT", product);
  rlx_kernel_define (kernel, "PACKED", packed);
  rlx_kernel_define (kernel, "SWAP", plan.swap);
  rlx_kernel_define (kernel, "ACROSS", plan.across);
  rlx_kernel_define (kernel, "NC", plan.tile);
  rlx_kernel_define (kernel, "WG", plan.lanes);
  rlx_kernel_define (kernel, "WORDS", words);
  rlx_kernel_define_text (kernel, "DOT", dot.function);
  rlx_kernel_define (kernel, "FLIP_X", packed && dot.flip_a);
  rlx_kernel_define (kernel, "FLIP_W", packed && dot.flip_b);
  rlx_kernel_define (kernel, "OFFSET_X", zero_x != NULL || dot.flip_a);
  rlx_kernel_define (kernel, "OFFSET_W", zero_w != NULL || dot.flip_b);

  if (product)
    {
      gboolean known = zero_x != NULL && rlx_ir_value_get_immediate (zero_x, &number, &known_zero);

      rlx_kernel_input (kernel, "x", x);
      rlx_kernel_input (kernel, "w", filter);
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

  tile_channels = plan.across ? channels : m;
  tiles_channel = (tile_channels - 1) / ((guint64) plan.tile * (plan.swap ? plan.lanes : 1)) + 1;
  tiles_position = plan.swap ? positions : (positions - 1) / plan.lanes + 1;
  n_groups = tiles_channel * tiles_position * (plan.across ? 1 : (guint64) conv.groups);
  rlx_kernel_param_u32 (kernel, "groups", n_groups);
  rlx_kernel_param_u32 (kernel, "positions", positions);
  rlx_kernel_param_u32 (kernel, "tiles_channel", tiles_channel);
  rlx_kernel_param_u32 (kernel, "tiles_position", tiles_position);
  rlx_kernel_param_u32 (kernel, "tile_channels", tile_channels);
  rlx_kernel_param_u32 (kernel, "m", m);
  rlx_kernel_param_u32 (kernel, "c", (guint64) conv.channels_in);
  rlx_kernel_param_u32 (kernel, "x_batch", x_strides.batch);
  rlx_kernel_param_u32 (kernel, "x_channel", x_strides.channel);
  rlx_kernel_param_u32 (kernel, "y_batch", y_strides.batch);
  rlx_kernel_param_u32 (kernel, "y_channel", y_strides.channel);
  rlx_kernel_param_u32 (kernel, "w_out", filter_strides[conv.out_axis]);
  rlx_kernel_param_u32 (kernel, "w_in", filter_strides[conv.in_axis]);
  for (guint d = 0; d < n_dims; d++)
    {
      const RlxWindowAxis *axis = &conv.window.axes[n_dims - 1 - d];

      rlx_window_param (kernel, "in", d, sizes_in[d]);
      rlx_window_param (kernel, "out", d, sizes_out[d]);
      rlx_window_param (kernel, "k", d, (guint64) axis->window);
      rlx_window_param (kernel, "stride", d, (guint64) axis->stride);
      rlx_window_param (kernel, "dilation", d, (guint64) axis->dilation);
      rlx_window_param (kernel, "begin", d, (guint64) axis->begin);
      rlx_window_param (kernel, "x_axis", d, x_strides.axes[d]);
      rlx_window_param (kernel, "y_axis", d, y_strides.axes[d]);
      rlx_window_param (kernel, "w_axis", d, filter_strides[conv.first_axis + n_dims - 1 - d]);
    }

  rlx_kernel_set_cost (kernel, product ? 2.0 * (double) n_outputs * (double) terms : 0,
                       (double) rlx_type_n_bytes (&x->type) + (double) rlx_type_n_bytes (&filter->type) +
                       (double) rlx_type_n_bytes (&y->type));
  return rlx_kernel_dispatch (kernel, n_groups, error) &&
         rlx_requantize_finish (lower, node, FIRST_INPUT, y, error);
}
