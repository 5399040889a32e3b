/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Recurrent networks: long sequences, many units, every way through the kernels
 * against the reference; what is refused and why.
 */
#include "config.h"

#include <math.h>
#include <string.h>

#include "rlx-reference.h"
#include "rlx-test-util.h"

#include "util/rlx-debug-private.h"

#define MAX_INPUTS 9

/* Checks the operator's results against the bounds of the reference; returns the number
 * of dispatches. Inputs are consumed; those with a bit in @constants become constants. */
static guint
check_op (const char *op,
          gsize       n_inputs,
          RlxTensor **inputs,
          guint       constants,
          const char *attributes)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(GVariant) attrs = rlx_test_attributes (attributes);
  g_autoptr(GPtrArray) expected = NULL;
  g_autoptr(GPtrArray) feeds = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree RlxNode **results = NULL;
  g_autofree RlxTensor **outputs = NULL;
  RlxNode *nodes[MAX_INPUTS] = { NULL, };
  gsize n_results, n_outputs;

  for (gsize i = 0; i < n_inputs; i++)
    {
      g_autofree char *name = g_strdup_printf ("x%" G_GSIZE_FORMAT, i);
      const gint64 *shape;
      gsize n_dims;

      if (inputs[i] == NULL)
        continue;
      if (constants >> i & 1)
        {
          nodes[i] = rlx_graph_constant (graph, inputs[i], &error);
          g_assert_no_error (error);
          g_object_unref (inputs[i]);
          continue;
        }
      shape = rlx_tensor_get_shape (inputs[i], &n_dims);
      nodes[i] = rlx_graph_input (graph, name, rlx_tensor_get_data_type (inputs[i]), shape, n_dims, &error);
      g_assert_no_error (error);
      g_ptr_array_add (feeds, inputs[i]);
    }
  results = rlx_graph_add_op (graph, op, nodes, n_inputs, attrs, &n_results, &error);
  g_assert_no_error (error);
  for (gsize i = 0; i < n_results; i++)
    {
      g_autofree char *name = g_strdup_printf ("y%" G_GSIZE_FORMAT, i);

      rlx_graph_output (graph, name, results[i], NULL);
    }

  expected = rlx_reference_run (graph, (RlxTensor **) feeds->pdata, feeds->len, NULL, NULL, 0, RLX_REFERENCE_NONE, &error);
  g_assert_no_error (error);
  executable = rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error);
  g_assert_no_error (error);
  outputs = rlx_executable_run (executable, (RlxTensor **) feeds->pdata, feeds->len, &n_outputs, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (n_outputs, ==, n_results);

  for (gsize i = 0; i < n_outputs; i++)
    {
      RlxReferenceCheck check;

      if (!rlx_reference_value_check (g_ptr_array_index (expected, i), outputs[i], &check))
        {
          g_test_message ("%s %s, result %" G_GSIZE_FORMAT ": element %" G_GSIZE_FORMAT " should be %.9g, is %.9g, bound %.3g; %"
                          G_GSIZE_FORMAT " are wrong",
                          op, attributes, i, check.first_wrong, check.expected, check.got, check.bound, check.n_wrong);
          g_test_fail ();
        }
      /* An excessive bound would prove nothing. */
      g_assert_cmpfloat (check.max_bound, <, 0.02);
      g_assert_cmpuint (check.n_unknown, ==, 0);
      g_object_unref (outputs[i]);
    }
  return rlx_executable_get_n_dispatches (executable);
}

typedef struct
{
  const char *op;
  const char *data_type;
  gint64 directions;
  gint64 steps;
  gint64 batch;
  gint64 inputs;
  gint64 hidden;
  gboolean optional;     /* with biases, peepholes and states */
  const double *lengths; /* nullable */
  guint constants;
} Network;

static RlxTensor *
random_tensor (const Network *self,
               double         size,
               guint32        seed,
               const gint64  *shape,
               gsize          n_dims)
{
  g_autoptr(GString) type = g_string_new (self->data_type);

  for (gsize i = 0; i < n_dims; i++)
    g_string_append_printf (type, "%s%" G_GINT64_FORMAT, i == 0 ? "[" : ",", shape[i]);
  g_string_append_c (type, ']');
  return rlx_test_random (type->str, -size, size, seed);
}

