/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What the host computes while a model is imported: shapes, indices and conditions, which
 * decide about the graph. Integers are computed in 64 bits; floats in double precision,
 * and rounded after each operator.
 */
#include "config.h"

#include "import/rlx-fold-private.h"

#include <math.h>
#include <string.h>

#include "rlx-tensor-private.h"
#include "util/rlx-element-private.h"
#include "util/rlx-half-private.h"

/* Larger arrays of floats are left to the device, which computes them just as fast. */
#define MAX_FLOATS 4096

/* ---- arrays ------------------------------------------------------------------------------- */

void
rlx_array_clear (RlxArray *array)
{
  g_clear_pointer (&array->ints, g_free);
  g_clear_pointer (&array->floats, g_free);
}

/* FALSE if that is too much for the host. */
gboolean
rlx_array_init (RlxArray     *array,
                RlxDataType   type,
                const gint64 *shape,
                gsize         n_dims)
{
  guint64 n;

  /* Types that devices only store are converted on the device. */
  if (rlx_data_type_is_narrow (type) || (rlx_data_type_is_int (type) && (rlx_data_type_get_bits (type) < 8 || rlx_data_type_get_bits (type) == 16)))
    {
      *array = (RlxArray) { .type = type };
      return FALSE;
    }
  *array = (RlxArray) { .type = type, .n_dims = n_dims, .is_float = rlx_data_type_is_float (type) };
  if (n_dims > RLX_MAX_DIMS || !rlx_shape_n_elements (shape, n_dims, &n, NULL) || n > RLX_IMPORT_MAX_FOLDED)
    return FALSE;
  for (gsize i = 0; i < n_dims; i++)
    array->shape[i] = shape[i];
  array->n = (gsize) n;
  if (array->is_float)
    array->floats = g_new0 (double, n + 1);
  else
    array->ints = g_new0 (gint64, n + 1);
  return TRUE;
}

static gboolean
array_load (RlxArray  *array,
            RlxTensor *tensor)
{
  RlxDataType type = rlx_tensor_get_data_type (tensor);
  gconstpointer data = rlx_tensor_peek_data (tensor);
  gsize n_dims;
  const gint64 *shape = rlx_tensor_get_shape (tensor, &n_dims);

  /* Not all values of u64 fit in gint64. */
  if (type == RLX_DATA_TYPE_U64 || !rlx_array_init (array, type, shape, n_dims))
    return FALSE;
  for (gsize i = 0; i < array->n; i++)
    if (array->is_float)
      array->floats[i] = rlx_element_get_double (type, data, i);
    else
      array->ints[i] = rlx_element_get_int (type, data, i);
  return TRUE;
}

/* Wraps a value as the type's arithmetic does. */
static gint64
wrap (RlxDataType type,
      gint64      value)
{
  switch (type)
    {
    case RLX_DATA_TYPE_I32:
      return (gint32) value;
    case RLX_DATA_TYPE_U32:
      return (guint32) value;
    case RLX_DATA_TYPE_I8:
      return (gint8) value;
    case RLX_DATA_TYPE_U8:
      return (guint8) value;
    case RLX_DATA_TYPE_BOOL:
      return value != 0;
    default:
      return value;
    }
}

static RlxTensor *
array_store (const RlxArray *array,
             GError        **error)
{
  guint64 n;
  gsize size;
  g_autofree guint8 *data = NULL;
  g_autoptr(GBytes) bytes = NULL;

  if (!rlx_shape_n_bytes (array->type, array->shape, array->n_dims, &n, &size, error))
    return NULL;
  data = g_malloc0 (size + 1);
  for (gsize i = 0; i < array->n; i++)
    if (array->type == RLX_DATA_TYPE_F16)
      ((guint16 *) (gpointer) data)[i] = rlx_half_from_double (array->floats[i]);
    else if (array->is_float)
      ((float *) (gpointer) data)[i] = (float) array->floats[i];
    else
      rlx_element_set_int (array->type, data, i, wrap (array->type, array->ints[i]));
  bytes = g_bytes_new_take (g_steal_pointer (&data), size);
  return rlx_tensor_new_from_bytes (array->type, array->shape, array->n_dims, bytes, error);
}

