/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-session.h"

#include <string.h>

#include "import/rlx-model-private.h"
#include "rlx-executable.h"
#include "rlx-job-private.h"
#include "rlx-tensor-private.h"

#define DEFAULT_CAPACITY 8

/* Inputs with more bytes are never part of what an executable is made for. */
#define MAX_KNOWN_BYTES (1 << 20)

/**
 * RlxSession:
 *
 * A model on a device, which runs inputs of any size.
 *
 * The first run with inputs of given sizes builds the graph and compiles it; later ones
 * find the executable. The last [property@Rlx.Session:capacity] of them are kept.
 *
 * Where a model computes shapes or numbers of steps from the elements of an input, those
 * elements are part of what an executable is made for, like sizes.
 *
 * A session can be used from any thread; runs of one size queue up, as those of an
 * [class@Rlx.Executable] do.
 *
 * Since: 1.0
 */
struct _RlxSession
{
  GObject parent_instance;

  RlxModel *model;
  RlxDevice *device;
  RlxCompileOptions *options;
  char **output_names;

  GMutex mutex;
  GCond ready;             /* an executable was made, or was not */
  GQueue made;             /* Made, the last used first */
  GHashTable *making;      /* keys that a thread is at */
  GHashTable *known;       /* names of inputs whose elements are part of the key */
  guint capacity;
};

/* An executable, and what it is for. */
typedef struct
{
  GBytes *key;
  RlxExecutable *executable;
} Made;

enum
{
  PROP_0,
  PROP_MODEL,
  PROP_DEVICE,
  PROP_CAPACITY,
  N_PROPS,
};

static GParamSpec *properties[N_PROPS];

G_DEFINE_FINAL_TYPE (RlxSession, rlx_session, G_TYPE_OBJECT)

static void
made_free (Made *made)
{
  g_bytes_unref (made->key);
  g_object_unref (made->executable);
  g_free (made);
}

static void
rlx_session_finalize (GObject *object)
{
  RlxSession *self = RLX_SESSION (object);

  g_queue_clear_full (&self->made, (GDestroyNotify) made_free);
  g_clear_object (&self->model);
  g_clear_object (&self->device);
  g_clear_object (&self->options);
  g_strfreev (self->output_names);
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
   * How many executables are kept.
   *
   * Since: 1.0
   */
  properties[PROP_CAPACITY] = g_param_spec_uint ("capacity", NULL, NULL, 1, 1024, DEFAULT_CAPACITY, flags | G_PARAM_WRITABLE);
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
}

/**
 * rlx_session_new:
 * @model: a model
 * @device: where it runs
 * @options: (nullable): how it is compiled
 *
 * Makes a session. Nothing is compiled before the first run.
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
  GListModel *outputs;
  guint n;

  g_return_val_if_fail (RLX_IS_MODEL (model), NULL);
  g_return_val_if_fail (RLX_IS_DEVICE (device), NULL);
  g_return_val_if_fail (options == NULL || RLX_IS_COMPILE_OPTIONS (options), NULL);

  self = g_object_new (RLX_TYPE_SESSION, NULL);
  self->model = g_object_ref (model);
  self->device = g_object_ref (device);
  self->options = options != NULL ? g_object_ref (options) : NULL;
  outputs = rlx_model_get_outputs (model);
  n = g_list_model_get_n_items (outputs);
  self->output_names = g_new0 (char *, n + 1);
  for (guint i = 0; i < n; i++)
    {
      g_autoptr(RlxModelPort) port = g_list_model_get_item (outputs, i);

      self->output_names[i] = g_strdup (rlx_model_port_get_name (port));
    }
  return self;
}

/**
 * rlx_session_open:
 * @file: an ONNX file
 * @device: (nullable): where it runs; %NULL for the default device
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Opens a model and makes a session of it.
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

typedef struct
{
  GFile *file;
  RlxDevice *device;
} Opening;

static void
opening_free (gpointer data)
{
  Opening *opening = data;

  g_object_unref (opening->file);
  g_clear_object (&opening->device);
  g_free (opening);
}

static gpointer
open_in_thread (gpointer      data,
                GCancellable *cancellable,
                GError      **error)
{
  Opening *opening = data;

  return rlx_session_open (opening->file, opening->device, cancellable, error);
}

/**
 * rlx_session_open_async:
 * @file: an ONNX file
 * @device: (nullable): where it runs; %NULL for the default device
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the session is there
 * @user_data: data for @callback
 *
 * Opens a model and makes a session of it, without blocking.
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
  Opening *opening;

  g_return_if_fail (G_IS_FILE (file));
  g_return_if_fail (device == NULL || RLX_IS_DEVICE (device));
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  opening = g_new0 (Opening, 1);
  opening->file = g_object_ref (file);
  opening->device = device != NULL ? g_object_ref (device) : NULL;
  rlx_thread_start (NULL, rlx_session_open_async, open_in_thread, g_object_unref, opening, opening_free, cancellable, callback, user_data);
}

/**
 * rlx_session_open_finish:
 * @result: the result given to the callback
 * @error: return location for an error
 *
 * Ends what [func@Rlx.Session.open_async] began.
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
 * Gets the names of the outputs, in the order of what runs give.
 *
 * Returns: (array zero-terminated=1) (transfer none): the names
 *
 * Since: 1.0
 */
