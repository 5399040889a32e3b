/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "import/rlx-model-private.h"

#include <string.h>

#include "rlx-job-private.h"

/**
 * RlxModel:
 *
 * An ONNX model: a file that contains a graph and its weights.
 *
 * Opening a model reads and checks everything but its weights, which are read once, when a
 * graph is first built. Graphs have fixed shapes: [method@Rlx.Model.build] takes the sizes
 * of dimensions and returns a [class@Rlx.Graph], which can be inspected, extended and
 * compiled. [class@Rlx.Session] does all that automatically, for inputs of any size.
 *
 * Everything that only depends on sizes, such as the shapes that a model computes, is
 * evaluated while the graph is built. So are conditions and loop counts: branches that
 * are not taken disappear, and loops are unrolled. A model that cannot be computed on a
 * device is rejected with an error that lists all reasons.
 *
 * A model can be used from any thread.
 *
 * Since: 1.0
 */
struct _RlxModel
{
  GObject parent_instance;

  RlxOnnx *onnx;
  RlxImportSource source;
  GListStore *inputs;
  GListStore *outputs;
  GVariant *metadata;
  GMutex mutex;
  GHashTable *fixed;       /* by name: RlxTensor */
  guint serial;
};

G_DEFINE_FINAL_TYPE (RlxModel, rlx_model, G_TYPE_OBJECT)

static void
rlx_model_finalize (GObject *object)
{
  RlxModel *self = RLX_MODEL (object);

  g_clear_pointer (&self->onnx, rlx_onnx_free);
  g_clear_object (&self->inputs);
  g_clear_object (&self->outputs);
  g_clear_pointer (&self->metadata, g_variant_unref);
  g_hash_table_unref (self->source.tensors);
  g_clear_pointer (&self->source.scaled, g_hash_table_unref);
  g_hash_table_unref (self->fixed);
  g_mutex_clear (&self->source.lock);
  g_mutex_clear (&self->mutex);
  G_OBJECT_CLASS (rlx_model_parent_class)->finalize (object);
}

static void
rlx_model_class_init (RlxModelClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = rlx_model_finalize;
}

static void
rlx_model_init (RlxModel *self)
{
  g_mutex_init (&self->mutex);
  g_mutex_init (&self->source.lock);
  self->inputs = g_list_store_new (RLX_TYPE_MODEL_PORT);
  self->outputs = g_list_store_new (RLX_TYPE_MODEL_PORT);
  self->source.tensors = g_hash_table_new_full (NULL, NULL, NULL, g_object_unref);
  self->fixed = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_object_unref);
}

static void
add_pair (const char *key,
          const char *value,
          gpointer    data)
{
  g_variant_builder_add (data, "{ss}", key, value);
}

static void
add_ports (RlxModel         *self,
           RlxOnnxGraphField field,
           GHashTable       *known,
           GListStore       *ports)
{
  const guint8 *at = self->onnx->body;
  RlxProtobufValue record;

  while (rlx_onnx_next (&at, field, &record))
    {
      g_autoptr(RlxModelPort) port = NULL;
      RlxOnnxPort description;

      rlx_onnx_get_port (record.message, &description);
      /* Old files also list their weights as inputs. */
      if (known != NULL && g_hash_table_contains (known, description.name))
        continue;
      port = rlx_model_port_new (&description);
      g_list_store_append (ports, port);
    }
}

