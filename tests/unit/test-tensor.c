/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-enum-types.h"
#include "rlx-tensor-private.h"

#include <locale.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define SHAPE(...) \
  ((const gint64[]) { __VA_ARGS__ }), G_N_ELEMENTS (((const gint64[]) { __VA_ARGS__ }))
#define VALUES(type, ...) \
  ((const type[]) { __VA_ARGS__ }), G_N_ELEMENTS (((const type[]) { __VA_ARGS__ }))

static const RlxDataType all_types[] = {
  RLX_DATA_TYPE_F32,
  RLX_DATA_TYPE_F16,
  RLX_DATA_TYPE_I32,
  RLX_DATA_TYPE_U32,
  RLX_DATA_TYPE_I8,
  RLX_DATA_TYPE_U8,
  RLX_DATA_TYPE_BOOL,
  RLX_DATA_TYPE_I64,
  RLX_DATA_TYPE_U64,
  RLX_DATA_TYPE_I4,
  RLX_DATA_TYPE_U4,
};

static const RlxDataType no_types[] = { (RlxDataType) -1, (RlxDataType) 11, (RlxDataType) 999, (RlxDataType) G_MININT };

/* The error is of the code, and its message has all of the parts, which are
 * separated by "|". */
static void
assert_failed (RlxTensor  *tensor,
               GError    **error,
               int         code,
               const char *parts)
{
  g_auto (GStrv) split = g_strsplit (parts, "|", -1);

  g_assert_null (tensor);
  g_assert_error (*error, RLX_GRAPH_ERROR, code);
  g_assert_true (g_utf8_validate ((*error)->message, -1, NULL));
  for (guint i = 0; split[i] != NULL; i++)
    if (strstr ((*error)->message, split[i]) == NULL)
      g_error ("“%s” does not mention “%s”", (*error)->message, split[i]);
  g_clear_error (error);
}

static void
assert_text (RlxTensor  *tensor,
             const char *expected)
{
  g_autofree char *text = rlx_tensor_to_string (tensor);

  g_assert_cmpstr (text, ==, expected);
}

/* ---- types -------------------------------------------------------------- */

static void
test_data_type (void)
{
  static const gsize sizes[] = { 4, 2, 4, 4, 1, 1, 1, 8, 8, 0, 0 };
  static const guint bits[] = { 32, 16, 32, 32, 8, 8, 8, 64, 64, 4, 4 };
  static const char * const bad[] = { "", "F32", "f32 ", " f32", "f64", "invalid", "float", "\xff\xfe", "f32\n" };
  g_autoptr (GError) error = NULL;
  g_autoptr (GEnumClass) klass = g_type_class_ref (RLX_TYPE_DATA_TYPE);

  g_assert_cmpuint (klass->n_values, ==, G_N_ELEMENTS (all_types));

  for (guint i = 0; i < G_N_ELEMENTS (all_types); i++)
    {
      RlxDataType data_type = (RlxDataType) -1;

      g_assert_cmpuint (rlx_data_type_get_size (all_types[i]), ==, sizes[i]);
      g_assert_cmpuint (rlx_data_type_get_bits (all_types[i]), ==, bits[i]);
      g_assert_true (rlx_data_type_from_string (rlx_data_type_to_string (all_types[i]), &data_type, &error));
      g_assert_no_error (error);
      g_assert_cmpint (data_type, ==, all_types[i]);
      g_assert_true (rlx_data_type_check (all_types[i], &error));

      /* The names are those of the enumeration. */
      g_assert_cmpstr (g_enum_get_value (klass, all_types[i])->value_nick, ==,
                       rlx_data_type_to_string (all_types[i]));
    }

  for (guint i = 0; i < G_N_ELEMENTS (no_types); i++)
    {
      g_assert_cmpuint (rlx_data_type_get_size (no_types[i]), ==, 0);
      g_assert_cmpuint (rlx_data_type_get_bits (no_types[i]), ==, 0);
      g_assert_cmpstr (rlx_data_type_to_string (no_types[i]), ==, "invalid");
      g_assert_false (rlx_data_type_check (no_types[i], &error));
      g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_DATA_TYPE);
      g_clear_error (&error);
    }

  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      RlxDataType data_type = RLX_DATA_TYPE_U8;

      g_assert_false (rlx_data_type_from_string (bad[i], &data_type, &error));
      g_assert_cmpint (data_type, ==, RLX_DATA_TYPE_U8);
      assert_failed (NULL, &error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“|f16");
      g_assert_false (rlx_data_type_from_string (bad[i], &data_type, NULL));
    }
}

static void
test_error_domains (void)
{
  g_assert_cmpstr (g_quark_to_string (RLX_DEVICE_ERROR), ==, "rlx-device-error-quark");
  g_assert_cmpstr (g_quark_to_string (RLX_GRAPH_ERROR), ==, "rlx-graph-error-quark");
  g_assert_cmpstr (g_quark_to_string (RLX_COMPILE_ERROR), ==, "rlx-compile-error-quark");
  g_assert_cmpstr (g_quark_to_string (RLX_WEIGHTS_ERROR), ==, "rlx-weights-error-quark");
}

/* ---- shapes ------------------------------------------------------------- */

