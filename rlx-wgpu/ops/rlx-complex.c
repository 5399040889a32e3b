/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Complex numbers: pairs of floats along the last dimension. Everything is
 * written so that it is one region of element-wise operators that read their
 * operands through views.
 */
#include "config.h"

#include "ops/rlx-expand-private.h"

#include <string.h>

gboolean    rlx_complex_infer        (RlxOpCall *call, GError **error);
RlxIrValue *rlx_complex_expand       (RlxExpand *expand, GError **error);
gboolean    rlx_complex_part_infer   (RlxOpCall *call, GError **error);
RlxIrValue *rlx_complex_part_expand  (RlxExpand *expand, GError **error);
gboolean    rlx_conj_infer           (RlxOpCall *call, GError **error);
RlxIrValue *rlx_conj_expand          (RlxExpand *expand, GError **error);
gboolean    rlx_complex_mul_infer    (RlxOpCall *call, GError **error);
RlxIrValue *rlx_complex_mul_expand   (RlxExpand *expand, GError **error);

/* ---- rules ---------------------------------------------------------------------- */

static gboolean
check_pairs (const RlxOpCall *call,
             guint            index,
             GError         **error)
{
  const RlxTensorType *x = call->inputs[index];
  g_autofree char *text = NULL;

  if (x->rank > 0 && x->dims[x->rank - 1] == 2)
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
  if (type.rank == RLX_MAX_RANK)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                           "the parts have %u dimensions, with one more that is beyond the limit of %u",
                           type.rank, RLX_MAX_RANK);
  type.dims[type.rank++] = 2;
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
  type.rank--;
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

/* ---- what they are made of ------------------------------------------------------- */

static RlxIrValue *
append_constant (RlxExpand *expand,
                 RlxTensor *tensor,
                 RlxDataType dtype)
{
  RlxTensorType type = { .dtype = dtype, .rank = 1, .dims = { 2 } };
  RlxIrNode *node = rlx_ir_append (expand->ir, &rlx_op_constant, NULL, NULL, 0, &type, 1);

  node->origin = expand->node->origin;
  node->data = tensor;
  return &node->outputs[0];
}

/* [first, second], of the float type of the operands. */
static RlxIrValue *
signs (RlxExpand  *expand,
       RlxDataType dtype,
       float       first,
       float       second,
       GError    **error)
{
  const float values[] = { first, second };
  RlxTensor *tensor = rlx_tensor_new_from_floats ((gint64[]) { 2 }, 1, values, 2, error);
  RlxIrValue *value;

  if (tensor == NULL)
    return NULL;
  value = append_constant (expand, tensor, RLX_DATA_TYPE_F32);
  return dtype == RLX_DATA_TYPE_F32 ? value : rlx_expand_cast (expand, value, dtype, error);
}

/* [true, false] */
static RlxIrValue *
first_of_two (RlxExpand *expand,
              GError   **error)
{
  RlxTensor *tensor = rlx_tensor_new_from_ints (RLX_DATA_TYPE_BOOL, (gint64[]) { 2 }, 1, (const gint64[]) { 1, 0 }, 2, error);

  return tensor != NULL ? append_constant (expand, tensor, RLX_DATA_TYPE_BOOL) : NULL;
}

/* x[…, part : part + 1] */
static RlxIrValue *
take_part (RlxExpand  *expand,
           RlxIrValue *x,
           gint64      part,
           GError    **error)
{
  gint64 axis = x != NULL ? (gint64) x->type.rank - 1 : 0, end = part + 1;
  GVariantDict dict;

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert_value (&dict, "starts", g_variant_new_fixed_array (G_VARIANT_TYPE_INT64, &part, 1, sizeof (gint64)));
  g_variant_dict_insert_value (&dict, "ends", g_variant_new_fixed_array (G_VARIANT_TYPE_INT64, &end, 1, sizeof (gint64)));
  g_variant_dict_insert_value (&dict, "axes", g_variant_new_fixed_array (G_VARIANT_TYPE_INT64, &axis, 1, sizeof (gint64)));
  return rlx_expand_op (expand, "slice", &x, 1, g_variant_dict_end (&dict), error);
}

static RlxIrValue *
join (RlxExpand  *expand,
      const char *op,
      RlxIrValue *a,
      RlxIrValue *b,
      GError    **error)
{
  return rlx_expand_op (expand, op, (RlxIrValue *[]) { a, b }, 2, NULL, error);
}

