/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * .npz files, right and wrong. Archives are made here byte by byte, so that each byte of
 * them can be changed.
 */
#include "config.h"

#include "rlx-test-weights.h"

#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "formats/rlx-zip-private.h"
#include "rlx-test-npy.h"

/* ---- archives -------------------------------------------------------------------------- */

typedef struct
{
  const char *name;
  GBytes *bytes;
  gboolean deflated;
} Member;

/* The offsets of its parts. */
typedef struct
{
  gsize members[8];
  gsize entries[8];
  gsize directory;
  gsize end;
} Layout;

static GBytes *
deflate_bytes (GBytes *bytes)
{
  gsize size;
  gconstpointer data = g_bytes_get_data (bytes, &size);
  gsize room = size + size / 8 + 64;
  guint8 *out = g_malloc (room);
  z_stream z = { 0 };

  g_assert_cmpint (deflateInit2 (&z, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), ==, Z_OK);
  z.next_in = (gpointer) data;
  z.avail_in = (uInt) size;
  z.next_out = out;
  z.avail_out = (uInt) room;
  g_assert_cmpint (deflate (&z, Z_FINISH), ==, Z_STREAM_END);
  room = z.total_out;
  deflateEnd (&z);
  return g_bytes_new_take (out, room);
}

/* With @large, every number that can be in an extra field is there. */
static GByteArray *
make_archive (const Member *members,
              gsize         n,
              gboolean      large,
              Layout       *layout)
{
  GByteArray *file = g_byte_array_new (), *directory = g_byte_array_new ();
  gsize end64;

  for (gsize i = 0; i < n; i++)
    {
      g_autoptr(GBytes) stored = members[i].deflated ? deflate_bytes (members[i].bytes) : g_bytes_ref (members[i].bytes);
      gsize offset = file->len, size = g_bytes_get_size (members[i].bytes), length = strlen (members[i].name);
      guint32 crc = (guint32) crc32_z (crc32 (0, NULL, 0), g_bytes_get_data (members[i].bytes, NULL), size);

      if (i < G_N_ELEMENTS (layout->members))
        {
          layout->members[i] = offset;
          layout->entries[i] = directory->len;
        }
      rlx_test_put (file, RLX_ZIP_MEMBER, 4);
      rlx_test_put (directory, RLX_ZIP_ENTRY, 4);
      rlx_test_put (directory, 45, 2);
      for (guint j = 0; j < 2; j++)
        {
          GByteArray *out = j == 0 ? file : directory;

          rlx_test_put (out, 20, 2);
          rlx_test_put (out, 0, 2);
          rlx_test_put (out, members[i].deflated ? RLX_ZIP_DEFLATED : RLX_ZIP_STORED, 2);
          rlx_test_put (out, 0, 4);
          rlx_test_put (out, crc, 4);
          rlx_test_put (out, large ? RLX_ZIP_LARGE32 : g_bytes_get_size (stored), 4);
          rlx_test_put (out, large ? RLX_ZIP_LARGE32 : size, 4);
          rlx_test_put (out, length, 2);
          rlx_test_put (out, large ? (j == 0 ? 20 : 28) : 0, 2);
        }
      rlx_test_put (directory, 0, 6);           /* no comment, the only archive, not text */
      rlx_test_put (directory, 0, 4);           /* no attributes */
      rlx_test_put (directory, large ? RLX_ZIP_LARGE32 : offset, 4);
      for (guint j = 0; j < 2; j++)
        {
          GByteArray *out = j == 0 ? file : directory;

          g_byte_array_append (out, (const guint8 *) members[i].name, (guint) length);
          if (!large)
            continue;
          rlx_test_put (out, RLX_ZIP_EXTRA64, 2);
          rlx_test_put (out, j == 0 ? 16 : 24, 2);
          rlx_test_put (out, size, 8);
          rlx_test_put (out, g_bytes_get_size (stored), 8);
          if (j == 1)
            rlx_test_put (out, offset, 8);
        }
      g_byte_array_append (file, g_bytes_get_data (stored, NULL), (guint) g_bytes_get_size (stored));
    }

  layout->directory = file->len;
  for (gsize i = 0; i < MIN (n, G_N_ELEMENTS (layout->entries)); i++)
    layout->entries[i] += file->len;
  g_byte_array_append (file, directory->data, directory->len);
  if (large)
    {
      end64 = file->len;
      rlx_test_put (file, RLX_ZIP_END64, 4);
      rlx_test_put (file, 44, 8);
      rlx_test_put (file, 45, 2);
      rlx_test_put (file, 45, 2);
      rlx_test_put (file, 0, 8);
      rlx_test_put (file, n, 8);
      rlx_test_put (file, n, 8);
      rlx_test_put (file, directory->len, 8);
      rlx_test_put (file, layout->directory, 8);
      rlx_test_put (file, RLX_ZIP_LOCATOR, 4);
      rlx_test_put (file, 0, 4);
      rlx_test_put (file, end64, 8);
      rlx_test_put (file, 1, 4);
    }
  layout->end = file->len;
  rlx_test_put (file, RLX_ZIP_END, 4);
  rlx_test_put (file, 0, 4);
  rlx_test_put (file, large ? RLX_ZIP_LARGE16 : n, 2);
  rlx_test_put (file, large ? RLX_ZIP_LARGE16 : n, 2);
  rlx_test_put (file, large ? RLX_ZIP_LARGE32 : directory->len, 4);
  rlx_test_put (file, large ? RLX_ZIP_LARGE32 : layout->directory, 4);
  rlx_test_put (file, 0, 2);
  g_byte_array_unref (directory);
  return file;
}

