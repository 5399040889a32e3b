/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What the rule, the lowering and the gradient of attention share, and attention whose operands and result do not all have
 * the same layout.
 */
#pragma once

#include "ops/rlx-kernel-private.h"

G_BEGIN_DECLS

/* Which of them have their heads and their sequence the other way round: the
 * attribute `swapped` of mixed_attention. */
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

/* Whether attention_backward has a kernel for the operands of @node, which is that or attention. */
gboolean rlx_attention_backward_fits (const RlxIrNode *node);

G_END_DECLS
