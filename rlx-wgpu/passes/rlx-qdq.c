/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Quantised graphs say "take the numbers that these integers stand for, compute,
 * quantise again". Where the integers alone give the same result, this pass lets
 * them:
 *
 * - What only moves elements about or picks some of them is done to the integers,
 *   when what follows quantises with the same scale and zero point, or compares.
 *   That gives the same bits: (x - zero) · scale is off by 2⁻²⁴ of itself at most,
 *   so the quotient by the scale is within 255 · 2⁻²¹ of x - zero, an integer, and
 *   is rounded to it (with 16-bit floats within 255 · 2⁻¹¹ + 255 · 2⁻²¹ < ½).
 * - Convolutions and products of matrices add up integers (rlx-qdq-product.c says
 *   why that is within the bounds of what it replaces).
 * - Around element-wise operators both directions become element-wise operators
 *   themselves, of the same arithmetic, so that all of it is one kernel which reads
 *   and writes integers. That gives the same bits, too.
 *
 * All of that takes scales that are known constants in a range in which nothing
 * overflows or vanishes; otherwise the graph stays as it is.
 */
#include "config.h"

#include "passes/rlx-qdq-private.h"

#include <math.h>

#include "rlx-tensor-private.h"
#include "util/rlx-debug-private.h"
#include "util/rlx-element-private.h"

/* ---- facts ---------------------------------------------------------------------- */

RlxTensor *
rlx_qdq_get_constant (const RlxIrValue *value)
{
  while (rlx_ir_node_is (value->node, RLX_OP_ID_RESHAPE))
    value = value->node->inputs[0];
  return rlx_ir_node_is (value->node, RLX_OP_ID_CONSTANT) ? value->node->data : NULL;
}

gboolean
rlx_qdq_is_scale (double      scale,
                  RlxDataType data_type)
{
  if (data_type == RLX_DATA_TYPE_F16)
    return scale >= 0x1p-10 && scale <= 0x1p7;
  return scale >= 0x1p-40 && scale <= 0x1p40;
}

static gboolean
is_byte_or_less (RlxDataType data_type)
{
  return rlx_data_type_is_int (data_type) && rlx_data_type_get_bits (data_type) <= 8;
}

/* The common value of all elements of a constant. */
static gboolean
get_only_value (const RlxIrValue *value,
                double           *number)
{
  RlxTensor *tensor = rlx_qdq_get_constant (value);
  guint64 n = rlx_type_n_elements (&value->type);

  if (tensor == NULL || n == 0)
    return FALSE;
  *number = rlx_tensor_get_value (tensor, 0);
  for (guint64 i = 1; i < n; i++)
    if (rlx_tensor_get_value (tensor, i) != *number)
      return FALSE;
  return TRUE;
}

gboolean
rlx_qdq_get_levels (const RlxIrNode *node,
                    double          *scale,
                    gint64          *zero)
{
  /* both directions have them at the same positions */
  const RlxIrValue *scales = node->inputs[RLX_QUANTIZE_LINEAR_SCALE], *zeros = node->inputs[RLX_QUANTIZE_LINEAR_ZERO_POINT];
  gboolean back = rlx_ir_node_is (node, RLX_OP_ID_DEQUANTIZE_LINEAR);
  const RlxIrValue *x = back ? node->inputs[0] : &node->outputs[0];
  const RlxIrValue *floats = back ? &node->outputs[0] : node->inputs[0];
  double number = 0;

  if (!is_byte_or_less (x->type.data_type) || floats->type.data_type != scales->type.data_type || !get_only_value (scales, scale) ||
      (zeros != NULL && !get_only_value (zeros, &number)))
    return FALSE;
  *zero = (gint64) number;
  return rlx_qdq_is_scale (*scale, scales->type.data_type);
}

static void
get_range (RlxDataType data_type,
           gint64     *least,
           gint64     *greatest)
{
  guint bits = rlx_data_type_get_bits (data_type);

  *least = rlx_data_type_is_unsigned (data_type) ? 0 : -((gint64) 1 << (bits - 1));
  *greatest = *least + ((gint64) 1 << bits) - 1;
}

