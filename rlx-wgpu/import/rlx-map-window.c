/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "import/rlx-map-private.h"

#include <math.h>
#include <string.h>

#define MAX_AXES 3

/* The lists that describe how a window moves; absent lists have no values. */
typedef struct
{
  gsize n_axes;
  gboolean has_strides;
  gboolean has_dilations;
  gboolean has_padding;
  gint64 strides[MAX_AXES];
  gint64 dilations[MAX_AXES];
  gint64 padding[2 * MAX_AXES];   /* in the op table's order: by axis */
} Moves;

static void
moves_init (Moves *moves,
            gsize  n_axes)
{
  *moves = (Moves) { .n_axes = n_axes };
  for (gsize i = 0; i < n_axes; i++)
    moves->strides[i] = moves->dilations[i] = 1;
}

/* Reads a list that must have @n values; @present tells whether there is one. */
static gboolean
get_list (RlxMapCall *call,
          const char *name,
          gsize       n,
          gint64     *values,
          gboolean   *present,
          GError    **error)
{
  g_autofree gint64 *list = NULL;
  gsize n_list;

  *present = FALSE;
  if (rlx_map_arg (call, name) == NULL)
    return TRUE;
  list = rlx_map_arg_ints (call, name, &n_list, error);
  if (list == NULL)
    return FALSE;
  if (n_list != n)
    return rlx_map_refused (error, "%s: argument “%s” has %" G_GSIZE_FORMAT " values instead of %" G_GSIZE_FORMAT,
                            call->node->op, name, n_list, n);
  memcpy (values, list, n * sizeof (gint64));
  *present = TRUE;
  return TRUE;
}

static void
insert_ints (GVariantDict *attrs,
             const char   *name,
             const gint64 *values,
             gsize         n_values)
{
  g_variant_dict_insert_value (attrs, name, rlx_map_ints (values, n_values));
}

static void
moves_insert (const Moves  *moves,
              GVariantDict *attrs)
{
  if (moves->has_strides)
    insert_ints (attrs, "strides", moves->strides, moves->n_axes);
  if (moves->has_dilations)
    insert_ints (attrs, "dilations", moves->dilations, moves->n_axes);
  if (moves->has_padding)
    insert_ints (attrs, "padding", moves->padding, 2 * moves->n_axes);
}

/* Computed as a double, because absurd values would wrap. */
static double
get_reach (const Moves *moves,
           gsize        axis,
           gint64       window)
{
  return ((double) window - 1) * (double) moves->dilations[axis] + 1;
}

/* ---- ONNX ----------------------------------------------------------------------------- */

/* ONNX Runtime has its own operators for channels last; their filters have the usual layout. */
static gboolean
onnx_channels_last (RlxMapCall *call)
{
  return g_str_has_prefix (call->row->name, "com.ms.internal.nhwc:");
}

/* The spatial sizes of an operand. */
static const gint64 *
onnx_sizes (RlxMapCall *call,
            RlxNode    *node)
{
  gsize n_dims;

  return rlx_node_get_shape (node, &n_dims) + (onnx_channels_last (call) ? 1 : 2);
}

static void
onnx_layout (RlxMapCall   *call,
             GVariantDict *attrs)
{
  if (onnx_channels_last (call))
    g_variant_dict_insert (attrs, "layout", "s", "channels-last");
}

typedef enum
{
  PAD_EXPLICIT,
  PAD_NONE,
  PAD_UPPER,
  PAD_LOWER,
} AutoPad;

static gboolean
onnx_auto_pad (RlxMapCall *call,
               AutoPad    *auto_pad,
               GError    **error)
{
  static const char *const words[] = { "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER" };
  const char *word = rlx_map_arg_string (call, "auto_pad", NULL);

  *auto_pad = PAD_EXPLICIT;
  if (rlx_map_arg (call, "auto_pad") == NULL || g_strcmp0 (word, "") == 0)
    return TRUE;
  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    if (g_strcmp0 (word, words[i]) == 0)
      {
        *auto_pad = (AutoPad) i;
        return TRUE;
      }
  return rlx_map_refused (error, "%s: there is no padding “%s”", call->node->op, word ? word : "");
}

