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
#include <string.h>

#include "util/rlx-debug-private.h"

/* ---- facts ---------------------------------------------------------------------- */

RlxTensor *
rlx_qdq_get_constant (const RlxIrValue *value)
{
  while (rlx_qdq_is (value->node, "reshape"))
    value = value->node->inputs[0];
  return rlx_qdq_is (value->node, "constant") ? value->node->data : NULL;
}

gboolean
rlx_qdq_is_scale (double      scale,
                  RlxDataType dtype)
{
  if (dtype == RLX_DATA_TYPE_F16)
    return scale >= 0x1p-10 && scale <= 0x1p7;
  return scale >= 0x1p-40 && scale <= 0x1p40;
}

static gboolean
is_narrow (RlxDataType dtype)
{
  return rlx_data_type_is_int (dtype) && rlx_data_type_get_bits (dtype) <= 8;
}

/* The value that all elements of a constant have. */
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
  gboolean back = rlx_qdq_is (node, "dequantize_linear");
  const RlxIrValue *x = back ? node->inputs[0] : &node->outputs[0];
  const RlxIrValue *floats = back ? &node->outputs[0] : node->inputs[0];
  double number = 0;

  if (!is_narrow (x->type.dtype) || floats->type.dtype != node->inputs[1]->type.dtype ||
      !get_only_value (node->inputs[1], scale) ||
      (node->inputs[2] != NULL && !get_only_value (node->inputs[2], &number)))
    return FALSE;
  *zero = (gint64) number;
  return rlx_qdq_is_scale (*scale, node->inputs[1]->type.dtype);
}

static void
get_range (RlxDataType dtype,
           gint64     *least,
           gint64     *greatest)
{
  guint bits = rlx_data_type_get_bits (dtype);

  *least = rlx_data_type_is_unsigned (dtype) ? 0 : -((gint64) 1 << (bits - 1));
  *greatest = *least + ((gint64) 1 << bits) - 1;
}