static GBytes *
make_one (const char *name,
          GBytes     *npy,
          gboolean    deflated)
{
  const Member member = { name, npy, deflated };
  Layout layout;

  return g_byte_array_free_to_bytes (make_archive (&member, 1, FALSE, &layout));
}

/* ---- valid files ------------------------------------------------------------------------- */

static void
assert_text (RlxWeights *weights,
             const char *name,
             const char *expected)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxTensor) tensor = rlx_weights_load_tensor (weights, name, NULL, &error);
  g_autofree char *text = NULL;

  g_assert_no_error (error);
  text = rlx_tensor_to_string (tensor);
  g_assert_cmpstr (text, ==, expected);
}

static void
test_right (void)
{
  const gint32 numbers[] = { 1, 2, 3, 4, 5, 6 };
  const double wide[] = { 1, 2, 3, 4 };
  g_autoptr(GBytes) a = make_simple (NATIVE "i4", "False", "(2, 3)", numbers, sizeof numbers);
  g_autoptr(GBytes) b = make_simple ("|u1", "True", "(2, 2)", "\1\2\3\4", 4);
  g_autoptr(GBytes) c = make_simple ("|b1", "False", "(0, 4)", NULL, 0);
  g_autoptr(GBytes) d = make_simple (NATIVE "f8", "True", "(2, 2)", wide, sizeof wide);
  g_autoptr(GBytes) text = g_bytes_new_static ("a text", 6);

  for (guint i = 0; i < 4; i++)
    {
      const Member members[] = { { "a.npy", a, i % 2 }, { "b/w.npy", b, i % 2 }, { "c.npy", c, i % 2 }, { "d.npy", d, i % 2 },
                                 { "README", text, i % 2 }, { "folder/", text, FALSE } };
      Layout layout;
      g_autoptr(GBytes) file = g_byte_array_free_to_bytes (make_archive (members, G_N_ELEMENTS (members), i > 1, &layout));
      g_autoptr(GError) error = NULL;
      g_autoptr(RlxWeights) weights = rlx_weights_new_from_bytes (file, &error);
      g_autoptr(RlxWeightsEntry) entry = NULL, foreign = NULL;
      g_autoptr(GBytes) bytes = NULL;

      g_assert_no_error (error);
      g_assert_cmpint (rlx_weights_get_format (weights), ==, RLX_WEIGHTS_FORMAT_NPZ);
      g_assert_cmpuint (g_list_model_get_n_items (G_LIST_MODEL (weights)), ==, 4);
      assert_text (weights, "a", "[1, 2, 3, 4, 5, 6]");
      assert_text (weights, "b/w", "[1, 3, 2, 4]");
      assert_text (weights, "c", "[]");
      entry = rlx_weights_lookup (weights, "a");
      g_assert_cmpuint (rlx_weights_entry_get_size (entry), ==, sizeof numbers);
      g_assert_cmpuint (rlx_weights_entry_get_offset (entry), >, layout.members[0]);
      g_assert_cmpuint (rlx_weights_entry_get_offset (entry), <, layout.members[1]);

      /* Arrays that are not tensors have their bytes, in row-major order. */
      foreign = rlx_weights_lookup (weights, "d");
      g_assert_false (rlx_weights_entry_is_loadable (foreign));
      bytes = rlx_weights_load_bytes (weights, "d", NULL, &error);
      g_assert_no_error (error);
      g_assert_cmpmem (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes), ((double[]) { 1, 3, 2, 4 }), 32);
    }
}

