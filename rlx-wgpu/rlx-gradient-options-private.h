/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "rlx-gradient-options.h"

G_BEGIN_DECLS

typedef struct
{
  RlxNode *loss;
  RlxNode *seed;   /* nullable */
} RlxMoreLoss;

/* Those that were added; RlxMoreLoss. */
const GArray * rlx_gradient_options_peek_losses (RlxGradientOptions *self);

G_END_DECLS
