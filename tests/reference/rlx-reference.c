/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"
#include "rlx-reference-private.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* From here on numbers round to infinity. */
#define F32_OVERFLOW (0x1p128 - 0x1p103)
#define F16_OVERFLOW 65520.0
#define F16_MAX 65504.0

/* ---- values -------------------------------------------------------------------- */

void
rlx_reference_value_free (gpointer value)
{
  RlxReferenceValue *self = value;

  if (self == NULL)
    return;
  g_free (self->values);
  g_free (self->bounds);
  g_free (self);
}

static RlxReferenceValue *
value_new (RlxNode *node)
{
  RlxReferenceValue *self = g_new0 (RlxReferenceValue, 1);
  const gint64 *shape = rlx_node_get_shape (node, &self->n_dims);

  self->data_type = rlx_node_get_data_type (node);
  self->n_elements = 1;
  for (gsize i = 0; i < self->n_dims; i++)
    {
      self->shape[i] = shape[i];
      self->n_elements *= (gsize) shape[i];
    }
  self->values = g_new0 (double, self->n_elements);
  self->bounds = g_new0 (double, self->n_elements);

  return self;
}

static RlxReferenceValue *
value_copy (const RlxReferenceValue *self)
{
  RlxReferenceValue *copy = g_new (RlxReferenceValue, 1);

  *copy = *self;
  copy->values = g_memdup2 (self->values, self->n_elements * sizeof (double));
  copy->bounds = g_memdup2 (self->bounds, self->n_elements * sizeof (double));

  return copy;
}

static double
decode_half (guint16 bits)
{
  double sign = bits & 0x8000 ? -1 : 1;
  int exponent = bits >> 10 & 0x1f;
  int mantissa = bits & 0x3ff;

  if (exponent == 31)
    return mantissa != 0 ? (double) NAN : sign * INFINITY;
  if (exponent == 0)
    return sign * ldexp (mantissa, -24);

  return sign * ldexp (1024 + mantissa, exponent - 25);
}

double
rlx_reference_round_f16 (double value)
{
  int exponent;
  double size = fabs (value);

  if (!isfinite (value) || value == 0)
    return value;
  if (size >= F16_OVERFLOW)
    return copysign (INFINITY, value);

  /* In units of the last place; nearbyint() takes ties to even. */
  frexp (size, &exponent);
  exponent = MAX (exponent, -13) - 11;

  return copysign (ldexp (nearbyint (ldexp (size, -exponent)), exponent), value);
}

