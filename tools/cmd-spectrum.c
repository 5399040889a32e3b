/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The log-mel spectrogram of a sound, as numbers and as a picture.
 */
#include "config.h"

#include <zlib.h>

#include "rlx-tool.h"

#define MAX_BINS 1024
/* Wider images are not useful. */
#define MAX_FRAMES 65535

/* ---- pictures ---------------------------------------------------------------------- */

static void
append_u32 (GByteArray *out,
            guint32     value)
{
  const guint8 bytes[] = { (guint8) (value >> 24), (guint8) (value >> 16), (guint8) (value >> 8), (guint8) value };

  g_byte_array_append (out, bytes, sizeof bytes);
}

static void
append_chunk (GByteArray   *out,
              const char   *kind,
              const guint8 *data,
              gsize         size)
{
  guint start;

  append_u32 (out, (guint32) size);
  start = out->len;
  g_byte_array_append (out, (const guint8 *) kind, 4);
  if (size > 0)
    g_byte_array_append (out, data, (guint) size);
  append_u32 (out, (guint32) crc32 (0, out->data + start, (uInt) (size + 4)));
}

/* A PNG image of @height rows of @width shades of grey. */
static GBytes *
make_picture (const guint8 *grey,
              gsize         width,
              gsize         height)
{
  g_autoptr(GByteArray) out = g_byte_array_new (), header = g_byte_array_new ();
  gsize size = (width + 1) * height;
  g_autofree guint8 *rows = g_malloc (size), *packed = NULL;
  uLongf n_packed = compressBound ((uLong) size);
  const guint8 rest[] = { 8, 0, 0, 0, 0 };

  /* each row starts with its filter type: none */
  for (gsize y = 0; y < height; y++)
    {
      rows[y * (width + 1)] = 0;
      memcpy (rows + y * (width + 1) + 1, grey + y * width, width);
    }
  packed = g_malloc (n_packed);
  if (compress2 (packed, &n_packed, rows, (uLong) size, 9) != Z_OK)
    return NULL;

  g_byte_array_append (out, (const guint8 *) "\x89PNG\r\n\x1a\n", 8);
  append_u32 (header, (guint32) width);
  append_u32 (header, (guint32) height);
  g_byte_array_append (header, rest, sizeof rest);
  append_chunk (out, "IHDR", header->data, header->len);
  append_chunk (out, "IDAT", packed, n_packed);
  append_chunk (out, "IEND", NULL, 0);
  return g_byte_array_free_to_bytes (g_steal_pointer (&out));
}

/* ---- levels ------------------------------------------------------------------------- */

/* [bins, frames] */
static RlxTensor *
compute_levels (const float *samples,
                gsize        n_samples,
                guint        rate,
                gint64       n_bins,
                GError     **error)
{
  const gint64 shape[] = { (gint64) n_samples }, length = rate / 40, hop = rate / 100;
  g_autoptr(RlxTensor) sound = NULL, filters = NULL;
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(RlxLogMelOptions) options = rlx_log_mel_options_new ();
  g_autoptr(RlxExecutable) executable = NULL;
  g_auto(RlxTensors) outputs = NULL;
  RlxDevice *device;
  RlxNode *x, *constant;

  filters = rlx_tensor_new_mel_filters (RLX_MEL_SCALE_SLANEY, n_bins, length, rate, 0, rate / 2.0, TRUE, error);
  if (filters == NULL || (sound = rlx_tensor_new_from_floats (shape, 1, samples, n_samples, error)) == NULL)
    return NULL;
  rlx_log_mel_options_set_fft_length (options, length);
  rlx_log_mel_options_set_hop (options, hop);
  if ((x = rlx_graph_input (graph, "samples", RLX_DATA_TYPE_F32, shape, 1, error)) == NULL ||
      (constant = rlx_graph_constant (graph, filters, error)) == NULL ||
      (x = rlx_node_log_mel (x, constant, NULL, options, error)) == NULL ||
      !rlx_graph_output (graph, "levels", x, error) ||
      (device = rlx_tool_open (error)) == NULL ||
      (executable = rlx_tool_build (device, graph, NULL, error)) == NULL)
    return NULL;
  outputs = rlx_executable_run (executable, &sound, 1, NULL, NULL, error);
  return outputs != NULL ? g_object_ref (outputs[0]) : NULL;
}

