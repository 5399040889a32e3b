/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The elements of tensors as numbers and as text.
 */
#include "config.h"

#include "rlx-test-tensor.h"
#include "util/rlx-narrow-private.h"

#include <locale.h>
#include <math.h>

/* ---- from numbers -------------------------------------------------------- */

static void
test_new_scalar (void)
{
  static const struct
  {
    RlxDataType data_type;
    double value;
    const char *text;   /* NULL if an error is expected */
  } cases[] = {
    { RLX_DATA_TYPE_F32, 0.1, "0.1" },
    { RLX_DATA_TYPE_F32, -0.0, "-0" },
    { RLX_DATA_TYPE_F32, NAN, "nan" },
    { RLX_DATA_TYPE_F32, -NAN, "nan" },
    { RLX_DATA_TYPE_F32, INFINITY, "inf" },
    { RLX_DATA_TYPE_F32, -INFINITY, "-inf" },
    { RLX_DATA_TYPE_F32, 1e300, NULL },
    { RLX_DATA_TYPE_F32, -1e39, NULL },
    { RLX_DATA_TYPE_F32, 1e-300, "0" },
    { RLX_DATA_TYPE_F16, 0.1, "0.1" },
    { RLX_DATA_TYPE_F16, 65519.0, "65504" },
    { RLX_DATA_TYPE_F16, 65520.0, NULL },
    { RLX_DATA_TYPE_F16, -1e10, NULL },
    { RLX_DATA_TYPE_F16, INFINITY, "inf" },
    { RLX_DATA_TYPE_F16, NAN, "nan" },
    { RLX_DATA_TYPE_I32, -2147483648.0, "-2147483648" },
    { RLX_DATA_TYPE_I32, 2147483647.0, "2147483647" },
    { RLX_DATA_TYPE_I32, 2147483648.0, NULL },
    { RLX_DATA_TYPE_I32, 0.5, NULL },
    { RLX_DATA_TYPE_I32, NAN, NULL },
    { RLX_DATA_TYPE_I32, INFINITY, NULL },
    { RLX_DATA_TYPE_U32, 4294967295.0, "4294967295" },
    { RLX_DATA_TYPE_U32, -1.0, NULL },
    { RLX_DATA_TYPE_I8, -128.0, "-128" },
    { RLX_DATA_TYPE_I8, 128.0, NULL },
    { RLX_DATA_TYPE_U8, 255.0, "255" },
    { RLX_DATA_TYPE_U8, 255.5, NULL },
    { RLX_DATA_TYPE_U8, 256.0, NULL },
    { RLX_DATA_TYPE_BOOL, 0.0, "false" },
    { RLX_DATA_TYPE_BOOL, 1.0, "true" },
    { RLX_DATA_TYPE_BOOL, 2.0, NULL },
    { RLX_DATA_TYPE_BOOL, 0.5, NULL },
    { RLX_DATA_TYPE_I64, -0x1p63, "-9223372036854775808" },
    { RLX_DATA_TYPE_I64, 0x1p63, NULL },
    { RLX_DATA_TYPE_I64, -0x1.0000000000001p63, NULL },
    { RLX_DATA_TYPE_I64, 0x1.fffffffffffffp62, "9223372036854774784" },
    { RLX_DATA_TYPE_U64, 0x1.fffffffffffffp63, "18446744073709549568" },
    { RLX_DATA_TYPE_U64, 0x1p64, NULL },
    { RLX_DATA_TYPE_U64, -1.0, NULL },
    { RLX_DATA_TYPE_U64, 0.25, NULL },
    { RLX_DATA_TYPE_U64, NAN, NULL },
  };
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (RlxTensor) tensor = rlx_tensor_new_scalar (cases[i].data_type, cases[i].value, &error);

      if (cases[i].text != NULL)
        {
          g_assert_no_error (error);
          g_assert_cmpuint (rlx_tensor_get_n_dims (tensor), ==, 0);
          g_assert_cmpint (rlx_tensor_get_data_type (tensor), ==, cases[i].data_type);
          g_assert_cmpuint (rlx_tensor_get_size (tensor), ==, rlx_data_type_get_size (cases[i].data_type));
          assert_text (tensor, cases[i].text);
        }
      else
        {
          assert_failed (tensor, &error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                         rlx_data_type_to_string (cases[i].data_type));
        }
    }
}

