/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A fused region: element-wise operators that run as one generated kernel. The
 * compiler makes a `fused` node for every element-wise node, alone or grouped.
 */
#pragma once

#include "ops/rlx-kernel-private.h"

G_BEGIN_DECLS

#define RLX_FUSED_MAX_ARGS 3

/* How a region reads one of its node's inputs: element offset + Σ index[d] ·
 * strides[d] over the region's shape. */
typedef struct
{
  guint input;
  gint64 offset;
  gint64 strides[RLX_MAX_RANK];
} RlxOperand;

/* One operator of a region. An argument >= 0 is an earlier instruction, below
 * zero it is operand -1 - argument. */
typedef struct
{
  const RlxOp *op;
  RlxAttrValue *attrs;            /* owned */
  RlxDataType type;               /* of the result */
  RlxDataType operand_type;       /* of the last argument: picks the expression */
  int args[RLX_FUSED_MAX_ARGS];
  guint n_args;
} RlxInstruction;

/* Payload of a fused node; its shape is that of the node's output. */
typedef struct
{
  GArray *operands;       /* RlxOperand */
  GArray *instructions;   /* RlxInstruction; the last one is the result */
} RlxFused;

extern const RlxOp rlx_op_fused;

RlxFused *  rlx_fused_new    (void);
void        rlx_fused_free   (gpointer fused);

/* A kernel whose text is generated (taken over) instead of a file. */
RlxKernel * rlx_kernel_new_generated (RlxLower        *lower,
                                      const RlxIrNode *node,
                                      const char      *kernel,
                                      char            *body);

G_END_DECLS
