/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What passes/rlx-check.c and passes/rlx-survey.c add to a graph: reports, which are read
 * back after a run, and the excess of sums and products. Their kernels are simple, not fast.
 */
#include "config.h"

#include "ops/rlx-report-private.h"

#include <math.h>

#include "ops/rlx-kernel-private.h"

#define WORKGROUP_SIZE 64
/* An invocation scans up to this many elements by itself. */
#define MAX_ALONE 256
#define MAX_LANES 4096
/* For all rows together. */
#define MAX_ROW_LANES 65536
/* Words that a lane leaves for the last stage. */
#define LANE_WORDS 4

/* As in kernels/report.wgsl. */
enum
{
  KIND_RANGE,
  KIND_EXCESS,
  KIND_SURVEY,
};

/* As in kernels/excess-rows.wgsl. */
enum
{
  MODE_SUM,
  MODE_PRODUCT,
  MODE_MAGNITUDES,
  MODE_SQUARES,
};

static guint64
count_lanes (guint64 n)
{
  return n <= MAX_ALONE ? 0 : MIN (rlx_divide_up (n, WORKGROUP_SIZE), MAX_LANES);
}

static RlxIrValue *
make_lanes (RlxLower *lower,
            guint64   n)
{
  RlxTensorType type = { RLX_DATA_TYPE_U32, 1, { (gint64) n * LANE_WORDS } };

  return rlx_lower_temporary (lower, &type);
}

/* ---- reports -------------------------------------------------------------------------- */

static int
get_kind (const RlxIrNode *node)
{
  return rlx_ir_node_is (node, RLX_OP_ID_CHECK_RANGE) ? KIND_RANGE : rlx_ir_node_is (node, RLX_OP_ID_CHECK_EXCESS) ? KIND_EXCESS : KIND_SURVEY;
}

/* The bounds of floats that convert to integers from @lowest to @highest; the upper bound
 * is exclusive. */
static void
param_float_bounds (RlxKernel *kernel,
                    gint64     lowest,
                    gint64     highest)
{
  /* Floats above -1 truncate to 0. */
  rlx_kernel_param_f32 (kernel, "lowest0", lowest == 0 ? nextafterf (-1.0f, 0.0f) : (double) lowest);
  rlx_kernel_param_f32 (kernel, "highest0", (double) highest + 1.0);
}

static void
param_bounds (RlxKernel       *kernel,
              const RlxIrNode *node)
{
  const RlxReportAttrs *attrs = rlx_report_attrs (node);
  RlxDataType data_type = rlx_data_type_on_device (node->inputs[0]->type.data_type);

  if (rlx_data_type_loads_float (data_type))
    {
      param_float_bounds (kernel, attrs->lowest.values[0], attrs->highest.values[0]);
      return;
    }
  for (guint i = 0; i < attrs->lowest.n_values; i++)
    {
      gint64 lowest = attrs->lowest.values[i], highest = attrs->highest.values[i];
      g_autofree char *low = g_strdup_printf ("lowest%u", i), *high = g_strdup_printf ("highest%u", i);

      if (rlx_data_type_is_unsigned (data_type))
        {
          rlx_kernel_param_u32 (kernel, low, (guint64) MAX (lowest, 0));
          rlx_kernel_param_u32 (kernel, high, (guint64) CLAMP (highest, 0, G_MAXUINT32));
        }
      else
        {
          rlx_kernel_param_i32 (kernel, low, CLAMP (lowest, G_MININT32, G_MAXINT32));
          rlx_kernel_param_i32 (kernel, high, CLAMP (highest, G_MININT32, G_MAXINT32));
        }
    }
}

static RlxKernel *
report_kernel_new (RlxLower        *lower,
                   const RlxIrNode *node,
                   int              stage)
{
  RlxKernel *kernel = rlx_kernel_new (lower, node, "report");
  int kind = get_kind (node);

  rlx_kernel_define (kernel, "WG", WORKGROUP_SIZE);
  rlx_kernel_define (kernel, "KIND", kind);
  rlx_kernel_define (kernel, "STAGE", stage);
  if (stage == 2)
    return kernel;

  rlx_kernel_define (kernel, "FLOAT", rlx_data_type_loads_float (node->inputs[0]->type.data_type));
  rlx_kernel_define (kernel, "BOUNDS", kind == KIND_RANGE ? (gint64) rlx_report_attrs (node)->lowest.n_values : 0);
  rlx_kernel_input (kernel, "x", node->inputs[0]);
  if (kind == KIND_EXCESS)
    rlx_kernel_input (kernel, "excess", node->inputs[1]);
  rlx_kernel_param_u32 (kernel, "n", rlx_type_n_elements (&node->inputs[0]->type));
  if (kind == KIND_RANGE)
    param_bounds (kernel, node);
  rlx_kernel_set_cost (kernel, 0, (double) rlx_type_n_bytes (&node->inputs[0]->type));
  return kernel;
}

