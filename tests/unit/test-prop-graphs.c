/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Random graphs of element-wise operators, views, reductions, products and
 * lookups. What the compiler does with them must not show: fused or not, with
 * memory used again or not, with constants computed once or not, every result
 * is within the bounds of the reference, and where only addresses differ it has
 * the same bits.
 */
#include "config.h"

#include "test-prop-common.h"
#include "util/rlx-debug-private.h"

#define N_GRAPHS 64
#define MAX_ELEMENTS 3000
#define MAX_OUTPUTS 10

typedef struct
{
  GRand *rand;
  RlxGraph *graph;
  GPtrArray *nodes;        /* RlxNode: what operators may take */
  GHashTable *used;        /* RlxNode: those that have been taken */
  gint64 sizes[3];         /* of dimensions: few, so that shapes fit each other */
  GPtrArray *feeds;        /* RlxTensor */
  GPtrArray *names;        /* of parameters */
  GPtrArray *parameters;   /* RlxTensor */
  gboolean integers;
} Maker;

/* ---- small helpers ------------------------------------------------------------ */

static gboolean
is_float (RlxNode *node)
{
  return rlx_node_get_data_type (node) == RLX_DATA_TYPE_F32 || rlx_node_get_data_type (node) == RLX_DATA_TYPE_F16;
}

static gsize
count (RlxNode *node)
{
  gsize n_dims;
  const gint64 *shape = rlx_node_get_shape (node, &n_dims);

  return prop_count (shape, n_dims);
}

/* Nodes that nobody has taken and that have several elements come first, so
 * that graphs grow deep. */
static RlxNode *
pick_node (Maker *self)
{
  RlxNode *node = NULL;

  for (guint i = 0; i < 6; i++)
    {
      node = g_ptr_array_index (self->nodes, prop_pick (self->rand, 0, self->nodes->len - 1));
      if (!g_hash_table_contains (self->used, node) && count (node) > 3)
        break;
    }

  return node;
}

static RlxNode *
pick_float (Maker *self)
{
  for (guint i = 0; i < 20; i++)
    {
      RlxNode *node = pick_node (self);

      if (is_float (node))
        return node;
    }

  return NULL;
}

/* Adds a node, if it is not too large. NULL ends the attempt. */
static RlxNode *
add (Maker      *self,
     const char *op,
     gsize       n_inputs,
     RlxNode   **inputs,
     GVariant   *attributes)
{
  g_autoptr (GVariant) owned = attributes != NULL ? g_variant_ref_sink (attributes) : NULL;
  g_autoptr (GError) error = NULL;
  g_autofree RlxNode **results = NULL;
  gsize n_results;

  for (gsize i = 0; i < n_inputs; i++)
    if (inputs[i] == NULL)
      return NULL;

  results = rlx_graph_add_op (self->graph, op, inputs, n_inputs, owned, &n_results, &error);
  g_assert_no_error (error);
  if (count (results[0]) > MAX_ELEMENTS)
    return results[0];

  g_ptr_array_add (self->nodes, results[0]);
  for (gsize i = 0; i < n_inputs; i++)
    g_hash_table_add (self->used, inputs[i]);

  return results[0];
}

static RlxNode *
add_1 (Maker      *self,
       const char *op,
       RlxNode    *a,
       GVariant   *attributes)
{
  return add (self, op, 1, &a, attributes);
}

static RlxNode *
add_2 (Maker      *self,
       const char *op,
       RlxNode    *a,
       RlxNode    *b,
       GVariant   *attributes)
{
  return add (self, op, 2, (RlxNode *[]) { a, b }, attributes);
}

/* A leaf: with a probability of @input an input, otherwise a constant or a
 * parameter. */
