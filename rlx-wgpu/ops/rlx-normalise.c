/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "ops/rlx-norm-private.h"

#include <math.h>
#include <string.h>

#include "ops/rlx-expand-private.h"
#include "ops/rlx-reduce-private.h"

gboolean    rlx_softmax_infer        (RlxOpCall *call, GError **error);
gboolean    rlx_softmax_lower        (RlxLower *lower, const RlxIrNode *node, GError **error);
gboolean    rlx_layer_norm_infer     (RlxOpCall *call, GError **error);
gboolean    rlx_layer_norm_lower     (RlxLower *lower, const RlxIrNode *node, GError **error);
gboolean    rlx_rms_norm_infer       (RlxOpCall *call, GError **error);
gboolean    rlx_rms_norm_lower       (RlxLower *lower, const RlxIrNode *node, GError **error);
gboolean    rlx_residual_norm_infer  (RlxOpCall *call, GError **error);
gboolean    rlx_residual_norm_lower  (RlxLower *lower, const RlxIrNode *node, GError **error);
gboolean    rlx_ada_layer_norm_infer (RlxOpCall *call, GError **error);
gboolean    rlx_ada_layer_norm_lower (RlxLower *lower, const RlxIrNode *node, GError **error);
gboolean    rlx_lp_norm_infer        (RlxOpCall *call, GError **error);
gboolean    rlx_lp_norm_lower        (RlxLower *lower, const RlxIrNode *node, GError **error);
gboolean    rlx_image_norm_infer     (RlxOpCall *call, GError **error);
gboolean    rlx_image_norm_lower     (RlxLower *lower, const RlxIrNode *node, GError **error);
gboolean    rlx_batch_norm_infer     (RlxOpCall *call, GError **error);
RlxIrValue *rlx_batch_norm_expand    (RlxExpand *expand, GError **error);

static guint
get_axis (gint64               axis,
          const RlxTensorType *type)
{
  return (guint) (axis < 0 ? axis + type->rank : axis);
}

static const RlxIrValue *
get_input (const RlxIrNode *node,
           guint            index)
{
  return index < rlx_node_n_own_inputs (node) ? node->inputs[index] : NULL;
}

static gboolean
check_epsilon (RlxOpCall *call,
               GError   **error)
{
  double epsilon = rlx_call_attr (call, "epsilon")->f;

  if (!isfinite (epsilon) || epsilon < 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "epsilon is %g, it must be a finite number that is not negative", epsilon);
  return TRUE;
}

/* Input @index, if there is one, has the shape of @wanted, which is because of
 * @reason. */
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
  type.dtype = call->inputs[index]->dtype;
  text = rlx_type_to_string (&type);
  return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                         "the %s is %s, %s %s", call->op->inputs[index].name, got, reason, text);
}

/* Input @index broadcasts to the operand and not beyond. */
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
rlx_softmax_infer (RlxOpCall *call,
                   GError   **error)
{
  const RlxTensorType *x = call->inputs[0];
  guint axis;

  if (!rlx_call_axis (call, rlx_call_attr (call, "axis")->i, x->rank, &axis, error))
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
  gboolean log = strcmp (node->op->name, "log_softmax") == 0;
  RlxNorm norm;

  if (rlx_type_n_elements (&x->type) == 0)
    return TRUE;

  rlx_norm_init (&norm, log ? RLX_NORM_LOG_SOFTMAX : RLX_NORM_SOFTMAX, x, &node->outputs[0],
                 1u << get_axis (rlx_node_attr (node, "axis")->i, &x->type));
  return rlx_norm_lower (&norm, lower, node, error);
}

/* ---- over given axes ------------------------------------------------------------------ */

/* What scale and bias look like: the axes in the order they are given. */
static gboolean
check_axes (RlxOpCall     *call,
            RlxTensorType *factor,
            GError       **error)
{
  const RlxTensorType *x = call->inputs[0];
  const RlxAttrValue *axes = rlx_call_attr (call, "axes");
  guint mask;

  if (!rlx_call_axes (call, axes, x->rank, FALSE, &mask, error) || !check_epsilon (call, error))
    return FALSE;

  *factor = (RlxTensorType) { .dtype = x->dtype };
  for (guint i = 0; i < axes->n_ints; i++)
    factor->dims[factor->rank++] = x->dims[get_axis (axes->ints[i], x)];
  return TRUE;
}

static gboolean
check_norm (RlxOpCall *call,
            GError   **error)
{
  RlxTensorType factor;

  if (!check_axes (call, &factor, error))
    return FALSE;
  for (guint i = 1; i < call->n_inputs; i++)
    if (!check_shape (call, i, &factor, "the axes make it", error))
      return FALSE;

  rlx_call_add_output (call, call->inputs[0]);
  return TRUE;
}

gboolean
rlx_layer_norm_infer (RlxOpCall *call,
                      GError   **error)
{
  return check_norm (call, error);
}

gboolean
rlx_rms_norm_infer (RlxOpCall *call,
                    GError   **error)
{
  return check_norm (call, error);
}