gboolean
rlx_qdq_get_level (double      number,
                   double      scale,
                   gint64      zero,
                   RlxDataType data_type,
                   gint64     *level)
{
  double quotient = (double) (float) number / scale, off;
  gint64 least, greatest;

  get_range (data_type, &least, &greatest);
  if (isnan (quotient))
    return FALSE;
  if (fabs (quotient) > 512)
    {
      *level = quotient < 0 ? least : greatest;
      return TRUE;
    }
  /* division is within 2.5 ulp */
  off = fabs (fabs (quotient - trunc (quotient)) - 0.5);
  if (off <= 4 * 0x1p-23 * fabs (quotient))
    return FALSE;
  *level = CLAMP ((gint64) nearbyint (quotient) + zero, least, greatest);
  return TRUE;
}

/* ---- moving and picking integers ----------------------------------------------------- */

typedef enum
{
  KIND_NONE,
  KIND_MOVE,      /* of the first input; the others are positions */
  KIND_JOIN,      /* all inputs */
  KIND_PICK,      /* all inputs: the result is an element of them, by their order */
  KIND_PICK_ONE,  /* as above, of the first input */
  KIND_COMPARE,   /* all inputs; the result is none of them */
} Kind;

static Kind
get_kind (const RlxIrNode *node)
{
  switch (node->op->id)
    {
    case RLX_OP_ID_RESHAPE:
    case RLX_OP_ID_TRANSPOSE:
    case RLX_OP_ID_SLICE:
    case RLX_OP_ID_EXPAND:
    case RLX_OP_ID_REVERSE:
    case RLX_OP_ID_ROLL:
    case RLX_OP_ID_SPLIT:
    case RLX_OP_ID_TILE:
    case RLX_OP_ID_SQUEEZE:
    case RLX_OP_ID_UNSQUEEZE:
    case RLX_OP_ID_GATHER:
    case RLX_OP_ID_GATHER_ELEMENTS:
    case RLX_OP_ID_GATHER_ND:
    case RLX_OP_ID_DEPTH_TO_SPACE:
    case RLX_OP_ID_SPACE_TO_DEPTH:
      return KIND_MOVE;

    case RLX_OP_ID_CONCAT:
      return KIND_JOIN;

    case RLX_OP_ID_MAX:
    case RLX_OP_ID_MIN:
      return KIND_PICK;

    case RLX_OP_ID_REDUCE_MAX:
    case RLX_OP_ID_REDUCE_MIN:
    case RLX_OP_ID_MAX_POOL:
      return KIND_PICK_ONE;

    case RLX_OP_ID_EQUAL:
    case RLX_OP_ID_NOT_EQUAL:
    case RLX_OP_ID_LESS:
    case RLX_OP_ID_LESS_EQUAL:
    case RLX_OP_ID_GREATER:
    case RLX_OP_ID_GREATER_EQUAL:
    case RLX_OP_ID_ARG_MAX:
    case RLX_OP_ID_ARG_MIN:
      return KIND_COMPARE;

    default:
      return KIND_NONE;
    }
}

/* Results of no elements are not such integers: a window that only covers padding, the
 * largest of nothing. */
static gboolean
picks_something (const RlxIrNode *node)
{
  const RlxPoolAttrs *attrs;

  if (rlx_type_n_elements (&node->inputs[0]->type) == 0)
    return FALSE;
  if (!rlx_ir_node_is (node, RLX_OP_ID_MAX_POOL))
    return TRUE;
  attrs = rlx_pool_attrs (node);
  for (guint i = 0; i < attrs->padding.n_values; i++)
    if (attrs->padding.values[i] > 0 &&
        (attrs->window.n_values == 0 || attrs->padding.values[i] >= attrs->window.values[i / 2] ||
         (attrs->dilations.n_values > 0 && attrs->dilations.values[i / 2] != 1)))
      return FALSE;
  return attrs->output_sizes.n_values == 0 && !attrs->ceil_mode;
}

