/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "onnx-writer.h"

#include <string.h>

/* ---- fields of a message ------------------------------------------------------------- */

void
proto_put_varint (GByteArray *message,
                  guint64     value)
{
  do
    {
      guint8 byte = (guint8) ((value & 0x7f) | (value > 0x7f ? 0x80 : 0));

      g_byte_array_append (message, &byte, 1);
      value >>= 7;
    }
  while (value != 0);
}

void
proto_put_tag (GByteArray *message,
               guint       field,
               guint       wire)
{
  proto_put_varint (message, (guint64) field << 3 | wire);
}

void
proto_put_int (GByteArray *message,
               guint       field,
               gint64      value)
{
  proto_put_tag (message, field, 0);
  proto_put_varint (message, (guint64) value);
}

void
proto_put_float (GByteArray *message,
                 guint       field,
                 float       value)
{
  proto_put_tag (message, field, 5);
  g_byte_array_append (message, (const guint8 *) &value, 4);
}

void
proto_put_bytes (GByteArray   *message,
                 guint         field,
                 gconstpointer bytes,
                 gsize         size)
{
  proto_put_tag (message, field, 2);
  proto_put_varint (message, size);
  if (size > 0)
    g_byte_array_append (message, bytes, (guint) size);
}

void
proto_put_text (GByteArray *message,
                guint       field,
                const char *text)
{
  proto_put_bytes (message, field, text, strlen (text));
}

void
proto_put_message (GByteArray *message,
                   guint       field,
                   GByteArray *inner)
{
  proto_put_bytes (message, field, inner->data, inner->len);
  g_byte_array_unref (inner);
}

/* ---- attributes ----------------------------------------------------------------------- */

