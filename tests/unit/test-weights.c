/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Files of weights that are right, and what becomes of their tensors.
 */
#include "config.h"

#include "rlx-test-weights.h"

#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rlx-device.h"
#include "rlx-executable.h"
#include "rlx-graph.h"

#define TENSOR(name, dtype, shape, begin, end) \
  "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" #begin "," #end "]}"

static void
assert_floats (RlxTensor   *tensor,
               const float *expected,
               gsize        n)
{
  gsize n_values;
  g_autofree float *values = rlx_tensor_to_floats (tensor, &n_values, NULL);

  g_assert_cmpuint (n_values, ==, n);
  for (gsize i = 0; i < n; i++)
    if (isnan (expected[i]))
      g_assert_true (isnan (values[i]));
    else
      g_assert_cmpfloat (values[i], ==, expected[i]);
}

static void
test_entries (void)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GBytes) file = rlx_test_make_simple ("{\"__metadata__\":{\"format\":\"pt\",\"t\\u00e9xt\":\"a\\\"\\ud83d\\ude00\"}," TENSOR ("b", "U8", "2, 3", 4, 10)
                                        "," TENSOR ("a", "F32", "", 0, 4) ", " TENSOR ("none", "BF16", "0,4", 10, 10) "}   ", 10);
  g_autoptr(RlxWeights) weights = rlx_weights_new_from_bytes (file, &error);
  g_autoptr(RlxWeightsEntry) first = NULL, again = NULL, found = NULL;
  g_autoptr(RlxTensor) tensor = NULL, empty = NULL;
  GVariant *metadata;
  const gint64 *shape;
  const char *text;
  gsize n_dims;

  g_assert_no_error (error);
  g_assert_cmpint (rlx_weights_get_format (weights), ==, RLX_WEIGHTS_FORMAT_SAFETENSORS);
  g_assert_cmpuint (g_list_model_get_n_items (G_LIST_MODEL (weights)), ==, 3);
  g_assert_true (g_list_model_get_item_type (G_LIST_MODEL (weights)) == RLX_TYPE_WEIGHTS_ENTRY);
  g_assert_null (g_list_model_get_item (G_LIST_MODEL (weights), 3));
  metadata = rlx_weights_get_metadata (weights);
  g_assert_true (g_variant_lookup (metadata, "téxt", "&s", &text));
  g_assert_cmpstr (text, ==, "a\"😀");
  g_assert_cmpuint (g_variant_n_children (metadata), ==, 2);

  /* In file order, and each only once. */
  first = g_list_model_get_item (G_LIST_MODEL (weights), 0);
  again = rlx_weights_lookup (weights, "b");
  g_assert_true (first == again);
  g_assert_cmpstr (rlx_weights_entry_get_name (first), ==, "b");
  g_assert_cmpstr (rlx_weights_entry_get_type_name (first), ==, "u8");
  g_assert_cmpint (rlx_weights_entry_get_data_type (first), ==, RLX_DATA_TYPE_U8);
  g_assert_true (rlx_weights_entry_is_loadable (first));
  g_assert_false (rlx_weights_entry_is_packed (first));
  g_assert_cmpuint (rlx_weights_entry_get_size (first), ==, 6);
  g_assert_cmpuint (rlx_weights_entry_get_offset (first), ==, g_bytes_get_size (file) - 6);
  shape = rlx_weights_entry_get_shape (first, &n_dims);
  g_assert_cmpmem (shape, n_dims * 8, ((gint64[]) { 2, 3 }), 16);
  g_assert_null (rlx_weights_lookup (weights, "c"));

  tensor = rlx_weights_load_tensor (weights, "b", NULL, &error);
  g_assert_no_error (error);
  assert_floats (tensor, (float[]) { 4, 5, 6, 7, 8, 9 }, 6);
  empty = rlx_weights_load_tensor (weights, "none", NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpint (rlx_tensor_get_data_type (empty), ==, RLX_DATA_TYPE_F32);
  g_assert_cmpint (rlx_tensor_get_n_elements (empty), ==, 0);
  g_assert_null (rlx_weights_load_tensor (weights, "nobody", NULL, &error));
  g_assert_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_NOT_FOUND);
  g_assert_nonnull (strstr (error->message, "nobody"));
  g_assert_cmpfloat (rlx_weights_get_progress (weights), ==, 1);
}