static RlxNode *
add_leaf (Maker        *self,
          RlxDataType   data_type,
          const gint64 *shape,
          gsize         n_dims,
          double        input)
{
  gboolean floats = data_type == RLX_DATA_TYPE_F32 || data_type == RLX_DATA_TYPE_F16;
  g_autoptr (RlxTensor) tensor = prop_tensor (self->rand, floats ? PROP_TAME : PROP_WILD, data_type, shape, n_dims);
  g_autoptr (GError) error = NULL;
  g_autofree char *name = g_strdup_printf ("leaf%u", g_list_model_get_n_items (G_LIST_MODEL (self->graph)));
  double choice = g_rand_double (self->rand);
  RlxNode *node;

  if (choice < input)
    {
      node = rlx_graph_input (self->graph, name, data_type, shape, n_dims, &error);
      g_ptr_array_add (self->feeds, g_object_ref (tensor));
    }
  else if (choice < input + (1 - input) / 3)
    {
      node = rlx_graph_parameter (self->graph, name, data_type, shape, n_dims, &error);
      g_ptr_array_add (self->parameters, g_object_ref (tensor));
      g_ptr_array_add (self->names, g_steal_pointer (&name));
    }
  else
    {
      node = rlx_graph_constant (self->graph, tensor, &error);
    }
  g_assert_no_error (error);

  return node;
}

static RlxDataType
pick_type (Maker *self)
{
  static const RlxDataType integers[] = {
    RLX_DATA_TYPE_I32, RLX_DATA_TYPE_U32, RLX_DATA_TYPE_I8, RLX_DATA_TYPE_U8, RLX_DATA_TYPE_BOOL, RLX_DATA_TYPE_I64,
  };

  if (self->integers)
    return integers[prop_pick (self->rand, 0, G_N_ELEMENTS (integers) - 1)];
  if (prop_chance (self->rand, 0.15))
    return integers[prop_pick (self->rand, 0, G_N_ELEMENTS (integers) - 1)];

  return prop_chance (self->rand, 0.25) ? RLX_DATA_TYPE_F16 : RLX_DATA_TYPE_F32;
}

static gint64
small_size (Maker *self)
{
  return prop_chance (self->rand, 0.1) ? 1 : self->sizes[prop_pick (self->rand, 0, G_N_ELEMENTS (self->sizes) - 1)];
}

static void
add_first_leaf (Maker *self,
                gsize  least)
{
  gint64 shape[RLX_MAX_RANK];
  gsize n_dims = (gsize) prop_pick (self->rand, (gint64) least, 3);

  for (gsize i = 0; i < n_dims; i++)
    shape[i] = small_size (self);
  if (n_dims > 0 && prop_chance (self->rand, 0.02))
    shape[0] = 0;
  g_ptr_array_add (self->nodes, add_leaf (self, pick_type (self), shape, n_dims, 0.8));
}

/* ---- element-wise ---------------------------------------------------------------- */

static gboolean
broadcasts (RlxNode *a,
            RlxNode *b)
{
  gsize n_a, n_b;
  const gint64 *shape_a = rlx_node_get_shape (a, &n_a), *shape_b = rlx_node_get_shape (b, &n_b);
  gsize n = 1;

  for (gsize i = 0; i < MAX (n_a, n_b); i++)
    {
      gint64 dim_a = i < n_a ? shape_a[n_a - 1 - i] : 1, dim_b = i < n_b ? shape_b[n_b - 1 - i] : 1;

      if (dim_a != dim_b && dim_a != 1 && dim_b != 1)
        return FALSE;
      n *= (gsize) (dim_a == 1 ? dim_b : dim_a);
    }

  return n <= MAX_ELEMENTS;
}

/* An operand that goes with @node: one that is there, or a new leaf. */
static RlxNode *
pick_partner (Maker   *self,
              RlxNode *node)
{
  gsize n_dims, missing;
  const gint64 *shape = rlx_node_get_shape (node, &n_dims);
  gint64 part[RLX_MAX_RANK];

  for (guint i = 0; i < 12; i++)
    {
      RlxNode *other = pick_node (self);

      if (rlx_node_get_data_type (other) == rlx_node_get_data_type (node) && broadcasts (node, other))
        return other;
    }

  missing = (gsize) prop_pick (self->rand, 0, (gint64) n_dims);
  for (gsize i = missing; i < n_dims; i++)
    part[i - missing] = prop_chance (self->rand, 0.3) ? 1 : shape[i];

  return add_leaf (self, rlx_node_get_data_type (node), part, n_dims - missing, 0.3);
}

