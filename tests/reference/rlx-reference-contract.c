/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Contractions, in one loop over all indices.
 */
#include "config.h"
#include "rlx-reference-private.h"

#include <math.h>
#include <string.h>

/* Letters, then the dimensions of an ellipsis, the last one at the end. */
#define N_LABELS (128 + RLX_MAX_DIMS)
#define MAX_OPERANDS 8
#define MAX_LOOPS 24

typedef struct
{
  gsize n_operands;
  /* for each operand: a label per dimension */
  int labels[MAX_OPERANDS][RLX_MAX_DIMS];
  int output[RLX_MAX_DIMS];
  gsize n_output;
} Terms;

/* The product of an unknown operand is unknown, even if the other one is 0. */
static double
get_bound (RlxReferenceCall        *call,
           const RlxReferenceValue *value,
           gsize                    i,
           gboolean                *known)
{
  double bound = rlx_reference_operand_bound (call, value, i);

  *known = *known && !isinf (bound);
  return bound;
}

/* Whether a sum over some factors may be taken before the product. */
static gboolean
may_sum_first (RlxReferenceCall *call,
               const Terms      *terms,
               int               label)
{
  gsize n = 0;

  for (gsize i = 0; i < terms->n_output; i++)
    if (terms->output[i] == label)
      return FALSE;
  for (gsize i = 0; i < terms->n_operands; i++)
    for (gsize j = 0; j < call->inputs[i]->n_dims; j++)
      n += terms->labels[i][j] == label && call->inputs[i]->shape[j] > 1;

  return n > 0 && n < terms->n_operands;
}

static void
contract (RlxReferenceCall *call,
          const Terms      *terms)
{
  RlxReferenceValue *y = call->output;
  gint64 dims[N_LABELS];
  int loops[MAX_LOOPS];
  gint64 shape[MAX_LOOPS], index[MAX_LOOPS] = { 0, };
  gint64 place[N_LABELS] = { 0, };
  gsize n_loops = 0, n_sums = 1;
  g_autofree RlxReferenceSize *sizes = g_new0 (RlxReferenceSize, y->n_elements + 1);
  gboolean empty = FALSE, early = FALSE;

  for (int i = 0; i < N_LABELS; i++)
    {
      dims[i] = -1;
      early = early || may_sum_first (call, terms, i);
    }
  for (gsize i = 0; i < terms->n_operands; i++)
    for (gsize j = 0; j < call->inputs[i]->n_dims; j++)
      {
        int label = terms->labels[i][j];

        if (dims[label] < 0)
          loops[n_loops++] = label;
        if (dims[label] < 0 || dims[label] == 1)
          dims[label] = call->inputs[i]->shape[j];
      }
  for (gsize i = 0; i < n_loops; i++)
    {
      gboolean kept = FALSE;

      shape[i] = dims[loops[i]];
      empty |= shape[i] == 0;
      for (gsize j = 0; j < terms->n_output; j++)
        kept |= terms->output[j] == loops[i];
      if (!kept)
        n_sums *= (gsize) shape[i];
    }

  for (gsize i = 0; i < y->n_elements; i++)
    y->values[i] = y->bounds[i] = 0;
  if (empty)
    return;

  do
    {
      double product = 1, size = 1, most = 1;
      gboolean known = TRUE;
      gsize at = 0;

      for (gsize i = 0; i < n_loops; i++)
        place[loops[i]] = index[i];
      for (gsize i = 0; i < terms->n_operands; i++)
        {
          const RlxReferenceValue *x = call->inputs[i];
          gsize from = 0;

          for (gsize j = 0; j < x->n_dims; j++)
            from = from * (gsize) x->shape[j] + (gsize) (x->shape[j] == 1 ? 0 : place[terms->labels[i][j]]);
          product *= x->values[from];
          size *= fabs (x->values[from]);
          most *= fabs (x->values[from]) + get_bound (call, x, from, &known);
        }
      for (gsize j = 0; j < terms->n_output; j++)
        at = at * (gsize) dims[terms->output[j]] + (gsize) place[terms->output[j]];
      y->values[at] += product;
      rlx_reference_size_add (&sizes[at], size);
      if (!known)
        y->bounds[at] = INFINITY;
      else if (most > size)
        y->bounds[at] += most - size;
    }
  while (rlx_reference_next (index, shape, n_loops));

  /* Infinity times zero is not the same as infinity times a non-zero sum. */
  for (gsize i = 0; i < y->n_elements; i++)
    y->bounds[i] = early && !isfinite (sizes[i].all) ? INFINITY
                 : rlx_reference_sum_bound (&sizes[i], y->bounds[i], (double) (n_sums + terms->n_operands));
}

