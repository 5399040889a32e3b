/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Reverse-mode differentiation. Gradients are ordinary nodes that are added to the same
 * graph, so they can be differentiated again, fused and printed like any others.
 *
 * The row of an operator in the table gives its rule (`gradient`, see generate.py):
 * expressions, if it is element-wise; the gradient of what it expands to; or a function
 * next to its lowering,
 *
 *   void
 *   rlx_NAME_gradient (RlxGradient *self, const RlxIrNode *node)
 *   {
 *     RlxBuilder *b = rlx_gradient_get_builder (self);
 *     RlxIrValue *g = rlx_gradient_get (self, node, 0);
 *
 *     if (rlx_gradient_wants (self, node, RLX_NAME_FILTER))
 *       rlx_gradient_add (self, node, RLX_NAME_FILTER, rlx_build_…(b, g, …));
 *   }
 *
 * It is called for a node that the loss depends on, and that depends on something whose
 * gradient was requested, as soon as all contributions to the gradients of its results are
 * there. Users of a value contribute in the reverse order of their creation, so that sums
 * have the same bits every time. Errors are those of the builder.
 */
#pragma once

#include "ops/rlx-builder-private.h"

G_BEGIN_DECLS

RlxBuilder * rlx_gradient_get_builder (RlxGradient *self);

/* The gradient of a result; NULL if the loss does not depend on it. */
RlxIrValue * rlx_gradient_get         (RlxGradient     *self,
                                       const RlxIrNode *node,
                                       guint            output);
/* The same; zeros if there is none. */
RlxIrValue * rlx_gradient_get_or_zeros (RlxGradient     *self,
                                        const RlxIrNode *node,
                                        guint            output);
/* Whether the gradient of an operand is needed; FALSE if the operand is absent. */
gboolean     rlx_gradient_wants       (RlxGradient     *self,
                                       const RlxIrNode *node,
                                       guint            input);
/* Adds a contribution to it, with the operand's shape or one that it broadcasts to, over
 * which it is summed; converted to the operand's type. NULL, the result of a failure, adds
 * nothing. */
void         rlx_gradient_add         (RlxGradient     *self,
                                       const RlxIrNode *node,
                                       guint            input,
                                       RlxIrValue      *gradient);

/* Takes what was contributed to it so far, for a rule that adds it to its own contribution in one go; NULL if there
 * is nothing, or if the gradient is not needed. */
RlxIrValue * rlx_gradient_take        (RlxGradient     *self,
                                       const RlxIrNode *node,
                                       guint            input);

/* Lets the gradients of the node's results flow through @results instead: nodes that
 * compute the same (NULL if there is none) and were created since the rule was entered.
 * For operators composed of others. */
void         rlx_gradient_through     (RlxGradient       *self,
                                       const RlxIrNode   *node,
                                       RlxIrValue *const *results,
                                       guint              n_results);

/* For a rule that does not support some operand or attribute: an error that names the node,
 * its path to the loss, and @why, a clause. */
void         rlx_gradient_refuse      (RlxGradient     *self,
                                       const RlxIrNode *node,
                                       const char      *why);

/* ---- building blocks of rules ------------------------------------------------------- */

/* A number of the data type of @like, without dimensions. */
RlxIrValue * rlx_build_number         (RlxBuilder       *b,
                                       const RlxIrValue *like,
                                       double            number);
/* @number in every element. */
RlxIrValue * rlx_build_filled         (RlxBuilder          *b,
                                       const RlxTensorType *type,
                                       double               number);
/* The sum over the axes along which @x is longer than @shape, which broadcasts to it. */
RlxIrValue * rlx_build_sum_to         (RlxBuilder          *b,
                                       RlxIrValue          *x,
                                       const RlxTensorType *shape);
/* 0, 1, … n - 1, as i32. */
RlxIrValue * rlx_build_iota           (RlxBuilder          *b,
                                       gint64               n);
/* The sum over one axis, which stays with size 1. */
RlxIrValue * rlx_build_sum_along      (RlxBuilder          *b,
                                       RlxIrValue          *x,
                                       gint64               axis);
/* With two axes swapped. */
RlxIrValue * rlx_build_swapped        (RlxBuilder          *b,
                                       RlxIrValue          *x,
                                       guint                axis1,
                                       guint                axis2);
/* From @start up to @end along one axis. */
RlxIrValue * rlx_build_part           (RlxBuilder          *b,
                                       RlxIrValue          *x,
                                       gint64               axis,
                                       gint64               start,
                                       gint64               end);
/* A reshape, unless it has that shape. */
RlxIrValue * rlx_build_shaped         (RlxBuilder          *b,
                                       RlxIrValue          *x,
                                       const gint64        *shape,
                                       guint                n_dims);

/* ---- the whole graph ---------------------------------------------------------------- */

/* A loss: the sum over all elements of value · seed. */
typedef struct
{
  RlxIrValue *value;
  RlxIrValue *seed;       /* NULL: 1, for a value of one element */
} RlxLoss;

/* Adds the gradients of the sum of @losses with respect to @values to @ir and stores
 * them in @gradients. If the losses do not depend on one of @values, that is an error,
 * or the gradient is zero if @allow_unused. With @recompute the values that rules need
 * are recomputed, segment by segment, instead of kept. On failure @ir does not change. */
gboolean     rlx_ir_add_gradients     (RlxIr             *ir,
                                       const RlxLoss     *losses,
                                       guint              n_losses,
                                       RlxIrValue *const *values,
                                       guint              n_values,
                                       gboolean           allow_unused,
                                       gboolean           recompute,
                                       RlxIrValue       **gradients,
                                       GError           **error);

/* Where to cut the first @n_nodes nodes, of which those that are @reached matter, so that the values crossing the
 * cuts and those within one segment together take little memory. NULL if that saves nothing. */
guint *      rlx_gradient_find_cuts   (const RlxIr       *ir,
                                       const gboolean    *reached,
                                       guint              n_nodes,
                                       guint             *n_cuts);

G_END_DECLS
