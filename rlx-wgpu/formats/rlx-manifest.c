/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "formats/rlx-manifest-private.h"

#include <string.h>

#include "rlx-tensor-private.h"
#include "util/rlx-checked-private.h"
#include "util/rlx-debug-private.h"

/* Names are copied into blocks of this size. */
#define CHUNK 4096

RlxManifest *
rlx_manifest_new (void)
{
  RlxManifest *self = g_new0 (RlxManifest, 1);

  self->sources = g_ptr_array_new_with_free_func ((GDestroyNotify) rlx_source_unref);
  self->names = g_string_chunk_new (CHUNK);
  self->records = g_array_new (FALSE, TRUE, sizeof (RlxRecord));
  self->members = g_array_new (FALSE, FALSE, sizeof (RlxMember));
  self->dims = g_array_new (FALSE, FALSE, sizeof (gint64));
  self->keys = g_array_new (FALSE, FALSE, sizeof (RlxKey));
  g_variant_builder_init (&self->metadata, G_VARIANT_TYPE_VARDICT);
  return self;
}

void
rlx_manifest_free (RlxManifest *self)
{
  g_ptr_array_unref (self->sources);
  g_string_chunk_free (self->names);
  g_array_unref (self->records);
  g_array_unref (self->members);
  g_array_unref (self->dims);
  g_array_unref (self->keys);
  g_variant_builder_clear (&self->metadata);
  g_clear_pointer (&self->by_name, g_array_unref);
  g_free (self);
}

void
rlx_manifest_add_source (RlxManifest *self,
                         RlxSource   *source)
{
  g_ptr_array_add (self->sources, rlx_source_ref (source));
}

gboolean
rlx_weights_fail (GError        **error,
                  RlxWeightsError code,
                  guint64         at,
                  const char     *format,
                  ...)
{
  g_autofree char *message = NULL;
  va_list args;

  va_start (args, format);
  message = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, RLX_WEIGHTS_ERROR, code, "At byte %" G_GUINT64_FORMAT ": %s", at, message);
  return FALSE;
}

/* ---- adding ------------------------------------------------------------------------- */

/* Names are printed, and elsewhere used as names of files and archive members. */
static gboolean
check_name (guint64     at,
            const char *name,
            gsize       length,
            GError    **error)
{
  const char *problem = NULL;
  g_autofree char *quoted = NULL;

  if (length == 0)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, at, "the name of a tensor is empty");
  if (length > RLX_WEIGHTS_MAX_NAME)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_LIMIT, at,
                             "the name of a tensor has %" G_GSIZE_FORMAT " bytes; the limit is %d", length, RLX_WEIGHTS_MAX_NAME);

  if (memchr (name, '\0', length) != NULL)
    problem = "has a NUL byte";
  else if (!g_utf8_validate_len (name, length, NULL))
    problem = "is not UTF-8";
  else if (name[0] == '/')
    problem = "begins with “/”";
  for (gsize i = 0; i < length && problem == NULL; i++)
    {
      if ((guchar) name[i] < ' ' || name[i] == 0x7f)
        problem = "has a control character";
      else if ((i == 0 || name[i - 1] == '/') && length - i >= 2 && name[i] == '.' && name[i + 1] == '.' &&
               (length - i == 2 || name[i + 2] == '/'))
        problem = "leads out of a folder";
    }
  if (problem == NULL)
    return TRUE;
  quoted = rlx_quote_text (name, (gssize) length);
  return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, at, "the name of a tensor %s: %s", problem, quoted);
}

