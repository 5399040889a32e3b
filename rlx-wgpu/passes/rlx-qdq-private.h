/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What the two halves of the pass over quantised graphs share: rlx-qdq.c walks,
 * moves and compares integers, rlx-qdq-product.c multiplies them.
 */
#pragma once

#include "passes/rlx-passes-private.h"

#include "ops/rlx-builder-private.h"

G_BEGIN_DECLS

/* The integers in the new graph that represent a float value of the old one: (integers
 * - zero) · scale. */
typedef struct
{
  RlxIrValue *value;        /* NULL: there are none */
  double scale;
  gint64 zero;
  /* All that is known: quantised with scale and zero, the floats are these integers. */
  gboolean levels_only;
} RlxQuantized;

typedef struct
{
  RlxRewrite *base;
  RlxBuilder b;             /* of the new graph, for the current node */
  RlxQuantized *quantized;  /* by value id */
  gboolean *done;           /* by node id: it is part of a node in the new graph */
  GHashTable *last;         /* new value with channels first → the same with channels last */
  GHashTable *levels;       /* new value of integers → RlxQuantized, them as floats without a zero point */
} RlxQdq;

/* The value of a constant, possibly reshaped; or NULL. */
RlxTensor *    rlx_qdq_get_constant   (const RlxIrValue *value);
/* Scale and zero point of a quantize_linear or dequantize_linear, if they are known,
 * scalar, and such that no product or quotient can overflow or vanish. */
gboolean       rlx_qdq_get_levels     (const RlxIrNode *node,
                                       double          *scale,
                                       gint64          *zero);
/* As above, for scales of 32-bit floats. */
gboolean       rlx_qdq_is_scale       (double           scale,
                                       RlxDataType      data_type);
/* Integers without their zero point, as floats. */
RlxIrValue *   rlx_qdq_build_levels   (RlxQdq          *self,
                                       RlxIrValue      *value,
                                       gint64           zero);
/* The level of @number; FALSE if the device might round to the next one. */
gboolean       rlx_qdq_get_level      (double           number,
                                       double           scale,
                                       gint64           zero,
                                       RlxDataType      data_type,
                                       gint64          *level);
/* Turns a conv, matmul or linear, and what follows up to a quantize_linear, into an
 * integer kernel. FALSE if it stays as it is, or nothing can be built. */
gboolean       rlx_qdq_multiply       (RlxQdq          *self,
                                       const RlxIrNode *node);

G_END_DECLS
