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

#include "ops/rlx-builder-private.h"
#include "ops/rlx-product-private.h"
#include "ops/rlx-shape-private.h"
#include "util/rlx-debug-private.h"

#define MAX_PARTS 3

typedef struct
{
  const RlxIrValue *value;   /* the value that others see */
  gint64 first, size;        /* along the axis */
} Part;

typedef struct
{
  const RlxIrNode *product;
  const RlxIrNode *reshape;      /* nullable */
  const RlxIrNode *transpose;    /* nullable */
  guint axis;                    /* of the value that is split, before the transpose */
  Part parts[MAX_PARTS];         /* in the order of the columns */
  guint n_parts;
} Projection;

/* That of a split or a gather. */
static guint
get_axis (const RlxIrNode *node)
{
  return rlx_type_get_axis (&node->inputs[0]->type,
                            rlx_ir_node_is (node, RLX_OP_ID_SPLIT) ? rlx_split_attrs (node)->axis : rlx_gather_attrs (node)->axis);
}

/* ---- finding them -------------------------------------------------------------------- */

/* The part of @axis that a slice takes, if it takes all of the others. */
static gboolean
is_slice_of_axis (const RlxIrNode *node,
                  guint            axis,
                  gint64          *first)
{
  const RlxTensorType *in = &node->inputs[0]->type, *out = &node->outputs[0].type;
  gint64 offset, strides[RLX_MAX_DIMS], stride = 1;

  rlx_view_get_strides (node, &offset, strides);
  for (guint d = in->n_dims; d-- > 0; stride *= in->shape[d])
    {
      if ((out->shape[d] > 1 && strides[d] != stride) || (d != axis && out->shape[d] != in->shape[d]))
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

  if (rlx_ir_node_is (user, RLX_OP_ID_SLICE))
    return is_slice_of_axis (user, axis, &first) && add_part (found, &user->outputs[0], first, user->outputs[0].type.shape[axis]);
  if (rlx_ir_node_is (user, RLX_OP_ID_SPLIT) && get_axis (user) == axis)
    {
      for (guint i = 0; i < user->n_outputs; i++)
        {
          if (!add_part (found, &user->outputs[i], first, user->outputs[i].type.shape[axis]))
            return FALSE;
          first += user->outputs[i].type.shape[axis];
        }
      return TRUE;
    }
  /* one index, whether it leaves a dimension of 1 or none */
  return rlx_ir_node_is (user, RLX_OP_ID_GATHER) && get_axis (user) == axis && rlx_ir_value_get_immediate (user->inputs[1], &number, &index) &&
         user->inputs[1]->type.n_dims <= 1 && index >= -type->shape[axis] && index < type->shape[axis] &&
         add_part (found, &user->outputs[0], index < 0 ? index + type->shape[axis] : index, 1);
}

/* The last axis that follows all rows; its elements are runs of columns. */
static guint
find_axis (const RlxTensorType *type,
           guint64              n_rows)
{
  guint64 before = 1;
  guint axis = type->n_dims;

  for (guint d = 0; d < type->n_dims; d++)
    {
      if (before == n_rows)
        axis = d;
      before *= (guint64) type->shape[d];
    }
  return axis;
}

static guint
find_moved_axis (const RlxIrNode *transpose,
                 guint            axis)
{
  for (guint d = 0; d < transpose->outputs[0].type.n_dims; d++)
    if (rlx_transpose_get_axis (transpose, d) == axis)
      return d;
  g_assert_not_reached ();
}

static gboolean
find_projection (RlxRewrite      *self,
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
  if (!rlx_ir_node_is_projection (product) || type->n_dims == 0 || rlx_type_n_elements (type) == 0)
    return FALSE;

  n_rows = rlx_type_n_elements (type) / (guint64) type->shape[type->n_dims - 1];
  user = rlx_rewrite_get_only_user (self, value);
  if (user != NULL && rlx_ir_node_is (user, RLX_OP_ID_RESHAPE))
    {
      found->reshape = user;
      value = &user->outputs[0];
      user = rlx_rewrite_get_only_user (self, value);
    }
  found->axis = find_axis (&value->type, n_rows);
  if (found->axis == value->type.n_dims)
    return FALSE;
  axis = found->axis;
  if (user != NULL && found->reshape != NULL && rlx_ir_node_is (user, RLX_OP_ID_TRANSPOSE))
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
  if (found->n_parts < 2 || sum != value->type.shape[axis])
    {
      RLX_NOTE (FUSE, "%%%u %s is not stored in parts: they leave something out, or have it twice", product->outputs[0].id, product->op->name);
      return FALSE;
    }
  return TRUE;
}

/* ---- making them -------------------------------------------------------------------- */

/* The columns of one part, after reshape, transpose and the node that took the part. An
 * axis that only exists for the parts is omitted as long as possible: heads are easier
 * to recognise without it. */
static RlxIrValue *
shape_part (RlxBuilder       *b,
            const Projection *found,
            const Part       *part,
            RlxIrValue       *value)
{
  const RlxTensorType *type = found->reshape != NULL ? &found->reshape->outputs[0].type : NULL;
  const RlxTensorType *result = &part->value->type;
  gboolean drop = TRUE;
  gint64 shape[RLX_MAX_DIMS], axes[RLX_MAX_DIMS];
  guint n = 0;

  for (guint i = 0; i < found->n_parts; i++)
    drop &= found->parts[i].size == 1;
  for (guint d = 0; type != NULL && d < type->n_dims; d++)
    if (d != found->axis || !drop)
      shape[n++] = d == found->axis ? part->size : type->shape[d];
  if (type != NULL)
    value = rlx_build_reshape (b, value, RLX_RESHAPE_ATTRS (.shape = RLX_INTS (shape, n)));
  if (found->transpose != NULL)
    {
      n = 0;
      for (guint d = 0; d < type->n_dims; d++)
        {
          guint axis = rlx_transpose_get_axis (found->transpose, d);

          if (axis != found->axis || !drop)
            axes[n++] = drop && axis > found->axis ? axis - 1 : axis;
        }
      value = rlx_build_transpose (b, value, RLX_TRANSPOSE_ATTRS (.permutation = RLX_INTS (axes, n)));
    }
  if (value != NULL && !rlx_type_same_shape (&value->type, result))
    value = rlx_build_reshape (b, value, RLX_RESHAPE_ATTRS (.shape = RLX_INTS (result->shape, result->n_dims)));
  return value;
}

static void
append_projection (RlxRewrite       *self,
                   const Projection *found,
                   GError          **error)
{
  const RlxIrNode *product = found->product;
  const RlxTensorType *type = &product->outputs[0].type;
  g_auto(RlxBuilder) b = RLX_BUILDER (self->out, product);
  gboolean transpose_b = rlx_ir_node_as_linear (product).transpose_b;
  RlxIrValue *bias = rlx_ir_node_get_bias (product);
  RlxIrValue *inputs[] = {
    [RLX_QKV_LINEAR_SELF] = self->map[product->inputs[RLX_LINEAR_SELF]->id],
    [RLX_QKV_LINEAR_WEIGHT] = self->map[product->inputs[RLX_LINEAR_WEIGHT]->id],
    [RLX_QKV_LINEAR_BIAS] = bias != NULL ? self->map[bias->id] : NULL,
  };
  gint64 n_columns = type->shape[type->n_dims - 1], n = 0;
  RlxTensorType types[MAX_PARTS];
  RlxIrNode *node;

  for (guint i = 0; i < found->n_parts; i++)
    n += found->parts[i].size;
  for (guint i = 0; i < found->n_parts; i++)
    {
      types[i] = *type;
      types[i].shape[type->n_dims - 1] = n_columns / n * found->parts[i].size;
    }
  if (found->n_parts == 3)
    {
      node = rlx_build_qkv_linear (&b, inputs[RLX_QKV_LINEAR_SELF], inputs[RLX_QKV_LINEAR_WEIGHT], inputs[RLX_QKV_LINEAR_BIAS],
                                   RLX_QKV_LINEAR_ATTRS (.query_size = types[0].shape[type->n_dims - 1],
                                                         .key_size = types[1].shape[type->n_dims - 1],
                                                         .transpose_b = transpose_b));
    }
  else
    {
      const RlxOp *op = &rlx_op_split_linear;

      node = rlx_ir_append (self->out, op, rlx_attrs_copy (op, RLX_SPLIT_LINEAR_ATTRS (.transpose_b = transpose_b)),
                            inputs, G_N_ELEMENTS (inputs), types, found->n_parts);
      node->origin = product->origin;
    }
  for (guint i = 0; node != NULL && i < found->n_parts; i++)
    self->map[found->parts[i].value->id] = shape_part (&b, found, &found->parts[i], &node->outputs[i]);
  if (b.error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&b.error));
      return;
    }
  node->name = g_strdup (product->name);
  RLX_NOTE (FUSE, "%%%u: %s and its %s parts become one %s", product->outputs[0].id, product->op->name,
            found->n_parts == 3 ? "three" : "two", node->op->name);
}

