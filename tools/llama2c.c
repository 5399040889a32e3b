/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Models of llama2.c: seven numbers of 32 bits, then all tensors as floats, one kind after
 * the other, each with all layers. GGUF has layers one by one, with names. The pairs of
 * numbers that are rotated are neighbours in both, so nothing is moved.
 */
#include "config.h"

#include <string.h>

#include "rlx-tool.h"

/* Far beyond any model: products of four of these are less than 2⁶³. */
#define MAX_SIZE 65535
#define MAX_LAYERS 1024
#define MAX_VOCABULARY 4194304
#define MAX_PIECE 65536

/* The first version of these files with a magic. */
#define NEWER_MAGIC 0x616b3432

#define EPSILON 1e-5f
#define ROTATION_BASE 10000.0f

enum { WIDTH, HIDDEN, LAYERS, HEADS, KV_HEADS, VOCABULARY, CONTEXT, N_NUMBERS };

enum { TOKEN_NORMAL = 1, TOKEN_UNKNOWN = 2, TOKEN_CONTROL = 3, TOKEN_BYTE = 6 };

typedef struct
{
  GBytes *bytes;
  gsize at;
  gint64 sizes[N_NUMBERS];
  gboolean own_classifier;
  GPtrArray *names;
  GPtrArray *tensors;
} Model;

static gboolean
fail (GError    **error,
      const char *path,
      const char *format,
      ...)
{
  g_autofree char *message = NULL;
  va_list args;

  va_start (args, format);
  message = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_PARSE, "%s: %s", path, message);
  return FALSE;
}

static gint32
get_i32 (const guint8 *data)
{
  guint32 value;

  memcpy (&value, data, 4);
  return (gint32) GUINT32_FROM_LE (value);
}

/* Takes the next tensor of the file. */
static gboolean
take (Model        *model,
      const char   *name,
      const gint64 *shape,
      gsize         n_dims,
      GError      **error)
{
  g_autoptr(GBytes) part = NULL;
  RlxTensor *tensor;
  gsize size = 4;

  for (gsize i = 0; i < n_dims; i++)
    size *= (gsize) shape[i];
  /* The size of the file has been checked. */
  part = g_bytes_new_from_bytes (model->bytes, model->at, size);
  tensor = rlx_tensor_new_from_bytes (RLX_DATA_TYPE_F32, shape, n_dims, part, error);
  if (tensor == NULL)
    return FALSE;
  model->at += size;
  g_ptr_array_add (model->names, g_strdup (name));
  g_ptr_array_add (model->tensors, tensor);
  return TRUE;
}

