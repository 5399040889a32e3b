/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * GGUF files, right and wrong.
 */
#include "config.h"

#include "rlx-test-weights.h"

#include <string.h>

#include "ops/rlx-packed-private.h"
#include "rlx-enum-types.h"

/* Builds a file from words: "u8:", "u32:", "u64:" and "f32:" are numbers, "s:" is a string preceded by its length,
 * "pad:" fills up to a multiple, "count:" is that many bytes that count up, and everything else is text. */
static GBytes *
make_file (const char *words)
{
  GByteArray *file = g_byte_array_new ();
  g_auto(GStrv) list = g_strsplit (words, " ", -1);

  for (char **word = list; *word != NULL; word++)
    {
      const char *value = strchr (*word, ':') != NULL ? strchr (*word, ':') + 1 : "";
      guint64 number = value[0] == '-' ? (guint64) g_ascii_strtoll (value, NULL, 0) : g_ascii_strtoull (value, NULL, 0);
      guint64 little = GUINT64_TO_LE (number), length = GUINT64_TO_LE ((guint64) strlen (value));
      float f32 = (float) g_ascii_strtod (value, NULL);

      if (g_str_has_prefix (*word, "u8:"))
        g_byte_array_append (file, (const guint8 *) &little, 1);
      else if (g_str_has_prefix (*word, "u16:"))
        g_byte_array_append (file, (const guint8 *) &little, 2);
      else if (g_str_has_prefix (*word, "u32:"))
        g_byte_array_append (file, (const guint8 *) &little, 4);
      else if (g_str_has_prefix (*word, "u64:"))
        g_byte_array_append (file, (const guint8 *) &little, 8);
      else if (g_str_has_prefix (*word, "f32:"))
        g_byte_array_append (file, (const guint8 *) &f32, 4);
      else if (g_str_has_prefix (*word, "s:"))
        {
          g_byte_array_append (file, (const guint8 *) &length, 8);
          g_byte_array_append (file, (const guint8 *) value, (guint) strlen (value));
        }
      else if (g_str_has_prefix (*word, "pad:"))
        while (file->len % number != 0)
          g_byte_array_append (file, (const guint8 *) "", 1);
      else if (g_str_has_prefix (*word, "count:"))
        for (guint8 i = 0; i < number; i++)
          g_byte_array_append (file, &i, 1);
      else
        g_byte_array_append (file, (const guint8 *) *word, (guint) strlen (*word));
    }
  return g_byte_array_free_to_bytes (file);
}

#define HEAD(tensors, pairs) "GGUF u32:3 u64:" #tensors " u64:" #pairs " "
#define X(dims, type, offset) "s:x " dims " u32:" #type " u64:" #offset " "
#define ONE "u32:1 u64:4"

