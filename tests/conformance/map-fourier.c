/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * ONNX's Fourier transform.
 */
#include "config.h"

#include "map-onnx.h"

/* Real numbers have a last dimension of 1 there. */
static RlxNode *
remove_last (MapCall *call,
             RlxNode *node,
             GError **error)
{
  gsize n_dims;
  g_autofree gint64 *shape = onnx_copy_shape (node, &n_dims);

  return map_reshape (call, node, shape, n_dims - 1, error);
}

static RlxNode *
add_last (MapCall *call,
          RlxNode *node,
          GError **error)
{
  gsize n_dims;
  const gint64 *old = rlx_node_get_shape (node, &n_dims);
  gint64 shape[RLX_MAX_DIMS + 1];

  for (gsize i = 0; i < n_dims; i++)
    shape[i] = old[i];
  shape[n_dims] = 1;
  return map_reshape (call, node, shape, n_dims + 1, error);
}

gboolean
onnx_map_dft (MapCall *call,
              GError **error)
{
  RlxNode *x = map_input (call, 0, FALSE, error);
  g_autofree gint64 *length = NULL, *axes = NULL;
  gint64 before[RLX_MAX_DIMS] = { 0, }, after[RLX_MAX_DIMS] = { 0, }, axis;
  gsize n_dims, n_length = 0, n_axes = 0, found;
  gboolean inverse, onesided, real, has_length, has_axis = FALSE;
  const gint64 *shape;
  GVariant *attrs;

  if (x == NULL ||
      !map_arg_int (call, "axis", call->opset < 20 ? 1 : -2, &axis, error) ||
      !map_arg_bool (call, "inverse", FALSE, &inverse, error) ||
      !map_arg_bool (call, "onesided", FALSE, &onesided, error) ||
      !onnx_get_ints (call, "dft_length", 1, &length, &n_length, &has_length, error) ||
      (call->opset >= 20 && !onnx_get_ints (call, "axis", 2, &axes, &n_axes, &has_axis, error)))
    return FALSE;
  shape = rlx_node_get_shape (x, &n_dims);
  if (n_dims < 2 || (has_length && n_length != 1) || (has_axis && n_axes != 1))
    return map_refused (error, "DFT: the operand has %" G_GSIZE_FORMAT " dimensions, or arguments are no numbers", n_dims);
  real = shape[n_dims - 1] == 1;
  if (!onnx_normalise_axis (call, has_axis ? axes[0] : axis, n_dims, n_dims - 1, &found, error))
    return FALSE;

  axis = (gint64) found;
  if (real && onesided && !inverse)
    {
      x = remove_last (call, x, error);
    }
  else if (real)
    {
      after[n_dims - 1] = 1;
      x = map_op1 (call, "pad", x, map_attrs ("before", map_ints (before, n_dims), "after", map_ints (after, n_dims), NULL), error);
    }
  attrs = map_attrs ("axes", map_ints (&axis, 1), "lengths", map_ints (length, has_length ? 1 : 0), NULL);
  if (x != NULL)
    x = map_op1 (call, inverse ? (onesided ? "irfft" : "ifft") : real && onesided ? "rfft" : "fft", x, attrs, error);
  else
    g_variant_unref (g_variant_ref_sink (attrs));
  if (x != NULL && inverse && onesided)
    x = add_last (call, x, error);
  return map_return (call, 0, x);
}
