/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Gates of experts, and neighbours: one row at a time.
 */
#include "config.h"
#include "rlx-reference-private.h"

#include <math.h>
#include <string.h>

typedef struct
{
  double value, bound;
  gsize index;
} Item;

/* NaN is the greatest. */
static int
compare (double a,
         double b)
{
  if (isnan (a) || isnan (b))
    return isnan (a) - isnan (b);
  return (a > b) - (a < b);
}

static int
compare_ascending (gconstpointer a,
                   gconstpointer b,
                   gpointer      user_data)
{
  const Item *x = a, *y = b;
  int order = compare (x->value, y->value);

  return order != 0 ? order : (x->index > y->index) - (x->index < y->index);
}

static int
compare_descending (gconstpointer a,
                    gconstpointer b,
                    gpointer      user_data)
{
  const Item *x = a, *y = b;
  int order = compare (y->value, x->value);

  return order != 0 ? order : (x->index > y->index) - (x->index < y->index);
}

/* Whether item @k of a sorted row is certain despite errors. */
static gboolean
is_certain (const Item *items,
            gsize       n,
            gsize       k)
{
  for (gsize i = 0; i < n; i++)
    {
      double room = items[i].bound + items[k].bound;

      if (i != k && room > 0 && !(fabs (items[i].value - items[k].value) > room))
        return FALSE;
    }
  return TRUE;
}

static void
set (RlxReferenceCall *call,
     gsize             at,
     double            value,
     double            bound)
{
  call->output->values[at] = value;
  call->output->bounds[at] = isnan (bound) ? INFINITY : bound;
}

/* ---- moe_gate ------------------------------------------------------------------------ */

/* The scores of a row, and their errors. */
static void
make_scores (RlxReferenceCall *call,
             const double     *values,
             const double     *bounds,
             gsize             n,
             Item             *scores)
{
  gboolean sigmoid = strcmp (rlx_reference_get_text (call, "scoring"), "sigmoid") == 0;
  double top = -INFINITY, sum = 0, worst = 0;

  for (gsize i = 0; i < n; i++)
    {
      top = isnan (values[i]) ? NAN : fmax (top, values[i]);
      worst = fmax (worst, bounds[i]);
    }
  for (gsize i = 0; i < n; i++)
    sum += exp (values[i] - top);
  for (gsize i = 0; i < n; i++)
    {
      double y = sigmoid ? 1 / (1 + exp (-values[i])) : exp (values[i] - top) / sum;

      scores[i] = (Item) { y, sigmoid ? 2e-6 * y + y * expm1 (bounds[i]) : 3e-6 * y + 1e-7 + y * expm1 (2 * worst), i };
      if (isnan (scores[i].bound) || isnan (y))
        scores[i].bound = INFINITY;
    }
}

