/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Values between elements.
 */
#include "config.h"
#include "rlx-reference-private.h"

#include <math.h>
#include <string.h>

#define MAX_TAPS 4

typedef struct
{
  gint64 at[MAX_TAPS];
  double weight[MAX_TAPS];
  guint n;
} Taps;

static const char *
get_word (RlxReferenceCall *call,
          const char       *name)
{
  const char *word = "";

  g_variant_lookup (call->attributes, name, "&s", &word);
  return word;
}

/* A weighted sum of neighbours. */
typedef struct
{
  double value;
  double bound;       /* from those of the neighbours */
  double largest;     /* of them */
  gboolean open;      /* it depends on whether a NaN or infinity has a weight of 0 */
} Mix;

static void
mix_add (Mix                     *self,
         const RlxReferenceValue *x,
         gsize                    at,
         double                   weight)
{
  if (!isfinite (x->values[at]) && fabs (weight) < 0x1p-16)
    self->open = TRUE;
  if (weight == 0)
    return;
  self->value += weight * x->values[at];
  self->bound += fabs (weight) * x->bounds[at];
  self->largest = MAX (self->largest, fabs (x->values[at]) + x->bounds[at]);
}

/* The bound if the weights have an error of @relative times the largest. */
static double
mix_bound (const Mix *self,
           double     relative)
{
  if (self->open)
    return INFINITY;
  /* comparisons with NaN are false */
  return isfinite (self->value) && self->largest < INFINITY ? self->bound + relative * self->largest : self->bound;
}

/* Cubic convolution: the weight at a distance. */
static double
cubic (double distance,
       double a)
{
  double d = fabs (distance);

  if (d <= 1)
    return ((a + 2) * d - (a + 3)) * d * d + 1;
  if (d < 2)
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return 0;
}

static void
get_taps (double      x,
          const char *mode,
          double      a,
          Taps       *taps)
{
  gint64 at = (gint64) floor (x);

  if (strcmp (mode, "cubic") == 0)
    {
      taps->n = 4;
      for (guint i = 0; i < 4; i++)
        {
          taps->at[i] = at - 1 + i;
          taps->weight[i] = cubic (x - (double) taps->at[i], a);
        }
    }
  else
    {
      taps->n = 2;
      taps->at[0] = at;
      taps->at[1] = at + 1;
      taps->weight[1] = x - floor (x);
      taps->weight[0] = 1 - taps->weight[1];
    }
}

/* ---- resize ----------------------------------------------------------------------- */

typedef struct
{
  const char *mode;
  const char *coordinates;
  const char *rounding;
  double a;
  gboolean exclude;
  double extrapolation;
  gboolean scaled;       /* or cropped: positions are inexact */
  gboolean antialias;
} Resize;

/* The position of element r of the result. */
static double
get_place (const Resize *resize,
           double        r,
           double        size,
           double        new_size,
           double        scale,
           double        start,
           double        end)
{
  const char *c = resize->coordinates;

  if (strcmp (c, "asymmetric") == 0)
    return r / scale;
  if (strcmp (c, "align-corners") == 0)
    return new_size > 1 ? r * (size - 1) / (new_size - 1) : 0;
  if (strcmp (c, "tf-half-pixel-for-nn") == 0)
    return (r + 0.5) / scale;
  if (strcmp (c, "tf-crop-and-resize") == 0)
    return new_size > 1 ? start * (size - 1) + r * (end - start) * (size - 1) / (new_size - 1) : 0.5 * (start + end) * (size - 1);
  if (strcmp (c, "pytorch-half-pixel") == 0 && new_size == 1)
    return 0;
  if (strcmp (c, "half-pixel-symmetric") == 0)
    return (size - 1) / 2 + (r + 0.5 - new_size / 2) / scale;
  return (r + 0.5) / scale - 0.5;
}

static gint64
round_place (const char *rounding,
             double      x)
{
  if (strcmp (rounding, "floor") == 0)
    return (gint64) floor (x);
  if (strcmp (rounding, "ceil") == 0)
    return (gint64) ceil (x);
  if (strcmp (rounding, "round-prefer-ceil") == 0)
    return (gint64) floor (x + 0.5);
  return (gint64) ceil (x - 0.5);
}

