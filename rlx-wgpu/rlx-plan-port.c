/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-plan-port-private.h"

#include <string.h>

#include "util/rlx-debug-private.h"

const RlxPlanPort *
rlx_plan_port_find (const GArray *ports,
                    const char   *what,
                    const char   *name,
                    guint        *index,
                    GError      **error)
{
  g_autofree char *quoted = NULL;

  for (guint i = 0; i < ports->len; i++)
    if (g_strcmp0 (g_array_index (ports, RlxPlanPort, i).name, name) == 0)
      {
        if (index != NULL)
          *index = i;
        return &g_array_index (ports, RlxPlanPort, i);
      }
  quoted = rlx_quote_text (name ? name : "(null)", -1);
  g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_NOT_FOUND, "the graph has no %s %s", what, quoted);
  return NULL;
}

gboolean
rlx_plan_port_check (const RlxPlanPort *port,
                     const char        *what,
                     RlxTensor         *tensor,
                     GError           **error)
{
  RlxTensorType type = { .data_type = rlx_tensor_get_data_type (tensor) };
  gsize n_dims;
  const gint64 *shape = rlx_tensor_get_shape (tensor, &n_dims);
  g_autofree char *got = NULL, *want = NULL;

  type.n_dims = (guint) n_dims;
  memcpy (type.shape, shape, n_dims * sizeof (gint64));
  if (rlx_type_equal (&type, &port->type))
    return TRUE;

  got = rlx_type_to_string (&type);
  want = rlx_type_to_string (&port->type);
  g_set_error (error, RLX_GRAPH_ERROR,
               type.data_type != port->type.data_type ? RLX_GRAPH_ERROR_DATA_TYPE : RLX_GRAPH_ERROR_SHAPE,
               "%s “%s” is %s, the graph declares %s", what, port->name, got, want);
  return FALSE;
}

GBytes *
rlx_tensor_to_device (RlxTensor  *tensor,
                      const char *name,
                      GError    **error)
{
  RlxDataType data_type = rlx_tensor_get_data_type (tensor);
  g_autoptr(GBytes) bytes = NULL;
  gsize size;
  const gint64 *wide;
  gint32 *stored;

  if (!rlx_tensor_fetch (tensor, NULL, error))
    return NULL;
  bytes = g_bytes_ref (rlx_tensor_get_bytes (tensor));
  if (rlx_data_type_on_device (data_type) == data_type)
    return g_steal_pointer (&bytes);

  wide = g_bytes_get_data (bytes, &size);
  stored = g_try_malloc (MAX (size / 2, 4));
  if (stored == NULL)
    {
      g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_LIMIT, "no memory for %" G_GSIZE_FORMAT " bytes of “%s”", size / 2, name);
      return NULL;
    }
  for (gsize i = 0; i < size / 8; i++)
    {
      gboolean fits = data_type == RLX_DATA_TYPE_I64 ? wide[i] >= G_MININT32 && wide[i] <= G_MAXINT32
                                                 : wide[i] >= 0 && wide[i] <= G_MAXUINT32;

      if (!fits)
        {
          g_autofree char *value = data_type == RLX_DATA_TYPE_I64 ? g_strdup_printf ("%" G_GINT64_FORMAT, wide[i])
                                                              : g_strdup_printf ("%" G_GUINT64_FORMAT, (guint64) wide[i]);

          g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_LIMIT,
                       "element %" G_GSIZE_FORMAT " of “%s” is %s, which does not fit the device's 32-bit integers", i, name, value);
          g_free (stored);
          return NULL;
        }
      stored[i] = (gint32) (guint32) wide[i];
    }
  return g_bytes_new_take (stored, size / 2);
}

RlxTensor *
rlx_tensor_new_from_device (RlxDataType   data_type,
                            const gint64 *shape,
                            guint         n_dims,
                            gpointer      data,
                            GError      **error)
{
  RlxTensorType type = { .data_type = data_type, .n_dims = n_dims };
  g_autoptr(GBytes) bytes = NULL;
  guint64 n;

  memcpy (type.shape, shape, n_dims * sizeof (gint64));
  n = rlx_type_n_elements (&type);
  if (data_type == RLX_DATA_TYPE_I64 || data_type == RLX_DATA_TYPE_U64)
    {
      gint64 *wide = g_try_malloc (MAX (n * 8, 8));

      if (wide == NULL)
        {
          g_free (data);
          g_set_error (error, RLX_GRAPH_ERROR, RLX_GRAPH_ERROR_LIMIT, "no memory for an output of %" G_GUINT64_FORMAT " bytes", n * 8);
          return NULL;
        }
      for (guint64 i = 0; i < n; i++)
        wide[i] = data_type == RLX_DATA_TYPE_I64 ? (gint64) ((gint32 *) data)[i] : (gint64) ((guint32 *) data)[i];
      g_free (data);
      bytes = g_bytes_new_take (wide, n * 8);
    }
  else
    {
      bytes = g_bytes_new_take (data, rlx_type_n_bytes (&type));
    }
  return rlx_tensor_new_from_bytes (data_type, shape, n_dims, bytes, error);
}
