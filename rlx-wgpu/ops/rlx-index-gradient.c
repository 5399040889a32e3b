/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Gradients of operators that move elements: they are added up in the places that were read.
 */
#include "config.h"

#include "ops/rlx-gradient-private.h"

#include "rlx-tensor-private.h"

/* ---- shapes ---------------------------------------------------------------------- */

void
rlx_split_gradient (RlxGradient     *self,
                    const RlxIrNode *node)
{
  RlxBuilder *b = rlx_gradient_get_builder (self);
  g_autofree RlxIrValue **parts = g_new0 (RlxIrValue *, node->n_outputs + 1);

  for (guint i = 0; i < node->n_outputs; i++)
    parts[i] = rlx_gradient_get_or_zeros (self, node, i);
  rlx_gradient_add (self, node, 0,
                    rlx_build_concat (b, parts, node->n_outputs, RLX_CONCAT_ATTRS (.axis = rlx_split_attrs (node)->axis)));
}

void
rlx_tile_gradient (RlxGradient     *self,
                   const RlxIrNode *node)
{
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *g = rlx_gradient_get (self, node, 0);
  const RlxTensorType *x = &node->inputs[0]->type;

  for (guint i = 0; i < x->n_dims && g != NULL; i++)
    {
      gint64 times = rlx_tile_attrs (node)->repetitions.values[i];
      gint64 split[3] = { 1, times, x->shape[i] };
      RlxTensorType type = g->type;

      if (times == 1)
        continue;
      for (guint k = 0; k < i; k++)
        split[0] *= type.shape[k];
      for (guint k = i + 1; k < type.n_dims; k++)
        split[2] *= type.shape[k];
      type.shape[i] = x->shape[i];
      g = rlx_build_sum_along (b, rlx_build_shaped (b, g, split, 3), 1);
      g = rlx_build_shaped (b, g, type.shape, type.n_dims);
    }
  rlx_gradient_add (self, node, 0, g);
}

/* Which of @n elements is at @at, which may be outside. */
static gint64
find_source (RlxPadMode mode,
             gint64     at,
             gint64     n)
{
  gint64 period;

  switch (mode)
    {
    case RLX_PAD_MODE_REFLECT:
      if (n == 1)
        return 0;
      period = 2 * (n - 1);
      at = (at % period + period) % period;
      return at < n ? at : period - at;
    case RLX_PAD_MODE_SYMMETRIC:
      period = 2 * n;
      at = (at % period + period) % period;
      return at < n ? at : period - 1 - at;
    case RLX_PAD_MODE_WRAP:
      return (at % n + n) % n;
    case RLX_PAD_MODE_EDGE:
    case RLX_PAD_MODE_CONSTANT:
    default:
      return CLAMP (at, 0, n - 1);
    }
}

/* Repeated elements were gathered, axis by axis. */
static void
pad_by_gathering (RlxGradient     *self,
                  const RlxIrNode *node)
{
  const RlxPadAttrs *attrs = rlx_pad_attrs (node);
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *y = rlx_build_identity (b, node->inputs[0]);

  for (guint i = 0; i < node->inputs[0]->type.n_dims && y != NULL; i++)
    {
      /* Elements that are cut off are removed first. */
      gint64 first = MAX (-attrs->before.values[i], 0);
      gint64 n = y->type.shape[i] - first - MAX (-attrs->after.values[i], 0);
      gint64 length = node->outputs[0].type.shape[i];
      g_autofree gint64 *indices = NULL;
      RlxIrValue *constant;

      if (attrs->before.values[i] == 0 && attrs->after.values[i] == 0)
        continue;
      if (n <= 0)
        {
          y = rlx_build_filled (b, &node->outputs[0].type, 0.0);
          break;
        }
      indices = g_new (gint64, length + 1);
      for (gint64 k = 0; k < length; k++)
        indices[k] = first + find_source (attrs->mode, k - MAX (attrs->before.values[i], 0), n);
      constant = rlx_build_constant (b, rlx_tensor_new_from_ints (RLX_DATA_TYPE_I32, &length, 1, indices, (gsize) length, NULL));
      y = rlx_build_gather (b, y, constant, RLX_GATHER_ATTRS (.axis = i));
    }
  rlx_gradient_through (self, node, &y, 1);
}

