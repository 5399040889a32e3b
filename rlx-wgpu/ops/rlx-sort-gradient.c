/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Gradients of operators that sort, and of cumulative ones.
 */
#include "config.h"

#include "ops/rlx-gradient-private.h"

/* Scatters the elements of @g to the places that their indices name, all of which differ. */
static void
send_back (RlxGradient     *self,
           const RlxIrNode *node,
           RlxIrValue      *indices,
           gint64           axis)
{
  RlxBuilder *b = rlx_gradient_get_builder (self);

  rlx_gradient_add (self, node, 0,
                    rlx_build_scatter_elements (b, rlx_build_filled (b, &node->inputs[0]->type, 0.0), indices,
                                                rlx_gradient_get (self, node, 0), RLX_SCATTER_ELEMENTS_ATTRS (.axis = axis)));
}

void
rlx_sort_gradient (RlxGradient     *self,
                   const RlxIrNode *node)
{
  const RlxSortAttrs *attrs = rlx_sort_attrs (node);

  send_back (self, node, rlx_build_arg_sort (rlx_gradient_get_builder (self), node->inputs[0],
                                             RLX_ARG_SORT_ATTRS (.axis = attrs->axis, .descending = attrs->descending)),
             attrs->axis);
}

void
rlx_top_k_gradient (RlxGradient     *self,
                    const RlxIrNode *node)
{
  if (rlx_gradient_get (self, node, 0) != NULL)
    send_back (self, node, (RlxIrValue *) &node->outputs[1], rlx_top_k_attrs (node)->axis);
}

/* ---- cumulative operators ---------------------------------------------------------------- */

/* The axis is the last one. Element i of the operand is a factor of all products from i on; row i of a matrix has
 * these without it. */
static RlxIrValue *
multiply_others (RlxBuilder         *b,
                 RlxIrValue         *x,
                 RlxIrValue         *g,
                 const RlxScanAttrs *attrs,
                 gint64              n)
{
  gint64 rows = n > 0 ? (gint64) rlx_type_n_elements (&x->type) / n : 0;
  RlxTensorType square = { .data_type = RLX_DATA_TYPE_BOOL, .n_dims = 2, .shape = { n, n } };
  RlxIrValue *own = rlx_build_filled (b, &square, 1.0), *others;
  gint64 diagonal = attrs->exclusive ? 1 : 0;

  own = rlx_build_triangular (b, rlx_build_triangular (b, own, NULL), RLX_TRIANGULAR_ATTRS (.upper = FALSE));
  x = rlx_build_shaped (b, x, (gint64[]) { rows, 1, n }, 3);
  g = rlx_build_shaped (b, g, (gint64[]) { rows, 1, n }, 3);
  others = rlx_build_where (b, own, rlx_build_number (b, x, 1.0), x);
  others = rlx_build_cumprod (b, others, RLX_CUMPROD_ATTRS (.axis = 2, .exclusive = attrs->exclusive, .reverse = attrs->reverse));
  others = rlx_build_triangular (b, rlx_build_mul (b, others, g),
                                 RLX_TRIANGULAR_ATTRS (.upper = !attrs->reverse, .diagonal = attrs->reverse ? -diagonal : diagonal));
  return rlx_build_sum_along (b, others, 2);
}

/* The last place up to each element at which the running extreme occurred, as in PyTorch. */
static RlxIrValue *
follow_extreme (RlxBuilder      *b,
                const RlxIrNode *node,
                RlxIrValue      *g,
                guint            axis)
{
  const RlxScanAttrs *attrs = rlx_scan_attrs (node);
  RlxIrValue *x = node->inputs[0], *y, *places;
  gint64 n = x->type.shape[axis], along = axis, shape[RLX_MAX_DIMS];
  RlxInts axes = RLX_INTS (&along, 1);

  /* A reverse scan is a forward scan from the other end. */
  if (attrs->reverse)
    {
      x = rlx_build_reverse (b, x, RLX_REVERSE_ATTRS (.axes = axes));
      g = rlx_build_reverse (b, g, RLX_REVERSE_ATTRS (.axes = axes));
    }
  /* An exclusive scan is the inclusive one of the element before. */
  if (attrs->exclusive)
    {
      gint64 before[RLX_MAX_DIMS] = { 0 }, after[RLX_MAX_DIMS] = { 0 };

      before[axis] = -1;
      after[axis] = 1;
      g = rlx_build_pad (b, g, NULL, RLX_PAD_ATTRS (.before = RLX_INTS (before, x->type.n_dims), .after = RLX_INTS (after, x->type.n_dims)));
    }
  y = node->op->id == RLX_OP_ID_CUMMAX ? rlx_build_cummax (b, x, RLX_CUMMAX_ATTRS (.axis = axis))
                                       : rlx_build_cummin (b, x, RLX_CUMMIN_ATTRS (.axis = axis));
  for (guint i = 0; i < node->inputs[0]->type.n_dims; i++)
    shape[i] = i == axis ? n : 1;
  places = rlx_build_shaped (b, rlx_build_iota (b, n), shape, node->inputs[0]->type.n_dims);
  places = rlx_build_where (b, rlx_build_equal (b, x, y), places, rlx_build_number (b, places, 0.0));
  places = rlx_build_cummax (b, places, RLX_CUMMAX_ATTRS (.axis = axis));
  g = rlx_build_scatter_elements (b, rlx_build_filled (b, &node->inputs[0]->type, 0.0), places, g,
                                  RLX_SCATTER_ELEMENTS_ATTRS (.axis = axis, .mode = RLX_SCATTER_MODE_ADD));
  return attrs->reverse ? rlx_build_reverse (b, g, RLX_REVERSE_ATTRS (.axes = axes)) : g;
}

void
rlx_scan_gradient (RlxGradient     *self,
                   const RlxIrNode *node)
{
  const RlxScanAttrs *attrs = rlx_scan_attrs (node);
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *x = node->inputs[0], *g = rlx_gradient_get (self, node, 0);
  guint axis = rlx_type_get_axis (&x->type, attrs->axis), last = x->type.n_dims - 1;

  if (rlx_type_n_elements (&x->type) == 0)
    g = rlx_build_filled (b, &x->type, 0.0);
  else if (node->op->id == RLX_OP_ID_CUMSUM)
    g = rlx_build_cumsum (b, g, RLX_CUMSUM_ATTRS (.axis = attrs->axis, .exclusive = attrs->exclusive, .reverse = !attrs->reverse));
  else if (node->op->id == RLX_OP_ID_CUMPROD)
    {
      RlxIrValue *moved = rlx_build_swapped (b, x, axis, last);

      g = multiply_others (b, moved, rlx_build_swapped (b, g, axis, last), attrs, x->type.shape[axis]);
      if (moved != NULL)
        g = rlx_build_swapped (b, rlx_build_shaped (b, g, moved->type.shape, moved->type.n_dims), axis, last);
    }
  else
    g = follow_extreme (b, node, g, axis);
  rlx_gradient_add (self, node, 0, g);
}
