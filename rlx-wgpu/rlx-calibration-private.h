/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "gpu/rlx-gpu-private.h"
#include "rlx-calibration.h"

G_BEGIN_DECLS

/* What an adapter of the type may reach, to within a factor of ten. */
void                  rlx_figures_guess           (RlxGpuFigures *figures,
                                                   RlxAdapterType type);
/* The fastest of the right ways, by its rate; 0 when there is none. */
double                rlx_figures_get_best        (const RlxGpuFigures *figures);
const char *          rlx_gpu_product_get_name    (RlxGpuProduct product);

RlxCalibration *      rlx_calibration_new         (const RlxGpuFigures *figures);
const RlxGpuFigures * rlx_calibration_get_figures (RlxCalibration *self);

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

G_END_DECLS
