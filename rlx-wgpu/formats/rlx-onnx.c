/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "formats/rlx-onnx-private.h"

#include <string.h>

#include "util/rlx-debug-private.h"

/* ---- messages --------------------------------------------------------------------------- */

/* Fields that do not affect the computation, such as descriptions of nodes, are left out and thus skipped like unknown ones. So
 * are those that a device cannot use, such as strings in tensors. */

#define ONE FALSE
#define MANY TRUE

#define TEXT(name, number, count, needed) { name, number, RLX_PROTOBUF_TEXT, count, needed, NULL }
#define INT(name, number, needed) { name, number, RLX_PROTOBUF_INT, ONE, needed, NULL }
#define MESSAGE(name, number, count, needed, fields) { name, number, RLX_PROTOBUF_MESSAGE, count, needed, &fields }
#define PLAIN(name, number, kind) { name, number, RLX_PROTOBUF_##kind, ONE, FALSE, NULL }
#define SCHEMA(variable, named, is_placed, ...)                                              \
  const RlxProtobufSchema variable = {                                                       \
    .name = named, .placed = is_placed, .fields = (const RlxProtobufField[]) { __VA_ARGS__, { NULL, } } \
  }

static const RlxProtobufSchema graph_schema;

/* clang-format off */
static SCHEMA (pair_schema, "StringStringEntryProto", FALSE,
  TEXT ("StringStringEntryProto.key", 1, ONE, FALSE),
  TEXT ("StringStringEntryProto.value", 2, ONE, FALSE)
);
static SCHEMA (opset_schema, "OperatorSetIdProto", FALSE,
  TEXT ("OperatorSetIdProto.domain", 1, ONE, FALSE),
  INT ("OperatorSetIdProto.version", 2, FALSE)
);
SCHEMA (rlx_onnx_tensor_schema, "TensorProto", TRUE,
  PLAIN ("TensorProto.dims", 1, INTS),
  INT ("TensorProto.data_type", 2, TRUE),
  PLAIN ("TensorProto.segment", 3, BYTES),
  PLAIN ("TensorProto.float_data", 4, DATA),
  PLAIN ("TensorProto.int32_data", 5, DATA),
  PLAIN ("TensorProto.int64_data", 7, DATA),
  TEXT ("TensorProto.name", 8, ONE, FALSE),
  PLAIN ("TensorProto.raw_data", 9, DATA),
  PLAIN ("TensorProto.double_data", 10, DATA),
  PLAIN ("TensorProto.uint64_data", 11, DATA),
  MESSAGE ("TensorProto.external_data", 13, MANY, FALSE, pair_schema),
  INT ("TensorProto.data_location", 14, FALSE)
);
static SCHEMA (sparse_schema, "SparseTensorProto", TRUE,
  MESSAGE ("SparseTensorProto.values", 1, ONE, TRUE, rlx_onnx_tensor_schema)
);
static SCHEMA (dimension_schema, "TensorShapeProto.Dimension", FALSE,
  INT ("TensorShapeProto.Dimension.dim_value", 1, FALSE),
  TEXT ("TensorShapeProto.Dimension.dim_param", 2, ONE, FALSE)
);
static SCHEMA (shape_schema, "TensorShapeProto", FALSE,
  MESSAGE ("TensorShapeProto.dim", 1, MANY, FALSE, dimension_schema)
);
static SCHEMA (tensor_type_schema, "TypeProto.Tensor", FALSE,
  INT ("TypeProto.Tensor.elem_type", 1, FALSE),
  MESSAGE ("TypeProto.Tensor.shape", 2, ONE, FALSE, shape_schema)
);
static SCHEMA (other_type_schema, "TypeProto.Sequence", FALSE,
  INT ("TypeProto.Sequence.none", 63, FALSE)
);
static SCHEMA (type_schema, "TypeProto", FALSE,
  MESSAGE ("TypeProto.tensor_type", 1, ONE, FALSE, tensor_type_schema),
  MESSAGE ("TypeProto.sequence_type", 4, ONE, FALSE, other_type_schema),
  MESSAGE ("TypeProto.map_type", 5, ONE, FALSE, other_type_schema),
  MESSAGE ("TypeProto.opaque_type", 7, ONE, FALSE, other_type_schema),
  MESSAGE ("TypeProto.sparse_tensor_type", 8, ONE, FALSE, other_type_schema),
  MESSAGE ("TypeProto.optional_type", 9, ONE, FALSE, other_type_schema)
);
static SCHEMA (port_schema, "ValueInfoProto", FALSE,
  TEXT ("ValueInfoProto.name", 1, ONE, TRUE),
  MESSAGE ("ValueInfoProto.type", 2, ONE, FALSE, type_schema)
);
static SCHEMA (attribute_schema, "AttributeProto", TRUE,
  TEXT ("AttributeProto.name", 1, ONE, TRUE),
  PLAIN ("AttributeProto.f", 2, FLOAT),
  INT ("AttributeProto.i", 3, FALSE),
  PLAIN ("AttributeProto.s", 4, BYTES),
  MESSAGE ("AttributeProto.t", 5, ONE, FALSE, rlx_onnx_tensor_schema),
  MESSAGE ("AttributeProto.g", 6, ONE, FALSE, graph_schema),
  PLAIN ("AttributeProto.floats", 7, FLOATS),
  PLAIN ("AttributeProto.ints", 8, INTS),
  { "AttributeProto.strings", 9, RLX_PROTOBUF_BYTES, MANY, FALSE, NULL },
  INT ("AttributeProto.type", 20, FALSE),
  TEXT ("AttributeProto.ref_attr_name", 21, ONE, FALSE)
);
static SCHEMA (node_schema, "NodeProto", TRUE,
  TEXT ("NodeProto.input", 1, MANY, FALSE),
  TEXT ("NodeProto.output", 2, MANY, FALSE),
  TEXT ("NodeProto.name", 3, ONE, FALSE),
  TEXT ("NodeProto.op_type", 4, ONE, TRUE),
  MESSAGE ("NodeProto.attribute", 5, MANY, FALSE, attribute_schema),
  TEXT ("NodeProto.domain", 7, ONE, FALSE),
  TEXT ("NodeProto.overload", 8, ONE, FALSE)
);
static SCHEMA (graph_schema, "GraphProto", TRUE,
  MESSAGE ("GraphProto.node", RLX_ONNX_GRAPH_NODE, MANY, FALSE, node_schema),
  TEXT ("GraphProto.name", RLX_ONNX_GRAPH_NAME, ONE, FALSE),
  MESSAGE ("GraphProto.initializer", RLX_ONNX_GRAPH_INITIALIZER, MANY, FALSE, rlx_onnx_tensor_schema),
  MESSAGE ("GraphProto.input", RLX_ONNX_GRAPH_INPUT, MANY, FALSE, port_schema),
  MESSAGE ("GraphProto.output", RLX_ONNX_GRAPH_OUTPUT, MANY, FALSE, port_schema),
  MESSAGE ("GraphProto.sparse_initializer", RLX_ONNX_GRAPH_SPARSE, MANY, FALSE, sparse_schema)
);
static SCHEMA (function_schema, "FunctionProto", TRUE,
  TEXT ("FunctionProto.name", 1, ONE, TRUE),
  TEXT ("FunctionProto.input", RLX_ONNX_FUNCTION_INPUT, MANY, FALSE),
  TEXT ("FunctionProto.output", RLX_ONNX_FUNCTION_OUTPUT, MANY, FALSE),
  TEXT ("FunctionProto.attribute", RLX_ONNX_FUNCTION_ATTRIBUTE, MANY, FALSE),
  MESSAGE ("FunctionProto.node", 7, MANY, FALSE, node_schema),
  MESSAGE ("FunctionProto.opset_import", 9, MANY, FALSE, opset_schema),
  TEXT ("FunctionProto.domain", 10, ONE, FALSE),
  MESSAGE ("FunctionProto.attribute_proto", RLX_ONNX_FUNCTION_DEFAULT, MANY, FALSE, attribute_schema),
  TEXT ("FunctionProto.overload", 13, ONE, FALSE)
);
SCHEMA (rlx_onnx_model_schema, "ModelProto", TRUE,
  INT ("ModelProto.ir_version", 1, FALSE),
  TEXT ("ModelProto.producer_name", 2, ONE, FALSE),
  TEXT ("ModelProto.producer_version", 3, ONE, FALSE),
  TEXT ("ModelProto.domain", 4, ONE, FALSE),
  INT ("ModelProto.model_version", 5, FALSE),
  TEXT ("ModelProto.doc_string", 6, ONE, FALSE),
  MESSAGE ("ModelProto.graph", 7, ONE, TRUE, graph_schema),
  MESSAGE ("ModelProto.opset_import", 8, MANY, FALSE, opset_schema),
  MESSAGE ("ModelProto.metadata_props", 14, MANY, FALSE, pair_schema),
  MESSAGE ("ModelProto.functions", 25, MANY, FALSE, function_schema)
);
/* clang-format on */

