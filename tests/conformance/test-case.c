/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "case.h"

#include <math.h>
#include <string.h>

#define TENSORS(inputs) \
  "{\"suite\": \"ort-web\", \"op\": \"Abs\", \"cases\": [{\"id\": \"a\", \"inputs\": {" inputs "}, " \
  "\"ops\": [{\"name\": \"Abs\", \"args\": {\"inputs\": [{\"ref\": \"x\"}]}, \"outputs\": [\"y\"]}], " \
  "\"outputs\": {}, \"tolerance\": {\"kind\": \"atol\", \"value\": 0.5}, \"opset\": null}]}"

static CaseFile *
parse (const char *text)
{
  g_autoptr(GError) error = NULL;
  CaseFile *file = case_file_parse ("text", text, strlen (text), &error);

  g_assert_no_error (error);
  return file;
}

static GBytes *
get_bytes (CaseFile   *file,
           const char *name,
           gsize       size)
{
  g_autoptr(GError) error = NULL;
  GBytes *bytes;

  g_assert_cmpuint (file->problems->len, ==, 0);
  bytes = case_tensor_to_bytes (case_find_input (g_ptr_array_index (file->cases, 0), name), 0, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (g_bytes_get_size (bytes), ==, size);
  return bytes;
}

static void
test_floats (void)
{
  g_autoptr(CaseFile) file = parse (TENSORS ("\"x\": {\"dtype\": \"f32\", \"shape\": [8], \"data\": "
                                             "[1, -0.0, -0, \"NaN\", \"-Infinity\", 1e-45, 100000000000000000000, 0.1]}, "
                                             "\"h\": {\"dtype\": \"f16\", \"shape\": [], \"data\": [0.5]}"));
  g_autoptr(GBytes) bytes = get_bytes (file, "x", 32);
  g_autoptr(GBytes) half = get_bytes (file, "h", 2);
  const float *values = g_bytes_get_data (bytes, NULL);
  const Case *test = g_ptr_array_index (file->cases, 0);

  g_assert_cmpfloat (values[0], ==, 1);
  g_assert_true (values[1] == 0 && signbit (values[1]));
  g_assert_true (values[2] == 0 && signbit (values[2]));
  g_assert_true (isnan (values[3]));
  g_assert_true (isinf (values[4]) && signbit (values[4]));
  g_assert_cmpfloat (values[5], ==, 0x1p-149f);
  g_assert_cmpfloat (values[6], ==, 1e20f);
  g_assert_cmpfloat (values[7], ==, 0.1f);
  g_assert_cmphex (*(const guint16 *) g_bytes_get_data (half, NULL), ==, 0x3800);
  g_assert_cmpint (test->family, ==, FAMILY_ONNX);
  g_assert_cmpint (test->opset, ==, G_MAXINT);
  g_assert_cmpint (test->tolerance.kind, ==, TOLERANCE_ATOL);
  g_assert_cmpfloat (test->tolerance.value, ==, 0.5);
}

static void
test_ints (void)
{
  g_autoptr(CaseFile) file = parse (TENSORS ("\"i\": {\"dtype\": \"i64\", \"shape\": [2], \"data\": "
                                             "[\"-9223372036854775808\", \"9223372036854775807\"]}, "
                                             "\"u\": {\"dtype\": \"u64\", \"shape\": [1], \"data\": [\"18446744073709551615\"]}, "
                                             "\"n\": {\"dtype\": \"i8\", \"shape\": [3], \"data\": [-128, 127, 5]}, "
                                             "\"b\": {\"dtype\": \"bool\", \"shape\": [2], \"data\": [0, 1]}, "
                                             "\"f\": {\"dtype\": \"u32\", \"shape\": [2, 2], \"fill\": 4294967295}, "
                                             "\"e\": {\"dtype\": \"u8\", \"shape\": [3], \"b64\": \"AQID\"}"));
  g_autoptr(GBytes) signed_bytes = get_bytes (file, "i", 16);
  g_autoptr(GBytes) unsigned_bytes = get_bytes (file, "u", 8);
  g_autoptr(GBytes) narrow = get_bytes (file, "n", 3);
  g_autoptr(GBytes) booleans = get_bytes (file, "b", 2);
  g_autoptr(GBytes) filled = get_bytes (file, "f", 16);
  g_autoptr(GBytes) encoded = get_bytes (file, "e", 3);

  g_assert_cmpint (((const gint64 *) g_bytes_get_data (signed_bytes, NULL))[0], ==, G_MININT64);
  g_assert_cmpint (((const gint64 *) g_bytes_get_data (signed_bytes, NULL))[1], ==, G_MAXINT64);
  g_assert_cmpuint (((const guint64 *) g_bytes_get_data (unsigned_bytes, NULL))[0], ==, G_MAXUINT64);
  g_assert_cmpmem (g_bytes_get_data (narrow, NULL), 3, "\x80\x7f\x05", 3);
  g_assert_cmpmem (g_bytes_get_data (booleans, NULL), 2, "\x00\x01", 2);
  g_assert_cmpuint (((const guint32 *) g_bytes_get_data (filled, NULL))[3], ==, G_MAXUINT32);
  g_assert_cmpmem (g_bytes_get_data (encoded, NULL), 3, "\x01\x02\x03", 3);
}

static void
test_names (void)
{
  g_autoptr(CaseFile) file = parse (TENSORS ("\"a\\u0000b\": {\"dtype\": \"f32\", \"shape\": []}, "
                                             "\"a\\u0000c\": {\"dtype\": \"f32\", \"shape\": []}, "
                                             "\"a\\\\u0000\": {\"dtype\": \"f4\", \"shape\": []}"));
  const Case *test = g_ptr_array_index (file->cases, 0);

  g_assert_cmpuint (test->inputs->len, ==, 3);
  g_assert_nonnull (case_find_input (test, "a\xe2\x90\x80" "b"));
  g_assert_nonnull (case_find_input (test, "a\xe2\x90\x80" "c"));
  g_assert_nonnull (case_find_input (test, "a\\u0000"));
  g_assert_false (case_find_input (test, "a\\u0000")->known);
}

static void
test_files (void)
{
  static const char *const texts[] = {
    "", "{", "[]", "7", "null", "{}", "{\"cases\": {}}", "{\"cases\": [1,]}", "{\"suite\": 1, \"cases\": []}",
    "{\"tensors\": {}}", "{\"type\": \"Q4_0\", \"tensors\": []}", "\"\\u", "{\"a\": \"\\", "-", "{\"\\u0000",
  };

  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      g_autoptr(GError) error = NULL;
      g_autoptr(CaseFile) file = case_file_parse ("text", texts[i], strlen (texts[i]), &error);

      g_assert_null (file);
      g_assert_nonnull (error);
      g_assert_true (g_str_has_prefix (error->message, "text: "));
    }
}

