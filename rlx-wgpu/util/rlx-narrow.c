/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "util/rlx-narrow-private.h"

#include <math.h>

typedef enum
{
  SPECIAL_NONE,
  SPECIAL_IEEE,        /* the largest exponent is for infinity and NaN */
  SPECIAL_LAST,        /* the largest magnitude is NaN */
  SPECIAL_MINUS_ZERO,  /* -0 is NaN */
} Special;

typedef struct
{
  int exponent;        /* bits */
  int fraction;
  int bias;
  Special special;
  guint32 largest;     /* the bits of the largest number */
} Format;

static const Format formats[] = {
  [RLX_DATA_TYPE_BF16 - RLX_DATA_TYPE_BF16] = { 8, 7, 127, SPECIAL_IEEE, 0x7f7f },
  [RLX_DATA_TYPE_F8E4M3FN - RLX_DATA_TYPE_BF16] = { 4, 3, 7, SPECIAL_LAST, 0x7e },
  [RLX_DATA_TYPE_F8E4M3FNUZ - RLX_DATA_TYPE_BF16] = { 4, 3, 8, SPECIAL_MINUS_ZERO, 0x7f },
  [RLX_DATA_TYPE_F8E5M2 - RLX_DATA_TYPE_BF16] = { 5, 2, 15, SPECIAL_IEEE, 0x7b },
  [RLX_DATA_TYPE_F8E5M2FNUZ - RLX_DATA_TYPE_BF16] = { 5, 2, 16, SPECIAL_MINUS_ZERO, 0x7f },
  [RLX_DATA_TYPE_F8E8M0 - RLX_DATA_TYPE_BF16] = { 8, 0, 127, SPECIAL_NONE, 0xfe },
  [RLX_DATA_TYPE_F4E2M1 - RLX_DATA_TYPE_BF16] = { 2, 1, 1, SPECIAL_NONE, 0x7 },
};

double
rlx_narrow_to_double (RlxDataType data_type,
                      guint32     bits)
{
  const Format *format = &formats[data_type - RLX_DATA_TYPE_BF16];
  guint32 sign = bits >> (format->exponent + format->fraction) & 1;
  guint32 size = bits & ((1u << (format->exponent + format->fraction)) - 1);
  int exponent = (int) (size >> format->fraction);
  int fraction = (int) (size & ((1u << format->fraction) - 1));
  double value;

  if (data_type == RLX_DATA_TYPE_F8E8M0)
    return bits == 0xff ? NAN : ldexp (1, (int) bits - 127);
  if (format->special == SPECIAL_MINUS_ZERO && sign && size == 0)
    return NAN;
  if (format->special == SPECIAL_LAST && size > format->largest)
    return NAN;
  if (format->special == SPECIAL_IEEE && size > format->largest)
    return fraction != 0 ? NAN : sign ? -INFINITY : INFINITY;
  value = exponent == 0 ? ldexp (fraction, 1 - format->bias - format->fraction)
                        : ldexp (fraction + (1 << format->fraction), exponent - format->bias - format->fraction);
  return sign ? -value : value;
}

guint32
rlx_narrow_from_double (RlxDataType data_type,
                        double      value)
{
  const Format *format = &formats[data_type - RLX_DATA_TYPE_BF16];
  guint32 sign = signbit (value) ? 1u << (format->exponent + format->fraction) : 0, bits;
  double size = fabs (value), quantum, rounded;
  int exponent;

  if (data_type == RLX_DATA_TYPE_F8E8M0)
    {
      /* size is fraction * 2^exponent with a fraction in [1/2, 1) */
      double fraction = frexp (size, &exponent);

      if (!isfinite (value))
        return 0xff;
      return size == 0 ? 0 : (guint32) CLAMP (exponent + 126 + (fraction > 0.5), 0, 254);
    }
  if (isnan (value))
    switch (format->special)
      {
      case SPECIAL_IEEE: return sign | ((1u << format->exponent) - 1) << format->fraction | 1u << (format->fraction - 1);
      case SPECIAL_LAST: return sign | (format->largest + 1);
      case SPECIAL_MINUS_ZERO: return 1u << (format->exponent + format->fraction);
      case SPECIAL_NONE:
      default: return 0;
      }
  if (isinf (value))
    return sign | (format->special == SPECIAL_IEEE ? ((1u << format->exponent) - 1) << format->fraction : format->largest);

  frexp (size, &exponent);
  exponent = size == 0 ? 1 - format->bias : MAX (exponent - 1, 1 - format->bias);
  quantum = ldexp (1, exponent - format->fraction);
  rounded = rint (size / quantum);
  /* A carry continues into the exponent. */
  if (exponent + format->bias >= 1 << format->exponent || exponent > 200)
    bits = G_MAXUINT32;
  else
    bits = (guint32) rounded + (guint32) ((exponent + format->bias - 1) << format->fraction);
  if (bits > format->largest)
    bits = data_type == RLX_DATA_TYPE_BF16 ? 0x7f80 : format->largest;
  if (bits == 0 && format->special == SPECIAL_MINUS_ZERO)
    return 0;
  return sign | bits;
}

gboolean
rlx_narrow_fits (RlxDataType data_type,
                 double      value)
{
  const Format *format = &formats[data_type - RLX_DATA_TYPE_BF16];
  double largest = rlx_narrow_to_double (data_type, format->largest), before = rlx_narrow_to_double (data_type, format->largest - 1);
  double beyond = largest + (largest - before) / 2;

  if (data_type == RLX_DATA_TYPE_F8E8M0)
    return isnan (value) || (value >= 0x1p-127 && value <= 0x1p127);
  if (isnan (value))
    return format->special != SPECIAL_NONE;
  if (isinf (value))
    return format->special == SPECIAL_IEEE;
  /* A tie between the largest number and what would come next rounds to even. */
  return (format->largest & 1) != 0 ? fabs (value) < beyond : fabs (value) <= beyond;
}
