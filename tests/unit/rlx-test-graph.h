/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What the tests of graphs and of their operators share: looks at errors and
 * types, and an operator that the table does not have.
 */
#pragma once

#include <rlx-wgpu/rlx-wgpu.h>

#include "rlx-graph-private.h"
#include "rlx-op-vocabulary-private.h"
#include "rlx-test-util.h"

#include <string.h>

#define SHAPE(...) \
  ((const gint64[]) { __VA_ARGS__ }), G_N_ELEMENTS (((const gint64[]) { __VA_ARGS__ }))

/* The error has the code, and its message contains all the substrings in @parts,
 * separated by "|". Clears the error. */
void assert_message (GError **error, int code, const char *parts);
/* The same for a graph's first error. */
void assert_sticky (RlxGraph *graph, int code, const char *parts);
void assert_sound (RlxGraph *graph);
void assert_type (RlxNode *node, const char *expected);

typedef struct
{
  gboolean flag;
  gint64 count;
  double factor;
  RlxAdapterType choice;
  RlxDataType type;
  RlxInts list, open;
} ManyAttrs;

/* An operator with an attribute of each kind and as many results as its "count" says; no
 * real operator is like that. */
extern const RlxOp many_op;
