/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Products of matrices.
 */
#include "config.h"

#include "ops/rlx-kernel-private.h"

#include <math.h>

gboolean rlx_matmul_infer (RlxOpCall *call, GError **error);
gboolean rlx_matmul_lower (RlxLower *lower, const RlxIrNode *node, GError **error);
gboolean rlx_linear_infer (RlxOpCall *call, GError **error);
gboolean rlx_linear_lower (RlxLower *lower, const RlxIrNode *node, GError **error);

/* ---- rules ------------------------------------------------------------------ */

static gboolean
mismatch (const RlxOpCall     *call,
          const RlxTensorType *a,
          const RlxTensorType *b,
          gboolean             transpose_a,
          gboolean             transpose_b,
          gint64               k_a,
          gint64               k_b,
          GError             **error)
{
  g_autofree char *text_a = rlx_type_to_string (a);
  g_autofree char *text_b = rlx_type_to_string (b);

  return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                         "the columns of %s%s and the rows of %s%s differ: %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT,
                         text_a, transpose_a ? " (transposed)" : "",
                         text_b, transpose_b ? " (transposed)" : "", k_a, k_b);
}

/* Rows and columns of an operand's matrices; FALSE for an operand that has no
 * such matrix. A vector is a row as first operand and a column as second. */
static gboolean
get_matrix (const RlxOpCall *call,
            guint            index,
            gboolean         transpose,
            gint64          *rows,
            gint64          *cols,
            GError         **error)
{
  const RlxTensorType *type = call->inputs[index];
  const char *which = index == 0 ? "first" : "second";

  if (type->rank == 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "the %s operand is a scalar, it needs at least one dimension", which);

  if (type->rank == 1)
    {
      if (transpose)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                               "transpose_%c is set, but the %s operand has one dimension only",
                               index == 0 ? 'a' : 'b', which);
      *rows = index == 0 ? 1 : type->dims[0];
      *cols = index == 0 ? type->dims[0] : 1;
      return TRUE;
    }

  *rows = type->dims[type->rank - (transpose ? 1 : 2)];
  *cols = type->dims[type->rank - (transpose ? 2 : 1)];
  return TRUE;
}

gboolean
rlx_matmul_infer (RlxOpCall *call,
                  GError   **error)
{
  const RlxTensorType *a = call->inputs[0];
  const RlxTensorType *b = call->inputs[1];
  gboolean transpose_a = rlx_call_attr (call, "transpose_a")->i != 0;
  gboolean transpose_b = rlx_call_attr (call, "transpose_b")->i != 0;
  RlxTensorType stack_a = *a, stack_b = *b;
  RlxTensorType type = { .dtype = a->dtype };
  gint64 m, n, k_a, k_b;

  if (!get_matrix (call, 0, transpose_a, &m, &k_a, error) ||
      !get_matrix (call, 1, transpose_b, &k_b, &n, error))
    return FALSE;
  if (k_a != k_b)
    return mismatch (call, a, b, transpose_a, transpose_b, k_a, k_b, error);

  stack_a.rank = a->rank > 2 ? a->rank - 2 : 0;
  stack_b.rank = b->rank > 2 ? b->rank - 2 : 0;
  if (!rlx_shape_broadcast (&stack_a, &stack_b, &type))
    {
      g_autofree char *text_a = rlx_type_to_string (a);
      g_autofree char *text_b = rlx_type_to_string (b);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                             "the leading dimensions of %s and %s do not broadcast together", text_a, text_b);
    }

  if (a->rank > 1)
    type.dims[type.rank++] = m;
  if (b->rank > 1)
    type.dims[type.rank++] = n;
  rlx_call_add_output (call, &type);
  return TRUE;
}

static gboolean
check_finite (const RlxOpCall *call,
              const char      *name,
              GError         **error)
{
  double value = rlx_call_attr (call, name)->f;

  if (isfinite ((float) value))
    return TRUE;
  return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                         "%s is %g, it must be a finite 32-bit float", name, value);
}

