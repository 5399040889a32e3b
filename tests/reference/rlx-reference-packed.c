/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Packed numbers, one at a time: where the bits of a number are in its block, and
 * what they mean.
 */
#include "config.h"
#include "rlx-reference-private.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "rlx-wgpu/ops/rlx-packed-tables-private.h"

typedef const guint8 *Block;

static guint
u16 (Block b)
{
  return b[0] | (guint) b[1] << 8;
}

static guint32
u32 (Block b)
{
  return u16 (b) | (guint32) u16 (b + 2) << 16;
}

static double
half (guint bits)
{
  int exponent = bits >> 10 & 31;
  double size = exponent == 0 ? ldexp (bits & 1023, -24)
                              : exponent < 31 ? ldexp (1024 + (bits & 1023), exponent - 25)
                                              : (bits & 1023) != 0 ? (double) NAN : INFINITY;

  return bits & 0x8000 ? -size : size;
}

static double
single (guint32 bits)
{
  float f;

  memcpy (&f, &bits, sizeof f);
  return f;
}

/* Bits @from to @from + @n of a block, starting with the lowest bit of its first byte. */
static guint
get_bits (Block b,
          guint from,
          guint n)
{
  guint value = 0;

  for (guint i = 0; i < n; i++)
    value |= (guint) (b[(from + i) / 8] >> (from + i) % 8 & 1) << i;
  return value;
}

/* Element @e of a row of 32 that starts with the low nibbles. */
static guint
get_nibble (Block b,
            guint e)
{
  return e < 16 ? b[e] & 15 : b[e - 16] >> 4;
}

/* Element @e of 256, where 32 · (8 / bits) elements share 32 bytes: the first 32 of them
 * have the lowest bits, the next 32 the following ones. */
static guint
get_strided (Block b,
             guint bits,
             guint e)
{
  guint per_run = 32 * 8 / bits;

  return b[e / per_run * 32 + e % 32] >> (e % per_run / 32 * bits) & ((1u << bits) - 1);
}

static double q4_0 (Block b, guint e) { return half (u16 (b)) * ((int) get_nibble (b + 2, e) - 8); }
static double q4_1 (Block b, guint e) { return half (u16 (b)) * get_nibble (b + 4, e) + half (u16 (b + 2)); }
static double q8_0 (Block b, guint e) { return half (u16 (b)) * (gint8) b[2 + e]; }
static double q8_k (Block b, guint e) { return single (u32 (b)) * (gint8) b[4 + e]; }
static double q1_0 (Block b, guint e) { return get_bits (b + 2, e, 1) ? half (u16 (b)) : -half (u16 (b)); }
static double q2_0 (Block b, guint e) { return half (u16 (b)) * ((int) get_bits (b + 2, 2 * e, 2) - 1); }
static double bf16 (Block b, guint e G_GNUC_UNUSED) { return single ((guint32) u16 (b) << 16); }
static double tq2_0 (Block b, guint e) { return half (u16 (b + 64)) * ((int) get_strided (b, 2, e) - 1); }

static double
q5_0 (Block b,
      guint e)
{
  return half (u16 (b)) * ((int) (get_nibble (b + 6, e) | get_bits (b + 2, e, 1) << 4) - 16);
}

static double
q5_1 (Block b,
      guint e)
{
  return half (u16 (b)) * (get_nibble (b + 8, e) | get_bits (b + 4, e, 1) << 4) + half (u16 (b + 2));
}

static double
q2_k (Block b,
      guint e)
{
  guint scale = b[e / 16];

  return half (u16 (b + 80)) * (scale & 15) * get_strided (b + 16, 2, e) - half (u16 (b + 82)) * (scale >> 4);
}

static double
q3_k (Block b,
      guint e)
{
  guint i = e / 16;
  int scale = (b[96 + i % 8] >> (i / 8 * 4) & 15) | (b[104 + i % 4] >> (i / 4 * 2) & 3) << 4;
  int q = (int) get_strided (b + 32, 2, e) - (b[e % 32] >> (e / 32) & 1 ? 0 : 4);

  return half (u16 (b + 108)) * (scale - 32) * q;
}

/* Scale and offset of 32 elements, from twelve bytes. */
static void
get_scales (Block  b,
            guint  i,
            guint *scale,
            guint *offset)
{
  if (i < 4)
    {
      *scale = b[i] & 63;
      *offset = b[i + 4] & 63;
    }
  else
    {
      *scale = (b[i + 4] & 15) + 16 * (b[i - 4] >> 6);
      *offset = (b[i + 4] >> 4) + 16 * (b[i] >> 6);
    }
}

