/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Data types that are stored, but not computed with, and conversions between types.
 */
#include "config.h"

#include "import/rlx-map-private.h"

#include <math.h>

#include "ir/rlx-op-private.h"
#include "util/rlx-data-type-private.h"

/* ---- arithmetic by conversion ------------------------------------------------------- */

/* The type that replaces one that operands cannot have. */
static RlxDataType
widen_type (RlxDataType data_type)
{
  guint bit = 1u << data_type;

  if (bit & RLX_TYPES_NARROW)
    return RLX_DATA_TYPE_F32;
  if (bit & RLX_TYPES_SMALL_INT)
    return rlx_data_type_is_unsigned (data_type) ? RLX_DATA_TYPE_U32 : RLX_DATA_TYPE_I32;
  return data_type;
}

RlxNode **
rlx_map_add_op (RlxMapCall *call,
                const char *name,
                RlxNode   **inputs,
                gsize       n_inputs,
                GVariant   *attrs,
                gsize      *n_outputs,
                GError    **error)
{
  const RlxOp *op = rlx_op_lookup (name);
  g_autofree RlxNode **operands = NULL;
  g_autofree RlxNode **outputs = NULL;
  RlxDataType narrow = RLX_DATA_TYPE_F32;

  *n_outputs = 0;
  if (rlx_map_has_failed (error))
    return NULL;
  for (gsize i = 0; op != NULL && op->n_inputs > 0 && i < n_inputs; i++)
    {
      const RlxInputDef *def = &op->inputs[MIN (i, op->n_inputs - 1)];
      guint types = def->same_as >= 0 ? op->inputs[def->same_as].types : def->types;
      RlxDataType type = inputs[i] != NULL ? rlx_node_get_data_type (inputs[i]) : RLX_DATA_TYPE_F32, wide = widen_type (type);

      if (type == wide || types >> type & 1 || !(types >> wide & 1))
        continue;
      if (operands == NULL)
        operands = g_memdup2 (inputs, n_inputs * sizeof *inputs);
      operands[i] = rlx_map_cast (call, inputs[i], wide, error);
      if (operands[i] == NULL)
        return NULL;
      narrow = type;
    }
  outputs = rlx_graph_add_op (call->graph, name, operands != NULL ? operands : inputs, n_inputs, attrs, n_outputs, error);
  /* Convert results of the operands' type back. */
  for (gsize i = 0; outputs != NULL && operands != NULL && i < *n_outputs; i++)
    if (rlx_node_get_data_type (outputs[i]) == widen_type (narrow) &&
        (outputs[i] = rlx_map_cast (call, outputs[i], narrow, error)) == NULL)
      return NULL;
  return g_steal_pointer (&outputs);
}

/* ---- casts --------------------------------------------------------------------------- */

/* The magnitude from which on numbers round to more than the largest of a type. */
static gboolean
get_end (RlxDataType data_type,
         double     *end)
{
  switch ((int) data_type)
    {
    case RLX_DATA_TYPE_F8E4M3FN:
      /* 464 is halfway and rounds to even, which is 448, the largest number. */
      *end = 464.00003;
      return TRUE;
    case RLX_DATA_TYPE_F8E4M3FNUZ:
      *end = 248;
      return TRUE;
    case RLX_DATA_TYPE_F8E5M2:
    case RLX_DATA_TYPE_F8E5M2FNUZ:
      *end = 61440;
      return TRUE;
    default:
      return FALSE;
    }
}

