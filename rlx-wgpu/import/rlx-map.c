/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What mappings are made with: arguments, operands, nodes; and the rows that are words.
 */
#include "config.h"

#include "import/rlx-map-private.h"

#include <string.h>

#include "import/rlx-import-private.h"

/* ---- errors -------------------------------------------------------------------- */

gboolean
rlx_map_unsupported (GError    **error,
                     const char *format,
                     ...)
{
  va_list args;

  va_start (args, format);
  /* Only the first reason is kept. */
  if (error != NULL && *error == NULL)
    *error = g_error_new_valist (RLX_MODEL_ERROR, RLX_MODEL_ERROR_UNSUPPORTED, format, args);
  va_end (args);
  return FALSE;
}

gboolean
rlx_map_refused (GError    **error,
                 const char *format,
                 ...)
{
  va_list args;

  va_start (args, format);
  /* Only the first reason is kept. */
  if (error != NULL && *error == NULL)
    *error = g_error_new_valist (RLX_MODEL_ERROR, RLX_MODEL_ERROR_INVALID, format, args);
  va_end (args);
  return FALSE;
}

static gboolean
wrong_argument (const char *name,
                const char *wanted,
                GError    **error)
{
  return rlx_map_refused (error, "attribute “%s” is not %s", name, wanted);
}

/* ---- arguments ------------------------------------------------------------------- */

const RlxOnnxAttribute *
rlx_map_arg (RlxMapCall *call,
             const char *name)
{
  for (guint i = 0; i < call->node->n_attributes; i++)
    if (g_str_equal (call->node->attributes[i].name, name))
      {
        if (i < 64)
          call->used_attributes |= G_GUINT64_CONSTANT (1) << i;
        return &call->node->attributes[i];
      }
  return NULL;
}

gboolean
rlx_map_arg_int (RlxMapCall *call,
                 const char *name,
                 gint64      fallback,
                 gint64     *value,
                 GError    **error)
{
  const RlxOnnxAttribute *attribute = rlx_map_arg (call, name);

  *value = fallback;
  if (attribute == NULL)
    return TRUE;
  if (attribute->kind != RLX_ONNX_ATTRIBUTE_INT)
    return wrong_argument (name, "an integer", error);
  *value = attribute->integer;
  return TRUE;
}

gboolean
rlx_map_arg_double (RlxMapCall *call,
                    const char *name,
                    double      fallback,
                    double     *value,
                    GError    **error)
{
  const RlxOnnxAttribute *attribute = rlx_map_arg (call, name);

  *value = fallback;
  if (attribute == NULL)
    return TRUE;
  if (attribute->kind != RLX_ONNX_ATTRIBUTE_FLOAT)
    return wrong_argument (name, "a number", error);
  *value = (double) attribute->real;
  return TRUE;
}

gboolean
rlx_map_arg_bool (RlxMapCall *call,
                  const char *name,
                  gboolean    fallback,
                  gboolean   *value,
                  GError    **error)
{
  gint64 number;

  *value = fallback;
  if (!rlx_map_arg_int (call, name, fallback, &number, error))
    return FALSE;
  *value = number != 0;
  return TRUE;
}

const char *
rlx_map_arg_string (RlxMapCall *call,
                    const char *name,
                    GError    **error)
{
  const RlxOnnxAttribute *attribute = rlx_map_arg (call, name);

  if (attribute == NULL)
    return NULL;
  if (attribute->kind != RLX_ONNX_ATTRIBUTE_STRING || !g_utf8_validate (attribute->text, -1, NULL))
    {
      wrong_argument (name, "a word", error);
      return NULL;
    }
  return attribute->text;
}

/* The attribute, if it is of that kind. */
static const RlxOnnxAttribute *
get_list (RlxMapCall          *call,
          const char          *name,
          RlxOnnxAttributeKind kind,
          const char          *wanted,
          GError             **error)
{
  const RlxOnnxAttribute *attribute = rlx_map_arg (call, name);

  if (attribute != NULL && attribute->kind != kind)
    {
      wrong_argument (name, wanted, error);
      return NULL;
    }
  return attribute;
}

gint64 *
rlx_map_arg_ints (RlxMapCall *call,
                  const char *name,
                  gsize      *n_values,
                  GError    **error)
{
  const RlxOnnxAttribute *attribute = get_list (call, name, RLX_ONNX_ATTRIBUTE_INTS, "a list of integers", error);

  *n_values = 0;
  return attribute != NULL ? rlx_onnx_attribute_dup_ints (attribute, n_values) : NULL;
}

