/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * A product of a matrix with a weight whose columns are dealt out to two or three others
 * becomes one that stores each part by itself: qkv_linear, or split_linear for two.
 *
 * The parts are what a split, slices or picks by a number take of one axis, all of it
 * and nothing twice. Between product and parts there may be a reshape that takes its
 * columns apart, into heads for instance, of which the parts must have the slowest axis,
 * and a transpose; what these do is done to each part instead.
 *
 * Any other split becomes slices: those that only element-wise operators want are read
 * where they are.
 */
#include "config.h"

#include "passes/rlx-passes-private.h"

#include "ops/rlx-expand-private.h"
#include "ops/rlx-product-private.h"
#include "ops/rlx-shape-private.h"
#include "plan/rlx-plan-private.h"
#include "util/rlx-debug-private.h"

#define MAX_PARTS 3

typedef struct
{
  const RlxIrValue *value;   /* what others see of it */
  gint64 first, size;        /* along the axis */
} Part;

typedef struct
{
  const RlxIrNode *product;
  const RlxIrNode *reshape;      /* nullable */
  const RlxIrNode *transpose;    /* nullable */
  guint axis;                    /* of what the parts are of, before the transpose */
  Part parts[MAX_PARTS];         /* in the order of the columns */
  guint n_parts;
} Projection;

typedef struct
{
  const RlxIr *ir;
  RlxIr *out;
  GArray **users;
  gboolean *pinned;
  RlxIrValue **map;
} Parter;

/* The node that alone reads a value which nothing else needs. */
static const RlxIrNode *
get_only_user (Parter           *self,
               const RlxIrValue *value)
{
  const GArray *users = self->users[value->id];

  if (self->pinned[value->id] || users == NULL || users->len != 1)
    return NULL;
  return g_ptr_array_index (self->ir->nodes, g_array_index (users, guint, 0));
}

static gint64
get_axis (const RlxIrNode *node)
{
  gint64 axis = rlx_node_attr (node, "axis")->i;

  return axis < 0 ? axis + node->inputs[0]->type.rank : axis;
}

/* ---- finding them -------------------------------------------------------------------- */

/* What a slice takes of @axis, when it takes all of the others. */
static gboolean
is_slice_of_axis (const RlxIrNode *node,
                  guint            axis,
                  gint64          *first)
{
  const RlxTensorType *in = &node->inputs[0]->type, *out = &node->outputs[0].type;
  gint64 offset, strides[RLX_MAX_RANK], stride = 1;

  rlx_view_get_strides (node, &offset, strides);
  for (guint d = in->rank; d-- > 0; stride *= in->dims[d])
    {
      if ((out->dims[d] > 1 && strides[d] != stride) || (d != axis && out->dims[d] != in->dims[d]))
        return FALSE;
      if (d == axis)
        *first = offset / stride;
    }
  return TRUE;
}

static gboolean
add_part (Projection       *found,
          const RlxIrValue *value,
          gint64            first,
          gint64            size)
{
  guint at = found->n_parts;

  if (size == 0 || at == MAX_PARTS)
    return FALSE;
  for (; at > 0 && found->parts[at - 1].first > first; at--)
    found->parts[at] = found->parts[at - 1];
  found->parts[at] = (Part) { value, first, size };
  found->n_parts++;
  return TRUE;
}

/* The parts that @user takes of @axis. */
static gboolean
add_user (Projection      *found,
          const RlxIrNode *user,
          guint            axis)
{
  const RlxTensorType *type = &user->inputs[0]->type;
  gint64 first = 0, index;
  double number;

  if (rlx_node_is (user, "slice"))
    return is_slice_of_axis (user, axis, &first) && add_part (found, &user->outputs[0], first, user->outputs[0].type.dims[axis]);
  if (rlx_node_is (user, "split") && get_axis (user) == (gint64) axis)
    {
      for (guint i = 0; i < user->n_outputs; i++)
        {
          if (!add_part (found, &user->outputs[i], first, user->outputs[i].type.dims[axis]))
            return FALSE;
          first += user->outputs[i].type.dims[axis];
        }
      return TRUE;
    }
  /* one index, whether it leaves a dimension of 1 or none */
  return rlx_node_is (user, "gather") && get_axis (user) == (gint64) axis && rlx_value_get_immediate (user->inputs[1], &number, &index) &&
         user->inputs[1]->type.rank <= 1 && index >= -type->dims[axis] && index < type->dims[axis] &&
         add_part (found, &user->outputs[0], index < 0 ? index + type->dims[axis] : index, 1);
}

/* The last axis that all rows are in front of; its elements are runs of columns. */
static guint
find_axis (const RlxTensorType *type,
           guint64              n_rows)
{
  guint64 before = 1;
  guint axis = type->rank;

  for (guint d = 0; d < type->rank; d++)
    {
      if (before == n_rows)
        axis = d;
      before *= (guint64) type->dims[d];
    }
  return axis;
}