const char *const *
rlx_session_get_output_names (RlxSession *self)
{
  g_return_val_if_fail (RLX_IS_SESSION (self), NULL);

  return (const char *const *) self->output_names;
}

/**
 * rlx_session_get_capacity:
 * @self: a session
 *
 * Tells how many executables are kept.
 *
 * Returns: a number
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

/* What was not used for longest goes first. */
static void
trim (RlxSession *self)
{
  while (self->made.length > self->capacity)
    made_free (g_queue_pop_tail (&self->made));
}

/**
 * rlx_session_set_capacity:
 * @self: a session
 * @capacity: how many executables to keep, at least 1
 *
 * Decides how many executables are kept. Each is for inputs of some sizes; what differs
 * between them is memory for what they compute.
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
  trim (self);
  g_mutex_unlock (&self->mutex);
  if (changed)
    g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_CAPACITY]);
}

/**
 * rlx_session_get_n_executables:
 * @self: a session
 *
 * Tells how many executables there are now.
 *
 * Returns: a number
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

/* ---- executables ------------------------------------------------------------------------------ */

/* By name, borrowed. */
static GHashTable *
collect (RlxSession        *self,
         const char *const *names,
         RlxTensor        **inputs,
         gsize              n_inputs,
         GError           **error)
{
  g_autoptr(GHashTable) tensors = g_hash_table_new (g_str_hash, g_str_equal);
  GListModel *ports = rlx_model_get_inputs (self->model);
  guint n_ports = g_list_model_get_n_items (ports);

  for (gsize i = 0; i < n_inputs; i++)
    {
      if (names[i] == NULL)
        {
          g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_INVALID, "%" G_GSIZE_FORMAT " inputs were given, but only %" G_GSIZE_FORMAT " names",
                       n_inputs, i);
          return NULL;
        }
      if (rlx_model_find_input (self->model, names[i]) == NULL)
        {
          g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_NOT_FOUND, "The model has no input “%s”, or it is fixed", names[i]);
          return NULL;
        }
      if (!g_hash_table_insert (tensors, (gpointer) names[i], inputs[i]))
        {
          g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_INVALID, "Input “%s” was given twice", names[i]);
          return NULL;
        }
    }
  for (guint i = 0; i < n_ports; i++)
    {
      g_autoptr(RlxModelPort) port = g_list_model_get_item (ports, i);
      const char *name = rlx_model_port_get_name (port);

      if (!g_hash_table_contains (tensors, name) && rlx_model_find_input (self->model, name) != NULL)
        {
          g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_NOT_FOUND, "Input “%s” was not given", name);
          return NULL;
        }
    }
  return g_steal_pointer (&tensors);
}