RlxNode *
rlx_map_cast_narrow (RlxMapCall *call,
                     RlxNode    *node,
                     RlxDataType to,
                     gboolean    saturates,
                     GError    **error)
{
  g_autoptr(RlxTensor) limit = NULL;
  g_autoptr(RlxTensor) other = NULL;
  RlxNode *inputs[3] = { NULL, NULL, node };
  double end;

  /* Casts saturate, but keep infinities if the type has them. */
  if (node == NULL || !get_end (to, &end) || (saturates && to != RLX_DATA_TYPE_F8E5M2))
    return rlx_map_cast (call, node, to, error);
  node = rlx_map_cast (call, node, RLX_DATA_TYPE_F32, error);
  if (node == NULL)
    return NULL;
  if (saturates)
    {
      node = rlx_map_op1 (call, "clamp", node, rlx_map_attrs ("minimum", g_variant_new_double (-end), "maximum", g_variant_new_double (end), NULL), error);
      return rlx_map_cast (call, node, to, error);
    }
  limit = rlx_tensor_new_scalar (RLX_DATA_TYPE_F32, end, error);
  other = rlx_tensor_new_scalar (RLX_DATA_TYPE_F32, to == RLX_DATA_TYPE_F8E5M2 ? INFINITY : NAN, error);
  inputs[2] = node;
  inputs[0] = rlx_map_op1 (call, "abs", node, NULL, error);
  if (limit == NULL || other == NULL || inputs[0] == NULL ||
      (inputs[1] = rlx_map_constant (call, limit, error)) == NULL ||
      (inputs[0] = rlx_map_op2 (call, "greater_equal", inputs[0], inputs[1], NULL, error)) == NULL ||
      (inputs[1] = rlx_map_constant (call, other, error)) == NULL)
    return NULL;
  if (to == RLX_DATA_TYPE_F8E5M2)
    {
      RlxNode *sign = rlx_map_op1 (call, "sign", node, NULL, error);

      /* For 0 this is NaN, which is not selected. */
      inputs[1] = sign != NULL ? rlx_map_op2 (call, "mul", sign, inputs[1], NULL, error) : NULL;
      if (inputs[1] == NULL)
        return NULL;
    }
  return rlx_map_cast (call, rlx_map_op (call, "where", inputs, 3, NULL, error), to, error);
}

gboolean
rlx_onnx_map_cast (RlxMapCall *call,
                   GError    **error)
{
  RlxNode *node = rlx_map_input (call, 0, FALSE, error);
  const char *mode = rlx_map_arg_string (call, "round_mode", NULL);
  RlxDataType to = RLX_DATA_TYPE_F32;
  gboolean saturates;

  if (node == NULL || !rlx_map_arg_bool (call, "saturate", TRUE, &saturates, error))
    return FALSE;
  if (g_str_equal (call->node->op, "CastLike"))
    {
      RlxNode *like = rlx_map_input (call, 1, FALSE, error);

      if (like == NULL)
        return FALSE;
      to = rlx_node_get_data_type (like);
    }
  else if (rlx_map_arg (call, "to") == NULL)
    {
      return rlx_map_refused (error, "attribute “to” is missing");
    }
  else if (!rlx_map_arg_data_type (call, "to", to, &to, error))
    {
      return FALSE;
    }
  if (to == RLX_DATA_TYPE_F8E8M0 && (!saturates || (mode != NULL && !g_str_equal (mode, "up"))))
    return rlx_map_unsupported (error, "conversion to %s always rounds up and saturates", rlx_data_type_to_string (to));
  return rlx_map_return (call, 0, rlx_map_cast_narrow (call, node, to, saturates, error));
}

/* Keeps the bits; between integers this is a cast, which wraps. Floats are only supported in constants. */
gboolean
rlx_onnx_map_bit_cast (RlxMapCall *call,
                       GError    **error)
{
  RlxDataType from, to = RLX_DATA_TYPE_F32;
  RlxNode *node;

  if (rlx_map_arg (call, "to") == NULL)
    return rlx_map_refused (error, "attribute “to” is missing");
  if (!rlx_map_arg_data_type (call, "to", to, &to, error))
    return FALSE;
  if (rlx_map_is_known (call, 0))
    {
      g_autoptr(RlxTensor) tensor = rlx_map_input_value (call, 0, error), result = NULL;
      gsize n_dims;
      const gint64 *shape = tensor != NULL ? rlx_tensor_get_shape (tensor, &n_dims) : NULL;

      if (tensor == NULL)
        return FALSE;
      result = rlx_tensor_new_from_bytes (to, shape, n_dims, rlx_tensor_get_bytes (tensor), error);
      return rlx_map_return_tensor (call, 0, result);
    }
  node = rlx_map_input (call, 0, FALSE, error);
  if (node == NULL)
    return FALSE;
  from = rlx_node_get_data_type (node);
  if (rlx_data_type_get_bits (from) != rlx_data_type_get_bits (to))
    return rlx_map_refused (error, "elements of %s have not as many bits as those of %s", rlx_data_type_to_string (from), rlx_data_type_to_string (to));
  if (from != to && (!rlx_data_type_is_int (from) || !rlx_data_type_is_int (to) || rlx_data_type_get_bits (from) == 64))
    return rlx_map_unsupported (error, "the bits of %s as %s, where they are computed", rlx_data_type_to_string (from), rlx_data_type_to_string (to));
  return rlx_map_return (call, 0, rlx_map_cast (call, node, to, error));
}

