/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Making them, node by node.
 */
#include "config.h"

#include "rlx-prop-maker.h"
#include "rlx-graph-private.h"

#define MAX_ELEMENTS 4000

void
maker_init (Maker  *self,
            guint32 seed)
{
  *self = (Maker) {
    .rand = g_rand_new_with_seed (seed),
    .graph = rlx_graph_new (),
    .pool = g_ptr_array_new (),
    .used = g_hash_table_new (NULL, NULL),
    .values = g_hash_table_new_full (NULL, NULL, NULL, rlx_reference_value_free),
    .feeds = { g_ptr_array_new_with_free_func (g_object_unref), g_ptr_array_new_with_free_func (g_object_unref) },
    .names = g_ptr_array_new_null_terminated (0, g_free, TRUE),
    .parameters = g_ptr_array_new_with_free_func (g_object_unref),
    .states = g_ptr_array_new (),
    .assigned = g_hash_table_new (NULL, NULL),
  };
}

void
maker_clear (Maker *self)
{
  g_rand_free (self->rand);
  g_object_unref (self->graph);
  g_ptr_array_unref (self->pool);
  g_hash_table_unref (self->used);
  g_hash_table_unref (self->values);
  g_ptr_array_unref (self->feeds[0]);
  g_ptr_array_unref (self->feeds[1]);
  g_ptr_array_unref (self->names);
  g_ptr_array_unref (self->parameters);
  g_ptr_array_unref (self->states);
  g_hash_table_unref (self->assigned);
}

/* ---- nodes and their values ---------------------------------------------------- */

static const RlxReferenceValue *
get_value (Maker   *self,
           RlxNode *node)
{
  return g_hash_table_lookup (self->values, node);
}

static gboolean
is_of_floats (RlxDataType data_type)
{
  return data_type == RLX_DATA_TYPE_F32 || data_type == RLX_DATA_TYPE_F16;
}

/* Two or more of these share a byte, which only some operators support. */
static gboolean
is_small (RlxDataType data_type)
{
  return data_type == RLX_DATA_TYPE_I4 || data_type == RLX_DATA_TYPE_U4;
}

/* The value of an operator node, computed from those in @values. */
RlxReferenceValue *
compute_value (Maker      *self,
               GHashTable *values,
               RlxNode    *node)
{
  g_autoptr (GError) error = NULL;
  gsize n_inputs;
  RlxNode **inputs = rlx_node_get_inputs (node, &n_inputs);
  g_autofree const RlxReferenceValue **operands = g_new0 (const RlxReferenceValue *, n_inputs + 1);
  RlxReferenceValue *value;

  for (gsize i = 0; i < n_inputs; i++)
    operands[i] = inputs[i] != NULL ? g_hash_table_lookup (values, inputs[i]) : NULL;
  value = rlx_reference_value_new_result (node, operands, self->flags, &error);
  g_assert_no_error (error);

  return value;
}

/* Adds a node and its value. All its results can be used as operands. */
static RlxNode *
add_node (Maker      *self,
          const char *op,
          gsize       n_inputs,
          RlxNode   **inputs,
          GVariant   *attributes)
{
  g_autoptr (GVariant) owned = attributes != NULL ? g_variant_ref_sink (attributes) : NULL;
  g_autoptr (GError) error = NULL;
  g_autofree RlxNode **results = NULL;
  gsize n_results;

  results = rlx_graph_add_op (self->graph, op, inputs, n_inputs, owned, &n_results, &error);
  g_assert_no_error (error);
  for (gsize i = 0; i < n_results; i++)
    {
      RlxReferenceValue *value = compute_value (self, self->values, results[i]);

      g_hash_table_insert (self->values, results[i], value);
      if (value->n_elements <= MAX_ELEMENTS)
        g_ptr_array_add (self->pool, results[i]);
    }
  for (gsize i = 0; i < n_inputs; i++)
    if (inputs[i] != NULL)
      g_hash_table_add (self->used, inputs[i]);

  return results[0];
}

static RlxNode *
add_view (Maker      *self,
          const char *op,
          RlxNode    *node,
          GVariant   *attributes)
{
  return add_node (self, op, 1, &node, attributes);
}

