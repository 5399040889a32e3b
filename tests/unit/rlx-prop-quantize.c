/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Calls of quantisation.
 */
#include "config.h"

#include "rlx-prop-window.h"

static const RlxDataType quantized_types[] = {
  RLX_DATA_TYPE_I8, RLX_DATA_TYPE_U8, RLX_DATA_TYPE_I4, RLX_DATA_TYPE_U4, RLX_DATA_TYPE_I32,
  RLX_DATA_TYPE_I16, RLX_DATA_TYPE_U16, RLX_DATA_TYPE_I2, RLX_DATA_TYPE_U2,
};

/* The shape of a scale: one element per tensor, per index along some axes, or per block;
 * sometimes the last block is incomplete. */
static gsize
random_scale (Call         *call,
              const gint64 *shape,
              gsize         n_dims,
              gboolean      ragged,
              gint64       *scale)
{
  gint64 blocks[RLX_MAX_DIMS] = { 0, };

  for (gsize i = 0; i < n_dims; i++)
    {
      gint64 size = shape[i];

      blocks[i] = prop_chance (call->rand, 0.4) ? MAX (size, 1) : prop_chance (call->rand, 0.5) ? 1 : prop_pick (call->rand, 2, 5);
      if (!ragged && size % blocks[i] != 0)
        blocks[i] = 1;
      scale[i] = (size + blocks[i] - 1) / blocks[i];
    }
  if (ragged)
    set_ints (call, "blocks", blocks, n_dims);
  else if (prop_chance (call->rand, 0.3))
    return 0;
  /* A scale per tensor may also have dimensions of size 1. */
  if (n_dims == 0 && prop_chance (call->rand, 0.7))
    {
      scale[0] = 1;
      return 1;
    }

  return n_dims;
}

static gsize
quantized_shape (Call   *call,
                 gint64 *shape)
{
  if (call->variant == 0)
    {
      shape[0] = 701;
      return 1;
    }
  return random_shape (call, shape, 0, 4);
}

static gboolean
generate_quantize (Call *call)
{
  RlxDataType to = quantized_types[call->variant % G_N_ELEMENTS (quantized_types)];
  RlxDataType scale_type = prop_chance (call->rand, 0.7) ? RLX_DATA_TYPE_F32 : RLX_DATA_TYPE_F16;
  gint64 shape[RLX_MAX_DIMS], scale[RLX_MAX_DIMS];
  gsize n_dims, n_scale;

  if (call->variant > 17)
    return FALSE;

  n_dims = quantized_shape (call, shape);
  n_scale = random_scale (call, shape, n_dims, n_dims > 0 && call->variant % 3 == 2, scale);
  add_input (call, call->variant % 4 == 1 ? PROP_TAME : PROP_WILD, call->data_type, shape, n_dims);
  add_input (call, PROP_POSITIVE, scale_type, scale, n_scale);
  if (prop_chance (call->rand, 0.7))
    add_input (call, PROP_WILD, to, scale, n_scale);
  g_variant_dict_insert (call->attributes, "to", "s", rlx_data_type_to_string (to));

  return TRUE;
}

static gboolean
generate_dequantize (Call *call)
{
  RlxDataType scale_type = prop_chance (call->rand, 0.7) ? RLX_DATA_TYPE_F32 : RLX_DATA_TYPE_F16;
  gint64 shape[RLX_MAX_DIMS], scale[RLX_MAX_DIMS];
  gsize n_dims, n_scale;

  if (call->variant > 9)
    return FALSE;

  n_dims = quantized_shape (call, shape);
  n_scale = random_scale (call, shape, n_dims, n_dims > 0 && call->variant % 3 == 2, scale);
  add_input (call, PROP_WILD, call->data_type, shape, n_dims);
  add_input (call, PROP_TAME, scale_type, scale, n_scale);
  if (prop_chance (call->rand, 0.7))
    add_input (call, PROP_WILD, call->data_type, scale, n_scale);

  return TRUE;
}

static gboolean
generate_dynamic_quantize (Call *call)
{
  gint64 shape[RLX_MAX_DIMS];
  gsize n_dims;

  if (call->variant > 7)
    return FALSE;

  n_dims = quantized_shape (call, shape);
  if (call->variant == 2)
    shape[0] = 20001, n_dims = 1;   /* the reduction takes two steps */
  add_input (call, call->variant == 3 ? PROP_SPOILT : call->variant == 5 ? PROP_POSITIVE : PROP_TAME, call->data_type, shape, n_dims);

  return TRUE;
}

