/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"
#include "rlx-test-util.h"

#include <math.h>

/* ---- known answers --------------------------------------------------------------------- */

/* Published with the generator: Random123, kat_vectors, philox4x32 10. */
static void
test_known_answers (void)
{
  static const struct
  {
    gint64 counter[4];
    double key[2];
    double words[4];
  } vectors[] = {
    { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
    { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff }, { 0xffffffff, 0xffffffff },
      { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
    { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 }, { 0xa4093822, 0x299f31d0 },
      { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
  };

  if (rlx_test_device () == NULL)
    return;

  for (gsize i = 0; i < G_N_ELEMENTS (vectors); i++)
    {
      GVariantDict dict;
      g_autoptr (RlxTensor) key = rlx_test_tensor ("u32[2]", vectors[i].key), y = NULL;

      g_variant_dict_init (&dict, NULL);
      g_variant_dict_insert_value (&dict, "shape", rlx_test_ints (1, (gint64[]) { 4 }));
      g_variant_dict_insert_value (&dict, "counter", rlx_test_ints (4, vectors[i].counter));
      y = rlx_test_run_op ("random_bits", 1, &key, g_variant_dict_end (&dict));
      rlx_test_compare ("known answer", y, "u32[4]", vectors[i].words, 0, 0);
    }
}

/* The counter carries between its words: the all-ones counter is followed by zero. */
static void
test_carry (void)
{
  static const double expected[] = { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 };
  g_autoptr (RlxTensor) key = NULL, y = NULL;
  g_autofree double *words = NULL;

  if (rlx_test_device () == NULL)
    return;

  key = rlx_test_tensor ("u32[2]", (double[]) { 0, 0 });
  y = rlx_test_run_op ("random_bits", 1, &key,
                       g_variant_new_parsed ("{'shape': <[int64 8]>, 'counter': <[int64 4294967295, 4294967295, 4294967295, 4294967295]>}"));
  words = rlx_test_get_values (y);
  for (gsize i = 0; i < 4; i++)
    g_assert_cmpfloat (words[4 + i], ==, expected[i]);
}

/* ---- rules ------------------------------------------------------------------------------- */

static void
test_rules (void)
{
  rlx_test_infers ("random_bits", "u32[2]", g_variant_new_parsed ("{'shape': <[int64 2, 3]>}"), "u32[2,3]");
  rlx_test_infers ("random_uniform", "i64[]", g_variant_new_parsed ("{'shape': <@ax []>}"), "f32[]");
  rlx_test_infers ("random_normal", "i32[1]", g_variant_new_parsed ("{'shape': <[int64 0, 3]>, 'data_type': <'f16'>}"), "f16[0,3]");
  rlx_test_infers ("dropout", "f16[4] u32[2]", g_variant_new_parsed ("{'ratio': <0.5>}"), "f16[4]");
  rlx_test_infers ("sample", "f16[2,5,9] u32[]", NULL, "i32[2,5]");
  rlx_test_infers ("sample", "f32[9] u32[]", NULL, "i32[]");

  rlx_test_refuses ("random_bits", "u32[3]", g_variant_new_parsed ("{'shape': <[int64 2]>}"), RLX_GRAPH_ERROR_SHAPE, "3 elements");
  rlx_test_refuses ("random_bits", "u32[0]", g_variant_new_parsed ("{'shape': <[int64 2]>}"), RLX_GRAPH_ERROR_SHAPE, "0 elements");
  rlx_test_refuses ("random_bits", "f32[1]", g_variant_new_parsed ("{'shape': <[int64 2]>}"), RLX_GRAPH_ERROR_DATA_TYPE, NULL);
  rlx_test_refuses ("random_bits", "u32[1]", g_variant_new_parsed ("{'shape': <[int64 -2]>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "-2");
  rlx_test_refuses ("random_bits", "u32[1]", g_variant_new_parsed ("{'shape': <[int64 65536, 65536]>}"), RLX_GRAPH_ERROR_LIMIT, NULL);
  rlx_test_refuses ("random_bits", "u32[1]", g_variant_new_parsed ("{'shape': <[int64 1, 1, 1, 1, 1, 1, 1, 1, 1]>}"), RLX_GRAPH_ERROR_LIMIT, "9");
  rlx_test_refuses ("random_bits", "u32[1]", g_variant_new_parsed ("{'shape': <[int64 1]>, 'counter': <[int64 1, 2, 3, 4, 5]>}"),
                    RLX_GRAPH_ERROR_INVALID_ARGUMENT, "5 words");
  rlx_test_refuses ("random_bits", "u32[1]", g_variant_new_parsed ("{'shape': <[int64 1]>, 'counter': <[int64 4294967296]>}"),
                    RLX_GRAPH_ERROR_INVALID_ARGUMENT, "4294967296");
  rlx_test_refuses ("random_uniform", "u32[1]", g_variant_new_parsed ("{'shape': <[int64 1]>, 'low': <2.0>}"),
                    RLX_GRAPH_ERROR_INVALID_ARGUMENT, "low is 2");
  rlx_test_refuses ("random_uniform", "u32[1]", g_variant_new_parsed ("{'shape': <[int64 1]>, 'high': <1e39>}"),
                    RLX_GRAPH_ERROR_INVALID_ARGUMENT, "high");
  rlx_test_refuses ("random_normal", "u32[1]", g_variant_new_parsed ("{'shape': <[int64 1]>, 'data_type': <'i32'>}"),
                    RLX_GRAPH_ERROR_DATA_TYPE, "i32");
  rlx_test_refuses ("dropout", "f32[1] u32[1]", g_variant_new_parsed ("{'ratio': <1.0>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "ratio is 1");
  rlx_test_refuses ("dropout", "f32[1] u32[1]", g_variant_new_parsed ("{'ratio': <-0.1>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "ratio");
  rlx_test_refuses ("sample", "f32[] u32[1]", NULL, RLX_GRAPH_ERROR_SHAPE, NULL);
  rlx_test_refuses ("sample", "f32[2,0] u32[1]", NULL, RLX_GRAPH_ERROR_SHAPE, "0 tokens");
  rlx_test_refuses ("sample", "f32[2,3] u32[1]", g_variant_new_parsed ("{'temperature': <-1.0>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "temperature");
  rlx_test_refuses ("sample", "f32[2,3] u32[1]", g_variant_new_parsed ("{'top_p': <1.5>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "top_p");
  rlx_test_refuses ("sample", "f32[2,3] u32[1]", g_variant_new_parsed ("{'min_p': <-0.5>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "min_p");
  rlx_test_refuses ("sample", "f32[2,3] u32[1]", g_variant_new_parsed ("{'top_k': <int64 -5>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "top_k");
}

/* ---- distributions ------------------------------------------------------------------------- */

#define N 100000

/* Means of n numbers are within 5 standard deviations of the expected one, which is
 * exceeded once in millions of cases; the seed is fixed. */
static void
test_moments (void)
{
  g_autoptr (RlxTensor) key = NULL, u = NULL, z = NULL;
  g_autofree double *uniform = NULL, *normal = NULL;
  double mean = 0, square = 0, least = INFINITY, most = -INFINITY, z1 = 0, z2 = 0, z3 = 0, z4 = 0;

  if (rlx_test_device () == NULL)
    return;

  key = rlx_test_tensor ("i32[]", (double[]) { -7 });
  u = rlx_test_run_op ("random_uniform", 1, &key, g_variant_new_parsed ("{'shape': <[int64 100000]>}"));
  z = rlx_test_run_op ("random_normal", 1, &key, g_variant_new_parsed ("{'shape': <[int64 100000]>}"));
  uniform = rlx_test_get_values (u);
  normal = rlx_test_get_values (z);
  for (gsize i = 0; i < N; i++)
    {
      mean += uniform[i] / N;
      square += uniform[i] * uniform[i] / N;
      least = fmin (least, uniform[i]);
      most = fmax (most, uniform[i]);
      z1 += normal[i] / N;
      z2 += pow (normal[i], 2) / N;
      z3 += pow (normal[i], 3) / N;
      z4 += pow (normal[i], 4) / N;
    }

  g_assert_cmpfloat (least, >=, 0);
  g_assert_cmpfloat (most, <, 1);
  g_assert_cmpfloat (fabs (mean - 0.5), <, 5 * sqrt (1.0 / 12 / N));
  g_assert_cmpfloat (fabs (square - 1.0 / 3), <, 5 * sqrt (4.0 / 45 / N));
  /* The variances of the powers of a normal number are 1, 2, 15 and 96. */
  g_assert_cmpfloat (fabs (z1), <, 5 * sqrt (1.0 / N));
  g_assert_cmpfloat (fabs (z2 - 1), <, 5 * sqrt (2.0 / N));
  g_assert_cmpfloat (fabs (z3), <, 5 * sqrt (15.0 / N));
  g_assert_cmpfloat (fabs (z4 - 3), <, 5 * sqrt (96.0 / N));
}

static void
test_keys (void)
{
  g_autoptr (RlxTensor) a = NULL, b = NULL, pair = NULL, ya = NULL, again = NULL, yb = NULL, yp = NULL, yc = NULL;

  if (rlx_test_device () == NULL)
    return;

  a = rlx_test_tensor ("i32[1]", (double[]) { 1 });
  b = rlx_test_tensor ("i32[1]", (double[]) { 2 });
  pair = rlx_test_tensor ("u32[2]", (double[]) { 1, 0 });
  ya = rlx_test_run_op ("random_uniform", 1, &a, g_variant_new_parsed ("{'shape': <[int64 100]>}"));
  again = rlx_test_run_op ("random_uniform", 1, &a, g_variant_new_parsed ("{'shape': <[int64 100]>}"));
  yb = rlx_test_run_op ("random_uniform", 1, &b, g_variant_new_parsed ("{'shape': <[int64 100]>}"));
  yp = rlx_test_run_op ("random_uniform", 1, &pair, g_variant_new_parsed ("{'shape': <[int64 100]>}"));
  yc = rlx_test_run_op ("random_uniform", 1, &a, g_variant_new_parsed ("{'shape': <[int64 100]>, 'counter': <[int64 0, 1]>}"));
  g_assert_true (rlx_tensor_equal (ya, again));
  g_assert_true (rlx_tensor_equal (ya, yp));
  g_assert_false (rlx_tensor_equal (ya, yb));
  g_assert_false (rlx_tensor_equal (ya, yc));
}

static void
test_dropout (void)
{
  g_autoptr (RlxTensor) key = NULL, x = NULL, y = NULL;
  g_autofree double *values = NULL;
  RlxTensor *inputs[2];
  gsize n = 0;

  if (rlx_test_device () == NULL)
    return;

  key = rlx_test_tensor ("u32[1]", (double[]) { 3 });
  x = rlx_test_random ("f32[100000]", 1, 1, 0);
  inputs[0] = x;
  inputs[1] = key;
  y = rlx_test_run_op ("dropout", 2, inputs, g_variant_new_parsed ("{'ratio': <0.25>}"));
  values = rlx_test_get_values (y);
  for (gsize i = 0; i < N; i++)
    {
      g_assert_true (values[i] == 0 || fabs (values[i] - 4.0 / 3) < 1e-6);
      n += values[i] == 0;
    }
  g_assert_cmpfloat (fabs ((double) n / N - 0.25), <, 5 * sqrt (0.25 * 0.75 / N));
}

/* ---- sampling --------------------------------------------------------------------------------- */

/* How often each of the tokens is drawn, as a fraction. */
static void
draw (const double *logits,
      gsize         n_tokens,
      GVariant     *attributes,
      double       *parts)
{
  const gsize n_rows = 20000;
  g_autofree char *type = g_strdup_printf ("f32[%" G_GSIZE_FORMAT ",%" G_GSIZE_FORMAT "]", n_rows, n_tokens);
  g_autofree double *all = g_new (double, n_rows * n_tokens), *drawn = NULL;
  g_autoptr (RlxTensor) x = NULL, key = rlx_test_tensor ("u32[2]", (double[]) { 11, 12 }), y = NULL;
  RlxTensor *inputs[2];

  for (gsize i = 0; i < n_rows * n_tokens; i++)
    all[i] = logits[i % n_tokens];
  x = rlx_test_tensor (type, all);
  inputs[0] = x;
  inputs[1] = key;
  y = rlx_test_run_op ("sample", 2, inputs, attributes);
  drawn = rlx_test_get_values (y);
  for (gsize k = 0; k < n_tokens; k++)
    parts[k] = 0;
  for (gsize i = 0; i < n_rows; i++)
    {
      g_assert_true (drawn[i] >= 0 && drawn[i] < n_tokens);
      parts[(gsize) drawn[i]]++;
    }
  for (gsize k = 0; k < n_tokens; k++)
    parts[k] /= (double) n_rows;
}

static void
check_parts (const char   *what,
             GVariant     *attributes,
             const double *expected)
{
  /* probabilities 0.1, 0.4, 0.2, 0.3 */
  const double logits[] = { log (0.1), log (0.4), log (0.2), log (0.3) };
  double parts[4];

  draw (logits, 4, attributes, parts);
  for (gsize k = 0; k < 4; k++)
    {
      double p = expected[k];

      if (fabs (parts[k] - p) > 5 * sqrt (p * (1 - p) / 20000))
        {
          g_test_message ("%s: token %" G_GSIZE_FORMAT " should be drawn %g of the time, is %g", what, k, p, parts[k]);
          g_test_fail ();
        }
    }
}

static void
test_sample (void)
{
  if (rlx_test_device () == NULL)
    return;

  check_parts ("all", NULL, (double[]) { 0.1, 0.4, 0.2, 0.3 });
  check_parts ("greedy", g_variant_new_parsed ("{'temperature': <0.0>}"), (double[]) { 0, 1, 0, 0 });
  check_parts ("half the temperature", g_variant_new_parsed ("{'temperature': <0.5>}"),
               (double[]) { 0.01 / 0.3, 0.16 / 0.3, 0.04 / 0.3, 0.09 / 0.3 });
  check_parts ("top 1", g_variant_new_parsed ("{'top_k': <int64 1>}"), (double[]) { 0, 1, 0, 0 });
  check_parts ("top 2", g_variant_new_parsed ("{'top_k': <int64 2>}"), (double[]) { 0, 4.0 / 7, 0, 3.0 / 7 });
  check_parts ("top 9", g_variant_new_parsed ("{'top_k': <int64 9>}"), (double[]) { 0.1, 0.4, 0.2, 0.3 });
  /* 0.4 + 0.3 is not enough for 0.75 */
  check_parts ("top p", g_variant_new_parsed ("{'top_p': <0.75>}"), (double[]) { 0, 4.0 / 9, 2.0 / 9, 3.0 / 9 });
  check_parts ("top p of 0", g_variant_new_parsed ("{'top_p': <0.0>}"), (double[]) { 0, 1, 0, 0 });
  /* of the first three 0.4 / 0.9 is not enough, 0.7 / 0.9 is */
  check_parts ("top p of the top 3", g_variant_new_parsed ("{'top_p': <0.75>, 'top_k': <int64 3>}"), (double[]) { 0, 4.0 / 7, 0, 3.0 / 7 });
  check_parts ("min p", g_variant_new_parsed ("{'min_p': <0.4>}"), (double[]) { 0, 4.0 / 9, 2.0 / 9, 3.0 / 9 });
  check_parts ("min p of the top 3", g_variant_new_parsed ("{'min_p': <0.6>, 'top_k': <int64 3>}"), (double[]) { 0, 4.0 / 7, 0, 3.0 / 7 });
}

/* A vocabulary too long for one block, infinities and NaN. */
static void
test_sample_special (void)
{
  g_autofree double *values = NULL;
  g_autoptr (RlxTensor) x = NULL, key = NULL, y = NULL, z = NULL;
  RlxTensor *inputs[2];

  if (rlx_test_device () == NULL)
    return;

  values = g_new (double, 4 * 50000);
  for (gsize i = 0; i < 50000; i++)
    {
      values[i] = i == 43210 ? 60 : (double) (i % 10);
      values[50000 + i] = i == 777 ? 1 : -INFINITY;
      values[100000 + i] = i == 31000 || i == 40000 ? NAN : 1;
      values[150000 + i] = i == 49999 ? INFINITY : 1;
    }
  x = rlx_test_tensor ("f32[4,50000]", values);
  key = rlx_test_tensor ("u32[1]", (double[]) { 5 });
  inputs[0] = x;
  inputs[1] = key;
  y = rlx_test_run_op ("sample", 2, inputs, g_variant_new_parsed ("{'top_p': <0.9>, 'min_p': <0.01>}"));
  rlx_test_compare ("special", y, "i32[4]", (double[]) { 43210, 777, 31000, 49999 }, 0, 0);
  z = rlx_test_run_op ("sample", 2, inputs, NULL);
  rlx_test_compare ("special", z, "i32[4]", (double[]) { 43210, 777, 31000, 49999 }, 0, 0);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/random/known-answers", test_known_answers);
  g_test_add_func ("/random/carry", test_carry);
  g_test_add_func ("/random/rules", test_rules);
  g_test_add_func ("/random/moments", test_moments);
  g_test_add_func ("/random/keys", test_keys);
  g_test_add_func ("/random/dropout", test_dropout);
  g_test_add_func ("/sample/parts", test_sample);
  rlx_test_add_kernels ("/sample/special", test_sample_special);

  return g_test_run ();
}
