/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What RLX_DEBUG=validate finds: graphs and plans that are broken on purpose.
 */
#include "config.h"

#include <string.h>

#include "rlx-test-util.h"

#include "ir/rlx-op-private.h"
#include "ops/rlx-kernel-private.h"
#include "passes/rlx-passes-private.h"
#include "plan/rlx-plan-private.h"
#include "rlx-graph-private.h"
#include "util/rlx-debug-private.h"

static const char text[] =
  "rlx 1\n"
  "%0 = input \"x\" f32[8, 16]\n"
  "%1 = constant f32[16] [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]\n"
  "%2 = softmax(%0) {axis = 1}\n"
  "%3 = add(%2, %1)\n"
  "%4 = softmax(%3) {axis = 0}\n"
  "%5 = add(%4, %2)\n"
  "%6 = reduce_sum(%5) {axes = [1], keep_dims = true}\n"
  "%7 = mul(%5, %6)\n"
  "output \"y\" %7\n"
  "output \"z\" %2\n";

static RlxIr *
make_ir (RlxGraph **graph)
{
  g_autoptr (GError) error = NULL;
  const RlxIr *ir;

  *graph = rlx_graph_new_from_text (text, &error);
  g_assert_no_error (error);
  ir = rlx_graph_peek_ir (*graph, &error);
  g_assert_no_error (error);
  return rlx_pass_simplify (ir, NULL, NULL);
}

typedef enum
{
  BREAK_NOTHING,
  BREAK_TYPE,
  BREAK_SHAPE,
  BREAK_ORDER,
  BREAK_OWNER,
  BREAK_NUMBER,
  BREAK_OUTPUT,
  BREAK_DATA,
} Break;

static void
test_graphs (void)
{
  static const struct { Break what; const char *words; } rows[] = {
    { BREAK_NOTHING, NULL },
    { BREAK_TYPE, "rule says f32" },
    { BREAK_SHAPE, "rule says" },
    { BREAK_ORDER, "earlier node" },
    { BREAK_OWNER, "earlier node" },
    { BREAK_NUMBER, "number" },
    { BREAK_OUTPUT, "output 0" },
    { BREAK_DATA, "no value" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (RlxGraph) graph = NULL;
      g_autoptr (RlxIr) ir = make_ir (&graph);
      g_autoptr (RlxIr) other = rlx_pass_simplify (ir, NULL, NULL);
      RlxIrNode *sum = NULL;
      gboolean right;

      for (guint j = 0; j < ir->nodes->len; j++)
        {
          RlxIrNode *node = g_ptr_array_index (ir->nodes, j);

          if (g_str_equal (node->op->name, "add") && sum == NULL)
            sum = node;
          if (rows[i].what == BREAK_DATA && g_str_equal (node->op->name, "constant"))
            g_clear_object (&node->data);
        }
      switch (rows[i].what)
        {
        case BREAK_TYPE:
          sum->outputs[0].type.data_type = RLX_DATA_TYPE_I32;
          break;
        case BREAK_SHAPE:
          sum->outputs[0].type.shape[1] = 15;
          break;
        case BREAK_ORDER:
          sum->inputs[0] = &((RlxIrNode *) g_ptr_array_index (ir->nodes, sum->id + 1))->outputs[0];
          break;
        case BREAK_OWNER:
          sum->inputs[0] = &((RlxIrNode *) g_ptr_array_index (other->nodes, sum->inputs[0]->node->id))->outputs[0];
          break;
        case BREAK_NUMBER:
          sum->outputs[0].id = sum->inputs[0]->id;
          break;
        case BREAK_OUTPUT:
          g_array_index (ir->outputs, RlxIrOutput, 0).value = &((RlxIrNode *) g_ptr_array_index (other->nodes, 0))->outputs[0];
          break;
        case BREAK_NOTHING:
        case BREAK_DATA:
        default:
          break;
        }

      right = rlx_ir_verify (ir, &error);
      g_assert_true (right == (rows[i].words == NULL));
      if (!right)
        {
          g_assert_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_INTERNAL);
          g_assert_nonnull (strstr (error->message, rows[i].words));
        }
    }
}

/* In turn, each activation is placed where another one is live at the same time; the
 * original plan is valid. */