void
rlx_pad_gradient (RlxGradient     *self,
                  const RlxIrNode *node)
{
  const RlxPadAttrs *attrs = rlx_pad_attrs (node);
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *g = rlx_gradient_get (self, node, 0);
  gint64 before[RLX_MAX_DIMS], after[RLX_MAX_DIMS];
  guint n_dims = node->inputs[0]->type.n_dims;

  if (attrs->mode != RLX_PAD_MODE_CONSTANT)
    {
      pad_by_gathering (self, node);
      return;
    }

  for (guint i = 0; i < n_dims; i++)
    {
      before[i] = -attrs->before.values[i];
      after[i] = -attrs->after.values[i];
    }
  if (rlx_gradient_wants (self, node, 0))
    rlx_gradient_add (self, node, 0,
                      rlx_build_pad (b, g, NULL, RLX_PAD_ATTRS (.before = RLX_INTS (before, n_dims), .after = RLX_INTS (after, n_dims))));
  if (rlx_gradient_wants (self, node, RLX_PAD_VALUE))
    {
      RlxTensorType inside = node->inputs[0]->type;
      RlxIrValue *is_inside, *zero = rlx_build_number (b, g, 0.0);

      inside.data_type = RLX_DATA_TYPE_BOOL;
      is_inside = rlx_build_pad (b, rlx_build_filled (b, &inside, 1.0), NULL, attrs);
      rlx_gradient_add (self, node, RLX_PAD_VALUE, rlx_build_where (b, is_inside, zero, g));
    }
}

void
rlx_roll_gradient (RlxGradient     *self,
                   const RlxIrNode *node)
{
  const RlxRollAttrs *attrs = rlx_roll_attrs (node);
  gint64 shifts[RLX_MAX_DIMS];

  for (guint i = 0; i < attrs->shifts.n_values; i++)
    {
      gint64 size = node->inputs[0]->type.shape[rlx_type_get_axis (&node->inputs[0]->type, attrs->axes.values[i])];

      /* The smallest integer has no opposite. */
      shifts[i] = size > 0 ? -(attrs->shifts.values[i] % size) : 0;
    }
  rlx_gradient_add (self, node, 0, rlx_build_roll (rlx_gradient_get_builder (self), rlx_gradient_get (self, node, 0),
                                                   RLX_ROLL_ATTRS (.shifts = RLX_INTS (shifts, attrs->shifts.n_values),
                                                                   .axes = attrs->axes)));
}

void
rlx_triangular_gradient (RlxGradient     *self,
                         const RlxIrNode *node)
{
  rlx_gradient_add (self, node, 0, rlx_build_triangular (rlx_gradient_get_builder (self), rlx_gradient_get (self, node, 0),
                                                         rlx_triangular_attrs (node)));
}

void
rlx_depth_to_space_gradient (RlxGradient     *self,
                             const RlxIrNode *node)
{
  rlx_gradient_add (self, node, 0, rlx_build_space_to_depth (rlx_gradient_get_builder (self), rlx_gradient_get (self, node, 0),
                                                             RLX_SPACE_TO_DEPTH_ATTRS (.block = rlx_depth_to_space_attrs (node)->block,
                                                                                       .blocks_first = rlx_depth_to_space_attrs (node)->blocks_first)));
}

void
rlx_space_to_depth_gradient (RlxGradient     *self,
                             const RlxIrNode *node)
{
  rlx_gradient_add (self, node, 0, rlx_build_depth_to_space (rlx_gradient_get_builder (self), rlx_gradient_get (self, node, 0),
                                                             RLX_DEPTH_TO_SPACE_ATTRS (.block = rlx_space_to_depth_attrs (node)->block,
                                                                                       .blocks_first = rlx_space_to_depth_attrs (node)->blocks_first)));
}

/* ---- gathers ---------------------------------------------------------------------- */


