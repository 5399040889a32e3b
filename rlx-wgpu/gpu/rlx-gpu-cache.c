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

#include "util/rlx-os-private.h"

#include <string.h>

/* In the user's cache. */
#define FOLDER "rlx-wgpu"
#define VERSION "v1"

#define MAGIC "RLXBLOB1"
#define MAGIC_LENGTH 8
#define DIGEST_LENGTH 32
#define HEADER_LENGTH (MAGIC_LENGTH + 8 + 8 + DIGEST_LENGTH)

#define ENTRY_MAX (G_GUINT64_CONSTANT (64) << 20)
#define KEY_MAX (G_GUINT64_CONSTANT (1) << 20)
#define TOTAL_MAX (G_GUINT64_CONSTANT (256) << 20)
/* Cleaning goes below the limit, or the next entry would trigger it again. */
#define TOTAL_AFTER_CLEANING (TOTAL_MAX / 4 * 3)
#define STORES_PER_CLEANING 256
/* Temporary files of a process that died half-way. */
#define STALE_SECONDS 3600

struct _RlxGpuCache
{
  int versions;            /* the folder with one folder per driver */
  int folder;              /* that of this driver */
  GMutex lock;
  GHashTable *pending;     /* (element-type utf8 Pending) */
  guint n_stores;
  atomic_ullong hits;
  atomic_ullong misses;
};

/* Dawn first asks for the size and then for the bytes, and crashes if they change in
 * between, so the bytes are kept from the first call on. */
typedef struct
{
  GBytes *bytes;
  guint n_waiting;
} Pending;

static void
pending_free (gpointer data)
{
  Pending *pending = data;

  g_bytes_unref (pending->bytes);
  g_free (pending);
}

/* ---- whose cache ---- */

/* A name for everything that the blobs depend on. Dawn's own keys cover the shader and
 * the options, but not the build of Dawn. */
static char *
cache_name (const RlxGpuAdapterInfo *info)
{
  g_autoptr (GString) text = g_string_new (NULL);
  g_autofree char *digest = NULL;

  rlx_os_append_build_id (text, (void (*) (void)) wgpuCreateInstance);
  g_string_append_printf (text, "|%s|%s|%s|%s|%x|%x", RLX_VERSION, info->backend, info->name,
                          info->driver, info->vendor_id, info->device_id);
  digest = g_compute_checksum_for_string (G_CHECKSUM_SHA256, text->str, (gssize) text->len);

  return g_strndup (digest, 32);
}

/* ---- folders ---- */

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
             const char *name,
             GArray     *entries,
             guint64    *total)
{
  gint64 now = g_get_real_time () / G_USEC_PER_SEC;
  int folder = rlx_os_folder_open_own (parent, name, FALSE);
  g_autoptr (GArray) list = NULL;

  if (folder == RLX_OS_NO_FOLDER)
    return;

  list = rlx_os_folder_list (folder);
  for (guint i = 0; i < list->len; i++)
    {
      RlxOsEntry *item = &g_array_index (list, RlxOsEntry, i);
      Entry entry;

      if (item->is_folder)
        continue;

      if (g_str_has_prefix (item->name, RLX_OS_TEMPORARY) && now - item->modified > STALE_SECONDS)
        {
          rlx_os_folder_remove (folder, item->name, NULL);
          continue;
        }

      entry = (Entry) { g_strdup (name), g_steal_pointer (&item->name), item->size, item->modified };
      g_array_append_val (entries, entry);
      *total += entry.size;
    }
  rlx_os_folder_close (folder);
}

/* Drops the least recently used entries of all drivers: nothing else ever removes the
 * folders of drivers that are no longer installed. */
static void
clean (RlxGpuCache *cache)
{
  g_autoptr (GArray) versions = rlx_os_folder_list (cache->versions);
  g_autoptr (GArray) entries = g_array_new (FALSE, FALSE, sizeof (Entry));
  guint64 total = 0;

  g_array_set_clear_func (entries, entry_clear);

  for (guint i = 0; i < versions->len; i++)
    {
      const RlxOsEntry *item = &g_array_index (versions, RlxOsEntry, i);

      if (item->name[0] != '.')
        list_folder (cache->versions, item->name, entries, &total);
    }

  if (total <= TOTAL_MAX)
    return;

  g_array_sort (entries, entry_compare);
  for (guint i = 0; i < entries->len && total > TOTAL_AFTER_CLEANING; i++)
    {
      const Entry *entry = &g_array_index (entries, Entry, i);
      int folder = rlx_os_folder_open_own (cache->versions, entry->folder, FALSE);

      if (folder == RLX_OS_NO_FOLDER)
        continue;
      if (rlx_os_folder_remove (folder, entry->name, NULL))
        total -= entry->size;
      rlx_os_folder_close (folder);
    }

  RLX_NOTE (CACHE, "cleaned to %" G_GUINT64_FORMAT " bytes", total);
}

static void
close_folder (int folder)
{
  if (folder != RLX_OS_NO_FOLDER)
    rlx_os_folder_close (folder);
}