static void
test_shape (void)
{
  static const struct
  {
    gint64 dims[9];
    gsize rank;
    guint64 n;       /* G_MAXUINT64: an error is expected */
    int code;
    const char *parts;
  } cases[] = {
    { { 0 }, 0, 1, 0, NULL },
    { { 0 }, 1, 0, 0, NULL },
    { { 7 }, 1, 7, 0, NULL },
    { { 2, 3, 4 }, 3, 24, 0, NULL },
    { { 1, 1, 1, 1, 1, 1, 1, 1 }, 8, 1, 0, NULL },
    { { G_MAXUINT32 }, 1, G_MAXUINT32, 0, NULL },
    { { 65535, 65537 }, 2, G_MAXUINT32, 0, NULL },
    { { 0, G_MAXUINT32 }, 2, 0, 0, NULL },
    { { G_MAXUINT32, 0 }, 2, 0, 0, NULL },
    { { 0, 0, 0 }, 3, 0, 0, NULL },
    { { -1 }, 1, G_MAXUINT64, RLX_GRAPH_ERROR_SHAPE, "xis 0|-1" },
    { { 2, 3, -7 }, 3, G_MAXUINT64, RLX_GRAPH_ERROR_SHAPE, "xis 2|-7" },
    { { 0, G_MININT64 }, 2, G_MAXUINT64, RLX_GRAPH_ERROR_SHAPE, "xis 1|-9223372036854775808" },
    /* Two negative sizes do not make a positive one. */
    { { -2, -3 }, 2, G_MAXUINT64, RLX_GRAPH_ERROR_SHAPE, "xis 0|-2" },
    { { G_MAXINT64, -1 }, 2, G_MAXUINT64, RLX_GRAPH_ERROR_SHAPE, "xis 1|-1" },
    { { (gint64) 1 << 32 }, 1, G_MAXUINT64, RLX_GRAPH_ERROR_LIMIT, "[4294967296]|4294967295" },
    { { 65536, 65536 }, 2, G_MAXUINT64, RLX_GRAPH_ERROR_LIMIT, "[65536, 65536]" },
    { { G_MAXINT64 }, 1, G_MAXUINT64, RLX_GRAPH_ERROR_LIMIT, "9223372036854775807" },
    /* The products that wrap to 0, to 1 and to something small. */
    { { (gint64) 1 << 32, (gint64) 1 << 32 }, 2, G_MAXUINT64, RLX_GRAPH_ERROR_LIMIT, "4294967296" },
    { { G_MAXUINT32, (gint64) G_MAXUINT32 + 2 }, 2, G_MAXUINT64, RLX_GRAPH_ERROR_LIMIT, "4294967297" },
    { { G_MAXINT64, G_MAXINT64 }, 2, G_MAXUINT64, RLX_GRAPH_ERROR_LIMIT, "limit" },
    { { (gint64) 1 << 62, 4, 1 }, 3, G_MAXUINT64, RLX_GRAPH_ERROR_LIMIT, "limit" },
    { { 0, G_MAXINT64 }, 2, G_MAXUINT64, RLX_GRAPH_ERROR_LIMIT, "[0, 9223372036854775807]" },
    { { G_MAXINT64, 0, G_MAXINT64 }, 3, G_MAXUINT64, RLX_GRAPH_ERROR_LIMIT, "limit" },
    { { 0, 65536, 65536 }, 3, G_MAXUINT64, RLX_GRAPH_ERROR_LIMIT, "limit" },
    { { 1, 1, 1, 1, 1, 1, 1, 1, 1 }, 9, G_MAXUINT64, RLX_GRAPH_ERROR_LIMIT, "9 dim|8" },
  };
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      guint64 n = 42;
      gboolean ok = rlx_shape_n_elements (cases[i].dims, cases[i].rank, &n, &error);

      if (cases[i].n != G_MAXUINT64)
        {
          g_assert_no_error (error);
          g_assert_true (ok);
          g_assert_cmpuint (n, ==, cases[i].n);
        }
      else
        {
          g_assert_false (ok);
          g_assert_cmpuint (n, ==, 42);
          assert_failed (NULL, &error, cases[i].code, cases[i].parts);
          g_assert_false (rlx_shape_n_elements (cases[i].dims, cases[i].rank, &n, NULL));
        }
    }

  /* No dimension is looked at when there are too many. */
  {
    guint64 n;

    g_assert_false (rlx_shape_n_elements (NULL, G_MAXSIZE, &n, &error));
    assert_failed (NULL, &error, RLX_GRAPH_ERROR_LIMIT, "18446744073709551615");
    g_assert_false (rlx_shape_n_elements (NULL, ((gsize) 1 << 32) + 1, &n, &error));
    assert_failed (NULL, &error, RLX_GRAPH_ERROR_LIMIT, "4294967297");
  }
}

