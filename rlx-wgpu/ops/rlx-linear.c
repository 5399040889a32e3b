/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Matrix products.
 */
#include "config.h"

#include "ops/rlx-product-private.h"

#include <math.h>

#include "ops/rlx-gradient-private.h"

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

/* Rows and columns of an operand's matrices; FALSE if it has no such matrix. A vector is a
 * row as the first operand and a column as the second. */
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

  if (type->n_dims == 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "the %s operand is a scalar; it needs at least one dimension", which);

  if (type->n_dims == 1)
    {
      if (transpose)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                               "transpose_%c is set, but the %s operand has one dimension only",
                               index == 0 ? 'a' : 'b', which);
      *rows = index == 0 ? 1 : type->shape[0];
      *cols = index == 0 ? type->shape[0] : 1;
      return TRUE;
    }

  *rows = type->shape[type->n_dims - (transpose ? 1 : 2)];
  *cols = type->shape[type->n_dims - (transpose ? 2 : 1)];
  return TRUE;
}

gboolean
rlx_matmul_infer (RlxOpCall            *call,
                  const RlxMatmulAttrs *attrs,
                  GError              **error)
{
  const RlxTensorType *a = call->inputs[0];
  const RlxTensorType *b = call->inputs[1];
  gboolean transpose_a = attrs->transpose_a;
  gboolean transpose_b = attrs->transpose_b;
  RlxTensorType stack_a = *a, stack_b = *b;
  RlxTensorType type = { .data_type = a->data_type };
  gint64 m, n, k_a, k_b;

  if (!get_matrix (call, 0, transpose_a, &m, &k_a, error) ||
      !get_matrix (call, 1, transpose_b, &k_b, &n, error))
    return FALSE;
  if (k_a != k_b)
    return mismatch (call, a, b, transpose_a, transpose_b, k_a, k_b, error);

  stack_a.n_dims = a->n_dims > 2 ? a->n_dims - 2 : 0;
  stack_b.n_dims = b->n_dims > 2 ? b->n_dims - 2 : 0;
  if (!rlx_shape_broadcast (&stack_a, &stack_b, &type))
    {
      g_autofree char *text_a = rlx_type_to_string (a);
      g_autofree char *text_b = rlx_type_to_string (b);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                             "the leading dimensions of %s and %s do not broadcast together", text_a, text_b);
    }

  if (a->n_dims > 1)
    type.shape[type.n_dims++] = m;
  if (b->n_dims > 1)
    type.shape[type.n_dims++] = n;
  rlx_call_add_output (call, &type);
  return TRUE;
}

static gboolean
check_finite (const RlxOpCall *call,
              const char      *name,
              double           value,
              GError         **error)
{
  if (isfinite ((float) value))
    return TRUE;
  return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                         "%s is %g; it must be a finite 32-bit float", name, value);
}

gboolean
rlx_linear_infer (RlxOpCall            *call,
                  const RlxLinearAttrs *attrs,
                  GError              **error)
{
  const RlxTensorType *a = call->inputs[0];
  const RlxTensorType *weight = call->inputs[1];
  const RlxTensorType *bias = call->inputs[RLX_LINEAR_BIAS];
  gboolean transpose_a = attrs->transpose_a;
  gboolean transpose_b = attrs->transpose_b;
  RlxTensorType type = *a;
  gint64 m, n, k_a, k_b;

  if (!check_finite (call, "alpha", attrs->alpha, error) || !check_finite (call, "beta", attrs->beta, error))
    return FALSE;
  if (transpose_a && a->n_dims != 2)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "transpose_a is set, but the first operand has %u dimensions instead of 2", a->n_dims);
  if (weight->n_dims != 2)
    {
      g_autofree char *text = rlx_type_to_string (weight);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                             "the weight must have 2 dimensions; it is %s", text);
    }
  if (!get_matrix (call, 0, transpose_a, &m, &k_a, error) ||
      !get_matrix (call, 1, transpose_b, &k_b, &n, error))
    return FALSE;
  if (k_a != k_b)
    return mismatch (call, a, weight, transpose_a, transpose_b, k_a, k_b, error);

  if (a->n_dims == 2)
    type.shape[0] = m;
  type.shape[type.n_dims - 1] = n;

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