static guint
check_network (const Network *self,
               const char    *attributes)
{
  gboolean lstm = g_str_equal (self->op, "lstm");
  gint64 rows = (lstm ? 4 : g_str_equal (self->op, "gru") ? 3 : 1) * self->hidden;
  RlxTensor *inputs[MAX_INPUTS] = { NULL, };
  /* Small enough for a state to forget its errors. */
  double size = 0.8 / (double) self->hidden;
  gsize n = 0;

  inputs[n++] = random_tensor (self, 1, 1, (gint64[]) { self->steps, self->batch, self->inputs }, 3);
  inputs[n++] = random_tensor (self, 0.5, 2, (gint64[]) { self->directions, rows, self->inputs }, 3);
  inputs[n++] = random_tensor (self, size, 3, (gint64[]) { self->directions, rows, self->hidden }, 3);
  if (self->optional)
    {
      inputs[n++] = random_tensor (self, 0.5, 4, (gint64[]) { self->directions, rows }, 2);
      inputs[n++] = random_tensor (self, 0.5, 5, (gint64[]) { self->directions, rows }, 2);
      if (lstm)
        inputs[n++] = random_tensor (self, 0.05, 6, (gint64[]) { self->directions, 3 * self->hidden }, 2);
      inputs[n++] = random_tensor (self, 1, 7, (gint64[]) { self->directions, self->batch, self->hidden }, 3);
      if (lstm)
        inputs[n++] = random_tensor (self, 1, 8, (gint64[]) { self->directions, self->batch, self->hidden }, 3);
    }
  if (self->lengths != NULL)
    {
      g_autofree char *type = g_strdup_printf ("i32[%" G_GINT64_FORMAT "]", self->batch);

      n = lstm ? 8 : 6;
      inputs[n++] = rlx_test_tensor (type, self->lengths);
    }
  return check_op (self->op, n, inputs, self->constants, attributes);
}

/* ---- sizes ---------------------------------------------------------------------------- */

/* One workgroup takes many steps: few dispatches for any length. */
static void
test_long (void)
{
  Network lstm = { "lstm", "f32", 2, 1500, 1, 3, 9, TRUE, NULL, 0 };
  Network gru = { "gru", "f32", 1, 400, 6, 2, 40, FALSE, NULL, 0 };

  if (rlx_test_device () == NULL)
    return;
  g_assert_cmpuint (check_network (&lstm, "{'direction': <'both'>, 'return_sequence': <true>}"), <, 8);
  g_assert_cmpuint (check_network (&gru, "{'reset_after': <false>, 'direction': <'backward'>}"), <, 12);
}

static void
test_loop (void)
{
  Network rnn = { "rnn", "f16", 2, 30, 2, 5, 33, TRUE, NULL, 0 };

  if (rlx_test_device () == NULL)
    return;
  check_network (&rnn, "{'direction': <'both'>, 'return_sequence': <true>}");
}

/* A dispatch per step, split over several workgroups. */
static void
test_wide (void)
{
  Network lstm = { "lstm", "f32", 1, 3, 5, 4, 300, TRUE, NULL, 0 };
  Network gru = { "gru", "f16", 2, 9, 1, 3, 310, TRUE, (const double[]) { 7 }, 0 };

  if (rlx_test_device () == NULL)
    return;
  g_assert_cmpuint (check_network (&lstm, "{'return_sequence': <true>, 'clip': <0.75>}"), <, 8);
  check_network (&gru, "{'direction': <'both'>, 'reset_after': <false>, 'gate_order': <'rzn'>}");
}

/* Many sequences: several workgroups that each take all steps. */
static void
test_batch (void)
{
  Network lstm = { "lstm", "f32", 1, 6, 67, 2, 60, TRUE, NULL, 0 };

  if (rlx_test_device () == NULL)
    return;
  check_network (&lstm, "{'gate_order': <'ifgo'>}");
}

/* Constant weights are reordered once. */
static void
test_weights (void)
{
  Network gru = { "gru", "f32", 2, 9, 2, 3, 33, TRUE, NULL, 1 << 1 | 1 << 2 | 1 << 3 };
  RlxTensor *same[3];

  if (rlx_test_device () == NULL)
    return;
  check_network (&gru, "{'direction': <'both'>}");

  /* the same weight for both */
  same[0] = rlx_test_random ("f32[10,2,5]", -1, 1, 1);
  same[1] = rlx_test_random ("f32[1,5,5]", -0.2, 0.2, 2);
  same[2] = g_object_ref (same[1]);
  check_op ("rnn", 3, same, 1 << 1 | 1 << 2, "@a{sv} {}");
}

/* ---- lengths ---------------------------------------------------------------------------- */

