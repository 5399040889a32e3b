/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Variants that are wrong on an adapter, besides those that calibration finds by itself. They
 * are stored separately: they may be known before a calibration, and outlive it.
 */
#pragma once

#include "gpu/rlx-gpu-private.h"

G_BEGIN_DECLS

/* Bits, by family and row: zeros if nothing is stored, or if it was stored by another build. */
void     rlx_bans_load   (const RlxGpuAdapterInfo *info,
                          guint32                 *banned);
/* The same as names, "family/variant". */
char **  rlx_bans_list   (const RlxGpuAdapterInfo *info);
/* Adds one, by the names of its family and variant. */
gboolean rlx_bans_store  (const RlxGpuAdapterInfo *info,
                          const char              *family,
                          const char              *variant,
                          GError                 **error);
gboolean rlx_bans_remove (const RlxGpuAdapterInfo *info,
                          GError                 **error);

G_END_DECLS
