/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Runs cases of ONNX's backend tests, as they are on disk: a folder for each with
 * model.onnx and test_data_set_0/{input,output}_N.pb.
 *
 * Usage: onnx-cases [--every N] [--known FILE] [--reasons] [--verbose] FOLDER [NAME…]
 */
#include "config.h"

#include <locale.h>
#include <math.h>
#include <rlx-wgpu/rlx-wgpu.h>
#include <string.h>

#include "formats/rlx-onnx-private.h"

/* The defaults of ONNX's own runner. */
#define RELATIVE 1e-3
#define ABSOLUTE 1e-7
/* If most of a transform cancels, the rest has the error of all of it: this fraction of its largest element, by the
 * bound that the operator states for the lengths in these cases. */
#define TRANSFORM (4 * 0x1p-24 * (8 + 7))

typedef enum
{
  PASS,
  WRONG,
  REFUSED,
  QUIRK,
} Outcome;

static RlxTensor *
read_tensor (const char *folder,
             const char *kind,
             guint       index,
             gboolean   *found,
             GError    **error)
{
  g_autofree char *name = g_strdup_printf ("%s_%u.pb", kind, index);
  g_autofree char *path = g_build_filename (folder, "test_data_set_0", name, NULL);
  g_autoptr(GFile) file = g_file_new_for_path (path);
  g_autoptr(RlxSource) source = NULL;

  *found = g_file_test (path, G_FILE_TEST_EXISTS);
  if (!*found)
    return NULL;
  source = rlx_source_open (file, NULL, error);
  return source != NULL ? rlx_onnx_read_tensor (source, NULL, error) : NULL;
}

static char *
compare (RlxTensor  *got,
         RlxTensor  *want,
         double      of_largest,
         const char *name)
{
  gsize n_got, n_want, n_bad = 0;
  const gint64 *got_shape = rlx_tensor_get_shape (got, &n_got);
  const gint64 *want_shape = rlx_tensor_get_shape (want, &n_want);
  gint64 n = rlx_tensor_get_n_elements (want);
  RlxDataType type = rlx_tensor_get_data_type (want);
  gboolean is_float = type == RLX_DATA_TYPE_F32 || type == RLX_DATA_TYPE_F16;
  g_autofree char *first = NULL;
  double absolute = ABSOLUTE;

  if (n_got != n_want || (n_got > 0 && memcmp (got_shape, want_shape, n_got * sizeof *got_shape) != 0))
    {
      g_autofree char *a = rlx_tensor_to_string (got);
      g_autofree char *b = rlx_tensor_to_string (want);

      return g_strdup_printf ("“%s” has another shape: %.60s instead of %.60s", name, a, b);
    }
  if (rlx_tensor_get_data_type (got) != type)
    return g_strdup_printf ("“%s” is of %s instead of %s", name, rlx_data_type_to_string (rlx_tensor_get_data_type (got)), rlx_data_type_to_string (type));
  for (gint64 i = 0; i < n && of_largest > 0; i++)
    absolute = MAX (absolute, of_largest * fabs (rlx_tensor_get_value (want, i)));
  for (gint64 i = 0; i < n; i++)
    {
      double a = rlx_tensor_get_value (got, i), b = rlx_tensor_get_value (want, i);
      gboolean good = a == b || (isnan (a) && isnan (b)) || (is_float && isfinite (b) && fabs (a - b) <= absolute + RELATIVE * fabs (b));

      if (!good && n_bad++ == 0)
        first = g_strdup_printf ("“%s”: element %" G_GINT64_FORMAT " is %.9g instead of %.9g", name, i, a, b);
    }
  return n_bad > 0 ? g_strdup_printf ("%s (%" G_GSIZE_FORMAT " of %" G_GINT64_FORMAT ")", first, n_bad, n) : NULL;
}