/* The integers of the first @n inputs, if all have the same scale. */
static const RlxQuantized *
get_common (RlxQdq          *self,
            const RlxIrNode *node,
            guint            n)
{
  const RlxQuantized *first = NULL;

  for (guint i = 0; i < n; i++)
    {
      const RlxQuantized *here = node->inputs[i] != NULL ? &self->quantized[node->inputs[i]->id] : NULL;

      if (here == NULL || here->value == NULL)
        return NULL;
      if (first != NULL && (here->scale != first->scale || here->zero != first->zero ||
                            here->value->type.data_type != first->value->type.data_type))
        return NULL;
      if (first == NULL || here->levels_only)
        first = here;
    }
  return first;
}

static gboolean
takes_type (const RlxOp *op,
            guint        input,
            RlxDataType  data_type)
{
  return (op->inputs[MIN (input, op->n_inputs - 1)].types >> data_type & 1) != 0;
}

/* A copy of @node that computes with integers in its first @n inputs. */
static RlxIrNode *
append_integers (RlxQdq          *self,
                 const RlxIrNode *node,
                 guint            n)
{
  g_autofree RlxIrValue **inputs = g_new0 (RlxIrValue *, node->n_inputs + 1);
  RlxDataType data_type = self->quantized[node->inputs[0]->id].value->type.data_type;

  for (guint i = 0; i < node->n_inputs; i++)
    {
      if (node->inputs[i] != NULL)
        inputs[i] = i < n ? self->quantized[node->inputs[i]->id].value : self->base->map[node->inputs[i]->id];
      if (i < n && !takes_type (node->op, i, data_type))
        return NULL;
    }
  return rlx_builder_append (&self->b, node->op, inputs, node->n_inputs, node->attrs);
}

/* Padding with a number is padding with its level. */
static void
follow_pad (RlxQdq          *self,
            const RlxIrNode *node)
{
  const RlxQuantized *x = &self->quantized[node->inputs[RLX_PAD_SELF]->id];
  gboolean constant = rlx_pad_attrs (node)->mode == RLX_PAD_MODE_CONSTANT;
  const RlxIrValue *filling = node->inputs[RLX_PAD_VALUE];
  RlxIrValue *level_value = NULL;
  RlxDataType data_type;
  double number = 0;
  gint64 level = 0;

  if (x->value == NULL || !takes_type (node->op, RLX_PAD_SELF, x->value->type.data_type))
    return;
  data_type = x->value->type.data_type;
  if (constant)
    {
      if (filling != NULL)
        {
          RlxTensor *known = rlx_qdq_get_constant (filling);

          if (known == NULL)
            return;
          number = rlx_tensor_get_value (known, 0);
        }
      if (!rlx_qdq_get_level (number, x->scale, x->zero, data_type, &level))
        return;
      level_value = rlx_build_constant (&self->b, rlx_tensor_new_scalar (data_type, (double) level, NULL));
    }
  self->quantized[node->outputs[0].id] = (RlxQuantized) {
    .value = rlx_build_pad (&self->b, x->value, level_value, rlx_pad_attrs (node)),
    .scale = x->scale,
    .zero = x->zero,
    .levels_only = x->levels_only || (constant && number != 0),
  };
}

/* Limits apply to the levels: quantising preserves the order. */
static void
follow_clamp (RlxQdq          *self,
              const RlxIrNode *node)
{
  const RlxQuantized *x = &self->quantized[node->inputs[0]->id];
  gboolean relu = rlx_ir_node_is (node, RLX_OP_ID_RELU);
  double minimum = relu ? 0 : rlx_clamp_attrs (node)->minimum, maximum = relu ? INFINITY : rlx_clamp_attrs (node)->maximum;
  RlxDataType data_type;
  gint64 least, greatest;

  /* 16-bit floats round the limits, too */
  if (x->value == NULL || (!relu && node->outputs[0].type.data_type != RLX_DATA_TYPE_F32))
    return;
  data_type = x->value->type.data_type;
  if (!takes_type (&rlx_op_clamp, 0, data_type) ||
      !rlx_qdq_get_level (minimum, x->scale, x->zero, data_type, &least) ||
      !rlx_qdq_get_level (maximum, x->scale, x->zero, data_type, &greatest))
    {
      RLX_NOTE (FUSE, "%%%u %s is not done to integers: a limit is half-way between two of them", node->outputs[0].id, node->op->name);
      return;
    }
  self->quantized[node->outputs[0].id] = (RlxQuantized) {
    .value = rlx_build_clamp (&self->b, x->value, RLX_CLAMP_ATTRS (.minimum = (double) least, .maximum = (double) greatest)),
    .scale = x->scale,
    .zero = x->zero,
    .levels_only = x->levels_only || !relu,
  };
}

