/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Calls of sorting, of running sums and of random numbers.
 */
#include "config.h"

#include "rlx-prop-calls.h"

/* A shape and an axis of it; rows that fit into a block, and longer ones. */
static gsize
axis_shape (Call   *call,
            gint64 *shape,
            gint64 *axis)
{
  gsize n_dims;

  switch (call->variant)
    {
    case 0:
      n_dims = 2;
      shape[0] = 5;
      shape[1] = 1025 + prop_size (call->rand, 257);
      *axis = -1;
      break;
    case 1:
      n_dims = 3;
      shape[0] = 2;
      shape[1] = 2100;
      shape[2] = 3;
      *axis = 1;
      break;
    case 2:
      n_dims = 1;
      shape[0] = call->data_type == RLX_DATA_TYPE_F32 ? 9001 : 1;
      *axis = 0;
      break;
    case 3:
      n_dims = 2;
      shape[0] = 300;
      shape[1] = prop_size (call->rand, 9);
      *axis = 1;
      break;
    default:
      n_dims = random_shape (call, shape, 1, 4);
      *axis = random_axis (call, n_dims);
      break;
    }

  return n_dims;
}

static void
random_index_type (Call *call)
{
  if (prop_chance (call->rand, 0.5))
    g_variant_dict_insert (call->attributes, "index_type", "s", prop_chance (call->rand, 0.5) ? "i32" : "i64");
}

static gboolean
generate_arg (Call *call)
{
  gint64 shape[RLX_MAX_DIMS], axis, *length;
  gsize n_dims;

  if (call->variant > 11)
    return FALSE;

  n_dims = axis_shape (call, shape, &axis);
  length = &shape[axis < 0 ? axis + (gint64) n_dims : axis];
  *length = MAX (*length, 1);
  add_input (call, call->variant % 3 == 0 ? PROP_TAME : call->variant % 3 == 1 ? PROP_SPOILT : PROP_WILD, call->data_type, shape, n_dims);
  g_variant_dict_insert (call->attributes, "axis", "x", axis);
  if (!g_str_equal (call->op->name, "hardmax"))
    {
      g_variant_dict_insert (call->attributes, "keep_dims", "b", prop_chance (call->rand, 0.5));
      g_variant_dict_insert (call->attributes, "select_last_index", "b", prop_chance (call->rand, 0.4));
      random_index_type (call);
    }

  return TRUE;
}

static gboolean
generate_sort (Call *call)
{
  gint64 shape[RLX_MAX_DIMS], axis;
  gsize n_dims;

  if (call->variant > 11)
    return FALSE;

  n_dims = axis_shape (call, shape, &axis);
  add_input (call, call->variant % 2 == 0 ? PROP_TAME : PROP_WILD, call->data_type, shape, n_dims);
  if (axis != -1 || prop_chance (call->rand, 0.5))
    g_variant_dict_insert (call->attributes, "axis", "x", axis);
  if (g_str_equal (call->op->name, "top_k"))
    {
      gint64 length = shape[axis < 0 ? axis + (gint64) n_dims : axis];
      gint64 few = MIN (length, 9);

      g_variant_dict_insert (call->attributes, "k", "x", prop_pick (call->rand, 0, call->variant < 2 || prop_chance (call->rand, 0.5) ? few : length));
      g_variant_dict_insert (call->attributes, "largest", "b", prop_chance (call->rand, 0.5));
    }
  else
    {
      g_variant_dict_insert (call->attributes, "descending", "b", prop_chance (call->rand, 0.5));
    }
  if (!g_str_equal (call->op->name, "sort"))
    random_index_type (call);

  return TRUE;
}

static gboolean
generate_scan (Call *call)
{
  gint64 shape[RLX_MAX_DIMS], axis;
  gsize n_dims;
  PropKind kind = call->variant % 3 == 2 ? PROP_SPOILT : PROP_TAME;

  if (call->variant > 11)
    return FALSE;

  n_dims = axis_shape (call, shape, &axis);
  /* Long products overflow. */
  if (g_str_equal (call->op->name, "cumprod"))
    {
      kind = PROP_POSITIVE;
      shape[axis < 0 ? axis + (gint64) n_dims : axis] = prop_pick (call->rand, 1, 150);
    }
  add_input (call, kind, call->data_type, shape, n_dims);
  g_variant_dict_insert (call->attributes, "axis", "x", axis);
  g_variant_dict_insert (call->attributes, "exclusive", "b", prop_chance (call->rand, 0.4));
  g_variant_dict_insert (call->attributes, "reverse", "b", prop_chance (call->rand, 0.4));

  return TRUE;
}