static const RlxOnnxTypeInfo types[RLX_ONNX_N_TYPES + 1] = {
  [RLX_ONNX_TYPE_UNDEFINED] = { "undefined", 0, -1 },
  [RLX_ONNX_TYPE_FLOAT] = { "float", 32, RLX_DATA_TYPE_F32 },
  [RLX_ONNX_TYPE_UINT8] = { "uint8", 8, RLX_DATA_TYPE_U8 },
  [RLX_ONNX_TYPE_INT8] = { "int8", 8, RLX_DATA_TYPE_I8 },
  [RLX_ONNX_TYPE_UINT16] = { "uint16", 16, RLX_DATA_TYPE_U16 },
  [RLX_ONNX_TYPE_INT16] = { "int16", 16, RLX_DATA_TYPE_I16 },
  [RLX_ONNX_TYPE_INT32] = { "int32", 32, RLX_DATA_TYPE_I32 },
  [RLX_ONNX_TYPE_INT64] = { "int64", 64, RLX_DATA_TYPE_I64 },
  [RLX_ONNX_TYPE_STRING] = { "string", 0, -1 },
  [RLX_ONNX_TYPE_BOOL] = { "bool", 8, RLX_DATA_TYPE_BOOL },
  [RLX_ONNX_TYPE_FLOAT16] = { "float16", 16, RLX_DATA_TYPE_F16 },
  /* Devices do not compute with f64, so it becomes f32. */
  [RLX_ONNX_TYPE_DOUBLE] = { "double", 64, RLX_DATA_TYPE_F32 },
  [RLX_ONNX_TYPE_UINT32] = { "uint32", 32, RLX_DATA_TYPE_U32 },
  [RLX_ONNX_TYPE_UINT64] = { "uint64", 64, RLX_DATA_TYPE_U64 },
  [RLX_ONNX_TYPE_COMPLEX64] = { "complex64", 64, -1 },
  [RLX_ONNX_TYPE_COMPLEX128] = { "complex128", 128, -1 },
  [RLX_ONNX_TYPE_BFLOAT16] = { "bfloat16", 16, RLX_DATA_TYPE_BF16 },
  [RLX_ONNX_TYPE_FLOAT8E4M3FN] = { "float8e4m3fn", 8, RLX_DATA_TYPE_F8E4M3FN },
  [RLX_ONNX_TYPE_FLOAT8E4M3FNUZ] = { "float8e4m3fnuz", 8, RLX_DATA_TYPE_F8E4M3FNUZ },
  [RLX_ONNX_TYPE_FLOAT8E5M2] = { "float8e5m2", 8, RLX_DATA_TYPE_F8E5M2 },
  [RLX_ONNX_TYPE_FLOAT8E5M2FNUZ] = { "float8e5m2fnuz", 8, RLX_DATA_TYPE_F8E5M2FNUZ },
  [RLX_ONNX_TYPE_UINT4] = { "uint4", 4, RLX_DATA_TYPE_U4 },
  [RLX_ONNX_TYPE_INT4] = { "int4", 4, RLX_DATA_TYPE_I4 },
  [RLX_ONNX_TYPE_FLOAT4E2M1] = { "float4e2m1", 4, RLX_DATA_TYPE_F4E2M1 },
  [RLX_ONNX_TYPE_FLOAT8E8M0] = { "float8e8m0", 8, RLX_DATA_TYPE_F8E8M0 },
  [RLX_ONNX_TYPE_UINT2] = { "uint2", 2, RLX_DATA_TYPE_U2 },
  [RLX_ONNX_TYPE_INT2] = { "int2", 2, RLX_DATA_TYPE_I2 },
  [RLX_ONNX_N_TYPES] = { "unknown", 0, -1 },
};

