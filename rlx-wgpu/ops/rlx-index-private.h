/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What operators that move and select elements have in common.
 */
#pragma once

#include "ops/rlx-shape-private.h"

G_BEGIN_DECLS

/* A parameter whose name ends with a number; the value is taken modulo 2³². */
void     rlx_kernel_param_indexed     (RlxKernel           *self,
                                       const char          *prefix,
                                       guint                index,
                                       gint64               value);
/* Binds @y as raw output y and dispatches a kernel that includes
 * common/elements.wgsl. */
gboolean rlx_kernel_dispatch_elements (RlxKernel           *self,
                                       RlxLower            *lower,
                                       const RlxIrValue    *y,
                                       GError             **error);

G_END_DECLS
