/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#if !defined(RLX_INSIDE) && !defined(RLX_COMPILATION)
#error "Only <rlx-wgpu/rlx-wgpu.h> can be included directly."
#endif

#include <rlx-wgpu/rlx-executable.h>
#include <rlx-wgpu/rlx-types.h>

G_BEGIN_DECLS

#define RLX_TYPE_STATE (rlx_state_get_type ())
RLX_AVAILABLE_IN_1_0
G_DECLARE_FINAL_TYPE (RlxState, rlx_state, RLX, STATE, GObject)

RLX_AVAILABLE_IN_1_0
RlxDataType    rlx_state_get_data_type (RlxState *self);
RLX_AVAILABLE_IN_1_0
const gint64 * rlx_state_get_shape     (RlxState *self,
                                        gsize    *n_dims);
RLX_AVAILABLE_IN_1_0
RlxDevice *    rlx_state_get_device    (RlxState *self);

RLX_AVAILABLE_IN_1_0
RlxState *     rlx_executable_dup_state         (RlxExecutable       *self,
                                                 const char          *name,
                                                 GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
gboolean       rlx_executable_bind_state        (RlxExecutable       *self,
                                                 const char          *name,
                                                 RlxState            *state,
                                                 GCancellable        *cancellable,
                                                 GError             **error);
RLX_AVAILABLE_IN_1_0
void           rlx_executable_bind_state_async  (RlxExecutable       *self,
                                                 const char          *name,
                                                 RlxState            *state,
                                                 GCancellable        *cancellable,
                                                 GAsyncReadyCallback  callback,
                                                 gpointer             user_data);
RLX_AVAILABLE_IN_1_0
gboolean       rlx_executable_bind_state_finish (RlxExecutable       *self,
                                                 GAsyncResult        *result,
                                                 GError             **error);

G_END_DECLS
