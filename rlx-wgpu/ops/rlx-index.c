/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Operators with operands that index other operands.
 *
 * Scattering must not depend on which invocation comes first. If the last update wins, it is
 * found as the maximum of the numbers of updates. If updates are combined, they are sorted by
 * destination (a radix sort, which is stable), so that those of one place are adjacent and in
 * order.
 */
#include "config.h"

#include "ops/rlx-index-private.h"
#include "ops/rlx-sort-private.h"

#include "util/rlx-checked-private.h"

#define WORKGROUP_SIZE 64
/* A workgroup of the sort takes this many updates per invocation. */
#define SORT_ITEMS 16
#define SORT_BITS 4
#define PREFIX_WORKGROUP_SIZE 256
#define PREFIX_ITEMS 4
/* Slots with more updates get a workgroup each. Not less than WORKGROUP_SIZE, so that each of its invocations
 * has at least one. */
#define MANY_UPDATES 64
/* Up to this many updates are sorted by comparing them with each other, unless that takes more than
 * MAX_COMPARED comparisons. */
#define MAX_RANKED 1024
#define MAX_COMPARED (1 << 20)

/* ---- rules ------------------------------------------------------------------------ */

/* Indices of elements along an axis. */
static gboolean
check_elements (RlxOpCall *call,
                gint64     wanted_axis,
                GError   **error)
{
  const RlxTensorType *x = call->inputs[0], *indices = call->inputs[1];
  guint axis;

  if (!rlx_call_axis (call, wanted_axis, x->n_dims, &axis, error))
    return FALSE;
  if (indices->n_dims != x->n_dims)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "the indices have %u dimensions, the operand %u", indices->n_dims, x->n_dims);
  for (guint i = 0; i < x->n_dims; i++)
    if (i != axis && indices->shape[i] > x->shape[i])
      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                             "dimension %u of the indices is %" G_GINT64_FORMAT ", that of the operand %" G_GINT64_FORMAT,
                             i, indices->shape[i], x->shape[i]);
  if (x->shape[axis] == 0 && rlx_type_n_elements (indices) > 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "dimension %u of the operand is 0, so %" G_GUINT64_FORMAT " indices have nothing to select",
                           axis, rlx_type_n_elements (indices));

  return TRUE;
}

gboolean
rlx_gather_elements_infer (RlxOpCall                    *call,
                           const RlxGatherElementsAttrs *attrs,
                           GError                      **error)
{
  RlxTensorType type = *call->inputs[1];

  if (!check_elements (call, attrs->axis, error))
    return FALSE;

  type.data_type = call->inputs[0]->data_type;
  rlx_call_add_output (call, &type);
  return TRUE;
}

/* Tuples of indices that name slices; *@slices is the type of all slices named. */
static gboolean
check_tuples (RlxOpCall     *call,
              gint64         batch_dims,
              RlxTensorType *slices,
              GError       **error)
{
  const RlxTensorType *x = call->inputs[0], *indices = call->inputs[1];
  RlxTensorType type = { .data_type = x->data_type };
  gint64 n;
  guint n_dims;

  if (x->n_dims == 0 || indices->n_dims == 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "operand and indices have %u and %u dimensions; at least 1 is needed", x->n_dims, indices->n_dims);
  if (batch_dims < 0 || batch_dims >= MIN (x->n_dims, indices->n_dims))
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "%" G_GINT64_FORMAT " shared dimensions are asked for, but operand and indices have %u and %u",
                           batch_dims, x->n_dims, indices->n_dims);
  for (guint i = 0; i < batch_dims; i++)
    if (x->shape[i] != indices->shape[i])
      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                             "dimension %u is in common, but %" G_GINT64_FORMAT " in the operand and %" G_GINT64_FORMAT " in the indices",
                             i, x->shape[i], indices->shape[i]);
  n = indices->shape[indices->n_dims - 1];
  if (n > x->n_dims - batch_dims)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "the last dimension of the indices is %" G_GINT64_FORMAT ", there are %" G_GINT64_FORMAT " dimensions to index",
                           n, x->n_dims - batch_dims);
  n_dims = indices->n_dims - 1 + x->n_dims - (guint) batch_dims - (guint) n;
  if (n_dims > RLX_MAX_DIMS)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                           "there would be %u dimensions; the limit is %d", n_dims, RLX_MAX_DIMS);
  for (guint i = (guint) batch_dims; i < batch_dims + n; i++)
    if (x->shape[i] == 0 && rlx_type_n_elements (indices) > 0)
      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                             "dimension %u of the operand is 0, there is nothing to index", i);

  for (guint i = 0; i + 1 < indices->n_dims; i++)
    type.shape[type.n_dims++] = indices->shape[i];
  for (guint i = (guint) (batch_dims + n); i < x->n_dims; i++)
    type.shape[type.n_dims++] = x->shape[i];

  *slices = type;
  return TRUE;
}

