/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Tensors of other sizes than those that executables work on.
 */
#include "config.h"

#include "import/rlx-session-private.h"
#include "rlx-executable.h"
#include "rlx-tensor-private.h"
#include "util/rlx-checked-private.h"
#include "util/rlx-data-type-private.h"

#include <string.h>

RlxTensor *
rlx_session_new_zeros (const RlxTensorType *type,
                       GError             **error)
{
  g_autoptr(GBytes) bytes = NULL;
  guint64 n;
  gsize size;
  gpointer data;

  if (!rlx_shape_n_bytes (type->data_type, type->shape, type->n_dims, &n, &size, error))
    return NULL;
  data = g_try_malloc0 (size + 1);
  if (data == NULL)
    {
      g_set_error (error, RLX_MODEL_ERROR, RLX_MODEL_ERROR_LIMIT, "There is no memory for %" G_GSIZE_FORMAT " bytes", size);
      return NULL;
    }
  bytes = g_bytes_new_take (data, size);
  return rlx_tensor_new_from_bytes (type->data_type, type->shape, type->n_dims, bytes, error);
}

RlxTensor *
rlx_session_resize (RlxTensor *tensor,
                    guint      axis,
                    gint64     size,
                    GError   **error)
{
  RlxTensorType type;
  g_autoptr(RlxTensor) result = NULL;
  gsize width, from, to, n = 1;
  const guint8 *source;
  guint8 *target;

  rlx_session_get_type_of (tensor, &type);
  width = rlx_data_type_get_size (type.data_type);
  for (guint i = 0; i < type.n_dims; i++)
    if (i < axis)
      n *= (gsize) type.shape[i];
    else if (i > axis)
      width *= (gsize) type.shape[i];
  from = width * (gsize) type.shape[axis];
  to = width * (gsize) size;
  type.shape[axis] = size;
  if (!rlx_tensor_fetch (tensor, NULL, error) || (result = rlx_session_new_zeros (&type, error)) == NULL)
    return NULL;
  source = rlx_tensor_peek_data (tensor);
  /* The tensor is not shared yet. */
  target = (guint8 *) rlx_tensor_peek_data (result);
  for (gsize i = 0; i < n; i++)
    memcpy (target + i * to, source + i * from, MIN (from, to));
  return g_steal_pointer (&result);
}

/* ---- outputs -------------------------------------------------------------------------------------------- */

gboolean
rlx_session_has_output (RlxSession *self,
                        const char *name)
{
  GListModel *outputs = rlx_model_get_outputs (self->model);
  guint n = g_list_model_get_n_items (outputs);

  for (guint i = 0; i < n; i++)
    {
      g_autoptr(RlxModelPort) port = g_list_model_get_item (outputs, i);

      if (g_str_equal (rlx_model_port_get_name (port), name))
        return TRUE;
    }
  return FALSE;
}

/* If the size of output NAME depends on data, further outputs named NAME.AXIS have the sizes. */
RlxTensor *
rlx_session_cut (RlxSession        *self,
                 const char *const *names,
                 RlxTensor        **outputs,
                 guint              index,
                 GCancellable      *cancellable,
                 GError           **error)
{
  const char *name = names[index];
  gsize length = strlen (name);

  for (guint i = 0; names[i] != NULL; i++)
    {
      g_autofree gint64 *size = NULL;
      guint64 axis;
      gsize n;

      if (!g_str_has_prefix (names[i], name) || names[i][length] != '.' ||
          !g_ascii_string_to_unsigned (names[i] + length + 1, 10, 0, RLX_MAX_DIMS - 1, &axis, NULL) || rlx_session_has_output (self, names[i]))
        continue;
      if (!rlx_tensor_fetch (outputs[i], cancellable, error) || (size = rlx_tensor_to_ints (outputs[i], &n, error)) == NULL)
        return NULL;
      return rlx_session_resize (outputs[index], (guint) axis, size[0], error);
    }
  return g_object_ref (outputs[index]);
}

RlxTensor **
rlx_session_take_outputs (RlxSession    *self,
                          RlxExecutable *executable,
                          RlxTensor    **outputs,
                          gsize         *n_outputs,
                          GCancellable  *cancellable,
                          GError       **error)
{
  const char *const *names = rlx_executable_get_output_names (executable);
  g_autoptr(GPtrArray) taken = g_ptr_array_new_with_free_func (g_object_unref);

  for (guint i = 0; self->output_names[i] != NULL; i++)
    for (guint j = 0; names[j] != NULL; j++)
      if (g_str_equal (names[j], self->output_names[i]))
        {
          g_autoptr(RlxTensor) tensor = rlx_session_cut (self, names, outputs, j, cancellable, error);

          if (tensor == NULL || !rlx_tensor_fetch (tensor, cancellable, error))
            return NULL;
          g_ptr_array_add (taken, g_steal_pointer (&tensor));
        }
  if (n_outputs != NULL)
    *n_outputs = taken->len;
  g_ptr_array_add (taken, NULL);
  return (RlxTensor **) g_ptr_array_free (g_steal_pointer (&taken), FALSE);
}
