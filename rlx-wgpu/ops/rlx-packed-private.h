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

/* The weight of a product and what belongs to it, as kernels/packed/decode.wgsl wants them. */
void rlx_packed_describe       (RlxKernel       *kernel,
                                RlxLower        *lower,
                                const RlxIrNode *node);

G_END_DECLS