/* Takes the tensors of one kind for all layers. */
static gboolean
take_layers (Model      *model,
             const char *kind,
             gint64      rows,
             gint64      columns,
             GError    **error)
{
  const gint64 shape[] = { rows, columns };

  for (gint64 i = 0; i < model->sizes[LAYERS]; i++)
    {
      g_autofree char *name = g_strdup_printf ("blk.%" G_GINT64_FORMAT ".%s.weight", i, kind);

      if (!take (model, name, rows > 0 ? shape : shape + 1, rows > 0 ? 2 : 1, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
read_sizes (Model      *model,
            const char *path,
            GError    **error)
{
  static const char *const names[] = { "width", "hidden width", "number of layers", "number of heads", "number of key heads", "vocabulary", "context" };
  static const gint64 limits[] = { MAX_SIZE, MAX_SIZE, MAX_LAYERS, MAX_SIZE, MAX_SIZE, MAX_VOCABULARY, MAX_VOCABULARY };
  gint64 *sizes = model->sizes;
  gsize length;
  const guint8 *data = g_bytes_get_data (model->bytes, &length);

  if (length < N_NUMBERS * 4)
    return fail (error, path, "the file has %" G_GSIZE_FORMAT " bytes, too few for its %d numbers", length, N_NUMBERS);
  if ((guint32) get_i32 (data) == NEWER_MAGIC)
    return fail (error, path, "this is a newer format of llama2.c; its export.py writes the first one with --version 0");
  for (guint i = 0; i < N_NUMBERS; i++)
    sizes[i] = get_i32 (data + i * 4);
  /* A negative size indicates that the last tensor is present. */
  model->own_classifier = sizes[VOCABULARY] < 0;
  sizes[VOCABULARY] = ABS (sizes[VOCABULARY]);
  for (guint i = 0; i < N_NUMBERS; i++)
    if (sizes[i] < 1 || sizes[i] > limits[i])
      return fail (error, path, "at byte %u: the %s is %" G_GINT64_FORMAT ", not from 1 to %" G_GINT64_FORMAT, i * 4, names[i], sizes[i], limits[i]);
  if (sizes[WIDTH] % (2 * sizes[HEADS]) != 0 || sizes[HEADS] % sizes[KV_HEADS] != 0)
    return fail (error, path, "a width of %" G_GINT64_FORMAT " cannot be shared by %" G_GINT64_FORMAT " heads, %" G_GINT64_FORMAT " of them with keys",
                 sizes[WIDTH], sizes[HEADS], sizes[KV_HEADS]);
  model->at = N_NUMBERS * 4;
  return TRUE;
}

static gboolean
read_tensors (Model      *model,
              const char *path,
              GError    **error)
{
  const gint64 *sizes = model->sizes, width = sizes[WIDTH], hidden = sizes[HIDDEN];
  gint64 head = width / sizes[HEADS], keys = head * sizes[KV_HEADS];
  const gint64 table[] = { sizes[VOCABULARY], width };
  gint64 tables = sizes[CONTEXT] * head;
  gint64 layer = 2 * width + 2 * width * width + 2 * width * keys + 3 * width * hidden;
  gint64 n = (model->own_classifier ? 2 : 1) * sizes[VOCABULARY] * width + sizes[LAYERS] * layer + width + tables;
  guint64 expected = N_NUMBERS * 4 + (guint64) n * 4;

  if (expected != g_bytes_get_size (model->bytes))
    return fail (error, path, "the file has %" G_GSIZE_FORMAT " bytes, its numbers say %" G_GUINT64_FORMAT, g_bytes_get_size (model->bytes), expected);
  if (!take (model, "token_embd.weight", table, 2, error) ||
      !take_layers (model, "attn_norm", 0, width, error) ||
      !take_layers (model, "attn_q", width, width, error) ||
      !take_layers (model, "attn_k", keys, width, error) ||
      !take_layers (model, "attn_v", keys, width, error) ||
      !take_layers (model, "attn_output", width, width, error) ||
      !take_layers (model, "ffn_norm", 0, width, error) ||
      !take_layers (model, "ffn_gate", hidden, width, error) ||
      !take_layers (model, "ffn_down", width, hidden, error) ||
      !take_layers (model, "ffn_up", hidden, width, error) ||
      !take (model, "output_norm.weight", &width, 1, error))
    return FALSE;
  /* Skip the tables for rotary positions, which readers compute themselves. */
  model->at += (gsize) tables * 4;
  return !model->own_classifier || take (model, "output.weight", table, 2, error);
}

static void
describe (const Model     *model,
          GVariantBuilder *pairs)
{
  static const struct
  {
    const char *key;
    int size;
  } numbers[] = {
    { "llama.embedding_length", WIDTH },
    { "llama.feed_forward_length", HIDDEN },
    { "llama.block_count", LAYERS },
    { "llama.attention.head_count", HEADS },
    { "llama.attention.head_count_kv", KV_HEADS },
    { "llama.vocab_size", VOCABULARY },
    { "llama.context_length", CONTEXT },
  };

  g_variant_builder_add (pairs, "{sv}", "general.architecture", g_variant_new ("s", "llama"));
  for (gsize i = 0; i < G_N_ELEMENTS (numbers); i++)
    g_variant_builder_add (pairs, "{sv}", numbers[i].key, g_variant_new ("u", (guint32) model->sizes[numbers[i].size]));
  g_variant_builder_add (pairs, "{sv}", "llama.rope.dimension_count", g_variant_new ("u", (guint32) (model->sizes[WIDTH] / model->sizes[HEADS])));
  g_variant_builder_add (pairs, "{sv}", "llama.rope.freq_base", g_variant_new ("d", (double) ROTATION_BASE));
  g_variant_builder_add (pairs, "{sv}", "llama.attention.layer_norm_rms_epsilon", g_variant_new ("d", (double) EPSILON));
}

/* ---- pieces of text ------------------------------------------------------------------- */

/* Restores the marks that llama2.c replaced by plain text: starts of words, and special tokens. */
static char *
mark_piece (guint32     index,
            const char *text,
            int        *type)
{
  g_autoptr(GString) piece = g_string_new (text);

  *type = TOKEN_NORMAL;
  if (index == 0)
    *type = TOKEN_UNKNOWN;
  else if (index <= 2)
    {
      *type = TOKEN_CONTROL;
      g_string_assign (piece, index == 1 ? "<s>" : "</s>");
    }
  else if (piece->len == 6 && g_str_has_prefix (text, "<0x") && g_ascii_isxdigit (text[3]) && g_ascii_isxdigit (text[4]) && text[5] == '>')
    *type = TOKEN_BYTE;
  else
    g_string_replace (piece, " ", "\u2581", 0);
  return g_string_free_and_steal (g_steal_pointer (&piece));
}

static gboolean
read_tokenizer (const char      *path,
                gint64           vocabulary,
                GVariantBuilder *pairs,
                GError         **error)
{
  g_autofree char *contents = NULL;
  gsize length, at = 4;
  GVariantBuilder pieces, scores, types;
  gboolean ok = TRUE;

  if (!g_file_get_contents (path, &contents, &length, error))
    return FALSE;
  g_variant_builder_init (&pieces, G_VARIANT_TYPE ("as"));
  g_variant_builder_init (&scores, G_VARIANT_TYPE ("ad"));
  g_variant_builder_init (&types, G_VARIANT_TYPE ("ai"));
  for (guint32 i = 0; ok && i < vocabulary; i++)
    {
      g_autofree char *text = NULL, *piece = NULL;
      gint32 bits, n;
      float score;
      int type;

      ok = at <= length && length - at >= 8;
      n = ok ? get_i32 ((const guint8 *) contents + at + 4) : 0;
      if (!ok || n < 0 || n > MAX_PIECE || (gsize) n > length - at - 8)
        {
          ok = fail (error, path, "at byte %" G_GSIZE_FORMAT ": piece %u of %" G_GINT64_FORMAT " is cut short, or longer than %d bytes", at, i, vocabulary, MAX_PIECE);
          break;
        }
      bits = get_i32 ((const guint8 *) contents + at);
      memcpy (&score, &bits, 4);
      text = g_strndup (contents + at + 8, (gsize) n);
      if (!g_utf8_validate (text, -1, NULL) || strlen (text) != (gsize) n)
        {
          ok = fail (error, path, "at byte %" G_GSIZE_FORMAT ": piece %u is not UTF-8", at + 8, i);
          break;
        }
      piece = mark_piece (i, text, &type);
      g_variant_builder_add (&pieces, "s", piece);
      g_variant_builder_add (&scores, "d", (double) score);
      g_variant_builder_add (&types, "i", type);
      at += 8 + (gsize) n;
    }
  if (ok && at != length)
    ok = fail (error, path, "%" G_GSIZE_FORMAT " bytes follow the %" G_GINT64_FORMAT " pieces of the vocabulary", length - at, vocabulary);
  if (!ok)
    {
      g_variant_builder_clear (&pieces);
      g_variant_builder_clear (&scores);
      g_variant_builder_clear (&types);
      return FALSE;
    }
  g_variant_builder_add (pairs, "{sv}", "tokenizer.ggml.model", g_variant_new ("s", "llama"));
  g_variant_builder_add (pairs, "{sv}", "tokenizer.ggml.tokens", g_variant_builder_end (&pieces));
  g_variant_builder_add (pairs, "{sv}", "tokenizer.ggml.scores", g_variant_builder_end (&scores));
  g_variant_builder_add (pairs, "{sv}", "tokenizer.ggml.token_type", g_variant_builder_end (&types));
  g_variant_builder_add (pairs, "{sv}", "tokenizer.ggml.unknown_token_id", g_variant_new ("u", 0));
  g_variant_builder_add (pairs, "{sv}", "tokenizer.ggml.bos_token_id", g_variant_new ("u", 1));
  g_variant_builder_add (pairs, "{sv}", "tokenizer.ggml.eos_token_id", g_variant_new ("u", 2));
  return TRUE;
}

GVariant *
rlx_tool_read_llama2c (const char *path,
                       const char *tokenizer,
                       GPtrArray **names,
                       GPtrArray **tensors,
                       GError    **error)
{
  g_autoptr(GFile) file = g_file_new_for_commandline_arg (path);
  g_autoptr(GBytes) bytes = g_file_load_bytes (file, NULL, NULL, error);
  Model model = { .bytes = bytes };
  GVariantBuilder pairs;
  gboolean ok;

  *names = model.names = g_ptr_array_new_with_free_func (g_free);
  *tensors = model.tensors = g_ptr_array_new_with_free_func (g_object_unref);
  if (bytes == NULL)
    return NULL;
  g_variant_builder_init (&pairs, G_VARIANT_TYPE_VARDICT);
  ok = read_sizes (&model, path, error) && read_tensors (&model, path, error);
  if (ok)
    describe (&model, &pairs);
  if (ok && tokenizer != NULL)
    ok = read_tokenizer (tokenizer, model.sizes[VOCABULARY], &pairs, error);
  if (ok)
    return g_variant_ref_sink (g_variant_builder_end (&pairs));
  g_variant_builder_clear (&pairs);
  return NULL;
}
