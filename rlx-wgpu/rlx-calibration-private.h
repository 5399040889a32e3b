/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "gpu/rlx-gpu-private.h"
#include "rlx-calibration.h"

G_BEGIN_DECLS

/* The fastest of the right ways, by its rate; 0 when there is none. */
double                rlx_speeds_get_best        (const RlxSpeeds *speeds);
/* What no device can do, for people; NULL when all is possible. */
char *                rlx_speeds_find_problem     (const RlxSpeeds *speeds);

RlxCalibration *      rlx_calibration_new         (const RlxSpeeds *speeds);
const RlxSpeeds * rlx_calibration_get_speeds (RlxCalibration *self);

/* As a file. Reading gives NULL for anything that could not have been measured. */
GBytes *              rlx_calibration_to_bytes    (RlxCalibration *self);
RlxCalibration *      rlx_calibration_from_bytes  (GBytes *bytes);

/* What is stored for an adapter; storing may fail, and then the next process
 * knows nothing. */
#define RLX_CALIBRATION_NOTES "calibration"
RlxCalibration *      rlx_calibration_load        (const RlxGpuAdapterInfo *info);
gboolean              rlx_calibration_store       (RlxCalibration          *self,
                                                   const RlxGpuAdapterInfo *info);

/* For tests only: from now on these ways, as bits, seem to compute nonsense, and
 * small matrices and one sample of each time will do. */
void                  rlx_calibrate_set_test      (guint32  wrong,
                                                   gboolean quick);

gboolean              rlx_calibrate_seems_wrong   (RlxProductVariant way);

/* rlx-calibrate.c, for rlx-tune.c: whole numbers in [-@most, @most], a tensor of
 * them, and the seconds that each of @executables, some of which may be NULL, takes
 * for its kernels. */
int *                 rlx_calibrate_make_numbers  (gsize n,
                                                   guint most,
                                                   guint seed);
RlxTensor *           rlx_calibrate_make_tensor   (RlxDataType   type,
                                                   const gint64 *shape,
                                                   gsize         n_dims,
                                                   const int    *numbers,
                                                   GError      **error);
gboolean              rlx_calibrate_time          (RlxDevice            *device,
                                                   RlxExecutable *const *executables,
                                                   guint                 n_executables,
                                                   double                enough,
                                                   double               *seconds,
                                                   GCancellable         *cancellable,
                                                   GError              **error);

G_END_DECLS
