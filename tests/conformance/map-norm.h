/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Norms and gates of WebNN and ONNX.
 */
#pragma once

#include "map.h"

G_BEGIN_DECLS

gboolean webnn_map_batch_norm          (MapCall *call,
                                        GError **error);
gboolean webnn_map_instance_norm       (MapCall *call,
                                        GError **error);
gboolean onnx_map_batch_norm           (MapCall *call,
                                        GError **error);
gboolean onnx_map_instance_norm        (MapCall *call,
                                        GError **error);
gboolean onnx_map_group_norm           (MapCall *call,
                                        GError **error);
gboolean onnx_map_ms_group_norm        (MapCall *call,
                                        GError **error);
gboolean onnx_map_skip_norm            (MapCall *call,
                                        GError **error);
gboolean onnx_map_bias_split_gelu      (MapCall *call,
                                        GError **error);
gboolean onnx_map_image_scaler         (MapCall *call,
                                        GError **error);
gboolean onnx_map_mean_variance        (MapCall *call,
                                        GError **error);
gboolean onnx_map_local_response       (MapCall *call,
                                        GError **error);

G_END_DECLS
