/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What the two halves of the pass over quantised graphs share: rlx-qdq.c walks,
 * moves and compares integers, rlx-qdq-product.c multiplies them.
 */
#pragma once

#include "passes/rlx-passes-private.h"

#include "ops/rlx-op-private.h"

G_BEGIN_DECLS

/* Integers in the new graph that a float value of the old one stands for:
 * (integers - zero) · scale. */
typedef struct
{
  RlxIrValue *value;        /* NULL: there are none */
  double scale;
  gint64 zero;
  /* Only this is known: quantised with scale and zero, the floats are these
   * integers. */
  gboolean levels_only;
} RlxQuantized;

typedef struct
{
  const RlxIr *ir;
  RlxIr *out;
  const RlxGpuAdapterInfo *adapter;
  gboolean *pinned;         /* by value id: an output or an assigned value */
  GArray **users;           /* by value id: ids of nodes that read it */
  RlxIrValue **map;         /* by value id: in the new graph */
  RlxQuantized *quantized;  /* by value id */
  gboolean *done;           /* by node id: it is part of a node in the new graph */
  GHashTable *last;         /* new value with channels first → the same with channels last */
} RlxQdq;

/* The value of a constant, also one that got another shape; or NULL. */
RlxTensor *    rlx_qdq_get_constant   (const RlxIrValue *value);
/* Scale and zero point of a quantize_linear or dequantize_linear, when they are
 * known, one for all, and such that no product or quotient of it can overflow
 * or vanish. */
gboolean       rlx_qdq_get_levels     (const RlxIrNode *node,
                                       double          *scale,
                                       gint64          *zero);
/* As above, for scales of 32-bit floats. */
gboolean       rlx_qdq_is_scale       (double           scale,
                                       RlxDataType      dtype);
/* The level of @number; FALSE when the device might round to the next one. */
gboolean       rlx_qdq_get_level      (double           number,
                                       double           scale,
                                       gint64           zero,
                                       RlxDataType      dtype,
                                       gint64          *level);
/* The only node that reads @value, or NULL. */
RlxIrNode *    rlx_qdq_get_user       (RlxQdq           *self,
                                       const RlxIrValue *value);
/* Takes @attrs over. Optional inputs at the end may be left out. */
RlxIrValue *   rlx_qdq_append         (RlxQdq              *self,
                                       const RlxIrNode     *origin,
                                       const char          *op,
                                       RlxAttrValue        *attrs,
                                       RlxIrValue *const   *inputs,
                                       guint                n_inputs,
                                       const RlxTensorType *type);
/* Takes @tensor over. */
RlxIrValue *   rlx_qdq_append_constant (RlxQdq          *self,
                                        const RlxIrNode *origin,
                                        RlxTensor       *tensor);
void           rlx_qdq_set_int        (RlxAttrValue *attrs,
                                       const char   *op,
                                       const char   *name,
                                       gint64        value);

/* Makes an integer kernel of a conv, matmul or linear, and of what follows up to
 * a quantize_linear. FALSE when it stays as it is. */
gboolean       rlx_qdq_multiply       (RlxQdq          *self,
                                       const RlxIrNode *node);

static inline gboolean
rlx_qdq_is (const RlxIrNode *node,
            const char      *op)
{
  return g_str_equal (node->op->name, op);
}

G_END_DECLS
