/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Calls of convolutions and pools.
 */
#include "config.h"

#include "rlx-prop-window.h"

/* The extent of a window. */
gint64
moves_reach (const Moves *moves,
             gsize        axis)
{
  return (moves->window[axis] - 1) * moves->dilation[axis] + 1;
}

void
random_moves (Call  *call,
              gsize  n_axes,
              Moves *moves)
{
  *moves = (Moves) { .n_axes = n_axes, .last = prop_chance (call->rand, 0.5) };
  for (gsize i = 0; i < n_axes; i++)
    {
      gint64 padded;

      moves->in[i] = prop_pick (call->rand, 1, n_axes == 1 ? 70 : n_axes == 2 ? 12 : 6);
      moves->window[i] = prop_pick (call->rand, 1, 4);
      moves->stride[i] = prop_chance (call->rand, 0.5) ? 1 : prop_pick (call->rand, 2, 5);
      moves->dilation[i] = prop_chance (call->rand, 0.6) ? 1 : prop_pick (call->rand, 2, 3);
      moves->padding[2 * i] = prop_chance (call->rand, 0.5) ? 0 : prop_pick (call->rand, 1, 3);
      moves->padding[2 * i + 1] = prop_chance (call->rand, 0.5) ? 0 : prop_pick (call->rand, 1, 3);
      padded = moves->in[i] + moves->padding[2 * i] + moves->padding[2 * i + 1];
      /* Add padding until a long window fits. */
      if (moves_reach (moves, i) > padded)
        moves->padding[2 * i] += moves_reach (moves, i) - padded;
    }
}

void
set_moves (Call        *call,
           const Moves *moves)
{
  set_ints (call, "strides", moves->stride, moves->n_axes);
  set_ints (call, "dilations", moves->dilation, moves->n_axes);
  set_ints (call, "padding", moves->padding, 2 * moves->n_axes);
}

void
image_shape (const Moves *moves,
             gint64       batch,
             gint64       channels,
             gint64      *shape)
{
  shape[0] = batch;
  shape[moves->last ? moves->n_axes + 1 : 1] = channels;
  for (gsize i = 0; i < moves->n_axes; i++)
    shape[i + (moves->last ? 1 : 2)] = moves->in[i];
}

/* Sizes that exercise different paths of the kernel. */
const ConvSizes conv_edges[N_CONV_EDGES] = {
  { 1, 1, 5, 33, { 2, FALSE, { 8, 9 }, { 1, 1 }, PLAIN, PLAIN, { 0, } } },
  { 1, 1, 70, 2, { 2, FALSE, { 3, 3 }, { 3, 3 }, PLAIN, PLAIN, { 0, } } },                /* long sums */
  { 2, 1, 3, 40, { 2, TRUE, { 5, 4 }, { 3, 2 }, PLAIN, PLAIN, { 1, 0, 0, 1 } } },         /* lanes along channels */
  { 1, 2, 6, 65, { 1, FALSE, { 4 }, { 2 }, PLAIN, PLAIN, { 0, } } },                      /* few positions */
  { 2, 5, 1, 2, { 2, FALSE, { 9, 11 }, { 3, 3 }, PLAIN, PLAIN, { 1, 1, 1, 1 } } },        /* depthwise */
  { 1, 9, 1, 1, { 2, TRUE, { 6, 5 }, { 3, 2 }, { 2, 1, 1 }, PLAIN, { 0, 2, 1, 0 } } },
  { 0, 1, 2, 3, { 2, FALSE, { 4, 4 }, { 2, 2 }, PLAIN, PLAIN, { 0, } } },                 /* no batch */
  { 2, 1, 0, 3, { 1, FALSE, { 5 }, { 2 }, PLAIN, PLAIN, { 0, } } },                       /* empty sums */
  { 1, 1, 2, 17, { 3, FALSE, { 5, 4, 6 }, { 2, 3, 2 }, { 2, 1, 2 }, { 1, 1, 2 }, { 1, 0, 0, 1, 2, 0 } } },
  { 3, 2, 9, 5, { 1, TRUE, { 33 }, { 4 }, { 3, 1, 1 }, { 2, 1, 1 }, { 3, 1 } } },
  { 1, 3, 2, 1, { 1, FALSE, { 2 }, { 5 }, PLAIN, PLAIN, { 4, 0 } } },                     /* the filter is longer than the operand */
  { 1, 1, 4, 20, { 2, FALSE, { 20, 20 }, { 3, 3 }, PLAIN, PLAIN, { 1, 1, 1, 1 } } },      /* several workgroups */
  { 1, 1, 2, 2, { 2, FALSE, { 1, 7 }, { 2, 2 }, { 7, 3, 1 }, PLAIN, { 1, 0, 0, 0 } } },   /* steps over elements */
};

