/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * From the bytes of a tensor to those of its slot: unchanged, or in panels of columns. A panel has all rows, one after
 * the other, of as many columns as it is wide; the last one is padded with zeros.
 */
#include "config.h"

#include "plan/rlx-plan-private.h"

#include <string.h>

#include "util/rlx-checked-private.h"

/* For smaller writes, the overhead exceeds the cost of the bytes. */
#define MIN_RUN 16384

/* Rows at a time: what is read of a column then fits a cache line, and is not evicted by other columns, which are often a
 * power of two apart. */
#define TILE_ROWS 16

/* @n_k rows of @n_n columns. Inlined, so that the compiler can turn copies of known size and stride into vectorised
 * moves. */
static G_ALWAYS_INLINE inline void
pack_panel (const guint8 *from,
            guint64       stride_k,
            guint64       stride_n,
            guint64       n_k,
            guint64       n_n,
            guint64       width,
            gsize         element,
            guint8       *to)
{
  for (guint64 first = 0; first < n_k; first += TILE_ROWS)
    for (guint64 n = 0; n < n_n; n++)
      for (guint64 k = first; k < MIN (first + TILE_ROWS, n_k); k++)
        memcpy (to + (k * width + n) * element, from + (k * stride_k + n * stride_n) * element, element);
}

#ifdef __has_builtin
#if __has_builtin(__builtin_shufflevector)
#define HAS_SHUFFLES
#endif
#endif

#ifdef HAS_SHUFFLES
typedef guint32 Four __attribute__ ((vector_size (16)));

/* Four rows of four columns. */
static inline void
transpose_four (const guint8 *from,
                guint64       stride_n,
                guint64       width,
                guint8       *to)
{
  Four a, b, c, d, low_ab, low_cd, high_ab, high_cd;

  memcpy (&a, from, sizeof a);
  memcpy (&b, from + stride_n * 4, sizeof b);
  memcpy (&c, from + stride_n * 8, sizeof c);
  memcpy (&d, from + stride_n * 12, sizeof d);
  low_ab = __builtin_shufflevector (a, b, 0, 4, 1, 5);
  low_cd = __builtin_shufflevector (c, d, 0, 4, 1, 5);
  high_ab = __builtin_shufflevector (a, b, 2, 6, 3, 7);
  high_cd = __builtin_shufflevector (c, d, 2, 6, 3, 7);
  a = __builtin_shufflevector (low_ab, low_cd, 0, 1, 4, 5);
  b = __builtin_shufflevector (low_ab, low_cd, 2, 3, 6, 7);
  c = __builtin_shufflevector (high_ab, high_cd, 0, 1, 4, 5);
  d = __builtin_shufflevector (high_ab, high_cd, 2, 3, 6, 7);
  memcpy (to, &a, sizeof a);
  memcpy (to + width * 4, &b, sizeof b);
  memcpy (to + width * 8, &c, sizeof c);
  memcpy (to + width * 12, &d, sizeof d);
}
#endif

/* Columns of words, a quarter of the moves where the compiler has shuffles. */
static void
pack_words (const guint8 *from,
            guint64       stride_n,
            guint64       n_k,
            guint64       n_n,
            guint64       width,
            guint8       *to)
{
#ifdef HAS_SHUFFLES
  guint64 end_k = n_k / TILE_ROWS * TILE_ROWS, end_n = n_n / 4 * 4;

  for (guint64 first = 0; first < end_k; first += TILE_ROWS)
    for (guint64 n = 0; n < end_n; n += 4)
      for (guint64 k = first; k < first + TILE_ROWS; k += 4)
        transpose_four (from + (k + n * stride_n) * 4, stride_n, width, to + (k * width + n) * 4);
  pack_panel (from + end_n * stride_n * 4, 1, stride_n, end_k, n_n - end_n, width, 4, to + end_n * 4);
  pack_panel (from + end_k * 4, 1, stride_n, n_k - end_k, n_n, width, 4, to + end_k * width * 4);
#else
  pack_panel (from, 1, stride_n, n_k, n_n, width, 4, to);
#endif
}

/* Packs the elements from (@first_k, @first_n) up to (@end_k, @end_n), exclusive, into panels of @rows rows; @first_n
 * is the first column of a panel. */
static void
pack_elements (const RlxSlot *slot,
               const guint8  *from,
               guint64        first_k,
               guint64        end_k,
               guint64        first_n,
               guint64        end_n,
               guint64        rows,
               guint8        *to)
{
  const RlxPacking *packing = &slot->packing;
  gsize element = rlx_data_type_get_size (slot->type.data_type);

  for (guint64 first = 0; first < end_n - first_n; first += packing->width)
    {
      guint64 n_k = end_k - first_k, n_n = MIN (packing->width, end_n - first_n - first);
      const guint8 *panel = from + first * packing->stride_n * element;
      guint8 *target = to + first * rows * element;

      if (packing->stride_n == 1)
        for (guint64 k = 0; k < n_k; k++)
          memcpy (target + k * packing->width * element, panel + k * packing->stride_k * element, n_n * element);
      else if (packing->stride_k == 1 && element == 4)
        pack_words (panel, packing->stride_n, n_k, n_n, packing->width, target);
      else if (packing->stride_k == 1 && element == 2)
        pack_panel (panel, 1, packing->stride_n, n_k, n_n, packing->width, 2, target);
      else
        pack_panel (panel, packing->stride_k, packing->stride_n, n_k, n_n, packing->width, element, target);
    }
}