static void
test_int_ranges (void)
{
  static const struct
  {
    RlxDataType data_type;
    gint64 min;
    gint64 max;
  } ranges[] = {
    { RLX_DATA_TYPE_I32, G_MININT32, G_MAXINT32 },
    { RLX_DATA_TYPE_U32, 0, G_MAXUINT32 },
    { RLX_DATA_TYPE_I8, -128, 127 },
    { RLX_DATA_TYPE_U8, 0, 255 },
    { RLX_DATA_TYPE_BOOL, 0, 1 },
    { RLX_DATA_TYPE_I4, -8, 7 },
    { RLX_DATA_TYPE_U4, 0, 15 },
    { RLX_DATA_TYPE_I16, -32768, 32767 },
    { RLX_DATA_TYPE_U16, 0, 65535 },
    { RLX_DATA_TYPE_I2, -2, 1 },
    { RLX_DATA_TYPE_U2, 0, 3 },
    { RLX_DATA_TYPE_F16, -65519, 65519 },
    { RLX_DATA_TYPE_I64, G_MININT64, G_MAXINT64 },
    { RLX_DATA_TYPE_U64, 0, G_MAXINT64 },
    { RLX_DATA_TYPE_F32, G_MININT64, G_MAXINT64 },
  };
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (ranges); i++)
    {
      const gint64 ends[] = { ranges[i].min, ranges[i].max };
      g_autoptr (RlxTensor) tensor = rlx_tensor_new_from_ints (ranges[i].data_type, SHAPE (2), ends, 2, &error);
      g_autofree gint64 *back = NULL;
      gsize n;

      g_assert_no_error (error);
      back = rlx_tensor_to_ints (tensor, &n, NULL);
      g_assert_cmpuint (n, ==, 2);
      if (ranges[i].data_type == RLX_DATA_TYPE_F16)
        {
          g_assert_cmpint (back[0], ==, -65504);
          g_assert_cmpint (back[1], ==, 65504);
        }
      else
        {
          g_assert_cmpint (back[0], ==, ends[0]);
          g_assert_cmpint (back[1], ==, ends[1]);
        }

      if (ranges[i].min > G_MININT64)
        {
          const gint64 below[] = { 0, 0, ranges[i].min - 1 };
          g_autofree char *parts = g_strdup_printf ("value %" G_GINT64_FORMAT " at index 2|%s|%" G_GINT64_FORMAT " to",
                                                    below[2], rlx_data_type_to_string (ranges[i].data_type), ranges[i].min);

          assert_failed (rlx_tensor_new_from_ints (ranges[i].data_type, SHAPE (3), below, 3, &error),
                         &error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, parts);
        }
      if (ranges[i].max < G_MAXINT64)
        {
          const gint64 above[] = { 1, ranges[i].max + 1 };
          g_autofree char *parts = g_strdup_printf ("value %" G_GINT64_FORMAT " at index 1|to %" G_GINT64_FORMAT,
                                                    above[1], ranges[i].max);

          assert_failed (rlx_tensor_new_from_ints (ranges[i].data_type, SHAPE (2), above, 2, &error),
                         &error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, parts);
        }
    }
}