/* ---- leaves ------------------------------------------------------------------------ */

/* The same elements in reverse order: as valid as the original, also where a matrix must
 * be positive definite or an index in range. */
static RlxTensor *
reverse_tensor (RlxTensor *tensor)
{
  gsize n, n_dims;
  const gint64 *shape = rlx_tensor_get_shape (tensor, &n_dims);
  g_autofree char *type = prop_type_text (rlx_tensor_get_data_type (tensor), shape, n_dims);
  g_autofree double *values = rlx_reference_decode (tensor, &n);

  for (gsize i = 0; i < n / 2; i++)
    {
      double value = values[i];

      values[i] = values[n - 1 - i];
      values[n - 1 - i] = value;
    }

  return rlx_test_tensor (type, values);
}

typedef enum
{
  LEAF_ANY,
  LEAF_FIXED,      /* with the same elements in all runs */
  LEAF_CONSTANT,
} LeafKind;

static RlxNode *
add_leaf (Maker     *self,
          RlxTensor *tensor,
          LeafKind   kind)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *name = g_strdup_printf ("leaf%u", self->n_leaves++);
  RlxDataType data_type = rlx_tensor_get_data_type (tensor);
  double choice = kind == LEAF_CONSTANT ? 1 : g_rand_double (self->rand);
  gsize n_dims;
  const gint64 *shape = rlx_tensor_get_shape (tensor, &n_dims);
  RlxNode *node;

  if (choice < 0.5)
    {
      node = rlx_graph_input (self->graph, name, data_type, shape, n_dims, &error);
      g_ptr_array_add (self->feeds[0], g_object_ref (tensor));
      g_ptr_array_add (self->feeds[1], kind == LEAF_FIXED ? g_object_ref (tensor) : reverse_tensor (tensor));
    }
  else if (choice < 0.65)
    {
      node = rlx_graph_parameter (self->graph, name, data_type, shape, n_dims, &error);
      g_ptr_array_add (self->parameters, g_object_ref (tensor));
      g_ptr_array_add (self->names, g_steal_pointer (&name));
    }
  else if (choice < 0.8 && kind == LEAF_ANY && self->states->len < 3)
    {
      node = rlx_graph_state (self->graph, name, tensor, &error);
      g_ptr_array_add (self->states, node);
    }
  else
    {
      node = rlx_graph_constant (self->graph, tensor, &error);
    }
  g_assert_no_error (error);
  g_hash_table_insert (self->values, node, rlx_reference_value_new_leaf (node, tensor, &error));
  g_assert_no_error (error);
  if (kind != LEAF_CONSTANT)
    g_ptr_array_add (self->pool, node);

  return node;
}

static GVariant *
ints_attribute (const char   *name,
                gsize         n,
                const gint64 *values)
{
  return g_variant_new_parsed ("{%s: <%@ax>}", name, rlx_test_ints (n, values));
}

