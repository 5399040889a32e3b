/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What a run leaves for the next one.
 */
#include "config.h"

#include "rlx-session.h"

#include <string.h>

#include "import/rlx-grow-private.h"
#include "import/rlx-session-private.h"
#include "rlx-executable.h"
#include "rlx-tensor-private.h"

/* The input that switches between the two decoders of a file. */
#define SWITCH "use_cache_branch"

/* Input and output names of past keys and values. */
static const char *const names_of_past[][2] = {
  { "past_key_values", "present" },
  { "past_key_values", "present_key_values" },
  { "past", "present" },
};

/* ---- states ------------------------------------------------------------------------------------------ */

void
rlx_session_state_free (gpointer data)
{
  RlxSessionState *state = data;

  g_free (state->input);
  g_free (state->output);
  g_clear_object (&state->value);
  g_clear_object (&state->buffer);
  g_free (state);
}

gboolean
rlx_session_has_states (RlxSession *self)
{
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new (&self->mutex);

  return self->states->len > 0;
}

RlxSessionState *
rlx_session_find_state (RlxSession *self,
                        const char *input)
{
  for (guint i = 0; i < self->states->len; i++)
    {
      RlxSessionState *state = self->states->pdata[i];

      if (g_str_equal (state->input, input))
        return state;
    }
  return NULL;
}

static RlxSessionState *
find_by_output (RlxSession *self,
                const char *output)
{
  for (guint i = 0; i < self->states->len; i++)
    {
      RlxSessionState *state = self->states->pdata[i];

      if (g_str_equal (state->output, output))
        return state;
    }
  return NULL;
}

void
rlx_session_name_outputs (RlxSession *self)
{
  GListModel *outputs = rlx_model_get_outputs (self->model);
  guint n = g_list_model_get_n_items (outputs);
  g_autoptr(GStrvBuilder) names = g_strv_builder_new ();

  for (guint i = 0; i < n; i++)
    {
      g_autoptr(RlxModelPort) port = g_list_model_get_item (outputs, i);

      if (find_by_output (self, rlx_model_port_get_name (port)) == NULL)
        g_strv_builder_add (names, rlx_model_port_get_name (port));
    }
  if (self->output_names != NULL)
    g_ptr_array_add (self->old_names, self->output_names);
  self->output_names = g_strv_builder_end (names);
}

gboolean
rlx_session_begin_run (RlxSession   *self,
                       GCancellable *cancellable,
                       GError      **error)
{
  g_mutex_lock (&self->mutex);
  while (self->running)
    {
      g_cond_wait_until (&self->ready, &self->mutex, g_get_monotonic_time () + G_TIME_SPAN_SECOND / 10);
      if (g_cancellable_set_error_if_cancelled (cancellable, error))
        {
          g_mutex_unlock (&self->mutex);
          return FALSE;
        }
    }
  self->running = TRUE;
  for (guint i = 0; self->begins_anew && i < self->states->len; i++)
    {
      RlxSessionState *state = self->states->pdata[i];

      g_clear_object (&state->value);
      state->is_in_buffer = FALSE;
      if (self->wanted_rows != self->max_rows)
        {
          state->grows = FALSE;
          g_clear_object (&state->buffer);
        }
    }
  if (self->begins_anew)
    self->n_rows = 0;
  self->max_rows = self->wanted_rows;
  self->begins_anew = FALSE;
  g_mutex_unlock (&self->mutex);
  return TRUE;
}

void
rlx_session_end_run (RlxSession *self)
{
  g_mutex_lock (&self->mutex);
  self->running = FALSE;
  g_cond_broadcast (&self->ready);
  g_mutex_unlock (&self->mutex);
}

static gboolean
add_state (RlxSession *self,
           const char *input,
           const char *output,
           GError    **error)
{
  RlxSessionState *state;

  if (rlx_model_find_input (self->model, input) == NULL)
    {
      g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_NOT_FOUND, "The model has no input “%s”, or it is fixed", input);
      return FALSE;
    }
  if (!rlx_session_has_output (self, output))
    {
      g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_NOT_FOUND, "The model has no output “%s”", output);
      return FALSE;
    }
  if (rlx_session_find_state (self, input) != NULL || find_by_output (self, output) != NULL)
    {
      g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_INVALID, "The input “%s” or the output “%s” belongs to a state already", input, output);
      return FALSE;
    }
  state = g_new0 (RlxSessionState, 1);
  state->input = g_strdup (input);
  state->output = g_strdup (output);
  g_ptr_array_add (self->states, state);
  rlx_session_name_outputs (self);
  return TRUE;
}

