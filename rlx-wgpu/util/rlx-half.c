/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "util/rlx-half-private.h"

#include <string.h>

/* Integer arithmetic only: the result must not depend on the rounding mode, on a driver
 * that has set flush-to-zero in this thread, or on whether there is F16C. */

static inline guint32
float_bits (float value)
{
  guint32 bits;

  memcpy (&bits, &value, sizeof bits);

  return bits;
}

static inline float
float_from_bits (guint32 bits)
{
  float value;

  memcpy (&value, &bits, sizeof value);

  return value;
}

/* @value >> @shift, rounded to nearest, ties to even; 1 <= @shift <= 63. The carry may run
 * into the exponent, which is just what rounding up across a power of two (or to infinity)
 * requires. */
static inline guint64
shift_right_even (guint64 value,
                  guint   shift)
{
  guint64 half = (guint64) 1 << (shift - 1);
  guint64 rest = value & (((guint64) 1 << shift) - 1);
  guint64 result = value >> shift;

  if (rest > half || (rest == half && (result & 1) != 0))
    result++;

  return result;
}

float
rlx_half_to_float (guint16 half)
{
  guint32 sign = (guint32) (half & 0x8000) << 16;
  guint32 exponent = (half >> 10) & 0x1f;
  guint32 mantissa = half & 0x3ff;

  if (exponent == 0x1f)
    return float_from_bits (sign | 0x7f800000 | mantissa << 13);

  if (exponent != 0)
    return float_from_bits (sign | (exponent + 127 - 15) << 23 | mantissa << 13);

  if (mantissa == 0)
    return float_from_bits (sign);

  /* A subnormal half is a normal float: move the leading one into place. */
  exponent = 127 - 15 + 1;
  while ((mantissa & 0x400) == 0)
    {
      mantissa <<= 1;
      exponent--;
    }

  return float_from_bits (sign | exponent << 23 | (mantissa & 0x3ff) << 13);
}

/* The common tail of narrowing: @mantissa holds @mantissa_bits bits below the
 * leading one, which it includes when the number is normal, and @exponent is
 * the unbiased exponent. */
static inline guint16
half_pack (guint16 sign,
           gint     exponent,
           guint64  mantissa,
           guint    mantissa_bits)
{
  guint shift = mantissa_bits - 10;

  if (exponent > 15)
    return sign | 0x7c00;

  if (exponent >= -14)
    return sign | (guint16) (((guint64) (exponent + 14) << 10) +
                             shift_right_even (mantissa, shift));

  /* Below half of the smallest subnormal, 2^-25, everything rounds to zero; the
   * tie at exactly 2^-25 goes to the even neighbour, zero, in the shift. */
  if (exponent < -25)
    return sign;

  return sign | (guint16) shift_right_even (mantissa, shift + (guint) (-14 - exponent));
}

guint16
rlx_half_from_float (float value)
{
  guint32 bits = float_bits (value);
  guint16 sign = (guint16) ((bits >> 16) & 0x8000);
  guint32 exponent = (bits >> 23) & 0xff;
  guint32 mantissa = bits & 0x7fffff;

  if (exponent == 0xff)
    return mantissa != 0 ? sign | 0x7e00 | (guint16) (mantissa >> 13) : sign | 0x7c00;

  /* Subnormal floats are far below the smallest half. */
  if (exponent == 0)
    return sign;

  return half_pack (sign, (gint) exponent - 127, mantissa | 0x800000, 23);
}

guint16
rlx_half_from_double (double value)
{
  guint64 bits;
  guint16 sign;
  guint exponent;
  guint64 mantissa;

  memcpy (&bits, &value, sizeof bits);
  sign = (guint16) ((bits >> 48) & 0x8000);
  exponent = (guint) (bits >> 52) & 0x7ff;
  mantissa = bits & G_GUINT64_CONSTANT (0xfffffffffffff);

  if (exponent == 0x7ff)
    return mantissa != 0 ? sign | 0x7e00 | (guint16) (mantissa >> 42) : sign | 0x7c00;

  if (exponent == 0)
    return sign;

  return half_pack (sign, (gint) exponent - 1023,
                    mantissa | G_GUINT64_CONSTANT (0x10000000000000), 52);
}

float
rlx_bfloat_to_float (guint16 bfloat)
{
  return float_from_bits ((guint32) bfloat << 16);
}

guint16
rlx_bfloat_from_float (float value)
{
  guint32 bits = float_bits (value);

  /* Dropping bits could turn a NaN into infinity. */
  if ((bits & 0x7fffffff) > 0x7f800000)
    return (guint16) (bits >> 16) | 0x40;

  return (guint16) shift_right_even (bits, 16);
}

void
rlx_half_to_floats (const guint16 *half,
                    float         *values,
                    gsize          n)
{
  for (gsize i = 0; i < n; i++)
    values[i] = rlx_half_to_float (half[i]);
}

void
rlx_half_from_floats (const float *values,
                      guint16     *half,
                      gsize        n)
{
  for (gsize i = 0; i < n; i++)
    half[i] = rlx_half_from_float (values[i]);
}

void
rlx_bfloat_to_floats (const guint16 *bfloat,
                      float         *values,
                      gsize          n)
{
  for (gsize i = 0; i < n; i++)
    values[i] = rlx_bfloat_to_float (bfloat[i]);
}

void
rlx_bfloat_from_floats (const float *values,
                        guint16     *bfloat,
                        gsize        n)
{
  for (gsize i = 0; i < n; i++)
    bfloat[i] = rlx_bfloat_from_float (values[i]);
}
