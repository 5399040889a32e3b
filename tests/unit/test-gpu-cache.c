/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-test-util.h"
#include "rlx-test-gpu.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Runs the test again, in a process with a cache of its own. */
static void
repeat_with_empty_cache (void)
{
  g_autofree char *folder = g_dir_make_tmp ("rlx-test-XXXXXX", NULL);
  g_auto (GStrv) environment = g_get_environ ();

  environment = g_environ_setenv (environment, "XDG_CACHE_HOME", folder, TRUE);
  g_test_trap_subprocess_with_envp (NULL, (const char * const *) environment, 0, G_TEST_SUBPROCESS_INHERIT_STDERR);
  rlx_test_remove_tree (folder);
  g_test_trap_assert_passed ();
}

static char *
cache_folder (void)
{
  g_autofree char *versions = g_build_filename (g_get_user_cache_dir (), "rlx-wgpu", "v1", NULL);
  g_autoptr (GDir) dir = g_dir_open (versions, 0, NULL);
  const char *name;

  g_assert_nonnull (dir);
  name = g_dir_read_name (dir);
  g_assert_nonnull (name);

  return g_build_filename (versions, name, NULL);
}

static GPtrArray *
cache_files (const char *folder)
{
  GPtrArray *files = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GDir) dir = g_dir_open (folder, 0, NULL);
  const char *name;

  while ((name = g_dir_read_name (dir)) != NULL)
    g_ptr_array_add (files, g_build_filename (folder, name, NULL));

  return files;
}

/* Opens a device, computes something, and returns the cache counters. */
static RlxGpuCounters
use_cache (void)
{
  RlxGpu *gpu = open_device ();
  RlxGpuCounters counters;
  Kernel kernel;

  kernel_init (&kernel, gpu, twice_wgsl, 1000);
  check_twice (&kernel, 1);
  kernel_clear (&kernel);
  rlx_gpu_get_counters (gpu, &counters);
  rlx_gpu_unref (gpu);

  return counters;
}

typedef void (* Damage) (const char *path,
                         guint       index);

static void
damage_flip (const char *path,
             guint       index)
{
  g_autofree char *data = NULL;
  gsize size;

  g_assert_true (g_file_get_contents (path, &data, &size, NULL));
  data[(index * 97) % size] ^= (char) (1 << (index % 8));
  g_assert_true (g_file_set_contents (path, data, (gssize) size, NULL));
}

static void
damage_truncate (const char *path,
                 guint       index)
{
  GStatBuf status;

  g_assert_cmpint (g_stat (path, &status), ==, 0);
  g_assert_cmpint (truncate (path, status.st_size * (index % 4) / 4), ==, 0);
}

static void
damage_grow (const char *path,
             guint       index)
{
  GStatBuf status;

  g_assert_cmpint (g_stat (path, &status), ==, 0);
  g_assert_cmpint (truncate (path, status.st_size + 1 + ((off_t) (index % 3) << 33)), ==, 0);
}

/* Lengths far beyond the end of the file. */
static void
damage_lengths (const char *path,
                guint       index)
{
  g_autofree char *data = NULL;
  gsize size;

  g_assert_true (g_file_get_contents (path, &data, &size, NULL));
  memset (data + 8 + 8 * (index % 2), 0x7f, 8);
  g_assert_true (g_file_set_contents (path, data, (gssize) size, NULL));
}

static void
damage_link (const char *path,
             guint       index G_GNUC_UNUSED)
{
  g_autofree char *elsewhere = g_build_filename (g_get_user_cache_dir (), "elsewhere", NULL);
  g_autofree char *data = NULL;
  gsize size;

  /* It points to a perfectly valid entry. */
  g_assert_true (g_file_get_contents (path, &data, &size, NULL));
  g_assert_true (g_file_set_contents (elsewhere, data, (gssize) size, NULL));
  g_assert_cmpint (g_unlink (path), ==, 0);
  g_assert_cmpint (symlink (elsewhere, path), ==, 0);
}

