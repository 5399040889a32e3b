/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Calls of every operator, with every data type it takes, on random shapes and
 * values, and graphs of them.
 *
 * Compiling kernels is what takes time: all calls are made for the first type
 * only, and a quarter of them for each of the others. RLX_TEST_FULL=1 makes all.
 */
#pragma once

#include "ir/rlx-op-private.h"
#include "test-prop-common.h"

G_BEGIN_DECLS

#define MAX_OPERANDS 9

typedef struct
{
  const RlxOp *op;
  RlxDataType data_type;   /* of the operand that has a choice */
  GRand *rand;
  guint variant;           /* counts the calls of this graph */

  RlxTensor *inputs[MAX_OPERANDS];
  PropKind kinds[MAX_OPERANDS];
  gsize n_inputs;
  guint constants;         /* a bit for each operand that is part of the graph */
  GVariantDict *attributes;
} Call;

/* Fills in operands and attributes; FALSE when there are no more variants. */
typedef gboolean (*Generator) (Call *call);

/* ---- filling in calls ----------------------------------------------------------- */

static void
add_input (Call         *call,
           PropKind      kind,
           RlxDataType   data_type,
           const gint64 *shape,
           gsize         n_dims)
{
  g_assert_cmpuint (call->n_inputs, <, MAX_OPERANDS);
  call->kinds[call->n_inputs] = kind;
  call->inputs[call->n_inputs++] = prop_tensor (call->rand, kind, data_type, shape, n_dims);
}

static void
skip_input (Call *call)
{
  call->n_inputs++;
}

static void
set_ints (Call         *call,
          const char   *name,
          const gint64 *values,
          gsize         n_values)
{
  g_variant_dict_insert_value (call->attributes, name, rlx_test_ints (n_values, values));
}

/* Up to @most dimensions; few elements, and sometimes none. */
static gsize
random_shape (Call   *call,
              gint64 *shape,
              gsize   least,
              gsize   most)
{
  gsize n_dims = (gsize) prop_pick (call->rand, (gint64) least, (gint64) most);
  gint64 n = 1;

  for (gsize i = 0; i < n_dims; i++)
    {
      shape[i] = prop_size (call->rand, MAX (1, MIN (130, 3000 / n)));
      n *= shape[i];
    }
  if (n_dims > 0 && call->variant % 5 == 4)
    shape[prop_pick (call->rand, 0, (gint64) n_dims - 1)] = 0;

  return n_dims;
}

static gint64
random_axis (Call *call,
             gsize n_dims)
{
  return prop_pick (call->rand, -(gint64) n_dims, (gint64) n_dims - 1);
}

/* Some axes, all different, in any order and from either end. */
static gsize
random_axes (Call   *call,
             gsize   n_dims,
             gint64 *axes)
{
  gsize n = 0;

  for (gsize i = 0; i < n_dims; i++)
    {
      gsize at = (gsize) prop_pick (call->rand, 0, (gint64) n);

      if (prop_chance (call->rand, 0.4))
        continue;
      for (gsize j = n; j > at; j--)
        axes[j] = axes[j - 1];
      axes[at] = (gint64) i - (prop_chance (call->rand, 0.5) ? (gint64) n_dims : 0);
      n++;
    }

  return n;
}

/* A shape that broadcasts to @shape. */
static gsize
random_part (Call         *call,
             const gint64 *shape,
             gsize         n_dims,
             gint64       *part)
{
  gsize missing = prop_chance (call->rand, 0.4) ? (gsize) prop_pick (call->rand, 0, (gint64) n_dims) : 0;

  for (gsize i = missing; i < n_dims; i++)
    part[i - missing] = prop_chance (call->rand, 0.35) ? 1 : shape[i];

  return n_dims - missing;
}

/* ---- element-wise -------------------------------------------------------------------- */

static void
random_attributes (Call *call)
{
  double first = 0;

  for (guint i = 0; i < call->op->n_attrs; i++)
    {
      const RlxAttrDef *attr = &call->op->attrs[i];

      if (attr->kind == RLX_ATTR_BOOL)
        {
          g_variant_dict_insert (call->attributes, attr->name, "b", prop_chance (call->rand, 0.5));
        }
      else if (attr->kind == RLX_ATTR_FLOAT && prop_chance (call->rand, 0.7))
        {
          double value = prop_chance (call->rand, 0.2) ? 300 * (2 * g_rand_double (call->rand) - 1)
                                                       : 4 * g_rand_double (call->rand) - 2;

          /* Of two that are the ends of a range the larger comes second. */
          if (g_str_equal (attr->name, "maximum"))
            value = MAX (value, first);
          first = value;
          g_variant_dict_insert (call->attributes, attr->name, "d", value);
        }
      else if (attr->kind == RLX_ATTR_FLOAT)
        {
          first = rlx_attr_get_float (attr, call->op->defaults);
        }
      else if (attr->kind == RLX_ATTR_DATA_TYPE)
        {
          g_variant_dict_insert (call->attributes, attr->name, "s",
                                 rlx_data_type_to_string ((RlxDataType) prop_pick (call->rand, 0, RLX_DATA_TYPE_U4)));
        }
    }
}