/* Locks what a run would use; FALSE if one is in progress. */
static gboolean
lock_states (RlxSession *self,
             GError    **error)
{
  g_mutex_lock (&self->mutex);
  if (!self->running)
    return TRUE;
  g_mutex_unlock (&self->mutex);
  g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_INVALID, "States cannot be added while the session runs");
  return FALSE;
}

/**
 * rlx_session_add_state:
 * @self: a session
 * @input: the name of an input
 * @output: the name of an output
 * @error: return location for an error
 *
 * Keeps an output on the device, as an input of the next run.
 *
 * Runs then no longer return that output, and the input may be left out. In the first run
 * it is zero, with no rows if its size is not fixed by anything else; a run that is given
 * the input starts from that. An output without elements leaves the state unchanged.
 *
 * If the output is the input with new rows appended, like the keys and values of a decoder, the
 * state is a buffer with room for [property@Rlx.Session:max-rows] rows. Only new rows are written,
 * and one executable serves any number of rows. An input that is as long as all rows together, such
 * as a mask, is padded with zeros. If a model does not allow that, runs fail and give the reason;
 * with [property@Rlx.Session:max-rows] 0, it is compiled for each length instead.
 *
 * Returns: %FALSE with an error if there is no such input or output, or if it is
 *   already used for a state
 *
 * Since: 1.0
 */
