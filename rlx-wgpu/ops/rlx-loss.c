/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Losses.
 */
#include "config.h"

#include "ops/rlx-gradient-private.h"
#include "ops/rlx-loss-private.h"

#include <math.h>

#include "rlx-tensor-private.h"

/* ---- rule ------------------------------------------------------------------------- */

static gboolean
is_cross_entropy (const RlxOp *op)
{
  return op->id == RLX_OP_ID_SOFTMAX_CROSS_ENTROPY || op->id == RLX_OP_ID_SOFTMAX_CROSS_ENTROPY_BACKWARD;
}

static gboolean
has_labels (const RlxTensorType *target)
{
  return !rlx_data_type_is_float (target->data_type);
}

/* The type with one number for each row, without the axis. */
static RlxTensorType
get_rows (const RlxTensorType *x,
          guint                axis)
{
  RlxTensorType rows = *x;

  for (guint i = axis; i + 1 < x->n_dims; i++)
    rows.shape[i] = x->shape[i + 1];
  rows.n_dims--;
  return rows;
}

gboolean
rlx_loss_infer (RlxOpCall          *call,
                const RlxLossAttrs *attrs,
                GError            **error)
{
  const RlxTensorType *x = call->inputs[0], *target = call->inputs[1];
  RlxTensorType type = *x, wanted = *x;

  if (is_cross_entropy (call->op))
    {
      guint axis;

      if (x->n_dims == 0)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the operand is a scalar; it needs an axis of classes");
      if (!rlx_call_axis (call, attrs->axis, x->n_dims, &axis, error))
        return FALSE;
      if (!(attrs->smoothing >= 0 && attrs->smoothing <= 1))
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "smoothing is %g; it must be from 0 to 1", attrs->smoothing);
      if (x->shape[axis] == 0)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "axis %u has no classes", axis);
      type = get_rows (x, axis);
      if (has_labels (target))
        wanted = type;
      else if (target->data_type != x->data_type)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_DATA_TYPE, "the target is of type %s, the operand of type %s",
                               rlx_data_type_to_string (target->data_type), rlx_data_type_to_string (x->data_type));
    }
  else if (call->op->id == RLX_OP_ID_HUBER_LOSS && !(attrs->delta > 0 && isfinite ((float) attrs->delta)))
    {
      return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "delta is %g; it must be finite and above 0", attrs->delta);
    }
  if (!rlx_type_same_shape (target, &wanted))
    {
      g_autofree char *got = rlx_type_to_string (target), *text = NULL;

      wanted.data_type = target->data_type;
      text = rlx_type_to_string (&wanted);
      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the target is %s; it must be %s", got, text);
    }

  if (attrs->reduction != RLX_REDUCTION_NONE)
    type.n_dims = 0;
  rlx_call_add_output (call, &type);
  return TRUE;
}

/* ---- building blocks ----------------------------------------------------------------- */

static RlxIrValue *
sum_all (RlxBuilder *b,
         RlxIrValue *x)
{
  static const gint64 axes[RLX_MAX_DIMS] = { 0, 1, 2, 3, 4, 5, 6, 7 };

  if (x == NULL || x->type.n_dims == 0)
    return x;
  return rlx_build_reduce_sum (b, x, RLX_REDUCE_SUM_ATTRS (.axes = RLX_INTS (axes, x->type.n_dims)));
}

static RlxIrValue *
reduce (RlxBuilder   *b,
        RlxIrValue   *losses,
        RlxReduction  reduction)
{
  RlxIrValue *sum;

  if (reduction == RLX_REDUCTION_NONE || losses == NULL)
    return losses;
  sum = sum_all (b, losses);
  if (reduction == RLX_REDUCTION_SUM || sum == NULL)
    return sum;
  return rlx_build_div (b, sum, rlx_build_number (b, sum, (double) MAX (rlx_type_n_elements (&losses->type), 1)));
}

/* Which rows count: those whose label is a class, and not the ignored one. */
static RlxIrValue *
find_counted (RlxBuilder         *b,
              RlxIrValue         *x,
              RlxIrValue         *target,
              const RlxLossAttrs *attrs)
{
  gint64 n = x->type.shape[rlx_type_get_axis (&x->type, attrs->axis)];
  RlxIrValue *labels = rlx_build_as (b, target, RLX_DATA_TYPE_I32), *there;

  there = rlx_build_less (b, labels, rlx_build_constant (b, rlx_tensor_new_scalar (RLX_DATA_TYPE_I32, (double) n, NULL)));
  there = rlx_build_logical_and (b, there, rlx_build_greater_equal (b, labels, rlx_build_number (b, labels, 0.0)));
  if (attrs->ignored >= 0 && attrs->ignored < n)
    there = rlx_build_logical_and (b, there, rlx_build_not_equal (b, labels, rlx_build_constant (b, rlx_tensor_new_scalar (RLX_DATA_TYPE_I32, (double) attrs->ignored, NULL))));
  return there;
}

