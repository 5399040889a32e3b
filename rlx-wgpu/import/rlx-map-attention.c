/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Rotary positions of every family, and the attention of ONNX.
 */
#include "config.h"

#include "import/rlx-heads-private.h"

#include <math.h>

/* ---- rotary positions --------------------------------------------------------------------- */

static gboolean
map_rotary (RlxMapCall *call,
            RlxNode    *x,
            RlxNode    *positions,
            RlxNode    *cosines,
            RlxNode    *sines,
            gint64      n_heads,
            gint64      rotated,
            gboolean    interleaved,
            GError    **error)
{
  gboolean flat = rlx_node_get_n_dims (x) == 3;
  RlxNode *y = x;
  gint64 width;

  if (flat)
    {
      gint64 hidden = rlx_heads_get_dim (x, 2);

      /* without a number of heads, the tables determine their width */
      width = n_heads > 0 ? hidden / n_heads : 2 * rlx_heads_get_dim (cosines, (gint64) rlx_node_get_n_dims (cosines) - 1);
      if (width < 1 || hidden % width != 0)
        return rlx_map_refused (error, "%s: %" G_GINT64_FORMAT " columns do not make heads", call->node->op, hidden);
      y = rlx_heads_reshape4 (call, x, rlx_heads_get_dim (x, 0), rlx_heads_get_dim (x, 1), hidden / width, width, error);
    }
  if (y == NULL)
    return FALSE;
  y = rlx_map_op (call, "rope", (RlxNode *[]) { y, positions, cosines, sines }, 4,
                  rlx_map_attrs ("interleaved", g_variant_new_boolean (interleaved),
                                 "rotated", g_variant_new_int64 (rotated),
                                 "layout", g_variant_new_string (flat ? "sequence-first" : "heads-first"), NULL),
                  error);
  if (y != NULL && flat)
    {
      gsize n_dims;
      const gint64 *shape = rlx_node_get_shape (x, &n_dims);

      y = rlx_map_reshape (call, y, shape, n_dims, error);
    }
  return rlx_map_return (call, 0, y);
}

gboolean
rlx_onnx_map_rotary_embedding (RlxMapCall *call,
                               GError    **error)
{
  RlxNode *x = rlx_map_input (call, 0, FALSE, error);
  RlxNode *cosines = x != NULL ? rlx_map_input (call, 1, FALSE, error) : NULL;
  RlxNode *sines = cosines != NULL ? rlx_map_input (call, 2, FALSE, error) : NULL;
  RlxNode *positions = NULL;
  gint64 n_heads, rotated;
  gboolean interleaved;

  if (sines == NULL ||
      !rlx_map_arg_int (call, "num_heads", 0, &n_heads, error) ||
      !rlx_map_arg_int (call, "rotary_embedding_dim", 0, &rotated, error) ||
      !rlx_map_arg_bool (call, "interleaved", FALSE, &interleaved, error))
    return FALSE;
  if (rlx_map_has_input (call, 3))
    {
      positions = rlx_map_input (call, 3, FALSE, error);
      positions = positions != NULL ? rlx_map_cast (call, positions, RLX_DATA_TYPE_I32, error) : NULL;
      if (positions == NULL)
        return FALSE;
    }
  return map_rotary (call, x, positions, cosines, sines, n_heads, rotated, interleaved, error);
}

gboolean
rlx_ort_map_rotary_embedding (RlxMapCall *call,
                              GError    **error)
{
  RlxNode *x = rlx_map_input (call, 0, FALSE, error);
  RlxNode *positions = x != NULL ? rlx_map_input (call, 1, FALSE, error) : NULL;
  RlxNode *cosines = positions != NULL ? rlx_map_input (call, 2, FALSE, error) : NULL;
  RlxNode *sines = cosines != NULL ? rlx_map_input (call, 3, FALSE, error) : NULL;
  gint64 n_heads, rotated;
  gboolean interleaved;

  if (sines == NULL ||
      !rlx_map_arg_int (call, "num_heads", 0, &n_heads, error) ||
      !rlx_map_arg_int (call, "rotary_embedding_dim", 0, &rotated, error) ||
      !rlx_map_arg_bool (call, "interleaved", FALSE, &interleaved, error))
    return FALSE;

  positions = rlx_map_cast (call, positions, RLX_DATA_TYPE_I32, error);
  /* A single position is that of the first token. */
  if (positions != NULL && rlx_node_get_n_dims (positions) < 2)
    {
      RlxNode *range = rlx_heads_constant_range (call, rlx_heads_get_dim (x, (gint64) rlx_node_get_n_dims (x) - 2), error);

      positions = rlx_heads_op2 (call, "add", range, positions, NULL, error);
    }
  if (positions == NULL)
    return FALSE;
  return map_rotary (call, x, positions, cosines, sines, n_heads, rotated, interleaved, error);
}

