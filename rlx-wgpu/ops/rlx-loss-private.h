/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What rlx-loss.c and rlx-cross-entropy.c share.
 */
#pragma once

#include "ops/rlx-builder-private.h"

G_BEGIN_DECLS

/* The gradient of cross-entropy with respect to @x, f32, composed of other operators; @g is that of the loss. */
RlxIrValue * rlx_loss_build_gradient (RlxBuilder         *b,
                                      const RlxLossAttrs *attrs,
                                      RlxIrValue         *x,
                                      RlxIrValue         *target,
                                      RlxIrValue         *g);

G_END_DECLS