gboolean
rlx_linear_infer (RlxOpCall *call,
                  GError   **error)
{
  const RlxTensorType *a = call->inputs[0];
  const RlxTensorType *weight = call->inputs[1];
  const RlxTensorType *bias = call->n_inputs > 2 ? call->inputs[2] : NULL;
  gboolean transpose_a = rlx_call_attr (call, "transpose_a")->i != 0;
  gboolean transpose_b = rlx_call_attr (call, "transpose_b")->i != 0;
  RlxTensorType type = *a;
  gint64 m, n, k_a, k_b;

  if (!check_finite (call, "alpha", error) || !check_finite (call, "beta", error))
    return FALSE;
  if (transpose_a && a->rank != 2)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "transpose_a is set, but the first operand has %u dimensions instead of 2", a->rank);
  if (weight->rank != 2)
    {
      g_autofree char *text = rlx_type_to_string (weight);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                             "the weight must have 2 dimensions, it is %s", text);
    }
  if (!get_matrix (call, 0, transpose_a, &m, &k_a, error) ||
      !get_matrix (call, 1, transpose_b, &k_b, &n, error))
    return FALSE;
  if (k_a != k_b)
    return mismatch (call, a, weight, transpose_a, transpose_b, k_a, k_b, error);

  if (a->rank == 2)
    type.dims[0] = m;
  type.dims[type.rank - 1] = n;

  if (bias != NULL)
    {
      RlxTensorType joined = type;

      if (!rlx_shape_broadcast (bias, &type, &joined) || !rlx_type_same_shape (&joined, &type))
        {
          g_autofree char *text_bias = rlx_type_to_string (bias);
          g_autofree char *text = rlx_type_to_string (&type);

          return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                                 "the bias %s does not broadcast to the result %s", text_bias, text);
        }
    }

  rlx_call_add_output (call, &type);
  return TRUE;
}

/* ---- the product -------------------------------------------------------------- */

/* Dimensions from the innermost to the outermost, with the distance between
 * elements in up to two tensors. */
typedef struct
{
  guint rank;
  guint64 dims[RLX_MAX_RANK];
  guint64 strides[2][RLX_MAX_RANK];
} Loop;

/* Adds a dimension outside of those there are, or widens the outermost one when
 * both are one run in either tensor. */
static void
loop_add (Loop   *loop,
          guint64 dim,
          guint64 stride0,
          guint64 stride1)
{
  guint last = loop->rank - 1;

  if (dim == 1)
    return;

  if (loop->rank > 0 &&
      stride0 == loop->strides[0][last] * loop->dims[last] &&
      stride1 == loop->strides[1][last] * loop->dims[last])
    {
      loop->dims[last] *= dim;
      return;
    }

  loop->dims[loop->rank] = dim;
  loop->strides[0][loop->rank] = stride0;
  loop->strides[1][loop->rank] = stride1;
  loop->rank++;
}

/* y[batch, m, n] = alpha · Σₖ a[batch, m, k] · b[batch, k, n] + beta · bias.
 * The distances between elements tell how the operands lie. */
typedef struct
{
  const RlxIrValue *a;
  const RlxIrValue *b;
  const RlxIrValue *bias;   /* nullable */
  guint64 m, n, k;
  guint64 a_m, a_k;
  guint64 b_k, b_n;
  Loop batch;               /* a, b */
  Loop rows;                /* of the bias */
  guint64 bias_n;
  double alpha;
  double beta;
} Product;

static void
param_indexed (RlxKernel  *kernel,
               const char *prefix,
               guint       index,
               guint64     value)
{
  char name[32];

  g_snprintf (name, sizeof name, "%s%u", prefix, index);
  rlx_kernel_param_u32 (kernel, name, value);
}

/* Whether a whole workgroup should share the sum of each output. Measured on a
 * CPU adapter, where eight lanes fill a core: only when there are fewer outputs
 * than lanes. A GPU wants thousands of lanes, and neighbouring ones at
 * neighbouring addresses. */
static gboolean
prefer_dot (const Product *product,
            guint64        n_outputs,
            gboolean       cpu)
{
  if (product->k >= 256 && n_outputs <= (cpu ? 16 : 2048))
    return TRUE;
  return !cpu && product->k >= 64 && n_outputs <= 1 << 20 &&
         MIN (product->m, product->n) == 1 && product->a_k == 1 && product->b_k == 1;
}

static void
swap (guint64 *a,
      guint64 *b)
{
  guint64 c = *a;

  *a = *b;
  *b = c;
}

