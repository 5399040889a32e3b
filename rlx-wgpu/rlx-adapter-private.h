/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "rlx-adapter.h"

#include "gpu/rlx-gpu-private.h"

G_BEGIN_DECLS

/* Takes a reference on @info. */
RlxAdapter *        rlx_adapter_new      (RlxGpuAdapterInfo *info);
/* (transfer none) */
RlxGpuAdapterInfo * rlx_adapter_get_info (RlxAdapter        *self);

G_END_DECLS
