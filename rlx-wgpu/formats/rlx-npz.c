/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The directory of an .npz file, which is a zip archive of .npy files. It is at the end:
 * an entry for each member, then how many there are and where they begin. A member is
 * named in the directory and once more in front of its bytes, and a file may say one
 * thing there and another here; only what is the same in both places is taken. Members
 * have their own bytes, so no archive has more than its size to inflate.
 */
#include "config.h"

#include <string.h>

#include "formats/rlx-cursor-private.h"
#include "formats/rlx-npy-private.h"
#include "formats/rlx-zip-private.h"
#include "util/rlx-checked-private.h"
#include "util/rlx-debug-private.h"

#define MAX_COMMENT 65535

/* The contents of the end record. */
typedef struct
{
  guint64 n_entries;
  guint64 offset;            /* of the directory */
  guint64 size;
} Directory;

/* The range of a member in the file. */
typedef struct
{
  guint64 start;
  guint64 end;
} Place;

static guint32
get_u16 (const guint8 *data)
{
  return (guint32) (data[0] | data[1] << 8);
}

static guint32
get_u32 (const guint8 *data)
{
  return get_u16 (data) | get_u16 (data + 2) << 16;
}

static guint64
get_u64 (const guint8 *data)
{
  return get_u32 (data) | (guint64) get_u32 (data + 4) << 32;
}

/* ---- the end of the directory ----------------------------------------------------------- */

/* Finds the end record, which only its comment follows. */
static gboolean
find_end (RlxSource    *source,
          guint64      *at,
          guint8        record[RLX_ZIP_END_SIZE],
          GCancellable *cancellable,
          GError      **error)
{
  guint64 size = rlx_source_get_size (source);
  /* Archives hardly ever have a comment, so try without one first. */
  const gsize lengths[] = { RLX_ZIP_END_SIZE, RLX_ZIP_END_SIZE + MAX_COMMENT };

  for (guint i = 0; i < G_N_ELEMENTS (lengths); i++)
    {
      gsize n = (gsize) MIN (size, lengths[i]);
      g_autofree guint8 *tail = g_malloc (n + 1);

      if (!rlx_source_read (source, "the end of the directory", size - n, tail, n, cancellable, error))
        return FALSE;
      for (gsize start = n >= RLX_ZIP_END_SIZE ? n - RLX_ZIP_END_SIZE + 1 : 0; start-- > 0;)
        if (get_u32 (tail + start) == RLX_ZIP_END && get_u16 (tail + start + 20) == n - start - RLX_ZIP_END_SIZE)
          {
            memcpy (record, tail + start, RLX_ZIP_END_SIZE);
            *at = size - n + start;
            return TRUE;
          }
    }
  return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_TRUNCATED, size, "the archive has no directory at its end");
}

/* The ZIP64 end record, for values that do not fit into the other one. */
static gboolean
read_end64 (RlxSource    *source,
            guint64      *at,
            Directory    *directory,
            GCancellable *cancellable,
            GError      **error)
{
  guint8 locator[RLX_ZIP_LOCATOR_SIZE], record[RLX_ZIP_END64_SIZE];
  guint64 end = *at, place;

  if (end < RLX_ZIP_LOCATOR_SIZE + RLX_ZIP_END64_SIZE)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, end, "there is no room for the ZIP64 end record");
  if (!rlx_source_read (source, "the end of the directory", end - RLX_ZIP_LOCATOR_SIZE, locator, sizeof locator, cancellable, error))
    return FALSE;
  place = get_u64 (locator + 8);
  /* It must be exactly between the directory and the locator, so that nothing else fits in there. */
  if (get_u32 (locator) != RLX_ZIP_LOCATOR || place != end - RLX_ZIP_LOCATOR_SIZE - RLX_ZIP_END64_SIZE)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, end - RLX_ZIP_LOCATOR_SIZE, "the ZIP64 end record is not where it should be");
  if (!rlx_source_read (source, "the end of the directory", place, record, sizeof record, cancellable, error))
    return FALSE;
  if (get_u32 (record) != RLX_ZIP_END64 || get_u64 (record + 4) != RLX_ZIP_END64_SIZE - 12)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, place, "the ZIP64 end record is invalid");
  if (get_u32 (record + 16) != 0 || get_u32 (record + 20) != 0 || get_u64 (record + 24) != get_u64 (record + 32))
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_UNSUPPORTED, place, "the archive is one of several parts");
  *directory = (Directory) { get_u64 (record + 32), get_u64 (record + 48), get_u64 (record + 40) };
  *at = place;
  return TRUE;
}

