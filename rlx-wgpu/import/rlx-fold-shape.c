/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * What moves elements on the host, and which operators the host computes.
 */
#include "config.h"

#include "import/rlx-fold-private.h"

#include <math.h>
#include <string.h>

#include "util/rlx-checked-private.h"

/* An attribute in old opsets that is an input in new ones. */
static gint64 *
get_ints (RlxFoldCall *fold,
          const char  *name,
          guint        index,
          gsize       *n)
{
  const RlxArray *array = index < fold->n_inputs ? &fold->inputs[index] : NULL;

  *n = 0;
  if (rlx_map_arg (fold->call, name) != NULL)
    return rlx_map_arg_ints (fold->call, name, n, NULL);
  if (array == NULL || array->is_absent || array->is_float)
    return NULL;
  *n = array->n;
  return g_memdup2 (array->ints, (array->n + 1) * sizeof (gint64));
}

static gboolean
get_axis (RlxFoldCall *fold,
          gint64       fallback,
          gsize        n_dims,
          gsize       *axis)
{
  gint64 value;

  if (!rlx_map_arg_int (fold->call, "axis", fallback, &value, NULL))
    return FALSE;
  if (value < 0)
    value += (gint64) n_dims;
  *axis = (gsize) value;
  return value >= 0 && value < (gint64) n_dims;
}

/* The same elements in another shape. */
static gboolean
reshape (RlxFoldCall  *fold,
         RlxArray     *result,
         const gint64 *shape,
         gsize         n_dims)
{
  const RlxArray *in = &fold->inputs[0];

  if (!rlx_array_init (result, in->type, shape, n_dims) || result->n != in->n)
    return FALSE;
  for (gsize i = 0; i < in->n; i++)
    rlx_array_copy (result, i, in, i);
  return TRUE;
}

static gboolean
fold_reshape (RlxFoldCall *fold,
              RlxArray    *result)
{
  const RlxArray *in = &fold->inputs[0];
  gsize n, known = 1, hole = RLX_MAX_DIMS;
  g_autofree gint64 *shape = get_ints (fold, "shape", 1, &n);
  gboolean allow_zero;

  if (shape == NULL || n > RLX_MAX_DIMS || !rlx_map_arg_bool (fold->call, "allowzero", FALSE, &allow_zero, NULL))
    return FALSE;
  for (gsize i = 0; i < n; i++)
    {
      if (shape[i] == 0 && !allow_zero && i < in->n_dims)
        shape[i] = in->shape[i];
      if (shape[i] == -1 && hole == RLX_MAX_DIMS)
        hole = i;
      else if (shape[i] < 0 || shape[i] > RLX_IMPORT_MAX_FOLDED)
        return FALSE;
      else
        known *= (gsize) shape[i];
      if (known > RLX_IMPORT_MAX_FOLDED)
        return FALSE;
    }
  if (hole < n)
    {
      if (known == 0 || in->n % known != 0)
        return FALSE;
      shape[hole] = (gint64) (in->n / known);
    }
  return reshape (fold, result, shape, n);
}

static gboolean
fold_squeeze (RlxFoldCall *fold,
              RlxArray    *result)
{
  const RlxArray *in = &fold->inputs[0];
  gint64 shape[RLX_MAX_DIMS];
  gsize n_axes, n = 0;
  g_autofree gint64 *axes = get_ints (fold, "axes", 1, &n_axes);

  for (gsize i = 0; i < in->n_dims; i++)
    {
      gboolean drop = axes == NULL && in->shape[i] == 1;

      for (gsize j = 0; axes != NULL && j < n_axes; j++)
        drop = drop || axes[j] == (gint64) i || axes[j] == (gint64) i - (gint64) in->n_dims;
      if (!drop)
        shape[n++] = in->shape[i];
    }
  return reshape (fold, result, shape, n);
}

static gboolean
fold_unsqueeze (RlxFoldCall *fold,
                RlxArray    *result)
{
  const RlxArray *in = &fold->inputs[0];
  gint64 shape[RLX_MAX_DIMS];
  gsize n_axes, at = 0, n;
  g_autofree gint64 *axes = get_ints (fold, "axes", 1, &n_axes);

  n = in->n_dims + n_axes;
  if (axes == NULL || n > RLX_MAX_DIMS)
    return FALSE;
  for (gsize i = 0; i < n; i++)
    {
      gboolean is_new = FALSE;

      for (gsize j = 0; j < n_axes; j++)
        is_new = is_new || axes[j] == (gint64) i || axes[j] == (gint64) i - (gint64) n;
      if (!is_new && at == in->n_dims)
        return FALSE;
      shape[i] = is_new ? 1 : in->shape[at++];
    }
  return at == in->n_dims && reshape (fold, result, shape, n);
}

