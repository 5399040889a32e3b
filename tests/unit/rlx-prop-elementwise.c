/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Calls of element-wise operators.
 */
#include "config.h"

#include "rlx-prop-calls.h"

void
random_attributes (Call *call)
{
  double first = 0;

  for (guint i = 0; i < call->op->n_attrs; i++)
    {
      const RlxAttrDef *attr = &call->op->attrs[i];

      if (attr->kind == RLX_ATTR_BOOL)
        {
          g_variant_dict_insert (call->attributes, attr->name, "b", prop_chance (call->rand, 0.5));
        }
      else if (attr->kind == RLX_ATTR_FLOAT && prop_chance (call->rand, 0.7))
        {
          double value = prop_chance (call->rand, 0.2) ? 300 * (2 * g_rand_double (call->rand) - 1)
                                                       : 4 * g_rand_double (call->rand) - 2;

          /* For the two ends of a range, the larger comes second. */
          if (g_str_equal (attr->name, "maximum"))
            value = MAX (value, first);
          first = value;
          g_variant_dict_insert (call->attributes, attr->name, "d", value);
        }
      else if (attr->kind == RLX_ATTR_FLOAT)
        {
          first = rlx_attr_get_float (attr, call->op->defaults);
        }
      else if (attr->kind == RLX_ATTR_DATA_TYPE)
        {
          g_variant_dict_insert (call->attributes, attr->name, "s",
                                 rlx_data_type_to_string ((RlxDataType) prop_pick (call->rand, 0, RLX_DATA_TYPE_U4)));
        }
    }
}

RlxDataType
get_operand_type (const Call *call,
                  guint       index)
{
  const RlxInputDef *def = &call->op->inputs[index];

  if (def->same_as >= 0)
    def = &call->op->inputs[def->same_as];

  return def->types >> call->data_type & 1 ? call->data_type : RLX_DATA_TYPE_BOOL;
}

static void
elementwise_inputs (Call         *call,
                    const gint64 *shape,
                    gsize         n_dims,
                    gboolean      broadcast)
{
  gsize whole = (gsize) prop_pick (call->rand, 0, call->op->n_inputs - 1);

  for (guint i = 0; i < call->op->n_inputs; i++)
    {
      gint64 part[RLX_MAX_DIMS];
      gsize n_part = n_dims;

      /* With two operands, each may have to be broadcast. */
      if (broadcast && (i != whole || prop_chance (call->rand, 0.5)))
        n_part = random_part (call, shape, n_dims, part);
      else
        memcpy (part, shape, n_dims * sizeof (gint64));
      add_input (call, PROP_WILD, get_operand_type (call, i), part, n_part);
    }
}

gboolean
generate_elementwise (Call *call)
{
  gint64 shape[RLX_MAX_DIMS] = { 0, };
  gsize n_dims = 1;

  switch (call->variant)
    {
    case 0:
      /* Several workgroups, and enough elements to meet every special value. */
      shape[0] = 700 + prop_size (call->rand, 65);
      elementwise_inputs (call, shape, 1, FALSE);
      break;

    case 1:
      n_dims = random_shape (call, shape, 2, 4);
      elementwise_inputs (call, shape, n_dims, TRUE);
      break;

    case 2:
      elementwise_inputs (call, shape, 0, FALSE);
      break;

    case 3:
      /* One operand is a scalar of the graph. */
      shape[0] = prop_size (call->rand, 257);
      for (guint i = 0; i < call->op->n_inputs; i++)
        {
          gboolean constant = i == call->op->n_inputs - 1;

          add_input (call, PROP_WILD, get_operand_type (call, i), shape, constant ? 0 : 1);
          call->constants |= constant ? 1u << i : 0;
        }
      if (call->op->n_inputs < 2)
        return FALSE;
      break;

    case 4:
      n_dims = random_shape (call, shape, 1, 5);
      elementwise_inputs (call, shape, n_dims, FALSE);
      break;

    default:
      return FALSE;
    }

  random_attributes (call);

  return TRUE;
}

/* Broadcasting is shared by all operators: these test it thoroughly. */
static gboolean
generate_broadcast (Call *call)
{
  gint64 shape[RLX_MAX_DIMS];
  gsize n_dims;

  if (call->variant < 5)
    return generate_elementwise (call);
  if (call->variant > 9)
    return FALSE;

  n_dims = random_shape (call, shape, call->variant == 8 ? 8 : 1, 8);
  elementwise_inputs (call, shape, n_dims, TRUE);
  random_attributes (call);

  return TRUE;
}

static gboolean
is_cast_tried (RlxDataType from,
               RlxDataType to)
{
  const guint others = RLX_TYPES_F32 | RLX_TYPES_I32 | 1u << RLX_DATA_TYPE_U32;

  return (from <= RLX_DATA_TYPE_U4 && to <= RLX_DATA_TYPE_U4) || ((1u << from | 1u << to) & others) != 0 || (7 * from + to) % 11 == 0;
}

static gboolean
generate_cast (Call *call)
{
  gint64 shape[] = { 500 + prop_size (call->rand, 65) };
  guint to = 0, n = 0;

  /* Storage-only types are converted from and to a few others, and sometimes each other. */
  for (; to <= RLX_DATA_TYPE_U2; to++)
    if (is_cast_tried (call->data_type, (RlxDataType) to) && n++ == call->variant)
      break;
  if (to > RLX_DATA_TYPE_U2)
    return FALSE;
  add_input (call, PROP_WILD, call->data_type, shape, 1);
  g_variant_dict_insert (call->attributes, "to", "s", rlx_data_type_to_string ((RlxDataType) to));

  return TRUE;
}

const PropRow prop_elementwise_rows[] = {
  { "add", generate_broadcast },
  { "where", generate_broadcast },
  { "less", generate_broadcast },
  { "cast", generate_cast },
  { NULL, NULL },
};
