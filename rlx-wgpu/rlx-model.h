/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#if !defined(RLX_INSIDE) && !defined(RLX_COMPILATION)
#error "Only <rlx-wgpu/rlx-wgpu.h> can be included directly."
#endif

#include <rlx-wgpu/rlx-types.h>

G_BEGIN_DECLS

#define RLX_TYPE_MODEL (rlx_model_get_type ())
RLX_AVAILABLE_IN_1_0
G_DECLARE_FINAL_TYPE (RlxModel, rlx_model, RLX, MODEL, GObject)

#define RLX_TYPE_MODEL_PORT (rlx_model_port_get_type ())
RLX_AVAILABLE_IN_1_0
G_DECLARE_FINAL_TYPE (RlxModelPort, rlx_model_port, RLX, MODEL_PORT, GObject)

RLX_AVAILABLE_IN_1_0
RlxModel *     rlx_model_open            (GFile               *file,
                                          GCancellable        *cancellable,
                                          GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
void           rlx_model_open_async      (GFile               *file,
                                          GCancellable        *cancellable,
                                          GAsyncReadyCallback  callback,
                                          gpointer             user_data);
RLX_AVAILABLE_IN_1_0
RlxModel *     rlx_model_open_finish     (GAsyncResult        *result,
                                          GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
RlxModel *     rlx_model_new_from_bytes  (GBytes              *bytes,
                                          GError             **error) G_GNUC_WARN_UNUSED_RESULT;

RLX_AVAILABLE_IN_1_0
GListModel *   rlx_model_get_inputs      (RlxModel            *self);
RLX_AVAILABLE_IN_1_0
GListModel *   rlx_model_get_outputs     (RlxModel            *self);
RLX_AVAILABLE_IN_1_0
const char *   rlx_model_get_name        (RlxModel            *self);
RLX_AVAILABLE_IN_1_0
const char *   rlx_model_get_producer    (RlxModel            *self);
RLX_AVAILABLE_IN_1_0
gint64         rlx_model_get_opset       (RlxModel            *self);
RLX_AVAILABLE_IN_1_0
GVariant *     rlx_model_get_metadata    (RlxModel            *self);
RLX_AVAILABLE_IN_1_0
guint          rlx_model_get_n_nodes     (RlxModel            *self);
RLX_AVAILABLE_IN_1_0
guint          rlx_model_get_n_tensors   (RlxModel            *self);
RLX_AVAILABLE_IN_1_0
guint64        rlx_model_get_tensors_size (RlxModel           *self);
RLX_AVAILABLE_IN_1_0
GVariant *     rlx_model_count_operators (RlxModel            *self) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
gboolean       rlx_model_fix_input       (RlxModel            *self,
                                          const char          *name,
                                          RlxTensor           *value,
                                          GError             **error);
RLX_AVAILABLE_IN_1_0
RlxGraph *     rlx_model_build           (RlxModel            *self,
                                          GVariant            *dimensions,
                                          GCancellable        *cancellable,
                                          GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
void           rlx_model_build_async     (RlxModel            *self,
                                          GVariant            *dimensions,
                                          GCancellable        *cancellable,
                                          GAsyncReadyCallback  callback,
                                          gpointer             user_data);
RLX_AVAILABLE_IN_1_0
RlxGraph *     rlx_model_build_finish    (RlxModel            *self,
                                          GAsyncResult        *result,
                                          GError             **error) G_GNUC_WARN_UNUSED_RESULT;

RLX_AVAILABLE_IN_1_0
const char *   rlx_model_port_get_name      (RlxModelPort     *self);
RLX_AVAILABLE_IN_1_0
const char *   rlx_model_port_get_type_name (RlxModelPort     *self);
RLX_AVAILABLE_IN_1_0
RlxDataType    rlx_model_port_get_data_type (RlxModelPort     *self);
RLX_AVAILABLE_IN_1_0
gboolean       rlx_model_port_is_supported  (RlxModelPort     *self);
RLX_AVAILABLE_IN_1_0
gboolean       rlx_model_port_has_shape     (RlxModelPort     *self);
RLX_AVAILABLE_IN_1_0
const gint64 * rlx_model_port_get_shape     (RlxModelPort     *self,
                                             gsize            *n_dims);
RLX_AVAILABLE_IN_1_0
const char *   rlx_model_port_get_dimension_name (RlxModelPort *self,
                                                  guint         axis);
RLX_AVAILABLE_IN_1_0
char *         rlx_model_port_to_string     (RlxModelPort     *self) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