void
rlx_slot_pack_to (const RlxSlot *slot,
                  GBytes        *bytes,
                  guint8        *to)
{
  gsize size;
  const guint8 *from = g_bytes_get_data (bytes, &size);

  if (slot->packing.width == 0)
    memcpy (to, from, size);
  else
    pack_elements (slot, from, 0, slot->packing.n_k, 0, slot->packing.n_n, slot->packing.n_k, to);
}

GBytes *
rlx_slot_pack (const RlxSlot *slot,
               GBytes        *bytes)
{
  guint8 *to;

  if (slot->packing.width == 0)
    return g_bytes_ref (bytes);

  to = g_malloc0 (slot->size);
  rlx_slot_pack_to (slot, bytes, to);
  return g_bytes_new_take (to, slot->size);
}

/* ---- a piece at a time -------------------------------------------------------------------- */

/* Whether rows, or columns, are contiguous in the tensor; neither are if it is part of another one. */
static gboolean
has_rows (const RlxPacking *packing)
{
  return packing->stride_n == 1 && packing->stride_k == packing->n_n;
}

static gboolean
has_columns (const RlxPacking *packing)
{
  return packing->stride_k == 1 && packing->stride_n == packing->n_k;
}

gsize
rlx_slot_get_piece (const RlxSlot *slot,
                    gsize          wanted,
                    gboolean       in_runs)
{
  const RlxPacking *packing = &slot->packing;
  gsize element = rlx_data_type_get_size (slot->type.data_type), unit, n;

  if (packing->width == 0)
    return wanted;
  /* Whole rows, or the columns of a panel. */
  unit = has_rows (packing) ? packing->n_n * element : has_columns (packing) ? packing->width * packing->n_k * element : 0;
  if (unit == 0 || unit > wanted)
    return 0;
  n = wanted / unit;
  if (in_runs && has_rows (packing) && MIN (n, packing->n_k) * packing->width * element < MIN_RUN)
    return 0;
  return n * unit;
}

/* Finds the elements of the @size bytes at @at. */
static void
find_elements (const RlxSlot *slot,
               gsize          at,
               gsize          size,
               guint64       *first_k,
               guint64       *end_k,
               guint64       *first_n,
               guint64       *end_n)
{
  const RlxPacking *packing = &slot->packing;
  gsize element = rlx_data_type_get_size (slot->type.data_type);

  *first_k = *first_n = 0;
  *end_k = packing->n_k;
  *end_n = packing->n_n;
  if (has_rows (packing))
    {
      *first_k = at / (packing->n_n * element);
      *end_k = (at + size) / (packing->n_n * element);
    }
  else
    {
      *first_n = at / (packing->n_k * element);
      *end_n = (at + size) / (packing->n_k * element);
    }
}

void
rlx_slot_pack_piece (const RlxSlot *slot,
                     const guint8  *from,
                     gsize          at,
                     gsize          size,
                     guint8        *to)
{
  const RlxPacking *packing = &slot->packing;
  guint64 first_k, end_k, first_n, end_n;

  if (packing->width == 0)
    {
      memcpy (to + at, from, size);
      return;
    }
  find_elements (slot, at, size, &first_k, &end_k, &first_n, &end_n);
  pack_elements (slot, from, first_k, end_k, first_n, end_n, packing->n_k,
                 to + (first_n * packing->n_k + first_k * packing->width) * rlx_data_type_get_size (slot->type.data_type));
}

gboolean
rlx_slot_pack_runs (const RlxSlot *slot,
                    const guint8  *from,
                    gsize          at,
                    gsize          size,
                    RlxSlotRunFunc func,
                    gpointer       data,
                    GError       **error)
{
  const RlxPacking *packing = &slot->packing;
  gsize element = rlx_data_type_get_size (slot->type.data_type), panel;
  guint64 first_k, end_k, first_n, end_n, n_panels;
  g_autofree guint8 *packed = NULL;

  if (packing->width == 0)
    return func (data, at, from, size, error);
  find_elements (slot, at, size, &first_k, &end_k, &first_n, &end_n);
  n_panels = rlx_divide_up (end_n - first_n, packing->width);
  panel = (end_k - first_k) * packing->width * element;
  packed = g_malloc0 (n_panels * panel);
  pack_elements (slot, from, first_k, end_k, first_n, end_n, end_k - first_k, packed);
  /* Whole panels are contiguous. */
  if (end_k - first_k == packing->n_k)
    return func (data, first_n * packing->n_k * element, packed, n_panels * panel, error);
  for (guint64 i = 0; i < n_panels; i++)
    if (!func (data, ((first_n + i * packing->width) * packing->n_k + first_k * packing->width) * element, packed + i * panel, panel, error))
      return FALSE;
  return TRUE;
}
