/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Numbers that are packed into blocks of bits, and unpacked only in the kernels that need
 * them. Their products are in rlx-packed-product.c.
 */
#include "config.h"

#include "ops/rlx-fused-private.h"
#include "ops/rlx-gradient-private.h"
#include "ops/rlx-index-private.h"
#include "ops/rlx-packed-private.h"
#include "ops/rlx-packed-tables-private.h"

#include <math.h>
#include <string.h>

#include "util/rlx-half-private.h"

/* How many numbers kernels/packed/decode.wgsl unpacks at a time. */
#define CHUNK 32

typedef struct
{
  RlxPackedType type;
  guint numbers;           /* in a block */
  guint bytes;
  guint bits;              /* of a number, if scales are stored elsewhere; otherwise 0 */
  double reach;            /* the largest magnitude of a number that is multiplied by a scale */
  guint scale;             /* offset of the scale in a block, in bytes */
  double offset_reach;     /* the same as @reach for the offset, which follows the scale; 0: there is none */
  const guint32 *table;    /* nullable */
  guint n_table;
} Format;

#define TABLE(name) rlx_grid_##name, G_N_ELEMENTS (rlx_grid_##name)

static const Format formats[] = {
  { RLX_PACKED_TYPE_Q4_0, 32, 18, 0, 8, 0, 0, NULL, 0 },
  { RLX_PACKED_TYPE_Q4_1, 32, 20, 0, 15, 0, 1, NULL, 0 },
  { RLX_PACKED_TYPE_Q5_0, 32, 22, 0, 16, 0, 0, NULL, 0 },
  { RLX_PACKED_TYPE_Q5_1, 32, 24, 0, 31, 0, 1, NULL, 0 },
  { RLX_PACKED_TYPE_Q8_0, 32, 34, 0, 128, 0, 0, NULL, 0 },
  { RLX_PACKED_TYPE_Q2_K, 256, 84, 0, 15 * 3, 80, 15, NULL, 0 },
  { RLX_PACKED_TYPE_Q3_K, 256, 110, 0, 32 * 4, 108, 0, NULL, 0 },
  { RLX_PACKED_TYPE_Q4_K, 256, 144, 0, 63 * 15, 0, 63, NULL, 0 },
  { RLX_PACKED_TYPE_Q5_K, 256, 176, 0, 63 * 31, 0, 63, NULL, 0 },
  { RLX_PACKED_TYPE_Q6_K, 256, 210, 0, 128 * 32, 208, 0, NULL, 0 },
  { RLX_PACKED_TYPE_Q8_K, 256, 292, 0, 128, 0, 0, NULL, 0 },
  { RLX_PACKED_TYPE_IQ2_XXS, 256, 66, 0, 15.5 / 4 * 43, 0, 0, TABLE (iq2_xxs) },
  { RLX_PACKED_TYPE_IQ2_XS, 256, 74, 0, 15.5 / 4 * 43, 0, 0, TABLE (iq2_xs) },
  { RLX_PACKED_TYPE_IQ3_XXS, 256, 98, 0, 15.5 / 2 * 62, 0, 0, TABLE (iq3_xxs) },
  { RLX_PACKED_TYPE_IQ1_S, 256, 50, 0, 15 * 1.125, 0, 0, TABLE (iq1) },
  { RLX_PACKED_TYPE_IQ4_NL, 32, 18, 0, 127, 0, 0, NULL, 0 },
  { RLX_PACKED_TYPE_IQ3_S, 256, 110, 0, 31 * 15, 0, 0, TABLE (iq3_s) },
  { RLX_PACKED_TYPE_IQ2_S, 256, 82, 0, 15.5 / 4 * 43, 0, 0, TABLE (iq2_s) },
  { RLX_PACKED_TYPE_IQ4_XS, 256, 136, 0, 32 * 127, 0, 0, NULL, 0 },
  { RLX_PACKED_TYPE_IQ1_M, 256, 56, 0, 15 * 1.125, 0, 0, TABLE (iq1) },
  { RLX_PACKED_TYPE_BF16, 1, 2, 0, 1, 0, 0, NULL, 0 },
  { RLX_PACKED_TYPE_TQ1_0, 256, 54, 0, 1, 52, 0, NULL, 0 },
  { RLX_PACKED_TYPE_TQ2_0, 256, 66, 0, 2, 64, 0, NULL, 0 },
  { RLX_PACKED_TYPE_MXFP4, 32, 17, 0, 6, 0, 0, NULL, 0 },
  { RLX_PACKED_TYPE_NVFP4, 64, 36, 0, 6, 0, 0, NULL, 0 },
  { RLX_PACKED_TYPE_Q1_0, 128, 18, 0, 1, 0, 0, NULL, 0 },
  { RLX_PACKED_TYPE_Q2_0, 64, 18, 0, 2, 0, 0, NULL, 0 },
  { RLX_PACKED_TYPE_INT2, 4, 1, 2, 3, 0, 0, NULL, 0 },
  { RLX_PACKED_TYPE_INT4, 2, 1, 4, 15, 0, 0, NULL, 0 },
  { RLX_PACKED_TYPE_INT8, 1, 1, 8, 255, 0, 0, NULL, 0 },
  { RLX_PACKED_TYPE_F8_E4M3, 1, 1, 8, 448, 0, 0, NULL, 0 },
  { RLX_PACKED_TYPE_F8_E5M2, 1, 1, 8, 57344, 0, 0, NULL, 0 },
};