static void
moe_gate (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0], *bias = rlx_reference_get_input (call, 1);
  gsize n = (gsize) x->shape[x->n_dims - 1], k = (gsize) rlx_reference_get_int (call, "k");
  gsize groups = (gsize) rlx_reference_get_int (call, "groups"), top = (gsize) rlx_reference_get_int (call, "top_groups"), size = n / groups;
  double scale = rlx_reference_get_float (call, "scale");
  g_autofree Item *scores = g_new (Item, n), *choice = g_new (Item, n), *members = g_new (Item, size), *totals = g_new (Item, groups);

  for (gsize row = 0; row < call->output->n_elements / k; row++)
    {
      gboolean certain = TRUE;
      double sum = 0, error = 0;

      make_scores (call, x->values + row * n, x->bounds + row * n, n, scores);
      for (gsize i = 0; i < n; i++)
        {
          choice[i] = scores[i];
          if (bias != NULL)
            {
              choice[i].value += bias->values[i];
              choice[i].bound += bias->bounds[i] + RLX_F32_ULP * (fabs (bias->values[i]) + fabs (scores[i].value));
              if (isnan (choice[i].value))
                choice[i].bound = INFINITY;
            }
        }
      if (top < groups)
        {
          for (gsize g = 0; g < groups; g++)
            {
              double worst = 0;

              memcpy (members, choice + g * size, size * sizeof *members);
              for (gsize i = 0; i < size; i++)
                worst = fmax (worst, members[i].bound);
              g_sort_array (members, size, sizeof *members, compare_descending, NULL);
              totals[g] = (Item) { members[0].value + (size > 1 ? members[1].value : 0), 0, g };
              totals[g].bound = 2 * worst + 2 * RLX_F32_ULP * fabs (totals[g].value);
            }
          g_sort_array (totals, groups, sizeof *totals, compare_descending, NULL);
          for (gsize g = 0; g < groups; g++)
            {
              if (g < top)
                {
                  for (gsize other = top; other < groups; other++)
                    certain = certain && totals[g].value - totals[other].value > totals[g].bound + totals[other].bound;
                  continue;
                }
              for (gsize i = 0; i < size; i++)
                choice[totals[g].index * size + i] = (Item) { -INFINITY, 0, totals[g].index * size + i };
            }
        }
      g_sort_array (choice, n, sizeof *choice, compare_descending, NULL);
      for (gsize i = 0; i < k; i++)
        {
          certain = certain && is_certain (choice, n, i);
          sum += scores[choice[i].index].value;
          error += scores[choice[i].index].bound;
        }
      for (gsize i = 0; i < k; i++)
        {
          gsize at = row * k + i;
          const Item *score = &scores[choice[i].index];
          double weight = score->value, bound = score->bound;

          if (rlx_reference_get_bool (call, "normalize"))
            {
              weight /= sum;
              bound = sum > 2 * error ? (score->bound + fabs (weight) * error) / (sum - error) : INFINITY;
            }
          if (call->result == 1)
            set (call, at, (double) choice[i].index, certain ? 0 : INFINITY);
          else
            set (call, at, scale * weight, certain ? fabs (scale) * (bound + 0x1p-20 * fabs (weight) + 0x1p-120) : INFINITY);
        }
    }
}

/* ---- distances ------------------------------------------------------------------------ */

/* From the point at @a of @x to that at @b of @y; squared for the Euclidean metric. */
static Item
measure (const RlxReferenceValue *x,
         gsize                    a,
         const RlxReferenceValue *y,
         gsize                    b,
         gsize                    width,
         const char              *metric)
{
  double sum = 0, error = 0, size = 0, x_square = 0, y_square = 0;
  double relative = ((double) width + 6) * RLX_F32_ULP;
  Item item;

  for (gsize i = 0; i < width; i++)
    {
      double p = x->values[a + i], q = y->values[b + i], p_bound = x->bounds[a + i], q_bound = y->bounds[b + i];

      x_square += p * p;
      y_square += q * q;
      if (strcmp (metric, "euclidean") == 0 || strcmp (metric, "squared") == 0)
        {
          double off = p_bound + q_bound;

          sum += (p - q) * (p - q);
          error += off > 0 ? off * (2 * fabs (p - q) + off) : 0;
        }
      else
        {
          sum += p * q;
          size += fabs (p * q);
          error += (p_bound > 0 ? p_bound * (fabs (q) + q_bound) : 0) + (q_bound > 0 ? q_bound * fabs (p) : 0);
        }
    }
  if (strcmp (metric, "euclidean") == 0 || strcmp (metric, "squared") == 0)
    item = (Item) { sum, error + relative * (sum + error) + (double) width * 0x1p-124, b / MAX (width, 1) };
  else if (strcmp (metric, "cosine") == 0)
    {
      double norms = sqrt (x_square) * sqrt (y_square);

      item = (Item) { 1 - (norms > 0 || isnan (norms) ? sum / norms : 0), 2 * relative + (error > 0 ? 4 * error / norms : 0), 0 };
      /* squares that underflow */
      if ((x_square > 0 && x_square < 0x1p-90) || (y_square > 0 && y_square < 0x1p-90) || x_square > 0x1p120 || y_square > 0x1p120)
        item.bound = INFINITY;
      if (error > 0 && norms < 1e-3)
        item.bound = INFINITY;
    }
  else
    item = (Item) { -sum, error + relative * (size + error) + (double) width * 0x1p-124, 0 };
  if (isnan (item.bound) || !isfinite (item.value) || fabs (item.value) > 0x1p126)
    item.bound = INFINITY;
  return item;
}

