/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Operators in graphs: their rules, by name and by method, with attributes and
 * options.
 */
#include "config.h"

#include "ops/rlx-builder-private.h"
#include "rlx-test-graph.h"

#include <math.h>

/* ---- helpers ------------------------------------------------------------------ */

/* Inputs "0", "1"… of @types, which are separated by spaces; "-" is an absent one. */
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

/* Adds the operator to a graph that contains only its operands. */
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

  /* Reported errors are not remembered; unreported ones are. */
  assert_sound (graph);
  g_assert_null (rlx_graph_add_op (graph, op, (RlxNode **) inputs->pdata, inputs->len, variant, &n_nodes, NULL));
  assert_sticky (graph, code, parts);
  g_assert_cmpuint (g_list_model_get_n_items (G_LIST_MODEL (graph)), ==, n_before);
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

      g_assert_null (rlx_node_gather (x, indices, 0, NULL, &error));
      assert_message (&error, RLX_GRAPH_ERROR_SHAPE, number);
    }
}

static void
test_every_operator (void)
{
  /* Every call of an operator of the table, with any operands, yields either a node or an error. */
  static const char *const types[] = {
    "f32[]", "f32[0]", "f32[2,2]", "i32[2]", "bool[2,2]", "u64[1,1,1,1,1,1,1,1]", "f16[4294967295]",
  };

  for (guint i = 0; i < rlx_n_ops; i++)
    {
      const RlxOp *op = rlx_op_table[i];

      g_assert_true (rlx_op_lookup (op->name) == op);
      g_assert_cmpuint (op->flags & RLX_OP_INTERNAL, ==, 0);

      for (guint n = 0; n < 5; n++)
        for (guint t = 0; t < G_N_ELEMENTS (types); t++)
          for (guint variant = 0; variant < 3; variant++)
            {
              g_autoptr (GError) error = NULL;
              g_autoptr (GPtrArray) inputs = g_ptr_array_new ();
              g_autoptr (GString) list = g_string_new (NULL);
              g_autoptr (RlxGraph) graph = NULL;
              g_autofree RlxNode **nodes = NULL;
              gpointer attrs = rlx_attrs_new (op);
              gsize n_nodes;

              for (guint j = 0; j < n; j++)
                g_string_append_printf (list, "%s%s", j > 0 ? " " : "", types[(t + j * variant) % G_N_ELEMENTS (types)]);
              graph = graph_with_inputs (list->str, inputs);

              for (guint j = 0; j < op->n_attrs; j++)
                {
                  const gint64 values[] = { variant == 0 ? 0 : G_MININT64, variant == 1 ? 1 : G_MAXINT64, -1 };

                  if (op->attrs[j].kind == RLX_ATTR_INTS)
                    rlx_ints_set ((RlxInts *) rlx_attr_get_ints (&op->attrs[j], attrs), values, (t + j) % 4);
                  else if (op->attrs[j].kind == RLX_ATTR_FLOAT)
                    rlx_attr_set_float (&op->attrs[j], attrs, variant == 0 ? 1e300 : variant == 1 ? -INFINITY : 0.0);
                  else if (op->attrs[j].kind != RLX_ATTR_STRING)
                    rlx_attr_set_int (&op->attrs[j], attrs, variant == 0 ? 0 : values[t % 2]);
                }

              if (op->flags & RLX_OP_LEAF)
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
  assert_refuses ("input", "f32[2]", NULL, RLX_GRAPH_ERROR_UNSUPPORTED, "“input”|a method of that name");
  assert_refuses ("constant", "", NULL, RLX_GRAPH_ERROR_UNSUPPORTED, "a method of that name");
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

/* The number of results need not be requested. */
static void
test_add_op_no_count (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, SHAPE (2, 3), NULL);
  g_autofree RlxNode **nodes = rlx_graph_add_op (graph, "relu", &x, 1, NULL, NULL, &error);
  g_autofree RlxNode **parts = rlx_node_top_k (x, 2, NULL, NULL, &error);

  g_assert_no_error (error);
  g_assert_cmpstr (rlx_node_get_op (nodes[0]), ==, "relu");
  g_assert_null (nodes[1]);
  g_assert_cmpint (rlx_node_get_shape (parts[1], NULL)[1], ==, 2);
  g_assert_null (parts[2]);
}

/* A description is owned by the caller, and agrees with the table. */
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
  g_assert_null (rlx_operators_describe ("matmu", &error));
  assert_message (&error, RLX_GRAPH_ERROR_NOT_FOUND, "did you mean “matmul”?");
}

/* The example of an operator, "name(types) {attributes} -> types", is a valid graph when
 * its operands are inputs, and its results have those types. */
static void
test_examples (void)
{
  g_auto (GStrv) names = rlx_operators_list ();
  guint n_examples = 0;

  for (char **name = names; *name != NULL; name++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (GVariant) about = rlx_operators_describe (*name, &error);
      g_autoptr (GString) text = g_string_new ("rlx 1\n"), found = g_string_new (NULL);
      g_autoptr (RlxGraph) graph = NULL;
      const char *example, *open, *close, *arrow;
      guint n_operands = 0, n_results = 0;

      g_assert_no_error (error);
      g_assert_true (g_variant_lookup (about, "example", "&s", &example));
      if (example[0] == '\0')
        {
          g_variant_lookup (about, "family", "&s", &example);
          g_assert_cmpstr (example, ==, "Leaves");
          continue;
        }
      g_assert_true (g_str_has_prefix (example, *name));
      open = example + strlen (*name);
      close = strchr (open, ')');
      arrow = g_strrstr (example, " -> ");
      for (const char *type = open + 1; type < close; type = strchr (type, ']') + 1)
        {
          type += strspn (type, ", ");
          g_string_append_printf (text, "%%%u = input \"%u\" %.*s]\n", n_operands, n_operands, (int) (strchr (type, ']') - type), type);
          n_operands++;
        }
      for (const char *type = arrow; (type = strchr (type + 1, '[')) != NULL; n_results++)
        g_string_append_printf (text, "%s%%%u", n_results ? ", " : "", 100 + n_results);
      g_string_append_printf (text, " = %s(", *name);
      for (guint i = 0; i < n_operands; i++)
        g_string_append_printf (text, "%s%%%u", i ? ", " : "", i);
      g_string_append_printf (text, "%.*s\n", (int) (arrow - close), close);
      for (guint i = 0; i < n_results; i++)
        g_string_append_printf (text, "output \"y%u\" %%%u\n", i, 100 + i);

      graph = rlx_graph_new_from_text (text->str, &error);
      g_assert_no_error (error);
      for (guint i = 0; i < n_results; i++)
        {
          g_autofree char *output = g_strdup_printf ("y%u", i);
          RlxNode *node = rlx_graph_get_output (graph, output);
          g_autofree char *described = NULL;

          g_assert_nonnull (node);
          described = rlx_node_to_string (node);
          g_string_append_printf (found, "%s%s", i ? ", " : "", g_strrstr (described, ": ") + 2);
        }
      g_assert_cmpstr (found->str, ==, arrow + 4);
      n_examples++;
    }
  g_assert_cmpuint (n_examples, >, 150);
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

  /* A floating variant is consumed, a non-floating one is left alone. */
  {
    g_autoptr (GError) error = NULL;
    g_autoptr (RlxGraph) graph = rlx_graph_new ();
    RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, SHAPE (2, 3), NULL);
    GVariant *attributes = g_variant_ref (g_variant_new_parsed ("{'axes': <[0]>, 'keep_dims': <true>}"));
    GVariant *back;
    g_autofree RlxNode **nodes = NULL;
    g_autofree RlxNode **more = NULL;
    g_autofree char *printed = NULL;
    gsize n;

    g_assert_true (g_variant_is_floating (attributes));
    nodes = rlx_graph_add_op (graph, "reduce_sum", &x, 1, attributes, &n, &error);
    g_assert_no_error (error);
    g_assert_false (g_variant_is_floating (attributes));
    /* If the method had kept a reference, this would drop one too many. */
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
  ManyAttrs *attrs = rlx_attrs_new_from_variant (&many_op, in, &error);
  ManyAttrs *copy = rlx_attrs_copy (&many_op, attrs);
  ManyAttrs *plain = rlx_attrs_new (&many_op);

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

  /* Each attribute matters. */
  for (guint i = 0; i < many_op.n_attrs; i++)
    {
      ManyAttrs *changed = rlx_attrs_copy (&many_op, plain);

      g_assert_true (rlx_attr_is_default (&many_op, &many_op.attrs[i], plain));
      if (many_op.attrs[i].kind == RLX_ATTR_INTS)
        rlx_ints_set ((RlxInts *) rlx_attr_get_ints (&many_op.attrs[i], changed), (gint64[]) { 3, 5 }, 2);
      else if (many_op.attrs[i].kind == RLX_ATTR_FLOAT)
        g_assert_true (rlx_attr_set_float (&many_op.attrs[i], changed, 0.25));
      else
        g_assert_true (rlx_attr_set_int (&many_op.attrs[i], changed, 0));
      g_assert_false (rlx_attrs_equal (&many_op, plain, changed));
      g_assert_cmpuint (rlx_attrs_hash (&many_op, plain), !=, rlx_attrs_hash (&many_op, changed));
      g_assert_false (rlx_attr_is_default (&many_op, &many_op.attrs[i], changed));
      rlx_attrs_free (&many_op, changed);
    }

  /* A list may be set from itself, and becomes empty if it is too long. */
  rlx_ints_set (&copy->list, copy->list.values + 1, 2);
  g_assert_cmpuint (copy->list.n_values, ==, 2);
  g_assert_cmpint (copy->list.values[1], ==, 3);

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
    { 3, G_MININT, 0, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“choice”|-2147483648" },
    { 4, -1, 0, RLX_GRAPH_ERROR_DATA_TYPE, "“type”|-1" },
    { 4, G_MAXINT, 0, RLX_GRAPH_ERROR_DATA_TYPE, "“type”|2147483647" },
    { 1, 9, 0, RLX_GRAPH_ERROR_UNSUPPORTED, "many: no 9 (%0 “x” f32[2], _)" },
  };
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, SHAPE (2), NULL);
  g_autofree gint64 *values = g_new0 (gint64, RLX_MAX_ATTR_INTS + 1);
  ManyAttrs *attrs;
  RlxNode *node;

  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      attrs = rlx_attrs_new (&many_op);
      if (many_op.attrs[bad[i].index].kind == RLX_ATTR_FLOAT)
        rlx_attr_set_float (&many_op.attrs[bad[i].index], attrs, bad[i].f);
      else
        rlx_attr_set_int (&many_op.attrs[bad[i].index], attrs, bad[i].i);
      g_assert_null (rlx_graph_call (NULL, &many_op, &x, 1, attrs, &error));
      assert_message (&error, bad[i].code, bad[i].parts);
    }

  attrs = rlx_attrs_new (&many_op);
  rlx_ints_set (&attrs->list, values, RLX_MAX_ATTR_INTS + 1);
  g_assert_cmpuint (attrs->list.n_values, ==, 0);
  g_assert_null (attrs->list.values);
  g_assert_null (rlx_graph_call (NULL, &many_op, &x, 1, attrs, &error));
  assert_message (&error, RLX_GRAPH_ERROR_LIMIT, "“list”|65536");

  attrs = rlx_attrs_new (&many_op);
  rlx_ints_set (&attrs->list, values, G_MAXSIZE);
  g_assert_null (rlx_graph_call (NULL, &many_op, &x, 1, attrs, &error));
  assert_message (&error, RLX_GRAPH_ERROR_LIMIT, "“list”|65536");

  attrs = rlx_attrs_new (&many_op);
  rlx_ints_set (&attrs->list, NULL, 1);
  g_assert_null (rlx_graph_call (NULL, &many_op, &x, 1, attrs, &error));
  assert_message (&error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“list”");

  attrs = rlx_attrs_new (&many_op);
  rlx_ints_set (&attrs->list, values, RLX_MAX_ATTR_INTS);
  rlx_attr_set_int (&many_op.attrs[0], attrs, 77);
  node = rlx_graph_call (NULL, &many_op, &x, 1, attrs, &error);
  g_assert_no_error (error);
  /* In C anything but 0 is true; it is normalised to 1. */
  attrs = rlx_node_get_value (node)->node->attrs;
  g_assert_cmpint (attrs->flag, ==, TRUE);

  /* Omitted attributes have their defaults. */
  node = rlx_graph_call (graph, &many_op, &x, 1, NULL, &error);
  g_assert_no_error (error);
  attrs = rlx_node_get_value (node)->node->attrs;
  g_assert_cmpint (attrs->count, ==, 3);
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

  g_signal_connect (options, "notify::epsilon", G_CALLBACK (rlx_test_count_notify), &n_notified);
  rlx_layer_norm_options_set_epsilon (options, 1e-5);
  g_assert_cmpuint (n_notified, ==, 0);
  rlx_layer_norm_options_set_epsilon (options, 0.25);
  g_assert_cmpuint (n_notified, ==, 1);
  g_object_get (options, "epsilon", &epsilon, NULL);
  g_assert_cmpfloat (epsilon, ==, 0.25);

  /* The node has a copy. */
  y = rlx_node_layer_norm (x, NULL, NULL, options, &error);
  g_assert_no_error (error);
  rlx_layer_norm_options_set_epsilon (options, 0.5);
  g_assert_cmpfloat (rlx_layer_norm_attrs (rlx_node_get_value (y)->node)->epsilon, ==, 0.25);

  rlx_layer_norm_options_set_axes (options, SHAPE (0, 5));
  g_assert_null (rlx_node_layer_norm (x, NULL, NULL, options, &error));
  assert_message (&error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "axis 5");

  g_assert_nonnull (rlx_node_layer_norm (x, NULL, NULL, NULL, &error));
  g_assert_no_error (error);
}

