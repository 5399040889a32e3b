/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The graph of a case.
 */
#include "config.h"

#include "map.h"

#include <string.h>

/* Constants without data are zeros; larger ones become inputs, as only their shape matters. */
#define MAX_ZEROS ((gint64) 1 << 22)

struct _Build
{
  const Case *test;
  RlxDevice *device;       /* nullable: then nothing is computed */
  RlxGraph *graph;
  RlxGraph *foreign;       /* of operands that belong to another graph */
  GHashTable *nodes;       /* name → RlxNode, owned by its graph */
  GPtrArray *inputs;       /* CaseTensor of the graph's inputs */
};

Build *
build_new (const Case *test,
           RlxDevice  *device)
{
  Build *self = g_new0 (Build, 1);

  self->test = test;
  self->device = device != NULL ? g_object_ref (device) : NULL;
  self->graph = rlx_graph_new ();
  self->nodes = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->inputs = g_ptr_array_new ();
  return self;
}

void
build_free (Build *self)
{
  g_ptr_array_unref (self->inputs);
  g_hash_table_unref (self->nodes);
  g_clear_object (&self->foreign);
  g_clear_object (&self->graph);
  g_clear_object (&self->device);
  g_free (self);
}

RlxGraph *
build_get_graph (Build *self)
{
  return self->graph;
}

void
build_set (Build      *self,
           const char *name,
           RlxNode    *node)
{
  g_hash_table_insert (self->nodes, g_strdup (name), node);
}

static gboolean
is_small (const CaseTensor *tensor)
{
  gint64 count = 1;

  for (guint i = 0; i < tensor->n_dims; i++)
    {
      if (tensor->shape[i] == 0)
        return TRUE;
      if (tensor->shape[i] > MAX_ZEROS / count)
        return FALSE;
      count *= tensor->shape[i];
    }
  return TRUE;
}

RlxNode *
build_get (Build      *self,
           const char *name,
           GError    **error)
{
  RlxNode *node = g_hash_table_lookup (self->nodes, name);
  const CaseTensor *tensor;

  if (node != NULL)
    return node;

  tensor = case_find_input (self->test, name);
  if (tensor == NULL)
    {
      g_set_error (error, CONFORMANCE_ERROR, CONFORMANCE_ERROR_MALFORMED, "nothing computes the value “%s”", name);
      return NULL;
    }
  if (!tensor->known)
    {
      map_unsupported (error, "data type %s", tensor->dtype);
      return NULL;
    }

  if (tensor->foreign_graph)
    {
      if (self->foreign == NULL)
        self->foreign = rlx_graph_new ();
      node = rlx_graph_input (self->foreign, name, tensor->data_type, tensor->shape, tensor->n_dims, error);
    }
  else if ((tensor->constant || tensor->param) && (case_tensor_has_data (tensor) || is_small (tensor)))
    {
      g_autoptr(RlxTensor) value = case_tensor_to_rlx (tensor, error);

      if (value == NULL)
        return NULL;
      node = rlx_graph_constant (self->graph, value, error);
    }
  else
    {
      node = rlx_graph_input (self->graph, name, tensor->data_type, tensor->shape, tensor->n_dims, error);
      if (node != NULL)
        g_ptr_array_add (self->inputs, (gpointer) tensor);
    }

  if (node != NULL)
    build_set (self, name, node);
  return node;
}

/* NAME_backward is the gradient of NAME: its last operand is the seed, its results have the names of the operands
 * with the prefix d_. */