/* NULL for an invalid number: attributes are checked before rules see them. */
static const Format *
find_format (gint64 type)
{
  for (guint i = 0; i < G_N_ELEMENTS (formats); i++)
    if ((gint64) formats[i].type == type)
      return &formats[i];
  return NULL;
}

void
rlx_packed_type_get_block (RlxPackedType type,
                           guint        *numbers,
                           guint        *bytes)
{
  const Format *format = find_format (type);

  *numbers = format->numbers;
  *bytes = format->bytes;
}

double
rlx_packed_type_get_reach (RlxPackedType type)
{
  const Format *format = find_format (type);

  return format->bits != 0 ? format->reach : 0.0;
}

static double
read_half (const guint8 *bytes)
{
  return fabs ((double) rlx_half_to_float ((guint16) (bytes[0] | bytes[1] << 8)));
}

static double
find_block_reach (const Format *format,
                  const guint8 *block)
{
  guint8 bytes[4] = { 0, };
  guint32 bits;
  float scale;

  switch (format->type)
    {
    case RLX_PACKED_TYPE_BF16:
      memcpy (bytes + 2, block, 2);
      break;
    case RLX_PACKED_TYPE_Q8_K:
      memcpy (bytes, block, sizeof bytes);
      break;
    case RLX_PACKED_TYPE_MXFP4:
      return ldexp (format->reach, block[0] - 127);
    case RLX_PACKED_TYPE_NVFP4:
      /* The scale is an e4m3. None is above 448; NaN, if read as a number, would be 480. */
      return format->reach * 480.0;
    case RLX_PACKED_TYPE_IQ1_M:
      for (guint i = 0; i < 4; i++)
        bytes[i / 2] |= (guint8) (block[48 + 2 * i + 1] >> 4 << i % 2 * 4);
      return format->reach * read_half (bytes);
    default:
      return format->reach * read_half (block + format->scale) +
             (format->offset_reach > 0 ? format->offset_reach * read_half (block + format->scale + 2) : 0.0);
    }
  bits = bytes[0] | (guint32) bytes[1] << 8 | (guint32) bytes[2] << 16 | (guint32) bytes[3] << 24;
  memcpy (&scale, &bits, sizeof scale);
  return format->reach * fabs ((double) scale);
}

double
rlx_packed_find_reach (RlxPackedType type,
                       const guint8 *blocks,
                       gsize         n_bytes)
{
  const Format *format = find_format (type);
  double most = 0.0;

  g_assert (format->bits == 0);
  for (gsize at = 0; n_bytes - at >= format->bytes; at += format->bytes)
    {
      double reach = find_block_reach (format, blocks + at);

      if (isnan (reach))
        return INFINITY;
      most = fmax (most, reach);
    }
  return most;
}

