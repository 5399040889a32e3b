/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "formats/rlx-manifest-private.h"

#include <math.h>
#include <string.h>

#include "ops/rlx-packed-private.h"

#define PLAIN(name, bytes, TYPE, gguf, safetensors, npy) \
  { name, 1, bytes, RLX_DATA_TYPE_##TYPE, RLX_DATA_TYPE_##TYPE, RLX_CONVERT_NONE, -1, gguf, safetensors, npy }
#define WIDENED(name, bytes, OWN, TYPE, HOW, packed, gguf, safetensors, npy) \
  { name, 1, bytes, RLX_DATA_TYPE_##OWN, RLX_DATA_TYPE_##TYPE, RLX_CONVERT_##HOW, packed, gguf, safetensors, npy }
#define FOREIGN(name, numbers, bytes, gguf, safetensors, npy) \
  { name, numbers, bytes, RLX_DATA_TYPE_U8, RLX_DATA_TYPE_U8, RLX_CONVERT_IMPOSSIBLE, -1, gguf, safetensors, npy }
#define PACKED(name, TYPE) \
  { name, 0, 0, RLX_DATA_TYPE_U8, RLX_DATA_TYPE_U8, RLX_CONVERT_NONE, RLX_PACKED_TYPE_##TYPE, RLX_PACKED_TYPE_##TYPE, NULL, NULL }

static const RlxStorage storages[] = {
  PLAIN ("f32", 4, F32, 0, "F32", "f4"),
  PLAIN ("f16", 2, F16, 1, "F16", "f2"),
  PLAIN ("i32", 4, I32, 26, "I32", "i4"),
  PLAIN ("u32", 4, U32, -1, "U32", "u4"),
  PLAIN ("i8", 1, I8, 24, "I8", "i1"),
  PLAIN ("u8", 1, U8, -1, "U8", "u1"),
  PLAIN ("bool", 1, BOOL, -1, "BOOL", "b1"),
  PLAIN ("i64", 8, I64, 27, "I64", "i8"),
  PLAIN ("u64", 8, U64, -1, "U64", "u8"),
  /* Types whose values a wider type holds without loss. */
  WIDENED ("bf16", 2, BF16, F32, BF16, RLX_PACKED_TYPE_BF16, 30, "BF16", NULL),
  WIDENED ("f8-e4m3", 1, F8E4M3FN, F32, F8_E4M3, RLX_PACKED_TYPE_F8_E4M3, -1, "F8_E4M3", NULL),
  WIDENED ("f8-e5m2", 1, F8E5M2, F32, F8_E5M2, RLX_PACKED_TYPE_F8_E5M2, -1, "F8_E5M2", NULL),
  WIDENED ("f8-e8m0", 1, F8E8M0, F32, F8_E8M0, -1, -1, "F8_E8M0", NULL),
  WIDENED ("i16", 2, I16, I32, I16, -1, 25, "I16", "i2"),
  WIDENED ("u16", 2, U16, U32, U16, -1, -1, "U16", "u2"),
  FOREIGN ("f64", 1, 8, 28, "F64", "f8"),
  FOREIGN ("c64", 1, 8, -1, "C64", "c8"),
  FOREIGN ("c128", 1, 16, -1, NULL, "c16"),
  FOREIGN ("f4", 2, 1, -1, "F4", NULL),
  FOREIGN ("f6-e2m3", 4, 3, -1, "F6_E2M3", NULL),
  FOREIGN ("f6-e3m2", 4, 3, -1, "F6_E3M2", NULL),
  PACKED ("q4-0", Q4_0),
  PACKED ("q4-1", Q4_1),
  PACKED ("q5-0", Q5_0),
  PACKED ("q5-1", Q5_1),
  PACKED ("q8-0", Q8_0),
  PACKED ("q2-k", Q2_K),
  PACKED ("q3-k", Q3_K),
  PACKED ("q4-k", Q4_K),
  PACKED ("q5-k", Q5_K),
  PACKED ("q6-k", Q6_K),
  PACKED ("q8-k", Q8_K),
  PACKED ("iq2-xxs", IQ2_XXS),
  PACKED ("iq2-xs", IQ2_XS),
  PACKED ("iq3-xxs", IQ3_XXS),
  PACKED ("iq1-s", IQ1_S),
  PACKED ("iq4-nl", IQ4_NL),
  PACKED ("iq3-s", IQ3_S),
  PACKED ("iq2-s", IQ2_S),
  PACKED ("iq4-xs", IQ4_XS),
  PACKED ("iq1-m", IQ1_M),
  PACKED ("tq1-0", TQ1_0),
  PACKED ("tq2-0", TQ2_0),
  PACKED ("mxfp4", MXFP4),
  PACKED ("nvfp4", NVFP4),
  PACKED ("q1-0", Q1_0),
  PACKED ("q2-0", Q2_0),
};

guint
rlx_storage_get_n (void)
{
  return G_N_ELEMENTS (storages);
}

const RlxStorage *
rlx_storage_get (guint index)
{
  g_assert (index < G_N_ELEMENTS (storages));

  return &storages[index];
}

int
rlx_storage_find_safetensors (const char *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (storages); i++)
    if (g_strcmp0 (storages[i].safetensors, name) == 0)
      return (int) i;
  return -1;
}

int
rlx_storage_find_gguf (guint32 type)
{
  for (guint i = 0; i < G_N_ELEMENTS (storages); i++)
    if (storages[i].gguf >= 0 && (guint32) storages[i].gguf == type)
      return (int) i;
  return -1;
}

int
rlx_storage_find_npy (const char *code,
                      gsize       length)
{
  for (guint i = 0; i < G_N_ELEMENTS (storages); i++)
    if (storages[i].npy != NULL && strlen (storages[i].npy) == length && memcmp (storages[i].npy, code, length) == 0)
      return (int) i;
  return -1;
}

int
rlx_storage_find_data_type (RlxDataType data_type)
{
  for (guint i = 0; i < G_N_ELEMENTS (storages); i++)
    if (storages[i].numbers == 1 && storages[i].convert != RLX_CONVERT_IMPOSSIBLE && storages[i].own_type == data_type)
      return (int) i;
  return -1;
}

void
rlx_storage_get_block (const RlxStorage *storage,
                       guint            *numbers,
                       guint            *bytes)
{
  if (storage->numbers == 0)
    rlx_packed_type_get_block ((RlxPackedType) storage->packed, numbers, bytes);
  else
    {
      *numbers = storage->numbers;
      *bytes = storage->bytes;
    }
}

/* ---- numbers ------------------------------------------------------------------------ */

/* Converts an 8-bit float: E4M3 without infinities, E5M2, or E8M0. */
static float
float_from_byte (RlxConvert how,
                 guint8     byte)
{
  int bits = how == RLX_CONVERT_F8_E4M3 ? 3 : 2, bias = how == RLX_CONVERT_F8_E4M3 ? 7 : 15;
  int exponent = (byte & 0x7f) >> bits, fraction = byte & ((1 << bits) - 1);
  float sign = byte & 0x80 ? -1.0f : 1.0f;

  if (how == RLX_CONVERT_F8_E8M0)
    return byte == 0xff ? NAN : ldexpf (1.0f, byte - 127);
  if (how == RLX_CONVERT_F8_E4M3 ? (byte & 0x7f) == 0x7f : exponent == 31 && fraction != 0)
    return copysignf (NAN, sign);
  if (how == RLX_CONVERT_F8_E5M2 && exponent == 31)
    return copysignf (INFINITY, sign);
  if (exponent == 0)
    return sign * ldexpf ((float) fraction, 1 - bias - bits);
  return sign * ldexpf ((float) (fraction + (1 << bits)), exponent - bias - bits);
}

void
rlx_storage_widen (const RlxStorage *storage,
                   gconstpointer     from,
                   gsize             n,
                   gpointer          to)
{
  const guint8 *bytes = from;
  guint32 table[256], *wide = to;
  guint16 half;

  if (storage->bytes == 1)
    {
      for (guint i = 0; i < G_N_ELEMENTS (table); i++)
        {
          float value = float_from_byte (storage->convert, (guint8) i);

          memcpy (&table[i], &value, sizeof value);
        }
      for (gsize i = 0; i < n; i++)
        wide[i] = table[bytes[i]];
      return;
    }
  for (gsize i = 0; i < n; i++)
    {
      /* The bytes need not be aligned. */
      memcpy (&half, bytes + 2 * i, 2);
      wide[i] = storage->convert == RLX_CONVERT_BF16 ? (guint32) half << 16 :
                storage->convert == RLX_CONVERT_I16  ? (guint32) (gint32) (gint16) half :
                                                       half;
    }
}
