/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"

#include "map-window.h"

#include <math.h>
#include <string.h>

#define MAX_AXES 3

/* The lists that describe how a window moves; absent ones have no values. */
typedef struct
{
  gsize n_axes;
  gboolean has_strides;
  gboolean has_dilations;
  gboolean has_padding;
  gint64 strides[MAX_AXES];
  gint64 dilations[MAX_AXES];
  gint64 padding[2 * MAX_AXES];   /* by axis, as in the operator table */
} Moves;

static void
moves_init (Moves *moves,
            gsize  n_axes)
{
  *moves = (Moves) { .n_axes = n_axes };
  for (gsize i = 0; i < n_axes; i++)
    moves->strides[i] = moves->dilations[i] = 1;
}

/* Reads a list that must have @n values; @present tells whether it exists. */
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

/* Sizes may be absurd: computed as floats, so that nothing wraps. */
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

/* Strides and dilations must not exceed the size they apply to. */
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

/* The padded operand must be a valid tensor. */
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

/* ---- the reference vectors ---------------------------------------------------------- */

/* The same number for all axes. */
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
