/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "map.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

/* ---- errors -------------------------------------------------------------------- */

gboolean
map_unsupported (GError    **error,
                 const char *format,
                 ...)
{
  g_autofree char *message = NULL;
  va_list args;

  va_start (args, format);
  message = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error_literal (error, CONFORMANCE_ERROR, CONFORMANCE_ERROR_UNSUPPORTED, message);
  return FALSE;
}

gboolean
map_refused (GError    **error,
             const char *format,
             ...)
{
  g_autofree char *message = NULL;
  va_list args;

  va_start (args, format);
  message = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error_literal (error, CONFORMANCE_ERROR, CONFORMANCE_ERROR_REFUSED, message);
  return FALSE;
}

static gboolean
wrong_argument (MapCall    *call,
                const char *name,
                const char *wanted,
                GError    **error)
{
  return map_refused (error, "%s: argument “%s” is not %s", call->op->name, name, wanted);
}

/* ---- arguments ------------------------------------------------------------------- */

JsonNode *
map_arg (MapCall    *call,
         const char *name)
{
  JsonNode *node = json_object_get_member (call->op->args, name);

  if (node == NULL || JSON_NODE_HOLDS_NULL (node))
    return NULL;
  g_hash_table_add (call->used, node);
  return node;
}

gboolean
map_arg_int (MapCall    *call,
             const char *name,
             gint64      fallback,
             gint64     *value,
             GError    **error)
{
  JsonNode *node = map_arg (call, name);

  *value = fallback;
  if (node != NULL && !case_number_to_int (node, value))
    return wrong_argument (call, name, "an integer", error);
  return TRUE;
}

gboolean
map_arg_double (MapCall    *call,
                const char *name,
                double      fallback,
                double     *value,
                GError    **error)
{
  JsonNode *node = map_arg (call, name);

  *value = fallback;
  if (node != NULL && !case_number_to_double (node, value))
    return wrong_argument (call, name, "a number", error);
  return TRUE;
}

gboolean
map_arg_bool (MapCall    *call,
              const char *name,
              gboolean    fallback,
              gboolean   *value,
              GError    **error)
{
  JsonNode *node = map_arg (call, name);
  double number;

  *value = fallback;
  if (node == NULL)
    return TRUE;
  if (!case_number_to_double (node, &number))
    return wrong_argument (call, name, "a boolean", error);
  *value = number != 0;
  return TRUE;
}

const char *
map_arg_string (MapCall    *call,
                const char *name,
                GError    **error)
{
  JsonNode *node = map_arg (call, name);

  if (node == NULL)
    return NULL;
  if (!JSON_NODE_HOLDS_VALUE (node) || json_node_get_value_type (node) != G_TYPE_STRING)
    {
      wrong_argument (call, name, "a word", error);
      return NULL;
    }
  return json_node_get_string (node);
}

gint64 *
map_arg_ints (MapCall    *call,
              const char *name,
              gsize      *n_values,
              GError    **error)
{
  JsonNode *node = map_arg (call, name);
  g_autofree gint64 *values = NULL;
  JsonArray *array;

  *n_values = 0;
  if (node == NULL)
    return NULL;
  if (!JSON_NODE_HOLDS_ARRAY (node))
    {
      wrong_argument (call, name, "a list", error);
      return NULL;
    }
  array = json_node_get_array (node);
  values = g_new0 (gint64, json_array_get_length (array) + 1);
  for (guint i = 0; i < json_array_get_length (array); i++)
    if (!case_number_to_int (json_array_get_element (array, i), &values[i]))
      {
        wrong_argument (call, name, "a list of integers", error);
        return NULL;
      }
  *n_values = json_array_get_length (array);
  return g_steal_pointer (&values);
}

/* The name in {"ref": NAME}, or NULL. */
static const char *
get_ref (JsonNode *node)
{
  JsonNode *ref;

  if (node == NULL || !JSON_NODE_HOLDS_OBJECT (node))
    return NULL;
  ref = json_object_get_member (json_node_get_object (node), "ref");
  if (ref == NULL || !JSON_NODE_HOLDS_VALUE (ref) || json_node_get_value_type (ref) != G_TYPE_STRING)
    return NULL;
  return json_node_get_string (ref);
}

RlxNode *
map_operand_node (MapCall    *call,
                  JsonNode   *node,
                  const char *what,
                  GError    **error)
{
  const char *name = get_ref (node);

  if (name == NULL)
    {
      wrong_argument (call, what, "an operand", error);
      return NULL;
    }
  g_hash_table_add (call->used, node);
  return build_get (call->build, name, error);
}

