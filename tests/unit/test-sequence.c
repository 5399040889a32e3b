/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Sequences with a state: in one piece and in several, with the state on the device; by hand; what is refused and why.
 */
#include "config.h"

#include <math.h>
#include <string.h>

#include "rlx-reference.h"
#include "rlx-test-util.h"

#define MAX_INPUTS 7

/* An operand, in whose shapes %d stands for the number of steps. */
typedef struct
{
  const char *type;
  double from, to;
} Operand;

typedef struct
{
  const char *op;
  Operand operands[MAX_INPUTS];   /* except the initial state, which follows them */
  const char *state;
} Sequence;

static const Sequence sequences[] = {
  { "selective_scan",
    { { "f32[1,%d,20]", -1, 1 }, { "f32[1,%d,20]", 0, 1 }, { "f32[20,6]", -2, 0 }, { "f32[1,%d,6]", -1, 1 }, { "f32[1,%d,6]", -1, 1 },
      { "f32[20]", -1, 1 } }, "f32[1,20,6]" },
  { "mamba2",
    { { "f32[1,%d,4,10]", -1, 1 }, { "f32[1,%d,4]", 0, 1 }, { "f32[4]", -2, 0 }, { "f32[1,%d,2,6]", -1, 1 }, { "f32[1,%d,2,6]", -1, 1 },
      { "f32[4]", -1, 1 } }, "f32[1,4,10,6]" },
  { "gated_delta_net",
    { { "f32[1,%d,2,6]", -0.3, 0.3 }, { "f32[1,%d,2,6]", -0.3, 0.3 }, { "f32[1,%d,4,10]", -1, 1 }, { "f32[1,%d,4]", -1, 0 },
      { "f32[1,%d,4]", 0, 1 } }, "f32[1,4,6,10]" },
  { "rwkv6",
    { { "f32[1,%d,2,6]", -1, 1 }, { "f32[1,%d,2,6]", -1, 1 }, { "f32[1,%d,2,10]", -1, 1 }, { "f32[1,%d,2,6]", -1, 0 },
      { "f32[2,6]", -1, 1 } }, "f32[1,2,6,10]" },
  { "rwkv7",
    { { "f32[1,%d,2,6]", -1, 1 }, { "f32[1,%d,2,6]", -0.3, 0.3 }, { "f32[1,%d,2,10]", -1, 1 }, { "f32[1,%d,2,6]", -1, -0.3 },
      { "f32[1,%d,2,6]", -0.3, 0.3 }, { "f32[1,%d,2,6]", -0.3, 0.3 } }, "f32[1,2,6,10]" },
};

