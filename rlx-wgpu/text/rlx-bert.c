/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "text/rlx-bert-private.h"

#include <math.h>
#include <string.h>

#include "formats/rlx-json-private.h"
#include "rlx-op-methods.h"
#include "rlx-op-options.h"
#include "rlx-tensor.h"
#include "text/rlx-text-file-private.h"

/* Limits of sizes in config.json; the weights must agree with these sizes. */
#define MAX_WIDTH 65536
#define MAX_LAYERS 1024
#define MAX_POSITIONS 65536
#define MAX_VOCABULARY 1048576

struct _RlxBert
{
  RlxBertConfig config;
  const char *prefix;        /* of tensor names */
  GHashTable *tensors;       /* name → RlxTensor; immutable */
};

const RlxBertConfig *
rlx_bert_get_config (const RlxBert *self)
{
  return &self->config;
}

void
rlx_bert_free (RlxBert *self)
{
  g_hash_table_unref (self->tensors);
  g_free (self);
}

/* ---- what the folder says ------------------------------------------------------------------------ */

static gboolean
unsupported (GError    **error,
             const char *file,
             const char *member,
             const char *value,
             const char *known)
{
  g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_UNSUPPORTED, "%s: “%s” is “%s”; only “%s” can be run", file, member, value, known);
  return FALSE;
}

static gboolean
read_config (RlxBertConfig *config,
             GFile         *folder,
             GCancellable  *cancellable,
             GError       **error)
{
  g_autofree char *kind = NULL, *activation = NULL, *positions = NULL;
  gboolean decoder = FALSE;
  g_autoptr(GBytes) text = NULL;
  const RlxTextMember members[] = {
    { .name = "model_type", .string = &kind },
    { .name = "hidden_act", .string = &activation },
    { .name = "position_embedding_type", .string = &positions },
    { .name = "is_decoder", .boolean = &decoder },
    { .name = "hidden_size", .number = &config->width, .max = MAX_WIDTH },
    { .name = "num_attention_heads", .number = &config->heads, .max = MAX_WIDTH },
    { .name = "num_hidden_layers", .number = &config->layers, .max = MAX_LAYERS },
    { .name = "intermediate_size", .number = &config->hidden, .max = 4 * MAX_WIDTH },
    { .name = "vocab_size", .number = &config->vocabulary, .max = MAX_VOCABULARY },
    { .name = "max_position_embeddings", .number = &config->positions, .max = MAX_POSITIONS },
    { .name = "layer_norm_eps", .real = &config->epsilon },
  };

  config->epsilon = 1e-12;
  text = rlx_text_file_load (folder, "config.json", FALSE, cancellable, error);
  if (text == NULL || !rlx_text_members_read (text, "config.json", members, G_N_ELEMENTS (members), error))
    return FALSE;
  if (g_strcmp0 (kind, "bert") != 0)
    return unsupported (error, "config.json", "model_type", kind != NULL ? kind : "", "bert");
  if (activation != NULL && strcmp (activation, "gelu") != 0)
    return unsupported (error, "config.json", "hidden_act", activation, "gelu");
  if (positions != NULL && strcmp (positions, "absolute") != 0)
    return unsupported (error, "config.json", "position_embedding_type", positions, "absolute");
  if (decoder)
    return unsupported (error, "config.json", "is_decoder", "true", "false");
  for (gsize i = 0; i < G_N_ELEMENTS (members); i++)
    if (members[i].number != NULL && *members[i].number == 0)
      {
        g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_PARSE, "config.json: “%s” is 0 or missing", members[i].name);
        return FALSE;
      }
  if (config->width % config->heads != 0)
    {
      g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_PARSE, "config.json: “hidden_size” is %" G_GUINT64_FORMAT ", which is not a multiple of "
                   "“num_attention_heads”, %" G_GUINT64_FORMAT, config->width, config->heads);
      return FALSE;
    }
  if (!(config->epsilon > 0) || config->epsilon > 1)
    {
      g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_PARSE, "config.json: “layer_norm_eps” is %g, which is not between 0 and 1",
                   config->epsilon);
      return FALSE;
    }
  config->max_tokens = config->positions;
  return TRUE;
}

