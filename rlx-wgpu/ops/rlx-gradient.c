/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "ops/rlx-gradient-private.h"

#include "rlx-tensor-private.h"

/* The number of operators that a message lists between its subject and the loss. */
#define MAX_PATH 6

/* Facts about a value, by its id. */
typedef struct
{
  RlxIrValue *gradient;       /* so far */
  const RlxIrNode *user;      /* the node that contributed to it first; NULL for a loss */
  gboolean wanted;            /* it is, or depends on, a value whose gradient is requested */
} Entry;

struct _RlxGradient
{
  RlxBuilder b;
  GArray *entries;            /* Entry */
  guint first;                /* how many nodes there were when the rule was entered */
};

static Entry *
get_entry (RlxGradient      *self,
           const RlxIrValue *value)
{
  if (value->id >= self->entries->len)
    g_array_set_size (self->entries, value->id + 1);
  return &g_array_index (self->entries, Entry, value->id);
}

static gboolean
is_float (const RlxIrValue *value)
{
  return value->type.data_type == RLX_DATA_TYPE_F32 || value->type.data_type == RLX_DATA_TYPE_F16;
}

/* ---- for rules ------------------------------------------------------------------------ */

RlxBuilder *
rlx_gradient_get_builder (RlxGradient *self)
{
  return &self->b;
}

RlxIrValue *
rlx_gradient_get (RlxGradient     *self,
                  const RlxIrNode *node,
                  guint            output)
{
  return output < node->n_outputs ? get_entry (self, &node->outputs[output])->gradient : NULL;
}

RlxIrValue *
rlx_gradient_get_or_zeros (RlxGradient     *self,
                           const RlxIrNode *node,
                           guint            output)
{
  RlxIrValue *gradient = rlx_gradient_get (self, node, output);

  return gradient != NULL ? gradient : rlx_build_filled (&self->b, &node->outputs[output].type, 0.0);
}

gboolean
rlx_gradient_wants (RlxGradient     *self,
                    const RlxIrNode *node,
                    guint            input)
{
  return input < node->n_inputs && node->inputs[input] != NULL && get_entry (self, node->inputs[input])->wanted;
}

static void
contribute (RlxGradient     *self,
            RlxIrValue      *value,
            const RlxIrNode *user,
            RlxIrValue      *gradient)
{
  Entry *entry;
  RlxIrValue *sum;

  if (gradient == NULL)
    return;

  gradient = rlx_build_as (&self->b, rlx_build_sum_to (&self->b, gradient, &value->type), value->type.data_type);
  entry = get_entry (self, value);
  if (entry->gradient == NULL)
    {
      entry->gradient = gradient;
      entry->user = user;
      return;
    }
  sum = rlx_build_add (&self->b, entry->gradient, gradient);
  get_entry (self, value)->gradient = sum;
}

void
rlx_gradient_add (RlxGradient     *self,
                  const RlxIrNode *node,
                  guint            input,
                  RlxIrValue      *gradient)
{
  if (rlx_gradient_wants (self, node, input))
    contribute (self, node->inputs[input], node, gradient);
}

RlxIrValue *
rlx_gradient_take (RlxGradient     *self,
                   const RlxIrNode *node,
                   guint            input)
{
  return rlx_gradient_wants (self, node, input) ? g_steal_pointer (&get_entry (self, node->inputs[input])->gradient) : NULL;
}

/* ---- building blocks of rules ------------------------------------------------------------ */

RlxIrValue *
rlx_build_number (RlxBuilder       *b,
                  const RlxIrValue *like,
                  double            number)
{
  RlxTensor *f32;
  float value = (float) number;
  RlxIrValue *constant;

  if (like == NULL)
    return NULL;
  f32 = rlx_tensor_new_from_floats (NULL, 0, &value, 1, NULL);
  constant = rlx_build_constant (b, f32);
  return rlx_build_as (b, constant, like->type.data_type);
}

RlxIrValue *
rlx_build_filled (RlxBuilder          *b,
                  const RlxTensorType *type,
                  double               number)
{
  RlxIrValue like = { .type = *type };
  RlxIrValue *scalar = rlx_build_number (b, &like, number);

  if (type->n_dims == 0)
    return scalar;
  return rlx_build_expand (b, scalar, RLX_EXPAND_ATTRS (.shape = RLX_INTS (type->shape, type->n_dims)));
}