/* A leaf itself, or a view with the same elements of another one. */
static RlxNode *
add_operand (Maker     *self,
             RlxTensor *tensor,
             LeafKind   kind)
{
  gsize n, n_dims, n_more, row;
  const gint64 *shape = rlx_tensor_get_shape (tensor, &n_dims);
  gint64 dims[RLX_MAX_DIMS];
  g_autofree double *values = NULL, *other = NULL;
  g_autofree char *type = NULL;
  g_autoptr (RlxTensor) leaf = NULL;
  guint way = (guint) prop_pick (self->rand, 0, 9);

  if (kind == LEAF_CONSTANT || n_dims == 0 || way > 2 || is_small (rlx_tensor_get_data_type (tensor)))
    return add_leaf (self, tensor, kind);

  values = rlx_reference_decode (tensor, &n);
  if (way == 0)
    {
      type = prop_type_text (rlx_tensor_get_data_type (tensor), (gint64[]) { (gint64) n }, 1);
      leaf = rlx_test_tensor (type, values);
      return add_view (self, "reshape", add_leaf (self, leaf, kind), ints_attribute ("shape", n_dims, shape));
    }

  row = prop_count (shape + 1, n_dims - 1);
  other = g_new0 (double, n + row + 1);
  if (way == 1)
    {
      /* Transposes all axes. */
      gint64 index[RLX_MAX_DIMS] = { 0, };

      for (gsize i = 0; i < n_dims; i++)
        dims[i] = shape[n_dims - 1 - i];
      for (gsize i = 0; i < n; i++)
        {
          gsize at = 0;

          for (gsize j = n_dims; j-- > 0;)
            at = at * (gsize) shape[j] + (gsize) index[j];
          other[at] = values[i];
          for (gsize j = n_dims; j-- > 0 && ++index[j] == shape[j];)
            index[j] = 0;
        }
      type = prop_type_text (rlx_tensor_get_data_type (tensor), dims, n_dims);
      leaf = rlx_test_tensor (type, other);
      return add_view (self, "transpose", add_leaf (self, leaf, kind), ints_attribute ("permutation", 0, NULL));
    }

  /* An additional row, before or after the others. */
  n_more = prop_chance (self->rand, 0.5) ? 1 : 0;
  memcpy (dims, shape, n_dims * sizeof (gint64));
  dims[0]++;
  memcpy (other + n_more * row, values, n * sizeof (double));
  memcpy (other + (n_more > 0 ? 0 : n), values, MIN (row, n) * sizeof (double));
  type = prop_type_text (rlx_tensor_get_data_type (tensor), dims, n_dims);
  leaf = rlx_test_tensor (type, other);
  return add_view (self, "slice", add_leaf (self, leaf, kind),
                   g_variant_new_parsed ("{'starts': <[%x]>, 'ends': <[%x]>}", (gint64) n_more, (gint64) n_more + shape[0]));
}

/* ---- using existing nodes --------------------------------------------------------------- */

/* Whether the value is accurate enough to be an operand. Only if *@tame is set, floats
 * may be large. */
static gboolean
is_fit (const RlxReferenceValue *value,
        gboolean                *tame)
{
  gsize n_bad = 0;

  *tame = TRUE;
  for (gsize i = 0; i < value->n_elements; i++)
    {
      if (!is_of_floats (value->data_type))
        {
          if (value->bounds[i] > 0)
            return FALSE;
          continue;
        }
      if (!isfinite (value->values[i]) || !(value->bounds[i] <= 0.003 * (0.1 + fabs (value->values[i]))))
        n_bad++;
      else if (fabs (value->values[i]) > 20)
        *tame = FALSE;
    }

  return n_bad * 20 <= value->n_elements;
}

static gsize
count (Maker   *self,
       RlxNode *node)
{
  return get_value (self, node)->n_elements;
}

/* Prefers recent nodes, unused ones and ones with several elements, so that graphs grow
 * deep. NULL if none is found. */
static RlxNode *
pick_node (Maker *self,
           int    data_type)
{
  RlxNode *found = NULL;

  for (guint i = 0; i < 16 && self->pool->len > 0; i++)
    {
      gint64 last = (gint64) self->pool->len - 1;
      RlxNode *node = g_ptr_array_index (self->pool, prop_pick (self->rand, prop_chance (self->rand, 0.5) ? MAX (last - 5, 0) : 0, last));
      gboolean tame;

      if ((data_type >= 0 && (int) rlx_node_get_data_type (node) != data_type) || !is_fit (get_value (self, node), &tame))
        continue;
      found = node;
      if (!g_hash_table_contains (self->used, node) && count (self, node) > 3)
        break;
    }

  return found;
}

/* @node itself, or a bounded function of it, with elements within ±20. */
static RlxNode *
make_tame (Maker   *self,
           RlxNode *node)
{
  static const char *const ops[] = { "tanh", "softsign", "atan", "erf" };
  gboolean tame;

  is_fit (get_value (self, node), &tame);
  if (tame)
    return node;

  return add_view (self, ops[prop_pick (self->rand, 0, G_N_ELEMENTS (ops) - 1)], node, NULL);
}