static gboolean
lower_product (RlxLower        *lower,
               const RlxIrNode *node,
               const Product   *product,
               GError         **error)
{
  const RlxIrValue *y = &node->outputs[0];
  const RlxIrValue *a = product->a, *b = product->b;
  guint64 m = product->m, n = product->n;
  guint64 a_m = product->a_m, a_k = product->a_k;
  guint64 b_n = product->b_n, b_k = product->b_k;
  guint64 n_outputs = rlx_type_n_elements (&y->type);
  guint64 n_batch = n_outputs / (m * n);
  gboolean cpu = rlx_lower_get_adapter (lower)->type == RLX_ADAPTER_TYPE_CPU;
  guint64 min_lanes = cpu ? 8 : 32;
  gboolean dot = prefer_dot (product, n_outputs, cpu);
  gboolean turn = !dot && n < min_lanes && n < m;
  RlxKernel *kernel = rlx_kernel_new (lower, node, "matmul");
  guint64 n_groups;

  if (turn)
    {
      swap (&m, &n);
      swap (&a_m, &b_n);
      swap (&a_k, &b_k);
      a = product->b;
      b = product->a;
    }

  if (product->k > 0)
    {
      rlx_kernel_input (kernel, "a", a);
      rlx_kernel_input (kernel, "b", b);
    }
  if (product->bias != NULL)
    rlx_kernel_input (kernel, "bias", product->bias);
  rlx_kernel_output (kernel, "y", y);

  rlx_kernel_param_u32 (kernel, "m", m);
  rlx_kernel_param_u32 (kernel, "n", n);
  rlx_kernel_param_u32 (kernel, "k", product->k);
  rlx_kernel_param_u32 (kernel, "a_m", a_m);
  rlx_kernel_param_u32 (kernel, "a_k", a_k);
  rlx_kernel_param_u32 (kernel, "b_k", b_k);
  rlx_kernel_param_u32 (kernel, "b_n", b_n);
  for (guint i = 0; i < product->batch.rank; i++)
    {
      param_indexed (kernel, "batch", i, product->batch.dims[i]);
      param_indexed (kernel, "a_batch", i, product->batch.strides[turn ? 1 : 0][i]);
      param_indexed (kernel, "b_batch", i, product->batch.strides[turn ? 0 : 1][i]);
    }
  rlx_kernel_define (kernel, "BATCH_DIMS", product->batch.rank);

  rlx_kernel_define (kernel, "ALPHA", product->alpha != 1.0);
  if (product->alpha != 1.0)
    rlx_kernel_param_f32 (kernel, "alpha", product->alpha);
  rlx_kernel_define (kernel, "BIAS", product->bias != NULL);
  rlx_kernel_define (kernel, "BETA", product->beta != 1.0);
  rlx_kernel_define (kernel, "BIAS_DIMS", product->rows.rank);
  if (product->bias != NULL)
    {
      if (product->beta != 1.0)
        rlx_kernel_param_f32 (kernel, "beta", product->beta);
      rlx_kernel_param_u32 (kernel, "bias_n", product->bias_n);
      for (guint i = 0; i < product->rows.rank; i++)
        {
          param_indexed (kernel, "row", i, product->rows.dims[i]);
          param_indexed (kernel, "bias_row", i, product->rows.strides[0][i]);
        }
    }

  rlx_kernel_define (kernel, "PRODUCT", product->k > 0);
  rlx_kernel_define (kernel, "SWAP", turn);
  rlx_kernel_define (kernel, "DOT", dot);
  if (dot)
    {
      rlx_kernel_define (kernel, "WG", product->k >= 4096 ? 256 : 64);
      n_groups = n_outputs;
    }
  else
    {
      guint64 lanes = 64, tile_m = 8, tile_n, tiles_m, tiles_n;

      while (lanes > min_lanes && lanes / 2 >= n)
        lanes /= 2;
      tile_n = n > lanes ? 2 : 1;
      tiles_n = (n - 1) / (lanes * tile_n) + 1;
      if (m == 1)
        tile_m = 1;
      else if (m <= 4)
        tile_m = 4;
      /* More rows per load of `b`, as long as every core has work and the
       * longer compilation pays. */
      else if (((m - 1) / 16 + 1) * tiles_n * n_batch >= 32 && n_outputs * product->k >= 1 << 22)
        tile_m = 16;
      tiles_m = (m - 1) / tile_m + 1;

      rlx_kernel_define (kernel, "WG", lanes);
      rlx_kernel_define (kernel, "TM", tile_m);
      rlx_kernel_define (kernel, "TN", tile_n);
      rlx_kernel_param_u32 (kernel, "tiles_m", tiles_m);
      rlx_kernel_param_u32 (kernel, "tiles_n", tiles_n);
      n_groups = n_batch * tiles_m * tiles_n;
    }
  rlx_kernel_param_u32 (kernel, "groups", n_groups);

  rlx_kernel_set_cost (kernel,
                       2.0 * (double) n_outputs * (double) product->k,
                       (double) rlx_type_n_bytes (&a->type) + (double) rlx_type_n_bytes (&b->type) +
                       (double) rlx_type_n_bytes (&y->type) +
                       (product->bias ? (double) rlx_type_n_bytes (&product->bias->type) : 0.0));
  return rlx_kernel_dispatch (kernel, n_groups, error);
}

