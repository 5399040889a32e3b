/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "ops/rlx-norm-private.h"

#include <math.h>

#include "ops/rlx-builder-private.h"
#include "ops/rlx-rows-private.h"

static guint
get_axis (gint64               axis,
          const RlxTensorType *type)
{
  return (guint) (axis < 0 ? axis + type->n_dims : axis);
}

static const RlxIrValue *
get_input (const RlxIrNode *node,
           guint            index)
{
  return index < rlx_ir_node_n_own_inputs (node) ? node->inputs[index] : NULL;
}

static gboolean
check_epsilon (RlxOpCall *call,
               double     epsilon,
               GError   **error)
{
  if (!isfinite (epsilon) || epsilon < 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "epsilon is %g; it must be a finite number that is not negative", epsilon);
  return TRUE;
}

/* Input @index, if present, must have the shape of @wanted, for the given @reason. */
static gboolean
check_shape (RlxOpCall           *call,
             guint                index,
             const RlxTensorType *wanted,
             const char          *reason,
             GError             **error)
{
  g_autofree char *got = NULL, *text = NULL;
  RlxTensorType type = *wanted;

  if (index >= call->n_inputs || call->inputs[index] == NULL || rlx_type_same_shape (call->inputs[index], wanted))
    return TRUE;

  got = rlx_type_to_string (call->inputs[index]);
  type.data_type = call->inputs[index]->data_type;
  text = rlx_type_to_string (&type);
  return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                         "the %s is %s; %s %s", call->op->inputs[index].name, got, reason, text);
}

/* Input @index must broadcast to the operand, and not beyond it. */
static gboolean
check_broadcast (RlxOpCall *call,
                 guint      index,
                 GError   **error)
{
  g_autofree char *got = NULL, *text = NULL;
  RlxTensorType joined = *call->inputs[0];

  if (rlx_shape_broadcast (call->inputs[0], call->inputs[index], &joined) && rlx_type_same_shape (&joined, call->inputs[0]))
    return TRUE;

  got = rlx_type_to_string (call->inputs[index]);
  text = rlx_type_to_string (call->inputs[0]);
  return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                         "the %s is %s, which does not broadcast to %s", call->op->inputs[index].name, got, text);
}

/* ---- softmax ------------------------------------------------------------------- */

gboolean
rlx_softmax_infer (RlxOpCall             *call,
                   const RlxSoftmaxAttrs *attrs,
                   GError               **error)
{
  const RlxTensorType *x = call->inputs[0];
  guint axis;

  if (!rlx_call_axis (call, attrs->axis, x->n_dims, &axis, error))
    return FALSE;

  rlx_call_add_output (call, x);
  return TRUE;
}

gboolean
rlx_softmax_lower (RlxLower        *lower,
                   const RlxIrNode *node,
                   GError         **error)
{
  const RlxIrValue *x = node->inputs[0];
  gboolean log = rlx_ir_node_is (node, RLX_OP_ID_LOG_SOFTMAX);
  RlxNorm norm;

  if (rlx_type_n_elements (&x->type) == 0)
    return TRUE;

  rlx_norm_init (&norm, log ? RLX_NORM_LOG_SOFTMAX : RLX_NORM_SOFTMAX, x, &node->outputs[0],
                 1u << get_axis (rlx_softmax_attrs (node)->axis, &x->type));
  return rlx_norm_lower (&norm, lower, node, error);
}

/* ---- over given axes ------------------------------------------------------------------ */

/* The shape of scale and bias: the axes in the order in which they are given. */
static gboolean
check_axes (RlxOpCall               *call,
            const RlxLayerNormAttrs *attrs,
            RlxTensorType           *factor,
            GError                 **error)
{
  const RlxTensorType *x = call->inputs[0];
  const RlxInts *axes = &attrs->axes;
  guint mask;

  if (!rlx_call_axes (call, axes, x->n_dims, FALSE, &mask, error) || !check_epsilon (call, attrs->epsilon, error))
    return FALSE;

  *factor = (RlxTensorType) { .data_type = x->data_type };
  for (guint i = 0; i < axes->n_values; i++)
    factor->shape[factor->n_dims++] = x->shape[get_axis (axes->values[i], x)];
  return TRUE;
}

gboolean
rlx_layer_norm_infer (RlxOpCall               *call,
                      const RlxLayerNormAttrs *attrs,
                      GError                 **error)
{
  RlxTensorType factor;

  if (!check_axes (call, attrs, &factor, error))
    return FALSE;
  for (guint i = 1; i < call->n_inputs; i++)
    if (!check_shape (call, i, &factor, "the axes require", error))
      return FALSE;

  rlx_call_add_output (call, call->inputs[0]);
  return TRUE;
}

