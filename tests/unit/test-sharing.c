/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * How many dispatches and how many different kernels networks of usual shapes
 * take: nodes of the same kind share a pipeline, however many there are.
 */
#include "config.h"

#include <stdarg.h>

#include "rlx-test-util.h"

typedef struct
{
  RlxGraph *graph;
  guint n_parameters;
} Net;

static RlxNode *
add (Net        *net,
     const char *op,
     const char *attributes,
     RlxNode    *a,
     RlxNode    *b,
     RlxNode    *c)
{
  g_autoptr (GError) error = NULL;
  g_autofree RlxNode **results = NULL;
  RlxNode *inputs[] = { a, b, c };
  GVariant *parsed = attributes != NULL ? g_variant_new_parsed (attributes) : NULL;
  gsize n;

  results = rlx_graph_add_op (net->graph, op, inputs, c != NULL ? 3 : b != NULL ? 2 : 1, parsed, &n, &error);
  g_assert_no_error (error);
  return results[0];
}

static RlxNode *
parameter (Net   *net,
           gsize  n_dims,
           ...)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *name = g_strdup_printf ("w%u", net->n_parameters++);
  gint64 shape[RLX_MAX_DIMS];
  RlxNode *node;
  va_list args;

  va_start (args, n_dims);
  for (gsize i = 0; i < n_dims; i++)
    shape[i] = va_arg (args, int);
  va_end (args);
  node = rlx_graph_parameter (net->graph, name, RLX_DATA_TYPE_F32, shape, n_dims, &error);
  g_assert_no_error (error);
  return node;
}

static RlxNode *
input (Net          *net,
       const gint64 *shape,
       gsize         n_dims)
{
  g_autoptr (GError) error = NULL;
  RlxNode *node = rlx_graph_input (net->graph, "x", RLX_DATA_TYPE_F32, shape, n_dims, &error);

  g_assert_no_error (error);
  return node;
}

typedef struct
{
  guint32 pipelines;
  guint32 dispatches;
} Counts;

static Counts
compile (Net        *net,
         const char *name,
         RlxNode    *result)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxGraph) graph = net->graph;
  g_autoptr (RlxExecutable) executable = NULL;
  g_autoptr (GVariant) plan = NULL;
  gint64 start = g_get_monotonic_time ();
  Counts counts = { 0, 0 };

  rlx_graph_output (graph, "y", result, NULL);
  executable = rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error);
  g_assert_no_error (error);
  plan = rlx_executable_dup_plan (executable);
  g_assert_true (g_variant_lookup (plan, "pipelines", "u", &counts.pipelines));
  g_assert_true (g_variant_lookup (plan, "dispatches", "u", &counts.dispatches));
  g_test_message ("%s: %u nodes, %u dispatches, %u pipelines, compiled in %.0f ms", name,
                  g_list_model_get_n_items (G_LIST_MODEL (graph)), counts.dispatches, counts.pipelines,
                  (double) (g_get_monotonic_time () - start) * 1e-3);
  return counts;
}

/* ---- a residual network ------------------------------------------------------------ */

static RlxNode *
conv (Net     *net,
      RlxNode *x,
      int      from,
      int      to,
      int      size,
      int      stride)
{
  g_autofree char *attributes = g_strdup_printf ("{'strides': <[int64 %d, %d]>, 'padding': <[int64 %d, %d, %d, %d]>}",
                                                 stride, stride, size / 2, size / 2, size / 2, size / 2);

  return add (net, "conv", attributes, x, parameter (net, 4, to, from, size, size), parameter (net, 1, to));
}

static RlxNode *
block (Net     *net,
       RlxNode *x,
       int      from,
       int      to)
{
  int stride = from == to ? 1 : 2;
  RlxNode *y = add (net, "relu", NULL, conv (net, x, from, to, 3, stride), NULL, NULL);

  y = conv (net, y, to, to, 3, 1);
  if (from != to)
    x = conv (net, x, from, to, 1, 2);
  return add (net, "relu", NULL, add (net, "add", NULL, y, x, NULL), NULL, NULL);
}