static void
test_empty (void)
{
  Layout layout;
  g_autoptr(GByteArray) file = make_archive (NULL, 0, FALSE, &layout);
  g_autoptr(GBytes) bytes = NULL, commented = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxWeights) weights = NULL, with_comment = NULL;

  bytes = g_bytes_new (file->data, file->len);
  weights = rlx_weights_new_from_bytes (bytes, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (g_list_model_get_n_items (G_LIST_MODEL (weights)), ==, 0);

  file->data[layout.end + 20] = 5;
  g_byte_array_append (file, (const guint8 *) "words", 5);
  commented = g_bytes_new (file->data, file->len);
  with_comment = rlx_weights_new_from_bytes (commented, &error);
  g_assert_no_error (error);
}

/* A single array, from memory, where it has no name, and from a file. */
static void
test_npy (void)
{
  g_autoptr(GBytes) npy = make_simple (NATIVE "u2", "True", "(2, 2)", "\1\0\2\0\3\0\4\0", 8);
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxWeights) weights = rlx_weights_new_from_bytes (npy, &error), opened = NULL;
  g_autofree char *folder = g_dir_make_tmp ("rlx-npz-XXXXXX", NULL), *path = g_build_filename (folder, "größe.npy", NULL);
  g_autoptr(GFile) file = g_file_new_for_path (path);

  g_assert_no_error (error);
  g_assert_cmpint (rlx_weights_get_format (weights), ==, RLX_WEIGHTS_FORMAT_NPY);
  assert_text (weights, "arr_0", "[1, 3, 2, 4]");

  g_assert_true (g_file_set_contents (path, g_bytes_get_data (npy, NULL), (gssize) g_bytes_get_size (npy), NULL));
  opened = rlx_weights_open (file, NULL, &error);
  g_assert_no_error (error);
  assert_text (opened, "größe", "[1, 3, 2, 4]");
  g_assert_cmpint (truncate (path, (off_t) g_bytes_get_size (npy) - 1), ==, 0);
  g_assert_null (rlx_weights_load_tensor (opened, "größe", NULL, &error));
  g_assert_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_TRUNCATED);
  g_assert_true (g_file_delete (file, NULL, NULL));
  g_assert_cmpint (rmdir (folder), ==, 0);
}

/* ---- invalid files ------------------------------------------------------------------------ */

typedef enum
{
  IN_MEMBER,
  IN_OTHER,        /* the second member */
  IN_ENTRY,
  IN_SECOND,       /* the second entry */
  IN_END,
  IN_NPY,          /* the first array */
} Part;

