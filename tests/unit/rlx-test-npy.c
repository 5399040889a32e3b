/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Files in .npy format for tests.
 */
#include "config.h"

#include "rlx-test-npy.h"

GBytes *
make_file (guint8      major,
           const char *text,
           gssize      text_length,
           const void *data,
           gsize       size)
{
  GByteArray *file = g_byte_array_new ();
  gsize n = text_length < 0 ? strlen (text) : (gsize) text_length;
  const guint8 length[] = { (guint8) n, (guint8) (n >> 8), (guint8) (n >> 16), (guint8) (n >> 24) };
  const guint8 version[] = { major, 0 };

  g_byte_array_append (file, (const guint8 *) "\x93NUMPY", 6);
  g_byte_array_append (file, version, 2);
  g_byte_array_append (file, length, major == 1 ? 2 : 4);
  g_byte_array_append (file, (const guint8 *) text, (guint) n);
  if (size > 0)
    g_byte_array_append (file, data, (guint) size);

  return g_byte_array_free_to_bytes (file);
}

GBytes *
make_simple (const char *descr,
             const char *order,
             const char *shape,
             const void *data,
             gsize       size)
{
  g_autofree char *text = g_strdup_printf ("{'descr': '%s', 'fortran_order': %s, 'shape': %s, }   \n",
                                           descr, order, shape);

  return make_file (1, text, -1, data, size);
}