gboolean
rlx_gather_nd_infer (RlxOpCall              *call,
                     const RlxGatherNdAttrs *attrs,
                     GError                **error)
{
  RlxTensorType type;

  if (!check_tuples (call, attrs->batch_dims, &type, error))
    return FALSE;

  rlx_call_add_output (call, &type);
  return TRUE;
}

gboolean
rlx_one_hot_infer (RlxOpCall            *call,
                   const RlxOneHotAttrs *attrs,
                   GError              **error)
{
  const RlxTensorType *indices = call->inputs[0], *values = call->inputs[1];
  gint64 depth = attrs->depth;
  RlxTensorType type = { .data_type = values->data_type };
  guint axis;

  if (rlx_type_n_elements (values) != 2)
    {
      g_autofree char *text = rlx_type_to_string (values);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                             "the values are %s; there must be two: that of other places and that of the place marked", text);
    }
  if (depth < 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "the depth is %" G_GINT64_FORMAT, depth);
  if (indices->n_dims == RLX_MAX_DIMS)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                           "there would be %u dimensions; the limit is %d", indices->n_dims + 1, RLX_MAX_DIMS);
  if (!rlx_call_axis (call, attrs->axis, indices->n_dims + 1, &axis, error))
    return FALSE;

  type.n_dims = indices->n_dims + 1;
  for (guint i = 0; i < type.n_dims; i++)
    type.shape[i] = i < axis ? indices->shape[i] : i == axis ? depth : indices->shape[i - 1];

  rlx_call_add_output (call, &type);
  return TRUE;
}

static gboolean
check_updates (RlxOpCall           *call,
               RlxScatterMode       mode,
               const RlxTensorType *wanted,
               GError             **error)
{
  if (!rlx_type_same_shape (call->inputs[RLX_SCATTER_ELEMENTS_UPDATES], wanted))
    {
      g_autofree char *is = rlx_type_to_string (call->inputs[RLX_SCATTER_ELEMENTS_UPDATES]);
      g_autofree char *should = rlx_type_to_string (wanted);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the updates are %s, not %s", is, should);
    }
  if (mode != RLX_SCATTER_MODE_REPLACE && call->inputs[0]->data_type == RLX_DATA_TYPE_BOOL)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_DATA_TYPE, "elements of type bool can only be replaced");

  rlx_call_add_output (call, call->inputs[0]);
  return TRUE;
}

gboolean
rlx_scatter_elements_infer (RlxOpCall                     *call,
                            const RlxScatterElementsAttrs *attrs,
                            GError                       **error)
{
  RlxTensorType wanted = *call->inputs[1];

  wanted.data_type = call->inputs[0]->data_type;
  return check_elements (call, attrs->axis, error) && check_updates (call, attrs->mode, &wanted, error);
}

gboolean
rlx_scatter_nd_infer (RlxOpCall                     *call,
                      const RlxScatterElementsAttrs *attrs,
                      GError                       **error)
{
  RlxTensorType wanted;

  return check_tuples (call, 0, &wanted, error) && check_updates (call, attrs->mode, &wanted, error);
}

