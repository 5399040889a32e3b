/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Values whose size depends on data.
 *
 * A graph has fixed sizes. So such a value is as large as it could become, and comes with
 * its count: how many of its elements along an axis are meant. What lies behind them is
 * padding. Operators that treat each element along that axis by itself pass the count on,
 * and an output of the model that has one is accompanied by it. Other operators are
 * refused.
 */
#include "config.h"

#include "import/rlx-import-private.h"

#include <math.h>
#include <string.h>

/* ---- where they come from ----------------------------------------------------------------- */

/* lower, lower + 1, …, along axis @axis of @n_dims. */
static RlxNode *
add_range (RlxMapCall *call,
           gint64      n,
           gsize       axis,
           gsize       n_dims,
           GError    **error)
{
  g_autofree gint64 *values = g_new (gint64, (gsize) n + 1);
  g_autoptr(RlxTensor) tensor = NULL;
  gint64 shape[RLX_MAX_DIMS];

  for (gint64 i = 0; i < n; i++)
    values[i] = i;
  for (gsize i = 0; i < n_dims; i++)
    shape[i] = i == axis ? n : 1;
  tensor = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I32, shape, n_dims, values, (gsize) n, error);
  return tensor != NULL ? rlx_map_constant (call, tensor, error) : NULL;
}

static RlxNode *
add_number (RlxMapCall *call,
            gint64      number,
            GError    **error)
{
  return rlx_map_has_failed (error) ? NULL : rlx_graph_scalar (call->graph, RLX_DATA_TYPE_I32, (double) number, error);
}

/* The indices of flags that are set, as many as there are flags: @count valid ones, padded with zeros. */
static RlxNode *
find_set (RlxMapCall *call,
          RlxNode    *flags,
          RlxNode   **count,
          GError    **error)
{
  gint64 n = rlx_node_get_shape (flags, NULL)[0], n_places = n + 1;
  g_autoptr(GVariant) axis = g_variant_ref_sink (rlx_map_attrs ("axis", g_variant_new_int64 (0), NULL));
  g_autoptr(RlxTensor) zeros = NULL;
  g_autofree guint8 *bytes = NULL;
  g_autoptr(GBytes) data = NULL;
  RlxNode *ones, *sums, *inputs[3];

  /* The graph gets constants of as many elements. */
  if (n > RLX_IMPORT_MAX_FLAGS)
    {
      g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_LIMIT,
                   "“%s” depends on which of %" G_GINT64_FORMAT " elements data selects, more than %d",
                   rlx_map_wants_output (call, 0) ? call->node->outputs[0] : "", n, RLX_IMPORT_MAX_FLAGS);
      return NULL;
    }
  ones = rlx_map_cast (call, flags, RLX_DATA_TYPE_I32, error);
  if (ones == NULL)
    return NULL;
  *count = rlx_map_cast (call, rlx_map_op1 (call, "reduce_sum", ones, rlx_map_attrs ("axes", rlx_map_ints ((gint64[]) { 0 }, 1), NULL), error),
                         RLX_DATA_TYPE_I64, error);
  sums = rlx_map_op1 (call, "cumsum", ones, axis, error);
  /* The indices of all other flags are written to one extra element, which is dropped. */
  inputs[0] = flags;
  inputs[1] = sums != NULL ? rlx_map_op2 (call, "sub", sums, add_number (call, 1, error), NULL, error) : NULL;
  inputs[2] = add_number (call, n, error);
  if (*count == NULL || inputs[1] == NULL || inputs[2] == NULL)
    return NULL;
  inputs[1] = rlx_map_op (call, "where", inputs, 3, NULL, error);
  bytes = g_new0 (guint8, (gsize) n_places * sizeof (gint32));
  data = g_bytes_new_take (g_steal_pointer (&bytes), (gsize) n_places * sizeof (gint32));
  zeros = rlx_tensor_new_from_bytes (RLX_DATA_TYPE_I32, &n_places, 1, data, error);
  inputs[0] = zeros != NULL ? rlx_map_constant (call, zeros, error) : NULL;
  inputs[2] = inputs[0] != NULL ? add_range (call, n, 0, 1, error) : NULL;
  if (inputs[1] == NULL || inputs[2] == NULL)
    return NULL;
  inputs[0] = rlx_map_op (call, "scatter_elements", inputs, 3, axis, error);
  return inputs[0] != NULL ? rlx_map_op1 (call, "slice", inputs[0],
                                          rlx_map_attrs ("starts", rlx_map_ints ((gint64[]) { 0 }, 1), "ends", rlx_map_ints (&n, 1),
                                                         "axes", rlx_map_ints ((gint64[]) { 0 }, 1), NULL), error) : NULL;
}