int
rlx_tool_spectrum (int    argc,
                   char **argv)
{
  g_autofree char *output = NULL;
  int n_bins = 80;
  gboolean json = FALSE;
  const GOptionEntry entries[] = {
    { "output", 'o', 0, G_OPTION_ARG_FILENAME, &output, "Draw it: time from left to right, low frequencies at the bottom", "FILE.png" },
    { "bins", 'b', 0, G_OPTION_ARG_INT, &n_bins, "The number of frequency bands (80)", "N" },
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, "Print JSON", NULL },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxTensor) levels = NULL;
  g_autofree float *samples = NULL, *values = NULL;
  const gint64 *shape;
  gsize n_samples, n_values, n_frames;
  double sum = 0, least = G_MAXDOUBLE, most = -G_MAXDOUBLE;
  guint rate;
  int status;

  if (!rlx_tool_parse ("FILE.wav", "Computes the log-mel spectrogram of a sound, as speech recognisers see it: frames of\n"
                       "25 ms, one every 10 ms. Several channels are mixed into one.",
                       entries, &argc, &argv, 1, 1, &status))
    return status;
  if (n_bins < 1 || n_bins > MAX_BINS)
    {
      g_printerr ("%s: --bins is %d; it must be from 1 to %d\n", g_get_prgname (), n_bins, MAX_BINS);
      return RLX_TOOL_USAGE;
    }

  samples = rlx_tool_read_sound (argv[1], &n_samples, &rate, &error);
  if (samples != NULL && (rate < 100 || n_samples < rate / 100))
    g_set_error (&error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA,
                 "%s: %" G_GSIZE_FORMAT " samples at %u per second are less than 10 ms, or too few per second", argv[1], n_samples, rate);
  else if (samples != NULL && n_samples / (rate / 100) > MAX_FRAMES)
    g_set_error (&error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA,
                 "%s: %" G_GSIZE_FORMAT " samples make %" G_GSIZE_FORMAT " frames, beyond the limit of %d", argv[1], n_samples,
                 n_samples / (rate / 100), MAX_FRAMES);
  if (error == NULL)
    levels = compute_levels (samples, n_samples, rate, n_bins, &error);
  if (levels == NULL || (values = rlx_tensor_to_floats (levels, &n_values, &error)) == NULL)
    return rlx_tool_fail (error);

  shape = rlx_tensor_get_shape (levels, NULL);
  n_frames = (gsize) shape[1];
  for (gsize i = 0; i < n_values; i++)
    {
      sum += values[i];
      least = MIN (least, values[i]);
      most = MAX (most, values[i]);
    }
  if (output != NULL)
    {
      g_autofree guint8 *grey = g_malloc (n_values);
      g_autoptr(GBytes) picture = NULL;
      g_autoptr(GFile) file = g_file_new_for_commandline_arg (output);

      for (gsize row = 0; row < (gsize) n_bins; row++)
        for (gsize f = 0; f < n_frames; f++)
          grey[row * n_frames + f] = (guint8) (255 * (values[((gsize) n_bins - 1 - row) * n_frames + f] - least) / MAX (most - least, 1e-6));
      picture = make_picture (grey, n_frames, (gsize) n_bins);
      if (picture == NULL)
        g_set_error (&error, G_IO_ERROR, G_IO_ERROR_FAILED, "%s: the image could not be compressed", output);
      else
        g_file_replace_contents (file, g_bytes_get_data (picture, NULL), g_bytes_get_size (picture), NULL, FALSE, G_FILE_CREATE_NONE, NULL, NULL, &error);
      if (error != NULL)
        return rlx_tool_fail (error);
    }
  if (json)
    {
      GVariantDict dict;

      g_variant_dict_init (&dict, NULL);
      g_variant_dict_insert (&dict, "frames", "t", (guint64) n_frames);
      g_variant_dict_insert (&dict, "bins", "i", n_bins);
      g_variant_dict_insert (&dict, "rate", "u", rate);
      g_variant_dict_insert (&dict, "least", "d", least);
      g_variant_dict_insert (&dict, "most", "d", most);
      g_variant_dict_insert (&dict, "mean", "d", sum / (double) n_values);
      rlx_tool_print_json (g_variant_dict_end (&dict));
    }
  else
    g_print ("%" G_GSIZE_FORMAT " frames of %u samples, %d bins, levels from %.2f to %.2f, mean %.3f\n", n_frames, rate / 40, n_bins, least, most,
             sum / (double) n_values);
  return RLX_TOOL_OK;
}