gboolean
rlx_rms_norm_infer (RlxOpCall               *call,
                    const RlxLayerNormAttrs *attrs,
                    GError                 **error)
{
  return rlx_layer_norm_infer (call, attrs, error);
}

/* A tensor whose axes are those of the attribute, in its order. */
static void
set_factor (RlxNorm          *norm,
            RlxNormInput      input,
            const RlxIrNode  *node,
            const RlxIrValue *value)
{
  const RlxTensorType *x = &node->inputs[0]->type;
  const RlxInts *axes = &rlx_layer_norm_attrs (node)->axes;
  gint64 stride = 1;

  norm->inputs[input] = value;
  for (guint i = axes->n_values; i-- > 0;)
    {
      guint axis = get_axis (axes->values[i], x);

      norm->strides[input][axis] = stride;
      stride *= x->shape[axis];
    }
}

static void
init_over_axes (RlxNorm         *norm,
                RlxNormKind      kind,
                const RlxIrNode *node)
{
  const RlxLayerNormAttrs *attrs = rlx_layer_norm_attrs (node);
  const RlxIrValue *x = node->inputs[0];

  rlx_norm_init (norm, kind, x, &node->outputs[0], rlx_axes_get_mask (&attrs->axes, x->type.n_dims));
  norm->epsilon = attrs->epsilon;
}

static gboolean
lower_norm (RlxLower        *lower,
            const RlxIrNode *node,
            RlxNormKind      kind,
            GError         **error)
{
  RlxNorm norm;

  if (rlx_type_n_elements (&node->inputs[0]->type) == 0)
    return TRUE;

  init_over_axes (&norm, kind, node);
  if (get_input (node, RLX_LAYER_NORM_SCALE) != NULL)
    set_factor (&norm, RLX_NORM_SCALE, node, node->inputs[RLX_LAYER_NORM_SCALE]);
  if (get_input (node, RLX_LAYER_NORM_BIAS) != NULL)
    set_factor (&norm, RLX_NORM_BIAS, node, node->inputs[RLX_LAYER_NORM_BIAS]);
  return rlx_norm_lower (&norm, lower, node, error);
}

gboolean
rlx_layer_norm_lower (RlxLower        *lower,
                      const RlxIrNode *node,
                      GError         **error)
{
  return lower_norm (lower, node, RLX_NORM_LAYER, error);
}

gboolean
rlx_rms_norm_lower (RlxLower        *lower,
                    const RlxIrNode *node,
                    GError         **error)
{
  return lower_norm (lower, node, RLX_NORM_RMS, error);
}

/* ---- of sums ----------------------------------------------------------------------- */

static gboolean
is_rms (const RlxOp *op)
{
  return op->id == RLX_OP_ID_RESIDUAL_RMS_NORM;
}

gboolean
rlx_residual_norm_infer (RlxOpCall               *call,
                         const RlxLayerNormAttrs *attrs,
                         GError                 **error)
{
  RlxTensorType factor;

  if (!check_axes (call, attrs, &factor, error) || !check_broadcast (call, 1, error))
    return FALSE;
  for (guint i = 2; i < call->n_inputs; i++)
    if (!check_shape (call, i, &factor, "the axes require", error))
      return FALSE;

  rlx_call_add_output (call, call->inputs[0]);
  if (attrs->keep_sum)
    rlx_call_add_output (call, call->inputs[0]);
  return TRUE;
}

gboolean
rlx_residual_norm_lower (RlxLower        *lower,
                         const RlxIrNode *node,
                         GError         **error)
{
  static const RlxNormInput layer[] = { RLX_NORM_SCALE, RLX_NORM_BIAS, RLX_NORM_ADDED };
  static const RlxNormInput rms[] = { RLX_NORM_SCALE, RLX_NORM_ADDED };
  const RlxNormInput *inputs = is_rms (node->op) ? rms : layer;
  RlxNorm norm;

  if (rlx_type_n_elements (&node->inputs[0]->type) == 0)
    return TRUE;

  init_over_axes (&norm, is_rms (node->op) ? RLX_NORM_RMS : RLX_NORM_LAYER, node);
  rlx_norm_broadcast (&norm, RLX_NORM_RESIDUAL, node->inputs[1]);
  for (guint i = 2; i < rlx_ir_node_n_own_inputs (node); i++)
    if (node->inputs[i] != NULL)
      set_factor (&norm, inputs[i - 2], node, node->inputs[i]);
  if (node->n_outputs > 1)
    norm.sum = &node->outputs[1];
  return rlx_norm_lower (&norm, lower, node, error);
}

/* ---- with factors for each element ----------------------------------------------------- */

