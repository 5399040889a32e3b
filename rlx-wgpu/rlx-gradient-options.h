/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#if !defined(RLX_INSIDE) && !defined(RLX_COMPILATION)
#error "Only <rlx-wgpu/rlx-wgpu.h> can be included directly."
#endif

#include <rlx-wgpu/rlx-types.h>

G_BEGIN_DECLS

#define RLX_TYPE_GRADIENT_OPTIONS (rlx_gradient_options_get_type ())
RLX_AVAILABLE_IN_1_0
G_DECLARE_FINAL_TYPE (RlxGradientOptions, rlx_gradient_options, RLX, GRADIENT_OPTIONS, GObject)

RLX_AVAILABLE_IN_1_0
RlxGradientOptions * rlx_gradient_options_new              (void) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
RlxNode *            rlx_gradient_options_get_seed         (RlxGradientOptions *self);
RLX_AVAILABLE_IN_1_0
void                 rlx_gradient_options_set_seed         (RlxGradientOptions *self,
                                                            RlxNode            *seed);
RLX_AVAILABLE_IN_1_0
gboolean             rlx_gradient_options_get_allow_unused (RlxGradientOptions *self);
RLX_AVAILABLE_IN_1_0
void                 rlx_gradient_options_set_allow_unused (RlxGradientOptions *self,
                                                            gboolean            allow_unused);
RLX_AVAILABLE_IN_1_0
gboolean             rlx_gradient_options_get_recompute    (RlxGradientOptions *self);
RLX_AVAILABLE_IN_1_0
void                 rlx_gradient_options_set_recompute    (RlxGradientOptions *self,
                                                            gboolean            recompute);
RLX_AVAILABLE_IN_1_0
void                 rlx_gradient_options_add_loss         (RlxGradientOptions *self,
                                                            RlxNode            *loss,
                                                            RlxNode            *seed);

G_END_DECLS
