/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * One graph for a past of any length.
 *
 * A decoder's file joins the past with what is new, and everything behind it has sizes that
 * come from there. So the model is imported three times: for a past that fills a buffer of
 * fixed size together with what is new, for one that is a row shorter, and for a short one.
 * What differs between the graphs tells how each part depends on the length:
 *
 * - A size that follows the rows becomes that of the whole buffer. What lies behind the
 *   rows there are is padding, and each node is looked at whether padding could reach
 *   an element that counts. Where it would, as in a softmax over keys, it is hidden first.
 * - An integer that follows the rows, such as a position, is computed from their number.
 * - A table of which a model takes as many rows as there are, or such a mask, is there as
 *   a whole.
 *
 * What depends on the length in any other way is refused, with the node that does.
 */
#include "config.h"

#include "import/rlx-grow-private.h"

#include <math.h>
#include <string.h>

#include "ops/rlx-shape-private.h"
#include "passes/rlx-passes-private.h"
#include "rlx-graph-private.h"
#include "rlx-tensor-private.h"
#include "util/rlx-data-type-private.h"

/* What a value holds beyond the valid rows, and along which axes. */
typedef struct
{
  guint axes;          /* a bit for each padded axis */
  gboolean is_zero;    /* all padding is zero */
} Padding;

typedef struct
{
  RlxGrow *grow;
  RlxGraph *out;
  const RlxIr *ir;         /* for a full buffer… */
  const RlxIr *shorter;    /* …for one row less… */
  const RlxIr *shortest;   /* …and for few rows */
  gint64 past, past_shortest;
  RlxNode **map;           /* by value: its node in the new graph */
  Padding *paddings;       /* by value */
  RlxNode *rows;           /* the number of rows before the run… */
  RlxNode *shift;          /* …minus the number that the graph was made for, 0 or negative… */
  RlxNode *total;          /* …and including the run's rows */
  RlxNode *places;         /* 0, 1, 2, … to the end of the buffer */
} Growth;

/* The padding of a value. */
static Padding *
get_padding (const Growth     *self,
             const RlxIrValue *value)
{
  return &self->paddings[value->id];
}

static gboolean
refuse (GError          **error,
        const RlxIrNode  *node,
        const char       *why)
{
  if (node->name != NULL)
    return rlx_map_unsupported (error, "“%s” (%s) %s", node->name, node->op->name, why);
  return rlx_map_unsupported (error, "a node “%s” %s", node->op->name, why);
}

static gboolean
refuse_sizes (GError          **error,
              const RlxIrValue *a,
              const RlxIrValue *b,
              const RlxIrValue *c)
{
  g_autofree char *text_a = rlx_type_to_string (&a->type);
  g_autofree char *text_b = rlx_type_to_string (&b->type);
  g_autofree char *text_c = rlx_type_to_string (&c->type);
  g_autofree char *why = g_strdup_printf ("has sizes that do not simply follow the number of rows: they are %s, with one row "
                                          "less %s, and with few rows %s", text_a, text_b, text_c);

  return refuse (error, a->node, why);
}

static RlxGrowState *
find_state (const Growth    *self,
            const RlxIrNode *node)
{
  for (guint i = 0; node->op == &rlx_op_input && i < self->grow->n_states; i++)
    if (self->grow->states[i].grows && g_str_equal (self->grow->states[i].input, node->name))
      return &self->grow->states[i];
  return NULL;
}

/* ---- nodes -------------------------------------------------------------------------------------- */

static RlxNode *
add_op (Growth     *self,
        const char *op,
        GVariant   *attrs,
        GError    **error,
        guint       n_inputs,
        RlxNode    *a,
        RlxNode    *b,
        RlxNode    *c)
{
  RlxNode *inputs[] = { a, b, c };
  g_autofree RlxNode **results = NULL;

  for (guint i = 0; i < n_inputs; i++)
    if (inputs[i] == NULL)
      {
        g_clear_pointer (&attrs, g_variant_unref);
        return NULL;
      }
  results = rlx_graph_add_op (self->out, op, inputs, n_inputs, attrs, NULL, error);
  return results != NULL ? results[0] : NULL;
}

static RlxNode *
add_ints (Growth       *self,
          RlxDataType   type,
          const gint64 *shape,
          gsize         n_dims,
          const gint64 *values,
          gsize         n,
          GError      **error)
{
  g_autoptr(RlxTensor) tensor = rlx_tensor_new_from_ints (type, shape, n_dims, values, n, error);

  return tensor != NULL ? rlx_graph_constant (self->out, tensor, error) : NULL;
}

static RlxNode *
add_int (Growth  *self,
         gint64   value,
         GError **error)
{
  return add_ints (self, RLX_DATA_TYPE_I32, NULL, 0, &value, 1, error);
}

