/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * rlx-conformance: runs cases that others wrote against the library.
 */
#include "config.h"

#include "run.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>

#define EXIT_OK 0
#define EXIT_FAILS 1
#define EXIT_USAGE 2
#define EXIT_NO_ADAPTER 77

/* How many failures are listed unless all are requested. */
#define MAX_LISTED 40

typedef struct
{
  guint pass;
  guint fail;
  guint unsupported;
  guint quirk;
} Counts;

typedef struct
{
  char *name;
  Counts counts;
} Bucket;

typedef struct
{
  char *name;
  Counts counts;
  guint by_mapping;      /* passed because the mapping rejected it */
  GPtrArray *operators;  /* Bucket, in order of appearance */
} Suite;

/* A case that is listed in the report. */
typedef struct
{
  char *id;
  char *reason;
  Result result;
} Note;

typedef struct
{
  gboolean json;
  gboolean list;
  gboolean verbose;
  gboolean strict;
  char *filter;
  char *known_file;
  GStrv folders;

  GPtrArray *suites;     /* Suite */
  GPtrArray *failures;   /* Note */
  GPtrArray *quirks;     /* Note */
  GHashTable *missing;   /* reason → count */
  GHashTable *known;     /* identifier → what is wrong with the case */
  Counts totals;
  guint n_cases;
  RlxDevice *device;
  int status;
} Runner;

static void
bucket_free (gpointer data)
{
  Bucket *self = data;

  g_free (self->name);
  g_free (self);
}

static void
suite_free (gpointer data)
{
  Suite *self = data;

  g_free (self->name);
  g_ptr_array_unref (self->operators);
  g_free (self);
}

static void
note_free (gpointer data)
{
  Note *self = data;

  g_free (self->id);
  g_free (self->reason);
  g_free (self);
}

static Suite *
get_suite (Runner     *self,
           const char *name)
{
  Suite *suite;

  for (guint i = 0; i < self->suites->len; i++)
    {
      suite = g_ptr_array_index (self->suites, i);
      if (g_str_equal (suite->name, name))
        return suite;
    }
  suite = g_new0 (Suite, 1);
  suite->name = g_strdup (name);
  suite->operators = g_ptr_array_new_with_free_func (bucket_free);
  g_ptr_array_add (self->suites, suite);
  return suite;
}

static Bucket *
get_operator (Suite      *suite,
              const char *name)
{
  Bucket *bucket;

  for (guint i = 0; i < suite->operators->len; i++)
    {
      bucket = g_ptr_array_index (suite->operators, i);
      if (g_str_equal (bucket->name, name))
        return bucket;
    }
  bucket = g_new0 (Bucket, 1);
  bucket->name = g_strdup (name);
  g_ptr_array_add (suite->operators, bucket);
  return bucket;
}

static void
count (Counts  *counts,
       gboolean quirk,
       Result   result)
{
  if (quirk)
    counts->quirk++;
  else if (result == RESULT_PASS)
    counts->pass++;
  else if (result == RESULT_FAIL)
    counts->fail++;
  else
    counts->unsupported++;
}

static void
add_note (GPtrArray  *notes,
          const Case *test,
          Result      result,
          const char *reason)
{
  Note *note = g_new0 (Note, 1);

  note->id = g_strdup (test->id);
  note->reason = g_strdup (reason);
  note->result = result;
  g_ptr_array_add (notes, note);
}

static gboolean
is_selected (Runner     *self,
             const Case *test)
{
  g_autofree char *path = NULL;

  if (self->filter == NULL)
    return TRUE;
  path = g_strdup_printf ("%s/%s", test->suite, test->op);
  return g_pattern_match_simple (self->filter, test->id) ||
         g_pattern_match_simple (self->filter, path) ||
         g_pattern_match_simple (self->filter, test->op);
}

/* The device shared by all cases, opened for the first one that computes something. */
static gboolean
ensure_device (Runner *self)
{
  g_autoptr(GError) error = NULL;

  if (self->device != NULL && rlx_device_get_lost (self->device))
    self->device = NULL;
  if (self->device != NULL)
    return TRUE;
  self->device = rlx_device_get_default (&error);
  if (self->device != NULL)
    return TRUE;
  g_printerr ("rlx-conformance: %s\n", error->message);
  self->status = g_error_matches (error, RLX_DEVICE_ERROR, RLX_DEVICE_ERROR_NO_ADAPTER)
                   ? EXIT_NO_ADAPTER : EXIT_FAILS;
  return FALSE;
}

