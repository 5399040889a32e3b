/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Operators that move elements: each says where an element of the result comes
 * from.
 */
#include "config.h"
#include "rlx-reference-private.h"

#include <math.h>

static void
copy_element (RlxReferenceValue       *y,
              gsize                    to,
              const RlxReferenceValue *x,
              gsize                    from)
{
  y->values[to] = x->values[from];
  y->bounds[to] = x->bounds[from];
}

static gsize
find_axis (RlxReferenceCall        *call,
           const RlxReferenceValue *x)
{
  gint64 axis = rlx_reference_get_int (call, "axis");

  return (gsize) (axis < 0 ? axis + (gint64) x->n_dims : axis);
}

static void
reshape (RlxReferenceCall *call)
{
  for (gsize i = 0; i < call->output->n_elements; i++)
    copy_element (call->output, i, call->inputs[0], i);
}

static void
transpose (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0];
  RlxReferenceValue *y = call->output;
  gint64 permutation[RLX_MAX_DIMS], index[RLX_MAX_DIMS] = { 0, };
  gsize n, at = 0;

  if (y->n_elements == 0)
    return;
  rlx_reference_get_ints (call, "permutation", permutation, &n);
  do
    {
      gint64 from[RLX_MAX_DIMS];

      for (gsize i = 0; i < x->n_dims; i++)
        {
          gint64 axis = n == 0 ? (gint64) (x->n_dims - 1 - i) : permutation[i];

          from[axis < 0 ? axis + (gint64) x->n_dims : axis] = index[i];
        }
      copy_element (y, at++, x, rlx_reference_position (x, from, x->n_dims));
    }
  while (rlx_reference_next (index, y->shape, y->n_dims));
}

/* The first index of an axis, by the rules for negative and excessive numbers. */
static gint64
get_start (gint64 start,
           gint64 step,
           gint64 size)
{
  if (start < 0)
    start += size;
  if (start < 0)
    return 0;

  return step > 0 ? MIN (start, size) : MIN (start, size - 1);
}

static void
slice (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0];
  RlxReferenceValue *y = call->output;
  gint64 starts[RLX_MAX_DIMS], axes[RLX_MAX_DIMS], steps[RLX_MAX_DIMS], index[RLX_MAX_DIMS] = { 0, };
  gint64 start[RLX_MAX_DIMS] = { 0, }, step[RLX_MAX_DIMS];
  gsize n, n_axes, n_steps, at = 0;

  if (y->n_elements == 0)
    return;
  rlx_reference_get_ints (call, "starts", starts, &n);
  rlx_reference_get_ints (call, "axes", axes, &n_axes);
  rlx_reference_get_ints (call, "steps", steps, &n_steps);
  for (gsize i = 0; i < x->n_dims; i++)
    step[i] = 1;
  for (gsize i = 0; i < n; i++)
    {
      gint64 axis = n_axes == 0 ? (gint64) i : axes[i] < 0 ? axes[i] + (gint64) x->n_dims : axes[i];

      step[axis] = n_steps == 0 ? 1 : steps[i];
      start[axis] = get_start (starts[i], step[axis], x->shape[axis]);
    }

  do
    {
      gint64 from[RLX_MAX_DIMS];

      for (gsize i = 0; i < x->n_dims; i++)
        from[i] = index[i] == 0 ? start[i] : start[i] + index[i] * step[i];
      copy_element (y, at++, x, rlx_reference_position (x, from, x->n_dims));
    }
  while (rlx_reference_next (index, y->shape, y->n_dims));
}

static void
concat (RlxReferenceCall *call)
{
  RlxReferenceValue *y = call->output;
  gsize axis = find_axis (call, y);
  gint64 first = 0;

  for (gsize i = 0; i < call->n_inputs; i++)
    {
      const RlxReferenceValue *x = call->inputs[i];
      gint64 index[RLX_MAX_DIMS] = { 0, };
      gsize from = 0;

      if (x->n_elements > 0)
        do
          {
            gint64 to[RLX_MAX_DIMS];

            for (gsize d = 0; d < x->n_dims; d++)
              to[d] = index[d] + (d == axis ? first : 0);
            copy_element (y, rlx_reference_position (y, to, y->n_dims), x, from++);
          }
        while (rlx_reference_next (index, x->shape, x->n_dims));
      first += x->shape[axis];
    }
}

static void
expand (RlxReferenceCall *call)
{
  RlxReferenceValue *y = call->output;
  gint64 index[RLX_MAX_DIMS] = { 0, };
  gsize at = 0;

  if (y->n_elements == 0)
    return;
  do
    copy_element (y, at++, call->inputs[0], rlx_reference_position (call->inputs[0], index, y->n_dims));
  while (rlx_reference_next (index, y->shape, y->n_dims));
}

static void
gather (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0], *indices = call->inputs[1];
  RlxReferenceValue *y = call->output;
  gsize axis = find_axis (call, x);
  gint64 index[RLX_MAX_DIMS] = { 0, };
  gsize at = 0;

  if (y->n_elements == 0)
    return;
  do
    {
      gint64 from[RLX_MAX_DIMS];
      gsize which = rlx_reference_position (indices, index + axis, indices->n_dims);
      gint64 number = (gint64) indices->values[which];

      for (gsize i = 0; i < x->n_dims; i++)
        from[i] = i <= axis ? index[i] : index[i + indices->n_dims - 1];
      from[axis] = CLAMP (number < 0 ? number + x->shape[axis] : number, 0, x->shape[axis] - 1);
      copy_element (y, at, x, rlx_reference_position (x, from, x->n_dims));
      if (indices->bounds[which] > 0)
        y->bounds[at] = INFINITY;
      at++;
    }
  while (rlx_reference_next (index, y->shape, y->n_dims));
}

const RlxReferenceRow rlx_reference_shape[] = {
  { "reshape", reshape },
  { "after", reshape },
  { "transpose", transpose },
  { "slice", slice },
  { "concat", concat },
  { "expand", expand },
  { "gather", gather },
  { NULL, NULL },
};
