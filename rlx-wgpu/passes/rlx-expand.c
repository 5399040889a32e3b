/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "ops/rlx-expand-private.h"

#include "passes/rlx-passes-private.h"

/* Takes @attrs over. Optional inputs at the end may be left out. */
static RlxIrValue *
append (RlxExpand         *expand,
        const RlxOp       *op,
        RlxAttrValue      *attrs,
        RlxIrValue *const *given,
        guint              n_given,
        GError           **error)
{
  guint n_inputs = MAX (n_given, op->n_inputs);
  g_autofree RlxIrValue **inputs = g_new0 (RlxIrValue *, n_inputs + 1);
  g_autoptr(GArray) types = g_array_new (FALSE, FALSE, sizeof (RlxTensorType));
  g_autofree const RlxTensorType **input_types = g_new0 (const RlxTensorType *, n_inputs + 1);
  g_autofree RlxTensor **constants = g_new0 (RlxTensor *, n_inputs + 1);
  RlxOpCall call = {
    .op = op,
    .attrs = attrs,
    .inputs = input_types,
    .constants = constants,
    .n_inputs = n_inputs,
    .outputs = types,
  };
  RlxIrNode *node;

  for (guint i = 0; i < n_given; i++)
    if (given[i] != NULL)
      {
        inputs[i] = given[i];
        input_types[i] = &inputs[i]->type;
        if (rlx_node_is (inputs[i]->node, "constant"))
          constants[i] = inputs[i]->node->data;
      }

  if (!rlx_op_infer (&call, error))
    {
      rlx_attrs_free (op, attrs);
      return NULL;
    }
  g_return_val_if_fail (types->len == 1, NULL);

  node = rlx_ir_append (expand->ir, op, attrs, inputs, n_inputs, (const RlxTensorType *) types->data, 1);
  node->origin = expand->node->origin;
  return &node->outputs[0];
}

RlxIrValue *
rlx_expand_op (RlxExpand         *expand,
               const char        *name,
               RlxIrValue *const *inputs,
               guint              n_inputs,
               GVariant          *attributes,
               GError           **error)
{
  g_autoptr(GVariant) owned = attributes != NULL ? g_variant_ref_sink (attributes) : NULL;
  const RlxOp *op = rlx_op_lookup (name);
  RlxAttrValue *attrs;

  g_return_val_if_fail (op != NULL, NULL);

  for (guint i = 0; i < n_inputs; i++)
    if (inputs[i] == NULL)
      return NULL;

  attrs = rlx_attrs_new_from_variant (op, owned, error);
  return attrs != NULL ? append (expand, op, attrs, inputs, n_inputs, error) : NULL;
}

RlxIrValue *
rlx_expand_ints (RlxExpand    *expand,
                 const char   *op,
                 RlxIrValue   *input,
                 const char   *attribute,
                 const gint64 *values,
                 guint         n_values,
                 GError      **error)
{
  GVariantDict dict;

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert_value (&dict, attribute,
                               g_variant_new_fixed_array (G_VARIANT_TYPE_INT64, values, n_values, sizeof (gint64)));
  return rlx_expand_op (expand, op, &input, 1, g_variant_dict_end (&dict), error);
}

RlxIrValue *
rlx_expand_cast (RlxExpand   *expand,
                 RlxIrValue  *input,
                 RlxDataType  dtype,
                 GError     **error)
{
  GVariantDict dict;

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "to", "s", rlx_data_type_to_string (dtype));
  return rlx_expand_op (expand, "cast", &input, 1, g_variant_dict_end (&dict), error);
}

RlxIrValue *
rlx_expand_in_f32 (RlxExpand *expand,
                   GError   **error)
{
  const RlxIrNode *node = expand->node;
  g_autofree RlxIrValue **inputs = g_new0 (RlxIrValue *, node->n_inputs + 1);
  gboolean any = FALSE;
  RlxIrValue *result;

  for (guint i = 0; i < node->n_inputs; i++)
    {
      inputs[i] = expand->inputs[i];
      if (inputs[i] == NULL || inputs[i]->type.dtype != RLX_DATA_TYPE_F16)
        continue;
      inputs[i] = rlx_expand_cast (expand, inputs[i], RLX_DATA_TYPE_F32, error);
      if (inputs[i] == NULL)
        return NULL;
      any = TRUE;
    }
  if (!any)
    return NULL;

  result = append (expand, node->op, node->attrs != NULL ? rlx_attrs_copy (node->op, node->attrs) : NULL,
                   inputs, node->n_inputs, error);
  return result != NULL ? rlx_expand_cast (expand, result, RLX_DATA_TYPE_F16, error) : NULL;
}

RlxIr *
rlx_pass_expand (const RlxIr *ir,
                 GError     **error)
{
  g_autoptr(RlxIr) out = rlx_ir_new ();
  g_autofree RlxIrValue **map = g_new0 (RlxIrValue *, ir->n_values + 1);
  g_autoptr(GPtrArray) inputs = g_ptr_array_new ();

  for (guint i = 0; i < ir->nodes->len; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);

      if (node->op->expand != NULL)
        {
          RlxExpand expand = { out, node, NULL };
          GError *failure = NULL;
          RlxIrValue *value;

          g_ptr_array_set_size (inputs, 0);
          for (guint j = 0; j < node->n_inputs; j++)
            g_ptr_array_add (inputs, node->inputs[j] != NULL ? map[node->inputs[j]->id] : NULL);
          expand.inputs = (RlxIrValue **) inputs->pdata;
          value = node->op->expand (&expand, &failure);
          if (failure != NULL)
            {
              g_propagate_prefixed_error (error, failure, "cannot compile %s %%%u: ", node->op->name, node->origin);
              return NULL;
            }
          if (value != NULL)
            {
              g_return_val_if_fail (rlx_type_equal (&value->type, &node->outputs[0].type), NULL);
              map[node->outputs[0].id] = value;
              continue;
            }
        }

      rlx_ir_copy_node (out, node, map);
    }

  rlx_ir_copy_results (out, ir, map);
  return g_steal_pointer (&out);
}
