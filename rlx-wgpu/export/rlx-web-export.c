/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-web-export.h"

#include "export/rlx-web-private.h"
#include "formats/rlx-weights-private.h"
#include "rlx-compile-options-private.h"
#include "rlx-graph-private.h"
#include "rlx-job-private.h"
#include "rlx-plan-port-private.h"
#include "rlx-port-private.h"
#include "rlx-version.h"
#include "util/rlx-debug-private.h"

/**
 * RlxWebExport:
 *
 * Writes a graph as a folder of static files that run in a browser.
 *
 * The graph is compiled for named targets, without a device. The folder then contains the
 * plans (`plan.json`), the constants and parameters (`weights-….bin`), the code that runs
 * the graph (`rlx.js`, with `rlx.d.ts` and `package.json`) and a page that demonstrates
 * it (`index.html`). [In a browser](browser.html) describes them.
 *
 * The object must not be changed while the folder is being written.
 *
 * Since: 1.0
 */
struct _RlxWebExport
{
  GObject parent_instance;

  RlxGraph *graph;
  RlxCompileOptions *options;
  char **targets;
  GHashTable *parameters;        /* name → RlxTensor */
  GPtrArray *check_inputs;       /* RlxTensor; NULL if there is no check */
  GPtrArray *check_outputs;
  double tolerance;

  GMainContext *context;         /* for notifications */
  GMutex mutex;                  /* protects everything below */
  guint64 done, total;
  gboolean notifying;
};

