/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "map-window.h"

#include <math.h>
#include <string.h>

#define MAX_AXES 3

/* The lists that say how a window moves; those that are absent have no values. */
typedef struct
{
  gsize n_axes;
  gboolean has_strides;
  gboolean has_dilations;
  gboolean has_padding;
  gint64 strides[MAX_AXES];
  gint64 dilations[MAX_AXES];
  gint64 padding[2 * MAX_AXES];   /* as in the op table: by axis */
} Moves;

static void
moves_init (Moves *moves,
            gsize  n_axes)
{
  *moves = (Moves) { .n_axes = n_axes };
  for (gsize i = 0; i < n_axes; i++)
    moves->strides[i] = moves->dilations[i] = 1;
}

/* Reads a list that must have @n values; @present tells whether it is there. */
static gboolean
get_list (MapCall    *call,
          const char *name,
          gsize       n,
          gint64     *values,
          gboolean   *present,
          GError    **error)
{
  g_autofree gint64 *list = NULL;
  gsize n_list;

  *present = FALSE;
  if (map_arg (call, name) == NULL)
    return TRUE;
  list = map_arg_ints (call, name, &n_list, error);
  if (list == NULL)
    return FALSE;
  if (n_list != n)
    return map_refused (error, "%s: argument “%s” has %" G_GSIZE_FORMAT " values instead of %" G_GSIZE_FORMAT,
                        call->op->name, name, n_list, n);
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
  g_variant_dict_insert_value (attrs, name, map_ints (values, n_values));
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

/* Sizes that may be absurd: as real numbers, so that nothing wraps. */
static double
get_padded (const Moves *moves,
            gsize        axis,
            gint64       size)
{
  return (double) size + (double) moves->padding[2 * axis] + (double) moves->padding[2 * axis + 1];
}

static double
get_reach (const Moves *moves,
           gsize        axis,
           gint64       window)
{
  return ((double) window - 1) * (double) moves->dilations[axis] + 1;
}

/* ---- WebNN ------------------------------------------------------------------------- */

static RlxNode *
webnn_input (MapCall    *call,
             const char *name,
             GError    **error)
{
  RlxNode *node = map_operand (call, name, FALSE, error);

  if (node != NULL && rlx_node_get_n_dims (node) != 4)
    {
      map_refused (error, "%s: argument “%s” has %u dimensions instead of 4",
                   call->op->name, name, rlx_node_get_n_dims (node));
      return NULL;
    }
  return node;
}

static gboolean
webnn_moves (MapCall *call,
             Moves   *moves,
             GError **error)
{
  moves_init (moves, 2);
  return get_list (call, "strides", 2, moves->strides, &moves->has_strides, error) &&
         get_list (call, "dilations", 2, moves->dilations, &moves->has_dilations, error) &&
         get_list (call, "padding", 4, moves->padding, &moves->has_padding, error);
}

static gboolean
webnn_layout (MapCall      *call,
              const char   *name,
              GVariantDict *attrs,
              gboolean     *channels_last,
              GError      **error)
{
  const char *layout = map_arg_string (call, name, NULL);

  *channels_last = FALSE;
  if (map_arg (call, name) == NULL)
    return TRUE;
  if (g_strcmp0 (layout, "nchw") != 0 && g_strcmp0 (layout, "nhwc") != 0)
    return map_refused (error, "%s: there is no layout “%s”", call->op->name, layout ? layout : "");
  *channels_last = g_str_equal (layout, "nhwc");
  g_variant_dict_insert (attrs, "layout", "s", *channels_last ? "channels-last" : "channels-first");
  return TRUE;
}

static gboolean
webnn_filter_layout (MapCall      *call,
                     gboolean      transposed,
                     GVariantDict *attrs,
                     GError      **error)
{
  static const char *const layouts[2][4][2] = {
    { { "oihw", "ois" }, { "hwio", "sio" }, { "ohwi", "osi" }, { "ihwo", "iso" } },
    { { "iohw", "ios" }, { "hwoi", "soi" }, { "ohwi", "osi" }, { NULL, NULL } },
  };
  const char *layout = map_arg_string (call, "filterLayout", NULL);

  if (map_arg (call, "filterLayout") == NULL)
    return TRUE;
  for (guint i = 0; i < 4; i++)
    if (layouts[transposed][i][0] != NULL && g_strcmp0 (layout, layouts[transposed][i][0]) == 0)
      {
        g_variant_dict_insert (attrs, "filter_layout", "s", layouts[transposed][i][1]);
        return TRUE;
      }
  return map_refused (error, "%s: there is no layout “%s” of filters", call->op->name, layout ? layout : "");
}

/* No stride and no dilation may be longer than what they move over. */
static gboolean
webnn_check_steps (MapCall     *call,
                   const Moves *moves,
                   gsize        axis,
                   double       size,
                   GError     **error)
{
  if ((double) moves->strides[axis] > size || (double) moves->dilations[axis] > size)
    return map_refused (error, "%s: a stride of %" G_GINT64_FORMAT " or a dilation of %" G_GINT64_FORMAT
                        " is more than the size %g",
                        call->op->name, moves->strides[axis], moves->dilations[axis], size);
  return TRUE;
}

/* The padded operand must be a possible tensor. */
static gboolean
webnn_check_padded (MapCall      *call,
                    const Moves  *moves,
                    const gint64 *shape,
                    gboolean      channels_last,
                    GError      **error)
{
  gsize first = channels_last ? 1 : 2;
  double size = (double) shape[0] * (double) shape[channels_last ? 3 : 1];

  for (gsize i = 0; i < 2; i++)
    {
      if (!webnn_check_steps (call, moves, i, get_padded (moves, i, shape[first + i]), error))
        return FALSE;
      size *= get_padded (moves, i, shape[first + i]);
    }
  if (size > G_MAXUINT32)
    return map_refused (error, "%s: with padding the operand has %g elements", call->op->name, size);
  return TRUE;
}

static RlxNode *
webnn_conv (MapCall      *call,
            gboolean      transposed,
            GVariantDict *attrs,
            Moves        *moves,
            gboolean     *channels_last,
            GError      **error)
{
  RlxNode *inputs[3] = { NULL, };
  gint64 groups;

  inputs[0] = webnn_input (call, "input", error);
  inputs[1] = inputs[0] != NULL ? webnn_input (call, "filter", error) : NULL;
  if (inputs[1] == NULL ||
      (map_arg (call, "bias") != NULL && (inputs[2] = map_operand (call, "bias", FALSE, error)) == NULL) ||
      !webnn_moves (call, moves, error) ||
      !webnn_layout (call, "inputLayout", attrs, channels_last, error) ||
      !webnn_filter_layout (call, transposed, attrs, error) ||
      !map_arg_int (call, "groups", 1, &groups, error))
    return NULL;

  moves_insert (moves, attrs);
  g_variant_dict_insert (attrs, "groups", "x", groups);
  return map_op (call, call->mapping->op, inputs, 3, g_variant_dict_end (attrs), error);
}

gboolean
webnn_map_conv (MapCall *call,
                GError **error)
{
  g_auto(GVariantDict) attrs = G_VARIANT_DICT_INIT (NULL);
  gboolean channels_last;
  RlxNode *node, *input;
  gsize n_dims;
  Moves moves;

  node = webnn_conv (call, FALSE, &attrs, &moves, &channels_last, error);
  if (node == NULL)
    return FALSE;
  input = webnn_input (call, "input", error);
  if (input == NULL || !webnn_check_padded (call, &moves, rlx_node_get_shape (input, &n_dims), channels_last, error))
    return FALSE;
  return map_return (call, 0, node);
}

gboolean
webnn_map_conv_transpose (MapCall *call,
                          GError **error)
{
  g_auto(GVariantDict) attrs = G_VARIANT_DICT_INIT (NULL);
  gint64 output_padding[2], output_sizes[2];
  gboolean channels_last, has_padding, has_sizes;
  const gint64 *shape;
  RlxNode *node;
  gsize n_dims;
  Moves moves;

  if (!get_list (call, "outputPadding", 2, output_padding, &has_padding, error) ||
      !get_list (call, "outputSizes", 2, output_sizes, &has_sizes, error))
    return FALSE;
  if (has_padding)
    insert_ints (&attrs, "output_padding", output_padding, 2);
  if (has_sizes)
    insert_ints (&attrs, "output_sizes", output_sizes, 2);

  node = webnn_conv (call, TRUE, &attrs, &moves, &channels_last, error);
  if (node == NULL)
    return FALSE;

  shape = rlx_node_get_shape (node, &n_dims);
  for (gsize i = 0; i < 2; i++)
    {
      if (!webnn_check_steps (call, &moves, i, (double) shape[i + (channels_last ? 1 : 2)], error))
        return FALSE;
      if (has_padding && !has_sizes && output_padding[i] >= moves.strides[i])
        return map_refused (error, "%s: an output padding of %" G_GINT64_FORMAT " is not less than the stride",
                            call->op->name, output_padding[i]);
    }
  return map_return (call, 0, node);
}

gboolean
webnn_map_pool (MapCall *call,
                GError **error)
{
  RlxNode *input = webnn_input (call, "input", error);
  g_auto(GVariantDict) attrs = G_VARIANT_DICT_INIT (NULL);
  const char *rounding = map_arg_string (call, "outputShapeRounding", NULL);
  gint64 window[2], output_sizes[2];
  gboolean channels_last, has_window, has_sizes;
  const gint64 *shape;
  RlxNode *node;
  gsize n_dims, first;
  Moves moves;

  if (input == NULL || !webnn_moves (call, &moves, error) ||
      !webnn_layout (call, "layout", &attrs, &channels_last, error) ||
      !get_list (call, "windowDimensions", 2, window, &has_window, error) ||
      !get_list (call, "outputSizes", 2, output_sizes, &has_sizes, error))
    return FALSE;
  if (map_arg (call, "outputShapeRounding") != NULL &&
      g_strcmp0 (rounding, "floor") != 0 && g_strcmp0 (rounding, "ceil") != 0)
    return map_refused (error, "%s: there is no rounding “%s”", call->op->name, rounding ? rounding : "");

  shape = rlx_node_get_shape (input, &n_dims);
  first = channels_last ? 1 : 2;
  if (!webnn_check_padded (call, &moves, shape, channels_last, error))
    return FALSE;

  if (!has_sizes && g_strcmp0 (rounding, "ceil") == 0)
    {
      /* There every window counts, wherever it begins. */
      has_sizes = TRUE;
      for (gsize i = 0; i < 2; i++)
        {
          gint64 size = has_window ? window[i] : shape[first + i];
          double most = ceil ((get_padded (&moves, i, shape[first + i]) - get_reach (&moves, i, size)) /
                              MAX ((double) moves.strides[i], 1)) + 1;

          output_sizes[i] = (gint64) CLAMP (most, 1, G_MAXINT32);
        }
    }

  moves_insert (&moves, &attrs);
  if (has_window)
    insert_ints (&attrs, "window", window, 2);
  if (has_sizes)
    insert_ints (&attrs, "output_sizes", output_sizes, 2);
  node = map_op1 (call, call->mapping->op, input, g_variant_dict_end (&attrs), error);
  return map_return (call, 0, node);
}

/* ---- ONNX ----------------------------------------------------------------------------- */

/* ONNX Runtime has operators of its own for channels last; filters stay as they are. */
static gboolean
onnx_channels_last (MapCall *call)
{
  return g_str_has_prefix (call->mapping->name, "com.ms.internal.nhwc:");
}

/* The spatial sizes of an operand. */
static const gint64 *
onnx_sizes (MapCall *call,
            RlxNode *node)
{
  gsize n_dims;

  return rlx_node_get_shape (node, &n_dims) + (onnx_channels_last (call) ? 1 : 2);
}

static void
onnx_layout (MapCall      *call,
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
onnx_auto_pad (MapCall *call,
               AutoPad *auto_pad,
               GError **error)
{
  static const char *const words[] = { "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER" };
  const char *word = map_arg_string (call, "auto_pad", NULL);

  *auto_pad = PAD_EXPLICIT;
  if (map_arg (call, "auto_pad") == NULL || g_strcmp0 (word, "") == 0)
    return TRUE;
  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    if (g_strcmp0 (word, words[i]) == 0)
      {
        *auto_pad = (AutoPad) i;
        return TRUE;
      }
  return map_refused (error, "%s: there is no padding “%s”", call->op->name, word ? word : "");
}

/* Lists come as all beginnings, then all ends. */
static gboolean
onnx_moves (MapCall *call,
            gsize    n_axes,
            Moves   *moves,
            AutoPad *auto_pad,
            GError **error)
{
  gint64 pads[2 * MAX_AXES];

  if (n_axes < 1 || n_axes > MAX_AXES)
    return map_unsupported (error, "%s over %" G_GSIZE_FORMAT " axes", call->op->name, n_axes);
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

/* Divides what an axis needs; the odd one goes to the end, or to the beginning. */
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

/* The padding that makes ⌈size / stride⌉ windows. */
static gboolean
onnx_pad_same (MapCall      *call,
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
        return map_refused (error, "%s: a stride is less than 1", call->op->name);
      total = (ceil ((double) sizes[i] / stride) - 1) * stride + get_reach (moves, i, window[i]) - (double) sizes[i];
      set_padding (moves, i, (gint64) CLAMP (total, 0, G_MAXINT32), auto_pad == PAD_UPPER);
    }
  return TRUE;
}

/* What ONNX Runtime fuses into a convolution. */
static RlxNode *
onnx_activate (MapCall *call,
               RlxNode *node,
               GError **error)
{
  static const struct { const char *name; const char *op; const char *attrs[2]; } rows[] = {
    { "Relu", "relu", { NULL, NULL } },
    { "Sigmoid", "sigmoid", { NULL, NULL } },
    { "Tanh", "tanh", { NULL, NULL } },
    { "LeakyRelu", "leaky_relu", { "alpha", NULL } },
    { "HardSigmoid", "hard_sigmoid", { "alpha", "beta" } },
    { "Clip", "clamp", { "minimum", "maximum" } },
  };
  const char *name = map_arg_string (call, "activation", NULL);
  JsonNode *params = map_arg (call, "activation_params");
  JsonArray *values = params != NULL && JSON_NODE_HOLDS_ARRAY (params) ? json_node_get_array (params) : NULL;

  if (name == NULL || *name == '\0')
    return node;
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_auto(GVariantDict) attrs = G_VARIANT_DICT_INIT (NULL);

      if (!g_str_equal (rows[i].name, name))
        continue;
      for (guint j = 0; j < 2 && rows[i].attrs[j] != NULL && values != NULL && j < json_array_get_length (values); j++)
        g_variant_dict_insert (&attrs, rows[i].attrs[j], "d", json_array_get_double_element (values, j));
      return map_op1 (call, rows[i].op, node, g_variant_dict_end (&attrs), error);
    }

  map_unsupported (error, "%s with the activation %s", call->op->name, name);
  return NULL;
}

/* The sizes of the filter, which is the second of @inputs. */
static gboolean
onnx_conv_sizes (MapCall        *call,
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
    return map_refused (error, "%s: the operands have %" G_GSIZE_FORMAT " and %" G_GSIZE_FORMAT " dimensions",
                        call->op->name, *n_axes + 2, n_dims);
  if (*n_axes > MAX_AXES)
    return map_unsupported (error, "%s over %" G_GSIZE_FORMAT " axes", call->op->name, *n_axes);
  if (!get_list (call, "kernel_shape", *n_axes, kernel, &has_kernel, error))
    return FALSE;
  for (gsize i = 0; i < *n_axes; i++)
    {
      window[i] = shape[2 + i];
      if (has_kernel && kernel[i] != window[i])
        return map_refused (error, "%s: kernel_shape is %" G_GINT64_FORMAT " where the filter has %" G_GINT64_FORMAT,
                            call->op->name, kernel[i], window[i]);
    }
  return TRUE;
}

/* The operands, and the sizes of the filter. */
static gboolean
onnx_conv_inputs (MapCall  *call,
                  RlxNode  *inputs[3],
                  gsize    *n_axes,
                  gint64    window[MAX_AXES],
                  GError  **error)
{
  inputs[0] = map_input (call, 0, FALSE, error);
  inputs[1] = inputs[0] != NULL ? map_input (call, 1, FALSE, error) : NULL;
  inputs[2] = NULL;
  if (inputs[1] == NULL || (map_has_input (call, 2) && (inputs[2] = map_input (call, 2, FALSE, error)) == NULL))
    return FALSE;
  return onnx_conv_sizes (call, inputs, n_axes, window, error);
}

gboolean
onnx_map_conv (MapCall *call,
               GError **error)
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
      !map_arg_int (call, "group", 1, &groups, error))
    return FALSE;

  onnx_layout (call, &attrs);
  moves_insert (&moves, &attrs);
  g_variant_dict_insert (&attrs, "groups", "x", groups);
  node = map_op (call, "conv", inputs, 3, g_variant_dict_end (&attrs), error);
  if (node != NULL && map_has_input (call, 3))
    {
      RlxNode *sum = map_input (call, 3, FALSE, error);

      node = sum != NULL ? map_op2 (call, "add", node, sum, NULL, error) : NULL;
    }
  return node != NULL && map_return (call, 0, onnx_activate (call, node, error));
}