/* Reads the list of modules, which are applied in order. Of those supported, only the last, “Normalize”, matters. */
static gboolean
read_modules (RlxBertConfig *config,
              GBytes        *text,
              GError       **error)
{
  g_autoptr(GString) name = g_string_new (NULL);
  gsize size;
  const char *start = g_bytes_get_data (text, &size);
  RlxJson json = { start, start, start + size, 0 };
  gboolean first = TRUE, more;

  if (!rlx_json_expect (&json, '[', error))
    return FALSE;
  for (;;)
    {
      g_autofree char *kind = NULL;
      gboolean first_member = TRUE;

      if (!rlx_json_next (&json, ']', &first, &more, error))
        return FALSE;
      if (!more)
        return rlx_json_end (&json, error);
      if (!rlx_json_expect (&json, '{', error))
        return FALSE;
      for (;;)
        {
          gboolean wanted;

          if (!rlx_json_next (&json, '}', &first_member, &more, error))
            return FALSE;
          if (!more)
            break;
          if (!rlx_json_string (&json, name, error) || !rlx_json_expect (&json, ':', error))
            return FALSE;
          wanted = strcmp (name->str, "type") == 0 && kind == NULL;
          if (wanted ? !rlx_json_string (&json, name, error) : !rlx_json_skip (&json, error))
            return FALSE;
          if (wanted)
            kind = g_strdup (name->str);
        }
      if (kind == NULL)
        return rlx_json_fail (&json, error, "a module has no “type”");
      if (g_str_has_suffix (kind, ".Normalize"))
        config->normalize = TRUE;
      else if (!g_str_has_suffix (kind, ".Transformer") && !g_str_has_suffix (kind, ".Pooling"))
        return unsupported (error, "modules.json", "type", kind, "Transformer, Pooling, Normalize");
    }
}

/* Reads the files that sentence-transformers adds. Without them, a text is represented by the mean of its tokens. */
static gboolean
read_sentences (RlxBertConfig *config,
                GFile         *folder,
                GCancellable  *cancellable,
                GError       **error)
{
  gboolean mean = FALSE, longest = FALSE, root = FALSE, weighted = FALSE, last = FALSE;
  guint64 max_tokens = 0;
  const RlxTextMember limits[] = { { .name = "max_seq_length", .number = &max_tokens, .max = G_MAXUINT32 } };
  const RlxTextMember pooling[] = {
    { .name = "pooling_mode_cls_token", .boolean = &config->first },
    { .name = "pooling_mode_mean_tokens", .boolean = &mean },
    { .name = "pooling_mode_max_tokens", .boolean = &longest },
    { .name = "pooling_mode_mean_sqrt_len_tokens", .boolean = &root },
    { .name = "pooling_mode_weightedmean_tokens", .boolean = &weighted },
    { .name = "pooling_mode_lasttoken", .boolean = &last },
  };
  const char *const names[] = { "sentence_bert_config.json", "1_Pooling/config.json", "modules.json" };

  for (gsize i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autoptr(GError) local = NULL;
      g_autoptr(GBytes) text = rlx_text_file_load (folder, names[i], TRUE, cancellable, &local);

      if (local != NULL)
        {
          g_propagate_error (error, g_steal_pointer (&local));
          return FALSE;
        }
      if (text == NULL)
        continue;
      if (i < 2 ? !rlx_text_members_read (text, names[i], i == 0 ? limits : pooling, i == 0 ? 1 : G_N_ELEMENTS (pooling), error)
                : !read_modules (config, text, error))
        return FALSE;
      if (i == 1 && (longest || root || weighted || last || mean == config->first))
        return unsupported (error, names[i], "pooling_mode", "another", "cls_token, mean_tokens");
    }
  if (max_tokens > 0)
    config->max_tokens = MIN (config->max_tokens, max_tokens);
  if (config->max_tokens < 3)
    {
      g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_LIMIT, "The model takes %" G_GUINT64_FORMAT " tokens; the least is 3", config->max_tokens);
      return FALSE;
    }
  return TRUE;
}

/* ---- weights ------------------------------------------------------------------------------------- */

/* Loads a tensor, which must have this shape; @columns is 0 for a vector. */
static gboolean
load (RlxBert      *self,
      RlxWeights   *weights,
      const char   *name,
      guint64       rows,
      guint64       columns,
      GCancellable *cancellable,
      GError      **error)
{
  g_autofree char *full = g_strconcat (self->prefix, name, NULL);
  g_autoptr(RlxWeightsEntry) entry = rlx_weights_lookup (weights, full);
  const gsize wanted = columns > 0 ? 2 : 1;
  const gint64 *shape;
  RlxTensor *tensor;
  gsize n_dims;

  if (entry == NULL)
    {
      g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_NOT_FOUND, "model.safetensors has no tensor “%s”", full);
      return FALSE;
    }
  shape = rlx_weights_entry_get_shape (entry, &n_dims);
  if (n_dims != wanted || shape[0] != (gint64) rows || (columns > 0 && shape[1] != (gint64) columns))
    {
      g_autofree char *where = columns > 0 ? g_strdup_printf ("[%" G_GUINT64_FORMAT ", %" G_GUINT64_FORMAT "]", rows, columns)
                                           : g_strdup_printf ("[%" G_GUINT64_FORMAT "]", rows);

      g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_SHAPE, "Tensor “%s” does not have the shape that config.json asks for, %s", full, where);
      return FALSE;
    }
  tensor = rlx_weights_load_tensor (weights, full, cancellable, error);
  if (tensor == NULL)
    return FALSE;
  if (rlx_tensor_get_data_type (tensor) != RLX_DATA_TYPE_F32 && rlx_tensor_get_data_type (tensor) != RLX_DATA_TYPE_F16)
    {
      g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_DATA_TYPE, "Tensor “%s” is %s; floating-point numbers are required", full,
                   rlx_weights_entry_get_type_name (entry));
      g_object_unref (tensor);
      return FALSE;
    }
  g_hash_table_insert (self->tensors, g_strdup (name), tensor);
  return TRUE;
}

