/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "ops/rlx-sort-private.h"

/* Elements that are sorted in workgroup memory: 8 KiB of pairs. */
#define MAX_BLOCK 1024

/* An invocation looks at about this many elements; longer rows are cut. */
#define MAX_COLUMNS_PER_LANE 1024

/* ---- rows along an axis ----------------------------------------------------------- */

void
rlx_axis_init (RlxAxis             *axis,
               const RlxTensorType *type,
               guint                index)
{
  *axis = (RlxAxis) { .n_rows = 1, .length = (guint64) type->shape[index], .inner = 1 };

  for (guint i = 0; i < type->n_dims; i++)
    {
      if (i != index)
        axis->n_rows *= (guint64) type->shape[i];
      if (i > index)
        axis->inner *= (guint64) type->shape[i];
    }
}

guint
rlx_axis_of (gint64               axis,
             const RlxTensorType *type)
{
  return (guint) (axis < 0 ? axis + type->n_dims : axis);
}

gboolean
rlx_axis_infer (RlxOpCall *call,
                gint64     axis,
                GError   **error)
{
  guint found;

  if (!rlx_call_axis (call, axis, call->inputs[0]->n_dims, &found, error))
    return FALSE;

  rlx_call_add_output (call, call->inputs[0]);
  return TRUE;
}

RlxIrValue *
rlx_axis_temporary (RlxLower      *lower,
                    RlxDataType    data_type,
                    const RlxAxis *axis,
                    guint64        n)
{
  RlxTensorType type = { .data_type = data_type, .n_dims = 2, .shape = { (gint64) axis->n_rows, (gint64) n } };

  return rlx_lower_temporary (lower, &type);
}

/* ---- helpers of rules --------------------------------------------------------------- */

static gboolean
check_index_type (const RlxOpCall *call,
                  gint64           length,
                  RlxDataType      data_type,
                  GError         **error)
{
  if (data_type != RLX_DATA_TYPE_I32 && data_type != RLX_DATA_TYPE_I64)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_DATA_TYPE,
                           "index_type is %s; it can be i32 or i64", rlx_data_type_to_string (data_type));
  if (length > G_MAXINT32)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                           "the axis has %" G_GINT64_FORMAT " elements; indices go up to %d", length, G_MAXINT32);

  return TRUE;
}

/* What kernels/common/order.wgsl needs to know of raw elements. */
static void
define_order (RlxKernel  *kernel,
              RlxDataType data_type)
{
  data_type = rlx_data_type_on_device (data_type);

  rlx_kernel_define (kernel, "KIND",
                     rlx_data_type_is_float (data_type) ? 2 : data_type == RLX_DATA_TYPE_I32 || data_type == RLX_DATA_TYPE_I8 ? 1 : 0);
  rlx_kernel_define (kernel, "BITS", 8 * (gint64) rlx_data_type_get_size (data_type));
}

/* ---- the place of an extreme ---------------------------------------------------------- */

gboolean
rlx_arg_infer (RlxOpCall         *call,
               const RlxArgAttrs *attrs,
               GError           **error)
{
  const RlxTensorType *x = call->inputs[0];
  gboolean keep_dims = attrs->keep_dims;
  RlxTensorType type = { .data_type = attrs->index_type };
  guint axis;

  if (!rlx_call_axis (call, attrs->axis, x->n_dims, &axis, error) ||
      !check_index_type (call, x->shape[axis], attrs->index_type, error))
    return FALSE;
  if (x->shape[axis] == 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "axis %u has no elements: there is no index to give", axis);

  for (guint i = 0; i < x->n_dims; i++)
    {
      if (i != axis)
        type.shape[type.n_dims++] = x->shape[i];
      else if (keep_dims)
        type.shape[type.n_dims++] = 1;
    }

  rlx_call_add_output (call, &type);
  return TRUE;
}

