/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A tensor knows what was made from it, and the other way round. One lock is for
 * both directions, of all tensors: it is held for moments only, when something is
 * compiled or freed.
 */
#include "config.h"

#include "rlx-resident-private.h"

#include <string.h>

#include "rlx-tensor-private.h"

/* Waiting threads are not notified when their cancellable is cancelled, so they check. */
#define WAIT_US (20 * G_TIME_SPAN_MILLISECOND)

struct _RlxResident
{
  guint n_users;           /* under the lock */
  RlxGpu *gpu;
  RlxGpuBuffer *buffer;
  guint64 size;
  gboolean uploading;      /* both under the lock */
  gboolean loaded;
  guint n_parts;
  RlxResidentPart parts[]; /* under the lock; tensors that are gone are NULL */
};

static GMutex lock;
static GCond uploaded_cond;

static gboolean
packing_equal (const RlxPacking *a,
               const RlxPacking *b)
{
  return a->width == b->width && a->n_k == b->n_k && a->n_n == b->n_n &&
         a->stride_k == b->stride_k && a->stride_n == b->stride_n;
}

static gboolean
is_made_of (const RlxResident     *self,
            RlxGpu                *gpu,
            const RlxResidentPart *parts,
            guint                  n_parts,
            guint64                size)
{
  if (self->gpu != gpu || self->n_parts != n_parts || self->size != size)
    return FALSE;
  for (guint i = 0; i < n_parts; i++)
    if (self->parts[i].tensor != parts[i].tensor || self->parts[i].offset != parts[i].offset ||
        !packing_equal (&self->parts[i].packing, &parts[i].packing))
      return FALSE;
  return TRUE;
}

static RlxResident *
find (RlxGpu                *gpu,
      const RlxResidentPart *parts,
      guint                  n_parts,
      guint64                size,
      gboolean              *others)
{
  *others = FALSE;
  for (GSList *l = parts[0].tensor->residents; l != NULL; l = l->next)
    {
      RlxResident *resident = l->data;

      if (is_made_of (resident, gpu, parts, n_parts, size))
        return resident;
      *others |= resident->gpu == gpu;
    }
  return NULL;
}

static RlxResident *
resident_new (RlxGpu                *gpu,
              const RlxResidentPart *parts,
              guint                  n_parts,
              guint64                size,
              GError               **error)
{
  RlxGpuBuffer *buffer = rlx_gpu_buffer_new (gpu, size, RLX_GPU_BUFFER_STORAGE, "weights", error);
  RlxResident *self;

  if (buffer == NULL)
    return NULL;
  self = g_malloc0 (sizeof (RlxResident) + n_parts * sizeof (RlxResidentPart));
  self->n_users = 1;
  self->gpu = rlx_gpu_ref (gpu);
  self->buffer = buffer;
  self->size = size;
  self->n_parts = n_parts;
  memcpy (self->parts, parts, n_parts * sizeof (RlxResidentPart));
  return self;
}

static void
resident_free (RlxResident *self)
{
  rlx_gpu_buffer_free (self->buffer);
  rlx_gpu_unref (self->gpu);
  g_free (self);
}

RlxResident *
rlx_resident_get (RlxGpu                *gpu,
                  const RlxResidentPart *parts,
                  guint                  n_parts,
                  guint64                size,
                  RlxResidentOrigin     *origin,
                  GError               **error)
{
  RlxResident *found, *made;
  gboolean others;

  if (!rlx_gpu_check_forked (error))
    return NULL;

  g_mutex_lock (&lock);
  found = find (gpu, parts, n_parts, size, &others);
  if (found != NULL)
    found->n_users++;
  g_mutex_unlock (&lock);
  *origin = RLX_RESIDENT_FOUND;
  if (found != NULL)
    return found;

  /* A driver may take long to free memory. */
  made = resident_new (gpu, parts, n_parts, size, error);
  if (made == NULL)
    return NULL;

  g_mutex_lock (&lock);
  found = find (gpu, parts, n_parts, size, &others);
  if (found != NULL)
    found->n_users++;
  else
    for (guint i = 0; i < n_parts; i++)
      {
        parts[i].tensor->residents = g_slist_prepend (parts[i].tensor->residents, made);
        parts[i].tensor->was_resident = TRUE;
      }
  g_mutex_unlock (&lock);

  if (found != NULL)
    {
      resident_free (made);
      return found;
    }
  *origin = others ? RLX_RESIDENT_RELAID : RLX_RESIDENT_NEW;
  return made;
}

void
rlx_resident_release (RlxResident *self)
{
  gboolean last;

  /* It belongs to another process, and the lock may be held for ever. */
  if (!rlx_gpu_check_forked (NULL))
    return;

  g_mutex_lock (&lock);
  last = --self->n_users == 0;
  for (guint i = 0; last && i < self->n_parts; i++)
    if (self->parts[i].tensor != NULL)
      self->parts[i].tensor->residents = g_slist_remove_all (self->parts[i].tensor->residents, self);
  g_mutex_unlock (&lock);

  if (last)
    resident_free (self);
}

RlxGpuBuffer *
rlx_resident_get_buffer (RlxResident *self)
{
  return self->buffer;
}

gboolean
rlx_resident_begin (RlxResident  *self,
                    gboolean     *upload,
                    GCancellable *cancellable,
                    GError      **error)
{
  gboolean cancelled = FALSE;

  g_mutex_lock (&lock);
  while (self->uploading && !cancelled)
    {
      g_cond_wait_until (&uploaded_cond, &lock, g_get_monotonic_time () + WAIT_US);
      cancelled = g_cancellable_is_cancelled (cancellable);
    }
  *upload = !cancelled && !self->loaded;
  if (*upload)
    self->uploading = TRUE;
  g_mutex_unlock (&lock);

  return !cancelled || !g_cancellable_set_error_if_cancelled (cancellable, error);
}

void
rlx_resident_end (RlxResident *self,
                  gboolean     uploaded)
{
  g_mutex_lock (&lock);
  self->uploading = FALSE;
  self->loaded = uploaded;
  g_cond_broadcast (&uploaded_cond);
  g_mutex_unlock (&lock);
}

gboolean
rlx_resident_is_loaded (RlxResident *self)
{
  gboolean loaded;

  g_mutex_lock (&lock);
  loaded = self->loaded;
  g_mutex_unlock (&lock);
  return loaded;
}

void
rlx_resident_forget (RlxTensor *tensor)
{
  /* Another thread may be about to free the last of them, so the list alone is not sufficient. */
  if (!tensor->was_resident || !rlx_gpu_check_forked (NULL))
    return;

  g_mutex_lock (&lock);
  for (GSList *l = tensor->residents; l != NULL; l = l->next)
    {
      RlxResident *resident = l->data;

      for (guint i = 0; i < resident->n_parts; i++)
        if (resident->parts[i].tensor == tensor)
          resident->parts[i].tensor = NULL;
    }
  g_clear_pointer (&tensor->residents, g_slist_free);
  g_mutex_unlock (&lock);
}
