/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "export/rlx-web-private.h"

#include <string.h>

/* The maximum size of a file, which is what a browser fetches, caches and retries as a unit. */
#define PIECE_SIZE (16u << 20)
#define RESOURCES "/rlx-wgpu/export/"

typedef struct
{
  char *name;
  char *sha256;
  gsize size;
} Piece;

struct _RlxWebFolder
{
  GFile *folder;
  RlxWebAdvance advance;
  gpointer advance_data;
  GCancellable *cancellable;
  GArray *pieces;          /* Piece: those already written */
  GByteArray *current;     /* contents of the next piece */
  GHashTable *places;      /* SHA-256 of data → "piece,at,size" */
};

static void
clear_piece (gpointer data)
{
  Piece *piece = data;

  g_free (piece->name);
  g_free (piece->sha256);
}

void
rlx_web_folder_free (RlxWebFolder *self)
{
  g_object_unref (self->folder);
  g_clear_object (&self->cancellable);
  g_array_unref (self->pieces);
  g_byte_array_unref (self->current);
  g_hash_table_unref (self->places);
  g_free (self);
}

static gboolean
write_file (RlxWebFolder *self,
            const char   *name,
            gconstpointer data,
            gsize         size,
            GError      **error)
{
  g_autoptr(GFile) file = g_file_get_child (self->folder, name);

  if (g_file_replace_contents (file, data, size, NULL, FALSE, G_FILE_CREATE_REPLACE_DESTINATION, NULL, self->cancellable, error))
    return TRUE;
  g_prefix_error (error, "%s: ", name);
  return FALSE;
}

/* Without plan.json, a folder is not a model: so it is removed first and written last. */
static gboolean
remove_plan (RlxWebFolder *self,
             GError      **error)
{
  g_autoptr(GFile) file = g_file_get_child (self->folder, "plan.json");
  g_autoptr(GError) local = NULL;

  if (g_file_delete (file, self->cancellable, &local) || g_error_matches (local, G_IO_ERROR, G_IO_ERROR_NOT_FOUND))
    return TRUE;
  g_propagate_prefixed_error (error, g_steal_pointer (&local), "plan.json: ");
  return FALSE;
}

RlxWebFolder *
rlx_web_folder_new (GFile        *folder,
                    RlxWebAdvance advance,
                    gpointer      advance_data,
                    GCancellable *cancellable,
                    GError      **error)
{
  g_autoptr(RlxWebFolder) self = g_new0 (RlxWebFolder, 1);
  g_autoptr(GError) local = NULL;

  self->folder = g_object_ref (folder);
  self->advance = advance;
  self->advance_data = advance_data;
  g_set_object (&self->cancellable, cancellable);
  self->pieces = g_array_new (FALSE, TRUE, sizeof (Piece));
  g_array_set_clear_func (self->pieces, clear_piece);
  self->current = g_byte_array_new ();
  self->places = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);

  if (!g_file_make_directory_with_parents (folder, cancellable, &local) && !g_error_matches (local, G_IO_ERROR, G_IO_ERROR_EXISTS))
    {
      g_propagate_error (error, g_steal_pointer (&local));
      return NULL;
    }
  return remove_plan (self, error) ? g_steal_pointer (&self) : NULL;
}

/* File names contain checksums, so browsers never use outdated cached files. */
gboolean
rlx_web_folder_cut (RlxWebFolder *self,
                    GError      **error)
{
  Piece piece = { .size = self->current->len };

  if (piece.size == 0)
    return TRUE;
  piece.sha256 = g_compute_checksum_for_data (G_CHECKSUM_SHA256, self->current->data, piece.size);
  piece.name = g_strdup_printf ("weights-%.16s.bin", piece.sha256);
  g_array_append_val (self->pieces, piece);
  if (!write_file (self, piece.name, self->current->data, piece.size, error))
    return FALSE;
  g_byte_array_set_size (self->current, 0);
  return TRUE;
}

/* Appends at most PIECE_SIZE bytes. */
static gboolean
add_part (RlxWebFolder *self,
          const guint8 *data,
          gsize         size,
          guint64       offset,
          const char   *prefix,
          GString      *out,
          GError      **error)
{
  static const guint8 zeros[4] = { 0 };
  g_autofree char *sha256 = g_compute_checksum_for_data (G_CHECKSUM_SHA256, data, size);
  const char *place = g_hash_table_lookup (self->places, sha256);

  if (g_cancellable_set_error_if_cancelled (self->cancellable, error))
    return FALSE;
  if (place == NULL)
    {
      gsize rounded = (size + 3) & ~(gsize) 3;

      if (self->current->len + rounded > PIECE_SIZE && !rlx_web_folder_cut (self, error))
        return FALSE;
      place = g_strdup_printf ("%u,%u,%" G_GSIZE_FORMAT, self->pieces->len, self->current->len, rounded);
      g_byte_array_append (self->current, data, (guint) size);
      g_byte_array_append (self->current, zeros, (guint) (rounded - size));
      g_hash_table_insert (self->places, g_steal_pointer (&sha256), (gpointer) place);
    }
  if (out->len > 0 && out->str[out->len - 1] != '[')
    g_string_append_c (out, ',');
  g_string_append_printf (out, "[%s%s,%" G_GUINT64_FORMAT "]", prefix, place, offset);
  self->advance (self->advance_data, size);
  return TRUE;
}