static void
make_unary (Maker *self)
{
  static const char *const floats[] = {
    "tanh", "sigmoid", "gelu", "relu", "abs", "neg", "sin", "cos", "erf", "silu", "softsign", "hard_sigmoid",
    "hard_swish", "elu", "mish", "atan", "leaky_relu", "softplus", "identity", "gelu_tanh", "asinh", "log_sigmoid",
  };
  static const char *const integers[] = { "abs", "sign", "identity", "bit_not", "relu" };
  RlxNode *node = pick_node (self);
  RlxDataType data_type = rlx_node_get_data_type (node);

  if (is_float (node))
    add_1 (self, floats[prop_pick (self->rand, 0, G_N_ELEMENTS (floats) - 1)], node, NULL);
  else if (data_type == RLX_DATA_TYPE_BOOL)
    add_1 (self, "logical_not", node, NULL);
  else
    add_1 (self,
           integers[prop_pick (self->rand, 0, data_type == RLX_DATA_TYPE_U8 || data_type == RLX_DATA_TYPE_U32 ? 3 : 4)],
           node, NULL);
}

static void
make_binary (Maker *self)
{
  static const char *const floats[] = { "add", "sub", "mul", "max", "min", "add", "mul", "atan2", "prelu" };
  static const char *const integers[] = {
    "add", "sub", "mul", "div", "mod", "max", "min", "bit_and", "bit_or", "bit_xor", "shift_left", "shift_right", "pow",
  };
  static const char *const booleans[] = { "logical_and", "logical_or", "logical_xor", "equal", "not_equal" };
  RlxNode *a = pick_node (self), *b = pick_partner (self, a);

  if (prop_chance (self->rand, 0.5))
    {
      RlxNode *swap = a;

      a = b;
      b = swap;
    }

  if (is_float (a))
    add_2 (self, floats[prop_pick (self->rand, 0, G_N_ELEMENTS (floats) - 1)], a, b, NULL);
  else if (rlx_node_get_data_type (a) == RLX_DATA_TYPE_BOOL)
    add_2 (self, booleans[prop_pick (self->rand, 0, G_N_ELEMENTS (booleans) - 1)], a, b, NULL);
  else
    add_2 (self, integers[prop_pick (self->rand, 0, G_N_ELEMENTS (integers) - 1)], a, b, NULL);
}

static void
make_choice (Maker *self)
{
  static const char *const ops[] = { "less", "less_equal", "greater", "greater_equal" };
  RlxNode *a = pick_node (self), *b = pick_partner (self, a);
  RlxNode *condition;

  if (rlx_node_get_data_type (a) == RLX_DATA_TYPE_BOOL)
    return;
  condition = add_2 (self, ops[prop_pick (self->rand, 0, G_N_ELEMENTS (ops) - 1)], a, b, NULL);
  add (self, "where", 3, (RlxNode *[]) { condition, a, b }, NULL);
}

static void
make_cast (Maker *self)
{
  RlxNode *node = pick_node (self);
  RlxDataType to = pick_type (self);

  /* What is not known exactly would be an integer nobody knows. */
  if (is_float (node) && to != RLX_DATA_TYPE_F32 && to != RLX_DATA_TYPE_F16)
    return;
  /* An integer that large is infinite in f16, and rarely of use in f32. */
  if (!is_float (node) && (to == RLX_DATA_TYPE_F16 || to == RLX_DATA_TYPE_F32))
    node = add_1 (self, "cast", node, g_variant_new_parsed ("{'to': <'i8'>}"));
  add_1 (self, "cast", node, g_variant_new_parsed ("{'to': <%s>}", rlx_data_type_to_string (to)));
}

/* ---- views --------------------------------------------------------------------------- */

static void
make_transpose (Maker *self)
{
  RlxNode *node = pick_node (self);
  gsize n_dims = rlx_node_get_n_dims (node);
  gint64 permutation[RLX_MAX_RANK];

  for (gsize i = 0; i < n_dims; i++)
    {
      gsize j = (gsize) prop_pick (self->rand, 0, (gint64) i);

      permutation[i] = permutation[j];
      permutation[j] = (gint64) i;
    }
  add_1 (self, "transpose", node, g_variant_new_parsed ("{'permutation': <%@ax>}", rlx_test_ints (n_dims, permutation)));
}

