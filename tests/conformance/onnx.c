/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Cases of ONNX's operators: each becomes a model's file, which the library's own
 * importer opens and runs.
 */
#include "config.h"

#include "onnx.h"

#include <string.h>

#include "onnx-writer.h"

/* The version for a case that does not name one. */
#define NEWEST_OPSET 25

/* Attributes that hold floats, even if a case has 1 for 1.0. */
static const char *const float_attributes[] = {
  "activation_alpha", "activation_beta", "activation_params", "alpha", "beta", "bias", "clip", "cubic_coeff_a", "epsilon",
  "extrapolation_value", "gamma", "high", "lambd", "low", "mask_filter_value", "max", "mean", "min", "momentum", "norm_coefficient",
  "ratio", "sample_size", "scale", "scales", "seed", "softcap", "spatial_scale", "theta", "value_float", "value_floats", NULL
};

static gboolean
unsupported (GError    **error,
             const char *what)
{
  g_set_error_literal (error, CONFORMANCE_ERROR, CONFORMANCE_ERROR_UNSUPPORTED, what);
  return FALSE;
}

/* ---- the file ----------------------------------------------------------------------- */

static gboolean
is_number (JsonNode *node)
{
  return JSON_NODE_HOLDS_VALUE (node) &&
         (json_node_get_value_type (node) != G_TYPE_STRING || case_number_is_string (node));
}

/* A number that can be read as an integer is one, unless the attribute of that name holds floats. */
static GVariant *
variant_of_number (const char *name,
                   JsonNode   *node)
{
  gboolean is_float = g_strv_contains (float_attributes, name) ||
                      (!case_number_is_string (node) && json_node_get_value_type (node) == G_TYPE_DOUBLE);
  gint64 integer;
  double number;

  if (!is_float && case_number_to_int (node, &integer))
    return g_variant_new_int64 (integer);
  return case_number_to_double (node, &number) ? g_variant_new_double (number) : NULL;
}

static GVariant *
variant_of_list (const char *name,
                 JsonArray  *list)
{
  gboolean is_float = g_strv_contains (float_attributes, name), is_text = FALSE;
  GVariantBuilder builder;

  for (guint i = 0; i < json_array_get_length (list); i++)
    {
      JsonNode *node = json_array_get_element (list, i);

      if (!JSON_NODE_HOLDS_VALUE (node))
        return NULL;
      is_text = is_text || !is_number (node);
      is_float = is_float || json_node_get_value_type (node) == G_TYPE_DOUBLE;
    }
  g_variant_builder_init (&builder, G_VARIANT_TYPE (is_text ? "as" : is_float ? "ad" : "ax"));
  for (guint i = 0; i < json_array_get_length (list); i++)
    {
      JsonNode *node = json_array_get_element (list, i);
      double number = 0;
      gint64 integer = 0;
      gboolean good = TRUE;

      if (is_text)
        {
          good = json_node_get_value_type (node) == G_TYPE_STRING;
          g_variant_builder_add (&builder, "s", good ? json_node_get_string (node) : "");
        }
      else if (is_float)
        {
          good = case_number_to_double (node, &number);
          g_variant_builder_add (&builder, "d", number);
        }
      else
        {
          good = case_number_to_int (node, &integer);
          g_variant_builder_add (&builder, "x", integer);
        }
      if (!good)
        {
          g_variant_builder_clear (&builder);
          return NULL;
        }
    }
  return g_variant_builder_end (&builder);
}