static gboolean
return_open (RlxMapCall *call,
             guint       index,
             RlxNode    *node,
             RlxNode    *count,
             guint       axis)
{
  RlxMapValue *value;

  if (node == NULL || count == NULL)
    return FALSE;
  value = rlx_import_new_value (call->import);
  value->node = node;
  value->count = count;
  value->open_axis = axis;
  return rlx_map_return_value (call, index, value);
}

/* Converts indices into a flat tensor to indices along each axis, [axes, n]. */
static RlxNode *
unravel (RlxMapCall   *call,
         RlxNode      *flat,
         const gint64 *shape,
         gsize         n_dims,
         GError      **error)
{
  gint64 n = rlx_node_get_shape (flat, NULL)[0], strides[RLX_MAX_DIMS];
  g_autoptr(RlxTensor) steps = NULL;
  g_autoptr(RlxTensor) sizes = NULL;
  RlxNode *divisors, *moduli;

  for (gsize i = n_dims, stride = 1; i-- > 0; stride *= (gsize) shape[i])
    strides[i] = (gint64) stride;
  steps = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I32, (gint64[]) { (gint64) n_dims, 1 }, 2, strides, n_dims, error);
  sizes = steps != NULL ? rlx_tensor_new_from_ints (RLX_DATA_TYPE_I32, (gint64[]) { (gint64) n_dims, 1 }, 2, shape, n_dims, error) : NULL;
  divisors = sizes != NULL ? rlx_map_constant (call, steps, error) : NULL;
  moduli = divisors != NULL ? rlx_map_constant (call, sizes, error) : NULL;
  flat = moduli != NULL ? rlx_map_reshape (call, flat, (gint64[]) { 1, n }, 2, error) : NULL;
  flat = flat != NULL ? rlx_map_op2 (call, "div", flat, divisors, NULL, error) : NULL;
  return flat != NULL ? rlx_map_op2 (call, "mod", flat, moduli, NULL, error) : NULL;
}

static RlxNode *
flatten (RlxMapCall *call,
         RlxNode    *node,
         GError    **error)
{
  gsize n_dims;
  const gint64 *shape = rlx_node_get_shape (node, &n_dims);

  return rlx_map_reshape (call, node, (gint64[]) { rlx_map_product (shape, 0, n_dims) }, 1, error);
}

gboolean
rlx_onnx_map_non_zero (RlxMapCall *call,
                       GError    **error)
{
  RlxNode *node = rlx_map_input (call, 0, FALSE, error), *count = NULL, *places;
  g_autofree gint64 *shape = NULL;
  gsize n_dims;

  if (node == NULL)
    return FALSE;
  shape = rlx_map_copy_shape (node, &n_dims);
  /* A scalar counts as a row of one. */
  if (n_dims == 0)
    shape[n_dims++] = 1;
  node = flatten (call, node, error);
  node = node != NULL ? rlx_map_cast (call, node, RLX_DATA_TYPE_BOOL, error) : NULL;
  places = node != NULL ? find_set (call, node, &count, error) : NULL;
  places = places != NULL ? unravel (call, places, shape, n_dims, error) : NULL;
  return return_open (call, 0, rlx_map_cast (call, places, RLX_DATA_TYPE_I64, error), count, 1);
}

/* The indices of conditions that are set, if they are known. */
static RlxNode *
add_places (RlxMapCall *call,
            gint64     *n_conditions,
            GError    **error)
{
  gsize n;
  g_autofree gint64 *places = rlx_map_input_ints (call, 1, &n, error);
  g_autoptr(RlxTensor) tensor = NULL;
  gint64 n_places = 0;

  *n_conditions = (gint64) n;
  if (places == NULL)
    return NULL;
  for (gsize i = 0; i < n; i++)
    if (places[i] != 0)
      places[n_places++] = (gint64) i;
  tensor = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I64, &n_places, 1, places, (gsize) n_places, error);
  return tensor != NULL ? rlx_map_constant (call, tensor, error) : NULL;
}