/* What an executable is for: sizes, and elements of inputs that decide about more. */
static GBytes *
make_key (RlxSession *self,
          GHashTable *tensors,
          GHashTable *known)
{
  GByteArray *key = g_byte_array_new ();
  GListModel *ports = rlx_model_get_inputs (self->model);
  guint n_ports = g_list_model_get_n_items (ports), serial = rlx_model_get_serial (self->model);

  g_byte_array_append (key, (const guint8 *) &serial, sizeof serial);
  for (guint i = 0; i < n_ports; i++)
    {
      g_autoptr(RlxModelPort) port = g_list_model_get_item (ports, i);
      RlxTensor *tensor = g_hash_table_lookup (tensors, rlx_model_port_get_name (port));
      gint64 head[2] = { -1, 0 };
      const gint64 *shape = NULL;
      gsize n_dims = 0;

      if (tensor != NULL)
        {
          shape = rlx_tensor_get_shape (tensor, &n_dims);
          head[0] = (gint64) n_dims;
          head[1] = rlx_tensor_get_data_type (tensor);
        }
      g_byte_array_append (key, (const guint8 *) head, sizeof head);
      if (n_dims > 0)
        g_byte_array_append (key, (const guint8 *) shape, (guint) (n_dims * sizeof *shape));
      /* One that cannot be fetched is told of when the graph is built. */
      if (tensor != NULL && g_hash_table_contains (known, rlx_model_port_get_name (port)) && rlx_tensor_fetch (tensor, NULL, NULL))
        g_byte_array_append (key, rlx_tensor_peek_data (tensor), (guint) rlx_tensor_get_size (tensor));
    }
  return g_byte_array_free_to_bytes (key);
}

/* Those tensors whose names are in @names and whose elements may be known. */
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

/* Adds what is needed and may be known; FALSE when there is nothing new. */
static gboolean
learn (GHashTable *known,
       GHashTable *needed,
       GHashTable *tensors)
{
  GHashTableIter iter;
  gpointer name;
  gboolean more = FALSE;

  g_hash_table_iter_init (&iter, needed);
  while (g_hash_table_iter_next (&iter, &name, NULL))
    {
      RlxTensor *tensor = g_hash_table_lookup (tensors, name);

      if (tensor != NULL && rlx_tensor_get_size (tensor) <= MAX_KNOWN_BYTES)
        more = g_hash_table_add (known, g_strdup (name)) || more;
    }
  return more;
}

/* Tries with more and more inputs known. Those are left in @known. */
static RlxExecutable *
make_executable (RlxSession   *self,
                 GHashTable   *tensors,
                 GHashTable   *known,
                 GCancellable *cancellable,
                 GError      **error)
{
  for (;;)
    {
      g_autoptr(GHashTable) fixed = pick (tensors, known, cancellable, error);
      g_autoptr(GHashTable) needed = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
      g_autoptr(GError) local = NULL;
      g_autoptr(RlxGraph) graph = NULL;

      if (fixed == NULL)
        return NULL;
      graph = rlx_model_specialise (self->model, tensors, fixed, needed, cancellable, &local);
      if (graph != NULL)
        return rlx_device_compile (self->device, graph, self->options, cancellable, error);
      if (!learn (known, needed, tensors))
        {
          g_propagate_error (error, g_steal_pointer (&local));
          return NULL;
        }
    }
}

