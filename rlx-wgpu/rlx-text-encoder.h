/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#if !defined(RLX_INSIDE) && !defined(RLX_COMPILATION)
#error "Only <rlx-wgpu/rlx-wgpu.h> can be included directly."
#endif

#include <rlx-wgpu/rlx-device.h>
#include <rlx-wgpu/rlx-tensor.h>
#include <rlx-wgpu/rlx-tokenizer.h>

G_BEGIN_DECLS

#define RLX_TYPE_TEXT_ENCODER (rlx_text_encoder_get_type ())
RLX_AVAILABLE_IN_1_0
G_DECLARE_FINAL_TYPE (RlxTextEncoder, rlx_text_encoder, RLX, TEXT_ENCODER, GObject)

RLX_AVAILABLE_IN_1_0
RlxTextEncoder * rlx_text_encoder_open           (GFile               *folder,
                                                  RlxDevice           *device,
                                                  GCancellable        *cancellable,
                                                  GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
void             rlx_text_encoder_open_async     (GFile               *folder,
                                                  RlxDevice           *device,
                                                  GCancellable        *cancellable,
                                                  GAsyncReadyCallback  callback,
                                                  gpointer             user_data);
RLX_AVAILABLE_IN_1_0
RlxTextEncoder * rlx_text_encoder_open_finish    (GAsyncResult        *result,
                                                  GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
RlxDevice *      rlx_text_encoder_get_device     (RlxTextEncoder      *self);
RLX_AVAILABLE_IN_1_0
RlxTokenizer *   rlx_text_encoder_get_tokenizer  (RlxTextEncoder      *self);
RLX_AVAILABLE_IN_1_0
guint            rlx_text_encoder_get_max_tokens (RlxTextEncoder      *self);
RLX_AVAILABLE_IN_1_0
guint            rlx_text_encoder_get_width      (RlxTextEncoder      *self);

RLX_AVAILABLE_IN_1_0
RlxTensor *      rlx_text_encoder_encode         (RlxTextEncoder      *self,
                                                  const char *const   *texts,
                                                  GCancellable        *cancellable,
                                                  GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
void             rlx_text_encoder_encode_async   (RlxTextEncoder      *self,
                                                  const char *const   *texts,
                                                  GCancellable        *cancellable,
                                                  GAsyncReadyCallback  callback,
                                                  gpointer             user_data);
RLX_AVAILABLE_IN_1_0
RlxTensor *      rlx_text_encoder_encode_finish  (RlxTextEncoder      *self,
                                                  GAsyncResult        *result,
                                                  GError             **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