/* ---- gathering -------------------------------------------------------------------------- */

/* A kernel that has the indices, and also the operand unless only places are needed. */
static RlxKernel *
index_kernel_new (RlxLower        *lower,
                  const RlxIrNode *node,
                  const char      *file,
                  gboolean         target)
{
  RlxKernel *kernel = rlx_kernel_new (lower, node, file);

  if (!target)
    rlx_kernel_input_raw (kernel, "x", node->inputs[0]);
  rlx_kernel_input (kernel, "indices", node->inputs[1]);
  rlx_kernel_define (kernel, "TARGET", target);
  rlx_kernel_define (kernel, "SIGNED", !rlx_data_type_is_unsigned (node->inputs[1]->type.data_type));
  return kernel;
}

static gboolean
lower_elements (RlxLower         *lower,
                const RlxIrNode  *node,
                gint64            axis,
                const RlxIrValue *y,
                gboolean          target,
                GError          **error)
{
  const RlxTensorType *x = &node->inputs[0]->type, *indices = &node->inputs[1]->type;
  RlxKernel *kernel = index_kernel_new (lower, node, "gather-elements", target);
  gint64 strides[RLX_MAX_DIMS];

  if (axis < 0)
    axis += x->n_dims;
  rlx_type_get_strides (x, strides);
  rlx_kernel_define (kernel, "RANK", x->n_dims);
  rlx_kernel_define (kernel, "AXIS", x->n_dims - 1 - axis);
  rlx_kernel_param_u32 (kernel, "size", x->shape[axis]);
  for (guint i = 0; i < x->n_dims; i++)
    {
      rlx_kernel_param_indexed (kernel, "dim", i, indices->shape[x->n_dims - 1 - i]);
      rlx_kernel_param_indexed (kernel, "stride", i, strides[x->n_dims - 1 - i]);
    }

  return rlx_kernel_dispatch_elements (kernel, lower, y, error);
}

/* Computes the places of slices, in units of slices. */
static gboolean
lower_tuples (RlxLower         *lower,
              const RlxIrNode  *node,
              const RlxIrValue *y,
              guint             batch_dims,
              gboolean          target,
              GError          **error)
{
  const RlxTensorType *x = &node->inputs[0]->type, *indices = &node->inputs[1]->type;
  RlxKernel *kernel = index_kernel_new (lower, node, "gather-nd", target);
  guint n = (guint) indices->shape[indices->n_dims - 1];
  guint64 inner = 1, batch_stride = 1, per_batch = 1;
  gint64 strides[RLX_MAX_DIMS];

  rlx_type_get_strides (x, strides);
  for (guint i = batch_dims; i < x->n_dims; i++)
    batch_stride *= x->shape[i];
  for (guint i = batch_dims + n; i < x->n_dims; i++)
    inner *= x->shape[i];
  for (guint i = batch_dims; i + 1 < indices->n_dims; i++)
    per_batch *= indices->shape[i];

  rlx_kernel_define (kernel, "K", n);
  if (!target)
    {
      rlx_kernel_param_u32 (kernel, "inner", inner);
      rlx_kernel_param_u32 (kernel, "per_batch", per_batch);
      rlx_kernel_param_u32 (kernel, "batch_stride", batch_stride);
    }
  for (guint i = 0; i < n; i++)
    {
      rlx_kernel_param_indexed (kernel, "size", i, x->shape[batch_dims + i]);
      rlx_kernel_param_indexed (kernel, "stride", i, strides[batch_dims + i] / (target ? (gint64) inner : 1));
    }

  return rlx_kernel_dispatch_elements (kernel, lower, y, error);
}

gboolean
rlx_gather_elements_lower (RlxLower        *lower,
                           const RlxIrNode *node,
                           GError         **error)
{
  if (rlx_type_n_elements (&node->outputs[0].type) == 0)
    return TRUE;

  return lower_elements (lower, node, rlx_gather_elements_attrs (node)->axis, &node->outputs[0], FALSE, error);
}