gboolean
rlx_lower_arg (RlxLower         *lower,
               const RlxIrNode  *node,
               const RlxIrValue *x,
               const RlxAxis    *axis,
               gboolean          smallest,
               gboolean          last_index,
               const RlxIrValue *indices,
               GError          **error)
{
  gboolean barriers = rlx_lower_get_target (lower)->barriers_are_cheap;
  guint64 n = axis->length, inner = axis->inner;
  const RlxIrValue *pair_keys = NULL, *pair_indices = NULL;

  for (;;)
    {
      guint lanes = !barriers || n < 64 || (inner > 1 && axis->n_rows >= 4096) ? 1 : 64;
      guint64 parts = 1, items, per_group, groups;
      const guint workgroup_size = 64;
      RlxKernel *kernel = rlx_kernel_new (lower, node, "arg");

      if (n > 2 * MAX_COLUMNS_PER_LANE * lanes)
        parts = (n + MAX_COLUMNS_PER_LANE * lanes - 1) / (MAX_COLUMNS_PER_LANE * lanes);
      /* Few long rows leave most of the device without work. */
      if (lanes > 1 && axis->n_rows < 64 && n >= 16384)
        parts = MAX (parts, MIN (n / (lanes * 16), 1024));
      else if (!barriers && axis->n_rows < 16 && n >= 4096)
        parts = MAX (parts, 128);
      items = axis->n_rows * parts;
      per_group = workgroup_size / lanes;
      groups = (items + per_group - 1) / per_group;

      rlx_kernel_define (kernel, "WG", workgroup_size);
      rlx_kernel_define (kernel, "LANES", lanes);
      rlx_kernel_define (kernel, "SMALLEST", smallest);
      rlx_kernel_define (kernel, "LAST_INDEX", last_index);
      rlx_kernel_define (kernel, "FROM_PAIRS", pair_keys != NULL);
      rlx_kernel_define (kernel, "TO_PAIRS", parts > 1);
      if (pair_keys != NULL)
        {
          rlx_kernel_input (kernel, "keys", pair_keys);
          rlx_kernel_input (kernel, "indices", pair_indices);
        }
      else
        {
          rlx_kernel_input_raw (kernel, "x", x);
          define_order (kernel, x->type.data_type);
        }
      if (parts > 1)
        {
          pair_keys = rlx_axis_temporary (lower, RLX_DATA_TYPE_U32, axis, parts);
          pair_indices = rlx_axis_temporary (lower, RLX_DATA_TYPE_U32, axis, parts);
          rlx_kernel_output (kernel, "best_keys", pair_keys);
          rlx_kernel_output (kernel, "best_indices", pair_indices);
        }
      else
        {
          rlx_kernel_output (kernel, "y", indices);
        }
      rlx_kernel_param_u32 (kernel, "groups", groups);
      rlx_kernel_param_u32 (kernel, "rows", items);
      rlx_kernel_param_u32 (kernel, "parts", parts);
      rlx_kernel_param_u32 (kernel, "columns", n);
      rlx_kernel_param_u32 (kernel, "inner", inner);
      rlx_kernel_set_cost (kernel, (double) axis->n_rows * n, 4.0 * axis->n_rows * n);

      if (!rlx_kernel_dispatch (kernel, groups, error))
        return FALSE;
      if (parts == 1)
        return TRUE;
      n = parts;
      inner = 1;
    }
}

gboolean
rlx_arg_lower (RlxLower        *lower,
               const RlxIrNode *node,
               GError         **error)
{
  const RlxArgAttrs *attrs = rlx_arg_attrs (node);
  const RlxIrValue *x = node->inputs[0];
  RlxAxis axis;

  rlx_axis_init (&axis, &x->type, rlx_axis_of (attrs->axis, &x->type));
  if (axis.n_rows == 0)
    return TRUE;

  return rlx_lower_arg (lower, node, x, &axis, rlx_ir_node_is (node, RLX_OP_ID_ARG_MIN),
                        attrs->select_last_index, &node->outputs[0], error);
}

