/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-test-npy.h"

static void
assert_text (RlxTensor  *tensor,
             const char *expected)
{
  g_autofree char *text = rlx_tensor_to_string (tensor);

  g_assert_cmpstr (text, ==, expected);
}

/* Reads from memory and from a file, which must agree. */
static RlxTensor *
read_both (GBytes  *bytes,
           GError **error)
{
  g_autoptr (GError) memory_error = NULL;
  g_autoptr (GError) file_error = NULL;
  g_autoptr (RlxTensor) from_file = NULL;
  g_autoptr (RlxTensor) from_memory = NULL;
  g_autoptr (GFileIOStream) stream = NULL;
  g_autoptr (GFile) file = g_file_new_tmp ("rlx-npy-XXXXXX", &stream, NULL);

  g_assert_nonnull (file);
  g_assert_true (g_output_stream_write_all (g_io_stream_get_output_stream (G_IO_STREAM (stream)),
                                            g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes),
                                            NULL, NULL, NULL));
  g_assert_true (g_io_stream_close (G_IO_STREAM (stream), NULL, NULL));

  from_memory = rlx_tensor_new_from_npy (bytes, &memory_error);
  from_file = rlx_tensor_load_npy (file, NULL, &file_error);
  g_assert_true (g_file_delete (file, NULL, NULL));

  if (from_memory != NULL)
    {
      g_assert_no_error (memory_error);
      g_assert_no_error (file_error);
      g_assert_true (rlx_tensor_equal (from_memory, from_file));
      return g_steal_pointer (&from_memory);
    }

  g_assert_null (from_file);
  g_assert_nonnull (memory_error);
  g_assert_error (file_error, memory_error->domain, memory_error->code);
  /* The message is the same, prefixed with the name of the file. */
  g_assert_true (g_str_has_suffix (file_error->message, memory_error->message));
  g_assert_true (g_utf8_validate (memory_error->message, -1, NULL));
  g_propagate_error (error, g_steal_pointer (&memory_error));

  return NULL;
}

/* ---- valid files -------------------------------------------------------- */

/* Byte for byte as numpy writes it. */
static void
test_numpy_bytes (void)
{
  const float values[] = { 1, 2, 3, 4, 5, 6 };
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxTensor) tensor =
    rlx_tensor_new_from_data (RLX_DATA_TYPE_F32, SHAPE (2, 3), (const guint8 *) values, sizeof values, &error);
  g_autoptr (RlxTensor) back = NULL;
  g_autoptr (GBytes) written = rlx_tensor_to_npy (tensor, NULL);
  g_autoptr (GBytes) expected =
    make_file (1,
               "{'descr': '" NATIVE "f4', 'fortran_order': False, 'shape': (2, 3), }"
               "                                                          \n",
               -1, values, sizeof values);

  g_assert_no_error (error);
  g_assert_cmpuint (g_bytes_get_size (expected), ==, 128 + sizeof values);
  g_assert_cmpmem (g_bytes_get_data (written, NULL), g_bytes_get_size (written),
                   g_bytes_get_data (expected, NULL), g_bytes_get_size (expected));

  back = read_both (written, &error);
  g_assert_no_error (error);
  g_assert_true (rlx_tensor_equal (tensor, back));
}

static void
test_round_trip (void)
{
  static const struct
  {
    gint64 shape[8];
    gsize n_dims;
  } shapes[] = {
    { { 0 }, 0 },
    { { 1 }, 1 },
    { { 0 }, 1 },
    { { 5 }, 1 },
    { { 2, 3 }, 2 },
    { { 3, 0, 2 }, 3 },
    { { 1, 2, 1, 3, 1, 2, 1, 2 }, 8 },
    { { 1000000 }, 1 },
  };
  g_autoptr (GError) error = NULL;

  for (guint type = RLX_DATA_TYPE_F32; type <= RLX_DATA_TYPE_U64; type++)
    for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
      {
        RlxDataType data_type = (RlxDataType) type;
        guint64 n_elements;
        gsize size;
        g_autofree guint8 *data = NULL;
        g_autoptr (RlxTensor) tensor = NULL;
        g_autoptr (RlxTensor) back = NULL;
        g_autoptr (GBytes) npy = NULL;

        g_assert_true (rlx_shape_n_bytes (data_type, shapes[i].shape, shapes[i].n_dims, &n_elements, &size, &error));
        data = g_malloc (MAX (size, 1));
        for (gsize j = 0; j < size; j++)
          data[j] = (guint8) (data_type == RLX_DATA_TYPE_BOOL ? j % 2 : j * 37);

        tensor = rlx_tensor_new_from_data (data_type, shapes[i].shape, shapes[i].n_dims, data, size, &error);
        g_assert_no_error (error);
        npy = rlx_tensor_to_npy (tensor, NULL);
        g_assert_cmpuint ((g_bytes_get_size (npy) - size) % 64, ==, 0);
        back = read_both (npy, &error);
        g_assert_no_error (error);
        g_assert_true (rlx_tensor_equal (tensor, back));
      }
}

