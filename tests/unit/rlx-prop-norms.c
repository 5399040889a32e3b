/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Calls of norms with factors that are not simply those of the axes.
 */
#include "config.h"

#include "rlx-prop-calls.h"

static void
random_epsilon (Call *call)
{
  if (prop_chance (call->rand, 0.5))
    g_variant_dict_insert (call->attributes, "epsilon", "d", pow (10, -8 * g_rand_double (call->rand)));
}

/* The operand of an operator that needs a batch and channels. */
static gsize
random_image (Call   *call,
              gint64 *shape)
{
  if (call->variant == 1)
    {
      /* Long enough for three steps. */
      shape[0] = 1;
      shape[1] = 2;
      shape[2] = 130;
      shape[3] = 131;
      return 4;
    }
  return random_shape (call, shape, 2, 5);
}

static gboolean
generate_image_norm (Call *call)
{
  gint64 shape[RLX_MAX_DIMS], factor, groups = 0;
  gboolean last = call->variant % 2 == 0;
  gsize n_dims, axis;

  if (call->variant > 7)
    return FALSE;

  n_dims = random_image (call, shape);
  axis = last ? n_dims - 1 : 1;
  factor = shape[axis];
  if (g_str_equal (call->op->name, "group_norm"))
    {
      groups = prop_pick (call->rand, 1, 4);
      if (shape[axis] < 64)
        shape[axis] *= groups;
      else
        groups = 1;
      factor = call->variant % 3 == 0 ? groups : shape[axis];
      g_variant_dict_insert (call->attributes, "groups", "x", groups);
    }

  add_input (call, call->variant == 6 ? PROP_SPOILT : PROP_TAME, call->data_type, shape, n_dims);
  for (guint i = 1; i < 3; i++)
    {
      if (prop_chance (call->rand, 0.7))
        add_input (call, PROP_TAME, call->data_type, &factor, 1);
      else
        skip_input (call);
    }
  g_variant_dict_insert (call->attributes, "layout", "s", last ? "channels-last" : "channels-first");
  random_epsilon (call);

  return TRUE;
}

static gboolean
generate_ada_norm (Call *call)
{
  gint64 shape[RLX_MAX_DIMS], part[RLX_MAX_DIMS], axes[RLX_MAX_DIMS];
  gsize n_dims, n_part;

  if (call->variant > 7)
    return FALSE;

  n_dims = rows_shape (call, shape);
  add_input (call, call->variant == 6 ? PROP_SPOILT : PROP_TAME, call->data_type, shape, n_dims);
  for (guint i = 1; i < 3; i++)
    {
      n_part = random_part (call, shape, n_dims, part);
      add_input (call, PROP_TAME, call->data_type, part, n_part);
    }
  if (call->variant > 3)
    set_ints (call, "axes", axes, random_axes (call, n_dims, axes));
  random_epsilon (call);

  return TRUE;
}

static gboolean
generate_residual_norm (Call *call)
{
  gint64 shape[RLX_MAX_DIMS], part[RLX_MAX_DIMS], axes[RLX_MAX_DIMS] = { -1 }, factor[RLX_MAX_DIMS];
  gsize n_dims, n_part, n_axes = 1;

  if (call->variant > 7)
    return FALSE;

  n_dims = rows_shape (call, shape);
  if (call->variant > 3)
    {
      n_axes = random_axes (call, n_dims, axes);
      set_ints (call, "axes", axes, n_axes);
    }
  for (gsize i = 0; i < n_axes; i++)
    factor[i] = shape[axes[i] < 0 ? axes[i] + (gint64) n_dims : axes[i]];

  add_input (call, call->variant == 6 ? PROP_SPOILT : PROP_TAME, call->data_type, shape, n_dims);
  if (call->variant % 2 == 0)
    {
      add_input (call, PROP_TAME, call->data_type, shape, n_dims);
    }
  else
    {
      n_part = random_part (call, shape, n_dims, part);
      add_input (call, PROP_TAME, call->data_type, part, n_part);
    }
  for (guint i = 2; i < call->op->n_inputs; i++)
    {
      if (prop_chance (call->rand, 0.6))
        add_input (call, PROP_TAME, call->data_type, factor, n_axes);
      else
        skip_input (call);
    }
  g_variant_dict_insert (call->attributes, "keep_sum", "b", call->variant % 3 != 0);
  random_epsilon (call);

  return TRUE;
}

