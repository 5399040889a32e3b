/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "util/rlx-wgsl-library-private.h"

#include "rlx-types.h"

#include <string.h>

#define BLOCK_MARK "//="

typedef struct
{
  char **needs;
  const char *start;
  gsize length;
  char *name;
  gboolean wanted;
} Block;

static void
block_clear (gpointer data)
{
  Block *block = data;

  g_free (block->name);
  g_strfreev (block->needs);
}

char *
rlx_wgsl_library_load (const char  *file,
                       GError     **error)
{
  g_autofree char *path = g_strconcat ("/rlx-wgpu/kernels/", file, NULL);
  g_autoptr(GBytes) bytes = NULL;
  g_autoptr(GError) local_error = NULL;

  bytes = g_resources_lookup_data (path, G_RESOURCE_LOOKUP_FLAGS_NONE, &local_error);
  if (bytes == NULL)
    {
      g_set_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_INTERNAL,
                   "Kernel file “%s” cannot be read: %s", file, local_error->message);
      return NULL;
    }

  return g_strndup (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes));
}

static GArray *
split_blocks (const char  *text,
              const char  *file,
              GError     **error)
{
  g_autoptr(GArray) blocks = g_array_new (FALSE, TRUE, sizeof (Block));
  const char *line = text;

  g_array_set_clear_func (blocks, block_clear);

  while (*line != '\0')
    {
      const char *end = line + strcspn (line, "\n");
      const char *next = *end != '\0' ? end + 1 : end;

      if (g_str_has_prefix (line, BLOCK_MARK))
        {
          g_autofree char *head = g_strndup (line + strlen (BLOCK_MARK),
                                             end - line - strlen (BLOCK_MARK));
          char *colon = strchr (head, ':');
          Block block = { .start = next };

          if (colon == NULL)
            {
              g_set_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_INTERNAL,
                           "%s: the block “%s” has no colon", file, g_strstrip (head));
              return NULL;
            }

          *colon = '\0';
          block.name = g_strdup (g_strstrip (head));
          block.needs = g_strsplit_set (colon + 1, " \t", -1);
          g_array_append_val (blocks, block);
        }
      else if (blocks->len > 0)
        {
          g_array_index (blocks, Block, blocks->len - 1).length += next - line;
        }

      line = next;
    }

  return g_steal_pointer (&blocks);
}

static Block *
find_block (GArray     *blocks,
            const char *name)
{
  for (guint i = 0; i < blocks->len; i++)
    {
      Block *block = &g_array_index (blocks, Block, i);

      if (g_str_equal (block->name, name))
        return block;
    }

  return NULL;
}

char *
rlx_wgsl_library_select_new (const char         *file,
                             const char *const  *names,
                             GHashTable         *done,
                             GError            **error)
{
  g_autofree char *text = NULL;
  g_autoptr(GArray) blocks = NULL;
  g_autoptr(GPtrArray) queue = g_ptr_array_new ();
  g_autoptr(GString) result = NULL;

  text = rlx_wgsl_library_load (file, error);
  if (text == NULL)
    return NULL;

  blocks = split_blocks (text, file, error);
  if (blocks == NULL)
    return NULL;

  if (names != NULL)
    {
      for (gsize i = 0; names[i] != NULL; i++)
        g_ptr_array_add (queue, (gpointer) names[i]);
    }
  else
    {
      for (guint i = 0; i < blocks->len; i++)
        g_ptr_array_add (queue, g_array_index (blocks, Block, i).name);
    }

  while (queue->len > 0)
    {
      const char *name = g_ptr_array_steal_index (queue, queue->len - 1);
      Block *block = find_block (blocks, name);

      if (block == NULL)
        {
          g_set_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_INTERNAL,
                       "%s has no function “%s”", file, name);
          return NULL;
        }

      if (block->wanted)
        continue;

      block->wanted = TRUE;
      for (gsize i = 0; block->needs[i] != NULL; i++)
        {
          if (*block->needs[i] != '\0')
            g_ptr_array_add (queue, block->needs[i]);
        }
    }

  result = g_string_new (NULL);
  for (guint i = 0; i < blocks->len; i++)
    {
      const Block *block = &g_array_index (blocks, Block, i);

      if (block->wanted && g_hash_table_add (done, g_strdup (block->name)))
        g_string_append_len (result, block->start, block->length);
    }

  return g_string_free (g_steal_pointer (&result), FALSE);
}

char *
rlx_wgsl_library_select (const char         *file,
                         const char *const  *names,
                         GError            **error)
{
  g_autoptr(GHashTable) done = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);

  return rlx_wgsl_library_select_new (file, names, done, error);
}

void
rlx_wgsl_library_scan (const char *text,
                       GPtrArray  *names)
{
  const char *p = text;

  while (*p != '\0')
    {
      const char *start = p;

      while (g_ascii_isalnum (*p) || *p == '_')
        p++;

      if (p == start)
        {
          p++;
          continue;
        }

      if (g_str_has_prefix (start, "op_") || g_str_has_prefix (start, "cast_"))
        {
          g_autofree char *name = g_strndup (start, p - start);

          if (!g_ptr_array_find_with_equal_func (names, name, g_str_equal, NULL))
            g_ptr_array_add (names, g_steal_pointer (&name));
        }
    }
}