/* Adds a filter with its channels where the layout has them. */
void
add_filter (Call        *call,
            PropKind     kind,
            const Moves *moves,
            gint64       out,
            gint64       in)
{
  static const char *const layouts[] = { "ois", "ios", "osi", "iso", "sio", "soi" };
  const char *layout = layouts[prop_pick (call->rand, 0, G_N_ELEMENTS (layouts) - 1)];
  gint64 shape[RLX_MAX_DIMS];
  gsize n = 0;

  for (const char *letter = layout; *letter != '\0'; letter++)
    {
      if (*letter == 'o')
        shape[n++] = out;
      else if (*letter == 'i')
        shape[n++] = in;
      else
        for (gsize i = 0; i < moves->n_axes; i++)
          shape[n++] = moves->window[i];
    }
  add_input (call, kind, call->data_type, shape, n);
  g_variant_dict_insert (call->attributes, "filter_layout", "s", layout);
}

/* The largest padding that a transposed convolution can have, and the additional length
 * of the result. */
static void
transpose_moves (Call  *call,
                 Moves *moves)
{
  gint64 more[WINDOW_AXES], sizes[WINDOW_AXES];

  for (gsize i = 0; i < moves->n_axes; i++)
    {
      gint64 all = (moves->in[i] - 1) * moves->stride[i] + moves_reach (moves, i);
      gint64 greatest = MAX (moves->stride[i], moves->window[i] > 1 ? moves->dilation[i] : 1) - 1;

      moves->padding[2 * i] = MIN (moves->padding[2 * i], all - 1);
      moves->padding[2 * i + 1] = MIN (moves->padding[2 * i + 1], all - 1 - moves->padding[2 * i]);
      more[i] = prop_pick (call->rand, 0, greatest);
      sizes[i] = all - moves->padding[2 * i] - moves->padding[2 * i + 1] + more[i];
    }
  if (prop_chance (call->rand, 0.4))
    set_ints (call, "output_padding", more, moves->n_axes);
  else if (prop_chance (call->rand, 0.5))
    set_ints (call, "output_sizes", sizes, moves->n_axes);
}

static gboolean
generate_conv (Call *call)
{
  gboolean transposed = g_str_equal (call->op->name, "conv_transpose");
  PropKind kind = call->variant == 16 ? PROP_SPOILT : PROP_TAME;
  gint64 shape[RLX_MAX_DIMS];
  ConvSizes sizes;

  /* Each of them is a kernel of its own, which the driver takes long to compile. */
  if (call->variant > (call->data_type == RLX_DATA_TYPE_F32 ? 20 : 5))
    return FALSE;

  if (call->variant < N_CONV_EDGES)
    {
      sizes = conv_edges[call->variant];
    }
  else
    {
      sizes.batch = prop_pick (call->rand, 1, 3);
      sizes.groups = prop_chance (call->rand, 0.5) ? 1 : prop_pick (call->rand, 2, 4);
      sizes.in = prop_pick (call->rand, 1, 6);
      sizes.out = prop_size (call->rand, sizes.groups == 1 ? 17 : 5);
      random_moves (call, 1 + call->variant % WINDOW_AXES, &sizes.moves);
    }
  if (call->variant == 15 && !transposed)
    {
      /* Padding alone. */
      sizes.moves.padding[0] += moves_reach (&sizes.moves, 0);
      sizes.moves.in[0] = 0;
    }
  if (transposed)
    transpose_moves (call, &sizes.moves);

  image_shape (&sizes.moves, sizes.batch, sizes.in * sizes.groups, shape);
  if (!transposed && !sizes.moves.last && call->variant % 4 == 1)
    {
      shape[0] = sizes.in * sizes.groups;
      shape[1] = sizes.batch;
      g_variant_dict_insert (call->attributes, "swapped", "b", TRUE);
    }
  add_input (call, kind, call->data_type, shape, sizes.moves.n_axes + 2);
  if (transposed)
    add_filter (call, kind, &sizes.moves, sizes.out, sizes.in * sizes.groups);
  else
    add_filter (call, kind, &sizes.moves, sizes.out * sizes.groups, sizes.in);
  if (prop_chance (call->rand, 0.7))
    add_input (call, kind, call->data_type, (gint64[]) { sizes.out * sizes.groups }, 1);

  set_moves (call, &sizes.moves);
  g_variant_dict_insert (call->attributes, "groups", "x", sizes.groups);
  g_variant_dict_insert (call->attributes, "layout", "s", sizes.moves.last ? "channels-last" : "channels-first");
  return TRUE;
}

