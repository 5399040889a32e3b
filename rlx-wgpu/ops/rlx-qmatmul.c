/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Products of quantised matrices: bytes are multiplied and added as integers.
 */
#include "config.h"

#include "ops/rlx-product-private.h"
#include "ops/rlx-quantize-private.h"
#include "ops/rlx-variant-private.h"

#define WORKGROUP_SIZE 64
/* Lanes that share a sum if there are few rows. */
#define ROW_LANES 16
/* The inputs after the operands and their zero points. */
#define FIRST_INPUT RLX_QMATMUL_BIAS

/* Whether @zero broadcasts to @type with size 1 along @axis, which is summed over. */
static gboolean
check_zero (RlxOpCall           *call,
            guint                index,
            const RlxTensorType *operand,
            guint                axis,
            GError             **error)
{
  const RlxTensorType *zero = index < call->n_inputs ? call->inputs[index] : NULL;
  RlxTensorType wanted = *operand, joined;
  g_autofree char *text = NULL;

  if (zero == NULL)
    return TRUE;
  wanted.shape[axis] = 1;
  if (rlx_shape_broadcast (&wanted, zero, &joined) && rlx_type_same_shape (&wanted, &joined))
    return TRUE;
  text = rlx_type_to_string (zero);
  return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                         "the zero point %s is not for the rows or columns of its operand", text);
}

gboolean
rlx_qmatmul_infer (RlxOpCall             *call,
                   const RlxQmatmulAttrs *attrs,
                   GError               **error)
{
  const RlxTensorType *a = call->inputs[0], *b = call->inputs[1];
  guint transposed = attrs->transpose_b ? 1 : 0;
  RlxTensorType stack_a = *a, stack_b = *b, type = { 0 };
  gint64 columns;

  if (a->n_dims < 2 || b->n_dims < 2)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "the operands have %u and %u dimensions, they need at least 2", a->n_dims, b->n_dims);
  if (a->shape[a->n_dims - 1] != b->shape[b->n_dims - 2 + transposed])
    {
      g_autofree char *text_a = rlx_type_to_string (a);
      g_autofree char *text_b = rlx_type_to_string (b);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the columns of %s and the rows of %s%s differ",
                             text_a, text_b, transposed ? " (transposed)" : "");
    }
  stack_a.n_dims -= 2;
  stack_b.n_dims -= 2;
  if (!rlx_shape_broadcast (&stack_a, &stack_b, &type))
    {
      g_autofree char *text_a = rlx_type_to_string (a);
      g_autofree char *text_b = rlx_type_to_string (b);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                             "the leading dimensions of %s and %s do not broadcast together", text_a, text_b);
    }
  columns = b->shape[b->n_dims - 1 - transposed];
  if (!check_zero (call, RLX_QMATMUL_ZERO_A, a, a->n_dims - 1, error) ||
      !check_zero (call, RLX_QMATMUL_ZERO_B, b, b->n_dims - 2 + transposed, error) ||
      !rlx_requantize_check (call, FIRST_INPUT, columns, attrs->to, attrs->minimum, attrs->maximum, error))
    return FALSE;

  type.data_type = attrs->to;
  type.shape[type.n_dims++] = a->shape[a->n_dims - 2];
  type.shape[type.n_dims++] = columns;
  rlx_call_add_output (call, &type);
  return TRUE;
}

/* The stride of @value's elements along the dimension that is @from_end from the last; 0 if there
 * is none, or if it broadcasts. */
static gint64
get_stride (const RlxIrValue *value,
            guint             from_end)
{
  gint64 strides[RLX_MAX_DIMS];
  guint d;

  if (value == NULL || from_end >= value->type.n_dims)
    return 0;
  d = value->type.n_dims - 1 - from_end;
  rlx_type_get_strides (&value->type, strides);
  return value->type.shape[d] == 1 ? 0 : strides[d];
}

/* ---- variants ------------------------------------------------------------------------- */

