/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "formats/rlx-weights-private.h"

#include <string.h>

#include "rlx-enum-types.h"

/**
 * RlxWeightsEntry:
 *
 * Describes a tensor in a weight file, without its elements.
 *
 * An entry never changes, so threads can share it.
 *
 * Since: 1.0
 */
struct _RlxWeightsEntry
{
  GObject parent_instance;

  char *name;
  const RlxStorage *storage;
  guint n_dims;
  gint64 dims[RLX_MAX_DIMS];
  guint64 size;
  guint64 offset;
};

enum
{
  PROP_0,
  PROP_DATA_TYPE,
  PROP_LOADABLE,
  PROP_NAME,
  PROP_OFFSET,
  PROP_PACKED,
  PROP_PACKED_TYPE,
  PROP_SHAPE,
  PROP_SIZE,
  PROP_TYPE_NAME,
  N_PROPS
};

static GParamSpec *properties[N_PROPS];

G_DEFINE_FINAL_TYPE (RlxWeightsEntry, rlx_weights_entry, G_TYPE_OBJECT)

static void
rlx_weights_entry_finalize (GObject *object)
{
  g_free (RLX_WEIGHTS_ENTRY (object)->name);
  G_OBJECT_CLASS (rlx_weights_entry_parent_class)->finalize (object);
}

