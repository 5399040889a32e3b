/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Finds arithmetic that spells an operator out, before rlx-recognise.c finds what is
 * made of such operators:
 *
 * - (x - mean) / √(variance + epsilon) is layer_norm, and x / √(mean square + epsilon)
 *   rms_norm, in the ways that exporters write them: with a power or a product for the
 *   square, a division, a reciprocal or rsqrt, and TensorFlow's x · f + (bias - mean · f)
 *   with the variance as the mean of squares minus the square of the mean. That loses
 *   digits, which layer_norm does not.
 * - A factor and a bias that follow are the norm's own.
 * - The sum of a product of integers, as a float, times a scale, plus a bias is one
 *   kernel.
 * - Powers of 2 and 3 are products.
 * - Rotary positions are rope (rlx-compose-rope.c).
 *
 * Each is found at its last node, and takes what its operands have become already, so
 * that there is no recursion. What is replaced stays behind without users, and the next
 * pass leaves it out.
 */
#include "config.h"

#include "passes/rlx-passes-private.h"

#include <math.h>
#include <string.h>

#include "ops/rlx-builder-private.h"
#include "util/rlx-debug-private.h"

static gboolean
is_number (const RlxIrValue *value,
           double            wanted)
{
  double number;
  gint64 integer;

  return rlx_ir_value_get_immediate (value, &number, &integer) && number == wanted;
}

/* The value that a value is the square of; NULL if it is not a square. */
static const RlxIrValue *
get_root (const RlxIrValue *value)
{
  const RlxIrNode *node = value->node;

  if (rlx_ir_node_is (node, RLX_OP_ID_MUL) && node->inputs[0] == node->inputs[1])
    return node->inputs[0];
  return rlx_ir_node_is (node, RLX_OP_ID_POW) && is_number (node->inputs[1], 2) ? node->inputs[0] : NULL;
}

/* The mean that computes a value, with axes kept; NULL if it is not a mean. */
static const RlxIrNode *
get_mean (const RlxIrValue *value)
{
  const RlxIrNode *node = value->node;

  return rlx_ir_node_is (node, RLX_OP_ID_REDUCE_MEAN) && rlx_reduce_attrs (node)->keep_dims && rlx_reduce_attrs (node)->axes.n_values > 0 ? node : NULL;
}

static guint
get_axes (const RlxIrNode *mean)
{
  const RlxInts *axes = &rlx_reduce_attrs (mean)->axes;
  guint mask = 0;

  for (guint i = 0; i < axes->n_values; i++)
    mask |= 1u << rlx_type_get_axis (&mean->inputs[0]->type, axes->values[i]);
  return mask;
}

/* ---- norms ------------------------------------------------------------------------------- */

typedef struct
{
  const RlxIrValue *x;
  const RlxIrNode *mean;    /* the mean of the elements, which was subtracted, or of their squares */
  gboolean centred;
  double epsilon;
} Norm;

/* value = variance + epsilon, or mean square + epsilon */
static gboolean
find_variance (const RlxIrValue *value,
               Norm             *found)
{
  const RlxIrNode *add = value->node, *outer, *mean;
  const RlxIrValue *root, *variance;
  gint64 integer;

  if (!rlx_ir_node_is (add, RLX_OP_ID_ADD))
    return FALSE;
  if (rlx_ir_value_get_immediate (add->inputs[1], &found->epsilon, &integer))
    variance = add->inputs[0];
  else if (rlx_ir_value_get_immediate (add->inputs[0], &found->epsilon, &integer))
    variance = add->inputs[1];
  else
    return FALSE;
  /* Without one, a row of equal elements is 0 / 0. */
  if (!(found->epsilon > 0) || !rlx_type_same_shape (&variance->type, &value->type))
    return FALSE;

  if (rlx_ir_node_is (variance->node, RLX_OP_ID_SUB))
    {
      /* the mean of squares minus the square of the mean */
      outer = get_mean (variance->node->inputs[0]);
      root = outer != NULL ? get_root (outer->inputs[0]) : NULL;
      mean = root != NULL && get_root (variance->node->inputs[1]) != NULL ? get_mean (get_root (variance->node->inputs[1])) : NULL;
      if (mean == NULL || mean->inputs[0] != root || get_axes (mean) != get_axes (outer))
        return FALSE;
      found->x = root;
      found->mean = mean;
      found->centred = TRUE;
      return TRUE;
    }

  outer = get_mean (variance);
  root = outer != NULL ? get_root (outer->inputs[0]) : NULL;
  if (root == NULL)
    return FALSE;
  found->x = root;
  found->mean = outer;
  found->centred = FALSE;
  /* The squared value tells whether the mean was subtracted. */
  mean = rlx_ir_node_is (root->node, RLX_OP_ID_SUB) ? get_mean (root->node->inputs[1]) : NULL;
  if (mean != NULL && mean->inputs[0] == root->node->inputs[0] && get_axes (mean) == get_axes (outer) &&
      rlx_type_same_shape (&root->type, &mean->inputs[0]->type))
    {
      found->x = mean->inputs[0];
      found->mean = mean;
      found->centred = TRUE;
    }
  return TRUE;
}