static const struct
{
  const char *words;
  RlxTestRefusal refusal;
} files[] = {
  { "GGUG u32:3 u64:0 u64:0", { "magic", RLX_WEIGHTS_ERROR_PARSE, "At byte 0" } },
  { "GGUF u32:0 u64:0 u64:0", { "version 0", RLX_WEIGHTS_ERROR_UNSUPPORTED, "version is 0|At byte 4" } },
  { "GGUF u32:1 u64:0 u64:0", { "version 1", RLX_WEIGHTS_ERROR_UNSUPPORTED, "version is 1" } },
  { "GGUF u32:4 u64:0 u64:0", { "version 4", RLX_WEIGHTS_ERROR_UNSUPPORTED, "version is 4" } },
  { "GGUF u32:0x03000000 u64:0 u64:0", { "big-endian", RLX_WEIGHTS_ERROR_UNSUPPORTED, "big-endian" } },

  { HEAD (0x1000000000000000, 0), { "2⁶⁰ tensors", RLX_WEIGHTS_ERROR_LIMIT, "tensors is 1152921504606846976|1048576|At byte 8" } },
  { HEAD (0x8000000000000000, 0), { "2⁶³ tensors", RLX_WEIGHTS_ERROR_LIMIT, "9223372036854775808" } },
  { HEAD (-1, 0), { "-1 tensors", RLX_WEIGHTS_ERROR_LIMIT, "18446744073709551615" } },
  { HEAD (0x0555555555555556, 0), { "tensors that wrap", RLX_WEIGHTS_ERROR_LIMIT, "tensors is" } },
  { HEAD (2, 0) X (ONE, 0, 0), { "fewer tensors", RLX_WEIGHTS_ERROR_TRUNCATED, "room for 1" } },
  { HEAD (0, 0x1000000000000000), { "2⁶⁰ pairs", RLX_WEIGHTS_ERROR_LIMIT, "pairs is 1152921504606846976|At byte 16" } },
  { HEAD (0, 0x8000000000000000), { "2⁶³ pairs", RLX_WEIGHTS_ERROR_LIMIT, "pairs is" } },
  { HEAD (0, -1), { "-1 pairs", RLX_WEIGHTS_ERROR_LIMIT, "18446744073709551615|65536" } },
  { HEAD (0, 2) "s:a u32:0 u8:1", { "fewer pairs", RLX_WEIGHTS_ERROR_TRUNCATED, "room for 1" } },

  { HEAD (0, 1) "u64:-1 a u32:0 u8:0 count:20", { "key of 2⁶⁴ - 1", RLX_WEIGHTS_ERROR_LIMIT, "18446744073709551615|65535|At byte 24" } },
  { HEAD (0, 1) "u64:65536 a u32:0 u8:0 count:20", { "key of 64 KiB", RLX_WEIGHTS_ERROR_LIMIT, "65536" } },
  { HEAD (0, 1) "u64:60 a u32:0 u8:0 count:20", { "key beyond the end", RLX_WEIGHTS_ERROR_TRUNCATED, "a key: 60" } },
  { HEAD (0, 1) "s: u32:0 u8:0 count:20", { "empty key", RLX_WEIGHTS_ERROR_PARSE, "empty" } },
  { HEAD (0, 1) "s:\xff u32:0 u8:0 count:20", { "key not UTF-8", RLX_WEIGHTS_ERROR_PARSE, "UTF-8" } },
  { HEAD (0, 1) "u64:2 a u8:0 u32:0 u8:0 count:20", { "NUL in a key", RLX_WEIGHTS_ERROR_PARSE, "NUL" } },
  { HEAD (0, 2) "s:a u32:0 u8:0 s:a u32:0 u8:1", { "key twice", RLX_WEIGHTS_ERROR_PARSE, "two keys called “a”" } },
  { HEAD (0, 1) "s:a u32:13 u8:0", { "type 13", RLX_WEIGHTS_ERROR_UNSUPPORTED, "value is 13|12" } },
  { HEAD (0, 1) "s:a u32:-1 u8:0", { "type -1", RLX_WEIGHTS_ERROR_UNSUPPORTED, "value is 4294967295" } },
  { HEAD (0, 1) "s:a u32:7 u8:2", { "boolean", RLX_WEIGHTS_ERROR_PARSE, "boolean is 2" } },
  { HEAD (0, 1) "s:a u32:10 u32:0", { "number cut", RLX_WEIGHTS_ERROR_TRUNCATED, "8 bytes are needed, 4" } },
  { HEAD (0, 1) "s:a u32:8 u64:-1 x", { "string of 2⁶⁴ - 1", RLX_WEIGHTS_ERROR_TRUNCATED, "18446744073709551615" } },
  { HEAD (0, 1) "s:a u32:8 u64:2 x", { "string cut", RLX_WEIGHTS_ERROR_TRUNCATED, "2 bytes are needed, 1" } },
  { HEAD (0, 1) "s:a u32:9 u32:0 u64:0x1000000000000000 x", { "array of 2⁶⁰", RLX_WEIGHTS_ERROR_TRUNCATED, "1152921504606846976|room for 1" } },
  { HEAD (0, 1) "s:a u32:9 u32:6 u64:2 u32:0", { "array of floats cut", RLX_WEIGHTS_ERROR_TRUNCATED, "room for 1" } },
  { HEAD (0, 1) "s:a u32:9 u32:10 u64:0x2000000000000001 u64:0", { "array that wraps", RLX_WEIGHTS_ERROR_TRUNCATED, "room for 1" } },
  { HEAD (0, 1) "s:a u32:9 u32:8 u64:2 s:x", { "array of strings cut", RLX_WEIGHTS_ERROR_TRUNCATED, "room for 1" } },
  { HEAD (0, 1) "s:a u32:9 u32:13 u64:0x1000000000000000", { "array of unknown", RLX_WEIGHTS_ERROR_UNSUPPORTED, "elements is 13" } },
  { HEAD (0, 1) "s:a u32:9 u32:9 u64:1 u32:9 u64:1 u32:0 u64:0", { "array of arrays", RLX_WEIGHTS_ERROR_UNSUPPORTED, "arrays in it" } },
  { HEAD (0, 1) "s:a u32:9 u32:7 u64:2 u8:1 u8:7", { "array of booleans", RLX_WEIGHTS_ERROR_PARSE, "boolean is 7" } },

  { HEAD (0, 1) "s:general.alignment u32:4 u32:0", { "alignment 0", RLX_WEIGHTS_ERROR_PARSE, "alignment” is 0|65536" } },
  { HEAD (0, 1) "s:general.alignment u32:4 u32:24", { "alignment 24", RLX_WEIGHTS_ERROR_PARSE, "is 24" } },
  { HEAD (0, 1) "s:general.alignment u32:4 u32:0x80000000", { "alignment 2³¹", RLX_WEIGHTS_ERROR_PARSE, "is 2147483648" } },
  { HEAD (0, 1) "s:general.alignment u32:10 u64:32", { "alignment of 64 bits", RLX_WEIGHTS_ERROR_PARSE, "type 10" } },
  { HEAD (0, 1) "s:general.alignment u32:8 s:32", { "alignment is text", RLX_WEIGHTS_ERROR_PARSE, "type 8" } },

  { HEAD (1, 0) "s:abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklm " ONE " u32:0 u64:0 pad:32 count:16",
    { "name of 65 bytes", RLX_WEIGHTS_ERROR_LIMIT, "is 65; the limit is 64" } },
  { HEAD (1, 0) "s: " ONE " u32:0 u64:0 pad:32 count:16", { "empty name", RLX_WEIGHTS_ERROR_PARSE, "empty" } },
  { HEAD (1, 0) "s:../x " ONE " u32:0 u64:0 pad:32 count:16", { "way out", RLX_WEIGHTS_ERROR_PARSE, "leads out" } },
  { HEAD (1, 0) "u64:3 a u8:0 b " ONE " u32:0 u64:0 pad:32 count:16", { "NUL in a name", RLX_WEIGHTS_ERROR_PARSE, "NUL" } },
  { HEAD (2, 0) X (ONE, 0, 0) X (ONE, 0, 32) "pad:32 count:48", { "name twice", RLX_WEIGHTS_ERROR_PARSE, "two tensors called “x”" } },
  { HEAD (1, 0) X ("u32:0 u64:1", 0, 0) "pad:32 count:16", { "no dimensions", RLX_WEIGHTS_ERROR_PARSE, "dimensions is 0" } },
  { HEAD (1, 0) X ("u32:5 u64:1 u64:1 u64:1 u64:1 u64:1", 0, 0) "pad:32 count:16", { "5 dimensions", RLX_WEIGHTS_ERROR_LIMIT, "dimensions is 5|4" } },
  { HEAD (1, 0) X ("u32:-1 u64:1", 0, 0) "pad:32 count:16", { "many dimensions", RLX_WEIGHTS_ERROR_LIMIT, "4294967295" } },
  { HEAD (1, 0) X ("u32:1 u64:-1", 0, 0) "pad:32 count:16", { "negative", RLX_WEIGHTS_ERROR_LIMIT, "18446744073709551615" } },
  { HEAD (1, 0) X ("u32:1 u64:0x7ffffffffffffffd", 0, 0) "pad:32 count:16", { "2⁶³ - 3", RLX_WEIGHTS_ERROR_LIMIT, "9223372036854775805" } },
  { HEAD (1, 0) X ("u32:2 u64:0xffffffff u64:0xffffffff", 0, 0) "pad:32 count:16", { "product", RLX_WEIGHTS_ERROR_LIMIT, "shape of “x”" } },
  { HEAD (1, 0) X ("u32:4 u64:65536 u64:65536 u64:65536 u64:65536", 8, 0) "pad:32 count:16", { "exabytes", RLX_WEIGHTS_ERROR_LIMIT, "shape of “x”" } },
  { HEAD (1, 0) X ("u32:1 u64:48", 2, 0) "pad:32 count:48", { "half a block", RLX_WEIGHTS_ERROR_PARSE, "q4-0|block of 32" } },
  { HEAD (1, 0) X ("u32:2 u64:128 u64:2", 12, 0) "pad:32 count:144", { "a block in two rows", RLX_WEIGHTS_ERROR_PARSE, "q4-k|block of 256" } },
  { HEAD (1, 0) X (ONE, 4, 0) "pad:32 count:16", { "type 4", RLX_WEIGHTS_ERROR_UNSUPPORTED, "tensor is 4" } },
  { HEAD (1, 0) X (ONE, 5, 0) "pad:32 count:16", { "type 5", RLX_WEIGHTS_ERROR_UNSUPPORTED, "tensor is 5" } },
  { HEAD (1, 0) X (ONE, 31, 0) "pad:32 count:16", { "type 31", RLX_WEIGHTS_ERROR_UNSUPPORTED, "tensor is 31" } },
  { HEAD (1, 0) X (ONE, 1004, 0) "pad:32 count:16", { "a type of ours", RLX_WEIGHTS_ERROR_UNSUPPORTED, "tensor is 1004" } },
  { HEAD (1, 0) X (ONE, -1, 0) "pad:32 count:16", { "type -1", RLX_WEIGHTS_ERROR_UNSUPPORTED, "4294967295" } },
  { HEAD (1, 0) X (ONE, 0x80000000, 0) "pad:32 count:16", { "type 2³¹", RLX_WEIGHTS_ERROR_UNSUPPORTED, "2147483648" } },
  { HEAD (1, 0) X (ONE, 0, 16) "pad:32 count:64", { "alignment", RLX_WEIGHTS_ERROR_PARSE, "is 16, not a multiple|32" } },
  { HEAD (1, 0) X (ONE, 0, 32) "pad:32 count:32", { "past the end", RLX_WEIGHTS_ERROR_TRUNCATED, "“x” is 16 bytes at 32|32 bytes" } },
  { HEAD (1, 0) X (ONE, 0, -32) "pad:32 count:32", { "2⁶⁴ - 32", RLX_WEIGHTS_ERROR_TRUNCATED, "18446744073709551584" } },
  { HEAD (1, 0) X (ONE, 0, 0), { "no data", RLX_WEIGHTS_ERROR_TRUNCATED, "0 bytes" } },
  { HEAD (1, 0) X (ONE, 0, 0) "pad:32 count:15", { "short by 1", RLX_WEIGHTS_ERROR_TRUNCATED, "15 bytes" } },
  { HEAD (2, 0) X (ONE, 0, 0) "s:y " ONE " u32:0 u64:0 pad:32 count:48", { "overlap", RLX_WEIGHTS_ERROR_PARSE, "begins before" } },
};