static void
test_shape_bytes (void)
{
  g_autoptr (GError) error = NULL;
  const gint64 dims[] = { G_MAXUINT32 };
  guint64 n;
  gsize size;

  g_assert_true (rlx_shape_n_bytes (RLX_DATA_TYPE_U64, dims, 1, &n, &size, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (n, ==, G_MAXUINT32);
  g_assert_cmpuint (size, ==, (gsize) G_MAXUINT32 * 8);

  g_assert_false (rlx_shape_n_bytes ((RlxDataType) 77, dims, 1, &n, &size, &error));
  assert_failed (NULL, &error, RLX_GRAPH_ERROR_DATA_TYPE, "77");
}

static void
test_shape_text (void)
{
  const gint64 dims[] = { 2, G_MININT64, 0 };
  g_autofree char *none = rlx_shape_to_string (NULL, 0);
  g_autofree char *some = rlx_shape_to_string (dims, 3);

  g_assert_cmpstr (none, ==, "[]");
  g_assert_cmpstr (some, ==, "[2, -9223372036854775808, 0]");
}

/* ---- constructors ------------------------------------------------------- */

static void
test_bytes_kept (void)
{
  g_autoptr (GError) error = NULL;
  float values[] = { 1, 2, 3, 4, 5, 6 };
  g_autoptr (GBytes) bytes = g_bytes_new (values, sizeof values);
  g_autoptr (RlxTensor) tensor = NULL;
  const gint64 *shape;
  gsize n_dims, size;

  tensor = rlx_tensor_new_from_bytes (RLX_DATA_TYPE_F32, SHAPE (2, 3), bytes, &error);
  g_assert_no_error (error);
  g_assert_true (RLX_IS_TENSOR (tensor));
  g_assert_true (rlx_tensor_get_bytes (tensor) == bytes);
  g_assert_cmpint (rlx_tensor_get_data_type (tensor), ==, RLX_DATA_TYPE_F32);
  g_assert_cmpuint (rlx_tensor_get_n_dims (tensor), ==, 2);
  g_assert_cmpint (rlx_tensor_get_n_elements (tensor), ==, 6);
  g_assert_cmpuint (rlx_tensor_get_size (tensor), ==, sizeof values);

  shape = rlx_tensor_get_shape (tensor, &n_dims);
  g_assert_cmpuint (n_dims, ==, 2);
  g_assert_cmpint (shape[0], ==, 2);
  g_assert_cmpint (shape[1], ==, 3);
  g_assert_true (rlx_tensor_get_shape (tensor, NULL) == shape);

  g_assert_true (rlx_tensor_get_address (tensor, &size) == (guintptr) g_bytes_get_data (bytes, NULL));
  g_assert_cmpuint (size, ==, sizeof values);
  g_assert_true (rlx_tensor_get_address (tensor, NULL) == (guintptr) rlx_tensor_peek_data (tensor));
}

static void
test_bytes_unaligned (void)
{
  g_autoptr (GError) error = NULL;
  /* 16 bytes of alignment, and one more. */
  g_autoptr (GBytes) whole = g_bytes_new_take (g_malloc0 (64), 64);

  for (guint i = 0; i < G_N_ELEMENTS (all_types); i++)
    for (gsize offset = 0; offset < 16; offset++)
      {
        gsize element = MAX (1, rlx_data_type_get_size (all_types[i]));
        gsize two = rlx_data_type_get_bits (all_types[i]) / 4;
        g_autoptr (GBytes) part = g_bytes_new_from_bytes (whole, offset, two);
        g_autoptr (RlxTensor) tensor = rlx_tensor_new_from_bytes (all_types[i], SHAPE (2), part, &error);
        gsize size;

        g_assert_no_error (error);
        g_assert_true ((rlx_tensor_get_bytes (tensor) == part) == (offset % element == 0));
        g_assert_cmpuint (rlx_tensor_get_address (tensor, &size) % element, ==, 0);
        g_assert_cmpuint (size, ==, two);
        g_assert_true (rlx_tensor_get_value (tensor, 1) == 0.0);
      }
}

static void
test_bool (void)
{
  g_autoptr (GError) error = NULL;
  const guint8 clean[] = { 0, 1, 1, 0 };
  const guint8 other[] = { 0, 1, 2, 255 };
  g_autoptr (GBytes) clean_bytes = g_bytes_new (clean, sizeof clean);
  g_autoptr (GBytes) other_bytes = g_bytes_new (other, sizeof other);
  g_autoptr (RlxTensor) a = rlx_tensor_new_from_bytes (RLX_DATA_TYPE_BOOL, SHAPE (4), clean_bytes, &error);
  g_autoptr (RlxTensor) b = rlx_tensor_new_from_bytes (RLX_DATA_TYPE_BOOL, SHAPE (4), other_bytes, &error);
  g_autoptr (RlxTensor) c = rlx_tensor_new_from_data (RLX_DATA_TYPE_BOOL, SHAPE (4), other, sizeof other, &error);

  g_assert_no_error (error);
  g_assert_true (rlx_tensor_get_bytes (a) == clean_bytes);
  assert_text (a, "[false, true, true, false]");

  g_assert_true (rlx_tensor_get_bytes (b) != other_bytes);
  g_assert_cmpmem (rlx_tensor_peek_data (b), 4, "\0\1\1\1", 4);
  assert_text (b, "[false, true, true, true]");
  g_assert_true (rlx_tensor_equal (b, c));

  /* What was given stays as it was. */
  g_assert_cmpmem (g_bytes_get_data (other_bytes, NULL), 4, other, 4);
}

static void
test_sizes (void)
{
  static const gsize sizes[] = { 0, 1, 3, 23, 25, 48 };
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      g_autofree guint8 *data = g_malloc0 (48);
      g_autoptr (GBytes) bytes = g_bytes_new (data, sizes[i]);
      g_autofree char *parts = g_strdup_printf ("[2, 3]|f32|24 bytes|%" G_GSIZE_FORMAT " were", sizes[i]);

      assert_failed (rlx_tensor_new_from_bytes (RLX_DATA_TYPE_F32, SHAPE (2, 3), bytes, &error),
                     &error, RLX_GRAPH_ERROR_SHAPE, parts);
      assert_failed (rlx_tensor_new_from_data (RLX_DATA_TYPE_F32, SHAPE (2, 3), data, sizes[i], &error),
                     &error, RLX_GRAPH_ERROR_SHAPE, parts);
      assert_failed (rlx_tensor_new_from_address (RLX_DATA_TYPE_F32, SHAPE (2, 3), (guintptr) data, sizes[i], &error),
                     &error, RLX_GRAPH_ERROR_SHAPE, parts);
      g_assert_null (rlx_tensor_new_from_bytes (RLX_DATA_TYPE_F32, SHAPE (2, 3), bytes, NULL));
    }

  assert_failed (rlx_tensor_new_from_floats (SHAPE (2, 2), VALUES (float, 1, 2, 3), &error),
                 &error, RLX_GRAPH_ERROR_SHAPE, "[2, 2]|4 elements|3 values");
  assert_failed (rlx_tensor_new_from_floats (SHAPE (0), VALUES (float, 1), &error),
                 &error, RLX_GRAPH_ERROR_SHAPE, "[0]|0 elements|1 values");
  assert_failed (rlx_tensor_new_from_floats (NULL, 0, VALUES (float, 1, 2), &error),
                 &error, RLX_GRAPH_ERROR_SHAPE, "[]|1 elements|2 values");
  assert_failed (rlx_tensor_new_from_floats (NULL, 0, NULL, 0, &error),
                 &error, RLX_GRAPH_ERROR_SHAPE, "[]|1 elements|0 values");
  assert_failed (rlx_tensor_new_from_ints (RLX_DATA_TYPE_I32, SHAPE (3), VALUES (gint64, 1, 2, 3, 4), &error),
                 &error, RLX_GRAPH_ERROR_SHAPE, "[3]|3 elements|4 values");
}

/* Each constructor passes on what is wrong with a shape or a type. */
static void
test_bad_arguments (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = g_bytes_new_static ("12345678", 8);
  const guint8 data[8] = { 0 };
  const gint64 nine[] = { 1, 1, 1, 1, 1, 1, 1, 1, 1 };

  assert_failed (rlx_tensor_new_from_bytes (RLX_DATA_TYPE_F32, SHAPE (2, -1), bytes, &error),
                 &error, RLX_GRAPH_ERROR_SHAPE, "xis 1|-1");
  assert_failed (rlx_tensor_new_from_data (RLX_DATA_TYPE_F32, SHAPE (-2), data, 8, &error),
                 &error, RLX_GRAPH_ERROR_SHAPE, "xis 0|-2");
  assert_failed (rlx_tensor_new_from_floats (SHAPE (-1, -1), VALUES (float, 1), &error),
                 &error, RLX_GRAPH_ERROR_SHAPE, "xis 0");
  assert_failed (rlx_tensor_new_from_ints (RLX_DATA_TYPE_I8, SHAPE (-1), VALUES (gint64, 1), &error),
                 &error, RLX_GRAPH_ERROR_SHAPE, "xis 0");

  assert_failed (rlx_tensor_new_from_bytes (RLX_DATA_TYPE_I8, nine, 9, bytes, &error),
                 &error, RLX_GRAPH_ERROR_LIMIT, "9 dim");
  assert_failed (rlx_tensor_new_from_floats (nine, G_MAXSIZE, VALUES (float, 1), &error),
                 &error, RLX_GRAPH_ERROR_LIMIT, "dim");
  /* 2^62 elements of four bytes are 0 bytes in 64 bits. */
  assert_failed (rlx_tensor_new_from_bytes (RLX_DATA_TYPE_F32, SHAPE ((gint64) 1 << 31, (gint64) 1 << 31), bytes, &error),
                 &error, RLX_GRAPH_ERROR_LIMIT, "2147483648");
  assert_failed (rlx_tensor_new_from_data (RLX_DATA_TYPE_F32, SHAPE ((gint64) 1 << 62), NULL, 0, &error),
                 &error, RLX_GRAPH_ERROR_LIMIT, "limit");
  assert_failed (rlx_tensor_new_from_data (RLX_DATA_TYPE_F32, SHAPE (0, (gint64) 1 << 62), NULL, 0, &error),
                 &error, RLX_GRAPH_ERROR_LIMIT, "limit");

  assert_failed (rlx_tensor_new_from_address (RLX_DATA_TYPE_F32, SHAPE (2), 0, 8, &error),
                 &error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "address|8");

  for (guint i = 0; i < G_N_ELEMENTS (no_types); i++)
    {
      assert_failed (rlx_tensor_new_from_bytes (no_types[i], SHAPE (2), bytes, &error),
                     &error, RLX_GRAPH_ERROR_DATA_TYPE, "not a data type");
      assert_failed (rlx_tensor_new_from_data (no_types[i], SHAPE (0), NULL, 0, &error),
                     &error, RLX_GRAPH_ERROR_DATA_TYPE, "not a data type");
      assert_failed (rlx_tensor_new_from_address (no_types[i], SHAPE (0), 0, 0, &error),
                     &error, RLX_GRAPH_ERROR_DATA_TYPE, "not a data type");
      assert_failed (rlx_tensor_new_from_ints (no_types[i], SHAPE (1), VALUES (gint64, 1), &error),
                     &error, RLX_GRAPH_ERROR_DATA_TYPE, "not a data type");
      assert_failed (rlx_tensor_new_scalar (no_types[i], 1.0, &error),
                     &error, RLX_GRAPH_ERROR_DATA_TYPE, "not a data type");
    }
}

static void
test_copies (void)
{
  g_autoptr (GError) error = NULL;
  float values[] = { 1, 2 };
  g_autoptr (RlxTensor) a = rlx_tensor_new_from_floats (SHAPE (2), values, 2, &error);
  g_autoptr (RlxTensor) b = rlx_tensor_new_from_address (RLX_DATA_TYPE_F32, SHAPE (2), (guintptr) values, 8, &error);
  g_autoptr (RlxTensor) c = rlx_tensor_new_from_data (RLX_DATA_TYPE_F32, SHAPE (2), (const guint8 *) values, 8, &error);

  g_assert_no_error (error);
  values[0] = 9;
  assert_text (a, "[1, 2]");
  assert_text (b, "[1, 2]");
  assert_text (c, "[1, 2]");
  g_assert_true (rlx_tensor_equal (a, b));
  g_assert_true (rlx_tensor_equal (a, c));
}

static void
test_empty (void)
{
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (all_types); i++)
    {
      g_autoptr (GBytes) bytes = g_bytes_new (NULL, 0);
      g_autoptr (RlxTensor) a = rlx_tensor_new_from_bytes (all_types[i], SHAPE (3, 0), bytes, &error);
      g_autoptr (RlxTensor) b = rlx_tensor_new_from_data (all_types[i], SHAPE (3, 0), NULL, 0, &error);
      g_autoptr (RlxTensor) c = rlx_tensor_new_from_ints (all_types[i], SHAPE (3, 0), NULL, 0, &error);
      g_autoptr (RlxTensor) d = rlx_tensor_new_from_address (all_types[i], SHAPE (3, 0), 0, 0, &error);
      g_autofree float *floats = NULL;
      g_autofree gint64 *ints = NULL;
      gsize n = 1;

      g_assert_no_error (error);
      g_assert_true (rlx_tensor_equal (a, b));
      g_assert_true (rlx_tensor_equal (a, c));
      g_assert_true (rlx_tensor_equal (a, d));
      g_assert_cmpint (rlx_tensor_get_n_elements (a), ==, 0);
      g_assert_cmpuint (rlx_tensor_get_size (a), ==, 0);
      g_assert_true (rlx_tensor_get_address (a, &n) != 0);
      g_assert_cmpuint (n, ==, 0);
      floats = rlx_tensor_get_floats (a, &n);
      g_assert_cmpuint (n, ==, 0);
      ints = rlx_tensor_get_ints (a, &n);
      g_assert_cmpuint (n, ==, 0);
      assert_text (a, "[]");
    }
}

