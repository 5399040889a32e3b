/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#if !defined(RLX_INSIDE) && !defined(RLX_COMPILATION)
#error "Only <rlx-wgpu/rlx-wgpu.h> can be included directly."
#endif

#include <rlx-wgpu/rlx-types.h>

G_BEGIN_DECLS

#define RLX_TYPE_EXECUTABLE (rlx_executable_get_type ())
RLX_AVAILABLE_IN_1_0
G_DECLARE_FINAL_TYPE (RlxExecutable, rlx_executable, RLX, EXECUTABLE, GObject)

RLX_AVAILABLE_IN_1_0
RlxTensor **    rlx_executable_run              (RlxExecutable       *self,
                                                 RlxTensor          **inputs,
                                                 gsize                n_inputs,
                                                 gsize               *n_outputs,
                                                 GCancellable        *cancellable,
                                                 GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
void            rlx_executable_run_async        (RlxExecutable       *self,
                                                 RlxTensor          **inputs,
                                                 gsize                n_inputs,
                                                 GCancellable        *cancellable,
                                                 GAsyncReadyCallback  callback,
                                                 gpointer             user_data);
RLX_AVAILABLE_IN_1_0
RlxTensor **    rlx_executable_run_finish       (RlxExecutable       *self,
                                                 GAsyncResult        *result,
                                                 gsize               *n_outputs,
                                                 GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
RlxTensor **    rlx_executable_run_on_device    (RlxExecutable       *self,
                                                 RlxTensor          **inputs,
                                                 gsize                n_inputs,
                                                 gsize               *n_outputs,
                                                 GCancellable        *cancellable,
                                                 GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
void            rlx_executable_run_on_device_async  (RlxExecutable       *self,
                                                     RlxTensor          **inputs,
                                                     gsize                n_inputs,
                                                     GCancellable        *cancellable,
                                                     GAsyncReadyCallback  callback,
                                                     gpointer             user_data);
RLX_AVAILABLE_IN_1_0
RlxTensor **    rlx_executable_run_on_device_finish (RlxExecutable       *self,
                                                     GAsyncResult        *result,
                                                     gsize               *n_outputs,
                                                     GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
RlxTensor **    rlx_executable_run_named        (RlxExecutable       *self,
                                                 const char * const  *names,
                                                 RlxTensor          **inputs,
                                                 gsize                n_inputs,
                                                 gsize               *n_outputs,
                                                 GCancellable        *cancellable,
                                                 GError             **error) G_GNUC_WARN_UNUSED_RESULT;

RLX_AVAILABLE_IN_1_0
void            rlx_executable_run_named_async  (RlxExecutable       *self,
                                                 const char * const  *names,
                                                 RlxTensor          **inputs,
                                                 gsize                n_inputs,
                                                 GCancellable        *cancellable,
                                                 GAsyncReadyCallback  callback,
                                                 gpointer             user_data);
RLX_AVAILABLE_IN_1_0
RlxTensor **    rlx_executable_run_named_finish (RlxExecutable       *self,
                                                 GAsyncResult        *result,
                                                 gsize               *n_outputs,
                                                 GError             **error) G_GNUC_WARN_UNUSED_RESULT;

RLX_AVAILABLE_IN_1_0
gboolean        rlx_executable_set_parameters   (RlxExecutable       *self,
                                                 const char * const  *names,
                                                 RlxTensor          **values,
                                                 gsize                n_values,
                                                 GCancellable        *cancellable,
                                                 GError             **error);
RLX_AVAILABLE_IN_1_0
void            rlx_executable_set_parameters_async (RlxExecutable       *self,
                                                 const char * const  *names,
                                                 RlxTensor          **values,
                                                 gsize                n_values,
                                                 GCancellable        *cancellable,
                                                 GAsyncReadyCallback  callback,
                                                 gpointer             user_data);
RLX_AVAILABLE_IN_1_0
gboolean        rlx_executable_set_parameters_finish (RlxExecutable       *self,
                                                 GAsyncResult        *result,
                                                 GError             **error);
RLX_AVAILABLE_IN_1_0
gboolean        rlx_executable_set_parameters_from        (RlxExecutable       *self,
                                                           RlxWeights          *weights,
                                                           GVariant            *names,
                                                           GCancellable        *cancellable,
                                                           GError             **error);
RLX_AVAILABLE_IN_1_0
void            rlx_executable_set_parameters_from_async  (RlxExecutable       *self,
                                                           RlxWeights          *weights,
                                                           GVariant            *names,
                                                           GCancellable        *cancellable,
                                                           GAsyncReadyCallback  callback,
                                                           gpointer             user_data);
RLX_AVAILABLE_IN_1_0
gboolean        rlx_executable_set_parameters_from_finish (RlxExecutable       *self,
                                                           GAsyncResult        *result,
                                                           GError             **error);
RLX_AVAILABLE_IN_1_0
RlxTensor *     rlx_executable_read_state       (RlxExecutable       *self,
                                                 const char          *name,
                                                 GCancellable        *cancellable,
                                                 GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
void            rlx_executable_read_state_async (RlxExecutable       *self,
                                                 const char          *name,
                                                 GCancellable        *cancellable,
                                                 GAsyncReadyCallback  callback,
                                                 gpointer             user_data);
RLX_AVAILABLE_IN_1_0
RlxTensor *     rlx_executable_read_state_finish (RlxExecutable       *self,
                                                 GAsyncResult        *result,
                                                 GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
gboolean        rlx_executable_write_state      (RlxExecutable       *self,
                                                 const char          *name,
                                                 RlxTensor           *value,
                                                 GCancellable        *cancellable,
                                                 GError             **error);
RLX_AVAILABLE_IN_1_0
void            rlx_executable_write_state_async (RlxExecutable       *self,
                                                 const char          *name,
                                                 RlxTensor           *value,
                                                 GCancellable        *cancellable,
                                                 GAsyncReadyCallback  callback,
                                                 gpointer             user_data);
RLX_AVAILABLE_IN_1_0
gboolean        rlx_executable_write_state_finish (RlxExecutable       *self,
                                                 GAsyncResult        *result,
                                                 GError             **error);
RLX_AVAILABLE_IN_1_0
gboolean        rlx_executable_reset_state      (RlxExecutable       *self,
                                                 GCancellable        *cancellable,
                                                 GError             **error);
RLX_AVAILABLE_IN_1_0
void            rlx_executable_reset_state_async (RlxExecutable       *self,
                                                 GCancellable        *cancellable,
                                                 GAsyncReadyCallback  callback,
                                                 gpointer             user_data);
RLX_AVAILABLE_IN_1_0
gboolean        rlx_executable_reset_state_finish (RlxExecutable       *self,
                                                 GAsyncResult        *result,
                                                 GError             **error);
RLX_AVAILABLE_IN_1_0
RlxExecutable * rlx_executable_fork             (RlxExecutable       *self,
                                                 GCancellable        *cancellable,
                                                 GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
void            rlx_executable_fork_async (RlxExecutable       *self,
                                                 GCancellable        *cancellable,
                                                 GAsyncReadyCallback  callback,
                                                 gpointer             user_data);
RLX_AVAILABLE_IN_1_0
RlxExecutable * rlx_executable_fork_finish (RlxExecutable       *self,
                                                 GAsyncResult        *result,
                                                 GError             **error) G_GNUC_WARN_UNUSED_RESULT;

RLX_AVAILABLE_IN_1_0
RlxDevice *     rlx_executable_get_device       (RlxExecutable       *self);
RLX_AVAILABLE_IN_1_0
const char * const *
                rlx_executable_get_input_names  (RlxExecutable       *self);
RLX_AVAILABLE_IN_1_0
const char * const *
                rlx_executable_get_output_names (RlxExecutable       *self);
RLX_AVAILABLE_IN_1_0
GListModel *    rlx_executable_get_inputs       (RlxExecutable       *self);
RLX_AVAILABLE_IN_1_0
GListModel *    rlx_executable_get_outputs      (RlxExecutable       *self);
RLX_AVAILABLE_IN_1_0
GListModel *    rlx_executable_get_parameters   (RlxExecutable       *self);
RLX_AVAILABLE_IN_1_0
GListModel *    rlx_executable_get_states       (RlxExecutable       *self);
RLX_AVAILABLE_IN_1_0
guint           rlx_executable_get_n_dispatches (RlxExecutable       *self);
RLX_AVAILABLE_IN_1_0
double          rlx_executable_get_estimate     (RlxExecutable       *self);
RLX_AVAILABLE_IN_1_0
guint64         rlx_executable_get_arena_size   (RlxExecutable       *self);
RLX_AVAILABLE_IN_1_0
guint64         rlx_executable_get_weights_size (RlxExecutable       *self);
RLX_AVAILABLE_IN_1_0
char *          rlx_executable_describe_plan    (RlxExecutable       *self);
RLX_AVAILABLE_IN_1_0
GVariant *      rlx_executable_dup_plan         (RlxExecutable       *self);
RLX_AVAILABLE_IN_1_0
gboolean        rlx_executable_get_profiling    (RlxExecutable       *self);
RLX_AVAILABLE_IN_1_0
void            rlx_executable_set_profiling    (RlxExecutable       *self,
                                                 gboolean             profiling);
RLX_AVAILABLE_IN_1_0
double          rlx_executable_get_progress     (RlxExecutable       *self);
RLX_AVAILABLE_IN_1_0
RlxProfile *    rlx_executable_dup_profile      (RlxExecutable       *self);

G_END_DECLS