/* Elements of 4 bits take a byte each. */
static void
test_half_bytes (void)
{
  g_autoptr (GError) error = NULL;
  const gint64 values[] = { -8, 7, -1 }, unsigned_values[] = { 0, 15, 8 };
  g_autoptr (RlxTensor) a = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I4, SHAPE (3), values, 3, &error);
  g_autoptr (RlxTensor) b = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I8, SHAPE (3), values, 3, &error);
  g_autoptr (RlxTensor) c = rlx_tensor_new_from_ints (RLX_DATA_TYPE_U4, SHAPE (3, 1), unsigned_values, 3, &error);
  g_autoptr (RlxTensor) d = rlx_tensor_new_from_ints (RLX_DATA_TYPE_U8, SHAPE (3, 1), unsigned_values, 3, &error);
  g_autoptr (GBytes) a_npy = rlx_tensor_to_npy (a, NULL);
  g_autoptr (GBytes) c_npy = rlx_tensor_to_npy (c, NULL);
  g_autoptr (RlxTensor) a_back = read_both (a_npy, &error);
  g_autoptr (RlxTensor) c_back = read_both (c_npy, &error);

  g_assert_no_error (error);
  g_assert_true (rlx_tensor_equal (a_back, b));
  g_assert_true (rlx_tensor_equal (c_back, d));
}

/* Reading from memory does not copy aligned data. */
static void
test_shared (void)
{
  g_autoptr (GError) error = NULL;
  const gint64 values[] = { 1, 2, 3 };
  g_autoptr (RlxTensor) tensor = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I32, SHAPE (3), values, 3, &error);
  g_autoptr (GBytes) npy = rlx_tensor_to_npy (tensor, NULL);
  g_autoptr (RlxTensor) back = rlx_tensor_new_from_npy (npy, &error);

  g_assert_no_error (error);
  g_assert_true (rlx_tensor_peek_data (back) ==
                 (const guint8 *) g_bytes_get_data (npy, NULL) + g_bytes_get_size (npy) - 12);

  /* But the elements of a file can be at any offset. */
  for (guint spaces = 0; spaces < 8; spaces++)
    {
      g_autofree char *text = g_strdup_printf ("{'descr': '" NATIVE "u8', 'fortran_order': False, 'shape': (2,)}%*s\n", (int) spaces, "");
      const guint64 elements[] = { 7, G_MAXUINT64 };
      g_autoptr (GBytes) file = make_file (1, text, -1, elements, sizeof elements);
      g_autoptr (RlxTensor) read = read_both (file, &error);

      g_assert_no_error (error);
      assert_text (read, "[7, 18446744073709551615]");
    }
}

static void
test_texts (void)
{
  static const char * const good[] = {
    "{'descr': '" NATIVE "i4', 'fortran_order': False, 'shape': (2, 1), }\n",
    "{'descr': '" NATIVE "i4', 'fortran_order': False, 'shape': (2, 1)}\n",
    "{'shape':(2,1),'descr':'" NATIVE "i4','fortran_order':False}\n",
    "{\"descr\": \"" NATIVE "i4\", \"fortran_order\": False, \"shape\": (2, 1)}\n",
    "  {  'descr'  :  'i4'  ,  'fortran_order'  :  False  ,  'shape'  :  (  2  ,  1  ,  )  ,  }  \n",
    "{'descr': '=i4', 'fortran_order': False, 'shape': (2L, 1L)}\n",
    "{'descr': '|i4', 'fortran_order': False, 'shape': (2, 1)}\n",
  };
  const gint32 values[] = { 7, -8 };
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (good); i++)
    for (guint8 major = 1; major <= 3; major++)
      {
        g_autoptr (GBytes) file = make_file (major, good[i], -1, values, sizeof values);
        g_autoptr (RlxTensor) tensor = read_both (file, &error);

        g_assert_no_error (error);
        g_assert_cmpint (rlx_tensor_get_data_type (tensor), ==, RLX_DATA_TYPE_I32);
        g_assert_cmpuint (rlx_tensor_get_n_dims (tensor), ==, 2);
        assert_text (tensor, "[7, -8]");
      }
}

