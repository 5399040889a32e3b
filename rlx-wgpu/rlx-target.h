/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#if !defined(RLX_INSIDE) && !defined(RLX_COMPILATION)
#error "Only <rlx-wgpu/rlx-wgpu.h> can be included directly."
#endif

#include <rlx-wgpu/rlx-types.h>
#include <rlx-wgpu/rlx-compile-options.h>

G_BEGIN_DECLS

RLX_AVAILABLE_IN_1_0
char **    rlx_targets_list     (void) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
GVariant * rlx_targets_describe (const char *name,
                                 GError    **error) G_GNUC_WARN_UNUSED_RESULT;

RLX_AVAILABLE_IN_1_0
GVariant * rlx_graph_plan_for   (RlxGraph          *self,
                                 const char        *target,
                                 RlxCompileOptions *options,
                                 GError           **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_AVAILABLE_IN_1_0
char *     rlx_graph_describe_plan_for (RlxGraph          *self,
                                        const char        *target,
                                        RlxCompileOptions *options,
                                        GError           **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
