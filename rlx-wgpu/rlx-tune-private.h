/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Measuring what a table of tuned shapes has no answer for, and where it is kept.
 */
#pragma once

#include "gpu/rlx-gpu-private.h"
#include "rlx-device.h"
#include "target/rlx-tuning-private.h"

G_BEGIN_DECLS

#define RLX_TUNING_NOTES "tuning"

/* What is stored for an adapter: empty when nothing is, or when it is damaged. */
RlxTuning * rlx_tuning_load         (const RlxGpuAdapterInfo *info);
gboolean    rlx_tuning_store        (RlxTuning               *self,
                                     const RlxGpuAdapterInfo *info);

/* Measures what is missing and matters to a graph that takes @seconds in all, and
 * forgets what else is missing. *@n_measured are new. */
gboolean    rlx_tuning_measure      (RlxTuning       *self,
                                     RlxDevice       *device,
                                     const RlxSpeeds *speeds,
                                     double           seconds,
                                     guint           *n_measured,
                                     GCancellable    *cancellable,
                                     GError         **error);

G_END_DECLS