/* Two elements per byte; with an odd number the other half of the last byte is ignored. */
static void
test_half_bytes (void)
{
  g_autoptr (GError) error = NULL;
  const guint8 dirty[] = { 0x78, 0xaf }, clean[] = { 0x78, 0x0f };
  const gint64 values[] = { -8, 7, -1 };
  g_autoptr (GBytes) dirty_bytes = g_bytes_new (dirty, sizeof dirty);
  g_autoptr (GBytes) clean_bytes = g_bytes_new (clean, sizeof clean);
  g_autoptr (RlxTensor) a = rlx_tensor_new_from_bytes (RLX_DATA_TYPE_I4, SHAPE (3), clean_bytes, &error);
  g_autoptr (RlxTensor) b = rlx_tensor_new_from_bytes (RLX_DATA_TYPE_I4, SHAPE (3), dirty_bytes, &error);
  g_autoptr (RlxTensor) c = rlx_tensor_new_from_data (RLX_DATA_TYPE_I4, SHAPE (3), dirty, sizeof dirty, &error);
  g_autoptr (RlxTensor) d = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I4, SHAPE (3), values, 3, &error);
  g_autoptr (RlxTensor) even = rlx_tensor_new_from_bytes (RLX_DATA_TYPE_U4, SHAPE (2, 2), dirty_bytes, &error);
  g_autoptr (RlxTensor) one = rlx_tensor_new_scalar (RLX_DATA_TYPE_I4, -3, &error);
  g_autoptr (RlxTensor) flat = NULL;

  g_assert_no_error (error);
  g_assert_true (rlx_tensor_get_bytes (a) == clean_bytes);
  g_assert_cmpuint (rlx_tensor_get_size (a), ==, 2);
  assert_text (a, "[-8, 7, -1]");
  g_assert_true (rlx_tensor_equal (a, b));
  g_assert_true (rlx_tensor_equal (a, c));
  g_assert_true (rlx_tensor_equal (a, d));
  g_assert_true (rlx_tensor_get_bytes (even) == dirty_bytes);
  assert_text (even, "[8, 7, 15, 10]");
  g_assert_cmpuint (rlx_tensor_get_size (one), ==, 1);
  assert_text (one, "-3");
  g_assert_cmpmem (rlx_tensor_peek_data (one), 1, "\x0d", 1);

  flat = rlx_tensor_reshape (even, SHAPE (-1), &error);
  g_assert_no_error (error);
  assert_text (flat, "[8, 7, 15, 10]");

  assert_failed (rlx_tensor_new_from_bytes (RLX_DATA_TYPE_I4, SHAPE (5), clean_bytes, &error), &error,
                 RLX_GRAPH_ERROR_SHAPE, "takes 3 bytes|2 were given");
  assert_failed (rlx_tensor_new_scalar (RLX_DATA_TYPE_I4, 8, &error), &error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "8|i4");
}

/* ---- values ------------------------------------------------------------- */

static void
test_values (void)
{
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (all_types); i++)
    {
      gboolean is_bool = all_types[i] == RLX_DATA_TYPE_BOOL;
      gboolean is_stored = all_types[i] > RLX_DATA_TYPE_U4;
      const gint64 values[] = { is_stored, 1, is_bool || is_stored ? 1 : all_types[i] >= RLX_DATA_TYPE_I4 ? 5 : 100, is_stored, is_bool ? 0 : is_stored ? 1 : 7, 1 };
      g_autoptr (RlxTensor) tensor = rlx_tensor_new_from_ints (all_types[i], SHAPE (3, 2), values, 6, &error);
      g_autofree float *floats = NULL;
      g_autofree gint64 *ints = NULL;
      gsize n_floats, n_ints;

      g_assert_no_error (error);
      floats = rlx_tensor_to_floats (tensor, &n_floats, NULL);
      ints = rlx_tensor_to_ints (tensor, &n_ints, NULL);
      g_assert_cmpuint (n_floats, ==, 6);
      g_assert_cmpuint (n_ints, ==, 6);
      for (guint j = 0; j < 6; j++)
        {
          g_assert_true (floats[j] == (float) values[j]);
          g_assert_cmpint (ints[j], ==, values[j]);
          g_assert_true (rlx_tensor_get_value (tensor, j) == (double) values[j]);
        }
    }
}

