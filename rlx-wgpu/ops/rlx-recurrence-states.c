/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * All states of a sequence.
 */
#include "config.h"

#include "ops/rlx-kernel-private.h"

#define WORKGROUP_SIZE 64
/* Steps per dispatch: drivers terminate those that take long. */
#define MAX_STEPS 8192

static gboolean
check_shape (const RlxOpCall *call,
             guint            index,
             const gint64    *shape,
             GError         **error)
{
  const RlxTensorType *type = index < call->n_inputs ? call->inputs[index] : NULL;
  g_autofree char *text = NULL, *wanted_text = NULL;
  RlxTensorType wanted;

  if (type == NULL)
    return TRUE;
  wanted = (RlxTensorType) { .data_type = type->data_type, .n_dims = 3, .shape = { shape[0], shape[1], shape[2] } };
  if (rlx_type_same_shape (type, &wanted))
    return TRUE;

  text = rlx_type_to_string (type);
  wanted_text = rlx_type_to_string (&wanted);
  return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "%s is %s; the other operands require %s",
                         call->op->inputs[index].name, text, wanted_text);
}

gboolean
rlx_recurrence_states_infer (RlxOpCall                      *call,
                             const RlxRecurrenceStatesAttrs *attrs G_GNUC_UNUSED,
                             GError                        **error)
{
  const RlxTensorType *key = call->inputs[RLX_RECURRENCE_STATES_SELF], *value = call->inputs[RLX_RECURRENCE_STATES_VALUE];
  gboolean has_in = call->n_inputs > RLX_RECURRENCE_STATES_IN_KEY && call->inputs[RLX_RECURRENCE_STATES_IN_KEY] != NULL;
  gboolean has_out = call->n_inputs > RLX_RECURRENCE_STATES_OUT_KEY && call->inputs[RLX_RECURRENCE_STATES_OUT_KEY] != NULL;
  RlxTensorType type = { .data_type = RLX_DATA_TYPE_F32, .n_dims = 4 };
  g_autofree char *text = NULL;

  if (key->n_dims != 3)
    {
      text = rlx_type_to_string (key);
      return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "the operand is %s; it must have 3 dimensions: [steps, heads, width]", text);
    }
  if (has_in != has_out)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "%s is there without %s", has_in ? "in_key" : "out_key",
                           has_in ? "out_key" : "in_key");
  if (!check_shape (call, RLX_RECURRENCE_STATES_VALUE,
                    (gint64[]) { key->shape[0], key->shape[1], value->n_dims == 3 ? value->shape[2] : 1 }, error) ||
      !check_shape (call, RLX_RECURRENCE_STATES_DECAY, key->shape, error) ||
      !check_shape (call, RLX_RECURRENCE_STATES_IN_KEY, key->shape, error) ||
      !check_shape (call, RLX_RECURRENCE_STATES_OUT_KEY, key->shape, error) ||
      !check_shape (call, RLX_RECURRENCE_STATES_INITIAL_STATE,
                    (gint64[]) { key->shape[1], key->shape[2], value->shape[2] }, error))
    return FALSE;
  if (key->shape[0] == G_MAXINT64)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT, "there are too many steps");

  type.shape[0] = key->shape[0] + 1;
  type.shape[1] = key->shape[1];
  type.shape[2] = key->shape[2];
  type.shape[3] = value->shape[2];
  rlx_call_add_output (call, &type);
  return TRUE;
}

gboolean
rlx_recurrence_states_lower (RlxLower        *lower,
                             const RlxIrNode *node,
                             GError         **error)
{
  static const struct { guint index; const char *name, *has; } optional[] = {
    { RLX_RECURRENCE_STATES_DECAY, "decay", "DECAY" },
    { RLX_RECURRENCE_STATES_IN_KEY, "in_key", "LEAD" },
    { RLX_RECURRENCE_STATES_OUT_KEY, "out_key", NULL },
  };
  const RlxTensorType *type = &node->outputs[0].type;
  guint64 steps = (guint64) type->shape[0] - 1, heads = (guint64) type->shape[1], rows = (guint64) type->shape[2];
  guint64 columns = (guint64) type->shape[3], n = heads * columns, first = 0;
  const RlxIrValue *initial = node->n_inputs > RLX_RECURRENCE_STATES_INITIAL_STATE ? node->inputs[RLX_RECURRENCE_STATES_INITIAL_STATE] : NULL;

  if (rlx_type_n_elements (type) == 0)
    return TRUE;

  do
    {
      guint64 count = MIN (steps - first, MAX_STEPS);
      RlxKernel *kernel = rlx_kernel_new (lower, node, "recurrence-states");

      if (count > 0)
        {
          rlx_kernel_input (kernel, "k", node->inputs[RLX_RECURRENCE_STATES_SELF]);
          rlx_kernel_input (kernel, "v", node->inputs[RLX_RECURRENCE_STATES_VALUE]);
        }
      for (guint i = 0; i < G_N_ELEMENTS (optional); i++)
        {
          const RlxIrValue *value = optional[i].index < node->n_inputs && count > 0 ? node->inputs[optional[i].index] : NULL;

          if (optional[i].has != NULL)
            rlx_kernel_define (kernel, optional[i].has, value != NULL);
          if (value != NULL)
            rlx_kernel_input (kernel, optional[i].name, value);
        }
      if (initial != NULL && first == 0)
        rlx_kernel_input (kernel, "initial", initial);
      rlx_kernel_output (kernel, "s", &node->outputs[0]);
      rlx_kernel_define (kernel, "WG", WORKGROUP_SIZE);
      rlx_kernel_define (kernel, "STEPS", count > 0);
      rlx_kernel_define (kernel, "FIRST", first == 0);
      rlx_kernel_define (kernel, "INITIAL", first == 0 && initial != NULL);
      rlx_kernel_param_u32 (kernel, "n", n);
      rlx_kernel_param_u32 (kernel, "heads", heads);
      rlx_kernel_param_u32 (kernel, "rows", rows);
      rlx_kernel_param_u32 (kernel, "columns", columns);
      rlx_kernel_param_u32 (kernel, "steps", steps);
      rlx_kernel_param_u32 (kernel, "first", first);
      rlx_kernel_param_u32 (kernel, "count", count);
      rlx_kernel_param_u32 (kernel, "reverse", rlx_recurrence_states_attrs (node)->reverse);
      rlx_kernel_set_cost (kernel, 8.0 * (double) count * (double) n * (double) rows, 8.0 * (double) count * (double) n * (double) rows);
      if (!rlx_kernel_dispatch (kernel, rlx_divide_up (n, WORKGROUP_SIZE), error))
        return FALSE;
      first += count;
    }
  while (first < steps);

  return TRUE;
}
