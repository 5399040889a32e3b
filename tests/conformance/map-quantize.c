/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "map-quantize.h"

/* Either direction; @to is the integer type of quantised values. */
static RlxNode *
add_op (MapCall      *call,
        RlxNode      *x,
        RlxNode      *scale,
        RlxNode      *zero,
        RlxDataType   to,
        const gint64 *blocks,
        gsize         n_blocks,
        GError      **error)
{
  RlxNode *inputs[] = { x, scale, zero };
  g_auto(GVariantDict) attrs = G_VARIANT_DICT_INIT (NULL);

  if (g_str_equal (call->mapping->op, "quantize_linear"))
    g_variant_dict_insert_value (&attrs, "to", map_data_type (to));
  if (n_blocks > 0)
    g_variant_dict_insert_value (&attrs, "blocks", map_ints (blocks, n_blocks));
  return map_op (call, call->mapping->op, inputs, zero != NULL ? 3 : 2, g_variant_dict_end (&attrs), error);
}

gboolean
webnn_map_quantize (MapCall *call,
                    GError **error)
{
  RlxNode *x = map_operand (call, "input", FALSE, error);
  RlxNode *scale = x != NULL ? map_operand (call, "scale", FALSE, error) : NULL;
  RlxNode *zero = scale != NULL ? map_operand (call, "zeroPoint", FALSE, error) : NULL;
  RlxDataType type;

  if (zero == NULL)
    return FALSE;
  type = rlx_node_get_data_type (x);
  if (rlx_node_get_n_dims (scale) != rlx_node_get_n_dims (x))
    return map_refused (error, "%s: the scale has %u dimensions, the input %u", call->op->name,
                        rlx_node_get_n_dims (scale), rlx_node_get_n_dims (x));
  if (g_str_equal (call->mapping->op, "quantize_linear") &&
      (!(TYPES_FLOAT >> type & 1) || rlx_node_get_data_type (scale) != type))
    return map_refused (error, "%s: the input is of type %s, the scale of type %s", call->op->name,
                        rlx_data_type_to_string (type), rlx_data_type_to_string (rlx_node_get_data_type (scale)));
  return map_return (call, 0, add_op (call, x, scale, zero, rlx_node_get_data_type (zero), NULL, 0, error));
}

/* How to requantise a product of integers. */
typedef struct
{
  RlxNode *bias, *scale, *scale_y, *zero_y;
  gboolean transpose_b;
} Product;
