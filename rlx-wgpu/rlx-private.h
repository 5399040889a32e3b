/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What the overrides and the command `rlx` need and no program should have: addresses as
 * numbers, with which a script can crash, and which kernels are wrong. It is in a typelib of its own, RlxPrivate, and in no
 * installed header; it may change at any time.
 */
#pragma once

#include <rlx-wgpu/rlx-adapter.h>
#include <rlx-wgpu/rlx-tensor.h>

G_BEGIN_DECLS

RLX_API
RlxTensor * rlx_private_tensor_new_from_address (RlxDataType   data_type,
                                                 const gint64 *shape,
                                                 gsize         n_dims,
                                                 guintptr      address,
                                                 gsize         size,
                                                 GError      **error) G_GNUC_WARN_UNUSED_RESULT;
RLX_API
guintptr    rlx_private_tensor_get_address      (RlxTensor    *tensor);
RLX_API
gboolean    rlx_private_adapter_ban             (RlxAdapter   *adapter,
                                                 const char   *family,
                                                 const char   *variant,
                                                 GError      **error);
RLX_API
char **     rlx_private_adapter_list_bans       (RlxAdapter   *adapter);

G_END_DECLS