static void
test_scalar (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxTensor) tensor = rlx_tensor_new_from_floats (NULL, 0, VALUES (float, 2.5f), &error);
  const gint64 *shape;
  gsize n_dims = 7;

  g_assert_no_error (error);
  g_assert_cmpuint (rlx_tensor_get_n_dims (tensor), ==, 0);
  g_assert_cmpint (rlx_tensor_get_n_elements (tensor), ==, 1);
  shape = rlx_tensor_get_shape (tensor, &n_dims);
  g_assert_nonnull (shape);
  g_assert_cmpuint (n_dims, ==, 0);
  assert_text (tensor, "2.5");
}

static void
test_new_scalar (void)
{
  static const struct
  {
    RlxDataType data_type;
    double value;
    const char *text;   /* NULL: an error is expected */
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
      back = rlx_tensor_get_ints (tensor, &n);
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

/* Two elements to a byte; of an odd number the last one is alone, and what is
 * beside it does not count. */
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
      const gint64 values[] = { 0, 1, is_bool ? 1 : all_types[i] >= RLX_DATA_TYPE_I4 ? 5 : 100, 0, is_bool ? 0 : 7, 1 };
      g_autoptr (RlxTensor) tensor = rlx_tensor_new_from_ints (all_types[i], SHAPE (3, 2), values, 6, &error);
      g_autofree float *floats = NULL;
      g_autofree gint64 *ints = NULL;
      gsize n_floats, n_ints;

      g_assert_no_error (error);
      floats = rlx_tensor_get_floats (tensor, &n_floats);
      ints = rlx_tensor_get_ints (tensor, &n_ints);
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

static void
test_conversions (void)
{
  g_autoptr (GError) error = NULL;
  const guint64 large[] = { G_MAXUINT64, (guint64) 1 << 63, G_MAXINT64 };
  g_autoptr (RlxTensor) floats =
    rlx_tensor_new_from_floats (SHAPE (9), VALUES (float, 1.9f, -1.9f, NAN, INFINITY, -INFINITY, 1e30f, -1e30f, 0x1p63f, -0x1p63f), &error);
  g_autoptr (RlxTensor) unsigned_ints =
    rlx_tensor_new_from_data (RLX_DATA_TYPE_U64, SHAPE (3), (const guint8 *) large, sizeof large, &error);
  /* Halfway between two floats once the last bit is lost, as it is in a double.
   * Volatile, because the machine is to say what is right: valgrind goes by way
   * of a double itself. */
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

  a = rlx_tensor_get_ints (floats, &n);
  g_assert_cmpmem (a, n * sizeof *a, expected, sizeof expected);

  b = rlx_tensor_get_ints (unsigned_ints, &n);
  for (guint i = 0; i < 3; i++)
    g_assert_cmpint (b[i], ==, G_MAXINT64);
  c = rlx_tensor_get_floats (unsigned_ints, &n);
  g_assert_true (c[0] == 0x1p64f);
  g_assert_true (rlx_tensor_get_value (unsigned_ints, 0) == 0x1p64);
  assert_text (unsigned_ints, "[18446744073709551615, 9223372036854775808, 9223372036854775807]");

  d = rlx_tensor_get_floats (sticky, &n);
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

/* The text of a float is read back as the same float. */
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

/* ---- the rest ----------------------------------------------------------- */

static void
test_reshape (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxTensor) tensor = rlx_tensor_new_from_floats (SHAPE (2, 3), VALUES (float, 1, 2, 3, 4, 5, 6), &error);
  g_autoptr (RlxTensor) empty = rlx_tensor_new_from_floats (SHAPE (0, 3), NULL, 0, &error);
  g_autoptr (RlxTensor) one = rlx_tensor_new_from_floats (SHAPE (1), VALUES (float, 7), &error);
  static const struct
  {
    gint64 shape[8];
    gsize n_dims;
    gint64 first;
  } good[] = {
    { { 3, 2 }, 2, 3 },
    { { 6 }, 1, 6 },
    { { -1 }, 1, 6 },
    { { -1, 2 }, 2, 3 },
    { { 6, -1 }, 2, 6 },
    { { 1, 1, 1, 1, 1, 1, 2, 3 }, 8, 1 },
  };
  static const gint64 nine[] = { 1, 1, 1, 1, 1, 1, 2, 3, 1 };

  for (guint i = 0; i < G_N_ELEMENTS (good); i++)
    {
      g_autoptr (RlxTensor) other = rlx_tensor_reshape (tensor, good[i].shape, good[i].n_dims, &error);

      g_assert_no_error (error);
      g_assert_cmpint (rlx_tensor_get_n_elements (other), ==, 6);
      g_assert_cmpint (rlx_tensor_get_shape (other, NULL)[0], ==, good[i].first);
      g_assert_true (rlx_tensor_get_bytes (other) == rlx_tensor_get_bytes (tensor));
      assert_text (other, "[1, 2, 3, 4, 5, 6]");
    }

  assert_failed (rlx_tensor_reshape (tensor, SHAPE (7), &error), &error, RLX_GRAPH_ERROR_SHAPE, "[7]|7 elements|6");
  assert_failed (rlx_tensor_reshape (tensor, NULL, 0, &error), &error, RLX_GRAPH_ERROR_SHAPE, "[]|1 elements|6");
  assert_failed (rlx_tensor_reshape (tensor, SHAPE (-1, -1), &error), &error, RLX_GRAPH_ERROR_SHAPE, "xis 1|-1");
  assert_failed (rlx_tensor_reshape (tensor, SHAPE (-2, -3), &error), &error, RLX_GRAPH_ERROR_SHAPE, "xis 0|-2");
  assert_failed (rlx_tensor_reshape (tensor, SHAPE (-1, 4), &error), &error, RLX_GRAPH_ERROR_SHAPE, "[-1, 4]|6");
  assert_failed (rlx_tensor_reshape (tensor, SHAPE (-1, 0), &error), &error, RLX_GRAPH_ERROR_SHAPE, "[-1, 0]|6");
  assert_failed (rlx_tensor_reshape (tensor, SHAPE (G_MAXINT64, G_MAXINT64), &error), &error, RLX_GRAPH_ERROR_LIMIT, "limit");
  assert_failed (rlx_tensor_reshape (tensor, nine, 9, &error), &error, RLX_GRAPH_ERROR_LIMIT, "9 dim");
  assert_failed (rlx_tensor_reshape (tensor, nine, G_MAXSIZE, &error), &error, RLX_GRAPH_ERROR_LIMIT, "dim");

  {
    g_autoptr (RlxTensor) a = rlx_tensor_reshape (empty, SHAPE (5, 0, 2), &error);
    g_autoptr (RlxTensor) b = rlx_tensor_reshape (empty, SHAPE (5, -1), &error);
    g_autoptr (RlxTensor) c = rlx_tensor_reshape (one, NULL, 0, &error);

    g_assert_no_error (error);
    g_assert_cmpuint (rlx_tensor_get_n_dims (a), ==, 3);
    g_assert_cmpint (rlx_tensor_get_shape (b, NULL)[1], ==, 0);
    assert_text (c, "7");
    assert_failed (rlx_tensor_reshape (empty, SHAPE (-1, 0), &error), &error, RLX_GRAPH_ERROR_SHAPE, "many");
    assert_failed (rlx_tensor_reshape (empty, SHAPE (2), &error), &error, RLX_GRAPH_ERROR_SHAPE, "2 elements");
  }
}

static void
test_equal (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxTensor) a = rlx_tensor_new_from_floats (SHAPE (2), VALUES (float, NAN, 0.0f), &error);
  g_autoptr (RlxTensor) same = rlx_tensor_new_from_floats (SHAPE (2), VALUES (float, NAN, 0.0f), &error);
  g_autoptr (RlxTensor) minus = rlx_tensor_new_from_floats (SHAPE (2), VALUES (float, NAN, -0.0f), &error);
  g_autoptr (RlxTensor) row = rlx_tensor_reshape (a, SHAPE (1, 2), &error);
  g_autoptr (RlxTensor) column = rlx_tensor_reshape (a, SHAPE (2, 1), &error);
  g_autoptr (RlxTensor) type = rlx_tensor_new_from_bytes (RLX_DATA_TYPE_I32, SHAPE (2), rlx_tensor_get_bytes (a), &error);

  g_assert_no_error (error);
  g_assert_true (rlx_tensor_equal (a, a));
  g_assert_true (rlx_tensor_equal (a, same));
  g_assert_false (rlx_tensor_equal (a, minus));
  g_assert_false (rlx_tensor_equal (a, row));
  g_assert_false (rlx_tensor_equal (row, column));
  g_assert_false (rlx_tensor_equal (a, type));
}

static void
test_properties (void)
{
  g_autoptr (RlxTensor) tensor = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I8, SHAPE (2, 3), VALUES (gint64, 1, 2, 3, 4, 5, 6), NULL);
  g_autoptr (RlxTensor) bare = g_object_new (RLX_TYPE_TENSOR, NULL);
  g_autoptr (GBytes) bytes = NULL;
  g_autofree GParamSpec **specs = NULL;
  RlxDataType data_type;
  guint n_dims, n_specs;
  gint64 n_elements;
  guint64 size;
  gsize n = 7;

  g_object_get (tensor,
                "data-type", &data_type,
                "n-dims", &n_dims,
                "n-elements", &n_elements,
                "size", &size,
                "bytes", &bytes,
                NULL);
  g_assert_cmpint (data_type, ==, RLX_DATA_TYPE_I8);
  g_assert_cmpuint (n_dims, ==, 2);
  g_assert_cmpint (n_elements, ==, 6);
  g_assert_cmpuint (size, ==, 6);
  g_assert_true (bytes == rlx_tensor_get_bytes (tensor));

  /* Nothing about a tensor can be set. */
  specs = g_object_class_list_properties (G_OBJECT_GET_CLASS (tensor), &n_specs);
  g_assert_cmpuint (n_specs, ==, 5);
  for (guint i = 0; i < n_specs; i++)
    g_assert_cmphex (specs[i]->flags & G_PARAM_WRITABLE, ==, 0);

  /* What a script gets that forgets the constructor. */
  g_assert_cmpint (rlx_tensor_get_data_type (bare), ==, RLX_DATA_TYPE_F32);
  g_assert_cmpint (rlx_tensor_get_n_elements (bare), ==, 0);
  g_assert_cmpuint (rlx_tensor_get_size (bare), ==, 0);
  g_assert_cmpint (rlx_tensor_get_shape (bare, &n)[0], ==, 0);
  g_assert_cmpuint (n, ==, 1);
  g_assert_true (rlx_tensor_get_address (bare, &n) != 0);
  assert_text (bare, "[]");
}

