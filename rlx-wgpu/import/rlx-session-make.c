/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The executables of a session.
 */
#include "config.h"

#include "import/rlx-grow-private.h"
#include "import/rlx-session-private.h"
#include "rlx-executable.h"
#include "rlx-tensor-private.h"

/* Larger inputs are never part of an executable's key. */
#define MAX_KNOWN_BYTES (1 << 20)

void
rlx_session_made_free (RlxSessionMade *made)
{
  g_bytes_unref (made->key);
  g_object_unref (made->executable);
  g_free (made);
}

/* Drops the least recently used. */
void
rlx_session_trim (RlxSession *self)
{
  while (self->made.length > self->capacity)
    rlx_session_made_free (g_queue_pop_tail (&self->made));
}

void
rlx_session_call_clear (RlxSessionCall *call)
{
  g_clear_pointer (&call->tensors, g_hash_table_unref);
  g_clear_pointer (&call->types, g_hash_table_unref);
  g_clear_object (&call->executable);
}

/* ---- inputs --------------------------------------------------------------------------------------- */

static gboolean
collect (RlxSession        *self,
         const char *const *names,
         RlxTensor        **inputs,
         gsize              n_inputs,
         RlxSessionCall    *call,
         GError           **error)
{
  GListModel *ports = rlx_model_get_inputs (self->model);
  guint n_ports = g_list_model_get_n_items (ports);
  GHashTableIter iter;
  gpointer key, tensor;

  call->tensors = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_object_unref);
  call->types = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  for (gsize i = 0; i < n_inputs; i++)
    {
      if (names[i] == NULL)
        {
          g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_INVALID, "%" G_GSIZE_FORMAT " inputs were given, but only %" G_GSIZE_FORMAT " names",
                       n_inputs, i);
          return FALSE;
        }
      if (rlx_model_find_input (self->model, names[i]) == NULL)
        {
          g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_NOT_FOUND, "The model has no input “%s”, or it is fixed", names[i]);
          return FALSE;
        }
      if (!g_hash_table_insert (call->tensors, g_strdup (names[i]), g_object_ref (inputs[i])))
        {
          g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_INVALID, "Input “%s” was given twice", names[i]);
          return FALSE;
        }
    }
  if (!rlx_session_add_past (self, call, error))
    return FALSE;
  g_hash_table_iter_init (&iter, call->tensors);
  while (g_hash_table_iter_next (&iter, &key, &tensor))
    {
      RlxTensorType type;

      rlx_session_get_type_of (tensor, &type);
      g_hash_table_insert (call->types, g_strdup (key), g_memdup2 (&type, sizeof type));
    }
  for (guint i = 0; i < n_ports; i++)
    {
      g_autoptr(RlxModelPort) port = g_list_model_get_item (ports, i);
      const char *name = rlx_model_port_get_name (port);

      if (!g_hash_table_contains (call->types, name) && rlx_model_find_input (self->model, name) != NULL)
        {
          g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_NOT_FOUND, "Input “%s” was not given", name);
          return FALSE;
        }
    }
  return TRUE;
}

/* The key of an executable: sizes, and elements of inputs that determine other sizes. Once states are known to grow, it does
 * not include the number of rows, only whether there are any. */
