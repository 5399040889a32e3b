/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Norms of batches, images, groups and sums, and gates: their rules, and sizes
 * that the property tests do not reach.
 */
#include "config.h"
#include "rlx-test-util.h"

#include <math.h>

#include "rlx-reference.h"
#include "util/rlx-debug-private.h"

#define INVALID RLX_GRAPH_ERROR_INVALID_ARGUMENT
#define SHAPE RLX_GRAPH_ERROR_SHAPE
#define TYPE RLX_GRAPH_ERROR_DATA_TYPE

/* @op on random operands, the first one between @least and @greatest; "-" is an omitted
 * operand. All results must be within the reference's bounds. */
static void
check (const char *op,
       const char *types,
       const char *attributes,
       double      least,
       double      greatest)
{
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  g_autoptr (GVariant) attrs = g_variant_ref_sink (g_variant_new_parsed (attributes));
  g_autoptr (GPtrArray) feeds = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (GPtrArray) nodes = g_ptr_array_new ();
  g_autoptr (GPtrArray) expected = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree RlxNode **results = NULL;
  g_autofree RlxTensor **outputs = NULL;
  g_auto (GStrv) words = g_strsplit (types, " ", -1);
  gsize n_results, n_outputs;

  for (guint i = 0; words[i] != NULL; i++)
    {
      g_autofree char *name = g_strdup_printf ("x%u", i);
      RlxTensor *tensor;
      const gint64 *shape;
      gsize n_dims;

      if (g_str_equal (words[i], "-"))
        {
          g_ptr_array_add (nodes, NULL);
          continue;
        }
      /* A variance is not negative. */
      tensor = rlx_test_random (words[i], i == 0 ? least : i == 2 ? 0.5 : -2, i == 0 ? greatest : 2, 100 + i);
      shape = rlx_tensor_get_shape (tensor, &n_dims);
      g_ptr_array_add (feeds, tensor);
      g_ptr_array_add (nodes, rlx_graph_input (graph, name, rlx_tensor_get_data_type (tensor), shape, n_dims, &error));
      g_assert_no_error (error);
    }
  results = rlx_graph_add_op (graph, op, (RlxNode **) nodes->pdata, nodes->len, attrs, &n_results, &error);
  g_assert_no_error (error);
  for (gsize i = 0; i < n_results; i++)
    {
      g_autofree char *name = g_strdup_printf ("y%" G_GSIZE_FORMAT, i);

      rlx_graph_output (graph, name, results[i], NULL);
    }

  expected = rlx_reference_run (graph, (RlxTensor **) feeds->pdata, feeds->len, NULL, NULL, 0, RLX_REFERENCE_NONE, &error);
  g_assert_no_error (error);
  outputs = rlx_test_run_graph (g_object_ref (graph), feeds->len, (RlxTensor **) feeds->pdata, &n_outputs);
  if (outputs == NULL)
    return;
  for (gsize i = 0; i < n_outputs; i++)
    {
      RlxReferenceCheck result;

      if (!rlx_reference_value_check (g_ptr_array_index (expected, i), outputs[i], &result))
        {
          g_test_message ("%s %s, result %" G_GSIZE_FORMAT ": element %" G_GSIZE_FORMAT ": expected %.9g, got %.9g (bound %.3g); %"
                          G_GSIZE_FORMAT " elements are wrong",
                          op, types, i, result.first_wrong, result.expected, result.got, result.bound, result.n_wrong);
          g_test_fail ();
        }
      g_assert_cmpuint (result.n_unknown, ==, 0);
      g_object_unref (outputs[i]);
    }
}

/* ---- rules --------------------------------------------------------------------------- */

#define ATTRS(text) g_variant_new_parsed (text)

