/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#if !defined(RLX_INSIDE) && !defined(RLX_COMPILATION)
#error "Only <rlx-wgpu/rlx-wgpu.h> can be included directly."
#endif

#include <rlx-wgpu/rlx-types.h>

G_BEGIN_DECLS

#define RLX_TYPE_TOKENIZER (rlx_tokenizer_get_type ())
RLX_AVAILABLE_IN_1_0
G_DECLARE_FINAL_TYPE (RlxTokenizer, rlx_tokenizer, RLX, TOKENIZER, GObject)

RLX_AVAILABLE_IN_1_0
RlxTokenizer * rlx_tokenizer_open          (GFile               *folder,
                                            GCancellable        *cancellable,
                                            GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
void           rlx_tokenizer_open_async    (GFile               *folder,
                                            GCancellable        *cancellable,
                                            GAsyncReadyCallback  callback,
                                            gpointer             user_data);
RLX_AVAILABLE_IN_1_0
RlxTokenizer * rlx_tokenizer_open_finish   (GAsyncResult        *result,
                                            GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
RlxTokenizer * rlx_tokenizer_new_wordpiece (GBytes              *vocabulary,
                                            gboolean             lower_case,
                                            GError             **error) G_GNUC_WARN_UNUSED_RESULT;

RLX_AVAILABLE_IN_1_0
gint *         rlx_tokenizer_encode        (RlxTokenizer        *self,
                                            const char          *text,
                                            gboolean             special,
                                            gsize               *n_tokens,
                                            GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
char *         rlx_tokenizer_decode        (RlxTokenizer        *self,
                                            const gint          *tokens,
                                            gsize                n_tokens,
                                            GError             **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
guint          rlx_tokenizer_get_n_tokens  (RlxTokenizer        *self);
RLX_AVAILABLE_IN_1_0
const char *   rlx_tokenizer_get_token     (RlxTokenizer        *self,
                                            gint                 token);
RLX_AVAILABLE_IN_1_0
gint           rlx_tokenizer_find          (RlxTokenizer        *self,
                                            const char          *text);

G_END_DECLS