enum
{
  PROP_0,
  PROP_GRAPH,
  PROP_OPTIONS,
  PROP_PROGRESS,
  PROP_TARGETS,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

G_DEFINE_FINAL_TYPE (RlxWebExport, rlx_web_export, G_TYPE_OBJECT)

/* What every device supports. */
static const char *const default_targets[] = { "minimum", NULL };

static void
rlx_web_export_finalize (GObject *object)
{
  RlxWebExport *self = RLX_WEB_EXPORT (object);

  g_clear_object (&self->graph);
  g_clear_object (&self->options);
  g_strfreev (self->targets);
  g_hash_table_unref (self->parameters);
  g_clear_pointer (&self->check_inputs, g_ptr_array_unref);
  g_clear_pointer (&self->check_outputs, g_ptr_array_unref);
  g_main_context_unref (self->context);
  g_mutex_clear (&self->mutex);
  G_OBJECT_CLASS (rlx_web_export_parent_class)->finalize (object);
}

static void
rlx_web_export_get_property (GObject    *object,
                             guint       id,
                             GValue     *value,
                             GParamSpec *pspec)
{
  RlxWebExport *self = RLX_WEB_EXPORT (object);

  switch (id)
    {
    case PROP_GRAPH:
      g_value_set_object (value, self->graph);
      break;
    case PROP_OPTIONS:
      g_value_set_object (value, self->options);
      break;
    case PROP_PROGRESS:
      g_value_set_double (value, rlx_web_export_get_progress (self));
      break;
    case PROP_TARGETS:
      g_value_set_boxed (value, self->targets);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
rlx_web_export_set_property (GObject      *object,
                             guint         id,
                             const GValue *value,
                             GParamSpec   *pspec)
{
  RlxWebExport *self = RLX_WEB_EXPORT (object);

  switch (id)
    {
    case PROP_GRAPH:
      self->graph = g_value_dup_object (value);
      break;
    case PROP_OPTIONS:
      rlx_web_export_set_options (self, g_value_get_object (value));
      break;
    case PROP_TARGETS:
      rlx_web_export_set_targets (self, g_value_get_boxed (value));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
rlx_web_export_class_init (RlxWebExportClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->finalize = rlx_web_export_finalize;
  object_class->get_property = rlx_web_export_get_property;
  object_class->set_property = rlx_web_export_set_property;

  /**
   * RlxWebExport:graph: (getter get_graph)
   *
   * The graph.
   *
   * Since: 1.0
   */
  properties[PROP_GRAPH] = g_param_spec_object ("graph", NULL, NULL, RLX_TYPE_GRAPH, flags | G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY);
  /**
   * RlxWebExport:options: (getter get_options) (setter set_options)
   *
   * The compile options; those that do not affect the plan are ignored.
   *
   * Since: 1.0
   */
  properties[PROP_OPTIONS] = g_param_spec_object ("options", NULL, NULL, RLX_TYPE_COMPILE_OPTIONS, flags | G_PARAM_READWRITE);
  /**
   * RlxWebExport:progress: (getter get_progress)
   *
   * The fraction of the data that has been written, from 0 to 1.
   *
   * Notifications are emitted in the thread-default main context of the thread that created the
   * object.
   *
   * Since: 1.0
   */
  properties[PROP_PROGRESS] = g_param_spec_double ("progress", NULL, NULL, 0, 1, 0, flags | G_PARAM_READABLE);
  /**
   * RlxWebExport:targets: (getter get_targets) (setter set_targets)
   *
   * The targets to compile for.
   *
   * Since: 1.0
   */
  properties[PROP_TARGETS] = g_param_spec_boxed ("targets", NULL, NULL, G_TYPE_STRV, flags | G_PARAM_READWRITE);
  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
rlx_web_export_init (RlxWebExport *self)
{
  self->targets = g_strdupv ((char **) default_targets);
  self->parameters = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_object_unref);
  self->context = g_main_context_ref_thread_default ();
  g_mutex_init (&self->mutex);
}

/**
 * rlx_web_export_new:
 * @graph: a graph
 *
 * Creates an export of a graph.
 *
 * Returns: (transfer full): the export
 *
 * Since: 1.0
 */
RlxWebExport *
rlx_web_export_new (RlxGraph *graph)
{
  g_return_val_if_fail (RLX_IS_GRAPH (graph), NULL);

  return g_object_new (RLX_TYPE_WEB_EXPORT, "graph", graph, NULL);
}

/**
 * rlx_web_export_get_graph: (get-property graph)
 * @self: an export
 *
 * Gets the graph.
 *
 * Returns: (transfer none): the graph
 *
 * Since: 1.0
 */
RlxGraph *
rlx_web_export_get_graph (RlxWebExport *self)
{
  g_return_val_if_fail (RLX_IS_WEB_EXPORT (self), NULL);

  return self->graph;
}

/**
 * rlx_web_export_set_targets: (set-property targets)
 * @self: an export
 * @targets: (nullable) (array zero-terminated=1): names of targets, see
 *   [func@Rlx.targets_list]; %NULL for `minimum` alone
 *
 * Sets the targets to compile for.
 *
 * A page uses the first plan that suits the user's device, so demanding targets should
 * come first. With `minimum` as the last one, there is a plan for every device.
 *
 * Browsers have no cooperative matrices, and kernels cannot request a subgroup size
 * there, so plans do not use these, and no subgroups at all for targets whose driver
 * chooses between several sizes.
 *
 * Since: 1.0
 */
void
rlx_web_export_set_targets (RlxWebExport      *self,
                            const char *const *targets)
{
  g_return_if_fail (RLX_IS_WEB_EXPORT (self));

  if (targets == NULL || targets[0] == NULL)
    targets = default_targets;
  if (g_strv_equal (targets, (const char *const *) self->targets))
    return;
  g_strfreev (self->targets);
  self->targets = g_strdupv ((char **) targets);
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_TARGETS]);
}

/**
 * rlx_web_export_get_targets: (get-property targets)
 * @self: an export
 *
 * Gets the targets to compile for.
 *
 * Returns: (transfer none) (array zero-terminated=1): their names
 *
 * Since: 1.0
 */
const char *const *
rlx_web_export_get_targets (RlxWebExport *self)
{
  g_return_val_if_fail (RLX_IS_WEB_EXPORT (self), NULL);

  return (const char *const *) self->targets;
}

/**
 * rlx_web_export_set_options: (set-property options)
 * @self: an export
 * @options: (nullable): the options
 *
 * Sets the compile options.
 *
 * Since: 1.0
 */
void
rlx_web_export_set_options (RlxWebExport      *self,
                            RlxCompileOptions *options)
{
  g_return_if_fail (RLX_IS_WEB_EXPORT (self));
  g_return_if_fail (options == NULL || RLX_IS_COMPILE_OPTIONS (options));

  if (g_set_object (&self->options, options))
    g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_OPTIONS]);
}

/**
 * rlx_web_export_get_options: (get-property options)
 * @self: an export
 *
 * Gets the compile options.
 *
 * Returns: (transfer none) (nullable): the options
 *
 * Since: 1.0
 */
RlxCompileOptions *
rlx_web_export_get_options (RlxWebExport *self)
{
  g_return_val_if_fail (RLX_IS_WEB_EXPORT (self), NULL);

  return self->options;
}

/* ---- progress -------------------------------------------------------------------------- */

static gboolean
tell_progress (gpointer data)
{
  RlxWebExport *self = data;

  g_mutex_lock (&self->mutex);
  self->notifying = FALSE;
  g_mutex_unlock (&self->mutex);
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_PROGRESS]);
  return G_SOURCE_REMOVE;
}

