/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Graphs: what goes in and comes out, errors that stick, and the end of changes.
 */
#include "config.h"

#include <rlx-wgpu/rlx-wgpu.h>

#include "rlx-test-graph.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

/* ---- graphs ---------------------------------------------------------------------- */

static void
test_empty (void)
{
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  g_auto (GStrv) inputs = rlx_graph_dup_input_names (graph);
  g_auto (GStrv) outputs = rlx_graph_dup_output_names (graph);
  g_autofree char *text = rlx_graph_to_text (graph);

  g_assert_cmpuint (g_list_model_get_item_type (G_LIST_MODEL (graph)), ==, RLX_TYPE_NODE);
  g_assert_cmpuint (g_list_model_get_n_items (G_LIST_MODEL (graph)), ==, 0);
  g_assert_null (g_list_model_get_item (G_LIST_MODEL (graph), 0));
  g_assert_cmpuint (g_strv_length (inputs), ==, 0);
  g_assert_cmpuint (g_strv_length (outputs), ==, 0);
  g_assert_null (rlx_graph_lookup (graph, ""));
  g_assert_cmpstr (text, ==, "rlx 1\n");
  assert_sound (graph);
  g_assert_nonnull (rlx_graph_peek_ir (graph, NULL));
}

static void
test_example (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  g_autoptr (RlxTensor) weights = rlx_tensor_new_from_floats (SHAPE (3, 2), (float[]) { 1, 0, 0, 1, 1, 1 }, 6, NULL);
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, SHAPE (2, 3), &error);
  RlxNode *w = rlx_graph_constant (graph, weights, &error);
  RlxNode *product = rlx_node_matmul (x, w, NULL, &error);
  RlxNode *y = rlx_node_relu (product, &error);
  RlxNode **operands;
  g_autofree char *text = NULL;
  g_autofree char *op = NULL;
  g_autofree char *name = NULL;
  GVariant *attributes;
  g_auto (GStrv) inputs = NULL;
  g_auto (GStrv) outputs = NULL;
  const gint64 *shape;
  gsize n;
  RlxDataType data_type;

  g_assert_no_error (error);
  rlx_graph_output (graph, "y", y, NULL);
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

  inputs = rlx_graph_dup_input_names (graph);
  outputs = rlx_graph_dup_output_names (graph);
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
    gint64 shape[10];
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
      RlxNode *node = make (graph, "x", RLX_DATA_TYPE_U64, cases[i].shape, cases[i].n_dims, &error);

      if (cases[i].code < 0)
        {
          const gint64 *shape;
          gsize n_dims;

          g_assert_no_error (error);
          shape = rlx_node_get_shape (node, &n_dims);
          g_assert_cmpmem (shape, n_dims * sizeof (gint64), cases[i].shape, cases[i].n_dims * sizeof (gint64));
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
  static const int wrong[] = { -1, 22, 999, G_MININT, G_MAXINT };

  for (guint i = 0; i <= RLX_DATA_TYPE_U2; i++)
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
  /* Arbitrary names. */
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
      rlx_graph_output (graph, good[i], x, NULL);
      g_assert_true (rlx_graph_lookup (graph, good[i]) == x);
    }
  rlx_graph_output (graph, longest, rlx_graph_parameter (graph, longest, RLX_DATA_TYPE_F32, NULL, 0, &error), &error);
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

          rlx_graph_output (other, "fn", node, NULL);
          g_assert_no_error (error);

          if (kind == 0)
            node = rlx_graph_input (other, name, RLX_DATA_TYPE_F32, NULL, 0, &error);
          else if (kind == 1)
            node = rlx_graph_parameter (other, name, RLX_DATA_TYPE_F32, NULL, 0, &error);
          else if (kind == 2)
            node = rlx_graph_state (other, name, zero, &error);
          else
            rlx_graph_output (other, name, node, NULL);

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
  g_autoptr (GError) error = NULL;
  g_auto (GStrv) names = NULL;

  /* An input as an output under two names, one of them its own. */
  rlx_graph_output (graph, "b", x, NULL);
  rlx_graph_output (graph, "a", x, NULL);
  rlx_graph_output (graph, "x", x, NULL);
  assert_sound (graph);
  names = rlx_graph_dup_output_names (graph);
  g_assert_cmpstrv (names, ((const char *[]) { "b", "a", "x", NULL }));

  /* After a reported error the graph is usable. */
  g_assert_false (rlx_graph_output (other, "y", x, &error));
  assert_message (&error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“y”|%0|\"x\"|another graph");
  g_assert_false (rlx_graph_output (graph, "a", x, &error));
  assert_message (&error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“a”|taken");
  g_assert_false (rlx_graph_output (graph, "", x, &error));
  assert_message (&error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "empty");
  assert_sound (graph);
  assert_sound (other);
  g_assert_true (rlx_graph_output (graph, "d", x, &error));
  g_assert_no_error (error);

  rlx_graph_output (other, "y", x, NULL);
  assert_sticky (other, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“y”|%0|\"x\"|another graph");
  g_assert_null (rlx_graph_lookup (other, "y"));

  /* Only the first error counts. */
  g_assert_false (rlx_graph_output (graph, "c", NULL, &error));
  g_assert_no_error (error);
  assert_sticky (graph, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“c”|NULL");
  rlx_graph_output (graph, "a", x, NULL);
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

  /* Any data is valid. */
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
  /* A state may be assigned another's value. */
  g_assert_true (rlx_graph_assign (graph, other_state, state, &error));
  g_assert_no_error (error);
  assert_sound (graph);
  ir = rlx_graph_peek_ir (graph, &error);
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

/* ---- sticky errors ----------------------------------------------------------------- */

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

  /* Nobody checks, and a later failure does not replace the first one. */
  sum = rlx_node_add (a, b, NULL);
  g_assert_null (sum);
  g_assert_null (rlx_node_relu (sum, NULL));
  g_assert_null (rlx_graph_input (graph, "a", RLX_DATA_TYPE_F32, NULL, 0, NULL));
  rlx_graph_output (graph, "y", NULL, NULL);
  assert_sticky (graph, RLX_GRAPH_ERROR_SHAPE, "add|f32[2, 3]|f32[4]|%0 “a”|%1 “b”");

  /* Valid calls are still accepted. */
  g_assert_nonnull (rlx_node_relu (a, &error));
  g_assert_no_error (error);

  /* A chain that shares a GError: it remains the first one. */
  sum = rlx_node_add (a, b, &error);
  g_assert_null (rlx_node_matmul (rlx_node_relu (sum, &error), b, NULL, &error));
  g_assert_null (rlx_node_add (a, b, &error));
  g_assert_null (rlx_graph_input (graph, "", RLX_DATA_TYPE_F32, NULL, 0, &error));
  g_assert_null (rlx_graph_add_op (graph, "nothing", NULL, 0, NULL, NULL, &error));
  g_assert_false (rlx_graph_assign (graph, a, b, &error));
  assert_message (&error, RLX_GRAPH_ERROR_SHAPE, "add");

  /* Checking leaves an existing error alone. */
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

  /* There is no graph to record it. */
  g_assert_null (rlx_node_relu (NULL, &error));
  g_assert_null (rlx_node_add (NULL, NULL, &error));
  g_assert_no_error (error);

  /* Optional operands may be absent, and are reported as such. */
  {
    g_autoptr (RlxGraph) graph = rlx_graph_new ();
    RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, SHAPE (2, 2), &error);
    RlxNode *y = rlx_node_linear (x, x, NULL, NULL, &error);
    g_autofree RlxNode **short_form = NULL;
    RlxNode **inputs;
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

    /* They can be omitted at the end. */
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
  rlx_graph_output (graph, "y", (RlxNode *) thing, NULL);
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

  /* None of it is in the graph. */
  g_assert_cmpuint (g_list_model_get_n_items (G_LIST_MODEL (graph)), ==, 0);
}

/* ---- input of the compiler ------------------------------------------------------------------- */

static void
test_copy (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxTensor) tensor = rlx_tensor_new_from_floats (SHAPE (2), (float[]) { 0, 0 }, 2, NULL);
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, SHAPE (2), &error);
  RlxNode *state = rlx_graph_state (graph, "s", tensor, &error);
  RlxNode *y = rlx_node_relu (rlx_node_add (x, state, &error), &error);
  g_autofree char *before = NULL, *copied = NULL;
  g_autoptr (RlxIr) ir = NULL;

  rlx_graph_assign (graph, state, y, &error);
  rlx_node_set_name (y, "label");
  rlx_graph_output (graph, "y", y, NULL);
  g_assert_no_error (error);
  before = rlx_graph_to_text (graph);
  ir = rlx_graph_copy_ir (graph, &error);
  g_assert_no_error (error);

  /* The graph changes, and the copy does not. */
  rlx_graph_output (graph, "z", rlx_node_neg (y, &error), &error);
  rlx_node_set_name (y, "another");
  g_assert_no_error (error);
  assert_sound (graph);
  copied = rlx_ir_to_text (ir);
  g_assert_cmpstr (copied, ==, before);
  g_assert_cmpuint (g_list_model_get_n_items (G_LIST_MODEL (graph)), ==, 5);

  rlx_graph_output (graph, "z", x, NULL);
  g_assert_null (rlx_graph_copy_ir (graph, &error));
  assert_message (&error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "“z”|taken");
}