/* Types that the library lacks. */
static void
test_types (void)
{
  static const struct
  {
    const char *dtype, *name;
    guint8 data[8];
    gsize size;
    RlxDataType becomes;
    float values[8];
    gsize n;
    int packed;
  } cases[] = {
    { "BF16", "bf16", { 0x80, 0x3f, 0x20, 0xc0, 0x80, 0x7f, 1, 0 }, 8, RLX_DATA_TYPE_F32, { 1, -2.5f, INFINITY, 0x1p-133f }, 4, RLX_PACKED_TYPE_BF16 },
    { "F8_E4M3", "f8-e4m3", { 0x38, 0xb8, 0x7e, 0x7f, 0x01, 0x80, 0x08, 0x44 }, 8, RLX_DATA_TYPE_F32,
      { 1, -1, 448, NAN, 0x1p-9f, -0.0f, 0x1p-6f, 3 }, 8, RLX_PACKED_TYPE_F8_E4M3 },
    { "F8_E5M2", "f8-e5m2", { 0x3c, 0xbc, 0x7b, 0x7c, 0xfc, 0x7d, 0x01, 0x42 }, 8, RLX_DATA_TYPE_F32,
      { 1, -1, 57344, INFINITY, -INFINITY, NAN, 0x1p-16f, 3 }, 8, RLX_PACKED_TYPE_F8_E5M2 },
    { "F8_E8M0", "f8-e8m0", { 127, 0, 254, 255 }, 4, RLX_DATA_TYPE_F32, { 1, 0x1p-127f, 0x1p127f, NAN }, 4, -1 },
    { "I16", "i16", { 0xff, 0xff, 0x00, 0x80 }, 4, RLX_DATA_TYPE_I32, { -1, -32768 }, 2, -1 },
    { "U16", "u16", { 0xff, 0xff, 0x00, 0x80 }, 4, RLX_DATA_TYPE_U32, { 65535, 32768 }, 2, -1 },
    { "F16", "f16", { 0x00, 0x3c, 0x00, 0xc2 }, 4, RLX_DATA_TYPE_F16, { 1, -3 }, 2, -1 },
    { "F64", "f64", { 0 }, 8, RLX_DATA_TYPE_U8, { 0 }, 1, -1 },
    { "C64", "c64", { 0 }, 8, RLX_DATA_TYPE_U8, { 0 }, 1, -1 },
    { "F4", "f4", { 0 }, 1, RLX_DATA_TYPE_U8, { 0 }, 2, -1 },
    { "F6_E2M3", "f6-e2m3", { 0 }, 3, RLX_DATA_TYPE_U8, { 0 }, 4, -1 },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr(GError) error = NULL;
      g_autofree char *header = g_strdup_printf ("{\"x\":{\"dtype\":\"%s\",\"shape\":[%d],\"data_offsets\":[0,%d]}}",
                                                 cases[i].dtype, (int) cases[i].n, (int) cases[i].size);
      g_autoptr(GBytes) file = rlx_test_make_safetensors (-1, header, strlen (header), cases[i].data, cases[i].size);
      g_autoptr(RlxWeights) weights = rlx_weights_new_from_bytes (file, &error);
      g_autoptr(RlxWeightsEntry) entry = NULL;
      g_autoptr(RlxTensor) tensor = NULL;
      g_autoptr(GBytes) bytes = NULL;
      gboolean loadable = cases[i].becomes != RLX_DATA_TYPE_U8;

      g_assert_no_error (error);
      entry = rlx_weights_lookup (weights, "x");
      g_assert_cmpstr (rlx_weights_entry_get_type_name (entry), ==, cases[i].name);
      g_assert_cmpint (rlx_weights_entry_get_data_type (entry), ==, cases[i].becomes);
      g_assert_cmpint (rlx_weights_entry_is_loadable (entry), ==, loadable);
      g_assert_cmpint (rlx_weights_entry_is_packed (entry), ==, cases[i].packed >= 0);
      if (cases[i].packed >= 0)
        g_assert_cmpint (rlx_weights_entry_get_packed_type (entry), ==, cases[i].packed);

      bytes = rlx_weights_load_bytes (weights, "x", NULL, &error);
      g_assert_no_error (error);
      g_assert_cmpmem (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes), cases[i].data, cases[i].size);
      tensor = rlx_weights_load_tensor (weights, "x", NULL, &error);
      if (!loadable)
        {
          g_assert_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_UNSUPPORTED);
          g_assert_nonnull (strstr (error->message, cases[i].name));
          continue;
        }
      g_assert_no_error (error);
      g_assert_cmpint (rlx_tensor_get_data_type (tensor), ==, cases[i].becomes);
      assert_floats (tensor, cases[i].values, cases[i].n);
    }
}

/* ---- files on a disk ----------------------------------------------------------------- */

static char *
write_file (const char *folder,
            const char *name,
            GBytes     *bytes)
{
  char *path = g_build_filename (folder, name, NULL);

  g_assert_true (g_file_set_contents (path, g_bytes_get_data (bytes, NULL), (gssize) g_bytes_get_size (bytes), NULL));
  return path;
}

static RlxWeights *
open_path (const char *folder,
           const char *name,
           GError    **error)
{
  g_autofree char *path = g_build_filename (folder, name, NULL);
  g_autoptr(GFile) file = g_file_new_for_path (path);

  return rlx_weights_open (file, NULL, error);
}

static guint
count_open_files (void)
{
  GDir *dir = g_dir_open ("/proc/self/fd", 0, NULL);
  guint n = 0;

  while (g_dir_read_name (dir) != NULL)
    n++;
  g_dir_close (dir);
  return n;
}

