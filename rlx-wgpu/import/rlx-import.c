/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "import/rlx-import-private.h"
#include "util/rlx-data-type-private.h"

#include <string.h>

#include "util/rlx-debug-private.h"

/* ---- values --------------------------------------------------------------------------------- */

static void
value_free (RlxMapValue *value)
{
  g_clear_object (&value->tensor);
  g_clear_pointer (&value->list, g_ptr_array_unref);
  g_free (value);
}

RlxMapValue *
rlx_import_new_value (RlxImport *self)
{
  RlxMapValue *value = g_new0 (RlxMapValue, 1);

  g_ptr_array_add (self->values, value);
  return value;
}

gboolean
rlx_map_value_is_known (const RlxMapValue *value)
{
  return value->tensor != NULL || value->record.message != NULL;
}

RlxTensor *
rlx_import_load (RlxImport              *self,
                 const RlxProtobufValue *record,
                 GError                **error)
{
  RlxImportSource *source = self->source;
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new (&source->lock);
  RlxTensor *found = g_hash_table_lookup (source->tensors, record->message);
  RlxOnnxTensor tensor;

  if (found != NULL)
    return g_object_ref (found);
  if (!rlx_onnx_check_tensor (source->onnx, record, &tensor, error))
    return NULL;
  found = rlx_onnx_load_tensor (source->onnx, &tensor, self->cancellable, error);
  if (found != NULL)
    g_hash_table_insert (source->tensors, (gpointer) record->message, g_object_ref (found));
  return found;
}

RlxTensor *
rlx_import_get_tensor (RlxImport   *self,
                       RlxMapValue *value,
                       GError     **error)
{
  if (value->tensor == NULL && value->record.message != NULL)
    value->tensor = rlx_import_load (self, &value->record, error);
  return value->tensor != NULL ? g_object_ref (value->tensor) : NULL;
}

RlxNode *
rlx_import_get_node (RlxImport   *self,
                     RlxMapValue *value,
                     GError     **error)
{
  if (value->node == NULL && rlx_map_value_is_known (value))
    {
      g_autoptr(RlxTensor) tensor = rlx_import_get_tensor (self, value, error);

      if (tensor == NULL)
        return NULL;
      value->node = rlx_graph_constant (self->graph, tensor, error);
    }
  else if (value->node == NULL)
    {
      rlx_map_unsupported (error, value->list != NULL ? "a sequence is not a tensor" : "an optional value without an element is not a tensor");
    }
  return value->node;
}

const gint64 *
rlx_map_value_get_shape (RlxImport   *self,
                         RlxMapValue *value,
                         gsize       *n_dims,
                         RlxDataType *data_type)
{
  if (value->node != NULL)
    {
      *data_type = rlx_node_get_data_type (value->node);
      return rlx_node_get_shape (value->node, n_dims);
    }
  if (value->tensor == NULL && value->record.message != NULL)
    value->tensor = rlx_import_load (self, &value->record, NULL);
  if (value->tensor == NULL)
    return NULL;
  *data_type = rlx_tensor_get_data_type (value->tensor);
  return rlx_tensor_get_shape (value->tensor, n_dims);
}

void
rlx_import_need (RlxImport   *self,
                 RlxMapValue *value)
{
  g_autoptr(GHashTable) seen = g_hash_table_new (NULL, NULL);
  g_autoptr(GPtrArray) left = g_ptr_array_new ();

  if (value->node != NULL)
    g_ptr_array_add (left, value->node);
  while (left->len > 0)
    {
      RlxNode *node = g_ptr_array_steal_index_fast (left, left->len - 1);
      RlxNode **inputs;
      gsize n_inputs;

      if (!g_hash_table_add (seen, node))
        continue;
      if (g_str_equal (rlx_node_get_op (node), "input"))
        g_hash_table_add (self->needed, g_strdup (rlx_node_get_name (node)));
      inputs = rlx_node_get_inputs (node, &n_inputs);
      for (gsize i = 0; i < n_inputs; i++)
        if (inputs[i] != NULL)
          g_ptr_array_add (left, inputs[i]);
    }
}

/* ---- names -------------------------------------------------------------------------------- */

