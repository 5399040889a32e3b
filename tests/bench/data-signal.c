/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What should come out of transforms, sequences and searches.
 */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "workloads.h"

/* ---- transforms -------------------------------------------------------------------- */

/* Splits off the first prime factor; roots contains all n roots of unity, of which every @stride-th is one of this length. */
static void
transform (const double *x,
           gsize         step,
           double       *y,
           gsize         n,
           const double *roots,
           gsize         stride)
{
  gsize p = 2, m;
  g_autofree double *parts = NULL, *column = NULL;

  if (n == 1)
    {
      y[0] = x[0];
      y[1] = x[1];
      return;
    }
  while (n % p != 0)
    p++;
  m = n / p;
  parts = g_new (double, 2 * n);
  for (gsize i = 0; i < p; i++)
    transform (x + 2 * i * step, step * p, parts + 2 * i * m, m, roots, stride * p);
  for (gsize k = 0; k < n; k++)
    {
      double re = 0, im = 0;

      for (gsize i = 0; i < p; i++)
        {
          const double *root = roots + 2 * stride * (i * k % n), *part = parts + 2 * (i * m + k % m);

          re += part[0] * root[0] - part[1] * root[1];
          im += part[0] * root[1] + part[1] * root[0];
        }
      y[2 * k] = re;
      y[2 * k + 1] = im;
    }
}

static double *
make_roots (gsize n)
{
  double *roots = g_new (double, 2 * n);

  for (gsize i = 0; i < n; i++)
    {
      roots[2 * i] = cos (2 * G_PI * (double) i / (double) n);
      roots[2 * i + 1] = -sin (2 * G_PI * (double) i / (double) n);
    }
  return roots;
}

static double *
compute_fft (const double *x,
             gsize         rows,
             gsize         n)
{
  g_autofree double *roots = make_roots (n);
  double *y = g_new (double, 2 * rows * n);

  for (gsize i = 0; i < rows; i++)
    transform (x + 2 * i * n, 1, y + 2 * i * n, n, roots, 1);
  return y;
}

/* Slaney's scale: linear up to 1000 Hz, then logarithmic. */
static double
hertz_from_mel (double mel)
{
  return mel < 15 ? mel * 200 / 3 : 1000 * exp ((mel - 15) * log (6.4) / 27);
}

/* Triangles from 0 to 8 kHz, of equal area. */
static double
filter (gsize band,
        gsize n_bands,
        gsize bin)
{
  double top = 15 + log (8.0) * 27 / log (6.4), edges[3], f = (double) bin * 40, value;

  for (gsize i = 0; i < 3; i++)
    edges[i] = hertz_from_mel (top * (double) (band + i) / (double) (n_bands + 1));
  value = fmin ((f - edges[0]) / (edges[1] - edges[0]), (edges[2] - f) / (edges[2] - edges[1]));
  return fmax (value, 0) * 2 / (edges[2] - edges[0]);
}

static double *
compute_log_mel (const double *x,
                 gsize         n,
                 gsize         n_bands)
{
  gsize n_frames = n / 160;
  g_autofree double *roots = make_roots (400), *filters = g_new (double, n_bands * 201);
  double *y = g_new (double, n_bands * n_frames), top = -INFINITY;

  for (gsize band = 0; band < n_bands; band++)
    for (gsize bin = 0; bin < 201; bin++)
      filters[band * 201 + bin] = filter (band, n_bands, bin);
  for (gsize frame = 0; frame < n_frames; frame++)
    {
      double samples[800], bins[800];

      for (gsize i = 0; i < 400; i++)
        {
          gssize at = labs ((gssize) (frame * 160 + i) - 200);

          if (at >= (gssize) n)
            at = 2 * ((gssize) n - 1) - at;
          samples[2 * i] = x[at] * 0.5 * (1 - roots[2 * i]);
          samples[2 * i + 1] = 0;
        }
      transform (samples, 1, bins, 400, roots, 1);
      for (gsize band = 0; band < n_bands; band++)
        {
          double sum = 0;

          for (gsize bin = 0; bin < 201; bin++)
            sum += filters[band * 201 + bin] * (bins[2 * bin] * bins[2 * bin] + bins[2 * bin + 1] * bins[2 * bin + 1]);
          y[band * n_frames + frame] = log10 (fmax (sum, 1e-10));
          top = fmax (top, y[band * n_frames + frame]);
        }
    }
  for (gsize i = 0; i < n_bands * n_frames; i++)
    y[i] = (fmax (y[i], top - 8) + 4) / 4;
  return y;
}

