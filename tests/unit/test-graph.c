/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include <rlx-wgpu/rlx-wgpu.h>

#include "ops/rlx-op-private.h"
#include "rlx-graph-private.h"
#include "util/rlx-debug-private.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#define SHAPE(...) \
  ((const gint64[]) { __VA_ARGS__ }), G_N_ELEMENTS (((const gint64[]) { __VA_ARGS__ }))

/* ---- helpers ------------------------------------------------------------------ */

/* The error is of the code, and its message has all of the parts, which are
 * separated by "|". Clears it. */
static void
assert_message (GError    **error,
                int         code,
                const char *parts)
{
  g_auto (GStrv) split = g_strsplit (parts, "|", -1);

  g_assert_error (*error, RLX_GRAPH_ERROR, code);
  g_assert_true (g_utf8_validate ((*error)->message, -1, NULL));
  for (guint i = 0; split[i] != NULL; i++)
    if (strstr ((*error)->message, split[i]) == NULL)
      g_error ("“%s” does not mention “%s”", (*error)->message, split[i]);
  g_clear_error (error);
}

/* The same of a graph's first error. */
static void
assert_sticky (RlxGraph   *graph,
               int         code,
               const char *parts)
{
  g_autoptr (GError) error = NULL;

  g_assert_false (rlx_graph_check (graph, &error));
  assert_message (&error, code, parts);
  g_assert_null (rlx_graph_freeze (graph, &error));
  assert_message (&error, code, parts);
}

static void
assert_sound (RlxGraph *graph)
{
  g_autoptr (GError) error = NULL;

  rlx_graph_check (graph, &error);
  g_assert_no_error (error);
}

static void
assert_type (RlxNode    *node,
             const char *expected)
{
  g_autofree char *text = rlx_node_to_string (node);

  g_assert_nonnull (text);
  if (!g_str_has_suffix (text, expected))
    g_error ("“%s” is not of type %s", text, expected);
}

/* Inputs "0", "1"… of @types, which are separated by spaces; "-" is none. */
static RlxGraph *
graph_with_inputs (const char *types,
                   GPtrArray  *inputs)
{
  g_autoptr (GError) error = NULL;
  g_auto (GStrv) split = g_strsplit (types, " ", -1);
  g_autoptr (GString) text = g_string_new ("rlx 1\n");
  RlxGraph *graph;

  for (guint i = 0; split[i] != NULL; i++)
    if (split[i][0] != '-' && split[i][0] != '\0')
      g_string_append_printf (text, "%%%u = input \"%u\" %s\n", i, i, split[i]);

  graph = rlx_graph_new_from_text (text->str, &error);
  g_assert_no_error (error);

  for (guint i = 0; split[i] != NULL && split[i][0] != '\0'; i++)
    {
      g_autofree char *name = g_strdup_printf ("%u", i);

      g_ptr_array_add (inputs, split[i][0] != '-' ? rlx_graph_lookup (graph, name) : NULL);
    }

  return graph;
}

static GVariant *
parse_attributes (const char *attributes)
{
  g_autoptr (GError) error = NULL;
  GVariant *variant;

  if (attributes == NULL)
    return NULL;

  variant = g_variant_parse (NULL, attributes, NULL, NULL, &error);
  g_assert_no_error (error);

  return variant;
}

/* Adds the operator to a graph of nothing but its operands. */
static void
assert_infers (const char *op,
               const char *types,
               const char *attributes,
               const char *expected)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) inputs = g_ptr_array_new ();
  g_autoptr (RlxGraph) graph = graph_with_inputs (types, inputs);
  g_autoptr (GVariant) variant = parse_attributes (attributes);
  g_autofree RlxNode **nodes = NULL;
  gsize n_nodes;

  nodes = rlx_graph_add_op (graph, op, (RlxNode **) inputs->pdata, inputs->len, variant, &n_nodes, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (n_nodes, ==, 1);
  assert_type (nodes[0], expected);
  assert_sound (graph);
}

static void
assert_refuses (const char *op,
                const char *types,
                const char *attributes,
                int         code,
                const char *parts)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) inputs = g_ptr_array_new ();
  g_autoptr (RlxGraph) graph = graph_with_inputs (types, inputs);
  g_autoptr (GVariant) variant = parse_attributes (attributes);
  guint n_before = g_list_model_get_n_items (G_LIST_MODEL (graph));
  g_autofree RlxNode **nodes = NULL;
  gsize n_nodes = 42;

  nodes = rlx_graph_add_op (graph, op, (RlxNode **) inputs->pdata, inputs->len, variant, &n_nodes, &error);
  if (nodes != NULL)
    g_error ("%s of %s with %s is not refused", op, types, attributes);
  g_assert_cmpuint (n_nodes, ==, 0);
  assert_message (&error, code, parts);
  g_assert_cmpuint (g_list_model_get_n_items (G_LIST_MODEL (graph)), ==, n_before);

  /* What was reported is over; what was not is remembered. */
  assert_sound (graph);
  g_assert_null (rlx_graph_add_op (graph, op, (RlxNode **) inputs->pdata, inputs->len, variant, &n_nodes, NULL));
  assert_sticky (graph, code, parts);
  g_assert_cmpuint (g_list_model_get_n_items (G_LIST_MODEL (graph)), ==, n_before);
}

/* An operator with an attribute of each kind and as many results as its "count"
 * says, which the table has none of. */
static gboolean
many_infer (RlxOpCall *call,
            GError   **error)
{
  gint64 count = rlx_call_attr (call, "count")->i;

  if (count == 9)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_UNSUPPORTED, "no %d", 9);

  for (gint64 i = 0; i < count; i++)
    rlx_call_add_output (call, call->inputs[0]);

  return TRUE;
}

static const RlxInputDef many_inputs[] = {
  { "self", RLX_TYPES_ANY, FALSE, -1 },
  { "extra", RLX_TYPES_ANY, TRUE, 0 },
};
static const gint64 default_list[] = { 3, 4 };
static const RlxAttrDef many_attrs[] = {
  { "flag", RLX_ATTR_BOOL, FALSE, TRUE, 0, NULL, 0, NULL, "a flag" },
  { "count", RLX_ATTR_INT, FALSE, 3, 0, NULL, 0, NULL, "a count" },
  { "factor", RLX_ATTR_FLOAT, FALSE, 0, 0.5, NULL, 0, NULL, "a factor" },
  { "choice", RLX_ATTR_ENUM, FALSE, RLX_ADAPTER_TYPE_CPU, 0, NULL, 0, rlx_adapter_type_get_type, "a choice" },
  { "type", RLX_ATTR_DATA_TYPE, FALSE, RLX_DATA_TYPE_F16, 0, NULL, 0, NULL, "a type" },
  { "list", RLX_ATTR_INTS, FALSE, 0, 0, default_list, 2, NULL, "a list" },
  { "open", RLX_ATTR_INTS, FALSE, 0, 0, NULL, 0, NULL, "a list that may be empty" },
};
static const RlxOp many_op = {
  .name = "many",
  .inputs = many_inputs,
  .n_inputs = G_N_ELEMENTS (many_inputs),
  .attrs = many_attrs,
  .n_attrs = G_N_ELEMENTS (many_attrs),
  .infer = many_infer,
};

/* ---- graphs ---------------------------------------------------------------------- */

static void
test_empty (void)
{
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  g_auto (GStrv) inputs = rlx_graph_get_input_names (graph);
  g_auto (GStrv) outputs = rlx_graph_get_output_names (graph);
  g_autofree char *text = rlx_graph_to_text (graph);

  g_assert_cmpuint (g_list_model_get_item_type (G_LIST_MODEL (graph)), ==, RLX_TYPE_NODE);
  g_assert_cmpuint (g_list_model_get_n_items (G_LIST_MODEL (graph)), ==, 0);
  g_assert_null (g_list_model_get_item (G_LIST_MODEL (graph), 0));
  g_assert_cmpuint (g_strv_length (inputs), ==, 0);
  g_assert_cmpuint (g_strv_length (outputs), ==, 0);
  g_assert_null (rlx_graph_lookup (graph, ""));
  g_assert_cmpstr (text, ==, "rlx 1\n");
  assert_sound (graph);
  g_assert_nonnull (rlx_graph_freeze (graph, NULL));
}

static void
test_example (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  g_autoptr (RlxTensor) weights = rlx_tensor_new_from_floats (SHAPE (3, 2), (float[]) { 1, 0, 0, 1, 1, 1 }, 6, NULL);
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, SHAPE (2, 3), &error);
  RlxNode *w = rlx_graph_constant (graph, weights, &error);
  RlxNode *product = rlx_node_matmul (x, w, &error);
  RlxNode *y = rlx_node_relu (product, &error);
  g_autofree RlxNode **operands = NULL;
  g_autofree char *text = NULL;
  g_autofree char *op = NULL;
  g_autofree char *name = NULL;
  g_autoptr (GVariant) attributes = NULL;
  g_auto (GStrv) inputs = NULL;
  g_auto (GStrv) outputs = NULL;
  const gint64 *shape;
  gsize n;
  RlxDataType data_type;

  g_assert_no_error (error);
  rlx_graph_output (graph, "y", y);
  assert_sound (graph);

  g_assert_cmpstr (rlx_node_get_op (x), ==, "input");
  g_assert_cmpstr (rlx_node_get_name (x), ==, "x");
  g_assert_cmpstr (rlx_node_get_op (w), ==, "constant");
  g_assert_null (rlx_node_get_name (w));
  g_assert_cmpstr (rlx_node_get_op (product), ==, "matmul");
  g_assert_true (rlx_node_get_graph (y) == graph);
  g_assert_cmpint (rlx_node_get_data_type (y), ==, RLX_DATA_TYPE_F32);
  g_assert_cmpuint (rlx_node_get_n_dims (y), ==, 2);
  shape = rlx_node_get_shape (y, &n);
  g_assert_cmpmem (shape, n * sizeof (gint64), ((gint64[]) { 2, 2 }), 2 * sizeof (gint64));

  operands = rlx_node_get_inputs (product, &n);
  g_assert_cmpuint (n, ==, 2);
  g_assert_true (operands[0] == x);
  g_assert_true (operands[1] == w);

  text = rlx_node_to_string (product);
  g_assert_cmpstr (text, ==, "%2 = matmul(%0, %1): f32[2, 2]");

  g_object_get (x, "op", &op, "name", &name, "data-type", &data_type, NULL);
  g_assert_cmpstr (op, ==, "input");
  g_assert_cmpstr (name, ==, "x");
  g_assert_cmpint (data_type, ==, RLX_DATA_TYPE_F32);

  attributes = rlx_node_get_attributes (product);
  g_assert_false (g_variant_is_floating (attributes));
  g_assert_cmpstr (g_variant_get_type_string (attributes), ==, "a{sv}");
  g_assert_cmpuint (g_variant_n_children (attributes), ==, 2);

  g_assert_true (rlx_graph_lookup (graph, "x") == x);
  g_assert_true (rlx_graph_lookup (graph, "y") == y);
  g_assert_null (rlx_graph_lookup (graph, "z"));
  g_assert_true (rlx_graph_get_output (graph, "y") == y);
  g_assert_null (rlx_graph_get_output (graph, "x"));
  g_assert_true (rlx_node_get_tensor (w) == weights);
  g_assert_null (rlx_node_get_tensor (x));
  g_assert_null (rlx_node_get_tensor (y));

  inputs = rlx_graph_get_input_names (graph);
  outputs = rlx_graph_get_output_names (graph);
  g_assert_cmpstrv (inputs, ((const char *[]) { "x", NULL }));
  g_assert_cmpstrv (outputs, ((const char *[]) { "y", NULL }));
}

