/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Products of more than two matrices, and diagonals.
 */
#include "config.h"

#include "ops/rlx-builder-private.h"
#include "ops/rlx-gradient-private.h"
#include "ops/rlx-index-private.h"
#include "ops/rlx-shape-private.h"
#include "ops/rlx-sort-private.h"
#include "ops/rlx-variant-private.h"

#include <math.h>

#include "rlx-tensor-private.h"

static gboolean
check_rank (const RlxOpCall *call,
            guint            index,
            guint            n_dims,
            GError         **error)
{
  g_autofree char *text = NULL;

  if (call->inputs[index]->n_dims == n_dims)
    return TRUE;

  text = rlx_type_to_string (call->inputs[index]);
  return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                         "%s must have %u dimensions; it is %s", call->op->inputs[index].name, n_dims, text);
}

/* Two sizes that must be the same. */
static gboolean
check_sizes (const RlxOpCall *call,
             const char      *what_a,
             gint64           a,
             const char      *what_b,
             gint64           b,
             GError         **error)
{
  if (a == b)
    return TRUE;
  return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                         "%s and %s differ: %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT, what_a, what_b, a, b);
}

/* ---- diagonal --------------------------------------------------------------------- */

gboolean
rlx_diagonal_infer (RlxOpCall              *call,
                    const RlxDiagonalAttrs *attrs,
                    GError                **error)
{
  const RlxTensorType *x = call->inputs[0];
  RlxTensorType type = { .data_type = x->data_type };
  gint64 offset = attrs->offset;
  gint64 rows, columns;
  guint axis1, axis2;

  if (x->n_dims < 2)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "the operand has %u dimensions; it needs at least 2", x->n_dims);
  if (!rlx_call_axis (call, attrs->axis1, x->n_dims, &axis1, error) ||
      !rlx_call_axis (call, attrs->axis2, x->n_dims, &axis2, error))
    return FALSE;
  if (axis1 == axis2)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "axis1 and axis2 are both %u", axis1);

  for (guint i = 0; i < x->n_dims; i++)
    if (i != axis1 && i != axis2)
      type.shape[type.n_dims++] = x->shape[i];

  /* Sizes are below 2³², but the offset can be anything. */
  offset = CLAMP (offset, -x->shape[axis1], x->shape[axis2]);
  rows = x->shape[axis1] - MAX (-offset, 0);
  columns = x->shape[axis2] - MAX (offset, 0);
  type.shape[type.n_dims++] = MIN (rows, columns);
  rlx_call_add_output (call, &type);
  return TRUE;
}

void
rlx_diagonal_gradient (RlxGradient     *self,
                       const RlxIrNode *node)
{
  const RlxDiagonalAttrs *attrs = rlx_diagonal_attrs (node);
  RlxBuilder *b = rlx_gradient_get_builder (self);
  const RlxTensorType *x = &node->inputs[0]->type;
  guint row = rlx_type_get_axis (x, attrs->axis1), column = rlx_type_get_axis (x, attrs->axis2);
  guint n_dims = x->n_dims, n = 0;
  RlxIrValue *g = rlx_gradient_get (self, node, 0);
  gint64 offset = CLAMP (attrs->offset, -x->shape[row], x->shape[column]);
  gint64 length = g->type.shape[n_dims - 2];
  gint64 square[RLX_MAX_DIMS], before[RLX_MAX_DIMS] = { 0 }, after[RLX_MAX_DIMS] = { 0 }, back[RLX_MAX_DIMS];
  gint64 last = n_dims - 1;

  /* A matrix with each element repeated along a row, then only on the diagonal. */
  memcpy (square, g->type.shape, sizeof square);
  square[last] = length;
  g = rlx_build_unsqueeze (b, g, RLX_UNSQUEEZE_ATTRS (.axes = RLX_INTS (&last, 1)));
  g = rlx_build_expand (b, g, RLX_EXPAND_ATTRS (.shape = RLX_INTS (square, n_dims)));
  g = rlx_build_triangular (b, g, RLX_TRIANGULAR_ATTRS (.upper = TRUE));
  g = rlx_build_triangular (b, g, RLX_TRIANGULAR_ATTRS (.upper = FALSE));

  before[last - 1] = MAX (-offset, 0);
  before[last] = MAX (offset, 0);
  after[last - 1] = x->shape[row] - before[last - 1] - length;
  after[last] = x->shape[column] - before[last] - length;
  g = rlx_build_pad (b, g, NULL, RLX_PAD_ATTRS (.before = RLX_INTS (before, n_dims), .after = RLX_INTS (after, n_dims)));
  for (guint i = 0; i < n_dims; i++)
    back[i] = i == row ? last - 1 : i == column ? last : n++;
  rlx_gradient_add (self, node, 0, rlx_build_transpose (b, g, RLX_TRANSPOSE_ATTRS (.permutation = RLX_INTS (back, n_dims))));
}