/* Loads a matrix and a vector: "NAME.weight" and "NAME.bias". */
static gboolean
load_pair (RlxBert      *self,
           RlxWeights   *weights,
           const char   *name,
           guint64       rows,
           guint64       columns,
           GCancellable *cancellable,
           GError      **error)
{
  g_autofree char *weight = g_strconcat (name, ".weight", NULL), *bias = g_strconcat (name, ".bias", NULL);

  return load (self, weights, weight, rows, columns, cancellable, error) && load (self, weights, bias, rows, 0, cancellable, error);
}

typedef struct
{
  const char *name;
  guint64 rows, columns;
} Part;

static gboolean
load_all (RlxBert      *self,
          RlxWeights   *weights,
          GCancellable *cancellable,
          GError      **error)
{
  const guint64 width = self->config.width, hidden = self->config.hidden;
  const Part parts[] = {
    { "attention.self.query", width, width },
    { "attention.self.key", width, width },
    { "attention.self.value", width, width },
    { "attention.output.dense", width, width },
    { "attention.output.LayerNorm", width, 0 },
    { "intermediate.dense", hidden, width },
    { "output.dense", width, hidden },
    { "output.LayerNorm", width, 0 },
  };

  if (!load (self, weights, "embeddings.word_embeddings.weight", self->config.vocabulary, width, cancellable, error) ||
      !load (self, weights, "embeddings.position_embeddings.weight", self->config.positions, width, cancellable, error) ||
      !load (self, weights, "embeddings.token_type_embeddings.weight", 2, width, cancellable, error) ||
      !load_pair (self, weights, "embeddings.LayerNorm", width, 0, cancellable, error))
    return FALSE;
  for (guint64 i = 0; i < self->config.layers; i++)
    for (gsize j = 0; j < G_N_ELEMENTS (parts); j++)
      {
        g_autofree char *name = g_strdup_printf ("encoder.layer.%" G_GUINT64_FORMAT ".%s", i, parts[j].name);

        if (!load_pair (self, weights, name, parts[j].rows, parts[j].columns, cancellable, error))
          return FALSE;
      }
  return TRUE;
}

RlxBert *
rlx_bert_open (GFile        *folder,
               GCancellable *cancellable,
               GError      **error)
{
  g_autoptr(RlxBert) self = g_new0 (RlxBert, 1);
  g_autoptr(GFile) file = g_file_get_child (folder, "model.safetensors");
  g_autoptr(RlxWeights) weights = NULL;
  g_autoptr(RlxWeightsEntry) prefixed = NULL;

  self->tensors = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_object_unref);
  if (!read_config (&self->config, folder, cancellable, error) || !read_sentences (&self->config, folder, cancellable, error))
    return NULL;
  weights = rlx_weights_open (file, cancellable, error);
  if (weights == NULL)
    return NULL;
  /* the prefix in models with a task-specific head */
  prefixed = rlx_weights_lookup (weights, "bert.embeddings.word_embeddings.weight");
  self->prefix = prefixed != NULL ? "bert." : "";
  return load_all (self, weights, cancellable, error) ? g_steal_pointer (&self) : NULL;
}

/* ---- the graph ------------------------------------------------------------------------------------ */

typedef struct
{
  RlxBert *bert;
  RlxGraph *graph;
  GError **error;
  gint64 texts, tokens;
} Builder;

/* The tensor @part of @scope. */
static RlxNode *
constant (Builder    *self,
          const char *scope,
          const char *part)
{
  g_autofree char *name = g_strconcat (scope, part, NULL);
  RlxTensor *tensor = g_hash_table_lookup (self->bert->tensors, name);

  RlxNode *node = rlx_graph_constant (self->graph, tensor, self->error);

  if (rlx_tensor_get_data_type (tensor) == RLX_DATA_TYPE_F16)
    node = rlx_node_cast (node, RLX_DATA_TYPE_F32, self->error);
  return node;
}

