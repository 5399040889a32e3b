/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Packed weights: those of GGUF files, and the contributed operators of ONNX Runtime.
 */
#pragma once

#include "map.h"
#include "run.h"

G_BEGIN_DECLS

/* A case of packed rows, what they unpack to, and products with them. */
Result   run_packed               (const Case *test,
                                   RlxDevice  *device,
                                   char      **reason);

gboolean onnx_map_matmul_nbits    (MapCall    *call,
                                   GError    **error);
gboolean onnx_map_gather_quantized (MapCall   *call,
                                    GError   **error);

G_END_DECLS
