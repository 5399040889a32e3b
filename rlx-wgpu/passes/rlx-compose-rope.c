/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Finds rotary positions that a graph spells out, with tables of cosines and sines:
 *
 * - x · cos + turned (x) · sin, where turned (x) has the second element of each pair with
 *   its sign changed in place of the first, and the first in place of the second.
 * - The two elements of all pairs, x₁ · cos - x₂ · sin and x₂ · cos + x₁ · sin, side by side.
 * - Either of the first elements of heads, and what is left of them behind that.
 *
 * Pairs are halves of a head or neighbours.
 */
#include "config.h"

#include "passes/rlx-passes-private.h"

#include "ops/rlx-builder-private.h"
#include "util/rlx-debug-private.h"

/* Elements of the last axis: @first, @first + @step, … */
typedef struct
{
  const RlxIrValue *whole;
  gint64 first, step;
} Piece;

typedef struct
{
  const RlxIrValue *x, *cosines, *sines;
  gboolean interleaved;
} Rotation;

static gint64
get_width (const RlxIrValue *value)
{
  return value->type.n_dims > 0 ? value->type.shape[value->type.n_dims - 1] : 0;
}

/* The part of another value's last axis that a value takes, if it takes all of the other axes. */
static gboolean
find_piece (const RlxIrValue *value,
            Piece            *piece)
{
  const RlxIrNode *node = value->node;
  const RlxTensorType *type;
  gint64 strides[RLX_MAX_DIMS], offset, stride;
  guint last;

  if (node->n_inputs == 0 || value->type.n_dims == 0)
    return FALSE;
  type = &node->inputs[0]->type;
  last = type->n_dims - 1;
  if (rlx_ir_node_is (node, RLX_OP_ID_SPLIT) && rlx_type_get_axis (type, rlx_split_attrs (node)->axis) == last)
    {
      *piece = (Piece) { node->inputs[0], 0, 1 };
      for (const RlxIrValue *before = node->outputs; before != value; before++)
        piece->first += get_width (before);
      return TRUE;
    }
  if (!rlx_ir_node_is (node, RLX_OP_ID_SLICE) || !rlx_view_get_strides (node, &offset, strides))
    return FALSE;
  stride = type->shape[last];
  for (guint d = last; d-- > 0; stride *= type->shape[d])
    if (value->type.shape[d] != type->shape[d] || (type->shape[d] > 1 && strides[d] != stride))
      return FALSE;
  *piece = (Piece) { node->inputs[0], offset, get_width (value) > 1 ? strides[last] : 1 };
  return piece->first >= 0 && piece->first < type->shape[last];
}

/* Whether two values are the first and the second elements of all pairs of a third. */
static gboolean
are_pairs (const RlxIrValue  *first,
           const RlxIrValue  *second,
           gboolean           interleaved,
           const RlxIrValue **x)
{
  Piece a, b;
  gint64 n = get_width (first);

  if (n < 1 || !find_piece (first, &a) || !find_piece (second, &b) || a.whole != b.whole || get_width (second) != n || get_width (a.whole) != 2 * n ||
      a.first != 0)
    return FALSE;
  *x = a.whole;
  if (interleaved)
    return b.first == 1 && (n == 1 || (a.step == 2 && b.step == 2));
  return b.first == n && a.step == 1 && b.step == 1;
}

/* A value before dimensions of size 1 were added or dropped, and whether it was negated. */
static const RlxIrValue *
strip (const RlxIrValue *value,
       gboolean         *negative)
{
  *negative = FALSE;
  for (;;)
    {
      const RlxIrNode *node = value->node;

      if (rlx_ir_node_is (node, RLX_OP_ID_NEG))
        *negative = !*negative;
      else if (!rlx_ir_node_is (node, RLX_OP_ID_RESHAPE) && !rlx_ir_node_is (node, RLX_OP_ID_UNSQUEEZE) && !rlx_ir_node_is (node, RLX_OP_ID_SQUEEZE))
        return value;
      value = node->inputs[0];
    }
}

