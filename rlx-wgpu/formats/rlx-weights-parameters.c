/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * From a file of weights to the parameters of an executable.
 */
#include "config.h"

#include "formats/rlx-weights-private.h"

#include <string.h>

#include "rlx-executable-private.h"
#include "rlx-job-private.h"
#include "rlx-port.h"
#include "rlx-tensor-private.h"
#include "util/rlx-debug-private.h"

/* The maximum number of problems in a message. */
#define MAX_TOLD 10

typedef struct
{
  GString *text;
  guint n;
  RlxWeightsError code;      /* of the first problem */
} Problems;

G_GNUC_PRINTF (3, 4)
static void
add_problem (Problems       *problems,
             RlxWeightsError code,
             const char     *format,
             ...)
{
  va_list args;

  if (problems->n++ == 0)
    problems->code = code;
  if (problems->n > MAX_TOLD)
    return;
  if (problems->n > 1)
    g_string_append (problems->text, "; ");
  va_start (args, format);
  g_string_append_vprintf (problems->text, format, args);
  va_end (args);
}

static char *
describe (const char   *type,
          const gint64 *dims,
          gsize         n_dims)
{
  g_autofree char *shape = rlx_shape_to_string (dims, n_dims);

  return g_strconcat (type, shape, NULL);
}

/* Whether the tensor fits the parameter: as numbers of its own type or a wider one, or as packed bytes. */
static gboolean
fits (RlxManifest     *manifest,
      const RlxRecord *record,
      RlxPort         *port,
      RlxRecordForm   *form,
      gboolean        *same_type)
{
  const RlxStorage *storage = rlx_storage_get (record->storage);
  gsize n_dims;
  const gint64 *shape = rlx_port_get_shape (port, &n_dims);
  RlxDataType data_type = rlx_port_get_data_type (port);
  gint64 dims[RLX_MAX_DIMS] = { 0 };

  *form = storage->packed >= 0 && data_type == RLX_DATA_TYPE_U8 ? RLX_RECORD_PACKED :
          storage->own_type == data_type                        ? RLX_RECORD_OWN : RLX_RECORD_WIDE;
  *same_type = storage->convert != RLX_CONVERT_IMPOSSIBLE && (*form != RLX_RECORD_WIDE || storage->data_type == data_type);
  if (*form == RLX_RECORD_PACKED)
    rlx_record_get_packed_shape (manifest, record, dims);
  else if (record->n_dims > 0)
    memcpy (dims, rlx_manifest_get_shape (manifest, record), record->n_dims * sizeof (gint64));
  return *same_type && record->n_dims == n_dims && memcmp (dims, shape, n_dims * sizeof (gint64)) == 0;
}

/* The tensor for a parameter; "" for none. */
static char *
find_name (GVariant   *names,
           const char *parameter)
{
  char *name = NULL;

  if (names != NULL && g_variant_lookup (names, parameter, "s", &name))
    return name;
  return g_strdup (parameter);
}

static gboolean
has_parameter (GListModel *ports,
               const char *name)
{
  for (guint i = 0; i < g_list_model_get_n_items (ports); i++)
    {
      g_autoptr(RlxPort) port = g_list_model_get_item (ports, i);

      if (g_strcmp0 (rlx_port_get_name (port), name) == 0)
        return TRUE;
    }
  return FALSE;
}