gboolean
rlx_hardmax_infer (RlxOpCall             *call,
                   const RlxHardmaxAttrs *attrs,
                   GError               **error)
{
  return rlx_axis_infer (call, attrs->axis, error);
}

gboolean
rlx_hardmax_lower (RlxLower        *lower,
                   const RlxIrNode *node,
                   GError         **error)
{
  const RlxIrValue *x = node->inputs[0];
  guint64 n = rlx_type_n_elements (&x->type);
  guint64 groups = (n + 63) / 64;
  const RlxIrValue *indices;
  RlxKernel *kernel;
  RlxAxis axis;

  if (n == 0)
    return TRUE;

  rlx_axis_init (&axis, &x->type, rlx_axis_of (rlx_hardmax_attrs (node)->axis, &x->type));
  indices = rlx_axis_temporary (lower, RLX_DATA_TYPE_U32, &axis, 1);
  if (!rlx_lower_arg (lower, node, x, &axis, FALSE, FALSE, indices, error))
    return FALSE;

  kernel = rlx_kernel_new (lower, node, "hardmax");
  rlx_kernel_input (kernel, "indices", indices);
  rlx_kernel_output (kernel, "y", &node->outputs[0]);
  rlx_kernel_param_u32 (kernel, "groups", groups);
  rlx_kernel_param_u32 (kernel, "n", n);
  rlx_kernel_param_u32 (kernel, "columns", axis.length);
  rlx_kernel_param_u32 (kernel, "inner", axis.inner);

  return rlx_kernel_dispatch (kernel, groups, error);
}

/* ---- sorting -------------------------------------------------------------------------------- */

/* What the steps of one sort have in common. */
typedef struct
{
  RlxLower *lower;
  const RlxIrNode *node;
  const RlxIrValue *x;
  const RlxAxis *axis;
  gboolean descending;
  const RlxIrValue *values;
  const RlxIrValue *indices;

  /* What the steps so far have left: sorted runs of pairs, side by side. */
  const RlxIrValue *pair_keys;
  const RlxIrValue *pair_indices;
  guint64 n;
  guint64 run;
} Sort;

static void
add_source (Sort      *sort,
            RlxKernel *kernel,
            gboolean   to_pairs)
{
  gboolean takes_values = !to_pairs && sort->values != NULL;

  rlx_kernel_define (kernel, "FROM_PAIRS", sort->pair_keys != NULL);
  if (sort->pair_keys != NULL)
    {
      rlx_kernel_input (kernel, "keys", sort->pair_keys);
      rlx_kernel_input (kernel, "indices", sort->pair_indices);
    }
  else
    {
      define_order (kernel, sort->x->type.data_type);
      rlx_kernel_param_u32 (kernel, "flip", sort->descending ? G_MAXUINT32 : 0);
    }
  if (sort->pair_keys == NULL || takes_values)
    rlx_kernel_input_raw (kernel, "x", sort->x);
}

/* Where the first @keep of each run go: into pairs, @kept of them in a row, or
 * into the results when @kept is 0. */
static void
add_target (Sort      *sort,
            RlxKernel *kernel,
            guint64    keep,
            guint64    kept)
{
  rlx_kernel_define (kernel, "TO_PAIRS", kept > 0);
  rlx_kernel_define (kernel, "VALUES", kept == 0 && sort->values != NULL);
  rlx_kernel_define (kernel, "INDICES", kept == 0 && sort->indices != NULL);
  if (kept > 0)
    {
      sort->pair_keys = rlx_axis_temporary (sort->lower, RLX_DATA_TYPE_U32, sort->axis, kept);
      sort->pair_indices = rlx_axis_temporary (sort->lower, RLX_DATA_TYPE_U32, sort->axis, kept);
      rlx_kernel_output (kernel, "sorted_keys", sort->pair_keys);
      rlx_kernel_output (kernel, "sorted_indices", sort->pair_indices);
    }
  else
    {
      if (sort->values != NULL)
        rlx_kernel_output_raw (kernel, "values", sort->values);
      if (sort->indices != NULL)
        rlx_kernel_output (kernel, "result", sort->indices);
    }
  rlx_kernel_param_u32 (kernel, "keep", keep);
  rlx_kernel_param_u32 (kernel, "kept", kept);
  rlx_kernel_param_u32 (kernel, "length", sort->axis->length);
  rlx_kernel_param_u32 (kernel, "inner", sort->axis->inner);
}

