/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Checked runs: which operators they look at, that they find the first element that does
 * not fit, and only such, and that they change nothing else.
 */
#include "config.h"

#include <string.h>

#include "passes/rlx-passes-private.h"
#include "rlx-prop-calls.h"
#include "rlx-test-executable.h"
#include "util/rlx-debug-private.h"

/* ---- the table ------------------------------------------------------------------------- */

/* Operators that cannot overflow with integers, whatever their operands are. */
static const char *const stay_in_range[] = {
  "max", "min", "mod", "bit_and", "bit_or", "bit_xor", "bit_not", "shift_right", "equal", "not_equal", "less", "less_equal",
  "greater", "greater_equal", "where", "clamp", "identity", "stop_gradient", "sign", "relu", "reduce_max", "reduce_min", "cummax", "cummin",
  NULL,
};

/* Whether an input takes only integers, as indices do. */
static gboolean
takes_indices (const RlxOp *op)
{
  for (guint i = 0; i < op->n_inputs; i++)
    if ((op->inputs[i].types & ~RLX_TYPES_INT) == 0 && op->inputs[i].types != RLX_TYPES_BYTE && op->inputs[i].same_as < 0 &&
        strstr (op->inputs[i].name, "zero") == NULL)
      return TRUE;
  return FALSE;
}

static void
test_table (void)
{
  guint n = 0;

  for (guint i = 0; i < rlx_n_ops; i++)
    {
      const RlxOp *op = rlx_op_table[i];
      gboolean computes = op->expr_i != NULL || g_str_has_prefix (op->name, "cum") ||
                          (g_str_has_prefix (op->name, "reduce_") && (op->inputs[0].types & RLX_TYPES_INT) != 0);

      if (computes && !g_strv_contains (stay_in_range, op->name) && op->checked == NULL)
        g_test_fail_printf ("%s computes with integers, but its row does not say what a checked run finds", op->name);
      if (takes_indices (op) && !g_str_has_prefix (op->name, "bit_") && !g_str_has_prefix (op->name, "shift_") && op->checked == NULL)
        g_test_fail_printf ("%s takes indices, but its row does not say what a checked run finds", op->name);
      if ((op->checked != NULL && !g_str_has_prefix (op->checked, "nothing: ")) != rlx_op_has_check (op))
        g_test_fail_printf ("%s: its row says “%s”, but it has %s check", op->name, op->checked, rlx_op_has_check (op) ? "a" : "no");
      n += rlx_op_has_check (op);
    }
  g_assert_cmpuint (n, >, 30);
}

/* ---- one operator at a time -------------------------------------------------------------- */

/* A tensor from "i32[2,2]=1,2,3,4": numbers are repeated as needed. */
static RlxTensor *
parse_tensor (const char *text)
{
  g_auto(GStrv) parts = g_strsplit (text, "=", 2);
  g_auto(GStrv) numbers = g_strsplit (parts[1], ",", -1);
  g_autofree double *values = NULL;
  const char *type = parts[0];
  gint64 shape[RLX_MAX_DIMS];
  RlxDataType data_type;
  gsize n_dims, n, n_numbers = g_strv_length (numbers);

  g_assert_true (rlx_test_next_type (&type, &data_type, shape, &n_dims));
  n = prop_count (shape, n_dims);
  values = g_new (double, n + 1);
  for (gsize i = 0; i < n; i++)
    values[i] = g_ascii_strtod (numbers[i % n_numbers], NULL);
  return rlx_test_tensor (parts[0], values);
}

/* The results of an operator, from a checked or an unchecked run. */
static RlxTensor **
run_op (const char *op,
        const char *operands,
        const char *attributes,
        gboolean    checked,
        GError    **error)
{
  g_auto(GStrv) texts = g_strsplit (operands, " ", -1);
  g_autoptr(GVariant) given = attributes != NULL ? g_variant_ref_sink (g_variant_new_parsed (attributes)) : NULL;
  g_autoptr(GPtrArray) feeds = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr(GPtrArray) nodes = g_ptr_array_new ();
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autoptr(RlxCompileOptions) options = rlx_compile_options_new ();
  g_autoptr(RlxExecutable) executable = NULL;
  g_autofree RlxNode **results = NULL;
  GError *local = NULL;
  gsize n_results = 0;

  for (guint i = 0; texts[i] != NULL; i++)
    {
      g_autofree char *name = g_strdup_printf ("x%u", i);
      const gint64 *shape;
      RlxTensor *tensor;
      gsize n_dims;

      if (g_str_equal (texts[i], "-"))
        {
          g_ptr_array_add (nodes, NULL);
          continue;
        }
      tensor = parse_tensor (texts[i]);
      shape = rlx_tensor_get_shape (tensor, &n_dims);
      g_ptr_array_add (feeds, tensor);
      g_ptr_array_add (nodes, rlx_graph_input (graph, name, rlx_tensor_get_data_type (tensor), shape, n_dims, &local));
      g_assert_no_error (local);
    }
  results = rlx_graph_add_op (graph, op, (RlxNode **) nodes->pdata, nodes->len, given, &n_results, &local);
  g_assert_no_error (local);
  for (gsize i = 0; i < n_results; i++)
    {
      g_autofree char *name = g_strdup_printf ("y%" G_GSIZE_FORMAT, i);

      rlx_node_set_name (results[i], "it");
      g_assert_true (rlx_graph_output (graph, name, results[i], NULL));
    }

  rlx_compile_options_set_checked (options, checked);
  executable = rlx_device_compile (rlx_test_device (), graph, options, NULL, &local);
  g_assert_no_error (local);
  return rlx_executable_run (executable, (RlxTensor **) feeds->pdata, feeds->len, NULL, NULL, error);
}

