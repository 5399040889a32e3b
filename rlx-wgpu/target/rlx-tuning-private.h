/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The fastest variant for a problem, if somebody asked for it to be measured. Both are
 * strings: the family and the problem as its table prints it, and the name of a row.
 */
#pragma once

#include "target/rlx-target-private.h"

G_BEGIN_DECLS

typedef struct _RlxTuning RlxTuning;

RlxTuning *  rlx_tuning_new            (void);
RlxTuning *  rlx_tuning_copy           (RlxTuning *self);
void         rlx_tuning_free           (RlxTuning *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (RlxTuning, rlx_tuning_free)

#define RLX_TUNING_MAX_PROBLEMS 1024
GBytes *     rlx_tuning_to_bytes       (RlxTuning *self);
/* NULL for anything that rlx_tuning_to_bytes() did not write. */
RlxTuning *  rlx_tuning_from_bytes     (GBytes *bytes);
guint        rlx_tuning_get_n_problems (RlxTuning *self);

/* @variant is nullable; NULL forgets the problem. */
void         rlx_tuning_set            (RlxTuning  *self,
                                        const char *problem,
                                        const char *variant);
/* NULL: not measured. */
const char * rlx_tuning_look_up        (RlxTuning  *self,
                                        const char *problem);

G_END_DECLS