/* start, start + 1, … */
static RlxNode *
add_range (Growth  *self,
           gint64   start,
           gint64   n,
           GError **error)
{
  g_autofree gint64 *values = g_new (gint64, (gsize) n + 1);

  for (gint64 i = 0; i < n; i++)
    values[i] = start + i;
  return add_ints (self, RLX_DATA_TYPE_I32, &n, 1, values, (gsize) n, error);
}

static RlxNode *
add_reshape (Growth       *self,
             RlxNode      *node,
             const gint64 *shape,
             gsize         n_dims,
             GError      **error)
{
  return add_op (self, "reshape", rlx_map_attrs ("shape", rlx_map_ints (shape, n_dims), NULL), error, 1, node, NULL, NULL);
}

static RlxNode *
add_cast (Growth     *self,
          RlxNode    *node,
          RlxDataType type,
          GError    **error)
{
  if (node == NULL || rlx_node_get_data_type (node) == type)
    return node;
  return add_op (self, "cast", rlx_map_attrs ("to", rlx_map_data_type (type), NULL), error, 1, node, NULL, NULL);
}

static gboolean
add_rows (Growth  *self,
          GError **error)
{
  self->rows = rlx_graph_input (self->out, RLX_GROW_ROWS, RLX_DATA_TYPE_I32, NULL, 0, error);
  self->shift = add_op (self, "sub", NULL, error, 2, self->rows, add_int (self, self->past, error), NULL);
  self->total = add_op (self, "add", NULL, error, 2, self->rows, add_int (self, self->grow->n_new, error), NULL);
  self->places = add_range (self, 0, self->grow->capacity, error);
  return self->shift != NULL && self->total != NULL && self->places != NULL;
}

/* Replaces elements beyond the valid rows along the axis by @fill. */
static RlxNode *
hide (Growth           *self,
      RlxNode          *node,
      const RlxIrValue *value,
      guint             axis,
      double            fill,
      GError          **error)
{
  gint64 shape[RLX_MAX_DIMS];
  guint n_dims = value->type.n_dims;
  RlxNode *seen;

  for (guint i = 0; i < n_dims; i++)
    shape[i] = i == axis ? self->grow->capacity : 1;
  seen = add_op (self, "less", NULL, error, 2, self->places, self->total, NULL);
  return add_op (self, "where", NULL, error, 3, add_reshape (self, seen, shape, n_dims, error), node,
                 rlx_graph_scalar (self->out, value->type.data_type, fill, error));
}

/* ---- constants ------------------------------------------------------------------------------------- */

/* Moves to the next index of a shape; FALSE after the last. */
static gboolean
next_index (const RlxTensorType *type,
            gint64              *index)
{
  for (guint i = type->n_dims; i-- > 0;)
    {
      if (++index[i] < type->shape[i])
        return TRUE;
      index[i] = 0;
    }
  return FALSE;
}

static void
get_type (RlxTensor     *tensor,
          RlxTensorType *type)
{
  gsize n_dims;
  const gint64 *shape = rlx_tensor_get_shape (tensor, &n_dims);

  *type = (RlxTensorType) { .data_type = rlx_tensor_get_data_type (tensor), .n_dims = (guint) n_dims };
  memcpy (type->shape, shape, n_dims * sizeof *shape);
}

/* Whether a shorter tensor has the elements of the longer one, starting at @offset along the axis. */
static gboolean
is_part (RlxTensor *whole,
         RlxTensor *part,
         guint      axis,
         gint64     offset)
{
  const guint8 *a = rlx_tensor_peek_data (whole), *b = rlx_tensor_peek_data (part);
  gint64 index[RLX_MAX_DIMS] = { 0, }, strides[RLX_MAX_DIMS];
  RlxTensorType type, part_type;
  gsize size, at = 0;

  get_type (whole, &type);
  get_type (part, &part_type);
  if (type.data_type != part_type.data_type || type.n_dims != part_type.n_dims)
    return FALSE;
  for (guint i = 0; i < type.n_dims; i++)
    if (part_type.shape[i] > type.shape[i])
      return FALSE;
  if (rlx_type_n_elements (&part_type) == 0)
    return TRUE;
  size = rlx_data_type_get_size (type.data_type);
  rlx_type_get_strides (&type, strides);
  do
    {
      gint64 place = offset * strides[axis];

      for (guint i = 0; i < type.n_dims; i++)
        place += index[i] * strides[i];
      if (memcmp (a + (gsize) place * size, b + at * size, size) != 0)
        return FALSE;
      at++;
    }
  while (next_index (&part_type, index));
  return TRUE;
}

static RlxNode *
copy_constant (Growth          *self,
               const RlxIrNode *node,
               GError         **error)
{
  return rlx_graph_constant (self->out, node->data, error);
}

