/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-tensor.h"

#include "rlx-device.h"
#include "rlx-enum-types.h"
#include "rlx-resident-private.h"
#include "rlx-tensor-device-private.h"
#include "util/rlx-checked-private.h"

#include <string.h>

/**
 * RlxTensor:
 *
 * An array of numbers, in the computer's memory or on a device.
 *
 * A tensor has a data type, a shape, and elements, which are stored without gaps in
 * row-major order. Constants and parameters of graphs are tensors, and so are the
 * inputs and outputs of a run.
 *
 * A tensor never changes, so threads can share it freely. It gets its contents from one
 * of the constructors.
 *
 * The elements are best passed as [struct@GLib.Bytes], which are not copied.
 * [ctor@Rlx.Tensor.new_from_floats] and [ctor@Rlx.Tensor.new_from_ints] are meant for
 * literals and small arrays; language bindings convert their arguments element by
 * element.
 *
 * Tensors that [method@Rlx.Executable.run_on_device] and [method@Rlx.Device.upload]
 * return are stored on a device. Executables on that device can use them as inputs
 * without a detour through the computer's memory. [method@Rlx.Tensor.fetch] copies the
 * elements to the computer's memory, can be cancelled and reports errors; functions
 * like [method@Rlx.Tensor.get_bytes] do so implicitly, and block.
 *
 * A tensor created by `g_object_new()` has type `f32` and shape `[0]`.
 *
 * Since: 1.0
 */

enum
{
  PROP_0,
  PROP_DATA_TYPE,
  PROP_N_DIMS,
  PROP_N_ELEMENTS,
  PROP_SIZE,
  PROP_BYTES,
  PROP_DEVICE,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

G_DEFINE_FINAL_TYPE (RlxTensor, rlx_tensor, G_TYPE_OBJECT)

/* The address of an empty tensor's elements: GBytes has NULL, which must not be passed
 * to memcpy() or numpy. */
static const guint64 no_elements[1];

/* ---- the object --------------------------------------------------------- */

static void
rlx_tensor_finalize (GObject *object)
{
  RlxTensor *self = RLX_TENSOR (object);

  rlx_resident_forget (self);
  g_clear_pointer (&self->bytes, g_bytes_unref);
  g_clear_pointer (&self->memory, rlx_tensor_memory_unref);

  G_OBJECT_CLASS (rlx_tensor_parent_class)->finalize (object);
}

static void
rlx_tensor_get_property (GObject    *object,
                         guint       prop_id,
                         GValue     *value,
                         GParamSpec *pspec)
{
  RlxTensor *self = RLX_TENSOR (object);

  switch (prop_id)
    {
    case PROP_DATA_TYPE:
      g_value_set_enum (value, self->data_type);
      break;

    case PROP_N_DIMS:
      g_value_set_uint (value, self->n_dims);
      break;

    case PROP_N_ELEMENTS:
      g_value_set_int64 (value, (gint64) self->n_elements);
      break;

    case PROP_SIZE:
      g_value_set_uint64 (value, self->size);
      break;

    case PROP_BYTES:
      g_value_set_boxed (value, rlx_tensor_get_bytes (self));
      break;

    case PROP_DEVICE:
      g_value_set_object (value, rlx_tensor_get_device (self));
      break;

    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, prop_id, pspec);
      break;
    }
}