static double
q4_k (Block b,
      guint e)
{
  guint scale, offset;

  get_scales (b + 4, e / 32, &scale, &offset);
  return half (u16 (b)) * scale * get_strided (b + 16, 4, e) - half (u16 (b + 2)) * offset;
}

static double
q5_k (Block b,
      guint e)
{
  guint scale, offset, q = get_strided (b + 48, 4, e) | (b[16 + e % 32] >> (e / 32) & 1) << 4;

  get_scales (b + 4, e / 32, &scale, &offset);
  return half (u16 (b)) * scale * q - half (u16 (b + 2)) * offset;
}

static double
q6_k (Block b,
      guint e)
{
  /* each run of 128 has its low bits in 64 bytes: for 64 elements, then for 64 more */
  guint low = b[e / 128 * 64 + e % 64] >> (e % 128 / 64 * 4) & 15;
  int q = (int) (low | get_strided (b + 128, 2, e) << 4) - 32;

  return half (u16 (b + 208)) * (gint8) b[192 + e / 16] * q;
}

static double
tq1_0 (Block b,
       guint e)
{
  static const guint powers[] = { 1, 3, 9, 27, 81 };
  guint digit = e < 160 ? (guint8) (b[e % 32] * powers[e / 32])
                        : e < 240 ? (guint8) (b[32 + e % 16] * powers[(e - 160) / 16])
                                  : (guint8) (b[48 + e % 4] * powers[(e - 240) / 4]);

  return half (u16 (b + 52)) * ((int) (digit * 3 / 256) - 1);
}

static const int levels[] = { -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113 };
static const int e2m1[] = { 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 };

static double iq4_nl (Block b, guint e) { return half (u16 (b)) * levels[get_nibble (b + 2, e)]; }

static double
iq4_xs (Block b,
        guint e)
{
  guint i = e / 32;
  int scale = (int) (get_bits (b + 4, 4 * i, 4) | get_bits (b + 2, 2 * i, 2) << 4) - 32;

  return half (u16 (b)) * scale * levels[get_nibble (b + 8 + 16 * i, e % 32)];
}

/* Element @e of an entry of a grid, of @bits bits. */
static guint
get_entry (const guint32 *grid,
           guint          index,
           guint          bits,
           guint          e)
{
  return grid[index / 2] >> (index % 2 * 16 + e * bits) & ((1u << bits) - 1);
}

/* The sign of element @e of eight, the last of which makes the number of minus signs even. */
static int
get_sign (guint seven,
          guint e)
{
  guint n = 0;

  for (guint i = 0; i < 7; i++)
    n += seven >> i & 1;
  return (e < 7 ? seven >> e & 1 : n & 1) ? -1 : 1;
}

static const int sizes2[] = { 8, 25, 43, 60 };
static const int sizes3[] = { 4, 12, 20, 28, 36, 44, 52, 62 };

static double
iq2_xxs (Block b,
         guint e)
{
  Block q = b + 2 + e / 32 * 8;
  guint i = e % 32 / 8;
  guint32 rest = u32 (q + 4);

  return half (u16 (b)) * (0.5 + (rest >> 28)) * 0.25 * sizes2[get_entry (rlx_grid_iq2_xxs, q[i], 2, e % 8)] *
         get_sign (rest >> (7 * i) & 127, e % 8);
}

static double
iq2_xs (Block b,
        guint e)
{
  guint q = u16 (b + 2 + e / 8 * 2);

  return half (u16 (b)) * (0.5 + get_bits (b + 66, e / 16 * 4, 4)) * 0.25 *
         sizes2[get_entry (rlx_grid_iq2_xs, q & 511, 2, e % 8)] * get_sign (q >> 9, e % 8);
}

static double
iq2_s (Block b,
       guint e)
{
  guint index = b[2 + e / 8] | get_bits (b + 66, e / 8 * 2, 2) << 8;

  return half (u16 (b)) * (0.5 + get_bits (b + 74, e / 16 * 4, 4)) * 0.25 *
         sizes2[get_entry (rlx_grid_iq2_s, index, 2, e % 8)] * (get_bits (b + 34, e, 1) ? -1 : 1);
}

static double
iq3_xxs (Block b,
         guint e)
{
  guint32 rest = u32 (b + 66 + e / 32 * 4);

  return half (u16 (b)) * (0.5 + (rest >> 28)) * 0.5 *
         sizes3[get_entry (rlx_grid_iq3_xxs, b[2 + e / 4], 4, e % 4)] * get_sign (rest >> (e % 32 / 8 * 7) & 127, e % 8);
}

