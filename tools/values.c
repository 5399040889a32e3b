/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What a graph computes on its way: `rlx run --values`.
 */
#include "config.h"

#include <math.h>

#include "rlx-tool.h"

gsize
rlx_tool_add_values (RlxGraph *graph,
                     GError  **error)
{
  guint n_nodes = g_list_model_get_n_items (G_LIST_MODEL (graph));
  gsize n = 0;

  for (guint i = 0; i < n_nodes; i++)
    {
      g_autoptr(RlxNode) node = g_list_model_get_item (G_LIST_MODEL (graph), i);
      g_autofree char *name = g_strdup_printf ("values of node %u", i);

      if (!rlx_graph_output (graph, name, node, error))
        return 0;
      n++;
    }
  return n;
}

void
rlx_tool_print_values (RlxGraph   *graph,
                       RlxTensor **values,
                       gsize       n_values)
{
  g_autofree char *bad = NULL;

  g_printerr ("%12s %12s %9s %9s  node\n", "largest", "mean", "NaN", "infinite");
  for (gsize i = 0; i < n_values; i++)
    {
      g_autoptr(RlxNode) node = g_list_model_get_item (G_LIST_MODEL (graph), (guint) i);
      g_autofree char *text = rlx_node_to_string (node);
      gint64 n = rlx_tensor_get_n_elements (values[i]), n_nan = 0, n_infinite = 0;
      double largest = 0, sum = 0;

      for (gint64 j = 0; j < n; j++)
        {
          double value = rlx_tensor_get_value (values[i], j);

          n_nan += isnan (value) != 0;
          n_infinite += isinf (value) != 0;
          if (isfinite (value))
            {
              largest = fmax (largest, fabs (value));
              sum += value;
            }
        }
      /* The mean of the finite elements. */
      g_printerr ("%12.6g %12.6g %9" G_GINT64_FORMAT " %9" G_GINT64_FORMAT "  %s\n",
               largest, n > n_nan + n_infinite ? sum / (double) (n - n_nan - n_infinite) : 0, n_nan, n_infinite, text);
      if (bad == NULL && n_nan + n_infinite > 0)
        bad = g_steal_pointer (&text);
    }
  if (bad != NULL)
    g_printerr ("the first that is not finite: %s\n", bad);
}
