/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-tool.h"

#define MAX_RUNS 1000
/* The maximum number of bars; the last one combines the rest. */
#define MAX_BARS 24

/* A bar: a step of the graph, or the sum of several. */
typedef struct
{
  char *label;
  char *kernel;
  double time;
} Bar;

static void
bar_clear (gpointer data)
{
  Bar *bar = data;

  g_free (bar->label);
  g_free (bar->kernel);
}

static int
compare_bars (gconstpointer a,
              gconstpointer b)
{
  double difference = ((const Bar *) b)->time - ((const Bar *) a)->time;

  return difference > 0 ? 1 : difference < 0 ? -1 : 0;
}

/* The median time of each step over several profiles. (element-type Bar) */
static GArray *
collect_bars (GPtrArray *profiles)
{
  GArray *bars = g_array_new (FALSE, TRUE, sizeof (Bar));
  guint n_steps = g_list_model_get_n_items (g_ptr_array_index (profiles, 0));
  g_autofree double *times = g_new (double, profiles->len);

  g_array_set_clear_func (bars, bar_clear);
  for (guint i = 0; i < n_steps; i++)
    {
      Bar bar = { NULL, };

      for (guint j = 0; j < profiles->len; j++)
        {
          g_autoptr(RlxProfileStep) step = g_list_model_get_item (g_ptr_array_index (profiles, j), i);

          times[j] = rlx_profile_step_get_time (step);
          if (j > 0)
            continue;
          bar.label = g_strdup_printf ("%s %s", rlx_profile_step_get_op (step), rlx_profile_step_get_node (step));
          bar.kernel = g_strdup (rlx_profile_step_get_kernel (step));
        }
      bar.time = rlx_tool_median (times, profiles->len);
      g_array_append_val (bars, bar);
    }
  return bars;
}

/* Coordinates are integers because printf() writes fractions in the locale's format. */
static void
append_text (GString    *svg,
             guint       x,
             guint       y,
             const char *attributes,
             const char *text)
{
  g_autofree char *escaped = g_markup_escape_text (text, -1);

  g_string_append_printf (svg, "  <text x=\"%u\" y=\"%u\"%s>%s</text>\n", x, y, attributes, escaped);
}

static char *
draw_bars (GArray     *all,
           const char *title)
{
  const guint width = 900, left = 300, room = 440, row = 22, top = 56;
  GString *svg = g_string_new (NULL);
  g_autoptr(GArray) bars = g_array_new (FALSE, TRUE, sizeof (Bar));
  g_autofree char *head = NULL;
  double total = 0, longest = 0, rest = 0;

  for (guint i = 0; i < all->len; i++)
    total += g_array_index (all, Bar, i).time;
  g_array_append_vals (bars, all->data, all->len);
  g_array_sort (bars, compare_bars);
  for (guint i = MAX_BARS; i < bars->len; i++)
    rest += g_array_index (bars, Bar, i).time;
  if (bars->len > 0)
    longest = MAX (g_array_index (bars, Bar, 0).time, rest);

  g_string_append_printf (svg,
                          "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %u %u\" font-family=\"sans-serif\" font-size=\"12\">\n"
                          "  <rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
                          width, top + row * MIN (bars->len, MAX_BARS + 1) + 12);
  head = g_strdup_printf ("%u steps, %.0f µs by the device's clock", all->len, total * 1e6);
  append_text (svg, 16, 24, " font-size=\"15\" font-weight=\"bold\"", title);
  append_text (svg, 16, 42, " fill=\"#555\"", head);
  for (guint i = 0; i < MIN (bars->len, MAX_BARS + 1); i++)
    {
      const Bar *bar = &g_array_index (bars, Bar, i);
      gboolean is_rest = i == MAX_BARS;
      double time = is_rest ? rest : bar->time;
      guint y = top + i * row, length = longest > 0 ? (guint) (time / longest * room + 0.5) : 0;
      g_autofree char *others = g_strdup_printf ("%u others", bars->len - MAX_BARS);
      g_autofree char *value = g_strdup_printf ("%.0f µs, %.0f %%", time * 1e6, total > 0 ? time / total * 100 : 0);
      g_autofree char *kernel = g_markup_escape_text (is_rest ? others : bar->kernel, -1);
      const char *label = is_rest ? others : bar->label;
      g_autofree char *cut = g_utf8_strlen (label, -1) > 44 ? g_utf8_substring (label, 0, 43) : NULL;
      g_autofree char *shown = g_strconcat (cut ? cut : label, cut ? "…" : "", NULL);

      append_text (svg, left - 8, y + 15, " text-anchor=\"end\"", shown);
      g_string_append_printf (svg, "  <rect x=\"%u\" y=\"%u\" width=\"%u\" height=\"%u\" fill=\"%s\"><title>%s</title></rect>\n",
                              left, y + 3, MAX (length, 1), row - 6, is_rest ? "#bbb" : "#3584e4", kernel);
      append_text (svg, left + length + 8, y + 15, " fill=\"#555\"", value);
    }
  g_string_append (svg, "</svg>\n");
  return g_string_free (svg, FALSE);
}