/* ---- several threads ------------------------------------------------------------------------- */

#define BUILDERS 4
#define ROUNDS 800

typedef struct
{
  RlxGraph *graph;
  RlxNode *shared;
  int number;
} Builder;

/* Calls every method of a graph and its nodes. */
static gpointer
build_along (gpointer data)
{
  const Builder *builder = data;
  RlxGraph *graph = builder->graph;
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxTensor) tensor = rlx_tensor_new_from_floats (SHAPE (2), (float[]) { 1, 2 }, 2, NULL);
  g_autofree char *own = g_strdup_printf ("p%d", builder->number);
  RlxNode *node = rlx_graph_parameter (graph, own, RLX_DATA_TYPE_F32, SHAPE (2), &error);

  for (guint i = 0; i < ROUNDS; i++)
    {
      g_autofree char *name = g_strdup_printf ("%d.%u", builder->number, i);
      g_autofree RlxNode **added = NULL;
      g_autofree char *text = NULL;
      g_autoptr (RlxNode) item = NULL;
      RlxNode *state;
      gsize n;

      node = rlx_node_add (node, rlx_node_mul (builder->shared, rlx_graph_constant (graph, tensor, &error), &error), &error);
      g_assert_no_error (error);
      /* It is unknown whose label it has at the moment, but it has one. */
      rlx_node_set_name (builder->shared, name);
      g_assert_nonnull (strchr (rlx_node_get_name (builder->shared), '.'));
      rlx_node_get_inputs (node, &n);
      g_assert_cmpuint (n, ==, 2);
      text = rlx_node_to_string (node);
      g_assert_nonnull (strstr (text, "add"));
      item = g_list_model_get_item (G_LIST_MODEL (graph), g_list_model_get_n_items (G_LIST_MODEL (graph)) - 1);
      g_assert_nonnull (item);
      if (i % 20 != 0)
        continue;

      added = rlx_graph_add_op (graph, "exp", &node, 1, NULL, NULL, &error);
      g_assert_no_error (error);
      rlx_graph_output (graph, name, added[0], NULL);
      g_assert_true (rlx_graph_get_output (graph, name) == added[0]);
      g_assert_true (rlx_graph_lookup (graph, own) != NULL);
      state = rlx_graph_state (graph, name, tensor, &error);
      g_assert_true (rlx_graph_assign (graph, state, node, &error));
      g_assert_nonnull (rlx_graph_input (graph, text, RLX_DATA_TYPE_F32, SHAPE (2), &error));
      g_assert_nonnull (rlx_graph_scalar (graph, RLX_DATA_TYPE_F32, 1, &error));
      g_assert_no_error (error);
      g_assert_null (rlx_graph_add_op (graph, "no such operator", NULL, 0, NULL, NULL, &error));
      g_clear_error (&error);
      g_assert_true (rlx_graph_check (graph, NULL));
      if (i % 400 == 0)
        {
          g_autofree char *all = rlx_graph_to_text (graph), *dot = rlx_graph_to_dot (graph);
          g_auto (GStrv) input_names = rlx_graph_dup_input_names (graph), output_names = rlx_graph_dup_output_names (graph);
          g_autoptr (RlxIr) ir = rlx_graph_copy_ir (graph, &error);

          g_assert_no_error (error);
          g_assert_true (rlx_ir_verify (ir, &error));
          g_assert_cmpuint (ir->outputs->len, >=, g_strv_length (output_names));
          g_assert_cmpuint (g_strv_length (input_names), >, 0);
          g_assert_true (g_str_has_prefix (all, "rlx 1\n") && dot[0] != '\0');
        }
    }
  return NULL;
}