static void
test_data_types (void)
{
  static const struct
  {
    const char *code;
    RlxDataType data_type;
  } codes[] = {
    { "f4", RLX_DATA_TYPE_F32 },
    { "f2", RLX_DATA_TYPE_F16 },
    { "i4", RLX_DATA_TYPE_I32 },
    { "u4", RLX_DATA_TYPE_U32 },
    { "i1", RLX_DATA_TYPE_I8 },
    { "u1", RLX_DATA_TYPE_U8 },
    { "b1", RLX_DATA_TYPE_BOOL },
    { "i8", RLX_DATA_TYPE_I64 },
    { "u8", RLX_DATA_TYPE_U64 },
  };
  static const char * const orders[] = { NATIVE, "=", "|", "", FOREIGN };
  const guint64 zero = 0;
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (codes); i++)
    for (guint j = 0; j < G_N_ELEMENTS (orders); j++)
      {
        gsize size = rlx_data_type_get_size (codes[i].data_type);
        g_autofree char *descr = g_strconcat (orders[j], codes[i].code, NULL);
        g_autoptr (GBytes) file = make_simple (descr, "False", "()", &zero, size);
        g_autoptr (RlxTensor) tensor = read_both (file, &error);

        if (strcmp (orders[j], FOREIGN) == 0 && size > 1)
          {
            g_assert_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_UNSUPPORTED);
            g_assert_nonnull (strstr (error->message, descr));
            g_clear_error (&error);
          }
        else
          {
            g_assert_no_error (error);
            g_assert_cmpint (rlx_tensor_get_data_type (tensor), ==, codes[i].data_type);
          }
      }
}

/* Types that numpy has and the library lacks: 16-bit integers become wider ones, and the
 * others are unsupported. */
static void
test_other_types (void)
{
  static const struct
  {
    const char *descr;
    gsize size;
    const char *text;          /* or NULL, and the type's name in the message */
    const char *name;
  } cases[] = {
    { NATIVE "i2", 2, "-2", NULL },
    { NATIVE "u2", 2, "65534", NULL },
    { NATIVE "f8", 8, NULL, "f64" },
    { NATIVE "c8", 8, NULL, "c64" },
    { NATIVE "c16", 16, NULL, "c128" },
  };
  const guint8 data[16] = { G_BYTE_ORDER == G_LITTLE_ENDIAN ? 0xfe : 0xff, G_BYTE_ORDER == G_LITTLE_ENDIAN ? 0xff : 0xfe };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GBytes) file = make_simple (cases[i].descr, "False", "()", data, cases[i].size);
      g_autoptr (RlxTensor) tensor = read_both (file, &error);

      if (cases[i].text != NULL)
        {
          g_assert_no_error (error);
          assert_text (tensor, cases[i].text);
          continue;
        }
      g_assert_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_UNSUPPORTED);
      g_assert_nonnull (strstr (error->message, cases[i].name));
    }
}

static void
test_bool_bytes (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) file = make_simple ("|b1", "False", "(4,)", "\x00\x01\x02\xff", 4);
  g_autoptr (RlxTensor) tensor = read_both (file, &error);

  g_assert_no_error (error);
  g_assert_cmpmem (rlx_tensor_peek_data (tensor), 4, "\0\1\1\1", 4);
}

