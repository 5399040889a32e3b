/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Models that give their past back, longer by what is new.
 */
#pragma once

#include "import/rlx-import-private.h"

G_BEGIN_DECLS

/* The input of a graph for any number of rows that gives the number of rows before a run. */
#define RLX_GROW_ROWS "(rows)"

/* The rows of a third import: few, but enough to avoid sizes of 1, which would broadcast. */
#define RLX_GROW_FEW_ROWS 2

/* An input that takes the value of an output of the previous run. */
typedef struct
{
  const char *input;
  const char *output;
  gboolean grows;      /* the output is the input with new rows appended… */
  guint axis;          /* …along this axis… */
  gint64 n_new;        /* …by this number of rows */
} RlxGrowState;

typedef struct
{
  RlxImportSource *source;
  GHashTable *types;       /* current types of all inputs, by name: RlxTensorType */
  GHashTable *fixed;       /* inputs that are known, by name: RlxTensor */
  RlxGrowState *states;
  guint n_states;
  gint64 n_rows;           /* at present */
  gint64 n_new;            /* added by a run */
  gint64 capacity;         /* capacity in rows */
  GHashTable *longer;      /* other inputs that grow with the rows, by name: their axis + 1; filled in */
} RlxGrow;

/* Examines the model with the current sizes: which states grow, and by how much. FALSE
 * with an error if they grow differently; having none is not an error. */
gboolean   rlx_grow_find   (RlxGrow      *self,
                            RlxGraph     *graph,
                            GError      **error);
/* Whether a node concatenates an input and something else; sets *@axis. */
gboolean   rlx_grow_is_growth   (const RlxIrNode *node,
                                 const char      *input,
                                 guint           *axis);
/* Adds inputs to @self that have a dynamic dimension of the size of all rows together; FALSE if there are no more of them. */
gboolean   rlx_grow_find_longer (RlxGrow *self);
/* The graph of the model for any number of rows. States that grow are states of the
 * graph, named after their inputs, and neither inputs nor outputs. */
RlxGraph * rlx_grow_build  (RlxGrow      *self,
                            GHashTable   *needed,
                            GCancellable *cancellable,
                            GError      **error);

G_END_DECLS