/* For each operator with a check, operands that pass, and operands that fail with the message of the run. */
static const struct
{
  const char *op;
  const char *operands;
  const char *attributes;
  const char *message;    /* after the operator and its name; NULL: it passes */
} cases[] = {
  { "abs", "i32[3]=1,-2147483647,0", NULL, NULL },
  { "abs", "i32[3]=1,2,-2147483648", NULL, "result[2] is 2147483648; i32 can be -2147483648 to 2147483647" },
  { "add", "i32[2,2]=1,2147483646,-2147483647,4 i32[2]=-1,1", NULL, NULL },
  { "add", "i32[2,2]=1,2147483647,2147483647,4 i32[2]=-1,1", NULL, "result[0, 1] is 2147483648; i32 can be -2147483648 to 2147483647" },
  { "add", "u32[2]=1,4294967295 u32[2]=1,1", NULL, "result[1] is 4294967296; u32 can be 0 to 4294967295" },
  { "add", "i64[2]=1,2147483647 i64[1]=5", NULL, "result[1] is 2147483652; i64, of 32 bits on the device, can be -2147483648 to 2147483647" },
  /* Bytes wrap, as their type specifies. */
  { "add", "i8[2]=1,127 i8[2]=1,1", NULL, NULL },
  { "add", "f32[2]=1e38,3e38 f32[2]=1e38,3e38", NULL, NULL },
  { "attention", "f32[2,1,1,4]=1 f32[2,1,3,4]=1 f32[2,1,3,4]=1 - i32[2]=3,0", NULL, NULL },
  { "attention", "f32[2,1,1,4]=1 f32[2,1,3,4]=1 f32[2,1,3,4]=1 - i32[2]=3,4", NULL, "key_lengths[1] is 4; it can be 0 to 3" },
  { "attention", "f32[2,1,1,4]=1 f32[2,3,1,4]=1 f32[2,3,1,4]=1 - i32[2]=-1,3", "{'layout': <'sequence-first'>}", "key_lengths[0] is -1; it can be 0 to 3" },
  { "attention_backward", "f32[2,1,1,4]=1 f32[2,1,3,4]=1 f32[2,1,3,4]=1 f32[2,1,1,4]=1 f32[2,1,1,4]=1 - i32[2]=3,0", NULL, NULL },
  { "attention_backward", "f32[2,1,1,4]=1 f32[2,1,3,4]=1 f32[2,1,3,4]=1 f32[2,1,1,4]=1 f32[2,1,1,4]=1 - i32[2]=3,4", NULL,
    "key_lengths[1] is 4; it can be 0 to 3" },
  { "cast", "f32[3]=2147483520,-2147483648,0.5", "{'to': <'i32'>}", NULL },
  { "cast", "f32[3]=1,2147483648,1e30", "{'to': <'i32'>}", "element[1] is 2.14748365e+09; it can be -2147483648 to 2147483647" },
  { "cast", "f32[2]=1,nan", "{'to': <'i64'>}", "element[1] is nan; it can be -2147483648 to 2147483647" },
  { "cast", "f32[2]=-0.999,4294967040", "{'to': <'u32'>}", NULL },
  { "cast", "f32[2]=-0.999,-1", "{'to': <'u32'>}", "element[1] is -1; it can be 0 to 4294967295" },
  { "cast", "f16[2]=1,inf", "{'to': <'i32'>}", "element[1] is inf;" },
  { "cast", "i32[2]=1,-1", "{'to': <'u32'>}", "element[1] is -1; it can be 0 to 4294967295" },
  { "cast", "i8[2]=1,-1", "{'to': <'u64'>}", "element[1] is -1; it can be 0 to 4294967295" },
  { "cast", "u32[2]=1,2147483648", "{'to': <'i32'>}", "element[1] is 2147483648; it can be 0 to 2147483647" },
  { "cast", "i32[2]=1,300", "{'to': <'u8'>}", NULL },
  { "cumprod", "i32[4]=65536,32767,0,9", "{'axis': <int64 0>}", NULL },
  { "cumprod", "i32[2,3]=65536,2,1,32768,2,1", "{'axis': <int64 0>}", "result[1, 0] is 2147483648" },
  { "cumprod", "u32[40]=3", "{'axis': <int64 0>}", "result[20] is 10460353203; u32 can be" },
  { "cumsum", "i32[3]=2147483647,-1,1", "{'axis': <int64 0>}", NULL },
  { "cumsum", "i32[3]=2147483647,-1,2", "{'axis': <int64 0>}", "result[2] is 2147483648" },
  { "cumsum", "i32[2,3]=1,2,3,-2147483648,-5,-1", "{'axis': <int64 1>, 'reverse': <true>, 'exclusive': <true>}", NULL },
  { "cumsum", "i32[2,3]=1,2,3,-5,-2147483648,-1", "{'axis': <int64 1>, 'reverse': <true>, 'exclusive': <true>}", "result[1, 0] is -2147483649" },
  { "cumsum", "u32[2,3]=1,2147483648,3,4,2147483648,5", "{'axis': <int64 0>}", "result[1, 1] is 4294967296" },
  { "dequant_matmul", "f32[2,32]=1 u8[3,4,34]=0 - - - i32[2]=-1,2", "{'type': <'q8-0'>}", NULL },
  { "dequant_matmul", "f32[2,32]=1 u8[3,4,34]=0 - - - i32[2]=0,3", "{'type': <'q8-0'>}", "expert[1] is 3; it can be -1 to 2" },
  { "div", "i32[2]=-2147483648,1 i32[2]=1,0", NULL, NULL },
  { "div", "i32[2]=1,-2147483648 i32[2]=-1,-1", NULL, "result[1] is 2147483648" },
  { "div", "u32[2]=1,4294967295 u32[2]=1,1", NULL, NULL },
  { "fma", "i32[2]=65536,-65536 i32[2]=32768,32768 i32[2]=-1,0", NULL, NULL },
  { "fma", "i32[2]=1,65536 i32[2]=1,65536 i32[2]=1,-5", NULL, "result[1] is 4294967291" },
  { "fma", "u32[2]=1,65535 u32[2]=1,65537 u32[2]=1,1", NULL, "result[1] is 4294967296" },
  { "gather", "f32[4,2]=1 i32[3]=-4,3,0", "{'axis': <int64 0>}", NULL },
  { "gather", "f32[2,4]=1 i32[3]=0,4,-5", "{'axis': <int64 -1>}", "indices[1] is 4; it can be -4 to 3" },
  { "gather", "f32[4]=1 u32[2,2]=0,1,2,4294967295", "{'axis': <int64 0>}", "indices[1, 1] is 4294967295; it can be 0 to 3" },
  { "gather", "f32[4]=1 i32[]=-5", "{'axis': <int64 0>}", "indices is -5; it can be -4 to 3" },
  { "gather", "f32[4]=1 i32[3]=0,4,-5", "{'axis': <int64 0>, 'clamp': <true>}", NULL },
  { "gather", "f32[200]=1 i8[2]=0,-100", "{'axis': <int64 0>}", NULL },
  { "gather_elements", "f32[2,3]=1 i32[2,1]=2,-3", "{'axis': <int64 1>}", NULL },
  { "gather_elements", "f32[2,3]=1 i32[2,1]=2,3", "{'axis': <int64 1>}", "indices[1, 0] is 3; it can be -3 to 2" },
  { "gather_nd", "f32[2,3]=1 i32[2,2]=1,2,-2,-3", NULL, NULL },
  { "gather_nd", "f32[2,3]=1 i32[2,2]=1,2,2,-3", NULL, "indices[1, 0] is 2; it can be -2 to 1" },
  { "gather_nd", "f32[2,3,4]=1 i32[2,1]=2,3", "{'batch_dims': <int64 1>}", "indices[1, 0] is 3; it can be -3 to 2" },
  { "gather_packed", "u8[3,34]=0 i32[2]=2,-3", "{'type': <'q8-0'>}", NULL },
  { "gather_packed", "u8[3,34]=0 i32[2]=2,3", "{'type': <'q8-0'>}", "indices[1] is 3; it can be -3 to 2" },
  { "grouped_matmul", "f32[2,3]=1 f32[4,3,5]=1 i32[2]=-1,3", NULL, NULL },
  { "grouped_matmul", "f32[2,3]=1 f32[4,3,5]=1 i32[2]=-2,4", NULL, "expert[0] is -2; it can be -1 to 3" },
  { "gru", "f32[3,2,4]=1 f32[1,15,4]=1 f32[1,15,5]=1 - - - i32[2]=0,3", NULL, NULL },
  { "gru", "f32[3,2,4]=1 f32[1,15,4]=1 f32[1,15,5]=1 - - - i32[2]=0,4", NULL, "sequence_lengths[1] is 4; it can be 0 to 3" },
  { "lstm", "f32[3,2,4]=1 f32[1,20,4]=1 f32[1,20,5]=1 - - - - - i32[2]=0,3", NULL, NULL },
  { "lstm", "f32[2,3,4]=1 f32[1,20,4]=1 f32[1,20,5]=1 - - - - - i32[2]=-1,3", "{'batch_first': <true>}", "sequence_lengths[0] is -1; it can be 0 to 3" },
  { "mul", "i32[2]=65536,-65536 i32[2]=32767,32768", NULL, NULL },
  { "mul", "i32[2]=65536,-65536 i32[2]=32768,32768", NULL, "result[0] is 2147483648" },
  { "mul", "i32[1]=-2147483648 i32[1]=-2147483648", NULL, "result[0] is 4611686018427387904" },
  { "mul", "u32[1]=4294967295 u32[1]=4294967295", NULL, "result[0] is far above; u32 can be 0 to 4294967295" },
  { "neg", "i32[2]=2147483647,-2147483647", NULL, NULL },
  { "neg", "i32[2]=1,-2147483648", NULL, "result[1] is 2147483648" },
  { "pow", "i32[6]=-2,2,0,-1,1,7 i32[6]=31,30,99,1000001,-5,-3", NULL, NULL },
  { "pow", "i32[2]=2,10 i32[2]=30,10", NULL, "result[1] is 10000000000" },
  { "pow", "i32[1]=-2 i32[1]=33", NULL, "result[0] is far below" },
  { "pow", "u32[2]=2,2 u32[2]=31,32", NULL, "result[1] is 4294967296" },
  { "prelu", "i32[2]=2147483647,-3 i32[2]=9,-7", NULL, NULL },
  { "prelu", "i32[2]=5,-65536 i32[2]=65536,-32768", NULL, "result[1] is 2147483648" },
  { "qconv2d", "u8[1,1,2,2]=255 u8[2,1,2,2]=255 - - i32[2]=0,2147223547", NULL, NULL },
  { "qconv2d", "u8[1,1,2,2]=255 u8[2,1,2,2]=255 - - i32[2]=0,2147223548", NULL, "result[0, 1, 0, 0] is 2147483648; i32 can be" },
  { "qconv2d", "u8[1,2,2,1]=255 u8[2,1,2,2]=255 - - i32[2]=0,2147223548 f32[1]=1", "{'to': <'f32'>, 'layout': <'channels-last'>}", "result[0, 0, 0, 1] is 2147483648; i32 can be" },
  { "qmatmul", "u8[1,2]=255 u8[2,2]=255 - - i32[2]=2147353597,-2147483648", NULL, NULL },
  { "qmatmul", "u8[1,2]=255 u8[2,2]=255 - - i32[2]=2147353597,2147353598", NULL, "result[0, 1] is 2147483648; i32 can be" },
  { "reduce_l1", "i32[2]=-2147483647,0", "{'axes': <[int64 0]>}", NULL },
  { "reduce_l1", "i32[2,2]=1,-2147483648,3,4", "{'axes': <@ax []>}", "result[0, 1] is 2147483648" },
  { "reduce_l1", "i32[2,2]=1,-2147483648,3,-2147483648", "{'axes': <[int64 0]>, 'keep_dims': <true>}", "result[0, 1] is 4294967296" },
  { "reduce_prod", "i32[3]=65536,65536,0", "{'axes': <[int64 0]>}", NULL },
  { "reduce_prod", "i32[2,3]=1,2,3,-65536,65536,2", "{'axes': <[int64 1]>}", "result[1] is -8589934592" },
  { "reduce_prod", "i32[70000]=-3", "{'axes': <[int64 0]>}", "result is far above" },
  { "reduce_prod", "i32[70001]=1,-1", "{'axes': <[int64 0]>}", NULL },
  { "reduce_sum", "i32[3]=2147483647,2147483647,-2147483648", "{'axes': <[int64 0]>}", NULL },
  { "reduce_sum", "i32[2,3,2]=1,2,3,4,5,6,2147483647,8,9,10,11,12", "{'axes': <[int64 1]>}", "result[1, 0] is 2147483667" },
  { "reduce_sum", "i32[100000]=30000,30001", "{'axes': <[int64 0]>}", "result is 3000050000" },
  { "reduce_sum", "i32[100000]=2147483647,-2147483648,1,0", "{'axes': <[int64 0]>}", NULL },
  { "reduce_sum", "u32[3,1000]=4294967", "{'axes': <[int64 1]>}", NULL },
  { "reduce_sum", "u32[3,1000]=4294968", "{'axes': <[int64 1]>}", "result[0] is 4294968000" },
  { "reduce_sum_square", "i32[2]=46340,-5", "{'axes': <[int64 0]>}", NULL },
  { "reduce_sum_square", "i32[2]=-46341,0", "{'axes': <[int64 0]>}", "result is 2147488281" },
  { "rnn", "f32[3,2,4]=1 f32[1,5,4]=1 f32[1,5,5]=1 - - - i32[2]=0,3", NULL, NULL },
  { "rnn", "f32[3,2,4]=1 f32[1,5,4]=1 f32[1,5,5]=1 - - - i32[2]=5,3", NULL, "sequence_lengths[0] is 5; it can be 0 to 3" },
  { "rope", "f32[1,1,2,4]=1 i32[1,2]=-1000,1000", NULL, NULL },
  { "rope", "f32[1,1,2,4]=1 i32[1,2]=0,9 f32[10,2]=1 f32[10,2]=1", NULL, NULL },
  { "rope", "f32[1,1,2,4]=1 i32[1,2]=0,10 f32[10,2]=1 f32[10,2]=1", NULL, "positions[0, 1] is 10; it can be 0 to 9" },
  { "scatter_elements", "f32[4]=1 i32[2]=-4,3 f32[2]=1", "{'axis': <int64 0>}", NULL },
  { "scatter_elements", "f32[4]=1 i32[2]=-4,4 f32[2]=1", "{'axis': <int64 0>}", "indices[1] is 4; it can be -4 to 3" },
  { "scatter_elements", "i32[2]=1,-9 i32[3]=0 i32[3]=2147483647,-5,5", "{'axis': <int64 0>, 'mode': <'add'>}", "result[0] is 2147483648" },
  { "scatter_elements", "i32[2]=0,-9 i32[3]=0 i32[3]=2147483647,2147483647,-2147483648", "{'axis': <int64 0>, 'mode': <'add'>}", NULL },
  { "scatter_elements", "u32[2]=4294967295,0 i32[1]=1 u32[1]=4294967295", "{'axis': <int64 0>, 'mode': <'add'>}", NULL },
  { "scatter_elements", "u32[2]=4294967295,0 i32[1]=0 u32[1]=4294967295", "{'axis': <int64 0>, 'mode': <'add'>}", "result[0] is 8589934590" },
  { "scatter_nd", "f32[2,3]=1 i32[2,2]=1,2,-2,-3 f32[2]=1", NULL, NULL },
  { "scatter_nd", "f32[2,3]=1 i32[2,2]=1,2,1,3 f32[2]=1", NULL, "indices[1, 1] is 3; it can be -3 to 2" },
  { "scatter_nd", "i32[2,2]=-2147483648,0,3,4 i32[1,1]=0 i32[1,2]=-1,7", "{'mode': <'add'>}", "result[0, 0] is -2147483649" },
  { "shift_left", "i32[4]=1,-1,0,5 i32[4]=30,31,99,-3", NULL, NULL },
  { "shift_left", "i32[2]=1,1 i32[2]=30,31", NULL, "result[1] is 2147483648" },
  { "shift_left", "i64[2]=1,-3 i64[2]=30,40", NULL, "result[1] is -3298534883328" },
  { "shift_left", "i32[1]=3 i32[1]=80", NULL, "result[0] is far above" },
  { "shift_left", "u32[2]=1,3 u32[2]=31,31", NULL, "result[1] is 6442450944" },
  { "sub", "i32[2]=-2147483648,5 i32[2]=0,6", NULL, NULL },
  { "sub", "i32[2]=-2147483648,2147483647 i32[2]=1,-1", NULL, "result[0] is -2147483649" },
  { "sub", "u32[2]=5,5 u32[2]=5,6", NULL, "result[1] is -1; u32 can be 0 to 4294967295" },
  { "write_at", "f32[4,2]=1 f32[3,2]=2 i32[]=1", NULL, NULL },
  { "write_at", "f32[4,2]=1 f32[3,2]=2 i32[]=-2", NULL, NULL },
  { "write_at", "f32[4,2]=1 f32[3,2]=2 i32[]=2", NULL, "position is 2; it can be -2 to 1" },
  { "write_at", "f32[2,4]=1 f32[2,1]=2 u32[1]=4", "{'axis': <int64 1>}", "position[0] is 4; it can be 0 to 3" },
};

