/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "plan/rlx-plan-private.h"
#include "rlx-port.h"

G_BEGIN_DECLS

/* An immutable list of RlxPort. @ports contains RlxPlanPort. */
GListModel *rlx_port_list_new (const GArray *ports);

G_END_DECLS