/* ---- lowerings ------------------------------------------------------------------ */

static void
set_matrix_a (Product            *product,
              const RlxIrValue   *a,
              gboolean            transpose)
{
  const RlxTensorType *type = &a->type;
  guint64 cols = type->dims[type->rank - 1];

  product->a = a;
  product->m = type->rank > 1 ? type->dims[type->rank - 2] : 1;
  product->k = cols;
  product->a_m = cols;
  product->a_k = 1;
  if (transpose)
    {
      swap (&product->m, &product->k);
      swap (&product->a_m, &product->a_k);
    }
}

static void
set_matrix_b (Product            *product,
              const RlxIrValue   *b,
              gboolean            transpose)
{
  const RlxTensorType *type = &b->type;

  product->b = b;
  product->n = type->rank > 1 ? type->dims[type->rank - (transpose ? 2 : 1)] : 1;
  product->b_k = transpose ? 1 : product->n;
  product->b_n = transpose ? product->k : 1;
}

/* The last dimension but @skip ones and @index more, 1 when there is none. */
static guint64
dim_from_end (const RlxTensorType *type,
              guint                skip,
              guint                index)
{
  return skip + index < type->rank ? type->dims[type->rank - 1 - skip - index] : 1;
}

gboolean
rlx_matmul_lower (RlxLower        *lower,
                  const RlxIrNode *node,
                  GError         **error)
{
  const RlxTensorType *a = &node->inputs[0]->type;
  const RlxTensorType *b = &node->inputs[1]->type;
  Product product = { .alpha = 1.0, .beta = 1.0 };
  guint64 a_stride, b_stride;

  if (rlx_type_n_elements (&node->outputs[0].type) == 0)
    return TRUE;

  set_matrix_a (&product, node->inputs[0], rlx_node_attr (node, "transpose_a")->i != 0);
  set_matrix_b (&product, node->inputs[1], rlx_node_attr (node, "transpose_b")->i != 0);

  a_stride = product.m * product.k;
  b_stride = product.k * product.n;
  for (guint i = 0; i + 2 < MAX (a->rank, b->rank); i++)
    {
      guint64 dim_a = dim_from_end (a, 2, i);
      guint64 dim_b = dim_from_end (b, 2, i);

      loop_add (&product.batch, MAX (dim_a, dim_b), dim_a == 1 ? 0 : a_stride, dim_b == 1 ? 0 : b_stride);
      a_stride *= dim_a;
      b_stride *= dim_b;
    }

  /* A stack of matrices times one matrix is one taller matrix. */
  if (product.batch.rank == 1 &&
      product.batch.strides[0][0] == product.m * product.a_m &&
      product.batch.strides[1][0] == 0)
    {
      product.m *= product.batch.dims[0];
      product.batch.rank = 0;
    }

  return lower_product (lower, node, &product, error);
}

gboolean
rlx_linear_lower (RlxLower        *lower,
                  const RlxIrNode *node,
                  GError         **error)
{
  const RlxTensorType *type = &node->outputs[0].type;
  Product product = {
    .alpha = rlx_node_attr (node, "alpha")->f,
    .beta = rlx_node_attr (node, "beta")->f,
  };
  guint64 n_elements = rlx_type_n_elements (type);

  if (n_elements == 0)
    return TRUE;

  set_matrix_a (&product, node->inputs[0], rlx_node_attr (node, "transpose_a")->i != 0);
  set_matrix_b (&product, node->inputs[1], rlx_node_attr (node, "transpose_b")->i != 0);
  product.m = n_elements / product.n;

  product.bias = node->n_inputs > 2 ? node->inputs[2] : NULL;
  if (product.bias != NULL)
    {
      const RlxTensorType *bias = &product.bias->type;
      guint64 stride = dim_from_end (bias, 0, 0);

      product.bias_n = stride == 1 ? 0 : 1;
      for (guint i = 0; i + 1 < type->rank; i++)
        {
          guint64 dim = dim_from_end (bias, 1, i);

          loop_add (&product.rows, dim_from_end (type, 1, i), dim == 1 ? 0 : stride, 0);
          stride *= dim;
        }
      if (product.rows.rank == 1 && product.rows.strides[0][0] == 0)
        product.rows.rank = 0;
    }

  return lower_product (lower, node, &product, error);
}
