/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Calls of operators that change the shape, and of gather.
 */
#include "config.h"

#include "rlx-prop-calls.h"

static gboolean
generate_reshape (Call *call)
{
  gint64 shape[RLX_MAX_DIMS], to[RLX_MAX_DIMS];
  gsize n_dims, n_to = 0;
  gint64 n;

  if (call->variant > 6)
    return FALSE;

  n_dims = random_shape (call, shape, 0, 5);
  n = (gint64) prop_count (shape, n_dims);
  add_input (call, PROP_TAME, call->data_type, shape, n_dims);

  /* Sometimes splits off a divisor. */
  while (n_to < 5 && n > 0 && prop_chance (call->rand, 0.7))
    {
      gint64 divisor = prop_pick (call->rand, 1, 4);

      if (n % divisor != 0)
        divisor = 1;
      to[n_to++] = divisor;
      n /= divisor;
    }
  to[n_to++] = n > 0 && prop_chance (call->rand, 0.5) ? -1 : n;
  set_ints (call, "shape", to, n_to);

  return TRUE;
}

static gboolean
generate_transpose (Call *call)
{
  gint64 shape[RLX_MAX_DIMS], permutation[RLX_MAX_DIMS];
  gsize n_dims;

  if (call->variant > 7)
    return FALSE;

  n_dims = random_shape (call, shape, 0, call->variant == 6 ? 8 : 4);
  add_input (call, PROP_TAME, call->data_type, shape, n_dims);
  for (gsize i = 0; i < n_dims; i++)
    {
      gsize j = (gsize) prop_pick (call->rand, 0, (gint64) i);

      permutation[i] = permutation[j];
      permutation[j] = (gint64) i - (prop_chance (call->rand, 0.3) ? (gint64) n_dims : 0);
    }
  set_ints (call, "permutation", permutation, call->variant == 0 ? 0 : n_dims);

  return TRUE;
}

static gboolean
generate_slice (Call *call)
{
  gint64 shape[RLX_MAX_DIMS], starts[RLX_MAX_DIMS], ends[RLX_MAX_DIMS], axes[RLX_MAX_DIMS], steps[RLX_MAX_DIMS];
  gsize n_dims, n_axes;

  if (call->variant > 9)
    return FALSE;

  n_dims = random_shape (call, shape, 1, 4);
  add_input (call, PROP_TAME, call->data_type, shape, n_dims);
  n_axes = random_axes (call, n_dims, axes);
  for (gsize i = 0; i < n_axes; i++)
    {
      gint64 size = shape[axes[i] < 0 ? axes[i] + (gint64) n_dims : axes[i]];

      /* Half of them from near the beginning to near the end. */
      steps[i] = prop_pick (call->rand, 1, 4) * (prop_chance (call->rand, 0.3) ? -1 : 1);
      starts[i] = prop_chance (call->rand, 0.5) ? prop_pick (call->rand, 0, 2) : prop_pick (call->rand, -size - 3, size + 3);
      ends[i] = prop_chance (call->rand, 0.5) ? size - prop_pick (call->rand, 0, 2) : prop_pick (call->rand, -size - 3, size + 3);
      if (steps[i] < 0 && prop_chance (call->rand, 0.7))
        {
          starts[i] = G_MAXINT64;
          ends[i] = prop_chance (call->rand, 0.5) ? G_MININT64 : 0;
        }
      /* The same shape, but not the same elements. */
      if (call->variant == 1)
        {
          starts[i] = -1;
          ends[i] = G_MININT64;
          steps[i] = -1;
        }
    }
  set_ints (call, "starts", starts, n_axes);
  set_ints (call, "ends", ends, n_axes);
  set_ints (call, "axes", axes, n_axes);
  if (call->variant == 1 || prop_chance (call->rand, 0.7))
    set_ints (call, "steps", steps, n_axes);

  return TRUE;
}

static gboolean
generate_concat (Call *call)
{
  gint64 shape[RLX_MAX_DIMS], axis;
  gsize n_dims, n;

  if (call->variant > 6)
    return FALSE;

  n_dims = random_shape (call, shape, 1, 4);
  n = (gsize) prop_pick (call->rand, 1, MAX_OPERANDS);
  axis = random_axis (call, n_dims);
  for (gsize i = 0; i < n; i++)
    {
      shape[axis < 0 ? axis + (gint64) n_dims : axis] = prop_pick (call->rand, 0, 9);
      add_input (call, PROP_TAME, call->data_type, shape, n_dims);
    }
  g_variant_dict_insert (call->attributes, "axis", "x", axis);

  return TRUE;
}

static gboolean
generate_expand (Call *call)
{
  gint64 shape[RLX_MAX_DIMS], part[RLX_MAX_DIMS];
  gsize n_dims, n_part;

  if (call->variant > 7)
    return FALSE;

  n_dims = random_shape (call, shape, 0, 5);
  n_part = random_part (call, shape, n_dims, part);
  add_input (call, PROP_TAME, call->data_type, part, n_part);
  set_ints (call, "shape", shape, n_dims);

  return TRUE;
}

static gboolean
generate_gather (Call *call)
{
  static const RlxDataType types[] = {
    RLX_DATA_TYPE_I32, RLX_DATA_TYPE_U32, RLX_DATA_TYPE_I8, RLX_DATA_TYPE_U8, RLX_DATA_TYPE_I64, RLX_DATA_TYPE_U64,
  };
  RlxDataType index_type = types[call->variant % G_N_ELEMENTS (types)];
  gint64 shape[RLX_MAX_DIMS], indices[RLX_MAX_DIMS], axis;
  gsize n_dims, n_indices = (gsize) prop_pick (call->rand, 0, 2);

  if (call->variant > 11)
    return FALSE;

  n_dims = random_shape (call, shape, 1, 4);
  axis = random_axis (call, n_dims);
  /* Nothing can be picked from an axis of size 0. */
  if (shape[axis < 0 ? axis + (gint64) n_dims : axis] == 0)
    shape[axis < 0 ? axis + (gint64) n_dims : axis] = 3;
  for (gsize i = 0; i < n_indices; i++)
    indices[i] = call->variant == 9 ? 0 : prop_size (call->rand, 17);

  add_input (call, PROP_TAME, call->data_type, shape, n_dims);
  /* Some are far out of range. */
  add_input (call, PROP_WILD, index_type, indices, n_indices);
  g_variant_dict_insert (call->attributes, "axis", "x", axis);

  return TRUE;
}

static gboolean
generate_after (Call *call)
{
  gint64 shape[RLX_MAX_DIMS], other[RLX_MAX_DIMS];
  gsize n_dims, n_other;

  if (call->variant > 2)
    return FALSE;
  n_dims = random_shape (call, shape, 0, 4);
  n_other = random_shape (call, other, 0, 4);
  add_input (call, PROP_TAME, call->data_type, shape, n_dims);
  add_input (call, PROP_TAME, RLX_DATA_TYPE_F32, other, n_other);
  return TRUE;
}

const PropRow prop_shape_rows[] = {
  { "after", generate_after },
  { "reshape", generate_reshape },
  { "transpose", generate_transpose },
  { "slice", generate_slice },
  { "concat", generate_concat },
  { "expand", generate_expand },
  { "gather", generate_gather },
  { NULL, NULL },
};
