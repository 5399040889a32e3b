/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Norms of WebNN.
 */
#include "config.h"

#include "map-norm.h"

#include <math.h>
#include <string.h>

static GVariant *
layout_attr (gboolean last)
{
  return g_variant_new_string (last ? "channels-last" : "channels-first");
}

/* The operands by name, all of the same type. NULL for an absent optional one. */
static gboolean
get_operands (MapCall           *call,
              const char *const *names,
              gsize              n_required,
              gsize              n,
              RlxNode          **operands,
              GError           **error)
{
  for (gsize i = 0; i < n; i++)
    {
      operands[i] = NULL;
      if (i >= n_required && map_arg (call, names[i]) == NULL)
        continue;
      operands[i] = map_operand (call, names[i], FALSE, error);
      if (operands[i] == NULL)
        return FALSE;
      if (rlx_node_get_data_type (operands[i]) != rlx_node_get_data_type (operands[0]))
        return map_refused (error, "%s: the %s is %s, the input %s", call->op->name, names[i],
                            rlx_data_type_to_string (rlx_node_get_data_type (operands[i])),
                            rlx_data_type_to_string (rlx_node_get_data_type (operands[0])));
    }
  return TRUE;
}

/* A WebIDL double is finite. */
static gboolean
get_epsilon (MapCall *call,
             double  *epsilon,
             GError **error)
{
  if (!map_arg_double (call, "epsilon", 1e-5, epsilon, error))
    return FALSE;
  if (!isfinite (*epsilon))
    return map_refused (error, "%s: epsilon is not finite", call->op->name);
  return TRUE;
}

gboolean
webnn_map_batch_norm (MapCall *call,
                      GError **error)
{
  static const char *const names[] = { "input", "mean", "variance", "scale", "bias" };
  RlxNode *operands[5];
  double epsilon;
  gint64 axis;

  if (!get_operands (call, names, 3, 5, operands, error) ||
      !get_epsilon (call, &epsilon, error) ||
      !map_arg_int (call, "axis", 1, &axis, error))
    return FALSE;
  if (axis < 0)
    return map_refused (error, "batchNormalization: the axis is %" G_GINT64_FORMAT, axis);
  return map_return (call, 0, map_op (call, "batch_norm", operands, 5,
                                      map_attrs ("axis", g_variant_new_int64 (axis),
                                                 "epsilon", g_variant_new_double (epsilon), NULL),
                                      error));
}

gboolean
webnn_map_instance_norm (MapCall *call,
                         GError **error)
{
  static const char *const names[] = { "input", "scale", "bias" };
  const char *layout = map_arg_string (call, "layout", NULL);
  RlxNode *operands[3];
  double epsilon;

  if (!get_operands (call, names, 1, 3, operands, error) || !get_epsilon (call, &epsilon, error))
    return FALSE;
  if (rlx_node_get_n_dims (operands[0]) != 4)
    return map_refused (error, "instanceNormalization: the input has %u dimensions, not 4", rlx_node_get_n_dims (operands[0]));
  if (layout != NULL && !g_str_equal (layout, "nchw") && !g_str_equal (layout, "nhwc"))
    return map_refused (error, "instanceNormalization: there is no layout “%s”", layout);
  return map_return (call, 0, map_op (call, "instance_norm", operands, 3,
                                      map_attrs ("layout", layout_attr (g_strcmp0 (layout, "nhwc") == 0),
                                                 "epsilon", g_variant_new_double (epsilon), NULL),
                                      error));
}
