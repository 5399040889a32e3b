/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Calls of products of matrices.
 */
#include "config.h"

#include "rlx-prop-calls.h"

/* Sizes that exercise different paths of the kernels, then random ones. */
Sizes
product_sizes (Call *call)
{
  static const Sizes edges[] = {
    { 1, 2000, 1 },    /* a long sum */
    { 3, 700, 2 },
    { 300, 5, 1 },     /* tall */
    { 1, 5, 300 },     /* wide */
    { 65, 33, 129 },
    { 7, 0, 5 },       /* an empty sum */
    { 0, 4, 3 },
    { 3, 4, 0 },
  };
  Sizes sizes;

  if (call->variant < G_N_ELEMENTS (edges))
    return edges[call->variant];

  sizes.m = prop_size (call->rand, 65);
  sizes.k = prop_size (call->rand, 65);
  sizes.n = prop_size (call->rand, 65);

  return sizes;
}

static gboolean
generate_matmul (Call *call)
{
  Sizes sizes = product_sizes (call);
  gboolean transpose_a = prop_chance (call->rand, 0.4), transpose_b = prop_chance (call->rand, 0.4);
  PropKind kind = call->variant == 9 ? PROP_SPOILT : PROP_TAME;
  gint64 stack[RLX_MAX_DIMS], a[RLX_MAX_DIMS], b[RLX_MAX_DIMS];
  gsize n_stack = 0, n_a = 0, n_b = 0;

  if (call->variant > 13)
    return FALSE;

  if (call->variant >= 10)
    {
      /* A stack on both sides, either of which may be broadcast. */
      sizes = (Sizes) { prop_size (call->rand, 17), prop_size (call->rand, 9), prop_size (call->rand, 17) };
      n_stack = (gsize) prop_pick (call->rand, 1, 3);
      for (gsize i = 0; i < n_stack; i++)
        stack[i] = prop_pick (call->rand, call->variant == 13 ? 0 : 1, 4);
      n_a = random_part (call, stack, n_stack, a);
      n_b = random_part (call, stack, n_stack, b);
    }

  if (call->variant == 8)
    {
      /* Vectors on one side or on both. */
      guint which = (guint) prop_pick (call->rand, 1, 3);

      transpose_a = transpose_a && !(which & 1);
      transpose_b = transpose_b && !(which & 2);
      if (which & 1)
        a[n_a++] = sizes.k;
      if (which & 2)
        b[n_b++] = sizes.k;
    }
  if (n_a == 0 || call->variant != 8)
    {
      a[n_a++] = transpose_a ? sizes.k : sizes.m;
      a[n_a++] = transpose_a ? sizes.m : sizes.k;
    }
  if (n_b == 0 || call->variant != 8)
    {
      b[n_b++] = transpose_b ? sizes.n : sizes.k;
      b[n_b++] = transpose_b ? sizes.k : sizes.n;
    }

  add_input (call, kind, call->data_type, a, n_a);
  add_input (call, kind, call->data_type, b, n_b);
  g_variant_dict_insert (call->attributes, "transpose_a", "b", transpose_a);
  g_variant_dict_insert (call->attributes, "transpose_b", "b", transpose_b);

  return TRUE;
}

static gboolean
generate_linear (Call *call)
{
  Sizes sizes = product_sizes (call);
  gboolean transpose_a = FALSE, transpose_b = prop_chance (call->rand, 0.5);
  gint64 a[RLX_MAX_DIMS], y[RLX_MAX_DIMS], bias[RLX_MAX_DIMS];
  gsize n_a = 0, n_bias;

  if (call->variant > 12)
    return FALSE;

  if (call->variant >= 10)
    {
      n_a = (gsize) prop_pick (call->rand, 0, 3);
      for (gsize i = 0; i < n_a; i++)
        a[i] = y[i] = prop_pick (call->rand, 1, 5);
    }
  else
    {
      transpose_a = prop_chance (call->rand, 0.3);
      a[n_a] = transpose_a ? sizes.k : sizes.m;
      y[n_a++] = sizes.m;
    }
  y[n_a] = sizes.n;
  a[n_a++] = transpose_a ? sizes.m : sizes.k;

  add_input (call, PROP_TAME, call->data_type, a, n_a);
  add_input (call, PROP_TAME, call->data_type,
             (gint64[]) { transpose_b ? sizes.n : sizes.k, transpose_b ? sizes.k : sizes.n }, 2);
  if (prop_chance (call->rand, 0.8))
    {
      n_bias = random_part (call, y, n_a, bias);
      add_input (call, PROP_TAME, call->data_type, bias, n_bias);
    }
  g_variant_dict_insert (call->attributes, "transpose_a", "b", transpose_a);
  g_variant_dict_insert (call->attributes, "transpose_b", "b", transpose_b);
  if (prop_chance (call->rand, 0.5))
    g_variant_dict_insert (call->attributes, "alpha", "d", 3 * g_rand_double (call->rand) - 1.5);
  if (prop_chance (call->rand, 0.5))
    g_variant_dict_insert (call->attributes, "beta", "d", 3 * g_rand_double (call->rand) - 1.5);

  return TRUE;
}

static gboolean
generate_qkv_linear (Call *call)
{
  Sizes sizes = product_sizes (call);
  gboolean transpose_b = prop_chance (call->rand, 0.5);
  gint64 n = MAX (sizes.n, 3) * (call->variant < 3 ? 9 : 1);
  gint64 query = prop_pick (call->rand, 1, n - 2), key = prop_pick (call->rand, 1, n - query - 1);
  gint64 x[RLX_MAX_DIMS];
  gsize n_x = 0;

  if (call->variant > 8)
    return FALSE;

  for (gint64 i = prop_pick (call->rand, 0, 2); i > 0; i--)
    x[n_x++] = prop_pick (call->rand, call->variant == 7 ? 0 : 1, 3);
  x[n_x++] = sizes.m;
  x[n_x++] = sizes.k;
  add_input (call, PROP_TAME, call->data_type, x, n_x);
  add_input (call, PROP_TAME, call->data_type, (gint64[]) { transpose_b ? n : sizes.k, transpose_b ? sizes.k : n }, 2);
  if (prop_chance (call->rand, 0.7))
    add_input (call, PROP_TAME, call->data_type, &n, 1);
  g_variant_dict_insert (call->attributes, "query_size", "x", query);
  g_variant_dict_insert (call->attributes, "key_size", "x", key);
  g_variant_dict_insert (call->attributes, "transpose_b", "b", transpose_b);

  return TRUE;
}

const PropRow prop_linear_rows[] = {
  { "matmul", generate_matmul },
  { "linear", generate_linear },
  { "qkv_linear", generate_qkv_linear },
  { NULL, NULL },
};
