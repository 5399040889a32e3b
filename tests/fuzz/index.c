/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The index of a model in several files: opens it beside two such files, and loads what it names.
 */
#include "config.h"

#include <rlx-wgpu/rlx-wgpu.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>

#include "fuzz.h"

static char *folder;

static void
write_file (const char *name,
            const void *data,
            size_t      size)
{
  g_autofree char *path = g_build_filename (folder, name, NULL);
  FILE *file = g_fopen (path, "wb");

  g_assert_nonnull (file);
  g_assert_cmpuint (fwrite (data, 1, size, file), ==, size);
  fclose (file);
}

static void
remove_folder (void)
{
  static const char *const names[] = { "1.safetensors", "2.safetensors", "index.json" };

  for (gsize i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autofree char *path = g_build_filename (folder, names[i], NULL);

      g_unlink (path);
    }
  g_rmdir (folder);
}

/* A tensor of three bytes. */
static void
write_part (const char *name,
            const char *tensor)
{
  g_autofree char *header = g_strdup_printf ("{\"%s\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}", tensor);
  guint64 length = GUINT64_TO_LE ((guint64) strlen (header));
  g_autoptr(GByteArray) file = g_byte_array_new ();

  g_byte_array_append (file, (const guint8 *) &length, 8);
  g_byte_array_append (file, (const guint8 *) header, (guint) strlen (header));
  g_byte_array_append (file, (const guint8 *) "\1\2\3", 3);
  write_file (name, file->data, file->len);
}

int
LLVMFuzzerTestOneInput (const uint8_t *data,
                        size_t         size)
{
  g_autoptr(GFile) file = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxWeights) weights = NULL;
  g_autofree char *path = NULL;

  if (folder == NULL)
    {
      folder = g_dir_make_tmp ("rlx-fuzz-XXXXXX", NULL);
      g_assert_nonnull (folder);
      atexit (remove_folder);
      write_part ("1.safetensors", "a");
      write_part ("2.safetensors", "b");
    }
  write_file ("index.json", data, size);
  path = g_build_filename (folder, "index.json", NULL);
  file = g_file_new_for_path (path);
  weights = rlx_weights_open (file, NULL, &error);
  g_assert_true ((weights == NULL) == (error != NULL));
  for (guint i = 0; weights != NULL && i < g_list_model_get_n_items (G_LIST_MODEL (weights)); i++)
    {
      g_autoptr(RlxWeightsEntry) entry = g_list_model_get_item (G_LIST_MODEL (weights), i);

      /* Any file may be something other than an index. */
      if (rlx_weights_entry_get_size (entry) <= size)
        {
          g_autoptr(RlxTensor) tensor = rlx_weights_load_tensor (weights, rlx_weights_entry_get_name (entry), NULL, &error);

          g_assert_true ((tensor == NULL) == (error != NULL));
          g_clear_error (&error);
        }
    }
  return 0;
}
