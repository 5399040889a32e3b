/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * More operators that move elements, and those that pick and change them by
 * index.
 */
#include "config.h"
#include "rlx-reference-private.h"

#include <math.h>
#include <string.h>

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
find_axis (RlxReferenceCall *call,
           gsize             n_dims)
{
  gint64 axis = rlx_reference_get_int (call, "axis");

  return (gsize) (axis < 0 ? axis + (gint64) n_dims : axis);
}

/* The source of an element; FALSE if it has none, and is @other's, or 0. */
typedef gboolean (*Origin) (const gint64 *to,
                            gint64       *from,
                            gpointer      user_data);

static void
move (RlxReferenceCall        *call,
      Origin                   origin,
      const RlxReferenceValue *other,
      gpointer                 user_data)
{
  const RlxReferenceValue *x = call->inputs[0];
  RlxReferenceValue *y = call->output;
  gint64 index[RLX_MAX_DIMS] = { 0, }, from[RLX_MAX_DIMS];
  gsize at = 0;

  if (y->n_elements == 0)
    return;
  do
    {
      if (origin (index, from, user_data))
        copy_element (y, at, x, rlx_reference_position (x, from, x->n_dims));
      else if (other != NULL)
        copy_element (y, at, other, 0);
      else
        y->values[at] = 0;
      at++;
    }
  while (rlx_reference_next (index, y->shape, y->n_dims));
}

static void
copy_all (RlxReferenceCall *call)
{
  for (gsize i = 0; i < call->output->n_elements; i++)
    copy_element (call->output, i, call->inputs[0], i);
}

typedef struct
{
  const RlxReferenceValue *x;
  gint64 first[RLX_MAX_DIMS];   /* of the result, within the operand */
  gint64 start[RLX_MAX_DIMS];   /* the part of the operand that is used */
  gint64 size[RLX_MAX_DIMS];
  gboolean mirror[RLX_MAX_DIMS];
  const char *mode;
  gint64 block;
  gboolean blocks_first;
  gboolean upper;
  gint64 diagonal;
} Move;

static gboolean
shifted (const gint64 *to,
         gint64       *from,
         gpointer      user_data)
{
  const Move *m = user_data;

  for (gsize d = 0; d < m->x->n_dims; d++)
    {
      gint64 size = m->size[d];
      gint64 i = (m->mirror[d] ? size - 1 - to[d] : to[d]) + m->first[d] - m->start[d];

      if (i < 0 || i >= size)
        {
          if (m->mode == NULL || strcmp (m->mode, "constant") == 0)
            return FALSE;
          if (strcmp (m->mode, "edge") == 0)
            i = i < 0 ? 0 : size - 1;
          else if (strcmp (m->mode, "reflect") == 0)
            while (i < 0 || i >= size)
              i = size == 1 ? 0 : i < 0 ? -i : 2 * (size - 1) - i;
          else if (strcmp (m->mode, "symmetric") == 0)
            while (i < 0 || i >= size)
              i = i < 0 ? -1 - i : 2 * size - 1 - i;
          else
            i = (i % size + size) % size;
        }
      from[d] = m->start[d] + i;
    }

  return TRUE;
}

static void
init_move (RlxReferenceCall *call,
           Move             *m)
{
  memset (m, 0, sizeof *m);
  m->x = call->inputs[0];
  for (gsize d = 0; d < m->x->n_dims; d++)
    m->size[d] = m->x->shape[d];
}

static void
split (RlxReferenceCall *call)
{
  Move m;
  gsize axis = find_axis (call, call->inputs[0]->n_dims), n;
  gint64 sizes[RLX_MAX_DIMS], parts = rlx_reference_get_int (call, "parts");

  init_move (call, &m);
  rlx_reference_get_ints (call, "sizes", sizes, &n);
  for (gsize i = 0; i < call->result; i++)
    m.first[axis] += parts > 0 ? m.size[axis] / parts : sizes[i];
  move (call, shifted, NULL, &m);
}