/* A graph for @steps steps whose state stays on the device. */
static RlxGraph *
make_graph (const Sequence *self,
            guint           steps)
{
  RlxGraph *graph = rlx_graph_new ();
  g_autoptr(RlxTensor) zeros = rlx_test_random (self->state, 0, 0, 1);
  g_autoptr(GError) error = NULL;
  g_autofree RlxNode **results = NULL;
  RlxNode *nodes[MAX_INPUTS] = { NULL, };
  gsize n = 0, n_results;

  for (; n < MAX_INPUTS && self->operands[n].type != NULL; n++)
    {
      g_autofree char *type = g_strdup_printf (self->operands[n].type, steps), *name = g_strdup_printf ("x%" G_GSIZE_FORMAT, n);
      g_autoptr(RlxTensor) like = rlx_test_random (type, 0, 0, 1);
      gsize n_dims;
      const gint64 *shape = rlx_tensor_get_shape (like, &n_dims);

      nodes[n] = rlx_graph_input (graph, name, RLX_DATA_TYPE_F32, shape, n_dims, &error);
      g_assert_no_error (error);
    }
  nodes[n] = rlx_graph_state (graph, "state", zeros, &error);
  g_assert_no_error (error);
  results = rlx_graph_add_op (graph, self->op, nodes, n + 1, NULL, &n_results, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (n_results, ==, 2);
  rlx_graph_output (graph, "y", results[0], &error);
  rlx_graph_output (graph, "last", results[1], &error);
  g_assert_no_error (error);
  g_assert_true (rlx_graph_assign (graph, nodes[n], results[1], &error));
  return graph;
}

/* The elements of steps @first to @first + @steps out of @all, if it has any. */
static RlxTensor *
cut (const Operand *operand,
     RlxTensor     *whole,
     guint          all,
     guint          first,
     guint          steps)
{
  g_autofree char *type = g_strdup_printf (operand->type, steps);
  g_autofree double *values = NULL;
  gsize n;

  if (strstr (operand->type, "%d") == NULL)
    return g_object_ref (whole);
  values = rlx_reference_decode (whole, &n);
  return rlx_test_tensor (type, values + n / all * first);
}

/* Random numbers for each operand. */
static GPtrArray *
make_inputs (const Sequence *self,
             guint           steps)
{
  GPtrArray *inputs = g_ptr_array_new_with_free_func (g_object_unref);

  for (gsize i = 0; i < MAX_INPUTS && self->operands[i].type != NULL; i++)
    {
      g_autofree char *type = g_strdup_printf (self->operands[i].type, steps);

      g_ptr_array_add (inputs, rlx_test_random (type, self->operands[i].from, self->operands[i].to, (guint32) i + 1));
    }
  return inputs;
}

/* Wherever sequences are split, results are within the bounds of the whole. */
static void
test_cuts (gconstpointer data)
{
  const Sequence *self = data;
  static const guint cuts[][4] = { { 70 }, { 1, 69 }, { 33, 37 }, { 16, 1, 52, 1 } };
  const guint all = 70;
  g_autoptr(RlxGraph) whole = make_graph (self, all);
  g_autoptr(GPtrArray) inputs = make_inputs (self, all), expected = NULL;
  g_autoptr(GError) error = NULL;

  if (rlx_test_device () == NULL)
    return;
  expected = rlx_reference_run (whole, (RlxTensor **) inputs->pdata, inputs->len, NULL, NULL, 0, RLX_REFERENCE_NONE, &error);
  g_assert_no_error (error);

  for (gsize c = 0; c < G_N_ELEMENTS (cuts); c++)
    {
      g_autoptr(GArray) y = g_array_new (FALSE, FALSE, sizeof (double));
      g_autoptr(RlxTensor) state = NULL, joined = NULL;
      const RlxReferenceValue *wanted = g_ptr_array_index (expected, 0);
      g_autoptr(GString) type = g_string_new ("f32[");
      RlxReferenceCheck check;
      guint first = 0;

      for (gsize part = 0; part < 4 && cuts[c][part] > 0; part++)
        {
          g_autoptr(RlxGraph) graph = make_graph (self, cuts[c][part]);
          g_autoptr(RlxExecutable) executable = rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error);
          g_autoptr(GPtrArray) feeds = g_ptr_array_new_with_free_func (g_object_unref);
          g_auto(RlxTensors) outputs = NULL;
          g_autofree double *values = NULL;
          gsize n;

          g_assert_no_error (error);
          for (guint i = 0; i < inputs->len; i++)
            g_ptr_array_add (feeds, cut (&self->operands[i], g_ptr_array_index (inputs, i), all, first, cuts[c][part]));
          if (state != NULL)
            g_assert_true (rlx_executable_write_state (executable, "state", state, NULL, &error));
          outputs = rlx_executable_run (executable, (RlxTensor **) feeds->pdata, feeds->len, NULL, NULL, &error);
          g_assert_no_error (error);
          values = rlx_reference_decode (outputs[0], &n);
          g_array_append_vals (y, values, (guint) n);
          g_clear_object (&state);
          state = rlx_executable_read_state (executable, "state", NULL, &error);
          g_assert_no_error (error);
          first += cuts[c][part];
        }

      for (gsize i = 0; i < wanted->n_dims; i++)
        g_string_append_printf (type, "%s%" G_GINT64_FORMAT, i > 0 ? "," : "", wanted->shape[i]);
      g_string_append_c (type, ']');
      joined = rlx_test_tensor (type->str, (const double *) (gpointer) y->data);
      if (!rlx_reference_value_check (wanted, joined, &check))
        g_error ("%s, cut %" G_GSIZE_FORMAT ": element %" G_GSIZE_FORMAT " is %g instead of %g (bound %g)", self->op, c,
                 check.first_wrong, check.got, check.expected, check.bound);
      g_assert_cmpuint (check.n_unknown, ==, 0);
      g_assert_cmpfloat (check.max_bound, <, 0.1);
      if (!rlx_reference_value_check (g_ptr_array_index (expected, 1), state, &check))
        g_error ("%s, cut %" G_GSIZE_FORMAT ": element %" G_GSIZE_FORMAT " of the state is %g instead of %g (bound %g)", self->op, c,
                 check.first_wrong, check.got, check.expected, check.bound);
    }
}

