/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"
#include "rlx-reference-private.h"

#include <math.h>

/* The dimensions of an operand in any layout. */
typedef struct
{
  const RlxReferenceValue *value;
  gint64 batch, heads, sequence, width;
  gboolean sequence_first;
} Operand;

typedef struct
{
  Operand query, key, values, y;
  const RlxReferenceValue *mask, *lengths, *sink;
  gint64 share;
  double scale, softcap;
  gint64 window;
  gboolean causal;
} Attention;

typedef struct
{
  double score;
  double error;
  gboolean shown;
  gboolean weightless;   /* its value may be multiplied by 0 */
} Score;

static Operand
get_operand (const RlxReferenceValue *value,
             gboolean                 sequence_first)
{
  return (Operand) {
    value, value->shape[0], value->shape[sequence_first ? 2 : 1], value->shape[sequence_first ? 1 : 2], value->shape[3], sequence_first,
  };
}

static gsize
find_row (const Operand *operand,
          gint64         batch,
          gint64         head,
          gint64         row)
{
  gint64 index = operand->sequence_first ? (batch * operand->sequence + row) * operand->heads + head
                                         : (batch * operand->heads + head) * operand->sequence + row;

  return (gsize) (index * operand->width);
}

/* @index is that of batch, head, query and key. */
static Score
get_score (const Attention *self,
           const gint64    *index)
{
  const RlxReferenceValue *query = self->query.value, *key = self->key.value;
  gsize q = find_row (&self->query, index[0], index[1], index[2]);
  gsize k = find_row (&self->key, index[0], index[1] / self->share, index[3]);
  gint64 n_keys = self->key.sequence;
  gint64 position;
  Score score = { .shown = TRUE };

  for (gint64 i = 0; i < self->query.width; i++, q++, k++)
    {
      score.score += query->values[q] * key->values[k];
      if (query->bounds[q] > 0)
        score.error += query->bounds[q] * (fabs (key->values[k]) + key->bounds[k]);
      if (key->bounds[k] > 0)
        score.error += key->bounds[k] * fabs (query->values[q]);
    }
  score.score *= self->scale;
  score.error *= fabs (self->scale);
  /* tanh does not increase an error */
  if (self->softcap > 0)
    score.score = self->softcap * tanh (score.score / self->softcap);

  if (self->lengths != NULL)
    n_keys = (gint64) CLAMP (self->lengths->values[index[0]], 0, (double) n_keys);
  position = index[2] + n_keys - self->query.sequence;
  if (index[3] >= n_keys ||
      (self->causal && index[3] > position) ||
      (self->window > 0 && ABS (index[3] - position) >= self->window))
    score.shown = FALSE;
  if (self->mask != NULL)
    {
      gsize i = rlx_reference_position (self->mask, index, 4);

      if (self->mask->data_type == RLX_DATA_TYPE_BOOL)
        {
          score.shown = score.shown && self->mask->values[i] != 0;
          if (self->mask->bounds[i] > 0)
            score.error = INFINITY;
        }
      else
        {
          score.score += self->mask->values[i];
          score.error += self->mask->bounds[i];
        }
    }
  if (score.score == -INFINITY)
    {
      score.weightless = score.shown && self->mask == NULL && !self->causal && self->window == 0;
      score.shown = FALSE;
    }

  return score;
}