/* A tensor whose axes are those of the attribute, in its order. */
static void
set_factor (RlxNorm          *norm,
            RlxNormInput      input,
            const RlxIrNode  *node,
            const RlxIrValue *value)
{
  const RlxTensorType *x = &node->inputs[0]->type;
  const RlxAttrValue *axes = rlx_node_attr (node, "axes");
  gint64 stride = 1;

  norm->inputs[input] = value;
  for (guint i = axes->n_ints; i-- > 0;)
    {
      guint axis = get_axis (axes->ints[i], x);

      norm->strides[input][axis] = stride;
      stride *= x->dims[axis];
    }
}

static void
init_over_axes (RlxNorm         *norm,
                RlxNormKind      kind,
                const RlxIrNode *node)
{
  const RlxIrValue *x = node->inputs[0];

  rlx_norm_init (norm, kind, x, &node->outputs[0], rlx_axes_get_mask (rlx_node_attr (node, "axes"), x->type.rank));
  norm->epsilon = rlx_node_attr (node, "epsilon")->f;
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
  if (get_input (node, 1) != NULL)
    set_factor (&norm, RLX_NORM_SCALE, node, node->inputs[1]);
  if (get_input (node, 2) != NULL)
    set_factor (&norm, RLX_NORM_BIAS, node, node->inputs[2]);
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
  return strcmp (op->name, "residual_rms_norm") == 0;
}

gboolean
rlx_residual_norm_infer (RlxOpCall *call,
                         GError   **error)
{
  RlxTensorType factor;

  if (!check_axes (call, &factor, error) || !check_broadcast (call, 1, error))
    return FALSE;
  for (guint i = 2; i < call->n_inputs; i++)
    if (!check_shape (call, i, &factor, "the axes make it", error))
      return FALSE;

  rlx_call_add_output (call, call->inputs[0]);
  if (rlx_call_attr (call, "keep_sum")->i)
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
  for (guint i = 2; i < rlx_node_n_own_inputs (node); i++)
    if (node->inputs[i] != NULL)
      set_factor (&norm, inputs[i - 2], node, node->inputs[i]);
  if (node->n_outputs > 1)
    norm.sum = &node->outputs[1];
  return rlx_norm_lower (&norm, lower, node, error);
}

/* ---- with factors for each element ----------------------------------------------------- */

gboolean
rlx_ada_layer_norm_infer (RlxOpCall *call,
                          GError   **error)
{
  RlxTensorType factor;

  if (!check_axes (call, &factor, error) || !check_broadcast (call, 1, error) || !check_broadcast (call, 2, error))
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
  rlx_norm_broadcast (&norm, RLX_NORM_SCALE, node->inputs[1]);
  rlx_norm_broadcast (&norm, RLX_NORM_BIAS, node->inputs[2]);
  return rlx_norm_lower (&norm, lower, node, error);
}

/* ---- lp_norm ------------------------------------------------------------------------------ */

gboolean
rlx_lp_norm_infer (RlxOpCall *call,
                   GError   **error)
{
  const RlxTensorType *x = call->inputs[0];
  gint64 p = rlx_call_attr (call, "p")->i;
  guint axis;

  if (!rlx_call_axis (call, rlx_call_attr (call, "axis")->i, x->rank, &axis, error))
    return FALSE;
  if (p != 1 && p != 2)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "p is %" G_GINT64_FORMAT ", it must be 1 or 2", p);

  rlx_call_add_output (call, x);
  return TRUE;
}

gboolean
rlx_lp_norm_lower (RlxLower        *lower,
                   const RlxIrNode *node,
                   GError         **error)
{
  const RlxIrValue *x = node->inputs[0];
  RlxNorm norm;

  if (rlx_type_n_elements (&x->type) == 0)
    return TRUE;

  rlx_norm_init (&norm, rlx_node_attr (node, "p")->i == 1 ? RLX_NORM_L1 : RLX_NORM_L2, x, &node->outputs[0],
                 1u << get_axis (rlx_node_attr (node, "axis")->i, &x->type));
  return rlx_norm_lower (&norm, lower, node, error);
}

/* ---- images: instance_norm, group_norm, layer_norm_2d ------------------------------------- */

static guint
get_channel_axis (const RlxAttrValue  *layout,
                  const RlxTensorType *type)
{
  return layout->i == RLX_LAYOUT_CHANNELS_LAST ? type->rank - 1 : 1;
}