static void
test_wrong (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (files); i++)
    {
      g_autoptr(GBytes) file = make_file (files[i].words);

      /* Without the magic the intended format is unknown. */
      if (i == 0)
        {
          g_autoptr(GError) error = NULL;

          g_autoptr(RlxSource) source = rlx_source_new_for_bytes (file);
          g_autoptr(RlxManifest) manifest = rlx_manifest_new ();

          g_assert_false (rlx_gguf_read (source, manifest, NULL, &error));
          g_assert_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_PARSE);
        }
      else
        rlx_test_check_refused (file, 0, &files[i].refusal);
    }
}

#define WHOLE \
  HEAD (1, 15) REST

#define REST \
  "s:u8 u32:0 u8:200 s:i8 u32:1 u8:-3 s:u16 u32:2 u16:60000 s:i16 u32:3 u16:-5 s:u32 u32:4 u32:4000000000 s:i32 u32:5 u32:-7 " \
  "s:f32 u32:6 f32:0.5 s:bool u32:7 u8:1 s:string u32:8 s:text s:u64 u32:10 u64:-1 s:i64 u32:11 u64:-9 " \
  "s:f64 u32:12 u64:0x3ff8000000000000 s:list u32:9 u32:5 u64:2 u32:1 u32:-2 s:words u32:9 u32:8 u64:3 s:one s: s:three " \
  "s:general.alignment u32:4 u32:64 " \
  "s:w u32:2 u64:3 u64:2 u32:24 u64:64 pad:64 count:70"

