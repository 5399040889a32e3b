/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Names in an ONNX file: each is made once, and before it is used. Nodes may come in any
 * order, and some programs write them so.
 *
 * A file can have a million names of a few bytes. What is kept of one while it is looked
 * at is its place on the tape and a number.
 */
#include "config.h"

#include "formats/rlx-onnx-private.h"

#include <string.h>

#include "util/rlx-debug-private.h"

/* Instead of a node, for values that no node produces. */
#define TENSOR (G_MAXUINT32 - 1)
#define INPUT G_MAXUINT32

/* A name, and the node of the graph that produces it. */
typedef struct
{
  guint32 name;
  guint32 node;
} Definition;

/* A graph that is being checked, and the enclosing ones. */
typedef struct _Scope
{
  const struct _Scope *parent;
  RlxOnnx *onnx;
  GArray *definitions;       /* Definition; sorted by name once complete */
  GArray *nodes;             /* guint32, in the order of the file */
  GArray *inner;             /* Definition: a name of this graph that a graph in a node uses, and that node */
  GArray *captures;          /* guint32: names of enclosing scopes that are used in this one */
} Scope;

static const char *
get_name (const Scope *scope,
          guint32      place)
{
  return (const char *) scope->onnx->tape->bytes + place;
}

static guint32
get_place (const Scope *scope,
           const char  *name)
{
  return (guint32) ((const guint8 *) name - scope->onnx->tape->bytes);
}

static int
compare_definitions (gconstpointer a,
                     gconstpointer b,
                     gpointer      scope)
{
  const Definition *first = a, *second = b;
  int order = strcmp (get_name (scope, first->name), get_name (scope, second->name));

  return order != 0 ? order : first->node < second->node ? -1 : first->node > second->node;
}

static const Definition *
find_definition (const Scope *scope,
                 const char  *name)
{
  guint first = 0, end = scope->definitions->len;

  while (first < end)
    {
      guint middle = first + (end - first) / 2;
      const Definition *definition = &g_array_index (scope->definitions, Definition, middle);
      int order = strcmp (name, get_name (scope, definition->name));

      if (order == 0)
        return definition;
      if (order > 0)
        first = middle + 1;
      else
        end = middle;
    }
  return NULL;
}

static gboolean
is_around (const Scope *scope,
           const char  *name)
{
  for (scope = scope->parent; scope != NULL; scope = scope->parent)
    if (find_definition (scope, name) != NULL)
      return TRUE;
  return FALSE;
}

/* ---- definitions -------------------------------------------------------------------------- */

static void
define (Scope      *scope,
        const char *name,
        guint32     node)
{
  Definition definition = { get_place (scope, name), node };

  g_array_append_val (scope->definitions, definition);
}

/* Defines the outputs of a node, and checks that it has an operator. */
static gboolean
define_outputs (Scope                  *scope,
                const RlxProtobufValue *node,
                guint32                 index,
                GError                **error)
{
  const guint8 *at = node->message;
  const char *name = "", *op = "";
  RlxProtobufValue value;
  gboolean any = FALSE;

  while (rlx_protobuf_next (&at, &value))
    switch (value.number)
      {
      case 2:
        if (value.text[0] == '\0')
          break;
        any = TRUE;
        define (scope, value.text, index);
        break;
      case 3:
        name = value.text;
        break;
      case 4:
        op = value.text;
        break;
      default:
        break;
      }
  if (!any)
    {
      g_autofree char *described = rlx_onnx_node_to_string (op, name);

      return rlx_model_fail (error, RLX_MODEL_ERROR_PARSE, node->offset, "%s has no outputs", described);
    }
  return TRUE;
}

static gboolean
add_node (Scope                  *scope,
          const guint8           *start,
          const RlxProtobufValue *node,
          GError                **error)
{
  guint32 place = (guint32) (start - scope->onnx->tape->bytes);

  if (scope->onnx->n_nodes++ == RLX_ONNX_MAX_NODES)
    return rlx_model_fail (error, RLX_MODEL_ERROR_LIMIT, node->offset, "there are more than %d nodes", RLX_ONNX_MAX_NODES);
  g_array_append_val (scope->nodes, place);
  return define_outputs (scope, node, scope->nodes->len - 1, error);
}

