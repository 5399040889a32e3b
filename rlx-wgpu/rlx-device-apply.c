/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * One operator without a graph. What is compiled for it is kept for the next call of
 * the same kind.
 */
#include "config.h"

#include "rlx-apply-private.h"

#include "ir/rlx-op-private.h"
#include "rlx-executable-private.h"
#include "rlx-graph.h"
#include "rlx-job-private.h"
#include "rlx-node.h"
#include "rlx-tensor.h"

/* Beyond either limit, those that were not used for longest are dropped. */
#define KEPT_MAX 128
#define KEPT_BYTES (G_GUINT64_CONSTANT (256) << 20)

typedef struct
{
  GList link;
  char *key;
  RlxExecutable *executable;
  guint64 size;
} Kept;

struct _RlxApplyCache
{
  GMutex mutex;
  GHashTable *by_key;      /* Kept, not owned */
  GQueue kept;             /* Kept, most recently used first */
  guint64 size;
};

RlxApplyCache *
rlx_apply_cache_new (void)
{
  RlxApplyCache *self = g_new0 (RlxApplyCache, 1);

  g_mutex_init (&self->mutex);
  self->by_key = g_hash_table_new (g_str_hash, g_str_equal);
  return self;
}

/* Under the mutex. The executable is the caller's. */
static RlxExecutable *
drop_last (RlxApplyCache *self)
{
  Kept *kept = g_queue_peek_tail (&self->kept);
  RlxExecutable *executable = kept->executable;

  g_queue_unlink (&self->kept, &kept->link);
  g_hash_table_remove (self->by_key, kept->key);
  self->size -= kept->size;
  g_free (kept->key);
  g_free (kept);
  return executable;
}

void
rlx_apply_cache_free (RlxApplyCache *self)
{
  while (!g_queue_is_empty (&self->kept))
    g_object_unref (drop_last (self));
  g_hash_table_unref (self->by_key);
  g_mutex_clear (&self->mutex);
  g_free (self);
}

static RlxExecutable *
find (RlxApplyCache *self,
      const char    *key)
{
  RlxExecutable *executable = NULL;
  Kept *kept;

  g_mutex_lock (&self->mutex);
  kept = g_hash_table_lookup (self->by_key, key);
  if (kept != NULL)
    {
      g_queue_unlink (&self->kept, &kept->link);
      g_queue_push_head_link (&self->kept, &kept->link);
      executable = g_object_ref (kept->executable);
    }
  g_mutex_unlock (&self->mutex);
  return executable;
}

static void
keep (RlxApplyCache *self,
      const char    *key,
      RlxExecutable *executable)
{
  g_autoptr(GPtrArray) dropped = g_ptr_array_new_with_free_func (g_object_unref);
  Kept *kept;

  g_mutex_lock (&self->mutex);
  /* Another thread may have been faster. */
  if (g_hash_table_lookup (self->by_key, key) == NULL)
    {
      kept = g_new0 (Kept, 1);
      kept->link.data = kept;
      kept->key = g_strdup (key);
      kept->executable = g_object_ref (executable);
      kept->size = rlx_executable_get_arena_size (executable) + rlx_executable_get_weights_size (executable);
      g_hash_table_insert (self->by_key, kept->key, kept);
      g_queue_push_head_link (&self->kept, &kept->link);
      self->size += kept->size;
    }
  while (self->kept.length > 1 && (self->kept.length > KEPT_MAX || self->size > KEPT_BYTES))
    g_ptr_array_add (dropped, drop_last (self));
  g_mutex_unlock (&self->mutex);
}

guint
rlx_apply_cache_get_length (RlxApplyCache *self)
{
  guint length;

  g_mutex_lock (&self->mutex);
  length = self->kept.length;
  g_mutex_unlock (&self->mutex);
  return length;
}

/* ---- calls -------------------------------------------------------------------------------- */

typedef struct
{
  RlxDevice *device;
  char *op;
  GPtrArray *inputs;       /* RlxTensor, nullable elements */
  GVariant *attributes;    /* nullable */
} Apply;

static void
unref_tensor (gpointer tensor)
{
  g_clear_object ((RlxTensor **) &tensor);
}

static void
apply_free (gpointer data)
{
  Apply *apply = data;

  g_clear_object (&apply->device);
  g_free (apply->op);
  g_clear_pointer (&apply->inputs, g_ptr_array_unref);
  g_clear_pointer (&apply->attributes, g_variant_unref);
  g_free (apply);
}

static Apply *
apply_new (RlxDevice  *device,
           const char *op,
           RlxTensor **inputs,
           gsize       n_inputs,
           GVariant   *attributes)
{
  Apply *apply = g_new0 (Apply, 1);

  apply->device = g_object_ref (device);
  apply->op = g_strdup (op);
  apply->inputs = g_ptr_array_new_with_free_func (unref_tensor);
  for (gsize i = 0; i < n_inputs; i++)
    g_ptr_array_add (apply->inputs, inputs[i] != NULL ? g_object_ref (inputs[i]) : NULL);
  apply->attributes = attributes != NULL ? g_variant_ref_sink (attributes) : NULL;
  return apply;
}

