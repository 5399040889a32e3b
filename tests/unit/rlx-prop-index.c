/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Calls of operators that move, pick, change and resize.
 */
#include "config.h"

#include "rlx-prop-calls.h"

static void
set_word (Call       *call,
          const char *name,
          const char *word)
{
  g_variant_dict_insert (call->attributes, name, "s", word);
}

static gint64
real_axis (gint64 axis,
           gsize  n_dims)
{
  return axis < 0 ? axis + (gint64) n_dims : axis;
}

static gboolean
generate_split (Call *call)
{
  gint64 shape[RLX_MAX_DIMS], sizes[RLX_MAX_DIMS], axis, sum = 0;
  gsize n_dims, n;

  if (call->variant > 7)
    return FALSE;

  n_dims = random_shape (call, shape, 1, 4);
  axis = random_axis (call, n_dims);
  n = (gsize) prop_pick (call->rand, 1, 5);
  g_variant_dict_insert (call->attributes, "axis", "x", axis);
  if (call->variant % 2 == 0)
    {
      for (gsize i = 0; i < n; i++)
        sum += sizes[i] = prop_pick (call->rand, 0, 7);
      shape[real_axis (axis, n_dims)] = sum;
      set_ints (call, "sizes", sizes, n);
    }
  else
    {
      shape[real_axis (axis, n_dims)] = (gint64) n * prop_pick (call->rand, 0, 7);
      g_variant_dict_insert (call->attributes, "parts", "x", (gint64) n);
    }
  add_input (call, PROP_TAME, call->data_type, shape, n_dims);

  return TRUE;
}

static gboolean
generate_tile (Call *call)
{
  gint64 shape[RLX_MAX_DIMS], repetitions[RLX_MAX_DIMS];
  gsize n_dims;

  if (call->variant > 7)
    return FALSE;

  n_dims = random_shape (call, shape, 0, call->variant == 6 ? 8 : 3);
  add_input (call, PROP_TAME, call->data_type, shape, n_dims);
  for (gsize i = 0; i < n_dims; i++)
    repetitions[i] = prop_pick (call->rand, call->variant == 7 ? 0 : 1, 3);
  set_ints (call, "repetitions", repetitions, n_dims);

  return TRUE;
}

static gboolean
generate_pad (Call *call)
{
  static const char *const modes[] = { "constant", "edge", "reflect", "symmetric", "wrap" };
  const char *mode = modes[call->variant % 5];
  gint64 shape[RLX_MAX_DIMS], pads[2][RLX_MAX_DIMS];
  gsize n_dims;

  if (call->variant > (call->data_type == RLX_DATA_TYPE_F32 ? 19 : 9))
    return FALSE;

  n_dims = random_shape (call, shape, call->variant == 15 ? 0 : 1, 4);
  for (gsize i = 0; i < n_dims; i++)
    {
      gint64 crop = 0;

      /* random_shape() makes some empty; those can only be padded with constants */
      if (shape[i] == 0 && mode[0] != 'c')
        shape[i] = 3;
      for (guint side = 0; side < 2; side++)
        {
          pads[side][i] = prop_chance (call->rand, 0.5) ? 0 : prop_pick (call->rand, -2, prop_chance (call->rand, 0.1) ? 40 : 5);
          if (pads[side][i] < 0 && shape[i] - crop <= 2)
            pads[side][i] = 0;
          crop += MAX (-pads[side][i], 0);
        }
    }
  add_input (call, PROP_TAME, call->data_type, shape, n_dims);
  if (prop_chance (call->rand, 0.5))
    add_input (call, PROP_TAME, call->data_type, (gint64[]) { 1 }, (gsize) prop_pick (call->rand, 0, 1));
  set_ints (call, "before", pads[0], n_dims);
  set_ints (call, "after", pads[1], n_dims);
  set_word (call, "mode", mode);

  return TRUE;
}

