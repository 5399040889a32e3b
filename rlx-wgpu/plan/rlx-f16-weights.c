/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Whether products may round a weight to f16.
 *
 * y = Σₖ a[k] · w[k] with both operands rounded to 11 bits is off by at most
 * 2⁻¹⁰ · Σ|a||w|, and typically, roundings being independent, by 2⁻¹² · ‖a‖‖w‖ or so.
 * How much that is of the result depends on the activations, which nobody knows
 * before the run. The weights alone tell three ways in which it can be too much:
 *
 * Range. What is beyond 65504 becomes infinite. What is below 2⁻¹⁴ has fewer bits,
 * and a matrix unit may take it for zero: it counts as lost. The error of a column
 * may be 2 · 2⁻¹¹ of it (both as 2-norms). Rounding makes at most half of that, so a
 * column fails when it lives from small elements, and one that has a few beside
 * large ones does not. Every column has to pass.
 *
 * Cancellation. Many activations are much the same along k: pixels, samples, the
 * mean that every feature has. Then the result is Σw times that, and when
 * |Σw| ≤ 2⁻⁶‖w‖ the noise is 2⁻⁶ of it or more: five bits are left of 24. Differences,
 * Laplacians and what has zero mean by design are so in all columns. In a trained
 * matrix a column is so by chance, with a probability of 1.25 % (Σw / ‖w‖ is close to
 * normal). More than 1/16 of the columns are no chance.
 *
 * Oscillation. Transforms (Fourier, cosine, wavelets) pick one frequency out of
 * many; what they are for is that the others cancel, down to zero. Their columns
 * change signs in step. In a random column of K elements the number of changes is
 * binomial, (K - 1) / 2 ± √(K - 1) / 2; more than 6 deviations off in more than 1/16 of
 * the columns is a pattern. Columns in which one sign has three quarters of the
 * weight or more, |Σw| ≥ ½ Σ|w|, do not count: averages and smooth kernels change
 * signs rarely too, and nothing cancels there.
 *
 * Zeros are held exactly: they have no sign here, and a column of zeros always
 * passes, whence the share is of the other columns. Below 38 elements that are not
 * zero 6 deviations are more than there can be, and only the sum tells; columns of
 * such a transform sum up to zero, but for one. Of fewer than 16 columns a single
 * one is too many: such a product has little to gain.
 *
 * Of a stack of matrices each is a product of its own, and has to pass alone.
 *
 * Packed weights have been rounded before, to fewer bits than f16 has, so only the
 * range is asked for, and of their scales alone: no number of a block may exceed
 * 65504, whichever the largest that can be written there.
 *
 * A wrong “no” costs time, a wrong “yes” bits that were meant to be there. So there
 * is no attempt to tell harmless patterns from others beyond that.
 */
#include "config.h"

#include "plan/rlx-plan-private.h"

#include <math.h>
#include <string.h>

#include "ops/rlx-packed-private.h"
#include "util/rlx-debug-private.h"
#include "util/rlx-element-private.h"

#define MAX_SHARE 16
#define LARGEST_F16 65504.0
#define LARGEST 0x477fe000u    /* its bits */
#define SMALLEST 0x38800000u   /* 2⁻¹⁴ */

typedef struct
{
  double sum;
  double absolute;
  double squares;
  double lost;          /* squares of rounding errors */
  gint32 sign;          /* of the last one that is not zero */
  guint32 n_signs;
  guint32 n_changes;
} Column;

/* Elements of one row, @stride apart. FALSE for one that f16 cannot represent. */
static gboolean
add_row (Column      *columns,
         const float *row,
         guint64      n,
         guint64      stride,
         float       *bad)
{
  for (guint64 i = 0; i < n; i++)
    {
      Column *column = &columns[i];
      float value = row[i * stride], rounded;
      guint32 bits, size;
      double error;
      gint32 sign;

      memcpy (&bits, &value, sizeof bits);
      size = bits & 0x7fffffffu;
      if (G_UNLIKELY (size > LARGEST))
        {
          *bad = value;
          return FALSE;
        }
      bits = (bits + 0xfffu + (bits >> 13 & 1)) & 0xffffe000u;
      memcpy (&rounded, &bits, sizeof rounded);
      error = size < SMALLEST ? value : (double) value - (double) rounded;

      column->sum += value;
      column->absolute += fabsf (value);
      column->squares += (double) value * (double) value;
      column->lost += error * error;
      sign = (value > 0.0f) - (value < 0.0f);
      column->n_changes += sign * column->sign < 0;
      column->n_signs += sign != 0;
      column->sign = sign != 0 ? sign : column->sign;
    }
  return TRUE;
}