/* Each element encodes its indices: 100 i + 10 j + k. */
static void
test_fortran_order (void)
{
  static const char * const codes[] = { "u1", "f2", "i4", "i8" };
  static const RlxDataType types[] = { RLX_DATA_TYPE_U8, RLX_DATA_TYPE_F16, RLX_DATA_TYPE_I32, RLX_DATA_TYPE_I64 };
  g_autoptr (GError) error = NULL;

  for (guint t = 0; t < G_N_ELEMENTS (codes); t++)
    {
      gint64 values[24], expected[24];
      guint n = 0;
      g_autoptr (RlxTensor) fortran = NULL;
      g_autoptr (RlxTensor) c = NULL;
      g_autoptr (RlxTensor) read = NULL;
      g_autoptr (GBytes) file = NULL;

      for (guint k = 0; k < 4; k++)
        for (guint j = 0; j < 3; j++)
          for (guint i = 0; i < 2; i++)
            {
              values[n++] = 100 * i + 10 * j + k;
              expected[(i * 3 + j) * 4 + k] = 100 * i + 10 * j + k;
            }

      fortran = rlx_tensor_new_from_ints (types[t], SHAPE (24), values, 24, &error);
      c = rlx_tensor_new_from_ints (types[t], SHAPE (2, 3, 4), expected, 24, &error);
      g_assert_no_error (error);
      file = make_simple (codes[t], "True", "(2, 3, 4)", rlx_tensor_peek_data (fortran), rlx_tensor_get_size (fortran));
      read = read_both (file, &error);
      g_assert_no_error (error);
      g_assert_true (rlx_tensor_equal (c, read));
    }

  /* Shapes that need no reordering. */
  {
    g_autoptr (GBytes) vector = make_simple ("|u1", "True", "(3,)", "\1\2\3", 3);
    g_autoptr (GBytes) scalar = make_simple ("|u1", "True", "()", "\7", 1);
    g_autoptr (GBytes) empty = make_simple ("|u1", "True", "(2, 0, 3)", NULL, 0);
    g_autoptr (GBytes) deep = make_simple ("|u1", "True", "(1, 1, 1, 1, 1, 1, 1, 2)", "\1\2", 2);
    g_autoptr (RlxTensor) a = read_both (vector, &error);
    g_autoptr (RlxTensor) b = read_both (scalar, &error);
    g_autoptr (RlxTensor) c = read_both (empty, &error);
    g_autoptr (RlxTensor) d = read_both (deep, &error);

    g_assert_no_error (error);
    assert_text (a, "[1, 2, 3]");
    assert_text (b, "7");
    assert_text (c, "[]");
    assert_text (d, "[1, 2]");
  }
}

/* ---- invalid files ------------------------------------------------------ */