gboolean
rlx_gather_nd_lower (RlxLower        *lower,
                     const RlxIrNode *node,
                     GError         **error)
{
  if (rlx_type_n_elements (&node->outputs[0].type) == 0)
    return TRUE;

  return lower_tuples (lower, node, &node->outputs[0], (guint) rlx_gather_nd_attrs (node)->batch_dims, FALSE, error);
}

gboolean
rlx_one_hot_lower (RlxLower        *lower,
                   const RlxIrNode *node,
                   GError         **error)
{
  const RlxIrValue *indices = node->inputs[0];
  const RlxTensorType *y = &node->outputs[0].type;
  RlxKernel *kernel;
  RlxAxis axis;

  if (rlx_type_n_elements (y) == 0)
    return TRUE;

  rlx_axis_init (&axis, y, rlx_type_get_axis (y, rlx_one_hot_attrs (node)->axis));
  kernel = rlx_kernel_new (lower, node, "one-hot");
  rlx_kernel_input (kernel, "indices", indices);
  rlx_kernel_input_raw (kernel, "values", node->inputs[1]);
  rlx_kernel_define (kernel, "SIGNED", !rlx_data_type_is_unsigned (indices->type.data_type));
  rlx_kernel_param_u32 (kernel, "inner", axis.inner);
  rlx_kernel_param_u32 (kernel, "depth", axis.length);

  return rlx_kernel_dispatch_elements (kernel, lower, &node->outputs[0], error);
}

/* ---- scattering ---------------------------------------------------------------------------- */

static RlxIrValue *
words_new (RlxLower *lower,
           guint64   n)
{
  RlxTensorType type = { .data_type = RLX_DATA_TYPE_U32, .n_dims = 1, .shape = { (gint64) n } };

  return rlx_lower_temporary (lower, &type);
}

static gboolean
lower_zeros (RlxLower         *lower,
             const RlxIrNode  *node,
             const RlxIrValue *words,
             GError          **error)
{
  return rlx_kernel_dispatch_elements (rlx_kernel_new (lower, node, "fill"), lower, words, error);
}

/* Slots are slices of @inner elements; @target has the slot of each of the @n
 * updates. */
static gboolean
lower_replace (RlxLower         *lower,
               const RlxIrNode  *node,
               const RlxIrValue *target,
               guint64           n,
               guint64           inner,
               GError          **error)
{
  const RlxIrValue *y = &node->outputs[0];
  RlxIrValue *last = words_new (lower, rlx_type_n_elements (&y->type) / inner);
  guint64 groups = (n + WORKGROUP_SIZE - 1) / WORKGROUP_SIZE;
  RlxKernel *kernel;

  if (!lower_zeros (lower, node, last, error))
    return FALSE;

  kernel = rlx_kernel_new (lower, node, "scatter-last");
  rlx_kernel_input_raw (kernel, "target", target);
  rlx_kernel_output_atomic (kernel, "last", last);
  rlx_kernel_define (kernel, "WG", WORKGROUP_SIZE);
  rlx_kernel_param_u32 (kernel, "n", n);
  rlx_kernel_param_u32 (kernel, "groups", groups);
  rlx_kernel_set_cost (kernel, 0, 8.0 * n);
  if (!rlx_kernel_dispatch (kernel, groups, error))
    return FALSE;

  kernel = rlx_kernel_new (lower, node, "scatter-replace");
  rlx_kernel_input_raw (kernel, "x", node->inputs[0]);
  rlx_kernel_input_raw (kernel, "updates", node->inputs[RLX_SCATTER_ELEMENTS_UPDATES]);
  rlx_kernel_input_raw (kernel, "last", last);
  rlx_kernel_param_u32 (kernel, "inner", inner);
  return rlx_kernel_dispatch_elements (kernel, lower, y, error);
}

