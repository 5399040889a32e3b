/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Gradients of softmax and of norms, in f32 whatever the operands are.
 */
#include "config.h"

#include "ops/rlx-gradient-private.h"

void
rlx_softmax_gradient (RlxGradient     *self,
                      const RlxIrNode *node)
{
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *g = rlx_build_as (b, rlx_gradient_get (self, node, 0), RLX_DATA_TYPE_F32);
  RlxIrValue *y = rlx_build_as (b, &node->outputs[0], RLX_DATA_TYPE_F32);
  gint64 axis = rlx_softmax_attrs (node)->axis;

  if (node->op->id == RLX_OP_ID_LOG_SOFTMAX)
    g = rlx_build_sub (b, g, rlx_build_mul (b, rlx_build_exp (b, y), rlx_build_sum_along (b, g, axis)));
  else
    g = rlx_build_mul (b, y, rlx_build_sub (b, g, rlx_build_sum_along (b, rlx_build_mul (b, g, y), axis)));
  rlx_gradient_add (self, node, 0, g);
}

/* ---- norms ------------------------------------------------------------------------- */

/* The form in which all norms can be seen: over some axes of an operand that was reshaped, with a
 * scale and a bias that broadcast to it. */
typedef struct
{
  RlxIrValue *x;
  RlxIrValue *g;
  RlxIrValue *scale;           /* NULL for 1 */
  gint64 axes[RLX_MAX_DIMS];
  guint n_axes;
  double epsilon;
  gboolean centred;            /* the mean is subtracted */
  /* results */
  RlxIrValue *dx;
  RlxIrValue *dscale;          /* before it is summed to the shape of the scale */
} Norm;

static RlxIrValue *
mean_of (Norm       *self,
         RlxBuilder *b,
         RlxIrValue *x)
{
  return rlx_build_reduce_mean (b, x, RLX_REDUCE_MEAN_ATTRS (.axes = RLX_INTS (self->axes, self->n_axes), .keep_dims = TRUE));
}

/* With x̂ = (x - mean) / σ and h = g · scale: dx = (h - mean(h) - x̂ · mean(h · x̂)) / σ. */
static void
norm_differentiate (Norm       *self,
                    RlxBuilder *b)
{
  RlxIrValue *x = rlx_build_as (b, self->x, RLX_DATA_TYPE_F32);
  RlxIrValue *g = self->g, *h, *rate, *unit;

  if (self->centred)
    x = rlx_build_sub (b, x, mean_of (self, b, x));
  rate = mean_of (self, b, rlx_build_mul (b, x, x));
  rate = rlx_build_rsqrt (b, rlx_build_add (b, rate, rlx_build_number (b, rate, self->epsilon)));
  unit = rlx_build_mul (b, x, rate);
  h = self->scale != NULL ? rlx_build_mul (b, g, rlx_build_as (b, self->scale, RLX_DATA_TYPE_F32)) : g;
  self->dx = rlx_build_sub (b, h, rlx_build_mul (b, unit, mean_of (self, b, rlx_build_mul (b, h, unit))));
  if (self->centred)
    self->dx = rlx_build_sub (b, self->dx, mean_of (self, b, h));
  self->dx = rlx_build_mul (b, self->dx, rate);
  self->dscale = rlx_build_mul (b, g, unit);
}

/* Axes in the order in which they are given, as scale and bias have them. */
typedef struct
{
  RlxTensorType kept;          /* the operand's shape with 1 for axes that are not normalised */
  gint64 order[RLX_MAX_DIMS];  /* from the given axes to ascending ones */
  gint64 back[RLX_MAX_DIMS];
  guint n;
} Order;

static void
order_init (Order               *self,
            const RlxTensorType *x,
            const RlxInts       *axes)
{
  guint places[RLX_MAX_DIMS];

  *self = (Order) { .kept = *x, .n = axes->n_values };
  for (guint i = 0; i < x->n_dims; i++)
    self->kept.shape[i] = 1;
  for (guint i = 0; i < self->n; i++)
    {
      places[i] = rlx_type_get_axis (x, axes->values[i]);
      self->kept.shape[places[i]] = x->shape[places[i]];
    }
  for (guint i = 0; i < self->n; i++)
    {
      guint rank = 0;

      for (guint k = 0; k < self->n; k++)
        rank += places[k] < places[i];
      self->order[rank] = i;
      self->back[i] = rank;
    }
}

static RlxIrValue *
order_spread (const Order *self,
              RlxBuilder  *b,
              RlxIrValue  *x)
{
  if (x == NULL)
    return NULL;
  if (self->n > 1)
    x = rlx_build_transpose (b, x, RLX_TRANSPOSE_ATTRS (.permutation = RLX_INTS (self->order, self->n)));
  return rlx_build_shaped (b, x, self->kept.shape, self->kept.n_dims);
}