/* All problems are found before anything is read. */
static gboolean
match (GListModel *ports,
       RlxWeights *weights,
       GVariant   *names,
       GArray     *pairs,
       GError    **error)
{
  RlxManifest *manifest = weights->manifest;
  Problems problems = { g_string_new (NULL), 0, RLX_WEIGHTS_ERROR_NOT_FOUND };
  g_autoptr(GString) text = problems.text;
  g_autofree guint8 *taken = g_malloc0 (manifest->records->len + 1);
  g_autofree char *others = find_name (names, "*");

  for (guint i = 0; i < g_list_model_get_n_items (ports); i++)
    {
      g_autoptr(RlxPort) port = g_list_model_get_item (ports, i);
      const char *parameter = rlx_port_get_name (port);
      g_autofree char *name = find_name (names, parameter);
      g_autofree char *quoted = rlx_quote_text (name, -1), *wanted = NULL, *found = NULL;
      gint64 index = name[0] != '\0' ? rlx_manifest_find (manifest, name) : -1;
      RlxRecordPair pair = { .parameter = parameter, .weights = weights };
      gboolean same_type;

      if (name[0] == '\0')
        continue;
      if (index < 0)
        {
          add_problem (&problems, RLX_WEIGHTS_ERROR_NOT_FOUND, "there is no tensor %s for parameter “%s”", quoted, parameter);
          continue;
        }
      taken[index] = TRUE;
      pair.record = rlx_manifest_get (manifest, (guint) index);
      if (!fits (manifest, pair.record, port, &pair.form, &same_type))
        {
          gsize n_dims;
          const gint64 *shape = rlx_port_get_shape (port, &n_dims);

          found = describe (rlx_storage_get (pair.record->storage)->name, rlx_manifest_get_shape (manifest, pair.record), pair.record->n_dims);
          wanted = describe (rlx_data_type_to_string (rlx_port_get_data_type (port)), shape, n_dims);
          add_problem (&problems, same_type ? RLX_WEIGHTS_ERROR_SHAPE : RLX_WEIGHTS_ERROR_DATA_TYPE,
                       "%s is %s, parameter “%s” is %s", quoted, found, parameter, wanted);
        }
      g_array_append_val (pairs, pair);
    }
  for (guint i = 0; i < manifest->records->len && others[0] != '\0'; i++)
    if (!taken[i])
      {
        g_autofree char *quoted = rlx_quote_text (rlx_manifest_get (manifest, i)->name, -1);

        add_problem (&problems, RLX_WEIGHTS_ERROR_NOT_FOUND, "no parameter takes %s", quoted);
      }
  /* A name that is not a parameter of the graph is a mistake. */
  for (gsize i = 0; names != NULL && i < g_variant_n_children (names); i++)
    {
      g_autoptr(GVariant) child = g_variant_get_child_value (names, i);
      const char *parameter;

      g_variant_get_child (child, 0, "&s", &parameter);
      if (strcmp (parameter, "*") != 0 && !has_parameter (ports, parameter))
        {
          g_autofree char *quoted = rlx_quote_text (parameter, -1);

          add_problem (&problems, RLX_WEIGHTS_ERROR_NOT_FOUND, "the graph has no parameter %s", quoted);
        }
    }
  if (problems.n == 0)
    return TRUE;
  if (problems.n > MAX_TOLD)
    g_string_append_printf (text, "; and %u more", problems.n - MAX_TOLD);
  g_set_error (error, RLX_WEIGHTS_ERROR, problems.code, "The weights do not fit the graph: %s", text->str);
  return FALSE;
}

RlxTensor *
rlx_record_pair_load (const RlxRecordPair *pair,
                      GCancellable        *cancellable,
                      GError             **error)
{
  return rlx_record_load_tensor (pair->weights->manifest, pair->record, pair->form, pair->weights, cancellable, error);
}

/* Whether the elements can be uploaded unconverted: not 64-bit integers, which devices do not have, and not booleans, which
 * have to be checked. */
static gboolean
comes_in_pieces (const RlxRecordPair *pair)
{
  RlxDataType own = rlx_storage_get (pair->record->storage)->own_type;

  return rlx_record_is_in_order (pair->weights->manifest, pair->record) &&
         (pair->form == RLX_RECORD_WIDE || (own != RLX_DATA_TYPE_BOOL && rlx_data_type_on_device (own) == own));
}

static gboolean
fill (gpointer      reader,
      gpointer      to,
      gsize         size,
      GCancellable *cancellable,
      GError      **error)
{
  return rlx_record_reader_read (reader, to, size, cancellable, error);
}

static gboolean
set_parameter (const RlxRecordPair *pair,
               gpointer             data,
               GCancellable        *cancellable,
               GError             **error)
{
  const char *names[] = { pair->parameter, NULL };
  RlxExecutable *executable = data;
  g_autoptr(RlxTensor) value = NULL;

  if (comes_in_pieces (pair) && rlx_executable_can_fill (executable, pair->parameter))
    {
      g_autoptr(RlxRecordReader) reader = rlx_record_reader_new (pair->weights->manifest, pair->record, pair->form, pair->weights, cancellable, error);

      return reader != NULL && rlx_executable_fill_parameter (executable, pair->parameter, fill, reader, cancellable, error);
    }
  value = rlx_record_pair_load (pair, cancellable, error);
  return value != NULL && rlx_executable_set_parameters (executable, names, &value, 1, cancellable, error);
}

static gboolean
check_names (GVariant *names,
             GError  **error)
{
  if (names == NULL || g_variant_is_of_type (names, G_VARIANT_TYPE ("a{ss}")))
    return TRUE;
  g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
               "the names are of type %s, not a{ss}", g_variant_get_type_string (names));
  return FALSE;
}

/* Passes one tensor at a time, so that the caller needs to have only one, or a piece of one, in memory. */
gboolean
rlx_weights_load_parameters (RlxWeights      *self,
                             GListModel      *ports,
                             GVariant        *names,
                             RlxParameterFunc func,
                             gpointer         data,
                             GCancellable    *cancellable,
                             GError         **error)
{
  g_autoptr(GArray) pairs = g_array_new (FALSE, FALSE, sizeof (RlxRecordPair));
  guint64 total = 0;
  gboolean ok = TRUE;

  if (!check_names (names, error) || !match (ports, self, names, pairs, error))
    return FALSE;

  for (guint i = 0; i < pairs->len; i++)
    total += g_array_index (pairs, RlxRecordPair, i).record->length;
  rlx_weights_begin (self, total);
  for (guint i = 0; ok && i < pairs->len; i++)
    {
      const RlxRecordPair *pair = &g_array_index (pairs, RlxRecordPair, i);

      ok = func (pair, data, cancellable, error);
      if (!ok)
        {
          g_autofree char *quoted = rlx_quote_text (pair->record->name, -1);

          g_prefix_error (error, "%s: ", quoted);
        }
    }
  rlx_weights_end (self);
  return ok;
}