/* ResNet-18, with fewer of everything except layers. */
static void
test_residual (void)
{
  enum { WIDTH = 16 };
  Net net = { NULL, 0 };
  RlxNode *x;
  Counts counts;

  if (rlx_test_device () == NULL)
    return;
  net.graph = rlx_graph_new ();
  x = input (&net, (gint64[]) { 1, 3, 64, 64 }, 4);
  x = add (&net, "relu", NULL, conv (&net, x, 3, WIDTH, 7, 2), NULL, NULL);
  x = add (&net, "max_pool", "{'window': <[int64 3, 3]>, 'strides': <[int64 2, 2]>, 'padding': <[int64 1, 1, 1, 1]>}", x, NULL, NULL);
  for (int stage = 0; stage < 4; stage++)
    {
      int width = WIDTH << stage;

      x = block (&net, x, stage == 0 ? width : width / 2, width);
      x = block (&net, x, width, width);
    }
  x = add (&net, "average_pool", NULL, x, NULL, NULL);
  x = add (&net, "reshape", "{'shape': <[int64 1, -1]>}", x, NULL, NULL);
  x = add (&net, "linear", "{'transpose_b': <true>}", x, parameter (&net, 2, 1000, WIDTH << 3), parameter (&net, 1, 1000));
  counts = compile (&net, "residual", x);

  /* 20 convolutions, 17 activations, two pools (one in two steps) and a product, or fewer
   * if they are fused */
  g_assert_cmpuint (counts.dispatches, <=, 41);
  /* pools and the product are one kernel each; convolutions differ in tiles, and in their
   * epilogues: none, an activation, or that of a sum */
  g_assert_cmpuint (counts.pipelines, <=, 20);
}

/* ---- a transformer --------------------------------------------------------------------- */

static RlxNode *
heads (Net     *net,
       RlxNode *x)
{
  x = add (net, "reshape", "{'shape': <[int64 1, 48, 4, 16]>}", x, NULL, NULL);
  return add (net, "transpose", "{'permutation': <[int64 0, 2, 1, 3]>}", x, NULL, NULL);
}

static RlxNode *
linear (Net     *net,
        RlxNode *x,
        int      from,
        int      to)
{
  return add (net, "linear", NULL, x, parameter (net, 2, from, to), parameter (net, 1, to));
}

static RlxNode *
norm (Net     *net,
      RlxNode *x)
{
  return add (net, "layer_norm", NULL, x, parameter (net, 1, 64), parameter (net, 1, 64));
}

static Counts
build_transformer (guint n_layers)
{
  Net net = { rlx_graph_new (), 0 };
  RlxNode *x = input (&net, (gint64[]) { 1, 48, 64 }, 3);

  for (guint i = 0; i < n_layers; i++)
    {
      RlxNode *y = norm (&net, x);
      RlxNode *q = heads (&net, linear (&net, y, 64, 64));
      RlxNode *k = heads (&net, linear (&net, y, 64, 64));
      RlxNode *v = heads (&net, linear (&net, y, 64, 64));

      y = add (&net, "attention", NULL, q, k, v);
      y = add (&net, "transpose", "{'permutation': <[int64 0, 2, 1, 3]>}", y, NULL, NULL);
      y = add (&net, "reshape", "{'shape': <[int64 1, 48, 64]>}", y, NULL, NULL);
      x = add (&net, "add", NULL, x, linear (&net, y, 64, 64), NULL);
      y = add (&net, "gelu", NULL, linear (&net, norm (&net, x), 64, 256), NULL, NULL);
      x = add (&net, "add", NULL, x, linear (&net, y, 256, 64), NULL);
    }
  return compile (&net, n_layers == 1 ? "transformer of one layer" : "transformer", x);
}

static void
test_transformer (void)
{
  Counts one, all;

  if (rlx_test_device () == NULL)
    return;
  one = build_transformer (1);
  all = build_transformer (12);

  /* Two norms, four products, one of which computes query, key and value, and attention.
   * Transposes and epilogues are fused with these. Sums are too short here to be split,
   * which would take an additional step. */
  g_assert_cmpuint (one.dispatches, <=, 7);
  g_assert_cmpuint (one.pipelines, <=, 10);
  g_assert_cmpuint (all.dispatches, <=, 12 * one.dispatches);
  g_assert_cmpuint (all.pipelines, ==, one.pipelines);
}