gboolean
rlx_onnx_map_compress (RlxMapCall *call,
                       GError    **error)
{
  RlxNode *node = rlx_map_input (call, 0, FALSE, error), *flags = NULL, *count = NULL, *places = NULL;
  gint64 axis = 0, n;
  const gint64 *shape;
  gsize at, n_dims;

  if (node == NULL || !rlx_map_arg_int (call, "axis", 0, &axis, error))
    return FALSE;
  /* Without an axis, all elements are considered. */
  if (rlx_map_arg (call, "axis") == NULL && (node = flatten (call, node, error)) == NULL)
    return FALSE;
  shape = rlx_node_get_shape (node, &n_dims);
  if (n_dims == 0 || !rlx_map_normalise_axis (call, axis, n_dims, n_dims - 1, &at, error))
    return FALSE;
  if (rlx_map_is_known (call, 1))
    {
      if ((places = add_places (call, &n, error)) == NULL)
        return FALSE;
    }
  else
    {
      if ((flags = rlx_map_input (call, 1, FALSE, error)) == NULL)
        return FALSE;
      n = rlx_node_get_n_dims (flags) == 1 ? rlx_node_get_shape (flags, NULL)[0] : -1;
    }
  if (n < 0 || n > shape[at])
    return rlx_map_refused (error, "there are %" G_GINT64_FORMAT " conditions for %" G_GINT64_FORMAT " elements", n, shape[at]);
  if (places == NULL)
    {
      flags = rlx_map_cast (call, flags, RLX_DATA_TYPE_BOOL, error);
      places = flags != NULL ? find_set (call, flags, &count, error) : NULL;
    }
  if (places == NULL)
    return FALSE;
  node = rlx_map_op2 (call, "gather", node, places, rlx_map_attrs ("axis", g_variant_new_int64 ((gint64) at), NULL), error);
  return count != NULL ? return_open (call, 0, node, count, (guint) at) : rlx_map_return (call, 0, node);
}

/* A scalar input, which may be absent. */
static gboolean
get_number (RlxMapCall *call,
            guint       index,
            double      fallback,
            double     *number,
            GError    **error)
{
  g_autoptr(RlxTensor) tensor = NULL;

  *number = fallback;
  if (!rlx_map_has_input (call, index))
    return TRUE;
  tensor = rlx_map_input_value (call, index, error);
  if (tensor == NULL || !rlx_tensor_fetch (tensor, NULL, error))
    return FALSE;
  *number = rlx_tensor_get_n_elements (tensor) == 1 ? rlx_tensor_get_value (tensor, 0) : NAN;
  return !isnan (*number) || rlx_map_refused (error, "input %u is not one number", index);
}

/* The rows are batch, class and box, in this order; the best boxes come first. */
gboolean
rlx_onnx_map_non_max_suppression (RlxMapCall *call,
                                  GError    **error)
{
  RlxNode *inputs[2] = { rlx_map_input (call, 0, FALSE, error), NULL }, *found, *flags, *places, *rows[3], *count = NULL;
  double most, overlap, score;
  const gint64 *shape;
  gint64 boxes, n;
  gboolean center;

  inputs[1] = inputs[0] != NULL ? rlx_map_input (call, 1, FALSE, error) : NULL;
  if (inputs[1] == NULL || !rlx_map_arg_bool (call, "center_point_box", FALSE, &center, error) ||
      !get_number (call, 2, 0, &most, error) || !get_number (call, 3, 0, &overlap, error) || !get_number (call, 4, -INFINITY, &score, error))
    return FALSE;
  if (rlx_node_get_n_dims (inputs[0]) != 3 || rlx_node_get_n_dims (inputs[1]) != 3)
    return rlx_map_refused (error, "boxes are [batch, boxes, 4] and scores [batch, classes, boxes]");
  boxes = rlx_node_get_shape (inputs[0], NULL)[1];
  found = rlx_map_op (call, "non_max_suppression", inputs, 2,
                      rlx_map_attrs ("max_boxes", g_variant_new_int64 ((gint64) CLAMP (most, 0, (double) boxes)),
                                     "overlap", g_variant_new_double (overlap), "score", g_variant_new_double (score),
                                     "center", g_variant_new_boolean (center), NULL), error);
  if (found == NULL)
    return FALSE;
  shape = rlx_node_get_shape (found, NULL);
  n = rlx_map_product (shape, 0, 3);
  flags = flatten (call, found, error);
  flags = flags != NULL ? rlx_map_op2 (call, "greater_equal", flags, add_number (call, 0, error), NULL, error) : NULL;
  places = flags != NULL ? find_set (call, flags, &count, error) : NULL;
  /* [batch and class, n], and the index of the box */
  rows[0] = places != NULL ? unravel (call, places, shape, 3, error) : NULL;
  rows[1] = rows[0] != NULL ? flatten (call, found, error) : NULL;
  rows[1] = rows[1] != NULL ? rlx_map_op2 (call, "gather", rows[1], places, rlx_map_attrs ("axis", g_variant_new_int64 (0), NULL), error) : NULL;
  /* Padding needs a valid index, too. */
  rows[1] = rows[1] != NULL ? rlx_map_op2 (call, "max", rows[1], add_number (call, 0, error), NULL, error) : NULL;
  rows[1] = rows[1] != NULL ? rlx_map_reshape (call, rows[1], (gint64[]) { 1, n }, 2, error) : NULL;
  rows[0] = rows[1] != NULL ? rlx_map_op1 (call, "slice", rows[0],
                                           rlx_map_attrs ("starts", rlx_map_ints ((gint64[]) { 0 }, 1), "ends", rlx_map_ints ((gint64[]) { 2 }, 1),
                                                          "axes", rlx_map_ints ((gint64[]) { 0 }, 1), NULL), error) : NULL;
  found = rows[0] != NULL ? rlx_map_op (call, "concat", rows, 2, rlx_map_attrs ("axis", g_variant_new_int64 (0), NULL), error) : NULL;
  found = found != NULL ? rlx_map_op1 (call, "transpose", found, rlx_map_attrs ("permutation", rlx_map_ints (NULL, 0), NULL), error) : NULL;
  return return_open (call, 0, rlx_map_cast (call, found, RLX_DATA_TYPE_I64, error), count, 0);
}