/* Constant integers that are linear functions of the number of rows, each with its own slope. */
static RlxNode *
add_following (Growth          *self,
               const RlxIrNode *node,
               const RlxIrNode *shorter,
               const RlxIrNode *shortest,
               GError         **error)
{
  const RlxTensorType *type = &node->outputs[0].type;
  gsize n;
  g_autofree gint64 *a = rlx_tensor_to_ints (node->data, &n, NULL);
  g_autofree gint64 *b = a != NULL ? rlx_tensor_to_ints (shorter->data, &n, NULL) : NULL;
  g_autofree gint64 *c = b != NULL ? rlx_tensor_to_ints (shortest->data, &n, NULL) : NULL;
  gboolean all_one = TRUE;
  RlxNode *by;

  for (gsize i = 0; c != NULL && i < n; i++)
    {
      gint64 step = a[i] - b[i];

      if (a[i] - c[i] != step * (self->past - self->past_shortest))
        g_clear_pointer (&c, g_free);
      all_one = all_one && step == 1;
      b[i] = step;
    }
  if (c == NULL || !rlx_data_type_is_int (type->data_type))
    {
      refuse (error, node, "depends on the number of rows in a way that is not supported");
      return NULL;
    }
  by = add_cast (self, self->shift, type->data_type, error);
  if (!all_one)
    by = add_op (self, "mul", NULL, error, 2, add_ints (self, type->data_type, type->shape, type->n_dims, b, n, error), by, NULL);
  return add_op (self, "add", NULL, error, 2, copy_constant (self, node, error), by, NULL);
}

static RlxNode *
add_constant (Growth          *self,
              const RlxIrNode *node,
              const RlxIrNode *shorter,
              const RlxIrNode *shortest,
              GError         **error)
{
  guint axes = get_padding (self, &node->outputs[0])->axes, axis = 0;

  if (node->data == shorter->data && node->data == shortest->data)
    return copy_constant (self, node, error);
  if (!rlx_tensor_fetch (node->data, NULL, error) || !rlx_tensor_fetch (shorter->data, NULL, error) || !rlx_tensor_fetch (shortest->data, NULL, error))
    return NULL;
  if (rlx_data_type_get_bits (node->outputs[0].type.data_type) < 8)
    {
      refuse (error, node, "depends on the number of rows");
      return NULL;
    }
  if (is_part (node->data, shorter->data, 0, 0) && is_part (node->data, shortest->data, 0, 0))
    return copy_constant (self, node, error);
  if (axes == 0)
    return add_following (self, node, shorter, shortest, error);
  while (!(axes & 1u << axis))
    axis++;
  /* For example a triangular mask: its end stays the same, and rows are added at the beginning. */
  if (axes == 1u << axis && is_part (node->data, shorter->data, axis, 1) && is_part (node->data, shortest->data, axis, self->past - self->past_shortest))
    return add_op (self, "gather", rlx_map_attrs ("axis", g_variant_new_int64 (axis), NULL), error, 2, copy_constant (self, node, error),
                   add_op (self, "sub", NULL, error, 2, add_range (self, 0, node->outputs[0].type.shape[axis], error), self->shift, NULL), NULL);
  refuse (error, node, "depends on the number of rows in a way that is not supported");
  return NULL;
}

/* ---- what padding does ------------------------------------------------------------------------------- */

static gboolean
is_zero_number (const RlxIrValue *value)
{
  double number;
  gint64 integer;

  return rlx_ir_value_get_immediate (value, &number, &integer) && number == 0;
}

static gboolean
is_zero (const Growth     *self,
         const RlxIrValue *value)
{
  return is_zero_number (value) || (get_padding (self, value)->axes != 0 && get_padding (self, value)->is_zero);
}

static gboolean
elements_stay_zero (const Growth    *self,
                    const RlxIrNode *node)
{
  switch (node->op->id)
    {
    case RLX_OP_ID_MUL:
      return (get_padding (self, node->inputs[0])->axes != 0 && is_zero (self, node->inputs[0])) ||
             (get_padding (self, node->inputs[1])->axes != 0 && is_zero (self, node->inputs[1]));
    case RLX_OP_ID_DIV:
      return is_zero (self, node->inputs[0]) && get_padding (self, node->inputs[1])->axes == 0;
    case RLX_OP_ID_ADD:
    case RLX_OP_ID_SUB:
      return is_zero (self, node->inputs[0]) && is_zero (self, node->inputs[1]);
    case RLX_OP_ID_WHERE:
      return is_zero (self, node->inputs[1]) && is_zero (self, node->inputs[2]);
    case RLX_OP_ID_NEG:
    case RLX_OP_ID_ABS:
    case RLX_OP_ID_CAST:
    case RLX_OP_ID_IDENTITY:
      return is_zero (self, node->inputs[0]);
    default:
      return FALSE;
    }
}