/* Everything that an executable depends on. */
static char *
make_key (const char *op,
          RlxTensor **inputs,
          gsize       n_inputs,
          GVariant   *attributes)
{
  GString *key = g_string_new (op);

  for (gsize i = 0; i < n_inputs; i++)
    {
      RlxTensor *tensor = inputs[i];
      gsize n_dims = 0;
      const gint64 *shape = tensor != NULL ? rlx_tensor_get_shape (tensor, &n_dims) : NULL;

      g_string_append_printf (key, " %d", tensor != NULL ? (int) rlx_tensor_get_data_type (tensor) : -1);
      for (gsize d = 0; d < n_dims; d++)
        g_string_append_printf (key, ",%" G_GINT64_FORMAT, shape[d]);
    }
  if (attributes != NULL)
    {
      g_string_append_c (key, ' ');
      g_variant_print_string (attributes, key, TRUE);
    }
  return g_string_free (key, FALSE);
}

static RlxTensor **
run (RlxExecutable *executable,
     RlxTensor    **inputs,
     gsize          n_inputs,
     GCancellable  *cancellable,
     GError       **error)
{
  g_autofree RlxTensor **given = g_new (RlxTensor *, n_inputs + 1);
  gsize n_given = 0;

  for (gsize i = 0; i < n_inputs; i++)
    if (inputs[i] != NULL)
      given[n_given++] = inputs[i];
  return rlx_executable_run_on_device (executable, given, n_given, NULL, cancellable, error);
}

static RlxExecutable *
compile (const Apply  *apply,
         GCancellable *cancellable,
         GError      **error)
{
  g_autoptr(RlxGraph) graph = rlx_graph_new ();
  g_autofree RlxNode **nodes = g_new0 (RlxNode *, apply->inputs->len + 1), **results = NULL;
  const RlxOp *row = rlx_op_lookup (apply->op);
  RlxExecutable *executable;
  gsize n_results = 0;

  for (guint i = 0; i < apply->inputs->len; i++)
    {
      RlxTensor *tensor = apply->inputs->pdata[i];
      g_autofree char *name = NULL;
      gsize n_dims;
      const gint64 *shape;

      if (tensor == NULL)
        continue;
      name = row != NULL && i < row->n_inputs ? g_strdup (row->inputs[i].name) : g_strdup_printf ("input %u", i + 1);
      shape = rlx_tensor_get_shape (tensor, &n_dims);
      nodes[i] = rlx_graph_input (graph, name, rlx_tensor_get_data_type (tensor), shape, n_dims, error);
      if (nodes[i] == NULL)
        return NULL;
    }
  results = rlx_graph_add_op (graph, apply->op, nodes, apply->inputs->len, apply->attributes, &n_results, error);
  if (results == NULL)
    {
      if (error != NULL && *error == NULL)
        g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "%s: an operand is missing", apply->op);
      return NULL;
    }
  for (gsize i = 0; i < n_results; i++)
    {
      g_autofree char *name = n_results == 1 ? g_strdup (apply->op) : g_strdup_printf ("%s %" G_GSIZE_FORMAT, apply->op, i);

      if (!rlx_graph_output (graph, name, results[i], error))
        return NULL;
    }
  executable = rlx_device_compile (apply->device, graph, NULL, cancellable, error);
  /* It is kept by the device, not the reverse. */
  if (executable != NULL)
    rlx_executable_borrow_device (executable);
  return executable;
}

static gpointer
apply_work (gpointer      data,
            GCancellable *cancellable,
            GError      **error)
{
  Apply *apply = data;
  RlxApplyCache *cache = rlx_device_get_apply_cache (apply->device);
  RlxTensor **inputs = (RlxTensor **) apply->inputs->pdata;
  g_autofree char *key = make_key (apply->op, inputs, apply->inputs->len, apply->attributes);
  g_autoptr(RlxExecutable) executable = find (cache, key);

  if (executable == NULL)
    {
      executable = compile (apply, cancellable, error);
      if (executable == NULL)
        return NULL;
      keep (cache, key, executable);
    }
  return run (executable, inputs, apply->inputs->len, cancellable, error);
}

static gsize
count_tensors (RlxTensor **tensors)
{
  gsize n = 0;

  while (tensors != NULL && tensors[n] != NULL)
    n++;
  return n;
}

static gboolean
check_inputs (const char *op,
              RlxTensor **inputs,
              gsize       n_inputs,
              GError    **error)
{
  for (gsize i = 0; i < n_inputs; i++)
    if (inputs[i] != NULL && !RLX_IS_TENSOR (inputs[i]))
      {
        g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "%s: operand %" G_GSIZE_FORMAT " is not a tensor", op, i + 1);
        return FALSE;
      }
  return TRUE;
}

