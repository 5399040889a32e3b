/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "util/rlx-element-private.h"

#include "util/rlx-half-private.h"

#include <math.h>

void
rlx_element_get_int_range (RlxDataType  data_type,
                           gint64      *min,
                           guint64     *max)
{
  switch (data_type)
    {
    case RLX_DATA_TYPE_I32:
      *min = G_MININT32;
      *max = G_MAXINT32;
      break;

    case RLX_DATA_TYPE_U32:
      *min = 0;
      *max = G_MAXUINT32;
      break;

    case RLX_DATA_TYPE_I8:
      *min = G_MININT8;
      *max = G_MAXINT8;
      break;

    case RLX_DATA_TYPE_U8:
      *min = 0;
      *max = G_MAXUINT8;
      break;

    case RLX_DATA_TYPE_BOOL:
      *min = 0;
      *max = 1;
      break;

    case RLX_DATA_TYPE_I4:
      *min = -8;
      *max = 7;
      break;

    case RLX_DATA_TYPE_U4:
      *min = 0;
      *max = 15;
      break;

    case RLX_DATA_TYPE_U64:
      *min = 0;
      *max = G_MAXUINT64;
      break;

    case RLX_DATA_TYPE_F16:
      *min = -65519;
      *max = 65519;
      break;

    case RLX_DATA_TYPE_F32:
    case RLX_DATA_TYPE_I64:
    default:
      *min = G_MININT64;
      *max = G_MAXINT64;
      break;
    }
}

void
rlx_element_set_int (RlxDataType data_type,
                     gpointer    data,
                     gsize       index,
                     gint64      value)
{
  switch (data_type)
    {
    case RLX_DATA_TYPE_F32:
      ((float *) data)[index] = (float) value;
      break;

    case RLX_DATA_TYPE_F16:
      ((guint16 *) data)[index] = rlx_half_from_double ((double) value);
      break;

    case RLX_DATA_TYPE_I32:
      ((gint32 *) data)[index] = (gint32) value;
      break;

    case RLX_DATA_TYPE_U32:
      ((guint32 *) data)[index] = (guint32) value;
      break;

    case RLX_DATA_TYPE_I8:
      ((gint8 *) data)[index] = (gint8) value;
      break;

    case RLX_DATA_TYPE_U8:
    case RLX_DATA_TYPE_BOOL:
      ((guint8 *) data)[index] = (guint8) value;
      break;

    case RLX_DATA_TYPE_I64:
      ((gint64 *) data)[index] = value;
      break;

    case RLX_DATA_TYPE_U64:
      ((guint64 *) data)[index] = (guint64) value;
      break;

    case RLX_DATA_TYPE_I4:
    case RLX_DATA_TYPE_U4:
      {
        guint8 *byte = (guint8 *) data + index / 2;
        guint shift = index % 2 * 4;

        *byte = (guint8) ((*byte & ~(0xf << shift)) | ((guint8) value & 0xf) << shift);
        break;
      }

    default:
      g_return_if_reached ();
    }
}

static int
get_half_byte (const guint8 *data,
               gsize         index)
{
  return data[index / 2] >> (index % 2 * 4) & 0xf;
}

double
rlx_element_get_double (RlxDataType   data_type,
                        gconstpointer data,
                        gsize         index)
{
  switch (data_type)
    {
    case RLX_DATA_TYPE_F32:
      return ((const float *) data)[index];

    case RLX_DATA_TYPE_F16:
      return rlx_half_to_float (((const guint16 *) data)[index]);

    case RLX_DATA_TYPE_I32:
      return ((const gint32 *) data)[index];

    case RLX_DATA_TYPE_U32:
      return ((const guint32 *) data)[index];

    case RLX_DATA_TYPE_I8:
      return ((const gint8 *) data)[index];

    case RLX_DATA_TYPE_U8:
    case RLX_DATA_TYPE_BOOL:
      return ((const guint8 *) data)[index];

    case RLX_DATA_TYPE_I64:
      return (double) ((const gint64 *) data)[index];

    case RLX_DATA_TYPE_U64:
      return (double) ((const guint64 *) data)[index];

    case RLX_DATA_TYPE_I4:
      return (get_half_byte (data, index) ^ 8) - 8;

    case RLX_DATA_TYPE_U4:
      return get_half_byte (data, index);

    default:
      g_return_val_if_reached (NAN);
    }
}