const RlxOnnxTypeInfo *
rlx_onnx_type_get_info (gint64 type)
{
  return &types[type < 0 || type > RLX_ONNX_N_TYPES ? RLX_ONNX_N_TYPES : type];
}

/* ---- the model ---------------------------------------------------------------------------- */

void
rlx_onnx_free (RlxOnnx *self)
{
  for (guint i = 0; i < self->functions->len; i++)
    g_clear_pointer (&g_array_index (self->functions, RlxOnnxFunction, i).opsets, g_array_unref);
  g_array_unref (self->functions);
  g_array_unref (self->opsets);
  g_array_unref (self->graphs);
  g_array_unref (self->order);
  g_clear_pointer (&self->tape, rlx_protobuf_free);
  g_clear_pointer (&self->source, rlx_source_unref);
  g_clear_object (&self->file);
  g_free (self->folder);
  g_free (self);
}

/* "ai.onnx" is another spelling of the default domain. */
static const char *
plain_domain (const char *domain)
{
  return g_str_equal (domain, "ai.onnx") ? "" : domain;
}

static gboolean
add_opset (GArray       *opsets,
           const guint8 *message,
           GError      **error)
{
  RlxOnnxOpset opset = { "", 0 };
  RlxProtobufValue value;

  while (rlx_protobuf_next (&message, &value))
    if (value.number == 1)
      opset.domain = plain_domain (value.text);
    else
      opset.version = value.integer;

  for (guint i = 0; i < opsets->len; i++)
    if (g_str_equal (g_array_index (opsets, RlxOnnxOpset, i).domain, opset.domain) &&
        g_array_index (opsets, RlxOnnxOpset, i).version != opset.version)
      {
        g_autofree char *quoted = rlx_quote_text (opset.domain, -1);

        g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_PARSE, "Two versions of the operator set %s are imported", quoted);
        return FALSE;
      }
  if (opset.version < 1 || opset.version > RLX_ONNX_MAX_VERSION)
    {
      g_autofree char *quoted = rlx_quote_text (opset.domain, -1);

      g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_PARSE,
                   "The operator set %s is imported with version %" G_GINT64_FORMAT ", which is not between 1 and %d",
                   quoted, opset.version, RLX_ONNX_MAX_VERSION);
      return FALSE;
    }
  g_array_append_val (opsets, opset);
  return TRUE;
}

