/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Norms of WebNN.
 */
#pragma once

#include "map.h"

G_BEGIN_DECLS

gboolean webnn_map_batch_norm          (MapCall *call,
                                        GError **error);
gboolean webnn_map_instance_norm       (MapCall *call,
                                        GError **error);

G_END_DECLS
