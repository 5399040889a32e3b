/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-test-weights.h"

#include <string.h>

void
rlx_test_put (GByteArray *file,
              guint64     value,
              guint       size)
{
  value = GUINT64_TO_LE (value);
  g_byte_array_append (file, (const guint8 *) &value, size);
}

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

GAsyncResult *
rlx_test_wait_for (GAsyncResult **result)
{
  while (*result == NULL)
    g_main_context_iteration (NULL, TRUE);
  return g_steal_pointer (result);
}