RlxNode *
map_operand (MapCall    *call,
             const char *name,
             gboolean    optional,
             GError    **error)
{
  JsonNode *node = map_arg (call, name);

  if (node == NULL)
    {
      if (!optional)
        map_refused (error, "%s: operand “%s” is missing", call->op->name, name);
      return NULL;
    }
  return map_operand_node (call, node, name, error);
}

static JsonNode *
get_input (MapCall *call,
           guint    index)
{
  JsonNode *node = map_arg (call, "inputs");
  JsonArray *array;

  if (node == NULL || !JSON_NODE_HOLDS_ARRAY (node))
    return NULL;
  array = json_node_get_array (node);
  if (index >= json_array_get_length (array))
    return NULL;
  node = json_array_get_element (array, index);
  /* an omitted one is null, or has no name */
  return JSON_NODE_HOLDS_NULL (node) || g_strcmp0 (get_ref (node), "") == 0 ? NULL : node;
}

guint
map_n_inputs (MapCall *call)
{
  JsonNode *node = map_arg (call, "inputs");

  return node != NULL && JSON_NODE_HOLDS_ARRAY (node) ? json_array_get_length (json_node_get_array (node)) : 0;
}

gboolean
map_has_input (MapCall *call,
               guint    index)
{
  return get_input (call, index) != NULL;
}

RlxNode *
map_input (MapCall *call,
           guint    index,
           gboolean optional,
           GError **error)
{
  g_autofree char *what = g_strdup_printf ("inputs[%u]", index);
  JsonNode *node = get_input (call, index);

  if (node == NULL)
    {
      if (!optional)
        map_refused (error, "%s: input %u is missing", call->op->name, index);
      return NULL;
    }
  return map_operand_node (call, node, what, error);
}

/* ---- nodes ------------------------------------------------------------------------ */

RlxNode *
map_op (MapCall   *call,
        const char *op,
        RlxNode  **inputs,
        gsize      n_inputs,
        GVariant  *attrs,
        GError   **error)
{
  g_autoptr(GVariant) sunk = attrs != NULL ? g_variant_ref_sink (attrs) : NULL;
  g_autofree RlxNode **outputs = NULL;
  gsize n_outputs = 0;
  GError *local = NULL;

  /* operators may have fewer optional inputs than there are slots here */
  while (n_inputs > 0 && inputs[n_inputs - 1] == NULL)
    n_inputs--;

  outputs = rlx_graph_add_op (build_get_graph (call->build), op, inputs, n_inputs, sunk, &n_outputs, &local);
  if (local != NULL)
    {
      g_propagate_error (error, local);
      return NULL;
    }
  if (outputs == NULL || n_outputs < 1 || outputs[0] == NULL)
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "add_op (“%s”) gave no node and no error", op);
      return NULL;
    }
  return outputs[0];
}

RlxNode *
map_op1 (MapCall    *call,
         const char *op,
         RlxNode    *a,
         GVariant   *attrs,
         GError    **error)
{
  return map_op (call, op, &a, 1, attrs, error);
}

RlxNode *
map_op2 (MapCall    *call,
         const char *op,
         RlxNode    *a,
         RlxNode    *b,
         GVariant   *attrs,
         GError    **error)
{
  RlxNode *inputs[] = { a, b };

  return map_op (call, op, inputs, G_N_ELEMENTS (inputs), attrs, error);
}

gboolean
map_same_shape (RlxNode *a,
                RlxNode *b)
{
  gsize n_a, n_b;
  const gint64 *shape_a = rlx_node_get_shape (a, &n_a);
  const gint64 *shape_b = rlx_node_get_shape (b, &n_b);

  return n_a == n_b && (n_a == 0 || memcmp (shape_a, shape_b, n_a * sizeof *shape_a) == 0);
}

RlxNode *
map_op2_onto (MapCall    *call,
              const char *op,
              RlxNode    *a,
              RlxNode    *b,
              GError    **error)
{
  RlxNode *result = map_op2 (call, op, a, b, NULL, error);

  if (result != NULL && !map_same_shape (result, a))
    {
      map_refused (error, "%s: the second operand does not broadcast to the first", call->op->name);
      return NULL;
    }
  return result;
}

