/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Operators in a graph: a node is checked, and added with the type of its results.
 */
#include "config.h"

#include "rlx-graph-private.h"

#include "util/rlx-debug-private.h"

/* For a variadic operator. */
#define MAX_OPERANDS 65536
/* Enough for almost every node: their arrays are on the stack. */
#define FEW_OPERANDS 4
/* Operands that a message about a node lists. */
#define MAX_DESCRIBED 8

/* "matmul: …" becomes "matmul: … (%0 “x” f32[2, 3], %1 f32[4])" */
static void
add_operands_to_message (GError            *failure,
                         RlxIrValue *const *values,
                         guint              n_values)
{
  GString *text = g_string_new (failure->message);

  for (guint i = 0; i < MIN (n_values, MAX_DESCRIBED); i++)
    {
      g_string_append (text, i == 0 ? " (" : ", ");
      if (values[i] != NULL)
        {
          g_autofree char *value = rlx_ir_value_describe (values[i]);
          g_autofree char *type = rlx_type_to_string (&values[i]->type);

          g_string_append_printf (text, "%s %s", value, type);
        }
      else
        g_string_append_c (text, '_');
    }
  if (n_values > MAX_DESCRIBED)
    g_string_append (text, ", …");
  if (n_values > 0)
    g_string_append_c (text, ')');

  g_free (failure->message);
  failure->message = g_string_free (text, FALSE);
}

static const RlxInputDef *
input_def (const RlxOp *op,
           gsize        index)
{
  return &op->inputs[MIN (index, op->n_inputs - 1)];
}

/* @attrs is not NULL, and the number of inputs is valid for the operator. */
static RlxIrNode *
infer_and_append (RlxGraph      *self,
                  const RlxOp   *op,
                  RlxNode      **inputs,
                  guint          n_given,
                  gpointer      *attrs,
                  GError       **error)
{
  /* Optional operands at the end may be left out. */
  guint n_inputs = MAX (n_given, op->n_inputs);
  RlxIrValue *few_values[FEW_OPERANDS] = { NULL };
  const RlxTensorType *few_types[FEW_OPERANDS] = { NULL };
  RlxTensor *few_constants[FEW_OPERANDS] = { NULL };
  g_autofree RlxIrValue **many_values = NULL;
  g_autofree const RlxTensorType **many_types = NULL;
  g_autofree RlxTensor **many_constants = NULL;
  RlxIrValue **values = few_values;
  const RlxTensorType **types = few_types;
  RlxTensor **constants = few_constants;
  GError *failure = NULL;
  RlxOpCall call;

  if (n_inputs > FEW_OPERANDS)
    {
      values = many_values = g_new0 (RlxIrValue *, n_inputs);
      types = many_types = g_new0 (const RlxTensorType *, n_inputs);
      constants = many_constants = g_new0 (RlxTensor *, n_inputs);
    }

  for (guint i = 0; i < n_given; i++)
    {
      if (inputs[i] == NULL)
        continue;

      if (!rlx_graph_check_owner (self, op->name, input_def (op, i)->name, inputs[i], error))
        return NULL;

      values[i] = rlx_node_get_value (inputs[i]);
      types[i] = &values[i]->type;
      if (values[i]->node->op == &rlx_op_constant)
        constants[i] = values[i]->node->data;
    }

  call = (RlxOpCall) {
    .op = op,
    .attrs = *attrs,
    .inputs = types,
    .constants = constants,
    .n_inputs = n_inputs,
    .outputs = self->result_types,
  };

  if (!rlx_op_infer (&call, &failure))
    {
      add_operands_to_message (failure, values, n_inputs);
      rlx_graph_fail (self, failure, error);
      return NULL;
    }

  if (!rlx_graph_check_room (self, op->name, self->result_types->len, error))
    return NULL;

  return rlx_ir_append (self->ir, op, g_steal_pointer (attrs), values, n_inputs,
                        (const RlxTensorType *) self->result_types->data, self->result_types->len);
}