/* Lists have all beginnings first, then all ends. */
static gboolean
onnx_moves (RlxMapCall *call,
            gsize       n_axes,
            Moves      *moves,
            AutoPad    *auto_pad,
            GError    **error)
{
  gint64 pads[2 * MAX_AXES];

  if (n_axes < 1 || n_axes > MAX_AXES)
    return rlx_map_unsupported (error, "%s over %" G_GSIZE_FORMAT " axes", call->node->op, n_axes);
  moves_init (moves, n_axes);
  if (!onnx_auto_pad (call, auto_pad, error) ||
      !get_list (call, "strides", n_axes, moves->strides, &moves->has_strides, error) ||
      !get_list (call, "dilations", n_axes, moves->dilations, &moves->has_dilations, error) ||
      !get_list (call, "pads", 2 * n_axes, pads, &moves->has_padding, error))
    return FALSE;

  if (*auto_pad != PAD_EXPLICIT)
    moves->has_padding = FALSE;
  for (gsize i = 0; i < n_axes && moves->has_padding; i++)
    {
      moves->padding[2 * i] = pads[i];
      moves->padding[2 * i + 1] = pads[n_axes + i];
    }
  return TRUE;
}

/* Splits the padding of an axis; an odd element goes to the end if @upper, else to the beginning. */
static void
set_padding (Moves   *moves,
             gsize    axis,
             gint64   total,
             gboolean upper)
{
  moves->has_padding = TRUE;
  moves->padding[2 * axis] = upper ? total / 2 : total - total / 2;
  moves->padding[2 * axis + 1] = total - moves->padding[2 * axis];
}

/* The padding that results in ⌈size / stride⌉ windows. */
static gboolean
onnx_pad_same (RlxMapCall   *call,
               Moves        *moves,
               AutoPad       auto_pad,
               const gint64 *sizes,
               const gint64 *window,
               GError      **error)
{
  if (auto_pad != PAD_UPPER && auto_pad != PAD_LOWER)
    return TRUE;

  for (gsize i = 0; i < moves->n_axes; i++)
    {
      double stride = (double) moves->strides[i];
      double total;

      if (stride < 1)
        return rlx_map_refused (error, "%s: a stride is less than 1", call->node->op);
      total = (ceil ((double) sizes[i] / stride) - 1) * stride + get_reach (moves, i, window[i]) - (double) sizes[i];
      set_padding (moves, i, (gint64) CLAMP (total, 0, G_MAXINT32), auto_pad == PAD_UPPER);
    }
  return TRUE;
}

/* The activation that ONNX Runtime fused into a convolution. */
static RlxNode *
onnx_activate (RlxMapCall *call,
               RlxNode    *node,
               GError    **error)
{
  static const struct { const char *name; const char *op; const char *attrs[2]; } rows[] = {
    { "Relu", "relu", { NULL, NULL } },
    { "Sigmoid", "sigmoid", { NULL, NULL } },
    { "Tanh", "tanh", { NULL, NULL } },
    { "LeakyRelu", "leaky_relu", { "alpha", NULL } },
    { "HardSigmoid", "hard_sigmoid", { "alpha", "beta" } },
    { "Clip", "clamp", { "minimum", "maximum" } },
  };
  const char *name = rlx_map_arg_string (call, "activation", NULL);
  gsize n_values;
  g_autofree float *values = rlx_map_arg_floats (call, "activation_params", &n_values, NULL);

  if (name == NULL || *name == '\0')
    return node;
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_auto(GVariantDict) attrs = G_VARIANT_DICT_INIT (NULL);

      if (!g_str_equal (rows[i].name, name))
        continue;
      for (guint j = 0; j < 2 && rows[i].attrs[j] != NULL && j < n_values; j++)
        g_variant_dict_insert (&attrs, rows[i].attrs[j], "d", (double) values[j]);
      return rlx_map_op1 (call, rows[i].op, node, g_variant_dict_end (&attrs), error);
    }

  rlx_map_unsupported (error, "%s with the activation %s", call->node->op, name);
  return NULL;
}