gboolean
rlx_image_norm_infer (RlxOpCall *call,
                      GError   **error)
{
  const RlxTensorType *x = call->inputs[0];
  gboolean groups = strcmp (call->op->name, "group_norm") == 0;
  RlxTensorType factor = { .dtype = x->dtype, .rank = 1 };
  gint64 n_groups = 0;

  if (x->rank < 2)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "the operand has %u dimensions, at least 2 are needed: a batch and channels", x->rank);
  if (!check_epsilon (call, error))
    return FALSE;

  factor.dims[0] = x->dims[get_channel_axis (rlx_call_attr (call, "layout"), x)];
  if (groups)
    {
      n_groups = rlx_call_attr (call, "groups")->i;
      if (n_groups < 1 || factor.dims[0] % n_groups != 0)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                               "%" G_GINT64_FORMAT " channels cannot be divided into %" G_GINT64_FORMAT " groups",
                               factor.dims[0], n_groups);
    }
  for (guint i = 1; i < call->n_inputs; i++)
    {
      /* One for each group will do. */
      if (groups && call->inputs[i] != NULL && call->inputs[i]->rank == 1 && call->inputs[i]->dims[0] == n_groups)
        continue;
      if (!check_shape (call, i, &factor, "the channels make it", error))
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
  const RlxIrValue *x = node->inputs[0];
  guint axis = get_channel_axis (rlx_node_attr (node, "layout"), &x->type);
  guint all = (1u << x->type.rank) - 1;
  gint64 n_channels = x->type.dims[axis];
  RlxNorm norm;

  if (rlx_type_n_elements (&x->type) == 0)
    return TRUE;

  if (strcmp (node->op->name, "layer_norm_2d") == 0)
    rlx_norm_init (&norm, RLX_NORM_LAYER, x, &node->outputs[0], 1u << axis);
  else
    rlx_norm_init (&norm, RLX_NORM_LAYER, x, &node->outputs[0], all & ~1u & ~(1u << axis));
  norm.epsilon = rlx_node_attr (node, "epsilon")->f;

  if (strcmp (node->op->name, "group_norm") == 0)
    {
      gint64 n_groups = rlx_node_attr (node, "groups")->i;

      rlx_norm_split_axis (&norm, axis, n_groups);
      norm.along[axis + 1] = TRUE;
      for (guint i = 1; i < rlx_node_n_own_inputs (node); i++)
        {
          RlxNormInput input = i == 1 ? RLX_NORM_SCALE : RLX_NORM_BIAS;

          if (node->inputs[i] == NULL)
            continue;
          norm.inputs[input] = node->inputs[i];
          if (node->inputs[i]->type.dims[0] == n_channels)
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
      for (guint i = 1; i < rlx_node_n_own_inputs (node); i++)
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
rlx_batch_norm_infer (RlxOpCall *call,
                      GError   **error)
{
  const RlxTensorType *x = call->inputs[0];
  RlxTensorType factor = { .dtype = x->dtype, .rank = 1 };
  guint axis;

  if (!rlx_call_axis (call, rlx_call_attr (call, "axis")->i, x->rank, &axis, error) || !check_epsilon (call, error))
    return FALSE;

  factor.dims[0] = x->dims[axis];
  for (guint i = 1; i < call->n_inputs; i++)
    if (!check_shape (call, i, &factor, "the axis makes it", error))
      return FALSE;

  rlx_call_add_output (call, x);
  return TRUE;
}

/* Element-wise operators, in f32: they join what is in front and behind, and
 * where the factor is known it is computed once. */
RlxIrValue *
rlx_batch_norm_expand (RlxExpand *expand,
                       GError   **error)
{
  const RlxIrNode *node = expand->node;
  RlxIrValue *x = expand->inputs[0], *factors[4] = { NULL, }, *factor;
  guint axis = get_axis (rlx_node_attr (node, "axis")->i, &x->type);
  gint64 shape[RLX_MAX_RANK];
  RlxDataType dtype = x->type.dtype;
  GVariantDict dict;

  /* The axis, and a 1 for each behind it. */
  shape[0] = x->type.dims[axis];
  for (guint i = 1; i < x->type.rank - axis; i++)
    shape[i] = 1;

  for (guint i = 0; i < 4 && i + 1 < node->n_inputs; i++)
    {
      factors[i] = expand->inputs[i + 1];
      if (factors[i] == NULL)
        continue;
      factors[i] = rlx_expand_ints (expand, "reshape", factors[i], "shape", shape, x->type.rank - axis, error);
      if (factors[i] == NULL || (factors[i] = rlx_expand_cast (expand, factors[i], RLX_DATA_TYPE_F32, error)) == NULL)
        return NULL;
    }

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "beta", "d", rlx_node_attr (node, "epsilon")->f);
  factor = rlx_expand_op (expand, "affine", &factors[1], 1, g_variant_dict_end (&dict), error);
  if (factor != NULL)
    factor = rlx_expand_op (expand, "rsqrt", &factor, 1, NULL, error);
  if (factor != NULL && factors[2] != NULL)
    factor = rlx_expand_op (expand, "mul", (RlxIrValue *[]) { factor, factors[2] }, 2, NULL, error);
  if (factor == NULL)
    return NULL;

  x = rlx_expand_cast (expand, x, RLX_DATA_TYPE_F32, error);
  x = rlx_expand_op (expand, "sub", (RlxIrValue *[]) { x, factors[0] }, 2, NULL, error);
  x = rlx_expand_op (expand, "mul", (RlxIrValue *[]) { x, factor }, 2, NULL, error);
  if (factors[3] != NULL)
    x = rlx_expand_op (expand, "add", (RlxIrValue *[]) { x, factors[3] }, 2, NULL, error);
  return x != NULL ? rlx_expand_cast (expand, x, dtype, error) : NULL;
}