static void
test_batch_rules (void)
{
  const char *op = "batch_norm";

  rlx_test_infers (op, "f32[2,3,4] f32[3] f32[3]", NULL, "f32[2,3,4]");
  rlx_test_infers (op, "f16[2,3,4] f32[3] f16[3] f32[3] f16[3]", NULL, "f16[2,3,4]");
  rlx_test_infers (op, "f32[5] f32[5] f32[5] - f32[5]", ATTRS ("{'axis': <int64 0>}"), "f32[5]");
  rlx_test_infers (op, "f32[2,0] f32[0] f32[0]", ATTRS ("{'axis': <int64 -1>}"), "f32[2,0]");
  rlx_test_refuses (op, "f32[2,3,4] f32[3]", NULL, INVALID, NULL);
  rlx_test_refuses (op, "f32[2,3,4] f32[2] f32[3]", NULL, SHAPE, "mean");
  rlx_test_refuses (op, "f32[2,3,4] f32[3] f32[3,1]", NULL, SHAPE, "variance");
  rlx_test_refuses (op, "f32[2,3,4] f32[3] f32[3] f32[4]", NULL, SHAPE, "scale");
  rlx_test_refuses (op, "f32[2,3,4] f32[3] f32[3] f32[3] f32[]", NULL, SHAPE, "bias");
  rlx_test_refuses (op, "i32[2,3,4] f32[3] f32[3]", NULL, TYPE, NULL);
  rlx_test_refuses (op, "f32[2,3,4] i32[3] f32[3]", NULL, TYPE, "mean");
  rlx_test_refuses (op, "f32[3] f32[3] f32[3]", NULL, INVALID, "axis 1");
  rlx_test_refuses (op, "f32[2,3,4] f32[3] f32[3]", ATTRS ("{'axis': <int64 3>}"), INVALID, "axis 3");
  rlx_test_refuses (op, "f32[2,3,4] f32[3] f32[3]", ATTRS ("{'epsilon': <-1.0>}"), INVALID, "epsilon");
}

static void
test_image_rules (void)
{
  static const char *const ops[] = { "instance_norm", "layer_norm_2d" };

  for (gsize i = 0; i < G_N_ELEMENTS (ops); i++)
    {
      const char *op = ops[i];

      rlx_test_infers (op, "f32[2,3,4,5]", NULL, "f32[2,3,4,5]");
      rlx_test_infers (op, "f32[2,3] f32[3]", NULL, "f32[2,3]");
      rlx_test_infers (op, "f16[2,3,4,5] - f16[5]", ATTRS ("{'layout': <'channels-last'>}"), "f16[2,3,4,5]");
      rlx_test_infers (op, "f32[2,0,4]", NULL, "f32[2,0,4]");
      rlx_test_refuses (op, "f32[3]", NULL, SHAPE, "1 dimensions");
      rlx_test_refuses (op, "f32[]", NULL, SHAPE, "0 dimensions");
      rlx_test_refuses (op, "f32[2,3,4,5] f32[5]", NULL, SHAPE, "scale");
      rlx_test_refuses (op, "f32[2,3,4,5] f32[3] f32[1,3]", NULL, SHAPE, "bias");
      rlx_test_refuses (op, "f32[2,3,4,5] f16[3]", NULL, TYPE, "scale");
      rlx_test_refuses (op, "u8[2,3,4,5]", NULL, TYPE, NULL);
      rlx_test_refuses (op, "f32[2,3,4,5]", ATTRS ("{'epsilon': <-0.5>}"), INVALID, "epsilon");
      rlx_test_refuses (op, "f32[2,3,4,5]", ATTRS ("{'layout': <'sideways'>}"), INVALID, "sideways");
    }

  rlx_test_infers ("group_norm", "f32[2,6,4] f32[6] f32[3]", ATTRS ("{'groups': <int64 3>}"), "f32[2,6,4]");
  rlx_test_infers ("group_norm", "f32[2,0,4]", ATTRS ("{'groups': <int64 3>}"), "f32[2,0,4]");
  rlx_test_refuses ("group_norm", "f32[2,6,4]", NULL, INVALID, "groups");
  rlx_test_refuses ("group_norm", "f32[2,6,4]", ATTRS ("{'groups': <int64 4>}"), INVALID, "4 groups");
  rlx_test_refuses ("group_norm", "f32[2,6,4]", ATTRS ("{'groups': <int64 0>}"), INVALID, "0 groups");
  rlx_test_refuses ("group_norm", "f32[2,6,4]", ATTRS ("{'groups': <int64 -2>}"), INVALID, "-2 groups");
  rlx_test_refuses ("group_norm", "f32[2,6,4] f32[2]", ATTRS ("{'groups': <int64 3>}"), SHAPE, "scale");
}

