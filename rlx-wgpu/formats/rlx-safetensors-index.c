/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The index of a model in several safetensors files: a JSON object, whose "weight_map"
 * says for each tensor which file it is in. The files lie beside the index.
 */
#include "config.h"

#include "formats/rlx-manifest-private.h"

#include <string.h>

#include "formats/rlx-json-private.h"
#include "util/rlx-debug-private.h"

/* A tensor or a file in the map. */
typedef struct
{
  const char *name;
  guint32 at;                /* its offset in the index, which has less than 4 GiB */
  guint16 part;              /* index of the file */
} Item;

typedef struct
{
  GStringChunk *text;
  GArray *tensors;           /* Item */
  GArray *files;             /* Item, by file name */
} Map;

/* Only files in the folder of the index are allowed. */
static gboolean
check_file_name (const RlxJson *json,
                 const char    *name,
                 GError       **error)
{
  g_autofree char *quoted = NULL;

  if (g_str_has_suffix (name, ".safetensors") && name[0] != '.' && strpbrk (name, "/\\") == NULL && strlen (name) < 256)
    return TRUE;
  quoted = rlx_quote_text (name, -1);
  return rlx_json_fail (json, error, "“weight_map” names %s, which is not the plain name of a .safetensors file", quoted);
}

static gboolean
parse_map (RlxJson *json,
           Map     *map,
           GString *text,
           GError **error)
{
  g_autoptr(GHashTable) known = g_hash_table_new (g_str_hash, g_str_equal);
  gboolean first = TRUE, more;

  if (!rlx_json_expect (json, '{', error))
    return FALSE;
  for (;;)
    {
      Item tensor = { 0 }, file = { 0 };
      gpointer known_part;

      if (!rlx_json_next (json, '}', &first, &more, error))
        return FALSE;
      if (!more)
        return TRUE;
      if (map->tensors->len == RLX_WEIGHTS_MAX_ENTRIES)
        return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_LIMIT, rlx_json_get_place (json),
                                 "there are more tensors than the limit of %d", RLX_WEIGHTS_MAX_ENTRIES);
      rlx_json_peek (json);
      tensor.at = (guint32) rlx_json_get_place (json);
      if (!rlx_json_string (json, text, error) || !rlx_json_expect (json, ':', error))
        return FALSE;
      tensor.name = g_string_chunk_insert_len (map->text, text->str, (gssize) text->len);
      rlx_json_peek (json);
      file.at = (guint32) rlx_json_get_place (json);
      if (!rlx_json_string (json, text, error) || !check_file_name (json, text->str, error))
        return FALSE;
      if (g_hash_table_lookup_extended (known, text->str, NULL, &known_part))
        tensor.part = (guint16) GPOINTER_TO_UINT (known_part);
      else
        {
          if (map->files->len == RLX_WEIGHTS_MAX_PARTS)
            return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_LIMIT, rlx_json_get_place (json),
                                     "“weight_map” names more files than the limit of %d", RLX_WEIGHTS_MAX_PARTS);
          tensor.part = file.part = (guint16) map->files->len;
          file.name = g_string_chunk_insert_len (map->text, text->str, (gssize) text->len);
          g_array_append_val (map->files, file);
          g_hash_table_insert (known, (gpointer) file.name, GUINT_TO_POINTER (file.part));
        }
      g_array_append_val (map->tensors, tensor);
    }
}