RlxIrValue *
rlx_build_shaped (RlxBuilder   *b,
                  RlxIrValue   *x,
                  const gint64 *shape,
                  guint         n_dims)
{
  if (x == NULL)
    return NULL;
  /* The shape of a scalar may be NULL. */
  if (x->type.n_dims == n_dims && (n_dims == 0 || memcmp (x->type.shape, shape, n_dims * sizeof (gint64)) == 0))
    return x;
  return rlx_build_reshape (b, x, RLX_RESHAPE_ATTRS (.shape = RLX_INTS (shape, n_dims)));
}

RlxIrValue *
rlx_build_sum_to (RlxBuilder          *b,
                  RlxIrValue          *x,
                  const RlxTensorType *shape)
{
  gint64 axes[RLX_MAX_DIMS];
  guint n_axes = 0, n_more;

  if (x == NULL || rlx_type_same_shape (&x->type, shape))
    return x;

  n_more = x->type.n_dims - MIN (x->type.n_dims, shape->n_dims);
  for (guint i = 0; i < x->type.n_dims; i++)
    if (i < n_more || (shape->shape[i - n_more] == 1 && x->type.shape[i] != 1))
      axes[n_axes++] = i;
  if (n_axes > 0)
    x = rlx_build_reduce_sum (b, x, RLX_REDUCE_SUM_ATTRS (.axes = RLX_INTS (axes, n_axes), .keep_dims = TRUE));
  if (x == NULL)
    return NULL;
  x = rlx_build_shaped (b, x, x->type.shape + n_more, x->type.n_dims - n_more);
  /* It may also have a smaller shape, which broadcasts to the whole one. */
  if (x == NULL || rlx_type_same_shape (&x->type, shape))
    return x;
  return rlx_build_expand (b, x, RLX_EXPAND_ATTRS (.shape = RLX_INTS (shape->shape, shape->n_dims)));
}

RlxIrValue *
rlx_build_iota (RlxBuilder *b,
                gint64      n)
{
  g_autofree gint64 *values = b->error == NULL ? g_try_new (gint64, (gsize) n + 1) : NULL;

  for (gint64 i = 0; values != NULL && i < n; i++)
    values[i] = i;
  return rlx_build_constant (b, values != NULL ? rlx_tensor_new_from_ints (RLX_DATA_TYPE_I32, &n, 1, values, (gsize) n, NULL) : NULL);
}

RlxIrValue *
rlx_build_sum_along (RlxBuilder *b,
                     RlxIrValue *x,
                     gint64      axis)
{
  return rlx_build_reduce_sum (b, x, RLX_REDUCE_SUM_ATTRS (.axes = RLX_INTS (&axis, 1), .keep_dims = TRUE));
}

RlxIrValue *
rlx_build_swapped (RlxBuilder *b,
                   RlxIrValue *x,
                   guint       axis1,
                   guint       axis2)
{
  gint64 order[RLX_MAX_DIMS];

  if (x == NULL || axis1 == axis2)
    return x;
  for (guint i = 0; i < x->type.n_dims; i++)
    order[i] = i == axis1 ? axis2 : i == axis2 ? axis1 : i;
  return rlx_build_transpose (b, x, RLX_TRANSPOSE_ATTRS (.permutation = RLX_INTS (order, x->type.n_dims)));
}

RlxIrValue *
rlx_build_part (RlxBuilder *b,
                RlxIrValue *x,
                gint64      axis,
                gint64      start,
                gint64      end)
{
  if (x != NULL && start == 0 && end == x->type.shape[axis])
    return x;
  return rlx_build_slice (b, x, RLX_SLICE_ATTRS (.starts = RLX_INTS (&start, 1), .ends = RLX_INTS (&end, 1),
                                                 .axes = RLX_INTS (&axis, 1)));
}

/* ---- the whole graph ------------------------------------------------------------------------ */