/* ConvInteger and QLinearConv. */
gboolean
onnx_map_qconv (MapCall *call,
                GError **error)
{
  /* where the operands are: x, w, their zero points, bias, both scales, those of y */
  static const guint places[2][9] = {
    { 0, 1, 2, 3, 99, 99, 99, 99, 99 },
    { 0, 3, 2, 5, 8, 1, 4, 6, 7 },
  };
  gboolean rescaled = g_str_equal (call->op->name, "QLinearConv");
  g_auto(GVariantDict) attrs = G_VARIANT_DICT_INIT (NULL);
  RlxNode *found[9] = { NULL, }, *inputs[8];
  gint64 window[MAX_AXES], groups;
  AutoPad auto_pad;
  Moves moves;
  gsize n_axes;

  for (guint i = 0; i < G_N_ELEMENTS (found); i++)
    {
      guint place = places[rescaled][i];

      if (place != 99 && map_has_input (call, place) && (found[i] = map_input (call, place, FALSE, error)) == NULL)
        return FALSE;
      if (found[i] == NULL && (i < 2 || (rescaled && i > 4)))
        return map_refused (error, "%s: input %u is missing", call->op->name, place);
    }
  if (!onnx_conv_sizes (call, found, &n_axes, window, error) ||
      !onnx_moves (call, n_axes, &moves, &auto_pad, error) ||
      !onnx_pad_same (call, &moves, auto_pad, onnx_sizes (call, found[0]), window, error) ||
      !map_arg_int (call, "group", 1, &groups, error))
    return FALSE;

  memcpy (inputs, found, 5 * sizeof (RlxNode *));
  inputs[5] = rescaled ? map_op2 (call, "mul", found[5], found[6], NULL, error) : NULL;
  inputs[6] = found[7];
  inputs[7] = found[8];
  if (rescaled && inputs[5] == NULL)
    return FALSE;
  onnx_layout (call, &attrs);
  moves_insert (&moves, &attrs);
  g_variant_dict_insert (&attrs, "groups", "x", groups);
  if (rescaled)
    g_variant_dict_insert_value (&attrs, "to", map_data_type (rlx_node_get_data_type (found[8])));
  return map_return (call, 0, map_op (call, "qconv2d", inputs, 8, g_variant_dict_end (&attrs), error));
}