static void
damage_fifo (const char *path,
             guint       index G_GNUC_UNUSED)
{
  g_assert_cmpint (g_unlink (path), ==, 0);
  g_assert_cmpint (mkfifo (path, 0600), ==, 0);
}

static void
damage_folder (const char *path,
               guint       index G_GNUC_UNUSED)
{
  g_assert_cmpint (g_unlink (path), ==, 0);
  g_assert_cmpint (g_mkdir (path, 0700), ==, 0);
}

static void
damage_swap (const char *path,
             guint       index)
{
  static char *previous = NULL;
  g_autofree char *aside = g_strconcat (path, ".aside", NULL);

  if (index % 2 == 0 || previous == NULL)
    {
      g_free (previous);
      previous = g_strdup (path);
      return;
    }
  g_assert_cmpint (g_rename (path, aside), ==, 0);
  g_assert_cmpint (g_rename (previous, path), ==, 0);
  g_assert_cmpint (g_rename (aside, previous), ==, 0);
  g_clear_pointer (&previous, g_free);
}

static void
test_cache (void)
{
  static const struct
  {
    const char *name;
    Damage damage;
  } damages[] = {
    { "flip", damage_flip },
    { "truncate", damage_truncate },
    { "grow", damage_grow },
    { "lengths", damage_lengths },
    { "swap", damage_swap },
    { "link", damage_link },
    { "fifo", damage_fifo },
    { "folder", damage_folder },
  };
  RlxGpuCounters counters;
  g_autofree char *folder = NULL;
  guint64 n_entries;

  if (!g_test_subprocess ())
    {
      repeat_with_empty_cache ();
      return;
    }

  counters = use_cache ();
  n_entries = counters.cache_misses;
  g_assert_cmpuint (counters.cache_hits, ==, 0);
  g_assert_cmpuint (n_entries, >, 0);
  folder = cache_folder ();

  counters = use_cache ();
  g_assert_cmpuint (counters.cache_misses, ==, 0);
  g_assert_cmpuint (counters.cache_hits, ==, n_entries);

  for (gsize i = 0; i < G_N_ELEMENTS (damages); i++)
    {
      g_autoptr (GPtrArray) files = cache_files (folder);
      guint64 n_hits;

      g_test_message ("%s", damages[i].name);
      g_assert_cmpuint (files->len, ==, n_entries);
      for (guint f = 0; f < files->len; f++)
        damages[i].damage (g_ptr_array_index (files, f), f);

      n_hits = damages[i].damage == damage_swap ? files->len % 2 : 0;
      counters = use_cache ();
      g_assert_cmpuint (counters.cache_hits, ==, n_hits);
      g_assert_cmpuint (counters.cache_misses, ==, n_entries - n_hits);

      /* Damaged files were rewritten; a folder cannot be replaced. */
      counters = use_cache ();
      if (damages[i].damage != damage_folder)
        g_assert_cmpuint (counters.cache_misses, ==, 0);
    }
}

