/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The nodes of graphs: whose they are, what they are called, and the list of them.
 */
#include "config.h"

#include "rlx-test-graph.h"

/* ---- ownership of nodes ---------------------------------------------------------------- */

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
count_one (gpointer  data,
           GObject  *where_it_was G_GNUC_UNUSED)
{
  ++*(guint *) data;
}

/* A reference to a node keeps its graph and everything in it. */
static void
test_node_keeps_graph (void)
{
  g_autoptr (GError) error = NULL;
  RlxGraph *graph = rlx_graph_new ();
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_I32, SHAPE (2, 3), &error);
  g_autoptr (RlxNode) y = g_object_ref (rlx_node_reduce_sum (x, SHAPE (-1), NULL, &error));
  RlxNode **inputs;
  guint n_gone = 0;
  gsize n;

  g_assert_no_error (error);
  g_object_weak_ref (G_OBJECT (graph), count_one, &n_gone);
  g_object_weak_ref (G_OBJECT (x), count_one, &n_gone);
  g_object_weak_ref (G_OBJECT (y), count_one, &n_gone);
  rlx_graph_output (graph, "y", y, &error);
  g_object_unref (graph);

  g_assert_cmpuint (n_gone, ==, 0);
  g_assert_true (rlx_node_get_graph (y) == graph);
  inputs = rlx_node_get_inputs (y, &n);
  g_assert_true (n == 1 && inputs[0] == x);
  x = rlx_node_neg (y, &error);
  g_assert_no_error (error);
  /* from one node to another */
  g_set_object (&y, x);
  g_assert_cmpuint (n_gone, ==, 0);
  /* several, in any order, and repeatedly */
  for (guint i = 0; i < 3; i++)
    {
      g_autoptr (RlxNode) first = g_list_model_get_item (G_LIST_MODEL (graph), 0);
      g_autoptr (RlxNode) again = g_object_ref (first);

      g_assert_cmpstr (rlx_node_get_name (again), ==, "x");
    }
  g_assert_cmpuint (n_gone, ==, 0);
  g_clear_object (&y);
  g_assert_cmpuint (n_gone, ==, 3);
}

#define GRAPHS 10000

static void
test_many_graphs (void)
{
  guint n_gone = 0;

  for (guint i = 0; i < GRAPHS; i++)
    {
      RlxGraph *graph = rlx_graph_new ();
      RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, SHAPE (2), NULL);
      RlxNode *y = rlx_node_relu (rlx_node_add (x, x, NULL), NULL);
      g_autoptr (RlxNode) kept = i % 2 == 0 ? g_object_ref (y) : NULL;

      g_object_weak_ref (G_OBJECT (graph), count_one, &n_gone);
      g_object_weak_ref (G_OBJECT (x), count_one, &n_gone);
      g_object_weak_ref (G_OBJECT (y), count_one, &n_gone);
      rlx_graph_output (graph, "y", y, NULL);
      g_object_unref (graph);
      if (kept != NULL)
        g_assert_true (rlx_graph_check (rlx_node_get_graph (kept), NULL));
    }
  g_assert_cmpuint (n_gone, ==, 3 * GRAPHS);
}

typedef struct
{
  RlxNode *node;
  guint seed;
} Holder;

static gpointer
hold_and_drop (gpointer data)
{
  Holder *holder = data;
  g_autoptr (GRand) rand = g_rand_new_with_seed (holder->seed);
  RlxNode *node = holder->node;

  for (guint i = 0; i < 5000; i++)
    {
      g_autoptr (RlxNode) item = g_list_model_get_item (G_LIST_MODEL (rlx_node_get_graph (node)), g_rand_int_range (rand, 0, 3));
      RlxNode *old = node;

      node = g_steal_pointer (&item);
      g_object_unref (old);
    }
  g_object_unref (node);
  return NULL;
}

/* Threads that only have a node each take and drop references. */
static void
test_holders (void)
{
  for (guint round = 0; round < 20; round++)
    {
      RlxGraph *graph = rlx_graph_new ();
      RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, SHAPE (2), NULL);
      Holder holders[4];
      GThread *threads[G_N_ELEMENTS (holders)];
      guint n_gone = 0;

      rlx_node_relu (rlx_node_add (x, x, NULL), NULL);
      g_object_weak_ref (G_OBJECT (graph), count_one, &n_gone);
      for (guint i = 0; i < G_N_ELEMENTS (holders); i++)
        holders[i] = (Holder) { g_object_ref (x), round * 10 + i };
      g_object_unref (graph);
      for (guint i = 0; i < G_N_ELEMENTS (holders); i++)
        threads[i] = g_thread_new ("holder", hold_and_drop, &holders[i]);
      for (guint i = 0; i < G_N_ELEMENTS (holders); i++)
        g_thread_join (threads[i]);
      g_assert_cmpuint (n_gone, ==, 1);
    }
}

static void
test_bare_node (void)
{
  /* A script can create one. */
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxNode) node = g_object_new (RLX_TYPE_NODE, NULL);
  g_autofree char *text = rlx_node_to_string (node);
  GVariant *attributes = rlx_node_get_attributes (node);

  g_assert_nonnull (text);
  g_assert_nonnull (attributes);
  g_assert_null (rlx_node_get_graph (node));
  g_assert_null (rlx_node_get_name (node));
  rlx_node_set_name (node, "label");
  g_assert_null (rlx_node_relu (node, &error));
  assert_message (&error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "no graph");
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
  g_assert_null (rlx_node_matmul (y, constant, NULL, &error));
  assert_message (&error, RLX_GRAPH_ERROR_SHAPE, "%2 “x” f32[2, 2]|%1 “one” f32[]");

  rlx_node_set_name (y, long_text);
  g_assert_cmpuint (strlen (rlx_node_get_name (y)), ==, 255);

  /* Truncated at a character boundary. */
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

  /* The results belong to a single node. */
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

  g_assert_finalize_object (g_steal_pointer (&graph));
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
  g_test_add_func ("/graph/node-keeps-graph", test_node_keeps_graph);
  g_test_add_func ("/graph/many-graphs", test_many_graphs);
  g_test_add_func ("/graph/holders", test_holders);
  g_test_add_func ("/graph/bare-node", test_bare_node);
  g_test_add_func ("/graph/run-dispose", test_run_dispose);
  g_test_add_func ("/graph/list-model", test_list_model);
  g_test_add_func ("/graph/reentrancy", test_reentrancy);
  g_test_add_func ("/graph/labels", test_labels);

  return g_test_run ();
}