/* Notifies in the main context rather than in the writing thread, from which scripts cannot be called. */
static void
advance (gpointer data,
         guint64  bytes)
{
  RlxWebExport *self = data;

  g_mutex_lock (&self->mutex);
  self->done += bytes;
  if (!self->notifying && g_signal_has_handler_pending (self, g_signal_lookup ("notify", G_TYPE_OBJECT),
                                                        g_quark_from_static_string ("progress"), TRUE))
    {
      g_autoptr(GSource) source = g_idle_source_new ();

      self->notifying = TRUE;
      g_source_set_priority (source, G_PRIORITY_DEFAULT);
      g_source_set_callback (source, tell_progress, g_object_ref (self), g_object_unref);
      g_source_attach (source, self->context);
    }
  g_mutex_unlock (&self->mutex);
}

static void
begin (RlxWebExport *self,
       guint64       total)
{
  g_mutex_lock (&self->mutex);
  self->done = 0;
  /* One extra for the rest, so that progress is below 1 until the end. */
  self->total = total + 1;
  g_mutex_unlock (&self->mutex);
}

/**
 * rlx_web_export_get_progress: (get-property progress)
 * @self: an export
 *
 * Gets which fraction of the data has been written.
 *
 * Returns: the fraction, from 0 to 1
 *
 * Since: 1.0
 */
double
rlx_web_export_get_progress (RlxWebExport *self)
{
  double progress = 0;

  g_return_val_if_fail (RLX_IS_WEB_EXPORT (self), 0);

  g_mutex_lock (&self->mutex);
  if (self->total > 0)
    progress = MIN ((double) self->done / (double) self->total, 1);
  g_mutex_unlock (&self->mutex);
  return progress;
}

/* ---- parameters ------------------------------------------------------------------------ */

/* An array of RlxPlanPort; the graph owns the names. */
static GArray *
list_parameters (const RlxIr *ir)
{
  GArray *ports = g_array_new (FALSE, TRUE, sizeof (RlxPlanPort));

  for (guint i = 0; i < ir->nodes->len; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);
      RlxPlanPort port = { node->name, 0, node->outputs[0].type };

      if (rlx_ir_node_is (node, RLX_OP_ID_PARAMETER))
        g_array_append_val (ports, port);
    }
  return ports;
}

/**
 * rlx_web_export_set_parameters:
 * @self: an export
 * @names: (array zero-terminated=1): the names of parameters of the graph
 * @values: (array length=n_values): a tensor for each name
 * @n_values: the number of @values
 * @error: return location for an error
 *
 * Sets the initial values of parameters.
 *
 * A page can change them. Those without a value have to be set there before the first
 * run.
 *
 * Returns: %TRUE on success; on failure nothing has changed
 *
 * Since: 1.0
 */
gboolean
rlx_web_export_set_parameters (RlxWebExport      *self,
                               const char *const *names,
                               RlxTensor        **values,
                               gsize              n_values,
                               GError           **error)
{
  g_autoptr(RlxIr) ir = NULL;
  g_autoptr(GArray) ports = NULL;

  g_return_val_if_fail (RLX_IS_WEB_EXPORT (self), FALSE);
  g_return_val_if_fail (names != NULL && (values != NULL || n_values == 0), FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  if (g_strv_length ((char **) names) != n_values)
    {
      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                   "%u names and %" G_GSIZE_FORMAT " values were given", g_strv_length ((char **) names), n_values);
      return FALSE;
    }
  ir = rlx_graph_copy_ir (self->graph, error);
  if (ir == NULL)
    return FALSE;
  ports = list_parameters (ir);
  for (gsize i = 0; i < n_values; i++)
    {
      const RlxPlanPort *port = rlx_plan_port_find (ports, "parameter", names[i], NULL, error);

      if (port == NULL)
        return FALSE;
      if (!RLX_IS_TENSOR (values[i]))
        {
          g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "the value of parameter “%s” is not a tensor", names[i]);
          return FALSE;
        }
      if (!rlx_plan_port_check (port, "parameter", values[i], error))
        return FALSE;
    }
  for (gsize i = 0; i < n_values; i++)
    g_hash_table_insert (self->parameters, g_strdup (names[i]), g_object_ref (values[i]));
  return TRUE;
}

