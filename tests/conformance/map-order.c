/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The operators of ONNX that are about order.
 */
#include "config.h"

#include "map-onnx.h"

gboolean
onnx_map_top_k (MapCall *call,
                GError **error)
{
  RlxNode *node = map_input (call, 0, FALSE, error);
  g_autofree gint64 *counts = NULL;
  g_autofree RlxNode **results = NULL;
  g_autoptr(GVariant) attrs = NULL;
  gboolean largest;
  gsize n_counts, n_results;
  gint64 axis, k = -1;

  if (node == NULL ||
      !map_arg_int (call, "axis", -1, &axis, error) ||
      !map_arg_bool (call, "largest", TRUE, &largest, error))
    return FALSE;

  /* an attribute before version 10 */
  if (map_has_input (call, 1))
    {
      counts = map_input_ints (call, 1, &n_counts, error);
      if (counts == NULL)
        return FALSE;
      if (n_counts != 1)
        return map_refused (error, "TopK: there is not one k");
      k = counts[0];
    }
  else if (!map_arg_int (call, "k", -1, &k, error))
    {
      return FALSE;
    }

  attrs = g_variant_ref_sink (map_attrs ("k", g_variant_new_int64 (k),
                                         "axis", g_variant_new_int64 (axis),
                                         "largest", g_variant_new_boolean (largest),
                                         "index_type", map_data_type (RLX_DATA_TYPE_I64), NULL));
  results = rlx_graph_add_op (build_get_graph (call->build), call->mapping->op, &node, 1, attrs, &n_results, error);
  if (results == NULL)
    return FALSE;

  for (guint i = 0; i < n_results; i++)
    if (map_wants_output (call, i) && !map_return (call, i, results[i]))
      return FALSE;
  return TRUE;
}
