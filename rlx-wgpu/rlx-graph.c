/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-graph.h"

#include "rlx-enum-types.h"
#include "rlx-graph-private.h"
#include "passes/rlx-passes-private.h"
#include "util/rlx-debug-private.h"

#include <string.h>

/**
 * RlxGraph:
 *
 * A computation on tensors: inputs, operators, and outputs.
 *
 * A graph is built by adding nodes to it, and then compiled for a device with
 * [method@Rlx.Device.compile]. Data types and shapes are checked when a node is added,
 * so a mistake is reported where it is made.
 *
 * ```c
 * g_autoptr(RlxGraph) graph = rlx_graph_new ();
 * const gint64 shape[] = { 2, 3 };
 * RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, shape, 2, &error);
 * RlxNode *w = rlx_graph_constant (graph, weights, &error);
 *
 * rlx_graph_output (graph, "y", rlx_node_relu (rlx_node_matmul (x, w, NULL, &error), &error), &error);
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
 * Every method that adds to the graph can fail with [error@Rlx.GraphError]. A call that
 * returns an error leaves the graph unchanged. If @error was `NULL`, the graph
 * remembers the first such failure, and [method@Rlx.Graph.check] and compiling report
 * it, so a program that ignores errors never runs an incomplete graph. A required node
 * that is `NULL` is taken for the result of a call that failed: the method fails
 * without setting @error, and the graph remembers that unless it already remembers a
 * failure.
 *
 * In C, an error that is already stored in @error stays there, so a program may make
 * many calls and check for an error once. This only applies to functions that add to a
 * graph; all others follow the usual rule, and @error must not be set before the call.
 *
 * ## Nodes
 *
 * The graph owns its nodes, and is a [iface@Gio.ListModel] of them, in the order in
 * which they were added. Nodes cannot be removed. A reference to a node also keeps its
 * graph alive.
 *
 * Compiling uses the graph as it is at that moment. Nodes that are added later have no
 * effect on it.
 *
 * ## Threads
 *
 * Several threads may use a graph and its nodes at the same time. Signals are emitted
 * in the thread that caused them.
 *
 * Since: 1.0
 */

/* Of the names of inputs and outputs, in bytes. */
#define MAX_NAME_LENGTH 255
#define MAX_VALUES G_MAXINT32

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

/* A node keeps its graph alive while others hold references to it, but not if only the
 * graph does, or neither would ever be freed. */
static void
on_toggle (gpointer  data,
           GObject  *node G_GNUC_UNUSED,
           gboolean  is_last)
{
  if (is_last)
    g_object_unref (data);
  else
    g_object_ref (data);
}

