/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Finds operators that a graph spells out, as files of networks do:
 *
 * - softmax (scale · q kᵀ + mask) v is attention. What is a number stays the same
 *   within the bound of attention; a query that sees no key gives zeros where the
 *   parts give NaN, and a hidden key takes no part, though its value be NaN.
 * - The product of a matrix with dequantised rows is dequant_matmul, rows picked of
 *   them are gather_packed: the weight stays packed. So does one of bytes with a scale
 *   for all or for each column of the result, transposed or not.
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
#include <string.h>

#include "ops/rlx-builder-private.h"
#include "ops/rlx-fused-private.h"
#include "util/rlx-debug-private.h"

/* If loads do not coalesce, each element of a transposed first operand costs as many loads
 * as four elements otherwise; with more columns than this, a copy is cheaper. */
#define MAX_GATHERED_COLUMNS 32

/* Wider than usual heads: two products and a softmax have more reuse. */
#define MAX_WIDTH 256

static RlxIrValue *
find_mapped (RlxRewrite       *self,
             const RlxIrValue *value)
{
  return value != NULL ? self->map[value->id] : NULL;
}

/* Whether a node only swaps the last two axes. */
static gboolean
is_matrix_transpose (const RlxIrNode *node)
{
  guint n_dims = node->outputs[0].type.n_dims;

  if (!rlx_ir_node_is (node, RLX_OP_ID_TRANSPOSE) || n_dims < 2)
    return FALSE;
  for (guint i = 0; i < n_dims; i++)
    if (rlx_transpose_get_axis (node, i) != (i == n_dims - 1 ? n_dims - 2 : i == n_dims - 2 ? n_dims - 1 : i))
      return FALSE;
  return TRUE;
}

/* ---- attention ------------------------------------------------------------------------ */

typedef struct
{
  const RlxIrValue *query, *key, *value;
  const RlxIrNode *key_moved;   /* nullable: the permutation of the key's axes, except the last two */
  const RlxIrValue *mask;       /* nullable */
  double scale;
} Attention;

/* The value that a node multiplies or divides by a number; NULL if it does anything
 * else. */
static const RlxIrValue *
without_factor (const RlxIrNode *node,
                double          *scale)
{
  gboolean div = rlx_ir_node_is (node, RLX_OP_ID_DIV);
  double number;
  gint64 integer;

  if (!div && !rlx_ir_node_is (node, RLX_OP_ID_MUL))
    return NULL;
  for (guint i = 0; i < (div ? 1 : 2); i++)
    if (rlx_ir_value_get_immediate (node->inputs[1 - i], &number, &integer) &&
        rlx_type_same_shape (&node->inputs[i]->type, &node->outputs[0].type))
      {
        *scale = div ? *scale / number : *scale * number;
        return node->inputs[i];
      }
  return NULL;
}

/* Strips the factors from a value that only one node needs. */
static const RlxIrValue *
take_factor (RlxRewrite       *self,
             const RlxIrValue *value,
             double           *scale)
{
  const RlxIrValue *next;

  while (rlx_rewrite_get_only_user (self, value) != NULL && (next = without_factor (value->node, scale)) != NULL)
    value = next;
  return value;
}

