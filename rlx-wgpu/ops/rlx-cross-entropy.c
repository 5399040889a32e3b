/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The kernels of cross-entropy with labels, and of its gradient.
 */
#include "config.h"

#include "ops/rlx-gradient-private.h"
#include "ops/rlx-loss-private.h"
#include "ops/rlx-rows-private.h"

/* Up to this many labels are counted sooner by each workgroup than by a step of their own. */
#define MAX_COUNTED 512

typedef enum
{
  STAGE_ROWS,
  STAGE_FINISH,
  STAGE_COUNT,
  STAGE_GRADIENT,
} Stage;

typedef struct
{
  RlxLower *lower;
  const RlxIrNode *node;
  const RlxLossAttrs *attrs;
  RlxRows rows;
} Problem;

static void
problem_init (Problem         *self,
              RlxLower        *lower,
              const RlxIrNode *node)
{
  const RlxTensorType *x = &node->inputs[0]->type;

  *self = (Problem) { .lower = lower, .node = node, .attrs = rlx_loss_attrs (node) };
  rlx_rows_init (&self->rows, x, 1u << rlx_type_get_axis (x, self->attrs->axis));
}

/* A kernel that knows which rows count. */
static RlxKernel *
start_stage (const Problem *self,
             Stage          stage)
{
  RlxKernel *kernel = rlx_kernel_new (self->lower, self->node, "cross-entropy");
  gint64 n = (gint64) self->rows.n_columns, ignored = self->attrs->ignored;

  rlx_kernel_define (kernel, "STAGE", stage);
  if (stage != STAGE_FINISH)
    {
      rlx_kernel_input (kernel, "target", self->node->inputs[1]);
      rlx_kernel_param_u32 (kernel, "classes", self->rows.n_columns);
      rlx_kernel_param_i32 (kernel, "ignored", ignored >= 0 && ignored < n ? ignored : -1);
    }
  return kernel;
}

/* A workgroup that sums something over all rows. */
static gboolean
dispatch_sum (const Problem *self,
              RlxKernel     *kernel,
              GError       **error)
{
  const RlxTarget *target = rlx_lower_get_target (self->lower);
  guint lanes = rlx_share_get_lanes (rlx_share_pick (target, 1, self->rows.n_rows, FALSE), target);

  rlx_kernel_define (kernel, "WG", lanes);
  rlx_kernel_define (kernel, "LANES", lanes);
  rlx_kernel_define (kernel, "DIVIDE", self->attrs->reduction == RLX_REDUCTION_MEAN);
  rlx_kernel_param_u32 (kernel, "groups", 1);
  rlx_kernel_param_u32 (kernel, "columns", self->rows.n_rows);
  return rlx_kernel_dispatch (kernel, 1, error);
}

static gboolean
dispatch_rows (const Problem *self,
               RlxKernel     *kernel,
               GError       **error)
{
  const RlxTarget *target = rlx_lower_get_target (self->lower);
  const RlxRows *rows = &self->rows;
  gboolean across = rows->n_kept > 0 && rows->kept_strides[0] == 1;
  RlxShare share = rlx_share_pick (target, rows->n_rows, rows->n_columns, across);
  guint64 n_groups;

  /* As in softmax, reading adjacent elements is worth a barrier. */
  if (share == RLX_SHARE_NONE && !across && rows->n_columns >= 256)
    share = RLX_SHARE_LANES;
  n_groups = rlx_rows_describe (rows, kernel, rlx_share_get_lanes (share, target), rlx_share_get_workgroup_size (share, target, rows->n_rows));
  rlx_kernel_input (kernel, "x", self->node->inputs[0]);
  rlx_kernel_set_cost (kernel, 20.0 * (double) rows->n_rows * (double) rows->n_columns, 8.0 * (double) rows->n_rows * (double) rows->n_columns);
  return rlx_kernel_dispatch (kernel, n_groups, error);
}