static gboolean
is_f8 (const Format *format)
{
  return format->type == RLX_PACKED_TYPE_F8_E4M3 || format->type == RLX_PACKED_TYPE_F8_E5M2;
}

/* ---- rules ------------------------------------------------------------------ */

/* The number of scales for a row of @columns numbers. */
static gint64
count_blocks (gint64 columns,
              gint64 block_size)
{
  if (block_size == 0 || columns == 0)
    return 1;
  return (columns - 1) / block_size + 1;
}

/* Checks scale and zero point, both nullable, for @rows rows. */
static gboolean
check_scales (RlxOpCall           *call,
              const Format        *format,
              const RlxTensorType *scale,
              const RlxTensorType *zero,
              gint64               rows,
              gint64               columns,
              gint64               block_size,
              GError             **error)
{
  gint64 blocks = count_blocks (columns, block_size);
  guint64 n;

  if (format->bits == 0)
    {
      if (scale != NULL || zero != NULL || block_size != 0)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                               "there is a %s, but blocks of this type have their own",
                               scale != NULL ? "scale" : zero != NULL ? "zero point" : "block_size");
      return TRUE;
    }

  if (scale == NULL && !is_f8 (format))
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "packed integers need a scale");
  if (zero != NULL && is_f8 (format))
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "there is a zero point, but the numbers are floats");

  if (scale != NULL)
    {
      n = rlx_type_n_elements (scale);
      if (n != 1 && n != (guint64) rows * (guint64) blocks)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                               "the scale has %" G_GUINT64_FORMAT " elements; %" G_GINT64_FORMAT " rows of %" G_GINT64_FORMAT " blocks need 1 or as many",
                               n, rows, blocks);
    }
  if (zero != NULL)
    {
      gboolean floats = rlx_data_type_is_float (zero->data_type);
      guint64 per_row = floats ? (guint64) blocks : ((guint64) blocks * format->bits + 7) / 8;

      n = rlx_type_n_elements (zero);
      if (n != (guint64) rows * per_row)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                               "the zero point has %" G_GUINT64_FORMAT " elements; %" G_GINT64_FORMAT " rows of %" G_GINT64_FORMAT " blocks need %" G_GUINT64_FORMAT " %s each",
                               n, rows, blocks, per_row, floats ? "floats" : "bytes");
    }
  return TRUE;
}

/* Gets the number of columns from the size of a row; @wanted is the number that is
 * expected, or 0. */
static gboolean
get_columns (RlxOpCall           *call,
             const RlxTensorType *packed,
             const Format        *format,
             gint64               block_size,
             gint64               wanted,
             gint64              *columns,
             GError             **error)
{
  gint64 bytes = packed->shape[packed->n_dims - 1], room;

  if (block_size < 0 || block_size % 4 != 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "the block size is %" G_GINT64_FORMAT "; it must be a multiple of 4, or 0", block_size);
  if (bytes % format->bytes != 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "rows have %" G_GINT64_FORMAT " bytes, which is no multiple of the %u of a block", bytes, format->bytes);
  /* no overflow: a tensor has less than 2³² bytes */
  room = bytes / format->bytes * format->numbers;

  if (wanted == 0 || wanted == room)
    {
      *columns = room;
      return TRUE;
    }
  /* The last byte, or the last block, may be partly used. */
  if (format->bits == 0 || wanted < 0 || wanted > room ||
      (room - wanted >= format->numbers && (block_size == 0 || (wanted - 1) / block_size != (room - 1) / block_size)))
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "rows of %" G_GINT64_FORMAT " bytes have %" G_GINT64_FORMAT " numbers, not %" G_GINT64_FORMAT, bytes, room, wanted);
  *columns = wanted;
  return TRUE;
}