static void
make_slice (Maker *self)
{
  RlxNode *node = pick_node (self);
  gsize n_dims;
  const gint64 *shape = rlx_node_get_shape (node, &n_dims);
  gint64 starts[RLX_MAX_RANK], ends[RLX_MAX_RANK], steps[RLX_MAX_RANK];

  for (gsize i = 0; i < n_dims; i++)
    {
      gint64 step = prop_chance (self->rand, 0.3) ? 2 : 1;

      /* At least one element, if there is one. */
      starts[i] = shape[i] > 1 ? prop_pick (self->rand, 0, (shape[i] - 1) / 2) : 0;
      ends[i] = shape[i] - (shape[i] > 3 ? prop_pick (self->rand, 0, 1) : 0);
      steps[i] = step;
      if (prop_chance (self->rand, 0.3))
        {
          gint64 first = starts[i];

          starts[i] = ends[i] - 1;
          ends[i] = first == 0 ? G_MININT64 : first - 1;
          steps[i] = -step;
        }
    }
  add_1 (self, "slice", node,
         g_variant_new_parsed ("{'starts': <%@ax>, 'ends': <%@ax>, 'steps': <%@ax>}", rlx_test_ints (n_dims, starts),
                               rlx_test_ints (n_dims, ends), rlx_test_ints (n_dims, steps)));
}

static void
make_expand (Maker *self)
{
  RlxNode *node = pick_node (self);
  gsize n_dims, more;
  const gint64 *shape = rlx_node_get_shape (node, &n_dims);
  gint64 to[RLX_MAX_RANK];
  gsize n = count (node);

  more = n_dims < 4 && prop_chance (self->rand, 0.4) ? 1 : 0;
  if (more > 0)
    to[0] = prop_pick (self->rand, 1, 3);
  for (gsize i = 0; i < n_dims; i++)
    to[i + more] = shape[i] == 1 && prop_chance (self->rand, 0.7) ? small_size (self) : shape[i];
  n = prop_count (to, n_dims + more);
  if (n <= MAX_ELEMENTS)
    add_1 (self, "expand", node, g_variant_new_parsed ("{'shape': <%@ax>}", rlx_test_ints (n_dims + more, to)));
}

static void
make_reshape (Maker *self)
{
  RlxNode *node = pick_node (self);
  gint64 rest = (gint64) count (node), to[RLX_MAX_RANK];
  gsize n_dims = 0;

  while (n_dims < 3 && rest > 1 && prop_chance (self->rand, 0.6))
    {
      gint64 divisor = prop_pick (self->rand, 2, 5);

      if (rest % divisor == 0)
        {
          to[n_dims++] = divisor;
          rest /= divisor;
        }
    }
  to[n_dims++] = rest;
  add_1 (self, "reshape", node, g_variant_new_parsed ("{'shape': <%@ax>}", rlx_test_ints (n_dims, to)));
}

/* ---- everything else ------------------------------------------------------------------- */

static void
make_reduce (Maker *self)
{
  static const char *const ops[] = { "reduce_sum", "reduce_max", "reduce_min", "reduce_mean" };
  RlxNode *node = pick_node (self);
  gsize n_dims = rlx_node_get_n_dims (node), n_axes = 0;
  gint64 axes[RLX_MAX_RANK];

  if (rlx_node_get_data_type (node) == RLX_DATA_TYPE_BOOL || count (node) == 0)
    return;
  for (gsize i = 0; i < n_dims; i++)
    if (prop_chance (self->rand, 0.3))
      axes[n_axes++] = (gint64) i;
  add_1 (self, ops[prop_pick (self->rand, 0, is_float (node) ? 3 : 2)], node,
         g_variant_new_parsed ("{'axes': <%@ax>, 'keep_dims': <%b>}", rlx_test_ints (n_axes, axes), prop_chance (self->rand, 0.6)));
}

static void
make_matmul (Maker *self)
{
  RlxNode *a = pick_float (self), *b;
  gsize n_dims;
  const gint64 *shape;
  gboolean transpose = prop_chance (self->rand, 0.5);

  if (a == NULL || rlx_node_get_n_dims (a) == 0)
    return;
  shape = rlx_node_get_shape (a, &n_dims);

  /* With itself, turned around, or with a new matrix. */
  if (n_dims > 1 && prop_chance (self->rand, 0.3) && shape[n_dims - 2] * (gint64) count (a) <= MAX_ELEMENTS)
    {
      add_2 (self, "matmul", a, a, g_variant_new_parsed ("{'transpose_b': <true>}"));
      return;
    }
  b = add_leaf (self, rlx_node_get_data_type (a),
                (gint64[]) { transpose ? small_size (self) : shape[n_dims - 1], transpose ? shape[n_dims - 1] : small_size (self) }, 2, 0.3);
  if (prop_chance (self->rand, 0.3))
    {
      const gint64 *matrix = rlx_node_get_shape (b, NULL);
      RlxNode *bias = add_leaf (self, rlx_node_get_data_type (a), &matrix[transpose ? 0 : 1], 1, 0.3);

      add (self, "linear", 3, (RlxNode *[]) { a, b, bias }, g_variant_new_parsed ("{'transpose_b': <%b>}", transpose));
    }
  else
    {
      add_2 (self, "matmul", a, b, g_variant_new_parsed ("{'transpose_b': <%b>}", transpose));
    }
}

