/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Experts and neighbours: whole layers, ties, and what is refused.
 */
#include "config.h"

#include <math.h>

#include "rlx-reference.h"
#include "rlx-test-util.h"

#define PARSED(text) g_variant_new_parsed (text)
#define SHAPE RLX_GRAPH_ERROR_SHAPE
#define LIMIT RLX_GRAPH_ERROR_LIMIT
#define INVALID RLX_GRAPH_ERROR_INVALID_ARGUMENT

/* ---- gates ---------------------------------------------------------------------------- */

static void
check_gate (const char   *attributes,
            gint64        n_experts,
            const double *logits,
            const double *bias,
            gint64        k,
            const double *weights,
            const double *experts)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(RlxTensor) bias_tensor = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree RlxNode **results = NULL;
  g_autofree char *type = g_strdup_printf ("f32[%" G_GINT64_FORMAT "]", n_experts), *wanted = g_strdup_printf ("f32[%" G_GINT64_FORMAT "]", k);
  g_autofree char *wanted_indices = g_strdup_printf ("i32[%" G_GINT64_FORMAT "]", k);
  g_autoptr(RlxTensor) x = rlx_test_tensor (type, logits);
  g_autoptr(RlxExecutable) executable = NULL;
  g_auto(RlxTensors) outputs = NULL;
  RlxNode *nodes[2] = { NULL, NULL };
  gsize n_results;

  nodes[0] = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, &n_experts, 1, &error);
  if (bias != NULL)
    {
      bias_tensor = rlx_test_tensor (type, bias);
      nodes[1] = rlx_graph_constant (graph, bias_tensor, &error);
    }
  results = rlx_graph_add_op (graph, "moe_gate", nodes, 2, PARSED (attributes), &n_results, &error);
  g_assert_no_error (error);
  rlx_graph_output (graph, "weights", results[0], &error);
  rlx_graph_output (graph, "experts", results[1], &error);
  executable = rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error);
  g_assert_no_error (error);
  outputs = rlx_executable_run (executable, &x, 1, NULL, NULL, &error);
  g_assert_no_error (error);
  rlx_test_compare ("weights", outputs[0], wanted, weights, 1e-6, 1e-5);
  rlx_test_compare ("experts", outputs[1], wanted_indices, experts, 0, 0);
}

static void
test_gate (void)
{
  const double equal[8] = { 0 }, logits[8] = { 0, 3, 0, 0, 2, 2, 0, 0 }, bias[8] = { 0, 0, 9, 0, 0, 0, 0, 0 };
  const double infinite[4] = { -INFINITY, -INFINITY, 1, -INFINITY };
  double s0 = 1 / (1 + exp (0)), s3 = 1 / (1 + exp (-3)), s2 = 1 / (1 + exp (-2));

  if (rlx_test_device () == NULL)
    return;

  /* ties go to the smaller index */
  check_gate ("{'k': <int64 3>}", 8, equal, NULL, 3, (double[]) { 1 / 3.0, 1 / 3.0, 1 / 3.0 }, (double[]) { 0, 1, 2 });
  check_gate ("{'k': <int64 2>, 'groups': <int64 4>, 'top_groups': <int64 2>}", 8, equal, NULL, 2, (double[]) { 0.5, 0.5 }, (double[]) { 0, 1 });
  /* the sum of the best two makes 4, 5 the best group, though 1 is the best expert */
  check_gate ("{'k': <int64 2>, 'groups': <int64 4>, 'top_groups': <int64 1>, 'scoring': <'sigmoid'>, 'scale': <2.0>}", 8, logits, NULL, 2,
              (double[]) { 1, 1 }, (double[]) { 4, 5 });
  check_gate ("{'k': <int64 3>, 'groups': <int64 4>, 'top_groups': <int64 2>, 'scoring': <'sigmoid'>, 'normalize': <false>}", 8, logits, NULL, 3,
              (double[]) { s3, s2, s2 }, (double[]) { 1, 4, 5 });
  /* the bias is for the choice alone */
  check_gate ("{'k': <int64 2>, 'scoring': <'sigmoid'>, 'normalize': <false>}", 8, logits, bias, 2, (double[]) { s0, s3 }, (double[]) { 2, 1 });
  check_gate ("{'k': <int64 2>}", 4, infinite, NULL, 2, (double[]) { 1, 0 }, (double[]) { 2, 0 });
}

/* ---- layers of experts -------------------------------------------------------------------- */

typedef struct
{
  const char *gate;
  gint64 tokens, width, hidden, experts, k;
  gboolean bias;
} Layer;

