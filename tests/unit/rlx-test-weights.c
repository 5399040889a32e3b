/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-test-weights.h"

#include <string.h>
#include <sys/resource.h>

GBytes *
rlx_test_make_safetensors (gint64      length,
                           const char *header,
                           gsize       header_length,
                           const void *data,
                           gsize       size)
{
  guint64 n = GUINT64_TO_LE (length == -1 ? (guint64) header_length : (guint64) length);
  GByteArray *file = g_byte_array_new ();

  g_byte_array_append (file, (const guint8 *) &n, 8);
  g_byte_array_append (file, (const guint8 *) header, (guint) header_length);
  if (size > 0)
    g_byte_array_append (file, data, (guint) size);
  return g_byte_array_free_to_bytes (file);
}

GBytes *
rlx_test_make_simple (const char *header,
                      gsize       size)
{
  g_autofree guint8 *data = g_malloc (size + 1);

  for (gsize i = 0; i < size; i++)
    data[i] = (guint8) i;
  return rlx_test_make_safetensors (-1, header, strlen (header), data, size);
}

void
rlx_test_check_refused (GBytes               *file,
                        const RlxTestRefusal *refusal)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxWeights) weights = rlx_weights_new_from_bytes (file, &error);
  g_auto(GStrv) words = g_strsplit (refusal->words, "|", -1);

  if (weights != NULL)
    g_error ("%s: the file was opened", refusal->name);
  if (!g_error_matches (error, RLX_WEIGHTS_ERROR, (int) refusal->code))
    g_error ("%s: the error is %s %d: %s", refusal->name, g_quark_to_string (error->domain), error->code, error->message);
  for (char **word = words; *word != NULL; word++)
    if (strstr (error->message, *word) == NULL)
      g_error ("%s: no “%s” in: %s", refusal->name, *word, error->message);
  g_assert_true (g_utf8_validate (error->message, -1, NULL));
  g_assert_cmpuint (strlen (error->message), <, 2000);
}

GAsyncResult *
rlx_test_wait_for (GAsyncResult **result)
{
  while (*result == NULL)
    g_main_context_iteration (NULL, TRUE);
  return g_steal_pointer (result);
}

gsize
rlx_test_get_peak (void)
{
  struct rusage usage;

  getrusage (RUSAGE_SELF, &usage);
  return (gsize) usage.ru_maxrss * 1024;
}