/* h' = x + h: exact sums. */
static void
test_lengths (void)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(GVariant) attrs = rlx_test_attributes ("{'direction': <'both'>, 'return_sequence': <true>, 'hidden_activation': <'affine'>}");
  g_autoptr(GError) error = NULL;
  g_autofree RlxNode **results = NULL;
  g_autofree RlxTensor **outputs = NULL;
  RlxTensor *inputs[4];
  RlxNode *nodes[7] = { NULL, };
  gsize n_results, n_outputs;

  if (rlx_test_device () == NULL)
    return;

  /* Three sequences of up to four steps; lengths out of range are clamped. */
  inputs[0] = rlx_test_tensor ("f32[4,3,1]", (double[]) { 1, 10, 100, 2, 20, 200, 3, 30, 300, 4, 40, 400 });
  inputs[1] = rlx_test_tensor ("f32[2,1,1]", (double[]) { 1, 1 });
  inputs[2] = rlx_test_tensor ("f32[2,1,1]", (double[]) { 1, 1 });
  inputs[3] = rlx_test_tensor ("i64[3]", (double[]) { 2, -5, 99 });
  nodes[0] = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, (gint64[]) { 4, 3, 1 }, 3, &error);
  nodes[1] = rlx_graph_input (graph, "w", RLX_DATA_TYPE_F32, (gint64[]) { 2, 1, 1 }, 3, &error);
  nodes[2] = rlx_graph_input (graph, "r", RLX_DATA_TYPE_F32, (gint64[]) { 2, 1, 1 }, 3, &error);
  nodes[6] = rlx_graph_input (graph, "n", RLX_DATA_TYPE_I64, (gint64[]) { 3 }, 1, &error);
  g_assert_no_error (error);
  results = rlx_graph_add_op (graph, "rnn", nodes, 7, attrs, &n_results, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (n_results, ==, 2);
  rlx_graph_output (graph, "state", results[0], NULL);
  rlx_graph_output (graph, "sequence", results[1], NULL);

  outputs = rlx_test_run_graph (g_steal_pointer (&graph), 4, inputs, &n_outputs);
  if (outputs == NULL)
    return;
  rlx_test_compare ("state", outputs[0], "f32[2,3,1]", (double[]) { 3, 0, 1000, 3, 0, 1000 }, 0, 0);
  rlx_test_compare ("sequence", outputs[1], "f32[4,2,3,1]",
                    (double[]) { 1, 0, 100, 3, 0, 1000, 3, 0, 300, 2, 0, 900, 0, 0, 600, 0, 0, 700, 0, 0, 1000, 0, 0, 400 }, 0, 0);
  for (gsize i = 0; i < n_outputs; i++)
    g_object_unref (outputs[i]);
  for (guint i = 0; i < G_N_ELEMENTS (inputs); i++)
    g_object_unref (inputs[i]);
}

static void
test_lengths_of_all (void)
{
  const double lengths[] = { 7, 0, 3, 8, 1 };
  Network lstm = { "lstm", "f32", 2, 8, 5, 3, 12, TRUE, lengths, 0 };

  if (rlx_test_device () == NULL)
    return;
  check_network (&lstm, "{'direction': <'both'>, 'return_sequence': <true>, 'input_forget': <true>}");
}

/* NaN in one sequence does not spread to others. */
static void
test_nan (void)
{
  RlxTensor *inputs[3];
  g_autoptr(RlxTensor) y = NULL;

  if (rlx_test_device () == NULL)
    return;
  inputs[0] = rlx_test_tensor ("f32[2,3,1]", (double[]) { 0, (double) NAN, 0, 0, 0, INFINITY });
  inputs[1] = rlx_test_tensor ("f32[1,2,1]", (double[]) { 1, 1 });
  inputs[2] = rlx_test_tensor ("f32[1,2,2]", (double[]) { 1, 0.5, 0.25, 1 });
  y = rlx_test_run_op ("rnn", 3, inputs, NULL);
  rlx_test_compare ("rnn", y, "f32[1,3,2]", (double[]) { 0, 0, (double) NAN, (double) NAN, 1, 1 }, 0, 0);
  for (guint i = 0; i < G_N_ELEMENTS (inputs); i++)
    g_object_unref (inputs[i]);
}

/* ---- rules --------------------------------------------------------------------------------- */

static void
test_shapes (void)
{
  rlx_test_infers ("gru_cell", "f32[3,4] f32[15,4] f32[15,5] f32[3,5]", NULL, "f32[3,5]");
  rlx_test_infers ("rnn_cell", "f16[0,4] f16[5,4] f16[5,5] f16[0,5] f16[5]", NULL, "f16[0,5]");
  rlx_test_infers ("lstm", "f32[9,3,4] f32[1,20,4] f32[1,20,5]", NULL, "f32[1,3,5]");
  rlx_test_infers ("lstm", "f32[9,3,4] f32[2,20,4] f32[2,20,5] - - - - - u8[9]",
                   g_variant_new_parsed ("{'batch_first': <true>, 'direction': <'both'>}"), "f32[9,2,5]");
}

