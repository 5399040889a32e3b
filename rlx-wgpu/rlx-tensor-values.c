/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * The elements of tensors as numbers: from them, to them, and as text.
 */
#include "config.h"

#include "rlx-tensor-private.h"

#include "util/rlx-checked-private.h"
#include "util/rlx-element-private.h"
#include "util/rlx-half-private.h"
#include "util/rlx-narrow-private.h"

#include <math.h>
#include <string.h>

/* The number of elements that rlx_tensor_to_string() shows. */
#define MAX_SHOWN 1000

/* ---- tensors of numbers --------------------------------------------------- */

static gboolean
check_count (RlxDataType    data_type,
             const gint64  *shape,
             gsize          n_dims,
             gsize          given,
             gsize         *size,
             GError       **error)
{
  guint64 n_elements;

  if (!rlx_shape_n_bytes (data_type, shape, n_dims, &n_elements, size, error))
    return FALSE;

  if (given != n_elements)
    {
      g_autofree char *text = rlx_shape_to_string (shape, n_dims);

      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_SHAPE,
                   "The shape %s has %" G_GUINT64_FORMAT " elements, but %" G_GSIZE_FORMAT " values were given",
                   text, n_elements, given);
      return FALSE;
    }

  return TRUE;
}

/**
 * rlx_tensor_new_from_floats:
 * @shape: (array length=n_dims) (nullable): the size of each dimension
 * @n_dims: the number of dimensions; 0 makes a scalar
 * @values: (array length=n_values) (nullable): the elements
 * @n_values: the number of elements
 * @error: where to store an error
 *
 * Creates a tensor of type `f32`.
 *
 * This is meant for literals and small arrays.
 *
 * Returns: (transfer full): a new tensor, or %NULL with an error
 *
 * Since: 1.0
 */
RlxTensor *
rlx_tensor_new_from_floats (const gint64  *shape,
                            gsize          n_dims,
                            const float   *values,
                            gsize          n_values,
                            GError       **error)
{
  gsize size;

  g_return_val_if_fail (shape != NULL || n_dims == 0, NULL);
  g_return_val_if_fail (values != NULL || n_values == 0, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (!check_count (RLX_DATA_TYPE_F32, shape, n_dims, n_values, &size, error))
    return NULL;

  return rlx_tensor_new_from_data (RLX_DATA_TYPE_F32, shape, n_dims,
                                   (const guint8 *) values, size, error);
}

/**
 * rlx_tensor_new_from_ints:
 * @data_type: the type of the elements
 * @shape: (array length=n_dims) (nullable): the size of each dimension
 * @n_dims: the number of dimensions; 0 makes a scalar
 * @values: (array length=n_values) (nullable): the elements
 * @n_values: the number of elements
 * @error: where to store an error
 *
 * Creates a tensor of any type from integers.
 *
 * A value outside the range of @data_type is an error; for `bool` the range is 0 and 1.
 * Float types round to the nearest number they can represent: integers above 2²⁴ (`f32`),
 * 2¹¹ (`f16`) or 2⁸ (`bf16`) may be rounded, and even smaller ones in 8-bit and 4-bit
 * types.
 *
 * This is meant for literals and small arrays.
 *
 * Returns: (transfer full): a new tensor, or %NULL with an error
 *
 * Since: 1.0
 */
RlxTensor *
rlx_tensor_new_from_ints (RlxDataType    data_type,
                          const gint64  *shape,
                          gsize          n_dims,
                          const gint64  *values,
                          gsize          n_values,
                          GError       **error)
{
  g_autoptr(GBytes) bytes = NULL;
  guint8 *data;
  gsize size;
  gint64 min;
  guint64 max;

  g_return_val_if_fail (shape != NULL || n_dims == 0, NULL);
  g_return_val_if_fail (values != NULL || n_values == 0, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (!check_count (data_type, shape, n_dims, n_values, &size, error))
    return NULL;

  rlx_element_get_int_range (data_type, &min, &max);
  for (gsize i = 0; i < n_values; i++)
    {
      if (values[i] < min || (values[i] > 0 && (guint64) values[i] > max))
        {
          g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                       "The value %" G_GINT64_FORMAT " at index %" G_GSIZE_FORMAT
                       " is outside the range of %s, %" G_GINT64_FORMAT " to %" G_GUINT64_FORMAT,
                       values[i], i, rlx_data_type_to_string (data_type), min, max);
          return NULL;
        }
    }

  data = rlx_try_alloc (size, error);
  if (data == NULL)
    return NULL;
  /* The upper bits of the last byte may not belong to an element. */
  if (size > 0)
    data[size - 1] = 0;

  for (gsize i = 0; i < n_values; i++)
    rlx_element_set_int (data_type, data, i, values[i]);

  bytes = g_bytes_new_take (data, size);

  return rlx_tensor_new_from_bytes (data_type, shape, n_dims, bytes, error);
}

/* FALSE if the type cannot represent the value. */
static gboolean
set_double (RlxDataType data_type,
            gpointer    data,
            gsize       index,
            double      value)
{
  gint64 min;
  guint64 max;

  if (data_type == RLX_DATA_TYPE_F32)
    {
      ((float *) data)[index] = (float) value;
      return isfinite (((float *) data)[index]) || !isfinite (value);
    }
  if (data_type == RLX_DATA_TYPE_F16)
    {
      ((guint16 *) data)[index] = rlx_half_from_double (value);
      return (((guint16 *) data)[index] & 0x7c00) != 0x7c00 || !isfinite (value);
    }
  if (rlx_data_type_is_narrow (data_type))
    {
      rlx_element_set_narrow (data_type, data, index, value);
      return rlx_narrow_fits (data_type, value);
    }

  /* The upper limits of 64 bits are not doubles; the powers of two above them are. A NaN
   * fails the comparisons. */
  if (data_type == RLX_DATA_TYPE_U64)
    {
      if (!(value >= 0.0 && value < 0x1p64 && (double) (guint64) value == value))
        return FALSE;
      ((guint64 *) data)[index] = (guint64) value;
      return TRUE;
    }
  rlx_element_get_int_range (data_type, &min, &max);
  if (!(value >= (double) min && (data_type == RLX_DATA_TYPE_I64 ? value < 0x1p63 : value <= (double) max) &&
        (double) (gint64) value == value))
    return FALSE;
  rlx_element_set_int (data_type, data, index, (gint64) value);
  return TRUE;
}

static gboolean
refuse_value (RlxDataType data_type,
              double      value,
              GError    **error)
{
  char buffer[G_ASCII_DTOSTR_BUF_SIZE];

  g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "The value %s cannot be represented in type %s",
               g_ascii_dtostr (buffer, sizeof buffer, value), rlx_data_type_to_string (data_type));
  return FALSE;
}