static void
test_files (void)
{
  g_autofree char *folder = g_dir_make_tmp ("rlx-weights-XXXXXX", NULL);
  g_autoptr(GBytes) bytes = rlx_test_make_simple ("{" TENSOR ("x", "F32", "4", 0, 16) "}", 16);
  g_autofree char *path = write_file (folder, "a.safetensors", bytes);
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxWeights) weights = NULL, from_fd = NULL;
  g_autoptr(RlxTensor) tensor = NULL, same = NULL;
  guint n = count_open_files ();
  int fd;

  weights = open_path (folder, "a.safetensors", &error);
  g_assert_no_error (error);
  tensor = rlx_weights_load_tensor (weights, "x", NULL, &error);
  g_assert_no_error (error);

  fd = open (path, O_RDONLY | O_CLOEXEC);
  from_fd = rlx_weights_open_fd (fd, NULL, &error);
  g_assert_no_error (error);
  close (fd);
  same = rlx_weights_load_tensor (from_fd, "x", NULL, &error);
  g_assert_no_error (error);
  g_assert_true (rlx_tensor_equal (tensor, same));

  /* Truncated while in use. */
  g_assert_cmpint (truncate (path, (off_t) g_bytes_get_size (bytes) - 1), ==, 0);
  g_assert_null (rlx_weights_load_tensor (weights, "x", NULL, &error));
  g_assert_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_TRUNCATED);
  g_assert_nonnull (strstr (error->message, path));
  g_clear_error (&error);

  g_clear_object (&weights);
  g_clear_object (&from_fd);
  g_assert_cmpuint (count_open_files (), ==, n);

  g_assert_null (rlx_weights_open_fd (-1, NULL, &error));
  g_assert_nonnull (error);
  rlx_test_remove_tree (folder);
}