static void
test_errors (void)
{
  rlx_test_refuses ("lstm", "f32[9,3] f32[1,20,4] f32[1,20,5]", NULL, RLX_GRAPH_ERROR_SHAPE, "steps, batch, inputs");
  rlx_test_refuses ("lstm", "f32[9,3,4] f32[1,20,4] f32[20,5]", NULL, RLX_GRAPH_ERROR_SHAPE, "recurrent_weight is f32[20, 5]");
  rlx_test_refuses ("lstm", "f32[9,3,4] f32[1,20,4] f32[1,15,5]", NULL, RLX_GRAPH_ERROR_SHAPE, "f32[1, 20, 5]");
  rlx_test_refuses ("lstm", "f32[9,3,4] f32[1,20,3] f32[1,20,5]", NULL, RLX_GRAPH_ERROR_SHAPE, "weight is f32[1, 20, 3]");
  rlx_test_refuses ("lstm", "f32[9,3,4] f32[1,20,4] f32[1,20,5]", g_variant_new_parsed ("{'direction': <'both'>}"),
                    RLX_GRAPH_ERROR_SHAPE, "f32[2, 20, 5]");
  rlx_test_refuses ("lstm", "f32[9,3,4] f32[1,20,4] f32[1,20,5] f32[20]", NULL, RLX_GRAPH_ERROR_SHAPE, "bias");
  rlx_test_refuses ("lstm", "f32[9,3,4] f32[1,20,4] f32[1,20,5] - - f32[1,20]", NULL, RLX_GRAPH_ERROR_SHAPE, "peephole_weight");
  rlx_test_refuses ("lstm", "f32[9,3,4] f32[1,20,4] f32[1,20,5] - - - f32[3,1,5]", NULL, RLX_GRAPH_ERROR_SHAPE, "directions, batch, hidden");
  rlx_test_refuses ("lstm", "f32[9,3,4] f32[1,20,4] f32[1,20,5] - - - - f32[3,5]", NULL, RLX_GRAPH_ERROR_SHAPE, "initial_cell_state");
  rlx_test_refuses ("gru", "f32[9,3,4] f32[1,15,4] f32[1,15,5] - - - i32[9]", NULL, RLX_GRAPH_ERROR_SHAPE, "sequence_lengths");
  rlx_test_refuses ("gru", "f32[9,3,4] f32[1,15,4] f16[1,15,5]", NULL, RLX_GRAPH_ERROR_DATA_TYPE, NULL);
  rlx_test_refuses ("gru", "i32[9,3,4] i32[1,15,4] i32[1,15,5]", NULL, RLX_GRAPH_ERROR_DATA_TYPE, NULL);
  rlx_test_refuses ("rnn_cell", "f32[3,4] f32[5,4] f32[5,5] f32[4,5]", NULL, RLX_GRAPH_ERROR_SHAPE, "hidden_state");
  rlx_test_refuses ("rnn", "f32[9,3,4] f32[1,5,4] f32[1,5,5]", g_variant_new_parsed ("{'clip': <0.0>}"), RLX_GRAPH_ERROR_INVALID_ARGUMENT, "clip");
  rlx_test_refuses ("rnn", "f32[9,3,4] f32[1,5,4] f32[1,5,5]", g_variant_new_parsed ("{'hidden_alpha': <1e300>}"),
                    RLX_GRAPH_ERROR_INVALID_ARGUMENT, "hidden_alpha");
  rlx_test_refuses ("rnn", "f32[9,3,4] f32[1,5,4] f32[1,5,5]", g_variant_new_parsed ("{'hidden_activation': <'gelu'>}"),
                    RLX_GRAPH_ERROR_INVALID_ARGUMENT, "gelu");

  /* Each operand is small enough, but not the results. */
  rlx_test_refuses ("lstm", "f32[60000,60000,0] f32[1,4,0] f32[1,4,1]", NULL, RLX_GRAPH_ERROR_LIMIT, "60000 sequences");
  rlx_test_refuses ("rnn", "f32[0,3000000000,0] f32[1,1,0] f32[1,1,1]", NULL, RLX_GRAPH_ERROR_LIMIT, "2³²");
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/recurrent/shapes", test_shapes);
  g_test_add_func ("/recurrent/errors", test_errors);
  g_test_add_func ("/recurrent/long", test_long);
  rlx_test_add_kernels ("/recurrent/loop", test_loop);
  rlx_test_add_kernels ("/recurrent/wide", test_wide);
  g_test_add_func ("/recurrent/batch", test_batch);
  g_test_add_func ("/recurrent/weights", test_weights);
  g_test_add_func ("/recurrent/lengths", test_lengths);
  g_test_add_func ("/recurrent/lengths-of-all", test_lengths_of_all);
  g_test_add_func ("/recurrent/nan", test_nan);

  return g_test_run ();
}
