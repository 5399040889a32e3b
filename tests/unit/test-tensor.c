/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-enum-types.h"
#include "rlx-private.h"
#include "rlx-test-tensor.h"
#include "util/rlx-data-type-private.h"

#include <math.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* ---- types -------------------------------------------------------------- */

static void
test_data_type (void)
{
  static const gsize sizes[] = { 4, 2, 4, 4, 1, 1, 1, 8, 8, 0, 0, 2, 2, 2, 1, 1, 1, 1, 1, 0, 0, 0 };
  static const guint bits[] = { 32, 16, 32, 32, 8, 8, 8, 64, 64, 4, 4, 16, 16, 16, 8, 8, 8, 8, 8, 4, 2, 2 };
  static const char * const bad[] = { "", "F32", "f32 ", " f32", "f64", "invalid", "float", "\xff\xfe", "f32\n" };
  g_autoptr (GError) error = NULL;
  g_autoptr (GEnumClass) klass = g_type_class_ref (RLX_TYPE_DATA_TYPE);

  g_assert_cmpuint (klass->n_values, ==, G_N_ELEMENTS (all_types));
  g_assert_cmpuint (klass->n_values, ==, RLX_N_DATA_TYPES);

  for (guint i = 0; i < G_N_ELEMENTS (all_types); i++)
    {
      RlxDataType data_type = (RlxDataType) -1;

      g_assert_cmpuint (rlx_data_type_get_size (all_types[i]), ==, sizes[i]);
      g_assert_cmpuint (rlx_data_type_get_bits (all_types[i]), ==, bits[i]);
      g_assert_true (rlx_data_type_from_string (rlx_data_type_to_string (all_types[i]), &data_type, &error));
      g_assert_no_error (error);
      g_assert_cmpint (data_type, ==, all_types[i]);
      g_assert_true (rlx_data_type_check (all_types[i], &error));
      g_assert_cmpuint (rlx_data_types[rlx_data_types[i].in_files].bits % 8, ==, 0);
      g_assert_cmpuint (rlx_data_types[rlx_data_types[i].on_device].bits, <=, 32);

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
    gint64 shape[9];
    gsize n_dims;
    guint64 n;       /* G_MAXUINT64 if an error is expected */
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
    /* Two negative sizes do not multiply to a positive one. */
    { { -2, -3 }, 2, G_MAXUINT64, RLX_GRAPH_ERROR_SHAPE, "xis 0|-2" },
    { { G_MAXINT64, -1 }, 2, G_MAXUINT64, RLX_GRAPH_ERROR_SHAPE, "xis 1|-1" },
    { { (gint64) 1 << 32 }, 1, G_MAXUINT64, RLX_GRAPH_ERROR_LIMIT, "[4294967296]|4294967295" },
    { { 65536, 65536 }, 2, G_MAXUINT64, RLX_GRAPH_ERROR_LIMIT, "[65536, 65536]" },
    { { G_MAXINT64 }, 1, G_MAXUINT64, RLX_GRAPH_ERROR_LIMIT, "9223372036854775807" },
    /* Products that wrap to 0, to 1 and to something small. */
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
      gboolean ok = rlx_shape_n_elements (cases[i].shape, cases[i].n_dims, &n, &error);

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
          g_assert_false (rlx_shape_n_elements (cases[i].shape, cases[i].n_dims, &n, NULL));
        }
    }

  /* Dimensions are not read if there are too many. */
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
  const gint64 shape[] = { G_MAXUINT32 };
  guint64 n;
  gsize size;

  g_assert_true (rlx_shape_n_bytes (RLX_DATA_TYPE_U64, shape, 1, &n, &size, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (n, ==, G_MAXUINT32);
  g_assert_cmpuint (size, ==, (gsize) G_MAXUINT32 * 8);

  g_assert_false (rlx_shape_n_bytes ((RlxDataType) 77, shape, 1, &n, &size, &error));
  assert_failed (NULL, &error, RLX_GRAPH_ERROR_DATA_TYPE, "77");
}

static void
test_shape_text (void)
{
  const gint64 shape[] = { 2, G_MININT64, 0 };
  g_autofree char *none = rlx_shape_to_string (NULL, 0);
  g_autofree char *some = rlx_shape_to_string (shape, 3);

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

  g_assert_true (rlx_private_tensor_get_address (tensor) == (guintptr) g_bytes_get_data (bytes, &size));
  g_assert_cmpuint (size, ==, sizeof values);
  g_assert_true (rlx_private_tensor_get_address (tensor) == (guintptr) rlx_tensor_peek_data (tensor));
}

static void
test_bytes_unaligned (void)
{
  g_autoptr (GError) error = NULL;
  /* Aligned to 16 bytes, and one byte off. */
  g_autoptr (GBytes) whole = g_bytes_new_take (g_malloc0 (64), 64);

  for (guint i = 0; i < G_N_ELEMENTS (all_types); i++)
    for (gsize offset = 0; offset < 16; offset++)
      {
        gsize element = MAX (1, rlx_data_type_get_size (all_types[i]));
        gsize two = (2 * rlx_data_type_get_bits (all_types[i]) + 7) / 8;
        g_autoptr (GBytes) part = g_bytes_new_from_bytes (whole, offset, two);
        g_autoptr (RlxTensor) tensor = rlx_tensor_new_from_bytes (all_types[i], SHAPE (2), part, &error);

        g_assert_no_error (error);
        g_assert_true ((rlx_tensor_get_bytes (tensor) == part) == (offset % element == 0));
        g_assert_cmpuint (rlx_private_tensor_get_address (tensor) % element, ==, 0);
        g_assert_cmpuint (rlx_tensor_get_size (tensor), ==, two);
        g_assert_true (rlx_tensor_get_value (tensor, 1) == (all_types[i] == RLX_DATA_TYPE_F8E8M0 ? 0x1p-127 : 0.0));
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

  /* The source is unchanged. */
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
      assert_failed (rlx_private_tensor_new_from_address (RLX_DATA_TYPE_F32, SHAPE (2, 3), (guintptr) data, sizes[i], &error),
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

/* Each constructor reports an invalid shape or type. */
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

  assert_failed (rlx_private_tensor_new_from_address (RLX_DATA_TYPE_F32, SHAPE (2), 0, 8, &error),
                 &error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "address|8");

  for (guint i = 0; i < G_N_ELEMENTS (no_types); i++)
    {
      assert_failed (rlx_tensor_new_from_bytes (no_types[i], SHAPE (2), bytes, &error),
                     &error, RLX_GRAPH_ERROR_DATA_TYPE, "not a data type");
      assert_failed (rlx_tensor_new_from_data (no_types[i], SHAPE (0), NULL, 0, &error),
                     &error, RLX_GRAPH_ERROR_DATA_TYPE, "not a data type");
      assert_failed (rlx_private_tensor_new_from_address (no_types[i], SHAPE (0), 0, 0, &error),
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
  g_autoptr (RlxTensor) b = rlx_private_tensor_new_from_address (RLX_DATA_TYPE_F32, SHAPE (2), (guintptr) values, 8, &error);
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
      g_autoptr (RlxTensor) d = rlx_private_tensor_new_from_address (all_types[i], SHAPE (3, 0), 0, 0, &error);
      g_autofree float *floats = NULL;
      g_autofree gint64 *ints = NULL;
      gsize n = 1;

      g_assert_no_error (error);
      g_assert_true (rlx_tensor_equal (a, b));
      g_assert_true (rlx_tensor_equal (a, c));
      g_assert_true (rlx_tensor_equal (a, d));
      g_assert_cmpint (rlx_tensor_get_n_elements (a), ==, 0);
      g_assert_cmpuint (rlx_tensor_get_size (a), ==, 0);
      g_assert_true (rlx_private_tensor_get_address (a) != 0);
      floats = rlx_tensor_to_floats (a, &n, NULL);
      g_assert_cmpuint (n, ==, 0);
      ints = rlx_tensor_to_ints (a, &n, NULL);
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
    assert_failed (rlx_tensor_reshape (empty, SHAPE (-1, 0), &error), &error, RLX_GRAPH_ERROR_SHAPE, "cannot be inferred from 0 elements");
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

  /* A tensor has no writable properties. */
  specs = g_object_class_list_properties (G_OBJECT_GET_CLASS (tensor), &n_specs);
  g_assert_cmpuint (n_specs, ==, 6);
  for (guint i = 0; i < n_specs; i++)
    g_assert_cmphex (specs[i]->flags & G_PARAM_WRITABLE, ==, 0);

  /* What a script gets if it omits the constructor. */
  g_assert_cmpint (rlx_tensor_get_data_type (bare), ==, RLX_DATA_TYPE_F32);
  g_assert_cmpint (rlx_tensor_get_n_elements (bare), ==, 0);
  g_assert_cmpuint (rlx_tensor_get_size (bare), ==, 0);
  g_assert_cmpint (rlx_tensor_get_shape (bare, &n)[0], ==, 0);
  g_assert_cmpuint (n, ==, 1);
  g_assert_true (rlx_private_tensor_get_address (bare) != 0);
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

/* Runs with a small address space: running out of it must be an error, and not end the process. */
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
  assert_failed (rlx_private_tensor_new_from_address (RLX_DATA_TYPE_F32, shape, 1, (guintptr) memory, size, &error),
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
  g_assert_null (rlx_tensor_to_floats (tensor, &n, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_LIMIT);
  g_assert_nonnull (strstr (error->message, "1073741824"));
  g_clear_error (&error);
  g_assert_cmpuint (n, ==, 0);
  g_assert_null (rlx_tensor_to_ints (tensor, &n, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_LIMIT);
  g_clear_error (&error);
  g_assert_null (rlx_tensor_to_npy (tensor, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_LIMIT);
  g_clear_error (&error);

  /* And the tensor is still valid. */
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
  g_test_add_func ("/tensor/new/sizes", test_sizes);
  g_test_add_func ("/tensor/new/bad-arguments", test_bad_arguments);
  g_test_add_func ("/tensor/new/copies", test_copies);
  g_test_add_func ("/tensor/new/empty", test_empty);
  g_test_add_func ("/tensor/new/no-dimensions", test_scalar);
  g_test_add_func ("/tensor/reshape", test_reshape);
  g_test_add_func ("/tensor/equal", test_equal);
  g_test_add_func ("/tensor/properties", test_properties);
  g_test_add_func ("/tensor/programmer-errors", test_programmer_errors);
  g_test_add_func ("/tensor/memory", test_memory);
  g_test_add_func ("/tensor/subprocess/memory", test_memory_child);
  g_test_add_func ("/tensor/threads", test_threads);

  return g_test_run ();
}