RlxMapValue *
rlx_scope_get (RlxScope   *self,
               const char *name)
{
  RlxMapValue *value;

  for (RlxScope *scope = self; scope != NULL; scope = scope->parent)
    if ((value = g_hash_table_lookup (scope->values, name)) != NULL)
      return value;

  /* The reader has checked that a node has this output, so its operator did not set it. */
  value = rlx_import_new_value (self->import);
  value->is_failed = TRUE;
  return value;
}

void
rlx_scope_set (RlxScope    *self,
               const char  *name,
               RlxMapValue *value)
{
  g_hash_table_insert (self->values, (gpointer) name, value);
}

static gint64
get_opset (const RlxScope *scope,
           const char     *domain)
{
  for (guint i = 0; scope->opsets != NULL && i < scope->opsets->len; i++)
    {
      const RlxOnnxOpset *opset = &g_array_index (scope->opsets, RlxOnnxOpset, i);

      if (g_str_equal (opset->domain, domain))
        return opset->version;
    }
  return domain[0] == '\0' ? 1 : 0;
}

/* ---- reasons ---------------------------------------------------------------------------------- */

/* "node “x” (Conv of opset 13): reason" */
static void
add_reason (RlxImport         *self,
            const RlxScope    *scope,
            const RlxOnnxNode *node,
            const GError      *reason)
{
  g_autofree char *what = rlx_onnx_node_to_string (node->op, node->name);
  g_autofree char *op = g_strconcat (node->op, ": ", NULL);
  const char *message = reason->message;
  gint64 opset = get_opset (scope, node->domain);

  if (self->n_reasons++ == 0)
    self->code = reason->domain == RLX_MODEL_ERROR ? (RlxModelError) reason->code
                 : reason->domain == RLX_GRAPH_ERROR && reason->code == RLX_GRAPH_ERROR_LIMIT ? RLX_MODEL_ERROR_LIMIT
                                                                                                : RLX_MODEL_ERROR_INVALID;
  if (self->reasons->len == RLX_IMPORT_MAX_REASONS)
    return;
  if (g_str_has_prefix (message, op))
    message += strlen (op);
  if (node->domain[0] != '\0')
    g_ptr_array_add (self->reasons, g_strdup_printf ("%s of %s, version %" G_GINT64_FORMAT ", at byte %" G_GUINT64_FORMAT ": %s", what,
                                                     node->domain, opset, node->at, message));
  else
    g_ptr_array_add (self->reasons, g_strdup_printf ("%s of opset %" G_GINT64_FORMAT ", at byte %" G_GUINT64_FORMAT ": %s", what, opset,
                                                     node->at, message));
}

/* ---- graphs ------------------------------------------------------------------------------------- */

static gboolean import_graph (RlxScope           *scope,
                              const RlxOnnxGraph *graph,
                              GError            **error);

static void
scope_init (RlxScope     *scope,
            RlxImport    *import,
            RlxScope     *parent,
            const GArray *opsets)
{
  *scope = (RlxScope) {
    .import = import, .parent = parent, .opsets = opsets,
    .values = g_hash_table_new (g_str_hash, g_str_equal),
  };
  if (parent != NULL)
    {
      scope->caller = parent->caller;
      scope->function = parent->function;
    }
}

