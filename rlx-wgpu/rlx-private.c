/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-private.h"

#include "rlx-adapter-private.h"
#include "rlx-bans-private.h"
#include "rlx-tensor-private.h"

/**
 * rlx_private_tensor_new_from_address:
 * @data_type: the type of the elements
 * @shape: (array length=n_dims) (nullable): the size of each dimension
 * @n_dims: the number of dimensions; 0 makes a scalar
 * @address: the address of the elements
 * @size: the number of readable bytes at @address
 * @error: where to store an error
 *
 * Creates a tensor from a copy of the memory at an address, such as that of a NumPy
 * array.
 *
 * Returns: (transfer full): a new tensor, or %NULL with an error
 */
RlxTensor *
rlx_private_tensor_new_from_address (RlxDataType    data_type,
                                     const gint64  *shape,
                                     gsize          n_dims,
                                     guintptr       address,
                                     gsize          size,
                                     GError       **error)
{
  g_return_val_if_fail (shape != NULL || n_dims == 0, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (address == 0 && size > 0)
    {
      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_INVALID_ARGUMENT,
                   "The address is 0, but the size is %" G_GSIZE_FORMAT " bytes", size);
      return NULL;
    }

  return rlx_tensor_new_from_data (data_type, shape, n_dims, (const guint8 *) address, size, error);
}

/**
 * rlx_private_tensor_get_address:
 * @tensor: a tensor
 *
 * Gets the address of the elements.
 *
 * Returns: the address, which is valid as long as the tensor
 */
guintptr
rlx_private_tensor_get_address (RlxTensor *tensor)
{
  g_return_val_if_fail (RLX_IS_TENSOR (tensor), 0);

  return rlx_tensor_fetch (tensor, NULL, NULL) ? (guintptr) rlx_tensor_peek_data (tensor) : 0;
}

/**
 * rlx_private_adapter_ban:
 * @adapter: an adapter
 * @family: a family of kernels
 * @variant: one of its variants
 * @error: where to store an error
 *
 * Stores that the variant is wrong on this adapter, for devices that are opened from now
 * on. [method@Rlx.Adapter.forget_calibration] deletes it.
 *
 * Returns: %TRUE if it is stored
 */
gboolean
rlx_private_adapter_ban (RlxAdapter *adapter,
                         const char *family,
                         const char *variant,
                         GError    **error)
{
  g_return_val_if_fail (RLX_IS_ADAPTER (adapter), FALSE);
  g_return_val_if_fail (family != NULL && variant != NULL, FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  return rlx_bans_store (rlx_adapter_get_info (adapter), family, variant, error);
}

/**
 * rlx_private_adapter_list_bans:
 * @adapter: an adapter
 *
 * Lists the variants that are stored as wrong on this adapter.
 *
 * Returns: (transfer full) (array zero-terminated=1): their names, `family/variant`
 */
char **
rlx_private_adapter_list_bans (RlxAdapter *adapter)
{
  g_return_val_if_fail (RLX_IS_ADAPTER (adapter), NULL);

  return rlx_bans_list (rlx_adapter_get_info (adapter));
}
