/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "rlx-optimizer-options.h"

G_BEGIN_DECLS

typedef struct
{
  RlxOptimizer algorithm;
  double learning_rate;
  double momentum;
  gboolean nesterov;
  double beta1;
  double beta2;
  double epsilon;
  double weight_decay;
  double clip_norm;
  double clip_value;
  gboolean skip_not_finite;
  gboolean scale_loss;
  gboolean recompute;
  guint accumulate;
} RlxOptimizerSettings;

const RlxOptimizerSettings * rlx_optimizer_options_peek (RlxOptimizerOptions *self);

G_END_DECLS
