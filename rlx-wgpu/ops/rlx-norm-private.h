/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Operators that compute a few numbers for each row (its mean and deviation, or its largest
 * element and the sum of exponentials) and then change all elements of the row with them.
 */
#pragma once

#include "ops/rlx-fused-private.h"

G_BEGIN_DECLS

typedef enum
{
  RLX_NORM_LAYER,        /* (x - mean) / √(variance + epsilon) */
  RLX_NORM_RMS,          /* x / √(mean x² + epsilon) */
  RLX_NORM_L1,           /* x / Σ|x| */
  RLX_NORM_L2,           /* x / √Σx² */
  RLX_NORM_SOFTMAX,
  RLX_NORM_LOG_SOFTMAX,
} RlxNormKind;

typedef enum
{
  RLX_NORM_OPERAND,
  RLX_NORM_RESIDUAL,     /* added to the operand first */
  RLX_NORM_ADDED,        /* added as well */
  RLX_NORM_SCALE,
  RLX_NORM_BIAS,
  RLX_NORM_N_INPUTS,
} RlxNormInput;

/* One axis may be split in two. */
#define RLX_NORM_MAX_DIMS (RLX_MAX_DIMS + 1)

typedef struct
{
  RlxNormKind kind;
  double epsilon;
  gboolean plus_one;                 /* the factor is 1 + scale */

  guint n_dims;
  gint64 shape[RLX_NORM_MAX_DIMS];
  gboolean along[RLX_NORM_MAX_DIMS]; /* columns run over this axis */

  const RlxIrValue *inputs[RLX_NORM_N_INPUTS];
  gint64 strides[RLX_NORM_N_INPUTS][RLX_NORM_MAX_DIMS];
  const RlxIrValue *result;
  const RlxIrValue *sum;             /* nullable: receives operand + residual + added */
} RlxNorm;

/* Over the axes in @mask of @operand. */
void     rlx_norm_init       (RlxNorm          *self,
                              RlxNormKind       kind,
                              const RlxIrValue *operand,
                              const RlxIrValue *result,
                              guint             mask);
/* Splits an axis into @outer and the rest of it. */
void     rlx_norm_split_axis (RlxNorm          *self,
                              guint             axis,
                              gint64            outer);
/* A tensor that broadcasts to the operand, whose axes are not split. */
void     rlx_norm_broadcast  (RlxNorm          *self,
                              RlxNormInput      input,
                              const RlxIrValue *value);

/* Adds the steps. There must be elements. */
gboolean rlx_norm_lower      (const RlxNorm    *self,
                              RlxLower         *lower,
                              const RlxIrNode  *node,
                              GError          **error);

G_END_DECLS