static gboolean
read_end (RlxSource    *source,
          Directory    *directory,
          GCancellable *cancellable,
          GError      **error)
{
  guint8 record[RLX_ZIP_END_SIZE] = { 0 };
  guint64 at = 0;

  if (!find_end (source, &at, record, cancellable, error))
    return FALSE;
  if (get_u16 (record + 4) != 0 || get_u16 (record + 6) != 0 || get_u16 (record + 8) != get_u16 (record + 10))
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_UNSUPPORTED, at, "the archive is one of several parts");
  *directory = (Directory) { get_u16 (record + 10), get_u32 (record + 16), get_u32 (record + 12) };
  if ((directory->n_entries == RLX_ZIP_LARGE16 || directory->offset == RLX_ZIP_LARGE32 || directory->size == RLX_ZIP_LARGE32) &&
      !read_end64 (source, &at, directory, cancellable, error))
    return FALSE;

  if (directory->n_entries > RLX_WEIGHTS_MAX_ENTRIES)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_LIMIT, at, "the number of members is %" G_GUINT64_FORMAT "; the limit is %d",
                             directory->n_entries, RLX_WEIGHTS_MAX_ENTRIES);
  if (directory->size > at || directory->offset != at - directory->size)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, at,
                             "the directory of %" G_GUINT64_FORMAT " bytes at %" G_GUINT64_FORMAT " does not end at its end record",
                             directory->size, directory->offset);
  if (directory->n_entries > directory->size / RLX_ZIP_ENTRY_SIZE)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, at,
                             "the number of members is %" G_GUINT64_FORMAT ", but the directory has room for %" G_GUINT64_FORMAT " at most",
                             directory->n_entries, directory->size / RLX_ZIP_ENTRY_SIZE);
  return TRUE;
}

/* ---- entries ---------------------------------------------------------------------------- */

/* Takes the next number from the extra field if @value indicates that it is there. */
static gboolean
take_large (const guint8 **data,
            gsize         *left,
            guint64       *value)
{
  if (*value != RLX_ZIP_LARGE32)
    return TRUE;
  if (*left < 8)
    return FALSE;
  *value = get_u64 (*data);
  *data += 8;
  *left -= 8;
  return TRUE;
}

/* Reads numbers of more than 32 bits from the extra field, where they are in this order. */
static gboolean
read_extra (const guint8 *extra,
            gsize         length,
            guint64       at,
            guint64      *size,
            guint64      *stored,
            guint64      *offset,
            GError      **error)
{
  gboolean large = *size == RLX_ZIP_LARGE32 || *stored == RLX_ZIP_LARGE32 || *offset == RLX_ZIP_LARGE32, found = FALSE;

  while (length >= 4)
    {
      guint32 id = get_u16 (extra);
      gsize n = get_u16 (extra + 2);

      extra += 4;
      length -= 4;
      if (n > length)
        break;
      if (id == RLX_ZIP_EXTRA64 && large && !found)
        {
          const guint8 *data = extra;
          gsize left = n;

          found = TRUE;
          if (!take_large (&data, &left, size) || !take_large (&data, &left, stored) || !take_large (&data, &left, offset))
            return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, at, "the ZIP64 fields of a member are truncated");
        }
      extra += n;
      length -= n;
    }
  if (length > 0)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, at, "the extra fields of a member do not end where they should");
  return !large || found || rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, at, "the ZIP64 fields of a member are missing");
}