gboolean
rlx_ada_layer_norm_infer (RlxOpCall               *call,
                          const RlxLayerNormAttrs *attrs,
                          GError                 **error)
{
  RlxTensorType factor;

  if (!check_axes (call, attrs, &factor, error) || !check_broadcast (call, 1, error) || !check_broadcast (call, 2, error))
    return FALSE;

  rlx_call_add_output (call, call->inputs[0]);
  return TRUE;
}

gboolean
rlx_ada_layer_norm_lower (RlxLower        *lower,
                          const RlxIrNode *node,
                          GError         **error)
{
  RlxNorm norm;

  if (rlx_type_n_elements (&node->inputs[0]->type) == 0)
    return TRUE;

  init_over_axes (&norm, RLX_NORM_LAYER, node);
  norm.plus_one = TRUE;
  rlx_norm_broadcast (&norm, RLX_NORM_SCALE, node->inputs[RLX_ADA_LAYER_NORM_SCALE]);
  rlx_norm_broadcast (&norm, RLX_NORM_BIAS, node->inputs[RLX_ADA_LAYER_NORM_SHIFT]);
  return rlx_norm_lower (&norm, lower, node, error);
}

/* ---- lp_norm ------------------------------------------------------------------------------ */

gboolean
rlx_lp_norm_infer (RlxOpCall            *call,
                   const RlxLpNormAttrs *attrs,
                   GError              **error)
{
  const RlxTensorType *x = call->inputs[0];
  gint64 p = attrs->p;
  guint axis;

  if (!rlx_call_axis (call, attrs->axis, x->n_dims, &axis, error))
    return FALSE;
  if (p != 1 && p != 2)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "p is %" G_GINT64_FORMAT "; it must be 1 or 2", p);

  rlx_call_add_output (call, x);
  return TRUE;
}

gboolean
rlx_lp_norm_lower (RlxLower        *lower,
                   const RlxIrNode *node,
                   GError         **error)
{
  const RlxLpNormAttrs *attrs = rlx_lp_norm_attrs (node);
  const RlxIrValue *x = node->inputs[0];
  RlxNorm norm;

  if (rlx_type_n_elements (&x->type) == 0)
    return TRUE;

  rlx_norm_init (&norm, attrs->p == 1 ? RLX_NORM_L1 : RLX_NORM_L2, x, &node->outputs[0],
                 1u << get_axis (attrs->axis, &x->type));
  return rlx_norm_lower (&norm, lower, node, error);
}

/* ---- images: instance_norm, group_norm, layer_norm_2d ------------------------------------- */

static guint
get_channel_axis (RlxLayout            layout,
                  const RlxTensorType *type)
{
  return layout == RLX_LAYOUT_CHANNELS_LAST ? type->n_dims - 1 : 1;
}

gboolean
rlx_image_norm_infer (RlxOpCall               *call,
                      const RlxImageNormAttrs *attrs,
                      GError                 **error)
{
  const RlxTensorType *x = call->inputs[0];
  gboolean groups = call->op->id == RLX_OP_ID_GROUP_NORM;
  RlxTensorType factor = { .data_type = x->data_type, .n_dims = 1 };
  gint64 n_groups = 0;

  if (x->n_dims < 2)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "the operand has %u dimensions, at least 2 are needed: a batch and channels", x->n_dims);
  if (!check_epsilon (call, attrs->epsilon, error))
    return FALSE;

  factor.shape[0] = x->shape[get_channel_axis (attrs->layout, x)];
  if (groups)
    {
      n_groups = attrs->groups;
      if (n_groups < 1 || factor.shape[0] % n_groups != 0)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                               "%" G_GINT64_FORMAT " channels cannot be divided into %" G_GINT64_FORMAT " groups",
                               factor.shape[0], n_groups);
    }
  for (guint i = 1; i < call->n_inputs; i++)
    {
      /* One per group is enough. */
      if (groups && call->inputs[i] != NULL && call->inputs[i]->n_dims == 1 && call->inputs[i]->shape[0] == n_groups)
        continue;
      if (!check_shape (call, i, &factor, "the channels require", error))
        return FALSE;
    }

  rlx_call_add_output (call, x);
  return TRUE;
}