static gboolean
generate_fake_quantize (Call *call)
{
  gint64 shape[RLX_MAX_DIMS], scale[RLX_MAX_DIMS];
  gboolean symmetric = prop_chance (call->rand, 0.5);
  gsize n_dims, n_scale;

  if (call->variant > 9)
    return FALSE;

  n_dims = quantized_shape (call, shape);
  add_input (call, call->variant == 6 ? PROP_SPOILT : PROP_TAME, call->data_type, shape, n_dims);
  if (call->variant % 2 == 1)
    {
      n_scale = random_scale (call, shape, n_dims, FALSE, scale);
      add_input (call, PROP_POSITIVE, RLX_DATA_TYPE_F32, scale, n_scale);
      if (!symmetric && prop_chance (call->rand, 0.7))
        add_input (call, PROP_TAME, RLX_DATA_TYPE_I32, scale, n_scale);
    }
  g_variant_dict_insert (call->attributes, "symmetric", "b", symmetric);
  g_variant_dict_insert (call->attributes, "bits", "x", prop_pick (call->rand, 2, 10));

  return TRUE;
}

/* The operands after the zero points: how sums of @channels channels are requantized. */
static void
add_requantize (Call  *call,
                gint64 channels)
{
  static const RlxDataType types[] = {
    RLX_DATA_TYPE_I32, RLX_DATA_TYPE_I8, RLX_DATA_TYPE_F32, RLX_DATA_TYPE_U8, RLX_DATA_TYPE_F16,
  };
  RlxDataType to = types[call->variant % G_N_ELEMENTS (types)];
  gboolean each = prop_chance (call->rand, 0.5);

  g_variant_dict_insert (call->attributes, "to", "s", rlx_data_type_to_string (to));
  if (prop_chance (call->rand, 0.6))
    add_input (call, PROP_TAME, to != RLX_DATA_TYPE_I32 && prop_chance (call->rand, 0.5) ? RLX_DATA_TYPE_F32 : RLX_DATA_TYPE_I32,
               &channels, each ? 1 : 0);
  else
    skip_input (call);
  if (to == RLX_DATA_TYPE_I32)
    return;
  add_input (call, PROP_POSITIVE, RLX_DATA_TYPE_F32, &channels, prop_chance (call->rand, 0.5) ? 1 : 0);
  if (to != RLX_DATA_TYPE_I8 && to != RLX_DATA_TYPE_U8)
    return;
  if (prop_chance (call->rand, 0.6))
    call->constants |= 3u << call->n_inputs;
  add_input (call, PROP_POSITIVE, RLX_DATA_TYPE_F32, NULL, 0);
  if (prop_chance (call->rand, 0.7))
    add_input (call, PROP_WILD, to, NULL, 0);
  if (prop_chance (call->rand, 0.3))
    {
      g_variant_dict_insert (call->attributes, "minimum", "x", prop_pick (call->rand, -200, 20));
      g_variant_dict_insert (call->attributes, "maximum", "x", prop_pick (call->rand, 20, 200));
    }
}

