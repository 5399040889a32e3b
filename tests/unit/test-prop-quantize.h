/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Quantisation for test-properties.c, which includes this.
 */
#pragma once

static const RlxDataType quantized_types[] = {
  RLX_DATA_TYPE_I8, RLX_DATA_TYPE_U8, RLX_DATA_TYPE_I4, RLX_DATA_TYPE_U4, RLX_DATA_TYPE_I32,
};

/* The shape of a scale: one element for all, for each place along some axes, or
 * for blocks; and sometimes sizes of blocks that do not come out even. */
static gsize
random_scale (Call         *call,
              const gint64 *shape,
              gsize         n_dims,
              gboolean      ragged,
              gint64       *scale)
{
  gint64 blocks[RLX_MAX_RANK];

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
  gint64 shape[RLX_MAX_RANK], scale[RLX_MAX_RANK];
  gsize n_dims, n_scale;

  if (call->variant > 14)
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
  gint64 shape[RLX_MAX_RANK], scale[RLX_MAX_RANK];
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
  gint64 shape[RLX_MAX_RANK];
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
  gint64 shape[RLX_MAX_RANK], scale[RLX_MAX_RANK];
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

static gboolean
generate_qmatmul (Call *call)
{
  RlxDataType other = prop_chance (call->rand, 0.5) ? RLX_DATA_TYPE_I8 : RLX_DATA_TYPE_U8;
  Sizes sizes = product_sizes (call);
  gint64 stack[RLX_MAX_RANK], a[RLX_MAX_RANK], b[RLX_MAX_RANK], zero[RLX_MAX_RANK];
  gsize n_stack = 0, n_a, n_b, n_zero;

  if (call->variant > 11)
    return FALSE;

  if (call->variant > 8)
    {
      n_stack = (gsize) prop_pick (call->rand, 1, 3);
      for (gsize i = 0; i < n_stack; i++)
        stack[i] = prop_pick (call->rand, 1, 3);
    }
  n_a = random_part (call, stack, n_stack, a);
  n_b = random_part (call, stack, n_stack, b);
  a[n_a++] = sizes.m;
  a[n_a++] = sizes.k;
  b[n_b++] = sizes.k;
  b[n_b++] = sizes.n;
  add_input (call, PROP_WILD, call->data_type, a, n_a);
  add_input (call, PROP_WILD, other, b, n_b);

  a[n_a - 1] = 1;
  b[n_b - 2] = 1;
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

  return TRUE;
}