gboolean
rlx_qkv_linear_infer (RlxOpCall               *call,
                      const RlxQkvLinearAttrs *attrs,
                      GError                 **error)
{
  const RlxTensorType *x = call->inputs[0];
  const RlxTensorType *weight = call->inputs[1];
  const RlxTensorType *bias = call->inputs[RLX_LINEAR_BIAS];
  gboolean transpose_b = attrs->transpose_b;
  gint64 query = attrs->query_size;
  gint64 key = attrs->key_size;
  RlxTensorType type = *x;
  gint64 m, n, k_x, k_w;

  if (weight->n_dims != 2)
    {
      g_autofree char *text = rlx_type_to_string (weight);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                             "the weight must have 2 dimensions; it is %s", text);
    }
  if (!get_matrix (call, 0, FALSE, &m, &k_x, error) || !get_matrix (call, 1, transpose_b, &k_w, &n, error))
    return FALSE;
  if (k_x != k_w)
    return mismatch (call, x, weight, FALSE, transpose_b, k_x, k_w, error);
  if (query < 1 || key < 1 || query >= n || key >= n - query)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "query_size %" G_GINT64_FORMAT " and key_size %" G_GINT64_FORMAT
                           " must be at least 1 and leave some of the %" G_GINT64_FORMAT " columns of the weight",
                           query, key, n);
  if (bias != NULL && (bias->n_dims != 1 || bias->shape[0] != n))
    {
      g_autofree char *text = rlx_type_to_string (bias);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                             "the bias is %s; it must have one dimension of %" G_GINT64_FORMAT, text, n);
    }

  for (guint i = 0; i < 3; i++)
    {
      type.shape[type.n_dims - 1] = i == 0 ? query : i == 1 ? key : n - query - key;
      rlx_call_add_output (call, &type);
    }
  return TRUE;
}

/* ---- gradients -------------------------------------------------------------------- */

/* All dimensions but the last, merged into one. */
static RlxIrValue *
flatten (RlxBuilder *b,
         RlxIrValue *x)
{
  gint64 shape[2] = { 1, x->type.shape[x->type.n_dims - 1] };

  for (guint i = 0; i + 1 < x->type.n_dims; i++)
    shape[0] *= x->type.shape[i];
  return rlx_build_shaped (b, x, shape, 2);
}

/* A vector as a matrix: a row as the first operand, a column as the second. */
static RlxIrValue *
as_matrix (RlxBuilder *b,
           RlxIrValue *x,
           gboolean    is_row)
{
  gint64 n = x->type.shape[0];

  return x->type.n_dims > 1 ? x : rlx_build_shaped (b, x, is_row ? (gint64[]) { 1, n } : (gint64[]) { n, 1 }, 2);
}

