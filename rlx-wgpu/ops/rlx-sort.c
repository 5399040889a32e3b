/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "ops/rlx-sort-private.h"

#include "ops/rlx-variant-private.h"

/* Elements that are sorted in workgroup memory: 8 KiB of pairs. */
#define MAX_BLOCK 1024

/* An invocation examines about this many elements; longer rows are split. */
#define MAX_COLUMNS_PER_LANE 1024

/* Pairs that fit the registers of an invocation. */
#define MAX_SELECTED 64
/* Invocations per workgroup of `select`, on a GPU. */
#define SELECT_WORKGROUP 64

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

/* What kernels/common/order.wgsl needs to know about raw elements. */
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

/* One step, on the operand or on the results of the previous step for each part of a row. */
typedef struct
{
  const RlxIrValue *x;
  const RlxIrValue *pair_keys, *pair_indices;   /* nullable: results of the previous step */
  const RlxAxis *axis;
  guint64 n, inner;
  gboolean smallest, last_index;
  const RlxIrValue *indices;
} ArgProblem;

static char *
print_arg (gconstpointer data)
{
  const ArgProblem *self = data;

  return g_strdup_printf ("%" G_GUINT64_FORMAT " rows of %" G_GUINT64_FORMAT ", %s", self->axis->n_rows, self->n,
                          rlx_data_type_to_string (self->x->type.data_type));
}

static double
arg_cost (const RlxVariant *variant,
          const RlxTarget  *target,
          gconstpointer     data)
{
  const ArgProblem *self = data;
  double n = (double) self->axis->n_rows * (double) self->n;

  return rlx_target_get_seconds (target, n, 4.0 * n);
}

static guint
get_arg_lanes (const ArgProblem *self,
               const RlxTarget  *target)
{
  return !target->barriers_are_cheap || self->n < 64 || (self->inner > 1 && self->axis->n_rows >= 4096) ? 1 : 64;
}

static guint64
count_arg_parts (const ArgProblem *self,
                 const RlxTarget  *target)
{
  guint64 lanes = get_arg_lanes (self, target), parts = 1;

  if (self->n > 2 * MAX_COLUMNS_PER_LANE * lanes)
    parts = rlx_divide_up (self->n, MAX_COLUMNS_PER_LANE * lanes);
  /* A few long rows would leave most of the device idle. */
  if (lanes > 1 && self->axis->n_rows < 64 && self->n >= 16384)
    parts = MAX (parts, MIN (self->n / (lanes * 16), 1024));
  else if (!target->barriers_are_cheap && self->axis->n_rows < 16 && self->n >= 4096)
    parts = MAX (parts, 128);
  return parts;
}

/* Writes @parts pairs of a key and an index for each row, or only indices if @keys is NULL. */
static gboolean
arg_step (RlxLower         *lower,
          const RlxIrNode  *node,
          const ArgProblem *self,
          guint             lanes,
          guint64           parts,
          const RlxIrValue *keys,
          const RlxIrValue *indices,
          GError          **error)
{
  const guint workgroup_size = 64;
  guint64 items = self->axis->n_rows * parts, groups = rlx_divide_up (items, workgroup_size / lanes);
  double n = (double) self->axis->n_rows * (double) self->n;
  RlxKernel *kernel = rlx_kernel_new (lower, node, "arg");

  rlx_kernel_define (kernel, "WG", workgroup_size);
  rlx_kernel_define (kernel, "LANES", lanes);
  rlx_kernel_define (kernel, "SMALLEST", self->smallest);
  rlx_kernel_define (kernel, "LAST_INDEX", self->last_index);
  rlx_kernel_define (kernel, "FROM_PAIRS", self->pair_keys != NULL);
  rlx_kernel_define (kernel, "TO_PAIRS", keys != NULL);
  if (self->pair_keys != NULL)
    {
      rlx_kernel_input (kernel, "keys", self->pair_keys);
      rlx_kernel_input (kernel, "indices", self->pair_indices);
    }
  else
    {
      rlx_kernel_input_raw (kernel, "x", self->x);
      define_order (kernel, self->x->type.data_type);
    }
  if (keys != NULL)
    rlx_kernel_output (kernel, "best_keys", keys);
  rlx_kernel_output (kernel, keys != NULL ? "best_indices" : "y", indices);
  rlx_kernel_param_u32 (kernel, "groups", groups);
  rlx_kernel_param_u32 (kernel, "rows", items);
  rlx_kernel_param_u32 (kernel, "parts", parts);
  rlx_kernel_param_u32 (kernel, "columns", self->n);
  rlx_kernel_param_u32 (kernel, "inner", self->inner);
  rlx_kernel_set_cost (kernel, n, 4.0 * n);
  return rlx_kernel_dispatch (kernel, groups, error);
}

