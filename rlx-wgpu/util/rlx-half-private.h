/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * 16-bit floats as bit patterns: IEEE binary16 ("half") and bfloat16.
 *
 * Narrowing rounds to nearest, ties to even, overflows to infinity and keeps
 * subnormals. A NaN stays a NaN of the same sign: it becomes quiet and loses
 * the low bits of its payload. Widening is exact, so narrowing what was widened
 * gives the same pattern back, except that a signalling NaN comes back quiet.
 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

float   rlx_half_to_float      (guint16        half);
guint16 rlx_half_from_float    (float          value);
/* From a double in one rounding; going through float would round twice. */
guint16 rlx_half_from_double   (double         value);
float   rlx_bfloat_to_float    (guint16        bfloat);
guint16 rlx_bfloat_from_float  (float          value);

void    rlx_half_to_floats     (const guint16 *half,
                                float         *values,
                                gsize          n);
void    rlx_half_from_floats   (const float   *values,
                                guint16       *half,
                                gsize          n);
void    rlx_bfloat_to_floats   (const guint16 *bfloat,
                                float         *values,
                                gsize          n);
void    rlx_bfloat_from_floats (const float   *values,
                                guint16       *bfloat,
                                gsize          n);

G_END_DECLS