/* Of more steps than a dispatch or a chunk has. */
static void
test_long (gconstpointer data)
{
  const Sequence *self = data;
  const guint steps = 1100;
  g_autoptr(RlxGraph) graph = make_graph (self, steps);
  g_autoptr(GPtrArray) inputs = make_inputs (self, steps), expected = NULL;
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) state = NULL;
  g_auto(RlxTensors) outputs = NULL;
  g_autoptr(GError) error = NULL;

  if (rlx_test_device () == NULL)
    return;
  expected = rlx_reference_run (graph, (RlxTensor **) inputs->pdata, inputs->len, NULL, NULL, 0, RLX_REFERENCE_NONE, &error);
  g_assert_no_error (error);
  executable = rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error);
  g_assert_no_error (error);
  outputs = rlx_executable_run (executable, (RlxTensor **) inputs->pdata, inputs->len, NULL, NULL, &error);
  g_assert_no_error (error);
  state = rlx_executable_read_state (executable, "state", NULL, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < 2; i++)
    {
      RlxReferenceCheck check;

      if (!rlx_reference_value_check (g_ptr_array_index (expected, i), i == 0 ? outputs[0] : state, &check))
        g_error ("%s: element %" G_GSIZE_FORMAT " of result %u is %g instead of %g (bound %g)", self->op, check.first_wrong, i, check.got,
                 check.expected, check.bound);
      g_assert_cmpuint (check.n_unknown, ==, 0);
    }
}