static gboolean
generate_reverse (Call *call)
{
  gint64 shape[RLX_MAX_DIMS], axes[RLX_MAX_DIMS], shifts[RLX_MAX_DIMS];
  gsize n_dims, n_axes;

  if (call->variant > 7)
    return FALSE;

  n_dims = random_shape (call, shape, 0, 4);
  add_input (call, PROP_TAME, call->data_type, shape, n_dims);
  n_axes = random_axes (call, n_dims, axes);
  set_ints (call, "axes", axes, n_axes);
  if (g_str_equal (call->op->name, "roll"))
    {
      for (gsize i = 0; i < n_axes; i++)
        shifts[i] = prop_chance (call->rand, 0.1) ? G_MININT64 : prop_pick (call->rand, -200, 200);
      set_ints (call, "shifts", shifts, n_axes);
    }

  return TRUE;
}

static gboolean
generate_squeeze (Call *call)
{
  gint64 shape[RLX_MAX_DIMS], axes[RLX_MAX_DIMS];
  gsize n_dims, n_axes;

  if (call->variant > 5)
    return FALSE;

  n_dims = random_shape (call, shape, 0, 4);
  n_axes = random_axes (call, n_dims, axes);
  if (g_str_equal (call->op->name, "squeeze"))
    {
      for (gsize i = 0; i < n_axes; i++)
        shape[real_axis (axes[i], n_dims)] = 1;
      if (prop_chance (call->rand, 0.7))
        set_ints (call, "axes", axes, n_axes);
    }
  else
    {
      n_axes = random_axes (call, n_dims + 2, axes);
      while (n_axes > 2)
        n_axes--;
      for (gsize i = 0; i < n_axes; i++)
        axes[i] = real_axis (axes[i], n_dims + 2) % (gint64) (n_dims + n_axes);
      if (n_axes == 2 && axes[0] == axes[1])
        n_axes = 1;
      if (n_axes == 1)
        axes[0] = MIN (axes[0], (gint64) n_dims);
      set_ints (call, "axes", axes, n_axes);
    }
  add_input (call, PROP_TAME, call->data_type, shape, n_dims);

  return TRUE;
}

static gboolean
generate_triangular (Call *call)
{
  gint64 shape[RLX_MAX_DIMS];
  gsize n_dims;

  if (call->variant > 9)
    return FALSE;

  n_dims = random_shape (call, shape, 2, 4);
  add_input (call, PROP_TAME, call->data_type, shape, n_dims);
  g_variant_dict_insert (call->attributes, "upper", "b", call->variant % 2 == 0);
  g_variant_dict_insert (call->attributes, "diagonal", "x",
                         call->variant == 8 ? G_MININT64 : call->variant == 9 ? G_MAXINT64 : prop_pick (call->rand, -20, 20));

  return TRUE;
}

static gboolean
generate_depth (Call *call)
{
  gint64 block = prop_pick (call->rand, 1, 4);
  gint64 shape[] = { prop_pick (call->rand, 0, 3), prop_pick (call->rand, 1, 5), prop_pick (call->rand, 1, 9), prop_pick (call->rand, 1, 9) };

  if (call->variant > 7)
    return FALSE;

  if (g_str_equal (call->op->name, "depth_to_space"))
    {
      shape[1] *= block * block;
    }
  else
    {
      shape[2] *= block;
      shape[3] *= block;
    }
  add_input (call, PROP_TAME, call->data_type, shape, 4);
  g_variant_dict_insert (call->attributes, "block", "x", block);
  g_variant_dict_insert (call->attributes, "blocks_first", "b", prop_chance (call->rand, 0.5));

  return TRUE;
}

/* ---- by index --------------------------------------------------------------------- */

static RlxDataType
index_type (Call *call)
{
  static const RlxDataType types[] = {
    RLX_DATA_TYPE_I32, RLX_DATA_TYPE_U32, RLX_DATA_TYPE_I8, RLX_DATA_TYPE_U8, RLX_DATA_TYPE_I64, RLX_DATA_TYPE_U64,
  };

  return types[call->variant % G_N_ELEMENTS (types)];
}

static void
scatter_mode (Call *call)
{
  static const char *const modes[] = { "replace", "add", "mul", "max", "min" };

  if (call->data_type != RLX_DATA_TYPE_BOOL)
    set_word (call, "mode", modes[call->variant % G_N_ELEMENTS (modes)]);
}

/* A product of many factors must not overflow, not even in between. */
static PropKind
scatter_kind (Call *call)
{
  return call->variant % 5 == 2 ? PROP_POSITIVE : call->variant % 5 > 2 ? PROP_SPOILT : PROP_TAME;
}