static void
test_truncated (void)
{
  g_autoptr(GBytes) file = make_file (WHOLE);

  for (gsize i = 1; i < g_bytes_get_size (file); i++)
    {
      g_autoptr(GBytes) cut = g_bytes_new_from_bytes (file, 0, i);
      g_autoptr(GError) error = NULL;

      g_assert_null (rlx_weights_new_from_bytes (cut, &error));
      g_assert_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_TRUNCATED);
    }
}

static void
test_right (void)
{
  g_autoptr(GBytes) file = make_file (WHOLE);
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxWeights) weights = rlx_weights_new_from_bytes (file, &error);
  g_autoptr(GVariant) expected = g_variant_ref_sink (g_variant_new_parsed (
    "{'u8': <byte 200>, 'i8': <int16 -3>, 'u16': <uint16 60000>, 'i16': <int16 -5>, 'u32': <uint32 4000000000>, 'i32': <int32 -7>,"
    " 'f32': <0.5>, 'bool': <true>, 'string': <'text'>, 'u64': <uint64 18446744073709551615>, 'i64': <int64 -9>, 'f64': <1.5>,"
    " 'list': <[1, -2]>, 'words': <['one', '', 'three']>, 'general.alignment': <uint32 64>}"));
  g_autoptr(RlxTensor) tensor = NULL;
  const gint64 *shape;
  gsize n_dims;

  g_assert_no_error (error);
  g_assert_cmpint (rlx_weights_get_format (weights), ==, RLX_WEIGHTS_FORMAT_GGUF);
  g_assert_true (g_variant_is_normal_form (rlx_weights_get_metadata (weights)));
  g_assert_cmpvariant (rlx_weights_get_metadata (weights), expected);
  tensor = rlx_weights_load_tensor (weights, "w", NULL, &error);
  g_assert_no_error (error);
  shape = rlx_tensor_get_shape (tensor, &n_dims);
  g_assert_cmpmem (shape, n_dims * 8, ((gint64[]) { 2, 3 }), 16);
  g_assert_cmpfloat (rlx_tensor_get_value (tensor, 0), ==, 64);
  g_assert_cmpfloat (rlx_tensor_get_value (tensor, 5), ==, 69);
}

