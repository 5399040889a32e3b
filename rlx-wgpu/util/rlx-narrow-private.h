/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Floats that are narrower than kernels compute with, as bit patterns, with the results
 * of kernels/common/narrow.wgsl.
 */
#pragma once

#include "util/rlx-data-type-private.h"

G_BEGIN_DECLS

double  rlx_narrow_to_double   (RlxDataType data_type,
                                guint32     bits);
/* To nearest, ties to even; f8e8m0 upwards. What is too large is the largest number of a type
 * of 8 or 4 bits, and infinity in bf16. Infinity is the largest number, too, where there is no
 * infinity; a NaN of f4e2m1 is 0. */
guint32 rlx_narrow_from_double (RlxDataType data_type,
                                double      value);
/* Whether that is not the type's nearest number only because it has none as large, as small
 * or of the kind. */
gboolean rlx_narrow_fits       (RlxDataType data_type,
                                double      value);

G_END_DECLS
