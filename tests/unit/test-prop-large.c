/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Tensors that need more than one binding where bindings are small
 * (RLX_DEBUG=target=small makes them 1 MiB), and more workgroups than one
 * dimension of a dispatch has.
 */
#include "config.h"

#include "rlx-prop-common.h"
#include "util/rlx-debug-private.h"

typedef struct
{
  const char *name;
  const char *op;
  const char *types;
  const char *attributes;
} Large;

static const Large larges[] = {
  /* slightly over 65,536 workgroups */
  { "dispatch", "add", "f32[4200003] f32[1]", "@a{sv} {}" },

  { "add", "add", "f32[300007] f32[300007]", "@a{sv} {}" },
  { "broadcast", "mul", "f32[500,601] f32[500,1]", "@a{sv} {}" },
  { "half", "sub", "f16[701,1001] f16[1001]", "@a{sv} {}" },
  { "bytes", "max", "i8[1200001] i8[1200001]", "@a{sv} {}" },
  { "where", "where", "bool[1100003] f32[1] f32[1100003]", "@a{sv} {}" },
  { "cast-down", "cast", "f32[300007]", "{'to': <'i8'>}" },
  { "cast-up", "cast", "u8[1100003]", "{'to': <'f32'>}" },
  { "cast-half", "cast", "f32[600011]", "{'to': <'f16'>}" },
  { "matmul-a", "matmul", "f32[1000,300] f32[300,3]", "@a{sv} {}" },
  { "matmul-b", "matmul", "f32[3,300] f32[300,1000]", "@a{sv} {}" },
  { "matmul-y", "matmul", "f32[520,7] f32[7,521]", "@a{sv} {}" },
  { "linear", "linear", "f16[1000,600] f16[5,600] f16[5]", "{'transpose_b': <true>}" },
  { "softmax", "softmax", "f32[3,100001]", "{'axis': <int64 1>}" },
  { "softmax-across", "softmax", "f32[100001,3]", "{'axis': <int64 0>}" },
  { "layer-norm", "layer_norm", "f32[700,401] f32[401] f32[401]", "@a{sv} {}" },
  { "attention", "attention", "f32[1,1,3,32] f32[1,1,9001,32] f32[1,1,9001,33]", "@a{sv} {}" },
  { "sum", "reduce_sum", "f32[300007]", "{'axes': <[int64 0]>}" },
  { "sum-rows", "reduce_sum", "f32[2,150001]", "{'axes': <[int64 1]>}" },
  { "max-columns", "reduce_max", "f32[2,150001]", "{'axes': <[int64 0]>}" },
  { "sum-bytes", "reduce_sum", "u8[3,400001]", "{'axes': <[int64 1]>}" },
  { "transpose", "transpose", "f32[517,601]", "@a{sv} {'permutation': <@ax []>}" },
  { "transpose-half", "transpose", "f16[1031,601]", "@a{sv} {'permutation': <@ax []>}" },
  { "transpose-bytes", "transpose", "i8[1101,1003]", "@a{sv} {'permutation': <@ax []>}" },
  { "slice", "slice", "f32[300007]", "{'starts': <[int64 -1]>, 'ends': <[int64 -9223372036854775807]>, 'steps': <[int64 -1]>}" },
  { "slice-bytes", "slice", "u8[1200011]", "{'starts': <[int64 3]>, 'ends': <[int64 1200010]>}" },
  { "concat", "concat", "f32[200001] f32[100003]", "{'axis': <int64 0>}" },
  { "concat-bytes", "concat", "i8[600001] i8[500003]", "{'axis': <int64 0>}" },
  { "concat-half", "concat", "f16[101,3001] f16[101,3002]", "{'axis': <int64 1>}" },
  { "expand", "expand", "f32[1,601]", "{'shape': <[int64 500, 601]>}" },
  { "gather", "gather", "f32[60001,5] i32[31]", "{'axis': <int64 0>}" },
  { "gather-y", "gather", "f32[9,50] i32[7001]", "{'axis': <int64 0>}" },
};

