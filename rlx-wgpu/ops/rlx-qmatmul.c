/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Products of quantised matrices: bytes are multiplied and added as integers.
 */
#include "config.h"

#include "ops/rlx-index-private.h"

#define TILE 16

gboolean rlx_qmatmul_infer (RlxOpCall *call, GError **error);
gboolean rlx_qmatmul_lower (RlxLower *lower, const RlxIrNode *node, GError **error);

/* Whether @zero broadcasts to @type with size 1 along @axis, which is summed over. */
static gboolean
check_zero (RlxOpCall           *call,
            const RlxTensorType *zero,
            const RlxTensorType *operand,
            guint                axis,
            GError             **error)
{
  RlxTensorType wanted = *operand, joined;
  g_autofree char *text = NULL;

  if (zero == NULL)
    return TRUE;
  wanted.dims[axis] = 1;
  if (rlx_shape_broadcast (&wanted, zero, &joined) && rlx_type_same_shape (&wanted, &joined))
    return TRUE;
  text = rlx_type_to_string (zero);
  return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                         "the zero point %s is not for the rows or columns of its operand", text);
}

gboolean
rlx_qmatmul_infer (RlxOpCall *call,
                   GError   **error)
{
  const RlxTensorType *a = call->inputs[0], *b = call->inputs[1];
  RlxTensorType stack_a = *a, stack_b = *b, type = { 0 };

  if (a->rank < 2 || b->rank < 2)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "the operands have %u and %u dimensions, they need at least 2", a->rank, b->rank);
  if (a->dims[a->rank - 1] != b->dims[b->rank - 2])
    {
      g_autofree char *text_a = rlx_type_to_string (a);
      g_autofree char *text_b = rlx_type_to_string (b);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the columns of %s and the rows of %s differ", text_a, text_b);
    }
  stack_a.rank -= 2;
  stack_b.rank -= 2;
  if (!rlx_shape_broadcast (&stack_a, &stack_b, &type))
    {
      g_autofree char *text_a = rlx_type_to_string (a);
      g_autofree char *text_b = rlx_type_to_string (b);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                             "the leading dimensions of %s and %s do not broadcast together", text_a, text_b);
    }
  if (!check_zero (call, call->inputs[2], a, a->rank - 1, error) ||
      !check_zero (call, call->inputs[3], b, b->rank - 2, error))
    return FALSE;

  type.dtype = RLX_DATA_TYPE_I32;
  type.dims[type.rank++] = a->dims[a->rank - 2];
  type.dims[type.rank++] = b->dims[b->rank - 1];
  rlx_call_add_output (call, &type);
  return TRUE;
}

/* The distance of @value's elements along the dimension that is @from_end from
 * the last; 0 where it has none or repeats. */
static gint64
get_stride (const RlxIrValue *value,
            guint             from_end)
{
  gint64 strides[RLX_MAX_RANK];
  guint d;

  if (value == NULL || from_end >= value->type.rank)
    return 0;
  d = value->type.rank - 1 - from_end;
  rlx_type_get_strides (&value->type, strides);
  return value->type.dims[d] == 1 ? 0 : strides[d];
}

gboolean
rlx_qmatmul_lower (RlxLower        *lower,
                   const RlxIrNode *node,
                   GError         **error)
{
  const RlxIrValue *a = node->inputs[0], *b = node->inputs[1], *zero_a = node->inputs[2], *zero_b = node->inputs[3];
  const RlxTensorType *y = &node->outputs[0].type;
  guint64 m = (guint64) y->dims[y->rank - 2], n = (guint64) y->dims[y->rank - 1];
  guint64 k = (guint64) a->type.dims[a->type.rank - 1];
  guint64 elements = rlx_type_n_elements (y), tiles_m = (m + TILE - 1) / TILE, tiles_n = (n + TILE - 1) / TILE, groups;
  RlxKernel *kernel;

  if (elements == 0)
    return TRUE;
  groups = elements / (m * n) * tiles_m * tiles_n;
  kernel = rlx_kernel_new (lower, node, "qmatmul");
  rlx_kernel_input (kernel, "a", a);
  rlx_kernel_input (kernel, "b", b);
  if (zero_a != NULL)
    rlx_kernel_input (kernel, "zero_a", zero_a);
  if (zero_b != NULL)
    rlx_kernel_input (kernel, "zero_b", zero_b);
  rlx_kernel_output (kernel, "y", &node->outputs[0]);
  rlx_kernel_define (kernel, "WG", TILE * TILE);
  rlx_kernel_define (kernel, "TILE", TILE);
  rlx_kernel_define (kernel, "RANK", y->rank - 2);
  rlx_kernel_define (kernel, "ZERO_A", zero_a != NULL);
  rlx_kernel_define (kernel, "ZERO_B", zero_b != NULL);
  rlx_kernel_param_u32 (kernel, "groups", groups);
  rlx_kernel_param_u32 (kernel, "m", m);
  rlx_kernel_param_u32 (kernel, "n", n);
  rlx_kernel_param_u32 (kernel, "k", k);
  rlx_kernel_param_u32 (kernel, "tiles_m", tiles_m);
  rlx_kernel_param_u32 (kernel, "tiles_n", tiles_n);
  rlx_kernel_param_u32 (kernel, "za_row", (guint32) get_stride (zero_a, 1));
  rlx_kernel_param_u32 (kernel, "zb_column", (guint32) get_stride (zero_b, 0));
  for (guint i = 0; i + 2 < y->rank; i++)
    {
      rlx_kernel_param_indexed (kernel, "dim", i, y->dims[y->rank - 3 - i]);
      rlx_kernel_param_indexed (kernel, "a", i, get_stride (a, i + 2));
      rlx_kernel_param_indexed (kernel, "b", i, get_stride (b, i + 2));
      rlx_kernel_param_indexed (kernel, "za", i, get_stride (zero_a, i + 2));
      rlx_kernel_param_indexed (kernel, "zb", i, get_stride (zero_b, i + 2));
    }
  rlx_kernel_set_cost (kernel, 2.0 * (double) elements * (double) k,
                       (double) rlx_type_n_bytes (&a->type) + (double) rlx_type_n_bytes (&b->type) + 4.0 * (double) elements);
  return rlx_kernel_dispatch (kernel, groups, error);
}