/* ---- ONNX ------------------------------------------------------------------------------------ */

/* The mask of input 3, extended to all @total keys: those it does not cover are hidden. */
static gboolean
get_onnx_mask (RlxMapCall *call,
               gint64      total,
               RlxNode   **mask,
               GError    **error)
{
  RlxNode *node;
  gsize n_dims;
  gint64 after[8] = { 0 };
  const gint64 before[8] = { 0 };

  *mask = NULL;
  if (!rlx_map_has_input (call, 3))
    return TRUE;
  node = rlx_map_input (call, 3, FALSE, error);
  if (node == NULL)
    return FALSE;
  n_dims = rlx_node_get_n_dims (node);
  if (n_dims > 0 && n_dims <= 4 && rlx_heads_get_dim (node, (gint64) n_dims - 1) < total && rlx_heads_get_dim (node, (gint64) n_dims - 1) > 1)
    {
      RlxDataType data_type = rlx_node_get_data_type (node);
      RlxNode *value = rlx_heads_constant_scalar (call, data_type, data_type == RLX_DATA_TYPE_BOOL ? 0 : -INFINITY, error);

      after[n_dims - 1] = total - rlx_heads_get_dim (node, (gint64) n_dims - 1);
      node = rlx_heads_op2 (call, "pad", node, value, rlx_map_attrs ("before", rlx_map_ints (before, n_dims), "after", rlx_map_ints (after, n_dims), NULL), error);
    }
  *mask = node;
  return node != NULL;
}

/* The position of each query among the keys: after @past keys, or at the end of the valid keys of each batch. */
static RlxNode *
get_places (RlxMapCall     *call,
            const RlxHeads *heads,
            gint64          past,
            GError        **error)
{
  gint64 batch = rlx_heads_get_dim (heads->q, 0), queries = rlx_heads_get_dim (heads->q, 2);
  RlxNode *places = rlx_heads_reshape4 (call, rlx_heads_constant_range (call, queries, error), 1, 1, queries, 1, error);

  if (heads->lengths == NULL || past > 0)
    return rlx_heads_op2 (call, "add", places, rlx_heads_constant_scalar (call, RLX_DATA_TYPE_I32, (double) past, error), NULL, error);
  places = rlx_heads_op2 (call, "add", places, rlx_heads_reshape4 (call, heads->lengths, batch, 1, 1, 1, error), NULL, error);
  return rlx_heads_op2 (call, "sub", places, rlx_heads_constant_scalar (call, RLX_DATA_TYPE_I32, (double) queries, error), NULL, error);
}

