/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#if !defined(RLX_INSIDE) && !defined(RLX_COMPILATION)
#error "Only <rlx-wgpu/rlx-wgpu.h> can be included directly."
#endif

#include <rlx-wgpu/rlx-types.h>
#include <rlx-wgpu/rlx-compile-options.h>
#include <rlx-wgpu/rlx-weights.h>

G_BEGIN_DECLS

#define RLX_TYPE_WEB_EXPORT (rlx_web_export_get_type ())
RLX_AVAILABLE_IN_1_0
G_DECLARE_FINAL_TYPE (RlxWebExport, rlx_web_export, RLX, WEB_EXPORT, GObject)

RLX_AVAILABLE_IN_1_0
RlxWebExport *      rlx_web_export_new                 (RlxGraph            *graph) G_GNUC_WARN_UNUSED_RESULT;

RLX_AVAILABLE_IN_1_0
RlxGraph *          rlx_web_export_get_graph           (RlxWebExport        *self);
RLX_AVAILABLE_IN_1_0
void                rlx_web_export_set_targets         (RlxWebExport        *self,
                                                        const char *const   *targets);
RLX_AVAILABLE_IN_1_0
const char *const * rlx_web_export_get_targets         (RlxWebExport        *self);
RLX_AVAILABLE_IN_1_0
void                rlx_web_export_set_options         (RlxWebExport        *self,
                                                        RlxCompileOptions   *options);
RLX_AVAILABLE_IN_1_0
RlxCompileOptions * rlx_web_export_get_options         (RlxWebExport        *self);
RLX_AVAILABLE_IN_1_0
double              rlx_web_export_get_progress        (RlxWebExport        *self);

RLX_AVAILABLE_IN_1_0
gboolean            rlx_web_export_set_parameters      (RlxWebExport        *self,
                                                        const char *const   *names,
                                                        RlxTensor          **values,
                                                        gsize                n_values,
                                                        GError             **error);
RLX_AVAILABLE_IN_1_0
gboolean            rlx_web_export_set_parameters_from (RlxWebExport        *self,
                                                        RlxWeights          *weights,
                                                        GVariant            *names,
                                                        GCancellable        *cancellable,
                                                        GError             **error);
RLX_AVAILABLE_IN_1_0
void                rlx_web_export_set_parameters_from_async (RlxWebExport        *self,
                                                          RlxWeights          *weights,
                                                          GVariant            *names,
                                                          GCancellable        *cancellable,
                                                          GAsyncReadyCallback  callback,
                                                          gpointer             user_data);
RLX_AVAILABLE_IN_1_0
gboolean            rlx_web_export_set_parameters_from_finish (RlxWebExport        *self,
                                                          GAsyncResult        *result,
                                                          GError             **error);
RLX_AVAILABLE_IN_1_0
void                rlx_web_export_set_check           (RlxWebExport        *self,
                                                        RlxTensor          **inputs,
                                                        gsize                n_inputs,
                                                        RlxTensor          **outputs,
                                                        gsize                n_outputs,
                                                        double               tolerance);

RLX_AVAILABLE_IN_1_0
gboolean            rlx_web_export_write               (RlxWebExport        *self,
                                                        GFile               *folder,
                                                        GCancellable        *cancellable,
                                                        GError             **error);
RLX_AVAILABLE_IN_1_0
void                rlx_web_export_write_async         (RlxWebExport        *self,
                                                        GFile               *folder,
                                                        GCancellable        *cancellable,
                                                        GAsyncReadyCallback  callback,
                                                        gpointer             user_data);
RLX_AVAILABLE_IN_1_0
gboolean            rlx_web_export_write_finish        (RlxWebExport        *self,
                                                        GAsyncResult        *result,
                                                        GError             **error);

G_END_DECLS