static void
test_cases (gconstpointer data)
{
  const char *op = data;
  guint n_good = 0, n_bad = 0;

  if (rlx_test_device () == NULL)
    return;
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr(GError) error = NULL;
      g_auto(RlxTensors) outputs = NULL;

      if (!g_str_equal (cases[i].op, op))
        continue;
      outputs = run_op (op, cases[i].operands, cases[i].attributes, TRUE, &error);
      if (cases[i].message != NULL)
        {
          g_autofree char *message = g_strdup_printf ("%s “it”: %s", op, cases[i].message);

          n_bad++;
          if (outputs != NULL)
            g_test_fail_printf ("%s: %s was not noticed", op, cases[i].operands);
          else if (!g_error_matches (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_OUT_OF_RANGE) || !g_str_has_prefix (error->message, message))
            g_test_fail_printf ("%s instead of %s", error->message, message);
        }
      else
        {
          g_auto(RlxTensors) others = run_op (op, cases[i].operands, cases[i].attributes, FALSE, NULL);

          n_good++;
          g_assert_no_error (error);
          g_assert_true (g_bytes_equal (rlx_tensor_get_bytes (outputs[0]), rlx_tensor_get_bytes (others[0])));
        }
    }
  g_assert_cmpuint (n_good, >, 0);
  g_assert_cmpuint (n_bad, >, 0);
}

