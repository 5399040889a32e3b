/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Branches, loops and lists: they are gone once the graph is built.
 */
#include "config.h"

#include "import/rlx-import-private.h"

/* The most steps of a loop that are computed speculatively if data decides how many are taken. */
#define MAX_CHOSEN_STEPS 256

/* ---- helpers ------------------------------------------------------------------------------ */

static RlxMapValue *
new_known (RlxMapCall *call,
           RlxTensor  *tensor)
{
  RlxMapValue *value = rlx_import_new_value (call->import);

  value->tensor = g_object_ref (tensor);
  return value;
}

static RlxMapValue *
new_int (RlxMapCall   *call,
         const gint64 *shape,
         gsize         n_dims,
         gint64        number)
{
  g_autoptr(RlxTensor) tensor = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I64, shape, n_dims, &number, 1, NULL);

  return new_known (call, tensor);
}

static RlxMapValue *
new_flag (RlxMapCall *call,
          gboolean    flag)
{
  g_autoptr(RlxTensor) tensor = rlx_tensor_new_scalar (RLX_DATA_TYPE_BOOL, flag, NULL);

  return new_known (call, tensor);
}

/* A single known number. */
static gboolean
get_number (RlxMapCall  *call,
            RlxMapValue *value,
            const char  *what,
            gint64      *number,
            GError     **error)
{
  g_autoptr(RlxTensor) tensor = NULL;
  g_autofree gint64 *ints = NULL;
  gsize n;

  if (!rlx_map_value_is_known (value))
    {
      rlx_import_need (call->import, value);
      return rlx_map_unsupported (error, "%s is computed from data", what);
    }
  tensor = rlx_import_get_tensor (call->import, value, error);
  if (tensor == NULL)
    return FALSE;
  if (rlx_tensor_get_n_elements (tensor) != 1)
    return rlx_map_refused (error, "%s is not one number", what);
  ints = rlx_tensor_to_ints (tensor, &n, error);
  if (ints == NULL)
    return FALSE;
  *number = ints[0];
  return TRUE;
}

static RlxMapValue *
insert_axis (RlxMapCall  *call,
             RlxMapValue *value,
             gint64       axis,
             GError     **error)
{
  gsize n_dims;
  RlxDataType type;
  const gint64 *shape = rlx_map_value_get_shape (call->import, value, &n_dims, &type);
  gint64 larger[RLX_MAX_DIMS];
  g_autoptr(RlxTensor) to = NULL;
  RlxMapValue *inputs[2] = { value, NULL };

  if (shape == NULL || n_dims == RLX_MAX_DIMS)
    {
      rlx_map_refused (error, "the result of a step is not a tensor, or has too many dimensions");
      return NULL;
    }
  if (axis < 0)
    axis += (gint64) n_dims + 1;
  if (axis < 0 || axis > (gint64) n_dims)
    {
      rlx_map_refused (error, "the axis %" G_GINT64_FORMAT " is beyond the dimensions", axis);
      return NULL;
    }
  for (gsize i = 0; i <= n_dims; i++)
    larger[i] = (gint64) i == axis ? 1 : shape[(gint64) i > axis ? i - 1 : i];
  to = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I64, (gint64[]) { (gint64) n_dims + 1 }, 1, larger, n_dims + 1, error);
  if (to == NULL)
    return NULL;
  /* With “allowzero”, because a 0 would otherwise copy the size from the operand. */
  inputs[1] = new_known (call, to);
  return rlx_import_apply (call, "Reshape", inputs, 2, "allowzero", 1, error);
}