static void
test_options_lists (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  g_autoptr (RlxConvOptions) options = g_object_new (RLX_TYPE_CONV_OPTIONS,
                                                     "padding", g_variant_new_parsed ("[int64 1, 1, 0, 0]"),
                                                     NULL);
  g_autoptr (GVariant) padding = NULL;
  g_autoptr (GVariant) expected = g_variant_ref_sink (g_variant_new_parsed ("[int64 1, 1, 0, 0]"));
  g_autofree gint64 *many = g_new0 (gint64, RLX_MAX_ATTR_INTS + 1);
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, SHAPE (1, 2, 5, 5), NULL);
  RlxNode *w = rlx_graph_input (graph, "w", RLX_DATA_TYPE_F32, SHAPE (3, 2, 3, 3), NULL);
  RlxNode *y;
  const gint64 *values;
  guint n_notified = 0;
  gsize n;

  y = rlx_node_conv (x, w, NULL, options, &error);
  g_assert_no_error (error);
  g_assert_cmpint (rlx_node_get_shape (y, &n)[2], ==, 5);
  g_assert_cmpint (rlx_node_get_shape (y, &n)[3], ==, 3);
  g_object_get (options, "padding", &padding, NULL);
  g_assert_true (g_variant_equal (padding, expected));

  /* Either way, with a single notification. */
  g_signal_connect (options, "notify::padding", G_CALLBACK (rlx_test_count_notify), &n_notified);
  g_object_set (options, "padding", expected, NULL);
  rlx_conv_options_set_padding (options, SHAPE (1, 1, 0, 0));
  g_assert_cmpuint (n_notified, ==, 0);
  rlx_conv_options_set_padding (options, SHAPE (1, 1, 0, 2));
  g_assert_cmpuint (n_notified, ==, 1);
  values = rlx_conv_options_get_padding (options, &n);
  g_assert_cmpuint (n, ==, 4);
  g_assert_cmpint (values[3], ==, 2);

  /* From its own return value. */
  rlx_conv_options_set_padding (options, values, 3);
  g_assert_cmpuint (n_notified, ==, 2);
  values = rlx_conv_options_get_padding (options, &n);
  g_assert_cmpuint (n, ==, 3);
  g_assert_cmpint (values[0], ==, 1);

  g_object_set (options, "padding", NULL, NULL);
  rlx_conv_options_get_padding (options, &n);
  g_assert_cmpuint (n, ==, 0);
  g_clear_pointer (&padding, g_variant_unref);
  g_object_get (options, "padding", &padding, NULL);
  g_assert_null (padding);
  rlx_conv_options_set_padding (options, NULL, 0);
  g_object_get (options, "padding", &padding, NULL);
  g_assert_cmpuint (g_variant_n_children (padding), ==, 0);

  g_object_set (options, "padding", g_variant_new_fixed_array (G_VARIANT_TYPE_INT64, many, RLX_MAX_ATTR_INTS + 1, sizeof (gint64)), NULL);
  g_assert_null (rlx_node_conv (x, w, NULL, options, &error));
  assert_message (&error, RLX_GRAPH_ERROR_LIMIT, "“padding”|65536");
  rlx_conv_options_set_padding (options, NULL, 0);
  g_assert_nonnull (rlx_node_conv (x, w, NULL, options, &error));
  g_assert_no_error (error);
}