static gboolean
fold_concat (RlxFoldCall *fold,
             RlxArray    *result)
{
  const RlxArray *in = fold->inputs;
  gint64 shape[RLX_MAX_DIMS];
  gsize axis, inner = 1, outer = 1, offset = 0, row;

  if (!get_axis (fold, 1, in[0].n_dims, &axis))
    return FALSE;
  memcpy (shape, in[0].shape, sizeof shape);
  shape[axis] = 0;
  for (gsize i = 0; i < fold->n_inputs; i++)
    {
      if (in[i].is_absent || in[i].type != in[0].type || in[i].n_dims != in[0].n_dims)
        return FALSE;
      for (gsize j = 0; j < in[0].n_dims; j++)
        if (j != axis && in[i].shape[j] != in[0].shape[j])
          return FALSE;
      if (!rlx_add_i64 (shape[axis], in[i].shape[axis], &shape[axis]))
        return FALSE;
    }
  if (!rlx_array_init (result, in[0].type, shape, in[0].n_dims))
    return FALSE;
  for (gsize i = 0; i < axis; i++)
    outer *= (gsize) shape[i];
  for (gsize i = axis + 1; i < in[0].n_dims; i++)
    inner *= (gsize) shape[i];
  row = (gsize) shape[axis] * inner;
  for (gsize i = 0; i < fold->n_inputs; i++)
    {
      gsize part = (gsize) in[i].shape[axis] * inner;

      for (gsize j = 0; j < outer; j++)
        for (gsize k = 0; k < part; k++)
          rlx_array_copy (result, j * row + offset + k, &in[i], j * part + k);
      offset += part;
    }
  return TRUE;
}

/* Element @index of the result is the operand's element at Σ (start + step · position) · stride. */
static gboolean
pick (const RlxArray *in,
      RlxArray       *result,
      const gint64   *shape,
      gsize           n_dims,
      const gint64   *starts,
      const gint64   *strides)
{
  if (!rlx_array_init (result, in->type, shape, n_dims))
    return FALSE;
  for (gsize i = 0; i < result->n; i++)
    {
      gsize left = i;
      gint64 place = 0;

      for (gsize j = n_dims; j-- > 0;)
        {
          place += starts[j] + (gint64) (left % (gsize) shape[j]) * strides[j];
          left /= (gsize) shape[j];
        }
      rlx_array_copy (result, i, in, (gsize) place);
    }
  return TRUE;
}

static void
get_strides (const RlxArray *in,
             gint64         *strides)
{
  gint64 stride = 1;

  for (gsize i = in->n_dims; i-- > 0;)
    {
      strides[i] = stride;
      stride *= in->shape[i];
    }
}

static gboolean
fold_transpose (RlxFoldCall *fold,
                RlxArray    *result)
{
  const RlxArray *in = &fold->inputs[0];
  gint64 strides[RLX_MAX_DIMS], order[RLX_MAX_DIMS], shape[RLX_MAX_DIMS], starts[RLX_MAX_DIMS] = { 0, };
  gsize n;
  g_autofree gint64 *given = get_ints (fold, "perm", G_MAXUINT, &n);
  guint seen = 0;

  get_strides (in, strides);
  if (given != NULL && n != in->n_dims)
    return FALSE;
  for (gsize i = 0; i < in->n_dims; i++)
    {
      gint64 from = given != NULL ? given[i] : (gint64) (in->n_dims - 1 - i);

      if (from < 0 || from >= (gint64) in->n_dims || seen >> from & 1)
        return FALSE;
      seen |= 1u << from;
      order[i] = strides[from];
      shape[i] = in->shape[from];
    }
  return pick (in, result, shape, in->n_dims, starts, order);
}