/* Two members, "x.npy" and "y.npy", each the array [1, 2, 3] of bytes; then one number is changed. */
static const struct
{
  Part part;
  guint at;
  guint size;
  guint64 value;
  RlxTestRefusal refusal;
} changes[] = {
  { IN_END, 0, 4, 0, { "no end", RLX_WEIGHTS_ERROR_TRUNCATED, "no directory" } },
  { IN_END, 20, 2, 1, { "comment beyond the end", RLX_WEIGHTS_ERROR_TRUNCATED, "no directory" } },
  { IN_END, 4, 2, 1, { "part of several", RLX_WEIGHTS_ERROR_UNSUPPORTED, "several parts" } },
  { IN_END, 6, 2, 1, { "directory elsewhere", RLX_WEIGHTS_ERROR_UNSUPPORTED, "several parts" } },
  { IN_END, 8, 2, 1, { "members elsewhere", RLX_WEIGHTS_ERROR_UNSUPPORTED, "several parts" } },
  { IN_END, 8, 4, 0x00010001, { "one entry of two", RLX_WEIGHTS_ERROR_PARSE, "more than its 1" } },
  { IN_END, 8, 4, 0x00030003, { "three entries of two", RLX_WEIGHTS_ERROR_PARSE, "3|room for 2" } },
  { IN_END, 8, 4, 0xffffffff, { "many entries", RLX_WEIGHTS_ERROR_PARSE, "ZIP64 end record" } },
  { IN_END, 12, 4, 1, { "short directory", RLX_WEIGHTS_ERROR_PARSE, "does not end at its end record" } },
  { IN_END, 12, 4, 0xfffffffe, { "huge directory", RLX_WEIGHTS_ERROR_PARSE, "4294967294" } },
  { IN_END, 16, 4, 0, { "directory at 0", RLX_WEIGHTS_ERROR_PARSE, "does not end" } },
  { IN_END, 16, 4, 0xffffffff, { "large offset, not there", RLX_WEIGHTS_ERROR_PARSE, "ZIP64 end record" } },

  { IN_ENTRY, 0, 4, 0, { "no entry", RLX_WEIGHTS_ERROR_PARSE, "no entry" } },
  { IN_ENTRY, 8, 2, 1, { "encrypted", RLX_WEIGHTS_ERROR_UNSUPPORTED, "encrypted" } },
  { IN_ENTRY, 8, 2, 8, { "other flags", RLX_WEIGHTS_ERROR_PARSE, "another one" } },
  { IN_ENTRY, 10, 2, 14, { "method", RLX_WEIGHTS_ERROR_UNSUPPORTED, "method 14" } },
  { IN_ENTRY, 10, 2, 8, { "deflated there", RLX_WEIGHTS_ERROR_PARSE, "another one" } },
  { IN_ENTRY, 20, 4, 5, { "stored size", RLX_WEIGHTS_ERROR_PARSE, "not deflated" } },
  { IN_ENTRY, 24, 4, 5, { "size", RLX_WEIGHTS_ERROR_PARSE, "not deflated" } },
  { IN_ENTRY, 24, 4, 0xffffffff, { "large size, not there", RLX_WEIGHTS_ERROR_PARSE, "missing" } },
  { IN_ENTRY, 28, 2, 4, { "name and extra", RLX_WEIGHTS_ERROR_PARSE, "another one" } },
  { IN_ENTRY, 28, 2, 0xffff, { "long name", RLX_WEIGHTS_ERROR_TRUNCATED, "name of a member" } },
  { IN_ENTRY, 30, 2, 0xffff, { "long extra field", RLX_WEIGHTS_ERROR_TRUNCATED, "extra fields" } },
  { IN_ENTRY, 30, 2, 3, { "short extra field", RLX_WEIGHTS_ERROR_PARSE, "extra fields" } },
  { IN_SECOND, 32, 2, 1, { "comment in the end", RLX_WEIGHTS_ERROR_TRUNCATED, "comment" } },
  { IN_ENTRY, 42, 4, 1, { "in another place", RLX_WEIGHTS_ERROR_PARSE, "no member where" } },
  { IN_ENTRY, 42, 4, 0xfffffffe, { "beyond the end", RLX_WEIGHTS_ERROR_TRUNCATED, "4294967294" } },
  { IN_SECOND, 42, 4, 0, { "the same member", RLX_WEIGHTS_ERROR_PARSE, "another one" } },
  { IN_ENTRY, 46, 1, 'z', { "other name", RLX_WEIGHTS_ERROR_PARSE, "“z.npy”|another one" } },

  { IN_OTHER, 0, 4, 0, { "no member", RLX_WEIGHTS_ERROR_PARSE, "no member" } },
  { IN_MEMBER, 6, 2, 1, { "encrypted by itself", RLX_WEIGHTS_ERROR_PARSE, "another one" } },
  { IN_MEMBER, 8, 2, 8, { "deflated by itself", RLX_WEIGHTS_ERROR_PARSE, "another one" } },
  { IN_MEMBER, 26, 2, 6, { "other length of name", RLX_WEIGHTS_ERROR_PARSE, "another one" } },
  { IN_MEMBER, 28, 2, 0xffff, { "extra beyond the end", RLX_WEIGHTS_ERROR_TRUNCATED, "extra fields" } },
  { IN_MEMBER, 28, 2, 150, { "extra over the next", RLX_WEIGHTS_ERROR_TRUNCATED, "directory begins" } },
  { IN_MEMBER, 28, 2, 20, { "extra over its bytes", RLX_WEIGHTS_ERROR_PARSE, "begins before byte" } },

  { IN_NPY, 0, 1, 0, { "magic", RLX_WEIGHTS_ERROR_PARSE, "“x.npy”|magic" } },
  { IN_NPY, 6, 1, 9, { "version", RLX_WEIGHTS_ERROR_UNSUPPORTED, "“x.npy”|9.0" } },
  { IN_NPY, 8, 2, 0xffff, { "header", RLX_WEIGHTS_ERROR_TRUNCATED, "“x.npy”|header" } },
  { IN_NPY, 8, 2, 2, { "short header", RLX_WEIGHTS_ERROR_PARSE, "“x.npy”" } },
};