gboolean
rlx_qdq_get_level (double      number,
                   double      scale,
                   gint64      zero,
                   RlxDataType dtype,
                   gint64     *level)
{
  double quotient = (double) (float) number / scale, off;
  gint64 least, greatest;

  get_range (dtype, &least, &greatest);
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

RlxIrNode *
rlx_qdq_get_user (RlxQdq           *self,
                  const RlxIrValue *value)
{
  const GArray *users = self->users[value->id];

  if (self->pinned[value->id] || users == NULL || users->len != 1)
    return NULL;
  return g_ptr_array_index (self->ir->nodes, g_array_index (users, guint, 0));
}

/* ---- new nodes -------------------------------------------------------------------- */

RlxIrValue *
rlx_qdq_append (RlxQdq              *self,
                const RlxIrNode     *origin,
                const char          *name,
                RlxAttrValue        *attrs,
                RlxIrValue *const   *inputs,
                guint                n_inputs,
                const RlxTensorType *type)
{
  const RlxOp *op = rlx_op_lookup (name);
  guint n_all = MAX (n_inputs, op->n_inputs);
  g_autofree RlxIrValue **all = g_new0 (RlxIrValue *, n_all + 1);
  RlxIrNode *node;

  memcpy (all, inputs, n_inputs * sizeof (RlxIrValue *));
  node = rlx_ir_append (self->out, op, attrs != NULL ? attrs : rlx_attrs_new (op), all, n_all, type, 1);
  node->origin = origin->origin;
  return &node->outputs[0];
}

RlxIrValue *
rlx_qdq_append_constant (RlxQdq          *self,
                         const RlxIrNode *origin,
                         RlxTensor       *tensor)
{
  RlxTensorType type = { .dtype = rlx_tensor_get_data_type (tensor) };
  const gint64 *shape;
  RlxIrNode *node;
  gsize rank;

  shape = rlx_tensor_get_shape (tensor, &rank);
  type.rank = (guint) rank;
  for (gsize i = 0; i < rank; i++)
    type.dims[i] = shape[i];
  node = rlx_ir_append (self->out, &rlx_op_constant, NULL, NULL, 0, &type, 1);
  node->origin = origin->origin;
  node->data = tensor;
  return &node->outputs[0];
}

void
rlx_qdq_set_int (RlxAttrValue *attrs,
                 const char   *op,
                 const char   *name,
                 gint64        value)
{
  rlx_attr_set_int (&attrs[rlx_op_find_attr (rlx_op_lookup (op), name)], value);
}

/* ---- moving and picking integers ----------------------------------------------------- */

typedef enum
{
  KIND_NONE,
  KIND_MOVE,      /* of the first input; the others say where to */
  KIND_JOIN,      /* all inputs */
  KIND_PICK,      /* all inputs: the result is an element of them, by their order */
  KIND_PICK_ONE,  /* as above, of the first input */
  KIND_COMPARE,   /* all inputs; the result is none of them */
} Kind;

static Kind
get_kind (const RlxIrNode *node)
{
  static const struct { const char *op; Kind kind; } kinds[] = {
    { "reshape", KIND_MOVE }, { "transpose", KIND_MOVE }, { "slice", KIND_MOVE }, { "expand", KIND_MOVE },
    { "reverse", KIND_MOVE }, { "roll", KIND_MOVE }, { "split", KIND_MOVE }, { "tile", KIND_MOVE },
    { "squeeze", KIND_MOVE }, { "unsqueeze", KIND_MOVE },
    { "gather", KIND_MOVE }, { "gather_elements", KIND_MOVE }, { "gather_nd", KIND_MOVE },
    { "depth_to_space", KIND_MOVE }, { "space_to_depth", KIND_MOVE },
    { "concat", KIND_JOIN },
    { "max", KIND_PICK }, { "min", KIND_PICK },
    { "reduce_max", KIND_PICK_ONE }, { "reduce_min", KIND_PICK_ONE }, { "max_pool", KIND_PICK_ONE },
    { "equal", KIND_COMPARE }, { "not_equal", KIND_COMPARE }, { "less", KIND_COMPARE },
    { "less_equal", KIND_COMPARE }, { "greater", KIND_COMPARE }, { "greater_equal", KIND_COMPARE },
    { "arg_max", KIND_COMPARE }, { "arg_min", KIND_COMPARE },
  };

  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    if (rlx_qdq_is (node, kinds[i].op))
      return kinds[i].kind;
  return KIND_NONE;
}

/* What is of no element has a result that is no integer of the kind: a window of
 * padding alone, the largest of nothing. */
static gboolean
picks_something (const RlxIrNode *node)
{
  const RlxAttrValue *padding, *window, *dilations;

  if (rlx_type_n_elements (&node->inputs[0]->type) == 0)
    return FALSE;
  if (!rlx_qdq_is (node, "max_pool"))
    return TRUE;
  padding = rlx_node_attr (node, "padding");
  window = rlx_node_attr (node, "window");
  dilations = rlx_node_attr (node, "dilations");
  for (guint i = 0; i < padding->n_ints; i++)
    if (padding->ints[i] > 0 &&
        (window->n_ints == 0 || padding->ints[i] >= window->ints[i / 2] ||
         (dilations->n_ints > 0 && dilations->ints[i / 2] != 1)))
      return FALSE;
  return rlx_node_attr (node, "output_sizes")->n_ints == 0 && rlx_node_attr (node, "ceil_mode")->i == 0;
}

/* The integers of the first @n inputs, when all have the same scale. */
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
                            here->value->type.dtype != first->value->type.dtype))
        return NULL;
      if (first == NULL || here->levels_only)
        first = here;
    }
  return first;
}

/* A copy of @node that computes with integers in its first @n inputs. */
static RlxIrNode *
append_integers (RlxQdq          *self,
                 const RlxIrNode *node,
                 guint            n,
                 gboolean         same_result)
{
  g_autofree RlxIrValue **inputs = g_new0 (RlxIrValue *, node->n_inputs + 1);
  g_autofree RlxTensorType *types = g_new0 (RlxTensorType, node->n_outputs + 1);
  RlxDataType dtype = self->quantized[node->inputs[0]->id].value->type.dtype;
  RlxIrNode *copy;

  for (guint i = 0; i < node->n_inputs; i++)
    {
      if (node->inputs[i] != NULL)
        inputs[i] = i < n ? self->quantized[node->inputs[i]->id].value : self->map[node->inputs[i]->id];
      if (i < n && (node->op->inputs[MIN (i, node->op->n_inputs - 1)].types >> dtype & 1) == 0)
        return NULL;
    }
  for (guint i = 0; i < node->n_outputs; i++)
    {
      types[i] = node->outputs[i].type;
      if (!same_result)
        types[i].dtype = dtype;
    }
  copy = rlx_ir_append (self->out, node->op, rlx_attrs_copy (node->op, node->attrs), inputs, node->n_inputs, types, node->n_outputs);
  copy->origin = node->origin;
  return copy;
}