gboolean
onnx_map_conv_transpose (MapCall *call,
                         GError **error)
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
      !map_arg_int (call, "group", 1, &groups, error))
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
  node = map_op (call, "conv_transpose", inputs, 3, g_variant_dict_end (&attrs), error);
  return node != NULL && map_return (call, 0, onnx_activate (call, node, error));
}

/* The attributes of a pool of @node. */
static gboolean
onnx_pool_attrs (MapCall      *call,
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
    return map_refused (error, "%s: the operand has %" G_GSIZE_FORMAT " dimensions", call->op->name, n_dims);
  if (g_str_has_prefix (call->op->name, "Global"))
    {
      if (n_dims > 2 + MAX_AXES)
        return map_unsupported (error, "%s over %" G_GSIZE_FORMAT " axes", call->op->name, n_dims - 2);
      return TRUE;
    }

  if (!onnx_moves (call, n_dims - 2, &moves, &auto_pad, error) ||
      !get_list (call, "kernel_shape", n_dims - 2, window, &has_window, error) ||
      !map_arg_bool (call, "ceil_mode", FALSE, &ceil_mode, error) ||
      !map_arg_bool (call, "count_include_pad", FALSE, &include, error))
    return FALSE;
  if (!has_window)
    return map_refused (error, "%s: there is no kernel_shape", call->op->name);
  if (!onnx_pad_same (call, &moves, auto_pad, onnx_sizes (call, node), window, error))
    return FALSE;

  moves_insert (&moves, attrs);
  insert_ints (attrs, "window", window, n_dims - 2);
  /* With a padding that is made to fit, there are no more windows. */
  g_variant_dict_insert (attrs, "ceil_mode", "b", ceil_mode && (auto_pad == PAD_EXPLICIT || auto_pad == PAD_NONE));
  if (average)
    g_variant_dict_insert (attrs, "count_include_pad", "b", include);
  return TRUE;
}

