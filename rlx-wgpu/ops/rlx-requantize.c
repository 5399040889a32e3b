/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What a sum of integer products becomes: itself, the number that it represents, or that
 * number quantised again.
 */
#include "config.h"

#include "ops/rlx-quantize-private.h"


enum
{
  BIAS,
  SCALE,
  SCALE_Y,
  ZERO_Y,
};

/* Values of TO in the kernel. */
enum
{
  TO_SUM,
  TO_FLOAT,
  TO_LEVEL,
};

void
rlx_packed_dot_init (RlxPackedDot *dot,
                     RlxDataType   a,
                     RlxDataType   b)
{
  gboolean both = a == RLX_DATA_TYPE_U8 && b == RLX_DATA_TYPE_U8;

  dot->function = both ? "dot4U8Packed" : "dot4I8Packed";
  dot->flip_a = !both && a == RLX_DATA_TYPE_U8;
  dot->flip_b = !both && b == RLX_DATA_TYPE_U8;
}

const RlxIrValue *
rlx_ir_node_get_input (const RlxIrNode *node,
                       guint            index)
{
  return index < node->n_inputs ? node->inputs[index] : NULL;
}

const RlxIrValue *
rlx_ir_node_get_zero (const RlxIrNode *node,
                      guint            index)
{
  const RlxIrValue *zero = rlx_ir_node_get_input (node, index);
  double number;
  gint64 integer;

  if (zero != NULL && rlx_ir_value_get_immediate (zero, &number, &integer) && integer == 0)
    return NULL;
  return zero;
}

static const RlxTensorType *
get_type (const RlxOpCall *call,
          guint            index)
{
  return index < call->n_inputs ? call->inputs[index] : NULL;
}

/* One element, or one per channel. */
static gboolean
check_vector (RlxOpCall  *call,
              guint       index,
              gint64      channels,
              GError    **error)
{
  const RlxTensorType *type = get_type (call, index);
  g_autofree char *text = NULL;

  if (type == NULL || type->n_dims == 0 || (type->n_dims == 1 && (type->shape[0] == channels || type->shape[0] == 1)))
    return TRUE;
  text = rlx_type_to_string (type);
  return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                         "%s is %s; it must have one element or one dimension of %" G_GINT64_FORMAT,
                         call->op->inputs[index].name, text, channels);
}

static gboolean
check_absent (RlxOpCall  *call,
              guint       index,
              RlxDataType to,
              GError    **error)
{
  if (get_type (call, index) == NULL)
    return TRUE;
  return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                         "there is %s, but the result is of type %s",
                         call->op->inputs[index].name, rlx_data_type_to_string (to));
}

static gboolean
check_present (RlxOpCall  *call,
               guint       index,
               RlxDataType to,
               GError    **error)
{
  if (get_type (call, index) != NULL)
    return TRUE;
  return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                         "there is no %s for a result of type %s",
                         call->op->inputs[index].name, rlx_data_type_to_string (to));
}

gboolean
rlx_requantize_check (RlxOpCall   *call,
                      guint        first,
                      gint64       channels,
                      RlxDataType  to,
                      gint64       minimum,
                      gint64       maximum,
                      GError     **error)
{
  const RlxTensorType *bias = get_type (call, first + BIAS), *zero = get_type (call, first + ZERO_Y);

  if (!check_vector (call, first + BIAS, channels, error) ||
      !check_vector (call, first + SCALE, channels, error) ||
      !check_vector (call, first + SCALE_Y, 1, error) ||
      !check_vector (call, first + ZERO_Y, 1, error))
    return FALSE;

  if (to == RLX_DATA_TYPE_I32)
    {
      if (!check_absent (call, first + SCALE, to, error))
        return FALSE;
      if (bias != NULL && bias->data_type != RLX_DATA_TYPE_I32)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_DATA_TYPE,
                               "the bias is of type %s, but the result of type i32", rlx_data_type_to_string (bias->data_type));
    }
  else if (!check_present (call, first + SCALE, to, error))
    {
      return FALSE;
    }

  if (to == RLX_DATA_TYPE_I8 || to == RLX_DATA_TYPE_U8)
    {
      if (!check_present (call, first + SCALE_Y, to, error))
        return FALSE;
      if (zero != NULL && zero->data_type != to)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_DATA_TYPE,
                               "zero_y is of type %s, but the result of type %s",
                               rlx_data_type_to_string (zero->data_type), rlx_data_type_to_string (to));
      if (minimum > maximum)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                               "minimum %" G_GINT64_FORMAT " is greater than maximum %" G_GINT64_FORMAT, minimum, maximum);
      return TRUE;
    }

  if (!rlx_data_type_is_float (to) && to != RLX_DATA_TYPE_I32)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_DATA_TYPE,
                           "the result cannot be of type %s; it can be i32, f32, f16, i8 or u8", rlx_data_type_to_string (to));
  if (!check_absent (call, first + SCALE_Y, to, error) || !check_absent (call, first + ZERO_Y, to, error))
    return FALSE;
  if (minimum != RLX_QMATMUL_ATTRS ()->minimum || maximum != RLX_QMATMUL_ATTRS ()->maximum)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "there are limits, but the result is of type %s", rlx_data_type_to_string (to));
  return TRUE;
}

