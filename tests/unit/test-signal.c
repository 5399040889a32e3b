/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Signals: windows and filters, values that can be checked by hand, and what is refused.
 */
#include "config.h"

#include <math.h>

#include "rlx-test-util.h"

#define PARSED(text) g_variant_new_parsed (text)
#define SHAPE RLX_GRAPH_ERROR_SHAPE
#define LIMIT RLX_GRAPH_ERROR_LIMIT
#define INVALID RLX_GRAPH_ERROR_INVALID_ARGUMENT

/* ---- constants --------------------------------------------------------------------- */

static void
check_window (RlxWindowShape shape,
              gint64         length,
              gboolean       periodic,
              double         beta,
              const double  *expected)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxTensor) window = rlx_tensor_new_window (shape, length, periodic, beta, &error);
  g_autofree char *type = g_strdup_printf ("f32[%" G_GINT64_FORMAT "]", length);

  g_assert_no_error (error);
  rlx_test_compare ("window", window, type, expected, 0x1p-32, 0x1p-24);
}

/* By their formulas; Bessel functions are evaluated by their series. */
static void
test_windows (void)
{
  g_autoptr(GError) error = NULL;

  check_window (RLX_WINDOW_SHAPE_HANN, 1, TRUE, 0, (double[]) { 1 });
  check_window (RLX_WINDOW_SHAPE_HANN, 4, TRUE, 0, (double[]) { 0, 0.5, 1, 0.5 });
  check_window (RLX_WINDOW_SHAPE_HANN, 5, FALSE, 0, (double[]) { 0, 0.5, 1, 0.5, 0 });
  check_window (RLX_WINDOW_SHAPE_HAMMING, 4, TRUE, 0, (double[]) { 0.08, 0.54, 1, 0.54 });
  check_window (RLX_WINDOW_SHAPE_BLACKMAN, 4, TRUE, 0, (double[]) { 0, 0.34, 1, 0.34 });
  /* I₀(0.75^½ · 4) / I₀(4) and 1 / I₀(4) */
  check_window (RLX_WINDOW_SHAPE_KAISER, 5, FALSE, 4, (double[]) { 0.0884805261, 0.6334317798, 1, 0.6334317798, 0.0884805261 });
  check_window (RLX_WINDOW_SHAPE_KAISER, 3, FALSE, 0, (double[]) { 1, 1, 1 });
  /* 1 / I₀(30): beyond the range in which the series is used */
  check_window (RLX_WINDOW_SHAPE_KAISER, 3, FALSE, 30, (double[]) { 1.27930848103969e-12, 1, 1.27930848103969e-12 });

  g_assert_null (rlx_tensor_new_window (RLX_WINDOW_SHAPE_HANN, 0, TRUE, 0, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, LIMIT);
  g_clear_error (&error);
  g_assert_null (rlx_tensor_new_window (RLX_WINDOW_SHAPE_HANN, G_MAXINT64, TRUE, 0, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, LIMIT);
  g_clear_error (&error);
  g_assert_null (rlx_tensor_new_window (RLX_WINDOW_SHAPE_KAISER, 4, TRUE, NAN, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, INVALID);
  g_clear_error (&error);
  g_assert_null (rlx_tensor_new_window ((RlxWindowShape) 17, 4, TRUE, 0, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, INVALID);
}

static void
test_mel_filters (void)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxTensor) whisper = rlx_tensor_new_mel_filters (RLX_MEL_SCALE_SLANEY, 80, 400, 16000, 0, 8000, TRUE, &error);
  g_autoptr(RlxTensor) htk = NULL;
  double area = 0;

  g_assert_no_error (error);
  g_assert_cmpint (rlx_tensor_get_n_elements (whisper), ==, 201 * 80);
  /* the first filter is around 37.24 Hz, and bin 1 is at 40 Hz: (74.48 - 40) / 37.24 · 2 / 74.48 */
  g_assert_cmpfloat_with_epsilon (rlx_tensor_get_value (whisper, 80), 0.02486259, 1e-7);
  g_assert_cmpfloat (rlx_tensor_get_value (whisper, 0), ==, 0);
  /* wide filters have an area of 1, in bins of 40 Hz */
  for (gint64 k = 0; k < 201; k++)
    area += rlx_tensor_get_value (whisper, k * 80 + 79) * 40;
  g_assert_cmpfloat_with_epsilon (area, 1, 0.02);

  htk = rlx_tensor_new_mel_filters (RLX_MEL_SCALE_HTK, 1, 8, 8000, 0, 4000, FALSE, &error);
  g_assert_no_error (error);
  /* 4000 Hz are 2146.065 mels, half of that 1113.95 Hz: bin 1 is at 1000 Hz */
  g_assert_cmpfloat_with_epsilon (rlx_tensor_get_value (htk, 1), 1000 / 1113.95, 1e-4);

  g_assert_null (rlx_tensor_new_mel_filters (RLX_MEL_SCALE_HTK, 0, 400, 16000, 0, 8000, TRUE, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, LIMIT);
  g_clear_error (&error);
  g_assert_null (rlx_tensor_new_mel_filters (RLX_MEL_SCALE_HTK, G_MAXINT64, 400, 16000, 0, 8000, TRUE, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, LIMIT);
  g_clear_error (&error);
  g_assert_null (rlx_tensor_new_mel_filters (RLX_MEL_SCALE_HTK, 40, 400, 16000, 0, 8001, TRUE, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, INVALID);
}

/* ---- values ---------------------------------------------------------------------------- */

static void
test_values (void)
{
  RlxTensor *x;
  g_autoptr(RlxTensor) frames = NULL, sum = NULL, z = NULL;

  if (rlx_test_device () == NULL)
    return;

  x = rlx_test_tensor ("f32[5]", (double[]) { 1, 2, 3, 4, 5 });
  frames = rlx_test_run_op ("frame", 1, &x, PARSED ("{'length': <int64 3>, 'hop': <int64 2>}"));
  rlx_test_compare ("frame", frames, "f32[2,3]", (double[]) { 1, 2, 3, 3, 4, 5 }, 0, 0);
  sum = rlx_test_run_op ("overlap_add", 1, &frames, PARSED ("{'hop': <int64 2>}"));
  rlx_test_compare ("overlap_add", sum, "f32[5]", (double[]) { 1, 2, 6, 4, 5 }, 0, 0);
  g_object_unref (x);

  /* 3 2 1 2, 1 2 3 4 and 3 4 3 2 */
  x = rlx_test_tensor ("f32[4]", (double[]) { 1, 2, 3, 4 });
  z = rlx_test_run_op ("stft", 1, &x, PARSED ("{'fft_length': <int64 4>, 'hop': <int64 2>}"));
  rlx_test_compare ("stft", z, "f32[3,3,2]", (double[]) { 8, 0, 2, 0, 0, 0, 10, 0, -2, 2, -2, 0, 12, 0, 0, -2, 0, 0 }, 0, 0);
  g_object_unref (x);
}

/* The inverse transform recovers the signal. */
static void
test_round_trip (void)
{
  g_autoptr(GRand) rand = g_rand_new_with_seed (15);
  g_autoptr(RlxTensor) window = rlx_tensor_new_window (RLX_WINDOW_SHAPE_HANN, 32, TRUE, 0, NULL);
  g_autoptr(RlxTensor) z = NULL, back = NULL;
  double values[2 * 200];
  RlxTensor *x, *inputs[2];

  if (rlx_test_device () == NULL)
    return;

  for (gsize i = 0; i < G_N_ELEMENTS (values); i++)
    values[i] = (float) (g_rand_double (rand) - 0.5);
  x = rlx_test_tensor ("f32[2,200]", values);
  inputs[0] = x;
  inputs[1] = window;
  z = rlx_test_run_op ("stft", 2, inputs, PARSED ("{'fft_length': <int64 32>, 'hop': <int64 8>, 'norm': <'ortho'>}"));
  inputs[0] = z;
  back = rlx_test_run_op ("istft", 2, inputs, PARSED ("{'hop': <int64 8>, 'length': <int64 200>, 'norm': <'ortho'>}"));
  rlx_test_compare ("istft", back, "f32[2,200]", values, 1e-6, 0);
  g_object_unref (x);
}

/* ---- rejected calls --------------------------------------------------------------------- */

static void
test_rules (void)
{
  rlx_test_infers ("frame", "i8[2,10]", PARSED ("{'length': <int64 10>, 'hop': <int64 99>}"), "i8[2,1,10]");
  rlx_test_refuses ("frame", "f32[10]", PARSED ("{'length': <int64 11>, 'hop': <int64 1>}"), SHAPE, "more than the signal");
  rlx_test_refuses ("frame", "f32[10]", PARSED ("{'length': <int64 0>, 'hop': <int64 1>}"), INVALID, "length is 0");
  rlx_test_refuses ("frame", "f32[10]", PARSED ("{'length': <int64 2>, 'hop': <int64 0>}"), INVALID, "hop is 0");
  rlx_test_refuses ("frame", "f32[]", PARSED ("{'length': <int64 2>, 'hop': <int64 1>}"), SHAPE, "no dimensions");
  rlx_test_refuses ("frame", "f32[1,1,1,1,1,1,1,4]", PARSED ("{'length': <int64 2>, 'hop': <int64 1>}"), LIMIT, "8 dimensions");

  rlx_test_refuses ("overlap_add", "f32[10]", PARSED ("{'hop': <int64 1>}"), SHAPE, "two at least");
  rlx_test_refuses ("overlap_add", "f32[0,4]", PARSED ("{'hop': <int64 1>}"), SHAPE, "0 frames");
  rlx_test_refuses ("overlap_add", "f32[3,4]", PARSED ("{'hop': <int64 9223372036854775807>}"), LIMIT, "too long");

  rlx_test_infers ("stft", "f32[2,1000]", PARSED ("{'fft_length': <int64 64>, 'hop': <int64 16>, 'center': <false>}"), "f32[2,59,33,2]");
  rlx_test_infers ("stft", "f16[1000]", PARSED ("{'fft_length': <int64 63>, 'hop': <int64 16>, 'layout': <'planar'>, 'one_sided': <false>}"),
                   "f16[2,63,63]");
  rlx_test_refuses ("stft", "f32[20]", PARSED ("{'fft_length': <int64 64>, 'hop': <int64 16>, 'center': <false>}"), SHAPE, "64");
  rlx_test_refuses ("stft", "f32[20] f32[9]", PARSED ("{'fft_length': <int64 8>, 'hop': <int64 16>}"), SHAPE, "window");
  rlx_test_refuses ("stft", "f32[20]", PARSED ("{'fft_length': <int64 8>, 'hop': <int64 -1>}"), INVALID, "hop is -1");
  rlx_test_refuses ("stft", "f32[0]", PARSED ("{'fft_length': <int64 8>, 'hop': <int64 1>}"), SHAPE, "no elements");
  rlx_test_refuses ("stft", "f32[4]", PARSED ("{'fft_length': <int64 9223372036854775807>, 'hop': <int64 1>}"), LIMIT, "too long");

  rlx_test_infers ("istft", "f32[2,63,33,2]", PARSED ("{'hop': <int64 16>}"), "f32[2,992]");
  rlx_test_infers ("istft", "f32[2,63,33]", PARSED ("{'hop': <int64 16>, 'layout': <'planar'>, 'fft_length': <int64 65>}"), "f32[993]");
  rlx_test_refuses ("istft", "f32[63,33]", PARSED ("{'hop': <int64 16>}"), SHAPE, "three dimensions");
  rlx_test_refuses ("istft", "f32[63,1,2]", PARSED ("{'hop': <int64 16>}"), INVALID, "0 elements");
  rlx_test_refuses ("istft", "f32[63,33,2]", PARSED ("{'hop': <int64 16>, 'fft_length': <int64 60>}"), SHAPE, "31");
  rlx_test_refuses ("istft", "f32[1,33,2]", PARSED ("{'hop': <int64 16>}"), SHAPE, "0 elements");
  rlx_test_refuses ("istft", "f32[3,33,2]", PARSED ("{'hop': <int64 16>, 'length': <int64 -4>}"), INVALID, "-4");
}

static void
test_rules_spectra (void)
{
  rlx_test_infers ("power_spectrum", "f16[2,100]", PARSED ("{'fft_length': <int64 64>}"), "f16[2,33]");
  rlx_test_refuses ("power_spectrum", "f32[0]", NULL, SHAPE, "no elements");
  rlx_test_refuses ("power_spectrum", "f32[9]", PARSED ("{'fft_length': <int64 -1>}"), INVALID, "-1 elements");
  rlx_test_refuses ("power_spectrum", "f32[9] f32[10]", NULL, SHAPE, "window");

  rlx_test_infers ("mel_spectrogram", "f32[2,1000] f32[33,10]", PARSED ("{'fft_length': <int64 64>, 'hop': <int64 16>}"), "f32[2,10,63]");
  rlx_test_refuses ("mel_spectrogram", "f32[2,1000] f32[32,10]", PARSED ("{'fft_length': <int64 64>, 'hop': <int64 16>}"), SHAPE, "[33, mels]");
  rlx_test_refuses ("mel_spectrogram", "f32[2,1000] f32[33,10]", PARSED ("{'fft_length': <int64 64>, 'hop': <int64 0>}"), INVALID, "hop is 0");

  rlx_test_infers ("log_mel", "f32[480000] f32[201,128]", NULL, "f32[128,3000]");
  rlx_test_refuses ("log_mel", "f32[100] f32[201,128]", NULL, SHAPE, "the last one is left out");

  rlx_test_refuses ("welch_peaks", "f32[100]", PARSED ("{'length': <int64 16>, 'k': <int64 10>}"), INVALID, "from 0 to 9");
  rlx_test_refuses ("welch_peaks", "f32[10]", PARSED ("{'length': <int64 16>, 'k': <int64 1>}"), SHAPE, "more than the signal");

  rlx_test_refuses ("fir", "f32[10] f32[0]", NULL, SHAPE, "at least 1 element");
  rlx_test_infers ("fft_conv", "f32[10] f32[4]", PARSED ("{'mode': <'valid'>}"), "f32[7]");
  rlx_test_refuses ("fft_conv", "f32[0] f32[4]", NULL, SHAPE, "no elements");
  rlx_test_refuses ("fft_conv", "f32[9000000] f32[9000000]", NULL, LIMIT, "9000000");
}

/* Two tones, the stronger of which is between bins 5 and 6, closer to 5. */
static void
test_peaks (void)
{
  double values[512];
  g_autoptr(RlxTensor) peaks = NULL;
  RlxTensor *x;

  if (rlx_test_device () == NULL)
    return;

  for (gsize i = 0; i < G_N_ELEMENTS (values); i++)
    values[i] = 3 * sin (2 * G_PI * 5.2 * (double) i / 64) + sin (2 * G_PI * 20 * (double) i / 64);
  x = rlx_test_tensor ("f32[512]", values);
  peaks = rlx_test_run_op ("welch_peaks", 1, &x, PARSED ("{'length': <int64 64>, 'k': <int64 2>}"));
  rlx_test_compare ("welch_peaks", peaks, "i32[2]", (double[]) { 5, 6 }, 0, 0);
  g_object_unref (x);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/signal/windows", test_windows);
  g_test_add_func ("/signal/mel-filters", test_mel_filters);
  g_test_add_func ("/signal/values", test_values);
  g_test_add_func ("/signal/round-trip", test_round_trip);
  g_test_add_func ("/signal/peaks", test_peaks);
  g_test_add_func ("/signal/rules", test_rules);
  g_test_add_func ("/signal/rules-spectra", test_rules_spectra);
  return g_test_run ();
}
