/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Calls with complex numbers.
 */
#include "config.h"

#include "rlx-prop-calls.h"

static gboolean
generate_complex (Call *call)
{
  gboolean joins = g_str_equal (call->op->name, "complex");
  gboolean two = joins || g_str_equal (call->op->name, "complex_mul");
  PropKind kind = call->variant == 2 ? PROP_WILD : PROP_TAME;
  gint64 shape[RLX_MAX_DIMS], part[RLX_MAX_DIMS];
  gsize n_dims, n_part;

  if (call->variant > 6)
    return FALSE;

  n_dims = random_shape (call, shape, call->variant == 3 ? 7 : 0, 7);
  n_part = random_part (call, shape, n_dims, part);
  if (!joins)
    {
      shape[n_dims++] = 2;
      part[n_part++] = 2;
    }
  add_input (call, kind, call->data_type, shape, n_dims);
  if (two)
    add_input (call, kind, call->data_type, part, n_part);
  return TRUE;
}

const PropRow prop_complex_rows[] = {
  { "complex", generate_complex },
  { "real", generate_complex },
  { "imag", generate_complex },
  { "conj", generate_complex },
  { "complex_mul", generate_complex },
  { "abs_squared", generate_complex },
  { NULL, NULL },
};