static void
scope_clear (RlxScope *scope)
{
  g_hash_table_unref (scope->values);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (RlxScope, scope_clear)

static const RlxOnnxFunction *
find_function (const RlxOnnx     *onnx,
               const RlxOnnxNode *node)
{
  for (guint i = 0; i < onnx->functions->len; i++)
    {
      const RlxOnnxFunction *function = &g_array_index (onnx->functions, RlxOnnxFunction, i);

      if (g_str_equal (function->name, node->op) && g_str_equal (function->domain, node->domain) &&
          g_str_equal (function->overload, node->overload))
        return function;
    }
  return NULL;
}

/* An attribute of a node in a function may refer to one that the function is called with. */
static void
resolve_attributes (const RlxScope *scope,
                    RlxOnnxNode    *node)
{
  guint n = 0;

  for (guint i = 0; i < node->n_attributes; i++)
    {
      RlxOnnxAttribute attribute = node->attributes[i], found;
      gboolean given = attribute.reference == NULL;

      for (guint j = 0; !given && scope->caller != NULL && j < scope->caller->n_attributes; j++)
        if (g_str_equal (scope->caller->attributes[j].name, attribute.reference))
          {
            found = scope->caller->attributes[j];
            given = TRUE;
          }
      if (!given && scope->function != NULL)
        {
          const guint8 *at = scope->function->message;
          RlxProtobufValue value;

          while (!given && rlx_protobuf_next (&at, &value))
            if (value.number == RLX_ONNX_FUNCTION_DEFAULT)
              {
                rlx_onnx_get_attribute (&value, &found);
                given = g_str_equal (found.name, attribute.reference);
              }
        }
      if (given && attribute.reference != NULL)
        {
          found.name = attribute.name;
          found.reference = NULL;
          attribute = found;
        }
      /* A reference to an attribute that was not given is absent. */
      if (given)
        node->attributes[n++] = attribute;
    }
  node->n_attributes = n;
}

static gboolean
call_function (RlxScope              *caller,
               const RlxOnnxNode     *node,
               const RlxOnnxFunction *function,
               GError               **error)
{
  RlxImport *self = caller->import;
  g_autoptr(GPtrArray) inputs = rlx_onnx_function_get_names (function, RLX_ONNX_FUNCTION_INPUT);
  g_autoptr(GPtrArray) outputs = rlx_onnx_function_get_names (function, RLX_ONNX_FUNCTION_OUTPUT);
  g_auto(RlxScope) scope = { 0, };

  if (node->n_inputs > inputs->len || node->n_outputs > outputs->len)
    return rlx_map_refused (error, "the function has %u inputs and %u outputs, and is called with %u and %u", inputs->len, outputs->len,
                            node->n_inputs, node->n_outputs);
  scope_init (&scope, self, NULL, function->opsets);
  scope.caller = node;
  scope.function = function;
  for (guint i = 0; i < node->n_inputs; i++)
    if (node->inputs[i][0] != '\0')
      rlx_scope_set (&scope, inputs->pdata[i], rlx_scope_get (caller, node->inputs[i]));
  /* Inputs that the caller left out are left out of the nodes, too, which an empty value indicates. */
  for (guint i = 0; i < inputs->len; i++)
    if (i >= node->n_inputs || node->inputs[i][0] == '\0')
      {
        RlxMapValue *value = rlx_import_new_value (self);

        value->is_absent = TRUE;
        rlx_scope_set (&scope, inputs->pdata[i], value);
      }
  if (!import_graph (&scope, rlx_onnx_get_graph (self->source->onnx, function->message), error))
    return FALSE;
  for (guint i = 0; i < node->n_outputs; i++)
    if (node->outputs[i][0] != '\0')
      rlx_scope_set (caller, node->outputs[i], rlx_scope_get (&scope, outputs->pdata[i]));
  return TRUE;
}

static gboolean
call_node (RlxScope    *scope,
           RlxOnnxNode *node,
           GError     **error)
{
  const RlxOnnxFunction *function = find_function (scope->import->source->onnx, node);
  RlxMapCall call = {
    .import = scope->import,
    .scope = scope,
    .graph = scope->import->graph,
    .node = node,
    .opset = get_opset (scope, node->domain),
  };

  resolve_attributes (scope, node);
  if (function != NULL)
    return call_function (scope, node, function, error);
  if (node->domain[0] == '\0' && call.opset > RLX_IMPORT_MAX_OPSET)
    return rlx_map_unsupported (error, "only opsets up to %d are supported", RLX_IMPORT_MAX_OPSET);
  call.row = rlx_map_find (node);
  if (call.row == NULL)
    return rlx_map_unsupported (error, "the operator is not supported");
  if (rlx_map_is_open (&call))
    return rlx_map_call_open (&call, error);
  switch (rlx_fold (&call, error))
    {
    case RLX_FOLD_DONE:
      return TRUE;
    case RLX_FOLD_FAILED:
      return FALSE;
    case RLX_FOLD_NONE:
    default:
      return rlx_map_call (&call, error);
    }
}

/* Reasons for failure are added to the list; nodes that depend on a failed one are skipped. */
static void
import_node (RlxScope    *scope,
             RlxOnnxNode *node)
{
  RlxImport *self = scope->import;
  g_autoptr(GError) error = NULL;
  gboolean failed = FALSE;

  for (guint i = 0; i < node->n_inputs; i++)
    {
      RlxMapValue *value = node->inputs[i][0] != '\0' ? rlx_scope_get (scope, node->inputs[i]) : NULL;

      failed = failed || (value != NULL && value->is_failed);
      /* An input that the function was called without. */
      if (value != NULL && value->is_absent && scope->function != NULL)
        node->inputs[i] = "";
    }
  if (!failed)
    {
      failed = !call_node (scope, node, &error);
      if (failed && error != NULL)
        add_reason (self, scope, node, error);
    }
  for (guint i = 0; failed && i < node->n_outputs; i++)
    {
      RlxMapValue *value = rlx_import_new_value (self);

      value->is_failed = TRUE;
      rlx_scope_set (scope, node->outputs[i], value);
    }
}

static gboolean
add_initializers (RlxScope           *scope,
                  const RlxOnnxGraph *graph,
                  GError            **error)
{
  const guint8 *at = graph->message;
  RlxProtobufValue record;

  while (rlx_onnx_next (&at, RLX_ONNX_GRAPH_INITIALIZER, &record))
    {
      RlxMapValue *value = rlx_import_new_value (scope->import);
      RlxOnnxTensor tensor;

      if (!rlx_onnx_check_tensor (scope->import->source->onnx, &record, &tensor, error))
        return FALSE;
      value->record = record;
      if (tensor.name != NULL)
        rlx_scope_set (scope, tensor.name, value);
    }
  at = graph->message;
  if (rlx_onnx_next (&at, RLX_ONNX_GRAPH_SPARSE, &record))
    return rlx_map_unsupported (error, "At byte %" G_GUINT64_FORMAT ": an initialiser is sparse", record.offset);
  return TRUE;
}

static gboolean
import_graph (RlxScope           *scope,
              const RlxOnnxGraph *graph,
              GError            **error)
{
  RlxImport *self = scope->import;
  guint n_reasons = self->n_reasons;

  if (self->depth == RLX_IMPORT_MAX_DEPTH)
    {
      g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_LIMIT, "functions and bodies are more than %d deep in each other", RLX_IMPORT_MAX_DEPTH);
      return FALSE;
    }
  /* In a function's message, the fields have other meanings. */
  if (scope->function == NULL || scope->function->message != graph->message)
    if (!add_initializers (scope, graph, error))
      return FALSE;
  self->depth++;
  for (guint i = 0; i < graph->n_nodes; i++)
    {
      g_autoptr(RlxOnnxNode) node = NULL;

      if (self->n_nodes++ == RLX_IMPORT_MAX_NODES)
        {
          self->depth--;
          g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_LIMIT, "there are more than %d nodes, those of loops counted for each step", RLX_IMPORT_MAX_NODES);
          return FALSE;
        }
      if (g_cancellable_set_error_if_cancelled (self->cancellable, error))
        {
          self->depth--;
          return FALSE;
        }
      node = rlx_onnx_get_node (self->source->onnx, graph, i);
      import_node (scope, node);
    }
  self->depth--;
  /* Their reasons have been recorded already. */
  return self->n_reasons == n_reasons || self->depth == 0;
}

