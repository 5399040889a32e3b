/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * safetensors files that are wrong.
 */
#include "config.h"

#include "rlx-test-weights.h"

#include <string.h>

#define ONE(fields) "{\"x\":{" fields "}}"
#define TYPE "\"dtype\":\"F32\","
#define PLACE ",\"data_offsets\":[0,4]"

/* Headers, each followed by four bytes. */
static const struct
{
  const char *header;
  RlxTestRefusal refusal;
} headers[] = {
  { "[]", { "array", RLX_WEIGHTS_ERROR_PARSE, "At byte 8|begin with “{”" } },
  { " {}", { "space", RLX_WEIGHTS_ERROR_PARSE, "begin with “{”" } },
  { "\xef\xbb\xbf{}", { "byte order mark", RLX_WEIGHTS_ERROR_PARSE, "begin with “{”" } },
  { "{", { "open", RLX_WEIGHTS_ERROR_PARSE, "too short" } },
  { "{ ", { "end", RLX_WEIGHTS_ERROR_PARSE, "string is missing|At byte 10" } },
  { "{}", { "trailing bytes", RLX_WEIGHTS_ERROR_PARSE, "4 bytes belong to no tensor|At byte 10" } },
  { "{} x", { "text after it", RLX_WEIGHTS_ERROR_PARSE, "after the end" } },
  { "{\"x\":3}", { "number", RLX_WEIGHTS_ERROR_PARSE, "'{' is missing" } },
  { "{\"x\":[[[[[[[[[[[[[[[[[[", { "depth", RLX_WEIGHTS_ERROR_PARSE, "'{' is missing before “[[[" } },
  { "{\"x\"{}}", { "no colon", RLX_WEIGHTS_ERROR_PARSE, "':' is missing" } },
  { "{\"x", { "string without end", RLX_WEIGHTS_ERROR_PARSE, "does not end" } },
  { "{\"\xff\":{}}", { "name not UTF-8", RLX_WEIGHTS_ERROR_PARSE, "not UTF-8" } },
  { "{\"a\nb\":{}}", { "newline in name", RLX_WEIGHTS_ERROR_PARSE, "0x0a" } },
  { "{\"\\ud800\":{}}", { "high surrogate", RLX_WEIGHTS_ERROR_PARSE, "surrogate" } },
  { "{\"\\ud800\\u0041\":{}}", { "no low surrogate", RLX_WEIGHTS_ERROR_PARSE, "surrogate" } },
  { "{\"\\udc00\":{}}", { "low surrogate", RLX_WEIGHTS_ERROR_PARSE, "surrogate" } },
  { "{\"\\u0000\":{}}", { "NUL", RLX_WEIGHTS_ERROR_PARSE, "U+0000" } },
  { "{\"\\u00g0\":{}}", { "no digits", RLX_WEIGHTS_ERROR_PARSE, "hexadecimal" } },
  { "{\"\\x\":{}}", { "escape", RLX_WEIGHTS_ERROR_PARSE, "escape" } },
  { ONE (TYPE "\"shape\":[1]" PLACE) ",", { "comma", RLX_WEIGHTS_ERROR_PARSE, "after the end" } },
  { "{\"x\":{" TYPE "\"shape\":[1]" PLACE "},}", { "comma inside", RLX_WEIGHTS_ERROR_PARSE, "string is missing" } },
  { "{\"\":{" TYPE "\"shape\":[1]" PLACE "}}", { "empty name", RLX_WEIGHTS_ERROR_PARSE, "empty" } },
  { "{\"a/../../b\":{" TYPE "\"shape\":[1]" PLACE "}}", { "way out", RLX_WEIGHTS_ERROR_PARSE, "leads out|a/../../b" } },
  { "{\"/b\":{" TYPE "\"shape\":[1]" PLACE "}}", { "absolute", RLX_WEIGHTS_ERROR_PARSE, "begins with “/”" } },
  { "{\"a\\u001bb\":{" TYPE "\"shape\":[1]" PLACE "}}", { "escape character", RLX_WEIGHTS_ERROR_PARSE, "control character" } },
  { "{\"x\":{" TYPE "\"shape\":[1],\"data_offsets\":[0,4]},\"x\":{" TYPE "\"shape\":[0],\"data_offsets\":[4,4]}}",
    { "name twice", RLX_WEIGHTS_ERROR_PARSE, "two tensors called “x”" } },

  { ONE ("\"shape\":[1]" PLACE), { "no type", RLX_WEIGHTS_ERROR_PARSE, "no “dtype”" } },
  { ONE (TYPE "\"data_offsets\":[0,4]"), { "no shape", RLX_WEIGHTS_ERROR_PARSE, "no “shape”" } },
  { ONE (TYPE "\"shape\":[1]"), { "no offsets", RLX_WEIGHTS_ERROR_PARSE, "no “data_offsets”" } },
  { ONE (TYPE "\"shape\":[1],\"more\":1" PLACE), { "another field", RLX_WEIGHTS_ERROR_PARSE, "no field “more”" } },
  { ONE (TYPE TYPE "\"shape\":[1]" PLACE), { "field twice", RLX_WEIGHTS_ERROR_PARSE, "“dtype” comes twice" } },
  { ONE ("\"dtype\":\"F33\",\"shape\":[1]" PLACE), { "unknown type", RLX_WEIGHTS_ERROR_UNSUPPORTED, "“F33”|At byte" } },
  { ONE ("\"dtype\":\"\",\"shape\":[1]" PLACE), { "empty type", RLX_WEIGHTS_ERROR_UNSUPPORTED, "“”" } },
  { ONE ("\"dtype\":7,\"shape\":[1]" PLACE), { "type is a number", RLX_WEIGHTS_ERROR_PARSE, "string is missing" } },
  { ONE ("\"dtype\":\"F4\",\"shape\":[7]" PLACE), { "half a byte", RLX_WEIGHTS_ERROR_PARSE, "7 elements of type f4" } },
  { ONE ("\"dtype\":\"F6_E2M3\",\"shape\":[6]" PLACE), { "part of a byte", RLX_WEIGHTS_ERROR_PARSE, "6 elements" } },

  { ONE (TYPE "\"shape\":[-1]" PLACE), { "negative", RLX_WEIGHTS_ERROR_PARSE, "“shape” is “-1”" } },
  { ONE (TYPE "\"shape\":[1.5]" PLACE), { "fraction", RLX_WEIGHTS_ERROR_PARSE, "“1.5”" } },
  { ONE (TYPE "\"shape\":[1e400]" PLACE), { "exponent", RLX_WEIGHTS_ERROR_PARSE, "“1e400”" } },
  { ONE (TYPE "\"shape\":[1.0]" PLACE), { "float", RLX_WEIGHTS_ERROR_PARSE, "“1.0”" } },
  { ONE (TYPE "\"shape\":[01]" PLACE), { "leading zero", RLX_WEIGHTS_ERROR_PARSE, "“01”" } },
  { ONE (TYPE "\"shape\":[\"3\"]" PLACE), { "string", RLX_WEIGHTS_ERROR_PARSE, "“shape” is" } },
  { ONE (TYPE "\"shape\":[null]" PLACE), { "null", RLX_WEIGHTS_ERROR_PARSE, "“null”" } },
  { ONE (TYPE "\"shape\":[true]" PLACE), { "true", RLX_WEIGHTS_ERROR_PARSE, "“true”" } },
  { ONE (TYPE "\"shape\":[+1]" PLACE), { "plus", RLX_WEIGHTS_ERROR_PARSE, "“+1”" } },
  { ONE (TYPE "\"shape\":[NaN]" PLACE), { "NaN", RLX_WEIGHTS_ERROR_PARSE, "“NaN”" } },
  { ONE (TYPE "\"shape\":1" PLACE), { "shape is a number", RLX_WEIGHTS_ERROR_PARSE, "'[' is missing" } },
  { ONE (TYPE "\"shape\":[1,]" PLACE), { "comma at the end", RLX_WEIGHTS_ERROR_PARSE, "“shape” is “”" } },
  { ONE (TYPE "\"shape\":[9007199254740993]" PLACE), { "2⁵³ + 1", RLX_WEIGHTS_ERROR_LIMIT, "9007199254740993|4294967295" } },
  { ONE (TYPE "\"shape\":[18446744073709551616]" PLACE), { "2⁶⁴", RLX_WEIGHTS_ERROR_LIMIT, "18446744073709551616" } },
  { ONE (TYPE "\"shape\":[0,9223372036854775808]" PLACE), { "nothing of much", RLX_WEIGHTS_ERROR_LIMIT, "9223372036854775808" } },
  { ONE (TYPE "\"shape\":[0,4294967295,4294967295]" PLACE), { "nothing of many", RLX_WEIGHTS_ERROR_LIMIT, "shape of “x”" } },
  { ONE (TYPE "\"shape\":[4294967295,4294967295]" PLACE), { "product", RLX_WEIGHTS_ERROR_LIMIT, "shape of “x”" } },
  { ONE (TYPE "\"shape\":[65536,65536,65536,65536]" PLACE), { "product of 2⁶⁴", RLX_WEIGHTS_ERROR_LIMIT, "shape of “x”" } },
  { ONE (TYPE "\"shape\":[1,1,1,1,1,1,1,1,1]" PLACE), { "rank 9", RLX_WEIGHTS_ERROR_LIMIT, "limit of 8" } },

  { ONE (TYPE "\"shape\":[1],\"data_offsets\":[4,0]"), { "backwards", RLX_WEIGHTS_ERROR_PARSE, "begin at 4|end at 0" } },
  { ONE (TYPE "\"shape\":[1],\"data_offsets\":[1,5]"), { "beyond the end", RLX_WEIGHTS_ERROR_TRUNCATED, "end at 5|4 bytes of data" } },
  { ONE (TYPE "\"shape\":[1],\"data_offsets\":[18446744073709551612,18446744073709551615]"),
    { "far beyond the end", RLX_WEIGHTS_ERROR_TRUNCATED, "18446744073709551615" } },
  { ONE (TYPE "\"shape\":[2],\"data_offsets\":[0,4]"), { "shape and size", RLX_WEIGHTS_ERROR_PARSE, "4 bytes by|8 by" } },
  { ONE (TYPE "\"shape\":[0],\"data_offsets\":[0,4]"), { "no elements", RLX_WEIGHTS_ERROR_PARSE, "4 bytes by|0 by" } },
  { ONE (TYPE "\"shape\":[1],\"data_offsets\":[0]"), { "one offset", RLX_WEIGHTS_ERROR_PARSE, "',' is missing" } },
  { ONE (TYPE "\"shape\":[1],\"data_offsets\":[0,4,4]"), { "three offsets", RLX_WEIGHTS_ERROR_PARSE, "']' is missing" } },
  { ONE (TYPE "\"shape\":[1],\"data_offsets\":[-4,0]"), { "negative offset", RLX_WEIGHTS_ERROR_PARSE, "“data_offsets” is “-4”" } },
  { "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}",
    { "overlap", RLX_WEIGHTS_ERROR_PARSE, "“b” begins before" } },
  { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}",
    { "gap", RLX_WEIGHTS_ERROR_PARSE, "1 bytes belong to no tensor" } },
  { "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[1,4]}}", { "gap before", RLX_WEIGHTS_ERROR_PARSE, "1 bytes belong" } },
  { "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}", { "gap after", RLX_WEIGHTS_ERROR_PARSE, "1 bytes belong" } },

  { "{\"__metadata__\":{\"a\":1}}", { "metadata with a number", RLX_WEIGHTS_ERROR_PARSE, "strings only" } },
  { "{\"__metadata__\":{\"a\":{}}}", { "metadata with an object", RLX_WEIGHTS_ERROR_PARSE, "strings only" } },
  { "{\"__metadata__\":[]}", { "metadata is an array", RLX_WEIGHTS_ERROR_PARSE, "'{' is missing" } },
  { "{\"__metadata__\":{},\"__metadata__\":{}}", { "metadata twice", RLX_WEIGHTS_ERROR_PARSE, "“__metadata__” comes twice" } },
  { "{\"__metadata__\":{" TYPE "\"shape\":[1]" PLACE "}}", { "tensor called metadata", RLX_WEIGHTS_ERROR_PARSE, "strings only" } },
  { "{\"__metadata__\":{\"a\":\"\",\"a\":\"\"},\"x\":{" TYPE "\"shape\":[1]" PLACE "}}", { "key twice", RLX_WEIGHTS_ERROR_PARSE, "two keys called “a”" } },
};

