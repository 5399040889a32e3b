/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Experts and neighbours: whole layers, ties, and what is refused.
 */
#include "config.h"

#include <math.h>

#include "rlx-reference.h"
#include "rlx-test-packed.h"
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
  const double infinite[4] = { -INFINITY, -INFINITY, 1, -INFINITY }, broken[4] = { 0, NAN, 3, 0 };
  double s0 = 1 / (1 + exp (0)), s3 = 1 / (1 + exp (-3)), s2 = 1 / (1 + exp (-2));

  if (rlx_test_device () == NULL)
    return;

  /* ties go to the smaller index */
  check_gate ("{'k': <int64 3>}", 8, equal, NULL, 3, (double[]) { 1 / 3.0, 1 / 3.0, 1 / 3.0 }, (double[]) { 0, 1, 2 });
  check_gate ("{'k': <int64 2>, 'groups': <int64 4>, 'top_groups': <int64 2>}", 8, equal, NULL, 2, (double[]) { 0.5, 0.5 }, (double[]) { 0, 1 });
  /* the sums of the best two make 4 and 5 the best group, though 1 is the best expert */
  check_gate ("{'k': <int64 2>, 'groups': <int64 4>, 'top_groups': <int64 1>, 'scoring': <'sigmoid'>, 'scale': <2.0>}", 8, logits, NULL, 2,
              (double[]) { 1, 1 }, (double[]) { 4, 5 });
  check_gate ("{'k': <int64 3>, 'groups': <int64 4>, 'top_groups': <int64 2>, 'scoring': <'sigmoid'>, 'normalize': <false>}", 8, logits, NULL, 3,
              (double[]) { s3, s2, s2 }, (double[]) { 1, 4, 5 });
  /* the bias affects only the choice */
  check_gate ("{'k': <int64 2>, 'scoring': <'sigmoid'>, 'normalize': <false>}", 8, logits, bias, 2, (double[]) { s0, s3 }, (double[]) { 2, 1 });
  check_gate ("{'k': <int64 2>}", 4, infinite, NULL, 2, (double[]) { 1, 0 }, (double[]) { 2, 0 });
  /* NaN is chosen first, so that it is noticed */
  check_gate ("{'k': <int64 2>, 'scoring': <'sigmoid'>, 'normalize': <false>}", 4, broken, NULL, 2, (double[]) { NAN, s3 }, (double[]) { 1, 2 });
}

/* ---- layers of experts -------------------------------------------------------------------- */

typedef struct
{
  const char *gate;
  gint64 tokens, width, hidden, experts, k;
  gboolean bias;
} Layer;

/* The inputs of a graph, and their tensors. */
typedef struct
{
  RlxGraph *graph;
  GPtrArray *values;
  GRand *rand;
  GError *error;
} Inputs;

static RlxNode *
add_input (Inputs     *self,
           const char *name,
           RlxTensor  *value)
{
  gsize n_dims;
  const gint64 *shape = rlx_tensor_get_shape (value, &n_dims);

  g_ptr_array_add (self->values, value);
  return rlx_graph_input (self->graph, name, rlx_tensor_get_data_type (value), shape, n_dims, &self->error);
}

static RlxNode *
add_random (Inputs     *self,
            const char *name,
            double      size,
            const char *format,
            ...) G_GNUC_PRINTF (4, 5);

static RlxNode *
add_random (Inputs     *self,
            const char *name,
            double      size,
            const char *format,
            ...)
{
  g_autofree char *type = NULL;
  va_list args;

  va_start (args, format);
  type = g_strdup_vprintf (format, args);
  va_end (args);
  return add_input (self, name, rlx_test_random (type, -size, size, g_rand_int (self->rand)));
}

/* Each row times the matrix of its expert, which has @n columns, or rows of packed numbers. */
static RlxNode *
multiply (Inputs              *self,
          const Layer         *layer,
          const RlxTestPacked *format,
          const char          *name,
          RlxNode             *x,
          gint64               n,
          RlxNode             *expert)
{
  gint64 width = rlx_node_get_shape (x, NULL)[1];
  g_autofree RlxNode **product = NULL;
  g_autofree char *prefix = g_strdup_printf ("%d,", (int) layer->experts), *scale = g_strconcat (name, " scale", NULL);
  gboolean scaled = format != NULL && format >= rlx_test_packed + RLX_TEST_FIRST_SCALED;
  RlxNode *nodes[6] = { x, NULL, NULL, NULL, NULL, expert };

  if (format == NULL)
    return rlx_node_grouped_matmul (x, add_random (self, name, 1, "f32[%d,%d,%d]", (int) layer->experts, (int) width, (int) n), expert,
                                    &self->error);
  nodes[1] = add_input (self, name, rlx_test_packed_rows (format, prefix, (gsize) layer->experts, (gsize) n, (gsize) width, FALSE, TRUE, self->rand));
  if (scaled)
    nodes[2] = add_random (self, scale, 1, "f32[%d,%d,%d]", (int) layer->experts, (int) n, (int) width / 32);
  product = rlx_graph_add_op (self->graph, "dequant_matmul", nodes, 6,
                              g_variant_new_parsed ("{'type': <%s>, 'block_size': <%x>}", format->name, (gint64) (scaled ? 32 : 0)),
                              NULL, &self->error);
  g_assert_no_error (self->error);
  return product[0];
}

