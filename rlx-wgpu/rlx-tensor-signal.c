/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Constants that go with signals: windows, and filters of a mel spectrogram.
 */
#include "config.h"

#include "rlx-tensor.h"

#include "rlx-private.h"
#include "rlx-tensor-private.h"

#include <math.h>

/* More than any transform can use. */
#define MAX_LENGTH ((gint64) 1 << 24)

/* ---- windows ------------------------------------------------------------------------- */

/* The modified Bessel function of the first kind, of order 0, times exp (-x): its series for
 * small x, all of whose terms are positive, and beyond that an average of exp (x (cos t - 1)),
 * whose error of the trapezium rule is beyond what a double has. */
static double
scaled_bessel (double x)
{
  double sum = 1, term = 1;
  int n;

  if (x <= 20)
    {
      for (double k = 1; term > sum * 0x1p-60; k++)
        {
          term *= (x / (2 * k)) * (x / (2 * k));
          sum += term;
        }
      return sum * exp (-x);
    }

  n = 64 + (int) (16 * sqrt (x));
  sum = 0.5 * (1 + exp (-2 * x));
  for (int i = 1; i < n; i++)
    sum += exp (x * (cos (G_PI * i / n) - 1));
  return sum / n;
}

static double
get_window (RlxWindowShape shape,
            double         t,
            double         beta)
{
  switch (shape)
    {
    case RLX_WINDOW_SHAPE_HAMMING:
      return 0.54 - 0.46 * cos (2 * G_PI * t);
    case RLX_WINDOW_SHAPE_BLACKMAN:
      return 0.42 - 0.5 * cos (2 * G_PI * t) + 0.08 * cos (4 * G_PI * t);
    case RLX_WINDOW_SHAPE_KAISER:
      {
        double x = beta * sqrt (MAX (1 - (2 * t - 1) * (2 * t - 1), 0));

        return scaled_bessel (x) / scaled_bessel (beta) * exp (x - beta);
      }
    case RLX_WINDOW_SHAPE_HANN:
    default:
      return 0.5 - 0.5 * cos (2 * G_PI * t);
    }
}

/**
 * rlx_tensor_new_window:
 * @shape: which window
 * @length: the number of elements, at least 1
 * @periodic: whether the window is one period of an even function, as used for transforms of frames,
 *   or symmetric, as used for filters
 * @beta: for %RLX_WINDOW_SHAPE_KAISER, how narrow it is, from 0 to 1000; otherwise ignored
 * @error: where to store an error
 *
 * Creates a window of type `f32`, such as [method@Rlx.Node.stft] takes. A window with a single
 * element is 1.
 *
 * Returns: (transfer full): a new tensor, or %NULL with an error
 *
 * Since: 1.0
 */
RlxTensor *
rlx_tensor_new_window (RlxWindowShape   shape,
                       gint64           length,
                       gboolean         periodic,
                       double           beta,
                       GError         **error)
{
  g_autofree float *values = NULL;
  gint64 period;

  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if ((int) shape < 0 || shape > RLX_WINDOW_SHAPE_KAISER)
    {
      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "There is no window shape %d", (int) shape);
      return NULL;
    }
  if (length < 1 || length > MAX_LENGTH)
    {
      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_LIMIT,
                   "A window cannot have %" G_GINT64_FORMAT " elements; it must have 1 to %" G_GINT64_FORMAT, length, MAX_LENGTH);
      return NULL;
    }
  if (shape == RLX_WINDOW_SHAPE_KAISER && !(beta >= 0 && beta <= 1000))
    {
      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                   "The beta of a Kaiser window is %g; it must be from 0 to 1000", beta);
      return NULL;
    }

  values = g_new (float, (gsize) length);
  period = periodic ? length : length - 1;
  for (gint64 i = 0; i < length; i++)
    {
      /* the second half is the first one mirrored, to the bit */
      double t = period > 0 ? (double) MIN (i, period - i) / (double) period : 0.5;

      values[i] = length == 1 ? 1.0f : (float) MAX (get_window (shape, t, beta), 0.0);
    }
  return rlx_tensor_new_from_floats (&length, 1, values, (gsize) length, error);
}

/* ---- mel filters ---------------------------------------------------------------------- */