/* The result of a net without decay. */
static RlxTensor *
run_net (RlxTensor *q,
         RlxTensor *k,
         RlxTensor *v,
         gboolean   delta_rule)
{
  RlxGraph *graph = rlx_graph_new ();
  g_autoptr(RlxGatedDeltaNetOptions) options = rlx_gated_delta_net_options_new ();
  g_autoptr(GError) error = NULL;
  g_autofree RlxTensor **outputs = NULL;
  g_autofree RlxNode **results = NULL;
  gsize n;

  rlx_gated_delta_net_options_set_scale (options, 1);
  rlx_gated_delta_net_options_set_delta_rule (options, delta_rule);
  results = rlx_node_gated_delta_net (rlx_graph_constant (graph, q, NULL), rlx_graph_constant (graph, k, NULL),
                                      rlx_graph_constant (graph, v, NULL), NULL, NULL, NULL, options, &n, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (n, ==, 2);
  rlx_graph_output (graph, "y", results[0], NULL);
  outputs = rlx_test_run_graph (graph, 0, NULL, &n);
  g_assert_nonnull (outputs);
  return outputs[0];
}

/* Without decay a state is the sum of its updates, and the delta rule replaces the value of a key. */
static void
test_by_hand (void)
{
  g_autoptr(RlxTensor) q = rlx_test_tensor ("f32[1,3,1,2]", (const double[]) { 1, 0, 1, 0, 1, 1 });
  g_autoptr(RlxTensor) k = rlx_test_tensor ("f32[1,3,1,2]", (const double[]) { 1, 0, 1, 0, 0, 1 });
  g_autoptr(RlxTensor) v = rlx_test_tensor ("f32[1,3,1,1]", (const double[]) { 5, 7, 2 });
  g_autoptr(RlxTensor) bad = rlx_test_tensor ("f32[1,3,1,1]", (const double[]) { 5, NAN, 2 });
  g_autoptr(RlxTensor) learnt = NULL, added = NULL, lost = NULL;
  g_autofree double *values = NULL;

  if (rlx_test_device () == NULL)
    return;
  learnt = run_net (q, k, v, TRUE);
  rlx_test_compare ("learnt", learnt, "f32[1,3,1,1]", (const double[]) { 5, 7, 9 }, 0, 0);
  added = run_net (q, k, v, FALSE);
  rlx_test_compare ("added", added, "f32[1,3,1,1]", (const double[]) { 5, 12, 14 }, 0, 0);
  lost = run_net (q, k, bad, TRUE);
  values = rlx_reference_decode (lost, NULL);
  g_assert_cmpfloat (values[0], ==, 5);
  g_assert_true (isnan (values[1]) && isnan (values[2]));
}

static void
test_shapes (void)
{
  rlx_test_infers ("selective_scan", "f16[2,5,8] f16[2,5,8] f32[8,16] f16[2,5,16] f16[2,5,16]", NULL, "f16[2,5,8]");
  rlx_test_infers ("gated_delta_net", "f32[2,0,8,4] f32[2,0,1,4] f32[2,0,2,6]", NULL, "f32[2,0,8,6]");
  rlx_test_infers ("recurrence_states", "f32[5,2,8] f32[5,2,6]", NULL, "f32[6,2,8,6]");
  rlx_test_infers ("recurrence_states", "f32[0,2,8] f32[0,2,0] - - - f32[2,8,0]", NULL, "f32[1,2,8,0]");
  rlx_test_infers ("rwkv7", "f32[1,5,2,0] f32[1,5,2,0] f32[1,5,2,6] f32[1,5,2,0] f32[1,5,2,0] f32[1,5,2,0]", NULL, "f32[1,5,2,6]");
}

static void
test_errors (void)
{
  rlx_test_refuses ("selective_scan", "f32[2,5] f32[2,5,8] f32[8,16] f32[2,5,16] f32[2,5,16]", NULL, RLX_GRAPH_ERROR_SHAPE,
                    "batch, steps, channels");
  rlx_test_refuses ("selective_scan", "f32[2,5,8] f32[2,5,1] f32[8,16] f32[2,5,16] f32[2,5,16]", NULL, RLX_GRAPH_ERROR_SHAPE,
                    "delta is f32[2, 5, 1]");
  rlx_test_refuses ("selective_scan", "f32[2,5,8] f32[2,5,8] f32[8,16] f32[2,5,16] f32[2,5,16] - f32[2,16,8]", NULL,
                    RLX_GRAPH_ERROR_SHAPE, "initial_state is f32[2, 16, 8]; the other operands require f32[2, 8, 16]");
  rlx_test_refuses ("selective_scan", "f32[2,5,8] f32[2,5,8] f32[8,16] f32[2,5,16] f32[2,5,16] - f16[2,8,16]", NULL,
                    RLX_GRAPH_ERROR_DATA_TYPE, "initial_state");
  rlx_test_refuses ("mamba2", "f32[2,5,4,8] f32[2,5,4] f32[4] f32[2,5,3,16] f32[2,5,3,16]", NULL, RLX_GRAPH_ERROR_SHAPE, "3 heads");
  rlx_test_refuses ("gated_delta_net", "f32[2,5,3,8] f32[2,5,2,8] f32[2,5,2,8]", NULL, RLX_GRAPH_ERROR_SHAPE, "3 heads");
  rlx_test_refuses ("gated_delta_net", "f32[2,5,2,8] f32[2,5,2,9] f32[2,5,2,8]", NULL, RLX_GRAPH_ERROR_SHAPE, "f32[2, 5, 2, 9]");
  rlx_test_refuses ("gated_delta_net", "f32[2,5,2,8] f32[2,5,2,8] f32[2,5,2,8] f32[2,5]", NULL, RLX_GRAPH_ERROR_SHAPE, "decay is");
  rlx_test_refuses ("recurrence_states", "f32[5,2] f32[5,2,6]", NULL, RLX_GRAPH_ERROR_SHAPE, "3 dimensions");
  rlx_test_refuses ("recurrence_states", "f32[5,2,8] f32[5,2]", NULL, RLX_GRAPH_ERROR_SHAPE, "value is f32[5, 2]");
  rlx_test_refuses ("recurrence_states", "f32[5,2,8] f32[5,2,6] - f32[5,2,8]", NULL, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                    "in_key is there without out_key");
  rlx_test_refuses ("recurrence_states", "f32[5,2,8] f32[5,2,6] - - - f32[2,6,8]", NULL, RLX_GRAPH_ERROR_SHAPE, "initial_state is");
  rlx_test_refuses ("rwkv6", "f32[2,5,1,8] f32[2,5,2,8] f32[2,5,2,8] f32[2,5,2,8] f32[2,8]", NULL, RLX_GRAPH_ERROR_SHAPE, "self is");
  rlx_test_refuses ("rwkv7", "f32[1,5,2,4] f32[1,5,2,4] f32[1,5,2,6] f32[1,5,2,4] f32[1,5,2,4] f32[1,5,2]", NULL,
                    RLX_GRAPH_ERROR_SHAPE, "out_key is");
  rlx_test_refuses ("causal_conv1d", "f32[2,8] f32[8,4]", NULL, RLX_GRAPH_ERROR_SHAPE, "batch, channels, steps");
  rlx_test_refuses ("causal_conv1d", "f32[2,8,5] f32[5,4]", NULL, RLX_GRAPH_ERROR_SHAPE, "weight is f32[5, 4]");
  rlx_test_refuses ("causal_conv1d", "f32[2,8,5] f32[8,0]", NULL, RLX_GRAPH_ERROR_SHAPE, "at least 1");
  rlx_test_refuses ("causal_conv1d", "f32[2,8,5] f32[8,4] f32[5]", NULL, RLX_GRAPH_ERROR_SHAPE, "bias is");
  rlx_test_refuses ("causal_conv1d", "f32[2,8,5] f32[8,4] - f32[2,8,4]", NULL, RLX_GRAPH_ERROR_SHAPE, "f32[2, 8, 3]");
  /* The operands are small, but the state is not. */
  rlx_test_refuses ("gated_delta_net", "f32[1,1,1,1000000] f32[1,1,1,1000000] f32[1,1,1,1000000]", NULL, RLX_GRAPH_ERROR_LIMIT, NULL);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/sequence/shapes", test_shapes);
  g_test_add_func ("/sequence/errors", test_errors);
  g_test_add_func ("/sequence/by-hand", test_by_hand);
  for (gsize i = 0; i < G_N_ELEMENTS (sequences); i++)
    {
      g_autofree char *cuts = g_strdup_printf ("/sequence/cuts/%s", sequences[i].op);
      g_autofree char *longer = g_strdup_printf ("/sequence/long/%s", sequences[i].op);

      g_test_add_data_func (cuts, &sequences[i], test_cuts);
      g_test_add_data_func (longer, &sequences[i], test_long);
    }

  return g_test_run ();
}