static RlxNode *
reshape (Maker        *self,
         RlxNode      *node,
         const gint64 *shape,
         gsize         n_dims)
{
  gsize n;
  const gint64 *old = rlx_node_get_shape (node, &n);

  if (n == n_dims && memcmp (old, shape, n * sizeof (gint64)) == 0)
    return node;

  return add_view (self, "reshape", node, ints_attribute ("shape", n_dims, shape));
}

/* A permutation of some axes of @shape, and its inverse. */
static void
shuffle (Maker        *self,
         const gint64 *shape,
         gsize         n_dims,
         gint64       *moved,
         gint64       *back)
{
  gint64 order[RLX_MAX_DIMS];

  for (gsize i = 0; i < n_dims; i++)
    {
      gsize j = (gsize) prop_pick (self->rand, 0, (gint64) i);

      order[i] = order[j];
      order[j] = (gint64) i;
    }
  for (gsize i = 0; i < n_dims; i++)
    {
      moved[i] = shape[order[i]];
      back[order[i]] = (gint64) i;
    }
}

static gboolean
can_expand (const gint64 *shape,
            gsize         n_dims,
            const gint64 *to,
            gsize         n_to)
{
  if (n_dims > n_to)
    return FALSE;
  for (gsize i = 0; i < n_dims; i++)
    if (shape[i] != 1 && shape[i] != to[n_to - n_dims + i])
      return FALSE;

  return TRUE;
}

/* Elements of @node in another shape; NULL if it has none. */
static RlxNode *
fit_shape (Maker        *self,
           RlxNode      *node,
           const gint64 *shape,
           gsize         n_dims)
{
  gsize n_old;
  const gint64 *old = rlx_node_get_shape (node, &n_old);
  gint64 m = (gint64) count (self, node), n = (gint64) prop_count (shape, n_dims);
  gint64 moved[RLX_MAX_DIMS], back[RLX_MAX_DIMS];

  if (n_old == n_dims && memcmp (old, shape, n_dims * sizeof (gint64)) == 0)
    return node;
  if (is_small (rlx_node_get_data_type (node)))
    return NULL;
  if (can_expand (old, n_old, shape, n_dims))
    return add_view (self, "expand", node, ints_attribute ("shape", n_dims, shape));
  if (m == 0 && n > 0)
    return NULL;

  if (m != n)
    node = reshape (self, node, &m, 1);
  if (m < n)
    {
      node = add_view (self, "tile", node, ints_attribute ("repetitions", 1, (gint64[]) { (n + m - 1) / m }));
      m *= (n + m - 1) / m;
    }
  if (m > n)
    {
      gint64 step = prop_pick (self->rand, 1, n > 0 ? MIN (m / n, 3) : 1);
      gint64 first = prop_pick (self->rand, 0, m - (n > 0 ? (n - 1) * step + 1 : 0)), end = first + n * step;

      if (n > 0 && prop_chance (self->rand, 0.3))
        node = add_view (self, "slice", node,
                         g_variant_new_parsed ("{'starts': <[%x]>, 'ends': <[%x]>, 'steps': <[%x]>}", end - step,
                                               first == 0 ? G_MININT64 : first - 1, -step));
      else
        node = add_view (self, "slice", node,
                         g_variant_new_parsed ("{'starts': <[%x]>, 'ends': <[%x]>, 'steps': <[%x]>}", first, MIN (end, m), step));
    }

  if (n_dims < 2 || prop_chance (self->rand, 0.6))
    return reshape (self, node, shape, n_dims);
  shuffle (self, shape, n_dims, moved, back);
  return add_view (self, "transpose", reshape (self, node, moved, n_dims), ints_attribute ("permutation", n_dims, back));
}