/* The results of all steps, stacked along a new axis. */
static RlxMapValue *
stack (RlxMapCall *call,
       GPtrArray  *steps,
       gint64      axis,
       GError    **error)
{
  g_autoptr(GPtrArray) parts = g_ptr_array_new ();

  if (steps->len == 0)
    {
      rlx_map_unsupported (error, "no step is taken, so its result has no shape");
      return NULL;
    }
  for (guint i = 0; i < steps->len; i++)
    {
      RlxMapValue *part = insert_axis (call, steps->pdata[i], axis, error);

      if (part == NULL)
        return NULL;
      g_ptr_array_add (parts, part);
    }
  return rlx_import_apply (call, "Concat", (RlxMapValue **) parts->pdata, parts->len, "axis", axis, error);
}

static RlxMapValue *
take (RlxMapCall  *call,
      RlxMapValue *value,
      gint64       index,
      gint64       axis,
      GError     **error)
{
  RlxMapValue *inputs[] = { value, new_int (call, NULL, 0, index) };

  return rlx_import_apply (call, "Gather", inputs, 2, "axis", axis, error);
}

/* ---- If ------------------------------------------------------------------------------------- */

gboolean
rlx_onnx_map_if (RlxMapCall *call,
                 GError    **error)
{
  RlxMapValue *condition = rlx_map_get_value (call, 0, error);
  g_autofree RlxMapValue **taken = g_new0 (RlxMapValue *, call->node->n_outputs + 1);
  g_autofree RlxMapValue **other = g_new0 (RlxMapValue *, call->node->n_outputs + 1);
  gint64 flag;

  if (condition == NULL || rlx_map_arg (call, "then_branch") == NULL || rlx_map_arg (call, "else_branch") == NULL)
    return FALSE;
  if (rlx_map_value_is_known (condition))
    {
      if (!get_number (call, condition, "the condition", &flag, error) ||
          !rlx_import_body (call, flag != 0 ? "then_branch" : "else_branch", NULL, 0, taken, call->node->n_outputs, error))
        return FALSE;
      for (guint i = 0; i < call->node->n_outputs; i++)
        rlx_map_return_value (call, i, taken[i]);
      return TRUE;
    }

  /* Both branches are computed if possible: nodes have no side effects. */
  rlx_import_need (call->import, condition);
  if (!rlx_import_body (call, "then_branch", NULL, 0, taken, call->node->n_outputs, error) ||
      !rlx_import_body (call, "else_branch", NULL, 0, other, call->node->n_outputs, error))
    return FALSE;
  for (guint i = 0; i < call->node->n_outputs; i++)
    {
      RlxNode *inputs[3] = { rlx_import_get_node (call->import, condition, error), NULL, NULL };

      if (taken[i]->count != NULL || other[i]->count != NULL)
        return rlx_map_unsupported (error, "the condition and the size of output %u are both computed from data", i);
      inputs[1] = rlx_import_get_node (call->import, taken[i], error);
      inputs[2] = inputs[1] != NULL ? rlx_import_get_node (call->import, other[i], error) : NULL;
      if (inputs[2] == NULL)
        return FALSE;
      if (!rlx_map_same_shape (inputs[1], inputs[2]))
        return rlx_map_unsupported (error, "the condition is computed from data, and the branches give different shapes for output %u", i);
      if (rlx_node_get_n_dims (inputs[0]) > 0 && (inputs[0] = rlx_map_reshape (call, inputs[0], NULL, 0, error)) == NULL)
        return FALSE;
      if (!rlx_map_return (call, i, rlx_map_op (call, "where", inputs, 3, NULL, error)))
        return FALSE;
    }
  return TRUE;
}

/* ---- Loop ------------------------------------------------------------------------------------- */

/* A condition as a scalar boolean. */
static RlxNode *
get_condition (RlxMapCall  *call,
               RlxMapValue *value,
               GError     **error)
{
  RlxNode *node = rlx_import_get_node (call->import, value, error);

  return node != NULL && rlx_node_get_n_dims (node) > 0 ? rlx_map_reshape (call, node, NULL, 0, error) : node;
}

