/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Gates of mixtures of experts. There are few numbers for each token, so everything is
 * composed of other operators.
 */
#include "config.h"

#include "ops/rlx-gradient-private.h"

#include <math.h>
#include <string.h>

gboolean
rlx_moe_gate_infer (RlxOpCall             *call,
                    const RlxMoeGateAttrs *attrs,
                    GError               **error)
{
  const RlxTensorType *bias = call->n_inputs > 1 ? call->inputs[1] : NULL;
  RlxTensorType type = *call->inputs[0];
  gint64 n_experts, n_allowed;

  if (type.n_dims == 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the operand has no dimensions, the last one has a number for each expert");
  n_experts = type.shape[type.n_dims - 1];
  if (bias != NULL && (bias->n_dims != 1 || bias->shape[0] != n_experts))
    {
      g_autofree char *text = rlx_type_to_string (bias);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "bias is %s; it must be [%" G_GINT64_FORMAT "]", text, n_experts);
    }
  if (attrs->groups < 1 || n_experts % attrs->groups != 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "%" G_GINT64_FORMAT " experts cannot be in %" G_GINT64_FORMAT " groups of the same size", n_experts, attrs->groups);
  if (attrs->top_groups < 1 || attrs->top_groups > attrs->groups)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "top_groups is %" G_GINT64_FORMAT "; it must be from 1 to %" G_GINT64_FORMAT ", the number of groups",
                           attrs->top_groups, attrs->groups);
  n_allowed = n_experts / attrs->groups * attrs->top_groups;
  if (attrs->k < 1 || attrs->k > n_allowed)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "k is %" G_GINT64_FORMAT "; it must be from 1 to %" G_GINT64_FORMAT ", the number of experts to choose from",
                           attrs->k, n_allowed);
  if (!isfinite (attrs->scale))
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "scale is %g; it must be finite", attrs->scale);
  if (type.n_dims > RLX_MAX_DIMS - 2)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                           "the operand has %u dimensions, with two more for groups that is beyond the limit of %u",
                           type.n_dims, RLX_MAX_DIMS);
  type.shape[type.n_dims - 1] = attrs->k;
  rlx_call_add_output (call, &type);
  type.data_type = RLX_DATA_TYPE_I32;
  rlx_call_add_output (call, &type);
  return TRUE;
}

/* Minus infinity for the experts of all but the best groups. */
static RlxIrValue *
limit_groups (RlxBuilder            *b,
              const RlxMoeGateAttrs *attrs,
              RlxIrValue            *choice)
{
  guint n = choice->type.n_dims;
  gint64 n_experts = choice->type.shape[n - 1], shape[RLX_MAX_DIMS], whole[RLX_MAX_DIMS], last = -1, among = -2;
  RlxIrValue *grouped, *scores, *marks;
  RlxIrNode *best, *groups;

  memcpy (whole, choice->type.shape, n * sizeof *whole);
  memcpy (shape, choice->type.shape, n * sizeof *shape);
  shape[n - 1] = attrs->groups;
  shape[n] = n_experts / attrs->groups;
  grouped = rlx_build_shaped (b, choice, shape, n + 1);
  best = rlx_build_top_k (b, grouped, RLX_TOP_K_ATTRS (.k = MIN (2, shape[n])));
  scores = best != NULL ? rlx_build_reduce_sum (b, &best->outputs[0], RLX_REDUCE_SUM_ATTRS (.axes = RLX_INTS (&last, 1))) : NULL;
  groups = rlx_build_top_k (b, scores, RLX_TOP_K_ATTRS (.k = attrs->top_groups));
  if (groups == NULL)
    return NULL;
  marks = rlx_build_constant (b, rlx_tensor_new_from_floats ((gint64[]) { 2 }, 1, (const float[]) { 0, 1 }, 2, NULL));
  marks = rlx_build_one_hot (b, &groups->outputs[1], marks, RLX_ONE_HOT_ATTRS (.depth = attrs->groups));
  marks = rlx_build_reduce_max (b, marks, RLX_REDUCE_MAX_ATTRS (.axes = RLX_INTS (&among, 1)));
  shape[n] = 1;
  if (marks == NULL)
    return NULL;
  marks = rlx_build_shaped (b, marks, shape, n + 1);
  if (marks == NULL)
    return NULL;
  grouped = rlx_build_where (b, rlx_build_greater (b, marks, rlx_build_number (b, marks, 0.5)), grouped,
                             rlx_build_number (b, marks, -INFINITY));
  return grouped != NULL ? rlx_build_shaped (b, grouped, whole, n) : NULL;
}

RlxIrValue *
rlx_moe_gate_expand (RlxBuilder        *b,
                     const RlxIrNode   *node,
                     RlxIrValue *const *inputs)
{
  const RlxMoeGateAttrs *attrs = rlx_moe_gate_attrs (node);
  RlxIrValue *x = rlx_build_as (b, inputs[0], RLX_DATA_TYPE_F32), *bias = node->n_inputs > 1 ? inputs[1] : NULL;
  RlxIrValue *scores, *choice, *weights;
  RlxIrNode *chosen;

  scores = attrs->scoring == RLX_GATE_SCORING_SIGMOID ? rlx_build_sigmoid (b, x) : rlx_build_softmax (b, x, RLX_SOFTMAX_ATTRS (.axis = -1));
  choice = bias != NULL ? rlx_build_add (b, scores, bias) : scores;
  if (choice != NULL && attrs->top_groups < attrs->groups)
    choice = limit_groups (b, attrs, choice);
  chosen = rlx_build_top_k (b, choice, RLX_TOP_K_ATTRS (.k = attrs->k));
  if (chosen == NULL)
    return NULL;
  weights = rlx_build_gather_elements (b, scores, &chosen->outputs[1], RLX_GATHER_ELEMENTS_ATTRS (.axis = -1));
  if (attrs->normalize && weights != NULL)
    {
      RlxIrValue *sum = rlx_build_sum_along (b, weights, weights->type.n_dims - 1);

      if (sum == NULL)
        return NULL;
      weights = rlx_build_div (b, weights, rlx_build_where (b, rlx_build_equal (b, sum, rlx_build_number (b, sum, 0)),
                                                            rlx_build_number (b, sum, 1), sum));
    }
  if (attrs->scale != 1 && weights != NULL)
    weights = rlx_build_mul (b, weights, rlx_build_number (b, weights, attrs->scale));
  b->results[0] = rlx_build_as (b, weights, node->outputs[0].type.data_type);
  b->results[1] = &chosen->outputs[1];
  return b->results[0];
}