static void
test_bad_texts (void)
{
#define D "'descr': '" NATIVE "f4'"
#define F "'fortran_order': False"
#define S "'shape': (1,)"
#define PARSE RLX_WEIGHTS_ERROR_PARSE
#define LIMIT RLX_WEIGHTS_ERROR_LIMIT
#define UNSUPPORTED RLX_WEIGHTS_ERROR_UNSUPPORTED
  static const struct
  {
    const char *text;
    int code;
    const char *part;
  } cases[] = {
    { "", PARSE, "{" },
    { "\n", PARSE, "{" },
    { "{", PARSE, "string" },
    { "{}\n", PARSE, "missing" },
    { "{,}\n", PARSE, "string" },
    { "[" D ", " F ", " S "]\n", PARSE, "{" },
    { "{" D ", " F "}\n", PARSE, "shape" },
    { "{" D ", " S "}\n", PARSE, "fortran_order" },
    { "{" F ", " S "}\n", PARSE, "descr" },
    { "{" D ", " D ", " F ", " S "}\n", PARSE, "twice" },
    { "{" D ", " F ", " S ", " S "}\n", PARSE, "twice" },
    { "{" D ", " F ", " S ", 'more': 1}\n", PARSE, "more" },
    { "{" D ", " F ", " S ",,}\n", PARSE, "string" },
    { "{" D " " F ", " S "}\n", PARSE, "," },
    { "{" D ", " F ", " S "\n", PARSE, "," },
    { "{" D ", " F ", " S, PARSE, "," },
    { "{" D ", " F ", " S "}", PARSE, "newline" },
    { "{" D ", " F ", " S "}\n\n", PARSE, "newline" },
    { "{" D ", " F ", " S "}\n ", PARSE, "newline" },
    { "{" D ", " F ", " S "} x\n", PARSE, "newline" },
    { "{" D ", " F ", " S "}}\n", PARSE, "newline" },
    { "{\n" D ", " F ", " S "}\n", PARSE, "string" },
    { "{\t" D ", " F ", " S "}\n", PARSE, "string" },
    { "\xef\xbb\xbf{" D ", " F ", " S "}\n", PARSE, "{" },
    { "{" D ", 'fortran_order': false, " S "}\n", PARSE, "fortran_order" },
    { "{" D ", 'fortran_order': 0, " S "}\n", PARSE, "fortran_order" },
    { "{" D ", 'fortran_order': Tru", PARSE, "fortran_order" },
    { "{" D ", 'fortran_order': Trueish, " S "}\n", PARSE, "," },
    { "{" D ", 'fortran_order' False, " S "}\n", PARSE, ":" },
    { "{descr: '<f4', " F ", " S "}\n", PARSE, "string" },
    { "{'descr': <f4, " F ", " S "}\n", PARSE, "string" },
    { "{'descr': '<f4\", " F ", " S "}\n", UNSUPPORTED, "<f4\"" },
    { "{'descr': '<f4", PARSE, "end" },
    { "{'descr': '\\x3cf4', " F ", " S "}\n", PARSE, "0x5c" },
    { "{'descr': '<f4\n', " F ", " S "}\n", PARSE, "0x0a" },
    { "{'descr': '', " F ", " S "}\n", PARSE, "descr" },
    { "{'descr': '<', " F ", " S "}\n", PARSE, "descr" },
    { "{'descr': '<<f4', " F ", " S "}\n", PARSE, "<<f4" },
    { "{'descr': '4', " F ", " S "}\n", PARSE, "4" },
    { "{'descr': '\xff\xfe', " F ", " S "}\n", PARSE, "\\xff\\xfe" },
    { "{'descr': u'<f4', " F ", " S "}\n", PARSE, "string" },
    { "{'descr': None, " F ", " S "}\n", PARSE, "string" },

    { "{'descr': '<f16', " F ", " S "}\n", UNSUPPORTED, "<f16" },
    { "{'descr': '<f44', " F ", " S "}\n", UNSUPPORTED, "<f44" },
    { "{'descr': '<f', " F ", " S "}\n", UNSUPPORTED, "<f" },
    { "{'descr': '" FOREIGN "f4', " F ", " S "}\n", UNSUPPORTED, FOREIGN "f4" },
    { "{'descr': '" FOREIGN "i8', " F ", " S "}\n", UNSUPPORTED, "order" },
    { "{'descr': '|O', " F ", " S "}\n", UNSUPPORTED, "|O" },
    { "{'descr': '|O8', " F ", " S "}\n", UNSUPPORTED, "|O8" },
    { "{'descr': '<U5', " F ", " S "}\n", UNSUPPORTED, "<U5" },
    { "{'descr': '|S5', " F ", " S "}\n", UNSUPPORTED, "|S5" },
    { "{'descr': '<M8[ns]', " F ", " S "}\n", UNSUPPORTED, "<M8[ns]" },
    { "{'descr': '?', " F ", " S "}\n", UNSUPPORTED, "?" },
    { "{'descr': [('a', '<f4')], " F ", " S "}\n", UNSUPPORTED, "structured" },
    { "{'descr': ('<f4', (2,)), " F ", " S "}\n", UNSUPPORTED, "structured" },

    { "{" D ", " F ", 'shape': 1}\n", PARSE, "(" },
    { "{" D ", " F ", 'shape': [1]}\n", PARSE, "(" },
    { "{" D ", " F ", 'shape': (1)}\n", PARSE, "tuple" },
    { "{" D ", " F ", 'shape': (,)}\n", PARSE, "number" },
    { "{" D ", " F ", 'shape': (1,,)}\n", PARSE, "number" },
    { "{" D ", " F ", 'shape': (1 1)}\n", PARSE, "," },
    { "{" D ", " F ", 'shape': (1,", PARSE, "number" },
    { "{" D ", " F ", 'shape': (1", PARSE, "," },
    { "{" D ", " F ", 'shape': (-1,)}\n", PARSE, "number" },
    { "{" D ", " F ", 'shape': (+1,)}\n", PARSE, "number" },
    { "{" D ", " F ", 'shape': (1.0,)}\n", PARSE, "," },
    { "{" D ", " F ", 'shape': (1e0,)}\n", PARSE, "," },
    { "{" D ", " F ", 'shape': (0x1,)}\n", PARSE, "," },
    { "{" D ", " F ", 'shape': (01,)}\n", PARSE, "0" },
    { "{" D ", " F ", 'shape': (00,)}\n", PARSE, "0" },
    { "{" D ", " F ", 'shape': ('1',)}\n", PARSE, "number" },
    { "{" D ", " F ", 'shape': (True,)}\n", PARSE, "number" },
    { "{" D ", " F ", 'shape': (1LL,)}\n", PARSE, "," },
    { "{" D ", " F ", 'shape': ((1,),)}\n", PARSE, "number" },

    { "{" D ", " F ", 'shape': (4294967296,)}\n", LIMIT, "4294967296" },
    { "{" D ", " F ", 'shape': (4294967296, 4294967296)}\n", LIMIT, "4294967296" },
    { "{" D ", " F ", 'shape': (65536, 65536)}\n", LIMIT, "65536" },
    { "{" D ", " F ", 'shape': (4611686018427387904, 4)}\n", LIMIT, "4611686018427387904" },
    { "{" D ", " F ", 'shape': (9223372036854775807,)}\n", LIMIT, "9223372036854775807" },
    { "{" D ", " F ", 'shape': (9223372036854775808,)}\n", LIMIT, "9223372036854775808" },
    { "{" D ", " F ", 'shape': (18446744073709551617,)}\n", LIMIT, "18446744073709551617" },
    { "{" D ", " F ", 'shape': (0, 9223372036854775808)}\n", LIMIT, "9223372036854775808" },
    { "{" D ", " F ", 'shape': (0, 9223372036854775807)}\n", LIMIT, "9223372036854775807" },
    { "{" D ", " F ", 'shape': (340282366920938463463374607431768211457,)}\n", LIMIT, "340282366920938463463374607431768211457" },
    { "{" D ", " F ", 'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1)}\n", LIMIT, "8" },
  };
  g_autoptr (GError) error = NULL;
  const float value = 1;

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    for (guint8 major = 1; major <= 3; major++)
      {
        g_autoptr (GBytes) file = make_file (major, cases[i].text, -1, &value, sizeof value);

        if (read_both (file, &error) != NULL)
          g_error ("“%s” was read", cases[i].text);
        if (!g_error_matches (error, RLX_WEIGHTS_ERROR, cases[i].code) ||
            strstr (error->message, cases[i].part) == NULL)
          g_error ("“%s” gave “%s” (%d)", cases[i].text, error->message, error->code);
        g_assert_null (rlx_tensor_new_from_npy (file, NULL));
        g_clear_error (&error);
      }

  /* With NUL bytes, where a string literal would end. */
  {
    static const char nul[] = "{" D ", " F ", " S "}\0\0\0\n";
    static const char nul_inside[] = "{" D ", " F ", 'sha\0pe': (1,)}\n";
    g_autoptr (GBytes) a = make_file (1, nul, sizeof nul - 1, &value, sizeof value);
    g_autoptr (GBytes) b = make_file (1, nul_inside, sizeof nul_inside - 1, &value, sizeof value);

    g_assert_null (read_both (a, &error));
    g_assert_error (error, RLX_WEIGHTS_ERROR, PARSE);
    g_clear_error (&error);
    g_assert_null (read_both (b, &error));
    g_assert_error (error, RLX_WEIGHTS_ERROR, PARSE);
    g_clear_error (&error);
  }
}