/* Gradients of the product of the first two operands; @g is that of the product. */
static void
add_product_gradients (RlxGradient     *self,
                       const RlxIrNode *node,
                       RlxIrValue      *g,
                       gboolean         transpose_a,
                       gboolean         transpose_b)
{
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *x = node->inputs[0], *w = node->inputs[1];
  gboolean is_row = x->type.n_dims == 1, is_column = w->type.n_dims == 1;
  RlxIrValue *dx = NULL, *dw = NULL;

  if (g == NULL)
    return;

  /* Operands of one dimension have no dimension of their own in the result. */
  if (is_row || is_column)
    {
      RlxTensorType type = g->type;

      if (is_column)
        type.shape[type.n_dims++] = 1;
      if (is_row)
        {
          gint64 last = type.n_dims > 0 ? type.shape[type.n_dims - 1] : 1;

          type.n_dims = MAX (type.n_dims, 1) + 1;
          type.shape[type.n_dims - 2] = 1;
          type.shape[type.n_dims - 1] = last;
        }
      g = rlx_build_shaped (b, g, type.shape, type.n_dims);
      x = as_matrix (b, x, TRUE);
      w = as_matrix (b, w, FALSE);
    }

  if (rlx_gradient_wants (self, node, 0))
    {
      dx = transpose_a
             ? rlx_build_matmul (b, w, g, RLX_MATMUL_ATTRS (.transpose_a = transpose_b, .transpose_b = TRUE))
             : rlx_build_matmul (b, g, w, RLX_MATMUL_ATTRS (.transpose_b = !transpose_b));
      if (is_row && dx != NULL)
        dx = rlx_build_shaped (b, rlx_build_sum_to (b, dx, &x->type), node->inputs[0]->type.shape, 1);
      rlx_gradient_add (self, node, 0, dx);
    }

  if (rlx_gradient_wants (self, node, 1))
    {
      /* One matrix for a whole stack: summing over the stack is part of the product. */
      if (w->type.n_dims == 2 && !transpose_a && x->type.n_dims > 2 && g != NULL)
        {
          x = flatten (b, x);
          g = flatten (b, g);
        }
      dw = transpose_b
             ? rlx_build_matmul (b, g, x, RLX_MATMUL_ATTRS (.transpose_a = TRUE, .transpose_b = transpose_a))
             : rlx_build_matmul (b, x, g, RLX_MATMUL_ATTRS (.transpose_a = !transpose_a));
      if (is_column && dw != NULL)
        dw = rlx_build_shaped (b, rlx_build_sum_to (b, dw, &w->type), node->inputs[1]->type.shape, 1);
      rlx_gradient_add (self, node, 1, dw);
    }
}

void
rlx_matmul_gradient (RlxGradient     *self,
                     const RlxIrNode *node)
{
  const RlxMatmulAttrs *attrs = rlx_matmul_attrs (node);

  add_product_gradients (self, node, rlx_gradient_get (self, node, 0), attrs->transpose_a, attrs->transpose_b);
}

static RlxIrValue *
scaled (RlxBuilder *b,
        RlxIrValue *x,
        double      factor)
{
  return factor == 1.0 ? x : rlx_build_mul (b, x, rlx_build_number (b, x, factor));
}

void
rlx_linear_gradient (RlxGradient     *self,
                     const RlxIrNode *node)
{
  const RlxLinearAttrs *attrs = rlx_linear_attrs (node);
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *g = rlx_gradient_get (self, node, 0);

  add_product_gradients (self, node, scaled (b, g, attrs->alpha), attrs->transpose_a, attrs->transpose_b);
  if (rlx_gradient_wants (self, node, RLX_LINEAR_BIAS))
    rlx_gradient_add (self, node, RLX_LINEAR_BIAS, scaled (b, g, attrs->beta));
}

void
rlx_qkv_linear_gradient (RlxGradient     *self,
                         const RlxIrNode *node)
{
  RlxBuilder *b = rlx_gradient_get_builder (self);
  RlxIrValue *parts[3], *g;

  for (guint i = 0; i < 3; i++)
    parts[i] = rlx_gradient_get_or_zeros (self, node, i);
  g = rlx_build_concat (b, parts, 3, RLX_CONCAT_ATTRS (.axis = -1));
  add_product_gradients (self, node, g, FALSE, rlx_qkv_linear_attrs (node)->transpose_b);
  rlx_gradient_add (self, node, RLX_LINEAR_BIAS, g);
}

/* ---- lowerings ------------------------------------------------------------------ */

static void
swap (guint64 *a,
      guint64 *b)
{
  guint64 c = *a;

  *a = *b;
  *b = c;
}