/* Uses the graph of the first operand that has one if none is given. */
static gboolean
find_graph (RlxGraph **graph,
            RlxNode  **inputs,
            gsize      n_inputs)
{
  g_return_val_if_fail (*graph == NULL || RLX_IS_GRAPH (*graph), FALSE);
  g_return_val_if_fail (inputs != NULL || n_inputs == 0, FALSE);

  for (gsize i = 0; i < n_inputs; i++)
    {
      g_return_val_if_fail (inputs[i] == NULL || RLX_IS_NODE (inputs[i]), FALSE);

      if (*graph == NULL && inputs[i] != NULL)
        *graph = rlx_node_get_graph (inputs[i]);
    }

  return TRUE;
}

/* Called with the lock of @self, if there is a graph. */
static RlxIrNode *
graph_call (RlxGraph      *self,
            const RlxOp   *op,
            RlxNode      **inputs,
            gsize          n_inputs,
            gpointer      *attrs,
            GError       **error)
{
  RlxIrNode *ir_node;
  gboolean variadic = (op->flags & RLX_OP_VARIADIC) != 0;
  gboolean any = FALSE;
  gsize missing = n_inputs;
  gsize n_required = op->n_inputs;

  for (gsize i = 0; i < n_inputs; i++)
    {
      if (inputs[i] != NULL)
        any = TRUE;
      else if (missing == n_inputs && !input_def (op, i)->optional)
        missing = i;
    }

  if (missing < n_inputs)
    {
      rlx_graph_note_null (self, op->name, input_def (op, missing)->name);
      return NULL;
    }

  if (self == NULL)
    {
      if (any)
        rlx_graph_fail_printf (NULL, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                               "%s: the operands belong to no graph", op->name);
      return NULL;
    }

  while (!variadic && n_required > 0 && op->inputs[n_required - 1].optional)
    n_required--;

  if (n_inputs < n_required || (!variadic && n_inputs > op->n_inputs))
    {
      rlx_graph_fail_printf (self, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                             "%s: %" G_GSIZE_FORMAT " operands are given, the operator takes %s%" G_GSIZE_FORMAT,
                             op->name, n_inputs,
                             variadic ? "at least " : n_required < op->n_inputs ? "up to " : "",
                             (gsize) op->n_inputs);
      return NULL;
    }

  if (n_inputs > MAX_OPERANDS)
    {
      rlx_graph_fail_printf (self, error, RLX_GRAPH_ERROR_LIMIT,
                             "%s: %" G_GSIZE_FORMAT " operands are given; the limit is %d", op->name, n_inputs, MAX_OPERANDS);
      return NULL;
    }

  if (*attrs == NULL && op->n_attrs > 0)
    *attrs = rlx_attrs_new (op);

  ir_node = infer_and_append (self, op, inputs, (guint) n_inputs, attrs, error);
  if (ir_node != NULL)
    rlx_graph_add_nodes (self, ir_node);

  return ir_node;
}

RlxNode *
rlx_graph_call (RlxGraph      *graph,
                const RlxOp   *op,
                RlxNode      **inputs,
                gsize          n_inputs,
                gpointer       attrs,
                GError       **error)
{
  g_autoptr(RlxGraphLock) lock = NULL;
  RlxIrNode *ir_node = NULL;

  if (find_graph (&graph, inputs, n_inputs))
    {
      lock = graph != NULL ? rlx_graph_lock (graph) : NULL;
      ir_node = graph_call (graph, op, inputs, n_inputs, &attrs, error);
    }
  rlx_attrs_free (op, attrs);

  return ir_node != NULL ? rlx_graph_get_node (graph, &ir_node->outputs[0]) : NULL;
}

RlxNode **
rlx_graph_call_many (RlxGraph      *graph,
                     const RlxOp   *op,
                     RlxNode      **inputs,
                     gsize          n_inputs,
                     gpointer       attrs,
                     gsize         *n_outputs,
                     GError       **error)
{
  g_autoptr(RlxGraphLock) lock = NULL;
  RlxIrNode *ir_node = NULL;
  RlxNode **results;

  if (find_graph (&graph, inputs, n_inputs))
    {
      lock = graph != NULL ? rlx_graph_lock (graph) : NULL;
      ir_node = graph_call (graph, op, inputs, n_inputs, &attrs, error);
    }
  rlx_attrs_free (op, attrs);
  if (n_outputs != NULL)
    *n_outputs = 0;

  if (ir_node == NULL)
    return NULL;

  results = g_new0 (RlxNode *, (gsize) ir_node->n_outputs + 1);
  for (guint i = 0; i < ir_node->n_outputs; i++)
    results[i] = rlx_graph_get_node (graph, &ir_node->outputs[i]);
  if (n_outputs != NULL)
    *n_outputs = ir_node->n_outputs;

  return results;
}

