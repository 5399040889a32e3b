/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Floats that are narrower than those that kernels compute with, as bit patterns. Results are
 * the same as in kernels/common/narrow.wgsl.
 */
#pragma once

#include "util/rlx-data-type-private.h"

G_BEGIN_DECLS

double  rlx_narrow_to_double   (RlxDataType data_type,
                                guint32     bits);
/* To nearest, ties to even; f8e8m0 upwards. Numbers that are too large become the largest
 * number of an 8-bit or 4-bit type, and infinity in bf16. Infinity also becomes the largest
 * number if the type has no infinity; NaN becomes 0 in f4e2m1. */
guint32 rlx_narrow_from_double (RlxDataType data_type,
                                double      value);
/* Whether the value is too large or too small for the type, or of a kind (infinity, NaN)
 * that it does not have. */
gboolean rlx_narrow_fits       (RlxDataType data_type,
                                double      value);

G_END_DECLS
