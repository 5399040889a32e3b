/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What reductions, softmax and norms have in common: a tensor seen as rows
 * (the axes an operator leaves alone) and columns (those it works along).
 */
#pragma once

#include "ops/rlx-kernel-private.h"

G_BEGIN_DECLS

/* Axes that lie side by side in memory count as one: a group. Groups are
 * listed innermost first; axes of size 1 are left out. */
typedef struct
{
  guint n_kept;
  guint64 kept_dims[RLX_MAX_DIMS];
  guint64 kept_strides[RLX_MAX_DIMS];
  guint n_reduced;
  guint64 reduced_dims[RLX_MAX_DIMS];
  guint64 reduced_strides[RLX_MAX_DIMS];
  guint64 factor_strides[RLX_MAX_DIMS];
  guint64 n_rows;
  guint64 n_columns;
} RlxRows;

/* @mask has the bits of the axes columns run over. @factor_strides (nullable)
 * says for these axes how far apart elements of a second tensor are, the scale
 * of a norm. */
void     rlx_rows_init     (RlxRows             *rows,
                            const RlxTensorType *type,
                            guint                mask,
                            const gint64        *factor_strides);

/* How many invocations share a row, and the size of the workgroup. */
void     rlx_rows_choose   (const RlxRows *rows,
                            RlxLower      *lower,
                            guint         *lanes,
                            guint         *workgroup_size);

/* The defines and parameters that kernels/common/rows.wgsl needs. Returns the
 * number of workgroups. */
guint64  rlx_rows_describe (const RlxRows *rows,
                            RlxKernel     *kernel,
                            guint          lanes,
                            guint          workgroup_size);

/* The mask of a list of axes that has been checked. */
guint    rlx_axes_get_mask (const RlxInts *axes,
                            guint          n_dims);

G_END_DECLS