static void
rlx_tensor_class_init (RlxTensorClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

  object_class->finalize = rlx_tensor_finalize;
  object_class->get_property = rlx_tensor_get_property;

  /**
   * RlxTensor:data-type: (getter get_data_type)
   *
   * The type of the elements.
   *
   * Since: 1.0
   */
  properties[PROP_DATA_TYPE] =
    g_param_spec_enum ("data-type", NULL, NULL, RLX_TYPE_DATA_TYPE, RLX_DATA_TYPE_F32, flags);

  /**
   * RlxTensor:n-dims: (getter get_n_dims)
   *
   * The number of dimensions; 0 for a scalar.
   *
   * Since: 1.0
   */
  properties[PROP_N_DIMS] =
    g_param_spec_uint ("n-dims", NULL, NULL, 0, RLX_MAX_DIMS, 0, flags);

  /**
   * RlxTensor:n-elements: (getter get_n_elements)
   *
   * The number of elements.
   *
   * Since: 1.0
   */
  properties[PROP_N_ELEMENTS] =
    g_param_spec_int64 ("n-elements", NULL, NULL, 0, G_MAXINT64, 0, flags);

  /**
   * RlxTensor:size: (getter get_size)
   *
   * The size of the elements in bytes.
   *
   * Since: 1.0
   */
  properties[PROP_SIZE] =
    g_param_spec_uint64 ("size", NULL, NULL, 0, G_MAXUINT64, 0, flags);

  /**
   * RlxTensor:bytes: (getter get_bytes)
   *
   * The elements; see [method@Rlx.Tensor.get_bytes].
   *
   * Since: 1.0
   */
  properties[PROP_BYTES] =
    g_param_spec_boxed ("bytes", NULL, NULL, G_TYPE_BYTES, flags);

  /**
   * RlxTensor:device: (getter get_device)
   *
   * The device that holds it, if any.
   *
   * Since: 1.0
   */
  properties[PROP_DEVICE] =
    g_param_spec_object ("device", NULL, NULL, RLX_TYPE_DEVICE, flags);

  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
rlx_tensor_init (RlxTensor *self)
{
  static guint64 n_tensors;

  self->serial = __atomic_add_fetch (&n_tensors, 1, __ATOMIC_RELAXED);
  self->data_type = RLX_DATA_TYPE_F32;
  self->n_dims = 1;
  self->bytes = g_bytes_new_static (NULL, 0);
  self->data = no_elements;
}

/* Everything has been checked, and @bytes (transfer full) is aligned. */
RlxTensor *
rlx_tensor_new_unchecked (RlxDataType   data_type,
                      const gint64 *shape,
                      gsize         n_dims,
                      guint64       n_elements,
                      GBytes       *bytes)
{
  RlxTensor *self = g_object_new (RLX_TYPE_TENSOR, NULL);

  self->data_type = data_type;
  self->n_dims = (guint) n_dims;
  for (gsize i = 0; i < n_dims; i++)
    self->shape[i] = shape[i];
  for (gsize i = n_dims; i < RLX_MAX_DIMS; i++)
    self->shape[i] = 0;
  self->n_elements = n_elements;

  self->size = (gsize) rlx_divide_up (n_elements * rlx_data_type_get_bits (data_type), 8);
  g_bytes_unref (self->bytes);
  self->bytes = bytes;
  if (n_elements > 0 && bytes != NULL)
    self->data = g_bytes_get_data (bytes, NULL);

  return self;
}

/* The bits of the last byte that belong to elements; the upper ones may not. */
static guint8
last_byte_mask (RlxDataType data_type,
                guint64     n_elements)
{
  guint bits = (guint) (n_elements % 8 * rlx_data_type_get_bits (data_type) % 8);

  return bits == 0 ? 0xff : (guint8) ((1u << bits) - 1);
}

/* Whether memory from outside can be used as it is. */
static gboolean
data_is_usable (RlxDataType   data_type,
                const guint8 *data,
                gsize         size,
                guint64       n_elements)
{
  if ((guintptr) data % MAX (1, rlx_data_type_get_size (data_type)) != 0)
    return FALSE;

  /* Unused bits must not make equal tensors differ. */
  if (size > 0 && (data[size - 1] & ~last_byte_mask (data_type, n_elements)) != 0)
    return FALSE;

  /* Kernels rely on a bool being 0 or 1. */
  if (data_type == RLX_DATA_TYPE_BOOL)
    {
      for (gsize i = 0; i < size; i++)
        if (data[i] > 1)
          return FALSE;
    }

  return TRUE;
}

static GBytes *
copy_data (RlxDataType    data_type,
           gconstpointer  data,
           gsize          size,
           guint64        n_elements,
           GError       **error)
{
  guint8 *copy = rlx_try_alloc (size, error);

  if (copy == NULL)
    return NULL;

  if (size > 0)
    memcpy (copy, data, size);

  if (data_type == RLX_DATA_TYPE_BOOL)
    {
      for (gsize i = 0; i < size; i++)
        copy[i] = copy[i] != 0;
    }
  if (size > 0)
    copy[size - 1] &= last_byte_mask (data_type, n_elements);

  return g_bytes_new_take (copy, size);
}

static gboolean
check_size (RlxDataType    data_type,
            const gint64  *shape,
            gsize          n_dims,
            gsize          given,
            guint64       *n_elements,
            GError       **error)
{
  gsize size;

  if (!rlx_shape_n_bytes (data_type, shape, n_dims, n_elements, &size, error))
    return FALSE;

  if (given != size)
    {
      g_autofree char *text = rlx_shape_to_string (shape, n_dims);

      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_SHAPE,
                   "The shape %s of type %s takes %" G_GSIZE_FORMAT " bytes, but %" G_GSIZE_FORMAT " were given",
                   text, rlx_data_type_to_string (data_type), size, given);
      return FALSE;
    }

  return TRUE;
}