/* Hides keys that are more than @left before the position of a query or more than @right after it; -1 is no limit. */
static gboolean
hide_beyond (RlxMapCall *call,
             RlxHeads   *heads,
             gint64      past,
             gint64      left,
             gint64      right,
             GError    **error)
{
  const struct { gint64 size; int sign; const char *op; } sides[] = {
    { left, -1, "greater_equal" }, { right, 1, "less_equal" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (sides); i++)
    {
      RlxNode *end, *shown;

      if (sides[i].size < 0)
        continue;
      end = rlx_heads_op2 (call, "add", get_places (call, heads, past, error),
                           rlx_heads_constant_scalar (call, RLX_DATA_TYPE_I32, sides[i].sign * (double) sides[i].size, error), NULL, error);
      shown = rlx_heads_op2 (call, sides[i].op, rlx_heads_constant_range (call, rlx_heads_get_dim (heads->k, 2), error), end, NULL, error);
      if (heads->mask == NULL)
        heads->mask = shown;
      else if (rlx_node_get_data_type (heads->mask) == RLX_DATA_TYPE_BOOL)
        heads->mask = rlx_heads_op2 (call, "logical_and", heads->mask, shown, NULL, error);
      else
        heads->mask = rlx_heads_op2 (call, "add", heads->mask,
                                     rlx_heads_make_bias (call, shown, rlx_node_get_data_type (heads->mask), -INFINITY, error), NULL, error);
      if (heads->mask == NULL)
        return FALSE;
    }
  return TRUE;
}

/* The mask in the form that is added, with all hidden keys at -∞. */
static RlxNode *
get_full_bias (RlxMapCall     *call,
               const RlxHeads *heads,
               GError        **error)
{
  RlxDataType data_type = rlx_node_get_data_type (heads->q);
  RlxNode *bias = heads->mask;

  if (bias != NULL && rlx_node_get_data_type (bias) == RLX_DATA_TYPE_BOOL)
    bias = rlx_heads_make_bias (call, bias, data_type, -INFINITY, error);
  if (heads->lengths != NULL)
    {
      RlxNode *range = rlx_heads_constant_range (call, rlx_heads_get_dim (heads->k, 2), error);
      RlxNode *lengths = rlx_heads_reshape4 (call, heads->lengths, rlx_heads_get_dim (heads->q, 0), 1, 1, 1, error);
      RlxNode *shown = rlx_heads_op2 (call, "less", range, lengths, NULL, error);

      if (heads->causal)
        shown = rlx_heads_op2 (call, "logical_and", shown,
                               rlx_heads_op2 (call, "less_equal", range, get_places (call, heads, 0, error), NULL, error), NULL, error);
      shown = rlx_heads_make_bias (call, shown, data_type, -INFINITY, error);
      bias = bias != NULL ? rlx_heads_op2 (call, "add", bias, shown, NULL, error) : shown;
    }
  return bias;
}

/* Like softmax, but the weights of a query that sees no key are 0. */
static RlxNode *
get_weights (RlxMapCall *call,
             RlxNode    *scores,
             GError    **error)
{
  RlxNode *weights = rlx_heads_op1 (call, "softmax", scores, rlx_map_attrs ("axis", g_variant_new_int64 (-1), NULL), error);
  RlxNode *most = rlx_heads_op1 (call, "reduce_max", scores,
                                 rlx_map_attrs ("axes", rlx_map_ints ((gint64[]) { -1 }, 1), "keep_dims", g_variant_new_boolean (TRUE), NULL), error);
  RlxNode *none = weights != NULL && most != NULL
                    ? rlx_heads_constant_scalar (call, rlx_node_get_data_type (scores), -INFINITY, error) : NULL;
  RlxNode *blind = rlx_heads_op2 (call, "equal", most, none, NULL, error);
  RlxNode *zero = blind != NULL ? rlx_heads_constant_scalar (call, rlx_node_get_data_type (scores), 0, error) : NULL;

  return zero != NULL ? rlx_map_op (call, "where", (RlxNode *[]) { blind, zero, weights }, 3, NULL, error) : NULL;
}

/* Returns the intermediate scores, and sets @result if its steps are in another order than the operator's. Originally, the soft
 * cap came after the mask; when that order changed, modes 1 and 2 were swapped. Before opset 25, either numbering may be meant.
 * Mode 1 without a cap and mode 2 with one only make sense with the old numbers: masked scores, and capped scores. */
static gboolean
return_scores (RlxMapCall     *call,
               const RlxHeads *heads,
               gint64          mode,
               RlxNode       **result,
               GError        **error)
{
  gboolean capped = heads->softcap > 0;
  gboolean limit_last = capped && mode == 2 && call->opset < 25;
  gboolean has_bias = heads->mask != NULL || heads->lengths != NULL;
  RlxNode *bias = has_bias ? get_full_bias (call, heads, error) : NULL;
  RlxNode *scores = rlx_heads_get_products (call, heads, error);
  RlxNode *wanted = scores;

  if (scores == NULL || (has_bias && bias == NULL))
    return FALSE;
  if (capped && !limit_last)
    scores = rlx_heads_limit_scores (call, scores, heads->softcap, error);
  if (mode == 1)
    wanted = scores;
  if (bias != NULL)
    scores = rlx_heads_op2 (call, "add", scores, bias, NULL, error);
  if (mode == 1 && !capped && call->opset < 25)
    wanted = scores;
  if (limit_last)
    scores = rlx_heads_limit_scores (call, scores, heads->softcap, error);
  if (mode == 2)
    wanted = scores;
  if (mode == 3 || limit_last)
    scores = get_weights (call, scores, error);
  if (mode == 3)
    wanted = scores;
  if (limit_last)
    {
      *result = rlx_heads_op2 (call, "matmul", scores, rlx_heads_repeat_heads (call, heads->v, rlx_heads_get_dim (heads->q, 1), error), NULL, error);
      if (*result == NULL)
        return FALSE;
    }
  return rlx_map_return (call, 3, wanted);
}

gboolean
rlx_onnx_map_attention (RlxMapCall *call,
                        GError    **error)
{
  RlxNode *inputs[3];
  RlxNode *result = NULL;
  RlxHeads heads = { NULL };
  gint64 n_heads, kv_heads, mode, left, right, past = 0;
  gboolean causal, flat;

  for (guint i = 0; i < 3; i++)
    if ((inputs[i] = rlx_map_input (call, i, FALSE, error)) == NULL)
      return FALSE;
  if (!rlx_map_arg_int (call, "q_num_heads", 0, &n_heads, error) ||
      !rlx_map_arg_int (call, "kv_num_heads", 0, &kv_heads, error) ||
      !rlx_map_arg_int (call, "qk_matmul_output_mode", 0, &mode, error) ||
      !rlx_map_arg_int (call, "left_window_size", -1, &left, error) ||
      !rlx_map_arg_int (call, "right_window_size", -1, &right, error) ||
      !rlx_map_arg_double (call, "scale", 0, &heads.scale, error) ||
      !rlx_map_arg_double (call, "softcap", 0, &heads.softcap, error) ||
      !rlx_map_arg_bool (call, "is_causal", FALSE, &causal, error))
    return FALSE;
  if (left < -1 || right < -1)
    return rlx_map_refused (error, "Attention: a window of %" G_GINT64_FORMAT " keys before and %" G_GINT64_FORMAT " after", left, right);

  flat = rlx_node_get_n_dims (inputs[0]) == 3;
  heads.q = flat ? rlx_heads_split_heads (call, inputs[0], n_heads, error) : inputs[0];
  heads.k = flat ? rlx_heads_split_heads (call, inputs[1], kv_heads, error) : inputs[1];
  heads.v = flat ? rlx_heads_split_heads (call, inputs[2], kv_heads, error) : inputs[2];
  if (heads.q == NULL || heads.k == NULL || heads.v == NULL)
    return FALSE;
  if (rlx_map_has_input (call, 4) || rlx_map_has_input (call, 5))
    {
      RlxNode *past_key = rlx_map_input (call, 4, FALSE, error);
      RlxNode *past_value = past_key != NULL ? rlx_map_input (call, 5, FALSE, error) : NULL;

      if (past_value == NULL)
        return FALSE;
      past = rlx_heads_get_dim (past_key, 2);
      heads.k = rlx_heads_join (call, past_key, heads.k, 2, error);
      heads.v = rlx_heads_join (call, past_value, heads.v, 2, error);
      if (heads.k == NULL || heads.v == NULL)
        return FALSE;
    }
  if (!get_onnx_mask (call, rlx_heads_get_dim (heads.k, 2), &heads.mask, error))
    return FALSE;
  if (rlx_map_has_input (call, 6))
    {
      heads.lengths = rlx_map_input (call, 6, FALSE, error);
      heads.lengths = heads.lengths != NULL ? rlx_map_cast (call, heads.lengths, RLX_DATA_TYPE_I32, error) : NULL;
      if (heads.lengths == NULL)
        return FALSE;
    }
  if (causal && heads.lengths != NULL && past == 0)
    heads.causal = TRUE;
  else if (causal)
    right = 0;
  if (!hide_beyond (call, &heads, past, left, right, error))
    return FALSE;

  if (rlx_map_wants_output (call, 3) && !return_scores (call, &heads, mode, &result, error))
    return FALSE;
  if (result == NULL)
    result = rlx_heads_attend (call, &heads, error);
  if (flat)
    result = rlx_heads_merge_heads (call, result, error);
  return rlx_map_return (call, 0, result) &&
         rlx_map_return (call, 1, heads.k) &&
         rlx_map_return (call, 2, heads.v);
}