typedef struct
{
  const RlxIrValue *a, *b, *zero_a, *zero_b;   /* zero points are nullable */
  const RlxTensorType *type;                   /* of the result */
  gboolean transposed;
  guint n_axes;            /* of stacks of matrices */
  guint64 stacks, m, n, k;
  guint64 lanes;           /* that the columns occupy, with four columns each */
} Problem;

static void
problem_init (Problem         *self,
              const RlxIrNode *node)
{
  const RlxIrValue *a = node->inputs[RLX_QMATMUL_SELF], *b = node->inputs[RLX_QMATMUL_OTHER];
  const RlxTensorType *type = &node->outputs[0].type;

  *self = (Problem) {
    .a = a, .b = b, .type = type,
    .zero_a = rlx_ir_node_get_zero (node, RLX_QMATMUL_ZERO_A),
    .zero_b = rlx_ir_node_get_zero (node, RLX_QMATMUL_ZERO_B),
    .transposed = rlx_qmatmul_attrs (node)->transpose_b,
    .n_axes = type->n_dims - 2,
    .m = (guint64) type->shape[type->n_dims - 2],
    .n = (guint64) type->shape[type->n_dims - 1],
    .k = (guint64) a->type.shape[a->type.n_dims - 1],
    .lanes = 1,
  };
  self->stacks = rlx_type_n_elements (type) / (self->m * self->n);
  /* A stack of matrices times one matrix is one taller matrix. */
  if (rlx_type_n_elements (&b->type) == self->k * self->n && rlx_type_n_elements (&a->type) == self->stacks * self->m * self->k &&
      (self->zero_a == NULL || rlx_type_n_elements (&self->zero_a->type) == 1))
    {
      self->m *= self->stacks;
      self->stacks = 1;
      self->n_axes = 0;
    }
  while (self->lanes < WORKGROUP_SIZE && self->lanes * 4 < self->n)
    self->lanes *= 2;
}

static char *
print_problem (gconstpointer data)
{
  const Problem *self = data;

  return g_strdup_printf ("%" G_GUINT64_FORMAT " times [%" G_GUINT64_FORMAT ", %" G_GUINT64_FORMAT "] · [%" G_GUINT64_FORMAT ", %" G_GUINT64_FORMAT
                          "], %s and %s%s", self->stacks, self->m, self->k, self->k, self->n,
                          rlx_data_type_to_string (self->a->type.data_type), rlx_data_type_to_string (self->b->type.data_type),
                          self->transposed ? ", transposed" : "");
}

static double
get_operations (const Problem *self)
{
  return 2.0 * (double) rlx_type_n_elements (self->type) * (double) self->k;
}

static double
qmatmul_cost (const RlxVariant *variant,
              const RlxTarget  *target,
              gconstpointer     data)
{
  const Problem *self = data;

  return rlx_target_get_seconds (target, get_operations (self),
                                 (double) rlx_type_n_bytes (&self->a->type) + (double) rlx_type_n_bytes (&self->b->type) +
                                 (double) rlx_type_n_bytes (self->type));
}