static void
test_programmer_errors (void)
{
  g_autoptr (GObject) other = g_object_new (G_TYPE_OBJECT, NULL);
  gsize n = 7;

  g_test_expect_message ("Rlx", G_LOG_LEVEL_CRITICAL, "*bytes != NULL*");
  g_assert_null (rlx_tensor_new_from_bytes (RLX_DATA_TYPE_F32, SHAPE (1), NULL, NULL));
  g_test_expect_message ("Rlx", G_LOG_LEVEL_CRITICAL, "*shape != NULL*");
  g_assert_null (rlx_tensor_new_from_floats (NULL, 2, VALUES (float, 1), NULL));
  g_test_expect_message ("Rlx", G_LOG_LEVEL_CRITICAL, "*values != NULL*");
  g_assert_null (rlx_tensor_new_from_floats (SHAPE (1), NULL, 1, NULL));
  g_test_expect_message ("Rlx", G_LOG_LEVEL_CRITICAL, "*RLX_IS_TENSOR*");
  g_assert_null (rlx_tensor_get_shape ((RlxTensor *) other, &n));
  g_assert_cmpuint (n, ==, 0);
  g_test_expect_message ("Rlx", G_LOG_LEVEL_CRITICAL, "*RLX_IS_TENSOR*");
  g_assert_null (rlx_tensor_to_string (NULL));
  g_test_assert_expected_messages ();
}

