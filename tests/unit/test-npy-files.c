/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * .npy files on a disk: what is not a file, is too large, is full, or changes.
 */
#include "config.h"

#include "rlx-test-npy.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- files -------------------------------------------------------------- */

typedef struct
{
  char *folder;
  RlxTensor *tensor;
} Fixture;

static void
fixture_set_up (Fixture       *fixture,
                gconstpointer  data G_GNUC_UNUSED)
{
  const gint64 values[] = { 1, 2, 3, 4, 5, 6 };

  fixture->folder = g_dir_make_tmp ("rlx-npy-XXXXXX", NULL);
  fixture->tensor = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I64, SHAPE (2, 3), values, 6, NULL);
}

static guint
count_files (const char *folder)
{
  GDir *dir = g_dir_open (folder, 0, NULL);
  guint n = 0;

  while (g_dir_read_name (dir) != NULL)
    n++;
  g_dir_close (dir);

  return n;
}

static void
fixture_tear_down (Fixture       *fixture,
                   gconstpointer  data G_GNUC_UNUSED)
{
  GDir *dir = g_dir_open (fixture->folder, 0, NULL);
  const char *name;

  while ((name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *path = g_build_filename (fixture->folder, name, NULL);

      g_remove (path);
    }
  g_dir_close (dir);
  g_rmdir (fixture->folder);
  g_free (fixture->folder);
  g_object_unref (fixture->tensor);
}

static GFile *
file_in (Fixture    *fixture,
         const char *name)
{
  return g_file_new_build_filename (fixture->folder, name, NULL);
}

static void
assert_not_loaded (GFile      *file,
                   GQuark      domain,
                   int         code,
                   const char *part)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *name = g_file_get_parse_name (file);

  g_assert_null (rlx_tensor_load_npy (file, NULL, &error));
  g_assert_error (error, domain, code);
  g_assert_true (g_str_has_prefix (error->message, name));
  if (part != NULL)
    g_assert_nonnull (strstr (error->message, part));
  g_assert_null (rlx_tensor_load_npy (file, NULL, NULL));
}

static void
test_save (Fixture       *fixture,
           gconstpointer  data G_GNUC_UNUSED)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GFile) file = file_in (fixture, "größe.npy");
  g_autoptr (GBytes) expected = rlx_tensor_to_npy (fixture->tensor, NULL);
  g_autoptr (GBytes) contents = NULL;
  g_autoptr (RlxTensor) back = NULL;
  g_autoptr (RlxTensor) again = NULL;
  g_autoptr (RlxTensor) scalar = rlx_tensor_new_scalar (RLX_DATA_TYPE_F32, 1, NULL);

  g_assert_true (rlx_tensor_save_npy (fixture->tensor, file, NULL, &error));
  g_assert_no_error (error);
  contents = g_file_load_bytes (file, NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_true (g_bytes_equal (contents, expected));

  back = rlx_tensor_load_npy (file, NULL, &error);
  g_assert_no_error (error);
  g_assert_true (rlx_tensor_equal (back, fixture->tensor));

  /* Overwrites an existing file. */
  g_assert_true (rlx_tensor_save_npy (scalar, file, NULL, &error));
  g_assert_no_error (error);
  again = rlx_tensor_load_npy (file, NULL, &error);
  g_assert_no_error (error);
  g_assert_true (rlx_tensor_equal (again, scalar));
  g_assert_cmpuint (count_files (fixture->folder), ==, 1);
}