static RlxFit
arg_split_fits (const RlxVariant *variant,
                const RlxTarget  *target,
                gconstpointer     data,
                const char      **why)
{
  const ArgProblem *self = data;

  if (self->n < 4)
    return rlx_variant_cannot ("rows are too short to split", why);
  return count_arg_parts (self, target) > 1 ? RLX_FIT_WELL : rlx_variant_poorly ("rows are short, or there are enough of them", why);
}

static gboolean
arg_split_describe (const RlxVariant *variant,
                    RlxLower         *lower,
                    const RlxIrNode  *node,
                    gconstpointer     data,
                    GError          **error)
{
  const RlxTarget *target = rlx_lower_get_target (lower);
  const ArgProblem *self = data;
  guint64 parts = MAX (count_arg_parts (self, target), 2);
  ArgProblem rest = *self;

  rest.n = parts;
  rest.inner = 1;
  rest.pair_keys = rlx_axis_temporary (lower, RLX_DATA_TYPE_U32, self->axis, parts);
  rest.pair_indices = rlx_axis_temporary (lower, RLX_DATA_TYPE_U32, self->axis, parts);
  return arg_step (lower, node, self, get_arg_lanes (self, target), parts, rest.pair_keys, rest.pair_indices, error) &&
         rlx_lower_choose (lower, node, &rlx_arg_variants, &rest, error);
}

/* @variant->data says whether a workgroup shares a row. */
static RlxFit
arg_whole_fits (const RlxVariant *variant,
                const RlxTarget  *target,
                gconstpointer     data,
                const char      **why)
{
  gboolean shared = variant->data != NULL, wanted = get_arg_lanes (data, target) > 1;

  if (shared == wanted)
    return RLX_FIT_WELL;
  if (!shared)
    return rlx_variant_poorly ("neighbouring lanes would read distant elements", why);
  return rlx_variant_poorly (target->barriers_are_cheap ? "rows are short, or lie side by side" : "barriers are slow here", why);
}

static gboolean
arg_whole_describe (const RlxVariant *variant,
                    RlxLower         *lower,
                    const RlxIrNode  *node,
                    gconstpointer     data,
                    GError          **error)
{
  const ArgProblem *self = data;

  return arg_step (lower, node, self, variant->data != NULL ? 64 : 1, 1, NULL, self->indices, error);
}

static const RlxVariant arg_variants[] = {
  { "split", arg_split_fits, arg_cost, NULL, arg_split_describe, NULL },
  { "workgroup", arg_whole_fits, arg_cost, NULL, arg_whole_describe, arg_variants },
  { "rows", arg_whole_fits, arg_cost, NULL, arg_whole_describe, NULL },
};

static const RlxSample arg_samples[] = {
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "f32[256, 1024]")
    "%1 = arg_max(%0) {axis = 1}\n" RLX_SAMPLE_OUTPUT (1), 4095 },
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "f32[4, 65536]")
    "%1 = arg_max(%0) {axis = 1}\n" RLX_SAMPLE_OUTPUT (1), 4095 },
  { NULL, 0 },
};

const RlxVariants rlx_arg_variants = {
  RLX_FAMILY_ARG, "arg", arg_variants, G_N_ELEMENTS (arg_variants), print_arg, arg_samples,
};

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
  const ArgProblem problem = {
    .x = x, .axis = axis, .n = axis->length, .inner = axis->inner, .smallest = smallest, .last_index = last_index, .indices = indices,
  };

  return rlx_lower_choose (lower, node, &rlx_arg_variants, &problem, error);
}