/* ---- calls of all kinds ------------------------------------------------------------------- */

/* Whatever operands are drawn for an operator: a checked run either reports the failed check or gives the
 * same bits. */
static void
test_calls (gconstpointer data)
{
  const RlxOp *op = data;
  const guint types = RLX_TYPES_F32 | RLX_TYPES_I32 | 1u << RLX_DATA_TYPE_U32 | 1u << RLX_DATA_TYPE_U8;

  if (rlx_test_device () == NULL)
    return;
  if (!rlx_test_is_thorough ())
    {
      g_test_skip ("the cases are enough under RLX_DEBUG");
      return;
    }
  for (int data_type = 0; data_type <= RLX_DATA_TYPE_U2; data_type++)
    {
      g_autofree char *what = g_strdup_printf ("checked %s %s", op->name, rlx_data_type_to_string ((RlxDataType) data_type));
      g_autoptr(GRand) rand = g_rand_new_with_seed (prop_seed (what));
      g_autoptr(RlxGraph) graph = rlx_graph_new ();
      g_autoptr(GPtrArray) feeds = g_ptr_array_new_with_free_func (g_object_unref);
      g_autoptr(GPtrArray) texts = g_ptr_array_new_with_free_func (g_free);
      g_autoptr(RlxCompileOptions) options = g_object_new (RLX_TYPE_COMPILE_OPTIONS, "checked", TRUE, NULL);
      g_autoptr(RlxExecutable) plain = NULL, checked = NULL;
      g_auto(RlxTensors) expected = NULL, outputs = NULL;
      g_autoptr(GError) error = NULL;
      Build build = { graph, feeds, texts, NULL, NULL };
      gsize n;

      if (!((get_types (op) & types) >> data_type & 1))
        continue;
      add_calls (&build, op, find_generator (op), (RlxDataType) data_type, rand);
      plain = rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error);
      g_assert_no_error (error);
      checked = rlx_device_compile (rlx_test_device (), graph, options, NULL, &error);
      g_assert_no_error (error);
      expected = rlx_executable_run (plain, (RlxTensor **) feeds->pdata, feeds->len, &n, NULL, &error);
      g_assert_no_error (error);
      outputs = rlx_executable_run (checked, (RlxTensor **) feeds->pdata, feeds->len, NULL, NULL, &error);
      if (outputs == NULL)
        {
          g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_OUT_OF_RANGE);
          g_assert_true (g_str_has_prefix (error->message, op->name));
          continue;
        }
      for (gsize i = 0; i < n; i++)
        if (!g_bytes_equal (rlx_tensor_get_bytes (expected[i]), rlx_tensor_get_bytes (outputs[i])))
          g_test_fail_printf ("%s: %s is not what it is without checks", what, (char *) g_ptr_array_index (texts, i));
    }
}