typedef RlxNode *(*MakeLeaf) (RlxGraph *, const char *, RlxDataType, const gint64 *, gsize, GError **);

static void
check_shapes (MakeLeaf make)
{
  static const struct
  {
    gsize n_dims;
    gint64 dims[10];
    int code;           /* -1: fine */
    const char *parts;
  } cases[] = {
    { 0, { 0 }, -1, NULL },
    { 1, { 0 }, -1, NULL },
    { 8, { 1, 2, 1, 2, 1, 2, 1, 2 }, -1, NULL },
    { 1, { 0xffffffff }, -1, NULL },
    { 2, { 65536, 65535 }, -1, NULL },
    { 3, { 0xffffffff, 0, 1 }, -1, NULL },
    { 9, { 1, 1, 1, 1, 1, 1, 1, 1, 1 }, RLX_GRAPH_ERROR_LIMIT, "“x”|9|8" },
    { 1, { -1 }, RLX_GRAPH_ERROR_SHAPE, "“x”|-1" },
    { 2, { 3, G_MININT64 }, RLX_GRAPH_ERROR_SHAPE, "“x”|-9223372036854775808" },
    { 1, { G_GINT64_CONSTANT (0x100000000) }, RLX_GRAPH_ERROR_LIMIT, "“x”|4294967296|4294967295" },
    { 2, { 65536, 65536 }, RLX_GRAPH_ERROR_LIMIT, "[65536, 65536]|4294967295" },
    { 1, { G_MAXINT64 }, RLX_GRAPH_ERROR_LIMIT, "9223372036854775807" },
    { 2, { G_GINT64_CONSTANT (1) << 32, G_GINT64_CONSTANT (1) << 32 }, RLX_GRAPH_ERROR_LIMIT, "4294967295" },
    { 8, { 1 << 30, 1 << 30, 1 << 30, 1 << 30, 1 << 30, 1 << 30, 1 << 30, 1 << 30 }, RLX_GRAPH_ERROR_LIMIT, "4294967295" },
    { 2, { 0, G_MAXINT64 }, RLX_GRAPH_ERROR_LIMIT, "[0, 9223372036854775807]" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (RlxGraph) graph = rlx_graph_new ();
      RlxNode *node = make (graph, "x", RLX_DATA_TYPE_U64, cases[i].dims, cases[i].n_dims, &error);

      if (cases[i].code < 0)
        {
          const gint64 *shape;
          gsize n_dims;

          g_assert_no_error (error);
          shape = rlx_node_get_shape (node, &n_dims);
          g_assert_cmpmem (shape, n_dims * sizeof (gint64), cases[i].dims, cases[i].n_dims * sizeof (gint64));
          assert_sound (graph);
        }
      else
        {
          g_assert_null (node);
          assert_message (&error, cases[i].code, cases[i].parts);
          assert_sound (graph);
          g_assert_null (rlx_graph_lookup (graph, "x"));
          g_assert_cmpuint (g_list_model_get_n_items (G_LIST_MODEL (graph)), ==, 0);
        }
    }
}

static void
test_shapes (void)
{
  check_shapes (rlx_graph_input);
  check_shapes (rlx_graph_parameter);
}

static void
test_data_types (void)
{
  static const int wrong[] = { -1, 11, 999, G_MININT, G_MAXINT };

  for (guint i = 0; i <= RLX_DATA_TYPE_U4; i++)
    {
      g_autoptr (RlxGraph) graph = rlx_graph_new ();
      RlxNode *node = rlx_graph_input (graph, "x", (RlxDataType) i, NULL, 0, NULL);

      g_assert_cmpint (rlx_node_get_data_type (node), ==, i);
      assert_sound (graph);
    }

  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (RlxGraph) graph = rlx_graph_new ();
      g_autofree char *number = g_strdup_printf ("%d", wrong[i]);

      g_assert_null (rlx_graph_input (graph, "x", (RlxDataType) wrong[i], NULL, 0, &error));
      assert_message (&error, RLX_GRAPH_ERROR_DATA_TYPE, number);
      g_assert_null (rlx_graph_parameter (graph, "x", (RlxDataType) wrong[i], NULL, 0, &error));
      assert_message (&error, RLX_GRAPH_ERROR_DATA_TYPE, number);
      g_assert_null (rlx_graph_scalar (graph, (RlxDataType) wrong[i], 1, &error));
      assert_message (&error, RLX_GRAPH_ERROR_DATA_TYPE, number);
      assert_sound (graph);
      g_assert_null (rlx_graph_scalar (graph, (RlxDataType) wrong[i], 1, NULL));
      assert_sticky (graph, RLX_GRAPH_ERROR_DATA_TYPE, number);
    }
}

static void
test_names (void)
{
  /* Whatever people call things. */
  static const char *const good[] = {
    "x", " ", "fn", "override", "\"; } fn x(){", "two\nlines", "a\tb\r", "\\", "שלום", "\342\200\256desrever", "😀",
    "%0", "#", "__proto__", "\001\177", "ﷺ",
  };
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxTensor) zero = rlx_tensor_new_scalar (RLX_DATA_TYPE_F32, 0, NULL);
  g_autofree char *longest = g_strnfill (255, 'n');
  g_autofree char *too_long = g_strnfill (256, 'n');
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  RlxNode *x = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (good); i++)
    {
      x = rlx_graph_input (graph, good[i], RLX_DATA_TYPE_F32, NULL, 0, &error);
      g_assert_no_error (error);
      g_assert_cmpstr (rlx_node_get_name (x), ==, good[i]);
      rlx_graph_output (graph, good[i], x);
      g_assert_true (rlx_graph_lookup (graph, good[i]) == x);
    }
  rlx_graph_output (graph, longest, rlx_graph_parameter (graph, longest, RLX_DATA_TYPE_F32, NULL, 0, &error));
  g_assert_no_error (error);
  assert_sound (graph);

  for (guint kind = 0; kind < 4; kind++)
    {
      static const struct
      {
        const char *name;
        const char *parts;
      } bad[] = {
        { "", "empty" },
        { "\377", "UTF-8|“\\xff”" },
        { "caf\303", "UTF-8" },
        { "\355\240\200", "UTF-8" },
        { "fn", "“fn”|taken" },
      };

      for (guint i = 0; i <= G_N_ELEMENTS (bad); i++)
        {
          const char *name = i < G_N_ELEMENTS (bad) ? bad[i].name : too_long;
          const char *parts = i < G_N_ELEMENTS (bad) ? bad[i].parts : "256|255";
          g_autoptr (RlxGraph) other = rlx_graph_new ();
          RlxNode *node = rlx_graph_input (other, "fn", RLX_DATA_TYPE_F32, NULL, 0, &error);

          rlx_graph_output (other, "fn", node);
          g_assert_no_error (error);

          if (kind == 0)
            node = rlx_graph_input (other, name, RLX_DATA_TYPE_F32, NULL, 0, &error);
          else if (kind == 1)
            node = rlx_graph_parameter (other, name, RLX_DATA_TYPE_F32, NULL, 0, &error);
          else if (kind == 2)
            node = rlx_graph_state (other, name, zero, &error);
          else
            rlx_graph_output (other, name, node);

          if (kind < 3)
            {
              g_assert_null (node);
              assert_message (&error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, parts);
              assert_sound (other);
            }
          else
            assert_sticky (other, RLX_GRAPH_ERROR_INVALID_ARGUMENT, parts);
        }
    }
}

static void
test_output (void)
{
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  g_autoptr (RlxGraph) other = rlx_graph_new ();
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, SHAPE (2), NULL);
  g_auto (GStrv) names = NULL;

  /* An input that is an output, under two names, one of them its own. */
  rlx_graph_output (graph, "b", x);
  rlx_graph_output (graph, "a", x);
  rlx_graph_output (graph, "x", x);
  assert_sound (graph);
  names = rlx_graph_get_output_names (graph);
  g_assert_cmpstrv (names, ((const char *[]) { "b", "a", "x", NULL }));

  rlx_graph_output (other, "y", x);
  assert_sticky (other, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“y”|%0|\"x\"|another graph");
  g_assert_null (rlx_graph_lookup (other, "y"));

  /* Only the first error counts. */
  rlx_graph_output (graph, "c", NULL);
  assert_sticky (graph, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“c”|NULL");
  rlx_graph_output (graph, "a", x);
  assert_sticky (graph, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“c”|NULL");
}

static void
test_constants (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  g_autoptr (RlxTensor) fits = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I64, SHAPE (2),
                                                         (gint64[]) { G_MININT32, G_MAXINT32 }, 2, NULL);
  g_autoptr (RlxTensor) unsigned_fits = rlx_tensor_new_from_ints (RLX_DATA_TYPE_U64, SHAPE (2),
                                                                  (gint64[]) { 0, G_MAXUINT32 }, 2, NULL);
  g_autoptr (RlxTensor) empty = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I64, SHAPE (0, 3), NULL, 0, NULL);
  static const struct
  {
    RlxDataType data_type;
    gint64 values[3];
    const char *parts;
  } wide[] = {
    { RLX_DATA_TYPE_I64, { 0, G_GINT64_CONSTANT (0x80000000), 0 }, "element 1|i64|2147483648" },
    { RLX_DATA_TYPE_I64, { 0, 0, G_GINT64_CONSTANT (-0x80000001) }, "element 2|i64|-2147483649" },
    { RLX_DATA_TYPE_I64, { G_MININT64, 0, 0 }, "element 0|i64|-9223372036854775808" },
    { RLX_DATA_TYPE_U64, { 1, 2, G_GINT64_CONSTANT (0x100000000) }, "element 2|u64|4294967296" },
  };

  assert_type (rlx_graph_constant (graph, fits, &error), ": i64[2]");
  assert_type (rlx_graph_constant (graph, unsigned_fits, &error), ": u64[2]");
  assert_type (rlx_graph_constant (graph, empty, &error), ": i64[0, 3]");
  assert_type (rlx_graph_state (graph, "s", fits, &error), ": i64[2]");
  g_assert_no_error (error);
  assert_sound (graph);

  for (guint i = 0; i < G_N_ELEMENTS (wide); i++)
    {
      g_autoptr (RlxGraph) other = rlx_graph_new ();
      g_autoptr (RlxTensor) tensor = rlx_tensor_new_from_ints (wide[i].data_type, SHAPE (3), wide[i].values, 3, NULL);

      g_assert_null (rlx_graph_constant (other, tensor, &error));
      assert_message (&error, RLX_GRAPH_ERROR_LIMIT, wide[i].parts);
      g_assert_null (rlx_graph_state (other, "s", tensor, &error));
      assert_message (&error, RLX_GRAPH_ERROR_LIMIT, wide[i].parts);
      assert_sound (other);
    }
}

static void
test_scalars (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  static const struct
  {
    RlxDataType data_type;
    double value;
    int code;
    const char *parts;
  } bad[] = {
    { RLX_DATA_TYPE_I8, 128, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "128|i8" },
    { RLX_DATA_TYPE_I32, 0.5, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "0.5|i32" },
    { RLX_DATA_TYPE_U32, -1, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "-1|u32" },
    { RLX_DATA_TYPE_I32, NAN, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "nan|i32" },
    { RLX_DATA_TYPE_F16, 1e6, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "1000000|f16" },
    { RLX_DATA_TYPE_I64, 2147483648.0, RLX_GRAPH_ERROR_LIMIT, "2147483648|i64" },
  };

  for (guint i = 0; i <= RLX_DATA_TYPE_U64; i++)
    {
      RlxNode *node = rlx_graph_scalar (graph, (RlxDataType) i, 1, &error);

      g_assert_no_error (error);
      g_assert_cmpuint (rlx_node_get_n_dims (node), ==, 0);
      g_assert_cmpint (rlx_node_get_data_type (node), ==, i);
      g_assert_cmpstr (rlx_node_get_op (node), ==, "constant");
    }

  /* Data may be anything. */
  g_assert_nonnull (rlx_graph_scalar (graph, RLX_DATA_TYPE_F32, NAN, &error));
  g_assert_nonnull (rlx_graph_scalar (graph, RLX_DATA_TYPE_F16, -INFINITY, &error));
  assert_sound (graph);

  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_autoptr (RlxGraph) other = rlx_graph_new ();

      g_assert_null (rlx_graph_scalar (other, bad[i].data_type, bad[i].value, &error));
      assert_message (&error, bad[i].code, bad[i].parts);
      assert_sound (other);
    }
}