/* The common part of all kernels. *@y is the destination of the sums. */
static RlxKernel *
start_kernel (const Problem     *self,
              RlxLower          *lower,
              const RlxIrNode   *node,
              gboolean           split,
              gboolean           row,
              const RlxIrValue **y)
{
  const RlxTensorType *type = self->type;
  RlxKernel *kernel = rlx_kernel_new (lower, node, "qmatmul");

  rlx_requantize_describe (kernel, lower, node, FIRST_INPUT, y);
  rlx_kernel_define (kernel, "PRODUCT", self->k > 0);
  if (self->k > 0)
    {
      rlx_kernel_input (kernel, "a", self->a);
      rlx_kernel_input (kernel, "b", self->b);
    }
  if (self->zero_a != NULL)
    rlx_kernel_input (kernel, "zero_a", self->zero_a);
  if (self->zero_b != NULL)
    rlx_kernel_input (kernel, "zero_b", self->zero_b);
  rlx_kernel_define (kernel, "RANK", self->n_axes);
  rlx_kernel_define (kernel, "ZERO_A", self->zero_a != NULL);
  rlx_kernel_define (kernel, "ZERO_B", self->zero_b != NULL);
  rlx_kernel_define (kernel, "SPLIT", split);
  rlx_kernel_define (kernel, "ROW", row);
  rlx_kernel_param_u32 (kernel, "m", self->m);
  rlx_kernel_param_u32 (kernel, "n", self->n);
  rlx_kernel_param_u32 (kernel, "k", self->k);
  rlx_kernel_param_u32 (kernel, "b_k", self->transposed ? 1 : self->n);
  rlx_kernel_param_u32 (kernel, "b_n", self->transposed ? self->k : 1);
  rlx_kernel_param_u32 (kernel, "za_row", (guint32) get_stride (self->zero_a, 1));
  rlx_kernel_param_u32 (kernel, "zb_column", (guint32) get_stride (self->zero_b, self->transposed ? 1 : 0));
  for (guint i = 0; i < self->n_axes; i++)
    {
      rlx_kernel_param_indexed (kernel, "dim", i, type->shape[type->n_dims - 3 - i]);
      rlx_kernel_param_indexed (kernel, "a", i, get_stride (self->a, i + 2));
      rlx_kernel_param_indexed (kernel, "b", i, get_stride (self->b, i + 2));
      rlx_kernel_param_indexed (kernel, "za", i, get_stride (self->zero_a, i + 2));
      rlx_kernel_param_indexed (kernel, "zb", i, get_stride (self->zero_b, i + 2));
    }
  return kernel;
}

static gboolean
end_kernel (const Problem    *self,
            RlxLower         *lower,
            const RlxIrNode  *node,
            RlxKernel        *kernel,
            guint64           groups,
            const RlxIrValue *y,
            GError          **error)
{
  rlx_kernel_param_u32 (kernel, "groups", groups);
  rlx_kernel_set_cost (kernel, get_operations (self),
                       (double) rlx_type_n_bytes (&self->a->type) + (double) rlx_type_n_bytes (&self->b->type) +
                       (double) rlx_type_n_bytes (&y->type));
  return rlx_kernel_dispatch (kernel, groups, error) &&
         rlx_requantize_finish (lower, node, FIRST_INPUT, y, error);
}

static RlxFit
dot_fits (const RlxVariant *variant,
          const RlxTarget  *target,
          gconstpointer     data,
          const char      **why)
{
  const Problem *self = data;

  if (self->k == 0)
    return rlx_variant_cannot ("there is nothing to add up", why);
  return self->k >= 256 && rlx_type_n_elements (self->type) <= target->busy_invocations
         ? RLX_FIT_WELL : rlx_variant_poorly ("too many results, or too short sums, for a workgroup each", why);
}

/* A workgroup shares the sum of each element. */
static gboolean
dot_describe (const RlxVariant *variant,
              RlxLower         *lower,
              const RlxIrNode  *node,
              gconstpointer     data,
              GError          **error)
{
  const Problem *self = data;
  const RlxIrValue *y;
  RlxKernel *kernel = start_kernel (self, lower, node, TRUE, FALSE, &y);

  rlx_kernel_define (kernel, "WG", self->k >= 4096 ? 256 : WORKGROUP_SIZE);
  return end_kernel (self, lower, node, kernel, rlx_type_n_elements (self->type), y, error);
}

/* Four products at once. */
static void
define_dot (const Problem *self,
            RlxKernel     *kernel)
{
  RlxPackedDot dot;

  rlx_packed_dot_init (&dot, self->a->type.data_type, self->b->type.data_type);
  rlx_kernel_define_text (kernel, "DOT", dot.function);
  rlx_kernel_define (kernel, "FLIP_A", dot.flip_a);
  rlx_kernel_define (kernel, "FLIP_B", dot.flip_b);
  rlx_kernel_define (kernel, "OFFSET_A", self->zero_a != NULL || dot.flip_a);
  rlx_kernel_define (kernel, "OFFSET_B", self->zero_b != NULL || dot.flip_b);
}

