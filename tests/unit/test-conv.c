/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Convolutions, transposed ones and pools: every way through the kernels
 * against the reference, what is refused and why.
 */
#include "config.h"

#include <math.h>
#include <string.h>

#include "rlx-reference.h"
#include "rlx-test-util.h"

#include "util/rlx-debug-private.h"

/* ---- against the reference ---------------------------------------------------------- */

static void
check_result (const char        *op,
              const char        *attributes,
              RlxReferenceValue *expected,
              RlxTensor         *result)
{
  RlxReferenceCheck check;

  if (!rlx_reference_value_check (expected, result, &check))
    {
      g_test_message ("%s %s: element %" G_GSIZE_FORMAT ": expected %.9g, got %.9g (bound %.3g); %" G_GSIZE_FORMAT " are wrong",
                      op, attributes, check.first_wrong, check.expected, check.got, check.bound, check.n_wrong);
      g_test_fail ();
    }
  g_assert_cmpuint (check.n_unknown, ==, 0);
}

/* Runs @op on operands of @types, uniform in ±1, and compares within the bound of the
 * reference. Returns the result. */
static RlxTensor *
check_values (const char       *op,
              RlxTensor *const *inputs,
              gsize             n_inputs,
              const char       *attributes)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(GVariant) attrs = rlx_test_attributes (attributes);
  g_autoptr(GPtrArray) expected = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree RlxNode **results = NULL;
  RlxNode *nodes[4] = { NULL, };
  RlxTensor **outputs;
  RlxTensor *result;
  gsize n_results, n_outputs;

  for (gsize i = 0; i < n_inputs; i++)
    {
      g_autofree char *name = g_strdup_printf ("x%" G_GSIZE_FORMAT, i);
      gsize n_dims;
      const gint64 *shape = rlx_tensor_get_shape (inputs[i], &n_dims);

      nodes[i] = rlx_graph_input (graph, name, rlx_tensor_get_data_type (inputs[i]), shape, n_dims, &error);
      g_assert_no_error (error);
    }
  results = rlx_graph_add_op (graph, op, nodes, n_inputs, attrs, &n_results, &error);
  g_assert_no_error (error);
  rlx_graph_output (graph, "y", results[0], NULL);

  expected = rlx_reference_run (graph, inputs, n_inputs, NULL, NULL, 0, RLX_REFERENCE_NONE, &error);
  g_assert_no_error (error);
  outputs = rlx_test_run_graph (g_object_ref (graph), n_inputs, inputs, &n_outputs);
  g_assert_nonnull (outputs);
  g_assert_cmpuint (n_outputs, ==, 1);

  check_result (op, attributes, g_ptr_array_index (expected, 0), outputs[0]);
  /* A filter that is a weight may have another layout on the device. */
  if (g_str_equal (op, "conv"))
    {
      g_autoptr(GVariant) same = rlx_test_attributes (attributes);
      g_autoptr(RlxTensor) y = rlx_test_run_op_full (op, n_inputs, inputs, 1 << 1, same);

      g_assert_nonnull (y);
      check_result (op, attributes, g_ptr_array_index (expected, 0), y);
    }

  result = outputs[0];
  g_free (outputs);
  return result;
}

static void
check (const char *op,
       const char *types,
       const char *attributes)
{
  g_auto(GStrv) list = g_strsplit (types, " ", -1);
  RlxTensor *inputs[4] = { NULL, };
  g_autoptr(RlxTensor) result = NULL;
  gsize n = 0;

  for (; list[n] != NULL; n++)
    inputs[n] = rlx_test_random (list[n], -1, 1, (guint32) (7 * n + strlen (types)));
  result = check_values (op, inputs, n, attributes);
  for (gsize i = 0; i < n; i++)
    g_object_unref (inputs[i]);
}

/* relu (conv (x, w, b) + z), which is a single kernel, in each of its plans. */
static void
check_epilogue (const char *op,
                const char *types,
                const char *attributes,
                const char *more,
                gboolean    weights)
{
  g_autofree char *all = g_strconcat (types, " ", more, NULL);
  g_auto(GStrv) list = g_strsplit (all, " ", -1);
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(GVariant) attrs = rlx_test_attributes (attributes);
  g_autoptr(GPtrArray) feeds = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr(GPtrArray) expected = NULL;
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree RlxNode **results = NULL;
  g_autofree RlxTensor **outputs = NULL;
  RlxNode *nodes[5], *node;
  RlxReferenceCheck check;
  gsize n = 0, n_results, n_outputs;

  for (; list[n] != NULL; n++)
    {
      g_autofree char *name = g_strdup_printf ("x%" G_GSIZE_FORMAT, n);
      RlxTensor *tensor = rlx_test_random (list[n], -1, 1, (guint32) n + 5);
      gsize n_dims;
      const gint64 *shape = rlx_tensor_get_shape (tensor, &n_dims);

      if (weights && (n == 1 || n == 2))
        {
          nodes[n] = rlx_graph_constant (graph, tensor, &error);
          g_object_unref (tensor);
        }
      else
        {
          nodes[n] = rlx_graph_input (graph, name, rlx_tensor_get_data_type (tensor), shape, n_dims, &error);
          g_ptr_array_add (feeds, tensor);
        }
      g_assert_no_error (error);
    }
  results = rlx_graph_add_op (graph, op, nodes, n - 1, attrs, &n_results, &error);
  g_assert_no_error (error);
  node = rlx_node_add (results[0], nodes[n - 1], &error);
  node = rlx_node_relu (node, &error);
  g_assert_no_error (error);
  rlx_graph_output (graph, "y", node, NULL);

  expected = rlx_reference_run (graph, (RlxTensor **) feeds->pdata, feeds->len, NULL, NULL, 0, RLX_REFERENCE_NONE, &error);
  g_assert_no_error (error);
  executable = rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (rlx_executable_get_n_dispatches (executable), ==, 1);
  outputs = rlx_executable_run (executable, (RlxTensor **) feeds->pdata, feeds->len, &n_outputs, NULL, &error);
  g_assert_no_error (error);
  if (!rlx_reference_value_check (g_ptr_array_index (expected, 0), outputs[0], &check))
    {
      g_test_message ("%s %s and more: element %" G_GSIZE_FORMAT ": expected %.9g, got %.9g (bound %.3g)", op, types,
                      check.first_wrong, check.expected, check.got, check.bound);
      g_test_fail ();
    }
  g_object_unref (outputs[0]);
}

