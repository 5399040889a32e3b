/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "ops/rlx-builder-private.h"

#include "passes/rlx-passes-private.h"
#include "util/rlx-debug-private.h"

/* The powers of a spectrum, before expansion: one kernel reads the frames from the signal, applies their window, and
 * only writes the squares. */
static gboolean
append_powers (RlxRewrite      *self,
               const RlxIrNode *node)
{
  const RlxTensorType *type = &node->outputs[0].type;
  RlxFramePowersAttrs attrs = { 0, };
  RlxIrValue *inputs[2] = { NULL, };
  const RlxIrNode *rfft;
  const RlxIrValue *x;
  RlxIrNode *powers;
  gint64 length;

  if (!rlx_ir_node_is (node, RLX_OP_ID_ABS_SQUARED) || (rlx_debug_get_flags () & (RLX_DEBUG_NO_RECOGNISE | RLX_DEBUG_NO_FUSE)))
    return FALSE;
  rfft = node->inputs[0]->node;
  if (!rlx_ir_node_is (rfft, RLX_OP_ID_RFFT) || rlx_rewrite_get_only_user (self, node->inputs[0]) == NULL ||
      rlx_fft_attrs (rfft)->layout != RLX_COMPLEX_LAYOUT_PAIRS || rlx_fft_attrs (rfft)->axes.n_values > 1)
    return FALSE;
  x = rfft->inputs[0];
  if (x->type.data_type != RLX_DATA_TYPE_F32 ||
      (rlx_fft_attrs (rfft)->axes.n_values == 1 &&
       rlx_type_get_axis (&x->type, rlx_fft_attrs (rfft)->axes.values[0]) != x->type.n_dims - 1))
    return FALSE;

  length = x->type.shape[x->type.n_dims - 1];
  attrs.norm = rlx_fft_attrs (rfft)->norm;
  attrs.length = rlx_fft_attrs (rfft)->lengths.n_values > 0 ? rlx_fft_attrs (rfft)->lengths.values[0] : length;
  if (attrs.length == length && rlx_ir_node_is (x->node, RLX_OP_ID_MUL) && rlx_rewrite_get_only_user (self, x) != NULL)
    {
      const RlxIrValue *frames = x->node->inputs[0], *window = x->node->inputs[1];

      if (window->type.n_dims == 1 && window->type.shape[0] == length && rlx_type_same_shape (&frames->type, &x->type))
        {
          inputs[1] = self->map[window->id];
          x = frames;
        }
    }
  if (attrs.length == length && rlx_ir_node_is (x->node, RLX_OP_ID_FRAME))
    {
      attrs.hop = rlx_frame_attrs (x->node)->hop;
      x = x->node->inputs[0];
    }
  inputs[0] = self->map[x->id];
  powers = rlx_ir_append (self->out, &rlx_op_frame_powers, rlx_attrs_copy (&rlx_op_frame_powers, &attrs), inputs,
                          inputs[1] != NULL ? 2 : 1, type, 1);
  powers->origin = node->origin;
  powers->name = g_strdup (node->name);
  self->map[node->outputs[0].id] = &powers->outputs[0];
  RLX_NOTE (FUSE, "%%%u: a Fourier transform gives its powers", node->outputs[0].id);
  return TRUE;
}

/* *@more: the expansion contains operators that are expanded themselves. */
static RlxIr *
expand (const RlxIr     *ir,
        const RlxTarget *target,
        gboolean        *more,
        GError         **error)
{
  g_auto(RlxRewrite) self = { 0, };
  g_autoptr(GPtrArray) inputs = g_ptr_array_new ();

  rlx_rewrite_init (&self, ir, target);
  for (guint i = 0; i < ir->nodes->len; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);

      if (append_powers (&self, node))
        continue;
      if (node->op->expand != NULL)
        {
          g_auto(RlxBuilder) b = RLX_BUILDER (self.out, node);
          guint first = self.out->nodes->len;
          RlxIrValue *value;

          g_ptr_array_set_size (inputs, 0);
          for (guint j = 0; j < node->n_inputs; j++)
            g_ptr_array_add (inputs, node->inputs[j] != NULL ? self.map[node->inputs[j]->id] : NULL);
          value = node->op->expand (&b, node, (RlxIrValue **) inputs->pdata);
          if (b.error != NULL)
            {
              g_propagate_prefixed_error (error, g_steal_pointer (&b.error), "cannot compile %s %%%u: ", node->op->name, node->origin);
              return NULL;
            }
          for (guint j = first; j < self.out->nodes->len; j++)
            {
              const RlxOp *op = ((const RlxIrNode *) g_ptr_array_index (self.out->nodes, j))->op;

              *more = *more || (op->expand != NULL && op->lower == NULL);
            }
          if (value != NULL)
            {
              if (node->n_outputs == 1)
                b.results[0] = value;
              for (guint j = 0; j < node->n_outputs; j++)
                {
                  g_return_val_if_fail (rlx_type_equal (&b.results[j]->type, &node->outputs[j].type), NULL);
                  self.map[node->outputs[j].id] = b.results[j];
                }
              continue;
            }
        }

      rlx_rewrite_copy (&self, node);
    }

  return rlx_rewrite_end (&self);
}

RlxIr *
rlx_pass_expand (const RlxIr     *ir,
                 const RlxTarget *target,
                 GError         **error)
{
  gboolean more = FALSE;
  RlxIr *out = expand (ir, target, &more, error);

  while (out != NULL && more)
    {
      g_autoptr(RlxIr) before = out;

      more = FALSE;
      out = expand (before, target, &more, error);
    }
  return out;
}
