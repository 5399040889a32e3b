/* SPDX-FileCopyrightText: The rlx-wgpu authors
 * SPDX-License-Identifier: LGPL-2.1-or-later
 *
 * Fourier transforms, from their definition.
 */
#include "config.h"
#include "rlx-reference-private.h"

#include <math.h>
#include <string.h>

void
rlx_reference_numbers_init (RlxReferenceNumbers *self,
                            const gint64        *shape,
                            gsize                n_dims)
{
  self->n_dims = n_dims;
  self->n_elements = 1;
  for (gsize i = 0; i < n_dims; i++)
    {
      self->shape[i] = shape[i];
      self->n_elements *= (gsize) shape[i];
    }
  self->re = g_new0 (double, self->n_elements + 1);
  self->im = g_new0 (double, self->n_elements + 1);
  self->bounds = g_new0 (double, self->n_elements + 1);
}

void
rlx_reference_numbers_clear (RlxReferenceNumbers *self)
{
  g_free (self->re);
  g_free (self->im);
  g_free (self->bounds);
}

const char *
rlx_reference_get_text (RlxReferenceCall *call,
                        const char       *name)
{
  g_autoptr(GVariant) value = g_variant_lookup_value (call->attributes, name, G_VARIANT_TYPE_STRING);

  return value != NULL ? g_intern_string (g_variant_get_string (value, NULL)) : "";
}

gsize
rlx_reference_find_part (gboolean planar,
                         gsize    i,
                         gsize    n,
                         gsize    part)
{
  return planar ? part * n + i : 2 * i + part;
}

double
rlx_reference_get_norm (RlxReferenceCall *call,
                        gboolean          inverse,
                        gsize             n)
{
  const char *norm = rlx_reference_get_text (call, "norm");

  if (strcmp (norm, "ortho") == 0)
    return 1 / sqrt ((double) n);
  return (strcmp (norm, "forward") == 0) != inverse ? 1 / (double) n : 1;
}

void
rlx_reference_transform (RlxReferenceNumbers *x,
                         gsize                axis,
                         gsize                n,
                         gsize                wanted,
                         gboolean             hermitian,
                         double               sign,
                         double               scale)
{
  gsize given = (gsize) x->shape[axis], inner = 1, outer = 1;
  g_autofree double *re = g_new (double, n), *im = g_new (double, n);
  g_autofree double *cosines = g_new (double, n), *sines = g_new (double, n);
  gint64 shape[RLX_MAX_DIMS];
  RlxReferenceNumbers y;

  for (gsize i = 0; i < x->n_dims; i++)
    {
      shape[i] = i == axis ? (gint64) wanted : x->shape[i];
      if (i < axis)
        outer *= (gsize) x->shape[i];
      else if (i > axis)
        inner *= (gsize) x->shape[i];
    }
  rlx_reference_numbers_init (&y, shape, x->n_dims);
  for (gsize i = 0; i < n; i++)
    {
      cosines[i] = cos (2.0 * G_PI * (double) i / (double) n);
      sines[i] = sign * sin (2.0 * G_PI * (double) i / (double) n);
    }

  for (gsize row = 0; row < outer * inner; row++)
    {
      gsize from = row / inner * given * inner + row % inner, to = row / inner * wanted * inner + row % inner;
      double square = 0, errors = 0, bound;

      for (gsize j = 0; j < n; j++)
        {
          gboolean mirrored = hermitian && j > n / 2;
          gsize at = mirrored ? n - j : j;

          re[j] = at < given ? x->re[from + at * inner] : 0;
          im[j] = at < given ? (mirrored ? -1 : 1) * x->im[from + at * inner] : 0;
          square += re[j] * re[j] + im[j] * im[j];
          if (at < given)
            errors += 2 * x->bounds[from + at * inner];
        }
      bound = scale * (errors + 4 * RLX_F32_EPSILON * (8 + log2 ((double) n)) * sqrt ((double) n) * (sqrt (square) + errors));
      for (gsize k = 0; k < wanted; k++)
        {
          double sum_re = 0, sum_im = 0;

          for (gsize j = 0; j < n; j++)
            {
              double c = cosines[j * k % n], s = sines[j * k % n];

              sum_re += re[j] * c - im[j] * s;
              sum_im += re[j] * s + im[j] * c;
            }
          y.re[to + k * inner] = scale * sum_re;
          y.im[to + k * inner] = scale * sum_im;
          y.bounds[to + k * inner] = bound;
        }
    }

  rlx_reference_numbers_clear (x);
  *x = y;
}