static GByteArray *
make_two (Layout *layout,
          gsize  *npy)
{
  g_autoptr(GBytes) array = make_simple ("|u1", "False", "(3,)", "\1\2\3", 3);
  const Member members[] = { { "x.npy", array, FALSE }, { "y.npy", array, FALSE } };

  *npy = RLX_ZIP_MEMBER_SIZE + 5;
  return make_archive (members, 2, FALSE, layout);
}

static void
test_wrong (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (changes); i++)
    {
      Layout layout;
      gsize npy, at;
      guint64 value = GUINT64_TO_LE (changes[i].value);
      g_autoptr(GByteArray) file = make_two (&layout, &npy);
      g_autoptr(GBytes) bytes = NULL;
      const gsize starts[] = { layout.members[0], layout.members[1], layout.entries[0], layout.entries[1], layout.end, npy };

      at = starts[changes[i].part] + changes[i].at;
      memcpy (file->data + at, &value, changes[i].size);
      bytes = g_bytes_new (file->data, file->len);
      rlx_test_check_refused (bytes, 0, &changes[i].refusal);
    }
}

static void
test_names (void)
{
  static const struct
  {
    const char *name;
    RlxTestRefusal refusal;
  } cases[] = {
    { ".npy", { "no name", RLX_WEIGHTS_ERROR_PARSE, "empty" } },
    { "/x.npy", { "absolute", RLX_WEIGHTS_ERROR_PARSE, "begins with “/”" } },
    { "a/../../x.npy", { "way out", RLX_WEIGHTS_ERROR_PARSE, "leads out" } },
    { "\xff.npy", { "not UTF-8", RLX_WEIGHTS_ERROR_PARSE, "UTF-8" } },
    { "\x1b.npy", { "control", RLX_WEIGHTS_ERROR_PARSE, "control" } },
    { "x.txt", { "no array", RLX_WEIGHTS_ERROR_UNSUPPORTED, "no .npy" } },
    { "data.pkl", { "pickle", RLX_WEIGHTS_ERROR_UNSUPPORTED, "no .npy" } },
  };
  g_autoptr(GBytes) array = make_simple ("|u1", "False", "(3,)", "\1\2\3", 3);
  const Member twice[] = { { "x.npy", array, FALSE }, { "x.npy", array, FALSE } };
  const RlxTestRefusal two = { "name twice", RLX_WEIGHTS_ERROR_PARSE, "two tensors called “x”" };
  g_autoptr(GBytes) file = NULL;
  Layout layout;

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr(GBytes) bytes = make_one (cases[i].name, array, FALSE);

      rlx_test_check_refused (bytes, 0, &cases[i].refusal);
    }
  file = g_byte_array_free_to_bytes (make_archive (twice, 2, FALSE, &layout));
  rlx_test_check_refused (file, 0, &two);
}

