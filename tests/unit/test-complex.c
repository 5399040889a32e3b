/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Complex numbers: values, what is refused, and that they fuse.
 */
#include "config.h"

#include <math.h>

#include "rlx-test-util.h"

#include "util/rlx-debug-private.h"

static void
test_values (void)
{
  RlxTensor *pairs[2];
  g_autoptr(RlxTensor) product = NULL;
  g_autoptr(RlxTensor) squared = NULL;
  g_autoptr(RlxTensor) conjugate = NULL;
  g_autoptr(RlxTensor) joined = NULL;

  if (rlx_test_device () == NULL)
    return;

  pairs[0] = rlx_test_tensor ("f32[2,2]", (double[]) { 1, 2, 3, -4 });
  pairs[1] = rlx_test_tensor ("f32[2]", (double[]) { 5, 7 });
  product = rlx_test_run_op ("complex_mul", 2, pairs, NULL);
  rlx_test_compare ("complex_mul", product, "f32[2,2]", (double[]) { -9, 17, 43, 1 }, 0, 0);
  squared = rlx_test_run_op ("abs_squared", 1, pairs, NULL);
  rlx_test_compare ("abs_squared", squared, "f32[2]", (double[]) { 5, 25 }, 0, 0);
  conjugate = rlx_test_run_op ("conj", 1, pairs, NULL);
  rlx_test_compare ("conj", conjugate, "f32[2,2]", (double[]) { 1, -2, 3, 4 }, 0, 0);
  joined = rlx_test_run_op ("complex", 2, pairs, NULL);
  rlx_test_compare ("complex", joined, "f32[2,2,2]", (double[]) { 1, 5, 2, 7, 3, 5, -4, 7 }, 0, 0);
  g_object_unref (pairs[0]);
  g_object_unref (pairs[1]);
}

/* Products of f16 that overflow, whose sum does not. */
static void
test_half (void)
{
  RlxTensor *pairs[2];
  g_autoptr(RlxTensor) product = NULL;

  if (rlx_test_device () == NULL)
    return;

  pairs[0] = rlx_test_tensor ("f16[2]", (double[]) { 300, 300 });
  pairs[1] = rlx_test_tensor ("f16[2]", (double[]) { 300, 299 });
  product = rlx_test_run_op ("complex_mul", 2, pairs, NULL);
  rlx_test_compare ("complex_mul", product, "f16[2]", (double[]) { 300, INFINITY }, 0, 0);
  g_object_unref (pairs[0]);
  g_object_unref (pairs[1]);
}

/* However the operands broadcast, it is a single kernel. */
static void
test_fusion (void)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(GError) error = NULL;
  RlxNode *a, *b, *y;

  if (rlx_test_device () == NULL)
    return;
  if (RLX_DEBUG_CHECK (NO_FUSE))
    {
      g_test_skip ("nothing is fused");
      return;
    }

  a = rlx_graph_input (graph, "a", RLX_DATA_TYPE_F32, (gint64[]) { 30, 1, 2 }, 3, &error);
  b = rlx_graph_input (graph, "b", RLX_DATA_TYPE_F32, (gint64[]) { 50, 2 }, 2, &error);
  y = rlx_node_complex_mul (a, b, &error);
  g_assert_no_error (error);
  rlx_graph_output (graph, "y", y, NULL);
  executable = rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (rlx_executable_get_n_dispatches (executable), ==, 1);
}

static void
test_rules (void)
{
  rlx_test_infers ("real", "f32[2]", NULL, "f32[]");
  rlx_test_infers ("imag", "f16[3,0,2]", NULL, "f16[3,0]");
  rlx_test_infers ("complex", "f32[] f32[4]", NULL, "f32[4,2]");
  rlx_test_infers ("complex_mul", "f32[3,1,2] f32[4,2]", NULL, "f32[3,4,2]");

  rlx_test_refuses ("real", "f32[]", NULL, RLX_GRAPH_ERROR_SHAPE, "last dimension of 2");
  rlx_test_refuses ("conj", "f32[2,3]", NULL, RLX_GRAPH_ERROR_SHAPE, "f32[2, 3]");
  rlx_test_refuses ("complex_mul", "f32[3,2] f32[3,1]", NULL, RLX_GRAPH_ERROR_SHAPE, "the other is f32[3, 1]");
  rlx_test_refuses ("complex_mul", "f32[3,2] f32[4,2]", NULL, RLX_GRAPH_ERROR_SHAPE, "broadcast");
  rlx_test_refuses ("complex", "f32[3] f32[4]", NULL, RLX_GRAPH_ERROR_SHAPE, "broadcast");
  rlx_test_refuses ("complex", "f32[1,1,1,1,1,1,1,1] f32[]", NULL, RLX_GRAPH_ERROR_LIMIT, "limit of 8");
  rlx_test_refuses ("abs_squared", "i32[3,2]", NULL, RLX_GRAPH_ERROR_DATA_TYPE, NULL);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/complex/values", test_values);
  g_test_add_func ("/complex/half", test_half);
  g_test_add_func ("/complex/fusion", test_fusion);
  g_test_add_func ("/complex/rules", test_rules);

  return g_test_run ();
}
