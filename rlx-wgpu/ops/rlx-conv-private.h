/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "ops/rlx-window-private.h"

G_BEGIN_DECLS

/* A convolution or a transposed one. */
typedef struct
{
  gboolean transposed;
  RlxWindow window;
  gint64 groups;
  gboolean shared;       /* the operand's only channel is used by all groups */
  gint64 channels_in;    /* per group */
  gint64 channels_out;   /* per group */
  guint out_axis;        /* of the filter */
  guint in_axis;
  guint first_axis;      /* the first spatial one */
} RlxConv;

/* Reads the operand, the filter and the attributes of any of these operators. */
gboolean rlx_conv_read (RlxConv            *conv,
                        const RlxOpCall    *call,
                        const RlxConvAttrs *attrs,
                        GError            **error);

/* rlx-conv-tile.c: the objections to a convolution as a matrix product: that it is
 * impossible, or slow. Neither is set if there are none. */
void     rlx_conv_check_product (const RlxConv   *conv,
                                 const RlxTarget *target,
                                 const char     **cannot,
                                 const char     **poorly);
/* Adds the steps of the product. */
gboolean rlx_conv_lower_product (RlxLower        *lower,
                                 const RlxIrNode *node,
                                 const RlxConv   *conv,
                                 GError         **error);

G_END_DECLS
