/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-graph.h"

#include "rlx-enum-types.h"
#include "rlx-graph-private.h"
#include "rlx-tensor-private.h"
#include "util/rlx-debug-private.h"

#include <string.h>

/**
 * RlxGraph:
 *
 * A computation on tensors: values that go in, operators on them, and results
 * that come out.
 *
 * A graph is built once, by adding nodes to it, and then compiled for a device
 * with [method@Rlx.Device.compile]. Data types and shapes are checked with every
 * node, so a mistake is reported where it is made.
 *
 * ```c
 * g_autoptr(RlxGraph) graph = rlx_graph_new ();
 * const gint64 shape[] = { 2, 3 };
 * RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, shape, 2, &error);
 * RlxNode *w = rlx_graph_constant (graph, weights, &error);
 *
 * rlx_graph_output (graph, "y", rlx_node_relu (rlx_node_matmul (x, w, &error), &error));
 * ```
 *
 * ```python
 * graph = Rlx.Graph()
 * x = graph.input('x', Rlx.DataType.F32, [2, 3])
 * w = graph.constant(weights)
 * graph.output('y', x.matmul(w).relu())
 * ```
 *
 * ## Errors
 *
 * Every method that adds to the graph can fail with a [error@Rlx.GraphError].
 * A program that is told can go on as if it had not made the call. The first
 * failure that nobody was told of, because @error was `NULL`, is remembered:
 * [method@Rlx.Graph.check] and compiling report it, so that a program that
 * looked at no error at all does not end up with less than it wrote. A node that
 * is `NULL` where one is required counts as such a failure: it is taken for the
 * result of a method that failed before, and reported that.
 *
 * In C, if an error is already stored where @error points, it stays.
 *
 * ## Nodes
 *
 * The graph owns its nodes, and is a [iface@Gio.ListModel] of them, in the order
 * in which they were added. Nodes cannot be removed, and none can be added once
 * the graph has been compiled.
 *
 * A graph is not meant to be used by several threads at a time.
 *
 * Since: 1.0
 */

/* Of the names of inputs and outputs, in bytes. */
#define MAX_NAME_LENGTH 255
/* Of one operator that takes any number. */
#define MAX_OPERANDS 65536
#define MAX_VALUES G_MAXINT32
/* As many as nearly every node has: their arrays are on the stack. */
#define FEW_OPERANDS 4
/* Operands that a message about a node lists. */
#define MAX_DESCRIBED 8

struct _RlxGraph
{
  GObject parent_instance;

  RlxIr *ir;
  GPtrArray *nodes;          /* RlxNode, by the id of the value */
  GHashTable *leaf_names;    /* char * (of the IR) → RlxNode */
  GHashTable *output_names;  /* char * → RlxNode */
  GHashTable *assigned;      /* RlxIrValue, those of states that have a new value */
  GArray *result_types;      /* for rlx_op_infer(), kept to save allocations */
  GError *error;             /* the first one */
  gboolean frozen;
};

enum
{
  PROP_0,
  PROP_PRECISION,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];
static guint items_changed_id;

static void list_model_init (GListModelInterface *iface);

G_DEFINE_FINAL_TYPE_WITH_CODE (RlxGraph, rlx_graph, G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (G_TYPE_LIST_MODEL, list_model_init))

static void
rlx_graph_finalize (GObject *object)
{
  RlxGraph *self = RLX_GRAPH (object);

  for (guint i = 0; i < self->nodes->len; i++)
    rlx_node_detach (g_ptr_array_index (self->nodes, i));
  g_ptr_array_unref (self->nodes);
  g_hash_table_unref (self->leaf_names);
  g_hash_table_unref (self->output_names);
  g_hash_table_unref (self->assigned);
  g_array_unref (self->result_types);
  g_clear_error (&self->error);
  rlx_ir_free (self->ir);

  G_OBJECT_CLASS (rlx_graph_parent_class)->finalize (object);
}

