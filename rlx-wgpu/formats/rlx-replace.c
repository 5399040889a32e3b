/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "formats/rlx-replace-private.h"

/* How much is written between two looks at the GCancellable. */
#define PIECE ((gsize) 4 << 20)

/* Opening a pipe waits for a reader, and a device is not for tensors. What else
 * can be wrong is left to g_file_replace() to report. */
static gboolean
check_replaceable (GFile         *file,
                   GCancellable  *cancellable,
                   GError       **error)
{
  GFileType type = g_file_query_file_type (file, G_FILE_QUERY_INFO_NONE, cancellable);

  if (type != G_FILE_TYPE_SPECIAL)
    return TRUE;

  g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_NOT_REGULAR_FILE, "It is not a regular file");

  return FALSE;
}

static gboolean
write_block (GOutputStream   *stream,
             const RlxBlock  *block,
             GCancellable    *cancellable,
             GError         **error)
{
  const guint8 *data = block->data;

  for (gsize done = 0, n; done < block->size; done += n)
    if (g_cancellable_set_error_if_cancelled (cancellable, error) ||
        !g_output_stream_write_all (stream, data + done, MIN (block->size - done, PIECE), &n, cancellable, error))
      return FALSE;

  return TRUE;
}

gboolean
rlx_replace_file (GFile           *file,
                  const RlxBlock  *blocks,
                  gsize            n_blocks,
                  GCancellable    *cancellable,
                  GError         **error)
{
  g_autoptr (GFileOutputStream) stream = NULL;
  g_autoptr (GError) local_error = NULL;
  g_autofree char *name = NULL;

  if (check_replaceable (file, cancellable, &local_error))
    stream = g_file_replace (file, NULL, FALSE, G_FILE_CREATE_NONE, cancellable, &local_error);

  for (gsize i = 0; i < n_blocks && local_error == NULL; i++)
    write_block (G_OUTPUT_STREAM (stream), &blocks[i], cancellable, &local_error);

  if (local_error == NULL)
    g_output_stream_close (G_OUTPUT_STREAM (stream), cancellable, &local_error);
  else if (stream != NULL)
    {
      /* Closing is what puts the new file in the place of the old one, unless
       * it is cancelled. */
      g_autoptr (GCancellable) cancelled = g_cancellable_new ();

      g_cancellable_cancel (cancelled);
      g_output_stream_close (G_OUTPUT_STREAM (stream), cancelled, NULL);
    }

  if (local_error == NULL)
    return TRUE;

  name = g_file_get_parse_name (file);
  g_propagate_prefixed_error (error, g_steal_pointer (&local_error), "%s: ", name);

  return FALSE;
}