static RlxExecutable *
find_made (RlxSession *self,
           GBytes     *key)
{
  for (GList *l = self->made.head; l != NULL; l = l->next)
    {
      Made *made = l->data;

      if (!g_bytes_equal (made->key, key))
        continue;
      g_queue_unlink (&self->made, l);
      g_queue_push_head_link (&self->made, l);
      return g_object_ref (made->executable);
    }
  return NULL;
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

static RlxExecutable *
get_executable (RlxSession   *self,
                GHashTable   *tensors,
                GCancellable *cancellable,
                GError      **error)
{
  g_autoptr(GHashTable) known = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr(GBytes) key = NULL;
  g_autoptr(GBytes) final = NULL;
  RlxExecutable *executable;
  Made *made;

  g_mutex_lock (&self->mutex);
  copy_names (self->known, known);
  key = make_key (self, tensors, known);
  for (;;)
    {
      executable = find_made (self, key);
      if (executable != NULL || !g_hash_table_contains (self->making, key))
        break;
      /* Another thread is at it. */
      g_cond_wait_until (&self->ready, &self->mutex, g_get_monotonic_time () + G_TIME_SPAN_SECOND / 10);
      if (g_cancellable_set_error_if_cancelled (cancellable, error))
        {
          g_mutex_unlock (&self->mutex);
          return NULL;
        }
    }
  if (executable != NULL)
    {
      g_mutex_unlock (&self->mutex);
      return executable;
    }
  g_hash_table_add (self->making, g_bytes_ref (key));
  g_mutex_unlock (&self->mutex);

  executable = make_executable (self, tensors, known, cancellable, error);

  g_mutex_lock (&self->mutex);
  g_hash_table_remove (self->making, key);
  if (executable != NULL)
    {
      copy_names (known, self->known);
      final = make_key (self, tensors, self->known);
      made = g_new0 (Made, 1);
      made->key = g_bytes_ref (final);
      made->executable = g_object_ref (executable);
      g_queue_push_head (&self->made, made);
      trim (self);
    }
  g_cond_broadcast (&self->ready);
  g_mutex_unlock (&self->mutex);
  return executable;
}

/**
 * rlx_session_prepare:
 * @self: a session
 * @names: (array zero-terminated=1): the names of the inputs, in any order
 * @inputs: (array length=n_inputs): a tensor for each name
 * @n_inputs: the number of @inputs
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Gets the executable for inputs of the sizes these have, which is compiled if need be.
 *
 * It is there to be looked at, and to have the first run over with. Its inputs are those
 * of the model, but for fixed ones and those whose elements it was made for.
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
  g_autoptr(GHashTable) tensors = NULL;

  g_return_val_if_fail (RLX_IS_SESSION (self) && self->model != NULL, NULL);
  g_return_val_if_fail (names != NULL && (inputs != NULL || n_inputs == 0), NULL);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  tensors = collect (self, names, inputs, n_inputs, error);
  return tensors != NULL ? get_executable (self, tensors, cancellable, error) : NULL;
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
 * Runs the model, and waits for the result.
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
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(GPtrArray) used_names = g_ptr_array_new ();
  g_autoptr(GPtrArray) used = g_ptr_array_new ();
  const char *const *wanted;

  if (n_outputs != NULL)
    *n_outputs = 0;
  executable = rlx_session_prepare (self, names, inputs, n_inputs, cancellable, error);
  if (executable == NULL)
    return NULL;
  wanted = rlx_executable_get_input_names (executable);
  for (gsize i = 0; i < n_inputs; i++)
    if (g_strv_contains (wanted, names[i]))
      {
        g_ptr_array_add (used_names, (gpointer) names[i]);
        g_ptr_array_add (used, inputs[i]);
      }
  g_ptr_array_add (used_names, NULL);
  return rlx_executable_run_named (executable, (const char *const *) used_names->pdata, (RlxTensor **) used->pdata, used->len, n_outputs,
                                   cancellable, error);
}

/* What another thread does for inputs that it holds on to. */
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
 * @callback: (scope async) (nullable): called when the executable is there
 * @user_data: data for @callback
 *
 * Gets the executable for inputs of the sizes these have, without blocking.
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
 * Ends what [method@Rlx.Session.prepare_async] began.
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
 * @callback: (scope async) (nullable): called when the outputs are there
 * @user_data: data for @callback
 *
 * Runs the model without blocking, also where it has to be compiled first.
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
 * Ends what [method@Rlx.Session.run_async] began.
 *
 * Returns: (array length=n_outputs) (transfer full): the outputs, as
 *   [method@Rlx.Session.run] gives them
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
    *n_outputs = outputs != NULL ? g_strv_length (self->output_names) : 0;
  return outputs;
}