/**
 * rlx_executable_set_parameters_from:
 * @self: an executable
 * @weights: a weight file
 * @names: (nullable): the names of tensors by names of parameters, of type `a{ss}`; a
 *   parameter that is not listed takes the tensor with its own name
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Sets the values of all parameters from a file.
 *
 * Every parameter needs a tensor of its type and shape, and every tensor a parameter.
 * Otherwise the error lists the first ten mismatches, and nothing has changed. A
 * parameter whose tensor is given as “” is left alone, and the pair “*”, “” permits
 * tensors that no parameter takes.
 *
 * A parameter of a narrow type, such as `bf16`, takes the numbers as they are in the file;
 * otherwise they are widened as by [method@Rlx.Weights.load_tensor]. A parameter of type
 * `u8` takes the bytes of any packed tensor, including `bf16` and 8-bit floats; its last
 * dimension is the number of bytes per row.
 *
 * The tensors are read and uploaded one after another, large ones in pieces of a few
 * megabytes. If that fails half-way or is cancelled, some parameters have new values,
 * and one may have part of a new value.
 *
 * Returns: %TRUE on success
 *
 * Since: 1.0
 */
gboolean
rlx_executable_set_parameters_from (RlxExecutable *self,
                                    RlxWeights    *weights,
                                    GVariant      *names,
                                    GCancellable  *cancellable,
                                    GError       **error)
{
  g_autoptr(GVariant) owned = names != NULL ? g_variant_ref_sink (names) : NULL;

  g_return_val_if_fail (RLX_IS_EXECUTABLE (self), FALSE);
  g_return_val_if_fail (RLX_IS_WEIGHTS (weights) && weights->manifest != NULL, FALSE);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  return rlx_weights_load_parameters (weights, rlx_executable_get_parameters (self), owned, set_parameter, self, cancellable, error);
}

typedef struct
{
  RlxExecutable *executable;
  RlxWeights *weights;
  GVariant *names;           /* nullable */
} Setting;

static void
setting_free (gpointer data)
{
  Setting *setting = data;

  g_object_unref (setting->executable);
  g_object_unref (setting->weights);
  g_clear_pointer (&setting->names, g_variant_unref);
  g_free (setting);
}

static gpointer
set_in_thread (gpointer      data,
               GCancellable *cancellable,
               GError      **error)
{
  Setting *setting = data;

  return rlx_executable_set_parameters_from (setting->executable, setting->weights, setting->names, cancellable, error) ? setting : NULL;
}

/**
 * rlx_executable_set_parameters_from_async:
 * @self: an executable
 * @weights: a weight file
 * @names: (nullable): the names of tensors by names of parameters, of type `a{ss}`
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the parameters have been set
 * @user_data: data for @callback
 *
 * Sets the values of all parameters from a file, without blocking. Runs that are
 * started before @callback is called may use old values, new ones, or a mixture.
 * [property@Rlx.Weights:progress] reports the progress.
 *
 * Since: 1.0
 */
void
rlx_executable_set_parameters_from_async (RlxExecutable      *self,
                                          RlxWeights         *weights,
                                          GVariant           *names,
                                          GCancellable       *cancellable,
                                          GAsyncReadyCallback callback,
                                          gpointer            user_data)
{
  g_autoptr(GVariant) owned = names != NULL ? g_variant_ref_sink (names) : NULL;
  Setting *setting;

  g_return_if_fail (RLX_IS_EXECUTABLE (self));
  g_return_if_fail (RLX_IS_WEIGHTS (weights) && weights->manifest != NULL);
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  setting = g_new0 (Setting, 1);
  setting->executable = g_object_ref (self);
  setting->weights = g_object_ref (weights);
  setting->names = g_steal_pointer (&owned);
  rlx_thread_start (self, rlx_executable_set_parameters_from_async, set_in_thread, NULL, setting, setting_free,
                    cancellable, callback, user_data);
}

/**
 * rlx_executable_set_parameters_from_finish:
 * @self: an executable
 * @result: the result given to the callback
 * @error: return location for an error
 *
 * Finishes an operation started with [method@Rlx.Executable.set_parameters_from_async].
 *
 * Returns: %TRUE on success
 *
 * Since: 1.0
 */
gboolean
rlx_executable_set_parameters_from_finish (RlxExecutable *self,
                                           GAsyncResult  *result,
                                           GError       **error)
{
  g_return_val_if_fail (RLX_IS_EXECUTABLE (self), FALSE);
  g_return_val_if_fail (g_task_is_valid (result, self), FALSE);

  return g_task_propagate_pointer (G_TASK (result), error) != NULL;
}
