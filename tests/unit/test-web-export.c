/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Exports for browsers, as programs call them. What is in the files is tested by what runs
 * them: tests/web.
 */
#include "config.h"

#include <glib/gstdio.h>
#include <rlx-wgpu/rlx-wgpu.h>

#include "rlx-test-weights.h"

typedef struct
{
  RlxGraph *graph;
  RlxWebExport *export;
  char *path;
  GFile *folder;
} Fixture;

static void
set_up (Fixture      *fixture,
        gconstpointer data G_GNUC_UNUSED)
{
  RlxNode *x, *w;
  g_autoptr(GError) error = NULL;

  fixture->graph = rlx_graph_new ();
  x = rlx_graph_input (fixture->graph, "x", RLX_DATA_TYPE_F32, RLX_INT_ARRAY (2, 3), &error);
  w = rlx_graph_parameter (fixture->graph, "w", RLX_DATA_TYPE_F32, RLX_INT_ARRAY (3, 2), &error);
  rlx_graph_output (fixture->graph, "y", rlx_node_matmul (x, w, NULL, &error), &error);
  g_assert_no_error (error);
  fixture->export = rlx_web_export_new (fixture->graph);
  fixture->path = g_dir_make_tmp ("rlx-test-XXXXXX", &error);
  g_assert_no_error (error);
  fixture->folder = g_file_new_build_filename (fixture->path, "site", NULL);
}

static void
tear_down (Fixture      *fixture,
           gconstpointer data G_GNUC_UNUSED)
{
  const char *const names[] = { "site", "" };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autofree char *path = g_build_filename (fixture->path, names[i], NULL);
      g_autoptr(GDir) dir = g_dir_open (path, 0, NULL);
      const char *name;

      while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
        {
          g_autofree char *child = g_build_filename (path, name, NULL);

          g_remove (child);
        }
      g_rmdir (path);
    }
  g_clear_object (&fixture->folder);
  g_clear_object (&fixture->export);
  g_clear_object (&fixture->graph);
  g_free (fixture->path);
}

static gboolean
has_file (Fixture    *fixture,
          const char *name)
{
  g_autoptr(GFile) file = g_file_get_child (fixture->folder, name);

  return g_file_query_exists (file, NULL);
}

static void
on_done (GObject      *source G_GNUC_UNUSED,
         GAsyncResult *result,
         gpointer      data)
{
  *(GAsyncResult **) data = g_object_ref (result);
}

static void
count (guint *n)
{
  ++*n;
}

static void
test_async (Fixture      *fixture,
            gconstpointer data G_GNUC_UNUSED)
{
  g_autoptr(RlxTensor) w = rlx_tensor_new_from_floats (RLX_INT_ARRAY (3, 2), RLX_FLOAT_ARRAY (1, 0, 0, 1, 1, 1), NULL);
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GError) error = NULL;
  guint n_told = 0;

  g_signal_connect_swapped (fixture->export, "notify::progress", G_CALLBACK (count), &n_told);
  g_assert_true (rlx_web_export_set_parameters (fixture->export, ((const char *const[]) { "w", NULL }), &w, 1, &error));
  g_assert_no_error (error);
  g_assert_cmpfloat (rlx_web_export_get_progress (fixture->export), ==, 0);
  rlx_web_export_write_async (fixture->export, fixture->folder, NULL, on_done, &result);
  while (result == NULL || n_told == 0)
    g_main_context_iteration (NULL, TRUE);
  g_assert_true (rlx_web_export_write_finish (fixture->export, result, &error));
  g_assert_no_error (error);
  g_assert_cmpfloat (rlx_web_export_get_progress (fixture->export), ==, 1);
  g_assert_true (has_file (fixture, "plan.json") && has_file (fixture, "rlx.js") && has_file (fixture, "index.html"));
}

