/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "import/rlx-model-private.h"

/**
 * RlxModelPort:
 *
 * An input or output of a [class@Rlx.Model].
 *
 * Dimensions that are not fixed are -1. Many of them have names; dimensions with the same
 * name have the same size. A port never changes, so threads can share it.
 *
 * Since: 1.0
 */
enum
{
  PROP_0,
  PROP_NAME,
  PROP_TYPE_NAME,
  PROP_TEXT,
  N_PROPS,
};

static GParamSpec *properties[N_PROPS];

G_DEFINE_FINAL_TYPE (RlxModelPort, rlx_model_port, G_TYPE_OBJECT)

static void
rlx_model_port_finalize (GObject *object)
{
  RlxModelPort *self = RLX_MODEL_PORT (object);

  g_free (self->name);
  for (guint i = 0; i < RLX_MAX_DIMS; i++)
    g_free (self->names[i]);
  G_OBJECT_CLASS (rlx_model_port_parent_class)->finalize (object);
}

static void
rlx_model_port_get_property (GObject    *object,
                             guint       id,
                             GValue     *value,
                             GParamSpec *pspec)
{
  RlxModelPort *self = RLX_MODEL_PORT (object);

  switch (id)
    {
    case PROP_NAME:
      g_value_set_string (value, self->name);
      break;
    case PROP_TYPE_NAME:
      g_value_set_string (value, self->type_name);
      break;
    case PROP_TEXT:
      g_value_take_string (value, rlx_model_port_to_string (self));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
rlx_model_port_class_init (RlxModelPortClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS;

  object_class->finalize = rlx_model_port_finalize;
  object_class->get_property = rlx_model_port_get_property;

  /**
   * RlxModelPort:name: (getter get_name)
   *
   * The name.
   *
   * Since: 1.0
   */
  properties[PROP_NAME] = g_param_spec_string ("name", NULL, NULL, NULL, flags);
  /**
   * RlxModelPort:type-name: (getter get_type_name)
   *
   * The name of the type of its elements in the file.
   *
   * Since: 1.0
   */
  properties[PROP_TYPE_NAME] = g_param_spec_string ("type-name", NULL, NULL, NULL, flags);
  /**
   * RlxModelPort:text:
   *
   * The text that [method@Rlx.ModelPort.to_string] returns.
   *
   * Since: 1.0
   */
  properties[PROP_TEXT] = g_param_spec_string ("text", NULL, NULL, NULL, flags);
  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
rlx_model_port_init (RlxModelPort *self)
{
  self->name = g_strdup ("");
  self->type_name = "undefined";
  self->data_type = -1;
}

RlxModelPort *
rlx_model_port_new (const RlxOnnxPort *port)
{
  RlxModelPort *self = g_object_new (RLX_TYPE_MODEL_PORT, NULL);
  const RlxOnnxTypeInfo *info = rlx_onnx_type_get_info (port->type);

  g_free (self->name);
  self->name = g_strdup (port->name);
  self->type_name = g_str_equal (port->kind, "tensor") ? info->name : g_intern_string (port->kind);
  self->data_type = g_str_equal (port->kind, "tensor") && port->n_dims <= RLX_MAX_DIMS ? info->data_type : -1;
  self->has_shape = port->has_shape && port->n_dims <= RLX_MAX_DIMS;
  self->n_dims = self->has_shape ? port->n_dims : 0;
  for (gsize i = 0; i < self->n_dims; i++)
    {
      self->shape[i] = port->dims[i];
      self->names[i] = port->dims[i] < 0 ? g_strdup (port->symbols[i]) : NULL;
    }
  return self;
}

/**
 * rlx_model_port_get_name: (get-property name)
 * @self: a port
 *
 * Gets the name.
 *
 * Returns: the name
 *
 * Since: 1.0
 */
const char *
rlx_model_port_get_name (RlxModelPort *self)
{
  g_return_val_if_fail (RLX_IS_MODEL_PORT (self), NULL);

  return self->name;
}

/**
 * rlx_model_port_get_type_name: (get-property type-name)
 * @self: a port
 *
 * Gets the name of its type in the file: for a tensor that of its elements, such as
 * `float` or `int64`.
 *
 * Returns: the name that ONNX uses
 *
 * Since: 1.0
 */
const char *
rlx_model_port_get_type_name (RlxModelPort *self)
{
  g_return_val_if_fail (RLX_IS_MODEL_PORT (self), NULL);

  return self->type_name;
}

/**
 * rlx_model_port_is_supported:
 * @self: a port
 *
 * Gets whether the library has tensors of its type.
 *
 * Returns: whether [method@Rlx.ModelPort.get_data_type] is meaningful
 *
 * Since: 1.0
 */
gboolean
rlx_model_port_is_supported (RlxModelPort *self)
{
  g_return_val_if_fail (RLX_IS_MODEL_PORT (self), FALSE);

  return self->data_type >= 0;
}

/**
 * rlx_model_port_get_data_type:
 * @self: a port
 *
 * Gets the data type of its tensors in this library. 64-bit floats are computed in 32
 * bits.
 *
 * Returns: the data type; %RLX_DATA_TYPE_F32 if it is not supported
 *
 * Since: 1.0
 */
RlxDataType
rlx_model_port_get_data_type (RlxModelPort *self)
{
  g_return_val_if_fail (RLX_IS_MODEL_PORT (self), RLX_DATA_TYPE_F32);

  return self->data_type >= 0 ? (RlxDataType) self->data_type : RLX_DATA_TYPE_F32;
}

/**
 * rlx_model_port_has_shape:
 * @self: a port
 *
 * Gets whether the file says how many dimensions it has.
 *
 * Returns: whether it does
 *
 * Since: 1.0
 */
gboolean
rlx_model_port_has_shape (RlxModelPort *self)
{
  g_return_val_if_fail (RLX_IS_MODEL_PORT (self), FALSE);

  return self->has_shape;
}

/**
 * rlx_model_port_get_shape:
 * @self: a port
 * @n_dims: (out) (optional): the number of dimensions
 *
 * Gets the size of each dimension; those that are not fixed are -1.
 *
 * Returns: (array length=n_dims) (transfer none): the shape
 *
 * Since: 1.0
 */
const gint64 *
rlx_model_port_get_shape (RlxModelPort *self,
                          gsize        *n_dims)
{
  g_return_val_if_fail (RLX_IS_MODEL_PORT (self), NULL);

  if (n_dims != NULL)
    *n_dims = self->n_dims;
  return self->shape;
}

/**
 * rlx_model_port_get_dimension_name:
 * @self: a port
 * @axis: the index of the dimension
 *
 * Gets the name of a dimension.
 *
 * Returns: (nullable): the name, or %NULL if it has none or is fixed
 *
 * Since: 1.0
 */
const char *
rlx_model_port_get_dimension_name (RlxModelPort *self,
                                   guint         axis)
{
  g_return_val_if_fail (RLX_IS_MODEL_PORT (self), NULL);

  return axis < self->n_dims ? self->names[axis] : NULL;
}

/**
 * rlx_model_port_to_string:
 * @self: a port
 *
 * Describes the port, as in `x: float[batch, 3, ?]`.
 *
 * Returns: (transfer full): the text
 *
 * Since: 1.0
 */
char *
rlx_model_port_to_string (RlxModelPort *self)
{
  GString *text;

  g_return_val_if_fail (RLX_IS_MODEL_PORT (self), NULL);

  text = g_string_new (self->name);
  g_string_append_printf (text, ": %s", self->type_name);
  if (!self->has_shape)
    return g_string_free_and_steal (text);
  g_string_append_c (text, '[');
  for (gsize i = 0; i < self->n_dims; i++)
    {
      if (i > 0)
        g_string_append (text, ", ");
      if (self->shape[i] >= 0)
        g_string_append_printf (text, "%" G_GINT64_FORMAT, self->shape[i]);
      else
        g_string_append (text, self->names[i] != NULL ? self->names[i] : "?");
    }
  g_string_append_c (text, ']');
  return g_string_free_and_steal (text);
}