/* ---- a decoder ------------------------------------------------------------------------- */

static RlxNode *
leaf (Net          *net,
      const char   *name,
      RlxDataType   data_type,
      const gint64 *shape,
      gsize         n_dims)
{
  g_autoptr (GError) error = NULL;
  RlxNode *node = rlx_graph_input (net->graph, name, data_type, shape, n_dims, &error);

  g_assert_no_error (error);
  return node;
}

/* A cache of 96 tokens into which @rows are written at @position. */
static RlxNode *
cache (Net        *net,
       const char *kind,
       RlxNode    *rows,
       RlxNode    *position)
{
  const gint64 shape[] = { 1, 96, 2, 16 };
  g_autofree float *zeros = g_new0 (float, 96 * 2 * 16);
  g_autofree char *name = g_strdup_printf ("%s%u", kind, net->n_parameters++);
  g_autoptr (RlxTensor) initial = NULL;
  g_autoptr (GError) error = NULL;
  RlxNode *state, *next;

  initial = rlx_tensor_new_from_data (RLX_DATA_TYPE_F32, shape, 4, (const guint8 *) zeros, 96 * 2 * 16 * sizeof (float), &error);
  g_assert_no_error (error);
  state = rlx_graph_state (net->graph, name, initial, &error);
  g_assert_no_error (error);
  next = add (net, "write_at", "{'axis': <int64 1>}", state, rows, position);
  rlx_graph_assign (net->graph, state, next, &error);
  g_assert_no_error (error);
  return next;
}

static RlxNode *
project (Net     *net,
         RlxNode *x,
         int      from,
         int      to)
{
  return add (net, "matmul", NULL, x, parameter (net, 2, from, to), NULL);
}

static RlxNode *
turn (Net     *net,
      RlxNode *x,
      int      tokens,
      int      n_heads,
      RlxNode *positions)
{
  g_autofree char *shape = g_strdup_printf ("{'shape': <[int64 1, %d, %d, 16]>}", tokens, n_heads);

  x = add (net, "reshape", shape, x, NULL, NULL);
  return positions != NULL ? add (net, "rope", "{'layout': <'sequence-first'>}", x, positions, NULL) : x;
}

static RlxNode *
rms_norm (Net     *net,
          RlxNode *x)
{
  return add (net, "rms_norm", NULL, x, parameter (net, 1, 64), NULL);
}

static RlxNode *
attend (Net     *net,
        RlxNode *q,
        RlxNode *k,
        RlxNode *v,
        RlxNode *lengths)
{
  g_autoptr (GError) error = NULL;
  g_autofree RlxNode **results = NULL;
  RlxNode *inputs[] = { q, k, v, NULL, lengths };
  gsize n;

  results = rlx_graph_add_op (net->graph, "attention", inputs, 5, g_variant_new_parsed ("{'layout': <'sequence-first'>, 'causal': <true>}"),
                              &n, &error);
  g_assert_no_error (error);
  return results[0];
}

/* As in Llama: RMS norm, projections with fewer key heads, rotary positions, a cache for
 * keys and values, attention to it, output and residual; norm, gate, residual. */