/* Σ weight · down (silu (x gate) · (x up)) over the chosen experts, in one graph. */
static void
make_layer (Inputs              *self,
            const Layer         *layer,
            const RlxTestPacked *format)
{
  GError **error = &self->error;
  g_autofree RlxNode **chosen = NULL, **sum = NULL;
  const gint64 apart[] = { layer->tokens, 1, layer->width }, each[] = { layer->tokens, layer->k, layer->width };
  const gint64 rows[] = { layer->tokens * layer->k, layer->width }, all[] = { layer->tokens * layer->k }, factors[] = { layer->tokens, layer->k, 1 };
  /* packed numbers can be in the thousands, and scores of more than a few would all be nearly 1 */
  const double size = format != NULL ? 0x1p-10 : 1;
  RlxNode *x = add_random (self, "x", size, "f32[%d,%d]", (int) layer->tokens, (int) layer->width);
  RlxNode *router = add_random (self, "router", 4 / size / sqrt ((double) layer->width), "f32[%d,%d]", (int) layer->width, (int) layer->experts);
  RlxNode *nodes[2] = { rlx_node_matmul (x, router, NULL, error), NULL };
  RlxNode *expert, *g, *u, *y;

  if (layer->bias)
    nodes[1] = add_random (self, "bias", 1, "f32[%d]", (int) layer->experts);
  chosen = rlx_graph_add_op (self->graph, "moe_gate", nodes, 2, PARSED (layer->gate), NULL, error);
  g_assert_no_error (self->error);
  expert = rlx_node_reshape (chosen[1], all, 1, error);
  x = rlx_node_reshape (rlx_node_expand (rlx_node_reshape (x, apart, 3, error), each, 3, error), rows, 2, error);
  g = rlx_node_silu (multiply (self, layer, format, "gate", x, layer->hidden, expert), error);
  u = multiply (self, layer, format, "up", x, layer->hidden, expert);
  y = multiply (self, layer, format, "down", rlx_node_mul (g, u, error), layer->width, expert);
  nodes[0] = rlx_node_mul (rlx_node_reshape (y, each, 3, error), rlx_node_reshape (chosen[0], factors, 3, error), error);
  sum = rlx_graph_add_op (self->graph, "reduce_sum", nodes, 1, PARSED ("{'axes': <[int64 1]>}"), NULL, error);
  g_assert_no_error (self->error);
  rlx_graph_output (self->graph, "y", sum[0], error);
}

static void
check_layer (const Layer         *layer,
             const RlxTestPacked *format)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(GPtrArray) values = g_ptr_array_new_with_free_func (g_object_unref), expected = NULL;
  g_autoptr(GRand) rand = g_rand_new_with_seed (15);
  Inputs inputs = { graph, values, rand, NULL };
  g_autoptr(RlxExecutable) executable = NULL;
  g_auto(RlxTensors) outputs = NULL;
  g_autoptr(GError) error = NULL;
  RlxReferenceCheck check;

  if (rlx_test_device () == NULL)
    return;

  make_layer (&inputs, layer, format);
  executable = rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error);
  g_assert_no_error (error);
  outputs = rlx_executable_run (executable, (RlxTensor **) values->pdata, values->len, NULL, NULL, &error);
  g_assert_no_error (error);
  expected = rlx_reference_run (graph, (RlxTensor **) values->pdata, values->len, NULL, NULL, 0, RLX_REFERENCE_NONE, &error);
  g_assert_no_error (error);
  if (!rlx_reference_value_check (g_ptr_array_index (expected, 0), outputs[0], &check))
    g_test_fail_printf ("%s of %s: %" G_GSIZE_FORMAT " are wrong, element %" G_GSIZE_FORMAT " is %g instead of %g, with a bound of %g",
                        layer->gate, format ? format->name : "f32", check.n_wrong, check.first_wrong, check.got, check.expected, check.bound);
  /* the choice for a few tokens may be ambiguous */
  g_assert_cmpuint (check.n_unknown, <=, (gsize) (layer->tokens * layer->width / 4));
}

static void
test_layer (gconstpointer data)
{
  check_layer (data, NULL);
}

/* Experts that stay packed: testing all types takes long, as each is a kernel of its own. */
static void
test_packed_layer (gconstpointer data)
{
  Layer layer = *(const Layer *) data;

  /* a block of every type */
  layer.width = layer.hidden = 256;
  layer.tokens = 4;
  for (guint i = 0; i < RLX_TEST_N_PACKED; i++)
    if (g_test_slow () || g_str_equal (rlx_test_packed[i].name, layer.bias ? "q4-k" : "int4"))
      check_layer (&layer, &rlx_test_packed[i]);
}

/* ---- neighbours ----------------------------------------------------------------------------- */

