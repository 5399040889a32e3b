/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "import/rlx-import-private.h"
#include "rlx-model.h"

G_BEGIN_DECLS

/* The graph for tensors that the inputs of those names are to have, of which those of
 * @known are constants. Names of inputs that would have to be known, too, are added to
 * @needed. */
RlxGraph *    rlx_model_specialise (RlxModel     *self,
                                    GHashTable   *tensors,
                                    GHashTable   *known,
                                    GHashTable   *needed,
                                    GCancellable *cancellable,
                                    GError      **error);
/* Changes when an input is fixed. */
guint         rlx_model_get_serial (RlxModel     *self);
/* NULL when there is none, or it is fixed. */
RlxModelPort *rlx_model_find_input (RlxModel     *self,
                                    const char   *name);

G_END_DECLS