/* "%7 → %9 “h” → %12", from a result of @node to a loss. */
static char *
describe_path (RlxGradient     *self,
               const RlxIrNode *node)
{
  GString *path = g_string_new (NULL);

  for (guint i = 0; node != NULL; i++)
    {
      const RlxIrNode *user = NULL;

      for (guint k = 0; k < node->n_outputs && user == NULL; k++)
        user = get_entry (self, &node->outputs[k])->user;
      if (i < MAX_PATH || user == NULL)
        {
          g_autofree char *value = rlx_ir_value_describe (&node->outputs[0]);

          g_string_append_printf (path, "%s%s %s", i == 0 ? "" : i > MAX_PATH ? " → … → " : " → ", value, node->op->name);
        }
      node = user;
    }
  return g_string_free (path, FALSE);
}

void
rlx_gradient_refuse (RlxGradient     *self,
                     const RlxIrNode *node,
                     const char      *why)
{
  g_autofree char *path = describe_path (self, node);

  if (self->b.error == NULL)
    g_set_error (&self->b.error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_UNSUPPORTED,
                 "gradient: %s has none: %s; the loss depends on it through %s", node->op->name, why, path);
}

/* Whether a value whose gradient is requested is an operand of @node, or leads to one. */
static gboolean
depends (RlxGradient     *self,
         const RlxIrNode *node)
{
  for (guint i = 0; i < node->n_inputs; i++)
    if (node->inputs[i] != NULL && is_float (node->inputs[i]) && get_entry (self, node->inputs[i])->wanted)
      return TRUE;
  return FALSE;
}

static void
find_wanted (RlxGradient *self,
             guint        first)
{
  for (guint i = first; i < self->b.ir->nodes->len; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (self->b.ir->nodes, i);
      gboolean any = depends (self, node);

      for (guint k = 0; any && k < node->n_outputs; k++)
        if (is_float (&node->outputs[k]))
          get_entry (self, &node->outputs[k])->wanted = TRUE;
    }
}

/* Goes back through the nodes from the one before @end to @first. */
static void
go_back (RlxGradient *self,
         guint        first,
         guint        end)
{
  for (guint i = end; i-- > first && self->b.error == NULL;)
    {
      const RlxIrNode *node = g_ptr_array_index (self->b.ir->nodes, i);
      gboolean reached = FALSE;

      for (guint k = 0; k < node->n_outputs && !reached; k++)
        reached = get_entry (self, &node->outputs[k])->gradient != NULL;
      if (!reached || !depends (self, node) || (node->op->flags & RLX_OP_FLAT) != 0)
        continue;

      self->first = self->b.ir->nodes->len;
      if (node->op->gradient != NULL)
        node->op->gradient (self, node);
      else
        rlx_gradient_refuse (self, node, node->op->no_gradient);
    }
}

void
rlx_gradient_through (RlxGradient       *self,
                      const RlxIrNode   *node,
                      RlxIrValue *const *results,
                      guint              n_results)
{
  guint first = self->first, end = self->b.ir->nodes->len;

  if (self->b.error != NULL)
    return;

  find_wanted (self, first);
  for (guint i = 0; i < MIN (n_results, node->n_outputs); i++)
    {
      RlxIrValue *gradient = rlx_gradient_get (self, node, i);

      if (results[i] != NULL && gradient != NULL)
        contribute (self, results[i], node, gradient);
    }
  go_back (self, first, end);
}

void
rlx_gradient_expand (RlxGradient     *self,
                     const RlxIrNode *node)
{
  RlxIrValue *result = node->op->expand (&self->b, node, node->inputs);

  rlx_gradient_through (self, node, node->n_outputs > 1 && result != NULL ? self->b.results : &result, node->n_outputs);
}

