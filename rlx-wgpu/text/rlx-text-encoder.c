/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-text-encoder.h"

#include <string.h>

#include "rlx-executable.h"
#include "rlx-job-private.h"
#include "text/rlx-bert-private.h"
#include "text/rlx-tokenizer-private.h"

/* Texts are run in groups of similar length, with one executable for each group size and length. */
#define SHORTEST 16
#define MAX_GROUP_TOKENS 4096
#define MAX_EXECUTABLES 8
#define MAX_TEXTS 1048576

/**
 * RlxTextEncoder:
 *
 * A language model that embeds texts: it turns them into vectors, such that texts with
 * similar meanings have similar directions. This is useful for semantic search,
 * clustering and finding duplicates.
 *
 * It is opened from a folder as saved by `sentence-transformers`: `config.json` of a BERT model,
 * `model.safetensors`, `vocab.txt`, and the files that describe the pooling of token vectors.
 * Everything but the tokenizer runs on the device.
 *
 * ```python
 * encoder = Rlx.TextEncoder.open(Gio.File.new_for_path('all-MiniLM-L6-v2'), None, None)
 * a, b = encoder.encode(['A man eats.', 'Somebody has a meal.']).numpy()
 * print(a @ b)
 * ```
 *
 * Texts with more tokens than the model accepts are truncated. An encoder can be used from any
 * thread.
 *
 * Since: 1.0
 */
struct _RlxTextEncoder
{
  GObject parent_instance;

  RlxDevice *device;
  RlxTokenizer *tokenizer;
  RlxBert *bert;

  GMutex mutex;
  GQueue made;               /* Made, most recently used first; under the mutex */
};

typedef struct
{
  gint64 texts, tokens;
  RlxExecutable *executable;
} Made;

/* A tokenised text, and the row of its vector in the result. */
typedef struct
{
  gint *tokens;
  gsize n_tokens;
  gsize row;
} Text;