/* Each bit pattern decodes to a number that encodes to the same pattern, except for NaN. */
static void
test_narrow_bits (void)
{
  for (int type = RLX_DATA_TYPE_BF16; type <= RLX_DATA_TYPE_F4E2M1; type++)
    for (guint32 bits = 0; bits < 1u << rlx_data_type_get_bits ((RlxDataType) type); bits++)
      {
        double value = rlx_narrow_to_double ((RlxDataType) type, bits);

        if (isnan (value))
          g_assert_true (isnan (rlx_narrow_to_double ((RlxDataType) type, rlx_narrow_from_double ((RlxDataType) type, value))));
        else
          g_assert_cmphex (rlx_narrow_from_double ((RlxDataType) type, value), ==, bits);
        if (isfinite (value))
          g_assert_true (rlx_narrow_fits ((RlxDataType) type, value));
      }
}

static void
test_narrow_numbers (void)
{
  static const struct
  {
    RlxDataType type;
    double value;
    guint32 bits;
    gboolean fits;
  } numbers[] = {
    { RLX_DATA_TYPE_BF16, 1, 0x3f80, TRUE },
    { RLX_DATA_TYPE_BF16, 1.00390625, 0x3f80, TRUE },           /* a tie, to even */
    { RLX_DATA_TYPE_BF16, 1.01171875, 0x3f82, TRUE },
    { RLX_DATA_TYPE_BF16, -1e39, 0xff80, FALSE },
    { RLX_DATA_TYPE_BF16, INFINITY, 0x7f80, TRUE },
    { RLX_DATA_TYPE_F8E4M3FN, 448, 0x7e, TRUE },
    { RLX_DATA_TYPE_F8E4M3FN, 464, 0x7e, TRUE },
    { RLX_DATA_TYPE_F8E4M3FN, -465, 0xfe, FALSE },
    { RLX_DATA_TYPE_F8E4M3FN, INFINITY, 0x7e, FALSE },
    { RLX_DATA_TYPE_F8E4M3FN, 0x1p-9, 0x01, TRUE },
    { RLX_DATA_TYPE_F8E4M3FN, 0x1p-10, 0x00, TRUE },
    { RLX_DATA_TYPE_F8E4M3FN, -0.0, 0x80, TRUE },
    { RLX_DATA_TYPE_F8E4M3FNUZ, -0.0, 0x00, TRUE },
    { RLX_DATA_TYPE_F8E4M3FNUZ, 240, 0x7f, TRUE },
    { RLX_DATA_TYPE_F8E4M3FNUZ, 248, 0x7f, FALSE },
    { RLX_DATA_TYPE_F8E5M2, 57344, 0x7b, TRUE },
    { RLX_DATA_TYPE_F8E5M2, 61440, 0x7b, FALSE },
    { RLX_DATA_TYPE_F8E5M2, -INFINITY, 0xfc, TRUE },
    { RLX_DATA_TYPE_F8E5M2FNUZ, 57344, 0x7f, TRUE },
    { RLX_DATA_TYPE_F8E5M2FNUZ, NAN, 0x80, TRUE },
    { RLX_DATA_TYPE_F8E8M0, 1, 0x7f, TRUE },
    { RLX_DATA_TYPE_F8E8M0, -3, 0x81, FALSE },                  /* 4: upwards, without a sign */
    { RLX_DATA_TYPE_F8E8M0, 0, 0x00, FALSE },
    { RLX_DATA_TYPE_F4E2M1, 2.5, 0x4, TRUE },                   /* 2, the even one */
    { RLX_DATA_TYPE_F4E2M1, -0.5, 0x9, TRUE },
    { RLX_DATA_TYPE_F4E2M1, 100, 0x7, FALSE },
    { RLX_DATA_TYPE_F4E2M1, NAN, 0x0, FALSE },
  };

  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    {
      g_assert_cmphex (rlx_narrow_from_double (numbers[i].type, numbers[i].value), ==, numbers[i].bits);
      g_assert_cmpint (rlx_narrow_fits (numbers[i].type, numbers[i].value), ==, numbers[i].fits);
    }
}