static void
test_epilogue (void)
{
  if (rlx_test_device () == NULL)
    return;

  check_epilogue ("conv", "f32[2,3,9,9] f32[17,3,3,3] f32[17]", "{'padding': <[int64 1, 1, 1, 1]>}", "f32[2,17,9,9]", FALSE);
  check_epilogue ("conv", "f32[1,8,6,5] f32[3,3,5,20]", "{'layout': <'channels-last'>, 'filter_layout': <'sio'>}", "f32[20]", FALSE);
  check_epilogue ("conv", "f32[1,70,3,3] f32[2,70,3,3]", "@a{sv} {}", "f32[1]", FALSE);
  check_epilogue ("conv_transpose", "f16[1,4,5,5] f16[4,3,2,2] f16[3]", "{'strides': <[int64 2, 2]>}", "f16[3,1,1]", FALSE);
  check_epilogue ("conv", "f32[2,20,23,9] f32[50,20,3,3] f32[50]", "{'padding': <[int64 1, 1, 1, 1]>}", "f32[50,1,1]", TRUE);
}

static void
test_layouts (void)
{
  static const struct { const char *layout, *filter, *depthwise; } filters[] = {
    { "ois", "f32[6,3,3,2]", "f32[6,1,3,2]" },
    { "ios", "f32[3,6,3,2]", "f32[1,6,3,2]" },
    { "osi", "f32[6,3,2,3]", "f32[6,3,2,1]" },
    { "iso", "f32[3,3,2,6]", "f32[1,3,2,6]" },
    { "sio", "f32[3,2,3,6]", "f32[3,2,1,6]" },
    { "soi", "f32[3,2,6,3]", "f32[3,2,6,1]" },
  };

  if (rlx_test_device () == NULL)
    return;

  for (gsize i = 0; i < G_N_ELEMENTS (filters); i++)
    for (guint last = 0; last < 2; last++)
      {
        g_autofree char *types = g_strdup_printf ("%s %s f32[6]", last ? "f32[2,7,8,3]" : "f32[2,3,7,8]", filters[i].filter);
        g_autofree char *attributes = g_strdup_printf ("{'layout': <'channels-%s'>, 'filter_layout': <'%s'>, 'padding': <[int64 0, 1, 2, 0]>}",
                                                       last ? "last" : "first", filters[i].layout);
        g_autofree char *each = g_strdup_printf ("%s %s f32[6]", last ? "f32[2,7,8,3]" : "f32[2,3,7,8]", filters[i].depthwise);
        g_autofree char *grouped = g_strdup_printf ("{'layout': <'channels-%s'>, 'filter_layout': <'%s'>, 'groups': <int64 3>}",
                                                    last ? "last" : "first", filters[i].layout);

        check ("conv", types, attributes);
        check ("conv", each, grouped);
      }

  for (gsize i = 0; i < G_N_ELEMENTS (filters); i++)
    for (guint last = 0; last < 2; last++)
      {
        /* There the operand has the six channels that are called output here. */
        static const char *const swapped[] = { "ios", "ois", "iso", "osi", "soi", "sio" };
        g_autofree char *types = g_strdup_printf ("%s %s f32[3]", last ? "f32[2,4,5,6]" : "f32[2,6,4,5]", filters[i].filter);
        g_autofree char *attributes = g_strdup_printf ("{'layout': <'channels-%s'>, 'filter_layout': <'%s'>, 'strides': <[int64 2, 3]>, "
                                                       "'padding': <[int64 0, 1, 2, 0]>}",
                                                       last ? "last" : "first", swapped[i]);

        check ("conv_transpose", types, attributes);
      }
}

static void
test_conv_shapes (void)
{
  if (rlx_test_device () == NULL)
    return;

  /* 1 × 1 */
  check ("conv", "f32[1,16,5,5] f32[24,16,1,1]", "{}");
  /* groups, dilation, asymmetric padding */
  check ("conv", "f32[2,6,9,10] f32[8,3,3,2] f32[8]",
         "{'groups': <int64 2>, 'dilations': <[int64 2, 3]>, 'padding': <[int64 2, 0, 1, 3]>, 'strides': <[int64 1, 2]>}");
  /* a stride larger than the filter, a filter larger than the operand */
  check ("conv", "f32[1,2,11,13] f32[3,2,2,1]", "{'strides': <[int64 5, 4]>}");
  check ("conv", "f32[1,2,2,1] f32[3,2,5,4]", "{'padding': <[int64 3, 1, 0, 3]>}");
  check ("conv", "f32[1,2,1,2] f32[3,2,40,30]", "{'padding': <[int64 39, 20, 28, 1]>, 'dilations': <[int64 1, 1]>}");
  /* one and three axes */
  check ("conv", "f32[2,3,70] f32[9,3,5] f32[9]", "{'padding': <[int64 4, 0]>, 'strides': <[int64 2]>}");
  check ("conv", "f32[1,2,5,6,7] f32[4,2,3,2,3] f32[4]", "{'padding': <[int64 1, 1, 0, 0, 2, 1]>, 'strides': <[int64 1, 2, 1]>}");
  check ("conv", "f32[1,5,6,7,2] f32[3,2,3,2,4]",
         "{'layout': <'channels-last'>, 'filter_layout': <'sio'>, 'dilations': <[int64 2, 1, 2]>}");
  /* depthwise, with two filters per channel */
  check ("conv", "f32[1,8,12,12] f32[16,1,3,3] f32[16]", "{'groups': <int64 8>, 'padding': <[int64 1, 1, 1, 1]>}");
  check ("conv", "f32[2,12,12,40] f32[3,3,1,40]",
         "{'groups': <int64 40>, 'layout': <'channels-last'>, 'filter_layout': <'sio'>, 'strides': <[int64 2, 2]>}");
  /* long sums, few elements */
  check ("conv", "f32[1,600,3,3] f32[1,600,3,3] f32[1]", "{}");
  /* many channels, few positions */
  check ("conv", "f32[1,33,2,2] f32[70,33,2,2]", "{'padding': <[int64 1, 0, 0, 0]>}");
  /* nothing */
  check ("conv", "f32[0,2,4,4] f32[3,2,2,2]", "{}");
  check ("conv", "f32[1,2,4,4] f32[0,2,2,2]", "{}");
  check ("conv", "f32[1,0,4,4] f32[3,0,2,2] f32[3]", "{}");
  check ("conv", "f32[1,2,0,4] f32[3,2,2,2] f32[3]", "{'padding': <[int64 1, 2, 0, 0]>}");
  /* values that make no difference */
  check ("conv", "f32[1,2,3] f32[3,2,1]", "{'dilations': <[int64 9223372036854775807]>}");
  check ("conv", "f32[1,2,3] f32[3,2,3]", "{'strides': <[int64 9223372036854775807]>}");
}

