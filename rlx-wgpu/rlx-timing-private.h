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
  gboolean strict;         /* try again, and fail if that does not help */
  gint64 late;             /* when to take no more samples */
  double empty;            /* seconds of a job without kernels */
  double spread;           /* the largest of all measurements */
} RlxTiming;

/* Also times the job without kernels. */
gboolean rlx_timing_init            (RlxTiming    *self,
                                     RlxDevice    *device,
                                     gboolean      strict,
                                     GCancellable *cancellable,
                                     GError      **error);
/* Makes the driver compile what it only compiles on first use. */
gboolean rlx_timing_warm_up         (RlxTiming     *self,
                                     RlxExecutable *executable,
                                     GError       **error);
/* The seconds that each of @executables, some of which may be NULL, spends in its
 * kernels. No more samples are started after @enough seconds, but each gets one. */
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

/* The overhead of a run over its kernels, and the time of the kernels. */
gboolean rlx_timing_time_transfer   (RlxTiming     *self,
                                     RlxExecutable *executable,
                                     RlxTensor     *input,
                                     guint          n_runs,
                                     double        *seconds,
                                     double        *kernels,
                                     GError       **error);

/* What remains of @whole. FALSE if that is too small a part to be meaningful; *@rest is
 * then its upper bound. */
gboolean rlx_timing_subtract        (double  whole,
                                     double  overhead,
                                     double *rest);
/* Sorts @values, and returns the representative one. *@spread is the median divided by
 * it. */
double   rlx_timing_get_low         (double *values,
                                     guint   n_values,
                                     double *spread);

/* For tests only: the seconds that so many dispatches take, alone or as a whole run
 * with its transfers. NULL: use the clock. */
typedef double (*RlxTimingModel) (guint    n_dispatches,
                                  gboolean is_run);
void     rlx_timing_set_test_model  (RlxTimingModel model);

G_END_DECLS