static RlxModel *
model_read (RlxSource    *source,
            GFile        *file,
            GCancellable *cancellable,
            GError      **error)
{
  g_autoptr(RlxModel) self = NULL;
  g_autoptr(GHashTable) known = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr(GFile) parent = file != NULL ? g_file_get_parent (file) : NULL;
  g_autofree char *folder = parent != NULL ? g_file_get_path (parent) : NULL;
  GVariantBuilder pairs = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE ("a{ss}"));
  const guint8 *at;
  RlxProtobufValue record;

  if (source == NULL)
    {
      rlx_model_adopt_error (error);
      return NULL;
    }
  self = g_object_new (RLX_TYPE_MODEL, NULL);
  self->onnx = rlx_onnx_read (source, file, folder, cancellable, error);
  if (self->onnx == NULL)
    return NULL;
  self->source.onnx = self->onnx;
  for (at = self->onnx->body; rlx_onnx_next (&at, RLX_ONNX_GRAPH_INITIALIZER, &record);)
    {
      const guint8 *inside = record.message;
      RlxProtobufValue field;

      while (rlx_protobuf_next (&inside, &field))
        if (field.number == 8)
          g_hash_table_add (known, (gpointer) field.text);
    }
  add_ports (self, RLX_ONNX_GRAPH_INPUT, known, self->inputs);
  add_ports (self, RLX_ONNX_GRAPH_OUTPUT, NULL, self->outputs);
  rlx_onnx_each_metadata (self->onnx, add_pair, &pairs);
  self->metadata = g_variant_ref_sink (g_variant_builder_end (&pairs));
  return g_steal_pointer (&self);
}

/**
 * rlx_model_open:
 * @file: an ONNX file
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Opens a model. If its weights are in other files, they are only searched for in its
 * folder.
 *
 * Returns: (transfer full): the model
 *
 * Since: 1.0
 */
RlxModel *
rlx_model_open (GFile        *file,
                GCancellable *cancellable,
                GError      **error)
{
  RlxModel *self;

  g_return_val_if_fail (G_IS_FILE (file), NULL);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  self = model_read (rlx_source_open (file, cancellable, error), file, cancellable, error);
  if (self == NULL)
    {
      g_autofree char *name = g_file_get_parse_name (file);

      g_prefix_error (error, "%s: ", name);
    }
  return self;
}

static gpointer
open_in_thread (GFile        *file,
                RlxDevice    *device,
                GCancellable *cancellable,
                GError      **error)
{
  return rlx_model_open (file, cancellable, error);
}

/**
 * rlx_model_open_async:
 * @file: an ONNX file
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the model has been opened
 * @user_data: data for @callback
 *
 * Opens a model without blocking.
 *
 * Since: 1.0
 */
void
rlx_model_open_async (GFile              *file,
                      GCancellable       *cancellable,
                      GAsyncReadyCallback callback,
                      gpointer            user_data)
{
  g_return_if_fail (G_IS_FILE (file));
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  rlx_thread_open (rlx_model_open_async, open_in_thread, file, NULL, cancellable, callback, user_data);
}

/**
 * rlx_model_open_finish:
 * @result: the result given to the callback
 * @error: return location for an error
 *
 * Finishes an operation started with [func@Rlx.Model.open_async].
 *
 * Returns: (transfer full): the model
 *
 * Since: 1.0
 */
RlxModel *
rlx_model_open_finish (GAsyncResult *result,
                       GError      **error)
{
  g_return_val_if_fail (g_task_is_valid (result, NULL), NULL);

  return g_task_propagate_pointer (G_TASK (result), error);
}

/**
 * rlx_model_new_from_bytes:
 * @bytes: the contents of an ONNX file
 * @error: return location for an error
 *
 * Opens a model in memory. It cannot have weights in other files.
 *
 * Returns: (transfer full): the model
 *
 * Since: 1.0
 */
