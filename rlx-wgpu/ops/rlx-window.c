/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "ops/rlx-window-private.h"

#include "ops/rlx-fused-private.h"

#include "util/rlx-checked-private.h"

/* Kernels compute padded positions as 32-bit signed integers. */
#define MAX_PADDED G_MAXINT32

gboolean
rlx_window_check_rank (const RlxOpCall *call,
                       guint           *n_axes,
                       GError         **error)
{
  const RlxTensorType *x = call->inputs[0];

  if (x->n_dims < 3 || x->n_dims > 2 + RLX_MAX_SPATIAL)
    {
      g_autofree char *text = rlx_type_to_string (x);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                             "the operand %s has %u dimensions; it must have a batch, channels and 1 to %u spatial axes",
                             text, x->n_dims, RLX_MAX_SPATIAL);
    }

  *n_axes = x->n_dims - 2;
  return TRUE;
}

gboolean
rlx_window_get_list (const RlxOpCall *call,
                     const char      *name,
                     const RlxInts   *list,
                     guint            n_values,
                     gint64           least,
                     const gint64   **values,
                     GError         **error)
{
  *values = NULL;
  if (list->n_values == 0)
    return FALSE;

  if (list->n_values != n_values)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "%s has %u values; it must have %u for %u spatial axes",
                           name, list->n_values, n_values, call->inputs[0]->n_dims - 2);

  for (guint i = 0; i < n_values; i++)
    if (list->values[i] < least)
      return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                             "%s[%u] is %" G_GINT64_FORMAT "; it must be at least %" G_GINT64_FORMAT,
                             name, i, list->values[i], least);

  *values = list->values;
  return TRUE;
}

/* Like rlx_window_get_list(), but returns FALSE only on errors. */
static gboolean
get_optional (const RlxOpCall *call,
              const char      *name,
              const RlxInts   *list,
              guint            n_values,
              gint64           least,
              const gint64   **values,
              GError         **error)
{
  g_autoptr(GError) local = NULL;

  if (rlx_window_get_list (call, name, list, n_values, least, values, &local) || local == NULL)
    return TRUE;

  g_propagate_error (error, g_steal_pointer (&local));
  return FALSE;
}

static gboolean
init_axis (RlxWindowAxis   *axis,
           const RlxOpCall *call,
           guint            index,
           const char      *what,
           GError         **error)
{
  gint64 padded, reach;

  if (axis->window < 1)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "%s has %" G_GINT64_FORMAT " elements along spatial axis %u; it must have at least 1",
                           what, axis->window, index);

  if (!rlx_add_i64 (axis->in, axis->begin, &padded) ||
      !rlx_add_i64 (padded, axis->end, &padded) ||
      padded > MAX_PADDED)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                           "spatial axis %u has %" G_GINT64_FORMAT " elements and a padding of %" G_GINT64_FORMAT
                           " and %" G_GINT64_FORMAT ", together they must not be more than %d",
                           index, axis->in, axis->begin, axis->end, MAX_PADDED);

  if (!rlx_mul_i64 (axis->window - 1, axis->dilation, &reach) || reach >= MAX_PADDED)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                           "%s has %" G_GINT64_FORMAT " elements at a distance of %" G_GINT64_FORMAT
                           " along spatial axis %u; it must not reach over more than %d",
                           what, axis->window, axis->dilation, index, MAX_PADDED);
  axis->reach = reach + 1;
  /* A window of one element has no distances. */
  if (axis->window == 1)
    axis->dilation = 1;

  return TRUE;
}

