/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "formats/rlx-sink-private.h"

#include "formats/rlx-source-private.h"

struct _RlxSink
{
  GFile *file;
  GCancellable *cancellable; /* nullable */
  GOutputStream *stream;     /* until it is closed */
  guint64 position;
};

static gboolean
fail (GFile   *file,
      GError **error)
{
  g_autofree char *name = g_file_get_parse_name (file);

  g_prefix_error (error, "%s: ", name);
  return FALSE;
}

RlxSink *
rlx_sink_open (GFile        *file,
               GCancellable *cancellable,
               GError      **error)
{
  g_autoptr(GFileOutputStream) stream = NULL;
  RlxSink *self;

  /* Opening a pipe would block until there is a reader, and devices are not supported. g_file_replace() reports all other
   * problems. */
  if (g_file_query_file_type (file, G_FILE_QUERY_INFO_NONE, cancellable) == G_FILE_TYPE_SPECIAL)
    g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_NOT_REGULAR_FILE, "It is not a regular file");
  else
    stream = g_file_replace (file, NULL, FALSE, G_FILE_CREATE_NONE, cancellable, error);
  if (stream == NULL)
    {
      fail (file, error);
      return NULL;
    }
  self = g_new0 (RlxSink, 1);
  self->file = g_object_ref (file);
  self->cancellable = cancellable != NULL ? g_object_ref (cancellable) : NULL;
  self->stream = G_OUTPUT_STREAM (g_steal_pointer (&stream));
  return self;
}

void
rlx_sink_free (RlxSink *self)
{
  /* Closing replaces the old file by the new one, unless it is cancelled. */
  if (self->stream != NULL)
    {
      g_autoptr(GCancellable) cancelled = g_cancellable_new ();

      g_cancellable_cancel (cancelled);
      g_output_stream_close (self->stream, cancelled, NULL);
      g_object_unref (self->stream);
    }
  g_clear_object (&self->cancellable);
  g_object_unref (self->file);
  g_free (self);
}

guint64
rlx_sink_get_position (RlxSink *self)
{
  return self->position;
}

static gboolean
write_all (RlxSink      *self,
           const guint8 *data,
           gsize         size,
           GError      **error)
{
  for (gsize done = 0, n; done < size; done += n)
    if (g_cancellable_set_error_if_cancelled (self->cancellable, error) ||
        !g_output_stream_write_all (self->stream, data + done, MIN (size - done, RLX_PIECE), &n, self->cancellable, error))
      return fail (self->file, error);
  return TRUE;
}

gboolean
rlx_sink_write (RlxSink      *self,
                gconstpointer data,
                gsize         size,
                GError      **error)
{
  if (!write_all (self, data, size, error))
    return FALSE;
  self->position += size;
  return TRUE;
}

gboolean
rlx_sink_patch (RlxSink      *self,
                guint64       offset,
                gconstpointer data,
                gsize         size,
                GError      **error)
{
  GSeekable *seekable = G_SEEKABLE (self->stream);

  if (!g_seekable_seek (seekable, (goffset) offset, G_SEEK_SET, self->cancellable, error))
    return fail (self->file, error);
  if (!write_all (self, data, size, error))
    return FALSE;
  return g_seekable_seek (seekable, (goffset) self->position, G_SEEK_SET, self->cancellable, error) || fail (self->file, error);
}

gboolean
rlx_sink_close (RlxSink *self,
                GError **error)
{
  g_autoptr(GOutputStream) stream = g_steal_pointer (&self->stream);

  return g_output_stream_close (stream, self->cancellable, error) || fail (self->file, error);
}