/* The size of a tensor of that shape in bytes. */
static gboolean
count_bytes (guint64       at,
             const char   *name,
             gsize         name_length,
             guint         storage_index,
             const gint64 *dims,
             guint         n_dims,
             guint64      *length,
             GError      **error)
{
  const RlxStorage *storage = rlx_storage_get (storage_index);
  g_autofree char *quoted = rlx_quote_text (name, (gssize) name_length);
  g_autoptr(GError) local_error = NULL;
  guint64 n, bytes;
  guint in_block, block;

  if (!rlx_shape_n_elements (dims, n_dims, &n, &local_error))
    return rlx_weights_fail (error, g_error_matches (local_error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_LIMIT) ?
                                      RLX_WEIGHTS_ERROR_LIMIT : RLX_WEIGHTS_ERROR_PARSE,
                             at, "the shape of %s: %s", quoted, local_error->message);

  rlx_storage_get_block (storage, &in_block, &block);
  /* Blocks do not extend into the next row. */
  if (storage->numbers == 0 && (n_dims == 0 || dims[n_dims - 1] % in_block != 0))
    {
      g_autofree char *shape = rlx_shape_to_string (dims, n_dims);

      return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, at,
                               "%s is %s of shape %s, whose rows are not multiples of the block of %u",
                               quoted, storage->name, shape, in_block);
    }
  if (n % in_block != 0)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, at,
                             "%s has %" G_GUINT64_FORMAT " elements of type %s, which do not fill their last byte",
                             quoted, n, storage->name);
  if (!rlx_mul_u64 (n / in_block, block, &bytes) || bytes > G_MAXINT64)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_LIMIT, at,
                             "%s has %" G_GUINT64_FORMAT " elements of type %s, more bytes than can be counted", quoted, n, storage->name);
  *length = bytes;
  return TRUE;
}

RlxRecord *
rlx_manifest_add (RlxManifest  *self,
                  guint64       at,
                  const char   *name,
                  gsize         name_length,
                  guint         storage,
                  const gint64 *dims,
                  guint         n_dims,
                  guint64      *length,
                  GError      **error)
{
  RlxRecord record = { .at = at, .storage = (guint8) storage };
  guint64 bytes;

  if (self->records->len == RLX_WEIGHTS_MAX_ENTRIES)
    {
      rlx_weights_fail (error, RLX_WEIGHTS_ERROR_LIMIT, at, "there are more tensors than the limit of %d", RLX_WEIGHTS_MAX_ENTRIES);
      return NULL;
    }
  if (!check_name (at, name, name_length, error) ||
      !count_bytes (at, name, name_length, storage, dims, n_dims, &bytes, error))
    return NULL;

  record.name = g_string_chunk_insert_len (self->names, name, (gssize) name_length);
  record.n_dims = (guint8) n_dims;
  record.dims = self->dims->len;
  if (n_dims > 0)
    g_array_append_vals (self->dims, dims, n_dims);
  g_array_append_val (self->records, record);
  if (length != NULL)
    *length = bytes;
  return &g_array_index (self->records, RlxRecord, self->records->len - 1);
}

gboolean
rlx_manifest_add_key (RlxManifest *self,
                      guint64      at,
                      const char  *key,
                      gsize        length,
                      GError     **error)
{
  RlxKey added = { .at = at };

  if (self->keys->len == RLX_WEIGHTS_MAX_PAIRS)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_LIMIT, at,
                             "there is more metadata than the limit of %d pairs", RLX_WEIGHTS_MAX_PAIRS);
  added.name = g_string_chunk_insert_len (self->names, key, (gssize) length);
  g_array_append_val (self->keys, added);
  return TRUE;
}

/* ---- when all are there --------------------------------------------------------------- */

static int
compare_names (gconstpointer a,
               gconstpointer b,
               gpointer      data)
{
  const RlxRecord *records = data;

  return strcmp (records[*(const guint32 *) a].name, records[*(const guint32 *) b].name);
}

static int
compare_places (gconstpointer a,
                gconstpointer b,
                gpointer      data)
{
  const RlxRecord *x = (RlxRecord *) data + *(const guint32 *) a;
  const RlxRecord *y = (RlxRecord *) data + *(const guint32 *) b;

  if (x->offset != y->offset)
    return x->offset < y->offset ? -1 : 1;
  return x->length < y->length ? -1 : x->length > y->length;
}

static GArray *
sort_records (RlxManifest     *self,
              GCompareDataFunc compare)
{
  GArray *indices = g_array_sized_new (FALSE, FALSE, sizeof (guint32), self->records->len);

  for (guint32 i = 0; i < self->records->len; i++)
    g_array_append_val (indices, i);
  g_array_sort_with_data (indices, compare, self->records->data);
  return indices;
}

static const RlxRecord *
get_sorted (RlxManifest  *self,
            const GArray *sorted,
            guint         index)
{
  return rlx_manifest_get (self, g_array_index (sorted, guint32, index));
}