static gboolean
fold_slice (RlxFoldCall *fold,
            RlxArray    *result)
{
  const RlxArray *in = &fold->inputs[0];
  gint64 strides[RLX_MAX_DIMS], shape[RLX_MAX_DIMS], offsets[RLX_MAX_DIMS] = { 0, };
  gsize n_starts, n_ends, n_axes, n_steps;
  g_autofree gint64 *starts = get_ints (fold, "starts", 1, &n_starts);
  g_autofree gint64 *ends = get_ints (fold, "ends", 2, &n_ends);
  g_autofree gint64 *axes = get_ints (fold, "axes", 3, &n_axes);
  g_autofree gint64 *steps = get_ints (fold, "steps", 4, &n_steps);
  guint seen = 0;

  if (starts == NULL || ends == NULL || n_starts != n_ends || (axes != NULL && n_axes != n_starts) || (steps != NULL && n_steps != n_starts) ||
      n_starts > in->n_dims)
    return FALSE;
  get_strides (in, strides);
  memcpy (shape, in->shape, sizeof shape);
  for (gsize i = 0; i < n_starts; i++)
    {
      gint64 axis = axes != NULL ? axes[i] : (gint64) i;
      gint64 step = steps != NULL ? steps[i] : 1;
      gint64 size, start, end;

      if (axis < 0)
        axis += (gint64) in->n_dims;
      if (axis < 0 || axis >= (gint64) in->n_dims || seen >> axis & 1 || step == 0 || step == G_MININT64)
        return FALSE;
      seen |= 1u << axis;
      size = in->shape[axis];
      start = starts[i] < 0 ? MAX (starts[i], -size - 1) + size : starts[i];
      end = ends[i] < 0 ? MAX (ends[i], -size - 1) + size : ends[i];
      start = step > 0 ? CLAMP (start, 0, size) : CLAMP (start, 0, size - 1);
      end = step > 0 ? CLAMP (end, 0, size) : CLAMP (end, -1, size - 1);
      shape[axis] = step > 0 ? (end > start ? (end - start - 1) / step + 1 : 0) : (start > end ? (start - end - 1) / -step + 1 : 0);
      offsets[axis] = start * strides[axis];
      if (shape[axis] > 1)
        strides[axis] *= step;
    }
  return pick (in, result, shape, in->n_dims, offsets, strides);
}

static gboolean
fold_gather (RlxFoldCall *fold,
             RlxArray    *result)
{
  const RlxArray *in = &fold->inputs[0], *at = &fold->inputs[1];
  gint64 shape[RLX_MAX_DIMS];
  gsize axis, inner = 1, outer = 1, n = 0;

  if (at->is_float || !get_axis (fold, 0, in->n_dims, &axis) || in->n_dims + at->n_dims - 1 > RLX_MAX_DIMS)
    return FALSE;
  for (gsize i = 0; i < axis; i++)
    outer *= (gsize) (shape[n++] = in->shape[i]);
  for (gsize i = 0; i < at->n_dims; i++)
    shape[n++] = at->shape[i];
  for (gsize i = axis + 1; i < in->n_dims; i++)
    inner *= (gsize) (shape[n++] = in->shape[i]);
  if (!rlx_array_init (result, in->type, shape, n))
    return FALSE;
  for (gsize j = 0; j < at->n; j++)
    {
      gint64 place = at->ints[j] < 0 ? at->ints[j] + in->shape[axis] : at->ints[j];

      if (place < 0 || place >= in->shape[axis])
        return FALSE;
      for (gsize i = 0; i < outer; i++)
        for (gsize k = 0; k < inner; k++)
          rlx_array_copy (result, (i * at->n + j) * inner + k, in, (i * (gsize) in->shape[axis] + (gsize) place) * inner + k);
    }
  return TRUE;
}

static gboolean
fold_expand (RlxFoldCall *fold,
             RlxArray    *result)
{
  const RlxArray *in = &fold->inputs[0], *to = &fold->inputs[1];
  gint64 strides[RLX_MAX_DIMS], steps[RLX_MAX_DIMS] = { 0, }, shape[RLX_MAX_DIMS], starts[RLX_MAX_DIMS] = { 0, };
  gsize n;

  if (to->is_float || to->n > RLX_MAX_DIMS)
    return FALSE;
  n = MAX (in->n_dims, to->n);
  get_strides (in, strides);
  for (gsize i = 0; i < n; i++)
    {
      gint64 a = i + in->n_dims >= n ? in->shape[i + in->n_dims - n] : 1;
      gint64 b = i + to->n >= n ? to->ints[i + to->n - n] : 1;

      if (a != 1 && b != 1 && a != b)
        return FALSE;
      shape[i] = b == 1 ? a : b;
      if (a != 1)
        steps[i] = strides[i + in->n_dims - n];
    }
  return pick (in, result, shape, n, starts, steps);
}