/* Padding with a number is padding with its level. */
static void
follow_pad (RlxQdq          *self,
            const RlxIrNode *node)
{
  const RlxQuantized *x = &self->quantized[node->inputs[0]->id];
  gboolean constant = rlx_node_attr (node, "mode")->i == RLX_PAD_MODE_CONSTANT;
  const RlxIrValue *filling = node->n_inputs > 1 ? node->inputs[1] : NULL;
  RlxTensorType type = node->outputs[0].type;
  RlxIrValue *inputs[2];
  RlxTensor *known;
  double number = 0;
  gint64 level = 0;

  if (x->value == NULL)
    return;
  type.dtype = x->value->type.dtype;
  inputs[0] = x->value;
  inputs[1] = NULL;
  if (constant)
    {
      if (filling != NULL)
        {
          known = rlx_qdq_get_constant (filling);
          if (known == NULL)
            return;
          number = rlx_tensor_get_value (known, 0);
        }
      if (!rlx_qdq_get_level (number, x->scale, x->zero, type.dtype, &level) ||
          (rlx_op_lookup ("pad")->inputs[0].types >> type.dtype & 1) == 0)
        return;
      inputs[1] = rlx_qdq_append_constant (self, node, rlx_tensor_new_scalar (type.dtype, (double) level, NULL));
    }
  else if ((rlx_op_lookup ("pad")->inputs[0].types >> type.dtype & 1) == 0)
    {
      return;
    }
  self->quantized[node->outputs[0].id] = (RlxQuantized) {
    .value = rlx_qdq_append (self, node, "pad", rlx_attrs_copy (node->op, node->attrs), inputs, 2, &type),
    .scale = x->scale,
    .zero = x->zero,
    .levels_only = x->levels_only || (constant && number != 0),
  };
}

/* Limits are limits of the levels: quantising keeps the order. */
static void
follow_clamp (RlxQdq          *self,
              const RlxIrNode *node)
{
  const RlxQuantized *x = &self->quantized[node->inputs[0]->id];
  gboolean relu = rlx_qdq_is (node, "relu");
  double minimum = relu ? 0 : rlx_node_attr (node, "minimum")->f, maximum = relu ? INFINITY : rlx_node_attr (node, "maximum")->f;
  const RlxOp *clamp = rlx_op_lookup ("clamp");
  RlxTensorType type = node->outputs[0].type;
  RlxAttrValue *attrs;
  gint64 least, greatest;

  /* 16-bit floats round the limits, too */
  if (x->value == NULL || (!relu && type.dtype != RLX_DATA_TYPE_F32))
    return;
  type.dtype = x->value->type.dtype;
  if ((clamp->inputs[0].types >> type.dtype & 1) == 0 ||
      !rlx_qdq_get_level (minimum, x->scale, x->zero, type.dtype, &least) ||
      !rlx_qdq_get_level (maximum, x->scale, x->zero, type.dtype, &greatest))
    {
      RLX_NOTE (FUSE, "%%%u %s is not done to integers: a limit is half-way between two of them", node->outputs[0].id, node->op->name);
      return;
    }
  attrs = rlx_attrs_new (clamp);
  rlx_attr_set_float (&attrs[rlx_op_find_attr (clamp, "minimum")], (double) least);
  rlx_attr_set_float (&attrs[rlx_op_find_attr (clamp, "maximum")], (double) greatest);
  self->quantized[node->outputs[0].id] = (RlxQuantized) {
    .value = rlx_qdq_append (self, node, "clamp", attrs, &x->value, 1, &type),
    .scale = x->scale,
    .zero = x->zero,
    .levels_only = x->levels_only || !relu,
  };
}

/* Makes the integers that @node's result stands for, if there are any. TRUE when
 * nothing else needs to be done about the node. */
