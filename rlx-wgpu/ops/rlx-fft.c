/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Fourier transforms: rules, several axes, and gradients. The kernels are in rlx-fft-lower.c.
 */
#include "config.h"

#include "ops/rlx-builder-private.h"
#include "ops/rlx-fft-private.h"
#include "ops/rlx-gradient-private.h"

#include <string.h>

static gboolean
has_complex_operand (const RlxOp *op)
{
  return op->id != RLX_OP_ID_RFFT;
}

static gboolean
has_complex_result (const RlxOp *op)
{
  return op->id != RLX_OP_ID_IRFFT;
}

static gboolean
check_length (const RlxOpCall *call,
              gint64           n,
              guint            axis,
              GError         **error)
{
  if (n < 1)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                           "a transform along axis %u has a length of %" G_GINT64_FORMAT "; it must be at least 1", axis, n);
  if (n > RLX_FFT_LENGTH)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                           "a transform along axis %u has a length of %" G_GINT64_FORMAT ", beyond the limit of %d",
                           axis, n, RLX_FFT_LENGTH);
  if (n > RLX_FFT_CHIRP_LENGTH && !rlx_fft_is_smooth ((guint64) n))
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                           "a transform along axis %u has a length of %" G_GINT64_FORMAT
                           ", which has a prime factor above %d, beyond the limit of %d for those",
                           axis, n, RLX_FFT_PRIME, RLX_FFT_CHIRP_LENGTH);
  return TRUE;
}

/* Removes the dimension of real and imaginary parts. */
static void
remove_parts (RlxTensorType   *type,
              RlxComplexLayout layout)
{
  if (layout == RLX_COMPLEX_LAYOUT_PLANAR)
    memmove (type->shape, type->shape + 1, (type->n_dims - 1) * sizeof *type->shape);
  type->n_dims--;
}

static void
add_parts (RlxTensorType   *type,
           RlxComplexLayout layout)
{
  guint at = type->n_dims;

  if (layout == RLX_COMPLEX_LAYOUT_PLANAR)
    {
      memmove (type->shape + 1, type->shape, type->n_dims * sizeof *type->shape);
      at = 0;
    }
  type->shape[at] = 2;
  type->n_dims++;
}

gboolean
rlx_fft_infer (RlxOpCall         *call,
               const RlxFftAttrs *attrs,
               GError           **error)
{
  RlxTensorType type = *call->inputs[0];
  const gint64 last = -1;
  const RlxInts axes = attrs->axes.n_values > 0 ? attrs->axes : RLX_INTS (&last, 1);
  guint mask;

  if (has_complex_operand (call->op))
    {
      gboolean planar = attrs->layout == RLX_COMPLEX_LAYOUT_PLANAR;

      if (type.n_dims == 0 || type.shape[planar ? 0 : type.n_dims - 1] != 2)
        {
          g_autofree char *text = rlx_type_to_string (&type);

          return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE,
                                 "the operand is %s, %s complex numbers have a %s dimension of 2",
                                 text, planar ? "planar" : "pairs of", planar ? "first" : "last");
        }
      remove_parts (&type, attrs->layout);
    }
  if (!rlx_call_axes (call, &axes, type.n_dims, FALSE, &mask, error))
    return FALSE;
  if (attrs->lengths.n_values > 0 && attrs->lengths.n_values != axes.n_values)
    return rlx_call_error (call, error, RLX_GRAPH_ERROR_INVALID_ARGUMENT, "there are %u lengths for %u axes",
                           (guint) attrs->lengths.n_values, (guint) axes.n_values);

  for (guint i = 0; i < axes.n_values; i++)
    {
      guint axis = rlx_type_get_axis (&type, axes.values[i]);
      gboolean is_last = i + 1 == axes.n_values;
      gint64 size = type.shape[axis], n = size;

      /* at least there must be something to pad */
      if (size == 0)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_SHAPE, "axis %u has no elements", axis);
      if (attrs->lengths.n_values > 0)
        n = attrs->lengths.values[i];
      else if (is_last && call->op->id == RLX_OP_ID_IRFFT)
        n = 2 * (size - 1);
      if (!check_length (call, n, axis, error))
        return FALSE;
      type.shape[axis] = is_last && call->op->id == RLX_OP_ID_RFFT ? n / 2 + 1 : n;
    }

  if (has_complex_result (call->op))
    {
      if (type.n_dims == RLX_MAX_DIMS)
        return rlx_call_error (call, error, RLX_GRAPH_ERROR_LIMIT,
                               "the operand has %u dimensions, with one more for the parts that is beyond the limit of %u",
                               type.n_dims, RLX_MAX_DIMS);
      add_parts (&type, attrs->layout);
    }
  rlx_call_add_output (call, &type);
  return TRUE;
}

/* One axis after the other: the transform of real numbers comes first, the one to real numbers
 * last. Intermediate results are f32. */
