/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Calls of softmax, norms and reductions.
 */
#include "config.h"

#include "rlx-prop-calls.h"

/* Shapes whose rows are long, few, or many. */
gsize
rows_shape (Call   *call,
            gint64 *shape)
{
  static const gint64 edges[][3] = {
    { 3, 0, 0 },
    { 1, 1500, 0 },
    { 5, 600, 0 },
    { 513, 7, 0 },
    { 17, 33, 5 },
    { 4, 1, 129 },
  };

  if (call->variant < G_N_ELEMENTS (edges))
    {
      gsize n = 0;

      while (n < 3 && edges[call->variant][n] > 0)
        {
          shape[n] = edges[call->variant][n];
          n++;
        }
      return n;
    }

  return random_shape (call, shape, 1, 5);
}

static gboolean
generate_softmax (Call *call)
{
  gint64 shape[RLX_MAX_DIMS];
  gsize n_dims;

  if (call->variant > 10)
    return FALSE;

  n_dims = rows_shape (call, shape);
  add_input (call, call->variant == 7 ? PROP_SPOILT : PROP_TAME, call->data_type, shape, n_dims);
  g_variant_dict_insert (call->attributes, "axis", "x", random_axis (call, n_dims));

  return TRUE;
}

static gboolean
generate_norm (Call *call)
{
  gint64 shape[RLX_MAX_DIMS], axes[RLX_MAX_DIMS], factor[RLX_MAX_DIMS];
  gsize n_dims, n_axes = 1;

  if (call->variant > 9)
    return FALSE;

  n_dims = rows_shape (call, shape);
  axes[0] = -1;
  if (call->variant > 2)
    {
      n_axes = random_axes (call, n_dims, axes);
      set_ints (call, "axes", axes, n_axes);
    }
  for (gsize i = 0; i < n_axes; i++)
    factor[i] = shape[axes[i] < 0 ? axes[i] + (gint64) n_dims : axes[i]];

  add_input (call, call->variant == 7 ? PROP_SPOILT : PROP_TAME, call->data_type, shape, n_dims);
  for (guint i = 1; i < call->op->n_inputs; i++)
    {
      if (prop_chance (call->rand, 0.7))
        add_input (call, PROP_TAME, call->data_type, factor, n_axes);
      else
        skip_input (call);
    }
  if (prop_chance (call->rand, 0.5))
    g_variant_dict_insert (call->attributes, "epsilon", "d", pow (10, -8 * g_rand_double (call->rand)));

  return TRUE;
}

static gboolean
generate_reduce (Call *call)
{
  gint64 shape[RLX_MAX_DIMS], axes[RLX_MAX_DIMS];
  gsize n_dims, n_axes;
  gboolean product = g_str_equal (call->op->name, "reduce_prod") || g_str_equal (call->op->name, "reduce_log_sum");

  if (call->variant > 13)
    return FALSE;

  if (call->variant == 11)
    {
      /* Long enough for two steps. */
      n_dims = 1;
      shape[0] = call->data_type == RLX_DATA_TYPE_F32 ? 70001 : 300;
    }
  else
    {
      n_dims = rows_shape (call, shape);
    }
  n_axes = random_axes (call, n_dims, axes);
  if (call->variant == 12 && n_axes > 0)
    shape[axes[0] < 0 ? axes[0] + (gint64) n_dims : axes[0]] = 0; /* an empty reduction */

  add_input (call, call->variant == 7 ? PROP_SPOILT : product ? PROP_POSITIVE : PROP_TAME, call->data_type, shape, n_dims);
  set_ints (call, "axes", axes, n_axes);
  g_variant_dict_insert (call->attributes, "keep_dims", "b", prop_chance (call->rand, 0.5));

  return TRUE;
}

const PropRow prop_rows_rows[] = {
  { "softmax", generate_softmax },
  { "log_softmax", generate_softmax },
  { "layer_norm", generate_norm },
  { "rms_norm", generate_norm },
  { "reduce_sum", generate_reduce },
  { "reduce_mean", generate_reduce },
  { "reduce_max", generate_reduce },
  { "reduce_min", generate_reduce },
  { "reduce_prod", generate_reduce },
  { "reduce_l1", generate_reduce },
  { "reduce_l2", generate_reduce },
  { "reduce_sum_square", generate_reduce },
  { "reduce_log_sum", generate_reduce },
  { "reduce_log_sum_exp", generate_reduce },
  { "reduce_any", generate_reduce },
  { "reduce_all", generate_reduce },
  { NULL, NULL },
};
