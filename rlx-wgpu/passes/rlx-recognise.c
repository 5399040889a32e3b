/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Finds operators that a graph spells out, as files of networks do:
 *
 * - softmax (scale · q kᵀ + mask) v is attention. What is a number stays the same
 *   within the bound of attention; a query that sees no key gives zeros where the
 *   parts give NaN, and a hidden key takes no part, though its value be NaN.
 * - The product of a matrix with dequantised rows is dequant_matmul, rows picked of
 *   them are gather_packed: the weight stays packed.
 * - A product with a weight to which a bias is added is linear, which can be joined
 *   with others.
 * - The norm of a sum of two is a residual norm, unless the sum is better off as
 *   part of what comes before it.
 * - A product reads an operand whose last two axes are exchanged as it was.
 *
 * What is replaced stays behind without users, and the next pass leaves it out.
 */
#include "config.h"

#include "passes/rlx-passes-private.h"

#include <math.h>

#include "ops/rlx-expand-private.h"
#include "ops/rlx-fused-private.h"
#include "plan/rlx-plan-private.h"
#include "util/rlx-debug-private.h"

/* On a CPU, reading a transposed first operand costs each element of it as many
 * loads as four of one in order; beyond so many columns a copy is cheaper. */
#define MAX_COLUMNS_ON_CPU 32

/* Wider than heads are: two products and a softmax have more reuse. */
#define MAX_WIDTH 256

typedef struct
{
  const RlxIr *ir;
  RlxIr *out;
  const RlxGpuAdapterInfo *adapter;
  GArray **users;          /* by value id: ids of live nodes that read it */
  gboolean *pinned;        /* by value id: an output or an assigned value */
  RlxIrValue **map;        /* by value id: what stands for it in @out */
} Recogniser;

/* Whether nothing but one node needs the value. */
static gboolean
has_one_user (Recogniser       *self,
              const RlxIrValue *value)
{
  const GArray *users = self->users[value->id];

  return !self->pinned[value->id] && users != NULL && users->len == 1;
}

/* Whether a node exchanges the last two axes, and nothing else. */
static gboolean
is_matrix_transpose (const RlxIrNode *node)
{
  const RlxAttrValue *permutation;
  gint64 rank = node->outputs[0].type.rank;

  if (!rlx_node_is (node, "transpose") || rank < 2)
    return FALSE;
  permutation = rlx_node_attr (node, "permutation");
  if (permutation->n_ints == 0)
    return rank == 2;
  for (gint64 i = 0; i < rank; i++)
    {
      gint64 from = permutation->ints[i] < 0 ? permutation->ints[i] + rank : permutation->ints[i];

      if (from != (i == rank - 1 ? rank - 2 : i == rank - 2 ? rank - 1 : i))
        return FALSE;
    }
  return TRUE;
}

static GVariant *
shape_of (const gint64 *dims,
          guint         rank)
{
  GVariantDict dict;

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert_value (&dict, "shape", g_variant_new_fixed_array (G_VARIANT_TYPE_INT64, dims, rank, sizeof (gint64)));
  return g_variant_dict_end (&dict);
}

/* ---- attention ------------------------------------------------------------------------ */

typedef struct
{
  const RlxIrValue *query, *key, *value;
  const RlxIrNode *key_moved;   /* nullable: how axes of the key change places, besides the last two */
  const RlxIrValue *mask;       /* nullable */
  double scale;
} Attention;

/* The value that is multiplied with, or divided by, a number; NULL if that is not
 * all a node does. */
static const RlxIrValue *
without_factor (const RlxIrNode *node,
                double          *scale)
{
  gboolean div = rlx_node_is (node, "div");
  double number;
  gint64 integer;

  if (!div && !rlx_node_is (node, "mul"))
    return NULL;
  for (guint i = 0; i < (div ? 1 : 2); i++)
    if (rlx_value_get_immediate (node->inputs[1 - i], &number, &integer) &&
        rlx_type_same_shape (&node->inputs[i]->type, &node->outputs[0].type))
      {
        *scale = div ? *scale / number : *scale * number;
        return node->inputs[i];
      }
  return NULL;
}

