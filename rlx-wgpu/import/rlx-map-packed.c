/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "import/rlx-map-private.h"

#include <math.h>
#include <string.h>

/* ---- contributed operators ---------------------------------------------------- */

static const char *
packed_integers (gint64 bits)
{
  return bits == 2 ? "int2" : bits == 4 ? "int4" : bits == 8 ? "int8" : NULL;
}

gboolean
rlx_onnx_map_matmul_nbits (RlxMapCall *call,
                           GError    **error)
{
  RlxNode *inputs[] = { NULL, NULL, NULL, NULL, NULL };
  static const guint places[] = { 0, 1, 2, 3, 5 };   /* of the inputs; 4 is g_idx */
  gint64 k, n, bits, block_size, prepacked;
  gint64 shape[2];
  const gint64 *dims;
  gsize n_dims;

  if (!rlx_map_arg_int (call, "K", 0, &k, error) || !rlx_map_arg_int (call, "N", 0, &n, error) ||
      !rlx_map_arg_int (call, "bits", 4, &bits, error) || !rlx_map_arg_int (call, "block_size", 0, &block_size, error) ||
      !rlx_map_arg_int (call, "weight_prepacked", 0, &prepacked, error))
    return FALSE;
  if (rlx_map_has_input (call, 4))
    return rlx_map_unsupported (error, "%s with g_idx", call->node->op);
  if (prepacked != 0)
    return rlx_map_unsupported (error, "%s with weights that are packed for one machine", call->node->op);
  if (packed_integers (bits) == NULL)
    return rlx_map_unsupported (error, "%s with %" G_GINT64_FORMAT " bits", call->node->op, bits);
  if (k < 1 || n < 1 || block_size < 16)
    return rlx_map_refused (error, "%s: K is %" G_GINT64_FORMAT ", N %" G_GINT64_FORMAT ", block_size %" G_GINT64_FORMAT,
                            call->node->op, k, n, block_size);

  for (guint i = 0; i < G_N_ELEMENTS (places); i++)
    if ((i < 3 || rlx_map_has_input (call, places[i])) && (inputs[i] = rlx_map_input (call, places[i], FALSE, error)) == NULL)
      return FALSE;
  dims = rlx_node_get_shape (inputs[0], &n_dims);
  if (n_dims == 0 || dims[n_dims - 1] != k)
    return rlx_map_refused (error, "%s: the columns of A are not K", call->node->op);

  shape[0] = n;
  shape[1] = (k + block_size - 1) / block_size * (block_size * bits / 8);
  inputs[1] = rlx_map_reshape (call, inputs[1], shape, 2, error);
  if (inputs[1] == NULL)
    return FALSE;
  return rlx_map_return (call, 0, rlx_map_op (call, "dequant_matmul", inputs, 5,
                                              rlx_map_attrs ("type", g_variant_new_string (packed_integers (bits)),
                                                             "block_size", g_variant_new_int64 (block_size), NULL), error));
}

/* Blocks of 4-bit integers along an axis. */
static RlxNode *
dequantize (RlxMapCall *call,
            RlxNode    *data,
            RlxNode    *scale,
            RlxNode    *zero,
            gsize       axis,
            gint64      block_size,
            GError    **error)
{
  RlxNode *inputs[] = { data, scale, zero };
  gint64 blocks[RLX_MAX_DIMS];
  gsize n_dims = rlx_node_get_n_dims (data);

  for (gsize i = 0; i < n_dims; i++)
    blocks[i] = i == axis ? block_size : 1;
  return rlx_map_op (call, "dequantize_linear", inputs, zero != NULL ? 3 : 2,
                     rlx_map_attrs ("blocks", rlx_map_ints (blocks, n_dims), NULL), error);
}