static gboolean
generate_elements (Call *call)
{
  gboolean scatter = g_str_equal (call->op->name, "scatter_elements");
  gint64 shape[RLX_MAX_DIMS], indices[RLX_MAX_DIMS] = { 0, }, axis;
  gsize n_dims, at;

  if (call->variant > (call->data_type == RLX_DATA_TYPE_F32 ? 14 : 5))
    return FALSE;

  n_dims = random_shape (call, shape, 1, call->variant == 8 ? 8 : 4);
  axis = random_axis (call, n_dims);
  at = (gsize) real_axis (axis, n_dims);
  if (shape[at] == 0)
    shape[at] = 3;
  for (gsize i = 0; i < n_dims; i++)
    indices[i] = i == at ? prop_pick (call->rand, 0, 40) : prop_chance (call->rand, 0.5) ? shape[i] : prop_pick (call->rand, 0, shape[i]);

  add_input (call, scatter ? scatter_kind (call) : PROP_TAME, call->data_type, shape, n_dims);
  /* Some are far out of range. */
  add_input (call, PROP_WILD, index_type (call), indices, n_dims);
  if (scatter)
    {
      add_input (call, scatter_kind (call), call->data_type, indices, n_dims);
      scatter_mode (call);
    }
  g_variant_dict_insert (call->attributes, "axis", "x", axis);

  return TRUE;
}

static gboolean
generate_write_at (Call *call)
{
  gint64 shape[RLX_MAX_DIMS], axis;
  gsize n_dims, at;

  if (call->variant > (call->data_type == RLX_DATA_TYPE_F32 ? 12 : 4))
    return FALSE;

  n_dims = random_shape (call, shape, 1, call->variant == 8 ? 8 : 4);
  axis = random_axis (call, n_dims);
  at = (gsize) real_axis (axis, n_dims);
  add_input (call, PROP_TAME, call->data_type, shape, n_dims);
  shape[at] = call->variant == 3 ? 0 : prop_pick (call->rand, 0, shape[at]);
  add_input (call, PROP_TAME, call->data_type, shape, n_dims);
  /* Often it is out of range. */
  add_input (call, call->variant % 2 ? PROP_WILD : PROP_TAME, index_type (call), (gint64[]) { 1 }, call->variant % 3 == 0);
  g_variant_dict_insert (call->attributes, "axis", "x", axis);

  return TRUE;
}

static gboolean
generate_nd (Call *call)
{
  gboolean scatter = g_str_equal (call->op->name, "scatter_nd");
  gint64 shape[RLX_MAX_DIMS], indices[RLX_MAX_DIMS] = { 0, }, updates[RLX_MAX_DIMS];
  gsize n_dims, n_batch, n_indices, n, n_updates;

  if (call->variant > 14)
    return FALSE;

  n_dims = (gsize) prop_pick (call->rand, 1, 4);
  for (gsize i = 0; i < n_dims; i++)
    shape[i] = prop_pick (call->rand, 1, 9);
  n_batch = scatter ? 0 : (gsize) prop_pick (call->rand, 0, (gint64) n_dims - 1);
  n_indices = n_batch;
  memcpy (indices, shape, n_batch * sizeof (gint64));
  while (n_indices < 3 && (prop_chance (call->rand, 0.6) || n_indices == n_batch))
    indices[n_indices++] = call->variant == 6 ? 0 : prop_size (call->rand, 17);
  n = (gsize) prop_pick (call->rand, call->variant == 7 ? 0 : 1, (gint64) (n_dims - n_batch));
  memcpy (updates, indices, n_indices * sizeof (gint64));
  n_updates = n_indices;
  for (gsize i = n_batch + n; i < n_dims; i++)
    updates[n_updates++] = shape[i];
  indices[n_indices++] = (gint64) n;

  add_input (call, scatter ? scatter_kind (call) : PROP_TAME, call->data_type, shape, n_dims);
  add_input (call, PROP_WILD, index_type (call), indices, n_indices);
  if (scatter)
    {
      add_input (call, scatter_kind (call), call->data_type, updates, n_updates);
      scatter_mode (call);
    }
  else
    {
      g_variant_dict_insert (call->attributes, "batch_dims", "x", (gint64) n_batch);
    }

  return TRUE;
}

