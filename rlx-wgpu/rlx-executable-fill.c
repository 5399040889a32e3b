/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Parameters whose values come in pieces, from a file: the host never has all of one.
 *
 * Where the device works in memory of the host, and nobody has given the parameter a value before, so that no run uses it,
 * pieces are read straight to where they belong; those of panels are packed there, by the caller and another thread. Otherwise
 * they are read into one of two buffers, while the device thread writes what is in the other.
 */
#include "config.h"

#include "rlx-executable-private.h"
#include "rlx-plan-port-private.h"
#include "rlx-upload-private.h"

/* Smaller values are faster as a tensor. */
#define MIN_BYTES ((gsize) 1 << 20)
#define PIECE_BYTES ((gsize) 4 << 20)
/* Where the host packs them, if it can: two threads have something to do even for a small value. */
#define PACKED_PIECE_BYTES ((gsize) 512 << 10)

typedef struct _Fill Fill;

typedef struct
{
  Fill *fill;
  guint8 *bytes;
  gsize at, size;
  gboolean busy;                /* under the mutex: the device thread has not written it yet */
} Piece;

struct _Fill
{
  RlxExecutable *executable;
  guint parameter;
  RlxSlot slot;
  RlxGpuBuffer *buffer;
  gsize size, piece_size;
  gboolean in_place;            /* pieces can be written to their final place */

  Piece pieces[2];
  GMutex mutex;
  GCond cond;
  GError *error;                /* under the mutex: set by the device thread */
  Piece *handed;                /* under the mutex: for the packer, which sets it to NULL when it is done; nullable */
  gboolean ended;               /* under the mutex: there will be no other */
};

static const RlxPlanPort *
find_port (RlxExecutable *self,
           const char    *name)
{
  return rlx_plan_port_find (self->shared->plan->parameters, "parameter", name, NULL, NULL);
}

/* Of a value of that type, on the device. */
static gsize
get_piece (RlxExecutable     *self,
           const RlxPlanPort *port)
{
  const RlxPlan *plan = self->shared->plan;
  const RlxSlot *slot = rlx_plan_get_slot (plan, port->slot);
  gboolean on_host = rlx_gpu_buffer_get_host (rlx_executable_get_buffer (self, slot->buffer)) != NULL;
  gsize piece = 0;

  /* Whether products may round it depends on all of it. */
  for (guint i = 0; i < plan->f16_weights->len; i++)
    if (g_array_index (plan->f16_weights, RlxF16Weight, i).slot == port->slot)
      return 0;
  if (on_host && slot->packing.width > 0)
    piece = rlx_slot_get_piece (slot, PACKED_PIECE_BYTES, FALSE);
  return piece > 0 ? piece : rlx_slot_get_piece (slot, PIECE_BYTES, !on_host);
}

gboolean
rlx_executable_can_fill (RlxExecutable *self,
                         const char    *name)
{
  const RlxPlanPort *port = find_port (self, name);

  return port != NULL && rlx_type_n_device_bytes (&port->type) >= MIN_BYTES && get_piece (self, port) > 0;
}

/* Where the device works in memory of the host. */
static void
pack (Fill        *fill,
      const Piece *piece)
{
  rlx_slot_pack_piece (&fill->slot, piece->bytes, piece->at, piece->size, rlx_gpu_buffer_get_host (fill->buffer) + fill->slot.offset);
}

/* ---- on the device thread --------------------------------------------------------------- */

static gboolean
write_run (gpointer      data,
           gsize         at,
           const guint8 *bytes,
           gsize         size,
           GError      **error)
{
  Fill *fill = data;

  return rlx_gpu_buffer_write (fill->executable->shared->gpu, fill->buffer, fill->slot.offset + at, bytes, size, error);
}