/* Every truncated archive. */
static void
test_truncated (void)
{
  Layout layout;
  gsize npy;
  g_autoptr(GBytes) file = g_byte_array_free_to_bytes (make_two (&layout, &npy));

  for (gsize i = 0; i < g_bytes_get_size (file); i++)
    {
      g_autoptr(GBytes) cut = g_bytes_new_from_bytes (file, 0, i);
      g_autoptr(GError) error = NULL;

      g_assert_null (rlx_weights_new_from_bytes (cut, &error));
      g_assert_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_TRUNCATED);
    }
}

/* Modified bytes are detected when they are read, if not before. */
static void
test_damaged (void)
{
  g_autofree guint8 *data = g_malloc0 (100000);
  g_autoptr(GBytes) array = make_simple ("|u1", "False", "(100000,)", data, 100000);

  for (gsize i = 0; i < 100000; i++)
    data[i] = (guint8) (i * i >> 3);
  g_clear_pointer (&array, g_bytes_unref);
  array = make_simple ("|u1", "False", "(100000,)", data, 100000);
  for (guint deflated = 0; deflated < 2; deflated++)
    {
      g_autoptr(GBytes) good = make_one ("x.npy", array, deflated);
      gsize size;
      const guint8 *bytes = g_bytes_get_data (good, &size);
      gsize end = size - RLX_ZIP_END_SIZE - RLX_ZIP_ENTRY_SIZE - 5;

      for (gsize at = RLX_ZIP_MEMBER_SIZE + 5; at < end; at += 977)
        {
          g_autofree guint8 *copy = g_memdup2 (bytes, size);
          g_autoptr(GBytes) bad = NULL;
          g_autoptr(GError) error = NULL;
          g_autoptr(RlxWeights) weights = NULL;
          g_autoptr(RlxTensor) tensor = NULL;

          copy[at] ^= 0x10;
          bad = g_bytes_new_take (g_steal_pointer (&copy), size);
          weights = rlx_weights_new_from_bytes (bad, &error);
          if (weights != NULL)
            tensor = rlx_weights_load_tensor (weights, "x", NULL, &error);
          g_assert_null (tensor);
          g_assert_true (error->domain == RLX_WEIGHTS_ERROR);
          g_assert_true (error->code == RLX_WEIGHTS_ERROR_PARSE || error->code == RLX_WEIGHTS_ERROR_TRUNCATED ||
                         error->code == RLX_WEIGHTS_ERROR_LIMIT || error->code == RLX_WEIGHTS_ERROR_UNSUPPORTED);
        }
    }
}

/* More, or less, is inflated than the directory says. */
static void
test_inflated (void)
{
  static const int changes_of_size[] = { -1, 1 };
  g_autofree guint8 *data = g_malloc0 (1000);
  g_autoptr(GBytes) array = make_simple ("|u1", "False", "(1000,)", data, 1000);
  g_autoptr(GBytes) lying = make_simple ("|u1", "False", "(1001,)", data, 1000);
  g_autoptr(GBytes) good = make_one ("x.npy", array, TRUE), short_by_one = make_one ("x.npy", lying, TRUE);
  gsize size;
  const guint8 *bytes = g_bytes_get_data (good, &size);
  gsize entry = size - RLX_ZIP_END_SIZE - RLX_ZIP_ENTRY_SIZE - 5;

  for (gsize i = 0; i < G_N_ELEMENTS (changes_of_size); i++)
    {
      guint8 *copy = g_memdup2 (bytes, size);
      g_autoptr(GBytes) file = NULL;
      guint32 length;
      const RlxTestRefusal refusal = { "size", changes_of_size[i] < 0 ? RLX_WEIGHTS_ERROR_TRUNCATED : RLX_WEIGHTS_ERROR_PARSE, "“x.npy”|elements" };

      memcpy (&length, copy + entry + 24, 4);
      length = GUINT32_TO_LE (GUINT32_FROM_LE (length) + (guint32) changes_of_size[i]);
      memcpy (copy + entry + 24, &length, 4);
      file = g_bytes_new_take (copy, size);
      rlx_test_check_refused (file, 0, &refusal);
    }

  /* The array claims another element, and the directory agrees, but it is not there. */
  {
    gsize n;
    guint8 *copy = g_memdup2 (g_bytes_get_data (short_by_one, &n), g_bytes_get_size (short_by_one));
    g_autoptr(GBytes) file = NULL;
    g_autoptr(GError) error = NULL;
    g_autoptr(RlxWeights) weights = NULL;
    guint32 length;

    entry = n - RLX_ZIP_END_SIZE - RLX_ZIP_ENTRY_SIZE - 5;
    memcpy (&length, copy + entry + 24, 4);
    length = GUINT32_TO_LE (GUINT32_FROM_LE (length) + 1);
    memcpy (copy + entry + 24, &length, 4);
    file = g_bytes_new_take (copy, n);
    weights = rlx_weights_new_from_bytes (file, &error);
    g_assert_no_error (error);
    g_assert_null (rlx_weights_load_tensor (weights, "x", NULL, &error));
    g_assert_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_TRUNCATED);
  }
}

