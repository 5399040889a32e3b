/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "gpu/rlx-gpu-private.h"
#include "rlx-calibration.h"

G_BEGIN_DECLS

/* The rate of the fastest correct product; 0 if there is none. */
double                rlx_speeds_get_best         (const RlxSpeeds *speeds);
/* Describes a value that no device can reach; NULL if all are possible. */
char *                rlx_speeds_find_problem     (const RlxSpeeds *speeds);

RlxCalibration *      rlx_calibration_new         (const RlxSpeeds *speeds);
const RlxSpeeds *     rlx_calibration_get_speeds  (RlxCalibration *self);

/* As a file. Reading returns NULL for values that cannot have been measured. */
GBytes *              rlx_calibration_to_bytes    (RlxCalibration *self);
RlxCalibration *      rlx_calibration_from_bytes  (GBytes *bytes);

/* The stored calibration of an adapter. Storing may fail; the next process then finds
 * none. */
#define RLX_CALIBRATION_NOTES "calibration"
RlxCalibration *      rlx_calibration_load        (const RlxGpuAdapterInfo *info);
gboolean              rlx_calibration_store       (RlxCalibration          *self,
                                                   const RlxGpuAdapterInfo *info);

/* For tests only: take one sample of each time, and only measure these families, as
 * bits, which must include products. */
void                  rlx_calibrate_set_test      (gboolean quick,
                                                   guint32  families);

G_END_DECLS
