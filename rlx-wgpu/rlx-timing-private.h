/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * How long kernels and runs take, by the clock of the host: not every device has a
 * clock, and some are coarse. Kernels are timed many of the same in a row, less the
 * time that no kernel takes.
 *
 * Nobody can tell a busy machine from a slow one by a single time. What is timed
 * several times tells: the times lie far apart, or what is to be subtracted is as
 * long as the whole. Both are tried again, and the first is told.
 */
#pragma once

#include "rlx-device-private.h"

G_BEGIN_DECLS

typedef struct
{
  RlxGpu *gpu;
  GCancellable *cancellable;
  gboolean strict;         /* try again, and fail where that is no help */
  gint64 late;             /* when to take no more samples */
  double empty;            /* seconds of a job without kernels */
  double spread;           /* the widest of what was timed */
} RlxTiming;

/* Times the job without kernels, too. */
gboolean rlx_timing_init            (RlxTiming    *self,
                                     RlxDevice    *device,
                                     gboolean      strict,
                                     GCancellable *cancellable,
                                     GError      **error);
/* Lets the driver compile what it compiles when it is first used. */
gboolean rlx_timing_warm_up         (RlxTiming     *self,
                                     RlxExecutable *executable,
                                     GError       **error);
/* The seconds that each of @executables, some of which may be NULL, takes for its
 * kernels. No more samples are begun after @enough seconds, but each gets one. */
gboolean rlx_timing_time_kernels    (RlxTiming            *self,
                                     RlxExecutable *const *executables,
                                     guint                 n_executables,
                                     double                enough,
                                     double               *seconds,
                                     GError              **error);
/* The seconds of a whole run. */
gboolean rlx_timing_time_runs       (RlxTiming     *self,
                                     RlxExecutable *executable,
                                     RlxTensor     *input,
                                     guint          n_runs,
                                     double        *seconds,
                                     GError       **error);

/* What a run takes longer than its kernels, and these. */
gboolean rlx_timing_time_transfer   (RlxTiming     *self,
                                     RlxExecutable *executable,
                                     RlxTensor     *input,
                                     guint          n_runs,
                                     double        *seconds,
                                     double        *kernels,
                                     GError       **error);

/* What is left of @whole. FALSE when that is so little of it that it could be
 * anything; *@rest is the most that can be said then. */
gboolean rlx_timing_subtract        (double  whole,
                                     double  overhead,
                                     double *rest);
/* Sorts @values, and gives the one that stands for all. *@spread: how much longer
 * the one in the middle is, as a factor. */
double   rlx_timing_get_low         (double *values,
                                     guint   n_values,
                                     double *spread);

/* For tests only: the seconds that so many dispatches take, alone or as a whole run
 * with its transfers. NULL: the clock tells. */
typedef double (*RlxTimingModel) (guint    n_dispatches,
                                  gboolean is_run);
void     rlx_timing_set_test_model  (RlxTimingModel model);

G_END_DECLS
