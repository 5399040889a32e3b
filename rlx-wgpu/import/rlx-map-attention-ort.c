/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The attention of ONNX Runtime's own operators.
 */
#include "config.h"

#include "import/rlx-heads-private.h"

/* The mask of Attention and MultiHeadAttention, to be added to the scores. The input contains numbers of keys, their ends and
 * starts, or a mask of 2 to 4 dimensions. */
static gboolean
get_ort_mask (RlxMapCall *call,
              guint       index,
              RlxNode    *q,
              gint64      past,
              gint64      total,
              double      filter,
              RlxNode   **mask,
              GError    **error)
{
  RlxNode *node, *shown = NULL;
  gint64 batch = rlx_heads_get_dim (q, 0), queries = rlx_heads_get_dim (q, 2);
  gint64 n;

  *mask = NULL;
  if (!rlx_map_has_input (call, index))
    return TRUE;
  node = rlx_map_input (call, index, FALSE, error);
  if (node == NULL)
    return FALSE;

  n = rlx_heads_get_dim (node, 0);
  switch (rlx_node_get_n_dims (node))
    {
    case 1:
      {
        RlxNode *range = rlx_heads_constant_range (call, total, error);
        RlxNode *ends = rlx_heads_reshape4 (call, rlx_heads_slice (call, node, 0, 0, batch, error), batch, 1, 1, 1, error);

        if (n != batch && n != 2 * batch && n != 3 * batch + 2)
          return rlx_map_refused (error, "%s: a mask of %" G_GINT64_FORMAT " elements for %" G_GINT64_FORMAT " batches", call->node->op, n, batch);
        shown = rlx_heads_op2 (call, "less", range, ends, NULL, error);
        if (n == 2 * batch)
          {
            RlxNode *starts = rlx_heads_reshape4 (call, rlx_heads_slice (call, node, 0, batch, 2 * batch, error), batch, 1, 1, 1, error);

            shown = rlx_heads_op2 (call, "logical_and", shown, rlx_heads_op2 (call, "greater_equal", range, starts, NULL, error), NULL, error);
          }
        break;
      }
    case 2:
      if (rlx_heads_get_dim (node, 1) != total)
        return rlx_map_unsupported (error, "%s with a mask that leaves keys out", call->node->op);
      shown = rlx_heads_reshape4 (call, rlx_map_cast (call, node, RLX_DATA_TYPE_BOOL, error), n, 1, 1, total, error);
      break;
    case 3:
      shown = rlx_heads_reshape4 (call, rlx_map_cast (call, node, RLX_DATA_TYPE_BOOL, error), n, 1, rlx_heads_get_dim (node, 1), rlx_heads_get_dim (node, 2), error);
      break;
    case 4:
      shown = rlx_heads_slice (call, rlx_map_cast (call, node, RLX_DATA_TYPE_BOOL, error), 2, past, past + queries, error);
      shown = rlx_heads_slice (call, shown, 3, 0, total, error);
      break;
    default:
      return rlx_map_refused (error, "%s: a mask of %u dimensions", call->node->op, rlx_node_get_n_dims (node));
    }

  *mask = rlx_heads_make_bias (call, shown, rlx_node_get_data_type (q), filter, error);
  return *mask != NULL;
}

/* Adds input @index to the mask. */
static gboolean
add_ort_bias (RlxMapCall *call,
              guint       index,
              RlxNode   **mask,
              GError    **error)
{
  RlxNode *bias;

  if (!rlx_map_has_input (call, index))
    return TRUE;
  bias = rlx_map_input (call, index, FALSE, error);
  if (bias != NULL && *mask != NULL)
    bias = rlx_heads_op2 (call, "add", *mask, bias, NULL, error);
  *mask = bias;
  return bias != NULL;
}