static void
test_residual_rules (void)
{
  static const char *const ops[] = { "residual_layer_norm", "residual_rms_norm" };

  for (gsize i = 0; i < G_N_ELEMENTS (ops); i++)
    {
      const char *op = ops[i];

      rlx_test_infers (op, "f32[2,3,4] f32[2,3,4]", NULL, "f32[2,3,4]");
      rlx_test_infers (op, "f16[2,3,4] f16[3,1] f16[4]", NULL, "f16[2,3,4]");
      rlx_test_infers (op, "f32[2,3,4] f32[] f32[4,2]", ATTRS ("{'axes': <[int64 2, 0]>}"), "f32[2,3,4]");
      rlx_test_refuses (op, "f32[2,3,4]", NULL, INVALID, NULL);
      rlx_test_refuses (op, "f32[2,3,1] f32[2,3,4]", NULL, SHAPE, "residual");
      rlx_test_refuses (op, "f32[2,3,4] f32[2,2,4]", NULL, SHAPE, "residual");
      rlx_test_refuses (op, "f32[2,3,4] f32[2,3,4] f32[3]", NULL, SHAPE, "scale");
      rlx_test_refuses (op, "f32[2,3,4] f32[2,3,4] - f32[3]", NULL, SHAPE, i == 0 ? "bias" : "addend");
      rlx_test_refuses (op, "f32[2,3,4] f16[2,3,4]", NULL, TYPE, "residual");
      rlx_test_refuses (op, "f32[2,3,4] f32[2,3,4]", ATTRS ("{'axes': <[int64 3]>}"), INVALID, "axis 3");
      rlx_test_refuses (op, "f32[2,3,4] f32[2,3,4]", ATTRS ("{'epsilon': <-1.0>}"), INVALID, "epsilon");
    }
}

static void
test_other_rules (void)
{
  rlx_test_infers ("ada_layer_norm", "f32[2,3,4] f32[2,1,4] f32[4]", NULL, "f32[2,3,4]");
  rlx_test_refuses ("ada_layer_norm", "f32[2,3,4] f32[4]", NULL, INVALID, NULL);
  rlx_test_refuses ("ada_layer_norm", "f32[2,3,4] f32[3] f32[4]", NULL, SHAPE, "scale");
  rlx_test_refuses ("ada_layer_norm", "f32[3,4] f32[3,4] f32[2,3,4]", NULL, SHAPE, "shift");
  rlx_test_refuses ("ada_layer_norm", "f32[3,4] f32[4] f16[4]", NULL, TYPE, "shift");

  rlx_test_infers ("lp_norm", "f16[2,3]", NULL, "f16[2,3]");
  rlx_test_infers ("lp_norm", "f32[2,3]", ATTRS ("{'p': <int64 1>, 'axis': <int64 0>}"), "f32[2,3]");
  rlx_test_refuses ("lp_norm", "f32[2,3]", ATTRS ("{'p': <int64 3>}"), INVALID, "p is 3");
  rlx_test_refuses ("lp_norm", "f32[2,3]", ATTRS ("{'axis': <int64 2>}"), INVALID, "axis 2");
  rlx_test_refuses ("lp_norm", "f32[]", NULL, INVALID, NULL);
  rlx_test_refuses ("lp_norm", "i8[2,3]", NULL, TYPE, NULL);

  rlx_test_infers ("swiglu", "f32[2,1] f32[3]", NULL, "f32[2,3]");
  rlx_test_infers ("gated_residual", "f16[2,3,4] f16[2,3,4] f16[2,1,4]", NULL, "f16[2,3,4]");
  rlx_test_refuses ("geglu", "f32[2] f32[3]", NULL, SHAPE, NULL);
  rlx_test_refuses ("geglu", "i32[2] i32[2]", NULL, TYPE, NULL);
}

/* ---- values ---------------------------------------------------------------------------- */