/* 64-bit integers straight to float: by way of double they would be rounded
 * twice. */
float
rlx_element_get_float (RlxDataType   data_type,
                       gconstpointer data,
                       gsize         index)
{
  switch (data_type)
    {
    case RLX_DATA_TYPE_I64:
      return (float) ((const gint64 *) data)[index];

    case RLX_DATA_TYPE_U64:
      return (float) ((const guint64 *) data)[index];

    case RLX_DATA_TYPE_F32:
    case RLX_DATA_TYPE_F16:
    case RLX_DATA_TYPE_I32:
    case RLX_DATA_TYPE_U32:
    case RLX_DATA_TYPE_I8:
    case RLX_DATA_TYPE_U8:
    case RLX_DATA_TYPE_BOOL:
    case RLX_DATA_TYPE_I4:
    case RLX_DATA_TYPE_U4:
    default:
      return (float) rlx_element_get_double (data_type, data, index);
    }
}

gint64
rlx_element_get_int (RlxDataType   data_type,
                     gconstpointer data,
                     gsize         index)
{
  double value;

  switch (data_type)
    {
    case RLX_DATA_TYPE_I64:
      return ((const gint64 *) data)[index];

    case RLX_DATA_TYPE_U64:
      return (gint64) MIN (((const guint64 *) data)[index], (guint64) G_MAXINT64);

    case RLX_DATA_TYPE_F32:
    case RLX_DATA_TYPE_F16:
    case RLX_DATA_TYPE_I32:
    case RLX_DATA_TYPE_U32:
    case RLX_DATA_TYPE_I8:
    case RLX_DATA_TYPE_U8:
    case RLX_DATA_TYPE_BOOL:
    case RLX_DATA_TYPE_I4:
    case RLX_DATA_TYPE_U4:
    default:
      value = rlx_element_get_double (data_type, data, index);
      if (isnan (value))
        return 0;
      if (value >= 0x1p63)
        return G_MAXINT64;
      if (value < -0x1p63)
        return G_MININT64;
      return (gint64) value;
    }
}

/* The shortest decimal number that is read back as the same float: 0.1, not
 * 0.100000001. Nine digits always do for f32, five for f16. */
static void
append_float (GString *text,
              float    value,
              gboolean is_half)
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

  /* "%g" would write a thousand as 1e+03. -0.0 is no integer's text. */
  if (value != 0 && value > -0x1p24f && value < 0x1p24f && (float) (gint32) value == value)
    {
      g_string_append_printf (text, "%d", (gint32) value);
      return;
    }

  for (int digits = is_half ? 3 : 6; digits <= 9; digits++)
    {
      char format[] = "%.0g";
      double back;

      format[2] = (char) ('0' + digits);
      g_ascii_formatd (buffer, sizeof buffer, format, value);
      back = g_ascii_strtod (buffer, NULL);

      if (is_half ? rlx_half_from_double (back) == rlx_half_from_float (value) : (float) back == value)
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
  switch (data_type)
    {
    case RLX_DATA_TYPE_F32:
    case RLX_DATA_TYPE_F16:
      append_float (text, rlx_element_get_float (data_type, data, index), data_type == RLX_DATA_TYPE_F16);
      break;

    case RLX_DATA_TYPE_BOOL:
      g_string_append (text, rlx_element_get_int (data_type, data, index) != 0 ? "true" : "false");
      break;

    case RLX_DATA_TYPE_U64:
      g_string_append_printf (text, "%" G_GUINT64_FORMAT, ((const guint64 *) data)[index]);
      break;

    case RLX_DATA_TYPE_I32:
    case RLX_DATA_TYPE_U32:
    case RLX_DATA_TYPE_I8:
    case RLX_DATA_TYPE_U8:
    case RLX_DATA_TYPE_I64:
    case RLX_DATA_TYPE_I4:
    case RLX_DATA_TYPE_U4:
    default:
      g_string_append_printf (text, "%" G_GINT64_FORMAT, rlx_element_get_int (data_type, data, index));
      break;
    }
}