/* value = √(variance + epsilon), or the reciprocal of that if @inverse */
static gboolean
find_deviation (const RlxIrValue *value,
                gboolean          inverse,
                Norm             *found)
{
  const RlxIrNode *node = value->node;

  if (!inverse)
    return rlx_ir_node_is (node, RLX_OP_ID_SQRT) && find_variance (node->inputs[0], found);
  if (rlx_ir_node_is (node, RLX_OP_ID_RSQRT))
    return find_variance (node->inputs[0], found);
  if (rlx_ir_node_is (node, RLX_OP_ID_RECIPROCAL))
    return find_deviation (node->inputs[0], FALSE, found);
  return rlx_ir_node_is (node, RLX_OP_ID_DIV) && is_number (node->inputs[0], 1) && find_deviation (node->inputs[1], FALSE, found);
}

/* Whether @value is the operand of @norm: the elements, minus their mean if the norm subtracts it. */
static gboolean
is_dividend (const RlxIrValue *value,
             const Norm       *norm)
{
  if (!norm->centred)
    return value == norm->x;
  return rlx_ir_node_is (value->node, RLX_OP_ID_SUB) && value->node->inputs[0] == norm->x &&
         value->node->inputs[1] == &norm->mean->outputs[0] && rlx_type_same_shape (&value->type, &norm->x->type);
}

static RlxIrValue *
build_norm (RlxRewrite      *self,
            const RlxIrNode *node,
            const Norm      *norm)
{
  g_auto(RlxBuilder) b = RLX_BUILDER (self->out, node);
  const RlxTensorType *type = &norm->x->type;
  gint64 axes[RLX_MAX_DIMS];
  guint n_axes = 0, mask = get_axes (norm->mean);
  RlxIrValue *value;
  RlxLayerNormAttrs attrs;

  for (guint i = 0; i < type->n_dims; i++)
    if (mask & (1u << i))
      axes[n_axes++] = i;
  attrs = (RlxLayerNormAttrs) { .axes = RLX_INTS (axes, n_axes), .epsilon = norm->epsilon };
  value = norm->centred ? rlx_build_layer_norm (&b, self->map[norm->x->id], NULL, NULL, &attrs)
                        : rlx_build_rms_norm (&b, self->map[norm->x->id], NULL, &attrs);
  if (value == NULL || !rlx_type_equal (&value->type, &node->outputs[0].type))
    return NULL;
  value->node->name = g_strdup (node->name);
  self->map[node->outputs[0].id] = value;
  RLX_NOTE (FUSE, "%%%u: arithmetic is %s", node->outputs[0].id, value->node->op->name);
  return value;
}

static gboolean
append_norm (RlxRewrite      *self,
             const RlxIrNode *node)
{
  Norm norm;

  if (rlx_type_n_elements (&node->outputs[0].type) == 0)
    return FALSE;
  if (rlx_ir_node_is (node, RLX_OP_ID_DIV))
    return find_deviation (node->inputs[1], FALSE, &norm) && is_dividend (node->inputs[0], &norm) && build_norm (self, node, &norm) != NULL;
  for (guint i = 0; i < 2 && rlx_ir_node_is (node, RLX_OP_ID_MUL); i++)
    if (find_deviation (node->inputs[1 - i], TRUE, &norm) && is_dividend (node->inputs[i], &norm))
      return build_norm (self, node, &norm) != NULL;
  return FALSE;
}