static int
compare_keys (gconstpointer a,
              gconstpointer b)
{
  return strcmp (((const RlxKey *) a)->name, ((const RlxKey *) b)->name);
}

static gboolean
fail_twice (GError    **error,
            const char *what,
            const char *name,
            guint64     at1,
            guint64     at2)
{
  g_autofree char *quoted = rlx_quote_text (name, -1);

  return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, MAX (at1, at2),
                           "there are two %s called %s, the other one at byte %" G_GUINT64_FORMAT, what, quoted, MIN (at1, at2));
}

gboolean
rlx_manifest_seal (RlxManifest *self,
                   GError     **error)
{
  self->by_name = sort_records (self, compare_names);
  for (guint i = 1; i < self->records->len; i++)
    {
      const RlxRecord *a = get_sorted (self, self->by_name, i - 1), *b = get_sorted (self, self->by_name, i);

      if (strcmp (a->name, b->name) == 0)
        return fail_twice (error, "tensors", a->name, a->at, b->at);
    }
  g_array_sort (self->keys, compare_keys);
  for (guint i = 1; i < self->keys->len; i++)
    {
      const RlxKey *a = &g_array_index (self->keys, RlxKey, i - 1), *b = a + 1;

      if (strcmp (a->name, b->name) == 0)
        return fail_twice (error, "keys", a->name, a->at, b->at);
    }
  return TRUE;
}

gboolean
rlx_manifest_check_places (RlxManifest *self,
                           gboolean     gapless,
                           guint64      start,
                           guint64      end,
                           GError     **error)
{
  g_autoptr(GArray) sorted = sort_records (self, compare_places);
  guint64 at = start;

  for (guint i = 0; i < self->records->len; i++)
    {
      const RlxRecord *record = get_sorted (self, sorted, i);

      if (record->length > 0 && record->offset < at)
        {
          g_autofree char *quoted = rlx_quote_text (record->name, -1);

          return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, record->offset,
                                   "%s begins before byte %" G_GUINT64_FORMAT ", where another tensor ends", quoted, at);
        }
      if (gapless && record->offset != at)
        return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, at,
                                 "%" G_GUINT64_FORMAT " bytes belong to no tensor", record->offset - at);
      at = MAX (at, record->offset + record->length);
    }
  if (gapless && at != end)
    return rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, at, "%" G_GUINT64_FORMAT " bytes belong to no tensor", end - at);
  return TRUE;
}

const RlxRecord *
rlx_manifest_get (RlxManifest *self,
                  guint        index)
{
  return &g_array_index (self->records, RlxRecord, index);
}

gint64
rlx_manifest_find (RlxManifest *self,
                   const char  *name)
{
  guint low = 0, high = self->records->len;

  while (low < high)
    {
      guint middle = low + (high - low) / 2;
      int order = strcmp (get_sorted (self, self->by_name, middle)->name, name);

      if (order == 0)
        return g_array_index (self->by_name, guint32, middle);
      if (order < 0)
        low = middle + 1;
      else
        high = middle;
    }
  return -1;
}

const gint64 *
rlx_manifest_get_shape (RlxManifest     *self,
                        const RlxRecord *record)
{
  return &g_array_index (self->dims, gint64, record->dims);
}

const RlxMember *
rlx_manifest_get_member (RlxManifest     *self,
                         const RlxRecord *record)
{
  gsize index = (gsize) (record - &g_array_index (self->records, RlxRecord, 0));

  return self->members->len > 0 ? &g_array_index (self->members, RlxMember, index) : NULL;
}

RlxStream *
rlx_manifest_open (RlxManifest     *self,
                   const RlxRecord *record,
                   GCancellable    *cancellable,
                   GError         **error)
{
  const RlxMember *member = rlx_manifest_get_member (self, record);
  const RlxExtent plain = { .offset = record->offset, .stored = record->length, .size = record->length };
  g_autoptr(RlxStream) stream = NULL;
  gsize head;

  stream = rlx_stream_new (g_ptr_array_index (self->sources, record->part), member != NULL ? &member->extent : &plain);
  head = (gsize) (rlx_stream_get_left (stream) - record->length);
  return rlx_stream_read (stream, "the header", NULL, head, cancellable, error) ? g_steal_pointer (&stream) : NULL;
}