gboolean
rlx_diagonal_lower (RlxLower        *lower,
                    const RlxIrNode *node,
                    GError         **error)
{
  const RlxDiagonalAttrs *attrs = rlx_diagonal_attrs (node);
  const RlxTensorType *x = &node->inputs[0]->type;
  const RlxTensorType *y = &node->outputs[0].type;
  gint64 offset = attrs->offset;
  gint64 axis1 = attrs->axis1, axis2 = attrs->axis2;
  gint64 strides[RLX_MAX_DIMS], stride = 1;
  RlxCopy copy = { .n_dims = y->n_dims };
  guint n = 0;

  if (rlx_type_n_elements (y) == 0)
    return TRUE;

  axis1 += axis1 < 0 ? x->n_dims : 0;
  axis2 += axis2 < 0 ? x->n_dims : 0;
  for (guint i = x->n_dims; i-- > 0;)
    {
      strides[i] = stride;
      stride *= x->shape[i];
    }
  for (guint i = 0; i < x->n_dims; i++)
    if (i != axis1 && i != axis2)
      copy.from[n++] = strides[i];
  copy.from[n] = strides[axis1] + strides[axis2];
  copy.from_offset = offset < 0 ? -offset * strides[axis1] : offset * strides[axis2];

  stride = 1;
  for (guint i = y->n_dims; i-- > 0;)
    {
      copy.shape[i] = y->shape[i];
      copy.to[i] = stride;
      stride *= y->shape[i];
    }
  return rlx_lower_copy (lower, node, node->inputs[0], &node->outputs[0], &copy, error);
}

/* ---- grouped matmul ------------------------------------------------------------------ */

gboolean
rlx_grouped_matmul_infer (RlxOpCall *call,
                          GError   **error)
{
  const RlxTensorType *x = call->inputs[0];
  const RlxTensorType *weight = call->inputs[1];
  const RlxTensorType *expert = call->inputs[RLX_GROUPED_MATMUL_EXPERT];
  RlxTensorType type = *x, rows = *x;

  if (x->n_dims == 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "the first operand is a scalar; it needs at least one dimension");
  if (!check_rank (call, 1, 3, error) ||
      !check_sizes (call, "the last dimension of the first operand", x->shape[x->n_dims - 1],
                    "the rows of the weight", weight->shape[1], error))
    return FALSE;

  rows.n_dims--;
  if (!rlx_type_same_shape (&rows, expert))
    {
      g_autofree char *text_x = rlx_type_to_string (x);
      g_autofree char *text = rlx_type_to_string (expert);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                             "expert must have the dimensions of the first operand %s but the last one; it is %s", text_x, text);
    }

  type.shape[type.n_dims - 1] = weight->shape[2];
  rlx_call_add_output (call, &type);
  return TRUE;
}

/* The most rows for which one invocation can keep sums. */
enum { FEW_ROWS = 8 };

typedef struct
{
  guint64 m, n, k, experts;
  RlxDataType data_type;
} Problem;

static char *
print_problem (gconstpointer data)
{
  const Problem *self = data;

  return g_strdup_printf ("m=%" G_GUINT64_FORMAT " n=%" G_GUINT64_FORMAT " k=%" G_GUINT64_FORMAT ", %" G_GUINT64_FORMAT " experts, %s",
                          self->m, self->n, self->k, self->experts, rlx_data_type_to_string (self->data_type));
}

static double
get_operations (const Problem *self)
{
  return 2.0 * (double) self->m * (double) self->n * (double) self->k;
}

static double
get_bytes (const Problem *self)
{
  return rlx_data_type_get_size (rlx_data_type_on_device (self->data_type)) *
         ((double) self->m * (double) (self->n + self->k) +
          (double) MIN (self->experts, self->m) * (double) self->k * (double) self->n);
}

static double
grouped_cost (const RlxVariant *variant,
              const RlxTarget  *target,
              gconstpointer     data)
{
  return rlx_target_get_seconds (target, get_operations (data), get_bytes (data));
}

static RlxFit
rows_fits (const RlxVariant *variant,
           const RlxTarget  *target,
           gconstpointer     data,
           const char      **why)
{
  return ((const Problem *) data)->m <= FEW_ROWS ? RLX_FIT_WELL : rlx_variant_cannot ("there are more rows than an invocation keeps sums of", why);
}