/* ---- other splits ---------------------------------------------------------------------- */

static void
append_slices (RlxRewrite      *self,
               const RlxIrNode *split,
               GError         **error)
{
  g_auto(RlxBuilder) b = RLX_BUILDER (self->out, split);
  gint64 axis = get_axis (split), first = 0;

  for (guint i = 0; b.error == NULL && i < split->n_outputs; i++)
    {
      const RlxIrValue *part = &split->outputs[i];
      gint64 end = first + part->type.shape[axis];
      RlxIrValue *slice = rlx_build_slice (&b, self->map[split->inputs[0]->id],
                                           RLX_SLICE_ATTRS (.starts = RLX_INTS (&first, 1), .ends = RLX_INTS (&end, 1),
                                                            .axes = RLX_INTS (&axis, 1)));

      if (slice != NULL)
        slice->node->name = g_strdup (split->name);
      self->map[part->id] = slice;
      first = end;
    }
  if (b.error != NULL)
    g_propagate_error (error, g_steal_pointer (&b.error));
}

/* ---- the pass ------------------------------------------------------------------------- */

RlxIr *
rlx_pass_split (const RlxIr     *ir,
                const RlxTarget *target,
                GError         **error)
{
  g_auto(RlxRewrite) self = { 0, };
  g_autofree gboolean *done = g_new0 (gboolean, ir->nodes->len + 1);
  GError *failure = NULL;

  rlx_rewrite_init (&self, ir, target);
  for (guint i = 0; failure == NULL && i < ir->nodes->len; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);
      Projection found;

      if (!self.live[i] || done[i])
        continue;
      if (rlx_ir_node_is (node, RLX_OP_ID_SPLIT))
        {
          append_slices (&self, node, &failure);
          continue;
        }
      if (!find_projection (&self, node, &found))
        {
          rlx_rewrite_copy (&self, node);
          continue;
        }
      append_projection (&self, &found, &failure);
      if (found.reshape != NULL)
        done[found.reshape->id] = TRUE;
      if (found.transpose != NULL)
        done[found.transpose->id] = TRUE;
      for (guint j = 0; j < found.n_parts; j++)
        done[found.parts[j].value->node->id] = TRUE;
    }

  if (failure != NULL)
    {
      g_propagate_error (error, failure);
      return NULL;
    }
  return rlx_rewrite_end (&self);
}