/* Creates the integers that @node's result represents, if there are any. TRUE if the
 * node needs no further treatment. */
static gboolean
follow (RlxQdq          *self,
        const RlxIrNode *node)
{
  Kind kind = get_kind (node);
  guint n = kind == KIND_MOVE || kind == KIND_PICK_ONE ? 1 : node->n_inputs;
  const RlxQuantized *x;
  RlxIrNode *copy;

  if (rlx_ir_node_is (node, RLX_OP_ID_PAD))
    follow_pad (self, node);
  else if (rlx_ir_node_is (node, RLX_OP_ID_CLAMP) || rlx_ir_node_is (node, RLX_OP_ID_RELU))
    follow_clamp (self, node);
  if (kind == KIND_NONE || node->n_inputs == 0)
    return FALSE;

  x = get_common (self, node, n);
  if (x == NULL || (kind == KIND_PICK_ONE && !picks_something (node)) || (kind == KIND_COMPARE && x->levels_only))
    return FALSE;
  copy = append_integers (self, node, n);
  if (copy == NULL)
    return FALSE;
  for (guint i = 0; i < node->n_outputs; i++)
    {
      if (kind == KIND_COMPARE)
        self->base->map[node->outputs[i].id] = &copy->outputs[i];
      else
        self->quantized[node->outputs[i].id] = (RlxQuantized) { &copy->outputs[i], x->scale, x->zero, x->levels_only };
    }
  if (kind == KIND_COMPARE)
    RLX_NOTE (FUSE, "%%%u %s compares integers", node->outputs[0].id, node->op->name);
  return kind == KIND_COMPARE;
}

/* A quantize_linear of values that integers represent returns these. */
static gboolean
cancel (RlxQdq          *self,
        const RlxIrNode *node)
{
  const RlxQuantized *x = &self->quantized[node->inputs[0]->id];
  double scale;
  gint64 zero;

  if (x->value == NULL)
    return FALSE;
  if (!rlx_qdq_get_levels (node, &scale, &zero) || scale != x->scale || zero != x->zero ||
      node->outputs[0].type.data_type != x->value->type.data_type)
    {
      RLX_NOTE (FUSE, "%%%u quantize_linear stays: its scale, zero point or type is not that of its operand", node->outputs[0].id);
      return FALSE;
    }
  self->base->map[node->outputs[0].id] = x->value;
  RLX_NOTE (FUSE, "%%%u quantize_linear: what it quantises are integers already", node->outputs[0].id);
  return TRUE;
}

/* ---- element-wise operators ------------------------------------------------------------ */

/* Whether quantising is element-wise: the scale repeats, but not in blocks. Other
 * operators can then do it. */
static gboolean
is_simple (const RlxIrNode *node)
{
  gboolean back = rlx_ir_node_is (node, RLX_OP_ID_DEQUANTIZE_LINEAR);
  const RlxIrValue *x, *scale;

  if (!back && !rlx_ir_node_is (node, RLX_OP_ID_QUANTIZE_LINEAR))
    return FALSE;
  x = node->inputs[0];
  scale = node->inputs[1];
  if (!is_byte_or_less (back ? x->type.data_type : node->outputs[0].type.data_type) || scale->type.data_type != RLX_DATA_TYPE_F32 ||
      (!back && x->type.data_type != RLX_DATA_TYPE_F32) ||
      (back ? rlx_dequantize_linear_attrs (node)->blocks : rlx_quantize_linear_attrs (node)->blocks).n_values > 0)
    return FALSE;
  /* broadcasting would give the result the dimensions of the scale */
  if (scale->type.n_dims > x->type.n_dims)
    return FALSE;
  for (guint i = 0; i < scale->type.n_dims; i++)
    if (scale->type.shape[i] != 1 && scale->type.shape[i] != x->type.shape[x->type.n_dims - scale->type.n_dims + i])
      return FALSE;
  return TRUE;
}