static gboolean
take_parameter (const RlxRecordPair *pair,
                gpointer             data,
                GCancellable        *cancellable,
                GError             **error)
{
  RlxTensor *value = rlx_record_pair_load (pair, cancellable, error);

  if (value != NULL)
    g_hash_table_insert (data, g_strdup (pair->parameter), value);
  return value != NULL;
}

/**
 * rlx_web_export_set_parameters_from:
 * @self: an export
 * @weights: a weight file
 * @names: (nullable): the names of tensors by names of parameters, of type `a{ss}`
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Sets the initial values of parameters from a file, by the rules of
 * [method@Rlx.Executable.set_parameters_from].
 *
 * Returns: %TRUE on success
 *
 * Since: 1.0
 */
gboolean
rlx_web_export_set_parameters_from (RlxWebExport *self,
                                    RlxWeights   *weights,
                                    GVariant     *names,
                                    GCancellable *cancellable,
                                    GError      **error)
{
  g_autoptr(GVariant) owned = names != NULL ? g_variant_ref_sink (names) : NULL;
  g_autoptr(RlxIr) ir = NULL;
  g_autoptr(GArray) parameters = NULL;
  g_autoptr(GListModel) ports = NULL;

  g_return_val_if_fail (RLX_IS_WEB_EXPORT (self), FALSE);
  g_return_val_if_fail (RLX_IS_WEIGHTS (weights) && weights->manifest != NULL, FALSE);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  ir = rlx_graph_copy_ir (self->graph, error);
  if (ir == NULL)
    return FALSE;
  parameters = list_parameters (ir);
  ports = rlx_port_list_new (parameters);
  return rlx_weights_load_parameters (weights, ports, owned, take_parameter, self->parameters, cancellable, error);
}

typedef struct
{
  RlxWeights *weights;
  GListModel *ports;
  GVariant *names;
  GHashTable *parameters;
  GError *error;           /* nullable: an earlier error */
} Loading;

static void
loading_free (gpointer data)
{
  Loading *loading = data;

  g_object_unref (loading->weights);
  g_clear_object (&loading->ports);
  g_clear_pointer (&loading->names, g_variant_unref);
  g_hash_table_unref (loading->parameters);
  g_clear_error (&loading->error);
  g_free (loading);
}

static gpointer
load_in_thread (gpointer      data,
                GCancellable *cancellable,
                GError      **error)
{
  Loading *loading = data;

  if (loading->error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&loading->error));
      return NULL;
    }
  return rlx_weights_load_parameters (loading->weights, loading->ports, loading->names, take_parameter, loading->parameters, cancellable, error)
           ? g_hash_table_ref (loading->parameters) : NULL;
}

/**
 * rlx_web_export_set_parameters_from_async:
 * @self: an export
 * @weights: a weight file
 * @names: (nullable): the names of tensors by names of parameters, of type `a{ss}`
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the values have been read
 * @user_data: data for @callback
 *
 * Sets the initial values of parameters from a file, without blocking.
 *
 * Since: 1.0
 */
void
rlx_web_export_set_parameters_from_async (RlxWebExport       *self,
                                          RlxWeights         *weights,
                                          GVariant           *names,
                                          GCancellable       *cancellable,
                                          GAsyncReadyCallback callback,
                                          gpointer            user_data)
{
  g_autoptr(GVariant) owned = names != NULL ? g_variant_ref_sink (names) : NULL;
  g_autoptr(RlxIr) ir = NULL;
  g_autoptr(GArray) parameters = NULL;
  Loading *loading;

  g_return_if_fail (RLX_IS_WEB_EXPORT (self));
  g_return_if_fail (RLX_IS_WEIGHTS (weights) && weights->manifest != NULL);
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  loading = g_new0 (Loading, 1);
  loading->weights = g_object_ref (weights);
  loading->names = g_steal_pointer (&owned);
  loading->parameters = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_object_unref);
  ir = rlx_graph_copy_ir (self->graph, &loading->error);
  if (ir != NULL)
    {
      parameters = list_parameters (ir);
      loading->ports = rlx_port_list_new (parameters);
    }
  rlx_thread_start (self, rlx_web_export_set_parameters_from_async, load_in_thread, (GDestroyNotify) g_hash_table_unref,
                    loading, loading_free, cancellable, callback, user_data);
}

