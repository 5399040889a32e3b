/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What lies in the memory of a device, counted in bytes.
 */
#include "config.h"

#include "rlx-test-executable.h"

#define WIDTH 256

/* Two layers for @rows rows: y = relu(x a) b + c. */
static RlxExecutable *
build (gint64            rows,
       RlxTensor *const *weights,
       GError          **error)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  const gint64 shape[] = { rows, WIDTH };
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, shape, 2, NULL);
  RlxNode *y = rlx_node_relu (rlx_node_matmul (x, rlx_graph_constant (graph, weights[0], NULL), NULL, NULL), NULL);

  y = rlx_node_matmul (y, rlx_graph_constant (graph, weights[1], NULL), NULL, NULL);
  rlx_graph_output (graph, "y", rlx_node_add (y, rlx_graph_constant (graph, weights[2], NULL), NULL), NULL);
  return rlx_device_compile (rlx_test_device (), graph, NULL, NULL, error);
}

static void
make_weights (RlxTensor **weights)
{
  weights[0] = rlx_test_random ("f32[256,256]", -1, 1, 1);
  weights[1] = rlx_test_random ("f32[256,256]", -1, 1, 2);
  weights[2] = rlx_test_random ("f32[256]", -1, 1, 3);
}

static void
free_weights (RlxTensor **weights)
{
  for (guint i = 0; i < 3; i++)
    g_clear_object (&weights[i]);
}

static guint64
used (void)
{
  return rlx_device_get_memory_used (rlx_test_device ());
}

static guint64
plan_number (RlxExecutable *executable,
             const char    *name)
{
  g_autoptr(GVariant) plan = rlx_executable_dup_plan (executable);
  guint64 number;

  g_assert_true (g_variant_lookup (plan, name, "t", &number));
  return number;
}

/* A tensor of equal rows. */
static RlxTensor *
repeat_row (gint64 rows)
{
  g_autofree char *type = g_strdup_printf ("f32[%d,256]", (int) rows);
  g_autofree float *values = g_new0 (float, (gsize) rows * WIDTH);
  g_autoptr(RlxTensor) row = rlx_test_random ("f32[256]", -1, 1, 4);

  for (gsize i = 0; i < (gsize) rows * WIDTH; i++)
    values[i] = (float) rlx_tensor_get_value (row, i % WIDTH);
  return floats (type, values);
}

static void
assert_same_rows (RlxExecutable *one,
                  gint64         rows,
                  RlxExecutable *other,
                  gint64         other_rows)
{
  g_autoptr(RlxTensor) x = repeat_row (rows), other_x = repeat_row (other_rows);
  g_autoptr(RlxTensor) y = run_one (one, x), other_y = run_one (other, other_x);

  for (gsize i = 0; i < (gsize) other_rows * WIDTH; i++)
    g_assert_cmpfloat_with_epsilon (rlx_tensor_get_value (other_y, i), rlx_tensor_get_value (y, i % WIDTH), 1e-3);
}

