/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Nodes in short form, and heads.
 */
#include "config.h"

#include "import/rlx-heads-private.h"

#include <math.h>

RlxNode *
rlx_heads_op1 (RlxMapCall *call,
               const char *op,
               RlxNode    *a,
               GVariant   *attrs,
               GError    **error)
{
  g_autoptr(GVariant) sunk = attrs != NULL ? g_variant_ref_sink (attrs) : NULL;

  return a != NULL ? rlx_map_op1 (call, op, a, sunk, error) : NULL;
}

RlxNode *
rlx_heads_op2 (RlxMapCall *call,
               const char *op,
               RlxNode    *a,
               RlxNode    *b,
               GVariant   *attrs,
               GError    **error)
{
  g_autoptr(GVariant) sunk = attrs != NULL ? g_variant_ref_sink (attrs) : NULL;

  return a != NULL && b != NULL ? rlx_map_op2 (call, op, a, b, sunk, error) : NULL;
}

RlxNode *
rlx_heads_reshape4 (RlxMapCall *call,
                    RlxNode    *node,
                    gint64      a,
                    gint64      b,
                    gint64      c,
                    gint64      d,
                    GError    **error)
{
  return node != NULL ? rlx_map_reshape (call, node, (gint64[]) { a, b, c, d }, 4, error) : NULL;
}

RlxNode *
rlx_heads_swap_heads (RlxMapCall *call,
                      RlxNode    *node,
                      GError    **error)
{
  return rlx_heads_op1 (call, "transpose", node, rlx_map_attrs ("permutation", rlx_map_ints ((gint64[]) { 0, 2, 1, 3 }, 4), NULL), error);
}

RlxNode *
rlx_heads_slice (RlxMapCall *call,
                 RlxNode    *node,
                 gint64      axis,
                 gint64      start,
                 gint64      end,
                 GError    **error)
{
  return rlx_heads_op1 (call, "slice", node,
                        rlx_map_attrs ("starts", rlx_map_ints (&start, 1), "ends", rlx_map_ints (&end, 1), "axes", rlx_map_ints (&axis, 1), NULL), error);
}

RlxNode *
rlx_heads_join (RlxMapCall *call,
                RlxNode    *a,
                RlxNode    *b,
                gint64      axis,
                GError    **error)
{
  return rlx_heads_op2 (call, "concat", a, b, rlx_map_attrs ("axis", g_variant_new_int64 (axis), NULL), error);
}

gint64
rlx_heads_get_dim (RlxNode *node,
                   gint64   axis)
{
  gsize n_dims;
  const gint64 *shape = rlx_node_get_shape (node, &n_dims);

  return axis < (gint64) n_dims ? shape[axis] : 1;
}

RlxNode *
rlx_heads_constant_ints (RlxMapCall   *call,
                         const gint32 *values,
                         const gint64 *shape,
                         gsize         n_dims,
                         GError      **error)
{
  g_autoptr(RlxTensor) tensor = NULL;
  gsize n = 1;

  for (gsize i = 0; i < n_dims; i++)
    n *= (gsize) shape[i];
  tensor = rlx_tensor_new_from_data (RLX_DATA_TYPE_I32, shape, n_dims, (const guint8 *) values, n * sizeof *values, error);
  return tensor != NULL ? rlx_map_constant (call, tensor, error) : NULL;
}

RlxNode *
rlx_heads_constant_range (RlxMapCall *call,
                          gint64      n,
                          GError    **error)
{
  g_autofree gint32 *values = g_new0 (gint32, (gsize) n + 1);

  for (gint64 i = 0; i < n; i++)
    values[i] = (gint32) i;
  return rlx_heads_constant_ints (call, values, &n, 1, error);
}

RlxNode *
rlx_heads_constant_scalar (RlxMapCall *call,
                           RlxDataType data_type,
                           double      value,
                           GError    **error)
{
  g_autoptr(RlxTensor) tensor = rlx_tensor_new_scalar (data_type, value, error);

  return tensor != NULL ? rlx_map_constant (call, tensor, error) : NULL;
}

RlxNode *
rlx_heads_make_bias (RlxMapCall *call,
                     RlxNode    *shown,
                     RlxDataType data_type,
                     double      value,
                     GError    **error)
{
  RlxNode *zero = shown != NULL ? rlx_heads_constant_scalar (call, data_type, 0, error) : NULL;
  RlxNode *other = zero != NULL ? rlx_heads_constant_scalar (call, data_type, value, error) : NULL;

  return other != NULL ? rlx_map_op (call, "where", (RlxNode *[]) { shown, zero, other }, 3, NULL, error) : NULL;
}

