/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#if !defined(RLX_INSIDE) && !defined(RLX_COMPILATION)
#error "Only <rlx-wgpu/rlx-wgpu.h> can be included directly."
#endif

#include <rlx-wgpu/rlx-types.h>

G_BEGIN_DECLS

#define RLX_TYPE_PROFILE (rlx_profile_get_type ())
RLX_AVAILABLE_IN_1_0
G_DECLARE_FINAL_TYPE (RlxProfile, rlx_profile, RLX, PROFILE, GObject)

#define RLX_TYPE_PROFILE_STEP (rlx_profile_step_get_type ())
RLX_AVAILABLE_IN_1_0
G_DECLARE_FINAL_TYPE (RlxProfileStep, rlx_profile_step, RLX, PROFILE_STEP, GObject)

RLX_AVAILABLE_IN_1_0
double       rlx_profile_get_total_time  (RlxProfile     *self);
RLX_AVAILABLE_IN_1_0
double       rlx_profile_get_wall_time   (RlxProfile     *self);
RLX_AVAILABLE_IN_1_0
char *       rlx_profile_to_string       (RlxProfile     *self);

RLX_AVAILABLE_IN_1_0
const char * rlx_profile_step_get_op     (RlxProfileStep *self);
RLX_AVAILABLE_IN_1_0
const char * rlx_profile_step_get_kernel (RlxProfileStep *self);
RLX_AVAILABLE_IN_1_0
const char * rlx_profile_step_get_node   (RlxProfileStep *self);
RLX_AVAILABLE_IN_1_0
double       rlx_profile_step_get_time   (RlxProfileStep *self);
RLX_AVAILABLE_IN_1_0
double       rlx_profile_step_get_operations (RlxProfileStep *self);
RLX_AVAILABLE_IN_1_0
double       rlx_profile_step_get_bytes  (RlxProfileStep *self);

G_END_DECLS
