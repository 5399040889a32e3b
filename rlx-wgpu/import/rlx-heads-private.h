/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What the mappings of attention have in common: nodes in short form, and queries,
 * keys and values as heads.
 */
#pragma once

#include "import/rlx-map-private.h"

/* ---- nodes ------------------------------------------------------------------------ */

/* These return NULL for NULL, so that calls can be nested. */

RlxNode *rlx_heads_op1 (RlxMapCall *call, const char *op, RlxNode *a, GVariant *attrs, GError **error);
RlxNode *rlx_heads_op2 (RlxMapCall *call,
              const char *op,
              RlxNode *a,
              RlxNode *b,
              GVariant *attrs,
              GError **error);
RlxNode *rlx_heads_reshape4 (RlxMapCall *call,
                   RlxNode *node,
                   gint64 a,
                   gint64 b,
                   gint64 c,
                   gint64 d,
                   GError **error);
/* From [batch, sequence, heads, width] to [batch, heads, sequence, width], and back. */
RlxNode *rlx_heads_swap_heads (RlxMapCall *call, RlxNode *node, GError **error);
RlxNode *rlx_heads_slice (RlxMapCall *call,
                RlxNode *node,
                gint64 axis,
                gint64 start,
                gint64 end,
                GError **error);
RlxNode *rlx_heads_join (RlxMapCall *call, RlxNode *a, RlxNode *b, gint64 axis, GError **error);
gint64 rlx_heads_get_dim (RlxNode *node, gint64 axis);
RlxNode *rlx_heads_constant_ints (RlxMapCall *call,
                        const gint32 *values,
                        const gint64 *shape,
                        gsize n_dims,
                        GError **error);
/* 0, 1, 2, … */
RlxNode *rlx_heads_constant_range (RlxMapCall *call, gint64 n, GError **error);
RlxNode *rlx_heads_constant_scalar (RlxMapCall *call, RlxDataType data_type, double value, GError **error);
/* The mask to add to the scores: 0 where @shown, @value elsewhere. */
RlxNode *rlx_heads_make_bias (RlxMapCall *call,
                    RlxNode *shown,
                    RlxDataType data_type,
                    double value,
                    GError **error);

/* ---- attention ------------------------------------------------------------------------ */

/* All of [batch, heads, sequence, width]. */
typedef struct
{
  RlxNode *q, *k, *v;
  RlxNode *mask;       /* these three are nullable */
  RlxNode *lengths;
  RlxNode *sink;
  double scale;        /* 0: derived from the width */
  double softcap;
  gint64 window;
  gboolean causal;
} RlxHeads;

RlxNode *rlx_heads_attend (RlxMapCall *call, const RlxHeads *heads, GError **error);
/* [batch, sequence, heads * width] into heads. */
RlxNode *rlx_heads_split_heads (RlxMapCall *call, RlxNode *node, gint64 n_heads, GError **error);
RlxNode *rlx_heads_merge_heads (RlxMapCall *call, RlxNode *node, GError **error);
/* Keys or values for each head of the query. */
RlxNode *rlx_heads_repeat_heads (RlxMapCall *call, RlxNode *node, gint64 n_heads, GError **error);
/* scale · q kᵀ */
RlxNode *rlx_heads_get_products (RlxMapCall *call, const RlxHeads *heads, GError **error);
RlxNode *rlx_heads_limit_scores (RlxMapCall *call, RlxNode *scores, double softcap, GError **error);
