/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What every pass does: look up who uses what, and copy what stays.
 */
#include "config.h"

#include "passes/rlx-passes-private.h"

#include "ir/rlx-op-private.h"

static GArray **
find_users (const RlxIr    *ir,
            const gboolean *live)
{
  GArray **users = g_new0 (GArray *, ir->n_values + 1);

  for (guint i = 0; i < ir->nodes->len; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);

      for (guint j = 0; live[i] && j < node->n_inputs; j++)
        if (node->inputs[j] != NULL)
          {
            GArray **at = &users[node->inputs[j]->id];

            if (*at == NULL)
              *at = g_array_new (FALSE, FALSE, sizeof (guint));
            g_array_append_val (*at, i);
          }
    }
  return users;
}

static gboolean *
find_pinned_values (const RlxIr *ir)
{
  gboolean *pinned = g_new0 (gboolean, ir->n_values + 1);

  for (guint i = 0; i < ir->outputs->len; i++)
    pinned[g_array_index (ir->outputs, RlxIrOutput, i).value->id] = TRUE;
  for (guint i = 0; i < ir->assigns->len; i++)
    pinned[g_array_index (ir->assigns, RlxIrAssign, i).value->id] = TRUE;
  return pinned;
}

RlxIrNode *
rlx_ir_copy_node (RlxIr           *out,
                  const RlxIrNode *node,
                  RlxIrValue     **map)
{
  g_autofree RlxIrValue **inputs = g_new0 (RlxIrValue *, node->n_inputs + 1);
  RlxIrNode *copy;

  for (guint i = 0; i < node->n_inputs; i++)
    inputs[i] = node->inputs[i] ? map[node->inputs[i]->id] : NULL;
  copy = rlx_ir_append_copy (out, node, inputs);
  for (guint i = 0; i < node->n_outputs; i++)
    map[node->outputs[i].id] = &copy->outputs[i];
  return copy;
}

void
rlx_ir_copy_results (RlxIr             *out,
                     const RlxIr       *ir,
                     RlxIrValue *const *map)
{
  out->precision = ir->precision;
  out->checked = ir->checked;
  out->surveyed = ir->surveyed;
  for (guint i = 0; i < ir->outputs->len; i++)
    {
      const RlxIrOutput *output = &g_array_index (ir->outputs, RlxIrOutput, i);

      rlx_ir_add_output (out, output->name, map[output->value->id]);
    }
  for (guint i = 0; i < ir->assigns->len; i++)
    {
      const RlxIrAssign *assign = &g_array_index (ir->assigns, RlxIrAssign, i);

      rlx_ir_add_assign (out, map[assign->state->id], map[assign->value->id]);
    }
}

void
rlx_rewrite_init (RlxRewrite      *self,
                  const RlxIr     *ir,
                  const RlxTarget *target)
{
  gboolean *live = rlx_ir_find_live_nodes (ir);

  *self = (RlxRewrite) {
    .ir = ir,
    .target = target,
    .out = rlx_ir_new (),
    .live = live,
    .users = find_users (ir, live),
    .pinned = find_pinned_values (ir),
    .map = g_new0 (RlxIrValue *, ir->n_values + 1),
  };
}

void
rlx_rewrite_clear (RlxRewrite *self)
{
  for (guint i = 0; self->users != NULL && i < self->ir->n_values; i++)
    g_clear_pointer (&self->users[i], g_array_unref);
  g_clear_pointer (&self->users, g_free);
  g_clear_pointer (&self->live, g_free);
  g_clear_pointer (&self->pinned, g_free);
  g_clear_pointer (&self->map, g_free);
  g_clear_pointer (&self->out, rlx_ir_free);
}

RlxIr *
rlx_rewrite_end (RlxRewrite *self)
{
  rlx_ir_copy_results (self->out, self->ir, self->map);
  return g_steal_pointer (&self->out);
}

RlxIrNode *
rlx_rewrite_copy (RlxRewrite      *self,
                  const RlxIrNode *node)
{
  return rlx_ir_copy_node (self->out, node, self->map);
}

const RlxIrNode *
rlx_rewrite_get_only_user (const RlxRewrite *self,
                           const RlxIrValue *value)
{
  const GArray *users = self->users[value->id];

  if (self->pinned[value->id] || users == NULL || users->len != 1)
    return NULL;
  return g_ptr_array_index (self->ir->nodes, g_array_index (users, guint, 0));
}

gboolean
rlx_ir_node_swaps_middle (const RlxIrNode *node)
{
  static const guint order[] = { 0, 2, 1, 3 };

  if (!rlx_ir_node_is (node, RLX_OP_ID_TRANSPOSE) || node->outputs[0].type.n_dims != 4)
    return FALSE;
  for (guint i = 0; i < 4; i++)
    if (rlx_transpose_get_axis (node, i) != order[i])
      return FALSE;
  return TRUE;
}

gboolean
rlx_ir_node_is_projection (const RlxIrNode *node)
{
  const RlxTensorType *type = &node->outputs[0].type;
  const RlxIrValue *bias;
  RlxLinearAttrs attrs;

  if (rlx_ir_node_is (node, RLX_OP_ID_MATMUL))
    return node->inputs[RLX_MATMUL_OTHER]->type.n_dims == 2 && node->inputs[RLX_MATMUL_SELF]->type.n_dims >= 1 &&
           !rlx_matmul_attrs (node)->transpose_a;
  if (!rlx_ir_node_is (node, RLX_OP_ID_LINEAR))
    return FALSE;
  attrs = *rlx_linear_attrs (node);
  bias = node->inputs[RLX_LINEAR_BIAS];
  return !attrs.transpose_a && attrs.alpha == 1.0 &&
         (bias == NULL || (attrs.beta == 1.0 && bias->type.n_dims == 1 && bias->type.shape[0] == type->shape[type->n_dims - 1]));
}

RlxLinearAttrs
rlx_ir_node_as_linear (const RlxIrNode *node)
{
  const RlxMatmulAttrs *attrs;

  if (rlx_ir_node_is (node, RLX_OP_ID_LINEAR))
    return *rlx_linear_attrs (node);
  attrs = rlx_matmul_attrs (node);
  return *RLX_LINEAR_ATTRS (.transpose_a = attrs->transpose_a, .transpose_b = attrs->transpose_b);
}

RlxIrValue *
rlx_ir_node_get_bias (const RlxIrNode *node)
{
  return rlx_ir_node_is (node, RLX_OP_ID_LINEAR) ? node->inputs[RLX_LINEAR_BIAS] : NULL;
}

const RlxIrValue *
rlx_value_skip_reshapes (const RlxIrValue *value)
{
  const RlxIrValue *found = value, *next = value;

  while (rlx_ir_node_is (next->node, RLX_OP_ID_RESHAPE) || rlx_ir_node_is (next->node, RLX_OP_ID_SQUEEZE) ||
         rlx_ir_node_is (next->node, RLX_OP_ID_UNSQUEEZE))
    {
      next = next->node->inputs[0];
      if (rlx_type_same_shape (&next->type, &value->type))
        found = next;
    }
  return found;
}
