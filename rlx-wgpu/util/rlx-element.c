/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "util/rlx-element-private.h"

#include "util/rlx-half-private.h"
#include "util/rlx-narrow-private.h"

#include <math.h>

void
rlx_element_get_int_range (RlxDataType  data_type,
                           gint64      *min,
                           guint64     *max)
{
  *min = rlx_data_type_get_info (data_type)->min;
  *max = rlx_data_type_get_info (data_type)->max;
}

/* Stores the lower bits of @value. */
static void
set_bits (const RlxDataTypeInfo *info,
          gpointer               data,
          gsize                  index,
          guint64                value)
{
  switch (info->bits)
    {
    case 2:
    case 4:
      {
        guint per_byte = 8 / info->bits, mask = (1u << info->bits) - 1;
        guint8 *byte = (guint8 *) data + index / per_byte;
        guint shift = (guint) (index % per_byte) * info->bits;

        *byte = (guint8) ((*byte & ~(mask << shift)) | ((guint) value & mask) << shift);
        break;
      }
    case 8: ((guint8 *) data)[index] = (guint8) value; break;
    case 16: ((guint16 *) data)[index] = (guint16) value; break;
    case 32: ((guint32 *) data)[index] = (guint32) value; break;
    case 64: ((guint64 *) data)[index] = value; break;
    default: g_return_if_reached ();
    }
}

void
rlx_element_set_narrow (RlxDataType data_type,
                        gpointer    data,
                        gsize       index,
                        double      value)
{
  set_bits (rlx_data_type_get_info (data_type), data, index, rlx_narrow_from_double (data_type, value));
}

void
rlx_element_set_int (RlxDataType data_type,
                     gpointer    data,
                     gsize       index,
                     gint64      value)
{
  if (data_type == RLX_DATA_TYPE_F32)
    ((float *) data)[index] = (float) value;
  else if (data_type == RLX_DATA_TYPE_F16)
    ((guint16 *) data)[index] = rlx_half_from_double ((double) value);
  else if (rlx_data_type_is_narrow (data_type))
    rlx_element_set_narrow (data_type, data, index, (double) value);
  else
    set_bits (rlx_data_type_get_info (data_type), data, index, (guint64) value);
}

/* An integer of any type; that of a u64 is reinterpreted as signed. */
static gint64
get_integer (const RlxDataTypeInfo *info,
             gconstpointer          data,
             gsize                  index)
{
  guint64 bits;

  switch (info->bits)
    {
    case 2: bits = ((const guint8 *) data)[index / 4] >> (index % 4 * 2) & 0x3; break;
    case 4: bits = ((const guint8 *) data)[index / 2] >> (index % 2 * 4) & 0xf; break;
    case 8: bits = ((const guint8 *) data)[index]; break;
    case 16: bits = ((const guint16 *) data)[index]; break;
    case 32: bits = ((const guint32 *) data)[index]; break;
    case 64: bits = ((const guint64 *) data)[index]; break;
    default: g_return_val_if_reached (0);
    }

  return info->number == RLX_NUMBER_SIGNED ? (gint64) (bits << (64 - info->bits)) >> (64 - info->bits) : (gint64) bits;
}

double
rlx_element_get_double (RlxDataType   data_type,
                        gconstpointer data,
                        gsize         index)
{
  const RlxDataTypeInfo *info = rlx_data_type_get_info (data_type);

  if (data_type == RLX_DATA_TYPE_F32)
    return ((const float *) data)[index];
  if (data_type == RLX_DATA_TYPE_F16)
    return rlx_half_to_float (((const guint16 *) data)[index]);

  g_return_val_if_fail (info->number != RLX_NUMBER_FLOAT, NAN);
  if (info->number == RLX_NUMBER_NARROW)
    return rlx_narrow_to_double (data_type, (guint32) get_integer (info, data, index));
  return info->number == RLX_NUMBER_SIGNED ? (double) get_integer (info, data, index)
                                           : (double) (guint64) get_integer (info, data, index);
}