/* What is left of a value that only one node needs without its factors. */
static const RlxIrValue *
take_factor (Recogniser       *self,
             const RlxIrValue *value,
             double           *scale)
{
  const RlxIrValue *next;

  while (has_one_user (self, value) && (next = without_factor (value->node, scale)) != NULL)
    value = next;
  return value;
}

/* Walks up from what softmax is taken of to the product of queries and keys. */
static const RlxIrNode *
find_scores (Recogniser       *self,
             const RlxIrValue *value,
             Attention        *found)
{
  const RlxIrNode *node;

  value = take_factor (self, value, &found->scale);
  node = value->node;
  if (!has_one_user (self, value))
    return NULL;
  if (rlx_node_is (node, "matmul"))
    return node;
  /* The mask is added to what is scaled already, and there is one. */
  if (!rlx_node_is (node, "add") || found->mask != NULL || found->scale != 1.0)
    return NULL;
  for (guint i = 0; i < 2; i++)
    {
      Attention masked = *found;
      const RlxIrNode *scores;

      masked.mask = node->inputs[1 - i];
      scores = rlx_type_same_shape (&node->inputs[i]->type, &value->type) ? find_scores (self, node->inputs[i], &masked) : NULL;
      if (scores != NULL)
        {
          *found = masked;
          return scores;
        }
    }
  return NULL;
}

static gboolean
find_attention (Recogniser      *self,
                const RlxIrNode *node,
                Attention       *found)
{
  const RlxIrNode *softmax, *scores;
  const RlxTensorType *type = &node->outputs[0].type;
  gint64 axis;

  if (!rlx_node_is (node, "matmul") || !rlx_node_is (node->inputs[0]->node, "softmax") || !has_one_user (self, node->inputs[0]) ||
      rlx_node_attr (node, "transpose_a")->i != 0)
    return FALSE;
  softmax = node->inputs[0]->node;
  axis = rlx_node_attr (softmax, "axis")->i;
  if (axis != -1 && axis != (gint64) softmax->outputs[0].type.rank - 1)
    return FALSE;

  *found = (Attention) { .value = node->inputs[1], .scale = 1.0 };
  scores = find_scores (self, softmax->inputs[0], found);
  if (scores == NULL || rlx_node_attr (scores, "transpose_a")->i != 0)
    return FALSE;
  /* Queries and keys may have their share of the scale. */
  found->query = take_factor (self, scores->inputs[0], &found->scale);
  found->key = take_factor (self, scores->inputs[1], &found->scale);
  if (rlx_node_attr (scores, "transpose_b")->i == 0)
    {
      found->key_moved = rlx_node_is (found->key->node, "transpose") ? found->key->node : NULL;
      if (found->key_moved == NULL)
        {
          RLX_NOTE (FUSE, "%%%u is not taken for attention: its keys are not transposed", node->outputs[0].id);
          return FALSE;
        }
      found->key = take_factor (self, found->key_moved->inputs[0], &found->scale);
    }
  if (rlx_node_attr (node, "transpose_b")->i != 0)
    {
      if (!is_matrix_transpose (found->value->node))
        {
          RLX_NOTE (FUSE, "%%%u is not taken for attention: its values are transposed", node->outputs[0].id);
          return FALSE;
        }
      found->value = found->value->node->inputs[0];
    }

  /* 0 stands for another scale. */
  if (rlx_type_n_elements (type) == 0 || !isfinite ((float) found->scale) || (float) found->scale == 0.0f ||
      (found->mask != NULL && !rlx_data_type_is_float (found->mask->type.dtype)))
    return FALSE;
  if (type->rank < 2 || type->rank > 4 || found->query->type.rank != type->rank || found->key->type.rank != type->rank ||
      found->value->type.rank != type->rank)
    {
      RLX_NOTE (FUSE, "%%%u is not taken for attention: its operands have different ranks, or more than four dimensions",
                node->outputs[0].id);
      return FALSE;
    }
  if (MAX (type->dims[type->rank - 1], found->query->type.dims[type->rank - 1]) > MAX_WIDTH)
    {
      RLX_NOTE (FUSE, "%%%u is not taken for attention: it is wider than %d", node->outputs[0].id, MAX_WIDTH);
      return FALSE;
    }
  return TRUE;
}

