/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Products of quantised matrices: bytes are multiplied and added as integers.
 */
#include "config.h"

#include "ops/rlx-product-private.h"
#include "ops/rlx-quantize-private.h"

#define WORKGROUP_SIZE 64
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

/* The distance of @value's elements along the dimension that is @from_end from
 * the last; 0 where it has none or repeats. */
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

gboolean
rlx_qmatmul_lower (RlxLower        *lower,
                   const RlxIrNode *node,
                   GError         **error)
{
  const RlxTarget *target = rlx_lower_get_target (lower);
  const RlxIrValue *a = node->inputs[0], *b = node->inputs[1];
  const RlxIrValue *zero_a = rlx_ir_node_get_zero (node, RLX_QMATMUL_ZERO_A), *zero_b = rlx_ir_node_get_zero (node, RLX_QMATMUL_ZERO_B);
  const RlxTensorType *type = &node->outputs[0].type;
  const RlxIrValue *y;
  gboolean transposed = rlx_qmatmul_attrs (node)->transpose_b;
  guint64 m = (guint64) type->shape[type->n_dims - 2], n = (guint64) type->shape[type->n_dims - 1];
  guint64 k = (guint64) a->type.shape[a->type.n_dims - 1];
  guint64 elements = rlx_type_n_elements (type), stacks, groups;
  guint n_dims = type->n_dims - 2;
  gboolean split, packed;
  RlxPackedDot dot;
  RlxKernel *kernel;

  if (elements == 0)
    return TRUE;

  /* A stack of matrices times one matrix is one taller matrix. */
  stacks = elements / (m * n);
  if (rlx_type_n_elements (&b->type) == k * n && rlx_type_n_elements (&a->type) == stacks * m * k &&
      (zero_a == NULL || rlx_type_n_elements (&zero_a->type) == 1))
    {
      m *= stacks;
      stacks = 1;
      n_dims = 0;
    }

  split = k >= 256 && elements <= target->busy_invocations;
  packed = (target->features & RLX_DEVICE_FEATURES_PACKED_DOT) && !split &&
           k % 4 == 0 && k > 0 && (transposed || n % 4 == 0);
  rlx_packed_dot_init (&dot, a->type.data_type, b->type.data_type);

  kernel = rlx_kernel_new (lower, node, "qmatmul");
  rlx_requantize_describe (kernel, lower, node, FIRST_INPUT, &y);
  rlx_kernel_define (kernel, "PRODUCT", k > 0);
  if (k > 0)
    {
      rlx_kernel_input (kernel, "a", a);
      rlx_kernel_input (kernel, "b", b);
    }
  if (zero_a != NULL)
    rlx_kernel_input (kernel, "zero_a", zero_a);
  if (zero_b != NULL)
    rlx_kernel_input (kernel, "zero_b", zero_b);
  rlx_kernel_define (kernel, "RANK", n_dims);
  rlx_kernel_define (kernel, "ZERO_A", zero_a != NULL);
  rlx_kernel_define (kernel, "ZERO_B", zero_b != NULL);
  rlx_kernel_define (kernel, "SPLIT", split);
  rlx_kernel_param_u32 (kernel, "m", m);
  rlx_kernel_param_u32 (kernel, "n", n);
  rlx_kernel_param_u32 (kernel, "k", k);
  rlx_kernel_param_u32 (kernel, "b_k", transposed ? 1 : n);
  rlx_kernel_param_u32 (kernel, "b_n", transposed ? k : 1);
  rlx_kernel_param_u32 (kernel, "za_row", (guint32) get_stride (zero_a, 1));
  rlx_kernel_param_u32 (kernel, "zb_column", (guint32) get_stride (zero_b, transposed ? 1 : 0));
  for (guint i = 0; i < n_dims; i++)
    {
      rlx_kernel_param_indexed (kernel, "dim", i, type->shape[type->n_dims - 3 - i]);
      rlx_kernel_param_indexed (kernel, "a", i, get_stride (a, i + 2));
      rlx_kernel_param_indexed (kernel, "b", i, get_stride (b, i + 2));
      rlx_kernel_param_indexed (kernel, "za", i, get_stride (zero_a, i + 2));
      rlx_kernel_param_indexed (kernel, "zb", i, get_stride (zero_b, i + 2));
    }

  if (split)
    {
      rlx_kernel_define (kernel, "WG", k >= 4096 ? 256 : WORKGROUP_SIZE);
      groups = elements;
    }
  else
    {
      /* More rows per load of `b`, when the longer compilation pays. */
      guint64 tile = m == 1 ? 1 : m <= 4 || elements * k < 1 << 22 ? 4 : 8, lanes = 1, tiles_m, tiles_n;
      gboolean shuffle;

      while (lanes < WORKGROUP_SIZE && lanes * 4 < n)
        lanes *= 2;
      shuffle = packed && m > 1 && lanes >= 8 && rlx_product_has_shuffles (target);
      if (shuffle)
        rlx_kernel_enable (kernel, "enable subgroups;");
      rlx_kernel_define (kernel, "SHUFFLE", shuffle);
      tiles_n = (n - 1) / (lanes * 4) + 1;
      tiles_m = (m - 1) / (tile * (WORKGROUP_SIZE / lanes)) + 1;
      rlx_kernel_define (kernel, "WG", WORKGROUP_SIZE);
      rlx_kernel_define (kernel, "TM", (gint64) tile);
      rlx_kernel_define (kernel, "PACKED", packed);
      rlx_kernel_define (kernel, "TRANSPOSED", transposed);
      rlx_kernel_define_text (kernel, "DOT", dot.function);
      rlx_kernel_define (kernel, "FLIP_A", dot.flip_a);
      rlx_kernel_define (kernel, "FLIP_B", dot.flip_b);
      rlx_kernel_define (kernel, "OFFSET_A", zero_a != NULL || dot.flip_a);
      rlx_kernel_define (kernel, "OFFSET_B", zero_b != NULL || dot.flip_b);
      rlx_kernel_define (kernel, "WORDS", rlx_data_type_get_bits (y->type.data_type) == 8 && n % 4 == 0);
      rlx_kernel_param_u32 (kernel, "lanes", lanes);
      rlx_kernel_param_u32 (kernel, "tiles_m", tiles_m);
      rlx_kernel_param_u32 (kernel, "tiles_n", tiles_n);
      groups = stacks * tiles_m * tiles_n;
    }
  rlx_kernel_param_u32 (kernel, "groups", groups);
  rlx_kernel_set_cost (kernel, 2.0 * (double) elements * (double) k,
                       (double) rlx_type_n_bytes (&a->type) + (double) rlx_type_n_bytes (&b->type) +
                       (double) rlx_type_n_bytes (&y->type));
  return rlx_kernel_dispatch (kernel, groups, error) &&
         rlx_requantize_finish (lower, node, FIRST_INPUT, y, error);
}
