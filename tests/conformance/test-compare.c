/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "compare.h"

#include <math.h>
#include <string.h>

static guint32
bits (float value)
{
  guint32 out;

  memcpy (&out, &value, sizeof out);
  return out;
}

static gboolean
near_f32 (float           got,
          float           want,
          const Tolerance tolerance)
{
  g_autofree char *reason = compare_elements (RLX_DATA_TYPE_F32, &got, &want, 1, &tolerance);

  return reason == NULL;
}

static gboolean
near_f16 (double          got,
          double          want,
          const Tolerance tolerance)
{
  guint16 a = half_from_double (got);
  guint16 b = half_from_double (want);
  g_autofree char *reason = compare_elements (RLX_DATA_TYPE_F16, &a, &b, 1, &tolerance);

  return reason == NULL;
}

#define ULP(n) ((Tolerance) { .kind = TOLERANCE_ULP, .value = n })
#define ATOL(x) ((Tolerance) { .kind = TOLERANCE_ATOL, .value = x })
#define RTOL_ATOL(r, a) ((Tolerance) { .kind = TOLERANCE_RTOL_ATOL, .rtol = r, .atol = a })

static void
test_ulp_f32 (void)
{
  g_assert_cmpuint (ulp_distance_f32 (bits (1), bits (1)), ==, 0);
  g_assert_cmpuint (ulp_distance_f32 (bits (1), bits (nextafterf (1, 2))), ==, 1);
  g_assert_cmpuint (ulp_distance_f32 (bits (nextafterf (1, 2)), bits (1)), ==, 1);
  g_assert_cmpuint (ulp_distance_f32 (bits (2), bits (nextafterf (nextafterf (2, 0), 0))), ==, 2);
  g_assert_cmpuint (ulp_distance_f32 (bits (1), bits (2)), ==, 1 << 23);

  /* the zeros coincide; the smallest subnormals are one step from each */
  g_assert_cmpuint (ulp_distance_f32 (bits (0.0f), bits (-0.0f)), ==, 0);
  g_assert_cmpuint (ulp_distance_f32 (bits (0x1p-149f), bits (-0.0f)), ==, 1);
  g_assert_cmpuint (ulp_distance_f32 (bits (0x1p-149f), bits (-0x1p-149f)), ==, 2);

  g_assert_cmpuint (ulp_distance_f32 (bits (G_MAXFLOAT), bits (INFINITY)), ==, 1);
  g_assert_cmpuint (ulp_distance_f32 (bits (-INFINITY), bits (INFINITY)), ==, 2ul * 0x7f800000ul);
}

static void
test_ulp_f16 (void)
{
  g_assert_cmpuint (ulp_distance_f16 (half_from_double (1), half_from_double (1 + 0x1p-10)), ==, 1);
  g_assert_cmpuint (ulp_distance_f16 (half_from_double (1), half_from_double (1 - 0x1p-11)), ==, 1);
  g_assert_cmpuint (ulp_distance_f16 (half_from_double (-1), half_from_double (-1 - 0x3p-10)), ==, 3);
  g_assert_cmpuint (ulp_distance_f16 (0x0000, 0x8000), ==, 0);
  g_assert_cmpuint (ulp_distance_f16 (0x0001, 0x8001), ==, 2);
  g_assert_cmpuint (ulp_distance_f16 (half_from_double (65504), half_from_double (INFINITY)), ==, 1);
}

