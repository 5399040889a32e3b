/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#if !defined(RLX_INSIDE) && !defined(RLX_COMPILATION)
#error "Only <rlx-wgpu/rlx-wgpu.h> can be included directly."
#endif

#include <rlx-wgpu/rlx-types.h>

G_BEGIN_DECLS

#define RLX_TYPE_NODE (rlx_node_get_type ())
RLX_AVAILABLE_IN_1_0
G_DECLARE_FINAL_TYPE (RlxNode, rlx_node, RLX, NODE, GObject)

RLX_AVAILABLE_IN_1_0
const char *   rlx_node_get_op         (RlxNode     *self);
RLX_AVAILABLE_IN_1_0
const char *   rlx_node_get_name       (RlxNode     *self);
RLX_AVAILABLE_IN_1_0
void           rlx_node_set_name       (RlxNode     *self,
                                        const char  *name);
RLX_AVAILABLE_IN_1_0
RlxDataType    rlx_node_get_data_type  (RlxNode     *self);
RLX_AVAILABLE_IN_1_0
guint          rlx_node_get_n_dims     (RlxNode     *self);
RLX_AVAILABLE_IN_1_0
const gint64 * rlx_node_get_shape      (RlxNode     *self,
                                        gsize       *n_dims);
RLX_AVAILABLE_IN_1_0
RlxNode **     rlx_node_get_inputs     (RlxNode     *self,
                                        gsize       *n_inputs);
RLX_AVAILABLE_IN_1_0
GVariant *     rlx_node_get_attributes (RlxNode     *self);
RLX_AVAILABLE_IN_1_0
RlxTensor *    rlx_node_get_tensor     (RlxNode     *self);
RLX_AVAILABLE_IN_1_0
guint          rlx_node_get_result     (RlxNode     *self);
RLX_AVAILABLE_IN_1_0
RlxGraph *     rlx_node_get_graph      (RlxNode     *self);
RLX_AVAILABLE_IN_1_0
char *         rlx_node_to_string      (RlxNode     *self);

G_END_DECLS