/* ---- element-wise ---------------------------------------------------------------------------- */

/* The index of a broadcast operand's element for an element of the result. */
static gsize
get_place (const RlxArray *operand,
           const RlxArray *result,
           gsize           index)
{
  gsize place = 0, stride = 1;

  for (gsize i = 0; i < result->n_dims; i++)
    {
      gsize axis = result->n_dims - 1 - i;
      gsize at = index % (gsize) result->shape[axis];

      index /= (gsize) result->shape[axis];
      if (i < operand->n_dims)
        {
          gint64 size = operand->shape[operand->n_dims - 1 - i];

          place += (size == 1 ? 0 : at) * stride;
          stride *= (gsize) size;
        }
    }
  return place;
}

static gboolean
broadcast (const RlxArray *arrays,
           gsize           n_arrays,
           gint64         *shape,
           gsize          *n_dims)
{
  *n_dims = 0;
  for (gsize i = 0; i < n_arrays; i++)
    *n_dims = MAX (*n_dims, arrays[i].n_dims);
  for (gsize i = 0; i < *n_dims; i++)
    {
      gsize axis = *n_dims - 1 - i;

      shape[axis] = 1;
      for (gsize j = 0; j < n_arrays; j++)
        if (i < arrays[j].n_dims)
          {
            gint64 size = arrays[j].shape[arrays[j].n_dims - 1 - i];

            if (size != 1 && shape[axis] != 1 && shape[axis] != size)
              return FALSE;
            if (size != 1)
              shape[axis] = size;
          }
    }
  return TRUE;
}

static double
floats_op (RlxFoldOp op,
           double    a,
           double    b)
{
  switch (op)
    {
    case RLX_FOLD_ADD: return a + b;
    case RLX_FOLD_SUB: return a - b;
    case RLX_FOLD_MUL: return a * b;
    case RLX_FOLD_DIV: return a / b;
    case RLX_FOLD_POW: return pow (a, b);
    case RLX_FOLD_MIN: return isnan (a) || isnan (b) ? NAN : MIN (a, b);
    case RLX_FOLD_MAX: return isnan (a) || isnan (b) ? NAN : MAX (a, b);
    case RLX_FOLD_NEG: return -a;
    case RLX_FOLD_ABS: return fabs (a);
    case RLX_FOLD_SIGN: return a > 0 ? 1 : a < 0 ? -1 : a;
    case RLX_FOLD_FLOOR: return floor (a);
    case RLX_FOLD_CEIL: return ceil (a);
    case RLX_FOLD_ROUND: return rint (a);
    case RLX_FOLD_SQRT: return sqrt (a);
    case RLX_FOLD_EXP: return exp (a);
    case RLX_FOLD_LOG: return log (a);
    case RLX_FOLD_RECIPROCAL: return 1 / a;
    default: return a;
    }
}

static gint64
power (gint64 base,
       gint64 exponent)
{
  guint64 result = 1, factor = (guint64) base;

  if (exponent < 0)
    return base == 1 ? 1 : base == -1 ? (exponent % 2 != 0 ? -1 : 1) : 0;
  for (; exponent > 0; exponent >>= 1, factor *= factor)
    if (exponent & 1)
      result *= factor;
  return (gint64) result;
}

