/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Calls of Fourier transforms.
 */
#include "config.h"

#include "rlx-prop-calls.h"

/* Lengths that take a single butterfly, several stages, convolutions and several passes; few
 * of them, as each is a kernel of its own. */
static gboolean
generate_fft (Call *call)
{
  static const gint64 lengths[] = { 8, 15, 1, 96, 17, 6, 360, 10, 7 };
  gboolean to_complex = g_str_equal (call->op->name, "rfft"), to_real = g_str_equal (call->op->name, "irfft");
  gboolean planar = call->variant % 3 == 1;
  gint64 shape[RLX_MAX_DIMS], n;
  gsize n_dims = 0, axis, first = planar && !to_complex ? 1 : 0;

  if (call->variant > 8)
    return FALSE;

  n = lengths[call->variant];
  if (first > 0)
    shape[n_dims++] = 2;
  if (call->variant % 2 == 0)
    shape[n_dims++] = prop_pick (call->rand, 1, 4);
  axis = n_dims;
  shape[n_dims++] = to_real ? n / 2 + 1 : n;
  /* dimensions next to the axis */
  if (call->variant == 1 || call->variant == 4 || call->variant == 6)
    shape[n_dims++] = prop_pick (call->rand, 1, 11);
  if (to_real || call->variant == 5)
    set_ints (call, "lengths", &n, 1);
  /* truncated and padded */
  if (call->variant == 3 || call->variant == 5)
    {
      shape[axis] = MAX (shape[axis] + (call->variant == 3 ? 3 : -2), 1);
      set_ints (call, "lengths", &n, 1);
    }
  if (call->variant == 7)
    {
      /* two transforms, the second along its own axis */
      gint64 axes[] = { (gint64) (axis - first) + 1, (gint64) (axis - first) }, both[] = { 3, n };

      shape[n_dims++] = 3;
      set_ints (call, "axes", axes, 2);
      set_ints (call, "lengths", both, 2);
    }
  else
    {
      gint64 one = (gint64) (axis - first);

      set_ints (call, "axes", &one, 1);
    }
  if (!planar && !to_complex)
    shape[n_dims++] = 2;
  if (call->variant == 8)
    shape[0] = 0;   /* no rows */
  add_input (call, PROP_TAME, call->data_type, shape, n_dims);
  g_variant_dict_insert (call->attributes, "layout", "s", planar ? "planar" : "pairs");
  g_variant_dict_insert (call->attributes, "norm", "s",
                         (const char *[]) { "backward", "forward", "ortho" }[call->variant / 2 % 3]);
  return TRUE;
}

const PropRow prop_fourier_rows[] = {
  { "fft", generate_fft },
  { "ifft", generate_fft },
  { "rfft", generate_fft },
  { "irfft", generate_fft },
  { NULL, NULL },
};