/* All elements with a weight after stretching the filter. */
static void
average_elements (const Resize            *resize,
                  const RlxReferenceValue *x,
                  gsize                    first,
                  gsize                    stride,
                  gint64                   size,
                  double                   place,
                  double                   scale,
                  double                  *value,
                  double                  *bound)
{
  gboolean linear = strcmp (resize->mode, "linear") == 0;
  double reach = (linear ? 1 : 2) / scale, total = 0, size_of_weights = 0;
  Mix mix = { 0, };
  guint n = 0;

  for (gint64 k = (gint64) floor (place - reach); k <= (gint64) ceil (place + reach); k++)
    {
      double distance = ((double) k - place) * scale;
      double weight = linear ? fmax (1 - fabs (distance), 0) : cubic (distance, resize->a);

      if (resize->exclude && (k < 0 || k >= size))
        continue;
      mix_add (&mix, x, first + (gsize) CLAMP (k, 0, size - 1) * stride, weight);
      total += weight;
      size_of_weights += fabs (weight);
      n += weight != 0;
    }
  *value = mix.value / total;
  *bound = mix_bound (&mix, (linear ? 0x1p-19 : 0x1p-17) * (1 + n / 16.0) * (1 + (resize->scaled ? fabs (place) : 0)) * size_of_weights) /
           fabs (total);
}

static void
resize_element (const Resize            *resize,
                const RlxReferenceValue *x,
                gsize                    first,
                gsize                    stride,
                gint64                   size,
                double                   place,
                double                   scale,
                double                  *value,
                double                  *bound)
{
  Taps taps;
  double total = 0;
  Mix mix = { 0, };

  *value = *bound = 0;
  if (strcmp (resize->coordinates, "tf-crop-and-resize") == 0 && !(place >= 0 && place <= (double) (size - 1)))
    {
      *value = x->data_type == RLX_DATA_TYPE_BOOL ? resize->extrapolation != 0 : resize->extrapolation;
      return;
    }
  if (strcmp (resize->mode, "nearest") == 0)
    {
      gsize at = first + (gsize) CLAMP (round_place (resize->rounding, place), 0, size - 1) * stride;

      *value = x->values[at];
      *bound = x->bounds[at];
      return;
    }

  if (resize->antialias && scale < 1)
    {
      average_elements (resize, x, first, stride, size, place, scale, value, bound);
      return;
    }

  get_taps (place, resize->mode, resize->a, &taps);
  for (guint i = 0; i < taps.n; i++)
    {
      if (resize->exclude && (taps.at[i] < 0 || taps.at[i] >= size))
        taps.weight[i] = 0;
      total += taps.weight[i];
    }
  for (guint i = 0; i < taps.n; i++)
    {
      gsize at = first + (gsize) CLAMP (taps.at[i], 0, size - 1) * stride;

      mix_add (&mix, x, at, resize->exclude ? taps.weight[i] / total : taps.weight[i]);
    }
  *value = mix.value;
  *bound = mix_bound (&mix, (taps.n == 2 ? 0x1p-19 : 0x1p-17) * (1 + (resize->scaled ? fabs (place) : 0)));
}

static void
resize (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0];
  const RlxReferenceValue *scales = rlx_reference_get_input (call, 1), *region = rlx_reference_get_input (call, 2);
  RlxReferenceValue *y = call->output;
  RlxReferenceValue now = *x, next;
  gint64 sizes[RLX_MAX_DIMS], axes[RLX_MAX_DIMS];
  gsize n, n_axes;
  Resize r = {
    get_word (call, "mode"), get_word (call, "coordinates"), get_word (call, "rounding"),
    rlx_reference_get_float (call, "cubic_a"), rlx_reference_get_bool (call, "exclude_outside"),
    rlx_reference_get_float (call, "extrapolation"), scales != NULL || region != NULL,
    rlx_reference_get_bool (call, "antialias"),
  };

  rlx_reference_get_ints (call, "sizes", sizes, &n);
  rlx_reference_get_ints (call, "axes", axes, &n_axes);
  now.values = g_memdup2 (x->values, x->n_elements * sizeof (double));
  now.bounds = g_memdup2 (x->bounds, x->n_elements * sizeof (double));

  for (gsize i = 0; i < n && y->n_elements > 0; i++)
    {
      gint64 axis = n_axes > 0 ? axes[i] : (gint64) (x->n_dims - n + i);
      gsize inner = 1;
      gint64 size;
      double scale;

      if (axis < 0)
        axis += (gint64) x->n_dims;
      for (gsize d = (gsize) axis + 1; d < x->n_dims; d++)
        inner *= (gsize) now.shape[d];
      size = now.shape[axis];
      scale = scales != NULL ? scales->values[i] : (double) sizes[i] / (double) size;

      next = now;
      next.shape[axis] = sizes[i];
      next.n_elements = now.n_elements / (gsize) size * (gsize) sizes[i];
      next.values = g_new0 (double, next.n_elements);
      next.bounds = g_new0 (double, next.n_elements);
      for (gsize e = 0; e < next.n_elements; e++)
        {
          gsize outer = e / inner / (gsize) sizes[i];
          double place = get_place (&r, (double) (e / inner % (gsize) sizes[i]), (double) size, (double) sizes[i], scale,
                                    region != NULL ? region->values[i] : 0, region != NULL ? region->values[n + i] : 1);

          /* A quotient of integers may be off by a little. */
          if (scales == NULL && fabs (place * 2 - nearbyint (place * 2)) < 1e-9)
            place = nearbyint (place * 2) / 2;
          resize_element (&r, &now, outer * (gsize) size * inner + e % inner, inner, size, place,
                          scale, &next.values[e], &next.bounds[e]);
        }
      g_free (now.values);
      g_free (now.bounds);
      now = next;
    }

  memcpy (y->values, now.values, y->n_elements * sizeof (double));
  memcpy (y->bounds, now.bounds, y->n_elements * sizeof (double));
  g_free (now.values);
  g_free (now.bounds);
}

