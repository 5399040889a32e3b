/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * One command that shows everything at work: it compiles a small transformer,
 * runs it on the adapter found and compares with the plain f64 reference.
 */
#include "config.h"

#include <math.h>

#include "rlx-reference.h"
#include "rlx-tool.h"

#define N_RUNS 20

/* Outputs have a magnitude of 1 because of the final layer norm. A sum of K products in f32 has an error of about √K · 2⁻²⁴
 * relative to its magnitude; there are some 15 of them in sequence, and each layer norm or softmax may double an error. That
 * gives 1e-5, and the error of a wrong kernel is far more than ten times that. The bounds computed by the reference assume that
 * all roundings add up, so they are meaningless after that many layers. */
#define MAX_ERROR 1e-4

static const RlxEncoderConfig config = {
  .vocabulary = 1000, .sequence = 48, .width = 128, .heads = 4, .hidden = 512, .layers = 2,
};

static double
milliseconds_since (gint64 start)
{
  return (double) (g_get_monotonic_time () - start) * 1e-3;
}

static guint64
get_number (GVariant   *dict,
            const char *key)
{
  g_autoptr(GVariant) value = g_variant_lookup_value (dict, key, NULL);

  return g_variant_is_of_type (value, G_VARIANT_TYPE_UINT64) ? g_variant_get_uint64 (value) : g_variant_get_uint32 (value);
}

/* NaN counts as infinitely wrong. */
static double
find_error (const RlxReferenceValue *expected,
            RlxTensor               *got)
{
  gsize n;
  g_autofree double *values = rlx_reference_decode (got, &n);
  double worst = n == expected->n_elements ? 0 : INFINITY;

  for (gsize i = 0; i < MIN (n, expected->n_elements); i++)
    {
      double error = fabs (values[i] - expected->values[i]);

      worst = isnan (error) ? INFINITY : MAX (worst, error);
    }
  return worst;
}

static void
print_plan (GVariant *plan)
{
  g_autoptr(GVariant) kernels = g_variant_lookup_value (plan, "kernels", G_VARIANT_TYPE ("a{su}"));
  GVariantIter iter;
  const char *name;
  guint n;

  g_print ("\n%-24s %12s\n", "plan", "");
  g_print ("%-24s %12" G_GUINT64_FORMAT "\n", "dispatches", get_number (plan, "dispatches"));
  g_print ("%-24s %12" G_GUINT64_FORMAT "\n", "computed once", get_number (plan, "prologue"));
  g_print ("%-24s %12" G_GUINT64_FORMAT "\n", "pipelines", get_number (plan, "pipelines"));
  g_print ("%-24s %12" G_GUINT64_FORMAT "\n", "banks", get_number (plan, "banks"));
  g_print ("%-24s %12" G_GUINT64_FORMAT "\n", "arena bytes", get_number (plan, "arena-bytes"));
  g_print ("%-24s %12" G_GUINT64_FORMAT "\n", "weight bytes", get_number (plan, "weight-bytes"));
  g_variant_iter_init (&iter, kernels);
  while (g_variant_iter_next (&iter, "{&su}", &name, &n))
    g_print ("kernel %-17s %12u\n", name, n);
  g_print ("\n");
}