gboolean
rlx_session_add_state (RlxSession *self,
                       const char *input,
                       const char *output,
                       GError    **error)
{
  gboolean ok;

  g_return_val_if_fail (RLX_IS_SESSION (self) && self->model != NULL, FALSE);
  g_return_val_if_fail (input != NULL && output != NULL, FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  if (!lock_states (self, error))
    return FALSE;
  ok = add_state (self, input, output, error);
  g_mutex_unlock (&self->mutex);
  return ok;
}

/**
 * rlx_session_add_states:
 * @self: a session
 * @error: return location for an error
 *
 * Keeps the past of a decoder on the device, using the names that exporters use: an
 * output `present.…` becomes the input `past_key_values.…` or `past.…` of the next run.
 *
 * An input `use_cache_branch` is also set, unless it is given: it is true as soon as
 * there is a past. See [method@Rlx.Session.add_state].
 *
 * Returns: %FALSE with an error if there is no such pair
 *
 * Since: 1.0
 */
gboolean
rlx_session_add_states (RlxSession *self,
                        GError    **error)
{
  GListModel *ports;
  guint n, n_before;
  gboolean ok = TRUE;

  g_return_val_if_fail (RLX_IS_SESSION (self) && self->model != NULL, FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  if (!lock_states (self, error))
    return FALSE;
  ports = rlx_model_get_inputs (self->model);
  n = g_list_model_get_n_items (ports);
  n_before = self->states->len;
  for (guint i = 0; ok && i < n; i++)
    {
      g_autoptr(RlxModelPort) port = g_list_model_get_item (ports, i);
      const char *input = rlx_model_port_get_name (port);

      for (guint j = 0; j < G_N_ELEMENTS (names_of_past); j++)
        {
          g_autofree char *output = NULL;

          if (!g_str_has_prefix (input, names_of_past[j][0]) || rlx_session_find_state (self, input) != NULL)
            continue;
          output = g_strconcat (names_of_past[j][1], input + strlen (names_of_past[j][0]), NULL);
          if (!rlx_session_has_output (self, output))
            continue;
          ok = add_state (self, input, output, error);
          break;
        }
    }
  if (ok && self->states->len == n_before)
    {
      g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_NOT_FOUND,
                   "The model has no input “past…” with an output “present…”, or they are states already");
      ok = FALSE;
    }
  g_mutex_unlock (&self->mutex);
  return ok;
}

/**
 * rlx_session_reset_states:
 * @self: a session
 *
 * Makes the next run start like the first one. A run in progress is not affected.
 *
 * Since: 1.0
 */
void
rlx_session_reset_states (RlxSession *self)
{
  g_return_if_fail (RLX_IS_SESSION (self));

  g_mutex_lock (&self->mutex);
  self->begins_anew = TRUE;
  g_mutex_unlock (&self->mutex);
}

/**
 * rlx_session_get_max_rows:
 * @self: a session
 *
 * Gets how many rows states that grow have room for.
 *
 * Returns: the number of rows
 *
 * Since: 1.0
 */
guint
rlx_session_get_max_rows (RlxSession *self)
{
  g_autoptr(GMutexLocker) locker = NULL;

  g_return_val_if_fail (RLX_IS_SESSION (self), 0);

  locker = g_mutex_locker_new (&self->mutex);
  return self->wanted_rows;
}

/**
 * rlx_session_set_max_rows:
 * @self: a session
 * @max_rows: how many rows to have room for; 0 to compile the model for each length
 *
 * Sets how many rows states that grow have room for. All states are reset.
 *
 * Since: 1.0
 */
void
rlx_session_set_max_rows (RlxSession *self,
                          guint       max_rows)
{
  gboolean changed;

  g_return_if_fail (RLX_IS_SESSION (self));

  max_rows = MIN (max_rows, RLX_SESSION_LIMIT_ROWS);
  g_mutex_lock (&self->mutex);
  changed = self->wanted_rows != max_rows;
  self->wanted_rows = max_rows;
  self->begins_anew |= changed;
  g_mutex_unlock (&self->mutex);
  if (changed)
    g_object_notify (G_OBJECT (self), "max-rows");
}

/**
 * rlx_session_get_n_rows:
 * @self: a session
 *
 * Gets how many rows the states that grow currently have.
 *
 * Returns: the number of rows
 *
 * Since: 1.0
 */
guint
rlx_session_get_n_rows (RlxSession *self)
{
  g_autoptr(GMutexLocker) locker = NULL;

  g_return_val_if_fail (RLX_IS_SESSION (self), 0);

  locker = g_mutex_locker_new (&self->mutex);
  return self->begins_anew ? 0 : (guint) self->n_rows;
}

/* ---- the past as inputs -------------------------------------------------------------------------------- */

/* Sizes of named dimensions, as far as given inputs determine them. */
static GHashTable *
find_sizes (RlxSession     *self,
            RlxSessionCall *call)
{
  GHashTable *sizes = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  GListModel *ports = rlx_model_get_inputs (self->model);
  guint n_ports = g_list_model_get_n_items (ports);

  for (guint i = 0; i < n_ports; i++)
    {
      g_autoptr(RlxModelPort) port = g_list_model_get_item (ports, i);
      RlxTensor *tensor = g_hash_table_lookup (call->tensors, port->name);
      gsize n_dims = 0;
      const gint64 *shape = tensor != NULL ? rlx_tensor_get_shape (tensor, &n_dims) : NULL;

      for (gsize j = 0; j < MIN (n_dims, port->n_dims); j++)
        if (port->names[j] != NULL)
          g_hash_table_insert (sizes, g_strdup (port->names[j]), g_memdup2 (&shape[j], sizeof *shape));
    }
  return sizes;
}

/* The initial value of a state. */
static RlxTensor *
new_initial (RlxSession            *self,
             const RlxSessionState *state,
             GHashTable            *sizes,
             GError               **error)
{
  RlxModelPort *port = rlx_model_find_input (self->model, state->input);
  RlxTensorType type = { 0, };

  if (port == NULL || port->data_type < 0 || !port->has_shape)
    {
      g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_SHAPE, "The model does not say what shape the state “%s” has: give it as an input once", state->input);
      return NULL;
    }
  type.data_type = (RlxDataType) port->data_type;
  type.n_dims = (guint) port->n_dims;
  for (gsize i = 0; i < port->n_dims; i++)
    {
      const gint64 *size = port->names[i] != NULL ? g_hash_table_lookup (sizes, port->names[i]) : NULL;

      type.shape[i] = port->shape[i] >= 0 ? port->shape[i] : size != NULL ? *size : 0;
    }
  return rlx_session_new_zeros (&type, error);
}