/* ---- internals ---------------------------------------------------------------------------------------------- */

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
  g_assert_cmpint (joined.data_type, ==, RLX_DATA_TYPE_F32);
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
  /* 0 and 5 are incompatible, 0 and 1 are not. */
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
  RlxInts axes = { 0 };
  guint mask = 77, axis = 77;

  g_assert_true (rlx_call_axes (&call, &axes, 3, TRUE, &mask, &error));
  g_assert_cmpuint (mask, ==, 7);
  g_assert_true (rlx_call_axes (&call, &axes, RLX_MAX_DIMS, TRUE, &mask, &error));
  g_assert_cmpuint (mask, ==, 255);
  g_assert_true (rlx_call_axes (&call, &axes, 3, FALSE, &mask, &error));
  g_assert_cmpuint (mask, ==, 0);
  axes.is_set = TRUE;
  g_assert_true (rlx_call_axes (&call, &axes, 3, TRUE, &mask, &error));
  g_assert_cmpuint (mask, ==, 0);
  rlx_ints_set (&axes, SHAPE (-1, 0));
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
  g_free ((gpointer) axes.values);
}

static void
test_vocabulary (void)
{
  static const RlxOp *const internal[] = { &rlx_op_fused, &rlx_op_mixed_attention, &rlx_op_split_linear, &rlx_op_joint_rope };

  for (guint i = 0; i < rlx_n_ops; i++)
    g_assert_cmpuint (rlx_op_table[i]->id, ==, RLX_OP_ID_NONE + 1 + i);
  /* Only passes can create these. */
  for (guint i = 0; i < G_N_ELEMENTS (internal); i++)
    {
      g_assert_cmpuint (internal[i]->id, >, rlx_n_ops);
      g_assert_cmpuint (internal[i]->id, <, RLX_N_OP_IDS);
      g_assert_cmpuint (internal[i]->flags & RLX_OP_INTERNAL, !=, 0);
      g_assert_null (rlx_op_lookup (internal[i]->name));
    }

  g_assert_cmpuint (rlx_op_reduce_max.flags & (RLX_OP_EPILOGUE | RLX_OP_NORM), ==, RLX_OP_EPILOGUE);
  g_assert_cmpuint (rlx_op_softmax.flags & (RLX_OP_EPILOGUE | RLX_OP_NORM), ==, RLX_OP_EPILOGUE | RLX_OP_NORM);
  g_assert_cmpuint (rlx_op_qmatmul.flags & (RLX_OP_EPILOGUE | RLX_OP_NORM), ==, 0);
}

