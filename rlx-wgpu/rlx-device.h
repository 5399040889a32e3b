/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#if !defined(RLX_INSIDE) && !defined(RLX_COMPILATION)
#error "Only <rlx-wgpu/rlx-wgpu.h> can be included directly."
#endif

#include <rlx-wgpu/rlx-types.h>

G_BEGIN_DECLS

#define RLX_TYPE_DEVICE (rlx_device_get_type ())
RLX_API
G_DECLARE_FINAL_TYPE (RlxDevice, rlx_device, RLX, DEVICE, GObject)

RLX_API
RlxDevice *       rlx_device_get_default      (GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_API
RlxDevice *       rlx_device_open             (const char          *selector,
                                               GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_API
RlxDevice *       rlx_device_new_for_adapter  (RlxAdapter          *adapter,
                                               GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_API
gboolean          rlx_device_is_available     (void);

RLX_API
RlxExecutable *   rlx_device_compile          (RlxDevice           *self,
                                               RlxGraph            *graph,
                                               GCancellable        *cancellable,
                                               GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_API
void              rlx_device_compile_async    (RlxDevice           *self,
                                               RlxGraph            *graph,
                                               GCancellable        *cancellable,
                                               GAsyncReadyCallback  callback,
                                               gpointer             user_data);
RLX_API
RlxExecutable *   rlx_device_compile_finish   (RlxDevice           *self,
                                               GAsyncResult        *result,
                                               GError             **error) G_GNUC_WARN_UNUSED_RESULT;

RLX_API
RlxCalibration *  rlx_device_calibrate        (RlxDevice           *self,
                                               GCancellable        *cancellable,
                                               GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_API
void              rlx_device_calibrate_async  (RlxDevice           *self,
                                               GCancellable        *cancellable,
                                               GAsyncReadyCallback  callback,
                                               gpointer             user_data);
RLX_API
RlxCalibration *  rlx_device_calibrate_finish (RlxDevice           *self,
                                               GAsyncResult        *result,
                                               GError             **error) G_GNUC_WARN_UNUSED_RESULT;

RLX_API
RlxCalibration *  rlx_device_get_calibration  (RlxDevice           *self);
RLX_API
gboolean          rlx_device_get_tuning       (RlxDevice           *self);
RLX_API
void              rlx_device_set_tuning       (RlxDevice           *self,
                                               gboolean             tuning);
RLX_API
RlxAdapter *      rlx_device_get_adapter      (RlxDevice           *self);
RLX_API
RlxDeviceFeatures rlx_device_get_features     (RlxDevice           *self);
RLX_API
gboolean          rlx_device_get_lost         (RlxDevice           *self);
RLX_API
guint64           rlx_device_get_memory_used  (RlxDevice           *self);
RLX_API
guint64           rlx_device_get_memory_limit (RlxDevice           *self);

G_END_DECLS