static gboolean
get_body (RlxMapCall          *call,
          const char          *name,
          const RlxOnnxGraph **graph,
          GError             **error)
{
  const RlxOnnxAttribute *attribute = rlx_map_arg (call, name);
  RlxProtobufValue message;

  if (attribute == NULL || attribute->kind != RLX_ONNX_ATTRIBUTE_GRAPH || !rlx_onnx_attribute_get_message (attribute, &message))
    return rlx_map_refused (error, "attribute “%s” is not a graph", name);
  *graph = rlx_onnx_get_graph (call->import->source->onnx, message.message);
  return TRUE;
}

static gsize
count_fields (const RlxOnnxGraph *graph,
              RlxOnnxGraphField   field)
{
  const guint8 *at = graph->message;
  RlxProtobufValue value;
  gsize n = 0;

  while (rlx_onnx_next (&at, field, &value))
    n++;
  return n;
}

gboolean
rlx_import_body_size (RlxMapCall *call,
                      const char *attribute,
                      gsize      *n_inputs,
                      gsize      *n_outputs,
                      GError    **error)
{
  const RlxOnnxGraph *graph;

  if (!get_body (call, attribute, &graph, error))
    return FALSE;
  *n_inputs = count_fields (graph, RLX_ONNX_GRAPH_INPUT);
  *n_outputs = count_fields (graph, RLX_ONNX_GRAPH_OUTPUT);
  return TRUE;
}