/* Part @index of @n along @axis, which is removed. */
static RlxNode *
take_part (RlxMapCall *call,
           RlxNode    *node,
           gint64      axis,
           gint64      index,
           GError    **error)
{
  gint64 shape[8];
  gsize n_dims, n = 0;
  const gint64 *is = rlx_node_get_shape (node, &n_dims);

  for (gsize i = 0; i < n_dims; i++)
    if ((gint64) i != axis)
      shape[n++] = is[i];
  node = rlx_heads_slice (call, node, axis, index, index + 1, error);
  return node != NULL ? rlx_map_reshape (call, node, shape, n, error) : NULL;
}

/* Query, key and value of MultiHeadAttention, packed or not, with their bias. */
static gboolean
get_multi_heads (RlxMapCall *call,
                 RlxHeads   *heads,
                 gint64      n_heads,
                 GError    **error)
{
  RlxNode *parts[3] = { rlx_map_input (call, 0, FALSE, error), NULL, NULL };
  RlxNode *bias = NULL;
  gint64 offset = 0;

  if (parts[0] == NULL ||
      (rlx_map_has_input (call, 1) && (parts[1] = rlx_map_input (call, 1, FALSE, error)) == NULL) ||
      (rlx_map_has_input (call, 2) && (parts[2] = rlx_map_input (call, 2, FALSE, error)) == NULL) ||
      (rlx_map_has_input (call, 3) && (bias = rlx_map_input (call, 3, FALSE, error)) == NULL))
    return FALSE;

  /* [batch, sequence, heads, 3, width], or [batch, sequence, 3 * heads * width] */
  if (parts[1] == NULL)
    {
      RlxNode *packed = parts[0];
      gboolean apart = rlx_node_get_n_dims (packed) == 5;
      gint64 width = rlx_heads_get_dim (packed, 2) / 3;

      for (guint i = 0; i < 3; i++)
        {
          parts[i] = apart ? take_part (call, packed, 3, i, error)
                           : rlx_heads_slice (call, packed, 2, i * width, (i + 1) * width, error);
          if (parts[i] == NULL)
            return FALSE;
        }
    }
  /* [batch, sequence, heads, 2, width] */
  else if (parts[2] == NULL)
    {
      RlxNode *packed = parts[1];

      if (rlx_node_get_n_dims (packed) != 5)
        return rlx_map_refused (error, "%s: there is no value", call->node->op);
      parts[1] = take_part (call, packed, 3, 0, error);
      parts[2] = parts[1] != NULL ? take_part (call, packed, 3, 1, error) : NULL;
      if (parts[2] == NULL)
        return FALSE;
    }

  for (guint i = 0; i < 3; i++)
    {
      gboolean flat = rlx_node_get_n_dims (parts[i]) == 3;
      /* a four-dimensional key that was not packed has its heads before the sequence */
      gboolean first = !flat && i > 0 && rlx_map_has_input (call, 2);

      if (flat && bias != NULL)
        {
          gint64 n = rlx_heads_get_dim (parts[i], 2);

          parts[i] = rlx_heads_op2 (call, "add", parts[i], rlx_heads_slice (call, bias, 0, offset, offset + n, error), NULL, error);
          offset += n;
        }
      else if (bias != NULL && !first)
        {
          gint64 n = rlx_heads_get_dim (parts[i], 2) * rlx_heads_get_dim (parts[i], 3);
          RlxNode *own = rlx_heads_slice (call, bias, 0, offset, offset + n, error);

          own = own != NULL ? rlx_map_reshape (call, own, (gint64[]) { rlx_heads_get_dim (parts[i], 2), rlx_heads_get_dim (parts[i], 3) }, 2, error) : NULL;
          parts[i] = rlx_heads_op2 (call, "add", parts[i], own, NULL, error);
          offset += n;
        }
      if (flat)
        parts[i] = rlx_heads_split_heads (call, parts[i], n_heads, error);
      else if (!first)
        parts[i] = rlx_heads_swap_heads (call, parts[i], error);
      if (parts[i] == NULL)
        return FALSE;
    }
  heads->q = parts[0];
  heads->k = parts[1];
  heads->v = parts[2];
  return TRUE;
}