/* ---- whole graphs ------------------------------------------------------------------------- */

static RlxExecutable *
compile_text (const char *text,
              gboolean    checked)
{
  g_autoptr(RlxCompileOptions) options = g_object_new (RLX_TYPE_COMPILE_OPTIONS, "checked", checked, NULL);
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxGraph) graph = rlx_graph_new_from_text (text, &error);
  RlxExecutable *executable;

  g_assert_no_error (error);
  executable = rlx_device_compile (rlx_test_device (), graph, options, NULL, &error);
  g_assert_no_error (error);
  return executable;
}

/* Runs with inputs in the form of parse_tensor(). Returns the message, or NULL. */
static char *
run_text (RlxExecutable *executable,
          const char    *inputs)
{
  g_auto(GStrv) texts = g_strsplit (inputs, " ", -1);
  g_autoptr(GPtrArray) feeds = g_ptr_array_new_with_free_func (g_object_unref);
  g_auto(RlxTensors) outputs = NULL;
  g_autoptr(GError) error = NULL;

  for (guint i = 0; texts[i] != NULL; i++)
    g_ptr_array_add (feeds, parse_tensor (texts[i]));
  outputs = rlx_executable_run (executable, (RlxTensor **) feeds->pdata, feeds->len, NULL, NULL, &error);
  if (outputs != NULL)
    return NULL;
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_OUT_OF_RANGE);
  return g_strdup (error->message);
}

