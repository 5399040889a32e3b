/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "gpu/rlx-gpu-private.h"
#include "plan/rlx-plan-private.h"
#include "rlx-compile-options-private.h"
#include "rlx-device.h"
#include "rlx-executable.h"
#include "rlx-profile.h"

G_BEGIN_DECLS

RlxGpu *        rlx_device_get_gpu   (RlxDevice *self);

/* rlx-device-open.c */
void            rlx_device_initable_iface_init       (GInitableIface      *iface);
void            rlx_device_async_initable_iface_init (GAsyncInitableIface *iface);
/* The selector that the device was created with; nullable. */
const char *    rlx_device_get_selector (RlxDevice *self);
/* Turns it into an open device. Takes ownership of @gpu. */
void            rlx_device_take_gpu  (RlxDevice *self,
                                      RlxGpu    *gpu);

/* Emits RlxDevice::opening; NULL if nobody listens. */
RlxTicker *     rlx_device_start_opening (RlxDevice *self);

/* Compiles for a device with these speeds; NULL for its own. */
RlxExecutable * rlx_device_compile_for (RlxDevice       *self,
                                        RlxGraph        *graph,
                                        const RlxSpeeds *speeds,
                                        GCancellable    *cancellable,
                                        GError         **error);
/* Compiles for another target, which the device must be able to stand in for. */
RlxExecutable * rlx_device_compile_for_target (RlxDevice       *self,
                                               RlxGraph        *graph,
                                               const RlxTarget *target,
                                               GCancellable    *cancellable,
                                               GError         **error);

/* The same for a graph that nobody else uses. */
RlxExecutable * rlx_device_compile_ir (RlxDevice       *self,
                                       const RlxIr     *ir,
                                       const RlxTarget *target,
                                       GCancellable    *cancellable,
                                       GError         **error);
/* The device as the compiler sees it, including measurements. */
RlxTarget       rlx_device_get_target (RlxDevice *self);

/* rlx-matrix-probe.c: what is known about the matrix units. */
typedef struct
{
  GMutex mutex;
  gboolean done;                 /* under the mutex, as the others */
  gboolean found;
  RlxMatrixShape config;
} RlxMatrixProbe;

RlxMatrixProbe * rlx_device_get_matrix_probe (RlxDevice *self);
/* The configuration that products with reduced precision use, if *@found. The first
 * call tries all configurations. FALSE if the device failed or the call was cancelled. */
gboolean        rlx_device_find_matrix     (RlxDevice      *self,
                                            RlxMatrixShape *config,
                                            gboolean       *found,
                                            GCancellable   *cancellable,
                                            GError        **error);

/* Applies to everything compiled from now on. Notifies in the main context of the device. */
void            rlx_device_set_calibration (RlxDevice      *self,
                                            RlxCalibration *calibration);

/* Emits RlxDevice::calibrating in the same context. */
void            rlx_device_tell_calibrating (RlxDevice  *self,
                                             double      fraction,
                                             const char *what);

/* Creates the GPU objects of @plan, of which it takes ownership even on failure. */
RlxExecutable * rlx_executable_new   (RlxDevice                *device,
                                      RlxPlan                  *plan,
                                      const RlxSpeeds          *speeds,
                                      const RlxCompileSettings *settings,
                                      GCancellable             *cancellable,
                                      GError                  **error);
/* FALSE for an object of plain g_object_new(), which has nothing to run. */
gboolean        rlx_executable_is_compiled (RlxExecutable *self);
const RlxPlan * rlx_executable_peek_plan (RlxExecutable *self);
/* The steps that run, those of the prologue first. (element-type RlxStep) */
GPtrArray *     rlx_executable_get_steps (RlxExecutable *self);
/* The number of dispatches in a run. */
const RlxGpuDispatch * rlx_executable_peek_dispatches (RlxExecutable *self,
                                                       guint         *n_dispatches);

/* rlx-profile.c: @times are the nanoseconds of each step that ran; NULL if the device
 * has no timestamps. */
RlxProfile *    rlx_profile_new      (const RlxPlan *plan,
                                      const guint   *steps,
                                      guint          n_steps,
                                      const guint64 *times,
                                      double         wall_time);

G_END_DECLS