static RlxDataType
get_operand_type (const Call *call,
                  guint       index)
{
  const RlxInputDef *def = &call->op->inputs[index];

  if (def->same_as >= 0)
    def = &call->op->inputs[def->same_as];

  return def->types >> call->data_type & 1 ? call->data_type : RLX_DATA_TYPE_BOOL;
}

static void
elementwise_inputs (Call         *call,
                    const gint64 *shape,
                    gsize         n_dims,
                    gboolean      broadcast)
{
  gsize whole = (gsize) prop_pick (call->rand, 0, call->op->n_inputs - 1);

  for (guint i = 0; i < call->op->n_inputs; i++)
    {
      gint64 part[RLX_MAX_DIMS];
      gsize n_part = n_dims;

      /* With two operands, each may have to be stretched. */
      if (broadcast && (i != whole || prop_chance (call->rand, 0.5)))
        n_part = random_part (call, shape, n_dims, part);
      else
        memcpy (part, shape, n_dims * sizeof (gint64));
      add_input (call, PROP_WILD, get_operand_type (call, i), part, n_part);
    }
}

static gboolean
generate_elementwise (Call *call)
{
  gint64 shape[RLX_MAX_DIMS] = { 0, };
  gsize n_dims = 1;

  switch (call->variant)
    {
    case 0:
      /* Several workgroups, and enough elements to meet every special value. */
      shape[0] = 700 + prop_size (call->rand, 65);
      elementwise_inputs (call, shape, 1, FALSE);
      break;

    case 1:
      n_dims = random_shape (call, shape, 2, 4);
      elementwise_inputs (call, shape, n_dims, TRUE);
      break;

    case 2:
      elementwise_inputs (call, shape, 0, FALSE);
      break;

    case 3:
      /* One operand is a number of the graph. */
      shape[0] = prop_size (call->rand, 257);
      for (guint i = 0; i < call->op->n_inputs; i++)
        {
          gboolean constant = i == call->op->n_inputs - 1;

          add_input (call, PROP_WILD, get_operand_type (call, i), shape, constant ? 0 : 1);
          call->constants |= constant ? 1u << i : 0;
        }
      if (call->op->n_inputs < 2)
        return FALSE;
      break;

    case 4:
      n_dims = random_shape (call, shape, 1, 5);
      elementwise_inputs (call, shape, n_dims, FALSE);
      break;

    default:
      return FALSE;
    }

  random_attributes (call);

  return TRUE;
}

/* Broadcasting is the same code for all operators: these do it at length. */
static gboolean
generate_broadcast (Call *call)
{
  gint64 shape[RLX_MAX_DIMS];
  gsize n_dims;

  if (call->variant < 5)
    return generate_elementwise (call);
  if (call->variant > 9)
    return FALSE;

  n_dims = random_shape (call, shape, call->variant == 8 ? 8 : 1, 8);
  elementwise_inputs (call, shape, n_dims, TRUE);
  random_attributes (call);

  return TRUE;
}

static gboolean
generate_cast (Call *call)
{
  gint64 shape[] = { 500 + prop_size (call->rand, 65) };

  if (call->variant > RLX_DATA_TYPE_U4)
    return FALSE;
  add_input (call, PROP_WILD, call->data_type, shape, 1);
  g_variant_dict_insert (call->attributes, "to", "s", rlx_data_type_to_string ((RlxDataType) call->variant));

  return TRUE;
}

/* ---- linear algebra --------------------------------------------------------------------- */

typedef struct
{
  gint64 m, k, n;
} Sizes;

/* The sizes that take different ways through the kernels, then anything. */
static Sizes
product_sizes (Call *call)
{
  static const Sizes edges[] = {
    { 1, 2000, 1 },    /* a long sum */
    { 3, 700, 2 },
    { 300, 5, 1 },     /* tall */
    { 1, 5, 300 },     /* wide */
    { 65, 33, 129 },
    { 7, 0, 5 },       /* a sum of nothing */
    { 0, 4, 3 },
    { 3, 4, 0 },
  };
  Sizes sizes;

  if (call->variant < G_N_ELEMENTS (edges))
    return edges[call->variant];

  sizes.m = prop_size (call->rand, 65);
  sizes.k = prop_size (call->rand, 65);
  sizes.n = prop_size (call->rand, 65);

  return sizes;
}

