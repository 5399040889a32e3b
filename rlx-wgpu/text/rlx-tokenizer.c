/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "text/rlx-tokenizer-private.h"

#include <string.h>

#include "formats/rlx-manifest-private.h"
#include "rlx-job-private.h"
#include "text/rlx-text-file-private.h"
#include "text/rlx-wordpiece-private.h"

#define MAX_TOKENS 1048576
#define MAX_TOKEN_BYTES 1024

/* The maximum number of tokens in a text. */
#define MAX_ENCODED (1 << 24)

/**
 * RlxTokenizer:
 *
 * Turns text into the token numbers that a language model takes, and back.
 *
 * It is described by files that come with the model's weights. WordPiece is supported,
 * as used by BERT and the models derived from it, with the files `vocab.txt` and
 * `tokenizer_config.json`.
 *
 * Text never becomes a special token such as `[SEP]`: where a text contains those
 * characters, they are encoded like any others. A program that needs a special token
 * looks it up with [method@Rlx.Tokenizer.find].
 *
 * A tokenizer never changes, so threads can share it.
 *
 * Since: 1.0
 */
struct _RlxTokenizer
{
  GObject parent_instance;

  GBytes *text;              /* contains the tokens */
  GPtrArray *tokens;         /* const char * */
  RlxWordpiece wordpiece;
  gint before, after;        /* tokens at the start and the end of each text */
  gint padding;              /* -1 if there is none */
};

G_DEFINE_FINAL_TYPE (RlxTokenizer, rlx_tokenizer, G_TYPE_OBJECT)

/* The names of special tokens, and how text is normalised. */
typedef struct
{
  char *unknown, *before, *after, *padding, *kind;
  gboolean lower_case, strip_accents, split_chinese;
} Settings;

static void
settings_clear (Settings *settings)
{
  g_free (settings->unknown);
  g_free (settings->before);
  g_free (settings->after);
  g_free (settings->padding);
  g_free (settings->kind);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Settings, settings_clear)

static void
settings_init (Settings *settings,
               gboolean  lower_case)
{
  *settings = (Settings) {
    g_strdup ("[UNK]"), g_strdup ("[CLS]"), g_strdup ("[SEP]"), g_strdup ("[PAD]"), NULL,
    lower_case, lower_case, TRUE
  };
}

static void
rlx_tokenizer_finalize (GObject *object)
{
  RlxTokenizer *self = RLX_TOKENIZER (object);

  g_hash_table_unref (self->wordpiece.ids);
  g_ptr_array_unref (self->tokens);
  g_clear_pointer (&self->text, g_bytes_unref);
  G_OBJECT_CLASS (rlx_tokenizer_parent_class)->finalize (object);
}

static void
rlx_tokenizer_class_init (RlxTokenizerClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = rlx_tokenizer_finalize;
}

static void
rlx_tokenizer_init (RlxTokenizer *self)
{
  self->tokens = g_ptr_array_new ();
  self->wordpiece.ids = g_hash_table_new (g_str_hash, g_str_equal);
}

/* ---- opening ------------------------------------------------------------------------------------ */

static gboolean
add_token (RlxTokenizer *self,
           const char   *token,
           gsize         size,
           guint64       at,
           GError      **error)
{
  const guint id = self->tokens->len;
  gpointer previous;

  if (id == MAX_TOKENS)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_LIMIT, at, "the vocabulary has more than %d tokens, which is the limit", MAX_TOKENS);
  if (size == 0)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, at, "token %u of the vocabulary is empty", id);
  if (size > MAX_TOKEN_BYTES)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_LIMIT, at, "token %u of the vocabulary has %" G_GSIZE_FORMAT " bytes; the limit is %d",
                             id, size, MAX_TOKEN_BYTES);
  if (!g_utf8_validate (token, (gssize) size, NULL))
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, at, "token %u of the vocabulary is not UTF-8", id);
  if (g_hash_table_lookup_extended (self->wordpiece.ids, token, NULL, &previous))
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, at, "token %u of the vocabulary is the same as token %d", id,
                             GPOINTER_TO_INT (previous));
  g_hash_table_insert (self->wordpiece.ids, (gpointer) token, GINT_TO_POINTER ((gint) id));
  g_ptr_array_add (self->tokens, (gpointer) token);
  self->wordpiece.longest = MAX (self->wordpiece.longest, size);
  return TRUE;
}

