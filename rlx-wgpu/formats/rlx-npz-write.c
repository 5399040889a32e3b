/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * .npz files: zip archives of .npy files, as NumPy writes them. What is known only after
 * a member's bytes are written, its sizes and its checksum, is put in front of them then.
 */
#include "config.h"

#include "formats/rlx-write-private.h"

#include <string.h>
#include <zlib.h>

#include "formats/rlx-npy-private.h"
#include "formats/rlx-zip-private.h"

#define OUTPUT 65536

/* 1 January 1980, midnight: the same tensors give the same file. */
#define DATE 33

#define VERSION 20
#define VERSION64 45

typedef struct
{
  RlxSink *sink;
  gboolean deflate;
  z_stream deflater;
  guint8 output[OUTPUT];
  GByteArray *directory;
  RlxExtent extent;          /* of the member that is being written */
} Archive;

static void
put (GByteArray *bytes,
     guint64     value,
     guint       size)
{
  value = GUINT64_TO_LE (value);
  g_byte_array_append (bytes, (const guint8 *) &value, size);
}

/* Whether a number needs 64 bits. */
static gboolean
is_large (guint64 value)
{
  return value >= RLX_ZIP_LARGE32;
}

static gboolean
write_some (gpointer      data,
            gconstpointer bytes,
            gsize         size,
            GError      **error)
{
  Archive *archive = data;
  z_stream *z = &archive->deflater;

  archive->extent.crc = (guint32) crc32_z (archive->extent.crc, bytes, size);
  archive->extent.size += size;
  if (!archive->deflate)
    return rlx_sink_write (archive->sink, bytes, size, error);

  for (gsize done = 0, n; done < size; done += n)
    {
      n = MIN (size - done, RLX_PIECE);
      z->next_in = (guint8 *) bytes + done;
      z->avail_in = (uInt) n;
      while (z->avail_in > 0)
        {
          z->next_out = archive->output;
          z->avail_out = OUTPUT;
          deflate (z, Z_NO_FLUSH);
          if (!rlx_sink_write (archive->sink, archive->output, OUTPUT - z->avail_out, error))
            return FALSE;
        }
    }
  return TRUE;
}

static gboolean
end_deflating (Archive *archive,
               GError **error)
{
  z_stream *z = &archive->deflater;
  int status = Z_OK;

  while (archive->deflate && status == Z_OK)
    {
      z->next_out = archive->output;
      z->avail_out = OUTPUT;
      status = deflate (z, Z_FINISH);
      if (!rlx_sink_write (archive->sink, archive->output, OUTPUT - z->avail_out, error))
        return FALSE;
    }
  if (archive->deflate)
    deflateReset (z);
  return TRUE;
}

/* The fields that a member's header and its directory entry have in common. */
static void
put_member (GByteArray      *bytes,
            const RlxExtent *extent,
            const char      *name,
            gboolean         large)
{
  put (bytes, large ? VERSION64 : VERSION, 2);
  put (bytes, g_str_is_ascii (name) ? 0 : RLX_ZIP_UTF8, 2);
  put (bytes, extent->deflated ? RLX_ZIP_DEFLATED : RLX_ZIP_STORED, 2);
  put (bytes, 0, 2);
  put (bytes, DATE, 2);
  put (bytes, extent->crc, 4);
  put (bytes, large ? RLX_ZIP_LARGE32 : extent->stored, 4);
  put (bytes, large ? RLX_ZIP_LARGE32 : extent->size, 4);
  put (bytes, strlen (name), 2);
}

static void
put_head (GByteArray      *head,
          const RlxExtent *extent,
          const char      *name,
          gboolean         large)
{
  g_byte_array_set_size (head, 0);
  put (head, RLX_ZIP_MEMBER, 4);
  put_member (head, extent, name, large);
  put (head, large ? 20 : 0, 2);
  g_byte_array_append (head, (const guint8 *) name, (guint) strlen (name));
  if (large)
    {
      put (head, RLX_ZIP_EXTRA64, 2);
      put (head, 16, 2);
      put (head, extent->size, 8);
      put (head, extent->stored, 8);
    }
}