static double
iq3_s (Block b,
       guint e)
{
  guint index = b[2 + e / 4] | get_bits (b + 66, e / 4, 1) << 8;

  return half (u16 (b)) * (1 + 2 * (int) get_bits (b + 106, e / 32 * 4, 4)) *
         (1 + 2 * (int) get_entry (rlx_grid_iq3_s, index, 4, e % 4)) * (get_bits (b + 74, e, 1) ? -1 : 1);
}

static double
iq1_s (Block b,
       guint e)
{
  guint rest = u16 (b + 34 + e / 32 * 2);
  guint index = b[2 + e / 8] | (rest >> (e % 32 / 8 * 3) & 7) << 8;

  return half (u16 (b)) * (2 * (rest >> 12 & 7) + 1) *
         ((int) get_entry (rlx_grid_iq1, index, 2, e % 8) - 1 + (rest & 0x8000 ? -0.125 : 0.125));
}

static double
iq1_m (Block b,
       guint e)
{
  guint high = get_bits (b + 32, e / 8 * 4, 4), scale = get_bits (b + 48 + e / 64 * 2, e / 16 % 4 * 3, 3), d = 0;

  for (guint i = 0; i < 4; i++)
    d |= (guint) (b[49 + 2 * i] >> 4) << (4 * i);
  return half (d) * (2 * (int) scale + 1) *
         ((int) get_entry (rlx_grid_iq1, b[e / 8] | (high & 7) << 8, 2, e % 8) - 1 + (high & 8 ? -0.125 : 0.125));
}

static double mxfp4 (Block b, guint e) { return ldexp (e2m1[get_nibble (b + 1, e)], b[0] - 128); }

static double
nvfp4 (Block b,
       guint e)
{
  guint scale = b[e / 16], exponent = scale >> 3 & 15;
  double d = exponent == 0 ? ldexp (scale & 7, -9) : ldexp (8 + (scale & 7), (int) exponent - 10);
  guint q = b[4 + e / 16 * 8 + e % 8];

  return scale == 127 ? 0 * e2m1[q & 15] : d / 2 * e2m1[e % 16 < 8 ? q & 15 : q >> 4];
}

static double
f8_e4m3 (guint bits)
{
  guint a = bits & 127;
  double size = a == 127 ? (double) NAN : a < 8 ? ldexp (a, -9) : ldexp (8 + (a & 7), (int) (a >> 3) - 10);

  return bits & 128 ? -size : size;
}

typedef struct
{
  const char *name;
  guint numbers, bytes;
  double (*get) (Block b, guint e);
  guint bits;              /* of elements with separate scales */
} Format;

static const Format formats[] = {
  { "q4-0", 32, 18, q4_0, 0 }, { "q4-1", 32, 20, q4_1, 0 }, { "q5-0", 32, 22, q5_0, 0 }, { "q5-1", 32, 24, q5_1, 0 },
  { "q8-0", 32, 34, q8_0, 0 }, { "q2-k", 256, 84, q2_k, 0 }, { "q3-k", 256, 110, q3_k, 0 }, { "q4-k", 256, 144, q4_k, 0 },
  { "q5-k", 256, 176, q5_k, 0 }, { "q6-k", 256, 210, q6_k, 0 }, { "q8-k", 256, 292, q8_k, 0 },
  { "iq2-xxs", 256, 66, iq2_xxs, 0 }, { "iq2-xs", 256, 74, iq2_xs, 0 }, { "iq3-xxs", 256, 98, iq3_xxs, 0 },
  { "iq1-s", 256, 50, iq1_s, 0 }, { "iq4-nl", 32, 18, iq4_nl, 0 }, { "iq3-s", 256, 110, iq3_s, 0 },
  { "iq2-s", 256, 82, iq2_s, 0 }, { "iq4-xs", 256, 136, iq4_xs, 0 }, { "iq1-m", 256, 56, iq1_m, 0 },
  { "bf16", 1, 2, bf16, 0 }, { "tq1-0", 256, 54, tq1_0, 0 }, { "tq2-0", 256, 66, tq2_0, 0 },
  { "mxfp4", 32, 17, mxfp4, 0 }, { "nvfp4", 64, 36, nvfp4, 0 }, { "q1-0", 128, 18, q1_0, 0 }, { "q2-0", 64, 18, q2_0, 0 },
  { "int2", 4, 1, NULL, 2 }, { "int4", 2, 1, NULL, 4 }, { "int8", 1, 1, NULL, 8 },
  { "f8-e4m3", 1, 1, NULL, 8 }, { "f8-e5m2", 1, 1, NULL, 8 },
};

