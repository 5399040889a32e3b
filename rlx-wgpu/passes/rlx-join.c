/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Finds projections to query, key and value: a product of a matrix with a weight
 * that is split into three along its columns, by one split or by three slices
 * that nothing else goes with, becomes one qkv_linear.
 */
#include "config.h"

#include "passes/rlx-passes-private.h"

#include <string.h>

#include "ops/rlx-op-private.h"
#include "ops/rlx-shape-private.h"
#include "util/rlx-debug-private.h"

typedef struct
{
  const RlxIrNode *product;
  const RlxIrValue *parts[3];   /* in the order of the columns */
} Projection;

/* Whether qkv_linear can do what @node does. */
static gboolean
is_projection (const RlxIrNode *node)
{
  const RlxIrValue *bias;

  if (g_str_equal (node->op->name, "matmul"))
    return node->inputs[1]->type.rank == 2 && node->inputs[0]->type.rank >= 1 && rlx_node_attr (node, "transpose_a")->i == 0;
  if (!g_str_equal (node->op->name, "linear"))
    return FALSE;
  bias = node->n_inputs > 2 ? node->inputs[2] : NULL;
  return rlx_node_attr (node, "transpose_a")->i == 0 && rlx_node_attr (node, "alpha")->f == 1.0 &&
         (bias == NULL || (rlx_node_attr (node, "beta")->f == 1.0 && bias->type.rank == 1 &&
                           bias->type.dims[0] == node->outputs[0].type.dims[node->outputs[0].type.rank - 1]));
}

/* The columns that a slice takes: every row, from *@first on. */
static gboolean
is_column_slice (const RlxIrNode *node,
                 gint64          *first)
{
  const RlxTensorType *in = &node->inputs[0]->type, *out = &node->outputs[0].type;
  gint64 offset, strides[RLX_MAX_RANK], stride = 1;

  if (!g_str_equal (node->op->name, "slice"))
    return FALSE;
  rlx_view_get_strides (node, &offset, strides);
  for (guint d = in->rank; d-- > 0; stride *= in->dims[d])
    if (out->dims[d] > 1 && strides[d] != stride)
      return FALSE;
  for (guint d = 0; d + 1 < in->rank; d++)
    if (out->dims[d] != in->dims[d])
      return FALSE;
  *first = offset;
  return TRUE;
}

static gboolean
add_user (Projection      *projection,
          const RlxIrNode *user)
{
  const RlxTensorType *type = &projection->product->outputs[0].type;
  gint64 n = type->dims[type->rank - 1], first;

  if (g_str_equal (user->op->name, "split") && user->n_outputs == 3)
    {
      gint64 axis = rlx_node_attr (user, "axis")->i;

      if ((axis < 0 ? axis + type->rank : axis) != (gint64) type->rank - 1 || projection->parts[0] != NULL)
        return FALSE;
      for (guint i = 0; i < 3; i++)
        projection->parts[i] = &user->outputs[i];
      return TRUE;
    }
  if (!is_column_slice (user, &first))
    return FALSE;
  for (guint i = 0; i < 3; i++)
    {
      gint64 size = user->outputs[0].type.dims[type->rank - 1];

      /* the first part begins, the last one ends with the columns */
      if (projection->parts[i] == NULL && (i == 0 ? first == 0 : i == 2 ? first + size == n && first > 0 : first > 0 && first + size < n))
        {
          projection->parts[i] = &user->outputs[0];
          return TRUE;
        }
    }
  return FALSE;
}

static gboolean
is_whole (const Projection *projection)
{
  const RlxTensorType *type = &projection->product->outputs[0].type;
  guint last = type->rank - 1;
  gint64 sum = 0, first;

  for (guint i = 0; i < 3; i++)
    {
      if (projection->parts[i] == NULL || projection->parts[i]->type.dims[last] == 0)
        return FALSE;
      if (g_str_equal (projection->parts[i]->node->op->name, "slice") &&
          (!is_column_slice (projection->parts[i]->node, &first) || first != sum))
        return FALSE;
      sum += projection->parts[i]->type.dims[last];
    }
  return sum == type->dims[last];
}