static void
tile (RlxReferenceCall *call)
{
  Move m;

  init_move (call, &m);
  m.mode = "wrap";
  move (call, shifted, NULL, &m);
}

static void
pad (RlxReferenceCall *call)
{
  gint64 before[RLX_MAX_DIMS], after[RLX_MAX_DIMS];
  Move m;
  gsize n;

  init_move (call, &m);
  rlx_reference_get_ints (call, "before", before, &n);
  rlx_reference_get_ints (call, "after", after, &n);
  g_variant_lookup (call->attributes, "mode", "&s", &m.mode);
  for (gsize d = 0; d < m.x->n_dims; d++)
    {
      m.first[d] = -before[d];
      m.start[d] = MAX (-before[d], 0);
      m.size[d] -= m.start[d] + MAX (-after[d], 0);
    }
  move (call, shifted, rlx_reference_get_input (call, 1), &m);
}

static void
reverse (RlxReferenceCall *call)
{
  Move m;

  init_move (call, &m);
  rlx_reference_get_axes (call, "axes", m.x->n_dims, m.mirror);
  move (call, shifted, NULL, &m);
}

static void
roll (RlxReferenceCall *call)
{
  gint64 shifts[RLX_MAX_DIMS], axes[RLX_MAX_DIMS];
  Move m;
  gsize n;

  init_move (call, &m);
  m.mode = "wrap";
  rlx_reference_get_ints (call, "shifts", shifts, &n);
  rlx_reference_get_ints (call, "axes", axes, &n);
  for (gsize i = 0; i < n; i++)
    {
      gsize axis = (gsize) (axes[i] < 0 ? axes[i] + (gint64) m.x->n_dims : axes[i]);

      m.first[axis] = m.size[axis] > 0 ? -(shifts[i] % m.size[axis]) : 0;
    }
  move (call, shifted, NULL, &m);
}

static gboolean
in_triangle (const gint64 *to,
             gint64       *from,
             gpointer      user_data)
{
  const Move *m = user_data;
  gint64 above = to[m->x->n_dims - 1] - to[m->x->n_dims - 2];

  memcpy (from, to, m->x->n_dims * sizeof (gint64));
  return m->upper ? above >= m->diagonal : above <= m->diagonal;
}

static void
triangular (RlxReferenceCall *call)
{
  Move m;

  init_move (call, &m);
  m.upper = rlx_reference_get_bool (call, "upper");
  m.diagonal = rlx_reference_get_int (call, "diagonal");
  move (call, in_triangle, NULL, &m);
}

static gboolean
from_depth (const gint64 *to,
            gint64       *from,
            gpointer      user_data)
{
  const Move *m = user_data;
  gint64 b = m->block, row = to[2] % b, column = to[3] % b;

  from[0] = to[0];
  from[1] = m->blocks_first ? (row * b + column) * (m->x->shape[1] / (b * b)) + to[1] : (to[1] * b + row) * b + column;
  from[2] = to[2] / b;
  from[3] = to[3] / b;
  return TRUE;
}

static gboolean
from_space (const gint64 *to,
            gint64       *from,
            gpointer      user_data)
{
  const Move *m = user_data;
  gint64 b = m->block, channels = m->x->shape[1];
  gint64 place = m->blocks_first ? to[1] / channels : to[1] % (b * b);

  from[0] = to[0];
  from[1] = m->blocks_first ? to[1] % channels : to[1] / (b * b);
  from[2] = to[2] * b + place / b;
  from[3] = to[3] * b + place % b;
  return TRUE;
}

static void
depth_or_space (RlxReferenceCall *call)
{
  Move m;

  init_move (call, &m);
  m.block = rlx_reference_get_int (call, "block");
  m.blocks_first = rlx_reference_get_bool (call, "blocks_first");
  move (call, strcmp (call->op, "depth_to_space") == 0 ? from_depth : from_space, NULL, &m);
}

/* ---- by index --------------------------------------------------------------------- */

static gint64
limit_index (double index,
             gint64 size)
{
  gint64 i = (gint64) index;

  return CLAMP (i < 0 ? i + size : i, 0, size - 1);
}