/* The operands that make up packed rows. */
typedef struct
{
  const Format *format;
  const RlxReferenceValue *scale;
  const RlxReferenceValue *zero;
  gboolean is_signed;
  gsize row_bytes, columns, block_size, blocks;
  guint8 *bytes;
} Packed;

static void
packed_init (Packed                  *self,
             RlxReferenceCall        *call,
             const RlxReferenceValue *packed,
             const RlxReferenceValue *scale,
             const RlxReferenceValue *zero,
             gsize                    columns)
{
  const char *name = NULL;

  g_variant_lookup (call->attributes, "type", "&s", &name);
  *self = (Packed) { .scale = scale, .zero = zero, .columns = columns };
  for (gsize i = 0; i < G_N_ELEMENTS (formats); i++)
    if (g_strcmp0 (formats[i].name, name) == 0)
      self->format = &formats[i];
  g_assert_nonnull (self->format);

  self->is_signed = packed->data_type == RLX_DATA_TYPE_I8;
  self->row_bytes = (gsize) packed->shape[packed->n_dims - 1];
  self->block_size = (gsize) rlx_reference_get_int (call, "block_size");
  if (self->block_size == 0)
    self->block_size = MAX (columns, 1);
  self->blocks = MAX (1, (columns + self->block_size - 1) / self->block_size);
  self->bytes = g_new (guint8, packed->n_elements + 1);
  for (gsize i = 0; i < packed->n_elements; i++)
    self->bytes[i] = (guint8) (int) packed->values[i];
}

static int
get_integer (const Packed *self,
             Block         row,
             gsize         i)
{
  guint bits = self->format->bits;
  int q = (int) get_bits (row + i * bits / 8, (guint) (i * bits % 8), bits);

  return self->is_signed && q >= 1 << (bits - 1) ? q - (1 << bits) : q;
}

/* Element @k of row @row, and its error. */
static double
packed_get (const Packed *self,
            gsize         row,
            gsize         k,
            double       *bound)
{
  const Format *format = self->format;
  Block bytes = self->bytes + row * self->row_bytes;
  gsize block = k / self->block_size;
  double value, scale = 1, scale_bound = 0, zero = 0, zero_bound = 0;

  *bound = 0;
  if (format->bits == 0)
    {
      value = format->get (bytes + k / format->numbers * format->bytes, (guint) (k % format->numbers));
      /* rounded once */
      return isfinite (value) && fabs (value) < FLT_MAX ? (double) (float) value : value;
    }

  if (self->scale != NULL)
    {
      gsize at = self->scale->n_elements == 1 ? 0 : row * self->blocks + block;

      scale = self->scale->values[at];
      scale_bound = self->scale->bounds[at];
    }
  if (g_str_equal (format->name, "f8-e4m3"))
    value = f8_e4m3 (bytes[k]);
  else if (g_str_equal (format->name, "f8-e5m2"))
    value = half ((guint) bytes[k] << 8);
  else
    {
      if (self->zero == NULL)
        zero = self->is_signed ? 0 : 1 << (format->bits - 1);
      else if (rlx_reference_is_float (self->zero->data_type))
        {
          zero = self->zero->values[row * self->blocks + block];
          zero_bound = self->zero->bounds[row * self->blocks + block];
        }
      else
        {
          gsize per_row = (self->blocks * format->bits + 7) / 8;
          guint8 packed[8];
          gsize first = block * format->bits / 8;

          packed[0] = (guint8) (int) self->zero->values[row * per_row + first];
          zero = get_integer (self, packed, block - first * 8 / format->bits);
        }
      value = get_integer (self, bytes, k) - zero;
    }
  *bound = RLX_F32_ULP * fabs (value * scale) + fabs (value) * scale_bound + fabs (scale) * zero_bound;
  if (isnan (*bound))
    *bound = 0;
  return value * scale;
}

static void
unpack_rows (RlxReferenceCall        *call,
             const RlxReferenceValue *indices,
             const RlxReferenceValue *scale,
             const RlxReferenceValue *zero)
{
  const RlxReferenceValue *packed = call->inputs[0];
  RlxReferenceValue *y = call->output;
  gsize columns = (gsize) y->shape[y->n_dims - 1];
  Packed self;

  packed_init (&self, call, packed, scale, zero, columns);
  for (gsize i = 0; i < y->n_elements; i++)
    {
      gsize row = i / columns;

      if (indices != NULL)
        {
          gint64 index = (gint64) indices->values[row];

          if (index < 0)
            index += packed->shape[0];
          row = (gsize) CLAMP (index, 0, packed->shape[0] - 1);
        }
      y->values[i] = packed_get (&self, row, i % columns, &y->bounds[i]);
    }
  g_free (self.bytes);
}

