/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#if !defined(RLX_INSIDE) && !defined(RLX_COMPILATION)
#error "Only <rlx-wgpu/rlx-wgpu.h> can be included directly."
#endif

#include <rlx-wgpu/rlx-compile-options.h>
#include <rlx-wgpu/rlx-device.h>
#include <rlx-wgpu/rlx-model.h>

G_BEGIN_DECLS

#define RLX_TYPE_SESSION (rlx_session_get_type ())
RLX_AVAILABLE_IN_1_0
G_DECLARE_FINAL_TYPE (RlxSession, rlx_session, RLX, SESSION, GObject)

RLX_AVAILABLE_IN_1_0
RlxSession *    rlx_session_new            (RlxModel             *model,
                                            RlxDevice            *device,
                                            RlxCompileOptions    *options) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
RlxSession *    rlx_session_open           (GFile                *file,
                                            RlxDevice            *device,
                                            GCancellable         *cancellable,
                                            GError              **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
void            rlx_session_open_async     (GFile                *file,
                                            RlxDevice            *device,
                                            GCancellable         *cancellable,
                                            GAsyncReadyCallback   callback,
                                            gpointer              user_data);
RLX_AVAILABLE_IN_1_0
RlxSession *    rlx_session_open_finish    (GAsyncResult         *result,
                                            GError              **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
RlxModel *      rlx_session_get_model      (RlxSession           *self);
RLX_AVAILABLE_IN_1_0
RlxDevice *     rlx_session_get_device     (RlxSession           *self);
RLX_AVAILABLE_IN_1_0
guint           rlx_session_get_capacity   (RlxSession           *self);
RLX_AVAILABLE_IN_1_0
void            rlx_session_set_capacity   (RlxSession           *self,
                                            guint                 capacity);
RLX_AVAILABLE_IN_1_0
guint           rlx_session_get_n_executables (RlxSession        *self);
RLX_AVAILABLE_IN_1_0
gboolean        rlx_session_add_state      (RlxSession           *self,
                                            const char           *input,
                                            const char           *output,
                                            GError              **error);
RLX_AVAILABLE_IN_1_0
gboolean        rlx_session_add_states     (RlxSession           *self,
                                            GError              **error);
RLX_AVAILABLE_IN_1_0
void            rlx_session_reset_states   (RlxSession           *self);
RLX_AVAILABLE_IN_1_0
guint           rlx_session_get_max_rows   (RlxSession           *self);
RLX_AVAILABLE_IN_1_0
void            rlx_session_set_max_rows   (RlxSession           *self,
                                            guint                 max_rows);
RLX_AVAILABLE_IN_1_0
guint           rlx_session_get_n_rows     (RlxSession           *self);
RLX_AVAILABLE_IN_1_0
const char *const *
                rlx_session_get_output_names (RlxSession         *self);

RLX_AVAILABLE_IN_1_0
RlxExecutable * rlx_session_prepare        (RlxSession           *self,
                                            const char *const    *names,
                                            RlxTensor           **inputs,
                                            gsize                 n_inputs,
                                            GCancellable         *cancellable,
                                            GError              **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
void            rlx_session_prepare_async  (RlxSession           *self,
                                            const char *const    *names,
                                            RlxTensor           **inputs,
                                            gsize                 n_inputs,
                                            GCancellable         *cancellable,
                                            GAsyncReadyCallback   callback,
                                            gpointer              user_data);
RLX_AVAILABLE_IN_1_0
RlxExecutable * rlx_session_prepare_finish (RlxSession           *self,
                                            GAsyncResult         *result,
                                            GError              **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
RlxTensor **    rlx_session_run            (RlxSession           *self,
                                            const char *const    *names,
                                            RlxTensor           **inputs,
                                            gsize                 n_inputs,
                                            gsize                *n_outputs,
                                            GCancellable         *cancellable,
                                            GError              **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
void            rlx_session_run_async      (RlxSession           *self,
                                            const char *const    *names,
                                            RlxTensor           **inputs,
                                            gsize                 n_inputs,
                                            GCancellable         *cancellable,
                                            GAsyncReadyCallback   callback,
                                            gpointer              user_data);
RLX_AVAILABLE_IN_1_0
RlxTensor **    rlx_session_run_finish     (RlxSession           *self,
                                            GAsyncResult         *result,
                                            gsize                *n_outputs,
                                            GError              **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
