/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Products of matrices.
 */
#include "config.h"
#include "rlx-reference-private.h"

#include <math.h>

/* Σ over k of a[…, row, k] · b[…, k, column], where the operands are stacks of matrices
 * that broadcast to @index, the leading part of an index. */
typedef struct
{
  const RlxReferenceValue *a;
  const RlxReferenceValue *b;
  gboolean transpose_a;
  gboolean transpose_b;
  gint64 k;
  const RlxReferenceCall *call;
} Product;

typedef struct
{
  double sum;
  RlxReferenceSize size;
  double error;   /* from the errors of the operands */
} Dot;

/* The offset of the matrix of @value for the stack's @index. */
static gsize
find_matrix (const RlxReferenceValue *value,
             const gint64            *index,
             gsize                    n_index)
{
  RlxReferenceValue stack = *value;
  gsize n = 1;

  if (value->n_dims <= 2)
    return 0;
  stack.n_dims -= 2;
  for (gsize i = stack.n_dims; i < value->n_dims; i++)
    n *= (gsize) value->shape[i];

  return rlx_reference_position (&stack, index, n_index) * n;
}

static Dot
multiply (const Product *product,
          const gint64  *index,
          gsize          n_index,
          gint64         row,
          gint64         column)
{
  const RlxReferenceValue *a = product->a, *b = product->b;
  gsize first_a = find_matrix (a, index, n_index), first_b = find_matrix (b, index, n_index);
  gint64 width_a = a->shape[a->n_dims - 1];
  gint64 width_b = b->n_dims > 1 ? b->shape[b->n_dims - 1] : 1;
  Dot dot = { 0, { 0, 0 }, 0 };

  for (gint64 k = 0; k < product->k; k++)
    {
      gsize i = first_a + (gsize) (product->transpose_a ? k * width_a + row : row * width_a + k);
      gsize j = first_b + (gsize) (product->transpose_b ? column * width_b + k : k * width_b + column);

      double bound_a = rlx_reference_operand_bound (product->call, a, i), bound_b = rlx_reference_operand_bound (product->call, b, j);

      dot.sum += a->values[i] * b->values[j];
      rlx_reference_size_add (&dot.size, a->values[i] * b->values[j]);
      if (bound_a > 0)
        dot.error += bound_a * (fabs (b->values[j]) + bound_b);
      if (bound_b > 0)
        dot.error += bound_b * fabs (a->values[i]);
    }

  return dot;
}

static void
matmul (RlxReferenceCall *call)
{
  const RlxReferenceValue *a = call->inputs[0], *b = call->inputs[1];
  RlxReferenceValue *y = call->output;
  gsize n_matrix = (a->n_dims > 1) + (b->n_dims > 1);
  gint64 index[RLX_MAX_DIMS] = { 0, };
  gsize at = 0;
  Product product = {
    .a = a,
    .b = b,
    .call = call,
    .transpose_a = rlx_reference_get_bool (call, "transpose_a"),
    .transpose_b = rlx_reference_get_bool (call, "transpose_b"),
  };

  if (y->n_elements == 0)
    return;

  product.k = a->shape[a->n_dims - (product.transpose_a ? 2 : 1)];
  do
    {
      gint64 row = a->n_dims > 1 ? index[y->n_dims - n_matrix] : 0;
      gint64 column = b->n_dims > 1 ? index[y->n_dims - 1] : 0;
      Dot dot = multiply (&product, index, y->n_dims - n_matrix, row, column);

      y->values[at] = dot.sum;
      y->bounds[at] = rlx_reference_sum_bound (&dot.size, dot.error, (double) product.k);
      at++;
    }
  while (rlx_reference_next (index, y->shape, y->n_dims));
}

static void
linear (RlxReferenceCall *call)
{
  const RlxReferenceValue *a = call->inputs[0];
  const RlxReferenceValue *bias = rlx_reference_get_input (call, 2);
  RlxReferenceValue *y = call->output;
  double alpha = rlx_reference_get_float (call, "alpha"), beta = rlx_reference_get_float (call, "beta");
  gint64 index[RLX_MAX_DIMS] = { 0, };
  RlxReferenceValue rows = *a;
  gsize at = 0;
  Product product = {
    .a = &rows,
    .b = call->inputs[1],
    .call = call,
    .transpose_a = rlx_reference_get_bool (call, "transpose_a"),
    .transpose_b = rlx_reference_get_bool (call, "transpose_b"),
  };

  if (y->n_elements == 0)
    return;

  product.k = a->shape[a->n_dims - (product.transpose_a ? 2 : 1)];
  /* All leading dimensions are rows. */
  rows.n_dims = 2;
  rows.shape[1] = a->shape[a->n_dims - 1];
  rows.shape[0] = (gint64) y->n_elements / y->shape[y->n_dims - 1];
  do
    {
      gint64 columns = y->shape[y->n_dims - 1];
      Dot dot = multiply (&product, NULL, 0, (gint64) at / columns, (gint64) at % columns);

      y->values[at] = alpha * dot.sum;
      y->bounds[at] = fabs (alpha) * rlx_reference_sum_bound (&dot.size, dot.error, (double) product.k);
      if (bias != NULL)
        {
          gsize i = rlx_reference_position (bias, index, y->n_dims);

          y->values[at] += beta * bias->values[i];
          if (isfinite (bias->values[i]))
            y->bounds[at] += 0x1p-23 * fabs (beta * bias->values[i]);
          y->bounds[at] += fabs (beta) * bias->bounds[i];
        }
      at++;
    }
  while (rlx_reference_next (index, y->shape, y->n_dims));
}

static void
qkv_linear (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0];
  const RlxReferenceValue *bias = rlx_reference_get_input (call, 2);
  RlxReferenceValue *y = call->output;
  RlxReferenceValue rows = *x;
  gint64 first = 0, columns;
  Product product = {
    .a = &rows,
    .b = call->inputs[1],
    .call = call,
    .transpose_b = rlx_reference_get_bool (call, "transpose_b"),
    .k = x->shape[x->n_dims - 1],
  };

  if (y->n_elements == 0)
    return;

  if (call->result > 0)
    first += rlx_reference_get_int (call, "query_size");
  if (call->result > 1)
    first += rlx_reference_get_int (call, "key_size");
  columns = y->shape[y->n_dims - 1];
  rows.n_dims = 2;
  rows.shape[0] = (gint64) y->n_elements / columns;
  rows.shape[1] = product.k;
  for (gsize i = 0; i < y->n_elements; i++)
    {
      gint64 column = first + (gint64) i % columns;
      Dot dot = multiply (&product, NULL, 0, (gint64) i / columns, column);

      y->values[i] = dot.sum;
      y->bounds[i] = rlx_reference_sum_bound (&dot.size, dot.error, (double) product.k);
      if (bias != NULL)
        {
          y->values[i] += bias->values[column];
          y->bounds[i] += bias->bounds[column] + (isfinite (bias->values[column]) ? 0x1p-23 * fabs (bias->values[column]) : 0);
        }
    }
}

const RlxReferenceRow rlx_reference_linear[] = {
  { "matmul", matmul },
  { "linear", linear },
  { "qkv_linear", qkv_linear },
  { NULL, NULL },
};