static RlxNode *
binary_constant (MapCall    *call,
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
  constant = tensor != NULL ? map_constant (call, tensor, error) : NULL;
  if (constant != NULL)
    constant = map_cast (call, constant, data_type, error);
  return constant != NULL ? map_op2 (call, op, node, constant, NULL, error) : NULL;
}

/* The position in row-major order of an element of [n, c, h, w] in that of
 * [n, c, w, h]: storage_order 1. */
static RlxNode *
turn_positions (MapCall *call,
                RlxNode *positions,
                gint64   height,
                gint64   width,
                GError **error)
{
  RlxNode *column = binary_constant (call, "mod", positions, (double) width, error);
  RlxNode *row = column != NULL ? binary_constant (call, "div", positions, (double) width, error) : NULL;
  RlxNode *plane;

  if (row == NULL ||
      (plane = binary_constant (call, "div", row, (double) height, error)) == NULL ||
      (row = binary_constant (call, "mod", row, (double) height, error)) == NULL ||
      (plane = binary_constant (call, "mul", plane, (double) height * (double) width, error)) == NULL ||
      (column = binary_constant (call, "mul", column, (double) height, error)) == NULL ||
      (row = map_op2 (call, "add", row, column, NULL, error)) == NULL)
    return NULL;
  return map_op2 (call, "add", plane, row, NULL, error);
}