/* ---- quantisation to floats -------------------------------------------------------------- */

/* Repeats each element of a scale @block times along @axis. */
static RlxNode *
spread (RlxMapCall   *call,
        RlxNode      *node,
        const gint64 *shape,
        gsize         n_dims,
        gsize         axis,
        gint64        block,
        GError      **error)
{
  gint64 split[RLX_MAX_DIMS + 1], starts[] = { 0 }, ends[] = { shape[axis] }, axes[] = { (gint64) axis };
  g_autofree gint64 *have = NULL;
  gsize n;

  if (node == NULL)
    return NULL;
  have = rlx_map_copy_shape (node, &n);
  if (n != n_dims || n_dims >= RLX_MAX_DIMS)
    {
      rlx_map_refused (error, "the scale has %" G_GSIZE_FORMAT " dimensions instead of %" G_GSIZE_FORMAT, n, n_dims);
      return NULL;
    }
  for (gsize i = 0; i <= n; i++)
    split[i] = i <= axis ? have[i] : i == axis + 1 ? 1 : have[i - 1];
  node = rlx_map_reshape (call, node, split, n + 1, error);
  split[axis + 1] = block;
  if (node != NULL)
    node = rlx_map_op1 (call, "expand", node, rlx_map_attrs ("shape", rlx_map_ints (split, n + 1), NULL), error);
  have[axis] *= block;
  if (node != NULL)
    node = rlx_map_reshape (call, node, have, n, error);
  if (node == NULL)
    return NULL;
  return rlx_map_op1 (call, "slice", node, rlx_map_attrs ("starts", rlx_map_ints (starts, 1), "ends", rlx_map_ints (ends, 1),
                                                          "axes", rlx_map_ints (axes, 1), NULL), error);
}

RlxNode *
rlx_map_quantize_narrow (RlxMapCall *call,
                         RlxNode    *x,
                         RlxNode    *scale,
                         RlxNode    *zero,
                         RlxDataType to,
                         gssize      axis,
                         gint64      block,
                         gboolean    saturates,
                         GError    **error)
{
  gboolean back = rlx_data_type_is_narrow (rlx_node_get_data_type (x));
  g_autofree gint64 *shape = NULL;
  gsize n_dims;

  shape = rlx_map_copy_shape (x, &n_dims);
  x = rlx_map_cast (call, x, RLX_DATA_TYPE_F32, error);
  scale = rlx_map_cast (call, scale, RLX_DATA_TYPE_F32, error);
  if (zero != NULL && (zero = rlx_map_cast (call, zero, RLX_DATA_TYPE_F32, error)) == NULL)
    return NULL;
  if (axis >= 0)
    {
      scale = spread (call, scale, shape, n_dims, (gsize) axis, block, error);
      if (zero != NULL && (zero = spread (call, zero, shape, n_dims, (gsize) axis, block, error)) == NULL)
        return NULL;
    }
  if (x == NULL || scale == NULL)
    return NULL;
  if (back)
    {
      if (zero != NULL && (x = rlx_map_op2_onto (call, "sub", x, zero, error)) == NULL)
        return NULL;
      return rlx_map_cast (call, rlx_map_op2_onto (call, "mul", x, scale, error), to, error);
    }
  x = rlx_map_op2_onto (call, "div", x, scale, error);
  if (zero != NULL && x != NULL)
    x = rlx_map_op2_onto (call, "add", x, zero, error);
  return rlx_map_cast_narrow (call, x, to, saturates, error);
}