/* A computed value of this type and shape; NULL if there is nothing to make it from. */
static RlxNode *
take_node (Maker        *self,
           RlxDataType   data_type,
           const gint64 *shape,
           gsize         n_dims)
{
  RlxNode *node = pick_node (self, (int) data_type);

  /* One of the right shape is best: nothing has to come between the two then. */
  for (guint i = 0; i < 8 && node != NULL; i++)
    {
      RlxNode *other = pick_node (self, (int) data_type);
      gsize n;
      const gint64 *dims = other != NULL ? rlx_node_get_shape (other, &n) : NULL;

      if (other != NULL && n == n_dims && memcmp (dims, shape, n * sizeof (gint64)) == 0)
        {
          node = other;
          break;
        }
    }
  if (node == NULL && prop_chance (self->rand, 0.5))
    {
      gboolean tame;

      node = pick_node (self, -1);
      if (node != NULL)
        node = add_view (self, "cast", node, g_variant_new_parsed ("{'to': <%s>}", rlx_data_type_to_string (data_type)));
      if (node != NULL && !is_fit (get_value (self, node), &tame))
        node = NULL;
    }
  if (node == NULL)
    return NULL;

  return fit_shape (self, is_of_floats (data_type) ? make_tame (self, node) : node, shape, n_dims);
}

/* ---- calls of any operator ------------------------------------------------------------------ */

/* Operands with carefully chosen values: others would lead to unpredictable results, or
 * to sums of bytes that are not numbers. A bit for each. */
static guint
get_chosen (const Call *call)
{
  static const struct
  {
    const char *op;
    guint operands;
  } chosen[] = {
    { "cholesky", 1 }, { "triangular_solve", 1 }, { "solve", 1 }, { "inverse", 1 }, { "determinant", 1 },
    { "resize", 2 | 4 }, { "grid_sample", 2 },
    { "dequant_matmul", ~1u }, { "dequantize_blocks", ~0u }, { "gather_packed", ~0u },
    { "quantize_linear", 2 }, { "dequantize_linear", 2 }, { "fake_quantize", 2 },
    { "qmatmul", 4 | 8 | 32 | 64 | 128 }, { "qconv2d", 4 | 8 | 32 | 64 | 128 },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (chosen); i++)
    if (g_str_equal (chosen[i].op, call->op->name))
      return chosen[i].operands;

  return 0;
}

/* Fills in a small call; FALSE if none was found. */
static gboolean
draw_call (Maker *self,
           Call  *call)
{
  Generator generator = find_generator (call->op);

  for (guint i = 0; generator != NULL && i < 12; i++)
    {
      gsize n = 0;
      gboolean done;

      call->variant = (guint) prop_pick (self->rand, 0, i < 6 ? 20 : 7);
      call->attributes = g_variant_dict_new (NULL);
      done = generator (call);
      for (gsize j = 0; j < call->n_inputs; j++)
        n += call->inputs[j] != NULL ? (gsize) rlx_tensor_get_n_elements (call->inputs[j]) : 0;
      if (done && n <= 2 * MAX_ELEMENTS)
        return TRUE;

      for (gsize j = 0; j < call->n_inputs; j++)
        g_clear_object (&call->inputs[j]);
      call->n_inputs = 0;
      call->constants = 0;
      g_clear_pointer (&call->attributes, g_variant_dict_unref);
    }

  return FALSE;
}

static RlxDataType
pick_type (Maker *self,
           guint  types)
{
  RlxDataType data_type;

  if (types & RLX_TYPES_F32 && prop_chance (self->rand, 0.35))
    return RLX_DATA_TYPE_F32;
  if (types & RLX_TYPES_F16 && prop_chance (self->rand, 0.35))
    return RLX_DATA_TYPE_F16;
  do
    data_type = (RlxDataType) prop_pick (self->rand, 0, RLX_DATA_TYPE_U4);
  while (!(types >> data_type & 1));

  return data_type;
}