RlxModel *
rlx_model_new_from_bytes (GBytes  *bytes,
                          GError **error)
{
  g_return_val_if_fail (bytes != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  return model_read (rlx_source_new_for_bytes (bytes), NULL, NULL, error);
}

/**
 * rlx_model_get_inputs:
 * @self: a model
 *
 * Gets the inputs of the model. Weights that old files list as inputs are not included.
 *
 * Returns: (transfer none): a list of [class@Rlx.ModelPort]
 *
 * Since: 1.0
 */
GListModel *
rlx_model_get_inputs (RlxModel *self)
{
  g_return_val_if_fail (RLX_IS_MODEL (self), NULL);

  return G_LIST_MODEL (self->inputs);
}

/**
 * rlx_model_get_outputs:
 * @self: a model
 *
 * Gets the outputs of the model.
 *
 * Returns: (transfer none): a list of [class@Rlx.ModelPort]
 *
 * Since: 1.0
 */
GListModel *
rlx_model_get_outputs (RlxModel *self)
{
  g_return_val_if_fail (RLX_IS_MODEL (self), NULL);

  return G_LIST_MODEL (self->outputs);
}

/**
 * rlx_model_get_name:
 * @self: a model
 *
 * Gets the name of the model's graph.
 *
 * Returns: the name, which may be empty
 *
 * Since: 1.0
 */
const char *
rlx_model_get_name (RlxModel *self)
{
  g_return_val_if_fail (RLX_IS_MODEL (self), NULL);

  return self->onnx != NULL ? self->onnx->graph_name : "";
}

/**
 * rlx_model_get_producer:
 * @self: a model
 *
 * Gets the program that wrote the model.
 *
 * Returns: the name, which may be empty
 *
 * Since: 1.0
 */
const char *
rlx_model_get_producer (RlxModel *self)
{
  g_return_val_if_fail (RLX_IS_MODEL (self), NULL);

  return self->onnx != NULL ? self->onnx->producer : "";
}

/**
 * rlx_model_get_opset:
 * @self: a model
 *
 * Gets the version of ONNX's operator set that the model uses.
 *
 * Returns: the version
 *
 * Since: 1.0
 */
gint64
rlx_model_get_opset (RlxModel *self)
{
  g_return_val_if_fail (RLX_IS_MODEL (self), 0);

  for (guint i = 0; self->onnx != NULL && i < self->onnx->opsets->len; i++)
    {
      const RlxOnnxOpset *opset = &g_array_index (self->onnx->opsets, RlxOnnxOpset, i);

      if (opset->domain[0] == '\0')
        return opset->version;
    }
  return 0;
}

/**
 * rlx_model_get_metadata:
 * @self: a model
 *
 * Gets the metadata of the model, a dictionary of type `a{ss}`.
 *
 * Returns: (transfer none): the dictionary
 *
 * Since: 1.0
 */
GVariant *
rlx_model_get_metadata (RlxModel *self)
{
  g_return_val_if_fail (RLX_IS_MODEL (self), NULL);

  return self->metadata;
}

/**
 * rlx_model_get_n_nodes:
 * @self: a model
 *
 * Counts the nodes of the model, including those in branches, loops and functions.
 *
 * Returns: the number of nodes
 *
 * Since: 1.0
 */
guint
rlx_model_get_n_nodes (RlxModel *self)
{
  g_return_val_if_fail (RLX_IS_MODEL (self), 0);

  return self->onnx != NULL ? self->onnx->n_nodes : 0;
}

/**
 * rlx_model_get_n_tensors:
 * @self: a model
 *
 * Counts the weights of the model.
 *
 * Returns: the number of tensors
 *
 * Since: 1.0
 */
guint
rlx_model_get_n_tensors (RlxModel *self)
{
  g_return_val_if_fail (RLX_IS_MODEL (self), 0);

  return self->onnx != NULL ? self->onnx->n_tensors : 0;
}

/**
 * rlx_model_get_tensors_size:
 * @self: a model
 *
 * Gets the total size of the model's weights.
 *
 * Returns: the number of bytes
 *
 * Since: 1.0
 */
guint64
rlx_model_get_tensors_size (RlxModel *self)
{
  g_return_val_if_fail (RLX_IS_MODEL (self), 0);

  return self->onnx != NULL ? self->onnx->n_tensor_bytes : 0;
}

/**
 * rlx_model_count_operators:
 * @self: a model
 *
 * Counts the nodes of the model for each operator.
 *
 * Returns: (transfer full): a dictionary of type `a{su}`; operators that are not ONNX's
 *   own are prefixed with their domain and a colon
 *
 * Since: 1.0
 */
GVariant *
rlx_model_count_operators (RlxModel *self)
{
  g_autoptr(GHashTable) counts = NULL;
  g_autoptr(GList) names = NULL;
  GVariantBuilder pairs = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE ("a{su}"));

  g_return_val_if_fail (RLX_IS_MODEL (self), NULL);

  counts = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  for (guint i = 0; self->onnx != NULL && i < self->onnx->graphs->len; i++)
    {
      const RlxOnnxGraph *graph = &g_array_index (self->onnx->graphs, RlxOnnxGraph, i);

      for (guint j = 0; j < graph->n_nodes; j++)
        {
          g_autoptr(RlxOnnxNode) node = rlx_onnx_get_node (self->onnx, graph, j);
          char *name = node->domain[0] != '\0' ? g_strdup_printf ("%s:%s", node->domain, node->op) : g_strdup (node->op);

          g_hash_table_replace (counts, name, GUINT_TO_POINTER (GPOINTER_TO_UINT (g_hash_table_lookup (counts, name)) + 1));
        }
    }
  names = g_list_sort (g_hash_table_get_keys (counts), (GCompareFunc) strcmp);
  for (GList *l = names; l != NULL; l = l->next)
    g_variant_builder_add (&pairs, "{su}", l->data, GPOINTER_TO_UINT (g_hash_table_lookup (counts, l->data)));
  return g_variant_ref_sink (g_variant_builder_end (&pairs));
}

