/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "ir/rlx-ir-private.h"

#include "ir/rlx-op-private.h"
#include "rlx-tensor-private.h"
#include "util/rlx-element-private.h"

#include <string.h>

/* ---- the graph ----------------------------------------------------------- */

static void
node_free (gpointer data)
{
  RlxIrNode *node = data;

  if (node->payload_free != NULL)
    node->payload_free (node->payload);
  rlx_attrs_free (node->op, node->attrs);
  g_clear_object (&node->data);
  g_free (node->name);
  g_free (node);
}

static void
output_clear (gpointer data)
{
  RlxIrOutput *output = data;

  g_free (output->name);
}

RlxIr *
rlx_ir_new (void)
{
  RlxIr *ir = g_new0 (RlxIr, 1);

  ir->precision = RLX_PRECISION_FULL;
  ir->nodes = g_ptr_array_new_with_free_func (node_free);
  ir->outputs = g_array_new (FALSE, FALSE, sizeof (RlxIrOutput));
  g_array_set_clear_func (ir->outputs, output_clear);
  ir->assigns = g_array_new (FALSE, FALSE, sizeof (RlxIrAssign));

  return ir;
}

void
rlx_ir_free (RlxIr *ir)
{
  if (ir == NULL)
    return;

  g_ptr_array_unref (ir->nodes);
  g_array_unref (ir->outputs);
  g_array_unref (ir->assigns);
  g_free (ir);
}

/* Takes ownership of the attributes; the caller sets the types of the outputs. */
static RlxIrNode *
append_node (RlxIr             *ir,
             const RlxOp       *op,
             gpointer           attrs,
             RlxIrValue *const *inputs,
             guint              n_inputs,
             guint              n_outputs)
{
  /* One block for the node and its two arrays: building a graph is mostly
   * allocating nodes. */
  gsize outputs_size = n_outputs * sizeof (RlxIrValue);
  RlxIrNode *node = g_malloc (sizeof (RlxIrNode) + outputs_size + n_inputs * sizeof (RlxIrValue *));

  G_STATIC_ASSERT (sizeof (RlxIrNode) % G_ALIGNOF (RlxIrValue) == 0);
  G_STATIC_ASSERT (sizeof (RlxIrValue) % G_ALIGNOF (RlxIrValue *) == 0);

  *node = (RlxIrNode) {
    .id = ir->nodes->len,
    .origin = ir->n_values,
    .op = op,
    .attrs = attrs != NULL || op->n_attrs == 0 ? attrs : rlx_attrs_new (op),
    .inputs = (RlxIrValue **) ((char *) (node + 1) + outputs_size),
    .n_inputs = n_inputs,
    .outputs = (RlxIrValue *) (node + 1),
    .n_outputs = n_outputs,
  };

  for (guint i = 0; i < n_inputs; i++)
    node->inputs[i] = inputs[i];

  for (guint i = 0; i < n_outputs; i++)
    node->outputs[i] = (RlxIrValue) { .id = ir->n_values++, .node = node, .index = i };

  g_ptr_array_add (ir->nodes, node);

  return node;
}

RlxIrNode *
rlx_ir_append (RlxIr               *ir,
               const RlxOp         *op,
               gpointer             attrs,
               RlxIrValue *const   *inputs,
               guint                n_inputs,
               const RlxTensorType *types,
               guint                n_outputs)
{
  RlxIrNode *node = append_node (ir, op, attrs, inputs, n_inputs, n_outputs);

  for (guint i = 0; i < n_outputs; i++)
    node->outputs[i].type = types[i];

  return node;
}

RlxIrNode *
rlx_ir_append_copy (RlxIr             *ir,
                    const RlxIrNode   *node,
                    RlxIrValue *const *inputs)
{
  gpointer attrs = node->attrs != NULL ? rlx_attrs_copy (node->op, node->attrs) : NULL;
  RlxIrNode *copy = append_node (ir, node->op, attrs, inputs, node->n_inputs, node->n_outputs);

  copy->origin = node->origin;
  copy->name = g_strdup (node->name);
  if (node->data != NULL)
    copy->data = g_object_ref (node->data);
  for (guint i = 0; i < node->n_outputs; i++)
    copy->outputs[i].type = node->outputs[i].type;

  return copy;
}