gboolean
rlx_session_add_past (RlxSession     *self,
                      RlxSessionCall *call,
                      GError        **error)
{
  g_autoptr(GHashTable) sizes = NULL;
  gboolean any = FALSE;

  for (guint i = 0; i < self->states->len; i++)
    {
      RlxSessionState *state = self->states->pdata[i];
      RlxTensor *given = g_hash_table_lookup (call->tensors, state->input);
      gsize n_dims = 0;
      const gint64 *shape;

      if (given == NULL && state->is_in_buffer)
        {
          RlxTensorType type = { .data_type = rlx_state_get_data_type (state->buffer) };

          shape = rlx_state_get_shape (state->buffer, &n_dims);
          type.n_dims = (guint) n_dims;
          memcpy (type.shape, shape, n_dims * sizeof *shape);
          type.shape[state->axis] = self->n_rows;
          g_hash_table_insert (call->types, g_strdup (state->input), g_memdup2 (&type, sizeof type));
          call->n_rows = self->n_rows;
          any = TRUE;
          continue;
        }
      if (given == NULL && state->value != NULL)
        {
          given = state->value;
          g_hash_table_insert (call->tensors, g_strdup (state->input), g_object_ref (given));
        }
      if (given != NULL)
        {
          shape = rlx_tensor_get_shape (given, &n_dims);
          if (state->grows && state->axis < n_dims)
            call->n_rows = shape[state->axis];
          any = any || rlx_tensor_get_n_elements (given) > 0;
          continue;
        }
      if (sizes == NULL)
        sizes = find_sizes (self, call);
      given = new_initial (self, state, sizes, error);
      if (given == NULL)
        return FALSE;
      g_hash_table_insert (call->tensors, g_strdup (state->input), given);
    }
  if (self->states->len > 0 && !g_hash_table_contains (call->tensors, SWITCH))
    {
      RlxModelPort *port = rlx_model_find_input (self->model, SWITCH);

      if (port != NULL && port->data_type == RLX_DATA_TYPE_BOOL)
        g_hash_table_insert (call->tensors, g_strdup (SWITCH),
                             rlx_tensor_new_from_ints (RLX_DATA_TYPE_BOOL, (gint64[]) { 1 }, port->n_dims > 0 ? 1 : 0, (gint64[]) { any }, 1, NULL));
    }
  return TRUE;
}

/* ---- runs ------------------------------------------------------------------------------------------------ */

/* Moves the existing rows of a state to an executable. */
static gboolean
move_rows (RlxSession      *self,
           RlxSessionState *state,
           RlxSessionCall  *call,
           GCancellable    *cancellable,
           GError         **error)
{
  g_autoptr(RlxState) own = rlx_executable_dup_state (call->executable, state->input, error);
  RlxTensor *value = g_hash_table_lookup (call->tensors, state->input);
  g_autoptr(RlxTensor) padded = NULL;

  if (own == NULL)
    return FALSE;
  if (value != NULL)
    {
      gsize n_own, n_buffer = 0;
      const gint64 *shape = rlx_state_get_shape (own, &n_own), *other = state->buffer != NULL ? rlx_state_get_shape (state->buffer, &n_buffer) : NULL;

      if (n_own != n_buffer || memcmp (shape, other, n_own * sizeof *shape) != 0)
        g_set_object (&state->buffer, own);
    }
  if (own != state->buffer && !rlx_executable_bind_state (call->executable, state->input, state->buffer, cancellable, error))
    return FALSE;
  if (value == NULL)
    return TRUE;
  padded = rlx_session_resize (value, state->axis, self->max_rows, error);
  if (padded == NULL || !rlx_executable_write_state (call->executable, state->input, padded, cancellable, error))
    return FALSE;
  state->is_in_buffer = TRUE;
  g_clear_object (&state->value);
  return TRUE;
}

static void
set_n_rows (RlxSession *self,
            gint64      n_rows)
{
  g_mutex_lock (&self->mutex);
  self->n_rows = n_rows;
  g_mutex_unlock (&self->mutex);
}

