/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Spectra of the reference vectors.
 */
#include "config.h"

#include "map-fourier.h"

#include <string.h>

/* Their frames are along the last axis, not counting the parts of complex numbers. */
static RlxNode *
swap_frames (MapCall *call,
             RlxNode *node,
             gsize    n_after,
             GError **error)
{
  gsize n_dims;
  gint64 order[RLX_MAX_DIMS];

  if (node == NULL)
    return NULL;
  rlx_node_get_shape (node, &n_dims);
  for (gsize i = 0; i < n_dims; i++)
    order[i] = (gint64) i;
  order[n_dims - 1 - n_after] = (gint64) (n_dims - 2 - n_after);
  order[n_dims - 2 - n_after] = (gint64) (n_dims - 1 - n_after);
  return map_op1 (call, "transpose", node, map_attrs ("permutation", map_ints (order, n_dims), NULL), error);
}

gboolean
ref_map_stft (MapCall *call,
              GError **error)
{
  RlxNode *x = map_input (call, 0, FALSE, error), *window = map_input (call, 1, FALSE, error);
  gint64 length, hop;
  gboolean center;
  const char *mode;
  GVariant *attrs;

  if (x == NULL || window == NULL || !map_arg_int (call, "n_fft", 0, &length, error) || !map_arg_int (call, "hop", 0, &hop, error) ||
      !map_arg_bool (call, "center", TRUE, &center, error))
    return FALSE;
  mode = map_arg_string (call, "pad_mode", error);
  if (mode == NULL)
    return map_refused (error, "stft: there is no pad_mode");
  attrs = map_attrs ("fft_length", g_variant_new_int64 (length), "hop", g_variant_new_int64 (hop), "center", g_variant_new_boolean (center),
                     "pad_mode", g_variant_new_string (mode), NULL);
  return map_return (call, 0, swap_frames (call, map_op2 (call, "stft", x, window, attrs, error), 1, error));
}

/* They use Hann windows, as we do by default; powers are squares. */
static gboolean
map_mels (MapCall    *call,
          const char *op,
          GError    **error)
{
  RlxNode *x = map_input (call, 0, FALSE, error), *filters = map_input (call, 1, FALSE, error);
  gint64 length, hop;
  double power;
  gboolean center;
  const char *mode, *window;

  if (x == NULL || filters == NULL || !map_arg_int (call, "n_fft", 0, &length, error) || !map_arg_int (call, "hop", 0, &hop, error) ||
      !map_arg_bool (call, "center", TRUE, &center, error) || !map_arg_double (call, "power", 2, &power, error))
    return FALSE;
  mode = map_arg_string (call, "pad_mode", error);
  window = map_arg_string (call, "window", error);
  if (mode == NULL || window == NULL || strcmp (window, "hann") != 0 || power != 2)
    return map_unsupported (error, "%s: other windows and powers", op);
  return map_return (call, 0, map_op2 (call, op, x, filters, map_attrs ("fft_length", g_variant_new_int64 (length), "hop", g_variant_new_int64 (hop),
                                                                        "center", g_variant_new_boolean (center),
                                                                        "pad_mode", g_variant_new_string (mode), NULL), error));
}

gboolean
ref_map_mel_spectrogram (MapCall *call,
                         GError **error)
{
  return map_mels (call, "mel_spectrogram", error);
}

/* Only Whisper's variant. */
gboolean
ref_map_log_mel (MapCall *call,
                 GError **error)
{
  const char *logarithm = map_arg_string (call, "log", error), *post = map_arg_string (call, "post", error);
  double least, range;
  gboolean drops;

  if (!map_arg_double (call, "floor", 0, &least, error) || !map_arg_double (call, "dynamic_range_db", 0, &range, error) ||
      !map_arg_bool (call, "drop_last_frame", FALSE, &drops, error))
    return FALSE;
  if (g_strcmp0 (logarithm, "log10") != 0 || g_strcmp0 (post, "(max(v, vmax-8)+4)/4") != 0 || least != 1e-10 || range != 80 || !drops)
    return map_unsupported (error, "log_mel: another definition than Whisper's");
  return map_mels (call, "log_mel", error);
}