static gboolean
check_losses (RlxGradient   *self,
              const RlxLoss *losses,
              guint          n_losses)
{
  for (guint i = 0; i < n_losses; i++)
    {
      const RlxIrValue *loss = losses[i].value, *seed = losses[i].seed;
      g_autofree char *value = rlx_ir_value_describe (loss);
      g_autofree char *type = rlx_type_to_string (&loss->type);
      g_autofree char *seed_type = seed != NULL ? rlx_type_to_string (&seed->type) : NULL;

      if (!is_float (loss))
        g_set_error (&self->b.error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_DATA_TYPE,
                     "gradient: the loss %s is %s; only floats have gradients", value, type);
      else if (seed == NULL && rlx_type_n_elements (&loss->type) != 1)
        g_set_error (&self->b.error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_SHAPE,
                     "gradient: the loss %s is %s; it must have one element, or come with a seed", value, type);
      else if (seed != NULL && !rlx_type_equal (&seed->type, &loss->type))
        g_set_error (&self->b.error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_SHAPE,
                     "gradient: the seed is %s, the loss %s is %s; they must match", seed_type, value, type);
      if (self->b.error != NULL)
        return FALSE;
    }
  return TRUE;
}

static gboolean
check_value (RlxGradient      *self,
             const RlxIrValue *value)
{
  g_autofree char *name = NULL, *type = NULL;

  if (is_float (value))
    return TRUE;

  name = rlx_ir_value_describe (value);
  type = rlx_type_to_string (&value->type);
  g_set_error (&self->b.error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_DATA_TYPE,
               "gradient: %s is %s; only floats have gradients", name, type);
  return FALSE;
}

/* Which nodes lead to a loss, even if only through an operator whose derivative is zero. */
static gboolean *
find_reached (const RlxIr   *ir,
              const RlxLoss *losses,
              guint          n_losses,
              guint          n_nodes)
{
  gboolean *reached = g_new0 (gboolean, n_nodes);
  guint last = 0;

  for (guint i = 0; i < n_losses; i++)
    {
      reached[losses[i].value->node->id] = TRUE;
      last = MAX (last, losses[i].value->node->id);
    }
  for (guint i = last + 1; i-- > 0;)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);

      for (guint k = 0; reached[i] && k < node->n_inputs; k++)
        if (node->inputs[k] != NULL)
          reached[node->inputs[k]->node->id] = TRUE;
    }
  return reached;
}

/* ---- recomputation ------------------------------------------------------------------------ */

/* The operand that a copied node uses for a value from before its segment: weights are unchanged, everything else
 * goes through a node that keeps the copy from being a duplicate. */
static RlxIrValue *
take_operand (RlxGradient *self,
              RlxIrValue  *value,
              RlxIrValue  *later)
{
  gboolean is_weight = value->node->n_inputs == 0 && value->node->op->id != RLX_OP_ID_INPUT;

  return is_weight ? value : rlx_build_after (&self->b, value, later);
}

/* Goes back from @end to @first through copies of the nodes, which are created once the gradients of their results
 * exist. */
static void
go_back_again (RlxGradient    *self,
               guint           first,
               guint           end,
               const gboolean *reached,
               RlxIrValue    **copies)
{
  RlxIr *ir = self->b.ir;
  RlxIrValue *later = NULL;
  guint start = ir->nodes->len;

  for (guint i = first; i < end && later == NULL; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);

      for (guint k = 0; k < node->n_outputs && later == NULL; k++)
        later = get_entry (self, &node->outputs[k])->gradient;
    }
  if (later == NULL)
    return;

  for (guint i = first; i < end && self->b.error == NULL; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);
      g_autofree RlxIrValue **inputs = NULL;
      RlxIrNode *copy;

      if (!reached[i] || node->n_inputs == 0)
        continue;
      inputs = g_new0 (RlxIrValue *, node->n_inputs);
      for (guint k = 0; k < node->n_inputs; k++)
        {
          RlxIrValue *value = node->inputs[k];

          if (value == NULL)
            continue;
          if (copies[value->id] == NULL)
            copies[value->id] = take_operand (self, value, later);
          inputs[k] = copies[value->id];
        }
      copy = rlx_builder_append (&self->b, node->op, inputs, node->n_inputs, node->attrs);
      for (guint k = 0; copy != NULL && k < node->n_outputs; k++)
        copies[node->outputs[k].id] = &copy->outputs[k];
    }

  if (self->b.error == NULL)
    find_wanted (self, start);
  for (guint i = first; i < end && self->b.error == NULL; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);

      for (guint k = 0; k < node->n_outputs; k++)
        {
          const Entry *entry = get_entry (self, &node->outputs[k]);

          if (entry->gradient != NULL && node->n_inputs > 0)
            contribute (self, copies[node->outputs[k].id], entry->user, entry->gradient);
        }
    }
  go_back (self, start, ir->nodes->len);
  for (guint i = first; i < end && self->b.error == NULL; i++)
    {
      const RlxIrNode *node = g_ptr_array_index (ir->nodes, i);

      for (guint k = 0; k < node->n_outputs && node->n_inputs > 0; k++)
        if (copies[node->outputs[k].id] != NULL)
          get_entry (self, &node->outputs[k])->gradient = get_entry (self, copies[node->outputs[k].id])->gradient;
    }
}