/**
 * rlx_device_apply:
 * @self: a device
 * @op: the name of an operator
 * @inputs: (array length=n_inputs) (nullable): the operands
 * @n_inputs: the number of operands
 * @attributes: (nullable): a dictionary of type `a{sv}` with the operator's
 *   attributes, or %NULL for none
 * @n_outputs: (out) (optional): the number of tensors returned
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Computes one operator, without a graph.
 *
 * Operands and attributes are those of [method@Rlx.Graph.add_op]; optional operands may
 * be %NULL. The results stay on the device, as those of
 * [method@Rlx.Executable.run_on_device] do, and are fetched when their elements are
 * first accessed.
 *
 * The first call with a combination of data types, shapes and attributes compiles it; the
 * device keeps the 128 used last, up to 256 MiB of its memory. A graph is faster than its
 * operators one by one, since nothing is fused here.
 *
 * If @attributes is floating, it is consumed.
 *
 * Returns: (array length=n_outputs) (transfer full): the results; in C %NULL follows,
 *   so that `g_auto(RlxTensors)` can free them
 *
 * Since: 1.0
 */
RlxTensor **
rlx_device_apply (RlxDevice    *self,
                  const char   *op,
                  RlxTensor   **inputs,
                  gsize         n_inputs,
                  GVariant     *attributes,
                  gsize        *n_outputs,
                  GCancellable *cancellable,
                  GError      **error)
{
  g_autoptr(GVariant) owned = attributes != NULL ? g_variant_ref_sink (attributes) : NULL;
  g_autoptr(RlxExecutable) executable = NULL;
  g_autofree char *key = NULL;
  RlxTensor **outputs;

  if (n_outputs != NULL)
    *n_outputs = 0;

  g_return_val_if_fail (RLX_IS_DEVICE (self) && rlx_device_get_gpu (self) != NULL, NULL);
  g_return_val_if_fail (op != NULL, NULL);
  g_return_val_if_fail (inputs != NULL || n_inputs == 0, NULL);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (!check_inputs (op, inputs, n_inputs, error))
    return NULL;
  /* A run can be cancelled without a thread; only compiling needs one for that. */
  key = make_key (op, inputs, n_inputs, owned);
  executable = find (rlx_device_get_apply_cache (self), key);
  outputs = executable != NULL
              ? run (executable, inputs, n_inputs, cancellable, error)
              : rlx_thread_wait (apply_work, (GDestroyNotify) rlx_tensors_free, apply_new (self, op, inputs, n_inputs, owned),
                                 apply_free, cancellable, error);
  if (n_outputs != NULL)
    *n_outputs = count_tensors (outputs);
  return outputs;
}

/**
 * rlx_device_apply_async:
 * @self: a device
 * @op: the name of an operator
 * @inputs: (array length=n_inputs) (nullable): the operands
 * @n_inputs: the number of operands
 * @attributes: (nullable): a dictionary of type `a{sv}` with the operator's
 *   attributes, or %NULL for none
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the work has been submitted
 * @user_data: data for @callback
 *
 * Computes one operator without blocking; see [method@Rlx.Device.apply].
 *
 * Since: 1.0
 */
void
rlx_device_apply_async (RlxDevice          *self,
                        const char         *op,
                        RlxTensor         **inputs,
                        gsize               n_inputs,
                        GVariant           *attributes,
                        GCancellable       *cancellable,
                        GAsyncReadyCallback callback,
                        gpointer            user_data)
{
  GError *error = NULL;

  g_return_if_fail (RLX_IS_DEVICE (self) && rlx_device_get_gpu (self) != NULL);
  g_return_if_fail (op != NULL);
  g_return_if_fail (inputs != NULL || n_inputs == 0);
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  if (!check_inputs (op, inputs, n_inputs, &error))
    {
      g_task_report_error (self, callback, user_data, rlx_device_apply_async, error);
      return;
    }
  rlx_thread_start (self, rlx_device_apply_async, apply_work, (GDestroyNotify) rlx_tensors_free,
                    apply_new (self, op, inputs, n_inputs, attributes), apply_free, cancellable, callback, user_data);
}

/**
 * rlx_device_apply_finish:
 * @self: a device
 * @result: the result given to the callback
 * @n_outputs: (out) (optional): the number of tensors returned
 * @error: return location for an error
 *
 * Finishes an operation started with [method@Rlx.Device.apply_async].
 *
 * Returns: (array length=n_outputs) (transfer full): the results; in C %NULL follows,
 *   so that `g_auto(RlxTensors)` can free them
 *
 * Since: 1.0
 */
RlxTensor **
rlx_device_apply_finish (RlxDevice    *self,
                         GAsyncResult *result,
                         gsize        *n_outputs,
                         GError      **error)
{
  RlxTensor **outputs;

  if (n_outputs != NULL)
    *n_outputs = 0;

  g_return_val_if_fail (RLX_IS_DEVICE (self), NULL);
  g_return_val_if_fail (g_task_is_valid (result, self), NULL);

  outputs = g_task_propagate_pointer (G_TASK (result), error);
  if (n_outputs != NULL)
    *n_outputs = count_tensors (outputs);
  return outputs;
}
