/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include <string.h>

#include "rlx-tool.h"

/* Tensors to be written to one file. */
typedef struct
{
  GPtrArray *names;
  GPtrArray *tensors;
} Tensors;

static void
tensors_clear (Tensors *tensors)
{
  g_clear_pointer (&tensors->names, g_ptr_array_unref);
  g_clear_pointer (&tensors->tensors, g_ptr_array_unref);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Tensors, tensors_clear)

static gboolean
find_format (const char       *text,
             RlxWeightsFormat *format)
{
  g_autoptr(GEnumClass) klass = g_type_class_ref (RLX_TYPE_WEIGHTS_FORMAT);
  const GEnumValue *value = text != NULL ? g_enum_get_value_by_nick (klass, text) : NULL;

  if (value != NULL)
    *format = (RlxWeightsFormat) value->value;
  return value != NULL;
}

/* Uses the requested format, or else the suffix of the file. */
static gboolean
choose_format (const char       *to,
               const char       *path,
               RlxWeightsFormat *format,
               GError          **error)
{
  const char *dot = strrchr (path, '.');

  if (find_format (to != NULL ? to : dot != NULL ? dot + 1 : NULL, format))
    return TRUE;
  if (to != NULL)
    g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "there is no format “%s”; there are safetensors, gguf, npz and npy", to);
  else
    g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                 "the suffix of “%s” is none of .safetensors, .gguf, .npz and .npy; --to sets the format", path);
  return FALSE;
}

/* Converts a single file, which is read and written in pieces. */
static gboolean
convert_whole (RlxWeights      *weights,
               GFile           *file,
               RlxWeightsFormat format,
               gboolean         deflated,
               GError         **error)
{
  RlxToolWait *wait = rlx_tool_wait_new ("writing", weights);
  g_autoptr(GAsyncResult) result = NULL;

  rlx_weights_save_async (weights, file, format, deflated, NULL, rlx_tool_wait_done, wait);
  result = rlx_tool_wait_end (wait);
  return rlx_weights_save_finish (weights, result, error);
}

static gboolean
is_wanted (const char  *name,
           char       **wanted,
           gboolean    *found)
{
  if (wanted == NULL)
    return TRUE;
  for (guint i = 0; wanted[i] != NULL; i++)
    if (g_str_equal (wanted[i], name))
      return found[i] = TRUE;
  return FALSE;
}

static gboolean
load_tensors (RlxWeights *weights,
              char      **wanted,
              gboolean   *found,
              Tensors    *tensors,
              GError    **error)
{
  for (guint i = 0; i < g_list_model_get_n_items (G_LIST_MODEL (weights)); i++)
    {
      g_autoptr(RlxWeightsEntry) entry = g_list_model_get_item (G_LIST_MODEL (weights), i);
      const char *name = rlx_weights_entry_get_name (entry);
      RlxTensor *tensor;

      if (!is_wanted (name, wanted, found))
        continue;
      tensor = rlx_weights_load_tensor (weights, name, NULL, error);
      if (tensor == NULL)
        return FALSE;
      g_ptr_array_add (tensors->names, g_strdup (name));
      g_ptr_array_add (tensors->tensors, tensor);
    }
  return TRUE;
}

static gboolean
write_tensors (Tensors         *tensors,
               GFile           *file,
               RlxWeightsFormat format,
               gboolean         deflated,
               GVariant        *metadata,
               GError         **error)
{
  const char *const *names;
  RlxTensor **values = (RlxTensor **) tensors->tensors->pdata;
  gsize n = tensors->tensors->len;

  g_ptr_array_add (tensors->names, NULL);
  names = (const char *const *) tensors->names->pdata;
  switch (format)
    {
    case RLX_WEIGHTS_FORMAT_SAFETENSORS:
      return rlx_weights_write_safetensors (file, names, values, n, NULL, NULL, error);
    case RLX_WEIGHTS_FORMAT_GGUF:
      return rlx_weights_write_gguf (file, names, values, n, metadata, NULL, error);
    case RLX_WEIGHTS_FORMAT_NPZ:
      return rlx_weights_write_npz (file, names, values, n, deflated, NULL, error);
    default:
      if (n == 1)
        return rlx_tensor_save_npy (values[0], file, NULL, error);
      g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_UNSUPPORTED,
                   "a .npy file has one tensor, not %" G_GSIZE_FORMAT "; --tensor chooses one", n);
      return FALSE;
    }
}

/* Converts several files, or some of their tensors. */
static gboolean
convert_some (GPtrArray       *sources,
              char           **wanted,
              GFile           *file,
              RlxWeightsFormat format,
              gboolean         deflated,
              GError         **error)
{
  g_auto(Tensors) tensors = { g_ptr_array_new_with_free_func (g_free), g_ptr_array_new_with_free_func (g_object_unref) };
  g_autofree gboolean *found = g_new0 (gboolean, wanted != NULL ? g_strv_length (wanted) + 1 : 1);

  for (guint i = 0; i < sources->len; i++)
    if (!load_tensors (g_ptr_array_index (sources, i), wanted, found, &tensors, error))
      return FALSE;
  for (guint i = 0; wanted != NULL && wanted[i] != NULL; i++)
    if (!found[i])
      {
        g_set_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_NOT_FOUND, "there is no tensor “%s”", wanted[i]);
        return FALSE;
      }
  return write_tensors (&tensors, file, format, deflated, NULL, error);
}

