/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "formats/rlx-stream-private.h"

#include <string.h>
#include <zlib.h>

#include "formats/rlx-manifest-private.h"

/* The buffer size for deflated bytes, and for inflated bytes that are skipped. */
#define INPUT 16384

struct _RlxStream
{
  RlxSource *source;
  RlxExtent extent;
  guint64 taken;             /* bytes read from the source */
  guint64 given;             /* bytes returned */
  guint32 crc;
  z_stream inflater;         /* if the bytes are deflated */
  gboolean ended;            /* the end of the deflated bytes was reached */
  guint8 input[INPUT];
};

RlxStream *
rlx_stream_new (RlxSource       *source,
                const RlxExtent *extent)
{
  RlxStream *self = g_new0 (RlxStream, 1);

  self->source = rlx_source_ref (source);
  self->extent = *extent;
  self->crc = (guint32) crc32 (0, NULL, 0);
  return self;
}

void
rlx_stream_free (RlxStream *self)
{
  if (self->inflater.state != NULL)
    inflateEnd (&self->inflater);
  rlx_source_unref (self->source);
  g_free (self);
}

guint64
rlx_stream_get_left (RlxStream *self)
{
  return self->extent.size - self->given;
}

static gboolean
start_inflater (RlxStream *self,
                GError   **error)
{
  /* Negative means without zlib header and trailer. */
  if (self->inflater.state != NULL || inflateInit2 (&self->inflater, -MAX_WBITS) == Z_OK)
    return TRUE;
  return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_LIMIT, self->extent.offset, "there is no memory to inflate it");
}

/* Reports what is wrong, with the current offset. */
static gboolean
fail_inflating (RlxStream      *self,
                RlxWeightsError code,
                GError        **error)
{
  guint64 at = self->extent.offset + self->taken - self->inflater.avail_in;

  if (code == RLX_WEIGHTS_ERROR_PARSE)
    return rlx_weights_fail (error, code, at, "the compressed bytes are invalid: %s",
                             self->inflater.msg != NULL ? self->inflater.msg : "they do not end where they should");
  return rlx_weights_fail (error, code, at, "%" G_GUINT64_FORMAT " deflated bytes are only %" G_GUINT64_FORMAT " inflated ones, not %" G_GUINT64_FORMAT,
                           self->extent.stored, self->given, self->extent.size);
}

static gboolean
inflate_piece (RlxStream    *self,
               const char   *what,
               guint8       *to,
               gsize         size,
               GCancellable *cancellable,
               GError      **error)
{
  z_stream *z = &self->inflater;

  if (!start_inflater (self, error))
    return FALSE;
  z->next_out = to;
  z->avail_out = (uInt) size;
  while (z->avail_out > 0)
    {
      int status;

      if (self->ended)
        return fail_inflating (self, RLX_WEIGHTS_ERROR_TRUNCATED, error);
      if (z->avail_in == 0)
        {
          gsize n = (gsize) MIN (INPUT, self->extent.stored - self->taken);

          if (n == 0)
            return fail_inflating (self, RLX_WEIGHTS_ERROR_TRUNCATED, error);
          if (!rlx_source_read (self->source, what, self->extent.offset + self->taken, self->input, n, cancellable, error))
            return FALSE;
          self->taken += n;
          z->next_in = self->input;
          z->avail_in = (uInt) n;
        }
      status = inflate (z, Z_NO_FLUSH);
      self->ended = status == Z_STREAM_END;
      if (status != Z_OK && status != Z_STREAM_END)
        return fail_inflating (self, RLX_WEIGHTS_ERROR_PARSE, error);
    }
  return TRUE;
}

/* Tries to inflate one more byte, to detect contents longer than stated. */
static gboolean
check_end (RlxStream    *self,
           GCancellable *cancellable,
           GError      **error)
{
  g_autoptr(GError) local_error = NULL;
  guint8 byte;

  if (!self->extent.deflated)
    return TRUE;
  if (!self->ended && inflate_piece (self, "deflated bytes", &byte, 1, cancellable, &local_error))
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_LIMIT, self->extent.offset,
                             "more than %" G_GUINT64_FORMAT " bytes come out of the deflated ones", self->extent.size);
  if (local_error != NULL && local_error->domain == G_IO_ERROR)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return FALSE;
    }
  if (!self->ended || self->inflater.avail_in > 0 || self->taken < self->extent.stored)
    return fail_inflating (self, RLX_WEIGHTS_ERROR_PARSE, error);
  return TRUE;
}

static gboolean
check_crc (RlxStream *self,
           GError   **error)
{
  if (!self->extent.has_crc || self->crc == self->extent.crc)
    return TRUE;
  return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, self->extent.offset,
                           "the checksum of the bytes is %08x, not %08x: the file is damaged", self->crc, self->extent.crc);
}

static gboolean
read_piece (RlxStream    *self,
            const char   *what,
            guint8       *to,
            gsize         size,
            GCancellable *cancellable,
            GError      **error)
{
  if (self->extent.deflated)
    {
      if (g_cancellable_set_error_if_cancelled (cancellable, error) || !inflate_piece (self, what, to, size, cancellable, error))
        return FALSE;
    }
  else
    {
      if (!rlx_source_read (self->source, what, self->extent.offset + self->taken, to, size, cancellable, error))
        return FALSE;
      self->taken += size;
    }
  if (self->extent.has_crc)
    self->crc = (guint32) crc32_z (self->crc, to, size);
  self->given += size;
  return TRUE;
}

gboolean
rlx_stream_read (RlxStream    *self,
                 const char   *what,
                 gpointer      buffer,
                 gsize         size,
                 GCancellable *cancellable,
                 GError      **error)
{
  guint8 *to = buffer, skipped[INPUT];
  gboolean ends = size == rlx_stream_get_left (self);

  g_assert (size <= rlx_stream_get_left (self));

  /* Skipped bytes need not be read unless there is a checksum. */
  if (buffer == NULL && !self->extent.deflated && !self->extent.has_crc)
    {
      self->taken += size;
      self->given += size;
      size = 0;
    }
  while (size > 0)
    {
      gsize n = MIN (size, buffer != NULL ? RLX_PIECE : sizeof skipped);

      if (!read_piece (self, what, buffer != NULL ? to : skipped, n, cancellable, error))
        return FALSE;
      to += buffer != NULL ? n : 0;
      size -= n;
    }
  return !ends || (check_end (self, cancellable, error) && check_crc (self, error));
}