/* ---- grid_sample ------------------------------------------------------------------------ */

static double
mirror (double x,
        double low,
        double high)
{
  double range = high - low, over, turns;

  if (range <= 0)
    return low;
  if (x >= low && x <= high)
    return x;
  over = x < low ? low - x : x - high;
  turns = floor (over / range);
  over -= turns * range;
  return (x < low) == (fmod (turns, 2) == 0) ? low + over : high - over;
}

static void
grid_sample (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0], *grid = call->inputs[1];
  RlxReferenceValue *y = call->output;
  const char *mode = get_word (call, "mode"), *padding = get_word (call, "padding");
  gboolean align = rlx_reference_get_bool (call, "align_corners"), nearest = strcmp (mode, "nearest") == 0;
  gsize n_axes = x->n_dims - 2, places = 1, picture = 1;

  for (gsize d = 0; d < n_axes; d++)
    {
      places *= (gsize) y->shape[2 + d];
      picture *= (gsize) x->shape[2 + d];
    }

  for (gsize i = 0; i < y->n_elements; i++)
    {
      gsize plane = i / places;
      gsize g = (plane / (gsize) x->shape[1] * places + i % places) * n_axes;
      Taps taps[3];
      guint pick[3] = { 0, 0, 0 };
      double sizes = 0;
      Mix mix = { 0, };
      gboolean more = TRUE;

      for (gsize d = 0; d < n_axes; d++)
        {
          double size = (double) x->shape[x->n_dims - 1 - d];
          double low = align ? 0 : -0.5, high = size - (align ? 1 : 0.5);
          double place = align ? (grid->values[g + d] + 1) / 2 * (size - 1) : ((grid->values[g + d] + 1) * size - 1) / 2;

          if (isnan (place))
            place = -1e9;
          /* Farther away it is still outside, but no longer an integer. */
          place = CLAMP (place, -1e9, 1e9);
          if (nearest)
            place = nearbyint (place);
          if (strcmp (padding, "border") == 0)
            {
              /* The curve continues beyond the last element, through copies of it. */
              if (strcmp (mode, "cubic") != 0)
                place = CLAMP (place, 0, size - 1);
            }
          else if (strcmp (padding, "reflection") == 0)
            place = mirror (place, low, high);
          if (nearest)
            taps[d] = (Taps) { { (gint64) nearbyint (place) }, { 1 }, 1 };
          else
            get_taps (place, mode, -0.75, &taps[d]);

          for (guint t = 0; t < taps[d].n; t++)
            {
              if (strcmp (padding, "reflection") == 0)
                taps[d].at[t] = (gint64) mirror ((double) taps[d].at[t], low, high);
              else if (strcmp (padding, "zeros") == 0 && (taps[d].at[t] < 0 || taps[d].at[t] >= (gint64) size))
                taps[d].weight[t] = 0;
              taps[d].at[t] = CLAMP (taps[d].at[t], 0, (gint64) size - 1);
            }
          sizes += size;
        }

      while (more)
        {
          double weight = 1;
          gsize at = 0;

          for (gsize d = n_axes; d-- > 0;)
            {
              weight *= taps[d].weight[pick[d]];
              at = at * (gsize) x->shape[x->n_dims - 1 - d] + (gsize) taps[d].at[pick[d]];
            }
          at += plane * picture;
          mix_add (&mix, x, at, weight);

          more = FALSE;
          for (gsize d = 0; d < n_axes && !more; d++)
            {
              more = ++pick[d] < taps[d].n;
              if (!more)
                pick[d] = 0;
            }
        }
      if (nearest)
        mix.open = FALSE;
      y->values[i] = mix.value;
      y->bounds[i] = mix_bound (&mix, nearest ? 0 : (strcmp (mode, "cubic") == 0 ? 0x1p-18 : 0x1p-20) * sizes);
    }
}

const RlxReferenceRow rlx_reference_resize[] = {
  { "resize", resize },
  { "grid_sample", grid_sample },
  { NULL, NULL },
};
