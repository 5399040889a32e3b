/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#if !defined(RLX_INSIDE) && !defined(RLX_COMPILATION)
#error "Only <rlx-wgpu/rlx-wgpu.h> can be included directly."
#endif

#include <rlx-wgpu/rlx-types.h>

G_BEGIN_DECLS

#define RLX_TYPE_ADAPTER (rlx_adapter_get_type ())
RLX_AVAILABLE_IN_1_0
G_DECLARE_FINAL_TYPE (RlxAdapter, rlx_adapter, RLX, ADAPTER, GObject)

RLX_AVAILABLE_IN_1_0
GListModel *      rlx_adapter_list              (GCancellable        *cancellable,
                                                 GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
void              rlx_adapter_list_async        (GCancellable        *cancellable,
                                                 GAsyncReadyCallback  callback,
                                                 gpointer             user_data);
RLX_AVAILABLE_IN_1_0
GListModel *      rlx_adapter_list_finish       (GAsyncResult        *result,
                                                 GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
const char *      rlx_adapter_get_name          (RlxAdapter *self);
RLX_AVAILABLE_IN_1_0
const char *      rlx_adapter_get_vendor        (RlxAdapter *self);
RLX_AVAILABLE_IN_1_0
const char *      rlx_adapter_get_driver        (RlxAdapter *self);
RLX_AVAILABLE_IN_1_0
const char *      rlx_adapter_get_backend       (RlxAdapter *self);
RLX_AVAILABLE_IN_1_0
RlxAdapterType    rlx_adapter_get_adapter_type  (RlxAdapter *self);
RLX_AVAILABLE_IN_1_0
RlxDeviceFeatures rlx_adapter_get_features      (RlxAdapter *self);
RLX_AVAILABLE_IN_1_0
guint64           rlx_adapter_get_memory_size   (RlxAdapter *self);
RLX_AVAILABLE_IN_1_0
GVariant *        rlx_adapter_get_limits        (RlxAdapter *self);
RLX_AVAILABLE_IN_1_0
RlxCalibration *  rlx_adapter_load_calibration  (RlxAdapter *self);
RLX_AVAILABLE_IN_1_0
char *            rlx_adapter_dup_calibration_path (RlxAdapter *self);
RLX_AVAILABLE_IN_1_0
gboolean          rlx_adapter_forget_calibration (RlxAdapter *self,
                                                  GError    **error);
RLX_AVAILABLE_IN_1_0
guint             rlx_adapter_count_tuned_problems (RlxAdapter *self);

G_END_DECLS