/* The sum over all other axes, as the operand of type @type requires. */
static RlxIrValue *
order_collect (const Order         *self,
               RlxBuilder          *b,
               RlxIrValue          *x,
               const RlxTensorType *type)
{
  gint64 ascending[RLX_MAX_DIMS];

  for (guint i = 0; i < self->n; i++)
    ascending[i] = type->shape[self->order[i]];
  x = rlx_build_shaped (b, rlx_build_sum_to (b, x, &self->kept), ascending, self->n);
  if (self->n > 1)
    x = rlx_build_transpose (b, x, RLX_TRANSPOSE_ATTRS (.permutation = RLX_INTS (self->back, self->n)));
  return x;
}

static Norm
norm_of (const RlxIrNode         *node,
         const RlxLayerNormAttrs *attrs,
         RlxIrValue              *g)
{
  Norm norm = { .x = node->inputs[0], .g = g, .n_axes = attrs->axes.n_values, .epsilon = attrs->epsilon };

  for (guint i = 0; i < norm.n_axes; i++)
    norm.axes[i] = attrs->axes.values[i];
  norm.centred = node->op->id != RLX_OP_ID_RMS_NORM;
  return norm;
}

/* Whether the axes are the last ones in their order, and so a single one if they are merged. */
static gboolean
are_last (const RlxTensorType *x,
          const RlxInts       *axes)
{
  for (guint i = 0; i < axes->n_values; i++)
    if (rlx_type_get_axis (x, axes->values[i]) != x->n_dims - axes->n_values + i)
      return FALSE;
  return axes->n_values > 0;
}

/* An operator with a kernel for it, which also adds what other users of the operand contributed. */
static void
add_backward (RlxGradient             *self,
              const RlxIrNode         *node,
              const RlxLayerNormAttrs *attrs,
              RlxIrValue              *g)
{
  RlxBuilder *b = rlx_gradient_get_builder (self);
  const RlxTensorType *type = &node->inputs[0]->type;
  guint n_dims = type->n_dims - attrs->axes.n_values + 1;
  gboolean factors = rlx_gradient_wants (self, node, RLX_LAYER_NORM_SCALE) || rlx_gradient_wants (self, node, RLX_LAYER_NORM_BIAS);
  RlxIrValue *x = rlx_build_as (b, node->inputs[0], RLX_DATA_TYPE_F32), *scale = NULL, *addend = NULL;
  RlxTensorType rows = *type;
  RlxIrNode *made;

  for (guint i = n_dims; i < type->n_dims; i++)
    rows.shape[n_dims - 1] *= type->shape[i];
  if (type->data_type == RLX_DATA_TYPE_F32)
    addend = rlx_gradient_take (self, node, 0);
  if (node->n_inputs > RLX_LAYER_NORM_SCALE && node->inputs[RLX_LAYER_NORM_SCALE] != NULL)
    scale = rlx_build_shaped (b, rlx_build_as (b, node->inputs[RLX_LAYER_NORM_SCALE], RLX_DATA_TYPE_F32), &rows.shape[n_dims - 1], 1);
  made = rlx_build_layer_norm_backward (b, rlx_build_shaped (b, x, rows.shape, n_dims), rlx_build_shaped (b, g, rows.shape, n_dims), scale,
                                        rlx_build_shaped (b, addend, rows.shape, n_dims),
                                        RLX_LAYER_NORM_BACKWARD_ATTRS (.epsilon = attrs->epsilon, .factors = factors,
                                                                       .centred = node->op->id != RLX_OP_ID_RMS_NORM));
  if (made == NULL)
    return;
  rlx_gradient_add (self, node, 0, rlx_build_shaped (b, &made->outputs[0], type->shape, type->n_dims));
  for (guint i = RLX_LAYER_NORM_SCALE; i <= RLX_LAYER_NORM_BIAS; i++)
    if (rlx_gradient_wants (self, node, i))
      rlx_gradient_add (self, node, i, rlx_build_shaped (b, &made->outputs[i], node->inputs[i]->type.shape, node->inputs[i]->type.n_dims));
}