gboolean
rlx_ort_map_multi_head_attention (RlxMapCall *call,
                                  GError    **error)
{
  RlxHeads heads = { NULL };
  gint64 n_heads, past = 0;
  gboolean unidirectional;
  double filter;

  if (!rlx_map_arg_int (call, "num_heads", 0, &n_heads, error) ||
      !rlx_map_arg_double (call, "mask_filter_value", -10000, &filter, error) ||
      !rlx_map_arg_double (call, "scale", 0, &heads.scale, error) ||
      !rlx_map_arg_bool (call, "unidirectional", FALSE, &unidirectional, error) ||
      !get_multi_heads (call, &heads, n_heads, error))
    return FALSE;
  if (rlx_map_has_input (call, 8) || rlx_map_has_input (call, 9))
    return rlx_map_unsupported (error, "MultiHeadAttention with a shared cache");
  /* As in ONNX Runtime's own tests, the past is ignored unless something indicates that it is used: either the resulting keys
   * are requested, or there is a mask or a bias for each of them. */
  if ((rlx_map_has_input (call, 6) || rlx_map_has_input (call, 7)) &&
      (rlx_map_wants_output (call, 1) || rlx_map_wants_output (call, 2) || rlx_map_has_input (call, 4) || rlx_map_has_input (call, 5)))
    {
      RlxNode *past_key = rlx_map_input (call, 6, FALSE, error);
      RlxNode *past_value = past_key != NULL ? rlx_map_input (call, 7, FALSE, error) : NULL;

      if (past_value == NULL)
        return FALSE;
      past = rlx_heads_get_dim (past_key, 2);
      heads.k = rlx_heads_join (call, past_key, heads.k, 2, error);
      heads.v = rlx_heads_join (call, past_value, heads.v, 2, error);
      if (heads.k == NULL || heads.v == NULL)
        return FALSE;
    }
  else
    {
      rlx_map_ignore_input (call, 6);
      rlx_map_ignore_input (call, 7);
    }
  if (!get_ort_mask (call, 4, heads.q, past, rlx_heads_get_dim (heads.k, 2), filter, &heads.mask, error) ||
      !add_ort_bias (call, 5, &heads.mask, error))
    return FALSE;
  heads.causal = unidirectional;

  return rlx_map_return (call, 0, rlx_heads_merge_heads (call, rlx_heads_attend (call, &heads, error), error)) &&
         rlx_map_return (call, 1, heads.k) &&
         rlx_map_return (call, 2, heads.v) &&
         (!rlx_map_wants_output (call, 3) || rlx_map_return (call, 3, rlx_heads_get_products (call, &heads, error)));
}

