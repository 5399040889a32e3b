/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#if !defined(RLX_INSIDE) && !defined(RLX_COMPILATION)
#error "Only <rlx-wgpu/rlx-wgpu.h> can be included directly."
#endif

#include <rlx-wgpu/rlx-types.h>

G_BEGIN_DECLS

#define RLX_TYPE_PORT (rlx_port_get_type ())
RLX_AVAILABLE_IN_1_0
G_DECLARE_FINAL_TYPE (RlxPort, rlx_port, RLX, PORT, GObject)

#define RLX_TYPE_PORT_LIST (rlx_port_list_get_type ())
RLX_AVAILABLE_IN_1_0
G_DECLARE_FINAL_TYPE (RlxPortList, rlx_port_list, RLX, PORT_LIST, GObject)

RLX_AVAILABLE_IN_1_0
const char *   rlx_port_get_name      (RlxPort *self);
RLX_AVAILABLE_IN_1_0
RlxDataType    rlx_port_get_data_type (RlxPort *self);
RLX_AVAILABLE_IN_1_0
guint          rlx_port_get_n_dims    (RlxPort *self);
RLX_AVAILABLE_IN_1_0
const gint64 * rlx_port_get_shape     (RlxPort *self,
                                       gsize   *n_dims);
RLX_AVAILABLE_IN_1_0
char *         rlx_port_to_string     (RlxPort *self);

G_END_DECLS