static guint
find_moved_axis (const RlxIrNode *transpose,
                 guint            axis)
{
  const RlxAttrValue *permutation = rlx_node_attr (transpose, "permutation");
  guint rank = transpose->outputs[0].type.rank;

  for (guint d = 0; d < rank; d++)
    {
      gint64 source = permutation->n_ints > 0 ? permutation->ints[d] : (gint64) (rank - 1 - d);

      if ((source < 0 ? source + rank : source) == (gint64) axis)
        return d;
    }
  g_assert_not_reached ();
}

static gboolean
find_projection (Parter          *self,
                 const RlxIrNode *product,
                 Projection      *found)
{
  const RlxIrValue *value = &product->outputs[0];
  const RlxTensorType *type = &value->type;
  const GArray *users;
  const RlxIrNode *user;
  guint64 n_rows;
  gint64 sum = 0;
  guint axis;

  *found = (Projection) { .product = product };
  if (!rlx_node_is_projection (product) || type->rank == 0 || rlx_type_n_elements (type) == 0)
    return FALSE;

  n_rows = rlx_type_n_elements (type) / (guint64) type->dims[type->rank - 1];
  user = get_only_user (self, value);
  if (user != NULL && rlx_node_is (user, "reshape"))
    {
      found->reshape = user;
      value = &user->outputs[0];
      user = get_only_user (self, value);
    }
  found->axis = find_axis (&value->type, n_rows);
  if (found->axis == value->type.rank)
    return FALSE;
  axis = found->axis;
  if (user != NULL && found->reshape != NULL && rlx_node_is (user, "transpose"))
    {
      found->transpose = user;
      axis = find_moved_axis (user, axis);
      value = &user->outputs[0];
    }

  users = self->users[value->id];
  if (self->pinned[value->id] || users == NULL || users->len == 0)
    return FALSE;
  for (guint i = 0; i < users->len; i++)
    if (!add_user (found, g_ptr_array_index (self->ir->nodes, g_array_index (users, guint, i)), axis))
      {
        if (found->n_parts > 0)
          RLX_NOTE (FUSE, "%%%u %s is not stored in parts: they are not two or three along the slowest axis of its columns",
                    product->outputs[0].id, product->op->name);
        return FALSE;
      }
  for (guint i = 0; i < found->n_parts; i++)
    {
      if (found->parts[i].first != sum)
        break;
      sum += found->parts[i].size;
    }
  if (found->n_parts < 2 || sum != value->type.dims[axis])
    {
      RLX_NOTE (FUSE, "%%%u %s is not stored in parts: they leave something out, or have it twice", product->outputs[0].id, product->op->name);
      return FALSE;
    }
  return TRUE;
}

/* ---- making them -------------------------------------------------------------------- */

/* The columns of one part, as reshape, transpose and whatever took the part leave them.
 * An axis that is there for the parts alone is left out as long as it can be: heads
 * are easier to see without it. */
static RlxIrValue *
shape_part (Parter           *self,
            const Projection *found,
            const Part       *part,
            RlxIrValue       *value)
{
  const RlxTensorType *type = found->reshape != NULL ? &found->reshape->outputs[0].type : NULL;
  const RlxTensorType *result = &part->value->type;
  gboolean drop = TRUE;
  RlxExpand expand = { self->out, found->product, NULL };
  gint64 dims[RLX_MAX_RANK], axes[RLX_MAX_RANK];
  guint n = 0;

  for (guint i = 0; i < found->n_parts; i++)
    drop &= found->parts[i].size == 1;
  for (guint d = 0; type != NULL && d < type->rank; d++)
    if (d != found->axis || !drop)
      dims[n++] = d == found->axis ? part->size : type->dims[d];
  if (type != NULL)
    value = rlx_expand_ints (&expand, "reshape", value, "shape", dims, n, NULL);
  if (found->transpose != NULL)
    {
      const RlxAttrValue *permutation = rlx_node_attr (found->transpose, "permutation");

      n = 0;
      for (guint d = 0; d < type->rank; d++)
        {
          gint64 axis = permutation->n_ints > 0 ? permutation->ints[d] : (gint64) (type->rank - 1 - d);

          axis = axis < 0 ? axis + type->rank : axis;
          if (axis != (gint64) found->axis || !drop)
            axes[n++] = drop && axis > (gint64) found->axis ? axis - 1 : axis;
        }
      value = rlx_expand_ints (&expand, "transpose", value, "permutation", axes, n, NULL);
    }
  if (!rlx_type_same_shape (&value->type, result))
    value = rlx_expand_ints (&expand, "reshape", value, "shape", result->dims, result->rank, NULL);
  return value;
}