static void
test_headers (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (headers); i++)
    {
      g_autoptr(GBytes) file = rlx_test_make_simple (headers[i].header, 4);

      rlx_test_check_refused (file, 0, &headers[i].refusal);
    }
}

static void
test_lengths (void)
{
  const struct
  {
    gint64 length;
    const char *header;
    gsize header_length;
    RlxTestRefusal refusal;
  } cases[] = {
    { 0, "{}", 2, { "0", RLX_WEIGHTS_ERROR_PARSE, "is 0|At byte 0" } },
    { 1, "{}", 2, { "1", RLX_WEIGHTS_ERROR_PARSE, "is 1" } },
    { 3, "{}", 2, { "too long by 1", RLX_WEIGHTS_ERROR_TRUNCATED, "is 3|2 bytes follow" } },
    { 100000000, "{}", 2, { "the limit", RLX_WEIGHTS_ERROR_TRUNCATED, "100000000" } },
    { 100000001, "{}", 2, { "above the limit", RLX_WEIGHTS_ERROR_LIMIT, "100000001|limit is 100000000" } },
    { G_MININT64, "{}", 2, { "2⁶³", RLX_WEIGHTS_ERROR_LIMIT, "9223372036854775808" } },
    { 6, "{}\0\0\0\0", 6, { "padding of NUL", RLX_WEIGHTS_ERROR_PARSE, "after the end|At byte 10" } },
    { 5, "{\"\0\":", 5, { "NUL in a name", RLX_WEIGHTS_ERROR_PARSE, "0x00" } },
  };
  const RlxTestRefusal largest = { "2⁶⁴ - 1", RLX_WEIGHTS_ERROR_LIMIT, "18446744073709551615" };
  const RlxTestRefusal none = { "neither", RLX_WEIGHTS_ERROR_PARSE, "neither safetensors" };
  g_autoptr(GBytes) file = g_bytes_new_static ("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
  g_autoptr(GBytes) random = g_bytes_new_static ("\x80\x91\xa2\xb3\xc4\xd5\xe6\xf7\x08\x19", 10);

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr(GBytes) bytes = NULL;

      bytes = rlx_test_make_safetensors (cases[i].length, cases[i].header, cases[i].header_length, NULL, 0);
      rlx_test_check_refused (bytes, 0, &cases[i].refusal);
    }
  rlx_test_check_refused (file, 0, &largest);
  rlx_test_check_refused (random, 0, &none);
}

