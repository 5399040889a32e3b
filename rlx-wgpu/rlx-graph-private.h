/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "rlx-graph.h"
#include "rlx-node.h"
#include "ir/rlx-op-private.h"

G_BEGIN_DECLS

/* A copy of the graph's IR for the compiler, so that the graph may change meanwhile.
 * NULL with the first error of the graph's construction, if there was one. */
RlxIr *      rlx_graph_copy_ir   (RlxGraph *self,
                                  GError  **error);
/* The IR itself, for tests: the graph must not change meanwhile. */
const RlxIr *rlx_graph_peek_ir   (RlxGraph *self,
                                  GError  **error);
/* The precision that the text form asks for. */
void         rlx_graph_set_default_precision (RlxGraph    *self,
                                              RlxPrecision precision);
/* The node of a value of the graph's own IR. With the mutex. */
RlxNode *    rlx_graph_get_node  (RlxGraph         *self,
                                  const RlxIrValue *value);

/* Adds a node; used by all operator methods. @graph may be NULL if there is at least
 * one input. If a required input is NULL, returns NULL without an error, since the
 * failure was reported where it happened. Always takes ownership of @attrs. */
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

/* ir/rlx-ir-text.c: builds the text's graph in an empty one, with the functions that
 * programs call. On failure the graph is useless. */
gboolean     rlx_graph_read_text (RlxGraph   *self,
                                  const char *text,
                                  GError    **error);

/* rlx-node.c */
/* For the graph only: a node keeps the graph alive as long as others hold references to
 * the node. */
RlxNode *    rlx_node_new        (RlxGraph   *graph,
                                  RlxIrValue *value);
RlxIrValue * rlx_node_get_value  (RlxNode *self);   /* NULL if it has no graph */
/* Immutable, so that no lock is needed: for nodes of other graphs. */
char *       rlx_node_describe_fixed (RlxNode *self);

/* ---- among the files rlx-graph*.c --------------------------------------------- */

struct _RlxGraph
{
  GObject parent_instance;

  GMutex mutex;              /* of everything below; never locked together with another graph's */
  RlxIr *ir;
  GPtrArray *nodes;          /* RlxNode, by the id of the value */
  GHashTable *leaf_names;    /* char * (of the IR) → RlxNode */
  GHashTable *output_names;  /* char * → RlxNode */
  GHashTable *assigned;      /* RlxIrValue: states that are assigned */
  GArray *result_types;      /* for rlx_op_infer(), kept to save allocations */
  GPtrArray *old_labels;     /* callers may still be reading them */
  GError *error;             /* the first one */
  guint n_told;              /* nodes that listeners have been told of */
  gboolean telling;
};

/* For functions that add to a graph: listeners are notified when the lock is released.
 *   g_autoptr(RlxGraphLock) lock = rlx_graph_lock (self); */
typedef struct _RlxGraph RlxGraphLock;
RlxGraphLock *rlx_graph_lock      (RlxGraph      *self);
void     rlx_graph_unlock         (RlxGraphLock  *lock);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (RlxGraphLock, rlx_graph_unlock)

/* Everything below is called with the mutex held. */

/* Takes ownership of @failure. The graph may be NULL. */
void     rlx_graph_fail           (RlxGraph      *self,
                                   GError        *failure,
                                   GError       **error);
void     rlx_graph_fail_printf    (RlxGraph      *self,
                                   GError       **error,
                                   RlxGraphError  code,
                                   const char    *format,
                                   ...) G_GNUC_PRINTF (4, 5);
/* NULL is not reported to the caller, as it is the result of a failure that was; the
 * graph remembers it in case that failure was not reported. */
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

/* Creates nodes for everything that was appended to the IR. */
void     rlx_graph_add_nodes      (RlxGraph      *self,
                                   RlxIrNode     *ir_node);

G_END_DECLS