static RlxNode *
pick (RlxMapCall *call,
      RlxNode    *node,
      RlxNode    *places,
      GError    **error)
{
  return node != NULL && places != NULL ? rlx_map_op2 (call, "gather", node, places, rlx_map_attrs ("axis", g_variant_new_int64 (0), NULL), error) : NULL;
}

static RlxNode *
cut (RlxMapCall *call,
     RlxNode    *node,
     gint64      start,
     gint64      end,
     GError    **error)
{
  return rlx_map_op1 (call, "slice", node, rlx_map_attrs ("starts", rlx_map_ints (&start, 1), "ends", rlx_map_ints (&end, 1),
                                                          "axes", rlx_map_ints ((gint64[]) { 0 }, 1), NULL), error);
}

static RlxNode *
join (RlxMapCall *call,
      RlxNode    *a,
      RlxNode    *b,
      GError    **error)
{
  return a != NULL && b != NULL ? rlx_map_op2 (call, "concat", a, b, rlx_map_attrs ("axis", g_variant_new_int64 (0), NULL), error) : NULL;
}

/* Scatters @numbers by @permutation; for 0, 1, 2, … this is the inverse permutation. */
static RlxNode *
invert (RlxMapCall *call,
        RlxNode    *permutation,
        RlxNode    *numbers,
        GError    **error)
{
  RlxNode *inputs[] = { numbers, permutation, numbers };

  return permutation != NULL && numbers != NULL
           ? rlx_map_op (call, "scatter_elements", inputs, 3, rlx_map_attrs ("axis", g_variant_new_int64 (0), NULL), error)
           : NULL;
}

static RlxNode *
choose (RlxMapCall *call,
        RlxNode    *condition,
        RlxNode    *yes,
        RlxNode    *no,
        GError    **error)
{
  RlxNode *inputs[] = { condition, yes, no };

  return condition != NULL && yes != NULL && no != NULL ? rlx_map_op (call, "where", inputs, 3, NULL, error) : NULL;
}

/* Sorting makes equal elements adjacent; the first of each run is kept. */
gboolean
rlx_onnx_map_unique (RlxMapCall *call,
                     GError    **error)
{
  RlxNode *node = rlx_map_input (call, 0, FALSE, error), *order, *sorted, *flags, *places, *count = NULL, *range, *is_there, *no, *next;
  RlxNode *first, *group, *inverse, *counts;
  g_autoptr(RlxTensor) yes = NULL;
  gboolean in_order;
  gint64 axis, n;

  if (node == NULL || !rlx_map_arg_bool (call, "sorted", TRUE, &in_order, error) || !rlx_map_arg_int (call, "axis", 0, &axis, error))
    return FALSE;
  if (rlx_map_arg (call, "axis") != NULL && rlx_node_get_n_dims (node) != 1)
    return rlx_map_unsupported (error, "of several dimensions it is only found which elements are unique, not which slices");
  node = flatten (call, node, error);
  n = node != NULL ? rlx_node_get_shape (node, NULL)[0] : 0;
  if (n == 0)
    return node != NULL && rlx_map_unsupported (error, "there are no elements");

  order = rlx_map_op1 (call, "arg_sort", node, NULL, error);
  sorted = pick (call, node, order, error);
  if (sorted == NULL)
    return FALSE;
  yes = rlx_tensor_new_from_ints (RLX_DATA_TYPE_BOOL, (gint64[]) { 1 }, 1, (gint64[]) { 1 }, 1, error);
  flags = yes != NULL ? rlx_map_constant (call, yes, error) : NULL;
  if (n > 1)
    flags = join (call, flags, rlx_map_op2 (call, "not_equal", cut (call, sorted, 1, n, error), cut (call, sorted, 0, n - 1, error), NULL, error), error);
  places = flags != NULL ? find_set (call, flags, &count, error) : NULL;
  range = places != NULL ? add_range (call, n, 0, 1, error) : NULL;
  if (range == NULL)
    return FALSE;
  node = pick (call, sorted, places, error);
  first = pick (call, order, places, error);
  is_there = rlx_map_op2 (call, "less", range, rlx_map_cast (call, count, RLX_DATA_TYPE_I32, error), NULL, error);
  /* The start of the next run, or the end. */
  next = n > 1 ? join (call, cut (call, places, 1, n, error), cut (call, places, 0, 1, error), error) : places;
  no = rlx_map_op1 (call, "logical_not", cut (call, flags, 0, 1, error), NULL, error);
  next = choose (call, n > 1 ? join (call, cut (call, is_there, 1, n, error), no, error) : no, next, add_number (call, n, error), error);
  counts = next != NULL ? rlx_map_op2 (call, "sub", next, places, NULL, error) : NULL;
  group = rlx_map_op1 (call, "cumsum", rlx_map_cast (call, flags, RLX_DATA_TYPE_I32, error), rlx_map_attrs ("axis", g_variant_new_int64 (0), NULL), error);
  group = group != NULL ? rlx_map_op2 (call, "sub", group, add_number (call, 1, error), NULL, error) : NULL;
  inverse = invert (call, order, group, error);
  if (!in_order)
    {
      order = choose (call, is_there, first, add_number (call, n, error), error);
      order = order != NULL ? rlx_map_op1 (call, "arg_sort", order, NULL, error) : NULL;
      node = pick (call, node, order, error);
      first = pick (call, first, order, error);
      counts = pick (call, counts, order, error);
      inverse = pick (call, invert (call, order, range, error), inverse, error);
    }
  return node != NULL && first != NULL && inverse != NULL && counts != NULL && return_open (call, 0, node, count, 0) &&
         return_open (call, 1, rlx_map_cast (call, first, RLX_DATA_TYPE_I64, error), count, 0) &&
         rlx_map_return (call, 2, rlx_map_cast (call, inverse, RLX_DATA_TYPE_I64, error)) &&
         return_open (call, 3, rlx_map_cast (call, counts, RLX_DATA_TYPE_I64, error), count, 0);
}

