/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Creates nodes for passes and expansions. There is a function for each operator,
 * rlx_build_NAME(), generated from the op table: it runs the operator's rule, so the type
 * of a result is never given by hand.
 *
 *   g_auto(RlxBuilder) b = RLX_BUILDER (ir, node);
 *   RlxIrValue *centred = rlx_build_sub (&b, x, mean);
 *   RlxIrValue *y = rlx_build_matmul (&b, centred, w, RLX_MATMUL_ATTRS (.transpose_b = TRUE));
 *
 * A builder remembers its first error. From then on it creates nothing, and all its
 * functions return NULL, so it is enough to check at the end.
 *
 * An operator that is composed of others has `expand` in its row, and a function
 *
 *   RlxIrValue *
 *   rlx_NAME_expand (RlxBuilder *b, const RlxIrNode *node, RlxIrValue *const *inputs)
 *
 * which returns the replacement of the node's only result, of the same type, or of the
 * first of several, all of which it puts into the builder's `results`. @inputs are those of
 * the node in the new graph, NULL for absent ones. NULL without an error of the builder
 * keeps the node. Otherwise it is replaced before the graph is simplified and fused, so
 * that its replacement benefits from both.
 */
#pragma once

#include "rlx-op-vocabulary-private.h"

G_BEGIN_DECLS

/* No operator that is expanded has more. */
#define RLX_EXPAND_RESULTS 3

struct _RlxBuilder
{
  RlxIr *ir;                   /* receives the nodes */
  guint origin;                /* their name in messages */
  GError *error;               /* the first */
  RlxIrValue *results[RLX_EXPAND_RESULTS]; /* of an expansion with several results */
};

/* Builds nodes that replace @node, or part of it. */
#define RLX_BUILDER(ir_, node) { .ir = (ir_), .origin = (node)->origin }

static inline void
rlx_builder_clear (RlxBuilder *b)
{
  g_clear_error (&b->error);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (RlxBuilder, rlx_builder_clear)

/* The implementation of all generated functions. Optional inputs at the end may be left
 * out; @attrs is copied, NULL for defaults. */
RlxIrNode *  rlx_builder_append     (RlxBuilder        *b,
                                     const RlxOp       *op,
                                     RlxIrValue *const *inputs,
                                     guint              n_inputs,
                                     gconstpointer      attrs);
/* The only result. */
RlxIrValue * rlx_builder_append_one (RlxBuilder        *b,
                                     const RlxOp       *op,
                                     RlxIrValue *const *inputs,
                                     guint              n_inputs,
                                     gconstpointer      attrs);
/* Takes ownership of @tensor; NULL means that creating it failed. */
RlxIrValue * rlx_build_constant     (RlxBuilder        *b,
                                     RlxTensor         *tensor);
/* A cast, unless it is of that type already. */
RlxIrValue * rlx_build_as           (RlxBuilder        *b,
                                     RlxIrValue        *x,
                                     RlxDataType        data_type);
/* The same node in f32: its f16 inputs are converted, and so is the result.
 * NULL when it has no f16 inputs. */
RlxIrValue * rlx_build_in_f32       (RlxBuilder        *b,
                                     const RlxIrNode   *node,
                                     RlxIrValue *const *inputs);

G_END_DECLS