static void
rlx_graph_get_property (GObject    *object,
                        guint       id,
                        GValue     *value,
                        GParamSpec *pspec)
{
  switch (id)
    {
    case PROP_PRECISION:
      g_value_set_enum (value, rlx_graph_get_precision (RLX_GRAPH (object)));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
rlx_graph_set_property (GObject      *object,
                        guint         id,
                        const GValue *value,
                        GParamSpec   *pspec)
{
  switch (id)
    {
    case PROP_PRECISION:
      rlx_graph_set_precision (RLX_GRAPH (object), g_value_get_enum (value));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
rlx_graph_class_init (RlxGraphClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->finalize = rlx_graph_finalize;
  object_class->get_property = rlx_graph_get_property;
  object_class->set_property = rlx_graph_set_property;

  /**
   * RlxGraph:precision:
   *
   * How exact its products of matrices are.
   *
   * Since: 1.0
   */
  properties[PROP_PRECISION] = g_param_spec_enum ("precision", NULL, NULL, RLX_TYPE_PRECISION, RLX_PRECISION_FULL,
                                                  G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);
  g_object_class_install_properties (object_class, N_PROPS, properties);

  items_changed_id = g_signal_lookup ("items-changed", G_TYPE_LIST_MODEL);
}

static void
rlx_graph_init (RlxGraph *self)
{
  self->ir = rlx_ir_new ();
  self->nodes = g_ptr_array_new_with_free_func (g_object_unref);
  self->leaf_names = g_hash_table_new (g_str_hash, g_str_equal);
  self->output_names = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->assigned = g_hash_table_new (NULL, NULL);
  self->result_types = g_array_new (FALSE, FALSE, sizeof (RlxTensorType));
}

/* ---- the list ------------------------------------------------------------- */

static GType
list_model_get_item_type (GListModel *list G_GNUC_UNUSED)
{
  return RLX_TYPE_NODE;
}

static guint
list_model_get_n_items (GListModel *list)
{
  return RLX_GRAPH (list)->nodes->len;
}

static gpointer
list_model_get_item (GListModel *list,
                     guint       position)
{
  RlxGraph *self = RLX_GRAPH (list);

  if (position >= self->nodes->len)
    return NULL;

  return g_object_ref (g_ptr_array_index (self->nodes, position));
}

static void
list_model_init (GListModelInterface *iface)
{
  iface->get_item_type = list_model_get_item_type;
  iface->get_n_items = list_model_get_n_items;
  iface->get_item = list_model_get_item;
}

/* ---- errors ----------------------------------------------------------------- */

/* Takes @failure. The graph may be NULL. */
static void
graph_fail (RlxGraph *self,
            GError   *failure,
            GError  **error)
{
  /* Whoever is told can go on without what failed. What nobody hears of is
   * remembered, or a graph would be compiled that is not what was meant. */
  if (self != NULL && self->error == NULL && (error == NULL || *error != NULL))
    self->error = g_error_copy (failure);

  /* Calls may be chained without a look at the error in between. */
  if (error != NULL && *error == NULL)
    g_propagate_error (error, failure);
  else
    g_error_free (failure);
}

static void
graph_fail_printf (RlxGraph      *self,
                   GError       **error,
                   RlxGraphError  code,
                   const char    *format,
                   ...) G_GNUC_PRINTF (4, 5);

static void
graph_fail_printf (RlxGraph      *self,
                   GError       **error,
                   RlxGraphError  code,
                   const char    *format,
                   ...)
{
  va_list args;

  va_start (args, format);
  graph_fail (self, g_error_new_valist (RLX_GRAPH_ERROR, code, format, args), error);
  va_end (args);
}

/* A NULL is not reported to the caller: it is the result of a failure that was.
 * It is remembered in case there was none. */
static void
graph_note_null (RlxGraph   *self,
                 const char *what,
                 const char *name)
{
  if (self == NULL || self->error != NULL || self->frozen)
    return;

  self->error = g_error_new (RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                             "%s: operand “%s” is NULL", what, name);
}

static gboolean
check_editable (RlxGraph   *self,
                const char *what,
                GError    **error)
{
  if (!self->frozen)
    return TRUE;

  graph_fail_printf (self, error, RLX_GRAPH_ERROR_BUSY,
                     "%s: the graph has been compiled and cannot change any more", what);

  return FALSE;
}

static gboolean
check_name (RlxGraph   *self,
            const char *what,
            const char *name,
            GHashTable *taken,
            GError    **error)
{
  gsize length = strlen (name);
  g_autofree char *quoted = NULL;

  if (length == 0)
    {
      graph_fail_printf (self, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "%s: the name is empty", what);
      return FALSE;
    }

  if (length > MAX_NAME_LENGTH)
    {
      quoted = rlx_quote_text (name, (gssize) length);
      graph_fail_printf (self, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                         "%s: the name %s has %" G_GSIZE_FORMAT " bytes, the limit is %d",
                         what, quoted, length, MAX_NAME_LENGTH);
      return FALSE;
    }

  if (!g_utf8_validate_len (name, length, NULL))
    {
      quoted = rlx_quote_text (name, (gssize) length);
      graph_fail_printf (self, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                         "%s: the name %s is not valid UTF-8", what, quoted);
      return FALSE;
    }

  if (g_hash_table_contains (taken, name))
    {
      quoted = rlx_quote_text (name, (gssize) length);
      graph_fail_printf (self, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                         "%s: the name %s is already taken%s", what, quoted,
                         taken == self->output_names ? " by an output" : " by an input, a parameter or a state");
      return FALSE;
    }

  return TRUE;
}

static gboolean
check_owner (RlxGraph   *self,
             const char *what,
             const char *operand,
             RlxNode    *node,
             GError    **error)
{
  g_autofree char *text = NULL;

  if (rlx_node_get_graph (node) == self)
    return TRUE;

  text = rlx_node_to_string (node);
  if (rlx_node_get_graph (node) == NULL)
    graph_fail_printf (self, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                       "%s: the graph of operand “%s” (%s) does not exist any more", what, operand, text);
  else
    graph_fail_printf (self, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                       "%s: operand “%s” (%s) belongs to another graph", what, operand, text);

  return FALSE;
}

/**
 * rlx_graph_get_precision: (get-property precision)
 * @self: a graph
 *
 * Gets how exact its products of matrices are.
 *
 * Returns: the precision
 *
 * Since: 1.0
 */
RlxPrecision
rlx_graph_get_precision (RlxGraph *self)
{
  g_return_val_if_fail (RLX_IS_GRAPH (self), RLX_PRECISION_FULL);

  return self->ir->precision;
}

/**
 * rlx_graph_set_precision: (set-property precision)
 * @self: a graph
 * @precision: how exact
 *
 * Sets how exact its products of matrices are.
 *
 * A graph that has been compiled cannot change any more; see
 * [method@Rlx.Graph.check].
 *
 * Since: 1.0
 */
void
rlx_graph_set_precision (RlxGraph     *self,
                         RlxPrecision  precision)
{
  g_return_if_fail (RLX_IS_GRAPH (self));

  if (!check_editable (self, "precision", NULL))
    return;
  if (precision != RLX_PRECISION_FULL && precision != RLX_PRECISION_REDUCED)
    {
      graph_fail_printf (self, NULL, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "precision: there is no precision %d", (int) precision);
      return;
    }
  if (self->ir->precision == precision)
    return;
  self->ir->precision = precision;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_PRECISION]);
}

/* ---- adding nodes -------------------------------------------------------------- */

static void
add_nodes (RlxGraph  *self,
           RlxIrNode *ir_node)
{
  guint position = self->nodes->len;

  for (guint i = 0; i < ir_node->n_outputs; i++)
    g_ptr_array_add (self->nodes, rlx_node_new (self, &ir_node->outputs[i]));

  /* Hardly anybody watches a graph being built, and a signal costs more than
   * the node. */
  if (g_signal_has_handler_pending (self, items_changed_id, 0, FALSE))
    {
      g_object_ref (self);
      g_list_model_items_changed (G_LIST_MODEL (self), position, 0, ir_node->n_outputs);
      g_object_unref (self);
    }
}

static gboolean
check_room (RlxGraph   *self,
            const char *what,
            guint       n_values,
            GError    **error)
{
  if (n_values <= MAX_VALUES - self->ir->n_values)
    return TRUE;

  graph_fail_printf (self, error, RLX_GRAPH_ERROR_LIMIT,
                     "%s: the graph has %u values, the limit is %d", what, self->ir->n_values, MAX_VALUES);

  return FALSE;
}

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

/* @attrs is there, and the number of inputs is one the operator can have. */
static RlxIrNode *
infer_and_append (RlxGraph      *self,
                  const RlxOp   *op,
                  RlxNode      **inputs,
                  guint          n_given,
                  RlxAttrValue **attrs,
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

      if (!check_owner (self, op->name, input_def (op, i)->name, inputs[i], error))
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
      graph_fail (self, failure, error);
      return NULL;
    }

  if (!check_room (self, op->name, self->result_types->len, error))
    return NULL;

  return rlx_ir_append (self->ir, op, g_steal_pointer (attrs), values, n_inputs,
                        (const RlxTensorType *) self->result_types->data, self->result_types->len);
}

/* The new node, and in @graph the graph it went into. */
static RlxIrNode *
graph_call (RlxGraph     **graph,
            const RlxOp   *op,
            RlxNode      **inputs,
            gsize          n_inputs,
            RlxAttrValue **attrs,
            GError       **error)
{
  RlxGraph *self = *graph;
  RlxIrNode *ir_node;
  gboolean variadic = (op->flags & RLX_OP_VARIADIC) != 0;
  gboolean any = FALSE;
  gsize missing = n_inputs;
  gsize n_required = op->n_inputs;

  g_return_val_if_fail (self == NULL || RLX_IS_GRAPH (self), NULL);
  g_return_val_if_fail (inputs != NULL || n_inputs == 0, NULL);

  for (gsize i = 0; i < n_inputs; i++)
    {
      if (inputs[i] == NULL)
        {
          if (missing == n_inputs && !input_def (op, i)->optional)
            missing = i;
          continue;
        }

      g_return_val_if_fail (RLX_IS_NODE (inputs[i]), NULL);
      any = TRUE;
      if (self == NULL)
        self = rlx_node_get_graph (inputs[i]);
    }

  if (missing < n_inputs)
    {
      graph_note_null (self, op->name, input_def (op, missing)->name);
      return NULL;
    }

  if (self == NULL)
    {
      if (any)
        graph_fail_printf (NULL, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "%s: the graph of the operands does not exist any more", op->name);
      return NULL;
    }

  if (!check_editable (self, op->name, error))
    return NULL;

  while (!variadic && n_required > 0 && op->inputs[n_required - 1].optional)
    n_required--;

  if (n_inputs < n_required || (!variadic && n_inputs > op->n_inputs))
    {
      graph_fail_printf (self, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                         "%s: %" G_GSIZE_FORMAT " operands are given, the operator takes %s%" G_GSIZE_FORMAT,
                         op->name, n_inputs,
                         variadic ? "at least " : n_required < op->n_inputs ? "up to " : "",
                         (gsize) op->n_inputs);
      return NULL;
    }

  if (n_inputs > MAX_OPERANDS)
    {
      graph_fail_printf (self, error, RLX_GRAPH_ERROR_LIMIT,
                         "%s: %" G_GSIZE_FORMAT " operands are given, the limit is %d", op->name, n_inputs, MAX_OPERANDS);
      return NULL;
    }

  if (*attrs == NULL && op->n_attrs > 0)
    *attrs = rlx_attrs_new (op);

  /* In C any number is a boolean. */
  for (guint i = 0; i < op->n_attrs; i++)
    if (op->attrs[i].kind == RLX_ATTR_BOOL)
      (*attrs)[i].i = (*attrs)[i].i != 0;

  ir_node = infer_and_append (self, op, inputs, (guint) n_inputs, attrs, error);
  if (ir_node == NULL)
    return NULL;

  add_nodes (self, ir_node);
  *graph = self;

  return ir_node;
}

RlxNode *
rlx_graph_call (RlxGraph      *graph,
                const RlxOp   *op,
                RlxNode      **inputs,
                gsize          n_inputs,
                RlxAttrValue  *attrs,
                GError       **error)
{
  RlxIrNode *ir_node = graph_call (&graph, op, inputs, n_inputs, &attrs, error);

  rlx_attrs_free (op, attrs);

  return ir_node != NULL ? rlx_graph_get_node (graph, &ir_node->outputs[0]) : NULL;
}

RlxNode **
rlx_graph_call_many (RlxGraph      *graph,
                     const RlxOp   *op,
                     RlxNode      **inputs,
                     gsize          n_inputs,
                     RlxAttrValue  *attrs,
                     gsize         *n_outputs,
                     GError       **error)
{
  RlxIrNode *ir_node = graph_call (&graph, op, inputs, n_inputs, &attrs, error);
  RlxNode **results;

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

/* ---- for the compiler ----------------------------------------------------------- */

const RlxIr *
rlx_graph_freeze (RlxGraph *self,
                  GError  **error)
{
  if (!rlx_graph_check (self, error))
    return NULL;

  self->frozen = TRUE;

  return self->ir;
}

gboolean
rlx_graph_is_frozen (RlxGraph *self)
{
  return self->frozen;
}

RlxNode *
rlx_graph_get_node (RlxGraph         *self,
                    const RlxIrValue *value)
{
  return g_ptr_array_index (self->nodes, value->id);
}

/* ---- making graphs ---------------------------------------------------------------- */

/**
 * rlx_graph_new:
 *
 * Makes an empty graph.
 *
 * Returns: (transfer full): a new graph
 *
 * Since: 1.0
 */
RlxGraph *
rlx_graph_new (void)
{
  return g_object_new (RLX_TYPE_GRAPH, NULL);
}

/**
 * rlx_graph_new_from_text:
 * @text: a graph in its text form
 * @error: where to store an error
 *
 * Makes a graph from its text form, as [method@Rlx.Graph.to_text] writes it.
 *
 * The text is checked as calls of the methods are. An error names the line and,
 * if the text itself is wrong, is `RLX_GRAPH_ERROR_PARSE` and names the column.
 * It is safe to read text from anywhere.
 *
 * Returns: (transfer full): a new graph, or %NULL with an error
 *
 * Since: 1.0
 */
RlxGraph *
rlx_graph_new_from_text (const char  *text,
                         GError     **error)
{
  g_autoptr(RlxGraph) self = NULL;

  g_return_val_if_fail (text != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  self = rlx_graph_new ();
  if (!rlx_graph_read_text (self, text, error))
    return NULL;

  return g_steal_pointer (&self);
}

/* ---- leaves --------------------------------------------------------------------------- */

/* The name is checked; @data is a reference that is taken over. */
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
  add_nodes (self, ir_node);
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
  RlxTensorType type = { .dtype = data_type, .rank = (guint) MIN (n_dims, RLX_MAX_RANK) };
  GError *failure = NULL;
  guint64 n_elements;
  gsize n_bytes;

  if (!check_editable (self, op->name, error) ||
      !check_name (self, op->name, name, self->leaf_names, error) ||
      !check_room (self, op->name, 1, error))
    return NULL;

  if (!rlx_shape_n_bytes (data_type, shape, n_dims, &n_elements, &n_bytes, &failure))
    {
      g_autofree char *quoted = rlx_quote_text (name, -1);

      g_prefix_error (&failure, "%s %s: ", op->name, quoted);
      graph_fail (self, failure, error);
      return NULL;
    }

  for (guint i = 0; i < type.rank; i++)
    type.dims[i] = shape[i];

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
 * Adds a value that is given anew to every run.
 *
 * The name is any text of 1 to 255 bytes that no other input, parameter or
 * state of the graph has.
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
 * Adds a value that is set once on the executable, and then stays on the device
 * until it is set again: a weight.
 *
 * The name is any text of 1 to 255 bytes that no other input, parameter or
 * state of the graph has.
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

/* The device has integers of 32 bits only. */
static gboolean
check_narrow (RlxGraph   *self,
              const char *what,
              RlxTensor  *tensor,
              GError    **error)
{
  RlxDataType data_type = rlx_tensor_get_data_type (tensor);
  gsize n = (gsize) rlx_tensor_get_n_elements (tensor);

  if (data_type == RLX_DATA_TYPE_I64)
    {
      const gint64 *values = rlx_tensor_peek_data (tensor);

      for (gsize i = 0; i < n; i++)
        {
          if (values[i] >= G_MININT32 && values[i] <= G_MAXINT32)
            continue;

          graph_fail_printf (self, error, RLX_GRAPH_ERROR_LIMIT,
                             "%s: element %" G_GSIZE_FORMAT " of the i64 tensor is %" G_GINT64_FORMAT
                             ", but the device takes %d to %d only",
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

          graph_fail_printf (self, error, RLX_GRAPH_ERROR_LIMIT,
                             "%s: element %" G_GSIZE_FORMAT " of the u64 tensor is %" G_GUINT64_FORMAT
                             ", but the device takes 0 to %u only",
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

  *type = (RlxTensorType) { .dtype = rlx_tensor_get_data_type (tensor), .rank = (guint) n_dims };
  for (gsize i = 0; i < n_dims; i++)
    type->dims[i] = shape[i];
}

/**
 * rlx_graph_constant:
 * @self: a graph
 * @tensor: the value
 * @error: where to store an error
 *
 * Adds a value that is part of the graph.
 *
 * The tensor is kept, not copied. 64-bit integers must fit into 32 bits, signed
 * or unsigned as their type is.
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
  RlxTensorType type;

  g_return_val_if_fail (RLX_IS_GRAPH (self), NULL);
  g_return_val_if_fail (tensor == NULL || RLX_IS_TENSOR (tensor), NULL);

  if (tensor == NULL)
    {
      graph_note_null (self, "constant", "tensor");
      return NULL;
    }

  if (!check_editable (self, "constant", error) ||
      !check_narrow (self, "constant", tensor, error) ||
      !check_room (self, "constant", 1, error))
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
 * Adds a constant without dimensions, which broadcasts to any shape.
 *
 * For an integer type @value must be a whole number in the range of the type,
 * or of 32 bits if the type has 64.
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

  if (!check_editable (self, "scalar", error))
    return NULL;

  tensor = rlx_tensor_new_scalar (data_type, value, &failure);
  if (tensor == NULL)
    {
      g_prefix_error (&failure, "scalar: ");
      graph_fail (self, failure, error);
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
 * A run reads the value the previous run left. [method@Rlx.Graph.assign] says
 * what that is.
 *
 * The name is any text of 1 to 255 bytes that no other input, parameter or
 * state of the graph has.
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
  RlxTensorType type;

  g_return_val_if_fail (RLX_IS_GRAPH (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  g_return_val_if_fail (initial == NULL || RLX_IS_TENSOR (initial), NULL);

  if (initial == NULL)
    {
      graph_note_null (self, "state", "initial");
      return NULL;
    }

  if (!check_editable (self, "state", error) ||
      !check_name (self, "state", name, self->leaf_names, error) ||
      !check_narrow (self, "state", initial, error) ||
      !check_room (self, "state", 1, error))
    return NULL;

  type_from_tensor (&type, initial);

  return append_leaf (self, &rlx_op_state, name, &type, g_object_ref (initial));
}

/* ---- what comes out ---------------------------------------------------------------------- */

/**
 * rlx_graph_assign:
 * @self: a graph
 * @state: a node made by [method@Rlx.Graph.state]
 * @value: the new value
 * @error: where to store an error
 *
 * Says which value a state takes at the end of a run.
 *
 * The value must have the data type and shape of the state. A state can be
 * assigned once; one that is not keeps its value.
 *
 * All states change together at the end: within a run a state has the value it
 * had before.
 *
 * Returns: true on success, false with an error, and false alone when @state or
 *   @value is %NULL
 *
 * Since: 1.0
 */
gboolean
rlx_graph_assign (RlxGraph  *self,
                  RlxNode   *state,
                  RlxNode   *value,
                  GError   **error)
{
  RlxIrValue *to, *from;
  g_autofree char *described = NULL;
  g_autofree char *to_type = NULL;
  g_autofree char *from_type = NULL;

  g_return_val_if_fail (RLX_IS_GRAPH (self), FALSE);
  g_return_val_if_fail (state == NULL || RLX_IS_NODE (state), FALSE);
  g_return_val_if_fail (value == NULL || RLX_IS_NODE (value), FALSE);

  if (state == NULL || value == NULL)
    {
      graph_note_null (self, "assign", state == NULL ? "state" : "value");
      return FALSE;
    }

  if (!check_editable (self, "assign", error) ||
      !check_owner (self, "assign", "state", state, error) ||
      !check_owner (self, "assign", "value", value, error))
    return FALSE;

  to = rlx_node_get_value (state);
  from = rlx_node_get_value (value);
  described = rlx_ir_value_describe (to);

  if (to->node->op != &rlx_op_state)
    {
      graph_fail_printf (self, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                         "assign: %s is of operator %s, only a state can be assigned", described, to->node->op->name);
      return FALSE;
    }

  if (g_hash_table_contains (self->assigned, to))
    {
      graph_fail_printf (self, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                         "assign: the state %s is assigned already", described);
      return FALSE;
    }

  if (!rlx_type_equal (&to->type, &from->type))
    {
      to_type = rlx_type_to_string (&to->type);
      from_type = rlx_type_to_string (&from->type);
      graph_fail_printf (self, error,
                         to->type.dtype != from->type.dtype ? RLX_GRAPH_ERROR_DATA_TYPE : RLX_GRAPH_ERROR_SHAPE,
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
 *
 * Makes a value a result of the graph.
 *
 * The name is any text of 1 to 255 bytes that no other output has; an output
 * may have the name of an input. A value can be an output under several names.
 *
 * The method cannot report an error. If @node is %NULL, because the method that
 * should have made it failed, or the name cannot be taken, the graph remembers
 * an error, if it does not have one yet: [method@Rlx.Graph.check] and compiling
 * report it.
 *
 * Since: 1.0
 */
void
rlx_graph_output (RlxGraph   *self,
                  const char *name,
                  RlxNode    *node)
{
  g_autofree char *quoted = NULL;
  g_autofree char *what = NULL;

  g_return_if_fail (RLX_IS_GRAPH (self));
  g_return_if_fail (name != NULL);
  g_return_if_fail (node == NULL || RLX_IS_NODE (node));

  quoted = rlx_quote_text (name, -1);
  what = g_strconcat ("output ", quoted, NULL);

  if (!check_editable (self, what, NULL))
    return;

  if (node == NULL)
    {
      graph_note_null (self, what, "node");
      return;
    }

  if (!check_name (self, "output", name, self->output_names, NULL) ||
      !check_owner (self, what, "node", node, NULL))
    return;

  rlx_ir_add_output (self->ir, name, rlx_node_get_value (node));
  g_hash_table_insert (self->output_names, g_strdup (name), node);
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
 * This is for programs that read graphs; in others, the methods of
 * [class@Rlx.Node] and of the graph, one for each operator, read better.
 *
 * Operands that are optional may be %NULL, and may be left out at the end.
 * JavaScript has no way to hand over a `null` in an array: there, use the method
 * of the operator.
 *
 * Attributes that have a default may be left out. Their values are, by the type
 * of the attribute:
 *
 * - a boolean: `b`
 * - an integer: any of the integer types of [struct@GLib.Variant]
 * - a number: `d`, or an integer
 * - a choice: `s`, the short name of the value
 * - a data type: `s`, as [func@Rlx.DataType.to_string] gives it
 * - a list of integers: an array of integers, of variants with integers, or any
 *   empty array
 *
 * A floating @attributes is taken over.
 *
 * Returns: (array length=n_outputs) (transfer container) (nullable): the
 *   results; %NULL with @error set on failure, and %NULL alone when a required
 *   operand is %NULL
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
  RlxAttrValue *attrs;
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

      graph_fail_printf (self, error, RLX_GRAPH_ERROR_NOT_FOUND,
                         "There is no operator %s%s%s%s", quoted,
                         close != NULL ? "; did you mean “" : "", close != NULL ? close : "", close != NULL ? "”?" : "");
      return NULL;
    }

  if (row->flags & RLX_OP_LEAF)
    {
      graph_fail_printf (self, error, RLX_GRAPH_ERROR_UNSUPPORTED,
                         "“%s” cannot be added as an operator: use rlx_graph_%s()", row->name, row->name);
      return NULL;
    }

  attrs = rlx_attrs_new_from_variant (row, sunk, &failure);
  if (attrs == NULL)
    {
      graph_fail (self, failure, error);
      return NULL;
    }

  return rlx_graph_call_many (self, row, inputs, n_inputs, attrs, n_outputs, error);
}

/* ---- looking at it ----------------------------------------------------------------------- */

/**
 * rlx_graph_check:
 * @self: a graph
 * @error: where to store an error
 *
 * Reports the first error in building the graph that was not reported when it
 * happened, because the call had no place for it.
 *
 * [method@Device.compile] fails with the same error.
 *
 * Returns: true if there was none
 *
 * Since: 1.0
 */
gboolean
rlx_graph_check (RlxGraph  *self,
                 GError   **error)
{
  g_return_val_if_fail (RLX_IS_GRAPH (self), FALSE);

  if (self->error == NULL)
    return TRUE;

  if (error != NULL && *error == NULL)
    *error = g_error_copy (self->error);

  return FALSE;
}

/**
 * rlx_graph_get_input_names:
 * @self: a graph
 *
 * Gets the names of the inputs, in the order in which they were added.
 *
 * Parameters and states are not among them.
 *
 * Returns: (transfer full) (array zero-terminated=1): the names
 *
 * Since: 1.0
 */
char **
rlx_graph_get_input_names (RlxGraph *self)
{
  g_autoptr(GStrvBuilder) names = NULL;

  g_return_val_if_fail (RLX_IS_GRAPH (self), NULL);

  names = g_strv_builder_new ();
  for (guint i = 0; i < self->ir->nodes->len; i++)
    {
      const RlxIrNode *ir_node = g_ptr_array_index (self->ir->nodes, i);

      if (ir_node->op == &rlx_op_input)
        g_strv_builder_add (names, ir_node->name);
    }

  return g_strv_builder_end (names);
}

/**
 * rlx_graph_get_output_names:
 * @self: a graph
 *
 * Gets the names of the outputs, in the order in which they were added.
 *
 * Returns: (transfer full) (array zero-terminated=1): the names
 *
 * Since: 1.0
 */
char **
rlx_graph_get_output_names (RlxGraph *self)
{
  g_autoptr(GStrvBuilder) names = NULL;

  g_return_val_if_fail (RLX_IS_GRAPH (self), NULL);

  names = g_strv_builder_new ();
  for (guint i = 0; i < self->ir->outputs->len; i++)
    g_strv_builder_add (names, g_array_index (self->ir->outputs, RlxIrOutput, i).name);

  return g_strv_builder_end (names);
}

/**
 * rlx_graph_get_output:
 * @self: a graph
 * @name: the name of an output
 *
 * Gets the value that comes out under a name.
 *
 * Returns: (transfer none) (nullable): the node, or %NULL if there is no such
 *   output
 *
 * Since: 1.0
 */
RlxNode *
rlx_graph_get_output (RlxGraph   *self,
                      const char *name)
{
  g_return_val_if_fail (RLX_IS_GRAPH (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);

  return g_hash_table_lookup (self->output_names, name);
}

/**
 * rlx_graph_lookup:
 * @self: a graph
 * @name: the name of an input, a parameter, a state or an output
 *
 * Finds a node by its name.
 *
 * If there are both an input, parameter or state and an output of the name, the
 * output comes second. Labels set with [method@Rlx.Node.set_name] do not count.
 *
 * Returns: (transfer none) (nullable): the node, or %NULL if there is none
 *
 * Since: 1.0
 */
RlxNode *
rlx_graph_lookup (RlxGraph   *self,
                  const char *name)
{
  RlxNode *node;

  g_return_val_if_fail (RLX_IS_GRAPH (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);

  node = g_hash_table_lookup (self->leaf_names, name);

  return node != NULL ? node : g_hash_table_lookup (self->output_names, name);
}

/**
 * rlx_graph_to_text:
 * @self: a graph
 *
 * Writes the graph as text.
 *
 * The text has one line for each node, output and assignment:
 *
 * ```
 * rlx 1
 * %0 = input "x" f32[2, 3]
 * %1 = constant f32[3, 2] [1, 0, 0, 1, 1, 1]
 * %2 = matmul(%0, %1)
 * %3 = layer_norm(%2, _, _) {epsilon = 0.001} "a label"
 * output "y" %3
 * ```
 *
 * [ctor@Rlx.Graph.new_from_text] makes the same graph from it, bit for bit. The
 * values of parameters are not part of a graph, and so not of the text.
 *
 * Returns: (transfer full): the text
 *
 * Since: 1.0
 */
char *
rlx_graph_to_text (RlxGraph *self)
{
  g_return_val_if_fail (RLX_IS_GRAPH (self), NULL);

  return rlx_ir_to_text (self->ir);
}

/**
 * rlx_graph_to_dot:
 * @self: a graph
 *
 * Writes the graph in the language of Graphviz, to make a picture of it.
 *
 * Returns: (transfer full): the text
 *
 * Since: 1.0
 */
char *
rlx_graph_to_dot (RlxGraph *self)
{
  g_return_val_if_fail (RLX_IS_GRAPH (self), NULL);

  return rlx_ir_to_dot (self->ir);
}