/* The key, whose last two axes are the wrong way round once @moved has been at it, in
 * @out. */
static RlxIrValue *
move_key (RlxExpand       *expand,
          RlxIrValue      *key,
          const RlxIrNode *moved)
{
  const RlxAttrValue *permutation = moved != NULL ? rlx_node_attr (moved, "permutation") : NULL;
  guint rank = key->type.rank;
  gint64 axes[RLX_MAX_RANK];

  if (moved == NULL || is_matrix_transpose (moved))
    return key;
  for (guint i = 0; i < rank; i++)
    {
      guint from = i + 1 == rank ? rank - 2 : i + 2 == rank ? rank - 1 : i;

      axes[i] = permutation->n_ints > 0 ? permutation->ints[from] : (gint64) (rank - 1 - from);
    }
  return rlx_expand_ints (expand, "transpose", key, "permutation", axes, rank, NULL);
}

/* The value in @out as [batch, heads, sequence, width]. */
static RlxIrValue *
with_heads (RlxExpand  *expand,
            RlxIrValue *value)
{
  const RlxTensorType *type = &value->type;
  gint64 dims[4] = { 1, 1, 1, 1 };

  if (type->rank == 4)
    return value;
  for (guint i = 0; i < 2 && i < type->rank; i++)
    dims[3 - i] = type->dims[type->rank - 1 - i];
  if (type->rank == 3)
    dims[0] = type->dims[0];
  return rlx_expand_op (expand, "reshape", &value, 1, shape_of (dims, 4), NULL);
}

static gboolean
append_attention (Recogniser      *self,
                  const RlxIrNode *node)
{
  const RlxTensorType *type = &node->outputs[0].type;
  RlxExpand expand = { self->out, node, NULL };
  g_autoptr(GError) error = NULL;
  RlxIrValue *inputs[4], *value;
  GVariantDict dict;
  Attention found;

  if (!find_attention (self, node, &found))
    return FALSE;

  inputs[0] = with_heads (&expand, self->map[found.query->id]);
  inputs[1] = with_heads (&expand, move_key (&expand, self->map[found.key->id], found.key_moved));
  inputs[2] = with_heads (&expand, self->map[found.value->id]);
  if (found.mask != NULL)
    inputs[3] = with_heads (&expand, self->map[found.mask->id]);
  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "scale", "d", found.scale);
  /* What broadcasts in a product need not do so here: then it stays as it is. */
  value = rlx_expand_op (&expand, "attention", inputs, found.mask != NULL ? 4 : 3, g_variant_dict_end (&dict), &error);
  if (value == NULL || rlx_type_n_elements (&value->type) != rlx_type_n_elements (type))
    {
      RLX_NOTE (FUSE, "%%%u is not taken for attention: %s", node->outputs[0].id, error != NULL ? error->message : "its operands broadcast");
      return FALSE;
    }
  if (type->rank != 4)
    value = rlx_expand_op (&expand, "reshape", &value, 1, shape_of (type->dims, type->rank), NULL);
  self->map[node->outputs[0].id] = value;
  RLX_NOTE (FUSE, "%%%u: %s is attention", node->outputs[0].id,
            found.mask != NULL ? "a softmax of masked scores" : "a softmax of scores");
  return TRUE;
}

/* ---- packed weights ----------------------------------------------------------------------- */

/* The node that unpacks @value, all of it. */
static const RlxIrNode *
find_packed (const RlxIrValue *value,
             RlxDataType       dtype)
{
  const RlxIrNode *node = value->node;

  return rlx_node_is (node, "dequantize_blocks") && node->inputs[0]->type.rank == 2 && value->type.dtype == dtype ? node : NULL;
}