gboolean
rlx_label_cross_entropy_lower (RlxLower        *lower,
                               const RlxIrNode *node,
                               GError         **error)
{
  const RlxIrValue *y = &node->outputs[0], *parts = NULL;
  RlxTensorType type = { .data_type = RLX_DATA_TYPE_F32, .n_dims = 2, .shape = { 0, 2 } };
  RlxKernel *kernel;
  gboolean each;
  Problem self;

  problem_init (&self, lower, node);
  each = self.attrs->reduction == RLX_REDUCTION_NONE;
  type.shape[0] = (gint64) self.rows.n_rows;
  if (!each)
    parts = rlx_lower_temporary (lower, &type);
  kernel = start_stage (&self, STAGE_ROWS);
  rlx_kernel_define (kernel, "COUNT", !each);
  rlx_kernel_define (kernel, "SMOOTH", self.attrs->smoothing > 0);
  if (self.attrs->smoothing > 0)
    {
      rlx_kernel_param_f32 (kernel, "sharp", 1 - self.attrs->smoothing);
      rlx_kernel_param_f32 (kernel, "smoothing", self.attrs->smoothing);
    }
  rlx_kernel_output (kernel, each ? "y" : "parts", each ? y : parts);
  if (!dispatch_rows (&self, kernel, error))
    return FALSE;
  if (each)
    return TRUE;

  kernel = start_stage (&self, STAGE_FINISH);
  rlx_kernel_input (kernel, "parts", parts);
  rlx_kernel_output (kernel, "y", y);
  return dispatch_sum (&self, kernel, error);
}

/* ---- the gradient -------------------------------------------------------------------- */

gboolean
rlx_softmax_cross_entropy_backward_infer (RlxOpCall          *call,
                                          const RlxLossAttrs *attrs,
                                          GError            **error)
{
  const RlxTensorType *gradient = call->inputs[RLX_SOFTMAX_CROSS_ENTROPY_BACKWARD_GRADIENT], *loss;
  g_autoptr(GArray) types = g_array_new (FALSE, FALSE, sizeof (RlxTensorType));
  RlxOpCall forward = *call;

  /* What the loss requires of its operands. */
  forward.n_inputs = 2;
  forward.outputs = types;
  if (!rlx_loss_infer (&forward, attrs, error))
    return FALSE;
  loss = &g_array_index (types, RlxTensorType, 0);
  if (!rlx_type_same_shape (gradient, loss))
    {
      g_autofree char *got = rlx_type_to_string (gradient), *text = rlx_type_to_string (loss);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the gradient is %s, and the loss %s", got, text);
    }
  rlx_call_add_output (call, call->inputs[0]);
  return TRUE;
}

gboolean
rlx_softmax_cross_entropy_backward_lower (RlxLower        *lower,
                                          const RlxIrNode *node,
                                          GError         **error)
{
  const RlxTensorType one = { .data_type = RLX_DATA_TYPE_F32 };
  const RlxIrValue *share = NULL;
  double miss;
  RlxKernel *kernel;
  Problem self;

  if (rlx_type_n_elements (&node->outputs[0].type) == 0)
    return TRUE;

  problem_init (&self, lower, node);
  if (self.attrs->reduction == RLX_REDUCTION_MEAN && self.rows.n_rows > MAX_COUNTED)
    {
      share = rlx_lower_temporary (lower, &one);
      kernel = start_stage (&self, STAGE_COUNT);
      rlx_kernel_output (kernel, "share", share);
      if (!dispatch_sum (&self, kernel, error))
        return FALSE;
    }

  kernel = start_stage (&self, STAGE_GRADIENT);
  miss = self.attrs->smoothing / (double) self.rows.n_columns;
  rlx_kernel_define (kernel, "EACH", self.attrs->reduction == RLX_REDUCTION_NONE);
  rlx_kernel_define (kernel, "DIVIDE", self.attrs->reduction != RLX_REDUCTION_MEAN ? 0 : share != NULL ? 1 : 2);
  rlx_kernel_param_f32 (kernel, "miss", miss);
  rlx_kernel_param_f32 (kernel, "hit", 1 - self.attrs->smoothing + miss);
  rlx_kernel_input (kernel, "g", node->inputs[RLX_SOFTMAX_CROSS_ENTROPY_BACKWARD_GRADIENT]);
  if (share != NULL)
    rlx_kernel_input (kernel, "share", share);
  rlx_kernel_output (kernel, "dx", &node->outputs[0]);
  return dispatch_rows (&self, kernel, error);
}

/* Composed of other operators. */
void
rlx_softmax_cross_entropy_backward_gradient (RlxGradient     *self,
                                             const RlxIrNode *node)
{
  RlxIrValue *dx = rlx_loss_build_gradient (rlx_gradient_get_builder (self), rlx_loss_attrs (node), node->inputs[0], node->inputs[1],
                                            node->inputs[RLX_SOFTMAX_CROSS_ENTROPY_BACKWARD_GRADIENT]);

  rlx_gradient_through (self, node, &dx, 1);
}
