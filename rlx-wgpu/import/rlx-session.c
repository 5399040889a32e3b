/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-session.h"

#include <string.h>

#include "import/rlx-session-private.h"
#include "rlx-job-private.h"

#define DEFAULT_CAPACITY 8
#define DEFAULT_MAX_ROWS 1024

/**
 * RlxSession:
 *
 * Runs a model on a device, with inputs of any size.
 *
 * The first run with inputs of certain sizes builds the graph and compiles it; later
 * ones reuse the executable. The [property@Rlx.Session:capacity] executables used last
 * are kept.
 *
 * If a model computes shapes or loop counts from the elements of an input, an executable
 * is specific to those elements, as it is to sizes.
 *
 * Outputs of a run can be kept on the device for the next one. [method@Rlx.Session.add_states]
 * does so for the past of a decoder, which is then compiled once for any length.
 *
 * A session can be used from any thread. Runs with inputs of the same sizes are queued,
 * like those of an [class@Rlx.Executable], and so are all runs of a session with
 * states.
 *
 * Since: 1.0
 */
enum
{
  PROP_0,
  PROP_MODEL,
  PROP_DEVICE,
  PROP_CAPACITY,
  PROP_MAX_ROWS,
  N_PROPS,
};

static GParamSpec *properties[N_PROPS];

G_DEFINE_FINAL_TYPE (RlxSession, rlx_session, G_TYPE_OBJECT)

static void
rlx_session_finalize (GObject *object)
{
  RlxSession *self = RLX_SESSION (object);

  g_queue_clear_full (&self->made, (GDestroyNotify) rlx_session_made_free);
  g_clear_object (&self->model);
  g_clear_object (&self->device);
  g_clear_object (&self->options);
  g_strfreev (self->output_names);
  g_ptr_array_unref (self->old_names);
  g_ptr_array_unref (self->states);
  g_hash_table_unref (self->longer);
  g_hash_table_unref (self->making);
  g_hash_table_unref (self->known);
  g_cond_clear (&self->ready);
  g_mutex_clear (&self->mutex);
  G_OBJECT_CLASS (rlx_session_parent_class)->finalize (object);
}