/* One token per line. The text belongs to this tokenizer, so line ends can be replaced by NUL. */
static gboolean
read_lines (RlxTokenizer *self,
            char         *text,
            gsize         size,
            GError      **error)
{
  char *line = text;

  while (line < text + size)
    {
      char *next = memchr (line, '\n', (gsize) (text + size - line));
      char *end = next != NULL ? next : text + size;
      gsize length;

      if (end > line && end[-1] == '\r')
        end--;
      length = (gsize) (end - line);
      if (memchr (line, '\0', length) != NULL)
        return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, (guint64) (line - text), "token %u of the vocabulary has a NUL", self->tokens->len);
      *end = '\0';
      if (!add_token (self, line, length, (guint64) (line - text), error))
        return FALSE;
      line = next != NULL ? next + 1 : text + size;
    }
  return TRUE;
}

static gboolean
find_special (RlxTokenizer *self,
              const char   *token,
              gint         *id,
              GError      **error)
{
  *id = rlx_tokenizer_find (self, token);
  if (*id >= 0)
    return TRUE;
  g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_NOT_FOUND, "The vocabulary of %u tokens has no token “%s”", self->tokens->len, token);
  return FALSE;
}

static RlxTokenizer *
make (GBytes         *vocabulary,
      const Settings *settings,
      GError        **error)
{
  g_autoptr(RlxTokenizer) self = g_object_new (RLX_TYPE_TOKENIZER, NULL);
  gsize size;
  const char *source = g_bytes_get_data (vocabulary, &size);
  char *text;

  if (size > RLX_MAX_TEXT_FILE)
    {
      g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_LIMIT, "The vocabulary has %" G_GSIZE_FORMAT " bytes; the limit is %" G_GSIZE_FORMAT,
                   size, RLX_MAX_TEXT_FILE);
      return NULL;
    }
  text = g_malloc (size + 1);
  if (size > 0)
    memcpy (text, source, size);
  text[size] = '\0';
  self->text = g_bytes_new_take (text, size + 1);
  if (!read_lines (self, text, size, error) || !find_special (self, settings->unknown, &self->wordpiece.unknown, error) ||
      !find_special (self, settings->before, &self->before, error) || !find_special (self, settings->after, &self->after, error))
    return NULL;
  self->padding = rlx_tokenizer_find (self, settings->padding);
  self->wordpiece.lower_case = settings->lower_case;
  self->wordpiece.strip_accents = settings->strip_accents;
  self->wordpiece.split_chinese = settings->split_chinese;
  return g_steal_pointer (&self);
}

/**
 * rlx_tokenizer_new_wordpiece:
 * @vocabulary: the tokens, one per line; those that continue a word begin with `##`
 * @lower_case: whether to convert text to lower case and remove accents first
 * @error: return location for an error
 *
 * Creates a tokenizer from the contents of a `vocab.txt` file, which must contain the
 * tokens `[UNK]`, `[CLS]` and `[SEP]`.
 *
 * Returns: (transfer full): a tokenizer
 *
 * Since: 1.0
 */