static void
write_piece (RlxGpu  *gpu,
             gpointer data)
{
  Piece *piece = data;
  Fill *fill = piece->fill;
  GError *error = NULL;

  /* Jobs that nobody waited for may still read what is overwritten here. */
  if (rlx_gpu_settle (gpu, &error))
    {
      if (rlx_gpu_buffer_get_host (fill->buffer) != NULL)
        pack (fill, piece);
      else
        rlx_slot_pack_runs (&fill->slot, piece->bytes, piece->at, piece->size, write_run, fill, &error);
    }
  g_mutex_lock (&fill->mutex);
  if (fill->error == NULL)
    fill->error = g_steal_pointer (&error);
  piece->busy = FALSE;
  g_cond_signal (&fill->cond);
  g_mutex_unlock (&fill->mutex);
  g_clear_error (&error);
}

typedef struct
{
  RlxExecutable *executable;
  guint parameter;
  gboolean ok;
} End;

/* Before any run that is queued from now on. */
static void
end (RlxGpu  *gpu G_GNUC_UNUSED,
     gpointer data)
{
  End *self = data;
  RlxProgram *shared = self->executable->shared;

  if (self->ok)
    shared->is_set[self->parameter] = TRUE;
  shared->stale = shared->plan->n_prologue > 0;
  g_object_unref (self->executable);
  g_free (self);
}

/* ---- on the caller's -------------------------------------------------------------------- */

/* In a thread of its own, as long as the value is read. */
static gpointer
pack_handed (gpointer data)
{
  Fill *fill = data;

  rlx_gpu_buffer_populate (fill->buffer, RLX_GPU_SECOND_HALF);
  g_mutex_lock (&fill->mutex);
  while (fill->handed != NULL || !fill->ended)
    {
      if (fill->handed == NULL)
        {
          g_cond_wait (&fill->cond, &fill->mutex);
          continue;
        }
      g_mutex_unlock (&fill->mutex);
      pack (fill, fill->handed);
      g_mutex_lock (&fill->mutex);
      fill->handed = NULL;
    }
  g_mutex_unlock (&fill->mutex);
  return NULL;
}

/* FALSE if the packer is busy. If not, it uses no other piece either. */
static gboolean
hand_over (Fill  *fill,
           Piece *piece)
{
  gboolean idle;

  g_mutex_lock (&fill->mutex);
  idle = fill->handed == NULL;
  if (idle)
    fill->handed = piece;
  g_cond_signal (&fill->cond);
  g_mutex_unlock (&fill->mutex);
  return idle;
}

static void
end_packer (Fill    *fill,
            GThread *packer)
{
  g_mutex_lock (&fill->mutex);
  fill->ended = TRUE;
  g_cond_signal (&fill->cond);
  g_mutex_unlock (&fill->mutex);
  g_thread_join (packer);
}

/* Only the caller reads. Each piece is packed by whoever has nothing else to do. */
static gboolean
read_in_place (Fill         *fill,
               RlxFillFunc   func,
               gpointer      data,
               GCancellable *cancellable,
               GError      **error)
{
  guint8 *to = rlx_gpu_buffer_get_host (fill->buffer) + fill->slot.offset;
  gboolean packs = fill->slot.packing.width > 0, ok = TRUE;
  GThread *packer = packs && fill->size > fill->piece_size ? g_thread_try_new ("rlx-pack", pack_handed, fill, NULL) : NULL;
  guint i = 0;

  rlx_gpu_buffer_populate (fill->buffer, packer != NULL ? RLX_GPU_FIRST_HALF : RLX_GPU_WHOLE);
  for (gsize at = 0; ok && at < fill->size; at += fill->piece_size)
    {
      Piece *piece = &fill->pieces[i];

      piece->at = at;
      piece->size = MIN (fill->piece_size, fill->size - at);
      ok = func (data, packs ? piece->bytes : to + at, piece->size, cancellable, error);
      if (ok && packer != NULL && hand_over (fill, piece))
        i = 1 - i;
      else if (ok && packs)
        pack (fill, piece);
    }
  if (packer != NULL)
    end_packer (fill, packer);
  return ok;
}

