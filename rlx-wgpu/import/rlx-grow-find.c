/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Which inputs of a model grow from run to run.
 */
#include "config.h"

#include "import/rlx-grow-private.h"

#include "ops/rlx-shape-private.h"
#include "passes/rlx-passes-private.h"
#include "rlx-graph-private.h"

static const RlxIrValue *
find_output (const RlxIr *ir,
             const char  *name)
{
  for (guint i = 0; i < ir->outputs->len; i++)
    if (g_str_equal (g_array_index (ir->outputs, RlxIrOutput, i).name, name))
      return g_array_index (ir->outputs, RlxIrOutput, i).value;
  return NULL;
}

gboolean
rlx_grow_is_growth (const RlxIrNode *node,
                    const char      *input,
                    guint           *axis)
{
  if (!rlx_ir_node_is (node, RLX_OP_ID_CONCAT) || node->n_inputs != 2 || node->inputs[0]->node->op != &rlx_op_input ||
      !g_str_equal (node->inputs[0]->node->name, input))
    return FALSE;
  *axis = rlx_type_get_axis (&node->outputs[0].type, rlx_concat_attrs (node)->axis);
  return TRUE;
}

gboolean
rlx_grow_find (RlxGrow  *self,
               RlxGraph *graph,
               GError  **error)
{
  const RlxIr *ir = rlx_graph_peek_ir (graph, error);
  const RlxGrowState *first = NULL;

  if (ir == NULL)
    return FALSE;
  self->n_new = 0;
  for (guint i = 0; i < self->n_states; i++)
    {
      RlxGrowState *state = &self->states[i];
      const RlxIrValue *output = find_output (ir, state->output);
      const RlxTensorType *before = g_hash_table_lookup (self->types, state->input);

      state->grows = output != NULL && rlx_grow_is_growth (output->node, state->input, &state->axis);
      if (!state->grows)
        continue;
      state->n_new = output->type.shape[state->axis] - before->shape[state->axis];
      if (before->shape[state->axis] != self->n_rows && first == NULL)
        self->n_rows = before->shape[state->axis];
      if (before->shape[state->axis] != self->n_rows || (first != NULL && state->n_new != first->n_new))
        return rlx_map_unsupported (error, "The states “%s” and “%s” grow differently", (first != NULL ? first : state)->input, state->input);
      first = state;
      self->n_new = state->n_new;
    }
  if (first != NULL && self->capacity <= RLX_GROW_FEW_ROWS + self->n_new + 1)
    {
      g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_LIMIT, "States of %" G_GINT64_FORMAT " rows are too short for runs of %" G_GINT64_FORMAT,
                   self->capacity, self->n_new);
      return FALSE;
    }
  return TRUE;
}

gboolean
rlx_grow_find_longer (RlxGrow *self)
{
  const RlxOnnxGraph *graph = rlx_onnx_get_graph (self->source->onnx, self->source->onnx->body);
  gboolean any = FALSE;
  RlxProtobufValue record;
  RlxOnnxPort port;

  for (const guint8 *at = graph->message; rlx_onnx_next (&at, RLX_ONNX_GRAPH_INPUT, &record);)
    {
      const RlxTensorType *type;
      gboolean is_state = FALSE;

      rlx_onnx_get_port (record.message, &port);
      type = g_hash_table_lookup (self->types, port.name);
      for (guint i = 0; i < self->n_states; i++)
        is_state = is_state || g_str_equal (self->states[i].input, port.name);
      for (guint i = type != NULL && !is_state && port.has_shape ? type->n_dims : 0; i-- > 0;)
        if (port.dims[i] < 0 && type->shape[i] == self->n_rows + self->n_new && !g_hash_table_contains (self->longer, port.name))
          any = g_hash_table_insert (self->longer, g_strdup (port.name), GUINT_TO_POINTER (i + 1));
    }
  return any;
}