/* The same network for two input sizes shares its weights. */
static void
test_weights_once (void)
{
  RlxTensor *weights[3];
  g_autoptr(RlxExecutable) one = NULL, other = NULL;
  g_autoptr(GError) error = NULL;
  guint64 before, with_one, own;

  if (rlx_test_device () == NULL)
    return;

  make_weights (weights);
  before = used ();
  one = build (16, weights, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (plan_number (one, "found-bytes"), ==, 0);
  with_one = used () - before;
  g_assert_cmpuint (with_one, >=, 2 * WIDTH * WIDTH * 4);

  other = build (32, weights, &error);
  g_assert_no_error (error);
  own = rlx_executable_get_arena_size (other) + (64 << 10);
  g_assert_cmpuint (used () - before - with_one, <=, own + with_one / 20);
  g_assert_cmpuint (plan_number (other, "found-bytes"), ==, 2 * WIDTH * WIDTH * 4 + WIDTH * 4);
  g_assert_cmpuint (plan_number (other, "relaid-bytes"), ==, 0);

  /* They are kept as long as they are in use, and not a moment longer. */
  g_clear_object (&one);
  g_assert_cmpuint (used () - before, >=, 2 * WIDTH * WIDTH * 4);
  one = build (16, weights, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (plan_number (one, "found-bytes"), ==, 2 * WIDTH * WIDTH * 4 + WIDTH * 4);
  assert_same_rows (one, 16, other, 32);
  g_clear_object (&one);
  g_clear_object (&other);
  g_assert_cmpuint (used () - before, <, WIDTH * WIDTH * 4);

  other = build (16, weights, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (plan_number (other, "found-bytes"), ==, 0);
  free_weights (weights);
}

/* Another tensor with equal numbers is not shared. */
static void
test_identity (void)
{
  RlxTensor *weights[3], *equal[3];
  g_autoptr(RlxExecutable) one = NULL, other = NULL;
  g_autoptr(GError) error = NULL;

  if (rlx_test_device () == NULL)
    return;

  make_weights (weights);
  make_weights (equal);
  one = build (16, weights, &error);
  g_assert_no_error (error);
  other = build (16, equal, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (plan_number (other, "found-bytes"), ==, 0);
  free_weights (weights);
  free_weights (equal);
}

/* A weight laid out in panels for a product, and row-major for others. */
static void
test_second_layout (void)
{
  g_autoptr(RlxTensor) weight = rlx_test_random ("f32[256,256]", -1, 1, 1);
  const gint64 shape[] = { 64, WIDTH }, flat[] = { WIDTH, WIDTH };
  g_autoptr(RlxGraph) product = rlx_graph_new (), sum = rlx_graph_new ();
  g_autoptr(RlxExecutable) one = NULL, other = NULL;
  g_autofree char *text = NULL;
  RlxNode *x;

  if (rlx_test_device () == NULL)
    return;

  x = rlx_graph_input (sum, "x", RLX_DATA_TYPE_F32, flat, 2, NULL);
  rlx_graph_output (sum, "y", rlx_node_add (x, rlx_graph_constant (sum, weight, NULL), NULL), NULL);
  one = compile (sum);
  x = rlx_graph_input (product, "x", RLX_DATA_TYPE_F32, shape, 2, NULL);
  rlx_graph_output (product, "y", rlx_node_matmul (x, rlx_graph_constant (product, weight, NULL), NULL, NULL), NULL);
  other = compile (product);
  text = rlx_executable_describe_plan (other);
  g_test_message ("%s", text);

  /* The chosen kernel, and so the layout, depends on the device. */
  if (plan_number (other, "relaid-bytes") > 0)
    {
      g_assert_cmpuint (plan_number (other, "relaid-bytes"), >=, WIDTH * WIDTH * 4);
      g_assert_cmpuint (plan_number (other, "found-bytes"), ==, 0);
      g_assert_nonnull (strstr (text, "second layout of f32[256, 256]: in panels of "));
    }
  else
    {
      g_assert_cmpuint (plan_number (other, "found-bytes"), ==, WIDTH * WIDTH * 4);
      g_assert_nonnull (strstr (text, "262144 bytes of weights were on the device"));
    }
}

/* The first one uploads, and nobody reads before that. */
static gpointer
build_and_run (gpointer data)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxTensor) x = rlx_test_random ("f32[16,256]", -1, 1, 4);

  for (guint i = 0; i < 8; i++)
    {
      g_autoptr(RlxExecutable) executable = build (16, data, &error);
      RlxTensor *y;

      g_assert_no_error (error);
      y = run_one (executable, x);
      if (i == 7)
        return y;
      g_object_unref (y);
    }
  return NULL;
}

static void
test_threads (void)
{
  RlxTensor *weights[3];
  GThread *threads[4];
  g_autoptr(RlxTensor) first = NULL;
  guint64 before;

  if (rlx_test_device () == NULL)
    return;

  make_weights (weights);
  before = used ();
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    threads[i] = g_thread_new (NULL, build_and_run, weights);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    {
      g_autoptr(RlxTensor) y = g_thread_join (threads[i]);

      if (i == 0)
        first = g_object_ref (y);
      g_assert_true (rlx_tensor_equal (first, y));
    }
  g_assert_cmpuint (used () - before, <, WIDTH * WIDTH * 4);
  free_weights (weights);
}

/* An upload cancelled by one caller is done by the next. */
static void
test_cancelled (void)
{
  RlxTensor *weights[3];
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) x = rlx_test_random ("f32[16,256]", -1, 1, 4);
  g_autoptr(RlxTensor) y = NULL, again = NULL;
  g_autoptr(GError) error = NULL;
  guint64 before;

  if (rlx_test_device () == NULL)
    return;

  make_weights (weights);
  before = used ();
  for (guint i = 0; i < 20; i++)
    {
      g_autoptr(GCancellable) cancellable = g_cancellable_new ();
      g_autoptr(RlxGraph) graph = rlx_graph_new ();
      const gint64 shape[] = { 16, WIDTH };
      RlxNode *node = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, shape, 2, NULL);

      rlx_graph_output (graph, "y", rlx_node_matmul (node, rlx_graph_constant (graph, weights[0], NULL), NULL, NULL), NULL);
      rlx_device_compile_async (rlx_test_device (), graph, NULL, cancellable, NULL, NULL);
      g_usleep (i * 100);
      g_cancellable_cancel (cancellable);
    }
  executable = build (16, weights, &error);
  g_assert_no_error (error);
  y = run_one (executable, x);
  g_clear_object (&executable);
  /* If it was compiled nevertheless, the main context holds it. */
  for (guint i = 0; i < 100 && used () - before >= WIDTH * WIDTH * 4; i++)
    {
      while (g_main_context_iteration (NULL, FALSE))
        ;
      g_usleep (100000);
    }
  g_assert_cmpuint (used () - before, <, WIDTH * WIDTH * 4);
  executable = build (16, weights, &error);
  g_assert_no_error (error);
  again = run_one (executable, x);
  g_assert_true (rlx_tensor_equal (y, again));
  free_weights (weights);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/memory/weights-once", test_weights_once);
  g_test_add_func ("/memory/identity", test_identity);
  g_test_add_func ("/memory/second-layout", test_second_layout);
  g_test_add_func ("/memory/threads", test_threads);
  g_test_add_func ("/memory/cancelled", test_cancelled);
  return g_test_run ();
}
