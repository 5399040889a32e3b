/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Whether a result is near enough to what a case expects.
 */
#pragma once

#include <rlx-wgpu/rlx-wgpu.h>

G_BEGIN_DECLS

typedef enum
{
  TOLERANCE_ULP,
  TOLERANCE_ATOL,
  TOLERANCE_RTOL_ATOL,
} ToleranceKind;

typedef struct
{
  ToleranceKind kind;
  double value;    /* ULP: units; ATOL: absolute */
  double rtol;
  double atol;
} Tolerance;

/* The distance between two bit patterns read as ordered sign-magnitude integers: the
 * number of representable values between them, where +0 and -0 are the same. */
guint64  ulp_distance_f32 (guint32 a,
                           guint32 b);
guint64  ulp_distance_f16 (guint16 a,
                           guint16 b);

guint16  half_from_double (double value);
double   half_to_double   (guint16 bits);

/* Compares the first @n_elements. Returns NULL if all are within the tolerance, otherwise
 * a sentence about the first element that is not. */
char *   compare_elements (RlxDataType      data_type,
                           gconstpointer    got,
                           gconstpointer    want,
                           gsize            n_elements,
                           const Tolerance *tolerance);

G_END_DECLS