static Counts
build_decoder (guint n_layers,
               int   tokens)
{
  g_autofree char *name = g_strdup_printf ("decoder of %u layers, %d tokens", n_layers, tokens);
  g_autofree char *flat = g_strdup_printf ("{'shape': <[int64 1, %d, 64]>}", tokens);
  Net net = { rlx_graph_new (), 0 };
  RlxNode *x = input (&net, (gint64[]) { 1, tokens, 64 }, 3);
  RlxNode *positions = leaf (&net, "positions", RLX_DATA_TYPE_I32, (gint64[]) { tokens }, 1);
  RlxNode *position = leaf (&net, "position", RLX_DATA_TYPE_I32, NULL, 0);
  RlxNode *lengths = leaf (&net, "lengths", RLX_DATA_TYPE_I32, (gint64[]) { 1 }, 1);

  for (guint i = 0; i < n_layers; i++)
    {
      RlxNode *y = rms_norm (&net, x);
      RlxNode *q = turn (&net, project (&net, y, 64, 64), tokens, 4, positions);
      RlxNode *k = turn (&net, project (&net, y, 64, 32), tokens, 2, positions);
      RlxNode *v = turn (&net, project (&net, y, 64, 32), tokens, 2, NULL);

      y = attend (&net, q, cache (&net, "k", k, position), cache (&net, "v", v, position), lengths);
      y = add (&net, "reshape", flat, y, NULL, NULL);
      x = add (&net, "add", NULL, x, project (&net, y, 64, 64), NULL);
      y = rms_norm (&net, x);
      y = add (&net, "mul", NULL, add (&net, "silu", NULL, project (&net, y, 64, 128), NULL, NULL), project (&net, y, 64, 128), NULL);
      x = add (&net, "add", NULL, x, project (&net, y, 128, 64), NULL);
    }
  return compile (&net, name, x);
}

/* Several tokens at a time: many for a prompt, then one by one. */
static void
test_decoder (void)
{
  static const int tokens[] = { 32, 1 };

  if (rlx_test_device () == NULL)
    return;
  for (guint i = 0; i < G_N_ELEMENTS (tokens); i++)
    {
      Counts one = build_decoder (1, tokens[i]), all = build_decoder (8, tokens[i]);

      /* Norm; query, key and value; positions and caches; attention; output; norm; gate;
       * up projection; down projection. */
      g_assert_cmpuint (one.dispatches, ==, 9);
      g_assert_cmpuint (all.dispatches, ==, 8 * one.dispatches);
      g_assert_cmpuint (all.pipelines, ==, one.pipelines);
    }
}

/* ---- many nodes --------------------------------------------------------------------------- */

/* Ten operators, a hundred times each, with different shapes every time. */
static void
test_thousand (void)
{
  Net net = { NULL, 0 };
  RlxNode *x;
  Counts counts;

  if (rlx_test_device () == NULL)
    return;
  net.graph = rlx_graph_new ();
  x = input (&net, (gint64[]) { 40, 100 }, 2);
  for (int i = 0; i < 100; i++)
    {
      int from = i == 0 ? 100 : 100 + i - 1, to = 100 + i;
      g_autofree char *slice = g_strdup_printf ("{'starts': <[int64 0, 1]>, 'ends': <[int64 %d, 40]>}", to);

      x = add (&net, "matmul", NULL, x, parameter (&net, 2, from, to), NULL);
      x = add (&net, "softmax", "{'axis': <int64 -1>}", x, NULL, NULL);
      x = add (&net, "transpose", "{'permutation': <[int64 1, 0]>}", x, NULL, NULL);
      x = add (&net, "concat", "{'axis': <int64 1>}", add (&net, "slice", slice, x, NULL, NULL),
               add (&net, "reduce_max", "{'axes': <[int64 1]>, 'keep_dims': <true>}", x, NULL, NULL), NULL);
      x = add (&net, "tanh", NULL, x, NULL, NULL);
      x = add (&net, "mul", NULL, x, parameter (&net, 2, to, 1), NULL);
      x = add (&net, "cumsum", "{'axis': <int64 1>}", x, NULL, NULL);
      x = add (&net, "transpose", "{'permutation': <[int64 1, 0]>}", x, NULL, NULL);
    }
  counts = compile (&net, "thousand", x);

  /* tanh and mul are fused; concat takes a step per operand, and cumsum up to three */
  g_assert_cmpuint (counts.dispatches, <=, 1300);
  /* one per kind of node; sums of long and short rows, and tiles of two kinds, may be two kernels */
  g_assert_cmpuint (counts.pipelines, <=, 14);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/sharing/residual", test_residual);
  g_test_add_func ("/sharing/transformer", test_transformer);
  g_test_add_func ("/sharing/decoder", test_decoder);
  g_test_add_func ("/sharing/thousand", test_thousand);

  return g_test_run ();
}