/* The previous version has the same layout. */
static void
test_version2 (void)
{
  g_autoptr(GBytes) file = make_file (WHOLE), old = make_file ("GGUF u32:2 u64:1 u64:15 " REST);
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxWeights) weights = rlx_weights_new_from_bytes (file, &error), before = NULL;
  g_autoptr(RlxTensor) tensor = NULL, same = NULL;

  g_assert_no_error (error);
  before = rlx_weights_new_from_bytes (old, &error);
  g_assert_no_error (error);
  g_assert_cmpvariant (rlx_weights_get_metadata (before), rlx_weights_get_metadata (weights));
  tensor = rlx_weights_load_tensor (weights, "w", NULL, &error);
  same = rlx_weights_load_tensor (before, "w", NULL, &error);
  g_assert_no_error (error);
  g_assert_true (rlx_tensor_equal (tensor, same));
}

static void
put_name (GByteArray *file,
          guint       number)
{
  g_autofree char *name = g_strdup_printf ("%x", number);

  rlx_test_put (file, strlen (name), 8);
  g_byte_array_append (file, (const guint8 *) name, (guint) strlen (name));
}

static GByteArray *
start_file (guint64 n_tensors,
            guint64 n_pairs)
{
  GByteArray *file = g_byte_array_new ();

  g_byte_array_append (file, (const guint8 *) "GGUF", 4);
  rlx_test_put (file, 3, 4);
  rlx_test_put (file, n_tensors, 8);
  rlx_test_put (file, n_pairs, 8);
  return file;
}