static void
test_states (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxTensor) zeros = rlx_tensor_new_from_floats (SHAPE (2), (float[]) { 0, 0 }, 2, NULL);
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  RlxNode *state = rlx_graph_state (graph, "s", zeros, &error);
  RlxNode *other_state = rlx_graph_state (graph, "t", zeros, &error);
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, SHAPE (2), &error);
  RlxNode *matrix = rlx_graph_input (graph, "m", RLX_DATA_TYPE_F32, SHAPE (1, 2), &error);
  RlxNode *ints = rlx_graph_input (graph, "i", RLX_DATA_TYPE_I32, SHAPE (2), &error);
  const RlxIr *ir;

  g_assert_no_error (error);
  g_assert_true (rlx_graph_assign (graph, state, rlx_node_add (state, x, &error), &error));
  /* A state may take another's value. */
  g_assert_true (rlx_graph_assign (graph, other_state, state, &error));
  g_assert_no_error (error);
  assert_sound (graph);
  ir = rlx_graph_freeze (graph, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ir->assigns->len, ==, 2);

  for (guint i = 0; i < 5; i++)
    {
      g_autoptr (RlxGraph) copy = rlx_graph_new ();
      RlxNode *s = rlx_graph_state (copy, "s", zeros, NULL);
      RlxNode *y = rlx_graph_input (copy, "x", RLX_DATA_TYPE_F32, SHAPE (2), NULL);

      if (i == 0)
        {
          g_assert_false (rlx_graph_assign (copy, y, y, &error));
          assert_message (&error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "%1|“x”|input|state");
        }
      else if (i == 1)
        {
          g_assert_true (rlx_graph_assign (copy, s, y, &error));
          g_assert_false (rlx_graph_assign (copy, s, y, &error));
          assert_message (&error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“s”|already");
        }
      else if (i == 2)
        {
          y = rlx_graph_input (copy, "i", RLX_DATA_TYPE_I32, SHAPE (2), NULL);
          g_assert_false (rlx_graph_assign (copy, s, y, &error));
          assert_message (&error, RLX_GRAPH_ERROR_DATA_TYPE, "“s”|f32[2]|i32[2]");
        }
      else if (i == 3)
        {
          y = rlx_graph_input (copy, "m", RLX_DATA_TYPE_F32, SHAPE (1, 2), NULL);
          g_assert_false (rlx_graph_assign (copy, s, y, &error));
          assert_message (&error, RLX_GRAPH_ERROR_SHAPE, "“s”|f32[2]|f32[1, 2]");
        }
      else
        {
          g_assert_false (rlx_graph_assign (copy, s, x, &error));
          assert_message (&error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“value”|%2|another graph");
          g_assert_false (rlx_graph_assign (copy, state, y, &error));
          assert_message (&error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“state”|%0|another graph");
        }
      assert_sound (copy);
    }

  (void) matrix;
  (void) ints;
}

/* ---- errors that stick ------------------------------------------------------------- */

static void
test_sticky (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GError) kept = NULL;
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  RlxNode *a = rlx_graph_input (graph, "a", RLX_DATA_TYPE_F32, SHAPE (2, 3), &error);
  RlxNode *b = rlx_graph_input (graph, "b", RLX_DATA_TYPE_F32, SHAPE (4), &error);
  RlxNode *sum;

  g_assert_no_error (error);

  /* Nobody looks, and a later failure does not take the first one's place. */
  sum = rlx_node_add (a, b, NULL);
  g_assert_null (sum);
  g_assert_null (rlx_node_relu (sum, NULL));
  g_assert_null (rlx_graph_input (graph, "a", RLX_DATA_TYPE_F32, NULL, 0, NULL));
  rlx_graph_output (graph, "y", NULL);
  assert_sticky (graph, RLX_GRAPH_ERROR_SHAPE, "add|f32[2, 3]|f32[4]|%0 “a”|%1 “b”");

  /* What fits is still taken. */
  g_assert_nonnull (rlx_node_relu (a, &error));
  g_assert_no_error (error);

  /* A chain that shares one error: it stays the first one. */
  sum = rlx_node_add (a, b, &error);
  g_assert_null (rlx_node_matmul (rlx_node_relu (sum, &error), b, &error));
  g_assert_null (rlx_node_add (a, b, &error));
  g_assert_null (rlx_graph_input (graph, "", RLX_DATA_TYPE_F32, NULL, 0, &error));
  g_assert_null (rlx_graph_add_op (graph, "nothing", NULL, 0, NULL, NULL, &error));
  g_assert_false (rlx_graph_assign (graph, a, b, &error));
  assert_message (&error, RLX_GRAPH_ERROR_SHAPE, "add");

  /* Asking leaves an error that is there alone too. */
  g_set_error_literal (&kept, G_IO_ERROR, G_IO_ERROR_FAILED, "kept");
  g_assert_false (rlx_graph_check (graph, &kept));
  g_assert_error (kept, G_IO_ERROR, G_IO_ERROR_FAILED);
  g_assert_false (rlx_graph_check (graph, NULL));
}

static void
test_null_operands (void)
{
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < 8; i++)
    {
      g_autoptr (RlxGraph) graph = rlx_graph_new ();
      RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, SHAPE (2, 2), &error);
      RlxNode *pair[] = { x, NULL };
      gsize n = 42;
      const char *parts = NULL;

      switch (i)
        {
        case 0:
          g_assert_null (rlx_node_add (x, NULL, &error));
          parts = "add|“other”|NULL";
          break;
        case 1:
          g_assert_null (rlx_node_add (NULL, x, &error));
          parts = "add|“self”|NULL";
          break;
        case 2:
          g_assert_null (rlx_graph_concat (graph, pair, 2, 0, &error));
          parts = "concat|“inputs”|NULL";
          break;
        case 3:
          g_assert_null (rlx_graph_add_op (graph, "add", pair, 2, NULL, &n, &error));
          g_assert_cmpuint (n, ==, 0);
          parts = "add|“other”|NULL";
          break;
        case 4:
          g_assert_false (rlx_graph_assign (graph, NULL, x, &error));
          parts = "assign|“state”|NULL";
          break;
        case 5:
          g_assert_false (rlx_graph_assign (graph, x, NULL, &error));
          parts = "assign|“value”|NULL";
          break;
        case 6:
          g_assert_null (rlx_graph_constant (graph, NULL, &error));
          parts = "constant|“tensor”|NULL";
          break;
        default:
          g_assert_null (rlx_graph_state (graph, "s", NULL, &error));
          parts = "state|“initial”|NULL";
          break;
        }

      g_assert_no_error (error);
      assert_sticky (graph, RLX_GRAPH_ERROR_INVALID_ARGUMENT, parts);
    }

  /* No graph to tell. */
  g_assert_null (rlx_node_relu (NULL, &error));
  g_assert_null (rlx_node_add (NULL, NULL, &error));
  g_assert_no_error (error);

  /* Optional operands: absence is fine, and shows as such. */
  {
    g_autoptr (RlxGraph) graph = rlx_graph_new ();
    RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, SHAPE (2, 2), &error);
    RlxNode *y = rlx_node_linear (x, x, NULL, &error);
    g_autofree RlxNode **inputs = NULL;
    g_autofree RlxNode **short_form = NULL;
    g_autofree char *text = NULL;
    g_autofree char *short_text = NULL;
    RlxNode *operands[] = { x, x, x, x };
    gsize n;

    g_assert_no_error (error);
    inputs = rlx_node_get_inputs (y, &n);
    g_assert_cmpuint (n, ==, 3);
    g_assert_null (inputs[2]);
    text = rlx_node_to_string (y);
    g_assert_cmpstr (text, ==, "%1 = linear(%0, %0): f32[2, 2]");

    /* They can be left out at the end. */
    short_form = rlx_graph_add_op (graph, "linear", operands, 2, NULL, &n, &error);
    g_assert_no_error (error);
    short_text = rlx_node_to_string (short_form[0]);
    g_assert_cmpstr (short_text, ==, "%2 = linear(%0, %0): f32[2, 2]");
    assert_sound (graph);

    g_assert_null (rlx_graph_add_op (graph, "linear", operands, 1, NULL, &n, &error));
    assert_message (&error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "linear|1 operands|up to 3");
    g_assert_null (rlx_graph_add_op (graph, "linear", operands, 4, NULL, &n, &error));
    assert_message (&error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "linear|4 operands|up to 3");
    g_assert_null (rlx_graph_add_op (graph, "relu", NULL, 0, NULL, &n, &error));
    assert_message (&error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "relu|0 operands|takes 1");
    g_assert_null (rlx_graph_concat (graph, NULL, 0, 0, &error));
    assert_message (&error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "concat|0 operands|at least 1");
  }
}

static void
expect_critical (const char *pattern)
{
  g_test_expect_message ("Rlx", G_LOG_LEVEL_CRITICAL, pattern);
}

static void
test_programmer_errors (void)
{
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  g_autoptr (GObject) thing = g_object_new (RLX_TYPE_TENSOR, NULL);
  gsize n = 42;

  expect_critical ("*RLX_IS_GRAPH*");
  g_assert_null (rlx_graph_input (NULL, "x", RLX_DATA_TYPE_F32, NULL, 0, NULL));
  expect_critical ("*name != NULL*");
  g_assert_null (rlx_graph_input (graph, NULL, RLX_DATA_TYPE_F32, NULL, 0, NULL));
  expect_critical ("*shape != NULL*");
  g_assert_null (rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, NULL, 1, NULL));
  expect_critical ("*RLX_IS_GRAPH*");
  g_assert_null (rlx_graph_add_op ((RlxGraph *) thing, "add", NULL, 0, NULL, &n, NULL));
  g_assert_cmpuint (n, ==, 0);
  expect_critical ("*RLX_IS_NODE*");
  rlx_graph_output (graph, "y", (RlxNode *) thing);
  expect_critical ("*RLX_IS_NODE*");
  g_assert_null (rlx_node_relu ((RlxNode *) thing, NULL));
  expect_critical ("*RLX_IS_TENSOR*");
  g_assert_null (rlx_graph_constant (graph, (RlxTensor *) graph, NULL));
  expect_critical ("*RLX_IS_GRAPH*");
  g_assert_false (rlx_graph_check (NULL, NULL));
  expect_critical ("*RLX_IS_NODE*");
  g_assert_null (rlx_node_get_shape (NULL, &n));
  g_assert_cmpuint (n, ==, 0);
  expect_critical ("*text != NULL*");
  g_assert_null (rlx_graph_new_from_text (NULL, NULL));
  g_test_assert_expected_messages ();

  /* Nothing of it is in the graph. */
  g_assert_cmpuint (g_list_model_get_n_items (G_LIST_MODEL (graph)), ==, 0);
}

/* ---- whose node ------------------------------------------------------------------------ */

