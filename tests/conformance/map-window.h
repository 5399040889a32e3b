/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Convolutions and pools of WebNN and of the reference vectors.
 */
#pragma once

#include "map.h"

G_BEGIN_DECLS

gboolean webnn_map_conv           (MapCall *call,
                                   GError **error);
gboolean webnn_map_conv_transpose (MapCall *call,
                                   GError **error);
gboolean webnn_map_pool           (MapCall *call,
                                   GError **error);

gboolean ref_map_conv             (MapCall *call,
                                   GError **error);
gboolean ref_map_pool             (MapCall *call,
                                   GError **error);

G_END_DECLS
