/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "ops/rlx-builder-private.h"

RlxIrNode *
rlx_builder_append (RlxBuilder        *b,
                    const RlxOp       *op,
                    RlxIrValue *const *given,
                    guint              n_given,
                    gconstpointer      attrs)
{
  guint n_inputs = MAX (n_given, op->n_inputs);
  g_autofree RlxIrValue **inputs = NULL;
  g_autofree const RlxTensorType **input_types = NULL;
  g_autoptr(GArray) types = NULL;
  RlxOpCall call;
  RlxIrNode *node;

  if (b->error != NULL)
    return NULL;

  inputs = g_new0 (RlxIrValue *, n_inputs + 1);
  input_types = g_new0 (const RlxTensorType *, n_inputs + 1);
  for (guint i = 0; i < n_given; i++)
    if (given[i] != NULL)
      {
        inputs[i] = given[i];
        input_types[i] = &given[i]->type;
      }

  types = g_array_new (FALSE, FALSE, sizeof (RlxTensorType));
  call = (RlxOpCall) {
    .op = op,
    .attrs = attrs != NULL ? attrs : op->defaults,
    .inputs = input_types,
    .n_inputs = n_inputs,
    .outputs = types,
  };
  if (!rlx_op_infer (&call, &b->error))
    return NULL;

  node = rlx_ir_append (b->ir, op, op->n_attrs > 0 ? rlx_attrs_copy (op, attrs) : NULL, inputs, n_inputs,
                        (const RlxTensorType *) types->data, types->len);
  node->origin = b->origin;
  return node;
}

RlxIrValue *
rlx_builder_append_one (RlxBuilder        *b,
                        const RlxOp       *op,
                        RlxIrValue *const *inputs,
                        guint              n_inputs,
                        gconstpointer      attrs)
{
  RlxIrNode *node = rlx_builder_append (b, op, inputs, n_inputs, attrs);

  return node != NULL ? &node->outputs[0] : NULL;
}

RlxIrValue *
rlx_build_constant (RlxBuilder *b,
                    RlxTensor  *tensor)
{
  RlxTensorType type;
  const gint64 *shape;
  RlxIrNode *node;
  gsize n_dims;

  if (b->error != NULL || tensor == NULL)
    {
      if (b->error == NULL)
        g_set_error_literal (&b->error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_INTERNAL, "there is no memory for a constant");
      g_clear_object (&tensor);
      return NULL;
    }

  shape = rlx_tensor_get_shape (tensor, &n_dims);
  type = (RlxTensorType) { .data_type = rlx_tensor_get_data_type (tensor), .n_dims = (guint) n_dims };
  for (gsize i = 0; i < n_dims; i++)
    type.shape[i] = shape[i];
  node = rlx_ir_append (b->ir, &rlx_op_constant, NULL, NULL, 0, &type, 1);
  node->origin = b->origin;
  node->data = tensor;
  return &node->outputs[0];
}

RlxIrValue *
rlx_build_as (RlxBuilder  *b,
              RlxIrValue  *x,
              RlxDataType  data_type)
{
  return x == NULL || x->type.data_type == data_type ? x : rlx_build_cast (b, x, RLX_CAST_ATTRS (.to = data_type));
}

RlxIrValue *
rlx_build_in_f32 (RlxBuilder        *b,
                  const RlxIrNode   *node,
                  RlxIrValue *const *inputs)
{
  g_autofree RlxIrValue **wide = g_new0 (RlxIrValue *, node->n_inputs + 1);
  gboolean any = FALSE;
  RlxIrValue *result;

  for (guint i = 0; i < node->n_inputs; i++)
    {
      wide[i] = inputs[i];
      if (inputs[i] == NULL || inputs[i]->type.data_type != RLX_DATA_TYPE_F16)
        continue;
      wide[i] = rlx_build_as (b, inputs[i], RLX_DATA_TYPE_F32);
      any = TRUE;
    }
  if (!any)
    return NULL;

  result = rlx_builder_append_one (b, node->op, wide, node->n_inputs, node->attrs);
  return rlx_build_as (b, result, RLX_DATA_TYPE_F16);
}
