/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Scaled dot-product attention.
 */
#include "config.h"

#include "ops/rlx-kernel-private.h"

#include <math.h>

gboolean rlx_attention_infer (RlxOpCall *call, GError **error);
gboolean rlx_attention_lower (RlxLower *lower, const RlxIrNode *node, GError **error);

/* Where the dimensions of query, key and value are. */
enum
{
  BATCH,
  HEADS,
  SEQUENCE,
  WIDTH,
  RANK,
};

#define WORKGROUP_SIZE 64

/* ---- the rule ------------------------------------------------------------------ */

static gboolean
check_operand (const RlxOpCall     *call,
               const char          *name,
               const RlxTensorType *type,
               GError             **error)
{
  g_autofree char *text = NULL;

  if (type->rank == RANK)
    return TRUE;

  text = rlx_type_to_string (type);
  return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                         "the %s must be [batch, heads, sequence, width], it is %s", name, text);
}

/* Dimension @axis of two operands must be the same. */
static gboolean
check_same (const RlxOpCall     *call,
            const char          *what,
            guint                axis,
            const char          *name_a,
            const RlxTensorType *a,
            const char          *name_b,
            const RlxTensorType *b,
            GError             **error)
{
  g_autofree char *text_a = NULL;
  g_autofree char *text_b = NULL;

  if (a->dims[axis] == b->dims[axis])
    return TRUE;

  text_a = rlx_type_to_string (a);
  text_b = rlx_type_to_string (b);
  return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                         "the %s of the %s %s and the %s %s differ: %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT,
                         what, name_a, text_a, name_b, text_b, a->dims[axis], b->dims[axis]);
}

gboolean
rlx_attention_infer (RlxOpCall *call,
                     GError   **error)
{
  const RlxTensorType *query = call->inputs[0];
  const RlxTensorType *key = call->inputs[1];
  const RlxTensorType *value = call->inputs[2];
  const RlxTensorType *mask = call->n_inputs > 3 ? call->inputs[3] : NULL;
  double scale = rlx_call_attr (call, "scale")->f;
  RlxTensorType type = *query;

  if (!isfinite ((float) scale))
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "scale is %g, it must be a finite 32-bit float", scale);

  if (!check_operand (call, "query", query, error) ||
      !check_operand (call, "key", key, error) ||
      !check_operand (call, "value", value, error) ||
      !check_same (call, "batches", BATCH, "query", query, "key", key, error) ||
      !check_same (call, "batches", BATCH, "key", key, "value", value, error) ||
      !check_same (call, "heads", HEADS, "key", key, "value", value, error) ||
      !check_same (call, "sequences", SEQUENCE, "key", key, "value", value, error) ||
      !check_same (call, "widths", WIDTH, "query", query, "key", key, error))
    return FALSE;

  if (key->dims[HEADS] == 0 || query->dims[HEADS] % key->dims[HEADS] != 0)
    {
      g_autofree char *text_query = rlx_type_to_string (query);
      g_autofree char *text_key = rlx_type_to_string (key);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                             "the %" G_GINT64_FORMAT " heads of the query %s are not a multiple of the %" G_GINT64_FORMAT " heads of the key %s",
                             query->dims[HEADS], text_query, key->dims[HEADS], text_key);
    }

  if (mask != NULL)
    {
      RlxTensorType scores = *query;
      RlxTensorType joined;

      scores.dims[WIDTH] = key->dims[SEQUENCE];
      joined = scores;
      if (!rlx_shape_broadcast (mask, &scores, &joined) || !rlx_type_same_shape (&joined, &scores))
        {
          g_autofree char *text_mask = rlx_type_to_string (mask);

          return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                                 "the mask %s does not broadcast to [batch, heads, queries, keys], "
                                 "[%" G_GINT64_FORMAT ", %" G_GINT64_FORMAT ", %" G_GINT64_FORMAT ", %" G_GINT64_FORMAT "]",
                                 text_mask, scores.dims[BATCH], scores.dims[HEADS], scores.dims[SEQUENCE], scores.dims[WIDTH]);
        }
    }

  type.dims[WIDTH] = value->dims[WIDTH];
  rlx_call_add_output (call, &type);
  return TRUE;
}

/* ---- the lowering ---------------------------------------------------------------- */

