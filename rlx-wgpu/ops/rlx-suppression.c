/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Non-maximum suppression: keeps the best of boxes that overlap.
 */
#include "config.h"

#include "ops/rlx-kernel-private.h"

#define WORKGROUP_SIZE 128
/* Operations per pair of boxes, and the limit of a step: one that takes seconds may be mistaken for a hang. */
#define OPERATIONS 20
#define MAX_WORK 1e10
#define MAX_STEPS 4096

gboolean
rlx_non_max_suppression_infer (RlxOpCall                       *call,
                               const RlxNonMaxSuppressionAttrs *attrs,
                               GError                         **error)
{
  const RlxTensorType *boxes = call->inputs[0], *scores = call->inputs[1];
  RlxTensorType type = *scores;

  if (boxes->n_dims != 3 || scores->n_dims != 3 || boxes->shape[2] != 4 || boxes->shape[0] != scores->shape[0] || boxes->shape[1] != scores->shape[2])
    {
      g_autofree char *boxes_text = rlx_type_to_string (boxes), *scores_text = rlx_type_to_string (scores);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the boxes are %s and the scores %s, not [batch, n, 4] and [batch, classes, n]",
                             boxes_text, scores_text);
    }
  if (attrs->max_boxes < 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "max_boxes is %" G_GINT64_FORMAT ", it must not be negative", attrs->max_boxes);
  if (!(attrs->overlap >= 0 && attrs->overlap <= 1))
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "overlap is %g, it must be from 0 to 1", attrs->overlap);

  type.shape[2] = MIN (attrs->max_boxes, boxes->shape[1]);
  type.data_type = RLX_DATA_TYPE_I32;
  rlx_call_add_output (call, &type);
  return TRUE;
}

gboolean
rlx_non_max_suppression_lower (RlxLower        *lower,
                               const RlxIrNode *node,
                               GError         **error)
{
  const RlxNonMaxSuppressionAttrs *attrs = rlx_non_max_suppression_attrs (node);
  const RlxTensorType *scores = &node->inputs[1]->type;
  guint64 n = (guint64) scores->shape[2], classes = (guint64) scores->shape[1], rows = (guint64) scores->shape[0] * classes;
  guint64 keep = (guint64) node->outputs[0].type.shape[2];
  RlxTensorType flags = *scores;
  RlxIrValue *alive;
  guint64 at_once;

  if (rows * keep == 0)
    return TRUE;

  flags.data_type = RLX_DATA_TYPE_I32;
  alive = rlx_lower_temporary (lower, &flags);
  at_once = (guint64) CLAMP (MAX_WORK / OPERATIONS / (double) n / (double) rows, 1, (double) keep);
  if (rlx_divide_up (keep, at_once) > MAX_STEPS)
    {
      g_set_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_LIMIT,
                   "%s of %" G_GUINT64_FORMAT " boxes for %" G_GUINT64_FORMAT " classes in all, up to %" G_GUINT64_FORMAT
                   " each, takes %" G_GUINT64_FORMAT " steps, more than %d",
                   node->op->name, n, rows, keep, rlx_divide_up (keep, at_once), MAX_STEPS);
      return FALSE;
    }
  for (guint64 first = 0; first < keep; first += at_once)
    {
      guint64 count = MIN (at_once, keep - first);
      RlxKernel *kernel = rlx_kernel_new (lower, node, "non-max-suppression");

      rlx_kernel_input (kernel, "boxes", node->inputs[0]);
      rlx_kernel_input (kernel, "scores", node->inputs[1]);
      rlx_kernel_output (kernel, "alive", alive);
      rlx_kernel_output (kernel, "y", &node->outputs[0]);
      rlx_kernel_define (kernel, "WG", WORKGROUP_SIZE);
      rlx_kernel_define (kernel, "CENTER", attrs->center);
      rlx_kernel_param_u32 (kernel, "rows", rows);
      rlx_kernel_param_u32 (kernel, "classes", classes);
      rlx_kernel_param_u32 (kernel, "n", n);
      rlx_kernel_param_u32 (kernel, "keep", keep);
      rlx_kernel_param_u32 (kernel, "first", first);
      rlx_kernel_param_u32 (kernel, "end", first + count);
      rlx_kernel_param_f32 (kernel, "overlap", attrs->overlap);
      rlx_kernel_param_f32 (kernel, "score", attrs->score);
      rlx_kernel_set_cost (kernel, OPERATIONS * (double) rows * (double) n * (double) count, 20.0 * (double) rows * (double) n);
      if (!rlx_kernel_dispatch (kernel, rows, error))
        return FALSE;
    }
  return TRUE;
}