static gboolean
fold_tile (RlxFoldCall *fold,
           RlxArray    *result)
{
  const RlxArray *in = &fold->inputs[0], *times = &fold->inputs[1];
  gint64 shape[RLX_MAX_DIMS], strides[RLX_MAX_DIMS];

  if (times->is_float || times->n != in->n_dims)
    return FALSE;
  get_strides (in, strides);
  for (gsize i = 0; i < in->n_dims; i++)
    {
      if (times->ints[i] < 0 || times->ints[i] > RLX_IMPORT_MAX_FOLDED)
        return FALSE;
      shape[i] = in->shape[i] * times->ints[i];
    }
  if (!rlx_array_init (result, in->type, shape, in->n_dims))
    return FALSE;
  for (gsize i = 0; i < result->n; i++)
    {
      gsize left = i;
      gint64 place = 0;

      for (gsize j = in->n_dims; j-- > 0;)
        {
          place += (gint64) (left % (gsize) shape[j]) % in->shape[j] * strides[j];
          left /= (gsize) shape[j];
        }
      rlx_array_copy (result, i, in, (gsize) place);
    }
  return TRUE;
}

static gboolean
fold_split (RlxFoldCall *fold,
            RlxArray    *result)
{
  const RlxArray *in = &fold->inputs[0];
  gint64 strides[RLX_MAX_DIMS], offsets[RLX_MAX_DIMS] = { 0, }, shape[RLX_MAX_DIMS], at = 0, n_outputs, each;
  gsize axis, n;
  g_autofree gint64 *parts = get_ints (fold, "split", 1, &n);

  if (!get_axis (fold, 0, in->n_dims, &axis) || !rlx_map_arg_int (fold->call, "num_outputs", fold->call->node->n_outputs, &n_outputs, NULL) ||
      n_outputs < 1 || n_outputs != (gint64) fold->call->node->n_outputs || (parts != NULL && (gint64) n != n_outputs))
    return FALSE;
  get_strides (in, strides);
  memcpy (shape, in->shape, sizeof shape);
  each = (in->shape[axis] + n_outputs - 1) / n_outputs;
  for (gint64 i = 0; i < n_outputs; i++)
    {
      shape[axis] = parts != NULL ? parts[i] : MIN (each, in->shape[axis] - at);
      if (shape[axis] < 0 || shape[axis] > in->shape[axis] - at)
        return FALSE;
      offsets[axis] = at * strides[axis];
      if (!pick (in, &result[i], shape, in->n_dims, offsets, strides))
        return FALSE;
      at += shape[axis];
    }
  fold->n_results = (guint) n_outputs;
  return at == in->shape[axis];
}

static gboolean
fold_constant_of_shape (RlxFoldCall *fold,
                        RlxArray    *result)
{
  const RlxArray *in = &fold->inputs[0];
  g_autoptr(RlxTensor) value = NULL;

  if (in->is_float)
    return FALSE;
  if (rlx_map_arg (fold->call, "value") != NULL)
    {
      value = rlx_map_arg_tensor (fold->call, "value", NULL);
      if (value == NULL || rlx_tensor_get_n_elements (value) != 1 || rlx_tensor_get_data_type (value) == RLX_DATA_TYPE_U64)
        return FALSE;
    }
  if (!rlx_array_init (result, value != NULL ? rlx_tensor_get_data_type (value) : RLX_DATA_TYPE_F32, in->ints, in->n))
    return FALSE;
  for (gsize i = 0; value != NULL && i < result->n; i++)
    if (result->is_float)
      result->floats[i] = rlx_tensor_get_value (value, 0);
    else
      {
        gsize n_ints;
        g_autofree gint64 *ints = rlx_tensor_to_ints (value, &n_ints, NULL);

        if (ints == NULL)
          return FALSE;
        for (i = 0; i < result->n; i++)
          result->ints[i] = ints[0];
      }
  return TRUE;
}

