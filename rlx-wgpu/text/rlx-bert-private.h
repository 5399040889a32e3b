/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Encoders of BERT's form: what a model's folder says of one, its weights, and the graph
 * for a number of texts and of tokens.
 */
#pragma once

#include <rlx-wgpu/rlx-graph.h>
#include <rlx-wgpu/rlx-weights.h>

G_BEGIN_DECLS

typedef struct
{
  guint64 width;
  guint64 heads;
  guint64 layers;
  guint64 hidden;
  guint64 vocabulary;
  guint64 positions;
  guint64 max_tokens;        /* of one text */
  double epsilon;
  gboolean first;            /* represent a text by its first token rather than the mean of all */
  gboolean normalize;        /* scale results to length 1 */
} RlxBertConfig;

typedef struct _RlxBert RlxBert;

/* Reads config.json, the files that sentence-transformers adds, and model.safetensors. */
RlxBert *  rlx_bert_open         (GFile               *folder,
                                  GCancellable        *cancellable,
                                  GError             **error);
void       rlx_bert_free         (RlxBert             *self);
const RlxBertConfig *
           rlx_bert_get_config   (const RlxBert       *self);
/* A graph of @texts texts of @tokens tokens each. Its inputs are the tokens, i32 [texts, tokens]; how many
 * of them are valid, i32 [texts]; and their weights in the result, f32 [texts, 1, tokens]. Its output is
 * f32 [texts, width]. All graphs share the weights. */
RlxGraph * rlx_bert_build        (RlxBert             *self,
                                  gint64               texts,
                                  gint64               tokens,
                                  GError             **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (RlxBert, rlx_bert_free)

G_END_DECLS