static gint64
ints_op (RlxFoldOp op,
         gint64    a,
         gint64    b)
{
  switch (op)
    {
    case RLX_FOLD_ADD: return (gint64) ((guint64) a + (guint64) b);
    case RLX_FOLD_SUB: return (gint64) ((guint64) a - (guint64) b);
    case RLX_FOLD_MUL: return (gint64) ((guint64) a * (guint64) b);
    case RLX_FOLD_DIV: return b == 0 ? 0 : b == -1 ? (gint64) (0 - (guint64) a) : a / b;
    case RLX_FOLD_MOD: return b == 0 || b == -1 ? 0 : a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0);
    case RLX_FOLD_POW: return power (a, b);
    case RLX_FOLD_MIN: return MIN (a, b);
    case RLX_FOLD_MAX: return MAX (a, b);
    case RLX_FOLD_AND: return a & b;
    case RLX_FOLD_OR: return a | b;
    case RLX_FOLD_XOR: return a ^ b;
    case RLX_FOLD_NEG: return (gint64) (0 - (guint64) a);
    case RLX_FOLD_ABS: return a < 0 ? (gint64) (0 - (guint64) a) : a;
    case RLX_FOLD_SIGN: return (a > 0) - (a < 0);
    case RLX_FOLD_NOT: return a == 0;
    default: return a;
    }
}

/* -1, 0, 1, or 2 for NaN. */
static int
compare (const RlxArray *a,
         gsize           i,
         const RlxArray *b,
         gsize           j)
{
  if (a->is_float)
    return isnan (a->floats[i]) || isnan (b->floats[j]) ? 2 : (a->floats[i] > b->floats[j]) - (a->floats[i] < b->floats[j]);
  return (a->ints[i] > b->ints[j]) - (a->ints[i] < b->ints[j]);
}

static gboolean
is_comparison (RlxFoldOp op)
{
  return op >= RLX_FOLD_EQUAL && op <= RLX_FOLD_GREATER_EQUAL;
}

static gboolean
holds (RlxFoldOp op,
       int       order)
{
  switch (op)
    {
    case RLX_FOLD_EQUAL: return order == 0;
    case RLX_FOLD_LESS: return order == -1;
    case RLX_FOLD_LESS_EQUAL: return order == -1 || order == 0;
    case RLX_FOLD_GREATER: return order == 1;
    default: return order == 0 || order == 1;
    }
}

static void
set_rounded (RlxArray *array,
             gsize     index,
             double    value)
{
  array->floats[index] = array->type == RLX_DATA_TYPE_F16 ? (double) rlx_half_to_float (rlx_half_from_double (value)) : (double) (float) value;
}

gboolean
rlx_fold_elements (RlxFoldCall *fold,
                   RlxArray    *result)
{
  const RlxArray *in = fold->inputs;
  RlxFoldOp op = fold->op;
  gint64 shape[RLX_MAX_DIMS];
  gsize n_dims;

  for (gsize i = 1; i < fold->n_inputs; i++)
    if (in[i].is_absent || in[i].type != in[0].type)
      return FALSE;
  if (!broadcast (in, fold->n_inputs, shape, &n_dims))
    return FALSE;
  if (in[0].is_float ? op == RLX_FOLD_MOD || op == RLX_FOLD_AND || op == RLX_FOLD_OR || op == RLX_FOLD_XOR || op == RLX_FOLD_NOT
                     : op >= RLX_FOLD_FLOOR && op <= RLX_FOLD_RECIPROCAL)
    return FALSE;
  /* A result with the sign of the dividend is left to the device. */
  if (op == RLX_FOLD_MOD && rlx_map_arg (fold->call, "fmod") != NULL)
    {
      gboolean as_in_c;

      if (!rlx_map_arg_bool (fold->call, "fmod", FALSE, &as_in_c, NULL) || as_in_c)
        return FALSE;
    }
  /* Old opsets align operands at a given axis. */
  if (fold->call->opset < 7 && fold->n_inputs == 2 && in[0].n_dims != in[1].n_dims)
    return FALSE;
  if (!rlx_array_init (result, is_comparison (op) ? RLX_DATA_TYPE_BOOL : in[0].type, shape, n_dims))
    return FALSE;
  for (gsize i = 0; i < result->n; i++)
    {
      gsize a = get_place (&in[0], result, i);
      gsize b = fold->n_inputs > 1 ? get_place (&in[1], result, i) : 0;

      if (is_comparison (op))
        result->ints[i] = holds (op, compare (&in[0], a, &in[1], b));
      else if (in[0].is_float)
        set_rounded (result, i, floats_op (op, in[0].floats[a], fold->n_inputs > 1 ? in[1].floats[b] : 0));
      else
        result->ints[i] = wrap (result->type, ints_op (op, in[0].ints[a], fold->n_inputs > 1 ? in[1].ints[b] : 0));
    }
  return TRUE;
}