/* The type of a filter of 3 by 2 elements. */
static char *
filter_type (const char *layout,
             const char *type,
             int         m,
             int         c)
{
  g_autoptr(GString) text = g_string_new (NULL);

  for (const char *letter = layout; *letter != '\0'; letter++)
    {
      g_string_append (text, letter == layout ? "" : ",");
      if (*letter == 's')
        g_string_append (text, "3,2");
      else
        g_string_append_printf (text, "%d", *letter == 'o' ? m : c);
    }
  return g_strdup_printf ("%s[%s]", type, text->str);
}

/* Enough of everything for matrix products on a GPU: every order of axes, channel counts that
 * are multiples of four and others, whole and partial tiles, sums shared by workgroups. */
static void
test_conv_tiles (void)
{
  static const char *const layouts[] = { "ois", "ios", "osi", "iso", "sio", "soi" };
  static const int channels[][2] = { { 36, 8 }, { 33, 6 }, { 20, 5 }, { 68, 4 } };

  if (rlx_test_device () == NULL)
    return;

  for (gsize i = 0; i < G_N_ELEMENTS (layouts); i++)
    for (guint j = 0; j < 2 * G_N_ELEMENTS (channels); j++)
      {
        int m = channels[j / 2][0], c = channels[j / 2][1];
        const char *type = j / 2 == 1 ? "f16" : "f32";
        g_autofree char *filter = filter_type (layouts[i], type, m, c);
        g_autofree char *types = j % 2 ? g_strdup_printf ("%s[2,7,8,%d] %s %s[%d]", type, c, filter, type, m)
                                       : g_strdup_printf ("%s[2,%d,7,8] %s %s[%d]", type, c, filter, type, m);
        g_autofree char *attributes = g_strdup_printf ("{'layout': <'channels-%s'>, 'filter_layout': <'%s'>, 'padding': <[int64 0, 1, 2, 0]>}",
                                                       j % 2 ? "last" : "first", layouts[i]);

        check ("conv", types, attributes);
      }
  check ("conv", "f32[2,40,9,10] f32[34,20,3,2] f32[34]",
         "{'groups': <int64 2>, 'dilations': <[int64 2, 3]>, 'padding': <[int64 2, 0, 1, 3]>, 'strides': <[int64 1, 2]>}");
  check ("conv", "f32[3,16,70] f32[17,16,5] f32[17]", "{'padding': <[int64 4, 0]>, 'strides': <[int64 2]>}");
  check ("conv", "f32[1,70,12] f32[20,5,12] f32[20]",
         "{'layout': <'channels-last'>, 'filter_layout': <'osi'>, 'padding': <[int64 4, 0]>, 'strides': <[int64 3]>}");
  check ("conv", "f32[1,4,5,6,7] f32[18,4,3,2,3] f32[18]", "{'padding': <[int64 1, 1, 0, 0, 2, 1]>, 'strides': <[int64 1, 2, 1]>}");
  check ("conv", "f32[1,5,6,7,4] f32[3,2,3,4,18]",
         "{'layout': <'channels-last'>, 'filter_layout': <'sio'>, 'dilations': <[int64 2, 1, 2]>}");
  /* 1 × 1: a product, except with strides or padding */
  check ("conv", "f32[2,32,6,6] f32[40,16,1,1] f32[40]", "{'groups': <int64 2>}");
  check ("conv", "f32[2,6,6,16] f32[40,16,1,1] f32[40]", "{'layout': <'channels-last'>}");
  check ("conv", "f32[1,16,9,9] f32[20,16,1,1]", "{'strides': <[int64 2, 1]>}");
  check ("conv", "f32[1,16,2,9] f32[20,16,1,1]", "{'strides': <[int64 2, 1]>, 'padding': <[int64 0, 1, 0, 0]>}");
  check ("conv", "f32[1,16,9,9] f32[20,16,1,1] f32[20]", "{'padding': <[int64 1, 0, 0, 2]>}");
  /* few positions and many steps */
  check ("conv", "f32[1,128,7,7] f32[48,128,3,3] f32[48]", "{'padding': <[int64 1, 1, 1, 1]>}");
  check ("conv", "f32[1,7,7,128] f32[48,3,3,128] f32[48]",
         "{'layout': <'channels-last'>, 'filter_layout': <'osi'>, 'padding': <[int64 1, 1, 1, 1]>}");
}

/* Filters that are not weights are copied on a CPU if each element is used often enough: whole and partial panels,
 * every order of axes, and transposed ones, which are read in reverse. */
