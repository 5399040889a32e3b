/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Quantisation of WebNN.
 */
#pragma once

#include "map.h"

G_BEGIN_DECLS

gboolean webnn_map_quantize (MapCall *call,
                             GError **error);

G_END_DECLS