double *
rlx_reference_decode (RlxTensor *tensor,
                      gsize     *n_elements)
{
  GBytes *bytes = rlx_tensor_get_bytes (tensor);
  RlxDataType data_type = rlx_tensor_get_data_type (tensor);
  const guint8 *data = g_bytes_get_data (bytes, NULL);
  gsize n = (gsize) rlx_tensor_get_n_elements (tensor);
  double *values = g_new0 (double, n);

#define DECODE(type, expression) \
  for (gsize i = 0; i < n; i++) \
    { \
      type x; \
      memcpy (&x, data + i * sizeof x, sizeof x); \
      values[i] = (double) (expression); \
    } \
  break

  switch (data_type)
    {
    case RLX_DATA_TYPE_F32: DECODE (float, x);
    case RLX_DATA_TYPE_F16: DECODE (guint16, decode_half (x));
    case RLX_DATA_TYPE_I32: DECODE (gint32, x);
    case RLX_DATA_TYPE_U32: DECODE (guint32, x);
    case RLX_DATA_TYPE_I8: DECODE (gint8, x);
    case RLX_DATA_TYPE_U8: DECODE (guint8, x);
    case RLX_DATA_TYPE_BOOL: DECODE (guint8, x != 0);
    case RLX_DATA_TYPE_I64: DECODE (gint64, x);
    case RLX_DATA_TYPE_U64: DECODE (guint64, x);
    case RLX_DATA_TYPE_I4:
    case RLX_DATA_TYPE_U4:
      for (gsize i = 0; i < n; i++)
        {
          int x = i % 2 == 0 ? data[i / 2] % 16 : data[i / 2] / 16;

          values[i] = data_type == RLX_DATA_TYPE_I4 && x > 7 ? x - 16 : x;
        }
      break;
    case RLX_DATA_TYPE_I16: DECODE (gint16, x);
    case RLX_DATA_TYPE_U16: DECODE (guint16, x);
    case RLX_DATA_TYPE_BF16: DECODE (guint16, rlx_reference_decode_narrow (data_type, x));
    case RLX_DATA_TYPE_F8E4M3FN:
    case RLX_DATA_TYPE_F8E4M3FNUZ:
    case RLX_DATA_TYPE_F8E5M2:
    case RLX_DATA_TYPE_F8E5M2FNUZ:
    case RLX_DATA_TYPE_F8E8M0: DECODE (guint8, rlx_reference_decode_narrow (data_type, x));
    case RLX_DATA_TYPE_F4E2M1:
      for (gsize i = 0; i < n; i++)
        values[i] = rlx_reference_decode_narrow (data_type, i % 2 == 0 ? data[i / 2] % 16 : data[i / 2] / 16);
      break;
    case RLX_DATA_TYPE_I2:
    case RLX_DATA_TYPE_U2:
      for (gsize i = 0; i < n; i++)
        {
          int x = data[i / 4] >> (i % 4 * 2) & 3;

          values[i] = data_type == RLX_DATA_TYPE_I2 && x > 1 ? x - 4 : x;
        }
      break;
    default: break;
    }
#undef DECODE

  if (n_elements != NULL)
    *n_elements = n;

  return values;
}

RlxReferenceValue *
rlx_reference_value_new_leaf (RlxNode    *leaf,
                              RlxTensor  *tensor,
                              GError    **error)
{
  RlxReferenceValue *self = value_new (leaf);
  gsize n_dims;
  const gint64 *shape = rlx_tensor_get_shape (tensor, &n_dims);

  if (rlx_tensor_get_data_type (tensor) != self->data_type || n_dims != self->n_dims ||
      (n_dims > 0 && memcmp (shape, self->shape, n_dims * sizeof (gint64)) != 0))
    {
      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_SHAPE, "Reference: the tensor for “%s” is not of its type and shape",
                   rlx_node_get_name (leaf) != NULL ? rlx_node_get_name (leaf) : rlx_node_get_op (leaf));
      rlx_reference_value_free (self);
      return NULL;
    }

  self->stored = self->leaf = TRUE;
  g_free (self->values);
  self->values = rlx_reference_decode (tensor, NULL);
  /* A device may flush subnormal numbers to zero. */
  for (gsize i = 0; self->data_type == RLX_DATA_TYPE_F32 && i < self->n_elements; i++)
    if (fabs (self->values[i]) < FLT_MIN)
      self->bounds[i] = fabs (self->values[i]);

  return self;
}

/* Those of a leaf, if the flags tell how a device treats them. */
static void
settle_subnormals (RlxReferenceValue *self,
                   RlxReferenceFlags  flags)
{
  if (self->data_type != RLX_DATA_TYPE_F32 || !(flags & (RLX_REFERENCE_KEEP | RLX_REFERENCE_FLUSH)))
    return;
  for (gsize i = 0; i < self->n_elements; i++)
    if (fabs (self->values[i]) < FLT_MIN)
      {
        self->bounds[i] = 0;
        if (flags & RLX_REFERENCE_FLUSH)
          self->values[i] = copysign (0, self->values[i]);
      }
}

RlxReferenceValue *
rlx_reference_value_new_state (const RlxReferenceValue *self)
{
  RlxReferenceValue *state = value_copy (self);

  state->stored = TRUE;
  state->leaf = FALSE;
  return state;
}

/* ---- rounding to the type of a result ----------------------------------------------- */

