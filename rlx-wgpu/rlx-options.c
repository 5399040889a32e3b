/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What the generated classes of options share: attributes as properties.
 */
#include "config.h"

#include "rlx-op-options-private.h"

void
rlx_op_options_get_property (gconstpointer attrs,
                             const RlxOp  *op,
                             guint         index,
                             GValue       *value)
{
  const RlxAttrDef *def = &op->attrs[index];
  const RlxInts *ints;

  g_return_if_fail (index < op->n_attrs);

  switch (def->kind)
    {
    case RLX_ATTR_BOOL:
      g_value_set_boolean (value, rlx_attr_get_int (def, attrs) != 0);
      break;

    case RLX_ATTR_INT:
      g_value_set_int64 (value, rlx_attr_get_int (def, attrs));
      break;

    case RLX_ATTR_FLOAT:
      g_value_set_double (value, rlx_attr_get_float (def, attrs));
      break;

    case RLX_ATTR_ENUM:
    case RLX_ATTR_DATA_TYPE:
      g_value_set_enum (value, (int) rlx_attr_get_int (def, attrs));
      break;

    case RLX_ATTR_INTS:
      /* No list is not the same as an empty one. */
      ints = rlx_attr_get_ints (def, attrs);
      if (!ints->is_set && ints->n_values == 0)
        break;
      g_value_take_variant (value, g_variant_ref_sink (g_variant_new_fixed_array (G_VARIANT_TYPE_INT64, ints->values,
                                                                                  ints->n_values, sizeof (gint64))));
      break;

    case RLX_ATTR_STRING:
    default:
      g_return_if_reached ();
    }
}

gboolean
rlx_op_options_set_property (gpointer      attrs,
                             const RlxOp  *op,
                             guint         index,
                             const GValue *value)
{
  const RlxAttrDef *def = &op->attrs[index];
  const gint64 *values;
  GVariant *variant;
  gsize n_values;

  g_return_val_if_fail (index < op->n_attrs, FALSE);

  switch (def->kind)
    {
    case RLX_ATTR_BOOL:
      return rlx_attr_set_int (def, attrs, g_value_get_boolean (value));

    case RLX_ATTR_INT:
      return rlx_attr_set_int (def, attrs, g_value_get_int64 (value));

    case RLX_ATTR_FLOAT:
      return rlx_attr_set_float (def, attrs, g_value_get_double (value));

    case RLX_ATTR_ENUM:
    case RLX_ATTR_DATA_TYPE:
      return rlx_attr_set_int (def, attrs, g_value_get_enum (value));

    case RLX_ATTR_INTS:
      variant = g_value_get_variant (value);
      if (variant == NULL)
        return rlx_attr_reset_ints (def, attrs, op);
      values = g_variant_get_fixed_array (variant, &n_values, sizeof (gint64));
      return rlx_attr_set_ints (def, attrs, values, n_values);

    case RLX_ATTR_STRING:
    default:
      g_return_val_if_reached (FALSE);
    }
}
