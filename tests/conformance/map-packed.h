/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Packed weights, those of GGUF files.
 */
#pragma once

#include "map.h"
#include "run.h"

G_BEGIN_DECLS

/* A case of packed rows, their unpacked values, and products with them. */
Result   run_packed               (const Case *test,
                                   RlxDevice  *device,
                                   char      **reason);

G_END_DECLS
