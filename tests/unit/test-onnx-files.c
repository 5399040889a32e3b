/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * ONNX files as files: what is in them, and everything that can be wrong with them.
 */
#include "config.h"

#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "formats/rlx-onnx-private.h"
#include "onnx-writer.h"
#include "rlx-test-weights.h"

static RlxOnnx *
open_bytes (GBytes     *file,
            const char *folder,
            GError    **error)
{
  return rlx_onnx_read (rlx_source_new_for_bytes (file), NULL, folder, NULL, error);
}

static void
check_error (GError       *error,
             const char   *name,
             RlxModelError code,
             const char   *words)
{
  g_auto(GStrv) list = g_strsplit (words, "|", -1);

  if (error == NULL)
    g_error ("%s: the file was opened", name);
  if (!g_error_matches (error, RLX_MODEL_ERROR, (int) code))
    g_error ("%s: the error is %s %d: %s", name, g_quark_to_string (error->domain), error->code, error->message);
  for (char **word = list; *word != NULL; word++)
    if (strstr (error->message, *word) == NULL)
      g_error ("%s: no “%s” in: %s", name, *word, error->message);
  g_assert_true (g_utf8_validate (error->message, -1, NULL));
  g_assert_cmpuint (strlen (error->message), <, 2000);
}

/* Takes ownership of the model. */
static void
check_refused (const char   *name,
               GByteArray   *model,
               RlxModelError code,
               const char   *words)
{
  g_autoptr(GBytes) file = onnx_finish (model);
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxOnnx) onnx = open_bytes (file, NULL, &error);

  g_assert_true ((onnx == NULL) == (error != NULL));
  check_error (error, name, code, words);
}

/* y = x + w, and z, which is declared present if @wants_z is set */
static GByteArray *
simple_graph (void)
{
  GByteArray *graph = g_byte_array_new ();
  const float w[] = { 1, 2, 3 };

  proto_put_text (graph, 2, "simple");
  onnx_add_input (graph, "x", 1, "batch 3");
  onnx_add_tensor (graph, onnx_tensor ("w", 1, RLX_INT_ARRAY (3), w, sizeof w));
  onnx_add_node (graph, "Add", "x w", "y", NULL);
  onnx_add_output (graph, "y", 1, "batch 3");
  return graph;
}

static void
add_pair (const char *key,
          const char *value,
          gpointer    text)
{
  g_string_append_printf (text, "%s=%s;", key, value);
}

static void
test_contents (void)
{
  GByteArray *model = onnx_model (simple_graph (), 17), *pair = g_byte_array_new ();
  g_autoptr(GString) metadata = g_string_new (NULL);
  g_autoptr(GBytes) file = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxOnnx) onnx = NULL;
  g_autoptr(RlxOnnxNode) node = NULL;
  g_autoptr(RlxTensor) tensor = NULL;
  RlxProtobufValue value;
  RlxOnnxTensor record;
  RlxOnnxPort port;
  const guint8 *at;

  proto_put_text (pair, 1, "key");
  proto_put_text (pair, 2, "value");
  proto_put_message (model, 14, pair);
  /* Unknown fields. */
  proto_put_int (model, 63, -1);
  proto_put_bytes (model, 1000, "abc", 3);
  proto_put_float (model, 1001, 1);
  file = onnx_finish (model);
  onnx = open_bytes (file, NULL, &error);
  g_assert_no_error (error);

  g_assert_cmpint (onnx->ir_version, ==, 8);
  g_assert_cmpstr (onnx->producer, ==, "rlx-tests");
  g_assert_cmpstr (onnx->graph_name, ==, "simple");
  g_assert_cmpuint (onnx->opsets->len, ==, 3);
  g_assert_cmpint (g_array_index (onnx->opsets, RlxOnnxOpset, 0).version, ==, 17);
  rlx_onnx_each_metadata (onnx, add_pair, metadata);
  g_assert_cmpstr (metadata->str, ==, "key=value;");

  at = onnx->body;
  g_assert_true (rlx_onnx_next (&at, RLX_ONNX_GRAPH_INPUT, &value));
  rlx_onnx_get_port (value.message, &port);
  g_assert_cmpstr (port.name, ==, "x");
  g_assert_cmpuint (port.n_dims, ==, 2);
  g_assert_cmpint (port.dims[0], ==, -1);
  g_assert_cmpstr (port.symbols[0], ==, "batch");
  g_assert_cmpint (port.dims[1], ==, 3);
  g_assert_null (port.symbols[1]);
  g_assert_false (rlx_onnx_next (&at, RLX_ONNX_GRAPH_INPUT, &value));

  at = onnx->body;
  g_assert_true (rlx_onnx_next (&at, RLX_ONNX_GRAPH_INITIALIZER, &value));
  g_assert_true (rlx_onnx_check_tensor (onnx, &value, &record, &error));
  tensor = rlx_onnx_load_tensor (onnx, &record, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (rlx_tensor_get_value (tensor, 2), ==, 3);

  node = rlx_onnx_get_node (onnx, rlx_onnx_get_graph (onnx, onnx->body), 0);
  g_assert_cmpstr (node->op, ==, "Add");
  g_assert_cmpuint (node->n_inputs, ==, 2);
  g_assert_cmpstr (node->inputs[1], ==, "w");
  g_assert_cmpstr (node->outputs[0], ==, "y");
}