gboolean
onnx_map_pool (MapCall *call,
               GError **error)
{
  RlxNode *input = map_input (call, 0, FALSE, error);
  g_auto(GVariantDict) attrs = G_VARIANT_DICT_INIT (NULL);
  g_autoptr(GVariant) end = NULL;
  RlxNode *positions;
  gint64 order;
  gsize n_dims;

  if (input == NULL ||
      !onnx_pool_attrs (call, input, g_str_equal (call->mapping->op, "average_pool"), &attrs, error) ||
      !map_arg_int (call, "storage_order", 0, &order, error))
    return FALSE;
  end = g_variant_ref_sink (g_variant_dict_end (&attrs));
  if (!map_return (call, 0, map_op1 (call, call->mapping->op, input, end, error)))
    return FALSE;
  if (!g_str_equal (call->mapping->op, "max_pool") || !map_wants_output (call, 1))
    return TRUE;

  positions = map_op1 (call, "arg_max_pool", input, end, error);
  if (positions != NULL && order == 1)
    {
      const gint64 *shape = rlx_node_get_shape (input, &n_dims);

      if (n_dims != 4 || onnx_channels_last (call))
        return map_unsupported (error, "%s with a storage_order over %" G_GSIZE_FORMAT " axes or channels last", call->op->name, n_dims - 2);
      positions = turn_positions (call, positions, shape[2], shape[3], error);
    }
  return positions != NULL && map_return (call, 1, map_cast (call, positions, RLX_DATA_TYPE_I64, error));
}