/* Sorts blocks of rows, of each of which @keep elements stay. */
static gboolean
sort_blocks (Sort    *sort,
             guint64  keep,
             GError **error)
{
  const RlxTarget *target = rlx_lower_get_target (sort->lower);
  RlxKernel *kernel = rlx_kernel_new (sort->lower, sort->node, "sort");
  guint64 size = 1, log_size = 0, capacity, blocks, items, groups, last, kept = 0;
  guint workgroup_size;

  while (size < sort->n && size < MAX_BLOCK)
    {
      size *= 2;
      log_size++;
    }
  capacity = MAX (size, MAX_BLOCK / 4);
  workgroup_size = target->barriers_are_cheap ? MIN (256, target->limits.max_invocations) : 32;
  blocks = (sort->n + size - 1) / size;
  items = sort->axis->n_rows * blocks;
  groups = (items + capacity / size - 1) / (capacity / size);

  add_source (sort, kernel, blocks > 1);
  rlx_kernel_define (kernel, "WG", workgroup_size);
  rlx_kernel_define (kernel, "ROOM", MAX_BLOCK);
  rlx_kernel_param_u32 (kernel, "log_size", log_size);
  rlx_kernel_param_u32 (kernel, "capacity", capacity);
  rlx_kernel_param_u32 (kernel, "groups", groups);
  rlx_kernel_param_u32 (kernel, "items", items);
  rlx_kernel_param_u32 (kernel, "blocks", blocks);
  rlx_kernel_param_u32 (kernel, "columns", sort->n);
  rlx_kernel_set_cost (kernel, (double) items * size * log_size * log_size, 16.0 * items * size);
  if (blocks > 1)
    {
      keep = MIN (keep, size);
      last = sort->n - (blocks - 1) * size;
      kept = (blocks - 1) * keep + MIN (keep, last);
    }
  add_target (sort, kernel, keep, kept);
  sort->n = kept;
  sort->run = keep;

  return rlx_kernel_dispatch (kernel, groups, error);
}

static gboolean
merge_runs (Sort    *sort,
            guint64  keep,
            GError **error)
{
  RlxKernel *kernel = rlx_kernel_new (sort->lower, sort->node, "merge");
  guint64 n = sort->axis->n_rows * sort->n;
  guint64 groups = (n + 63) / 64;
  guint64 pairs = (sort->n + 2 * sort->run - 1) / (2 * sort->run);
  guint64 kept = 0;

  add_source (sort, kernel, pairs > 1);
  rlx_kernel_param_u32 (kernel, "groups", groups);
  rlx_kernel_param_u32 (kernel, "n", n);
  rlx_kernel_param_u32 (kernel, "columns", sort->n);
  rlx_kernel_param_u32 (kernel, "run", sort->run);
  rlx_kernel_set_cost (kernel, 32.0 * n, 64.0 * n);
  if (pairs > 1)
    {
      keep = MIN (keep, 2 * sort->run);
      kept = (pairs - 1) * keep + MIN (keep, sort->n - (pairs - 1) * 2 * sort->run);
    }
  add_target (sort, kernel, keep, kept);
  sort->n = kept;
  sort->run = keep;

  return rlx_kernel_dispatch (kernel, groups, error);
}