void
rlx_ir_add_output (RlxIr      *ir,
                   const char *name,
                   RlxIrValue *value)
{
  RlxIrOutput output = { .name = g_strdup (name), .value = value };

  g_array_append_val (ir->outputs, output);
}

void
rlx_ir_add_assign (RlxIr      *ir,
                   RlxIrValue *state,
                   RlxIrValue *value)
{
  RlxIrAssign assign = { .state = state, .value = value };

  g_array_append_val (ir->assigns, assign);
}

gboolean
rlx_ir_value_get_immediate (const RlxIrValue *value,
                            double           *number,
                            gint64           *integer)
{
  if (value->node == NULL || value->node->op != &rlx_op_constant || rlx_type_n_elements (&value->type) != 1)
    return FALSE;

  *number = rlx_tensor_get_value (value->node->data, 0);
  *integer = 0;
  if (!rlx_data_type_is_float (value->type.data_type))
    *integer = rlx_element_get_int (value->type.data_type, rlx_tensor_peek_data (value->node->data), 0);
  return TRUE;
}

/* ---- types ----------------------------------------------------------------- */

guint64
rlx_type_n_elements (const RlxTensorType *type)
{
  guint64 n = 1;

  for (guint i = 0; i < type->n_dims; i++)
    n *= (guint64) type->shape[i];

  return n;
}

guint64
rlx_type_n_bytes (const RlxTensorType *type)
{
  return (rlx_type_n_elements (type) * rlx_data_type_get_bits (type->data_type) + 7) / 8;
}

guint64
rlx_type_n_device_bytes (const RlxTensorType *type)
{
  return (rlx_type_n_elements (type) * rlx_data_type_get_bits (rlx_data_type_on_device (type->data_type)) + 7) / 8;
}

guint64
rlx_type_device_size (const RlxTensorType *type)
{
  guint64 bytes = rlx_type_n_device_bytes (type);

  /* Bindings cannot be empty, and copies and bindings count in words. */
  return MAX (16, (bytes + 15) & ~(guint64) 15);
}

gboolean
rlx_type_same_shape (const RlxTensorType *a,
                     const RlxTensorType *b)
{
  return a->n_dims == b->n_dims && memcmp (a->shape, b->shape, a->n_dims * sizeof (gint64)) == 0;
}

void
rlx_type_get_strides (const RlxTensorType *type,
                      gint64               strides[RLX_MAX_DIMS])
{
  gint64 stride = 1;

  for (guint i = type->n_dims; i-- > 0;)
    {
      strides[i] = stride;
      stride *= type->shape[i];
    }
}

gboolean
rlx_type_equal (const RlxTensorType *a,
                const RlxTensorType *b)
{
  return a->data_type == b->data_type && rlx_type_same_shape (a, b);
}

char *
rlx_type_to_string (const RlxTensorType *type)
{
  g_autofree char *shape = rlx_shape_to_string (type->shape, MIN (type->n_dims, RLX_MAX_DIMS));

  return g_strconcat (rlx_data_type_to_string (type->data_type), shape, NULL);
}

gboolean
rlx_type_check (const RlxTensorType *type,
                GError             **error)
{
  guint64 n_elements;
  gsize n_bytes;

  /* Fewer than 2^32 elements of at most 8 bytes: bytes need no limit of their own. */
  return rlx_shape_n_bytes (type->data_type, type->shape, type->n_dims, &n_elements, &n_bytes, error);
}

gboolean
rlx_shape_broadcast (const RlxTensorType *a,
                     const RlxTensorType *b,
                     RlxTensorType       *out)
{
  guint n_dims = MAX (a->n_dims, b->n_dims);
  gint64 shape[RLX_MAX_DIMS] = { 0 };

  /* Into a copy: @out may be @a or @b. */
  for (guint i = 0; i < n_dims; i++)
    {
      gint64 da = i < a->n_dims ? a->shape[a->n_dims - 1 - i] : 1;
      gint64 db = i < b->n_dims ? b->shape[b->n_dims - 1 - i] : 1;

      if (da != db && da != 1 && db != 1)
        return FALSE;
      shape[n_dims - 1 - i] = da == 1 ? db : da;
    }

  out->n_dims = n_dims;
  memcpy (out->shape, shape, sizeof shape);

  return TRUE;
}