static RlxGpuCache *
open_cache (const RlxGpuAdapterInfo *info,
            gboolean                 make)
{
  const char *base_path = g_get_user_cache_dir ();
  g_autofree char *name = NULL;
  RlxGpuCache *cache;
  int base, own, versions = RLX_OS_NO_FOLDER, folder = RLX_OS_NO_FOLDER;

  if (RLX_DEBUG_CHECK (NO_CACHE) || base_path == NULL || !g_path_is_absolute (base_path))
    return NULL;

  if (make && g_mkdir_with_parents (base_path, 0700) != 0)
    return NULL;

  /* The user's own cache folder may well be a link to another disk. */
  base = rlx_os_folder_open (base_path);
  if (base == RLX_OS_NO_FOLDER)
    return NULL;

  name = cache_name (info);
  own = rlx_os_folder_open_own (base, "rlx-wgpu", make);
  if (own != RLX_OS_NO_FOLDER)
    versions = rlx_os_folder_open_own (own, "v1", make);
  if (versions != RLX_OS_NO_FOLDER)
    folder = rlx_os_folder_open_own (versions, name, make);
  close_folder (base);
  close_folder (own);
  if (folder == RLX_OS_NO_FOLDER)
    {
      close_folder (versions);
      if (make)
        RLX_NOTE (CACHE, "no cache: the folder in “%s” cannot be used", base_path);
      return NULL;
    }

  cache = g_new0 (RlxGpuCache, 1);
  cache->versions = versions;
  cache->folder = folder;
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

  rlx_os_folder_close (cache->versions);
  rlx_os_folder_close (cache->folder);
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

/* The payload of a file, or NULL if the file is damaged in any way. */
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
  gsize size;
  /* The time of the last use decides what is dropped first. */
  guint8 *data = rlx_os_folder_read (cache->folder, name, HEADER_LENGTH, ENTRY_MAX, STALE_SECONDS, &size);

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
  g_autofree char *name = NULL;
  g_autoptr (GByteArray) header = NULL;
  guint8 digest[DIGEST_LENGTH];
  gboolean should_clean;

  if (cache == NULL || key == NULL || key_size == 0 || key_size > KEY_MAX ||
      value == NULL || value_size == 0 ||
      value_size > ENTRY_MAX - HEADER_LENGTH - KEY_MAX)
    return;

  name = g_compute_checksum_for_data (G_CHECKSUM_SHA256, key, key_size);
  get_digest (value, value_size, digest);
  header = g_byte_array_sized_new ((guint) (HEADER_LENGTH + key_size));
  g_byte_array_append (header, (const guint8 *) MAGIC, MAGIC_LENGTH);
  put_u64 (header, key_size);
  put_u64 (header, value_size);
  g_byte_array_append (header, digest, sizeof digest);
  g_byte_array_append (header, key, (guint) key_size);

  /* Not synced: after a crash the checksum turns a torn entry into a miss. */
  if (!rlx_os_folder_write (cache->folder, name, header, value, value_size))
    {
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

/* RLX_DEBUG changes which kernels there are. The folder's name is included to detect
 * files copied from another one. */
static char *
notes_key (const RlxGpuAdapterInfo *info,
           const char              *name)
{
  GString *text = g_string_new (name);
  g_autofree char *folder = cache_name (info);

  g_string_append_printf (text, "|%s|", folder);
  rlx_os_append_build_id (text, (void (*) (void)) rlx_gpu_notes_load);
  g_string_append_printf (text, "|%x|%s", rlx_debug_get_flags () & RLX_DEBUG_CHANGES_KERNELS,
                          rlx_debug_get_target () != NULL ? rlx_debug_get_target () : "");

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

static char *
notes_file (const RlxGpuAdapterInfo *info,
            const char              *name)
{
  g_autofree char *key = notes_key (info, name);

  return g_compute_checksum_for_string (G_CHECKSUM_SHA256, key, -1);
}

gboolean
rlx_gpu_notes_remove (const RlxGpuAdapterInfo *info,
                      const char              *name,
                      GError                 **error)
{
  g_autofree char *file = notes_file (info, name);
  RlxGpuCache *cache = open_cache (info, FALSE);
  gboolean removed = cache == NULL || rlx_os_folder_remove (cache->folder, file, error);

  rlx_gpu_cache_free (cache);
  if (!removed)
    g_prefix_error (error, "“%s” of the adapter “%s” cannot be deleted: ", name, info->name);
  return removed;
}

char *
rlx_gpu_notes_get_path (const RlxGpuAdapterInfo *info,
                        const char              *name)
{
  g_autofree char *folder = cache_name (info);
  g_autofree char *file = notes_file (info, name);

  if (RLX_DEBUG_CHECK (NO_CACHE) || !g_path_is_absolute (g_get_user_cache_dir ()))
    return NULL;
  return g_build_filename (g_get_user_cache_dir (), FOLDER, VERSION, folder, file, NULL);
}

void
rlx_gpu_cache_get_stats (RlxGpuCache *cache,
                         guint64     *hits,
                         guint64     *misses)
{
  *hits = cache != NULL ? atomic_load (&cache->hits) : 0;
  *misses = cache != NULL ? atomic_load (&cache->misses) : 0;
}