static void
test_conv_copied (void)
{
  if (rlx_test_device () == NULL)
    return;

  check ("conv", "f32[2,16,24,24] f32[20,16,3,3] f32[20]", "{'padding': <[int64 1, 0, 2, 1]>}");
  check ("conv", "f32[2,24,34,34] f32[40,24,3,3]", "{}");
  check ("conv", "f16[2,16,24,24] f16[9,16,3,3]", "{'strides': <[int64 1, 2]>, 'dilations': <[int64 2, 1]>}");
  check ("conv", "f32[2,24,24,16] f32[16,3,3,20]", "{'layout': <'channels-last'>, 'filter_layout': <'iso'>}");
  /* as in the gradient of the filter: a window nearly as large as the operand */
  check ("conv", "f32[9,20,12,13] f32[20,20,10,9]", "{'strides': <[int64 1, 2]>}");
  check ("conv_transpose", "f32[2,16,22,22] f32[16,20,3,3] f32[20]", "{}");
  check ("conv_transpose", "f32[2,16,22,22] f32[16,20,3,2]", "{'padding': <[int64 1, 2, 0, 1]>, 'dilations': <[int64 2, 1]>}");
  check ("conv_transpose", "f16[2,22,22,16] f16[3,3,16,20]", "{'layout': <'channels-last'>, 'filter_layout': <'sio'>}");
  check ("conv_transpose", "f32[2,20,200] f32[17,20,9]", "{'filter_layout': <'ois'>, 'padding': <[int64 8, 3]>}");
  /* padding that a plain convolution cannot have, and a stride */
  check ("conv_transpose", "f32[2,16,22,22] f32[16,20,3,3]", "{'padding': <[int64 3, 0, 0, 0]>}");
  check ("conv_transpose", "f32[2,16,12,12] f32[16,20,3,3]", "{'strides': <[int64 2, 1]>}");
}

/* Weights may have another layout on the device, and give the same bits. */
static void
test_conv_constant (void)
{
  static const char *const calls[][4] = {
    { "conv", "f32[1,9,9,8]", "f32[3,3,8,37]", "{'layout': <'channels-last'>, 'filter_layout': <'sio'>}" },
    { "conv", "f32[1,9,9,8]", "f32[37,3,3,8]", "{'layout': <'channels-last'>, 'filter_layout': <'osi'>}" },
    { "conv", "f32[1,9,9,8]", "f32[37,8,3,3]", "{'layout': <'channels-last'>, 'filter_layout': <'ois'>}" },
    { "conv", "f32[1,24,60,61]", "f32[24,24,3,3]", "{'padding': <[int64 1, 1, 1, 1]>}" },
    /* transposed, with a block for each position */
    { "conv_transpose", "f32[2,16,24,25]", "f32[16,20,2,3]", "{'strides': <[int64 2, 3]>}" },
    { "conv_transpose", "f32[2,30,31,16]", "f32[16,3,2,13]",
      "{'strides': <[int64 3, 2]>, 'layout': <'channels-last'>, 'filter_layout': <'iso'>}" },
    { "conv_transpose", "f32[1,24,90,71]", "f32[24,1,2,2]", "{'strides': <[int64 2, 2]>}" },
    { "conv_transpose", "f32[2,40,700]", "f32[40,7,5]", "{'strides': <[int64 5]>}" },
    /* not quite */
    { "conv_transpose", "f32[2,16,24,25]", "f32[16,20,2,3]", "{'strides': <[int64 2, 3]>, 'output_padding': <[int64 0, 1]>}" },
    { "conv_transpose", "f32[2,16,24,25]", "f32[16,20,2,3]", "{'strides': <[int64 2, 3]>, 'padding': <[int64 0, 1, 1, 0]>}" },
  };

  if (rlx_test_device () == NULL)
    return;
  for (gsize i = 0; i < G_N_ELEMENTS (calls); i++)
    {
      g_autoptr(RlxTensor) x = rlx_test_random (calls[i][1], -1, 1, 1);
      g_autoptr(RlxTensor) filter = rlx_test_random (calls[i][2], -1, 1, 2);
      RlxTensor *inputs[] = { x, filter };
      g_autoptr(GVariant) attrs = rlx_test_attributes (calls[i][3]);
      g_autoptr(RlxTensor) y = rlx_test_run_op_full (calls[i][0], 2, inputs, 0, attrs);
      g_autoptr(RlxTensor) z = rlx_test_run_op_full (calls[i][0], 2, inputs, 2, attrs);

      g_assert_true (rlx_tensor_equal (y, z));
    }
}

static void
test_conv_large (void)
{
  if (rlx_test_device () == NULL)
    return;

  check ("conv", "f32[2,16,33,35] f32[48,16,3,3] f32[48]", "{'padding': <[int64 1, 1, 1, 1]>}");
  check ("conv", "f16[1,8,40,41] f16[20,8,3,3] f16[20]", "{'padding': <[int64 1, 1, 1, 1]>, 'strides': <[int64 2, 1]>}");
  check ("conv", "f32[1,30,31,12] f32[3,3,12,40]", "{'layout': <'channels-last'>, 'filter_layout': <'sio'>}");
  check ("conv", "f32[1,33,40,31] f32[70,33,3,3] f32[70]", "{'padding': <[int64 0, 2, 1, 1]>}");
  check ("conv", "f32[3,20,700] f32[40,20,5] f32[40]", "{'strides': <[int64 2]>, 'dilations': <[int64 3]>, 'padding': <[int64 9, 0]>}");
  check ("conv", "f32[1,6,10,11,12] f32[18,3,3,3,6]", "{'filter_layout': <'osi'>}");
  check ("conv", "f32[2,64,14,14] f32[64,64,1,1]", "{}");
  check ("conv", "f32[2,5,9,11] f32[10,1,3,4] f32[10]", "{'groups': <int64 5>, 'padding': <[int64 1, 1, 2, 1]>, 'strides': <[int64 1, 2]>}");
  check ("conv", "f16[1,3,70] f16[3,1,5]", "{'groups': <int64 3>, 'dilations': <[int64 2]>, 'padding': <[int64 4, 3]>}");
  check ("conv", "f32[1,2,4,5,6] f32[2,3,2,3,1]", "{'groups': <int64 2>, 'filter_layout': <'osi'>}");
  check ("conv", "f32[1,3,60,61] f32[40,3,7,7]", "{'strides': <[int64 2, 2]>, 'padding': <[int64 3, 3, 3, 3]>}");
  check ("conv_transpose", "f32[1,12,17,18] f32[12,20,3,3] f32[20]", "{'strides': <[int64 2, 2]>, 'padding': <[int64 1, 1, 1, 1]>}");
  if (rlx_test_has_small_bindings ())
    return;
  /* more workgroups than a dimension of the grid can have */
  check ("conv", "f32[1,1,2100000] f32[1,1,1]", "{}");
  check ("max_pool", "f32[1,1,4300000]", "{'window': <[int64 2]>}");
}

