/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What runs find out for the library itself: indices and integers that did not fit, for
 * an error of the run, and what values there were, for the log.
 */
#pragma once

#include "rlx-executable-private.h"

G_BEGIN_DECLS

/* How many bytes a run reads back for reports. */
gsize    rlx_reports_get_size       (const RlxPlan *plan);
/* Adds them to what a run reads back. */
void     rlx_reports_fill_downloads (RlxExecutable *self,
                                     RlxGpuJob     *job);
/* FALSE with the error of the first node, in the order of the graph, whose check
 * failed. */
gboolean rlx_reports_read           (RlxExecutable *self,
                                     GError       **error);

G_END_DECLS