float *
rlx_map_arg_floats (RlxMapCall *call,
                    const char *name,
                    gsize      *n_values,
                    GError    **error)
{
  const RlxOnnxAttribute *attribute = get_list (call, name, RLX_ONNX_ATTRIBUTE_FLOATS, "a list of numbers", error);

  *n_values = 0;
  return attribute != NULL ? rlx_onnx_attribute_dup_floats (attribute, n_values) : NULL;
}

GPtrArray *
rlx_map_arg_strings (RlxMapCall *call,
                     const char *name,
                     GError    **error)
{
  const RlxOnnxAttribute *attribute = get_list (call, name, RLX_ONNX_ATTRIBUTE_STRINGS, "a list of words", error);
  g_autoptr(GPtrArray) texts = attribute != NULL ? rlx_onnx_attribute_get_strings (attribute) : NULL;

  for (guint i = 0; texts != NULL && i < texts->len; i++)
    if (!g_utf8_validate (texts->pdata[i], -1, NULL))
      {
        wrong_argument (name, "a list of words", error);
        return NULL;
      }
  return g_steal_pointer (&texts);
}

RlxTensor *
rlx_map_arg_tensor (RlxMapCall *call,
                    const char *name,
                    GError    **error)
{
  const RlxOnnxAttribute *attribute = get_list (call, name, RLX_ONNX_ATTRIBUTE_TENSOR, "a tensor", error);
  RlxProtobufValue message;

  if (attribute == NULL)
    return NULL;
  if (!rlx_onnx_attribute_get_message (attribute, &message))
    {
      wrong_argument (name, "a tensor", error);
      return NULL;
    }
  return rlx_import_load (call->import, &message, error);
}

gboolean
rlx_map_arg_data_type (RlxMapCall  *call,
                       const char  *name,
                       RlxDataType  fallback,
                       RlxDataType *value,
                       GError     **error)
{
  const RlxOnnxTypeInfo *info;
  gint64 number;

  *value = fallback;
  if (rlx_map_arg (call, name) == NULL)
    return TRUE;
  if (!rlx_map_arg_int (call, name, 0, &number, error))
    return FALSE;
  info = rlx_onnx_type_get_info (number);
  if (info->bits == 0 && number != RLX_ONNX_TYPE_STRING)
    return rlx_map_refused (error, "attribute “%s” is %" G_GINT64_FORMAT ", no data type", name, number);
  if (info->data_type < 0)
    return rlx_map_unsupported (error, "the data type %s is not supported on devices", info->name);
  *value = (RlxDataType) info->data_type;
  return TRUE;
}

/* ---- operands -------------------------------------------------------------------------- */

guint
rlx_map_n_inputs (RlxMapCall *call)
{
  return call->node->n_inputs;
}

gboolean
rlx_map_has_input (RlxMapCall *call,
                   guint       index)
{
  return index < call->node->n_inputs && call->node->inputs[index][0] != '\0';
}

void
rlx_map_ignore_input (RlxMapCall *call,
                      guint       index)
{
  if (index < 64)
    call->used_inputs |= G_GUINT64_CONSTANT (1) << index;
}

RlxMapValue *
rlx_map_get_value (RlxMapCall *call,
                   guint       index,
                   GError    **error)
{
  if (!rlx_map_has_input (call, index))
    {
      rlx_map_refused (error, "input %u is missing", index);
      return NULL;
    }
  rlx_map_ignore_input (call, index);
  return rlx_scope_get (call->scope, call->node->inputs[index]);
}

RlxNode *
rlx_map_input (RlxMapCall *call,
               guint       index,
               gboolean    optional,
               GError    **error)
{
  RlxMapValue *value;

  if (rlx_map_has_failed (error) || (optional && !rlx_map_has_input (call, index)))
    return NULL;
  value = rlx_map_get_value (call, index, error);
  return value != NULL ? rlx_import_get_node (call->import, value, error) : NULL;
}

gboolean
rlx_map_is_known (RlxMapCall *call,
                  guint       index)
{
  RlxMapValue *value = rlx_map_has_input (call, index) ? rlx_scope_get (call->scope, call->node->inputs[index]) : NULL;

  return value != NULL && value->count == NULL && rlx_map_value_is_known (value);
}