gboolean
rlx_onnx_map_gather_quantized (RlxMapCall *call,
                               GError    **error)
{
  RlxNode *parts[3] = { NULL, NULL, NULL };   /* data, scales, zero points */
  RlxNode *indices, *node;
  gint64 gather_axis, quantize_axis, block_size, bits;
  gsize n_dims, at, along;
  gboolean bytes;
  const gint64 *shape;

  parts[0] = rlx_map_input (call, 0, FALSE, error);
  indices = parts[0] != NULL ? rlx_map_input (call, 1, FALSE, error) : NULL;
  parts[1] = indices != NULL ? rlx_map_input (call, 2, FALSE, error) : NULL;
  if (parts[1] == NULL || (rlx_map_has_input (call, 3) && (parts[2] = rlx_map_input (call, 3, FALSE, error)) == NULL))
    return FALSE;
  shape = rlx_node_get_shape (parts[0], &n_dims);
  if (!rlx_map_arg_int (call, "gather_axis", 0, &gather_axis, error) ||
      !rlx_map_arg_int (call, "quantize_axis", 1, &quantize_axis, error) ||
      !rlx_map_arg_int (call, "block_size", 128, &block_size, error) ||
      !rlx_map_arg_int (call, "bits", 4, &bits, error) ||
      !rlx_map_normalise_axis (call, gather_axis, n_dims, n_dims - 1, &at, error) ||
      !rlx_map_normalise_axis (call, quantize_axis, n_dims, n_dims - 1, &along, error))
    return FALSE;
  if (block_size < 16 || (block_size & (block_size - 1)) != 0)
    return rlx_map_refused (error, "%s: the block size is %" G_GINT64_FORMAT, call->node->op, block_size);

  bytes = rlx_node_get_data_type (parts[0]) == RLX_DATA_TYPE_U8;
  if (bytes && (packed_integers (bits) == NULL || along != n_dims - 1 || at == along))
    return rlx_map_refused (error, "%s: bytes have %" G_GINT64_FORMAT " bits, are gathered along axis %" G_GINT64_FORMAT " and quantised along %" G_GINT64_FORMAT,
                            call->node->op, bits, gather_axis, quantize_axis);

  if (at == along)
    {
      node = dequantize (call, parts[0], parts[1], parts[2], along, block_size, error);
      return node != NULL &&
             rlx_map_return (call, 0, rlx_map_op2 (call, "gather", node, indices,
                                                   rlx_map_attrs ("axis", g_variant_new_int64 (gather_axis), NULL), error));
    }

  if (bytes && n_dims == 2)
    {
      RlxNode *inputs[] = { parts[0], indices, parts[1], parts[2] };

      return rlx_map_return (call, 0, rlx_map_op (call, "gather_packed", inputs, 4,
                                                  rlx_map_attrs ("type", g_variant_new_string (packed_integers (bits)),
                                                                 "block_size", g_variant_new_int64 (block_size),
                                                                 "columns", g_variant_new_int64 (shape[1] * 8 / bits),
                                                                 "to", rlx_map_data_type (rlx_node_get_data_type (parts[1])), NULL), error));
    }

  for (guint i = 0; i < 3; i++)
    if (parts[i] != NULL &&
        (parts[i] = rlx_map_op2 (call, "gather", parts[i], indices,
                                 rlx_map_attrs ("axis", g_variant_new_int64 ((gint64) at), NULL), error)) == NULL)
      return FALSE;
  if (along > at)
    along += rlx_node_get_n_dims (indices) - 1;
  if (!bytes)
    return rlx_map_return (call, 0, dequantize (call, parts[0], parts[1], parts[2], along, block_size, error));
  return rlx_map_return (call, 0, rlx_map_op (call, "dequantize_blocks", parts, 3,
                                              rlx_map_attrs ("type", g_variant_new_string (packed_integers (bits)),
                                                             "block_size", g_variant_new_int64 (block_size),
                                                             "to", rlx_map_data_type (rlx_node_get_data_type (parts[1])), NULL), error));
}