static GBytes *
make_key (RlxSession     *self,
          RlxSessionCall *call,
          GHashTable     *known)
{
  GByteArray *key = g_byte_array_new ();
  GListModel *ports = rlx_model_get_inputs (self->model);
  guint n_ports = g_list_model_get_n_items (ports);
  guint head[] = { rlx_model_get_serial (self->model), self->max_rows, call->n_rows > 0 };

  g_byte_array_append (key, (const guint8 *) head, sizeof head);
  for (guint i = 0; i < n_ports; i++)
    {
      g_autoptr(RlxModelPort) port = g_list_model_get_item (ports, i);
      const char *name = rlx_model_port_get_name (port);
      RlxTensor *tensor = g_hash_table_lookup (call->tensors, name);
      RlxTensorType *type = g_hash_table_lookup (call->types, name);
      const RlxSessionState *state = rlx_session_find_state (self, name);
      guint longer = GPOINTER_TO_UINT (g_hash_table_lookup (self->longer, name));
      gint64 numbers[2 + RLX_MAX_DIMS] = { -1, };

      if (type != NULL)
        {
          numbers[0] = type->n_dims;
          numbers[1] = type->data_type;
          for (guint j = 0; j < type->n_dims; j++)
            numbers[2 + j] = type->shape[j];
          if (call->n_rows > 0 && state != NULL && state->grows)
            numbers[2 + state->axis] = -1;
          if (call->n_rows > 0 && longer > 0)
            numbers[1 + longer] -= call->n_rows;
        }
      g_byte_array_append (key, (const guint8 *) numbers, sizeof numbers);
      /* If it cannot be fetched, building the graph reports the error. */
      if (tensor != NULL && g_hash_table_contains (known, name) && rlx_tensor_fetch (tensor, NULL, NULL))
        g_byte_array_append (key, rlx_tensor_peek_data (tensor), (guint) rlx_tensor_get_size (tensor));
    }
  return g_byte_array_free_to_bytes (key);
}

/* The tensors named in @names, if their elements may be known. */
static GHashTable *
pick (GHashTable   *tensors,
      GHashTable   *names,
      GCancellable *cancellable,
      GError      **error)
{
  g_autoptr(GHashTable) picked = g_hash_table_new (g_str_hash, g_str_equal);
  GHashTableIter iter;
  gpointer name, tensor;

  g_hash_table_iter_init (&iter, tensors);
  while (g_hash_table_iter_next (&iter, &name, &tensor))
    if (g_hash_table_contains (names, name))
      {
        if (!rlx_tensor_fetch (tensor, cancellable, error))
          return NULL;
        g_hash_table_insert (picked, name, tensor);
      }
  return g_steal_pointer (&picked);
}

/* Adds names from @needed that may be known; FALSE if none are new. */
static gboolean
learn (RlxSession     *self,
       GHashTable     *known,
       GHashTable     *needed,
       RlxSessionCall *call)
{
  GHashTableIter iter;
  gpointer name;
  gboolean more = FALSE;

  g_hash_table_iter_init (&iter, needed);
  while (g_hash_table_iter_next (&iter, &name, NULL))
    {
      RlxTensor *tensor = g_hash_table_lookup (call->tensors, name);

      if (tensor != NULL && rlx_session_find_state (self, name) == NULL && rlx_tensor_get_size (tensor) <= MAX_KNOWN_BYTES)
        more = g_hash_table_add (known, g_strdup (name)) || more;
    }
  return more;
}

/* ---- making ---------------------------------------------------------------------------------------- */

/* If states turn out to grow, makes the graph for any number of rows. */
static RlxGraph *
grow_graph (RlxSession     *self,
            RlxSessionCall *call,
            RlxGraph       *graph,
            GHashTable     *known,
            GHashTable     *needed,
            GCancellable   *cancellable,
            GError        **error)
{
  g_autoptr(GHashTable) fixed = rlx_model_copy_fixed (self->model, known);
  g_autofree RlxGrowState *states = g_new0 (RlxGrowState, self->states->len + 1);
  RlxGrow grow = {
    .source = rlx_model_get_source (self->model), .types = call->types, .fixed = fixed, .states = states, .n_states = self->states->len,
    .capacity = self->max_rows, .longer = self->longer,
  };
  RlxGraph *grown;

  for (guint i = 0; i < self->states->len; i++)
    {
      const RlxSessionState *state = self->states->pdata[i];

      states[i].input = state->input;
      states[i].output = state->output;
    }
  if (self->max_rows == 0)
    return g_object_ref (graph);
  if (!rlx_grow_find (&grow, graph, error))
    return NULL;
  /* Without rows there is nothing to append to: the outputs are the first rows. */
  if (grow.n_new == 0 || grow.n_rows == 0)
    return g_object_ref (graph);
  grown = rlx_grow_build (&grow, needed, cancellable, error);
  if (grown == NULL)
    return NULL;
  call->grows = TRUE;
  call->n_rows = grow.n_rows;
  call->n_new = grow.n_new;
  for (guint i = 0; i < self->states->len; i++)
    {
      RlxSessionState *state = self->states->pdata[i];

      state->grows = states[i].grows;
      state->axis = states[i].axis;
    }
  return grown;
}