static void
test_plans (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxGpuAdapterInfo) adapter = rlx_gpu_select_adapter (NULL, NULL);
  g_autoptr (RlxGraph) graph = NULL;
  g_autoptr (RlxIr) ir = make_ir (&graph);
  g_autoptr (RlxPlan) plan = NULL;
  guint n_found = 0;

  if (rlx_test_device () == NULL)
    return;
  plan = rlx_plan_new (rlx_pass_fuse (ir, &adapter->target, NULL), &adapter->target, NULL, &error);
  g_assert_no_error (error);
  g_assert_true (rlx_plan_verify (plan, &error));
  g_assert_no_error (error);

  for (guint i = 0; i < plan->slots->len; i++)
    for (guint j = 0; j < plan->slots->len; j++)
      {
        RlxSlot *a = &g_array_index (plan->slots, RlxSlot, i), *b = &g_array_index (plan->slots, RlxSlot, j);
        RlxSlot before = *a;

        if (i == j || a->kind != RLX_SLOT_ACTIVATION || b->kind != RLX_SLOT_ACTIVATION ||
            a->shares >= 0 || b->shares >= 0 || a->last < b->first || b->last < a->first)
          continue;
        a->buffer = b->buffer;
        a->offset = b->offset;
        g_assert_false (rlx_plan_verify (plan, &error));
        g_assert_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_INTERNAL);
        g_clear_error (&error);
        *a = before;
        n_found++;
      }
  g_assert_cmpuint (n_found, >, 0);

  /* outside the buffer, and read before it is written */
  for (guint i = 0; i < plan->slots->len; i++)
    {
      RlxSlot *slot = &g_array_index (plan->slots, RlxSlot, i);
      RlxSlot before = *slot;

      slot->offset += G_MAXUINT32;
      g_assert_false (rlx_plan_verify (plan, NULL));
      *slot = before;
      if (slot->kind == RLX_SLOT_ACTIVATION && slot->last < (int) plan->steps->len)
        {
          slot->first = slot->last;
          g_assert_false (rlx_plan_verify (plan, NULL));
          *slot = before;
        }
    }
  g_assert_true (rlx_plan_verify (plan, &error));
}

/* A correct compiler has nothing to report. */
static void
test_compile (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxGraph) graph = NULL;
  g_autoptr (RlxIr) ir = make_ir (&graph);
  g_autoptr (RlxExecutable) executable = NULL;
  RlxDebugFlags flags = rlx_debug_get_flags ();

  if (rlx_test_device () == NULL)
    return;
  rlx_debug_set_flags (flags | RLX_DEBUG_VALIDATE);
  executable = rlx_device_compile (rlx_test_device (), graph, NULL, NULL, &error);
  rlx_debug_set_flags (flags);
  g_assert_no_error (error);
}

/* ---- parameters that do not fit ------------------------------------------------------------ */

static gint64 tried;
static gboolean is_signed;

static gboolean
lower_with_parameter (RlxLower        *lower,
                      const RlxIrNode *node,
                      GError         **error)
{
  RlxKernel *kernel = rlx_kernel_new (lower, node, "copy");

  rlx_kernel_input (kernel, "x", node->inputs[0]);
  rlx_kernel_output (kernel, "y", &node->outputs[0]);
  if (is_signed)
    rlx_kernel_param_i32 (kernel, "distance", tried);
  else
    rlx_kernel_param_u32 (kernel, "distance", (guint64) tried);
  /* The first one is reported. */
  rlx_kernel_param_u32 (kernel, "another", G_MAXUINT64);
  return rlx_kernel_dispatch (kernel, 1, error);
}

/* Invalid parameters caused by a graph are reported as errors. */
static void
test_parameters (void)
{
  static const struct { gint64 value; gboolean is_signed; } rows[] = {
    { G_GINT64_CONSTANT (4294967296), FALSE },
    { G_GINT64_CONSTANT (2147483648), TRUE },
    { G_GINT64_CONSTANT (-2147483649), TRUE },
  };
  if (rlx_test_device () == NULL)
    return;
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (RlxPlan) plan = NULL;
      RlxTensorType type = { .data_type = RLX_DATA_TYPE_F32, .n_dims = 1, .shape = { 4 } };
      RlxOp op = *rlx_op_lookup ("transpose");
      g_autofree char *number = g_strdup_printf ("distance of %" G_GINT64_FORMAT, rows[i].value);
      RlxIr *ir = rlx_ir_new ();
      RlxIrNode *x = rlx_ir_append (ir, &rlx_op_input, NULL, NULL, 0, &type, 1);
      RlxIrValue *operand = &x->outputs[0];

      tried = rows[i].value;
      is_signed = rows[i].is_signed;
      x->name = g_strdup ("x");
      op.lower = lower_with_parameter;
      rlx_ir_add_output (ir, "y", &rlx_ir_append (ir, &op, NULL, &operand, 1, &type, 1)->outputs[0]);
      plan = rlx_plan_new (ir, rlx_test_target (), NULL, &error);
      g_assert_null (plan);
      g_assert_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_LIMIT);
      g_assert_nonnull (strstr (error->message, "transpose"));
      g_assert_nonnull (strstr (error->message, number));
    }
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/verify/graphs", test_graphs);
  g_test_add_func ("/verify/plans", test_plans);
  g_test_add_func ("/verify/compile", test_compile);
  g_test_add_func ("/verify/parameters", test_parameters);

  return g_test_run ();
}