static void
test_cases (void)
{
  static const char *const cases[] = {
    "1", "{}", "[]", "null",
    "{\"id\": 5}",
    "{\"id\": \"a\"}",
    "{\"id\": \"a\", \"inputs\": [], \"outputs\": {}, \"ops\": []}",
    "{\"id\": \"a\", \"inputs\": {\"x\": 1}, \"outputs\": {}, \"ops\": []}",
    "{\"id\": \"a\", \"inputs\": {\"x\": {\"dtype\": \"f32\"}}, \"outputs\": {}, \"ops\": []}",
    "{\"id\": \"a\", \"inputs\": {\"x\": {\"shape\": []}}, \"outputs\": {}, \"ops\": []}",
    "{\"id\": \"a\", \"inputs\": {\"x\": {\"dtype\": \"f32\", \"shape\": [-1]}}, \"outputs\": {}, \"ops\": []}",
    "{\"id\": \"a\", \"inputs\": {\"x\": {\"dtype\": \"f32\", \"shape\": [1.5]}}, \"outputs\": {}, \"ops\": []}",
    "{\"id\": \"a\", \"inputs\": {\"x\": {\"dtype\": \"f32\", \"shape\": [2], \"data\": [1]}}, \"outputs\": {}, \"ops\": []}",
    "{\"id\": \"a\", \"inputs\": {\"x\": {\"dtype\": \"f32\", \"shape\": [4294967296, 4294967296], \"data\": []}}, \"outputs\": {}, \"ops\": []}",
    "{\"id\": \"a\", \"inputs\": {}, \"outputs\": {}}",
    "{\"id\": \"a\", \"inputs\": {}, \"outputs\": {}, \"ops\": {}}",
    "{\"id\": \"a\", \"inputs\": {}, \"outputs\": {}, \"ops\": [1]}",
    "{\"id\": \"a\", \"inputs\": {}, \"outputs\": {}, \"ops\": [{}]}",
    "{\"id\": \"a\", \"inputs\": {}, \"outputs\": {}, \"ops\": [{\"name\": \"x\"}]}",
    "{\"id\": \"a\", \"inputs\": {}, \"outputs\": {}, \"ops\": [{\"name\": \"x\", \"args\": {}, \"outputs\": [1]}]}",
    "{\"id\": \"a\", \"inputs\": {}, \"outputs\": {}, \"ops\": [], \"tolerance\": 1}",
    "{\"id\": \"a\", \"inputs\": {}, \"outputs\": {}, \"ops\": [], \"tolerance\": {\"kind\": \"near\"}}",
    "{\"id\": \"a\", \"inputs\": {}, \"outputs\": {}, \"ops\": [], \"tolerance\": {\"kind\": \"ulp\"}}",
    "{\"id\": \"a\", \"inputs\": {}, \"outputs\": {}, \"ops\": [], \"opset\": \"x\"}",
    "{\"id\": \"a\", \"inputs\": {}, \"outputs\": {}, \"ops\": [], \"expect\": \"maybe\"}",
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *text = g_strdup_printf ("{\"suite\": \"webnn\", \"op\": \"x\", \"cases\": [%s, "
                                               "{\"id\": \"good\", \"inputs\": {}, \"outputs\": {}, \"ops\": []}]}",
                                               cases[i]);
      g_autoptr(CaseFile) file = parse (text);

      g_test_message ("%s", cases[i]);
      g_assert_cmpuint (file->problems->len, ==, 1);
      g_assert_cmpuint (file->cases->len, ==, 1);
      g_assert_cmpstr (((Case *) g_ptr_array_index (file->cases, 0))->id, ==, "good");
    }
}