/* A call of an operator as in the property test, with operands from the graph where possible. */
static void
make_call (Maker       *self,
           const RlxOp *op)
{
  Call call = { .op = op, .data_type = pick_type (self, get_types (op)), .rand = self->rand };
  RlxNode *nodes[MAX_OPERANDS] = { NULL, };
  g_autoptr (GVariant) attributes = NULL;
  guint chosen;

  if (!draw_call (self, &call))
    return;
  attributes = g_variant_ref_sink (g_variant_dict_end (call.attributes));
  g_variant_dict_unref (call.attributes);
  chosen = get_chosen (&call);

  for (gsize i = 0; i < call.n_inputs; i++)
    {
      gsize n_dims;
      const gint64 *shape;

      if (call.inputs[i] == NULL)
        continue;
      shape = rlx_tensor_get_shape (call.inputs[i], &n_dims);
      if (!(chosen >> i & 1) && !(call.constants >> i & 1) && prop_chance (self->rand, i == 0 ? 0.9 : 0.6))
        nodes[i] = take_node (self, rlx_tensor_get_data_type (call.inputs[i]), shape, n_dims);
      if (nodes[i] == NULL)
        nodes[i] = add_operand (self, call.inputs[i],
                                call.constants >> i & 1 ? LEAF_CONSTANT : chosen == ~0u || chosen == ~1u ? LEAF_FIXED : LEAF_ANY);
      /* A constant index is rejected if it is out of range. */
      if (i > 0 && g_str_equal (rlx_node_get_op (nodes[i]), "constant") && !is_of_floats (rlx_node_get_data_type (nodes[i])) &&
          !(call.constants >> i & 1))
        nodes[i] = add_view (self, "identity", nodes[i], NULL);
    }
  add_node (self, op->name, call.n_inputs, nodes, attributes);
  /* A duplicate may be computed only once. */
  if (prop_chance (self->rand, 0.05))
    add_node (self, op->name, call.n_inputs, nodes, attributes);

  for (gsize i = 0; i < call.n_inputs; i++)
    g_clear_object (&call.inputs[i]);
}

/* ---- chains of element-wise operators ------------------------------------------------------------ */

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

/* An operand that is compatible with @node: an existing node, or a new leaf. */
static RlxNode *
take_partner (Maker      *self,
              Call       *call,
              RlxNode    *node,
              RlxDataType data_type)
{
  gsize n_dims, n_part;
  const gint64 *shape = rlx_node_get_shape (node, &n_dims);
  gint64 part[RLX_MAX_DIMS];
  g_autoptr (RlxTensor) tensor = NULL;

  for (guint i = 0; i < 6; i++)
    {
      RlxNode *other = pick_node (self, (int) data_type);

      if (other != NULL && broadcasts (node, other))
        return other;
    }

  n_part = random_part (call, shape, n_dims, part);
  tensor = prop_tensor (self->rand, is_of_floats (data_type) ? PROP_TAME : PROP_WILD, data_type, part, n_part);
  return add_operand (self, tensor, LEAF_ANY);
}

/* An element-wise operator on existing nodes: it may be fused with the kernel of its operands. */
static void
make_chain (Maker       *self,
            const RlxOp *op)
{
  RlxNode *node = pick_node (self, -1), *nodes[MAX_OPERANDS];
  Call call = { .op = op, .rand = self->rand };
  guint whole = (guint) prop_pick (self->rand, 0, op->n_inputs - 1);

  if (node == NULL || !(get_types (op) >> rlx_node_get_data_type (node) & 1))
    return;
  call.data_type = rlx_node_get_data_type (node);
  call.attributes = g_variant_dict_new (NULL);
  if (get_operand_type (&call, whole) != call.data_type)
    whole = op->n_inputs - 1;
  for (guint i = 0; i < op->n_inputs; i++)
    nodes[i] = i == whole ? node : take_partner (self, &call, node, get_operand_type (&call, i));

  /* The partners of a node may be incompatible with each other. */
  for (guint i = 0; i < op->n_inputs; i++)
    for (guint j = 0; j < i; j++)
      if (!broadcasts (nodes[i], nodes[j]))
        nodes[i] = node;
  for (guint i = 0; i < op->n_inputs; i++)
    if (rlx_node_get_data_type (nodes[i]) != get_operand_type (&call, i))
      {
        g_variant_dict_unref (call.attributes);
        return;
      }

  random_attributes (&call);
  add_node (self, op->name, op->n_inputs, nodes, g_variant_dict_end (call.attributes));
  g_variant_dict_unref (call.attributes);
}

/* ---- a graph ------------------------------------------------------------------------------ */