/* Values from a file, or a name that is not in it. */
static void
test_weights (Fixture      *fixture,
              gconstpointer data G_GNUC_UNUSED)
{
  static const char header[] = "{\"w\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]}}";
  g_autoptr(GBytes) bytes = rlx_test_make_simple (header, 24);
  g_autoptr(RlxWeights) weights = NULL;
  g_autoptr(GAsyncResult) result = NULL, refused = NULL;
  g_autoptr(GError) error = NULL;

  weights = rlx_weights_new_from_bytes (bytes, &error);
  g_assert_no_error (error);
  rlx_web_export_set_parameters_from_async (fixture->export, weights, g_variant_new_parsed ("{'w': 'v'}"), NULL, on_done, &refused);
  while (refused == NULL)
    g_main_context_iteration (NULL, TRUE);
  g_assert_false (rlx_web_export_set_parameters_from_finish (fixture->export, refused, &error));
  g_assert_error (error, RLX_WEIGHTS_ERROR, RLX_WEIGHTS_ERROR_NOT_FOUND);
  g_clear_error (&error);

  rlx_web_export_set_parameters_from_async (fixture->export, weights, NULL, NULL, on_done, &result);
  while (result == NULL)
    g_main_context_iteration (NULL, TRUE);
  g_assert_true (rlx_web_export_set_parameters_from_finish (fixture->export, result, &error));
  g_assert_no_error (error);
  g_assert_true (rlx_web_export_write (fixture->export, fixture->folder, NULL, &error));
  g_assert_no_error (error);
}

static void
test_cancelled (Fixture      *fixture,
                gconstpointer data G_GNUC_UNUSED)
{
  g_autoptr(GCancellable) cancellable = g_cancellable_new ();
  g_autoptr(GError) error = NULL;

  g_cancellable_cancel (cancellable);
  g_assert_false (rlx_web_export_write (fixture->export, fixture->folder, cancellable, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_assert_false (has_file (fixture, "plan.json"));
}

static void
test_refused (Fixture      *fixture,
              gconstpointer data G_GNUC_UNUSED)
{
  g_autoptr(RlxTensor) w = rlx_tensor_new_from_floats (RLX_INT_ARRAY (2, 3), RLX_FLOAT_ARRAY (1, 0, 0, 1, 1, 1), NULL);
  g_autoptr(RlxCompileOptions) options = rlx_compile_options_new ();
  g_autoptr(GError) error = NULL;

  g_assert_false (rlx_web_export_set_parameters (fixture->export, ((const char *const[]) { "w", NULL }), &w, 1, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_SHAPE);
  g_clear_error (&error);
  g_assert_false (rlx_web_export_set_parameters (fixture->export, ((const char *const[]) { "v", NULL }), &w, 1, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_NOT_FOUND);
  g_clear_error (&error);

  /* An example that does not fit the graph. */
  rlx_web_export_set_check (fixture->export, &w, 1, &w, 1, 0);
  g_assert_false (rlx_web_export_write (fixture->export, fixture->folder, NULL, &error));
  g_assert_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_SHAPE);
  g_clear_error (&error);
  g_assert_false (has_file (fixture, "plan.json"));

  rlx_compile_options_set_checked (options, TRUE);
  rlx_web_export_set_options (fixture->export, options);
  g_assert_false (rlx_web_export_write (fixture->export, fixture->folder, NULL, &error));
  g_assert_error (error, RLX_COMPILE_ERROR, RLX_COMPILE_ERROR_UNSUPPORTED);
}

static void
test_properties (Fixture      *fixture,
                 gconstpointer data G_GNUC_UNUSED)
{
  g_auto(GStrv) targets = NULL;
  g_autoptr(RlxGraph) graph = NULL;

  rlx_web_export_set_targets (fixture->export, ((const char *const[]) { "lavapipe", "minimum", NULL }));
  g_object_get (fixture->export, "targets", &targets, "graph", &graph, NULL);
  g_assert_cmpuint (g_strv_length (targets), ==, 2);
  g_assert_true (graph == fixture->graph);
  rlx_web_export_set_targets (fixture->export, NULL);
  g_assert_cmpstr (rlx_web_export_get_targets (fixture->export)[0], ==, "minimum");
  g_assert_null (rlx_web_export_get_options (fixture->export));
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

#define ADD(name, test) g_test_add ("/web-export/" name, Fixture, NULL, set_up, test, tear_down)
  ADD ("async", test_async);
  ADD ("weights", test_weights);
  ADD ("cancelled", test_cancelled);
  ADD ("refused", test_refused);
  ADD ("properties", test_properties);
#undef ADD

  return g_test_run ();
}