static RlxFit
row_fits (const RlxVariant *variant,
          const RlxTarget  *target,
          gconstpointer     data,
          const char      **why)
{
  const Problem *self = data;

  if (!(target->features & RLX_DEVICE_FEATURES_PACKED_DOT))
    return rlx_variant_cannot ("needs packed dot products", why);
  if (self->k == 0 || self->k % 16 != 0 || !self->transposed)
    return rlx_variant_cannot ("rows and columns are not multiples of 16 bytes", why);
  if (!target->loads_coalesce)
    return rlx_variant_poorly ("neighbouring lanes would read distant elements", why);
  return self->m <= 4 ? RLX_FIT_WELL : rlx_variant_poorly ("more than 4 rows", why);
}

/* Lanes share the sums of few rows. */
static gboolean
row_describe (const RlxVariant *variant,
              RlxLower         *lower,
              const RlxIrNode  *node,
              gconstpointer     data,
              GError          **error)
{
  const Problem *self = data;
  guint64 tile = MIN (self->m, 4);
  guint64 tiles_m = rlx_divide_up (self->m, tile), tiles_n = rlx_divide_up (self->n, WORKGROUP_SIZE / ROW_LANES * 2);
  const RlxIrValue *y;
  RlxKernel *kernel = start_kernel (self, lower, node, FALSE, TRUE, &y);

  define_dot (self, kernel);
  rlx_kernel_define (kernel, "WG", WORKGROUP_SIZE);
  rlx_kernel_define (kernel, "LANES", ROW_LANES);
  rlx_kernel_define (kernel, "TM", (gint64) tile);
  rlx_kernel_param_u32 (kernel, "pieces", self->k / 16);
  rlx_kernel_param_u32 (kernel, "tiles_m", tiles_m);
  rlx_kernel_param_u32 (kernel, "tiles_n", tiles_n);
  return end_kernel (self, lower, node, kernel, self->stacks * tiles_m * tiles_n, y, error);
}

/* Whether the rows of the first operand, and the rows or columns of the second, are whole words. */
static gboolean
has_words (const Problem *self)
{
  return self->k > 0 && self->k % 4 == 0 && (self->transposed || self->n % 4 == 0);
}

static RlxFit
shuffle_fits (const RlxVariant *variant,
              const RlxTarget  *target,
              gconstpointer     data,
              const char      **why)
{
  const Problem *self = data;

  if (!rlx_product_has_shuffles (target))
    return rlx_variant_cannot ("needs subgroups of 8, on a CPU", why);
  if (!has_words (self))
    return rlx_variant_cannot ("rows or columns are not whole words", why);
  return self->m >= 4 && self->n >= 16 ? RLX_FIT_WELL : rlx_variant_poorly ("too few rows or columns", why);
}

/* The common part of tiles with 4 columns per lane. */
static void
describe_tiles (const Problem    *self,
                RlxKernel        *kernel,
                const RlxIrValue *y,
                guint64           tile,
                guint64           tiles_m,
                guint64           tiles_n)
{
  rlx_kernel_define (kernel, "TM", (gint64) tile);
  rlx_kernel_define (kernel, "TRANSPOSED", self->transposed);
  rlx_kernel_define (kernel, "WORDS", rlx_data_type_get_bits (y->type.data_type) == 8 && self->n % 4 == 0);
  rlx_kernel_param_u32 (kernel, "tiles_m", tiles_m);
  rlx_kernel_param_u32 (kernel, "tiles_n", tiles_n);
}

/* Lanes pass the numbers of rows on to each other. */
static gboolean
shuffle_describe (const RlxVariant *variant,
                  RlxLower         *lower,
                  const RlxIrNode  *node,
                  gconstpointer     data,
                  GError          **error)
{
  const Problem *self = data;
  /* More rows per load of `b`, if there are enough. */
  guint64 tile = self->m > 8 ? 16 : 8;
  guint64 tiles_n = rlx_divide_up (self->n, 32), tiles_m = rlx_divide_up (self->m, tile);
  const RlxIrValue *y;
  RlxKernel *kernel = start_kernel (self, lower, node, FALSE, FALSE, &y);

  rlx_kernel_enable (kernel, "enable subgroups;");
  rlx_kernel_define (kernel, "SHUFFLE", TRUE);
  rlx_kernel_define (kernel, "EVEN", self->n % 32 == 0);
  rlx_kernel_define (kernel, "SIGNED_A", self->a->type.data_type == RLX_DATA_TYPE_I8);
  rlx_kernel_define (kernel, "SIGNED_B", self->b->type.data_type == RLX_DATA_TYPE_I8);
  describe_tiles (self, kernel, y, tile, tiles_m, tiles_n);
  return end_kernel (self, lower, node, kernel, self->stacks * tiles_m * tiles_n, y, error);
}