static void
get_limits (const RlxIrNode *node,
            double          *lowest,
            double          *highest)
{
  gboolean matmul = rlx_ir_node_is (node, RLX_OP_ID_QMATMUL);
  double minimum = (double) (matmul ? rlx_qmatmul_attrs (node)->minimum : rlx_conv_attrs (node)->minimum);
  double maximum = (double) (matmul ? rlx_qmatmul_attrs (node)->maximum : rlx_conv_attrs (node)->maximum);
  double least, greatest;

  rlx_quantize_get_levels (node->outputs[0].type.data_type, &least, &greatest);
  *lowest = CLAMP (minimum, least, greatest);
  *highest = CLAMP (maximum, least, greatest);
}

/* Known numbers become parameters, because a kernel has few bindings. */
static gboolean
has_known_levels (const RlxIrNode *node,
                  guint            first,
                  double          *scale,
                  double          *zero)
{
  const RlxIrValue *scale_y = rlx_ir_node_get_input (node, first + SCALE_Y), *zero_y = rlx_ir_node_get_input (node, first + ZERO_Y);
  gint64 integer = 0;

  *zero = 0;
  return rlx_ir_value_get_immediate (scale_y, scale, &integer) &&
         (zero_y == NULL || rlx_ir_value_get_immediate (zero_y, zero, &integer));
}

void
rlx_requantize_describe (RlxKernel         *kernel,
                         RlxLower          *lower,
                         const RlxIrNode   *node,
                         guint              first,
                         const RlxIrValue **y)
{
  const RlxIrValue *bias = rlx_ir_node_get_input (node, first + BIAS), *scale = rlx_ir_node_get_input (node, first + SCALE);
  RlxDataType to = node->outputs[0].type.data_type;
  gboolean is_float = bias != NULL && bias->type.data_type == RLX_DATA_TYPE_F32;
  guint kind = to == RLX_DATA_TYPE_I32 ? TO_SUM : rlx_data_type_is_float (to) ? TO_FLOAT : TO_LEVEL;
  double scale_y, zero_y;

  *y = &node->outputs[0];
  if (kind == TO_LEVEL && has_known_levels (node, first, &scale_y, &zero_y))
    {
      double lowest, highest;

      get_limits (node, &lowest, &highest);
      rlx_kernel_param_f32 (kernel, "scale_y", scale_y);
      rlx_kernel_param_f32 (kernel, "zero_y", zero_y);
      rlx_kernel_param_f32 (kernel, "lowest", lowest);
      rlx_kernel_param_f32 (kernel, "highest", highest);
    }
  else if (kind == TO_LEVEL)
    {
      RlxTensorType type = node->outputs[0].type;

      type.data_type = RLX_DATA_TYPE_F32;
      *y = rlx_lower_temporary (lower, &type);
      kind = TO_FLOAT;
    }

  rlx_kernel_define (kernel, "TO", kind);
  rlx_kernel_define (kernel, "BIAS", bias == NULL ? 0 : is_float ? 2 : 1);
  if (bias != NULL)
    {
      rlx_kernel_input (kernel, "bias", bias);
      rlx_kernel_param_u32 (kernel, "bias_step", rlx_type_n_elements (&bias->type) > 1 ? 1 : 0);
    }
  if (kind != TO_SUM)
    {
      rlx_kernel_input (kernel, "scale", scale);
      rlx_kernel_param_u32 (kernel, "scale_step", rlx_type_n_elements (&scale->type) > 1 ? 1 : 0);
    }
  rlx_kernel_output (kernel, "y", *y);
}

gboolean
rlx_requantize_finish (RlxLower         *lower,
                       const RlxIrNode  *node,
                       guint             first,
                       const RlxIrValue *y,
                       GError          **error)
{
  double lowest, highest;

  if (y == &node->outputs[0])
    return TRUE;
  get_limits (node, &lowest, &highest);
  return rlx_quantize_step (lower, node, y, node->inputs[first + SCALE_Y], rlx_ir_node_get_input (node, first + ZERO_Y),
                            &node->outputs[0], lowest, highest, error);
}