/* A query: all columns of the value, weighted. */
static void
attend (const Attention *self,
        gint64           batch,
        gint64           head,
        const Score     *scores,
        double          *y,
        double          *bounds)
{
  const RlxReferenceValue *value = self->values.value;
  gint64 width = self->values.width, n_keys = self->values.sequence;
  double largest = -INFINITY, total = 0, mean_error = 0;

  for (gint64 j = 0; j < n_keys; j++)
    {
      if (!scores[j].shown)
        {
          mean_error += isinf (scores[j].error) ? INFINITY : 0;
          continue;
        }
      largest = isnan (scores[j].score) ? scores[j].score : fmax (largest, scores[j].score);
      if (isnan (largest))
        break;
    }
  if (self->sink != NULL)
    {
      double sink = self->sink->values[self->sink->n_elements == 1 ? 0 : head];

      largest = fmax (largest, sink);
      total = sink == -INFINITY ? 0 : exp (sink - largest);
      mean_error += self->sink->bounds[self->sink->n_elements == 1 ? 0 : head];
    }
  for (gint64 j = 0; j < n_keys; j++)
    if (scores[j].shown)
      total += exp (scores[j].score - largest);
  for (gint64 j = 0; total > 0 && j < n_keys; j++)
    if (scores[j].shown && scores[j].error > 0)
      mean_error += exp (scores[j].score - largest) / total * scores[j].error;

  for (gint64 c = 0; c < width; c++)
    {
      double sum = 0, error = 0, max_value = 0;

      for (gint64 j = 0; j < n_keys; j++)
        if (scores[j].shown)
          sum += exp (scores[j].score - largest) / total * value->values[find_row (&self->values, batch, head / self->share, j) + (gsize) c];

      /* A weight changes by the error of its own score and that of the sum. */
      for (gint64 j = 0; j < n_keys; j++)
        {
          gsize at = find_row (&self->values, batch, head / self->share, j) + (gsize) c;
          double weight;

          if (scores[j].weightless && !isfinite (value->values[at]))
            error = INFINITY;
          if (!scores[j].shown)
            continue;
          weight = exp (scores[j].score - largest) / total;
          max_value = fmax (max_value, fabs (value->values[at]));
          if (value->bounds[at] > 0)
            error += weight * value->bounds[at];
          /* a weight that may vanish, and then turns an infinity into NaN */
          if (isinf (value->values[at]) && weight < 0x1p-120)
            error = INFINITY;
          if (scores[j].error + mean_error > 0)
            error += weight * fabs (value->values[at] - sum) * expm1 (2 * (scores[j].error + mean_error));
        }

      /* a sink that is NaN or infinite, without any keys */
      y[c] = total == 0 ? 0 : isnan (total) ? (double) NAN : sum;
      bounds[c] = error + (isfinite (max_value) ? 1e-5 * max_value : 0);
      if (total == 0 && mean_error == 0 && isfinite (error))
        bounds[c] = 0;
      if (isinf (mean_error))
        bounds[c] = INFINITY;
    }
}

static gboolean
is_sequence_first (RlxReferenceCall *call)
{
  const char *layout = "heads-first";

  g_variant_lookup (call->attributes, "layout", "&s", &layout);
  return g_str_equal (layout, "sequence-first");
}

/* @first_extra is the index of the mask operand, which the others follow. */
static Attention
get_attention (RlxReferenceCall *call,
               gsize             first_extra)
{
  gboolean sequence_first = is_sequence_first (call);
  Attention self = {
    .query = get_operand (call->inputs[0], sequence_first),
    .key = get_operand (call->inputs[1], sequence_first),
    .values = get_operand (call->inputs[2], sequence_first),
    .y = get_operand (call->output, sequence_first),
    .mask = rlx_reference_get_input (call, first_extra),
    .lengths = rlx_reference_get_input (call, first_extra + 1),
    .sink = rlx_reference_get_input (call, first_extra + 2),
    .scale = rlx_reference_get_float (call, "scale"),
    .softcap = rlx_reference_get_float (call, "softcap"),
    .window = rlx_reference_get_int (call, "window"),
    .causal = rlx_reference_get_bool (call, "causal"),
  };

  if (self.scale == 0)
    self.scale = self.query.width > 0 ? 1 / sqrt ((double) self.query.width) : 1;
  self.share = self.query.heads / self.key.heads;
  return self;
}

static void
attention (RlxReferenceCall *call)
{
  Attention self = get_attention (call, 3);
  g_autofree Score *scores = g_new0 (Score, (gsize) self.key.sequence + 1);

  if (call->output->n_elements == 0)
    return;

  for (gint64 batch = 0; batch < self.query.batch; batch++)
    for (gint64 head = 0; head < self.query.heads; head++)
      for (gint64 row = 0; row < self.query.sequence; row++)
        {
          gsize at = find_row (&self.y, batch, head, row);

          for (gint64 j = 0; j < self.key.sequence; j++)
            scores[j] = get_score (&self, (gint64[]) { batch, head, row, j });
          attend (&self, batch, head, scores, call->output->values + at, call->output->bounds + at);
        }
}

