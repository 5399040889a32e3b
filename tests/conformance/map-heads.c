/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Nodes in short form, and heads.
 */
#include "config.h"

#include "map-heads.h"

#include <math.h>

RlxNode *
op1 (MapCall    *call,
     const char *op,
     RlxNode    *a,
     GVariant   *attrs,
     GError    **error)
{
  g_autoptr(GVariant) sunk = attrs != NULL ? g_variant_ref_sink (attrs) : NULL;

  return a != NULL ? map_op1 (call, op, a, sunk, error) : NULL;
}

RlxNode *
op2 (MapCall    *call,
     const char *op,
     RlxNode    *a,
     RlxNode    *b,
     GVariant   *attrs,
     GError    **error)
{
  g_autoptr(GVariant) sunk = attrs != NULL ? g_variant_ref_sink (attrs) : NULL;

  return a != NULL && b != NULL ? map_op2 (call, op, a, b, sunk, error) : NULL;
}

RlxNode *
reshape4 (MapCall *call,
          RlxNode *node,
          gint64   a,
          gint64   b,
          gint64   c,
          gint64   d,
          GError **error)
{
  return node != NULL ? map_reshape (call, node, (gint64[]) { a, b, c, d }, 4, error) : NULL;
}

RlxNode *
swap_heads (MapCall *call,
            RlxNode *node,
            GError **error)
{
  return op1 (call, "transpose", node, map_attrs ("permutation", map_ints ((gint64[]) { 0, 2, 1, 3 }, 4), NULL), error);
}

RlxNode *
slice (MapCall *call,
       RlxNode *node,
       gint64   axis,
       gint64   start,
       gint64   end,
       GError **error)
{
  return op1 (call, "slice", node,
              map_attrs ("starts", map_ints (&start, 1), "ends", map_ints (&end, 1), "axes", map_ints (&axis, 1), NULL), error);
}

RlxNode *
join (MapCall *call,
      RlxNode *a,
      RlxNode *b,
      gint64   axis,
      GError **error)
{
  return op2 (call, "concat", a, b, map_attrs ("axis", g_variant_new_int64 (axis), NULL), error);
}

gint64
get_dim (RlxNode *node,
         gint64   axis)
{
  gsize n_dims;
  const gint64 *shape = rlx_node_get_shape (node, &n_dims);

  return axis < (gint64) n_dims ? shape[axis] : 1;
}

RlxNode *
constant_ints (MapCall      *call,
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
  return tensor != NULL ? map_constant (call, tensor, error) : NULL;
}

RlxNode *
constant_range (MapCall *call,
                gint64   n,
                GError **error)
{
  g_autofree gint32 *values = g_new0 (gint32, (gsize) n + 1);

  for (gint64 i = 0; i < n; i++)
    values[i] = (gint32) i;
  return constant_ints (call, values, &n, 1, error);
}

RlxNode *
constant_scalar (MapCall    *call,
                 RlxDataType data_type,
                 double      value,
                 GError    **error)
{
  g_autoptr(RlxTensor) tensor = rlx_tensor_new_scalar (data_type, value, error);

  return tensor != NULL ? map_constant (call, tensor, error) : NULL;
}

RlxNode *
make_bias (MapCall    *call,
           RlxNode    *shown,
           RlxDataType data_type,
           double      value,
           GError    **error)
{
  RlxNode *zero = shown != NULL ? constant_scalar (call, data_type, 0, error) : NULL;
  RlxNode *other = zero != NULL ? constant_scalar (call, data_type, value, error) : NULL;

  return other != NULL ? map_op (call, "where", (RlxNode *[]) { shown, zero, other }, 3, NULL, error) : NULL;
}

RlxNode *
attend (MapCall     *call,
        const Heads *heads,
        GError     **error)
{
  RlxNode *inputs[] = { heads->q, heads->k, heads->v, heads->mask, heads->lengths, heads->sink };

  return map_op (call, "attention", inputs, G_N_ELEMENTS (inputs),
                 map_attrs ("scale", g_variant_new_double (heads->scale),
                            "softcap", g_variant_new_double (heads->softcap),
                            "window", g_variant_new_int64 (heads->window),
                            "causal", g_variant_new_boolean (heads->causal), NULL),
                 error);
}

RlxNode *
split_heads (MapCall *call,
             RlxNode *node,
             gint64   n_heads,
             GError **error)
{
  if (node == NULL)
    return NULL;
  if (n_heads < 1 || get_dim (node, 2) % n_heads != 0)
    {
      map_refused (error, "%s: %" G_GINT64_FORMAT " columns do not make %" G_GINT64_FORMAT " heads",
                   call->op->name, get_dim (node, 2), n_heads);
      return NULL;
    }
  return swap_heads (call, reshape4 (call, node, get_dim (node, 0), get_dim (node, 1), n_heads, get_dim (node, 2) / n_heads, error), error);
}

RlxNode *
merge_heads (MapCall *call,
             RlxNode *node,
             GError **error)
{
  RlxNode *swapped = swap_heads (call, node, error);

  if (swapped == NULL)
    return NULL;
  return map_reshape (call, swapped, (gint64[]) { get_dim (node, 0), get_dim (node, 2), get_dim (node, 1) * get_dim (node, 3) }, 3, error);
}

RlxNode *
repeat_heads (MapCall *call,
              RlxNode *node,
              gint64   n_heads,
              GError **error)
{
  gint64 b = get_dim (node, 0), h = get_dim (node, 1), t = get_dim (node, 2), w = get_dim (node, 3);
  RlxNode *wide;

  if (h == n_heads || h == 0)
    return node;
  wide = map_reshape (call, node, (gint64[]) { b, h, 1, t, w }, 5, error);
  wide = op1 (call, "expand", wide, map_attrs ("shape", map_ints ((gint64[]) { b, h, n_heads / h, t, w }, 5), NULL), error);
  return reshape4 (call, wide, b, n_heads, t, w, error);
}

RlxNode *
get_products (MapCall     *call,
              const Heads *heads,
              GError     **error)
{
  gint64 width = get_dim (heads->q, 3);
  double scale = heads->scale != 0 ? heads->scale : width > 0 ? 1 / sqrt ((double) width) : 1;
  RlxNode *products = op2 (call, "matmul", heads->q, repeat_heads (call, heads->k, get_dim (heads->q, 1), error),
                           map_attrs ("transpose_b", g_variant_new_boolean (TRUE), NULL), error);

  return op1 (call, "affine", products, map_attrs ("alpha", g_variant_new_double (scale), NULL), error);
}

RlxNode *
limit_scores (MapCall *call,
              RlxNode *scores,
              double   softcap,
              GError **error)
{
  scores = op1 (call, "affine", scores, map_attrs ("alpha", g_variant_new_double (1 / softcap), NULL), error);
  scores = op1 (call, "tanh", scores, NULL, error);
  return op1 (call, "affine", scores, map_attrs ("alpha", g_variant_new_double (softcap), NULL), error);
}