/* The value that is carried on: the step's result if the step was taken. */
static RlxMapValue *
choose (RlxMapCall  *call,
        RlxNode     *is_taken,
        RlxMapValue *after,
        RlxMapValue *before,
        GError     **error)
{
  RlxNode *inputs[3] = { is_taken, rlx_import_get_node (call->import, after, error), NULL };
  RlxMapValue *value;

  inputs[2] = inputs[1] != NULL ? rlx_import_get_node (call->import, before, error) : NULL;
  if (inputs[2] == NULL)
    return NULL;
  if (!rlx_map_same_shape (inputs[1], inputs[2]) || after->count != NULL || before->count != NULL)
    {
      rlx_import_need (call->import, &(RlxMapValue) { .node = is_taken });
      rlx_map_unsupported (error, "the number of steps is computed from data, and what a step gives has another size than what it was given");
      return NULL;
    }
  inputs[1] = rlx_map_op (call, "where", inputs, 3, NULL, error);
  if (inputs[1] == NULL)
    return NULL;
  value = rlx_import_new_value (call->import);
  value->node = inputs[1];
  return value;
}

/* The number of steps, including one that may be taken. */
static RlxNode *
count_step (RlxMapCall *call,
            RlxNode    *count,
            RlxNode    *is_taken,
            gint64      before,
            GError    **error)
{
  if (count == NULL)
    count = rlx_graph_scalar (call->graph, RLX_DATA_TYPE_I64, (double) before, error);
  is_taken = count != NULL ? rlx_map_cast (call, is_taken, RLX_DATA_TYPE_I64, error) : NULL;
  return is_taken != NULL ? rlx_map_op2 (call, "add", count, is_taken, NULL, error) : NULL;
}

gboolean
rlx_onnx_map_loop (RlxMapCall *call,
                   GError    **error)
{
  gint64 limit = G_MAXINT64, go_on = 1;
  gsize n_inputs, n_outputs, n_carried = call->node->n_inputs > 2 ? call->node->n_inputs - 2 : 0, n_scans;
  g_autofree RlxMapValue **inputs = NULL;
  g_autofree RlxMapValue **outputs = NULL;
  g_autoptr(GPtrArray) scans = g_ptr_array_new_with_free_func ((GDestroyNotify) g_ptr_array_unref);
  RlxNode *is_taken = NULL, *count = NULL, *next;   /* if data decides whether a step is taken */
  RlxMapValue *value = NULL;

  if (!rlx_import_body_size (call, "body", &n_inputs, &n_outputs, error))
    return FALSE;
  if (n_inputs != n_carried + 2 || n_outputs < n_carried + 1 || call->node->n_outputs > n_outputs - 1)
    return rlx_map_refused (error, "the body has %" G_GSIZE_FORMAT " inputs and %" G_GSIZE_FORMAT " outputs", n_inputs, n_outputs);
  if (rlx_map_has_input (call, 0) && ((value = rlx_map_get_value (call, 0, error)) == NULL ||
                                      !get_number (call, value, "the number of steps", &limit, error)))
    return FALSE;
  if (rlx_map_has_input (call, 1) && (value = rlx_map_get_value (call, 1, error)) == NULL)
    return FALSE;
  if (rlx_map_has_input (call, 1) && !rlx_map_value_is_known (value) && limit <= MAX_CHOSEN_STEPS)
    is_taken = get_condition (call, value, error);
  else if (rlx_map_has_input (call, 1) && !get_number (call, value, "the condition", &go_on, error))
    return FALSE;
  if (rlx_map_has_failed (error))
    return FALSE;
  n_scans = n_outputs - 1 - n_carried;
  inputs = g_new0 (RlxMapValue *, n_inputs + 1);
  outputs = g_new0 (RlxMapValue *, n_outputs + 1);
  for (gsize i = 0; i < n_carried; i++)
    if ((inputs[2 + i] = rlx_map_get_value (call, (guint) (2 + i), error)) == NULL)
      return FALSE;
  for (gsize i = 0; i < n_scans; i++)
    g_ptr_array_add (scans, g_ptr_array_new ());

  for (gint64 step = 0; step < limit && go_on != 0; step++)
    {
      if (step == RLX_IMPORT_MAX_STEPS)
        {
          g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_LIMIT, "the loop takes more than %d steps", RLX_IMPORT_MAX_STEPS);
          return FALSE;
        }
      inputs[0] = new_int (call, NULL, 0, step);
      inputs[1] = new_flag (call, TRUE);
      if (!rlx_import_body (call, "body", inputs, n_inputs, outputs, n_outputs, error))
        return FALSE;
      if (is_taken != NULL && (count = count_step (call, count, is_taken, step, error)) == NULL)
        return FALSE;
      for (gsize i = 0; i < n_carried; i++)
        if ((inputs[2 + i] = is_taken != NULL ? choose (call, is_taken, outputs[1 + i], inputs[2 + i], error) : outputs[1 + i]) == NULL)
          return FALSE;
      for (gsize i = 0; i < n_scans; i++)
        g_ptr_array_add (scans->pdata[i], outputs[1 + n_carried + i]);
      /* Like both branches of a condition, a step that might not be taken is computed nevertheless: nodes have no side
       * effects. */
      if (!rlx_map_value_is_known (outputs[0]) && limit <= MAX_CHOSEN_STEPS)
        {
          next = get_condition (call, outputs[0], error);
          is_taken = next != NULL && is_taken != NULL ? rlx_map_op2 (call, "logical_and", is_taken, next, NULL, error) : next;
          if (is_taken == NULL)
            return FALSE;
        }
      else if (!get_number (call, outputs[0], "the condition of the next step", &go_on, error))
        {
          return FALSE;
        }
    }

  for (guint i = 0; i < call->node->n_outputs; i++)
    {
      if (!rlx_map_wants_output (call, i))
        continue;
      value = i < n_carried ? inputs[2 + i] : stack (call, scans->pdata[i - n_carried], 0, error);
      if (value == NULL)
        return FALSE;
      if (i >= n_carried && count != NULL)
        {
          value->count = count;
          value->open_axis = 0;
        }
      rlx_map_return_value (call, i, value);
    }
  return TRUE;
}