static void
set_matrix_a (RlxProduct         *product,
              const RlxIrValue   *a,
              gboolean            transpose)
{
  const RlxTensorType *type = &a->type;
  guint64 cols = type->shape[type->n_dims - 1];

  product->a = a;
  product->m = type->n_dims > 1 ? type->shape[type->n_dims - 2] : 1;
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
set_matrix_b (RlxProduct         *product,
              const RlxIrValue   *b,
              gboolean            transpose)
{
  const RlxTensorType *type = &b->type;

  product->b = b;
  product->n = type->n_dims > 1 ? type->shape[type->n_dims - (transpose ? 2 : 1)] : 1;
  product->b_k = transpose ? 1 : product->n;
  product->b_n = transpose ? product->k : 1;
}

/* The size of a dimension counted from the end, after the last one and @skip others; 1 if
 * there is none. */
static guint64
dim_from_end (const RlxTensorType *type,
              guint                skip,
              guint                index)
{
  return skip + index < type->n_dims ? type->shape[type->n_dims - 1 - skip - index] : 1;
}

gboolean
rlx_matmul_lower (RlxLower        *lower,
                  const RlxIrNode *node,
                  GError         **error)
{
  const RlxMatmulAttrs *attrs = rlx_matmul_attrs (node);
  const RlxTensorType *a = &node->inputs[0]->type;
  const RlxTensorType *b = &node->inputs[1]->type;
  RlxProduct product = { .y = { &node->outputs[0] }, .alpha = 1.0, .beta = 1.0 };
  guint64 a_stride, b_stride;

  if (rlx_type_n_elements (&node->outputs[0].type) == 0)
    return TRUE;

  set_matrix_a (&product, node->inputs[0], attrs->transpose_a);
  set_matrix_b (&product, node->inputs[1], attrs->transpose_b);

  a_stride = product.m * product.k;
  b_stride = product.k * product.n;
  for (guint i = 0; i + 2 < MAX (a->n_dims, b->n_dims); i++)
    {
      guint64 dim_a = dim_from_end (a, 2, i);
      guint64 dim_b = dim_from_end (b, 2, i);

      rlx_product_loop_add (&product.batch, MAX (dim_a, dim_b), dim_a == 1 ? 0 : a_stride, dim_b == 1 ? 0 : b_stride);
      a_stride *= dim_a;
      b_stride *= dim_b;
    }

  /* A stack of matrices times one matrix is one taller matrix. */
  if (product.batch.n_dims == 1 &&
      product.batch.strides[0][0] == product.m * product.a_m &&
      product.batch.strides[1][0] == 0)
    {
      product.m *= product.batch.shape[0];
      product.batch.n_dims = 0;
    }

  return rlx_lower_product (lower, node, &product, error);
}

gboolean
rlx_linear_lower (RlxLower        *lower,
                  const RlxIrNode *node,
                  GError         **error)
{
  const RlxLinearAttrs *attrs = rlx_linear_attrs (node);
  const RlxTensorType *type = &node->outputs[0].type;
  RlxProduct product = {
    .y = { &node->outputs[0] },
    .alpha = attrs->alpha,
    .beta = attrs->beta,
  };
  guint64 n_elements = rlx_type_n_elements (type);

  if (n_elements == 0)
    return TRUE;

  set_matrix_a (&product, node->inputs[0], attrs->transpose_a);
  set_matrix_b (&product, node->inputs[1], attrs->transpose_b);
  product.m = n_elements / product.n;

  product.bias = node->inputs[RLX_LINEAR_BIAS];
  if (product.bias != NULL)
    {
      const RlxTensorType *bias = &product.bias->type;
      guint64 stride = dim_from_end (bias, 0, 0);

      product.bias_n = stride == 1 ? 0 : 1;
      for (guint i = 0; i + 1 < type->n_dims; i++)
        {
          guint64 dim = dim_from_end (bias, 1, i);

          rlx_product_loop_add (&product.rows, dim_from_end (type, 1, i), dim == 1 ? 0 : stride, 0);
          stride *= dim;
        }
      if (product.rows.n_dims == 1 && product.rows.strides[0][0] == 0)
        product.rows.n_dims = 0;
    }

  return rlx_lower_product (lower, node, &product, error);
}

gboolean
rlx_qkv_linear_lower (RlxLower        *lower,
                      const RlxIrNode *node,
                      GError         **error)
{
  RlxProduct product = {
    .n_outputs = node->n_outputs,
    .bias = node->inputs[RLX_QKV_LINEAR_BIAS],
    .bias_n = 1,
    .alpha = 1.0,
    .beta = 1.0,
  };
  guint64 n_elements = rlx_type_n_elements (&node->outputs[0].type);

  if (n_elements == 0)
    return TRUE;

  set_matrix_a (&product, node->inputs[0], FALSE);
  set_matrix_b (&product, node->inputs[1], rlx_qkv_linear_attrs (node)->transpose_b);
  for (guint i = 0; i < node->n_outputs; i++)
    {
      product.y[i] = &node->outputs[i];
      product.widths[i] = (guint64) node->outputs[i].type.shape[node->outputs[i].type.n_dims - 1];
    }
  product.m = n_elements / product.widths[0];
  return rlx_lower_product (lower, node, &product, error);
}

/* ---- products that share an operand ------------------------------------------------ */

/* A single dispatch, if the weights can be stored side by side. */
static gboolean
lower_joined (RlxLower        *lower,
              const RlxIrNode *node,
              gboolean         transpose_b,
              gboolean        *done,
              GError         **error)
{
  RlxProduct product = { .n_outputs = node->n_outputs, .alpha = 1.0, .beta = 1.0, .bias_n = 1, .packed = TRUE };
  const RlxIrValue *const *weights, *const *biases;
  guint n = node->n_outputs;

  *done = FALSE;
  /* Matrix units need separate weights: one may be cast to f16 while another is not. */
  if (!rlx_product_can_be_packed (rlx_lower_get_target (lower)) || rlx_product_has_matrix (lower))
    return TRUE;

  set_matrix_a (&product, node->inputs[0], FALSE);
  for (guint i = 0; i < n; i++)
    {
      const RlxTensorType *type = &node->outputs[i].type;

      product.y[i] = &node->outputs[i];
      product.widths[i] = (guint64) type->shape[type->n_dims - 1];
      product.n += product.widths[i];
      product.m = rlx_type_n_elements (type) / product.widths[i];
    }
  weights = (const RlxIrValue *const *) node->inputs + 1;
  biases = node->n_inputs > 1 + n ? weights + n : NULL;
  if (!rlx_lower_can_join_weights (lower, weights, n, product.k, product.widths, RLX_PRODUCT_PANEL) ||
      (biases != NULL && !rlx_lower_can_join_weights (lower, biases, n, 1, product.widths, RLX_PRODUCT_PANEL)))
    return TRUE;

  product.b = rlx_lower_join_weights (lower, weights, n, product.k, product.widths, transpose_b, RLX_PRODUCT_PANEL);
  if (biases != NULL)
    product.bias = rlx_lower_join_weights (lower, biases, n, 1, product.widths, FALSE, RLX_PRODUCT_PANEL);
  *done = TRUE;
  return rlx_lower_product (lower, node, &product, error);
}

gboolean
rlx_joint_linear_lower (RlxLower        *lower,
                        const RlxIrNode *node,
                        GError         **error)
{
  gboolean transpose_b = rlx_ir_node_is (node, RLX_OP_ID_JOINT_LINEAR_TRANSPOSED);
  guint n = node->n_outputs;
  gboolean done;

  if (!lower_joined (lower, node, transpose_b, &done, error))
    return FALSE;
  for (guint i = 0; !done && i < n; i++)
    {
      const RlxTensorType *type = &node->outputs[i].type;
      RlxProduct product = {
        .y = { &node->outputs[i] },
        .bias = node->n_inputs > 1 + n ? node->inputs[1 + n + i] : NULL,
        .bias_n = 1,
        .alpha = 1.0,
        .beta = 1.0,
      };

      set_matrix_a (&product, node->inputs[0], FALSE);
      set_matrix_b (&product, node->inputs[1 + i], transpose_b);
      product.m = rlx_type_n_elements (type) / product.n;
      if (!rlx_lower_product (lower, node, &product, error))
        return FALSE;
    }
  return TRUE;
}
