/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What property tests draw.
 */
#include "config.h"

#include "rlx-prop-common.h"

#include "util/rlx-data-type-private.h"

gint64
prop_pick (GRand *rand,
           gint64 least,
           gint64 greatest)
{
  return least + (gint64) floor (g_rand_double (rand) * (double) (greatest - least + 1));
}

gboolean
prop_chance (GRand *rand,
             double probability)
{
  return g_rand_double (rand) < probability;
}

/* A size near the edge of something. */
gint64
prop_size (GRand *rand,
           gint64 most)
{
  static const gint64 edges[] = { 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257 };
  gsize n = 0;

  while (n < G_N_ELEMENTS (edges) && edges[n] <= most)
    n++;

  return edges[prop_pick (rand, 0, (gint64) n - 1)];
}

gsize
prop_count (const gint64 *shape,
            gsize         n_dims)
{
  gsize n = 1;

  for (gsize i = 0; i < n_dims; i++)
    n *= (gsize) shape[i];

  return n;
}

double
prop_float (GRand   *rand,
            PropKind kind,
            gboolean half)
{
  static const double special[] = {
    0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3, -3, 100, INFINITY, -INFINITY, NAN, 65504, -65504, 1e-5, 6e-8,
    1e-40, -1e-40, 1e-45, -1.17e-38, 1.2e-38, FLT_MAX, -FLT_MAX, 16777216, 16777217, 1e5, 2147483648.0, 4294967296.0, -2147483648.0, 88.7, -103.9,
  };
  static const double odd[] = { INFINITY, -INFINITY, NAN, 0, -0.0, 0.5, -0.5, 1, -1, 1.5, -1.5, 1e-45, -1e-40, 1e-39, -1.17e-38, 6e-8, -6e-5 };
  double unit = g_rand_double (rand);

  switch (kind)
    {
    case PROP_POSITIVE:
      return 0.5 + 1.5 * unit;
    case PROP_SPOILT_POSITIVE:
      return prop_chance (rand, 0.03) ? odd[prop_pick (rand, 0, G_N_ELEMENTS (odd) - 1)] : 0.5 + 1.5 * unit;
    case PROP_SPOILT:
      if (prop_chance (rand, 0.01))
        return odd[prop_pick (rand, 0, 2)];
      G_GNUC_FALLTHROUGH;
    case PROP_ODD:
      return prop_chance (rand, 0.4) ? odd[prop_pick (rand, 3, G_N_ELEMENTS (odd) - 1)] : 4 * unit - 2;
    case PROP_WILD:
      if (prop_chance (rand, 0.2))
        return special[prop_pick (rand, 0, G_N_ELEMENTS (special) - 1)];
      if (prop_chance (rand, 0.3))
        return (double) prop_pick (rand, -6, 6) / 2;
      if (prop_chance (rand, 0.4))
        return (prop_chance (rand, 0.5) ? -1 : 1) * exp2 ((half ? 44 : 60) * unit - (half ? 28 : 30));
      return 8 * unit - 4;
    case PROP_GIVEN:
    case PROP_TAME:
    default:
      return 4 * unit - 2;
    }
}

gint64
prop_int (GRand      *rand,
          PropKind    kind,
          RlxDataType data_type)
{
  gint64 least, greatest;

  switch (data_type)
    {
    case RLX_DATA_TYPE_I8: least = G_MININT8; greatest = G_MAXINT8; break;
    case RLX_DATA_TYPE_U8: least = 0; greatest = G_MAXUINT8; break;
    case RLX_DATA_TYPE_I4: least = -8; greatest = 7; break;
    case RLX_DATA_TYPE_U4: least = 0; greatest = 15; break;
    case RLX_DATA_TYPE_I16: least = G_MININT16; greatest = G_MAXINT16; break;
    case RLX_DATA_TYPE_U16: least = 0; greatest = G_MAXUINT16; break;
    case RLX_DATA_TYPE_I2: least = -2; greatest = 1; break;
    case RLX_DATA_TYPE_U2: least = 0; greatest = 3; break;
    case RLX_DATA_TYPE_BOOL: least = 0; greatest = 1; break;
    case RLX_DATA_TYPE_I32:
    case RLX_DATA_TYPE_I64: least = G_MININT32; greatest = G_MAXINT32; break;
    default: least = 0; greatest = G_MAXUINT32; break;
    }

  if (kind == PROP_WILD && prop_chance (rand, 0.1))
    return prop_chance (rand, 0.5) ? least : greatest;
  if (kind == PROP_WILD && prop_chance (rand, 0.3))
    return prop_pick (rand, least, greatest);

  return prop_pick (rand, MAX (least, -9), MIN (greatest, 9));
}

char *
prop_type_text (RlxDataType   data_type,
                const gint64 *shape,
                gsize         n_dims)
{
  GString *text = g_string_new (rlx_data_type_to_string (data_type));

  g_string_append_c (text, '[');
  for (gsize i = 0; i < n_dims; i++)
    g_string_append_printf (text, "%s%" G_GINT64_FORMAT, i > 0 ? ", " : "", shape[i]);
  g_string_append_c (text, ']');

  return g_string_free (text, FALSE);
}

RlxTensor *
prop_tensor (GRand        *rand,
             PropKind      kind,
             RlxDataType   data_type,
             const gint64 *shape,
             gsize         n_dims)
{
  gsize n = prop_count (shape, n_dims);
  g_autofree double *values = g_new (double, n + 1);
  g_autofree char *type = prop_type_text (data_type, shape, n_dims);

  for (gsize i = 0; i < n; i++)
    {
      if (rlx_data_type_loads_float (data_type))
        values[i] = prop_float (rand, kind, data_type == RLX_DATA_TYPE_F16);
      else
        values[i] = (double) prop_int (rand, kind, data_type);
    }
  /* One at the end of the range may overflow to infinity with every element of another
   * operand, and nothing would be known about the result. */
  if (n == 1 && fabs (values[0]) == FLT_MAX)
    values[0] = copysign (0x1p64, values[0]);
  /* Tensors with few elements would seldom have one. */
  if ((kind == PROP_SPOILT || kind == PROP_SPOILT_POSITIVE) && n > 0 && prop_chance (rand, 0.5) &&
      (data_type == RLX_DATA_TYPE_F32 || data_type == RLX_DATA_TYPE_F16))
    values[prop_pick (rand, 0, (gint64) n - 1)] = ((double[]) { INFINITY, -INFINITY, NAN })[prop_pick (rand, 0, 2)];

  return rlx_test_tensor (type, values);
}

/* Seeds are fixed, so that a failure is reproducible; RLX_TEST_SEED changes them. */
guint32
prop_seed (const char *what)
{
  const char *seed = g_getenv ("RLX_TEST_SEED");

  return g_str_hash (what) ^ (seed != NULL ? (guint32) g_ascii_strtoull (seed, NULL, 10) * 2654435761u : 0);
}