/* ---- Scan ------------------------------------------------------------------------------------- */

/* An element of a list of numbers; 0 without a list. */
static gint64
get_nth (const gint64 *values,
         gsize         n_values,
         gsize         index)
{
  return index < n_values ? values[index] : 0;
}

gboolean
rlx_onnx_map_scan (RlxMapCall *call,
                   GError    **error)
{
  gsize n_inputs, n_outputs, n_states, n_scans, n_axes, n_back, n_out_axes, n_out_back;
  gint64 n_scanned, n_steps = -1;
  g_autofree gint64 *axes = NULL;
  g_autofree gint64 *backwards = NULL;
  g_autofree gint64 *out_axes = NULL;
  g_autofree gint64 *out_backwards = NULL;
  g_autofree RlxMapValue **inputs = NULL;
  g_autofree RlxMapValue **outputs = NULL;
  g_autoptr(GPtrArray) scans = g_ptr_array_new_with_free_func ((GDestroyNotify) g_ptr_array_unref);

  if (call->opset < 9)
    return rlx_map_unsupported (error, "a Scan with batches, as it was before opset 9");
  if (!rlx_import_body_size (call, "body", &n_inputs, &n_outputs, error) ||
      !rlx_map_arg_int (call, "num_scan_inputs", 0, &n_scanned, error))
    return FALSE;
  if (n_inputs != call->node->n_inputs || n_scanned < 1 || n_scanned > (gint64) n_inputs || n_outputs < n_inputs - (gsize) n_scanned ||
      call->node->n_outputs > n_outputs)
    return rlx_map_refused (error, "%" G_GINT64_FORMAT " of its %u inputs are scanned by a body of %" G_GSIZE_FORMAT " inputs and %" G_GSIZE_FORMAT " outputs",
                            n_scanned, call->node->n_inputs, n_inputs, n_outputs);
  axes = rlx_map_arg_ints (call, "scan_input_axes", &n_axes, NULL);
  backwards = rlx_map_arg_ints (call, "scan_input_directions", &n_back, NULL);
  out_axes = rlx_map_arg_ints (call, "scan_output_axes", &n_out_axes, NULL);
  out_backwards = rlx_map_arg_ints (call, "scan_output_directions", &n_out_back, NULL);
  n_states = n_inputs - (gsize) n_scanned;
  n_scans = n_outputs - n_states;
  inputs = g_new0 (RlxMapValue *, n_inputs + 1);
  outputs = g_new0 (RlxMapValue *, n_outputs + 1);
  for (gsize i = 0; i < n_inputs; i++)
    {
      RlxMapValue *value = rlx_map_get_value (call, (guint) i, error);
      RlxDataType type;
      gsize n_dims;
      const gint64 *shape;
      gint64 axis;

      if (value == NULL)
        return FALSE;
      inputs[i] = value;
      if (i < n_states)
        continue;
      shape = rlx_map_value_get_shape (call->import, value, &n_dims, &type);
      axis = get_nth (axes, n_axes, i - n_states);
      if (axis < 0)
        axis += (gint64) n_dims;
      if (shape == NULL || axis < 0 || axis >= (gint64) n_dims)
        return rlx_map_refused (error, "input %" G_GSIZE_FORMAT " has no axis to scan", i);
      if (n_steps >= 0 && shape[axis] != n_steps)
        return rlx_map_refused (error, "input %" G_GSIZE_FORMAT " has %" G_GINT64_FORMAT " steps, not %" G_GINT64_FORMAT, i, shape[axis], n_steps);
      n_steps = shape[axis];
    }
  if (n_steps > RLX_IMPORT_MAX_STEPS)
    {
      g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_LIMIT, "the scan takes %" G_GINT64_FORMAT " steps, more than %d", n_steps, RLX_IMPORT_MAX_STEPS);
      return FALSE;
    }
  for (gsize i = 0; i < n_scans; i++)
    g_ptr_array_add (scans, g_ptr_array_new ());

  for (gint64 step = 0; step < n_steps; step++)
    {
      for (gsize i = 0; i < (gsize) n_scanned; i++)
        {
          RlxMapValue *whole = rlx_map_get_value (call, (guint) (n_states + i), error);
          gint64 at = get_nth (backwards, n_back, i) != 0 ? n_steps - 1 - step : step;

          inputs[n_states + i] = take (call, whole, at, get_nth (axes, n_axes, i), error);
          if (inputs[n_states + i] == NULL)
            return FALSE;
        }
      if (!rlx_import_body (call, "body", inputs, n_inputs, outputs, n_outputs, error))
        return FALSE;
      for (gsize i = 0; i < n_states; i++)
        inputs[i] = outputs[i];
      for (gsize i = 0; i < n_scans; i++)
        g_ptr_array_insert (scans->pdata[i], get_nth (out_backwards, n_out_back, i) != 0 ? 0 : -1, outputs[n_states + i]);
    }

  for (guint i = 0; i < call->node->n_outputs; i++)
    {
      RlxMapValue *value;

      if (!rlx_map_wants_output (call, i))
        continue;
      value = i < n_states ? inputs[i] : stack (call, scans->pdata[i - n_states], get_nth (out_axes, n_out_axes, i - n_states), error);
      if (value == NULL)
        return FALSE;
      rlx_map_return_value (call, i, value);
    }
  return TRUE;
}