static void
test_conv_transpose_shapes (void)
{
  if (rlx_test_device () == NULL)
    return;

  check ("conv_transpose", "f32[1,3,4,5] f32[3,4,3,3]", "{}");
  check ("conv_transpose", "f32[2,4,5,6] f32[4,3,3,2] f32[6]",
         "{'groups': <int64 2>, 'strides': <[int64 2, 3]>, 'padding': <[int64 1, 0, 0, 2]>, 'output_padding': <[int64 1, 2]>}");
  check ("conv_transpose", "f32[1,2,3,3] f32[2,2,3,3]", "{'strides': <[int64 3, 2]>, 'output_sizes': <[int64 10, 8]>}");
  check ("conv_transpose", "f32[1,2,4] f32[2,5,3]", "{'dilations': <[int64 2]>, 'strides': <[int64 3]>}");
  check ("conv_transpose", "f32[1,2,3,2,3] f32[2,2,2,3,2]", "{'strides': <[int64 2, 1, 3]>, 'dilations': <[int64 1, 2, 1]>}");
  /* gaps between elements, depthwise */
  check ("conv_transpose", "f32[1,6,5,5] f32[6,1,2,2] f32[6]", "{'groups': <int64 6>, 'strides': <[int64 4, 3]>}");

  /* all groups share one channel */
  check ("conv_transpose", "f32[2,1,5,5] f32[1,2,3,3] f32[6]", "{'groups': <int64 3>, 'padding': <[int64 1, 1, 1, 1]>}");
  check ("conv_transpose", "f32[1,4,1] f32[1,2,12]", "{'groups': <int64 20>, 'layout': <'channels-last'>, 'filter_layout': <'iso'>}");
  /* a single element and a stride that makes no difference */
  check ("conv_transpose", "f32[1,2,1,2] f32[2,3,5,4]", "{'strides': <[int64 1000000, 2]>}");
  /* a filter that is much longer than the operand */
  check ("conv_transpose", "f32[1,2,2,1] f32[2,3,31,40] f32[3]", "{'strides': <[int64 5, 7]>, 'dilations': <[int64 2, 1]>}");
  check ("conv_transpose", "f32[1,1,1,1] f32[1,1,500,600]", "{}");
  /* long sums, few elements */
  check ("conv_transpose", "f32[1,700,1,1] f32[700,1,1,1]", "{}");
  check ("conv_transpose", "f32[0,2,4] f32[2,5,3]", "{}");
  check ("conv_transpose", "f32[1,0,4] f32[0,5,3] f32[5]", "{}");
  check ("conv_transpose", "f16[1,3,9] f16[3,4,4] f16[4]", "{'strides': <[int64 2]>}");
}

/* Elements that a filter of infinities does not reach remain finite. */
static void
test_conv_infinite (void)
{
  static const double ones[4] = { 1, 1, 1, 1 };
  static const double filter[3] = { 1, INFINITY, 1 };
  RlxTensor *inputs[2];
  g_autoptr(RlxTensor) y = NULL;
  g_autofree double *values = NULL;

  if (rlx_test_device () == NULL)
    return;

  inputs[0] = rlx_test_tensor ("f32[1,1,4]", ones);
  inputs[1] = rlx_test_tensor ("f32[1,1,3]", filter);
  y = check_values ("conv_transpose", inputs, 2, "{'strides': <[int64 3]>}");
  values = rlx_test_get_values (y);
  for (gsize i = 0; i < 12; i++)
    g_assert_cmpfloat (values[i], ==, i % 3 == 1 ? INFINITY : 1);
  g_object_unref (inputs[0]);
  g_object_unref (inputs[1]);
}

static RlxTensor *
run (const char *op,
     RlxTensor  *x,
     const char *attributes)
{
  g_autoptr(GVariant) attrs = rlx_test_attributes (attributes);

  return rlx_test_run_op (op, 1, &x, attrs);
}