static void
gather_elements (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0], *indices = call->inputs[1];
  RlxReferenceValue *y = call->output;
  gsize axis = find_axis (call, x->n_dims), at = 0;
  gint64 index[RLX_MAX_DIMS] = { 0, };

  if (y->n_elements == 0)
    return;
  do
    {
      gint64 from[RLX_MAX_DIMS];

      memcpy (from, index, sizeof from);
      from[axis] = limit_index (indices->values[at], x->shape[axis]);
      copy_element (y, at, x, rlx_reference_position (x, from, x->n_dims));
      at++;
    }
  while (rlx_reference_next (index, y->shape, y->n_dims));
}

static void
write_at (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0], *value = call->inputs[1];
  RlxReferenceValue *y = call->output;
  gsize axis = find_axis (call, x->n_dims), at = 0;
  gint64 index[RLX_MAX_DIMS] = { 0, }, first, length = value->shape[axis];

  if (y->n_elements == 0)
    return;
  first = limit_index (call->inputs[2]->values[0], x->shape[axis] - length + 1);
  do
    {
      gint64 from[RLX_MAX_DIMS];

      memcpy (from, index, sizeof from);
      from[axis] -= first;
      if (from[axis] >= 0 && from[axis] < length)
        copy_element (y, at, value, rlx_reference_position (value, from, value->n_dims));
      else
        copy_element (y, at, x, at);
      at++;
    }
  while (rlx_reference_next (index, y->shape, y->n_dims));
}

/* The slice that index tuple @tuple of @n indices selects, among the slices of dimensions
 * @first to @first + @n - 1. */
static gsize
find_slice (const RlxReferenceValue *x,
            const RlxReferenceValue *indices,
            gsize                    first,
            gsize                    tuple,
            gsize                    n)
{
  gsize at = 0;

  for (gsize k = 0; k < n; k++)
    at = at * (gsize) x->shape[first + k] + (gsize) limit_index (indices->values[tuple * n + k], x->shape[first + k]);

  return at;
}

static gsize
count (const RlxReferenceValue *x,
       gsize                    first,
       gsize                    end)
{
  gsize n = 1;

  for (gsize i = first; i < end; i++)
    n *= (gsize) x->shape[i];

  return n;
}

static void
gather_nd (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0], *indices = call->inputs[1];
  RlxReferenceValue *y = call->output;
  gsize batches = (gsize) rlx_reference_get_int (call, "batch_dims");
  gsize n = (gsize) indices->shape[indices->n_dims - 1];
  gsize inner = count (x, batches + n, x->n_dims), slices = count (x, batches, batches + n);
  gsize per_batch = count (indices, batches, indices->n_dims - 1);

  for (gsize i = 0; i < y->n_elements; i++)
    {
      gsize tuple = i / inner;

      copy_element (y, i, x, (tuple / per_batch * slices + find_slice (x, indices, batches, tuple, n)) * inner + i % inner);
    }
}

static void
one_hot (RlxReferenceCall *call)
{
  const RlxReferenceValue *indices = call->inputs[0], *values = call->inputs[1];
  RlxReferenceValue *y = call->output;
  gsize axis = find_axis (call, y->n_dims), inner = count (y, axis + 1, y->n_dims);
  gint64 depth = y->shape[axis];

  for (gsize i = 0; i < y->n_elements; i++)
    {
      gint64 k = (gint64) (i / inner) % depth;
      double index = indices->values[i / inner / (gsize) depth * inner + i % inner];

      copy_element (y, i, values, index == (double) k || index + (double) depth == (double) k ? 1 : 0);
    }
}

/* ---- scattering ------------------------------------------------------------------------ */

typedef struct
{
  double size;     /* sum of magnitudes, or their product */
  double larger;   /* the product including the errors of the operands */
  gsize n;         /* updates so far */
} Tally;