gboolean
rlx_ort_map_attention (RlxMapCall *call,
                       GError    **error)
{
  RlxNode *input = rlx_map_input (call, 0, FALSE, error);
  RlxNode *weights = input != NULL ? rlx_map_input (call, 1, FALSE, error) : NULL;
  RlxNode *operands[3] = { input, weights, NULL };
  RlxNode *all;
  g_autofree gint64 *sizes = NULL;
  RlxHeads heads = { NULL };
  gint64 n_heads, past = 0;
  gboolean unidirectional, rotary;
  gsize n_sizes;
  double filter;

  if (weights == NULL ||
      !rlx_map_arg_int (call, "num_heads", 0, &n_heads, error) ||
      !rlx_map_arg_double (call, "mask_filter_value", -10000, &filter, error) ||
      !rlx_map_arg_double (call, "scale", 0, &heads.scale, error) ||
      !rlx_map_arg_bool (call, "do_rotary", FALSE, &rotary, error) ||
      !rlx_map_arg_bool (call, "unidirectional", FALSE, &unidirectional, error))
    return FALSE;
  if (rlx_map_has_input (call, 6))
    return rlx_map_unsupported (error, "Attention with a shared cache");
  if (rlx_map_arg (call, "qkv_hidden_sizes") != NULL)
    {
      sizes = rlx_map_arg_ints (call, "qkv_hidden_sizes", &n_sizes, error);
      if (sizes == NULL)
        return FALSE;
      if (n_sizes != 3)
        return rlx_map_refused (error, "Attention: there are %" G_GSIZE_FORMAT " sizes, not 3", n_sizes);
    }
  else
    {
      sizes = g_new (gint64, 3);
      for (guint i = 0; i < 3; i++)
        sizes[i] = rlx_heads_get_dim (weights, 1) / 3;
    }

  if (rlx_map_has_input (call, 2) && (operands[2] = rlx_map_input (call, 2, FALSE, error)) == NULL)
    return FALSE;
  all = rlx_map_op (call, "linear", operands, 3, NULL, error);
  heads.q = rlx_heads_split_heads (call, rlx_heads_slice (call, all, 2, 0, sizes[0], error), n_heads, error);
  heads.k = rlx_heads_split_heads (call, rlx_heads_slice (call, all, 2, sizes[0], sizes[0] + sizes[1], error), n_heads, error);
  heads.v = rlx_heads_split_heads (call, rlx_heads_slice (call, all, 2, sizes[0] + sizes[1], sizes[0] + sizes[1] + sizes[2], error), n_heads, error);
  if (heads.q == NULL || heads.k == NULL || heads.v == NULL)
    return FALSE;

  if (rlx_map_has_input (call, 4))
    {
      RlxNode *both = rlx_map_input (call, 4, FALSE, error);

      if (both == NULL)
        return FALSE;
      past = rlx_heads_get_dim (both, 3);
      heads.k = rlx_heads_join (call, take_part (call, both, 0, 0, error), heads.k, 2, error);
      heads.v = rlx_heads_join (call, take_part (call, both, 0, 1, error), heads.v, 2, error);
      if (heads.k == NULL || heads.v == NULL)
        return FALSE;
    }
  if (rotary)
    return rlx_map_unsupported (error, "Attention with rotary positions");
  if (!get_ort_mask (call, 3, heads.q, past, rlx_heads_get_dim (heads.k, 2), filter, &heads.mask, error) ||
      !add_ort_bias (call, 5, &heads.mask, error))
    return FALSE;
  heads.causal = unidirectional;

  if (rlx_map_wants_output (call, 1))
    {
      gint64 b = rlx_heads_get_dim (heads.k, 0), h = rlx_heads_get_dim (heads.k, 1), t = rlx_heads_get_dim (heads.k, 2), w = rlx_heads_get_dim (heads.k, 3);
      RlxNode *k = rlx_map_reshape (call, heads.k, (gint64[]) { 1, b, h, t, w }, 5, error);
      RlxNode *v = k != NULL ? rlx_map_reshape (call, heads.v, (gint64[]) { 1, b, h, t, w }, 5, error) : NULL;

      if (!rlx_map_return (call, 1, rlx_heads_join (call, k, v, 0, error)))
        return FALSE;
    }
  return rlx_map_return (call, 0, rlx_heads_merge_heads (call, rlx_heads_attend (call, &heads, error), error));
}

/* Joins rows @from and @own of each batch: the first @lengths rows of @from, then all of @own, then zeros up to @total. */
static RlxNode *
append_rows (RlxMapCall   *call,
             RlxNode      *from,
             RlxNode      *own,
             const gint64 *lengths,
             gint64        total,
             GError      **error)
{
  gint64 batch = rlx_heads_get_dim (own, 0);
  RlxNode *all = NULL;

  for (gint64 b = 0; b < batch; b++)
    {
      RlxNode *rows = rlx_heads_slice (call, own, 0, b, b + 1, error);
      gint64 after = total - lengths[b] - rlx_heads_get_dim (own, 2);

      if (from != NULL && lengths[b] > 0)
        rows = rlx_heads_join (call, rlx_heads_slice (call, rlx_heads_slice (call, from, 0, b, b + 1, error), 2, 0, lengths[b], error), rows, 2, error);
      if (after > 0)
        rows = rlx_heads_op1 (call, "pad", rows,
                              rlx_map_attrs ("before", rlx_map_ints ((gint64[]) { 0, 0, 0, 0 }, 4),
                                             "after", rlx_map_ints ((gint64[]) { 0, 0, after, 0 }, 4), NULL),
                              error);
      all = b == 0 ? rows : rlx_heads_join (call, all, rows, 0, error);
    }
  return all;
}