/* ---- where they go ---------------------------------------------------------------------------- */

/* An operand whose size depends on data, and what becomes of its axis. */
typedef struct
{
  RlxMapCall *call;
  guint index;          /* which input it is, or the first of several */
  RlxMapValue *value;
  gsize n_dims;
  guint axis;           /* of the operand, and then of the results */
  RlxNode *count;       /* likewise */
} Open;

/* FALSE, with or without an error, if the operator needs to know the size. */
typedef gboolean (*FollowFunc) (Open    *open,
                                GError **error);

static RlxMapValue *
get_open (RlxMapCall *call,
          guint       index)
{
  RlxMapValue *value = rlx_map_has_input (call, index) ? rlx_scope_get (call->scope, call->node->inputs[index]) : NULL;

  return value != NULL && value->count != NULL ? value : NULL;
}

static const gint64 *
get_shape (RlxMapCall *call,
           guint       index,
           gsize      *n_dims)
{
  RlxDataType type;

  *n_dims = 0;
  return rlx_map_has_input (call, index)
           ? rlx_map_value_get_shape (call->import, rlx_scope_get (call->scope, call->node->inputs[index]), n_dims, &type)
           : NULL;
}

/* For operators whose operands broadcast. */
static gboolean
follow_elements (Open    *open,
                 GError **error)
{
  gsize from_end = open->n_dims - open->axis, most = 0, n_dims;

  /* There, an attribute can say which axes the second operand has. */
  if (open->call->opset < 7 && open->call->node->n_inputs > 1)
    return FALSE;
  for (guint i = 0; i < open->call->node->n_inputs; i++)
    {
      const gint64 *shape = get_shape (open->call, i, &n_dims);
      RlxMapValue *other = get_open (open->call, i);

      most = MAX (most, n_dims);
      if (other != NULL ? n_dims - other->open_axis != from_end : shape != NULL && n_dims >= from_end && shape[n_dims - from_end] != 1)
        return FALSE;
    }
  open->axis = (guint) (most - from_end);
  return TRUE;
}

/* Only the first operand may be open, along its first dimension, whose elements the operator treats independently. */
static gboolean
follow_first (Open    *open,
              GError **error)
{
  gboolean transposed = FALSE, training = FALSE;
  gint64 axis = 1;
  gsize n_dims;

  if (open->index != 0 || open->axis != 0 || (rlx_map_arg (open->call, "transA") != NULL && !rlx_map_arg_bool (open->call, "transA", FALSE, &transposed, error)) ||
      (g_str_equal (open->call->node->op, "Flatten") && !rlx_map_arg_int (open->call, "axis", 1, &axis, error)) ||
      (rlx_map_arg (open->call, "training_mode") != NULL && !rlx_map_arg_bool (open->call, "training_mode", FALSE, &training, error)))
    return FALSE;
  for (guint i = 1; i < open->call->node->n_inputs; i++)
    if (get_open (open->call, i) != NULL)
      return FALSE;
  /* One row for each that there could be, which are not as many as there are. */
  if (g_str_equal (open->call->node->op, "Gemm"))
    {
      const gint64 *shape = get_shape (open->call, 2, &n_dims);

      if (shape != NULL && n_dims > 1 && shape[0] != 1)
        return FALSE;
    }
  /* Training computes moments of all rows, padding included. */
  return !transposed && !training && axis == 1;
}