/* Lines with an identifier and, after a space, what is wrong with that case; empty lines
 * and those beginning with # are skipped. */
static gboolean
load_known (Runner *self)
{
  g_autoptr(GError) error = NULL;
  g_autofree char *text = NULL;
  g_auto(GStrv) lines = NULL;

  if (!g_file_get_contents (self->known_file, &text, NULL, &error))
    {
      g_printerr ("rlx-conformance: %s\n", error->message);
      return FALSE;
    }
  lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] != NULL; i++)
    {
      char *line = g_strstrip (lines[i]);
      char *space = strchr (line, ' ');

      if (*line == '\0' || *line == '#')
        continue;
      g_hash_table_insert (self->known, space != NULL ? g_strndup (line, space - line) : g_strdup (line),
                           g_strdup (space != NULL ? g_strstrip (space) : "known to be wrong"));
    }
  return TRUE;
}

static gboolean
take_case (Runner     *self,
           const Case *test)
{
  const char *quirk = test->quirk != NULL ? test->quirk : g_hash_table_lookup (self->known, test->id);
  Suite *suite;
  g_autofree char *reason = NULL;
  gboolean by_mapping;
  gint64 start;
  Result result;

  if (!is_selected (self, test))
    return TRUE;
  self->n_cases++;
  if (self->list)
    {
      g_print ("%s\t%s\t%s\t%s\n", test->id, test->suite, test->op, test->name != NULL ? test->name : "");
      return TRUE;
    }
  if (case_needs_device (test) && !ensure_device (self))
    return FALSE;

  start = g_get_monotonic_time ();
  result = run_case (test, self->device, &reason, &by_mapping);
  if (self->strict && result == RESULT_UNSUPPORTED)
    result = RESULT_FAIL;
  if (self->verbose)
    g_printerr ("%-11s %8.1f ms  %s (%s)%s%s\n", result_to_string (result),
                (double) (g_get_monotonic_time () - start) / 1000, test->id, test->op,
                reason != NULL ? ": " : "", reason != NULL ? reason : "");

  suite = get_suite (self, test->suite);
  count (&self->totals, quirk != NULL, result);
  count (&suite->counts, quirk != NULL, result);
  count (&get_operator (suite, test->op)->counts, quirk != NULL, result);
  if (quirk != NULL)
    add_note (self->quirks, test, result, quirk);
  else if (result == RESULT_FAIL)
    add_note (self->failures, test, result, reason);
  else if (result == RESULT_UNSUPPORTED)
    {
      guint n = GPOINTER_TO_UINT (g_hash_table_lookup (self->missing, reason));

      g_hash_table_insert (self->missing, g_steal_pointer (&reason), GUINT_TO_POINTER (n + 1));
    }
  else if (by_mapping)
    suite->by_mapping++;
  return TRUE;
}

/* ---- folders ------------------------------------------------------------------- */

static gboolean
take_file (Runner     *self,
           const char *path)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(CaseFile) file = case_file_load (path, &error);

  /* the other cases are worth running, but the run has failed */
  if (file == NULL)
    {
      g_printerr ("rlx-conformance: %s\n", error->message);
      self->status = EXIT_USAGE;
      return TRUE;
    }
  for (guint i = 0; i < file->problems->len; i++)
    {
      g_printerr ("rlx-conformance: %s\n", (const char *) g_ptr_array_index (file->problems, i));
      self->status = EXIT_USAGE;
    }
  for (guint i = 0; i < file->cases->len; i++)
    if (!take_case (self, g_ptr_array_index (file->cases, i)))
      return FALSE;
  return TRUE;
}

static int
compare_names (gconstpointer a,
               gconstpointer b)
{
  return strcmp (*(const char *const *) a, *(const char *const *) b);
}