static gboolean
parse_index (RlxSource    *source,
             Map          *map,
             GCancellable *cancellable,
             GError      **error)
{
  guint64 size = rlx_source_get_size (source);
  g_autoptr(GString) name = g_string_new (NULL);
  g_autofree char *text = NULL;
  gboolean first = TRUE, more, has_map = FALSE;
  RlxJson json;

  if (size > RLX_SAFETENSORS_MAX_HEADER)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_LIMIT, 0,
                             "the index has %" G_GUINT64_FORMAT " bytes; the limit is %" G_GUINT64_FORMAT, size, RLX_SAFETENSORS_MAX_HEADER);
  text = rlx_source_read_text (source, "the index", 0, (gsize) size, cancellable, error);
  if (text == NULL)
    return FALSE;
  json = (RlxJson) { text, text, text + size, 0 };
  if (!rlx_json_expect (&json, '{', error))
    return FALSE;
  for (;;)
    {
      if (!rlx_json_next (&json, '}', &first, &more, error))
        return FALSE;
      if (!more)
        break;
      if (!rlx_json_string (&json, name, error) || !rlx_json_expect (&json, ':', error))
        return FALSE;
      if (strcmp (name->str, "weight_map") != 0)
        {
          if (!rlx_json_skip (&json, error))
            return FALSE;
          continue;
        }
      if (has_map)
        return rlx_json_fail (&json, error, "“weight_map” comes twice");
      has_map = TRUE;
      if (!parse_map (&json, map, name, error))
        return FALSE;
    }
  if (!has_map)
    return rlx_json_fail (&json, error, "the index has no “weight_map”");
  return rlx_json_end (&json, error);
}

/* Adds the tensors of a part that the index expects there. */
static gboolean
read_part (RlxSource    *source,
           RlxManifest  *all,
           const Map    *map,
           guint16       part,
           GCancellable *cancellable,
           GError      **error)
{
  g_autoptr(RlxManifest) manifest = rlx_manifest_new ();
  g_autoptr(GVariant) metadata = NULL;

  if (!rlx_safetensors_read (source, manifest, cancellable, error))
    return FALSE;
  for (guint i = 0; i < map->tensors->len; i++)
    {
      const Item *tensor = &g_array_index (map->tensors, Item, i);
      const RlxRecord *from;
      RlxRecord *to;
      gint64 found;

      if (tensor->part != part)
        continue;
      found = rlx_manifest_find (manifest, tensor->name);
      if (found < 0)
        {
          g_autofree char *quoted = rlx_quote_text (tensor->name, -1);

          return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_NOT_FOUND, tensor->at, "the index expects %s in this file, which does not have it", quoted);
        }
      from = rlx_manifest_get (manifest, (guint) found);
      to = rlx_manifest_add (all, tensor->at, tensor->name, strlen (tensor->name), from->storage,
                             rlx_manifest_get_shape (manifest, from), from->n_dims, NULL, error);
      if (to == NULL)
        return FALSE;
      to->offset = from->offset;
      to->length = from->length;
      to->part = part;
    }
  /* Usually, all parts have the same metadata. */
  if (part == 0)
    {
      metadata = g_variant_ref_sink (g_variant_builder_end (&manifest->metadata));
      for (gsize i = 0; i < g_variant_n_children (metadata); i++)
        {
          g_autoptr(GVariant) pair = g_variant_get_child_value (metadata, i);

          g_variant_builder_add_value (&all->metadata, pair);
        }
    }
  return TRUE;
}

static void
map_clear (Map *map)
{
  g_string_chunk_free (map->text);
  g_array_unref (map->tensors);
  g_array_unref (map->files);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Map, map_clear)

gboolean
rlx_safetensors_read_index (RlxSource    *source,
                            GFile        *file,
                            RlxManifest  *manifest,
                            GCancellable *cancellable,
                            GError      **error)
{
  g_auto(Map) map = { g_string_chunk_new (4096), g_array_new (FALSE, FALSE, sizeof (Item)), g_array_new (FALSE, FALSE, sizeof (Item)) };

  if (!parse_index (source, &map, cancellable, error))
    return FALSE;
  for (guint i = 0; i < map.files->len; i++)
    {
      const Item *item = &g_array_index (map.files, Item, i);
      g_autoptr(RlxSource) part = rlx_source_open_beside (file, item->name, FALSE, cancellable, error);

      if (part == NULL)
        {
          g_prefix_error (error, "At byte %u: %s: ", item->at, item->name);
          return FALSE;
        }
      rlx_manifest_add_source (manifest, part);
      if (!read_part (part, manifest, &map, item->part, cancellable, error))
        {
          g_prefix_error (error, "%s: ", item->name);
          return FALSE;
        }
    }
  return rlx_manifest_seal (manifest, error);
}