/* A GFile that is not a local file: read through a stream, in any order, or rejected if that is impossible. */
static void
test_streams (void)
{
  g_autoptr(GFile) file = g_file_new_for_uri ("resource:///rlx-wgpu/tests/weights.safetensors");
  g_autoptr(GFile) compressed = g_file_new_for_uri ("resource:///rlx-wgpu/tests/compressed");
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxWeights) weights = rlx_weights_open (file, NULL, &error);
  g_autoptr(RlxTensor) w = NULL, b = NULL, again = NULL;
  int ends[2];

  g_assert_no_error (error);
  w = rlx_weights_load_tensor (weights, "w", NULL, &error);
  g_assert_no_error (error);
  b = rlx_weights_load_tensor (weights, "b", NULL, &error);
  g_assert_no_error (error);
  again = rlx_weights_load_tensor (weights, "w", NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpint (rlx_tensor_get_n_elements (w), ==, 6);
  g_assert_cmpint (rlx_tensor_get_n_elements (b), ==, 2);
  g_assert_true (rlx_tensor_equal (w, again));

  g_assert_null (rlx_weights_open (compressed, NULL, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_NOT_SUPPORTED);
  g_assert_nonnull (strstr (error->message, "compressed: "));
  g_clear_error (&error);

  g_assert_cmpint (pipe (ends), ==, 0);
  g_assert_null (rlx_weights_open_fd (ends[0], NULL, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_NOT_REGULAR_FILE);
  close (ends[0]);
  close (ends[1]);
}

/* The descriptor is not needed after the call has returned. */
static void
test_open_fd_async (void)
{
  g_autofree char *folder = g_dir_make_tmp ("rlx-weights-XXXXXX", NULL);
  g_autoptr(GBytes) bytes = rlx_test_make_simple ("{" TENSOR ("x", "F32", "4", 0, 16) "}", 16);
  g_autofree char *path = write_file (folder, "a.safetensors", bytes);
  g_autoptr(GAsyncResult) opened = NULL, failed = NULL;
  g_autoptr(RlxWeights) weights = NULL;
  g_autoptr(RlxTensor) tensor = NULL;
  g_autoptr(GError) error = NULL;
  GAsyncResult *result = NULL;
  int fd = open (path, O_RDONLY | O_CLOEXEC);

  rlx_weights_open_fd_async (fd, NULL, rlx_test_keep_result, &result);
  close (fd);
  opened = rlx_test_wait_for (&result);
  weights = rlx_weights_open_fd_finish (opened, &error);
  g_assert_no_error (error);
  tensor = rlx_weights_load_tensor (weights, "x", NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpint (rlx_tensor_get_n_elements (tensor), ==, 4);

  rlx_weights_open_fd_async (-1, NULL, rlx_test_keep_result, &result);
  failed = rlx_test_wait_for (&result);
  g_assert_null (rlx_weights_open_fd_finish (failed, &error));
  g_assert_nonnull (error);
  rlx_test_remove_tree (folder);
}

static void
test_no_files (void)
{
  g_autofree char *folder = g_dir_make_tmp ("rlx-weights-XXXXXX", NULL);
  g_autofree char *fifo = g_build_filename (folder, "fifo", NULL), *link = g_build_filename (folder, "link", NULL);
  g_autofree char *sparse = g_build_filename (folder, "sparse", NULL);
  const struct
  {
    const char *name;
    GIOErrorEnum code;
  } cases[] = {
    { "", G_IO_ERROR_IS_DIRECTORY },
    { "fifo", G_IO_ERROR_NOT_REGULAR_FILE },
    { "link", G_IO_ERROR_NOT_FOUND },
    { "nothing", G_IO_ERROR_NOT_FOUND },
    { "../../dev/zero", G_IO_ERROR_NOT_REGULAR_FILE },
  };
  g_autoptr(GCancellable) cancelled = g_cancellable_new ();
  g_autoptr(GFile) file = g_file_new_for_path (sparse);
  g_autoptr(GError) error = NULL;
  guint n = count_open_files ();
  int fd;

  g_assert_cmpint (mkfifo (fifo, 0600), ==, 0);
  g_assert_cmpint (symlink ("nowhere", link), ==, 0);
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_assert_null (open_path (cases[i].name[0] == '.' ? "/dev" : folder, cases[i].name[0] == '.' ? "zero" : cases[i].name, &error));
      g_assert_error (error, G_IO_ERROR, (int) cases[i].code);
      g_clear_error (&error);
    }

  /* A sparse file: nothing is allocated for its zeros. */
  fd = open (sparse, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  g_assert_cmpint (ftruncate (fd, (off_t) 1 << 40), ==, 0);
  close (fd);
  g_assert_null (open_path (folder, "sparse", &error));
  g_assert_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_PARSE);
  g_clear_error (&error);

  g_cancellable_cancel (cancelled);
  g_assert_null (rlx_weights_open (file, cancelled, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_assert_cmpuint (count_open_files (), ==, n);
  rlx_test_remove_tree (folder);
}

static void
test_unreadable (void)
{
  g_autofree char *folder = NULL, *path = NULL;
  g_autoptr(GError) error = NULL;

  if (geteuid () == 0)
    {
      g_test_skip ("root may read every file");
      return;
    }
  folder = g_dir_make_tmp ("rlx-weights-XXXXXX", NULL);
  path = g_build_filename (folder, "secret", NULL);
  g_assert_true (g_file_set_contents (path, "", 0, NULL));
  g_assert_cmpint (chmod (path, 0), ==, 0);
  g_assert_null (open_path (folder, "secret", &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_PERMISSION_DENIED);
  rlx_test_remove_tree (folder);
}

/* ---- several files --------------------------------------------------------------------- */

static void
test_index (void)
{
  g_autofree char *folder = g_dir_make_tmp ("rlx-weights-XXXXXX", NULL);
  g_autofree char *link = g_build_filename (folder, "l.safetensors", NULL), *index = g_build_filename (folder, "linked.json", NULL);
  g_autoptr(GBytes) one = rlx_test_make_simple ("{\"__metadata__\":{\"format\":\"pt\"}," TENSOR ("a", "U8", "2", 0, 2) "}", 2);
  g_autoptr(GBytes) two = rlx_test_make_simple ("{" TENSOR ("b", "U8", "3", 0, 3) "," TENSOR ("more", "U8", "", 3, 4) "}", 4);
  const struct
  {
    const char *text;
    GQuark domain;
    int code;
    const char *words;
  } wrong[] = {
    { "{\"weight_map\":{\"a\":\"../1.safetensors\"}}", RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_PARSE, "../1" },
    { "{\"weight_map\":{\"a\":\"/1.safetensors\"}}", RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_PARSE, "plain name" },
    { "{\"weight_map\":{\"a\":\"x\\\\1.safetensors\"}}", RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_PARSE, "plain name" },
    { "{\"weight_map\":{\"a\":\"\"}}", RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_PARSE, "plain name" },
    { "{\"weight_map\":{\"a\":\"index.json\"}}", RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_PARSE, "plain name" },
    { "{\"weight_map\":{\"a\":\"cycle.safetensors\"}}", RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_LIMIT, "length of the header" },
    { "{\"weight_map\":{\"a\":\"none.safetensors\"}}", G_IO_ERROR, G_IO_ERROR_NOT_FOUND, "none.safetensors" },
    { "{\"weight_map\":{\"a\":\"l.safetensors\"}}", RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_UNSUPPORTED, "link" },
    { "{\"weight_map\":{\"b\":\"1.safetensors\"}}", RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_NOT_FOUND, "“b”" },
    { "{\"weight_map\":{\"a\":\"1.safetensors\",\"a\":\"1.safetensors\"}}", RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_PARSE, "two tensors" },
    { "{\"weight_map\":{},\"weight_map\":{}}", RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_PARSE, "twice" },
    { "{\"weight_map\":[]}", RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_PARSE, "At byte 14" },
    { "{\"metadata\":{}}", RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_PARSE, "weight_map" },
    { "{\"weight_map\":{}} x", RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_PARSE, "after the end" },
    { "{\"deep\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_LIMIT, "limit of 32" },
  };
  g_autofree char *path1 = write_file (folder, "1.safetensors", one), *path2 = write_file (folder, "2.safetensors", two);
  const char *text = "{\"metadata\":{\"total_size\":5.0e0,\"x\":[1,null,{\"y\":\"z\"}]},\"weight_map\":{\"b\":\"2.safetensors\",\"a\":\"1.safetensors\"}}";
  g_autoptr(GBytes) right = g_bytes_new_static (text, strlen (text));
  g_autofree char *path3 = write_file (folder, "index.json", right), *path4 = write_file (folder, "cycle.safetensors", right);
  g_autoptr(GString) many = g_string_new ("{\"weight_map\":{");
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxWeights) weights = NULL, linked = NULL;
  g_autoptr(RlxTensor) tensor = NULL;
  g_autoptr(GBytes) bytes = NULL;
  guint n = count_open_files ();

  weights = open_path (folder, "index.json", &error);
  g_assert_no_error (error);
  g_assert_cmpuint (g_list_model_get_n_items (G_LIST_MODEL (weights)), ==, 2);
  tensor = rlx_weights_load_tensor (weights, "b", NULL, &error);
  g_assert_no_error (error);
  assert_floats (tensor, (float[]) { 0, 1, 2 }, 3);
  g_clear_object (&weights);

  /* Without a name there is no folder. */
  g_assert_null (rlx_weights_new_from_bytes (right, &error));
  g_assert_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_UNSUPPORTED);
  g_clear_error (&error);

  g_assert_cmpint (symlink ("1.safetensors", link), ==, 0);
  for (gsize i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_autoptr(GBytes) file = g_bytes_new_static (wrong[i].text, strlen (wrong[i].text));
      g_autofree char *path = write_file (folder, "wrong.json", file);

      rlx_test_heap_start ();
      g_assert_null (open_path (folder, "wrong.json", &error));
      /* Of two further files, only the headers are read. */
      rlx_test_check_message (error, strlen (wrong[i].text) + g_bytes_get_size (one) + g_bytes_get_size (two));
      if (error->domain != wrong[i].domain || error->code != wrong[i].code || strstr (error->message, wrong[i].words) == NULL)
        g_error ("%s: %s %d: %s", wrong[i].text, g_quark_to_string (error->domain), error->code, error->message);
      g_clear_error (&error);
    }

  for (guint i = 0; i < 100000; i++)
    g_string_append_printf (many, "%s\"%u\":\"%u.safetensors\"", i > 0 ? "," : "", i, i);
  g_string_append (many, "}}");
  bytes = g_bytes_new (many->str, many->len);
  g_free (write_file (folder, "wrong.json", bytes));
  rlx_test_heap_start ();
  g_assert_null (open_path (folder, "wrong.json", &error));
  rlx_test_check_message (error, many->len);
  g_assert_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_LIMIT);
  g_assert_nonnull (strstr (error->message, "512"));
  g_clear_error (&error);

  /* As many tensors as there is room for, one of which is in the wrong place. */
  g_string_assign (many, "{\"weight_map\":{");
  for (guint i = 0; i < 200000; i++)
    g_string_append_printf (many, "\"%x\":\"1.safetensors\",", i);
  g_string_append (many, "\"a\":\"1.safetensors\"}}");
  g_clear_pointer (&bytes, g_bytes_unref);
  bytes = g_bytes_new (many->str, many->len);
  g_free (write_file (folder, "wrong.json", bytes));
  rlx_test_heap_start ();
  g_assert_null (open_path (folder, "wrong.json", &error));
  rlx_test_check_message (error, many->len);
  g_assert_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_NOT_FOUND);
  g_clear_error (&error);

  /* As in download caches, where all names are links. */
  g_clear_pointer (&bytes, g_bytes_unref);
  text = "{\"weight_map\":{\"a\":\"l.safetensors\"}}";
  bytes = g_bytes_new_static (text, strlen (text));
  g_free (write_file (folder, "blob", bytes));
  g_assert_cmpint (symlink ("blob", index), ==, 0);
  linked = open_path (folder, "linked.json", &error);
  g_assert_no_error (error);
  g_clear_object (&linked);
  g_assert_cmpuint (count_open_files (), ==, n);
  rlx_test_remove_tree (folder);
}

/* ---- without blocking -------------------------------------------------------------------- */

static void
count_notify (RlxWeights *weights G_GNUC_UNUSED,
              GParamSpec *pspec G_GNUC_UNUSED,
              guint      *n)
{
  g_assert_true (g_main_context_is_owner (g_main_context_default ()));
  (*n)++;
}

static void
test_async (void)
{
  g_autofree char *folder = g_dir_make_tmp ("rlx-weights-XXXXXX", NULL);
  g_autoptr(GBytes) bytes = rlx_test_make_simple ("{" TENSOR ("x", "F32", "4", 0, 16) "}", 16);
  g_autofree char *path = write_file (folder, "a.safetensors", bytes);
  g_autoptr(GFile) file = g_file_new_for_path (path);
  g_autoptr(GCancellable) cancelled = g_cancellable_new ();
  g_autoptr(GError) error = NULL;
  GAsyncResult *result = NULL;
  g_autoptr(GAsyncResult) opened = NULL, loaded = NULL, read = NULL, refused = NULL;
  g_autoptr(RlxWeights) weights = NULL;
  g_autoptr(RlxTensor) tensor = NULL;
  g_autoptr(GBytes) again = NULL;
  guint n = 0;

  rlx_weights_open_async (file, NULL, rlx_test_keep_result, &result);
  opened = rlx_test_wait_for (&result);
  weights = rlx_weights_open_finish (opened, &error);
  g_assert_no_error (error);
  g_signal_connect (weights, "notify::progress", G_CALLBACK (count_notify), &n);
  rlx_weights_load_tensor_async (weights, "x", NULL, rlx_test_keep_result, &result);
  loaded = rlx_test_wait_for (&result);
  tensor = rlx_weights_load_tensor_finish (weights, loaded, &error);
  g_assert_no_error (error);
  while (n == 0)
    g_main_context_iteration (NULL, TRUE);
  rlx_weights_load_bytes_async (weights, "x", NULL, rlx_test_keep_result, &result);
  read = rlx_test_wait_for (&result);
  again = rlx_weights_load_bytes_finish (weights, read, &error);
  g_assert_no_error (error);
  g_assert_true (g_bytes_equal (again, rlx_tensor_get_bytes (tensor)));

  g_cancellable_cancel (cancelled);
  rlx_weights_load_tensor_async (weights, "x", cancelled, rlx_test_keep_result, &result);
  refused = rlx_test_wait_for (&result);
  g_assert_null (rlx_weights_load_tensor_finish (weights, refused, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  while (g_main_context_iteration (NULL, FALSE))
    ;
  rlx_test_remove_tree (folder);
}

/* ---- parameters -------------------------------------------------------------------------- */

static RlxExecutable *
compile (const char *text)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxGraph) graph = rlx_graph_new_from_text (text, &error);
  RlxExecutable *executable;

  g_assert_no_error (error);
  executable = rlx_device_compile (rlx_device_get_default (&error), graph, NULL, NULL, &error);
  g_assert_no_error (error);
  return executable;
}

static void
test_parameters (void)
{
  const char *header = "{" TENSOR ("net.w", "F32", "3,2", 0, 24) "," TENSOR ("b", "BF16", "2", 24, 28) "}";
  const float w[] = { 1, 0, 0, 1, 1, 1 };
  const guint8 b[] = { 0x20, 0x41, 0xa0, 0x41 };
  guint8 data[28];
  g_autoptr(GBytes) file = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxWeights) weights = NULL;
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) x = rlx_tensor_new_from_floats ((gint64[]) { 1, 3 }, 2, (float[]) { 1, 2, 3 }, 3, NULL);
  g_auto(RlxTensors) y = NULL, z = NULL;
  GAsyncResult *result = NULL;
  g_autoptr(GAsyncResult) owned = NULL;

  memcpy (data, w, 24);
  memcpy (data + 24, b, 4);
  file = rlx_test_make_safetensors (-1, header, strlen (header), data, 28);
  weights = rlx_weights_new_from_bytes (file, &error);
  g_assert_no_error (error);
  executable = compile ("rlx 1\n%0 = input \"x\" f32[1, 3]\n%1 = parameter \"w\" f32[3, 2]\n%2 = parameter \"b\" f32[2]\n"
                        "%3 = matmul(%0, %1)\n%4 = add(%3, %2)\noutput \"y\" %4\n");

  g_assert_false (rlx_executable_set_parameters_from (executable, weights, NULL, NULL, &error));
  g_assert_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_NOT_FOUND);
  g_assert_nonnull (strstr (error->message, "no tensor “w”"));
  g_assert_nonnull (strstr (error->message, "no parameter takes “net.w”"));
  g_clear_error (&error);

  rlx_executable_set_parameters_from (executable, weights, g_variant_new_parsed ("{'w': 'net.w'}"), NULL, &error);
  g_assert_no_error (error);
  y = rlx_executable_run (executable, &x, 1, NULL, NULL, &error);
  g_assert_no_error (error);
  assert_floats (y[0], (float[]) { 14, 25 }, 2);

  rlx_executable_set_parameters_from_async (executable, weights, g_variant_new_parsed ("{'w': 'net.w', 'b': '', '*': ''}"), NULL, rlx_test_keep_result, &result);
  owned = rlx_test_wait_for (&result);
  rlx_executable_set_parameters_from_finish (executable, owned, &error);
  g_assert_no_error (error);
  z = rlx_executable_run (executable, &x, 1, NULL, NULL, &error);
  g_assert_no_error (error);
  assert_floats (z[0], (float[]) { 14, 25 }, 2);

  g_assert_false (rlx_executable_set_parameters_from (executable, weights, g_variant_new_parsed ("{'w': 1}"), NULL, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT);
  g_clear_error (&error);
  g_assert_false (rlx_executable_set_parameters_from (executable, weights, g_variant_new_parsed ("{'w': 'net.w', 'v': 'b'}"), NULL, &error));
  g_assert_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_NOT_FOUND);
  g_assert_nonnull (strstr (error->message, "no parameter “v”"));
}