gboolean
rlx_lower_sort (RlxLower         *lower,
                const RlxIrNode  *node,
                const RlxIrValue *x,
                const RlxAxis    *axis,
                gboolean          descending,
                guint64           keep,
                const RlxIrValue *values,
                const RlxIrValue *indices,
                GError          **error)
{
  Sort sort = { lower, node, x, axis, descending, values, indices, NULL, NULL, axis->length, 1 };

  if (keep == 0 || axis->n_rows == 0)
    return TRUE;

  if (!sort_blocks (&sort, keep, error))
    return FALSE;
  while (sort.n > 0)
    {
      /* While few of a block stay, sorting again leaves much less; otherwise
       * merging is less work. */
      if (sort.n <= MAX_BLOCK || keep <= MAX_BLOCK / 4 ? !sort_blocks (&sort, keep, error) : !merge_runs (&sort, keep, error))
        return FALSE;
    }

  return TRUE;
}

gboolean
rlx_sort_infer (RlxOpCall          *call,
                const RlxSortAttrs *attrs,
                GError            **error)
{
  return rlx_axis_infer (call, attrs->axis, error);
}

static gboolean
lower_whole (RlxLower         *lower,
             const RlxIrNode  *node,
             const RlxIrValue *values,
             const RlxIrValue *indices,
             GError          **error)
{
  const RlxSortAttrs *attrs = rlx_sort_attrs (node);
  const RlxIrValue *x = node->inputs[0];
  RlxAxis axis;

  rlx_axis_init (&axis, &x->type, rlx_axis_of (attrs->axis, &x->type));

  return rlx_lower_sort (lower, node, x, &axis, attrs->descending, axis.length,
                         values, indices, error);
}

gboolean
rlx_sort_lower (RlxLower        *lower,
                const RlxIrNode *node,
                GError         **error)
{
  return lower_whole (lower, node, &node->outputs[0], NULL, error);
}

gboolean
rlx_arg_sort_infer (RlxOpCall          *call,
                    const RlxSortAttrs *attrs,
                    GError            **error)
{
  RlxTensorType type = *call->inputs[0];
  guint axis;

  if (!rlx_call_axis (call, attrs->axis, type.n_dims, &axis, error) ||
      !check_index_type (call, type.shape[axis], attrs->index_type, error))
    return FALSE;

  type.data_type = attrs->index_type;
  rlx_call_add_output (call, &type);
  return TRUE;
}

gboolean
rlx_arg_sort_lower (RlxLower        *lower,
                    const RlxIrNode *node,
                    GError         **error)
{
  return lower_whole (lower, node, NULL, &node->outputs[0], error);
}

gboolean
rlx_top_k_infer (RlxOpCall          *call,
                 const RlxTopKAttrs *attrs,
                 GError            **error)
{
  RlxTensorType type = *call->inputs[0];
  gint64 k = attrs->k;
  guint axis;

  if (!rlx_call_axis (call, attrs->axis, type.n_dims, &axis, error) ||
      !check_index_type (call, type.shape[axis], attrs->index_type, error))
    return FALSE;
  if (k < 0 || k > type.shape[axis])
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "k is %" G_GINT64_FORMAT "; axis %u has %" G_GINT64_FORMAT " elements", k, axis, type.shape[axis]);

  type.shape[axis] = k;
  rlx_call_add_output (call, &type);
  type.data_type = attrs->index_type;
  rlx_call_add_output (call, &type);
  return TRUE;
}

gboolean
rlx_top_k_lower (RlxLower        *lower,
                 const RlxIrNode *node,
                 GError         **error)
{
  const RlxTopKAttrs *attrs = rlx_top_k_attrs (node);
  const RlxIrValue *x = node->inputs[0];
  RlxAxis axis;

  rlx_axis_init (&axis, &x->type, rlx_axis_of (attrs->axis, &x->type));

  return rlx_lower_sort (lower, node, x, &axis, attrs->largest,
                         (guint64) attrs->k, &node->outputs[0], &node->outputs[1], error);
}