/* The two values of which one is all first and the other all second elements of @value's pairs; NULL in @a if there are none. */
static void
find_joined (const RlxIrValue  *value,
             const RlxIrValue **a,
             const RlxIrValue **b,
             gboolean          *interleaved)
{
  const RlxIrNode *node = value->node;
  gint64 n = get_width (value) / 2;

  *a = NULL;
  *interleaved = rlx_ir_node_is (node, RLX_OP_ID_RESHAPE);
  if (*interleaved)
    {
      const RlxTensorType *type = &node->inputs[0]->type;

      /* [.., n, 2] to [.., 2 n] */
      if (type->n_dims < 2 || type->shape[type->n_dims - 1] != 2 || type->shape[type->n_dims - 2] != n)
        return;
      node = node->inputs[0]->node;
    }
  if (!rlx_ir_node_is (node, RLX_OP_ID_CONCAT) || node->n_inputs != 2 || get_width (node->inputs[0]) != get_width (node->inputs[1]) ||
      rlx_type_get_axis (&node->outputs[0].type, rlx_concat_attrs (node)->axis) + 1 != node->outputs[0].type.n_dims)
    return;
  *a = node->inputs[0];
  *b = node->inputs[1];
}

/* value = turned (x) */
static gboolean
find_turned (const RlxIrValue *value,
             Rotation         *found)
{
  const RlxIrValue *a, *b;
  gboolean negative_a, negative_b;

  find_joined (value, &a, &b, &found->interleaved);
  if (a == NULL)
    return FALSE;
  a = strip (a, &negative_a);
  b = strip (b, &negative_b);
  return negative_a && !negative_b && are_pairs (b, a, found->interleaved, &found->x) && rlx_type_same_shape (&found->x->type, &value->type);
}

/* Finds which operand of a product is @x: the other one is the factor. */
static const RlxIrValue *
get_factor (const RlxIrValue *product,
            const RlxIrValue *x)
{
  const RlxIrNode *node = product->node;

  if (!rlx_ir_node_is (node, RLX_OP_ID_MUL))
    return NULL;
  return node->inputs[0] == x ? node->inputs[1] : node->inputs[1] == x ? node->inputs[0] : NULL;
}

/* x · cos + turned (x) · sin */
static gboolean
find_sum (const RlxIrNode *node,
          Rotation        *found)
{
  for (guint i = 0; i < 4 && rlx_ir_node_is (node, RLX_OP_ID_ADD); i++)
    {
      const RlxIrValue *plain = node->inputs[i & 1], *turned = node->inputs[1 - (i & 1)];

      if (!rlx_ir_node_is (turned->node, RLX_OP_ID_MUL) || !find_turned (turned->node->inputs[i >> 1], found))
        continue;
      found->sines = turned->node->inputs[1 - (i >> 1)];
      found->cosines = get_factor (plain, found->x);
      if (found->cosines != NULL)
        return TRUE;
    }
  return FALSE;
}

/* x₁ · cos - x₂ · sin beside x₂ · cos + x₁ · sin */
static gboolean
find_sides (const RlxIrNode *node,
            Rotation        *found)
{
  const RlxIrValue *a, *b;
  gboolean negative;

  find_joined (&node->outputs[0], &a, &b, &found->interleaved);
  if (a == NULL)
    return FALSE;
  a = strip (a, &negative);
  b = strip (b, &negative);
  if (!rlx_ir_node_is (a->node, RLX_OP_ID_SUB) || !rlx_ir_node_is (b->node, RLX_OP_ID_ADD) || negative ||
      !rlx_ir_node_is (a->node->inputs[0]->node, RLX_OP_ID_MUL) || !rlx_ir_node_is (a->node->inputs[1]->node, RLX_OP_ID_MUL))
    return FALSE;
  for (guint i = 0; i < 4; i++)
    {
      RlxIrValue **first = a->node->inputs[0]->node->inputs, **second = a->node->inputs[1]->node->inputs;
      const RlxIrValue *x1 = first[i & 1], *x2 = second[i >> 1];

      found->cosines = first[1 - (i & 1)];
      found->sines = second[1 - (i >> 1)];
      if (!are_pairs (x1, x2, found->interleaved, &found->x))
        continue;
      for (guint j = 0; j < 2; j++)
        if (get_factor (b->node->inputs[j], x2) == found->cosines && get_factor (b->node->inputs[1 - j], x1) == found->sines)
          return TRUE;
    }
  return FALSE;
}