static void
go_back_in_parts (RlxGradient    *self,
                  guint           n_nodes,
                  const gboolean *reached)
{
  guint n_cuts, end = n_nodes, n_values = self->b.ir->n_values;
  g_autofree guint *cuts = rlx_gradient_find_cuts (self->b.ir, reached, n_nodes, &n_cuts);
  g_autofree RlxIrValue **copies = NULL;

  if (n_cuts == 0)
    {
      go_back (self, 0, n_nodes);
      return;
    }

  /* The last segment is still in memory. */
  go_back (self, cuts[n_cuts - 1], n_nodes);
  copies = g_new (RlxIrValue *, n_values);
  for (guint i = n_cuts; i-- > 0 && self->b.error == NULL;)
    {
      end = cuts[i];
      memset (copies, 0, n_values * sizeof (RlxIrValue *));
      go_back_again (self, i > 0 ? cuts[i - 1] : 0, end, reached, copies);
    }
}

gboolean
rlx_ir_add_gradients (RlxIr             *ir,
                      const RlxLoss     *losses,
                      guint              n_losses,
                      RlxIrValue *const *values,
                      guint              n_values,
                      gboolean           allow_unused,
                      gboolean           recompute,
                      RlxIrValue       **gradients,
                      GError           **error)
{
  RlxGradient self = { .b = { .ir = ir } };
  guint n_nodes = ir->nodes->len, n_ir_values = ir->n_values;
  g_autofree gboolean *reached = find_reached (ir, losses, n_losses, n_nodes);

  self.entries = g_array_sized_new (FALSE, TRUE, sizeof (Entry), n_ir_values * 2);
  for (guint i = 0; i < n_values && check_value (&self, values[i]); i++)
    get_entry (&self, values[i])->wanted = TRUE;
  if (self.b.error == NULL && check_losses (&self, losses, n_losses))
    {
      find_wanted (&self, 0);
      for (guint i = 0; i < n_losses; i++)
        {
          RlxIrValue *loss = losses[i].value;

          contribute (&self, loss, NULL,
                      losses[i].seed != NULL ? losses[i].seed : rlx_build_filled (&self.b, &loss->type, 1.0));
        }
      if (recompute && self.b.error == NULL)
        go_back_in_parts (&self, n_nodes, reached);
      else
        go_back (&self, 0, n_nodes);
    }

  for (guint i = 0; i < n_values && self.b.error == NULL; i++)
    {
      gradients[i] = get_entry (&self, values[i])->gradient;
      if (gradients[i] != NULL)
        continue;

      if (!allow_unused && !reached[values[i]->node->id])
        {
          g_autofree char *name = rlx_ir_value_describe (values[i]);

          g_set_error (&self.b.error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                       "gradient: the loss does not depend on %s", name);
          break;
        }
      gradients[i] = rlx_build_filled (&self.b, &values[i]->type, 0.0);
    }
  g_array_unref (self.entries);

  /* They are ordinary nodes of the graph, whose own numbers appear in messages. */
  for (guint i = n_nodes; i < ir->nodes->len; i++)
    {
      RlxIrNode *node = g_ptr_array_index (ir->nodes, i);

      node->origin = node->outputs[0].id;
    }
  if (self.b.error == NULL)
    return TRUE;

  g_ptr_array_set_size (ir->nodes, (int) n_nodes);
  ir->n_values = n_ir_values;
  g_propagate_error (error, g_steal_pointer (&self.b.error));
  return FALSE;
}