double
rlx_mel_scale_from_hertz (RlxMelScale scale,
                          double      frequency)
{
  if (scale == RLX_MEL_SCALE_HTK)
    return 2595 * log10 (1 + frequency / 700);
  return frequency < 1000 ? frequency * 3 / 200 : 15 + 27 * log (frequency / 1000) / log (6.4);
}

double
rlx_mel_scale_to_hertz (RlxMelScale scale,
                        double      mels)
{
  if (scale == RLX_MEL_SCALE_HTK)
    return 700 * (pow (10, mels / 2595) - 1);
  return mels < 15 ? mels * 200 / 3 : 1000 * exp ((mels - 15) * log (6.4) / 27);
}

/**
 * rlx_tensor_new_mel_filters:
 * @scale: the scale on which the filters are evenly spaced
 * @n_mels: the number of filters
 * @fft_length: the length of the transforms whose spectra are filtered
 * @sample_rate: the number of samples per second
 * @lowest: the start of the first filter, in Hz
 * @highest: the end of the last filter, in Hz, at most half of @sample_rate
 * @equal_area: whether all filters have the same area, like Slaney's, instead of the
 *   same height
 * @error: where to store an error
 *
 * Creates the triangular filters of a mel spectrogram, of type `f32` and shape
 * [@fft_length / 2 + 1, @n_mels]. Each filter starts and ends at the centres of its
 * neighbours.
 *
 * Whisper uses 80 or 128 filters on Slaney's scale, of equal area, from 0 to 8000 Hz, for transforms
 * of 400 samples at 16,000 samples per second.
 *
 * Returns: (transfer full): a new tensor, or %NULL with an error
 *
 * Since: 1.0
 */
RlxTensor *
rlx_tensor_new_mel_filters (RlxMelScale   scale,
                            gint64        n_mels,
                            gint64        fft_length,
                            double        sample_rate,
                            double        lowest,
                            double        highest,
                            gboolean      equal_area,
                            GError      **error)
{
  g_autofree float *values = NULL;
  double first, distance;
  gint64 shape[2];

  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if ((int) scale < 0 || scale > RLX_MEL_SCALE_HTK)
    {
      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "There is no mel scale %d", (int) scale);
      return NULL;
    }
  if (n_mels < 1 || fft_length < 1 || fft_length > MAX_LENGTH || n_mels > MAX_LENGTH / (fft_length / 2 + 1))
    {
      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_LIMIT,
                   "There cannot be %" G_GINT64_FORMAT " filters for transforms of %" G_GINT64_FORMAT
                   " samples: at least 1 of each, and at most %" G_GINT64_FORMAT " elements",
                   n_mels, fft_length, MAX_LENGTH);
      return NULL;
    }
  if (!(lowest >= 0 && lowest < highest && highest <= sample_rate / 2 && isfinite (sample_rate)))
    {
      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                   "Filters cannot go from %g to %g Hz at a sample rate of %g: they must lie between 0 and half of that rate",
                   lowest, highest, sample_rate);
      return NULL;
    }

  shape[0] = fft_length / 2 + 1;
  shape[1] = n_mels;
  values = g_new (float, (gsize) (shape[0] * shape[1]));
  first = rlx_mel_scale_from_hertz (scale, lowest);
  distance = (rlx_mel_scale_from_hertz (scale, highest) - first) / (double) (n_mels + 1);
  for (gint64 m = 0; m < n_mels; m++)
    {
      double low = rlx_mel_scale_to_hertz (scale, first + (double) m * distance);
      double middle = rlx_mel_scale_to_hertz (scale, first + (double) (m + 1) * distance);
      double high = rlx_mel_scale_to_hertz (scale, first + (double) (m + 2) * distance);
      double height = equal_area ? 2 / (high - low) : 1;

      for (gint64 k = 0; k < shape[0]; k++)
        {
          double frequency = (double) k * sample_rate / (double) fft_length;
          double rising = (frequency - low) / (middle - low), falling = (high - frequency) / (high - middle);

          values[k * n_mels + m] = (float) (MAX (MIN (rising, falling), 0.0) * height);
        }
    }
  return rlx_tensor_new_from_floats (shape, 2, values, (gsize) (shape[0] * shape[1]), error);
}