void
rlx_gather_gradient (RlxGradient     *self,
                     const RlxIrNode *node)
{
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *g = rlx_gradient_get (self, node, 0), *indices = node->inputs[RLX_GATHER_INDICES];
  const RlxTensorType *x = &node->inputs[0]->type;
  guint axis = rlx_type_get_axis (x, rlx_gather_attrs (node)->axis);
  RlxTensorType rows = *x;
  gint64 order[RLX_MAX_DIMS], back[RLX_MAX_DIMS];
  guint n_indices = indices->type.n_dims, n = 0;
  gint64 n_all = (gint64) rlx_type_n_elements (&indices->type);

  if (g == NULL || !rlx_gradient_wants (self, node, 0))
    return;

  /* The axis comes first, the others keep their order. */
  for (guint i = 0; i < n_indices; i++)
    order[n++] = axis + i;
  for (guint i = 0; i < g->type.n_dims; i++)
    if (i < axis || i >= axis + n_indices)
      order[n++] = i;
  if (axis > 0)
    g = rlx_build_transpose (b, g, RLX_TRANSPOSE_ATTRS (.permutation = RLX_INTS (order, n)));
  for (guint i = 0; i < x->n_dims; i++)
    {
      back[i] = i == axis ? 0 : i < axis ? i + 1 : i;
      rows.shape[back[i]] = x->shape[i];
    }
  if (g == NULL)
    return;

  {
    RlxTensorType flat = rows;

    flat.shape[0] = n_all;
    g = rlx_build_shaped (b, g, flat.shape, flat.n_dims);
    indices = rlx_build_shaped (b, indices, (gint64[]) { n_all, 1 }, 2);
  }
  if (rows.shape[0] == 0)
    g = rlx_build_filled (b, &rows, 0.0);
  else
    g = rlx_build_scatter_nd (b, rlx_build_filled (b, &rows, 0.0), indices, g, RLX_SCATTER_ND_ATTRS (.mode = RLX_SCATTER_MODE_ADD));
  if (axis > 0)
    g = rlx_build_transpose (b, g, RLX_TRANSPOSE_ATTRS (.permutation = RLX_INTS (back, x->n_dims)));
  rlx_gradient_add (self, node, 0, g);
}

void
rlx_gather_elements_gradient (RlxGradient     *self,
                              const RlxIrNode *node)
{
  RlxBuilder *b = rlx_gradient_get_builder (self);

  rlx_gradient_add (self, node, 0,
                    rlx_build_scatter_elements (b, rlx_build_filled (b, &node->inputs[0]->type, 0.0), node->inputs[1],
                                                rlx_gradient_get (self, node, 0),
                                                RLX_SCATTER_ELEMENTS_ATTRS (.axis = rlx_gather_elements_attrs (node)->axis,
                                                                            .mode = RLX_SCATTER_MODE_ADD)));
}

void
rlx_gather_nd_gradient (RlxGradient     *self,
                        const RlxIrNode *node)
{
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *indices = node->inputs[RLX_GATHER_ND_INDICES];
  guint n_batches = (guint) rlx_gather_nd_attrs (node)->batch_dims;
  const RlxTensorType *x = &node->inputs[0]->type;

  /* Batches count as indices, too. */
  if (n_batches > 0)
    {
      RlxIrValue *all[RLX_MAX_DIMS + 1];
      RlxTensorType one = indices->type;

      one.shape[one.n_dims - 1] = 1;
      for (guint i = 0; i < n_batches; i++)
        {
          gint64 shape[RLX_MAX_DIMS];

          for (guint k = 0; k < one.n_dims; k++)
            shape[k] = k == i ? one.shape[k] : 1;
          all[i] = rlx_build_shaped (b, rlx_build_iota (b, one.shape[i]), shape, one.n_dims);
          all[i] = rlx_build_as (b, rlx_build_expand (b, all[i], RLX_EXPAND_ATTRS (.shape = RLX_INTS (one.shape, one.n_dims))),
                                 indices->type.data_type);
        }
      all[n_batches] = indices;
      indices = rlx_build_concat (b, all, n_batches + 1, RLX_CONCAT_ATTRS (.axis = -1));
    }
  rlx_gradient_add (self, node, 0,
                    rlx_build_scatter_nd (b, rlx_build_filled (b, x, 0.0), indices, rlx_gradient_get (self, node, 0),
                                          RLX_SCATTER_ND_ATTRS (.mode = RLX_SCATTER_MODE_ADD)));
}

