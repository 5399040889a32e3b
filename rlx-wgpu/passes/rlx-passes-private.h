/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Graph to graph. A pass walks a graph in order and builds a new one: linear,
 * without recursion, and the old one stays as it was.
 */
#pragma once

#include "ops/rlx-shape-private.h"
#include "target/rlx-target-private.h"
#include "rlx-op-vocabulary-private.h"

G_BEGIN_DECLS

/* All passes, in the order in which they stand here. */
RlxIr *     rlx_run_passes    (const RlxIr     *ir,
                               const RlxTarget *target,
                               GError         **error);

/* A pass gives a new graph. NULL without an error leaves the graph as it is. */
typedef RlxIr *(*RlxPassFunc) (const RlxIr     *ir,
                               const RlxTarget *target,
                               GError         **error);

/* Adds a report of each value. NULL unless the graph is surveyed. */
RlxIr *     rlx_pass_survey   (const RlxIr     *ir,
                               const RlxTarget *target,
                               GError         **error);

/* Adds reports of indices that are limited and of integers that wrap. NULL unless the
 * graph is checked. */
RlxIr *     rlx_pass_check    (const RlxIr     *ir,
                               const RlxTarget *target,
                               GError         **error);
/* Whether it looks at nodes of this operator. */
gboolean    rlx_op_has_check  (const RlxOp     *op);

/* Puts others in place of operators that are made of them. */
RlxIr *     rlx_pass_expand   (const RlxIr     *ir,
                               const RlxTarget *target,
                               GError         **error);

/* Drops what no output needs, nodes that change nothing, and second copies of
 * equal nodes. Inputs, parameters and states all stay. */
RlxIr *     rlx_pass_simplify (const RlxIr     *ir,
                               const RlxTarget *target,
                               GError         **error);

/* Lets integers that floats stand for do the work, where that gives the same. NULL
 * when there are none. */
RlxIr *     rlx_pass_qdq      (const RlxIr     *ir,
                               const RlxTarget *target,
                               GError         **error);

/* Makes operators of arithmetic that spells them out: norms, scaled products. */
RlxIr *     rlx_pass_compose  (const RlxIr     *ir,
                               const RlxTarget *target,
                               GError         **error);

/* Puts one operator in place of several that spell it out. */
RlxIr *     rlx_pass_recognise (const RlxIr     *ir,
                                const RlxTarget *target,
                                GError         **error);

/* Splits the results of products whose columns go to several nodes. */
RlxIr *     rlx_pass_split    (const RlxIr     *ir,
                               const RlxTarget *target,
                               GError         **error);

/* Makes one node of several in what a transformer's layer is made of. */
RlxIr *     rlx_pass_join     (const RlxIr     *ir,
                               const RlxTarget *target,
                               GError         **error);

/* Makes one node of rotary positions and the writing of rows into caches. */
RlxIr *     rlx_pass_rotate   (const RlxIr     *ir,
                               const RlxTarget *target,
                               GError         **error);

/* Makes `fused` nodes of all element-wise nodes, as large as the rules allow. */
RlxIr *     rlx_pass_fuse     (const RlxIr     *ir,
                               const RlxTarget *target,
                               GError         **error);

/* Makes one `fused` node of those that change states in the same way, in a graph that is fused and nobody else's. */
void        rlx_ir_join_updates (RlxIr           *ir,
                                 const RlxTarget *target);

/* By node id: whether a node depends on constants and parameters alone, so
 * that the prologue can compute it once. */
gboolean *  rlx_ir_find_constant_nodes (const RlxIr *ir);

/* By node id: whether an output, an assignment or a leaf with a name needs it. */
gboolean *  rlx_ir_find_live_nodes     (const RlxIr *ir);

/* ---- rlx-rewrite.c: what every pass does --------------------------------------- */

/* What a pass works with: the graph that it reads, the one that it makes, and what it knows of them. */
typedef struct
{
  const RlxIr *ir;
  const RlxTarget *target;
  RlxIr *out;
  gboolean *live;          /* by node id: whether anything needs it */
  GArray **users;          /* by value id: the ids of the live nodes that read it, once for each time; NULL for none */
  gboolean *pinned;        /* by value id: whether it is an output or assigned to a state */
  RlxIrValue **map;        /* by value id: what stands for it in @out */
} RlxRewrite;

void        rlx_rewrite_init           (RlxRewrite      *self,
                                        const RlxIr     *ir,
                                        const RlxTarget *target);
void        rlx_rewrite_clear          (RlxRewrite *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (RlxRewrite, rlx_rewrite_clear)
/* Copies outputs and assignments, and gives the new graph away. */
RlxIr *     rlx_rewrite_end            (RlxRewrite *self);
/* Copies a node as it is. */
RlxIrNode * rlx_rewrite_copy           (RlxRewrite      *self,
                                        const RlxIrNode *node);
/* The node that alone reads a value which nothing else needs, or NULL. */
const RlxIrNode *rlx_rewrite_get_only_user (const RlxRewrite *self,
                                            const RlxIrValue *value);

/* ---- parts of passes ------------------------------------------------------------ */

/* Puts rope in place of arithmetic that ends with this node. */
gboolean    rlx_compose_rope           (RlxRewrite      *self,
                                        const RlxIrNode *node);

/* Copies a node to @out. @map has, by value id, what stands for a value there. */
RlxIrNode * rlx_ir_copy_node           (RlxIr           *out,
                                        const RlxIrNode *node,
                                        RlxIrValue     **map);
/* Whether a node of four dimensions exchanges the two in the middle, heads and
 * sequence, and does nothing else. */
gboolean    rlx_ir_node_swaps_middle      (const RlxIrNode *node);
/* Whether a node is the product of rows with a weight, with a bias for each column or
 * none, as qkv_linear is. */
gboolean    rlx_ir_node_is_projection     (const RlxIrNode *node);
/* The attributes of a linear; those of a matmul as a linear would have them. */
RlxLinearAttrs rlx_ir_node_as_linear   (const RlxIrNode *node);
/* The bias of a linear; NULL when there is none, as for a matmul. */
RlxIrValue *rlx_ir_node_get_bias       (const RlxIrNode *node);
/* What a value is without reshapes that come to nothing. */
const RlxIrValue *rlx_value_skip_reshapes (const RlxIrValue *value);
/* Copies outputs and assignments, at the end. */
void        rlx_ir_copy_results        (RlxIr             *out,
                                        const RlxIr       *ir,
                                        RlxIrValue *const *map);

G_END_DECLS