/* Defines the name of a tensor, which those of a graph must have. */
static gboolean
define_tensor (Scope                  *scope,
               const RlxProtobufValue *message,
               GError                **error)
{
  RlxOnnxTensor tensor;

  if (!rlx_onnx_check_tensor (scope->onnx, message, &tensor, error))
    return FALSE;
  if (tensor.name == NULL || tensor.name[0] == '\0')
    return rlx_model_fail (error, RLX_MODEL_ERROR_PARSE, message->offset, "an initialiser has no name");
  define (scope, tensor.name, TENSOR);
  scope->onnx->n_tensors++;
  scope->onnx->n_tensor_bytes += tensor.length;
  return TRUE;
}

/* Tensors may also be listed as inputs: all of them in old files, default values in newer ones. All other names must be
 * unique. */
static gboolean
check_twice (Scope   *scope,
             GError **error)
{
  g_array_sort_with_data (scope->definitions, compare_definitions, scope);
  for (guint i = 1; i < scope->definitions->len; i++)
    {
      const Definition *a = &g_array_index (scope->definitions, Definition, i - 1), *b = a + 1;

      if (g_str_equal (get_name (scope, a->name), get_name (scope, b->name)) && !(a->node == TENSOR && b->node == INPUT))
        {
          g_autofree char *quoted = rlx_quote_text (get_name (scope, a->name), -1);

          g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_PARSE, "The name %s is given to two values", quoted);
          return FALSE;
        }
    }
  return TRUE;
}

/* ---- uses ----------------------------------------------------------------------------------- */

static gboolean check_graph (RlxOnnx      *onnx,
                             const guint8 *message,
                             guint64       place,
                             gboolean      is_function,
                             const Scope  *parent,
                             GArray       *captures,
                             GError      **error);

/* Looks up a name that is used, which the graph or an enclosing one must define. */
static gboolean
use (Scope             *scope,
     const char        *name,
     guint64            at,
     const Definition **definition,
     GError           **error)
{
  g_autofree char *quoted = NULL;

  *definition = find_definition (scope, name);
  if (*definition != NULL)
    return TRUE;
  if (is_around (scope, name))
    {
      guint32 place = get_place (scope, name);

      g_array_append_val (scope->captures, place);
      return TRUE;
    }
  quoted = rlx_quote_text (name, -1);
  return rlx_model_fail (error, RLX_MODEL_ERROR_PARSE, at, "nothing computes the value %s", quoted);
}

/* Checks an attribute of a node: its name must be unique and its contents valid. */
static gboolean
check_attribute (Scope                  *scope,
                 const RlxProtobufValue *message,
                 GPtrArray              *names,
                 GArray                 *captures,
                 GError                **error)
{
  RlxOnnxAttribute attribute;
  RlxProtobufValue value;
  RlxOnnxTensor tensor;

  rlx_onnx_get_attribute (message, &attribute);
  if (g_ptr_array_find_with_equal_func (names, attribute.name, g_str_equal, NULL))
    {
      g_autofree char *quoted = rlx_quote_text (attribute.name, -1);

      return rlx_model_fail (error, RLX_MODEL_ERROR_PARSE, message->offset, "a node has the attribute %s twice", quoted);
    }
  if (names->len == RLX_ONNX_MAX_ATTRIBUTES)
    return rlx_model_fail (error, RLX_MODEL_ERROR_LIMIT, message->offset, "a node has more than %d attributes", RLX_ONNX_MAX_ATTRIBUTES);
  g_ptr_array_add (names, (gpointer) attribute.name);
  if (attribute.kind != RLX_ONNX_ATTRIBUTE_TENSOR && attribute.kind != RLX_ONNX_ATTRIBUTE_GRAPH)
    return TRUE;
  if (!rlx_onnx_attribute_get_message (&attribute, &value))
    {
      g_autofree char *quoted = rlx_quote_text (attribute.name, -1);

      return attribute.reference != NULL ||
             rlx_model_fail (error, RLX_MODEL_ERROR_PARSE, message->offset, "the attribute %s has no value", quoted);
    }
  if (attribute.kind == RLX_ONNX_ATTRIBUTE_TENSOR)
    return rlx_onnx_check_tensor (scope->onnx, &value, &tensor, error);
  return check_graph (scope->onnx, value.message, value.offset, FALSE, scope, captures, error);
}