static gboolean
generate_qconv (Call *call)
{
  static const ConvSizes edges[] = {
    { 1, 1, 8, 20, { 2, TRUE, { 9, 8 }, { 3, 3 }, PLAIN, PLAIN, { 1, 1, 1, 1 } } },   /* whole words */
    { 2, 3, 4, 4, { 2, TRUE, { 5, 4 }, { 3, 2 }, { 2, 1, 1 }, PLAIN, { 0, 2, 1, 0 } } },
    { 1, 1, 12, 70, { 1, TRUE, { 3 }, { 2 }, PLAIN, PLAIN, { 0, } } },                /* few positions */
    { 1, 9, 4, 1, { 2, TRUE, { 6, 5 }, { 3, 2 }, PLAIN, PLAIN, { 0, 2, 1, 0 } } },    /* lanes across groups */
    { 1, 9, 1, 1, { 2, TRUE, { 6, 5 }, { 3, 2 }, { 2, 1, 1 }, PLAIN, { 0, 2, 1, 0 } } },
  };
  gint64 shape[RLX_MAX_DIMS], channels;
  RlxDataType other = call->variant % 3 == 1 ? RLX_DATA_TYPE_U8 : RLX_DATA_TYPE_I8, first = call->data_type;
  ConvSizes sizes;

  /* Each of them is a kernel of its own, which the driver takes long to compile. */
  if (call->variant > (first == RLX_DATA_TYPE_I8 ? 21 : 6))
    return FALSE;

  if (call->variant < G_N_ELEMENTS (edges))
    sizes = edges[call->variant];
  else if (call->variant - G_N_ELEMENTS (edges) < N_CONV_EDGES)
    sizes = conv_edges[call->variant - G_N_ELEMENTS (edges)];
  else
    {
      sizes.batch = prop_pick (call->rand, 1, 3);
      sizes.groups = prop_chance (call->rand, 0.5) ? 1 : prop_pick (call->rand, 2, 4);
      sizes.in = prop_pick (call->rand, 1, 8);
      sizes.out = prop_size (call->rand, sizes.groups == 1 ? 17 : 5);
      random_moves (call, 1 + call->variant % WINDOW_AXES, &sizes.moves);
    }
  if (call->variant == 20)
    {
      /* Padding alone. */
      sizes.moves.padding[0] += moves_reach (&sizes.moves, 0);
      sizes.moves.in[0] = 0;
    }
  channels = sizes.out * sizes.groups;

  image_shape (&sizes.moves, sizes.batch, sizes.in * sizes.groups, shape);
  add_input (call, PROP_WILD, first, shape, sizes.moves.n_axes + 2);
  if (call->variant < G_N_ELEMENTS (edges))
    {
      gsize n = 0;

      shape[n++] = channels;
      for (gsize i = 0; i < sizes.moves.n_axes; i++)
        shape[n++] = sizes.moves.window[i];
      shape[n++] = sizes.in;
      add_input (call, PROP_WILD, other, shape, n);
      g_variant_dict_insert (call->attributes, "filter_layout", "s", "osi");
    }
  else
    {
      call->data_type = other;
      add_filter (call, PROP_WILD, &sizes.moves, channels, sizes.in);
      call->data_type = first;
    }
  if (prop_chance (call->rand, 0.3))
    call->constants |= 1u << call->n_inputs;
  if (prop_chance (call->rand, 0.7))
    add_input (call, PROP_WILD, first, NULL, 0);
  else
    skip_input (call);
  if (prop_chance (call->rand, 0.7))
    add_input (call, PROP_WILD, other, &channels, prop_chance (call->rand, 0.5) ? 1 : 0);
  else
    skip_input (call);
  add_requantize (call, channels);

  set_moves (call, &sizes.moves);
  g_variant_dict_insert (call->attributes, "groups", "x", sizes.groups);
  g_variant_dict_insert (call->attributes, "layout", "s", sizes.moves.last ? "channels-last" : "channels-first");
  return TRUE;
}

static gboolean
generate_qmatmul (Call *call)
{
  RlxDataType other = prop_chance (call->rand, 0.5) ? RLX_DATA_TYPE_I8 : RLX_DATA_TYPE_U8;
  gboolean transposed = prop_chance (call->rand, 0.4);
  Sizes sizes = product_sizes (call);
  gint64 stack[RLX_MAX_DIMS], a[RLX_MAX_DIMS], b[RLX_MAX_DIMS], zero[RLX_MAX_DIMS];
  gsize n_stack = 0, n_a, n_b, n_zero;

  /* Each of them is a kernel of its own, which the driver takes long to compile. */
  if (call->variant > (call->data_type == RLX_DATA_TYPE_I8 ? 14 : 4))
    return FALSE;

  if (call->variant > 8)
    {
      n_stack = (gsize) prop_pick (call->rand, 1, 3);
      for (gsize i = 0; i < n_stack; i++)
        stack[i] = prop_pick (call->rand, 1, 3);
    }
  if (call->variant > 11)
    sizes = (Sizes) { prop_pick (call->rand, 1, 20), 4 * prop_pick (call->rand, 1, 9), 4 * prop_pick (call->rand, 1, 9) };
  n_a = random_part (call, stack, n_stack, a);
  n_b = random_part (call, stack, n_stack, b);
  a[n_a++] = sizes.m;
  a[n_a++] = sizes.k;
  b[n_b++] = transposed ? sizes.n : sizes.k;
  b[n_b++] = transposed ? sizes.k : sizes.n;
  add_input (call, PROP_WILD, call->data_type, a, n_a);
  add_input (call, PROP_WILD, other, b, n_b);
  g_variant_dict_insert (call->attributes, "transpose_b", "b", transposed);

  a[n_a - 1] = 1;
  b[n_b - (transposed ? 1 : 2)] = 1;
  n_zero = random_part (call, a, n_a, zero);
  if (prop_chance (call->rand, 0.7))
    add_input (call, PROP_WILD, call->data_type, zero, n_zero);
  else
    skip_input (call);
  n_zero = random_part (call, b, n_b, zero);
  if (prop_chance (call->rand, 0.7))
    add_input (call, PROP_WILD, other, zero, n_zero);
  else
    skip_input (call);
  add_requantize (call, sizes.n);

  return TRUE;
}

const PropRow prop_quantize_rows[] = {
  { "qconv2d", generate_qconv },
  { "qmatmul", generate_qmatmul },
  { "quantize_linear", generate_quantize },
  { "dequantize_linear", generate_dequantize },
  { "dynamic_quantize", generate_dynamic_quantize },
  { "fake_quantize", generate_fake_quantize },
  { NULL, NULL },
};
