/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "ir/rlx-op-private.h"

#include "util/rlx-debug-private.h"

#include <string.h>

/* ---- the table ----------------------------------------------------------- */

const RlxOp *
rlx_op_lookup (const char *name)
{
  static gsize initialized = 0;
  static GHashTable *by_name;

  if (g_once_init_enter (&initialized))
    {
      by_name = g_hash_table_new (g_str_hash, g_str_equal);
      for (guint i = 0; i < rlx_n_ops; i++)
        g_hash_table_insert (by_name, (gpointer) rlx_op_table[i]->name, (gpointer) rlx_op_table[i]);
      g_once_init_leave (&initialized, 1);
    }

  return g_hash_table_lookup (by_name, name);
}

#define MAX_EDIT_LENGTH 32

/* How many letters have to be changed, added or left out. */
static guint
edit_distance (const char *a,
               const char *b)
{
  gsize n = strlen (b);
  guint row[MAX_EDIT_LENGTH + 1];

  if (n > MAX_EDIT_LENGTH || strlen (a) > MAX_EDIT_LENGTH)
    return G_MAXUINT;

  for (guint j = 0; j <= n; j++)
    row[j] = j;

  for (guint i = 0; a[i] != '\0'; i++)
    {
      guint diagonal = row[0];

      row[0] = i + 1;
      for (guint j = 0; j < n; j++)
        {
          guint change = diagonal + (g_ascii_tolower (a[i]) != b[j]);

          diagonal = row[j + 1];
          row[j + 1] = MIN (change, MIN (row[j], diagonal) + 1);
        }
    }

  return row[n];
}

const char *
rlx_op_suggest (const char *name)
{
  const char *best = NULL;
  /* A third of the letters: below that the guess helps, above it it is absurd. */
  guint best_distance = MIN (3, (guint) (strlen (name) / 3 + 1));

  for (guint i = 0; i < rlx_n_ops; i++)
    {
      guint distance = edit_distance (name, rlx_op_table[i]->name);

      if (distance < best_distance)
        {
          best = rlx_op_table[i]->name;
          best_distance = distance;
        }
    }

  return best;
}

int
rlx_op_find_attr (const RlxOp *op,
                  const char  *name)
{
  for (guint i = 0; i < op->n_attrs; i++)
    if (strcmp (op->attrs[i].name, name) == 0)
      return (int) i;

  return -1;
}

/* ---- helpers of rules --------------------------------------------------------- */

gboolean
rlx_call_error (const RlxOpCall *call,
                GError         **error,
                RlxGraphError    code,
                const char      *format,
                ...)
{
  g_autofree char *message = NULL;
  va_list args;

  va_start (args, format);
  message = g_strdup_vprintf (format, args);
  va_end (args);

  if (call->name != NULL)
    {
      g_autofree char *quoted = rlx_quote_text (call->name, -1);

      g_set_error (error, RLX_GRAPH_ERROR, code, "%s %s: %s", call->op->name, quoted, message);
    }
  else
    g_set_error (error, RLX_GRAPH_ERROR, code, "%s: %s", call->op->name, message);

  return FALSE;
}

gboolean
rlx_call_axis (const RlxOpCall *call,
               gint64           axis,
               guint            n_dims,
               guint           *out,
               GError         **error)
{
  if (n_dims == 0)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "there is no axis %" G_GINT64_FORMAT ": the operand has no dimensions", axis);

  if (axis < -(gint64) n_dims || axis >= (gint64) n_dims)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "there is no axis %" G_GINT64_FORMAT ": with %u dimensions axes go from %d to %u",
                           axis, n_dims, -(int) n_dims, n_dims - 1);

  *out = (guint) (axis < 0 ? axis + n_dims : axis);

  return TRUE;
}

gboolean
rlx_call_axes (const RlxOpCall *call,
               const RlxInts   *axes,
               guint            n_dims,
               gboolean         all_by_default,
               guint           *mask,
               GError         **error)
{
  *mask = 0;

  if (!axes->is_set && all_by_default)
    {
      *mask = (1u << n_dims) - 1;
      return TRUE;
    }

  for (guint i = 0; i < axes->n_values; i++)
    {
      guint axis;

      if (!rlx_call_axis (call, axes->values[i], n_dims, &axis, error))
        return FALSE;

      if (*mask & (1u << axis))
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                               "axis %" G_GINT64_FORMAT " is listed twice", axes->values[i]);
      *mask |= 1u << axis;
    }

  return TRUE;
}

void
rlx_call_add_output (RlxOpCall           *call,
                     const RlxTensorType *type)
{
  g_array_append_val (call->outputs, *type);
}

/* ---- inference ------------------------------------------------------------------ */

static gboolean
check_input (const RlxOpCall *call,
             guint            index,
             GError         **error)
{
  const RlxOp *op = call->op;
  const RlxInputDef *def = &op->inputs[MIN (index, op->n_inputs - 1)];
  const RlxTensorType *type = call->inputs[index];

  if (type == NULL)
    {
      if (def->optional)
        return TRUE;

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                             "operand %u (%s) is NULL", index + 1, def->name);
    }

  if (def->same_as >= 0 && (guint) def->same_as < call->n_inputs && call->inputs[def->same_as] != NULL)
    {
      RlxDataType wanted = call->inputs[def->same_as]->data_type;

      if (type->data_type != wanted)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_DATA_TYPE,
                               "operand %u (%s) is of type %s, but operand %d (%s) of type %s",
                               index + 1, def->name, rlx_data_type_to_string (type->data_type),
                               def->same_as + 1, op->inputs[def->same_as].name, rlx_data_type_to_string (wanted));
    }

  if ((def->types & (1u << type->data_type)) == 0)
    {
      g_autofree char *taken = rlx_data_types_to_string (def->types, ", ");

      return rlx_call_error (call, error, RLX_GRAPH_ERROR_DATA_TYPE,
                             "operand %u (%s) is of type %s; it can be %s",
                             index + 1, def->name, rlx_data_type_to_string (type->data_type), taken);
    }

  return TRUE;
}

gboolean
rlx_op_infer (RlxOpCall *call,
              GError   **error)
{
  const RlxOp *op = call->op;
  gboolean variadic = (op->flags & RLX_OP_VARIADIC) != 0;

  g_return_val_if_fail (op->infer != NULL, FALSE);
  g_return_val_if_fail (call->outputs != NULL, FALSE);

  if (variadic ? call->n_inputs < op->n_inputs : call->n_inputs != op->n_inputs)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                           "%u operands are given, the operator takes %s%u",
                           call->n_inputs, variadic ? "at least " : "", op->n_inputs);

  for (guint i = 0; i < call->n_inputs; i++)
    if (!check_input (call, i, error))
      return FALSE;

  if (!rlx_call_check_attrs (call, error))
    return FALSE;

  g_array_set_size (call->outputs, 0);
  if (!op->infer (call, error))
    return FALSE;
  g_return_val_if_fail (call->outputs->len > 0, FALSE);

  for (guint i = 0; i < call->outputs->len; i++)
    {
      g_autoptr(GError) local = NULL;

      if (!rlx_type_check (&g_array_index (call->outputs, RlxTensorType, i), &local))
        {
          rlx_call_error (call, error, local->code, "the result is not possible: %s", local->message);
          return FALSE;
        }
    }

  return TRUE;
}