/* Prints which metadata the new file cannot represent. */
static void
note_metadata (RlxWeights      *weights,
               RlxWeightsFormat format,
               gboolean         whole)
{
  GVariant *metadata = rlx_weights_get_metadata (weights);
  guint n = 0;

  for (gsize i = 0; i < g_variant_n_children (metadata); i++)
    {
      g_autoptr(GVariant) pair = g_variant_get_child_value (metadata, i), value = NULL;

      g_variant_get (pair, "{&sv}", NULL, &value);
      n += !whole || format > RLX_WEIGHTS_FORMAT_GGUF ||
           (format == RLX_WEIGHTS_FORMAT_SAFETENSORS && !g_variant_is_of_type (value, G_VARIANT_TYPE_STRING));
    }
  if (n > 0)
    g_printerr ("%s: %u pairs of metadata are left out\n", g_get_prgname (), n);
}

static gboolean
convert_llama2c (const char *path,
                 const char *tokenizer,
                 GFile      *file,
                 GError    **error)
{
  g_auto(Tensors) tensors = { 0 };
  g_autoptr(GVariant) metadata = NULL;

  metadata = rlx_tool_read_llama2c (path, tokenizer, &tensors.names, &tensors.tensors, error);
  return metadata != NULL && write_tensors (&tensors, file, RLX_WEIGHTS_FORMAT_GGUF, FALSE, metadata, error);
}

static gboolean
check_llama2c (const char      *from,
               int              n_files,
               RlxWeightsFormat format,
               char           **wanted,
               GError         **error)
{
  if (!g_str_equal (from, "llama2c"))
    g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--from only knows “llama2c”, not “%s”", from);
  else if (n_files != 1 || format != RLX_WEIGHTS_FORMAT_GGUF || wanted != NULL)
    g_set_error_literal (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "one model of llama2.c becomes one GGUF file, as a whole");
  else
    return TRUE;
  return FALSE;
}

int
rlx_tool_convert (int    argc,
                  char **argv)
{
  gboolean deflated = FALSE;
  g_autofree char *to = NULL, *from = NULL, *tokenizer = NULL, *weights_file = NULL;
  g_auto(GStrv) wanted = NULL, dimensions = NULL;
  const GOptionEntry entries[] = {
    { "to", 0, 0, G_OPTION_ARG_STRING, &to, "The format to write, if not that of the suffix: safetensors, gguf, npz or npy", "FORMAT" },
    { "tensor", 't', 0, G_OPTION_ARG_STRING_ARRAY, &wanted, "A tensor to convert, instead of all; may be repeated", "NAME" },
    { "deflate", 0, 0, G_OPTION_ARG_NONE, &deflated, "Compress the tensors of an .npz file", NULL },
    { "from", 0, 0, G_OPTION_ARG_STRING, &from, "The format of FILE, if it cannot be detected: llama2c", "FORMAT" },
    { "weights", 'w', 0, G_OPTION_ARG_FILENAME, &weights_file, "Where to write the weights of an ONNX model", "FILE.safetensors" },
    { "dim", 0, 0, G_OPTION_ARG_STRING_ARRAY, &dimensions, "The size of a dimension of an ONNX model; may be repeated", "NAME=SIZE" },
    { "tokenizer", 0, 0, G_OPTION_ARG_FILENAME, &tokenizer, "The tokenizer of a llama2.c model", "FILE.bin" },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GError) error = NULL;
  g_autoptr(GPtrArray) sources = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr(GFile) file = NULL;
  RlxWeightsFormat format;
  gboolean ok;
  int status;

  if (!rlx_tool_parse ("FILE… OUTPUT", "Converts safetensors, GGUF, .npz and .npy files to one file of another format.\n"
                       "With --from=llama2c, creates a GGUF file from a model of llama2.c.\n"
                       "An ONNX model becomes a graph in the text form.", entries, &argc, &argv, 2, G_MAXINT, &status))
    return status;
  if (rlx_tool_is_model (argv[1]))
    {
      if (argc != 3 || to != NULL || from != NULL || wanted != NULL || deflated || tokenizer != NULL)
        {
          g_printerr ("%s: one ONNX model becomes one graph; only --dim and --weights go with it\n", g_get_prgname ());
          return RLX_TOOL_USAGE;
        }
      file = g_file_new_for_commandline_arg (argv[2]);
      return rlx_tool_convert_model (argv[1], dimensions, weights_file, file, &error) ? RLX_TOOL_OK : rlx_tool_fail (error);
    }
  if (weights_file != NULL || dimensions != NULL)
    {
      g_printerr ("%s: --dim and --weights are for ONNX models\n", g_get_prgname ());
      return RLX_TOOL_USAGE;
    }
  if (!choose_format (to, argv[argc - 1], &format, &error) || (from != NULL && !check_llama2c (from, argc - 2, format, wanted, &error)))
    {
      g_printerr ("%s: %s\n", g_get_prgname (), error->message);
      return RLX_TOOL_USAGE;
    }

  file = g_file_new_for_commandline_arg (argv[argc - 1]);
  if (from != NULL)
    return convert_llama2c (argv[1], tokenizer, file, &error) ? RLX_TOOL_OK : rlx_tool_fail (error);

  for (int i = 1; i < argc - 1; i++)
    {
      g_autoptr(GFile) source = g_file_new_for_commandline_arg (argv[i]);
      RlxWeights *weights = rlx_weights_open (source, NULL, &error);

      if (weights == NULL)
        return rlx_tool_fail (error);
      g_ptr_array_add (sources, weights);
    }
  ok = sources->len == 1 && wanted == NULL
         ? convert_whole (g_ptr_array_index (sources, 0), file, format, deflated, &error)
         : convert_some (sources, wanted, file, format, deflated, &error);
  if (!ok)
    return rlx_tool_fail (error);
  for (guint i = 0; i < sources->len; i++)
    note_metadata (g_ptr_array_index (sources, i), format, sources->len == 1 && wanted == NULL);
  return RLX_TOOL_OK;
}
