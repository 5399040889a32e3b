/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Attention whose operands and result do not all have the same layout.
 */
#pragma once

#include "ops/rlx-kernel-private.h"

G_BEGIN_DECLS

/* Which of them have their heads and their sequence the other way round: the
 * attribute `swapped` of mixed_attention. */
enum
{
  RLX_ATTENTION_SWAPPED_QUERY = 1 << 0,
  RLX_ATTENTION_SWAPPED_KEY = 1 << 1,
  RLX_ATTENTION_SWAPPED_VALUE = 1 << 2,
  RLX_ATTENTION_SWAPPED_RESULT = 1 << 3,
  RLX_ATTENTION_SWAPPED_ALL = (1 << 4) - 1,
};

G_END_DECLS