/* The order of elements stays the same, and padding remains behind the rows. */
static gboolean
keeps_order (const RlxTensorType *before,
             guint                axes_before,
             const RlxTensorType *after,
             guint                axes_after)
{
  guint64 outer[2] = { 1, 1 };

  if (axes_before == 0 || axes_after == 0 || (axes_before & (axes_before - 1)) != 0 || (axes_after & (axes_after - 1)) != 0)
    return FALSE;
  for (guint i = 0; !(axes_before & 1u << i); i++)
    outer[0] *= (guint64) before->shape[i];
  for (guint i = 0; !(axes_after & 1u << i); i++)
    outer[1] *= (guint64) after->shape[i];
  return outer[0] == outer[1];
}

static gboolean
hide_input (Growth           *self,
            const RlxIrNode  *node,
            guint             index,
            guint             axis,
            double            fill,
            RlxNode         **inputs,
            GError          **error)
{
  const RlxIrValue *value = node->inputs[index];

  if (fill == 0 && is_zero (self, value))
    return TRUE;
  if (!rlx_data_type_is_float (value->type.data_type) || value->type.shape[axis] != self->grow->capacity)
    return refuse (error, node, "would include rows that are not in use");
  inputs[index] = hide (self, inputs[index], value, axis, fill, error);
  return inputs[index] != NULL;
}

/* Examines a node with a padded operand. Padding that would affect the result is masked in @inputs; FALSE if that is not
 * possible. */
static gboolean
look_at (Growth          *self,
         const RlxIrNode *node,
         RlxNode        **inputs,
         GError         **error)
{
  const RlxTensorType *type = &node->outputs[0].type;
  Padding *padding = get_padding (self, &node->outputs[0]), *first = get_padding (self, node->inputs[0]);
  const RlxTensorType *before = &node->inputs[0]->type;

  if (node->op->flags & RLX_OP_ELEMENTWISE)
    {
      padding->is_zero = elements_stay_zero (self, node);
      return TRUE;
    }
  switch (node->op->id)
    {
    case RLX_OP_ID_RESHAPE:
    case RLX_OP_ID_SQUEEZE:
    case RLX_OP_ID_UNSQUEEZE:
      if (!keeps_order (before, first->axes, type, padding->axes))
        return refuse (error, node, "joins the rows with something else");
      padding->is_zero = first->is_zero;
      return TRUE;
    case RLX_OP_ID_TRANSPOSE:
      padding->is_zero = first->is_zero;
      for (guint i = 0; i < type->n_dims; i++)
        if (((padding->axes >> i) & 1) != ((first->axes >> rlx_transpose_get_axis (node, i)) & 1))
          return refuse (error, node, "exchanges sizes that differ");
      return TRUE;
    case RLX_OP_ID_EXPAND:
      padding->is_zero = first->is_zero && first->axes != 0;
      return TRUE;
    case RLX_OP_ID_CONCAT:
      padding->is_zero = TRUE;
      for (guint i = 0; i < node->n_inputs; i++)
        padding->is_zero = padding->is_zero && is_zero (self, node->inputs[i]);
      return !(padding->axes & 1u << rlx_type_get_axis (type, rlx_concat_attrs (node)->axis)) ||
             refuse (error, node, "appends something to the rows");
    case RLX_OP_ID_GATHER:
      {
        guint axis = rlx_type_get_axis (before, rlx_gather_attrs (node)->axis);

        /* Indices that count from the end would refer to padding. */
        return !(first->axes & 1u << axis) || !rlx_ir_node_is (node->inputs[1]->node, RLX_OP_ID_CONSTANT) ||
               refuse (error, node, "selects rows by their index");
      }
    case RLX_OP_ID_SOFTMAX:
      {
        guint axis = rlx_type_get_axis (type, rlx_softmax_attrs (node)->axis);

        if (!(first->axes & 1u << axis))
          return TRUE;
        padding->is_zero = first->axes == 1u << axis;
        return hide_input (self, node, 0, axis, -INFINITY, inputs, error);
      }
    case RLX_OP_ID_MATMUL:
    case RLX_OP_ID_LINEAR:
      {
        RlxLinearAttrs attrs = rlx_ir_node_as_linear (node);
        const RlxTensorType *b = &node->inputs[1]->type;
        guint sum[2];

        if (before->n_dims < 2 || b->n_dims < 2)
          return refuse (error, node, "is of a vector");
        sum[0] = before->n_dims - (attrs.transpose_a ? 2 : 1);
        sum[1] = b->n_dims - (attrs.transpose_b ? 1 : 2);
        padding->is_zero = node->n_inputs == 2 && (is_zero (self, node->inputs[0]) || is_zero (self, node->inputs[1]));
        for (guint i = 0; i < 2; i++)
          if (get_padding (self, node->inputs[i])->axes & 1u << sum[i])
            if (!hide_input (self, node, i, sum[i], 0, inputs, error))
              return FALSE;
        return TRUE;
      }
    case RLX_OP_ID_REDUCE_SUM:
    case RLX_OP_ID_REDUCE_MAX:
      {
        const RlxInts *axes = &rlx_reduce_attrs (node)->axes;

        for (guint i = 0; i < axes->n_values; i++)
          {
            guint axis = rlx_type_get_axis (before, axes->values[i]);

            if ((first->axes & 1u << axis) &&
                !hide_input (self, node, 0, axis, rlx_ir_node_is (node, RLX_OP_ID_REDUCE_SUM) ? 0 : -INFINITY, inputs, error))
              return FALSE;
          }
        return TRUE;
      }
    case RLX_OP_ID_CUMSUM:
      return !(first->axes & 1u << rlx_type_get_axis (before, rlx_scan_attrs (node)->axis)) || !rlx_scan_attrs (node)->reverse ||
             refuse (error, node, "sums from the end of the rows");
    case RLX_OP_ID_TRIANGULAR:
      return TRUE;
    case RLX_OP_ID_ATTENTION:
      {
        guint axis = rlx_attention_attrs (node)->layout == RLX_HEAD_LAYOUT_HEADS_FIRST ? 2 : 1;
        RlxNode *lengths = self->total;
        gint64 batch = before->shape[0];

        if (first->axes != 0 || get_padding (self, node->inputs[RLX_ATTENTION_KEY])->axes != 1u << axis ||
            get_padding (self, node->inputs[RLX_ATTENTION_VALUE])->axes != 1u << axis ||
            node->inputs[RLX_ATTENTION_KEY]->type.shape[axis] != self->grow->capacity ||
            (node->n_inputs > RLX_ATTENTION_KEY_LENGTHS && node->inputs[RLX_ATTENTION_KEY_LENGTHS] != NULL))
          return refuse (error, node, "has keys of another length than the rows");
        lengths = add_reshape (self, lengths, (gint64[]) { 1 }, 1, error);
        if (batch != 1)
          lengths = add_op (self, "expand", rlx_map_attrs ("shape", rlx_map_ints (&batch, 1), NULL), error, 1, lengths, NULL, NULL);
        inputs[RLX_ATTENTION_KEY_LENGTHS] = lengths;
        return lengths != NULL;
      }
    default:
      return refuse (error, node, "is not known to ignore rows that are not in use");
    }
}