/* (Σ |x|^p)^(1/p) = (Σ (|x|^(p/2))²)^(1/2 · 2/p) */
gboolean
onnx_map_lp_pool (MapCall *call,
                  GError **error)
{
  RlxNode *node = map_input (call, 0, FALSE, error);
  g_auto(GVariantDict) attrs = G_VARIANT_DICT_INIT (NULL);
  gint64 power;

  if (node == NULL || !map_arg_int (call, "p", 2, &power, error) ||
      !onnx_pool_attrs (call, node, FALSE, &attrs, error))
    return FALSE;
  if (power < 1)
    return map_refused (error, "%s: p is %" G_GINT64_FORMAT, call->op->name, power);

  if (power != 2)
    {
      node = map_op1 (call, "abs", node, NULL, error);
      node = node != NULL ? binary_constant (call, "pow", node, (double) power / 2, error) : NULL;
    }
  node = node != NULL ? map_op1 (call, "l2_pool", node, g_variant_dict_end (&attrs), error) : NULL;
  if (node != NULL && power != 2)
    node = binary_constant (call, "pow", node, 2.0 / (double) power, error);
  return node != NULL && map_return (call, 0, node);
}

/* ---- the reference vectors ---------------------------------------------------------- */

/* One number for all axes. */
static gboolean
ref_number (MapCall      *call,
            const char   *name,
            const char   *attr,
            gsize         n_values,
            GVariantDict *attrs,
            GError      **error)
{
  gint64 value, values[2 * MAX_AXES];

  if (map_arg (call, name) == NULL)
    return TRUE;
  if (!map_arg_int (call, name, 0, &value, error))
    return FALSE;
  for (gsize i = 0; i < n_values; i++)
    values[i] = value;
  insert_ints (attrs, attr, values, n_values);
  return TRUE;
}