gboolean
rlx_report_lower (RlxLower        *lower,
                  const RlxIrNode *node,
                  GError         **error)
{
  guint64 lanes = count_lanes (rlx_type_n_elements (&node->inputs[0]->type));
  RlxKernel *kernel;

  rlx_lower_add_report (lower, node);
  if (lanes == 0)
    kernel = report_kernel_new (lower, node, 0);
  else
    {
      RlxIrValue *found = make_lanes (lower, lanes);

      kernel = report_kernel_new (lower, node, 1);
      rlx_kernel_param_u32 (kernel, "lanes", lanes);
      rlx_kernel_output (kernel, "y", found);
      if (!rlx_kernel_dispatch (kernel, rlx_divide_up (lanes, WORKGROUP_SIZE), error))
        return FALSE;
      kernel = report_kernel_new (lower, node, 2);
      rlx_kernel_input (kernel, "lanes", found);
      rlx_kernel_param_u32 (kernel, "lanes", lanes);
    }
  rlx_kernel_output (kernel, "y", &node->outputs[0]);
  return rlx_kernel_dispatch (kernel, 1, error);
}

/* ---- sums and products ------------------------------------------------------------------- */

static int
get_mode (const RlxIrNode *node)
{
  switch ((RlxOpId) rlx_excess_rows_attrs (node)->op)
    {
    case RLX_OP_ID_REDUCE_PROD:
    case RLX_OP_ID_CUMPROD:
      return MODE_PRODUCT;
    case RLX_OP_ID_REDUCE_L1:
      return MODE_MAGNITUDES;
    case RLX_OP_ID_REDUCE_SUM_SQUARE:
      return MODE_SQUARES;
    default:
      return MODE_SUM;
    }
}

static RlxKernel *
rows_kernel_new (RlxLower        *lower,
                 const RlxIrNode *node,
                 int              stage)
{
  RlxKernel *kernel = rlx_kernel_new (lower, node, "excess-rows");
  const RlxIrValue *x = node->inputs[0];
  const RlxExcessRowsAttrs *attrs = rlx_excess_rows_attrs (node);

  rlx_kernel_define (kernel, "WG", WORKGROUP_SIZE);
  rlx_kernel_define (kernel, "MODE", get_mode (node));
  rlx_kernel_define (kernel, "STAGE", stage);
  rlx_kernel_define (kernel, "SIGNED", !rlx_data_type_is_unsigned (x->type.data_type));
  rlx_kernel_define (kernel, "SCAN", attrs->scan);
  rlx_kernel_define (kernel, "EXCLUSIVE", attrs->exclusive);
  rlx_kernel_define (kernel, "REVERSE", attrs->reverse);
  rlx_kernel_param_u32 (kernel, "rows", (guint64) x->type.shape[0]);
  if (stage == 2)
    return kernel;

  rlx_kernel_input (kernel, "x", x);
  rlx_kernel_param_u32 (kernel, "n", (guint64) x->type.shape[1]);
  rlx_kernel_set_cost (kernel, 0, (double) rlx_type_n_bytes (&x->type));
  return kernel;
}

gboolean
rlx_excess_rows_lower (RlxLower        *lower,
                       const RlxIrNode *node,
                       GError         **error)
{
  guint64 rows = (guint64) node->inputs[0]->type.shape[0], n = (guint64) node->inputs[0]->type.shape[1];
  guint64 lanes = rlx_excess_rows_attrs (node)->scan ? 0 : MIN (count_lanes (n), MAX_ROW_LANES / rows);
  RlxKernel *kernel;

  if (lanes == 0)
    kernel = rows_kernel_new (lower, node, 0);
  else
    {
      RlxIrValue *parts = make_lanes (lower, rows * lanes);

      kernel = rows_kernel_new (lower, node, 1);
      rlx_kernel_param_u32 (kernel, "lanes", lanes);
      rlx_kernel_output (kernel, "y", parts);
      if (!rlx_kernel_dispatch (kernel, rlx_divide_up (rows * lanes, WORKGROUP_SIZE), error))
        return FALSE;
      kernel = rows_kernel_new (lower, node, 2);
      rlx_kernel_input (kernel, "lanes", parts);
      rlx_kernel_param_u32 (kernel, "lanes", lanes);
    }
  rlx_kernel_output (kernel, "y", &node->outputs[0]);
  return rlx_kernel_dispatch (kernel, rlx_divide_up (rows, WORKGROUP_SIZE), error);
}