RlxTensor *
rlx_map_input_value (RlxMapCall *call,
                     guint       index,
                     GError    **error)
{
  RlxMapValue *value = rlx_map_get_value (call, index, error);

  if (value == NULL)
    return NULL;
  /* Known elements may include padding. */
  if (value->count != NULL || !rlx_map_value_is_known (value))
    {
      rlx_import_need (call->import, value->count != NULL ? &(RlxMapValue) { .node = value->count } : value);
      rlx_map_unsupported (error, "input %u determines shapes or loop counts, but is computed from data: “%s”", index, call->node->inputs[index]);
      return NULL;
    }
  return rlx_import_get_tensor (call->import, value, error);
}

gint64 *
rlx_map_input_ints (RlxMapCall *call,
                    guint       index,
                    gsize      *n_values,
                    GError    **error)
{
  g_autoptr(RlxTensor) tensor = rlx_map_input_value (call, index, error);

  *n_values = 0;
  return tensor != NULL ? rlx_tensor_to_ints (tensor, n_values, error) : NULL;
}

/* ---- nodes ------------------------------------------------------------------------ */

RlxNode *
rlx_map_op (RlxMapCall *call,
            const char *op,
            RlxNode   **inputs,
            gsize       n_inputs,
            GVariant   *attrs,
            GError    **error)
{
  g_autoptr(GVariant) sunk = attrs != NULL ? g_variant_ref_sink (attrs) : NULL;
  g_autofree RlxNode **outputs = NULL;
  gsize n_outputs = 0;

  /* An operator may have fewer optional inputs than there are positions here. */
  while (n_inputs > 0 && inputs[n_inputs - 1] == NULL)
    n_inputs--;
  outputs = rlx_map_add_op (call, op, inputs, n_inputs, sunk, &n_outputs, error);
  return outputs != NULL && n_outputs > 0 ? outputs[0] : NULL;
}

RlxNode *
rlx_map_op1 (RlxMapCall *call,
             const char *op,
             RlxNode    *a,
             GVariant   *attrs,
             GError    **error)
{
  return rlx_map_op (call, op, &a, 1, attrs, error);
}

RlxNode *
rlx_map_op2 (RlxMapCall *call,
             const char *op,
             RlxNode    *a,
             RlxNode    *b,
             GVariant   *attrs,
             GError    **error)
{
  RlxNode *inputs[] = { a, b };

  return rlx_map_op (call, op, inputs, G_N_ELEMENTS (inputs), attrs, error);
}

gboolean
rlx_map_same_shape (RlxNode *a,
                    RlxNode *b)
{
  gsize n_a, n_b;
  const gint64 *shape_a = rlx_node_get_shape (a, &n_a);
  const gint64 *shape_b = rlx_node_get_shape (b, &n_b);

  return n_a == n_b && (n_a == 0 || memcmp (shape_a, shape_b, n_a * sizeof *shape_a) == 0);
}

RlxNode *
rlx_map_op2_onto (RlxMapCall *call,
                  const char *op,
                  RlxNode    *a,
                  RlxNode    *b,
                  GError    **error)
{
  RlxNode *result = rlx_map_op2 (call, op, a, b, NULL, error);

  if (result != NULL && !rlx_map_same_shape (result, a))
    {
      rlx_map_refused (error, "the second operand does not broadcast to the first");
      return NULL;
    }
  return result;
}

GVariant *
rlx_map_attrs (const char *name,
               ...)
{
  g_auto(GVariantDict) dict = G_VARIANT_DICT_INIT (NULL);
  va_list args;

  va_start (args, name);
  for (; name != NULL; name = va_arg (args, const char *))
    g_variant_dict_insert_value (&dict, name, va_arg (args, GVariant *));
  va_end (args);
  return g_variant_dict_end (&dict);
}

GVariant *
rlx_map_ints (const gint64 *values,
              gsize         n_values)
{
  return g_variant_new_fixed_array (G_VARIANT_TYPE_INT64, values, n_values, sizeof *values);
}

GVariant *
rlx_map_data_type (RlxDataType data_type)
{
  return g_variant_new_string (rlx_data_type_to_string (data_type));
}

RlxNode *
rlx_map_cast (RlxMapCall *call,
              RlxNode    *node,
              RlxDataType data_type,
              GError    **error)
{
  if (node == NULL || rlx_node_get_data_type (node) == data_type)
    return node;
  return rlx_map_op1 (call, "cast", node, rlx_map_attrs ("to", rlx_map_data_type (data_type), NULL), error);
}