/* Limits how much a member may expand. */
static gboolean
check_extent (const RlxExtent *extent,
              guint64          at,
              GError         **error)
{
  if (!extent->deflated)
    return extent->size == extent->stored ||
           rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, at,
                             "a member that is not deflated has %" G_GUINT64_FORMAT " bytes, and %" G_GUINT64_FORMAT " in the file",
                             extent->size, extent->stored);
  return extent->size <= RLX_NPZ_MAX_INFLATED || extent->size / RLX_NPZ_MAX_RATIO < extent->stored ||
         rlx_weights_fail (error, RLX_WEIGHTS_ERROR_LIMIT, at,
                           "%" G_GUINT64_FORMAT " bytes come out of %" G_GUINT64_FORMAT " deflated ones; the limit is %" G_GUINT64_FORMAT
                           " or %d times as many", extent->size, extent->stored, RLX_NPZ_MAX_INFLATED, RLX_NPZ_MAX_RATIO);
}

/* Checks that a member's header agrees with the directory, and finds its bytes. */
static gboolean
find_bytes (RlxCursor     *cursor,
            const guint8  *entry,
            const GString *name,
            guint64        offset,
            guint64        end,
            RlxExtent     *extent,
            GError       **error)
{
  guint8 head[RLX_ZIP_MEMBER_SIZE];
  g_autofree char *own = g_malloc (name->len + 1);
  gboolean same;

  if (offset > end || end - offset < RLX_ZIP_MEMBER_SIZE)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_TRUNCATED, MIN (offset, end),
                             "a member begins at %" G_GUINT64_FORMAT ", but the directory at %" G_GUINT64_FORMAT, offset, end);
  cursor->at = offset;
  cursor->end = end;
  if (!rlx_cursor_take (cursor, "a member", head, sizeof head, error))
    return FALSE;
  if (get_u32 (head) != RLX_ZIP_MEMBER)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, offset, "there is no member where the directory says");
  same = get_u16 (head + 6) == get_u16 (entry + 8) && get_u16 (head + 8) == get_u16 (entry + 10) && get_u16 (head + 26) == name->len;
  if (same && !rlx_cursor_take (cursor, "the name of a member", own, name->len, error))
    return FALSE;
  if (!same || memcmp (own, name->str, name->len) != 0)
    {
      g_autofree char *quoted = rlx_quote_text (name->str, (gssize) name->len);

      return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, offset, "the member that the directory calls %s is another one", quoted);
    }
  if (!rlx_cursor_check_room (cursor, "the extra fields of a member", get_u16 (head + 28), error))
    return FALSE;
  extent->offset = cursor->at + get_u16 (head + 28);
  if (extent->stored > end - extent->offset)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_TRUNCATED, extent->offset,
                             "a member has %" G_GUINT64_FORMAT " bytes, but the directory begins after %" G_GUINT64_FORMAT,
                             extent->stored, end - extent->offset);
  return TRUE;
}

/* Adds the array of a member, named after the member without its suffix. */
static gboolean
add_array (RlxManifest     *manifest,
           GString         *name,
           const RlxExtent *extent,
           guint64          at,
           GCancellable    *cancellable,
           GError         **error)
{
  g_autofree char *quoted = rlx_quote_text (name->str, (gssize) name->len);

  if (memchr (name->str, '\0', name->len) != NULL)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, at, "the name of a member has a NUL byte: %s", quoted);
  g_string_truncate (name, name->len - strlen (".npy"));
  if (rlx_npy_add_array (manifest, name->str, extent, cancellable, error))
    {
      g_array_index (manifest->records, RlxRecord, manifest->records->len - 1).at = at;
      return TRUE;
    }
  g_prefix_error (error, "In %s, which begins at byte %" G_GUINT64_FORMAT ": ", quoted, extent->offset);
  return FALSE;
}