static void
test_bad_prefix (void)
{
  static const struct
  {
    const char *bytes;
    gsize length;
    int code;
  } cases[] = {
    { "", 0, RLX_WEIGHTS_ERROR_TRUNCATED },
    { "\x93", 1, RLX_WEIGHTS_ERROR_TRUNCATED },
    { "\x93NUMPY", 6, RLX_WEIGHTS_ERROR_TRUNCATED },
    { "\x93NUMPY\x01\x00\x10", 9, RLX_WEIGHTS_ERROR_TRUNCATED },
    { "\x93NUMPY\x02\x00\x10\x00\x00", 11, RLX_WEIGHTS_ERROR_TRUNCATED },
    { "\x93NUMPY\x01\x00\x10\x00", 10, RLX_WEIGHTS_ERROR_TRUNCATED },
    { "\x93NUMPY\x02\x00\x10\x00\x00\x00", 12, RLX_WEIGHTS_ERROR_TRUNCATED },
    { "hi", 2, RLX_WEIGHTS_ERROR_PARSE },
    { "\x93NUMPZ\x01\x00\x10\x00          ", 20, RLX_WEIGHTS_ERROR_PARSE },
    { "PK\x03\x04..............", 18, RLX_WEIGHTS_ERROR_PARSE },
    { "\x93NUMPY\x00\x00\x02\x00{}", 12, RLX_WEIGHTS_ERROR_UNSUPPORTED },
    { "\x93NUMPY\x04\x00\x02\x00\x00\x00{}", 14, RLX_WEIGHTS_ERROR_UNSUPPORTED },
    { "\x93NUMPY\xff\x00\x02\x00\x00\x00{}", 14, RLX_WEIGHTS_ERROR_UNSUPPORTED },
    { "\x93NUMPY\x01\x01\x02\x00{}", 12, RLX_WEIGHTS_ERROR_UNSUPPORTED },
    { "\x93NUMPY\x02\x00\xff\xff\xff\xff{}", 14, RLX_WEIGHTS_ERROR_LIMIT },
    { "\x93NUMPY\x02\x00\x00\x00\x00\x80{}", 14, RLX_WEIGHTS_ERROR_LIMIT },
    { "\x93NUMPY\x02\x00\x01\x00\x01\x00{}", 14, RLX_WEIGHTS_ERROR_LIMIT },
    { "\x93NUMPY\x02\x00\x00\x00\x01\x00{}", 14, RLX_WEIGHTS_ERROR_TRUNCATED },
    { "\x93NUMPY\x01\x00\xff\xff{}", 12, RLX_WEIGHTS_ERROR_TRUNCATED },
    { "\x93NUMPY\x01\x00\x00\x00", 10, RLX_WEIGHTS_ERROR_PARSE },
    { "\x93NUMPY\x01\x00\x00\x00{}\n", 13, RLX_WEIGHTS_ERROR_PARSE },
    { "\x93NUMPY\x01\x00\x01\x00{}\n", 13, RLX_WEIGHTS_ERROR_PARSE },
  };
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GBytes) file = g_bytes_new (cases[i].bytes, cases[i].length);

      g_assert_null (read_both (file, &error));
      g_assert_error (error, RLX_WEIGHTS_ERROR, cases[i].code);
      g_clear_error (&error);
    }
}