/**
 * rlx_tensor_new_from_doubles:
 * @data_type: the type of the elements
 * @shape: (array length=n_dims) (nullable): the size of each dimension
 * @n_dims: the number of dimensions; 0 makes a scalar
 * @values: (array length=n_values) (nullable): the elements
 * @n_values: the number of elements
 * @error: where to store an error
 *
 * Creates a tensor of any type from numbers.
 *
 * The values allowed for each type are those of [ctor@Rlx.Tensor.new_scalar].
 *
 * This is meant for literals and small arrays.
 *
 * Returns: (transfer full): a new tensor, or %NULL with an error
 *
 * Since: 1.0
 */
RlxTensor *
rlx_tensor_new_from_doubles (RlxDataType    data_type,
                             const gint64  *shape,
                             gsize          n_dims,
                             const double  *values,
                             gsize          n_values,
                             GError       **error)
{
  g_autofree guint8 *data = NULL;
  g_autoptr(GBytes) bytes = NULL;
  gsize size;

  g_return_val_if_fail (shape != NULL || n_dims == 0, NULL);
  g_return_val_if_fail (values != NULL || n_values == 0, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (!check_count (data_type, shape, n_dims, n_values, &size, error))
    return NULL;
  data = rlx_try_alloc (size, error);
  if (data == NULL)
    return NULL;
  /* The upper bits of the last byte may not belong to an element. */
  if (size > 0)
    data[size - 1] = 0;
  for (gsize i = 0; i < n_values; i++)
    if (!set_double (data_type, data, i, values[i]))
      {
        refuse_value (data_type, values[i], error);
        return NULL;
      }
  bytes = g_bytes_new_take (g_steal_pointer (&data), size);
  return rlx_tensor_new_from_bytes (data_type, shape, n_dims, bytes, error);
}

/**
 * rlx_tensor_new_scalar:
 * @data_type: the type of the element
 * @value: the value
 * @error: where to store an error
 *
 * Creates a scalar: a tensor without dimensions, with one element.
 *
 * For an integer type, @value must be a whole number in the range of the type; for
 * `bool`, it must be 0 or 1. Float types round to the nearest number they can
 * represent; a finite value that would become infinite or much smaller is an error.
 *
 * Returns: (transfer full): a new tensor, or %NULL with an error
 *
 * Since: 1.0
 */
RlxTensor *
rlx_tensor_new_scalar (RlxDataType   data_type,
                       double        value,
                       GError      **error)
{
  union
  {
    guint64 u64;
    guint8 bytes[8];
  } element = { .u64 = 0 };

  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (!rlx_data_type_check (data_type, error))
    return NULL;
  if (!set_double (data_type, element.bytes, 0, value))
    {
      refuse_value (data_type, value, error);
      return NULL;
    }
  return rlx_tensor_new_from_data (data_type, NULL, 0, element.bytes, MAX (1, rlx_data_type_get_size (data_type)), error);
}

/* ---- values ------------------------------------------------------------- */

/**
 * rlx_tensor_to_floats:
 * @self: a tensor
 * @n_values: (out): where to store the number of elements
 * @error: where to store an error
 *
 * Converts the elements of a tensor of any type to floats.
 *
 * Integers that a float cannot represent are rounded to the nearest one that it can.
 *
 * The array is a copy; large tensors are better read with
 * [method@Rlx.Tensor.get_bytes].
 *
 * Returns: (array length=n_values) (transfer full): the elements, or %NULL with
 *   an error if there is no memory for them
 *
 * Since: 1.0
 */
float *
rlx_tensor_to_floats (RlxTensor *self,
                      gsize     *n_values,
                      GError   **error)
{
  gsize n, size;
  float *values;

  g_return_val_if_fail (n_values != NULL, NULL);

  *n_values = 0;

  g_return_val_if_fail (RLX_IS_TENSOR (self), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (!rlx_tensor_fetch (self, NULL, error))
    return NULL;

  n = (gsize) self->n_elements;
  if (!rlx_mul_size (n, sizeof (float), &size))
    size = G_MAXSIZE;

  values = rlx_try_alloc (size, error);
  if (values == NULL)
    return NULL;

  if (self->data_type == RLX_DATA_TYPE_F32)
    memcpy (values, self->data, size);
  else if (self->data_type == RLX_DATA_TYPE_F16)
    rlx_half_to_floats (self->data, values, n);
  else
    for (gsize i = 0; i < n; i++)
      values[i] = rlx_element_get_float (self->data_type, self->data, i);

  *n_values = n;

  return values;
}

/**
 * rlx_tensor_to_ints:
 * @self: a tensor
 * @n_values: (out): where to store the number of elements
 * @error: where to store an error
 *
 * Converts the elements of a tensor of any type to integers.
 *
 * Floats lose their fraction, NaN becomes 0, and values outside the range of 64-bit
 * signed integers are clamped.
 *
 * The array is a copy; large tensors are better read with
 * [method@Rlx.Tensor.get_bytes].
 *
 * Returns: (array length=n_values) (transfer full): the elements, or %NULL with
 *   an error if there is no memory for them
 *
 * Since: 1.0
 */
gint64 *
rlx_tensor_to_ints (RlxTensor *self,
                    gsize     *n_values,
                    GError   **error)
{
  gsize n, size;
  gint64 *values;

  g_return_val_if_fail (n_values != NULL, NULL);

  *n_values = 0;

  g_return_val_if_fail (RLX_IS_TENSOR (self), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (!rlx_tensor_fetch (self, NULL, error))
    return NULL;

  n = (gsize) self->n_elements;
  if (!rlx_mul_size (n, sizeof (gint64), &size))
    size = G_MAXSIZE;

  values = rlx_try_alloc (size, error);
  if (values == NULL)
    return NULL;

  for (gsize i = 0; i < n; i++)
    values[i] = rlx_element_get_int (self->data_type, self->data, i);

  *n_values = n;

  return values;
}

/**
 * rlx_tensor_get_value:
 * @self: a tensor
 * @index: the index of an element, counted in row-major order
 *
 * Gets one element of a tensor of any type.
 *
 * 64-bit integers above 2⁵³ may be rounded. An index that is negative or not below
 * [method@Rlx.Tensor.get_n_elements] is a programmer error.
 *
 * Returns: the value, or NaN if the tensor cannot be fetched from its device
 *
 * Since: 1.0
 */
double
rlx_tensor_get_value (RlxTensor *self,
                      gint64     index)
{
  g_return_val_if_fail (RLX_IS_TENSOR (self), NAN);
  g_return_val_if_fail (index >= 0 && (guint64) index < self->n_elements, NAN);

  if (!rlx_tensor_fetch (self, NULL, NULL))
    return NAN;
  return rlx_element_get_double (self->data_type, self->data, (gsize) index);
}

/**
 * rlx_tensor_to_string:
 * @self: a tensor
 *
 * Writes the elements as text, for display.
 *
 * The elements are listed flat, whatever the shape, as in `[4, 5, 0, 0]`; a scalar has
 * no brackets. The text does not depend on the locale. Floats have as many digits as
 * are needed to tell them from their neighbours. After a thousand elements, an ellipsis
 * stands for the rest. If the tensor cannot be fetched from its device, the text says
 * why.
 *
 * Returns: (transfer full): the text
 *
 * Since: 1.0
 */
char *
rlx_tensor_to_string (RlxTensor *self)
{
  g_autoptr(GError) error = NULL;
  GString *text;
  gsize n_shown;

  g_return_val_if_fail (RLX_IS_TENSOR (self), NULL);

  if (!rlx_tensor_fetch (self, NULL, &error))
    return g_strdup_printf ("(%s)", error->message);

  n_shown = (gsize) MIN (self->n_elements, MAX_SHOWN);
  text = g_string_new (self->n_dims > 0 ? "[" : NULL);

  for (gsize i = 0; i < n_shown; i++)
    {
      if (i > 0)
        g_string_append (text, ", ");
      rlx_element_append (text, self->data_type, self->data, i);
    }

  if (n_shown < self->n_elements)
    g_string_append (text, ", …");
  if (self->n_dims > 0)
    g_string_append_c (text, ']');

  return g_string_free (text, FALSE);
}
