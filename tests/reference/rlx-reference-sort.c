/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Along one axis: places of extremes, sorting, running sums.
 */
#include "config.h"
#include "rlx-reference-private.h"

#include <math.h>
#include <string.h>

typedef struct
{
  gsize n_rows;
  gsize length;
  gsize inner;
} Axis;

static Axis
get_axis (RlxReferenceCall        *call,
          const RlxReferenceValue *x)
{
  gint64 index = rlx_reference_get_int (call, "axis");
  Axis axis = { 1, 1, 1 };

  if (index < 0)
    index += (gint64) x->n_dims;
  for (gsize i = 0; i < x->n_dims; i++)
    {
      if ((gint64) i == index)
        axis.length = (gsize) x->shape[i];
      else
        axis.n_rows *= (gsize) x->shape[i];
      if ((gint64) i > index)
        axis.inner *= (gsize) x->shape[i];
    }

  return axis;
}

/* The position of element @k of a row in a tensor whose axis has @length elements. */
static gsize
locate (const Axis *axis,
        gsize       length,
        gsize       row,
        gsize       k)
{
  return (row / axis->inner * length + k) * axis->inner + row % axis->inner;
}

/* ---- order --------------------------------------------------------------------------- */

/* NaN is the greatest, 0 and -0 are the same. */
static int
compare_values (double a,
                double b)
{
  if (isnan (a) || isnan (b))
    return (isnan (a) ? 1 : 0) - (isnan (b) ? 1 : 0);

  return a < b ? -1 : a > b ? 1 : 0;
}

typedef struct
{
  double value;
  double bound;
  gsize index;
} Item;

static int
compare_items (gconstpointer a,
               gconstpointer b,
               gpointer      data)
{
  const Item *first = a, *second = b;
  int order = compare_values (first->value, second->value);

  if (*(const gboolean *) data)
    order = -order;
  if (order != 0)
    return order;

  return first->index < second->index ? -1 : 1;
}

static void
read_row (const RlxReferenceValue *x,
          const Axis              *axis,
          gsize                    row,
          Item                    *items)
{
  for (gsize k = 0; k < axis->length; k++)
    {
      gsize at = locate (axis, axis->length, row, k);

      items[k] = (Item) { x->values[at], x->bounds[at], k };
    }
}

/* Whether the order of two elements is uncertain. */
static gboolean
may_swap (const Item *a,
          const Item *b)
{
  if (a->bound == 0 && b->bound == 0)
    return FALSE;

  return isinf (a->bound) || isinf (b->bound) || fabs (a->value - b->value) <= a->bound + b->bound;
}

static gboolean
is_certain (const Item *items,
            gsize       n,
            gsize       which)
{
  for (gsize i = 0; i < n; i++)
    if (i != which && may_swap (&items[i], &items[which]))
      return FALSE;

  return TRUE;
}

static void
sort (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0];
  RlxReferenceValue *y = call->output;
  Axis axis = get_axis (call, x);
  g_autofree Item *items = g_new (Item, axis.length + 1);
  gboolean descending = rlx_reference_get_bool (call, "descending") || rlx_reference_get_bool (call, "largest");
  gboolean indices = strcmp (call->op, "arg_sort") == 0 || call->result == 1;
  gsize keep = strcmp (call->op, "top_k") == 0 ? (gsize) rlx_reference_get_int (call, "k") : axis.length;

  for (gsize row = 0; row < axis.n_rows && axis.length > 0; row++)
    {
      double worst = 0;

      read_row (x, &axis, row, items);
      for (gsize k = 0; k < axis.length; k++)
        worst = fmax (worst, items[k].bound);
      g_sort_array (items, axis.length, sizeof (Item), compare_items, &descending);

      for (gsize k = 0; k < keep; k++)
        {
          gsize at = locate (&axis, keep, row, k);
          gboolean certain = worst == 0 || is_certain (items, axis.length, k);

          y->values[at] = indices ? (double) items[k].index : items[k].value;
          y->bounds[at] = certain ? (indices ? 0 : items[k].bound) : (indices ? INFINITY : worst);
        }
    }
}

/* The index of the element that wins, and whether that is certain. */
static gsize
find_extreme (const Item *items,
              gsize       n,
              gboolean    smallest,
              gboolean    last,
              gboolean   *certain)
{
  gsize best = 0;

  for (gsize k = 1; k < n; k++)
    {
      int order = compare_values (items[k].value, items[best].value);

      /* NaN wins either way. */
      if (smallest && !isnan (items[k].value) && !isnan (items[best].value))
        order = -order;
      if (order > 0 || (order == 0 && last))
        best = k;
    }
  *certain = is_certain (items, n, best);

  return best;
}

static void
arg (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0];
  RlxReferenceValue *y = call->output;
  Axis axis = get_axis (call, x);
  g_autofree Item *items = g_new (Item, axis.length + 1);
  gboolean smallest = strcmp (call->op, "arg_min") == 0, last = rlx_reference_get_bool (call, "select_last_index");

  for (gsize row = 0; row < axis.n_rows; row++)
    {
      gboolean certain;

      read_row (x, &axis, row, items);
      y->values[row] = (double) find_extreme (items, axis.length, smallest, last, &certain);
      y->bounds[row] = certain ? 0 : INFINITY;
    }
}