static gboolean
prepare_rows (RlxSession     *self,
              RlxSessionCall *call,
              GCancellable   *cancellable,
              GError        **error)
{
  GHashTableIter iter;
  gpointer name, axis;

  if (call->n_rows + call->n_new > self->max_rows)
    {
      g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_LIMIT,
                   "The states have room for %u rows; there are %" G_GINT64_FORMAT ", and %" G_GINT64_FORMAT " more: set “max-rows”, or reset the states",
                   self->max_rows, call->n_rows, call->n_new);
      return FALSE;
    }
  for (guint i = 0; i < self->states->len; i++)
    {
      RlxSessionState *state = self->states->pdata[i];

      if (state->grows && !move_rows (self, state, call, cancellable, error))
        return FALSE;
    }
  g_hash_table_iter_init (&iter, self->longer);
  while (g_hash_table_iter_next (&iter, &name, &axis))
    {
      RlxTensor *tensor = g_hash_table_lookup (call->tensors, name);
      RlxTensor *padded = tensor != NULL ? rlx_session_resize (tensor, GPOINTER_TO_UINT (axis) - 1, self->max_rows, error) : NULL;

      if (padded == NULL)
        return FALSE;
      g_hash_table_replace (call->tensors, g_strdup (name), padded);
    }
  g_hash_table_insert (call->tensors, g_strdup (RLX_GROW_ROWS), rlx_tensor_new_scalar (RLX_DATA_TYPE_I32, (double) call->n_rows, NULL));
  set_n_rows (self, call->n_rows);
  return TRUE;
}

/* Keeps the results of a run for the next one. */
static void
keep (RlxSession     *self,
      RlxSessionCall *call,
      RlxTensor     **outputs)
{
  const char *const *names = rlx_executable_get_output_names (call->executable);

  if (call->grows)
    set_n_rows (self, call->n_rows + call->n_new);
  for (guint i = 0; i < self->states->len; i++)
    {
      RlxSessionState *state = self->states->pdata[i];
      RlxTensor *before = g_hash_table_lookup (call->tensors, state->input);

      if (call->grows && state->grows)
        continue;
      for (guint j = 0; names[j] != NULL; j++)
        if (g_str_equal (names[j], state->output))
          {
            RlxTensor *value = rlx_tensor_get_n_elements (outputs[j]) > 0 || before == NULL ? outputs[j] : before;

            g_set_object (&state->value, value);
          }
      state->is_in_buffer = FALSE;
    }
}

/* The next run must not take padding for elements. */
static gboolean
cut_states (RlxSession     *self,
            RlxSessionCall *call,
            RlxTensor     **outputs,
            GCancellable   *cancellable,
            GError        **error)
{
  const char *const *names = rlx_executable_get_output_names (call->executable);

  for (guint i = 0; names[i] != NULL; i++)
    if (find_by_output (self, names[i]) != NULL)
      {
        RlxTensor *tensor = rlx_session_cut (self, names, outputs, i, cancellable, error);

        if (tensor == NULL)
          return FALSE;
        g_object_unref (outputs[i]);
        outputs[i] = tensor;
      }
  return TRUE;
}

static RlxTensor **
run_locked (RlxSession        *self,
            const char *const *names,
            RlxTensor        **inputs,
            gsize              n_inputs,
            gsize             *n_outputs,
            GCancellable      *cancellable,
            GError           **error)
{
  g_auto(RlxSessionCall) call = { 0, };
  g_autoptr(GPtrArray) used = g_ptr_array_new ();
  g_auto(RlxTensors) outputs = NULL;
  g_autoptr(GCancellable) own = cancellable != NULL ? g_object_ref (cancellable) : g_cancellable_new ();
  const char *const *wanted;

  if (!rlx_session_find (self, names, inputs, n_inputs, &call, cancellable, error))
    return NULL;
  if (call.grows && !prepare_rows (self, &call, cancellable, error))
    return NULL;
  wanted = rlx_executable_get_input_names (call.executable);
  for (guint i = 0; wanted[i] != NULL; i++)
    g_ptr_array_add (used, g_hash_table_lookup (call.tensors, wanted[i]));
  /* A run that can be cancelled has succeeded when it returns, which the states rely on. */
  outputs = rlx_executable_run_on_device (call.executable, (RlxTensor **) used->pdata, used->len, NULL, own, error);
  if (outputs == NULL || !cut_states (self, &call, outputs, cancellable, error))
    return NULL;
  keep (self, &call, outputs);
  return rlx_session_take_outputs (self, call.executable, outputs, n_outputs, cancellable, error);
}

RlxTensor **
rlx_session_run_states (RlxSession        *self,
                        const char *const *names,
                        RlxTensor        **inputs,
                        gsize              n_inputs,
                        gsize             *n_outputs,
                        GCancellable      *cancellable,
                        GError           **error)
{
  RlxTensor **outputs;

  if (!rlx_session_begin_run (self, cancellable, error))
    return NULL;
  outputs = run_locked (self, names, inputs, n_inputs, n_outputs, cancellable, error);
  rlx_session_end_run (self);
  return outputs;
}