static gboolean
rows_describe (const RlxVariant *variant,
               RlxLower         *lower,
               const RlxIrNode  *node,
               gconstpointer     data,
               GError          **error)
{
  const Problem *self = data;
  guint64 lanes = 64, n_groups = rlx_divide_up (self->n, lanes);
  RlxKernel *kernel = rlx_kernel_new (lower, node, "grouped-rows");

  rlx_kernel_input (kernel, "x", node->inputs[0]);
  rlx_kernel_input (kernel, "w", node->inputs[1]);
  rlx_kernel_input (kernel, "expert", node->inputs[RLX_GROUPED_MATMUL_EXPERT]);
  rlx_kernel_output (kernel, "y", &node->outputs[0]);
  rlx_kernel_define (kernel, "WG", lanes);
  rlx_kernel_define (kernel, "TM", self->m == 1 ? 1 : self->m <= 4 ? 4 : FEW_ROWS);
  rlx_kernel_param_u32 (kernel, "m", self->m);
  rlx_kernel_param_u32 (kernel, "n", self->n);
  rlx_kernel_param_u32 (kernel, "k", self->k);
  rlx_kernel_param_u32 (kernel, "experts", self->experts);
  rlx_kernel_param_u32 (kernel, "groups", n_groups);
  rlx_kernel_set_cost (kernel, get_operations (self), get_bytes (self));
  return rlx_kernel_dispatch (kernel, n_groups, error);
}

/* Sorts rows by expert, and finds which of them and which tiles of @tile rows belong to
 * each. */
static gboolean
find_segments (RlxLower         *lower,
               const RlxIrNode  *node,
               guint64           m,
               guint64           experts,
               guint64           tile,
               RlxIrValue      **order,
               RlxIrValue      **start,
               RlxIrValue      **first,
               GError          **error)
{
  const RlxIrValue *expert = node->inputs[RLX_GROUPED_MATMUL_EXPERT];
  const RlxAxis rows = { 1, m, 1 }, segments = { 1, experts + 2, 1 };
  RlxIrValue *tiles = rlx_axis_temporary (lower, RLX_DATA_TYPE_U32, &segments, experts + 2);
  RlxKernel *kernel;

  *order = rlx_axis_temporary (lower, RLX_DATA_TYPE_U32, &rows, m);
  *start = rlx_axis_temporary (lower, RLX_DATA_TYPE_U32, &segments, experts + 3);
  *first = rlx_axis_temporary (lower, RLX_DATA_TYPE_U32, &segments, experts + 2);
  if (!rlx_lower_sort (lower, node, expert, &rows, FALSE, m, NULL, *order, error))
    return FALSE;

  kernel = rlx_kernel_new (lower, node, "grouped-segments");
  rlx_kernel_input (kernel, "expert", expert);
  rlx_kernel_input (kernel, "order", *order);
  rlx_kernel_output (kernel, "start", *start);
  rlx_kernel_output (kernel, "tiles", tiles);
  rlx_kernel_define (kernel, "SIGNED", !rlx_data_type_is_unsigned (expert->type.data_type));
  rlx_kernel_param_u32 (kernel, "m", m);
  rlx_kernel_param_u32 (kernel, "experts", experts);
  rlx_kernel_param_u32 (kernel, "tile", tile);
  return rlx_kernel_dispatch (kernel, (experts + 2) / 64 + 1, error) &&
         rlx_lower_scan (lower, node, tiles, &segments, RLX_SCAN_SUM, TRUE, FALSE, *first, error);
}

/* The work of a workgroup: sums of so many rows and columns in each lane. */
typedef struct
{
  gboolean coalesce;          /* for devices whose loads coalesce */
  guint lanes, rows, columns;
} Tile;

/* Measured on a CPU, where eight lanes fill a core and sums stay in registers. */
static const Tile tile_64x8x2 = { TRUE, 64, 8, 2 }, tile_8x16x4 = { FALSE, 8, 16, 4 }, tile_8x8x4 = { FALSE, 8, 8, 4 };

static RlxFit
tiles_fits (const RlxVariant *variant,
            const RlxTarget  *target,
            gconstpointer     data,
            const char      **why)
{
  const Problem *self = data;
  const Tile *tile = variant->data;

  if (tile->coalesce != target->loads_coalesce)
    return rlx_variant_poorly (tile->coalesce ? "neighbouring lanes load no faster here" : "lanes are wide here", why);
  if (self->m <= FEW_ROWS)
    return rlx_variant_poorly ("rows are few", why);
  if (tile->rows > 8 && self->m / self->experts < tile->rows)
    return rlx_variant_poorly ("experts have few rows each", why);
  return RLX_FIT_WELL;
}