static gboolean
is_elementwise (const RlxIrNode *node)
{
  return (node->op->flags & RLX_OP_ELEMENTWISE) != 0 || is_simple (node);
}

static gboolean
has_elementwise_user (RlxQdq           *self,
                      const RlxIrValue *value)
{
  const GArray *users = self->base->users[value->id];

  for (guint i = 0; users != NULL && i < users->len; i++)
    if (is_elementwise (g_ptr_array_index (self->base->ir->nodes, g_array_index (users, guint, i))))
      return TRUE;
  return FALSE;
}

/* Whether quantising becomes part of the node that computes its operand: an element-wise operator, or a convolution of
 * floats, with quantising as its epilogue. */
static gboolean
is_part_of_operand (RlxQdq          *self,
                    const RlxIrNode *node)
{
  const RlxIrNode *from = node->inputs[0]->node;

  return is_elementwise (from) ||
         (rlx_ir_node_is (from, RLX_OP_ID_CONV) && rlx_rewrite_get_only_user (self->base, node->inputs[0]) != NULL);
}

/* Whether integers are converted to floats where they are computed, or where they are needed. */
static gboolean
is_part_of_others (RlxQdq          *self,
                   const RlxIrNode *node)
{
  const RlxIrNode *from = node->inputs[0]->node;

  return has_elementwise_user (self, &node->outputs[0]) ||
         (rlx_ir_node_is (from, RLX_OP_ID_QUANTIZE_LINEAR) && is_simple (from) && is_part_of_operand (self, from) &&
          rlx_rewrite_get_only_user (self->base, node->inputs[0]) != NULL);
}

/* The zero point as numbers, or NULL if it is 0. */
static RlxIrValue *
build_zero (RlxQdq          *self,
            const RlxIrNode *node)
{
  const RlxIrValue *zero = node->inputs[RLX_QUANTIZE_LINEAR_ZERO_POINT];
  RlxTensor *known;

  if (zero == NULL)
    return NULL;
  known = rlx_qdq_get_constant (zero);
  if (known != NULL && rlx_type_n_elements (&zero->type) == 1)
    {
      gint64 level = rlx_element_get_int (zero->type.data_type, rlx_tensor_peek_data (known), 0);

      if (level == 0)
        return NULL;
      return rlx_build_constant (&self->b, rlx_tensor_new_scalar (RLX_DATA_TYPE_F32, (double) level, NULL));
    }
  return rlx_build_cast (&self->b, self->base->map[zero->id], RLX_CAST_ATTRS (.to = RLX_DATA_TYPE_F32));
}

/* The scale; a single one as a number, which kernels take as a parameter. */
static RlxIrValue *
build_scale (RlxQdq          *self,
             const RlxIrNode *node)
{
  const RlxIrValue *scale = node->inputs[RLX_QUANTIZE_LINEAR_SCALE];
  RlxTensor *known = rlx_qdq_get_constant (scale);

  if (known == NULL || rlx_type_n_elements (&scale->type) != 1)
    return self->base->map[scale->id];
  return rlx_build_constant (&self->b, rlx_tensor_new_scalar (RLX_DATA_TYPE_F32, rlx_tensor_get_value (known, 0), NULL));
}

RlxIrValue *
rlx_qdq_build_levels (RlxQdq     *self,
                      RlxIrValue *value,
                      gint64      zero)
{
  const RlxQuantized *known = g_hash_table_lookup (self->levels, value);
  RlxIrValue *floats;

  if (known != NULL && known->zero == zero)
    return known->value;
  floats = rlx_build_cast (&self->b, value, RLX_CAST_ATTRS (.to = RLX_DATA_TYPE_F32));
  if (zero != 0)
    floats = rlx_build_sub (&self->b, floats, rlx_build_constant (&self->b, rlx_tensor_new_scalar (RLX_DATA_TYPE_F32, (double) zero, NULL)));
  g_hash_table_insert (self->levels, value, g_memdup2 (&(RlxQuantized) { .value = floats, .zero = zero }, sizeof (RlxQuantized)));
  return floats;
}

