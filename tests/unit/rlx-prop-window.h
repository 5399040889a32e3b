/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What calls of convolutions have in common, quantised or not.
 */
#pragma once

#include "rlx-prop-calls.h"

G_BEGIN_DECLS

#define WINDOW_AXES 3

typedef struct
{
  gsize n_axes;
  gboolean last;             /* channels */
  gint64 in[WINDOW_AXES];
  gint64 window[WINDOW_AXES];
  gint64 stride[WINDOW_AXES];
  gint64 dilation[WINDOW_AXES];
  gint64 padding[2 * WINDOW_AXES];
} Moves;

typedef struct
{
  gint64 batch;
  gint64 groups;
  gint64 in;         /* channels per group */
  gint64 out;
  Moves moves;
} ConvSizes;

#define PLAIN { 1, 1, 1 }

/* Sizes that exercise different paths of the kernel. */
#define N_CONV_EDGES 13
extern const ConvSizes conv_edges[N_CONV_EDGES];

gint64 moves_reach (const Moves *moves, gsize axis);
void random_moves (Call *call, gsize n_axes, Moves *moves);
void set_moves (Call *call, const Moves *moves);
void image_shape (const Moves *moves, gint64 batch, gint64 channels, gint64 *shape);
void add_filter (Call *call, PropKind kind, const Moves *moves, gint64 out, gint64 in);

G_END_DECLS
