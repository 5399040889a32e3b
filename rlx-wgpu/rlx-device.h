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
RLX_AVAILABLE_IN_1_0
G_DECLARE_FINAL_TYPE (RlxDevice, rlx_device, RLX, DEVICE, GObject)

RLX_AVAILABLE_IN_1_0
RlxDevice *       rlx_device_get_default         (GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
void              rlx_device_get_default_async   (GCancellable        *cancellable,
                                                  GAsyncReadyCallback  callback,
                                                  gpointer             user_data);
RLX_AVAILABLE_IN_1_0
RlxDevice *       rlx_device_get_default_finish  (GAsyncResult        *result,
                                                  GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
RlxDevice *       rlx_device_open                (const char          *selector,
                                                  GCancellable        *cancellable,
                                                  GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
void              rlx_device_open_async          (const char          *selector,
                                                  GCancellable        *cancellable,
                                                  GAsyncReadyCallback  callback,
                                                  gpointer             user_data);
RLX_AVAILABLE_IN_1_0
RlxDevice *       rlx_device_open_finish         (GAsyncResult        *result,
                                                  GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
RlxDevice *       rlx_device_open_adapter        (RlxAdapter          *adapter,
                                                  GCancellable        *cancellable,
                                                  GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
void              rlx_device_open_adapter_async  (RlxAdapter          *adapter,
                                                  GCancellable        *cancellable,
                                                  GAsyncReadyCallback  callback,
                                                  gpointer             user_data);
RLX_AVAILABLE_IN_1_0
RlxDevice *       rlx_device_open_adapter_finish (GAsyncResult        *result,
                                                  GError             **error) G_GNUC_WARN_UNUSED_RESULT;

RLX_AVAILABLE_IN_1_0
RlxExecutable *   rlx_device_compile          (RlxDevice           *self,
                                               RlxGraph            *graph,
                                               RlxCompileOptions   *options,
                                               GCancellable        *cancellable,
                                               GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
void              rlx_device_compile_async    (RlxDevice           *self,
                                               RlxGraph            *graph,
                                               RlxCompileOptions   *options,
                                               GCancellable        *cancellable,
                                               GAsyncReadyCallback  callback,
                                               gpointer             user_data);
RLX_AVAILABLE_IN_1_0
RlxExecutable *   rlx_device_compile_finish   (RlxDevice           *self,
                                               GAsyncResult        *result,
                                               GError             **error) G_GNUC_WARN_UNUSED_RESULT;

RLX_AVAILABLE_IN_1_0
RlxTensor *       rlx_device_upload           (RlxDevice           *self,
                                               RlxTensor           *tensor,
                                               GCancellable        *cancellable,
                                               GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
void              rlx_device_upload_async     (RlxDevice           *self,
                                               RlxTensor           *tensor,
                                               GCancellable        *cancellable,
                                               GAsyncReadyCallback  callback,
                                               gpointer             user_data);
RLX_AVAILABLE_IN_1_0
RlxTensor *       rlx_device_upload_finish    (RlxDevice           *self,
                                               GAsyncResult        *result,
                                               GError             **error) G_GNUC_WARN_UNUSED_RESULT;

RLX_AVAILABLE_IN_1_0
RlxTensor **      rlx_device_apply            (RlxDevice           *self,
                                               const char          *op,
                                               RlxTensor          **inputs,
                                               gsize                n_inputs,
                                               GVariant            *attributes,
                                               gsize               *n_outputs,
                                               GCancellable        *cancellable,
                                               GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
void              rlx_device_apply_async      (RlxDevice           *self,
                                               const char          *op,
                                               RlxTensor          **inputs,
                                               gsize                n_inputs,
                                               GVariant            *attributes,
                                               GCancellable        *cancellable,
                                               GAsyncReadyCallback  callback,
                                               gpointer             user_data);
RLX_AVAILABLE_IN_1_0
RlxTensor **      rlx_device_apply_finish     (RlxDevice           *self,
                                               GAsyncResult        *result,
                                               gsize               *n_outputs,
                                               GError             **error) G_GNUC_WARN_UNUSED_RESULT;

RLX_AVAILABLE_IN_1_0
RlxCalibration *  rlx_device_calibrate        (RlxDevice           *self,
                                               GCancellable        *cancellable,
                                               GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
void              rlx_device_calibrate_async  (RlxDevice           *self,
                                               GCancellable        *cancellable,
                                               GAsyncReadyCallback  callback,
                                               gpointer             user_data);
RLX_AVAILABLE_IN_1_0
RlxCalibration *  rlx_device_calibrate_finish (RlxDevice           *self,
                                               GAsyncResult        *result,
                                               GError             **error) G_GNUC_WARN_UNUSED_RESULT;

RLX_AVAILABLE_IN_1_0
RlxCalibration *  rlx_device_get_calibration  (RlxDevice           *self);
RLX_AVAILABLE_IN_1_0
RlxAdapter *      rlx_device_get_adapter      (RlxDevice           *self);
RLX_AVAILABLE_IN_1_0
RlxDeviceFeatures rlx_device_get_features     (RlxDevice           *self);
RLX_AVAILABLE_IN_1_0
gboolean          rlx_device_get_lost         (RlxDevice           *self);
RLX_AVAILABLE_IN_1_0
const char *      rlx_device_get_lost_reason  (RlxDevice           *self);
RLX_AVAILABLE_IN_1_0
guint64           rlx_device_get_memory_used  (RlxDevice           *self);
RLX_AVAILABLE_IN_1_0
guint64           rlx_device_get_memory_limit (RlxDevice           *self);

G_END_DECLS