/* Checks that what a node uses is defined; clears @sorted if it is defined after the node. */
static gboolean
check_node (Scope    *scope,
            guint32   index,
            gboolean *sorted,
            GError  **error)
{
  const guint8 *at = scope->onnx->tape->bytes + g_array_index (scope->nodes, guint32, index);
  g_autoptr(GPtrArray) names = g_ptr_array_new ();
  g_autoptr(GArray) captures = g_array_new (FALSE, FALSE, sizeof (guint32));
  const Definition *definition;
  RlxProtobufValue node, value;

  rlx_protobuf_next (&at, &node);
  for (at = node.message; rlx_protobuf_next (&at, &value);)
    if (value.number == 1 && value.text[0] != '\0')
      {
        if (!use (scope, value.text, node.offset, &definition, error))
          return FALSE;
        *sorted = *sorted && (definition == NULL || definition->node >= TENSOR || definition->node < index);
      }
    else if (value.number == 5 && !check_attribute (scope, &value, names, captures, error))
      {
        return FALSE;
      }

  /* Names of this graph that graphs in the node use must be defined before the node as well. */
  for (guint i = 0; i < captures->len; i++)
    {
      Definition inner = { g_array_index (captures, guint32, i), index };

      if (!use (scope, get_name (scope, inner.name), node.offset, &definition, error))
        return FALSE;
      *sorted = *sorted && (definition == NULL || definition->node >= TENSOR || definition->node < index);
      g_array_append_val (scope->inner, inner);
    }
  return TRUE;
}

/* ---- order ------------------------------------------------------------------------------------ */

typedef struct
{
  guint32 *first;            /* by node: start of its list of users */
  guint32 *users;            /* NULL while they are counted */
  guint32 *missing;          /* by node: how many of its dependencies are not available yet */
} Order;

static void
add_user (const Scope *scope,
          Order       *order,
          const char  *name,
          guint32      user)
{
  const Definition *definition = find_definition (scope, name);

  if (definition == NULL || definition->node >= TENSOR)
    return;
  if (order->users != NULL)
    order->users[--order->first[definition->node]] = user;
  else
    {
      order->first[definition->node]++;
      order->missing[user]++;
    }
}

static void
add_users (const Scope *scope,
           Order       *order)
{
  for (guint32 i = 0; i < scope->nodes->len; i++)
    {
      const guint8 *at = scope->onnx->tape->bytes + g_array_index (scope->nodes, guint32, i);
      RlxProtobufValue node, value;

      rlx_protobuf_next (&at, &node);
      while (rlx_protobuf_next (&node.message, &value))
        if (value.number == 1)
          add_user (scope, order, value.text, i);
    }
  for (guint i = 0; i < scope->inner->len; i++)
    {
      const Definition *inner = &g_array_index (scope->inner, Definition, i);

      add_user (scope, order, get_name (scope, inner->name), inner->node);
    }
}

/* Appends the nodes so that each comes after its dependencies. */
static gboolean
sort_nodes (Scope   *scope,
            GError **error)
{
  guint n = scope->nodes->len, n_done = 0;
  g_autofree guint32 *first = g_new0 (guint32, n + 1), *missing = g_new0 (guint32, n), *users = NULL;
  g_autofree guint32 *queue = g_new (guint32, n);
  Order order = { first, NULL, missing };

  add_users (scope, &order);
  for (guint i = 0; i < n; i++)
    first[i + 1] += first[i];
  users = g_new (guint32, first[n] + 1);
  order.users = users;
  /* The lists are filled backwards, so afterwards each starts where the previous one ends. */
  add_users (scope, &order);

  for (guint i = 0; i < n; i++)
    if (missing[i] == 0)
      queue[n_done++] = i;
  for (guint i = 0; i < n_done; i++)
    {
      guint32 node = queue[i];

      g_array_append_vals (scope->onnx->order, &g_array_index (scope->nodes, guint32, node), 1);
      for (guint32 j = first[node]; j < first[node + 1]; j++)
        if (--missing[users[j]] == 0)
          queue[n_done++] = users[j];
    }

  for (guint i = 0; n_done < n && i < n; i++)
    if (missing[i] > 0)
      {
        const guint8 *at = scope->onnx->tape->bytes + g_array_index (scope->nodes, guint32, i);
        RlxProtobufValue node;

        rlx_protobuf_next (&at, &node);
        return rlx_model_fail (error, RLX_MODEL_ERROR_PARSE, node.offset,
                               "%u nodes depend on each other in a cycle, or on one that does; this is the first of them", n - n_done);
      }
  return TRUE;
}