static gboolean
take_folder (Runner     *self,
             const char *path)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GDir) dir = NULL;
  g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  const char *name;

  if (g_file_test (path, G_FILE_TEST_IS_REGULAR))
    return take_file (self, path);

  dir = g_dir_open (path, 0, &error);
  if (dir == NULL)
    {
      g_printerr ("rlx-conformance: %s\n", error->message);
      self->status = EXIT_USAGE;
      return FALSE;
    }
  while ((name = g_dir_read_name (dir)) != NULL)
    g_ptr_array_add (names, g_strdup (name));
  g_ptr_array_sort (names, compare_names);

  /* the cases of a folder before those of its subfolders */
  for (int folders = 0; folders <= 1; folders++)
    for (guint i = 0; i < names->len; i++)
      {
        g_autofree char *child = g_build_filename (path, g_ptr_array_index (names, i), NULL);
        gboolean is_folder = g_file_test (child, G_FILE_TEST_IS_DIR);

        name = g_ptr_array_index (names, i);
        if (is_folder != folders || (is_folder && g_file_test (child, G_FILE_TEST_IS_SYMLINK)))
          continue;
        if (is_folder)
          {
            if (!take_folder (self, child))
              return FALSE;
          }
        else if (g_str_has_suffix (name, ".json") && !g_str_equal (name, "index.json") && !take_file (self, child))
          return FALSE;
      }
  return TRUE;
}

/* ---- reports ---------------------------------------------------------------------- */

static void
print_counts (const char   *name,
              const Counts *counts)
{
  g_print ("%s: %u pass, %u fail, %u unsupported, %u quirk\n", name,
           counts->pass, counts->fail, counts->unsupported, counts->quirk);
}

static int
compare_missing (gconstpointer a,
                 gconstpointer b,
                 gpointer      table)
{
  const char *x = *(const char *const *) a;
  const char *y = *(const char *const *) b;
  guint n = GPOINTER_TO_UINT (g_hash_table_lookup (table, x));
  guint m = GPOINTER_TO_UINT (g_hash_table_lookup (table, y));

  return n != m ? (n < m ? 1 : -1) : strcmp (x, y);
}

/* Most frequent first. */
static GPtrArray *
sort_missing (Runner *self)
{
  GPtrArray *reasons = g_hash_table_get_keys_as_ptr_array (self->missing);

  g_ptr_array_sort_with_data (reasons, compare_missing, self->missing);
  return reasons;
}

static void
report_text (Runner *self,
             double  seconds)
{
  guint n_listed = self->verbose ? self->failures->len : MIN (self->failures->len, MAX_LISTED);

  for (guint i = 0; i < self->suites->len; i++)
    {
      Suite *suite = g_ptr_array_index (self->suites, i);

      g_print ("%-32s %6s %6s %12s %6s\n", suite->name, "pass", "fail", "unsupported", "quirk");
      for (guint j = 0; j < suite->operators->len; j++)
        {
          Bucket *bucket = g_ptr_array_index (suite->operators, j);

          g_print ("  %-30s %6u %6u %12u %6u\n", bucket->name, bucket->counts.pass, bucket->counts.fail,
                   bucket->counts.unsupported, bucket->counts.quirk);
        }
      g_print ("\n");
    }

  if (self->verbose && g_hash_table_size (self->missing) > 0)
    {
      g_autoptr(GPtrArray) reasons = sort_missing (self);

      g_print ("Unsupported\n");
      for (guint i = 0; i < reasons->len; i++)
        g_print ("  %6u %s\n", GPOINTER_TO_UINT (g_hash_table_lookup (self->missing, reasons->pdata[i])),
                 (const char *) reasons->pdata[i]);
      g_print ("\n");
    }

  if (self->quirks->len > 0)
    {
      g_print ("Quirks\n");
      for (guint i = 0; i < self->quirks->len; i++)
        {
          Note *note = g_ptr_array_index (self->quirks, i);

          g_print ("  %s (%s): %s\n", note->id, result_to_string (note->result), note->reason);
        }
      g_print ("\n");
    }

  if (n_listed > 0)
    {
      g_print ("Failures\n");
      for (guint i = 0; i < n_listed; i++)
        {
          Note *note = g_ptr_array_index (self->failures, i);

          g_print ("  %s: %s\n", note->id, note->reason);
        }
      if (n_listed < self->failures->len)
        g_print ("  and %u more, see --verbose\n", self->failures->len - n_listed);
      g_print ("\n");
    }

  for (guint i = 0; i < self->suites->len; i++)
    {
      Suite *suite = g_ptr_array_index (self->suites, i);

      print_counts (suite->name, &suite->counts);
      if (suite->by_mapping > 0)
        g_print ("  (%u of them were refused by a rule of that specification, not by the library)\n",
                 suite->by_mapping);
    }
  print_counts ("total", &self->totals);
  g_print ("%u cases in %.1f s%s%s\n", self->n_cases, seconds,
           self->device != NULL ? " on " : "",
           self->device != NULL ? rlx_adapter_get_name (rlx_device_get_adapter (self->device)) : "");
}