static void
finish_f32 (double            *value,
            double            *bound,
            RlxReferenceFlags  flags)
{
  double size = fabs (*value);

  if (!isfinite (*value))
    return;

  if (*value != 0 && size - *bound < FLT_MIN)
    *bound += flags & RLX_REFERENCE_KEEP ? (*bound > 0 ? 0x1p-149 : 0) : FLT_MIN;
  if (size - *bound >= F32_OVERFLOW)
    {
      *value = copysign (INFINITY, *value);
      *bound = 0;
    }
  else if (size + *bound >= F32_OVERFLOW)
    {
      *bound = INFINITY;
    }
}

/* The device computes in f32 and rounds when the result is stored. */
static void
finish_f16 (double            *value,
            double            *bound,
            RlxReferenceFlags  flags)
{
  double rounded;

  finish_f32 (value, bound, flags);
  if (!isfinite (*value))
    return;

  rounded = rlx_reference_round_f16 (*value);
  if (*bound > 0 || rounded != *value)
    {
      double size = fabs (*value), before = *bound;

      *bound += 0x1p-11 * (size + before) + 0x1p-25;
      if (size - before >= F16_OVERFLOW)
        *bound = 0;
      else if (size + before >= F16_OVERFLOW)
        *bound = INFINITY;
    }
  if (flags & RLX_REFERENCE_ROUND_F16 || fabs (*value) - *bound >= F16_OVERFLOW)
    *value = rounded;
}

/* Any number within its bounds is rounded to the nearest one of the type. */
static void
finish_narrow (RlxDataType data_type,
               double     *value,
               double     *bound)
{
  double low = rlx_reference_round_narrow (data_type, *value - *bound), high = rlx_reference_round_narrow (data_type, *value + *bound);
  double rounded = rlx_reference_round_narrow (data_type, *value);

  if (!isfinite (*bound) || isnan (low) != isnan (high))
    *bound = INFINITY;
  else if (*bound > 0 && low != high)
    *bound = isfinite (low) && isfinite (high) ? fmax (fabs (high - rounded), fabs (rounded - low)) : INFINITY;
  else
    *bound = 0;
  *value = rounded;
}

static void
finish (RlxReferenceValue *self,
        RlxReferenceFlags  flags)
{
  for (gsize i = 0; i < self->n_elements; i++)
    {
      if (isnan (self->bounds[i]))
        self->bounds[i] = INFINITY;
      if (self->data_type == RLX_DATA_TYPE_F32)
        finish_f32 (&self->values[i], &self->bounds[i], flags);
      else if (self->data_type == RLX_DATA_TYPE_F16)
        finish_f16 (&self->values[i], &self->bounds[i], flags);
      else if (rlx_reference_is_narrow (self->data_type))
        finish_narrow (self->data_type, &self->values[i], &self->bounds[i]);
    }
}

/* A fused kernel keeps an f16 value in f32, so that it is infinite only if it is stored.
 * NULL if that makes no difference. */
static RlxReferenceValue *
forget_f16_overflows (const RlxReferenceValue *self)
{
  RlxReferenceValue *copy = NULL;

  if (self->data_type != RLX_DATA_TYPE_F16 || self->stored)
    return NULL;

  for (gsize i = 0; i < self->n_elements; i++)
    if (isinf (self->values[i]) || fabs (self->values[i]) > F16_MAX)
      {
        if (copy == NULL)
          copy = value_copy (self);
        copy->bounds[i] = INFINITY;
      }

  return copy;
}

/* ---- sums of products ------------------------------------------------------------------ */

void
rlx_reference_size_add (RlxReferenceSize *self,
                        double            product)
{
  self->all += fabs (product);
  if (isfinite (product))
    self->finite += fabs (product);
}

double
rlx_reference_sum_bound (const RlxReferenceSize *size,
                         double                  error,
                         double                  k)
{
  /* Even with an infinity: one of the other sign makes it NaN. */
  if (size->finite >= 0x1p127)
    return INFINITY;
  /* An unknown operand times 0 has an error that is NaN. */
  if (!isfinite (size->all))
    return error == 0 ? 0 : INFINITY;

  return 2 * k * (RLX_F32_EPSILON * size->all + (size->all > 0 ? 0x1p-126 : 0)) + error;
}