static void
test_builder (void)
{
  g_autoptr (RlxIr) ir = rlx_ir_new ();
  RlxIrNode *leaf = rlx_ir_append (ir, &rlx_op_input, NULL, NULL, 0, &(RlxTensorType) { RLX_DATA_TYPE_F32, 2, { 2, 3 } }, 1);
  RlxIrValue *x = &leaf->outputs[0], *y;
  g_autofree char *text = NULL;

  leaf->origin = 77;
  {
    g_auto (RlxBuilder) b = RLX_BUILDER (ir, leaf);
    gint64 shape[] = { 3, 2 };

    y = rlx_build_reshape (&b, x, RLX_RESHAPE_ATTRS (.shape = RLX_INTS (shape, 2)));
    /* The node has its own copy, and its own name for messages. */
    shape[0] = 99;
    g_assert_no_error (b.error);
    g_assert_cmpint (rlx_reshape_attrs (y->node)->shape.values[0], ==, 3);
    g_assert_cmpuint (y->node->origin, ==, 77);

    /* Omitted operands are absent, and omitted attributes have their defaults. */
    y = rlx_build_linear (&b, x, y, NULL, RLX_LINEAR_ATTRS (.alpha = 2.0));
    g_assert_no_error (b.error);
    g_assert_cmpuint (y->node->n_inputs, ==, 3);
    g_assert_null (y->node->inputs[RLX_LINEAR_BIAS]);
    g_assert_cmpfloat (rlx_linear_attrs (y->node)->alpha, ==, 2.0);
    g_assert_cmpfloat (rlx_linear_attrs (y->node)->beta, ==, 1.0);
    text = rlx_type_to_string (&y->type);
    g_assert_cmpstr (text, ==, "f32[2, 2]");
    g_assert_true (rlx_build_as (&b, y, RLX_DATA_TYPE_F32) == y);
  }
  {
    g_auto (RlxBuilder) b = RLX_BUILDER (ir, leaf);
    guint n = ir->nodes->len;

    /* The first error is kept, and nothing is created after it. */
    g_assert_null (rlx_build_matmul (&b, x, x, NULL));
    g_assert_error (b.error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_SHAPE);
    g_assert_null (rlx_build_relu (&b, rlx_build_softmax (&b, x, RLX_SOFTMAX_ATTRS (.axis = 9))));
    g_assert_null (rlx_build_constant (&b, rlx_tensor_new_scalar (RLX_DATA_TYPE_F32, 1, NULL)));
    g_assert_error (b.error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_SHAPE);
    g_assert_cmpuint (ir->nodes->len, ==, n);
  }
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
  RlxNode *z = rlx_node_reduce_sum (y, SHAPE (0), NULL, &error);
  const RlxIr *ir;

  rlx_node_set_name (y, "label");
  rlx_graph_call (graph, &many_op, &z, 1, NULL, &error);
  rlx_graph_output (graph, "z", z, NULL);
  ir = rlx_graph_peek_ir (graph, &error);
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
  /* It is independent of the original. */
  g_clear_object (&graph);
  copy_text = rlx_ir_to_text (copy);
  g_assert_cmpstr (text, ==, copy_text);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/ops/rules", test_rules);
  g_test_add_func ("/ops/constant-indices", test_constant_indices);
  g_test_add_func ("/ops/every-operator", test_every_operator);
  g_test_add_func ("/ops/add-op/errors", test_add_op_errors);
  g_test_add_func ("/ops/add-op/no-count", test_add_op_no_count);
  g_test_add_func ("/ops/add-op/variants", test_add_op_variants);
  g_test_add_func ("/ops/describe", test_describe);
  g_test_add_func ("/ops/examples", test_examples);
  g_test_add_func ("/ops/attributes", test_attributes);
  g_test_add_func ("/ops/attributes-in-calls", test_attributes_in_calls);
  g_test_add_func ("/ops/options", test_options);
  g_test_add_func ("/ops/options/lists", test_options_lists);
  g_test_add_func ("/ir/types", test_types);
  g_test_add_func ("/ir/axes", test_axes);
  g_test_add_func ("/ir/vocabulary", test_vocabulary);
  g_test_add_func ("/ir/builder", test_builder);
  g_test_add_func ("/ir/copy", test_ir_copy);

  return g_test_run ();
}