static gboolean
lower_sort_step (RlxLower         *lower,
                 const RlxIrNode  *node,
                 const RlxIrValue *target,
                 const RlxIrValue *order,
                 const RlxIrValue *sorted,
                 const RlxIrValue *counts,
                 guint64           n,
                 guint             shift,
                 gboolean          count,
                 GError          **error)
{
  guint64 blocks = (n + WORKGROUP_SIZE * SORT_ITEMS - 1) / (WORKGROUP_SIZE * SORT_ITEMS);
  RlxKernel *kernel = rlx_kernel_new (lower, node, "radix");

  rlx_kernel_input_raw (kernel, "target", target);
  if (order != NULL)
    rlx_kernel_input_raw (kernel, "order", order);
  if (count)
    {
      rlx_kernel_output_raw (kernel, "counts", counts);
    }
  else
    {
      rlx_kernel_input_raw (kernel, "counts", counts);
      rlx_kernel_output_raw (kernel, "sorted", sorted);
    }
  rlx_kernel_define (kernel, "WG", WORKGROUP_SIZE);
  rlx_kernel_define (kernel, "ITEMS", SORT_ITEMS);
  rlx_kernel_define (kernel, "COUNT", count);
  rlx_kernel_define (kernel, "FIRST", order == NULL);
  rlx_kernel_param_u32 (kernel, "n", n);
  rlx_kernel_param_u32 (kernel, "blocks", blocks);
  rlx_kernel_param_u32 (kernel, "shift", shift);
  rlx_kernel_set_cost (kernel, 0, 12.0 * n);
  return rlx_kernel_dispatch (kernel, blocks, error);
}

/* The numbers of the updates, sorted by slot, in their order within a slot; NULL if there is only one slot. */
static gboolean
lower_sort (RlxLower          *lower,
            const RlxIrNode   *node,
            const RlxIrValue  *target,
            guint64            n,
            guint64            n_slots,
            const RlxIrValue **order,
            GError           **error)
{
  guint64 blocks = (n + WORKGROUP_SIZE * SORT_ITEMS - 1) / (WORKGROUP_SIZE * SORT_ITEMS);
  guint64 n_counts = blocks << SORT_BITS;

  *order = NULL;
  for (guint shift = 0; (n_slots - 1) >> shift > 0; shift += SORT_BITS)
    {
      RlxIrValue *counts = words_new (lower, n_counts);
      RlxIrValue *sorted = words_new (lower, n);
      RlxKernel *kernel;

      if (!lower_sort_step (lower, node, target, *order, NULL, counts, n, shift, TRUE, error))
        return FALSE;

      kernel = rlx_kernel_new (lower, node, "prefix");
      rlx_kernel_output_raw (kernel, "counts", counts);
      rlx_kernel_define (kernel, "WG", PREFIX_WORKGROUP_SIZE);
      rlx_kernel_define (kernel, "ITEMS", PREFIX_ITEMS);
      rlx_kernel_param_u32 (kernel, "n", n_counts);
      rlx_kernel_set_cost (kernel, 0, 8.0 * n_counts);
      if (!rlx_kernel_dispatch (kernel, 1, error) ||
          !lower_sort_step (lower, node, target, *order, sorted, counts, n, shift, FALSE, error))
        return FALSE;
      *order = sorted;
    }

  return TRUE;
}

static void
define_combine (RlxKernel        *kernel,
                const RlxIrNode  *node,
                const RlxIrValue *target,
                const RlxIrValue *order)
{
  if (target != NULL)
    rlx_kernel_input_raw (kernel, "target", target);
  if (order != NULL)
    rlx_kernel_input_raw (kernel, "order", order);
  rlx_kernel_input (kernel, "updates", node->inputs[RLX_SCATTER_ELEMENTS_UPDATES]);
  rlx_kernel_output (kernel, "y", &node->outputs[0]);
  rlx_kernel_define (kernel, "WG", WORKGROUP_SIZE);
  rlx_kernel_define (kernel, "MODE", rlx_scatter_elements_attrs (node)->mode);
  rlx_kernel_define (kernel, "FLOAT", rlx_data_type_is_float (node->inputs[RLX_SCATTER_ELEMENTS_UPDATES]->type.data_type));
  rlx_kernel_define (kernel, "TARGET", target != NULL);
  rlx_kernel_define (kernel, "SORTED", order != NULL);
}

