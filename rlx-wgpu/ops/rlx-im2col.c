/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The windows of a convolution as columns of a matrix.
 */
#include "config.h"

#include "ops/rlx-kernel-private.h"
#include "ops/rlx-window-private.h"

#include "util/rlx-checked-private.h"

#define WORKGROUP_SIZE 64

static gboolean
im2col_read (RlxWindow            *window,
             const RlxOpCall      *call,
             const RlxIm2colAttrs *attrs,
             GError              **error)
{
  const RlxWindowSteps steps = { attrs->strides, attrs->dilations, attrs->padding, RLX_LAYOUT_CHANNELS_FIRST, FALSE };
  const gint64 *sizes;
  guint n_axes;
  g_autoptr(GError) local = NULL;

  if (!rlx_window_check_rank (call, &n_axes, error))
    return FALSE;
  if (!rlx_window_get_list (call, "window", &attrs->window, n_axes, 1, &sizes, &local))
    {
      if (local == NULL)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                               "window has no values; it must have %u", n_axes);
      g_propagate_error (error, g_steal_pointer (&local));
      return FALSE;
    }

  return rlx_window_init (window, call, &steps, sizes, "the window", error) &&
         rlx_window_slide (window, call, error);
}

gboolean
rlx_im2col_infer (RlxOpCall            *call,
                  const RlxIm2colAttrs *attrs,
                  GError              **error)
{
  RlxTensorType type = { .data_type = call->inputs[0]->data_type, .n_dims = 2 };
  RlxWindow window;
  gboolean fits = TRUE;

  if (!im2col_read (&window, call, attrs, error))
    return FALSE;

  type.shape[0] = window.batch;
  type.shape[1] = window.channels;
  for (guint i = 0; i < window.n_axes; i++)
    fits = fits && rlx_mul_i64 (type.shape[0], window.axes[i].out, &type.shape[0]) &&
           rlx_mul_i64 (type.shape[1], window.axes[i].window, &type.shape[1]);
  if (!fits)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT, "the result has more rows or columns than 2⁶³");

  rlx_call_add_output (call, &type);
  return TRUE;
}

gboolean
rlx_im2col_lower (RlxLower        *lower,
                  const RlxIrNode *node,
                  GError         **error)
{
  const RlxIrValue *x = node->inputs[0];
  const RlxIrValue *y = &node->outputs[0];
  guint64 n_elements = rlx_type_n_elements (&y->type);
  gboolean padding = rlx_type_n_elements (&x->type) == 0;
  const RlxTensorType *types[1];
  guint64 sizes[RLX_MAX_SPATIAL];
  RlxWindowStrides strides;
  guint64 n_groups;
  RlxWindow window;
  RlxOpCall call;
  RlxKernel *kernel;

  if (n_elements == 0)
    return TRUE;

  rlx_window_make_call (&call, node, types);
  if (!im2col_read (&window, &call, rlx_im2col_attrs (node), error))
    return FALSE;

  n_groups = (n_elements - 1) / WORKGROUP_SIZE + 1;
  kernel = rlx_kernel_new (lower, node, "im2col");
  rlx_kernel_define (kernel, "WG", WORKGROUP_SIZE);
  rlx_kernel_define (kernel, "RANK", window.n_axes);
  rlx_kernel_define (kernel, "PADDING", padding);
  rlx_kernel_output_raw (kernel, "y", y);
  rlx_kernel_param_u32 (kernel, "elements", n_elements);
  rlx_kernel_param_u32 (kernel, "groups", n_groups);
  if (!padding)
    {
      rlx_kernel_input_raw (kernel, "x", x);
      for (guint d = 0; d < window.n_axes; d++)
        sizes[d] = (guint64) window.axes[window.n_axes - 1 - d].in;
      rlx_window_get_strides (&window, (guint64) window.channels, sizes, &strides);
      rlx_kernel_param_u32 (kernel, "c", (guint64) window.channels);
      rlx_kernel_param_u32 (kernel, "x_batch", strides.batch);
      rlx_kernel_param_u32 (kernel, "x_channel", strides.channel);
      for (guint d = 0; d < window.n_axes; d++)
        {
          const RlxWindowAxis *axis = &window.axes[window.n_axes - 1 - d];

          rlx_window_param (kernel, "in", d, sizes[d]);
          rlx_window_param (kernel, "out", d, (guint64) axis->out);
          rlx_window_param (kernel, "k", d, (guint64) axis->window);
          rlx_window_param (kernel, "stride", d, (guint64) (axis->out == 1 ? 1 : axis->stride));
          rlx_window_param (kernel, "dilation", d, (guint64) axis->dilation);
          rlx_window_param (kernel, "begin", d, (guint64) axis->begin);
          rlx_window_param (kernel, "x_axis", d, strides.axes[d]);
        }
    }
  rlx_kernel_set_cost (kernel, 0, 2.0 * (double) rlx_type_n_bytes (&y->type));
  return rlx_kernel_dispatch (kernel, n_groups, error);
}