RlxNode *
rlx_map_reshape (RlxMapCall   *call,
                 RlxNode      *node,
                 const gint64 *shape,
                 gsize         n_dims,
                 GError      **error)
{
  return rlx_map_op1 (call, "reshape", node, rlx_map_attrs ("shape", rlx_map_ints (shape, n_dims), NULL), error);
}

RlxNode *
rlx_map_constant (RlxMapCall *call,
                  RlxTensor  *tensor,
                  GError    **error)
{
  return rlx_map_has_failed (error) ? NULL : rlx_graph_constant (call->graph, tensor, error);
}

gboolean
rlx_map_wants_output (RlxMapCall *call,
                      guint       index)
{
  return index < call->node->n_outputs && call->node->outputs[index][0] != '\0';
}

gboolean
rlx_map_return_value (RlxMapCall  *call,
                      guint        index,
                      RlxMapValue *value)
{
  if (rlx_map_wants_output (call, index))
    rlx_scope_set (call->scope, call->node->outputs[index], value);
  return TRUE;
}

gboolean
rlx_map_return (RlxMapCall *call,
                guint       index,
                RlxNode    *node)
{
  RlxMapValue *value;

  if (node == NULL)
    return FALSE;
  value = rlx_import_new_value (call->import);
  value->node = node;
  return rlx_map_return_value (call, index, value);
}

gboolean
rlx_map_return_tensor (RlxMapCall *call,
                       guint       index,
                       RlxTensor  *tensor)
{
  RlxMapValue *value;

  if (tensor == NULL)
    return FALSE;
  value = rlx_import_new_value (call->import);
  value->tensor = g_object_ref (tensor);
  return rlx_map_return_value (call, index, value);
}

/* ---- rows ------------------------------------------------------------------------ */

/* One attribute of a row; see RlxMapRow.attrs. */
static gboolean
convert_attr (RlxMapCall   *call,
              const char   *spec,
              GVariantDict *out,
              GError      **error)
{
  const char *slash = strchr (spec, '/');
  const char *colon = memchr (spec, ':', (gsize) (slash - spec));
  g_autofree char *theirs = g_strndup (spec, (gsize) ((colon != NULL ? colon : slash) - spec));
  g_autofree char *ours = colon != NULL ? g_strndup (colon + 1, (gsize) (slash - colon - 1)) : g_strdup (theirs);
  const char *fallback = slash[2] == '=' ? slash + 3 : NULL;
  GVariant *value = NULL;

  if (rlx_map_arg (call, theirs) == NULL && fallback == NULL)
    return TRUE;
  switch (slash[1])
    {
    case 'f':
      {
        double number;

        if (!rlx_map_arg_double (call, theirs, fallback != NULL ? g_ascii_strtod (fallback, NULL) : 0, &number, error))
          return FALSE;
        value = g_variant_new_double (number);
        break;
      }
    case 'i':
      {
        gint64 number;

        if (!rlx_map_arg_int (call, theirs, fallback != NULL ? g_ascii_strtoll (fallback, NULL, 10) : 0, &number, error))
          return FALSE;
        value = g_variant_new_int64 (number);
        break;
      }
    case 'b':
      {
        gboolean flag;

        if (!rlx_map_arg_bool (call, theirs, fallback != NULL && fallback[0] == '1', &flag, error))
          return FALSE;
        value = g_variant_new_boolean (flag);
        break;
      }
    case 't':
      {
        RlxDataType data_type;

        if (!rlx_map_arg_data_type (call, theirs, RLX_DATA_TYPE_F32, &data_type, error))
          return FALSE;
        value = rlx_map_data_type (data_type);
        break;
      }
    case 's':
      {
        const char *word = rlx_map_arg_string (call, theirs, error);

        if (word == NULL)
          return FALSE;
        value = g_variant_new_string (word);
        break;
      }
    case 'I':
      {
        g_autofree gint64 *values = NULL;
        gsize n_values = 0;

        if (rlx_map_arg (call, theirs) != NULL && (values = rlx_map_arg_ints (call, theirs, &n_values, error)) == NULL)
          return FALSE;
        value = rlx_map_ints (values, n_values);
        break;
      }
    default:
      g_assert_not_reached ();
    }
  g_variant_dict_insert_value (out, ours, value);
  return TRUE;
}

