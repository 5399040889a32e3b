/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Small executables for tests.
 */
#include "config.h"

#include "rlx-test-executable.h"

RlxTensor *
floats (const char  *type,
        const float *values)
{
  gint64 shape[RLX_MAX_DIMS];
  gsize n_dims, n = 1;
  RlxDataType data_type;
  g_autoptr(GError) error = NULL;
  RlxTensor *tensor;

  g_assert_true (rlx_test_next_type (&type, &data_type, shape, &n_dims));
  for (gsize i = 0; i < n_dims; i++)
    n *= (gsize) shape[i];
  tensor = rlx_tensor_new_from_floats (shape, n_dims, values, n, &error);
  g_assert_no_error (error);
  return tensor;
}

RlxExecutable *
compile (RlxGraph *graph)
{
  g_autoptr(GError) error = NULL;
  RlxExecutable *executable = rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error);

  g_assert_no_error (error);
  g_assert_nonnull (executable);
  return executable;
}

RlxExecutable *
small_executable (void)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  const gint64 shape[] = { 2, 3 };
  g_autoptr(RlxTensor) weights = floats ("f32[3,2]", (float[]) { 1, 0, 0, 1, 1, 1 });
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, shape, 2, NULL);
  RlxNode *w = rlx_graph_constant (graph, weights, NULL);

  rlx_graph_output (graph, "y", rlx_node_relu (rlx_node_matmul (x, w, NULL, NULL), NULL), NULL);
  return compile (graph);
}

RlxTensor *
run_one (RlxExecutable *executable,
         RlxTensor     *input)
{
  g_autoptr(GError) error = NULL;
  gsize n;
  g_autofree RlxTensor **outputs = rlx_executable_run (executable, &input, input ? 1 : 0, &n, NULL, &error);

  g_assert_no_error (error);
  g_assert_cmpuint (n, ==, 1);
  return outputs[0];
}

void
assert_values (RlxTensor  *tensor,
               const char *text)
{
  g_autofree char *got = rlx_tensor_to_string (tensor);

  g_assert_cmpstr (got, ==, text);
}

RlxExecutable *
busy_executable (void)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  const gint64 shape[] = { 17, 33 };
  g_autoptr(RlxTensor) weights = rlx_test_random ("f32[33,33]", -1, 1, 3);
  RlxNode *x = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, shape, 2, NULL);
  RlxNode *h = rlx_node_gelu (rlx_node_matmul (x, rlx_graph_constant (graph, weights, NULL), NULL, NULL), NULL);

  rlx_graph_output (graph, "y", rlx_node_softmax (rlx_node_add (h, x, NULL), -1, NULL), NULL);
  rlx_graph_output (graph, "z", rlx_node_reduce_sum (h, (gint64[]) { 0 }, 1, NULL, NULL), NULL);
  return compile (graph);
}