/* What distinguishes tiles. */
typedef struct
{
  gboolean packed;      /* four products at once */
} Tiles;

static const Tiles packed_tiles = { TRUE }, plain_tiles = { FALSE };

static RlxFit
tiles_fits (const RlxVariant *variant,
            const RlxTarget  *target,
            gconstpointer     data,
            const char      **why)
{
  const Problem *self = data;
  const Tiles *tiles = variant->data;

  if (tiles->packed && !(target->features & RLX_DEVICE_FEATURES_PACKED_DOT))
    return rlx_variant_cannot ("needs packed dot products", why);
  if (tiles->packed && !has_words (self))
    return rlx_variant_cannot ("rows or columns are not whole words", why);
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
  const Tiles *tiles = variant->data;
  guint64 n_products = rlx_type_n_elements (self->type) * self->k;
  /* More rows per load of `b`, if that is worth the longer compilation. */
  guint64 tile = self->m == 1 ? 1 : self->m <= 4 || n_products < 1 << 22 ? 4 : 8;
  guint64 tiles_n = rlx_divide_up (self->n, self->lanes * 4);
  guint64 tiles_m = rlx_divide_up (self->m, tile * (WORKGROUP_SIZE / self->lanes));
  const RlxIrValue *y;
  RlxKernel *kernel = start_kernel (self, lower, node, FALSE, FALSE, &y);

  define_dot (self, kernel);
  rlx_kernel_define (kernel, "SHUFFLE", FALSE);
  rlx_kernel_define (kernel, "WG", WORKGROUP_SIZE);
  rlx_kernel_define (kernel, "PACKED", tiles->packed);
  rlx_kernel_param_u32 (kernel, "lanes", self->lanes);
  describe_tiles (self, kernel, y, tile, tiles_m, tiles_n);
  return end_kernel (self, lower, node, kernel, self->stacks * tiles_m * tiles_n, y, error);
}

static const RlxVariant variants[] = {
  { "row", row_fits, qmatmul_cost, NULL, row_describe, NULL },
  { "dot", dot_fits, qmatmul_cost, NULL, dot_describe, NULL },
  { "shuffle", shuffle_fits, qmatmul_cost, NULL, shuffle_describe, NULL },
  { "packed", tiles_fits, qmatmul_cost, NULL, tiles_describe, &packed_tiles },
  { "tiles", tiles_fits, qmatmul_cost, NULL, tiles_describe, &plain_tiles },
};

static const RlxSample samples[] = {
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "u8[128, 256]") RLX_SAMPLE_WEIGHT (1, "i8[256, 128]")
    "%2 = qmatmul(%0, %1)\n" RLX_SAMPLE_OUTPUT (2), 255 },
  { "rlx 1\n" RLX_SAMPLE_INPUT (0, "u8[1, 1024]") RLX_SAMPLE_WEIGHT (1, "i8[1024, 8]")
    "%2 = qmatmul(%0, %1)\n" RLX_SAMPLE_OUTPUT (2), 255 },
  { NULL, 0 },
};

const RlxVariants rlx_qmatmul_variants = {
  RLX_FAMILY_QMATMUL, "qmatmul", variants, G_N_ELEMENTS (variants), print_problem, samples,
};

gboolean
rlx_qmatmul_lower (RlxLower        *lower,
                   const RlxIrNode *node,
                   GError         **error)
{
  Problem problem;

  if (rlx_type_n_elements (&node->outputs[0].type) == 0)
    return TRUE;
  problem_init (&problem, node);
  return rlx_lower_choose (lower, node, &rlx_qmatmul_variants, &problem, error);
}
