/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "gpu/rlx-gpu-private.h"
#include "rlx-calibration.h"

G_BEGIN_DECLS

/* The rate of the fastest product that is right; 0 when there is none. */
double                rlx_speeds_get_best         (const RlxSpeeds *speeds);
/* What no device can do, for people; NULL when all is possible. */
char *                rlx_speeds_find_problem     (const RlxSpeeds *speeds);

RlxCalibration *      rlx_calibration_new         (const RlxSpeeds *speeds);
const RlxSpeeds *     rlx_calibration_get_speeds  (RlxCalibration *self);

/* As a file. Reading gives NULL for anything that could not have been measured. */
GBytes *              rlx_calibration_to_bytes    (RlxCalibration *self);
RlxCalibration *      rlx_calibration_from_bytes  (GBytes *bytes);

/* What is stored for an adapter; storing may fail, and then the next process
 * knows nothing. */
#define RLX_CALIBRATION_NOTES "calibration"
RlxCalibration *      rlx_calibration_load        (const RlxGpuAdapterInfo *info);
gboolean              rlx_calibration_store       (RlxCalibration          *self,
                                                   const RlxGpuAdapterInfo *info);

/* For tests only: one sample of each time will do, and these families, as bits. That of
 * products must be among them. */
void                  rlx_calibrate_set_test      (gboolean quick,
                                                   guint32  families);

G_END_DECLS
