/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Measuring what a table of tuned problems has no answer for, and where it is kept.
 */
#pragma once

#include "rlx-device-private.h"
#include "target/rlx-tuning-private.h"

G_BEGIN_DECLS

#define RLX_TUNING_NOTES "tuning"

/* The stored results for an adapter: empty if there are none, or if they are damaged. */
RlxTuning * rlx_tuning_load    (const RlxGpuAdapterInfo *info);
gboolean    rlx_tuning_store   (RlxTuning               *self,
                                const RlxGpuAdapterInfo *info);

/* Measures those problems of a plan that are missing and take a significant part of its
 * time. *@n_measured are new. */
gboolean    rlx_tuning_measure (RlxTuning       *self,
                                RlxDevice       *device,
                                const RlxTarget *target,
                                const RlxPlan   *plan,
                                guint           *n_measured,
                                GCancellable    *cancellable,
                                GError         **error);

G_END_DECLS
