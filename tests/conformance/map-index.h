/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Operators that move, pick and resize.
 */
#pragma once

#include "map.h"

G_BEGIN_DECLS

/* A WebNN number for an operand of that type. */
gboolean webnn_get_number         (MapCall     *call,
                                   const char  *name,
                                   RlxDataType  data_type,
                                   double       fallback,
                                   double      *value,
                                   GError     **error);

gboolean webnn_map_gather_elements (MapCall *call, GError **error);
gboolean webnn_map_gather_nd       (MapCall *call, GError **error);
gboolean webnn_map_pad             (MapCall *call, GError **error);
gboolean webnn_map_resample        (MapCall *call, GError **error);
gboolean webnn_map_scatter         (MapCall *call, GError **error);
gboolean webnn_map_split           (MapCall *call, GError **error);
gboolean webnn_map_tile            (MapCall *call, GError **error);

gboolean ref_map_scatter_add_rows  (MapCall *call, GError **error);

G_END_DECLS