static gboolean
follow_matmul (Open    *open,
               GError **error)
{
  gsize n_dims;

  return open->index == 0 && get_open (open->call, 1) == NULL && get_shape (open->call, 1, &n_dims) != NULL && n_dims == 2 &&
         open->axis + 1 < open->n_dims;
}

/* Only the boxes may be open; they each have an image index. */
static gboolean
follow_boxes (Open    *open,
              GError **error)
{
  return open->index == 1 && open->axis == 0 && get_open (open->call, 2) != NULL;
}

/* Reads and normalises the attribute “axis”. */
static gboolean
get_axis (Open   *open,
          gint64  fallback,
          gsize   n_dims,
          gsize  *axis,
          GError **error)
{
  gint64 number;

  return rlx_map_arg_int (open->call, "axis", fallback, &number, error) && n_dims > 0 &&
         rlx_map_normalise_axis (open->call, number, n_dims, n_dims - 1, axis, error);
}

static gboolean
follow_gather (Open    *open,
               GError **error)
{
  gsize n_data, n_indices, axis;

  get_shape (open->call, 0, &n_data);
  get_shape (open->call, 1, &n_indices);
  if (!get_axis (open, 0, n_data, &axis, error))
    return FALSE;
  if (open->index == 1)
    open->axis += (guint) axis;
  else if (get_open (open->call, 1) != NULL || axis == open->axis)
    return FALSE;
  else if (axis < open->axis)
    open->axis = (guint) (open->axis + n_indices - 1);
  return TRUE;
}

static gboolean
follow_gather_nd (Open    *open,
                  GError **error)
{
  gint64 batches;

  return rlx_map_arg_int (open->call, "batch_dims", 0, &batches, error) && batches == 0 && open->index == 1 && open->axis + 1 < open->n_dims;
}

static gboolean
follow_transpose (Open    *open,
                  GError **error)
{
  g_autofree gint64 *permutation = NULL;
  gsize n = 0;

  if (rlx_map_arg (open->call, "perm") == NULL)
    {
      open->axis = (guint) (open->n_dims - 1 - open->axis);
      return TRUE;
    }
  if ((permutation = rlx_map_arg_ints (open->call, "perm", &n, error)) == NULL)
    return FALSE;
  for (gsize i = 0; i < n; i++)
    if (permutation[i] == open->axis)
      {
        open->axis = (guint) i;
        return TRUE;
      }
  return FALSE;
}

/* Marks the axes of an argument; FALSE if there is none. */
static gboolean
get_axes (Open     *open,
          gsize     n_dims,
          gboolean *is_in,
          GError  **error)
{
  g_autofree gint64 *axes = NULL;
  gboolean present;
  gsize n, place;

  memset (is_in, 0, 2 * RLX_MAX_DIMS * sizeof *is_in);
  if (!rlx_map_get_ints (open->call, "axes", 1, &axes, &n, &present, error) || !present || n == 0)
    return FALSE;
  n_dims += g_str_equal (open->call->node->op, "Unsqueeze") ? n : 0;
  if (n_dims > 2 * RLX_MAX_DIMS)
    return FALSE;
  for (gsize i = 0; i < n; i++)
    {
      if (!rlx_map_normalise_axis (open->call, axes[i], n_dims, n_dims - 1, &place, error))
        return FALSE;
      is_in[place] = TRUE;
    }
  return TRUE;
}

static gboolean
drop_axes (Open           *open,
           const gboolean *dropped)
{
  guint axis = open->axis;

  if (dropped[axis])
    return FALSE;
  for (guint i = 0; i < axis; i++)
    open->axis -= dropped[i] ? 1 : 0;
  return TRUE;
}

static gboolean
follow_squeeze (Open    *open,
                GError **error)
{
  gboolean dropped[2 * RLX_MAX_DIMS];

  return get_axes (open, open->n_dims, dropped, error) && drop_axes (open, dropped);
}

static gboolean
follow_unsqueeze (Open    *open,
                  GError **error)
{
  gboolean added[2 * RLX_MAX_DIMS];
  guint before = open->axis;

  if (!get_axes (open, open->n_dims, added, error))
    return FALSE;
  for (open->axis = 0; open->axis < G_N_ELEMENTS (added); open->axis++)
    if (!added[open->axis] && before-- == 0)
      return TRUE;
  return FALSE;
}

