/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Views: transpose, slice, expand, reverse and frame select elements of their operand at
 * regular strides. A consumer that can read through such a view needs no copy.
 */
#pragma once

#include "ops/rlx-kernel-private.h"

G_BEGIN_DECLS

/* For a view, where the elements of the result are in the operand: element
 * (i0, i1, …) is element @offset + Σ i·strides of the operand in row-major
 * order. A stride is 0 where the operand repeats and negative where it is
 * reversed. FALSE for every other operator. */
gboolean rlx_view_get_strides (const RlxIrNode *node,
                               gint64          *offset,
                               gint64           strides[RLX_MAX_DIMS]);

/* The axis of its operand that an axis of a transpose's result corresponds to. */
guint    rlx_transpose_get_axis (const RlxIrNode *node,
                                 guint            axis);

/* A copy of elements between two tensors, each with an offset and a stride per
 * dimension, in elements. */
typedef struct
{
  guint n_dims;
  gint64 shape[RLX_MAX_DIMS];
  gint64 from_offset;
  gint64 from[RLX_MAX_DIMS];
  gint64 to_offset;
  gint64 to[RLX_MAX_DIMS];
} RlxCopy;

/* Drops dimensions of size 1 and joins dimensions that are contiguous on both sides.
 * FALSE if there is nothing to copy. */
gboolean rlx_copy_simplify    (RlxCopy          *copy);
/* Adds the steps of a copy of raw elements; the types have the same size. */
gboolean rlx_lower_copy       (RlxLower         *lower,
                               const RlxIrNode  *node,
                               const RlxIrValue *from,
                               const RlxIrValue *to,
                               const RlxCopy    *copy,
                               GError          **error);
/* How many elements, or words of them, a workgroup handles: enough to amortise the start
 * of a workgroup, few enough to keep every core busy. */
guint64  rlx_copy_get_block   (RlxLower         *lower,
                               guint64           n_units);
/* All elements in order. */
gboolean rlx_lower_copy_all   (RlxLower         *lower,
                               const RlxIrNode  *node,
                               const RlxIrValue *from,
                               const RlxIrValue *to,
                               GError          **error);

G_END_DECLS