/* All norms share their kernels: one with all options represents them. */
static void
test_lengths (void)
{
  static const int lengths[] = { 1, 7, 63, 64, 65, 1000, 70000 };

  if (rlx_test_device () == NULL)
    return;

  for (gsize i = 0; i < G_N_ELEMENTS (lengths); i++)
    {
      int n = lengths[i], rows = n > 5000 ? 2 : 40;
      g_autofree char *types = g_strdup_printf ("f32[%d,%d] f32[%d,%d] f32[%d] f32[%d] f32[%d]", rows, n, rows, n, n, n, n);

      check ("residual_layer_norm", types, "{'keep_sum': <true>}", -1, 3);
    }
  check ("ada_layer_norm", "f32[2,2,9000] f32[2,1,9000] f32[2,1,1]", "@a{sv} {}", -1, 3);
  check ("lp_norm", "f32[20,30]", "{'p': <int64 1>}", -1, 3);
}

static void
test_images (void)
{
  if (rlx_test_device () == NULL)
    return;

  /* few channels with many pixels, in either layout */
  check ("instance_norm", "f32[1,3,300,301] f32[3] f32[3]", "@a{sv} {}", -1, 3);
  check ("group_norm", "f32[1,70,71,8] f32[8] f32[2]", "{'groups': <int64 2>, 'layout': <'channels-last'>}", -1, 3);
  check ("group_norm", "f32[2,6,5,4] f32[3] f32[3]", "{'groups': <int64 3>}", -1, 3);
  check ("layer_norm_2d", "f32[2,70,9,11] f32[70] f32[70]", "@a{sv} {}", -1, 3);
  check ("batch_norm", "f32[2,3,50,51] f32[3] f32[3] f32[3] f32[3]", "@a{sv} {}", -1, 3);
  check ("batch_norm", "f16[2,50,51,3] f16[3] f16[3] - f16[3]", "{'axis': <int64 -1>}", -1, 3);
}

/* A common offset of all elements must not swamp their variance. */
static void
test_offset (void)
{
  static const double offsets[] = { 1e3, -1e4 };

  if (rlx_test_device () == NULL)
    return;

  for (gsize i = 0; i < G_N_ELEMENTS (offsets); i++)
    {
      check ("instance_norm", "f32[2,3,100]", "@a{sv} {}", offsets[i] - 1, offsets[i] + 1);
      check ("instance_norm", "f32[1,2,100001]", "@a{sv} {}", offsets[i] - 1, offsets[i] + 1);
    }
}

static void
test_large (void)
{
  if (rlx_test_device () == NULL)
    return;
  if (rlx_test_has_small_bindings ())
    {
      /* More than one step has bindings for. */
      check ("residual_layer_norm", "f32[400,701] f32[400,701] f32[701] f32[701] f32[701]", "{'keep_sum': <true>}", -1, 3);
      check ("residual_rms_norm", "f16[800,701] f16[800,701] f16[701] f16[701]", "{'keep_sum': <true>}", -1, 3);
      return;
    }

  check ("instance_norm", "f32[1,1,1000000]", "@a{sv} {}", 4, 6);
  check ("residual_rms_norm", "f32[1000000] f32[1] f32[1000000]", "@a{sv} {}", 4, 6);
}

/* Rows that are split, with some parts that contribute nothing. */
static void
test_softmax_parts (void)
{
  enum { N = 20000 };
  static const char *const ops[] = { "softmax", "log_softmax" };
  g_autofree double *values = g_new (double, 4 * N);
  g_autofree double *expected = g_new (double, 4 * N);
  g_autofree char *type = g_strdup_printf ("f32[4,%d]", N);
  g_autoptr (RlxTensor) x = NULL;

  if (rlx_test_device () == NULL)
    return;

  /* half of the elements, none, a single NaN, all equal */
  for (int i = 0; i < N; i++)
    {
      values[i] = i < N / 2 ? -INFINITY : -100;
      values[N + i] = -INFINITY;
      values[2 * N + i] = i == N - 3 ? NAN : 1;
      values[3 * N + i] = 1e30;
    }
  x = rlx_test_tensor (type, values);
  for (gsize i = 0; i < G_N_ELEMENTS (ops); i++)
    {
      g_autoptr (RlxTensor) y = rlx_test_run_op (ops[i], 1, &x, ATTRS ("{'axis': <int64 1>}"));

      for (int j = 0; j < N; j++)
        {
          expected[j] = i == 0 ? (j < N / 2 ? 0 : 2.0 / N) : (j < N / 2 ? -INFINITY : -log (N / 2));
          expected[N + j] = expected[2 * N + j] = NAN;
          expected[3 * N + j] = i == 0 ? 1.0 / N : -log (N);
        }
      if (y != NULL)
        rlx_test_compare (ops[i], y, type, expected, i == 0 ? 0 : 3e-6, 3e-6);
    }
}