static void
test_half (void)
{
  const struct { double value; guint16 half; } known[] = {
    { 0, 0x0000 }, { -0.0, 0x8000 }, { 1, 0x3c00 }, { -2, 0xc000 }, { 65504, 0x7bff }, { 65519, 0x7bff },
    { 65520, 0x7c00 }, { 1e9, 0x7c00 }, { -INFINITY, 0xfc00 }, { 0x1p-14, 0x0400 }, { 0x1p-24, 0x0001 },
    { 0x1p-25, 0x0000 }, { 0x1.8p-25, 0x0001 }, { 0x3ffp-24, 0x03ff }, { 0x3ff.8p-24, 0x0400 }, { 0.1, 0x2e66 },
    { 1 + 0x1p-11, 0x3c00 }, { 1 + 0x3p-11, 0x3c02 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (known); i++)
    g_assert_cmphex (half_from_double (known[i].value), ==, known[i].half);
  g_assert_true (isnan (half_to_double (half_from_double (NAN))));
  for (guint32 half = 0; half <= G_MAXUINT16; half++)
    if ((half & 0x7c00) != 0x7c00 || (half & 0x3ff) == 0)
      g_assert_cmphex (half_from_double (half_to_double ((guint16) half)), ==, half);
}

static void
test_floats (void)
{
  float up = nextafterf (1, 2);

  g_assert_true (near_f32 (1, 1, ULP (0)));
  g_assert_false (near_f32 (up, 1, ULP (0)));
  g_assert_true (near_f32 (up, 1, ULP (1)));
  g_assert_false (near_f32 (nextafterf (up, 2), 1, ULP (1)));
  g_assert_true (near_f32 (-0.0f, 0.0f, ULP (0)));
  g_assert_true (near_f16 (1 + 0x1p-10, 1, ULP (1)));
  g_assert_false (near_f16 (1 + 0x2p-10, 1, ULP (1)));
  g_assert_true (near_f16 (-0.0, 0.0, ULP (0)));

  g_assert_true (near_f32 (1.25f, 1, ATOL (0.25)));
  g_assert_false (near_f32 (1.2500001f, 1, ATOL (0.25)));
  g_assert_true (near_f16 (-1, -1.5, ATOL (0.5)));
  g_assert_false (near_f16 (-1, -1.5, ATOL (0.4)));

  g_assert_true (near_f32 (8.75f, 8, RTOL_ATOL (0.0625, 0.25)));
  g_assert_false (near_f32 (8.875f, 8, RTOL_ATOL (0.0625, 0.25)));
  /* relative to the expected value, not to the actual one */
  g_assert_false (near_f32 (100, 1, RTOL_ATOL (0.995, 0)));
}

static void
test_not_finite (void)
{
  const Tolerance all[] = { ULP (G_MAXUINT32), ATOL (1e30), RTOL_ATOL (1e30, 1e30) };

  for (guint i = 0; i < G_N_ELEMENTS (all); i++)
    {
      g_assert_true (near_f32 (NAN, NAN, all[i]));
      g_assert_true (near_f32 (-NAN, NAN, all[i]));
      g_assert_false (near_f32 (NAN, 0, all[i]));
      g_assert_false (near_f32 (0, NAN, all[i]));
      g_assert_true (near_f32 (INFINITY, INFINITY, all[i]));
      g_assert_true (near_f16 (-INFINITY, -INFINITY, all[i]));
      g_assert_false (near_f16 (NAN, INFINITY, all[i]));
      if (all[i].kind != TOLERANCE_ULP)
        {
          g_assert_false (near_f32 (INFINITY, -INFINITY, all[i]));
          g_assert_false (near_f32 (1, INFINITY, all[i]));
          g_assert_false (near_f32 (INFINITY, 1, all[i]));
        }
    }
  g_assert_false (near_f32 (INFINITY, -INFINITY, ULP (1000)));
  g_assert_true (near_f32 (INFINITY, G_MAXFLOAT, ULP (1)));
}

static gboolean
near_ints (RlxDataType     data_type,
           gconstpointer   got,
           gconstpointer   want,
           const Tolerance tolerance)
{
  g_autofree char *reason = compare_elements (data_type, got, want, 1, &tolerance);

  return reason == NULL;
}

static void
test_ints (void)
{
  gint8 i8[] = { -128, 127, -127 };
  guint8 u8[] = { 0, 255, 1 };
  gint32 i32[] = { G_MININT32, G_MAXINT32 };
  gint64 i64[] = { G_MININT64, G_MAXINT64, G_MAXINT64 - 1 };
  guint64 u64[] = { 0, G_MAXUINT64, G_MAXUINT64 - 1 };

  g_assert_true (near_ints (RLX_DATA_TYPE_I8, &i8[0], &i8[2], ULP (1)));
  g_assert_false (near_ints (RLX_DATA_TYPE_I8, &i8[0], &i8[1], ULP (254)));
  g_assert_true (near_ints (RLX_DATA_TYPE_I8, &i8[0], &i8[1], ULP (255)));
  g_assert_false (near_ints (RLX_DATA_TYPE_U8, &u8[0], &u8[1], ULP (254)));
  g_assert_true (near_ints (RLX_DATA_TYPE_BOOL, &u8[2], &u8[2], ULP (0)));
  g_assert_false (near_ints (RLX_DATA_TYPE_BOOL, &u8[0], &u8[2], ULP (0)));
  g_assert_false (near_ints (RLX_DATA_TYPE_I32, &i32[0], &i32[1], ULP (4294967294.0)));
  g_assert_true (near_ints (RLX_DATA_TYPE_I32, &i32[0], &i32[1], ULP (4294967295.0)));
  g_assert_false (near_ints (RLX_DATA_TYPE_I64, &i64[0], &i64[1], ULP (1)));
  g_assert_true (near_ints (RLX_DATA_TYPE_I64, &i64[2], &i64[1], ULP (1)));
  g_assert_false (near_ints (RLX_DATA_TYPE_I64, &i64[2], &i64[1], ULP (0)));
  g_assert_false (near_ints (RLX_DATA_TYPE_U64, &u64[0], &u64[1], ULP (1)));
  g_assert_true (near_ints (RLX_DATA_TYPE_U64, &u64[2], &u64[1], ULP (1)));

  /* relative tolerances are not for integers, absolute ones are */
  g_assert_false (near_ints (RLX_DATA_TYPE_U8, &u8[0], &u8[2], RTOL_ATOL (10, 10)));
  g_assert_true (near_ints (RLX_DATA_TYPE_U8, &u8[0], &u8[2], ATOL (1)));
}

static void
test_reason (void)
{
  const float got[] = { 1, 2.5f, 3, NAN };
  const float want[] = { 1, 2, 3, 4 };
  const Tolerance tolerance = ATOL (0.25);
  g_autofree char *reason = compare_elements (RLX_DATA_TYPE_F32, got, want, 4, &tolerance);
  g_autofree char *none = compare_elements (RLX_DATA_TYPE_F32, got, want, 1, &tolerance);
  g_autofree char *empty = compare_elements (RLX_DATA_TYPE_F32, NULL, NULL, 0, &tolerance);

  g_assert_cmpstr (reason, ==, "element 1 is 2.5 instead of 2 (difference 0.5, allowed 0.25); 2 of 4 elements differ");
  g_assert_null (none);
  g_assert_null (empty);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/compare/ulp-f32", test_ulp_f32);
  g_test_add_func ("/compare/ulp-f16", test_ulp_f16);
  g_test_add_func ("/compare/half", test_half);
  g_test_add_func ("/compare/floats", test_floats);
  g_test_add_func ("/compare/not-finite", test_not_finite);
  g_test_add_func ("/compare/ints", test_ints);
  g_test_add_func ("/compare/reason", test_reason);
  return g_test_run ();
}
