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

/* Runs all passes, in the order of this file. */
RlxIr *     rlx_run_passes    (const RlxIr     *ir,
                               const RlxTarget *target,
                               GError         **error);

/* A pass returns a new graph, or NULL without an error to leave the graph as it is. */
typedef RlxIr *(*RlxPassFunc) (const RlxIr     *ir,
                               const RlxTarget *target,
                               GError         **error);

/* Adds a report on each value. NULL unless the graph is surveyed. */
RlxIr *     rlx_pass_survey   (const RlxIr     *ir,
                               const RlxTarget *target,
                               GError         **error);

/* Adds reports on indices that are clamped and on integers that wrap. NULL unless the
 * graph is checked. */
RlxIr *     rlx_pass_check    (const RlxIr     *ir,
                               const RlxTarget *target,
                               GError         **error);
/* Whether it checks nodes of this operator. */
gboolean    rlx_op_has_check  (const RlxOp     *op);

/* Expands operators that are composed of others. */
RlxIr *     rlx_pass_expand   (const RlxIr     *ir,
                               const RlxTarget *target,
                               GError         **error);

/* Removes nodes that no output needs, nodes that have no effect, and duplicates. All
 * inputs, parameters and states stay. */
RlxIr *     rlx_pass_simplify (const RlxIr     *ir,
                               const RlxTarget *target,
                               GError         **error);

/* Computes with the integers that quantised floats represent, if that gives the same
 * result. NULL if there are none. */
RlxIr *     rlx_pass_qdq      (const RlxIr     *ir,
                               const RlxTarget *target,
                               GError         **error);

/* Recognises arithmetic that spells out operators: norms, scaled products. */
RlxIr *     rlx_pass_compose  (const RlxIr     *ir,
                               const RlxTarget *target,
                               GError         **error);

/* Replaces several operators by one that they spell out. */
RlxIr *     rlx_pass_recognise (const RlxIr     *ir,
                                const RlxTarget *target,
                                GError         **error);

/* Splits the results of products whose columns go to several nodes. */
RlxIr *     rlx_pass_split    (const RlxIr     *ir,
                               const RlxTarget *target,
                               GError         **error);

/* Joins nodes in the pattern of a transformer's layer. */
RlxIr *     rlx_pass_join     (const RlxIr     *ir,
                               const RlxTarget *target,
                               GError         **error);

/* Joins rotary positions and writing rows into caches. */
RlxIr *     rlx_pass_rotate   (const RlxIr     *ir,
                               const RlxTarget *target,
                               GError         **error);

/* Joins element-wise nodes into `fused` nodes as large as the rules allow. */
RlxIr *     rlx_pass_fuse     (const RlxIr     *ir,
                               const RlxTarget *target,
                               GError         **error);

/* Joins `fused` nodes that update states in the same way, in a fused graph that nobody else uses. */
void        rlx_ir_join_updates (RlxIr           *ir,
                                 const RlxTarget *target);

/* By node id: whether a node only depends on constants and parameters, so that the
 * prologue can compute it once. */
gboolean *  rlx_ir_find_constant_nodes (const RlxIr *ir);

/* By node id: whether an output, an assignment or a leaf with a name needs it. */
gboolean *  rlx_ir_find_live_nodes     (const RlxIr *ir);

/* ---- rlx-rewrite.c: shared by all passes --------------------------------------- */

/* The context of a pass: the graph that it reads, the one that it builds, and facts about them. */
typedef struct
{
  const RlxIr *ir;
  const RlxTarget *target;
  RlxIr *out;
  gboolean *live;          /* by node id: whether anything needs it */
  GArray **users;          /* by value id: the ids of the live nodes that read it, with repetitions; NULL if there are
                              none */
  gboolean *pinned;        /* by value id: whether it is an output or assigned to a state */
  RlxIrValue **map;        /* by value id: its replacement in @out */
} RlxRewrite;

void        rlx_rewrite_init           (RlxRewrite      *self,
                                        const RlxIr     *ir,
                                        const RlxTarget *target);
void        rlx_rewrite_clear          (RlxRewrite *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (RlxRewrite, rlx_rewrite_clear)
/* Copies outputs and assignments, and returns the new graph. */
RlxIr *     rlx_rewrite_end            (RlxRewrite *self);
/* Copies a node as it is. */
RlxIrNode * rlx_rewrite_copy           (RlxRewrite      *self,
                                        const RlxIrNode *node);
/* The only user of a value, or NULL if there are several or the value is an output. */
const RlxIrNode *rlx_rewrite_get_only_user (const RlxRewrite *self,
                                            const RlxIrValue *value);

/* ---- parts of passes ------------------------------------------------------------ */

/* Replaces arithmetic that ends with this node by rope. */
gboolean    rlx_compose_rope           (RlxRewrite      *self,
                                        const RlxIrNode *node);

/* Copies a node to @out. @map has, by value id, the replacement of each value. */
RlxIrNode * rlx_ir_copy_node           (RlxIr           *out,
                                        const RlxIrNode *node,
                                        RlxIrValue     **map);
/* Whether a node with four dimensions only swaps the two in the middle, heads and
 * sequence. */
gboolean    rlx_ir_node_swaps_middle      (const RlxIrNode *node);
/* Whether a node is the product of rows with a weight, with a bias for each column or
 * none, as qkv_linear is. */
gboolean    rlx_ir_node_is_projection     (const RlxIrNode *node);
/* The attributes of a linear, or the equivalent ones of a matmul. */
RlxLinearAttrs rlx_ir_node_as_linear   (const RlxIrNode *node);
/* The bias of a linear; NULL if there is none, as for a matmul. */
RlxIrValue *rlx_ir_node_get_bias       (const RlxIrNode *node);
/* Skips reshapes that have no effect. */
const RlxIrValue *rlx_value_skip_reshapes (const RlxIrValue *value);
/* Copies outputs and assignments, at the end. */
void        rlx_ir_copy_results        (RlxIr             *out,
                                        const RlxIr       *ir,
                                        RlxIrValue *const *map);

G_END_DECLS