static GByteArray *
make_attribute (const char *name,
                JsonNode   *node,
                GError    **error)
{
  GVariant *value = NULL;

  if (JSON_NODE_HOLDS_OBJECT (node) && json_object_has_member (json_node_get_object (node), "tensor"))
    {
      g_autoptr(CaseTensor) tensor = case_tensor_parse (name, json_object_get_member (json_node_get_object (node), "tensor"), error);
      g_autoptr(RlxTensor) elements = tensor != NULL ? case_tensor_to_rlx (tensor, error) : NULL;

      return elements != NULL ? onnx_attr_tensor (name, onnx_tensor_from (NULL, elements)) : NULL;
    }
  if (JSON_NODE_HOLDS_ARRAY (node))
    value = variant_of_list (name, json_node_get_array (node));
  else if (is_number (node))
    value = variant_of_number (name, node);
  else if (JSON_NODE_HOLDS_VALUE (node))
    value = g_variant_new_string (json_node_get_string (node));
  if (value == NULL)
    {
      g_set_error (error, CONFORMANCE_ERROR, CONFORMANCE_ERROR_MALFORMED, "the attribute “%s” is nothing that a file can hold", name);
      return NULL;
    }
  return onnx_attr (name, value);
}

static GByteArray *
make_node (const CaseOp *op,
           GError      **error)
{
  g_autoptr(GByteArray) node = g_byte_array_new ();
  g_autoptr(GList) names = json_object_get_members (op->args);

  for (GList *l = names; l != NULL; l = l->next)
    {
      JsonNode *member = json_object_get_member (op->args, l->data);

      if (g_str_equal (l->data, "inputs"))
        {
          JsonArray *inputs = json_node_get_array (member);

          for (guint i = 0; i < json_array_get_length (inputs); i++)
            {
              JsonNode *input = json_array_get_element (inputs, i);

              proto_put_text (node, 1, JSON_NODE_HOLDS_OBJECT (input) ? json_object_get_string_member (json_node_get_object (input), "ref") : "");
            }
        }
      else if (!JSON_NODE_HOLDS_NULL (member))
        {
          GByteArray *attribute = make_attribute (l->data, member, error);

          if (attribute == NULL)
            return NULL;
          proto_put_message (node, 5, attribute);
        }
    }
  for (guint i = 0; op->outputs[i] != NULL; i++)
    proto_put_text (node, 2, op->outputs[i]);
  proto_put_text (node, 4, op->name);
  if (op->domain != NULL)
    proto_put_text (node, 7, op->domain);
  return g_steal_pointer (&node);
}

static char *
describe_shape (const CaseTensor *tensor)
{
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < tensor->n_dims; i++)
    g_string_append_printf (text, "%s%" G_GINT64_FORMAT, i > 0 ? " " : "", tensor->shape[i]);
  return g_string_free_and_steal (text);
}

/* Adds the inputs that are fed to a run to @given: constants are part of the file. */
static gboolean
add_ports (const Case *test,
           GByteArray *graph,
           GPtrArray  *given,
           GError    **error)
{
  const CaseOp *last = test->ops->len > 0 ? g_ptr_array_index (test->ops, test->ops->len - 1) : NULL;

  for (guint i = 0; i < test->inputs->len; i++)
    {
      CaseTensor *input = g_ptr_array_index (test->inputs, i);
      g_autofree char *shape = describe_shape (input);

      if (!input->known)
        {
          g_autofree char *what = g_strdup_printf ("data type %s", input->dtype);

          return unsupported (error, what);
        }
      if ((input->constant || input->param) && case_tensor_has_data (input))
        {
          g_autoptr(RlxTensor) elements = case_tensor_to_rlx (input, error);

          if (elements == NULL)
            return FALSE;
          onnx_add_tensor (graph, onnx_tensor_from (input->name, elements));
          continue;
        }
      onnx_add_input (graph, input->name, onnx_type (input->data_type), shape);
      g_ptr_array_add (given, input);
    }
  for (guint i = 0; i < test->outputs->len; i++)
    {
      const CaseTensor *output = g_ptr_array_index (test->outputs, i);

      if (!output->known)
        {
          g_autofree char *what = g_strdup_printf ("data type %s", output->dtype);

          return unsupported (error, what);
        }
      onnx_add_output (graph, output->name, onnx_type (output->data_type), NULL);
    }
  /* A case that has to be rejected names none. */
  for (guint i = 0; test->outputs->len == 0 && last != NULL && last->outputs[i] != NULL; i++)
    if (last->outputs[i][0] != '\0')
      onnx_add_output (graph, last->outputs[i], onnx_type (RLX_DATA_TYPE_F32), NULL);
  return TRUE;
}