static gboolean
generate_one_hot (Call *call)
{
  gint64 shape[RLX_MAX_DIMS];
  gsize n_dims;

  if (call->variant > 8)
    return FALSE;

  n_dims = random_shape (call, shape, 0, 3);
  while (prop_count (shape, n_dims) > 200)
    n_dims--;
  add_input (call, PROP_WILD, call->data_type, shape, n_dims);
  add_input (call, PROP_TAME, (RlxDataType) call->variant, (gint64[]) { 2 }, 1);
  g_variant_dict_insert (call->attributes, "depth", "x", prop_pick (call->rand, 0, 12));
  g_variant_dict_insert (call->attributes, "axis", "x", random_axis (call, n_dims + 1));

  return TRUE;
}

/* ---- resizing ------------------------------------------------------------------------ */

static gboolean
generate_resize (Call *call)
{
  static const char *const coordinates[] = {
    "half-pixel", "half-pixel-symmetric", "pytorch-half-pixel", "align-corners", "asymmetric", "tf-half-pixel-for-nn", "tf-crop-and-resize",
  };
  static const char *const modes[] = { "nearest", "linear", "cubic" };
  static const char *const roundings[] = { "round-prefer-floor", "round-prefer-ceil", "floor", "ceil" };
  static const double factors[] = { 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 0.375 };
  gboolean is_float = call->data_type == RLX_DATA_TYPE_F32 || call->data_type == RLX_DATA_TYPE_F16;
  const char *where = coordinates[call->variant % G_N_ELEMENTS (coordinates)];
  gboolean crop = g_str_equal (where, "tf-crop-and-resize"), scaled = call->data_type == RLX_DATA_TYPE_F32 ? call->variant >= 21 : call->variant % 2 == 1;
  gint64 shape[RLX_MAX_DIMS], sizes[RLX_MAX_DIMS], axes[RLX_MAX_DIMS];
  double scales[RLX_MAX_DIMS], region[2 * RLX_MAX_DIMS];
  gsize n_dims, n;

  if (call->variant >= (call->data_type == RLX_DATA_TYPE_F32 ? 42 : is_float ? 21 : 7))
    return FALSE;

  n_dims = (gsize) prop_pick (call->rand, 1, 4);
  for (gsize i = 0; i < n_dims; i++)
    shape[i] = prop_pick (call->rand, 1, 9);
  n = random_axes (call, n_dims, axes);
  for (gsize i = 0; i < n; i++)
    {
      gint64 size = shape[real_axis (axes[i], n_dims)];

      scales[i] = factors[prop_pick (call->rand, 0, G_N_ELEMENTS (factors) - 1)];
      /* Regions and scales with exact quotients, so that it is clear which side of an
       * edge they are on. */
      sizes[i] = crop ? ((gint64[]) { 1, 2, 3, 5, 9, 17 })[prop_pick (call->rand, 0, 5)]
               : scaled ? MAX (1, (gint64) floor (scales[i] * (double) size)) : prop_pick (call->rand, 1, 20);
      region[i] = (double) prop_pick (call->rand, -4, 8) / 8;
      region[n + i] = (double) prop_pick (call->rand, 0, 12) / 8;
    }

  add_input (call, PROP_TAME, call->data_type, shape, n_dims);
  if (scaled && !crop)
    {
      g_autofree char *type = prop_type_text (RLX_DATA_TYPE_F32, (gint64[]) { (gint64) n }, 1);

      call->inputs[call->n_inputs++] = rlx_test_tensor (type, scales);
    }
  else
    {
      skip_input (call);
    }
  if (crop)
    {
      g_autofree char *type = prop_type_text (RLX_DATA_TYPE_F32, (gint64[]) { 2 * (gint64) n }, 1);

      call->inputs[call->n_inputs++] = rlx_test_tensor (type, region);
    }
  set_ints (call, "sizes", sizes, n);
  set_ints (call, "axes", axes, n);
  set_word (call, "coordinates", where);
  set_word (call, "mode", is_float ? modes[call->variant / 7 % 3] : "nearest");
  set_word (call, "rounding", roundings[prop_pick (call->rand, 0, 3)]);
  g_variant_dict_insert (call->attributes, "exclude_outside", "b", prop_chance (call->rand, 0.3));
  g_variant_dict_insert (call->attributes, "antialias", "b", call->variant % 3 == 1);
  g_variant_dict_insert (call->attributes, "extrapolation", "d", 7.0);
  if (prop_chance (call->rand, 0.5))
    g_variant_dict_insert (call->attributes, "cubic_a", "d", -0.5);
  /* an empty list would otherwise mean the last axes */
  if (n == 0)
    g_variant_dict_remove (call->attributes, "axes");

  return TRUE;
}