double
rlx_reference_operand_bound (const RlxReferenceCall  *call,
                             const RlxReferenceValue *value,
                             gsize                    i)
{
  double size = fabs (value->values[i]) + value->bounds[i];

  if (!call->narrow || value->data_type == RLX_DATA_TYPE_F16 || size == 0 || isnan (value->values[i]))
    return value->bounds[i];
  if (size > 65504)
    return INFINITY;
  return value->bounds[i] + (size < 0x1p-14 ? size : 0x1p-11 * size);
}

/* ---- helpers of operators -------------------------------------------------------------- */

gint64
rlx_reference_get_int (RlxReferenceCall *call,
                       const char       *name)
{
  gint64 value = 0;

  g_variant_lookup (call->attributes, name, "x", &value);
  return value;
}

gboolean
rlx_reference_get_bool (RlxReferenceCall *call,
                        const char       *name)
{
  gboolean value = FALSE;

  g_variant_lookup (call->attributes, name, "b", &value);
  return value;
}

double
rlx_reference_get_float (RlxReferenceCall *call,
                         const char       *name)
{
  double value = 0;

  g_variant_lookup (call->attributes, name, "d", &value);
  return (float) value;
}

gboolean
rlx_reference_get_ints (RlxReferenceCall *call,
                        const char       *name,
                        gint64            values[RLX_MAX_DIMS],
                        gsize            *n_values)
{
  g_autoptr (GVariant) list = g_variant_lookup_value (call->attributes, name, G_VARIANT_TYPE ("ax"));
  const gint64 *numbers;

  *n_values = 0;
  if (list == NULL)
    return FALSE;

  numbers = g_variant_get_fixed_array (list, n_values, sizeof (gint64));
  for (gsize i = 0; i < *n_values && i < RLX_MAX_DIMS; i++)
    values[i] = numbers[i];

  return TRUE;
}

void
rlx_reference_get_axes (RlxReferenceCall *call,
                        const char       *name,
                        gsize             n_dims,
                        gboolean          axes[RLX_MAX_DIMS])
{
  gint64 list[RLX_MAX_DIMS];
  gsize n;

  memset (axes, 0, RLX_MAX_DIMS * sizeof (gboolean));
  rlx_reference_get_ints (call, name, list, &n);
  for (gsize i = 0; i < n; i++)
    axes[list[i] < 0 ? list[i] + (gint64) n_dims : list[i]] = TRUE;
}

const RlxReferenceValue *
rlx_reference_get_input (RlxReferenceCall *call,
                         gsize             index)
{
  return index < call->n_inputs ? call->inputs[index] : NULL;
}

gboolean
rlx_reference_next (gint64       *index,
                    const gint64 *shape,
                    gsize         n_dims)
{
  for (gsize i = n_dims; i-- > 0;)
    {
      if (++index[i] < shape[i])
        return TRUE;
      index[i] = 0;
    }

  return FALSE;
}

gsize
rlx_reference_position (const RlxReferenceValue *value,
                        const gint64            *index,
                        gsize                    n_dims)
{
  gsize position = 0;

  for (gsize i = 0; i < value->n_dims; i++)
    {
      gint64 here = index[n_dims - value->n_dims + i];

      position = position * (gsize) value->shape[i] + (value->shape[i] == 1 ? 0 : (gsize) here);
    }

  return position;
}

/* ---- the table ------------------------------------------------------------------------- */

static RlxReferenceFunc
find_row (const RlxReferenceRow *table,
          const char            *op)
{
  for (const RlxReferenceRow *row = table; row->op != NULL; row++)
    if (strcmp (row->op, op) == 0)
      return row->func;

  return NULL;
}