static void
test_foreign (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  g_autoptr (RlxGraph) other = rlx_graph_new ();
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, SHAPE (2), NULL);
  RlxNode *y = rlx_graph_input (other, "yy", RLX_DATA_TYPE_F32, SHAPE (2), NULL);
  RlxNode *pair[] = { x, y };

  g_assert_null (rlx_node_add (x, y, &error));
  assert_message (&error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "add|“other”|\"yy\"|another graph");
  assert_sound (graph);
  assert_sound (other);
  g_assert_null (rlx_graph_concat (other, pair, 2, 0, &error));
  assert_message (&error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "concat|“inputs”|\"x\"|another graph");
}

static void
test_graph_is_gone (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  g_autoptr (RlxGraph) living = rlx_graph_new ();
  g_autoptr (RlxNode) x = g_object_ref (rlx_graph_input (graph, "x", RLX_DATA_TYPE_I32, SHAPE (2, 3), &error));
  g_autoptr (RlxNode) y = g_object_ref (rlx_node_reduce_sum (x, SHAPE (-1), &error));
  RlxNode *z = rlx_graph_input (living, "z", RLX_DATA_TYPE_I32, SHAPE (2, 3), &error);
  g_autoptr (GVariant) attributes = NULL;
  g_autofree RlxNode **inputs = NULL;
  g_autofree char *text = NULL;
  const gint64 *shape;
  const char *name;
  gsize n;

  g_assert_no_error (error);
  rlx_node_set_name (y, "label");
  name = rlx_node_get_name (y);
  shape = rlx_node_get_shape (y, &n);
  rlx_graph_output (graph, "y", y);

  g_assert_finalize_object (g_steal_pointer (&graph));

  g_assert_null (rlx_node_get_graph (y));
  g_assert_cmpstr (rlx_node_get_op (y), ==, "reduce_sum");
  g_assert_cmpstr (rlx_node_get_name (x), ==, "x");
  g_assert_cmpint (rlx_node_get_data_type (y), ==, RLX_DATA_TYPE_I32);
  g_assert_cmpuint (rlx_node_get_n_dims (x), ==, 2);
  /* What was handed out before is still good. */
  g_assert_true (rlx_node_get_name (y) == name);
  g_assert_cmpstr (name, ==, "label");
  g_assert_true (rlx_node_get_shape (y, &n) == shape);
  g_assert_cmpuint (n, ==, 1);
  g_assert_cmpint (shape[0], ==, 2);
  inputs = rlx_node_get_inputs (y, &n);
  g_assert_cmpuint (n, ==, 0);
  attributes = rlx_node_get_attributes (y);
  g_assert_cmpuint (g_variant_n_children (attributes), ==, 2);
  text = rlx_node_to_string (y);
  g_assert_cmpstr (text, ==, "reduce_sum: i32[2]");
  rlx_node_set_name (y, "another");
  g_assert_cmpstr (rlx_node_get_name (y), ==, "label");

  g_assert_null (rlx_node_relu (x, &error));
  assert_message (&error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "relu|not exist any more");
  g_assert_null (rlx_node_add (x, y, &error));
  assert_message (&error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "add|not exist any more");
  g_assert_null (rlx_node_add (x, z, &error));
  assert_message (&error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "add|“self”|input: i32[2, 3]|not exist any more");
  assert_sound (living);
  rlx_graph_output (living, "x", x);
  assert_sticky (living, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "not exist any more");
  g_assert_false (rlx_graph_assign (living, z, x, &error));
  assert_message (&error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "assign|not exist any more");
}

static void
test_bare_node (void)
{
  /* A script can make one: it is like a node whose graph is gone. */
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxNode) node = g_object_new (RLX_TYPE_NODE, NULL);
  g_autofree char *text = rlx_node_to_string (node);
  g_autoptr (GVariant) attributes = rlx_node_get_attributes (node);

  g_assert_nonnull (text);
  g_assert_nonnull (attributes);
  g_assert_null (rlx_node_get_graph (node));
  g_assert_null (rlx_node_get_name (node));
  rlx_node_set_name (node, "label");
  g_assert_null (rlx_node_relu (node, &error));
  assert_message (&error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "not exist any more");
}

static void
test_run_dispose (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, SHAPE (2), NULL);

  g_object_run_dispose (G_OBJECT (graph));
  g_object_run_dispose (G_OBJECT (x));
  g_assert_nonnull (rlx_node_relu (x, &error));
  g_assert_no_error (error);
  assert_sound (graph);
}

/* ---- once compiled -------------------------------------------------------------------------- */

static void
test_frozen (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxTensor) tensor = rlx_tensor_new_from_floats (SHAPE (2), (float[]) { 0, 0 }, 2, NULL);
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, SHAPE (2), NULL);
  RlxNode *state = rlx_graph_state (graph, "s", tensor, NULL);
  RlxNode *y = rlx_node_relu (x, NULL);
  const RlxIr *ir = rlx_graph_freeze (graph, &error);
  guint n = g_list_model_get_n_items (G_LIST_MODEL (graph));

  g_assert_no_error (error);
  g_assert_true (rlx_graph_is_frozen (graph));

  g_assert_null (rlx_graph_input (graph, "new", RLX_DATA_TYPE_F32, NULL, 0, &error));
  assert_message (&error, RLX_GRAPH_ERROR_BUSY, "input|compiled");
  g_assert_null (rlx_graph_parameter (graph, "new", RLX_DATA_TYPE_F32, NULL, 0, &error));
  assert_message (&error, RLX_GRAPH_ERROR_BUSY, "parameter");
  g_assert_null (rlx_graph_constant (graph, tensor, &error));
  assert_message (&error, RLX_GRAPH_ERROR_BUSY, "constant");
  g_assert_null (rlx_graph_scalar (graph, RLX_DATA_TYPE_F32, 1, &error));
  assert_message (&error, RLX_GRAPH_ERROR_BUSY, "scalar");
  g_assert_null (rlx_graph_state (graph, "new", tensor, &error));
  assert_message (&error, RLX_GRAPH_ERROR_BUSY, "state");
  g_assert_false (rlx_graph_assign (graph, state, x, &error));
  assert_message (&error, RLX_GRAPH_ERROR_BUSY, "assign");
  g_assert_null (rlx_node_relu (x, &error));
  assert_message (&error, RLX_GRAPH_ERROR_BUSY, "relu");
  g_assert_null (rlx_graph_add_op (graph, "relu", &x, 1, NULL, NULL, &error));
  assert_message (&error, RLX_GRAPH_ERROR_BUSY, "relu");
  rlx_node_set_name (y, "label");
  g_assert_null (rlx_node_get_name (y));

  /* All of that was reported: the graph is as good as before. */
  g_assert_cmpuint (g_list_model_get_n_items (G_LIST_MODEL (graph)), ==, n);
  assert_sound (graph);
  g_assert_true (rlx_graph_freeze (graph, &error) == ir);

  /* An output that comes too late is not. */
  rlx_graph_output (graph, "late", x);
  assert_sticky (graph, RLX_GRAPH_ERROR_BUSY, "“late”|compiled");

  {
    g_autoptr (RlxGraph) other = rlx_graph_new ();
    RlxNode *z = rlx_graph_input (other, "z", RLX_DATA_TYPE_F32, SHAPE (2), NULL);

    g_assert_nonnull (rlx_graph_freeze (other, NULL));
    g_assert_null (rlx_node_relu (z, NULL));
    assert_sticky (other, RLX_GRAPH_ERROR_BUSY, "relu");
  }
}

/* ---- the rules, as the operators' documentation has them ----------------------------------------- */