int
rlx_tool_profile (int    argc,
                  char **argv)
{
  g_autofree char *path = NULL;
  int n_runs = 5;
  const GOptionEntry entries[] = {
    { "output", 'o', 0, G_OPTION_ARG_FILENAME, &path, "Draw a bar chart into a file", "FILE.svg" },
    { "runs", 'n', 0, G_OPTION_ARG_INT, &n_runs, "The number of runs to take medians of (5)", "N" },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GError) error = NULL;
  g_autoptr(RlxGraph) graph = NULL;
  g_autoptr(RlxCompileOptions) options = rlx_compile_options_new ();
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(GPtrArray) inputs = NULL, profiles = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr(GArray) bars = NULL;
  RlxDevice *device = NULL;
  int status;

  if (!rlx_tool_parse ("GRAPH", "Shows where the time of a graph goes, on random inputs and parameters.", entries, &argc, &argv, 1, 1, &status))
    return status;
  if (n_runs < 1 || n_runs > MAX_RUNS)
    {
      g_printerr ("%s: --runs is %d; it can be 1 to %d\n", g_get_prgname (), n_runs, MAX_RUNS);
      return RLX_TOOL_USAGE;
    }
  rlx_compile_options_set_profiling (options, TRUE);
  if ((graph = rlx_tool_load_graph (argv[1], &error)) == NULL ||
      (device = rlx_tool_open (&error)) == NULL ||
      (executable = rlx_tool_build (device, graph, options, &error)) == NULL ||
      (inputs = rlx_tool_random_inputs (graph, &error)) == NULL ||
      !rlx_tool_random_parameters (graph, executable, &error))
    return rlx_tool_fail (error);

  /* The first run is not representative. */
  for (int i = -1; i < n_runs; i++)
    {
      g_auto(RlxTensors) outputs = rlx_executable_run (executable, (RlxTensor **) inputs->pdata, inputs->len, NULL, NULL, &error);

      if (outputs == NULL)
        return rlx_tool_fail (error);
      if (i >= 0)
        g_ptr_array_add (profiles, rlx_executable_dup_profile (executable));
    }

  bars = collect_bars (profiles);
  if (path != NULL)
    {
      g_autofree char *name = g_path_get_basename (argv[1]);
      g_autofree char *title = g_strdup_printf ("%s on %s", name, rlx_adapter_get_name (rlx_device_get_adapter (device)));
      g_autofree char *svg = draw_bars (bars, title);

      return g_file_set_contents (path, svg, -1, &error) ? RLX_TOOL_OK : rlx_tool_fail (error);
    }
  g_array_sort (bars, compare_bars);
  for (guint i = 0; i < bars->len; i++)
    {
      const Bar *bar = &g_array_index (bars, Bar, i);

      g_print ("%8.1f µs  %-20s %s\n", bar->time * 1e6, bar->kernel, bar->label);
    }
  return RLX_TOOL_OK;
}