gboolean
rlx_attention_lower (RlxLower        *lower,
                     const RlxIrNode *node,
                     GError         **error)
{
  const RlxIrValue *query = node->inputs[0];
  const RlxIrValue *key = node->inputs[1];
  const RlxIrValue *value = node->inputs[2];
  const RlxIrValue *mask = node->n_inputs > 3 ? node->inputs[3] : NULL;
  const RlxIrValue *y = &node->outputs[0];
  const gint64 *dims = query->type.dims;
  guint64 n_keys = key->type.dims[SEQUENCE];
  guint64 columns = value->type.dims[WIDTH];
  double scale = rlx_node_attr (node, "scale")->f;
  gboolean causal = rlx_node_attr (node, "causal")->i != 0;
  guint64 tile_q, tile_v, tiles, chunks, n_heads, n_groups;
  double n_scores;
  RlxKernel *kernel;

  if (rlx_type_n_elements (&y->type) == 0)
    return TRUE;

  if (scale == 0.0)
    scale = dims[WIDTH] > 0 ? 1.0 / sqrt ((double) dims[WIDTH]) : 1.0;
  tile_q = dims[SEQUENCE] == 1 ? 1 : 8;
  tile_v = columns > WORKGROUP_SIZE ? 2 : 1;
  tiles = (dims[SEQUENCE] - 1) / tile_q + 1;
  chunks = (columns - 1) / (WORKGROUP_SIZE * tile_v) + 1;
  n_heads = dims[BATCH] * dims[HEADS];
  n_groups = n_heads * tiles * chunks;

  kernel = rlx_kernel_new (lower, node, "attention");
  rlx_kernel_define (kernel, "WG", WORKGROUP_SIZE);
  rlx_kernel_define (kernel, "TQ", tile_q);
  rlx_kernel_define (kernel, "TV", tile_v);
  rlx_kernel_define (kernel, "CAUSAL", causal);
  rlx_kernel_define (kernel, "KEYS", n_keys > 0);
  rlx_kernel_define (kernel, "SCORES", dims[WIDTH] > 0);
  rlx_kernel_define (kernel, "MASK", mask == NULL ? 0 : rlx_data_type_is_float (mask->type.dtype) ? 1 : 2);

  rlx_kernel_param_u32 (kernel, "groups", n_groups);
  rlx_kernel_param_u32 (kernel, "tiles", tiles);
  rlx_kernel_param_u32 (kernel, "chunks", chunks);
  rlx_kernel_param_u32 (kernel, "queries", dims[SEQUENCE]);
  rlx_kernel_param_u32 (kernel, "columns", columns);

  /* A tensor without elements is not worth a binding. */
  if (n_keys > 0)
    {
      if (dims[WIDTH] > 0)
        {
          rlx_kernel_input (kernel, "query", query);
          rlx_kernel_input (kernel, "key", key);
          rlx_kernel_param_u32 (kernel, "width", dims[WIDTH]);
        }
      rlx_kernel_input (kernel, "value", value);
      rlx_kernel_param_u32 (kernel, "keys", n_keys);
      rlx_kernel_param_u32 (kernel, "share", dims[HEADS] / key->type.dims[HEADS]);
      rlx_kernel_param_f32 (kernel, "scale", scale);

      if (mask != NULL)
        {
          static const char *const names[RANK] = { "mask_batch", "mask_head", "mask_query", "mask_key" };
          guint64 stride = 1;

          rlx_kernel_input (kernel, "mask", mask);
          rlx_kernel_param_u32 (kernel, "heads", dims[HEADS]);
          for (guint i = 0; i < RANK; i++)
            {
              guint64 dim = i < mask->type.rank ? mask->type.dims[mask->type.rank - 1 - i] : 1;

              rlx_kernel_param_u32 (kernel, names[RANK - 1 - i], dim == 1 ? 0 : stride);
              stride *= dim;
            }
        }
    }
  rlx_kernel_output (kernel, "y", y);

  n_scores = (double) n_heads * (double) dims[SEQUENCE] * (double) n_keys;
  rlx_kernel_set_cost (kernel,
                       2.0 * n_scores * ((double) dims[WIDTH] * (double) chunks + (double) columns) * (causal ? 0.5 : 1.0),
                       (double) rlx_type_n_bytes (&query->type) + (double) rlx_type_n_bytes (&key->type) +
                       (double) rlx_type_n_bytes (&value->type) + (double) rlx_type_n_bytes (&y->type) +
                       (mask ? (double) rlx_type_n_bytes (&mask->type) : 0.0));
  return rlx_kernel_dispatch (kernel, n_groups, error);
}
