/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Fourier transforms: values, what is refused, and how exact they are at every length.
 */
#include "config.h"

#include <math.h>

#include "rlx-test-util.h"

#include "ops/rlx-fft-private.h"

#define PARSED(text) g_variant_new_parsed (text)
#define SHAPE RLX_GRAPH_ERROR_SHAPE
#define DATA_TYPE RLX_GRAPH_ERROR_DATA_TYPE
#define LIMIT RLX_GRAPH_ERROR_LIMIT
#define INVALID RLX_GRAPH_ERROR_INVALID_ARGUMENT

static void
test_values (void)
{
  RlxTensor *x;
  g_autoptr(RlxTensor) y = NULL, z = NULL, back = NULL;

  if (rlx_test_device () == NULL)
    return;

  x = rlx_test_tensor ("f32[4]", (double[]) { 1, 2, 3, 4 });
  y = rlx_test_run_op ("rfft", 1, &x, NULL);
  rlx_test_compare ("rfft", y, "f32[3,2]", (double[]) { 10, 0, -2, 2, -2, 0 }, 0, 0);
  back = rlx_test_run_op ("irfft", 1, &y, NULL);
  rlx_test_compare ("irfft", back, "f32[4]", (double[]) { 1, 2, 3, 4 }, 0, 0);
  g_object_unref (x);

  x = rlx_test_tensor ("f32[2,4]", (double[]) { 1, 2, 3, 4, 0, 0, 0, 0 });
  z = rlx_test_run_op ("fft", 1, &x, PARSED ("{'layout': <'planar'>}"));
  rlx_test_compare ("fft", z, "f32[2,4]", (double[]) { 10, -2, -2, -2, 0, 2, 0, -2 }, 0, 0);
  g_object_unref (x);
}

static void
test_rules (void)
{
  rlx_test_infers ("fft", "f32[5,6,2]", NULL, "f32[5,6,2]");
  rlx_test_infers ("fft", "f16[5,6,2]", PARSED ("{'axes': <[int64 0]>, 'lengths': <[int64 9]>}"), "f16[9,6,2]");
  rlx_test_infers ("rfft", "f32[5,6]", NULL, "f32[5,4,2]");
  rlx_test_infers ("rfft", "f32[5,6]", PARSED ("{'layout': <'planar'>}"), "f32[2,5,4]");
  rlx_test_infers ("rfft", "f32[5,6]", PARSED ("{'axes': <[int64 1, 0]>}"), "f32[3,6,2]");
  rlx_test_infers ("irfft", "f32[5,6,2]", NULL, "f32[5,10]");
  rlx_test_infers ("irfft", "f32[5,6,2]", PARSED ("{'lengths': <[int64 11]>}"), "f32[5,11]");

  rlx_test_refuses ("fft", "f32[5,6]", NULL, SHAPE, "last dimension of 2");
  rlx_test_refuses ("fft", "f32[6,2]", PARSED ("{'layout': <'planar'>}"), SHAPE, "first dimension of 2");
  rlx_test_refuses ("fft", "i32[6,2]", NULL, DATA_TYPE, "i32");
  rlx_test_refuses ("fft", "f32[0,2]", NULL, SHAPE, "no elements");
  rlx_test_refuses ("fft", "f32[6,2]", PARSED ("{'lengths': <[int64 0]>}"), SHAPE, "length of 0");
  rlx_test_refuses ("fft", "f32[6,2]", PARSED ("{'lengths': <[int64 16777217]>}"), LIMIT, "16777216");
  rlx_test_refuses ("fft", "f32[6,2]", PARSED ("{'lengths': <[int64 8388617]>}"), LIMIT, "8388608");
  rlx_test_refuses ("fft", "f32[6,2]", PARSED ("{'lengths': <[int64 4, 4]>}"), INVALID, "2 lengths for 1 axes");
  rlx_test_refuses ("irfft", "f32[1,2]", NULL, SHAPE, "length of 0");
  rlx_test_refuses ("rfft", "f32[1,1,1,1,1,1,1,4]", NULL, LIMIT, "8 dimensions");
}