gboolean
rlx_image_norm_lower (RlxLower        *lower,
                      const RlxIrNode *node,
                      GError         **error)
{
  const RlxImageNormAttrs *attrs = rlx_image_norm_attrs (node);
  const RlxIrValue *x = node->inputs[0];
  guint axis = get_channel_axis (attrs->layout, &x->type);
  guint all = (1u << x->type.n_dims) - 1;
  gint64 n_channels = x->type.shape[axis];
  RlxNorm norm;

  if (rlx_type_n_elements (&x->type) == 0)
    return TRUE;

  if (rlx_ir_node_is (node, RLX_OP_ID_LAYER_NORM_2D))
    rlx_norm_init (&norm, RLX_NORM_LAYER, x, &node->outputs[0], 1u << axis);
  else
    rlx_norm_init (&norm, RLX_NORM_LAYER, x, &node->outputs[0], all & ~1u & ~(1u << axis));
  norm.epsilon = attrs->epsilon;

  if (rlx_ir_node_is (node, RLX_OP_ID_GROUP_NORM))
    {
      gint64 n_groups = attrs->groups;

      rlx_norm_split_axis (&norm, axis, n_groups);
      norm.along[axis + 1] = TRUE;
      for (guint i = 1; i < rlx_ir_node_n_own_inputs (node); i++)
        {
          RlxNormInput input = i == 1 ? RLX_NORM_SCALE : RLX_NORM_BIAS;

          if (node->inputs[i] == NULL)
            continue;
          norm.inputs[input] = node->inputs[i];
          if (node->inputs[i]->type.shape[0] == n_channels)
            {
              norm.strides[input][axis] = n_channels / n_groups;
              norm.strides[input][axis + 1] = 1;
            }
          else
            {
              norm.strides[input][axis] = 1;
            }
        }
    }
  else
    {
      for (guint i = 1; i < rlx_ir_node_n_own_inputs (node); i++)
        if (node->inputs[i] != NULL)
          {
            RlxNormInput input = i == 1 ? RLX_NORM_SCALE : RLX_NORM_BIAS;

            norm.inputs[input] = node->inputs[i];
            norm.strides[input][axis] = 1;
          }
    }
  return rlx_norm_lower (&norm, lower, node, error);
}

/* ---- batch_norm --------------------------------------------------------------------------- */

gboolean
rlx_batch_norm_infer (RlxOpCall               *call,
                      const RlxBatchNormAttrs *attrs,
                      GError                 **error)
{
  const RlxTensorType *x = call->inputs[0];
  RlxTensorType factor = { .data_type = x->data_type, .n_dims = 1 };
  guint axis;

  if (!rlx_call_axis (call, attrs->axis, x->n_dims, &axis, error) || !check_epsilon (call, attrs->epsilon, error))
    return FALSE;

  factor.shape[0] = x->shape[axis];
  for (guint i = 1; i < call->n_inputs; i++)
    if (!check_shape (call, i, &factor, "the axis requires", error))
      return FALSE;

  rlx_call_add_output (call, x);
  return TRUE;
}

/* Element-wise operators, in f32: they fuse with those before and after, and known factors
 * are computed only once. */
RlxIrValue *
rlx_batch_norm_expand (RlxBuilder        *b,
                       const RlxIrNode   *node,
                       RlxIrValue *const *inputs)
{
  const RlxBatchNormAttrs *attrs = rlx_batch_norm_attrs (node);
  RlxIrValue *x = inputs[RLX_BATCH_NORM_SELF], *factors[RLX_BATCH_NORM_BIAS + 1] = { NULL, }, *factor;
  guint axis = get_axis (attrs->axis, &x->type);
  gint64 shape[RLX_MAX_DIMS];
  RlxDataType data_type = x->type.data_type;

  /* The axis, and a 1 for each one after it. */
  shape[0] = x->type.shape[axis];
  for (guint i = 1; i < x->type.n_dims - axis; i++)
    shape[i] = 1;

  for (guint i = RLX_BATCH_NORM_MEAN; i <= RLX_BATCH_NORM_BIAS; i++)
    if (inputs[i] != NULL)
      {
        factors[i] = rlx_build_reshape (b, inputs[i], RLX_RESHAPE_ATTRS (.shape = RLX_INTS (shape, x->type.n_dims - axis)));
        factors[i] = rlx_build_cast (b, factors[i], RLX_CAST_ATTRS (.to = RLX_DATA_TYPE_F32));
      }

  factor = rlx_build_affine (b, factors[RLX_BATCH_NORM_VARIANCE], RLX_AFFINE_ATTRS (.beta = attrs->epsilon));
  factor = rlx_build_rsqrt (b, factor);
  if (factors[RLX_BATCH_NORM_SCALE] != NULL)
    factor = rlx_build_mul (b, factor, factors[RLX_BATCH_NORM_SCALE]);

  x = rlx_build_cast (b, x, RLX_CAST_ATTRS (.to = RLX_DATA_TYPE_F32));
  x = rlx_build_sub (b, x, factors[RLX_BATCH_NORM_MEAN]);
  x = rlx_build_mul (b, x, factor);
  if (factors[RLX_BATCH_NORM_BIAS] != NULL)
    x = rlx_build_add (b, x, factors[RLX_BATCH_NORM_BIAS]);
  return rlx_build_cast (b, x, RLX_CAST_ATTRS (.to = data_type));
}
