/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "ops/rlx-kernel-private.h"

G_BEGIN_DECLS

/* How many numbers of a row form a block, and its size in bytes. */
void rlx_packed_type_get_block (RlxPackedType  type,
                                guint         *numbers,
                                guint         *bytes);

/* The largest magnitude that packed numbers can have, judging only by the scales in their blocks; infinite if a scale is
 * not a number. For types whose scales are stored elsewhere, the second function returns the largest number that a scale is
 * multiplied by; 0 for others. */
double rlx_packed_find_reach     (RlxPackedType type,
                                  const guint8 *blocks,
                                  gsize         n_bytes);
double rlx_packed_type_get_reach (RlxPackedType type);

/* The weight of a product and what belongs to it, as kernels/packed/decode.wgsl expects them. */
void rlx_packed_describe       (RlxKernel       *kernel,
                                RlxLower        *lower,
                                const RlxIrNode *node);

G_END_DECLS