/* ---- the gradient of attention ------------------------------------------------------- */

/* The interaction of a query and a key. */
typedef struct
{
  double p, ep;        /* the share */
  double ds, eds;      /* the gradient of its score */
} Pair;

/* Σ a · b over a row of each, its error, and the effect of rounding. */
static double
multiply_rows (const Operand *x,
               gsize          i,
               const Operand *y,
               gsize          k,
               double        *error)
{
  double sum = 0, size = 0;

  for (gint64 c = 0; c < x->width; c++, i++, k++)
    {
      double a = x->value->values[i], b = y->value->values[k], ea = x->value->bounds[i], eb = y->value->bounds[k];

      sum += a * b;
      size += fabs (a * b);
      if (ea + eb > 0)
        *error += ea * fabs (b) + eb * fabs (a) + ea * eb;
    }
  *error += RLX_F32_EPSILON * (double) (x->width + 4) * size;
  return sum;
}

/* All keys of one query. */
static void
find_pairs (const Attention *self,
            const Operand   *result,
            const Operand   *gradient,
            const gint64    *index,
            Pair            *pairs)
{
  gint64 n_keys = self->key.sequence, batch = index[0], head = index[1], row = index[2];
  g_autofree Score *scores = g_new0 (Score, (gsize) n_keys + 1);
  gsize at = find_row (gradient, batch, head, row), q = find_row (&self->query, batch, head, row);
  double largest = -INFINITY, total = 0, mean = 0, einner = 0, inner = multiply_rows (gradient, at, result, at, &einner);

  for (gint64 j = 0; j < n_keys; j++)
    {
      Score *score = &scores[j];
      gsize k = find_row (&self->key, batch, head / self->share, j);
      double size = 0;

      *score = get_score (self, (gint64[]) { batch, head, row, j });
      for (gint64 c = 0; c < self->query.width; c++)
        size += fabs (self->query.value->values[q + (gsize) c] * self->key.value->values[k + (gsize) c]);
      score->error += RLX_F32_ULP * ((double) (self->query.width + 12) * fabs (self->scale) * size + 2 * fabs (score->score));
      if (score->shown)
        largest = fmax (largest, score->score);
    }
  if (self->sink != NULL)
    {
      gsize i = self->sink->n_elements == 1 ? 0 : (gsize) head;

      largest = fmax (largest, self->sink->values[i]);
      total = exp (self->sink->values[i] - largest);
      mean = self->sink->bounds[i] * total;
    }
  for (gint64 j = 0; j < n_keys; j++)
    if (scores[j].shown)
      {
        total += exp (scores[j].score - largest);
        mean += exp (scores[j].score - largest) * scores[j].error;
      }
  for (gint64 j = 0; j < n_keys; j++)
    {
      Pair *pair = &pairs[j];
      gsize v = find_row (&self->values, batch, head / self->share, j);
      double change, error = einner, slope = self->scale, eslope = 0;

      *pair = (Pair) { 0 };
      if (!scores[j].shown || total == 0)
        continue;
      pair->p = exp (scores[j].score - largest) / total;
      pair->ep = pair->p * (expm1 (2 * (scores[j].error + mean / total)) + 4e-6 + RLX_F32_EPSILON * (double) n_keys) + 0x1p-120;
      change = multiply_rows (gradient, at, &self->values, v, &error) - inner;
      if (self->softcap > 0)
        {
          double product = 0, part;

          for (gint64 c = 0; c < self->query.width; c++)
            product += self->query.value->values[q + (gsize) c] *
                       self->key.value->values[find_row (&self->key, batch, head / self->share, j) + (gsize) c];
          part = tanh (product * self->scale / self->softcap);
          slope *= 1 - part * part;
          eslope = fabs (self->scale) * fmin (1, 2 * scores[j].error / self->softcap + 2e-6);
        }
      error += 2 * RLX_F32_EPSILON * (fabs (change) + fabs (inner));
      pair->ds = pair->p * change * slope;
      pair->eds = pair->ep * (fabs (change) + error) * (fabs (slope) + eslope) + pair->p * error * (fabs (slope) + eslope) +
                  pair->p * fabs (change) * eslope + 2 * RLX_F32_ULP * fabs (pair->ds);
    }
}