/* Large counts of everything, with an error at the end: memory is limited by the size of the file. */
static void
test_many (void)
{
  const guint n_tensors = 1000000, n_pairs = 65536, n_strings = 4000000;
  const RlxTestRefusal last = { "a million tensors", RLX_WEIGHTS_ERROR_TRUNCATED, "“f423f” is 4 bytes at 0|0 bytes" };
  const RlxTestRefusal twice = { "all keys but one", RLX_WEIGHTS_ERROR_PARSE, "two keys called “0”, the other one at byte 24" };
  const RlxTestRefusal strings = { "strings", RLX_WEIGHTS_ERROR_UNSUPPORTED, "value is 13" };
  GByteArray *tensors = start_file (n_tensors, 0), *pairs = start_file (0, n_pairs), *array = start_file (0, 2);
  g_autoptr(GBytes) one = NULL, two = NULL, three = NULL;

  for (guint i = 0; i < n_tensors; i++)
    {
      put_name (tensors, i);
      rlx_test_put (tensors, 1, 4);
      rlx_test_put (tensors, i + 1 == n_tensors, 8);
      rlx_test_put (tensors, 0, 4);
      rlx_test_put (tensors, 0, 8);
    }
  one = g_byte_array_free_to_bytes (tensors);
  rlx_test_check_refused (one, 0, &last);

  for (guint i = 0; i < n_pairs; i++)
    {
      put_name (pairs, (i + 1) % n_pairs != 0 ? i : 0);
      rlx_test_put (pairs, 7, 4);
      rlx_test_put (pairs, 1, 1);
    }
  two = g_byte_array_free_to_bytes (pairs);
  rlx_test_check_refused (two, 0, &twice);

  put_name (array, 0);
  rlx_test_put (array, 9, 4);
  rlx_test_put (array, 8, 4);
  rlx_test_put (array, n_strings, 8);
  for (guint i = 0; i < n_strings; i++)
    rlx_test_put (array, 0, 8);
  put_name (array, 1);
  rlx_test_put (array, 13, 8);
  three = g_byte_array_free_to_bytes (array);
  rlx_test_check_refused (three, 0, &strings);
}

/* Strings that are not valid text, and so many that their offsets take one, two or four bytes. */
static void
test_strings (void)
{
  g_autoptr(GBytes) odd = make_file (HEAD (0, 3) "s:a u32:8 s:\xff s:b u32:9 u32:8 u64:3 s:x s:\xfe\xff s: s:c u32:9 u32:8 u64:0");
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxWeights) weights = rlx_weights_new_from_bytes (odd, &error);
  g_autoptr(GVariant) expected = g_variant_ref_sink (g_variant_new_parsed ("{'a': <[byte 0xff]>, 'b': <[[byte 0x78], [0xfe, 0xff], []]>, 'c': <@as []>}"));
  const guint counts[] = { 1, 40, 90, 20000, 70000 };

  g_assert_no_error (error);
  g_assert_true (g_variant_is_normal_form (rlx_weights_get_metadata (weights)));
  g_assert_cmpvariant (rlx_weights_get_metadata (weights), expected);

  for (guint i = 0; i < G_N_ELEMENTS (counts); i++)
    {
      g_autoptr(GString) words = g_string_new (HEAD (0, 1) "s:a u32:9 u32:8");
      g_autoptr(GBytes) file = NULL;
      g_autoptr(RlxWeights) many = NULL;
      g_autoptr(GVariant) value = NULL;

      g_string_append_printf (words, " u64:%u", counts[i]);
      for (guint j = 0; j < counts[i]; j++)
        g_string_append_printf (words, " s:%u", j);
      file = make_file (words->str);
      many = rlx_weights_new_from_bytes (file, &error);
      g_assert_no_error (error);
      value = g_variant_lookup_value (rlx_weights_get_metadata (many), "a", G_VARIANT_TYPE ("as"));
      g_assert_true (g_variant_is_normal_form (value));
      g_assert_cmpuint (g_variant_n_children (value), ==, counts[i]);
      for (guint j = 0; j < counts[i]; j++)
        {
          g_autoptr(GVariant) child = g_variant_get_child_value (value, j);

          g_assert_cmpuint (g_ascii_strtoull (g_variant_get_string (child, NULL), NULL, 10), ==, j);
        }
    }
}