static void
count_items (GListModel *list,
             guint       position,
             guint       n_removed,
             guint       n_added,
             gpointer    data)
{
  guint *n_known = data;

  g_assert_cmpuint (position, ==, *n_known);
  g_assert_cmpuint (n_removed, ==, 0);
  g_assert_cmpuint (g_list_model_get_n_items (list), >=, position + n_added);
  *n_known += n_added;
}

static void
test_threads (void)
{
  for (guint watched = 0; watched < 2; watched++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (RlxGraph) graph = rlx_graph_new ();
      g_autoptr (RlxGraph) again = NULL;
      RlxNode *shared = rlx_node_relu (rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, SHAPE (2), &error), &error);
      g_autofree char *text = NULL;
      Builder builders[BUILDERS];
      GThread *threads[BUILDERS];
      guint n_known = 2;

      g_assert_no_error (error);
      if (watched)
        g_signal_connect (graph, "items-changed", G_CALLBACK (count_items), &n_known);
      for (int i = 0; i < BUILDERS; i++)
        {
          builders[i] = (Builder) { graph, shared, i };
          threads[i] = g_thread_new ("builder", build_along, &builders[i]);
        }
      for (guint i = 0; i < BUILDERS; i++)
        g_thread_join (threads[i]);

      assert_sound (graph);
      /* mul, constant and add in each round, four more in some, and one per thread */
      g_assert_cmpuint (g_list_model_get_n_items (G_LIST_MODEL (graph)), ==,
                        2 + BUILDERS * (1 + 3 * ROUNDS + 4 * (ROUNDS / 20)));
      if (watched)
        g_assert_cmpuint (n_known, ==, g_list_model_get_n_items (G_LIST_MODEL (graph)));
      text = rlx_graph_to_text (graph);
      again = rlx_graph_new_from_text (text, &error);
      g_assert_no_error (error);
    }
}