/* ---- graphs ------------------------------------------------------------------------------- */

static RlxModelPort *
find_port (RlxModel   *self,
           const char *name)
{
  guint n = g_list_model_get_n_items (G_LIST_MODEL (self->inputs));

  for (guint i = 0; i < n; i++)
    {
      /* The list still owns it after this reference is released. */
      g_autoptr(RlxModelPort) port = g_list_model_get_item (G_LIST_MODEL (self->inputs), i);

      if (g_str_equal (port->name, name))
        return port;
    }
  return NULL;
}

RlxModelPort *
rlx_model_find_input (RlxModel   *self,
                      const char *name)
{
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new (&self->mutex);

  return g_hash_table_contains (self->fixed, name) ? NULL : find_port (self, name);
}

guint
rlx_model_get_serial (RlxModel *self)
{
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new (&self->mutex);

  return self->serial;
}

GHashTable *
rlx_model_copy_fixed (RlxModel   *self,
                      GHashTable *known)
{
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new (&self->mutex);
  GHashTable *copy = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_object_unref);
  GHashTable *tables[] = { self->fixed, known };

  for (guint i = 0; i < G_N_ELEMENTS (tables); i++)
    {
      GHashTableIter iter;
      gpointer name, tensor;

      if (tables[i] == NULL)
        continue;
      g_hash_table_iter_init (&iter, tables[i]);
      while (g_hash_table_iter_next (&iter, &name, &tensor))
        g_hash_table_insert (copy, g_strdup (name), g_object_ref (tensor));
    }
  return copy;
}

RlxImportSource *
rlx_model_get_source (RlxModel *self)
{
  return &self->source;
}

RlxGraph *
rlx_model_specialise (RlxModel     *self,
                      GHashTable   *types,
                      GHashTable   *known,
                      GHashTable   *needed,
                      GCancellable *cancellable,
                      GError      **error)
{
  g_autoptr(GHashTable) fixed = rlx_model_copy_fixed (self, known);
  RlxImportSizes sizes = { .types = types, .fixed = fixed };

  return rlx_import_model (&self->source, &sizes, needed, cancellable, error);
}