/* Every packed type, in the form that its operators take. */
static void
test_packed (void)
{
  g_autoptr(GEnumClass) klass = g_type_class_ref (RLX_TYPE_PACKED_TYPE);
  guint n = 0;

  for (guint i = 0; i < klass->n_values; i++)
    {
      const GEnumValue *type = &klass->values[i];
      guint numbers, bytes;
      g_autofree char *words = NULL;
      g_autoptr(GBytes) file = NULL, loaded = NULL;
      g_autoptr(GError) error = NULL;
      g_autoptr(RlxWeights) weights = NULL;
      g_autoptr(RlxWeightsEntry) entry = NULL;
      g_autoptr(RlxTensor) tensor = NULL;
      const gint64 *shape;
      gsize n_dims;

      if (type->value >= 1000)
        continue;
      n++;
      rlx_packed_type_get_block ((RlxPackedType) type->value, &numbers, &bytes);
      words = g_strdup_printf (HEAD (1, 0) "s:w u32:2 u64:%u u64:3 u32:%d u64:0 pad:32 count:200 count:200 count:200 count:200 count:200 count:200 count:200 count:200 count:200", numbers * 2, type->value);
      file = make_file (words);
      weights = rlx_weights_new_from_bytes (file, &error);
      g_assert_no_error (error);
      entry = rlx_weights_lookup (weights, "w");
      g_assert_cmpstr (rlx_weights_entry_get_type_name (entry), ==, type->value_nick);
      g_assert_true (rlx_weights_entry_is_packed (entry));
      g_assert_cmpint (rlx_weights_entry_get_packed_type (entry), ==, type->value);
      g_assert_cmpuint (rlx_weights_entry_get_size (entry), ==, 6 * bytes);
      shape = rlx_weights_entry_get_shape (entry, &n_dims);
      g_assert_cmpmem (shape, n_dims * 8, ((gint64[]) { 3, numbers * 2 }), 16);
      tensor = rlx_weights_load_tensor (weights, "w", NULL, &error);
      g_assert_no_error (error);
      if (type->value == RLX_PACKED_TYPE_BF16)
        continue;
      g_assert_cmpint (rlx_tensor_get_data_type (tensor), ==, RLX_DATA_TYPE_U8);
      shape = rlx_tensor_get_shape (tensor, &n_dims);
      g_assert_cmpmem (shape, n_dims * 8, ((gint64[]) { 3, bytes * 2 }), 16);
      loaded = rlx_weights_load_bytes (weights, "w", NULL, &error);
      g_assert_true (g_bytes_equal (loaded, rlx_tensor_get_bytes (tensor)));
    }
  g_assert_cmpuint (n, ==, 27);
}

/* Dimensions of 0 are valid, and there is no division by them. */
static void
test_empty (void)
{
  g_autoptr(GBytes) file = make_file (HEAD (2, 0) "s:x u32:2 u64:32 u64:0 u32:2 u64:0 s:y u32:2 u64:0 u64:5 u32:0 u64:0");
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxWeights) weights = rlx_weights_new_from_bytes (file, &error);
  g_autoptr(RlxTensor) tensor = NULL;

  g_assert_no_error (error);
  tensor = rlx_weights_load_tensor (weights, "x", NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpint (rlx_tensor_get_n_elements (tensor), ==, 0);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/weights/gguf/right", test_right);
  g_test_add_func ("/weights/gguf/version-2", test_version2);
  g_test_add_func ("/weights/gguf/strings", test_strings);
  g_test_add_func ("/weights/gguf/packed", test_packed);
  g_test_add_func ("/weights/gguf/empty", test_empty);
  g_test_add_func ("/weights/gguf/wrong", test_wrong);
  g_test_add_func ("/weights/gguf/truncated", test_truncated);
  g_test_add_func ("/weights/gguf/many", test_many);
  return g_test_run ();
}