static gboolean
follow (RlxQdq          *self,
        const RlxIrNode *node)
{
  Kind kind = get_kind (node);
  guint n = kind == KIND_MOVE || kind == KIND_PICK_ONE ? 1 : node->n_inputs;
  const RlxQuantized *x;
  RlxIrNode *copy;

  if (rlx_qdq_is (node, "pad"))
    follow_pad (self, node);
  else if (rlx_qdq_is (node, "clamp") || rlx_qdq_is (node, "relu"))
    follow_clamp (self, node);
  if (kind == KIND_NONE || node->n_inputs == 0)
    return FALSE;

  x = get_common (self, node, n);
  if (x == NULL || (kind == KIND_PICK_ONE && !picks_something (node)) || (kind == KIND_COMPARE && x->levels_only))
    return FALSE;
  copy = append_integers (self, node, n, kind == KIND_COMPARE);
  if (copy == NULL)
    return FALSE;
  for (guint i = 0; i < node->n_outputs; i++)
    {
      if (kind == KIND_COMPARE)
        self->map[node->outputs[i].id] = &copy->outputs[i];
      else
        self->quantized[node->outputs[i].id] = (RlxQuantized) { &copy->outputs[i], x->scale, x->zero, x->levels_only };
    }
  if (kind == KIND_COMPARE)
    RLX_NOTE (FUSE, "%%%u %s compares integers", node->outputs[0].id, node->op->name);
  return kind == KIND_COMPARE;
}

/* A quantize_linear of what integers stand for gives them back. */
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
      node->outputs[0].type.dtype != x->value->type.dtype)
    {
      RLX_NOTE (FUSE, "%%%u quantize_linear stays: its scale, zero point or type is not that of its operand", node->outputs[0].id);
      return FALSE;
    }
  self->map[node->outputs[0].id] = x->value;
  RLX_NOTE (FUSE, "%%%u quantize_linear: what it quantises are integers already", node->outputs[0].id);
  return TRUE;
}

/* ---- element-wise operators ------------------------------------------------------------ */

/* Whether either direction is one of elements: the scale repeats, but not in
 * blocks. Then others can do it. */
static gboolean
is_simple (const RlxIrNode *node)
{
  gboolean back = rlx_qdq_is (node, "dequantize_linear");
  const RlxIrValue *x, *scale;
  const RlxAttrValue *blocks;

  if (!back && !rlx_qdq_is (node, "quantize_linear"))
    return FALSE;
  x = node->inputs[0];
  scale = node->inputs[1];
  blocks = rlx_node_attr (node, "blocks");
  if (!is_narrow (back ? x->type.dtype : node->outputs[0].type.dtype) || scale->type.dtype != RLX_DATA_TYPE_F32 ||
      (!back && x->type.dtype != RLX_DATA_TYPE_F32) || blocks->n_ints > 0)
    return FALSE;
  for (guint i = 0; i < scale->type.rank; i++)
    if (scale->type.dims[i] != 1 && scale->type.dims[i] != x->type.dims[x->type.rank - scale->type.rank + i])
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
  const GArray *users = self->users[value->id];

  for (guint i = 0; users != NULL && i < users->len; i++)
    if (is_elementwise (g_ptr_array_index (self->ir->nodes, g_array_index (users, guint, i))))
      return TRUE;
  return FALSE;
}

static RlxIrValue *
append_cast (RlxQdq          *self,
             const RlxIrNode *origin,
             RlxIrValue      *x,
             RlxDataType      to)
{
  RlxAttrValue *attrs = rlx_attrs_new (rlx_op_lookup ("cast"));
  RlxTensorType type = x->type;

  rlx_qdq_set_int (attrs, "cast", "to", to);
  type.dtype = to;
  return rlx_qdq_append (self, origin, "cast", attrs, &x, 1, &type);
}

/* The zero point as numbers, or NULL when it is 0. */
static RlxIrValue *
append_zero (RlxQdq          *self,
             const RlxIrNode *node)
{
  RlxTensor *known;
  gsize n;

  if (node->inputs[2] == NULL)
    return NULL;
  known = rlx_qdq_get_constant (node->inputs[2]);
  if (known != NULL && rlx_type_n_elements (&node->inputs[2]->type) == 1)
    {
      g_autofree gint64 *zero = rlx_tensor_get_ints (known, &n);

      if (zero[0] == 0)
        return NULL;
      return rlx_qdq_append_constant (self, node, rlx_tensor_new_scalar (RLX_DATA_TYPE_F32, (double) zero[0], NULL));
    }
  return append_cast (self, node, self->map[node->inputs[2]->id], RLX_DATA_TYPE_F32);
}

