/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The nodes of graphs: whose they are, what they are called, and the list of them.
 */
#include "config.h"

#include "test-graph-common.h"

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

  g_signal_connect (y, "notify::name", G_CALLBACK (rlx_test_count_notify), &n_notified);
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

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/graph/foreign", test_foreign);
  g_test_add_func ("/graph/graph-is-gone", test_graph_is_gone);
  g_test_add_func ("/graph/bare-node", test_bare_node);
  g_test_add_func ("/graph/run-dispose", test_run_dispose);
  g_test_add_func ("/graph/list-model", test_list_model);
  g_test_add_func ("/graph/reentrancy", test_reentrancy);
  g_test_add_func ("/graph/labels", test_labels);

  return g_test_run ();
}