static RlxReferenceFunc
find_op (const char *op)
{
  static const RlxReferenceRow *const tables[] = {
    rlx_reference_attention,
    rlx_reference_contract,
    rlx_reference_complex,
    rlx_reference_fourier,
    rlx_reference_index,
    rlx_reference_linear,
    rlx_reference_neighbours,
    rlx_reference_normalise,
    rlx_reference_norms,
    rlx_reference_packed,
    rlx_reference_quantize,
    rlx_reference_random,
    rlx_reference_recurrent,
    rlx_reference_reduce,
    rlx_reference_loss,
    rlx_reference_resize,
    rlx_reference_sequence,
    rlx_reference_shape,
    rlx_reference_signal,
    rlx_reference_solve,
    rlx_reference_sort,
    rlx_reference_window,
  };

  if (strcmp (op, "cast") == 0)
    return rlx_reference_cast;
  if (rlx_reference_find_function (op) != NULL)
    return rlx_reference_elementwise;

  for (gsize i = 0; i < G_N_ELEMENTS (tables); i++)
    if (find_row (tables[i], op) != NULL)
      return find_row (tables[i], op);

  return NULL;
}

gboolean
rlx_reference_has_op (const char *op)
{
  g_return_val_if_fail (op != NULL, FALSE);

  return find_op (op) != NULL;
}

/* ---- the interpreter ---------------------------------------------------------------------- */

static RlxTensor *
find_parameter (const char        *name,
                const char *const *names,
                RlxTensor *const  *tensors,
                gsize              n)
{
  for (gsize i = 0; i < n; i++)
    if (strcmp (names[i], name) == 0)
      return tensors[i];

  return NULL;
}

typedef struct
{
  RlxGraph *graph;
  GHashTable *positions;        /* RlxNode → its index + 1 */
  RlxReferenceValue **values;   /* by index; NULL before its computation and after its last use */
  guint *n_users;
  RlxReferenceFlags flags;
} Interpreter;

static guint
get_position (Interpreter *self,
              RlxNode     *node)
{
  return GPOINTER_TO_UINT (g_hash_table_lookup (self->positions, node)) - 1;
}

/* Whether an operand is uncertain that an operator treats as exact: only these take
 * integers that may differ. */
static gboolean
is_uncertain (const RlxReferenceCall *call)
{
  if (rlx_reference_find_function (call->op) != NULL || strcmp (call->op, "cast") == 0 ||
      find_row (rlx_reference_shape, call->op) != NULL || find_row (rlx_reference_sort, call->op) != NULL)
    return FALSE;

  for (gsize i = 0; i < call->n_inputs; i++)
    for (gsize j = 0; call->inputs[i] != NULL && j < call->inputs[i]->n_elements; j++)
      if (!rlx_reference_is_float (call->inputs[i]->data_type) && call->inputs[i]->bounds[j] > 0)
        return TRUE;

  return FALSE;
}

RlxReferenceValue *
rlx_reference_value_new_result (RlxNode                        *result,
                                const RlxReferenceValue *const *inputs,
                                RlxReferenceFlags               flags,
                                GError                        **error)
{
  RlxReferenceFunc func = find_op (rlx_node_get_op (result));
  g_autofree const RlxReferenceValue **values = NULL;
  g_autoptr (GPtrArray) copies = g_ptr_array_new_with_free_func (rlx_reference_value_free);
  GVariant *attributes = rlx_node_get_attributes (result);
  gsize n_inputs;
  RlxReferenceCall call;

  rlx_node_get_inputs (result, &n_inputs);
  values = g_new0 (const RlxReferenceValue *, n_inputs + 1);
  call = (RlxReferenceCall) { rlx_node_get_op (result), attributes, values, n_inputs, NULL, rlx_node_get_result (result),
                              (flags & RLX_REFERENCE_NARROW) != 0, (flags & RLX_REFERENCE_BYTES) != 0 };

  if (func == NULL)
    {
      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_UNSUPPORTED,
                   "Reference: the operator “%s” is unknown", call.op);
      return NULL;
    }

  for (gsize i = 0; i < n_inputs; i++)
    if (inputs[i] != NULL)
      {
        RlxReferenceValue *copy = forget_f16_overflows (inputs[i]);

        values[i] = copy != NULL ? copy : inputs[i];
        if (copy != NULL)
          g_ptr_array_add (copies, copy);
      }
  call.output = value_new (result);
  func (&call);
  if (is_uncertain (&call))
    for (gsize i = 0; i < call.output->n_elements; i++)
      call.output->bounds[i] = INFINITY;
  finish (call.output, flags);

  return call.output;
}