/* Every truncated file. */
static void
test_truncated (void)
{
  g_autoptr(GBytes) file = rlx_test_make_simple ("{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8);
  const RlxTestRefusal refusal = { "cut", RLX_WEIGHTS_ERROR_TRUNCATED, "At byte" };

  for (gsize i = 0; i < g_bytes_get_size (file); i++)
    {
      g_autoptr(GBytes) cut = g_bytes_new_from_bytes (file, 0, i);

      rlx_test_check_refused (cut, 0, &refusal);
    }
}

/* Large counts of everything, with an error at the end: memory is limited by the size of the file. */
static void
test_many (void)
{
  g_autoptr(GString) header = g_string_new ("{");
  g_autoptr(GString) pairs = g_string_new ("{\"__metadata__\":{");
  g_autoptr(GString) deep = g_string_new ("{\"x\":");
  const RlxTestRefusal last = { "a million tensors", RLX_WEIGHTS_ERROR_PARSE, "1 bytes belong to no tensor" };
  const RlxTestRefusal many = { "too many pairs", RLX_WEIGHTS_ERROR_LIMIT, "limit of 65536 pairs" };
  const RlxTestRefusal nested = { "a million levels", RLX_WEIGHTS_ERROR_PARSE, "'{' is missing" };
  g_autoptr(GBytes) file = NULL, metadata = NULL, brackets = NULL;

  for (guint i = 0; i < 1000000; i++)
    g_string_append_printf (header, "%s\"%x\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[%u,%u]}", i > 0 ? "," : "", i, i, i + 1);
  g_string_append_c (header, '}');
  file = rlx_test_make_simple (header->str, 1000001);
  rlx_test_check_refused (file, 1000001, &last);

  for (guint i = 0; i < 65537; i++)
    g_string_append_printf (pairs, "%s\"%x\":\"\"", i > 0 ? "," : "", i);
  g_string_append (pairs, "}}");
  metadata = rlx_test_make_simple (pairs->str, 0);
  rlx_test_check_refused (metadata, 0, &many);

  for (guint i = 0; i < 1000000; i++)
    g_string_append_c (deep, '[');
  brackets = rlx_test_make_simple (deep->str, 0);
  rlx_test_check_refused (brackets, 0, &nested);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/weights/safetensors/headers", test_headers);
  g_test_add_func ("/weights/safetensors/lengths", test_lengths);
  g_test_add_func ("/weights/safetensors/truncated", test_truncated);
  g_test_add_func ("/weights/safetensors/many", test_many);
  return g_test_run ();
}