gboolean
ref_map_conv (MapCall *call,
              GError **error)
{
  g_auto(GVariantDict) attrs = G_VARIANT_DICT_INIT (NULL);
  RlxNode *inputs[3];
  gint64 groups;
  gsize n_axes;

  inputs[0] = map_input (call, 0, FALSE, error);
  inputs[1] = inputs[0] != NULL ? map_input (call, 1, FALSE, error) : NULL;
  inputs[2] = NULL;
  if (inputs[1] == NULL || (map_has_input (call, 2) && (inputs[2] = map_input (call, 2, FALSE, error)) == NULL))
    return FALSE;
  n_axes = CLAMP (rlx_node_get_n_dims (inputs[0]), 3, 2 + MAX_AXES) - 2;

  if (!ref_number (call, "stride", "strides", n_axes, &attrs, error) ||
      !ref_number (call, "dilation", "dilations", n_axes, &attrs, error) ||
      !ref_number (call, "pad", "padding", 2 * n_axes, &attrs, error) ||
      !ref_number (call, "output_pad", "output_padding", n_axes, &attrs, error) ||
      !map_arg_int (call, "groups", 1, &groups, error))
    return FALSE;
  g_variant_dict_insert (&attrs, "groups", "x", groups);
  return map_return (call, 0, map_op (call, call->mapping->op, inputs, 3, g_variant_dict_end (&attrs), error));
}

gboolean
ref_map_pool (MapCall *call,
              GError **error)
{
  RlxNode *input = map_input (call, 0, FALSE, error);
  g_auto(GVariantDict) attrs = G_VARIANT_DICT_INIT (NULL);
  gboolean include;
  gsize n_axes;

  if (input == NULL || !map_arg_bool (call, "count_include_pad", TRUE, &include, error))
    return FALSE;
  n_axes = CLAMP (rlx_node_get_n_dims (input), 3, 2 + MAX_AXES) - 2;

  if (!ref_number (call, "kernel", "window", n_axes, &attrs, error) ||
      !ref_number (call, "stride", "strides", n_axes, &attrs, error) ||
      !ref_number (call, "dilation", "dilations", n_axes, &attrs, error) ||
      !ref_number (call, "pad", "padding", 2 * n_axes, &attrs, error))
    return FALSE;
  if (g_str_equal (call->mapping->op, "average_pool"))
    g_variant_dict_insert (&attrs, "count_include_pad", "b", include);
  return map_return (call, 0, map_op1 (call, call->mapping->op, input, g_variant_dict_end (&attrs), error));
}