static gboolean
append_packed (Recogniser      *self,
               const RlxIrNode *node)
{
  gboolean gather = rlx_node_is (node, "gather"), linear = rlx_node_is (node, "linear");
  const RlxIrValue *bias = linear && node->n_inputs > 2 ? node->inputs[2] : NULL;
  const RlxIrValue *weight;
  const RlxIrNode *packed;
  gboolean by_rows;
  RlxExpand expand = { self->out, node, NULL };
  g_autoptr(GError) error = NULL;
  RlxIrValue *inputs[5] = { NULL, }, *value;
  guint n = 2;
  GVariantDict dict;

  if (!gather && !linear && !rlx_node_is (node, "matmul"))
    return FALSE;
  weight = node->inputs[gather ? 0 : 1];
  by_rows = gather || rlx_node_attr (node, "transpose_b")->i != 0;
  if (!gather && is_matrix_transpose (weight->node))
    {
      weight = weight->node->inputs[0];
      by_rows = !by_rows;
    }
  packed = find_packed (weight, node->outputs[0].type.dtype);
  if (packed == NULL)
    return FALSE;
  if (!by_rows || (gather ? rlx_node_attr (node, "axis")->i != 0 && rlx_node_attr (node, "axis")->i != -2
                          : rlx_node_attr (node, "transpose_a")->i != 0) ||
      (linear && (rlx_node_attr (node, "alpha")->f != 1.0 || (bias != NULL && rlx_node_attr (node, "beta")->f != 1.0))))
    {
      RLX_NOTE (FUSE, "%%%u %s unpacks its weight first: rows are not along the sum, or there are factors",
                node->outputs[0].id, node->op->name);
      return FALSE;
    }

  inputs[0] = self->map[gather ? packed->inputs[0]->id : node->inputs[0]->id];
  inputs[1] = self->map[gather ? node->inputs[1]->id : packed->inputs[0]->id];
  /* An operand that is absent has none behind it that is there. */
  for (guint i = 1; i < packed->n_inputs && packed->inputs[i] != NULL; i++)
    inputs[n++] = self->map[packed->inputs[i]->id];
  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "type", "s", rlx_attr_get_nick (&packed->op->attrs[rlx_op_find_attr (packed->op, "type")],
                                                                rlx_node_attr (packed, "type")));
  g_variant_dict_insert (&dict, "block_size", "x", rlx_node_attr (packed, "block_size")->i);
  if (gather)
    {
      g_variant_dict_insert (&dict, "columns", "x", rlx_node_attr (packed, "columns")->i);
      g_variant_dict_insert (&dict, "to", "s", rlx_data_type_to_string (node->outputs[0].type.dtype));
    }
  value = rlx_expand_op (&expand, gather ? "gather_packed" : "dequant_matmul", inputs, n, g_variant_dict_end (&dict), &error);
  if (value == NULL || !rlx_type_equal (&value->type, &node->outputs[0].type))
    {
      RLX_NOTE (FUSE, "%%%u %s unpacks its weight first: %s", node->outputs[0].id, node->op->name,
                error != NULL ? error->message : "rows have room for more");
      return FALSE;
    }
  if (bias != NULL)
    value = rlx_expand_op (&expand, "add", (RlxIrValue *[]) { value, self->map[bias->id] }, 2, NULL, NULL);
  self->map[node->outputs[0].id] = value;
  RLX_NOTE (FUSE, "%%%u: %s leaves its weight packed", node->outputs[0].id, node->op->name);
  return TRUE;
}

/* ---- biases ---------------------------------------------------------------------------- */

