/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#if !defined(RLX_INSIDE) && !defined(RLX_COMPILATION)
#error "Only <rlx-wgpu/rlx-wgpu.h> can be included directly."
#endif

#include <rlx-wgpu/rlx-types.h>

G_BEGIN_DECLS

#define RLX_TYPE_TENSOR (rlx_tensor_get_type ())
RLX_AVAILABLE_IN_1_0
G_DECLARE_FINAL_TYPE (RlxTensor, rlx_tensor, RLX, TENSOR, GObject)

RLX_AVAILABLE_IN_1_0
RlxTensor *    rlx_tensor_new_from_bytes   (RlxDataType     data_type,
                                            const gint64   *shape,
                                            gsize           n_dims,
                                            GBytes         *bytes,
                                            GError        **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
RlxTensor *    rlx_tensor_new_from_data    (RlxDataType     data_type,
                                            const gint64   *shape,
                                            gsize           n_dims,
                                            const guint8   *data,
                                            gsize           n_data,
                                            GError        **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
RlxTensor *    rlx_tensor_new_from_floats  (const gint64   *shape,
                                            gsize           n_dims,
                                            const float    *values,
                                            gsize           n_values,
                                            GError        **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
RlxTensor *    rlx_tensor_new_from_ints    (RlxDataType     data_type,
                                            const gint64   *shape,
                                            gsize           n_dims,
                                            const gint64   *values,
                                            gsize           n_values,
                                            GError        **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
RlxTensor *     rlx_tensor_new_from_doubles (RlxDataType    data_type,
                                             const gint64  *shape,
                                             gsize          n_dims,
                                             const double  *values,
                                             gsize          n_values,
                                             GError       **error) G_GNUC_WARN_UNUSED_RESULT;

RLX_AVAILABLE_IN_1_0
RlxTensor *    rlx_tensor_new_scalar       (RlxDataType     data_type,
                                            double          value,
                                            GError        **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
RlxTensor *    rlx_tensor_new_window       (RlxWindowShape  shape,
                                            gint64          length,
                                            gboolean        periodic,
                                            double          beta,
                                            GError        **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
RlxTensor *    rlx_tensor_new_mel_filters  (RlxMelScale     scale,
                                            gint64          n_mels,
                                            gint64          fft_length,
                                            double          sample_rate,
                                            double          lowest,
                                            double          highest,
                                            gboolean        equal_area,
                                            GError        **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
RlxTensor *    rlx_tensor_new_from_npy     (GBytes         *npy,
                                            GError        **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
RlxTensor *    rlx_tensor_load_npy         (GFile          *file,
                                            GCancellable   *cancellable,
                                            GError        **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
void           rlx_tensor_load_npy_async   (GFile               *file,
                                            GCancellable        *cancellable,
                                            GAsyncReadyCallback  callback,
                                            gpointer             user_data);
RLX_AVAILABLE_IN_1_0
RlxTensor *    rlx_tensor_load_npy_finish  (GAsyncResult   *result,
                                            GError        **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
gboolean       rlx_tensor_save_npy         (RlxTensor      *self,
                                            GFile          *file,
                                            GCancellable   *cancellable,
                                            GError        **error);
RLX_AVAILABLE_IN_1_0
void           rlx_tensor_save_npy_async   (RlxTensor           *self,
                                            GFile               *file,
                                            GCancellable        *cancellable,
                                            GAsyncReadyCallback  callback,
                                            gpointer             user_data);
RLX_AVAILABLE_IN_1_0
gboolean       rlx_tensor_save_npy_finish  (RlxTensor      *self,
                                            GAsyncResult   *result,
                                            GError        **error);
RLX_AVAILABLE_IN_1_0
GBytes *       rlx_tensor_to_npy           (RlxTensor      *self,
                                            GError        **error) G_GNUC_WARN_UNUSED_RESULT;

RLX_AVAILABLE_IN_1_0
RlxDataType    rlx_tensor_get_data_type    (RlxTensor      *self);
RLX_AVAILABLE_IN_1_0
guint          rlx_tensor_get_n_dims       (RlxTensor      *self);
RLX_AVAILABLE_IN_1_0
const gint64 * rlx_tensor_get_shape        (RlxTensor      *self,
                                            gsize          *n_dims);
RLX_AVAILABLE_IN_1_0
gint64         rlx_tensor_get_n_elements   (RlxTensor      *self);
RLX_AVAILABLE_IN_1_0
gsize          rlx_tensor_get_size         (RlxTensor      *self);
RLX_AVAILABLE_IN_1_0
GBytes *       rlx_tensor_get_bytes        (RlxTensor      *self);
RLX_AVAILABLE_IN_1_0
RlxDevice *    rlx_tensor_get_device       (RlxTensor      *self);
RLX_AVAILABLE_IN_1_0
gboolean       rlx_tensor_fetch            (RlxTensor      *self,
                                            GCancellable   *cancellable,
                                            GError        **error);
RLX_AVAILABLE_IN_1_0
void           rlx_tensor_fetch_async      (RlxTensor           *self,
                                            GCancellable        *cancellable,
                                            GAsyncReadyCallback  callback,
                                            gpointer             user_data);
RLX_AVAILABLE_IN_1_0
gboolean       rlx_tensor_fetch_finish     (RlxTensor      *self,
                                            GAsyncResult   *result,
                                            GError        **error);
RLX_AVAILABLE_IN_1_0
float *        rlx_tensor_to_floats        (RlxTensor      *self,
                                            gsize          *n_values,
                                            GError        **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
gint64 *       rlx_tensor_to_ints          (RlxTensor      *self,
                                            gsize          *n_values,
                                            GError        **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
double         rlx_tensor_get_value        (RlxTensor      *self,
                                            gint64          index);
RLX_AVAILABLE_IN_1_0
RlxTensor *    rlx_tensor_reshape          (RlxTensor      *self,
                                            const gint64   *shape,
                                            gsize           n_dims,
                                            GError        **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
gboolean       rlx_tensor_equal            (RlxTensor      *self,
                                            RlxTensor      *other);
RLX_AVAILABLE_IN_1_0
char *         rlx_tensor_to_string        (RlxTensor      *self);

RLX_AVAILABLE_IN_1_0
void           rlx_tensors_free            (RlxTensor     **tensors);

#ifndef __GI_SCANNER__
/* g_auto(RlxTensors) outputs = rlx_executable_run (…); */
typedef RlxTensor **RlxTensors;
G_DEFINE_AUTO_CLEANUP_FREE_FUNC (RlxTensors, rlx_tensors_free, NULL)
#endif

G_END_DECLS