static RlxReferenceValue *
run_operator (Interpreter  *self,
              RlxNode      *node,
              GError      **error)
{
  gsize n_inputs;
  RlxNode **inputs = rlx_node_get_inputs (node, &n_inputs);
  g_autofree const RlxReferenceValue **values = g_new0 (const RlxReferenceValue *, n_inputs + 1);
  RlxReferenceValue *result;

  for (gsize i = 0; i < n_inputs; i++)
    if (inputs[i] != NULL)
      values[i] = self->values[get_position (self, inputs[i])];
  result = rlx_reference_value_new_result (node, values, self->flags, error);

  /* Otherwise long graphs would not fit into memory. */
  for (gsize i = 0; i < n_inputs; i++)
    if (inputs[i] != NULL && --self->n_users[get_position (self, inputs[i])] == 0)
      g_clear_pointer (&self->values[get_position (self, inputs[i])], rlx_reference_value_free);

  return result;
}

static void
count_users (Interpreter *self,
             guint        n_nodes)
{
  for (guint i = 0; i < n_nodes; i++)
    {
      g_autoptr (RlxNode) node = g_list_model_get_item (G_LIST_MODEL (self->graph), i);
      gsize n_inputs;
      RlxNode **inputs = rlx_node_get_inputs (node, &n_inputs);

      g_hash_table_insert (self->positions, node, GUINT_TO_POINTER (i + 1));
      for (gsize j = 0; j < n_inputs; j++)
        if (inputs[j] != NULL)
          self->n_users[get_position (self, inputs[j])]++;
    }
}

GPtrArray *
rlx_reference_run (RlxGraph           *graph,
                   RlxTensor *const   *inputs,
                   gsize               n_inputs,
                   const char *const  *parameter_names,
                   RlxTensor *const   *parameters,
                   gsize               n_parameters,
                   RlxReferenceFlags   flags,
                   GError            **error)
{
  guint n_nodes = g_list_model_get_n_items (G_LIST_MODEL (graph));
  g_autoptr (GHashTable) positions = g_hash_table_new (NULL, NULL);
  g_autofree RlxReferenceValue **values = g_new0 (RlxReferenceValue *, n_nodes + 1);
  g_autofree guint *n_users = g_new0 (guint, n_nodes + 1);
  g_auto (GStrv) names = rlx_graph_dup_output_names (graph);
  g_autoptr (GPtrArray) outputs = g_ptr_array_new_with_free_func (rlx_reference_value_free);
  Interpreter self = { graph, positions, values, n_users, flags };
  gboolean ok;
  gsize next_input = 0;

  ok = rlx_graph_check (graph, error);
  count_users (&self, n_nodes);
  g_ptr_array_set_size (outputs, (int) g_strv_length (names));

  for (guint i = 0; ok && i < n_nodes; i++)
    {
      g_autoptr (RlxNode) node = g_list_model_get_item (G_LIST_MODEL (graph), i);
      const char *op = rlx_node_get_op (node), *name = rlx_node_get_name (node);
      gboolean leaf = TRUE;
      RlxTensor *tensor = NULL;

      if (strcmp (op, "input") == 0)
        tensor = next_input < n_inputs ? inputs[next_input++] : NULL;
      else if (strcmp (op, "parameter") == 0)
        tensor = find_parameter (name, parameter_names, parameters, n_parameters);
      else if (strcmp (op, "constant") == 0 || strcmp (op, "state") == 0)
        tensor = rlx_node_get_tensor (node);
      else
        leaf = FALSE;

      if (leaf && tensor == NULL)
        {
          g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_NOT_FOUND,
                       "Reference: no tensor is given for %s “%s”", op, name);
          ok = FALSE;
        }
      else
        {
          values[i] = leaf ? rlx_reference_value_new_leaf (node, tensor, error) : run_operator (&self, node, error);
          ok = values[i] != NULL;
          if (ok && leaf)
            settle_subnormals (values[i], flags);
        }
      if (!ok)
        break;

      for (guint j = 0; names[j] != NULL; j++)
        if (rlx_graph_get_output (graph, names[j]) == node)
          outputs->pdata[j] = value_copy (values[i]);

      if (n_users[i] == 0)
        g_clear_pointer (&values[i], rlx_reference_value_free);
    }

  for (guint i = 0; i < n_nodes; i++)
    rlx_reference_value_free (values[i]);

  return ok ? g_steal_pointer (&outputs) : NULL;
}