/* Sums of f16 products are made in f32. */
static RlxIrValue *
widen (RlxExpand  *expand,
       RlxIrValue *x,
       GError    **error)
{
  return x->type.dtype == RLX_DATA_TYPE_F16 ? rlx_expand_cast (expand, x, RLX_DATA_TYPE_F32, error) : x;
}

static RlxIrValue *
narrow (RlxExpand  *expand,
        RlxIrValue *y,
        GError    **error)
{
  RlxDataType dtype = expand->node->outputs[0].type.dtype;

  return y == NULL || y->type.dtype == dtype ? y : rlx_expand_cast (expand, y, dtype, error);
}

static RlxIrValue *
reshape (RlxExpand    *expand,
         RlxIrValue   *x,
         const gint64 *dims,
         guint         rank,
         GError      **error)
{
  return x != NULL ? rlx_expand_ints (expand, "reshape", x, "shape", dims, rank, error) : NULL;
}

static RlxIrValue *
add_last_dimension (RlxExpand  *expand,
                    RlxIrValue *x,
                    GError    **error)
{
  gint64 dims[RLX_MAX_RANK];

  memcpy (dims, x->type.dims, x->type.rank * sizeof (gint64));
  dims[x->type.rank] = 1;
  return reshape (expand, x, dims, x->type.rank + 1, error);
}

RlxIrValue *
rlx_complex_expand (RlxExpand *expand,
                    GError   **error)
{
  RlxIrValue *parts[3];

  parts[0] = first_of_two (expand, error);
  parts[1] = parts[0] != NULL ? add_last_dimension (expand, expand->inputs[0], error) : NULL;
  parts[2] = parts[1] != NULL ? add_last_dimension (expand, expand->inputs[1], error) : NULL;
  return rlx_expand_op (expand, "where", parts, 3, NULL, error);
}

RlxIrValue *
rlx_complex_part_expand (RlxExpand *expand,
                         GError   **error)
{
  const RlxTensorType *type = &expand->node->outputs[0].type;
  const char *name = expand->node->op->name;
  RlxIrValue *x = expand->inputs[0];
  RlxIrValue *y, *other;

  if (strcmp (name, "abs_squared") != 0)
    {
      y = take_part (expand, x, strcmp (name, "imag") == 0, error);
    }
  else
    {
      x = widen (expand, x, error);
      y = x != NULL ? take_part (expand, x, 0, error) : NULL;
      other = y != NULL ? take_part (expand, x, 1, error) : NULL;
      y = other != NULL ? join (expand, "mul", y, y, error) : NULL;
      other = y != NULL ? join (expand, "mul", other, other, error) : NULL;
      y = narrow (expand, other != NULL ? join (expand, "add", y, other, error) : NULL, error);
    }
  return reshape (expand, y, type->dims, type->rank, error);
}

RlxIrValue *
rlx_conj_expand (RlxExpand *expand,
                 GError   **error)
{
  RlxIrValue *x = expand->inputs[0];
  RlxIrValue *sign = signs (expand, x->type.dtype, 1, -1, error);

  return sign != NULL ? join (expand, "mul", x, sign, error) : NULL;
}

/* a₀ [b₀, b₁] + a₁ [-b₁, b₀] */
RlxIrValue *
rlx_complex_mul_expand (RlxExpand *expand,
                        GError   **error)
{
  RlxIrValue *a = widen (expand, expand->inputs[0], error);
  RlxIrValue *b = a != NULL ? widen (expand, expand->inputs[1], error) : NULL;
  RlxIrValue *first, *second, *turned, *sign;
  gint64 axis;

  if (b == NULL)
    return NULL;
  axis = (gint64) b->type.rank - 1;
  sign = signs (expand, RLX_DATA_TYPE_F32, -1, 1, error);
  first = sign != NULL ? take_part (expand, a, 0, error) : NULL;
  first = first != NULL ? join (expand, "mul", first, b, error) : NULL;
  turned = first != NULL ? rlx_expand_ints (expand, "reverse", b, "axes", &axis, 1, error) : NULL;
  second = turned != NULL ? take_part (expand, a, 1, error) : NULL;
  second = second != NULL ? join (expand, "mul", second, turned, error) : NULL;
  /* Last, so that there is nothing smaller than the result to be made before. */
  second = second != NULL ? join (expand, "mul", second, sign, error) : NULL;
  return narrow (expand, second != NULL ? join (expand, "add", first, second, error) : NULL, error);
}