static void
test_conversions (void)
{
  g_autoptr (GError) error = NULL;
  const guint64 large[] = { G_MAXUINT64, (guint64) 1 << 63, G_MAXINT64 };
  g_autoptr (RlxTensor) floats =
    rlx_tensor_new_from_floats (SHAPE (9), VALUES (float, 1.9f, -1.9f, NAN, INFINITY, -INFINITY, 1e30f, -1e30f, 0x1p63f, -0x1p63f), &error);
  g_autoptr (RlxTensor) unsigned_ints =
    rlx_tensor_new_from_data (RLX_DATA_TYPE_U64, SHAPE (3), (const guint8 *) large, sizeof large, &error);
  /* Half-way between two floats if the last bit is lost, as it is in a double. Volatile, so
   * that the machine decides what is right: valgrind converts through a double itself. */
  volatile gint64 halfway = (G_GINT64_CONSTANT (1) << 62) + (G_GINT64_CONSTANT (1) << 38) + 1;
  g_autoptr (RlxTensor) sticky =
    rlx_tensor_new_from_ints (RLX_DATA_TYPE_I64, SHAPE (1), VALUES (gint64, halfway), &error);
  const gint64 expected[] = { 1, -1, 0, G_MAXINT64, G_MININT64, G_MAXINT64, G_MININT64, G_MAXINT64, G_MININT64 };
  g_autofree gint64 *a = NULL;
  g_autofree gint64 *b = NULL;
  g_autofree float *c = NULL;
  g_autofree float *d = NULL;
  gsize n;

  g_assert_no_error (error);

  a = rlx_tensor_to_ints (floats, &n, NULL);
  g_assert_cmpmem (a, n * sizeof *a, expected, sizeof expected);

  b = rlx_tensor_to_ints (unsigned_ints, &n, NULL);
  for (guint i = 0; i < 3; i++)
    g_assert_cmpint (b[i], ==, G_MAXINT64);
  c = rlx_tensor_to_floats (unsigned_ints, &n, NULL);
  g_assert_true (c[0] == 0x1p64f);
  g_assert_true (rlx_tensor_get_value (unsigned_ints, 0) == 0x1p64);
  assert_text (unsigned_ints, "[18446744073709551615, 9223372036854775808, 9223372036854775807]");

  d = rlx_tensor_to_floats (sticky, &n, NULL);
  g_assert_true (d[0] == (float) halfway);
}

static void
test_value_out_of_range (void)
{
  g_autoptr (RlxTensor) tensor = rlx_tensor_new_from_floats (SHAPE (2), VALUES (float, 1, 2), NULL);
  static const gint64 indices[] = { -1, 2, G_MAXINT64, G_MININT64, (gint64) 1 << 32 };

  for (guint i = 0; i < G_N_ELEMENTS (indices); i++)
    {
      g_test_expect_message ("Rlx", G_LOG_LEVEL_CRITICAL, "*index*");
      g_assert_true (isnan (rlx_tensor_get_value (tensor, indices[i])));
      g_test_assert_expected_messages ();
    }
}

/* ---- text --------------------------------------------------------------- */

