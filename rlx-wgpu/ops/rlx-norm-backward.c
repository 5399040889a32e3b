/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The gradient of norms along the last axis, as an operator with kernels of its own.
 */
#include "config.h"

#include "ops/rlx-index-private.h"
#include "ops/rlx-rows-private.h"

#include <math.h>

/* An invocation adds at least this many rows of a column; there are at most this many parts. */
#define MIN_ROWS 32
#define MAX_PARTS 256
/* This many invocations keep a GPU busy. */
#define WANTED_INVOCATIONS 16384
#define COLUMNS_PER_WORKGROUP 64

static gboolean
check_operand (RlxOpCall           *call,
               guint                index,
               const RlxTensorType *wanted,
               GError             **error)
{
  g_autofree char *got = NULL, *text = NULL;

  if (index >= call->n_inputs || call->inputs[index] == NULL || rlx_type_same_shape (call->inputs[index], wanted))
    return TRUE;

  got = rlx_type_to_string (call->inputs[index]);
  text = rlx_type_to_string (wanted);
  return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the %s is %s; it must be %s", call->op->inputs[index].name, got, text);
}

gboolean
rlx_layer_norm_backward_infer (RlxOpCall                       *call,
                               const RlxLayerNormBackwardAttrs *attrs,
                               GError                         **error)
{
  const RlxTensorType *x = call->inputs[0];
  RlxTensorType factor = { .data_type = x->data_type, .n_dims = 1 };

  if (x->n_dims == 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the operand is a scalar; it needs an axis");
  if (!isfinite (attrs->epsilon) || attrs->epsilon < 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "epsilon is %g; it must be a finite number that is not negative", attrs->epsilon);
  factor.shape[0] = x->shape[x->n_dims - 1];
  if (!check_operand (call, RLX_LAYER_NORM_BACKWARD_GRADIENT, x, error) ||
      !check_operand (call, RLX_LAYER_NORM_BACKWARD_SCALE, &factor, error) ||
      !check_operand (call, RLX_LAYER_NORM_BACKWARD_ADDEND, x, error))
    return FALSE;

  rlx_call_add_output (call, x);
  for (guint i = 0; i < 2 && attrs->factors; i++)
    rlx_call_add_output (call, &factor);
  return TRUE;
}

/* The parameters of rows, and the step of the operand's gradient. */
static gboolean
lower_rows (RlxLower         *lower,
            const RlxIrNode  *node,
            guint64           n_rows,
            guint64           n_columns,
            const RlxIrValue *moments,
            GError          **error)
{
  static const struct { guint input; const char *name, *define; } extras[] = {
    { RLX_LAYER_NORM_BACKWARD_SCALE, "scale", "SCALE" },
    { RLX_LAYER_NORM_BACKWARD_ADDEND, "addend", "ADDEND" },
  };
  const RlxLayerNormBackwardAttrs *attrs = rlx_layer_norm_backward_attrs (node);
  const RlxTarget *target = rlx_lower_get_target (lower);
  RlxShare share = rlx_share_pick (target, n_rows, n_columns, FALSE);
  guint lanes = rlx_share_get_lanes (share, target), workgroup_size = rlx_share_get_workgroup_size (share, target, n_rows);
  guint64 n_groups = rlx_divide_up (n_rows, workgroup_size / lanes);
  RlxKernel *kernel = rlx_kernel_new (lower, node, "norm-backward");

  rlx_kernel_define (kernel, "STAGE", 0);
  rlx_kernel_define (kernel, "WG", workgroup_size);
  rlx_kernel_define (kernel, "LANES", lanes);
  rlx_kernel_define (kernel, "CENTRED", attrs->centred);
  rlx_kernel_define (kernel, "FACTORS", moments != NULL);
  rlx_kernel_input (kernel, "x", node->inputs[0]);
  rlx_kernel_input (kernel, "g", node->inputs[RLX_LAYER_NORM_BACKWARD_GRADIENT]);
  for (guint i = 0; i < G_N_ELEMENTS (extras); i++)
    {
      const RlxIrValue *value = extras[i].input < node->n_inputs ? node->inputs[extras[i].input] : NULL;

      rlx_kernel_define (kernel, extras[i].define, value != NULL);
      if (value != NULL)
        rlx_kernel_input (kernel, extras[i].name, value);
    }
  rlx_kernel_output (kernel, "dx", &node->outputs[0]);
  if (moments != NULL)
    rlx_kernel_output (kernel, "rows", moments);
  rlx_kernel_param_u32 (kernel, "groups", n_groups);
  rlx_kernel_param_u32 (kernel, "rows", n_rows);
  rlx_kernel_param_u32 (kernel, "columns", n_columns);
  rlx_kernel_param_u32 (kernel, "passes", attrs->centred ? 3 : 2);
  rlx_kernel_param_f32 (kernel, "epsilon", attrs->epsilon);
  rlx_kernel_set_cost (kernel, 20.0 * (double) n_rows * (double) n_columns, 12.0 * (double) n_rows * (double) n_columns);
  return rlx_kernel_dispatch (kernel, n_groups, error);
}

/* A step down the columns. @parts receives the sums if there are several for each column, or contains
 * them. */
static gboolean
lower_columns (RlxLower         *lower,
               const RlxIrNode  *node,
               guint64           n_rows,
               guint64           n_columns,
               const RlxIrValue *moments,
               const RlxIrValue *parts,
               guint64           n_parts,
               GError          **error)
{
  guint64 n_here = moments != NULL ? n_parts : 1;
  RlxKernel *kernel = rlx_kernel_new (lower, node, "norm-backward");

  rlx_kernel_define (kernel, "STAGE", moments != NULL ? 1 : 2);
  rlx_kernel_define (kernel, "WG", COLUMNS_PER_WORKGROUP);
  rlx_kernel_define (kernel, "PARTS", n_here > 1);
  if (moments != NULL)
    {
      rlx_kernel_input (kernel, "x", node->inputs[0]);
      rlx_kernel_input (kernel, "g", node->inputs[RLX_LAYER_NORM_BACKWARD_GRADIENT]);
      rlx_kernel_input (kernel, "rows", moments);
      rlx_kernel_param_u32 (kernel, "rows", n_rows);
      rlx_kernel_param_u32 (kernel, "span", rlx_divide_up (n_rows, n_parts));
    }
  else
    {
      rlx_kernel_input (kernel, "parts", parts);
      rlx_kernel_param_u32 (kernel, "n_parts", n_parts);
    }
  if (n_here > 1)
    {
      rlx_kernel_output (kernel, "parts", parts);
    }
  else
    {
      rlx_kernel_output (kernel, "dscale", &node->outputs[1]);
      rlx_kernel_output (kernel, "dbias", &node->outputs[2]);
    }
  rlx_kernel_param_u32 (kernel, "columns", n_columns);
  rlx_kernel_param_u32 (kernel, "parts", n_here);
  rlx_kernel_set_cost (kernel, 6.0 * (double) n_rows * (double) n_columns, 8.0 * (double) n_rows * (double) n_columns);
  return rlx_kernel_dispatch (kernel, rlx_divide_up (n_columns * n_here, COLUMNS_PER_WORKGROUP), error);
}

gboolean
rlx_layer_norm_backward_lower (RlxLower        *lower,
                               const RlxIrNode *node,
                               GError         **error)
{
  const RlxTarget *target = rlx_lower_get_target (lower);
  const RlxTensorType *x = &node->inputs[0]->type;
  guint64 n_columns = (guint64) x->shape[x->n_dims - 1], n_rows, n_parts;
  const RlxIrValue *moments = NULL, *parts = NULL;

  if (rlx_type_n_elements (x) == 0)
    {
      /* Without rows all sums are 0. */
      for (guint i = 1; i < node->n_outputs && n_columns > 0; i++)
        if (!rlx_kernel_dispatch_elements (rlx_kernel_new (lower, node, "fill"), lower, &node->outputs[i], error))
          return FALSE;
      return TRUE;
    }

  n_rows = rlx_type_n_elements (x) / n_columns;
  if (node->n_outputs > 1)
    moments = rlx_lower_temporary (lower, &(RlxTensorType) { .data_type = RLX_DATA_TYPE_F32, .n_dims = 2, .shape = { (gint64) n_rows, 3 } });
  if (!lower_rows (lower, node, n_rows, n_columns, moments, error))
    return FALSE;
  if (moments == NULL)
    return TRUE;

  /* One step is enough if columns alone keep all cores busy. */
  n_parts = target->barriers_are_cheap ? CLAMP (WANTED_INVOCATIONS / n_columns, 1, MAX_PARTS) : n_columns >= 64 ? 1 : 16;
  n_parts = MIN (n_parts, rlx_divide_up (n_rows, MIN_ROWS));
  n_parts = rlx_divide_up (n_rows, rlx_divide_up (n_rows, n_parts));
  if (n_parts > 1)
    parts = rlx_lower_temporary (lower, &(RlxTensorType) { .data_type = RLX_DATA_TYPE_F32, .n_dims = 3, .shape = { (gint64) n_parts, 2, (gint64) n_columns } });
  return lower_columns (lower, node, n_rows, n_columns, moments, parts, n_parts, error) &&
         (n_parts == 1 || lower_columns (lower, node, n_rows, n_columns, NULL, parts, n_parts, error));
}
