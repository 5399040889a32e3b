/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Where tensors of the program enter and leave an executable: inputs, outputs,
 * parameters and states.
 */
#pragma once

#include "plan/rlx-plan-private.h"
#include "rlx-tensor.h"

G_BEGIN_DECLS

/* The port with that name, or RLX_GRAPH_ERROR_NOT_FOUND; @what is for the message.
 * @index is nullable. */
const RlxPlanPort * rlx_plan_port_find  (const GArray      *ports,
                                         const char        *what,
                                         const char        *name,
                                         guint             *index,
                                         GError           **error);
/* Whether @tensor has the type that the graph declares. */
gboolean            rlx_plan_port_check (const RlxPlanPort *port,
                                         const char        *what,
                                         RlxTensor         *tensor,
                                         GError           **error);

/* The bytes the device stores for a tensor: 64-bit integers become 32-bit ones,
 * and one that does not fit is RLX_GRAPH_ERROR_LIMIT. @name is for the message. */
GBytes *        rlx_tensor_to_device       (RlxTensor    *tensor,
                                            const char   *name,
                                            GError      **error);
/* The reverse; takes ownership of @data. */
RlxTensor *     rlx_tensor_new_from_device (RlxDataType   data_type,
                                            const gint64 *shape,
                                            guint         n_dims,
                                            gpointer      data,
                                            GError      **error);

G_END_DECLS