/**
 * rlx_graph_add_op:
 * @self: a graph
 * @op: the name of an operator
 * @inputs: (array length=n_inputs) (nullable): the operands
 * @n_inputs: the number of operands
 * @attributes: (nullable): a dictionary of type `a{sv}` with the operator's
 *   attributes, or %NULL for none
 * @n_outputs: (out) (optional): where to store the number of results
 * @error: where to store an error
 *
 * Adds an operator by its name.
 *
 * This is meant for programs that read graphs from elsewhere. In other code, the
 * methods of [class@Rlx.Node] and [class@Rlx.Graph], one for each operator, read
 * better.
 *
 * Optional operands may be %NULL, and those at the end may be left out. JavaScript
 * cannot pass `null` within an array: there, use the operator's method.
 *
 * Attributes that have a default may be left out. The type of the value depends on the
 * type of the attribute:
 *
 * - a boolean: `b`
 * - an integer: any of the integer types of [struct@GLib.Variant]
 * - a number: `d`, or an integer
 * - an enumeration: `s`, the nick of the value
 * - a data type: `s`, as [func@Rlx.DataType.to_string] returns it
 * - a list of integers: an array of integers, an array of variants with integers, or
 *   any empty array
 *
 * If @attributes is floating, it is consumed.
 *
 * Returns: (array length=n_outputs) (transfer container) (nullable): the results; %NULL
 *   with @error set on failure, or without it if a required operand is %NULL
 *
 * Since: 1.0
 */
RlxNode **
rlx_graph_add_op (RlxGraph    *self,
                  const char  *op,
                  RlxNode    **inputs,
                  gsize        n_inputs,
                  GVariant    *attributes,
                  gsize       *n_outputs,
                  GError     **error)
{
  g_autoptr(GVariant) sunk = attributes != NULL ? g_variant_ref_sink (attributes) : NULL;
  const RlxOp *row;
  gpointer attrs;
  GError *failure = NULL;

  if (n_outputs != NULL)
    *n_outputs = 0;

  g_return_val_if_fail (RLX_IS_GRAPH (self), NULL);
  g_return_val_if_fail (op != NULL, NULL);
  g_return_val_if_fail (inputs != NULL || n_inputs == 0, NULL);

  row = rlx_op_lookup (op);
  if (row == NULL)
    {
      g_autofree char *quoted = rlx_quote_text (op, -1);
      const char *close = rlx_op_suggest (op);
      g_autoptr(RlxGraphLock) lock = rlx_graph_lock (self);

      rlx_graph_fail_printf (self, error, RLX_GRAPH_ERROR_NOT_FOUND,
                             "There is no operator %s%s%s%s", quoted,
                             close != NULL ? "; did you mean “" : "", close != NULL ? close : "", close != NULL ? "”?" : "");
      return NULL;
    }

  if (row->flags & RLX_OP_LEAF)
    {
      g_autoptr(RlxGraphLock) lock = rlx_graph_lock (self);

      rlx_graph_fail_printf (self, error, RLX_GRAPH_ERROR_UNSUPPORTED,
                             "“%s” cannot be added as an operator: graphs have a method of that name", row->name);
      return NULL;
    }

  attrs = rlx_attrs_new_from_variant (row, sunk, &failure);
  if (attrs == NULL)
    {
      g_autoptr(RlxGraphLock) lock = rlx_graph_lock (self);

      rlx_graph_fail (self, failure, error);
      return NULL;
    }

  return rlx_graph_call_many (self, row, inputs, n_inputs, attrs, n_outputs, error);
}