/* Reads the next entry and the header of its member. With @manifest, adds its array. */
static gboolean
read_entry (RlxCursor   *cursor,
            RlxCursor   *members,
            RlxManifest *manifest,
            guint64      end,
            GString     *name,
            Place       *place,
            GError     **error)
{
  guint8 entry[RLX_ZIP_ENTRY_SIZE];
  g_autofree guint8 *extra = NULL;
  guint64 at = cursor->at, size, stored, offset;
  RlxExtent extent = { .has_crc = TRUE };
  guint method;

  if (!rlx_cursor_take (cursor, "the directory", entry, sizeof entry, error))
    return FALSE;
  if (get_u32 (entry) != RLX_ZIP_ENTRY)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, at, "there is no entry of the directory here");
  method = get_u16 (entry + 10);
  if ((get_u16 (entry + 8) & RLX_ZIP_ENCRYPTED) != 0)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_UNSUPPORTED, at, "a member is encrypted");
  if (method != RLX_ZIP_STORED && method != RLX_ZIP_DEFLATED)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_UNSUPPORTED, at, "a member is compressed by method %u, not stored (%d) or deflated (%d)",
                             method, RLX_ZIP_STORED, RLX_ZIP_DEFLATED);
  g_string_set_size (name, get_u16 (entry + 28));
  extra = g_malloc (get_u16 (entry + 30) + 1);
  if (!rlx_cursor_take (cursor, "the name of a member", name->str, name->len, error) ||
      !rlx_cursor_take (cursor, "the extra fields of a member", extra, get_u16 (entry + 30), error) ||
      !rlx_cursor_check_room (cursor, "the comment of a member", get_u16 (entry + 32), error))
    return FALSE;
  cursor->at += get_u16 (entry + 32);

  size = get_u32 (entry + 24);
  stored = get_u32 (entry + 20);
  offset = get_u32 (entry + 42);
  if (!read_extra (extra, get_u16 (entry + 30), at, &size, &stored, &offset, error))
    return FALSE;
  extent.size = size;
  extent.stored = stored;
  extent.crc = get_u32 (entry + 16);
  extent.deflated = method == RLX_ZIP_DEFLATED;
  if (!check_extent (&extent, at, error) || !find_bytes (members, entry, name, offset, end, &extent, error))
    return FALSE;
  *place = (Place) { offset, extent.offset + extent.stored };
  /* Folders and other files are ignored. */
  return manifest == NULL || !g_str_has_suffix (name->str, ".npy") || add_array (manifest, name, &extent, at, cursor->cancellable, error);
}

static int
compare_places (gconstpointer a,
                gconstpointer b)
{
  const Place *x = a, *y = b;

  return x->start < y->start ? -1 : x->start > y->start;
}

/* Overlapping members are how a small archive expands to a huge one. */
static gboolean
check_overlap (GArray  *places,
               GError **error)
{
  g_array_sort (places, compare_places);
  for (guint i = 1; i < places->len; i++)
    if (g_array_index (places, Place, i).start < g_array_index (places, Place, i - 1).end)
      return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, g_array_index (places, Place, i).start,
                               "a member begins before byte %" G_GUINT64_FORMAT ", where another one ends",
                               g_array_index (places, Place, i - 1).end);
  return TRUE;
}

static gboolean
read_entries (RlxCursor       *cursor,
              RlxCursor       *members,
              const Directory *directory,
              RlxManifest     *manifest,
              GArray          *places,
              GError         **error)
{
  g_autoptr(GString) name = g_string_new (NULL);

  cursor->at = directory->offset;
  cursor->end = directory->offset + directory->size;
  for (guint64 i = 0; i < directory->n_entries; i++)
    {
      Place place;

      if (!read_entry (cursor, members, manifest, directory->offset, name, &place, error))
        return FALSE;
      if (places != NULL)
        g_array_append_val (places, place);
    }
  return cursor->at == cursor->end ||
         rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, cursor->at, "the directory has more than its %" G_GUINT64_FORMAT " entries", directory->n_entries);
}

gboolean
rlx_npz_read (RlxSource    *source,
              RlxManifest  *manifest,
              GCancellable *cancellable,
              GError      **error)
{
  g_autofree RlxCursor *cursor = rlx_cursor_new (source, G_MAXUINT64, cancellable);
  g_autofree RlxCursor *members = rlx_cursor_new (source, G_MAXUINT64, cancellable);
  g_autoptr(GArray) places = g_array_new (FALSE, FALSE, sizeof (Place));
  Directory directory;

  /* Nothing is inflated before it is certain that members do not overlap. */
  if (!read_end (source, &directory, cancellable, error) ||
      !read_entries (cursor, members, &directory, NULL, places, error) ||
      !check_overlap (places, error) ||
      !read_entries (cursor, members, &directory, manifest, NULL, error))
    return FALSE;
  if (directory.n_entries > 0 && manifest->records->len == 0)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_UNSUPPORTED, directory.offset, "the archive has no .npy file in it");
  return rlx_manifest_seal (manifest, error);
}