static void
hardmax (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0];
  RlxReferenceValue *y = call->output;
  Axis axis = get_axis (call, x);
  g_autofree Item *items = g_new (Item, axis.length + 1);

  for (gsize row = 0; row < axis.n_rows && axis.length > 0; row++)
    {
      gboolean certain;
      gsize best;

      read_row (x, &axis, row, items);
      best = find_extreme (items, axis.length, FALSE, FALSE, &certain);
      for (gsize k = 0; k < axis.length; k++)
        {
          gsize at = locate (&axis, axis.length, row, k);

          y->values[at] = k == best;
          y->bounds[at] = certain ? 0 : 1;
        }
    }
}

/* ---- running sums ------------------------------------------------------------------------- */

/* What is known after some of the elements. */
typedef struct
{
  double value;
  double bound;    /* from the operands, without rounding */
  double size;     /* sums: Σ|x|; products: Π (|x| + error) */
  double range;    /* products: Σ |log₂ |x|| */
  gsize n;
} Running;

static double
larger (double a,
        double b)
{
  return isnan (a) || isnan (b) ? (double) NAN : fmax (a, b);
}

static void
scan_start (const char  *op,
            RlxDataType  data_type,
            Running     *running)
{
  *running = (Running) { .value = 0 };

  if (strcmp (op, "cumprod") == 0)
    {
      running->value = running->size = 1;
    }
  else if (strcmp (op, "cumsum") != 0)
    {
      double sign = strcmp (op, "cummax") == 0 ? 1 : -1;
      gint64 lowest, highest;

      running->value = -INFINITY;
      if (!rlx_reference_is_float (data_type))
        {
          rlx_reference_get_range (data_type, &lowest, &highest);
          running->value = sign > 0 ? (double) lowest : -(double) highest;
        }
      running->value *= sign;
    }
}

static void
scan_add (const char  *op,
          RlxDataType  data_type,
          Running     *running,
          double       value,
          double       bound)
{
  gboolean is_float = rlx_reference_is_float (data_type);
  double sign = strcmp (op, "cummax") == 0 ? 1 : -1;

  running->n++;
  if (strcmp (op, "cumsum") == 0)
    {
      running->value += value;
      running->size += fabs (value);
      running->bound += bound;
    }
  else if (strcmp (op, "cumprod") == 0)
    {
      if (!is_float)
        {
          running->value = (double) rlx_reference_wrap (data_type, (gint64) running->value * (gint64) value);
          running->bound += bound;
          return;
        }
      running->value *= value;
      running->size *= fabs (value) + bound;
      if (value != 0 && isfinite (value))
        running->range += fabs (log2 (fabs (value)));
    }
  else
    {
      running->value = sign * larger (sign * running->value, sign * value);
      running->bound = fmax (running->bound, bound);
    }
  if (!is_float)
    running->value = (double) rlx_reference_wrap (data_type, (gint64) running->value);
}

static double
scan_bound (const char    *op,
            RlxDataType    data_type,
            const Running *running)
{
  double n = (double) running->n;

  if (running->n == 0)
    return 0;
  if (!rlx_reference_is_float (data_type))
    return running->bound > 0 ? INFINITY : 0;
  if (strcmp (op, "cumsum") == 0)
    {
      if (!isfinite (running->size))
        return running->bound;
      if (running->size >= 0x1p127)
        return INFINITY;
      /* A single element is not rounded. */
      return running->bound + (running->n > 1 ? (7 * log2 (n) + 40) * RLX_F32_EPSILON * running->size : 0);
    }
  if (strcmp (op, "cumprod") == 0)
    {
      if (running->range >= 125)
        return INFINITY;
      if (!isfinite (running->value))
        return 0;
      return (running->n > 1 ? n * RLX_F32_ULP * fabs (running->value) : 0) + (running->size - fabs (running->value));
    }

  /* An extreme changes by no more than the largest change of an element. */
  return isfinite (running->value) || isinf (running->bound) ? running->bound : 0;
}

static void
scan (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0];
  RlxReferenceValue *y = call->output;
  Axis axis = get_axis (call, x);
  gboolean exclusive = rlx_reference_get_bool (call, "exclusive"), reverse = rlx_reference_get_bool (call, "reverse");

  for (gsize row = 0; row < axis.n_rows; row++)
    {
      Running running;

      scan_start (call->op, y->data_type, &running);
      for (gsize k = 0; k < axis.length; k++)
        {
          gsize at = locate (&axis, axis.length, row, reverse ? axis.length - 1 - k : k);

          if (!exclusive)
            scan_add (call->op, y->data_type, &running, x->values[at], x->bounds[at]);
          y->values[at] = running.value;
          y->bounds[at] = scan_bound (call->op, y->data_type, &running);
          if (exclusive)
            scan_add (call->op, y->data_type, &running, x->values[at], x->bounds[at]);
        }
    }
}

const RlxReferenceRow rlx_reference_sort[] = {
  { "arg_max", arg },
  { "arg_min", arg },
  { "hardmax", hardmax },
  { "sort", sort },
  { "arg_sort", sort },
  { "top_k", sort },
  { "cumsum", scan },
  { "cumprod", scan },
  { "cummax", scan },
  { "cummin", scan },
  { NULL, NULL },
};