/* Little data that inflates to a lot. */
static void
test_bomb (void)
{
  const gsize size = (gsize) 64 << 20;
  const RlxTestRefusal limit = { "bomb", RLX_WEIGHTS_ERROR_LIMIT, "come out of|1073741824|100 times" };
  g_autofree guint8 *zeros = g_malloc0 (size);
  g_autoptr(GBytes) array = make_simple ("|u1", "False", "(67108864,)", zeros, size);
  const Member member = { "x.npy", array, TRUE };
  Layout layout;
  g_autoptr(GByteArray) file = make_archive (&member, 1, TRUE, &layout);
  g_autoptr(GBytes) good = g_bytes_new (file->data, file->len), bad = NULL, more = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxWeights) weights = rlx_weights_new_from_bytes (good, &error), lying = NULL;
  guint64 claimed = GUINT64_TO_LE (G_GUINT64_CONSTANT (1) << 40);

  /* A factor of a thousand is allowed, up to a size. */
  g_assert_no_error (error);
  g_assert_cmpuint (g_list_model_get_n_items (G_LIST_MODEL (weights)), ==, 1);

  memcpy (file->data + layout.entries[0] + RLX_ZIP_ENTRY_SIZE + 5 + 4, &claimed, 8);
  bad = g_bytes_new (file->data, file->len);
  rlx_test_check_refused (bad, g_bytes_get_size (bad), &limit);

  /* The member goes on after the end of its array: nothing is inflated beyond that. */
  claimed = GUINT64_TO_LE ((guint64) g_bytes_get_size (array) - 1000);
  memcpy (file->data + layout.entries[0] + RLX_ZIP_ENTRY_SIZE + 5 + 4, &claimed, 8);
  more = g_bytes_new (file->data, file->len);
  lying = rlx_weights_new_from_bytes (more, &error);
  g_assert_null (lying);
  g_assert_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_TRUNCATED);
}

/* A hundred thousand members, with an error at the end: memory is limited by the size of the file. */
static void
test_many (void)
{
  const guint n = 100000;
  g_autoptr(GBytes) array = make_simple ("|u1", "False", "()", "\1", 1);
  g_autofree Member *members = g_new0 (Member, n);
  g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  const RlxTestRefusal refusal = { "many", RLX_WEIGHTS_ERROR_PARSE, "two tensors called “same”, the other one at byte" };
  g_autoptr(GBytes) file = NULL;
  Layout layout;

  for (guint i = 0; i < n; i++)
    {
      g_ptr_array_add (names, i + 2 < n ? g_strdup_printf ("%u.npy", i) : g_strdup ("same.npy"));
      members[i] = (Member) { g_ptr_array_index (names, i), array, FALSE };
    }
  file = g_byte_array_free_to_bytes (make_archive (members, n, TRUE, &layout));
  rlx_test_check_refused (file, n, &refusal);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/weights/npz/right", test_right);
  g_test_add_func ("/weights/npz/empty", test_empty);
  g_test_add_func ("/weights/npz/npy", test_npy);
  g_test_add_func ("/weights/npz/wrong", test_wrong);
  g_test_add_func ("/weights/npz/names", test_names);
  g_test_add_func ("/weights/npz/truncated", test_truncated);
  g_test_add_func ("/weights/npz/damaged", test_damaged);
  g_test_add_func ("/weights/npz/inflated", test_inflated);
  g_test_add_func ("/weights/npz/bomb", test_bomb);
  g_test_add_func ("/weights/npz/many", test_many);
  return g_test_run ();
}