/* The longest valid header, and one byte more. */
static void
test_long_text (void)
{
  const float value = 3;
  g_autoptr (GError) error = NULL;

  for (gsize length = RLX_NPY_MAX_TEXT - 1; length <= RLX_NPY_MAX_TEXT + 1; length++)
    {
      g_autofree char *text = g_strnfill (length, ' ');
      const char start[] = "{" D ", " F ", " S "}";
      g_autoptr (GBytes) file = NULL;
      g_autoptr (RlxTensor) tensor = NULL;

      memcpy (text, start, strlen (start));
      text[length - 1] = '\n';
      file = make_file (3, text, (gssize) length, &value, sizeof value);
      tensor = read_both (file, &error);

      if (length <= RLX_NPY_MAX_TEXT)
        {
          g_assert_no_error (error);
          assert_text (tensor, "[3]");
        }
      else
        {
          g_assert_error (error, RLX_WEIGHTS_ERROR, LIMIT);
          g_assert_nonnull (strstr (error->message, "65537"));
          g_assert_nonnull (strstr (error->message, "65536"));
          g_clear_error (&error);
        }
    }
}

/* Every prefix of a valid file, and everything that can follow it. */
static void
test_truncated (void)
{
  const float values[] = { 1, 2, 3, 4, 5, 6 };
  g_autoptr (GError) error = NULL;

  for (guint8 major = 1; major <= 2; major++)
    {
      g_autoptr (GBytes) file = make_file (major, "{" D ", " F ", 'shape': (2, 3), }\n", -1, values, sizeof values);
      gsize size = g_bytes_get_size (file);
      g_autofree guint8 *longer = g_malloc0 (size + 100);

      memcpy (longer, g_bytes_get_data (file, NULL), size);

      for (gsize n = 0; n < size; n++)
        {
          /* A separate allocation, so that a read beyond the end is detected. */
          g_autoptr (GBytes) part = g_bytes_new (longer, n);

          g_assert_null (read_both (part, &error));
          g_assert_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_TRUNCATED);
          g_clear_error (&error);
        }

      for (gsize n = size + 1; n <= size + 100; n += 11)
        {
          g_autoptr (GBytes) more = g_bytes_new (longer, n);

          g_assert_null (read_both (more, &error));
          g_assert_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_PARSE);
          g_assert_nonnull (strstr (error->message, "24 bytes"));
          g_clear_error (&error);
        }
    }
}