/* An infinity or a NaN makes its whole row NaN, however rows are split. */
static void
test_special (void)
{
  static const int shapes[][2] = { { 20, 100 }, { 3, 20000 } };

  if (rlx_test_device () == NULL)
    return;

  for (gsize i = 0; i < G_N_ELEMENTS (shapes); i++)
    {
      int rows = shapes[i][0], n = shapes[i][1];
      g_autofree double *values = g_new (double, rows * n);
      g_autofree double *expected = g_new (double, rows * n);
      g_autofree char *type = g_strdup_printf ("f32[%d,%d]", rows, n);
      g_autoptr (RlxTensor) x = NULL;
      g_autoptr (RlxTensor) y = NULL;

      for (int j = 0; j < rows * n; j++)
        {
          values[j] = j % 2 == 0 ? 3 : 5;
          expected[j] = j < 2 * n ? NAN : j % 2 == 0 ? -1 : 1;
        }
      values[n / 2] = INFINITY;
      values[2 * n - 1] = NAN;
      x = rlx_test_tensor (type, values);
      y = rlx_test_run_op ("layer_norm", 1, &x, ATTRS ("{'epsilon': <0.0>}"));
      if (y != NULL)
        rlx_test_compare ("layer_norm", y, type, expected, 0, 4e-6);
    }
}

static void
test_lp_special (void)
{
  g_autoptr (RlxTensor) x = rlx_test_tensor ("f32[5,3]", (double[]) { 0, 0, 0, 3, 0, -4, 1, NAN, 1, 1, INFINITY, 2, -0.0, 0, 0 });
  static const double two[] = { 0, 0, 0, 0.6, 0, -0.8, NAN, NAN, NAN, 0, NAN, 0, -0.0, 0, 0 };
  static const double one[] = { 0, 0, 0, 3 / 7.0, 0, -4 / 7.0, NAN, NAN, NAN, 0, NAN, 0, -0.0, 0, 0 };
  g_autoptr (RlxTensor) y = NULL;
  g_autoptr (RlxTensor) z = NULL;

  if (rlx_test_device () == NULL)
    return;
  y = rlx_test_run_op ("lp_norm", 1, &x, NULL);
  z = rlx_test_run_op ("lp_norm", 1, &x, ATTRS ("{'p': <int64 1>}"));
  if (y != NULL && z != NULL)
    {
      rlx_test_compare ("lp_norm, p = 2", y, "f32[5,3]", two, 0, 2e-6);
      rlx_test_compare ("lp_norm, p = 1", z, "f32[5,3]", one, 0, 2e-6);
    }
}

/* A batch_norm with known moments is fused with what follows it. */
static void
test_fusion (void)
{
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  g_autoptr (RlxTensor) mean = rlx_test_random ("f32[3]", -1, 1, 1);
  g_autoptr (RlxTensor) variance = rlx_test_random ("f32[3]", 1, 2, 2);
  g_autoptr (RlxExecutable) executable = NULL;
  g_autoptr (GError) error = NULL;
  RlxDevice *device = rlx_test_device ();
  RlxNode *node, *moments[2];

  if (device == NULL)
    return;
  if (RLX_DEBUG_CHECK (NO_FUSE) || RLX_DEBUG_CHECK (NO_FOLD))
    {
      g_test_skip ("nothing is fused or folded");
      return;
    }

  node = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F16, (gint64[]) { 2, 3, 5, 5 }, 4, &error);
  moments[0] = rlx_graph_constant (graph, mean, &error);
  moments[1] = rlx_graph_constant (graph, variance, &error);
  node = rlx_node_relu (rlx_node_batch_norm (node, moments[0], moments[1], NULL, NULL, NULL, &error), &error);
  g_assert_no_error (error);
  rlx_graph_output (graph, "y", node, NULL);
  executable = rlx_device_compile (device, graph, NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (rlx_executable_get_n_dispatches (executable), ==, 1);
}

