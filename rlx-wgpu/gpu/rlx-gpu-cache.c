/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Dawn's compiled shaders on disk. Whoever can write here can make the GPU
 * driver load what they like, so the folders must belong to the user and be
 * writable for nobody else, and nothing is followed, waited on or believed
 * that could have been put there by another hand. Every failure is a miss.
 */
#include "config.h"

#include "rlx-gpu-internal.h"

#include <string.h>

#ifdef G_OS_UNIX
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#endif
#ifdef __linux__
#include <elf.h>
#include <link.h>
#endif

#define MAGIC "RLXBLOB1"
#define MAGIC_LENGTH 8
#define DIGEST_LENGTH 32
#define HEADER_LENGTH (MAGIC_LENGTH + 8 + 8 + DIGEST_LENGTH)

#define ENTRY_MAX (G_GUINT64_CONSTANT (64) << 20)
#define KEY_MAX (G_GUINT64_CONSTANT (1) << 20)
#define TOTAL_MAX (G_GUINT64_CONSTANT (256) << 20)
/* Cleaning goes below the limit, or the next entry would clean again. */
#define TOTAL_AFTER_CLEANING (TOTAL_MAX / 4 * 3)
#define STORES_PER_CLEANING 256
/* Temporary files of a process that died half-way. */
#define STALE_SECONDS 3600

struct _RlxGpuCache
{
  int versions_fd;         /* the folder with one folder per driver */
  int fd;                  /* that of this driver */
  GMutex lock;
  GHashTable *pending;     /* (element-type utf8 Pending) */
  guint n_stores;
  atomic_ullong hits;
  atomic_ullong misses;
};

/* Dawn first asks for the size and then for the bytes, and does not survive a
 * change in between, so the bytes are kept from the first call on. */
typedef struct
{
  GBytes *bytes;
  guint n_waiting;
} Pending;

#ifdef G_OS_UNIX

static void
pending_free (gpointer data)
{
  Pending *pending = data;

  g_bytes_unref (pending->bytes);
  g_free (pending);
}

/* ---- whose cache ---- */

#ifdef __linux__
typedef struct
{
  ElfW(Addr) address;
  GString *out;
} BuildId;

static int
find_build_id (struct dl_phdr_info *info,
               size_t               size G_GNUC_UNUSED,
               void                *data)
{
  BuildId *build_id = data;
  gboolean here = FALSE;

  for (int i = 0; i < info->dlpi_phnum; i++)
    {
      const ElfW(Phdr) *header = &info->dlpi_phdr[i];
      ElfW(Addr) start = info->dlpi_addr + header->p_vaddr;

      if (header->p_type == PT_LOAD &&
          build_id->address >= start && build_id->address - start < header->p_memsz)
        here = TRUE;
    }

  if (!here)
    return 0;

  for (int i = 0; i < info->dlpi_phnum; i++)
    {
      const ElfW(Phdr) *header = &info->dlpi_phdr[i];
      const guint8 *note = (const guint8 *) (info->dlpi_addr + header->p_vaddr);
      const guint8 *end = note + header->p_memsz;

      if (header->p_type != PT_NOTE)
        continue;

      while ((gsize) (end - note) > sizeof (ElfW(Nhdr)))
        {
          const ElfW(Nhdr) *entry = (const ElfW(Nhdr) *) note;
          gsize name = ((gsize) entry->n_namesz + 3) & ~(gsize) 3;
          gsize body = ((gsize) entry->n_descsz + 3) & ~(gsize) 3;
          gsize left = (gsize) (end - note) - sizeof *entry;

          if (name > left || body > left - name)
            break;
          if (entry->n_type == NT_GNU_BUILD_ID)
            for (guint b = 0; b < entry->n_descsz; b++)
              g_string_append_printf (build_id->out, "%02x", note[sizeof *entry + name + b]);
          note += sizeof *entry + name + body;
        }
    }

  return 1;
}
#endif

static void
append_build_id (GString *text G_GNUC_UNUSED,
                 gsize    address G_GNUC_UNUSED)
{
#ifdef __linux__
  BuildId build_id = { (ElfW(Addr)) address, text };

  dl_iterate_phdr (find_build_id, &build_id);
#endif
}

/* A name for what the blobs depend on. Dawn's own keys say which shader and
 * which options, but not which build of Dawn. */
