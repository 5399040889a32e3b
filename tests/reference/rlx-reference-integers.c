/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Operators on integers. Operands are what their type can hold, results of any
 * size: the caller wraps them. Where they could leave 64 bits they are computed
 * modulo 2⁶⁴, of which narrower types are a part.
 */
#include "config.h"
#include "rlx-reference-private.h"

#include <math.h>

guint
rlx_reference_get_bits (RlxDataType data_type)
{
  switch (data_type)
    {
    case RLX_DATA_TYPE_I8:
    case RLX_DATA_TYPE_U8:
      return 8;
    case RLX_DATA_TYPE_I32:
    case RLX_DATA_TYPE_U32:
    case RLX_DATA_TYPE_I64:
    case RLX_DATA_TYPE_U64:
      return 32;
    case RLX_DATA_TYPE_I16:
    case RLX_DATA_TYPE_U16:
      return 16;
    case RLX_DATA_TYPE_I4:
    case RLX_DATA_TYPE_U4:
      return 4;
    case RLX_DATA_TYPE_I2:
    case RLX_DATA_TYPE_U2:
      return 2;
    case RLX_DATA_TYPE_BOOL:
      return 1;
    case RLX_DATA_TYPE_F32:
    case RLX_DATA_TYPE_F16:
    case RLX_DATA_TYPE_BF16:
    case RLX_DATA_TYPE_F8E4M3FN:
    case RLX_DATA_TYPE_F8E4M3FNUZ:
    case RLX_DATA_TYPE_F8E5M2:
    case RLX_DATA_TYPE_F8E5M2FNUZ:
    case RLX_DATA_TYPE_F8E8M0:
    case RLX_DATA_TYPE_F4E2M1:
    default:
      g_return_val_if_reached (0);
    }
}

gboolean
rlx_reference_is_float (RlxDataType data_type)
{
  return data_type == RLX_DATA_TYPE_F32 || data_type == RLX_DATA_TYPE_F16 || rlx_reference_is_narrow (data_type);
}

static gboolean
is_signed (RlxDataType data_type)
{
  return data_type == RLX_DATA_TYPE_I32 || data_type == RLX_DATA_TYPE_I8 || data_type == RLX_DATA_TYPE_I64 || data_type == RLX_DATA_TYPE_I4 ||
         data_type == RLX_DATA_TYPE_I16 || data_type == RLX_DATA_TYPE_I2;
}

void
rlx_reference_get_range (RlxDataType  data_type,
                         gint64      *least,
                         gint64      *greatest)
{
  guint bits = rlx_reference_get_bits (data_type);

  if (is_signed (data_type))
    {
      *least = -(G_GINT64_CONSTANT (1) << (bits - 1));
      *greatest = -*least - 1;
    }
  else
    {
      *least = 0;
      *greatest = (G_GINT64_CONSTANT (1) << bits) - 1;
    }
}

gint64
rlx_reference_wrap (RlxDataType data_type,
                    gint64      value)
{
  guint bits = rlx_reference_get_bits (data_type);
  gint64 range = G_GINT64_CONSTANT (1) << bits;
  gint64 rest = value % range;

  if (data_type == RLX_DATA_TYPE_BOOL)
    return value != 0;
  if (rest < 0)
    rest += range;
  if (is_signed (data_type) && rest >= range / 2)
    rest -= range;

  return rest;
}

gint64
rlx_reference_add_i (const gint64                           *x,
                     const RlxReferenceParams *params G_GNUC_UNUSED)
{
  return x[0] + x[1];
}

gint64
rlx_reference_sub_i (const gint64                           *x,
                     const RlxReferenceParams *params G_GNUC_UNUSED)
{
  return x[0] - x[1];
}

gint64
rlx_reference_mul_i (const gint64                           *x,
                     const RlxReferenceParams *params G_GNUC_UNUSED)
{
  return (gint64) ((guint64) x[0] * (guint64) x[1]);
}

gint64
rlx_reference_div_i (const gint64                           *x,
                     const RlxReferenceParams *params G_GNUC_UNUSED)
{
  return x[1] == 0 ? 0 : x[0] / x[1];
}

gint64
rlx_reference_pow_i (const gint64                           *x,
                     const RlxReferenceParams *params G_GNUC_UNUSED)
{
  guint64 power = (guint64) x[0], result = 1;

  if (x[1] < 0)
    {
      if (x[0] == 1)
        return 1;
      if (x[0] == -1)
        return x[1] % 2 == 0 ? 1 : -1;
      return 0;
    }

  for (gint64 rest = x[1]; rest > 0; rest /= 2)
    {
      if (rest % 2 == 1)
        result *= power;
      power *= power;
    }

  return (gint64) result;
}

gint64
rlx_reference_mod_i (const gint64             *x,
                     const RlxReferenceParams *params)
{
  gint64 rest;

  if (x[1] == 0)
    return 0;

  rest = x[0] % x[1];
  if (params->flag && rest != 0 && (rest < 0) != (x[1] < 0))
    rest += x[1];

  return rest;
}

gint64
rlx_reference_fma_i (const gint64                           *x,
                     const RlxReferenceParams *params G_GNUC_UNUSED)
{
  return (gint64) ((guint64) x[0] * (guint64) x[1] + (guint64) x[2]);
}

gint64
rlx_reference_prelu_i (const gint64                           *x,
                       const RlxReferenceParams *params G_GNUC_UNUSED)
{
  return x[0] < 0 ? x[0] * x[1] : x[0];
}

/* An end of a float range, truncated to an integer of the type. */
static gint64
get_end (double             end,
         const RlxReferenceParams *params)
{
  gint64 least, greatest;

  rlx_reference_get_range (params->type, &least, &greatest);
  end = trunc (end);

  return end <= (double) least ? least : end >= (double) greatest ? greatest : (gint64) end;
}

gint64
rlx_reference_clamp_i (const gint64             *x,
                       const RlxReferenceParams *params)
{
  return MIN (MAX (x[0], get_end (params->p, params)), get_end (params->q, params));
}

gint64
rlx_reference_bit_and (const gint64                           *x,
                       const RlxReferenceParams *params G_GNUC_UNUSED)
{
  return x[0] & x[1];
}

gint64
rlx_reference_bit_or (const gint64                           *x,
                      const RlxReferenceParams *params G_GNUC_UNUSED)
{
  return x[0] | x[1];
}

gint64
rlx_reference_bit_xor (const gint64                           *x,
                       const RlxReferenceParams *params G_GNUC_UNUSED)
{
  return x[0] ^ x[1];
}

gint64
rlx_reference_bit_not (const gint64                           *x,
                       const RlxReferenceParams *params G_GNUC_UNUSED)
{
  return ~x[0];
}

gint64
rlx_reference_shift_left (const gint64             *x,
                          const RlxReferenceParams *params)
{
  if (x[1] < 0 || x[1] >= rlx_reference_get_bits (params->type))
    return 0;

  return (gint64) ((guint64) x[0] << x[1]);
}

gint64
rlx_reference_shift_right (const gint64             *x,
                           const RlxReferenceParams *params)
{
  if (x[1] < 0 || x[1] >= rlx_reference_get_bits (params->type))
    return x[0] < 0 ? -1 : 0;

  return x[0] >> x[1];
}