static void
update (RlxReferenceValue *y,
        gsize              at,
        double             value,
        double             bound,
        const char        *mode,
        Tally             *tally)
{
  double *x = &y->values[at];
  gboolean is_float = rlx_reference_is_float (y->data_type);

  if (tally->n++ == 0)
    {
      tally->size = fabs (*x);
      tally->larger = fabs (*x) + y->bounds[at];
    }

  if (strcmp (mode, "replace") == 0)
    {
      *x = value;
      y->bounds[at] = bound;
    }
  else if (strcmp (mode, "max") == 0 || strcmp (mode, "min") == 0)
    {
      if (isnan (*x) || isnan (value))
        *x = NAN;
      else
        *x = mode[1] == 'a' ? MAX (*x, value) : MIN (*x, value);
      y->bounds[at] = MAX (y->bounds[at], bound);
    }
  else if (!is_float)
    {
      gint64 a = (gint64) *x, b = (gint64) value;

      *x = (double) rlx_reference_wrap (y->data_type,
                                        strcmp (mode, "add") == 0 ? a + b : (gint64) ((guint64) a * (guint64) b));
    }
  else if (strcmp (mode, "add") == 0)
    {
      *x += value;
      tally->size += fabs (value);
      y->bounds[at] += bound;
    }
  else
    {
      *x *= value;
      tally->size *= fabs (value);
      tally->larger *= fabs (value) + bound;
    }
}

static void
finish_update (RlxReferenceValue *y,
               gsize              at,
               const char        *mode,
               const Tally       *tally)
{
  if (tally->n == 0 || !rlx_reference_is_float (y->data_type))
    return;
  if (strcmp (mode, "add") == 0)
    y->bounds[at] += 1.01 * (double) tally->n * RLX_F32_EPSILON * tally->size;
  else if (strcmp (mode, "mul") == 0)
    y->bounds[at] = tally->larger - tally->size + 1.01 * (double) tally->n * RLX_F32_EPSILON * tally->larger;
}

static void
scatter (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0], *indices = call->inputs[1], *updates = call->inputs[2];
  RlxReferenceValue *y = call->output;
  g_autofree Tally *tallies = g_new0 (Tally, y->n_elements + 1);
  gboolean elements = strcmp (call->op, "scatter_elements") == 0;
  gint64 index[RLX_MAX_DIMS] = { 0, };
  gsize axis = 0, inner = 1, n = 1, at = 0;
  const char *mode = "replace";

  g_variant_lookup (call->attributes, "mode", "&s", &mode);
  copy_all (call);
  if (elements)
    {
      axis = find_axis (call, x->n_dims);
    }
  else
    {
      n = (gsize) indices->shape[indices->n_dims - 1];
      inner = count (x, n, x->n_dims);
    }

  if (updates->n_elements > 0)
    do
      {
        gsize to;

        if (elements)
          {
            gint64 place[RLX_MAX_DIMS];

            memcpy (place, index, sizeof place);
            place[axis] = limit_index (indices->values[at], x->shape[axis]);
            to = rlx_reference_position (x, place, x->n_dims);
          }
        else
          {
            to = find_slice (x, indices, 0, at / inner, n) * inner + at % inner;
          }
        update (y, to, updates->values[at], updates->bounds[at], mode, &tallies[to]);
        at++;
      }
    while (rlx_reference_next (index, updates->shape, updates->n_dims));

  for (gsize i = 0; i < y->n_elements; i++)
    finish_update (y, i, mode, &tallies[i]);
}

const RlxReferenceRow rlx_reference_index[] = {
  { "split", split },
  { "tile", tile },
  { "pad", pad },
  { "reverse", reverse },
  { "roll", roll },
  { "squeeze", copy_all },
  { "unsqueeze", copy_all },
  { "triangular", triangular },
  { "depth_to_space", depth_or_space },
  { "space_to_depth", depth_or_space },
  { "gather_elements", gather_elements },
  { "write_at", write_at },
  { "gather_nd", gather_nd },
  { "one_hot", one_hot },
  { "scatter_elements", scatter },
  { "scatter_nd", scatter },
  { NULL, NULL },
};
