/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Whether the kernels are right on a device. What tries them is the program rlx-verify,
 * which has the reference and the generators of the tests in it, and private parts of the
 * library: none of that belongs into the library, or here. This starts it, starts it again
 * where the driver took it down, and keeps what it tells.
 */
#include "config.h"

#include <glib-unix.h>
#include <string.h>
#include <unistd.h>

#include "rlx-tool.h"
#include "rlx-verify-report.h"

/* A case is only silent for so long if its driver hangs: jobs on a device have their own time-out. The time is counted in
 * ticks, so that time for which the processes are stopped (Ctrl-Z) does not count. */
#define SILENCE_S 300
#define TICK_S 10
/* A process that does not end within this time of being killed is stuck in the driver. */
#define END_S 10

typedef struct
{
  char *program;
  RlxAdapter *adapter;
  char **names;             /* nullable */
  gboolean quick;
  RlxVerifyReport *report;

  GMainLoop *loop;
  GSubprocess *process;     /* NULL between processes */
  GDataInputStream *lines;
  guint silence;            /* source ID */
  guint n_silent;           /* ticks */
  guint ending;             /* source ID */
  gboolean hung;
  gboolean interrupted;
  gboolean shows;           /* a progress bar */
  char *problem;            /* why it cannot continue; nullable */
} Verify;

static void start (Verify *self);

/* Bans the variant from being selected on this device. */
static void
ban (Verify *self)
{
  const char *family, *variant;
  g_autoptr(GError) error = NULL;

  if (!rlx_verify_report_get_variant (self->report, &family, &variant))
    return;
  if (rlx_private_adapter_ban (self->adapter, family, variant, &error))
    rlx_verify_report_add_ban (self->report, family, variant);
  else
    g_printerr ("%s%s: %s\n", self->shows ? "\r\033[K" : "", g_get_prgname (), error->message);
}

static void
add_failure (Verify     *self,
             const char *problem,
             const char *message)
{
  GVariantDict dict;

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "problem", "s", problem);
  g_variant_dict_insert (&dict, "message", "s", message);
  rlx_verify_report_add (self->report, "failure", g_variant_dict_end (&dict));
  ban (self);
}

static void
take_line (Verify     *self,
           const char *line)
{
  /* Drivers may print to standard output as well, so other lines are ignored. */
  g_autoptr(GVariant) parsed = g_variant_parse (G_VARIANT_TYPE ("(sa{sv})"), line, NULL, NULL, NULL);
  g_autoptr(GVariant) dict = NULL;
  const char *kind;

  if (parsed == NULL)
    return;
  g_variant_get (parsed, "(&s@a{sv})", &kind, &dict);
  rlx_verify_report_add (self->report, kind, dict);
  if (g_str_equal (kind, "failure"))
    ban (self);
  if (self->shows)
    {
      g_autofree char *what = rlx_verify_report_describe_case (self->report);

      rlx_tool_show_progress (rlx_verify_report_get_progress (self->report), what);
    }
}

/* How the process ended unexpectedly; NULL if the case reported the reason itself. */
static char *
describe_end (Verify *self)
{
  if (self->hung)
    return g_strdup_printf ("nothing happened for %d seconds", SILENCE_S);
  if (g_subprocess_get_if_signaled (self->process))
    return g_strdup_printf ("the process was ended by signal %d (%s)", g_subprocess_get_term_sig (self->process),
                            g_strsignal (g_subprocess_get_term_sig (self->process)));
  return g_strdup_printf ("the process ended with the status %d", g_subprocess_get_exit_status (self->process));
}

static gboolean
on_stuck (gpointer data)
{
  Verify *self = data;

  self->ending = 0;
  self->problem = g_strdup ("the process cannot be ended");
  if (self->hung && rlx_verify_report_is_in_case (self->report) && !rlx_verify_report_has_lost (self->report))
    {
      g_autofree char *end = describe_end (self);

      add_failure (self, "hang", end);
    }
  g_main_loop_quit (self->loop);
  return G_SOURCE_REMOVE;
}

static void
end_process (Verify *self)
{
  g_subprocess_force_exit (self->process);
  if (self->ending == 0)
    self->ending = g_timeout_add_seconds (END_S, on_stuck, self);
}