static gboolean
follow_reduce (Open    *open,
               GError **error)
{
  gboolean reduced[2 * RLX_MAX_DIMS], keep_dims;

  return rlx_map_arg_bool (open->call, "keepdims", TRUE, &keep_dims, error) && get_axes (open, open->n_dims, reduced, error) &&
         (keep_dims ? !reduced[open->axis] : drop_axes (open, reduced));
}

/* For operators along one axis, which must not be the open one. */
static gboolean
follow_axis (Open    *open,
             GError **error)
{
  gboolean is_arg = g_str_has_prefix (open->call->node->op, "Arg"), keep_dims = TRUE;
  gsize axis;

  if ((!is_arg && open->call->opset < 13) || !get_axis (open, is_arg ? 0 : -1, open->n_dims, &axis, error) || axis == open->axis ||
      (is_arg && !rlx_map_arg_bool (open->call, "keepdims", TRUE, &keep_dims, error)))
    return FALSE;
  open->axis -= !keep_dims && axis < open->axis ? 1 : 0;
  return TRUE;
}

/* For operators that keep the first dimension. */
static gboolean
follow_reshape (Open    *open,
                GError **error)
{
  g_autofree gint64 *to = NULL;
  gsize n_dims, n;
  const gint64 *shape = get_shape (open->call, 0, &n_dims);
  gboolean present, zero;
  gint64 product = 1;

  if (open->index != 0 || open->axis != 0 || !rlx_map_get_ints (open->call, "shape", 1, &to, &n, &present, error) ||
      (rlx_map_arg (open->call, "allowzero") != NULL && (!rlx_map_arg_bool (open->call, "allowzero", FALSE, &zero, error) || zero)) ||
      n == 0 || (to[0] != -1 && to[0] != 0))
    return FALSE;
  for (gsize i = 1; i < n; i++)
    {
      gint64 size = to[i] == 0 && i < n_dims ? shape[i] : to[i];

      if (to[i] < 0 || (to[i] == 0 && i >= n_dims) || (size > 0 && product > G_MAXINT64 / size))
        return FALSE;
      product *= size;
    }
  return product == rlx_map_product (shape, 1, n_dims);
}

static gboolean
follow_concat (Open    *open,
               GError **error)
{
  gsize axis;

  for (guint i = 0; i < open->call->node->n_inputs; i++)
    {
      RlxMapValue *other = get_open (open->call, i);

      if (other == NULL || other->open_axis != open->axis)
        return FALSE;
    }
  return get_axis (open, 1, open->n_dims, &axis, error) && axis != open->axis;
}

/* The slice is along other axes, or starts at the beginning of the open one. */
static gboolean
follow_slice (Open    *open,
              GError **error)
{
  g_autofree gint64 *starts = NULL;
  g_autofree gint64 *ends = NULL;
  g_autofree gint64 *axes = NULL;
  g_autofree gint64 *steps = NULL;
  gsize n, n_ends, n_axes, n_steps;
  gboolean present;

  if (open->index != 0 || !rlx_map_get_ints (open->call, "starts", 1, &starts, &n, &present, error) ||
      !rlx_map_get_ints (open->call, "ends", 2, &ends, &n_ends, &present, error) ||
      !rlx_map_get_ints (open->call, "axes", 3, &axes, &n_axes, &present, error) ||
      !rlx_map_get_ints (open->call, "steps", 4, &steps, &n_steps, &present, error) || n_ends != n)
    return FALSE;
  for (gsize i = 0; i < n; i++)
    {
      gint64 axis = i < n_axes ? axes[i] : (gint64) i;

      if ((axis < 0 ? axis + (gint64) open->n_dims : axis) != open->axis)
        continue;
      if (starts[i] != 0 || ends[i] < 0 || (i < n_steps && steps[i] != 1))
        return FALSE;
      open->count = rlx_map_op2 (open->call, "min", open->count,
                                 rlx_graph_scalar (open->call->graph, RLX_DATA_TYPE_I64, (double) MIN (ends[i], G_MAXINT32), error), NULL, error);
    }
  return open->count != NULL;
}

static const struct
{
  const char *names;    /* each followed by a space */
  FollowFunc func;
} followers[] = {
  { "Abs Add And Cast Ceil Clip Cos Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish IsInf IsNaN LeakyRelu Less "
    "LessOrEqual Log Max Min Mish Mod Mul Neg Not Or Pow Reciprocal Relu Round Selu Sigmoid Sign Sin Softplus Softsign Sqrt Sub Sum Tanh "
    "Where Xor ", follow_elements },
  { "AveragePool BatchNormalization Conv ConvTranspose Flatten Gemm GlobalAveragePool GlobalMaxPool MaxPool ", follow_first },
  { "ArgMax ArgMin LogSoftmax Softmax ", follow_axis },
  { "ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare ", follow_reduce },
  { "Concat ", follow_concat },
  { "Gather ", follow_gather },
  { "GatherND ", follow_gather_nd },
  { "MatMul ", follow_matmul },
  { "Reshape ", follow_reshape },
  { "RoiAlign ", follow_boxes },
  { "Slice ", follow_slice },
  { "Squeeze ", follow_squeeze },
  { "Transpose ", follow_transpose },
  { "Unsqueeze ", follow_unsqueeze },
};