static void
assert_message_of (RlxExecutable *executable,
                   const char    *inputs,
                   const char    *expected)
{
  g_autofree char *message = run_text (executable, inputs);

  g_assert_cmpstr (message, ==, expected);
}

/* The first of several nodes is reported, although a product that needs it comes late; and the
 * first of several elements, even if many invocations check them. The next run starts afresh. */
static void
test_order (void)
{
  const char *text = "rlx 1\n%0 = input \"table\" f32[4, 2]\n"
                     "%1 = input \"ids\" i32[100000]\n"
                     "%2 = input \"more\" i32[3]\n"
                     "%3 = gather(%0, %1) {axis = 0} \"first\"\n"
                     "%4 = add(%2, %2) \"second\"\n"
                     "%5 = gather(%0, %4) {axis = 0} \"third\"\n"
                     "output \"late\" %5\n"
                     "output \"early\" %3\n";
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(GString) ids = g_string_new ("i32[100000]=");

  if (rlx_test_device () == NULL)
    return;
  executable = compile_text (text, TRUE);
  for (guint i = 0; i < 100000; i++)
    g_string_append (ids, i == 77777 || i == 77778 || i == 99999 ? "9," : "1,");

  for (guint i = 0; i < 2; i++)
    {
      g_autofree char *all_bad = g_strdup_printf ("f32[4,2]=1 %s i32[3]=1,2147483647,4", ids->str);

      assert_message_of (executable, all_bad, "gather “first”: indices[77777] is 9; it can be -4 to 3");
      assert_message_of (executable, "f32[4,2]=1 i32[100000]=1 i32[3]=1,2147483647,4",
                         "add “second”: result[1] is 4294967294; i32 can be -2147483648 to 2147483647");
      assert_message_of (executable, "f32[4,2]=1 i32[100000]=1 i32[3]=1,0,4", "gather “third”: indices[2] is 8; it can be -4 to 3");
      assert_message_of (executable, "f32[4,2]=1 i32[100000]=1 i32[3]=1,0,1", NULL);
    }
}

