/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Convolutions along a sequence that arrives in chunks.
 */
#include "config.h"

#include "ops/rlx-kernel-private.h"

#define WORKGROUP_SIZE 64

gboolean
rlx_causal_conv1d_infer (RlxOpCall                  *call,
                         const RlxCausalConv1dAttrs *attrs,
                         GError                    **error)
{
  const RlxTensorType *x = call->inputs[0], *weight = call->inputs[1];
  const RlxTensorType *bias = call->n_inputs > 2 ? call->inputs[2] : NULL, *state = call->n_inputs > 3 ? call->inputs[3] : NULL;
  gboolean last = attrs->layout == RLX_LAYOUT_CHANNELS_LAST;
  g_autofree char *text = rlx_type_to_string (x), *weight_text = rlx_type_to_string (weight);
  RlxTensorType wanted = *x;
  gint64 channels;

  if (x->n_dims != 3)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the operand is %s; it must have 3 dimensions: %s", text,
                           last ? "[batch, steps, channels]" : "[batch, channels, steps]");
  channels = x->shape[last ? 2 : 1];
  if (weight->n_dims != 2 || weight->shape[0] != channels || weight->shape[1] == 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "weight is %s; it must be [%" G_GINT64_FORMAT ", width], with a width of at least 1", weight_text, channels);
  if (bias != NULL && (bias->n_dims != 1 || bias->shape[0] != channels))
    {
      g_autofree char *bias_text = rlx_type_to_string (bias);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "bias is %s; it must be [%" G_GINT64_FORMAT "]", bias_text, channels);
    }
  wanted.shape[last ? 1 : 2] = weight->shape[1] - 1;
  if (state != NULL && (state->n_dims != 3 || state->shape[0] != wanted.shape[0] || state->shape[1] != wanted.shape[1] ||
                        state->shape[2] != wanted.shape[2]))
    {
      g_autofree char *state_text = rlx_type_to_string (state), *wanted_text = rlx_type_to_string (&wanted);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "initial_state is %s; the other operands require %s", state_text,
                             wanted_text);
    }

  rlx_call_add_output (call, x);
  rlx_call_add_output (call, &wanted);
  return TRUE;
}

gboolean
rlx_causal_conv1d_lower (RlxLower        *lower,
                         const RlxIrNode *node,
                         GError         **error)
{
  const RlxIrValue *x = node->inputs[0], *weight = node->inputs[1];
  const RlxIrValue *bias = node->n_inputs > 2 ? node->inputs[2] : NULL, *state = node->n_inputs > 3 ? node->inputs[3] : NULL;
  gboolean last = rlx_causal_conv1d_attrs (node)->layout == RLX_LAYOUT_CHANNELS_LAST;
  guint64 n = rlx_type_n_elements (&x->type), n_state = rlx_type_n_elements (&node->outputs[1].type);
  guint64 channels = (guint64) x->type.shape[last ? 2 : 1], steps = (guint64) x->type.shape[last ? 1 : 2];
  guint64 width = (guint64) weight->type.shape[1];
  RlxKernel *kernel;

  if (n + n_state == 0)
    return TRUE;

  kernel = rlx_kernel_new (lower, node, "causal-conv");
  rlx_kernel_define (kernel, "WG", WORKGROUP_SIZE);
  rlx_kernel_define (kernel, "ANY", n > 0);
  rlx_kernel_define (kernel, "BIAS", n > 0 && bias != NULL);
  rlx_kernel_define (kernel, "KEEPS", n_state > 0);
  rlx_kernel_define (kernel, "INIT", n_state > 0 && state != NULL);
  if (n > 0)
    {
      rlx_kernel_input (kernel, "x", x);
      rlx_kernel_input (kernel, "weight", weight);
      if (bias != NULL)
        rlx_kernel_input (kernel, "bias", bias);
      rlx_kernel_output (kernel, "y", &node->outputs[0]);
    }
  if (n_state > 0)
    {
      if (state != NULL)
        rlx_kernel_input (kernel, "state", state);
      rlx_kernel_output (kernel, "last", &node->outputs[1]);
    }
  rlx_kernel_param_u32 (kernel, "n", n);
  rlx_kernel_param_u32 (kernel, "n_state", n_state);
  rlx_kernel_param_u32 (kernel, "channels", channels);
  rlx_kernel_param_u32 (kernel, "steps", steps);
  rlx_kernel_param_u32 (kernel, "width", width);
  rlx_kernel_param_u32 (kernel, "channels_last", last);
  rlx_kernel_set_cost (kernel, 2.0 * (double) n * (double) width, 8.0 * (double) n);
  return rlx_kernel_dispatch (kernel, rlx_divide_up (n + n_state, WORKGROUP_SIZE), error);
}