int
onnx_type (RlxDataType data_type)
{
  static const struct { RlxDataType data_type; int type; } types[] = {
    { RLX_DATA_TYPE_F32, 1 }, { RLX_DATA_TYPE_U8, 2 }, { RLX_DATA_TYPE_I8, 3 }, { RLX_DATA_TYPE_I32, 6 },
    { RLX_DATA_TYPE_I64, 7 }, { RLX_DATA_TYPE_BOOL, 9 }, { RLX_DATA_TYPE_F16, 10 }, { RLX_DATA_TYPE_U32, 12 },
    { RLX_DATA_TYPE_U64, 13 }, { RLX_DATA_TYPE_U4, 21 }, { RLX_DATA_TYPE_I4, 22 },
    { RLX_DATA_TYPE_U16, 4 }, { RLX_DATA_TYPE_I16, 5 }, { RLX_DATA_TYPE_BF16, 16 }, { RLX_DATA_TYPE_F8E4M3FN, 17 },
    { RLX_DATA_TYPE_F8E4M3FNUZ, 18 }, { RLX_DATA_TYPE_F8E5M2, 19 }, { RLX_DATA_TYPE_F8E5M2FNUZ, 20 }, { RLX_DATA_TYPE_F4E2M1, 23 },
    { RLX_DATA_TYPE_F8E8M0, 24 }, { RLX_DATA_TYPE_U2, 25 }, { RLX_DATA_TYPE_I2, 26 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    if (types[i].data_type == data_type)
      return types[i].type;
  return -1;
}

static GByteArray *
attr_new (const char *name,
          int         type)
{
  GByteArray *attr = g_byte_array_new ();

  proto_put_text (attr, 1, name);
  proto_put_int (attr, 20, type);
  return attr;
}

GByteArray *
onnx_attr (const char *name,
           GVariant   *value)
{
  g_autoptr(GVariant) owned = g_variant_ref_sink (value);
  const char *type = g_variant_get_type_string (value);
  GByteArray *attr;
  gsize n;

  if (g_str_equal (type, "x"))
    {
      attr = attr_new (name, 2);
      proto_put_int (attr, 3, g_variant_get_int64 (value));
    }
  else if (g_str_equal (type, "d"))
    {
      attr = attr_new (name, 1);
      proto_put_float (attr, 2, (float) g_variant_get_double (value));
    }
  else if (g_str_equal (type, "s"))
    {
      attr = attr_new (name, 3);
      proto_put_text (attr, 4, g_variant_get_string (value, NULL));
    }
  else if (g_str_equal (type, "ax"))
    {
      const gint64 *numbers = g_variant_get_fixed_array (value, &n, sizeof (gint64));

      attr = attr_new (name, 7);
      for (gsize i = 0; i < n; i++)
        proto_put_int (attr, 8, numbers[i]);
    }
  else if (g_str_equal (type, "ad"))
    {
      const double *numbers = g_variant_get_fixed_array (value, &n, sizeof (double));

      attr = attr_new (name, 6);
      for (gsize i = 0; i < n; i++)
        proto_put_float (attr, 7, (float) numbers[i]);
    }
  else
    {
      g_autofree const char **words = g_variant_get_strv (value, &n);

      attr = attr_new (name, 8);
      for (gsize i = 0; i < n; i++)
        proto_put_text (attr, 9, words[i]);
    }
  return attr;
}

GByteArray *
onnx_attr_tensor (const char *name,
                  GByteArray *tensor)
{
  GByteArray *attr = attr_new (name, 4);

  proto_put_message (attr, 5, tensor);
  return attr;
}

GByteArray *
onnx_attr_graph (const char *name,
                 GByteArray *graph)
{
  GByteArray *attr = attr_new (name, 5);

  proto_put_message (attr, 6, graph);
  return attr;
}

/* ---- tensors and ports ------------------------------------------------------------------ */

GByteArray *
onnx_tensor (const char   *name,
             int           type,
             const gint64 *shape,
             gsize         n_dims,
             gconstpointer elements,
             gsize         size)
{
  GByteArray *tensor = g_byte_array_new ();

  for (gsize i = 0; i < n_dims; i++)
    proto_put_int (tensor, 1, shape[i]);
  proto_put_int (tensor, 2, type);
  if (name != NULL)
    proto_put_text (tensor, 8, name);
  proto_put_bytes (tensor, 9, elements, size);
  return tensor;
}

GByteArray *
onnx_tensor_from (const char *name,
                  RlxTensor  *tensor)
{
  gsize n_dims, size;
  const gint64 *shape = rlx_tensor_get_shape (tensor, &n_dims);
  gconstpointer elements = g_bytes_get_data (rlx_tensor_get_bytes (tensor), &size);

  return onnx_tensor (name, onnx_type (rlx_tensor_get_data_type (tensor)), shape, n_dims, elements, size);
}

static void
add_port (GByteArray *graph,
          guint       field,
          const char *name,
          int         type,
          const char *dims)
{
  GByteArray *port = g_byte_array_new (), *kind = g_byte_array_new (), *of_tensor = g_byte_array_new ();

  proto_put_text (port, 1, name);
  proto_put_int (of_tensor, 1, type);
  if (dims != NULL)
    {
      GByteArray *shape = g_byte_array_new ();
      g_auto(GStrv) words = g_strsplit (dims, " ", -1);

      for (guint i = 0; words[i] != NULL; i++)
        {
          GByteArray *dim = g_byte_array_new ();

          if (words[i][0] == '\0')
            {
              g_byte_array_unref (dim);
              continue;
            }
          if (g_ascii_isdigit (words[i][0]))
            proto_put_int (dim, 1, g_ascii_strtoll (words[i], NULL, 10));
          else if (words[i][0] != '?')
            proto_put_text (dim, 2, words[i]);
          proto_put_message (shape, 1, dim);
        }
      proto_put_message (of_tensor, 2, shape);
    }
  proto_put_message (kind, 1, of_tensor);
  proto_put_message (port, 2, kind);
  proto_put_message (graph, field, port);
}

void
onnx_add_input (GByteArray *graph,
                const char *name,
                int         type,
                const char *dims)
{
  add_port (graph, 11, name, type, dims);
}

void
onnx_add_output (GByteArray *graph,
                 const char *name,
                 int         type,
                 const char *dims)
{
  add_port (graph, 12, name, type, dims);
}

void
onnx_add_tensor (GByteArray *graph,
                 GByteArray *tensor)
{
  proto_put_message (graph, 5, tensor);
}

/* ---- nodes and models -------------------------------------------------------------------- */

static void
put_words (GByteArray *message,
           guint       field,
           const char *text)
{
  g_auto(GStrv) words = g_strsplit (text, " ", -1);

  for (guint i = 0; words[i] != NULL; i++)
    if (words[i][0] != '\0')
      proto_put_text (message, field, g_str_equal (words[i], "-") ? "" : words[i]);
}

static GByteArray *
node_new (const char *op,
          const char *inputs,
          const char *outputs,
          va_list     attributes)
{
  GByteArray *node = g_byte_array_new (), *attribute;
  const char *colon = strchr (op, ':');

  put_words (node, 1, inputs);
  put_words (node, 2, outputs);
  proto_put_text (node, 4, colon != NULL ? colon + 1 : op);
  if (colon != NULL)
    proto_put_bytes (node, 7, op, (gsize) (colon - op));
  while ((attribute = va_arg (attributes, GByteArray *)) != NULL)
    proto_put_message (node, 5, attribute);
  return node;
}

GByteArray *
onnx_node (const char *op,
           const char *inputs,
           const char *outputs,
           ...)
{
  GByteArray *node;
  va_list args;

  va_start (args, outputs);
  node = node_new (op, inputs, outputs, args);
  va_end (args);
  return node;
}

void
onnx_add_node (GByteArray *graph,
               const char *op,
               const char *inputs,
               const char *outputs,
               ...)
{
  va_list args;

  va_start (args, outputs);
  proto_put_message (graph, 1, node_new (op, inputs, outputs, args));
  va_end (args);
}

static void
put_opset (GByteArray *message,
           guint       field,
           const char *domain,
           int         version)
{
  GByteArray *opset = g_byte_array_new ();

  proto_put_text (opset, 1, domain);
  proto_put_int (opset, 2, version);
  proto_put_message (message, field, opset);
}

GByteArray *
onnx_function (const char *domain,
               const char *name,
               const char *inputs,
               const char *outputs,
               int         opset)
{
  GByteArray *function = g_byte_array_new ();

  proto_put_text (function, 1, name);
  put_words (function, 4, inputs);
  put_words (function, 5, outputs);
  put_opset (function, 9, "", opset);
  proto_put_text (function, 10, domain);
  return function;
}

GByteArray *
onnx_model (GByteArray *graph,
            int         opset)
{
  GByteArray *model = g_byte_array_new ();

  proto_put_int (model, 1, 8);
  proto_put_text (model, 2, "rlx-tests");
  put_opset (model, 8, "", opset);
  put_opset (model, 8, "com.microsoft", 1);
  put_opset (model, 8, "com.ms.internal.nhwc", opset);
  proto_put_message (model, 7, graph);
  return model;
}

GBytes *
onnx_finish (GByteArray *model)
{
  return g_byte_array_free_to_bytes (model);
}