/* Errors that follow from constants alone are reported by each run. */
static void
test_constants (void)
{
  const char *text = "rlx 1\n%0 = input \"x\" f32[2]\n"
                     "%1 = constant i32[2] [2147483647, 1]\n"
                     "%2 = mul(%1, %1) \"square\"\n"
                     "%3 = cast(%2) {to = f32}\n"
                     "%4 = add(%0, %3)\n"
                     "output \"y\" %4\n";
  g_autoptr(RlxExecutable) executable = NULL, fork = NULL;

  if (rlx_test_device () == NULL)
    return;
  executable = compile_text (text, TRUE);
  fork = rlx_executable_fork (executable, NULL, NULL);
  for (guint i = 0; i < 2; i++)
    {
      assert_message_of (executable, "f32[2]=1", "mul “square”: result[0] is 4611686014132420609; i32 can be -2147483648 to 2147483647");
      assert_message_of (fork, "f32[2]=1", "mul “square”: result[0] is 4611686014132420609; i32 can be -2147483648 to 2147483647");
    }
}

/* A decoder that goes on after its cache is full, with a position that is a state. */
static void
test_cache (void)
{
  const char *text = "rlx 1\n%0 = input \"row\" f32[1, 1, 1, 4]\n"
                     "%1 = state \"cache\" f32[1, 1, 3, 4] [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]\n"
                     "%2 = state \"position\" i32[1] [0]\n"
                     "%3 = constant i32[1] [1]\n"
                     "%4 = rope(%0, %2)\n"
                     "%5 = write_at(%1, %4, %2) {axis = 2} \"keys\"\n"
                     "%6 = add(%2, %3)\n"
                     "%7 = attention(%4, %5, %5, _, %6) \"look\"\n"
                     "output \"y\" %7\n"
                     "assign %1 %5\n"
                     "assign %2 %6\n";
  g_autoptr(RlxExecutable) executable = NULL;

  if (rlx_test_device () == NULL)
    return;
  executable = compile_text (text, TRUE);
  for (guint i = 0; i < 3; i++)
    assert_message_of (executable, "f32[1,1,1,4]=1", NULL);
  assert_message_of (executable, "f32[1,1,1,4]=1", "write_at “keys”: position[0] is 3; it can be -3 to 2");
  g_assert_true (rlx_executable_reset_state (executable, NULL, NULL));
  assert_message_of (executable, "f32[1,1,1,4]=1", NULL);
}