/* Retries with more and more known inputs, which are added to @known. */
static gboolean
make_executable (RlxSession     *self,
                 RlxSessionCall *call,
                 GHashTable     *known,
                 GCancellable   *cancellable,
                 GError        **error)
{
  for (;;)
    {
      g_autoptr(GHashTable) fixed = pick (call->tensors, known, cancellable, error);
      g_autoptr(GHashTable) needed = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
      g_autoptr(GError) local = NULL;
      g_autoptr(RlxGraph) graph = NULL;
      g_autoptr(RlxGraph) grown = NULL;

      if (fixed == NULL)
        return FALSE;
      graph = rlx_model_specialise (self->model, call->types, fixed, needed, cancellable, &local);
      if (graph != NULL && self->states->len > 0)
        grown = grow_graph (self, call, graph, fixed, needed, cancellable, &local);
      else if (graph != NULL)
        grown = g_object_ref (graph);
      if (grown != NULL)
        {
          call->executable = rlx_device_compile (self->device, grown, self->options, cancellable, error);
          return call->executable != NULL;
        }
      if (!learn (self, known, needed, call))
        {
          g_propagate_error (error, g_steal_pointer (&local));
          return FALSE;
        }
    }
}

static gboolean
find_made (RlxSession     *self,
           GBytes         *key,
           RlxSessionCall *call)
{
  for (GList *l = self->made.head; l != NULL; l = l->next)
    {
      RlxSessionMade *made = l->data;

      if (!g_bytes_equal (made->key, key))
        continue;
      g_queue_unlink (&self->made, l);
      g_queue_push_head_link (&self->made, l);
      call->executable = g_object_ref (made->executable);
      call->grows = made->grows;
      call->n_new = made->n_new;
      return TRUE;
    }
  return FALSE;
}

static void
copy_names (GHashTable *from,
            GHashTable *to)
{
  GHashTableIter iter;
  gpointer name;

  g_hash_table_iter_init (&iter, from);
  while (g_hash_table_iter_next (&iter, &name, NULL))
    g_hash_table_add (to, g_strdup (name));
}

gboolean
rlx_session_find (RlxSession        *self,
                  const char *const *names,
                  RlxTensor        **inputs,
                  gsize              n_inputs,
                  RlxSessionCall    *call,
                  GCancellable      *cancellable,
                  GError           **error)
{
  g_autoptr(GHashTable) known = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr(GBytes) key = NULL;
  gboolean found;

  if (!collect (self, names, inputs, n_inputs, call, error))
    return FALSE;
  g_mutex_lock (&self->mutex);
  copy_names (self->known, known);
  key = make_key (self, call, known);
  for (;;)
    {
      found = find_made (self, key, call);
      if (found || !g_hash_table_contains (self->making, key))
        break;
      /* Another thread is making it. */
      g_cond_wait_until (&self->ready, &self->mutex, g_get_monotonic_time () + G_TIME_SPAN_SECOND / 10);
      if (g_cancellable_set_error_if_cancelled (cancellable, error))
        {
          g_mutex_unlock (&self->mutex);
          return FALSE;
        }
    }
  if (found)
    {
      g_mutex_unlock (&self->mutex);
      return TRUE;
    }
  g_hash_table_add (self->making, g_bytes_ref (key));
  g_mutex_unlock (&self->mutex);

  found = make_executable (self, call, known, cancellable, error);

  g_mutex_lock (&self->mutex);
  g_hash_table_remove (self->making, key);
  if (found)
    {
      RlxSessionMade *made = g_new0 (RlxSessionMade, 1);

      copy_names (known, self->known);
      made->key = make_key (self, call, self->known);
      made->executable = g_object_ref (call->executable);
      made->grows = call->grows;
      made->n_new = call->n_new;
      g_queue_push_head (&self->made, made);
      rlx_session_trim (self);
    }
  g_cond_broadcast (&self->ready);
  g_mutex_unlock (&self->mutex);
  return found;
}
