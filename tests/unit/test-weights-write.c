/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Files of weights that are written, and read again.
 */
#include "config.h"

#include "rlx-test-weights.h"

#include <string.h>

#include "rlx-test-npy.h"

static void
test_safetensors (void)
{
  g_autofree char *folder = g_dir_make_tmp ("rlx-weights-XXXXXX", NULL);
  g_autofree char *path = g_build_filename (folder, "a.safetensors", NULL);
  g_autofree char *missing = g_build_filename (folder, "nothing", "a.safetensors", NULL);
  g_autoptr(GFile) file = g_file_new_for_path (path), nowhere = g_file_new_for_path (missing);
  const char *names[] = { "bytes", "a \"b\"\\ü", "none", NULL }, *twice[] = { "x", "x", "y", NULL };
  const char *reserved[] = { "a", "b", "__metadata__", NULL }, *outside[] = { "a", "b", "../c", NULL };
  g_autoptr(RlxTensor) bytes = rlx_tensor_new_from_ints (RLX_DATA_TYPE_U8, (gint64[]) { 3 }, 1, (gint64[]) { 1, 2, 3 }, 3, NULL);
  g_autoptr(RlxTensor) floats = rlx_tensor_new_from_floats ((gint64[]) { 1, 2 }, 2, (float[]) { 1.5f, -2 }, 2, NULL);
  g_autoptr(RlxTensor) none = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I64, (gint64[]) { 0, 4 }, 2, NULL, 0, NULL);
  g_autoptr(RlxTensor) small = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I4, (gint64[]) { 2 }, 1, (gint64[]) { 1, 2 }, 2, NULL);
  RlxTensor *tensors[] = { bytes, floats, none }, *odd[] = { bytes, floats, small };
  g_autoptr(GVariant) metadata = g_variant_ref_sink (g_variant_new_parsed ("{'format': 'pt', 'line': 'a\\nb'}"));
  g_autoptr(GVariant) expected = g_variant_ref_sink (g_variant_new_parsed ("{'format': <'pt'>, 'line': <'a\\nb'>}"));
  g_autoptr(GCancellable) cancelled = g_cancellable_new ();
  g_autoptr(RlxWeights) weights = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(GAsyncResult) owned = NULL;
  GAsyncResult *result = NULL;
  g_autofree char *before = NULL, *after = NULL;
  gsize size, size_after;

  rlx_weights_write_safetensors (file, names, tensors, 3, metadata, NULL, &error);
  g_assert_no_error (error);
  weights = rlx_weights_open (file, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpvariant (rlx_weights_get_metadata (weights), expected);
  for (guint i = 0; i < 3; i++)
    {
      g_autoptr(RlxTensor) loaded = rlx_weights_load_tensor (weights, names[i], NULL, &error);
      g_autoptr(RlxWeightsEntry) entry = rlx_weights_lookup (weights, names[i]);

      g_assert_no_error (error);
      g_assert_true (rlx_tensor_equal (loaded, tensors[i]));
      g_assert_cmpuint (rlx_weights_entry_get_offset (entry) % rlx_data_type_get_size (rlx_tensor_get_data_type (loaded)), ==, 0);
    }

  /* A rejected call leaves the file as it was. */
  g_assert_true (g_file_get_contents (path, &before, &size, NULL));
  g_assert_false (rlx_weights_write_safetensors (file, twice, tensors, 3, NULL, NULL, &error));
  g_assert_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_PARSE);
  g_clear_error (&error);
  g_assert_false (rlx_weights_write_safetensors (file, outside, tensors, 3, NULL, NULL, &error));
  g_assert_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_PARSE);
  g_clear_error (&error);
  g_assert_false (rlx_weights_write_safetensors (file, reserved, tensors, 3, NULL, NULL, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT);
  g_clear_error (&error);
  g_assert_false (rlx_weights_write_safetensors (file, names, odd, 3, NULL, NULL, &error));
  g_assert_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_DATA_TYPE);
  g_clear_error (&error);
  g_assert_false (rlx_weights_write_safetensors (file, names, tensors, 2, NULL, NULL, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT);
  g_clear_error (&error);
  g_assert_false (rlx_weights_write_safetensors (file, names, tensors, 3, g_variant_new_string ("x"), NULL, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT);
  g_clear_error (&error);
  g_cancellable_cancel (cancelled);
  g_assert_false (rlx_weights_write_safetensors (file, names, tensors, 3, NULL, cancelled, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_clear_error (&error);
  g_assert_true (g_file_get_contents (path, &after, &size_after, NULL));
  g_assert_cmpmem (before, size, after, size_after);

  g_assert_false (rlx_weights_write_safetensors (nowhere, names, tensors, 3, NULL, NULL, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND);
  g_clear_error (&error);

  rlx_weights_write_safetensors_async (file, names + 3, NULL, 0, NULL, NULL, rlx_test_keep_result, &result);
  owned = rlx_test_wait_for (&result);
  rlx_weights_write_safetensors_finish (owned, &error);
  g_assert_no_error (error);
  g_clear_object (&weights);
  weights = rlx_weights_open (file, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (g_list_model_get_n_items (G_LIST_MODEL (weights)), ==, 0);
  rlx_test_remove_tree (folder);
}

#define N_TYPES (RLX_DATA_TYPE_U2 + 1)

/* A tensor of every type, one of them empty. */
static void
make_tensors (char      **names,
              RlxTensor **tensors)
{
  static const gint64 all[] = { 0, 1, 7 }, few[] = { 1, 1, 1 };

  for (guint i = 0; i < N_TYPES; i++)
    {
      RlxDataType data_type = (RlxDataType) i;
      /* Values that all types can represent. */
      const gint64 *values = data_type > RLX_DATA_TYPE_U4 ? few : all;
      g_autoptr(GError) error = NULL;

      names[i] = g_strdup_printf ("%s/größe", rlx_data_type_to_string (data_type));
      tensors[i] = data_type == RLX_DATA_TYPE_BOOL ? rlx_tensor_new_from_ints (data_type, SHAPE (0, 4), NULL, 0, &error)
                                                   : rlx_tensor_new_from_ints (data_type, SHAPE (3, 1), values, 3, &error);
      g_assert_no_error (error);
    }
}

static void
test_npz (void)
{
  g_autofree char *folder = g_dir_make_tmp ("rlx-weights-XXXXXX", NULL), *path = g_build_filename (folder, "a.npz", NULL);
  g_autoptr(GFile) file = g_file_new_for_path (path);
  g_auto(GStrv) names = g_new0 (char *, N_TYPES + 1);
  RlxTensor *tensors[N_TYPES];
  g_autoptr(GError) error = NULL;

  make_tensors (names, tensors);
  for (guint deflated = 0; deflated < 2; deflated++)
    {
      g_autoptr(RlxWeights) weights = NULL;
      g_autofree char *first = NULL, *second = NULL;
      gsize size, size_again;

      rlx_weights_write_npz (file, (const char *const *) names, tensors, N_TYPES, deflated, NULL, &error);
      g_assert_no_error (error);
      weights = rlx_weights_open (file, NULL, &error);
      g_assert_no_error (error);
      g_assert_cmpint (rlx_weights_get_format (weights), ==, RLX_WEIGHTS_FORMAT_NPZ);
      for (guint i = 0; i < N_TYPES; i++)
        {
          g_autoptr(RlxTensor) loaded = rlx_weights_load_tensor (weights, names[i], NULL, &error);
          g_autofree char *text = rlx_tensor_to_string (tensors[i]), *again = NULL;

          g_assert_no_error (error);
          again = rlx_tensor_to_string (loaded);
          g_assert_cmpstr (text, ==, again);
          if (rlx_tensor_get_data_type (tensors[i]) < RLX_DATA_TYPE_I4)
            g_assert_true (rlx_tensor_equal (loaded, tensors[i]));
        }
      /* The same tensors give the same bytes. */
      g_assert_true (g_file_get_contents (path, &first, &size, NULL));
      rlx_weights_write_npz (file, (const char *const *) names, tensors, N_TYPES, deflated, NULL, &error);
      g_assert_no_error (error);
      g_assert_true (g_file_get_contents (path, &second, &size_again, NULL));
      g_assert_cmpmem (first, size, second, size_again);
    }
  for (guint i = 0; i < N_TYPES; i++)
    g_object_unref (tensors[i]);
  rlx_test_remove_tree (folder);
}

static void
test_gguf (void)
{
  g_autofree char *folder = g_dir_make_tmp ("rlx-weights-XXXXXX", NULL), *path = g_build_filename (folder, "a.gguf", NULL);
  g_autoptr(GFile) file = g_file_new_for_path (path);
  const char *names[] = { "w", "scalar", "none", NULL }, *one[] = { "w", NULL };
  g_autofree char *long_name = g_strnfill (65, 'x');
  const char *too_long[] = { long_name, NULL };
  g_autoptr(RlxTensor) w = rlx_tensor_new_from_floats ((gint64[]) { 2, 3 }, 2, (float[]) { 1, 2, 3, 4, 5, 6 }, 6, NULL);
  g_autoptr(RlxTensor) scalar = rlx_tensor_new_scalar (RLX_DATA_TYPE_I64, 7, NULL);
  g_autoptr(RlxTensor) none = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I8, (gint64[]) { 0, 4 }, 2, NULL, 0, NULL);
  g_autoptr(RlxTensor) byte = rlx_tensor_new_scalar (RLX_DATA_TYPE_U8, 7, NULL);
  g_autoptr(RlxTensor) deep = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I8, (gint64[]) { 1, 1, 1, 1, 1 }, 5, (gint64[]) { 1 }, 1, NULL);
  RlxTensor *tensors[] = { w, scalar, none };
  g_autoptr(GVariant) metadata = g_variant_ref_sink (g_variant_new_parsed (
    "{'general.architecture': <'llama'>, 'general.alignment': <uint32 4096>, 'b': <true>, 'y': <byte 200>, 'n': <int16 -5>, 'q': <uint16 60000>,"
    " 'i': <-7>, 'u': <uint32 8>, 'x': <int64 -9>, 't': <uint64 10>, 'd': <0.5>, 'exact': <0.1>, 'words': <['a', '', 'größe']>,"
    " 'none': <@as []>, 'odd': <[[byte 0xff], []]>, 'floats': <[0.5, 1.25]>, 'doubles': <[0.5, 0.1]>, 'bytes': <[byte 1, 2]>, 'bools': <[true, false]>}"));
  g_autoptr(GVariant) expected = NULL;
  g_autoptr(RlxWeights) weights = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(GAsyncResult) owned = NULL;
  GAsyncResult *result = NULL;
  g_autofree char *contents = NULL;
  GVariantDict dict;
  gsize size;

  rlx_weights_write_gguf (file, names, tensors, 3, metadata, NULL, &error);
  g_assert_no_error (error);
  weights = rlx_weights_open (file, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpint (rlx_weights_get_format (weights), ==, RLX_WEIGHTS_FORMAT_GGUF);
  g_variant_dict_init (&dict, metadata);
  g_variant_dict_remove (&dict, "general.alignment");
  expected = g_variant_ref_sink (g_variant_dict_end (&dict));
  g_assert_cmpuint (g_variant_n_children (rlx_weights_get_metadata (weights)), ==, g_variant_n_children (expected));
  for (gsize i = 0; i < g_variant_n_children (expected); i++)
    {
      g_autoptr(GVariant) pair = g_variant_get_child_value (expected, i), value = NULL, found = NULL;
      const char *key;

      g_variant_get (pair, "{&sv}", &key, &value);
      found = g_variant_lookup_value (rlx_weights_get_metadata (weights), key, NULL);
      g_assert_cmpvariant (found, value);
    }
  for (guint i = 0; i < 3; i++)
    {
      g_autoptr(RlxTensor) loaded = rlx_weights_load_tensor (weights, names[i], NULL, &error);
      g_autofree char *text = rlx_tensor_to_string (tensors[i]), *again = NULL;
      g_autoptr(RlxWeightsEntry) entry = rlx_weights_lookup (weights, names[i]);

      g_assert_no_error (error);
      again = rlx_tensor_to_string (loaded);
      g_assert_cmpstr (again, ==, i == 1 ? "[7]" : text);
      g_assert_cmpuint (rlx_weights_entry_get_offset (entry) % 32, ==, 0);
    }

  /* 0.5 is a 32-bit float in the file, 0.1 a 64-bit one. */
  g_assert_true (g_file_get_contents (path, &contents, &size, NULL));
  g_assert_nonnull (memmem (contents, size, "\1\0\0\0\0\0\0\0d\6\0\0\0\0\0\0\x3f", 17));
  g_assert_nonnull (memmem (contents, size, "\5\0\0\0\0\0\0\0exact\x0c\0\0\0", 17));

  g_assert_false (rlx_weights_write_gguf (file, one, (RlxTensor *[]) { byte }, 1, NULL, NULL, &error));
  g_assert_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_DATA_TYPE);
  g_clear_error (&error);
  g_assert_false (rlx_weights_write_gguf (file, one, (RlxTensor *[]) { deep }, 1, NULL, NULL, &error));
  g_assert_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_LIMIT);
  g_clear_error (&error);
  g_assert_false (rlx_weights_write_gguf (file, too_long, &w, 1, NULL, NULL, &error));
  g_assert_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_LIMIT);
  g_clear_error (&error);
  g_assert_false (rlx_weights_write_gguf (file, one, &w, 1, g_variant_new_parsed ("{'a': <(1, 2)>}"), NULL, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT);
  g_assert_nonnull (strstr (error->message, "(ii)"));
  g_clear_error (&error);
  g_assert_false (rlx_weights_write_gguf (file, one, &w, 1, g_variant_new_parsed ("{'': <1>}"), NULL, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT);
  g_clear_error (&error);

  rlx_weights_write_gguf_async (file, names + 3, NULL, 0, NULL, NULL, rlx_test_keep_result, &result);
  owned = rlx_test_wait_for (&result);
  rlx_weights_write_gguf_finish (owned, &error);
  g_assert_no_error (error);
  rlx_test_remove_tree (folder);
}

/* From each format into each. */
static void
test_save (void)
{
  static const char *const suffixes[] = { "safetensors", "gguf", "npz", "npy" };
  const guint8 data[] = { 0x80, 0x3f, 0x20, 0xc0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0xff, 0xff };
  const char *header = "{\"__metadata__\":{\"format\":\"pt\"},\"b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]},"
                       "\"l\":{\"dtype\":\"I64\",\"shape\":[1,1],\"data_offsets\":[4,12]},\"s\":{\"dtype\":\"I16\",\"shape\":[2],\"data_offsets\":[12,16]}}";
  g_autofree char *folder = g_dir_make_tmp ("rlx-weights-XXXXXX", NULL);
  g_autoptr(GBytes) bytes = rlx_test_make_safetensors (-1, header, strlen (header), data, sizeof data);
  g_autoptr(GBytes) fortran = make_simple (NATIVE "u2", "True", "(2, 2)", "\1\0\2\0\3\0\4\0", 8);
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxWeights) first = rlx_weights_new_from_bytes (bytes, &error), array = rlx_weights_new_from_bytes (fortran, &error);
  g_autoptr(GAsyncResult) owned = NULL;
  GAsyncResult *result = NULL;

  g_assert_no_error (error);
  for (guint i = 0; i < 6; i++)
    {
      RlxWeightsFormat format = (RlxWeightsFormat) (i / 2);
      g_autofree char *path = g_strdup_printf ("%s/a%u.%s", folder, i, suffixes[format]);
      g_autoptr(GFile) file = g_file_new_for_path (path);
      g_autoptr(RlxWeights) weights = NULL;
      g_autoptr(RlxTensor) b = NULL, l = NULL, s = NULL;
      g_autoptr(RlxWeightsEntry) entry = NULL;
      g_autofree char *b_text = NULL, *l_text = NULL, *s_text = NULL;
      const char *kept = NULL;

      rlx_weights_save (first, file, format, i % 2, NULL, &error);
      g_assert_no_error (error);
      weights = rlx_weights_open (file, NULL, &error);
      g_assert_no_error (error);
      g_assert_cmpint (rlx_weights_get_format (weights), ==, format);
      b = rlx_weights_load_tensor (weights, "b", NULL, &error);
      l = rlx_weights_load_tensor (weights, "l", NULL, &error);
      s = rlx_weights_load_tensor (weights, "s", NULL, &error);
      g_assert_no_error (error);
      b_text = rlx_tensor_to_string (b);
      l_text = rlx_tensor_to_string (l);
      s_text = rlx_tensor_to_string (s);
      g_assert_cmpstr (b_text, ==, "[1, -2.5]");
      g_assert_cmpstr (l_text, ==, "[1]");
      g_assert_cmpstr (s_text, ==, "[2, -1]");
      /* Wider only where necessary. */
      entry = rlx_weights_lookup (weights, "b");
      g_assert_cmpstr (rlx_weights_entry_get_type_name (entry), ==, format == RLX_WEIGHTS_FORMAT_NPZ ? "f32" : "bf16");
      g_variant_lookup (rlx_weights_get_metadata (weights), "format", "&s", &kept);
      g_assert_cmpstr (kept, ==, format == RLX_WEIGHTS_FORMAT_NPZ ? NULL : "pt");
    }

  for (guint i = 0; i < 4; i++)
    {
      g_autofree char *path = g_strdup_printf ("%s/n.%s", folder, suffixes[i]);
      g_autoptr(GFile) file = g_file_new_for_path (path);
      g_autoptr(RlxWeights) weights = NULL;
      g_autoptr(RlxWeightsEntry) entry = NULL;
      g_autoptr(RlxTensor) tensor = NULL;
      g_autofree char *text = NULL;

      rlx_weights_save (array, file, (RlxWeightsFormat) i, FALSE, NULL, &error);
      if (i == RLX_WEIGHTS_FORMAT_GGUF)
        {
          /* The format has neither u16 nor u32. */
          g_assert_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_DATA_TYPE);
          g_clear_error (&error);
          continue;
        }
      g_assert_no_error (error);
      weights = rlx_weights_open (file, NULL, &error);
      g_assert_no_error (error);
      entry = g_list_model_get_item (G_LIST_MODEL (weights), 0);
      g_assert_cmpstr (rlx_weights_entry_get_type_name (entry), ==, "u16");
      tensor = rlx_weights_load_tensor (weights, rlx_weights_entry_get_name (entry), NULL, &error);
      g_assert_no_error (error);
      text = rlx_tensor_to_string (tensor);
      g_assert_cmpstr (text, ==, "[1, 3, 2, 4]");
    }

  /* A single array is a single tensor. */
  {
    g_autofree char *path = g_build_filename (folder, "three.npy", NULL);
    g_autoptr(GFile) file = g_file_new_for_path (path);

    rlx_weights_save_async (first, file, RLX_WEIGHTS_FORMAT_NPY, FALSE, NULL, rlx_test_keep_result, &result);
    owned = rlx_test_wait_for (&result);
    g_assert_false (rlx_weights_save_finish (first, owned, &error));
    g_assert_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_UNSUPPORTED);
    g_assert_false (g_file_query_exists (file, NULL));
  }
  rlx_test_remove_tree (folder);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/weights/write/safetensors", test_safetensors);
  g_test_add_func ("/weights/write/npz", test_npz);
  g_test_add_func ("/weights/write/gguf", test_gguf);
  g_test_add_func ("/weights/write/save", test_save);
  return g_test_run ();
}
