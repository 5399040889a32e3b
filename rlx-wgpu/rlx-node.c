/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-node.h"

#include "rlx-enum-types.h"
#include "rlx-graph-private.h"

#include <string.h>

/**
 * RlxNode:
 *
 * A value in a [class@Rlx.Graph]: an input, or the result of an operator.
 *
 * Nodes are created by methods of [class@Rlx.Graph] and by the methods of this class,
 * one for each operator, so expressions can be nested:
 *
 * ```c
 * RlxNode *y = rlx_node_relu (rlx_node_matmul (x, w, NULL, &error), &error);
 * ```
 *
 * An operator method returns `NULL` with an error if its operands are invalid, and
 * `NULL` without one if a required operand is `NULL`. An error that is already stored
 * in @error stays there. A chain of calls therefore needs only one check at the end,
 * which shows what went wrong first.
 *
 * Nodes belong to their graph: methods return them without a reference, so C code has
 * nothing to unref. A reference to a node also keeps its graph alive. A node created by
 * `g_object_new()` belongs to no graph, and operators reject it.
 *
 * Several threads may use a node at the same time, like its graph.
 *
 * Since: 1.0
 */

/* Of a label, in bytes. */
#define MAX_NAME_LENGTH 255

struct _RlxNode
{
  GObject parent_instance;

  RlxGraph *graph;     /* not a reference; NULL if created by plain g_object_new() */
  RlxIrValue *value;   /* likewise */
  const RlxOp *op;
  /* A copy, so that the pointer returned by rlx_node_get_shape() stays valid. */
  RlxTensorType type;

  /* Created on demand, as neither changes. */
  RlxNode **inputs;        /* under the graph's mutex */
  GVariant *attributes;    /* atomic */

  /* Only once the graph is gone; before, the IR has them. */
  char *name;
  gpointer attrs;
};

enum
{
  PROP_0,
  PROP_OP,
  PROP_NAME,
  PROP_DATA_TYPE,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

G_DEFINE_FINAL_TYPE (RlxNode, rlx_node, G_TYPE_OBJECT)

static void
rlx_node_finalize (GObject *object)
{
  RlxNode *self = RLX_NODE (object);

  g_free (self->inputs);
  g_clear_pointer (&self->attributes, g_variant_unref);

  G_OBJECT_CLASS (rlx_node_parent_class)->finalize (object);
}

static void
rlx_node_get_property (GObject    *object,
                       guint       prop_id,
                       GValue     *value,
                       GParamSpec *pspec)
{
  RlxNode *self = RLX_NODE (object);

  switch (prop_id)
    {
    case PROP_OP:
      g_value_set_string (value, rlx_node_get_op (self));
      break;

    case PROP_NAME:
      g_value_set_string (value, rlx_node_get_name (self));
      break;

    case PROP_DATA_TYPE:
      g_value_set_enum (value, self->type.data_type);
      break;

    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, prop_id, pspec);
      break;
    }
}