/* The halves of a tensor are read in place. */
static void
test_gates (void)
{
  static const struct { const char *op; double bound; } ops[] = { { "swiglu", 6e-6 }, { "geglu", 4e-7 * 4 } };
  g_autoptr (RlxTensor) x = rlx_test_random ("f32[5,14]", -3, 3, 9);
  g_autofree double *values = rlx_test_get_values (x);

  if (rlx_test_device () == NULL)
    return;
  for (gsize i = 0; i < G_N_ELEMENTS (ops); i++)
    {
      g_autoptr (RlxGraph) graph = rlx_graph_new ();
      g_autoptr (GError) error = NULL;
      g_autofree RlxNode **results = NULL;
      g_autofree RlxTensor **outputs = NULL;
      RlxNode *node = rlx_graph_input (graph, "x", RLX_DATA_TYPE_F32, (gint64[]) { 5, 14 }, 2, &error);
      RlxNode *halves[2];
      double expected[35];
      gsize n;

      halves[0] = rlx_node_slice (node, (gint64[]) { 0, 0 }, 2, (gint64[]) { 5, 7 }, 2, NULL, &error);
      halves[1] = rlx_node_slice (node, (gint64[]) { 0, 7 }, 2, (gint64[]) { 5, 14 }, 2, NULL, &error);
      g_assert_no_error (error);
      results = rlx_graph_add_op (graph, ops[i].op, halves, 2, NULL, &n, &error);
      g_assert_no_error (error);
      rlx_graph_output (graph, "y", results[0], NULL);
      for (int j = 0; j < 35; j++)
        {
          double a = values[j / 7 * 14 + j % 7], b = values[j / 7 * 14 + 7 + j % 7];

          expected[j] = (i == 0 ? a / (1 + exp (-a)) : a / 2 * (1 + erf (a * M_SQRT1_2))) * b;
        }
      outputs = rlx_test_run_graph (g_object_ref (graph), 1, &x, &n);
      if (outputs == NULL)
        return;
      rlx_test_compare (ops[i].op, outputs[0], "f32[5,7]", expected, i == 0 ? 0 : ops[i].bound * 3, i == 0 ? ops[i].bound : 0);
      g_object_unref (outputs[0]);
    }
}

/* Operands added to a norm of long rows take nearly all available bindings, and the
 * partial results one more. */
static void
test_many_operands (void)
{
  enum { N = 6, COLUMNS = 20000 };
  g_autoptr (GString) text = g_string_new ("rlx 1\n%0 = input \"x\" f32[1, 20000]\n%1 = rms_norm(%0)\n");
  g_autoptr (RlxGraph) graph = NULL;
  g_autoptr (GPtrArray) inputs = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (GError) error = NULL;
  g_autofree RlxTensor **outputs = NULL;
  g_autofree double *expected = g_new (double, COLUMNS);
  gsize n_outputs;

  if (rlx_test_device () == NULL)
    return;

  for (guint i = 0; i < COLUMNS; i++)
    expected[i] = i % 2 ? -2 : 2;
  g_ptr_array_add (inputs, rlx_test_tensor ("f32[1,20000]", expected));
  for (guint i = 0; i < N; i++)
    {
      g_string_append_printf (text, "%%%u = input \"z%u\" f32[1, 20000]\n%%%u = add(%%%u, %%%u)\n", 2 * i + 2, i, 2 * i + 3, 2 * i + 1, 2 * i + 2);
      for (guint j = 0; j < COLUMNS; j++)
        expected[j] = (j * (i + 1)) % 50;
      g_ptr_array_add (inputs, rlx_test_tensor ("f32[1,20000]", expected));
    }
  g_string_append_printf (text, "output \"y\" %%%u\n", 2 * N + 1);
  for (guint j = 0; j < COLUMNS; j++)
    {
      expected[j] = j % 2 ? -1 : 1;
      for (guint i = 0; i < N; i++)
        expected[j] += (j * (i + 1)) % 50;
    }

  graph = rlx_graph_new_from_text (text->str, &error);
  g_assert_no_error (error);
  outputs = rlx_test_run_graph (g_object_ref (graph), inputs->len, (RlxTensor **) inputs->pdata, &n_outputs);
  if (outputs == NULL)
    return;
  /* each sum is below 512 and rounded once; plus the norm's epsilon and bound */
  rlx_test_compare ("rms_norm", outputs[0], "f32[1,20000]", expected, N * 0x1p-16 + 4e-6, 0);
  g_object_unref (outputs[0]);
}