RlxIrValue *
rlx_fft_expand (RlxBuilder        *b,
                const RlxIrNode   *node,
                RlxIrValue *const *inputs)
{
  const RlxFftAttrs *attrs = rlx_fft_attrs (node);
  guint n_axes = (guint) attrs->axes.n_values;
  RlxOpId first, last;
  RlxIrValue *x;

  if (n_axes < 2)
    return NULL;

  x = rlx_build_as (b, inputs[0], RLX_DATA_TYPE_F32);
  switch (node->op->id)
    {
    case RLX_OP_ID_RFFT:
      first = RLX_OP_ID_RFFT;
      last = RLX_OP_ID_FFT;
      break;
    case RLX_OP_ID_IRFFT:
      first = RLX_OP_ID_IFFT;
      last = RLX_OP_ID_IRFFT;
      break;
    default:
      first = last = node->op->id;
      break;
    }

  for (guint i = 0; i < n_axes; i++)
    {
      /* the last axis is the first of a transform of real numbers */
      gboolean backwards = first == RLX_OP_ID_RFFT;
      guint at = backwards ? n_axes - 1 - i : i;
      RlxOpId id = i == 0 && backwards ? first : i + 1 == n_axes ? last : first == RLX_OP_ID_RFFT ? last : first;
      const RlxFftAttrs one = {
        .axes = RLX_INTS (&attrs->axes.values[at], 1),
        .lengths = RLX_INTS (attrs->lengths.n_values > 0 ? &attrs->lengths.values[at] : NULL, attrs->lengths.n_values > 0 ? 1 : 0),
        .norm = attrs->norm,
        .layout = attrs->layout,
      };

      switch (id)
        {
        case RLX_OP_ID_RFFT:
          x = rlx_build_rfft (b, x, &one);
          break;
        case RLX_OP_ID_IRFFT:
          x = rlx_build_irfft (b, x, &one);
          break;
        case RLX_OP_ID_IFFT:
          x = rlx_build_ifft (b, x, &one);
          break;
        default:
          x = rlx_build_fft (b, x, &one);
          break;
        }
    }
  return rlx_build_as (b, x, node->outputs[0].type.data_type);
}

/* ---- gradient ------------------------------------------------------------------------ */

/* How often each element of the operand of irfft counts: once, if it is its own conjugate. */
static RlxIrValue *
count_conjugates (RlxBuilder *b,
                  guint64     n,
                  guint       n_after)
{
  gint64 shape[RLX_MAX_DIMS] = { (gint64) (n / 2 + 1) };
  g_autofree float *values = g_new (float, n / 2 + 1);

  for (guint64 k = 0; k <= n / 2; k++)
    values[k] = k == 0 || 2 * k == n ? 1 : 2;
  for (guint i = 1; i <= n_after; i++)
    shape[i] = 1;
  return rlx_build_constant (b, rlx_tensor_new_from_floats (shape, n_after + 1, values, n / 2 + 1, NULL));
}

/* The adjoint is the transform in the other direction with the same scale. */
void
rlx_fft_gradient (RlxGradient     *self,
                  const RlxIrNode *node)
{
  const RlxFftAttrs *attrs = rlx_fft_attrs (node);
  RlxBuilder *b = rlx_gradient_get_builder (self);
  const RlxTensorType *type = &node->inputs[0]->type;
  gboolean planar = attrs->layout == RLX_COMPLEX_LAYOUT_PLANAR;
  gint64 before[RLX_MAX_DIMS] = { 0, }, after[RLX_MAX_DIMS] = { 0, }, n;
  RlxTensorType numbers = *type;
  RlxFftAttrs other = *attrs;
  RlxIrValue *g;
  guint axis, at;

  if (attrs->axes.n_values > 1)
    {
      rlx_gradient_expand (self, node);
      return;
    }
  if (!rlx_gradient_wants (self, node, 0))
    return;

  g = rlx_build_as (b, rlx_gradient_get (self, node, 0), RLX_DATA_TYPE_F32);
  if (has_complex_operand (node->op))
    remove_parts (&numbers, attrs->layout);
  axis = rlx_type_get_axis (&numbers, attrs->axes.n_values > 0 ? attrs->axes.values[0] : -1);
  at = axis + (planar && has_complex_operand (node->op) ? 1 : 0);   /* the same in the operand */
  if (attrs->lengths.n_values > 0)
    n = attrs->lengths.values[0];
  else
    n = node->op->id == RLX_OP_ID_IRFFT ? node->outputs[0].type.shape[axis] : type->shape[at];

  if (attrs->norm != RLX_FOURIER_NORM_ORTHO)
    other.norm = attrs->norm == RLX_FOURIER_NORM_FORWARD ? RLX_FOURIER_NORM_BACKWARD : RLX_FOURIER_NORM_FORWARD;
  other.lengths = RLX_INTS (&n, 1);
  switch (node->op->id)
    {
    case RLX_OP_ID_IFFT:
      g = rlx_build_fft (b, g, &other);
      break;
    case RLX_OP_ID_RFFT:
      g = rlx_build_ifft (b, g, &other);
      numbers.shape[axis] = n;
      g = rlx_build_part (b, g, planar ? 0 : -1, 0, 1);
      if (g != NULL)
        g = rlx_build_shaped (b, g, numbers.shape, numbers.n_dims);
      break;
    case RLX_OP_ID_IRFFT:
      g = rlx_build_rfft (b, g, &other);
      g = rlx_build_mul (b, g, count_conjugates (b, (guint64) n, type->n_dims - 1 - at));
      break;
    case RLX_OP_ID_FFT:
    default:
      g = rlx_build_ifft (b, g, &other);
      break;
    }
  if (g == NULL)
    return;
  /* what was cut off has no gradient, and that of padding is not needed */
  after[at] = type->shape[at] - g->type.shape[at];
  if (after[at] != 0)
    g = rlx_build_pad (b, g, NULL, RLX_PAD_ATTRS (.before = RLX_INTS (before, type->n_dims), .after = RLX_INTS (after, type->n_dims)));
  rlx_gradient_add (self, node, 0, g);
}
