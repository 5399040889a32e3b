/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#if !defined(RLX_INSIDE) && !defined(RLX_COMPILATION)
#error "Only <rlx-wgpu/rlx-wgpu.h> can be included directly."
#endif

#include <rlx-wgpu/rlx-types.h>

G_BEGIN_DECLS

#define RLX_TYPE_WEIGHTS (rlx_weights_get_type ())
RLX_AVAILABLE_IN_1_0
G_DECLARE_FINAL_TYPE (RlxWeights, rlx_weights, RLX, WEIGHTS, GObject)

#define RLX_TYPE_WEIGHTS_ENTRY (rlx_weights_entry_get_type ())
RLX_AVAILABLE_IN_1_0
G_DECLARE_FINAL_TYPE (RlxWeightsEntry, rlx_weights_entry, RLX, WEIGHTS_ENTRY, GObject)

RLX_AVAILABLE_IN_1_0
RlxWeights *      rlx_weights_open               (GFile               *file,
                                                  GCancellable        *cancellable,
                                                  GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
void              rlx_weights_open_async         (GFile               *file,
                                                  GCancellable        *cancellable,
                                                  GAsyncReadyCallback  callback,
                                                  gpointer             user_data);
RLX_AVAILABLE_IN_1_0
RlxWeights *      rlx_weights_open_finish        (GAsyncResult        *result,
                                                  GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
RlxWeights *      rlx_weights_new_from_bytes     (GBytes              *bytes,
                                                  GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
RlxWeights *      rlx_weights_open_fd        (int                  fd,
                                                  GCancellable        *cancellable,
                                                  GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
void              rlx_weights_open_fd_async  (int                  fd,
                                                  GCancellable        *cancellable,
                                                  GAsyncReadyCallback  callback,
                                                  gpointer             user_data);
RLX_AVAILABLE_IN_1_0
RlxWeights *      rlx_weights_open_fd_finish (GAsyncResult        *result,
                                                  GError             **error) G_GNUC_WARN_UNUSED_RESULT;

RLX_AVAILABLE_IN_1_0
RlxWeightsFormat  rlx_weights_get_format         (RlxWeights          *self);
RLX_AVAILABLE_IN_1_0
GVariant *        rlx_weights_get_metadata       (RlxWeights          *self);
RLX_AVAILABLE_IN_1_0
double            rlx_weights_get_progress       (RlxWeights          *self);
RLX_AVAILABLE_IN_1_0
RlxWeightsEntry * rlx_weights_lookup             (RlxWeights          *self,
                                                  const char          *name) G_GNUC_WARN_UNUSED_RESULT;

RLX_AVAILABLE_IN_1_0
RlxTensor *       rlx_weights_load_tensor        (RlxWeights          *self,
                                                  const char          *name,
                                                  GCancellable        *cancellable,
                                                  GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
void              rlx_weights_load_tensor_async  (RlxWeights          *self,
                                                  const char          *name,
                                                  GCancellable        *cancellable,
                                                  GAsyncReadyCallback  callback,
                                                  gpointer             user_data);
RLX_AVAILABLE_IN_1_0
RlxTensor *       rlx_weights_load_tensor_finish (RlxWeights          *self,
                                                  GAsyncResult        *result,
                                                  GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
GBytes *          rlx_weights_load_bytes         (RlxWeights          *self,
                                                  const char          *name,
                                                  GCancellable        *cancellable,
                                                  GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
void              rlx_weights_load_bytes_async   (RlxWeights          *self,
                                                  const char          *name,
                                                  GCancellable        *cancellable,
                                                  GAsyncReadyCallback  callback,
                                                  gpointer             user_data);
RLX_AVAILABLE_IN_1_0
GBytes *          rlx_weights_load_bytes_finish  (RlxWeights          *self,
                                                  GAsyncResult        *result,
                                                  GError             **error) G_GNUC_WARN_UNUSED_RESULT;

RLX_AVAILABLE_IN_1_0
gboolean          rlx_weights_write_safetensors        (GFile               *file,
                                                        const char *const   *names,
                                                        RlxTensor          **tensors,
                                                        gsize                n_tensors,
                                                        GVariant            *metadata,
                                                        GCancellable        *cancellable,
                                                        GError             **error);
RLX_AVAILABLE_IN_1_0
void              rlx_weights_write_safetensors_async  (GFile               *file,
                                                        const char *const   *names,
                                                        RlxTensor          **tensors,
                                                        gsize                n_tensors,
                                                        GVariant            *metadata,
                                                        GCancellable        *cancellable,
                                                        GAsyncReadyCallback  callback,
                                                        gpointer             user_data);
RLX_AVAILABLE_IN_1_0
gboolean          rlx_weights_write_safetensors_finish (GAsyncResult        *result,
                                                        GError             **error);

RLX_AVAILABLE_IN_1_0
gboolean          rlx_weights_write_gguf (GFile             *file,
                                          const char *const *names,
                                          RlxTensor        **tensors,
                                          gsize              n_tensors,
                                          GVariant          *metadata,
                                          GCancellable      *cancellable,
                                          GError           **error);
RLX_AVAILABLE_IN_1_0
void              rlx_weights_write_gguf_async (GFile              *file,
                                                const char *const  *names,
                                                RlxTensor         **tensors,
                                                gsize               n_tensors,
                                                GVariant           *metadata,
                                                GCancellable       *cancellable,
                                                GAsyncReadyCallback callback,
                                                gpointer            user_data);
RLX_AVAILABLE_IN_1_0
gboolean          rlx_weights_write_gguf_finish (GAsyncResult *result,
                                                 GError      **error);

RLX_AVAILABLE_IN_1_0
gboolean          rlx_weights_write_npz (GFile             *file,
                                         const char *const *names,
                                         RlxTensor        **tensors,
                                         gsize              n_tensors,
                                         gboolean           deflated,
                                         GCancellable      *cancellable,
                                         GError           **error);
RLX_AVAILABLE_IN_1_0
void              rlx_weights_write_npz_async (GFile              *file,
                                               const char *const  *names,
                                               RlxTensor         **tensors,
                                               gsize               n_tensors,
                                               gboolean            deflated,
                                               GCancellable       *cancellable,
                                               GAsyncReadyCallback callback,
                                               gpointer            user_data);
RLX_AVAILABLE_IN_1_0
gboolean          rlx_weights_write_npz_finish (GAsyncResult *result,
                                                GError      **error);

RLX_AVAILABLE_IN_1_0
gboolean          rlx_weights_save (RlxWeights      *self,
                                    GFile           *file,
                                    RlxWeightsFormat format,
                                    gboolean         deflated,
                                    GCancellable    *cancellable,
                                    GError         **error);
RLX_AVAILABLE_IN_1_0
void              rlx_weights_save_async (RlxWeights         *self,
                                          GFile              *file,
                                          RlxWeightsFormat    format,
                                          gboolean            deflated,
                                          GCancellable       *cancellable,
                                          GAsyncReadyCallback callback,
                                          gpointer            user_data);
RLX_AVAILABLE_IN_1_0
gboolean          rlx_weights_save_finish (RlxWeights   *self,
                                           GAsyncResult *result,
                                           GError      **error);

RLX_AVAILABLE_IN_1_0
const char *      rlx_weights_entry_get_name        (RlxWeightsEntry *self);
RLX_AVAILABLE_IN_1_0
const char *      rlx_weights_entry_get_type_name   (RlxWeightsEntry *self);
RLX_AVAILABLE_IN_1_0
RlxDataType       rlx_weights_entry_get_data_type   (RlxWeightsEntry *self);
RLX_AVAILABLE_IN_1_0
gboolean          rlx_weights_entry_is_loadable     (RlxWeightsEntry *self);
RLX_AVAILABLE_IN_1_0
gboolean          rlx_weights_entry_is_packed       (RlxWeightsEntry *self);
RLX_AVAILABLE_IN_1_0
RlxPackedType     rlx_weights_entry_get_packed_type (RlxWeightsEntry *self);
RLX_AVAILABLE_IN_1_0
const gint64 *    rlx_weights_entry_get_shape       (RlxWeightsEntry *self,
                                                     gsize           *n_dims);
RLX_AVAILABLE_IN_1_0
guint64           rlx_weights_entry_get_size        (RlxWeightsEntry *self);
RLX_AVAILABLE_IN_1_0
guint64           rlx_weights_entry_get_offset      (RlxWeightsEntry *self);

G_END_DECLS