static void
test_values (void)
{
  static const char *const tensors[] = {
    "\"x\": {\"dtype\": \"i32\", \"shape\": [1], \"data\": [1.5]}",
    "\"x\": {\"dtype\": \"i32\", \"shape\": [1], \"data\": [\"NaN\"]}",
    "\"x\": {\"dtype\": \"i64\", \"shape\": [1], \"data\": [\"9223372036854775808\"]}",
    "\"x\": {\"dtype\": \"u64\", \"shape\": [1], \"data\": [\"-1\"]}",
    "\"x\": {\"dtype\": \"f32\", \"shape\": [1], \"data\": [\"one\"]}",
    "\"x\": {\"dtype\": \"f32\", \"shape\": [1], \"data\": [[1, 2]]}",
    "\"x\": {\"dtype\": \"f32\", \"shape\": [1], \"fill\": {}}",
    "\"x\": {\"dtype\": \"u8\", \"shape\": [4], \"b64\": \"AQID\"}",
    "\"x\": {\"dtype\": \"bf16\", \"shape\": [1], \"data\": [1]}",
    "\"x\": {\"dtype\": \"f32\", \"shape\": [4294967295, 4294967295], \"fill\": 1}",
    "\"x\": {\"dtype\": \"f32\", \"shape\": [4294967295, 4294967295, 4294967295], \"fill\": 1}",
  };

  for (guint i = 0; i < G_N_ELEMENTS (tensors); i++)
    {
      g_autofree char *text = g_strdup_printf (
        "{\"suite\": \"webnn\", \"op\": \"x\", \"cases\": "
        "[{\"id\": \"a\", \"inputs\": {%s}, \"outputs\": {}, \"ops\": []}]}", tensors[i]);
      g_autoptr(CaseFile) file = parse (text);
      g_autoptr(GError) error = NULL;
      g_autoptr(GBytes) bytes = NULL;

      g_test_message ("%s", tensors[i]);
      g_assert_cmpuint (file->problems->len, ==, 0);
      bytes = case_tensor_to_bytes (case_find_input (g_ptr_array_index (file->cases, 0), "x"), 0, &error);
      g_assert_null (bytes);
      g_assert_true (error != NULL && error->domain == CONFORMANCE_ERROR);
    }
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/case/floats", test_floats);
  g_test_add_func ("/case/ints", test_ints);
  g_test_add_func ("/case/names", test_names);
  g_test_add_func ("/case/files", test_files);
  g_test_add_func ("/case/cases", test_cases);
  g_test_add_func ("/case/values", test_values);
  return g_test_run ();
}
