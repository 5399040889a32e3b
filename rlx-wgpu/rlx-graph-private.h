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

/* ---- among the files rlx-graph*.c --------------------------------------------- */

struct _RlxGraph
{
  GObject parent_instance;

  RlxIr *ir;
  GPtrArray *nodes;          /* RlxNode, by the id of the value */
  GHashTable *leaf_names;    /* char * (of the IR) → RlxNode */
  GHashTable *output_names;  /* char * → RlxNode */
  GHashTable *assigned;      /* RlxIrValue, those of states that have a new value */
  GArray *result_types;      /* for rlx_op_infer(), kept to save allocations */
  GError *error;             /* the first one */
  gboolean frozen;
};

/* Takes @failure. The graph may be NULL. */
void     rlx_graph_fail           (RlxGraph      *self,
                                   GError        *failure,
                                   GError       **error);
void     rlx_graph_fail_printf    (RlxGraph      *self,
                                   GError       **error,
                                   RlxGraphError  code,
                                   const char    *format,
                                   ...) G_GNUC_PRINTF (4, 5);
/* A NULL is not reported to the caller: it is the result of a failure that was.
 * It is remembered in case there was none. */
void     rlx_graph_note_null      (RlxGraph      *self,
                                   const char    *what,
                                   const char    *name);

/* Each fails on behalf of @what. */
gboolean rlx_graph_check_editable (RlxGraph      *self,
                                   const char    *what,
                                   GError       **error);
/* @taken is leaf_names or output_names. */
gboolean rlx_graph_check_name     (RlxGraph      *self,
                                   const char    *what,
                                   const char    *name,
                                   GHashTable    *taken,
                                   GError       **error);
gboolean rlx_graph_check_owner    (RlxGraph      *self,
                                   const char    *what,
                                   const char    *operand,
                                   RlxNode       *node,
                                   GError       **error);
gboolean rlx_graph_check_room     (RlxGraph      *self,
                                   const char    *what,
                                   guint          n_values,
                                   GError       **error);

/* Makes the nodes of what was appended to the IR, and tells who watches. */
void     rlx_graph_add_nodes      (RlxGraph      *self,
                                   RlxIrNode     *ir_node);

G_END_DECLS