static Outcome
run_case (RlxDevice  *device,
          const char *folder,
          char      **reason)
{
  g_autofree char *path = g_build_filename (folder, "model.onnx", NULL);
  g_autoptr(GFile) file = g_file_new_for_path (path);
  g_autoptr(RlxModel) model = NULL;
  g_autoptr(RlxSession) session = NULL;
  g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  g_autoptr(GPtrArray) inputs = g_ptr_array_new_with_free_func (g_object_unref);
  g_auto(RlxTensors) outputs = NULL;
  g_autoptr(GError) error = NULL;
  const char *const *output_names;
  gboolean found;
  gsize n_outputs;

  model = rlx_model_open (file, NULL, &error);
  for (guint i = 0; error == NULL && i < g_list_model_get_n_items (rlx_model_get_inputs (model)); i++)
    {
      g_autoptr(RlxModelPort) port = g_list_model_get_item (rlx_model_get_inputs (model), i);
      RlxTensor *tensor;

      if (!rlx_model_port_is_supported (port))
        {
          *reason = g_strdup_printf ("the input “%s” is of %s", rlx_model_port_get_name (port), rlx_model_port_get_type_name (port));
          return REFUSED;
        }
      tensor = read_tensor (folder, "input", i, &found, &error);
      if (tensor == NULL && error == NULL)
        {
          *reason = g_strdup_printf ("there is no value for the input “%s”", rlx_model_port_get_name (port));
          return REFUSED;
        }
      if (tensor != NULL)
        {
          g_ptr_array_add (names, g_strdup (rlx_model_port_get_name (port)));
          g_ptr_array_add (inputs, tensor);
        }
    }
  g_ptr_array_add (names, NULL);
  if (error == NULL)
    {
      session = rlx_session_new (model, device, NULL);
      outputs = rlx_session_run (session, (const char *const *) names->pdata, (RlxTensor **) inputs->pdata, inputs->len, &n_outputs, NULL, &error);
    }
  if (error != NULL)
    {
      *reason = g_strdup (error->message);
      return REFUSED;
    }
  output_names = rlx_session_get_output_names (session);
  for (guint i = 0; i < n_outputs; i++)
    {
      g_autoptr(RlxTensor) want = read_tensor (folder, "output", i, &found, &error);

      if (want == NULL)
        {
          *reason = error != NULL ? g_strdup (error->message) : g_strdup_printf ("there is nothing to compare “%s” with", output_names[i]);
          return REFUSED;
        }
      *reason = compare (outputs[i], want, strstr (folder, "/test_dft") != NULL ? TRANSFORM : 0, output_names[i]);
      if (*reason != NULL)
        return WRONG;
    }
  return PASS;
}

/* A line has a pattern and a reason. */
static gboolean
is_known (char      **lines,
          const char *name)
{
  for (; lines != NULL && *lines != NULL; lines++)
    {
      g_auto(GStrv) words = g_strsplit (*lines, " ", 2);

      if (words[0] != NULL && words[0][0] != '#' && words[0][0] != '\0' && g_pattern_match_simple (words[0], name))
        return TRUE;
    }
  return FALSE;
}

static gboolean
is_wanted (char      **names,
           const char *name)
{
  if (names[0] == NULL)
    return TRUE;
  for (; *names != NULL; names++)
    if (g_pattern_match_simple (*names, name))
      return TRUE;
  return FALSE;
}

/* A reason without the details of a case: numbers, and names other than that of the operator. */
static char *
generalise (const char *reason)
{
  g_autoptr(GRegex) place = g_regex_new (" of opset [0-9]+, at byte [0-9]+|, version [0-9]+, at byte [0-9]+", 0, 0, NULL);
  g_autoptr(GRegex) name = g_regex_new ("(input|output) “[^”]*”", 0, 0, NULL);
  g_autofree char *plain = g_regex_replace_literal (place, reason, -1, 0, "", 0, NULL);
  g_autofree char *general = plain != NULL ? g_regex_replace (name, plain, -1, 0, "\\1", 0, NULL) : NULL;
  g_auto(GStrv) lines = g_strsplit (general != NULL ? general : reason, "\n", 2);

  return g_utf8_substring (lines[0], 0, MIN (g_utf8_strlen (lines[0], -1), 120));
}

static int
compare_counts (gconstpointer a,
                gconstpointer b,
                gpointer      table)
{
  int difference = GPOINTER_TO_INT (g_hash_table_lookup (table, *(const char *const *) b)) -
                   GPOINTER_TO_INT (g_hash_table_lookup (table, *(const char *const *) a));

  return difference != 0 ? difference : strcmp (*(const char *const *) a, *(const char *const *) b);
}