static void
test_text (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxTensor) a = rlx_tensor_new_from_floats (SHAPE (2, 2), VALUES (float, 4, 5, 0, 0), &error);
  g_autoptr (RlxTensor) b = rlx_tensor_new_from_floats (SHAPE (10), VALUES (float, 0.1f, -0.0f, 1e-45f, 3.4028235e38f, 16777216.0f, 16777215.0f, 1.0f / 3, NAN, -INFINITY, 1e6f), &error);
  g_autoptr (RlxTensor) c = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I8, SHAPE (2), VALUES (gint64, -128, 127), &error);

  g_assert_no_error (error);
  assert_text (a, "[4, 5, 0, 0]");
  assert_text (b, "[0.1, -0, 1.4013e-45, 3.4028235e+38, 16777216, 16777215, 0.33333334, nan, -inf, 1000000]");
  assert_text (c, "[-128, 127]");
}

/* The text of a float parses as the same float. */
static void
test_text_round_trip (void)
{
  for (guint i = 0; i < 20000; i++)
    {
      guint32 bits = (guint32) g_test_rand_int ();
      float value, back;
      g_autoptr (RlxTensor) tensor = NULL;
      g_autofree char *text = NULL;

      memcpy (&value, &bits, sizeof value);
      tensor = rlx_tensor_new_from_floats (NULL, 0, &value, 1, NULL);
      text = rlx_tensor_to_string (tensor);
      back = (float) g_ascii_strtod (text, NULL);
      g_assert_true (isnan (value) ? isnan (back) : memcmp (&back, &value, sizeof back) == 0);
    }
}

static void
test_text_long (void)
{
  g_autofree float *values = g_new0 (float, 1001);
  const gint64 shape[] = { 1001 };
  const gint64 shorter[] = { 1000 };
  g_autoptr (RlxTensor) a = rlx_tensor_new_from_floats (shape, 1, values, 1001, NULL);
  g_autoptr (RlxTensor) b = rlx_tensor_new_from_floats (shorter, 1, values, 1000, NULL);
  g_autofree char *text_a = rlx_tensor_to_string (a);
  g_autofree char *text_b = rlx_tensor_to_string (b);

  g_assert_true (g_str_has_suffix (text_a, "0, 0, …]"));
  g_assert_true (g_str_has_suffix (text_b, "0, 0]"));
  g_assert_null (strstr (text_b, "…"));
}

static void
test_text_locale (void)
{
  static const char * const locales[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "ru_RU.UTF-8" };
  g_autofree char *before = g_strdup (setlocale (LC_NUMERIC, NULL));
  g_autoptr (RlxTensor) tensor = rlx_tensor_new_from_floats (SHAPE (2), VALUES (float, 0.5f, 1234.5f), NULL);
  g_autoptr (GError) error = NULL;
  guint i;

  for (i = 0; i < G_N_ELEMENTS (locales); i++)
    if (setlocale (LC_NUMERIC, locales[i]) != NULL)
      break;

  if (i == G_N_ELEMENTS (locales))
    {
      g_test_skip ("No locale with a decimal comma is installed");
      return;
    }

  assert_text (tensor, "[0.5, 1234.5]");
  assert_failed (rlx_tensor_new_scalar (RLX_DATA_TYPE_I32, 0.5, &error),
                 &error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "0.5");
  setlocale (LC_NUMERIC, before);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/tensor/half-bytes", test_half_bytes);
  g_test_add_func ("/tensor/new/scalar", test_new_scalar);
  g_test_add_func ("/tensor/new/int-ranges", test_int_ranges);
  g_test_add_func ("/tensor/values/all-types", test_values);
  g_test_add_func ("/tensor/values/narrow-bits", test_narrow_bits);
  g_test_add_func ("/tensor/values/narrow-numbers", test_narrow_numbers);
  g_test_add_func ("/tensor/values/conversions", test_conversions);
  g_test_add_func ("/tensor/values/out-of-range", test_value_out_of_range);
  g_test_add_func ("/tensor/text/examples", test_text);
  g_test_add_func ("/tensor/text/round-trip", test_text_round_trip);
  g_test_add_func ("/tensor/text/long", test_text_long);
  g_test_add_func ("/tensor/text/locale", test_text_locale);

  return g_test_run ();
}
