/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Graph to graph. A pass walks a graph in order and builds a new one: linear,
 * without recursion, and the old one stays as it was.
 */
#pragma once

#include "gpu/rlx-gpu-private.h"
#include "ir/rlx-ir-private.h"

G_BEGIN_DECLS

/* All of them, in the order in which they stand here. */
RlxIr *     rlx_run_passes    (const RlxIr             *ir,
                               const RlxGpuAdapterInfo *adapter,
                               GError                 **error);

/* Puts others in place of operators that are made of them. */
RlxIr *     rlx_pass_expand   (const RlxIr *ir,
                               GError     **error);

/* Drops what no output needs, nodes that change nothing, and second copies of
 * equal nodes. Inputs, parameters and states all stay. */
RlxIr *     rlx_pass_simplify (const RlxIr *ir);

/* Lets integers that floats stand for do the work, where that gives the same. NULL
 * when there are none. */
RlxIr *     rlx_pass_qdq      (const RlxIr             *ir,
                               const RlxGpuAdapterInfo *adapter);

/* Puts one operator in place of several that spell it out. */
RlxIr *     rlx_pass_recognise (const RlxIr             *ir,
                                const RlxGpuAdapterInfo *adapter);

/* Lets products store the parts of their columns that others want by themselves. */
RlxIr *     rlx_pass_parts    (const RlxIr *ir);

/* Makes one node of several in what a transformer's layer is made of. */
RlxIr *     rlx_pass_join     (const RlxIr *ir);

/* Makes one node of rotary positions and the writing of rows into caches. */
RlxIr *     rlx_pass_rotate   (const RlxIr             *ir,
                               const RlxGpuAdapterInfo *adapter);

/* Makes `fused` nodes of all element-wise nodes, as large as the rules allow. */
RlxIr *     rlx_pass_fuse     (const RlxIr             *ir,
                               const RlxGpuAdapterInfo *adapter);

/* By node id: whether a node depends on constants and parameters alone, so
 * that the prologue can compute it once. */
gboolean *  rlx_ir_find_constant_nodes (const RlxIr *ir);

/* By node id: whether an output, an assignment or a leaf with a name needs it. */
gboolean *  rlx_ir_find_live_nodes     (const RlxIr *ir);

/* ---- rlx-rewrite.c: what every pass does --------------------------------------- */

/* By value id: the ids of the live nodes that read it, once for each time; NULL
 * for none. */
GArray **   rlx_ir_find_users          (const RlxIr    *ir,
                                        const gboolean *live);
void        rlx_ir_free_users          (const RlxIr *ir,
                                        GArray     **users);
/* By value id: whether it is an output or assigned to a state. */
gboolean *  rlx_ir_find_pinned_values  (const RlxIr *ir);
/* Copies a node to @out. @map has, by value id, what stands for a value there. */
RlxIrNode * rlx_ir_copy_node           (RlxIr           *out,
                                        const RlxIrNode *node,
                                        RlxIrValue     **map);
/* Whether a node is of the operator @op. */
gboolean    rlx_node_is                (const RlxIrNode *node,
                                        const char      *op);
/* Whether a node of four dimensions exchanges the two in the middle, heads and
 * sequence, and does nothing else. */
gboolean    rlx_node_swaps_middle      (const RlxIrNode *node);
/* Whether a node is the product of rows with a weight, with a bias for each column or
 * none, as qkv_linear is. */
gboolean    rlx_node_is_projection     (const RlxIrNode *node);
/* What a value is without reshapes that come to nothing. */
const RlxIrValue *rlx_value_skip_reshapes (const RlxIrValue *value);
/* Copies outputs and assignments, at the end. */
void        rlx_ir_copy_results        (RlxIr             *out,
                                        const RlxIr       *ir,
                                        RlxIrValue *const *map);

G_END_DECLS
