/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "rlx-graph.h"
#include "rlx-node.h"
#include "ops/rlx-op-private.h"

G_BEGIN_DECLS

/* The graph's IR, for the compiler: not to be changed. Freezes the graph: from
 * here on every edit fails with RLX_GRAPH_ERROR_BUSY. Returns NULL and the
 * first error of the graph's construction if there was one. */
const RlxIr *rlx_graph_freeze (RlxGraph *self,
                               GError  **error);

gboolean     rlx_graph_is_frozen (RlxGraph *self);
/* The node of a value of the graph's own IR. */
RlxNode *    rlx_graph_get_node  (RlxGraph         *self,
                                  const RlxIrValue *value);

/* Adds a node: the way of all operator methods. @graph may be NULL when there
 * is at least one input. A NULL among the inputs where the operator requires
 * one gives NULL without an error (the failure was reported where it
 * happened). Takes @attrs over in every case. */
RlxNode *    rlx_graph_call      (RlxGraph     *graph,
                                  const RlxOp  *op,
                                  RlxNode     **inputs,
                                  gsize         n_inputs,
                                  RlxAttrValue *attrs,
                                  GError      **error);
RlxNode **   rlx_graph_call_many (RlxGraph     *graph,
                                  const RlxOp  *op,
                                  RlxNode     **inputs,
                                  gsize         n_inputs,
                                  RlxAttrValue *attrs,
                                  gsize        *n_outputs,
                                  GError      **error);

/* ir/rlx-ir-text.c: adds what the text says to an empty graph, by the same
 * functions a program calls. On failure the graph is good for nothing. */
gboolean     rlx_graph_read_text (RlxGraph   *self,
                                  const char *text,
                                  GError    **error);

/* rlx-node.c */
RlxNode *    rlx_node_new        (RlxGraph   *graph,
                                  RlxIrValue *value);
RlxIrValue * rlx_node_get_value  (RlxNode *self);   /* NULL once the graph is gone */
/* Called when the graph goes away. */
void         rlx_node_detach     (RlxNode *self);

G_END_DECLS