/* One number for each row, with an axis of size 1. */
static RlxIrValue *
as_column (RlxBuilder       *b,
           RlxIrValue       *rows,
           const RlxIrValue *x,
           guint             axis)
{
  RlxTensorType column = x->type;

  column.shape[axis] = 1;
  return rlx_build_shaped (b, rows, column.shape, column.n_dims);
}

/* 1 where the class is that of the row's label. */
static RlxIrValue *
find_class (RlxBuilder *b,
            RlxIrValue *x,
            RlxIrValue *target,
            guint       axis)
{
  gint64 classes[RLX_MAX_DIMS];

  for (guint i = 0; i < x->type.n_dims; i++)
    classes[i] = i == axis ? x->type.shape[i] : 1;
  return rlx_build_equal (b, as_column (b, rlx_build_as (b, target, RLX_DATA_TYPE_I32), x, axis),
                          rlx_build_shaped (b, rlx_build_iota (b, x->type.shape[axis]), classes, x->type.n_dims));
}

/* With labels: an operator with kernels of its own. */
static RlxIrValue *
expand_labels (RlxBuilder         *b,
               const RlxIrNode    *node,
               RlxIrValue         *x,
               RlxIrValue         *target,
               const RlxLossAttrs *attrs)
{
  RlxIrValue *inputs[2] = { x, target };
  RlxTensorType type = node->outputs[0].type;
  RlxIrNode *made;

  if (b->error != NULL)
    return NULL;
  type.data_type = RLX_DATA_TYPE_F32;
  if (rlx_type_n_elements (&x->type) == 0)
    return rlx_build_filled (b, &type, 0.0);
  made = rlx_ir_append (b->ir, &rlx_op_label_cross_entropy, rlx_attrs_copy (&rlx_op_label_cross_entropy, attrs), inputs, 2, &type, 1);
  made->origin = b->origin;
  return &made->outputs[0];
}

static RlxIrValue *
expand_probabilities (RlxBuilder         *b,
                      RlxIrValue         *x,
                      RlxIrValue         *target,
                      const RlxLossAttrs *attrs)
{
  guint axis = rlx_type_get_axis (&x->type, attrs->axis);
  gint64 n = x->type.shape[axis], along = axis;
  RlxIrValue *logs = rlx_build_neg (b, rlx_build_log_softmax (b, x, RLX_LOG_SOFTMAX_ATTRS (.axis = along)));
  RlxIrValue *zero = rlx_build_number (b, logs, 0.0), *losses;

  target = rlx_build_as (b, target, RLX_DATA_TYPE_F32);
  if (attrs->smoothing > 0)
    target = rlx_build_add (b, rlx_build_mul (b, target, rlx_build_number (b, zero, 1 - attrs->smoothing)),
                            rlx_build_number (b, zero, attrs->smoothing / (double) n));
  /* A class with weight 0 contributes nothing, however unlikely it is. */
  losses = rlx_build_where (b, rlx_build_equal (b, target, zero), zero, rlx_build_mul (b, target, logs));
  losses = rlx_build_reduce_sum (b, losses, RLX_REDUCE_SUM_ATTRS (.axes = RLX_INTS (&along, 1)));
  return reduce (b, losses, attrs->reduction);
}

