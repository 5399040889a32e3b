/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What the rule, the lowering and the gradient of attention share, including attention whose operands and result do not
 * all have the same layout.
 */
#pragma once

#include "ops/rlx-kernel-private.h"

G_BEGIN_DECLS

/* Which operands have their heads and sequence swapped: the attribute `swapped` of
 * mixed_attention. */
enum
{
  RLX_ATTENTION_SWAPPED_QUERY = 1 << 0,
  RLX_ATTENTION_SWAPPED_KEY = 1 << 1,
  RLX_ATTENTION_SWAPPED_VALUE = 1 << 2,
  RLX_ATTENTION_SWAPPED_RESULT = 1 << 3,
  RLX_ATTENTION_SWAPPED_ALL = (1 << 4) - 1,
};

/* The dimensions of query, key, value and result, whatever the layout. */
typedef struct
{
  gint64 batch;
  gint64 heads;
  gint64 sequence;
  gint64 width;
} RlxHeads;

static inline RlxHeads
rlx_heads_get (const RlxTensorType *type,
               gint64               layout)
{
  gboolean first = layout == RLX_HEAD_LAYOUT_HEADS_FIRST;

  return (RlxHeads) {
    .batch = type->shape[0],
    .heads = type->shape[first ? 1 : 2],
    .sequence = type->shape[first ? 2 : 1],
    .width = type->shape[3],
  };
}

/* Attention, or its gradient, as it is lowered. */
typedef struct
{
  const RlxIrNode *node;
  const RlxIrValue *inputs[6];   /* NULL for operands that are left out */
  const RlxIrValue *y;
  RlxHeads q, k, v;
  gint64 layouts[4];             /* of query, key, value and result */
  guint64 share;                 /* heads of the query per head of the key */
  double scale;
  double softcap;
  guint64 window;                /* 0: none */
  gboolean causal;
  gboolean reduced;              /* less precision is enough */
  double flops;
  double bytes;
} RlxAttention;

/* @first_extra is the index of the mask among the operands; the other optional ones follow it. */
void     rlx_attention_init          (RlxAttention       *self,
                                      const RlxIrNode    *node,
                                      guint               first_extra);
/* Adds the strides of batches, heads and rows of an operand. */
void     rlx_attention_add_strides   (const RlxAttention *self,
                                      RlxKernel          *kernel,
                                      char                prefix,
                                      const RlxHeads     *heads);
void     rlx_attention_add_sink      (const RlxAttention *self,
                                      RlxKernel          *kernel);
/* Adds what computes the scores; see common/attention.wgsl. @width elements of queries and keys, and @value_width
 * of values, are loaded at a time. */
void     rlx_attention_add_scores    (const RlxAttention *self,
                                      RlxKernel          *kernel,
                                      guint               width,
                                      guint               value_width);

/* Whether attention_backward has a kernel for the operands of @node, an attention or an attention_backward. */
gboolean rlx_attention_backward_fits (const RlxIrNode *node);

G_END_DECLS