/* ---- factors and biases of norms --------------------------------------------------------------- */

/* A vector along an axis, as norms and products expect it: without axes of size 1. */
static RlxIrValue *
as_vector_along (RlxBuilder          *b,
                 RlxIrValue          *value,
                 const RlxTensorType *type,
                 guint                axis)
{
  gint64 n = type->shape[axis];
  guint behind = type->n_dims - axis;
  const RlxTensorType *own = &value->type;

  if (own->n_dims < behind || own->n_dims > type->n_dims || own->shape[own->n_dims - behind] != n || rlx_type_n_elements (own) != (guint64) n ||
      own->data_type != type->data_type)
    return NULL;
  return own->n_dims == 1 ? value : rlx_build_reshape (b, value, RLX_RESHAPE_ATTRS (.shape = RLX_INTS (&n, 1)));
}

static RlxIrValue *
as_vector (RlxBuilder          *b,
           RlxIrValue          *value,
           const RlxTensorType *type)
{
  return as_vector_along (b, value, type, type->n_dims - 1);
}

static gboolean
is_over_last_axis (const RlxIrNode *norm)
{
  const RlxInts *axes = &rlx_layer_norm_attrs (norm)->axes;

  return axes->n_values == 1 && rlx_type_get_axis (&norm->inputs[0]->type, axes->values[0]) + 1 == norm->inputs[0]->type.n_dims;
}

static gboolean
append_factor (RlxRewrite      *self,
               const RlxIrNode *node)
{
  const RlxTensorType *type = &node->outputs[0].type;
  gboolean bias = rlx_ir_node_is (node, RLX_OP_ID_ADD);

  if (type->n_dims == 0 || (!bias && !rlx_ir_node_is (node, RLX_OP_ID_MUL)))
    return FALSE;
  for (guint i = 0; i < 2; i++)
    {
      g_auto(RlxBuilder) b = RLX_BUILDER (self->out, node);
      const RlxIrNode *norm = self->map[node->inputs[i]->id]->node;
      gboolean layer = rlx_ir_node_is (norm, RLX_OP_ID_LAYER_NORM);
      RlxIrValue *vector, *value;

      if ((!layer && (bias || !rlx_ir_node_is (norm, RLX_OP_ID_RMS_NORM))) || rlx_rewrite_get_only_user (self, node->inputs[i]) == NULL ||
          !rlx_type_equal (&norm->outputs[0].type, type) || !is_over_last_axis (norm) || (layer && norm->inputs[RLX_LAYER_NORM_BIAS] != NULL) ||
          (!bias && norm->inputs[RLX_LAYER_NORM_SCALE] != NULL))
        continue;
      vector = as_vector (&b, self->map[node->inputs[1 - i]->id], type);
      if (vector == NULL)
        continue;
      value = layer ? rlx_build_layer_norm (&b, norm->inputs[0], bias ? norm->inputs[RLX_LAYER_NORM_SCALE] : vector,
                                            bias ? vector : NULL, rlx_layer_norm_attrs (norm))
                    : rlx_build_rms_norm (&b, norm->inputs[0], vector, rlx_layer_norm_attrs (norm));
      if (value == NULL)
        continue;
      value->node->name = g_strdup (norm->name);
      self->map[node->outputs[0].id] = value;
      RLX_NOTE (FUSE, "%%%u: %s is that of a %s", node->outputs[0].id, bias ? "a bias" : "a factor", norm->op->name);
      return TRUE;
    }
  return FALSE;
}

/* value = (variance + epsilon)^-½ · scale, where the scale may be absent */
static gboolean
find_scaled_deviation (const RlxIrValue *value,
                       Norm             *norm,
                       const RlxIrValue **scale)
{
  *scale = NULL;
  if (find_deviation (value, TRUE, norm))
    return TRUE;
  for (guint i = 0; i < 2 && rlx_ir_node_is (value->node, RLX_OP_ID_MUL); i++)
    if (find_deviation (value->node->inputs[1 - i], TRUE, norm))
      {
        *scale = value->node->inputs[i];
        return TRUE;
      }
  return FALSE;
}