/* bf16 bytes for an operator that takes them unconverted. */
static void
test_packed_parameters (void)
{
  const guint8 data[] = { 0x80, 0x3f, 0x00, 0x40, 0x40, 0x40, 0x80, 0x40 };
  const char *header = "{" TENSOR ("w", "BF16", "2,2", 0, 8) "}";
  g_autoptr(GBytes) file = rlx_test_make_safetensors (-1, header, strlen (header), data, sizeof data);
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxWeights) weights = rlx_weights_new_from_bytes (file, &error);
  g_autoptr(RlxExecutable) executable = compile ("rlx 1\n%0 = input \"x\" f32[1, 2]\n%1 = parameter \"w\" u8[2, 4]\n"
                                                 "%2 = dequant_matmul(%0, %1) {type = bf16}\noutput \"y\" %2\n");
  g_autoptr(RlxTensor) x = rlx_tensor_new_from_floats ((gint64[]) { 1, 2 }, 2, (float[]) { 1, 10 }, 2, NULL);
  g_auto(RlxTensors) y = NULL;

  rlx_executable_set_parameters_from (executable, weights, NULL, NULL, &error);
  g_assert_no_error (error);
  y = rlx_executable_run (executable, &x, 1, NULL, NULL, &error);
  g_assert_no_error (error);
  assert_floats (y[0], (float[]) { 21, 43 }, 2);
}