/* Σ weight · down (silu (x gate) · (x up)) over the chosen experts, in one graph. */
static RlxGraph *
make_layer (const Layer *self)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(GError) error = NULL;
  g_autofree RlxNode **chosen = NULL;
  const gint64 tokens[] = { self->tokens, self->width }, router[] = { self->width, self->experts };
  const gint64 up[] = { self->experts, self->width, self->hidden }, down[] = { self->experts, self->hidden, self->width };
  const gint64 apart[] = { self->tokens, 1, self->width }, each[] = { self->tokens, self->k, self->width };
  const gint64 rows[] = { self->tokens * self->k, self->width }, all[] = { self->tokens * self->k }, factors[] = { self->tokens, self->k, 1 };
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, tokens, 2, &error);
  RlxNode *nodes[3] = { rlx_node_matmul (x, rlx_graph_input (graph, "router", RLX_DATA_TYPE_F32, router, 2, &error), NULL, &error), };
  RlxNode *w_gate = rlx_graph_input (graph, "w_gate", RLX_DATA_TYPE_F32, up, 3, &error);
  RlxNode *w_up = rlx_graph_input (graph, "w_up", RLX_DATA_TYPE_F32, up, 3, &error);
  RlxNode *w_down = rlx_graph_input (graph, "w_down", RLX_DATA_TYPE_F32, down, 3, &error);
  RlxNode *expert, *weight, *g, *u, *y;
  gsize n_results;

  if (self->bias)
    nodes[1] = rlx_graph_input (graph, "bias", RLX_DATA_TYPE_F32, &self->experts, 1, &error);
  chosen = rlx_graph_add_op (graph, "moe_gate", nodes, 2, PARSED (self->gate), &n_results, &error);
  g_assert_no_error (error);
  expert = rlx_node_reshape (chosen[1], all, 1, &error);
  x = rlx_node_reshape (rlx_node_expand (rlx_node_reshape (x, apart, 3, &error), each, 3, &error), rows, 2, &error);
  g = rlx_node_silu (rlx_node_grouped_matmul (x, w_gate, expert, &error), &error);
  u = rlx_node_grouped_matmul (x, w_up, expert, &error);
  y = rlx_node_grouped_matmul (rlx_node_mul (g, u, &error), w_down, expert, &error);
  weight = rlx_node_reshape (chosen[0], factors, 3, &error);
  y = rlx_node_mul (rlx_node_reshape (y, each, 3, &error), weight, &error);
  nodes[0] = y;
  {
    g_autofree RlxNode **sum = rlx_graph_add_op (graph, "reduce_sum", nodes, 1, PARSED ("{'axes': <[int64 1]>}"), &n_results, &error);

    g_assert_no_error (error);
    rlx_graph_output (graph, "y", sum[0], &error);
  }
  g_assert_no_error (error);
  return g_steal_pointer (&graph);
}

static void
test_layer (gconstpointer data)
{
  const Layer *self = data;
  g_autoptr(RlxGraph) graph = make_layer (self);
  g_autoptr(GPtrArray) inputs = g_ptr_array_new_with_free_func (g_object_unref), expected = NULL;
  g_autoptr(RlxExecutable) executable = NULL;
  g_auto(RlxTensors) outputs = NULL;
  g_autoptr(GError) error = NULL;
  RlxReferenceCheck check;
  char *types[] = {
    g_strdup_printf ("f32[%d,%d]", (int) self->tokens, (int) self->width), g_strdup_printf ("f32[%d,%d]", (int) self->width, (int) self->experts),
    g_strdup_printf ("f32[%d,%d,%d]", (int) self->experts, (int) self->width, (int) self->hidden),
    g_strdup_printf ("f32[%d,%d,%d]", (int) self->experts, (int) self->width, (int) self->hidden),
    g_strdup_printf ("f32[%d,%d,%d]", (int) self->experts, (int) self->hidden, (int) self->width),
    g_strdup_printf ("f32[%d]", (int) self->experts),
  };

  for (guint i = 0; i < (self->bias ? 6 : 5); i++)
    g_ptr_array_add (inputs, rlx_test_random (types[i], -1, 1, i + 1));
  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    g_free (types[i]);
  if (rlx_test_device () == NULL)
    return;

  executable = rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error);
  g_assert_no_error (error);
  outputs = rlx_executable_run (executable, (RlxTensor **) inputs->pdata, inputs->len, NULL, NULL, &error);
  g_assert_no_error (error);
  expected = rlx_reference_run (graph, (RlxTensor **) inputs->pdata, inputs->len, NULL, NULL, 0, RLX_REFERENCE_NONE, &error);
  g_assert_no_error (error);
  if (!rlx_reference_value_check (g_ptr_array_index (expected, 0), outputs[0], &check))
    g_test_fail_printf ("%s: %" G_GSIZE_FORMAT " are wrong, element %" G_GSIZE_FORMAT " is %g instead of %g, with a bound of %g", self->gate,
                        check.n_wrong, check.first_wrong, check.got, check.expected, check.bound);
  /* the choice of few tokens may be in doubt */
  g_assert_cmpuint (check.n_unknown, <=, (gsize) (self->tokens * self->width / 4));
}