/* The other operand of a product with @value; NULL if @product is not one. */
static const RlxIrValue *
get_other_factor (const RlxIrValue *product,
                  const RlxIrValue *value)
{
  const RlxIrNode *node = product->node;

  if (!rlx_ir_node_is (node, RLX_OP_ID_MUL))
    return NULL;
  return node->inputs[0] == value ? node->inputs[1] : node->inputs[1] == value ? node->inputs[0] : NULL;
}

/* x · f + (bias - mean · f) */
static gboolean
append_shifted_norm (RlxRewrite      *self,
                     const RlxIrNode *node)
{
  const RlxTensorType *type = &node->outputs[0].type;

  for (guint i = 0; i < 2 && rlx_ir_node_is (node, RLX_OP_ID_ADD); i++)
    {
      g_auto(RlxBuilder) b = RLX_BUILDER (self->out, node);
      const RlxIrNode *product = node->inputs[i]->node, *shift = node->inputs[1 - i]->node;
      gint64 axis = (gint64) type->n_dims - 1;
      RlxIrValue *scale_vector = NULL, *bias_vector, *value;
      const RlxIrValue *scale;
      RlxLayerNormAttrs attrs;
      Norm norm;

      if (!rlx_ir_node_is (product, RLX_OP_ID_MUL) || !rlx_ir_node_is (shift, RLX_OP_ID_SUB))
        continue;
      for (guint j = 0; j < 2; j++)
        {
          const RlxIrValue *factor = product->inputs[1 - j];

          if (!find_scaled_deviation (factor, &norm, &scale) || !norm.centred || product->inputs[j] != norm.x ||
              get_axes (norm.mean) != 1u << axis || !rlx_type_equal (&norm.x->type, type) ||
              get_other_factor (shift->inputs[1], factor) != &norm.mean->outputs[0])
            continue;
          bias_vector = as_vector (&b, self->map[shift->inputs[0]->id], type);
          if (scale != NULL)
            scale_vector = as_vector (&b, self->map[scale->id], type);
          if (bias_vector == NULL || (scale != NULL && scale_vector == NULL))
            continue;
          attrs = (RlxLayerNormAttrs) { .axes = RLX_INTS (&axis, 1), .epsilon = norm.epsilon };
          value = rlx_build_layer_norm (&b, self->map[norm.x->id], scale_vector, bias_vector, &attrs);
          if (value == NULL)
            continue;
          value->node->name = g_strdup (node->name);
          self->map[node->outputs[0].id] = value;
          RLX_NOTE (FUSE, "%%%u: arithmetic is layer_norm", node->outputs[0].id);
          return TRUE;
        }
    }
  return FALSE;
}

/* ---- products of integers --------------------------------------------------------------------------- */

static gboolean
is_product (const RlxIrNode *node)
{
  return rlx_ir_node_is (node, RLX_OP_ID_QMATMUL) || rlx_ir_node_is (node, RLX_OP_ID_QCONV2D);
}

/* A number, or a vector for the columns or channels of a product. */
static RlxIrValue *
as_factors (RlxBuilder          *b,
            RlxIrValue          *value,
            const RlxIrNode     *product,
            const RlxTensorType *type)
{
  gboolean channels_first = rlx_ir_node_is (product, RLX_OP_ID_QCONV2D) && rlx_conv_attrs (product)->layout == RLX_LAYOUT_CHANNELS_FIRST;

  return as_vector_along (b, value, type, channels_first ? 1 : type->n_dims - 1);
}