/* ---- in pieces --------------------------------------------------------------------------- */

#define SIDE 2048
#define N_WIDE 300001
#define N_NARROW 600001

#define PIECES_GRAPH \
  "rlx 1\n%0 = input \"x\" f32[1, 2048]\n%1 = parameter \"rows\" f32[2048, 2048]\n%2 = parameter \"columns\" f32[2048, 2048]\n" \
  "%3 = parameter \"wide\" f32[300001]\n%4 = parameter \"narrow\" bf16[600001]\n" \
  "%5 = matmul(%0, %1)\n%6 = matmul(%5, %2) {transpose_b = true}\n" \
  "output \"y\" %6\noutput \"wide\" %3\noutput \"narrow\" %4\n"

/* Consecutive integers starting with @first. */
static GBytes *
make_large_file (int first)
{
  const gsize square = (gsize) SIDE * SIDE * 4, size = 2 * square + 2 * (N_WIDE + N_NARROW);
  g_autofree char *header = g_strdup_printf (
    "{\"rows\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[0,%" G_GSIZE_FORMAT "]},"
    "\"columns\":{\"dtype\":\"F32\",\"shape\":[%d,%d],\"data_offsets\":[%" G_GSIZE_FORMAT ",%" G_GSIZE_FORMAT "]},"
    "\"wide\":{\"dtype\":\"BF16\",\"shape\":[%d],\"data_offsets\":[%" G_GSIZE_FORMAT ",%" G_GSIZE_FORMAT "]},"
    "\"narrow\":{\"dtype\":\"BF16\",\"shape\":[%d],\"data_offsets\":[%" G_GSIZE_FORMAT ",%" G_GSIZE_FORMAT "]}}",
    SIDE, SIDE, square, SIDE, SIDE, square, 2 * square, N_WIDE, 2 * square, 2 * square + 2 * N_WIDE,
    N_NARROW, 2 * square + 2 * N_WIDE, size);
  g_autofree guint8 *data = g_malloc (size);

  for (gsize i = 0; i < (gsize) 2 * SIDE * SIDE + N_WIDE + N_NARROW; i++)
    {
      float value = (float) ((int) (i * 7919 % 17) - first);
      guint32 bits;

      memcpy (&bits, &value, 4);
      bits = i < (gsize) 2 * SIDE * SIDE ? GUINT32_TO_LE (bits) : GUINT32_TO_LE (bits >> 16);
      if (i < (gsize) 2 * SIDE * SIDE)
        memcpy (data + 4 * i, &bits, 4);
      else
        memcpy (data + 2 * square + 2 * (i - (gsize) 2 * SIDE * SIDE), &bits, 2);
    }
  return rlx_test_make_safetensors (-1, header, strlen (header), data, size);
}