static GBytes *
make_model (const Case *test,
            GPtrArray  *given,
            GError    **error)
{
  GByteArray *graph = g_byte_array_new ();
  gboolean good = add_ports (test, graph, given, error);

  for (guint i = 0; good && i < test->ops->len; i++)
    {
      GByteArray *node = make_node (g_ptr_array_index (test->ops, i), error);

      if (node != NULL)
        proto_put_message (graph, 1, node);
      good = node != NULL;
    }
  if (!good)
    {
      g_byte_array_unref (graph);
      return NULL;
    }
  return onnx_finish (onnx_model (graph, test->opset == G_MAXINT ? NEWEST_OPSET : test->opset));
}

/* ---- running it ----------------------------------------------------------------------- */

/* JavaScript tests write i64 results of ONNX as i32. */
static RlxTensor *
narrow (RlxTensor *tensor,
        GError   **error)
{
  gint64 n = rlx_tensor_get_n_elements (tensor);
  g_autofree gint32 *values = g_new (gint32, n + 1);
  g_autoptr(GBytes) bytes = NULL;
  const gint64 *shape;
  gsize n_dims;

  for (gint64 i = 0; i < n; i++)
    values[i] = (gint32) rlx_tensor_get_value (tensor, i);
  bytes = g_bytes_new (values, (gsize) n * sizeof *values);
  shape = rlx_tensor_get_shape (tensor, &n_dims);
  return rlx_tensor_new_from_bytes (RLX_DATA_TYPE_I32, shape, n_dims, bytes, error);
}

RlxTensor **
onnx_run (const Case *test,
          RlxDevice  *device,
          char     ***names,
          gsize      *n_outputs,
          GError    **error)
{
  g_autoptr(GPtrArray) given = g_ptr_array_new ();
  g_autoptr(GPtrArray) inputs = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr(GPtrArray) input_names = g_ptr_array_new ();
  g_autoptr(GBytes) bytes = make_model (test, given, error);
  g_autoptr(RlxModel) model = bytes != NULL ? rlx_model_new_from_bytes (bytes, error) : NULL;
  g_autoptr(RlxSession) session = NULL;
  g_auto(RlxTensors) outputs = NULL;

  if (model == NULL)
    return NULL;
  for (guint i = 0; i < given->len; i++)
    {
      const CaseTensor *input = g_ptr_array_index (given, i);
      RlxTensor *tensor = case_tensor_to_rlx (input, error);

      if (tensor == NULL)
        return NULL;
      g_ptr_array_add (inputs, tensor);
      g_ptr_array_add (input_names, input->name);
    }
  g_ptr_array_add (input_names, NULL);
  session = rlx_session_new (model, device, NULL);
  outputs = rlx_session_run (session, (const char *const *) input_names->pdata, (RlxTensor **) inputs->pdata, inputs->len,
                             n_outputs, NULL, error);
  if (outputs == NULL)
    return NULL;
  for (gsize i = 0; i < *n_outputs && i < test->outputs->len; i++)
    {
      const CaseTensor *want = g_ptr_array_index (test->outputs, i);

      if (g_str_equal (test->suite, "ort-web") && want->data_type == RLX_DATA_TYPE_I32 &&
          rlx_tensor_get_data_type (outputs[i]) == RLX_DATA_TYPE_I64)
        {
          RlxTensor *narrowed = narrow (outputs[i], error);

          if (narrowed == NULL)
            return NULL;
          g_object_unref (outputs[i]);
          outputs[i] = narrowed;
        }
    }
  *names = g_strdupv ((char **) rlx_session_get_output_names (session));
  return g_steal_pointer (&outputs);
}