/**
 * rlx_web_export_set_parameters_from_finish:
 * @self: an export
 * @result: the result given to the callback
 * @error: return location for an error
 *
 * Finishes an operation started with [method@Rlx.WebExport.set_parameters_from_async].
 * Parameters only change when this is called.
 *
 * Returns: %TRUE on success
 *
 * Since: 1.0
 */
gboolean
rlx_web_export_set_parameters_from_finish (RlxWebExport *self,
                                           GAsyncResult *result,
                                           GError      **error)
{
  g_autoptr(GHashTable) parameters = NULL;
  GHashTableIter iter;
  gpointer name, value;

  g_return_val_if_fail (RLX_IS_WEB_EXPORT (self), FALSE);
  g_return_val_if_fail (g_task_is_valid (result, self), FALSE);

  parameters = g_task_propagate_pointer (G_TASK (result), error);
  if (parameters == NULL)
    return FALSE;
  g_hash_table_iter_init (&iter, parameters);
  while (g_hash_table_iter_next (&iter, &name, &value))
    g_hash_table_insert (self->parameters, g_strdup (name), g_object_ref (value));
  return TRUE;
}

/* ---- the check ------------------------------------------------------------------------- */

static GPtrArray *
copy_tensors (RlxTensor **tensors,
              gsize       n_tensors)
{
  GPtrArray *copy = g_ptr_array_new_with_free_func (g_object_unref);

  for (gsize i = 0; i < n_tensors; i++)
    g_ptr_array_add (copy, g_object_ref (tensors[i]));
  return copy;
}

/**
 * rlx_web_export_set_check:
 * @self: an export
 * @inputs: (array length=n_inputs): a tensor for each input
 * @n_inputs: the number of @inputs
 * @outputs: (array length=n_outputs): the correct outputs of a first run
 * @n_outputs: the number of @outputs
 * @tolerance: how much an element of an output may differ from the correct one
 *
 * Adds an example that a page can use to check the browser it runs in: inputs, and the
 * outputs of a first run.
 *
 * Since: 1.0
 */
void
rlx_web_export_set_check (RlxWebExport *self,
                          RlxTensor   **inputs,
                          gsize         n_inputs,
                          RlxTensor   **outputs,
                          gsize         n_outputs,
                          double        tolerance)
{
  g_return_if_fail (RLX_IS_WEB_EXPORT (self));
  g_return_if_fail ((inputs != NULL || n_inputs == 0) && (outputs != NULL || n_outputs == 0));

  g_clear_pointer (&self->check_inputs, g_ptr_array_unref);
  g_clear_pointer (&self->check_outputs, g_ptr_array_unref);
  self->check_inputs = copy_tensors (inputs, n_inputs);
  self->check_outputs = copy_tensors (outputs, n_outputs);
  self->tolerance = tolerance;
}

static gboolean
append_tensors (GString         *out,
                const char      *name,
                const char      *what,
                const GArray    *ports,
                const GPtrArray *tensors,
                RlxWebFolder    *folder,
                GError         **error)
{
  if (tensors->len != ports->len)
    {
      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                   "the check has %u %ss, the graph has %u", tensors->len, what, ports->len);
      return FALSE;
    }
  g_string_append_printf (out, "\"%s\":[", name);
  for (guint i = 0; i < ports->len; i++)
    {
      const RlxPlanPort *port = &g_array_index (ports, RlxPlanPort, i);
      RlxTensor *tensor = g_ptr_array_index (tensors, i);
      g_autoptr(GBytes) bytes = NULL;

      if (!rlx_plan_port_check (port, what, tensor, error) || (bytes = rlx_tensor_to_device (tensor, port->name, error)) == NULL)
        return FALSE;
      g_string_append (out, i > 0 ? ",[" : "[");
      if (!rlx_web_folder_add (folder, bytes, 0, "", out, error))
        return FALSE;
      g_string_append_c (out, ']');
    }
  g_string_append_c (out, ']');
  return TRUE;
}