/* The spatial sizes of the filter, which is the second of @inputs. */
static gboolean
onnx_conv_sizes (RlxMapCall        *call,
                 RlxNode *const *inputs,
                 gsize          *n_axes,
                 gint64          window[MAX_AXES],
                 GError        **error)
{
  gint64 kernel[MAX_AXES];
  gboolean has_kernel;
  const gint64 *shape;
  gsize n_dims;

  *n_axes = rlx_node_get_n_dims (inputs[0]) - 2;
  shape = rlx_node_get_shape (inputs[1], &n_dims);
  if (rlx_node_get_n_dims (inputs[0]) < 3 || n_dims != *n_axes + 2)
    return rlx_map_refused (error, "%s: the operands have %" G_GSIZE_FORMAT " and %" G_GSIZE_FORMAT " dimensions",
                            call->node->op, *n_axes + 2, n_dims);
  if (*n_axes > MAX_AXES)
    return rlx_map_unsupported (error, "%s over %" G_GSIZE_FORMAT " axes", call->node->op, *n_axes);
  if (!get_list (call, "kernel_shape", *n_axes, kernel, &has_kernel, error))
    return FALSE;
  for (gsize i = 0; i < *n_axes; i++)
    {
      window[i] = shape[2 + i];
      if (has_kernel && kernel[i] != window[i])
        return rlx_map_refused (error, "%s: kernel_shape is %" G_GINT64_FORMAT " where the filter has %" G_GINT64_FORMAT,
                                call->node->op, kernel[i], window[i]);
    }
  return TRUE;
}

/* The operands, and the spatial sizes of the filter. */
static gboolean
onnx_conv_inputs (RlxMapCall  *call,
                  RlxNode  *inputs[3],
                  gsize    *n_axes,
                  gint64    window[MAX_AXES],
                  GError  **error)
{
  inputs[0] = rlx_map_input (call, 0, FALSE, error);
  inputs[1] = inputs[0] != NULL ? rlx_map_input (call, 1, FALSE, error) : NULL;
  inputs[2] = NULL;
  if (inputs[1] == NULL || (rlx_map_has_input (call, 2) && (inputs[2] = rlx_map_input (call, 2, FALSE, error)) == NULL))
    return FALSE;
  return onnx_conv_sizes (call, inputs, n_axes, window, error);
}

gboolean
rlx_onnx_map_conv (RlxMapCall *call,
                   GError    **error)
{
  g_auto(GVariantDict) attrs = G_VARIANT_DICT_INIT (NULL);
  RlxNode *inputs[3], *node;
  gint64 window[MAX_AXES], groups;
  gsize n_axes;
  AutoPad auto_pad;
  Moves moves;

  if (!onnx_conv_inputs (call, inputs, &n_axes, window, error) ||
      !onnx_moves (call, n_axes, &moves, &auto_pad, error) ||
      !onnx_pad_same (call, &moves, auto_pad, onnx_sizes (call, inputs[0]), window, error) ||
      !rlx_map_arg_int (call, "group", 1, &groups, error))
    return FALSE;

  onnx_layout (call, &attrs);
  moves_insert (&moves, &attrs);
  g_variant_dict_insert (&attrs, "groups", "x", groups);
  node = rlx_map_op (call, "conv", inputs, 3, g_variant_dict_end (&attrs), error);
  if (node != NULL && rlx_map_has_input (call, 3))
    {
      RlxNode *sum = rlx_map_input (call, 3, FALSE, error);

      node = sum != NULL ? rlx_map_op2 (call, "add", node, sum, NULL, error) : NULL;
    }
  return node != NULL && rlx_map_return (call, 0, onnx_activate (call, node, error));
}

