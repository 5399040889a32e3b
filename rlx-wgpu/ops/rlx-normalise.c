/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "ops/rlx-reduce-private.h"

#include <math.h>
#include <string.h>

gboolean rlx_softmax_infer    (RlxOpCall *call, GError **error);
gboolean rlx_softmax_lower    (RlxLower *lower, const RlxIrNode *node, GError **error);
gboolean rlx_layer_norm_infer (RlxOpCall *call, GError **error);
gboolean rlx_layer_norm_lower (RlxLower *lower, const RlxIrNode *node, GError **error);
gboolean rlx_rms_norm_infer   (RlxOpCall *call, GError **error);
gboolean rlx_rms_norm_lower   (RlxLower *lower, const RlxIrNode *node, GError **error);

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

/* The rows of an operator whose result has the type of its operand. */
static gboolean
dispatch_rows (RlxKernel       *kernel,
               const RlxIrNode *node,
               RlxLower        *lower,
               const RlxRows   *rows,
               double           flops,
               GError         **error)
{
  const RlxTensorType *type = &node->outputs[0].type;
  double n = (double) rlx_type_n_elements (type);
  guint lanes, workgroup_size;
  guint64 groups;

  rlx_kernel_input (kernel, "x", node->inputs[0]);
  rlx_kernel_output (kernel, "y", &node->outputs[0]);
  /* A lane reads no other columns than those it writes in the end. */
  rlx_kernel_allow_in_place (kernel, "x", "y");
  rlx_rows_choose (rows, lower, &lanes, &workgroup_size);
  groups = rlx_rows_describe (rows, kernel, lanes, workgroup_size);
  rlx_kernel_set_cost (kernel, flops * n, 2.0 * n * rlx_data_type_get_size (type->dtype));

  return rlx_kernel_dispatch (kernel, groups, error);
}

gboolean
rlx_softmax_lower (RlxLower        *lower,
                   const RlxIrNode *node,
                   GError         **error)
{
  const RlxTensorType *x = &node->inputs[0]->type;
  gint64 axis = rlx_node_attr (node, "axis")->i;
  RlxKernel *kernel;
  RlxRows rows;

  if (rlx_type_n_elements (x) == 0)
    return TRUE;

  rlx_rows_init (&rows, x, 1u << (axis < 0 ? axis + x->rank : axis), NULL);
  kernel = rlx_kernel_new (lower, node, "softmax");
  rlx_kernel_define (kernel, "LOG", strcmp (node->op->name, "log_softmax") == 0);

  return dispatch_rows (kernel, node, lower, &rows, 20, error);
}

/* ---- norms ------------------------------------------------------------------------ */

static gboolean
check_norm (RlxOpCall *call,
            GError   **error)
{
  const RlxTensorType *x = call->inputs[0];
  const RlxAttrValue *axes = rlx_call_attr (call, "axes");
  double epsilon = rlx_call_attr (call, "epsilon")->f;
  RlxTensorType factor = { .dtype = x->dtype };
  guint mask;

  if (!rlx_call_axes (call, axes, x->rank, FALSE, &mask, error))
    return FALSE;
  if (!isfinite (epsilon) || epsilon < 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "epsilon is %g, it must be a finite number that is not negative", epsilon);

  for (guint i = 0; i < axes->n_ints; i++)
    factor.dims[factor.rank++] = x->dims[axes->ints[i] < 0 ? axes->ints[i] + x->rank : axes->ints[i]];
  for (guint i = 1; i < call->n_inputs; i++)
    if (call->inputs[i] != NULL && !rlx_type_same_shape (call->inputs[i], &factor))
      {
        g_autofree char *got = rlx_type_to_string (call->inputs[i]);
        g_autofree char *wanted = rlx_type_to_string (&factor);

        return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                               "the %s is %s, the axes make it %s", call->op->inputs[i].name, got, wanted);
      }

  rlx_call_add_output (call, x);
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

static gboolean
lower_norm (RlxLower        *lower,
            const RlxIrNode *node,
            gboolean         rms,
            GError         **error)
{
  const RlxTensorType *x = &node->inputs[0]->type;
  const RlxAttrValue *axes = rlx_node_attr (node, "axes");
  const RlxIrValue *scale = node->n_inputs > 1 ? node->inputs[1] : NULL;
  const RlxIrValue *bias = node->n_inputs > 2 ? node->inputs[2] : NULL;
  gint64 factor_strides[RLX_MAX_RANK] = { 0 };
  gint64 stride = 1;
  RlxKernel *kernel;
  RlxRows rows;

  if (rlx_type_n_elements (x) == 0)
    return TRUE;

  for (guint i = axes->n_ints; i-- > 0;)
    {
      gint64 axis = axes->ints[i] < 0 ? axes->ints[i] + x->rank : axes->ints[i];

      factor_strides[axis] = stride;
      stride *= x->dims[axis];
    }

  rlx_rows_init (&rows, x, rlx_axes_get_mask (axes, x->rank), factor_strides);
  kernel = rlx_kernel_new (lower, node, "norm");
  rlx_kernel_define (kernel, "RMS", rms);
  rlx_kernel_define (kernel, "SCALE", scale != NULL);
  rlx_kernel_define (kernel, "BIAS", bias != NULL);
  rlx_kernel_param_f32 (kernel, "epsilon", rlx_node_attr (node, "epsilon")->f);
  if (!rms)
    rlx_kernel_param_u32 (kernel, "passes", 2);
  if (scale != NULL)
    rlx_kernel_input (kernel, "scale", scale);
  if (bias != NULL)
    rlx_kernel_input (kernel, "bias", bias);
  for (guint i = 0; rows.n_reduced > 1 && i < rows.n_reduced; i++)
    {
      char name[32];

      g_snprintf (name, sizeof name, "factor_stride%u", i);
      rlx_kernel_param_u32 (kernel, name, rows.factor_strides[i]);
    }

  return dispatch_rows (kernel, node, lower, &rows, 10, error);
}

gboolean
rlx_layer_norm_lower (RlxLower        *lower,
                      const RlxIrNode *node,
                      GError         **error)
{
  return lower_norm (lower, node, FALSE, error);
}

gboolean
rlx_rms_norm_lower (RlxLower        *lower,
                    const RlxIrNode *node,
                    GError         **error)
{
  return lower_norm (lower, node, TRUE, error);
}
