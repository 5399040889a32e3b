/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The product of two matrices, for every operator that is made of one.
 */
#pragma once

#include "ops/rlx-fused-private.h"

G_BEGIN_DECLS

/* Dimensions from the innermost to the outermost, with the distance between
 * elements in up to two tensors. */
typedef struct
{
  guint rank;
  guint64 dims[RLX_MAX_RANK];
  guint64 strides[2][RLX_MAX_RANK];
} RlxProductLoop;

/* y[batch, m, n] = alpha · Σₖ a[batch, m, k] · b[batch, k, n] + beta · bias, and
 * what the node has as an epilogue. The distances between elements tell how the
 * operands lie. */
typedef struct
{
  const RlxIrValue *a;
  const RlxIrValue *b;
  const RlxIrValue *bias;   /* nullable */
  const RlxIrValue *y[3];   /* one, or three that share the columns; then without batch and epilogue */
  guint64 widths[2];        /* columns of the first two of three */
  guint64 m, n, k;          /* k may be 0 */
  guint64 a_m, a_k;
  guint64 b_k, b_n;
  RlxProductLoop batch;     /* a, b */
  RlxProductLoop rows;      /* of the bias */
  guint64 bias_n;
  double alpha;
  double beta;
} RlxProduct;

/* Adds a dimension outside of those there are, or widens the outermost one when
 * both are one run in either tensor. */
void     rlx_product_loop_add (RlxProductLoop *loop,
                               guint64         dim,
                               guint64         stride0,
                               guint64         stride1);

/* The result must have elements. */
gboolean rlx_lower_product    (RlxLower         *lower,
                               const RlxIrNode  *node,
                               const RlxProduct *product,
                               GError          **error);

G_END_DECLS
