/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "ops/rlx-kernel-private.h"

G_BEGIN_DECLS

/* How many numbers of a row are packed together, and into how many bytes. */
void rlx_packed_type_get_block (RlxPackedType  type,
                                guint         *numbers,
                                guint         *bytes);

/* The largest magnitude that packed numbers can have, whatever they are, by the scales in their blocks; infinite where a scale
 * is no number. Of types that have their scales elsewhere, the largest number by which a scale is multiplied; 0 for others. */
double rlx_packed_find_reach     (RlxPackedType type,
                                  const guint8 *blocks,
                                  gsize         n_bytes);
double rlx_packed_type_get_reach (RlxPackedType type);

/* The weight of a product and what belongs to it, as kernels/packed/decode.wgsl wants them. */
void rlx_packed_describe       (RlxKernel       *kernel,
                                RlxLower        *lower,
                                const RlxIrNode *node);

G_END_DECLS