static gboolean
fold_range (RlxFoldCall *fold,
            RlxArray    *result)
{
  const RlxArray *in = fold->inputs;

  for (gsize i = 0; i < 3; i++)
    if (in[i].n != 1 || in[i].type != in[0].type)
      return FALSE;
  if (in->is_float)
    {
      double n = ceil ((in[1].floats[0] - in[0].floats[0]) / in[2].floats[0]);

      if (!(n < RLX_IMPORT_MAX_FOLDED) || !rlx_array_init (result, in->type, (gint64[]) { (gint64) MAX (n, 0) }, 1))
        return FALSE;
      for (gsize i = 0; i < result->n; i++)
        result->floats[i] = in[0].floats[0] + (double) i * in[2].floats[0];
    }
  else
    {
      gint64 start = in[0].ints[0], step = in[2].ints[0], span;
      guint64 n;

      if (step == 0 || __builtin_sub_overflow (in[1].ints[0], start, &span))
        return FALSE;
      n = (span > 0) != (step > 0) || span == 0 ? 0 : (guint64) ((span > 0 ? span - 1 : span + 1) / step) + 1;
      if (n > RLX_IMPORT_MAX_FOLDED || !rlx_array_init (result, in->type, (gint64[]) { (gint64) n }, 1))
        return FALSE;
      for (gsize i = 0; i < result->n; i++)
        result->ints[i] = start + (gint64) i * step;
    }
  return TRUE;
}

static gboolean
fold_reduce (RlxFoldCall *fold,
             RlxArray    *result)
{
  const RlxArray *in = &fold->inputs[0];
  gint64 kept[RLX_MAX_DIMS], shape[RLX_MAX_DIMS];
  gsize n_axes, n = 0;
  g_autofree gint64 *axes = get_ints (fold, "axes", 1, &n_axes);
  g_autofree gboolean *begun = NULL;
  gboolean keep, none;
  guint reduced = 0;

  if (in->is_float || !rlx_map_arg_bool (fold->call, "keepdims", TRUE, &keep, NULL) ||
      !rlx_map_arg_bool (fold->call, "noop_with_empty_axes", FALSE, &none, NULL))
    return FALSE;
  for (gsize i = 0; i < n_axes; i++)
    {
      gint64 axis = axes[i] < 0 ? axes[i] + (gint64) in->n_dims : axes[i];

      if (axis < 0 || axis >= (gint64) in->n_dims)
        return FALSE;
      reduced |= 1u << axis;
    }
  if (n_axes == 0 && !none)
    reduced = G_MAXUINT;
  for (gsize i = 0; i < in->n_dims; i++)
    {
      kept[i] = reduced >> i & 1 ? 1 : in->shape[i];
      if (keep || !(reduced >> i & 1))
        shape[n++] = kept[i];
    }
  if (in->n == 0 || !rlx_array_init (result, in->type, shape, n))
    return FALSE;
  begun = g_new0 (gboolean, result->n + 1);
  for (gsize i = 0; i < in->n; i++)
    {
      gsize left = i, place = 0, stride = 1;
      gint64 *sum;

      for (gsize j = in->n_dims; j-- > 0;)
        {
          place += (kept[j] == 1 ? 0 : left % (gsize) in->shape[j]) * stride;
          stride *= (gsize) kept[j];
          left /= (gsize) in->shape[j];
        }
      sum = &result->ints[place];
      if (!begun[place])
        *sum = in->ints[i];
      else if (fold->op == RLX_FOLD_ADD)
        *sum = (gint64) ((guint64) *sum + (guint64) in->ints[i]);
      else if (fold->op == RLX_FOLD_MUL)
        *sum = (gint64) ((guint64) *sum * (guint64) in->ints[i]);
      else if (fold->op == RLX_FOLD_MIN ? in->ints[i] < *sum : in->ints[i] > *sum)
        *sum = in->ints[i];
      begun[place] = TRUE;
    }
  return TRUE;
}

/* The number of results depends on the values, so this is only possible if they are known. */
static gboolean
fold_non_zero (RlxFoldCall *fold,
               RlxArray    *result)
{
  const RlxArray *in = &fold->inputs[0];
  gint64 strides[RLX_MAX_DIMS];
  gsize n = 0, at = 0;

  for (gsize i = 0; i < in->n; i++)
    n += in->is_float ? in->floats[i] != 0 : in->ints[i] != 0;
  if (!rlx_array_init (result, RLX_DATA_TYPE_I64, (gint64[]) { (gint64) in->n_dims, (gint64) n }, 2))
    return FALSE;
  get_strides (in, strides);
  for (gsize i = 0; i < in->n; i++)
    if (in->is_float ? in->floats[i] != 0 : in->ints[i] != 0)
      {
        for (gsize j = 0; j < in->n_dims; j++)
          result->ints[j * n + at] = (gint64) i / strides[j] % in->shape[j];
        at++;
      }
  return TRUE;
}