/* ---- slices ----------------------------------------------------------------------------------------------- */

typedef struct
{
  gint64 start[RLX_MAX_DIMS], end[RLX_MAX_DIMS], step[RLX_MAX_DIMS];
} Bounds;

static void
get_bounds (const RlxIrNode *node,
            Bounds          *bounds)
{
  const RlxSliceAttrs *attrs = rlx_slice_attrs (node);
  const RlxTensorType *type = &node->inputs[0]->type;

  for (guint i = 0; i < type->n_dims; i++)
    {
      bounds->start[i] = 0;
      bounds->end[i] = type->shape[i];
      bounds->step[i] = 1;
    }
  for (guint i = 0; i < attrs->starts.n_values; i++)
    {
      guint axis = attrs->axes.n_values > 0 ? rlx_type_get_axis (type, attrs->axes.values[i]) : i;
      gint64 size = type->shape[axis], start = attrs->starts.values[i], end = attrs->ends.values[i];

      bounds->step[axis] = attrs->steps.n_values > 0 ? attrs->steps.values[i] : 1;
      bounds->start[axis] = CLAMP (start < 0 ? start + size : start, 0, size);
      bounds->end[axis] = CLAMP (end < 0 ? end + size : end, 0, size);
    }
}

/* A slice that starts where the rows end becomes a gather; any other remains a slice. */
static RlxNode *
add_slice (Growth          *self,
           const RlxIrNode *node,
           const RlxIrNode *shorter,
           const RlxIrNode *shortest,
           GError         **error)
{
  const RlxTensorType *type = &node->inputs[0]->type, *after = &node->outputs[0].type;
  Padding *before = get_padding (self, node->inputs[0]), *padding = get_padding (self, &node->outputs[0]);
  RlxNode *result = self->map[node->inputs[0]->id];
  gint64 starts[RLX_MAX_DIMS], ends[RLX_MAX_DIMS], axes[RLX_MAX_DIMS], steps[RLX_MAX_DIMS];
  Bounds a, b, c;
  gsize n = 0;

  get_bounds (node, &a);
  get_bounds (shorter, &b);
  get_bounds (shortest, &c);
  padding->is_zero = before->is_zero && before->axes == padding->axes;
  for (guint i = 0; i < type->n_dims; i++)
    {
      gboolean was_padded = before->axes & 1u << i, is_padded = padding->axes & 1u << i;

      if (a.step[i] != b.step[i] || a.step[i] != c.step[i] || (a.step[i] != 1 && (was_padded || is_padded || a.start[i] != b.start[i])))
        {
          refuse (error, node, "takes rows in another order");
          return NULL;
        }
      if (a.start[i] == b.start[i] && a.start[i] == c.start[i])
        {
          /* Of a padded axis, only a slice from its beginning. */
          if (was_padded && is_padded && a.start[i] != 0)
            {
              refuse (error, node, "takes another number of rows");
              return NULL;
            }
          if (a.start[i] == 0 && a.end[i] == type->shape[i] && a.step[i] == 1)
            continue;
          axes[n] = i;
          starts[n] = a.start[i];
          ends[n] = a.end[i];
          steps[n++] = a.step[i];
          continue;
        }
      if (is_padded || a.start[i] - b.start[i] != 1 || a.start[i] - c.start[i] != self->past - self->past_shortest)
        {
          refuse (error, node, "uses rows in a way that is not supported");
          return NULL;
        }
      result = add_op (self, "gather", rlx_map_attrs ("axis", g_variant_new_int64 (i), NULL), error, 2, result,
                       add_op (self, "add", NULL, error, 2, add_range (self, a.start[i], after->shape[i], error), self->shift, NULL), NULL);
    }
  if (n > 0)
    result = add_op (self, "slice", rlx_map_attrs ("starts", rlx_map_ints (starts, n), "ends", rlx_map_ints (ends, n),
                                                   "axes", rlx_map_ints (axes, n), "steps", rlx_map_ints (steps, n), NULL),
                     error, 1, result, NULL, NULL);
  return result;
}