static gboolean
add_function (RlxOnnx      *self,
              const guint8 *message,
              GError      **error)
{
  RlxOnnxFunction function = { "", NULL, "", message, g_array_new (FALSE, FALSE, sizeof (RlxOnnxOpset)) };
  const guint8 *at = message;
  RlxProtobufValue value;

  while (rlx_protobuf_next (&at, &value))
    switch (value.number)
      {
      case 1:
        function.name = value.text;
        break;
      case 9:
        if (!add_opset (function.opsets, value.message, error))
          {
            g_array_unref (function.opsets);
            return FALSE;
          }
        break;
      case 10:
        function.domain = plain_domain (value.text);
        break;
      case 13:
        function.overload = value.text;
        break;
      default:
        break;
      }
  g_array_append_val (self->functions, function);

  for (guint i = 0; i + 1 < self->functions->len; i++)
    {
      const RlxOnnxFunction *other = &g_array_index (self->functions, RlxOnnxFunction, i);

      if (g_str_equal (other->name, function.name) && g_str_equal (other->domain, function.domain) &&
          g_str_equal (other->overload, function.overload))
        {
          g_autofree char *quoted = rlx_quote_text (function.name, -1);

          g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_PARSE, "There are two functions %s of one domain", quoted);
          return FALSE;
        }
    }
  return TRUE;
}