/* Rotates new queries or keys by their positions. */
static RlxNode *
turn (RlxMapCall *call,
      RlxNode    *node,
      RlxNode    *positions,
      gboolean    interleaved,
      GError    **error)
{
  RlxNode *cosines = rlx_map_input (call, 7, FALSE, error);
  RlxNode *sines = cosines != NULL ? rlx_map_input (call, 8, FALSE, error) : NULL;

  if (node == NULL || positions == NULL || sines == NULL)
    return NULL;
  return rlx_map_op (call, "rope", (RlxNode *[]) { node, positions, cosines, sines }, 4,
                     rlx_map_attrs ("interleaved", g_variant_new_boolean (interleaved),
                                    "rotated", g_variant_new_int64 (2 * rlx_heads_get_dim (cosines, 1)), NULL),
                     error);
}

/* The positions of the queries of each batch, from input 9 or following the past. */
static RlxNode *
get_positions (RlxMapCall   *call,
               const gint64 *lengths,
               gint64        batch,
               gint64        queries,
               GError      **error)
{
  g_autofree gint32 *values = NULL;

  if (rlx_map_has_input (call, 9))
    {
      RlxNode *positions = rlx_map_input (call, 9, FALSE, error);

      return positions != NULL ? rlx_map_cast (call, positions, RLX_DATA_TYPE_I32, error) : NULL;
    }
  if (queries > 0 && batch > (1 << 24) / queries)
    {
      g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_LIMIT, "there are more than %d positions", 1 << 24);
      return NULL;
    }
  values = g_new0 (gint32, (gsize) (batch * queries) + 1);
  for (gint64 b = 0; b < batch; b++)
    for (gint64 i = 0; i < queries; i++)
      values[b * queries + i] = (gint32) (lengths[b] + i);
  return rlx_heads_constant_ints (call, values, (gint64[]) { batch, queries }, 2, error);
}