/* By value id: the projection that makes it. */
static GHashTable *
find_projections (const RlxIr *ir)
{
  GHashTable *found = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  GHashTableIter iter;
  gpointer value;

  for (guint i = 0; i < ir->nodes->len; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);

      if (is_projection (node) && rlx_type_n_elements (&node->outputs[0].type) > 0)
        {
          Projection *projection = g_new0 (Projection, 1);

          projection->product = node;
          g_hash_table_insert (found, (gpointer) &node->outputs[0], projection);
        }
      for (guint j = 0; j < node->n_inputs; j++)
        {
          Projection *projection = node->inputs[j] ? g_hash_table_lookup (found, node->inputs[j]) : NULL;

          if (projection != NULL && !add_user (projection, node))
            g_hash_table_remove (found, node->inputs[j]);
        }
    }
  for (guint i = 0; i < ir->outputs->len; i++)
    g_hash_table_remove (found, g_array_index (ir->outputs, RlxIrOutput, i).value);
  for (guint i = 0; i < ir->assigns->len; i++)
    g_hash_table_remove (found, g_array_index (ir->assigns, RlxIrAssign, i).value);

  g_hash_table_iter_init (&iter, found);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    if (!is_whole (value))
      g_hash_table_iter_remove (&iter);
  return found;
}

static void
append_projection (RlxIr            *out,
                   const Projection *projection,
                   RlxIrValue      **map)
{
  const RlxIrNode *product = projection->product;
  const RlxOp *op = rlx_op_lookup ("qkv_linear");
  guint last = product->outputs[0].type.rank - 1;
  g_autoptr(GVariant) options = NULL;
  g_autoptr(GError) error = NULL;
  GVariantDict dict;
  RlxIrValue *inputs[3] = { NULL, };
  RlxTensorType types[3];
  RlxIrNode *node;

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "query_size", "x", projection->parts[0]->type.dims[last]);
  g_variant_dict_insert (&dict, "key_size", "x", projection->parts[1]->type.dims[last]);
  g_variant_dict_insert (&dict, "transpose_b", "b", rlx_node_attr (product, "transpose_b")->i != 0);
  options = g_variant_ref_sink (g_variant_dict_end (&dict));

  for (guint i = 0; i < product->n_inputs; i++)
    inputs[i] = product->inputs[i] ? map[product->inputs[i]->id] : NULL;
  for (guint i = 0; i < 3; i++)
    types[i] = projection->parts[i]->type;
  node = rlx_ir_append (out, op, rlx_attrs_new_from_variant (op, options, &error), inputs,
                        inputs[2] ? 3 : 2, types, 3);
  g_assert_no_error (error);
  node->origin = product->origin;
  node->name = g_strdup (product->name);
  for (guint i = 0; i < 3; i++)
    map[projection->parts[i]->id] = &node->outputs[i];
  RLX_NOTE (FUSE, "%%%u: %s and its three parts become one qkv_linear", product->outputs[0].id, product->op->name);
}

RlxIr *
rlx_pass_join (const RlxIr *ir)
{
  RlxIr *out = rlx_ir_new ();
  g_autofree gboolean *live = rlx_ir_find_live_nodes (ir);
  g_autoptr(GHashTable) projections = find_projections (ir);
  g_autofree RlxIrValue **map = g_new0 (RlxIrValue *, ir->n_values + 1);
  g_autoptr(GPtrArray) inputs = g_ptr_array_new ();

  if (RLX_DEBUG_CHECK (NO_FUSE))
    g_hash_table_remove_all (projections);

  for (guint i = 0; i < ir->nodes->len; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);
      const Projection *projection;
      RlxIrNode *copy;

      if (!live[i])
        continue;
      projection = g_hash_table_lookup (projections, &node->outputs[0]);
      if (projection != NULL)
        {
          append_projection (out, projection, map);
          continue;
        }
      /* made already, with the product */
      if (map[node->outputs[0].id] != NULL)
        continue;

      g_ptr_array_set_size (inputs, 0);
      for (guint j = 0; j < node->n_inputs; j++)
        g_ptr_array_add (inputs, node->inputs[j] ? map[node->inputs[j]->id] : NULL);
      copy = rlx_ir_append_copy (out, node, (RlxIrValue **) inputs->pdata);
      for (guint j = 0; j < node->n_outputs; j++)
        map[node->outputs[j].id] = &copy->outputs[j];
    }

  for (guint i = 0; i < ir->outputs->len; i++)
    {
      const RlxIrOutput *output = &g_array_index (ir->outputs, RlxIrOutput, i);
      rlx_ir_add_output (out, output->name, map[output->value->id]);
    }
  for (guint i = 0; i < ir->assigns->len; i++)
    {
      const RlxIrAssign *assign = &g_array_index (ir->assigns, RlxIrAssign, i);
      rlx_ir_add_assign (out, map[assign->state->id], map[assign->value->id]);
    }
  return out;
}
