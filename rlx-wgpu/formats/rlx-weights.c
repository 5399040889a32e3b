/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "formats/rlx-weights-private.h"

#include <string.h>

#include "formats/rlx-npy-private.h"
#include "rlx-enum-types.h"
#include "rlx-job-private.h"

/**
 * RlxWeights:
 *
 * A file of named tensors, such as the weights of a network, in one of the formats
 * safetensors, GGUF, and NumPy's `.npz` and `.npy`.
 *
 * Opening a file only reads its header; [method@Rlx.Weights.load_tensor] reads one
 * tensor, and [method@Rlx.Executable.set_parameters_from] loads all of them into an
 * executable. The object is a list of [class@Rlx.WeightsEntry], in the order of the
 * file.
 *
 * Files need not be trusted: whatever they contain, the result is a tensor or an
 * [error@Rlx.WeightsError], and no more memory is allocated than the size of the file
 * justifies. See [Weight files](weights.html).
 *
 * The object never changes, so threads can share it.
 *
 * Since: 1.0
 */

enum
{
  PROP_0,
  PROP_FORMAT,
  PROP_METADATA,
  PROP_PROGRESS,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

/* ---- a list ----------------------------------------------------------------------- */

static GType
rlx_weights_get_item_type (GListModel *model G_GNUC_UNUSED)
{
  return RLX_TYPE_WEIGHTS_ENTRY;
}

static guint
rlx_weights_get_n_items (GListModel *model)
{
  RlxWeights *self = RLX_WEIGHTS (model);

  return self->manifest != NULL ? self->manifest->records->len : 0;
}

static gpointer
rlx_weights_get_item (GListModel *model,
                      guint       position)
{
  RlxWeights *self = RLX_WEIGHTS (model);
  RlxWeightsEntry *entry;

  if (position >= rlx_weights_get_n_items (model))
    return NULL;

  g_mutex_lock (&self->mutex);
  if (self->entries == NULL)
    self->entries = g_new0 (RlxWeightsEntry *, self->manifest->records->len);
  if (self->entries[position] == NULL)
    self->entries[position] = rlx_weights_entry_new (self->manifest, rlx_manifest_get (self->manifest, position));
  entry = g_object_ref (self->entries[position]);
  g_mutex_unlock (&self->mutex);
  return entry;
}

static void
rlx_weights_list_model_init (GListModelInterface *iface)
{
  iface->get_item_type = rlx_weights_get_item_type;
  iface->get_n_items = rlx_weights_get_n_items;
  iface->get_item = rlx_weights_get_item;
}

G_DEFINE_FINAL_TYPE_WITH_CODE (RlxWeights, rlx_weights, G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (G_TYPE_LIST_MODEL, rlx_weights_list_model_init))

static void
rlx_weights_finalize (GObject *object)
{
  RlxWeights *self = RLX_WEIGHTS (object);

  for (guint i = 0; self->entries != NULL && i < self->manifest->records->len; i++)
    g_clear_object (&self->entries[i]);
  g_free (self->entries);
  g_free (self->title);
  g_clear_pointer (&self->manifest, rlx_manifest_free);
  g_clear_pointer (&self->metadata, g_variant_unref);
  g_main_context_unref (self->context);
  g_mutex_clear (&self->mutex);
  G_OBJECT_CLASS (rlx_weights_parent_class)->finalize (object);
}

static void
rlx_weights_get_property (GObject    *object,
                          guint       id,
                          GValue     *value,
                          GParamSpec *pspec)
{
  RlxWeights *self = RLX_WEIGHTS (object);

  switch (id)
    {
    case PROP_FORMAT:
      g_value_set_enum (value, self->format);
      break;
    case PROP_METADATA:
      g_value_set_variant (value, self->metadata);
      break;
    case PROP_PROGRESS:
      g_value_set_double (value, rlx_weights_get_progress (self));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
rlx_weights_class_init (RlxWeightsClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->finalize = rlx_weights_finalize;
  object_class->get_property = rlx_weights_get_property;

  /**
   * RlxWeights:format: (getter get_format)
   *
   * The format of the file.
   *
   * Since: 1.0
   */
  properties[PROP_FORMAT] = g_param_spec_enum ("format", NULL, NULL, RLX_TYPE_WEIGHTS_FORMAT, RLX_WEIGHTS_FORMAT_SAFETENSORS, flags);
  /**
   * RlxWeights:metadata: (getter get_metadata)
   *
   * The metadata of the file, a dictionary of type `a{sv}`.
   *
   * Since: 1.0
   */
  properties[PROP_METADATA] = g_param_spec_variant ("metadata", NULL, NULL, G_VARIANT_TYPE_VARDICT, NULL, flags);
  /**
   * RlxWeights:progress: (getter get_progress)
   *
   * The fraction of the current load that is done, from 0 to 1; 1 if nothing is being
   * loaded.
   *
   * Notifications are emitted in the thread-default main context of the thread that
   * opened the file.
   *
   * Since: 1.0
   */
  properties[PROP_PROGRESS] = g_param_spec_double ("progress", NULL, NULL, 0, 1, 1, flags);
  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
rlx_weights_init (RlxWeights *self)
{
  g_mutex_init (&self->mutex);
  self->metadata = g_variant_ref_sink (g_variant_new ("a{sv}", NULL));
  self->context = g_main_context_ref_thread_default ();
}

/* ---- progress ---------------------------------------------------------------------- */

static gboolean
tell_progress (gpointer data)
{
  RlxWeights *self = data;

  g_mutex_lock (&self->mutex);
  self->notifying = FALSE;
  g_mutex_unlock (&self->mutex);
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_PROGRESS]);
  return G_SOURCE_REMOVE;
}

/* Notifies in the main context rather than in the reading thread, from which scripts cannot be called. The mutex must be
 * locked. */
static void
plan_to_tell (RlxWeights *self)
{
  g_autoptr(GSource) source = NULL;

  if (self->notifying || g_signal_has_handler_pending (self, g_signal_lookup ("notify", G_TYPE_OBJECT),
                                                       g_quark_from_static_string ("progress"), TRUE) == FALSE)
    return;
  self->notifying = TRUE;
  source = g_idle_source_new ();
  g_source_set_priority (source, G_PRIORITY_DEFAULT);
  g_source_set_callback (source, tell_progress, g_object_ref (self), g_object_unref);
  g_source_attach (source, self->context);
}

void
rlx_weights_begin (RlxWeights *self,
                   guint64     bytes)
{
  g_mutex_lock (&self->mutex);
  self->n_loading++;
  self->total += bytes;
  g_mutex_unlock (&self->mutex);
}

void
rlx_weights_advance (RlxWeights *self,
                     gsize       bytes)
{
  g_mutex_lock (&self->mutex);
  self->done += bytes;
  plan_to_tell (self);
  g_mutex_unlock (&self->mutex);
}

void
rlx_weights_end (RlxWeights *self)
{
  g_mutex_lock (&self->mutex);
  if (--self->n_loading == 0)
    self->done = self->total = 0;
  plan_to_tell (self);
  g_mutex_unlock (&self->mutex);
}

/**
 * rlx_weights_get_progress: (get-property progress)
 * @self: weights
 *
 * Gets which fraction of the current load is done.
 *
 * Returns: the fraction, from 0 to 1; 1 if nothing is being loaded
 *
 * Since: 1.0
 */
double
rlx_weights_get_progress (RlxWeights *self)
{
  double progress = 1;

  g_return_val_if_fail (RLX_IS_WEIGHTS (self), 1);

  g_mutex_lock (&self->mutex);
  if (self->total > 0)
    progress = CLAMP ((double) self->done / (double) self->total, 0, 1);
  g_mutex_unlock (&self->mutex);
  return progress;
}

/* ---- opening ----------------------------------------------------------------------- */

/* Recognises a format by the first bytes. The index of several files counts as safetensors. */
static gboolean
find_format (RlxSource        *source,
             RlxWeightsFormat *format,
             gboolean         *is_index,
             GCancellable     *cancellable,
             GError          **error)
{
  static const struct
  {
    RlxWeightsFormat format;
    char magic[8];
    gsize length;
  } magics[] = {
    { RLX_WEIGHTS_FORMAT_GGUF, "GGUF", 4 },
    { RLX_WEIGHTS_FORMAT_NPY, RLX_NPY_MAGIC, RLX_NPY_MAGIC_LENGTH },
    { RLX_WEIGHTS_FORMAT_NPZ, "PK\3\4", 4 },
    /* An empty archive. */
    { RLX_WEIGHTS_FORMAT_NPZ, "PK\5\6", 4 },
  };
  guint64 size = rlx_source_get_size (source), length;
  guint8 start[9] = { 0 };
  gsize n = (gsize) MIN (size, sizeof start);

  *is_index = FALSE;
  if (!rlx_source_read (source, "its first bytes", 0, start, n, cancellable, error))
    return FALSE;
  *format = RLX_WEIGHTS_FORMAT_SAFETENSORS;
  memcpy (&length, start, 8);
  length = GUINT64_FROM_LE (length);
  /* Safetensors starts with the length of the header and the header; a plausible length takes precedence over magic numbers. */
  if (start[8] == '{' && length <= RLX_SAFETENSORS_MAX_HEADER)
    return TRUE;
  for (gsize i = 0; i < G_N_ELEMENTS (magics); i++)
    if (n > 0 && memcmp (start, magics[i].magic, MIN (n, magics[i].length)) == 0)
      {
        *format = magics[i].format;
        return TRUE;
      }
  if (n < 8 || length <= RLX_SAFETENSORS_MAX_HEADER || start[8] == '{')
    return TRUE;
  /* JSON, as read as a length, would be far too large. */
  *is_index = start[0] == '{';
  return *is_index ||
         rlx_weights_fail (error, RLX_WEIGHTS_ERROR_PARSE, 0, "the file is neither safetensors, GGUF, .npz nor .npy");
}

/* A name for the only tensor of a file without names. */
static char *
make_name (GFile *file)
{
  g_autofree char *name = file != NULL ? g_file_get_basename (file) : NULL;

  if (name == NULL || !g_utf8_validate (name, -1, NULL))
    return g_strdup ("arr_0");
  if (g_str_has_suffix (name, ".npy") && strlen (name) > 4)
    name[strlen (name) - 4] = '\0';
  return g_steal_pointer (&name);
}

static gboolean
read_index (RlxSource    *source,
            GFile        *file,
            RlxManifest  *manifest,
            GCancellable *cancellable,
            GError      **error)
{
  if (file != NULL)
    return rlx_safetensors_read_index (source, file, manifest, cancellable, error);
  g_set_error_literal (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_UNSUPPORTED,
                       "It is an index of other files, which can be opened by its name only");
  return FALSE;
}

static RlxManifest *
read_manifest (RlxSource        *source,
               GFile            *file,
               RlxWeightsFormat *format,
               GCancellable     *cancellable,
               GError          **error)
{
  g_autoptr(RlxManifest) manifest = rlx_manifest_new ();
  g_autofree char *name = make_name (file);
  gboolean is_index, ok = FALSE;

  if (!find_format (source, format, &is_index, cancellable, error))
    return NULL;
  if (!is_index)
    rlx_manifest_add_source (manifest, source);
  switch (*format)
    {
    case RLX_WEIGHTS_FORMAT_SAFETENSORS:
      ok = is_index ? read_index (source, file, manifest, cancellable, error)
                    : rlx_safetensors_read (source, manifest, cancellable, error);
      break;
    case RLX_WEIGHTS_FORMAT_GGUF:
      ok = rlx_gguf_read (source, manifest, cancellable, error);
      break;
    case RLX_WEIGHTS_FORMAT_NPZ:
      ok = rlx_npz_read (source, manifest, cancellable, error);
      break;
    case RLX_WEIGHTS_FORMAT_NPY:
      ok = rlx_npy_read (source, name, manifest, cancellable, error);
      break;
    }
  return ok ? g_steal_pointer (&manifest) : NULL;
}

/* Takes ownership of @source, which is NULL after an error; @file is nullable. */
static RlxWeights *
read_source (RlxSource    *source,
             GFile        *file,
             GCancellable *cancellable,
             GError      **error)
{
  g_autoptr(RlxSource) owned = source;
  g_autofree char *title = file != NULL ? g_file_get_parse_name (file) : NULL;
  RlxManifest *manifest = NULL;
  RlxWeightsFormat format;
  RlxWeights *self;

  if (source != NULL)
    manifest = read_manifest (source, file, &format, cancellable, error);
  if (manifest == NULL)
    {
      if (title != NULL)
        g_prefix_error (error, "%s: ", title);
      return NULL;
    }

  self = g_object_new (RLX_TYPE_WEIGHTS, NULL);
  self->format = format;
  self->title = g_steal_pointer (&title);
  self->manifest = manifest;
  g_variant_unref (self->metadata);
  self->metadata = g_variant_ref_sink (g_variant_builder_end (&manifest->metadata));
  return self;
}

/**
 * rlx_weights_open:
 * @file: a weight file, or the index of several safetensors files
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Opens a weight file and reads its header.
 *
 * The format is detected from the first bytes, not from the name. The file stays open
 * as long as the object exists. For an index, `model.safetensors.index.json`, the files
 * that it names are opened in the same folder. The array of a `.npy` file is named
 * after the file, without the suffix, or `arr_0` if the file has no name.
 *
 * Returns: (transfer full): the weights
 *
 * Since: 1.0
 */
RlxWeights *
rlx_weights_open (GFile        *file,
                  GCancellable *cancellable,
                  GError      **error)
{
  g_return_val_if_fail (G_IS_FILE (file), NULL);
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  return read_source (rlx_source_open (file, cancellable, error), file, cancellable, error);
}

typedef struct
{
  GFile *file;             /* nullable; if NULL, there is a @source or an @error */
  RlxSource *source;
  GError *error;
  GMainContext *context;
} Opening;

static Opening *
opening_new (GFile *file)
{
  Opening *opening = g_new0 (Opening, 1);

  opening->file = file != NULL ? g_object_ref (file) : NULL;
  opening->context = g_main_context_ref_thread_default ();
  return opening;
}

static void
opening_free (gpointer data)
{
  Opening *opening = data;

  g_clear_object (&opening->file);
  g_clear_pointer (&opening->source, rlx_source_unref);
  g_clear_error (&opening->error);
  g_main_context_unref (opening->context);
  g_free (opening);
}

static gpointer
open_in_thread (gpointer      data,
                GCancellable *cancellable,
                GError      **error)
{
  Opening *opening = data;
  RlxWeights *self = NULL;

  if (opening->error != NULL)
    g_propagate_error (error, g_steal_pointer (&opening->error));
  else if (opening->file != NULL)
    self = rlx_weights_open (opening->file, cancellable, error);
  else
    self = read_source (g_steal_pointer (&opening->source), NULL, cancellable, error);

  /* The context of this thread is not the caller's. */
  if (self != NULL)
    {
      g_main_context_unref (self->context);
      self->context = g_main_context_ref (opening->context);
    }
  return self;
}

/**
 * rlx_weights_open_async:
 * @file: a weight file, or the index of several safetensors files
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the file has been opened
 * @user_data: data for @callback
 *
 * Opens a weight file and reads its header, without blocking.
 *
 * Since: 1.0
 */
void
rlx_weights_open_async (GFile              *file,
                        GCancellable       *cancellable,
                        GAsyncReadyCallback callback,
                        gpointer            user_data)
{
  g_return_if_fail (G_IS_FILE (file));
  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  rlx_thread_start (NULL, rlx_weights_open_async, open_in_thread, g_object_unref, opening_new (file), opening_free,
                    cancellable, callback, user_data);
}

/**
 * rlx_weights_open_finish:
 * @result: the result given to the callback
 * @error: return location for an error
 *
 * Finishes an operation started with [func@Rlx.Weights.open_async].
 *
 * Returns: (transfer full): the weights
 *
 * Since: 1.0
 */
RlxWeights *
rlx_weights_open_finish (GAsyncResult *result,
                         GError      **error)
{
  g_return_val_if_fail (g_task_is_valid (result, NULL), NULL);

  return g_task_propagate_pointer (G_TASK (result), error);
}

/**
 * rlx_weights_new_from_bytes:
 * @bytes: the contents of a weight file
 * @error: return location for an error
 *
 * Opens a weight file in memory. Tensors share the memory of @bytes where possible.
 *
 * Returns: (transfer full): the weights
 *
 * Since: 1.0
 */
RlxWeights *
rlx_weights_new_from_bytes (GBytes  *bytes,
                            GError **error)
{
  g_return_val_if_fail (bytes != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  return read_source (rlx_source_new_for_bytes (bytes), NULL, NULL, error);
}

/**
 * rlx_weights_open_fd:
 * @fd: a file descriptor of a regular file
 * @cancellable: (nullable): a cancellable
 * @error: return location for an error
 *
 * Opens a weight file from a file descriptor, such as one from a portal. @fd remains
 * the caller's, and its position does not matter.
 *
 * Returns: (transfer full): the weights
 *
 * Since: 1.0
 */
RlxWeights *
rlx_weights_open_fd (int           fd,
                         GCancellable *cancellable,
                         GError      **error)
{
  g_return_val_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  return read_source (rlx_source_new_for_fd (fd, error), NULL, cancellable, error);
}

/**
 * rlx_weights_open_fd_async:
 * @fd: a file descriptor of a regular file
 * @cancellable: (nullable): a cancellable
 * @callback: (scope async) (nullable): called when the header has been read
 * @user_data: data for @callback
 *
 * Opens a weight file from a file descriptor, without blocking. @fd remains the
 * caller's, who may close it at once.
 *
 * Since: 1.0
 */
void
rlx_weights_open_fd_async (int                 fd,
                               GCancellable       *cancellable,
                               GAsyncReadyCallback callback,
                               gpointer            user_data)
{
  Opening *opening;

  g_return_if_fail (cancellable == NULL || G_IS_CANCELLABLE (cancellable));

  opening = opening_new (NULL);
  opening->source = rlx_source_new_for_fd (fd, &opening->error);
  rlx_thread_start (NULL, rlx_weights_open_fd_async, open_in_thread, g_object_unref, opening, opening_free,
                    cancellable, callback, user_data);
}

/**
 * rlx_weights_open_fd_finish:
 * @result: the result given to the callback
 * @error: return location for an error
 *
 * Finishes an operation started with [func@Rlx.Weights.open_fd_async].
 *
 * Returns: (transfer full): the weights
 *
 * Since: 1.0
 */
RlxWeights *
rlx_weights_open_fd_finish (GAsyncResult *result,
                                GError      **error)
{
  g_return_val_if_fail (g_task_is_valid (result, NULL), NULL);

  return g_task_propagate_pointer (G_TASK (result), error);
}

/* ---- what is in it ------------------------------------------------------------------ */

/**
 * rlx_weights_get_format: (get-property format)
 * @self: weights
 *
 * Gets the format of the file.
 *
 * Returns: the format
 *
 * Since: 1.0
 */
RlxWeightsFormat
rlx_weights_get_format (RlxWeights *self)
{
  g_return_val_if_fail (RLX_IS_WEIGHTS (self), RLX_WEIGHTS_FORMAT_SAFETENSORS);

  return self->format;
}

/**
 * rlx_weights_get_metadata: (get-property metadata)
 * @self: weights
 *
 * Gets the metadata of the file.
 *
 * The values of a safetensors file are strings. Those of a GGUF file keep their types,
 * except that `i8` becomes `n`, `f32` becomes `d`, and strings that are not UTF-8 or
 * contain a NUL become `ay`; an array with such a string becomes `aay`.
 *
 * Returns: (transfer none): a dictionary of type `a{sv}`
 *
 * Since: 1.0
 */
GVariant *
rlx_weights_get_metadata (RlxWeights *self)
{
  g_return_val_if_fail (RLX_IS_WEIGHTS (self), NULL);

  return self->metadata;
}

/**
 * rlx_weights_lookup:
 * @self: weights
 * @name: the name of a tensor
 *
 * Looks up a tensor by its name.
 *
 * Returns: (transfer full) (nullable): the entry, or %NULL
 *
 * Since: 1.0
 */
RlxWeightsEntry *
rlx_weights_lookup (RlxWeights *self,
                    const char *name)
{
  gint64 found;

  g_return_val_if_fail (RLX_IS_WEIGHTS (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);

  found = self->manifest != NULL ? rlx_manifest_find (self->manifest, name) : -1;
  return found >= 0 ? rlx_weights_get_item (G_LIST_MODEL (self), (guint) found) : NULL;
}