int
rlx_tool_demo (int    argc,
               char **argv)
{
  gboolean json = FALSE;
  const GOptionEntry entries[] = {
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, "Print JSON", NULL },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GError) error = NULL;
  RlxDevice *device = NULL;
  g_autoptr(RlxGraph) graph = NULL;
  g_autoptr(RlxExecutable) executable = NULL;
  g_autoptr(RlxTensor) tokens = NULL, y = NULL;
  g_autoptr(GPtrArray) expected = NULL;
  g_autoptr(GVariant) plan = NULL;
  RlxAdapter *adapter;
  double open_time, compile_time, times[N_RUNS], first = 0, median, worst;
  gboolean good;
  gint64 start;
  int status;

  if (!rlx_tool_parse (NULL,
                       "Compiles a small transformer encoder with seeded weights, runs it, and compares\n"
                       "the result with a plain reference in double precision. The exit status is 0\n"
                       "only if every element is within its error bound.",
                       entries, &argc, &argv, 0, 0, &status))
    return status;

  start = g_get_monotonic_time ();
  device = rlx_tool_open (&error);
  open_time = milliseconds_since (start);
  if (device == NULL || (graph = rlx_encoder_new (&config, &error)) == NULL)
    return rlx_tool_fail (error);

  start = g_get_monotonic_time ();
  executable = rlx_tool_build (device, graph, NULL, &error);
  compile_time = milliseconds_since (start);
  if (executable == NULL)
    return rlx_tool_fail (error);

  tokens = rlx_encoder_tokens (&config, 1);
  for (int i = -1; i < N_RUNS; i++)
    {
      g_autofree RlxTensor **outputs = NULL;
      gsize n;

      start = g_get_monotonic_time ();
      outputs = rlx_executable_run (executable, &tokens, 1, &n, NULL, &error);
      if (outputs == NULL)
        return rlx_tool_fail (error);
      /* the first run includes compilation in the driver */
      *(i < 0 ? &first : &times[i]) = milliseconds_since (start);
      g_clear_object (&y);
      y = outputs[0];
    }
  median = rlx_tool_median (times, N_RUNS);

  expected = rlx_reference_run (graph, &tokens, 1, NULL, NULL, 0, RLX_REFERENCE_NONE, &error);
  if (expected == NULL)
    return rlx_tool_fail (error);
  worst = find_error (g_ptr_array_index (expected, 0), y);
  good = worst <= MAX_ERROR;

  adapter = rlx_device_get_adapter (device);
  plan = rlx_executable_dup_plan (executable);
  if (json)
    {
      GVariantDict dict, brief;
      const char *keys[] = { "dispatches", "prologue", "pipelines", "banks", "arena-bytes", "live-bytes", "weight-bytes", "kernels" };

      g_variant_dict_init (&brief, NULL);
      for (gsize i = 0; i < G_N_ELEMENTS (keys); i++)
        {
          g_autoptr(GVariant) value = g_variant_lookup_value (plan, keys[i], NULL);
          g_variant_dict_insert_value (&brief, keys[i], value);
        }
      g_variant_dict_init (&dict, NULL);
      g_variant_dict_insert (&dict, "adapter", "s", rlx_adapter_get_name (adapter));
      g_variant_dict_insert (&dict, "driver", "s", rlx_adapter_get_driver (adapter));
      g_variant_dict_insert_value (&dict, "plan", g_variant_dict_end (&brief));
      g_variant_dict_insert (&dict, "open_ms", "d", open_time);
      g_variant_dict_insert (&dict, "compile_ms", "d", compile_time);
      g_variant_dict_insert (&dict, "first_ms", "d", first);
      g_variant_dict_insert (&dict, "median_ms", "d", median);
      g_variant_dict_insert (&dict, "max_error", "d", worst);
      g_variant_dict_insert (&dict, "bound", "d", MAX_ERROR);
      g_variant_dict_insert (&dict, "pass", "b", good);
      rlx_tool_print_json (g_variant_dict_end (&dict));
    }
  else
    {
      g_print ("A transformer encoder: %" G_GINT64_FORMAT " tokens, %u layers, width %" G_GINT64_FORMAT ", %" G_GINT64_FORMAT " heads, hidden %" G_GINT64_FORMAT "\n",
               config.sequence, config.layers, config.width, config.heads, config.hidden);
      g_print ("adapter  %s (%s)\n", rlx_adapter_get_name (adapter), rlx_adapter_get_backend (adapter));
      g_print ("driver   %s\n", rlx_adapter_get_driver (adapter));
      print_plan (plan);
      g_print ("open     %.1f ms\n", open_time);
      g_print ("compile  %.1f ms\n", compile_time);
      g_print ("run      %.2f ms median of %d (first %.1f ms)\n", median, N_RUNS, first);
      g_print ("error    %.3g at most against the f64 reference, bound %g: %s\n", worst, MAX_ERROR, good ? "correct" : "WRONG");
    }
  return good ? RLX_TOOL_OK : RLX_TOOL_FAILED;
}