static void
add_counts (JsonBuilder  *builder,
            const Counts *counts)
{
  json_builder_set_member_name (builder, "pass");
  json_builder_add_int_value (builder, counts->pass);
  json_builder_set_member_name (builder, "fail");
  json_builder_add_int_value (builder, counts->fail);
  json_builder_set_member_name (builder, "unsupported");
  json_builder_add_int_value (builder, counts->unsupported);
  json_builder_set_member_name (builder, "quirk");
  json_builder_add_int_value (builder, counts->quirk);
}

static void
add_string (JsonBuilder *builder,
            const char  *name,
            const char  *value)
{
  json_builder_set_member_name (builder, name);
  json_builder_add_string_value (builder, value);
}

static void
add_notes (JsonBuilder *builder,
           const char  *name,
           GPtrArray   *notes,
           gboolean     with_result)
{
  json_builder_set_member_name (builder, name);
  json_builder_begin_array (builder);
  for (guint i = 0; i < notes->len; i++)
    {
      Note *note = g_ptr_array_index (notes, i);

      json_builder_begin_object (builder);
      add_string (builder, "id", note->id);
      if (with_result)
        add_string (builder, "result", result_to_string (note->result));
      add_string (builder, "reason", note->reason);
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
}

static void
report_json (Runner *self,
             double  seconds)
{
  g_autoptr(JsonBuilder) builder = json_builder_new ();
  g_autoptr(JsonNode) root = NULL;
  g_autoptr(GPtrArray) reasons = sort_missing (self);
  g_autofree char *text = NULL;

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "totals");
  json_builder_begin_object (builder);
  add_counts (builder, &self->totals);
  json_builder_end_object (builder);

  json_builder_set_member_name (builder, "suites");
  json_builder_begin_array (builder);
  for (guint i = 0; i < self->suites->len; i++)
    {
      Suite *suite = g_ptr_array_index (self->suites, i);

      json_builder_begin_object (builder);
      add_string (builder, "suite", suite->name);
      add_counts (builder, &suite->counts);
      json_builder_set_member_name (builder, "refused_by_mapping");
      json_builder_add_int_value (builder, suite->by_mapping);
      json_builder_set_member_name (builder, "operators");
      json_builder_begin_array (builder);
      for (guint j = 0; j < suite->operators->len; j++)
        {
          Bucket *bucket = g_ptr_array_index (suite->operators, j);

          json_builder_begin_object (builder);
          add_string (builder, "op", bucket->name);
          add_counts (builder, &bucket->counts);
          json_builder_end_object (builder);
        }
      json_builder_end_array (builder);
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);

  add_notes (builder, "failures", self->failures, FALSE);
  add_notes (builder, "quirks", self->quirks, TRUE);
  json_builder_set_member_name (builder, "unsupported");
  json_builder_begin_array (builder);
  for (guint i = 0; i < reasons->len; i++)
    {
      json_builder_begin_object (builder);
      add_string (builder, "reason", reasons->pdata[i]);
      json_builder_set_member_name (builder, "cases");
      json_builder_add_int_value (builder, GPOINTER_TO_UINT (g_hash_table_lookup (self->missing, reasons->pdata[i])));
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
  json_builder_set_member_name (builder, "seconds");
  json_builder_add_double_value (builder, seconds);
  if (self->device != NULL)
    add_string (builder, "adapter", rlx_adapter_get_name (rlx_device_get_adapter (self->device)));
  json_builder_end_object (builder);

  root = json_builder_get_root (builder);
  text = json_to_string (root, TRUE);
  g_print ("%s\n", text);
}

/* ---- start --------------------------------------------------------------------------- */

/* The folder next to that of the project, if it exists. */
static char *
find_default_folder (void)
{
  const char *named = g_getenv ("RLX_CONFORMANCE_DIR");
  g_autofree char *beside = g_build_filename (CONFORMANCE_SOURCE_ROOT, "..", "shared", "conformance", NULL);

  if (named != NULL && *named != '\0')
    return g_strdup (named);
  if (g_file_test (beside, G_FILE_TEST_IS_DIR))
    return g_steal_pointer (&beside);
  return NULL;
}

static gboolean
parse_arguments (Runner *self,
                 int    *argc,
                 char ***argv)
{
  const GOptionEntry entries[] = {
    { "json", 0, 0, G_OPTION_ARG_NONE, &self->json, "Print the report as JSON", NULL },
    { "list", 0, 0, G_OPTION_ARG_NONE, &self->list, "Print the cases instead of running them", NULL },
    { "filter", 0, 0, G_OPTION_ARG_STRING, &self->filter,
      "Only cases whose identifier, SUITE/OPERATOR or operator matches", "GLOB" },
    { "known", 0, 0, G_OPTION_ARG_FILENAME, &self->known_file,
      "Cases that are wrong themselves, to report apart: lines of an identifier and why", "FILE" },
    { "strict", 0, 0, G_OPTION_ARG_NONE, &self->strict, "Take what is unsupported for a failure", NULL },
    { "verbose", 0, 0, G_OPTION_ARG_NONE, &self->verbose,
      "Print every case as it runs, all failures and what is unsupported", NULL },
    { G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &self->folders, NULL, "DIR…" },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GOptionContext) context = g_option_context_new (NULL);
  g_autoptr(GError) error = NULL;
  char *folder;

  g_option_context_add_main_entries (context, entries, NULL);
  g_option_context_set_summary (context,
                                "Runs the conformance cases in folders (or files) against the default device.\n"
                                "The status is 0 when no case fails, 1 when some do, 2 for wrong arguments or files,\n"
                                "77 when there is no GPU driver. Cases of operators that do not exist are unsupported,\n"
                                "not failed.");
  if (!g_option_context_parse (context, argc, argv, &error))
    {
      g_printerr ("rlx-conformance: %s\n", error->message);
      return FALSE;
    }

  if (self->known_file != NULL && !load_known (self))
    return FALSE;
  if (self->folders == NULL)
    {
      folder = find_default_folder ();
      if (folder == NULL)
        {
          g_printerr ("rlx-conformance: give the folder of the cases, or set RLX_CONFORMANCE_DIR\n");
          return FALSE;
        }
      self->folders = g_new0 (char *, 2);
      self->folders[0] = folder;
    }
  return TRUE;
}

int
main (int    argc,
      char **argv)
{
  Runner self = { 0 };
  gint64 start = g_get_monotonic_time ();

  setlocale (LC_ALL, "");
  self.suites = g_ptr_array_new_with_free_func (suite_free);
  self.failures = g_ptr_array_new_with_free_func (note_free);
  self.quirks = g_ptr_array_new_with_free_func (note_free);
  self.missing = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self.known = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);

  if (!parse_arguments (&self, &argc, &argv))
    self.status = EXIT_USAGE;
  else
    {
      gboolean complete = TRUE;

      for (guint i = 0; complete && self.folders[i] != NULL; i++)
        complete = take_folder (&self, self.folders[i]);
      if (complete && !self.list)
        {
          double seconds = (double) (g_get_monotonic_time () - start) / G_USEC_PER_SEC;

          if (self.json)
            report_json (&self, seconds);
          else
            report_text (&self, seconds);
          if (self.status == EXIT_OK && self.totals.fail > 0)
            self.status = EXIT_FAILS;
        }
    }

  g_ptr_array_unref (self.suites);
  g_ptr_array_unref (self.failures);
  g_ptr_array_unref (self.quirks);
  g_hash_table_unref (self.missing);
  g_hash_table_unref (self.known);
  g_free (self.filter);
  g_free (self.known_file);
  g_strfreev (self.folders);
  return self.status;
}