static void
rlx_session_get_property (GObject    *object,
                          guint       id,
                          GValue     *value,
                          GParamSpec *pspec)
{
  RlxSession *self = RLX_SESSION (object);

  switch (id)
    {
    case PROP_MODEL:
      g_value_set_object (value, self->model);
      break;
    case PROP_DEVICE:
      g_value_set_object (value, self->device);
      break;
    case PROP_CAPACITY:
      g_value_set_uint (value, rlx_session_get_capacity (self));
      break;
    case PROP_MAX_ROWS:
      g_value_set_uint (value, rlx_session_get_max_rows (self));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
rlx_session_set_property (GObject      *object,
                          guint         id,
                          const GValue *value,
                          GParamSpec   *pspec)
{
  if (id == PROP_CAPACITY)
    rlx_session_set_capacity (RLX_SESSION (object), g_value_get_uint (value));
  else if (id == PROP_MAX_ROWS)
    rlx_session_set_max_rows (RLX_SESSION (object), g_value_get_uint (value));
  else
    G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
}

static void
rlx_session_class_init (RlxSessionClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->finalize = rlx_session_finalize;
  object_class->get_property = rlx_session_get_property;
  object_class->set_property = rlx_session_set_property;

  /**
   * RlxSession:model: (getter get_model)
   *
   * The model.
   *
   * Since: 1.0
   */
  properties[PROP_MODEL] = g_param_spec_object ("model", NULL, NULL, RLX_TYPE_MODEL, flags);
  /**
   * RlxSession:device: (getter get_device)
   *
   * The device it runs on.
   *
   * Since: 1.0
   */
  properties[PROP_DEVICE] = g_param_spec_object ("device", NULL, NULL, RLX_TYPE_DEVICE, flags);
  /**
   * RlxSession:capacity: (getter get_capacity) (setter set_capacity)
   *
   * How many executables to keep.
   *
   * Since: 1.0
   */
  properties[PROP_CAPACITY] = g_param_spec_uint ("capacity", NULL, NULL, 1, 1024, DEFAULT_CAPACITY, flags | G_PARAM_WRITABLE);
  /**
   * RlxSession:max-rows: (getter get_max_rows) (setter set_max_rows)
   *
   * How many rows states that grow have room for; 0 to compile the model for each
   * length.
   *
   * Since: 1.0
   */
  properties[PROP_MAX_ROWS] = g_param_spec_uint ("max-rows", NULL, NULL, 0, RLX_SESSION_LIMIT_ROWS, DEFAULT_MAX_ROWS, flags | G_PARAM_WRITABLE);
  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
rlx_session_init (RlxSession *self)
{
  g_mutex_init (&self->mutex);
  g_cond_init (&self->ready);
  g_queue_init (&self->made);
  self->making = g_hash_table_new_full (g_bytes_hash, g_bytes_equal, (GDestroyNotify) g_bytes_unref, NULL);
  self->known = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->capacity = DEFAULT_CAPACITY;
  self->max_rows = self->wanted_rows = DEFAULT_MAX_ROWS;
  self->states = g_ptr_array_new_with_free_func (rlx_session_state_free);
  self->old_names = g_ptr_array_new_with_free_func ((GDestroyNotify) g_strfreev);
  self->longer = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
}

/**
 * rlx_session_new:
 * @model: a model
 * @device: the device
 * @options: (nullable): compile options, or %NULL for the defaults
 *
 * Creates a session. Nothing is compiled before the first run.
 *
 * Returns: (transfer full): a session
 *
 * Since: 1.0
 */
RlxSession *
rlx_session_new (RlxModel          *model,
                 RlxDevice         *device,
                 RlxCompileOptions *options)
{
  RlxSession *self;

  g_return_val_if_fail (RLX_IS_MODEL (model), NULL);
  g_return_val_if_fail (RLX_IS_DEVICE (device), NULL);
  g_return_val_if_fail (options == NULL || RLX_IS_COMPILE_OPTIONS (options), NULL);

  self = g_object_new (RLX_TYPE_SESSION, NULL);
  self->model = g_object_ref (model);
  self->device = g_object_ref (device);
  self->options = options != NULL ? g_object_ref (options) : NULL;
  rlx_session_name_outputs (self);
  return self;
}

/**
 * rlx_session_open:
 * @file: an ONNX file
 * @device: (nullable): the device, or %NULL for the default one
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Opens a model and creates a session for it.
 *
 * Returns: (transfer full): a session
 *
 * Since: 1.0
 */
RlxSession *
rlx_session_open (GFile        *file,
                  RlxDevice    *device,
                  GCancellable *cancellable,
                  GError      **error)
{
  g_autoptr(RlxModel) model = NULL;

  g_return_val_if_fail (G_IS_FILE (file), NULL);
  g_return_val_if_fail (device == NULL || RLX_IS_DEVICE (device), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  model = rlx_model_open (file, cancellable, error);
  if (model != NULL && device == NULL)
    device = rlx_device_get_default (error);
  return model != NULL && device != NULL ? rlx_session_new (model, device, NULL) : NULL;
}

static gpointer
open_in_thread (GFile        *file,
                RlxDevice    *device,
                GCancellable *cancellable,
                GError      **error)
{
  return rlx_session_open (file, device, cancellable, error);
}

/**
 * rlx_session_open_async:
 * @file: an ONNX file
 * @device: (nullable): the device, or %NULL for the default one
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the session has been created
 * @user_data: data for @callback
 *
 * Opens a model and creates a session for it, without blocking.
 *
 * Since: 1.0
 */
void
rlx_session_open_async (GFile              *file,
                        RlxDevice          *device,
                        GCancellable       *cancellable,
                        GAsyncReadyCallback callback,
                        gpointer            user_data)
{
  g_return_if_fail (G_IS_FILE (file));
  g_return_if_fail (device == NULL || RLX_IS_DEVICE (device));
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  rlx_thread_open (rlx_session_open_async, open_in_thread, file, device, cancellable, callback, user_data);
}

/**
 * rlx_session_open_finish:
 * @result: the result given to the callback
 * @error: return location for an error
 *
 * Finishes an operation started with [func@Rlx.Session.open_async].
 *
 * Returns: (transfer full): a session
 *
 * Since: 1.0
 */
RlxSession *
rlx_session_open_finish (GAsyncResult *result,
                         GError      **error)
{
  g_return_val_if_fail (g_task_is_valid (result, NULL), NULL);

  return g_task_propagate_pointer (G_TASK (result), error);
}

/**
 * rlx_session_get_model:
 * @self: a session
 *
 * Gets the model.
 *
 * Returns: (transfer none): the model
 *
 * Since: 1.0
 */
RlxModel *
rlx_session_get_model (RlxSession *self)
{
  g_return_val_if_fail (RLX_IS_SESSION (self), NULL);

  return self->model;
}

/**
 * rlx_session_get_device:
 * @self: a session
 *
 * Gets the device it runs on.
 *
 * Returns: (transfer none): the device
 *
 * Since: 1.0
 */
RlxDevice *
rlx_session_get_device (RlxSession *self)
{
  g_return_val_if_fail (RLX_IS_SESSION (self), NULL);

  return self->device;
}

/**
 * rlx_session_get_output_names:
 * @self: a session
 *
 * Gets the names of the outputs, in the order in which runs return them. Outputs that
 * are kept for the next run are not included.
 *
 * Returns: (array zero-terminated=1) (transfer none): the names
 *
 * Since: 1.0
 */
const char *const *
rlx_session_get_output_names (RlxSession *self)
{
  g_autoptr(GMutexLocker) locker = NULL;

  g_return_val_if_fail (RLX_IS_SESSION (self), NULL);

  locker = g_mutex_locker_new (&self->mutex);
  return (const char *const *) self->output_names;
}

/**
 * rlx_session_get_capacity:
 * @self: a session
 *
 * Gets how many executables to keep.
 *
 * Returns: the number
 *
 * Since: 1.0
 */
guint
rlx_session_get_capacity (RlxSession *self)
{
  g_autoptr(GMutexLocker) locker = NULL;

  g_return_val_if_fail (RLX_IS_SESSION (self), 0);

  locker = g_mutex_locker_new (&self->mutex);
  return self->capacity;
}

/**
 * rlx_session_set_capacity:
 * @self: a session
 * @capacity: how many executables to keep, at least 1
 *
 * Sets how many executables to keep. Each is compiled for inputs of certain sizes, and
 * has its own activation memory.
 *
 * Since: 1.0
 */
void
rlx_session_set_capacity (RlxSession *self,
                          guint       capacity)
{
  gboolean changed;

  g_return_if_fail (RLX_IS_SESSION (self));

  g_mutex_lock (&self->mutex);
  capacity = CLAMP (capacity, 1, 1024);
  changed = self->capacity != capacity;
  self->capacity = capacity;
  rlx_session_trim (self);
  g_mutex_unlock (&self->mutex);
  if (changed)
    g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_CAPACITY]);
}

/**
 * rlx_session_get_n_executables:
 * @self: a session
 *
 * Gets how many executables there are at present.
 *
 * Returns: the number
 *
 * Since: 1.0
 */
guint
rlx_session_get_n_executables (RlxSession *self)
{
  g_autoptr(GMutexLocker) locker = NULL;

  g_return_val_if_fail (RLX_IS_SESSION (self), 0);

  locker = g_mutex_locker_new (&self->mutex);
  return self->made.length;
}

/* ---- runs -------------------------------------------------------------------------------------- */

/**
 * rlx_session_prepare:
 * @self: a session
 * @names: (array zero-terminated=1): the names of the inputs, in any order
 * @inputs: (array length=n_inputs): a tensor for each name
 * @n_inputs: the number of @inputs
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Gets the executable for inputs of these sizes, and compiles it if necessary.
 *
 * This is useful to inspect the executable, and to compile ahead of the first run. Its
 * inputs are those of the model, except fixed ones and those whose elements it is
 * specific to.
 *
 * Returns: (transfer full): the executable
 *
 * Since: 1.0
 */
RlxExecutable *
rlx_session_prepare (RlxSession        *self,
                     const char *const *names,
                     RlxTensor        **inputs,
                     gsize              n_inputs,
                     GCancellable      *cancellable,
                     GError           **error)
{
  g_auto(RlxSessionCall) call = { 0, };
  gboolean has_states, ok;

  g_return_val_if_fail (RLX_IS_SESSION (self) && self->model != NULL, NULL);
  g_return_val_if_fail (names != NULL && (inputs != NULL || n_inputs == 0), NULL);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  has_states = rlx_session_has_states (self);
  if (has_states && !rlx_session_begin_run (self, cancellable, error))
    return NULL;
  ok = rlx_session_find (self, names, inputs, n_inputs, &call, cancellable, error);
  if (has_states)
    rlx_session_end_run (self);
  return ok ? g_steal_pointer (&call.executable) : NULL;
}

/**
 * rlx_session_run:
 * @self: a session
 * @names: (array zero-terminated=1): the names of the inputs, in any order
 * @inputs: (array length=n_inputs): a tensor for each name
 * @n_inputs: the number of @inputs
 * @n_outputs: (out) (optional): the number of tensors returned
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Runs the model, and waits for the outputs.
 *
 * Returns: (array length=n_outputs) (transfer full): the outputs, in the order of
 *   [method@Rlx.Session.get_output_names]; in C %NULL follows, so that
 *   `g_auto(RlxTensors)` can free them
 *
 * Since: 1.0
 */
RlxTensor **
rlx_session_run (RlxSession        *self,
                 const char *const *names,
                 RlxTensor        **inputs,
                 gsize              n_inputs,
                 gsize             *n_outputs,
                 GCancellable      *cancellable,
                 GError           **error)
{
  g_auto(RlxSessionCall) call = { 0, };
  g_autoptr(GPtrArray) used_names = g_ptr_array_new ();
  g_autoptr(GPtrArray) used = g_ptr_array_new ();
  g_auto(RlxTensors) outputs = NULL;
  const char *const *wanted;

  if (n_outputs != NULL)
    *n_outputs = 0;
  g_return_val_if_fail (RLX_IS_SESSION (self) && self->model != NULL, NULL);
  g_return_val_if_fail (names != NULL && (inputs != NULL || n_inputs == 0), NULL);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (rlx_session_has_states (self))
    return rlx_session_run_states (self, names, inputs, n_inputs, n_outputs, cancellable, error);
  if (!rlx_session_find (self, names, inputs, n_inputs, &call, cancellable, error))
    return NULL;
  wanted = rlx_executable_get_input_names (call.executable);
  for (gsize i = 0; i < n_inputs; i++)
    if (g_strv_contains (wanted, names[i]))
      {
        g_ptr_array_add (used_names, (gpointer) names[i]);
        g_ptr_array_add (used, inputs[i]);
      }
  g_ptr_array_add (used_names, NULL);
  outputs = rlx_executable_run_named (call.executable, (const char *const *) used_names->pdata, (RlxTensor **) used->pdata, used->len, NULL,
                                      cancellable, error);
  return outputs != NULL ? rlx_session_take_outputs (self, call.executable, outputs, n_outputs, cancellable, error) : NULL;
}

/* A call of another thread, with references to its inputs. */
typedef struct
{
  RlxSession *session;
  char **names;
  RlxTensor **inputs;
  gsize n_inputs;
} Call;

static Call *
call_new (RlxSession        *session,
          const char *const *names,
          RlxTensor        **inputs,
          gsize              n_inputs)
{
  Call *call = g_new0 (Call, 1);

  call->session = g_object_ref (session);
  call->names = g_strdupv ((char **) names);
  call->n_inputs = n_inputs;
  call->inputs = g_new0 (RlxTensor *, n_inputs + 1);
  for (gsize i = 0; i < n_inputs; i++)
    call->inputs[i] = g_object_ref (inputs[i]);
  return call;
}

static void
call_free (gpointer data)
{
  Call *call = data;

  g_object_unref (call->session);
  g_strfreev (call->names);
  rlx_tensors_free (call->inputs);
  g_free (call);
}

static gpointer
prepare_in_thread (gpointer      data,
                   GCancellable *cancellable,
                   GError      **error)
{
  Call *call = data;

  return rlx_session_prepare (call->session, (const char *const *) call->names, call->inputs, call->n_inputs, cancellable, error);
}

static gpointer
run_in_thread (gpointer      data,
               GCancellable *cancellable,
               GError      **error)
{
  Call *call = data;

  return rlx_session_run (call->session, (const char *const *) call->names, call->inputs, call->n_inputs, NULL, cancellable, error);
}

/**
 * rlx_session_prepare_async:
 * @self: a session
 * @names: (array zero-terminated=1): the names of the inputs, in any order
 * @inputs: (array length=n_inputs): a tensor for each name
 * @n_inputs: the number of @inputs
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the executable is available
 * @user_data: data for @callback
 *
 * Gets the executable for inputs of these sizes, without blocking.
 *
 * Since: 1.0
 */
void
rlx_session_prepare_async (RlxSession         *self,
                           const char *const  *names,
                           RlxTensor         **inputs,
                           gsize               n_inputs,
                           GCancellable       *cancellable,
                           GAsyncReadyCallback callback,
                           gpointer            user_data)
{
  g_return_if_fail (RLX_IS_SESSION (self) && self->model != NULL);
  g_return_if_fail (names != NULL && (inputs != NULL || n_inputs == 0));
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  rlx_thread_start (self, rlx_session_prepare_async, prepare_in_thread, g_object_unref,
                    call_new (self, names, inputs, n_inputs), call_free, cancellable, callback, user_data);
}

/**
 * rlx_session_prepare_finish:
 * @self: a session
 * @result: the result given to the callback
 * @error: return location for an error
 *
 * Finishes an operation started with [method@Rlx.Session.prepare_async].
 *
 * Returns: (transfer full): the executable
 *
 * Since: 1.0
 */
RlxExecutable *
rlx_session_prepare_finish (RlxSession   *self,
                            GAsyncResult *result,
                            GError      **error)
{
  g_return_val_if_fail (RLX_IS_SESSION (self), NULL);
  g_return_val_if_fail (g_task_is_valid (result, self), NULL);

  return g_task_propagate_pointer (G_TASK (result), error);
}

/**
 * rlx_session_run_async:
 * @self: a session
 * @names: (array zero-terminated=1): the names of the inputs, in any order
 * @inputs: (array length=n_inputs): a tensor for each name
 * @n_inputs: the number of @inputs
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the outputs are available
 * @user_data: data for @callback
 *
 * Runs the model without blocking, even if it has to be compiled first.
 *
 * Since: 1.0
 */
void
rlx_session_run_async (RlxSession         *self,
                       const char *const  *names,
                       RlxTensor         **inputs,
                       gsize               n_inputs,
                       GCancellable       *cancellable,
                       GAsyncReadyCallback callback,
                       gpointer            user_data)
{
  g_return_if_fail (RLX_IS_SESSION (self) && self->model != NULL);
  g_return_if_fail (names != NULL && (inputs != NULL || n_inputs == 0));
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  rlx_thread_start (self, rlx_session_run_async, run_in_thread, (GDestroyNotify) rlx_tensors_free,
                    call_new (self, names, inputs, n_inputs), call_free, cancellable, callback, user_data);
}

/**
 * rlx_session_run_finish:
 * @self: a session
 * @result: the result given to the callback
 * @n_outputs: (out) (optional): the number of tensors returned
 * @error: return location for an error
 *
 * Finishes an operation started with [method@Rlx.Session.run_async].
 *
 * Returns: (array length=n_outputs) (transfer full): the outputs, as
 *   [method@Rlx.Session.run] returns them
 *
 * Since: 1.0
 */
RlxTensor **
rlx_session_run_finish (RlxSession   *self,
                        GAsyncResult *result,
                        gsize        *n_outputs,
                        GError      **error)
{
  RlxTensor **outputs;

  g_return_val_if_fail (RLX_IS_SESSION (self), NULL);
  g_return_val_if_fail (g_task_is_valid (result, self), NULL);

  outputs = g_task_propagate_pointer (G_TASK (result), error);
  if (n_outputs != NULL)
    for (*n_outputs = 0; outputs != NULL && outputs[*n_outputs] != NULL;)
      ++*n_outputs;
  return outputs;
}