static gboolean
generate_grid_sample (Call *call)
{
  static const char *const modes[] = { "nearest", "linear", "cubic" };
  static const char *const paddings[] = { "zeros", "border", "reflection" };
  gboolean volume = call->variant % 4 == 3, align = prop_chance (call->rand, 0.5);
  guint mode = call->variant % 3;
  gboolean ties = mode == 0 && (volume || call->variant >= 12);
  gsize dims = volume ? 3 : 2;
  gint64 shape[5] = { prop_pick (call->rand, 1, 3), prop_pick (call->rand, 1, 3) };
  gint64 grid[5] = { shape[0] };
  g_autofree double *values = NULL;
  g_autofree char *type = NULL;
  gsize n;

  if (call->variant > 23)
    return FALSE;

  if (volume && mode == 2)
    mode = 1;
  for (gsize i = 0; i < dims; i++)
    {
      shape[2 + i] = ties ? (1 << prop_pick (call->rand, 0, 3)) + align : prop_pick (call->rand, 1, 9);
      grid[1 + i] = prop_pick (call->rand, call->variant == 20 ? 0 : 1, 9);
    }
  grid[1 + dims] = (gint64) dims;

  /* Positions at a distance from the midpoint between elements, so that the nearest one does not
   * depend on rounding; or else exact positions and sizes, where every other one is at a midpoint. */
  n = prop_count (grid, 2 + dims);
  values = g_new0 (double, n + 1);
  for (gsize i = 0; i < n; i++)
    {
      double size = (double) shape[2 + dims - 1 - i % dims];
      double place = (double) prop_pick (call->rand, -12, (gint64) size + 12) + 0.6 * g_rand_double (call->rand) - 0.3;

      if (ties)
        place = (double) prop_pick (call->rand, -24, 2 * (gint64) size + 24) / 2;
      values[i] = align ? 2 * place / MAX (size - 1, 1) - 1 : (2 * place + 1) / size - 1;
      /* The positions of far ones are only defined without reflection. */
      if (call->variant / 3 % 3 != 2 && prop_chance (call->rand, 0.05))
        values[i] = ((double[]) { NAN, INFINITY, -INFINITY, FLT_MAX, 1e-40, -1e-40 })[prop_pick (call->rand, 0, ties ? 3 : 5)];
    }
  type = prop_type_text (RLX_DATA_TYPE_F32, grid, 2 + dims);

  add_input (call, PROP_TAME, call->data_type, shape, 2 + dims);
  call->inputs[call->n_inputs++] = rlx_test_tensor (type, values);
  set_word (call, "mode", modes[mode]);
  set_word (call, "padding", paddings[call->variant / 3 % 3]);
  g_variant_dict_insert (call->attributes, "align_corners", "b", align);

  return TRUE;
}

const PropRow prop_index_rows[] = {
  { "split", generate_split },
  { "tile", generate_tile },
  { "pad", generate_pad },
  { "reverse", generate_reverse },
  { "roll", generate_reverse },
  { "squeeze", generate_squeeze },
  { "unsqueeze", generate_squeeze },
  { "triangular", generate_triangular },
  { "depth_to_space", generate_depth },
  { "space_to_depth", generate_depth },
  { "gather_elements", generate_elements },
  { "write_at", generate_write_at },
  { "gather_nd", generate_nd },
  { "one_hot", generate_one_hot },
  { "scatter_elements", generate_elements },
  { "scatter_nd", generate_nd },
  { "resize", generate_resize },
  { "grid_sample", generate_grid_sample },
  { NULL, NULL },
};