gboolean
rlx_dequant_matmul_infer (RlxOpCall                      *call,
                          const RlxDequantizeBlocksAttrs *attrs,
                          GError                        **error)
{
  const RlxTensorType *x = call->inputs[RLX_DEQUANT_MATMUL_SELF], *weight = call->inputs[RLX_DEQUANT_MATMUL_WEIGHT];
  const RlxTensorType *bias = call->inputs[RLX_DEQUANT_MATMUL_BIAS], *expert = call->inputs[RLX_DEQUANT_MATMUL_EXPERT];
  const Format *format = find_format (attrs->type);
  gint64 block_size = attrs->block_size;
  guint n_dims = expert != NULL ? 3 : 2;
  RlxTensorType type = *x;
  gint64 columns, k, n;

  g_assert (format != NULL);
  if (x->n_dims == 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the first operand is a scalar; it needs at least one dimension");
  if (weight->n_dims != n_dims)
    {
      g_autofree char *text = rlx_type_to_string (weight);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the weight must have %u dimensions; it is %s", n_dims, text);
    }
  k = x->shape[x->n_dims - 1];
  n = weight->shape[n_dims - 2];
  if (!get_columns (call, weight, format, block_size, k, &columns, error))
    return FALSE;
  if (columns != k)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "the rows of the weight have %" G_GINT64_FORMAT " numbers, those of the first operand %" G_GINT64_FORMAT, columns, k);
  if (!check_scales (call, format, call->inputs[RLX_DEQUANT_MATMUL_SCALE], call->inputs[RLX_DEQUANT_MATMUL_ZERO_POINT],
                     (expert != NULL ? weight->shape[0] : 1) * n, k, block_size, error))
    return FALSE;

  if (expert != NULL)
    {
      RlxTensorType rows = *x;

      rows.n_dims--;
      if (!rlx_type_same_shape (expert, &rows))
        {
          g_autofree char *text = rlx_type_to_string (expert);
          g_autofree char *wanted = rlx_type_to_string (&rows);

          return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                                 "the experts are %s, the rows of the first operand %s", text, wanted);
        }
    }
  if (bias != NULL && (bias->n_dims != n_dims - 1 || bias->shape[n_dims - 2] != n || (expert != NULL && bias->shape[0] != weight->shape[0])))
    {
      g_autofree char *text = rlx_type_to_string (bias);
      g_autofree char *rows = rlx_type_to_string (weight);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                             "the bias is %s; it must have the dimensions of the weight, which is %s, but the last", text, rows);
    }

  type.shape[type.n_dims - 1] = n;
  rlx_call_add_output (call, &type);
  return TRUE;
}

/* The common part of dequantize_blocks and gather_packed: the result has @shape and one
 * more dimension. */
static gboolean
infer_rows (RlxOpCall                      *call,
            const RlxDequantizeBlocksAttrs *attrs,
            const RlxTensorType            *scale,
            const RlxTensorType            *zero,
            const RlxTensorType            *shape,
            guint                           n_dims,
            GError                        **error)
{
  const RlxTensorType *packed = call->inputs[0];
  const Format *format = find_format (attrs->type);
  RlxDataType to = attrs->to;
  gint64 block_size = attrs->block_size;
  gint64 rows = 1;
  RlxTensorType type = *shape;

  g_assert (format != NULL);
  if (!rlx_data_type_is_float (to))
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_DATA_TYPE,
                           "the result cannot be of type %s; it can be f32 or f16", rlx_data_type_to_string (to));
  if (n_dims == RLX_MAX_DIMS)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                           "the result would have %u dimensions; the limit is %u", n_dims + 1, RLX_MAX_DIMS);
  if (!get_columns (call, packed, format, block_size, attrs->columns, &type.shape[n_dims], error))
    return FALSE;
  for (guint i = 0; i + 1 < packed->n_dims; i++)
    rows *= packed->shape[i];
  if (!check_scales (call, format, scale, zero, rows, type.shape[n_dims], block_size, error))
    return FALSE;

  type.n_dims = n_dims + 1;
  type.data_type = to;
  rlx_call_add_output (call, &type);
  return TRUE;
}