static gboolean
append_check (RlxWebExport  *self,
              GString       *out,
              const RlxPlan *plan,
              RlxWebFolder  *folder,
              GError       **error)
{
  char text[G_ASCII_DTOSTR_BUF_SIZE];

  if (self->check_inputs == NULL)
    return TRUE;
  /* Only the page that checks fetches it, so it has its own file. */
  if (!rlx_web_folder_cut (folder, error))
    return FALSE;
  g_string_append (out, ",\n\"check\":{");
  if (!append_tensors (out, "inputs", "input", plan->inputs, self->check_inputs, folder, error))
    return FALSE;
  g_string_append_c (out, ',');
  if (!append_tensors (out, "outputs", "output", plan->outputs, self->check_outputs, folder, error))
    return FALSE;
  g_string_append_printf (out, ",\"tolerance\":%s}", g_ascii_formatd (text, sizeof text, "%.6g", self->tolerance));
  return TRUE;
}

/* ---- writing --------------------------------------------------------------------------- */

static gboolean
get_target (RlxTarget                *target,
            const char               *name,
            const RlxCompileSettings *settings,
            GError                  **error)
{
  const RlxTarget *named = rlx_target_lookup (name);

  if (named == NULL)
    {
      g_autofree char *quoted = rlx_quote_text (name, -1), *names = rlx_target_list_names ();

      g_set_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_UNSUPPORTED, "there is no target %s; there are %s", quoted, names);
      return FALSE;
    }
  *target = *named;
  rlx_target_apply_debug (target);
  if (!rlx_target_restrict (target, settings->avoided_features, settings->buffer_limit, error))
    return FALSE;
  rlx_web_restrict (target);
  return TRUE;
}

/* Makes all plans before anything is written, as any of them may fail. */
static gboolean
make_plans (RlxWebExport *self,
            RlxTarget    *targets,
            GPtrArray    *plans,
            GCancellable *cancellable,
            GError      **error)
{
  g_autoptr(RlxIr) ir = rlx_graph_copy_ir (self->graph, error);
  RlxCompileSettings settings;
  guint64 total = 0;

  if (ir == NULL)
    return FALSE;
  rlx_compile_options_read (self->options, &settings);
  if (settings.checked)
    {
      g_set_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_UNSUPPORTED, "checked runs cannot be exported");
      return FALSE;
    }
  if (settings.precision != RLX_PRECISION_DEFAULT)
    ir->precision = settings.precision;
  for (guint i = 0; self->targets[i] != NULL; i++)
    {
      RlxPlan *plan;

      if (!get_target (&targets[i], self->targets[i], &settings, error))
        return FALSE;
      plan = rlx_plan_make (ir, &targets[i], cancellable, error);
      if (plan == NULL)
        {
          g_prefix_error (error, "target “%s”: ", self->targets[i]);
          return FALSE;
        }
      g_ptr_array_add (plans, plan);
      total += rlx_web_count_bytes (plan, self->parameters);
    }
  begin (self, total);
  return TRUE;
}

static gboolean
append_all (RlxWebExport    *self,
            GString         *text,
            const RlxTarget *targets,
            const GPtrArray *plans,
            RlxWebFolder    *folder,
            GError         **error)
{
  g_autoptr(GPtrArray) texts = g_ptr_array_new_with_free_func (g_free);
  g_autoptr(GHashTable) indices = g_hash_table_new (g_str_hash, g_str_equal);
  RlxWebShaders shaders = { texts, indices };
  const RlxPlan *first = g_ptr_array_index (plans, 0);

  g_string_append (text, "\"generator\":\"rlx-wgpu " RLX_VERSION "\",\n");
  rlx_web_append_ports (text, "inputs", first->inputs);
  g_string_append (text, ",\n");
  rlx_web_append_ports (text, "outputs", first->outputs);
  g_string_append (text, ",\n");
  rlx_web_append_ports (text, "parameters", first->parameters);
  g_string_append (text, ",\n");
  rlx_web_append_ports (text, "states", first->states);
  g_string_append (text, ",\n\"plans\":[");
  for (guint i = 0; i < plans->len; i++)
    {
      g_string_append (text, i > 0 ? ",\n" : "\n");
      if (!rlx_web_append_plan (text, g_ptr_array_index (plans, i), &targets[i], self->parameters, &shaders, folder, error))
        return FALSE;
    }
  g_string_append (text, "],\n\"shaders\":[");
  for (guint i = 0; i < texts->len; i++)
    {
      g_string_append (text, i > 0 ? ",\n" : "\n");
      rlx_web_append_string (text, g_ptr_array_index (texts, i));
    }
  g_string_append (text, "]");
  return append_check (self, text, first, folder, error);
}