static RlxTensor *
make_row (void)
{
  g_autofree float *values = g_new (float, SIDE);

  for (guint i = 0; i < SIDE; i++)
    values[i] = (float) (i % 5) - 2;
  return rlx_tensor_new_from_floats ((gint64[]) { 1, SIDE }, 2, values, SIDE, NULL);
}

/* With @others, runs @a and sets these before the result has arrived. */
static void
assert_same_outputs (RlxExecutable *a,
                     RlxWeights    *others,
                     RlxExecutable *b)
{
  g_autoptr(RlxTensor) x = make_row ();
  g_auto(RlxTensors) y = NULL, z = NULL;
  g_autoptr(GAsyncResult) owned = NULL;
  g_autoptr(GError) error = NULL;
  GAsyncResult *result = NULL;

  rlx_executable_run_async (a, &x, 1, NULL, rlx_test_keep_result, &result);
  if (others != NULL)
    {
      rlx_test_heap_start ();
      rlx_executable_set_parameters_from (a, others, NULL, NULL, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (rlx_test_heap_get_peak (), <=, 3 * RLX_PIECE);
    }
  owned = rlx_test_wait_for (&result);
  y = rlx_executable_run_finish (a, owned, NULL, &error);
  g_assert_no_error (error);
  z = rlx_executable_run (b, &x, 1, NULL, NULL, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < 3; i++)
    g_assert_true (rlx_tensor_equal (y[i], z[i]));
}

/* Sets each of the tensors as a whole. */
static void
set_whole (RlxExecutable *executable,
           RlxWeights    *weights)
{
  const char *const names[] = { "rows", "columns", "wide", "narrow", NULL };
  RlxTensor *tensors[4];
  g_autoptr(GBytes) bytes = NULL;
  g_autoptr(GError) error = NULL;

  for (guint i = 0; i < 3; i++)
    {
      tensors[i] = rlx_weights_load_tensor (weights, names[i], NULL, &error);
      g_assert_no_error (error);
    }
  bytes = rlx_weights_load_bytes (weights, "narrow", NULL, &error);
  g_assert_no_error (error);
  tensors[3] = rlx_tensor_new_from_bytes (RLX_DATA_TYPE_BF16, (gint64[]) { N_NARROW }, 1, bytes, &error);
  g_assert_no_error (error);
  rlx_executable_set_parameters (executable, names, tensors, 4, NULL, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < 4; i++)
    g_object_unref (tensors[i]);
}

/* Large tensors are uploaded in chunks: the first time straight to their place, later through two buffers, after earlier runs
 * have ended. */
static void
test_pieces (void)
{
  g_autofree char *folder = g_dir_make_tmp ("rlx-weights-XXXXXX", NULL);
  g_autoptr(GBytes) bytes = make_large_file (8), others = make_large_file (3);
  g_autofree char *path = write_file (folder, "first", bytes), *other_path = write_file (folder, "second", others);
  g_autoptr(GError) error = NULL;
  RlxDevice *device = rlx_device_get_default (&error);
  g_autoptr(RlxWeights) weights = open_path (folder, "first", &error), second = open_path (folder, "second", &error);
  g_autoptr(RlxExecutable) expected = compile (PIECES_GRAPH), executable = NULL;
  g_autoptr(RlxTensor) x = NULL;
  g_auto(RlxTensors) y = NULL;
  guint64 before;

  g_assert_no_error (error);
  set_whole (expected, weights);
  before = rlx_device_get_memory_used (device);
  executable = compile (PIECES_GRAPH);
  rlx_test_heap_start ();
  rlx_executable_set_parameters_from (executable, weights, NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (rlx_test_heap_get_peak (), <=, 3 * RLX_PIECE);
  g_assert_cmpuint (rlx_executable_get_weights_size (executable), <=, g_bytes_get_size (bytes) / 20 * 21);
  g_assert_cmpuint (rlx_device_get_memory_used (device) - before, <=,
                    g_bytes_get_size (bytes) / 20 * 21 + rlx_executable_get_arena_size (executable));
  assert_same_outputs (executable, second, expected);
  set_whole (expected, second);
  assert_same_outputs (executable, NULL, expected);

  /* Truncated while in use: there is an error, and no value. */
  g_clear_object (&executable);
  executable = compile (PIECES_GRAPH);
  g_assert_cmpint (truncate (path, (off_t) SIDE * SIDE * 4), ==, 0);
  g_assert_false (rlx_executable_set_parameters_from (executable, weights, NULL, NULL, &error));
  g_assert_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_TRUNCATED);
  g_clear_error (&error);
  x = make_row ();
  y = rlx_executable_run (executable, &x, 1, NULL, NULL, &error);
  g_assert_null (y);
  g_assert_nonnull (strstr (error->message, "rows"));
  g_clear_error (&error);
  rlx_executable_set_parameters_from (executable, second, NULL, NULL, &error);
  g_assert_no_error (error);
  assert_same_outputs (executable, NULL, expected);

  /* The same if existing values are replaced. */
  g_assert_cmpint (truncate (other_path, (off_t) SIDE * SIDE * 4), ==, 0);
  g_assert_false (rlx_executable_set_parameters_from (executable, second, NULL, NULL, &error));
  g_assert_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_TRUNCATED);
  rlx_test_remove_tree (folder);
}