static void
rlx_node_class_init (RlxNodeClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->finalize = rlx_node_finalize;
  object_class->get_property = rlx_node_get_property;

  /**
   * RlxNode:op: (getter get_op)
   *
   * The name of the operator.
   *
   * Since: 1.0
   */
  properties[PROP_OP] =
    g_param_spec_string ("op", NULL, NULL, NULL, flags);

  /**
   * RlxNode:name: (getter get_name)
   *
   * The name of an input, parameter or state, or the label of any other node.
   *
   * Since: 1.0
   */
  properties[PROP_NAME] =
    g_param_spec_string ("name", NULL, NULL, NULL, flags);

  /**
   * RlxNode:data-type: (getter get_data_type)
   *
   * The type of the value's elements.
   *
   * Since: 1.0
   */
  properties[PROP_DATA_TYPE] =
    g_param_spec_enum ("data-type", NULL, NULL, RLX_TYPE_DATA_TYPE, RLX_DATA_TYPE_F32, flags);

  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
rlx_node_init (RlxNode *self)
{
  /* Until rlx_node_new() sets it. */
  self->op = &rlx_op_constant;
}

RlxNode *
rlx_node_new (RlxGraph   *graph,
              RlxIrValue *value)
{
  RlxNode *self = g_object_new (RLX_TYPE_NODE, NULL);

  self->graph = graph;
  self->value = value;
  self->op = value->node->op;
  self->type = value->type;

  return self;
}

RlxIrValue *
rlx_node_get_value (RlxNode *self)
{
  return self->value;
}

/**
 * rlx_node_get_op: (get-property op)
 * @self: a node
 *
 * Gets the name of the operator that computes the node.
 *
 * For nodes that are not computed it is `input`, `parameter`, `constant` or `state`.
 *
 * Returns: (transfer none): the name of the operator
 *
 * Since: 1.0
 */
const char *
rlx_node_get_op (RlxNode *self)
{
  g_return_val_if_fail (RLX_IS_NODE (self), NULL);

  return self->op->name;
}

static gboolean
has_fixed_name (const RlxOp *op)
{
  return (op->flags & RLX_OP_LEAF) != 0 && op != &rlx_op_constant;
}

/**
 * rlx_node_get_name: (get-property name)
 * @self: a node
 *
 * Gets the name of an input, parameter or state, or the label of any other node.
 *
 * Returns: (transfer none) (nullable): the name, or %NULL if there is none
 *
 * Since: 1.0
 */
const char *
rlx_node_get_name (RlxNode *self)
{
  g_autoptr(GMutexLocker) locker = NULL;

  g_return_val_if_fail (RLX_IS_NODE (self), NULL);

  if (self->value == NULL)
    return NULL;

  locker = g_mutex_locker_new (&self->graph->mutex);

  return self->value->node->name;
}

/**
 * rlx_node_set_name:
 * @self: a node
 * @name: (nullable): a label, or %NULL for none
 *
 * Sets the label of a node.
 *
 * The label helps people to recognise the node: it appears in error messages, in the
 * text form of the graph and in profiles. It has no meaning to the library and need not
 * be unique. All results of one operator share a label.
 *
 * A label has at most 255 bytes of UTF-8. Longer ones are truncated, and bytes that are
 * not valid UTF-8 are replaced.
 *
 * Inputs, parameters and states keep the name they were created with: for them this
 * method does nothing.
 *
 * Since: 1.0
 */
void
rlx_node_set_name (RlxNode    *self,
                   const char *name)
{
  g_autofree RlxNode **renamed = NULL;
  g_autofree char *label = NULL;
  RlxIrNode *node;

  g_return_if_fail (RLX_IS_NODE (self));

  if (self->value == NULL)
    return;

  node = self->value->node;
  if (has_fixed_name (node->op))
    return;

  if (name != NULL && *name != '\0')
    {
      const char *end;

      /* Replacing makes it longer: truncated afterwards, at the start of a character. */
      label = g_utf8_make_valid (name, (gssize) strnlen (name, 4 * MAX_NAME_LENGTH));
      end = label + strnlen (label, MAX_NAME_LENGTH + 1);
      if (end - label > MAX_NAME_LENGTH)
        end = g_utf8_find_prev_char (label, end);
      label[end - label] = '\0';
    }

  g_mutex_lock (&self->graph->mutex);
  if (g_strcmp0 (node->name, label) != 0)
    {
      if (node->name != NULL)
        g_ptr_array_add (self->graph->old_labels, node->name);
      node->name = g_steal_pointer (&label);
      renamed = g_new0 (RlxNode *, node->n_outputs);
      for (guint i = 0; i < node->n_outputs; i++)
        renamed[i] = rlx_graph_get_node (self->graph, &node->outputs[i]);
    }
  g_mutex_unlock (&self->graph->mutex);

  for (guint i = 0; renamed != NULL && i < node->n_outputs; i++)
    g_object_notify_by_pspec (G_OBJECT (renamed[i]), properties[PROP_NAME]);
}

/**
 * rlx_node_get_data_type: (get-property data-type)
 * @self: a node
 *
 * Gets the type of the value's elements.
 *
 * Returns: the data type
 *
 * Since: 1.0
 */
RlxDataType
rlx_node_get_data_type (RlxNode *self)
{
  g_return_val_if_fail (RLX_IS_NODE (self), RLX_DATA_TYPE_F32);

  return self->type.data_type;
}

/**
 * rlx_node_get_n_dims:
 * @self: a node
 *
 * Gets the number of dimensions of the value.
 *
 * Returns: the number of dimensions; 0 for a scalar
 *
 * Since: 1.0
 */
guint
rlx_node_get_n_dims (RlxNode *self)
{
  g_return_val_if_fail (RLX_IS_NODE (self), 0);

  return self->type.n_dims;
}

/**
 * rlx_node_get_shape:
 * @self: a node
 * @n_dims: (out) (optional): where to store the number of dimensions
 *
 * Gets the shape of the value.
 *
 * Returns: (array length=n_dims) (transfer none): the size of each dimension
 *
 * Since: 1.0
 */
const gint64 *
rlx_node_get_shape (RlxNode *self,
                    gsize   *n_dims)
{
  if (n_dims != NULL)
    *n_dims = 0;

  g_return_val_if_fail (RLX_IS_NODE (self), NULL);

  if (n_dims != NULL)
    *n_dims = self->type.n_dims;

  return self->type.shape;
}

/**
 * rlx_node_get_inputs:
 * @self: a node
 * @n_inputs: (out) (optional): where to store the number of operands
 *
 * Gets the operands of the node, in the order in which the operator takes them.
 *
 * An optional operand that was left out is %NULL.
 *
 * Returns: (array length=n_inputs) (transfer none): the operands
 *
 * Since: 1.0
 */
RlxNode **
rlx_node_get_inputs (RlxNode *self,
                     gsize   *n_inputs)
{
  g_autoptr(GMutexLocker) locker = NULL;
  static RlxNode *none[1] = { NULL };
  const RlxIrNode *node;

  if (n_inputs != NULL)
    *n_inputs = 0;

  g_return_val_if_fail (RLX_IS_NODE (self), NULL);

  if (self->value == NULL)
    return none;

  locker = g_mutex_locker_new (&self->graph->mutex);
  node = self->value->node;
  if (self->inputs == NULL)
    {
      self->inputs = g_new0 (RlxNode *, (gsize) node->n_inputs + 1);
      for (guint i = 0; i < node->n_inputs; i++)
        if (node->inputs[i] != NULL)
          self->inputs[i] = rlx_graph_get_node (self->graph, node->inputs[i]);
    }

  if (n_inputs != NULL)
    *n_inputs = node->n_inputs;

  return self->inputs;
}

/**
 * rlx_node_get_attributes:
 * @self: a node
 *
 * Gets the attributes of the node, including those that have their default value.
 *
 * The dictionary can be passed to [method@Rlx.Graph.add_op].
 *
 * Returns: (transfer none): a dictionary of type `a{sv}`
 *
 * Since: 1.0
 */
GVariant *
rlx_node_get_attributes (RlxNode *self)
{
  g_return_val_if_fail (RLX_IS_NODE (self), NULL);

  if (g_atomic_pointer_get (&self->attributes) == NULL)
    {
      GVariant *attributes = rlx_attrs_to_variant (self->op, self->value != NULL ? self->value->node->attrs : NULL);

      if (!g_atomic_pointer_compare_and_exchange (&self->attributes, NULL, attributes))
        g_variant_unref (attributes);
    }

  return g_atomic_pointer_get (&self->attributes);
}

/**
 * rlx_node_get_tensor:
 * @self: a node
 *
 * Gets the value of a constant, or the initial value of a state.
 *
 * Other nodes have no value before a run.
 *
 * Returns: (transfer none) (nullable): the tensor, or %NULL if there is none
 *
 * Since: 1.0
 */
RlxTensor *
rlx_node_get_tensor (RlxNode *self)
{
  g_return_val_if_fail (RLX_IS_NODE (self), NULL);

  return self->value != NULL ? self->value->node->data : NULL;
}

/**
 * rlx_node_get_result:
 * @self: a node
 *
 * Gets which of its operator's results the node is.
 *
 * It can only be greater than 0 for operators that have several results, such as
 * `split`.
 *
 * Returns: the index, 0 for the first result
 *
 * Since: 1.0
 */
guint
rlx_node_get_result (RlxNode *self)
{
  g_return_val_if_fail (RLX_IS_NODE (self), 0);

  return self->value != NULL ? self->value->index : 0;
}

/**
 * rlx_node_get_graph:
 * @self: a node
 *
 * Gets the graph the node belongs to.
 *
 * Returns: (transfer none) (nullable): the graph, or %NULL if the node was created
 *   without one
 *
 * Since: 1.0
 */
RlxGraph *
rlx_node_get_graph (RlxNode *self)
{
  g_return_val_if_fail (RLX_IS_NODE (self), NULL);

  return self->graph;
}

/* Labels change, and reading one takes the graph's lock. The rest stays as it is. */
static char *
describe (RlxNode *self,
          gboolean with_label)
{
  g_autofree char *type = rlx_type_to_string (&self->type);
  GString *text;

  if (self->value == NULL)
    return g_strdup_printf ("%s: %s", self->op->name, type);

  text = g_string_new (NULL);
  g_string_append_printf (text, "%%%u = ", self->value->id);
  if (with_label || has_fixed_name (self->op))
    rlx_ir_append_call (text, self->value->node);
  else
    g_string_append (text, self->op->name);
  if (self->value->node->n_outputs > 1)
    g_string_append_printf (text, "[%u]", self->value->index);
  g_string_append_printf (text, ": %s", type);

  return g_string_free (text, FALSE);
}

char *
rlx_node_describe_fixed (RlxNode *self)
{
  return describe (self, FALSE);
}

/**
 * rlx_node_to_string:
 * @self: a node
 *
 * Describes the node in a line of text, for display: `%3 = matmul(%1, %2): f32[2, 2]`.
 *
 * The numbers are those of the text form of the graph, see
 * [method@Rlx.Graph.to_text].
 *
 * Returns: (transfer full): the text
 *
 * Since: 1.0
 */
char *
rlx_node_to_string (RlxNode *self)
{
  g_autoptr(GMutexLocker) locker = NULL;

  g_return_val_if_fail (RLX_IS_NODE (self), NULL);

  if (self->graph != NULL)
    locker = g_mutex_locker_new (&self->graph->mutex);

  return describe (self, TRUE);
}