gboolean
rlx_window_init (RlxWindow            *self,
                 const RlxOpCall      *call,
                 const RlxWindowSteps *steps,
                 const gint64         *sizes,
                 const char           *what,
                 GError              **error)
{
  const RlxTensorType *x = call->inputs[0];
  const gint64 *strides, *dilations, *padding;
  guint64 n_elements = 1;

  *self = (RlxWindow) { 0, };
  if (!rlx_window_check_rank (call, &self->n_axes, error) ||
      !get_optional (call, "strides", &steps->strides, self->n_axes, 1, &strides, error) ||
      !get_optional (call, "dilations", &steps->dilations, self->n_axes, 1, &dilations, error) ||
      !get_optional (call, "padding", &steps->padding, 2 * self->n_axes, 0, &padding, error))
    return FALSE;

  self->channels_last = steps->layout == RLX_LAYOUT_CHANNELS_LAST;
  self->swapped = steps->swapped;
  if (self->channels_last && self->swapped)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "swapped is for channels-first layouts, the layout is channels-last");
  self->batch = x->shape[self->swapped ? 1 : 0];
  self->channels = x->shape[self->channels_last ? x->n_dims - 1 : self->swapped ? 0 : 1];

  for (guint i = 0; i < self->n_axes; i++)
    {
      RlxWindowAxis *axis = &self->axes[i];

      axis->in = x->shape[i + (self->channels_last ? 1 : 2)];
      axis->window = sizes != NULL ? sizes[i] : axis->in;
      axis->stride = strides != NULL ? strides[i] : 1;
      axis->dilation = dilations != NULL ? dilations[i] : 1;
      axis->begin = padding != NULL ? padding[2 * i] : 0;
      axis->end = padding != NULL ? padding[2 * i + 1] : 0;
      if (!init_axis (axis, call, i, what, error))
        return FALSE;
      if (!rlx_mul_u64 (n_elements, (guint64) axis->window, &n_elements) || n_elements > G_MAXUINT32)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                               "%s has more than %u elements", what, G_MAXUINT32);
    }

  return TRUE;
}

gboolean
rlx_window_slide (RlxWindow       *self,
                  const RlxOpCall *call,
                  GError         **error)
{
  for (guint i = 0; i < self->n_axes; i++)
    {
      RlxWindowAxis *axis = &self->axes[i];
      gint64 padded = axis->in + axis->begin + axis->end;

      if (axis->reach > padded)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                               "along spatial axis %u the window reaches over %" G_GINT64_FORMAT
                               " elements, more than the %" G_GINT64_FORMAT " that there are with padding",
                               i, axis->reach, padded);
      axis->out = (padded - axis->reach) / axis->stride + 1;
    }

  return TRUE;
}

void
rlx_window_get_type (const RlxWindow *self,
                     RlxDataType      data_type,
                     gint64           channels,
                     RlxTensorType   *type)
{
  *type = (RlxTensorType) { .data_type = data_type, .n_dims = self->n_axes + 2 };
  type->shape[self->swapped ? 1 : 0] = self->batch;
  type->shape[self->channels_last ? self->n_axes + 1 : self->swapped ? 0 : 1] = channels;
  for (guint i = 0; i < self->n_axes; i++)
    type->shape[i + (self->channels_last ? 1 : 2)] = self->axes[i].out;
}

void
rlx_window_make_call (RlxOpCall            *call,
                      const RlxIrNode      *node,
                      const RlxTensorType **types)
{
  guint n_inputs = rlx_ir_node_n_own_inputs (node);

  for (guint i = 0; i < n_inputs; i++)
    types[i] = node->inputs[i] != NULL ? &node->inputs[i]->type : NULL;

  *call = (RlxOpCall) {
    .op = node->op,
    .name = node->name,
    .attrs = node->attrs,
    .inputs = types,
    .n_inputs = n_inputs,
  };
}

void
rlx_window_get_strides (const RlxWindow  *self,
                        guint64           channels,
                        const guint64    *sizes,
                        RlxWindowStrides *strides)
{
  guint64 stride = self->channels_last ? channels : 1;

  for (guint i = 0; i < self->n_axes; i++)
    {
      strides->axes[i] = stride;
      stride *= sizes[i];
    }
  strides->channel = self->channels_last ? 1 : self->swapped ? stride * (guint64) self->batch : stride;
  strides->batch = self->channels_last || self->swapped ? stride : stride * channels;
}

void
rlx_window_param (RlxKernel  *kernel,
                  const char *prefix,
                  guint       index,
                  guint64     value)
{
  char name[32];

  g_snprintf (name, sizeof name, "%s%u", prefix, index);
  rlx_kernel_param_u32 (kernel, name, value);
}
