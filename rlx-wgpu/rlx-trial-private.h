/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * One operator, computed by each variant of its family, to find those that are wrong on a
 * device and to time the others. Calibration, tuning and the probe of matrix units are
 * made of trials.
 */
#pragma once

#include "rlx-device-private.h"

G_BEGIN_DECLS

typedef struct
{
  RlxDevice *device;
  RlxTarget target;          /* the target; its tuning is the trial's */
  GCancellable *cancellable; /* borrowed; nullable */
  RlxIr *ir;                 /* the operator, with numbers for weights */
  GPtrArray *inputs;         /* RlxTensor: whole numbers */
  gboolean reduced;          /* precision */

  const RlxVariants *table;
  char *key;                 /* the problem */
  RlxVerdict verdicts[RLX_MAX_VARIANTS];   /* if the device chooses */

  RlxExecutable *executables[RLX_MAX_VARIANTS];   /* by row; NULL if the variant is wrong or was not tried */
  guint32 wrong;             /* rows that gave a wrong result, or none */
} RlxTrial;

void     rlx_trial_clear (RlxTrial *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (RlxTrial, rlx_trial_clear)

/* The problem of @table that a sample leads to; of several, the one with the most
 * variants. If there is none on this target, self->key stays NULL. */
gboolean rlx_trial_init_for_sample (RlxTrial          *self,
                                    RlxDevice         *device,
                                    const RlxTarget   *target,
                                    const RlxVariants *table,
                                    const RlxSample   *sample,
                                    GCancellable      *cancellable,
                                    GError           **error);
/* The problem of a choice in a plan. */
gboolean rlx_trial_init_for_choice (RlxTrial          *self,
                                    RlxDevice         *device,
                                    const RlxTarget   *target,
                                    const RlxChoice   *choice,
                                    RlxPrecision       precision,
                                    GCancellable      *cancellable,
                                    GError           **error);

/* Computes it with the @rows that fit, as bits. A result is right if it agrees with
 * @expected or, if that is NULL, with most others. FALSE is an error of the device or a
 * cancellation, not a wrong result. */
gboolean rlx_trial_run   (RlxTrial  *self,
                          guint32    rows,
                          RlxTensor *expected,
                          GError   **error);

/* The product of the two operands of a matmul, computed on the host. Its sums must be
 * whole numbers below 2²⁴. */
RlxTensor *rlx_trial_multiply (RlxTrial *self,
                               GError  **error);

/* For tests: from now on these rows of a family appear to give wrong results. */
void     rlx_trial_set_test      (RlxFamily family,
                                  guint32   wrong);

G_END_DECLS