/* Runs with little address space: an element too many must be an error, not the
 * end of the process. */
static void
test_memory_child (void)
{
  const gsize size = (gsize) 1 << 30;
  const gint64 shape[] = { (gint64) (size / 4) };
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxTensor) tensor = NULL;
  g_autoptr (GBytes) bytes = NULL;
  struct rlimit limit;
  guint8 *memory;
  gsize n = 7;

  memory = mmap (NULL, size + 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  g_assert_true (memory != MAP_FAILED);
  g_assert_cmpint (getrlimit (RLIMIT_AS, &limit), ==, 0);
  limit.rlim_cur = (rlim_t) size + ((rlim_t) 512 << 20);
  g_assert_cmpint (setrlimit (RLIMIT_AS, &limit), ==, 0);

  assert_failed (rlx_tensor_new_from_data (RLX_DATA_TYPE_F32, shape, 1, memory, size, &error),
                 &error, RLX_GRAPH_ERROR_LIMIT, "1073741824");
  assert_failed (rlx_tensor_new_from_address (RLX_DATA_TYPE_F32, shape, 1, (guintptr) memory, size, &error),
                 &error, RLX_GRAPH_ERROR_LIMIT, "1073741824");
  assert_failed (rlx_tensor_new_from_floats (shape, 1, (const float *) memory, size / 4, &error),
                 &error, RLX_GRAPH_ERROR_LIMIT, "1073741824");

  assert_failed (rlx_tensor_new_from_ints (RLX_DATA_TYPE_I64, SHAPE ((gint64) size / 8), (const gint64 *) memory, size / 8, &error),
                 &error, RLX_GRAPH_ERROR_LIMIT, "1073741824");

  /* Unaligned bytes need a copy. */
  bytes = g_bytes_new_static (memory + 1, size);
  assert_failed (rlx_tensor_new_from_bytes (RLX_DATA_TYPE_F32, shape, 1, bytes, &error),
                 &error, RLX_GRAPH_ERROR_LIMIT, "1073741824");

  g_bytes_unref (bytes);
  bytes = g_bytes_new_static (memory, size);
  tensor = rlx_tensor_new_from_bytes (RLX_DATA_TYPE_F32, shape, 1, bytes, &error);
  g_assert_no_error (error);
  g_assert_null (rlx_tensor_get_floats (tensor, &n));
  g_assert_cmpuint (n, ==, 0);
  g_assert_null (rlx_tensor_get_ints (tensor, &n));
  g_assert_null (rlx_tensor_to_npy (tensor));

  /* And the tensor is still good. */
  g_assert_true (rlx_tensor_get_value (tensor, shape[0] - 1) == 0.0);
}

