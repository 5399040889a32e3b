/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#if !defined(RLX_INSIDE) && !defined(RLX_COMPILATION)
#error "Only <rlx-wgpu/rlx-wgpu.h> can be included directly."
#endif

#include <rlx-wgpu/rlx-types.h>

G_BEGIN_DECLS

#define RLX_TYPE_CALIBRATION (rlx_calibration_get_type ())
RLX_API
G_DECLARE_FINAL_TYPE (RlxCalibration, rlx_calibration, RLX, CALIBRATION, GObject)

RLX_API
double     rlx_calibration_get_gflops          (RlxCalibration *self);
RLX_API
double     rlx_calibration_get_gflops_f16      (RlxCalibration *self);
RLX_API
double     rlx_calibration_get_bandwidth       (RlxCalibration *self);
RLX_API
double     rlx_calibration_get_transfer_rate   (RlxCalibration *self);
RLX_API
double     rlx_calibration_get_dispatch_time   (RlxCalibration *self);
RLX_API
double     rlx_calibration_get_round_trip_time (RlxCalibration *self);
RLX_API
GVariant * rlx_calibration_get_kernels         (RlxCalibration *self);
RLX_API
char **    rlx_calibration_get_wrong_kernels   (RlxCalibration *self);

G_END_DECLS