static void
einsum (RlxReferenceCall *call)
{
  g_autoptr (GVariant) value = g_variant_lookup_value (call->attributes, "equation", G_VARIANT_TYPE_STRING);
  const char *p = g_variant_get_string (value, NULL);
  Terms terms = { .n_operands = 1 };
  guint counts[128] = { 0 };
  gsize n = 0, widest = 0;
  gboolean result = FALSE;

  for (;; p++)
    {
      const RlxReferenceValue *x = result ? NULL : call->inputs[terms.n_operands - 1];
      int *labels = result ? terms.output : terms.labels[terms.n_operands - 1];

      if (*p == ' ')
        continue;
      if (*p == ',')
        {
          terms.n_operands++;
          n = 0;
        }
      else if (*p == '-')
        {
          result = TRUE;
          n = 0;
          p++;
        }
      else if (*p == '.')
        {
          gsize letters = 0, here;

          for (const char *q = p + 3; *q != '\0' && *q != ',' && *q != '-'; q++)
            letters += *q != ' ';
          here = result ? widest : x->n_dims - n - letters;
          widest = MAX (widest, here);
          for (gsize i = 0; i < here; i++)
            labels[n++] = (int) (N_LABELS - here + i);
          p += 2;
        }
      else if (*p == '\0')
        {
          break;
        }
      else
        {
          counts[(guchar) *p] += !result;
          labels[n++] = *p;
        }
    }

  if (result)
    terms.n_output = n;
  else
    {
      for (gsize i = 0; i < widest; i++)
        terms.output[terms.n_output++] = (int) (N_LABELS - widest + i);
      for (int i = 0; i < 128; i++)
        if (counts[i] == 1)
          terms.output[terms.n_output++] = i;
    }
  contract (call, &terms);
}

static void
dot_general (RlxReferenceCall *call)
{
  static const char *const names[][2] = { { "lhs_batch", "rhs_batch" }, { "lhs_contracting", "rhs_contracting" } };
  Terms terms = { .n_operands = 2 };
  int next = 0;

  memset (terms.labels, -1, sizeof terms.labels);
  for (gsize list = 0; list < 2; list++)
    {
      gint64 axes[2][RLX_MAX_DIMS];
      gsize n[2] = { 0, 0 };

      for (gsize i = 0; i < 2; i++)
        if (!rlx_reference_get_ints (call, names[list][i], axes[i], &n[i]))
          n[i] = 0;
      for (gsize i = 0; i < n[0]; i++)
        {
          for (gsize j = 0; j < 2; j++)
            terms.labels[j][axes[j][i] < 0 ? axes[j][i] + (gint64) call->inputs[j]->n_dims : axes[j][i]] = next;
          if (list == 0)
            terms.output[terms.n_output++] = next;
          next++;
        }
    }
  for (gsize i = 0; i < 2; i++)
    for (gsize j = 0; j < call->inputs[i]->n_dims; j++)
      if (terms.labels[i][j] < 0)
        {
          terms.labels[i][j] = next;
          terms.output[terms.n_output++] = next++;
        }
  contract (call, &terms);
}

static void
diagonal (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0];
  RlxReferenceValue *y = call->output;
  gint64 offset = rlx_reference_get_int (call, "offset");
  gint64 axis1 = rlx_reference_get_int (call, "axis1"), axis2 = rlx_reference_get_int (call, "axis2");
  gint64 index[RLX_MAX_DIMS] = { 0, };
  gsize at = 0;

  if (y->n_elements == 0)
    return;

  axis1 += axis1 < 0 ? (gint64) x->n_dims : 0;
  axis2 += axis2 < 0 ? (gint64) x->n_dims : 0;
  do
    {
      gint64 d = index[y->n_dims - 1];
      gsize from = 0, other = 0;

      for (gsize i = 0; i < x->n_dims; i++)
        {
          gint64 here = (gint64) i == axis1 ? d + MAX (-offset, 0) : (gint64) i == axis2 ? d + MAX (offset, 0) : index[other++];

          from = from * (gsize) x->shape[i] + (gsize) here;
        }
      y->values[at] = x->values[from];
      y->bounds[at] = x->bounds[from];
      at++;
    }
  while (rlx_reference_next (index, y->shape, y->n_dims));
}

