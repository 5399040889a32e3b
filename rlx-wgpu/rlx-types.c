/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-types.h"

#include "rlx-tensor-private.h"
#include "util/rlx-checked-private.h"
#include "util/rlx-data-type-private.h"
#include "util/rlx-debug-private.h"

#include <string.h>

/* clang-format off */
/**
 * rlx_device_error_quark:
 *
 * Gets the domain of [error@Rlx.DeviceError].
 *
 * Returns: the domain
 *
 * Since: 1.0
 */
G_DEFINE_QUARK (rlx-device-error-quark, rlx_device_error)
/**
 * rlx_graph_error_quark:
 *
 * Gets the domain of [error@Rlx.GraphError].
 *
 * Returns: the domain
 *
 * Since: 1.0
 */
G_DEFINE_QUARK (rlx-graph-error-quark, rlx_graph_error)
/**
 * rlx_compile_error_quark:
 *
 * Gets the domain of [error@Rlx.CompileError].
 *
 * Returns: the domain
 *
 * Since: 1.0
 */
G_DEFINE_QUARK (rlx-compile-error-quark, rlx_compile_error)
/**
 * rlx_weights_error_quark:
 *
 * Gets the domain of [error@Rlx.WeightsError].
 *
 * Returns: the domain
 *
 * Since: 1.0
 */
G_DEFINE_QUARK (rlx-weights-error-quark, rlx_weights_error)
/**
 * rlx_model_error_quark:
 *
 * Gets the domain of [error@Rlx.ModelError].
 *
 * Returns: the domain
 *
 * Since: 1.0
 */
G_DEFINE_QUARK (rlx-model-error-quark, rlx_model_error)
/* clang-format on */

gboolean
rlx_data_type_check (RlxDataType   data_type,
                     GError      **error)
{
  if (RLX_IS_DATA_TYPE (data_type))
    return TRUE;

  g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_DATA_TYPE,
               "%d is not a data type", (gint) data_type);

  return FALSE;
}

/**
 * rlx_data_type_get_size:
 * @data_type: a data type
 *
 * Gets the number of bytes per element of a type.
 *
 * Elements of less than 8 bits share bytes, so they have no such size.
 *
 * Returns: the size in bytes, or 0 if elements are smaller than a byte or @data_type is
 *   not a data type
 *
 * Since: 1.0
 */
gsize
rlx_data_type_get_size (RlxDataType data_type)
{
  return rlx_data_type_get_bits (data_type) / 8;
}

/**
 * rlx_data_type_get_bits:
 * @data_type: a data type
 *
 * Gets the number of bits per element of a type.
 *
 * The size of a tensor is rounded up to whole bytes. If elements of 4 or 2 bits do not
 * fill the last byte, its upper bits are 0.
 *
 * Returns: the number of bits, or 0 if @data_type is not a data type
 *
 * Since: 1.0
 */
guint
rlx_data_type_get_bits (RlxDataType data_type)
{
  return rlx_data_type_get_info (data_type)->bits;
}

/**
 * rlx_data_type_to_string:
 * @data_type: a data type
 *
 * Gets the short name of a type: `f32`, `bool`, `i64` and so on.
 *
 * [func@Rlx.DataType.from_string] does the reverse.
 *
 * Returns: (transfer none): the name, or `invalid` if @data_type is not a data type
 *
 * Since: 1.0
 */
const char *
rlx_data_type_to_string (RlxDataType data_type)
{
  return rlx_data_type_get_info (data_type)->name;
}

/**
 * rlx_data_type_from_string:
 * @name: the name of a data type, for instance `f32`
 * @data_type: (out): where to store the data type
 * @error: where to store an error
 *
 * Finds a type by its short name, as [func@Rlx.DataType.to_string] returns it.
 *
 * Returns: %TRUE if @name is the name of a type, %FALSE with
 *   `RLX_GRAPH_ERROR_INVALID_ARGUMENT` if it is not
 *
 * Since: 1.0
 */