/* Stores of half words within nested conditions: a driver lost some of them. */
static void
test_stores (void)
{
  static const char text[] =
    "rlx 1\n"
    "%0 = input \"x\" f16[17, 2, 63]\n"
    "%1 = constant f16[2] [-1.25, 1.5]\n"
    "%2 = instance_norm(%0, %1)\n"
    "%3 = cos(%2)\n"
    "output \"y\" %3\n";
  enum { COLUMNS = 63, N = 17 * 2 * COLUMNS };
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxGraph) graph = rlx_graph_new_from_text (text, &error);
  g_autoptr (RlxExecutable) executable = NULL;
  g_autoptr (RlxTensor) x = NULL;
  g_autofree double *values = g_new (double, N), *expected = g_new (double, N);
  g_auto (RlxTensors) outputs = NULL;

  g_assert_no_error (error);
  if (rlx_test_device () == NULL)
    return;

  for (gsize i = 0; i < N; i++)
    values[i] = (double) (i * 37 % 101) / 32 - 1.5;
  for (gsize row = 0; row < N / COLUMNS; row++)
    {
      const double *in = values + row * COLUMNS;
      double mean = 0, variance = 0;

      for (gsize i = 0; i < COLUMNS; i++)
        mean += in[i] / COLUMNS;
      for (gsize i = 0; i < COLUMNS; i++)
        variance += (in[i] - mean) * (in[i] - mean) / COLUMNS;
      for (gsize i = 0; i < COLUMNS; i++)
        expected[row * COLUMNS + i] = cos ((in[i] - mean) / sqrt (variance + 1e-5) * (row % 2 == 0 ? -1.25 : 1.5));
    }

  x = rlx_test_tensor ("f16[17,2,63]", values);
  executable = rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error);
  g_assert_no_error (error);
  outputs = rlx_executable_run (executable, &x, 1, NULL, NULL, &error);
  g_assert_no_error (error);
  /* Also that of rounding to f16 before cos, if nothing is fused. */
  rlx_test_compare ("stores", outputs[0], "f16[17,2,63]", expected, 2e-3, 0);
}

/* The same in a loop within a condition, where the result reuses the operand's memory: a
 * lost store leaves the operand. */
static void
test_softmax_stores (void)
{
  enum { N = 1500 };
  static const double zeros[N];
  g_autofree double *values = g_new (double, N);
  g_autoptr (RlxTensor) x = NULL, y = NULL;

  if (rlx_test_device () == NULL)
    return;

  for (gsize i = 0; i < N; i++)
    values[i] = (double) (i * 37 % 101) / 32 - 1.5;
  x = rlx_test_tensor ("f16[1,1500]", values);
  y = rlx_test_run_op ("log_softmax", 1, &x, g_variant_new_parsed ("{'axis': <int64 -2>}"));
  g_assert_nonnull (y);
  rlx_test_compare ("stores", y, "f16[1,1500]", zeros, 0, 0);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/batch/rules", test_batch_rules);
  g_test_add_func ("/images/rules", test_image_rules);
  g_test_add_func ("/residual/rules", test_residual_rules);
  g_test_add_func ("/others/rules", test_other_rules);
  rlx_test_add_kernels ("/norms/lengths", test_lengths);
  rlx_test_add_kernels ("/norms/images", test_images);
  rlx_test_add_kernels ("/norms/offset", test_offset);
  g_test_add_func ("/norms/large", test_large);
  rlx_test_add_kernels ("/norms/special", test_special);
  rlx_test_add_kernels ("/softmax/parts", test_softmax_parts);
  g_test_add_func ("/lp/special", test_lp_special);
  g_test_add_func ("/batch/fusion", test_fusion);
  g_test_add_func ("/gates/halves", test_gates);
  rlx_test_add_kernels ("/norms/many-operands", test_many_operands);
  g_test_add_func ("/norms/stores", test_stores);
  g_test_add_func ("/softmax/stores", test_softmax_stores);

  return g_test_run ();
}
