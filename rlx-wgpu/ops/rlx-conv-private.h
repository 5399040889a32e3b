/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "ops/rlx-window-private.h"

G_BEGIN_DECLS

/* A convolution, or one that is transposed. */
typedef struct
{
  gboolean transposed;
  RlxWindow window;
  gint64 groups;
  gboolean shared;       /* the only channel of the operand, by all groups */
  gint64 channels_in;    /* of a group */
  gint64 channels_out;   /* of a group */
  guint out_axis;        /* of the filter */
  guint in_axis;
  guint first_axis;      /* the first spatial one */
} RlxConv;

/* From the operand, the filter and the attributes of either operator. */
gboolean rlx_conv_read (RlxConv         *conv,
                        const RlxOpCall *call,
                        gboolean         transposed,
                        GError         **error);

/* A convolution that has elements, where it is done as a product of matrices: *@done says
 * whether it is. */
gboolean rlx_conv_lower_tiles (RlxLower        *lower,
                               const RlxIrNode *node,
                               const RlxConv   *conv,
                               gboolean        *done,
                               GError         **error);

G_END_DECLS