/* ConvInteger and QLinearConv. */
gboolean
rlx_onnx_map_qconv (RlxMapCall *call,
                    GError    **error)
{
  /* the positions of x, w, their zero points, the bias, both scales, and scale and zero point of y */
  static const guint places[2][9] = {
    { 0, 1, 2, 3, 99, 99, 99, 99, 99 },
    { 0, 3, 2, 5, 8, 1, 4, 6, 7 },
  };
  gboolean rescaled = g_str_equal (call->node->op, "QLinearConv");
  g_auto(GVariantDict) attrs = G_VARIANT_DICT_INIT (NULL);
  RlxNode *found[9] = { NULL, }, *inputs[8];
  gint64 window[MAX_AXES], groups;
  AutoPad auto_pad;
  Moves moves;
  gsize n_axes;

  for (guint i = 0; i < G_N_ELEMENTS (found); i++)
    {
      guint place = places[rescaled][i];

      if (place != 99 && rlx_map_has_input (call, place) && (found[i] = rlx_map_input (call, place, FALSE, error)) == NULL)
        return FALSE;
      if (found[i] == NULL && (i < 2 || (rescaled && i > 4)))
        return rlx_map_refused (error, "%s: input %u is missing", call->node->op, place);
    }
  if (!onnx_conv_sizes (call, found, &n_axes, window, error) ||
      !onnx_moves (call, n_axes, &moves, &auto_pad, error) ||
      !onnx_pad_same (call, &moves, auto_pad, onnx_sizes (call, found[0]), window, error) ||
      !rlx_map_arg_int (call, "group", 1, &groups, error))
    return FALSE;

  memcpy (inputs, found, 5 * sizeof (RlxNode *));
  inputs[5] = rescaled ? rlx_map_op2 (call, "mul", found[5], found[6], NULL, error) : NULL;
  inputs[6] = found[7];
  inputs[7] = found[8];
  if (rescaled && inputs[5] == NULL)
    return FALSE;
  onnx_layout (call, &attrs);
  moves_insert (&moves, &attrs);
  g_variant_dict_insert (&attrs, "groups", "x", groups);
  if (rescaled)
    g_variant_dict_insert_value (&attrs, "to", rlx_map_data_type (rlx_node_get_data_type (found[8])));
  return rlx_map_return (call, 0, rlx_map_op (call, "qconv2d", inputs, 8, g_variant_dict_end (&attrs), error));
}

gboolean
rlx_onnx_map_conv_transpose (RlxMapCall *call,
                             GError    **error)
{
  g_auto(GVariantDict) attrs = G_VARIANT_DICT_INIT (NULL);
  RlxNode *inputs[3], *node;
  gint64 window[MAX_AXES], output_padding[MAX_AXES] = { 0, }, output_sizes[MAX_AXES], groups;
  gboolean has_output_padding, has_sizes;
  const gint64 *sizes;
  gsize n_axes;
  AutoPad auto_pad;
  Moves moves;

  if (!onnx_conv_inputs (call, inputs, &n_axes, window, error) ||
      !onnx_moves (call, n_axes, &moves, &auto_pad, error) ||
      !get_list (call, "output_padding", n_axes, output_padding, &has_output_padding, error) ||
      !get_list (call, "output_shape", n_axes, output_sizes, &has_sizes, error) ||
      !rlx_map_arg_int (call, "group", 1, &groups, error))
    return FALSE;

  sizes = onnx_sizes (call, inputs[0]);
  for (gsize i = 0; i < n_axes && !has_sizes && (auto_pad == PAD_UPPER || auto_pad == PAD_LOWER); i++)
    output_sizes[i] = sizes[i] * CLAMP (moves.strides[i], 0, G_MAXINT32);
  has_sizes = has_sizes || auto_pad == PAD_UPPER || auto_pad == PAD_LOWER;

  if (has_sizes)
    {
      for (gsize i = 0; i < n_axes; i++)
        {
          double total = ((double) sizes[i] - 1) * (double) moves.strides[i] + (double) output_padding[i] +
                         get_reach (&moves, i, window[i]) - (double) output_sizes[i];

          set_padding (&moves, i, (gint64) CLAMP (total, 0, G_MAXINT32), auto_pad == PAD_UPPER);
        }
      insert_ints (&attrs, "output_sizes", output_sizes, n_axes);
    }
  else if (has_output_padding)
    {
      insert_ints (&attrs, "output_padding", output_padding, n_axes);
    }

  onnx_layout (call, &attrs);
  moves_insert (&moves, &attrs);
  g_variant_dict_insert (&attrs, "groups", "x", groups);
  node = rlx_map_op (call, "conv_transpose", inputs, 3, g_variant_dict_end (&attrs), error);
  return node != NULL && rlx_map_return (call, 0, onnx_activate (call, node, error));
}