static gboolean
generate_matmul (Call *call)
{
  Sizes sizes = product_sizes (call);
  gboolean transpose_a = prop_chance (call->rand, 0.4), transpose_b = prop_chance (call->rand, 0.4);
  PropKind kind = call->variant == 9 ? PROP_SPOILT : PROP_TAME;
  gint64 stack[RLX_MAX_DIMS], a[RLX_MAX_DIMS], b[RLX_MAX_DIMS];
  gsize n_stack = 0, n_a = 0, n_b = 0;

  if (call->variant > 13)
    return FALSE;

  if (call->variant >= 10)
    {
      /* A stack on both sides, either of which may be stretched. */
      sizes = (Sizes) { prop_size (call->rand, 17), prop_size (call->rand, 9), prop_size (call->rand, 17) };
      n_stack = (gsize) prop_pick (call->rand, 1, 3);
      for (gsize i = 0; i < n_stack; i++)
        stack[i] = prop_pick (call->rand, call->variant == 13 ? 0 : 1, 4);
      n_a = random_part (call, stack, n_stack, a);
      n_b = random_part (call, stack, n_stack, b);
    }

  if (call->variant == 8)
    {
      /* Vectors: on one side or on both. */
      guint which = (guint) prop_pick (call->rand, 1, 3);

      transpose_a = transpose_a && !(which & 1);
      transpose_b = transpose_b && !(which & 2);
      if (which & 1)
        a[n_a++] = sizes.k;
      if (which & 2)
        b[n_b++] = sizes.k;
    }
  if (n_a == 0 || call->variant != 8)
    {
      a[n_a++] = transpose_a ? sizes.k : sizes.m;
      a[n_a++] = transpose_a ? sizes.m : sizes.k;
    }
  if (n_b == 0 || call->variant != 8)
    {
      b[n_b++] = transpose_b ? sizes.n : sizes.k;
      b[n_b++] = transpose_b ? sizes.k : sizes.n;
    }

  add_input (call, kind, call->data_type, a, n_a);
  add_input (call, kind, call->data_type, b, n_b);
  g_variant_dict_insert (call->attributes, "transpose_a", "b", transpose_a);
  g_variant_dict_insert (call->attributes, "transpose_b", "b", transpose_b);

  return TRUE;
}

static gboolean
generate_linear (Call *call)
{
  Sizes sizes = product_sizes (call);
  gboolean transpose_a = FALSE, transpose_b = prop_chance (call->rand, 0.5);
  gint64 a[RLX_MAX_DIMS], y[RLX_MAX_DIMS], bias[RLX_MAX_DIMS];
  gsize n_a = 0, n_bias;

  if (call->variant > 12)
    return FALSE;

  if (call->variant >= 10)
    {
      n_a = (gsize) prop_pick (call->rand, 0, 3);
      for (gsize i = 0; i < n_a; i++)
        a[i] = y[i] = prop_pick (call->rand, 1, 5);
    }
  else
    {
      transpose_a = prop_chance (call->rand, 0.3);
      a[n_a] = transpose_a ? sizes.k : sizes.m;
      y[n_a++] = sizes.m;
    }
  y[n_a] = sizes.n;
  a[n_a++] = transpose_a ? sizes.m : sizes.k;

  add_input (call, PROP_TAME, call->data_type, a, n_a);
  add_input (call, PROP_TAME, call->data_type,
             (gint64[]) { transpose_b ? sizes.n : sizes.k, transpose_b ? sizes.k : sizes.n }, 2);
  if (prop_chance (call->rand, 0.8))
    {
      n_bias = random_part (call, y, n_a, bias);
      add_input (call, PROP_TAME, call->data_type, bias, n_bias);
    }
  g_variant_dict_insert (call->attributes, "transpose_a", "b", transpose_a);
  g_variant_dict_insert (call->attributes, "transpose_b", "b", transpose_b);
  if (prop_chance (call->rand, 0.5))
    g_variant_dict_insert (call->attributes, "alpha", "d", 3 * g_rand_double (call->rand) - 1.5);
  if (prop_chance (call->rand, 0.5))
    g_variant_dict_insert (call->attributes, "beta", "d", 3 * g_rand_double (call->rand) - 1.5);

  return TRUE;
}