static gboolean
check_nodes (Scope        *scope,
             RlxOnnxGraph *graph,
             GError      **error)
{
  gboolean sorted = TRUE;

  for (guint32 i = 0; i < scope->nodes->len; i++)
    if (!check_node (scope, i, &sorted, error))
      return FALSE;

  /* Nodes of nested graphs have been appended already. */
  graph->first = scope->onnx->order->len;
  graph->n_nodes = scope->nodes->len;
  if (!sorted)
    return sort_nodes (scope, error);
  if (graph->n_nodes > 0)
    g_array_append_vals (scope->onnx->order, scope->nodes->data, graph->n_nodes);
  return TRUE;
}

/* ---- graphs ------------------------------------------------------------------------------------- */

static gboolean
define_all (Scope        *scope,
            const guint8 *message,
            gboolean      is_function,
            GError      **error)
{
  const guint8 *at = message, *start = message;
  RlxProtobufValue value, part;

  for (; rlx_protobuf_next (&at, &value); start = at)
    {
      gboolean is_node = value.number == (is_function ? 7 : RLX_ONNX_GRAPH_NODE);

      if (is_node && !add_node (scope, start, &value, error))
        return FALSE;
      if (is_function)
        {
          if (value.number == RLX_ONNX_FUNCTION_INPUT && value.text[0] != '\0')
            define (scope, value.text, INPUT);
          continue;
        }
      if (value.number == RLX_ONNX_GRAPH_INITIALIZER && !define_tensor (scope, &value, error))
        return FALSE;
      if (value.number == RLX_ONNX_GRAPH_SPARSE)
        {
          const guint8 *inner = value.message;

          if (rlx_protobuf_next (&inner, &part) && !define_tensor (scope, &part, error))
            return FALSE;
        }
      if (value.number == RLX_ONNX_GRAPH_INPUT && rlx_onnx_next (&value.message, 1, &part))
        define (scope, part.text, INPUT);
    }
  return TRUE;
}

static gboolean
check_outputs (Scope        *scope,
               const guint8 *message,
               guint64       place,
               gboolean      is_function,
               GError      **error)
{
  const Definition *definition;
  RlxProtobufValue value, name;

  while (rlx_protobuf_next (&message, &value))
    if (is_function && value.number == RLX_ONNX_FUNCTION_OUTPUT)
      {
        if (!use (scope, value.text, place, &definition, error))
          return FALSE;
      }
    else if (!is_function && value.number == RLX_ONNX_GRAPH_OUTPUT && rlx_onnx_next (&value.message, 1, &name))
      {
        if (!use (scope, name.text, place, &definition, error))
          return FALSE;
      }
  return TRUE;
}

/* Adds names of enclosing graphs that it uses to @captures. */
static gboolean
check_graph (RlxOnnx      *onnx,
             const guint8 *message,
             guint64       place,
             gboolean      is_function,
             const Scope  *parent,
             GArray       *captures,
             GError      **error)
{
  g_autoptr(GArray) definitions = g_array_new (FALSE, FALSE, sizeof (Definition));
  g_autoptr(GArray) nodes = g_array_new (FALSE, FALSE, sizeof (guint32));
  g_autoptr(GArray) inner = g_array_new (FALSE, FALSE, sizeof (Definition));
  Scope scope = { parent, onnx, definitions, nodes, inner, captures };
  RlxOnnxGraph graph = { message, 0, 0 };
  guint index = onnx->graphs->len;

  g_array_append_val (onnx->graphs, graph);
  if (!define_all (&scope, message, is_function, error) ||
      !check_twice (&scope, error) ||
      !check_nodes (&scope, &graph, error) ||
      !check_outputs (&scope, message, place, is_function, error))
    return FALSE;
  g_array_index (onnx->graphs, RlxOnnxGraph, index) = graph;
  return TRUE;
}

static int
compare_graphs (gconstpointer a,
                gconstpointer b)
{
  const RlxOnnxGraph *first = a, *second = b;

  return first->message < second->message ? -1 : first->message > second->message;
}

gboolean
rlx_onnx_check_names (RlxOnnx *self,
                      GError **error)
{
  g_autoptr(GArray) captures = g_array_new (FALSE, FALSE, sizeof (guint32));

  if (!check_graph (self, self->body, 0, FALSE, NULL, captures, error))
    return FALSE;
  for (guint i = 0; i < self->functions->len; i++)
    if (!check_graph (self, g_array_index (self->functions, RlxOnnxFunction, i).message, 0, TRUE, NULL, captures, error))
      return FALSE;
  g_array_sort (self->graphs, compare_graphs);
  return TRUE;
}