/* The state with some rows replaced. */
static RlxNode *
write_rows (Maker   *self,
            RlxNode *state)
{
  gsize n_dims;
  const gint64 *shape = rlx_node_get_shape (state, &n_dims);
  gint64 part[RLX_MAX_DIMS];
  RlxNode *rows, *position;
  g_autoptr (RlxTensor) tensor = NULL;

  memcpy (part, shape, n_dims * sizeof (gint64));
  part[0] = prop_pick (self->rand, 0, MIN (part[0], 3));
  rows = take_node (self, rlx_node_get_data_type (state), part, n_dims);
  if (rows == NULL)
    {
      g_autoptr (RlxTensor) fresh = prop_tensor (self->rand, PROP_TAME, rlx_node_get_data_type (state), part, n_dims);

      rows = add_leaf (self, fresh, LEAF_ANY);
    }
  tensor = prop_tensor (self->rand, PROP_TAME, RLX_DATA_TYPE_I32, NULL, 0);
  position = prop_chance (self->rand, 0.3) ? take_node (self, RLX_DATA_TYPE_I32, NULL, 0) : NULL;
  if (position == NULL)
    position = add_leaf (self, tensor, LEAF_FIXED);

  return add_node (self, "write_at", 3, (RlxNode *[]) { state, rows, position }, NULL);
}

static void
assign_states (Maker *self)
{
  /* More may be added during the loop. */
  for (guint i = 0; i < self->states->len; i++)
    {
      RlxNode *state = g_ptr_array_index (self->states, i), *value = NULL;
      gsize n_dims;
      const gint64 *shape = rlx_node_get_shape (state, &n_dims);
      double choice = g_rand_double (self->rand);
      g_autoptr (GError) error = NULL;

      if (choice < 0.15)
        continue;
      if (choice < 0.5 && n_dims > 0 && !is_small (rlx_node_get_data_type (state)))
        value = write_rows (self, state);
      else
        value = take_node (self, rlx_node_get_data_type (state), shape, n_dims);
      if (value == NULL)
        continue;
      rlx_graph_assign (self->graph, state, value, &error);
      g_assert_no_error (error);
      g_hash_table_insert (self->assigned, state, value);
      g_hash_table_add (self->used, value);
    }
}

/* Most unused nodes become outputs; also some of the others, even inputs, and some twice. */
static void
add_outputs (Maker *self)
{
  guint n_outputs = 0;

  for (guint i = self->pool->len; i-- > 0;)
    {
      RlxNode *node = g_ptr_array_index (self->pool, i);
      gboolean loose = !g_hash_table_contains (self->used, node);

      for (guint j = 0; j < 2 && n_outputs < MAX_OUTPUTS; j++)
        if ((j == 0 && n_outputs == 0) || prop_chance (self->rand, loose && j == 0 ? 0.85 : 0.05))
          {
            g_autofree char *name = g_strdup_printf ("output%u", n_outputs++);

            rlx_graph_output (self->graph, name, node, NULL);
          }
    }
}

static const RlxOp *
pick_op (Maker *self,
         guint  flags)
{
  const RlxOp *op;

  do
    op = rlx_op_table[prop_pick (self->rand, 0, (gint64) rlx_n_ops - 1)];
  while (op->flags & (RLX_OP_LEAF | RLX_OP_INTERNAL) || (flags != 0 && !(op->flags & flags)));

  return op;
}

void
make_graph (Maker *self)
{
  guint n_calls = (guint) (prop_pick (self->rand, 1, 3) + prop_pick (self->rand, 0, 3));

  if (prop_chance (self->rand, 0.1))
    {
      rlx_graph_set_default_precision (self->graph, RLX_PRECISION_REDUCED);
      self->flags = RLX_REFERENCE_NARROW;
    }
  for (guint i = 0; i < n_calls; i++)
    {
      make_call (self, pick_op (self, 0));
      for (guint j = (guint) prop_pick (self->rand, 0, 3); j > 0; j--)
        make_chain (self, pick_op (self, RLX_OP_ELEMENTWISE));
    }
  /* Maybe no call was small enough. */
  if (self->pool->len == 0)
    {
      g_autoptr (RlxTensor) tensor = prop_tensor (self->rand, PROP_TAME, RLX_DATA_TYPE_F32, (gint64[]) { 3 }, 1);

      add_view (self, "relu", add_leaf (self, tensor, LEAF_ANY), NULL);
    }
  assign_states (self);
  add_outputs (self);
}