/* For few updates: two steps, the second of which visits all elements of the result. */
static gboolean
lower_ranked (RlxLower         *lower,
              const RlxIrNode  *node,
              const RlxIrValue *target,
              guint64           n,
              guint64           inner,
              GError          **error)
{
  const RlxIrValue *y = &node->outputs[0];
  guint64 n_elements = rlx_type_n_elements (&y->type), n_slots = n_elements / inner;
  RlxIrValue *order = words_new (lower, n), *starts = words_new (lower, n_slots + 1);
  guint64 groups = rlx_divide_up (MAX (n, n_slots + 1), WORKGROUP_SIZE);
  RlxKernel *kernel = rlx_kernel_new (lower, node, "scatter-rank");

  rlx_kernel_input_raw (kernel, "target", target);
  rlx_kernel_output_raw (kernel, "order", order);
  rlx_kernel_output_raw (kernel, "starts", starts);
  rlx_kernel_define (kernel, "WG", WORKGROUP_SIZE);
  rlx_kernel_param_u32 (kernel, "n", n);
  rlx_kernel_param_u32 (kernel, "slots", n_slots);
  rlx_kernel_param_u32 (kernel, "groups", groups);
  rlx_kernel_set_cost (kernel, 2.0 * (double) n * (double) MAX (n, n_slots), 8.0 * (double) (n + n_slots));
  if (!rlx_kernel_dispatch (kernel, groups, error))
    return FALSE;

  groups = rlx_divide_up (n_elements, WORKGROUP_SIZE);
  kernel = rlx_kernel_new (lower, node, "scatter-slots");
  define_combine (kernel, node, NULL, order);
  rlx_kernel_input (kernel, "x", node->inputs[0]);
  rlx_kernel_input_raw (kernel, "starts", starts);
  rlx_kernel_param_u32 (kernel, "n", n_elements);
  rlx_kernel_param_u32 (kernel, "inner", inner);
  rlx_kernel_param_u32 (kernel, "groups", groups);
  rlx_kernel_set_cost (kernel, (double) n * (double) inner, 8.0 * (double) n_elements);
  return rlx_kernel_dispatch (kernel, groups, error);
}

/* Whether a step may bind all tensors of lower_ranked(), of which large ones take several bindings. */
static gboolean
fits_ranked (RlxLower        *lower,
             const RlxIrNode *node,
             guint64          n,
             guint64          inner)
{
  const RlxTarget *target = rlx_lower_get_target (lower);
  const RlxTensorType *type = &node->outputs[0].type;
  guint64 n_slots = rlx_type_n_elements (type) / inner;
  guint n_bindings = 2 * rlx_target_get_n_segments (target, rlx_type_device_size (type)) +
                     rlx_target_get_n_segments (target, rlx_type_device_size (&node->inputs[RLX_SCATTER_ELEMENTS_UPDATES]->type)) +
                     rlx_target_get_n_segments (target, 4 * (n_slots + 1)) + 1;

  return n <= MAX_RANKED && n * MAX (n, n_slots) <= MAX_COMPARED && n_bindings <= target->limits.max_storage_buffers;
}