static void
append_projection (Parter           *self,
                   const Projection *found)
{
  const RlxIrNode *product = found->product;
  const RlxOp *op = found->n_parts == 3 ? rlx_op_lookup ("qkv_linear") : &rlx_op_split_linear;
  const RlxTensorType *type = &product->outputs[0].type;
  gint64 n_columns = type->dims[type->rank - 1], n = 0;
  RlxIrValue *inputs[3] = { NULL, };
  RlxTensorType types[MAX_PARTS];
  RlxAttrValue *attrs = rlx_attrs_new (op);
  RlxIrNode *node;

  for (guint i = 0; i < found->n_parts; i++)
    n += found->parts[i].size;
  for (guint i = 0; i < found->n_parts; i++)
    {
      types[i] = *type;
      types[i].dims[type->rank - 1] = n_columns / n * found->parts[i].size;
    }
  if (found->n_parts == 3)
    {
      rlx_attr_set_int (&attrs[rlx_op_find_attr (op, "query_size")], types[0].dims[type->rank - 1]);
      rlx_attr_set_int (&attrs[rlx_op_find_attr (op, "key_size")], types[1].dims[type->rank - 1]);
    }
  rlx_attr_set_int (&attrs[rlx_op_find_attr (op, "transpose_b")], rlx_node_attr (product, "transpose_b")->i);
  for (guint i = 0; i < MIN (product->n_inputs, 3); i++)
    inputs[i] = product->inputs[i] ? self->map[product->inputs[i]->id] : NULL;
  node = rlx_ir_append (self->out, op, attrs, inputs, 3, types, found->n_parts);
  node->origin = product->origin;
  node->name = g_strdup (product->name);
  for (guint i = 0; i < found->n_parts; i++)
    self->map[found->parts[i].value->id] = shape_part (self, found, &found->parts[i], &node->outputs[i]);
  RLX_NOTE (FUSE, "%%%u: %s and its %s parts become one %s", product->outputs[0].id, product->op->name,
            found->n_parts == 3 ? "three" : "two", op->name);
}

/* ---- other splits ---------------------------------------------------------------------- */

static void
append_slices (Parter          *self,
               const RlxIrNode *split)
{
  const RlxOp *op = rlx_op_lookup ("slice");
  gint64 axis = get_axis (split), first = 0;

  for (guint i = 0; i < split->n_outputs; i++)
    {
      const RlxIrValue *part = &split->outputs[i];
      RlxAttrValue *attrs = rlx_attrs_new (op);
      gint64 end = first + part->type.dims[axis];
      RlxIrNode *node;

      rlx_attr_set_ints (&attrs[rlx_op_find_attr (op, "starts")], &first, 1);
      rlx_attr_set_ints (&attrs[rlx_op_find_attr (op, "ends")], &end, 1);
      rlx_attr_set_ints (&attrs[rlx_op_find_attr (op, "axes")], &axis, 1);
      node = rlx_ir_append (self->out, op, attrs, &self->map[split->inputs[0]->id], 1, &part->type, 1);
      node->origin = split->origin;
      node->name = g_strdup (split->name);
      self->map[part->id] = &node->outputs[0];
      first = end;
    }
}

/* ---- the pass ------------------------------------------------------------------------- */

RlxIr *
rlx_pass_parts (const RlxIr *ir)
{
  RlxIr *out = rlx_ir_new ();
  g_autofree gboolean *live = rlx_ir_find_live_nodes (ir);
  GArray **users = rlx_ir_find_users (ir, live);
  g_autofree gboolean *pinned = rlx_ir_find_pinned_values (ir);
  g_autofree RlxIrValue **map = g_new0 (RlxIrValue *, ir->n_values + 1);
  g_autofree gboolean *done = g_new0 (gboolean, ir->nodes->len + 1);
  gboolean fuse = !RLX_DEBUG_CHECK (NO_FUSE);
  Parter self = { ir, out, users, pinned, map };

  for (guint i = 0; i < ir->nodes->len; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);
      Projection found;

      if (!live[i] || done[i])
        continue;
      if (fuse && rlx_node_is (node, "split"))
        {
          append_slices (&self, node);
          continue;
        }
      if (!fuse || !find_projection (&self, node, &found))
        {
          rlx_ir_copy_node (out, node, map);
          continue;
        }
      append_projection (&self, &found);
      if (found.reshape != NULL)
        done[found.reshape->id] = TRUE;
      if (found.transpose != NULL)
        done[found.transpose->id] = TRUE;
      for (guint j = 0; j < found.n_parts; j++)
        done[found.parts[j].value->node->id] = TRUE;
    }

  rlx_ir_copy_results (out, ir, map);
  rlx_ir_free_users (ir, users);
  return out;
}