void
rlx_layer_norm_gradient (RlxGradient     *self,
                         const RlxIrNode *node)
{
  const RlxLayerNormAttrs *attrs = rlx_layer_norm_attrs (node);
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *g = rlx_build_as (b, rlx_gradient_get (self, node, 0), RLX_DATA_TYPE_F32);
  Norm norm = norm_of (node, attrs, g);
  Order order;

  if (are_last (&node->inputs[0]->type, &attrs->axes))
    {
      add_backward (self, node, attrs, g);
      return;
    }
  order_init (&order, &node->inputs[0]->type, &attrs->axes);
  norm.scale = order_spread (&order, b, node->inputs[RLX_LAYER_NORM_SCALE]);
  norm_differentiate (&norm, b);
  rlx_gradient_add (self, node, 0, norm.dx);
  if (rlx_gradient_wants (self, node, RLX_LAYER_NORM_SCALE))
    rlx_gradient_add (self, node, RLX_LAYER_NORM_SCALE,
                      order_collect (&order, b, norm.dscale, &node->inputs[RLX_LAYER_NORM_SCALE]->type));
  if (rlx_gradient_wants (self, node, RLX_LAYER_NORM_BIAS))
    rlx_gradient_add (self, node, RLX_LAYER_NORM_BIAS, order_collect (&order, b, g, &node->inputs[RLX_LAYER_NORM_BIAS]->type));
}

/* Composed of other operators again. */
void
rlx_layer_norm_backward_gradient (RlxGradient     *self,
                                  const RlxIrNode *node)
{
  const RlxLayerNormBackwardAttrs *attrs = rlx_layer_norm_backward_attrs (node);
  RlxBuilder *b = rlx_gradient_get_builder (self);
  Norm norm = { .x = node->inputs[0], .g = node->inputs[RLX_LAYER_NORM_BACKWARD_GRADIENT], .axes = { -1 }, .n_axes = 1,
                .epsilon = attrs->epsilon, .centred = attrs->centred };
  RlxIrValue *results[3] = { NULL, };

  if (node->n_inputs > RLX_LAYER_NORM_BACKWARD_SCALE)
    norm.scale = node->inputs[RLX_LAYER_NORM_BACKWARD_SCALE];
  norm_differentiate (&norm, b);
  results[0] = norm.dx;
  if (node->n_inputs > RLX_LAYER_NORM_BACKWARD_ADDEND && node->inputs[RLX_LAYER_NORM_BACKWARD_ADDEND] != NULL)
    results[0] = rlx_build_add (b, results[0], node->inputs[RLX_LAYER_NORM_BACKWARD_ADDEND]);
  for (guint i = 1; i < node->n_outputs; i++)
    results[i] = rlx_build_sum_to (b, i == 1 ? norm.dscale : norm.g, &node->outputs[i].type);
  rlx_gradient_through (self, node, results, node->n_outputs);
}

void
rlx_rms_norm_gradient (RlxGradient     *self,
                       const RlxIrNode *node)
{
  rlx_layer_norm_gradient (self, node);
}

void
rlx_ada_layer_norm_gradient (RlxGradient     *self,
                             const RlxIrNode *node)
{
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *g = rlx_build_as (b, rlx_gradient_get (self, node, 0), RLX_DATA_TYPE_F32);
  Norm norm = norm_of (node, rlx_layer_norm_attrs (node), g);
  RlxIrValue *scale = rlx_build_as (b, node->inputs[RLX_ADA_LAYER_NORM_SCALE], RLX_DATA_TYPE_F32);

  norm.scale = rlx_build_add (b, scale, rlx_build_number (b, scale, 1.0));
  norm_differentiate (&norm, b);
  rlx_gradient_add (self, node, 0, norm.dx);
  rlx_gradient_add (self, node, RLX_ADA_LAYER_NORM_SCALE, norm.dscale);
  rlx_gradient_add (self, node, RLX_ADA_LAYER_NORM_SHIFT, g);
}

/* The sum, and the norm of the sum. */
void
rlx_residual_norm_gradient (RlxGradient     *self,
                            const RlxIrNode *node)
{
  const RlxLayerNormAttrs *attrs = rlx_layer_norm_attrs (node);
  RlxBuilder *b = rlx_gradient_get_builder (self);
  gboolean rms = node->op->id == RLX_OP_ID_RESIDUAL_RMS_NORM;
  RlxIrValue *addend = node->inputs[rms ? RLX_RESIDUAL_RMS_NORM_ADDEND : RLX_RESIDUAL_LAYER_NORM_ADDEND];
  RlxIrValue *results[2];
  Order order;

  order_init (&order, &node->inputs[0]->type, &attrs->axes);
  results[1] = rlx_build_add (b, node->inputs[0], node->inputs[1]);
  if (addend != NULL)
    results[1] = rlx_build_add (b, results[1], order_spread (&order, b, addend));
  results[0] = rms ? rlx_build_rms_norm (b, results[1], node->inputs[RLX_RESIDUAL_RMS_NORM_SCALE], attrs)
                   : rlx_build_layer_norm (b, results[1], node->inputs[RLX_RESIDUAL_LAYER_NORM_SCALE],
                                           node->inputs[RLX_RESIDUAL_LAYER_NORM_BIAS], attrs);
  rlx_gradient_through (self, node, results, 2);
}

