/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Calls of operators on signals.
 */
#include "config.h"

#include "rlx-prop-calls.h"

static void
set_int (Call       *call,
         const char *name,
         gint64      value)
{
  g_variant_dict_insert (call->attributes, name, "x", value);
}

static void
set_bool (Call       *call,
          const char *name,
          gboolean    value)
{
  g_variant_dict_insert (call->attributes, name, "b", value);
}

static void
set_word (Call       *call,
          const char *name,
          const char *value)
{
  g_variant_dict_insert (call->attributes, name, "s", value);
}

/* Overlapping, adjacent and separate, with and without a remainder; and a single frame. */
static gboolean
generate_frame (Call *call)
{
  static const struct { gint64 n, length, hop; } sizes[] = {
    { 10, 4, 2 }, { 11, 4, 3 }, { 12, 3, 3 }, { 9, 2, 4 }, { 5, 5, 1 }, { 1, 1, 7 }, { 300, 40, 16 },
  };
  gint64 shape[3] = { 3, 2, 0 };
  gsize first = call->variant % 3;
  gboolean add = g_str_equal (call->op->name, "overlap_add");

  if (call->variant >= G_N_ELEMENTS (sizes))
    return FALSE;

  if (call->variant == 3)
    shape[1] = 0;
  shape[2] = sizes[call->variant].n;
  if (add)
    {
      gint64 frames[4] = { shape[0], shape[1], 1 + (sizes[call->variant].n - sizes[call->variant].length) / sizes[call->variant].hop,
                           sizes[call->variant].length };

      add_input (call, PROP_TAME, call->data_type, frames + first, 4 - first);
    }
  else
    {
      add_input (call, PROP_TAME, call->data_type, shape + first, 3 - first);
      set_int (call, "length", sizes[call->variant].length);
    }
  set_int (call, "hop", sizes[call->variant].hop);
  return TRUE;
}

/* Few lengths, since each is a kernel of its own. */
static gboolean
generate_stft (Call *call)
{
  static const char *const modes[] = { "reflect", "constant", "edge", "symmetric", "wrap" };
  gint64 length = call->variant % 2 == 0 ? 16 : 9, hop = call->variant % 3 + 3, window = call->variant == 2 ? length - 3 : length;
  gboolean center = call->variant % 3 != 1, one_sided = call->variant % 4 != 3;
  gint64 shape[2] = { 2, prop_pick (call->rand, 20, 40) };
  const char *layout = call->variant % 4 == 1 || call->variant == 3 ? "planar" : "pairs";

  if (call->variant > 7)
    return FALSE;

  if (g_str_equal (call->op->name, "stft"))
    {
      add_input (call, PROP_TAME, call->data_type, shape + call->variant % 2, 2 - call->variant % 2);
      set_word (call, "pad_mode", modes[call->variant % 5]);
      set_int (call, "fft_length", length);
    }
  else
    {
      gint64 numbers[5] = { 2, 3, prop_pick (call->rand, 5, 9), one_sided ? length / 2 + 1 : length, 2 };
      gboolean planar = g_str_equal (layout, "planar");

      add_input (call, PROP_TAME, call->data_type, numbers + (planar ? 0 : 1), 4);
      set_int (call, "fft_length", one_sided || call->variant == 3 ? length : 0);
      if (call->variant == 0 || call->variant == 3 || call->variant == 4)
        set_int (call, "length", call->variant == 0 ? 70 : 8);
    }
  if (call->variant != 1)
    add_input (call, PROP_POSITIVE, call->data_type, &window, 1);
  set_int (call, "hop", hop);
  set_bool (call, "center", center);
  set_bool (call, "one_sided", one_sided);
  set_word (call, "layout", layout);
  set_word (call, "norm", (const char *[]) { "backward", "forward", "ortho" }[call->variant / 2 % 3]);
  return TRUE;
}

/* A transform of one of few lengths, for any signal. */
static gboolean
generate_spectrum (Call *call)
{
  gint64 length = call->variant % 2 == 0 ? 16 : 9, window = call->variant == 2 ? length - 3 : length;
  gint64 shape[2] = { 2, call->variant == 4 ? 5 : prop_pick (call->rand, 20, 40) };
  gboolean welch = g_str_equal (call->op->name, "welch_peaks");

  if (call->variant > 4)
    return FALSE;

  if (welch)
    {
      shape[1] = MAX (shape[1], 20);
      set_int (call, "length", length);
      set_int (call, "k", call->variant == 4 ? 0 : prop_pick (call->rand, 1, length / 2 + 1));
      set_int (call, "hop", call->variant % 3 * 5);
    }
  else
    {
      set_int (call, "fft_length", call->variant == 3 ? 0 : length);
      window = call->variant == 3 ? 7 : window;
    }
  add_input (call, PROP_TAME, call->data_type, shape + call->variant % 2, 2 - call->variant % 2);
  if (call->variant != 1)
    add_input (call, PROP_POSITIVE, call->data_type, &window, 1);
  set_word (call, "norm", (const char *[]) { "backward", "forward", "ortho" }[call->variant / 2 % 3]);
  return TRUE;
}

static gboolean
generate_mel (Call *call)
{
  gint64 length = call->variant % 2 == 0 ? 16 : 9, filters[2] = { length / 2 + 1, prop_pick (call->rand, 1, 6) };
  gint64 shape[2] = { 2, prop_pick (call->rand, 20, 40) };

  if (call->variant > 3)
    return FALSE;

  add_input (call, PROP_TAME, call->data_type, shape + call->variant % 2, 2 - call->variant % 2);
  add_input (call, PROP_POSITIVE, call->data_type, filters, 2);
  if (call->variant > 1)
    add_input (call, PROP_POSITIVE, call->data_type, &length, 1);
  set_int (call, "fft_length", length);
  set_int (call, "hop", call->variant + 3);
  set_bool (call, "center", call->variant != 2);
  set_word (call, "pad_mode", call->variant == 3 ? "constant" : "reflect");
  if (g_str_equal (call->op->name, "mel_spectrogram"))
    set_bool (call, "magnitude", call->variant == 1);
  return TRUE;
}

/* One block, and several; filters longer than the signal. */
static gboolean
generate_filter (Call *call)
{
  static const struct { gint64 n, taps; } sizes[] = { { 30, 5 }, { 7, 12 }, { 1, 1 }, { 20, 9 }, { 2500, 40 } };
  gint64 shape[2] = { 2, 0 };

  if (call->variant >= G_N_ELEMENTS (sizes))
    return FALSE;

  shape[1] = sizes[call->variant].n;
  add_input (call, PROP_TAME, call->data_type, shape + call->variant % 2, 2 - call->variant % 2);
  add_input (call, PROP_TAME, call->data_type, &sizes[call->variant].taps, 1);
  if (g_str_equal (call->op->name, "fft_conv"))
    set_word (call, "mode", (const char *[]) { "full", "same", "valid", "causal" }[call->variant % 4]);
  return TRUE;
}

const PropRow prop_signal_rows[] = {
  { "frame", generate_frame },
  { "overlap_add", generate_frame },
  { "stft", generate_stft },
  { "istft", generate_stft },
  { "power_spectrum", generate_spectrum },
  { "mel_spectrogram", generate_mel },
  { "log_mel", generate_mel },
  { "welch_peaks", generate_spectrum },
  { "fir", generate_filter },
  { "fft_conv", generate_filter },
  { NULL, NULL },
};