static void
test_not_a_file (Fixture       *fixture,
                 gconstpointer  data G_GNUC_UNUSED)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GFile) folder = g_file_new_for_path (fixture->folder);
  g_autoptr (GFile) missing = file_in (fixture, "missing.npy");
  g_autoptr (GFile) dangling = file_in (fixture, "dangling");
  g_autoptr (GFile) empty = file_in (fixture, "empty");
  g_autoptr (GFile) fifo = file_in (fixture, "fifo");
  g_autoptr (GFile) zero = g_file_new_for_path ("/dev/zero");
  g_autoptr (GFile) odd = g_file_new_for_uri ("nonsense:///x");
  g_autoptr (GFile) link = file_in (fixture, "link");
  g_autoptr (GFile) real = file_in (fixture, "real");
  g_autoptr (RlxTensor) tensor = NULL;

  assert_not_loaded (folder, G_IO_ERROR, G_IO_ERROR_IS_DIRECTORY, NULL);
  assert_not_loaded (missing, G_IO_ERROR, G_IO_ERROR_NOT_FOUND, NULL);
  assert_not_loaded (odd, G_IO_ERROR, G_IO_ERROR_NOT_SUPPORTED, NULL);

  g_assert_cmpint (symlink ("nowhere", g_file_peek_path (dangling)), ==, 0);
  assert_not_loaded (dangling, G_IO_ERROR, G_IO_ERROR_NOT_FOUND, NULL);

  g_assert_true (g_file_set_contents (g_file_peek_path (empty), "", 0, NULL));
  assert_not_loaded (empty, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_TRUNCATED, NULL);

  /* Neither waits for a writer nor reads for ever. */
  g_assert_cmpint (mkfifo (g_file_peek_path (fifo), 0600), ==, 0);
  assert_not_loaded (fifo, G_IO_ERROR, G_IO_ERROR_NOT_REGULAR_FILE, NULL);
  if (g_file_query_exists (zero, NULL))
    assert_not_loaded (zero, G_IO_ERROR, G_IO_ERROR_NOT_REGULAR_FILE, NULL);

  /* A link to a valid file works like the file. */
  g_assert_true (rlx_tensor_save_npy (fixture->tensor, real, NULL, &error));
  g_assert_cmpint (symlink ("real", g_file_peek_path (link)), ==, 0);
  tensor = rlx_tensor_load_npy (link, NULL, &error);
  g_assert_no_error (error);
  g_assert_true (rlx_tensor_equal (tensor, fixture->tensor));

  g_assert_false (rlx_tensor_save_npy (fixture->tensor, folder, NULL, &error));
  g_assert_true (error->domain == G_IO_ERROR);
  g_clear_error (&error);
  g_assert_false (rlx_tensor_save_npy (fixture->tensor, odd, NULL, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_NOT_SUPPORTED);
  g_clear_error (&error);
  g_assert_false (rlx_tensor_save_npy (fixture->tensor, fifo, NULL, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_NOT_REGULAR_FILE);
}

/* Files that claim to be, or are, far too large. */
static void
test_huge (Fixture       *fixture,
           gconstpointer  data G_GNUC_UNUSED)
{
  g_autoptr (GFile) file = file_in (fixture, "huge.npy");
  /* 32 GiB, none of which is there. */
  g_autoptr (GBytes) claim = make_simple (NATIVE "u8", "True", "(65535, 65537)", NULL, 0);
  g_autoptr (GBytes) small = make_simple ("|u1", "False", "(5,)", NULL, 0);

  g_assert_true (g_file_set_contents (g_file_peek_path (file), g_bytes_get_data (claim, NULL),
                                      (gssize) g_bytes_get_size (claim), NULL));
  assert_not_loaded (file, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_TRUNCATED, "34359738360");

  /* A sparse terabyte. */
  g_assert_true (g_file_set_contents (g_file_peek_path (file), g_bytes_get_data (small, NULL),
                                      (gssize) g_bytes_get_size (small), NULL));
  if (truncate (g_file_peek_path (file), (off_t) 1 << 40) != 0)
    {
      g_test_skip ("The file system does not take a file of a terabyte");
      return;
    }
  assert_not_loaded (file, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_PARSE, "5 bytes");
}

static void
test_cancelled (Fixture       *fixture,
                gconstpointer  data G_GNUC_UNUSED)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GFile) file = file_in (fixture, "a.npy");
  g_autoptr (GFile) other = file_in (fixture, "b.npy");
  g_autoptr (GBytes) before = NULL;
  g_autoptr (GBytes) after = NULL;
  g_autoptr (RlxTensor) scalar = rlx_tensor_new_scalar (RLX_DATA_TYPE_F32, 1, NULL);

  g_assert_true (rlx_tensor_save_npy (fixture->tensor, file, cancellable, &error));
  g_assert_no_error (error);
  before = g_file_load_bytes (file, NULL, NULL, NULL);

  g_cancellable_cancel (cancellable);
  g_assert_null (rlx_tensor_load_npy (file, cancellable, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_clear_error (&error);
  g_assert_false (rlx_tensor_save_npy (scalar, file, cancellable, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_clear_error (&error);
  g_assert_false (rlx_tensor_save_npy (scalar, other, cancellable, NULL));

  after = g_file_load_bytes (file, NULL, NULL, NULL);
  g_assert_true (g_bytes_equal (before, after));
  g_assert_cmpuint (count_files (fixture->folder), ==, 1);
}

/* The disk is full half-way; the old contents must be preserved. */
static void
test_disk_full_child (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *folder = g_dir_make_tmp ("rlx-npy-XXXXXX", NULL);
  g_autoptr (GFile) file = g_file_new_build_filename (folder, "a.npy", NULL);
  g_autoptr (RlxTensor) scalar = rlx_tensor_new_scalar (RLX_DATA_TYPE_F32, 1, NULL);
  g_autoptr (RlxTensor) back = NULL;
  g_autoptr (RlxTensor) large = NULL;
  g_autofree guint8 *data = g_malloc0 (1 << 20);
  struct rlimit limit;

  large = rlx_tensor_new_from_data (RLX_DATA_TYPE_U8, SHAPE (1 << 20), data, 1 << 20, &error);
  g_assert_true (rlx_tensor_save_npy (scalar, file, NULL, &error));
  g_assert_no_error (error);

  signal (SIGXFSZ, SIG_IGN);
  g_assert_cmpint (getrlimit (RLIMIT_FSIZE, &limit), ==, 0);
  limit.rlim_cur = 100000;
  g_assert_cmpint (setrlimit (RLIMIT_FSIZE, &limit), ==, 0);

  g_assert_false (rlx_tensor_save_npy (large, file, NULL, &error));
  g_assert_true (error->domain == G_IO_ERROR);
  g_clear_error (&error);

  g_assert_cmpuint (count_files (folder), ==, 1);
  back = rlx_tensor_load_npy (file, NULL, &error);
  g_assert_no_error (error);
  g_assert_true (rlx_tensor_equal (back, scalar));

  g_assert_true (g_file_delete (file, NULL, NULL));
  g_rmdir (folder);
}

static void
test_disk_full (void)
{
  g_test_trap_subprocess ("/npy/subprocess/disk-full", 0, G_TEST_SUBPROCESS_DEFAULT);
  g_test_trap_assert_passed ();
}

/* Too little memory for the contents of a file, and for a second copy of it. */
static void
test_memory_child (void)
{
  const gsize size = (gsize) 1 << 30;
  g_autofree char *folder = g_dir_make_tmp ("rlx-npy-XXXXXX", NULL);
  g_autoptr (GFile) file = g_file_new_build_filename (folder, "a.npy", NULL);
  static const char * const orders[] = { "False", " True" };
  struct rlimit limit;

  g_assert_cmpint (getrlimit (RLIMIT_AS, &limit), ==, 0);
  limit.rlim_cur = (rlim_t) size + ((rlim_t) 512 << 20);
  g_assert_cmpint (setrlimit (RLIMIT_AS, &limit), ==, 0);

  for (guint i = 0; i < G_N_ELEMENTS (orders); i++)
    {
      g_autoptr (GBytes) header = make_simple (NATIVE "u4", orders[i], "(4, 67108864 )", NULL, 0);
      g_autoptr (GMappedFile) mapped = NULL;
      g_autoptr (GBytes) whole = NULL;
      g_autoptr (GError) error = NULL;

      /* So that a copy is needed for either byte order. */
      g_assert_cmpuint (g_bytes_get_size (header) % 4, !=, 0);

      g_assert_true (g_file_set_contents (g_file_peek_path (file), g_bytes_get_data (header, NULL),
                                          (gssize) g_bytes_get_size (header), NULL));
      g_assert_cmpint (truncate (g_file_peek_path (file), (off_t) (g_bytes_get_size (header) + size)), ==, 0);

      mapped = g_mapped_file_new (g_file_peek_path (file), FALSE, &error);
      g_assert_no_error (error);
      whole = g_mapped_file_get_bytes (mapped);

      g_assert_null (rlx_tensor_new_from_npy (whole, &error));
      g_assert_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_LIMIT);
      g_assert_nonnull (strstr (error->message, "1073741824"));
      g_clear_error (&error);

      /* The mapping leaves no room for the elements here either. */
      assert_not_loaded (file, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_LIMIT, "1073741824");
    }

  g_assert_true (g_file_delete (file, NULL, NULL));
  g_rmdir (folder);
}

static void
test_memory (void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  g_test_skip ("The sanitizer needs the address space");
#else
  g_test_trap_subprocess ("/npy/subprocess/memory", 0, G_TEST_SUBPROCESS_DEFAULT);
  g_test_trap_assert_passed ();
#endif
}

/* ---- files that change while they are read ------------------------------ */

/* Claims to be as long as expected, and is shorter. */
typedef struct
{
  GFileInputStream parent_instance;
  GBytes *bytes;
  gsize position;
  gboolean fails;
  GCancellable *cancellable;
} OddStream;

typedef GFileInputStreamClass OddStreamClass;

typedef struct
{
  GObject parent_instance;
  GBytes *bytes;
  goffset size;                /* negative: unknown */
  gboolean fails;              /* with an error at the end instead of end of file */
  gboolean cannot_open;
  GCancellable *cancellable;   /* cancelled by the first read */
} OddFile;

typedef GObjectClass OddFileClass;

static GType odd_stream_get_type (void);
static GType odd_file_get_type (void);
static void odd_file_iface_init (GFileIface *iface);

G_DEFINE_TYPE (OddStream, odd_stream, G_TYPE_FILE_INPUT_STREAM)
G_DEFINE_TYPE_WITH_CODE (OddFile, odd_file, G_TYPE_OBJECT,
                         G_IMPLEMENT_INTERFACE (G_TYPE_FILE, odd_file_iface_init))

static gssize
odd_stream_read (GInputStream  *stream,
                 void          *buffer,
                 gsize          count,
                 GCancellable  *cancellable G_GNUC_UNUSED,
                 GError       **error)
{
  OddStream *self = (OddStream *) stream;
  gsize size;
  const guint8 *data = g_bytes_get_data (self->bytes, &size);
  /* In small chunks, as a remote file may be read. */
  gsize n = MIN (MIN (count, 7), size - self->position);

  if (self->cancellable != NULL)
    g_cancellable_cancel (self->cancellable);

  if (n == 0 && self->fails)
    {
      g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_CONNECTION_CLOSED, "Gone");
      return -1;
    }

  memcpy (buffer, data + self->position, n);
  self->position += n;

  return (gssize) n;
}

static void
odd_stream_class_init (OddStreamClass *klass)
{
  G_INPUT_STREAM_CLASS (klass)->read_fn = odd_stream_read;
}

static void
odd_stream_init (OddStream *self G_GNUC_UNUSED)
{
}

static GFileInfo *
odd_file_query_info (GFile                *file,
                     const char           *attributes G_GNUC_UNUSED,
                     GFileQueryInfoFlags   flags G_GNUC_UNUSED,
                     GCancellable         *cancellable G_GNUC_UNUSED,
                     GError              **error G_GNUC_UNUSED)
{
  OddFile *self = (OddFile *) file;
  GFileInfo *info = g_file_info_new ();

  g_file_info_set_file_type (info, G_FILE_TYPE_REGULAR);
  if (self->size >= 0)
    g_file_info_set_size (info, self->size);

  return info;
}

static GFileInputStream *
odd_file_read (GFile         *file,
               GCancellable  *cancellable G_GNUC_UNUSED,
               GError       **error)
{
  OddFile *self = (OddFile *) file;
  OddStream *stream;

  if (self->cannot_open)
    {
      g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_PERMISSION_DENIED, "Denied");
      return NULL;
    }

  stream = g_object_new (odd_stream_get_type (), NULL);
  stream->bytes = self->bytes;
  stream->fails = self->fails;
  stream->cancellable = self->cancellable;

  return (GFileInputStream *) stream;
}