static void
test_rules (void)
{
  /* Two matrices, vectors, stacks. */
  assert_infers ("matmul", "f32[2,3] f32[3,4]", NULL, ": f32[2, 4]");
  assert_infers ("matmul", "f32[3] f32[3]", NULL, ": f32[]");
  assert_infers ("matmul", "f32[5,1,2,3] f32[7,3,4]", NULL, ": f32[5, 7, 2, 4]");
  assert_infers ("matmul", "f32[0,3] f32[3,4]", NULL, ": f32[0, 4]");
  assert_refuses ("matmul", "f32[2,3] f32[4,2]", NULL, RLX_GRAPH_ERROR_SHAPE, "matmul|f32[2, 3]|f32[4, 2]");
  assert_refuses ("matmul", "f32[2] f32[3]", NULL, RLX_GRAPH_ERROR_SHAPE, "f32[2]|f32[3]");
  assert_refuses ("matmul", "f32[2,2,3] f32[3,3,2]", NULL, RLX_GRAPH_ERROR_SHAPE, "f32[2, 2, 3]|f32[3, 3, 2]");
  assert_refuses ("matmul", "f32[] f32[2]", NULL, RLX_GRAPH_ERROR_SHAPE, "matmul");
  assert_refuses ("matmul", "i32[2,2] i32[2,2]", NULL, RLX_GRAPH_ERROR_DATA_TYPE, "operand 1 (self)|i32|f32, f16");
  assert_refuses ("matmul", "f32[4294967295,1] f32[1,2]", NULL, RLX_GRAPH_ERROR_LIMIT, "matmul|[4294967295, 2]|4294967295");

  assert_infers ("add", "f32[2,1] f32[3]", NULL, ": f32[2, 3]");
  assert_infers ("add", "i64[2] i64[]", NULL, ": i64[2]");
  assert_infers ("add", "f32[0] f32[1]", NULL, ": f32[0]");
  assert_infers ("less", "u8[2] u8[2]", NULL, ": bool[2]");
  assert_refuses ("add", "f32[2,3] f32[4]", NULL, RLX_GRAPH_ERROR_SHAPE, "f32[2, 3]|f32[4]");
  assert_refuses ("add", "f32[2] f16[2]", NULL, RLX_GRAPH_ERROR_DATA_TYPE, "operand 2 (other)|f16|operand 1 (self)|f32");
  assert_refuses ("add", "i64[2] i32[2]", NULL, RLX_GRAPH_ERROR_DATA_TYPE, "i32|i64");
  assert_refuses ("add", "bool[2] bool[2]", NULL, RLX_GRAPH_ERROR_DATA_TYPE, "bool|f32, f16, i32, u32, i8, u8, i64, u64");
  assert_refuses ("add", "f32[65536,1] f32[65536]", NULL, RLX_GRAPH_ERROR_LIMIT, "add|[65536, 65536]");
  assert_infers ("where", "bool[2] i8[2] i8[]", NULL, ": i8[2]");
  assert_refuses ("where", "bool[2] i8[2] u8[2]", NULL, RLX_GRAPH_ERROR_DATA_TYPE, "operand 3 (if_false)|u8|operand 2 (if_true)|i8");
  assert_refuses ("where", "f32[2] i8[2] i8[2]", NULL, RLX_GRAPH_ERROR_DATA_TYPE, "operand 1|f32|bool");

  /* Axes. */
  assert_infers ("reduce_sum", "f32[2,3,4]", "{'axes': <[0, -1]>}", ": f32[3]");
  assert_infers ("reduce_sum", "f32[2,3,4]", "{'axes': <[1]>, 'keep_dims': <true>}", ": f32[2, 1, 4]");
  assert_infers ("reduce_sum", "f32[]", "{'axes': <@ai []>}", ": f32[]");
  assert_refuses ("reduce_sum", "f32[2,3]", "{'axes': <[2]>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "axis 2|-2|1");
  assert_refuses ("reduce_sum", "f32[2,3]", "{'axes': <[-3]>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "axis -3");
  assert_refuses ("reduce_sum", "f32[2,3]", "{'axes': <[1, -1]>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "axis -1|twice");
  assert_refuses ("reduce_sum", "f32[]", "{'axes': <[0]>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "axis 0");
  assert_refuses ("reduce_sum", "f32[2]", "{'axes': <[int64 -9223372036854775808]>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "-9223372036854775808");
  assert_refuses ("softmax", "f32[2,3]", "{'axis': <2>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "axis 2");
  assert_refuses ("softmax", "f32[2,3]", "{'axis': <-3>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "axis -3");

  assert_infers ("transpose", "f32[2,3,4]", "{'permutation': <[2, 0, 1]>}", ": f32[4, 2, 3]");
  assert_infers ("transpose", "f32[2,3,4]", "{'permutation': <@av []>}", ": f32[4, 3, 2]");
  assert_refuses ("transpose", "f32[2,3]", "{'permutation': <[0, 0]>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "transpose");
  assert_refuses ("transpose", "f32[2,3]", "{'permutation': <[0]>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "transpose");
  assert_refuses ("transpose", "f32[2,3]", "{'permutation': <[0, 2]>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "axis 2");

  assert_infers ("reshape", "f32[2,3]", "{'shape': <[3, -1]>}", ": f32[3, 2]");
  assert_infers ("reshape", "f32[0,3]", "{'shape': <[7, 0]>}", ": f32[7, 0]");
  assert_infers ("reshape", "f32[1]", "{'shape': <@ax []>}", ": f32[]");
  assert_refuses ("reshape", "f32[2,3]", "{'shape': <[4, 2]>}", RLX_GRAPH_ERROR_SHAPE, "reshape|f32[2, 3]|[4, 2]");
  assert_refuses ("reshape", "f32[2,3]", "{'shape': <[-1, -1]>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "reshape");
  assert_refuses ("reshape", "f32[2,3]", "{'shape': <[-2, 3]>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "-2");
  assert_refuses ("reshape", "f32[2]", "{'shape': <[2, 1, 1, 1, 1, 1, 1, 1, 1]>}", RLX_GRAPH_ERROR_LIMIT, "9|8");
  assert_refuses ("reshape", "f32[2]", "{'shape': <[int64 9223372036854775807, 4]>}", RLX_GRAPH_ERROR_SHAPE, "reshape");

  assert_infers ("slice", "f32[10,4]", "{'starts': <[1]>, 'ends': <[9]>, 'steps': <[3]>}", ": f32[3, 4]");
  assert_infers ("slice", "f32[10]", "{'starts': <[5]>, 'ends': <[int64 9223372036854775807]>}", ": f32[5]");
  assert_infers ("slice", "f32[10]", "{'starts': <[int64 9223372036854775807]>, 'ends': <[int64 9223372036854775807]>}", ": f32[0]");
  assert_infers ("slice", "f32[10]", "{'starts': <[-1]>, 'ends': <[int64 -9223372036854775808]>, 'steps': <[int64 -9223372036854775808]>}", ": f32[1]");
  assert_refuses ("slice", "f32[10]", "{'starts': <[0]>, 'ends': <[5]>, 'steps': <[0]>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "step|0");
  assert_refuses ("slice", "f32[10]", "{'starts': <[0, 0]>, 'ends': <[5, 5]>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "slice");
  assert_refuses ("slice", "f32[10]", "{'starts': <[0]>, 'ends': <[5, 5]>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "slice");
  assert_refuses ("slice", "f32[10,2]", "{'starts': <[0, 0]>, 'ends': <[5, 5]>, 'axes': <[0, -2]>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "twice");

  assert_infers ("concat", "f32[2,3] f32[0,3] f32[1,3]", "{'axis': <0>}", ": f32[3, 3]");
  assert_infers ("concat", "bool[2]", "{'axis': <-1>}", ": bool[2]");
  assert_refuses ("concat", "", "{'axis': <0>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "0 operands|at least 1");
  assert_refuses ("concat", "f32[2] f32[2,2]", "{'axis': <0>}", RLX_GRAPH_ERROR_SHAPE, "f32[2]|f32[2, 2]");
  assert_refuses ("concat", "f32[2] i32[2]", "{'axis': <0>}", RLX_GRAPH_ERROR_DATA_TYPE, "f32|i32");
  assert_refuses ("concat", "f32[4294967295] f32[1]", "{'axis': <0>}", RLX_GRAPH_ERROR_LIMIT, "4294967296");

  assert_infers ("expand", "f32[3,1]", "{'shape': <[2, 3, 4]>}", ": f32[2, 3, 4]");
  assert_refuses ("expand", "f32[3]", "{'shape': <[2]>}", RLX_GRAPH_ERROR_SHAPE, "expand");
  assert_refuses ("expand", "f32[1]", "{'shape': <[int64 1099511627776]>}", RLX_GRAPH_ERROR_LIMIT, "1099511627776|4294967295");
  assert_refuses ("expand", "f32[1]", "{'shape': <[-1]>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "-1");

  assert_infers ("gather", "f32[5,6] u8[2,3]", "{'axis': <1>}", ": f32[5, 2, 3]");
  assert_refuses ("gather", "f32[5] f32[2]", "{'axis': <0>}", RLX_GRAPH_ERROR_DATA_TYPE, "operand 2 (indices)|f32|i32");
  assert_refuses ("gather", "f32[1,1,1,1,1] i32[1,1,1,1,1]", "{'axis': <0>}", RLX_GRAPH_ERROR_LIMIT, "9|8");

  /* Attributes. */
  assert_infers ("cast", "f32[2]", "{'to': <'bool'>}", ": bool[2]");
  assert_infers ("clamp", "f32[2]", "{'minimum': <1>, 'maximum': <2.5>}", ": f32[2]");
  assert_refuses ("clamp", "f32[2]", "{'minimum': <2>, 'maximum': <1>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "minimum|maximum");
  assert_refuses ("leaky_relu", "f32[2]", "{'alpha': <nan>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "leaky_relu|“alpha”|not a number");
  assert_refuses ("clamp", "f32[2]", "{'maximum': <-nan>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“maximum”|not a number");
  assert_refuses ("layer_norm", "f32[2,3]", "{'epsilon': <nan>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“epsilon”");
  assert_refuses ("layer_norm", "f32[2,3]", "{'epsilon': <-1.0>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "epsilon|-1");
  assert_infers ("layer_norm", "f32[2,3] f32[3] f32[3]", NULL, ": f32[2, 3]");
  assert_infers ("layer_norm", "f32[2,3] - f32[3]", NULL, ": f32[2, 3]");
  assert_refuses ("layer_norm", "f32[2,3] f32[2]", NULL, RLX_GRAPH_ERROR_SHAPE, "layer_norm");
  assert_refuses ("layer_norm", "f32[2,3] f16[3]", NULL, RLX_GRAPH_ERROR_DATA_TYPE, "operand 2 (scale)");
  assert_refuses ("attention", "f32[1,3,4,8] f32[1,2,4,8] f32[1,2,4,8]", NULL, RLX_GRAPH_ERROR_SHAPE, "attention");
  assert_refuses ("attention", "f32[1,2,4,8] f32[1,2,5,8] f32[1,2,4,8]", NULL, RLX_GRAPH_ERROR_SHAPE, "attention");
  assert_infers ("attention", "f32[1,4,3,8] f32[1,2,5,8] f32[1,2,5,6]", "{'causal': <true>}", ": f32[1, 4, 3, 6]");
}

static void
test_constant_indices (void)
{
  g_autoptr (GError) error = NULL;
  static const gint64 wrong[] = { 5, -6, G_MAXINT32, G_MININT32 };

  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_autoptr (RlxGraph) graph = rlx_graph_new ();
      g_autoptr (RlxTensor) tensor = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I64, SHAPE (2), (gint64[]) { 0, wrong[i] }, 2, NULL);
      RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, SHAPE (5), NULL);
      RlxNode *indices = rlx_graph_constant (graph, tensor, NULL);
      g_autofree char *number = g_strdup_printf ("gather|%" G_GINT64_FORMAT, wrong[i]);

      g_assert_null (rlx_node_gather (x, indices, 0, &error));
      assert_message (&error, RLX_GRAPH_ERROR_SHAPE, number);
    }
}

static void
test_every_operator (void)
{
  /* No operator of the table, called with anything at all, gets by without
   * either a node or an error. */
  static const char *const types[] = {
    "f32[]", "f32[0]", "f32[2,2]", "i32[2]", "bool[2,2]", "u64[1,1,1,1,1,1,1,1]", "f16[4294967295]",
  };

  for (guint i = 0; i < rlx_n_ops; i++)
    {
      const RlxOp *op = rlx_op_table[i];

      g_assert_true (rlx_op_lookup (op->name) == ((op->flags & RLX_OP_INTERNAL) == 0 ? op : NULL));

      for (guint n = 0; n < 5; n++)
        for (guint t = 0; t < G_N_ELEMENTS (types); t++)
          for (guint variant = 0; variant < 3; variant++)
            {
              g_autoptr (GError) error = NULL;
              g_autoptr (GPtrArray) inputs = g_ptr_array_new ();
              g_autoptr (GString) list = g_string_new (NULL);
              g_autoptr (RlxGraph) graph = NULL;
              g_autofree RlxNode **nodes = NULL;
              RlxAttrValue *attrs = rlx_attrs_new (op);
              gsize n_nodes;

              for (guint j = 0; j < n; j++)
                g_string_append_printf (list, "%s%s", j > 0 ? " " : "", types[(t + j * variant) % G_N_ELEMENTS (types)]);
              graph = graph_with_inputs (list->str, inputs);

              for (guint j = 0; j < op->n_attrs; j++)
                {
                  const gint64 values[] = { variant == 0 ? 0 : G_MININT64, variant == 1 ? 1 : G_MAXINT64, -1 };

                  if (op->attrs[j].kind == RLX_ATTR_INTS)
                    rlx_attr_set_ints (&attrs[j], values, (t + j) % 4);
                  else if (op->attrs[j].kind == RLX_ATTR_FLOAT)
                    rlx_attr_set_float (&attrs[j], variant == 0 ? 1e300 : variant == 1 ? -INFINITY : 0.0);
                  else
                    rlx_attr_set_int (&attrs[j], variant == 0 ? 0 : values[t % 2]);
                }

              if (op->flags & (RLX_OP_LEAF | RLX_OP_INTERNAL))
                {
                  rlx_attrs_free (op, attrs);
                  continue;
                }

              nodes = rlx_graph_call_many (graph, op, (RlxNode **) inputs->pdata, inputs->len, attrs, &n_nodes, &error);
              if (nodes == NULL)
                {
                  g_assert_nonnull (error);
                  g_assert_true (error->domain == RLX_GRAPH_ERROR);
                  if (!g_str_has_prefix (error->message, op->name))
                    g_error ("“%s” does not start with %s", error->message, op->name);
                }
              else
                {
                  g_assert_no_error (error);
                  g_assert_cmpuint (n_nodes, >, 0);
                }
            }
    }
}

/* ---- by name ------------------------------------------------------------------------------------- */

static void
test_add_op_errors (void)
{
  assert_refuses ("matmull", "f32[2]", NULL, RLX_GRAPH_ERROR_NOT_FOUND, "“matmull”|did you mean “matmul”?");
  assert_refuses ("RELU", "f32[2]", NULL, RLX_GRAPH_ERROR_NOT_FOUND, "“RELU”|“relu”");
  assert_refuses ("convolve_everything", "f32[2]", NULL, RLX_GRAPH_ERROR_NOT_FOUND, "There is no operator “convolve_everything”");
  assert_refuses ("", "f32[2]", NULL, RLX_GRAPH_ERROR_NOT_FOUND, "“”");
  assert_refuses ("\377\n", "f32[2]", NULL, RLX_GRAPH_ERROR_NOT_FOUND, "“\\xff\\x0a”");
  assert_refuses ("input", "f32[2]", NULL, RLX_GRAPH_ERROR_UNSUPPORTED, "“input”|rlx_graph_input()");
  assert_refuses ("constant", "", NULL, RLX_GRAPH_ERROR_UNSUPPORTED, "rlx_graph_constant()");
  assert_refuses ("many", "f32[2]", NULL, RLX_GRAPH_ERROR_NOT_FOUND, "“many”");

  assert_refuses ("reduce_sum", "f32[2]", "{'axis': <[0]>}", RLX_GRAPH_ERROR_NOT_FOUND, "reduce_sum|“axis”|axes, keep_dims");
  assert_refuses ("relu", "f32[2]", "{'alpha': <1>}", RLX_GRAPH_ERROR_NOT_FOUND, "relu|“alpha”|none");
  assert_refuses ("reduce_sum", "f32[2]", NULL, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“axes”|missing|array of integers (ax)");
  assert_refuses ("reduce_sum", "f32[2]", "{'axes': <0>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“axes”|“i”|array of integers (ax)");
  assert_refuses ("reduce_sum", "f32[2]", "{'axes': <['0']>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“axes”|“as”");
  assert_refuses ("reduce_sum", "f32[2]", "{'axes': <[0.0]>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“ad”");
  assert_refuses ("reduce_sum", "f32[2]", "{'axes': <[<0>, <true>]>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“av”");
  assert_refuses ("reduce_sum", "f32[2]", "{'axes': <[uint64 18446744073709551615]>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "index 0|18446744073709551615");
  assert_refuses ("reduce_sum", "f32[2]", "{'axes': <[0]>, 'keep_dims': <1>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“keep_dims”|boolean (b)");
  assert_refuses ("concat", "f32[2]", "{'axis': <0.0>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“axis”|“d”|integer (x)");
  assert_refuses ("concat", "f32[2]", "{'axis': <uint64 18446744073709551615>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“axis”|18446744073709551615");
  assert_refuses ("clamp", "f32[2]", "{'minimum': <'1'>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“minimum”|number (d)");
  assert_refuses ("cast", "f32[2]", "{'to': <'f64'>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“to”|“f64”");
  assert_refuses ("cast", "f32[2]", "{'to': <1>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“to”|name of a data type (s)");
  assert_refuses ("cast", "f32[2]", "'f16'", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“s”|a{sv}");
  assert_refuses ("cast", "f32[2]", "{'to': 'f16'}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“a{ss}”|a{sv}");
  assert_refuses ("concat", "f32[2]", "{'axis': <0>, 'axis': <0>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“axis”|twice");
}

/* Nobody needs to know how many results there are. */
static void
test_add_op_no_count (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, SHAPE (2, 3), NULL);
  g_autofree RlxNode **nodes = rlx_graph_add_op (graph, "relu", &x, 1, NULL, NULL, &error);
  g_autofree RlxNode **parts = rlx_node_top_k (x, 2, NULL, &error);

  g_assert_no_error (error);
  g_assert_cmpstr (rlx_node_get_op (nodes[0]), ==, "relu");
  g_assert_null (nodes[1]);
  g_assert_cmpint (rlx_node_get_shape (parts[1], NULL)[1], ==, 2);
  g_assert_null (parts[2]);
}

/* A description is the caller's, and says what the table says. */
static void
test_describe (void)
{
  g_autoptr (GError) error = NULL;
  g_auto (GStrv) names = rlx_operators_list ();

  g_assert_cmpuint (g_strv_length (names), >, 100);
  for (char **name = names; *name != NULL; name++)
    {
      g_autoptr (GVariant) about = rlx_operators_describe (*name, &error);
      const char *again;

      g_assert_no_error (error);
      g_assert_false (g_variant_is_floating (about));
      g_assert_true (g_variant_is_of_type (about, G_VARIANT_TYPE_VARDICT));
      g_assert_true (g_variant_lookup (about, "name", "&s", &again));
      g_assert_cmpstr (again, ==, *name);
    }

  g_assert_null (rlx_operators_describe ("nothing", &error));
  assert_message (&error, RLX_GRAPH_ERROR_NOT_FOUND, "“nothing”");
}

static void
test_add_op_variants (void)
{
  static const char *const ints[] = {
    "{'axis': <byte 1>}", "{'axis': <int16 1>}", "{'axis': <uint16 1>}", "{'axis': <1>}",
    "{'axis': <uint32 1>}", "{'axis': <int64 1>}", "{'axis': <uint64 1>}",
  };
  static const char *const lists[] = {
    "{'axes': <@ay [0]>}", "{'axes': <@an [0]>}", "{'axes': <@aq [0]>}", "{'axes': <@ai [0]>}", "{'axes': <@au [0]>}",
    "{'axes': <@ax [0]>}", "{'axes': <@at [0]>}", "{'axes': <[<0>]>}", "{'axes': <[<byte 0>]>}", "{'axes': <[<<int64 -2>>]>}",
  };
  static const char *const empty[] = {
    "{'axes': <@ai []>}", "{'axes': <@av []>}", "{'axes': <@as []>}", "{'axes': <@ab []>}", "{'axes': <@a{sv} {}>}",
  };
  static const char *const floats[] = {
    "{'alpha': <0.5>}", "{'alpha': <1>}", "{'alpha': <byte 1>}", "{'alpha': <uint64 18446744073709551615>}", "{'alpha': <int64 -5>}",
  };

  for (guint i = 0; i < G_N_ELEMENTS (ints); i++)
    assert_infers ("concat", "f32[2,3] f32[2,3]", ints[i], ": f32[2, 6]");
  for (guint i = 0; i < G_N_ELEMENTS (lists); i++)
    assert_infers ("reduce_sum", "f32[2,3]", lists[i], ": f32[3]");
  for (guint i = 0; i < G_N_ELEMENTS (empty); i++)
    assert_infers ("reduce_sum", "f32[2,3]", empty[i], ": f32[2, 3]");
  for (guint i = 0; i < G_N_ELEMENTS (floats); i++)
    assert_infers ("leaky_relu", "f32[2,3]", floats[i], ": f32[2, 3]");
  assert_infers ("relu", "f32[2]", "@a{sv} {}", ": f32[2]");

  /* A floating variant is taken over, one that is not is left alone. */
  {
    g_autoptr (GError) error = NULL;
    g_autoptr (RlxGraph) graph = rlx_graph_new ();
    RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, SHAPE (2, 3), NULL);
    GVariant *attributes = g_variant_ref (g_variant_new_parsed ("{'axes': <[0]>, 'keep_dims': <true>}"));
    g_autoptr (GVariant) back = NULL;
    g_autofree RlxNode **nodes = NULL;
    g_autofree RlxNode **more = NULL;
    g_autofree char *printed = NULL;
    gsize n;

    g_assert_true (g_variant_is_floating (attributes));
    nodes = rlx_graph_add_op (graph, "reduce_sum", &x, 1, attributes, &n, &error);
    g_assert_no_error (error);
    g_assert_false (g_variant_is_floating (attributes));
    /* If the method had kept a reference this would be too few. */
    g_variant_unref (attributes);

    back = rlx_node_get_attributes (nodes[0]);
    printed = g_variant_print (back, TRUE);
    g_assert_cmpstr (printed, ==, "{'axes': <[int64 0]>, 'keep_dims': <true>}");
    more = rlx_graph_add_op (graph, "reduce_sum", &x, 1, back, NULL, &error);
    g_assert_no_error (error);
    assert_type (more[0], ": f32[1, 3]");
  }
}

static void
test_attributes (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GVariant) in = g_variant_ref_sink (g_variant_new_parsed (
    "{'flag': <false>, 'count': <int64 -9223372036854775808>, 'factor': <-0.0>, 'choice': <'discrete'>,"
    " 'type': <'u64'>, 'list': <[1, 2, 3]>, 'open': <@ax []>}"));
  g_autoptr (GVariant) out = NULL;
  g_autoptr (GVariant) defaults = NULL;
  g_autofree char *printed = NULL;
  g_autofree char *printed_defaults = NULL;
  RlxAttrValue *attrs = rlx_attrs_new_from_variant (&many_op, in, &error);
  RlxAttrValue *copy = rlx_attrs_copy (&many_op, attrs);
  RlxAttrValue *plain = rlx_attrs_new (&many_op);

  g_assert_no_error (error);
  out = rlx_attrs_to_variant (&many_op, attrs);
  printed = g_variant_print (out, TRUE);
  g_assert_cmpstr (printed, ==,
                   "{'flag': <false>, 'count': <int64 -9223372036854775808>, 'factor': <-0.0>, 'choice': <'discrete'>,"
                   " 'type': <'u64'>, 'list': <[int64 1, 2, 3]>, 'open': <@ax []>}");
  defaults = rlx_attrs_to_variant (&many_op, plain);
  printed_defaults = g_variant_print (defaults, TRUE);
  g_assert_cmpstr (printed_defaults, ==,
                   "{'flag': <true>, 'count': <int64 3>, 'factor': <0.5>, 'choice': <'cpu'>, 'type': <'f16'>, 'list': <[int64 3, 4]>}");

  g_assert_true (rlx_attrs_equal (&many_op, attrs, copy));
  g_assert_cmpuint (rlx_attrs_hash (&many_op, attrs), ==, rlx_attrs_hash (&many_op, copy));
  g_assert_false (rlx_attrs_equal (&many_op, attrs, plain));
  g_assert_cmpuint (rlx_attrs_hash (&many_op, attrs), !=, rlx_attrs_hash (&many_op, plain));

  /* Each one counts. */
  for (guint i = 0; i < many_op.n_attrs; i++)
    {
      RlxAttrValue *changed = rlx_attrs_copy (&many_op, plain);

      g_assert_true (rlx_attr_is_default (&many_attrs[i], &plain[i]));
      if (many_attrs[i].kind == RLX_ATTR_INTS)
        rlx_attr_set_ints (&changed[i], (gint64[]) { 3, 5 }, 2);
      else if (many_attrs[i].kind == RLX_ATTR_FLOAT)
        rlx_attr_set_float (&changed[i], 0.25);
      else
        rlx_attr_set_int (&changed[i], 0);
      g_assert_false (rlx_attrs_equal (&many_op, plain, changed));
      g_assert_cmpuint (rlx_attrs_hash (&many_op, plain), !=, rlx_attrs_hash (&many_op, changed));
      g_assert_false (rlx_attr_is_default (&many_attrs[i], &changed[i]));
      rlx_attrs_free (&many_op, changed);
    }

  /* A list may be set from itself, and is gone when it is too long. */
  rlx_attr_set_ints (&copy[5], copy[5].ints + 1, 2);
  g_assert_cmpuint (copy[5].n_ints, ==, 2);
  g_assert_cmpint (copy[5].ints[1], ==, 3);

  rlx_attrs_free (&many_op, attrs);
  rlx_attrs_free (&many_op, copy);
  rlx_attrs_free (&many_op, plain);
  rlx_attrs_free (&many_op, NULL);

  g_clear_pointer (&in, g_variant_unref);
  in = g_variant_ref_sink (g_variant_new_parsed ("{'choice': <'fpga'>}"));
  g_assert_null (rlx_attrs_new_from_variant (&many_op, in, &error));
  assert_message (&error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "many|“choice”|“fpga”|unknown, discrete, integrated, cpu");
}

static void
test_attributes_in_calls (void)
{
  static const struct
  {
    guint index;
    gint64 i;
    double f;
    int code;
    const char *parts;
  } bad[] = {
    { 2, 0, NAN, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "many|“factor”|not a number" },
    { 3, 4, 0, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“choice”|4" },
    { 3, G_MAXINT64, 0, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“choice”|9223372036854775807" },
    { 4, -1, 0, RLX_GRAPH_ERROR_DATA_TYPE, "“type”|-1" },
    { 4, G_GINT64_CONSTANT (0x100000000), 0, RLX_GRAPH_ERROR_DATA_TYPE, "“type”|4294967296" },
    { 1, 9, 0, RLX_GRAPH_ERROR_UNSUPPORTED, "many: no 9 (%0 “x” f32[2], _)" },
  };
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, SHAPE (2), NULL);
  g_autofree gint64 *values = g_new0 (gint64, RLX_MAX_ATTR_INTS + 1);
  RlxAttrValue *attrs;
  RlxNode *node;

  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      attrs = rlx_attrs_new (&many_op);
      attrs[bad[i].index].i = bad[i].i;
      attrs[bad[i].index].f = bad[i].f;
      g_assert_null (rlx_graph_call (NULL, &many_op, &x, 1, attrs, &error));
      assert_message (&error, bad[i].code, bad[i].parts);
    }

  attrs = rlx_attrs_new (&many_op);
  rlx_attr_set_ints (&attrs[5], values, RLX_MAX_ATTR_INTS + 1);
  g_assert_cmpuint (attrs[5].n_ints, ==, 0);
  g_assert_null (attrs[5].ints);
  g_assert_null (rlx_graph_call (NULL, &many_op, &x, 1, attrs, &error));
  assert_message (&error, RLX_GRAPH_ERROR_LIMIT, "“list”|65536");

  attrs = rlx_attrs_new (&many_op);
  rlx_attr_set_ints (&attrs[5], values, G_MAXSIZE);
  g_assert_null (rlx_graph_call (NULL, &many_op, &x, 1, attrs, &error));
  assert_message (&error, RLX_GRAPH_ERROR_LIMIT, "“list”|65536");

  attrs = rlx_attrs_new (&many_op);
  rlx_attr_set_ints (&attrs[5], NULL, 1);
  g_assert_null (rlx_graph_call (NULL, &many_op, &x, 1, attrs, &error));
  assert_message (&error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“list”");

  attrs = rlx_attrs_new (&many_op);
  rlx_attr_set_ints (&attrs[5], values, RLX_MAX_ATTR_INTS);
  rlx_attr_set_int (&attrs[0], 77);
  node = rlx_graph_call (NULL, &many_op, &x, 1, attrs, &error);
  g_assert_no_error (error);
  /* In C anything but 0 is true; from here on it is 1. */
  g_assert_cmpint (rlx_node_attr (rlx_node_get_value (node)->node, "flag")->i, ==, 1);

  /* Attributes that are not given are the defaults. */
  node = rlx_graph_call (graph, &many_op, &x, 1, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpint (rlx_node_attr (rlx_node_get_value (node)->node, "count")->i, ==, 3);
}

static void
count_notify (GObject    *object G_GNUC_UNUSED,
              GParamSpec *pspec G_GNUC_UNUSED,
              gpointer    user_data)
{
  ++*(guint *) user_data;
}

static void
test_options (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  g_autoptr (RlxLayerNormOptions) options = rlx_layer_norm_options_new ();
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, SHAPE (2, 3), NULL);
  RlxNode *y;
  const gint64 *axes;
  double epsilon = 0;
  guint n_notified = 0;
  gsize n;

  g_assert_cmpfloat (rlx_layer_norm_options_get_epsilon (options), ==, 1e-5);
  axes = rlx_layer_norm_options_get_axes (options, &n);
  g_assert_cmpuint (n, ==, 1);
  g_assert_cmpint (axes[0], ==, -1);

  g_signal_connect (options, "notify::epsilon", G_CALLBACK (count_notify), &n_notified);
  rlx_layer_norm_options_set_epsilon (options, 1e-5);
  g_assert_cmpuint (n_notified, ==, 0);
  rlx_layer_norm_options_set_epsilon (options, 0.25);
  g_assert_cmpuint (n_notified, ==, 1);
  g_object_get (options, "epsilon", &epsilon, NULL);
  g_assert_cmpfloat (epsilon, ==, 0.25);

  /* The node has a copy. */
  y = rlx_node_layer_norm_full (x, NULL, NULL, options, &error);
  g_assert_no_error (error);
  rlx_layer_norm_options_set_epsilon (options, 0.5);
  g_assert_cmpfloat (rlx_node_attr (rlx_node_get_value (y)->node, "epsilon")->f, ==, 0.25);

  rlx_layer_norm_options_set_axes (options, SHAPE (0, 5));
  g_assert_null (rlx_node_layer_norm_full (x, NULL, NULL, options, &error));
  assert_message (&error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "axis 5");

  g_assert_nonnull (rlx_node_layer_norm_full (x, NULL, NULL, NULL, &error));
  g_assert_no_error (error);
}

/* ---- nodes -------------------------------------------------------------------------------------------- */

static void
test_labels (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, SHAPE (2, 2), NULL);
  RlxNode *constant = rlx_graph_scalar (graph, RLX_DATA_TYPE_F32, 1, NULL);
  RlxNode *y = rlx_node_relu (x, NULL);
  g_autofree char *long_text = g_strnfill (2000, 'a');
  g_autofree char *wide = NULL;
  g_autofree char *text = NULL;
  g_autoptr (GString) wide_text = g_string_new ("a");
  guint n_notified = 0;

  rlx_node_set_name (x, "another");
  g_assert_cmpstr (rlx_node_get_name (x), ==, "x");
  rlx_node_set_name (constant, "one");
  g_assert_cmpstr (rlx_node_get_name (constant), ==, "one");

  g_signal_connect (y, "notify::name", G_CALLBACK (count_notify), &n_notified);
  rlx_node_set_name (y, "x");
  g_assert_cmpstr (rlx_node_get_name (y), ==, "x");
  rlx_node_set_name (y, "x");
  g_assert_cmpuint (n_notified, ==, 1);
  g_assert_true (rlx_graph_lookup (graph, "x") == x);
  text = rlx_node_to_string (y);
  g_assert_cmpstr (text, ==, "%2 = relu(%0) \"x\": f32[2, 2]");

  /* In messages. */
  g_assert_null (rlx_node_matmul (y, constant, &error));
  assert_message (&error, RLX_GRAPH_ERROR_SHAPE, "%2 “x” f32[2, 2]|%1 “one” f32[]");

  rlx_node_set_name (y, long_text);
  g_assert_cmpuint (strlen (rlx_node_get_name (y)), ==, 255);

  /* Cut where a character starts. */
  for (guint i = 0; i < 100; i++)
    g_string_append (wide_text, "é😀");
  rlx_node_set_name (y, wide_text->str);
  g_assert_true (g_utf8_validate (rlx_node_get_name (y), -1, NULL));
  g_assert_true (g_str_has_prefix (wide_text->str, rlx_node_get_name (y)));
  g_assert_cmpuint (strlen (rlx_node_get_name (y)), <=, 255);
  g_assert_cmpuint (strlen (rlx_node_get_name (y)), >=, 252);

  rlx_node_set_name (y, "a\377b");
  g_assert_cmpstr (rlx_node_get_name (y), ==, "a\357\277\275b");
  rlx_node_set_name (y, "");
  g_assert_null (rlx_node_get_name (y));
  rlx_node_set_name (y, "b");
  rlx_node_set_name (y, NULL);
  g_assert_null (rlx_node_get_name (y));
}

typedef struct
{
  guint n_calls;
  guint position;
  guint removed;
  guint added;
  guint n_items;
} Changes;

static void
note_changes (GListModel *list,
              guint       position,
              guint       removed,
              guint       added,
              gpointer    user_data)
{
  Changes *changes = user_data;

  changes->n_calls++;
  changes->position = position;
  changes->removed = removed;
  changes->added = added;
  changes->n_items = g_list_model_get_n_items (list);
}

static void
test_list_model (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  GListModel *list = G_LIST_MODEL (graph);
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, SHAPE (2), NULL);
  g_autofree RlxNode **nodes = NULL;
  g_autofree char *text = NULL;
  Changes changes = { 0 };
  gulong handler;
  gsize n;

  handler = g_signal_connect (graph, "items-changed", G_CALLBACK (note_changes), &changes);

  nodes = rlx_graph_call_many (graph, &many_op, &x, 1, NULL, &n, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (n, ==, 3);
  g_assert_cmpuint (changes.n_calls, ==, 1);
  g_assert_cmpuint (changes.position, ==, 1);
  g_assert_cmpuint (changes.removed, ==, 0);
  g_assert_cmpuint (changes.added, ==, 3);
  g_assert_cmpuint (changes.n_items, ==, 4);

  /* The results are values of one node. */
  rlx_node_set_name (nodes[1], "label");
  g_assert_cmpstr (rlx_node_get_name (nodes[2]), ==, "label");
  text = rlx_node_to_string (nodes[2]);
  g_assert_cmpstr (text, ==, "%3 = many(%0) \"label\"[2]: f32[2]");

  g_assert_null (rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, NULL, 0, NULL));
  g_assert_cmpuint (changes.n_calls, ==, 1);
  g_assert_nonnull (rlx_graph_input (graph, "y", RLX_DATA_TYPE_F32, NULL, 0, NULL));
  g_assert_cmpuint (changes.n_calls, ==, 2);
  g_assert_cmpuint (changes.position, ==, 4);
  g_assert_cmpuint (changes.added, ==, 1);

  g_signal_handler_disconnect (graph, handler);
  g_assert_nonnull (rlx_graph_input (graph, "z", RLX_DATA_TYPE_F32, NULL, 0, NULL));
  g_assert_cmpuint (changes.n_calls, ==, 2);

  g_assert_cmpuint (g_list_model_get_n_items (list), ==, 6);
  for (guint i = 0; i < 6; i++)
    {
      g_autoptr (RlxNode) node = g_list_model_get_item (list, i);

      g_assert_true (RLX_IS_NODE (node));
      g_assert_cmpuint (rlx_node_get_value (node)->id, ==, i);
    }
  g_assert_null (g_list_model_get_item (list, 6));
  g_assert_null (g_list_model_get_item (list, G_MAXUINT));

  /* The nodes of a node with several results, after the graph. */
  {
    g_autoptr (RlxNode) first = g_object_ref (nodes[0]);
    g_autoptr (RlxNode) last = g_object_ref (nodes[2]);

    g_assert_finalize_object (g_steal_pointer (&graph));
    g_assert_cmpstr (rlx_node_get_name (first), ==, "label");
    g_assert_cmpstr (rlx_node_get_name (last), ==, "label");
  }
}

static void
add_another (GListModel *list,
             guint       position G_GNUC_UNUSED,
             guint       removed G_GNUC_UNUSED,
             guint       added G_GNUC_UNUSED,
             gpointer    user_data)
{
  if (g_list_model_get_n_items (list) < 10)
    rlx_node_relu (rlx_graph_lookup (RLX_GRAPH (list), "x"), user_data);
}

static void
test_reentrancy (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, SHAPE (2), NULL);
  RlxNode *y;

  g_signal_connect (graph, "items-changed", G_CALLBACK (add_another), &error);
  y = rlx_node_relu (x, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (rlx_node_get_value (y)->id, ==, 1);
  g_assert_cmpuint (g_list_model_get_n_items (G_LIST_MODEL (graph)), ==, 10);
}

/* ---- size ------------------------------------------------------------------------------------------------ */

#define CHAIN 100000

static gpointer
long_chain (gpointer data G_GNUC_UNUSED)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  g_autoptr (RlxGraph) again = NULL;
  g_autofree char *text = NULL;
  g_autofree char *text_again = NULL;
  g_autofree char *dot = NULL;
  g_autoptr (RlxNode) last = NULL;
  RlxNode *node = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, SHAPE (4), &error);
  RlxNode *x = node;

  for (guint i = 0; i < CHAIN; i++)
    node = i % 2 == 0 ? rlx_node_add (node, x, &error) : rlx_node_relu (node, &error);
  g_assert_no_error (error);
  rlx_graph_output (graph, "y", node);
  g_assert_cmpuint (g_list_model_get_n_items (G_LIST_MODEL (graph)), ==, CHAIN + 1);
  g_assert_nonnull (rlx_graph_freeze (graph, &error));

  text = rlx_graph_to_text (graph);
  dot = rlx_graph_to_dot (graph);
  again = rlx_graph_new_from_text (text, &error);
  g_assert_no_error (error);
  text_again = rlx_graph_to_text (again);
  g_assert_cmpstr (text, ==, text_again);

  last = g_object_ref (node);
  g_clear_object (&graph);
  g_assert_cmpstr (rlx_node_get_op (last), ==, "relu");

  return NULL;
}

/* On a stack on which a recursion over the nodes would not get far. */
static void
test_long_chain (void)
{
  pthread_attr_t attributes;
  pthread_t thread;

  g_assert_cmpint (pthread_attr_init (&attributes), ==, 0);
  g_assert_cmpint (pthread_attr_setstacksize (&attributes, 128 * 1024), ==, 0);
  g_assert_cmpint (pthread_create (&thread, &attributes, long_chain, NULL), ==, 0);
  g_assert_cmpint (pthread_join (thread, NULL), ==, 0);
  pthread_attr_destroy (&attributes);
}

static void
test_many_operands (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, SHAPE (2), NULL);
  g_autofree RlxNode **inputs = g_new (RlxNode *, 65537);
  RlxNode *y;

  for (guint i = 0; i < 65537; i++)
    inputs[i] = x;
  y = rlx_graph_concat (graph, inputs, 65536, 0, &error);
  g_assert_no_error (error);
  assert_type (y, ": f32[131072]");
  g_assert_null (rlx_graph_concat (graph, inputs, 65537, 0, &error));
  assert_message (&error, RLX_GRAPH_ERROR_LIMIT, "concat|65537|65536");
  /* A message about many operands is not as long as they are. */
  inputs[65535] = rlx_graph_input (graph, "y", RLX_DATA_TYPE_I32, SHAPE (2), NULL);
  g_assert_null (rlx_graph_concat (graph, inputs, 65536, 0, &error));
  g_assert_cmpuint (strlen (error->message), <, 1000);
  assert_message (&error, RLX_GRAPH_ERROR_DATA_TYPE, "…");
}

/* ---- what is below ------------------------------------------------------------------------------------------ */

static void
test_types (void)
{
  const RlxTensorType a = { RLX_DATA_TYPE_F32, 3, { 2, 1, 4 } };
  const RlxTensorType b = { RLX_DATA_TYPE_I8, 2, { 3, 1 } };
  const RlxTensorType scalar = { RLX_DATA_TYPE_F16, 0, { 0 } };
  const RlxTensorType empty = { RLX_DATA_TYPE_U64, 2, { 0, 1 } };
  const RlxTensorType odd = { RLX_DATA_TYPE_F32, 1, { 5 } };
  RlxTensorType joined = a;
  g_autofree char *text = NULL;
  g_autofree char *scalar_text = rlx_type_to_string (&scalar);
  g_autoptr (GError) error = NULL;

  g_assert_true (rlx_shape_broadcast (&a, &b, &joined));
  g_assert_cmpint (joined.dtype, ==, RLX_DATA_TYPE_F32);
  text = rlx_type_to_string (&joined);
  g_assert_cmpstr (text, ==, "f32[2, 3, 4]");
  g_assert_cmpstr (scalar_text, ==, "f16[]");

  /* Into one of the operands. */
  joined = b;
  g_assert_true (rlx_shape_broadcast (&joined, &a, &joined));
  g_assert_cmpuint (rlx_type_n_elements (&joined), ==, 24);
  g_assert_cmpuint (rlx_type_n_bytes (&joined), ==, 24);
  g_assert_true (rlx_shape_broadcast (&scalar, &empty, &joined));
  g_assert_true (rlx_type_same_shape (&joined, &empty));
  g_assert_cmpuint (rlx_type_n_elements (&empty), ==, 0);
  g_assert_cmpuint (rlx_type_n_elements (&scalar), ==, 1);
  g_assert_cmpuint (rlx_type_n_bytes (&scalar), ==, 2);
  g_assert_false (rlx_shape_broadcast (&a, &odd, &joined));
  /* 0 and 5 do not go together, 0 and 1 do. */
  g_assert_false (rlx_shape_broadcast (&(RlxTensorType) { RLX_DATA_TYPE_F32, 1, { 0 } }, &odd, &joined));

  g_assert_true (rlx_type_equal (&a, &(RlxTensorType) { RLX_DATA_TYPE_F32, 3, { 2, 1, 4, 9 } }));
  g_assert_false (rlx_type_equal (&a, &(RlxTensorType) { RLX_DATA_TYPE_F16, 3, { 2, 1, 4 } }));
  g_assert_false (rlx_type_equal (&a, &(RlxTensorType) { RLX_DATA_TYPE_F32, 2, { 2, 1 } }));

  g_assert_false (rlx_type_check (&(RlxTensorType) { RLX_DATA_TYPE_F32, 100, { 1 } }, &error));
  assert_message (&error, RLX_GRAPH_ERROR_LIMIT, "100|8");
  g_assert_false (rlx_type_check (&(RlxTensorType) { (RlxDataType) 77, 1, { 1 } }, &error));
  assert_message (&error, RLX_GRAPH_ERROR_DATA_TYPE, "77");
  g_assert_false (rlx_type_check (&(RlxTensorType) { RLX_DATA_TYPE_F32, 1, { -4 } }, &error));
  assert_message (&error, RLX_GRAPH_ERROR_SHAPE, "-4");
}

static void
test_axes (void)
{
  g_autoptr (GError) error = NULL;
  const RlxOpCall call = { .op = &many_op, .name = "la\nbel" };
  RlxAttrValue axes = { 0 };
  guint mask = 77, axis = 77;

  g_assert_true (rlx_call_axes (&call, &axes, 3, TRUE, &mask, &error));
  g_assert_cmpuint (mask, ==, 7);
  g_assert_true (rlx_call_axes (&call, &axes, RLX_MAX_RANK, TRUE, &mask, &error));
  g_assert_cmpuint (mask, ==, 255);
  g_assert_true (rlx_call_axes (&call, &axes, 3, FALSE, &mask, &error));
  g_assert_cmpuint (mask, ==, 0);
  axes.is_set = TRUE;
  g_assert_true (rlx_call_axes (&call, &axes, 3, TRUE, &mask, &error));
  g_assert_cmpuint (mask, ==, 0);
  rlx_attr_set_ints (&axes, SHAPE (-1, 0));
  g_assert_true (rlx_call_axes (&call, &axes, 8, TRUE, &mask, &error));
  g_assert_cmpuint (mask, ==, 129);
  g_assert_true (rlx_call_axis (&call, -3, 3, &axis, &error));
  g_assert_cmpuint (axis, ==, 0);
  g_assert_no_error (error);

  g_assert_false (rlx_call_axis (&call, 3, 3, &axis, &error));
  assert_message (&error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "many “la\\x0abel”: |axis 3|3 dimensions|from -3 to 2");
  g_assert_false (rlx_call_axis (&call, G_MININT64, 8, &axis, &error));
  assert_message (&error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "-9223372036854775808");
  g_assert_false (rlx_call_axis (&call, -1, 0, &axis, &error));
  assert_message (&error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "no dimensions");
  g_free (axes.ints);
}

static void
test_ir_copy (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  g_autoptr (RlxIr) copy = rlx_ir_new ();
  g_autoptr (GPtrArray) values = g_ptr_array_new ();
  g_autofree char *text = NULL;
  g_autofree char *copy_text = NULL;
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, SHAPE (2), &error);
  RlxNode *one = rlx_graph_scalar (graph, RLX_DATA_TYPE_F32, 1, &error);
  RlxNode *y = rlx_node_add (x, one, &error);
  RlxNode *z = rlx_node_reduce_sum (y, SHAPE (0), &error);
  const RlxIr *ir;

  rlx_node_set_name (y, "label");
  rlx_graph_call (graph, &many_op, &z, 1, NULL, &error);
  rlx_graph_output (graph, "z", z);
  ir = rlx_graph_freeze (graph, &error);
  g_assert_no_error (error);

  for (guint i = 0; i < ir->nodes->len; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);
      RlxIrValue *inputs[4] = { NULL };
      RlxIrNode *copied;

      g_assert_cmpuint (node->id, ==, i);
      for (guint j = 0; j < node->n_inputs; j++)
        if (node->inputs[j] != NULL)
          inputs[j] = g_ptr_array_index (values, node->inputs[j]->id);
      copied = rlx_ir_append_copy (copy, node, inputs);
      for (guint j = 0; j < copied->n_outputs; j++)
        {
          g_assert_true (copied->outputs[j].node == copied);
          g_assert_true (rlx_type_equal (&copied->outputs[j].type, &node->outputs[j].type));
          g_ptr_array_add (values, &copied->outputs[j]);
        }
    }
  rlx_ir_add_output (copy, "z", g_ptr_array_index (values, rlx_node_get_value (z)->id));
  g_assert_cmpuint (copy->n_values, ==, ir->n_values);

  text = rlx_graph_to_text (graph);
  /* It does not need the original. */
  g_clear_object (&graph);
  copy_text = rlx_ir_to_text (copy);
  g_assert_cmpstr (text, ==, copy_text);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/graph/empty", test_empty);
  g_test_add_func ("/graph/example", test_example);
  g_test_add_func ("/graph/shapes", test_shapes);
  g_test_add_func ("/graph/data-types", test_data_types);
  g_test_add_func ("/graph/names", test_names);
  g_test_add_func ("/graph/output", test_output);
  g_test_add_func ("/graph/constants", test_constants);
  g_test_add_func ("/graph/scalars", test_scalars);
  g_test_add_func ("/graph/states", test_states);
  g_test_add_func ("/graph/sticky", test_sticky);
  g_test_add_func ("/graph/null-operands", test_null_operands);
  g_test_add_func ("/graph/programmer-errors", test_programmer_errors);
  g_test_add_func ("/graph/foreign", test_foreign);
  g_test_add_func ("/graph/graph-is-gone", test_graph_is_gone);
  g_test_add_func ("/graph/bare-node", test_bare_node);
  g_test_add_func ("/graph/run-dispose", test_run_dispose);
  g_test_add_func ("/graph/frozen", test_frozen);
  g_test_add_func ("/graph/list-model", test_list_model);
  g_test_add_func ("/graph/reentrancy", test_reentrancy);
  g_test_add_func ("/graph/labels", test_labels);
  g_test_add_func ("/graph/long-chain", test_long_chain);
  g_test_add_func ("/graph/many-operands", test_many_operands);
  g_test_add_func ("/ops/rules", test_rules);
  g_test_add_func ("/ops/constant-indices", test_constant_indices);
  g_test_add_func ("/ops/every-operator", test_every_operator);
  g_test_add_func ("/ops/add-op/errors", test_add_op_errors);
  g_test_add_func ("/ops/add-op/no-count", test_add_op_no_count);
  g_test_add_func ("/ops/add-op/variants", test_add_op_variants);
  g_test_add_func ("/ops/describe", test_describe);
  g_test_add_func ("/ops/attributes", test_attributes);
  g_test_add_func ("/ops/attributes-in-calls", test_attributes_in_calls);
  g_test_add_func ("/ops/options", test_options);
  g_test_add_func ("/ir/types", test_types);
  g_test_add_func ("/ir/axes", test_axes);
  g_test_add_func ("/ir/copy", test_ir_copy);

  return g_test_run ();
}