/* ---- the graph ---------------------------------------------------------------------------------------------- */

/* Finds the axes that grow with the rows. */
static gboolean
find_padding (Growth           *self,
              const RlxIrValue *a,
              const RlxIrValue *b,
              const RlxIrValue *c,
              GError          **error)
{
  Padding *padding = get_padding (self, a);

  if (a->type.n_dims != b->type.n_dims || a->type.n_dims != c->type.n_dims || a->type.data_type != b->type.data_type ||
      a->type.data_type != c->type.data_type)
    return refuse (error, a->node, "is different for fewer rows");
  for (guint i = 0; i < a->type.n_dims; i++)
    {
      gint64 size = a->type.shape[i], less = size - b->type.shape[i];

      if (less == 0 && size == c->type.shape[i])
        continue;
      if (less != 1 || size - c->type.shape[i] != self->past - self->past_shortest)
        return refuse_sizes (error, a, b, c);
      padding->axes |= 1u << i;
    }
  return TRUE;
}

/* Whether both nodes do the same with the same operands, apart from sizes. */
static gboolean
is_same (const RlxIrNode *a,
         const RlxIrNode *b)
{
  if (a->op != b->op || a->n_inputs != b->n_inputs || a->n_outputs != b->n_outputs)
    return FALSE;
  for (guint i = 0; i < a->n_inputs; i++)
    if ((a->inputs[i] != NULL) != (b->inputs[i] != NULL) || (a->inputs[i] != NULL && a->inputs[i]->id != b->inputs[i]->id))
      return FALSE;
  switch (a->op->id)
    {
    /* The shape is that of the result, which may differ. */
    case RLX_OP_ID_RESHAPE:
    case RLX_OP_ID_EXPAND:
    case RLX_OP_ID_SLICE:
      return TRUE;
    default:
      return a->attrs == b->attrs || rlx_attrs_equal (a->op, a->attrs, b->attrs);
    }
}

static gboolean
add_state (Growth             *self,
           const RlxIrNode    *node,
           const RlxGrowState *state,
           GError            **error)
{
  const RlxIrNode *leaf = node->inputs[0]->node;
  const RlxTensorType *type = &node->outputs[0].type;
  Padding *padding = get_padding (self, &node->outputs[0]);
  gsize size = (gsize) rlx_type_n_bytes (type);
  gpointer data = g_try_malloc0 (size + 1);
  g_autoptr(GBytes) zeros = NULL;
  g_autoptr(RlxTensor) initial = NULL;
  RlxNode *before, *after;

  if (data == NULL)
    {
      g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_LIMIT, "There is no memory for %" G_GSIZE_FORMAT " bytes of the state “%s”", size, leaf->name);
      return FALSE;
    }
  zeros = g_bytes_new_take (data, size);
  initial = rlx_tensor_new_from_bytes (type->data_type, type->shape, type->n_dims, zeros, error);
  before = initial != NULL ? rlx_graph_state (self->out, leaf->name, initial, error) : NULL;
  after = add_op (self, "write_at", rlx_map_attrs ("axis", g_variant_new_int64 (state->axis), NULL), error, 3, before,
                  self->map[node->inputs[1]->id], self->rows);
  padding->axes = 1u << state->axis;
  padding->is_zero = TRUE;
  self->map[node->outputs[0].id] = after;
  return after != NULL && rlx_graph_assign (self->out, before, after, error);
}