/* The attributes of a pool of @node. */
static gboolean
onnx_pool_attrs (RlxMapCall   *call,
                 RlxNode      *node,
                 gboolean      average,
                 GVariantDict *attrs,
                 GError      **error)
{
  gboolean has_window, ceil_mode, include;
  gint64 window[MAX_AXES];
  AutoPad auto_pad;
  Moves moves;
  gsize n_dims = rlx_node_get_n_dims (node);

  onnx_layout (call, attrs);
  if (n_dims < 3)
    return rlx_map_refused (error, "%s: the operand has %" G_GSIZE_FORMAT " dimensions", call->node->op, n_dims);
  if (g_str_has_prefix (call->node->op, "Global"))
    {
      if (n_dims > 2 + MAX_AXES)
        return rlx_map_unsupported (error, "%s over %" G_GSIZE_FORMAT " axes", call->node->op, n_dims - 2);
      return TRUE;
    }

  if (!onnx_moves (call, n_dims - 2, &moves, &auto_pad, error) ||
      !get_list (call, "kernel_shape", n_dims - 2, window, &has_window, error) ||
      !rlx_map_arg_bool (call, "ceil_mode", FALSE, &ceil_mode, error) ||
      !rlx_map_arg_bool (call, "count_include_pad", FALSE, &include, error))
    return FALSE;
  if (!has_window)
    return rlx_map_refused (error, "%s: there is no kernel_shape", call->node->op);
  if (!onnx_pad_same (call, &moves, auto_pad, onnx_sizes (call, node), window, error))
    return FALSE;

  moves_insert (&moves, attrs);
  insert_ints (attrs, "window", window, n_dims - 2);
  /* With automatic padding, ceil_mode cannot add windows. */
  g_variant_dict_insert (attrs, "ceil_mode", "b", ceil_mode && (auto_pad == PAD_EXPLICIT || auto_pad == PAD_NONE));
  if (average)
    g_variant_dict_insert (attrs, "count_include_pad", "b", include);
  return TRUE;
}

static RlxNode *
binary_constant (RlxMapCall *call,
                 const char *op,
                 RlxNode    *node,
                 double      value,
                 GError    **error)
{
  RlxDataType data_type = rlx_node_get_data_type (node);
  gboolean is_float = (TYPES_FLOAT & 1u << data_type) != 0;
  float number = (float) value;
  gint64 integer = (gint64) value;
  g_autoptr(RlxTensor) tensor = NULL;
  RlxNode *constant;

  tensor = is_float ? rlx_tensor_new_from_floats (NULL, 0, &number, 1, error)
                    : rlx_tensor_new_from_ints (data_type, NULL, 0, &integer, 1, error);
  constant = tensor != NULL ? rlx_map_constant (call, tensor, error) : NULL;
  if (constant != NULL)
    constant = rlx_map_cast (call, constant, data_type, error);
  return constant != NULL ? rlx_map_op2 (call, op, node, constant, NULL, error) : NULL;
}