typedef struct
{
  RlxNode *ours;
  RlxNode *theirs;
} Pair;

/* Nodes of another graph are rejected while both are in use. */
static gpointer
confuse (gpointer data)
{
  const Pair *pair = data;

  for (guint i = 0; i < ROUNDS; i++)
    {
      g_autoptr (GError) error = NULL;

      g_assert_null (rlx_node_add (pair->ours, pair->theirs, &error));
      assert_message (&error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "add|%1 = relu|another graph");
    }
  return NULL;
}

static void
test_threads_of_two (void)
{
  g_autoptr (RlxGraph) a = rlx_graph_new (), b = rlx_graph_new ();
  RlxNode *x = rlx_node_relu (rlx_graph_input (a, "x", RLX_DATA_TYPE_F32, SHAPE (2), NULL), NULL);
  RlxNode *y = rlx_node_relu (rlx_graph_input (b, "y", RLX_DATA_TYPE_F32, SHAPE (2), NULL), NULL);
  Pair one = { x, y }, two = { y, x };
  GThread *first = g_thread_new ("one", confuse, &one), *second = g_thread_new ("two", confuse, &two);

  g_thread_join (first);
  g_thread_join (second);
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
  rlx_graph_output (graph, "y", node, NULL);
  g_assert_cmpuint (g_list_model_get_n_items (G_LIST_MODEL (graph)), ==, CHAIN + 1);
  g_assert_nonnull (rlx_graph_peek_ir (graph, &error));

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

/* On a stack too small for a recursion over the nodes. */
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
  /* A message about many operands is limited in length. */
  inputs[65535] = rlx_graph_input (graph, "y", RLX_DATA_TYPE_I32, SHAPE (2), NULL);
  g_assert_null (rlx_graph_concat (graph, inputs, 65536, 0, &error));
  g_assert_cmpuint (strlen (error->message), <, 1000);
  assert_message (&error, RLX_GRAPH_ERROR_DATA_TYPE, "…");
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
  g_test_add_func ("/graph/copy", test_copy);
  g_test_add_func ("/graph/threads", test_threads);
  g_test_add_func ("/graph/threads-of-two", test_threads_of_two);
  g_test_add_func ("/graph/long-chain", test_long_chain);
  g_test_add_func ("/graph/many-operands", test_many_operands);

  return g_test_run ();
}