static void
make_rows (Maker *self)
{
  RlxNode *node = pick_float (self);
  gsize n_dims;
  gint64 axis;

  if (node == NULL || rlx_node_get_n_dims (node) == 0)
    return;
  n_dims = rlx_node_get_n_dims (node);
  axis = prop_pick (self->rand, 0, (gint64) n_dims - 1);
  if (prop_chance (self->rand, 0.6))
    add_1 (self, prop_chance (self->rand, 0.7) ? "softmax" : "log_softmax", node,
           g_variant_new_parsed ("{'axis': <%x>}", axis));
  else
    /* A large epsilon: rows of nearly equal elements blow up errors. */
    add_1 (self, prop_chance (self->rand, 0.5) ? "layer_norm" : "rms_norm", node,
           g_variant_new_parsed ("{'axes': <[%x]>, 'epsilon': <0.1>}", axis));
}

static void
make_concat (Maker *self)
{
  RlxNode *a = pick_node (self), *b = a;
  gsize n_dims;
  const gint64 *shape = rlx_node_get_shape (a, &n_dims);
  gint64 axis, other[RLX_MAX_RANK];

  if (n_dims == 0)
    return;
  axis = prop_pick (self->rand, 0, (gint64) n_dims - 1);
  for (guint i = 0; i < 10; i++)
    {
      RlxNode *candidate = pick_node (self);
      gsize n;
      const gint64 *dims = rlx_node_get_shape (candidate, &n);
      gboolean fits = n == n_dims && rlx_node_get_data_type (candidate) == rlx_node_get_data_type (a);

      for (gsize d = 0; fits && d < n; d++)
        fits = dims[d] == shape[d] || (gint64) d == axis;
      if (fits && candidate != a)
        {
          b = candidate;
          break;
        }
    }
  if (b == a && prop_chance (self->rand, 0.5))
    {
      memcpy (other, shape, n_dims * sizeof (gint64));
      other[axis] = prop_pick (self->rand, 0, 3);
      b = add_leaf (self, rlx_node_get_data_type (a), other, n_dims, 0.3);
    }
  if (count (a) + count (b) <= MAX_ELEMENTS)
    add (self, "concat", 3, (RlxNode *[]) { a, b, a }, g_variant_new_parsed ("{'axis': <%x>}", axis));
}

static void
make_gather (Maker *self)
{
  RlxNode *node = pick_node (self), *indices;
  gsize n_dims;
  const gint64 *shape = rlx_node_get_shape (node, &n_dims);
  g_autofree double *values = NULL;
  g_autoptr (RlxTensor) tensor = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree char *name = g_strdup_printf ("indices%u", self->nodes->len);
  g_autofree char *type = NULL;
  gint64 axis, n_indices = prop_pick (self->rand, 1, 5);

  if (n_dims == 0 || count (node) == 0)
    return;
  axis = prop_pick (self->rand, 0, (gint64) n_dims - 1);
  if ((gint64) count (node) / shape[axis] * n_indices > MAX_ELEMENTS)
    return;

  values = g_new (double, n_indices);
  for (gint64 i = 0; i < n_indices; i++)
    values[i] = (double) prop_pick (self->rand, -shape[axis], shape[axis] - 1);
  type = prop_type_text (RLX_DATA_TYPE_I32, &n_indices, 1);
  tensor = rlx_test_tensor (type, values);
  if (prop_chance (self->rand, 0.5))
    {
      indices = rlx_graph_constant (self->graph, tensor, &error);
    }
  else
    {
      indices = rlx_graph_input (self->graph, name, RLX_DATA_TYPE_I32, &n_indices, 1, &error);
      g_ptr_array_add (self->feeds, g_object_ref (tensor));
    }
  g_assert_no_error (error);
  add_2 (self, "gather", node, indices, g_variant_new_parsed ("{'axis': <%x>}", axis));
}

