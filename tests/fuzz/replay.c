/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Gives a target every file of a folder once.
 */
#include <glib.h>

#include "fuzz.h"

int
main (int    argc,
      char **argv)
{
  g_autoptr(GDir) folder = NULL;
  g_autoptr(GError) error = NULL;
  const char *name;
  guint n = 0;

  g_assert_cmpint (argc, ==, 2);
  folder = g_dir_open (argv[1], 0, &error);
  g_assert_no_error (error);
  while ((name = g_dir_read_name (folder)) != NULL)
    {
      g_autofree char *path = g_build_filename (argv[1], name, NULL), *contents = NULL;
      g_autofree guint8 *exact = NULL;
      gsize size;

      g_file_get_contents (path, &contents, &size, &error);
      g_assert_no_error (error);
      /* without the terminating NUL, so that sanitizers detect reads beyond the end */
      exact = g_memdup2 (contents, size);
      LLVMFuzzerTestOneInput (exact, size);
      g_print ("ok %u - %s\n", ++n, name);
    }
  g_assert_cmpuint (n, >, 0);
  g_print ("1..%u\n", n);
  return 0;
}