gboolean
rlx_arg_lower (RlxLower        *lower,
               const RlxIrNode *node,
               GError         **error)
{
  const RlxArgAttrs *attrs = rlx_arg_attrs (node);
  const RlxIrValue *x = node->inputs[0];
  RlxAxis axis;

  rlx_axis_init (&axis, &x->type, rlx_type_get_axis (&x->type, attrs->axis));
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
  guint64 groups = rlx_divide_up (n, 64);
  const RlxIrValue *indices;
  RlxKernel *kernel;
  RlxAxis axis;

  if (n == 0)
    return TRUE;

  rlx_axis_init (&axis, &x->type, rlx_type_get_axis (&x->type, rlx_hardmax_attrs (node)->axis));
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

  /* The results of the steps so far: sorted runs of pairs, one after the other. */
  const RlxIrValue *pair_keys;
  const RlxIrValue *pair_indices;
  guint64 n;
  guint64 run;        /* 0: none yet */
  guint64 keep;       /* of each row */
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

/* Adds the destination of the first @keep pairs of each run: pairs, @kept of them per row, or
 * the results if @kept is 0. */
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

/* Sorts blocks of rows; each block keeps as many elements as are kept in the end. */
static gboolean
sort_blocks (Sort    *sort,
             GError **error)
{
  const RlxTarget *target = rlx_lower_get_target (sort->lower);
  RlxKernel *kernel = rlx_kernel_new (sort->lower, sort->node, "sort");
  guint64 keep = sort->keep, size = 1, log_size = 0, capacity, blocks, items, groups, last, kept = 0;
  guint workgroup_size;

  while (size < sort->n && size < MAX_BLOCK)
    {
      size *= 2;
      log_size++;
    }
  capacity = MAX (size, MAX_BLOCK / 4);
  workgroup_size = target->barriers_are_cheap ? MIN (256, target->limits.max_invocations) : 32;
  blocks = rlx_divide_up (sort->n, size);
  items = sort->axis->n_rows * blocks;
  groups = rlx_divide_up (items, capacity / size);

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
            GError **error)
{
  RlxKernel *kernel = rlx_kernel_new (sort->lower, sort->node, "merge");
  guint64 n = sort->axis->n_rows * sort->n;
  guint64 groups = rlx_divide_up (n, 64);
  guint64 pairs = rlx_divide_up (sort->n, 2 * sort->run);
  guint64 keep = sort->keep, kept = 0;

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

/* The number of invocations that share a row. Their results must be far fewer than the
 * elements of the row. */
static guint64
count_select_parts (const Sort      *sort,
                    const RlxTarget *target)
{
  guint64 most = sort->n / (4 * sort->keep), n_rows = sort->axis->n_rows, wanted = 1;

  /* Enough to occupy the device, with neighbours that read adjacent elements. */
  if (n_rows < target->busy_invocations && sort->n > MAX_COLUMNS_PER_LANE)
    wanted = rlx_divide_up (target->busy_invocations, n_rows);
  if (target->loads_coalesce && (sort->axis->inner == 1 || sort->pair_keys != NULL))
    wanted = MAX (wanted, 64);
  return CLAMP (wanted, 1, MAX (most, 1));
}

/* Registers of an invocation of `select` that keeps @keep elements, as observed with
 * compilers. */
static guint
get_registers (guint64 keep)
{
  return 4 * (guint) keep + 18;
}

/* Keeps the first elements of each part of a row. */
static gboolean
select_first (Sort    *sort,
              GError **error)
{
  static const guint sizes[] = { 4, 8, 16, 24, 32, 40, 48, MAX_SELECTED };
  const RlxTarget *target = rlx_lower_get_target (sort->lower);
  gboolean subgroups = (target->features & RLX_DEVICE_FEATURES_SUBGROUPS) != 0;
  guint64 parts = count_select_parts (sort, target), items = sort->axis->n_rows * parts;
  guint workgroup_size = target->barriers_are_cheap ? SELECT_WORKGROUP : target->lanes, size = 0;
  RlxKernel *kernel = rlx_kernel_new (sort->lower, sort->node, "select");
  double n = (double) sort->axis->n_rows * (double) sort->n;

  while (sizes[size] < sort->keep)
    size++;
  if (subgroups)
    rlx_kernel_enable (kernel, "enable subgroups;");
  rlx_kernel_define (kernel, "WG", workgroup_size);
  rlx_kernel_define (kernel, "K", sizes[size]);
  rlx_kernel_set_subgroup_size (kernel, rlx_target_choose_subgroup_size (target, workgroup_size, get_registers (sizes[size])));
  rlx_kernel_define (kernel, "SUBGROUPS", subgroups);
  rlx_kernel_define (kernel, "DISTINCT", sort->pair_keys == NULL && rlx_data_type_is_float (sort->x->type.data_type));
  rlx_kernel_param_u32 (kernel, "items", items);
  rlx_kernel_param_u32 (kernel, "parts", parts);
  rlx_kernel_param_u32 (kernel, "steps", rlx_divide_up (sort->n, parts));
  rlx_kernel_param_u32 (kernel, "columns", sort->n);
  rlx_kernel_set_cost (kernel, 4.0 * n, 4.0 * n);
  add_source (sort, kernel, parts > 1);
  add_target (sort, kernel, sort->keep, parts > 1 ? parts * sort->keep : 0);
  sort->n = parts > 1 ? parts * sort->keep : 0;
  sort->run = sort->keep;

  return rlx_kernel_dispatch (kernel, rlx_divide_up (items, workgroup_size), error);
}

static char *
print_sort (gconstpointer data)
{
  const Sort *self = data;

  return g_strdup_printf ("%" G_GUINT64_FORMAT " rows of %" G_GUINT64_FORMAT ", in runs of %" G_GUINT64_FORMAT ", %" G_GUINT64_FORMAT
                          " of %s are kept", self->axis->n_rows, self->n, self->run, self->keep,
                          rlx_data_type_to_string (self->x->type.data_type));
}

static double
sort_cost (const RlxVariant *variant,
           const RlxTarget  *target,
           gconstpointer     data)
{
  const Sort *self = data;
  double n = (double) self->axis->n_rows * (double) self->n;

  return rlx_target_get_seconds (target, 32.0 * n, 16.0 * n);
}

static RlxFit
select_fits (const RlxVariant *variant,
             const RlxTarget  *target,
             gconstpointer     data,
             const char      **why)
{
  const Sort *self = data;

  if (self->keep > MAX_SELECTED)
    return rlx_variant_cannot ("more are kept than registers hold", why);
  if (target->barriers_are_cheap && self->n <= MAX_BLOCK)
    return rlx_variant_poorly ("a block takes the whole row", why);
  if (self->n < 2 * self->keep && self->keep > 16)
    return rlx_variant_poorly ("most elements are kept", why);
  if (target->registers_are_shared &&
      rlx_target_get_registers (target, rlx_target_choose_subgroup_size (target, SELECT_WORKGROUP, G_MAXUINT)) < get_registers (self->keep))
    return rlx_variant_poorly ("what is kept does not fit registers", why);
  if (target->barriers_are_cheap && self->keep > 24 && self->axis->n_rows * count_select_parts (self, target) < target->busy_invocations)
    return rlx_variant_poorly ("few invocations would search long lists", why);
  return RLX_FIT_WELL;
}

/* While few elements of a block are kept, sorting again leaves far fewer; otherwise merging
 * is less work. */
static RlxFit
blocks_fits (const RlxVariant *variant,
             const RlxTarget  *target,
             gconstpointer     data,
             const char      **why)
{
  const Sort *self = data;

  if (self->run == 0 || self->n <= MAX_BLOCK || self->keep <= MAX_BLOCK / 4)
    return RLX_FIT_WELL;
  if (self->keep >= MAX_BLOCK)
    return rlx_variant_cannot ("all of a block would stay", why);
  return rlx_variant_poorly ("most of a block would stay", why);
}

static RlxFit
merge_fits (const RlxVariant *variant,
            const RlxTarget  *target,
            gconstpointer     data,
            const char      **why)
{
  return ((const Sort *) data)->run == 0 ? rlx_variant_cannot ("there are no sorted runs yet", why) : RLX_FIT_WELL;
}

/* Adds one step, then chooses the next. */
static gboolean
sort_describe (const RlxVariant *variant,
               RlxLower         *lower,
               const RlxIrNode  *node,
               gconstpointer     data,
               GError          **error)
{
  gboolean (*step) (Sort *sort, GError **error) = variant->data;
  Sort rest = *(const Sort *) data;

  if (!step (&rest, error))
    return FALSE;
  return rest.n == 0 || rlx_lower_choose (lower, node, &rlx_sort_variants, &rest, error);
}

static const RlxVariant sort_variants[] = {
  { "select", select_fits, sort_cost, NULL, sort_describe, select_first },
  { "blocks", blocks_fits, sort_cost, NULL, sort_describe, sort_blocks },
  { "merge", merge_fits, sort_cost, NULL, sort_describe, merge_runs },
};

static const RlxSample sort_samples[] = {
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "f32[16, 8192]")
    "%1, %2 = top_k(%0) {k = 8}\n" RLX_SAMPLE_OUTPUT (1) RLX_SAMPLE_OUTPUT (2), 4095 },
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "f32[16, 4096]")
    "%1, %2 = top_k(%0) {k = 600}\n" RLX_SAMPLE_OUTPUT (1) RLX_SAMPLE_OUTPUT (2), 4095 },
  { NULL, 0 },
};

const RlxVariants rlx_sort_variants = {
  RLX_FAMILY_SORT, "sort", sort_variants, G_N_ELEMENTS (sort_variants), print_sort, sort_samples,
};

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
  const Sort sort = { lower, node, x, axis, descending, values, indices, NULL, NULL, axis->length, 0, keep };

  if (keep == 0 || axis->n_rows == 0)
    return TRUE;
  return rlx_lower_choose (lower, node, &rlx_sort_variants, &sort, error);
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

  rlx_axis_init (&axis, &x->type, rlx_type_get_axis (&x->type, attrs->axis));

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

  rlx_axis_init (&axis, &x->type, rlx_type_get_axis (&x->type, attrs->axis));

  return rlx_lower_sort (lower, node, x, &axis, attrs->largest,
                         (guint64) attrs->k, &node->outputs[0], &node->outputs[1], error);
}