static char *
cache_name (const RlxGpuAdapterInfo *info)
{
  g_autoptr (GString) text = g_string_new (NULL);
  g_autofree char *digest = NULL;

  append_build_id (text, (gsize) wgpuCreateInstance);
  g_string_append_printf (text, "|%s|%s|%s|%s|%x|%x", RLX_VERSION, info->backend, info->name,
                          info->driver, info->vendor_id, info->device_id);
  digest = g_compute_checksum_for_string (G_CHECKSUM_SHA256, text->str, (gssize) text->len);

  return g_strndup (digest, 32);
}

/* ---- folders ---- */

static gboolean
is_ours (int fd)
{
  struct stat status;

  return fstat (fd, &status) == 0 &&
         S_ISDIR (status.st_mode) &&
         status.st_uid == geteuid () &&
         (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

static int
open_folder (int         parent,
             const char *name,
             gboolean    make)
{
  int fd;

  if (make && mkdirat (parent, name, 0700) != 0 && errno != EEXIST)
    return -1;

  fd = openat (parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd >= 0 && !is_ours (fd))
    {
      close (fd);
      fd = -1;
    }

  return fd;
}

typedef struct
{
  char *folder;
  char *name;
  guint64 size;
  gint64 modified;
} Entry;

static void
entry_clear (gpointer data)
{
  Entry *entry = data;

  g_free (entry->folder);
  g_free (entry->name);
}

static int
entry_compare (gconstpointer a,
               gconstpointer b)
{
  const Entry *one = a;
  const Entry *other = b;

  return (one->modified > other->modified) - (one->modified < other->modified);
}

static void
list_folder (int         parent,
             const char *folder,
             GArray     *entries,
             guint64    *total)
{
  gint64 now = g_get_real_time () / G_USEC_PER_SEC;
  int fd = open_folder (parent, folder, FALSE);
  struct dirent *item;
  DIR *stream;

  if (fd < 0)
    return;

  stream = fdopendir (fd);
  if (stream == NULL)
    {
      close (fd);
      return;
    }

  while ((item = readdir (stream)) != NULL)
    {
      struct stat status;
      Entry entry;

      if (g_str_equal (item->d_name, ".") || g_str_equal (item->d_name, "..") ||
          fstatat (dirfd (stream), item->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
          S_ISDIR (status.st_mode))
        continue;

      if (g_str_has_prefix (item->d_name, "tmp-") && now - status.st_mtime > STALE_SECONDS)
        {
          unlinkat (dirfd (stream), item->d_name, 0);
          continue;
        }

      entry.folder = g_strdup (folder);
      entry.name = g_strdup (item->d_name);
      entry.size = (guint64) MAX (status.st_size, 0);
      entry.modified = status.st_mtime;
      g_array_append_val (entries, entry);
      *total += entry.size;
    }

  closedir (stream);
}

/* Drops what was not used for longest, over all drivers: nobody else will
 * ever remove the folders of drivers that are no longer installed. */
static void
clean (RlxGpuCache *cache)
{
  g_autoptr (GArray) entries = g_array_new (FALSE, FALSE, sizeof (Entry));
  int fd = openat (cache->versions_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *stream = fd >= 0 ? fdopendir (fd) : NULL;
  struct dirent *item;
  guint64 total = 0;

  g_array_set_clear_func (entries, entry_clear);

  if (stream == NULL)
    {
      if (fd >= 0)
        close (fd);
      return;
    }

  while ((item = readdir (stream)) != NULL)
    if (item->d_name[0] != '.')
      list_folder (cache->versions_fd, item->d_name, entries, &total);
  closedir (stream);

  if (total <= TOTAL_MAX)
    return;

  g_array_sort (entries, entry_compare);
  for (guint i = 0; i < entries->len && total > TOTAL_AFTER_CLEANING; i++)
    {
      const Entry *entry = &g_array_index (entries, Entry, i);
      int folder = open_folder (cache->versions_fd, entry->folder, FALSE);

      if (folder < 0)
        continue;
      if (unlinkat (folder, entry->name, 0) == 0)
        total -= entry->size;
      close (folder);
    }

  RLX_NOTE (CACHE, "cleaned to %" G_GUINT64_FORMAT " bytes", total);
}

static RlxGpuCache *
open_cache (const RlxGpuAdapterInfo *info,
            gboolean                 make)
{
  const char *base = g_get_user_cache_dir ();
  g_autofree char *name = NULL;
  RlxGpuCache *cache;
  int base_fd, own_fd, versions_fd = -1, fd = -1;

  if (RLX_DEBUG_CHECK (NO_CACHE) || base == NULL || !g_path_is_absolute (base))
    return NULL;

  if (make && g_mkdir_with_parents (base, 0700) != 0)
    return NULL;

  /* The user's own cache folder may well be a link to another disk. */
  base_fd = open (base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (base_fd < 0)
    return NULL;

  name = cache_name (info);
  own_fd = open_folder (base_fd, "rlx-wgpu", make);
  close (base_fd);
  if (own_fd >= 0)
    {
      versions_fd = open_folder (own_fd, "v1", make);
      close (own_fd);
    }
  if (versions_fd >= 0)
    fd = open_folder (versions_fd, name, make);
  if (fd < 0)
    {
      if (versions_fd >= 0)
        close (versions_fd);
      if (make)
        RLX_NOTE (CACHE, "no cache: the folder in “%s” cannot be used", base);
      return NULL;
    }

  cache = g_new0 (RlxGpuCache, 1);
  cache->versions_fd = versions_fd;
  cache->fd = fd;
  g_mutex_init (&cache->lock);
  cache->pending = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, pending_free);

  return cache;
}

RlxGpuCache *
rlx_gpu_cache_open (const RlxGpuAdapterInfo *info)
{
  RlxGpuCache *cache = open_cache (info, TRUE);

  if (cache != NULL)
    clean (cache);

  return cache;
}

void
rlx_gpu_cache_free (RlxGpuCache *cache)
{
  if (cache == NULL)
    return;

  close (cache->versions_fd);
  close (cache->fd);
  g_hash_table_unref (cache->pending);
  g_mutex_clear (&cache->lock);
  g_free (cache);
}

/* ---- entries ---- */

static guint64
get_u64 (const guint8 *bytes)
{
  guint64 value;

  memcpy (&value, bytes, sizeof value);
  return GUINT64_FROM_LE (value);
}

static void
put_u64 (GByteArray *array,
         guint64     value)
{
  value = GUINT64_TO_LE (value);
  g_byte_array_append (array, (const guint8 *) &value, sizeof value);
}

static void
get_digest (const guint8 *data,
            gsize         size,
            guint8        digest[DIGEST_LENGTH])
{
  g_autoptr (GChecksum) checksum = g_checksum_new (G_CHECKSUM_SHA256);
  gsize length = DIGEST_LENGTH;

  g_checksum_update (checksum, data, (gssize) size);
  g_checksum_get_digest (checksum, digest, &length);
}

static gboolean
read_all (int     fd,
          guint8 *data,
          gsize   size)
{
  while (size > 0)
    {
      ssize_t n = read (fd, data, size);

      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        return FALSE;
      data += n;
      size -= (gsize) n;
    }

  return TRUE;
}

static gboolean
write_all (int           fd,
           const guint8 *data,
           gsize         size)
{
  while (size > 0)
    {
      ssize_t n = write (fd, data, size);

      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        return FALSE;
      data += n;
      size -= (gsize) n;
    }

  return TRUE;
}

/* The payload of a file, or NULL when anything about it is not as it was
 * written. */
static GBytes *
parse_entry (guint8       *data,
             gsize         size,
             const guint8 *key,
             gsize         key_size)
{
  g_autoptr (GBytes) bytes = g_bytes_new_take (data, size);
  guint8 digest[DIGEST_LENGTH];
  guint64 payload_size;

  if (size < HEADER_LENGTH ||
      memcmp (data, MAGIC, MAGIC_LENGTH) != 0 ||
      get_u64 (data + MAGIC_LENGTH) != key_size ||
      key_size > size - HEADER_LENGTH ||
      memcmp (data + HEADER_LENGTH, key, key_size) != 0)
    return NULL;

  payload_size = get_u64 (data + MAGIC_LENGTH + 8);
  if (payload_size == 0 || payload_size != size - HEADER_LENGTH - key_size)
    return NULL;

  get_digest (data + HEADER_LENGTH + key_size, (gsize) payload_size, digest);
  if (memcmp (digest, data + MAGIC_LENGTH + 16, DIGEST_LENGTH) != 0)
    return NULL;

  return g_bytes_new_from_bytes (bytes, HEADER_LENGTH + key_size, (gsize) payload_size);
}

static GBytes *
read_entry (RlxGpuCache  *cache,
            const char   *name,
            const guint8 *key,
            gsize         key_size)
{
  struct stat status;
  guint8 *data = NULL;
  gsize size = 0;
  int fd;

  /* O_NONBLOCK for a FIFO that somebody left there. */
  fd = openat (cache->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0)
    return NULL;

  if (fstat (fd, &status) == 0 && S_ISREG (status.st_mode) &&
      status.st_uid == geteuid () &&
      status.st_size >= HEADER_LENGTH && (guint64) status.st_size <= ENTRY_MAX)
    {
      size = (gsize) status.st_size;
      data = g_try_malloc (size);
      if (data != NULL && !read_all (fd, data, size))
        g_clear_pointer (&data, g_free);
    }

  /* The time of the last use decides what is dropped first. */
  if (data != NULL && g_get_real_time () / G_USEC_PER_SEC - status.st_mtime > STALE_SECONDS)
    (void) futimens (fd, NULL);
  close (fd);

  return data != NULL ? parse_entry (data, size, key, key_size) : NULL;
}

gsize
rlx_gpu_cache_load (RlxGpuCache  *cache,
                    const guint8 *key,
                    gsize         key_size,
                    guint8       *value,
                    gsize         value_size)
{
  g_autofree char *name = NULL;
  g_autoptr (GBytes) bytes = NULL;
  Pending *pending;
  gsize size;

  if (cache == NULL || key == NULL || key_size == 0 || key_size > KEY_MAX)
    return 0;

  name = g_compute_checksum_for_data (G_CHECKSUM_SHA256, key, key_size);

  if (value == NULL)
    {
      bytes = read_entry (cache, name, key, key_size);

      g_mutex_lock (&cache->lock);
      pending = g_hash_table_lookup (cache->pending, name);
      if (pending != NULL)
        {
          /* Another thread is between its two calls: both get the same. */
          pending->n_waiting++;
          g_clear_pointer (&bytes, g_bytes_unref);
          bytes = g_bytes_ref (pending->bytes);
        }
      else if (bytes != NULL)
        {
          pending = g_new0 (Pending, 1);
          pending->bytes = g_bytes_ref (bytes);
          pending->n_waiting = 1;
          g_hash_table_insert (cache->pending, g_strdup (name), pending);
        }
      g_mutex_unlock (&cache->lock);

      atomic_fetch_add (bytes != NULL ? &cache->hits : &cache->misses, 1);
      RLX_NOTE (CACHE, "%s %s", bytes != NULL ? "hit" : "miss", name);
      return bytes != NULL ? g_bytes_get_size (bytes) : 0;
    }

  g_mutex_lock (&cache->lock);
  pending = g_hash_table_lookup (cache->pending, name);
  if (pending != NULL)
    {
      bytes = g_bytes_ref (pending->bytes);
      if (--pending->n_waiting == 0)
        g_hash_table_remove (cache->pending, name);
    }
  g_mutex_unlock (&cache->lock);

  if (bytes == NULL)
    return 0;
  size = g_bytes_get_size (bytes);
  if (size > value_size)
    return 0;

  memcpy (value, g_bytes_get_data (bytes, NULL), size);
  return size;
}

void
rlx_gpu_cache_store (RlxGpuCache  *cache,
                     const guint8 *key,
                     gsize         key_size,
                     const guint8 *value,
                     gsize         value_size)
{
  static atomic_uint counter;
  g_autofree char *name = NULL;
  g_autofree char *temporary = NULL;
  g_autoptr (GByteArray) header = NULL;
  guint8 digest[DIGEST_LENGTH];
  gboolean good, should_clean;
  int fd;

  if (cache == NULL || key == NULL || key_size == 0 || key_size > KEY_MAX ||
      value == NULL || value_size == 0 ||
      value_size > ENTRY_MAX - HEADER_LENGTH - KEY_MAX)
    return;

  name = g_compute_checksum_for_data (G_CHECKSUM_SHA256, key, key_size);
  temporary = g_strdup_printf ("tmp-%ld-%u-%08x", (long) getpid (),
                               atomic_fetch_add (&counter, 1), g_random_int ());

  get_digest (value, value_size, digest);
  header = g_byte_array_sized_new ((guint) (HEADER_LENGTH + key_size));
  g_byte_array_append (header, (const guint8 *) MAGIC, MAGIC_LENGTH);
  put_u64 (header, key_size);
  put_u64 (header, value_size);
  g_byte_array_append (header, digest, sizeof digest);
  g_byte_array_append (header, key, (guint) key_size);

  fd = openat (cache->fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0)
    return;

  good = write_all (fd, header->data, header->len) && write_all (fd, value, value_size);
  if (close (fd) != 0)
    good = FALSE;
  /* Not synced: after a crash the checksum turns a torn entry into a miss. */
  if (!good || renameat (cache->fd, temporary, cache->fd, name) != 0)
    {
      unlinkat (cache->fd, temporary, 0);
      RLX_NOTE (CACHE, "cannot store %s", name);
      return;
    }

  g_mutex_lock (&cache->lock);
  should_clean = ++cache->n_stores % STORES_PER_CLEANING == 0;
  g_mutex_unlock (&cache->lock);
  if (should_clean)
    clean (cache);
}

/* ---- notes ---- */

/* RLX_DEBUG changes which kernels there are. The folder's name is in it against
 * files that were copied from another one. */
static char *
notes_key (const RlxGpuAdapterInfo *info,
           const char              *name)
{
  GString *text = g_string_new (name);
  g_autofree char *folder = cache_name (info);

  g_string_append_printf (text, "|%s|", folder);
  append_build_id (text, (gsize) rlx_gpu_notes_load);
  g_string_append_printf (text, "|%x", rlx_debug_get_flags () & RLX_DEBUG_CHANGES_KERNELS);

  return g_string_free (text, FALSE);
}

GBytes *
rlx_gpu_notes_load (const RlxGpuAdapterInfo *info,
                    const char              *name)
{
  RlxGpuCache *cache = open_cache (info, FALSE);
  g_autofree char *key = notes_key (info, name);
  g_autofree char *file = g_compute_checksum_for_string (G_CHECKSUM_SHA256, key, -1);
  GBytes *bytes;

  if (cache == NULL)
    return NULL;

  bytes = read_entry (cache, file, (const guint8 *) key, strlen (key));
  RLX_NOTE (CACHE, "%s of “%s”: %s", name, info->name, bytes != NULL ? "found" : "not there");
  rlx_gpu_cache_free (cache);

  return bytes;
}

gboolean
rlx_gpu_notes_store (const RlxGpuAdapterInfo *info,
                     const char              *name,
                     GBytes                  *bytes)
{
  RlxGpuCache *cache = open_cache (info, TRUE);
  g_autofree char *key = notes_key (info, name);
  g_autoptr (GBytes) stored = NULL;
  gconstpointer data;
  gsize size;

  if (cache == NULL)
    return FALSE;

  data = g_bytes_get_data (bytes, &size);
  rlx_gpu_cache_store (cache, (const guint8 *) key, strlen (key), data, size);
  rlx_gpu_cache_free (cache);
  stored = rlx_gpu_notes_load (info, name);

  return stored != NULL && g_bytes_equal (stored, bytes);
}

#else /* no openat() and no owners to check: no cache */

RlxGpuCache *
rlx_gpu_cache_open (const RlxGpuAdapterInfo *info G_GNUC_UNUSED)
{
  return NULL;
}

void
rlx_gpu_cache_free (RlxGpuCache *cache G_GNUC_UNUSED)
{
}

gsize
rlx_gpu_cache_load (RlxGpuCache  *cache G_GNUC_UNUSED,
                    const guint8 *key G_GNUC_UNUSED,
                    gsize         key_size G_GNUC_UNUSED,
                    guint8       *value G_GNUC_UNUSED,
                    gsize         value_size G_GNUC_UNUSED)
{
  return 0;
}

void
rlx_gpu_cache_store (RlxGpuCache  *cache G_GNUC_UNUSED,
                     const guint8 *key G_GNUC_UNUSED,
                     gsize         key_size G_GNUC_UNUSED,
                     const guint8 *value G_GNUC_UNUSED,
                     gsize         value_size G_GNUC_UNUSED)
{
}

GBytes *
rlx_gpu_notes_load (const RlxGpuAdapterInfo *info G_GNUC_UNUSED,
                    const char              *name G_GNUC_UNUSED)
{
  return NULL;
}

gboolean
rlx_gpu_notes_store (const RlxGpuAdapterInfo *info G_GNUC_UNUSED,
                     const char              *name G_GNUC_UNUSED,
                     GBytes                  *bytes G_GNUC_UNUSED)
{
  return FALSE;
}

#endif

void
rlx_gpu_cache_get_stats (RlxGpuCache *cache,
                         guint64     *hits,
                         guint64     *misses)
{
  *hits = cache != NULL ? atomic_load (&cache->hits) : 0;
  *misses = cache != NULL ? atomic_load (&cache->misses) : 0;
}