static gboolean
on_silence (gpointer data)
{
  Verify *self = data;

  if (++self->n_silent < SILENCE_S / TICK_S)
    return G_SOURCE_CONTINUE;
  self->silence = 0;
  self->hung = TRUE;
  end_process (self);
  return G_SOURCE_REMOVE;
}

static void
watch_silence (Verify *self)
{
  self->n_silent = 0;
  self->silence = g_timeout_add_seconds (TICK_S, on_silence, self);
}

static gboolean
on_interrupt (gpointer data)
{
  Verify *self = data;

  self->interrupted = TRUE;
  if (self->process != NULL)
    end_process (self);
  return G_SOURCE_CONTINUE;
}

/* A case that crashed its process is not repeated; the remaining ones are run in a new one. */
static void
on_end (GObject      *source,
        GAsyncResult *result,
        gpointer      data)
{
  Verify *self = data;
  g_autofree char *end = NULL;

  g_subprocess_wait_finish (G_SUBPROCESS (source), result, NULL);
  g_clear_handle_id (&self->silence, g_source_remove);
  g_clear_handle_id (&self->ending, g_source_remove);
  end = describe_end (self);
  if (!self->interrupted && !rlx_verify_report_is_complete (self->report))
    {
      if (!rlx_verify_report_is_in_case (self->report))
        self->problem = g_strdup_printf ("the device cannot be used any more: %s", end);
      else if (!rlx_verify_report_has_lost (self->report))
        add_failure (self, self->hung ? "hang" : "crash", end);
    }
  g_clear_object (&self->lines);
  g_clear_object (&self->process);
  self->hung = FALSE;
  if (self->interrupted || self->problem != NULL || !rlx_verify_report_go_on (self->report))
    g_main_loop_quit (self->loop);
  else
    start (self);
}

static void read_line (Verify *self);

static void
on_line (GObject      *source,
         GAsyncResult *result,
         gpointer      data)
{
  Verify *self = data;
  g_autoptr(GError) error = NULL;
  g_autofree char *line = g_data_input_stream_read_line_finish_utf8 (G_DATA_INPUT_STREAM (source), result, NULL, &error);

  g_clear_handle_id (&self->silence, g_source_remove);
  if (line != NULL)
    take_line (self, line);
  /* What a driver prints need not be UTF-8. */
  if (line != NULL || g_error_matches (error, G_CONVERT_ERROR, G_CONVERT_ERROR_ILLEGAL_SEQUENCE))
    {
      read_line (self);
      return;
    }
  /* It may have closed its output and hang. */
  watch_silence (self);
  g_subprocess_wait_async (self->process, NULL, on_end, self);
}

static void
read_line (Verify *self)
{
  watch_silence (self);
  g_data_input_stream_read_line_async (self->lines, G_PRIORITY_DEFAULT, NULL, on_line, self);
}

/* The program has the library in it, so its build differs and it does not find what is stored for this one. */
static void
add_stored_bans (Verify    *self,
                 GPtrArray *arguments)
{
  g_auto(GStrv) bans = rlx_private_adapter_list_bans (self->adapter);

  for (char **name = bans; *name != NULL; name++)
    g_ptr_array_add (arguments, g_strdup_printf ("--banned=%s", *name));
}

static void
start (Verify *self)
{
  g_autoptr(GPtrArray) arguments = g_ptr_array_new_with_free_func (g_free);
  g_autoptr(GError) error = NULL;

  g_ptr_array_add (arguments, g_strdup (self->program));
  if (self->quick)
    g_ptr_array_add (arguments, g_strdup ("--quick"));
  rlx_verify_report_add_arguments (self->report, arguments);
  add_stored_bans (self, arguments);
  for (char **name = self->names; name != NULL && *name != NULL; name++)
    g_ptr_array_add (arguments, g_strdup (*name));
  g_ptr_array_add (arguments, NULL);
  self->process = g_subprocess_newv ((const char *const *) arguments->pdata, G_SUBPROCESS_FLAGS_STDOUT_PIPE, &error);
  if (self->process == NULL)
    {
      self->problem = g_strdup (error->message);
      g_main_loop_quit (self->loop);
      return;
    }
  self->lines = g_data_input_stream_new (g_subprocess_get_stdout_pipe (self->process));
  read_line (self);
}

