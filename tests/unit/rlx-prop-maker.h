/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Random graphs of all operators of the table. The calls are those of
 * rlx-prop-calls.h; what makes graphs of them is that operands are results of
 * other calls, by way of views where shapes differ.
 *
 * Every node has its value as soon as it is there. Results that are known well are
 * taken up by others, so that bounds stay tight however long a graph is.
 */
#pragma once

#include "rlx-prop-calls.h"

G_BEGIN_DECLS

#define MAX_OUTPUTS 10

typedef struct
{
  GRand *rand;
  RlxGraph *graph;
  GPtrArray *pool;         /* RlxNode: possible operands */
  GHashTable *used;        /* RlxNode: those already used */
  GHashTable *values;      /* RlxNode → RlxReferenceValue, from the first run */
  GPtrArray *feeds[2];     /* RlxTensor, for the two runs */
  GPtrArray *names;        /* of parameters */
  GPtrArray *parameters;   /* RlxTensor */
  GPtrArray *states;       /* RlxNode */
  GHashTable *assigned;    /* RlxNode of a state → RlxNode */
  guint n_leaves;
  RlxReferenceFlags flags;
} Maker;

void maker_init (Maker *self, guint32 seed);
void maker_clear (Maker *self);
RlxReferenceValue *compute_value (Maker *self, GHashTable *values, RlxNode *node);
void make_graph (Maker *self);

G_END_DECLS