static char *
odd_file_get_parse_name (GFile *file G_GNUC_UNUSED)
{
  return g_strdup ("odd:///file");
}

static char *
odd_file_get_path (GFile *file G_GNUC_UNUSED)
{
  return NULL;
}

static void
odd_file_iface_init (GFileIface *iface)
{
  iface->get_path = odd_file_get_path;
  iface->query_info = odd_file_query_info;
  iface->read_fn = odd_file_read;
  iface->get_parse_name = odd_file_get_parse_name;
}

static void
odd_file_class_init (OddFileClass *klass G_GNUC_UNUSED)
{
}

static void
odd_file_init (OddFile *self G_GNUC_UNUSED)
{
}

static void
test_changing (Fixture       *fixture,
               gconstpointer  data G_GNUC_UNUSED)
{
  g_autoptr (GBytes) whole = rlx_tensor_to_npy (fixture->tensor, NULL);
  gsize size = g_bytes_get_size (whole);
  OddFile *odd = g_object_new (odd_file_get_type (), NULL);
  g_autoptr (GFile) file = G_FILE (odd);
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxTensor) tensor = NULL;
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();

  odd->bytes = whole;
  odd->size = (goffset) size;
  tensor = rlx_tensor_load_npy (file, NULL, &error);
  g_assert_no_error (error);
  g_assert_true (rlx_tensor_equal (tensor, fixture->tensor));

  /* It ends early at each position, although its size was right. */
  for (gsize n = 0; n < size; n++)
    {
      g_autoptr (GBytes) part = g_bytes_new_from_bytes (whole, 0, n);

      odd->bytes = part;
      odd->fails = FALSE;
      assert_not_loaded (file, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_TRUNCATED, NULL);
      odd->fails = TRUE;
      assert_not_loaded (file, G_IO_ERROR, G_IO_ERROR_CONNECTION_CLOSED, "Gone");
    }

  odd->bytes = whole;
  odd->fails = FALSE;
  odd->cancellable = cancellable;
  g_assert_null (rlx_tensor_load_npy (file, cancellable, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);

  odd->cancellable = NULL;
  odd->size = -1;
  assert_not_loaded (file, G_IO_ERROR, G_IO_ERROR_NOT_SUPPORTED, "size");
  odd->cannot_open = TRUE;
  assert_not_loaded (file, G_IO_ERROR, G_IO_ERROR_PERMISSION_DENIED, "Denied");
}