static RlxNode *
linear (Builder    *self,
        RlxNode    *x,
        const char *scope,
        const char *part)
{
  g_autofree char *weight = g_strconcat (part, ".weight", NULL), *bias = g_strconcat (part, ".bias", NULL);
  g_autoptr(RlxLinearOptions) options = rlx_linear_options_new ();

  rlx_linear_options_set_transpose_b (options, TRUE);
  return rlx_node_linear (x, constant (self, scope, weight), constant (self, scope, bias), options, self->error);
}

static RlxNode *
norm (Builder    *self,
      RlxNode    *x,
      const char *scope,
      const char *part)
{
  g_autofree char *weight = g_strconcat (part, ".weight", NULL), *bias = g_strconcat (part, ".bias", NULL);
  g_autoptr(RlxLayerNormOptions) options = rlx_layer_norm_options_new ();

  rlx_layer_norm_options_set_epsilon (options, self->bert->config.epsilon);
  return rlx_node_layer_norm (x, constant (self, scope, weight), constant (self, scope, bias), options, self->error);
}

/* The first rows of a table, to be added to every text. */
static RlxNode *
rows (Builder    *self,
      const char *name,
      gint64      n)
{
  const gint64 start[] = { 0, 0 }, size[] = { n, (gint64) self->bert->config.width };

  return rlx_node_slice (constant (self, "embeddings.", name), start, 2, size, 2, NULL, self->error);
}

static RlxNode *
layer (Builder *self,
       RlxNode *x,
       RlxNode *lengths,
       guint64  i)
{
  const RlxBertConfig *config = &self->bert->config;
  g_autofree char *scope = g_strdup_printf ("encoder.layer.%" G_GUINT64_FORMAT ".", i);
  g_autoptr(RlxAttentionOptions) options = rlx_attention_options_new ();
  const gint64 split[] = { self->texts, self->tokens, (gint64) config->heads, (gint64) (config->width / config->heads) };
  const gint64 joined[] = { self->texts, self->tokens, (gint64) config->width };
  GError **error = self->error;
  RlxNode *q = rlx_node_reshape (linear (self, x, scope, "attention.self.query"), split, 4, error);
  RlxNode *k = rlx_node_reshape (linear (self, x, scope, "attention.self.key"), split, 4, error);
  RlxNode *v = rlx_node_reshape (linear (self, x, scope, "attention.self.value"), split, 4, error);
  RlxNode *y;

  rlx_attention_options_set_layout (options, RLX_HEAD_LAYOUT_SEQUENCE_FIRST);
  y = rlx_node_reshape (rlx_node_attention (q, k, v, NULL, lengths, NULL, options, error), joined, 3, error);
  x = norm (self, rlx_node_add (linear (self, y, scope, "attention.output.dense"), x, error), scope, "attention.output.LayerNorm");
  y = rlx_node_gelu (linear (self, x, scope, "intermediate.dense"), error);
  return norm (self, rlx_node_add (linear (self, y, scope, "output.dense"), x, error), scope, "output.LayerNorm");
}

RlxGraph *
rlx_bert_build (RlxBert *bert,
                gint64   texts,
                gint64   tokens,
                GError **error)
{
  const gint64 shape[] = { texts, tokens }, shares[] = { texts, 1, tokens }, result[] = { texts, (gint64) bert->config.width };
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(GError) local = NULL;
  Builder self = { bert, graph, &local, texts, tokens };
  RlxNode *ids = rlx_graph_input (graph, "tokens", RLX_DATA_TYPE_I32, shape, 2, &local);
  RlxNode *lengths = rlx_graph_input (graph, "lengths", RLX_DATA_TYPE_I32, shape, 1, &local);
  RlxNode *weights = rlx_graph_input (graph, "shares", RLX_DATA_TYPE_F32, shares, 3, &local);
  RlxNode *x = rlx_node_gather (constant (&self, "embeddings.", "word_embeddings.weight"), ids, 0, NULL, &local);
  RlxNode *places = rlx_node_add (rows (&self, "position_embeddings.weight", tokens), rows (&self, "token_type_embeddings.weight", 1), &local);

  x = norm (&self, rlx_node_add (x, places, &local), "embeddings.", "LayerNorm");
  for (guint64 i = 0; i < bert->config.layers && local == NULL; i++)
    x = layer (&self, x, lengths, i);
  x = rlx_node_reshape (rlx_node_matmul (weights, x, NULL, &local), result, 2, &local);
  if (bert->config.normalize)
    x = rlx_node_lp_norm (x, NULL, &local);
  rlx_graph_output (graph, "y", x, &local);
  if (local == NULL)
    return g_steal_pointer (&graph);
  g_propagate_error (error, g_steal_pointer (&local));
  return NULL;
}