static void
test_large (gconstpointer data)
{
  const Large *large = data;
  g_autoptr (GRand) rand = g_rand_new_with_seed (prop_seed (large->name));
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  g_autoptr (GVariant) attributes = g_variant_ref_sink (g_variant_new_parsed (large->attributes));
  g_autoptr (GPtrArray) feeds = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (GPtrArray) nodes = g_ptr_array_new ();
  g_autoptr (GPtrArray) expected = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree RlxNode **results = NULL;
  g_autofree RlxTensor **outputs = NULL;
  const char *types = large->types;
  RlxReferenceCheck check;
  RlxDataType data_type;
  gint64 shape[RLX_MAX_DIMS];
  gsize n_dims, n_results, n_outputs;

  if (rlx_test_device () == NULL)
    return;
  if (rlx_test_has_small_bindings () && g_str_equal (large->name, "dispatch"))
    {
      g_test_skip ("more bindings than such a device has");
      return;
    }

  while (rlx_test_next_type (&types, &data_type, shape, &n_dims))
    {
      g_autofree char *name = g_strdup_printf ("x%u", nodes->len);

      g_ptr_array_add (feeds, prop_tensor (rand, PROP_TAME, data_type, shape, n_dims));
      g_ptr_array_add (nodes, rlx_graph_input (graph, name, data_type, shape, n_dims, &error));
      g_assert_no_error (error);
    }
  results = rlx_graph_add_op (graph, large->op, (RlxNode **) nodes->pdata, nodes->len, attributes, &n_results, &error);
  g_assert_no_error (error);
  rlx_graph_output (graph, "y", results[0], NULL);

  expected = rlx_reference_run (graph, (RlxTensor **) feeds->pdata, feeds->len, NULL, NULL, 0, RLX_REFERENCE_NONE, &error);
  g_assert_no_error (error);
  outputs = rlx_test_run_graph (g_object_ref (graph), feeds->len, (RlxTensor **) feeds->pdata, &n_outputs);
  if (outputs == NULL)
    return;

  if (!rlx_reference_value_check (g_ptr_array_index (expected, 0), outputs[0], &check))
    {
      g_test_message ("%s %s: element %" G_GSIZE_FORMAT ": expected %.9g, got %.9g (bound %.3g); %" G_GSIZE_FORMAT " elements are wrong",
                      large->op, large->types, check.first_wrong, check.expected, check.got, check.bound, check.n_wrong);
      g_test_fail ();
    }
  g_assert_cmpuint (check.n_unknown, ==, 0);
  g_object_unref (outputs[0]);
}

/* A region with more operands than there are bindings has to be split. */
static void
test_fused (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (prop_seed ("fused"));
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  g_autoptr (GPtrArray) feeds = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (GPtrArray) expected = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree RlxTensor **outputs = NULL;
  const gint64 shape[] = { 263001 };
  RlxReferenceCheck check;
  RlxNode *sum = NULL;
  gsize n_outputs;

  if (rlx_test_device () == NULL)
    return;

  for (guint i = 0; i < 9; i++)
    {
      g_autofree char *name = g_strdup_printf ("x%u", i);
      RlxNode *x = rlx_graph_input (graph, name, RLX_DATA_TYPE_F32, shape, 1, &error);

      g_ptr_array_add (feeds, prop_tensor (rand, PROP_TAME, RLX_DATA_TYPE_F32, shape, 1));
      sum = sum == NULL ? x : rlx_node_add (rlx_node_mul (sum, x, &error), x, &error);
      if (i % 3 == 2)
        sum = rlx_node_tanh (sum, &error);
      g_assert_no_error (error);
    }
  rlx_graph_output (graph, "y", sum, NULL);

  expected = rlx_reference_run (graph, (RlxTensor **) feeds->pdata, feeds->len, NULL, NULL, 0, RLX_REFERENCE_NONE, &error);
  g_assert_no_error (error);
  outputs = rlx_test_run_graph (g_object_ref (graph), feeds->len, (RlxTensor **) feeds->pdata, &n_outputs);
  if (outputs == NULL)
    return;
  g_assert_true (rlx_reference_value_check (g_ptr_array_index (expected, 0), outputs[0], &check));
  g_object_unref (outputs[0]);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  for (gsize i = 0; i < G_N_ELEMENTS (larges); i++)
    {
      g_autofree char *path = g_strdup_printf ("/large/%s", larges[i].name);

      g_test_add_data_func (path, &larges[i], test_large);
    }
  g_test_add_func ("/large/fused", test_fused);

  return g_test_run ();
}