/* A table as rope takes it: [batch, sequence, columns]. All heads must be rotated in the same way. */
static RlxIrValue *
as_table (RlxBuilder          *b,
          RlxIrValue          *value,
          const RlxTensorType *x,
          RlxHeadLayout        layout)
{
  gint64 shape[4] = { 1, 1, 1, 1 };
  guint heads = layout == RLX_HEAD_LAYOUT_HEADS_FIRST ? 1 : 2;

  if (value->type.n_dims == 0 || value->type.n_dims > 4)
    return NULL;
  for (guint i = 0; i < value->type.n_dims; i++)
    shape[4 - value->type.n_dims + i] = value->type.shape[i];
  if (shape[heads] != 1 || (shape[3] != x->shape[3] && 2 * shape[3] != x->shape[3]))
    return NULL;
  return rlx_build_reshape (b, value, RLX_RESHAPE_ATTRS (.shape = RLX_INTS (((gint64[]) { shape[0], shape[3 - heads], shape[3] }), 3)));
}

static gboolean
append_whole (RlxRewrite      *self,
              const RlxIrNode *node)
{
  const RlxTensorType *type = &node->outputs[0].type;
  Rotation found;

  if (type->n_dims != 4 || !rlx_data_type_is_float (type->data_type) || rlx_type_n_elements (type) == 0 || (!find_sum (node, &found) && !find_sides (node, &found)) ||
      !rlx_type_equal (&found.x->type, type))
    return FALSE;
  for (guint layout = RLX_HEAD_LAYOUT_HEADS_FIRST; layout <= RLX_HEAD_LAYOUT_SEQUENCE_FIRST; layout++)
    {
      g_auto(RlxBuilder) b = RLX_BUILDER (self->out, node);
      RlxIrValue *cosines = as_table (&b, self->map[found.cosines->id], type, layout);
      RlxIrValue *sines = cosines != NULL ? as_table (&b, self->map[found.sines->id], type, layout) : NULL;
      RlxIrValue *value;

      if (sines == NULL || !rlx_type_equal (&cosines->type, &sines->type))
        continue;
      value = rlx_build_rope (&b, self->map[found.x->id], NULL, cosines, sines, RLX_ROPE_ATTRS (.interleaved = found.interleaved, .layout = layout));
      if (value == NULL)
        continue;
      value->node->name = g_strdup (node->name);
      self->map[node->outputs[0].id] = value;
      RLX_NOTE (FUSE, "%%%u: arithmetic is rope of %s", node->outputs[0].id, found.interleaved ? "neighbours" : "halves");
      return TRUE;
    }
  RLX_NOTE (FUSE, "%%%u: arithmetic is no rope: its tables differ for heads", node->outputs[0].id);
  return FALSE;
}

/* The first elements of each head rotated, and the others. */
static gboolean
append_partial (RlxRewrite      *self,
                const RlxIrNode *node)
{
  g_auto(RlxBuilder) b = RLX_BUILDER (self->out, node);
  const RlxTensorType *type = &node->outputs[0].type;
  const RlxIrNode *rope;
  Piece rotated, rest;
  RlxRopeAttrs attrs;
  RlxIrValue *value;

  if (!rlx_ir_node_is (node, RLX_OP_ID_CONCAT) || node->n_inputs != 2 || type->n_dims != 4 ||
      rlx_type_get_axis (type, rlx_concat_attrs (node)->axis) != 3)
    return FALSE;
  rope = self->map[node->inputs[0]->id]->node;
  if (!rlx_ir_node_is (rope, RLX_OP_ID_ROPE) || rlx_rewrite_get_only_user (self, node->inputs[0]) == NULL ||
      !find_piece (rope->inputs[RLX_ROPE_SELF], &rotated) || !find_piece (self->map[node->inputs[1]->id], &rest) || rotated.whole != rest.whole ||
      rotated.first != 0 || rotated.step != 1 || rest.step != 1 || rest.first != get_width (rope->inputs[RLX_ROPE_SELF]) ||
      !rlx_type_equal (&rotated.whole->type, type))
    return FALSE;
  attrs = *rlx_rope_attrs (rope);
  attrs.rotated = rest.first;
  value = rlx_build_rope (&b, (RlxIrValue *) rotated.whole, rope->inputs[RLX_ROPE_POSITIONS], rope->inputs[RLX_ROPE_COSINES], rope->inputs[RLX_ROPE_SINES], &attrs);
  if (value == NULL)
    return FALSE;
  value->node->name = g_strdup (rope->name);
  self->map[node->outputs[0].id] = value;
  RLX_NOTE (FUSE, "%%%u: rope of the first %" G_GINT64_FORMAT " elements leaves the others", node->outputs[0].id, rest.first);
  return TRUE;
}

gboolean
rlx_compose_rope (RlxRewrite      *self,
                  const RlxIrNode *node)
{
  return append_whole (self, node) || append_partial (self, node);
}