/* The same product of f32, with another bias and scale. */
static RlxIrValue *
build_product (RlxBuilder      *b,
               const RlxIrNode *product,
               RlxIrValue      *bias,
               RlxIrValue      *scale)
{
  RlxIrValue *const *inputs = product->inputs;

  if (rlx_ir_node_is (product, RLX_OP_ID_QCONV2D))
    {
      RlxConvAttrs attrs = *rlx_conv_attrs (product);

      attrs.to = RLX_DATA_TYPE_F32;
      return rlx_build_qconv2d (b, inputs[RLX_QCONV2D_SELF], inputs[RLX_QCONV2D_FILTER], inputs[RLX_QCONV2D_ZERO_X], inputs[RLX_QCONV2D_ZERO_W],
                                bias, scale, NULL, NULL, &attrs);
    }
  else
    {
      RlxQmatmulAttrs attrs = *rlx_qmatmul_attrs (product);

      attrs.to = RLX_DATA_TYPE_F32;
      return rlx_build_qmatmul (b, inputs[RLX_QMATMUL_SELF], inputs[RLX_QMATMUL_OTHER], inputs[RLX_QMATMUL_ZERO_A], inputs[RLX_QMATMUL_ZERO_B],
                                bias, scale, NULL, NULL, &attrs);
    }
}

static gboolean
append_scaled_product (RlxRewrite      *self,
                       const RlxIrNode *node)
{
  const RlxTensorType *type = &node->outputs[0].type;

  for (guint i = 0; i < 2 && rlx_ir_node_is (node, RLX_OP_ID_MUL) && type->data_type == RLX_DATA_TYPE_F32; i++)
    {
      g_auto(RlxBuilder) b = RLX_BUILDER (self->out, node);
      const RlxIrNode *cast = node->inputs[i]->node, *product;
      RlxIrValue *scale, *value;

      if (!rlx_ir_node_is (cast, RLX_OP_ID_CAST) || rlx_rewrite_get_only_user (self, node->inputs[i]) == NULL ||
          rlx_rewrite_get_only_user (self, cast->inputs[0]) == NULL)
        continue;
      product = self->map[cast->inputs[0]->id]->node;
      if (!is_product (product) || product->outputs[0].type.data_type != RLX_DATA_TYPE_I32 || !rlx_type_same_shape (&product->outputs[0].type, type))
        continue;
      scale = self->map[node->inputs[1 - i]->id];
      if (scale->type.n_dims > 0 && rlx_type_n_elements (&scale->type) != 1)
        scale = as_factors (&b, scale, product, type);
      else if (scale->type.n_dims > 0)
        scale = rlx_build_reshape (&b, scale, RLX_RESHAPE_ATTRS ());
      if (scale == NULL)
        continue;
      value = build_product (&b, product, product->inputs[RLX_QMATMUL_BIAS], scale);
      if (value == NULL || !rlx_type_equal (&value->type, type))
        continue;
      value->node->name = g_strdup (product->name);
      self->map[node->outputs[0].id] = value;
      RLX_NOTE (FUSE, "%%%u: a scale is that of a product of integers", node->outputs[0].id);
      return TRUE;
    }
  return FALSE;
}

static gboolean
append_product_bias (RlxRewrite      *self,
                     const RlxIrNode *node)
{
  const RlxTensorType *type = &node->outputs[0].type;

  for (guint i = 0; i < 2 && rlx_ir_node_is (node, RLX_OP_ID_ADD) && type->data_type == RLX_DATA_TYPE_F32; i++)
    {
      g_auto(RlxBuilder) b = RLX_BUILDER (self->out, node);
      const RlxIrNode *product = self->map[node->inputs[i]->id]->node;
      RlxIrValue *bias, *value;

      if (!is_product (product) || product->inputs[RLX_QMATMUL_BIAS] != NULL || rlx_rewrite_get_only_user (self, node->inputs[i]) == NULL ||
          !rlx_type_equal (&product->outputs[0].type, type))
        continue;
      bias = as_factors (&b, self->map[node->inputs[1 - i]->id], product, type);
      value = bias != NULL ? build_product (&b, product, bias, product->inputs[RLX_QMATMUL_SCALE]) : NULL;
      if (value == NULL)
        continue;
      value->node->name = g_strdup (product->name);
      self->map[node->outputs[0].id] = value;
      RLX_NOTE (FUSE, "%%%u: a bias is that of a product of integers", node->outputs[0].id);
      return TRUE;
    }
  return FALSE;
}