/* ---- sequences --------------------------------------------------------------------------------- */

static RlxMapValue *
new_list (RlxMapCall *call)
{
  RlxMapValue *value = rlx_import_new_value (call->import);

  value->list = g_ptr_array_new ();
  return value;
}

static GPtrArray *
get_list (RlxMapCall *call,
          GError    **error)
{
  RlxMapValue *value = rlx_map_get_value (call, 0, error);

  if (value != NULL && value->list == NULL)
    {
      rlx_map_refused (error, "input 0 is not a sequence");
      return NULL;
    }
  return value != NULL ? value->list : NULL;
}

/* A position in a list, given by input @index; by default, the last one. */
static gboolean
get_place (RlxMapCall *call,
           guint       index,
           guint       n,
           gboolean    insert,
           gint64     *place,
           GError    **error)
{
  RlxMapValue *value;
  gint64 end = (gint64) n + (insert ? 1 : 0);

  *place = end - 1;
  if (rlx_map_has_input (call, index))
    {
      value = rlx_map_get_value (call, index, error);
      if (value == NULL || !get_number (call, value, "the position", place, error))
        return FALSE;
      if (*place < 0)
        *place += (gint64) n;
    }
  if (*place < 0 || *place >= end)
    return rlx_map_refused (error, "the position %" G_GINT64_FORMAT " is beyond a sequence of %u", *place, n);
  return TRUE;
}