GVariant *
map_attrs (const char *name,
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
map_ints (const gint64 *values,
          gsize         n_values)
{
  return g_variant_new_fixed_array (G_VARIANT_TYPE_INT64, values, n_values, sizeof *values);
}

GVariant *
map_data_type (RlxDataType data_type)
{
  return g_variant_new_string (rlx_data_type_to_string (data_type));
}

RlxNode *
map_cast (MapCall    *call,
          RlxNode    *node,
          RlxDataType data_type,
          GError    **error)
{
  if (node == NULL || rlx_node_get_data_type (node) == data_type)
    return node;
  return map_op1 (call, "cast", node, map_attrs ("to", map_data_type (data_type), NULL), error);
}

RlxNode *
map_reshape (MapCall      *call,
             RlxNode      *node,
             const gint64 *shape,
             gsize         n_dims,
             GError      **error)
{
  return map_op1 (call, "reshape", node, map_attrs ("shape", map_ints (shape, n_dims), NULL), error);
}

RlxNode *
map_constant (MapCall   *call,
              RlxTensor *tensor,
              GError   **error)
{
  return rlx_graph_constant (build_get_graph (call->build), tensor, error);
}

gboolean
map_wants_output (MapCall *call,
                  guint    index)
{
  return index < g_strv_length (call->op->outputs) && call->op->outputs[index][0] != '\0';
}

gboolean
map_return (MapCall *call,
            guint    index,
            RlxNode *node)
{
  if (node == NULL)
    return FALSE;
  if (map_wants_output (call, index))
    build_set (call->build, call->op->outputs[index], node);
  return TRUE;
}

/* ---- rows ------------------------------------------------------------------------ */

static gboolean
parse_data_type (MapCall     *call,
                 JsonNode    *node,
                 const char  *name,
                 RlxDataType *data_type,
                 GError     **error)
{
  static const struct { const char *name, *ours; } types[] = {
    { "float32", "f32" }, { "float16", "f16" }, { "int32", "i32" }, { "uint32", "u32" }, { "int64", "i64" },
    { "uint64", "u64" }, { "int8", "i8" }, { "uint8", "u8" }, { "int4", "i4" }, { "uint4", "u4" },
  };
  gboolean is_string = JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_STRING;

  for (guint i = 0; is_string && i < G_N_ELEMENTS (types); i++)
    if (g_str_equal (types[i].name, json_node_get_string (node)))
      {
        if (!case_data_type_from_string (types[i].ours, data_type))
          return map_unsupported (error, "data type %s", types[i].ours);
        return TRUE;
      }
  return wrong_argument (call, name, "a data type", error);
}

static gboolean
check_not_negative (MapCall      *call,
                    const char   *name,
                    const gint64 *values,
                    gsize         n_values,
                    GError      **error)
{
  for (gsize i = 0; i < n_values; i++)
    if (values[i] < 0 || values[i] > G_MAXUINT32)
      return map_refused (error, "%s: %" G_GINT64_FORMAT " in argument “%s” is not a 32-bit unsigned integer",
                          call->op->name, values[i], name);
  return TRUE;
}

/* A single attribute of a row; see Mapping.attrs. */
static gboolean
convert_attr (MapCall      *call,
              const char   *spec,
              RlxNode      *first,
              GVariantDict *out,
              GError      **error)
{
  const char *slash = strchr (spec, '/');
  const char *colon = strchr (spec, ':');
  g_autofree char *foreign = NULL;
  g_autofree char *ours = NULL;
  const char *fallback;
  g_autoptr(JsonNode) default_node = NULL;
  JsonNode *node;
  GVariant *value = NULL;
  char kind;

  g_assert (slash != NULL);
  if (colon != NULL && colon < slash)
    {
      foreign = g_strndup (spec, colon - spec);
      ours = g_strndup (colon + 1, slash - colon - 1);
    }
  else
    {
      foreign = g_strndup (spec, slash - spec);
      ours = g_strdup (foreign);
    }
  kind = slash[1];
  fallback = slash[2] == '=' ? slash + 3 : NULL;

  node = map_arg (call, foreign);
  if (node == NULL && fallback != NULL)
    {
      default_node = json_node_new (JSON_NODE_VALUE);
      if (kind == 's' || kind == 't')
        json_node_set_string (default_node, fallback);
      else
        json_node_set_double (default_node, g_ascii_strtod (fallback, NULL));
      node = default_node;
    }
  if (node == NULL && kind != 'X')
    return TRUE;

  switch (kind)
    {
    case 'f':
    case 'd':
      {
        double number;

        if (!case_number_to_double (node, &number))
          return wrong_argument (call, foreign, "a number", error);
        if (kind == 'd' && isinf (number))
          return wrong_argument (call, foreign, "finite", error);
        value = g_variant_new_double (number);
        break;
      }
    case 'i':
    case 'u':
    case 'A':
      {
        gint64 number;

        if (!case_number_to_int (node, &number))
          return wrong_argument (call, foreign, "an integer", error);
        if (kind == 'u' && !check_not_negative (call, foreign, &number, 1, error))
          return FALSE;
        value = kind == 'A' ? map_ints (&number, 1) : g_variant_new_int64 (number);
        break;
      }
    case 'b':
      {
        double number;

        if (!case_number_to_double (node, &number))
          return wrong_argument (call, foreign, "a boolean", error);
        value = g_variant_new_boolean (number != 0);
        break;
      }
    case 't':
      {
        RlxDataType data_type;

        if (!parse_data_type (call, node, foreign, &data_type, error))
          return FALSE;
        value = map_data_type (data_type);
        break;
      }
    case 's':
      if (!JSON_NODE_HOLDS_VALUE (node) || json_node_get_value_type (node) != G_TYPE_STRING)
        return wrong_argument (call, foreign, "a word", error);
      value = g_variant_new_string (json_node_get_string (node));
      break;
    case 'I':
    case 'U':
    case 'X':
      {
        g_autofree gint64 *values = NULL;
        gsize n_values = 0;

        if (map_arg (call, foreign) == NULL)
          {
            n_values = kind == 'X' ? rlx_node_get_n_dims (first) : 0;
            values = g_new (gint64, n_values + 1);
            for (gsize i = 0; i < n_values; i++)
              values[i] = (gint64) i;
          }
        else
          {
            values = map_arg_ints (call, foreign, &n_values, error);
            if (values == NULL)
              return FALSE;
            if (kind != 'I' && !check_not_negative (call, foreign, values, n_values, error))
              return FALSE;
          }
        value = map_ints (values, n_values);
        break;
      }
    default:
      g_assert_not_reached ();
    }

  g_variant_dict_insert_value (out, ours, value);
  return TRUE;
}

static gboolean
collect_operands (MapCall   *call,
                  GPtrArray *out,
                  GError   **error)
{
  const Mapping *row = call->mapping;

  if (row->operands != NULL)
    {
      g_auto(GStrv) names = g_strsplit (row->operands, " ", -1);

      for (guint i = 0; names[i] != NULL; i++)
        {
          gboolean optional = g_str_has_suffix (names[i], "?");
          RlxNode *node;

          if (optional)
            names[i][strlen (names[i]) - 1] = '\0';
          node = map_operand (call, names[i], optional, error);
          if (node == NULL && (!optional || map_arg (call, names[i]) != NULL))
            return FALSE;
          g_ptr_array_add (out, node);
        }
      return TRUE;
    }

  for (guint i = 0; i < map_n_inputs (call); i++)
    {
      RlxNode *node = map_input (call, i, TRUE, error);

      if (node == NULL && map_has_input (call, i))
        return FALSE;
      g_ptr_array_add (out, node);
    }
  return TRUE;
}

static gboolean
call_row (MapCall *call,
          GError **error)
{
  const Mapping *row = call->mapping;
  g_autoptr(GPtrArray) operands = g_ptr_array_new ();
  g_auto(GVariantDict) attrs = G_VARIANT_DICT_INIT (NULL);
  g_autoptr(GVariant) variant = NULL;
  RlxNode *result;

  if (!collect_operands (call, operands, error))
    return FALSE;
  if (operands->len == 0 || operands->pdata[0] == NULL)
    return map_refused (error, "%s: the first operand is missing", call->op->name);

  if (row->types != 0 && !(row->types & 1u << rlx_node_get_data_type (operands->pdata[0])))
    return map_refused (error, "%s: an operand of %s is not allowed", call->op->name,
                        rlx_data_type_to_string (rlx_node_get_data_type (operands->pdata[0])));

  if (row->flags & MAP_FROM_U8)
    for (guint i = 0; i < operands->len; i++)
      {
        RlxNode *node = operands->pdata[i];

        /* others are left for the library to reject */
        if (rlx_node_get_data_type (node) == RLX_DATA_TYPE_U8)
          operands->pdata[i] = map_cast (call, node, RLX_DATA_TYPE_BOOL, error);
        if (operands->pdata[i] == NULL)
          return FALSE;
      }

  if (row->attrs != NULL)
    {
      g_auto(GStrv) specs = g_strsplit (row->attrs, " ", -1);

      for (guint i = 0; specs[i] != NULL; i++)
        if (!convert_attr (call, specs[i], operands->pdata[0], &attrs, error))
          return FALSE;
    }
  variant = g_variant_ref_sink (g_variant_dict_end (&attrs));

  if (g_strv_length (call->op->outputs) > 1)
    {
      g_autofree RlxNode **outputs = NULL;
      gsize n_outputs = 0;

      while (operands->len > 0 && operands->pdata[operands->len - 1] == NULL)
        g_ptr_array_set_size (operands, (int) operands->len - 1);
      outputs = rlx_graph_add_op (build_get_graph (call->build), row->op, (RlxNode **) operands->pdata,
                                  operands->len, variant, &n_outputs, error);
      if (outputs == NULL)
        return FALSE;
      for (guint i = 0; i < g_strv_length (call->op->outputs); i++)
        {
          if (!map_wants_output (call, i))
            continue;
          if (i >= n_outputs)
            return map_unsupported (error, "output %u of %s", i, call->op->name);
          map_return (call, i, outputs[i]);
        }
      return TRUE;
    }

  result = map_op (call, row->op, (RlxNode **) operands->pdata, operands->len, variant, error);
  if (result != NULL && row->flags & MAP_TO_U8)
    result = map_cast (call, result, RLX_DATA_TYPE_U8, error);
  return map_return (call, 0, result);
}

const Mapping *
mapping_find (Family        family,
              const CaseOp *op)
{
  const Mapping *rows = family == FAMILY_WEBNN ? mappings_webnn : mappings_ref;
  g_autofree char *name = NULL;

  if (op->domain != NULL && op->domain[0] != '\0' && !g_str_equal (op->domain, "ai.onnx"))
    name = g_strdup_printf ("%s:%s", op->domain, op->name);
  else
    name = g_strdup (op->name);
  for (; rows->name != NULL; rows++)
    if (g_str_equal (rows->name, name))
      return rows;
  return NULL;
}

static gboolean
is_ignored (MapCall    *call,
            const char *name)
{
  g_auto(GStrv) names = NULL;

  /* A label that WebNN uses in messages, and a hint from ONNX's first opset. */
  if (g_str_equal (name, "label") || g_str_equal (name, "consumed_inputs"))
    return TRUE;
  if (call->mapping->ignored == NULL)
    return FALSE;
  names = g_strsplit (call->mapping->ignored, " ", -1);
  return g_strv_contains ((const char *const *) names, name);
}

/* An argument that the mapping did not read could change the result; if it does not, the
 * row has to say so. */
static gboolean
check_all_used (MapCall *call,
                GError **error)
{
  JsonObjectIter iter;
  const char *name;
  JsonNode *node;

  for (guint i = 0; i < map_n_inputs (call); i++)
    if (map_has_input (call, i) && !g_hash_table_contains (call->used, get_input (call, i)))
      return map_unsupported (error, "input %u of %s", i, call->mapping->name);
  json_object_iter_init_ordered (&iter, call->op->args);
  while (json_object_iter_next_ordered (&iter, &name, &node))
    if (!JSON_NODE_HOLDS_NULL (node) && !g_hash_table_contains (call->used, node) && !is_ignored (call, name))
      return map_unsupported (error, "attribute “%s” of %s", name, call->mapping->name);
  return TRUE;
}

const Mapping *
mapping_find_forward (Family        family,
                      const CaseOp *op)
{
  g_autofree char *name = NULL;
  CaseOp forward = *op;

  if (!g_str_has_suffix (op->name, MAPPING_BACKWARD))
    return mapping_find (family, op);
  name = g_strndup (op->name, strlen (op->name) - strlen (MAPPING_BACKWARD));
  forward.name = name;
  return mapping_find (family, &forward);
}

gboolean
mapping_call (MapCall *call,
              GError **error)
{
  g_autoptr(GHashTable) used = g_hash_table_new (NULL, NULL);
  GError *local = NULL;

  call->used = used;
  if (call->mapping->func != NULL ? call->mapping->func (call, &local) : call_row (call, &local))
    return check_all_used (call, error);
  if (local == NULL)
    return map_refused (error, "%s: an argument is missing", call->op->name);
  g_propagate_error (error, local);
  return FALSE;
}

gboolean
mapping_has_target (const Mapping *mapping)
{
  static GHashTable *known;
  g_autoptr(RlxGraph) graph = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree RlxNode **nodes = NULL;
  gpointer found;
  gsize n_nodes;

  if (mapping->op == NULL)
    return TRUE;
  if (known == NULL)
    known = g_hash_table_new (g_str_hash, g_str_equal);
  if (!g_hash_table_lookup_extended (known, mapping->op, NULL, &found))
    {
      /* without operands no operator can be added, but only an unknown one is reported as
       * not found */
      graph = rlx_graph_new ();
      nodes = rlx_graph_add_op (graph, mapping->op, NULL, 0, NULL, &n_nodes, &error);
      found = GINT_TO_POINTER (!g_error_matches (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_NOT_FOUND));
      g_hash_table_insert (known, (gpointer) mapping->op, found);
    }
  return GPOINTER_TO_INT (found);
}