/* ---- comparing ---------------------------------------------------------------------------- */

static gboolean
is_same (double a,
         double b)
{
  return isnan (a) ? isnan (b) : a == b;
}

/* Infinity is not close to any number. */
static gboolean
is_within (const RlxReferenceValue *self,
           gsize                    at,
           double                   got)
{
  return is_same (self->values[at], got) ||
         (isfinite (self->values[at]) && fabs (got - self->values[at]) <= self->bounds[at]);
}

void
rlx_reference_value_relent (RlxReferenceValue       *self,
                            const RlxReferenceValue *other,
                            RlxTensor               *tensor)
{
  g_autofree double *values = NULL;

  if ((gsize) rlx_tensor_get_n_elements (tensor) != self->n_elements)
    return;
  values = rlx_reference_decode (tensor, NULL);
  for (gsize i = 0; i < self->n_elements; i++)
    if (isfinite (self->bounds[i]) && !is_within (self, i, values[i]) && is_within (other, i, values[i]))
      {
        self->values[i] = other->values[i];
        self->bounds[i] = other->bounds[i];
      }
}

gboolean
rlx_reference_value_check (const RlxReferenceValue *self,
                           RlxTensor               *tensor,
                           RlxReferenceCheck       *check)
{
  g_autofree double *values = NULL;
  gsize n_dims;
  const gint64 *shape = rlx_tensor_get_shape (tensor, &n_dims);

  memset (check, 0, sizeof *check);
  if (rlx_tensor_get_data_type (tensor) != self->data_type || n_dims != self->n_dims ||
      (n_dims > 0 && memcmp (shape, self->shape, n_dims * sizeof (gint64)) != 0))
    {
      check->n_wrong = MAX (self->n_elements, 1);
      return FALSE;
    }

  values = rlx_reference_decode (tensor, NULL);
  for (gsize i = 0; i < self->n_elements; i++)
    {
      double expected = self->values[i], got = values[i], bound = self->bounds[i];
      gboolean same = is_same (expected, got);
      double error = same ? 0 : fabs (got - expected);
      double ratio;

      if (isinf (bound))
        {
          check->n_unknown++;
          continue;
        }

      if (!is_within (self, i, got))
        {
          if (check->n_wrong == 0)
            {
              check->first_wrong = i;
              check->expected = expected;
              check->got = got;
              check->bound = bound;
            }
          check->n_wrong++;
        }

      ratio = same ? 0 : bound > 0 ? error / bound : INFINITY;
      check->max_error = fmax (check->max_error, isnan (error) ? INFINITY : error);
      check->max_bound = fmax (check->max_bound, bound);
      if (ratio > check->max_ratio || isnan (ratio))
        {
          check->max_ratio = isnan (ratio) ? INFINITY : ratio;
          if (check->n_wrong == 0)
            {
              check->expected = expected;
              check->got = got;
              check->bound = bound;
            }
        }
    }

  return check->n_wrong == 0;
}