/* ---- neighbours ----------------------------------------------------------------------------- */

static void
test_values (void)
{
  RlxTensor *x, *inputs[2];
  g_autoptr(RlxTensor) indices = NULL, without = NULL, distances = NULL, cosine = NULL;

  if (rlx_test_device () == NULL)
    return;

  /* on a line, two of them in one place: ties go to the smaller index */
  x = rlx_test_tensor ("f32[4,1]", (double[]) { 0, 1, 1, 3 });
  indices = rlx_test_run_op ("knn", 1, &x, PARSED ("{'k': <int64 3>}"));
  rlx_test_compare ("knn", indices, "i32[4,3]", (double[]) { 0, 1, 2, 1, 2, 0, 1, 2, 0, 3, 1, 2 }, 0, 0);
  without = rlx_test_run_op ("knn", 1, &x, PARSED ("{'k': <int64 2>, 'exclude_self': <true>}"));
  rlx_test_compare ("knn", without, "i32[4,2]", (double[]) { 1, 2, 2, 0, 1, 0, 1, 2 }, 0, 0);
  distances = rlx_test_run_op ("pairwise_distance", 1, &x, NULL);
  rlx_test_compare ("pairwise_distance", distances, "f32[4,4]", (double[]) { 0, 1, 1, 3, 1, 0, 0, 2, 1, 0, 0, 2, 3, 2, 2, 0 }, 0, 0);
  g_clear_object (&without);
  without = rlx_test_run_op ("knn_from_distances", 1, &distances, PARSED ("{'k': <int64 2>, 'exclude_self': <true>}"));
  rlx_test_compare ("knn_from_distances", without, "i32[4,2]", (double[]) { 1, 2, 2, 0, 1, 0, 1, 2 }, 0, 0);
  g_object_unref (x);

  /* NaN is the farthest; what is 0 has a cosine of 0 */
  inputs[0] = rlx_test_tensor ("f32[2,2]", (double[]) { 0, 0, 1, 1 });
  inputs[1] = rlx_test_tensor ("f32[3,2]", (double[]) { NAN, 0, 2, 2, -1, -1 });
  g_clear_object (&indices);
  indices = rlx_test_run_op ("knn", 2, inputs, PARSED ("{'k': <int64 3>}"));
  rlx_test_compare ("knn", indices, "i32[2,3]", (double[]) { 2, 1, 0, 1, 2, 0 }, 0, 0);
  cosine = rlx_test_run_op ("pairwise_distance", 2, inputs, PARSED ("{'metric': <'cosine'>}"));
  rlx_test_compare ("pairwise_distance", cosine, "f32[2,3]", (double[]) { 1, 1, 1, NAN, 0, 2 }, 1e-6, 0);
  g_object_unref (inputs[0]);
  g_object_unref (inputs[1]);
}

/* As many as there are in earnest, against some rows that are computed here. */
static void
test_many (void)
{
  const gint64 n = 50000, d = 64, k = 15, shape[] = { n, d };
  g_autoptr(GRand) rand = g_rand_new_with_seed (15);
  g_autofree float *values = NULL, *distances = NULL;
  g_autoptr(RlxTensor) indices = NULL;
  g_autofree gint64 *found = NULL;
  RlxTensor *x;
  gsize n_found;

  if (!g_test_slow ())
    {
      g_test_skip ("this takes minutes");
      return;
    }
  if (rlx_test_device () == NULL)
    return;

  values = g_new (float, (gsize) (n * d));
  distances = g_new (float, (gsize) n);
  for (gint64 i = 0; i < n * d; i++)
    values[i] = (float) g_rand_double_range (rand, -1, 1);
  x = rlx_tensor_new_from_floats (shape, 2, values, (gsize) (n * d), NULL);
  indices = rlx_test_run_op ("knn", 1, &x, PARSED ("{'k': <int64 15>, 'exclude_self': <true>}"));
  found = rlx_tensor_to_ints (indices, &n_found, NULL);
  g_assert_cmpuint (n_found, ==, (gsize) (n * k));
  for (gint64 row = 0; row < n; row += 4999)
    {
      double last = 0;
      gint64 n_nearer = 0;

      for (gint64 j = 0; j < n; j++)
        {
          double sum = 0;

          for (gint64 i = 0; i < d; i++)
            sum += (double) (values[row * d + i] - values[j * d + i]) * (double) (values[row * d + i] - values[j * d + i]);
          distances[j] = (float) sum;
        }
      for (gint64 i = 0; i < k; i++)
        {
          gint64 at = found[row * k + i];

          g_assert_true (at >= 0 && at < n && at != row);
          g_assert_cmpfloat (distances[at], >=, last - 1e-4);
          last = distances[at];
        }
      for (gint64 j = 0; j < n; j++)
        n_nearer += j != row && distances[j] < last - 1e-4;
      g_assert_cmpint (n_nearer, <, k);
    }
  g_object_unref (x);
}