/**
 * rlx_model_fix_input:
 * @self: a model
 * @name: the name of an input
 * @value: (nullable): its value; %NULL makes it an input again
 * @error: return location for an error
 *
 * Fixes the value of an input. Graphs that are built from now on do not have that
 * input.
 *
 * This is meant for inputs that control what a model does, such as a sample rate or a
 * switch. If branches depend on such an input, fixing it makes the graph smaller, or
 * possible at all.
 *
 * Returns: %FALSE with an error if there is no such input, or if its type or shape does
 *   not match
 *
 * Since: 1.0
 */
gboolean
rlx_model_fix_input (RlxModel   *self,
                     const char *name,
                     RlxTensor  *value,
                     GError    **error)
{
  RlxModelPort *port;

  g_return_val_if_fail (RLX_IS_MODEL (self), FALSE);
  g_return_val_if_fail (name != NULL, FALSE);
  g_return_val_if_fail (value == NULL || RLX_IS_TENSOR (value), FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  port = find_port (self, name);
  if (port == NULL)
    {
      g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_NOT_FOUND, "The model has no input “%s”", name);
      return FALSE;
    }
  if (value != NULL && (port->data_type < 0 || rlx_tensor_get_data_type (value) != (RlxDataType) port->data_type))
    {
      g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_DATA_TYPE, "The input “%s” is of %s, the value of %s", name, port->type_name,
                   rlx_data_type_to_string (rlx_tensor_get_data_type (value)));
      return FALSE;
    }
  if (value != NULL && port->has_shape)
    {
      gsize n_dims;
      const gint64 *shape = rlx_tensor_get_shape (value, &n_dims);
      gboolean fits = n_dims == port->n_dims;

      for (gsize i = 0; fits && i < n_dims; i++)
        fits = port->shape[i] < 0 || port->shape[i] == shape[i];
      if (!fits)
        {
          g_autofree char *text = rlx_model_port_to_string (port);

          g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_SHAPE, "The value does not have the shape of the input %s", text);
          return FALSE;
        }
    }
  if (value != NULL && !rlx_tensor_fetch (value, NULL, error))
    return FALSE;
  g_mutex_lock (&self->mutex);
  if (value != NULL)
    g_hash_table_replace (self->fixed, g_strdup (name), g_object_ref (value));
  else
    g_hash_table_remove (self->fixed, name);
  self->serial++;
  g_mutex_unlock (&self->mutex);
  return TRUE;
}

/* Whether a model has a dimension of that name, or the name is INPUT.AXIS. */
static gboolean
has_dimension (RlxModel   *self,
               const char *name)
{
  guint n = g_list_model_get_n_items (G_LIST_MODEL (self->inputs));

  for (guint i = 0; i < n; i++)
    {
      g_autoptr(RlxModelPort) port = g_list_model_get_item (G_LIST_MODEL (self->inputs), i);

      for (gsize j = 0; j < port->n_dims; j++)
        {
          g_autofree char *place = g_strdup_printf ("%s.%" G_GSIZE_FORMAT, port->name, j);

          if (port->shape[j] < 0 && (g_strcmp0 (port->names[j], name) == 0 || g_str_equal (place, name)))
            return TRUE;
        }
    }
  return FALSE;
}

static gboolean
read_dimensions (RlxModel   *self,
                 GVariant   *dimensions,
                 GHashTable *sizes,
                 GError    **error)
{
  GVariantIter iter;
  const char *name;
  gint64 size;

  if (dimensions == NULL)
    return TRUE;
  if (!g_variant_is_of_type (dimensions, G_VARIANT_TYPE ("a{sx}")))
    {
      g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_INVALID, "The dimensions are of type %s instead of a{sx}", g_variant_get_type_string (dimensions));
      return FALSE;
    }
  g_variant_iter_init (&iter, dimensions);
  while (g_variant_iter_next (&iter, "{&sx}", &name, &size))
    {
      if (!has_dimension (self, name))
        {
          g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_NOT_FOUND, "The model has no dimension “%s” without a fixed size", name);
          return FALSE;
        }
      if (size < 0)
        {
          g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_SHAPE, "The size of dimension “%s” is %" G_GINT64_FORMAT, name, size);
          return FALSE;
        }
      g_hash_table_insert (sizes, g_strdup (name), g_memdup2 (&size, sizeof size));
    }
  return TRUE;
}