RlxTokenizer *
rlx_tokenizer_new_wordpiece (GBytes   *vocabulary,
                             gboolean  lower_case,
                             GError  **error)
{
  g_auto(Settings) settings = { NULL };

  g_return_val_if_fail (vocabulary != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  settings_init (&settings, lower_case);
  return make (vocabulary, &settings, error);
}

/**
 * rlx_tokenizer_open:
 * @folder: the folder of a model, with a `vocab.txt` file
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Opens the tokenizer of a model. `tokenizer_config.json` defines how text is normalised and
 * what special tokens are called; without that file, the defaults are those of BERT's
 * uncased models.
 *
 * Returns: (transfer full): a tokenizer
 *
 * Since: 1.0
 */
RlxTokenizer *
rlx_tokenizer_open (GFile        *folder,
                    GCancellable *cancellable,
                    GError      **error)
{
  g_autoptr(GBytes) vocabulary = NULL, config = NULL;
  g_auto(Settings) settings = { NULL };
  g_autoptr(GError) local = NULL;
  RlxTokenizer *self;

  g_return_val_if_fail (G_IS_FILE (folder), NULL);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  settings_init (&settings, TRUE);
  vocabulary = rlx_text_file_load (folder, "vocab.txt", FALSE, cancellable, error);
  if (vocabulary == NULL)
    return NULL;
  config = rlx_text_file_load (folder, "tokenizer_config.json", TRUE, cancellable, &local);
  if (local != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local));
      return NULL;
    }
  if (config != NULL)
    {
      /* If this is missing or null, accents are removed if text becomes lower case. */
      gboolean basic = TRUE, accents = 2;
      const RlxTextMember members[] = {
        { .name = "tokenizer_class", .string = &settings.kind },
        { .name = "unk_token", .string = &settings.unknown },
        { .name = "cls_token", .string = &settings.before },
        { .name = "sep_token", .string = &settings.after },
        { .name = "pad_token", .string = &settings.padding },
        { .name = "do_lower_case", .boolean = &settings.lower_case },
        { .name = "strip_accents", .boolean = &accents },
        { .name = "tokenize_chinese_chars", .boolean = &settings.split_chinese },
        { .name = "do_basic_tokenize", .boolean = &basic },
      };

      if (!rlx_text_members_read (config, "tokenizer_config.json", members, G_N_ELEMENTS (members), error))
        return NULL;
      if (!basic || (settings.kind != NULL && strcmp (settings.kind, "BertTokenizer") != 0 && strcmp (settings.kind, "BertTokenizerFast") != 0))
        {
          g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_UNSUPPORTED,
                       "tokenizer_config.json: “%s” is %s; only “BertTokenizer” with words split at white space can be read",
                       basic ? "tokenizer_class" : "do_basic_tokenize", basic ? settings.kind : "false");
          return NULL;
        }
      settings.strip_accents = accents == 2 ? settings.lower_case : accents;
    }
  self = make (vocabulary, &settings, error);
  if (self == NULL)
    g_prefix_error_literal (error, "vocab.txt: ");
  return self;
}

static gpointer
open_in_thread (GFile        *folder,
                RlxDevice    *device,
                GCancellable *cancellable,
                GError      **error)
{
  return rlx_tokenizer_open (folder, cancellable, error);
}

/**
 * rlx_tokenizer_open_async:
 * @folder: the folder of a model, with a `vocab.txt` file
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the tokenizer has been opened
 * @user_data: data for @callback
 *
 * Opens the tokenizer of a model, without blocking.
 *
 * Since: 1.0
 */
void
rlx_tokenizer_open_async (GFile              *folder,
                          GCancellable       *cancellable,
                          GAsyncReadyCallback callback,
                          gpointer            user_data)
{
  g_return_if_fail (G_IS_FILE (folder));
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  rlx_thread_open (rlx_tokenizer_open_async, open_in_thread, folder, NULL, cancellable, callback, user_data);
}

/**
 * rlx_tokenizer_open_finish:
 * @result: the result given to the callback
 * @error: return location for an error
 *
 * Finishes an operation started with [func@Rlx.Tokenizer.open_async].
 *
 * Returns: (transfer full): a tokenizer
 *
 * Since: 1.0
 */
RlxTokenizer *
rlx_tokenizer_open_finish (GAsyncResult *result,
                           GError      **error)
{
  g_return_val_if_fail (g_task_is_valid (result, NULL), NULL);

  return g_task_propagate_pointer (G_TASK (result), error);
}

/* ---- what it is for ------------------------------------------------------------------------------ */

/**
 * rlx_tokenizer_encode:
 * @self: a tokenizer
 * @text: a text
 * @special: whether to add the special tokens that the model expects around a text, such
 *   as `[CLS]` and `[SEP]`
 * @n_tokens: (out): the number of tokens
 * @error: return location for an error
 *
 * Turns a text into tokens. Words that cannot be composed from the vocabulary become the unknown
 * token.
 *
 * Returns: (array length=n_tokens) (transfer full): the tokens
 *
 * Since: 1.0
 */