gboolean
rlx_data_type_from_string (const char   *name,
                           RlxDataType  *data_type,
                           GError      **error)
{
  g_autofree char *quoted = NULL, *names = NULL;

  g_return_val_if_fail (name != NULL, FALSE);
  g_return_val_if_fail (data_type != NULL, FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  for (guint i = 0; i < RLX_N_DATA_TYPES; i++)
    {
      if (strcmp (name, rlx_data_types[i].name) == 0)
        {
          *data_type = (RlxDataType) i;
          return TRUE;
        }
    }

  quoted = rlx_quote_text (name, -1);
  names = rlx_data_types_to_string ((1u << RLX_N_DATA_TYPES) - 1, ", ");
  g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
               "%s is not the name of a data type; they are %s", quoted, names);

  return FALSE;
}

/* ---- shapes ------------------------------------------------------------- */

char *
rlx_shape_to_string (const gint64 *shape,
                     gsize         n_dims)
{
  GString *text = g_string_new ("[");

  for (gsize i = 0; i < n_dims; i++)
    g_string_append_printf (text, "%s%" G_GINT64_FORMAT, i > 0 ? ", " : "", shape[i]);
  g_string_append_c (text, ']');

  return g_string_free (text, FALSE);
}

gboolean
rlx_shape_n_elements (const gint64  *shape,
                      gsize          n_dims,
                      guint64       *n_elements,
                      GError       **error)
{
  guint64 product = 1;
  gboolean fits = TRUE;
  gboolean empty = FALSE;

  if (n_dims > RLX_MAX_DIMS)
    {
      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_LIMIT,
                   "A shape of %" G_GSIZE_FORMAT " dimensions is beyond the limit of %d",
                   n_dims, RLX_MAX_DIMS);
      return FALSE;
    }

  for (gsize i = 0; i < n_dims; i++)
    {
      if (shape[i] < 0)
        {
          g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_SHAPE,
                       "Axis %" G_GSIZE_FORMAT " of the shape has the negative size %" G_GINT64_FORMAT,
                       i, shape[i]);
          return FALSE;
        }

      if (shape[i] == 0)
        empty = TRUE;
      else if (!rlx_mul_u64 (product, (guint64) shape[i], &product) || product > RLX_MAX_ELEMENTS)
        fits = FALSE;
    }

  if (!fits)
    {
      g_autofree char *text = rlx_shape_to_string (shape, n_dims);

      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_LIMIT,
                   "The shape %s is beyond the limit of %" G_GUINT64_FORMAT " elements",
                   text, RLX_MAX_ELEMENTS);
      return FALSE;
    }

  *n_elements = empty ? 0 : product;

  return TRUE;
}

gboolean
rlx_shape_n_bytes (RlxDataType    data_type,
                   const gint64  *shape,
                   gsize          n_dims,
                   guint64       *n_elements,
                   gsize         *n_bytes,
                   GError       **error)
{
  guint64 n, size;

  if (!rlx_data_type_check (data_type, error) ||
      !rlx_shape_n_elements (shape, n_dims, &n, error))
    return FALSE;

  /* This can only fail in a 32-bit address space. */
  if (!rlx_mul_u64 (n, rlx_data_type_get_bits (data_type), &size) ||
      !rlx_u64_to_size (size / 8 + (size % 8 != 0), n_bytes))
    {
      g_autofree char *text = rlx_shape_to_string (shape, n_dims);

      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_LIMIT,
                   "The shape %s of type %s does not fit into the address space",
                   text, rlx_data_type_to_string (data_type));
      return FALSE;
    }

  *n_elements = n;

  return TRUE;
}

gpointer
rlx_try_alloc (gsize    size,
               GError **error)
{
  gpointer memory = g_try_malloc (MAX (size, 1));

  if (memory == NULL)
    g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_LIMIT,
                 "There is no memory for %" G_GSIZE_FORMAT " bytes", size);

  return memory;
}