gboolean
rlx_import_body (RlxMapCall   *call,
                 const char   *attribute,
                 RlxMapValue **inputs,
                 gsize         n_inputs,
                 RlxMapValue **outputs,
                 gsize         n_outputs,
                 GError      **error)
{
  const RlxOnnxGraph *graph;
  g_auto(RlxScope) scope = { 0, };
  RlxProtobufValue record;
  RlxOnnxPort port;
  const guint8 *at;
  gsize i = 0;

  scope_init (&scope, call->import, call->scope, call->scope->opsets);
  if (!get_body (call, attribute, &graph, error))
    return FALSE;
  for (at = graph->message; i < n_inputs && rlx_onnx_next (&at, RLX_ONNX_GRAPH_INPUT, &record); i++)
    {
      rlx_onnx_get_port (record.message, &port);
      rlx_scope_set (&scope, port.name, inputs[i]);
    }
  if (!import_graph (&scope, graph, error))
    return FALSE;
  i = 0;
  for (at = graph->message; i < n_outputs && rlx_onnx_next (&at, RLX_ONNX_GRAPH_OUTPUT, &record); i++)
    {
      rlx_onnx_get_port (record.message, &port);
      outputs[i] = rlx_scope_get (&scope, port.name);
      if (outputs[i]->is_failed)
        return FALSE;
    }
  if (i < n_outputs)
    return rlx_map_refused (error, "the graph “%s” has %" G_GSIZE_FORMAT " outputs instead of %" G_GSIZE_FORMAT, attribute, i, n_outputs);
  return TRUE;
}

RlxMapValue *
rlx_import_apply (RlxMapCall   *call,
                  const char   *op,
                  RlxMapValue **inputs,
                  gsize         n_inputs,
                  const char   *attribute,
                  gint64        value,
                  GError      **error)
{
  g_auto(RlxScope) scope = { 0, };
  g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  RlxOnnxAttribute attributes[] = { { .name = attribute, .kind = RLX_ONNX_ATTRIBUTE_INT, .integer = value } };
  const char *outputs[] = { "result" };
  RlxOnnxNode node = {
    .op = op, .domain = "", .name = "", .overload = "", .outputs = outputs, .n_outputs = 1, .n_inputs = (guint) n_inputs,
    .attributes = attributes, .n_attributes = attribute != NULL ? 1 : 0, .at = call->node->at,
  };

  scope_init (&scope, call->import, call->scope, call->scope->opsets);
  for (gsize i = 0; i < n_inputs; i++)
    {
      char *name = g_strdup_printf ("%" G_GSIZE_FORMAT, i);

      g_ptr_array_add (names, name);
      rlx_scope_set (&scope, name, inputs[i]);
    }
  node.inputs = (const char **) names->pdata;
  return call_node (&scope, &node, error) ? rlx_scope_get (&scope, outputs[0]) : NULL;
}

/* ---- the model ----------------------------------------------------------------------------------- */

static gboolean
get_size (const RlxImportSizes *sizes,
          const RlxOnnxPort    *port,
          guint                 axis,
          gint64               *size,
          GError              **error)
{
  g_autofree char *place = g_strdup_printf ("%s.%u", port->name, axis);
  const gint64 *found = NULL;

  *size = port->dims[axis];
  if (*size >= 0)
    return TRUE;
  if (sizes->dimensions != NULL && port->symbols[axis] != NULL)
    found = g_hash_table_lookup (sizes->dimensions, port->symbols[axis]);
  if (found == NULL && sizes->dimensions != NULL)
    found = g_hash_table_lookup (sizes->dimensions, place);
  if (found == NULL)
    {
      g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_SHAPE, "Dimension %u of the input “%s” is not known: give “%s” a size", axis,
                   port->name, port->symbols[axis] != NULL ? port->symbols[axis] : place);
      return FALSE;
    }
  *size = *found;
  return TRUE;
}