RlxIrValue *
rlx_loss_expand (RlxBuilder        *b,
                 const RlxIrNode   *node,
                 RlxIrValue *const *inputs)
{
  const RlxLossAttrs *attrs = rlx_loss_attrs (node);
  RlxIrValue *x = rlx_build_as (b, inputs[0], RLX_DATA_TYPE_F32), *target = inputs[1], *losses, *d;

  if (x == NULL)
    return NULL;
  if (is_cross_entropy (node->op))
    return rlx_build_as (b, has_labels (&target->type) ? expand_labels (b, node, inputs[0], target, attrs) : expand_probabilities (b, x, target, attrs),
                         node->outputs[0].type.data_type);

  target = rlx_build_as (b, target, RLX_DATA_TYPE_F32);
  switch (node->op->id)
    {
    case RLX_OP_ID_MSE_LOSS:
      d = rlx_build_sub (b, x, target);
      losses = rlx_build_mul (b, d, d);
      break;
    case RLX_OP_ID_L1_LOSS:
      losses = rlx_build_abs (b, rlx_build_sub (b, x, target));
      break;
    case RLX_OP_ID_HUBER_LOSS:
      {
        RlxIrValue *delta, *half, *small;

        d = rlx_build_abs (b, rlx_build_sub (b, x, target));
        delta = rlx_build_number (b, d, attrs->delta);
        half = rlx_build_number (b, d, 0.5);
        /* m · (d - m / 2), with m the smaller of d and delta. */
        small = rlx_build_min (b, d, delta);
        losses = rlx_build_mul (b, small, rlx_build_sub (b, d, rlx_build_mul (b, small, half)));
        break;
      }
    case RLX_OP_ID_BINARY_CROSS_ENTROPY:
      losses = rlx_build_sub (b, rlx_build_softplus (b, x), rlx_build_mul (b, x, target));
      break;
    case RLX_OP_ID_KL_LOSS:
    default:
      {
        RlxIrValue *zero = rlx_build_number (b, x, 0.0), *is_zero = rlx_build_equal (b, target, zero);
        RlxIrValue *safe = rlx_build_where (b, is_zero, rlx_build_number (b, x, 1.0), target);

        losses = rlx_build_where (b, is_zero, zero, rlx_build_mul (b, target, rlx_build_sub (b, rlx_build_log (b, safe), x)));
        break;
      }
    }
  return rlx_build_as (b, reduce (b, losses, attrs->reduction), node->outputs[0].type.data_type);
}

/* softmax (x) · Σ target - target, times the weight of the row in the result. */
RlxIrValue *
rlx_loss_build_gradient (RlxBuilder         *b,
                         const RlxLossAttrs *attrs,
                         RlxIrValue         *x,
                         RlxIrValue         *target,
                         RlxIrValue         *g)
{
  RlxIrValue *d, *there = NULL;
  guint axis;
  double share;

  if (x == NULL || g == NULL)
    return NULL;
  axis = rlx_type_get_axis (&x->type, attrs->axis);
  share = attrs->smoothing / (double) x->type.shape[axis];
  d = rlx_build_softmax (b, x, RLX_SOFTMAX_ATTRS (.axis = axis));
  if (has_labels (&target->type))
    {
      there = find_counted (b, x, target, attrs);
      d = rlx_build_sub (b, d, rlx_build_where (b, find_class (b, x, target, axis), rlx_build_number (b, x, 1 - attrs->smoothing + share),
                                                rlx_build_number (b, x, share)));
    }
  else
    {
      target = rlx_build_as (b, target, RLX_DATA_TYPE_F32);
      if (attrs->smoothing > 0)
        target = rlx_build_add (b, rlx_build_mul (b, target, rlx_build_number (b, x, 1 - attrs->smoothing)), rlx_build_number (b, x, share));
      d = rlx_build_sub (b, rlx_build_mul (b, d, rlx_build_sum_along (b, target, axis)), target);
    }

  if (attrs->reduction == RLX_REDUCTION_MEAN)
    {
      RlxIrValue *count = there != NULL ? sum_all (b, rlx_build_as (b, there, RLX_DATA_TYPE_F32))
                                        : rlx_build_number (b, x, (double) (rlx_type_n_elements (&x->type) / (guint64) x->type.shape[axis]));

      g = rlx_build_div (b, g, rlx_build_max (b, count, rlx_build_number (b, x, 1.0)));
    }
  else if (attrs->reduction == RLX_REDUCTION_NONE)
    {
      g = as_column (b, g, x, axis);
    }
  d = rlx_build_mul (b, d, g);
  if (there != NULL)
    d = rlx_build_where (b, as_column (b, there, x, axis), d, rlx_build_number (b, x, 0.0));
  return d;
}

void
rlx_loss_gradient (RlxGradient     *self,
                   const RlxIrNode *node)
{
  const RlxLossAttrs *attrs = rlx_loss_attrs (node);
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *x = rlx_build_as (b, node->inputs[0], RLX_DATA_TYPE_F32), *target = node->inputs[1];
  RlxIrValue *g = rlx_build_as (b, rlx_gradient_get (self, node, 0), RLX_DATA_TYPE_F32);

  if (rlx_gradient_wants (self, node, 1))
    rlx_gradient_expand (self, node);
  else if (target != NULL && has_labels (&target->type))
    rlx_gradient_add (self, node, 0, rlx_build_softmax_cross_entropy_backward (b, x, target, g, attrs));
  else
    rlx_gradient_add (self, node, 0, rlx_loss_build_gradient (b, attrs, x, target, g));
}
