/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What operators on quantised tensors have in common.
 */
#pragma once

#include "ops/rlx-index-private.h"

G_BEGIN_DECLS

/* The ends of the range of a quantised type. */
void     rlx_quantize_get_levels (RlxDataType  data_type,
                                  double      *lowest,
                                  double      *highest);
/* A step that converts floats @x to integers @y. */
gboolean rlx_quantize_step       (RlxLower         *lower,
                                  const RlxIrNode  *node,
                                  const RlxIrValue *x,
                                  const RlxIrValue *scale,
                                  const RlxIrValue *zero,
                                  const RlxIrValue *y,
                                  double            lowest,
                                  double            highest,
                                  GError          **error);

/* ---- sums of products (rlx-requantize.c) ------------------------------------ */

/* Four elements at a time are multiplied and added as i8: whether elements of u8 have
 * to be shifted by 128 for that, and what is to be subtracted afterwards. */
typedef struct
{
  const char *function;       /* of WGSL */
  gboolean flip_a, flip_b;
} RlxPackedDot;

void     rlx_packed_dot_init     (RlxPackedDot *dot,
                                  RlxDataType   a,
                                  RlxDataType   b);

/* Input @index, NULL if it is absent. */
const RlxIrValue *rlx_ir_node_get_input (const RlxIrNode *node,
                                         guint            index);
/* As rlx_ir_node_get_input(), but NULL also for a zero point known to be 0. */
const RlxIrValue *rlx_ir_node_get_zero  (const RlxIrNode *node,
                                      guint            index);

/* Operators that end with bias, scale, scale_y and zero_y, from input @first on,
 * and have the attributes to, minimum and maximum. @channels is the size that
 * bias and scale may have. */
gboolean rlx_requantize_check    (RlxOpCall   *call,
                                  guint        first,
                                  gint64       channels,
                                  RlxDataType  to,
                                  gint64       minimum,
                                  gint64       maximum,
                                  GError     **error);
/* Binds what common/requantize.wgsl needs, and y. If that is not yet the node's result,
 * @y is a temporary. */
void     rlx_requantize_describe (RlxKernel        *kernel,
                                  RlxLower         *lower,
                                  const RlxIrNode  *node,
                                  guint             first,
                                  const RlxIrValue **y);
/* The step after the kernel, if there is one. */
gboolean rlx_requantize_finish   (RlxLower         *lower,
                                  const RlxIrNode  *node,
                                  guint             first,
                                  const RlxIrValue *y,
                                  GError          **error);

G_END_DECLS