static gboolean
is_cancelling (const Column *column)
{
  return fabs (column->sum) <= 0x1p-6 * sqrt (column->squares);
}

static gboolean
is_oscillating (const Column *column)
{
  double n = (double) column->n_signs - 1.0;

  return fabs (column->sum) < 0.5 * column->absolute && fabs (column->n_changes - 0.5 * n) > 3.0 * sqrt (n);
}

gboolean
rlx_f16_weight_check (const RlxF16Weight  *weight,
                      const float         *data,
                      gsize                n_elements,
                      char               **reason)
{
  guint64 size = weight->n_k * weight->n_n;
  /* columns at a time: they stay in the cache, and so do the lines they are in */
  guint64 block = weight->stride_n == 1 ? 256 : 32;
  g_autofree Column *columns = g_new (Column, weight->n_n);
  g_autofree char *why = NULL;

  for (guint64 first = 0; why == NULL && size > 0 && first + size <= n_elements; first += size)
    {
      guint64 n_columns = 0, n_cancelling = 0, n_oscillating = 0;

      memset (columns, 0, weight->n_n * sizeof (Column));
      for (guint64 n = 0; n < weight->n_n; n += block)
        for (guint64 k = 0; why == NULL && k < weight->n_k; k++)
          {
            const float *row = data + first + k * weight->stride_k + n * weight->stride_n;
            float bad;

            if (!add_row (columns + n, row, MIN (block, weight->n_n - n), weight->stride_n, &bad))
              why = g_strdup_printf ("an element is %g, the largest of f16 is 65504", (double) bad);
          }
      for (guint64 n = 0; why == NULL && n < weight->n_n; n++)
        {
          const Column *column = &columns[n];

          if (column->lost > 0x1p-20 * column->squares)
            why = g_strdup_printf ("column %" G_GUINT64_FORMAT " would lose %.2g of itself", n, sqrt (column->lost / column->squares));
          n_columns += column->n_signs > 0;
          n_cancelling += column->n_signs > 0 && is_cancelling (column);
          n_oscillating += column->n_signs > 0 && is_oscillating (column);
        }
      if (why == NULL && n_cancelling * MAX_SHARE > n_columns)
        why = g_strdup_printf ("%" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " columns nearly cancel", n_cancelling, n_columns);
      if (why == NULL && n_oscillating * MAX_SHARE > n_columns)
        why = g_strdup_printf ("%" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " columns oscillate", n_oscillating, n_columns);
    }

  if (reason != NULL)
    *reason = g_strdup (why);
  return why == NULL;
}

static gboolean
check_packed (const RlxF16Weight *weight,
              const void         *data,
              gsize               size,
              char              **reason)
{
  double times = rlx_packed_type_get_reach (weight->packed_type), most = 0.0;

  if (times == 0.0)
    most = rlx_packed_find_reach (weight->packed_type, data, size);
  else
    for (gsize i = 0; i < size / rlx_data_type_get_size (weight->data_type) && !isnan (most); i++)
      {
        double reach = times * fabs (rlx_element_get_double (weight->data_type, data, i));

        most = reach <= most ? most : reach;
      }
  if (most <= LARGEST_F16)
    return TRUE;
  *reason = g_strdup_printf ("by their scales packed numbers can be %g, the largest of f16 is 65504", most);
  return FALSE;
}

gboolean
rlx_f16_weight_decide (const RlxF16Weight *weight,
                       GBytes             *bytes)
{
  g_autofree char *reason = NULL;
  g_autofree float *copy = NULL;
  gsize size;
  const void *data = g_bytes_get_data (bytes, &size);

  /* a tensor may start at any address */
  if ((guintptr) data % sizeof (float) != 0)
    data = copy = g_memdup2 (data, size);
  if (weight->is_packed ? check_packed (weight, data, size, &reason)
                        : rlx_f16_weight_check (weight, data, size / sizeof (float), &reason))
    return TRUE;
  RLX_NOTE (COMPILE, "the product “%s” keeps f32: %s", weight->label, reason);
  return FALSE;
}
