/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Steps along one axis of a tensor: finding the largest element, sorting, cumulative sums.
 * Operators consist of one or several of them.
 */
#pragma once

#include "ops/rlx-kernel-private.h"

G_BEGIN_DECLS

/* Rows along an axis: element k of row r is element
 * (r / inner · length + k) · inner + r % inner of the tensor. */
typedef struct
{
  guint64 n_rows;
  guint64 length;
  guint64 inner;
} RlxAxis;

typedef enum
{
  RLX_SCAN_SUM,
  RLX_SCAN_PROD,
  RLX_SCAN_MAX,
  RLX_SCAN_MIN,
} RlxScanKind;

void        rlx_axis_init   (RlxAxis             *axis,
                             const RlxTensorType *type,
                             guint                index);

/* The rule of operators whose result is like their operand: checks the attribute. */
gboolean    rlx_axis_infer  (RlxOpCall           *call,
                             gint64               axis,
                             GError             **error);

/* A value of 32-bit elements, @n of them for each row. */
RlxIrValue *rlx_axis_temporary (RlxLower         *lower,
                                RlxDataType       data_type,
                                const RlxAxis    *axis,
                                guint64           n);

/* The index of the largest (smallest) element of each row; @indices has one integer per
 * row. */
gboolean    rlx_lower_arg   (RlxLower         *lower,
                             const RlxIrNode  *node,
                             const RlxIrValue *x,
                             const RlxAxis    *axis,
                             gboolean          smallest,
                             gboolean          last_index,
                             const RlxIrValue *indices,
                             GError          **error);

/* The first @keep elements of each sorted row; @values has the type of @x, @indices are
 * integers, either may be NULL. The order is stable. */
gboolean    rlx_lower_sort  (RlxLower         *lower,
                             const RlxIrNode  *node,
                             const RlxIrValue *x,
                             const RlxAxis    *axis,
                             gboolean          descending,
                             guint64           keep,
                             const RlxIrValue *values,
                             const RlxIrValue *indices,
                             GError          **error);

/* Cumulative sums and similar operators. */
gboolean    rlx_lower_scan  (RlxLower         *lower,
                             const RlxIrNode  *node,
                             const RlxIrValue *x,
                             const RlxAxis    *axis,
                             RlxScanKind       kind,
                             gboolean          exclusive,
                             gboolean          reverse,
                             const RlxIrValue *y,
                             GError          **error);

G_END_DECLS