static void
verify (Verify *self)
{
  guint interrupt = g_unix_signal_add (SIGINT, on_interrupt, self), terminate = g_unix_signal_add (SIGTERM, on_interrupt, self);

  self->loop = g_main_loop_new (NULL, FALSE);
  start (self);
  if (self->problem == NULL)
    g_main_loop_run (self->loop);
  g_main_loop_unref (self->loop);
  g_source_remove (interrupt);
  g_source_remove (terminate);
  if (self->shows)
    g_printerr ("\r\033[K");
}

/* ---- the command -------------------------------------------------------------------------- */

/* Finds the program beside this one in the build folder, or where it is installed, even if the installation was moved. */
static char *
find_program (void)
{
  static const char *const places[] = { "verify", RLX_VERIFY_FOLDER };
  g_autofree char *link = g_file_read_link ("/proc/self/exe", NULL);
  g_autofree char *self = link != NULL ? g_steal_pointer (&link) : g_find_program_in_path ("rlx");
  g_autofree char *folder = self != NULL ? g_path_get_dirname (self) : NULL;

  for (guint i = 0; folder != NULL && i < G_N_ELEMENTS (places); i++)
    {
      char *path = g_build_filename (folder, places[i], "rlx-verify", NULL);

      if (g_file_test (path, G_FILE_TEST_IS_EXECUTABLE))
        return path;
      g_free (path);
    }
  return NULL;
}

/* Splits names that are separated by commas. */
static gboolean
check_names (char ***names)
{
  g_auto(GStrv) known = rlx_operators_list ();
  g_autofree char *all = *names != NULL ? g_strjoinv (",", *names) : NULL;

  if (all == NULL)
    return TRUE;
  g_strfreev (*names);
  *names = g_strsplit (all, ",", -1);
  for (char **name = *names; *name != NULL; name++)
    if (!g_strv_contains ((const char *const *) known, *name))
      {
        g_printerr ("%s: there is no operator “%s”; see rlx ops\n", g_get_prgname (), *name);
        return FALSE;
      }
  return TRUE;
}

int
rlx_tool_verify (int    argc,
                 char **argv)
{
  gboolean json = FALSE;
  g_autofree char *output = NULL;
  g_auto(GStrv) names = NULL;
  Verify self = { 0 };
  const GOptionEntry entries[] = {
    { "only", 0, 0, G_OPTION_ARG_STRING_ARRAY, &names, "Try these operators alone", "OPERATOR,…" },
    { "quick", 0, 0, G_OPTION_ARG_NONE, &self.quick, "Try a sample of each", NULL },
    { "output", 'o', 0, G_OPTION_ARG_FILENAME, &output, "Where the report goes", "FILE" },
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, "Print the report as JSON", NULL },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GError) error = NULL;
  RlxDevice *device;
  gboolean right;
  int status;

  if (!rlx_tool_parse (NULL, "Computes every operator by each of its kernels and compares the results with a reference.", entries, &argc, &argv, 0, 0, &status))
    return status;
  if (!check_names (&names))
    return RLX_TOOL_USAGE;
  self.program = find_program ();
  if (self.program == NULL)
    {
      g_printerr ("%s: the program rlx-verify is not installed: the library was built without it\n", g_get_prgname ());
      return RLX_TOOL_FAILED;
    }
  if ((device = rlx_tool_open (&error)) == NULL)
    return rlx_tool_fail (error);

  self.adapter = rlx_device_get_adapter (device);
  self.names = names;
  self.shows = isatty (STDERR_FILENO) != 0;
  self.report = rlx_verify_report_new (device, names, self.quick);
  verify (&self);
  if (self.problem == NULL && rlx_verify_report_is_complete (self.report) && rlx_verify_report_is_empty (self.report))
    self.problem = g_strdup ("there is nothing to try");
  if (self.problem != NULL)
    g_printerr ("%s: %s\n", g_get_prgname (), self.problem);
  right = rlx_verify_report_end (self.report, self.problem);
  if (!json)
    rlx_verify_report_print (self.report);
  if (!json || output != NULL)
    right = rlx_verify_report_write (self.report, output, !json) && right;
  if (json)
    rlx_verify_report_print_json (self.report);
  rlx_verify_report_free (self.report);
  g_free (self.problem);
  g_free (self.program);
  return right ? RLX_TOOL_OK : RLX_TOOL_FAILED;
}