/* Sorted by name. */
static const RlxFoldRow rows[] = {
  { "Abs", 1, 1, rlx_fold_elements, RLX_FOLD_ABS },
  { "Add", 2, 2, rlx_fold_elements, RLX_FOLD_ADD },
  { "And", 2, 2, rlx_fold_elements, RLX_FOLD_AND },
  { "Cast", 1, 1, rlx_fold_cast, 0 },
  { "Ceil", 1, 1, rlx_fold_elements, RLX_FOLD_CEIL },
  { "Concat", 1, RLX_FOLD_MAX_INPUTS, fold_concat, 0 },
  { "ConstantOfShape", 1, 1, fold_constant_of_shape, 0 },
  { "Div", 2, 2, rlx_fold_elements, RLX_FOLD_DIV },
  { "Equal", 2, 2, rlx_fold_elements, RLX_FOLD_EQUAL },
  { "Exp", 1, 1, rlx_fold_elements, RLX_FOLD_EXP },
  { "Expand", 2, 2, fold_expand, 0 },
  { "Floor", 1, 1, rlx_fold_elements, RLX_FOLD_FLOOR },
  { "Gather", 2, 2, fold_gather, 0 },
  { "Greater", 2, 2, rlx_fold_elements, RLX_FOLD_GREATER },
  { "GreaterOrEqual", 2, 2, rlx_fold_elements, RLX_FOLD_GREATER_EQUAL },
  { "Less", 2, 2, rlx_fold_elements, RLX_FOLD_LESS },
  { "LessOrEqual", 2, 2, rlx_fold_elements, RLX_FOLD_LESS_EQUAL },
  { "Log", 1, 1, rlx_fold_elements, RLX_FOLD_LOG },
  { "Max", 1, 2, rlx_fold_elements, RLX_FOLD_MAX },
  { "Min", 1, 2, rlx_fold_elements, RLX_FOLD_MIN },
  { "Mod", 2, 2, rlx_fold_elements, RLX_FOLD_MOD },
  { "Mul", 2, 2, rlx_fold_elements, RLX_FOLD_MUL },
  { "Neg", 1, 1, rlx_fold_elements, RLX_FOLD_NEG },
  { "NonZero", 1, 1, fold_non_zero, 0 },
  { "Not", 1, 1, rlx_fold_elements, RLX_FOLD_NOT },
  { "Or", 2, 2, rlx_fold_elements, RLX_FOLD_OR },
  { "Pow", 2, 2, rlx_fold_elements, RLX_FOLD_POW },
  { "Range", 3, 3, fold_range, 0 },
  { "Reciprocal", 1, 1, rlx_fold_elements, RLX_FOLD_RECIPROCAL },
  { "ReduceMax", 1, 2, fold_reduce, RLX_FOLD_MAX },
  { "ReduceMin", 1, 2, fold_reduce, RLX_FOLD_MIN },
  { "ReduceProd", 1, 2, fold_reduce, RLX_FOLD_MUL },
  { "ReduceSum", 1, 2, fold_reduce, RLX_FOLD_ADD },
  { "Reshape", 1, 2, fold_reshape, 0 },
  { "Round", 1, 1, rlx_fold_elements, RLX_FOLD_ROUND },
  { "Sign", 1, 1, rlx_fold_elements, RLX_FOLD_SIGN },
  { "Slice", 1, 5, fold_slice, 0 },
  { "Split", 1, 2, fold_split, 0 },
  { "Sqrt", 1, 1, rlx_fold_elements, RLX_FOLD_SQRT },
  { "Squeeze", 1, 2, fold_squeeze, 0 },
  { "Sub", 2, 2, rlx_fold_elements, RLX_FOLD_SUB },
  { "Tile", 2, 2, fold_tile, 0 },
  { "Transpose", 1, 1, fold_transpose, 0 },
  { "Unsqueeze", 1, 2, fold_unsqueeze, 0 },
  { "Where", 3, 3, rlx_fold_where, 0 },
  { "Xor", 2, 2, rlx_fold_elements, RLX_FOLD_XOR },
};

const RlxFoldRow *
rlx_fold_find (const char *op)
{
  gsize first = 0, end = G_N_ELEMENTS (rows);

  while (first < end)
    {
      gsize middle = first + (end - first) / 2;
      int order = strcmp (op, rows[middle].name);

      if (order == 0)
        return &rows[middle];
      if (order < 0)
        end = middle;
      else
        first = middle + 1;
    }
  return NULL;
}
