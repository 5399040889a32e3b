/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "formats/rlx-source-private.h"

#include <string.h>

#include "rlx-types.h"
#include "util/rlx-debug-private.h"
#include "util/rlx-os-private.h"

#define MAX_NAME 255

struct _RlxSource
{
  gatomicrefcount ref_count;
  guint64 size;
  GBytes *bytes;             /* one of these three is set */
  int file;
  GInputStream *stream;
  GMutex mutex;              /* of the stream… */
  guint64 position;          /* …and where it is */
};

static RlxSource *
source_new (void)
{
  RlxSource *self = g_new0 (RlxSource, 1);

  g_atomic_ref_count_init (&self->ref_count);
  self->file = RLX_OS_NO_FILE;
  g_mutex_init (&self->mutex);
  return self;
}

RlxSource *
rlx_source_ref (RlxSource *self)
{
  g_atomic_ref_count_inc (&self->ref_count);
  return self;
}

void
rlx_source_unref (RlxSource *self)
{
  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;
  g_clear_pointer (&self->bytes, g_bytes_unref);
  g_clear_object (&self->stream);
  if (self->file != RLX_OS_NO_FILE)
    rlx_os_file_close (self->file);
  g_mutex_clear (&self->mutex);
  g_free (self);
}

/* ---- opening ------------------------------------------------------------------------- */

RlxSource *
rlx_source_new_for_bytes (GBytes *bytes)
{
  RlxSource *self = source_new ();

  self->bytes = g_bytes_ref (bytes);
  self->size = g_bytes_get_size (bytes);
  return self;
}

/* Takes ownership of @file. */
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

/* Called before opening, because opening a pipe would block until there is a writer. */
static gboolean
check_type (GFileInfo *info,
            GError   **error)
{
  GFileType type = (GFileType) g_file_info_get_attribute_uint32 (info, G_FILE_ATTRIBUTE_STANDARD_TYPE);

  if (type == G_FILE_TYPE_REGULAR)
    return TRUE;
  if (type == G_FILE_TYPE_DIRECTORY)
    g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_IS_DIRECTORY, "It is a directory");
  else if (type == G_FILE_TYPE_SYMBOLIC_LINK)
    /* Links are followed, so the target of this one is missing. */
    g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND, "It is a link to a file that does not exist");
  else
    g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_NOT_REGULAR_FILE, "It is not a regular file");
  return FALSE;
}

static RlxSource *
open_stream (GFile        *file,
             GCancellable *cancellable,
             GError      **error)
{
  g_autoptr(RlxSource) self = source_new ();
  g_autoptr(GFileInfo) info = g_file_query_info (file, G_FILE_ATTRIBUTE_STANDARD_TYPE "," G_FILE_ATTRIBUTE_STANDARD_SIZE,
                                                 G_FILE_QUERY_INFO_NONE, cancellable, error);
  g_autoptr(GFileInfo) opened = NULL;

  if (info == NULL || !check_type (info, error))
    return NULL;
  self->stream = G_INPUT_STREAM (g_file_read (file, cancellable, error));
  if (self->stream == NULL)
    return NULL;

  /* The size of the file that was opened, if known; by now, the name may refer to another one. */
  opened = g_file_input_stream_query_info (G_FILE_INPUT_STREAM (self->stream), G_FILE_ATTRIBUTE_STANDARD_SIZE, cancellable, NULL);
  if (opened != NULL && g_file_info_has_attribute (opened, G_FILE_ATTRIBUTE_STANDARD_SIZE))
    g_set_object (&info, opened);
  if (!g_file_info_has_attribute (info, G_FILE_ATTRIBUTE_STANDARD_SIZE))
    {
      g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_NOT_SUPPORTED, "The size of the file cannot be determined");
      return NULL;
    }
  self->size = g_file_info_get_attribute_uint64 (info, G_FILE_ATTRIBUTE_STANDARD_SIZE);
  return g_steal_pointer (&self);
}

static RlxSource *
open_file (GFile        *file,
           gboolean      links,
           GCancellable *cancellable,
           GError      **error)
{
  const char *path = g_file_peek_path (file);

  if (g_cancellable_set_error_if_cancelled (cancellable, error))
    return NULL;
  if (path == NULL || RLX_OS_IS_WINDOWS)
    return open_stream (file, cancellable, error);
  return new_for_file (rlx_os_file_open (path, links, error), error);
}

RlxSource *
rlx_source_open (GFile        *file,
                 GCancellable *cancellable,
                 GError      **error)
{
  return open_file (file, TRUE, cancellable, error);
}