static gboolean
lower_combine (RlxLower         *lower,
               const RlxIrNode  *node,
               const RlxIrValue *target,
               guint64           n,
               guint64           inner,
               GError          **error)
{
  const RlxIrValue *y = &node->outputs[0];
  /* The largest possible number of slots with many updates. */
  guint64 n_long = n / (MANY_UPDATES + 1);
  guint64 groups = (n * inner + WORKGROUP_SIZE - 1) / WORKGROUP_SIZE;
  guint width = inner < 16 ? 1 : 16;
  guint64 chunks = (inner + width - 1) / width;
  const RlxIrValue *order;
  RlxIrValue *list = NULL;
  RlxKernel *kernel;

  if (!rlx_lower_copy_all (lower, node, node->inputs[0], y, error) ||
      !lower_sort (lower, node, target, n, rlx_type_n_elements (&y->type) / inner, &order, error))
    return FALSE;
  if (n_long > 0)
    {
      list = words_new (lower, n_long + 1);
      if (!lower_zeros (lower, node, list, error))
        return FALSE;
    }

  kernel = rlx_kernel_new (lower, node, "scatter-short");
  define_combine (kernel, node, target, order);
  if (list != NULL)
    rlx_kernel_output_atomic (kernel, "list", list);
  rlx_kernel_define (kernel, "LONG", list != NULL);
  rlx_kernel_define (kernel, "LIMIT", MANY_UPDATES);
  rlx_kernel_param_u32 (kernel, "n", n);
  rlx_kernel_param_u32 (kernel, "inner", inner);
  rlx_kernel_param_u32 (kernel, "groups", groups);
  rlx_kernel_set_cost (kernel, (double) n * inner, 16.0 * n * inner);
  if (!rlx_kernel_dispatch (kernel, groups, error))
    return FALSE;
  if (list == NULL)
    return TRUE;

  kernel = rlx_kernel_new (lower, node, "scatter-long");
  define_combine (kernel, node, target, order);
  rlx_kernel_input_raw (kernel, "list", list);
  rlx_kernel_define (kernel, "WIDTH", width);
  rlx_kernel_param_u32 (kernel, "n", n);
  rlx_kernel_param_u32 (kernel, "inner", inner);
  rlx_kernel_param_u32 (kernel, "chunks", chunks);
  rlx_kernel_set_cost (kernel, (double) n * inner, 16.0 * n * inner);
  return rlx_kernel_dispatch (kernel, n_long * chunks, error);
}

static gboolean
lower_scatter (RlxLower         *lower,
               const RlxIrNode  *node,
               const RlxIrValue *target,
               guint64           n,
               guint64           inner,
               GError          **error)
{
  if (rlx_scatter_elements_attrs (node)->mode == RLX_SCATTER_MODE_REPLACE)
    return lower_replace (lower, node, target, n, inner, error);
  if (fits_ranked (lower, node, n, inner))
    return lower_ranked (lower, node, target, n, inner, error);

  return lower_combine (lower, node, target, n, inner, error);
}

gboolean
rlx_scatter_elements_lower (RlxLower        *lower,
                            const RlxIrNode *node,
                            GError         **error)
{
  guint64 n = rlx_type_n_elements (&node->inputs[1]->type);
  RlxIrValue *target;

  if (n == 0)
    {
      rlx_lower_alias (lower, &node->outputs[0], node->inputs[0]);
      return TRUE;
    }

  target = words_new (lower, n);
  return lower_elements (lower, node, rlx_scatter_elements_attrs (node)->axis, target, TRUE, error) &&
         lower_scatter (lower, node, target, n, 1, error);
}

gboolean
rlx_scatter_nd_lower (RlxLower        *lower,
                      const RlxIrNode *node,
                      GError         **error)
{
  const RlxTensorType *x = &node->inputs[0]->type, *indices = &node->inputs[1]->type;
  guint64 n = 1, inner = 1;
  RlxIrValue *target;

  if (rlx_type_n_elements (&node->inputs[RLX_SCATTER_ELEMENTS_UPDATES]->type) == 0)
    {
      rlx_lower_alias (lower, &node->outputs[0], node->inputs[0]);
      return TRUE;
    }

  for (guint i = 0; i + 1 < indices->n_dims; i++)
    n *= indices->shape[i];
  for (guint i = (guint) indices->shape[indices->n_dims - 1]; i < x->n_dims; i++)
    inner *= x->shape[i];
  target = words_new (lower, n);
  return lower_tuples (lower, node, target, 0, TRUE, error) &&
         lower_scatter (lower, node, target, n, inner, error);
}