/* ---- constructors ------------------------------------------------------- */

/**
 * rlx_tensor_new_from_bytes:
 * @data_type: the type of the elements
 * @shape: (array length=n_dims) (nullable): the size of each dimension
 * @n_dims: the number of dimensions; 0 makes a scalar
 * @bytes: the elements, in the computer's byte order
 * @error: where to store an error
 *
 * Creates a tensor from [struct@GLib.Bytes].
 *
 * The bytes are referenced, not copied, unless they are not aligned for @data_type. In
 * a tensor of type `bool`, each byte that is not 0 counts as 1; if there are bytes
 * other than 0 and 1, a cleaned copy is used. The same applies to unused bits of the
 * last byte, which count as 0.
 *
 * The number of bytes must be exactly what the shape needs.
 *
 * Returns: (transfer full): a new tensor, or %NULL with an error
 *
 * Since: 1.0
 */
RlxTensor *
rlx_tensor_new_from_bytes (RlxDataType    data_type,
                           const gint64  *shape,
                           gsize          n_dims,
                           GBytes        *bytes,
                           GError       **error)
{
  GBytes *kept;
  gconstpointer data;
  gsize size;
  guint64 n_elements;

  g_return_val_if_fail (shape != NULL || n_dims == 0, NULL);
  g_return_val_if_fail (bytes != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  data = g_bytes_get_data (bytes, &size);

  if (!check_size (data_type, shape, n_dims, size, &n_elements, error))
    return NULL;

  if (data_is_usable (data_type, data, size, n_elements))
    kept = g_bytes_ref (bytes);
  else
    kept = copy_data (data_type, data, size, n_elements, error);

  if (kept == NULL)
    return NULL;

  return rlx_tensor_new_unchecked (data_type, shape, n_dims, n_elements, kept);
}

/**
 * rlx_tensor_new_from_data:
 * @data_type: the type of the elements
 * @shape: (array length=n_dims) (nullable): the size of each dimension
 * @n_dims: the number of dimensions; 0 makes a scalar
 * @data: (array length=n_data) (nullable): the elements, in the computer's byte order
 * @n_data: the number of bytes
 * @error: where to store an error
 *
 * Creates a tensor from a copy of some bytes.
 *
 * The number of bytes must be exactly what the shape needs.
 *
 * Returns: (transfer full): a new tensor, or %NULL with an error
 *
 * Since: 1.0
 */
RlxTensor *
rlx_tensor_new_from_data (RlxDataType    data_type,
                          const gint64  *shape,
                          gsize          n_dims,
                          const guint8  *data,
                          gsize          n_data,
                          GError       **error)
{
  GBytes *bytes;
  guint64 n_elements;

  g_return_val_if_fail (shape != NULL || n_dims == 0, NULL);
  g_return_val_if_fail (data != NULL || n_data == 0, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (!check_size (data_type, shape, n_dims, n_data, &n_elements, error))
    return NULL;

  bytes = copy_data (data_type, data, n_data, n_elements, error);
  if (bytes == NULL)
    return NULL;

  return rlx_tensor_new_unchecked (data_type, shape, n_dims, n_elements, bytes);
}

/* ---- getters ------------------------------------------------------------ */

/**
 * rlx_tensor_get_data_type: (get-property data-type)
 * @self: a tensor
 *
 * Gets the type of the elements.
 *
 * Returns: the data type
 *
 * Since: 1.0
 */
RlxDataType
rlx_tensor_get_data_type (RlxTensor *self)
{
  g_return_val_if_fail (RLX_IS_TENSOR (self), RLX_DATA_TYPE_F32);

  return self->data_type;
}

/**
 * rlx_tensor_get_n_dims: (get-property n-dims)
 * @self: a tensor
 *
 * Gets the number of dimensions.
 *
 * Returns: the number of dimensions, 0 for a scalar
 *
 * Since: 1.0
 */
guint
rlx_tensor_get_n_dims (RlxTensor *self)
{
  g_return_val_if_fail (RLX_IS_TENSOR (self), 0);

  return self->n_dims;
}

/**
 * rlx_tensor_get_shape:
 * @self: a tensor
 * @n_dims: (out) (optional): where to store the number of dimensions
 *
 * Gets the size of each dimension.
 *
 * Returns: (array length=n_dims) (transfer none): the shape; valid as long as
 *   the tensor
 *
 * Since: 1.0
 */
const gint64 *
rlx_tensor_get_shape (RlxTensor *self,
                      gsize     *n_dims)
{
  if (n_dims != NULL)
    *n_dims = 0;

  g_return_val_if_fail (RLX_IS_TENSOR (self), NULL);

  if (n_dims != NULL)
    *n_dims = self->n_dims;

  return self->shape;
}

/**
 * rlx_tensor_get_n_elements: (get-property n-elements)
 * @self: a tensor
 *
 * Gets the number of elements: the product of the shape, 1 for a scalar.
 *
 * Returns: the number of elements
 *
 * Since: 1.0
 */
gint64
rlx_tensor_get_n_elements (RlxTensor *self)
{
  g_return_val_if_fail (RLX_IS_TENSOR (self), 0);

  return (gint64) self->n_elements;
}

/**
 * rlx_tensor_get_size: (get-property size)
 * @self: a tensor
 *
 * Gets the size of the elements in bytes.
 *
 * Returns: the number of bytes
 *
 * Since: 1.0
 */
gsize
rlx_tensor_get_size (RlxTensor *self)
{
  g_return_val_if_fail (RLX_IS_TENSOR (self), 0);

  return self->size;
}

/**
 * rlx_tensor_get_bytes: (get-property bytes)
 * @self: a tensor
 *
 * Gets the elements, in the computer's byte order and in row-major order.
 *
 * Nothing is copied. Take a reference with [method@GLib.Bytes.ref] to keep the bytes
 * longer than the tensor.
 *
 * Elements that are only on a device are fetched first, which blocks; see
 * [method@Rlx.Tensor.fetch].
 *
 * Returns: (transfer none) (nullable): the elements, or %NULL if they could not be fetched
 *
 * Since: 1.0
 */
GBytes *
rlx_tensor_get_bytes (RlxTensor *self)
{
  g_return_val_if_fail (RLX_IS_TENSOR (self), NULL);

  return rlx_tensor_fetch (self, NULL, NULL) ? self->bytes : NULL;
}

gconstpointer
rlx_tensor_peek_data (RlxTensor *self)
{
  return self->data;
}

/* ---- methods ------------------------------------------------------------ */

/**
 * rlx_tensor_reshape:
 * @self: a tensor
 * @shape: (array length=n_dims) (nullable): the size of each dimension; one may be -1,
 *   and is then computed from the number of elements
 * @n_dims: the number of dimensions
 * @error: where to store an error
 *
 * Creates a tensor with the same elements and another shape.
 *
 * The elements are shared, not copied. Their number must not change.
 *
 * Returns: (transfer full): a new tensor, or %NULL with an error
 *
 * Since: 1.0
 */
RlxTensor *
rlx_tensor_reshape (RlxTensor     *self,
                    const gint64  *shape,
                    gsize          n_dims,
                    GError       **error)
{
  gint64 dims[RLX_MAX_DIMS];
  gsize inferred = RLX_MAX_DIMS;
  gsize rank = MIN (n_dims, RLX_MAX_DIMS);
  guint64 n_elements;
  GBytes *bytes;
  RlxTensor *reshaped;

  g_return_val_if_fail (RLX_IS_TENSOR (self), NULL);
  g_return_val_if_fail (shape != NULL || n_dims == 0, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  for (gsize i = 0; i < rank; i++)
    {
      dims[i] = shape[i];
      /* Only the first: a second -1 stays and is rejected as a negative size. */
      if (dims[i] == -1 && inferred == RLX_MAX_DIMS)
        {
          inferred = i;
          dims[i] = 1;
        }
    }

  /* With the true rank, so that one above the limit is rejected before any dimension is
   * read. */
  if (!rlx_shape_n_elements (dims, n_dims, &n_elements, error))
    return NULL;

  if (inferred < RLX_MAX_DIMS && n_elements > 0 && self->n_elements % n_elements == 0)
    {
      dims[inferred] = (gint64) (self->n_elements / n_elements);
      n_elements = self->n_elements;
    }
  else if (inferred < RLX_MAX_DIMS)
    {
      g_autofree char *text = rlx_shape_to_string (shape, n_dims);

      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_SHAPE,
                   "The dimension of -1 in the shape %s cannot be inferred from %" G_GUINT64_FORMAT " elements",
                   text, self->n_elements);
      return NULL;
    }

  if (n_elements != self->n_elements)
    {
      g_autofree char *text = rlx_shape_to_string (dims, n_dims);

      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_SHAPE,
                   "The shape %s has %" G_GUINT64_FORMAT " elements, but the tensor has %" G_GUINT64_FORMAT,
                   text, n_elements, self->n_elements);
      return NULL;
    }

  bytes = g_atomic_pointer_get (&self->bytes);
  reshaped = rlx_tensor_new_unchecked (self->data_type, dims, n_dims, n_elements, bytes != NULL ? g_bytes_ref (bytes) : NULL);
  if (self->memory != NULL)
    reshaped->memory = rlx_tensor_memory_ref (self->memory);
  return reshaped;
}

/**
 * rlx_tensor_equal:
 * @self: a tensor
 * @other: another tensor
 *
 * Compares two tensors bit by bit.
 *
 * They are equal if they have the same data type, the same shape and the same bytes. So
 * a NaN is equal to a NaN with the same bits, and 0.0 is not equal to -0.0. A tensor
 * that cannot be fetched from its device is not equal to any other.
 *
 * Returns: whether the tensors are equal
 *
 * Since: 1.0
 */
gboolean
rlx_tensor_equal (RlxTensor *self,
                  RlxTensor *other)
{
  g_return_val_if_fail (RLX_IS_TENSOR (self), FALSE);
  g_return_val_if_fail (RLX_IS_TENSOR (other), FALSE);

  if (self->data_type != other->data_type || self->n_dims != other->n_dims)
    return FALSE;

  for (guint i = 0; i < self->n_dims; i++)
    if (self->shape[i] != other->shape[i])
      return FALSE;

  return rlx_tensor_fetch (self, NULL, NULL) && rlx_tensor_fetch (other, NULL, NULL) && g_bytes_equal (self->bytes, other->bytes);
}

/**
 * rlx_tensors_free: (skip)
 * @tensors: (nullable) (array zero-terminated=1) (transfer full): tensors
 *
 * Frees an array of tensors that ends with %NULL, as
 * [method@Rlx.Executable.run] returns it, and the tensors.
 *
 * In C, `g_auto(RlxTensors)` declares a variable that is freed automatically:
 *
 * ```c
 * g_auto(RlxTensors) outputs = rlx_executable_run (executable, inputs, n_inputs, NULL, NULL, &error);
 * ```
 *
 * Since: 1.0
 */
void
rlx_tensors_free (RlxTensor **tensors)
{
  for (gsize i = 0; tensors != NULL && tensors[i] != NULL; i++)
    g_object_unref (tensors[i]);
  g_free (tensors);
}
