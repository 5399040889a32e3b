/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "formats/rlx-source-private.h"

#include <string.h>

#include "rlx-types.h"
#include "util/rlx-os-private.h"

/* How much is read between two looks at the GCancellable. */
#define PIECE ((gsize) 4 << 20)

struct _RlxSource
{
  guint64 size;
  GBytes *bytes;             /* one of these three */
  int file;
  GFileInputStream *stream;
  GMutex mutex;              /* of the stream, which has one position */
};

static RlxSource *
source_new (void)
{
  RlxSource *self = g_new0 (RlxSource, 1);

  self->file = RLX_OS_NO_FILE;
  g_mutex_init (&self->mutex);
  return self;
}

void
rlx_source_free (RlxSource *self)
{
  g_clear_pointer (&self->bytes, g_bytes_unref);
  g_clear_object (&self->stream);
  if (self->file != RLX_OS_NO_FILE)
    rlx_os_file_close (self->file);
  g_mutex_clear (&self->mutex);
  g_free (self);
}

RlxSource *
rlx_source_new_for_bytes (GBytes *bytes)
{
  RlxSource *self = source_new ();

  self->bytes = g_bytes_ref (bytes);
  self->size = g_bytes_get_size (bytes);
  return self;
}

/* Takes @file over. */
static RlxSource *
new_for_file (int      file,
              GError **error)
{
  g_autoptr(RlxSource) self = source_new ();

  self->file = file;
  if (file == RLX_OS_NO_FILE || !rlx_os_file_get_size (file, &self->size, error))
    return NULL;
  return g_steal_pointer (&self);
}

RlxSource *
rlx_source_new_for_fd (int      fd,
                       GError **error)
{
  return new_for_file (rlx_os_file_dup (fd, error), error);
}

/* For what is no file of this machine's, such as a resource. */
static RlxSource *
open_stream (GFile        *file,
             GCancellable *cancellable,
             GError      **error)
{
  g_autoptr(RlxSource) self = source_new ();
  g_autoptr(GFileInfo) info = NULL;

  self->stream = g_file_read (file, cancellable, error);
  if (self->stream == NULL)
    return NULL;
  info = g_file_input_stream_query_info (self->stream, G_FILE_ATTRIBUTE_STANDARD_SIZE, cancellable, NULL);
  if (info == NULL || !g_file_info_has_attribute (info, G_FILE_ATTRIBUTE_STANDARD_SIZE) ||
      !g_seekable_can_seek (G_SEEKABLE (self->stream)))
    {
      g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_NOT_SUPPORTED, "It has no size, or cannot be read in places");
      return NULL;
    }
  self->size = g_file_info_get_attribute_uint64 (info, G_FILE_ATTRIBUTE_STANDARD_SIZE);
  return g_steal_pointer (&self);
}

RlxSource *
rlx_source_open (GFile        *file,
                 GCancellable *cancellable,
                 GError      **error)
{
  const char *path = g_file_peek_path (file);

  if (g_cancellable_set_error_if_cancelled (cancellable, error))
    return NULL;
  if (path == NULL || RLX_OS_IS_WINDOWS)
    return open_stream (file, cancellable, error);
  return new_for_file (rlx_os_file_open (path, error), error);
}

guint64
rlx_source_get_size (RlxSource *self)
{
  return self->size;
}

static gssize
read_piece (RlxSource    *self,
            guint64       offset,
            gpointer      buffer,
            gsize         size,
            GCancellable *cancellable,
            GError      **error)
{
  gssize n = -1;

  if (self->file != RLX_OS_NO_FILE)
    return rlx_os_file_read (self->file, offset, buffer, size, error);

  g_mutex_lock (&self->mutex);
  if (g_seekable_seek (G_SEEKABLE (self->stream), (goffset) offset, G_SEEK_SET, cancellable, error))
    n = g_input_stream_read (G_INPUT_STREAM (self->stream), buffer, size, cancellable, error);
  g_mutex_unlock (&self->mutex);
  return n;
}

gboolean
rlx_source_read (RlxSource    *self,
                 const char   *what,
                 guint64       offset,
                 gpointer      buffer,
                 gsize         size,
                 RlxSourceFunc func,
                 gpointer      data,
                 GCancellable *cancellable,
                 GError      **error)
{
  guint8 *to = buffer;

  g_assert (offset <= self->size && size <= self->size - offset);

  while (size > 0)
    {
      gssize n = (gssize) MIN (size, PIECE);

      if (g_cancellable_set_error_if_cancelled (cancellable, error))
        return FALSE;
      if (self->bytes != NULL)
        memcpy (to, (const guint8 *) g_bytes_get_data (self->bytes, NULL) + offset, (gsize) n);
      else
        n = read_piece (self, offset, to, (gsize) n, cancellable, error);
      if (n < 0)
        return FALSE;
      if (n == 0)
        {
          g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_TRUNCATED,
                       "The file now ends in %s, at byte %" G_GUINT64_FORMAT "; it had %" G_GUINT64_FORMAT " bytes when it was opened",
                       what, offset, self->size);
          return FALSE;
        }
      offset += (guint64) n;
      to += n;
      size -= (gsize) n;
      if (func != NULL)
        func ((gsize) n, data);
    }
  return TRUE;
}

GBytes *
rlx_source_share (RlxSource *self,
                  guint64    offset,
                  gsize      size)
{
  return self->bytes != NULL ? g_bytes_new_from_bytes (self->bytes, (gsize) offset, size) : NULL;
}
