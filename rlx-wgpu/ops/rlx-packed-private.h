/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "rlx-types.h"

G_BEGIN_DECLS

/* How many numbers of a row are packed together, and into how many bytes. */
void rlx_packed_type_get_block (RlxPackedType  type,
                                guint         *numbers,
                                guint         *bytes);

G_END_DECLS