gboolean
rlx_dequantize_blocks_infer (RlxOpCall                      *call,
                             const RlxDequantizeBlocksAttrs *attrs,
                             GError                        **error)
{
  const RlxTensorType *packed = call->inputs[0];

  if (packed->n_dims == 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the operand is a scalar; it needs at least one dimension");
  return infer_rows (call, attrs, call->inputs[RLX_DEQUANTIZE_BLOCKS_SCALE], call->inputs[RLX_DEQUANTIZE_BLOCKS_ZERO_POINT],
                     packed, packed->n_dims - 1, error);
}

gboolean
rlx_gather_packed_infer (RlxOpCall                      *call,
                         const RlxDequantizeBlocksAttrs *attrs,
                         GError                        **error)
{
  const RlxTensorType *packed = call->inputs[0], *indices = call->inputs[1];

  if (packed->n_dims != 2)
    {
      g_autofree char *text = rlx_type_to_string (packed);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the table must have 2 dimensions; it is %s", text);
    }
  if (packed->shape[0] == 0 && rlx_type_n_elements (indices) > 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "there are indices, but the table has no rows");
  return infer_rows (call, attrs, call->inputs[RLX_GATHER_PACKED_SCALE], call->inputs[RLX_GATHER_PACKED_ZERO_POINT],
                     indices, indices->n_dims, error);
}

/* ---- lowering --------------------------------------------------------------- */

/* The grid of a format, created once for all graphs. */
static RlxTensor *
get_table (const Format *format)
{
  static GMutex mutex;
  static RlxTensor *tables[G_N_ELEMENTS (formats)];
  RlxTensor **place = &tables[format - formats];
  RlxTensor *table;

  g_mutex_lock (&mutex);
  if (*place == NULL)
    {
      const gint64 shape[] = { format->n_table };

      *place = rlx_tensor_new_from_data (RLX_DATA_TYPE_U32, shape, 1, (const guint8 *) format->table, format->n_table * sizeof (guint32), NULL);
    }
  table = *place;
  g_mutex_unlock (&mutex);

  return table;
}

/* Adds the packed operand and what belongs to it, as kernels/packed/decode.wgsl expects
 * them. */
static void
kernel_packed (RlxKernel        *kernel,
               RlxLower         *lower,
               const RlxIrNode  *node,
               const RlxIrValue *packed,
               const RlxIrValue *scale,
               const RlxIrValue *zero,
               gint64            k)
{
  const RlxTensorType *type = &packed->type;
  const RlxDequantizeBlocksAttrs *attrs = rlx_dequantize_blocks_attrs (node);
  const Format *format = find_format (attrs->type);
  gint64 block_size = attrs->block_size;
  guint64 row_bytes = (guint64) type->shape[type->n_dims - 1];
  guint64 blocks = (guint64) count_blocks (k, block_size);

  rlx_kernel_input (kernel, "w", packed);
  rlx_kernel_define (kernel, "TYPE", format->type);
  rlx_kernel_define (kernel, "BYTES", format->bytes);
  rlx_kernel_define (kernel, "CHUNKS", MAX (1, format->numbers / CHUNK));
  rlx_kernel_define (kernel, "ALIGNED", (format->numbers < CHUNK ? row_bytes : format->bytes) % 4 == 0);
  rlx_kernel_define (kernel, "CPU", !rlx_lower_get_target (lower)->loads_coalesce);
  rlx_kernel_define (kernel, "TAIL", k % CHUNK != 0);
  rlx_kernel_define (kernel, "TABLE", format->n_table);
  rlx_kernel_param_u32 (kernel, "chunks", (guint64) (k + CHUNK - 1) / CHUNK);
  rlx_kernel_param_u32 (kernel, "parts", 4);
  rlx_kernel_param_u32 (kernel, "row_bytes", row_bytes);
  rlx_kernel_param_u32 (kernel, "last_word", MAX (4, (rlx_type_n_elements (type) + 3)) / 4 - 1);
  if (format->table != NULL)
    rlx_kernel_input (kernel, "table", rlx_lower_constant (lower, get_table (format)));

  rlx_kernel_define (kernel, "BITS", format->bits);
  if (format->bits != 0)
    {
      gboolean one = scale == NULL || rlx_type_n_elements (&scale->type) == 1;

      if (scale != NULL)
        rlx_kernel_input (kernel, "scale", scale);
      if (zero != NULL)
        rlx_kernel_input (kernel, "zero", zero);
      rlx_kernel_define (kernel, "SCALE", scale != NULL);
      rlx_kernel_define (kernel, "ZERO", zero == NULL ? 0 : rlx_data_type_is_float (zero->type.data_type) ? 2 : 1);
      rlx_kernel_define (kernel, "SIGNED_BYTES", type->data_type == RLX_DATA_TYPE_I8);
      rlx_kernel_define (kernel, "SCALES", blocks == 1 || block_size % CHUNK == 0 ? 1 : block_size % 16 == 0 ? 2 : 8);
      rlx_kernel_param_u32 (kernel, "blocks", blocks);
      rlx_kernel_param_u32 (kernel, "block_size", blocks == 1 ? G_MAXUINT32 : (guint64) block_size);
      rlx_kernel_param_u32 (kernel, "scale_row", one ? 0 : blocks);
      rlx_kernel_param_u32 (kernel, "scale_block", one ? 0 : 1);
      rlx_kernel_param_u32 (kernel, "zero_bytes", (blocks * format->bits + 7) / 8);
    }
}

void
rlx_packed_describe (RlxKernel       *kernel,
                     RlxLower        *lower,
                     const RlxIrNode *node)
{
  const RlxTensorType *type = &node->inputs[RLX_DEQUANT_MATMUL_SELF]->type;

  kernel_packed (kernel, lower, node, node->inputs[RLX_DEQUANT_MATMUL_WEIGHT], node->inputs[RLX_DEQUANT_MATMUL_SCALE],
                 node->inputs[RLX_DEQUANT_MATMUL_ZERO_POINT], type->shape[type->n_dims - 1]);
}

static gboolean
lower_rows (RlxLower         *lower,
            const RlxIrNode  *node,
            const RlxIrValue *indices,
            const RlxIrValue *scale,
            const RlxIrValue *zero,
            GError          **error)
{
  const RlxIrValue *packed = node->inputs[0], *y = &node->outputs[0];
  gint64 k = y->type.shape[y->type.n_dims - 1];
  guint64 n = rlx_type_n_elements (&y->type), count;
  RlxKernel *kernel;

  if (n == 0)
    return TRUE;

  count = n / (guint64) k * ((guint64) (k + CHUNK - 1) / CHUNK);
  kernel = rlx_kernel_new (lower, node, "packed-dequantize");
  kernel_packed (kernel, lower, node, packed, scale, zero, k);
  rlx_kernel_param_u32 (kernel, "k", (guint64) k);
  if (indices != NULL)
    {
      rlx_kernel_input (kernel, "indices", indices);
      rlx_kernel_param_u32 (kernel, "rows", (guint64) packed->type.shape[0]);
      rlx_kernel_define (kernel, "SIGNED", !rlx_data_type_is_unsigned (indices->type.data_type));
    }
  rlx_kernel_output_raw (kernel, "y", y);
  rlx_kernel_define (kernel, "GATHER", indices != NULL);
  rlx_kernel_define (kernel, "HALF", y->type.data_type == RLX_DATA_TYPE_F16);
  rlx_kernel_param_u32 (kernel, "count", count);
  rlx_kernel_set_cost (kernel, (double) n,
                       (double) rlx_type_n_bytes (&y->type) + (double) n / (double) k * (double) packed->type.shape[packed->type.n_dims - 1]);
  return rlx_kernel_dispatch (kernel, (count + 63) / 64, error);
}

gboolean
rlx_dequantize_blocks_lower (RlxLower        *lower,
                             const RlxIrNode *node,
                             GError         **error)
{
  return lower_rows (lower, node, NULL, node->inputs[RLX_DEQUANTIZE_BLOCKS_SCALE],
                     node->inputs[RLX_DEQUANTIZE_BLOCKS_ZERO_POINT], error);
}

gboolean
rlx_gather_packed_lower (RlxLower        *lower,
                         const RlxIrNode *node,
                         GError         **error)
{
  return lower_rows (lower, node, node->inputs[RLX_GATHER_PACKED_INDICES], node->inputs[RLX_GATHER_PACKED_SCALE],
                     node->inputs[RLX_GATHER_PACKED_ZERO_POINT], error);
}

/* ---- gradient ---------------------------------------------------------------------- */

/* The gradients of the activation and of the bias; the weight has none. */
void
rlx_dequant_matmul_gradient (RlxGradient     *self,
                             const RlxIrNode *node)
{
  RlxDequantizeBlocksAttrs attrs = *rlx_dequantize_blocks_attrs (node);
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *x = node->inputs[RLX_DEQUANT_MATMUL_SELF], *g = rlx_gradient_get (self, node, 0);
  RlxIrValue *expert = node->inputs[RLX_DEQUANT_MATMUL_EXPERT], *bias = node->inputs[RLX_DEQUANT_MATMUL_BIAS];

  if (rlx_gradient_wants (self, node, RLX_DEQUANT_MATMUL_SCALE) || rlx_gradient_wants (self, node, RLX_DEQUANT_MATMUL_ZERO_POINT))
    {
      rlx_gradient_refuse (self, node, "the scales of a packed weight are frozen, like the weight itself");
      return;
    }
  if (rlx_gradient_wants (self, node, RLX_DEQUANT_MATMUL_SELF))
    {
      RlxIrValue *weight;

      attrs.columns = x->type.shape[x->type.n_dims - 1];
      attrs.to = x->type.data_type;
      weight = rlx_build_dequantize_blocks (b, node->inputs[RLX_DEQUANT_MATMUL_WEIGHT], node->inputs[RLX_DEQUANT_MATMUL_SCALE],
                                            node->inputs[RLX_DEQUANT_MATMUL_ZERO_POINT], &attrs);
      rlx_gradient_add (self, node, RLX_DEQUANT_MATMUL_SELF,
                        expert != NULL ? rlx_build_grouped_matmul (b, g, weight, expert)
                                       : rlx_build_linear (b, g, weight, NULL, NULL));
    }
  if (rlx_gradient_wants (self, node, RLX_DEQUANT_MATMUL_BIAS) && expert == NULL)
    rlx_gradient_add (self, node, RLX_DEQUANT_MATMUL_BIAS, g);
  else if (rlx_gradient_wants (self, node, RLX_DEQUANT_MATMUL_BIAS))
    {
      gint64 n = (gint64) rlx_type_n_elements (&expert->type);
      RlxIrValue *index = rlx_build_as (b, rlx_build_shaped (b, expert, (gint64[]) { n, 1 }, 2), RLX_DATA_TYPE_I32);
      RlxIrValue *zero = rlx_build_number (b, index, 0.0);
      RlxIrValue *there = rlx_build_logical_and (b, rlx_build_greater_equal (b, index, zero),
                                                 rlx_build_less (b, index, rlx_build_number (b, index, (double) bias->type.shape[0])));

      g = rlx_build_shaped (b, g, (gint64[]) { n, bias->type.shape[1] }, 2);
      g = rlx_build_where (b, there, g, rlx_build_number (b, x, 0.0));
      rlx_gradient_add (self, node, RLX_DEQUANT_MATMUL_BIAS,
                        rlx_build_scatter_nd (b, rlx_build_filled (b, &bias->type, 0.0), rlx_build_where (b, there, index, zero), g,
                                              RLX_SCATTER_ND_ATTRS (.mode = RLX_SCATTER_MODE_ADD)));
    }
}
