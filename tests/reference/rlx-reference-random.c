/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#include "config.h"
#include "rlx-reference-private.h"

#include <math.h>
#include <string.h>

/* Philox 4x32-10 with 64-bit products. */
static void
philox (const guint32 counter[4],
        const guint32 key[2],
        guint32       words[4])
{
  guint32 k0 = key[0], k1 = key[1];

  memcpy (words, counter, 4 * sizeof (guint32));
  for (int round = 0; round < 10; round++)
    {
      guint64 a = (guint64) 0xd2511f53u * words[0];
      guint64 b = (guint64) 0xcd9e8d57u * words[2];

      words[0] = (guint32) (b >> 32) ^ words[1] ^ k0;
      words[1] = (guint32) b;
      words[2] = (guint32) (a >> 32) ^ words[3] ^ k1;
      words[3] = (guint32) a;
      k0 += 0x9e3779b9u;
      k1 += 0xbb67ae85u;
    }
}

/* Word @index of the call's sequence. */
static guint32
get_word (RlxReferenceCall        *call,
          const RlxReferenceValue *keys,
          gsize                    index)
{
  gint64 start[RLX_MAX_DIMS] = { 0, };
  guint32 key[2] = { 0, 0 }, counter[4], words[4];
  guint64 carry = index / 4;
  gsize n;

  rlx_reference_get_ints (call, "counter", start, &n);
  for (gsize i = 0; i < keys->n_elements; i++)
    key[i] = (guint32) (gint64) keys->values[i];
  for (gsize i = 0; i < 4; i++)
    {
      carry += i < n ? (guint64) start[i] : 0;
      counter[i] = (guint32) carry;
      carry >>= 32;
    }
  philox (counter, key, words);

  return words[index % 4];
}

static void
random_bits (RlxReferenceCall *call)
{
  RlxReferenceValue *y = call->output;

  for (gsize i = 0; i < y->n_elements; i++)
    y->values[i] = get_word (call, call->inputs[0], i);
}

static void
random_uniform (RlxReferenceCall *call)
{
  RlxReferenceValue *y = call->output;
  double low = rlx_reference_get_float (call, "low"), high = rlx_reference_get_float (call, "high");

  for (gsize i = 0; i < y->n_elements; i++)
    {
      y->values[i] = low + (high - low) * (get_word (call, call->inputs[0], i) >> 8) * 0x1p-24;
      y->bounds[i] = 0x1p-22 * (fabs (low) + fabs (high));
    }
}

static void
random_normal (RlxReferenceCall *call)
{
  RlxReferenceValue *y = call->output;
  double mean = rlx_reference_get_float (call, "mean"), scale = rlx_reference_get_float (call, "scale");

  for (gsize i = 0; i < y->n_elements; i++)
    {
      double distance = sqrt (-2 * log (((get_word (call, call->inputs[0], i / 2 * 2) >> 8) + 1) * 0x1p-24));
      /* The two upper bits are the quadrant, and the others the angle within it, from -45
       * to 45 degrees; the 7 lowest are dropped. */
      guint32 word = get_word (call, call->inputs[0], i / 2 * 2 + 1);
      double angle = ((word >> 30) + (double) (word >> 7 & 0x7fffff) * 0x1p-23 - 0.5) * G_PI_2;

      y->values[i] = mean + scale * distance * (i % 2 == 0 ? cos (angle) : sin (angle));
      y->bounds[i] = 1e-5 * fabs (scale) + RLX_F32_ULP * fabs (mean);
    }
}

static void
dropout (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0];
  RlxReferenceValue *y = call->output;
  double ratio = 0;

  g_variant_lookup (call->attributes, "ratio", "d", &ratio);
  for (gsize i = 0; i < y->n_elements; i++)
    {
      if (get_word (call, call->inputs[1], i) < floor (ratio * 0x1p32))
        continue;
      y->values[i] = x->values[i] / (1 - ratio);
      y->bounds[i] = x->bounds[i] / (1 - ratio) + (isfinite (x->values[i]) ? 0x1p-22 * fabs (y->values[i]) : 0);
    }
}

/* ---- sampling ------------------------------------------------------------------------- */

typedef struct
{
  double value;
  gsize token;
} Token;

/* Descending, NaN first, then by index. */
static int
compare_tokens (gconstpointer a,
                gconstpointer b,
                gpointer      data G_GNUC_UNUSED)
{
  const Token *first = a, *second = b;

  if (isnan (first->value) != isnan (second->value))
    return isnan (first->value) ? -1 : 1;
  if (first->value != second->value && !isnan (first->value))
    return first->value > second->value ? -1 : 1;

  return first->token < second->token ? -1 : 1;
}

static void
sample (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0], *key = call->inputs[1];
  RlxReferenceValue *y = call->output;
  gsize n = (gsize) x->shape[x->n_dims - 1];
  double temperature = rlx_reference_get_float (call, "temperature");
  double top_p = rlx_reference_get_float (call, "top_p"), min_p = rlx_reference_get_float (call, "min_p");
  gsize top_k = (gsize) rlx_reference_get_int (call, "top_k");
  g_autofree Token *tokens = g_new (Token, n);
  g_autofree double *weights = g_new (double, n);

  top_k = top_k == 0 ? n : MIN (top_k, n);
  for (gsize row = 0; row < y->n_elements; row++)
    {
      double total = 0, before = 0, best = -INFINITY, second = -INFINITY;
      gboolean uncertain = FALSE;

      for (gsize k = 0; k < n; k++)
        {
          tokens[k] = (Token) { x->values[row * n + k], k };
          uncertain |= x->bounds[row * n + k] > 0;
        }
      g_sort_array (tokens, n, sizeof (Token), compare_tokens, NULL);
      y->values[row] = (double) tokens[0].token;
      y->bounds[row] = uncertain ? INFINITY : 0;
      if (temperature == 0 || isnan (tokens[0].value))
        continue;

      for (gsize k = 0; k < top_k; k++)
        {
          weights[k] = tokens[k].value == tokens[0].value ? 1 : exp ((tokens[k].value - tokens[0].value) / temperature);
          total += weights[k];
        }
      for (gsize k = 0; k < top_k; k++)
        {
          double noise = -log (-log (((get_word (call, key, row * n + tokens[k].token) >> 9) + 0.5) * 0x1p-23));
          double score = (tokens[k].value == tokens[0].value ? 0 : (tokens[k].value - tokens[0].value) / temperature) + noise;
          gboolean keep = weights[k] >= min_p && (k == 0 || top_p == 1 || before < top_p * total);

          if (min_p > 0 && k > 0 && fabs (weights[k] - min_p) < 1e-5 * min_p)
            uncertain = TRUE;
          if (top_p < 1 && k > 0 && fabs (before - top_p * total) < 1e-4 * total)
            uncertain = TRUE;
          before += weights[k];
          if (!keep)
            continue;
          if (score > best)
            {
              second = best;
              best = score;
              y->values[row] = (double) tokens[k].token;
            }
          else
            {
              second = fmax (second, score);
            }
        }
      y->bounds[row] = uncertain || best - second < 1e-4 ? INFINITY : 0;
    }
}

const RlxReferenceRow rlx_reference_random[] = {
  { "random_bits", random_bits },
  { "random_uniform", random_uniform },
  { "random_normal", random_normal },
  { "dropout", dropout },
  { "sample", sample },
  { NULL, NULL },
};