static gboolean
tiles_describe (const RlxVariant *variant,
                RlxLower         *lower,
                const RlxIrNode  *node,
                gconstpointer     data,
                GError          **error)
{
  const Problem *self = data;
  const Tile *tile = variant->data;
  /* Each segment may have one partly filled tile. */
  guint64 tiles_m = MIN (self->m, self->m / tile->rows + self->experts + 2);
  guint64 tiles_n = rlx_divide_up (self->n, tile->lanes * tile->columns);
  RlxIrValue *order, *start, *first;
  RlxKernel *kernel;

  if (!find_segments (lower, node, self->m, self->experts, tile->rows, &order, &start, &first, error))
    return FALSE;

  kernel = rlx_kernel_new (lower, node, "grouped-matmul");
  rlx_kernel_input (kernel, "x", node->inputs[0]);
  rlx_kernel_input (kernel, "w", node->inputs[1]);
  rlx_kernel_input (kernel, "order", order);
  rlx_kernel_input (kernel, "start", start);
  rlx_kernel_input (kernel, "first", first);
  rlx_kernel_output (kernel, "y", &node->outputs[0]);
  rlx_kernel_define (kernel, "WG", tile->lanes);
  rlx_kernel_define (kernel, "TM", tile->rows);
  rlx_kernel_define (kernel, "TN", tile->columns);
  rlx_kernel_param_u32 (kernel, "n", self->n);
  rlx_kernel_param_u32 (kernel, "k", self->k);
  rlx_kernel_param_u32 (kernel, "experts", self->experts);
  rlx_kernel_param_u32 (kernel, "tiles_m", tiles_m);
  rlx_kernel_param_u32 (kernel, "groups", tiles_m * tiles_n);
  rlx_kernel_set_cost (kernel, get_operations (self), get_bytes (self));
  return rlx_kernel_dispatch (kernel, tiles_m * tiles_n, error);
}

static const RlxVariant variants[] = {
  { "rows", rows_fits, grouped_cost, NULL, rows_describe, NULL },
  { "tile-16x32", tiles_fits, grouped_cost, NULL, tiles_describe, &tile_8x16x4 },
  { "tile-8x32", tiles_fits, grouped_cost, NULL, tiles_describe, &tile_8x8x4 },
  { "tile-8x128", tiles_fits, grouped_cost, NULL, tiles_describe, &tile_64x8x2 },
};

#define SAMPLE(m) \
  "rlx 1\n" RLX_SAMPLE_INPUT (0, "f32[" #m ", 128]") RLX_SAMPLE_WEIGHT (1, "f32[8, 128, 128]") RLX_SAMPLE_INPUT (2, "i32[" #m "]") \
  "%3 = grouped_matmul(%0, %1, %2)\n" RLX_SAMPLE_OUTPUT (3)

static const RlxSample samples[] = {
  { SAMPLE (8), 255 },
  { SAMPLE (64), 255 },
  { SAMPLE (256), 255 },
  { NULL, 0 },
};

const RlxVariants rlx_grouped_variants = {
  RLX_FAMILY_GROUPED, "grouped product", variants, G_N_ELEMENTS (variants), print_problem, samples,
};

gboolean
rlx_grouped_matmul_lower (RlxLower        *lower,
                          const RlxIrNode *node,
                          GError         **error)
{
  const RlxTensorType *weight = &node->inputs[1]->type;
  const RlxIrValue *y = &node->outputs[0];
  Problem problem = {
    .experts = (guint64) weight->shape[0], .k = (guint64) weight->shape[1], .n = (guint64) weight->shape[2],
    .data_type = y->type.data_type,
  };

  if (rlx_type_n_elements (&y->type) == 0)
    return TRUE;
  if (problem.k == 0 || problem.experts == 0)
    return rlx_kernel_dispatch_elements (rlx_kernel_new (lower, node, "fill"), lower, y, error);
  problem.m = rlx_type_n_elements (&y->type) / problem.n;
  return rlx_lower_choose (lower, node, &rlx_grouped_variants, &problem, error);
}

/* ---- lora matmul --------------------------------------------------------------------- */

gboolean
rlx_lora_matmul_infer (RlxOpCall                *call,
                       const RlxLoraMatmulAttrs *attrs,
                       GError                  **error)
{
  const RlxTensorType *x = call->inputs[0];
  const RlxTensorType *weight = call->inputs[RLX_LORA_MATMUL_WEIGHT];
  const RlxTensorType *down = call->inputs[RLX_LORA_MATMUL_DOWN], *up = call->inputs[RLX_LORA_MATMUL_UP];
  RlxTensorType type = *x;
  double scale = attrs->scale;

  if (!isfinite ((float) scale))
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "scale is %g; it must be a finite 32-bit float", scale);
  if (x->n_dims == 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "the first operand is a scalar; it needs at least one dimension");
  if (!check_rank (call, 1, 2, error) || !check_rank (call, 2, 2, error) || !check_rank (call, 3, 2, error) ||
      !check_sizes (call, "the last dimension of the first operand", x->shape[x->n_dims - 1],
                    "the rows of the weight", weight->shape[0], error) ||
      !check_sizes (call, "the last dimension of the first operand", x->shape[x->n_dims - 1],
                    "the rows of down", down->shape[0], error) ||
      !check_sizes (call, "the columns of down", down->shape[1], "the rows of up", up->shape[0], error) ||
      !check_sizes (call, "the columns of the weight", weight->shape[1], "the columns of up", up->shape[1], error))
    return FALSE;

  type.shape[type.n_dims - 1] = weight->shape[1];
  rlx_call_add_output (call, &type);
  return TRUE;
}