static gboolean
read_model (RlxOnnx *self,
            GError **error)
{
  const guint8 *at = self->tape->bytes;
  RlxProtobufValue value;

  self->producer = self->producer_version = self->domain = self->description = self->graph_name = "";
  while (rlx_protobuf_next (&at, &value))
    switch (value.number)
      {
      case 1:
        self->ir_version = value.integer;
        break;
      case 2:
        self->producer = value.text;
        break;
      case 3:
        self->producer_version = value.text;
        break;
      case 4:
        self->domain = value.text;
        break;
      case 5:
        self->model_version = value.integer;
        break;
      case 6:
        self->description = value.text;
        break;
      case 7:
        self->body = value.message;
        break;
      case 8:
        if (!add_opset (self->opsets, value.message, error))
          return FALSE;
        break;
      case 25:
        if (self->functions->len == RLX_ONNX_MAX_FUNCTIONS)
          {
            g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_LIMIT, "There are more than %d functions", RLX_ONNX_MAX_FUNCTIONS);
            return FALSE;
          }
        if (!add_function (self, value.message, error))
          return FALSE;
        break;
      default:
        break;
      }

  at = self->body;
  if (rlx_onnx_next (&at, RLX_ONNX_GRAPH_NAME, &value))
    self->graph_name = value.text;
  if (self->ir_version < 1 || self->ir_version > RLX_ONNX_MAX_IR_VERSION)
    {
      g_set_error (error, RLX_MODEL_ERROR, self->ir_version < 1 ? RLX_MODEL_ERROR_PARSE : RLX_MODEL_ERROR_UNSUPPORTED,
                   "ModelProto.ir_version is %" G_GINT64_FORMAT ", which is not between 1 and %d", self->ir_version, RLX_ONNX_MAX_IR_VERSION);
      return FALSE;
    }
  if (self->opsets->len == 0)
    {
      g_set_error_literal (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_PARSE, "ModelProto.opset_import is missing");
      return FALSE;
    }
  return TRUE;
}

RlxOnnx *
rlx_onnx_read (RlxSource    *source,
               GFile        *file,
               const char   *folder,
               GCancellable *cancellable,
               GError      **error)
{
  static const RlxProtobufLimits limits = { RLX_ONNX_MAX_METADATA, RLX_ONNX_MAX_TEXT };
  g_autoptr(RlxOnnx) self = g_new0 (RlxOnnx, 1);

  self->source = source;
  self->folder = g_strdup (folder);
  if (file != NULL)
    {
      g_autoptr(GFile) parent = g_file_get_parent (file);

      self->file = g_object_ref (file);
      if (parent != NULL && folder == NULL)
        self->folder = g_file_get_path (parent);
    }
  self->opsets = g_array_new (FALSE, FALSE, sizeof (RlxOnnxOpset));
  self->graphs = g_array_new (FALSE, FALSE, sizeof (RlxOnnxGraph));
  self->order = g_array_new (FALSE, FALSE, sizeof (guint32));
  self->functions = g_array_new (FALSE, FALSE, sizeof (RlxOnnxFunction));
  if (rlx_source_get_size (source) > RLX_ONNX_MAX_FILE)
    {
      g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_LIMIT,
                   "The file has %" G_GUINT64_FORMAT " bytes; the limit is %" G_GUINT64_FORMAT, rlx_source_get_size (source), RLX_ONNX_MAX_FILE);
      return NULL;
    }
  self->tape = rlx_protobuf_read (source, &rlx_onnx_model_schema, &limits, cancellable, error);
  if (self->tape == NULL || !read_model (self, error) || !rlx_onnx_check_names (self, error))
    return NULL;
  return g_steal_pointer (&self);
}

RlxOnnxGraph *
rlx_onnx_get_graph (const RlxOnnx *self,
                    const guint8  *message)
{
  guint first = 0, end = self->graphs->len;

  /* They are in the order of the tape, so a binary search works. */
  while (first < end)
    {
      guint middle = first + (end - first) / 2;
      RlxOnnxGraph *graph = &g_array_index (self->graphs, RlxOnnxGraph, middle);

      if (graph->message == message)
        return graph;
      if (graph->message < message)
        first = middle + 1;
      else
        end = middle;
    }
  g_assert_not_reached ();
}

void
rlx_onnx_each_metadata (const RlxOnnx *self,
                        void         (*func) (const char *key,
                                              const char *value,
                                              gpointer    data),
                        gpointer       data)
{
  const guint8 *at = self->tape->bytes;
  RlxProtobufValue value, part;

  while (rlx_protobuf_next (&at, &value))
    if (value.number == 14)
      {
        const char *key = "", *text = "";

        while (rlx_protobuf_next (&value.message, &part))
          if (part.number == 1)
            key = part.text;
          else
            text = part.text;
        func (key, text, data);
      }
}

/* ---- parts of graphs ------------------------------------------------------------------------ */

gboolean
rlx_onnx_next (const guint8    **at,
               RlxOnnxGraphField field,
               RlxProtobufValue *value)
{
  while (rlx_protobuf_next (at, value))
    if (value->number == field)
      return TRUE;
  return FALSE;
}