/* Checks the sizes of a tensor: all dimensions with the same name must have the same size. */
static gboolean
check_shape (const RlxOnnxPort *port,
             const gint64      *shape,
             gsize              n_dims,
             GHashTable        *symbols,
             GError           **error)
{
  if (!port->has_shape)
    return TRUE;
  if (n_dims != port->n_dims)
    {
      g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_SHAPE, "The tensor for the input “%s” has %" G_GSIZE_FORMAT " dimensions instead of %u",
                   port->name, n_dims, port->n_dims);
      return FALSE;
    }
  for (guint i = 0; i < n_dims; i++)
    {
      const char *symbol = port->symbols[i];
      gint64 want = port->dims[i];

      if (want < 0 && symbol != NULL && g_hash_table_contains (symbols, symbol))
        want = *(const gint64 *) g_hash_table_lookup (symbols, symbol);
      if (want >= 0 && want != shape[i])
        {
          g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_SHAPE,
                       "Dimension %u of the tensor for the input “%s” is %" G_GINT64_FORMAT " instead of %" G_GINT64_FORMAT, i, port->name,
                       shape[i], want);
          return FALSE;
        }
      if (want < 0 && symbol != NULL)
        g_hash_table_insert (symbols, g_strdup (symbol), g_memdup2 (&shape[i], sizeof (gint64)));
    }
  return TRUE;
}

static gboolean
add_input (RlxScope             *scope,
           const RlxOnnxPort    *port,
           const RlxImportSizes *sizes,
           GHashTable           *symbols,
           GError              **error)
{
  RlxImport *self = scope->import;
  RlxMapValue *value;
  RlxTensor *fixed = sizes->fixed != NULL ? g_hash_table_lookup (sizes->fixed, port->name) : NULL;
  const RlxTensorType *given = sizes->types != NULL ? g_hash_table_lookup (sizes->types, port->name) : NULL;
  const RlxOnnxTypeInfo *info = rlx_onnx_type_get_info (port->type);
  gint64 shape[RLX_MAX_DIMS];
  const gint64 *dims = shape;
  gsize n_dims = port->n_dims;
  RlxDataType type = RLX_DATA_TYPE_F32;

  /* Inputs with an initialiser need not be given. */
  if (g_hash_table_contains (scope->values, port->name))
    return TRUE;
  if (!g_str_equal (port->kind, "tensor"))
    return rlx_map_unsupported (error, "The input “%s” is a %s, not a tensor", port->name, port->kind);
  if (info->data_type < 0)
    return rlx_map_unsupported (error, "The input “%s” is of %s, which is not supported on devices", port->name, info->name);
  if (fixed != NULL)
    {
      dims = rlx_tensor_get_shape (fixed, &n_dims);
      type = rlx_tensor_get_data_type (fixed);
    }
  else if (given != NULL)
    {
      dims = given->shape;
      n_dims = given->n_dims;
      type = given->data_type;
    }
  if (dims != shape && type != (RlxDataType) info->data_type)
    {
      g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_DATA_TYPE, "The tensor for the input “%s” is of %s instead of %s", port->name,
                   rlx_data_type_to_string (type), rlx_data_type_to_string ((RlxDataType) info->data_type));
      return FALSE;
    }
  value = rlx_import_new_value (self);
  rlx_scope_set (scope, port->name, value);
  if (dims != shape)
    {
      if (!check_shape (port, dims, n_dims, symbols, error))
        return FALSE;
      if (fixed != NULL)
        {
          value->tensor = g_object_ref (fixed);
          return TRUE;
        }
    }
  else
    {
      if (!port->has_shape || n_dims > RLX_MAX_DIMS)
        {
          g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_SHAPE,
                       port->has_shape ? "The input “%s” has too many dimensions" : "The model does not say what shape the input “%s” has", port->name);
          return FALSE;
        }
      for (guint i = 0; i < n_dims; i++)
        if (!get_size (sizes, port, i, &shape[i], error))
          return FALSE;
    }
  value->node = rlx_graph_input (self->graph, port->name, (RlxDataType) info->data_type, dims, n_dims, error);
  return value->node != NULL;
}