/* As [batch, groups, channels of a group, positions], or with the positions second. */
void
rlx_image_norm_gradient (RlxGradient     *self,
                         const RlxIrNode *node)
{
  const RlxImageNormAttrs *attrs = rlx_image_norm_attrs (node);
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *g = rlx_build_as (b, rlx_gradient_get (self, node, 0), RLX_DATA_TYPE_F32);
  const RlxTensorType *x = &node->inputs[0]->type;
  gboolean last = attrs->layout == RLX_LAYOUT_CHANNELS_LAST, by_position = node->op->id == RLX_OP_ID_LAYER_NORM_2D;
  gint64 channels = x->shape[last ? x->n_dims - 1 : 1], positions = 1, groups;
  gint64 shape[4];
  RlxTensorType spread = { .data_type = RLX_DATA_TYPE_F32, .n_dims = 4 };
  Norm norm = { .n_axes = 2, .epsilon = attrs->epsilon, .centred = TRUE };

  for (guint i = last ? 1 : 2; i < x->n_dims - (last ? 1 : 0); i++)
    positions *= x->shape[i];
  groups = by_position ? 1 : node->op->id == RLX_OP_ID_GROUP_NORM ? attrs->groups : channels;
  memcpy (shape, (gint64[4]) { x->shape[0], groups, groups > 0 ? channels / groups : 0, positions }, sizeof shape);
  norm.axes[0] = 2;
  norm.axes[1] = 3;
  if (last)
    {
      memmove (shape + 2, shape + 1, 2 * sizeof (gint64));
      shape[1] = positions;
      norm.axes[0] = 1;
      norm.axes[1] = 3;
    }
  if (by_position)
    {
      norm.axes[0] = last ? 3 : 2;
      norm.n_axes = 1;
    }

  norm.x = rlx_build_shaped (b, node->inputs[0], shape, 4);
  norm.g = rlx_build_shaped (b, g, shape, 4);
  for (guint pass = 0; pass < 2; pass++)
    for (guint i = RLX_IMAGE_NORM_SCALE; i <= RLX_IMAGE_NORM_BIAS; i++)
      {
        gboolean is_scale = i == RLX_IMAGE_NORM_SCALE;
        guint first = last ? 2 : 1;
        RlxIrValue *operand = i < node->n_inputs ? node->inputs[i] : NULL;

        if (pass == 1 && is_scale)
          norm_differentiate (&norm, b);
        if (operand == NULL || b->error != NULL)
          continue;
        spread.shape[0] = spread.shape[1] = spread.shape[2] = spread.shape[3] = 1;
        /* One per channel, or one per group. */
        spread.shape[first] = shape[first];
        spread.shape[first + 1] = operand->type.shape[0] == channels ? shape[first + 1] : 1;
        if (pass == 0 && is_scale)
          norm.scale = rlx_build_shaped (b, operand, spread.shape, 4);
        if (pass == 1 && rlx_gradient_wants (self, node, i))
          rlx_gradient_add (self, node, i,
                            rlx_build_shaped (b, rlx_build_sum_to (b, is_scale ? norm.dscale : norm.g, &spread),
                                              operand->type.shape, 1));
      }
  rlx_gradient_add (self, node, 0, rlx_build_shaped (b, norm.dx, x->shape, x->n_dims));
}

void
rlx_lp_norm_gradient (RlxGradient     *self,
                      const RlxIrNode *node)
{
  const RlxLpNormAttrs *attrs = rlx_lp_norm_attrs (node);
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *x = rlx_build_as (b, node->inputs[0], RLX_DATA_TYPE_F32);
  RlxIrValue *size, *is_zero, *y;

  if (attrs->p == 1)
    size = rlx_build_reduce_l1 (b, x, RLX_REDUCE_L1_ATTRS (.axes = RLX_INTS (&attrs->axis, 1), .keep_dims = TRUE));
  else
    size = rlx_build_reduce_l2 (b, x, RLX_REDUCE_L2_ATTRS (.axes = RLX_INTS (&attrs->axis, 1), .keep_dims = TRUE));
  is_zero = rlx_build_equal (b, size, rlx_build_number (b, size, 0.0));
  size = rlx_build_where (b, is_zero, rlx_build_number (b, size, 1.0), size);
  y = rlx_build_where (b, is_zero, rlx_build_number (b, size, 0.0), rlx_build_div (b, x, size));
  y = rlx_build_as (b, y, node->inputs[0]->type.data_type);
  rlx_gradient_through (self, node, &y, 1);
}