/* Reading a file with a flipped bit must be well-defined: a tensor that fits the file, or
 * an error. */
static void
test_bit_flips (void)
{
  const float values[] = { 1, 2, 3, 4, 5, 6 };
  g_autoptr (GBytes) good = make_file (1, "{" D ", " F ", 'shape': (2, 3), }            \n", -1, values, sizeof values);
  gsize size = g_bytes_get_size (good);
  guint n_errors = 0;

  for (gsize i = 0; i < (size - sizeof values) * 8; i++)
    {
      g_autofree guint8 *data = g_memdup2 (g_bytes_get_data (good, NULL), size);
      g_autoptr (GBytes) bad = NULL;
      g_autoptr (GError) error = NULL;
      g_autoptr (RlxTensor) tensor = NULL;

      data[i / 8] ^= (guint8) (1 << (i % 8));
      bad = g_bytes_new (data, size);
      tensor = rlx_tensor_new_from_npy (bad, &error);

      if (tensor == NULL)
        {
          g_assert_true (error->domain == RLX_WEIGHTS_ERROR);
          g_assert_true (g_utf8_validate (error->message, -1, NULL));
          n_errors++;
        }
      else
        {
          /* Another type of the same size, or the other kind of quotes. */
          g_assert_no_error (error);
          g_assert_cmpuint (rlx_tensor_get_size (tensor), ==, sizeof values);
        }
    }

  g_assert_cmpuint (n_errors, >, 500);
}

/* Pieces of headers in random order, with random bytes between them. */
static void
test_random (void)
{
  static const char * const pieces[] = {
    "{", "}", "(", ")", ",", ":", " ", "\n", "'", "\"", "'descr'", "'fortran_order'", "'shape'", "True", "False",
    "'<f4'", "'|u1'", "1", "0", "2", "4294967295", "9223372036854775807", "L", "-", "\\", "[", "]",
    "{'descr': '|u1', 'fortran_order': ", ", 'shape': (", ", }   \n",
  };

  for (guint i = 0; i < 20000; i++)
    {
      g_autoptr (GString) text = g_string_new (NULL);
      g_autoptr (GBytes) file = NULL;
      g_autoptr (GError) error = NULL;
      g_autoptr (RlxTensor) tensor = NULL;
      int n = g_test_rand_int_range (0, 24);

      for (int j = 0; j < n; j++)
        {
          if (g_test_rand_int_range (0, 16) == 0)
            g_string_append_c (text, (char) g_test_rand_int_range (0, 256));
          else
            g_string_append (text, pieces[g_test_rand_int_range (0, G_N_ELEMENTS (pieces))]);
        }

      file = make_file (1, text->str, (gssize) text->len, "\1\2", (gsize) g_test_rand_int_range (0, 3));
      tensor = rlx_tensor_new_from_npy (file, &error);
      g_assert_true ((tensor == NULL) == (error != NULL));
    }
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/npy/numpy-bytes", test_numpy_bytes);
  g_test_add_func ("/npy/round-trip", test_round_trip);
  g_test_add_func ("/npy/shared", test_shared);
  g_test_add_func ("/npy/half-bytes", test_half_bytes);
  g_test_add_func ("/npy/texts", test_texts);
  g_test_add_func ("/npy/data-types", test_data_types);
  g_test_add_func ("/npy/other-types", test_other_types);
  g_test_add_func ("/npy/bool-bytes", test_bool_bytes);
  g_test_add_func ("/npy/fortran-order", test_fortran_order);
  g_test_add_func ("/npy/bad/texts", test_bad_texts);
  g_test_add_func ("/npy/bad/prefix", test_bad_prefix);
  g_test_add_func ("/npy/bad/long-text", test_long_text);
  g_test_add_func ("/npy/bad/truncated", test_truncated);
  g_test_add_func ("/npy/bad/bit-flips", test_bit_flips);
  g_test_add_func ("/npy/bad/random", test_random);

  return g_test_run ();
}