static gboolean
add_node (Growth          *self,
          const RlxIrNode *node,
          const RlxIrNode *shorter,
          const RlxIrNode *shortest,
          GError         **error)
{
  const RlxIrValue *value = &node->outputs[0];
  g_autofree RlxNode **inputs = g_new0 (RlxNode *, MAX (node->n_inputs, node->op->n_inputs) + 1);
  g_autofree RlxNode **results = NULL;
  gboolean padded = FALSE;
  guint n_inputs = node->n_inputs;
  guint axis;

  if (!is_same (node, shorter) || !is_same (node, shortest))
    return refuse (error, node, "is different for fewer rows");
  if (find_state (self, node) != NULL)
    return TRUE;
  for (guint i = 0; i < node->n_outputs; i++)
    if (!find_padding (self, &node->outputs[i], &shorter->outputs[i], &shortest->outputs[i], error))
      return FALSE;
  if (node->op == &rlx_op_input)
    {
      /* The session pads it with zeros. */
      get_padding (self, value)->is_zero = TRUE;
      self->map[value->id] = rlx_graph_input (self->out, node->name, value->type.data_type, value->type.shape, value->type.n_dims, error);
      return self->map[value->id] != NULL;
    }
  if (rlx_ir_node_is (node, RLX_OP_ID_CONSTANT))
    {
      self->map[value->id] = add_constant (self, node, shorter, shortest, error);
      return self->map[value->id] != NULL;
    }
  for (guint i = 0; i < self->grow->n_states; i++)
    if (self->grow->states[i].grows && rlx_grow_is_growth (node, self->grow->states[i].input, &axis))
      return add_state (self, node, &self->grow->states[i], error);
  for (guint i = 0; i < node->n_inputs; i++)
    {
      if (node->inputs[i] == NULL)
        continue;
      inputs[i] = self->map[node->inputs[i]->id];
      if (inputs[i] == NULL)
        return refuse (error, node, "reads the past without the new rows");
      padded = padded || get_padding (self, node->inputs[i])->axes != 0;
    }
  if (rlx_ir_node_is (node, RLX_OP_ID_SLICE))
    {
      self->map[value->id] = add_slice (self, node, shorter, shortest, error);
      return self->map[value->id] != NULL;
    }
  if (padded && !look_at (self, node, inputs, error))
    return FALSE;
  for (guint i = n_inputs; i < node->op->n_inputs; i++)
    if (inputs[i] != NULL)
      n_inputs = i + 1;
  results = rlx_graph_call_many (self->out, node->op, inputs, n_inputs, rlx_attrs_copy (node->op, node->attrs), NULL, error);
  for (guint i = 0; results != NULL && i < node->n_outputs; i++)
    self->map[node->outputs[i].id] = results[i];
  return results != NULL;
}

static gboolean
add_outputs (Growth  *self,
             GError **error)
{
  for (guint i = 0; i < self->ir->outputs->len; i++)
    {
      const RlxIrOutput *output = &g_array_index (self->ir->outputs, RlxIrOutput, i);
      gboolean is_state = FALSE;

      for (guint j = 0; j < self->grow->n_states; j++)
        is_state = is_state || (self->grow->states[j].grows && g_str_equal (self->grow->states[j].output, output->name));
      if (is_state)
        continue;
      if (get_padding (self, output->value)->axes != 0)
        return rlx_map_unsupported (error, "The output “%s” grows with the rows, and is not kept for the next run", output->name);
      if (!rlx_graph_output (self->out, output->name, self->map[output->value->id], error))
        return FALSE;
    }
  return TRUE;
}

static RlxGraph *
join (Growth  *self,
      GError **error)
{
  self->map = g_new0 (RlxNode *, (gsize) self->ir->n_values + 1);
  self->paddings = g_new0 (Padding, (gsize) self->ir->n_values + 1);
  self->out = rlx_graph_new ();
  if (self->ir->nodes->len != self->shorter->nodes->len || self->ir->nodes->len != self->shortest->nodes->len)
    {
      rlx_map_unsupported (error, "The model has different nodes for fewer rows");
      return NULL;
    }
  if (!add_rows (self, error))
    return NULL;
  for (guint i = 0; i < self->ir->nodes->len; i++)
    if (!add_node (self, self->ir->nodes->pdata[i], self->shorter->nodes->pdata[i], self->shortest->nodes->pdata[i], error))
      return NULL;
  return add_outputs (self, error) ? self->out : NULL;
}