enum
{
  PROP_0,
  PROP_DEVICE,
  PROP_TOKENIZER,
  PROP_MAX_TOKENS,
  PROP_WIDTH,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

G_DEFINE_FINAL_TYPE (RlxTextEncoder, rlx_text_encoder, G_TYPE_OBJECT)

static void
made_free (gpointer data)
{
  Made *made = data;

  g_object_unref (made->executable);
  g_free (made);
}

static void
rlx_text_encoder_finalize (GObject *object)
{
  RlxTextEncoder *self = RLX_TEXT_ENCODER (object);

  g_queue_clear_full (&self->made, made_free);
  g_clear_pointer (&self->bert, rlx_bert_free);
  g_clear_object (&self->tokenizer);
  g_clear_object (&self->device);
  g_mutex_clear (&self->mutex);
  G_OBJECT_CLASS (rlx_text_encoder_parent_class)->finalize (object);
}

static void
rlx_text_encoder_get_property (GObject    *object,
                               guint       id,
                               GValue     *value,
                               GParamSpec *pspec)
{
  RlxTextEncoder *self = RLX_TEXT_ENCODER (object);

  switch (id)
    {
    case PROP_DEVICE:
      g_value_set_object (value, self->device);
      break;
    case PROP_TOKENIZER:
      g_value_set_object (value, self->tokenizer);
      break;
    case PROP_MAX_TOKENS:
      g_value_set_uint (value, rlx_text_encoder_get_max_tokens (self));
      break;
    case PROP_WIDTH:
      g_value_set_uint (value, rlx_text_encoder_get_width (self));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
rlx_text_encoder_class_init (RlxTextEncoderClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

  object_class->finalize = rlx_text_encoder_finalize;
  object_class->get_property = rlx_text_encoder_get_property;

  /**
   * RlxTextEncoder:device: (getter get_device)
   *
   * The device it runs on.
   *
   * Since: 1.0
   */
  properties[PROP_DEVICE] = g_param_spec_object ("device", NULL, NULL, RLX_TYPE_DEVICE, flags);
  /**
   * RlxTextEncoder:tokenizer: (getter get_tokenizer)
   *
   * The tokenizer.
   *
   * Since: 1.0
   */
  properties[PROP_TOKENIZER] = g_param_spec_object ("tokenizer", NULL, NULL, RLX_TYPE_TOKENIZER, flags);
  /**
   * RlxTextEncoder:max-tokens: (getter get_max_tokens)
   *
   * The largest number of tokens per text, including the special ones around it.
   *
   * Since: 1.0
   */
  properties[PROP_MAX_TOKENS] = g_param_spec_uint ("max-tokens", NULL, NULL, 0, G_MAXUINT, 0, flags);
  /**
   * RlxTextEncoder:width: (getter get_width)
   *
   * The length of the vectors.
   *
   * Since: 1.0
   */
  properties[PROP_WIDTH] = g_param_spec_uint ("width", NULL, NULL, 0, G_MAXUINT, 0, flags);
  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
rlx_text_encoder_init (RlxTextEncoder *self)
{
  g_mutex_init (&self->mutex);
  g_queue_init (&self->made);
}

/**
 * rlx_text_encoder_open:
 * @folder: the folder of a model
 * @device: (nullable): the device, or %NULL for the default one
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Opens a model and loads its weights. They are uploaded when the first texts are
 * encoded.
 *
 * Returns: (transfer full): an encoder
 *
 * Since: 1.0
 */
RlxTextEncoder *
rlx_text_encoder_open (GFile        *folder,
                       RlxDevice    *device,
                       GCancellable *cancellable,
                       GError      **error)
{
  g_autoptr(RlxTextEncoder) self = NULL;

  g_return_val_if_fail (G_IS_FILE (folder), NULL);
  g_return_val_if_fail (device == NULL || RLX_IS_DEVICE (device), NULL);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  self = g_object_new (RLX_TYPE_TEXT_ENCODER, NULL);
  self->tokenizer = rlx_tokenizer_open (folder, cancellable, error);
  if (self->tokenizer == NULL)
    return NULL;
  self->bert = rlx_bert_open (folder, cancellable, error);
  if (self->bert == NULL)
    return NULL;
  if (rlx_tokenizer_get_n_tokens (self->tokenizer) > rlx_bert_get_config (self->bert)->vocabulary)
    {
      g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_SHAPE, "vocab.txt has %u tokens, but the model knows %" G_GUINT64_FORMAT,
                   rlx_tokenizer_get_n_tokens (self->tokenizer), rlx_bert_get_config (self->bert)->vocabulary);
      return NULL;
    }
  if (device == NULL)
    device = rlx_device_get_default (error);
  if (device == NULL)
    return NULL;
  self->device = g_object_ref (device);
  return g_steal_pointer (&self);
}

static gpointer
open_in_thread (GFile        *folder,
                RlxDevice    *device,
                GCancellable *cancellable,
                GError      **error)
{
  return rlx_text_encoder_open (folder, device, cancellable, error);
}

/**
 * rlx_text_encoder_open_async:
 * @folder: the folder of a model
 * @device: (nullable): the device, or %NULL for the default one
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the model has been opened
 * @user_data: data for @callback
 *
 * Opens a model and loads its weights, without blocking.
 *
 * Since: 1.0
 */
void
rlx_text_encoder_open_async (GFile              *folder,
                             RlxDevice          *device,
                             GCancellable       *cancellable,
                             GAsyncReadyCallback callback,
                             gpointer            user_data)
{
  g_return_if_fail (G_IS_FILE (folder));
  g_return_if_fail (device == NULL || RLX_IS_DEVICE (device));
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  rlx_thread_open (rlx_text_encoder_open_async, open_in_thread, folder, device, cancellable, callback, user_data);
}

/**
 * rlx_text_encoder_open_finish:
 * @result: the result given to the callback
 * @error: return location for an error
 *
 * Finishes an operation started with [func@Rlx.TextEncoder.open_async].
 *
 * Returns: (transfer full): an encoder
 *
 * Since: 1.0
 */
RlxTextEncoder *
rlx_text_encoder_open_finish (GAsyncResult *result,
                              GError      **error)
{
  g_return_val_if_fail (g_task_is_valid (result, NULL), NULL);

  return g_task_propagate_pointer (G_TASK (result), error);
}

/**
 * rlx_text_encoder_get_device:
 * @self: an encoder
 *
 * Gets the device it runs on.
 *
 * Returns: (transfer none): the device
 *
 * Since: 1.0
 */
RlxDevice *
rlx_text_encoder_get_device (RlxTextEncoder *self)
{
  g_return_val_if_fail (RLX_IS_TEXT_ENCODER (self), NULL);

  return self->device;
}

/**
 * rlx_text_encoder_get_tokenizer:
 * @self: an encoder
 *
 * Gets the tokenizer.
 *
 * Returns: (transfer none): the tokenizer
 *
 * Since: 1.0
 */
RlxTokenizer *
rlx_text_encoder_get_tokenizer (RlxTextEncoder *self)
{
  g_return_val_if_fail (RLX_IS_TEXT_ENCODER (self), NULL);

  return self->tokenizer;
}

/**
 * rlx_text_encoder_get_max_tokens:
 * @self: an encoder
 *
 * Gets the largest number of tokens per text, including the special ones around it.
 * Longer texts are truncated.
 *
 * Returns: a number
 *
 * Since: 1.0
 */
guint
rlx_text_encoder_get_max_tokens (RlxTextEncoder *self)
{
  g_return_val_if_fail (RLX_IS_TEXT_ENCODER (self), 0);

  return self->bert != NULL ? (guint) rlx_bert_get_config (self->bert)->max_tokens : 0;
}

/**
 * rlx_text_encoder_get_width:
 * @self: an encoder
 *
 * Gets the length of the vectors.
 *
 * Returns: a number
 *
 * Since: 1.0
 */
guint
rlx_text_encoder_get_width (RlxTextEncoder *self)
{
  g_return_val_if_fail (RLX_IS_TEXT_ENCODER (self), 0);

  return self->bert != NULL ? (guint) rlx_bert_get_config (self->bert)->width : 0;
}

/* ---- running --------------------------------------------------------------------------------------- */

static void
text_clear (gpointer data)
{
  g_free (((Text *) data)->tokens);
}

/* Longest texts first; texts of the same length keep their order. */
static int
compare_texts (gconstpointer a,
               gconstpointer b)
{
  const Text *first = a, *second = b;

  if (first->n_tokens != second->n_tokens)
    return first->n_tokens < second->n_tokens ? 1 : -1;
  return first->row < second->row ? -1 : first->row > second->row;
}

static GArray *
cut_texts (RlxTextEncoder    *self,
           const char *const *texts,
           GCancellable      *cancellable,
           GError           **error)
{
  const gsize max = rlx_bert_get_config (self->bert)->max_tokens;
  g_autoptr(GArray) result = g_array_new (FALSE, FALSE, sizeof (Text));

  g_array_set_clear_func (result, text_clear);
  for (gsize i = 0; texts[i] != NULL; i++)
    {
      Text text = { NULL, 0, i };

      if (i == MAX_TEXTS)
        {
          g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_LIMIT, "There are more than %d texts, which is the limit", MAX_TEXTS);
          return NULL;
        }
      if (g_cancellable_set_error_if_cancelled (cancellable, error))
        return NULL;
      text.tokens = rlx_tokenizer_encode (self->tokenizer, texts[i], TRUE, &text.n_tokens, error);
      if (text.tokens == NULL)
        {
          g_prefix_error (error, "Text %" G_GSIZE_FORMAT ": ", i);
          return NULL;
        }
      if (text.n_tokens > max)
        {
          text.tokens[max - 1] = text.tokens[text.n_tokens - 1];
          text.n_tokens = max;
          text.tokens = g_renew (gint, text.tokens, max);
        }
      g_array_append_val (result, text);
    }
  g_array_sort (result, compare_texts);
  return g_steal_pointer (&result);
}

static RlxExecutable *
prepare (RlxTextEncoder *self,
         gint64          texts,
         gint64          tokens,
         GCancellable   *cancellable,
         GError        **error)
{
  g_autoptr(RlxGraph) graph = NULL;
  RlxExecutable *executable;
  Made *made;

  g_mutex_lock (&self->mutex);
  for (GList *link = self->made.head; link != NULL; link = link->next)
    {
      made = link->data;
      if (made->texts == texts && made->tokens == tokens)
        {
          g_queue_unlink (&self->made, link);
          g_queue_push_head_link (&self->made, link);
          executable = g_object_ref (made->executable);
          g_mutex_unlock (&self->mutex);
          return executable;
        }
    }
  g_mutex_unlock (&self->mutex);

  /* Two threads may compile the same one; either can be used. */
  graph = rlx_bert_build (self->bert, texts, tokens, error);
  executable = graph != NULL ? rlx_device_compile (self->device, graph, NULL, cancellable, error) : NULL;
  if (executable == NULL)
    return NULL;
  made = g_new (Made, 1);
  *made = (Made) { texts, tokens, g_object_ref (executable) };
  g_mutex_lock (&self->mutex);
  g_queue_push_head (&self->made, made);
  made = self->made.length > MAX_EXECUTABLES ? g_queue_pop_tail (&self->made) : NULL;
  g_mutex_unlock (&self->mutex);
  g_clear_pointer (&made, made_free);
  return executable;
}

/* Runs @n texts of up to @length tokens and stores their vectors in the rows of @result. */
static gboolean
run_group (RlxTextEncoder *self,
           const Text     *texts,
           gint64          n,
           gint64          length,
           float          *result,
           GCancellable   *cancellable,
           GError        **error)
{
  const RlxBertConfig *config = rlx_bert_get_config (self->bert);
  const gint64 shape[] = { n, length }, share_shape[] = { n, 1, length };
  const gint padding = rlx_tokenizer_get_padding (self->tokenizer);
  g_autoptr(RlxExecutable) executable = prepare (self, n, length, cancellable, error);
  g_autofree gint32 *tokens = g_new (gint32, (gsize) (n * length)), *lengths = g_new (gint32, (gsize) n);
  g_autofree float *shares = g_new0 (float, (gsize) (n * length));
  g_autoptr(RlxTensor) token_tensor = NULL, length_tensor = NULL, share_tensor = NULL;
  g_auto(RlxTensors) outputs = NULL;
  GBytes *bytes;
  const float *values;
  gsize n_outputs;

  if (executable == NULL)
    return FALSE;
  for (gint64 i = 0; i < n; i++)
    {
      const gsize count = texts[i].n_tokens;

      lengths[i] = (gint32) count;
      for (gsize j = 0; j < (gsize) length; j++)
        {
          tokens[i * length + (gint64) j] = j < count ? texts[i].tokens[j] : padding;
          if (config->first ? j == 0 : j < count)
            shares[i * length + (gint64) j] = config->first ? 1 : 1 / (float) count;
        }
    }
  token_tensor = rlx_tensor_new_from_data (RLX_DATA_TYPE_I32, shape, 2, (guint8 *) tokens, (gsize) (n * length) * 4, error);
  length_tensor = rlx_tensor_new_from_data (RLX_DATA_TYPE_I32, shape, 1, (guint8 *) lengths, (gsize) n * 4, error);
  share_tensor = rlx_tensor_new_from_data (RLX_DATA_TYPE_F32, share_shape, 3, (guint8 *) shares, (gsize) (n * length) * 4, error);
  if (token_tensor == NULL || length_tensor == NULL || share_tensor == NULL)
    return FALSE;
  outputs = rlx_executable_run (executable, (RlxTensor *[]) { token_tensor, length_tensor, share_tensor }, 3, &n_outputs, cancellable,
                                error);
  bytes = outputs != NULL ? rlx_tensor_get_bytes (outputs[0]) : NULL;
  if (bytes == NULL)
    return FALSE;
  values = g_bytes_get_data (bytes, NULL);
  for (gint64 i = 0; i < n; i++)
    memcpy (result + texts[i].row * config->width, values + i * (gint64) config->width, config->width * sizeof (float));
  return TRUE;
}

/**
 * rlx_text_encoder_encode:
 * @self: an encoder
 * @texts: (array zero-terminated=1): the texts
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Turns texts into vectors.
 *
 * Texts are processed in batches of similar length. The vector of a text does not depend on the other texts,
 * except for the last bits.
 *
 * Returns: (transfer full): the vectors, of type `f32` and shape [texts, width]
 *
 * Since: 1.0
 */
RlxTensor *
rlx_text_encoder_encode (RlxTextEncoder    *self,
                         const char *const *texts,
                         GCancellable      *cancellable,
                         GError           **error)
{
  g_autoptr(GArray) list = NULL;
  g_autofree float *result = NULL;
  g_autoptr(GBytes) bytes = NULL;
  gint64 shape[2];
  gsize done = 0;

  g_return_val_if_fail (RLX_IS_TEXT_ENCODER (self) && self->bert != NULL, NULL);
  g_return_val_if_fail (texts != NULL, NULL);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  list = cut_texts (self, texts, cancellable, error);
  if (list == NULL)
    return NULL;
  shape[0] = list->len;
  shape[1] = (gint64) rlx_bert_get_config (self->bert)->width;
  result = g_try_new (float, MAX ((gsize) (shape[0] * shape[1]), 1));
  if (result == NULL)
    {
      g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_LIMIT, "There is no memory for %u vectors of %" G_GINT64_FORMAT " numbers", list->len,
                   shape[1]);
      return NULL;
    }
  while (done < list->len)
    {
      const Text *group = &g_array_index (list, Text, done);
      gint64 length = SHORTEST, n = 1;

      while (length < (gint64) group->n_tokens)
        length *= 2;
      length = MIN (length, (gint64) rlx_bert_get_config (self->bert)->max_tokens);
      /* 1, 4 or 16 of them, so that there are few sizes. */
      while (n < 16 && done + (gsize) n * 4 <= list->len && n * 4 * length <= MAX_GROUP_TOKENS)
        n *= 4;
      if (!run_group (self, group, n, length, result, cancellable, error))
        return NULL;
      done += (gsize) n;
    }
  bytes = g_bytes_new_take (g_steal_pointer (&result), (gsize) (shape[0] * shape[1]) * sizeof (float));
  return rlx_tensor_new_from_bytes (RLX_DATA_TYPE_F32, shape, 2, bytes, error);
}

typedef struct
{
  RlxTextEncoder *encoder;
  char **texts;
} Encoding;

static void
encoding_free (gpointer data)
{
  Encoding *encoding = data;

  g_object_unref (encoding->encoder);
  g_strfreev (encoding->texts);
  g_free (encoding);
}

static gpointer
encode_in_thread (gpointer      data,
                  GCancellable *cancellable,
                  GError      **error)
{
  Encoding *encoding = data;

  return rlx_text_encoder_encode (encoding->encoder, (const char *const *) encoding->texts, cancellable, error);
}

/**
 * rlx_text_encoder_encode_async:
 * @self: an encoder
 * @texts: (array zero-terminated=1): the texts
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the vectors are available
 * @user_data: data for @callback
 *
 * Turns texts into vectors, without blocking.
 *
 * Since: 1.0
 */
void
rlx_text_encoder_encode_async (RlxTextEncoder     *self,
                               const char *const  *texts,
                               GCancellable       *cancellable,
                               GAsyncReadyCallback callback,
                               gpointer            user_data)
{
  Encoding *encoding;

  g_return_if_fail (RLX_IS_TEXT_ENCODER (self) && self->bert != NULL);
  g_return_if_fail (texts != NULL);
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  encoding = g_new (Encoding, 1);
  *encoding = (Encoding) { g_object_ref (self), g_strdupv ((char **) texts) };
  rlx_thread_start (self, rlx_text_encoder_encode_async, encode_in_thread, g_object_unref, encoding, encoding_free, cancellable, callback,
                    user_data);
}

/**
 * rlx_text_encoder_encode_finish:
 * @self: an encoder
 * @result: the result given to the callback
 * @error: return location for an error
 *
 * Finishes an operation started with [method@Rlx.TextEncoder.encode_async].
 *
 * Returns: (transfer full): the vectors, of type `f32` and shape [texts, width]
 *
 * Since: 1.0
 */
RlxTensor *
rlx_text_encoder_encode_finish (RlxTextEncoder *self,
                                GAsyncResult   *result,
                                GError        **error)
{
  g_return_val_if_fail (RLX_IS_TEXT_ENCODER (self), NULL);
  g_return_val_if_fail (g_task_is_valid (result, self), NULL);

  return g_task_propagate_pointer (G_TASK (result), error);
}
