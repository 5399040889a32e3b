/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#if !defined(RLX_INSIDE) && !defined(RLX_COMPILATION)
#error "Only <rlx-wgpu/rlx-wgpu.h> can be included directly."
#endif

#include <rlx-wgpu/rlx-version-macros.h>

G_BEGIN_DECLS

RLX_AVAILABLE_IN_1_0
guint    rlx_get_major_version (void) G_GNUC_CONST;
RLX_AVAILABLE_IN_1_0
guint    rlx_get_minor_version (void) G_GNUC_CONST;
RLX_AVAILABLE_IN_1_0
guint    rlx_get_micro_version (void) G_GNUC_CONST;
RLX_AVAILABLE_IN_1_0
gboolean rlx_check_version     (guint major,
                                guint minor,
                                guint micro) G_GNUC_CONST;

G_END_DECLS