GPtrArray *
rlx_onnx_function_get_names (const RlxOnnxFunction *function,
                             guint                  field)
{
  GPtrArray *names = g_ptr_array_new ();
  const guint8 *at = function->message;
  RlxProtobufValue value;

  while (rlx_protobuf_next (&at, &value))
    if (value.number == field)
      g_ptr_array_add (names, (gpointer) value.text);
  return names;
}

static void
get_tensor_type (const guint8 *message,
                 RlxOnnxPort  *port)
{
  RlxProtobufValue value, dim, part;

  port->kind = "tensor";
  while (rlx_protobuf_next (&message, &value))
    if (value.number == 1)
      port->type = value.integer;
    else
      {
        port->has_shape = TRUE;
        for (; rlx_protobuf_next (&value.message, &dim); port->n_dims++)
          if (port->n_dims < RLX_MAX_DIMS)
            {
              port->dims[port->n_dims] = -1;
              while (rlx_protobuf_next (&dim.message, &part))
                if (part.number == 1)
                  /* Some exporters write -1 for a variable size. */
                  port->dims[port->n_dims] = MAX (part.integer, -1);
                else if (part.text[0] != '\0')
                  port->symbols[port->n_dims] = part.text;
            }
      }
}

void
rlx_onnx_get_port (const guint8 *message,
                   RlxOnnxPort  *port)
{
  static const struct { guint number; const char *kind; } kinds[] = {
    { 4, "sequence" }, { 5, "map" }, { 7, "opaque" }, { 8, "sparse tensor" }, { 9, "optional" },
  };
  RlxProtobufValue value, type;

  *port = (RlxOnnxPort) { .kind = "none" };
  while (rlx_protobuf_next (&message, &value))
    if (value.number == 1)
      port->name = value.text;
    else
      while (rlx_protobuf_next (&value.message, &type))
        {
          if (type.number == 1)
            get_tensor_type (type.message, port);
          for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
            if (kinds[i].number == type.number)
              port->kind = kinds[i].kind;
        }
}

/* ---- nodes ------------------------------------------------------------------------------------ */

/* Kinds by the number of the type, and by that of the field that contains the value. */
static const struct
{
  guint8 type;
  guint8 field;
  RlxOnnxAttributeKind kind;
} attribute_kinds[] = {
  { 1, 2, RLX_ONNX_ATTRIBUTE_FLOAT }, { 2, 3, RLX_ONNX_ATTRIBUTE_INT }, { 3, 4, RLX_ONNX_ATTRIBUTE_STRING },
  { 4, 5, RLX_ONNX_ATTRIBUTE_TENSOR }, { 5, 6, RLX_ONNX_ATTRIBUTE_GRAPH }, { 6, 7, RLX_ONNX_ATTRIBUTE_FLOATS },
  { 7, 8, RLX_ONNX_ATTRIBUTE_INTS }, { 8, 9, RLX_ONNX_ATTRIBUTE_STRINGS },
};

void
rlx_onnx_get_attribute (const RlxProtobufValue *message,
                        RlxOnnxAttribute       *attribute)
{
  const guint8 *at = message->message;
  RlxOnnxAttributeKind found = RLX_ONNX_ATTRIBUTE_NONE;
  RlxProtobufValue value;
  gint64 type = 0;

  *attribute = (RlxOnnxAttribute) { .at = message->offset, .message = message->message, .text = "" };
  while (rlx_protobuf_next (&at, &value))
    {
      for (guint i = 0; i < G_N_ELEMENTS (attribute_kinds); i++)
        if (attribute_kinds[i].field == value.number)
          found = attribute_kinds[i].kind;
      switch (value.number)
        {
        case 1:
          attribute->name = value.text;
          break;
        case 2:
          attribute->real = value.real;
          break;
        case 3:
          attribute->integer = value.integer;
          break;
        case 4:
          attribute->text = value.text;
          break;
        case 20:
          type = value.integer;
          break;
        case 21:
          attribute->reference = value.text[0] != '\0' ? value.text : NULL;
          break;
        default:
          break;
        }
    }

  /* Very old files do not state the type. A list may be empty. */
  attribute->kind = type == 0 ? found : RLX_ONNX_ATTRIBUTE_OTHER;
  for (guint i = 0; i < G_N_ELEMENTS (attribute_kinds); i++)
    if (attribute_kinds[i].type == type)
      attribute->kind = attribute_kinds[i].kind;
}