/* ---- what is refused --------------------------------------------------------------------------- */

static void
test_rules (void)
{
  rlx_test_refuses ("moe_gate", "f32[3,10]", PARSED ("{'k': <int64 2>, 'groups': <int64 4>}"), INVALID, "10 experts");
  rlx_test_refuses ("moe_gate", "f32[3,10]", PARSED ("{'k': <int64 11>}"), INVALID, "from 1 to 10");
  rlx_test_refuses ("moe_gate", "f32[3,12]", PARSED ("{'k': <int64 7>, 'groups': <int64 4>, 'top_groups': <int64 2>}"), INVALID, "from 1 to 6");
  rlx_test_refuses ("moe_gate", "f32[3,12]", PARSED ("{'k': <int64 1>, 'groups': <int64 4>, 'top_groups': <int64 5>}"), INVALID, "top_groups is 5");
  rlx_test_refuses ("moe_gate", "f32[3,12]", PARSED ("{'k': <int64 1>, 'groups': <int64 0>}"), INVALID, "0 groups");
  rlx_test_refuses ("moe_gate", "f32[3,12] f32[11]", PARSED ("{'k': <int64 1>}"), SHAPE, "bias");
  rlx_test_refuses ("moe_gate", "f32[]", PARSED ("{'k': <int64 1>}"), SHAPE, "no dimensions");

  rlx_test_infers ("pairwise_distance", "f16[2,5,3] f16[2,0,3]", NULL, "f16[2,5,0]");
  rlx_test_refuses ("pairwise_distance", "f32[5]", NULL, SHAPE, "dimensions");
  rlx_test_refuses ("pairwise_distance", "f32[5,3] f32[5,4]", NULL, SHAPE, "may differ");
  rlx_test_refuses ("pairwise_distance", "f32[2,5,3] f32[3,5,3]", NULL, SHAPE, "may differ");

  rlx_test_refuses ("knn", "f32[5,3]", PARSED ("{'k': <int64 6>}"), INVALID, "from 1 to 5");
  rlx_test_refuses ("knn", "f32[5,3]", PARSED ("{'k': <int64 5>, 'exclude_self': <true>}"), INVALID, "from 1 to 4");
  rlx_test_refuses ("knn", "f32[5,3]", PARSED ("{'k': <int64 0>}"), INVALID, "k is 0");
  rlx_test_refuses ("knn", "f32[500,3]", PARSED ("{'k': <int64 257>}"), LIMIT, "256");
  rlx_test_refuses ("knn", "f32[5,3] f32[6,3]", PARSED ("{'k': <int64 1>, 'exclude_self': <true>}"), INVALID, "among others");
  rlx_test_refuses ("knn_from_distances", "f32[5,6]", PARSED ("{'k': <int64 1>, 'exclude_self': <true>}"), SHAPE, "diagonal");
  rlx_test_refuses ("knn_from_distances", "f32[5,6]", PARSED ("{'k': <int64 7>}"), INVALID, "from 1 to 6");
}

int
main (int   argc,
      char *argv[])
{
  static const Layer mixtral = { "{'k': <int64 2>}", 9, 16, 24, 8, 2, FALSE };
  static const Layer deepseek = {
    "{'k': <int64 4>, 'groups': <int64 4>, 'top_groups': <int64 2>, 'scoring': <'sigmoid'>, 'scale': <2.5>}", 9, 16, 8, 16, 4, TRUE,
  };

  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/neighbours/gate", test_gate);
  g_test_add_data_func ("/neighbours/mixtral", &mixtral, test_layer);
  g_test_add_data_func ("/neighbours/deepseek", &deepseek, test_layer);
  g_test_add_func ("/neighbours/values", test_values);
  g_test_add_func ("/neighbours/many", test_many);
  g_test_add_func ("/neighbours/rules", test_rules);

  return g_test_run ();
}