static gboolean
append_linear (Recogniser      *self,
               const RlxIrNode *node)
{
  const RlxOp *op = rlx_op_lookup ("linear");
  const RlxTensorType *type = &node->outputs[0].type;

  for (guint i = 0; i < 2 && rlx_node_is (node, "add"); i++)
    {
      const RlxIrNode *product = self->map[node->inputs[i]->id]->node;
      const RlxTensorType *bias = &node->inputs[1 - i]->type;
      RlxIrValue *inputs[3];
      RlxAttrValue *attrs;
      RlxIrNode *copy;

      if (!rlx_node_is (product, "matmul") || !has_one_user (self, node->inputs[i]) || bias->rank != 1 || type->rank < 2 ||
          bias->dims[0] != type->dims[type->rank - 1] || product->inputs[1]->type.rank != 2 ||
          !rlx_type_equal (&product->outputs[0].type, type) ||
          (rlx_node_attr (product, "transpose_a")->i != 0 && product->inputs[0]->type.rank != 2))
        continue;
      inputs[0] = product->inputs[0];
      inputs[1] = product->inputs[1];
      inputs[2] = self->map[node->inputs[1 - i]->id];
      attrs = rlx_attrs_new (op);
      rlx_attr_set_int (&attrs[rlx_op_find_attr (op, "transpose_a")], rlx_node_attr (product, "transpose_a")->i);
      rlx_attr_set_int (&attrs[rlx_op_find_attr (op, "transpose_b")], rlx_node_attr (product, "transpose_b")->i);
      copy = rlx_ir_append (self->out, op, attrs, inputs, 3, type, 1);
      copy->origin = node->origin;
      copy->name = g_strdup (product->name != NULL ? product->name : node->name);
      self->map[node->outputs[0].id] = &copy->outputs[0];
      RLX_NOTE (FUSE, "%%%u: a product and its bias are linear", node->outputs[0].id);
      return TRUE;
    }
  return FALSE;
}

/* ---- norms of sums --------------------------------------------------------------------------- */

/* Whether the sum would be no kernel of its own anyway: part of what makes one of
 * its operands, or of a region. */
static gboolean
is_part_of_another (Recogniser      *self,
                    const RlxIrNode *add)
{
  for (guint i = 0; i < 2; i++)
    {
      const RlxIrNode *from = add->inputs[i]->node;

      if (has_one_user (self, add->inputs[i]) && rlx_type_same_shape (&add->inputs[i]->type, &add->outputs[0].type) &&
          ((from->op->flags & RLX_OP_ELEMENTWISE) != 0 || rlx_op_takes_epilogue (from->op)))
        return TRUE;
    }
  return FALSE;
}

/* Whether what else needs the sum comes after the norm, which has it then. */
static gboolean
is_first_user (Recogniser       *self,
               const RlxIrValue *sum,
               const RlxIrNode  *node)
{
  for (guint i = 0; i < self->users[sum->id]->len; i++)
    if (g_array_index (self->users[sum->id], guint, i) < node->id)
      return FALSE;
  return TRUE;
}

static gboolean
append_residual_norm (Recogniser      *self,
                      const RlxIrNode *node)
{
  gboolean layer = rlx_node_is (node, "layer_norm");
  const RlxOp *op;
  const RlxIrNode *add;
  RlxIrValue *inputs[5] = { NULL, };
  RlxTensorType types[2];
  RlxAttrValue *attrs;
  RlxIrNode *copy;
  gboolean keep;
  guint whole;

  if ((!layer && !rlx_node_is (node, "rms_norm")) || !rlx_node_is (node->inputs[0]->node, "add"))
    return FALSE;
  add = node->inputs[0]->node;
  whole = rlx_type_same_shape (&add->inputs[0]->type, &add->outputs[0].type) ? 0 : 1;
  if (!rlx_type_same_shape (&add->inputs[whole]->type, &add->outputs[0].type) || is_part_of_another (self, add))
    return FALSE;
  if (!is_first_user (self, &add->outputs[0], node))
    {
      RLX_NOTE (FUSE, "%%%u %s does not add up: the sum is needed before", node->outputs[0].id, node->op->name);
      return FALSE;
    }

  op = rlx_op_lookup (layer ? "residual_layer_norm" : "residual_rms_norm");
  keep = !has_one_user (self, &add->outputs[0]);
  inputs[0] = self->map[add->inputs[whole]->id];
  inputs[1] = self->map[add->inputs[1 - whole]->id];
  for (guint i = 1; i < node->n_inputs; i++)
    inputs[1 + i] = node->inputs[i] != NULL ? self->map[node->inputs[i]->id] : NULL;
  attrs = rlx_attrs_new (op);
  rlx_attr_set_ints (&attrs[rlx_op_find_attr (op, "axes")], rlx_node_attr (node, "axes")->ints, rlx_node_attr (node, "axes")->n_ints);
  rlx_attr_set_float (&attrs[rlx_op_find_attr (op, "epsilon")], rlx_node_attr (node, "epsilon")->f);
  rlx_attr_set_int (&attrs[rlx_op_find_attr (op, "keep_sum")], keep);
  types[0] = types[1] = node->outputs[0].type;
  copy = rlx_ir_append (self->out, op, attrs, inputs, op->n_inputs, types, keep ? 2 : 1);
  copy->origin = node->origin;
  copy->name = g_strdup (node->name);
  self->map[node->outputs[0].id] = &copy->outputs[0];
  if (keep)
    self->map[add->outputs[0].id] = &copy->outputs[1];
  RLX_NOTE (FUSE, "%%%u: %s adds up what it normalises", node->outputs[0].id, node->op->name);
  return TRUE;
}