RlxOnnxNode *
rlx_onnx_get_node (const RlxOnnx      *self,
                   const RlxOnnxGraph *graph,
                   guint               index)
{
  RlxOnnxNode *node = g_new0 (RlxOnnxNode, 1);
  const guint8 *start = self->tape->bytes + g_array_index (self->order, guint32, graph->first + index);
  const guint8 *at = start;
  RlxProtobufValue message, value;
  guint n_inputs = 0, n_outputs = 0, n_attributes = 0;

  rlx_protobuf_next (&at, &message);
  node->at = message.offset;
  node->domain = node->name = node->overload = "";
  for (at = message.message; rlx_protobuf_next (&at, &value);)
    {
      node->n_inputs += value.number == 1;
      node->n_outputs += value.number == 2;
      node->n_attributes += value.number == 5;
    }
  node->inputs = g_new (const char *, node->n_inputs + node->n_outputs + 1);
  node->outputs = node->inputs + node->n_inputs;
  node->attributes = g_new (RlxOnnxAttribute, node->n_attributes + 1);
  for (at = message.message; rlx_protobuf_next (&at, &value);)
    switch (value.number)
      {
      case 1:
        node->inputs[n_inputs++] = value.text;
        break;
      case 2:
        node->outputs[n_outputs++] = value.text;
        break;
      case 3:
        node->name = value.text;
        break;
      case 4:
        node->op = value.text;
        break;
      case 5:
        rlx_onnx_get_attribute (&value, &node->attributes[n_attributes++]);
        break;
      case 7:
        node->domain = plain_domain (value.text);
        break;
      default:
        node->overload = value.text;
      }
  return node;
}

void
rlx_onnx_node_free (RlxOnnxNode *node)
{
  g_free (node->inputs);
  g_free (node->attributes);
  g_free (node);
}

gint64 *
rlx_onnx_attribute_dup_ints (const RlxOnnxAttribute *attribute,
                             gsize                  *n)
{
  g_autoptr(GArray) numbers = g_array_new (FALSE, FALSE, sizeof (gint64));
  const guint8 *at = attribute->message;
  RlxProtobufValue value;
  gint64 number;

  while (rlx_protobuf_next (&at, &value))
    while (value.number == 8 && rlx_protobuf_next_int (&value, &number))
      g_array_append_val (numbers, number);
  return g_array_steal (numbers, n);
}

float *
rlx_onnx_attribute_dup_floats (const RlxOnnxAttribute *attribute,
                               gsize                  *n)
{
  g_autoptr(GArray) numbers = g_array_new (FALSE, FALSE, sizeof (float));
  const guint8 *at = attribute->message;
  RlxProtobufValue value;
  float number;

  while (rlx_protobuf_next (&at, &value))
    while (value.number == 7 && rlx_protobuf_next_float (&value, &number))
      g_array_append_val (numbers, number);
  return g_array_steal (numbers, n);
}

GPtrArray *
rlx_onnx_attribute_get_strings (const RlxOnnxAttribute *attribute)
{
  GPtrArray *texts = g_ptr_array_new ();
  const guint8 *at = attribute->message;
  RlxProtobufValue value;

  while (rlx_protobuf_next (&at, &value))
    if (value.number == 9)
      g_ptr_array_add (texts, (gpointer) value.text);
  return texts;
}

gboolean
rlx_onnx_attribute_get_message (const RlxOnnxAttribute *attribute,
                                RlxProtobufValue       *value)
{
  const guint8 *at = attribute->message;

  while (rlx_protobuf_next (&at, value))
    if (value->number == (attribute->kind == RLX_ONNX_ATTRIBUTE_TENSOR ? 5 : 6))
      return TRUE;
  return FALSE;
}

char *
rlx_onnx_node_to_string (const char *op,
                         const char *name)
{
  g_autofree char *quoted_op = rlx_quote_text (op, -1);
  g_autofree char *quoted = rlx_quote_text (name, -1);

  return name[0] != '\0' ? g_strdup_printf ("node %s (%s)", quoted, op) : g_strdup_printf ("a node %s", quoted_op);
}