static gboolean
generate_im2col (Call *call)
{
  gint64 shape[RLX_MAX_DIMS];
  Moves moves;

  if (call->variant > 7)
    return FALSE;

  random_moves (call, 1 + call->variant % WINDOW_AXES, &moves);
  moves.last = FALSE;
  if (call->variant == 6)
    {
      moves.padding[0] += moves_reach (&moves, 0);
      moves.in[0] = 0;
    }
  image_shape (&moves, call->variant == 7 ? 0 : prop_pick (call->rand, 1, 3), prop_pick (call->rand, 1, 4), shape);
  add_input (call, PROP_TAME, call->data_type, shape, moves.n_axes + 2);
  set_ints (call, "window", moves.window, moves.n_axes);
  set_moves (call, &moves);
  return TRUE;
}

static gboolean
generate_pool (Call *call)
{
  gint64 shape[RLX_MAX_DIMS];
  gboolean max = strstr (call->op->name, "max") != NULL, backward = g_str_has_suffix (call->op->name, "_backward");
  gint64 sizes[WINDOW_AXES] = { 1, 1, 1 };
  gboolean all = FALSE;
  Moves moves;

  if (call->variant > (call->data_type == RLX_DATA_TYPE_F32 ? 14 : 4))
    return FALSE;

  random_moves (call, 1 + call->variant % WINDOW_AXES, &moves);
  if (call->variant == 0 || call->variant == 1)
    {
      /* Long enough for several steps. */
      moves = (Moves) { 2, call->variant == 1, { 37, 61 }, { 0, }, PLAIN, PLAIN, { 0, } };
      all = TRUE;
    }
  else if (call->variant == 2)
    {
      /* One workgroup per window. */
      moves = (Moves) { 2, FALSE, { 36, 35 }, { 34, 33 }, { 2, 1, 1 }, PLAIN, { 1, 0, 2, 0 } };
    }
  else if (call->variant == 3)
    {
      moves = (Moves) { 3, TRUE, { 3, 1, 5 }, { 0, }, PLAIN, PLAIN, { 0, } };
      all = TRUE;
    }
  else if (call->variant == 4 || call->variant % 5 == 0)
    {
      /* Adjacent. */
      for (gsize i = 0; i < moves.n_axes; i++)
        {
          moves.dilation[i] = 1;
          moves.stride[i] = moves.window[i];
          moves.in[i] = MAX (moves.in[i], moves.window[i]);
        }
    }

  image_shape (&moves, call->variant == 7 ? 0 : prop_pick (call->rand, 1, 2), prop_pick (call->rand, 1, 5), shape);
  add_input (call, call->variant == 9 ? PROP_SPOILT : max ? PROP_WILD : PROP_TAME, call->data_type, shape, moves.n_axes + 2);
  if (!all)
    set_ints (call, "window", moves.window, moves.n_axes);
  set_moves (call, &moves);
  g_variant_dict_insert (call->attributes, "layout", "s", moves.last ? "channels-last" : "channels-first");
  g_variant_dict_insert (call->attributes, "ceil_mode", "b", prop_chance (call->rand, 0.5));
  if (!all && (backward || prop_chance (call->rand, 0.3)))
    {
      for (gsize i = 0; i < moves.n_axes; i++)
        {
          gint64 rest = moves.in[i] + moves.padding[2 * i] + moves.padding[2 * i + 1] - moves_reach (&moves, i);

          sizes[i] = rest / moves.stride[i] + 1 + (rest % moves.stride[i] != 0 && prop_chance (call->rand, 0.5));
        }
      set_ints (call, "output_sizes", sizes, moves.n_axes);
    }
  if (backward)
    {
      memcpy (shape + (moves.last ? 1 : 2), sizes, moves.n_axes * sizeof (gint64));
      add_input (call, PROP_TAME, call->data_type, shape, moves.n_axes + 2);
    }
  if (g_str_equal (call->op->name, "average_pool"))
    g_variant_dict_insert (call->attributes, "count_include_pad", "b", prop_chance (call->rand, 0.5));
  return TRUE;
}

const PropRow prop_window_rows[] = {
  { "conv", generate_conv },
  { "conv_transpose", generate_conv },
  { "im2col", generate_im2col },
  { "max_pool", generate_pool },
  { "max_pool_backward", generate_pool },
  { "arg_max_pool", generate_pool },
  { "average_pool", generate_pool },
  { "l2_pool", generate_pool },
  { NULL, NULL },
};
