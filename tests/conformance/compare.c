/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "compare.h"

#include <math.h>
#include <string.h>

guint16
half_from_double (double value)
{
  guint16 sign = signbit (value) ? 0x8000 : 0;
  double magnitude = fabs (value);
  double scaled;
  int exponent;

  if (isnan (value))
    return 0x7e00;
  if (isinf (value))
    return sign | 0x7c00;
  if (magnitude == 0)
    return sign;

  /* magnitude = f * 2^exponent with f in [0.5, 1): the unit in the last place
   * is 2^(exponent - 11), but never below that of the subnormals */
  frexp (magnitude, &exponent);
  if (exponent < -13)
    exponent = -13;
  scaled = nearbyint (ldexp (magnitude, 11 - exponent));
  if (scaled == 2048)
    {
      scaled = 1024;
      exponent++;
    }
  if (exponent > 16)
    return sign | 0x7c00;
  if (scaled < 1024)
    return sign | (guint16) scaled;
  return sign | (guint16) ((exponent + 14) << 10) | ((guint16) scaled - 1024);
}

double
half_to_double (guint16 bits)
{
  int exponent = (bits >> 10) & 0x1f;
  int mantissa = bits & 0x3ff;
  double magnitude;

  if (exponent == 31)
    magnitude = mantissa != 0 ? NAN : INFINITY;
  else if (exponent == 0)
    magnitude = ldexp (mantissa, -24);
  else
    magnitude = ldexp (mantissa + 1024, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

static guint64
distance (gint64 a,
          gint64 b)
{
  return a > b ? (guint64) a - (guint64) b : (guint64) b - (guint64) a;
}

guint64
ulp_distance_f32 (guint32 a,
                  guint32 b)
{
  gint64 x = a & 0x7fffffff;
  gint64 y = b & 0x7fffffff;

  return distance (a >> 31 ? -x : x, b >> 31 ? -y : y);
}

guint64
ulp_distance_f16 (guint16 a,
                  guint16 b)
{
  gint64 x = a & 0x7fff;
  gint64 y = b & 0x7fff;

  return distance (a >> 15 ? -x : x, b >> 15 ? -y : y);
}

/* An element in each form that the tolerances need. */
typedef struct
{
  gboolean is_float;
  gboolean is_unsigned;
  double d;
  gint64 i;        /* for unsigned 64-bit integers, the bits */
  guint32 bits;
} Element;

static void
load (RlxDataType   data_type,
      gconstpointer data,
      gsize         index,
      Element      *out)
{
  memset (out, 0, sizeof *out);
  switch (data_type)
    {
    case RLX_DATA_TYPE_F32:
      {
        float value;

        memcpy (&out->bits, (const guint8 *) data + 4 * index, 4);
        memcpy (&value, &out->bits, 4);
        out->d = value;
        out->is_float = TRUE;
        return;
      }
    case RLX_DATA_TYPE_F16:
      {
        guint16 half;

        memcpy (&half, (const guint8 *) data + 2 * index, 2);
        out->bits = half;
        out->d = half_to_double (half);
        out->is_float = TRUE;
        return;
      }
    case RLX_DATA_TYPE_I32:
      {
        gint32 value;

        memcpy (&value, (const guint8 *) data + 4 * index, 4);
        out->i = value;
        break;
      }
    case RLX_DATA_TYPE_U32:
      {
        guint32 value;

        memcpy (&value, (const guint8 *) data + 4 * index, 4);
        out->i = value;
        break;
      }
    case RLX_DATA_TYPE_I8:
      out->i = ((const gint8 *) data)[index];
      break;
    case RLX_DATA_TYPE_U8:
    case RLX_DATA_TYPE_BOOL:
      out->i = ((const guint8 *) data)[index];
      break;
    case RLX_DATA_TYPE_I4:
    case RLX_DATA_TYPE_U4:
      out->i = ((const guint8 *) data)[index / 2] >> (index % 2 * 4) & 0xf;
      if (data_type == RLX_DATA_TYPE_I4 && out->i > 7)
        out->i -= 16;
      break;
    case RLX_DATA_TYPE_I64:
      memcpy (&out->i, (const guint8 *) data + 8 * index, 8);
      break;
    case RLX_DATA_TYPE_U64:
      memcpy (&out->i, (const guint8 *) data + 8 * index, 8);
      out->is_unsigned = TRUE;
      out->d = (double) (guint64) out->i;
      return;
    default:
      g_assert_not_reached ();
    }
  out->d = (double) out->i;
}

static guint64
int_distance (const Element *a,
              const Element *b)
{
  if (a->is_unsigned)
    {
      guint64 x = (guint64) a->i;
      guint64 y = (guint64) b->i;

      return x > y ? x - y : y - x;
    }
  return distance (a->i, b->i);
}

static gboolean
matches (RlxDataType      data_type,
         const Element   *got,
         const Element   *want,
         const Tolerance *tolerance)
{
  if (!got->is_float)
    {
      guint64 apart = int_distance (got, want);

      /* relative tolerances are for floats */
      if (tolerance->kind == TOLERANCE_RTOL_ATOL)
        return apart == 0;
      return (double) apart <= tolerance->value;
    }

  if (isnan (got->d) || isnan (want->d))
    return isnan (got->d) && isnan (want->d);
  if (got->d == want->d)
    return TRUE;

  switch (tolerance->kind)
    {
    case TOLERANCE_ULP:
      if (data_type == RLX_DATA_TYPE_F32)
        return (double) ulp_distance_f32 (got->bits, want->bits) <= tolerance->value;
      return (double) ulp_distance_f16 ((guint16) got->bits, (guint16) want->bits) <= tolerance->value;
    case TOLERANCE_ATOL:
      return fabs (got->d - want->d) <= tolerance->value;
    case TOLERANCE_RTOL_ATOL:
      /* an infinite bound would accept everything */
      if (isinf (want->d))
        return FALSE;
      return fabs (got->d - want->d) <= tolerance->atol + tolerance->rtol * fabs (want->d);
    default:
      g_assert_not_reached ();
    }
}

static char *
element_to_string (const Element *element)
{
  if (element->is_float)
    return g_strdup_printf ("%.9g", element->d);
  if (element->is_unsigned)
    return g_strdup_printf ("%" G_GUINT64_FORMAT, (guint64) element->i);
  return g_strdup_printf ("%" G_GINT64_FORMAT, element->i);
}

static char *
measure (RlxDataType      data_type,
         const Element   *got,
         const Element   *want,
         const Tolerance *tolerance)
{
  if (tolerance->kind == TOLERANCE_ULP && got->is_float)
    {
      if (isnan (got->d) || isnan (want->d))
        return g_strdup_printf ("allowed %.17g ulp", tolerance->value);
      return g_strdup_printf ("%" G_GUINT64_FORMAT " ulp, allowed %.17g",
                              data_type == RLX_DATA_TYPE_F32
                                ? ulp_distance_f32 (got->bits, want->bits)
                                : ulp_distance_f16 ((guint16) got->bits, (guint16) want->bits),
                              tolerance->value);
    }
  if (!got->is_float)
    return g_strdup_printf ("allowed difference %g",
                            tolerance->kind == TOLERANCE_RTOL_ATOL ? 0.0 : tolerance->value);
  if (tolerance->kind == TOLERANCE_ATOL)
    return g_strdup_printf ("difference %.3g, allowed %.3g", fabs (got->d - want->d), tolerance->value);
  return g_strdup_printf ("difference %.3g, allowed %.3g", fabs (got->d - want->d),
                          tolerance->atol + tolerance->rtol * fabs (want->d));
}

char *
compare_elements (RlxDataType      data_type,
                  gconstpointer    got,
                  gconstpointer    want,
                  gsize            n_elements,
                  const Tolerance *tolerance)
{
  gsize n_wrong = 0;
  gsize first = 0;

  for (gsize i = 0; i < n_elements; i++)
    {
      Element a, b;

      load (data_type, got, i, &a);
      load (data_type, want, i, &b);
      if (!matches (data_type, &a, &b, tolerance))
        {
          if (n_wrong == 0)
            first = i;
          n_wrong++;
        }
    }

  if (n_wrong > 0)
    {
      g_autofree char *got_text = NULL;
      g_autofree char *want_text = NULL;
      g_autofree char *how = NULL;
      Element a, b;

      load (data_type, got, first, &a);
      load (data_type, want, first, &b);
      got_text = element_to_string (&a);
      want_text = element_to_string (&b);
      how = measure (data_type, &a, &b, tolerance);
      return g_strdup_printf ("element %" G_GSIZE_FORMAT " is %s instead of %s (%s); "
                              "%" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT " elements differ",
                              first, got_text, want_text, how, n_wrong, n_elements);
    }
  return NULL;
}