void
rlx_one_hot_gradient (RlxGradient     *self,
                      const RlxIrNode *node)
{
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *g = rlx_gradient_get (self, node, 0), *marked, *zero, *parts[2];
  RlxTensorType one = { .data_type = node->inputs[RLX_ONE_HOT_VALUES]->type.data_type, .n_dims = 1, .shape = { 1 } };

  if (!rlx_gradient_wants (self, node, RLX_ONE_HOT_VALUES))
    return;

  marked = rlx_build_constant (b, rlx_tensor_new_from_ints (RLX_DATA_TYPE_BOOL, (gint64[]) { 2 }, 1, (const gint64[]) { 0, 1 }, 2, NULL));
  marked = rlx_build_one_hot (b, node->inputs[0], marked, rlx_one_hot_attrs (node));
  zero = rlx_build_number (b, g, 0.0);
  parts[0] = rlx_build_sum_to (b, rlx_build_where (b, marked, zero, g), &one);
  parts[1] = rlx_build_sum_to (b, rlx_build_where (b, marked, g, zero), &one);
  rlx_gradient_add (self, node, RLX_ONE_HOT_VALUES, rlx_build_concat (b, parts, 2, RLX_CONCAT_ATTRS (.axis = 0)));
}

/* ---- scatters ------------------------------------------------------------------------ */

/* The elements at the places that @node's updates go to, one for each update. */
static RlxIrValue *
read_places (RlxBuilder      *b,
             const RlxIrNode *node,
             RlxIrValue      *x)
{
  if (node->op->id == RLX_OP_ID_SCATTER_ND)
    return rlx_build_gather_nd (b, x, node->inputs[1], NULL);
  return rlx_build_gather_elements (b, x, node->inputs[1], RLX_GATHER_ELEMENTS_ATTRS (.axis = rlx_scatter_elements_attrs (node)->axis));
}

static RlxIrValue *
change_places (RlxBuilder      *b,
               const RlxIrNode *node,
               RlxIrValue      *x,
               RlxIrValue      *updates,
               RlxScatterMode   mode)
{
  if (node->op->id == RLX_OP_ID_SCATTER_ND)
    return rlx_build_scatter_nd (b, x, node->inputs[1], updates, RLX_SCATTER_ND_ATTRS (.mode = mode));
  return rlx_build_scatter_elements (b, x, node->inputs[1], updates,
                                     RLX_SCATTER_ELEMENTS_ATTRS (.axis = rlx_scatter_elements_attrs (node)->axis, .mode = mode));
}

/* If several updates go to a place, the last one counts: it finds its own number there. */
static void
replace_gradient (RlxGradient     *self,
                  const RlxIrNode *node,
                  RlxIrValue      *g)
{
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxTensorType places = node->inputs[0]->type, updates = node->inputs[2]->type;

  if (rlx_gradient_wants (self, node, 0))
    rlx_gradient_add (self, node, 0,
                      change_places (b, node, g, rlx_build_filled (b, &updates, 0.0), RLX_SCATTER_MODE_REPLACE));
  if (rlx_gradient_wants (self, node, 2))
    {
      RlxIrValue *numbers = rlx_build_iota (b, (gint64) rlx_type_n_elements (&updates));
      RlxIrValue *winners;

      numbers = rlx_build_shaped (b, numbers, updates.shape, updates.n_dims);
      places.data_type = RLX_DATA_TYPE_I32;
      winners = change_places (b, node, rlx_build_filled (b, &places, 0.0), numbers, RLX_SCATTER_MODE_REPLACE);
      winners = rlx_build_equal (b, read_places (b, node, winners), numbers);
      rlx_gradient_add (self, node, 2, rlx_build_where (b, winners, read_places (b, node, g), rlx_build_number (b, g, 0.0)));
    }
}

/* The product of all factors but one: zeros are left out if it is the only zero, or if there is
 * none. */
static void
mul_gradient (RlxGradient     *self,
              const RlxIrNode *node,
              RlxIrValue      *g)
{
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *x = node->inputs[0], *updates = node->inputs[2];

  if (rlx_gradient_wants (self, node, 0))
    rlx_gradient_add (self, node, 0, change_places (b, node, g, updates, RLX_SCATTER_MODE_MUL));
  if (rlx_gradient_wants (self, node, 2))
    {
      RlxIrValue *zero = rlx_build_number (b, g, 0.0), *one = rlx_build_number (b, g, 1.0);
      RlxIrValue *is_zero = rlx_build_equal (b, updates, zero);
      RlxIrValue *factors = rlx_build_where (b, is_zero, one, updates);
      RlxIrValue *product = read_places (b, node, change_places (b, node, x, factors, RLX_SCATTER_MODE_MUL));
      RlxIrValue *n_zeros = change_places (b, node, rlx_build_filled (b, &x->type, 0.0),
                                           rlx_build_as (b, is_zero, x->type.data_type), RLX_SCATTER_MODE_ADD);
      RlxIrValue *others;

      /* Zeros other than its own. */
      n_zeros = rlx_build_sub (b, read_places (b, node, n_zeros), rlx_build_as (b, is_zero, x->type.data_type));
      others = rlx_build_where (b, rlx_build_equal (b, n_zeros, zero), rlx_build_div (b, product, factors), zero);
      rlx_gradient_add (self, node, 2, rlx_build_mul (b, read_places (b, node, g), others));
    }
}

