/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What was compiled for single operators.
 */
#pragma once

#include "rlx-device-private.h"

G_BEGIN_DECLS

typedef struct _RlxApplyCache RlxApplyCache;

RlxApplyCache * rlx_apply_cache_new        (void);
void            rlx_apply_cache_free       (RlxApplyCache *self);
/* The number of entries. */
guint           rlx_apply_cache_get_length (RlxApplyCache *self);

/* rlx-device.c */
RlxApplyCache * rlx_device_get_apply_cache (RlxDevice     *self);

/* rlx-executable.c: drops the reference to the device, which must outlive any use of
 * the executable. */
void            rlx_executable_borrow_device (RlxExecutable *self);

G_END_DECLS