static void
rlx_graph_finalize (GObject *object)
{
  RlxGraph *self = RLX_GRAPH (object);

  /* Nobody else has a reference to any of them, or the graph would still be alive. */
  for (guint i = 0; i < self->nodes->len; i++)
    g_object_remove_toggle_ref (g_ptr_array_index (self->nodes, i), on_toggle, self);
  g_ptr_array_unref (self->nodes);
  g_hash_table_unref (self->leaf_names);
  g_hash_table_unref (self->output_names);
  g_hash_table_unref (self->assigned);
  g_array_unref (self->result_types);
  g_ptr_array_unref (self->old_labels);
  g_clear_error (&self->error);
  rlx_ir_free (self->ir);
  g_mutex_clear (&self->mutex);

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
rlx_graph_class_init (RlxGraphClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->finalize = rlx_graph_finalize;
  object_class->get_property = rlx_graph_get_property;

  /**
   * RlxGraph:precision:
   *
   * How exact its matrix products are, unless the compile options say otherwise.
   *
   * Since: 1.0
   */
  properties[PROP_PRECISION] = g_param_spec_enum ("precision", NULL, NULL, RLX_TYPE_PRECISION, RLX_PRECISION_FULL,
                                                  G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);
  g_object_class_install_properties (object_class, N_PROPS, properties);

  items_changed_id = g_signal_lookup ("items-changed", G_TYPE_LIST_MODEL);
}

static void
rlx_graph_init (RlxGraph *self)
{
  g_mutex_init (&self->mutex);
  self->ir = rlx_ir_new ();
  self->nodes = g_ptr_array_new ();
  self->leaf_names = g_hash_table_new (g_str_hash, g_str_equal);
  self->output_names = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->assigned = g_hash_table_new (NULL, NULL);
  self->result_types = g_array_new (FALSE, FALSE, sizeof (RlxTensorType));
  self->old_labels = g_ptr_array_new_with_free_func (g_free);
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
  RlxGraph *self = RLX_GRAPH (list);
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new (&self->mutex);

  return self->nodes->len;
}

static gpointer
list_model_get_item (GListModel *list,
                     guint       position)
{
  RlxGraph *self = RLX_GRAPH (list);
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new (&self->mutex);

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

/* ---- locking --------------------------------------------------------------- */

RlxGraphLock *
rlx_graph_lock (RlxGraph *self)
{
  g_mutex_lock (&self->mutex);

  return self;
}

void
rlx_graph_unlock (RlxGraphLock *lock)
{
  RlxGraph *self = lock;

  /* Few programs watch a graph being built, and a signal costs more than the node. */
  if (self->n_told < self->nodes->len && !g_signal_has_handler_pending (self, items_changed_id, 0, FALSE))
    self->n_told = self->nodes->len;

  /* Nodes added meanwhile, by a handler or another thread, are announced next:
   * listeners rely on the order of changes. */
  if (self->n_told < self->nodes->len && !self->telling)
    {
      g_object_ref (self);
      self->telling = TRUE;
      while (self->n_told < self->nodes->len)
        {
          guint position = self->n_told;
          guint n_added = self->nodes->len - position;

          self->n_told += n_added;
          g_mutex_unlock (&self->mutex);
          g_list_model_items_changed (G_LIST_MODEL (self), position, 0, n_added);
          g_mutex_lock (&self->mutex);
        }
      self->telling = FALSE;
      g_mutex_unlock (&self->mutex);
      g_object_unref (self);
    }
  else
    g_mutex_unlock (&self->mutex);
}

/* ---- errors ----------------------------------------------------------------- */

void
rlx_graph_fail (RlxGraph *self,
                GError   *failure,
                GError  **error)
{
  /* A caller that gets the error can continue without the failed call. An error that
   * nobody gets is remembered, or an incomplete graph would be compiled. */
  if (self != NULL && self->error == NULL && (error == NULL || *error != NULL))
    self->error = g_error_copy (failure);

  /* Calls may be chained without checking for errors in between. */
  if (error != NULL && *error == NULL)
    g_propagate_error (error, failure);
  else
    g_error_free (failure);
}

void
rlx_graph_fail_printf (RlxGraph      *self,
                       GError       **error,
                       RlxGraphError  code,
                       const char    *format,
                       ...)
{
  va_list args;

  va_start (args, format);
  rlx_graph_fail (self, g_error_new_valist (RLX_GRAPH_ERROR, code, format, args), error);
  va_end (args);
}

void
rlx_graph_note_null (RlxGraph   *self,
                     const char *what,
                     const char *name)
{
  if (self == NULL || self->error != NULL)
    return;

  self->error = g_error_new (RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                             "%s: operand “%s” is NULL", what, name);
}

gboolean
rlx_graph_check_name (RlxGraph   *self,
                      const char *what,
                      const char *name,
                      GHashTable *taken,
                      GError    **error)
{
  gsize length = strlen (name);
  g_autofree char *quoted = NULL;

  if (length == 0)
    {
      rlx_graph_fail_printf (self, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "%s: the name is empty", what);
      return FALSE;
    }

  if (length > MAX_NAME_LENGTH)
    {
      quoted = rlx_quote_text (name, (gssize) length);
      rlx_graph_fail_printf (self, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                             "%s: the name %s has %" G_GSIZE_FORMAT " bytes; the limit is %d",
                             what, quoted, length, MAX_NAME_LENGTH);
      return FALSE;
    }

  if (!g_utf8_validate_len (name, length, NULL))
    {
      quoted = rlx_quote_text (name, (gssize) length);
      rlx_graph_fail_printf (self, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                             "%s: the name %s is not valid UTF-8", what, quoted);
      return FALSE;
    }

  if (g_hash_table_contains (taken, name))
    {
      quoted = rlx_quote_text (name, (gssize) length);
      rlx_graph_fail_printf (self, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                             "%s: the name %s is already taken%s", what, quoted,
                             taken == self->output_names ? " by an output" : " by an input, a parameter or a state");
      return FALSE;
    }

  return TRUE;
}

gboolean
rlx_graph_check_owner (RlxGraph   *self,
                       const char *what,
                       const char *operand,
                       RlxNode    *node,
                       GError    **error)
{
  g_autofree char *text = NULL;

  if (rlx_node_get_graph (node) == self)
    return TRUE;

  text = rlx_node_describe_fixed (node);
  if (rlx_node_get_graph (node) == NULL)
    rlx_graph_fail_printf (self, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "%s: operand “%s” (%s) belongs to no graph", what, operand, text);
  else
    rlx_graph_fail_printf (self, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "%s: operand “%s” (%s) belongs to another graph", what, operand, text);

  return FALSE;
}

/**
 * rlx_graph_get_precision: (get-property precision)
 * @self: a graph
 *
 * Gets how exact the graph's matrix products are, unless
 * [property@Rlx.CompileOptions:precision] says otherwise.
 *
 * It is full, unless the graph was read from a text that asks for another precision.
 *
 * Returns: the precision
 *
 * Since: 1.0
 */
RlxPrecision
rlx_graph_get_precision (RlxGraph *self)
{
  g_autoptr(GMutexLocker) locker = NULL;

  g_return_val_if_fail (RLX_IS_GRAPH (self), RLX_PRECISION_FULL);

  locker = g_mutex_locker_new (&self->mutex);

  return self->ir->precision;
}

void
rlx_graph_set_default_precision (RlxGraph     *self,
                                 RlxPrecision  precision)
{
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new (&self->mutex);

  self->ir->precision = precision;
}

/* ---- adding nodes -------------------------------------------------------------- */

void
rlx_graph_add_nodes (RlxGraph  *self,
                     RlxIrNode *ir_node)
{
  for (guint i = 0; i < ir_node->n_outputs; i++)
    {
      RlxNode *node = rlx_node_new (self, &ir_node->outputs[i]);

      /* Up to here ours is a reference like any other, so the node keeps the graph
       * alive: dropping it ends that. */
      g_object_ref (self);
      g_object_add_toggle_ref (G_OBJECT (node), on_toggle, self);
      g_ptr_array_add (self->nodes, node);
      g_object_unref (node);
    }
}

gboolean
rlx_graph_check_room (RlxGraph   *self,
                      const char *what,
                      guint       n_values,
                      GError    **error)
{
  if (n_values <= MAX_VALUES - self->ir->n_values)
    return TRUE;

  rlx_graph_fail_printf (self, error, RLX_GRAPH_ERROR_LIMIT,
                         "%s: the graph has %u values; the limit is %d", what, self->ir->n_values, MAX_VALUES);

  return FALSE;
}

/* ---- for the compiler ----------------------------------------------------------- */

static gboolean
check_locked (RlxGraph *self,
              GError  **error)
{
  if (self->error != NULL && error != NULL && *error == NULL)
    *error = g_error_copy (self->error);

  return self->error == NULL;
}

RlxIr *
rlx_graph_copy_ir (RlxGraph *self,
                   GError  **error)
{
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new (&self->mutex);
  g_autofree RlxIrValue **map = NULL;
  RlxIr *copy;

  if (!check_locked (self, error))
    return NULL;

  copy = rlx_ir_new ();
  map = g_new0 (RlxIrValue *, (gsize) self->ir->n_values + 1);
  for (guint i = 0; i < self->ir->nodes->len; i++)
    rlx_ir_copy_node (copy, g_ptr_array_index (self->ir->nodes, i), map);
  rlx_ir_copy_results (copy, self->ir, map);

  return copy;
}

const RlxIr *
rlx_graph_peek_ir (RlxGraph *self,
                   GError  **error)
{
  return rlx_graph_check (self, error) ? self->ir : NULL;
}

RlxNode *
rlx_graph_get_node (RlxGraph         *self,
                    const RlxIrValue *value)
{
  return g_ptr_array_index (self->nodes, value->id);
}

/* ---- construction ----------------------------------------------------------------- */

/**
 * rlx_graph_new:
 *
 * Creates an empty graph.
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
 * Creates a graph from its text form, as written by [method@Rlx.Graph.to_text].
 *
 * The text is checked just like method calls. Errors name the line; if the text itself
 * is wrong, the error is %RLX_GRAPH_ERROR_PARSE and also names the column. It is safe
 * to read text from untrusted sources.
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

/* ---- inspection -------------------------------------------------------------------------- */

/**
 * rlx_graph_check:
 * @self: a graph
 * @error: where to store an error
 *
 * Reports the first error that occurred while the graph was built and was not returned
 * then, because @error was `NULL`.
 *
 * [method@Device.compile] fails with the same error.
 *
 * Returns: %TRUE if there was none
 *
 * Since: 1.0
 */
gboolean
rlx_graph_check (RlxGraph  *self,
                 GError   **error)
{
  g_autoptr(GMutexLocker) locker = NULL;

  g_return_val_if_fail (RLX_IS_GRAPH (self), FALSE);

  locker = g_mutex_locker_new (&self->mutex);

  return check_locked (self, error);
}

/**
 * rlx_graph_dup_input_names:
 * @self: a graph
 *
 * Lists the names of the inputs, in the order in which they were added.
 *
 * Parameters and states are not included.
 *
 * Returns: (transfer full) (array zero-terminated=1): the names
 *
 * Since: 1.0
 */
char **
rlx_graph_dup_input_names (RlxGraph *self)
{
  g_autoptr(GMutexLocker) locker = NULL;
  g_autoptr(GStrvBuilder) names = NULL;

  g_return_val_if_fail (RLX_IS_GRAPH (self), NULL);

  locker = g_mutex_locker_new (&self->mutex);
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
 * rlx_graph_dup_output_names:
 * @self: a graph
 *
 * Lists the names of the outputs, in the order in which they were added.
 *
 * Returns: (transfer full) (array zero-terminated=1): the names
 *
 * Since: 1.0
 */
char **
rlx_graph_dup_output_names (RlxGraph *self)
{
  g_autoptr(GMutexLocker) locker = NULL;
  g_autoptr(GStrvBuilder) names = NULL;

  g_return_val_if_fail (RLX_IS_GRAPH (self), NULL);

  locker = g_mutex_locker_new (&self->mutex);
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
 * Gets the value of an output.
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
  g_autoptr(GMutexLocker) locker = NULL;

  g_return_val_if_fail (RLX_IS_GRAPH (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);

  locker = g_mutex_locker_new (&self->mutex);

  return g_hash_table_lookup (self->output_names, name);
}

/**
 * rlx_graph_lookup:
 * @self: a graph
 * @name: the name of an input, a parameter, a state or an output
 *
 * Finds a node by its name.
 *
 * Inputs, parameters and states take precedence over outputs. Labels set with
 * [method@Rlx.Node.set_name] do not count.
 *
 * Returns: (transfer none) (nullable): the node, or %NULL if there is none
 *
 * Since: 1.0
 */
RlxNode *
rlx_graph_lookup (RlxGraph   *self,
                  const char *name)
{
  g_autoptr(GMutexLocker) locker = NULL;
  RlxNode *node;

  g_return_val_if_fail (RLX_IS_GRAPH (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);

  locker = g_mutex_locker_new (&self->mutex);
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
 * [ctor@Rlx.Graph.new_from_text] creates the same graph from it, bit for bit. The
 * values of parameters are not part of a graph, so they are not part of the text
 * either.
 *
 * Returns: (transfer full): the text
 *
 * Since: 1.0
 */
char *
rlx_graph_to_text (RlxGraph *self)
{
  g_autoptr(GMutexLocker) locker = NULL;

  g_return_val_if_fail (RLX_IS_GRAPH (self), NULL);

  locker = g_mutex_locker_new (&self->mutex);

  return rlx_ir_to_text (self->ir);
}

/**
 * rlx_graph_to_dot:
 * @self: a graph
 *
 * Writes the graph in the language of Graphviz, so that it can be drawn.
 *
 * Returns: (transfer full): the text
 *
 * Since: 1.0
 */
char *
rlx_graph_to_dot (RlxGraph *self)
{
  g_autoptr(GMutexLocker) locker = NULL;

  g_return_val_if_fail (RLX_IS_GRAPH (self), NULL);

  locker = g_mutex_locker_new (&self->mutex);

  return rlx_ir_to_dot (self->ir);
}