/* Every factor is at most the requested one, and their product is the length. */
static void
test_factors (void)
{
  for (guint64 n = 1; n <= 4096; n++)
    {
      RlxFftStages stages;
      guint64 product = 1;

      if (!rlx_fft_is_smooth (n))
        {
          guint64 chirp = rlx_fft_find_chirp (n);

          g_assert_cmpuint (chirp, >=, 2 * n - 1);
          g_assert_true (rlx_fft_is_smooth (chirp));
          continue;
        }
      g_assert_true (rlx_fft_find_stages (n, 16, 64, &stages));
      for (guint i = 0; i < stages.n_stages; i++)
        {
          g_assert_cmpuint (stages.radices[i], <=, 16);
          product *= stages.radices[i];
        }
      g_assert_cmpuint (product, ==, n);
    }

  /* The longest that the minimum limits allow at once, with neighbours. */
  for (guint64 n = 4096; n <= RLX_FFT_LENGTH; n += n / 1024 + 1)
    {
      guint64 factors[RLX_FFT_PASSES], product = 1;
      guint n_passes;

      if (!rlx_fft_is_smooth (n))
        continue;
      n_passes = rlx_fft_find_passes (n, 256, factors);
      g_assert_cmpuint (n_passes, >, 0);
      for (guint i = 0; i < n_passes; i++)
        product *= factors[i];
      g_assert_cmpuint (product, ==, n);
    }
}

/* The transform of random numbers, checked at some elements. */
static void
check_length (gint64 n,
              gint64 batch)
{
  g_autoptr(GRand) rand = g_rand_new_with_seed ((guint32) n);
  gint64 shape[] = { batch, n, 2 };
  g_autofree float *data = g_new (float, (gsize) (batch * n * 2));
  g_autoptr(RlxTensor) y = NULL;
  RlxTensor *x;
  const float *found;
  double error = 0, size = 0, bound = 0x1p-24 * (1 + log2 ((double) n));
  gsize n_bytes;
  gint64 n_samples = MIN (n, 48);

  for (gint64 i = 0; i < batch * n * 2; i++)
    {
      double sum = 0;

      for (guint j = 0; j < 4; j++)
        sum += g_rand_double (rand) - 0.5;
      data[i] = (float) sum;
    }
  x = rlx_tensor_new_from_floats (shape, 3, data, (gsize) (batch * n * 2), NULL);
  y = rlx_test_run_op ("fft", 1, &x, NULL);
  found = g_bytes_get_data (rlx_tensor_get_bytes (y), &n_bytes);
  for (gint64 s = 0; s < n_samples; s++)
    {
      gint64 k = n_samples == n ? s : (gint64) floor (g_rand_double (rand) * (double) n);
      gint64 row = s % batch;
      const float *from = data + row * n * 2;
      double re = 0, im = 0, dr, di;

      for (gint64 j = 0; j < n; j++)
        {
          double angle = -2.0 * G_PI * (double) (j * k % n) / (double) n, c = cos (angle), d = sin (angle);

          re += from[2 * j] * c - from[2 * j + 1] * d;
          im += from[2 * j] * d + from[2 * j + 1] * c;
        }
      dr = found[2 * (row * n + k)] - re;
      di = found[2 * (row * n + k) + 1] - im;
      error += dr * dr + di * di;
      size += re * re + im * im;
    }
  g_test_message ("%" G_GINT64_FORMAT ": %.2e, at most %.2e", n, sqrt (error / size), bound);
  g_assert_cmpfloat (sqrt (error / size), <=, bound);
  g_object_unref (x);
}

static void
test_exact (void)
{
  static const gint64 lengths[] = { 2, 3, 11, 13, 64, 169, 997, 1000, 1024, 4096, 10007, 59049, 65536, 65537, 1 << 20 };

  if (rlx_test_device () == NULL)
    return;
  for (gsize i = 0; i < G_N_ELEMENTS (lengths); i++)
    check_length (lengths[i], lengths[i] <= 1024 ? 3 : 1);
}

static void
test_long (void)
{
  if (!g_test_slow ())
    {
      g_test_skip ("takes long");
      return;
    }
  if (rlx_test_device () == NULL)
    return;
  check_length (1 << 24, 1);
  check_length (8388593, 1);   /* the largest prime below 2²³ */
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/fft/values", test_values);
  g_test_add_func ("/fft/rules", test_rules);
  g_test_add_func ("/fft/factors", test_factors);
  g_test_add_func ("/fft/exact", test_exact);
  g_test_add_func ("/fft/long", test_long);

  return g_test_run ();
}