typedef struct
{
  RlxWebExport *export;
  GFile *folder;
} Writing;

static Writing *
writing_new (RlxWebExport *self,
             GFile        *folder)
{
  Writing *writing = g_new0 (Writing, 1);

  writing->export = g_object_ref (self);
  writing->folder = g_object_ref (folder);
  return writing;
}

static void
writing_free (gpointer data)
{
  Writing *writing = data;

  g_object_unref (writing->export);
  g_object_unref (writing->folder);
  g_free (writing);
}

static gpointer
write_in_thread (gpointer      data,
                 GCancellable *cancellable,
                 GError      **error)
{
  Writing *writing = data;
  RlxWebExport *self = writing->export;
  g_autofree RlxTarget *targets = g_new0 (RlxTarget, g_strv_length (self->targets) + 1);
  g_autoptr(GPtrArray) plans = g_ptr_array_new_with_free_func ((GDestroyNotify) rlx_plan_free);
  g_autoptr(RlxWebFolder) folder = NULL;
  g_autoptr(GString) text = g_string_new (NULL);

  if (!make_plans (self, targets, plans, cancellable, error))
    return NULL;
  folder = rlx_web_folder_new (writing->folder, advance, self, cancellable, error);
  if (folder == NULL || !append_all (self, text, targets, plans, folder, error) || !rlx_web_folder_finish (folder, text, error))
    return NULL;
  advance (self, self->total);
  return self;
}

/**
 * rlx_web_export_write:
 * @self: an export
 * @folder: the folder; created if it does not exist
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Compiles the graph and writes the files.
 *
 * `plan.json` is written last: without it the folder is incomplete. An existing
 * `index.html` or `package.json` is kept; other files of an earlier export are replaced.
 *
 * Returns: %TRUE on success
 *
 * Since: 1.0
 */
gboolean
rlx_web_export_write (RlxWebExport *self,
                      GFile        *folder,
                      GCancellable *cancellable,
                      GError      **error)
{
  g_return_val_if_fail (RLX_IS_WEB_EXPORT (self) && self->graph != NULL, FALSE);
  g_return_val_if_fail (G_IS_FILE (folder), FALSE);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  return rlx_thread_wait (write_in_thread, NULL, writing_new (self, folder), writing_free, cancellable, error) != NULL;
}

/**
 * rlx_web_export_write_async:
 * @self: an export
 * @folder: the folder; created if it does not exist
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the files have been written
 * @user_data: data for @callback
 *
 * Compiles the graph and writes the files, without blocking.
 * [property@Rlx.WebExport:progress] reports the progress.
 *
 * Since: 1.0
 */
void
rlx_web_export_write_async (RlxWebExport       *self,
                            GFile              *folder,
                            GCancellable       *cancellable,
                            GAsyncReadyCallback callback,
                            gpointer            user_data)
{
  g_return_if_fail (RLX_IS_WEB_EXPORT (self) && self->graph != NULL);
  g_return_if_fail (G_IS_FILE (folder));
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  rlx_thread_start (self, rlx_web_export_write_async, write_in_thread, NULL, writing_new (self, folder), writing_free,
                    cancellable, callback, user_data);
}

/**
 * rlx_web_export_write_finish:
 * @self: an export
 * @result: the result given to the callback
 * @error: return location for an error
 *
 * Finishes an operation started with [method@Rlx.WebExport.write_async].
 *
 * Returns: %TRUE on success
 *
 * Since: 1.0
 */
gboolean
rlx_web_export_write_finish (RlxWebExport *self,
                             GAsyncResult *result,
                             GError      **error)
{
  g_return_val_if_fail (RLX_IS_WEB_EXPORT (self), FALSE);
  g_return_val_if_fail (g_task_is_valid (result, self), FALSE);

  return g_task_propagate_pointer (G_TASK (result), error) != NULL;
}
