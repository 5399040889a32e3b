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
RLX_AVAILABLE_IN_1_0
G_DECLARE_FINAL_TYPE (RlxCalibration, rlx_calibration, RLX, CALIBRATION, GObject)

#define RLX_TYPE_CALIBRATION_KERNEL (rlx_calibration_kernel_get_type ())
RLX_AVAILABLE_IN_1_0
G_DECLARE_FINAL_TYPE (RlxCalibrationKernel, rlx_calibration_kernel, RLX, CALIBRATION_KERNEL, GObject)

RLX_AVAILABLE_IN_1_0
double       rlx_calibration_get_flops           (RlxCalibration       *self);
RLX_AVAILABLE_IN_1_0
double       rlx_calibration_get_flops_f16       (RlxCalibration       *self);
RLX_AVAILABLE_IN_1_0
double       rlx_calibration_get_bandwidth       (RlxCalibration       *self);
RLX_AVAILABLE_IN_1_0
double       rlx_calibration_get_transfer_rate   (RlxCalibration       *self);
RLX_AVAILABLE_IN_1_0
double       rlx_calibration_get_dispatch_time   (RlxCalibration       *self);
RLX_AVAILABLE_IN_1_0
double       rlx_calibration_get_round_trip_time (RlxCalibration       *self);
RLX_AVAILABLE_IN_1_0
double       rlx_calibration_get_spread          (RlxCalibration       *self);

RLX_AVAILABLE_IN_1_0
const char * rlx_calibration_kernel_get_family   (RlxCalibrationKernel *self);
RLX_AVAILABLE_IN_1_0
const char * rlx_calibration_kernel_get_name     (RlxCalibrationKernel *self);
RLX_AVAILABLE_IN_1_0
double       rlx_calibration_kernel_get_time     (RlxCalibrationKernel *self);
RLX_AVAILABLE_IN_1_0
double       rlx_calibration_kernel_get_flops    (RlxCalibrationKernel *self);
RLX_AVAILABLE_IN_1_0
gboolean     rlx_calibration_kernel_get_wrong    (RlxCalibrationKernel *self);

G_END_DECLS
