/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A tensor as rows (the axes that an operator leaves alone) and columns (those that it works
 * along), and how many invocations share a row: what reductions, softmax and norms have in
 * common.
 */
#pragma once

#include "ops/rlx-variant-private.h"

G_BEGIN_DECLS

/* Axes that are contiguous in memory are merged into a group. Groups are listed innermost
 * first; axes of size 1 are left out. */
typedef struct
{
  guint n_kept;
  guint64 kept_dims[RLX_MAX_DIMS];
  guint64 kept_strides[RLX_MAX_DIMS];
  guint n_reduced;
  guint64 reduced_dims[RLX_MAX_DIMS];
  guint64 reduced_strides[RLX_MAX_DIMS];
  guint64 n_rows;
  guint64 n_columns;
} RlxRows;

/* The bits of @mask are the axes that columns run over. */
void     rlx_rows_init     (RlxRows             *rows,
                            const RlxTensorType *type,
                            guint                mask);

/* The mask of a list of axes that has already been checked. */
guint    rlx_axes_get_mask (const RlxInts *axes,
                            guint          n_dims);

/* The defines and parameters that kernels/common/rows.wgsl needs. Returns the
 * number of workgroups. */
guint64  rlx_rows_describe (const RlxRows *rows,
                            RlxKernel     *kernel,
                            guint          lanes,
                            guint          workgroup_size);

/* Which invocations share a row. */
typedef enum
{
  RLX_SHARE_NONE,       /* a single invocation */
  RLX_SHARE_LANES,      /* those that run in lockstep */
  RLX_SHARE_WORKGROUP,
} RlxShare;

guint    rlx_share_get_lanes          (RlxShare         self,
                                       const RlxTarget *target);
guint    rlx_share_get_workgroup_size (RlxShare         self,
                                       const RlxTarget *target,
                                       guint64          n_rows);
/* @across: rows, not columns, are contiguous in memory. */
RlxFit   rlx_share_fits               (RlxShare         self,
                                       const RlxTarget *target,
                                       guint64          n_rows,
                                       guint64          n_columns,
                                       gboolean         across,
                                       const char     **why);
/* Picks one that fits well. */
RlxShare rlx_share_pick               (const RlxTarget *target,
                                       guint64          n_rows,
                                       guint64          n_columns,
                                       gboolean         across);

G_END_DECLS