/* The scale; a single one as a number, which kernels take as a parameter. */
static RlxIrValue *
append_scale (RlxQdq          *self,
              const RlxIrNode *node)
{
  RlxTensor *known = rlx_qdq_get_constant (node->inputs[1]);

  if (known == NULL || rlx_type_n_elements (&node->inputs[1]->type) != 1)
    return self->map[node->inputs[1]->id];
  return rlx_qdq_append_constant (self, node, rlx_tensor_new_scalar (RLX_DATA_TYPE_F32, rlx_tensor_get_value (known, 0), NULL));
}

static RlxIrValue *
append_binary (RlxQdq              *self,
               const RlxIrNode     *origin,
               const char          *op,
               RlxIrValue          *a,
               RlxIrValue          *b,
               const RlxTensorType *type)
{
  return rlx_qdq_append (self, origin, op, NULL, (RlxIrValue *[]) { a, b }, 2, type);
}

/* What quantize_linear and dequantize_linear do, operator by operator: the same
 * bits. */
static void
spell_out (RlxQdq          *self,
           const RlxIrNode *node)
{
  RlxIrValue *x = self->map[node->inputs[0]->id], *zero = append_zero (self, node), *scale = append_scale (self, node);
  RlxTensorType type = node->inputs[0]->type;

  type.dtype = RLX_DATA_TYPE_F32;
  if (rlx_qdq_is (node, "dequantize_linear"))
    {
      x = append_cast (self, node, x, RLX_DATA_TYPE_F32);
      if (zero != NULL)
        x = append_binary (self, node, "sub", x, zero, &type);
      x = append_binary (self, node, "mul", x, scale, &type);
    }
  else
    {
      x = append_binary (self, node, "div", x, scale, &type);
      x = rlx_qdq_append (self, node, "round_even", NULL, &x, 1, &type);
      if (zero != NULL)
        x = append_binary (self, node, "add", x, zero, &type);
      x = append_cast (self, node, x, node->outputs[0].type.dtype);
    }
  self->map[node->outputs[0].id] = x;
}

/* ---- the walk ---------------------------------------------------------------------------- */

static void
walk_node (RlxQdq          *self,
           const RlxIrNode *node)
{
  RlxQuantized *result = &self->quantized[node->outputs[0].id];
  double scale;
  gint64 zero;

  if (rlx_qdq_is (node, "dequantize_linear") && rlx_qdq_get_levels (node, &scale, &zero))
    *result = (RlxQuantized) { self->map[node->inputs[0]->id], scale, zero, FALSE };

  if (rlx_qdq_is (node, "quantize_linear") && cancel (self, node))
    return;
  if (rlx_qdq_multiply (self, node) || follow (self, node))
    return;
  if (is_simple (node) &&
      (rlx_qdq_is (node, "dequantize_linear") ? has_elementwise_user (self, &node->outputs[0])
                                              : is_elementwise (node->inputs[0]->node)))
    {
      spell_out (self, node);
      return;
    }
  rlx_ir_copy_node (self->out, node, self->map);
}

static gboolean
has_quantized (const RlxIr *ir)
{
  for (guint i = 0; i < ir->nodes->len; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);

      if (rlx_qdq_is (node, "dequantize_linear") || rlx_qdq_is (node, "quantize_linear"))
        return TRUE;
    }
  return FALSE;
}

RlxIr *
rlx_pass_qdq (const RlxIr             *ir,
              const RlxGpuAdapterInfo *adapter)
{
  g_autofree gboolean *live = rlx_ir_find_live_nodes (ir);
  g_autofree gboolean *pinned = rlx_ir_find_pinned_values (ir);
  g_autofree RlxIrValue **map = g_new0 (RlxIrValue *, ir->n_values + 1);
  g_autofree RlxQuantized *quantized = g_new0 (RlxQuantized, ir->n_values + 1);
  g_autofree gboolean *done = g_new0 (gboolean, ir->nodes->len + 1);
  g_autoptr(GHashTable) last = g_hash_table_new (NULL, NULL);
  RlxQdq self = { ir, NULL, adapter, pinned, NULL, map, quantized, done, last };

  if (RLX_DEBUG_CHECK (NO_FUSE) || !has_quantized (ir))
    return NULL;

  self.out = rlx_ir_new ();
  self.users = rlx_ir_find_users (ir, live);
  for (guint i = 0; i < ir->nodes->len; i++)
    if (live[i] && !done[i])
      walk_node (&self, g_ptr_array_index (ir->nodes, i));

  rlx_ir_copy_results (self.out, ir, map);
  rlx_ir_free_users (ir, self.users);
  return self.out;
}