/* ---- transposed operands ----------------------------------------------------------------------- */

static gboolean
may_read_transposed (Recogniser      *self,
                     const RlxIrNode *node,
                     guint            index)
{
  const RlxTensorType *type = &node->outputs[0].type;

  if (!is_matrix_transpose (node->inputs[index]->node))
    return FALSE;
  if (index == 1)
    return TRUE;
  if (rlx_node_is (node, "linear") && node->inputs[0]->type.rank != 2)
    return FALSE;
  return self->adapter->type != RLX_ADAPTER_TYPE_CPU || type->rank == 0 || type->dims[type->rank - 1] <= MAX_COLUMNS_ON_CPU;
}

static gboolean
append_product (Recogniser      *self,
                const RlxIrNode *node)
{
  static const char *const names[] = { "transpose_a", "transpose_b" };
  g_autoptr(GPtrArray) inputs = NULL;
  gboolean transposed[2];
  RlxIrNode *copy;

  if (!rlx_node_is (node, "matmul") && !rlx_node_is (node, "linear"))
    return FALSE;
  for (guint i = 0; i < 2; i++)
    transposed[i] = may_read_transposed (self, node, i);
  if (!transposed[0] && !transposed[1])
    return FALSE;

  inputs = g_ptr_array_new ();
  for (guint i = 0; i < node->n_inputs; i++)
    {
      const RlxIrValue *value = node->inputs[i];

      if (i < 2 && transposed[i])
        value = value->node->inputs[0];
      g_ptr_array_add (inputs, value != NULL ? self->map[value->id] : NULL);
    }
  copy = rlx_ir_append_copy (self->out, node, (RlxIrValue **) inputs->pdata);
  for (guint i = 0; i < 2; i++)
    if (transposed[i])
      rlx_attr_set_int (&copy->attrs[rlx_op_find_attr (node->op, names[i])], rlx_node_attr (node, names[i])->i == 0);
  self->map[node->outputs[0].id] = &copy->outputs[0];
  RLX_NOTE (FUSE, "%%%u: %s reads its %s operand as it was before the transpose", node->outputs[0].id, node->op->name,
            transposed[0] && transposed[1] ? "first and second" : transposed[0] ? "first" : "second");
  return TRUE;
}

/* ---- the pass --------------------------------------------------------------------------------- */

RlxIr *
rlx_pass_recognise (const RlxIr             *ir,
                    const RlxGpuAdapterInfo *adapter)
{
  RlxIr *out = rlx_ir_new ();
  g_autofree gboolean *live = rlx_ir_find_live_nodes (ir);
  GArray **users = rlx_ir_find_users (ir, live);
  g_autofree gboolean *pinned = rlx_ir_find_pinned_values (ir);
  g_autofree RlxIrValue **map = g_new0 (RlxIrValue *, ir->n_values + 1);
  gboolean fuse = !RLX_DEBUG_CHECK (NO_FUSE);
  Recogniser self = { ir, out, adapter, users, pinned, map };

  for (guint i = 0; i < ir->nodes->len; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);

      if (!live[i] || (fuse && (append_attention (&self, node) || append_packed (&self, node) || append_linear (&self, node) ||
                                append_residual_norm (&self, node) || append_product (&self, node))))
        continue;
      rlx_ir_copy_node (out, node, map);
    }

  rlx_ir_copy_results (out, ir, map);
  rlx_ir_free_users (ir, users);
  return out;
}