gboolean
rlx_onnx_map_sequence (RlxMapCall *call,
                       GError    **error)
{
  const char *op = call->node->op;
  RlxMapValue *result;
  GPtrArray *list;
  gint64 place;

  if (g_str_equal (op, "SequenceEmpty"))
    return rlx_map_return_value (call, 0, new_list (call));
  if (g_str_equal (op, "SequenceConstruct"))
    {
      result = new_list (call);
      for (guint i = 0; i < rlx_map_n_inputs (call); i++)
        {
          RlxMapValue *value = rlx_map_get_value (call, i, error);

          if (value == NULL)
            return FALSE;
          g_ptr_array_add (result->list, value);
        }
      return rlx_map_return_value (call, 0, result);
    }

  list = get_list (call, error);
  if (list == NULL)
    return FALSE;
  if (g_str_equal (op, "SequenceLength"))
    return rlx_map_return_value (call, 0, new_int (call, NULL, 0, list->len));
  if (g_str_equal (op, "SequenceAt"))
    return get_place (call, 1, list->len, FALSE, &place, error) && rlx_map_return_value (call, 0, list->pdata[place]);

  result = new_list (call);
  g_ptr_array_extend (result->list, list, NULL, NULL);
  if (g_str_equal (op, "SequenceErase"))
    {
      if (!get_place (call, 1, list->len, FALSE, &place, error))
        return FALSE;
      g_ptr_array_remove_index (result->list, (guint) place);
    }
  else
    {
      RlxMapValue *value = rlx_map_get_value (call, 1, error);

      if (value == NULL || !get_place (call, 2, list->len, TRUE, &place, error))
        return FALSE;
      g_ptr_array_insert (result->list, (int) place, value);
    }
  return rlx_map_return_value (call, 0, result);
}

gboolean
rlx_onnx_map_concat_from_sequence (RlxMapCall *call,
                                   GError    **error)
{
  GPtrArray *list = get_list (call, error);
  gboolean new_axis;
  gint64 axis;
  RlxMapValue *result;

  if (list == NULL || !rlx_map_arg_int (call, "axis", 0, &axis, error) || !rlx_map_arg_bool (call, "new_axis", FALSE, &new_axis, error))
    return FALSE;
  if (new_axis)
    result = stack (call, list, axis, error);
  else
    result = rlx_import_apply (call, "Concat", (RlxMapValue **) list->pdata, list->len, "axis", axis, error);
  return result != NULL && rlx_map_return_value (call, 0, result);
}

