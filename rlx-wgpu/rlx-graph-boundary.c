/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Where a graph meets the rest of a program: its inputs, parameters, constants,
 * states and outputs.
 */
#include "config.h"

#include "rlx-graph-private.h"

#include "rlx-tensor-private.h"
#include "util/rlx-debug-private.h"

/* ---- leaves --------------------------------------------------------------------------- */

/* The name has been checked; takes ownership of the reference @data. */
static RlxNode *
append_leaf (RlxGraph            *self,
             const RlxOp         *op,
             const char          *name,
             const RlxTensorType *type,
             RlxTensor           *data)
{
  RlxIrNode *ir_node = rlx_ir_append (self->ir, op, NULL, NULL, 0, type, 1);
  guint id = ir_node->outputs[0].id;

  ir_node->name = g_strdup (name);
  ir_node->data = data;
  rlx_graph_add_nodes (self, ir_node);
  if (name != NULL)
    g_hash_table_insert (self->leaf_names, ir_node->name, g_ptr_array_index (self->nodes, id));

  return g_ptr_array_index (self->nodes, id);
}

static RlxNode *
graph_named_leaf (RlxGraph      *self,
                  const RlxOp   *op,
                  const char    *name,
                  RlxDataType    data_type,
                  const gint64  *shape,
                  gsize          n_dims,
                  GError       **error)
{
  RlxTensorType type = { .data_type = data_type, .n_dims = (guint) MIN (n_dims, RLX_MAX_DIMS) };
  g_autoptr(RlxGraphLock) lock = NULL;
  GError *failure = NULL;
  guint64 n_elements;
  gsize n_bytes;

  lock = rlx_graph_lock (self);
  if (!rlx_graph_check_name (self, op->name, name, self->leaf_names, error) ||
      !rlx_graph_check_room (self, op->name, 1, error))
    return NULL;

  if (!rlx_shape_n_bytes (data_type, shape, n_dims, &n_elements, &n_bytes, &failure))
    {
      g_autofree char *quoted = rlx_quote_text (name, -1);

      g_prefix_error (&failure, "%s %s: ", op->name, quoted);
      rlx_graph_fail (self, failure, error);
      return NULL;
    }

  for (guint i = 0; i < type.n_dims; i++)
    type.shape[i] = shape[i];

  return append_leaf (self, op, name, &type, NULL);
}

/**
 * rlx_graph_input:
 * @self: a graph
 * @name: the name of the input
 * @data_type: the type of the elements
 * @shape: (array length=n_dims) (nullable): the size of each dimension
 * @n_dims: the number of dimensions; 0 for a scalar
 * @error: where to store an error
 *
 * Adds a value that each run is given.
 *
 * The name is any text of 1 to 255 bytes that no other input, parameter or state of the
 * graph uses.
 *
 * Returns: (transfer none) (nullable): the node, or %NULL with an error
 *
 * Since: 1.0
 */
