/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Attention and rotary positions of every family.
 */
#pragma once

#include "map.h"

G_BEGIN_DECLS

gboolean onnx_map_attention            (MapCall *call,
                                        GError **error);
gboolean onnx_map_rotary_embedding     (MapCall *call,
                                        GError **error);

/* ONNX Runtime's own. */
gboolean ort_map_attention             (MapCall *call,
                                        GError **error);
gboolean ort_map_multi_head_attention  (MapCall *call,
                                        GError **error);
gboolean ort_map_group_query_attention (MapCall *call,
                                        GError **error);
gboolean ort_map_rotary_embedding      (MapCall *call,
                                        GError **error);

gboolean ref_map_rope                  (MapCall *call,
                                        GError **error);

G_END_DECLS