static void
test_im2col (void)
{
  static const double x[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
  static const double expected[12] = { 0, 1, 0, 5, 2, 3, 6, 7, 4, 0, 8, 0 };
  g_autoptr(RlxTensor) tensor = rlx_test_tensor ("i8[1,2,4]", x);
  g_autoptr(RlxTensor) y = NULL;

  if (rlx_test_device () == NULL)
    return;

  y = run ("im2col", tensor, "{'window': <[int64 2]>, 'strides': <[int64 2]>, 'padding': <[int64 1, 1]>}");
  rlx_test_compare ("im2col", y, "i8[3,4]", expected, 0, 0);
  check ("im2col", "f16[2,3,7,6]", "{'window': <[int64 3, 2]>, 'dilations': <[int64 2, 1]>, 'padding': <[int64 0, 1, 2, 0]>}");
  check ("im2col", "u8[1,2,3,4,5]", "{'window': <[int64 2, 2, 3]>, 'strides': <[int64 1, 2, 1]>}");
  check ("im2col", "f32[0,2,3]", "{'window': <[int64 2]>}");
}

/* ---- pools --------------------------------------------------------------------------------- */

static void
test_pool_shapes (void)
{
  static const char *const ops[] = { "max_pool", "arg_max_pool", "average_pool", "l2_pool" };

  if (rlx_test_device () == NULL)
    return;

  for (gsize i = 0; i < G_N_ELEMENTS (ops); i++)
    {
      check (ops[i], "f32[2,3,7,8]", "{'window': <[int64 3, 2]>, 'strides': <[int64 2, 2]>, 'padding': <[int64 1, 0, 0, 1]>}");
      check (ops[i], "f32[2,9,8,3]", "{'window': <[int64 2, 3]>, 'dilations': <[int64 3, 2]>, 'layout': <'channels-last'>}");
      check (ops[i], "f32[1,2,9]", "{'window': <[int64 4]>, 'strides': <[int64 3]>, 'ceil_mode': <true>}");
      check (ops[i], "f32[1,2,4,5,6]", "{'window': <[int64 2, 3, 2]>, 'padding': <[int64 1, 1, 0, 2, 0, 0]>}");
      check (ops[i], "f16[1,2,5,5]", "{'window': <[int64 2, 2]>}");
      check (ops[i], "f32[0,2,5,5]", "{'window': <[int64 2, 2]>}");
      /* global: in one step, in several, and with channels last */
      check (ops[i], "f32[2,3,7,8]", "{}");
      check (ops[i], "f32[1,2,70,90]", "{}");
      check (ops[i], "f16[1,40,50,3]", "{'layout': <'channels-last'>}");
      check (ops[i], "f32[1,1,1100000]", "{}");
      /* one workgroup per window */
      check (ops[i], "f32[1,2,50,50]", "{'window': <[int64 48, 49]>, 'padding': <[int64 1, 0, 0, 0]>}");
      /* windows that consist of padding */
      check (ops[i], "f32[1,1,3]", "{'window': <[int64 2]>, 'padding': <[int64 4, 3]>}");
      /* a last window that begins outside */
      check (ops[i], "f32[1,1,5]", "{'window': <[int64 1]>, 'strides': <[int64 3]>, 'padding': <[int64 0, 1]>, 'output_sizes': <[int64 3]>}");
      check (ops[i], "f32[1,1,5]", "{'window': <[int64 2]>, 'strides': <[int64 1000000000000]>, 'output_sizes': <[int64 2]>}");
    }

  check ("average_pool", "f32[1,2,6,7]",
         "{'window': <[int64 3, 3]>, 'strides': <[int64 2, 2]>, 'padding': <[int64 1, 1, 1, 2]>, 'ceil_mode': <true>, 'count_include_pad': <true>}");
}

static void
test_max_pool_types (void)
{
  static const char *const types[] = { "i32", "u32", "i8", "u8", "i64", "u64", "f16" };

  if (rlx_test_device () == NULL)
    return;

  for (gsize i = 0; i < G_N_ELEMENTS (types); i++)
    {
      g_autofree char *type = g_strdup_printf ("%s[1,2,40,41]", types[i]);
      g_autoptr(RlxTensor) x = rlx_test_random (type, types[i][0] == 'u' ? 0 : -100, 100, 3);
      g_autoptr(RlxTensor) small = check_values ("max_pool", &x, 1, "{'window': <[int64 2, 3]>, 'padding': <[int64 0, 4, 0, 0]>}");
      g_autoptr(RlxTensor) all = check_values ("max_pool", &x, 1, "{}");
      g_autoptr(RlxTensor) where = check_values ("arg_max_pool", &x, 1, "{'window': <[int64 38, 39]>}");
    }
}

static void
test_max_pool_nan (void)
{
  static const double x[6] = { -INFINITY, NAN, 5, -INFINITY, -INFINITY, -INFINITY };
  static const double largest[4] = { NAN, NAN, 5, -INFINITY };
  static const double where[4] = { 1, 1, 2, 3 };
  g_autoptr(RlxTensor) tensor = rlx_test_tensor ("f32[1,1,6]", x);
  g_autoptr(RlxTensor) y = NULL;
  g_autoptr(RlxTensor) at = NULL;

  if (rlx_test_device () == NULL)
    return;

  y = run ("max_pool", tensor, "{'window': <[int64 3]>}");
  at = run ("arg_max_pool", tensor, "{'window': <[int64 3]>}");
  rlx_test_compare ("max_pool", y, "f32[1,1,4]", largest, 0, 0);
  rlx_test_compare ("arg_max_pool", at, "i32[1,1,4]", where, 0, 0);
}

/* ---- rules ----------------------------------------------------------------------------------- */

/* Fails unless the operator infers @type. */
static void
infers (const char *op,
        const char *types,
        const char *attributes,
        const char *type)
{
  g_autoptr(GVariant) attrs = rlx_test_attributes (attributes);

  rlx_test_infers (op, types, attrs, type);
}

static void
test_conv_rule (void)
{
  infers ("conv", "f32[1,1,5,5] f32[1,1,3,3]", "{}", "f32[1,1,3,3]");
  infers ("conv", "f16[2,4,5,5] f16[6,2,4,2] f16[6]",
          "{'groups': <int64 2>, 'padding': <[int64 1, 2, 0, 1]>, 'strides': <[int64 2, 2]>}", "f16[2,6,3,3]");
  infers ("conv", "f32[1,5,5,2] f32[2,3,3,7]", "{'layout': <'channels-last'>, 'filter_layout': <'iso'>}", "f32[1,3,3,7]");
  infers ("conv", "f32[1,2,9] f32[3,2,2]", "{'dilations': <[int64 8]>}", "f32[1,3,1]");
  infers ("conv_transpose", "f32[1,1,3,3] f32[1,2,3,3]", "{'strides': <[int64 3, 2]>}", "f32[1,2,9,7]");
  infers ("conv_transpose", "f32[1,1,3,3] f32[1,2,3,3]",
          "{'strides': <[int64 3, 2]>, 'output_padding': <[int64 1, 1]>}", "f32[1,2,10,8]");
  infers ("im2col", "u8[2,3,4,5]", "{'window': <[int64 2, 3]>}", "u8[18,18]");
  infers ("max_pool", "u32[1,3,7,7]",
          "{'window': <[int64 4, 4]>, 'padding': <[int64 1, 1, 1, 1]>, 'strides': <[int64 2, 2]>, 'ceil_mode': <true>}",
          "u32[1,3,4,4]");
  /* The third window would begin in the padding. */
  infers ("max_pool", "f32[1,1,2]",
          "{'window': <[int64 1]>, 'padding': <[int64 0, 2]>, 'strides': <[int64 2]>, 'ceil_mode': <true>}",
          "f32[1,1,2]");
  infers ("average_pool", "f32[1,3,4,5,6]", "{}", "f32[1,3,1,1,1]");
  infers ("arg_max_pool", "u8[1,3,4,5]", "{}", "i32[1,3,1,1]");
}

typedef struct
{
  const char *op;
  const char *types;
  const char *attributes;
  RlxGraphError code;
  const char *words;
} Refusal;

static void
test_refusals (void)
{
  static const Refusal rows[] = {
    { "conv", "f32[5,5] f32[1,1]", "{}", RLX_GRAPH_ERROR_SHAPE, "2 dimensions" },
    { "conv", "f32[1,1,2,2,2,2] f32[1,1,2,2,2,2]", "{}", RLX_GRAPH_ERROR_SHAPE, "6 dimensions" },
    { "conv", "f32[1,1,5,5] f32[1,1,3]", "{}", RLX_GRAPH_ERROR_SHAPE, "the filter f32[1, 1, 3] has 3 dimensions" },
    { "conv", "i32[1,1,5] i32[1,1,3]", "{}", RLX_GRAPH_ERROR_DATA_TYPE, "i32" },
    { "conv", "f32[1,1,5] f16[1,1,3]", "{}", RLX_GRAPH_ERROR_DATA_TYPE, "f16" },
    { "conv", "f32[1,1,5] f32[1,1,3]", "{'strides': <[int64 0]>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "strides[0] is 0" },
    { "conv", "f32[1,1,5] f32[1,1,3]", "{'strides': <[int64 1, 1]>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "strides has 2 values" },
    { "conv", "f32[1,1,5] f32[1,1,3]", "{'dilations': <[int64 -1]>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "dilations[0] is -1" },
    { "conv", "f32[1,1,5] f32[1,1,3]", "{'padding': <[int64 1]>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "padding has 1 values" },
    { "conv", "f32[1,1,5] f32[1,1,3]", "{'padding': <[int64 0, -2]>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "padding[1] is -2" },
    { "conv", "f32[1,1,5] f32[1,1,3]", "{'groups': <int64 0>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "groups is 0" },
    { "conv", "f32[1,4,5] f32[3,1,3]", "{'groups': <int64 3>}", RLX_GRAPH_ERROR_SHAPE, "4 channels" },
    { "conv", "f32[1,4,5] f32[3,2,3]", "{'groups': <int64 2>}", RLX_GRAPH_ERROR_SHAPE, "3 output channels" },
    { "conv", "f32[1,4,5] f32[4,4,3]", "{'groups': <int64 2>}", RLX_GRAPH_ERROR_SHAPE, "4 input channels" },
    { "conv", "f32[1,1,5] f32[2,1,3] f32[1]", "{}", RLX_GRAPH_ERROR_SHAPE, "the bias is f32[1]" },
    { "conv", "f32[1,1,5] f32[2,1,3] f32[2,1]", "{}", RLX_GRAPH_ERROR_SHAPE, "the bias is f32[2, 1]" },
    { "conv", "f32[1,1,5] f32[2,1,0]", "{}", RLX_GRAPH_ERROR_SHAPE, "the filter has 0 elements" },
    { "conv", "f32[1,1,5] f32[2,1,6]", "{}", RLX_GRAPH_ERROR_SHAPE, "reaches over 6" },
    { "conv", "f32[1,1,5] f32[2,1,3]", "{'dilations': <[int64 3]>}", RLX_GRAPH_ERROR_SHAPE, "reaches over 7" },
    { "conv", "f32[1,1,5] f32[2,1,3]", "{'dilations': <[int64 9223372036854775807]>}", RLX_GRAPH_ERROR_LIMIT, "9223372036854775807" },
    { "conv", "f32[1,1,5] f32[2,1,3]", "{'padding': <[int64 9223372036854775807, 9223372036854775807]>}", RLX_GRAPH_ERROR_LIMIT, "padding" },
    { "conv", "f32[1,1,5] f32[2,1,3]", "{'padding': <[int64 2147483640, 5]>}", RLX_GRAPH_ERROR_LIMIT, "2147483647" },
    { "conv", "f32[4,1,5,5] f32[2,1,1,1]", "{'padding': <[int64 100000, 0, 100000, 0]>}", RLX_GRAPH_ERROR_LIMIT, NULL },

    { "conv_transpose", "f32[1,1,3] f32[2,1,3]", "{}", RLX_GRAPH_ERROR_SHAPE, "2 input channels" },
    { "conv_transpose", "f32[1,1,3] f32[1,1,3]", "{'groups': <int64 4294967295>}", RLX_GRAPH_ERROR_LIMIT, NULL },
    { "conv_transpose", "f32[1,0,3] f32[0,4,3]", "{'groups': <int64 9223372036854775807>}", RLX_GRAPH_ERROR_LIMIT, "too many" },
    { "conv_transpose", "f32[1,1,0] f32[1,1,3]", "{}", RLX_GRAPH_ERROR_SHAPE, "no elements" },
    { "conv_transpose", "f32[1,1,2] f32[1,1,3]", "{'padding': <[int64 2, 2]>}", RLX_GRAPH_ERROR_SHAPE, "removes all of them" },
    { "conv_transpose", "f32[1,1,2] f32[1,1,3]", "{'strides': <[int64 4611686018427387904]>}", RLX_GRAPH_ERROR_LIMIT, "longer than" },
    { "conv_transpose", "f32[1,1,3] f32[1,1,3]", "{'strides': <[int64 9223372036854775807]>}", RLX_GRAPH_ERROR_LIMIT, "longer than" },
    { "conv_transpose", "f32[1,1,2] f32[1,1,3]", "{'output_padding': <[int64 1]>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "output_padding[0] is 1" },
    { "conv_transpose", "f32[1,1,2] f32[1,1,3]", "{'output_padding': <[int64 -1]>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "output_padding[0] is -1" },
    { "conv_transpose", "f32[1,1,3] f32[1,1,3]", "{'strides': <[int64 2]>, 'output_sizes': <[int64 6]>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT,
      "from 7 to 8" },
    { "conv_transpose", "f32[1,1,3] f32[1,1,3]", "{'strides': <[int64 2]>, 'output_sizes': <[int64 9]>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT,
      "from 7 to 8" },
    { "conv_transpose", "f32[1,1,1] f32[1,1,1]",
      "{'strides': <[int64 9223372036854775807]>, 'output_sizes': <[int64 9223372036854775807]>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "output_sizes" },
    { "conv_transpose", "f32[4,1,1,1] f32[1,1,1,1]",
      "{'strides': <[int64 100000, 100000]>, 'output_sizes': <[int64 100000, 100000]>}", RLX_GRAPH_ERROR_LIMIT, NULL },

    { "im2col", "f32[1,2,3]", "{'window': <@ax []>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "window has no values" },
    { "im2col", "f32[1,2,3]", "{'window': <[int64 0]>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "window[0] is 0" },
    { "im2col", "f32[1,2,3]", "{'window': <[int64 4]>}", RLX_GRAPH_ERROR_SHAPE, "reaches over 4" },
    { "im2col", "f32[1,3,1]", "{'window': <[int64 1000000000]>, 'padding': <[int64 1000000000, 0]>}", RLX_GRAPH_ERROR_LIMIT, NULL },
    { "im2col", "f32[4,4,1,1,1]",
      "{'window': <[int64 1, 1, 1]>, 'padding': <[int64 2147483000, 0, 2147483000, 0, 2147483000, 0]>}", RLX_GRAPH_ERROR_LIMIT, NULL },

    { "max_pool", "f32[2,2]", "{}", RLX_GRAPH_ERROR_SHAPE, "2 dimensions" },
    { "max_pool", "bool[1,1,5]", "{}", RLX_GRAPH_ERROR_DATA_TYPE, "bool" },
    { "average_pool", "i32[1,1,5]", "{}", RLX_GRAPH_ERROR_DATA_TYPE, "i32" },
    { "l2_pool", "u8[1,1,5]", "{}", RLX_GRAPH_ERROR_DATA_TYPE, "u8" },
    { "max_pool", "f32[1,1,0]", "{}", RLX_GRAPH_ERROR_SHAPE, "0 elements" },
    { "max_pool", "f32[1,1,5]", "{'window': <[int64 0]>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "window[0] is 0" },
    { "max_pool", "f32[1,1,5]", "{'window': <[int64 2, 2]>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "window has 2 values" },
    { "max_pool", "f32[1,1,5]", "{'window': <[int64 6]>}", RLX_GRAPH_ERROR_SHAPE, "reaches over 6" },
    { "max_pool", "f32[1,1,5]", "{'window': <[int64 2]>, 'strides': <[int64 0]>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "strides[0] is 0" },
    { "max_pool", "f32[1,1,5]", "{'window': <[int64 2]>, 'strides': <[int64 2]>, 'output_sizes': <[int64 4]>}",
      RLX_GRAPH_ERROR_INVALID_ARGUMENT, "output_sizes[0] is 4" },
    { "max_pool", "f32[1,1,5]", "{'window': <[int64 2]>, 'output_sizes': <[int64 5]>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "output_sizes[0] is 5" },
    { "max_pool", "f32[1,1,1,1]", "{'window': <[int64 1000000000, 1000000000]>, 'padding': <[int64 1000000000, 0, 1000000000, 0]>}",
      RLX_GRAPH_ERROR_LIMIT, "more than 4294967295" },
    { "max_pool", "f32[1,1,5]", "{'layout': <'nhwc'>}", RLX_GRAPH_ERROR_INVALID_ARGUMENT, "nhwc" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr(GVariant) attrs = rlx_test_attributes (rows[i].attributes);

      rlx_test_refuses (rows[i].op, rows[i].types, attrs, rows[i].code, rows[i].words);
    }
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/conv/rule", test_conv_rule);
  g_test_add_func ("/conv/refusals", test_refusals);
  g_test_add_func ("/conv/layouts", test_layouts);
  g_test_add_func ("/conv/epilogue", test_epilogue);
  g_test_add_func ("/conv/shapes", test_conv_shapes);
  g_test_add_func ("/conv/tiles", test_conv_tiles);
  g_test_add_func ("/conv/copied", test_conv_copied);
  g_test_add_func ("/conv/constant", test_conv_constant);
  g_test_add_func ("/conv/large", test_conv_large);
  g_test_add_func ("/conv/infinite", test_conv_infinite);
  g_test_add_func ("/conv-transpose/shapes", test_conv_transpose_shapes);
  g_test_add_func ("/im2col", test_im2col);
  g_test_add_func ("/pool/shapes", test_pool_shapes);
  g_test_add_func ("/pool/types", test_max_pool_types);
  g_test_add_func ("/pool/nan", test_max_pool_nan);

  return g_test_run ();
}
