/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#if !defined(RLX_INSIDE) && !defined(RLX_COMPILATION)
#error "Only <rlx-wgpu/rlx-wgpu.h> can be included directly."
#endif

#include <rlx-wgpu/rlx-types.h>

G_BEGIN_DECLS

#define RLX_TYPE_OPTIMIZER_OPTIONS (rlx_optimizer_options_get_type ())
RLX_AVAILABLE_IN_1_0
G_DECLARE_FINAL_TYPE (RlxOptimizerOptions, rlx_optimizer_options, RLX, OPTIMIZER_OPTIONS, GObject)

RLX_AVAILABLE_IN_1_0
RlxOptimizerOptions * rlx_optimizer_options_new (void) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
RlxOptimizer rlx_optimizer_options_get_algorithm (RlxOptimizerOptions *self);
RLX_AVAILABLE_IN_1_0
void rlx_optimizer_options_set_algorithm (RlxOptimizerOptions *self,
                                    RlxOptimizer algorithm);
RLX_AVAILABLE_IN_1_0
double rlx_optimizer_options_get_learning_rate (RlxOptimizerOptions *self);
RLX_AVAILABLE_IN_1_0
void rlx_optimizer_options_set_learning_rate (RlxOptimizerOptions *self,
                                    double learning_rate);
RLX_AVAILABLE_IN_1_0
double rlx_optimizer_options_get_momentum (RlxOptimizerOptions *self);
RLX_AVAILABLE_IN_1_0
void rlx_optimizer_options_set_momentum (RlxOptimizerOptions *self,
                                    double momentum);
RLX_AVAILABLE_IN_1_0
gboolean rlx_optimizer_options_get_nesterov (RlxOptimizerOptions *self);
RLX_AVAILABLE_IN_1_0
void rlx_optimizer_options_set_nesterov (RlxOptimizerOptions *self,
                                    gboolean nesterov);
RLX_AVAILABLE_IN_1_0
double rlx_optimizer_options_get_beta1 (RlxOptimizerOptions *self);
RLX_AVAILABLE_IN_1_0
void rlx_optimizer_options_set_beta1 (RlxOptimizerOptions *self,
                                    double beta1);
RLX_AVAILABLE_IN_1_0
double rlx_optimizer_options_get_beta2 (RlxOptimizerOptions *self);
RLX_AVAILABLE_IN_1_0
void rlx_optimizer_options_set_beta2 (RlxOptimizerOptions *self,
                                    double beta2);
RLX_AVAILABLE_IN_1_0
double rlx_optimizer_options_get_epsilon (RlxOptimizerOptions *self);
RLX_AVAILABLE_IN_1_0
void rlx_optimizer_options_set_epsilon (RlxOptimizerOptions *self,
                                    double epsilon);
RLX_AVAILABLE_IN_1_0
double rlx_optimizer_options_get_weight_decay (RlxOptimizerOptions *self);
RLX_AVAILABLE_IN_1_0
void rlx_optimizer_options_set_weight_decay (RlxOptimizerOptions *self,
                                    double weight_decay);
RLX_AVAILABLE_IN_1_0
double rlx_optimizer_options_get_clip_norm (RlxOptimizerOptions *self);
RLX_AVAILABLE_IN_1_0
void rlx_optimizer_options_set_clip_norm (RlxOptimizerOptions *self,
                                    double clip_norm);
RLX_AVAILABLE_IN_1_0
double rlx_optimizer_options_get_clip_value (RlxOptimizerOptions *self);
RLX_AVAILABLE_IN_1_0
void rlx_optimizer_options_set_clip_value (RlxOptimizerOptions *self,
                                    double clip_value);
RLX_AVAILABLE_IN_1_0
gboolean rlx_optimizer_options_get_skip_not_finite (RlxOptimizerOptions *self);
RLX_AVAILABLE_IN_1_0
void rlx_optimizer_options_set_skip_not_finite (RlxOptimizerOptions *self,
                                    gboolean skip_not_finite);
RLX_AVAILABLE_IN_1_0
gboolean rlx_optimizer_options_get_scale_loss (RlxOptimizerOptions *self);
RLX_AVAILABLE_IN_1_0
void rlx_optimizer_options_set_scale_loss (RlxOptimizerOptions *self,
                                    gboolean scale_loss);
RLX_AVAILABLE_IN_1_0
gboolean rlx_optimizer_options_get_recompute (RlxOptimizerOptions *self);
RLX_AVAILABLE_IN_1_0
void rlx_optimizer_options_set_recompute (RlxOptimizerOptions *self,
                                    gboolean recompute);
RLX_AVAILABLE_IN_1_0
guint rlx_optimizer_options_get_accumulate (RlxOptimizerOptions *self);
RLX_AVAILABLE_IN_1_0
void rlx_optimizer_options_set_accumulate (RlxOptimizerOptions *self,
                                    guint accumulate);
RLX_AVAILABLE_IN_1_0
RlxNode * rlx_optimizer_options_get_rate (RlxOptimizerOptions *self);
RLX_AVAILABLE_IN_1_0
void rlx_optimizer_options_set_rate (RlxOptimizerOptions *self,
                                     RlxNode             *rate);

G_END_DECLS