static void
put_entry (GByteArray      *directory,
           const RlxExtent *extent,
           const char      *name,
           gboolean         large,
           guint64          offset)
{
  guint extra = (large ? 16 : 0) + (is_large (offset) ? 8 : 0);

  put (directory, RLX_ZIP_ENTRY, 4);
  put (directory, VERSION64, 2);
  put_member (directory, extent, name, large);
  put (directory, extra > 0 ? extra + 4 : 0, 2);
  put (directory, 0, 2);               /* no comment */
  put (directory, 0, 2);               /* the only archive */
  put (directory, 0, 2);               /* not text */
  put (directory, 0, 4);               /* no attributes */
  put (directory, MIN (offset, RLX_ZIP_LARGE32), 4);
  g_byte_array_append (directory, (const guint8 *) name, (guint) strlen (name));
  if (extra > 0)
    {
      put (directory, RLX_ZIP_EXTRA64, 2);
      put (directory, extra, 2);
    }
  if (large)
    {
      put (directory, extent->size, 8);
      put (directory, extent->stored, 8);
    }
  if (is_large (offset))
    put (directory, offset, 8);
}

static gboolean
write_member (Archive       *archive,
              const RlxItem *item,
              GCancellable  *cancellable,
              GError       **error)
{
  g_autoptr(GByteArray) head = g_byte_array_new ();
  g_autoptr(GByteArray) header = rlx_npy_make_header (item->storage, item->shape, item->n_dims);
  g_autofree char *name = g_strconcat (item->name, ".npy", NULL);
  guint64 offset = rlx_sink_get_position (archive->sink);
  /* With a margin, as deflating may increase the size. */
  gboolean large = item->size >= RLX_ZIP_LARGE32 / 8 * 7;

  archive->extent = (RlxExtent) { .crc = (guint32) crc32 (0, NULL, 0), .deflated = archive->deflate };
  put_head (head, &archive->extent, name, large);
  if (!rlx_sink_write (archive->sink, head->data, head->len, error) ||
      !write_some (archive, header->data, header->len, error) ||
      !rlx_item_write (item, write_some, archive, cancellable, error) ||
      !end_deflating (archive, error))
    return FALSE;
  archive->extent.stored = rlx_sink_get_position (archive->sink) - offset - head->len;
  put_head (head, &archive->extent, name, large);
  put_entry (archive->directory, &archive->extent, name, large, offset);
  return rlx_sink_patch (archive->sink, offset, head->data, head->len, error);
}

static gboolean
write_end (Archive *archive,
           guint64  n,
           GError **error)
{
  guint64 offset = rlx_sink_get_position (archive->sink), size = archive->directory->len;
  g_autoptr(GByteArray) end = g_byte_array_new ();

  if (n >= RLX_ZIP_LARGE16 || is_large (offset) || is_large (size))
    {
      put (end, RLX_ZIP_END64, 4);
      put (end, RLX_ZIP_END64_SIZE - 12, 8);
      put (end, VERSION64, 2);
      put (end, VERSION64, 2);
      put (end, 0, 8);                 /* the only archive */
      put (end, n, 8);
      put (end, n, 8);
      put (end, size, 8);
      put (end, offset, 8);
      put (end, RLX_ZIP_LOCATOR, 4);
      put (end, 0, 4);
      put (end, offset + size, 8);
      put (end, 1, 4);
    }
  put (end, RLX_ZIP_END, 4);
  put (end, 0, 4);
  put (end, MIN (n, RLX_ZIP_LARGE16), 2);
  put (end, MIN (n, RLX_ZIP_LARGE16), 2);
  put (end, MIN (size, RLX_ZIP_LARGE32), 4);
  put (end, MIN (offset, RLX_ZIP_LARGE32), 4);
  put (end, 0, 2);
  return rlx_sink_write (archive->sink, archive->directory->data, archive->directory->len, error) &&
         rlx_sink_write (archive->sink, end->data, end->len, error);
}

gboolean
rlx_npz_write (RlxSink       *sink,
               const RlxItem *items,
               gsize          n_items,
               gboolean       deflated,
               GCancellable  *cancellable,
               GError       **error)
{
  g_autofree Archive *archive = g_new0 (Archive, 1);
  gboolean ok = TRUE;

  archive->sink = sink;
  archive->deflate = deflated;
  if (deflated && deflateInit2 (&archive->deflater, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    {
      g_set_error_literal (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_LIMIT, "There is no memory to deflate tensors");
      return FALSE;
    }
  archive->directory = g_byte_array_new ();
  for (gsize i = 0; ok && i < n_items; i++)
    ok = write_member (archive, &items[i], cancellable, error);
  ok = ok && write_end (archive, n_items, error);
  g_byte_array_unref (archive->directory);
  if (deflated)
    deflateEnd (&archive->deflater);
  return ok;
}