/* ---- sequences ----------------------------------------------------------------------- */

static double *
compute_scan (const gint64 *size,
              double      **operands)
{
  const double *x = operands[0], *delta = operands[1], *rate = operands[2], *key = operands[3], *query = operands[4];
  const gsize steps = (gsize) size[0], channels = (gsize) size[1], states = (gsize) size[2];
  g_autofree double *h = g_new0 (double, channels * states);
  double *y = g_new0 (double, steps * channels);

  for (gsize t = 0; t < steps; t++)
    for (gsize c = 0; c < channels; c++)
      for (gsize s = 0; s < states; s++)
        {
          double *state = h + c * states + s, d = delta[t * channels + c];

          *state = exp (d * rate[c * states + s]) * *state + d * key[t * states + s] * x[t * channels + c];
          y[t * channels + c] += query[t * states + s] * *state;
        }
  return y;
}

static double *
compute_delta_net (const gint64 *size,
                   double      **operands)
{
  const gsize steps = (gsize) size[0], heads = (gsize) size[1], width = (gsize) size[2];
  g_autofree double *state = g_new0 (double, heads * width * width), *learnt = g_new (double, width);
  double *y = g_new0 (double, steps * heads * width);

  for (gsize t = 0; t < steps; t++)
    for (gsize head = 0; head < heads; head++)
      {
        const gsize at = t * heads + head;
        const double *q = operands[0] + at * width, *k = operands[1] + at * width, *v = operands[2] + at * width;
        double *s = state + head * width * width, decay = exp (operands[3][at]), beta = operands[4][at];

        memcpy (learnt, v, width * sizeof (double));
        for (gsize i = 0; i < width; i++)
          for (gsize j = 0; j < width; j++)
            learnt[j] -= (s[i * width + j] *= decay) * k[i];
        for (gsize i = 0; i < width; i++)
          for (gsize j = 0; j < width; j++)
            y[at * width + j] += (s[i * width + j] += beta * k[i] * learnt[j]) * q[i] / sqrt ((double) width);
      }
  return y;
}

/* ---- searches -------------------------------------------------------------------------- */

static int
compare (const void *a,
         const void *b)
{
  double x = *(const double *) a, y = *(const double *) b;

  return x < y ? -1 : x > y;
}

/* The smallest k, in order. */
static void
select_least (double *values,
              gsize   n,
              gsize   k,
              double *least)
{
  qsort (values, n, sizeof (double), compare);
  memcpy (least, values, k * sizeof (double));
}

static double *
compute_knn (const double *x,
             gsize         n,
             gsize         width,
             gsize         k)
{
  g_autofree double *distances = g_new (double, n);
  double *y = g_new (double, n * k);

  for (gsize i = 0; i < n; i++)
    {
      gsize m = 0;

      for (gsize j = 0; j < n; j++)
        {
          double sum = 0;

#pragma omp simd reduction(+:sum)
          for (gsize d = 0; d < width; d++)
            sum += (x[i * width + d] - x[j * width + d]) * (x[i * width + d] - x[j * width + d]);
          if (i != j)
            distances[m++] = sqrt (sum);
        }
      select_least (distances, m, k, y + i * k);
    }
  return y;
}

static double *
compute_top_k (double *x,
               gsize   rows,
               gsize   columns,
               gsize   k)
{
  double *y = g_new (double, rows * k);

  for (gsize i = 0; i < rows * columns; i++)
    x[i] = -x[i];
  for (gsize i = 0; i < rows; i++)
    select_least (x + i * columns, columns, k, y + i * k);
  for (gsize i = 0; i < rows * k; i++)
    y[i] = -y[i];
  return y;
}

double *
bench_compute_signal (const BenchWorkload *self,
                      double             **operands)
{
  const gsize a = (gsize) self->size[0], b = (gsize) self->size[1], c = (gsize) self->size[2];

  switch ((int) self->family)
    {
    case BENCH_FFT:
      return compute_fft (operands[0], a, b);
    case BENCH_LOG_MEL:
      return compute_log_mel (operands[0], a, b);
    case BENCH_SCAN:
      return compute_scan (self->size, operands);
    case BENCH_DELTA_NET:
      return compute_delta_net (self->size, operands);
    case BENCH_KNN:
      return compute_knn (operands[0], a, b, c);
    case BENCH_TOP_K:
      return compute_top_k (operands[0], a, b, c);
    default:
      g_assert_not_reached ();
    }
}