/* No descriptor is leaked, whatever happens. */
static void
test_descriptors (Fixture       *fixture,
                  gconstpointer  data G_GNUC_UNUSED)
{
  g_autoptr (GFile) good = file_in (fixture, "good.npy");
  g_autoptr (GFile) bad = file_in (fixture, "bad.npy");
  guint before;

  if (!g_file_test ("/proc/self/fd", G_FILE_TEST_IS_DIR))
    {
      g_test_skip ("There is no /proc");
      return;
    }

  g_assert_true (g_file_set_contents (g_file_peek_path (bad), "\x93NUMPY\x01\x00\x02\x00{}rest", 16, NULL));
  g_assert_true (rlx_tensor_save_npy (fixture->tensor, good, NULL, NULL));
  before = count_files ("/proc/self/fd");

  for (guint i = 0; i < 10; i++)
    {
      g_autoptr (RlxTensor) tensor = rlx_tensor_load_npy (good, NULL, NULL);

      g_assert_nonnull (tensor);
      g_assert_null (rlx_tensor_load_npy (bad, NULL, NULL));
      g_assert_true (rlx_tensor_save_npy (fixture->tensor, good, NULL, NULL));
    }

  g_assert_cmpuint (count_files ("/proc/self/fd"), ==, before);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);

#define ADD(path, function) \
  g_test_add (path, Fixture, NULL, fixture_set_up, function, fixture_tear_down)
  ADD ("/npy/file/save", test_save);
  ADD ("/npy/file/not-a-file", test_not_a_file);
  ADD ("/npy/file/huge", test_huge);
  ADD ("/npy/file/cancelled", test_cancelled);
  ADD ("/npy/file/descriptors", test_descriptors);
  ADD ("/npy/file/changing", test_changing);
  g_test_add_func ("/npy/file/disk-full", test_disk_full);
  g_test_add_func ("/npy/subprocess/disk-full", test_disk_full_child);
  g_test_add_func ("/npy/file/memory", test_memory);
  g_test_add_func ("/npy/subprocess/memory", test_memory_child);

  return g_test_run ();
}