RlxIrValue *
rlx_lora_matmul_expand (RlxBuilder        *b,
                        const RlxIrNode   *node,
                        RlxIrValue *const *inputs)
{
  RlxIrValue *x = inputs[RLX_LORA_MATMUL_SELF];
  RlxIrValue *down = rlx_build_linear (b, x, inputs[RLX_LORA_MATMUL_DOWN], NULL, NULL);
  RlxIrValue *y = rlx_build_linear (b, x, inputs[RLX_LORA_MATMUL_WEIGHT], NULL, NULL);

  /* The large product is the bias of the last one. */
  return rlx_build_linear (b, down, inputs[RLX_LORA_MATMUL_UP], y,
                           RLX_LINEAR_ATTRS (.alpha = rlx_lora_matmul_attrs (node)->scale));
}

/* Rows whose expert does not exist resulted in zeros. */
void
rlx_grouped_matmul_gradient (RlxGradient     *self,
                             const RlxIrNode *node)
{
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *x = node->inputs[RLX_GROUPED_MATMUL_SELF], *weight = node->inputs[RLX_GROUPED_MATMUL_WEIGHT];
  RlxIrValue *expert = node->inputs[RLX_GROUPED_MATMUL_EXPERT], *g = rlx_gradient_get (self, node, 0);

  if (rlx_gradient_wants (self, node, RLX_GROUPED_MATMUL_SELF))
    rlx_gradient_add (self, node, RLX_GROUPED_MATMUL_SELF,
                      rlx_build_grouped_matmul (b, g, rlx_build_swapped (b, weight, 1, 2), expert));
  if (rlx_gradient_wants (self, node, RLX_GROUPED_MATMUL_WEIGHT))
    {
      gint64 n_experts = weight->type.shape[0], k = weight->type.shape[1], n = weight->type.shape[2];
      gint64 m = (gint64) rlx_type_n_elements (&expert->type);
      RlxIrValue *values = rlx_build_constant (b, rlx_tensor_new_from_floats ((gint64[]) { 2 }, 1, (const float[]) { 0, 1 }, 2, NULL));
      RlxIrValue *chosen = rlx_build_as (b, rlx_build_shaped (b, expert, &m, 1), RLX_DATA_TYPE_I32), *rows;

      /* A negative index would count from the end. */
      chosen = rlx_build_where (b, rlx_build_less (b, chosen, rlx_build_number (b, chosen, 0.0)),
                                rlx_build_number (b, chosen, (double) n_experts), chosen);
      chosen = rlx_build_one_hot (b, chosen, rlx_build_as (b, values, x->type.data_type), RLX_ONE_HOT_ATTRS (.depth = n_experts, .axis = 0));
      chosen = rlx_build_shaped (b, chosen, (gint64[]) { n_experts, m, 1 }, 3);
      rows = rlx_build_mul (b, chosen, rlx_build_shaped (b, x, (gint64[]) { m, k }, 2));
      rlx_gradient_add (self, node, RLX_GROUPED_MATMUL_WEIGHT,
                        rlx_build_matmul (b, rows, rlx_build_shaped (b, g, (gint64[]) { m, n }, 2), RLX_MATMUL_ATTRS (.transpose_a = TRUE)));
    }
}
