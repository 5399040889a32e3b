/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Floats of 16 bits and less that are only stored: what their bits stand for, and the
 * nearest of them, which is looked for among all that there are.
 */
#include "config.h"
#include "rlx-reference-private.h"

#include <math.h>

gboolean
rlx_reference_is_narrow (RlxDataType data_type)
{
  return data_type >= RLX_DATA_TYPE_BF16 && data_type <= RLX_DATA_TYPE_F4E2M1;
}

/* (-1)^sign · 2^(exponent - bias) · 1.fraction, or 0.fraction with the smallest exponent. */
static double
compose (guint bits,
         guint n_exponent,
         guint n_fraction,
         int   bias)
{
  int exponent = (int) (bits >> n_fraction & ((1u << n_exponent) - 1));
  double fraction = (bits & ((1u << n_fraction) - 1)) / (double) (1u << n_fraction);
  double value = exponent == 0 ? fraction * pow (2, 1 - bias) : (1 + fraction) * pow (2, exponent - bias);

  return bits >> (n_exponent + n_fraction) & 1 ? -value : value;
}

double
rlx_reference_decode_narrow (RlxDataType data_type,
                             guint       bits)
{
  switch ((int) data_type)
    {
    case RLX_DATA_TYPE_BF16:
      if ((bits & 0x7f80) == 0x7f80)
        return bits & 0x7f ? NAN : bits & 0x8000 ? -INFINITY : INFINITY;
      return compose (bits, 8, 7, 127);
    case RLX_DATA_TYPE_F8E4M3FN:
      return (bits & 0x7f) == 0x7f ? NAN : compose (bits, 4, 3, 7);
    case RLX_DATA_TYPE_F8E4M3FNUZ:
      return bits == 0x80 ? NAN : compose (bits, 4, 3, 8);
    case RLX_DATA_TYPE_F8E5M2:
      if ((bits & 0x7c) == 0x7c)
        return bits & 3 ? NAN : bits & 0x80 ? -INFINITY : INFINITY;
      return compose (bits, 5, 2, 15);
    case RLX_DATA_TYPE_F8E5M2FNUZ:
      return bits == 0x80 ? NAN : compose (bits, 5, 2, 16);
    case RLX_DATA_TYPE_F8E8M0:
      return bits == 0xff ? NAN : pow (2, (int) bits - 127);
    default:
      return compose (bits, 2, 1, 1);
    }
}

double
rlx_reference_round_narrow (RlxDataType data_type,
                            double      value)
{
  guint n = data_type == RLX_DATA_TYPE_BF16 ? 1 << 15 : data_type == RLX_DATA_TYPE_F8E8M0 ? 1 << 8 : data_type == RLX_DATA_TYPE_F4E2M1 ? 1 << 3 : 1 << 7;
  double size = fabs (value), best = NAN, largest = 0;
  guint low = 0, high = n;

  if (data_type == RLX_DATA_TYPE_F8E8M0)
    {
      if (!isfinite (value))
        return NAN;
      for (guint i = 0; i < 255; i++)
        if (rlx_reference_decode_narrow (data_type, i) >= size)
          return rlx_reference_decode_narrow (data_type, i);
      return 0x1p127;
    }
  if (isnan (value))
    return data_type == RLX_DATA_TYPE_F4E2M1 ? 0 : NAN;
  if (isinf (value) && (data_type == RLX_DATA_TYPE_BF16 || data_type == RLX_DATA_TYPE_F8E5M2))
    return value;

  /* The last of the magnitudes, which are ordered by their bits, that is not larger. */
  while (!isfinite (rlx_reference_decode_narrow (data_type, high - 1)))
    high--;
  largest = rlx_reference_decode_narrow (data_type, high - 1);
  if (data_type == RLX_DATA_TYPE_BF16)
    {
      double last = largest - rlx_reference_decode_narrow (data_type, high - 2);

      if (size >= largest + last / 2)
        return copysign (INFINITY, value);
    }
  if (size >= largest)
    return copysign (largest, value);
  while (high - low > 1)
    {
      guint middle = (low + high) / 2;

      if (rlx_reference_decode_narrow (data_type, middle) <= size)
        low = middle;
      else
        high = middle;
    }
  {
    double below = rlx_reference_decode_narrow (data_type, low), above = rlx_reference_decode_narrow (data_type, low + 1);

    best = size - below < above - size || (size - below == above - size && low % 2 == 0) ? below : above;
  }
  return copysign (best, value);
}