static GFileInfo *
query_links (GFile        *file,
             gboolean     *is_link,
             GCancellable *cancellable,
             GError      **error)
{
  GFileInfo *info = g_file_query_info (file, G_FILE_ATTRIBUTE_STANDARD_IS_SYMLINK "," G_FILE_ATTRIBUTE_UNIX_NLINK,
                                       G_FILE_QUERY_INFO_NOFOLLOW_SYMLINKS, cancellable, error);

  *is_link = info != NULL && g_file_info_get_attribute_boolean (info, G_FILE_ATTRIBUTE_STANDARD_IS_SYMLINK);
  return info;
}

RlxSource *
rlx_source_open_beside (GFile        *beside,
                        const char   *name,
                        gboolean      sole,
                        GCancellable *cancellable,
                        GError      **error)
{
  g_autoptr(GFile) folder = g_file_get_parent (beside);
  g_autoptr(GFile) file = NULL;
  g_autoptr(GFileInfo) own = NULL, info = NULL;
  gboolean links, is_link;
  gsize length = strlen (name);

  if (folder == NULL || length == 0 || length > MAX_NAME || name[0] == '.' || strpbrk (name, "/\\") != NULL ||
      !g_utf8_validate_len (name, length, NULL))
    {
      g_autofree char *quoted = rlx_quote_text (name, -1);

      g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_PARSE, "%s is not the plain name of a file", quoted);
      return NULL;
    }
  file = g_file_get_child (folder, name);
  own = query_links (beside, &links, cancellable, error);
  info = own != NULL ? query_links (file, &is_link, cancellable, error) : NULL;
  if (info == NULL)
    return NULL;
  if (is_link && !links)
    {
      g_set_error_literal (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_UNSUPPORTED,
                           "It is a link, which is only followed if the file that names it is a link itself");
      return NULL;
    }
  if (sole && !is_link && g_file_info_get_attribute_uint32 (info, G_FILE_ATTRIBUTE_UNIX_NLINK) > 1)
    {
      g_set_error_literal (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_UNSUPPORTED,
                           "It has another hard link, so it may be any file");
      return NULL;
    }
  return open_file (file, links, cancellable, error);
}

/* ---- reading ------------------------------------------------------------------------- */

guint64
rlx_source_get_size (RlxSource *self)
{
  return self->size;
}

static gboolean
seek_stream (RlxSource    *self,
             guint64       offset,
             GCancellable *cancellable,
             GError      **error)
{
  gssize n = 1;

  if (self->position == offset)
    return TRUE;
  if (G_IS_SEEKABLE (self->stream) && g_seekable_can_seek (G_SEEKABLE (self->stream)))
    {
      if (!g_seekable_seek (G_SEEKABLE (self->stream), (goffset) offset, G_SEEK_SET, cancellable, error))
        return FALSE;
      self->position = offset;
      return TRUE;
    }
  if (self->position > offset)
    {
      g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_NOT_SUPPORTED, "It cannot be read at arbitrary offsets");
      return FALSE;
    }
  for (; self->position < offset && n > 0; self->position += (guint64) MAX (n, 0))
    n = g_input_stream_skip (self->stream, (gsize) MIN (offset - self->position, RLX_PIECE), cancellable, error);
  /* If it ends early, reading will report that. */
  return n >= 0;
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
  if (seek_stream (self, offset, cancellable, error))
    n = g_input_stream_read (self->stream, buffer, size, cancellable, error);
  self->position += (guint64) MAX (n, 0);
  g_mutex_unlock (&self->mutex);
  return n;
}

gboolean
rlx_source_read (RlxSource    *self,
                 const char   *what,
                 guint64       offset,
                 gpointer      buffer,
                 gsize         size,
                 GCancellable *cancellable,
                 GError      **error)
{
  guint8 *to = buffer;

  g_assert (offset <= self->size && size <= self->size - offset);

  while (size > 0)
    {
      gssize n = (gssize) MIN (size, RLX_PIECE);

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
    }
  return TRUE;
}

char *
rlx_source_read_text (RlxSource    *self,
                      const char   *what,
                      guint64       offset,
                      gsize         size,
                      GCancellable *cancellable,
                      GError      **error)
{
  g_autofree char *text = size < G_MAXSIZE ? g_try_malloc (size + 1) : NULL;

  if (text == NULL)
    {
      g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_LIMIT,
                   "There is no memory for the %" G_GSIZE_FORMAT " bytes of %s", size, what);
      return NULL;
    }
  if (!rlx_source_read (self, what, offset, text, size, cancellable, error))
    return NULL;
  text[size] = '\0';
  return g_steal_pointer (&text);
}

GBytes *
rlx_source_share (RlxSource *self,
                  guint64    offset,
                  gsize      size)
{
  return self->bytes != NULL ? g_bytes_new_from_bytes (self->bytes, (gsize) offset, size) : NULL;
}