RlxNode *
rlx_graph_input (RlxGraph      *self,
                 const char    *name,
                 RlxDataType    data_type,
                 const gint64  *shape,
                 gsize          n_dims,
                 GError       **error)
{
  g_return_val_if_fail (RLX_IS_GRAPH (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  g_return_val_if_fail (shape != NULL || n_dims == 0, NULL);

  return graph_named_leaf (self, &rlx_op_input, name, data_type, shape, n_dims, error);
}

/**
 * rlx_graph_parameter:
 * @self: a graph
 * @name: the name of the parameter
 * @data_type: the type of the elements
 * @shape: (array length=n_dims) (nullable): the size of each dimension
 * @n_dims: the number of dimensions; 0 for a scalar
 * @error: where to store an error
 *
 * Adds a value that is set on the executable and stays on the device until it is set
 * again, such as a weight.
 *
 * The name is any text of 1 to 255 bytes that no other input, parameter or state of the
 * graph uses.
 *
 * Returns: (transfer none) (nullable): the node, or %NULL with an error
 *
 * Since: 1.0
 */
RlxNode *
rlx_graph_parameter (RlxGraph      *self,
                     const char    *name,
                     RlxDataType    data_type,
                     const gint64  *shape,
                     gsize          n_dims,
                     GError       **error)
{
  g_return_val_if_fail (RLX_IS_GRAPH (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  g_return_val_if_fail (shape != NULL || n_dims == 0, NULL);

  return graph_named_leaf (self, &rlx_op_parameter, name, data_type, shape, n_dims, error);
}

/* The device only has 32-bit integers. */
static gboolean
check_fits_device (RlxGraph   *self,
                   const char *what,
                   RlxTensor  *tensor,
                   GError    **error)
{
  RlxDataType data_type = rlx_tensor_get_data_type (tensor);
  gsize n = (gsize) rlx_tensor_get_n_elements (tensor);
  g_autoptr(GError) local_error = NULL;

  /* The compiler reads the values that a graph keeps, so they must be in memory. */
  if (!rlx_tensor_fetch (tensor, NULL, &local_error))
    {
      rlx_graph_fail_printf (self, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "%s: %s", what, local_error->message);
      return FALSE;
    }
  if (data_type == RLX_DATA_TYPE_I64)
    {
      const gint64 *values = rlx_tensor_peek_data (tensor);

      for (gsize i = 0; i < n; i++)
        {
          if (values[i] >= G_MININT32 && values[i] <= G_MAXINT32)
            continue;

          rlx_graph_fail_printf (self, error, RLX_GRAPH_ERROR_LIMIT,
                                 "%s: element %" G_GSIZE_FORMAT " of the i64 tensor is %" G_GINT64_FORMAT
                                 ", but the device only takes %d to %d",
                                 what, i, values[i], G_MININT32, G_MAXINT32);
          return FALSE;
        }
    }
  else if (data_type == RLX_DATA_TYPE_U64)
    {
      const guint64 *values = rlx_tensor_peek_data (tensor);

      for (gsize i = 0; i < n; i++)
        {
          if (values[i] <= G_MAXUINT32)
            continue;

          rlx_graph_fail_printf (self, error, RLX_GRAPH_ERROR_LIMIT,
                                 "%s: element %" G_GSIZE_FORMAT " of the u64 tensor is %" G_GUINT64_FORMAT
                                 ", but the device only takes 0 to %u",
                                 what, i, values[i], G_MAXUINT32);
          return FALSE;
        }
    }

  return TRUE;
}

static void
type_from_tensor (RlxTensorType *type,
                  RlxTensor     *tensor)
{
  gsize n_dims;
  const gint64 *shape = rlx_tensor_get_shape (tensor, &n_dims);

  *type = (RlxTensorType) { .data_type = rlx_tensor_get_data_type (tensor), .n_dims = (guint) n_dims };
  for (gsize i = 0; i < n_dims; i++)
    type->shape[i] = shape[i];
}

/**
 * rlx_graph_constant:
 * @self: a graph
 * @tensor: the value
 * @error: where to store an error
 *
 * Adds a value that is part of the graph.
 *
 * The tensor is referenced, not copied. 64-bit integers must fit into 32 bits, with or
 * without a sign like their type.
 *
 * Returns: (transfer none) (nullable): the node, or %NULL with an error
 *
 * Since: 1.0
 */
RlxNode *
rlx_graph_constant (RlxGraph   *self,
                    RlxTensor  *tensor,
                    GError    **error)
{
  g_autoptr(RlxGraphLock) lock = NULL;
  RlxTensorType type;

  g_return_val_if_fail (RLX_IS_GRAPH (self), NULL);
  g_return_val_if_fail (tensor == NULL || RLX_IS_TENSOR (tensor), NULL);

  lock = rlx_graph_lock (self);
  if (tensor == NULL)
    {
      rlx_graph_note_null (self, "constant", "tensor");
      return NULL;
    }

  if (!check_fits_device (self, "constant", tensor, error) ||
      !rlx_graph_check_room (self, "constant", 1, error))
    return NULL;

  type_from_tensor (&type, tensor);

  return append_leaf (self, &rlx_op_constant, NULL, &type, g_object_ref (tensor));
}

/**
 * rlx_graph_scalar:
 * @self: a graph
 * @data_type: the type of the value
 * @value: the value
 * @error: where to store an error
 *
 * Adds a scalar constant, which broadcasts to any shape.
 *
 * For an integer type, @value must be a whole number in the range of the type, or of 32
 * bits if the type has 64.
 *
 * Returns: (transfer none) (nullable): the node, or %NULL with an error
 *
 * Since: 1.0
 */
RlxNode *
rlx_graph_scalar (RlxGraph     *self,
                  RlxDataType   data_type,
                  double        value,
                  GError      **error)
{
  g_autoptr(RlxTensor) tensor = NULL;
  GError *failure = NULL;

  g_return_val_if_fail (RLX_IS_GRAPH (self), NULL);

  tensor = rlx_tensor_new_scalar (data_type, value, &failure);
  if (tensor == NULL)
    {
      g_autoptr(RlxGraphLock) lock = rlx_graph_lock (self);

      g_prefix_error (&failure, "scalar: ");
      rlx_graph_fail (self, failure, error);
      return NULL;
    }

  return rlx_graph_constant (self, tensor, error);
}

/**
 * rlx_graph_state:
 * @self: a graph
 * @name: the name of the state
 * @initial: the value before the first run
 * @error: where to store an error
 *
 * Adds a value that stays on the device from one run to the next.
 *
 * A run reads the value that the previous run left. [method@Rlx.Graph.assign] defines
 * that value.
 *
 * The name is any text of 1 to 255 bytes that no other input, parameter or state of the
 * graph uses.
 *
 * Returns: (transfer none) (nullable): the node, or %NULL with an error
 *
 * Since: 1.0
 */
RlxNode *
rlx_graph_state (RlxGraph    *self,
                 const char  *name,
                 RlxTensor   *initial,
                 GError     **error)
{
  g_autoptr(RlxGraphLock) lock = NULL;
  RlxTensorType type;

  g_return_val_if_fail (RLX_IS_GRAPH (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  g_return_val_if_fail (initial == NULL || RLX_IS_TENSOR (initial), NULL);

  lock = rlx_graph_lock (self);
  if (initial == NULL)
    {
      rlx_graph_note_null (self, "state", "initial");
      return NULL;
    }

  if (!rlx_graph_check_name (self, "state", name, self->leaf_names, error) ||
      !check_fits_device (self, "state", initial, error) ||
      !rlx_graph_check_room (self, "state", 1, error))
    return NULL;

  type_from_tensor (&type, initial);

  return append_leaf (self, &rlx_op_state, name, &type, g_object_ref (initial));
}

/* ---- outputs ----------------------------------------------------------------------------- */

/**
 * rlx_graph_assign:
 * @self: a graph
 * @state: a node made by [method@Rlx.Graph.state]
 * @value: the new value
 * @error: where to store an error
 *
 * Defines the value that a state takes at the end of a run.
 *
 * The value must have the data type and shape of the state. A state can be assigned
 * only once; one that is never assigned keeps its value.
 *
 * All states change together at the end: during a run, a state has the value it had
 * before.
 *
 * Returns: %TRUE on success; %FALSE with an error, or without one if @state or @value
 *   is %NULL
 *
 * Since: 1.0
 */
gboolean
rlx_graph_assign (RlxGraph  *self,
                  RlxNode   *state,
                  RlxNode   *value,
                  GError   **error)
{
  g_autoptr(RlxGraphLock) lock = NULL;
  RlxIrValue *to, *from;
  g_autofree char *described = NULL;
  g_autofree char *to_type = NULL;
  g_autofree char *from_type = NULL;

  g_return_val_if_fail (RLX_IS_GRAPH (self), FALSE);
  g_return_val_if_fail (state == NULL || RLX_IS_NODE (state), FALSE);
  g_return_val_if_fail (value == NULL || RLX_IS_NODE (value), FALSE);

  lock = rlx_graph_lock (self);
  if (state == NULL || value == NULL)
    {
      rlx_graph_note_null (self, "assign", state == NULL ? "state" : "value");
      return FALSE;
    }

  if (!rlx_graph_check_owner (self, "assign", "state", state, error) ||
      !rlx_graph_check_owner (self, "assign", "value", value, error))
    return FALSE;

  to = rlx_node_get_value (state);
  from = rlx_node_get_value (value);
  described = rlx_ir_value_describe (to);

  if (to->node->op != &rlx_op_state)
    {
      rlx_graph_fail_printf (self, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                             "assign: %s is of operator %s, only a state can be assigned", described, to->node->op->name);
      return FALSE;
    }

  if (g_hash_table_contains (self->assigned, to))
    {
      rlx_graph_fail_printf (self, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                             "assign: the state %s is assigned already", described);
      return FALSE;
    }

  if (!rlx_type_equal (&to->type, &from->type))
    {
      to_type = rlx_type_to_string (&to->type);
      from_type = rlx_type_to_string (&from->type);
      rlx_graph_fail_printf (self, error,
                             to->type.data_type != from->type.data_type ? RLX_GRAPH_ERROR_DATA_TYPE : RLX_GRAPH_ERROR_SHAPE,
                             "assign: the state %s is %s, but the value %s", described, to_type, from_type);
      return FALSE;
    }

  g_hash_table_add (self->assigned, to);
  rlx_ir_add_assign (self->ir, to, from);

  return TRUE;
}

/**
 * rlx_graph_output:
 * @self: a graph
 * @name: the name of the output
 * @node: the value
 * @error: where to store an error
 *
 * Makes a value a result of the graph.
 *
 * The name is any text of 1 to 255 bytes that no other output uses; an output may share
 * the name of an input. A value can be an output under several names.
 *
 * Returns: %TRUE on success; %FALSE with an error, or without one if @node is %NULL
 *
 * Since: 1.0
 */
gboolean
rlx_graph_output (RlxGraph    *self,
                  const char  *name,
                  RlxNode     *node,
                  GError     **error)
{
  g_autoptr(RlxGraphLock) lock = NULL;
  g_autofree char *quoted = NULL;
  g_autofree char *what = NULL;

  g_return_val_if_fail (RLX_IS_GRAPH (self), FALSE);
  g_return_val_if_fail (name != NULL, FALSE);
  g_return_val_if_fail (node == NULL || RLX_IS_NODE (node), FALSE);

  quoted = rlx_quote_text (name, -1);
  what = g_strconcat ("output ", quoted, NULL);

  lock = rlx_graph_lock (self);
  if (node == NULL)
    {
      rlx_graph_note_null (self, what, "node");
      return FALSE;
    }

  if (!rlx_graph_check_name (self, "output", name, self->output_names, error) ||
      !rlx_graph_check_owner (self, what, "node", node, error))
    return FALSE;

  rlx_ir_add_output (self->ir, name, rlx_node_get_value (node));
  g_hash_table_insert (self->output_names, g_strdup (name), node);

  return TRUE;
}