static gboolean
call_row (RlxMapCall *call,
          GError    **error)
{
  const RlxMapRow *row = call->row;
  g_autoptr(GPtrArray) operands = g_ptr_array_new ();
  g_auto(GVariantDict) attrs = G_VARIANT_DICT_INIT (NULL);
  g_autoptr(GVariant) variant = NULL;
  g_autofree RlxNode **outputs = NULL;
  gsize n_outputs = 0;

  for (guint i = 0; i < rlx_map_n_inputs (call); i++)
    {
      RlxNode *node = rlx_map_input (call, i, TRUE, error);

      if (node == NULL && rlx_map_has_input (call, i))
        return FALSE;
      g_ptr_array_add (operands, node);
    }
  if (operands->len == 0 || operands->pdata[0] == NULL)
    return rlx_map_refused (error, "the first operand is missing");

  if (row->attrs != NULL)
    {
      g_auto(GStrv) specs = g_strsplit (row->attrs, " ", -1);

      for (guint i = 0; specs[i] != NULL; i++)
        if (!convert_attr (call, specs[i], &attrs, error))
          return FALSE;
    }
  variant = g_variant_ref_sink (g_variant_dict_end (&attrs));

  if (row->flags & MAP_FOLD)
    {
      RlxNode *result = operands->pdata[0];

      for (guint i = 1; i < operands->len && result != NULL; i++)
        result = rlx_map_op2 (call, row->op, result, operands->pdata[i], variant, error);
      return rlx_map_return (call, 0, result);
    }

  while (operands->len > 0 && operands->pdata[operands->len - 1] == NULL)
    g_ptr_array_set_size (operands, (int) operands->len - 1);
  outputs = rlx_map_add_op (call, row->op, (RlxNode **) operands->pdata, operands->len, variant, &n_outputs, error);
  if (outputs == NULL)
    return FALSE;
  for (guint i = 0; i < call->node->n_outputs; i++)
    {
      if (!rlx_map_wants_output (call, i))
        continue;
      if (i >= n_outputs)
        return rlx_map_unsupported (error, "there is no output %u", i);
      rlx_map_return (call, i, outputs[i]);
    }
  return TRUE;
}

const RlxMapRow *
rlx_map_find (const RlxOnnxNode *node)
{
  static gsize ready;
  static GHashTable *table;
  g_autofree char *name = NULL;

  if (g_once_init_enter (&ready))
    {
      table = g_hash_table_new (g_str_hash, g_str_equal);
      for (const RlxMapRow *row = rlx_map_rows; row->name != NULL; row++)
        g_hash_table_insert (table, (gpointer) row->name, (gpointer) row);
      g_once_init_leave (&ready, 1);
    }
  if (node->domain[0] != '\0')
    name = g_strdup_printf ("%s:%s", node->domain, node->op);
  return g_hash_table_lookup (table, name != NULL ? name : node->op);
}

static gboolean
is_ignored (RlxMapCall *call,
            const char *name)
{
  g_auto(GStrv) names = NULL;

  /* An optimisation hint of ONNX's first opset. */
  if (g_str_equal (name, "consumed_inputs"))
    return TRUE;
  if (call->row->ignored == NULL)
    return FALSE;
  names = g_strsplit (call->row->ignored, " ", -1);
  return g_strv_contains ((const char *const *) names, name);
}

/* Inputs and attributes that the mapping did not query could affect the result, unless the row says otherwise. */
gboolean
rlx_map_check_used (RlxMapCall *call,
                    GError    **error)
{
  for (guint i = 0; i < MIN (call->node->n_inputs, 64); i++)
    if (rlx_map_has_input (call, i) && !(call->used_inputs >> i & 1))
      return rlx_map_unsupported (error, "its input %u is not supported", i);
  for (guint i = 0; i < call->node->n_attributes; i++)
    if (i >= 64 || (!(call->used_attributes >> i & 1) && !is_ignored (call, call->node->attributes[i].name)))
      return rlx_map_unsupported (error, "its attribute “%s” is not supported", call->node->attributes[i].name);
  return TRUE;
}

gboolean
rlx_map_call (RlxMapCall *call,
              GError    **error)
{
  GError *local = NULL;

  call->used_inputs = call->used_attributes = 0;
  if (call->row->reason != NULL)
    return rlx_map_unsupported (error, "%s", call->row->reason);
  if (call->row->func != NULL ? call->row->func (call, &local) : call_row (call, &local))
    return rlx_map_check_used (call, error);
  /* The reasons of bodies, and of what they read, have been recorded already. */
  if (local == NULL && call->import->n_reasons > 0)
    return FALSE;
  if (local == NULL)
    return rlx_map_refused (error, "an argument is missing");
  g_propagate_error (error, local);
  return FALSE;
}