/* Those that are equal to the result share the gradient equally. */
static void
extreme_gradient (RlxGradient     *self,
                  const RlxIrNode *node,
                  RlxIrValue      *g)
{
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *x = node->inputs[0], *y = &node->outputs[0];
  RlxIrValue *kept = rlx_build_as (b, rlx_build_equal (b, x, y), x->type.data_type);
  RlxIrValue *won = rlx_build_as (b, rlx_build_equal (b, node->inputs[2], read_places (b, node, y)), x->type.data_type);

  g = rlx_build_div (b, g, change_places (b, node, kept, won, RLX_SCATTER_MODE_ADD));
  rlx_gradient_add (self, node, 0, rlx_build_mul (b, g, kept));
  if (rlx_gradient_wants (self, node, 2))
    rlx_gradient_add (self, node, 2, rlx_build_mul (b, read_places (b, node, g), won));
}

void
rlx_scatter_elements_gradient (RlxGradient     *self,
                               const RlxIrNode *node)
{
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *g = rlx_gradient_get (self, node, 0);

  switch (rlx_scatter_elements_attrs (node)->mode)
    {
    case RLX_SCATTER_MODE_ADD:
      rlx_gradient_add (self, node, 0, g);
      if (rlx_gradient_wants (self, node, 2))
        rlx_gradient_add (self, node, 2, read_places (b, node, g));
      break;
    case RLX_SCATTER_MODE_MUL:
      mul_gradient (self, node, g);
      break;
    case RLX_SCATTER_MODE_MAX:
    case RLX_SCATTER_MODE_MIN:
      extreme_gradient (self, node, g);
      break;
    case RLX_SCATTER_MODE_REPLACE:
    default:
      replace_gradient (self, node, g);
    }
}

void
rlx_scatter_nd_gradient (RlxGradient     *self,
                         const RlxIrNode *node)
{
  rlx_scatter_elements_gradient (self, node);
}

void
rlx_write_at_gradient (RlxGradient     *self,
                       const RlxIrNode *node)
{
  RlxBuilder *b = rlx_gradient_get_builder (self);
  const RlxWriteAtAttrs *attrs = rlx_write_at_attrs (node);
  RlxIrValue *g = rlx_gradient_get (self, node, 0), *position = node->inputs[RLX_WRITE_AT_POSITION];
  const RlxTensorType *value = &node->inputs[RLX_WRITE_AT_VALUE]->type;

  if (rlx_gradient_wants (self, node, 0))
    rlx_gradient_add (self, node, 0, rlx_build_write_at (b, g, rlx_build_filled (b, value, 0.0), position, attrs));
  if (rlx_gradient_wants (self, node, RLX_WRITE_AT_VALUE))
    {
      guint axis = rlx_type_get_axis (&node->inputs[0]->type, attrs->axis);
      gint64 length = value->shape[axis], last = node->inputs[0]->type.shape[axis] - length;
      RlxIrValue *at = rlx_build_as (b, rlx_build_shaped (b, position, NULL, 0), RLX_DATA_TYPE_I32);

      at = rlx_build_where (b, rlx_build_less (b, at, rlx_build_number (b, at, 0.0)),
                            rlx_build_add (b, at, rlx_build_as (b, rlx_build_constant (b, rlx_tensor_new_scalar (RLX_DATA_TYPE_I32, (double) last + 1, NULL)), RLX_DATA_TYPE_I32)), at);
      at = rlx_build_clamp (b, at, RLX_CLAMP_ATTRS (.minimum = 0, .maximum = (double) last));
      rlx_gradient_add (self, node, RLX_WRITE_AT_VALUE,
                        rlx_build_gather (b, g, rlx_build_add (b, rlx_build_iota (b, length), at), RLX_GATHER_ATTRS (.axis = axis)));
    }
}