/**
 * rlx_model_build:
 * @self: a model
 * @dimensions: (nullable): the sizes of dimensions, a dictionary of type `a{sx}`
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Builds the graph of a model for inputs of given sizes.
 *
 * The keys are the names of dimensions or, for those that have none, the name of the
 * input and the axis: `x.0`. All dimensions that are not fixed are required. Weights
 * become constants of the graph; several graphs of one model share the same tensors.
 *
 * Returns: (transfer full): the graph
 *
 * Since: 1.0
 */
RlxGraph *
rlx_model_build (RlxModel     *self,
                 GVariant     *dimensions,
                 GCancellable *cancellable,
                 GError      **error)
{
  g_autoptr(GVariant) sunk = dimensions != NULL ? g_variant_ref_sink (dimensions) : NULL;
  g_autoptr(GHashTable) sizes = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  g_autoptr(GHashTable) fixed = NULL;
  RlxImportSizes all = { .dimensions = sizes };

  g_return_val_if_fail (RLX_IS_MODEL (self) && self->onnx != NULL, NULL);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (!read_dimensions (self, sunk, sizes, error))
    return NULL;
  all.fixed = fixed = rlx_model_copy_fixed (self, NULL);
  return rlx_import_model (&self->source, &all, NULL, cancellable, error);
}

typedef struct
{
  RlxModel *model;
  GVariant *dimensions;
} Building;

static void
building_free (gpointer data)
{
  Building *building = data;

  g_object_unref (building->model);
  g_clear_pointer (&building->dimensions, g_variant_unref);
  g_free (building);
}

static gpointer
build_in_thread (gpointer      data,
                 GCancellable *cancellable,
                 GError      **error)
{
  Building *building = data;

  return rlx_model_build (building->model, building->dimensions, cancellable, error);
}

/**
 * rlx_model_build_async:
 * @self: a model
 * @dimensions: (nullable): the sizes of dimensions, a dictionary of type `a{sx}`
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the graph has been built
 * @user_data: data for @callback
 *
 * Builds the graph of a model for inputs of given sizes, without blocking.
 *
 * Since: 1.0
 */
void
rlx_model_build_async (RlxModel           *self,
                       GVariant           *dimensions,
                       GCancellable       *cancellable,
                       GAsyncReadyCallback callback,
                       gpointer            user_data)
{
  g_autoptr(GVariant) sunk = dimensions != NULL ? g_variant_ref_sink (dimensions) : NULL;
  Building *building;

  g_return_if_fail (RLX_IS_MODEL (self) && self->onnx != NULL);
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  building = g_new0 (Building, 1);
  building->model = g_object_ref (self);
  building->dimensions = g_steal_pointer (&sunk);
  rlx_thread_start (self, rlx_model_build_async, build_in_thread, g_object_unref, building, building_free,
                    cancellable, callback, user_data);
}

/**
 * rlx_model_build_finish:
 * @self: a model
 * @result: the result given to the callback
 * @error: return location for an error
 *
 * Finishes an operation started with [method@Rlx.Model.build_async].
 *
 * Returns: (transfer full): the graph
 *
 * Since: 1.0
 */
RlxGraph *
rlx_model_build_finish (RlxModel     *self,
                        GAsyncResult *result,
                        GError      **error)
{
  g_return_val_if_fail (RLX_IS_MODEL (self), NULL);
  g_return_val_if_fail (g_task_is_valid (result, self), NULL);

  return g_task_propagate_pointer (G_TASK (result), error);
}