/* Whether there is anything other than finite numbers of f32. */
static gboolean
is_wild (const RlxReferenceValue *value)
{
  for (gsize i = 0; value != NULL && i < value->n_elements; i++)
    if (!(fabs (value->values[i]) + value->bounds[i] < 1e6))
      return TRUE;
  return FALSE;
}

/* y += factor · row, where @n is the number of such sums. */
static void
add_row (RlxReferenceValue *y,
         gsize              to,
         double             factor,
         double             error,
         const Operand     *row,
         gsize              from,
         double             n)
{
  for (gsize c = 0; c < (gsize) row->width; c++)
    {
      double value = row->value->values[from + c], bound = row->value->bounds[from + c];

      y->values[to + c] += factor * value;
      y->bounds[to + c] += error * (fabs (value) + bound) + fabs (factor) * bound + RLX_F32_EPSILON * n * fabs (factor * value) + 0x1p-120;
    }
}

static void
attention_backward (RlxReferenceCall *call)
{
  Attention self = get_attention (call, 5);
  Operand result = get_operand (call->inputs[3], is_sequence_first (call)), gradient = get_operand (call->inputs[4], is_sequence_first (call));
  g_autofree Pair *pairs = g_new0 (Pair, (gsize) self.key.sequence + 1);
  RlxReferenceValue *y = call->output;
  double n = (double) (call->result == 0 ? self.key.sequence : self.share * self.query.sequence) + 8;

  for (gint64 batch = 0; batch < self.query.batch; batch++)
    for (gint64 head = 0; head < self.query.heads; head++)
      for (gint64 row = 0; row < self.query.sequence; row++)
        {
          find_pairs (&self, &result, &gradient, (gint64[]) { batch, head, row }, pairs);
          for (gint64 j = 0; j < self.key.sequence; j++)
            {
              gsize q = find_row (&self.query, batch, head, row), k = find_row (&self.key, batch, head / self.share, j);

              if (call->result == 0)
                add_row (y, q, pairs[j].ds, pairs[j].eds, &self.key, k, n);
              else if (call->result == 1)
                add_row (y, k, pairs[j].ds, pairs[j].eds, &self.query, q, n);
              else
                add_row (y, find_row (&self.values, batch, head / self.share, j), pairs[j].p, pairs[j].ep, &gradient,
                         find_row (&gradient, batch, head, row), n);
            }
        }
  /* A hidden NaN or infinite key may be multiplied by 0. */
  if (is_wild (call->inputs[0]) || is_wild (call->inputs[1]) || is_wild (call->inputs[2]) || is_wild (call->inputs[3]) ||
      is_wild (call->inputs[4]) || is_wild (self.sink) || (self.mask != NULL && rlx_reference_is_float (self.mask->data_type) && is_wild (self.mask)))
    for (gsize i = 0; i < y->n_elements; i++)
      y->bounds[i] = INFINITY;
}

/* The angle of @pair, as a cosine and a sine for its first and its second element; @error
 * is their error. */