static gboolean
generate_lp_norm (Call *call)
{
  gint64 shape[RLX_MAX_DIMS];
  gsize n_dims;

  if (call->variant > 8)
    return FALSE;

  n_dims = rows_shape (call, shape);
  add_input (call, call->variant == 7 ? PROP_SPOILT : PROP_TAME, call->data_type, shape, n_dims);
  g_variant_dict_insert (call->attributes, "axis", "x", random_axis (call, n_dims));
  g_variant_dict_insert (call->attributes, "p", "x", (gint64) (1 + call->variant % 2));

  return TRUE;
}

static gboolean
generate_batch_norm (Call *call)
{
  gint64 shape[RLX_MAX_DIMS], axis;
  RlxDataType other = call->variant % 3 == 1 ? RLX_DATA_TYPE_F32 : call->data_type;
  gsize n_dims;

  if (call->variant > 7)
    return FALSE;

  n_dims = random_shape (call, shape, 1, 5);
  axis = random_axis (call, n_dims);
  add_input (call, call->variant == 6 ? PROP_SPOILT : PROP_TAME, call->data_type, shape, n_dims);
  for (guint i = 1; i < 5; i++)
    {
      if (i > 2 && prop_chance (call->rand, 0.3))
        skip_input (call);
      else
        add_input (call, i == 2 ? PROP_POSITIVE : PROP_TAME, i > 2 ? call->data_type : other,
                   &shape[axis < 0 ? axis + (gint64) n_dims : axis], 1);
    }
  /* Computations on constants are folded. */
  if (call->variant % 2 == 0)
    call->constants = 0x1e;
  g_variant_dict_insert (call->attributes, "axis", "x", axis);
  random_epsilon (call);

  return TRUE;
}

static gboolean
generate_norm_backward (Call *call)
{
  gint64 shape[RLX_MAX_DIMS];
  gsize n_dims;

  if (call->variant > 8)
    return FALSE;

  n_dims = rows_shape (call, shape);
  /* Many short rows, so that columns are split. */
  if (call->variant == 7)
    {
      shape[0] = 1200;
      shape[1] = 5;
      n_dims = 2;
    }
  add_input (call, call->variant == 6 ? PROP_SPOILT : PROP_TAME, call->data_type, shape, n_dims);
  add_input (call, PROP_TAME, call->data_type, shape, n_dims);
  if (call->variant % 2 == 0)
    add_input (call, PROP_TAME, call->data_type, shape + n_dims - 1, 1);
  else
    skip_input (call);
  if (call->variant % 3 == 0)
    add_input (call, PROP_TAME, call->data_type, shape, n_dims);
  g_variant_dict_insert (call->attributes, "centred", "b", call->variant % 4 < 2);
  g_variant_dict_insert (call->attributes, "factors", "b", call->variant != 5);
  random_epsilon (call);

  return TRUE;
}

const PropRow prop_norms_rows[] = {
  { "batch_norm", generate_batch_norm },
  { "instance_norm", generate_image_norm },
  { "group_norm", generate_image_norm },
  { "layer_norm_2d", generate_image_norm },
  { "ada_layer_norm", generate_ada_norm },
  { "layer_norm_backward", generate_norm_backward },
  { "lp_norm", generate_lp_norm },
  { "residual_layer_norm", generate_residual_norm },
  { "residual_rms_norm", generate_residual_norm },
  { NULL, NULL },
};
