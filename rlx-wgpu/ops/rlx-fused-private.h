/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A fused region: element-wise operators that run as one generated kernel. The compiler turns
 * every element-wise node into a `fused` node, alone or with others.
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
  gint64 strides[RLX_MAX_DIMS];
} RlxOperand;

/* One operator of a region. An argument >= 0 is an earlier instruction; a negative one is operand -1 - argument. */
typedef struct
{
  const RlxOp *op;
  gpointer attrs;                 /* owned */
  RlxDataType type;               /* of the result */
  RlxDataType operand_type;       /* of the last argument: picks the expression */
  int args[RLX_FUSED_MAX_ARGS];
  guint n_args;
} RlxInstruction;

/* Payload of a fused node; its shape is that of the node's output.
 *
 * A region with several results or several groups of operands updates states: result r of group g is output g ·
 * n_results + r of the node, has the shape of that group's operands, and is assigned to a state. All groups have the
 * same number of inputs, in the same order; operands count those of the first group. */
typedef struct
{
  GArray *operands;       /* RlxOperand */
  GArray *instructions;   /* RlxInstruction; the last one is the result */
  GArray *results;        /* guint, instructions: of a node that updates states, or else NULL */
  guint n_groups;
} RlxFused;

/* Payload of a node of another operator that has absorbed its only user, a region: each element passes through it
 * before it is stored. The region's inputs follow the node's own, and its operands count from the very first. */
typedef struct
{
  RlxFused *fused;
  guint n_own_inputs;
  guint result;           /* the operand that is the node's own result */
} RlxEpilogue;

void        rlx_epilogue_free     (gpointer epilogue);
/* The number of inputs that the operator itself reads. */
guint       rlx_ir_node_n_own_inputs (const RlxIrNode *node);
/* Defines EPILOGUE (0 or 1) and EPILOGUE_TEXT, which has the function epilogue (i: u32,
 * result: f32) -> T for element i of the node's output, and EPILOGUE_USES, the
 * functions of common/math.wgsl that it calls. A kernel may use some of these itself,
 * and they must not be defined twice, so it says #use ${EPILOGUE_USES}. */
void        rlx_kernel_epilogue   (RlxKernel       *kernel,
                                   const RlxIrNode *node);

RlxFused *  rlx_fused_new    (void);
void        rlx_fused_free   (gpointer fused);
/* Whether an operand steps through @type element after element. */
gboolean    rlx_operand_is_plain (const RlxOperand *operand, const RlxTensorType *type);
/* Whether a region reads one element of its input @input, of type @type, whatever it computes. */
gboolean    rlx_fused_reads_one  (const RlxFused *self, guint input, const RlxTensorType *type);

/* The only dispatch of a region with one group of operands. If there are several results, @results has the values
 * whose memory they are written to, which may also be read. */
gboolean    rlx_fused_dispatch   (RlxLower                *lower,
                                  const RlxIrNode         *node,
                                  const RlxFused          *fused,
                                  const RlxIrValue *const *results,
                                  GError                 **error);
/* rlx-update.c: the dispatches of a region that updates states. */
gboolean    rlx_update_lower     (RlxLower        *lower,
                                  const RlxIrNode *node,
                                  GError         **error);

/* A kernel with generated text instead of a file; takes ownership of the text. */
RlxKernel * rlx_kernel_new_generated (RlxLower        *lower,
                                      const RlxIrNode *node,
                                      const char      *kernel,
                                      char            *body);

G_END_DECLS