/* ---- a graph ------------------------------------------------------------------------------ */

static void
make_graph (Maker *self)
{
  static void (*const makers[]) (Maker *) = {
    make_unary, make_unary, make_unary, make_binary, make_binary, make_binary, make_choice, make_cast,
    make_transpose, make_slice, make_expand, make_reshape, make_reduce, make_matmul, make_rows, make_concat, make_gather,
  };
  static const gint64 sizes[] = { 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 33 };
  guint n_nodes = (guint) prop_pick (self->rand, 5, 40);
  guint n_outputs = 0;

  for (gsize i = 0; i < G_N_ELEMENTS (self->sizes); i++)
    self->sizes[i] = sizes[prop_pick (self->rand, 0, G_N_ELEMENTS (sizes) - 1)];
  add_first_leaf (self, 2);
  add_first_leaf (self, 1);
  add_first_leaf (self, 0);
  for (guint i = 0; i < 4 * n_nodes && self->nodes->len < n_nodes; i++)
    makers[prop_pick (self->rand, 0, G_N_ELEMENTS (makers) - 1)] (self);

  /* All that nobody takes come out; some others too, also an input, and some
   * twice. */
  for (guint i = self->nodes->len; i-- > 0;)
    {
      RlxNode *node = g_ptr_array_index (self->nodes, i);
      gboolean loose = !g_hash_table_contains (self->used, node);

      for (guint j = 0; j < 2 && n_outputs < MAX_OUTPUTS; j++)
        if ((loose && j == 0) || prop_chance (self->rand, 0.05))
          {
            g_autofree char *name = g_strdup_printf ("output%u", n_outputs++);

            rlx_graph_output (self->graph, name, node);
          }
    }
}

/* ---- running it in all ways ------------------------------------------------------------------ */

typedef struct
{
  const char *name;
  RlxDebugFlags flags;
  gboolean same_bits;   /* as the first one */
} Way;

static const Way ways[] = {
  { "as usual", 0, TRUE },
  { "no-alias", RLX_DEBUG_NO_ALIAS, TRUE },
  { "no-fuse", RLX_DEBUG_NO_FUSE, FALSE },
  { "no-fold", RLX_DEBUG_NO_FOLD, FALSE },
  { "no-fuse,no-alias,no-fold", RLX_DEBUG_NO_FUSE | RLX_DEBUG_NO_ALIAS | RLX_DEBUG_NO_FOLD, FALSE },
};

/* Over all graphs: how many elements were checked, and how many of these have
 * a bound that says little. */
static gsize n_checked, n_vague, n_dispatches;

static RlxTensor **
run_way (Maker     *self,
         const Way *way,
         gsize     *n_outputs)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (RlxExecutable) executable = NULL;
  RlxDebugFlags flags = rlx_debug_get_flags ();
  RlxTensor **outputs, **again;
  RlxTensor **feeds = (RlxTensor **) self->feeds->pdata;

  rlx_debug_set_flags (flags | way->flags);
  executable = rlx_device_compile (rlx_test_device (), self->graph, NULL, &error);
  rlx_debug_set_flags (flags);
  g_assert_no_error (error);

  if (self->names->len > 0)
    rlx_executable_set_parameters (executable, (const char *const *) self->names->pdata,
                                   (RlxTensor **) self->parameters->pdata, self->names->len, NULL, &error);
  g_assert_no_error (error);

  n_dispatches += rlx_executable_get_n_dispatches (executable);
  outputs = rlx_executable_run (executable, feeds, self->feeds->len, n_outputs, NULL, &error);
  g_assert_no_error (error);
  again = rlx_executable_run (executable, feeds, self->feeds->len, n_outputs, NULL, &error);
  g_assert_no_error (error);

  for (gsize i = 0; i < *n_outputs; i++)
    {
      if (!g_bytes_equal (rlx_tensor_get_bytes (outputs[i]), rlx_tensor_get_bytes (again[i])))
        {
          g_test_message ("%s: output %" G_GSIZE_FORMAT " has other bits in the second run", way->name, i);
          g_test_fail ();
        }
      g_object_unref (again[i]);
    }
  g_free (again);

  return outputs;
}