gint *
rlx_tokenizer_encode (RlxTokenizer *self,
                      const char   *text,
                      gboolean      special,
                      gsize        *n_tokens,
                      GError      **error)
{
  g_autoptr(GArray) tokens = NULL;
  const char *end;

  g_return_val_if_fail (RLX_IS_TOKENIZER (self), NULL);
  g_return_val_if_fail (text != NULL, NULL);
  g_return_val_if_fail (n_tokens != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  *n_tokens = 0;
  if (!g_utf8_validate (text, -1, &end))
    {
      g_set_error (error, G_CONVERT_ERROR, G_CONVERT_ERROR_ILLEGAL_SEQUENCE, "The text is not UTF-8 at byte %" G_GSIZE_FORMAT,
                   (gsize) (end - text));
      return NULL;
    }
  tokens = g_array_new (FALSE, FALSE, sizeof (gint));
  if (special)
    g_array_append_val (tokens, self->before);
  if (!rlx_wordpiece_encode (&self->wordpiece, text, tokens, MAX_ENCODED, error))
    return NULL;
  if (special)
    g_array_append_val (tokens, self->after);
  return g_array_steal (tokens, n_tokens);
}

/**
 * rlx_tokenizer_decode:
 * @self: a tokenizer
 * @tokens: (array length=n_tokens): the tokens
 * @n_tokens: the number of tokens
 * @error: return location for an error
 *
 * Turns tokens into a text: words separated by single spaces, without the special tokens
 * around it. Case, accents and white space of the original text may be lost.
 *
 * Returns: (transfer full): the text
 *
 * Since: 1.0
 */
char *
rlx_tokenizer_decode (RlxTokenizer *self,
                      const gint   *tokens,
                      gsize         n_tokens,
                      GError      **error)
{
  g_autoptr(GString) text = NULL;

  g_return_val_if_fail (RLX_IS_TOKENIZER (self), NULL);
  g_return_val_if_fail (tokens != NULL || n_tokens == 0, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  text = g_string_new (NULL);
  for (gsize i = 0; i < n_tokens; i++)
    {
      const char *token;

      if (tokens[i] < 0 || (guint) tokens[i] >= self->tokens->len)
        {
          g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_NOT_FOUND, "Token %" G_GSIZE_FORMAT " is %d, but the vocabulary has %u tokens", i,
                       tokens[i], self->tokens->len);
          return NULL;
        }
      if (tokens[i] == self->before || tokens[i] == self->after || tokens[i] == self->padding)
        continue;
      token = g_ptr_array_index (self->tokens, tokens[i]);
      if (text->len > 0 && !g_str_has_prefix (token, "##"))
        g_string_append_c (text, ' ');
      g_string_append (text, text->len > 0 && g_str_has_prefix (token, "##") ? token + 2 : token);
    }
  return g_string_free_and_steal (g_steal_pointer (&text));
}

/**
 * rlx_tokenizer_get_n_tokens:
 * @self: a tokenizer
 *
 * Gets the number of tokens in the vocabulary.
 *
 * Returns: the number
 *
 * Since: 1.0
 */
guint
rlx_tokenizer_get_n_tokens (RlxTokenizer *self)
{
  g_return_val_if_fail (RLX_IS_TOKENIZER (self), 0);

  return self->tokens->len;
}

/**
 * rlx_tokenizer_get_token:
 * @self: a tokenizer
 * @token: the number of a token
 *
 * Gets a token as the vocabulary spells it.
 *
 * Returns: (nullable) (transfer none): the token, or %NULL if there is none with that
 *   number
 *
 * Since: 1.0
 */
const char *
rlx_tokenizer_get_token (RlxTokenizer *self,
                         gint          token)
{
  g_return_val_if_fail (RLX_IS_TOKENIZER (self), NULL);

  return token >= 0 && (guint) token < self->tokens->len ? g_ptr_array_index (self->tokens, token) : NULL;
}

/**
 * rlx_tokenizer_find:
 * @self: a tokenizer
 * @text: a token as the vocabulary spells it, such as `[SEP]` or `##ing`
 *
 * Finds the number of a token.
 *
 * Returns: the number, or -1 if there is no such token
 *
 * Since: 1.0
 */
gint
rlx_tokenizer_find (RlxTokenizer *self,
                    const char   *text)
{
  gpointer id;

  g_return_val_if_fail (RLX_IS_TOKENIZER (self), -1);
  g_return_val_if_fail (text != NULL, -1);

  return g_hash_table_lookup_extended (self->wordpiece.ids, text, NULL, &id) ? GPOINTER_TO_INT (id) : -1;
}

gint
rlx_tokenizer_get_padding (RlxTokenizer *self)
{
  return MAX (self->padding, 0);
}