static void
rlx_weights_entry_get_property (GObject    *object,
                                guint       id,
                                GValue     *value,
                                GParamSpec *pspec)
{
  RlxWeightsEntry *self = RLX_WEIGHTS_ENTRY (object);

  switch (id)
    {
    case PROP_DATA_TYPE:
      g_value_set_enum (value, rlx_weights_entry_get_data_type (self));
      break;
    case PROP_LOADABLE:
      g_value_set_boolean (value, rlx_weights_entry_is_loadable (self));
      break;
    case PROP_NAME:
      g_value_set_string (value, self->name);
      break;
    case PROP_OFFSET:
      g_value_set_uint64 (value, self->offset);
      break;
    case PROP_PACKED:
      g_value_set_boolean (value, rlx_weights_entry_is_packed (self));
      break;
    case PROP_PACKED_TYPE:
      g_value_set_enum (value, rlx_weights_entry_get_packed_type (self));
      break;
    case PROP_SHAPE:
      g_value_set_variant (value, g_variant_new_fixed_array (G_VARIANT_TYPE_INT64, self->dims, self->n_dims, sizeof (gint64)));
      break;
    case PROP_SIZE:
      g_value_set_uint64 (value, self->size);
      break;
    case PROP_TYPE_NAME:
      g_value_set_string (value, rlx_weights_entry_get_type_name (self));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
rlx_weights_entry_class_init (RlxWeightsEntryClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->finalize = rlx_weights_entry_finalize;
  object_class->get_property = rlx_weights_entry_get_property;

  /**
   * RlxWeightsEntry:data-type: (getter get_data_type)
   *
   * The type of the elements of the tensor once it is loaded.
   *
   * Since: 1.0
   */
  properties[PROP_DATA_TYPE] = g_param_spec_enum ("data-type", NULL, NULL, RLX_TYPE_DATA_TYPE, RLX_DATA_TYPE_F32, flags);
  /**
   * RlxWeightsEntry:loadable: (getter is_loadable)
   *
   * Whether [method@Rlx.Weights.load_tensor] can load it.
   *
   * Since: 1.0
   */
  properties[PROP_LOADABLE] = g_param_spec_boolean ("loadable", NULL, NULL, TRUE, flags);
  /**
   * RlxWeightsEntry:name: (getter get_name)
   *
   * The name of the tensor.
   *
   * Since: 1.0
   */
  properties[PROP_NAME] = g_param_spec_string ("name", NULL, NULL, NULL, flags);
  /**
   * RlxWeightsEntry:offset: (getter get_offset)
   *
   * The offset of the tensor in its file, or of its compressed bytes.
   *
   * Since: 1.0
   */
  properties[PROP_OFFSET] = g_param_spec_uint64 ("offset", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * RlxWeightsEntry:packed: (getter is_packed)
   *
   * Whether operators such as [method@Rlx.Node.dequant_matmul] take its bytes as they
   * are.
   *
   * Since: 1.0
   */
  properties[PROP_PACKED] = g_param_spec_boolean ("packed", NULL, NULL, FALSE, flags);
  /**
   * RlxWeightsEntry:packed-type: (getter get_packed_type)
   *
   * How it is packed, if it is.
   *
   * Since: 1.0
   */
  properties[PROP_PACKED_TYPE] = g_param_spec_enum ("packed-type", NULL, NULL, RLX_TYPE_PACKED_TYPE, RLX_PACKED_TYPE_Q4_0, flags);
  /**
   * RlxWeightsEntry:shape:
   *
   * The size of each dimension, counting numbers even if they are packed; an array of
   * type `ax`.
   *
   * Since: 1.0
   */
  properties[PROP_SHAPE] = g_param_spec_variant ("shape", NULL, NULL, G_VARIANT_TYPE ("ax"), NULL, flags);
  /**
   * RlxWeightsEntry:size: (getter get_size)
   *
   * The size of its elements in bytes, uncompressed.
   *
   * Since: 1.0
   */
  properties[PROP_SIZE] = g_param_spec_uint64 ("size", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * RlxWeightsEntry:type-name: (getter get_type_name)
   *
   * The type of the elements in the file: `f32`, `bf16`, `q4-k`…
   *
   * Since: 1.0
   */
  properties[PROP_TYPE_NAME] = g_param_spec_string ("type-name", NULL, NULL, NULL, flags);
  g_object_class_install_properties (object_class, N_PROPS, properties);
}

static void
rlx_weights_entry_init (RlxWeightsEntry *self)
{
  self->storage = rlx_storage_get (0);
}

RlxWeightsEntry *
rlx_weights_entry_new (RlxManifest     *manifest,
                       const RlxRecord *record)
{
  RlxWeightsEntry *self = g_object_new (RLX_TYPE_WEIGHTS_ENTRY, NULL);

  self->name = g_strdup (record->name);
  self->storage = rlx_storage_get (record->storage);
  self->n_dims = record->n_dims;
  if (record->n_dims > 0)
    memcpy (self->dims, rlx_manifest_get_shape (manifest, record), record->n_dims * sizeof (gint64));
  self->size = record->length;
  self->offset = record->offset;
  return self;
}

/**
 * rlx_weights_entry_get_name: (get-property name)
 * @self: an entry
 *
 * Gets the name of the tensor.
 *
 * Returns: (transfer none): the name
 *
 * Since: 1.0
 */
const char *
rlx_weights_entry_get_name (RlxWeightsEntry *self)
{
  g_return_val_if_fail (RLX_IS_WEIGHTS_ENTRY (self), NULL);

  return self->name;
}

/**
 * rlx_weights_entry_get_type_name: (get-property type-name)
 * @self: an entry
 *
 * Gets the type of the elements in the file: `f32`, `bf16`, `q4-k`…
 *
 * Returns: (transfer none): the name
 *
 * Since: 1.0
 */
const char *
rlx_weights_entry_get_type_name (RlxWeightsEntry *self)
{
  g_return_val_if_fail (RLX_IS_WEIGHTS_ENTRY (self), NULL);

  return self->storage->name;
}

/**
 * rlx_weights_entry_get_data_type: (get-property data-type)
 * @self: an entry
 *
 * Gets the type of the elements of the tensor that [method@Rlx.Weights.load_tensor]
 * returns.
 *
 * Returns: the data type; `u8` if the tensor cannot be loaded
 *
 * Since: 1.0
 */
RlxDataType
rlx_weights_entry_get_data_type (RlxWeightsEntry *self)
{
  g_return_val_if_fail (RLX_IS_WEIGHTS_ENTRY (self), RLX_DATA_TYPE_F32);

  return self->storage->data_type;
}

/**
 * rlx_weights_entry_is_loadable: (get-property loadable)
 * @self: an entry
 *
 * Gets whether [method@Rlx.Weights.load_tensor] can load it. If no data type of the
 * library can represent its elements without loss, as for `f64`, only its bytes are
 * available, from [method@Rlx.Weights.load_bytes].
 *
 * Returns: %TRUE if it can be loaded
 *
 * Since: 1.0
 */
gboolean
rlx_weights_entry_is_loadable (RlxWeightsEntry *self)
{
  g_return_val_if_fail (RLX_IS_WEIGHTS_ENTRY (self), FALSE);

  return self->storage->convert != RLX_CONVERT_IMPOSSIBLE;
}

/**
 * rlx_weights_entry_is_packed: (get-property packed)
 * @self: an entry
 *
 * Gets whether [method@Rlx.Node.dequant_matmul] and similar operators take its bytes as
 * they are.
 *
 * Returns: whether it is packed
 *
 * Since: 1.0
 */
gboolean
rlx_weights_entry_is_packed (RlxWeightsEntry *self)
{
  g_return_val_if_fail (RLX_IS_WEIGHTS_ENTRY (self), FALSE);

  return self->storage->packed >= 0;
}

/**
 * rlx_weights_entry_get_packed_type: (get-property packed-type)
 * @self: an entry
 *
 * Gets how it is packed. This is only meaningful if [method@Rlx.WeightsEntry.is_packed]
 * returns %TRUE.
 *
 * Returns: the packed type
 *
 * Since: 1.0
 */
RlxPackedType
rlx_weights_entry_get_packed_type (RlxWeightsEntry *self)
{
  g_return_val_if_fail (RLX_IS_WEIGHTS_ENTRY (self), RLX_PACKED_TYPE_Q4_0);

  return self->storage->packed >= 0 ? (RlxPackedType) self->storage->packed : RLX_PACKED_TYPE_Q4_0;
}

/**
 * rlx_weights_entry_get_shape:
 * @self: an entry
 * @n_dims: (out) (optional): where to store the number of dimensions
 *
 * Gets the shape, counting numbers even if they are packed.
 *
 * Returns: (array length=n_dims) (transfer none): the size of each dimension
 *
 * Since: 1.0
 */
const gint64 *
rlx_weights_entry_get_shape (RlxWeightsEntry *self,
                             gsize           *n_dims)
{
  if (n_dims != NULL)
    *n_dims = 0;

  g_return_val_if_fail (RLX_IS_WEIGHTS_ENTRY (self), NULL);

  if (n_dims != NULL)
    *n_dims = self->n_dims;
  return self->dims;
}

/**
 * rlx_weights_entry_get_size: (get-property size)
 * @self: an entry
 *
 * Gets the size of the elements in bytes, uncompressed.
 *
 * Returns: the number of bytes
 *
 * Since: 1.0
 */
guint64
rlx_weights_entry_get_size (RlxWeightsEntry *self)
{
  g_return_val_if_fail (RLX_IS_WEIGHTS_ENTRY (self), 0);

  return self->size;
}

/**
 * rlx_weights_entry_get_offset: (get-property offset)
 * @self: an entry
 *
 * Gets the offset of the tensor in its file, or of its compressed bytes.
 *
 * Returns: the offset in bytes
 *
 * Since: 1.0
 */
guint64
rlx_weights_entry_get_offset (RlxWeightsEntry *self)
{
  g_return_val_if_fail (RLX_IS_WEIGHTS_ENTRY (self), 0);

  return self->offset;
}
