/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"
#include "rlx-reference-private.h"

#include <math.h>

enum
{
  BATCH,
  HEADS,
  SEQUENCE,
  WIDTH,
  RANK,
};

typedef struct
{
  double score;
  double error;
  gboolean shown;
} Score;

static gsize
find_row (const RlxReferenceValue *value,
          gint64                   batch,
          gint64                   head,
          gint64                   row)
{
  return (gsize) (((batch * value->shape[HEADS] + head) * value->shape[SEQUENCE] + row) * value->shape[WIDTH]);
}

/* @index is that of batch, head, query and key. */
static Score
get_score (RlxReferenceCall *call,
           const gint64     *index,
           double            scale,
           gboolean          causal)
{
  const RlxReferenceValue *query = call->inputs[0], *key = call->inputs[1];
  const RlxReferenceValue *mask = rlx_reference_get_input (call, 3);
  gint64 share = query->shape[HEADS] / key->shape[HEADS];
  gsize q = find_row (query, index[BATCH], index[HEADS], index[2]);
  gsize k = find_row (key, index[BATCH], index[HEADS] / share, index[3]);
  Score score = { 0, 0, TRUE };

  for (gint64 i = 0; i < query->shape[WIDTH]; i++, q++, k++)
    {
      score.score += query->values[q] * key->values[k];
      score.error += query->bounds[q] * (fabs (key->values[k]) + key->bounds[k]) +
                     key->bounds[k] * fabs (query->values[q]);
    }
  score.score *= scale;
  score.error *= fabs (scale);

  if (causal && index[3] > index[2] + key->shape[SEQUENCE] - query->shape[SEQUENCE])
    score.shown = FALSE;
  if (mask != NULL)
    {
      gsize i = rlx_reference_position (mask, index, RANK);

      if (mask->data_type == RLX_DATA_TYPE_BOOL)
        {
          score.shown = score.shown && mask->values[i] != 0;
          if (mask->bounds[i] > 0)
            score.error = INFINITY;
        }
      else
        {
          score.score += mask->values[i];
          score.error += mask->bounds[i];
        }
    }
  if (score.score == -INFINITY)
    score.shown = FALSE;

  return score;
}

/* One query: all columns of the value, weighted. */
static void
attend (const RlxReferenceValue *value,
        gsize                    first,
        const Score             *scores,
        gint64                   n_keys,
        double                  *y,
        double                  *bounds)
{
  gint64 width = value->shape[WIDTH];
  double largest = -INFINITY, total = 0, mean_error = 0, max_value = 0;

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
      for (gint64 c = 0; c < width; c++)
        max_value = fmax (max_value, fabs (value->values[first + (gsize) (j * width + c)]));
    }
  for (gint64 j = 0; j < n_keys; j++)
    if (scores[j].shown)
      total += exp (scores[j].score - largest);
  for (gint64 j = 0; total > 0 && j < n_keys; j++)
    if (scores[j].shown && scores[j].error > 0)
      mean_error += exp (scores[j].score - largest) / total * scores[j].error;

  for (gint64 c = 0; c < width; c++)
    {
      double sum = 0, error = 0;

      for (gint64 j = 0; j < n_keys; j++)
        if (scores[j].shown)
          sum += exp (scores[j].score - largest) / total * value->values[first + (gsize) (j * width + c)];

      /* A weight changes by its own score's error and by those of the sum. */
      for (gint64 j = 0; j < n_keys; j++)
        {
          gsize at = first + (gsize) (j * width + c);
          double weight;

          if (!scores[j].shown)
            continue;
          weight = exp (scores[j].score - largest) / total;
          error += weight * value->bounds[at];
          if (scores[j].error + mean_error > 0)
            error += weight * fabs (value->values[at] - sum) * expm1 (2 * (scores[j].error + mean_error));
        }

      y[c] = total == 0 ? 0 : sum;
      bounds[c] = error + (isfinite (max_value) ? 1e-5 * max_value : 0);
      if (total == 0 && mean_error == 0)
        bounds[c] = 0;
      if (isinf (mean_error))
        bounds[c] = INFINITY;
    }
}

static void
attention (RlxReferenceCall *call)
{
  const RlxReferenceValue *query = call->inputs[0], *key = call->inputs[1], *value = call->inputs[2];
  RlxReferenceValue *y = call->output;
  gint64 n_keys = key->shape[SEQUENCE];
  gint64 share;
  double scale = rlx_reference_get_float (call, "scale");
  gboolean causal = rlx_reference_get_bool (call, "causal");
  g_autofree Score *scores = g_new0 (Score, (gsize) n_keys + 1);

  if (y->n_elements == 0)
    return;
  if (scale == 0)
    scale = query->shape[WIDTH] > 0 ? 1 / sqrt ((double) query->shape[WIDTH]) : 1;

  share = query->shape[HEADS] / key->shape[HEADS];
  for (gint64 batch = 0; batch < query->shape[BATCH]; batch++)
    for (gint64 head = 0; head < query->shape[HEADS]; head++)
      for (gint64 row = 0; row < query->shape[SEQUENCE]; row++)
        {
          gsize at = find_row (y, batch, head, row);

          for (gint64 j = 0; j < n_keys; j++)
            {
              gint64 index[RANK] = { batch, head, row, j };

              scores[j] = get_score (call, index, scale, causal);
            }
          attend (value, find_row (value, batch, head / share, 0), scores, n_keys, y->values + at, y->bounds + at);
        }
}

const RlxReferenceRow rlx_reference_attention[] = {
  { "attention", attention },
  { NULL, NULL },
};
