/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "rlx-graph.h"
#include "rlx-node.h"
#include "ir/rlx-op-private.h"

G_BEGIN_DECLS

/* A copy of the graph's IR for the compiler, so that the graph may change while it
 * works. NULL and the first error of the graph's construction if there was one. */
RlxIr *      rlx_graph_copy_ir   (RlxGraph *self,
                                  GError  **error);
/* The IR itself, for tests: nobody may add to the graph meanwhile. */
const RlxIr *rlx_graph_peek_ir   (RlxGraph *self,
                                  GError  **error);
/* What the text form says. */
void         rlx_graph_set_default_precision (RlxGraph    *self,
                                              RlxPrecision precision);
/* The node of a value of the graph's own IR. With the mutex. */
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
                                  gpointer      attrs,
                                  GError      **error);
RlxNode **   rlx_graph_call_many (RlxGraph     *graph,
                                  const RlxOp  *op,
                                  RlxNode     **inputs,
                                  gsize         n_inputs,
                                  gpointer      attrs,
                                  gsize        *n_outputs,
                                  GError      **error);

/* ir/rlx-ir-text.c: adds what the text says to an empty graph, by the same
 * functions a program calls. On failure the graph is good for nothing. */
gboolean     rlx_graph_read_text (RlxGraph   *self,
                                  const char *text,
                                  GError    **error);

/* rlx-node.c */
/* Of the graph alone: it keeps the graph from when somebody else takes a reference to
 * when all of these are gone. */
RlxNode *    rlx_node_new        (RlxGraph   *graph,
                                  RlxIrValue *value);
RlxIrValue * rlx_node_get_value  (RlxNode *self);   /* NULL when it has no graph */
/* What never changes of it, so that no lock is needed: for nodes of other graphs. */
char *       rlx_node_describe_fixed (RlxNode *self);

/* ---- among the files rlx-graph*.c --------------------------------------------- */

struct _RlxGraph
{
  GObject parent_instance;

  GMutex mutex;              /* of all that follows; never with another graph's */
  RlxIr *ir;
  GPtrArray *nodes;          /* RlxNode, by the id of the value */
  GHashTable *leaf_names;    /* char * (of the IR) → RlxNode */
  GHashTable *output_names;  /* char * → RlxNode */
  GHashTable *assigned;      /* RlxIrValue, those of states that have a new value */
  GArray *result_types;      /* for rlx_op_infer(), kept to save allocations */
  GPtrArray *old_labels;     /* whoever asked for one may be reading it still */
  GError *error;             /* the first one */
  guint n_told;              /* nodes that watchers know of */
  gboolean telling;
};

/* For what adds to a graph: the lock tells watchers when it is given back.
 *   g_autoptr(RlxGraphLock) lock = rlx_graph_lock (self); */
typedef struct _RlxGraph RlxGraphLock;
RlxGraphLock *rlx_graph_lock      (RlxGraph      *self);
void     rlx_graph_unlock         (RlxGraphLock  *lock);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (RlxGraphLock, rlx_graph_unlock)

/* All from here on are called with the mutex. */

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

/* Makes the nodes of what was appended to the IR. */
void     rlx_graph_add_nodes      (RlxGraph      *self,
                                   RlxIrNode     *ir_node);

G_END_DECLS