/* The scale of a dynamic quantisation times that of a weight is one result more of it. What it is multiplied by has to
 * be there before: a constant or a parameter can be copied at once. */
static gboolean
append_scaled_quantize (RlxRewrite      *self,
                        const RlxIrNode *node)
{
  const RlxIrNode *product = rlx_ir_node_is (node, RLX_OP_ID_DYNAMIC_QUANTIZE) ? rlx_rewrite_get_only_user (self, &node->outputs[1]) : NULL;
  const RlxIrValue *factor;
  RlxTensorType types[4];
  RlxIrValue *inputs[2];
  RlxIrNode *result;

  /* One step binds all of them, and a large tensor takes several bindings. */
  if (product == NULL || !rlx_ir_node_is (product, RLX_OP_ID_MUL) ||
      rlx_target_get_n_segments (self->target, rlx_type_device_size (&node->inputs[0]->type)) > 1 ||
      rlx_target_get_n_segments (self->target, rlx_type_device_size (&product->outputs[0].type)) > 1)
    return FALSE;
  factor = product->inputs[product->inputs[0] == &node->outputs[1]];
  if (self->map[factor->id] == NULL && factor->node->op != &rlx_op_constant && factor->node->op != &rlx_op_parameter)
    return FALSE;
  if (self->map[factor->id] == NULL)
    rlx_rewrite_copy (self, factor->node);
  inputs[0] = self->map[node->inputs[0]->id];
  inputs[1] = self->map[factor->id];
  for (guint i = 0; i < 3; i++)
    types[i] = node->outputs[i].type;
  types[3] = product->outputs[0].type;
  result = rlx_ir_append (self->out, &rlx_op_scaled_quantize, NULL, inputs, 2, types, 4);
  result->name = g_strdup (node->name);
  for (guint i = 0; i < 3; i++)
    self->map[node->outputs[i].id] = &result->outputs[i];
  self->map[product->outputs[0].id] = &result->outputs[3];
  RLX_NOTE (FUSE, "%%%u: a scale is multiplied where it is found", node->outputs[1].id);
  return TRUE;
}

/* ---- powers ------------------------------------------------------------------------------------------- */

static gboolean
append_power (RlxRewrite      *self,
              const RlxIrNode *node)
{
  g_auto(RlxBuilder) b = RLX_BUILDER (self->out, node);
  RlxIrValue *x, *value;
  gboolean cube;

  if (!rlx_ir_node_is (node, RLX_OP_ID_POW) || node->outputs[0].type.data_type != RLX_DATA_TYPE_F32 ||
      !rlx_type_equal (&node->inputs[0]->type, &node->outputs[0].type))
    return FALSE;
  cube = is_number (node->inputs[1], 3);
  if (!cube && !is_number (node->inputs[1], 2))
    return FALSE;
  x = self->map[node->inputs[0]->id];
  value = rlx_build_mul (&b, x, x);
  if (cube && value != NULL)
    value = rlx_build_mul (&b, value, x);
  if (value == NULL)
    return FALSE;
  self->map[node->outputs[0].id] = value;
  RLX_NOTE (FUSE, "%%%u: a power is a product", node->outputs[0].id);
  return TRUE;
}

/* ---- the pass ------------------------------------------------------------------------------------------- */

RlxIr *
rlx_pass_compose (const RlxIr     *ir,
                  const RlxTarget *target,
                  GError         **error)
{
  g_auto(RlxRewrite) self = { 0, };

  rlx_rewrite_init (&self, ir, target);
  for (guint i = 0; i < ir->nodes->len; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);

      /* Some are there already, with what comes before them. */
      if (!self.live[i] || (node->n_outputs > 0 && self.map[node->outputs[0].id] != NULL) || append_scaled_quantize (&self, node) || append_norm (&self, node) || append_shifted_norm (&self, node) || append_factor (&self, node) ||
          append_scaled_product (&self, node) || append_product_bias (&self, node) || append_power (&self, node) || rlx_compose_rope (&self, node))
        continue;
      rlx_rewrite_copy (&self, node);
    }
  return rlx_rewrite_end (&self);
}
