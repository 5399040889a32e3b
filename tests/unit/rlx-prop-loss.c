/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Calls of losses.
 */
#include "config.h"

#include "rlx-prop-calls.h"

static void
set_reduction (Call *call)
{
  static const char *const reductions[] = { "none", "mean", "sum" };

  g_variant_dict_insert (call->attributes, "reduction", "s", reductions[call->variant % 3]);
}

static gboolean
generate_loss (Call *call)
{
  gint64 shape[RLX_MAX_DIMS];
  gsize n_dims;

  if (call->variant > 6)
    return FALSE;

  n_dims = rows_shape (call, shape);
  add_input (call, PROP_TAME, call->data_type, shape, n_dims);
  add_input (call, strcmp (call->op->name, "kl_loss") == 0 ? PROP_POSITIVE : PROP_TAME, call->data_type, shape, n_dims);
  if (strcmp (call->op->name, "huber_loss") == 0)
    g_variant_dict_insert (call->attributes, "delta", "d", 0.25 + g_rand_double (call->rand));
  set_reduction (call);
  return TRUE;
}

static gboolean
generate_cross_entropy (Call *call)
{
  gboolean backward = strcmp (call->op->name, "softmax_cross_entropy_backward") == 0;
  gint64 shape[RLX_MAX_DIMS], rows[RLX_MAX_DIMS], axis;
  gsize n_dims, at, n = 0;

  if (call->variant > 7)
    return FALSE;

  n_dims = rows_shape (call, shape);
  axis = random_axis (call, n_dims);
  /* Enough rows that they are counted in a separate step. */
  if (backward && call->variant == 4)
    {
      shape[0] = 600;
      shape[1] = 3;
      n_dims = 2;
      axis = 1;
    }
  at = (gsize) (axis < 0 ? axis + (gint64) n_dims : axis);
  if (shape[at] == 0)
    shape[at] = 3;
  for (gsize i = 0; i < n_dims; i++)
    if (i != at)
      rows[n++] = shape[i];
  add_input (call, PROP_TAME, call->data_type, shape, n_dims);
  if (backward || call->variant % 2 == 0)
    add_input (call, PROP_TAME, RLX_DATA_TYPE_I32, rows, n);
  else
    add_input (call, PROP_POSITIVE, call->data_type, shape, n_dims);
  /* A number per row if there is no reduction. */
  if (backward)
    add_input (call, PROP_TAME, call->data_type, rows, call->variant % 3 == 0 ? n : 0);
  g_variant_dict_insert (call->attributes, "axis", "x", axis);
  if (call->variant > 3)
    g_variant_dict_insert (call->attributes, "smoothing", "d", 0.1);
  g_variant_dict_insert (call->attributes, "ignored", "x", (gint64) (call->variant == 6 ? 1 : -100));
  set_reduction (call);
  return TRUE;
}

const PropRow prop_rows_loss[] = {
  { "softmax_cross_entropy", generate_cross_entropy },
  { "softmax_cross_entropy_backward", generate_cross_entropy },
  { "mse_loss", generate_loss },
  { "l1_loss", generate_loss },
  { "huber_loss", generate_loss },
  { "binary_cross_entropy", generate_loss },
  { "kl_loss", generate_loss },
  { NULL, NULL },
};