static void
grouped_matmul (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0], *weight = call->inputs[1], *expert = call->inputs[2];
  RlxReferenceValue *y = call->output;
  gsize experts = (gsize) weight->shape[0], k = (gsize) weight->shape[1], n = (gsize) weight->shape[2];

  for (gsize i = 0; i < y->n_elements; i++)
    {
      gsize row = i / n, column = i % n;
      RlxReferenceSize size = { 0, 0 };
      double sum = 0, error = 0;

      if (expert->values[row] >= 0 && expert->values[row] < (double) experts)
        for (gsize j = 0; j < k; j++)
          {
            gsize a = row * k + j, b = ((gsize) expert->values[row] * k + j) * n + column;

            sum += x->values[a] * weight->values[b];
            rlx_reference_size_add (&size, x->values[a] * weight->values[b]);
            if (x->bounds[a] > 0)
              error += x->bounds[a] * (fabs (weight->values[b]) + weight->bounds[b]);
            if (weight->bounds[b] > 0)
              error += weight->bounds[b] * fabs (x->values[a]);
          }
      y->values[i] = sum;
      y->bounds[i] = rlx_reference_sum_bound (&size, error, (double) k);
    }
}

static void
lora_matmul (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0], *weight = call->inputs[1], *down = call->inputs[2], *up = call->inputs[3];
  RlxReferenceValue *y = call->output;
  gsize k = (gsize) weight->shape[0], n = (gsize) weight->shape[1], r = (gsize) down->shape[1];
  double scale = rlx_reference_get_float (call, "scale");
  /* intermediate results are stored in f16 as well */
  double rounding = x->data_type == RLX_DATA_TYPE_F16 ? 0x1p-11 : 0;
  double least = x->data_type == RLX_DATA_TYPE_F16 ? 0x1p-25 : 0;

  /* with reduced precision the operands of the second product are, too */
  if (call->narrow)
    {
      rounding = 0x1p-11;
      least = 0x1p-14;
    }

  for (gsize i = 0; i < y->n_elements; i++)
    {
      gsize row = i / n, column = i % n;
      RlxReferenceSize size = { 0, 0 };
      double product = 0, correction = 0, error = 0;
      gboolean known = TRUE;

      for (gsize j = 0; j < k; j++)
        {
          gsize a = row * k + j, b = j * n + column;
          double v = x->values[a] * weight->values[b];

          product += v;
          rlx_reference_size_add (&size, v);
          error += (fabs (x->values[a]) + get_bound (call, x, a, &known)) *
                   (fabs (weight->values[b]) + get_bound (call, weight, b, &known)) - fabs (v);
        }
      error += rounding * fabs (product) + least;
      for (gsize l = 0; l < r; l++)
        {
          double low = 0, low_size = 0, low_error = 0;
          double u = up->values[l * n + column], u_bound = get_bound (call, up, l * n + column, &known);

          for (gsize j = 0; j < k; j++)
            {
              gsize a = row * k + j, b = j * r + l;
              double v = x->values[a] * down->values[b];

              low += v;
              low_size += fabs (v);
              low_error += (fabs (x->values[a]) + get_bound (call, x, a, &known)) *
                           (fabs (down->values[b]) + get_bound (call, down, b, &known)) - fabs (v);
            }
          low_error += call->narrow && fabs (low) + low_error > 65504 ? INFINITY : rounding * fabs (low) + least;
          correction += low * u;
          rlx_reference_size_add (&size, scale * low_size * u);
          error += fabs (scale) * (low_error * (fabs (u) + u_bound) + fabs (low) * u_bound);
        }
      y->values[i] = product + scale * correction;
      y->bounds[i] = rlx_reference_sum_bound (&size, !known ? INFINITY : isnan (error) ? 0 : error, (double) (k + r + 2));
    }
}

const RlxReferenceRow rlx_reference_contract[] = {
  { "dot_general", dot_general },
  { "einsum", einsum },
  { "diagonal", diagonal },
  { "grouped_matmul", grouped_matmul },
  { "lora_matmul", lora_matmul },
  { NULL, NULL },
};