/* FALSE once the device has failed. */
static gboolean
wait_for_piece (Fill  *fill,
                Piece *piece)
{
  gboolean ok;

  g_mutex_lock (&fill->mutex);
  while (piece->busy)
    g_cond_wait (&fill->cond, &fill->mutex);
  ok = fill->error == NULL;
  g_mutex_unlock (&fill->mutex);
  return ok;
}

static gboolean
read_beside (Fill         *fill,
             RlxFillFunc   func,
             gpointer      data,
             GCancellable *cancellable,
             GError      **error)
{
  gboolean ok = TRUE;
  guint i = 0;

  for (gsize at = 0; ok && at < fill->size; at += fill->piece_size)
    {
      Piece *piece = &fill->pieces[i];

      if (!wait_for_piece (fill, piece))
        break;
      piece->at = at;
      piece->size = MIN (fill->piece_size, fill->size - at);
      ok = func (data, piece->bytes, piece->size, cancellable, error);
      if (ok)
        {
          piece->busy = TRUE;
          rlx_gpu_invoke (fill->executable->shared->gpu, write_piece, piece);
        }
      i = 1 - i;
    }
  /* They must not be used any more. */
  for (i = 0; i < G_N_ELEMENTS (fill->pieces); i++)
    wait_for_piece (fill, &fill->pieces[i]);
  if (fill->error == NULL)
    return ok;
  if (error != NULL && *error == NULL)
    g_propagate_error (error, g_steal_pointer (&fill->error));
  return FALSE;
}

gboolean
rlx_executable_fill_parameter (RlxExecutable *self,
                               const char    *name,
                               RlxFillFunc    func,
                               gpointer       data,
                               GCancellable  *cancellable,
                               GError       **error)
{
  const RlxPlan *plan = self->shared->plan;
  const RlxPlanPort *port = find_port (self, name);
  RlxGpu *gpu = self->shared->gpu;
  End *last = g_new0 (End, 1);
  Fill fill = { .executable = self, .slot = *rlx_plan_get_slot (plan, port->slot), .piece_size = get_piece (self, port) };
  gboolean ok;

  fill.parameter = (guint) (port - &g_array_index (plan->parameters, RlxPlanPort, 0));
  fill.slot.offset = rlx_executable_get_offset (self, &fill.slot);
  fill.buffer = rlx_executable_get_buffer (self, fill.slot.buffer);
  fill.size = rlx_type_n_device_bytes (&port->type);
  g_mutex_init (&fill.mutex);
  g_cond_init (&fill.cond);

  /* This must not wait for the device, which may be busy with a long run. */
  fill.in_place = g_atomic_int_compare_and_exchange (&self->shared->given[fill.parameter], FALSE, TRUE) &&
                  rlx_gpu_buffer_get_host (fill.buffer) != NULL;
  for (guint i = 0; i < G_N_ELEMENTS (fill.pieces) && (!fill.in_place || fill.slot.packing.width > 0); i++)
    fill.pieces[i] = (Piece) { .fill = &fill, .bytes = g_malloc (MIN (fill.piece_size, fill.size)) };
  ok = rlx_gpu_check_lost (gpu, error) &&
       (fill.in_place ? read_in_place (&fill, func, data, cancellable, error) : read_beside (&fill, func, data, cancellable, error)) &&
       rlx_gpu_check_lost (gpu, error);
  if (ok && rlx_gpu_buffer_get_host (fill.buffer) != NULL)
    rlx_gpu_count_upload (gpu, fill.size);
  *last = (End) { g_object_ref (self), fill.parameter, ok };
  rlx_gpu_invoke (gpu, end, last);

  for (guint i = 0; i < G_N_ELEMENTS (fill.pieces); i++)
    g_free (fill.pieces[i].bytes);
  g_clear_error (&fill.error);
  g_cond_clear (&fill.cond);
  g_mutex_clear (&fill.mutex);
  return ok;
}