gboolean
rlx_ort_map_group_query_attention (RlxMapCall *call,
                                   GError    **error)
{
  RlxNode *query = rlx_map_input (call, 0, FALSE, error);
  RlxNode *key = NULL, *value = NULL, *past_key = NULL, *past_value = NULL;
  g_autofree gint64 *lengths = NULL;
  g_autofree gint64 *totals = NULL;
  g_autofree gint32 *counts = NULL;
  RlxHeads heads = { .causal = TRUE };
  gint64 n_heads, kv_heads, window, batch, queries, present;
  gsize n_lengths, n_totals;
  gboolean rotary, interleaved, smooth, full = TRUE;

  if (query == NULL ||
      !rlx_map_arg_int (call, "num_heads", 0, &n_heads, error) ||
      !rlx_map_arg_int (call, "kv_num_heads", 0, &kv_heads, error) ||
      !rlx_map_arg_int (call, "local_window_size", -1, &window, error) ||
      !rlx_map_arg_double (call, "scale", 0, &heads.scale, error) ||
      !rlx_map_arg_double (call, "softcap", 0, &heads.softcap, error) ||
      !rlx_map_arg_bool (call, "do_rotary", FALSE, &rotary, error) ||
      !rlx_map_arg_bool (call, "rotary_interleaved", FALSE, &interleaved, error) ||
      !rlx_map_arg_bool (call, "smooth_softmax", FALSE, &smooth, error) ||
      (lengths = rlx_map_input_ints (call, 5, &n_lengths, error)) == NULL ||
      (totals = rlx_map_input_ints (call, 6, &n_totals, error)) == NULL)
    return FALSE;
  batch = rlx_heads_get_dim (query, 0);
  queries = rlx_heads_get_dim (query, 1);
  if (n_heads < 1 || kv_heads < 1 || (gint64) n_lengths != batch || n_totals != 1)
    return rlx_map_refused (error, "GroupQueryAttention: %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT " heads, %" G_GSIZE_FORMAT " lengths",
                            n_heads, kv_heads, n_lengths);

  if (rlx_map_has_input (call, 1))
    {
      key = rlx_map_input (call, 1, FALSE, error);
      value = key != NULL ? rlx_map_input (call, 2, FALSE, error) : NULL;
      if (value == NULL)
        return FALSE;
    }
  else
    {
      gint64 width = rlx_heads_get_dim (query, 2) / (n_heads + 2 * kv_heads);
      RlxNode *packed = query;

      query = rlx_heads_slice (call, packed, 2, 0, n_heads * width, error);
      key = rlx_heads_slice (call, packed, 2, n_heads * width, (n_heads + kv_heads) * width, error);
      value = rlx_heads_slice (call, packed, 2, (n_heads + kv_heads) * width, (n_heads + 2 * kv_heads) * width, error);
    }
  heads.q = rlx_heads_split_heads (call, query, n_heads, error);
  heads.k = rlx_heads_split_heads (call, key, kv_heads, error);
  heads.v = rlx_heads_split_heads (call, value, kv_heads, error);
  if (heads.q == NULL || heads.k == NULL || heads.v == NULL)
    return FALSE;

  if (rlx_map_has_input (call, 3))
    {
      past_key = rlx_map_input (call, 3, FALSE, error);
      past_value = past_key != NULL ? rlx_map_input (call, 4, FALSE, error) : NULL;
      if (past_value == NULL)
        return FALSE;
    }
  /* The given lengths are those of all keys but the last; convert them to those of the past. */
  present = MAX (totals[0], past_key != NULL ? rlx_heads_get_dim (past_key, 2) : 0);
  counts = g_new0 (gint32, (gsize) batch + 1);
  for (gint64 b = 0; b < batch; b++)
    {
      lengths[b] = queries == totals[0] ? 0 : lengths[b] + 1 - queries;
      if (lengths[b] < 0 || lengths[b] > (past_key != NULL ? rlx_heads_get_dim (past_key, 2) : 0) || lengths[b] + queries > present)
        return rlx_map_refused (error, "GroupQueryAttention: %" G_GINT64_FORMAT " keys came before", lengths[b]);
      counts[b] = (gint32) (lengths[b] + queries);
      full = full && counts[b] == present;
    }
  if (rotary)
    {
      RlxNode *positions = get_positions (call, lengths, batch, queries, error);

      heads.q = turn (call, heads.q, positions, interleaved, error);
      heads.k = turn (call, heads.k, positions, interleaved, error);
      if (heads.q == NULL || heads.k == NULL)
        return FALSE;
    }
  heads.k = append_rows (call, past_key, heads.k, lengths, present, error);
  heads.v = append_rows (call, past_value, heads.v, lengths, present, error);
  if (heads.k == NULL || heads.v == NULL ||
      (!full && (heads.lengths = rlx_heads_constant_ints (call, counts, &batch, 1, error)) == NULL) ||
      !add_ort_bias (call, 10, &heads.mask, error))
    return FALSE;
  /* The attribute does not count the query's own position. */
  heads.window = window >= 0 ? window + 1 : 0;
  if (rlx_map_has_input (call, 11))
    {
      heads.sink = rlx_map_input (call, 11, FALSE, error);
      if (heads.sink == NULL)
        return FALSE;
    }
  else if (smooth)
    {
      const gint64 one = 1;

      heads.sink = rlx_heads_constant_scalar (call, rlx_node_get_data_type (heads.q), 0, error);
      heads.sink = heads.sink != NULL ? rlx_map_reshape (call, heads.sink, &one, 1, error) : NULL;
      if (heads.sink == NULL)
        return FALSE;
    }
  if (rlx_map_wants_output (call, 3))
    return rlx_map_unsupported (error, "the products of GroupQueryAttention");

  return rlx_map_return (call, 0, rlx_heads_merge_heads (call, rlx_heads_attend (call, &heads, error), error)) &&
         rlx_map_return (call, 1, heads.k) &&
         rlx_map_return (call, 2, heads.v);
}