/* 64-bit integers are converted to float directly: by way of double they would be rounded
 * twice. */
float
rlx_element_get_float (RlxDataType   data_type,
                       gconstpointer data,
                       gsize         index)
{
  const RlxDataTypeInfo *info = rlx_data_type_get_info (data_type);

  if (info->bits < 64)
    return (float) rlx_element_get_double (data_type, data, index);

  return info->number == RLX_NUMBER_SIGNED ? (float) get_integer (info, data, index)
                                           : (float) (guint64) get_integer (info, data, index);
}

gint64
rlx_element_get_int (RlxDataType   data_type,
                     gconstpointer data,
                     gsize         index)
{
  const RlxDataTypeInfo *info = rlx_data_type_get_info (data_type);
  double value;

  if (info->number == RLX_NUMBER_SIGNED)
    return get_integer (info, data, index);
  if (info->number != RLX_NUMBER_FLOAT && info->number != RLX_NUMBER_NARROW)
    return (gint64) MIN ((guint64) get_integer (info, data, index), (guint64) G_MAXINT64);

  value = rlx_element_get_double (data_type, data, index);
  if (isnan (value))
    return 0;
  if (value >= 0x1p63)
    return G_MAXINT64;
  if (value < -0x1p63)
    return G_MININT64;
  return (gint64) value;
}

static gboolean
is_same (RlxDataType data_type,
         double      back,
         float       value)
{
  if (data_type == RLX_DATA_TYPE_F32)
    return (float) back == value;
  if (data_type == RLX_DATA_TYPE_F16)
    return rlx_half_from_double (back) == rlx_half_from_float (value);
  return rlx_narrow_from_double (data_type, back) == rlx_narrow_from_double (data_type, value);
}

/* The shortest decimal number that is read back as the same float: 0.1, not 0.100000001.
 * Nine digits are always enough for f32, five for f16. */
static void
append_float (GString    *text,
              RlxDataType data_type,
              float       value)
{
  char buffer[G_ASCII_DTOSTR_BUF_SIZE];

  if (isnan (value))
    {
      g_string_append (text, "nan");
      return;
    }
  if (isinf (value))
    {
      g_string_append (text, value < 0 ? "-inf" : "inf");
      return;
    }

  /* "%g" would write 1000 as 1e+03. -0.0 must keep its sign. */
  if (value != 0 && value > -0x1p24f && value < 0x1p24f && (float) (gint32) value == value)
    {
      g_string_append_printf (text, "%d", (gint32) value);
      return;
    }

  for (int digits = data_type == RLX_DATA_TYPE_F32 ? 6 : 3; digits <= 9; digits++)
    {
      char format[] = "%.0g";
      double back;

      format[2] = (char) ('0' + digits);
      g_ascii_formatd (buffer, sizeof buffer, format, value);
      back = g_ascii_strtod (buffer, NULL);

      if (is_same (data_type, back, value))
        break;
    }

  g_string_append (text, buffer);
}

void
rlx_element_append (GString       *text,
                    RlxDataType    data_type,
                    gconstpointer  data,
                    gsize          index)
{
  const RlxDataTypeInfo *info = rlx_data_type_get_info (data_type);

  switch (info->number)
    {
    case RLX_NUMBER_FLOAT:
    case RLX_NUMBER_NARROW:
      append_float (text, data_type, rlx_element_get_float (data_type, data, index));
      break;

    case RLX_NUMBER_BOOL:
      g_string_append (text, get_integer (info, data, index) != 0 ? "true" : "false");
      break;

    case RLX_NUMBER_UNSIGNED:
      g_string_append_printf (text, "%" G_GUINT64_FORMAT, (guint64) get_integer (info, data, index));
      break;

    case RLX_NUMBER_SIGNED:
      g_string_append_printf (text, "%" G_GINT64_FORMAT, get_integer (info, data, index));
      break;

    case RLX_NUMBER_NONE:
    default:
      g_return_if_reached ();
    }
}