static void
test_cache_folder (void)
{
  g_autofree char *folder = NULL;
  g_autofree char *moved = NULL;
  g_autofree char *own = g_build_filename (g_get_user_cache_dir (), "rlx-wgpu", NULL);
  RlxDebugFlags flags = rlx_debug_get_flags ();
  RlxGpuCounters counters;

  if (!g_test_subprocess ())
    {
      repeat_with_empty_cache ();
      return;
    }

  use_cache ();
  folder = cache_folder ();

  /* Writable by others. */
  g_assert_cmpint (g_chmod (folder, 0777), ==, 0);
  counters = use_cache ();
  g_assert_cmpuint (counters.cache_hits + counters.cache_misses, ==, 0);
  g_assert_cmpint (g_chmod (folder, 0700), ==, 0);
  counters = use_cache ();
  g_assert_cmpuint (counters.cache_hits, >, 0);

  /* A symbolic link to the real one. */
  moved = g_build_filename (g_get_user_cache_dir (), "moved", NULL);
  g_assert_cmpint (g_rename (own, moved), ==, 0);
  g_assert_cmpint (symlink (moved, own), ==, 0);
  counters = use_cache ();
  g_assert_cmpuint (counters.cache_hits + counters.cache_misses, ==, 0);

  /* A regular file in its place. */
  g_assert_cmpint (g_unlink (own), ==, 0);
  g_assert_true (g_file_set_contents (own, "x", 1, NULL));
  counters = use_cache ();
  g_assert_cmpuint (counters.cache_hits + counters.cache_misses, ==, 0);
  g_assert_cmpint (g_unlink (own), ==, 0);
  g_assert_cmpint (g_rename (moved, own), ==, 0);
  counters = use_cache ();
  g_assert_cmpuint (counters.cache_hits, >, 0);

  rlx_debug_set_flags (flags | RLX_DEBUG_NO_CACHE);
  counters = use_cache ();
  g_assert_cmpuint (counters.cache_hits + counters.cache_misses, ==, 0);
  rlx_debug_set_flags (flags);
}

static void
test_cache_limit (void)
{
  g_autofree char *versions = g_build_filename (g_get_user_cache_dir (), "rlx-wgpu", "v1", NULL);
  g_autofree char *old = g_build_filename (versions, "driver-of-yesterday", NULL);
  g_autofree char *half_written = g_build_filename (old, "tmp-1-2-3", NULL);
  RlxGpuCounters counters;

  if (!g_test_subprocess ())
    {
      repeat_with_empty_cache ();
      return;
    }

  use_cache ();
  g_assert_cmpint (g_mkdir (old, 0700), ==, 0);
  for (guint i = 0; i < 5; i++)
    {
      g_autofree char *name = g_strdup_printf ("%u", i);
      g_autofree char *path = g_build_filename (old, name, NULL);
      struct timespec times[2] = { { 1000 + i, 0 }, { 1000 + i, 0 } };

      /* Sparse: large, but without disk usage. */
      g_assert_true (g_file_set_contents (path, "x", 1, NULL));
      g_assert_cmpint (truncate (path, 60 << 20), ==, 0);
      g_assert_cmpint (utimensat (AT_FDCWD, path, times, 0), ==, 0);
      if (i == 0)
        {
          g_assert_true (g_file_set_contents (half_written, "x", 1, NULL));
          g_assert_cmpint (utimensat (AT_FDCWD, half_written, times, 0), ==, 0);
        }
    }

  counters = use_cache ();
  g_assert_cmpuint (counters.cache_misses, ==, 0);
  for (guint i = 0; i < 5; i++)
    {
      g_autofree char *name = g_strdup_printf ("%u", i);
      g_autofree char *path = g_build_filename (old, name, NULL);

      /* Three of them are 180 MiB, below three quarters of 256. */
      g_assert_true (g_file_test (path, G_FILE_TEST_EXISTS) == (i >= 2));
    }
  g_assert_false (g_file_test (half_written, G_FILE_TEST_EXISTS));
}

/* The random numbers of a program with a fixed seed are unaffected. */
static void
test_cache_random (void)
{
  guint32 expected;

  if (!g_test_subprocess ())
    {
      repeat_with_empty_cache ();
      return;
    }

  g_random_set_seed (7);
  expected = g_random_int ();
  g_random_set_seed (7);
  g_assert_cmpuint (use_cache ().cache_misses, >, 0);
  g_assert_cmpuint (g_random_int (), ==, expected);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  rlx_debug_set_flags (rlx_debug_get_flags () & ~RLX_DEBUG_NO_CACHE);

  g_test_add_func ("/gpu-cache/entries", test_cache);
  g_test_add_func ("/gpu-cache/folder", test_cache_folder);
  g_test_add_func ("/gpu-cache/limit", test_cache_limit);
  g_test_add_func ("/gpu-cache/random", test_cache_random);

  return g_test_run ();
}