/* quantize_linear and dequantize_linear, spelled out in operators that give the same
 * bits. */
static void
spell_out (RlxQdq          *self,
           const RlxIrNode *node)
{
  RlxIrValue *x = self->base->map[node->inputs[0]->id], *zero = build_zero (self, node), *scale = build_scale (self, node);
  RlxBuilder *b = &self->b;

  if (rlx_ir_node_is (node, RLX_OP_ID_DEQUANTIZE_LINEAR))
    {
      const RlxQuantized *known = &self->quantized[node->outputs[0].id];

      if (known->value == x)
        {
          x = rlx_qdq_build_levels (self, x, known->zero);
        }
      else
        {
          x = rlx_build_cast (b, x, RLX_CAST_ATTRS (.to = RLX_DATA_TYPE_F32));
          if (zero != NULL)
            x = rlx_build_sub (b, x, zero);
        }
      x = rlx_build_mul (b, x, scale);
    }
  else
    {
      x = rlx_build_round_even (b, rlx_build_div (b, x, scale));
      if (zero != NULL)
        x = rlx_build_add (b, x, zero);
      x = rlx_build_cast (b, x, RLX_CAST_ATTRS (.to = node->outputs[0].type.data_type));
    }
  self->base->map[node->outputs[0].id] = x;
}

/* ---- the walk ---------------------------------------------------------------------------- */

static void
walk_node (RlxQdq          *self,
           const RlxIrNode *node)
{
  RlxQuantized *result = &self->quantized[node->outputs[0].id];
  double scale;
  gint64 zero;

  self->b.origin = node->origin;
  if (rlx_ir_node_is (node, RLX_OP_ID_DEQUANTIZE_LINEAR) && rlx_qdq_get_levels (node, &scale, &zero))
    *result = (RlxQuantized) { self->base->map[node->inputs[0]->id], scale, zero, FALSE };

  if (rlx_ir_node_is (node, RLX_OP_ID_QUANTIZE_LINEAR) && cancel (self, node))
    return;
  if (rlx_qdq_multiply (self, node) || follow (self, node))
    return;
  if (is_simple (node) &&
      (rlx_ir_node_is (node, RLX_OP_ID_DEQUANTIZE_LINEAR) ? is_part_of_others (self, node) : is_part_of_operand (self, node)))
    {
      spell_out (self, node);
      return;
    }
  rlx_rewrite_copy (self->base, node);
}

static gboolean
has_quantized (const RlxIr *ir)
{
  for (guint i = 0; i < ir->nodes->len; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);

      if (rlx_ir_node_is (node, RLX_OP_ID_DEQUANTIZE_LINEAR) || rlx_ir_node_is (node, RLX_OP_ID_QUANTIZE_LINEAR))
        return TRUE;
    }
  return FALSE;
}

RlxIr *
rlx_pass_qdq (const RlxIr     *ir,
              const RlxTarget *target,
              GError         **error)
{
  g_auto(RlxRewrite) base = { 0, };
  g_autofree RlxQuantized *quantized = g_new0 (RlxQuantized, ir->n_values + 1);
  g_autofree gboolean *done = g_new0 (gboolean, ir->nodes->len + 1);
  g_autoptr(GHashTable) last = g_hash_table_new (NULL, NULL);
  g_autoptr(GHashTable) levels = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  RlxQdq self = { &base, { 0, }, quantized, done, last, levels };

  if (!has_quantized (ir))
    return NULL;

  rlx_rewrite_init (&base, ir, target);
  self.b.ir = base.out;
  for (guint i = 0; self.b.error == NULL && i < ir->nodes->len; i++)
    if (base.live[i] && !done[i])
      walk_node (&self, g_ptr_array_index (ir->nodes, i));

  if (self.b.error != NULL)
    {
      g_propagate_error (error, self.b.error);
      return NULL;
    }
  return rlx_rewrite_end (&base);
}