static void
dequantize_blocks (RlxReferenceCall *call)
{
  unpack_rows (call, NULL, rlx_reference_get_input (call, 1), rlx_reference_get_input (call, 2));
}

static void
gather_packed (RlxReferenceCall *call)
{
  unpack_rows (call, call->inputs[1], rlx_reference_get_input (call, 2), rlx_reference_get_input (call, 3));
}

/* Replaces the bytes of a type with an offset by those of the magnitude of scale times number, plus that of the offset. */
static void
take_sizes (Packed *self,
            gsize   n_bytes)
{
  gboolean subtracts = g_strcmp0 (self->format->name, "q4-k") == 0 || g_strcmp0 (self->format->name, "q5-k") == 0;

  if (!subtracts && g_strcmp0 (self->format->name, "q4-1") != 0 && g_strcmp0 (self->format->name, "q5-1") != 0)
    return;
  for (gsize i = 0; i + self->format->bytes <= n_bytes; i += self->format->bytes)
    {
      self->bytes[i + 1] &= 0x7f;
      self->bytes[i + 3] = (guint8) ((self->bytes[i + 3] & 0x7f) | (subtracts ? 0x80 : 0));
    }
}

/* The error of element @k of a row of @x if 32 elements are quantised to bytes together. */
static double
get_byte_bound (const RlxReferenceValue *x,
                gsize                    row,
                gsize                    columns,
                gsize                    k)
{
  double most = 0;

  for (gsize j = k / 32 * 32; j < MIN (k / 32 * 32 + 32, columns); j++)
    most = isnan (x->values[row * columns + j]) ? NAN : fmax (most, fabs (x->values[row * columns + j]) + x->bounds[row * columns + j]);
  return most < 0x1p-99 ? most : most / 253;
}

static void
dequant_matmul (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0], *weight = call->inputs[1];
  const RlxReferenceValue *bias = rlx_reference_get_input (call, 4), *expert = rlx_reference_get_input (call, 5);
  RlxReferenceValue *y = call->output;
  gsize k = (gsize) x->shape[x->n_dims - 1], n = (gsize) weight->shape[weight->n_dims - 2];
  Packed self, sizes_of;

  packed_init (&self, call, weight, rlx_reference_get_input (call, 2), rlx_reference_get_input (call, 3), k);
  packed_init (&sizes_of, call, weight, rlx_reference_get_input (call, 2), rlx_reference_get_input (call, 3), k);
  take_sizes (&sizes_of, weight->n_elements);
  for (gsize i = 0; i < y->n_elements; i++)
    {
      gsize m = i / n, row = i % n;
      double sum = 0, sizes = 0, bound = 0;
      gboolean known = TRUE;

      if (expert != NULL)
        {
          gint64 which = (gint64) expert->values[m];

          if (which < 0 || which >= weight->shape[0])
            continue;
          row += (gsize) which * n;
        }
      for (gsize j = 0; j < k; j++)
        {
          double off, w = packed_get (&self, row, j, &off), a = x->values[m * k + j];
          double a_off = rlx_reference_operand_bound (call, x, m * k + j), size = fabs (w) + off;

          if (call->bytes)
            {
              double ignored;

              a_off += get_byte_bound (x, m, k, j);
              bound += 0x1p-22 * (fabs (a) + a_off) * fabs (packed_get (&sizes_of, row, j, &ignored));
            }
          /* with reduced precision it may become either neighbour in f16 */
          if (call->narrow && size > 0)
            off += size > 65504 ? INFINITY : size < 0x1p-14 ? size : 0x1p-10 * size;
          sum += a * w;
          sizes += fabs (a * w);
          bound += fabs (a) * off + a_off * (fabs (w) + off);
          known = known && !isinf (a_off) && !isinf (off);
        }
      bound += 2 * (double) k * RLX_F32_EPSILON * sizes;
      if (bias != NULL)
        {
          sum += bias->values[row];
          bound += bias->bounds[row] + RLX_F32_ULP * fabs (bias->values[row]);
        }
      y->values[i] = sum;
      /* a partial sum may overflow even if the whole does not */
      y->bounds[i] = !known || (isfinite (sum) && sizes > FLT_MAX / 2) ? INFINITY : isnan (bound) ? 0 : bound;
    }
  g_free (self.bytes);
  g_free (sizes_of.bytes);
}

const RlxReferenceRow rlx_reference_packed[] = {
  { "dequant_matmul", dequant_matmul },
  { "dequantize_blocks", dequantize_blocks },
  { "gather_packed", gather_packed },
  { NULL, NULL },
};