static void
test_memory (void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  g_test_skip ("The sanitizer needs the address space");
#else
  g_test_trap_subprocess ("/tensor/subprocess/memory", 0, G_TEST_SUBPROCESS_DEFAULT);
  g_test_trap_assert_passed ();
#endif
}

static gpointer
share_thread (gpointer data)
{
  RlxTensor *tensor = data;

  for (guint i = 0; i < 500; i++)
    {
      g_autoptr (RlxTensor) other = rlx_tensor_reshape (tensor, SHAPE (3, 2), NULL);
      g_autofree char *text = rlx_tensor_to_string (other);

      g_assert_cmpstr (text, ==, "[1, 2, 3, 4, 5, 6]");
    }
  g_object_unref (tensor);

  return NULL;
}

static void
test_threads (void)
{
  RlxTensor *tensor = rlx_tensor_new_from_floats (SHAPE (2, 3), VALUES (float, 1, 2, 3, 4, 5, 6), NULL);
  GThread *threads[4];

  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    threads[i] = g_thread_new (NULL, share_thread, g_object_ref (tensor));
  g_object_unref (tensor);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_thread_join (threads[i]);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/tensor/data-type", test_data_type);
  g_test_add_func ("/tensor/error-domains", test_error_domains);
  g_test_add_func ("/tensor/shape/elements", test_shape);
  g_test_add_func ("/tensor/shape/bytes", test_shape_bytes);
  g_test_add_func ("/tensor/shape/text", test_shape_text);
  g_test_add_func ("/tensor/new/bytes-kept", test_bytes_kept);
  g_test_add_func ("/tensor/new/bytes-unaligned", test_bytes_unaligned);
  g_test_add_func ("/tensor/new/bool", test_bool);
  g_test_add_func ("/tensor/half-bytes", test_half_bytes);
  g_test_add_func ("/tensor/new/sizes", test_sizes);
  g_test_add_func ("/tensor/new/bad-arguments", test_bad_arguments);
  g_test_add_func ("/tensor/new/copies", test_copies);
  g_test_add_func ("/tensor/new/empty", test_empty);
  g_test_add_func ("/tensor/new/no-dimensions", test_scalar);
  g_test_add_func ("/tensor/new/scalar", test_new_scalar);
  g_test_add_func ("/tensor/new/int-ranges", test_int_ranges);
  g_test_add_func ("/tensor/values/all-types", test_values);
  g_test_add_func ("/tensor/values/conversions", test_conversions);
  g_test_add_func ("/tensor/values/out-of-range", test_value_out_of_range);
  g_test_add_func ("/tensor/text/examples", test_text);
  g_test_add_func ("/tensor/text/round-trip", test_text_round_trip);
  g_test_add_func ("/tensor/text/long", test_text_long);
  g_test_add_func ("/tensor/text/locale", test_text_locale);
  g_test_add_func ("/tensor/reshape", test_reshape);
  g_test_add_func ("/tensor/equal", test_equal);
  g_test_add_func ("/tensor/properties", test_properties);
  g_test_add_func ("/tensor/programmer-errors", test_programmer_errors);
  g_test_add_func ("/tensor/memory", test_memory);
  g_test_add_func ("/tensor/subprocess/memory", test_memory_child);
  g_test_add_func ("/tensor/threads", test_threads);

  return g_test_run ();
}