gboolean
rlx_fold_where (RlxFoldCall *fold,
                RlxArray    *result)
{
  const RlxArray *in = fold->inputs;
  gint64 shape[RLX_MAX_DIMS];
  gsize n_dims;

  if (in[0].is_float || in[1].type != in[2].type || !broadcast (in, 3, shape, &n_dims) ||
      !rlx_array_init (result, in[1].type, shape, n_dims))
    return FALSE;
  for (gsize i = 0; i < result->n; i++)
    {
      const RlxArray *from = in[0].ints[get_place (&in[0], result, i)] != 0 ? &in[1] : &in[2];

      rlx_array_copy (result, i, from, get_place (from, result, i));
    }
  return TRUE;
}

gboolean
rlx_fold_cast (RlxFoldCall *fold,
               RlxArray    *result)
{
  const RlxArray *in = &fold->inputs[0];
  RlxDataType type;

  /* These attributes concern types that are not folded. */
  rlx_map_arg (fold->call, "saturate");
  rlx_map_arg (fold->call, "round_mode");
  if (!rlx_map_arg_data_type (fold->call, "to", in->type, &type, NULL) || type == RLX_DATA_TYPE_U64 ||
      !rlx_array_init (result, type, in->shape, in->n_dims))
    return FALSE;
  for (gsize i = 0; i < result->n; i++)
    if (result->is_float)
      set_rounded (result, i, in->is_float ? in->floats[i] : (double) in->ints[i]);
    else if (type == RLX_DATA_TYPE_BOOL)
      result->ints[i] = in->is_float ? in->floats[i] != 0 : in->ints[i] != 0;
    else if (!in->is_float)
      result->ints[i] = wrap (type, in->ints[i]);
    else
      {
        double value = trunc (in->floats[i]);
        const RlxDataTypeInfo *info = rlx_data_type_get_info (type);

        /* Saturates like the device's cast. */
        result->ints[i] = isnan (value) ? 0 : value <= (double) info->min ? info->min
                          : value >= (double) info->max ? (gint64) info->max : (gint64) value;
      }
  return TRUE;
}

/* ---- calls --------------------------------------------------------------------------------------- */

static RlxFold
fold_shape (RlxMapCall *call,
            gboolean    size,
            GError    **error)
{
  RlxMapValue *value = rlx_map_get_value (call, 0, error);
  g_autoptr(RlxTensor) tensor = NULL;
  RlxDataType type;
  const gint64 *shape;
  gint64 start, end, n_dims;
  gsize rank;

  if (value == NULL)
    return RLX_FOLD_FAILED;
  shape = rlx_map_value_get_shape (call->import, value, &rank, &type);
  if (shape == NULL)
    return RLX_FOLD_NONE;
  if (size)
    {
      gint64 product = rlx_map_product (shape, 0, rank);

      tensor = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I64, NULL, 0, &product, 1, error);
    }
  else
    {
      n_dims = (gint64) rank;
      if (!rlx_map_arg_int (call, "start", 0, &start, error) || !rlx_map_arg_int (call, "end", n_dims, &end, error))
        return RLX_FOLD_FAILED;
      start = CLAMP (start < 0 ? start + n_dims : start, 0, n_dims);
      end = CLAMP (end < 0 ? end + n_dims : end, start, n_dims);
      tensor = rlx_tensor_new_from_ints (RLX_DATA_TYPE_I64, (gint64[]) { end - start }, 1, shape + start, (gsize) (end - start), error);
    }
  return tensor != NULL && rlx_map_return_tensor (call, 0, tensor) ? RLX_FOLD_DONE : RLX_FOLD_FAILED;
}

/* Whether to leave an array to the device. While casts are recorded, this must not depend on the size, since imports for
 * different sizes are compared. */