static void
test_wrong_parameters (void)
{
  g_autoptr(GString) text = g_string_new ("rlx 1\n%0 = parameter \"p0\" f32[2]\n%1 = parameter \"p1\" i32[1]\n"), names = g_string_new (NULL);
  g_autoptr(GBytes) file = rlx_test_make_simple ("{" TENSOR ("p0", "F32", "1,2", 0, 8) "," TENSOR ("p1", "F32", "1", 8, 12) "}", 12);
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxWeights) weights = rlx_weights_new_from_bytes (file, &error);
  g_autoptr(RlxExecutable) executable = NULL;

  for (guint i = 2; i < 15; i++)
    g_string_append_printf (text, "%%%u = parameter \"p%u\" f32[2]\n", i, i);
  for (guint i = 0; i < 15; i++)
    g_string_append_printf (text, "output \"y%u\" %%%u\n", i, i);
  executable = compile (text->str);
  g_assert_false (rlx_executable_set_parameters_from (executable, weights, NULL, NULL, &error));
  g_assert_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_SHAPE);
  g_assert_nonnull (strstr (error->message, "“p0” is f32[1, 2], parameter “p0” is f32[2]"));
  g_assert_nonnull (strstr (error->message, "“p1” is f32[1], parameter “p1” is i32[1]"));
  g_assert_nonnull (strstr (error->message, "p9"));
  g_assert_null (strstr (error->message, "p10"));
  g_assert_nonnull (strstr (error->message, "and 5 more"));
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/weights/entries", test_entries);
  g_test_add_func ("/weights/types", test_types);
  g_test_add_func ("/weights/files", test_files);
  g_test_add_func ("/weights/streams", test_streams);
  g_test_add_func ("/weights/open-fd-async", test_open_fd_async);
  g_test_add_func ("/weights/no-files", test_no_files);
  g_test_add_func ("/weights/unreadable", test_unreadable);
  g_test_add_func ("/weights/index", test_index);
  g_test_add_func ("/weights/async", test_async);
  g_test_add_func ("/weights/parameters", test_parameters);
  g_test_add_func ("/weights/parameters/packed", test_packed_parameters);
  g_test_add_func ("/weights/parameters/pieces", test_pieces);
  g_test_add_func ("/weights/parameters/wrong", test_wrong_parameters);
  return g_test_run ();
}