/* Checks leave the other kernels of a graph as they are and come on top of them. */
static void
test_kernels (void)
{
  const char *text = "rlx 1\n%0 = input \"table\" f32[4, 2]\n"
                     "%1 = input \"ids\" i32[3]\n"
                     "%2 = gather(%0, %1) {axis = 0}\n"
                     "output \"y\" %2\n";
  g_autoptr(RlxExecutable) plain = NULL, checked = NULL;
  g_autoptr(GVariant) plan = NULL, other = NULL, steps = NULL, more = NULL;

  if (rlx_test_device () == NULL)
    return;
  plain = compile_text (text, FALSE);
  checked = compile_text (text, TRUE);
  plan = rlx_executable_dup_plan (plain);
  other = rlx_executable_dup_plan (checked);
  steps = g_variant_lookup_value (plan, "steps", NULL);
  more = g_variant_lookup_value (other, "steps", NULL);
  g_assert_cmpuint (g_variant_n_children (steps), ==, 1);
  g_assert_cmpuint (g_variant_n_children (more), ==, 2);
  for (gsize i = 0; i < 1; i++)
    {
      g_autoptr(GVariant) a = g_variant_get_child_value (steps, i), b = g_variant_get_child_value (more, i);
      const char *wgsl, *same;

      g_assert_true (g_variant_lookup (a, "wgsl", "&s", &wgsl) && g_variant_lookup (b, "wgsl", "&s", &same));
      g_assert_cmpstr (wgsl, ==, same);
    }
}

/* RLX_DEBUG=checked */
static void
test_debug_key (void)
{
  const char *text = "rlx 1\n%0 = input \"table\" f32[4]\n"
                     "%1 = input \"id\" i32[]\n"
                     "%2 = gather(%0, %1) {axis = 0}\n"
                     "output \"y\" %2\n";
  RlxDebugFlags flags = rlx_debug_get_flags ();
  g_autoptr(RlxExecutable) plain = NULL, checked = NULL;

  if (rlx_test_device () == NULL)
    return;
  plain = compile_text (text, FALSE);
  rlx_debug_set_flags (flags | RLX_DEBUG_CHECKED);
  checked = compile_text (text, FALSE);
  rlx_debug_set_flags (flags);
  assert_message_of (plain, "f32[4]=1 i32[]=4", NULL);
  assert_message_of (checked, "f32[4]=1 i32[]=4", "gather “%2”: indices is 4; it can be -4 to 3");
}

static void
test_options (void)
{
  g_autoptr(RlxCompileOptions) options = rlx_compile_options_new ();
  guint n = 0;

  g_assert_false (rlx_compile_options_get_checked (options));
  g_signal_connect (options, "notify::checked", G_CALLBACK (rlx_test_count_notify), &n);
  rlx_compile_options_set_checked (options, TRUE);
  rlx_compile_options_set_checked (options, TRUE);
  g_assert_true (rlx_compile_options_get_checked (options));
  g_assert_cmpuint (n, ==, 1);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/checked/table", test_table);
  for (guint i = 0; i < rlx_n_ops; i++)
    if (rlx_op_has_check (rlx_op_table[i]))
      {
        g_autofree char *path = g_strdup_printf ("/checked/cases/%s", rlx_op_table[i]->name);
        g_autofree char *calls = g_strdup_printf ("/checked/calls/%s", rlx_op_table[i]->name);

        g_test_add_data_func (path, rlx_op_table[i]->name, test_cases);
        g_test_add_data_func (calls, rlx_op_table[i], test_calls);
      }
  g_test_add_func ("/checked/order", test_order);
  g_test_add_func ("/checked/constants", test_constants);
  g_test_add_func ("/checked/cache", test_cache);
  g_test_add_func ("/checked/kernels", test_kernels);
  g_test_add_func ("/checked/debug-key", test_debug_key);
  g_test_add_func ("/checked/options", test_options);

  return g_test_run ();
}
