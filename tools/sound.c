/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * WAV files: chunks of a kind and a size, of which two matter. Nothing in them is believed
 * before it was compared with what is there.
 */
#include "config.h"

#include <math.h>
#include <string.h>

#include "rlx-tool.h"

#define MAX_CHANNELS 64
#define MAX_RATE 768000
#define MAX_BYTES ((gsize) 1 << 30)

/* Kinds of samples. */
#define INTEGERS 1
#define FLOATS 3
#define EXTENSIBLE 0xfffe

typedef struct
{
  guint kind, channels, rate, bits;
} Format;

static guint
read_u16 (const guint8 *data)
{
  return data[0] | (guint) data[1] << 8;
}

static guint32
read_u32 (const guint8 *data)
{
  return read_u16 (data) | (guint32) read_u16 (data + 2) << 16;
}

static gboolean
refuse (GError    **error,
        const char *path,
        const char *format,
        ...) G_GNUC_PRINTF (3, 4);

static gboolean
refuse (GError    **error,
        const char *path,
        const char *format,
        ...)
{
  g_autofree char *text = NULL;
  va_list args;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, "%s: %s", path, text);
  return FALSE;
}

static gboolean
read_format (const char   *path,
             const guint8 *data,
             gsize         size,
             Format       *format,
             GError      **error)
{
  if (size < 16)
    return refuse (error, path, "the format has %" G_GSIZE_FORMAT " bytes; it must have at least 16", size);
  *format = (Format) { read_u16 (data), read_u16 (data + 2), read_u32 (data + 4), read_u16 (data + 14) };
  /* the identifier of the subformat starts with the kind */
  if (format->kind == EXTENSIBLE && size >= 40)
    format->kind = read_u16 (data + 24);
  if (format->channels == 0 || format->channels > MAX_CHANNELS)
    return refuse (error, path, "there are %u channels; there must be 1 to %d", format->channels, MAX_CHANNELS);
  if (format->rate == 0 || format->rate > MAX_RATE)
    return refuse (error, path, "there are %u samples per second; there must be 1 to %d", format->rate, MAX_RATE);
  if (!(format->kind == INTEGERS && format->bits % 8 == 0 && format->bits >= 8 && format->bits <= 32) &&
      !(format->kind == FLOATS && (format->bits == 32 || format->bits == 64)))
    return refuse (error, path, "samples of %u bits and kind %u are not supported: integers of 8, 16, 24 and 32 bits are, and floats of 32 and 64",
                   format->bits, format->kind);
  return TRUE;
}

static double
read_sample (const Format *format,
             const guint8 *data)
{
  guint32 bits = 0;
  guint n = format->bits / 8;

  if (format->kind == FLOATS && n == 8)
    {
      guint64 wide = read_u32 (data) | (guint64) read_u32 (data + 4) << 32;
      double value;

      memcpy (&value, &wide, sizeof value);
      return value;
    }
  for (guint i = 0; i < n; i++)
    bits |= (guint32) data[i] << (32 - format->bits + 8 * i);
  if (format->kind == FLOATS)
    {
      float value;

      memcpy (&value, &bits, sizeof value);
      return value;
    }
  /* 8-bit samples are unsigned */
  if (n == 1)
    bits ^= 0x80000000u;
  return (double) (gint32) bits * 0x1p-31;
}

float *
rlx_tool_read_sound (const char *path,
                     gsize      *n_samples,
                     guint      *rate,
                     GError    **error)
{
  g_autoptr(GFile) file = g_file_new_for_commandline_arg (path);
  g_autoptr(GFileInfo) info = g_file_query_info (file, G_FILE_ATTRIBUTE_STANDARD_SIZE, G_FILE_QUERY_INFO_NONE, NULL, error);
  g_autoptr(GBytes) bytes = NULL;
  const guint8 *data;
  gsize size, at = 12;
  Format format = { 0, };

  if (info == NULL)
    return NULL;
  if (g_file_info_get_size (info) > (goffset) MAX_BYTES)
    {
      refuse (error, path, "the file is larger than the limit of %" G_GSIZE_FORMAT " bytes", MAX_BYTES);
      return NULL;
    }
  bytes = g_file_load_bytes (file, NULL, NULL, error);
  if (bytes == NULL)
    return NULL;
  data = g_bytes_get_data (bytes, &size);
  if (size < 12 || memcmp (data, "RIFF", 4) != 0 || memcmp (data + 8, "WAVE", 4) != 0)
    {
      refuse (error, path, "this is not a WAV file");
      return NULL;
    }

  while (at + 8 <= size)
    {
      const guint8 *chunk = data + at + 8;
      gsize given = read_u32 (data + at + 4), there = MIN (given, size - at - 8);

      if (memcmp (data + at, "fmt ", 4) == 0)
        {
          if (!read_format (path, chunk, there, &format, error))
            return NULL;
        }
      else if (memcmp (data + at, "data", 4) == 0)
        {
          gsize width, n;
          float *samples;

          if (format.channels == 0)
            {
              refuse (error, path, "there are samples before their format");
              return NULL;
            }
          /* a truncated recording claims to have more */
          width = (gsize) format.bits / 8 * format.channels;
          n = there / width;
          samples = g_new (float, n + 1);
          for (gsize i = 0; i < n; i++)
            {
              double sum = 0;

              for (guint c = 0; c < format.channels; c++)
                sum += read_sample (&format, chunk + i * width + c * (format.bits / 8));
              sum /= format.channels;
              if (!isfinite (sum))
                {
                  refuse (error, path, "sample %" G_GSIZE_FORMAT " is not finite", i);
                  g_free (samples);
                  return NULL;
                }
              samples[i] = (float) sum;
            }
          *n_samples = n;
          *rate = format.rate;
          return samples;
        }
      /* chunks start at even offsets */
      at += 8 + MIN (given + (given & 1), size - at - 8);
    }
  refuse (error, path, "there are no samples");
  return NULL;
}