/* ---- imports --------------------------------------------------------------------------------------------------- */

/* Imports the model for another number of rows. */
static RlxGraph *
import_for (RlxGrow        *self,
            gint64          rows,
            RlxImportCasts *casts,
            GHashTable     *needed,
            GCancellable   *cancellable,
            GError        **error)
{
  g_autoptr(GHashTable) types = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, g_free);
  RlxImportSizes sizes = { .types = types, .fixed = self->fixed, .casts = casts };
  GHashTableIter iter;
  gpointer name, type;

  g_ptr_array_set_size (casts->found, 0);
  g_hash_table_iter_init (&iter, self->types);
  while (g_hash_table_iter_next (&iter, &name, &type))
    {
      RlxTensorType *copy = g_memdup2 (type, sizeof (RlxTensorType));
      guint axis = GPOINTER_TO_UINT (g_hash_table_lookup (self->longer, name));

      for (guint i = 0; i < self->n_states; i++)
        if (self->states[i].grows && g_str_equal (self->states[i].input, name))
          copy->shape[self->states[i].axis] = rows;
      if (axis > 0)
        copy->shape[axis - 1] += rows - self->n_rows;
      g_hash_table_insert (types, name, copy);
    }
  return rlx_import_model (self->source, &sizes, needed, cancellable, error);
}

/* Collects the casts that differ in more than length; FALSE if there are not equally many. */
static gboolean
compare_casts (const GPtrArray *a,
               const GPtrArray *b,
               GHashTable      *kept)
{
  for (guint i = 0; i < MIN (a->len, b->len); i++)
    if (!is_part (a->pdata[i], b->pdata[i], 0, 0))
      g_hash_table_add (kept, GUINT_TO_POINTER (i));
  return a->len == b->len;
}

static RlxGraph *
build (RlxGrow      *self,
       GHashTable   *needed,
       GCancellable *cancellable,
       GError      **error)
{
  Growth growth = { .grow = self, .past = self->capacity - self->n_new, .past_shortest = RLX_GROW_FEW_ROWS };
  const gint64 rows[] = { growth.past, growth.past - 1, growth.past_shortest };
  g_autoptr(GPtrArray) found = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr(GPtrArray) before = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr(GHashTable) kept = g_hash_table_new (NULL, NULL);
  RlxImportCasts casts = { .found = found };
  RlxGraph *graphs[3] = { NULL, };
  RlxGraph *result = NULL;
  gboolean ok = TRUE;

  /* Integers follow the number of rows exactly, but floats made from them need not, so such casts are left to the device. */
  for (guint i = 0; ok && i < 2; i++)
    {
      ok = (graphs[i] = import_for (self, rows[i], &casts, needed, cancellable, error)) != NULL;
      if (ok && i == 0)
        g_ptr_array_extend (before, found, (GCopyFunc) (void *) g_object_ref, NULL);
    }
  if (ok && !compare_casts (before, found, kept))
    ok = rlx_map_unsupported (error, "The model has different nodes for fewer rows");
  casts.kept = kept;
  for (guint i = g_hash_table_size (kept) > 0 ? 0 : 2; ok && i < 3; i++)
    {
      g_clear_object (&graphs[i]);
      ok = (graphs[i] = import_for (self, rows[i], &casts, needed, cancellable, error)) != NULL;
    }
  if (ok && (growth.ir = rlx_graph_peek_ir (graphs[0], error)) != NULL && (growth.shorter = rlx_graph_peek_ir (graphs[1], error)) != NULL &&
      (growth.shortest = rlx_graph_peek_ir (graphs[2], error)) != NULL)
    result = join (&growth, error);
  if (result == NULL)
    g_clear_object (&growth.out);
  g_free (growth.map);
  g_free (growth.paddings);
  for (guint i = 0; i < 3; i++)
    g_clear_object (&graphs[i]);
  return result;
}

RlxGraph *
rlx_grow_build (RlxGrow      *self,
                GHashTable   *needed,
                GCancellable *cancellable,
                GError      **error)
{
  g_autoptr(GError) local = NULL;
  RlxGraph *graph = build (self, needed, cancellable, &local);

  /* A mask over all rows has their total number as its size, but so may an unrelated input by chance: only tried if
   * necessary. */
  if (graph == NULL && !g_error_matches (local, G_IO_ERROR, G_IO_ERROR_CANCELLED) && g_hash_table_size (self->longer) == 0 && rlx_grow_find_longer (self))
    {
      g_clear_error (&local);
      graph = build (self, needed, cancellable, &local);
      if (graph == NULL)
        g_hash_table_remove_all (self->longer);
    }
  if (graph == NULL)
    {
      g_prefix_error (&local, "States that grow cannot be kept on the device for this model: ");
      g_propagate_error (error, g_steal_pointer (&local));
    }
  return graph;
}
