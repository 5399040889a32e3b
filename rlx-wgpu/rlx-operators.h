/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#if !defined(RLX_INSIDE) && !defined(RLX_COMPILATION)
#error "Only <rlx-wgpu/rlx-wgpu.h> can be included directly."
#endif

#include <rlx-wgpu/rlx-types.h>

G_BEGIN_DECLS

RLX_AVAILABLE_IN_1_0
char **    rlx_operators_list     (void);
RLX_AVAILABLE_IN_1_0
GVariant * rlx_operators_describe (const char *name,
                                   GError    **error);

G_END_DECLS