static gboolean
generate_qkv_linear (Call *call)
{
  Sizes sizes = product_sizes (call);
  gboolean transpose_b = prop_chance (call->rand, 0.5);
  gint64 n = MAX (sizes.n, 3) * (call->variant < 3 ? 9 : 1);
  gint64 query = prop_pick (call->rand, 1, n - 2), key = prop_pick (call->rand, 1, n - query - 1);
  gint64 x[RLX_MAX_DIMS];
  gsize n_x = 0;

  if (call->variant > 8)
    return FALSE;

  for (gint64 i = prop_pick (call->rand, 0, 2); i > 0; i--)
    x[n_x++] = prop_pick (call->rand, call->variant == 7 ? 0 : 1, 3);
  x[n_x++] = sizes.m;
  x[n_x++] = sizes.k;
  add_input (call, PROP_TAME, call->data_type, x, n_x);
  add_input (call, PROP_TAME, call->data_type, (gint64[]) { transpose_b ? n : sizes.k, transpose_b ? sizes.k : n }, 2);
  if (prop_chance (call->rand, 0.7))
    add_input (call, PROP_TAME, call->data_type, &n, 1);
  g_variant_dict_insert (call->attributes, "query_size", "x", query);
  g_variant_dict_insert (call->attributes, "key_size", "x", key);
  g_variant_dict_insert (call->attributes, "transpose_b", "b", transpose_b);

  return TRUE;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Shapes whose rows are long, few, or many. */
static gsize
rows_shape (Call   *call,
            gint64 *shape)
{
  static const gint64 edges[][3] = {
    { 3, 0, 0 },
    { 1, 1500, 0 },
    { 5, 600, 0 },
    { 513, 7, 0 },
    { 17, 33, 5 },
    { 4, 1, 129 },
  };

  if (call->variant < G_N_ELEMENTS (edges))
    {
      gsize n = 0;

      while (n < 3 && edges[call->variant][n] > 0)
        {
          shape[n] = edges[call->variant][n];
          n++;
        }
      return n;
    }

  return random_shape (call, shape, 1, 5);
}

static gboolean
generate_softmax (Call *call)
{
  gint64 shape[RLX_MAX_DIMS];
  gsize n_dims;

  if (call->variant > 10)
    return FALSE;

  n_dims = rows_shape (call, shape);
  add_input (call, call->variant == 7 ? PROP_SPOILT : PROP_TAME, call->data_type, shape, n_dims);
  g_variant_dict_insert (call->attributes, "axis", "x", random_axis (call, n_dims));

  return TRUE;
}

static gboolean
generate_norm (Call *call)
{
  gint64 shape[RLX_MAX_DIMS], axes[RLX_MAX_DIMS], factor[RLX_MAX_DIMS];
  gsize n_dims, n_axes = 1;

  if (call->variant > 9)
    return FALSE;

  n_dims = rows_shape (call, shape);
  axes[0] = -1;
  if (call->variant > 2)
    {
      n_axes = random_axes (call, n_dims, axes);
      set_ints (call, "axes", axes, n_axes);
    }
  for (gsize i = 0; i < n_axes; i++)
    factor[i] = shape[axes[i] < 0 ? axes[i] + (gint64) n_dims : axes[i]];

  add_input (call, call->variant == 7 ? PROP_SPOILT : PROP_TAME, call->data_type, shape, n_dims);
  for (guint i = 1; i < call->op->n_inputs; i++)
    {
      if (prop_chance (call->rand, 0.7))
        add_input (call, PROP_TAME, call->data_type, factor, n_axes);
      else
        skip_input (call);
    }
  if (prop_chance (call->rand, 0.5))
    g_variant_dict_insert (call->attributes, "epsilon", "d", pow (10, -8 * g_rand_double (call->rand)));

  return TRUE;
}

static gboolean
generate_reduce (Call *call)
{
  gint64 shape[RLX_MAX_DIMS], axes[RLX_MAX_DIMS];
  gsize n_dims, n_axes;
  gboolean product = g_str_equal (call->op->name, "reduce_prod") || g_str_equal (call->op->name, "reduce_log_sum");

  if (call->variant > 13)
    return FALSE;

  if (call->variant == 11)
    {
      /* So long that it takes two steps. */
      n_dims = 1;
      shape[0] = call->data_type == RLX_DATA_TYPE_F32 ? 70001 : 300;
    }
  else
    {
      n_dims = rows_shape (call, shape);
    }
  n_axes = random_axes (call, n_dims, axes);
  if (call->variant == 12 && n_axes > 0)
    shape[axes[0] < 0 ? axes[0] + (gint64) n_dims : axes[0]] = 0; /* a reduction of nothing */

  add_input (call, call->variant == 7 ? PROP_SPOILT : product ? PROP_POSITIVE : PROP_TAME, call->data_type, shape, n_dims);
  set_ints (call, "axes", axes, n_axes);
  g_variant_dict_insert (call->attributes, "keep_dims", "b", prop_chance (call->rand, 0.5));

  return TRUE;
}

/* ---- shapes and indices ------------------------------------------------------------------------ */

static gboolean
generate_reshape (Call *call)
{
  gint64 shape[RLX_MAX_DIMS], to[RLX_MAX_DIMS];
  gsize n_dims, n_to = 0;
  gint64 n;

  if (call->variant > 6)
    return FALSE;

  n_dims = random_shape (call, shape, 0, 5);
  n = (gint64) prop_count (shape, n_dims);
  add_input (call, PROP_TAME, call->data_type, shape, n_dims);

  /* Split off a divisor now and then. */
  while (n_to < 5 && n > 0 && prop_chance (call->rand, 0.7))
    {
      gint64 divisor = prop_pick (call->rand, 1, 4);

      if (n % divisor != 0)
        divisor = 1;
      to[n_to++] = divisor;
      n /= divisor;
    }
  to[n_to++] = n > 0 && prop_chance (call->rand, 0.5) ? -1 : n;
  set_ints (call, "shape", to, n_to);

  return TRUE;
}

static gboolean
generate_transpose (Call *call)
{
  gint64 shape[RLX_MAX_DIMS], permutation[RLX_MAX_DIMS];
  gsize n_dims;

  if (call->variant > 7)
    return FALSE;

  n_dims = random_shape (call, shape, 0, call->variant == 6 ? 8 : 4);
  add_input (call, PROP_TAME, call->data_type, shape, n_dims);
  for (gsize i = 0; i < n_dims; i++)
    {
      gsize j = (gsize) prop_pick (call->rand, 0, (gint64) i);

      permutation[i] = permutation[j];
      permutation[j] = (gint64) i - (prop_chance (call->rand, 0.3) ? (gint64) n_dims : 0);
    }
  set_ints (call, "permutation", permutation, call->variant == 0 ? 0 : n_dims);

  return TRUE;
}

static gboolean
generate_slice (Call *call)
{
  gint64 shape[RLX_MAX_DIMS], starts[RLX_MAX_DIMS], ends[RLX_MAX_DIMS], axes[RLX_MAX_DIMS], steps[RLX_MAX_DIMS];
  gsize n_dims, n_axes;

  if (call->variant > 9)
    return FALSE;

  n_dims = random_shape (call, shape, 1, 4);
  add_input (call, PROP_TAME, call->data_type, shape, n_dims);
  n_axes = random_axes (call, n_dims, axes);
  for (gsize i = 0; i < n_axes; i++)
    {
      gint64 size = shape[axes[i] < 0 ? axes[i] + (gint64) n_dims : axes[i]];

      /* Half of them from about the beginning to about the end. */
      steps[i] = prop_pick (call->rand, 1, 4) * (prop_chance (call->rand, 0.3) ? -1 : 1);
      starts[i] = prop_chance (call->rand, 0.5) ? prop_pick (call->rand, 0, 2) : prop_pick (call->rand, -size - 3, size + 3);
      ends[i] = prop_chance (call->rand, 0.5) ? size - prop_pick (call->rand, 0, 2) : prop_pick (call->rand, -size - 3, size + 3);
      if (steps[i] < 0 && prop_chance (call->rand, 0.7))
        {
          starts[i] = G_MAXINT64;
          ends[i] = prop_chance (call->rand, 0.5) ? G_MININT64 : 0;
        }
      /* The same shape, but not the same elements. */
      if (call->variant == 1)
        {
          starts[i] = -1;
          ends[i] = G_MININT64;
          steps[i] = -1;
        }
    }
  set_ints (call, "starts", starts, n_axes);
  set_ints (call, "ends", ends, n_axes);
  set_ints (call, "axes", axes, n_axes);
  if (call->variant == 1 || prop_chance (call->rand, 0.7))
    set_ints (call, "steps", steps, n_axes);

  return TRUE;
}

static gboolean
generate_concat (Call *call)
{
  gint64 shape[RLX_MAX_DIMS], axis;
  gsize n_dims, n;

  if (call->variant > 6)
    return FALSE;

  n_dims = random_shape (call, shape, 1, 4);
  n = (gsize) prop_pick (call->rand, 1, MAX_OPERANDS);
  axis = random_axis (call, n_dims);
  for (gsize i = 0; i < n; i++)
    {
      shape[axis < 0 ? axis + (gint64) n_dims : axis] = prop_pick (call->rand, 0, 9);
      add_input (call, PROP_TAME, call->data_type, shape, n_dims);
    }
  g_variant_dict_insert (call->attributes, "axis", "x", axis);

  return TRUE;
}

static gboolean
generate_expand (Call *call)
{
  gint64 shape[RLX_MAX_DIMS], part[RLX_MAX_DIMS];
  gsize n_dims, n_part;

  if (call->variant > 7)
    return FALSE;

  n_dims = random_shape (call, shape, 0, 5);
  n_part = random_part (call, shape, n_dims, part);
  add_input (call, PROP_TAME, call->data_type, part, n_part);
  set_ints (call, "shape", shape, n_dims);

  return TRUE;
}

static gboolean
generate_gather (Call *call)
{
  static const RlxDataType types[] = {
    RLX_DATA_TYPE_I32, RLX_DATA_TYPE_U32, RLX_DATA_TYPE_I8, RLX_DATA_TYPE_U8, RLX_DATA_TYPE_I64, RLX_DATA_TYPE_U64,
  };
  RlxDataType index_type = types[call->variant % G_N_ELEMENTS (types)];
  gint64 shape[RLX_MAX_DIMS], indices[RLX_MAX_DIMS], axis;
  gsize n_dims, n_indices = (gsize) prop_pick (call->rand, 0, 2);

  if (call->variant > 11)
    return FALSE;

  n_dims = random_shape (call, shape, 1, 4);
  axis = random_axis (call, n_dims);
  /* There is nothing to pick from an axis of size 0. */
  if (shape[axis < 0 ? axis + (gint64) n_dims : axis] == 0)
    shape[axis < 0 ? axis + (gint64) n_dims : axis] = 3;
  for (gsize i = 0; i < n_indices; i++)
    indices[i] = call->variant == 9 ? 0 : prop_size (call->rand, 17);

  add_input (call, PROP_TAME, call->data_type, shape, n_dims);
  /* Some are far outside. */
  add_input (call, PROP_WILD, index_type, indices, n_indices);
  g_variant_dict_insert (call->attributes, "axis", "x", axis);

  return TRUE;
}

#include "test-prop-contract.h"
#include "test-prop-index.h"

#include "test-prop-norms.h"

#include "test-prop-window.h"

#include "test-prop-complex.h"

#include "test-prop-recurrent.h"

#include "test-prop-attention.h"
#include "test-prop-solve.h"
#include "test-prop-sort.h"

#include "test-prop-quantize.h"

#include "test-prop-packed.h"

/* ---- the table -------------------------------------------------------------------------------------- */

static const struct
{
  const char *op;
  Generator generator;
} generators[] = {
  { "add", generate_broadcast },
  { "where", generate_broadcast },
  { "less", generate_broadcast },
  { "cast", generate_cast },
  { "matmul", generate_matmul },
  { "linear", generate_linear },
  { "qkv_linear", generate_qkv_linear },
  { "dot_general", generate_dot_general },
  { "einsum", generate_einsum },
  { "diagonal", generate_diagonal },
  { "grouped_matmul", generate_grouped_matmul },
  { "lora_matmul", generate_lora_matmul },
  { "cholesky", generate_matrices },
  { "triangular_solve", generate_system },
  { "solve", generate_system },
  { "inverse", generate_matrices },
  { "determinant", generate_matrices },
  { "attention", generate_attention },
  { "rope", generate_rope },
  { "rope_2d", generate_rope },
  { "conv", generate_conv },
  { "conv_transpose", generate_conv },
  { "im2col", generate_im2col },
  { "max_pool", generate_pool },
  { "arg_max_pool", generate_pool },
  { "average_pool", generate_pool },
  { "l2_pool", generate_pool },
  { "complex", generate_complex },
  { "real", generate_complex },
  { "imag", generate_complex },
  { "conj", generate_complex },
  { "complex_mul", generate_complex },
  { "abs_squared", generate_complex },
  { "lstm", generate_recurrent },
  { "gru", generate_recurrent },
  { "rnn", generate_recurrent },
  { "lstm_cell", generate_recurrent_cell },
  { "gru_cell", generate_recurrent_cell },
  { "rnn_cell", generate_recurrent_cell },
  { "softmax", generate_softmax },
  { "log_softmax", generate_softmax },
  { "layer_norm", generate_norm },
  { "rms_norm", generate_norm },
  { "batch_norm", generate_batch_norm },
  { "instance_norm", generate_image_norm },
  { "group_norm", generate_image_norm },
  { "layer_norm_2d", generate_image_norm },
  { "ada_layer_norm", generate_ada_norm },
  { "lp_norm", generate_lp_norm },
  { "residual_layer_norm", generate_residual_norm },
  { "residual_rms_norm", generate_residual_norm },
  { "reduce_sum", generate_reduce },
  { "reduce_mean", generate_reduce },
  { "reduce_max", generate_reduce },
  { "reduce_min", generate_reduce },
  { "reduce_prod", generate_reduce },
  { "reduce_l1", generate_reduce },
  { "reduce_l2", generate_reduce },
  { "reduce_sum_square", generate_reduce },
  { "reduce_log_sum", generate_reduce },
  { "reduce_log_sum_exp", generate_reduce },
  { "reduce_any", generate_reduce },
  { "reduce_all", generate_reduce },
  { "arg_max", generate_arg },
  { "arg_min", generate_arg },
  { "hardmax", generate_arg },
  { "sort", generate_sort },
  { "arg_sort", generate_sort },
  { "top_k", generate_sort },
  { "cumsum", generate_scan },
  { "cumprod", generate_scan },
  { "cummax", generate_scan },
  { "cummin", generate_scan },
  { "qconv2d", generate_qconv },
  { "qmatmul", generate_qmatmul },
  { "quantize_linear", generate_quantize },
  { "dequantize_linear", generate_dequantize },
  { "dynamic_quantize", generate_dynamic_quantize },
  { "fake_quantize", generate_fake_quantize },
  { "dequant_matmul", generate_dequant_matmul },
  { "dequantize_blocks", generate_packed },
  { "gather_packed", generate_packed },
  { "random_bits", generate_random },
  { "random_uniform", generate_random },
  { "random_normal", generate_random },
  { "dropout", generate_dropout },
  { "sample", generate_sample },
  { "reshape", generate_reshape },
  { "transpose", generate_transpose },
  { "slice", generate_slice },
  { "concat", generate_concat },
  { "expand", generate_expand },
  { "gather", generate_gather },
  { "split", generate_split },
  { "tile", generate_tile },
  { "pad", generate_pad },
  { "reverse", generate_reverse },
  { "roll", generate_reverse },
  { "squeeze", generate_squeeze },
  { "unsqueeze", generate_squeeze },
  { "triangular", generate_triangular },
  { "depth_to_space", generate_depth },
  { "space_to_depth", generate_depth },
  { "gather_elements", generate_elements },
  { "write_at", generate_write_at },
  { "gather_nd", generate_nd },
  { "one_hot", generate_one_hot },
  { "scatter_elements", generate_elements },
  { "scatter_nd", generate_nd },
  { "resize", generate_resize },
  { "grid_sample", generate_grid_sample },
};

static Generator
find_generator (const RlxOp *op)
{
  for (gsize i = 0; i < G_N_ELEMENTS (generators); i++)
    if (g_str_equal (generators[i].op, op->name))
      return generators[i].generator;

  return op->flags & RLX_OP_ELEMENTWISE ? generate_elementwise : NULL;
}

/* ---- graphs of calls ----------------------------------------------------------------------------------- */

typedef struct
{
  RlxGraph *graph;
  GPtrArray *feeds;    /* RlxTensor */
  GPtrArray *texts;    /* what each output is */
  GArray *kinds;       /* PropKind of each of the feeds; nullable */
  GArray *keep;        /* for each output, whether subnormal numbers stay what they are; nullable */
} Build;

/* What the op table says: "kept", or "kept by" words that are values of an attribute. */
static gboolean
keeps_subnormals (const RlxOp *op,
                  GVariant    *attributes)
{
  g_auto (GStrv) words = NULL;
  GVariantIter iter;
  const char *name;
  GVariant *value;
  gboolean kept = FALSE;

  if (op->subnormals == NULL || !g_str_has_prefix (op->subnormals, "kept by "))
    return g_strcmp0 (op->subnormals, "kept") == 0;

  words = g_strsplit_set (op->subnormals, ", ", -1);
  g_variant_iter_init (&iter, attributes);
  while (g_variant_iter_next (&iter, "{&sv}", &name, &value))
    {
      kept = kept || (g_variant_is_of_type (value, G_VARIANT_TYPE_STRING) &&
                      g_strv_contains ((const char *const *) words, g_variant_get_string (value, NULL)));
      g_variant_unref (value);
    }

  return kept;
}

static gboolean
add_call (Build *build,
          Call  *call)
{
  g_autofree char *output = g_strdup_printf ("y%u", call->variant);
  g_autoptr (GVariant) attributes = g_variant_ref_sink (g_variant_dict_end (call->attributes));
  g_autofree char *printed = g_variant_print (attributes, FALSE);
  g_autoptr (GError) error = NULL;
  g_autofree RlxNode **results = NULL;
  RlxNode *nodes[MAX_OPERANDS] = { NULL, };
  GString *text = g_string_new (call->op->name);
  gboolean keep;
  gsize n_results;

  for (gsize i = 0; i < call->n_inputs; i++)
    {
      g_autofree char *name = g_strdup_printf ("x%u_%" G_GSIZE_FORMAT, call->variant, i);
      g_autofree char *type = NULL;
      const gint64 *shape;
      gsize n_dims;

      if (call->inputs[i] == NULL)
        {
          g_string_append (text, " -");
          continue;
        }
      shape = rlx_tensor_get_shape (call->inputs[i], &n_dims);
      type = prop_type_text (rlx_tensor_get_data_type (call->inputs[i]), shape, n_dims);
      g_string_append_printf (text, " %s", type);
      if (call->constants >> i & 1)
        {
          nodes[i] = rlx_graph_constant (build->graph, call->inputs[i], &error);
        }
      else
        {
          nodes[i] = rlx_graph_input (build->graph, name, rlx_tensor_get_data_type (call->inputs[i]), shape, n_dims, &error);
          g_ptr_array_add (build->feeds, g_object_ref (call->inputs[i]));
          if (build->kinds != NULL)
            g_array_append_val (build->kinds, call->kinds[i]);
        }
      g_assert_no_error (error);
    }
  g_string_append_printf (text, " %s", printed);
  g_ptr_array_add (build->texts, g_string_free (text, FALSE));

  results = rlx_graph_add_op (build->graph, call->op->name, nodes, call->n_inputs, attributes, &n_results, &error);
  if (error != NULL)
    {
      g_test_message ("%s: %s", (char *) g_ptr_array_index (build->texts, build->texts->len - 1), error->message);
      g_test_fail ();
      return FALSE;
    }
  keep = keeps_subnormals (call->op, attributes);
  for (gsize i = 0; i < n_results && build->keep != NULL; i++)
    g_array_append_val (build->keep, keep);
  rlx_graph_output (build->graph, output, results[0], NULL);
  for (gsize i = 1; i < n_results; i++)
    {
      g_autofree char *name = g_strdup_printf ("%s_%" G_GSIZE_FORMAT, output, i);

      rlx_graph_output (build->graph, name, results[i], NULL);
      g_ptr_array_add (build->texts, g_strdup_printf ("%s, result %" G_GSIZE_FORMAT,
                                                      (char *) g_ptr_array_index (build->texts, build->texts->len - 1), i));
    }

  return TRUE;
}

/* The operand whose type is free: the first one, but for a condition. */
static guint
get_types (const RlxOp *op)
{
  for (guint i = 0; i < op->n_inputs; i++)
    if (op->inputs[i].types != RLX_TYPES_BOOL)
      return op->inputs[i].types;

  return RLX_TYPES_BOOL;
}

/* Whether a call is made: see above. The first one of a type always is. */
static gboolean
is_drawn (const RlxOp *op,
          RlxDataType  data_type,
          guint        variant)
{
  /* Its variants are the types it goes to. */
  if (g_str_equal (op->name, "cast") || g_getenv ("RLX_TEST_FULL") != NULL)
    return TRUE;

  if (variant == 0 || (get_types (op) & ((1u << data_type) - 1)) == 0)
    return TRUE;
  /* On the device these are 32 bits wide, as others are. */
  if (data_type == RLX_DATA_TYPE_I64 || data_type == RLX_DATA_TYPE_U64)
    return FALSE;

  return (variant + data_type) % 4 == 0;
}

/* Adds the calls of an operator with a data type to a graph. */
static G_GNUC_UNUSED void
add_calls (Build       *build,
           const RlxOp *op,
           Generator    generator,
           RlxDataType  data_type,
           GRand       *rand)
{
  gboolean more = TRUE;

  for (guint variant = 0; more; variant++)
    {
      g_autoptr (GVariantDict) attributes = g_variant_dict_new (NULL);
      Call call = { .op = op, .data_type = data_type, .rand = rand, .variant = variant, .attributes = attributes };

      more = generator (&call) && (!is_drawn (op, data_type, variant) || add_call (build, &call));
      for (gsize i = 0; i < call.n_inputs; i++)
        g_clear_object (&call.inputs[i]);
    }
}

G_END_DECLS