/* Converts the row-major position of an element in [n, c, h, w] to that in [n, c, w, h], for a storage_order of 1. */
static RlxNode *
turn_positions (RlxMapCall *call,
                RlxNode    *positions,
                gint64      height,
                gint64      width,
                GError    **error)
{
  RlxNode *column = binary_constant (call, "mod", positions, (double) width, error);
  RlxNode *row = column != NULL ? binary_constant (call, "div", positions, (double) width, error) : NULL;
  RlxNode *plane;

  if (row == NULL ||
      (plane = binary_constant (call, "div", row, (double) height, error)) == NULL ||
      (row = binary_constant (call, "mod", row, (double) height, error)) == NULL ||
      (plane = binary_constant (call, "mul", plane, (double) height * (double) width, error)) == NULL ||
      (column = binary_constant (call, "mul", column, (double) height, error)) == NULL ||
      (row = rlx_map_op2 (call, "add", row, column, NULL, error)) == NULL)
    return NULL;
  return rlx_map_op2 (call, "add", plane, row, NULL, error);
}

gboolean
rlx_onnx_map_pool (RlxMapCall *call,
                   GError    **error)
{
  RlxNode *input = rlx_map_input (call, 0, FALSE, error);
  g_auto(GVariantDict) attrs = G_VARIANT_DICT_INIT (NULL);
  g_autoptr(GVariant) end = NULL;
  RlxNode *positions;
  gint64 order;
  gsize n_dims;

  if (input == NULL ||
      !onnx_pool_attrs (call, input, g_str_equal (call->row->op, "average_pool"), &attrs, error) ||
      !rlx_map_arg_int (call, "storage_order", 0, &order, error))
    return FALSE;
  end = g_variant_ref_sink (g_variant_dict_end (&attrs));
  if (!rlx_map_return (call, 0, rlx_map_op1 (call, call->row->op, input, end, error)))
    return FALSE;
  if (!g_str_equal (call->row->op, "max_pool") || !rlx_map_wants_output (call, 1))
    return TRUE;

  positions = rlx_map_op1 (call, "arg_max_pool", input, end, error);
  if (positions != NULL && order == 1)
    {
      const gint64 *shape = rlx_node_get_shape (input, &n_dims);

      if (n_dims != 4 || onnx_channels_last (call))
        return rlx_map_unsupported (error, "%s with a storage_order over %" G_GSIZE_FORMAT " axes or channels last", call->node->op, n_dims - 2);
      positions = turn_positions (call, positions, shape[2], shape[3], error);
    }
  return positions != NULL && rlx_map_return (call, 1, rlx_map_cast (call, positions, RLX_DATA_TYPE_I64, error));
}

/* (Σ |x|^p)^(1/p) = (Σ (|x|^(p/2))²)^(1/2 · 2/p) */
gboolean
rlx_onnx_map_lp_pool (RlxMapCall *call,
                      GError    **error)
{
  RlxNode *node = rlx_map_input (call, 0, FALSE, error);
  g_auto(GVariantDict) attrs = G_VARIANT_DICT_INIT (NULL);
  gint64 power;

  if (node == NULL || !rlx_map_arg_int (call, "p", 2, &power, error) ||
      !onnx_pool_attrs (call, node, FALSE, &attrs, error))
    return FALSE;
  if (power < 1)
    return rlx_map_refused (error, "%s: p is %" G_GINT64_FORMAT, call->node->op, power);

  if (power != 2)
    {
      node = rlx_map_op1 (call, "abs", node, NULL, error);
      node = node != NULL ? binary_constant (call, "pow", node, (double) power / 2, error) : NULL;
    }
  node = node != NULL ? rlx_map_op1 (call, "l2_pool", node, g_variant_dict_end (&attrs), error) : NULL;
  if (node != NULL && power != 2)
    node = binary_constant (call, "pow", node, 2.0 / (double) power, error);
  return node != NULL && rlx_map_return (call, 0, node);
}