/* ---- random numbers ------------------------------------------------------------------------ */

static void
random_counter (Call *call)
{
  gint64 words[4];
  gsize n = (gsize) prop_pick (call->rand, 0, 4);

  /* Some close to the end, where they carry. */
  for (gsize i = 0; i < n; i++)
    words[i] = prop_chance (call->rand, 0.5) ? G_MAXUINT32 - prop_pick (call->rand, 0, 3) : prop_pick (call->rand, 0, G_MAXUINT32);
  set_ints (call, "counter", words, n);
}

static void
add_key (Call       *call,
         RlxDataType data_type)
{
  gint64 n = prop_pick (call->rand, 1, 2);

  add_input (call, PROP_WILD, data_type, &n, n == 1 && prop_chance (call->rand, 0.5) ? 0 : 1);
}

static gboolean
generate_random (Call *call)
{
  gint64 shape[RLX_MAX_DIMS];
  gsize n_dims;
  gboolean has_type = !g_str_equal (call->op->name, "random_bits");

  if (call->variant > 6)
    return FALSE;

  add_key (call, call->data_type);
  n_dims = random_shape (call, shape, 0, 4);
  set_ints (call, "shape", shape, n_dims);
  random_counter (call);
  if (has_type)
    g_variant_dict_insert (call->attributes, "data_type", "s", prop_chance (call->rand, 0.6) ? "f32" : "f16");
  if (g_str_equal (call->op->name, "random_uniform"))
    {
      double low = 10 * g_rand_double (call->rand) - 5;

      g_variant_dict_insert (call->attributes, "low", "d", low);
      g_variant_dict_insert (call->attributes, "high", "d", low + 8 * g_rand_double (call->rand));
    }
  else if (has_type)
    {
      g_variant_dict_insert (call->attributes, "mean", "d", 10 * g_rand_double (call->rand) - 5);
      g_variant_dict_insert (call->attributes, "scale", "d", 3 * g_rand_double (call->rand));
    }

  return TRUE;
}

static gboolean
generate_dropout (Call *call)
{
  gint64 shape[RLX_MAX_DIMS];
  gsize n_dims;

  if (call->variant > 6)
    return FALSE;

  n_dims = random_shape (call, shape, 0, 4);
  add_input (call, call->variant == 1 ? PROP_SPOILT : PROP_TAME, call->data_type, shape, n_dims);
  add_key (call, RLX_DATA_TYPE_U32);
  g_variant_dict_insert (call->attributes, "ratio", "d", call->variant == 0 ? 0.0 : 0.9 * g_rand_double (call->rand));
  random_counter (call);

  return TRUE;
}

static gboolean
generate_sample (Call *call)
{
  gint64 shape[] = { prop_pick (call->rand, 1, 20), prop_size (call->rand, 257) };

  if (call->variant > 9)
    return FALSE;

  if (call->variant == 9)
    shape[0] = 0;
  if (call->variant == 8)
    shape[1] = 1500;
  add_input (call, call->variant == 1 ? PROP_SPOILT : PROP_TAME, call->data_type, shape, 2);
  add_key (call, RLX_DATA_TYPE_I32);
  g_variant_dict_insert (call->attributes, "temperature", "d", call->variant == 0 ? 0.0 : 0.1 + g_rand_double (call->rand));
  if (prop_chance (call->rand, 0.5))
    g_variant_dict_insert (call->attributes, "top_k", "x", prop_pick (call->rand, 0, 9));
  if (prop_chance (call->rand, 0.5))
    g_variant_dict_insert (call->attributes, "top_p", "d", g_rand_double (call->rand));
  if (prop_chance (call->rand, 0.5))
    g_variant_dict_insert (call->attributes, "min_p", "d", 0.5 * g_rand_double (call->rand));
  random_counter (call);

  return TRUE;
}

const PropRow prop_sort_rows[] = {
  { "arg_max", generate_arg },
  { "arg_min", generate_arg },
  { "hardmax", generate_arg },
  { "sort", generate_sort },
  { "arg_sort", generate_sort },
  { "top_k", generate_sort },
  { "cumsum", generate_scan },
  { "cumprod", generate_scan },
  { "cummax", generate_scan },
  { "cummin", generate_scan },
  { "random_bits", generate_random },
  { "random_uniform", generate_random },
  { "random_normal", generate_random },
  { "dropout", generate_dropout },
  { "sample", generate_sample },
  { NULL, NULL },
};