static void
take_root (Item *item)
{
  double above = sqrt (item->value + item->bound), below = sqrt (MAX (item->value - item->bound, 0)), root = sqrt (item->value);

  item->bound = MAX (above - root, root - below) + RLX_F32_ULP * above;
  if (isnan (item->bound))
    item->bound = INFINITY;
  item->value = root;
}

static void
pairwise_distance (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0], *y = rlx_reference_get_input (call, 1);
  const char *metric = rlx_reference_get_text (call, "metric");
  gsize width = (gsize) x->shape[x->n_dims - 1], n = (gsize) x->shape[x->n_dims - 2], m;

  if (y == NULL)
    y = x;
  m = (gsize) y->shape[y->n_dims - 2];
  for (gsize at = 0; at < call->output->n_elements; at++)
    {
      Item item = measure (x, at / m * width, y, (at / m / n * m + at % m) * width, width, metric);

      if (strcmp (metric, "euclidean") == 0)
        take_root (&item);
      set (call, at, item.value, item.bound);
    }
}

static void
knn (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0], *y = rlx_reference_get_input (call, 1);
  gboolean given = strcmp (call->op, "knn_from_distances") == 0, exclude = rlx_reference_get_bool (call, "exclude_self");
  const char *metric = given ? "" : rlx_reference_get_text (call, "metric");
  gsize width = (gsize) x->shape[x->n_dims - 1], n = (gsize) x->shape[x->n_dims - 2], k = (gsize) rlx_reference_get_int (call, "k"), m;
  g_autofree Item *items = NULL;

  if (y == NULL)
    y = x;
  m = given ? width : (gsize) y->shape[y->n_dims - 2];
  items = g_new (Item, m + 1);
  for (gsize row = 0; row < call->output->n_elements / k; row++)
    {
      gsize n_items = 0;
      double worst = 0;

      for (gsize j = 0; j < m; j++)
        {
          if (exclude && j == row % n)
            continue;
          if (given)
            items[n_items] = (Item) { x->values[row * m + j], x->bounds[row * m + j], j };
          else
            items[n_items] = measure (x, row * width, y, (row / n * m + j) * width, width, metric);
          items[n_items].index = j;
          worst = fmax (worst, items[n_items].bound);
          n_items++;
        }
      g_sort_array (items, n_items, sizeof *items, compare_ascending, NULL);
      for (gsize i = 0; i < k; i++)
        {
          Item item = items[i];

          if (call->result == 0)
            {
              set (call, row * k + i, (double) item.index, is_certain (items, n_items, i) ? 0 : INFINITY);
              continue;
            }
          item.bound = worst;
          if (strcmp (metric, "euclidean") == 0)
            take_root (&item);
          set (call, row * k + i, item.value, item.bound);
        }
    }
}

/* ---- boxes ---------------------------------------------------------------------------- */

typedef struct
{
  double low[2], high[2], size[2];
  double error;      /* of each of them */
} Box;

