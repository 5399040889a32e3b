/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The operators of ONNX that are about order.
 */
#include "config.h"

#include "import/rlx-map-private.h"

gboolean
rlx_onnx_map_top_k (RlxMapCall *call,
                    GError    **error)
{
  RlxNode *node = rlx_map_input (call, 0, FALSE, error);
  g_autofree gint64 *counts = NULL;
  g_autofree RlxNode **results = NULL;
  g_autoptr(GVariant) attrs = NULL;
  gboolean largest;
  gsize n_counts, n_results;
  gint64 axis, k = -1;

  if (node == NULL ||
      !rlx_map_arg_int (call, "axis", -1, &axis, error) ||
      !rlx_map_arg_bool (call, "largest", TRUE, &largest, error))
    return FALSE;

  /* an attribute before version 10 */
  if (rlx_map_has_input (call, 1))
    {
      counts = rlx_map_input_ints (call, 1, &n_counts, error);
      if (counts == NULL)
        return FALSE;
      if (n_counts != 1)
        return rlx_map_refused (error, "TopK: k is not a single number");
      k = counts[0];
    }
  else if (!rlx_map_arg_int (call, "k", -1, &k, error))
    {
      return FALSE;
    }

  attrs = g_variant_ref_sink (rlx_map_attrs ("k", g_variant_new_int64 (k),
                                             "axis", g_variant_new_int64 (axis),
                                             "largest", g_variant_new_boolean (largest),
                                             "index_type", rlx_map_data_type (RLX_DATA_TYPE_I64), NULL));
  results = rlx_map_add_op (call, call->row->op, &node, 1, attrs, &n_results, error);
  if (results == NULL)
    return FALSE;

  for (guint i = 0; i < n_results; i++)
    if (rlx_map_wants_output (call, i) && !rlx_map_return (call, i, results[i]))
      return FALSE;
  return TRUE;
}
