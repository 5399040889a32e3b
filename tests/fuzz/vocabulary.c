/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A vocabulary, and after the first form feed a text to cut by it.
 */
#include "config.h"

#include <rlx-wgpu/rlx-wgpu.h>
#include <string.h>

#include "fuzz.h"

int
LLVMFuzzerTestOneInput (const uint8_t *data,
                        size_t         size)
{
  const uint8_t *end = size > 0 ? memchr (data, '\f', size) : NULL;
  const size_t length = end != NULL ? (size_t) (end - data) : size;
  g_autofree char *text = end != NULL ? g_strndup ((const char *) end + 1, size - length - 1) : g_strdup ("");
  g_autoptr(GBytes) bytes = g_bytes_new (data, length);
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxTokenizer) tokenizer = rlx_tokenizer_new_wordpiece (bytes, size % 2 == 0, &error);
  g_autofree gint *tokens = NULL;
  g_autofree char *decoded = NULL;
  gsize n_tokens;

  g_assert_true ((tokenizer == NULL) == (error != NULL));
  if (tokenizer == NULL)
    return 0;
  tokens = rlx_tokenizer_encode (tokenizer, text, TRUE, &n_tokens, &error);
  g_assert_true ((tokens == NULL) == (error != NULL));
  if (tokens == NULL)
    return 0;
  g_assert_cmpuint (n_tokens, >=, 2);
  for (gsize i = 0; i < n_tokens; i++)
    g_assert_nonnull (rlx_tokenizer_get_token (tokenizer, tokens[i]));
  decoded = rlx_tokenizer_decode (tokenizer, tokens, n_tokens, &error);
  g_assert_no_error (error);
  g_assert_true (g_utf8_validate (decoded, -1, NULL));
  return 0;
}