static void
test_values (void)
{
  RlxTensor *x, *inputs[2];
  g_autoptr(RlxTensor) indices = NULL, without = NULL, distances = NULL, cosine = NULL;

  if (rlx_test_device () == NULL)
    return;

  /* on a line, two of them coincide: ties go to the smaller index */
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

  /* NaN is the farthest; the cosine of a zero vector is 0 */
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

/* ---- boxes ------------------------------------------------------------------------------------ */

/* Corners in any order, a tie, a NaN score, touching boxes, and fewer than there is room for. */
static void
test_boxes (void)
{
  RlxTensor *inputs[2];
  g_autoptr(RlxTensor) y = NULL, few = NULL, all = NULL;

  rlx_test_infers ("non_max_suppression", "f32[2,7,4] f32[2,3,7]", PARSED ("{'max_boxes': <int64 9>}"), "i32[2,3,7]");
  rlx_test_refuses ("non_max_suppression", "f32[2,7,4] f32[2,3,8]", PARSED ("{'max_boxes': <int64 9>}"), SHAPE, "[batch, classes, n]");
  rlx_test_refuses ("non_max_suppression", "f32[2,7,5] f32[2,3,7]", PARSED ("{'max_boxes': <int64 9>}"), SHAPE, "f32[2, 7, 5]");
  rlx_test_refuses ("non_max_suppression", "f32[2,7,4] f32[2,3,7]", PARSED ("{'max_boxes': <int64 -1>}"), INVALID, "max_boxes is -1");
  rlx_test_refuses ("non_max_suppression", "f32[2,7,4] f32[2,3,7]", PARSED ("{'max_boxes': <int64 1>, 'overlap': <1.5>}"), INVALID, "from 0 to 1");
  if (rlx_test_device () == NULL)
    return;

  /* 1 covers half of 0, which is exactly the limit; 2 is 0 with its corners swapped; 3 touches; 4 has no score */
  inputs[0] = rlx_test_tensor ("f32[1,5,4]", (double[]) { 0, 0, 4, 4, 0, 0, 4, 2, 4, 4, 0, 0, 4, 0, 8, 4, 9, 9, 10, 10 });
  inputs[1] = rlx_test_tensor ("f32[1,2,5]", (double[]) { 1, 0.5, 1, 0.25, NAN, -1, 3, -2, 2, -3 });
  y = rlx_test_run_op ("non_max_suppression", 2, inputs, PARSED ("{'max_boxes': <int64 4>, 'overlap': <0.5>, 'score': <-2.5>}"));
  rlx_test_compare ("limit", y, "i32[1,2,4]", (double[]) { 0, 1, 3, -1, 1, 3, 0, -1 }, 0, 0);
  few = rlx_test_run_op ("non_max_suppression", 2, inputs, PARSED ("{'max_boxes': <int64 2>, 'overlap': <0.4>}"));
  rlx_test_compare ("few", few, "i32[1,2,2]", (double[]) { 0, 3, 1, 3 }, 0, 0);
  all = rlx_test_run_op ("non_max_suppression", 2, inputs, PARSED ("{'max_boxes': <int64 5>, 'overlap': <1.0>}"));
  rlx_test_compare ("all", all, "i32[1,2,5]", (double[]) { 0, 2, 1, 3, -1, 1, 3, 0, 2, 4 }, 0, 0);
  g_object_unref (inputs[0]);
  g_object_unref (inputs[1]);
}

/* More boxes than steps of limited length can go through. */
static void
test_too_many_boxes (void)
{
  const gint64 n = 2000000;
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) plan = NULL;
  RlxNode *boxes = rlx_graph_input (graph, "boxes", RLX_DATA_TYPE_F32, (gint64[]) { 1, n, 4 }, 3, NULL);
  RlxNode *scores = rlx_graph_input (graph, "scores", RLX_DATA_TYPE_F32, (gint64[]) { 1, 1, n }, 3, NULL);

  rlx_graph_output (graph, "y", rlx_node_non_max_suppression (boxes, scores, n, NULL, &error), NULL);
  g_assert_no_error (error);
  plan = rlx_graph_plan_for (graph, "lavapipe", NULL, &error);
  g_assert_null (plan);
  g_assert_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_LIMIT);
  g_assert_nonnull (strstr (error->message, "takes 8000 steps, more than 4096"));
}

/* Realistic numbers of points, compared with some rows computed here. */
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

/* ---- rejected calls ---------------------------------------------------------------------------- */

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
  g_test_add_data_func ("/neighbours/mixtral-packed", &mixtral, test_packed_layer);
  g_test_add_data_func ("/neighbours/deepseek-packed", &deepseek, test_packed_layer);
  g_test_add_func ("/neighbours/values", test_values);
  g_test_add_func ("/neighbours/boxes", test_boxes);
  g_test_add_func ("/neighbours/too-many-boxes", test_too_many_boxes);
  g_test_add_func ("/neighbours/many", test_many);
  g_test_add_func ("/neighbours/rules", test_rules);

  return g_test_run ();
}