RlxNode *
rlx_heads_attend (RlxMapCall     *call,
                  const RlxHeads *heads,
                  GError        **error)
{
  RlxNode *inputs[] = { heads->q, heads->k, heads->v, heads->mask, heads->lengths, heads->sink };

  return rlx_map_op (call, "attention", inputs, G_N_ELEMENTS (inputs),
                     rlx_map_attrs ("scale", g_variant_new_double (heads->scale),
                                    "softcap", g_variant_new_double (heads->softcap),
                                    "window", g_variant_new_int64 (heads->window),
                                    "causal", g_variant_new_boolean (heads->causal), NULL),
                     error);
}

RlxNode *
rlx_heads_split_heads (RlxMapCall *call,
                       RlxNode    *node,
                       gint64      n_heads,
                       GError    **error)
{
  if (node == NULL)
    return NULL;
  if (n_heads < 1 || rlx_heads_get_dim (node, 2) % n_heads != 0)
    {
      rlx_map_refused (error, "%s: %" G_GINT64_FORMAT " columns do not make %" G_GINT64_FORMAT " heads",
                       call->node->op, rlx_heads_get_dim (node, 2), n_heads);
      return NULL;
    }
  return rlx_heads_swap_heads (call, rlx_heads_reshape4 (call, node, rlx_heads_get_dim (node, 0), rlx_heads_get_dim (node, 1), n_heads, rlx_heads_get_dim (node, 2) / n_heads, error), error);
}

RlxNode *
rlx_heads_merge_heads (RlxMapCall *call,
                       RlxNode    *node,
                       GError    **error)
{
  RlxNode *swapped = rlx_heads_swap_heads (call, node, error);

  if (swapped == NULL)
    return NULL;
  return rlx_map_reshape (call, swapped, (gint64[]) { rlx_heads_get_dim (node, 0), rlx_heads_get_dim (node, 2), rlx_heads_get_dim (node, 1) * rlx_heads_get_dim (node, 3) }, 3, error);
}

RlxNode *
rlx_heads_repeat_heads (RlxMapCall *call,
                        RlxNode    *node,
                        gint64      n_heads,
                        GError    **error)
{
  gint64 b = rlx_heads_get_dim (node, 0), h = rlx_heads_get_dim (node, 1), t = rlx_heads_get_dim (node, 2), w = rlx_heads_get_dim (node, 3);
  RlxNode *wide;

  if (h == n_heads || h == 0)
    return node;
  wide = rlx_map_reshape (call, node, (gint64[]) { b, h, 1, t, w }, 5, error);
  wide = rlx_heads_op1 (call, "expand", wide, rlx_map_attrs ("shape", rlx_map_ints ((gint64[]) { b, h, n_heads / h, t, w }, 5), NULL), error);
  return rlx_heads_reshape4 (call, wide, b, n_heads, t, w, error);
}

RlxNode *
rlx_heads_get_products (RlxMapCall     *call,
                        const RlxHeads *heads,
                        GError        **error)
{
  gint64 width = rlx_heads_get_dim (heads->q, 3);
  double scale = heads->scale != 0 ? heads->scale : width > 0 ? 1 / sqrt ((double) width) : 1;
  RlxNode *products = rlx_heads_op2 (call, "matmul", heads->q, rlx_heads_repeat_heads (call, heads->k, rlx_heads_get_dim (heads->q, 1), error),
                                     rlx_map_attrs ("transpose_b", g_variant_new_boolean (TRUE), NULL), error);

  return rlx_heads_op1 (call, "affine", products, rlx_map_attrs ("alpha", g_variant_new_double (scale), NULL), error);
}

RlxNode *
rlx_heads_limit_scores (RlxMapCall *call,
                        RlxNode    *scores,
                        double      softcap,
                        GError    **error)
{
  scores = rlx_heads_op1 (call, "affine", scores, rlx_map_attrs ("alpha", g_variant_new_double (1 / softcap), NULL), error);
  scores = rlx_heads_op1 (call, "tanh", scores, NULL, error);
  return rlx_heads_op1 (call, "affine", scores, rlx_map_attrs ("alpha", g_variant_new_double (softcap), NULL), error);
}