/* ---- a part at a position ------------------------------------------------------------ */

gboolean
rlx_write_at_infer (RlxOpCall             *call,
                    const RlxWriteAtAttrs *attrs,
                    GError               **error)
{
  const RlxTensorType *x = call->inputs[0], *value = call->inputs[RLX_WRITE_AT_VALUE], *position = call->inputs[RLX_WRITE_AT_POSITION];
  guint axis;

  if (!rlx_call_axis (call, attrs->axis, x->n_dims, &axis, error))
    return FALSE;
  if (value->n_dims != x->n_dims)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "the value has %u dimensions, the operand %u", value->n_dims, x->n_dims);
  for (guint i = 0; i < x->n_dims; i++)
    if (i == axis ? value->shape[i] > x->shape[i] : value->shape[i] != x->shape[i])
      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                             "dimension %u of the value is %" G_GINT64_FORMAT "; it must be %s%" G_GINT64_FORMAT,
                             i, value->shape[i], i == axis ? "at most " : "", x->shape[i]);
  if (rlx_type_n_elements (position) != 1)
    {
      g_autofree char *text = rlx_type_to_string (position);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the position is %s; it must be one element", text);
    }
  rlx_call_add_output (call, x);
  return TRUE;
}

gboolean
rlx_write_at_lower (RlxLower        *lower,
                    const RlxIrNode *node,
                    GError         **error)
{
  const RlxTensorType *x = &node->inputs[0]->type;
  RlxDataType index_type = rlx_data_type_on_device (node->inputs[RLX_WRITE_AT_POSITION]->type.data_type);
  guint64 n = rlx_type_n_elements (&node->inputs[RLX_WRITE_AT_VALUE]->type);
  guint index = rlx_type_get_axis (x, rlx_write_at_attrs (node)->axis);
  RlxKernel *kernel;
  gboolean update;
  RlxAxis axis;

  if (rlx_type_n_elements (x) == 0)
    return TRUE;
  update = rlx_lower_update_state (lower, node->inputs[0], &node->outputs[0]);
  if (update && n == 0)
    return TRUE;

  rlx_axis_init (&axis, x, index);
  kernel = rlx_kernel_new (lower, node, "write-at");
  rlx_kernel_define (kernel, "UPDATE", update);
  if (!update)
    rlx_kernel_input_raw (kernel, "x", node->inputs[0]);
  rlx_kernel_input_raw (kernel, "value", node->inputs[RLX_WRITE_AT_VALUE]);
  rlx_kernel_input (kernel, "indices", node->inputs[RLX_WRITE_AT_POSITION]);
  rlx_kernel_define (kernel, "SIGNED", !rlx_data_type_is_unsigned (index_type));
  rlx_kernel_param_u32 (kernel, "inner", axis.inner);
  rlx_kernel_param_u32 (kernel, "size", axis.length);
  rlx_kernel_param_u32 (kernel, "length", (guint64) node->inputs[RLX_WRITE_AT_VALUE]->type.shape[index]);
  if (update)
    {
      rlx_kernel_output_raw (kernel, "y", &node->outputs[0]);
      rlx_kernel_define (kernel, "WG", WORKGROUP_SIZE);
      rlx_kernel_param_u32 (kernel, "n", n);
      rlx_kernel_set_cost (kernel, 0, 2.0 * (double) rlx_type_n_bytes (&node->inputs[RLX_WRITE_AT_VALUE]->type));
      return rlx_kernel_dispatch (kernel, (n + WORKGROUP_SIZE - 1) / WORKGROUP_SIZE, error);
    }
  return rlx_kernel_dispatch_elements (kernel, lower, &node->outputs[0], error);
}