static Box
get_box (const RlxReferenceValue *boxes,
         gsize                    at,
         gboolean                 center)
{
  Box box = { .error = 0 };
  double most = 0;

  for (gsize i = 0; i < 2; i++)
    {
      double a = boxes->values[at + i], b = boxes->values[at + 2 + i];

      box.low[i] = center ? a - b / 2 : fmin (a, b);
      box.high[i] = center ? a + b / 2 : fmax (a, b);
      box.size[i] = fmax (box.high[i] - box.low[i], 0);
      box.error = fmax (box.error, boxes->bounds[at + i] + boxes->bounds[at + 2 + i]);
      most = fmax (most, fabs (a) + fabs (b));
    }
  /* Corners are exact, unlike a centre and a size. */
  box.error += center ? RLX_F32_ULP * most : 0;
  if (!isfinite (most) || isnan (box.low[0] + box.low[1] + box.high[0] + box.high[1]))
    box.error = INFINITY;
  return box;
}

/* Whether they overlap; *certain becomes FALSE if it depends on rounding. */
static gboolean
overlap (const Box *a,
         const Box *b,
         double     limit,
         gboolean  *certain)
{
  double size[2], shared, both, error = 2 * (a->error + b->error), room;

  for (gsize i = 0; i < 2; i++)
    size[i] = fmax (fmin (a->high[i], b->high[i]) - fmax (a->low[i], b->low[i]), 0);
  shared = size[0] * size[1];
  both = a->size[0] * a->size[1] + b->size[0] * b->size[1];
  /* A difference, a product, two sums and another product, each with an error of half an ulp; and the corners. */
  room = 4 * RLX_F32_ULP * (shared + limit * both) + 3 * error * (a->size[0] + a->size[1] + b->size[0] + b->size[1] + error) + 0x1p-120;
  /* Exact boxes that are disjoint leave no doubt. */
  if (!(error == 0 && shared == 0 && (size[0] == 0 || size[1] == 0)) && !(fabs (shared * (1 + limit) - limit * both) > room))
    *certain = FALSE;
  return shared > 0 && shared > limit * (both - shared);
}

static void
non_max_suppression (RlxReferenceCall *call)
{
  const RlxReferenceValue *boxes = call->inputs[0], *scores = call->inputs[1];
  gboolean center = rlx_reference_get_bool (call, "center");
  double limit = rlx_reference_get_float (call, "overlap"), least = rlx_reference_get_float (call, "score");
  gsize classes = (gsize) scores->shape[1], n = (gsize) scores->shape[2], keep = (gsize) call->output->shape[2];
  g_autofree gboolean *alive = g_new0 (gboolean, n + 1);

  for (gsize row = 0; row < (gsize) scores->shape[0] * classes; row++)
    {
      gboolean certain = TRUE;

      for (gsize i = 0; i < n; i++)
        {
          gsize at = row * n + i;

          alive[i] = scores->values[at] > least;
          certain = certain && (scores->bounds[at] == 0 || fabs (scores->values[at] - least) > scores->bounds[at]);
        }
      for (gsize k = 0; k < keep; k++)
        {
          gsize best = n;

          for (gsize i = 0; i < n; i++)
            if (alive[i] && (best == n || scores->values[row * n + i] > scores->values[row * n + best]))
              best = i;
          for (gsize i = 0; i < n && best < n; i++)
            {
              double room = scores->bounds[row * n + i] + scores->bounds[row * n + best];

              certain = certain && (i == best || !alive[i] || room == 0 || scores->values[row * n + best] - scores->values[row * n + i] > room);
            }
          set (call, row * keep + k, best < n ? (double) best : -1, certain ? 0 : INFINITY);
          for (gsize i = 0; i < n && best < n; i++)
            if (alive[i] && i != best)
              {
                Box a = get_box (boxes, (row / classes * n + i) * 4, center), b = get_box (boxes, (row / classes * n + best) * 4, center);

                alive[i] = !overlap (&a, &b, limit, &certain);
              }
          if (best < n)
            alive[best] = FALSE;
        }
    }
}

const RlxReferenceRow rlx_reference_neighbours[] = {
  { "moe_gate", moe_gate },
  { "pairwise_distance", pairwise_distance },
  { "knn", knn },
  { "knn_from_distances", knn },
  { "non_max_suppression", non_max_suppression },
  { NULL, NULL }
};