static void
fourier (RlxReferenceCall *call)
{
  const RlxReferenceValue *x = call->inputs[0];
  RlxReferenceValue *y = call->output;
  gboolean to_complex = strcmp (call->op, "rfft") == 0, to_real = strcmp (call->op, "irfft") == 0;
  gboolean inverse = to_real || strcmp (call->op, "ifft") == 0, planar = strcmp (rlx_reference_get_text (call, "layout"), "planar") == 0;
  gint64 axes[RLX_MAX_DIMS] = { -1 }, lengths[RLX_MAX_DIMS];
  gsize n_axes, n_lengths;
  RlxReferenceNumbers numbers;

  if (!rlx_reference_get_ints (call, "axes", axes, &n_axes) || n_axes == 0)
    {
      axes[0] = -1;
      n_axes = 1;
    }
  if (!rlx_reference_get_ints (call, "lengths", lengths, &n_lengths))
    n_lengths = 0;
  if (y->n_elements == 0)
    return;

  if (to_complex)
    rlx_reference_numbers_init (&numbers, x->shape, x->n_dims);
  else
    rlx_reference_numbers_init (&numbers, x->shape + (planar ? 1 : 0), x->n_dims - 1);
  for (gsize i = 0; i < numbers.n_elements; i++)
    {
      gsize at = to_complex ? i : rlx_reference_find_part (planar, i, numbers.n_elements, 0);

      numbers.re[i] = x->values[at];
      numbers.bounds[i] = x->bounds[at];
      if (!to_complex)
        {
          at = rlx_reference_find_part (planar, i, numbers.n_elements, 1);
          numbers.im[i] = x->values[at];
          numbers.bounds[i] = MAX (numbers.bounds[i], x->bounds[at]);
        }
    }

  for (gsize i = 0; i < n_axes; i++)
    {
      /* real numbers become complex along the last axis first */
      gsize which = to_complex ? n_axes - 1 - i : i;
      gboolean last = which == n_axes - 1;
      gsize axis = (gsize) (axes[which] < 0 ? axes[which] + (gint64) numbers.n_dims : axes[which]);
      gsize n = (gsize) numbers.shape[axis];

      if (n_lengths > 0)
        n = (gsize) lengths[which];
      else if (to_real && last)
        n = 2 * (n - 1);
      rlx_reference_transform (&numbers, axis, n, to_complex && last ? n / 2 + 1 : n, to_real && last, inverse ? 1 : -1,
                               rlx_reference_get_norm (call, inverse, n));
    }

  for (gsize i = 0; i < numbers.n_elements; i++)
    {
      gsize at = to_real ? i : rlx_reference_find_part (planar, i, numbers.n_elements, 0);

      y->values[at] = numbers.re[i];
      y->bounds[at] = numbers.bounds[i];
      if (!to_real)
        {
          at = rlx_reference_find_part (planar, i, numbers.n_elements, 1);
          y->values[at] = numbers.im[i];
          y->bounds[at] = numbers.bounds[i];
        }
    }
  rlx_reference_numbers_clear (&numbers);
}

const RlxReferenceRow rlx_reference_fourier[] = {
  { "fft", fourier },
  { "ifft", fourier },
  { "rfft", fourier },
  { "irfft", fourier },
  { NULL, NULL }
};
