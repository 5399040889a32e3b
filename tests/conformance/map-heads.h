/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What the mappings of attention have in common: nodes in short form, and queries,
 * keys and values as heads.
 */
#pragma once

#include "map.h"

/* ---- nodes ------------------------------------------------------------------------ */

/* These give NULL for NULL, so that calls can be put into each other. */

RlxNode *op1 (MapCall *call, const char *op, RlxNode *a, GVariant *attrs, GError **error);
RlxNode *op2 (MapCall *call,
              const char *op,
              RlxNode *a,
              RlxNode *b,
              GVariant *attrs,
              GError **error);
RlxNode *reshape4 (MapCall *call,
                   RlxNode *node,
                   gint64 a,
                   gint64 b,
                   gint64 c,
                   gint64 d,
                   GError **error);
/* From [batch, sequence, heads, width] to [batch, heads, sequence, width], and back. */
RlxNode *swap_heads (MapCall *call, RlxNode *node, GError **error);
RlxNode *slice (MapCall *call,
                RlxNode *node,
                gint64 axis,
                gint64 start,
                gint64 end,
                GError **error);
RlxNode *join (MapCall *call, RlxNode *a, RlxNode *b, gint64 axis, GError **error);
gint64 get_dim (RlxNode *node, gint64 axis);
RlxNode *constant_ints (MapCall *call,
                        const gint32 *values,
                        const gint64 *shape,
                        gsize n_dims,
                        GError **error);
/* 0, 1, 2, … */
RlxNode *constant_range (MapCall *call, gint64 n, GError **error);
RlxNode *constant_scalar (MapCall *call, RlxDataType data_type, double value, GError **error);
/* What is added to the scores: 0 where @shown, @value elsewhere. */
RlxNode *make_bias (MapCall *call,
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
  double scale;        /* 0: by the width */
  double softcap;
  gint64 window;
  gboolean causal;
} Heads;

RlxNode *attend (MapCall *call, const Heads *heads, GError **error);
/* [batch, sequence, heads * width] into heads. */
RlxNode *split_heads (MapCall *call, RlxNode *node, gint64 n_heads, GError **error);
RlxNode *merge_heads (MapCall *call, RlxNode *node, GError **error);
/* Keys or values for each head of the query. */
RlxNode *repeat_heads (MapCall *call, RlxNode *node, gint64 n_heads, GError **error);
/* scale · q kᵀ */
RlxNode *get_products (MapCall *call, const Heads *heads, GError **error);
RlxNode *limit_scores (MapCall *call, RlxNode *scores, double softcap, GError **error);