gboolean
rlx_web_folder_add (RlxWebFolder *self,
                    GBytes       *data,
                    guint64       offset,
                    const char   *prefix,
                    GString      *out,
                    GError      **error)
{
  gsize size;
  const guint8 *bytes = g_bytes_get_data (data, &size);

  for (gsize at = 0; at < size; at += PIECE_SIZE)
    if (!add_part (self, bytes + at, MIN (size - at, PIECE_SIZE), offset + at, prefix, out, error))
      return FALSE;
  return TRUE;
}

/* With @keep, does not overwrite a file that somebody may have changed. */
static gboolean
write_resource (RlxWebFolder *self,
                const char   *name,
                gboolean      keep,
                GError      **error)
{
  g_autofree char *path = g_strconcat (RESOURCES, name, NULL);
  g_autoptr(GBytes) bytes = g_resources_lookup_data (path, G_RESOURCE_LOOKUP_FLAGS_NONE, error);
  g_autoptr(GFile) file = g_file_get_child (self->folder, name);
  gconstpointer data;
  gsize size;

  if (bytes == NULL)
    return FALSE;
  data = g_bytes_get_data (bytes, &size);
  return (keep && g_file_query_exists (file, self->cancellable)) || write_file (self, name, data, size, error);
}

static gboolean
is_piece_name (const char *name)
{
  if (!g_str_has_prefix (name, "weights-") || strlen (name) != strlen ("weights-0123456789abcdef.bin") || !g_str_has_suffix (name, ".bin"))
    return FALSE;
  for (guint i = 0; i < 16; i++)
    if (!g_ascii_isxdigit (name[strlen ("weights-") + i]))
      return FALSE;
  return TRUE;
}

/* Removes files of an earlier export that are not needed any more. */
static void
remove_old_pieces (RlxWebFolder *self)
{
  g_autoptr(GFileEnumerator) files = g_file_enumerate_children (self->folder, G_FILE_ATTRIBUTE_STANDARD_NAME,
                                                                G_FILE_QUERY_INFO_NOFOLLOW_SYMLINKS, NULL, NULL);
  GFileInfo *info;
  GFile *file;

  while (files != NULL && g_file_enumerator_iterate (files, &info, &file, NULL, NULL) && info != NULL)
    {
      gboolean used = !is_piece_name (g_file_info_get_name (info));

      for (guint i = 0; !used && i < self->pieces->len; i++)
        used = g_str_equal (g_array_index (self->pieces, Piece, i).name, g_file_info_get_name (info));
      if (!used)
        g_file_delete (file, NULL, NULL);
    }
}

gboolean
rlx_web_folder_finish (RlxWebFolder *self,
                       GString      *text,
                       GError      **error)
{
  static const struct { const char *name; gboolean keep; } resources[] = {
    { "rlx.js", FALSE }, { "rlx.d.ts", FALSE }, { "index.html", TRUE }, { "package.json", TRUE },
  };
  g_autofree char *sha256 = NULL, *head = NULL;

  if (!rlx_web_folder_cut (self, error))
    return FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (resources); i++)
    if (!write_resource (self, resources[i].name, resources[i].keep, error))
      return FALSE;

  g_string_append (text, ",\n\"pieces\":[");
  for (guint i = 0; i < self->pieces->len; i++)
    {
      const Piece *piece = &g_array_index (self->pieces, Piece, i);

      g_string_append_printf (text, "%s\n{\"file\":\"%s\",\"size\":%" G_GSIZE_FORMAT ",\"sha256\":\"%s\"}", i > 0 ? "," : "",
                              piece->name, piece->size, piece->sha256);
    }
  g_string_append (text, "]\n}\n");

  /* The checksum covers everything after the first line. */
  sha256 = g_compute_checksum_for_data (G_CHECKSUM_SHA256, (const guint8 *) text->str, text->len);
  head = g_strdup_printf ("{\"format\":\"rlx-web\",\"version\":%d,\"sha256\":\"%s\",\n", RLX_WEB_VERSION, sha256);
  g_string_prepend (text, head);
  if (!write_file (self, "plan.json", text->str, text->len, error))
    return FALSE;
  remove_old_pieces (self);
  return TRUE;
}