static gboolean
is_too_long (const RlxMapCall *call,
             const RlxArray   *array)
{
  return array->is_float && array->n > MAX_FLOATS && call->import->casts == NULL;
}

/* Records a cast of integers to floats; FALSE if it is left to the device. */
static gboolean
note_cast (const RlxMapCall *call,
           RlxTensor        *tensor)
{
  RlxImportCasts *casts = call->import->casts;

  if (casts == NULL)
    return TRUE;
  g_ptr_array_add (casts->found, g_object_ref (tensor));
  return casts->kept == NULL || !g_hash_table_contains (casts->kept, GUINT_TO_POINTER (casts->found->len - 1));
}

RlxFold
rlx_fold (RlxMapCall *call,
          GError    **error)
{
  const RlxFoldRow *row = call->node->domain[0] == '\0' ? rlx_fold_find (call->node->op) : NULL;
  RlxArray inputs[RLX_FOLD_MAX_INPUTS];
  RlxArray results[RLX_FOLD_MAX_OUTPUTS] = { { 0, }, };
  RlxFoldCall fold = { .call = call, .inputs = inputs, .results = results, .op = row != NULL ? row->op : 0, .n_results = 1 };
  RlxFold done = RLX_FOLD_NONE;

  if (g_str_equal (call->node->op, "Shape") && call->node->domain[0] == '\0')
    return fold_shape (call, FALSE, error);
  if (g_str_equal (call->node->op, "Size") && call->node->domain[0] == '\0')
    return fold_shape (call, TRUE, error);
  if (g_str_equal (call->node->op, "Identity") && rlx_map_has_input (call, 0))
    {
      /* Any value, including sequences and weights. */
      rlx_map_return_value (call, 0, rlx_map_get_value (call, 0, NULL));
      return RLX_FOLD_DONE;
    }
  if (row == NULL || call->node->n_inputs < row->n_required || call->node->n_inputs > row->n_operands ||
      call->node->n_outputs > RLX_FOLD_MAX_OUTPUTS)
    return RLX_FOLD_NONE;
  for (guint i = 0; i < call->node->n_inputs; i++)
    if (!rlx_map_has_input (call, i) ? i < row->n_required : !rlx_map_is_known (call, i))
      return RLX_FOLD_NONE;

  for (guint i = 0; i < call->node->n_inputs; i++)
    {
      g_autoptr(RlxTensor) tensor = NULL;

      inputs[i] = (RlxArray) { .is_absent = TRUE };
      if (!rlx_map_has_input (call, i))
        {
          fold.n_inputs++;
          continue;
        }
      tensor = rlx_map_input_value (call, i, error);
      if (tensor == NULL)
        {
          done = RLX_FOLD_FAILED;
          break;
        }
      if (!array_load (&inputs[i], tensor))
        break;
      fold.n_inputs++;
      if (is_too_long (call, &inputs[i]))
        break;
    }
  if (done == RLX_FOLD_NONE && fold.n_inputs == call->node->n_inputs && !is_too_long (call, &inputs[fold.n_inputs - 1]) &&
      row->func (&fold, &results[0]) && !is_too_long (call, &results[0]))
    {
      done = rlx_map_check_used (call, error) ? RLX_FOLD_DONE : RLX_FOLD_FAILED;
      for (guint i = 0; i < fold.n_results && done == RLX_FOLD_DONE; i++)
        {
          g_autoptr(RlxTensor) tensor = array_store (&results[i], error);

          if (row->func == rlx_fold_cast && tensor != NULL && results[i].is_float && !inputs[0].is_float && !note_cast (call, tensor))
            done = RLX_FOLD_NONE;
          else if (tensor == NULL || !rlx_map_return_tensor (call, i, tensor))
            done = RLX_FOLD_FAILED;
        }
    }
  for (guint i = 0; i < fold.n_inputs; i++)
    rlx_array_clear (&inputs[i]);
  for (guint i = 0; i < RLX_FOLD_MAX_OUTPUTS; i++)
    rlx_array_clear (&results[i]);
  return done;
}