static void
get_turn (RlxReferenceCall *call,
          const gint64     *index,
          gint64            pair,
          gint64            n_pairs,
          gboolean          plane,
          double            cosines[2],
          double            sines[2],
          double           *error)
{
  const RlxReferenceValue *positions = rlx_reference_get_input (call, 1);
  const RlxReferenceValue *cos_table = plane ? NULL : rlx_reference_get_input (call, 2);
  const RlxReferenceValue *sin_table = plane ? NULL : rlx_reference_get_input (call, 3);
  gboolean interleaved = rlx_reference_get_bool (call, "interleaved");
  gint64 columns = plane ? rlx_reference_get_int (call, "columns") : 1;
  gint64 per_axis = plane ? n_pairs / 2 : n_pairs;
  gint64 axis = pair / MAX (per_axis, 1);
  double position = plane ? (axis == 0 ? index[1] / MAX (columns, 1) : index[1] % MAX (columns, 1)) : index[1];

  if (positions != NULL)
    position = positions->values[rlx_reference_position (positions, (gint64[]) { index[0], index[1], axis }, plane ? 3 : 2)];

  for (guint i = 0; i < 2; i++)
    if (cos_table != NULL)
      {
        gsize n_dims = cos_table->n_dims;
        gint64 width = cos_table->shape[n_dims - 1];
        gint64 column = width == n_pairs ? pair : interleaved ? 2 * pair + i : pair + i * n_pairs;
        gsize at;

        if (positions != NULL)
          at = (gsize) ((gint64) CLAMP (position, 0, (double) cos_table->shape[0] - 1) * width + column);
        else
          at = rlx_reference_position (cos_table, (gint64[]) { index[0], index[1], column }, 3);
        cosines[i] = cos_table->values[at];
        sines[i] = sin_table->values[at];
        *error = fmax (*error, fmax (cos_table->bounds[at], sin_table->bounds[at]));
      }
    else
      {
        double angle = rlx_reference_get_float (call, "scale") * position *
                       pow (rlx_reference_get_float (call, "base"), -(double) (pair % per_axis) / (double) per_axis);

        cosines[i] = cos (angle);
        sines[i] = sin (angle);
        *error = 2e-6;
      }
}

static void
turn_heads (RlxReferenceCall *call,
            gboolean          plane)
{
  const RlxReferenceValue *x = call->inputs[0];
  RlxReferenceValue *y = call->output;
  Operand operand = get_operand (x, is_sequence_first (call));
  gboolean interleaved = rlx_reference_get_bool (call, "interleaved");
  gint64 rotated = plane ? 0 : rlx_reference_get_int (call, "rotated");
  gint64 n_pairs = (rotated > 0 ? rotated : operand.width) / 2;

  for (gint64 batch = 0; batch < operand.batch; batch++)
    for (gint64 head = 0; head < operand.heads; head++)
      for (gint64 token = 0; token < operand.sequence; token++)
        {
          gsize row = find_row (&operand, batch, head, token);

          for (gint64 i = 2 * n_pairs; i < operand.width; i++)
            {
              y->values[row + (gsize) i] = x->values[row + (gsize) i];
              y->bounds[row + (gsize) i] = x->bounds[row + (gsize) i];
            }
          for (gint64 pair = 0; pair < n_pairs; pair++)
            {
              gsize first = row + (gsize) (interleaved ? 2 * pair : pair);
              gsize second = row + (gsize) (interleaved ? 2 * pair + 1 : pair + n_pairs);
              double a = x->values[first], b = x->values[second];
              double c[2], s[2], error = 0, bound;

              get_turn (call, (gint64[]) { batch, token }, pair, n_pairs, plane, c, s, &error);
              y->values[first] = a * c[0] - b * s[0];
              y->values[second] = b * c[1] + a * s[1];
              bound = (error + 2 * RLX_F32_ULP) * (fabs (a) + fabs (b));
              for (guint i = 0; i < 2; i++)
                {
                  gsize at = i == 0 ? first : second;

                  y->bounds[at] = bound + (fabs (c[i]) + fabs (s[i]) + error) * (x->bounds[first] + x->bounds[second]);
                  /* A factor that may be 0 may turn an infinity into NaN. */
                  if (!isfinite (y->values[at]) && x->bounds[first] + x->bounds[second] == 0)
                    y->bounds[at] = fmin (fabs (c[i]), fabs (s[i])) > 2 * error || error == 0 ? 0 : INFINITY;
                }
            }
        }
}

static void
rope (RlxReferenceCall *call)
{
  turn_heads (call, FALSE);
}

static void
rope_2d (RlxReferenceCall *call)
{
  turn_heads (call, TRUE);
}

const RlxReferenceRow rlx_reference_attention[] = {
  { "attention", attention },
  { "attention_backward", attention_backward },
  { "rope", rope },
  { "rope_2d", rope_2d },
  { NULL, NULL },
};
