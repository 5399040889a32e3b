/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Calls of gates and of what looks for neighbours.
 */
#include "config.h"

#include "rlx-prop-calls.h"

static gboolean
generate_gate (Call *call)
{
  static const struct { gint64 experts, k, groups, top; } sizes[] = {
    { 8, 2, 1, 1 }, { 16, 4, 4, 2 }, { 5, 5, 1, 1 }, { 6, 2, 6, 3 }, { 64, 6, 8, 3 },
  };
  gint64 shape[3] = { 2, 3, 0 };
  guint variant = call->variant % G_N_ELEMENTS (sizes);

  if (call->variant > 5)
    return FALSE;

  shape[2] = sizes[variant].experts;
  add_input (call, PROP_TAME, call->data_type, shape + variant % 3, 3 - variant % 3);
  if (call->variant % 2 == 1)
    add_input (call, PROP_TAME, RLX_DATA_TYPE_F32, shape + 2, 1);
  g_variant_dict_insert (call->attributes, "k", "x", sizes[variant].k);
  g_variant_dict_insert (call->attributes, "groups", "x", sizes[variant].groups);
  g_variant_dict_insert (call->attributes, "top_groups", "x", sizes[variant].top);
  g_variant_dict_insert (call->attributes, "scoring", "s", call->variant % 3 == 0 ? "softmax" : "sigmoid");
  g_variant_dict_insert (call->attributes, "normalize", "b", call->variant != 2);
  g_variant_dict_insert (call->attributes, "scale", "d", call->variant % 2 == 1 ? 2.5 : 1.0);
  return TRUE;
}

/* More than eight neighbours and fewer, with vectors of four and without, with lists in
 * registers and elsewhere. */
static gboolean
generate_points (Call *call)
{
  static const char *const metrics[] = { "euclidean", "squared", "cosine", "inner-product" };
  static const struct { gint64 n, m, width, k; } sizes[] = {
    { 20, 0, 8, 3 }, { 5, 7, 3, 7 }, { 40, 0, 4, 30 }, { 3, 11, 5, 2 }, { 2, 9, 0, 4 }, { 70, 0, 3, 8 },
  };
  gboolean pairs = g_str_equal (call->op->name, "pairwise_distance");
  gint64 points[3] = { 2, 0, 0 }, others[3] = { 2, 0, 0 };
  gsize first = call->variant % 2;

  if (call->variant >= G_N_ELEMENTS (sizes))
    return FALSE;

  points[1] = sizes[call->variant].n;
  others[1] = sizes[call->variant].m;
  points[2] = others[2] = sizes[call->variant].width;
  add_input (call, PROP_TAME, call->data_type, points + first, 3 - first);
  if (others[1] > 0)
    add_input (call, PROP_TAME, call->data_type, others + first, 3 - first);
  g_variant_dict_insert (call->attributes, "metric", "s", metrics[call->variant % 4]);
  if (!pairs)
    {
      g_variant_dict_insert (call->attributes, "k", "x", sizes[call->variant].k);
      g_variant_dict_insert (call->attributes, "exclude_self", "b", call->variant % 4 == 0 && others[1] == 0);
    }
  return TRUE;
}

static gboolean
generate_distances (Call *call)
{
  gint64 shape[3] = { 2, 9, call->variant == 1 ? 12 : 9 };

  if (call->variant > 2)
    return FALSE;

  add_input (call, call->variant == 2 ? PROP_WILD : PROP_TAME, call->data_type, shape + call->variant % 2, 3 - call->variant % 2);
  g_variant_dict_insert (call->attributes, "k", "x", (gint64) (call->variant == 2 ? 8 : 3));
  g_variant_dict_insert (call->attributes, "exclude_self", "b", call->variant != 1);
  return TRUE;
}

/* More boxes than a workgroup has invocations and fewer, more than are kept, and none. */
static gboolean
generate_boxes (Call *call)
{
  static const struct { gint64 batch, classes, n, keep; double overlap; } sizes[] = {
    { 2, 3, 9, 9, 0.3 }, { 1, 2, 200, 20, 0.1 }, { 1, 1, 5, 7, 0 }, { 2, 2, 12, 4, 1 }, { 1, 2, 0, 3, 0.5 }, { 1, 1, 6, 0, 0.5 }, { 1, 2, 8, 4, 0.5 },
  };
  gint64 boxes[3] = { 0, 0, 4 }, scores[3];

  if (call->variant >= G_N_ELEMENTS (sizes))
    return FALSE;

  boxes[0] = scores[0] = sizes[call->variant].batch;
  boxes[1] = scores[2] = sizes[call->variant].n;
  scores[1] = sizes[call->variant].classes;
  add_input (call, call->variant == 6 ? PROP_WILD : PROP_TAME, call->data_type, boxes, 3);
  add_input (call, call->variant == 6 ? PROP_WILD : PROP_TAME, call->data_type, scores, 3);
  g_variant_dict_insert (call->attributes, "max_boxes", "x", sizes[call->variant].keep);
  g_variant_dict_insert (call->attributes, "overlap", "d", sizes[call->variant].overlap);
  if (call->variant % 2 == 0)
    g_variant_dict_insert (call->attributes, "score", "d", -0.25);
  g_variant_dict_insert (call->attributes, "center", "b", call->variant % 3 == 1);
  return TRUE;
}

const PropRow prop_neighbours_rows[] = {
  { "moe_gate", generate_gate },
  { "pairwise_distance", generate_points },
  { "knn", generate_points },
  { "knn_from_distances", generate_distances },
  { "non_max_suppression", generate_boxes },
  { NULL, NULL },
};