/* Walks up from the operand of softmax to the product of queries and keys. */
static const RlxIrNode *
find_scores (RlxRewrite       *self,
             const RlxIrValue *value,
             Attention        *found)
{
  const RlxIrNode *node;

  value = take_factor (self, value, &found->scale);
  node = value->node;
  if (rlx_rewrite_get_only_user (self, value) == NULL)
    return NULL;
  if (rlx_ir_node_is (node, RLX_OP_ID_MATMUL))
    return node;
  /* There is at most one mask, added to the scaled scores. */
  if (!rlx_ir_node_is (node, RLX_OP_ID_ADD) || found->mask != NULL || found->scale != 1.0)
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

/* The softmax that computes a value. NaN, as for a query that sees no key, may be replaced by 0, as attention does. */
static const RlxIrNode *
find_softmax (RlxRewrite       *self,
              const RlxIrValue *value)
{
  const RlxIrNode *where = value->node, *is_nan;
  double number;
  gint64 integer;

  if (rlx_rewrite_get_only_user (self, value) == NULL)
    return NULL;
  if (rlx_ir_node_is (where, RLX_OP_ID_SOFTMAX))
    return where;
  if (!rlx_ir_node_is (where, RLX_OP_ID_WHERE) || !rlx_ir_value_get_immediate (where->inputs[1], &number, &integer) || number != 0)
    return NULL;
  value = where->inputs[2];
  is_nan = where->inputs[0]->node;
  if (!rlx_ir_node_is (is_nan, RLX_OP_ID_IS_NAN) || is_nan->inputs[0] != value || !rlx_ir_node_is (value->node, RLX_OP_ID_SOFTMAX) ||
      rlx_rewrite_get_only_user (self, where->inputs[0]) == NULL || self->pinned[value->id] || self->users[value->id]->len != 2)
    return NULL;
  return value->node;
}

/* The value that is repeated for several consecutive heads of the query, by expanding [batch, heads, 1, sequence,
 * width]; the value itself if it is not. Attention repeats heads by itself. */
static const RlxIrValue *
skip_repeat (const RlxIrValue *value)
{
  const RlxIrValue *expanded, *one;
  const RlxTensorType *to, *from, *type;

  if (!rlx_ir_node_is (value->node, RLX_OP_ID_RESHAPE) || value->type.n_dims != 4)
    return value;
  expanded = value->node->inputs[0];
  if (!rlx_ir_node_is (expanded->node, RLX_OP_ID_EXPAND))
    return value;
  one = expanded->node->inputs[0];
  if (!rlx_ir_node_is (one->node, RLX_OP_ID_RESHAPE) && !rlx_ir_node_is (one->node, RLX_OP_ID_UNSQUEEZE))
    return value;
  one = one->node->inputs[0];
  to = &expanded->type;
  from = &expanded->node->inputs[0]->type;
  type = &one->type;
  if (to->n_dims != 5 || from->n_dims != 5 || from->shape[2] != 1 || type->n_dims != 4 || to->shape[0] != value->type.shape[0])
    return value;
  for (guint i = 0; i < 5; i++)
    if (i != 2 && (from->shape[i] != to->shape[i] || type->shape[i > 2 ? i - 1 : i] != to->shape[i] ||
                   (i > 2 && value->type.shape[i - 1] != to->shape[i])))
      return value;
  return one;
}

static gboolean
find_attention (RlxRewrite      *self,
                const RlxIrNode *node,
                Attention       *found)
{
  const RlxIrNode *softmax, *scores;
  const RlxTensorType *type = &node->outputs[0].type;
  gint64 axis;

  if (!rlx_ir_node_is (node, RLX_OP_ID_MATMUL) || rlx_matmul_attrs (node)->transpose_a)
    return FALSE;
  softmax = find_softmax (self, node->inputs[0]);
  if (softmax == NULL)
    return FALSE;
  axis = rlx_softmax_attrs (softmax)->axis;
  if (axis != -1 && axis != (gint64) softmax->outputs[0].type.n_dims - 1)
    return FALSE;

  *found = (Attention) { .value = node->inputs[1], .scale = 1.0 };
  scores = find_scores (self, softmax->inputs[0], found);
  if (scores == NULL || rlx_matmul_attrs (scores)->transpose_a)
    return FALSE;
  /* The scale may be split between queries and keys. */
  found->query = take_factor (self, scores->inputs[0], &found->scale);
  found->key = take_factor (self, scores->inputs[1], &found->scale);
  if (!rlx_matmul_attrs (scores)->transpose_b)
    {
      found->key_moved = rlx_ir_node_is (found->key->node, RLX_OP_ID_TRANSPOSE) ? found->key->node : NULL;
      if (found->key_moved == NULL)
        {
          RLX_NOTE (FUSE, "%%%u is not recognised as attention: its keys are not transposed", node->outputs[0].id);
          return FALSE;
        }
      found->key = take_factor (self, found->key_moved->inputs[0], &found->scale);
    }
  if (found->key_moved == NULL || is_matrix_transpose (found->key_moved))
    found->key = skip_repeat (found->key);
  if (rlx_matmul_attrs (node)->transpose_b)
    {
      if (!is_matrix_transpose (found->value->node))
        {
          RLX_NOTE (FUSE, "%%%u is not recognised as attention: its values are transposed", node->outputs[0].id);
          return FALSE;
        }
      found->value = found->value->node->inputs[0];
    }
  found->value = skip_repeat (found->value);

  /* 0 would stand for the default scale. */
  if (rlx_type_n_elements (type) == 0 || !isfinite ((float) found->scale) || (float) found->scale == 0.0f ||
      (found->mask != NULL && !rlx_data_type_is_float (found->mask->type.data_type)))
    return FALSE;
  if (type->n_dims < 2 || type->n_dims > 4 || found->query->type.n_dims != type->n_dims || found->key->type.n_dims != type->n_dims ||
      found->value->type.n_dims != type->n_dims)
    {
      RLX_NOTE (FUSE, "%%%u is not recognised as attention: its operands have different ranks, or more than four dimensions",
                node->outputs[0].id);
      return FALSE;
    }
  if (MAX (type->shape[type->n_dims - 1], found->query->type.shape[type->n_dims - 1]) > MAX_WIDTH)
    {
      RLX_NOTE (FUSE, "%%%u is not recognised as attention: it is wider than %d", node->outputs[0].id, MAX_WIDTH);
      return FALSE;
    }
  return TRUE;
}

/* The key, whose last two axes are the wrong way round once @moved has been at it, in
 * @out. */
static RlxIrValue *
move_key (RlxBuilder      *b,
          RlxIrValue      *key,
          const RlxIrNode *moved)
{
  guint n_dims = key->type.n_dims;
  gint64 axes[RLX_MAX_DIMS];

  if (moved == NULL || is_matrix_transpose (moved))
    return key;
  for (guint i = 0; i < n_dims; i++)
    axes[i] = rlx_transpose_get_axis (moved, i + 1 == n_dims ? n_dims - 2 : i + 2 == n_dims ? n_dims - 1 : i);
  return rlx_build_transpose (b, key, RLX_TRANSPOSE_ATTRS (.permutation = RLX_INTS (axes, n_dims)));
}

/* The value in @out as [batch, heads, sequence, width]. */
static RlxIrValue *
with_heads (RlxBuilder *b,
            RlxIrValue *value)
{
  gint64 shape[4] = { 1, 1, 1, 1 };
  const RlxTensorType *type;

  if (value == NULL || value->type.n_dims == 4)
    return value;
  type = &value->type;
  for (guint i = 0; i < 2 && i < type->n_dims; i++)
    shape[3 - i] = type->shape[type->n_dims - 1 - i];
  if (type->n_dims == 3)
    shape[0] = type->shape[0];
  return rlx_build_reshape (b, value, RLX_RESHAPE_ATTRS (.shape = RLX_INTS (shape, 4)));
}

static gboolean
append_attention (RlxRewrite      *self,
                  const RlxIrNode *node)
{
  const RlxTensorType *type = &node->outputs[0].type;
  g_auto(RlxBuilder) b = RLX_BUILDER (self->out, node);
  RlxIrValue *query, *key, *value, *mask = NULL, *result;
  Attention found;

  if (!find_attention (self, node, &found))
    return FALSE;

  query = with_heads (&b, self->map[found.query->id]);
  key = with_heads (&b, move_key (&b, self->map[found.key->id], found.key_moved));
  value = with_heads (&b, self->map[found.value->id]);
  if (found.mask != NULL)
    mask = with_heads (&b, self->map[found.mask->id]);
  /* Operands that broadcast in a product may not do so here: then nothing changes. */
  result = rlx_build_attention (&b, query, key, value, mask, NULL, NULL, RLX_ATTENTION_ATTRS (.scale = found.scale));
  if (result != NULL && rlx_type_n_elements (&result->type) == rlx_type_n_elements (type) && type->n_dims != 4)
    result = rlx_build_reshape (&b, result, RLX_RESHAPE_ATTRS (.shape = RLX_INTS (type->shape, type->n_dims)));
  if (result == NULL || !rlx_type_equal (&result->type, type))
    {
      RLX_NOTE (FUSE, "%%%u is not recognised as attention: %s", node->outputs[0].id, b.error != NULL ? b.error->message : "its operands broadcast");
      return FALSE;
    }
  self->map[node->outputs[0].id] = result;
  RLX_NOTE (FUSE, "%%%u: %s is attention", node->outputs[0].id,
            found.mask != NULL ? "a softmax of masked scores" : "a softmax of scores");
  return TRUE;
}

/* ---- packed weights ----------------------------------------------------------------------- */

/* The node that unpacks @value, all of it. */
static const RlxIrNode *
find_packed (const RlxIrValue *value,
             RlxDataType       data_type)
{
  const RlxIrNode *node = value->node;

  return rlx_ir_node_is (node, RLX_OP_ID_DEQUANTIZE_BLOCKS) && node->inputs[0]->type.n_dims == 2 && value->type.data_type == data_type ? node : NULL;
}

static gboolean
append_packed (RlxRewrite      *self,
               const RlxIrNode *node)
{
  gboolean gather = rlx_ir_node_is (node, RLX_OP_ID_GATHER);
  const RlxTensorType *type = &node->outputs[0].type;
  const RlxDequantizeBlocksAttrs *attrs;
  const RlxIrValue *weight, *bias = NULL;
  const RlxIrNode *packed;
  gboolean by_rows = TRUE, plain;
  g_auto(RlxBuilder) b = RLX_BUILDER (self->out, node);
  RlxIrValue *rows, *scale, *zero, *value;

  if (!gather && !rlx_ir_node_is (node, RLX_OP_ID_LINEAR) && !rlx_ir_node_is (node, RLX_OP_ID_MATMUL))
    return FALSE;
  if (gather)
    {
      gint64 axis = rlx_gather_attrs (node)->axis;

      weight = node->inputs[RLX_GATHER_SELF];
      plain = axis == 0 || axis == -2;
    }
  else
    {
      const RlxLinearAttrs product = rlx_ir_node_as_linear (node);

      weight = node->inputs[RLX_LINEAR_WEIGHT];
      bias = rlx_ir_node_get_bias (node);
      by_rows = product.transpose_b;
      if (is_matrix_transpose (weight->node))
        {
          weight = weight->node->inputs[0];
          by_rows = !by_rows;
        }
      plain = !product.transpose_a && product.alpha == 1.0 && (bias == NULL || product.beta == 1.0);
    }
  packed = find_packed (weight, type->data_type);
  if (packed == NULL)
    return FALSE;
  if (!by_rows || !plain)
    {
      RLX_NOTE (FUSE, "%%%u %s unpacks its weight first: rows are not along the sum, or there are factors",
                node->outputs[0].id, node->op->name);
      return FALSE;
    }

  attrs = rlx_dequantize_blocks_attrs (packed);
  rows = self->map[packed->inputs[RLX_DEQUANTIZE_BLOCKS_SELF]->id];
  scale = find_mapped (self, packed->inputs[RLX_DEQUANTIZE_BLOCKS_SCALE]);
  zero = find_mapped (self, packed->inputs[RLX_DEQUANTIZE_BLOCKS_ZERO_POINT]);
  if (gather)
    value = rlx_build_gather_packed (&b, rows, self->map[node->inputs[RLX_GATHER_INDICES]->id], scale, zero,
                                     RLX_GATHER_PACKED_ATTRS (.type = attrs->type, .block_size = attrs->block_size,
                                                              .columns = attrs->columns, .to = type->data_type));
  else
    value = rlx_build_dequant_matmul (&b, self->map[node->inputs[RLX_LINEAR_SELF]->id], rows, scale, zero, NULL, NULL,
                                      RLX_DEQUANT_MATMUL_ATTRS (.type = attrs->type, .block_size = attrs->block_size));
  if (value != NULL && bias != NULL && rlx_type_equal (&value->type, type))
    value = rlx_build_add (&b, value, self->map[bias->id]);
  if (value == NULL || !rlx_type_equal (&value->type, type))
    {
      RLX_NOTE (FUSE, "%%%u %s unpacks its weight first: %s", node->outputs[0].id, node->op->name,
                b.error != NULL ? b.error->message : "rows have room for more");
      return FALSE;
    }
  self->map[node->outputs[0].id] = value;
  RLX_NOTE (FUSE, "%%%u: %s leaves its weight packed", node->outputs[0].id, node->op->name);
  return TRUE;
}

/* Scales or zero points of bytes as their product takes them: one, or one for each of @n along an axis of two. */
static RlxIrValue *
as_levels (RlxBuilder *b,
           RlxIrValue *value,
           guint       axis,
           gint64      n)
{
  const RlxTensorType *type = &value->type;

  if (rlx_type_n_elements (type) != 1 &&
      (type->n_dims > 2 || type->n_dims < 2 - axis || type->shape[type->n_dims - 2 + axis] != n || rlx_type_n_elements (type) != (guint64) n))
    return NULL;
  n = (gint64) rlx_type_n_elements (type);
  return rlx_build_reshape (b, value, RLX_RESHAPE_ATTRS (.shape = RLX_INTS (&n, 1)));
}

/* As often as there are rows. */
static RlxIrValue *
add_bytes (RlxBuilder *b,
           RlxDataType data_type,
           gint64      value,
           gint64      n)
{
  guint8 *values = g_try_malloc ((gsize) n + 1);
  g_autoptr(GBytes) bytes = g_bytes_new_take (values, values != NULL ? (gsize) n : 0);

  if (values == NULL)
    return NULL;
  memset (values, (int) (guint8) value, (gsize) n);
  return rlx_build_constant (b, rlx_tensor_new_from_bytes (data_type, &n, 1, bytes, NULL));
}

static gboolean
append_dequantised (RlxRewrite      *self,
                    const RlxIrNode *node)
{
  g_auto(RlxBuilder) b = RLX_BUILDER (self->out, node);
  const RlxTensorType *type = &node->outputs[0].type;
  const RlxIrNode *unpacked, *leaf;
  const RlxIrValue *weight, *bias, *levels;
  RlxIrValue *rows, *scale, *zero, *value;
  RlxLinearAttrs product;
  gboolean by_rows;
  guint axis;
  gint64 n, integer = 0;
  double number;

  if (!rlx_ir_node_is (node, RLX_OP_ID_LINEAR) && !rlx_ir_node_is (node, RLX_OP_ID_MATMUL))
    return FALSE;
  product = rlx_ir_node_as_linear (node);
  bias = rlx_ir_node_get_bias (node);
  weight = node->inputs[RLX_LINEAR_WEIGHT];
  by_rows = product.transpose_b;
  if (is_matrix_transpose (weight->node))
    {
      weight = weight->node->inputs[0];
      by_rows = !by_rows;
    }
  unpacked = weight->node;
  if (product.transpose_a || product.alpha != 1.0 || (bias != NULL && product.beta != 1.0) ||
      !rlx_ir_node_is (unpacked, RLX_OP_ID_DEQUANTIZE_LINEAR) || rlx_dequantize_linear_attrs (unpacked)->blocks.n_values > 0 ||
      weight->type.n_dims != 2 || weight->type.data_type != type->data_type)
    return FALSE;

  /* Where the columns of the result are in the scales, and then in the bytes. */
  axis = by_rows ? 0 : 1;
  n = weight->type.shape[axis];
  weight = unpacked->inputs[RLX_DEQUANTIZE_LINEAR_SELF];
  if (is_matrix_transpose (weight->node))
    {
      weight = weight->node->inputs[0];
      by_rows = !by_rows;
    }
  leaf = weight->node;
  if ((leaf->op != &rlx_op_constant && leaf->op != &rlx_op_parameter) || (weight->type.data_type != RLX_DATA_TYPE_U8 && weight->type.data_type != RLX_DATA_TYPE_I8))
    return FALSE;
  rows = self->map[weight->id];
  if (!by_rows)
    rows = rlx_build_transpose (&b, rows, RLX_TRANSPOSE_ATTRS (.permutation = RLX_INTS (((gint64[]) { 1, 0 }), 2)));
  scale = as_levels (&b, self->map[unpacked->inputs[RLX_DEQUANTIZE_LINEAR_SCALE]->id], axis, n);
  /* each row has its own */
  levels = unpacked->inputs[RLX_DEQUANTIZE_LINEAR_ZERO_POINT];
  if (levels == NULL || rlx_ir_value_get_immediate (levels, &number, &integer))
    zero = add_bytes (&b, weight->type.data_type, integer, n);
  else if ((zero = as_levels (&b, self->map[levels->id], axis, n)) != NULL)
    zero = rlx_build_expand (&b, zero, RLX_EXPAND_ATTRS (.shape = RLX_INTS (&n, 1)));
  if (scale == NULL || zero == NULL)
    return FALSE;
  value = rlx_build_dequant_matmul (&b, self->map[node->inputs[RLX_LINEAR_SELF]->id], rows, scale, zero, NULL, NULL,
                                    RLX_DEQUANT_MATMUL_ATTRS (.type = RLX_PACKED_TYPE_INT8));
  if (value != NULL && bias != NULL && rlx_type_equal (&value->type, type))
    value = rlx_build_add (&b, value, self->map[bias->id]);
  if (value == NULL || !rlx_type_equal (&value->type, type))
    {
      RLX_NOTE (FUSE, "%%%u %s makes floats of its weight first: %s", node->outputs[0].id, node->op->name, b.error != NULL ? b.error->message : "it broadcasts");
      return FALSE;
    }
  self->map[node->outputs[0].id] = value;
  RLX_NOTE (FUSE, "%%%u: %s leaves the bytes of its weight as they are", node->outputs[0].id, node->op->name);
  return TRUE;
}

/* ---- biases ---------------------------------------------------------------------------- */

static gboolean
append_linear (RlxRewrite      *self,
               const RlxIrNode *node)
{
  const RlxTensorType *type = &node->outputs[0].type;

  for (guint i = 0; i < 2 && rlx_ir_node_is (node, RLX_OP_ID_ADD); i++)
    {
      const RlxIrNode *product = self->map[node->inputs[i]->id]->node;
      const RlxTensorType *bias = &node->inputs[1 - i]->type;
      g_auto(RlxBuilder) b = RLX_BUILDER (self->out, node);
      RlxLinearAttrs attrs;
      RlxIrValue *value;

      if (!rlx_ir_node_is (product, RLX_OP_ID_MATMUL) || rlx_rewrite_get_only_user (self, node->inputs[i]) == NULL ||
          bias->n_dims != 1 || type->n_dims < 2 ||
          bias->shape[0] != type->shape[type->n_dims - 1] || product->inputs[1]->type.n_dims != 2 ||
          !rlx_type_equal (&product->outputs[0].type, type) ||
          (rlx_matmul_attrs (product)->transpose_a && product->inputs[0]->type.n_dims != 2))
        continue;
      attrs = rlx_ir_node_as_linear (product);
      value = rlx_build_linear (&b, product->inputs[0], product->inputs[1], self->map[node->inputs[1 - i]->id], &attrs);
      if (value == NULL)
        continue;
      value->node->name = g_strdup (product->name != NULL ? product->name : node->name);
      self->map[node->outputs[0].id] = value;
      RLX_NOTE (FUSE, "%%%u: a product and its bias are linear", node->outputs[0].id);
      return TRUE;
    }
  return FALSE;
}

/* ---- norms of sums --------------------------------------------------------------------------- */

/* Whether the sum would not be a separate kernel anyway: it is part of the node that
 * computes an operand, or of a region. */
static gboolean
is_part_of_another (RlxRewrite      *self,
                    const RlxIrNode *add)
{
  for (guint i = 0; i < 2; i++)
    {
      const RlxIrNode *from = add->inputs[i]->node;

      if (rlx_rewrite_get_only_user (self, add->inputs[i]) != NULL && rlx_type_same_shape (&add->inputs[i]->type, &add->outputs[0].type) &&
          (from->op->flags & (RLX_OP_ELEMENTWISE | RLX_OP_EPILOGUE)) != 0)
        return TRUE;
    }
  return FALSE;
}

/* Whether everything else that needs the sum comes after the norm, which also returns it. */
static gboolean
is_first_user (RlxRewrite       *self,
               const RlxIrValue *sum,
               const RlxIrNode  *node)
{
  for (guint i = 0; i < self->users[sum->id]->len; i++)
    if (g_array_index (self->users[sum->id], guint, i) < node->id)
      return FALSE;
  return TRUE;
}

static gboolean
append_residual_norm (RlxRewrite      *self,
                      const RlxIrNode *node)
{
  gboolean layer = rlx_ir_node_is (node, RLX_OP_ID_LAYER_NORM);
  g_auto(RlxBuilder) b = RLX_BUILDER (self->out, node);
  RlxIrValue *sum, *residual, *scale, *bias;
  const RlxIrNode *add;
  RlxLayerNormAttrs attrs;
  RlxIrNode *norm;
  guint whole;

  if ((!layer && !rlx_ir_node_is (node, RLX_OP_ID_RMS_NORM)) || !rlx_ir_node_is (node->inputs[0]->node, RLX_OP_ID_ADD))
    return FALSE;
  add = node->inputs[0]->node;
  whole = rlx_type_same_shape (&add->inputs[0]->type, &add->outputs[0].type) ? 0 : 1;
  if (!rlx_type_same_shape (&add->inputs[whole]->type, &add->outputs[0].type) || is_part_of_another (self, add))
    return FALSE;
  if (!is_first_user (self, &add->outputs[0], node))
    {
      RLX_NOTE (FUSE, "%%%u %s does not compute its sum: that is needed earlier", node->outputs[0].id, node->op->name);
      return FALSE;
    }

  sum = self->map[add->inputs[whole]->id];
  residual = self->map[add->inputs[1 - whole]->id];
  scale = find_mapped (self, node->inputs[RLX_LAYER_NORM_SCALE]);
  bias = layer ? find_mapped (self, node->inputs[RLX_LAYER_NORM_BIAS]) : NULL;
  attrs = *rlx_layer_norm_attrs (node);
  attrs.keep_sum = rlx_rewrite_get_only_user (self, &add->outputs[0]) == NULL;
  norm = layer ? rlx_build_residual_layer_norm (&b, sum, residual, scale, bias, NULL, &attrs)
               : rlx_build_residual_rms_norm (&b, sum, residual, scale, NULL, &attrs);
  if (norm == NULL)
    return FALSE;
  norm->name = g_strdup (node->name);
  self->map[node->outputs[0].id] = &norm->outputs[0];
  if (attrs.keep_sum)
    self->map[add->outputs[0].id] = &norm->outputs[1];
  RLX_NOTE (FUSE, "%%%u: %s adds up what it normalises", node->outputs[0].id, node->op->name);
  return TRUE;
}

/* ---- transposed operands ----------------------------------------------------------------------- */

static gboolean
may_read_transposed (RlxRewrite      *self,
                     const RlxIrNode *node,
                     guint            index)
{
  const RlxTensorType *type = &node->outputs[0].type;

  if (!is_matrix_transpose (node->inputs[index]->node))
    return FALSE;
  if (index == 1)
    return TRUE;
  if (rlx_ir_node_is (node, RLX_OP_ID_LINEAR) && node->inputs[0]->type.n_dims != 2)
    return FALSE;
  return self->target->loads_coalesce || type->n_dims == 0 || type->shape[type->n_dims - 1] <= MAX_GATHERED_COLUMNS;
}

static gboolean
append_product (RlxRewrite      *self,
                const RlxIrNode *node)
{
  g_auto(RlxBuilder) b = RLX_BUILDER (self->out, node);
  RlxIrValue *inputs[2], *value;
  gboolean transposed[2];
  RlxLinearAttrs attrs;

  if (!rlx_ir_node_is (node, RLX_OP_ID_MATMUL) && !rlx_ir_node_is (node, RLX_OP_ID_LINEAR))
    return FALSE;
  for (guint i = 0; i < 2; i++)
    {
      transposed[i] = may_read_transposed (self, node, i);
      inputs[i] = self->map[transposed[i] ? node->inputs[i]->node->inputs[0]->id : node->inputs[i]->id];
    }
  if (!transposed[0] && !transposed[1])
    return FALSE;

  attrs = rlx_ir_node_as_linear (node);
  attrs.transpose_a ^= transposed[0];
  attrs.transpose_b ^= transposed[1];
  if (rlx_ir_node_is (node, RLX_OP_ID_LINEAR))
    value = rlx_build_linear (&b, inputs[0], inputs[1], find_mapped (self, node->inputs[RLX_LINEAR_BIAS]), &attrs);
  else
    value = rlx_build_matmul (&b, inputs[0], inputs[1],
                              RLX_MATMUL_ATTRS (.transpose_a = attrs.transpose_a, .transpose_b = attrs.transpose_b));
  if (value == NULL)
    return FALSE;
  value->node->name = g_strdup (node->name);
  self->map[node->outputs[0].id] = value;
  RLX_NOTE (FUSE, "%%%u: %s reads its %s operand as it was before the transpose", node->outputs[0].id, node->op->name,
            transposed[0] && transposed[1] ? "first and second" : transposed[0] ? "first" : "second");
  return TRUE;
}

/* ---- the pass --------------------------------------------------------------------------------- */

RlxIr *
rlx_pass_recognise (const RlxIr     *ir,
                    const RlxTarget *target,
                    GError         **error)
{
  g_auto(RlxRewrite) self = { 0, };

  rlx_rewrite_init (&self, ir, target);
  for (guint i = 0; i < ir->nodes->len; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);

      if (!self.live[i] || append_attention (&self, node) || append_packed (&self, node) || append_dequantised (&self, node) || append_linear (&self, node) ||
          append_residual_norm (&self, node) || append_product (&self, node))
        continue;
      rlx_rewrite_copy (&self, node);
    }

  return rlx_rewrite_end (&self);
}