gboolean
rlx_onnx_map_split_to_sequence (RlxMapCall *call,
                                GError    **error)
{
  RlxMapValue *value = rlx_map_get_value (call, 0, error);
  g_autofree gint64 *parts = NULL;
  RlxMapValue *result;
  gint64 axis, at = 0, size;
  const gint64 *shape;
  gboolean keep, listed;
  gsize n_dims, place, n_parts = 0;
  RlxDataType type;

  if (value == NULL || !rlx_map_arg_int (call, "axis", 0, &axis, error) || !rlx_map_arg_bool (call, "keepdims", TRUE, &keep, error) ||
      (rlx_map_has_input (call, 1) && (parts = rlx_map_input_ints (call, 1, &n_parts, error)) == NULL))
    return FALSE;
  shape = rlx_map_value_get_shape (call->import, value, &n_dims, &type);
  if (shape == NULL || n_dims == 0)
    return rlx_map_refused (error, "input 0 has no axis to split");
  if (!rlx_map_normalise_axis (call, axis, n_dims, n_dims - 1, &place, error))
    return FALSE;
  size = shape[place];
  if (size > RLX_IMPORT_MAX_STEPS)
    return rlx_map_unsupported (error, "a sequence of %" G_GINT64_FORMAT, size);
  result = new_list (call);
  listed = parts != NULL && rlx_map_get_value (call, 1, NULL)->tensor != NULL && rlx_tensor_get_n_dims (rlx_map_get_value (call, 1, NULL)->tensor) > 0;
  for (gsize i = 0; listed ? i < n_parts : at < size; i++)
    {
      /* A scalar is the size of each part but the last. */
      gint64 part = parts == NULL ? 1 : !listed ? MIN (parts[0], size - at) : parts[i];
      RlxMapValue *inputs[4], *piece;

      if (part < (listed ? 0 : 1) || part > size - at)
        return rlx_map_refused (error, "a part of %" G_GINT64_FORMAT " at %" G_GINT64_FORMAT " of %" G_GINT64_FORMAT, part, at, size);
      if (parts == NULL && !keep)
        {
          piece = take (call, value, at, axis, error);
        }
      else
        {
          inputs[0] = value;
          inputs[1] = new_int (call, (gint64[]) { 1 }, 1, at);
          inputs[2] = new_int (call, (gint64[]) { 1 }, 1, at + part);
          inputs[3] = new_int (call, (gint64[]) { 1 }, 1, (gint64) place);
          piece = rlx_import_apply (call, "Slice", inputs, 4, NULL, 0, error);
        }
      if (piece == NULL)
        return FALSE;
      g_ptr_array_add (result->list, piece);
      at += part;
    }
  if (at != size)
    return rlx_map_refused (error, "the parts are %" G_GINT64_FORMAT " long instead of %" G_GINT64_FORMAT, at, size);
  return rlx_map_return_value (call, 0, result);
}

/* ---- optional values ------------------------------------------------------------------------------ */

gboolean
rlx_onnx_map_optional (RlxMapCall *call,
                       GError    **error)
{
  const char *op = call->node->op;
  RlxMapValue *value = rlx_map_has_input (call, 0) ? rlx_map_get_value (call, 0, error) : NULL;

  if (value == NULL && !g_str_equal (op, "OptionalGetElement"))
    {
      rlx_map_arg (call, "type");
      value = rlx_import_new_value (call->import);
      value->is_absent = TRUE;
    }
  if (value == NULL || (value->is_absent && g_str_equal (op, "OptionalGetElement")))
    return rlx_map_refused (error, "there is no element");
  if (g_str_equal (op, "OptionalHasElement"))
    value = new_flag (call, !value->is_absent);
  return rlx_map_return_value (call, 0, value);
}

/* Operators that are only computed on the host, with inputs whose values it does not know. */
gboolean
rlx_onnx_map_unknown (RlxMapCall *call,
                      GError    **error)
{
  g_autoptr(RlxTensor) value = rlx_map_input_value (call, 0, error);

  if (value == NULL)
    return FALSE;
  return rlx_map_unsupported (error, "its input is too large to be known");
}