/* The name is that of the dimension, in the same form in which sizes are given. */
static gboolean
add_count (RlxImport         *self,
           const RlxOnnxPort *port,
           const RlxMapValue *value,
           GError           **error)
{
  g_autofree char *name = g_strdup_printf ("%s.%u", port->name, value->open_axis);

  if (rlx_data_type_get_bits (rlx_node_get_data_type (value->node)) < 8)
    return rlx_map_unsupported (error, "The size of the output “%s” depends on data, and its elements are smaller than a byte", port->name);
  return rlx_graph_output (self->graph, name, value->count, error);
}

static gboolean
add_output (RlxScope          *scope,
            const RlxOnnxPort *port,
            GError           **error)
{
  RlxImport *self = scope->import;
  RlxMapValue *value = rlx_scope_get (scope, port->name);
  RlxNode *node;
  g_autoptr(GError) local = NULL;

  if (value->is_failed)
    {
      if (self->n_reasons == 0)
        return rlx_map_unsupported (error, "The output “%s” is not supported for its operator", port->name);
      return TRUE;
    }
  node = rlx_import_get_node (self, value, &local);
  if (node == NULL)
    return rlx_map_unsupported (error, "The output “%s”: %s", port->name, local->message);
  return rlx_graph_output (self->graph, port->name, node, error) && (value->count == NULL || add_count (self, port, value, error));
}

static gboolean
import_all (RlxScope             *scope,
            const RlxOnnxGraph   *graph,
            const RlxImportSizes *sizes,
            GError              **error)
{
  g_autoptr(GHashTable) symbols = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  RlxProtobufValue record;
  RlxOnnxPort port;
  const guint8 *at;

  if (!add_initializers (scope, graph, error))
    return FALSE;
  for (at = graph->message; rlx_onnx_next (&at, RLX_ONNX_GRAPH_INPUT, &record);)
    {
      rlx_onnx_get_port (record.message, &port);
      if (!add_input (scope, &port, sizes, symbols, error))
        return FALSE;
    }
  if (!import_graph (scope, graph, error))
    return FALSE;
  for (at = graph->message; rlx_onnx_next (&at, RLX_ONNX_GRAPH_OUTPUT, &record);)
    {
      rlx_onnx_get_port (record.message, &port);
      if (!add_output (scope, &port, error))
        return FALSE;
    }
  return TRUE;
}

static void
tell_reasons (RlxImport *self,
              GError   **error)
{
  GString *text = g_string_new (NULL);

  if (self->n_reasons > 1)
    g_string_append_printf (text, "The model cannot be imported, for %u reasons:", self->n_reasons);
  for (guint i = 0; i < self->reasons->len; i++)
    g_string_append_printf (text, "%s%s", self->n_reasons > 1 ? "\n" : "", (const char *) self->reasons->pdata[i]);
  if (self->n_reasons > self->reasons->len)
    g_string_append_printf (text, "\nand %u more", self->n_reasons - self->reasons->len);
  g_set_error_literal (error, RLX_MODEL_ERROR, (int) self->code, text->str);
  g_string_free (text, TRUE);
}

RlxGraph *
rlx_import_model (RlxImportSource      *source,
                  const RlxImportSizes *sizes,
                  GHashTable           *needed,
                  GCancellable         *cancellable,
                  GError              **error)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(GPtrArray) values = g_ptr_array_new_with_free_func ((GDestroyNotify) value_free);
  g_autoptr(GPtrArray) reasons = g_ptr_array_new_with_free_func (g_free);
  g_autoptr(GHashTable) needs = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_auto(RlxScope) scope = { 0, };
  g_autoptr(GHashTable) uses = g_hash_table_new (g_str_hash, g_str_equal);
  RlxImport self = { .source = source, .graph = graph, .uses = uses, .values = values, .reasons = reasons, .needed = needs, .cancellable = cancellable, .casts = sizes->casts };

  scope_init (&scope, &self, NULL, source->onnx->opsets);
  if (!import_all (&scope, rlx_onnx_get_graph (source->onnx, source->onnx->body), sizes, error))
    return NULL;
  if (self.n_reasons > 0)
    {
      GHashTableIter iter;
      gpointer name;

      tell_reasons (&self, error);
      g_hash_table_iter_init (&iter, needs);
      while (needed != NULL && g_hash_table_iter_next (&iter, &name, NULL))
        g_hash_table_add (needed, g_strdup (name));
      return NULL;
    }
  return g_steal_pointer (&graph);
}
