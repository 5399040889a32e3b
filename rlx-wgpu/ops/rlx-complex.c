/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Complex numbers: pairs of floats along the last dimension. Everything is expressed as
 * element-wise operators that read their operands through views, so that it becomes a single
 * fused region.
 */
#include "config.h"

#include "ops/rlx-builder-private.h"

#include <string.h>

/* ---- rules ---------------------------------------------------------------------- */

static gboolean
check_pairs (const RlxOpCall *call,
             guint            index,
             GError         **error)
{
  const RlxTensorType *x = call->inputs[index];
  g_autofree char *text = NULL;

  if (x->n_dims > 0 && x->shape[x->n_dims - 1] == 2)
    return TRUE;

  text = rlx_type_to_string (x);
  return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                         "the %s is %s, complex numbers have a last dimension of 2",
                         index == 0 ? "first operand" : call->op->inputs[index].name, text);
}

static gboolean
check_broadcast (const RlxOpCall *call,
                 RlxTensorType   *type,
                 GError         **error)
{
  *type = *call->inputs[0];
  if (!rlx_shape_broadcast (call->inputs[0], call->inputs[1], type))
    {
      g_autofree char *text_a = rlx_type_to_string (call->inputs[0]);
      g_autofree char *text_b = rlx_type_to_string (call->inputs[1]);

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "%s and %s do not broadcast together", text_a, text_b);
    }
  return TRUE;
}

gboolean
rlx_complex_infer (RlxOpCall *call,
                   GError   **error)
{
  RlxTensorType type;

  if (!check_broadcast (call, &type, error))
    return FALSE;
  if (type.n_dims == RLX_MAX_DIMS)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                           "the parts have %u dimensions, with one more that is beyond the limit of %u",
                           type.n_dims, RLX_MAX_DIMS);
  type.shape[type.n_dims++] = 2;
  rlx_call_add_output (call, &type);
  return TRUE;
}

gboolean
rlx_complex_part_infer (RlxOpCall *call,
                        GError   **error)
{
  RlxTensorType type = *call->inputs[0];

  if (!check_pairs (call, 0, error))
    return FALSE;
  type.n_dims--;
  rlx_call_add_output (call, &type);
  return TRUE;
}

gboolean
rlx_conj_infer (RlxOpCall *call,
                GError   **error)
{
  if (!check_pairs (call, 0, error))
    return FALSE;
  rlx_call_add_output (call, call->inputs[0]);
  return TRUE;
}

gboolean
rlx_complex_mul_infer (RlxOpCall *call,
                       GError   **error)
{
  RlxTensorType type;

  if (!check_pairs (call, 0, error) || !check_pairs (call, 1, error) || !check_broadcast (call, &type, error))
    return FALSE;
  rlx_call_add_output (call, &type);
  return TRUE;
}

/* ---- building blocks -------------------------------------------------------------- */

/* [-1, 1] */
static RlxIrValue *
signs (RlxBuilder *b)
{
  return rlx_build_constant (b, rlx_tensor_new_from_floats ((gint64[]) { 2 }, 1, (const float[]) { -1, 1 }, 2, NULL));
}

/* [true, false] */
static RlxIrValue *
first_of_two (RlxBuilder *b)
{
  return rlx_build_constant (b, rlx_tensor_new_from_ints (RLX_DATA_TYPE_BOOL, (gint64[]) { 2 }, 1, (const gint64[]) { 1, 0 }, 2, NULL));
}

/* x[…, part : part + 1] */
static RlxIrValue *
take_part (RlxBuilder *b,
           RlxIrValue *x,
           gint64      part)
{
  gint64 axis = -1, end = part + 1;

  return rlx_build_slice (b, x, RLX_SLICE_ATTRS (.starts = RLX_INTS (&part, 1), .ends = RLX_INTS (&end, 1),
                                                 .axes = RLX_INTS (&axis, 1)));
}

/* Sums of f16 products are computed in f32. */
static RlxIrValue *
widen (RlxBuilder *b,
       RlxIrValue *x)
{
  return rlx_build_as (b, x, RLX_DATA_TYPE_F32);
}

static RlxIrValue *
add_last_dimension (RlxBuilder *b,
                    RlxIrValue *x)
{
  gint64 shape[RLX_MAX_DIMS];

  memcpy (shape, x->type.shape, x->type.n_dims * sizeof (gint64));
  shape[x->type.n_dims] = 1;
  return rlx_build_reshape (b, x, RLX_RESHAPE_ATTRS (.shape = RLX_INTS (shape, x->type.n_dims + 1)));
}

RlxIrValue *
rlx_complex_expand (RlxBuilder        *b,
                    const RlxIrNode   *node,
                    RlxIrValue *const *inputs)
{
  RlxIrValue *real = add_last_dimension (b, inputs[RLX_COMPLEX_SELF]);
  RlxIrValue *imaginary = add_last_dimension (b, inputs[RLX_COMPLEX_IMAGINARY]);

  return rlx_build_where (b, first_of_two (b), real, imaginary);
}

RlxIrValue *
rlx_complex_part_expand (RlxBuilder        *b,
                         const RlxIrNode   *node,
                         RlxIrValue *const *inputs)
{
  const RlxTensorType *type = &node->outputs[0].type;
  RlxIrValue *x = inputs[0], *y;

  if (rlx_ir_node_is (node, RLX_OP_ID_ABS_SQUARED))
    {
      RlxIrValue *real, *imaginary;

      x = widen (b, x);
      real = take_part (b, x, 0);
      imaginary = take_part (b, x, 1);
      real = rlx_build_mul (b, real, real);
      imaginary = rlx_build_mul (b, imaginary, imaginary);
      y = rlx_build_as (b, rlx_build_add (b, real, imaginary), type->data_type);
    }
  else
    {
      y = take_part (b, x, rlx_ir_node_is (node, RLX_OP_ID_IMAG));
    }
  return rlx_build_reshape (b, y, RLX_RESHAPE_ATTRS (.shape = RLX_INTS (type->shape, type->n_dims)));
}

RlxIrValue *
rlx_conj_expand (RlxBuilder        *b,
                 const RlxIrNode   *node,
                 RlxIrValue *const *inputs)
{
  /* not a product with 1 and -1, which might take subnormals for zero */
  return rlx_build_where (b, first_of_two (b), inputs[0], rlx_build_neg (b, inputs[0]));
}

/* a₀ [b₀, b₁] + a₁ [-b₁, b₀] */
RlxIrValue *
rlx_complex_mul_expand (RlxBuilder        *b,
                        const RlxIrNode   *node,
                        RlxIrValue *const *inputs)
{
  RlxIrValue *x = widen (b, inputs[RLX_COMPLEX_MUL_SELF]);
  RlxIrValue *y = widen (b, inputs[RLX_COMPLEX_MUL_OTHER]);
  RlxIrValue *sign = signs (b);
  RlxIrValue *first = rlx_build_mul (b, take_part (b, x, 0), y);
  gint64 axis = -1;
  RlxIrValue *reversed = rlx_build_reverse (b, y, RLX_REVERSE_ATTRS (.axes = RLX_INTS (&axis, 1)));
  RlxIrValue *second = rlx_build_mul (b, take_part (b, x, 1), reversed);

  /* Last, so that no intermediate value is smaller than the result. */
  second = rlx_build_mul (b, second, sign);
  return rlx_build_as (b, rlx_build_add (b, first, second), node->outputs[0].type.data_type);
}
