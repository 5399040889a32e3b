/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include <rlx-wgpu/rlx-tokenizer.h>

G_BEGIN_DECLS

/* Pads a text that is shorter than others: any token will do. */
gint rlx_tokenizer_get_padding (RlxTokenizer *self);

G_END_DECLS