/* Every truncated file. */
static void
test_truncated (void)
{
  g_autoptr(GBytes) file = onnx_finish (onnx_model (simple_graph (), 17));

  for (gsize i = 0; i < g_bytes_get_size (file); i++)
    {
      g_autoptr(GBytes) cut = g_bytes_new_from_bytes (file, 0, i);
      g_autoptr(GError) error = NULL;
      g_autoptr(RlxOnnx) onnx = open_bytes (cut, NULL, &error);

      g_assert_null (onnx);
      /* Cut between two fields of the model, some are merely missing. */
      if (!g_error_matches (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_PARSE) || strstr (error->message, "is missing") == NULL)
        check_error (error, "cut", RLX_MODEL_ERROR_TRUNCATED, "At byte|the file ends in");
    }
}

/* ---- messages ------------------------------------------------------------------------------- */

static GByteArray *
raw (const char *bytes,
     gsize       size)
{
  GByteArray *model = g_byte_array_new ();

  if (size > 0)
    g_byte_array_append (model, (const guint8 *) bytes, (guint) size);
  return model;
}

static void
test_messages (void)
{
  GByteArray *graph, *model;

  check_refused ("empty", raw ("", 0), RLX_MODEL_ERROR_PARSE, "ModelProto.graph is missing");
  check_refused ("a word", raw ("hello, world", 12), RLX_MODEL_ERROR_PARSE, "At byte 2|wire type 4");
  check_refused ("field 0", raw ("\x00\x01", 2), RLX_MODEL_ERROR_PARSE, "At byte 0|field of number 0");
  check_refused ("a large field", raw ("\xff\xff\xff\xff\x7f\x01", 6), RLX_MODEL_ERROR_PARSE, "field of number");
  check_refused ("11 bytes", raw ("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12), RLX_MODEL_ERROR_PARSE, "more than 64 bits");
  check_refused ("65 bits", raw ("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 11), RLX_MODEL_ERROR_PARSE, "more than 64 bits");
  check_refused ("a cut number", raw ("\x08\xff", 2), RLX_MODEL_ERROR_TRUNCATED, "ir_version");
  check_refused ("a group", raw ("\xf3\x03", 2), RLX_MODEL_ERROR_PARSE, "wire type 3");
  check_refused ("wire type 7", raw ("\xf7\x03", 2), RLX_MODEL_ERROR_PARSE, "wire type 7");
  check_refused ("a text for a number", raw ("\x0a\x01z", 3), RLX_MODEL_ERROR_PARSE, "ModelProto.ir_version has the wire type 2");
  check_refused ("a number for a message", raw ("\x38\x01", 2), RLX_MODEL_ERROR_PARSE, "ModelProto.graph has the wire type 0");
  check_refused ("a long length", raw ("\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10), RLX_MODEL_ERROR_TRUNCATED,
                 "9223372036854775807 bytes are needed, 0 are there");
  /* A node of 9 bytes in a graph of 3. */
  check_refused ("beyond its parent", raw ("\x3a\x03\x0a\x09z\x40\x01", 7), RLX_MODEL_ERROR_PARSE, "GraphProto.node|9|1 bytes left");
  check_refused ("not UTF-8", raw ("\x12\x02\xc3\x28", 4), RLX_MODEL_ERROR_PARSE, "producer_name is not UTF-8|\\xc3");
  check_refused ("a NUL", raw ("\x12\x03"
                               "a\0b", 5), RLX_MODEL_ERROR_PARSE, "has a NUL");

  model = onnx_model (simple_graph (), 17);
  proto_put_int (model, 1, 8);
  check_refused ("two versions", model, RLX_MODEL_ERROR_PARSE, "ModelProto.ir_version comes twice");
  model = onnx_model (simple_graph (), 17);
  proto_put_message (model, 7, simple_graph ());
  check_refused ("two graphs", model, RLX_MODEL_ERROR_PARSE, "ModelProto.graph comes twice");

  check_refused ("opset 0", onnx_model (simple_graph (), 0), RLX_MODEL_ERROR_PARSE, "version 0");
  model = onnx_model (simple_graph (), 17);
  proto_put_message (model, 8, raw ("\x10\x12", 2));
  check_refused ("two opsets", model, RLX_MODEL_ERROR_PARSE, "Two versions");
  model = g_byte_array_new ();
  proto_put_int (model, 1, 8);
  proto_put_message (model, 7, simple_graph ());
  check_refused ("no opset", model, RLX_MODEL_ERROR_PARSE, "ModelProto.opset_import is missing");
  model = g_byte_array_new ();
  proto_put_int (model, 1, 99);
  proto_put_message (model, 7, simple_graph ());
  check_refused ("a new format", model, RLX_MODEL_ERROR_UNSUPPORTED, "ir_version is 99");

  graph = g_byte_array_new ();
  proto_put_message (graph, 1, g_byte_array_new ());
  check_refused ("an empty node", onnx_model (graph, 17), RLX_MODEL_ERROR_PARSE, "NodeProto.op_type is missing");
  graph = g_byte_array_new ();
  onnx_add_node (graph, "Add", "", "", NULL);
  check_refused ("nothing in, nothing out", onnx_model (graph, 17), RLX_MODEL_ERROR_PARSE, "has no outputs");
}

/* ---- names ------------------------------------------------------------------------------------ */

static GByteArray *
graph_of (const char *first_op,
          ...) G_GNUC_NULL_TERMINATED;

/* Operators, their inputs and outputs; x is an input, y is the output. */
static GByteArray *
graph_of (const char *first_op,
          ...)
{
  GByteArray *graph = g_byte_array_new ();
  va_list args;

  onnx_add_input (graph, "x", 1, "3");
  va_start (args, first_op);
  for (const char *op = first_op; op != NULL; op = va_arg (args, const char *))
    {
      const char *inputs = va_arg (args, const char *);

      onnx_add_node (graph, op, inputs, va_arg (args, const char *), NULL);
    }
  va_end (args);
  onnx_add_output (graph, "y", 1, "3");
  return graph;
}

static void
test_names (void)
{
  GByteArray *graph, *branch;

  check_refused ("an output of nobody", onnx_model (graph_of ("Abs", "x", "z", NULL), 17), RLX_MODEL_ERROR_PARSE, "nothing computes the value “y”");
  check_refused ("an input of nobody", onnx_model (graph_of ("Add", "x q", "y", NULL), 17), RLX_MODEL_ERROR_PARSE, "nothing computes the value “q”");
  check_refused ("made twice", onnx_model (graph_of ("Abs", "x", "y", "Neg", "x", "y", NULL), 17), RLX_MODEL_ERROR_PARSE, "“y” is given to two");
  check_refused ("twice at once", onnx_model (graph_of ("Split", "x", "y y", NULL), 17), RLX_MODEL_ERROR_PARSE, "“y” is given to two");
  check_refused ("an input again", onnx_model (graph_of ("Abs", "x", "x", NULL), 17), RLX_MODEL_ERROR_PARSE, "“x” is given to two");
  check_refused ("itself", onnx_model (graph_of ("Abs", "y", "y", NULL), 17), RLX_MODEL_ERROR_PARSE, "1 nodes depend on each other");
  check_refused ("a circle", onnx_model (graph_of ("Abs", "x", "a", "Add", "a c", "b", "Neg", "b", "c", "Abs", "c", "y", NULL), 17),
                 RLX_MODEL_ERROR_PARSE, "3 nodes depend on each other");

  graph = simple_graph ();
  onnx_add_tensor (graph, onnx_tensor ("w", 1, NULL, 0, "0000", 4));
  check_refused ("two tensors", onnx_model (graph, 17), RLX_MODEL_ERROR_PARSE, "“w” is given to two");
  graph = simple_graph ();
  onnx_add_input (graph, "x", 1, "3");
  check_refused ("two inputs", onnx_model (graph, 17), RLX_MODEL_ERROR_PARSE, "“x” is given to two");
  graph = simple_graph ();
  onnx_add_tensor (graph, onnx_tensor (NULL, 1, NULL, 0, "0000", 4));
  check_refused ("no name", onnx_model (graph, 17), RLX_MODEL_ERROR_PARSE, "an initialiser has no name");

  /* Graphs in attributes see the names around them, and no others. */
  branch = g_byte_array_new ();
  onnx_add_node (branch, "Abs", "nowhere", "b", NULL);
  onnx_add_output (branch, "b", 1, NULL);
  graph = g_byte_array_new ();
  onnx_add_input (graph, "c", 9, "");
  onnx_add_node (graph, "If", "c", "y", onnx_attr_graph ("then_branch", branch), NULL);
  onnx_add_output (graph, "y", 1, NULL);
  check_refused ("a name in a branch", onnx_model (graph, 17), RLX_MODEL_ERROR_PARSE, "nothing computes the value “nowhere”");

  graph = g_byte_array_new ();
  onnx_add_input (graph, "x", 1, "3");
  onnx_add_node (graph, "Elu", "x", "y", onnx_attr ("alpha", g_variant_new_double (1)), onnx_attr ("alpha", g_variant_new_double (2)), NULL);
  onnx_add_output (graph, "y", 1, "3");
  check_refused ("an attribute twice", onnx_model (graph, 17), RLX_MODEL_ERROR_PARSE, "attribute “alpha” twice");
}

/* Nodes may come in any order. */
static void
test_order (void)
{
  g_autoptr(GBytes) file = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxOnnx) onnx = NULL;
  GByteArray *graph = g_byte_array_new (), *branch = g_byte_array_new ();
  const char *const expected[] = { "Neg", "Abs", "If", "Add" };

  onnx_add_node (branch, "Identity", "a", "b", NULL);
  onnx_add_output (branch, "b", 1, NULL);
  onnx_add_input (graph, "x", 1, "3");
  onnx_add_node (graph, "Add", "c n", "y", NULL);
  /* It needs a, which is used in a nested graph. */
  onnx_add_node (graph, "If", "x", "c", onnx_attr_graph ("then_branch", branch), NULL);
  onnx_add_node (graph, "Abs", "n", "a", NULL);
  onnx_add_node (graph, "Neg", "x", "n", NULL);
  onnx_add_output (graph, "y", 1, "3");
  file = onnx_finish (onnx_model (graph, 17));
  onnx = open_bytes (file, NULL, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < G_N_ELEMENTS (expected); i++)
    {
      g_autoptr(RlxOnnxNode) node = rlx_onnx_get_node (onnx, rlx_onnx_get_graph (onnx, onnx->body), i);

      g_assert_cmpstr (node->op, ==, expected[i]);
    }
}

/* ---- tensors ------------------------------------------------------------------------------------- */

/* Takes ownership of the tensor. */
static GByteArray *
model_with (GByteArray *tensor)
{
  GByteArray *graph = graph_of ("Abs", "x", "y", NULL);

  onnx_add_tensor (graph, tensor);
  return onnx_model (graph, 17);
}

static void
test_tensors (void)
{
  const char bytes[64] = { 0 };
  GByteArray *tensor;

  check_refused ("a negative size", model_with (onnx_tensor ("t", 1, RLX_INT_ARRAY (-1), bytes, 4)), RLX_MODEL_ERROR_PARSE, "the shape of a tensor|-1");
  check_refused ("an overflow", model_with (onnx_tensor ("t", 1, RLX_INT_ARRAY (G_GINT64_CONSTANT (1) << 62, 4), bytes, 0)), RLX_MODEL_ERROR_LIMIT,
                 "the shape of a tensor");
  check_refused ("zero times much", model_with (onnx_tensor ("t", 1, RLX_INT_ARRAY (0, G_MAXINT64, 4), bytes, 0)), RLX_MODEL_ERROR_LIMIT,
                 "the shape of a tensor");
  check_refused ("rank 9", model_with (onnx_tensor ("t", 1, RLX_INT_ARRAY (1, 1, 1, 1, 1, 1, 1, 1, 1), bytes, 4)), RLX_MODEL_ERROR_LIMIT, "more than 8");
  check_refused ("too few bytes", model_with (onnx_tensor ("t", 1, RLX_INT_ARRAY (2), bytes, 7)), RLX_MODEL_ERROR_PARSE, "float|[2]|7 bytes|instead of 8");
  check_refused ("too many bytes", model_with (onnx_tensor ("t", 1, RLX_INT_ARRAY (2), bytes, 9)), RLX_MODEL_ERROR_PARSE, "9 bytes");
  check_refused ("no bytes", model_with (onnx_tensor ("t", 1, RLX_INT_ARRAY (2), bytes, 0)), RLX_MODEL_ERROR_PARSE, "0 bytes");
  check_refused ("half bytes", model_with (onnx_tensor ("t", 22, RLX_INT_ARRAY (3), bytes, 3)), RLX_MODEL_ERROR_PARSE, "instead of 2");
  check_refused ("type 0", model_with (onnx_tensor ("t", 0, RLX_INT_ARRAY (2), bytes, 8)), RLX_MODEL_ERROR_PARSE, "data_type of a tensor is 0");
  check_refused ("type 99", model_with (onnx_tensor ("t", 99, RLX_INT_ARRAY (2), bytes, 8)), RLX_MODEL_ERROR_PARSE, "data_type of a tensor is 99");

  tensor = onnx_tensor ("t", 1, RLX_INT_ARRAY (2), bytes, 8);
  proto_put_bytes (tensor, 4, bytes, 8);
  check_refused ("raw and not", model_with (tensor), RLX_MODEL_ERROR_PARSE, "in field 9 and in field 4");
  tensor = onnx_tensor ("t", 1, RLX_INT_ARRAY (2), bytes, 0);
  proto_put_bytes (tensor, 7, bytes, 2);
  check_refused ("the wrong field", model_with (tensor), RLX_MODEL_ERROR_PARSE, "in field 7, not in field 4");
  tensor = onnx_tensor ("t", 1, RLX_INT_ARRAY (2), bytes, 0);
  proto_put_float (tensor, 4, 1);
  check_refused ("one by one", model_with (tensor), RLX_MODEL_ERROR_UNSUPPORTED, "float_data is a list of single numbers");
  tensor = onnx_tensor ("t", 7, RLX_INT_ARRAY (40), bytes, 0);
  proto_put_bytes (tensor, 7, bytes, 39);
  check_refused ("too few numbers", model_with (tensor), RLX_MODEL_ERROR_PARSE, "cannot have 39 bytes");
  tensor = onnx_tensor ("t", 1, RLX_INT_ARRAY (2), bytes, 8);
  proto_put_message (tensor, 3, g_byte_array_new ());
  check_refused ("segments", model_with (tensor), RLX_MODEL_ERROR_UNSUPPORTED, "segments");
  tensor = g_byte_array_new ();
  proto_put_text (tensor, 8, "t");
  check_refused ("no type", model_with (tensor), RLX_MODEL_ERROR_PARSE, "TensorProto.data_type is missing");
}

/* Elements other than raw data. */
static void
test_elements (void)
{
  static const struct
  {
    int type;
    guint field;
    const char *bytes;
    gsize size;
    double values[3];
  } cases[] = {
    { 1, 4, "\0\0\x80\x3f\0\0\0\xc0\0\0\0\x3f", 12, { 1, -2, 0.5 } },
    { 6, 5, "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x80\x01", 13, { 1, -1, 128 } },
    { 3, 5, "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x7f", 12, { 1, -1, 127 } },
    { 9, 5, "\x01\x00\x05", 3, { 1, 0, 1 } },
    { 10, 5, "\x80\x78\x80\x80\x03\x00", 6, { 1, -2, 0 } },
    { 7, 7, "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x02", 12, { 1, -1, 2 } },
    { 12, 11, "\x01\xff\xff\xff\xff\x0f\x02", 7, { 1, 4294967295.0, 2 } },
    { 11, 10, "\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\0\xc0\0\0\0\0\0\0\xe0\x3f", 24, { 1, -2, 0.5 } },
    { 22, 5, "\xe1\x01\x07", 3, { 1, -2, 7 } },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      GByteArray *bytes = onnx_tensor (NULL, cases[i].type, RLX_INT_ARRAY (3), NULL, 0);
      g_autoptr(GBytes) file = NULL;
      g_autoptr(RlxSource) source = NULL;
      g_autoptr(RlxTensor) tensor = NULL;
      g_autoptr(GError) error = NULL;

      proto_put_bytes (bytes, cases[i].field, cases[i].bytes, cases[i].size);
      file = onnx_finish (bytes);
      source = rlx_source_new_for_bytes (file);
      tensor = rlx_onnx_read_tensor (source, NULL, &error);
      g_assert_no_error (error);
      for (gint64 j = 0; j < 3; j++)
        g_assert_cmpfloat (rlx_tensor_get_value (tensor, j), ==, cases[i].values[j]);
    }
}

/* Counts are checked when elements are read. */
static void
test_counts (void)
{
  const struct { const char *bytes; gsize size; const char *words; } cases[] = {
    { "\x81\x01\x01", 3, "2 elements instead of 3" },
    { "\x01\x01\x01\x01", 4, "more than its 3 elements" },
    { "\x01\x01\x81", 3, "2 elements instead of 3" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      GByteArray *bytes = onnx_tensor (NULL, 7, RLX_INT_ARRAY (3), NULL, 0);
      g_autoptr(GBytes) file = NULL;
      g_autoptr(RlxSource) source = NULL;
      g_autoptr(RlxTensor) tensor = NULL;
      g_autoptr(GError) error = NULL;

      proto_put_bytes (bytes, 7, cases[i].bytes, cases[i].size);
      file = onnx_finish (bytes);
      source = rlx_source_new_for_bytes (file);
      tensor = rlx_onnx_read_tensor (source, NULL, &error);
      g_assert_null (tensor);
      check_error (error, "counts", RLX_MODEL_ERROR_PARSE, cases[i].words);
    }
}

/* ---- other files --------------------------------------------------------------------------------- */

static GByteArray *
external_tensor (const char *location,
                 const char *offset,
                 const char *length)
{
  const char *const pairs[][2] = { { "location", location }, { "offset", offset }, { "length", length }, { "checksum", "?" } };
  GByteArray *tensor = onnx_tensor ("t", 1, RLX_INT_ARRAY (2), NULL, 0);

  for (guint i = 0; i < G_N_ELEMENTS (pairs); i++)
    if (pairs[i][1] != NULL)
      {
        GByteArray *pair = g_byte_array_new ();

        proto_put_text (pair, 1, pairs[i][0]);
        proto_put_text (pair, 2, pairs[i][1]);
        proto_put_message (tensor, 13, pair);
      }
  proto_put_int (tensor, 14, 1);
  return tensor;
}

/* The first initialiser of a model, whose elements are in another file. Takes ownership
 * of @tensor. */
static RlxTensor *
load_external (GByteArray *tensor,
               const char *folder,
               GError    **error)
{
  g_autoptr(GBytes) file = onnx_finish (model_with (tensor));
  g_autoptr(GError) problem = NULL;
  g_autoptr(RlxOnnx) onnx = open_bytes (file, folder, &problem);
  RlxProtobufValue value;
  RlxOnnxTensor record;
  const guint8 *at;

  g_assert_no_error (problem);
  at = onnx->body;
  g_assert_true (rlx_onnx_next (&at, RLX_ONNX_GRAPH_INITIALIZER, &value));
  g_assert_true (rlx_onnx_check_tensor (onnx, &value, &record, &problem));
  return rlx_onnx_load_tensor (onnx, &record, NULL, error);
}

static void
test_external (void)
{
  static const char *const bad[] = {
    "", "/etc/passwd", "..", "../weights", "a/../../b", "a/..", "./weights", "a//b", "a\\b", "c:weights", "a\nb", "/",
  };
  g_autofree char *folder = g_dir_make_tmp ("rlx-onnx-XXXXXX", NULL);
  g_autofree char *inner = g_build_filename (folder, "sub", NULL);
  g_autofree char *weights = g_build_filename (inner, "weights.bin", NULL);
  g_autofree char *direct = g_build_filename (folder, "link", NULL);
  g_autofree char *parent = g_build_filename (folder, "parent", NULL);
  g_autofree char *hard = g_build_filename (folder, "hard", NULL);
  g_autofree char *pipe = g_build_filename (folder, "pipe", NULL);
  g_autofree char *path = g_strnfill (5000, 'a');
  const float elements[] = { 9, 1, 2 };
  static const struct { const char *location; const char *offset; const char *words; } refused[] = {
    { "link", "4", "It is a link" },
    { "parent/weights.bin", "4", "sub|It is|ot a directory" },
    { "pipe", "4", "not a regular file" },
    { "sub", "4", "It is a directory" },
    { "none", "4", "o such file" },
    { "sub/weights.bin", "8", "8 bytes from byte 8 on are beyond the 12" },
    { "sub/weights.bin", "9223372036854775807", "are beyond the 12" },
  };

  g_assert_cmpint (g_mkdir (inner, 0700), ==, 0);
  g_assert_true (g_file_set_contents (weights, (const char *) elements, sizeof elements, NULL));
  g_assert_cmpint (symlink ("sub/weights.bin", direct), ==, 0);
  g_assert_cmpint (symlink ("sub", parent), ==, 0);
  g_assert_cmpint (mkfifo (pipe, 0600), ==, 0);

  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    check_refused (bad[i], model_with (external_tensor (bad[i], NULL, NULL)), RLX_MODEL_ERROR_PARSE, "the location of a tensor's elements");
  check_refused ("a long path", model_with (external_tensor (path, NULL, NULL)), RLX_MODEL_ERROR_PARSE, "too long");
  check_refused ("no path", model_with (external_tensor (NULL, "0", "8")), RLX_MODEL_ERROR_PARSE, "not named");
  check_refused ("a negative offset", model_with (external_tensor ("a", "-1", NULL)), RLX_MODEL_ERROR_PARSE, "offset|“-1”");
  check_refused ("a sign", model_with (external_tensor ("a", "+1", NULL)), RLX_MODEL_ERROR_PARSE, "offset");
  check_refused ("no number", model_with (external_tensor ("a", "0x10", NULL)), RLX_MODEL_ERROR_PARSE, "offset");
  check_refused ("beyond 64 bits", model_with (external_tensor ("a", "18446744073709551616", NULL)), RLX_MODEL_ERROR_PARSE, "offset");
  check_refused ("a wrong length", model_with (external_tensor ("a", NULL, "9")), RLX_MODEL_ERROR_PARSE, "9 bytes");

  {
    g_autoptr(GError) error = NULL;
    g_autoptr(RlxTensor) tensor = load_external (external_tensor ("sub/weights.bin", "4", "8"), folder, &error);

    g_assert_no_error (error);
    g_assert_cmpfloat (rlx_tensor_get_value (tensor, 0), ==, 1);
    g_assert_cmpfloat (rlx_tensor_get_value (tensor, 1), ==, 2);
  }
  {
    g_autoptr(GError) error = NULL;

    g_assert_null (load_external (external_tensor ("sub/weights.bin", "4", "8"), NULL, &error));
    check_error (error, "no folder", RLX_MODEL_ERROR_UNSUPPORTED, "without a folder|sub/weights.bin");
  }
  for (guint i = 0; i < G_N_ELEMENTS (refused); i++)
    {
      g_autoptr(GError) error = NULL;
      g_auto(GStrv) words = g_strsplit (refused[i].words, "|", -1);

      g_assert_null (load_external (external_tensor (refused[i].location, refused[i].offset, NULL), folder, &error));
      g_assert_nonnull (error);
      if (strstr (error->message, words[g_strv_length (words) - 1]) == NULL)
        g_error ("%s: %s", refused[i].location, error->message);
    }
  /* A file with two hard links may belong to somebody else. */
  g_assert_cmpint (link (weights, hard), ==, 0);
  {
    g_autoptr(GError) error = NULL;

    g_assert_null (load_external (external_tensor ("sub/weights.bin", "4", "8"), folder, &error));
    g_assert_error (error, G_IO_ERROR, G_IO_ERROR_PERMISSION_DENIED);
  }

  g_unlink (hard);
  g_unlink (pipe);
  g_unlink (parent);
  g_unlink (direct);
  g_unlink (weights);
  g_rmdir (inner);
  g_rmdir (folder);
}

/* ---- much of everything -------------------------------------------------------------------------- */

/* Opens a large file, which must fail, and checks the memory used. */
static void
check_large (const char   *name,
             GByteArray   *model,
             RlxModelError code,
             const char   *words)
{
  gsize size = model->len;

  rlx_test_heap_start ();
  check_refused (name, model, code, words);
  g_assert_cmpuint (rlx_test_heap_get_peak (), <=, 4 * size + (256 << 10));
}

static void
test_many (void)
{
  GByteArray *graph, *nodes, *inner;

  /* Nodes of minimal size, the last of which is invalid. */
  graph = g_byte_array_new ();
  onnx_add_input (graph, "x", 1, "3");
  nodes = graph;
  for (guint i = 0; i < 500000; i++)
    {
      char name[8];

      g_snprintf (name, sizeof name, "%x", i);
      onnx_add_node (nodes, "A", "", name, NULL);
    }
  onnx_add_node (nodes, "A", "q", "y", NULL);
  check_large ("many nodes", onnx_model (graph, 17), RLX_MODEL_ERROR_PARSE, "nothing computes the value “q”");

  /* In reverse order, and in a cycle. */
  graph = g_byte_array_new ();
  for (guint i = 0; i < 200000; i++)
    {
      char name[8], next[8];

      g_snprintf (name, sizeof name, "%x", i);
      g_snprintf (next, sizeof next, "%x", (i + 1) % 200000);
      onnx_add_node (graph, "A", next, name, NULL);
    }
  onnx_add_output (graph, "0", 1, NULL);
  check_large ("a large circle", onnx_model (graph, 17), RLX_MODEL_ERROR_PARSE, "200000 nodes depend");

  /* One node with very many inputs. */
  inner = g_byte_array_new ();
  for (guint i = 0; i < 1000000; i++)
    proto_put_text (inner, 1, "x");
  proto_put_text (inner, 2, "y");
  proto_put_text (inner, 4, "A");
  graph = g_byte_array_new ();
  onnx_add_input (graph, "x", 1, "3");
  proto_put_message (graph, 1, inner);
  onnx_add_output (graph, "z", 1, "3");
  check_large ("many inputs", onnx_model (graph, 17), RLX_MODEL_ERROR_PARSE, "nothing computes the value “z”");

  /* An endless list of dimensions. */
  inner = g_byte_array_new ();
  for (guint i = 0; i < 1000000; i++)
    proto_put_message (inner, 1, g_byte_array_new ());
  {
    GByteArray *type = g_byte_array_new (), *of_tensor = g_byte_array_new (), *port = g_byte_array_new ();

    proto_put_message (of_tensor, 2, inner);
    proto_put_message (type, 1, of_tensor);
    proto_put_text (port, 1, "z");
    proto_put_message (port, 2, type);
    graph = g_byte_array_new ();
    proto_put_message (graph, 12, port);
  }
  check_large ("many dimensions", onnx_model (graph, 17), RLX_MODEL_ERROR_PARSE, "nothing computes the value “z”");

  graph = g_byte_array_new ();
  for (guint i = 0; i < 1000000; i++)
    proto_put_message (graph, 1, g_byte_array_new ());
  check_large ("empty nodes", onnx_model (graph, 17), RLX_MODEL_ERROR_PARSE, "NodeProto.op_type is missing");
}

/* Graphs in attributes of nodes of graphs… */
static void
test_deep (void)
{
  GByteArray *graph = g_byte_array_new ();

  /* Far beyond the limit. The time to build them is quadratic. */
  for (guint i = 0; i < 4000; i++)
    {
      GByteArray *outer = g_byte_array_new ();

      onnx_add_node (outer, "If", "", "y", onnx_attr_graph ("then_branch", graph), NULL);
      graph = outer;
    }
  check_large ("deep", onnx_model (graph, 17), RLX_MODEL_ERROR_LIMIT, "more than 64 messages deep");
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/onnx/files/contents", test_contents);
  g_test_add_func ("/onnx/files/truncated", test_truncated);
  g_test_add_func ("/onnx/files/messages", test_messages);
  g_test_add_func ("/onnx/files/names", test_names);
  g_test_add_func ("/onnx/files/order", test_order);
  g_test_add_func ("/onnx/files/tensors", test_tensors);
  g_test_add_func ("/onnx/files/elements", test_elements);
  g_test_add_func ("/onnx/files/counts", test_counts);
  g_test_add_func ("/onnx/files/external", test_external);
  g_test_add_func ("/onnx/files/many", test_many);
  g_test_add_func ("/onnx/files/deep", test_deep);
  return g_test_run ();
}
