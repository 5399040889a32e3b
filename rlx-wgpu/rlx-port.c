/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "rlx-port-private.h"

#include "rlx-enum-types.h"

/**
 * RlxPort:
 *
 * An input, output, parameter or state of an [class@Rlx.Executable].
 *
 * A port never changes, so threads can share it.
 *
 * Since: 1.0
 */
struct _RlxPort
{
  GObject parent_instance;

  char *name;
  RlxTensorType type;
};

enum
{
  PROP_0,
  PROP_DATA_TYPE,
  PROP_NAME,
  PROP_SHAPE,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

G_DEFINE_FINAL_TYPE (RlxPort, rlx_port, G_TYPE_OBJECT)

static void
rlx_port_finalize (GObject *object)
{
  g_free (RLX_PORT (object)->name);
  G_OBJECT_CLASS (rlx_port_parent_class)->finalize (object);
}

static void
rlx_port_get_property (GObject    *object,
                       guint       id,
                       GValue     *value,
                       GParamSpec *pspec)
{
  RlxPort *self = RLX_PORT (object);

  switch (id)
    {
    case PROP_DATA_TYPE:
      g_value_set_enum (value, self->type.data_type);
      break;
    case PROP_NAME:
      g_value_set_string (value, self->name);
      break;
    case PROP_SHAPE:
      g_value_set_variant (value, g_variant_new_fixed_array (G_VARIANT_TYPE_INT64, self->type.shape, self->type.n_dims, sizeof (gint64)));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
rlx_port_class_init (RlxPortClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->finalize = rlx_port_finalize;
  object_class->get_property = rlx_port_get_property;

  /**
   * RlxPort:data-type:
   *
   * The type of the elements.
   *
   * Since: 1.0
   */
  properties[PROP_DATA_TYPE] = g_param_spec_enum ("data-type", NULL, NULL, RLX_TYPE_DATA_TYPE, RLX_DATA_TYPE_F32, flags);
  /**
   * RlxPort:name:
   *
   * Its name in the graph.
   *
   * Since: 1.0
   */
  properties[PROP_NAME] = g_param_spec_string ("name", NULL, NULL, NULL, flags);
  /**
   * RlxPort:shape:
   *
   * The size of each dimension, an array of type `ax`.
   *
   * Since: 1.0
   */
  properties[PROP_SHAPE] = g_param_spec_variant ("shape", NULL, NULL, G_VARIANT_TYPE ("ax"), NULL, flags);
  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
rlx_port_init (RlxPort *self G_GNUC_UNUSED)
{
}

/**
 * rlx_port_get_name: (get-property name)
 * @self: a port
 *
 * Gets its name in the graph.
 *
 * Returns: (transfer none): the name
 *
 * Since: 1.0
 */
const char *
rlx_port_get_name (RlxPort *self)
{
  g_return_val_if_fail (RLX_IS_PORT (self), NULL);

  return self->name;
}

/**
 * rlx_port_get_data_type: (get-property data-type)
 * @self: a port
 *
 * Gets the type of the elements.
 *
 * Returns: the data type
 *
 * Since: 1.0
 */
RlxDataType
rlx_port_get_data_type (RlxPort *self)
{
  g_return_val_if_fail (RLX_IS_PORT (self), RLX_DATA_TYPE_F32);

  return self->type.data_type;
}

/**
 * rlx_port_get_n_dims:
 * @self: a port
 *
 * Gets the number of dimensions.
 *
 * Returns: the number of dimensions; 0 for a scalar
 *
 * Since: 1.0
 */
guint
rlx_port_get_n_dims (RlxPort *self)
{
  g_return_val_if_fail (RLX_IS_PORT (self), 0);

  return self->type.n_dims;
}

/**
 * rlx_port_get_shape:
 * @self: a port
 * @n_dims: (out) (optional): where to store the number of dimensions
 *
 * Gets the shape.
 *
 * Returns: (array length=n_dims) (transfer none): the size of each dimension
 *
 * Since: 1.0
 */
const gint64 *
rlx_port_get_shape (RlxPort *self,
                    gsize   *n_dims)
{
  if (n_dims != NULL)
    *n_dims = 0;

  g_return_val_if_fail (RLX_IS_PORT (self), NULL);

  if (n_dims != NULL)
    *n_dims = self->type.n_dims;
  return self->type.shape;
}

/**
 * rlx_port_to_string:
 * @self: a port
 *
 * Describes the port in a line of text, for display: `x: f32[2, 3]`.
 *
 * Returns: (transfer full): the text
 *
 * Since: 1.0
 */
char *
rlx_port_to_string (RlxPort *self)
{
  g_autofree char *type = NULL;

  g_return_val_if_fail (RLX_IS_PORT (self), NULL);

  type = rlx_type_to_string (&self->type);
  return g_strdup_printf ("%s: %s", self->name != NULL ? self->name : "", type);
}

/* ---- lists of them --------------------------------------------------------------- */

/**
 * RlxPortList:
 *
 * The inputs, outputs, parameters or states of an [class@Rlx.Executable]: a list of
 * [class@Rlx.Port] that never changes.
 *
 * Since: 1.0
 */
struct _RlxPortList
{
  GObject parent_instance;

  GPtrArray *ports;
};

static GType
rlx_port_list_get_item_type (GListModel *model G_GNUC_UNUSED)
{
  return RLX_TYPE_PORT;
}

static guint
rlx_port_list_get_n_items (GListModel *model)
{
  return RLX_PORT_LIST (model)->ports->len;
}

static gpointer
rlx_port_list_get_item (GListModel *model,
                        guint       position)
{
  RlxPortList *self = RLX_PORT_LIST (model);

  return position < self->ports->len ? g_object_ref (g_ptr_array_index (self->ports, position)) : NULL;
}

static void
rlx_port_list_list_model_init (GListModelInterface *iface)
{
  iface->get_item_type = rlx_port_list_get_item_type;
  iface->get_n_items = rlx_port_list_get_n_items;
  iface->get_item = rlx_port_list_get_item;
}

G_DEFINE_FINAL_TYPE_WITH_CODE (RlxPortList, rlx_port_list, G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (G_TYPE_LIST_MODEL, rlx_port_list_list_model_init))

static void
rlx_port_list_finalize (GObject *object)
{
  g_ptr_array_unref (RLX_PORT_LIST (object)->ports);
  G_OBJECT_CLASS (rlx_port_list_parent_class)->finalize (object);
}

static void
rlx_port_list_class_init (RlxPortListClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = rlx_port_list_finalize;
}

static void
rlx_port_list_init (RlxPortList *self)
{
  self->ports = g_ptr_array_new_with_free_func (g_object_unref);
}

GListModel *
rlx_port_list_new (const GArray *ports)
{
  RlxPortList *self = g_object_new (RLX_TYPE_PORT_LIST, NULL);

  for (guint i = 0; i < ports->len; i++)
    {
      const RlxPlanPort *from = &g_array_index (ports, RlxPlanPort, i);
      RlxPort *port = g_object_new (RLX_TYPE_PORT, NULL);

      port->name = g_strdup (from->name);
      port->type = from->type;
      g_ptr_array_add (self->ports, port);
    }
  return G_LIST_MODEL (self);
}