static gboolean
build_backward (Build        *self,
                const CaseOp *op,
                GError      **error)
{
  g_autofree char *name = g_strndup (op->name, strlen (op->name) - strlen (MAPPING_BACKWARD));
  g_autoptr(JsonNode) copy = json_node_alloc ();
  g_autoptr(GPtrArray) by = g_ptr_array_new ();
  g_autoptr(RlxGradientOptions) options = rlx_gradient_options_new ();
  g_autofree RlxNode **gradients = NULL;
  const char *forward_outputs[] = { "forward of the gradient", NULL };
  CaseOp forward = { .name = name, .domain = op->domain, .outputs = (GStrv) forward_outputs };
  MapCall call = { .build = self, .op = &forward };
  JsonArray *operands, *others = json_array_new ();
  RlxNode *seed, *y;
  guint n_operands;

  operands = json_object_get_array_member (op->args, "inputs");
  n_operands = json_array_get_length (operands);
  json_node_init_object (copy, NULL);
  json_node_take_object (copy, json_object_new ());
  for (GList *names = json_object_get_members (op->args); names != NULL; names = g_list_delete_link (names, names))
    json_object_set_member (json_node_get_object (copy), names->data, json_node_copy (json_object_get_member (op->args, names->data)));
  for (guint i = 0; i + 1 < n_operands; i++)
    json_array_add_element (others, json_node_copy (json_array_get_element (operands, i)));
  json_object_set_array_member (json_node_get_object (copy), "inputs", others);
  forward.args = json_node_get_object (copy);

  call.mapping = mapping_find (self->test->family, &forward);
  if (call.mapping == NULL)
    return map_unsupported (error, "operator %s", name);
  if (!mapping_call (&call, error))
    return FALSE;
  y = build_get (self, forward_outputs[0], error);
  seed = build_get (self, json_object_get_string_member (json_array_get_object_element (operands, n_operands - 1), "ref"), error);
  if (y == NULL || seed == NULL)
    return FALSE;
  for (guint i = 0; op->outputs[i] != NULL; i++)
    {
      RlxNode *node = g_str_has_prefix (op->outputs[i], "d_") ? build_get (self, op->outputs[i] + 2, error) : NULL;

      if (node == NULL)
        return FALSE;
      g_ptr_array_add (by, node);
    }
  rlx_gradient_options_set_seed (options, seed);
  gradients = rlx_graph_gradient (self->graph, y, (RlxNode **) by->pdata, by->len, options, NULL, error);
  for (guint i = 0; gradients != NULL && i < by->len; i++)
    build_set (self, op->outputs[i], gradients[i]);
  return gradients != NULL;
}

gboolean
build_all (Build   *self,
           GError **error)
{
  for (guint i = 0; i < self->test->ops->len; i++)
    {
      const CaseOp *op = g_ptr_array_index (self->test->ops, i);
      MapCall call = {
        .build = self,
        .op = op,
        .mapping = mapping_find (self->test->family, op),
      };

      if (call.mapping == NULL && g_str_has_suffix (op->name, MAPPING_BACKWARD))
        {
          if (!build_backward (self, op, error))
            return FALSE;
          continue;
        }
      if (call.mapping == NULL)
        return map_unsupported (error, "operator %s", op->name);
      if (!mapping_call (&call, error))
        return FALSE;
    }
  return TRUE;
}

RlxTensor **
build_run (Build     *self,
           char    ***names,
           gsize     *n_outputs,
           GError   **error)
{
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(GPtrArray) tensors = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr(GPtrArray) input_names = g_ptr_array_new ();
  RlxTensor **outputs;
  GError *local = NULL;

  executable = rlx_device_compile (self->device, self->graph, NULL, NULL, error);
  if (executable == NULL)
    return NULL;

  for (guint i = 0; i < self->inputs->len; i++)
    {
      const CaseTensor *input = g_ptr_array_index (self->inputs, i);
      RlxTensor *tensor = case_tensor_to_rlx (input, error);

      if (tensor == NULL)
        return NULL;
      g_ptr_array_add (tensors, tensor);
      g_ptr_array_add (input_names, input->name);
    }
  g_ptr_array_add (input_names, NULL);

  outputs = rlx_executable_run_named (executable, (const char *const *) input_names->pdata,
                                      (RlxTensor **) tensors->pdata, tensors->len, n_outputs, NULL, &local);
  if (outputs == NULL)
    {
      g_prefix_error_literal (&local, "run: ");
      g_propagate_error (error, local);
      return NULL;
    }
  *names = g_strdupv ((char **) rlx_executable_get_output_names (executable));
  return outputs;
}