static void
check_output (const Way               *way,
              gsize                    index,
              const RlxReferenceValue *expected,
              RlxTensor               *got)
{
  RlxReferenceCheck check;

  if (!rlx_reference_value_check (expected, got, &check))
    {
      g_test_message ("%s: output %" G_GSIZE_FORMAT ", element %" G_GSIZE_FORMAT ": expected %.9g, got %.9g (bound %.3g); %" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT " are wrong",
                      way->name, index, check.first_wrong, check.expected, check.got, check.bound, check.n_wrong, expected->n_elements);
      g_test_fail ();
    }
  for (gsize i = 0; i < expected->n_elements; i++)
    {
      n_checked++;
      n_vague += expected->bounds[i] > 0.01 * (1 + fabs (expected->values[i]));
    }
}

static void
test_graph (gconstpointer data)
{
  guint number = GPOINTER_TO_UINT (data);
  g_autofree char *what = g_strdup_printf ("graph %u", number);
  g_autoptr (GRand) rand = g_rand_new_with_seed (prop_seed (what));
  g_autoptr (RlxGraph) graph = rlx_graph_new ();
  g_autoptr (GPtrArray) nodes = g_ptr_array_new ();
  g_autoptr (GPtrArray) feeds = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (GPtrArray) names = g_ptr_array_new_null_terminated (0, g_free, TRUE);
  g_autoptr (GPtrArray) parameters = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (GPtrArray) expected = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (GHashTable) used = g_hash_table_new (NULL, NULL);
  Maker self = {
    .rand = rand,
    .graph = graph,
    .nodes = nodes,
    .used = used,
    .feeds = feeds,
    .names = names,
    .parameters = parameters,
    .integers = number % 4 == 3,
  };
  RlxTensor **outputs[G_N_ELEMENTS (ways)];
  gsize n_outputs;

  if (rlx_test_device () == NULL)
    return;

  make_graph (&self);
  expected = rlx_reference_run (graph, (RlxTensor **) feeds->pdata, feeds->len, (const char *const *) names->pdata,
                                (RlxTensor **) parameters->pdata, names->len, RLX_REFERENCE_NONE, &error);
  g_assert_no_error (error);

  for (gsize i = 0; i < G_N_ELEMENTS (ways); i++)
    {
      outputs[i] = run_way (&self, &ways[i], &n_outputs);
      g_assert_cmpuint (n_outputs, ==, expected->len);

      for (gsize j = 0; j < n_outputs; j++)
        {
          check_output (&ways[i], j, g_ptr_array_index (expected, j), outputs[i][j]);
          if (ways[i].same_bits && !g_bytes_equal (rlx_tensor_get_bytes (outputs[0][j]), rlx_tensor_get_bytes (outputs[i][j])))
            {
              g_test_message ("%s: output %" G_GSIZE_FORMAT " has other bits than as usual", ways[i].name, j);
              g_test_fail ();
            }
        }
    }

  for (gsize i = 0; i < G_N_ELEMENTS (ways); i++)
    {
      for (gsize j = 0; j < n_outputs; j++)
        g_object_unref (outputs[i][j]);
      g_free (outputs[i]);
    }

  if (g_test_failed ())
    {
      g_autofree char *text = rlx_graph_to_text (graph);
      g_auto (GStrv) lines = g_strsplit (text, "\n", -1);

      for (gsize i = 0; lines[i] != NULL; i++)
        g_test_message ("%.200s", lines[i]);
    }
}

/* Bounds that say nothing would make the tests above say nothing. */
static void
test_bounds (void)
{
  if (rlx_test_device () == NULL || n_checked == 0)
    return;

  g_test_message ("%" G_GSIZE_FORMAT " dispatches; %" G_GSIZE_FORMAT " elements were checked, %" G_GSIZE_FORMAT " of them by a bound above 1%%",
                  n_dispatches, n_checked, n_vague);
  g_assert_cmpuint (n_vague, <, n_checked / 5);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  for (guint i = 0; i < N_GRAPHS; i++)
    {
      g_autofree char *path = g_strdup_printf ("/graphs/%02u", i);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_graph);
    }
  g_test_add_func ("/graphs/bounds", test_bounds);

  return g_test_run ();
}