static FollowFunc
find_follower (const RlxOnnxNode *node)
{
  gsize length = strlen (node->op);

  for (gsize i = 0; i < G_N_ELEMENTS (followers) && node->domain[0] == '\0'; i++)
    for (const char *name = followers[i].names; *name != '\0'; name = strchr (name, ' ') + 1)
      if (strncmp (name, node->op, length) == 0 && name[length] == ' ')
        return followers[i].func;
  return NULL;
}

/* The shape or its product, with the count in place of the padded size. */
static gboolean
return_shape (Open    *open,
              GError **error)
{
  RlxMapCall *call = open->call;
  gboolean is_size = g_str_equal (call->node->op, "Size");
  gint64 start, end, n_dims = (gint64) open->n_dims, others = 1;
  g_autofree gint64 *shape = rlx_map_copy_shape (open->value->node, &open->n_dims);
  g_autoptr(RlxTensor) tensor = NULL;
  RlxNode *where, *node;

  if (is_size)
    {
      for (gint64 i = 0; i < n_dims; i++)
        others *= i == open->axis ? 1 : shape[i];
      return rlx_map_return (call, 0, rlx_map_op2 (call, "mul", open->count, rlx_graph_scalar (call->graph, RLX_DATA_TYPE_I64, (double) others, error),
                                                   NULL, error));
    }
  if (!rlx_map_arg_int (call, "start", 0, &start, error) || !rlx_map_arg_int (call, "end", n_dims, &end, error))
    return FALSE;
  start = CLAMP (start < 0 ? start + n_dims : start, 0, n_dims);
  end = CLAMP (end < 0 ? end + n_dims : end, start, n_dims);
  shape[open->axis] = 0;
  tensor = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I64, (gint64[]) { end - start }, 1, shape + start, (gsize) (end - start), error);
  if (tensor == NULL || open->axis < start || open->axis >= end)
    return rlx_map_return_tensor (call, 0, tensor);
  memset (shape, 0, (gsize) n_dims * sizeof *shape);
  shape[open->axis] = 1;
  node = rlx_map_constant (call, tensor, error);
  g_clear_object (&tensor);
  tensor = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I64, (gint64[]) { end - start }, 1, shape + start, (gsize) (end - start), error);
  where = tensor != NULL ? rlx_map_constant (call, tensor, error) : NULL;
  where = where != NULL ? rlx_map_op2 (call, "mul", where, open->count, NULL, error) : NULL;
  return where != NULL && rlx_map_return (call, 0, rlx_map_op2 (call, "add", node, where, NULL, error));
}

gboolean
rlx_map_is_open (RlxMapCall *call)
{
  for (guint i = 0; i < call->node->n_inputs; i++)
    if (get_open (call, i) != NULL)
      return TRUE;
  return FALSE;
}

gboolean
rlx_map_call_open (RlxMapCall *call,
                   GError    **error)
{
  Open open = { .call = call };
  FollowFunc follow = find_follower (call->node);
  GError *local = NULL;
  guint axis;

  for (guint i = call->node->n_inputs; i-- > 0;)
    if (get_open (call, i) != NULL)
      {
        open.index = i;
        open.value = get_open (call, i);
        /* Two operands with different counts. */
        if (open.count != NULL && open.count != open.value->count)
          follow = NULL;
        open.count = open.value->count;
      }
  open.axis = axis = open.value->open_axis;
  open.n_dims = rlx_node_get_n_dims (open.value->node);
  if (call->node->domain[0] == '\0' && g_str_equal (call->node->op, "Identity"))
    return rlx_map_return_value (call, 0, open.value);
  if (call->node->domain[0] == '\0' && (g_str_equal (call->node->op, "Shape") || g_str_equal (call->node->op, "Size")))
    return return_shape (&open, error);
  if (follow == NULL || !follow (&open, &local))
    {
      if (local != NULL)
        {
          g_propagate_error (error, local);
          return FALSE;
        }
      rlx_import_need (call->import, &(RlxMapValue) { .node = open.value->count });
      return rlx_map_unsupported (error, "dimension %u of its input %u depends on data, and it needs to know that size", axis, open.index);
    }
  if (!rlx_map_call (call, error))
    return FALSE;
  for (guint i = 0; i < call->node->n_outputs; i++)
    if (rlx_map_wants_output (call, i))
      {
        RlxMapValue *value = rlx_scope_get (call->scope, call->node->outputs[i]);

        value->count = open.count;
        value->open_axis = open.axis;
      }
  return TRUE;
}