static void
print_reasons (GHashTable *reasons)
{
  g_autoptr(GPtrArray) keys = g_hash_table_get_keys_as_ptr_array (reasons);

  g_ptr_array_sort_with_data (keys, compare_counts, reasons);
  for (guint i = 0; i < keys->len; i++)
    g_print ("%5d  %s\n", GPOINTER_TO_INT (g_hash_table_lookup (reasons, keys->pdata[i])), (const char *) keys->pdata[i]);
}

int
main (int    argc,
      char **argv)
{
  static const char *const words[] = { "pass", "WRONG", "refused", "quirk" };
  int every = 1;
  gboolean verbose = FALSE, grouped = FALSE;
  g_autofree char *known = NULL;
  g_auto(GStrv) lines = NULL;
  const GOptionEntry entries[] = {
    { "every", 0, 0, G_OPTION_ARG_INT, &every, "Run one case of N", "N" },
    { "known", 0, 0, G_OPTION_ARG_FILENAME, &known, "Cases whose results nobody can give", "FILE" },
    { "reasons", 0, 0, G_OPTION_ARG_NONE, &grouped, "Count the reasons why cases are refused, instead of telling of each", NULL },
    { "verbose", 'v', 0, G_OPTION_ARG_NONE, &verbose, "Tell of each case, also of those that pass", NULL },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GOptionContext) context = g_option_context_new ("FOLDER [NAME…]");
  g_autoptr(GError) error = NULL;
  g_autoptr(GDir) dir = NULL;
  g_autoptr(GHashTable) reasons = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr(GPtrArray) cases = g_ptr_array_new_with_free_func (g_free);
  RlxDevice *device;
  guint counts[4] = { 0, };
  const char *name;

  setlocale (LC_ALL, "");
  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error) || argc < 2 || every < 1)
    {
      g_printerr ("onnx-cases: %s\n", error != NULL ? error->message : "no folder was given");
      return 2;
    }
  if (known != NULL)
    {
      g_autofree char *text = NULL;

      if (!g_file_get_contents (known, &text, NULL, &error))
        {
          g_printerr ("onnx-cases: %s\n", error->message);
          return 2;
        }
      lines = g_strsplit (text, "\n", -1);
    }
  dir = g_dir_open (argv[1], 0, NULL);
  if (dir == NULL)
    {
      g_print ("onnx-cases: there is no folder %s\n", argv[1]);
      return 77;
    }
  while ((name = g_dir_read_name (dir)) != NULL)
    if (is_wanted (argv + 2, name))
      g_ptr_array_add (cases, g_strdup (name));
  g_ptr_array_sort_values (cases, (GCompareFunc) strcmp);
  device = rlx_device_get_default (&error);
  if (device == NULL)
    {
      g_print ("onnx-cases: %s\n", error->message);
      return 77;
    }

  for (guint i = 0; i < cases->len; i += (guint) every)
    {
      g_autofree char *folder = g_build_filename (argv[1], cases->pdata[i], NULL);
      g_autofree char *reason = NULL;
      Outcome outcome = run_case (device, folder, &reason);

      if (outcome == WRONG && is_known (lines, cases->pdata[i]))
        outcome = QUIRK;
      counts[outcome]++;
      if (outcome == REFUSED)
        {
          char *general = generalise (reason);

          g_hash_table_replace (reasons, general, GINT_TO_POINTER (GPOINTER_TO_INT (g_hash_table_lookup (reasons, general)) + 1));
        }
      if (verbose || (outcome != PASS && !(outcome == REFUSED && grouped)))
        g_print ("%s %s%s%s\n", words[outcome], (const char *) cases->pdata[i], reason != NULL ? ": " : "", reason != NULL ? reason : "");
    }
  if (grouped)
    print_reasons (reasons);
  g_print ("onnx: %u pass, %u wrong, %u refused, %u quirk\n", counts[PASS], counts[WRONG], counts[REFUSED], counts[QUIRK]);
  return counts[WRONG] > 0 || counts[PASS] == 0;
}
